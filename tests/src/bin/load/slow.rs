//! T18: thousands who are slow on purpose, and a hundred who are not and should not notice.

use crate::Size;
use crate::report::{Report, Times, above_noise};
use crate::stand::{Stand, TOOL, fast_target, is_result};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use transom_tests::wire::{Wire, call, post};

const TEST: &str = "T18";
const GOOD: usize = 100;

pub async fn run(report: &mut Report, size: &Size) {
    let mut stand = Stand::before(&[fast_target().await]).await;
    let before = good_clients(stand.address, size.watched).await;
    let (open, cut) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut slow = JoinSet::new();
    for number in 0..size.slow {
        slow.spawn(be_slow(stand.address, number, open.clone(), cut.clone()));
    }
    let patience = Instant::now() + Duration::from_secs(30);
    while open.load(Relaxed) < size.slow * 9 / 10 && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let open_at_first = open.load(Relaxed);
    let beside = good_clients(stand.address, size.watched).await;
    let (open_at_last, were_cut) = (open.load(Relaxed), cut.load(Relaxed));
    slow.shutdown().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = good_clients(stand.address, size.watched).await;
    let errors = before.1 + beside.1 + after.1;
    let mut idle = before.0;
    idle.extend(after.0);
    let (alone, crowded) = (idle.percentile(99.0), beside.0.percentile(99.0));
    let what = format!("slow connections open, of {}, when {GOOD} good clients begin", size.slow);
    report.at_least(TEST, what, open_at_first as f64, "", (0.9 * size.slow as f64).floor());
    report.figure(TEST, "slow connections open when they are done", open_at_last as f64, "");
    if size.watched > Duration::from_secs(12) {
        // A head may take ten seconds.
        report.at_least(TEST, "of them cut off and come again", were_cut as f64, "", 1.0);
    }
    report.figure(TEST, format!("p99 of a good call alone, {} calls", idle.len()), alone, "ms");
    report.at_most(TEST, format!("p99 of a good call beside them, {} calls", beside.0.len()), crowded, "ms", above_noise(2.0 * alone, size.noise));
    report.at_most(TEST, "errors of good clients", errors as f64, "", 0.0);
    report.at_most(TEST, "panics", stand.panics().await, "", 0.0);
}

/// A hundred clients with five calls a second each: how long the calls took, and how many went wrong.
pub async fn good_clients(address: SocketAddr, time: Duration) -> (Times, usize) {
    let mut tasks = JoinSet::new();
    for number in 0..GOOD {
        tasks.spawn(async move {
            let (mut times, mut errors) = (Times::default(), 0);
            let Ok(mut wire) = Wire::connect(address).await else { return (times, 1) };
            let Ok(session) = wire.initialize().await else { return (times, 1) };
            let message = call(7, TOOL, &json!({"argument_0": "x"}));
            let start = Instant::now();
            tokio::time::sleep(Duration::from_millis(number as u64 * 2)).await;
            while start.elapsed() < time {
                let asked = Instant::now();
                match wire.post(Some(&session), &message).await {
                    Ok(answer) if is_result(&answer) => times.push(asked.elapsed()),
                    _ => errors += 1,
                }
                tokio::time::sleep(Duration::from_millis(200).saturating_sub(asked.elapsed())).await;
            }
            (times, errors)
        });
    }
    let (mut times, mut errors) = (Times::default(), 0);
    while let Some(done) = tasks.join_next().await {
        let (theirs, wrong) = done.unwrap_or((Times::default(), 1));
        times.extend(theirs);
        errors += wrong;
    }
    (times, errors)
}

/// Slow in one of three ways, again and again.
pub async fn be_slow(address: SocketAddr, number: usize, open: Arc<AtomicUsize>, cut: Arc<AtomicUsize>) {
    loop {
        let Ok(mut wire) = Wire::connect(address).await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        open.fetch_add(1, Relaxed);
        let begin = match number % 3 {
            0 => format!("POST /mcp HTTP/1.1\r\nhost: {address}\r\nx-slow: "),
            1 => format!("POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{{\"a\":\""),
            // Asks for much and reads none of it.
            _ => String::from_utf8(post(address, None, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)).unwrap_or_default().repeat(100),
        };
        if number % 3 == 2 {
            // Whoever reads nothing does not learn that it was cut off. It may even be stuck while it asks.
            let asking = async {
                let _ = wire.send(begin.as_bytes()).await;
                std::future::pending::<()>().await;
            };
            let _ = tokio::time::timeout(Duration::from_secs(20), asking).await;
            open.fetch_sub(1, Relaxed);
            continue;
        }
        let mut alive = wire.send(begin.as_bytes()).await.is_ok();
        while alive {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // An answer is the end of it: it says that the time is up.
            alive = wire.send(b"a").await.is_ok() && !wire.has_answered();
        }
        open.fetch_sub(1, Relaxed);
        cut.fetch_add(1, Relaxed);
    }
}
