//! The fakes themselves, client against server with nothing between them: what a later test shows about the gateway
//! it can only show if these hold.

use std::time::Duration;
use transom_tests::client::{self, LEGACY, MODERN};
use transom_tests::target::text;
use transom_tests::*;

// R-003-43
#[tokio::test]
async fn a_fake_serves_each_era_and_transport() {
    for (era, transport, revision) in [
        (Era::Legacy("2025-06-18"), Transport::Json, LEGACY),
        (Era::Legacy("2025-11-25"), Transport::Events, LEGACY),
        (Era::Modern, Transport::Json, MODERN),
        (Era::Modern, Transport::Events, MODERN),
        (Era::Both, Transport::Json, MODERN),
        (Era::Both, Transport::Json, LEGACY),
    ] {
        let fake = target("fake").tool("echo", ["q"]).tool("add", []).era(era).transport(transport).page_size(1);
        let client = client::connect(fake.url(), revision).open().await;
        assert_eq!(client.tool_names().await, ["add", "echo"]);
        let reply = client.call("echo", json!({"q": 1})).await;
        assert_eq!(reply.structured()["arguments"]["q"], 1);
        assert_eq!(reply.events, transport == Transport::Events);
        assert_eq!(fake.calls(), [("echo".to_owned(), json!({"q": 1}))]);
    }
}

#[tokio::test]
async fn a_fake_serves_the_oldest_transport() {
    let fake = target("old").tool("echo", ["q"]).transport(Transport::LegacySse);
    let client = client::connect(fake.url(), "2024-11-05").open_sse().await;
    assert_eq!(client.tool_names().await, ["echo"]);
    assert_eq!(client.call("echo", json!({"q": "x"})).await.structured()["arguments"]["q"], "x");
    fake.notify_list_changed();
    assert_eq!(client.sse_notification().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_handler_can_talk_while_it_works_and_knows_when_it_is_cancelled() {
    let fake = target("fake").tool("ask", []).handler("ask", |_, context| async move {
        context.progress(50);
        let answer = context.ask("elicitation/create", json!({"message": "?"})).await?;
        Ok(text(&answer.to_string()))
    });
    let fake = fake.slow("slow", Duration::from_secs(60));
    let client = client::connect(fake.url(), LEGACY).answer("elicitation/create", |_| Ok(json!({"action": "decline"}))).open().await;
    let reply = client.call_with_token("ask", json!({}), json!("t")).await;
    assert_eq!(reply.text(), r#"{"action":"decline"}"#);
    assert_eq!(reply.notifications[0]["params"]["progressToken"], "t");

    let pending = client.start_call("slow", json!({}));
    eventually("the call arrives", || async { fake.calls().len() == 2 }).await;
    client.cancel(&pending.id).await;
    assert_eq!(pending.reply().await.error_code(), -32800);
    assert_eq!(fake.cancelled().len(), 1);

    let pending = client.start_call("slow", json!({}));
    eventually("the call arrives", || async { fake.calls().len() == 3 }).await;
    drop(pending);
    eventually("the disconnect is seen", || async { fake.disconnected() == 1 }).await;
}

#[tokio::test]
async fn a_stopped_fake_refuses_connections_and_comes_back_on_its_port() {
    let fake = target("fake").tool("echo", []);
    let client = client::connect(fake.url(), LEGACY).open().await;
    let mut stream = client.stream().await;
    fake.stop();
    eventually("connections are refused", || async { Http::new().try_send("GET", &fake.url(), &[], "").await.is_err() }).await;
    assert!(stream.next().await.is_none());
    fake.start();
    assert_eq!(client.request("tools/list", json!({})).await.status, 404, "the session is forgotten");
    assert_eq!(client::connect(fake.url(), LEGACY).open().await.tool_names().await, ["echo"]);
}

#[tokio::test]
async fn a_child_speaks_on_its_streams() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let mut child = tokio::process::Command::new(stdio::binary())
        .arg(json!({"tools": ["echo", "counter"]}).to_string())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut input, mut lines) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    for (id, method, params) in [(1, "initialize", json!({})), (2, "tools/list", json!({})), (3, "tools/call", json!({"name": "counter"}))] {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id);
        assert!(answer["result"].is_object(), "{answer}");
    }
    drop(input);
    assert!(child.wait().await.unwrap().success());
}
