//! Changes: told once to everyone who can see them, and to nobody else.

use std::time::Duration;
use transom_tests::http::PATIENCE;
use transom_tests::*;

const QUIET: Duration = Duration::from_millis(1500);
const CHANGED: &str = "notifications/tools/list_changed";

fn changes(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message["method"] == CHANGED).count()
}

// R-000-8, C21, surfaces.md 5
#[tokio::test]
async fn events_tells_what_was_added_removed_and_changed() {
    let a = target("a").tool("keep", []).tool("drop", []).tool("alter", ["x"]);
    let gateway = gateway().target(&a).start().await;
    let mut stream = gateway.http.open("GET", &gateway.url("/events"), &[("accept", "text/event-stream")], "").await.unwrap();
    assert_eq!(stream.status, 200);
    assert!(stream.is_events());
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    let before = gateway.get("/status").await.json()["registry"]["generation"].as_u64().unwrap();
    a.set_tools(["keep", "alter", "fresh"]);
    a.notify_list_changed();
    let event = loop {
        let event = tokio::time::timeout(PATIENCE, stream.next()).await.expect("an event in time").expect("an open stream");
        if event.name == "tool-changed" {
            break serde_json::from_str::<Value>(&event.data).unwrap();
        }
    };
    assert_eq!(event["added"], json!(["fresh"]), "{event}");
    assert_eq!(event["removed"], json!(["drop"]));
    let mut changed: Vec<&str> = event["changed"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    changed.sort_unstable();
    assert!(changed.contains(&"alter"), "{event}");
    assert!(event["generation"].as_u64().unwrap() > before);
}

// N20, surfaces.md 5
#[tokio::test]
async fn a_burst_of_changes_is_one_notification() {
    let a = target("a").tool("t0", []);
    let gateway = gateway().target(&a).start().await;
    let (client, modern) = (gateway.client().await, gateway.modern().await);
    let mut stream = client.stream().await;
    let mut subscription = modern.listen(json!({"toolsListChanged": true})).await;
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["t1"]);
    for _ in 0..200 {
        a.notify_list_changed();
    }
    stream.notification(CHANGED).await;
    let more = changes(&stream.drain(QUIET).await);
    assert!(more <= 1, "{more} more notifications after a burst of 200");
    let told = changes(&subscription.drain(QUIET).await);
    assert!((1..=2).contains(&told), "{told}");
    assert_eq!(client.tool_names().await, ["t1"]);
    // L5: the target is not asked two hundred times either.
    assert!(a.requests_of("tools/list").len() < 20, "{}", a.requests_of("tools/list").len());
}

#[tokio::test]
async fn a_change_that_changes_nothing_is_not_told() {
    let a = target("a").tool("same", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let mut stream = client.stream().await;
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    let before = a.requests_of("tools/list").len();
    a.notify_list_changed();
    eventually("the target is asked again", || async { a.requests_of("tools/list").len() > before }).await;
    assert_eq!(changes(&stream.drain(QUIET).await), 0);
}

#[tokio::test]
async fn a_subscription_gets_what_it_asked_for_and_nothing_else() {
    let a = target("a").tool("t0", []).prompt("p").resource("file:///a");
    let gateway = gateway().target(&a).start().await;
    let client = gateway.modern().await;
    let mut tools = client.listen(json!({"toolsListChanged": true})).await;
    let mut prompts = client.listen(json!({"promptsListChanged": true})).await;
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["t1"]);
    a.notify_list_changed();
    let message = tools.notification(CHANGED).await;
    assert!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number(), "{message}");
    assert!(prompts.drain(QUIET).await.is_empty());
}

#[tokio::test]
async fn a_subscription_is_told_what_it_will_hear_of_and_what_not() {
    let all =
        |uris: Value| json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": uris});
    let uri = "mcp://b/file%3A%2F%2F%2Fb";
    let (a, b) = (target("a").tool("t0", []), target("b").tool("t1", []).resource("file:///b"));
    for (gateway, honoured) in [
        (gateway().target(&a).start().await, json!({"toolsListChanged": true})),
        (gateway().target(&b).start().await, json!({"toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": [uri]})),
    ] {
        let client = gateway.modern().await;
        let message = client.message("subscriptions/listen", json!({"notifications": all(json!([uri, "mcp://nobody/x", "file:///none"]))}));
        let acknowledged = client.open_message(&message).await.message().await;
        assert_eq!(acknowledged["params"]["notifications"], honoured);
        let headers = client.headers(&message);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).filter(|(name, _)| *name != "accept").collect();
        let refused = gateway.send("POST", "/mcp", &[&headers[..], &[("accept", "application/json")]].concat(), message.to_string()).await;
        assert_eq!(refused.status, 406, "whoever reads no stream is told so: {}", refused.text());
    }
}

#[tokio::test]
async fn a_2024_client_is_told_on_its_stream() {
    let a = target("a").tool("t0", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.sse_client().await;
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["t1"]);
    a.notify_list_changed();
    assert_eq!(client.sse_notification().await["method"], CHANGED);
    assert_eq!(client.tool_names().await, ["t1"]);
}

// surfaces.md 5, /mcp/{target}: a change elsewhere leaves that list as it was.
#[tokio::test]
async fn a_client_of_one_target_is_not_told_about_another() {
    let (a, b) = (target("a").tool("t0", []), target("b").tool("u0", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    let client = gateway.connect_at("/mcp/a", client::LEGACY).open().await;
    let mut stream = client.stream().await;
    let other = gateway.client().await;
    let mut everything = other.stream().await;
    eventually("the target has a stream to tell on", || async { b.streams() > 0 }).await;
    b.set_tools(["u1"]);
    b.notify_list_changed();
    everything.notification(CHANGED).await;
    assert_eq!(changes(&stream.drain(QUIET).await), 0);
}

// surfaces.md 5: filtered like a listing.
#[tokio::test]
async fn events_are_narrowed_by_server_and_prefix() {
    let (a, b) = (target("a").tool("t0", []), target("b").tool("u0", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    let open = async |query: &str| gateway.http.open("GET", &gateway.url(&format!("/events?{query}")), &[], "").await.unwrap();
    let (mut of_a, mut of_b) = (open("server=a").await, open("prefix=u").await);
    eventually("the targets have streams to tell on", || async { a.streams() > 0 && b.streams() > 0 }).await;
    a.set_tools(["t1"]);
    a.notify_list_changed();
    b.set_tools(["u1", "v1"]);
    b.notify_list_changed();
    for (stream, added, removed) in [(&mut of_a, "t1", "t0"), (&mut of_b, "u1", "u0")] {
        let event = loop {
            let event = tokio::time::timeout(PATIENCE, stream.next()).await.expect("an event in time").expect("an open stream");
            if event.name == "tool-changed" {
                break serde_json::from_str::<Value>(&event.data).unwrap();
            }
        };
        assert_eq!((&event["added"], &event["removed"]), (&json!([added]), &json!([removed])), "{event}");
    }
}
