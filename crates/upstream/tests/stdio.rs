//! Targets that are children: well behaved, clumsy and hostile.

mod common;

use common::*;
use std::time::{Duration, Instant};
use transom_protocol::Era;
use transom_upstream::tuning::Tuning;
use transom_upstream::{CallError, EraChoice, FromTarget, Secret, SessionKey, Sessions, Status, Target, TargetSpec, Transport};

/// A legacy server; what it does when called is named by the tool. Arguments: `exit` ends it when it is probed, `silent`
/// ignores the probe, `modern` answers it, `late` does so too, but starts slowly and keeps to the era it was first spoken to in.
const SERVER: &str = r#"
import json, os, signal, subprocess, sys, threading, time
mode = sys.argv[1] if len(sys.argv) > 1 else ""
calls = 0
def put(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
def send(message):
    put(json.dumps(message))
def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})
def text(value):
    return {"content": [{"type": "text", "text": value}]}
held = []
if mode == "late":
    time.sleep(2)
for line in sys.stdin:
    m = json.loads(line)
    method, params = m.get("method"), m.get("params", {})
    if method == "server/discover":
        if mode == "exit":
            sys.exit(3)
        if mode == "silent":
            continue
        if mode in ("modern", "late"):
            answer(m, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}}})
        else:
            send({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "Method not found"}})
    elif method == "initialize" and mode == "late":
        send({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32022, "message": "serving the 2026-07-28 protocol"}})
    elif method == "initialize":
        answer(m, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}, "instructions": "be nice"})
    elif method == "tools/list":
        answer(m, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
    elif method in ("resources/list", "resources/templates/list", "ping"):
        answer(m, {})
    elif method == "subscriptions/listen":
        for uri in params["notifications"]["resourceSubscriptions"]:
            send({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
    elif method == "notifications/cancelled":
        held.append(params["requestId"])
    elif method == "tools/call":
        calls += 1
        name, args = params["name"], params.get("arguments", {})
        if name == "echo":
            answer(m, {"params": params})
        elif name == "pid":
            answer(m, text(str(os.getpid())))
        elif name == "calls":
            answer(m, text(str(calls)))
        elif name == "env":
            answer(m, {"env": dict(os.environ)})
        elif name == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "exit":
            sys.exit(7)
        elif name == "hang":
            pass
        elif name == "held":
            answer(m, {"held": held})
        elif name == "late":
            time.sleep(args["s"]); answer(m, {})
        elif name == "garbage":
            for bad in ["npm WARN deprecated", "\ufeff", "[1,2]", '{"foo":1}', "", "\x00\x01"]:
                put(bad)
            put("\ufeff" + json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {}}) + "\r")
        elif name == "flood":
            for _ in range(args["n"]):
                put("nonsense")
        elif name == "half":
            whole = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"whole": True}})
            sys.stdout.write(whole[:20]); sys.stdout.flush(); time.sleep(0.1); put(whole[20:])
        elif name == "halfdie":
            sys.stdout.write('{"jsonrpc"'); sys.stdout.flush(); os._exit(1)
        elif name == "huge":
            sys.stdout.write("x" * args["n"]); put("")
        elif name == "deaf":
            answer(m, {}); time.sleep(60)
        elif name == "twice":
            answer(m, {}); answer(m, {})
        elif name == "others":
            for n in range(args["n"]):
                send({"jsonrpc": "2.0", "id": n, "result": {}})
            answer(m, {})
        elif name == "both":
            send({"jsonrpc": "2.0", "id": m["id"], "result": {}, "error": {}})
        elif name == "deep":
            put('{"jsonrpc":"2.0","id":"%s","result":%s%s}' % (m["id"], "[" * 100, "]" * 100))
        elif name == "progress":
            token = params.get("_meta", {}).get("progressToken")
            for n in range(args["n"]):
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}})
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "someone", "progress": 1}})
            answer(m, {})
        elif name == "null":
            answer(m, None)
        elif name == "log":
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "said once"}})
            answer(m, {})
        elif name == "ask":
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "secret of a session"}})
            send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "sure?"}})
            reply = json.loads(sys.stdin.readline())
            answer(m, {"reply": reply})
        elif name == "stderr":
            sys.stderr.write("\x1b[31mred" * 100000 + "\n" + "line\n" * args["n"]); sys.stderr.flush()
            answer(m, {})
        elif name == "grandchild":
            child = subprocess.Popen([sys.executable, "-c", "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"], stdin=subprocess.DEVNULL)
            answer(m, text(str(child.pid)))
        elif name == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            answer(m, {})
            time.sleep(600)
