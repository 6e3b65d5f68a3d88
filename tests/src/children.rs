//! Processes that end with the test.

use crate::within;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Longer than anything takes on a busy machine with two cores.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A process in the background. It is killed when dropped, and if the test is failing its output is shown.
pub struct Background {
    name: String,
    child: Child,
    directory: tempfile::TempDir,
}

impl Background {
    pub fn start(name: &str, command: &mut Command) -> Background {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let out = File::create(directory.path().join("output")).expect("a file");
        let err = out.try_clone().expect("the file twice");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).kill_on_drop(true).spawn();
        Background { name: name.into(), child: child.unwrap_or_else(|error| panic!("{name} does not start: {error}")), directory }
    }

    /// Waits until it listens on the port.
    pub async fn listening(mut self, port: u16) -> Background {
        within(PATIENCE, &format!("{} listens", self.name), || {
            assert!(matches!(self.child.try_wait(), Ok(None)), "{} ended at once", self.name);
            async { TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() }
        })
        .await;
        self
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = std::fs::read_to_string(self.directory.path().join("output")).unwrap_or_default();
            eprintln!("--- output of {} ---\n{output}", self.name);
        }
    }
}

/// Runs a program to its end. One that takes longer than [`PATIENCE`] is killed and the test fails.
pub async fn run(command: &mut Command) -> Output {
    let output = timeout(PATIENCE, command.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    output
        .unwrap_or_else(|_| panic!("not done after {PATIENCE:?}: {command:?}"))
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}

/// Runs a program that must succeed and returns what it printed.
pub async fn stdout(command: &mut Command) -> String {
    let output = run(command).await;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?} ended with {}:\n{}\n{printed}", output.status, String::from_utf8_lossy(&output.stderr));
    printed
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).expect("a free port").port()
}
