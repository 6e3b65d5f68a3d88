//! The tools of real servers and of the demo, in the formats of LLM providers.

use crate::gateway::{gateway, wait_for_url};
use crate::servers::{everything_stdio, fetch, filesystem, git, memory, modern, time};
use serde_json::{Value, json};
use std::path::Path;
use tokio::process::Command;
use transom_tests::Http;
use transom_tests::children::{Background, PATIENCE, stdout};
use transom_tests::install::have;
use transom_tests::process::binary;
use transom_tests::providers::{FORMATS, accepts, names};
use transom_tests::within;

/// What `transom export` prints.
async fn exported(format: &str, url: &str, more: &[&str]) -> Value {
    let printed = stdout(Command::new(binary()).args(["export", format, "--url", url]).args(more)).await;
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

async fn empty_repository(folder: &Path) {
    stdout(Command::new("git").args(["init", "--quiet"]).arg(folder)).await;
}

// Issue 6: each provider export validated against the provider's published request shape.
#[tokio::test]
async fn every_provider_accepts_the_tools_of_every_real_server() {
    if !have(&["node", "venv"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path();
    empty_repository(root).await;
    let modern = modern().await;
    let graph = memory(&root.join("graph.jsonl"));
    let targets = vec![everything_stdio("everything"), graph, filesystem(root), time(), git(root), fetch(), modern.target("fastmcp")];
    let gateway = gateway(targets).await;
    // The reference server adds a tool after the handshake, which the first list may be without.
    let has_all = || async { gateway.process.get("/tools").await.text().contains("\"simulate-research-query\"") };
    within(PATIENCE, "the last tool is listed", has_all).await;
    let listed = gateway.process.get("/tools").await.json().as_array().map_or(0, Vec::len);
    assert!(listed > 50, "{listed} tools");
    for format in FORMATS {
        let tools = gateway.process.get(&format!("/tools?format={format}")).await.json();
        accepts(format, &tools);
        assert_eq!(names(format, &tools).len(), listed, "{format}");
        // The command line says the same, with a gateway and with a server of anybody else's.
        assert_eq!(exported(format, &gateway.mcp(), &[]).await, tools, "{format}");
        let of_server = exported(format, &gateway.mcp(), &["--server", "time"]).await;
        assert_eq!(names(format, &of_server), ["get_current_time", "convert_time"], "{format}");
        assert_eq!(names(format, &exported(format, &gateway.mcp(), &["--allowed", "echo"]).await), ["echo"]);
        assert_eq!(exported(format, &gateway.mcp(), &["--allowed", ""]).await, json!([]));
        accepts(format, &exported(format, &modern.url, &[]).await);
    }
    // A module is the gateway's own, to the byte.
    let module = stdout(Command::new(binary()).args(["export", "typescript", "--url", &gateway.mcp()])).await;
    assert_eq!(module, gateway.process.get("/runtime/tools.ts").await.text());
    let of_time = stdout(Command::new(binary()).args(["export", "typescript", "--server", "time", "--url", &gateway.mcp()])).await;
    assert!(of_time.contains("getCurrentTime(") && !of_time.contains("everything"), "{of_time}");
    let chosen = stdout(Command::new(binary()).args(["export", "typescript", "--allowed", "echo", "--url", &gateway.mcp()])).await;
    assert!(chosen.contains("echo(") && !chosen.contains("getCurrentTime("), "{chosen}");
    let of_another = stdout(Command::new(binary()).args(["export", "typescript", "--url", &modern.url])).await;
    assert!(of_another.contains("add("), "{of_another}");
    // A model picks, the gateway answers.
    let (picked, arguments) = ("add", json!({"a": 40, "b": 2}));
    let reply = Http::new().post_json(&gateway.process.url(&format!("/tools/{picked}/invoke")), &json!({ "arguments": arguments })).await;
    assert_eq!(reply.json()["result"]["structuredContent"]["sum"], 42, "{}", reply.text());
}

#[tokio::test]
async fn every_provider_accepts_the_tools_of_the_demo() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url_file = directory.path().join("url");
    let mut command = Command::new(binary());
    let _demo = Background::start("transom demo", command.args(["demo", "--port", "0", "--url-file"]).arg(&url_file));
    let url = wait_for_url(&url_file).await;
    within(PATIENCE, "the demo has its tools", || async { Http::new().get(&format!("{url}/ready")).await.status == 200 }).await;
    let listed = Http::new().get(&format!("{url}/tools")).await.json().as_array().map_or(0, Vec::len);
    for format in FORMATS {
        let tools = exported(format, &url, &[]).await;
        accepts(format, &tools);
        assert_eq!(names(format, &tools).len(), listed, "{format}");
    }
    let file = directory.path().join("tools.json");
    let printed = stdout(Command::new(binary()).args(["export", "gemini", "--url", &url, "-o"]).arg(&file)).await;
    assert_eq!(printed, "");
    accepts("gemini", &serde_json::from_str(&std::fs::read_to_string(&file).expect("a file")).expect("JSON"));
}
