//! Group K: children that crash, hang, babble and refuse to die.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use transom_tests::stdio::journal;
use transom_tests::*;

struct Notes {
    _folder: TempDir,
    path: PathBuf,
    once: PathBuf,
}

fn notes() -> Notes {
    let folder = tempfile::tempdir().unwrap();
    Notes { path: folder.path().join("journal"), once: folder.path().join("once"), _folder: folder }
}

impl Notes {
    fn starts(&self) -> usize {
        journal(&self.path, "start").len()
    }
}

// K1
#[tokio::test]
async fn a_crash_during_a_call_is_told_at_once_and_healed_within_a_second() {
    for (moment, ending) in
        [("call", json!({"exit": 1})), ("call", json!({"signal": 11})), ("call", json!({"signal": 9})), ("line", json!({"exit": 0}))]
    {
        let notes = notes();
        let mut behaviour = json!({"crash": moment, "crashOnce": notes.once, "journal": notes.path});
        behaviour.as_object_mut().unwrap().extend(ending.as_object().unwrap().clone());
        let fine = target("fine").tool("add", []);
        let gateway = gateway().stdio("child", behaviour).target(&fine).start().await;
        let client = gateway.client().await;
        let start = Instant::now();
        let reply = client.call("echo", json!({})).await;
        reply.failed(1003, json!("unknown"));
        assert_eq!(reply.error()["data"]["server"], "child");
        assert!(start.elapsed() < Duration::from_secs(2), "{moment} {ending}: {:?}", start.elapsed());
        client.call("add", json!({})).await.result();
        let took =
            within(Duration::from_secs(10), "the child is back", || async { client.call("echo", json!({})).await.message.get("result").is_some() })
                .await;
        assert!(took < Duration::from_secs(2), "{moment} {ending}: back after {took:?}");
        assert_eq!(notes.starts(), 2);
        // N8: what may have run is not run again.
        assert!(journal(&notes.path, "call").len() >= 2);
    }
}

// K1
#[tokio::test]
async fn a_crash_at_rest_is_healed() {
    let notes = notes();
    let fine = target("fine").tool("add", []);
    let gateway = gateway()
        .stdio("child", json!({"crash": "idle", "idleMs": 1500, "crashOnce": notes.once, "journal": notes.path}))
        .target(&fine)
        .start()
        .await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["add", "echo"]);
    eventually("it was started again", || async { notes.starts() == 2 }).await;
    gateway.until_listed(&["add", "echo"]).await;
    let status = gateway.get("/status").await.json();
    assert_eq!(status["servers"]["child"]["restarts"], 1, "{status}");
}

// K1: a child that cannot start is not started for ever.
#[tokio::test]
async fn a_child_that_never_starts_is_tried_less_and_less() {
    let notes = notes();
    let fine = target("fine").tool("add", []);
    let gateway = gateway().stdio("child", json!({"crash": "start", "journal": notes.path})).target(&fine).start().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Each attempt may start it twice: some servers end when they are asked for an era they do not know.
    assert!((2..=16).contains(&notes.starts()), "{} starts in five seconds", notes.starts());
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["add"]);
    client.call("add", json!({})).await.result();
    // Between two attempts, that is.
    eventually("`child` is unavailable", async || gateway.state_of("child").await == "unavailable").await;
}

// K1, T7 in the small: killed again and again.
#[tokio::test]
async fn a_child_killed_again_and_again_comes_back_each_time() {
    let mark = unique("killed");
    let gateway = gateway().stdio("child", json!({"mark": mark})).start().await;
    let client = gateway.client().await;
    for round in 0..3 {
        let pids = sys::marked(&mark);
        assert_eq!(pids.len(), 1, "round {round}");
        sys::signal(pids[0].pid, 9);
        let took = within(Duration::from_secs(10), "a new child answers", || async {
            client.call("echo", json!({})).await.message.get("result").is_some()
                && sys::marked(&mark).iter().all(|process| process.pid != pids[0].pid)
        })
        .await;
        assert!(took < Duration::from_secs(3), "round {round}: {took:?}");
    }
}