"#;

fn server(args: &[&str]) -> TargetSpec {
    spec("child", python(SERVER, args))
}

fn text_of(result: &str) -> String {
    result.split("\"text\": \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

fn alive(pid: &str) -> bool {
    // A zombie is dead; only its status is left.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_child_is_probed_shaken_hands_with_and_called() {
    for (mode, era) in [("", Era::Legacy), ("exit", Era::Legacy), ("silent", Era::Legacy), ("modern", Era::Modern), ("late", Era::Modern)] {
        let probe = Duration::from_millis(if ["silent", "late"].contains(&mode) { 500 } else { 5000 });
        let subject = Subject::start(server(&[mode]), Tuning { probe, ..quick() });
        let offer = subject.connected().await.offer.clone().unwrap();
        assert_eq!((offer.era, offer.tools.len()), (era, 1), "{mode}");
        let result = subject.call("echo", r#"{"n":1}"#).await.unwrap();
        assert!(result.contains(r#""arguments": {"n": 1}"#), "{result}");
        assert_eq!(result.contains("io.modelcontextprotocol/protocolVersion"), era == Era::Modern, "{result}");
        subject.target.close().await;
        assert_eq!(subject.state().status, Status::Unavailable);
    }
}

// H1: one child, many callers, no answer goes astray
#[tokio::test]
async fn many_calls_share_one_child_and_each_gets_its_own_answer() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    let calls = (0..200).map(|n| {
        let subject = &subject;
        async move { (n, subject.call("echo", &format!(r#"{{"nonce":{n}}}"#)).await.unwrap()) }
    });
    for (n, result) in futures_util::future::join_all(calls).await {
        assert!(result.contains(&format!(r#"{{"nonce": {n}}}"#)), "{n}: {result}");
    }
    assert_eq!(subject.target.in_flight(), 0);
}

// K1
#[tokio::test]
async fn a_child_that_dies_loses_its_calls_at_once_and_is_started_anew() {
    let subject = Subject::start(server(&[]), Tuning { circuit_delay: Duration::from_millis(50), ..quick() });
    for n in 1..=5 {
        subject.connected().await;
        let first = text_of(&subject.call("pid", "{}").await.unwrap());
        let begin = Instant::now();
        let (waiting, died) = tokio::join!(subject.call("hang", "{}"), subject.call(if n % 2 == 0 { "exit" } else { "die" }, "{}"));
        assert!(matches!(waiting, Err(CallError::Lost(_))), "{waiting:?}");
        assert!(matches!(died, Err(CallError::Lost(_))), "{died:?}");
        let state = subject.until("seen", |state| state.restarts == n).await;
        assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
        assert!(state.last_error.as_ref().unwrap().contains("the child ended"), "{state:?}");
        assert!(!alive(&first));
        // T7: back in service soon, though not so soon once the circuit is open
        subject.connected().await;
    }
    assert_eq!(*subject.host.losses.lock().unwrap(), 5);
}

// K2
#[tokio::test]
async fn closing_ends_the_child_and_everything_it_started_however_stubborn() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    let grandchild = text_of(&subject.call("grandchild", "{}").await.unwrap());
    let child = text_of(&subject.call("pid", "{}").await.unwrap());
    subject.call("stubborn", "{}").await.unwrap();
    assert!(alive(&grandchild) && alive(&child));
    let begin = Instant::now();
    subject.target.close().await;
    assert!(begin.elapsed() >= Duration::from_millis(550) && begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    eventually("dead", || !alive(&grandchild) && !alive(&child)).await;
}

// K2: a crash leaves nothing behind either
#[tokio::test]
async fn a_dead_childs_children_die_too() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    let grandchild = text_of(&subject.call("grandchild", "{}").await.unwrap());
    assert!(alive(&grandchild));
    let _lost = subject.call("die", "{}").await;
    eventually("dead", || !alive(&grandchild)).await;
}

// K2: nobody asked, everything is gone
#[test]
fn a_runtime_that_ends_takes_its_children_along() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (child, grandchild) = runtime.block_on(async {
        let subject = Subject::start(server(&[]), quick());
        subject.connected().await;
        let grandchild = text_of(&subject.call("grandchild", "{}").await.unwrap());
        (text_of(&subject.call("pid", "{}").await.unwrap()), grandchild)
    });
    drop(runtime);
    let begin = Instant::now();
    while alive(&child) || alive(&grandchild) {
        assert!(begin.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(5));
    }
}

// K13, K12, section 0.7: no shell, a small environment, no core files
#[tokio::test]
async fn a_child_sees_what_it_was_given_and_nothing_else() {
    let subject = Subject::start(server(&["$(touch /tmp/never) ; `id`"]), quick());
    subject.connected().await;
    let result = subject.call("env", "{}").await.unwrap();
    // Shells around python3 set variables of their own.
    let theirs =
        |name: &str| name.starts_with("PYENV") || ["PWD", "OLDPWD", "SHLVL", "_", "PATH", "HOME", "LANG", "TZ", "TMPDIR", "LC_CTYPE"].contains(&name);
    let leaked: Vec<String> =
        std::env::vars().map(|(name, _)| name).filter(|name| !theirs(name) && result.contains(&format!("\"{name}\": "))).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    assert!(result.contains("\"MARK\": \"a-marked-value\""));
    let pid = text_of(&subject.call("pid", "{}").await.unwrap());
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core: Vec<&str> = limits.lines().find(|line| line.starts_with("Max core")).unwrap().split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "{core:?}");
}

// K4
#[tokio::test]
async fn a_flood_on_stderr_blocks_nobody() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    let begin = Instant::now();
    subject.call("stderr", r#"{"n":200000}"#).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5));
    subject.call("echo", "{}").await.unwrap();
}

// K5
#[tokio::test]
async fn garbage_is_skipped_and_counted_and_too_much_of_it_ends_the_child() {
    let subject = Subject::start(server(&[]), Tuning { garbage: 50, ..quick() });
    subject.connected().await;
    subject.call("garbage", "{}").await.unwrap();
    assert_eq!(subject.host.count("garbage"), 4, "an empty line is no garbage, with or without a byte order mark");
    assert_eq!(subject.state().restarts, 0);
    let outcome = subject.call("flood", r#"{"n":50}"#).await;
    assert!(matches!(outcome, Err(CallError::Lost(_))), "{outcome:?}");
    subject.until("restarted", |state| state.restarts == 1).await;
    subject.connected().await;
}

// K6
#[tokio::test]
async fn half_a_line_is_kept_until_the_rest_comes_and_dropped_if_it_never_does() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    assert_eq!(subject.call("half", "{}").await.unwrap(), r#"{"whole": true}"#);
    assert!(matches!(subject.call("halfdie", "{}").await, Err(CallError::Lost(_))));
}

// K7
#[tokio::test]
async fn an_endless_line_fails_those_who_may_wait_for_it_and_the_child_lives_on() {
    let subject = Subject::start(server(&[]), Tuning { message: 1 << 20, ..quick() });
    subject.connected().await;
    let (hanging, huge) = tokio::join!(subject.call("hang", "{}"), subject.call("huge", r#"{"n":5000000}"#));
    assert!(matches!(hanging, Err(CallError::Invalid(_))), "{hanging:?}");
    assert!(matches!(huge, Err(CallError::Invalid(_))), "{huge:?}");
    subject.call("echo", "{}").await.unwrap();
    assert_eq!((subject.state().restarts, subject.host.count("overlong_message")), (0, 1));
}

// K8
#[tokio::test]
async fn a_child_that_never_answers_is_given_up_and_tried_again() {
    let tuning = Tuning { handshake: Duration::from_millis(400), probe: Duration::from_millis(100), ..quick() };
    let subject = Subject::start(spec("mute", python("import sys\nfor line in sys.stdin: pass", &[])), tuning);
    let state = subject.until("given up", |state| state.settled).await;
    assert!(state.last_error.as_ref().unwrap().contains("handshake"), "{state:?}");
    eventually("again", || subject.host.connects.lock().unwrap().len() >= 2).await;
}

// K9
#[tokio::test]
async fn a_child_that_stops_reading_is_started_anew() {
    let subject = Subject::start(server(&[]), Tuning { write: Duration::from_millis(300), ..quick() });
    subject.connected().await;
    subject.call("deaf", "{}").await.unwrap();
    let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(1 << 20));
    let begin = Instant::now();
    let (outcome, other) = tokio::join!(subject.call("echo", &large), subject.call("echo", "{}"));
    assert!(matches!(outcome, Err(CallError::Lost(_))), "{outcome:?}");
    assert!(matches!(other, Err(CallError::Lost(_))), "{other:?}");
    assert!(begin.elapsed() < Duration::from_secs(2));
    subject.until("restarted", |state| state.restarts == 1 && state.status == Status::Connected).await;
}

// K10, L2
#[tokio::test]
async fn a_call_without_answer_is_cancelled_with_our_id_and_its_late_answer_is_no_fault() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    let mut request = call("late", r#"{"s":0.2}"#);
    request.timeout = Duration::from_millis(50);
    assert_eq!(subject.target.call(request).await, Err(CallError::TimedOut(Duration::from_millis(50))));
    let _dropped = tokio::time::timeout(Duration::from_millis(50), subject.call("late", r#"{"s":0.2}"#)).await;
    let held = subject.call("held", "{}").await.unwrap();
    assert_eq!(held.matches('"').count(), 2 + 2 * 2, "{held}");
    assert_eq!(subject.host.count("unknown_id"), 0);
    assert_eq!(subject.state().restarts, 0);
}

// K10: ten in a row are looked into
#[tokio::test]
async fn a_child_that_times_out_again_and_again_is_pinged_and_started_anew_if_silent() {
    let tuning = Tuning { timeouts: 3, ping_timeout: Duration::from_millis(100), ..quick() };
    let subject = Subject::start(server(&[]), tuning);
    subject.connected().await;
    let slow = |name: &'static str| {
        let mut request = call(name, "{}");
        request.timeout = Duration::from_millis(40);
        subject.target.call(request)
    };
    for _ in 0..5 {
        let _timed_out = slow("hang").await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(subject.state().restarts, 0, "it answers pings");
    subject.call("deaf", "{}").await.unwrap();
    for _ in 0..4 {
        let _timed_out = slow("echo").await;
    }
    subject.until("restarted", |state| state.restarts == 1).await;
}

// E9
#[tokio::test]
async fn answers_nobody_asked_for_are_dropped_and_too_many_end_the_connection() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    subject.call("twice", "{}").await.unwrap();
    subject.call("echo", "{}").await.unwrap();
    assert_eq!(subject.host.count("unknown_id"), 1);
    for name in ["both", "deep", "null"] {
        assert!(matches!(subject.call(name, "{}").await, Err(CallError::Invalid(_))), "{name}");
    }
    let _either = subject.call("others", r#"{"n":9}"#).await;
    subject.until("restarted", |state| state.restarts == 1).await;
    assert_eq!(subject.host.count("unknown_id"), 10);
}

// E11, K11
#[tokio::test]
async fn progress_goes_to_its_call_and_a_flood_of_it_is_cut() {
    let subject = Subject::start(server(&[]), quick());
    subject.connected().await;
    let (request, outbox) = listened("progress", r#"{"n":60}"#, "7");
    subject.target.call(request).await.unwrap();
    let mut count = 0;
    while let Some(FromTarget::Notification(text)) = outbox.try_next() {
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains(r#""progressToken":7,"#), "{text}");
        count += 1;
    }
    assert_eq!((count, subject.host.count("notification_flood"), subject.host.count("unknown_token")), (50, 10, 1));
}

// E10, H12
#[tokio::test]
async fn a_shared_child_asks_nobody_and_a_private_one_its_own_client() {
    let shared = Subject::start(TargetSpec { allow_server_requests: true, ..server(&[]) }, quick());
    shared.connected().await;
    let (request, outbox) = listened("ask", "{}", "1");
    let reply = String::from_utf8(shared.target.call(request).await.unwrap().to_vec()).unwrap();
    assert!(reply.contains("-32601"), "{reply}");
    assert!(outbox.try_next().is_none());

    let private = Subject::start(TargetSpec { allow_server_requests: true, sessions: Sessions::PerSession, ..server(&[]) }, quick());
    private.connected().await;
    let (mut request, outbox) = listened("ask", "{}", "1");
    request.caller.session = Some(SessionKey(1));
    let client = async {
        let FromTarget::Notification(log) = outbox.next().await else { panic!() };
        assert!(log.windows(6).any(|part| part == b"secret"));
        let FromTarget::Request { method, answer, .. } = outbox.next().await else { panic!() };
        assert_eq!(method, "elicitation/create");
        answer.send(Ok(r#"{"action":"accept"}"#.into())).unwrap();
    };
    let (result, ()) = tokio::join!(private.target.call(request), client);
    assert!(result.unwrap().windows(6).any(|part| part == b"accept"));
}

// A child does not say which call a message is about, and a client that gets it twice cannot tell it from two.
#[tokio::test]
async fn what_a_private_child_says_goes_to_the_oldest_call_that_someone_listens_to_and_to_no_other() {
    let subject = Subject::start(TargetSpec { sessions: Sessions::PerSession, ..server(&[]) }, quick());
    subject.connected().await;
    let in_session = |name: &str| {
        let (mut request, outbox) = listened(name, "{}", "1");
        request.caller.session = Some(SessionKey(1));
        (request, outbox)
    };
    let (mut deaf, _) = in_session("hang");
    deaf.outbox = None;
    let (older, older_outbox) = in_session("hang");
    let (younger, younger_outbox) = in_session("log");
    let mut running = Vec::new();
    for request in [deaf, older] {
        let target = subject.target.clone();
        running.push(tokio::spawn(async move { target.call(request).await }));
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    subject.target.call(younger).await.unwrap();
    assert!(matches!(older_outbox.try_next(), Some(FromTarget::Notification(_))));
    assert!(older_outbox.try_next().is_none());
    assert!(younger_outbox.try_next().is_none());
    running.iter().for_each(tokio::task::JoinHandle::abort);
}

// H12
#[tokio::test]
async fn each_session_has_a_child_of_its_own_that_ends_with_it() {
    let subject = Subject::start(TargetSpec { sessions: Sessions::PerSession, ..server(&[]) }, quick());
    subject.connected().await;
    let in_session = |key: Option<u128>, name: &str| {
        let mut request = call(name, "{}");
        request.caller.session = key.map(SessionKey);
        let target: Target = subject.target.clone();
        async move { String::from_utf8(target.call(request).await.unwrap().to_vec()).unwrap() }
    };
    let (a, b) = tokio::join!(in_session(Some(1), "pid"), in_session(Some(1), "pid"));
    assert_eq!(a, b, "two first calls connect once");
    let other = in_session(Some(2), "pid").await;
    assert_ne!(a, other);
    assert!(in_session(Some(1), "calls").await.contains("\"3\""));
    assert!(in_session(Some(2), "calls").await.contains("\"2\""));
    assert!(in_session(None, "calls").await.contains("\"1\""));
    let lone = text_of(&in_session(None, "pid").await);
    eventually("gone", || !alive(&lone)).await;
    let (a, other) = (text_of(&a), text_of(&other));
    subject.target.end_session(SessionKey(1));
    eventually("ended", || !alive(&a)).await;
    assert!(alive(&other));
    subject.target.close().await;
    eventually("ended", || !alive(&other)).await;
}

#[tokio::test]
async fn an_idle_session_gives_its_child_back_and_sessions_are_bounded() {
    let tuning = Tuning { session_idle: Duration::from_millis(150), sessions: 1, ..quick() };
    let subject = Subject::start(TargetSpec { sessions: Sessions::PerSession, ..server(&[]) }, tuning);
    subject.connected().await;
    let in_session = |key: u128| {
        let mut request = call("pid", "{}");
        request.caller.session = Some(SessionKey(key));
        subject.target.call(request)
    };
    let first = text_of(std::str::from_utf8(&in_session(1).await.unwrap()).unwrap());
    assert_eq!(in_session(2).await, Err(CallError::Overloaded));
    eventually("idle", || !alive(&first)).await;
    in_session(2).await.unwrap();
}

#[tokio::test]
async fn a_modern_child_is_listened_to() {
    let subject = Subject::start(server(&["modern"]), quick());
    subject.connected().await;
    subject.target.subscribe_to(vec!["file:///a".into()]);
    eventually("told", || subject.host.updates.lock().unwrap().contains(&r#"{"uri": "file:///a"}"#.to_owned())).await;
    subject.target.subscribe_to(vec!["file:///b".into()]);
    eventually("told", || subject.host.updates.lock().unwrap().contains(&r#"{"uri": "file:///b"}"#.to_owned())).await;
    let held = subject.call("held", "{}").await.unwrap();
    assert!(held.matches('"').count() >= 4, "the old subscriptions were taken back: {held}");
}

#[tokio::test]
async fn what_cannot_be_started_is_named_with_its_reason() {
    for (cmd, what) in [("no-such-program-anywhere", "no such file"), ("/etc/passwd", "permission denied")] {
        let transport = Transport::Stdio {
            cmd: cmd.into(),
            args: vec![],
            env: vec![("KEY".into(), Secret::new("s3cr3t-value"))],
            cwd: None,
            limits: Default::default(),
        };
        let subject = Subject::start(spec("missing", transport), quick());
        let state = subject.until("tried", |state| state.settled).await;
        let error = state.last_error.clone().unwrap();
        assert!(error.contains(cmd) && error.contains(what) && !error.contains("s3cr3t"), "{error}");
    }
    let subject = Subject::start(TargetSpec { era: EraChoice::Modern, ..server(&[]) }, quick());
    let state = subject.until("refused", |state| state.settled).await;
    assert!(state.last_error.as_ref().unwrap().contains("2026-07-28"), "{state:?}");
}

/// Not a test: the process that `a_killed_gateway_leaves_no_children` kills.
#[test]
#[ignore = "started by another test"]
fn gateway_to_be_killed() {
    // Several workers, so that the thread that asked for the child is likely not the one that stays.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let subject = Subject::start(server(&[]), quick());
        subject.connected().await;
        println!("\nPID {}", text_of(&subject.call("pid", "{}").await.unwrap()));
        std::future::pending::<()>().await;
    });
}

// K3
#[test]
fn a_killed_gateway_leaves_no_children() {
    use std::io::{BufRead, BufReader};
    let mut gateway = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "gateway_to_be_killed", "--ignored", "--nocapture"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(gateway.stdout.take().unwrap()).lines();
    let pid = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("PID ").map(str::to_owned)).unwrap();
    assert!(alive(&pid));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    let begin = Instant::now();
    while alive(&pid) {
        assert!(begin.elapsed() < Duration::from_secs(2));
        std::thread::sleep(Duration::from_millis(5));
    }
}
