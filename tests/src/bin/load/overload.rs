//! T23: ten times more than a target can do. It goes on at its full pace, and who is too many hears so at once.

use crate::Size;
use crate::report::{Report, Times};
use crate::stand::Stand;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use transom_tests::target::{Target, echo};
use transom_tests::wire::{Wire, call};
use transom_tests::{process, target};

const TEST: &str = "T23";
/// Calls that a target works on at once; every one takes a second.
const PLACES: usize = 256;
const TAKES: Duration = Duration::from_secs(1);
/// At first it may be a rush that ends, and who comes too late waits a second before it hears so. What counts is what comes then.
const RUSH: Duration = Duration::from_secs(3);

struct Found {
    begun: Instant,
    rush: Duration,
    done: usize,
    shed: Times,
    early: Times,
    other: Vec<String>,
}

impl Found {
    fn new(rush: Duration) -> Arc<Mutex<Found>> {
        let found = Found { begun: Instant::now(), rush, done: 0, shed: Times::default(), early: Times::default(), other: Vec::new() };
        Arc::new(Mutex::new(found))
    }
}

/// A server with so many places. It turns nobody away: who finds none waits, however many do, unless somebody keeps them from it.
fn with_places() -> Target {
    let places = Arc::new(Semaphore::new(PLACES));
    target("slow").tool("work", ["nonce"]).handler("work", move |arguments, context| {
        let places = places.clone();
        async move {
            let work = async {
                let _place = places.acquire().await;
                tokio::time::sleep(TAKES).await;
            };
            tokio::select! {
                () = work => Ok(echo("slow", &context.tool, &arguments)),
                () = context.cancelled() => Err(json!({"code": -32800, "message": "cancelled"})),
            }
        }
    })
}

pub async fn run(report: &mut Report, size: &Size) {
    let slow = with_places();
    let mut stand = Stand::start(process().target(&slow)).await;
    // As many as there are places, each with the next call as soon as the last is done: that is its full pace.
    let peak = full_pace(&stand, PLACES, size.overload / 2).await;
    let capacity = PLACES as f64 / TAKES.as_secs_f64();
    let rate = capacity * 10.0;
    let pushed = rush(&stand, rate, size.overload).await;
    let ended = Instant::now();
    let recovered = recovery(&stand, ended).await;
    for error in pushed.other.iter().take(3) {
        println!("      {error}");
    }
    let counted = (size.overload - RUSH).as_secs_f64();
    let goodput = pushed.done as f64 / counted;
    report.figure(TEST, "calls done per second at full pace", peak, "/s");
    report.figure(TEST, "calls asked for per second", rate, "/s");
    report.at_least(TEST, "calls done per second meanwhile", goodput, "/s", 0.9 * peak);
    report.figure(TEST, format!("time until a shed call heard so, p99 of the first {} s", RUSH.as_secs()), pushed.early.percentile(99.0), "ms");
    // Some are under way when it ends, and nobody waits for them.
    report.at_least(TEST, "calls shed after that", pushed.shed.len() as f64, "", (0.8 * (rate - capacity) * counted).floor());
    report.figure(TEST, "time until a shed call heard so, p50 after that", pushed.shed.percentile(50.0), "ms");
    report.at_most(TEST, "time until a shed call heard so, p99 after that", pushed.shed.percentile(99.0), "ms", 50.0);
    report.at_most(TEST, "answers that were neither done nor shed", pushed.other.len() as f64, "", 0.0);
    report.at_most(TEST, "time until nothing is shed any more", recovered.as_secs_f64(), "s", 1.0);
    report.at_most(TEST, "panics", stand.panics().await, "", 0.0);
    drop(slow);
}

async fn one(wire: &mut Wire, id: u64, found: &Mutex<Found>) {
    let asked = Instant::now();
    let answer = wire.post(None, &call(id, "work", &json!({"nonce": id}))).await;
    let took = asked.elapsed();
    let mut found = found.lock().await;
    let early = asked.duration_since(found.begun) < found.rush;
    match answer {
        Ok(answer) if answer.status == 200 && answer.json()["result"]["structuredContent"]["arguments"]["nonce"] == json!(id) => {
            // Done in the time that counts, whenever it was asked for.
            found.done += usize::from(found.begun.elapsed() >= found.rush);
        }
        Ok(answer) if answer.status == 503 && answer.json()["error"]["code"] == 1001 && answer.header("retry-after").is_some() => {
            if early {
                found.early.push(took)
            } else {
                found.shed.push(took)
            }
        }
        other => found.other.push(format!("{other:?}")),
    }
}

/// So many callers, each with the next call as soon as the last is done: calls per second.
async fn full_pace(stand: &Stand, callers: usize, time: Duration) -> f64 {
    let (address, found) = (stand.address, Found::new(Duration::ZERO));
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for caller in 0..callers {
        let found = found.clone();
        tasks.spawn(async move {
            let mut wire = Wire::connect(address).await.expect("a connection");
            let mut id = caller as u64 * 1_000;
            while start.elapsed() < time {
                id += 1;
                one(&mut wire, id, &found).await;
            }
        });
    }
    tasks.join_all().await;
    found.lock().await.done as f64 / start.elapsed().as_secs_f64()
}

/// So many calls per second, whatever becomes of those before. Connections are kept and used again.
async fn rush(stand: &Stand, rate: f64, time: Duration) -> Found {
    let (address, found, start) = (stand.address, Found::new(RUSH), Instant::now());
    let resting: Arc<std::sync::Mutex<Vec<Wire>>> = Arc::default();
    let mut tasks = JoinSet::new();
    let mut sent = 0_u64;
    while start.elapsed() < time {
        let due = (start.elapsed().as_secs_f64() * rate) as u64;
        while sent < due {
            sent += 1;
            let (found, resting, id) = (found.clone(), resting.clone(), 1_000_000 + sent);
            tasks.spawn(async move {
                let rested = resting.lock().ok().and_then(|mut resting| resting.pop());
                let mut wire = match rested {
                    Some(wire) => wire,
                    None => Wire::connect(address).await.expect("a connection"),
                };
                one(&mut wire, id, &found).await;
                if let Ok(mut resting) = resting.lock() {
                    resting.push(wire);
                }
            });
        }
        while tasks.try_join_next().is_some() {}
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // What is under way is not waited for: nothing is asked any more, and that is what comes next.
    tasks.shutdown().await;
    Arc::into_inner(found).expect("everybody has gone").into_inner()
}

/// How long after the rush the last call was shed, for somebody who asks twenty times a second.
async fn recovery(stand: &Stand, since: Instant) -> Duration {
    let (address, mut last_shed) = (stand.address, Duration::ZERO);
    let mut tasks = JoinSet::new();
    for id in 0..40 {
        let found = Found::new(Duration::ZERO);
        tasks.spawn(async move {
            let asked = since.elapsed();
            let mut wire = Wire::connect(address).await.expect("a connection");
            one(&mut wire, id, &found).await;
            (asked, found.lock().await.done == 1)
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while let Some(Ok((asked, done))) = tasks.join_next().await {
        if !done {
            last_shed = last_shed.max(asked);
        }
    }
    last_shed
}
