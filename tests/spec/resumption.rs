//! Streams that are lost and taken up again, on both sides: H8, H9 and protocol.md, "Legacy client".

use std::time::Duration;
use transom_gateway::config::Authentication;
use transom_tests::client::{LEGACY, MODERN};
use transom_tests::target::text;
use transom_tests::*;

/// A target whose tool `steps` says how far it is, and waits for the test before each step but the first.
fn stepper(name: &str) -> (Target, tokio::sync::mpsc::UnboundedSender<()>) {
    let (go, steps) = tokio::sync::mpsc::unbounded_channel();
    let steps = std::sync::Arc::new(tokio::sync::Mutex::new(steps));
    let target = target(name).tool("steps", ["count"]).handler("steps", move |arguments, context| {
        let steps = steps.clone();
        async move {
            let mut steps = steps.lock().await;
            for step in 1..=arguments["count"].as_u64().unwrap_or(1) {
                context.log("info", &format!("step {step}"));
                steps.recv().await;
            }
            Ok(text("done"))
        }
    });
    (target, go)
}

/// The next event with its id and what it says: the data of a log message, or the text of the result.
async fn event(stream: &mut Stream) -> Option<(String, String)> {
    let event = tokio::time::timeout(Duration::from_secs(30), stream.next()).await.expect("an event or the end in time")?;
    let message: Value = serde_json::from_str(&event.data).unwrap();
    let said = message["params"]["data"].as_str().or(message["result"]["content"][0]["text"].as_str()).or(message["error"]["message"].as_str());
    Some((event.id.expect("every event has an id"), said.unwrap_or_default().to_owned()))
}

async fn start(client: &Client, count: u64) -> (Stream, String) {
    let message = client.message("tools/call", json!({"name": "steps", "arguments": {"count": count}}));
    let mut stream = client.open_message(&message).await;
    let (id, said) = event(&mut stream).await.unwrap();
    assert_eq!(said, "step 1");
    (stream, id)
}

// protocol.md: `Last-Event-ID` resumes a call's stream; a disconnect is not a cancellation
#[tokio::test]
async fn a_client_that_lost_its_stream_gets_the_rest_of_it() {
    let (a, go) = stepper("a");
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let (stream, first) = start(&client, 3).await;
    drop(stream);
    go.send(()).unwrap();
    // It comes back while the call runs, and again when it is done.
    let mut stream = client.resume(&first).await;
    assert_eq!((stream.status, stream.is_events()), (200, true));
    let (second, said) = event(&mut stream).await.unwrap();
    assert_eq!(said, "step 2");
    drop(stream);
    go.send(()).unwrap();
    go.send(()).unwrap();
    eventually("the call runs on to its end", || async { a.finished() == 1 }).await;
    for _ in 0..2 {
        let mut stream = client.resume(&second).await;
        assert_eq!(event(&mut stream).await.unwrap().1, "step 3");
        assert_eq!(event(&mut stream).await.unwrap().1, "done");
        assert!(event(&mut stream).await.is_none(), "the stream ends with the answer");
    }
    assert_eq!((a.calls().len(), a.cancelled().len()), (1, 0));
    assert_eq!(gateway.metric("transom_target_in_flight").await, 0.0);
}

// H8, MCP "Multiple connections": a message is sent on one stream only
#[tokio::test]
async fn whoever_comes_back_has_the_stream_alone() {
    let (a, go) = stepper("a");
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let (mut lost, first) = start(&client, 2).await;
    let mut other = client.stream().await;
    let mut stream = client.resume(&first).await;
    assert_eq!(stream.status, 200);
    assert!(event(&mut lost).await.is_none(), "the stream that was given up ends");
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(event(&mut stream).await.unwrap().1, "step 2");
    assert_eq!(event(&mut stream).await.unwrap().1, "done");
    assert!(other.message_within(Duration::from_millis(300)).await.is_none(), "nothing of a call goes to the session's own stream");
}

// H9: an event id is worth something to its own session only
#[tokio::test]
async fn an_event_of_another_session_is_unknown() {
    let (a, go) = stepper("a");
    let keys = vec![api_key("one", "key-of-one"), api_key("two", "key-of-two")];
    let gateway = gateway()
        .target(&a)
        .config(|config| config.authentication = Some(Authentication { jwt: vec![], api_keys: keys, resource: None }))
        .start()
        .await;
    let client = |key: &str| gateway.connect(LEGACY).header("x-api-key", key).open();
    let (owner, same, other) = (client("key-of-one").await, client("key-of-one").await, client("key-of-two").await);
    let (mut stream, first) = start(&owner, 1).await;
    let refused = |stream: Stream| async move {
        let response = stream.whole().await.unwrap();
        assert_eq!(response.status, 400, "{}", response.text());
        assert_eq!(response.json()["error"]["code"], -32600);
        assert!(response.json()["error"]["message"].as_str().unwrap().starts_with("Last-Event-ID"), "{}", response.text());
    };
    refused(same.resume(&first).await).await;
    refused(other.resume(&first).await).await;
    let mut forged = vec!["1".to_owned(), "x".repeat(5_000), format!("{first}9"), first.to_uppercase(), "../../etc/passwd".into()];
    for at in (0..first.len()).step_by(3) {
        let mut bytes = first.clone().into_bytes();
        bytes[at] = if bytes[at] == b'7' { b'8' } else { b'7' };
        forged.push(String::from_utf8(bytes).unwrap());
    }
    for forged in forged.iter().filter(|forged| **forged != first) {
        refused(owner.resume(forged).await).await;
    }
    // Somebody else's session id does not help either.
    let session = owner.session().unwrap();
    let headers =
        [("accept", "text/event-stream"), ("mcp-session-id", session.as_str()), ("last-event-id", first.as_str()), ("x-api-key", "key-of-two")];
    assert_eq!(gateway.send("GET", "/mcp", &headers, "").await.status, 404);
    go.send(()).unwrap();
    assert_eq!(event(&mut stream).await.unwrap().1, "done", "nobody took the stream from its owner");
}

