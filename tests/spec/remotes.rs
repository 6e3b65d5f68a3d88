//! Group L: remote targets that are slow, forgetful, hostile or gone.

use std::time::{Duration, Instant};
use transom_tests::client::LEGACY;
use transom_tests::target::{Cursor, text};
use transom_tests::*;

fn short(spec: &mut transom_upstream::TargetSpec) {
    spec.timeout = Duration::from_millis(500);
}

// L1
#[tokio::test]
async fn an_answer_that_never_comes_ends_with_the_deadline() {
    let slow_first_byte = target("first").tool("first", []).hostile("tools/call", Hostile::Hang);
    let silent_stream = target("second").tool("second", []).transport(Transport::Events).handler("second", |_, context| async move {
        context.log("info", "here we go");
        std::future::pending::<()>().await;
        Ok(text("never"))
    });
    let endless_stream = target("third").tool("third", []).hostile("tools/call", Hostile::EndlessEvents);
    let gateway = gateway().target_with(&slow_first_byte, short).target_with(&silent_stream, short).target_with(&endless_stream, short).start().await;
    let client = gateway.client().await;
    for tool in ["first", "second", "third"] {
        let start = Instant::now();
        client.call(tool, json!({})).await.failed(1004, json!("unknown"));
        assert!(start.elapsed() < Duration::from_secs(5), "{tool}: {:?}", start.elapsed());
    }
}

// L1: a connection that is accepted and never answered.
#[tokio::test]
async fn a_black_hole_is_given_up() {
    let hole = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let fine = target("fine").tool("add", []);
    let mut spec = fine.spec();
    spec.name = "hole".into();
    spec.transport = transom_upstream::Transport::Http {
        url: format!("http://{}/mcp", hole.local_addr().unwrap()).parse().unwrap(),
        headers: Vec::new(),
        tls: None,
    };
    let gateway = gateway().spec(spec).target(&fine).start().await;
    assert_eq!(gateway.client().await.tool_names().await, ["add"]);
    assert_ne!(gateway.state_of("hole").await, "connected");
}

// L2: a modern client that goes has cancelled; a legacy one has not.
#[tokio::test]
async fn a_disconnect_cancels_in_the_modern_era_only() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        let a = target("a").era(era).slow("slow", Duration::from_millis(1500));
        let gateway = gateway().target(&a).start().await;
        let told = |a: &Target| if era == Era::Modern { a.disconnected() } else { a.cancelled().len() };

        let (client, modern) = (gateway.client().await, gateway.modern().await);
        let call = modern.start_call("slow", json!({}));
        eventually("the call arrives", || async { a.calls().len() == 1 }).await;
        drop(call);
        drop(modern);
        eventually("the target is told", || async { told(&a) == 1 }).await;

        let call = client.start_call("slow", json!({}));
        eventually("the call arrives", || async { a.calls().len() == 2 }).await;
        drop(call);
        drop(client);
        eventually("the call of the legacy client runs to its end", || async { a.finished() == 2 }).await;
        assert_eq!(told(&a), 1, "{era:?}");
    }
}

// L2
#[tokio::test]
async fn a_cancellation_is_translated_and_a_late_answer_dropped() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        let a = target("a").era(era).slow("slow", Duration::from_secs(30)).tool("echo", []);
        let gateway = gateway().target(&a).start().await;
        let client = gateway.client().await;
        let mut call = client.start_message(client.message_with_id(json!("my-id"), "tools/call", json!({"name": "slow", "arguments": {}})));
        eventually("the call arrives", || async { a.calls().len() == 1 }).await;
        client.cancel(&json!("my-id")).await;
        if era == Era::Modern {
            eventually("the stream is closed", || async { a.disconnected() == 1 }).await;
        } else {
            eventually("the target is told", || async { a.cancelled().len() == 1 }).await;
            assert_eq!(a.cancelled()[0]["requestId"], a.requests_of("tools/call")[0].json()["id"], "its own id");
        }
        if let Some(reply) = call.reply_within(Duration::from_secs(5)).await {
            assert!(reply.message.get("result").is_none(), "{}", reply.raw);
        }
        client.call("echo", json!({})).await.result();
        eventually("nothing is left in flight", || async { gateway.metric("transom_target_in_flight").await == 0.0 }).await;
    }
}

