//! T9 and T10: networks that do everything but work, and servers that forget whom they talk to.

use crate::Size;
use crate::outcome::{Counts, Outcome, percentile};
use crate::proxy::proxy;
use crate::stand;
use crate::traffic::{Calls, End, Load, judge};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use transom_tests::client::{LEGACY, connect};
use transom_tests::target::{Era, Target, Transport, echo, target};

/// A target whose tool, called after it, takes `nonce` and `ms` and echoes them.
pub fn echoing(name: &'static str, era: Era, transport: Transport) -> Target {
    target(name).era(era).transport(transport).tool(name, ["nonce", "ms"]).handler(name, move |arguments, context| async move {
        tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0))).await;
        Ok(echo(name, &context.tool, &arguments))
    })
}

/// How often each nonce was executed.
pub fn executed(targets: &[Target]) -> HashMap<String, usize> {
    let mut executed = HashMap::new();
    for (_, arguments) in targets.iter().flat_map(Target::calls) {
        *executed.entry(arguments["nonce"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    executed
}

/// Ends every connection to these targets and listens again: what a pool keeps for later is no leak, and what is kept beyond the end of a
/// connection is one.
pub fn hang_up(targets: &[Target]) {
    for target in targets {
        target.stop();
        target.start();
    }
}

/// T9, L1, L3, L7.
pub async fn toxic(size: Size) -> Outcome {
    const DEADLINE: f64 = 3.0;
    let targets = [
        echoing("json", Era::Legacy("2025-11-25"), Transport::Json),
        echoing("events", Era::Legacy("2025-06-18"), Transport::Events),
        echoing("modern", Era::Modern, Transport::Json),
        echoing("stream", Era::Modern, Transport::Events),
        echoing("clean", Era::Legacy("2025-11-25"), Transport::Json),
    ];
    let mut proxies = Vec::new();
    let (mut builder, metrics) = stand::gateway();
    for (number, target) in targets.iter().enumerate() {
        let percent = if target.name() == "clean" { 0 } else { 6 };
        let proxy = proxy(target.addr(), percent, size.seed * 100 + number as u64).await;
        builder = builder.entry(json!({"name": target.name(), "mcp": {"host": format!("http://{}/mcp", proxy.address)}, "timeout": "3s"}));
        proxies.push(proxy);
    }
    let gateway = builder.start_ready().await;
    let tools: Vec<String> = targets.iter().map(|target| target.name().to_owned()).collect();
    let load = Load { url: gateway.url("/mcp"), tools, workers: 32, per_second: 150.0, ms: 20, seed: size.seed, tag: "load" };
    let warm = Load { tag: "warm", ..load.clone() }.start().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    warm.stop().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = stand::holds(&gateway, &metrics).await;

    proxies.iter().for_each(|proxy| proxy.harmful(true));
    let time = size.seconds(30.0, 4.0);
    let traffic = load.start().await;
    tokio::time::sleep(time).await;
    let mut calls = traffic.stop().await;
    proxies.iter().for_each(|proxy| proxy.harmful(false));
    let better = Instant::now();
    // What was half open stays so for whoever waits for it: the gateway has to notice by itself.
    let noticed = within_or(Duration::from_secs(90), || async {
        let status = gateway.get("/status").await.json();
        targets.iter().all(|target| status["servers"][target.name()]["state"] == "connected")
    })
    .await;
    // Connected is what the gateway believes; that it is so shows in calls that succeed.
    let clear = Load { tag: "clear", per_second: 100.0, ..load.clone() }.start().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let clear = clear.stop().await;
    let back = better.elapsed();
    let failed_after = clear.calls.iter().filter(|call| call.end != End::Ok).count();
    let clean_failed = calls.calls.iter().filter(|call| call.tool == 4 && call.end != End::Ok).count();
    calls.add(clear.calls);
    let executed = executed(&targets);
    let mut counts = calls.counts(&executed);
    proxies.iter().for_each(|proxy| proxy.cut());
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(40)).await;
    counts.leaked = leaked;
    let mut harms: BTreeMap<String, usize> = BTreeMap::new();
    for (harm, done) in proxies.iter().flat_map(|proxy| proxy.done()) {
        *harms.entry(harm).or_default() += done;
    }
    let misreported = calls.misreported(&executed);
    let slow = calls.calls.iter().filter(|call| call.took.as_secs_f64() > DEADLINE + 1.0).count();
    Outcome::new(format!("4 targets behind toxic proxies for {:.0} s, one beside them without; deadline 3 s", time.as_secs_f64()), counts)
        .nothing_wrong()
        .goal(format!("no call lasts longer than its deadline and a second: {slow}"), slow == 0)
        .goal(format!("nothing said to be not executed was: {misreported}"), misreported == 0)
        .goal(format!("no call of the clean target failed: {clean_failed}"), clean_failed == 0)
        .goal(format!("every harm was done: {harms:?}"), size.is_short() || harms.values().all(|done| *done > 0))
        .goal("every target is connected again", noticed)
        .goal(format!("no call fails once the network is well: {failed_after}"), failed_after == 0)
        .goal(format!("odd: {}", calls.oddities()), calls.oddities().is_empty())
        .figure("harms", json!(harms))
        .figure("slowest call ms", calls.slowest())
        .figure("all well after s", back.as_secs_f64() - 2.0)
        .figure("errors", calls.errors())
        .figure("held", stand::change(before, after))
}

/// Waits for something; whether it came to be.
pub async fn within_or<F, R>(limit: Duration, mut check: F) -> bool
where
    F: FnMut() -> R,
    R: Future<Output = bool>,
{
    let start = Instant::now();
    while start.elapsed() < limit {
        if check().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

/// T10, L4.
pub async fn forgotten_sessions(size: Size) -> Outcome {
    const PARALLEL: usize = 500;
    let target = echoing("forgetful", Era::Legacy("2025-11-25"), Transport::Json);
    let (builder, metrics) = stand::gateway();
    let gateway = builder.target(&target).start_ready().await;
    let client = connect(gateway.url("/mcp"), LEGACY).open().await;
    client.call("forgetful", json!({"nonce": "first"})).await.result();
    let before = stand::holds(&gateway, &metrics).await;
    let (rounds, mut counts, mut handshakes, mut times) = (size.of(20, 3), Counts::default(), Vec::new(), Vec::new());
    let mut oddities: Vec<Value> = Vec::new();
    for round in 0..rounds {
        let known = target.initializes();
        target.forget_sessions();
        let start = Instant::now();
        let calls: Vec<_> = (0..PARALLEL).map(|call| client.start_call("forgetful", json!({"nonce": format!("{round}-{call}")}))).collect();
        for (number, call) in calls.into_iter().enumerate() {
            let reply = call.reply().await;
            counts.sent += 1;
            match judge(&reply, &format!("{round}-{number}")) {
                End::Ok => counts.ok += 1,
                End::Error(code, _) => {
                    counts.error += 1;
                    oddities.push(json!(code));
                }
                End::Mixed(_) => counts.mixed += 1,
                End::Lost(_) => counts.lost += 1,
            }
        }
        times.push(start.elapsed());
        handshakes.push(target.initializes() - known);
    }
    counts.doubled = executed(std::slice::from_ref(&target)).values().filter(|times| **times > 1).count();
    drop(client);
    hang_up(&[target]);
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    let extra = handshakes.iter().filter(|times| **times != 1).count();
    Outcome::new(format!("the target forgets its session, then {PARALLEL} calls at once, {rounds} times"), counts)
        .nothing_wrong()
        .goal(format!("exactly one handshake each: {handshakes:?}"), extra == 0)
        .goal(format!("every call is answered with a result; errors {oddities:?}"), counts.ok == counts.sent)
        .figure("round p50 ms", percentile(&mut times, 50))
        .figure("held", stand::change(before, after))
}

/// Calls nobody made.
pub fn none() -> Calls {
    Calls { sent: 0, calls: Vec::new() }
}
