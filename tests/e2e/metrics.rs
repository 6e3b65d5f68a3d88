//! What the programs that read metrics say about ours.

use crate::gateway::gateway;
use crate::servers::{everything_stdio, modern, time};
use crate::talk::{Sdk, call, list};
use serde_json::{Value, json};
use std::fs;
use tokio::process::Command;
use transom_tests::children::{run, stdout};
use transom_tests::install::{folder, have, promtool, python};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0";

#[tokio::test]
async fn promtool_and_the_openmetrics_parser_accept_the_metrics() {
    if !have(&["node", "venv", "promtool"]) {
        return;
    }
    let modern = modern().await;
    let gateway = gateway(vec![everything_stdio("everything"), time(), modern.target("modern")]).await;
    let steps = [list("tools"), call("echo", json!({"message": "hi"})), call("refuse", json!({})), call("no such tool", json!({}))];
    for sdk in [Sdk::PythonLegacy, Sdk::TypeScriptModern] {
        sdk.talk(&gateway.mcp(), &steps).await;
    }

    let directory = tempfile::tempdir().expect("a temporary directory");
    let plain = gateway.metrics("text/plain").await;
    let file = directory.path().join("metrics.txt");
    fs::write(&file, &plain).expect("a file");
    // promtool reads its stdin only.
    let lint = run(Command::new("sh").args(["-c", r#""$0" check metrics < "$1""#]).arg(promtool()).arg(&file)).await;
    let complaints = format!("{}{}", String::from_utf8_lossy(&lint.stdout), String::from_utf8_lossy(&lint.stderr));
    assert!(lint.status.success() && complaints.is_empty(), "promtool: {complaints}\n{plain}");

    let open = gateway.metrics(OPENMETRICS).await;
    fs::write(&file, &open).expect("a file");
    let families = stdout(Command::new(python("python")).arg(folder("e2e").join("clients/openmetrics.py")).arg(&file)).await;
    let families: Value = serde_json::from_str(&families).expect("JSON");

    for name in ["mcp_server_operation_duration_seconds", "mcp_client_operation_duration_seconds", "transom_target_up", "transom_build_info"] {
        assert!(plain.contains(&format!("# TYPE {name} ")), "{name} is not among the metrics:\n{plain}");
    }
    assert_eq!(families["transom_target_up"]["type"], "gauge", "{families}");
    // A name that a client made up is not a label.
    assert!(!plain.contains("no such tool") && plain.contains("_unknown"), "{plain}");
}
