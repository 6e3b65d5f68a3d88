//! T7 and T8: targets that are killed and targets that are stopped, four children and four servers, under load.

use crate::Size;
use crate::chance::Chance;
use crate::outcome::{Outcome, percentile};
use crate::stand::{self, Backend};
use crate::traffic::{self, Call, End, Load};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use transom_tests::client::{LEGACY, connect};
use transom_tests::{Process, sys};

const BACKENDS: usize = 8;

struct Stand {
    backends: Vec<Backend>,
    gateway: Process,
    metrics: String,
    load: Load,
    before: stand::Holds,
    _folder: TempDir,
}

impl Stand {
    /// Servers are started anew: what a pool keeps for later is no leak, and what is kept beyond the end of a connection is one.
    async fn hang_up(&mut self) {
        for backend in self.backends.iter_mut().filter(|backend| backend.is_http()) {
            backend.kill().await;
        }
    }
}

/// Eight targets, a gateway before them that has seen some traffic, and what it holds then.
async fn stand(size: Size, timeout: &str, per_second: f64) -> Stand {
    let folder = tempfile::tempdir().expect("a folder");
    let mut backends = Vec::new();
    for number in 0..BACKENDS {
        let name = format!("t{number}");
        backends.push(if number % 2 == 0 { Backend::stdio(&name, folder.path()) } else { Backend::http(&name, folder.path()).await });
    }
    let (mut builder, metrics) = stand::gateway();
    for backend in &backends {
        builder = builder.entry(backend.entry(timeout));
    }
    let gateway = builder.start_ready().await;
    let tools = backends.iter().map(|backend| backend.name.clone()).collect();
    let load = Load { url: gateway.url("/mcp"), tools, workers: 32, per_second, ms: 20, seed: size.seed, tag: "load" };
    let warm = Load { tag: "warm", ..load.clone() }.start().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    warm.stop().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = stand::holds(&gateway, &metrics).await;
    Stand { backends, gateway, metrics, load, before, _folder: folder }
}

fn executed(backends: &[Backend]) -> HashMap<String, usize> {
    let mut all = HashMap::new();
    for backend in backends {
        for (nonce, times) in backend.executed() {
            *all.entry(nonce).or_default() += times;
        }
    }
    all
}

/// Whether a call ran at some moment between these two.
fn during(call: &Call, from: Instant, to: Instant) -> bool {
    call.started + call.took >= from && call.started <= to
}

