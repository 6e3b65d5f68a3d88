//! Group H: sessions, identifiers, and that nobody gets what belongs to someone else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use transom_tests::client::{LEGACY, MODERN};
use transom_tests::target::{echo, text};
use transom_tests::*;
use transom_upstream::Sessions;

/// How many calls the big test makes: all of them when asked, fewer on every run.
fn how_many() -> usize {
    if std::env::var_os("TRANSOM_FULL").is_some() {
        return 100_000;
    }
    std::env::var("TRANSOM_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(20_000)
}

// H1, H11, T2: 200 clients with the same ids and the same progress tokens over four targets. CVE-2026-25536
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reply_is_mixed_lost_or_doubled() {
    const CLIENTS: usize = 200;
    let talkative = |name: &'static str, era: Era, transport: Transport| {
        target(name).era(era).transport(transport).tool(name, ["nonce"]).handler(name, move |arguments, context| async move {
            context.notify(
                "notifications/progress",
                json!({"progressToken": context.meta["progressToken"], "progress": 1, "message": arguments["nonce"]}),
            );
            Ok(echo(name, &context.tool, &arguments))
        })
    };
    let one = talkative("one", Era::Legacy("2025-11-25"), Transport::Json);
    let two = talkative("two", Era::Legacy("2025-06-18"), Transport::Events);
    let three = talkative("three", Era::Modern, Transport::Json);
    let gateway = gateway().target(&one).target(&two).target(&three).stdio("four", json!({"tools": ["four"]})).start().await;
    let calls = how_many();
    let answered = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let client = gateway.client_of(if number % 2 == 0 { LEGACY } else { MODERN }).await;
        let answered = answered.clone();
        tasks.spawn(async move {
            for call in 0..calls / CLIENTS {
                let tool = ["one", "two", "three", "four"][(number + call) % 4];
                let nonce = format!("{number}-{call}");
                let params = json!({"name": tool, "arguments": {"nonce": nonce}, "_meta": {"progressToken": "abc"}});
                // Every client counts from zero.
                let reply = client.exchange(client.message_with_id(json!(call), "tools/call", params), None).await;
                assert_eq!(reply.message["id"], json!(call), "{}", reply.raw);
                assert_eq!(reply.structured()["arguments"]["nonce"], nonce, "{}", reply.raw);
                assert_eq!(reply.structured()["tool"], tool);
                for notification in &reply.notifications {
                    assert_eq!(notification["params"]["progressToken"], "abc");
                    assert_eq!(notification["params"]["message"], nonce);
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let expected = calls / CLIENTS * CLIENTS;
    assert_eq!(answered.load(Ordering::Relaxed), expected);
    let mut nonces: Vec<String> = [&one, &two, &three].iter().flat_map(|t| t.calls()).map(|(_, arguments)| arguments["nonce"].to_string()).collect();
    assert_eq!(nonces.len(), expected / 4 * 3, "every call ran exactly once");
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), expected / 4 * 3);
    assert_eq!(gateway.metric("transom_target_in_flight").await, 0.0);
}

// H2, python-sdk #3137
#[tokio::test]
async fn an_id_in_use_is_refused_and_the_first_call_unharmed() {
    let a = target("a").slow("slow", Duration::from_millis(800)).tool("fast", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let slow = client.start_message(client.message_with_id(json!(7), "tools/call", json!({"name": "slow", "arguments": {"nonce": "n"}})));
    eventually("the slow call arrives", || async { a.calls().len() == 1 }).await;
    let reply = client.exchange(client.message_with_id(json!(7), "tools/call", json!({"name": "fast", "arguments": {}})), None).await;
    assert_eq!(reply.error_code(), -32600, "{}", reply.raw);
    assert!(reply.error_message().contains("in use"), "{}", reply.raw);
    assert_eq!(a.calls().len(), 1);
    assert_eq!(slow.reply().await.structured()["arguments"]["nonce"], "n");
    let again = client.exchange(client.message_with_id(json!(7), "tools/call", json!({"name": "fast", "arguments": {}})), None).await;
    again.result();
}

// H3
#[tokio::test]
async fn odd_ids_are_refused_and_good_ones_come_back_as_they_were() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let session = gateway.client().await.session().unwrap();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    let long = format!("\"{}\"", "x".repeat(257));
    let huge = format!("\"{}\"", "x".repeat(1 << 20));
    let longest = format!("\"{}\"", "x".repeat(256));
    let legacy_headers = vec![("mcp-session-id", session.as_str())];
    let modern_headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    for (headers, params) in
        [(&legacy_headers, json!({"name": "echo", "arguments": {}})), (&modern_headers, json!({"name": "echo", "arguments": {}, "_meta": meta}))]
    {
        let body = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        for id in ["0", "-1", "9007199254740991", "-9007199254740991", "\"1\"", "1", "\"\"", "\"ü\"", &longest] {
            let response = gateway.post_mcp(headers, body(id)).await;
            assert_eq!(response.status, 200, "{id}: {}", response.text());
            assert!(response.text().contains(&format!("\"id\":{id}")), "{id} came back as {}", response.text());
        }
        let before = a.calls().len();
        for id in ["null", "1.5", "1.0", "1e3", "9007199254740992", "-9007199254740992", "true", "{}", "[]", &long, &huge] {
            let response = gateway.post_mcp(headers, body(id)).await;
            let shown = &id[..id.len().min(30)];
            assert_eq!(response.status, 400, "{shown}: {}", response.text());
            assert_eq!(response.json()["error"]["code"], -32600, "{shown}");
            assert!(response.json()["id"].is_null(), "{shown}");
        }
        assert_eq!(a.calls().len(), before, "the target was not contacted");
    }
}

// H3: `1` and `"1"` are two ids.
#[tokio::test]
async fn a_number_and_a_text_are_different_ids() {
    let a = target("a").slow("slow", Duration::from_millis(300));
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let number = client.start_message(client.message_with_id(json!(1), "tools/call", json!({"name": "slow", "arguments": {"nonce": "number"}})));
    let string = client.start_message(client.message_with_id(json!("1"), "tools/call", json!({"name": "slow", "arguments": {"nonce": "text"}})));
    let (number, string) = (number.reply().await, string.reply().await);
    assert_eq!((&number.message["id"], &number.structured()["arguments"]["nonce"]), (&json!(1), &json!("number")));
    assert_eq!((&string.message["id"], &string.structured()["arguments"]["nonce"]), (&json!("1"), &json!("text")));
}

// H4
#[tokio::test]
async fn a_call_without_an_id_is_not_executed() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let session = gateway.client().await.session().unwrap();
    let body = json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo", "arguments": {}}}).to_string();
    assert_eq!(gateway.post_mcp(&[("mcp-session-id", &session)], body.clone()).await.status, 400);
    assert_eq!(gateway.post_mcp(&[], body).await.status, 400);
    let modern = gateway.modern().await;
    let mut message = modern.message("tools/call", json!({"name": "echo", "arguments": {}}));
    message.as_object_mut().unwrap().remove("id");
    assert_eq!(modern.post(message).await, 400);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(a.calls().is_empty());
}

// H5
#[tokio::test]
async fn an_answer_counts_only_from_the_session_that_was_asked() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        let answer = context.ask("elicitation/create", json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}})).await;
        Ok(text(&json!(answer.unwrap_or_else(|error| error)).to_string()))
    });
    let gateway = gateway().target_with(&a, |spec| spec.allow_server_requests = true).start().await;
    let connect = || gateway.connect(LEGACY).capabilities(json!({"elicitation": {}}));
    let (victim, attacker) = (connect().open().await, connect().open().await);
    let message = victim.message("tools/call", json!({"name": "ask", "arguments": {}}));
    let mut stream = victim.open_message(&message).await;
    let asked = stream.notification("elicitation/create").await;
    let forged = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"who": "attacker"}}});
    attacker.post(forged(asked["id"].clone())).await;
    for guess in 0..200 {
        attacker.post(forged(json!(guess))).await;
    }
    // A request without a session owes nobody an answer either.
    gateway.post_mcp(&[], forged(asked["id"].clone()).to_string()).await;
    victim.post(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
    let reply = stream.message().await;
    assert_eq!(reply["result"]["content"][0]["text"], r#"{"action":"decline"}"#, "{reply}");
    let modern = gateway.modern().await;
    assert_eq!(modern.post(forged(json!(1))).await, 400, "the modern era knows no answers of clients");
}

// H6, CVE-2026-33946, CVE-2026-52869
#[tokio::test]
async fn a_session_that_is_not_ours_is_unknown_to_every_verb() {
    let logs = logs::capture();
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let owner = gateway.client().await;
    let session = owner.session().unwrap();
    assert!(session.len() >= 32 && session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{session}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}).to_string();
    let mut forged = vec!["attacker".to_owned(), String::from("x"), session.to_uppercase() + "x", format!("{session}A")];
    // H9: every position of the token counts.
    for at in (0..session.len()).step_by(7) {
        let mut bytes = session.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        forged.push(String::from_utf8(bytes).unwrap());
    }
    for forged in forged.iter().filter(|forged| **forged != session) {
        assert_eq!(gateway.post_mcp(&[("mcp-session-id", forged)], body.clone()).await.status, 404, "{forged}");
        assert_eq!(gateway.send("GET", "/mcp", &[("mcp-session-id", forged), ("accept", "text/event-stream")], "").await.status, 404);
        assert_eq!(gateway.send("DELETE", "/mcp", &[("mcp-session-id", forged)], "").await.status, 404);
    }
    assert!(a.calls().is_empty());
    owner.call("echo", json!({})).await.result();
    assert!(!logs.text().contains(&session), "a session id stands in the log");
}

