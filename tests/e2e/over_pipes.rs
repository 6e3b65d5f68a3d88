//! Clients that start their server as a process: `transom stdio` is that process, and what they get is what they get over HTTP.

use crate::every_client::restore_the_last_step;
use crate::gateway::gateway;
use crate::servers::{everything_stdio, modern};
use crate::talk::{Sdk, call, call_with_progress, cancel, change, list, prompt};
use serde_json::{Value, json};
use transom_tests::install::have;
use transom_tests::process::binary;

#[tokio::test]
async fn the_python_sdk_starts_the_bridge_and_shakes_hands() {
    says_the_same(Sdk::PythonLegacy).await;
}

#[tokio::test]
async fn the_python_sdk_starts_the_bridge_without_a_handshake() {
    says_the_same(Sdk::PythonAuto).await;
}

#[tokio::test]
async fn fastmcp_starts_the_bridge() {
    says_the_same(Sdk::FastMcpAuto).await;
}

#[tokio::test]
async fn the_typescript_client_starts_the_bridge_and_shakes_hands() {
    says_the_same(Sdk::TypeScriptLegacy).await;
}

#[tokio::test]
async fn the_typescript_client_starts_the_bridge_without_a_handshake() {
    says_the_same(Sdk::TypeScriptModern).await;
}

#[tokio::test]
async fn the_first_typescript_sdk_starts_the_bridge() {
    says_the_same(Sdk::TypeScriptOne).await;
}

async fn says_the_same(sdk: Sdk) {
    if !have(&["node", "venv"]) {
        return;
    }
    let server = modern().await;
    let gateway = gateway(vec![everything_stdio("everything"), server.target("modern")]).await;
    let mut steps = vec![
        list("tools"),
        call("add", json!({"a": 2, "b": 40})),
        call("tagged", json!({"text": "hi"})),
        call("get-structured-content", json!({"location": "Chicago"})),
        call_with_progress("trigger-long-running-operation", json!({"duration": 0.4, "steps": 4})),
        call_with_progress("count", json!({"to": 3})),
        call("refuse", json!({})),
        call("nowhere", json!({})),
    ];
    if sdk != Sdk::FastMcpAuto {
        // Of these FastMCP's client gives no whole results.
        steps.extend([list("resources"), list("prompts"), prompt("greet", json!({"name": "Ann"}))]);
    }
    let over_http = sdk.talk(&gateway.mcp(), &steps).await;
    let same = steps.len();
    steps.extend([
        cancel("wait", json!({"key": "pipes"})),
        call("was_cancelled", json!({"key": "pipes"})),
        change("grow", json!({"key": "pipes"}), "grown_pipes"),
    ]);
    let bridge = json!({"command": binary(), "args": ["stdio", "--url", gateway.mcp()]}).to_string();
    let over_pipes = sdk.talk(&bridge, &steps).await;
    assert_eq!((over_pipes.revision.as_str(), over_http.revision.as_str()), (sdk.revision(), sdk.revision()));
    let mut replies = over_pipes.replies;
    for (step, (piped, direct)) in steps.iter().zip(replies.iter_mut().zip(&over_http.replies)).take(same) {
        if step["progress"] == true && matches!(sdk, Sdk::TypeScriptLegacy | Sdk::TypeScriptModern | Sdk::TypeScriptOne) {
            // Lines that arrive together are to this SDK what events of one packet are.
            restore_the_last_step(piped, direct);
        }
        assert_eq!(piped, direct, "{step}: over pipes, and then over HTTP");
    }
    let rest: Vec<&Value> = replies.iter().skip(same).collect();
    assert_eq!(rest[0], &json!({"cancelled": true}));
    assert!(rest[1].to_string().contains("true"), "the server knows: {}", rest[1]);
    assert_eq!(rest[2], &json!({"changed": true}));
}
