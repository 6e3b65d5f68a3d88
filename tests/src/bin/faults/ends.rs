//! T11 and T12: the gateway is told to stop, and the gateway is killed.

use crate::Size;
use crate::outcome::{Counts, Outcome, percentile};
use crate::stand;
use crate::traffic::{End, judge};
use serde_json::json;
use std::time::{Duration, Instant};
use transom_tests::client::{LEGACY, MODERN, connect};
use transom_tests::http::Http;
use transom_tests::process::stdio_entry;
use transom_tests::publisher::{Mood, publisher};
use transom_tests::target::{echo, target};
use transom_tests::{sys, unique, within};

/// How long calls take that are under way when the signal comes.
const CALL: Duration = Duration::from_secs(2);
/// What the drain may take beyond the calls: its own deadline is 25 s.
const DRAIN: Duration = Duration::from_secs(25);

/// T11.
pub async fn terminated(size: Size) -> Outcome {
    let (rounds, in_flight, streams) = (size.of(4, 2).max(2), size.of(200, 50), size.of(400, 50));
    let mut counts = Counts::default();
    let (mut torn, mut codes, mut ends, mut early, mut notices) = (0, Vec::new(), Vec::new(), 0, Vec::new());
    for round in 0..rounds {
        // Every other gateway is bound to an address that is not called loopback, though it is: it gives notice before it refuses anybody.
        let noticed = round % 2 == 1;
        let mark = unique("drain");
        let slow = target("slow").tool("slow", ["nonce"]).handler("slow", |arguments, context| async move {
            tokio::time::sleep(CALL).await;
            Ok(echo("slow", &context.tool, &arguments))
        });
        let (builder, _) = stand::gateway();
        let builder = builder.target(&slow).stdio("child", json!({"tools": ["work"], "mark": mark}));
        let builder = builder.config(|config| {
            if noticed {
                config["listen"] = json!("[::ffff:127.0.0.1]:0");
                config["allowUnauthenticated"] = json!(true);
            }
        });
        let mut gateway = builder.start_ready().await;
        let url = gateway.url("/mcp");
        let clients = [connect(&url, LEGACY).open().await, connect(&url, MODERN).open().await];
        let mut readers = Vec::new();
        for number in 0..streams {
            let client = connect(&url, if number % 2 == 0 { LEGACY } else { MODERN }).open().await;
            let mut stream = if number % 2 == 0 { client.stream().await } else { client.listen(json!({"toolsListChanged": true})).await };
            readers.push(tokio::spawn(async move {
                // The end of a body, or the end of a connection that should have had one.
                loop {
                    match tokio::time::timeout(Duration::from_secs(60), stream.chunk_forever()).await {
                        Ok(Ok(Some(_))) => {}
                        Ok(Ok(None)) => return true,
                        Ok(Err(_)) | Err(_) => return false,
                    }
                }
            }));
        }
        let calls: Vec<_> = (0..in_flight).map(|n| clients[n % 2].start_call("slow", json!({"nonce": format!("{round}-{n}")}))).collect();
        within(Duration::from_secs(20), "the calls are under way", || async { slow.calls().len() == in_flight }).await;
        let signalled = Instant::now();
        gateway.signal(libc::SIGTERM);
        let door = tokio::spawn(watch_door(gateway.url("/ready"), noticed));
        for (n, call) in calls.into_iter().enumerate() {
            counts.sent += 1;
            match judge(&call.reply().await, &format!("{round}-{n}")) {
                End::Ok => counts.ok += 1,
                End::Error(code, _) => {
                    counts.error += 1;
                    codes.push(code.to_string());
                }
                End::Mixed(_) => counts.mixed += 1,
                End::Lost(why) => {
                    counts.lost += 1;
                    codes.push(why);
                }
            }
        }
        let exit = gateway.wait().await.code();
        ends.push(signalled.elapsed());
        if exit != Some(0) {
            codes.push(format!("exit {exit:?}"));
        }
        for reader in readers {
            torn += usize::from(!reader.await.unwrap_or(false));
        }
        let (refused_while_ready, notice) = door.await.expect("somebody watches the door");
        early += usize::from(refused_while_ready);
        if noticed {
            notices.push(notice);
        }
        counts.doubled += slow.calls().len() - in_flight;
        counts.leaked += sys::marked(&mark).len();
    }
    let shortest = notices.iter().min().copied();
    let outcome = Outcome::new(format!("SIGTERM with {in_flight} calls of {CALL:?} and {streams} streams, {rounds} times"), counts)
        .nothing_wrong()
        .goal(
            format!("every call in flight got its result: {:?}", codes.iter().take(3).collect::<Vec<_>>()),
            counts.ok == counts.sent && codes.is_empty(),
        )
        .goal(format!("every stream ends in order: {torn} torn"), torn == 0)
        .goal(format!("nobody is refused while it says it is ready: {early}"), early == 0)
        .in_time("exit 0 after max s", percentile(&mut ends, 100) / 1e3, (CALL + DRAIN).as_secs_f64());
    match shortest {
        Some(shortest) => outcome
            .goal("where others can reach it, it is not ready for 5 s before it refuses", shortest >= Duration::from_millis(4900))
            .figure("notice min s", shortest.as_secs_f64()),
        None => outcome,
    }
}

