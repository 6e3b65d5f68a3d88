//! T6: everybody hears what they asked for, all of it, and nothing else.

use crate::Size;
use crate::chance::Chance;
use crate::outcome::{Counts, Outcome};
use crate::stand;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use transom_tests::client::{LEGACY, MODERN, connect};
use transom_tests::target::target;
use transom_tests::within;

const UPDATED: &str = "notifications/resources/updated";

/// T6, H10.
pub async fn isolation(size: Size) -> Outcome {
    let (subscribers, events) = (size.of(500, 60), size.of(12, 5));
    let mut news = target("news").tool("echo", []);
    for number in 0..subscribers {
        news = news.resource(&format!("res://{number}"));
    }
    let (builder, metrics) = stand::gateway();
    let gateway = builder.target(&news).env("LOG_LEVEL", "warn").start_ready().await;
    let before = stand::holds(&gateway, &metrics).await;
    let uri = |number: usize| format!("mcp://news/res%3A%2F%2F{number}");
    // Counted for each: what one misses is not made up for by what another hears twice.
    let own: Arc<[AtomicUsize]> = (0..subscribers).map(|_| AtomicUsize::new(0)).collect();
    let foreign = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for number in 0..subscribers {
        let mine = uri(number);
        let (client, mut stream) = if number % 2 == 0 {
            let client = connect(gateway.url("/mcp"), LEGACY).open().await;
            let stream = client.stream().await;
            client.request("resources/subscribe", json!({"uri": mine})).await.result();
            (client, stream)
        } else {
            let client = connect(gateway.url("/mcp"), MODERN).open().await;
            let stream = client.listen(json!({"resourceSubscriptions": [mine]})).await;
            (client, stream)
        };
        let (own, foreign) = (own.clone(), foreign.clone());
        readers.push(tokio::spawn(async move {
            while let Some(event) = stream.next().await {
                let message: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
                if message["method"] == UPDATED {
                    let counter = if message["params"]["uri"] == mine.as_str() { &own[number] } else { &*foreign };
                    counter.fetch_add(1, Relaxed);
                }
            }
            drop(client);
        }));
    }
    let subscribed = || news.requests_of("resources/subscribe").len();
    within(Duration::from_secs(60), "every resource is subscribed to", || async { subscribed() >= subscribers }).await;
    let mut order: Vec<usize> = (0..subscribers * events).map(|event| event % subscribers).collect();
    Chance::new(size.seed, 0).shuffle(&mut order);
    let start = Instant::now();
    // More than a thousand updates of a target in a second are a flood, and the gateway takes no more; a machine that stalls makes a burst of what
    // was meant to be even.
    let mut tick = tokio::time::interval(Duration::from_millis(25));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for some in order.chunks(10) {
        tick.tick().await;
        for number in some {
            news.broadcast(UPDATED, json!({"uri": format!("res://{number}")}));
        }
    }
    let expected = order.len();
    let patience = Instant::now();
    while own.iter().any(|heard| heard.load(Relaxed) < events) && patience.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = start.elapsed();
    // What is one too many would come now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (own, foreign): (Vec<usize>, usize) = (own.iter().map(|heard| heard.load(Relaxed)).collect(), foreign.load(Relaxed));
    readers.iter().for_each(|reader| reader.abort());
    drop(readers);
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(30)).await;
    let counts = Counts {
        sent: expected,
        ok: own.iter().map(|heard| events.min(*heard)).sum(),
        mixed: foreign,
        lost: own.iter().map(|heard| events.saturating_sub(*heard)).sum(),
        doubled: own.iter().map(|heard| heard.saturating_sub(events)).sum(),
        leaked,
        error: 0,
    };
    Outcome::new(format!("{subscribers} subscribers with a resource each, {events} updates of each, both eras"), counts)
        .nothing_wrong()
        .goal(format!("0 foreign: {foreign}"), foreign == 0)
        .figure("updates per second", (expected as f64 / took.as_secs_f64()).round())
        .figure("held", stand::change(before, after))
}
