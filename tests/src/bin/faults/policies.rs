//! T3: rules change again and again while somebody tries what they forbid.

use crate::Size;
use crate::network::{echoing, executed, hang_up};
use crate::outcome::{Counts, Outcome, percentile};
use crate::stand;
use crate::traffic::{End, judge};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::RwLock;
use transom_tests::client::{LEGACY, MODERN, connect};
use transom_tests::target::{Era, Transport};
use transom_tests::within;

const PROBERS: usize = 8;
/// How long a set of rules is in force before the next one.
const FORCE: Duration = Duration::from_millis(50);

fn key(id: &str) -> Value {
    use sha2::Digest;
    let hash: String = sha2::Sha256::digest(format!("secret-{id}").as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"id": id, "hash": format!("sha256:{hash}")})
}

fn rules(denied: bool) -> Value {
    let mut rules = vec![json!({"allow": "true"})];
    if denied {
        rules.push(json!({"deny": "apiKey.id == 'low' && has(mcp.tool) && mcp.tool.name == 'guarded'"}));
    }
    json!({ "rules": rules })
}

/// T3, C4.
pub async fn swaps(size: Size) -> Outcome {
    let guarded = echoing("guarded", Era::Legacy("2025-11-25"), Transport::Json);
    let (builder, metrics) = stand::gateway();
    let builder = builder.target(&guarded).env("LOG_LEVEL", "warn");
    let builder = builder.config(|config| {
        config["policies"] = json!({"authentication": {"apiKeys": [key("low"), key("high")]}, "authorization": rules(false)});
    });
    let mut gateway = builder.start_ready().await;
    let before = stand::holds(&gateway, &metrics).await;
    // Held by every call while it runs, so that a change of what is known waits for calls that began before.
    let denied = Arc::new(RwLock::new(false));
    let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut probers = Vec::new();
    for prober in 0..PROBERS {
        let client = connect(gateway.url("/mcp"), if prober % 2 == 0 { LEGACY } else { MODERN }).header("x-api-key", "secret-low").open().await;
        let (denied, over, sent) = (denied.clone(), over.clone(), sent.clone());
        probers.push(tokio::spawn(async move {
            let mut ends = Vec::new();
            for number in 0.. {
                if over.load(Relaxed) {
                    break;
                }
                let known = denied.read().await;
                let nonce = format!("{}-{prober}-{number}", if *known { "denied" } else { "open" });
                sent.fetch_add(1, Relaxed);
                let reply = client.call("guarded", json!({"nonce": nonce})).await;
                ends.push((*known, judge(&reply, &nonce)));
            }
            ends
        }));
    }
    let high = connect(gateway.url("/mcp"), LEGACY).header("x-api-key", "secret-high").open().await;
    let low = connect(gateway.url("/mcp"), LEGACY).header("x-api-key", "secret-low").open().await;
    let rounds = size.of(60, 10);
    let (mut acknowledged, mut high_failed) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for deny in [true, false] {
            if !deny {
                *denied.write().await = false;
            }
            let asked = Instant::now();
            gateway.rewrite(|config| config["policies"]["authorization"] = rules(deny));
            gateway.signal(libc::SIGHUP);
            // Acknowledged by what everybody can see: the list.
            within(Duration::from_secs(20), "the new rules count", || async { low.tool_names().await.is_empty() == deny }).await;
            acknowledged.push(asked.elapsed());
            if deny {
                *denied.write().await = true;
            }
            let reply = high.call("guarded", json!({"nonce": "high"})).await;
            if reply.message.get("result").is_none() {
                high_failed.push(format!("{} {} {:?}", reply.status, reply.raw, reply.lost));
            }
            tokio::time::sleep(FORCE).await;
        }
    }
    over.store(true, Relaxed);
    let mut counts = Counts::default();
    let (mut let_in, mut refused_when_denied) = (0, 0);
    for prober in probers {
        for (known, end) in prober.await.expect("a prober ends") {
            match end {
                End::Ok => {
                    counts.ok += 1;
                    let_in += usize::from(known);
                }
                End::Error(..) => {
                    counts.error += 1;
                    refused_when_denied += usize::from(known);
                }
                End::Mixed(_) => counts.mixed += 1,
                End::Lost(_) => counts.lost += 1,
            }
        }
    }
    counts.sent = sent.load(Relaxed);
    drop((high, low));
    let reached =
        guarded.calls().iter().filter(|(_, arguments)| arguments["nonce"].as_str().is_some_and(|nonce| nonce.starts_with("denied"))).count();
    // Who may calls with the same nonce each time.
    let executed = executed(std::slice::from_ref(&guarded));
    counts.doubled = executed.iter().filter(|(nonce, times)| *nonce != "high" && **times > 1).count();
    hang_up(&[guarded]);
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    Outcome::new(format!("{} changes of the rules, {PROBERS} clients try what every other one forbids", rounds * 2), counts)
        .nothing_wrong()
        .goal(format!("0 forbidden calls reach a target: {reached}"), reached == 0)
        .goal(format!("0 forbidden calls are answered: {let_in}"), let_in == 0)
        .goal(format!("who may is never refused: {high_failed:?}"), high_failed.is_empty())
        .goal(format!("both sides were tried: {} ok, {refused_when_denied} refused", counts.ok), counts.ok > rounds && refused_when_denied > rounds)
        .figure("refused after the change", refused_when_denied)
        .figure("rules count p50 ms", percentile(&mut acknowledged, 50))
        .in_time("rules count max ms", percentile(&mut acknowledged, 100), 3000.0)
        .figure("held", stand::change(before, after))
}
