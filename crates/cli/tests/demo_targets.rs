//! The demo's targets as processes: what cannot be seen from inside, because it ends the process or breaks the stream.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A target that runs until it is dropped.
struct Target {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Target {
    fn start(name: &str) -> Target {
        let mut child = Command::new(env!("CARGO_BIN_EXE_transom"))
            .args(["demo-target", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Target { input: child.stdin.take(), child, output }
    }

    fn send(&mut self, method: &str, id: Option<u64>, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            message["id"] = json!(id);
            message["params"]["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "progressToken": format!("token-{id}"),
            });
        }
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        self.send("tools/call", Some(id), json!({"name": tool, "arguments": arguments}));
    }

    /// The next line; empty at the end of the stream.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    fn message(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_target_ends_when_its_input_ends() {
    let mut target = Target::start("weather");
    target.call(1, "get_alerts", json!({"region": "Vestland"}));
    assert_eq!(target.message()["id"], 1);
    target.input = None;
    assert!(target.child.wait().unwrap().success());
}

#[test]
fn the_slow_one_reports_progress_and_then_answers() {
    let mut target = Target::start("slow");
    target.call(7, "slow_echo", json!({"text": "hello", "seconds": 1.2}));
    let mut steps = Vec::new();
    let answer = loop {
        let message = target.message();
        if message["method"] != "notifications/progress" {
            break message;
        }
        assert_eq!((&message["params"]["progressToken"], &message["params"]["total"]), (&json!("token-7"), &json!(1.2)));
        steps.push(message["params"]["progress"].as_f64().unwrap());
    };
    assert!(steps.len() >= 2 && steps.is_sorted(), "{steps:?}");
    assert_eq!(answer["result"]["content"][0]["text"], "hello");
}

#[test]
fn the_slow_one_stops_when_it_is_told_to() {
    let mut target = Target::start("slow");
    let begin = Instant::now();
    target.call(1, "slow_echo", json!({"text": "never", "seconds": 60}));
    target.send("notifications/cancelled", None, json!({"requestId": 1}));
    target.call(2, "slow_echo", json!({"text": "next", "seconds": 0}));
    let answer = loop {
        let message = target.message();
        if message["id"] == 2 {
            break message;
        }
    };
    assert_eq!(answer["result"]["content"][0]["text"], "next");
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_flaky_one_crashes_hangs_and_writes_garbage_on_command() {
    let mut target = Target::start("flaky");
    target.call(1, "fail_on_command", json!({"how": "hang"}));
    target.call(2, "fail_on_command", json!({"how": "garbage"}));
    assert!(serde_json::from_str::<Value>(&target.line()).is_err());
    assert_eq!(target.message()["id"], 2, "the hanging call does not hold up the next one");
    target.call(3, "fail_on_command", json!({"how": "crash"}));
    assert_eq!(target.line(), "");
    assert_eq!(target.child.wait().unwrap().code(), Some(70));
}
