//! The gateway under test, as a process, and what can be read off it from outside.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use transom_tests::backend::{self, Era, Offer};
use transom_tests::process::Builder;
use transom_tests::wire::{Answer, Wire};
use transom_tests::{Process, process, sys};

pub struct Stand {
    pub process: Process,
    pub address: SocketAddr,
    metrics: SocketAddr,
}

/// A series that is always there.
const PANICS: &str = "transom_panics_total";

/// The tool that is called, one of a hundred.
pub const TOOL: &str = "tool_042";

/// A server that costs as little as it can, as the config writes it.
pub async fn fast_target() -> Value {
    let address = backend::serve_http(Offer { era: Era::Legacy, prefix: "tool", tools: 100 }).await;
    json!({"name": "backend", "mcp": {"host": format!("http://{address}/mcp")}})
}

/// Whether this is what [`TOOL`] of [`fast_target`] answers. An error is a 200 as well, and a short one.
pub fn is_result(answer: &Answer) -> bool {
    answer.status == 200 && answer.body.len() > 2_000 && !answer.text().contains(r#""isError":true"#)
}

impl Stand {
    /// In front of these targets, ready.
    pub async fn before(targets: &[Value]) -> Stand {
        let builder = targets.iter().fold(process(), |builder, target| builder.entry(target.clone()));
        Stand::start(builder).await
    }

    pub async fn start(builder: Builder) -> Stand {
        let process = builder.start_ready().await;
        let authority = |url: &str| url.trim_start_matches("http://").parse().unwrap_or_else(|_| panic!("`{url}` is no address"));
        let address = authority(&process.url(""));
        let said = process.stderr();
        let metrics = said.lines().find_map(|line| line.split_once("metrics on ")?.1.split_whitespace().next());
        let metrics = authority(metrics.unwrap_or_else(|| panic!("it does not say where its metrics are: {said}")));
        Stand { process, address, metrics }
    }

    pub fn resident(&self) -> u64 {
        sys::resident(self.process.pid())
    }

    /// The most it ever had in memory.
    pub fn peak(&self) -> u64 {
        sys::peak(self.process.pid())
    }

    /// What it has in memory once that has settled, connections that rest included: the least of some looks.
    pub async fn settled(&self) -> u64 {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let mut least = u64::MAX;
        for _ in 0..5 {
            // Memory goes back to the system when somebody asks for some.
            self.metrics().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            least = least.min(self.resident());
        }
        least
    }

    pub fn descriptors(&self) -> usize {
        sys::descriptors(self.process.pid())
    }

    /// The text of its metrics. What cannot be read must not look as if nothing had been counted, so it ends the run.
    pub async fn metrics(&self) -> String {
        let mut found = String::new();
        for _ in 0..3 {
            match get(self.metrics, "/metrics").await.map(|answer| (answer.status, answer.text())) {
                Ok((200, text)) if text.contains(&format!("{PANICS} ")) => return text,
                Ok((status, text)) => found = format!("{status} {}", text.chars().take(300).collect::<String>()),
                Err(error) => found = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the metrics on {} cannot be read, after three attempts: {found}", self.metrics);
    }

    /// One number of its metrics.
    pub async fn metric(&self, series: &str) -> f64 {
        transom_tests::gateway::metric(&self.metrics().await, series)
    }

    /// Panics it counted, and one if it is gone.
    pub async fn panics(&mut self) -> f64 {
        if self.process.has_ended() { 1.0 } else { self.metric(PANICS).await }
    }
}

/// A `GET` on a connection of its own.
pub async fn get(address: SocketAddr, path: &str) -> std::io::Result<Answer> {
    let mut wire = Wire::connect(address).await?;
    wire.exchange(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).await
}
