//! Calls with a nonce each, at a steady pace, and what became of every one of them.

use crate::chance::Chance;
use crate::outcome::Counts;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use transom_tests::client::{Client, LEGACY, MODERN, Reply, connect};

/// One call and its end.
pub struct Call {
    pub tool: usize,
    pub nonce: String,
    pub started: Instant,
    pub took: Duration,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Ok,
    /// A code, and whether it was executed as far as the gateway knows.
    Error(i64, Option<bool>),
    Mixed(String),
    Lost(String),
}

/// Makes one call and judges its answer.
pub async fn call(client: &Client, tool: usize, name: &str, nonce: String, ms: u64) -> Call {
    let started = Instant::now();
    let reply = client.call(name, json!({"nonce": nonce, "ms": ms})).await;
    Call { tool, end: judge(&reply, &nonce), nonce, started, took: started.elapsed() }
}

/// What an answer is, to somebody who sent this nonce to a tool that echoes its arguments.
pub fn judge(reply: &Reply, nonce: &str) -> End {
    if let Some(lost) = &reply.lost {
        return End::Lost(lost.clone());
    }
    if let Some(error) = reply.message.get("error") {
        let executed = match &error["data"]["executed"] {
            Value::Bool(executed) => Some(*executed),
            _ => None,
        };
        return End::Error(error["code"].as_i64().unwrap_or(0), executed);
    }
    match &reply.message["result"]["structuredContent"]["arguments"]["nonce"] {
        Value::String(came) if came == nonce => End::Ok,
        _ if reply.is_error() => End::Error(0, Some(false)),
        Value::Null => End::Lost(format!("status {}: {}", reply.status, reply.raw)),
        other => End::Mixed(format!("{other} instead of {nonce}")),
    }
}

/// Clients that call until they are told to stop.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<Call>>>,
    pub sent: Arc<AtomicUsize>,
    workers: JoinSet<()>,
}

/// How to call.
#[derive(Clone)]
pub struct Load {
    /// The gateway's endpoint.
    pub url: String,
    /// Which tools.
    pub tools: Vec<String>,
    pub workers: usize,
    /// Of all workers together.
    pub per_second: f64,
    /// How long a call may take its target, at most, in milliseconds.
    pub ms: u64,
    pub seed: u64,
    /// Begins every nonce, so that no two loads share one.
    pub tag: &'static str,
}

impl Load {
    /// Begins. Half of the clients are legacy, half modern, each on a connection of its own.
    pub async fn start(&self) -> Traffic {
        let mut traffic = Traffic { stop: Arc::default(), calls: Arc::default(), sent: Arc::default(), workers: JoinSet::new() };
        for worker in 0..self.workers {
            let client = connect(&self.url, if worker % 2 == 0 { LEGACY } else { MODERN }).open().await;
            let (load, stop, calls, sent) = (self.clone(), traffic.stop.clone(), traffic.calls.clone(), traffic.sent.clone());
            traffic.workers.spawn(async move {
                let mut chance = Chance::new(load.seed, worker as u64 + 1);
                let pause = Duration::from_secs_f64(load.workers as f64 / load.per_second);
                let mut tick = tokio::time::interval(pause);
                tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                tokio::time::sleep(pause.mul_f64(worker as f64 / load.workers as f64)).await;
                for number in 0.. {
                    tick.tick().await;
                    if stop.load(Relaxed) {
                        return;
                    }
                    let tool = chance.below(load.tools.len());
                    let ms = chance.below(load.ms as usize + 1) as u64;
                    sent.fetch_add(1, Relaxed);
                    let done = call(&client, tool, &load.tools[tool], format!("{}-{worker}-{number}", load.tag), ms).await;
                    calls.lock().expect("a lock").push(done);
                }
            });
        }
        traffic
    }
}

impl Traffic {
    /// Stops, waits for the last answers, and hands over every call.
    pub async fn stop(mut self) -> Calls {
        self.stop.store(true, Relaxed);
        while let Some(done) = self.workers.join_next().await {
            done.expect("a client does not break");
        }
        let calls = std::mem::take(&mut *self.calls.lock().expect("a lock"));
        Calls { sent: self.sent.load(Relaxed), calls }
    }
}

/// Calls that are over.
pub struct Calls {
    pub sent: usize,
    pub calls: Vec<Call>,
}

impl Calls {
    pub fn add(&mut self, more: Vec<Call>) {
        self.sent += more.len();
        self.calls.extend(more);
    }

    /// What became of them, beside the journals of the targets.
    pub fn counts(&self, executed: &HashMap<String, usize>) -> Counts {
        let mut counts = Counts { sent: self.sent, ..Counts::default() };
        for call in &self.calls {
            match &call.end {
                End::Ok => counts.ok += 1,
                End::Error(..) => counts.error += 1,
                End::Mixed(_) => counts.mixed += 1,
                End::Lost(_) => counts.lost += 1,
            }
        }
        counts.lost += self.sent - self.calls.len();
        counts.doubled = executed.values().filter(|times| **times > 1).count();
        counts
    }

    /// Calls of which the journal says something else than the gateway did: executed though it said no, or not though it answered.
    pub fn misreported(&self, executed: &HashMap<String, usize>) -> usize {
        let ran = |call: &Call| executed.contains_key(&call.nonce);
        let wrong = |call: &&Call| match call.end {
            End::Error(_, Some(false)) => ran(call),
            End::Ok => !ran(call),
            _ => false,
        };
        self.calls.iter().filter(wrong).count()
    }

    /// Errors by code.
    pub fn errors(&self) -> Value {
        let mut by_code: BTreeMap<String, usize> = BTreeMap::new();
        for call in &self.calls {
            if let End::Error(code, _) = call.end {
                *by_code.entry(code.to_string()).or_default() += 1;
            }
        }
        json!(by_code)
    }

    /// The first few of what must not be, for whoever has to find out why.
    pub fn oddities(&self) -> String {
        let odd = self.calls.iter().filter_map(|call| match &call.end {
            End::Mixed(what) | End::Lost(what) => Some(format!("{} {what}", call.nonce)),
            _ => None,
        });
        odd.take(3).collect::<Vec<_>>().join("; ")
    }

    /// Milliseconds of the slowest.
    pub fn slowest(&self) -> f64 {
        self.calls.iter().map(|call| call.took.as_secs_f64() * 1e3).fold(f64::NAN, f64::max)
    }
}
