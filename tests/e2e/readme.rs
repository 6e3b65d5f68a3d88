//! What the README shows works as shown.

use crate::gateway::wait_for_url;
use std::path::Path;
use tokio::process::Command;
use transom_tests::children::{Background, PATIENCE, stdout};
use transom_tests::install::{have, node};
use transom_tests::process::{binary, process};
use transom_tests::within;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).expect("a README")
}

/// The blocks of a language, first to last.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    readme().split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_demo_answers_the_three_things_to_try() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url_file = directory.path().join("url");
    let mut command = Command::new(binary());
    let _demo = Background::start("transom demo", command.args(["demo", "--port", "0", "--url-file"]).arg(&url_file));
    let url = wait_for_url(&url_file).await;

    let things = blocks("sh").into_iter().nth(1).expect("a second block of commands");
    let things: Vec<&str> = things.lines().collect();
    assert_eq!(things.len(), 3, "{things:?}");
    for thing in things {
        let thing = thing.replace("target/release/transom", "\"$TRANSOM\"").replace("http://127.0.0.1:3000", &url);
        let mut shell = Command::new("sh");
        let printed = stdout(shell.args(["-c", &thing]).env("TRANSOM", binary()).env("TRANSOM_URL", format!("{url}/mcp"))).await;
        assert!(printed.contains("get_forecast") || printed.contains("Oslo"), "{thing}\n{printed}");
    }
    assert!(blocks("json")[0].contains("/mcp"));
}

#[tokio::test]
async fn the_program_gets_its_forecast() {
    if !have(&["node"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url_file = directory.path().join("url");
    let mut command = Command::new(binary());
    let _demo = Background::start("transom demo", command.args(["demo", "--port", "0", "--url-file"]).arg(&url_file));
    let url = wait_for_url(&url_file).await;

    std::fs::write(directory.path().join("forecast.ts"), &blocks("ts")[0]).expect("a file");
    let commands = blocks("sh").into_iter().find(|block| block.contains("tools.ts")).expect("commands for it").replace("http://127.0.0.1:3000", &url);
    let path = format!("{}:{}", node().parent().expect("a folder").display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let printed = stdout(shell.args(["-ec", &commands]).current_dir(directory.path()).env("PATH", path)).await;
    assert!(printed.starts_with("Oslo: ") && printed.contains(" degrees, ") && !printed.contains("undefined"), "{printed}");
}

#[tokio::test]
async fn the_config_is_accepted_as_it_stands() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, &blocks("yaml")[0]).expect("a config file");
    let gateway = process().without_config().argument("-f").argument(&config.display().to_string()).argument("--port").argument("0").start().await;
    within(PATIENCE, "its three targets are known", || async {
        let status = gateway.get("/status").await.json();
        ["time", "search", "archive"].iter().all(|target| status["servers"][target].is_object())
    })
    .await;
}