// H7
#[tokio::test]
async fn a_session_id_that_a_client_proposes_is_not_used() {
    let gateway = gateway().start().await;
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let response = gateway.post_mcp(&[("mcp-session-id", "attacker")], body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let given = response.header("mcp-session-id");
    assert!(!given.is_empty() && given != "attacker");
}

// H8
#[tokio::test]
async fn several_streams_of_one_session_share_the_events() {
    let a = target("a").tool("t0", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let (mut first, mut second) = (client.stream().await, client.stream().await);
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["t1"]);
    a.notify_list_changed();
    let (one, two) = tokio::join!(first.drain(Duration::from_secs(3)), second.drain(Duration::from_secs(3)));
    assert_eq!(one.len() + two.len(), 1, "{one:?} {two:?}");
    // Both are still open.
    assert!(first.message_within(Duration::from_millis(50)).await.is_none());
    drop(first);
    a.set_tools(["t2"]);
    a.notify_list_changed();
    let rest = second.drain(Duration::from_secs(3)).await;
    assert_eq!(rest.len(), 1, "a stream that is left gets what comes");
}

// H9
#[tokio::test]
async fn a_request_state_is_sealed_and_bound_to_its_tool() {
    let asking = |name: &'static str| {
        move |_: Value, context: Context| async move {
            if context.params["requestState"] == "inner-state" {
                return Ok(text(&format!("{name} resumed")));
            }
            let requests = json!({"who": {"method": "elicitation/create", "params": {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}}});
            Ok(json!({"resultType": "input_required", "inputRequests": requests, "requestState": "inner-state"}))
        }
    };
    let a = target("a").era(Era::Modern).tool("ask", []).handler("ask", asking("ask")).tool("other", []).handler("other", asking("other"));
    let gateway = gateway().target_with(&a, |spec| spec.allow_server_requests = true).start().await;
    let client = gateway.connect(MODERN).capabilities(json!({"elicitation": {"form": {}}})).open().await;
    let reply = client.call("ask", json!({})).await;
    assert_eq!(reply.result()["resultType"], "input_required", "{}", reply.raw);
    let state = reply.result()["requestState"].as_str().unwrap().to_owned();
    assert_ne!(state, "inner-state");
    let retry = |tool: &str, state: &str| {
        let responses = json!({"who": {"action": "accept", "content": {}}});
        client.request("tools/call", json!({"name": tool, "arguments": {}, "inputResponses": responses, "requestState": state}))
    };
    let before = a.calls().len();
    assert_eq!(retry("other", &state).await.error_code(), -32602, "a state of another tool");
    for at in 0..state.len() {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(bytes).unwrap();
        if forged != state {
            let reply = retry("ask", &forged).await;
            assert_eq!(reply.error_code(), -32602, "byte {at}: {}", reply.raw);
        }
    }
    assert_eq!(retry("ask", "inner-state").await.error_code(), -32602, "a state we did not seal");
    assert_eq!(a.calls().len(), before, "the target was not contacted");
    assert_eq!(retry("ask", &state).await.text(), "ask resumed");
}