// protocol.md: a bounded buffer; what it lost is never passed over in silence
#[tokio::test]
async fn what_the_buffer_lost_is_told_and_not_passed_over() {
    let a = target("a").tool("flood", []).handler("flood", |_, context| async move {
        context.log("info", "first");
        tokio::time::sleep(Duration::from_millis(500)).await;
        for _ in 0..30 {
            context.log("info", &"x".repeat(100_000));
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Ok(text("done"))
    });
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let mut stream = client.open_message(&client.message("tools/call", json!({"name": "flood", "arguments": {}}))).await;
    let (first, _) = event(&mut stream).await.unwrap();
    drop(stream);
    eventually("the call ends", || async { a.finished() == 1 }).await;
    assert_eq!(client.resume(&first).await.status, 400);
}

// Modern clients have no such thing; neither has a request without a session; and what needs no stream has no ids
#[tokio::test]
async fn only_streams_of_legacy_sessions_can_be_resumed() {
    let (a, go) = stepper("a");
    let gateway = gateway().target(&a.tool("plain", [])).start().await;
    for _ in 0..2 {
        go.send(()).unwrap();
    }
    let modern = gateway.modern().await;
    let mut message = modern.message("tools/call", json!({"name": "steps", "arguments": {}}));
    message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    let mut stream = modern.open_message(&message).await;
    assert!(stream.is_events());
    assert!(stream.next().await.unwrap().id.is_none());
    assert_eq!(
        gateway.send("GET", "/mcp", &[("accept", "text/event-stream"), ("last-event-id", "x"), ("mcp-protocol-version", MODERN)], "").await.status,
        405
    );
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "steps", "arguments": {}}}).to_string();
    let reply = gateway.post_mcp(&[], body).await;
    assert!(reply.text().contains("step 1") && !reply.text().contains("id: "), "{}", reply.text());
    assert_eq!(gateway.send("GET", "/mcp", &[("accept", "text/event-stream"), ("last-event-id", "x")], "").await.status, 405);
    let client = gateway.client().await;
    assert!(!client.call("plain", json!({})).await.events);
}

// A question in a stream that was lost waits there for its client
#[tokio::test]
async fn a_question_waits_in_the_stream_for_a_client_that_comes_back() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        context.log("info", "before");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let answer = context.ask("elicitation/create", json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}})).await;
        Ok(text(&answer.unwrap_or_else(|error| error).to_string()))
    });
    let gateway = gateway().target_with(&a, |spec| spec.allow_server_requests = true).start().await;
    let client = gateway.connect(LEGACY).capabilities(json!({"elicitation": {}})).open().await;
    let mut stream = client.open_message(&client.message("tools/call", json!({"name": "ask", "arguments": {}}))).await;
    let first = stream.next().await.unwrap().id.unwrap();
    drop(stream);
    let mut stream = client.resume(&first).await;
    let question = stream.notification("elicitation/create").await;
    client.post(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})).await;
    assert_eq!(stream.message().await["result"]["content"][0]["text"], r#"{"action":"decline"}"#);
}

// MCP 2025-11-25: a server may close a call's stream early and be asked for the rest of it; the call is not made again
#[tokio::test]
async fn a_target_that_hangs_up_in_the_middle_of_a_call_is_asked_for_the_rest() {
    let a = target("a").resumable().tool("poll", ["times"]).handler("poll", |arguments, context| async move {
        for time in 0..arguments["times"].as_u64().unwrap_or(1) {
            context.hang_up(Duration::from_millis(100));
            tokio::time::sleep(Duration::from_millis(250)).await;
            context.log("info", &format!("time {time}"));
        }
        Ok(text("done"))
    });
    let gateway = gateway().target(&a).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        let reply = client.call("poll", json!({"times": 3})).await;
        assert_eq!(reply.text(), "done");
        if !client.is_modern() {
            assert_eq!(reply.notifications.len(), 3, "{:?}", reply.notifications);
        }
    }
    assert_eq!(a.calls().len(), 2);
    let resumed: Vec<Recorded> = a.requests().into_iter().filter(|request| request.header("last-event-id").is_some()).collect();
    assert!(resumed.len() >= 6, "{}", resumed.len());
    for request in resumed {
        assert_eq!(request.http_method, "GET");
        assert!(request.header("mcp-session-id").is_some());
    }
}

// J: a target that hangs up and never lets us come back has lost the call, soon and with the truth about it
#[tokio::test]
async fn a_stream_that_cannot_be_resumed_is_a_lost_call() {
    let a = target("a").resumable().tool("gone", []).handler("gone", |_, context| async move {
        context.hang_up(Duration::from_millis(60));
        context.cancelled().await;
        Ok(text("never"))
    });
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let call = client.start_call("gone", json!({}));
    eventually("the call arrives", || async { a.calls().len() == 1 }).await;
    a.forget_streams();
    call.reply().await.failed(1003, json!("unknown"));
    assert_eq!(a.calls().len(), 1);
}
