//! Attacks on whose session, whose reply and whose task something is.

use super::{as_somebody, key_of, one, two_people};
use std::time::Duration;
use transom_tests::client::LEGACY;
use transom_tests::*;

// The TypeScript SDK sent replies to whoever had last used the same id on a shared transport.
#[tokio::test(flavor = "multi_thread")]
async fn cve_2026_25536_clients_with_the_same_ids_get_their_own_replies() {
    let a = target("a").tool("echo", ["nonce"]);
    let gateway = gateway().target(&a).stdio("child", json!({"tools": ["mirror"]})).start().await;
    let mut crowd = tokio::task::JoinSet::new();
    for person in 0..40 {
        let client = gateway.client().await;
        crowd.spawn(async move {
            let mut mixed = 0;
            for id in 0..25 {
                let nonce = format!("{person}-{id}");
                let tool = if id % 2 == 0 { "echo" } else { "mirror" };
                let message = client.message_with_id(json!(id), "tools/call", json!({"name": tool, "arguments": {"nonce": nonce}}));
                let reply = client.exchange(message, None).await;
                mixed += usize::from(reply.message["id"] != json!(id) || !reply.raw.contains(&nonce));
            }
            mixed
        });
    }
    let mut mixed = 0;
    while let Some(count) = crowd.join_next().await {
        mixed += count.unwrap();
    }
    assert_eq!(mixed, 0, "replies that were somebody else's");
}

// The Ruby SDK gave the stream of a session to whoever asked last with its id, and closed the owner's.
#[tokio::test]
async fn cve_2026_33946_a_stream_cannot_be_taken_over() {
    const UPDATED: &str = "notifications/resources/updated";
    const CHANGED: &str = "notifications/tools/list_changed";
    let a = target("a").tool("echo", []).resource("doc://hers");
    let gateway = two_people(&a, None).await;
    let (alice, bob) = (as_somebody(&gateway, "alice").await, as_somebody(&gateway, "bob").await);
    let session = alice.session().unwrap();
    let (mut first, mut strangers) = (alice.stream().await, bob.stream().await);
    let uri = "mcp://a/doc%3A%2F%2Fhers";
    alice.request("resources/subscribe", json!({"uri": uri})).await.result();
    eventually("the target has a stream to tell on", async || a.streams() > 0 && !a.requests_of("resources/subscribe").is_empty()).await;
    for credentials in [Some("bob"), None] {
        let bearer = credentials.map(|id| format!("Bearer {}", key_of(id)));
        let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", session.as_str())];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let stolen = gateway.http.open("GET", &gateway.url("/mcp"), &headers, "").await.unwrap();
        assert_eq!((stolen.status, stolen.is_events()), (if credentials.is_some() { 404 } else { 401 }, false));
    }
    // Nobody got the owner's stream, so the owner still hears on it.
    a.broadcast(UPDATED, json!({"uri": "doc://hers"}));
    assert_eq!(first.notification(UPDATED).await["params"]["uri"], uri);

    // H8: a second stream of the owner stands beside the first. Each event goes to one of the two, and to nobody else.
    let mut second = alice.stream().await;
    a.broadcast(UPDATED, json!({"uri": "doc://hers"}));
    a.set_tools(["echo", "new"]);
    a.notify_list_changed();
    eventually("the list is new", async || alice.tool_names().await.contains(&"new".to_owned())).await;
    let silence = Duration::from_secs(3);
    let (on_first, on_second, on_strangers) = tokio::join!(first.drain(silence), second.drain(silence), strangers.drain(silence));
    let heard = |messages: &[Value], method: &str| messages.iter().filter(|message| message["method"] == method).count();
    let hers = [on_first, on_second].concat();
    assert_eq!((heard(&hers, UPDATED), heard(&hers, CHANGED)), (1, 1), "{hers:?}");
    // The list is everybody's, the subscription is not.
    assert_eq!((heard(&on_strangers, UPDATED), heard(&on_strangers, CHANGED)), (0, 1), "{on_strangers:?}");
    for (which, stream) in [("first", &mut first), ("second", &mut second)] {
        assert!(tokio::time::timeout(Duration::from_millis(100), stream.next()).await.is_err(), "the {which} stream is still open");
    }
}

