//! T20: everything that exhausts, at once, within 512 MiB.
//!
//! The gateway is in a cgroup of that size, so that it sheds as it would in a container, and is killed if it does not. Where no cgroup can be
//! made, the peak of resident memory as the kernel keeps it (`VmHWM`) is judged alone, which is not enough for CI.

use crate::Size;
use crate::bodies::amplifying;
use crate::report::{Report, Times, mebibytes};
use crate::slow::be_slow;
use crate::stand::{Stand, TOOL, fast_target, is_result};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use transom_tests::cgroup::Cgroup;
use transom_tests::frames::{END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, frame, head, settings};
use transom_tests::wire::{Wire, call, post};
use transom_tests::{Hostile, process, target};

const TEST: &str = "T20";
const BOUND: u64 = 512 << 20;
const LARGE: usize = 4 << 20;
/// The attacks that are answered one by one, as the tally calls them.
const KINDS: [&str; 5] = ["body", "head", "session", "stuck", "resets"];

/// What became of attacks: how they were answered, and how often.
type Tally = Arc<Mutex<BTreeMap<String, usize>>>;

pub async fn run(report: &mut Report, size: &Size) {
    let stuck = target("stuck").tool("hang", []).hostile("tools/call", Hostile::Hang);
    let big = target("big").tool("big", []).reply("big", json!({"content": [{"type": "text", "text": "x".repeat(LARGE)}]}));
    let cgroup = Cgroup::new(BOUND);
    let mut builder = process().target(&stuck).target(&big).entry(fast_target().await);
    if let Some(cgroup) = &cgroup {
        builder = builder.under(&["sh", "-c", &cgroup.enter(), "sh"]);
    }
    if cgroup.is_none() {
        transom_tests::install::skip("no cgroup can be made here, so T20 does not limit the gateway's memory and judges its peak alone");
    }
    report.note("T20 in a cgroup", cgroup.is_some());
    let mut stand = Stand::start(builder).await;
    let (address, tally) = (stand.address, Tally::default());
    let mut attacks = JoinSet::new();
    let count = Arc::new(AtomicUsize::new(0));
    for number in 0..size.slow.min(500) {
        attacks.spawn(be_slow(address, number, count.clone(), count.clone()));
    }
    let deep = |what: &str| call(1, TOOL, &json!({})).replace("{}", &what.repeat(100_000));
    let bodies = [
        amplifying("{\"a\":0},", (4 << 20) - 1024),
        amplifying("[],", (4 << 20) - 1024),
        amplifying("1,", (4 << 20) - 1024),
        "x".repeat((4 << 20) + 1),
        deep("["),
        deep("{\"a\":"),
        format!("[{}]", vec![call(1, TOOL, &json!({})); 10_000].join(",")),
        call(1, TOOL, &json!({})).replace("{}", &format!("{{{}}}", (0..90_000).map(|n| format!("\"k{n}\":1")).collect::<Vec<_>>().join(","))),
    ];
    for body in bodies {
        let request = Arc::new(post(address, None, &body));
        for _ in 0..2 {
            attacks.spawn(again_and_again(address, "body", request.clone(), Duration::from_millis(20), tally.clone()));
        }
    }
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {address}\r\nx: {}\r\n\r\n", "y".repeat(65 * 1024));
    attacks.spawn(again_and_again(address, "head", Arc::new(head.into_bytes()), Duration::from_millis(5), tally.clone()));
    let hello = post(address, None, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"flood","version":"1"},"filler":"FILLER"}}"#.replace("FILLER", &"z".repeat(64 * 1024)).as_str());
    for _ in 0..4 {
        attacks.spawn(again_and_again(address, "session", Arc::new(hello.clone()), Duration::ZERO, tally.clone()));
    }
    for number in 0..1_000 {
        attacks.spawn(hold_stream(address, number));
    }
    for _ in 0..400 {
        attacks.spawn(again_and_again(
            address,
            "stuck",
            Arc::new(post(address, None, &call(1, "hang", &json!({})))),
            Duration::from_millis(500),
            tally.clone(),
        ));
    }
    for _ in 0..16 {
        attacks.spawn(deaf(address));
    }
    for _ in 0..4 {
        attacks.spawn(take_back(address, tally.clone()));
    }
    let (times, answers) = served_meanwhile(address, size.together).await;
    attacks.shutdown().await;
    let ended = stand.process.has_ended();
    let tally = tally.lock().map(|tally| tally.clone()).unwrap_or_default();
    report.note("T20 attacks and their answers", json!(tally));
    report.note("T20 good calls and their answers", json!(answers));
    let good: usize = answers.values().sum();
    let ok = answers.get("200").copied().unwrap_or(0);
    let odd: usize = answers.iter().filter(|(answer, _)| !matches!(answer.as_str(), "200" | "503 1001")).map(|(_, count)| count).sum();
    report.figure(TEST, format!("attacks answered in {} s", size.together.as_secs()), tally.values().sum::<usize>() as f64, "");
    // An attack that does not take place shows nothing.
    let of_kind = |kind: &str| tally.iter().filter(|(answer, _)| answer.split(' ').next() == Some(kind)).map(|(_, count)| count).sum::<usize>();
    let least = KINDS.iter().map(|kind| of_kind(kind)).min().unwrap_or(0);
    report.at_least(TEST, "answers to the kind of attack that had the fewest", least as f64, "", size.together.as_secs_f64());
    report.at_most(TEST, "resident memory at its peak", mebibytes(stand.peak()), "MiB", mebibytes(BOUND));
    report.at_most(TEST, "restarts and out-of-memory kills", f64::from(u8::from(ended)), "", 0.0);
    report.at_least(TEST, format!("good calls done meanwhile, of {good}"), ok as f64, "", 0.9 * good as f64);
    report.at_most(TEST, "good calls that were neither done nor shed", odd as f64, "", 0.0);
    report.figure(TEST, "p99 of a good call meanwhile", times.percentile(99.0), "ms");
    report.at_most(TEST, "panics", stand.panics().await, "", 0.0);
    drop((stuck, big, stand, cgroup));
}

