//! The processes that are measured: how they are started, what they used, and that they end.

use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use transom_tests::sys;

/// What writes on the admin listener need.
pub const TOKEN: &str = "a token for the bench alone";

/// A proxy that runs, killed when dropped.
pub struct Proxy {
    pub address: SocketAddr,
    pid: i32,
    _child: Child,
    directory: tempfile::TempDir,
}

/// Starts this program in another role. It prints its address in the first line.
pub async fn start(program: &Path, arguments: &[&str]) -> Proxy {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a child process");
    let stdout = child.stdout.take().expect("the child's stdout");
    let line = BufReader::new(stdout).lines().next_line().await.ok().flatten().unwrap_or_default();
    let address = line.parse().unwrap_or_else(|_| panic!("{arguments:?} printed no address but `{line}`"));
    Proxy { address, pid: pid(&child), _child: child, directory }
}

fn pid(child: &Child) -> i32 {
    child.id().and_then(|pid| i32::try_from(pid).ok()).expect("a process that runs")
}

/// The gateway beside this program.
pub fn transom(this: &Path) -> PathBuf {
    this.with_file_name("transom")
}

/// What a gateway is told.
#[derive(Clone, Default)]
pub struct Setup {
    pub targets: Vec<Value>,
    pub registry: Option<Value>,
    pub policies: Option<Value>,
}

impl Setup {
    /// Targets over HTTP, named after their place.
    pub fn over_http(servers: &[SocketAddr]) -> Setup {
        let target =
            |(number, server): (usize, &SocketAddr)| json!({"name": format!("backend-{number}"), "mcp": {"host": format!("http://{server}/mcp")}});
        Setup { targets: servers.iter().enumerate().map(target).collect(), ..Setup::default() }
    }

    pub fn with_registry(self, registry: Value) -> Setup {
        Setup { registry: Some(registry), ..self }
    }

    pub fn with_policies(self, policies: Value) -> Setup {
        Setup { policies: Some(policies), ..self }
    }
}

/// Starts the gateway, with metrics and log as in production, and waits until it is ready. Says also how long that took.
pub async fn gateway(this: &Path, setup: &Setup) -> (Proxy, Duration) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (config, url) = (directory.path().join("config.yaml"), directory.path().join("url"));
    let mut written = json!({
        "stateDir": directory.path(), "admin": {"listen": "127.0.0.1:0", "token": TOKEN}, "backends": [{"mcp": {"targets": setup.targets}}],
    });
    if let Some(registry) = &setup.registry {
        write_registry(directory.path(), registry);
        written["registry"] = json!({"source": format!("file://{}", directory.path().join("registry.json").display())});
    }
    if let Some(policies) = &setup.policies {
        written["policies"] = policies.clone();
    }
    fs::write(&config, written.to_string()).expect("a config file"); // JSON is YAML
    let log = fs::File::create(directory.path().join("log")).expect("a log file");
    let output = log.try_clone().expect("the log file twice");
    let mut command = Command::new(transom(this));
    command.arg("run").arg("-f").arg(&config).args(["--port", "0", "--url-file"]).arg(&url);
    let begun = Instant::now();
    let child = command.stdout(output).stderr(log).kill_on_drop(true).spawn();
    let child = child.unwrap_or_else(|error| panic!("{}: {error}; build it with `cargo build --release`", transom(this).display()));
    while begun.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let Some(address) = fs::read_to_string(&url).ok().and_then(|url| url.trim().strip_prefix("http://")?.parse().ok()) else { continue };
        if crate::load::is_ready(address).await {
            return (Proxy { address, pid: pid(&child), _child: child, directory }, begun.elapsed());
        }
    }
    panic!("the gateway is not ready: {}", fs::read_to_string(directory.path().join("log")).unwrap_or_default());
}

/// A registry beside the one that counts, and then in its place: whoever reads it reads one or the other.
fn write_registry(directory: &Path, registry: &Value) {
    prepare_registry(directory, registry);
    put_registry(directory);
}

fn prepare_registry(directory: &Path, registry: &Value) {
    fs::write(directory.join("registry.json.new"), registry.to_string()).expect("a registry file");
}

fn put_registry(directory: &Path) {
    fs::rename(directory.join("registry.json.new"), directory.join("registry.json")).expect("a registry file");
}

impl Proxy {
    /// CPU time used so far, in nanoseconds.
    pub fn cpu(&self) -> u64 {
        sys::cpu(self.pid)
    }

    /// Memory in use, in bytes.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("a process that runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kibibytes| kibibytes * 1024)
    }

    /// Publishes another registry where the gateway reads it.
    pub fn publish(&self, registry: &Value) {
        write_registry(self.directory.path(), registry);
    }

    /// Writes another registry where the gateway does not read it yet.
    pub fn prepare(&self, registry: &Value) {
        prepare_registry(self.directory.path(), registry);
    }

    /// Publishes what was prepared, in no time.
    pub fn publish_prepared(&self) {
        put_registry(self.directory.path());
    }

    /// Where its admin listener is, from its log.
    pub fn admin(&self) -> SocketAddr {
        let log = fs::read_to_string(self.directory.path().join("log")).expect("a log");
        let said = log.split("admin on http://").nth(1).and_then(|rest| rest.split([' ', '\n']).next()?.parse().ok());
        said.unwrap_or_else(|| panic!("the log names no admin listener: {log}"))
    }
}
