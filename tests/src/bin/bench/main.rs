//! `make bench`: what the gateway costs, as a ratio to a proxy that reads nothing.
//!
//! Times on a shared machine mean little from one run to the next, so each row drives a bare proxy ([`bare`]) and the gateway in turn, with the
//! same load ([`load`]) onto the same server ([`backend`]), and compares the CPU time per request of the two processes. The server and the load
//! generator live in this process and are not measured.
//!
//! `bench [--seconds S] [--rounds N] [--connections C]`; loopback only.

mod backend;
mod bare;
mod load;
mod proc;

use load::{Era, Load, Op, Sample};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// The children must not be slower than the product for the sake of their allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A line of the table: who talks, what is asked, what may stand between, and the ratio that the gateway must reach.
struct Row {
    label: &'static str,
    era: Era,
    op: Op,
    between: Between,
    bar: f64,
}

#[derive(Clone, Copy)]
enum Between {
    /// A client over HTTP and a server over HTTP.
    Http,
    /// A client over HTTP and a server on the pipe of a child.
    Pipe,
}

const ROWS: [Row; 5] = [
    Row { label: "call, legacy session", era: Era::Legacy, op: Op::Call, between: Between::Http, bar: 1.6 },
    Row { label: "call, modern stateless", era: Era::Modern, op: Op::Call, between: Between::Http, bar: 1.6 },
    Row { label: "list of 100 tools, legacy", era: Era::Legacy, op: Op::List, between: Between::Http, bar: 1.0 },
    Row { label: "list of 100 tools, modern", era: Era::Modern, op: Op::List, between: Between::Http, bar: 1.0 },
    Row { label: "call, stdio target", era: Era::Legacy, op: Op::Call, between: Between::Pipe, bar: 2.0 },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["stdio-server"] => backend::serve_stdio(),
        ["bare-http", to] => bare::run(bare::To::Http(address(to))),
        ["bare-pipe"] => bare::run(bare::To::Pipe),
        options => measure(options),
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|error| panic!("`{text}` is no address: {error}"))
}

fn option(options: &[&str], name: &str, default: usize) -> usize {
    let value = options.iter().position(|option| *option == name).and_then(|place| options.get(place + 1));
    value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} wants a number, not `{value}`")))
}

fn measure(options: &[&str]) {
    let load = Load { connections: option(options, "--connections", 64), time: Duration::from_secs(option(options, "--seconds", 3) as u64) };
    let rounds = option(options, "--rounds", 3);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let legacy = backend::serve_http(Era::Legacy).await;
        let modern = backend::serve_http(Era::Modern).await;
        let this = std::env::current_exe().expect("the path of this program");
        println!("{:<28}{:>12}{:>14}{:>9}{:>7}{:>12}{:>12}", "", "bare µs", "gateway µs", "ratio", "must", "p99 bare", "p99 gateway");
        for row in ROWS {
            let server = if row.era == Era::Modern { modern } else { legacy };
            let (bare, target) = match row.between {
                Between::Http => (
                    proc::start(&this, &["bare-http", &server.to_string()]).await,
                    json!({"name": "backend", "mcp": {"host": format!("http://{server}/mcp")}}),
                ),
                Between::Pipe => {
                    (proc::start(&this, &["bare-pipe"]).await, json!({"name": "backend", "stdio": {"cmd": this, "args": ["stdio-server"]}}))
                }
            };
            let gateway = proc::gateway(&this, target).await;
            let (mut through_bare, mut through_gateway) = (Sample::default(), Sample::default());
            for _ in 0..rounds {
                through_bare.add(load.run(&bare, row.era, row.op).await);
                through_gateway.add(load.run(&gateway, row.era, row.op).await);
            }
            let (limit, ours) = (through_bare.cpu_per_request(), through_gateway.cpu_per_request());
            let p99 = |sample: &mut Sample| format!("{:.1} ms", sample.percentile(99).as_secs_f64() * 1e3);
            println!(
                "{:<28}{:>12.1}{:>14.1}{:>9.2}{:>7.1}{:>12}{:>12}",
                row.label,
                limit,
                ours,
                ours / limit,
                row.bar,
                p99(&mut through_bare),
                p99(&mut through_gateway)
            );
        }
        print_size_and_start(&this, legacy).await;
    });
}

/// What it costs to have the gateway at all: the file, the start, the memory.
async fn print_size_and_start(this: &Path, server: SocketAddr) {
    let target = json!({"name": "backend", "mcp": {"host": format!("http://{server}/mcp")}});
    let start = Instant::now();
    let gateway = proc::gateway(this, target).await;
    let started = start.elapsed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let binary = std::fs::metadata(proc::transom(this)).map_or(0, |file| file.len());
    println!(
        "\nstart to ready {} ms · resident when idle {:.1} MiB · binary {:.1} MiB",
        started.as_millis(),
        mebibytes(gateway.resident()),
        mebibytes(binary)
    );
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The revision an era is spoken in here.
fn revision(era: Era) -> &'static str {
    match era {
        Era::Legacy => "2025-11-25",
        Era::Modern => "2026-07-28",
    }
}

/// The `_meta` that every modern request carries.
fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": revision(Era::Modern),
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