// H9
#[tokio::test]
async fn a_cursor_we_did_not_give_is_refused() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let before = a.touched();
    for client in [gateway.client().await, gateway.modern().await] {
        for cursor in ["page-1", "AAAA", "../../etc", "999999999999999999999"] {
            assert_eq!(client.request("tools/list", json!({"cursor": cursor})).await.error_code(), -32602, "{cursor}");
        }
    }
    assert_eq!(a.touched(), before);
}

// H10
#[tokio::test]
async fn a_resource_update_reaches_its_subscribers_only() {
    let a = target("a").resource("res://a").resource("res://b");
    let gateway = gateway().target(&a).start().await;
    let uri = |name: &str| format!("mcp://a/res%3A%2F%2F{name}");
    let (one, also_one, two) = (gateway.client().await, gateway.client().await, gateway.client().await);
    let modern = gateway.modern().await;
    let (mut stream_one, mut stream_also, mut stream_two) = (one.stream().await, also_one.stream().await, two.stream().await);
    one.request("resources/subscribe", json!({"uri": uri("a")})).await.result();
    also_one.request("resources/subscribe", json!({"uri": uri("a")})).await.result();
    two.request("resources/subscribe", json!({"uri": uri("b")})).await.result();
    let mut listening = modern.listen(json!({"resourceSubscriptions": [uri("a")]})).await;
    eventually("the target was asked for both", || async { a.requests_of("resources/subscribe").len() >= 2 }).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(a.requests_of("resources/subscribe").len(), 2, "one subscription upstream for all who share it");
    a.broadcast("notifications/resources/updated", json!({"uri": "res://a"}));
    for stream in [&mut stream_one, &mut stream_also, &mut listening] {
        let told = stream.notification("notifications/resources/updated").await;
        assert_eq!(told["params"]["uri"], uri("a"));
    }
    assert!(stream_two.drain(Duration::from_millis(300)).await.is_empty(), "a foreign update");
    drop(listening);
    one.request("resources/unsubscribe", json!({"uri": uri("a")})).await.result();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(a.requests_of("resources/unsubscribe").is_empty(), "someone still listens");
    also_one.request("resources/unsubscribe", json!({"uri": uri("a")})).await.result();
    eventually("the last one takes the subscription along", || async { a.requests_of("resources/unsubscribe").len() == 1 }).await;
}

