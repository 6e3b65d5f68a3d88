//! T17: thousands of sessions with an open stream each, and what one of them costs.

use crate::Size;
use crate::report::{Report, Times, mebibytes};
use crate::stand::{Stand, TOOL, fast_target, is_result};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use transom_tests::wire::{Wire, call};

/// Sessions that are being opened at the same time.
const AT_ONCE: usize = 20;
const EVERY: Duration = Duration::from_secs(10);
const TEST: &str = "T17";

/// What a session that does nothing costs: first with its stream alone, then with a connection for calls beside it.
pub async fn idle(report: &mut Report, size: &Size) {
    let sessions = size.idle;
    for (what, keeps_connection) in [("and its stream", false), ("its stream and a kept connection", true)] {
        let stand = Stand::before(&[fast_target().await]).await;
        // What the first sessions need once, the others do not need again.
        let mut open = open(&stand, 100, keeps_connection).await;
        let before = stand.settled().await;
        open.extend(self::open(&stand, sessions, keeps_connection).await);
        let each = stand.settled().await.saturating_sub(before) as f64 / sessions as f64 / 1024.0;
        let what = format!("memory of an idle session, {what}, of {sessions}");
        // A second connection is two connections; there is no goal for that.
        if keeps_connection {
            report.figure(TEST, what, each, "KiB");
        } else {
            report.at_most(TEST, what, each, "KiB", 24.0);
        }
        drop(open);
    }
}

async fn open(stand: &Stand, sessions: usize, keeps_connection: bool) -> Vec<(Option<Wire>, Wire)> {
    let (address, room) = (stand.address, Arc::new(Semaphore::new(AT_ONCE)));
    let mut opening = JoinSet::new();
    for number in 0..sessions {
        let room = room.clone();
        opening.spawn(async move {
            let _place = room.acquire_owned().await;
            let (mut calls, session, stream) = begin(address).await.unwrap_or_else(|error| panic!("session {number}: {error}"));
            let answer = calls.post(Some(&session), &call(1, TOOL, &json!({"argument_0": "x"}))).await.expect("an answer");
            assert!(is_result(&answer), "{} {}", answer.status, answer.text());
            (keeps_connection.then_some(calls), stream)
        });
    }
    opening.join_all().await
}

async fn begin(address: SocketAddr) -> std::io::Result<(Wire, String, Wire)> {
    let mut calls = Wire::connect(address).await?;
    let session = calls.initialize().await?;
    let mut stream = Wire::connect(address).await?;
    stream.listen(&session).await?;
    Ok((calls, session, stream))
}

/// All of them at once, each with a call every ten seconds.
pub async fn calling(report: &mut Report, size: &Size) {
    let sessions = size.sessions;
    let mut stand = Stand::before(&[fast_target().await]).await;
    let (address, room) = (stand.address, Arc::new(Semaphore::new(AT_ONCE)));
    let (go, wait) = watch::channel(None::<Instant>);
    let (opened, time) = (Instant::now(), size.calling);
    let (ready, mut counted) = tokio::sync::mpsc::channel(AT_ONCE);
    let mut tasks = JoinSet::new();
    for number in 0..sessions {
        let (room, wait, ready) = (room.clone(), wait.clone(), ready.clone());
        tasks.spawn(async move {
            let place = room.acquire_owned().await;
            let begun = begin(address).await;
            drop(place);
            ready.send(()).await.ok();
            drop(ready);
            match begun {
                Ok(begun) => live(begun, number, sessions, wait, time).await,
                Err(error) => (Times::default(), vec![format!("it did not open: {error}")]),
            }
        });
    }
    drop(ready);
    while counted.recv().await.is_some() {}
    let opened = opened.elapsed();
    go.send_replace(Some(Instant::now()));
    let mut most_files = 0;
    let (mut times, mut errors) = (Times::default(), Vec::new());
    let until = tokio::time::Instant::now() + time;
    let mut resident = 0;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        (most_files, resident) = (most_files.max(stand.descriptors()), resident.max(stand.resident()));
    }
    while let Some(done) = tasks.join_next().await {
        let (theirs, wrong) = done.expect("a session that came to its end");
        times.extend(theirs);
        errors.extend(wrong);
    }
    for error in errors.iter().take(5) {
        println!("      {error}");
    }
    let what = format!("sessions with open streams, opened in {:.0} s", opened.as_secs_f64());
    report.at_least(TEST, what, sessions as f64, "", size.wanted as f64);
    report.at_least(TEST, "calls answered", times.len() as f64, "", (sessions * (time.as_secs() / EVERY.as_secs()) as usize) as f64);
    report.at_most(TEST, "errors", errors.len() as f64, "", 0.0);
    report.at_most(TEST, "resident memory, at most", mebibytes(resident), "MiB", 64.0 + 24.0 * sessions as f64 / 1024.0);
    report.figure(TEST, "resident memory at its peak, while they were opened or called", mebibytes(stand.peak()), "MiB");
    report.at_most(TEST, "file descriptors, at most", most_files as f64, "", (2 * sessions + 64) as f64);
    report.figure(TEST, "time of a call, p50", times.percentile(50.0), "ms");
    report.figure(TEST, "time of a call, p99", times.percentile(99.0), "ms");
    report.at_most(TEST, "panics", stand.panics().await, "", 0.0);
}

/// One session: a call every ten seconds at a moment of its own, and a stream that must not end.
async fn live(
    begun: (Wire, String, Wire),
    number: usize,
    of: usize,
    mut go: watch::Receiver<Option<Instant>>,
    time: Duration,
) -> (Times, Vec<String>) {
    let (mut calls, session, mut stream) = begun;
    let (mut times, mut errors) = (Times::default(), Vec::new());
    let Ok(start) = go.wait_for(Option::is_some).await.map(|start| start.expect("it has begun")) else { return (times, errors) };
    let first = start + EVERY.mul_f64(number as f64 / of as f64);
    let mut stream_is_open = true;
    for round in 0..(time.as_secs() / EVERY.as_secs()).max(1) {
        let at = first + EVERY * u32::try_from(round).unwrap_or(0);
        tokio::select! {
            () = tokio::time::sleep_until(at.into()) => {}
            _ = stream.ended(), if stream_is_open => {
                errors.push(format!("the stream of session {number} ended"));
                stream_is_open = false;
                tokio::time::sleep_until(at.into()).await;
            }
        }
        let id = number as u64 * 1_000 + round;
        let asked = Instant::now();
        match calls.post(Some(&session), &call(id, TOOL, &json!({"argument_0": "x"}))).await {
            Ok(answer) if is_result(&answer) && answer.text().contains(&format!("\"id\":{id},")) => times.push(asked.elapsed()),
            Ok(answer) => errors.push(format!("{} {}", answer.status, answer.text().chars().take(200).collect::<String>())),
            Err(error) => errors.push(error.to_string()),
        }
    }
    (times, errors)
}