/// Sends the same bytes again and again, on a new connection whenever the old one is closed.
async fn again_and_again(address: SocketAddr, what: &'static str, request: Arc<Vec<u8>>, pause: Duration, tally: Tally) {
    let mut kept: Option<Wire> = None;
    loop {
        let wire = match kept.take() {
            Some(wire) => Ok(wire),
            None => Wire::connect(address).await,
        };
        let Ok(mut wire) = wire else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // What is refused while it is being sent is answered all the same.
        let sent = wire.send(&request).await.is_ok();
        let outcome = match wire.answer().await {
            Ok(answer) => {
                if sent && answer.header("connection") != Some("close") {
                    kept = Some(wire);
                }
                format!("{what} {}", answer.status)
            }
            Err(_) => format!("{what} closed"),
        };
        if let Ok(mut tally) = tally.lock() {
            *tally.entry(outcome).or_default() += 1;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Opens a stream and holds it; opens another one when it is ended.
async fn hold_stream(address: SocketAddr, number: u64) {
    loop {
        tokio::time::sleep(Duration::from_millis(number % 1_000)).await;
        let Ok(mut wire) = Wire::connect(address).await else { continue };
        let Ok(session) = wire.initialize().await else { continue };
        let Ok(mut stream) = Wire::connect(address).await else { continue };
        if stream.listen(&session).await.is_ok() {
            drop(wire);
            let _ = stream.ended().await;
        }
    }
}

/// Asks for a large reply and does not read it.
async fn deaf(address: SocketAddr) {
    loop {
        let Ok(mut wire) = Wire::connect(address).await else { continue };
        let _ = wire.send(&post(address, None, &call(1, "big", &json!({})))).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

/// Asks over HTTP/2 and takes every request back at once, until the connection is closed.
async fn take_back(address: SocketAddr, tally: Tally) {
    let head = head(&address.to_string(), "POST");
    loop {
        if let Ok(mut wire) = Wire::connect(address).await {
            let mut alive = wire.send(&[PREFACE, &settings(&[])].concat()).await.is_ok();
            for stream in (1..20_000).step_by(2) {
                let request = [frame(HEADERS, END_HEADERS | END_STREAM, stream, &head), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())];
                alive = alive && wire.send(&request.concat()).await.is_ok();
                if !alive {
                    break;
                }
            }
            let outcome = if alive { "resets borne" } else { "resets closed" };
            if let Ok(mut tally) = tally.lock() {
                *tally.entry(outcome.to_owned()).or_default() += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Twenty clients with five calls a second each.
async fn served_meanwhile(address: SocketAddr, time: Duration) -> (Times, BTreeMap<String, usize>) {
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        tasks.spawn(async move {
            let (mut times, mut answers, start) = (Times::default(), BTreeMap::<String, usize>::new(), Instant::now());
            let mut kept: Option<Wire> = None;
            while start.elapsed() < time {
                let asked = Instant::now();
                let connected = match kept.take() {
                    Some(wire) => Ok(wire),
                    None => Wire::connect(address).await,
                };
                let answer = match connected {
                    Ok(mut wire) => {
                        let answer = wire.post(None, &call(7, TOOL, &json!({"argument_0": "x"}))).await;
                        kept = answer.is_ok().then_some(wire);
                        answer
                    }
                    Err(error) => Err(error),
                };
                let answer = match answer {
                    Ok(answer) if is_result(&answer) => {
                        times.push(asked.elapsed());
                        "200".to_owned()
                    }
                    Ok(answer) => format!("{} {}", answer.status, answer.json()["error"]["code"]),
                    Err(error) => format!("lost: {:?}", error.kind()),
                };
                *answers.entry(answer).or_default() += 1;
                tokio::time::sleep(Duration::from_millis(200).saturating_sub(asked.elapsed())).await;
            }
            (times, answers)
        });
    }
    let (mut times, mut answers) = (Times::default(), BTreeMap::<String, usize>::new());
    while let Some(Ok((theirs, more))) = tasks.join_next().await {
        times.extend(theirs);
        for (answer, count) in more {
            *answers.entry(answer).or_default() += count;
        }
    }
    (times, answers)
}