// L2: cancelled at any moment, nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellations_at_random_moments_leave_nothing_behind() {
    let a = target("a").slow("slow", Duration::from_millis(20));
    let b = target("b").era(Era::Modern).slow("modern_slow", Duration::from_millis(20));
    let gateway = gateway().target(&a).target(&b).stdio("c", json!({"tools": ["sleep"]})).start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8_u64 {
        let client = gateway.client_of(if number % 2 == 0 { LEGACY } else { client::MODERN }).await;
        tasks.spawn(async move {
            for round in 0..60_u64 {
                let tool = ["slow", "modern_slow", "sleep"][usize::try_from(round % 3).unwrap()];
                let call = client.start_call(tool, json!({"ms": 20}));
                tokio::time::sleep(Duration::from_millis((round * 7 + number * 3) % 30)).await;
                if round % 2 == 0 {
                    client.cancel(&call.id).await;
                }
                drop(call);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    eventually("nothing is left in flight", || async { gateway.metric("transom_target_in_flight").await == 0.0 }).await;
    eventually("no request is left either", || async { gateway.metric("transom_requests_in_flight").await <= 1.0 }).await;
    let client = gateway.client().await;
    for tool in ["slow", "modern_slow", "sleep"] {
        client.call(tool, json!({})).await.result();
    }
}

// L4, T10
#[tokio::test]
async fn a_forgotten_session_is_renewed_once_for_all() {
    let a = target("a").tool("echo", ["n"]);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    client.call("echo", json!({"n": -1})).await.result();
    for round in 0..3 {
        let (before, calls) = (a.initializes(), a.calls().len());
        a.forget_sessions();
        let pending: Vec<_> = (0..100).map(|n| client.start_call("echo", json!({"n": n}))).collect();
        for (n, call) in pending.into_iter().enumerate() {
            assert_eq!(call.reply().await.structured()["arguments"]["n"], n);
        }
        assert_eq!(a.initializes() - before, 1, "round {round}");
        assert_eq!(a.calls().len() - calls, 100, "each call ran once");
    }
}

// L4: a second 404 is the end of it, and nothing else is ever sent again.
#[tokio::test]
async fn nothing_but_a_refused_call_is_sent_twice() {
    let forgetful = target("forgetful").tool("forget", []).forget_session_after(0);
    let broken = target("broken").tool("broken", []);
    let gateway = gateway().target(&forgetful).target(&broken).start().await;
    let client = gateway.client().await;
    client.call("forget", json!({})).await.failed(1002, json!(false));
    assert_eq!(forgetful.requests_of("tools/call").len(), 2);
    assert!(forgetful.calls().is_empty());
    for status in [400, 401, 403, 500, 502, 503] {
        broken.clear();
        broken.misbehave("tools/call", Some(Hostile::Status(status)));
        let reply = client.call("broken", json!({})).await;
        assert!(reply.error_code() >= 1001, "{status}: {}", reply.raw);
        assert_eq!(broken.requests_of("tools/call").len(), 1, "{status}");
        broken.misbehave("tools/call", None);
        gateway.until("broken", "connected").await;
    }
}

// L5
#[tokio::test]
async fn a_flapping_target_is_told_about_in_measure() {
    let (a, fine) = (target("a").tool("echo", []), target("fine").tool("add", []));
    let gateway = gateway().target(&a).target(&fine).start().await;
    let client = gateway.client().await;
    let mut stream = client.stream().await;
    for _ in 0..10 {
        a.stop();
        tokio::time::sleep(Duration::from_millis(120)).await;
        a.start();
        client.call("add", json!({})).await.result();
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    gateway.until_listed(&["add", "echo"]).await;
    let told = stream.drain(Duration::from_millis(500)).await.len();
    assert!((1..=24).contains(&told), "{told} notifications for ten flaps");
}

// L6
#[tokio::test]
async fn a_target_that_refuses_is_tried_with_patience() {
    let a = target("a").tool("echo", []).hostile("*", Hostile::Status(503));
    let gateway = gateway().target(&a).start().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let tried = a.requests().len();
    assert!((2..=40).contains(&tried), "{tried} requests in four seconds");
    // Many who want it are no reason to try more often.
    let client = gateway.client().await;
    for _ in 0..100 {
        client.call("a:echo", json!({})).await;
    }
    assert!(a.requests().len() < tried + 20, "calls made it try {} times more", a.requests().len() - tried);
    a.misbehave("*", None);
    within(Duration::from_secs(35), "it is back", || async { gateway.state_of("a").await == "connected" }).await;
}

// L7, N8
#[tokio::test]
async fn a_call_that_may_have_run_is_never_run_again() {
    let a = target("a").tool("echo", ["nonce"]).hostile("tools/call", Hostile::DropMidReply);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    for nonce in 0..5 {
        let reply = client.call("echo", json!({"nonce": nonce})).await;
        assert!(matches!(reply.error_code(), 1003 | 1005), "{}", reply.raw);
        assert_ne!(reply.error()["data"]["executed"], json!(false));
        gateway.until("a", "connected").await;
    }
    let mut nonces: Vec<i64> =
        a.requests_of("tools/call").iter().map(|request| request.json()["params"]["arguments"]["nonce"].as_i64().unwrap()).collect();
    nonces.dedup();
    assert_eq!(nonces, [0, 1, 2, 3, 4]);
    assert_eq!(a.requests_of("tools/call").len(), 5);
}

// L7: the connection dies while the call runs.
#[tokio::test]
async fn a_target_that_dies_during_a_call_is_told_at_once() {
    let (a, fine) = (target("a").slow("slow", Duration::from_secs(30)), target("fine").tool("add", []));
    let gateway = gateway().target(&a).target(&fine).start().await;
    let client = gateway.client().await;
    let calls: Vec<_> = (0..10).map(|_| client.start_call("slow", json!({}))).collect();
    eventually("the calls arrive", || async { a.calls().len() == 10 }).await;
    let start = Instant::now();
    a.stop();
    for call in calls {
        call.reply().await.failed(1003, json!("unknown"));
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    client.call("add", json!({})).await.result();
}

// L9
#[tokio::test]
async fn an_endpoint_elsewhere_is_not_followed() {
    let evil = target("evil").tool("pwn", []).transport(Transport::LegacySse);
    for endpoint in [
        format!("http://{}/messages?session=1", evil.addr()),
        "http://169.254.169.254/latest".into(),
        format!("//{}/messages", evil.addr()),
        "javascript:alert(1)".into(),
    ] {
        let old = target("old").tool("echo", []).transport(Transport::LegacySse).endpoint(&endpoint);
        let gateway = gateway().target(&old).start().await;
        gateway.until("old", "unavailable").await;
        assert!(gateway.client().await.tool_names().await.is_empty());
    }
    assert!(evil.requests().is_empty());
}

// L10, CVE-2025-6514's cousin: headers and bodies stay where they were meant to go.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let evil = target("evil").tool("pwn", []);
    let a = target("a").tool("echo", []);
    let gateway = gateway()
        .target_with(&a, |spec| {
            if let transom_upstream::Transport::Http { headers, .. } = &mut spec.transport {
                headers.push(("authorization".parse().unwrap(), transom_upstream::Secret::new("Bearer secret")));
            }
        })
        .start()
        .await;
    assert_eq!(a.requests_of("tools/list")[0].header("authorization"), Some("Bearer secret"));
    a.misbehave("tools/call", Some(Hostile::Redirect(evil.url())));
    let reply = gateway.client().await.call("echo", json!({})).await;
    assert!(reply.error_code() >= 1001, "{}", reply.raw);
    assert!(!reply.raw.contains(&evil.url()), "{}", reply.raw);
    a.misbehave("*", Some(Hostile::Redirect(evil.url())));
    a.forget_sessions();
    gateway.client().await.call("echo", json!({})).await;
    assert!(evil.requests().is_empty());
}

// L11
#[tokio::test]
async fn pages_without_an_end_are_given_up() {
    for cursor in [Cursor::Constant, Cursor::Endless] {
        let a = target("a").tool("t1", []).tool("t2", []).page_size(1).cursor(cursor);
        let fine = target("fine").tool("add", []);
        let gateway = gateway().target(&a).target(&fine).start().await;
        let names = gateway.client().await.tool_names().await;
        assert!(names.contains(&"add".to_owned()), "{cursor:?}: {names:?}");
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(names, unique, "{cursor:?}: a tool is listed twice");
        let pages = a.requests_of("tools/list").len();
        assert!(pages <= 210, "{cursor:?}: {pages} pages");
    }
}

// L11
#[tokio::test]
async fn a_target_with_too_many_tools_is_cut() {
    let mut a = target("a").page_size(500);
    for n in 0..2500 {
        a = a.tool(&format!("t{n}"), []);
    }
    let gateway = gateway().target(&a).start().await;
    let listed = gateway.client().await.tool_names().await.len();
    assert!(listed <= 2000, "{listed}");
}

// L11: what was good stays while the new list cannot be read.
#[tokio::test]
async fn the_last_good_list_is_kept() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.misbehave("tools/list", Some(Hostile::Body("application/json", r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no"}}"#.into())));
    let before = a.requests_of("tools/list").len();
    a.notify_list_changed();
    eventually("the target is asked again", || async { a.requests_of("tools/list").len() > before }).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(client.tool_names().await, ["echo"]);
    client.call("echo", json!({})).await.result();
}

// security.md vocabulary: an answer we cannot pass on.
#[tokio::test]
async fn an_answer_that_is_none_is_1005_and_the_next_one_is_fine() {
    let cases = [
        ("no JSON", Hostile::bad_json()),
        ("no UTF-8", Hostile::invalid_utf8()),
        ("too deep", Hostile::deep(5000)),
        ("too large", Hostile::huge(17 << 20)),
        ("a foreign id", Hostile::WrongId),
        ("an error and a result", Hostile::ResultAndError),
        ("a web page", Hostile::Body("text/html", "<html>".into())),
        ("nothing", Hostile::Body("application/json", "".into())),
        ("a list", Hostile::Body("application/json", "[]".into())),
        ("no answer", Hostile::Body("application/json", r#"{"jsonrpc":"2.0","method":"x"}"#.into())),
    ];
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    for (what, hostile) in cases {
        a.misbehave("tools/call", Some(hostile));
        let reply = client.call("echo", json!({})).await;
        assert_eq!(reply.error_code(), 1005, "{what}: {}", &reply.raw[..reply.raw.len().min(300)]);
        assert_eq!(reply.error()["data"]["executed"], json!(true), "{what}: {}", reply.raw);
        a.misbehave("tools/call", None);
        eventually("it serves again", || async { client.call("echo", json!({})).await.message.get("result").is_some() }).await;
    }
}

// security.md 0.2: duplicate keys are an error everywhere.
#[tokio::test]
async fn an_answer_with_two_results_is_1005() {
    let twice = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]},"result":{"content":[1]}}"#;
    let a = target("a").tool("echo", []).hostile("tools/call", Hostile::Body("application/json", twice.into()));
    let gateway = gateway().target(&a).start().await;
    gateway.client().await.call("echo", json!({})).await.failed(1005, json!(true));
}

// security.md vocabulary: a result of MCP is an object, and nobody is told of a success that was none.
#[tokio::test]
async fn a_result_that_is_no_object_is_1005_to_every_client() {
    for era in [Era::Legacy("2025-06-18"), Era::Modern] {
        let a = target("a").era(era).tool("echo", []);
        let gateway = gateway().target(&a).start().await;
        let clients = [gateway.client().await, gateway.modern().await];
        for result in ["null", "[1]", r#""x""#, "5", "true"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{result}}}"#);
            a.misbehave("tools/call", Some(Hostile::Body("application/json", body.into())));
            for client in &clients {
                client.call("echo", json!({})).await.failed(1005, json!(true));
            }
            let reply = gateway.post("/tools/echo/invoke", &json!({})).await;
            assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (502, Some("upstream_invalid")), "{result}: {}", reply.text());
        }
    }
}

// E: the second answer is nobody's.
#[tokio::test]
async fn a_second_answer_is_dropped() {
    let a = target("a").tool("echo", ["n"]).hostile("tools/call", Hostile::Twice);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    for n in 0..5 {
        assert_eq!(client.call("echo", json!({"n": n})).await.structured()["arguments"]["n"], n);
    }
}

// A request of the target outside any call is nobody's.
#[tokio::test]
async fn a_request_outside_any_call_is_refused() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target_with(&a, |spec| spec.allow_server_requests = true).start().await;
    let client = gateway.connect(LEGACY).capabilities(json!({"elicitation": {}, "sampling": {}, "roots": {}})).open().await;
    let mut stream = client.stream().await;
    eventually("the target has a stream to speak on", || async { a.streams() > 0 }).await;
    for (id, method) in ["elicitation/create", "sampling/createMessage", "roots/list", "tools/call", "no/such"].into_iter().enumerate() {
        a.broadcast_message(json!({"jsonrpc": "2.0", "id": format!("spoof-{id}"), "method": method, "params": {}}));
    }
    eventually("each is answered with an error", || async {
        a.requests().iter().filter(|request| request.method.is_empty() && request.json()["error"].is_object()).count() >= 5
    })
    .await;
    assert!(stream.drain(Duration::from_millis(300)).await.is_empty());
    client.call("echo", json!({})).await.result();
}