/// Knocks until nobody opens: whether that came while it said it was ready, and for how long it had said that it was not.
///
/// A gateway that gives no notice may go from ready to gone between two knocks; what it says must still not be taken back.
async fn watch_door(ready: String, gives_notice: bool) -> (bool, Duration) {
    let (mut said_ready, mut down_since) = (true, None);
    for _ in 0..4000 {
        match Http::new().try_send("GET", &ready, &[("connection", "close")], "").await {
            Ok(reply) => {
                said_ready = reply.status == 200;
                if !said_ready {
                    down_since.get_or_insert_with(Instant::now);
                }
            }
            Err(_) => {
                let notice = down_since.map_or(Duration::ZERO, |since| since.elapsed());
                return (said_ready && (gives_notice || down_since.is_some()), notice);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (true, Duration::ZERO)
}

/// T12, K3, F10.
pub async fn killed(size: Size) -> Outcome {
    let rounds = size.of(10, 2);
    let state = tempfile::tempdir().expect("a folder");
    let registry = json!({"tools": [{"name": "renamed", "source": {"target": "plain", "tool": "echo"}}]});
    let published = publisher(registry.to_string()).await;
    let mark = unique("killed");
    let start = || {
        let children = [
            ("plain", json!({"tools": ["echo"], "mark": mark})),
            ("parent", json!({"tools": ["a"], "mark": mark, "grandchild": true})),
            ("stubborn", json!({"tools": ["b"], "mark": mark, "ignoreEof": true, "ignoreTerm": true, "grandchild": true})),
        ];
        let (mut builder, _) = stand::gateway();
        for (name, behaviour) in children {
            builder = builder.entry(stdio_entry(name, behaviour));
        }
        builder.config(|config| {
            config["registry"] = json!({"source": published.url(), "refreshInterval": "1s"});
            config["stateDir"] = json!(state.path());
        })
    };
    const FAMILY: usize = 5;
    let (mut counts, mut starts, mut deaths) = (Counts::default(), Vec::new(), Vec::new());
    let mut gateway = start().start_ready().await;
    published.mood(Mood::Status(500));
    for _ in 0..rounds {
        within(Duration::from_secs(20), "the whole family runs", || async { sys::marked(&mark).len() == FAMILY }).await;
        gateway.signal(libc::SIGKILL);
        let killed = Instant::now();
        gateway.wait().await;
        while !sys::marked(&mark).is_empty() && killed.elapsed() < Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        deaths.push(killed.elapsed());
        counts.leaked += sys::marked(&mark).len();
        let began = Instant::now();
        gateway = start().start().await;
        let client = connect(gateway.url("/mcp"), LEGACY).open().await;
        within(Duration::from_secs(20), "the registry from before is served", || async { client.tool_names().await.contains(&"renamed".to_owned()) })
            .await;
        starts.push(began.elapsed());
        counts.sent += 1;
        let reply = client.call("renamed", json!({})).await;
        match (&reply.lost, reply.message.get("result")) {
            (Some(_), _) => counts.lost += 1,
            (None, Some(_)) => counts.ok += 1,
            (None, None) => counts.error += 1,
        }
        let origin = gateway.get("/status").await.json()["registry"]["origin"].clone();
        counts.mixed += usize::from(origin != "cache");
    }
    Outcome::new(format!("kill -9 of the gateway with 3 children and 2 grandchildren, {rounds} times; the registry server is down"), counts)
        .not_counted(["doubled"])
        .nothing_wrong()
        .goal(format!("0 survive 2 s: {}", counts.leaked), counts.leaked == 0)
        .figure("last one gone max ms", percentile(&mut deaths, 100))
        .figure("start to served p50 ms", percentile(&mut starts, 50))
        .in_time("start to served max ms", percentile(&mut starts, 100), 1000.0)
        .goal("every call after a restart succeeds", counts.ok == counts.sent)
}