// K2
#[tokio::test]
async fn a_child_that_ignores_everything_dies_with_its_children() {
    let mark = unique("stubborn");
    let notes = notes();
    let gateway = gateway()
        .stdio("child", json!({"mark": mark, "ignoreTerm": true, "ignoreEof": true, "grandchild": true, "journal": notes.path}))
        .start()
        .await;
    assert_eq!(sys::marked(&mark).len(), 2, "a child and its child");
    let start = Instant::now();
    gateway.stop().await;
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    eventually("nobody is left", || async { sys::marked(&mark).is_empty() }).await;
    assert_eq!(journal(&notes.path, "eof").len(), 1, "the end of its input came first");
}

// K2, R-001-13
#[tokio::test]
async fn a_child_that_behaves_is_asked_and_not_killed() {
    let mark = unique("polite");
    let notes = notes();
    let gateway = gateway().stdio("child", json!({"mark": mark, "journal": notes.path})).start().await;
    let pid = sys::marked(&mark)[0].pid;
    assert_eq!(sys::process(pid).unwrap().group, pid, "it leads a group of its own");
    let start = Instant::now();
    gateway.stop().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(sys::marked(&mark).is_empty());
    assert_eq!(journal(&notes.path, "eof").len(), 1);
    assert!(sys::process(pid).is_none_or(|process| process.state != 'Z'), "it was reaped");
}

// K2: a target that is removed goes the same way.
#[tokio::test]
async fn a_removed_child_is_ended() {
    let mark = unique("removed");
    let mut gateway = gateway().stdio("child", json!({"mark": mark})).start().await;
    assert_eq!(sys::marked(&mark).len(), 1);
    gateway.reconfigure(|config| config.targets.clear());
    eventually("the child is gone", || async { sys::marked(&mark).is_empty() }).await;
}

// K4
#[tokio::test]
async fn a_flood_on_standard_error_blocks_nobody() {
    let logs = logs::capture();
    let gateway = gateway().stdio("child", json!({"stderr": 1 << 20})).start().await;
    let client = gateway.client().await;
    for n in 0..50 {
        let start = Instant::now();
        assert_eq!(client.call("echo", json!({"n": n})).await.structured()["arguments"]["n"], n);
        assert!(start.elapsed() < Duration::from_secs(2));
    }
    assert!(logs.text().len() < 4 << 20, "{} bytes of log", logs.text().len());
}

// K5
#[tokio::test]
async fn garbage_on_standard_output_is_skipped() {
    let logs = logs::capture();
    let garbage = json!([
        "npm WARN deprecated x@1",
        "\u{feff}",
        "",
        "\r",
        "[1,2]",
        "{\"foo\":1}",
        "{\"jsonrpc\":\"2.0\"}",
        "\u{1b}[31mred",
        "null",
        "{\"jsonrpc\":\"2.0\",\"id\":"
    ]);
    let gateway = gateway().stdio("child", json!({"garbage": garbage})).start().await;
    let client = gateway.client().await;
    for n in 0..20 {
        assert_eq!(client.call("echo", json!({"n": n})).await.structured()["arguments"]["n"], n);
    }
    assert!(!logs.text().contains('\u{1b}'), "control characters stand in the log as they came");
    assert!(logs.lines(&["npm WARN"]).len() <= 2, "logged once a minute");
}

// K5
#[tokio::test]
async fn a_child_that_only_babbles_is_started_anew() {
    let notes = notes();
    let lines: Vec<String> = (0..1200).map(|n| format!("babble {n}")).collect();
    let gateway = gateway().stdio("child", json!({"garbage": lines, "journal": notes.path})).without_waiting().start().await;
    eventually("it was started again", || async { notes.starts() >= 2 }).await;
    assert_eq!(gateway.get("/health").await.status, 200);
}

// K6
#[tokio::test]
async fn half_a_line_waits_for_the_other_half() {
    let gateway = gateway().stdio("child", json!({"partial": 1500})).start().await;
    let reply = gateway.client().await.call("echo", json!({"q": "ü"})).await;
    assert_eq!(reply.structured()["arguments"]["q"], "ü");
}

