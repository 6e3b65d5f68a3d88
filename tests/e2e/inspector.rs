//! The MCP Inspector, as people run it from a shell.

use crate::gateway::gateway;
use crate::servers::{everything_stdio, modern};
use serde_json::Value;
use std::process::ExitStatus;
use tokio::process::Command;
use transom_tests::children::run;
use transom_tests::install::{have, node, package};

#[tokio::test]
async fn the_inspector_lists_and_calls_in_both_eras() {
    if !have(&["node", "venv"]) {
        return;
    }
    let modern = modern().await;
    let gateway = gateway(vec![everything_stdio("everything"), modern.target("modern")]).await;
    for era in ["legacy", "modern"] {
        let listed = inspect(&gateway.mcp(), era, &["--method", "tools/list"]).await;
        let names: Vec<_> = listed["tools"].as_array().into_iter().flatten().map(|tool| tool["name"].as_str().unwrap_or_default()).collect();
        assert!(names.contains(&"echo") && names.contains(&"add"), "{era}: {names:?}");

        let echoed =
            inspect(&gateway.mcp(), era, &["--method", "tools/call", "--tool-name", "echo", "--tool-args-json", r#"{"message":"hi"}"#]).await;
        assert_eq!(echoed["content"][0]["text"], "Echo: hi", "{era}: {echoed}");
        let added = inspect(&gateway.mcp(), era, &["--method", "tools/call", "--tool-name", "add", "--tool-args-json", r#"{"a":1,"b":2}"#]).await;
        assert_eq!(added["structuredContent"]["sum"], 3, "{era}: {added}");

        let resources = inspect(&gateway.mcp(), era, &["--method", "resources/list"]).await;
        assert!(resources["resources"].as_array().is_some_and(|resources| resources.len() > 1), "{era}: {resources}");
        let prompts = inspect(&gateway.mcp(), era, &["--method", "prompts/list"]).await;
        assert!(prompts.to_string().contains("simple-prompt"), "{era}: {prompts}");
    }
}

async fn inspect(url: &str, era: &str, what: &[&str]) -> Value {
    let (status, reply) = ask(url, era, what).await;
    assert!(status.success(), "{what:?} ended with {status}: {reply}");
    reply
}

/// Asks one thing; a tool that says it failed makes the inspector fail too.
pub async fn ask(url: &str, era: &str, what: &[&str]) -> (ExitStatus, Value) {
    // It keeps a catalog of servers in the home directory: not in that of whoever runs the tests.
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(node());
    command.arg(package("@modelcontextprotocol/inspector/clients/launcher/build/index.js"));
    command.args(["--cli", "--server-url", url, "--transport", "http", "--protocol-era", era, "-q", "--format", "json"]).args(what);
    let output = run(command.env("HOME", home.path())).await;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut reply: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status, reply["result"].take())
}
