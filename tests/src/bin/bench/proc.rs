//! The processes that are measured: how they are started, what they used, and that they end.

use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A proxy that runs, killed when dropped.
pub struct Proxy {
    pub address: SocketAddr,
    pid: u32,
    _child: Child,
    _directory: tempfile::TempDir,
}

/// Starts this program in another role. It prints its address in the first line.
pub async fn start(program: &Path, arguments: &[&str]) -> Proxy {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a child process");
    let stdout = child.stdout.take().expect("the child's stdout");
    let line = BufReader::new(stdout).lines().next_line().await.ok().flatten().unwrap_or_default();
    let address = line.parse().unwrap_or_else(|_| panic!("{arguments:?} printed no address but `{line}`"));
    Proxy { address, pid: child.id().unwrap_or_default(), _child: child, _directory: directory }
}

/// The gateway beside this program.
pub fn transom(this: &Path) -> PathBuf {
    this.with_file_name("transom")
}

/// Starts the gateway before one target, with metrics and log as in production, and waits until it is ready.
pub async fn gateway(this: &Path, target: Value) -> Proxy {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (config, url) = (directory.path().join("config.yaml"), directory.path().join("url"));
    let written = json!({"stateDir": directory.path(), "backends": [{"mcp": {"targets": [target]}}]});
    fs::write(&config, written.to_string()).expect("a config file"); // JSON is YAML
    let log = fs::File::create(directory.path().join("log")).expect("a log file");
    let output = log.try_clone().expect("the log file twice");
    let mut command = Command::new(transom(this));
    command.arg("run").arg("-f").arg(&config).args(["--port", "0", "--url-file"]).arg(&url);
    let child = command.stdout(output).stderr(log).kill_on_drop(true).spawn();
    let child = child.unwrap_or_else(|error| panic!("{}: {error}; build it with `cargo build --release`", transom(this).display()));
    for _ in 0..3000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let Some(address) = fs::read_to_string(&url).ok().and_then(|url| url.trim().strip_prefix("http://")?.parse().ok()) else { continue };
        if crate::load::is_ready(address).await {
            return Proxy { address, pid: child.id().unwrap_or_default(), _child: child, _directory: directory };
        }
    }
    panic!("the gateway is not ready: {}", fs::read_to_string(directory.path().join("log")).unwrap_or_default());
}

impl Proxy {
    /// CPU time used so far, all threads, in nanoseconds.
    pub fn cpu(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).expect("a process that runs");
        let used = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
        threads.filter_map(|thread| used(thread.ok()?)).sum()
    }

    /// Memory in use, in bytes.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("a process that runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kibibytes| kibibytes * 1024)
    }
}