// K7
#[tokio::test]
async fn an_endless_line_fails_the_calls_it_may_belong_to_and_nothing_after() {
    let gateway = gateway().stdio("child", json!({"endless": 40 << 20, "tools": ["echo"]})).start().await;
    let client = gateway.client().await;
    let before = sys::resident(std::process::id().try_into().unwrap());
    let start = Instant::now();
    let reply = client.call("echo", json!({})).await;
    assert_eq!(reply.error_code(), 1005, "{}", reply.raw);
    assert!(start.elapsed() < Duration::from_secs(15));
    let after = sys::resident(std::process::id().try_into().unwrap());
    assert!(after < before + (256 << 20), "{} MiB more", (after.saturating_sub(before)) >> 20);
    assert_eq!(gateway.state_of("child").await, "connected", "the reader found the next line");
    assert_eq!(client.call("echo", json!({})).await.error_code(), 1005);
}

// K8
#[tokio::test]
async fn a_child_that_never_answers_the_handshake_holds_nobody_up() {
    let fine = target("fine").tool("add", []);
    let start = Instant::now();
    let gateway = gateway().stdio("child", json!({"hang": "initialize"})).target(&fine).start().await;
    assert!(start.elapsed() < Duration::from_secs(8));
    assert_eq!(gateway.client().await.tool_names().await, ["add"]);
    assert_eq!(gateway.state_of("child").await, "connecting");
}

// K9
#[tokio::test]
async fn a_child_that_stops_reading_loses_its_calls_and_nobody_elses() {
    let notes = notes();
    let fine = target("fine").tool("add", []);
    let gateway = gateway().stdio("child", json!({"stopReading": true, "journal": notes.path})).target(&fine).start().await;
    let client = gateway.client().await;
    let mut stuck = client.start_call("echo", json!({"q": "x".repeat(1 << 20)}));
    let mut also_stuck = client.start_call("echo", json!({"q": "x".repeat(1 << 20)}));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        let start = Instant::now();
        client.call("add", json!({})).await.result();
        assert!(start.elapsed() < Duration::from_secs(1));
    }
    for call in [&mut stuck, &mut also_stuck] {
        let reply = call.reply_within(Duration::from_secs(18)).await.expect("an end within 18 seconds");
        assert!(matches!(reply.error_code(), 1002 | 1003), "{}", reply.raw);
    }
    eventually("it was started again", || async { notes.starts() >= 2 }).await;
}

// K10
#[tokio::test]
async fn a_call_that_hangs_is_cancelled_and_the_child_kept() {
    let notes = notes();
    let mut spec = stdio::spec("child", json!({"tools": ["sleep", "pid"], "journal": notes.path}));
    spec.timeout = Duration::from_millis(300);
    let gateway = gateway().spec(spec).start().await;
    let client = gateway.client().await;
    let pid = client.call("pid", json!({})).await.text();
    let reply = client.call("sleep", json!({"ms": 30_000})).await;
    reply.failed(1004, json!("unknown"));
    eventually("the child is told", || async { journal(&notes.path, "cancelled").len() == 1 }).await;
    assert_eq!(client.call("pid", json!({})).await.text(), pid);
    assert_eq!(notes.starts(), 1);
}

// K11, H11: what a child says unasked goes to nobody.
#[tokio::test]
async fn what_a_shared_child_says_unasked_reaches_no_client() {
    let gateway = gateway().stdio("child", json!({"tools": ["foreign", "log", "ask", "progress", "echo"]})).start().await;
    let (client, other) = (gateway.client().await, gateway.client().await);
    let mut stream = other.stream().await;
    let reply = client.call_with_token("foreign", json!({}), json!("someone-else")).await;
    assert_eq!(reply.text(), "done");
    assert!(reply.notifications.is_empty(), "{:?}", reply.notifications);
    let reply = client.call("log", json!({"data": "secret of another"})).await;
    assert!(reply.notifications.is_empty(), "a log message cannot be attributed: {:?}", reply.notifications);
    let reply = client.call("ask", json!({})).await;
    assert!(reply.text().contains("error"), "a request cannot be attributed: {}", reply.text());
    let reply = client.call_with_token("progress", json!({"n": 3}), json!("t")).await;
    assert_eq!(reply.notifications.len(), 3, "progress can");
    assert!(stream.drain(Duration::from_millis(200)).await.is_empty());
    // A flood is bounded.
    assert_eq!(client.call_with_token("progress", json!({"n": 20_000}), json!("t")).await.text(), "done");
    assert_eq!(client.call("echo", json!({"n": 1})).await.structured()["arguments"]["n"], 1);
}

