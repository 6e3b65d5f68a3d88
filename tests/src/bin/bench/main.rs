//! `make bench`: what the gateway costs, as a ratio to a proxy that reads nothing.
//!
//! Times on a shared machine mean little from one run to the next, so each row drives two proxies in turn, with the same load ([`load`]) onto
//! the same servers ([`transom_tests::backend`]), and compares the CPU time per request of the two processes: the gateway and a bare proxy ([`bare`]), or two
//! gateways that differ in one thing. The servers and the load generator live in this process and are not measured.
//!
//! `bench [--short] [--seconds S] [--rounds N] [--connections C] [--slack PERCENT] [--only WORD]`; loopback only. The table, the curves and the
//! verdict go to standard output and, as JSON and a picture, to `target/evidence`. A figure that is missed is an exit of 1.

mod bare;
mod curves;
mod footprint;
mod load;
mod picture;
mod proc;
mod report;
mod rows;

use load::Load;
use report::Report;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use transom_tests::backend::{self, Era, revision};

/// The children must not be slower than the product for the sake of their allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["stdio-server"] => backend::serve_stdio(),
        ["bare-http", to] => bare::run(bare::To::Http(address(to))),
        ["bare-pipe"] => bare::run(bare::To::Pipe),
        ["busy"] => footprint::keep_busy(),
        options => return measure(options),
    }
    ExitCode::SUCCESS
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|error| panic!("`{text}` is no address: {error}"))
}

/// How a run is made.
pub struct Run {
    this: PathBuf,
    load: Load,
    rounds: usize,
    /// Few points on a curve, few sessions.
    short: bool,
    /// What a figure may be above its bar, as a factor: one, but for machines that are known to be busy.
    slack: f64,
    only: String,
}

impl Run {
    /// Whether this part was asked for.
    fn wants(&self, label: &str) -> bool {
        label.contains(&self.only)
    }

    /// What it was asked to do, for the report.
    fn options(&self) -> Value {
        let Load { connections, time } = self.load;
        json!({
            "short": self.short, "seconds": time.as_secs(), "rounds": self.rounds, "connections": connections,
            "slackPercent": ((self.slack - 1.0) * 100.0).round(), "only": self.only,
        })
    }
}

fn measure(options: &[&str]) -> ExitCode {
    let value = |name: &str| options.iter().position(|option| *option == name).and_then(|place| options.get(place + 1).copied());
    let number = |name: &str, default: usize| {
        value(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} wants a number, not `{value}`")))
    };
    let short = options.contains(&"--short");
    let seconds = number("--seconds", if short { 1 } else { 3 });
    let run = Run {
        this: std::env::current_exe().expect("the path of this program"),
        load: Load { connections: number("--connections", 64), time: Duration::from_secs(seconds as u64) },
        rounds: number("--rounds", if short { 3 } else { 5 }),
        short,
        slack: 1.0 + number("--slack", 0) as f64 / 100.0,
        only: value("--only").unwrap_or_default().to_owned(),
    };
    // Servers and load are on time, as far as that goes: whoever waits for a turn here would count as held up by the gateway.
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().on_thread_start(transom_upstream::take_short_turns).build();
    let runtime = threads.expect("a runtime");
    runtime.block_on(async {
        let mut report = Report::default();
        rows::measure(&run, &mut report).await;
        footprint::measure(&run, &mut report).await;
        curves::measure(&run, &mut report).await;
        report.finish(&run)
    })
}

/// The `_meta` that every modern request carries.
fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": revision(Era::Modern),
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