// F9, H10: a config that changes how a target is reached takes nobody's subscription away, nor does one that leaves it out for a while.
#[tokio::test]
async fn subscriptions_outlive_the_target_that_is_replaced() {
    for era in [Era::Legacy("2025-06-18"), Era::Modern] {
        let a = target("a").era(era).tool("echo", []).resource("res://a");
        let mut gateway = gateway().target(&a).start().await;
        let (legacy, modern) = (gateway.client().await, gateway.modern().await);
        let mut stream = legacy.stream().await;
        legacy.request("resources/subscribe", json!({"uri": "mcp://a/res%3A%2F%2Fa"})).await.result();
        let mut listening = modern.listen(json!({"resourceSubscriptions": ["mcp://a/res%3A%2F%2Fa"]})).await;
        let is_asked = || async {
            let asked = a.requests_of(if era != Era::Modern { "resources/subscribe" } else { "subscriptions/listen" });
            asked.last().is_some_and(|request| request.text().contains("res://a"))
        };
        eventually("the target was asked", is_asked).await;
        for way in ["replaced", "left out"] {
            a.clear();
            if way == "left out" {
                gateway.reconfigure(|config| config.targets.clear());
                gateway.until_listed(&[]).await;
            }
            let spec = transom_upstream::TargetSpec { allow_server_requests: way == "replaced", ..a.spec() };
            gateway.reconfigure(|config| config.targets = vec![spec]);
            eventually("the target is asked again", is_asked).await;
            eventually("there is a stream", || async { a.streams() > 0 }).await;
            a.broadcast("notifications/resources/updated", json!({"uri": "res://a"}));
            for stream in [&mut stream, &mut listening] {
                let told = stream.notification("notifications/resources/updated").await;
                assert_eq!(told["params"]["uri"], "mcp://a/res%3A%2F%2Fa", "{way}, {era:?}");
            }
        }
    }
}

