//! What it costs to have the gateway at all: the file, the start, the memory, and a big registry that comes while it works.

use crate::Run;
use crate::load::{Ask, Connection, Load, Sample, reload};
use crate::proc::{self, Proxy, Setup};
use crate::report::{Report, Unit};
use crate::rows::{registry, server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use transom_tests::backend::{Era, tool};

pub async fn measure(run: &Run, report: &mut Report) {
    report.heading("Footprint");
    if run.wants("footprint") {
        let legacy = server("tool", 100).await;
        let setup = Setup::over_http(&[legacy]).with_registry(registry());
        start(run, report, &setup).await;
        memory(run, report, &setup).await;
        let binary = std::fs::metadata(proc::transom(&run.this)).map_or(0, |file| file.len());
        report.figure(run, "release binary", mebibytes(binary), Unit::Mebibytes, 25.0, 15.0);
    }
    if run.wants("compile") {
        compile(run, report).await;
    }
}

/// From the start of the process to the first list it answers.
async fn start(run: &Run, report: &mut Report, setup: &Setup) {
    let mut times = Vec::new();
    for _ in 0..2 * run.rounds + 1 {
        let (gateway, ready) = proc::gateway(&run.this, setup).await;
        let asked = Instant::now();
        Connection::open(gateway.address, &Ask::list(Era::Legacy), 0).await.ask().await;
        times.push((ready + asked.elapsed()).as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    report.figure(run, "start to first answered list", times[times.len() / 2], Unit::Milliseconds, 60.0, 20.0);
}

async fn memory(run: &Run, report: &mut Report, setup: &Setup) {
    let gateway = proc::gateway(&run.this, setup).await.0;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = gateway.resident();
    report.figure(run, "resident when idle", mebibytes(idle), Unit::Mebibytes, 24.0, 12.0);
    let ask = Ask::call(Era::Legacy, &[tool("tool", 42)]);
    let open = async |count: usize| {
        let mut streams = Vec::new();
        for _ in 0..count {
            streams.push(Connection::open(gateway.address, &ask, 0).await.into_stream().await);
        }
        streams
    };
    // The first ones pay for what all of them share.
    let first = open(100).await;
    let before = gateway.resident();
    let count = if run.short { 500 } else { 2_000 };
    let streams = open(count).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = gateway.resident().saturating_sub(before) as f64 / count as f64 / 1024.0;
    drop((first, streams));
    report.figure(run, "each idle session with a stream", each, Unit::Kibibytes, 24.0, 8.0);
}

/// Ten thousand virtual tools are published under load.
async fn compile(run: &Run, report: &mut Report) {
    let mut addresses = Vec::new();
    for prefix in ["t0", "t1", "t2", "t3", "t4"] {
        addresses.push(server(prefix, 2_000).await);
    }
    let of = |version: usize| -> Value {
        let tools = (0..10_000).map(|number| {
            let (target, source) = (number / 2_000, number % 2_000);
            json!({
                "name": format!("virtual_{version}_{number}"), "source": {"target": format!("backend-{target}"), "tool": tool(&format!("t{target}"), source)},
                "defaults": {"argument_6": "a default", "argument_7": "hidden and forced"}, "hideFields": ["argument_7"],
            })
        });
        json!({"schemaVersion": "1.0", "tools": tools.collect::<Vec<_>>()})
    };
    // Outside of the registry: it is there whatever is published.
    let mut others = addresses.clone();
    others.push(server("plain", 10).await);
    let gateway = proc::gateway(&run.this, &Setup::over_http(&others).with_registry(of(0))).await.0;
    let ask = Ask::call(Era::Legacy, &[tool("plain", 5)]);
    // The load of the other rows, which takes all that the machine has.
    let load = Load { time: run.load.time.max(Duration::from_secs(3)), ..run.load };
    let mut quiet = load.run(&gateway, &ask).await;
    let (mut took, mut busy, mut elsewhere, mut seen) = (Vec::new(), Sample::default(), Sample::default(), true);
    for version in 1..=run.rounds {
        // Only prepared: the gateway watches the file and would be done before anybody measures.
        gateway.prepare(&of(version));
        let name = format!("virtual_{version}_9999");
        let (mut sample, (begun, ended)) = tokio::join!(load.run(&gateway, &ask), async {
            // The load warms up first.
            tokio::time::sleep(load.time / 3).await;
            swapped(&gateway, &name).await
        });
        // A stall may come with the end of it, when nobody calls any more if it took too long.
        seen &= sample.outlasts(ended);
        // A swap is short: among all the calls of a round those that it holds up would be lost.
        sample.keep(begun, ended);
        busy.add(sample);
        took.push((ended - begun).as_secs_f64() * 1e3);
        // Whoever wants a core makes calls wait where all are taken. This is how long, without anything of ours.
        let (mut sample, (begun, ended)) = tokio::join!(load.run(&gateway, &ask), async {
            tokio::time::sleep(load.time / 3).await;
            busy_elsewhere(run, ended - begun).await
        });
        sample.keep(begun, ended);
        elsewhere.add(sample);
    }
    took.sort_by(f64::total_cmp);
    report.figure(run, "10,000 virtual tools: compile and swap", took[took.len() / 2], Unit::Milliseconds, 1_000.0, 200.0);
    let mut meanwhile = |percent| if seen { busy.percentile(percent) } else { f64::NAN };
    let (swapping, beside) = (meanwhile(99.0), elsewhere.percentile(99.0));
    report.figure(run, "p99 of calls meanwhile, against before", swapping / quiet.percentile(99.0), Unit::Times, 2.0, 1.1);
    println!("    p99 {:.1} ms before, {swapping:.1} ms meanwhile, {beside:.1} ms while another program works as long", quiet.percentile(99.0));
    // A stall of a thread is a hundred calls that are late; a single one of a hundred thousand may have met anything, a packet that was lost as well.
    report.figure(run, "p99.9 of calls meanwhile", meanwhile(99.9), Unit::Milliseconds, 50.0, 20.0);
    println!(
        "    slowest {:.1} ms before, {:.1} ms meanwhile, {:.1} ms while another program works as long",
        quiet.percentile(100.0),
        meanwhile(100.0),
        elsewhere.percentile(100.0)
    );
}

/// Another program takes a core for so long, and gives way as the gateway does when it compiles.
async fn busy_elsewhere(run: &Run, time: Duration) -> (Instant, Instant) {
    let begun = Instant::now();
    let mut program = tokio::process::Command::new(&run.this).arg("busy").kill_on_drop(true).spawn().expect("a program that is busy");
    tokio::time::sleep(time).await;
    program.kill().await.expect("its end");
    (begun, Instant::now())
}

/// Works for nothing, a minute at most.
pub fn keep_busy() {
    transom_upstream::give_way();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        std::hint::spin_loop();
    }
}

/// Publishes what was prepared: when, and when a tool of it answers.
async fn swapped(gateway: &Proxy, name: &str) -> (Instant, Instant) {
    let mut connection = Connection::open(gateway.address, &Ask::call(Era::Legacy, &[name.to_owned()]), 0).await;
    let begun = Instant::now();
    gateway.publish_prepared();
    reload(gateway.admin(), proc::TOKEN).await;
    while !connection.try_ask().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "the new registry is not live");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (begun, Instant::now())
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