// K13
#[tokio::test]
async fn no_shell_and_no_value_of_a_client_stands_in_a_command() {
    let mark = unique("argv");
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof");
    let mut shell = stdio::spec("shell", json!({}));
    shell.transport = transom_upstream::Transport::Stdio {
        cmd: format!("sh -c 'touch {}'", proof.display()),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
        limits: Default::default(),
    };
    let gateway = gateway().stdio("child", json!({"mark": mark, "tools": ["echo", "env"]})).spec(shell).start().await;
    let client = gateway.client().await;
    client.call("echo", json!({"q": "EVIL-VALUE; touch x", "PATH": "EVIL-VALUE"})).await.result();
    assert!(sys::marked(&mark).iter().all(|process| !process.command_line.contains("EVIL-VALUE")));
    assert!(!client.call("env", json!({"PATH": "EVIL-VALUE"})).await.text().contains("EVIL-VALUE"));
    gateway.until("shell", "unavailable").await;
    assert!(!proof.exists(), "a command is a program, not a line for a shell");
}

// security.md 4, fact 7
#[tokio::test]
async fn a_child_sees_only_the_environment_it_was_given() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the test itself has a variable to leak");
    let mut spec = stdio::spec("child", json!({"tools": ["env"]}));
    if let transom_upstream::Transport::Stdio { env, .. } = &mut spec.transport {
        env.push(("DECLARED".into(), transom_upstream::Secret::new("yes")));
    }
    let gateway = gateway().spec(spec).start().await;
    let reply = gateway.client().await.call("env", json!({})).await.text();
    let variables: Vec<(String, String)> = serde_json::from_str(&reply).unwrap();
    assert!(variables.contains(&("DECLARED".into(), "yes".into())));
    for (name, _) in &variables {
        assert!(
            ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "DECLARED"].contains(&name.as_str()) || name.starts_with("MCP_") || name.starts_with("TRANSOM_"),
            "{name} leaked"
        );
    }
}

