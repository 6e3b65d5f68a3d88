//! A server dies; the others do not notice, and it comes back by itself.

use crate::gateway::gateway;
use crate::servers::{everything_stdio, modern, time};
use crate::talk::{Sdk, call, list};
use serde_json::{Value, json};
use transom_tests::children::PATIENCE;
use transom_tests::install::have;
use transom_tests::{sys, within};

#[tokio::test]
async fn a_killed_server_costs_its_own_tools_and_comes_back() {
    if !have(&["node", "venv"]) {
        return;
    }
    let modern = modern().await;
    let gateway = gateway(vec![everything_stdio("everything"), time(), modern.target("modern")]).await;
    let others = [call("get_current_time", json!({"timezone": "UTC"})), call("add", json!({"a": 1, "b": 2}))];
    let steps: Vec<Value> = others.iter().cloned().chain([list("tools"), call("echo", json!({"message": "back"}))]).collect();

    for round in 1..=2 {
        let victim = gateway.process.children().into_iter().find(|child| child.command_line.contains("server-everything"));
        let victim = victim.expect("server-everything is a child of the gateway").pid;
        assert!(sys::signal(victim, libc::SIGKILL));
        within(PATIENCE, "the gateway has noticed", || async {
            let status = gateway.status_of("everything").await;
            // By now it may be back already.
            status["state"] != "connected" || status["restarts"].as_u64() >= Some(round)
        })
        .await;

        // Legacy and modern, while it is away or on its way back: the others answer as ever.
        for sdk in [Sdk::PythonLegacy, Sdk::TypeScriptModern] {
            for reply in sdk.talk(&gateway.mcp(), &others).await.replies {
                assert!(reply["error"].is_null() && reply["isError"] != true, "{sdk:?}, round {round}: {reply}");
            }
        }

        within(PATIENCE, "the server is connected again", || async { gateway.status_of("everything").await["state"] == "connected" }).await;
        let talk = Sdk::TypeScriptLegacy.talk(&gateway.mcp(), &steps).await;
        assert!(talk.replies[2].to_string().contains("get-structured-content"), "its tools are listed again: {}", talk.replies[2]);
        assert_eq!(talk.replies[3]["content"][0]["text"], "Echo: back", "{}", talk.replies[3]);
    }
}