/// T7, K1, L7, N8.
pub async fn killed(size: Size) -> Outcome {
    const TIMEOUT: f64 = 5.0;
    let mut stand = stand(size, "5s", if size.is_short() { 200.0 } else { 500.0 }).await;
    let traffic = stand.load.start().await;
    let start = Instant::now();
    let rounds = size.of(12, 2);
    let mut chance = Chance::new(size.seed, 0);
    let prober = connect(stand.gateway.url("/mcp"), LEGACY).open().await;
    let probes = Arc::new(AtomicUsize::new(0));
    // Who was killed, when, and when it was back.
    let mut away: Vec<(usize, Instant, Instant)> = Vec::new();
    let (mut back, mut probed, mut kills, mut gone) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..BACKENDS).collect();
        chance.shuffle(&mut order);
        let mut waiting = Vec::new();
        for victim in order {
            // A target that dies more often than once in two seconds is one that flaps, and is tried less and less (L5).
            tokio::time::sleep(Duration::from_millis(250 + chance.below(100) as u64)).await;
            let killed = Instant::now();
            let Some(can_start) = stand.backends[victim].kill().await else { continue };
            kills += 1;
            let (client, name, probes) = (prober.clone(), stand.backends[victim].name.clone(), probes.clone());
            waiting.push(tokio::spawn(async move {
                let mut calls: Vec<Call> = Vec::new();
                loop {
                    let done = traffic::call(&client, victim, &name, format!("probe-{}", probes.fetch_add(1, Relaxed)), 0).await;
                    let ok = done.end == End::Ok;
                    calls.push(done);
                    if ok || can_start.elapsed() > Duration::from_secs(30) {
                        return (can_start.elapsed(), calls, ok, (victim, killed, Instant::now()));
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }));
        }
        for waiting in waiting {
            let (took, calls, is_back, while_away) = waiting.await.expect("a probe ends");
            back.push(took);
            probed.extend(calls);
            gone += usize::from(!is_back);
            away.push(while_away);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut calls = traffic.stop().await;
    drop(prober);
    let rate = calls.sent as f64 / seconds;
    calls.add(probed);
    let executed = executed(&stand.backends);
    let mut counts = calls.counts(&executed);
    stand.hang_up().await;
    let (leaked, after) = stand::leaked(&stand.gateway, &stand.metrics, stand.before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    let misreported = calls.misreported(&executed);
    // A call of a target that is away is lost with it, or finds nobody. Nobody else's may fail, nor in another way: a target that is killed is no
    // reason to wait for a deadline.
    let explained = |call: &Call| match call.end {
        End::Error(1002 | 1003, _) => away.iter().any(|(victim, killed, back)| call.tool == *victim && during(call, *killed, *back)),
        End::Error(..) => false,
        _ => true,
    };
    let stray: Vec<&Call> = calls.calls.iter().filter(|call| !explained(call)).collect();
    let strays: Vec<String> =
        stray.iter().take(3).map(|call| format!("{} of t{}: {:?} in {:?}", call.nonce, call.tool, call.end, call.took)).collect();
    Outcome::new(format!("kill -9 of 8 targets (4 children, 4 servers), {kills} kills under {rate:.0} calls/s"), counts)
        .nothing_wrong()
        .goal(format!("nothing said to be not executed was: {misreported}"), misreported == 0)
        .goal(
            format!("0 stray: every call that failed was of a target that was away, with 1002 or 1003: {} {strays:?}", stray.len()),
            stray.is_empty(),
        )
        .goal(format!("every target that was killed came back: {gone} did not"), gone == 0)
        .goal(format!("every target was killed {rounds} times: {kills}"), kills == rounds * BACKENDS)
        .goal(format!("odd: {}", calls.oddities()), calls.oddities().is_empty())
        .in_time("back p50 ms", percentile(&mut back, 50), 300.0)
        .in_time("back p99 ms", percentile(&mut back, 99), 1000.0)
        .in_time("slowest call ms", calls.slowest(), TIMEOUT * 1e3 + 1000.0)
        .figure("errors", calls.errors())
        .figure("stray", stray.len())
        .figure("held", stand::change(stand.before, after))
}

/// T8, K10, L1: SIGSTOP, then SIGCONT.
pub async fn stopped(size: Size) -> Outcome {
    const DEADLINE: Duration = Duration::from_secs(1);
    let mut stand = stand(size, "1s", if size.is_short() { 100.0 } else { 200.0 }).await;
    let (rounds, pause) = (size.of(6, 1), size.seconds(3.0, 2.0).min(Duration::from_secs(30)));
    let traffic = stand.load.start().await;
    let prober = connect(stand.gateway.url("/mcp"), LEGACY).open().await;
    let mut chance = Chance::new(size.seed, 0);
    // Who was stopped, and when; between the pauses everybody runs for as long, to compare with.
    let (mut pauses, mut calm, mut probed, mut back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let quiet = Instant::now();
        tokio::time::sleep(pause).await;
        calm.push((quiet, Instant::now()));
        let victim = (chance.below(BACKENDS / 2) * 2 + round % 2) % BACKENDS;
        let Some(pid) = stand.backends[victim].pid() else { continue };
        let began = Instant::now();
        sys::signal(pid, libc::SIGSTOP);
        tokio::time::sleep(pause).await;
        sys::signal(pid, libc::SIGCONT);
        let resumed = Instant::now();
        for number in 0.. {
            let done = traffic::call(&prober, victim, &stand.backends[victim].name, format!("probe-{round}-{number}"), 0).await;
            let ok = done.end == End::Ok;
            probed.push(done);
            if ok || resumed.elapsed() > Duration::from_secs(30) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        back.push(resumed.elapsed());
        // Calls that began before the return may fail after it.
        pauses.push((victim, began, Instant::now()));
    }
    let mut calls = traffic.stop().await;
    drop(prober);
    let stray = calls.calls.iter().filter(|call| {
        matches!(call.end, End::Error(..)) && !pauses.iter().any(|(victim, from, to)| call.tool == *victim && during(call, *from, *to))
    });
    let stray = stray.count();
    // A call of a stopped target runs into its deadline. Ten of those in a row and the child is started anew (K10): from then on calls are lost, or
    // find nobody. That takes a deadline at least, and nothing else may happen to them.
    let explained = |call: &Call| match call.end {
        End::Error(1004, _) => true,
        End::Error(1002 | 1003, _) => {
            pauses.iter().any(|(victim, from, to)| call.tool == *victim && call.started <= *to && call.started + call.took >= *from + DEADLINE)
        }
        End::Error(..) => false,
        _ => true,
    };
    let (mut beside, mut alone): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for call in &calls.calls {
        if pauses.iter().any(|(victim, from, to)| call.tool != *victim && call.started >= *from && call.started <= *to) {
            beside.push(call.took);
        } else if calm.iter().any(|(from, to)| call.started >= *from && call.started <= *to) {
            alone.push(call.took);
        }
    }
    calls.add(probed);
    let wrong: Vec<&End> = calls.calls.iter().filter(|call| !explained(call)).map(|call| &call.end).collect();
    let executed = executed(&stand.backends);
    let mut counts = calls.counts(&executed);
    stand.hang_up().await;
    let (leaked, after) = stand::leaked(&stand.gateway, &stand.metrics, stand.before, Duration::from_secs(20)).await;
    counts.leaked = leaked;
    let (beside, alone) = (percentile(&mut beside, 99), percentile(&mut alone, 99));
    // On a machine that others use too, a fifth of a few milliseconds is nothing one can measure, and of the short form's two hundred calls p99 is
    // the second slowest. Who waits for the stopped one waits a second.
    let most = (alone * 1.2).max(alone + if size.is_short() { 100.0 } else { 30.0 });
    let misreported = calls.misreported(&executed);
    Outcome::new(format!("SIGSTOP for {pause:?}, SIGCONT, {rounds} times; deadline 1 s"), counts)
        .nothing_wrong()
        .goal(format!("no call of another target failed: {stray}"), stray == 0)
        .goal(format!("0 errors other than 1004, and 1002 and 1003 once ten were late: {} {:?}", wrong.len(), wrong.first()), wrong.is_empty())
        .goal(format!("nothing said to be not executed was: {misreported}"), misreported == 0)
        .goal(format!("odd: {}", calls.oddities()), calls.oddities().is_empty())
        .goal("every pause was one", pauses.len() == rounds)
        .in_time("slowest call ms", calls.slowest(), 2000.0)
        .figure("p99 of others alone ms", alone)
        .in_time("p99 of others beside ms", beside, most)
        .in_time("back max ms", percentile(&mut back, 100), 5000.0)
        .figure("errors", json!(calls.errors()))
        .figure("held", stand::change(stand.before, after))
}
