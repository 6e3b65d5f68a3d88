//! A fake MCP server on standard streams. What its argument may say stands in the harness, `stdio.rs`.

use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, process, thread};
use transom_tests::sys;

/// Nothing a test forgot may stay for ever.
const LONGEST_LIFE: Duration = Duration::from_secs(180);

struct Fake {
    behaviour: Value,
    counter: AtomicU64,
    cancelled: Mutex<Vec<Value>>,
    answers: Mutex<Vec<Value>>,
    out: Mutex<std::io::Stdout>,
}

fn main() {
    let argument = env::args().nth(1).unwrap_or_else(|| "{}".into());
    let behaviour: Value = serde_json::from_str(&argument).unwrap_or(Value::Null);
    let life = behaviour["lifeSeconds"].as_u64().map_or(LONGEST_LIFE, Duration::from_secs);
    thread::spawn(move || {
        thread::sleep(life);
        process::exit(99);
    });
    if argument == "grandchild" {
        sys::ignore(libc::SIGTERM);
        loop {
            thread::sleep(Duration::from_secs(60));
        }
    }
    assert!(behaviour.is_object(), "the argument is JSON");
    let fake = Arc::new(Fake {
        behaviour,
        counter: AtomicU64::new(0),
        cancelled: Mutex::default(),
        answers: Mutex::default(),
        out: Mutex::new(std::io::stdout()),
    });
    fake.journal(&format!("start {}", process::id()));
    fake.record(format!("{:?} {:?}", env::args().collect::<Vec<_>>(), env::vars().collect::<Vec<_>>()).as_bytes());
    if fake.says("ignoreTerm") {
        sys::ignore(libc::SIGTERM);
    }
    if fake.says("grandchild") {
        let itself = env::current_exe().expect("its own path");
        let mark = fake.behaviour["mark"].as_str().unwrap_or_default();
        let grandchild = process::Command::new(itself).args(["grandchild", mark]).stdin(process::Stdio::null()).spawn().expect("a grandchild");
        // Nobody waits for it: that is the point.
        std::mem::forget(grandchild);
    }
    if let Some(bytes) = fake.behaviour["stderr"].as_u64() {
        thread::spawn(move || {
            let flood = vec![b'e'; usize::try_from(bytes).unwrap_or(0)];
            loop {
                if std::io::stderr().write_all(&flood).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
    }
    if let Some(ms) = fake.behaviour["startMs"].as_u64() {
        thread::sleep(Duration::from_millis(ms));
    }
    fake.crash_at("start");
    fake.serve();
    fake.journal("eof");
    if fake.says("ignoreEof") {
        thread::sleep(LONGEST_LIFE);
    }
}

impl Fake {
    fn says(&self, member: &str) -> bool {
        self.behaviour[member] == json!(true)
    }

    fn journal(&self, line: &str) {
        if let Some(path) = self.behaviour["journal"].as_str()
            && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
        {
            file.write_all(format!("{line}\n").as_bytes()).ok();
        }
    }

    fn record(&self, bytes: &[u8]) {
        if let Some(path) = self.behaviour["record"].as_str()
            && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
        {
            file.write_all(bytes).ok();
        }
    }

    fn crash_at(&self, moment: &str) {
        if self.behaviour["crash"] == moment && self.may_crash() {
            self.crash();
        }
    }

    /// With `crashOnce` only the first of all processes crashes.
    fn may_crash(&self) -> bool {
        match self.behaviour["crashOnce"].as_str() {
            Some(path) => OpenOptions::new().write(true).create_new(true).open(path).is_ok(),
            None => true,
        }
    }

    fn crash(&self) -> ! {
        if let Some(signal) = self.behaviour["signal"].as_i64() {
            // Twice: the handler that the language installs for some signals only steps aside at the first.
            for _ in 0..2 {
                sys::signal(process::id().try_into().unwrap_or(0), signal.try_into().unwrap_or(9));
                thread::sleep(Duration::from_millis(20));
            }
        }
        process::exit(self.behaviour["exit"].as_i64().and_then(|code| code.try_into().ok()).unwrap_or(1))
    }

    fn serve(self: &Arc<Fake>) {
        let mut input = BufReader::new(std::io::stdin());
        let mut line = Vec::new();
        loop {
            line.clear();
            match input.by_ref().read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            self.record(&line);
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            if method.is_empty() {
                self.answers.lock().expect("a lock").push(message);
                continue;
            }
            if message.get("id").is_none() {
                if method == "notifications/cancelled" {
                    self.journal(&format!("cancelled {}", message["params"]));
                    self.cancelled.lock().expect("a lock").push(message["params"].clone());
                }
                continue;
            }
            if self.behaviour["hang"] == method.as_str() {
                continue;
            }
            let fake = self.clone();
            // Calls run side by side, everything else in order.
            if method == "tools/call" {
                thread::spawn(move || fake.answer(&message, &method));
            } else {
                fake.answer(&message, &method);
                if method == "tools/list" {
                    self.settled();
                }
            }
        }
    }

    /// The list was asked for: the handshake is over.
    fn settled(self: &Arc<Fake>) {
        let fake = self.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(fake.behaviour["idleMs"].as_u64().unwrap_or(300)));
            fake.crash_at("idle");
        });
        if self.says("stopReading") {
            thread::sleep(LONGEST_LIFE);
        }
    }

    fn write(&self, message: &Value) {
        self.write_bytes(format!("{message}\n").as_bytes());
    }

    fn write_bytes(&self, bytes: &[u8]) {
        let mut out = self.out.lock().expect("a lock");
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            process::exit(0);
        }
    }

    fn answer(&self, message: &Value, method: &str) {
        let id = &message["id"];
        let outcome = match method {
            "tools/call" => {
                let nonce = message["params"]["arguments"]["nonce"].as_str().unwrap_or_default();
                self.journal(format!("call {} {nonce}", message["params"]["name"].as_str().unwrap_or_default()).trim_end());
                self.crash_at("call");
                self.call(&message["params"])
            }
            _ => self.plain(message, method),
        };
        let modern = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
        let response = match outcome {
            Ok(mut result) => {
                if modern {
                    result["resultType"] = json!("complete");
                }
                json!({"jsonrpc": "2.0", "id": id, "result": result})
            }
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        for line in self.behaviour["garbage"].as_array().into_iter().flatten() {
            self.write_bytes(format!("{}\n", line.as_str().unwrap_or_default()).as_bytes());
        }
        if method != "tools/call" {
            return self.write(&response);
        }
        let text = response.to_string();
        let (first, second) = text.split_at(text.len() / 2);
        if self.behaviour["crash"] == "line" && self.may_crash() {
            self.write_bytes(first.as_bytes());
            self.crash();
        }
        if let Some(bytes) = self.behaviour["endless"].as_u64() {
            let block = vec![b'x'; 1 << 20];
            let mut out = self.out.lock().expect("a lock");
            for _ in 0..(bytes >> 20) {
                out.write_all(&block).ok();
            }
            out.write_all(b"\n").ok();
            out.flush().ok();
            return;
        }
        if let Some(ms) = self.behaviour["partial"].as_u64() {
            let mut out = self.out.lock().expect("a lock");
            out.write_all(first.as_bytes()).and_then(|()| out.flush()).ok();
            thread::sleep(Duration::from_millis(ms));
            out.write_all(format!("{second}\n").as_bytes()).and_then(|()| out.flush()).ok();
            return;
        }
        self.write(&response);
    }

    fn plain(&self, message: &Value, method: &str) -> Result<Value, Value> {
        let era = self.behaviour["era"].as_str().unwrap_or("legacy");
        let modern = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
        let refused = json!({"code": -32601, "message": format!("Method not found: {method}")});
        if modern && era == "legacy" {
            return Err(refused);
        }
        if !modern && era == "modern" {
            return Err(
                json!({"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"], "requested": "initialize"}}),
            );
        }
        let name = &self.behaviour["name"];
        let mut result = match method {
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}, "logging": {}}, "serverInfo": {"name": name, "version": "1"}})
            }
            "server/discover" => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": name, "version": "1"}}})
            }
            "ping" | "logging/setLevel" => json!({}),
            "tools/list" => json!({"tools": self.tools()}),
            _ => return Err(refused),
        };
        if modern {
            result["ttlMs"] = json!(60_000);
            result["cacheScope"] = json!("public");
        }
        Ok(result)
    }

    fn tools(&self) -> Vec<Value> {
        let default = json!(["echo"]);
        let tools = self.behaviour["tools"].as_array().or(default.as_array()).cloned().unwrap_or_default();
        let definition = |tool: Value| match tool.as_str() {
            Some(name) => json!({"name": name, "description": format!("{name} of a child"), "inputSchema": {"type": "object"}}),
            None => tool,
        };
        tools.into_iter().map(definition).collect()
    }

    fn call(&self, params: &Value) -> Result<Value, Value> {
        let arguments = &params["arguments"];
        let number = |name: &str| arguments[name].as_u64().unwrap_or(0);
        let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
        let token = &params["_meta"]["progressToken"];
        Ok(match params["name"].as_str().unwrap_or_default() {
            "counter" => text((self.counter.fetch_add(1, Ordering::SeqCst) + 1).to_string()),
            "env" => text(json!(env::vars().map(|(name, value)| json!([name, value])).collect::<Vec<_>>()).to_string()),
            "pid" => text(process::id().to_string()),
            "limits" => {
                let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
                text(read("limits") + &read("status"))
            }
            "hog" => {
                let mut held: Vec<Vec<u8>> = Vec::new();
                for _ in 0..number("mib") {
                    held.push(vec![1; 1 << 20]);
                }
                text(format!("holds {} MiB", held.len()))
            }
            "bomb" => {
                let itself = env::current_exe().expect("its own path");
                let start = || process::Command::new(&itself).arg("grandchild").stdin(process::Stdio::null()).spawn();
                text((0..number("n")).map_while(|_| start().ok()).map(std::mem::forget).count().to_string())
            }
            "sleep" => {
                thread::sleep(Duration::from_millis(number("ms")));
                text(format!("slept {}", arguments["nonce"]))
            }
            "crash" => {
                process::exit(number("exit").try_into().unwrap_or(1));
            }
            "fail" => return Err(json!({"code": -32050, "message": "it broke", "data": {"why": "told to"}})),
            "progress" => {
                for step in 0..number("n") {
                    self.write(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step}}));
                }
                text("done".into())
            }
            "log" => {
                self.write(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": arguments["data"]}}));
                text("logged".into())
            }
            "foreign" => {
                self.write(
                    &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "someone-else", "progress": 1}}),
                );
                self.write(&json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}));
                self.write(&json!({"jsonrpc": "2.0", "id": "spoof", "method": "tools/call", "params": {"name": "echo"}}));
                text("done".into())
            }
            "ask" => {
                let id = format!("ask-{}", self.counter.fetch_add(1, Ordering::SeqCst));
                self.write(&json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}));
                for _ in 0..500 {
                    let answer = self.answers.lock().expect("a lock").iter().find(|answer| answer["id"] == id.as_str()).cloned();
                    if let Some(answer) = answer {
                        return Ok(text(answer.to_string()));
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                text("never answered".into())
            }
            "cancelled" => text(json!(*self.cancelled.lock().expect("a lock")).to_string()),
            tool => {
                let structured = json!({"server": self.behaviour["name"], "tool": tool, "arguments": arguments});
                json!({"content": [{"type": "text", "text": structured.to_string()}], "structuredContent": structured})
            }
        })
    }
}