// H10: a URI that only begins like another is another; a part of a resource is told to who subscribed to the whole.
#[tokio::test]
async fn an_update_is_not_told_to_who_asked_for_a_uri_that_begins_like_it() {
    let a = target("a").resource("res://1").resource("res://12");
    let gateway = gateway().target(&a).start().await;
    let (one, modern) = (gateway.client().await, gateway.modern().await);
    let mut stream = one.stream().await;
    one.request("resources/subscribe", json!({"uri": "mcp://a/res%3A%2F%2F1"})).await.result();
    let mut listening = modern.listen(json!({"resourceSubscriptions": ["mcp://a/res%3A%2F%2F1"]})).await;
    eventually("the target was asked", || async { !a.requests_of("resources/subscribe").is_empty() }).await;
    for uri in ["res://12", "res://1/part"] {
        a.broadcast("notifications/resources/updated", json!({"uri": uri}));
    }
    for stream in [&mut stream, &mut listening] {
        let told = stream.notification("notifications/resources/updated").await;
        assert_eq!(told["params"]["uri"], "mcp://a/res%3A%2F%2F1%2Fpart", "the first that is told is the one that is meant");
    }
}

// H11
#[tokio::test]
async fn equal_progress_tokens_do_not_meet() {
    let a = target("a").tool("talk", ["nonce"]).handler("talk", |arguments, context| async move {
        for step in 0..5 {
            let params = json!({"progressToken": context.meta["progressToken"], "progress": step, "message": arguments["nonce"]});
            context.notify("notifications/progress", params);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Someone else's token, and one that does not exist.
        context.notify("notifications/progress", json!({"progressToken": "abc", "progress": 99, "message": "foreign"}));
        context.notify("notifications/progress", json!({"progressToken": 0, "progress": 99, "message": "foreign"}));
        Ok(text("done"))
    });
    let gateway = gateway().target(&a).start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let client = gateway.client_of(if number % 2 == 0 { LEGACY } else { MODERN }).await;
        let token = if number % 4 < 2 { json!("abc") } else { json!(0) };
        tasks.spawn(async move {
            // Twice: a token may be used again after its call.
            for _ in 0..2 {
                let reply = client.call_with_token("talk", json!({"nonce": number}), token.clone()).await;
                assert_eq!(reply.notifications.len(), 5, "{:?}", reply.notifications);
                for notification in &reply.notifications {
                    assert_eq!(notification["params"]["message"], number);
                    assert_eq!(notification["params"]["progressToken"], token);
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

// H12
#[tokio::test]
async fn a_target_per_session_keeps_the_state_of_each_client() {
    let mut own = stdio::spec("own", json!({"tools": ["counter"]}));
    own.sessions = Sessions::PerSession;
    let gateway = gateway().spec(own).stdio("shared", json!({"tools": ["counter"]})).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    for expected in ["1", "2", "3"] {
        assert_eq!(one.call("own__counter", json!({})).await.text(), expected);
    }
    assert_eq!(two.call("own__counter", json!({})).await.text(), "1");
    assert_eq!(one.call("shared__counter", json!({})).await.text(), "1");
    assert_eq!(two.call("shared__counter", json!({})).await.text(), "2");
    assert_eq!(one.delete().await / 100, 2);
    assert_eq!(two.call("own__counter", json!({})).await.text(), "2", "another's end changes nothing");
}

// H12: the same over HTTP.
#[tokio::test]
async fn a_remote_target_per_session_has_a_session_per_client() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target_with(&a, |spec| spec.sessions = Sessions::PerSession).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    for client in [&one, &two, &one, &two] {
        client.call("echo", json!({})).await.result();
    }
    let sessions: Vec<String> = a.requests_of("tools/call").iter().map(|call| call.header("mcp-session-id").unwrap_or_default().to_owned()).collect();
    assert_eq!(sessions.len(), 4);
    assert_ne!(sessions[0], sessions[1]);
    assert_eq!((&sessions[0], &sessions[1]), (&sessions[2], &sessions[3]));
    let ended = |a: &Target| a.requests().iter().filter(|request| request.http_method == "DELETE").count();
    let before = ended(&a);
    one.delete().await;
    eventually("its session at the target ends too", || async { ended(&a) == before + 1 }).await;
}

// H13, GHSA-9pj6-vhgr-3mwh
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_sessions_is_refused_at_the_cap_and_harms_no_one() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let client = gateway.client().await;
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let refused = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (http, url, body, refused) = (Http::new(), gateway.url("/mcp"), body.clone(), refused.clone());
        tasks.spawn(async move {
            for _ in 0..510 {
                let response = http.post_json(&url, &body).await;
                match response.status {
                    200 => {}
                    503 => {
                        assert!(!response.header("retry-after").is_empty());
                        assert_eq!(response.json()["error"]["code"], 1001);
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    other => panic!("{other}: {}", response.text()),
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(refused.load(Ordering::Relaxed) >= 150, "{} of 10,200 refused", refused.load(Ordering::Relaxed));
    client.call("echo", json!({})).await.result();
}

// H14
#[tokio::test]
async fn nobody_cancels_the_call_of_another() {
    let a = target("a").slow("slow", Duration::from_millis(700));
    let gateway = gateway().target(&a).start().await;
    let (owner, other) = (gateway.client().await, gateway.client().await);
    let call = owner.start_message(owner.message_with_id(json!(5), "tools/call", json!({"name": "slow", "arguments": {"nonce": 1}})));
    eventually("the call arrives", || async { a.calls().len() == 1 }).await;
    other.cancel(&json!(5)).await;
    other.cancel(&a.requests_of("tools/call")[0].json()["id"]).await;
    gateway.post("/mcp", &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})).await;
    owner.cancel(&json!(6)).await;
    assert_eq!(call.reply().await.structured()["arguments"]["nonce"], 1);
    assert!(a.cancelled().is_empty());
    // Its owner does, and is not told that nothing ran.
    let call = owner.start_message(owner.message_with_id(json!(7), "tools/call", json!({"name": "slow", "arguments": {}})));
    eventually("the call arrives", || async { a.calls().len() == 2 }).await;
    owner.cancel(&json!(7)).await;
    call.reply().await.failed(1006, json!("unknown"));
}

// protocol.md, legacy client
#[tokio::test]
async fn delete_ends_a_session() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let client = gateway.client().await;
    let mut stream = client.stream().await;
    assert_eq!(client.delete().await / 100, 2);
    assert_eq!(client.request("tools/list", json!({})).await.status, 404);
    assert_eq!(client.try_stream().await.status, 404);
    let end = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
    assert!(matches!(end, Ok(None)), "its stream ends too");
}

// protocol.md: any replica with the same key can serve it.
#[tokio::test]
async fn a_session_holds_on_every_replica_with_the_same_key() {
    let a = target("a").tool("echo", []);
    let key = || Some(transom_upstream::Secret::new("0123456789abcdef0123456789abcdef"));
    let first = gateway().target(&a).config(|config| config.session_key = key()).start().await;
    let second = gateway().target(&a).config(|config| config.session_key = key()).start().await;
    let stranger = gateway().target(&a).start().await;
    let session = first.client().await.session().unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    assert_eq!(second.post_mcp(&[("mcp-session-id", &session)], body.clone()).await.status, 200);
    assert_eq!(stranger.post_mcp(&[("mcp-session-id", &session)], body).await.status, 404);
}
