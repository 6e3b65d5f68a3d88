//! D2, and section 5 of the registry's specification: what a config gives to a target does not come back from it, with a registry and without.

use transom_tests::client::{LEGACY, MODERN, connect};
use transom_tests::*;

const TOKEN: &str = "CANARY-token-4f1d\"9c";
const SPELLED_OUT: &str = "CANARY-key-in-the-file";

/// A server that tells everybody what it was given.
fn gossip() -> Target {
    let definition = json!({"name": "whoami", "description": format!("for {TOKEN}"), "inputSchema": {"type": "object", "properties": {"how": {"type": "string"}}}});
    target("gossip")
        .tool_def(definition)
        .instructions(&format!("send {SPELLED_OUT}"))
        .resource_def(json!({"uri": "file:///a", "name": "a", "description": TOKEN}))
        .method("resources/read", json!({"contents": [{"uri": "file:///a", "text": format!("x{TOKEN}x")}]}))
        .handler("whoami", |arguments, context| async move {
            context.log("error", &format!("they sent Bearer {TOKEN}"));
            match arguments["how"].as_str() {
                Some("error") => Err(json!({"code": 7, "message": format!("bad token Bearer {TOKEN}"), "data": [SPELLED_OUT]})),
                _ => Ok(json!({"content": [{"type": "text", "text": format!("Bearer {TOKEN}, {SPELLED_OUT}, everybody-knows-it")}]})),
            }
        })
}

async fn everything_said(registry: Option<Value>) -> (Vec<(String, String)>, Process) {
    let gossip = gossip();
    let headers = json!({"Authorization": "Bearer ${TOKEN}", "X-Api-Key": SPELLED_OUT, "X-Team": "everybody-knows-it"});
    let mut builder =
        process().entry(json!({"name": "gossip", "mcp": {"host": gossip.url(), "headers": headers}})).env("TOKEN", TOKEN).env("LOG_LEVEL", "debug");
    if let Some(registry) = &registry {
        builder = builder.config(|config| config["tools"] = registry["tools"].clone());
    }
    let process = builder.start_ready().await;
    let mut said = Vec::new();
    for revision in [LEGACY, MODERN] {
        let client = connect(process.url("/mcp"), revision).open().await;
        let uri = client.request("resources/list", json!({})).await.result()["resources"][0]["uri"].clone();
        for (method, params) in
            [("tools/list", json!({})), ("resources/list", json!({})), ("resources/read", json!({"uri": uri})), ("server/discover", json!({}))]
        {
            said.push((format!("{revision} {method}"), client.request(method, params).await.raw));
        }
        for how in ["plain", "error"] {
            let reply = client.call("whoami", json!({"how": how})).await;
            said.push((format!("{revision} {how}"), reply.raw.clone()));
            said.push((format!("{revision} {how}, on the way"), reply.notified().concat()));
        }
    }
    let http = &process.http;
    let json = [("content-type", "application/json")];
    said.push(("invoke".into(), http.send("POST", &process.url("/tools/whoami/invoke"), &json, r#"{"arguments":{}}"#).await.text()));
    said.push(("tools".into(), process.get("/tools").await.text()));
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    said.push(("initialize".into(), http.send("POST", &process.url("/mcp"), &json, hello.to_string()).await.text()));
    said.push(("log".into(), process.stderr()));
    (said, process)
}

#[tokio::test]
async fn what_the_config_gives_to_a_target_does_not_come_back_from_it() {
    let registry = json!({"tools": [{"name": "whoami", "source": {"target": "gossip", "tool": "whoami"}, "title": "Who am I"}]});
    for registry in [None, Some(registry)] {
        let (said, process) = everything_said(registry.clone()).await;
        let spelled = serde_json::to_string(TOKEN).unwrap();
        for (place, text) in &said {
            for secret in [TOKEN, spelled.trim_matches('"'), SPELLED_OUT] {
                assert!(!text.contains(secret), "{place}, registry {}: {text}", registry.is_some());
            }
        }
        let of = |place: &str| &said.iter().find(|(at, _)| at == place).expect("it was asked").1;
        assert!(of(&format!("{LEGACY} plain")).contains("[redacted], [redacted], everybody-knows-it"), "{said:?}");
        assert!(of(&format!("{MODERN} error")).contains("bad token [redacted]"), "{said:?}");
        assert!(of(&format!("{LEGACY} resources/read")).contains("x[redacted]x"), "{said:?}");
        assert!(of("initialize").contains("send [redacted]"), "{said:?}");
        drop(process);
    }
}
