//! The real binary before real servers.

use serde_json::Value;
use std::path::Path;
use transom_tests::children::{PATIENCE, free_port};
use transom_tests::process::{Process, process};
use transom_tests::{Http, within};

pub struct Gateway {
    pub process: Process,
    /// The address of the metrics.
    pub metrics: String,
}

/// Starts the gateway before these targets and waits until it has connected to all of them.
pub async fn gateway(targets: Vec<Value>) -> Gateway {
    let metrics = format!("127.0.0.1:{}", free_port());
    let builder = targets.into_iter().fold(process(), |builder, target| builder.entry(target));
    let process = builder.config(|config| config["metrics"]["listen"] = metrics.clone().into()).start().await;
    let gateway = Gateway { process, metrics: format!("http://{metrics}/metrics") };
    within(PATIENCE, "every target is connected", || async { gateway.process.get("/ready").await.status == 200 }).await;
    gateway
}

impl Gateway {
    /// The endpoint of MCP.
    pub fn mcp(&self) -> String {
        self.process.url("/mcp")
    }

    /// What `GET /status` says about a target.
    pub async fn status_of(&self, target: &str) -> Value {
        let reply = self.process.get("/status").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["servers"][target].clone()
    }

    /// The metrics, in the format that this `Accept` asks for.
    pub async fn metrics(&self, accept: &str) -> String {
        let reply = Http::new().send("GET", &self.metrics, &[("accept", accept)], "").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what the gateway logged ---\n{}", self.process.stderr());
        }
    }
}

/// The base URL that the binary wrote to its `--url-file`.
pub async fn wait_for_url(file: &Path) -> String {
    let read = || std::fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    within(PATIENCE, "the gateway has bound its socket", || async { !read().is_empty() }).await;
    read()
}

/// The URI under which a gateway offers a target's resource.
pub fn resource(target: &str, uri: &str) -> String {
    let encoded: String = uri.bytes().map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect();
    format!("mcp://{target}/{encoded}")
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}