// D9: security.md, fact 7. Root may read everything, so the gateway is somebody else here, and its child the same somebody.
#[tokio::test]
async fn a_child_reads_neither_memory_nor_variables_of_the_gateway_and_inherits_no_files() {
    if !is_root() {
        return install::skip("only root can be somebody else");
    }
    let user = somebody();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let script = r#"export LC_ALL=C; cd "$1"
        for file in environ maps mem; do cat /proc/$PPID/$file; done > parents 2> refused
        ls /proc/$PPID/fd > parents-files 2>> refused
        cat /proc/$$/environ > own
        ls -l /proc/self/fd/ > own-files
        exec "$2" "$3""#;
    let behaviour = json!({"name": "curious"}).to_string();
    let arguments = json!(["-c", script, "sh", folder.path(), stdio::binary(), behaviour]);
    let entry = json!({"name": "curious", "stdio": {"cmd": "sh", "args": arguments}});
    // A file that whoever started the gateway left open.
    let opening = ["sh", "-c", r#"exec 9</etc/passwd; exec "$@""#, "sh", "setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let process = process().entry(entry).env("CANARY", "in-the-gateway").under(&opening);
    let process = process.start_ready().await;
    process.client().await.call("echo", json!({"n": 1})).await.result();
    let said = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((said("parents"), said("parents-files")), (String::new(), String::new()));
    assert_eq!(said("refused").matches("Permission denied").count(), 4, "{}", said("refused"));
    assert!(said("own").contains("PATH=") && !said("own").contains("CANARY"), "{}", said("own"));
    // `ls` has a folder open.
    let files = said("own-files");
    let of_child: Vec<(&str, &str)> =
        files.lines().filter_map(|line| line.rsplit_once(' ')?.0.rsplit(' ').nth(1).zip(line.split(" -> ").nth(1))).collect();
    assert!(of_child.len() >= 3, "{files}");
    assert!(of_child.iter().all(|(number, file)| ["0", "1", "2"].contains(number) || file.starts_with("/proc/")), "{files}");
}

// K12
#[tokio::test]
async fn a_child_is_held_to_its_limits_and_gains_no_rights() {
    let mut spec = stdio::spec("child", json!({"tools": ["limits"]}));
    if let transom_upstream::Transport::Stdio { limits, .. } = &mut spec.transport {
        *limits =
            transom_upstream::ChildLimits { memory: Some(2 << 30), processes: Some(5000), files: Some(200), cpu: Some(Duration::from_secs(600)) };
    }
    let gateway = gateway().spec(spec).stdio("free", json!({"tools": ["unlimited", "limits"]})).start().await;
    let client = gateway.client().await;
    let limits = client.call("child__limits", json!({})).await.text();
    let line = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.trim_start_matches(name).split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, value) in [
        ("Max address space", "2147483648"),
        ("Max processes", "5000"),
        ("Max open files", "200"),
        ("Max cpu time", "600"),
        ("Max core file size", "0"),
    ] {
        assert_eq!(line(name), [value, value], "{name}: {limits}");
    }
    assert_eq!(line("NoNewPrivs:"), ["1"]);
    let free = client.call("free__limits", json!({})).await.text();
    assert!(free.lines().any(|line| line.starts_with("Max address space") && line.contains("unlimited")), "{free}");
    assert!(free.contains("NoNewPrivs:\t1"), "{free}");
}

// K12
#[tokio::test]
async fn a_child_that_takes_all_memory_dies_alone() {
    let child = json!({"name": "child", "stdio": {"cmd": stdio::binary().display().to_string(), "args": [json!({"tools": ["hog", "pid"]}).to_string()], "limits": {"memory": "512MiB"}}});
    let process = process().entry(child).stdio("fine", json!({})).start_ready().await;
    let client = process.client().await;
    let first = client.call("pid", json!({})).await.text();
    assert_eq!(client.call("hog", json!({"mib": 64})).await.text(), "holds 64 MiB");
    client.call("hog", json!({"mib": 100_000})).await.failed(1003, json!("unknown"));
    client.call("echo", json!({"n": 1})).await.result();
    assert!(sys::resident(process.pid()) < 256 << 20);
    eventually("it is started anew", async || {
        let reply = client.call("pid", json!({})).await;
        reply.message["result"].is_object() && reply.text() != first
    })
    .await;
}

// K12: the kernel counts processes by user, and holds root to nothing; so this one is somebody else.
#[tokio::test]
async fn a_fork_bomb_ends_at_its_limit_and_the_gateway_serves_on() {
    if !is_root() {
        return install::skip("only root can be somebody else");
    }
    let user = somebody();
    let bomb = json!({"name": "bomb", "stdio": {"cmd": stdio::binary().display().to_string(), "args": [json!({"tools": ["bomb"]}).to_string()], "limits": {"processes": 60}}});
    let process = process().entry(bomb).stdio("fine", json!({}));
    let process = process.under(&["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]).start_ready().await;
    let client = process.client().await;
    let started: usize = client.call("bomb", json!({"n": 1000})).await.text().parse().unwrap();
    println!("a bomb of 1000 got to {started}");
    assert!((1..60).contains(&started), "{started}");
    for n in 0..10 {
        client.call("echo", json!({"n": n})).await.result();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).is_ok_and(|uid| uid == 0)
}

/// A user nobody has.
fn somebody() -> String {
    (50_000 + std::process::id() % 10_000).to_string()
}