// The Python SDK took the id of a session for proof of who was there: another user who knew it could act in it.
#[tokio::test]
async fn cve_2026_52869_a_session_id_is_not_a_credential() {
    let a = target("a").tool("echo", []);
    let gateway = two_people(&a, None).await;
    let alice = as_somebody(&gateway, "alice").await;
    let session = alice.session().unwrap();
    let bob = format!("Bearer {}", key_of("bob"));
    let unknown = format!("{}x", session);
    let attempt = async |id: &str, method: &str, body: Value| {
        let headers = [
            ("authorization", bob.as_str()),
            ("mcp-session-id", id),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let reply = gateway.send(method, "/mcp", &headers, body.to_string()).await;
        (reply.status, reply.text().replace(id, "ID"))
    };
    for (method, body) in [
        ("POST", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}})),
        ("POST", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})),
        ("POST", json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})),
        ("POST", json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
        ("GET", json!({})),
        ("DELETE", json!({})),
    ] {
        let (theirs, nobodys) = (attempt(&session, method, body.clone()).await, attempt(&unknown, method, body.clone()).await);
        assert_eq!(theirs.0, 404, "{method} {body}");
        assert_eq!(theirs, nobodys, "somebody else's session looks like none");
    }
    assert!(a.calls().is_empty());
    alice.call("echo", json!({})).await.result();
}

// The Python SDK listed and returned the tasks of every user to every user.
#[tokio::test]
async fn cve_2026_52870_the_tasks_of_others_cannot_be_found() {
    let a = target("a").era(Era::Modern).tasks().tool("slow", []).handler("slow", |_, _| async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        Ok(json!({"content": [{"type": "text", "text": "CANARY"}]}))
    });
    let gateway = two_people(&a, None).await;
    let person = async |id: &str| {
        let connect = gateway.connect(client::MODERN).capabilities(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
        connect.header("authorization", &format!("Bearer {}", key_of(id))).open().await
    };
    let (alice, bob) = (person("alice").await, person("bob").await);
    let task = alice.call("slow", json!({})).await.result()["taskId"].as_str().expect("a task").to_owned();
    let asked = || a.requests().iter().filter(|request| request.method.starts_with("tasks/")).count();
    let before = asked();
    let flipped = format!("{}{}", if task.starts_with('A') { 'B' } else { 'A' }, task.get(1..).unwrap_or_default());
    for id in [task.as_str(), &flipped, "a-task-1", "a-task-0", "task-1", "1"] {
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update"] {
            let reply = bob.request(method, json!({"taskId": id})).await;
            assert!(reply.message["error"].is_object(), "{method} {id}: {}", reply.raw);
            assert!(!reply.raw.contains("CANARY") && !reply.raw.contains("working"), "{method} {id}: {}", reply.raw);
        }
    }
    let listed = bob.request("tasks/list", json!({})).await;
    assert!(!listed.raw.contains(&task) && !listed.raw.contains("working"), "{}", listed.raw);
    assert_eq!(asked(), before, "nobody asked the target about them");
    assert_eq!(alice.request("tasks/get", json!({"taskId": task})).await.result()["status"], "working");
}

// rmcp's server kept every session that anybody opened, without credentials and without an end, until memory was gone.
#[tokio::test(flavor = "multi_thread")]
async fn ghsa_9pj6_vhgr_3mwh_strangers_open_no_sessions_and_nobody_opens_any_number() {
    let a = target("a").tool("echo", []);
    let gateway = two_people(&a, None).await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).to_string();
    let bob = format!("Bearer {}", key_of("bob"));
    let alice = as_somebody(&gateway, "alice").await;
    for _ in 0..300 {
        assert_eq!(gateway.post_mcp(&[], hello.clone()).await.status, 401);
    }
    assert!(gateway.metric("transom_sessions").await <= 1.0, "strangers left nothing behind");
    let mut refused = 0;
    for _ in 0..150 {
        let reply = gateway.post_mcp(&[("authorization", &bob)], hello.clone()).await;
        assert!(matches!(reply.status, 200 | 503), "{}", reply.text());
        refused += usize::from(reply.status == 503);
    }
    assert!(refused >= 40, "a principal has a hundred sessions: {refused} of 150 were refused");
    alice.call("echo", json!({})).await.result();
    as_somebody(&gateway, "alice").await.call("echo", json!({})).await.result();
    let (_, open) = one().await;
    assert_eq!(open.post_mcp(&[], hello).await.status, 200);
}
