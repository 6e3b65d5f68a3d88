//! Processes that end with the test, ports nobody uses, and waiting with an end.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine with two cores.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process in the background. It is killed when dropped, and if the test is failing its output is shown.
pub struct Background {
    name: String,
    child: Child,
    log: PathBuf,
    _directory: tempfile::TempDir,
}

impl Background {
    pub fn start(name: &str, command: &mut Command) -> Background {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("output.log");
        let out = File::create(&log).expect("a log file");
        let err = out.try_clone().expect("the log file twice");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Background { name: name.into(), child, log, _directory: directory }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("--- output of {} ---\n{}", self.name, self.log());
        }
    }
}

/// Runs a program to its end. One that takes longer than [`PATIENCE`] is killed and the test fails.
pub fn run(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let pid = child.id().cast_signed();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if is_done.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            transom_tests::sys::signal(pid, libc::SIGKILL);
        }
    });
    let output = child.wait_with_output().expect("the output of a child");
    drop(done);
    guard.join().expect("the guard");
    output
}

/// Runs a program that must succeed and returns what it printed.
pub fn stdout(command: &mut Command) -> String {
    let output = run(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{errors}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("UTF-8 on stdout")
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Asks until the answer is there; after [`PATIENCE`] the test has failed.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(25));
    }
}

/// Waits until somebody listens on the port.
pub fn listening(what: &mut Background, port: u16) {
    eventually(&format!("{} listens", what.name), || {
        assert!(what.is_running(), "{} ended at once", what.name);
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
    });
}

/// One `GET`, as plain as can be: the status and the body.
pub fn get(base: &str, path: &str, accept: &str) -> (u16, String) {
    let host = base.strip_prefix("http://").expect("a plain http URL");
    let mut stream = TcpStream::connect(host).unwrap_or_else(|error| panic!("{base}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n").expect("a request");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{base}{path}: not HTTP: {reply}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status in {head}"));
    (status, body.to_owned())
}
