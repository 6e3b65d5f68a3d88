//! T15: one call in a thousand panics, in a build made for that.

use crate::Size;
use crate::network::{echoing, executed, hang_up};
use crate::outcome::Outcome;
use crate::stand;
use crate::traffic::{End, Load};
use std::time::Duration;
use transom_tests::process::beside;
use transom_tests::target::{Era, Transport};

/// JSON-RPC's internal error.
const INTERNAL: i64 = -32603;

/// T15, M6.
pub async fn injected(size: Size) -> Outcome {
    let Some(binary) = beside("transom-panicking") else {
        return Outcome::broken("there is no target/PROFILE/transom-panicking; `make faults` builds it (--features transom-gateway/inject-panics)");
    };
    let targets = [echoing("json", Era::Legacy("2025-11-25"), Transport::Json), echoing("stream", Era::Modern, Transport::Events)];
    let (mut builder, metrics) = stand::gateway();
    for target in &targets {
        builder = builder.target(target);
    }
    let mut gateway = builder.binary(binary).stdio("child", serde_json::json!({"tools": ["child"], "lifeSeconds": 3600})).start_ready().await;
    let tools = vec!["json".to_owned(), "stream".to_owned(), "child".to_owned()];
    let load = Load { url: gateway.url("/mcp"), tools, workers: 32, per_second: 1200.0, ms: 2, seed: size.seed, tag: "load" };
    // Too few for a panic, and enough for the pools to be as large as they get.
    let warm = Load { tag: "warm", per_second: 300.0, ..load.clone() }.start().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let warmed = warm.stop().await.sent;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = stand::holds(&gateway, &metrics).await;
    let wanted = size.of(12_000, 3_000);
    let traffic = load.start().await;
    let sent = traffic.sent.clone();
    while sent.load(std::sync::atomic::Ordering::Relaxed) < wanted {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let calls = traffic.stop().await;
    let executed = executed(&targets);
    let mut counts = calls.counts(&executed);
    let internal = calls.calls.iter().filter(|call| matches!(call.end, End::Error(INTERNAL, _))).count();
    let page = gateway.http.get(&metrics).await.text();
    let panics = transom_tests::gateway::metric(&page, "transom_panics_total") as usize;
    let expected = (warmed + calls.sent) / 1000 - warmed / 1000;
    hang_up(&targets);
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    // A task of its own that panics is a fault nobody else counts.
    let said = gateway.log(&["a panic;"]).len();
    Outcome::new("1 call in 1000 panics, in turn before and after its target is asked".to_string(), counts)
        .nothing_wrong()
        .goal(
            format!("only those calls fail: {} errors, {internal} internal, {expected} expected", counts.error),
            counts.error == internal && internal == expected,
        )
        .goal(format!("each is counted: {panics} of {expected}"), panics == expected)
        .goal(format!("no panic makes another: {said} logged"), said == expected)
        .goal("what a panic says is not logged", gateway.log(&["on purpose"]).is_empty())
        .goal(format!("odd: {}", calls.oddities()), calls.oddities().is_empty())
        .goal("the process lives", !gateway.has_ended())
        .figure("panics", panics)
        .figure("held", stand::change(before, after))
}
