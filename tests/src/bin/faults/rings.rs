//! T16: gateways that stand behind each other in a circle.

use crate::Size;
use crate::network::within_or;
use crate::outcome::{Counts, Outcome, percentile};
use crate::stand;
use serde_json::json;
use std::time::{Duration, Instant};
use transom_tests::client::{LEGACY, connect};
use transom_tests::http::Response;
use transom_tests::{Process, sys};

/// T16, L12: a ring of two and one of three, each member with a tool of its own.
pub async fn refused(size: Size) -> Outcome {
    let (mut counts, mut times, mut open, mut longest, mut cores) = (Counts::default(), Vec::new(), 0, Vec::new(), 0.0f64);
    let (mut refusals, mut opened_after, mut let_through) = (Vec::new(), Vec::new(), Vec::new());
    for members in [2usize, 3] {
        let (gateways, closed) = ring(members).await;
        // A ring is refused where it closes, and says so; the rest of it is a chain like any other.
        let opened = within_or(Duration::from_secs(15), || async {
            for gateway in &gateways {
                let next = gateway.get("/status").await.json()["servers"]["next"].clone();
                if next["state"] != "connected" && next["lastError"].as_str().is_some_and(|error| error.contains("leads back to this gateway")) {
                    return true;
                }
            }
            false
        })
        .await;
        opened_after.push(closed.elapsed());
        open += usize::from(opened);
        // Long enough for each to have asked the next one more than once.
        tokio::time::sleep(Duration::from_secs(2)).await;
        // What has gone round is refused by the one it comes back to, whoever that is.
        let mut around = Vec::new();
        for gateway in &gateways {
            around.push(come_by(gateway, "somebody").await.header("mcp-gateway-via").split(", ").next().unwrap_or_default().to_owned());
        }
        for gateway in &gateways {
            let began = Instant::now();
            let reply = come_by(gateway, &around.join(", ")).await;
            refusals.push(began.elapsed());
            if (reply.status, reply.json()["error"]["code"].as_i64()) != (508, Some(1009)) {
                let_through.push(format!("{} {}", reply.status, reply.text()));
            }
        }
        for (number, gateway) in gateways.iter().enumerate() {
            let client = connect(gateway.url("/mcp"), LEGACY).open().await;
            let own = format!("own{number}");
            for _ in 0..size.of(10, 3) {
                let names = client.tool_names().await;
                longest.push(names.len());
                for name in names.iter().take(20) {
                    counts.sent += 1;
                    let began = Instant::now();
                    let reply = client.call(name, json!({"nonce": "n"})).await;
                    times.push(began.elapsed());
                    match (&reply.lost, reply.message.get("result")) {
                        (Some(_), _) => counts.lost += 1,
                        (None, Some(_)) => counts.ok += 1,
                        (None, None) => counts.error += 1,
                    }
                }
                counts.mixed += usize::from(!names.contains(&own));
            }
        }
        // What goes round would keep its members busy.
        let used = || gateways.iter().map(|gateway| sys::cpu(gateway.pid())).sum::<u64>();
        let (before, start) = (used(), Instant::now());
        tokio::time::sleep(Duration::from_secs(2)).await;
        cores = cores.max((used() - before) as f64 / 1e9 / start.elapsed().as_secs_f64() / members as f64);
    }
    let longest = longest.iter().max().copied().unwrap_or(0);
    Outcome::new("rings of 2 and 3 gateways, each with a tool of its own", counts)
        .not_counted(["doubled", "leaked"])
        .nothing_wrong()
        .goal(format!("every call of a listed tool succeeds: {} of {}", counts.ok, counts.sent), counts.ok == counts.sent)
        .goal(format!("each ring is open at one place, because it leads back: {open} of 2"), open == 2)
        .goal(format!("what has gone round is refused with 1009: {let_through:?}"), let_through.is_empty())
        .in_time("refusal max ms", percentile(&mut refusals, 100), 1000.0)
        // Whoever found nobody there before the ring was closed tries again after a while, and is refused then.
        .in_time("ring refused after it closed, the pause before another try included, max ms", percentile(&mut opened_after, 100), 3000.0)
        .goal(format!("every tool is listed once: {longest} at most"), longest <= 3)
        .goal("every gateway's own tool is listed", counts.mixed == 0)
        .in_time("call max ms", percentile(&mut times, 100), 1000.0)
        .in_time("cores each at rest", (cores * 100.0).round() / 100.0, 0.2)
}

/// A list of tools, asked for by somebody who came through these gateways.
async fn come_by(gateway: &Process, via: &str) -> Response {
    let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream"), ("mcp-gateway-via", via)];
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    gateway.http.send("POST", &gateway.url("/mcp"), &headers, message.to_string()).await
}

/// Gateways on ports known beforehand, each the target of the one before it, and since when the last of them is up, which closes the ring.
async fn ring(members: usize) -> (Vec<Process>, Instant) {
    let ports: Vec<u16> = (0..members).map(|_| stand::free_port()).collect();
    let mut gateways = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        let next = ports[(number + 1) % ports.len()];
        let (builder, _) = stand::gateway();
        let builder = builder.stdio("own", json!({"tools": [format!("own{number}")]}));
        let builder = builder.entry(json!({"name": "next", "mcp": {"host": format!("http://127.0.0.1:{next}/mcp")}, "timeout": "5s"}));
        gateways.push(builder.config(|config| config["listen"] = json!(format!("127.0.0.1:{port}"))).start().await);
    }
    (gateways, Instant::now())
}
