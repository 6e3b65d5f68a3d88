//! The real binary, on free ports, with a config of the test.

use crate::children::{Background, eventually, free_port, get};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The binary that this build of the tests belongs to.
pub fn transom() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        // target/PROFILE/deps/e2e-HASH lies one level below target/PROFILE/transom.
        let this = std::env::current_exe().expect("the path of this test");
        let binary = this.ancestors().nth(2).expect("a target directory").join("transom");
        if !binary.exists() {
            let built = Command::new(env!("CARGO")).args(["build", "--workspace", "--bin", "transom"]).status();
            assert!(built.is_ok_and(|status| status.success()) && binary.exists(), "cargo build makes {}", binary.display());
        }
        binary
    };
    BINARY.get_or_init(find).clone()
}

pub struct Gateway {
    /// `http://127.0.0.1:PORT`, without a path.
    pub base: String,
    /// The metrics listener.
    pub metrics: String,
    pub process: Background,
    _directory: tempfile::TempDir,
}

/// Starts the gateway before these targets and waits until it has connected to all of them.
pub fn gateway(targets: &[Value]) -> Gateway {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (config, url_file) = (directory.path().join("config.yaml"), directory.path().join("url"));
    let metrics = format!("127.0.0.1:{}", free_port());
    let admin = format!("127.0.0.1:{}", free_port());
    let written = json!({
        "admin": {"listen": admin}, "metrics": {"listen": metrics}, "stateDir": directory.path(), "backends": [{"mcp": {"targets": targets}}],
    });
    std::fs::write(&config, written.to_string()).expect("a config file"); // JSON is YAML

    let mut command = Command::new(transom());
    command.arg("run").arg("-f").arg(&config).args(["--port", "0", "--url-file"]).arg(&url_file);
    let mut process = Background::start("transom", &mut command);
    let base = eventually("the gateway has bound its socket", || {
        assert!(process.is_running(), "the gateway ended at once");
        std::fs::read_to_string(&url_file).ok().map(|url| url.trim().to_owned()).filter(|url| !url.is_empty())
    });
    let gateway = Gateway { base, metrics: format!("http://{metrics}"), process, _directory: directory };
    eventually("every target is connected", || (get(&gateway.base, "/ready", "*/*").0 == 200).then_some(()));
    gateway
}

impl Gateway {
    /// The endpoint of MCP.
    pub fn mcp(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// What `GET /status` says about a target.
    pub fn status_of(&self, target: &str) -> Value {
        let (status, body) = get(&self.base, "/status", "application/json");
        assert_eq!(status, 200, "{body}");
        let status: Value = serde_json::from_str(&body).expect("JSON from /status");
        status["servers"][target].clone()
    }
}

/// The URI under which a gateway offers a target's resource.
pub fn resource(target: &str, uri: &str) -> String {
    let encoded: String = uri.bytes().map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect();
    format!("mcp://{target}/{encoded}")
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}
