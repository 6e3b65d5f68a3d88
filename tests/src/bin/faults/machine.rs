//! T14: the machine itself fails: no room on the disk, nobody reads the log, no descriptors, no name service. The clock is tested where tokens are.

use crate::Size;
use crate::network::{echoing, executed, hang_up, within_or};
use crate::outcome::{Outcome, percentile};
use crate::stand;
use crate::traffic::{Calls, End, Load};
use serde_json::{Value, json};
use std::io::Read;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use transom_tests::client::{LEGACY, connect};
use transom_tests::publisher::publisher;
use transom_tests::target::{Era, Target, Transport};
use transom_tests::{Process, sys, within};

fn plain(name: &'static str) -> Target {
    echoing(name, Era::Legacy("2025-11-25"), Transport::Json)
}

fn load(gateway: &Process, tool: &str, size: Size, tag: &'static str) -> Load {
    Load { url: gateway.url("/mcp"), tools: vec![tool.to_owned()], workers: 16, per_second: 300.0, ms: 2, seed: size.seed, tag }
}

async fn for_a_while(load: Load, time: Duration) -> Calls {
    let traffic = load.start().await;
    tokio::time::sleep(time).await;
    traffic.stop().await
}

/// What of these calls did not succeed.
fn failed(calls: &Calls) -> usize {
    calls.calls.iter().filter(|call| call.end != End::Ok).count() + calls.sent - calls.calls.len()
}

fn times(calls: &Calls) -> Vec<Duration> {
    calls.calls.iter().map(|call| call.took).collect()
}

/// A registry of one tool, too large for a disk with 8 KiB left.
fn large_registry(name: &str) -> String {
    json!({"tools": [{"name": name, "description": "x".repeat(7000), "metadata": {"note": "y".repeat(7000)}, "source": {"target": "plain", "tool": "plain"}}]})
        .to_string()
}

fn holds_text(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() { holds_text(&path, text) } else { std::fs::read_to_string(&path).is_ok_and(|content| content.contains(text)) }
    })
}

/// T14: no file may grow beyond 8 KiB, as on a disk with no more room; then there is room again.
pub async fn disk_full(size: Size) -> Outcome {
    let target = plain("plain");
    let published = publisher(large_registry("one")).await;
    let state = tempfile::tempdir().expect("a folder");
    let (builder, metrics) = stand::gateway();
    let builder = builder.target(&target).after("trap '' XFSZ\nulimit -S -f 16").config(|config| {
        config["registry"] = json!({"source": published.url(), "refreshInterval": "200ms"});
        config["stateDir"] = json!(state.path());
    });
    let gateway = builder.start_ready().await;
    let client = connect(gateway.url("/mcp"), LEGACY).open().await;
    let before = stand::holds(&gateway, &metrics).await;
    let mut calls = for_a_while(load(&gateway, "one", size, "full"), size.seconds(3.0, 1.0)).await;
    let log_full = gateway.stderr().len();
    let kept_none = !holds_text(state.path(), "\\\"one\\\"") && !holds_text(state.path(), "\"one\"");
    published.publish(large_registry("two"));
    let applied = within_or(Duration::from_secs(10), || async { client.tool_names().await == ["two"] }).await;
    sys::limit(gateway.pid(), libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
    published.publish(large_registry("three"));
    let recovered = within_or(Duration::from_secs(10), || async { client.tool_names().await == ["three"] }).await;
    let kept = within_or(Duration::from_secs(10), || async { holds_text(state.path(), "three") }).await;
    let more = for_a_while(load(&gateway, "three", size, "room"), size.seconds(1.0, 0.5)).await;
    calls.add(more.calls);
    let logs_again = within_or(Duration::from_secs(5), || async { gateway.stderr().len() > log_full + 1000 }).await;
    drop(client);
    let mut counts = calls.counts(&executed(std::slice::from_ref(&target)));
    hang_up(&[target]);
    let (leaked, _) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    Outcome::new("no room for the log and the kept registry, then room again", counts)
        .nothing_wrong()
        .goal(format!("no call fails: {}", failed(&calls)), failed(&calls) == 0)
        .goal(format!("the disk was full: {log_full} bytes of log, registry kept: {}", !kept_none), log_full <= 8192 && kept_none)
        .goal("a new registry counts all the same", applied)
        .goal("with room again it counts, is kept, and the log goes on", recovered && kept && logs_again)
}

/// T14, M4: whoever reads the log stops reading, or its disk is full. The data path does not notice, and a stop is a stop.
pub async fn log_blocked(size: Size) -> Outcome {
    let target = plain("plain");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let (builder, metrics) = stand::gateway();
    let builder = builder.target(&target).env("RUST_LOG", "trace").env("LOG_LEVEL", "trace");
    let mut gateway = builder.stderr(writer).start_ready().await;
    let before = stand::holds(&gateway, &metrics).await;
    let resident = sys::resident(gateway.pid());
    let mut calls = for_a_while(load(&gateway, "plain", size, "blocked"), size.seconds(5.0, 2.0)).await;
    // Somebody reads again.
    let (reading, read) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let drain = std::thread::spawn({
        let (reading, read) = (reading.clone(), read.clone());
        move || {
            let mut buffer = vec![0; 64 * 1024];
            while reading.load(Relaxed)
                && let Ok(got @ 1..) = reader.read(&mut buffer)
            {
                read.fetch_add(got, Relaxed);
            }
            // Still open: a reader that does not read, not one that is gone.
            reader
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let so_far = read.load(Relaxed);
    let more = for_a_while(load(&gateway, "plain", size, "read"), size.seconds(2.0, 1.0)).await;
    let unblocked = [50, 99].map(|percent| percentile(&mut times(&more), percent));
    calls.add(more.calls);
    let goes_on = within_or(Duration::from_secs(5), || async { read.load(Relaxed) > so_far + 10_000 }).await;
    reading.store(false, Relaxed);
    let again = for_a_while(load(&gateway, "plain", size, "again"), size.seconds(3.0, 1.5)).await;
    let blocked = [50, 99].map(|percent| percentile(&mut times(&again), percent));
    calls.add(again.calls);
    let grown = sys::resident(gateway.pid()).saturating_sub(resident);
    let mut counts = calls.counts(&executed(std::slice::from_ref(&target)));
    hang_up(std::slice::from_ref(&target));
    let (leaked, _) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    // With the log blocked, a stop must still be one.
    let stopping = Instant::now();
    gateway.signal(libc::SIGTERM);
    let stopped = within_until(&mut gateway, Duration::from_secs(15)).await;
    let took = stopping.elapsed();
    if !stopped {
        gateway.signal(libc::SIGKILL);
    }
    drop(drain.join());

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let other = transom_tests::process().target(&target).stderr(full).start_ready().await;
    let on_full = for_a_while(load(&other, "plain", size, "devfull"), size.seconds(1.0, 0.5)).await;
    let failed_on_full = failed(&on_full);
    counts.sent += on_full.sent;
    counts.ok += on_full.sent - failed_on_full;
    counts.error += failed_on_full;
    Outcome::new("nobody reads the log (level trace), then somebody does, then nobody; then the log is /dev/full", counts)
        .nothing_wrong()
        .goal(format!("no call fails: {}", failed(&calls) + failed_on_full), failed(&calls) + failed_on_full == 0)
        .goal("the log goes on when somebody reads it", goes_on)
        .goal(format!("it stops when it is told to, log or no log: {took:?}"), stopped)
        .figure("p99 read ms", unblocked[1])
        .figure("p99 blocked ms", blocked[1])
        .figure("p50 read ms", unblocked[0])
        .figure("p50 blocked ms", blocked[0])
        // Who waited for the log would wait until somebody reads it: for seconds.
        .in_time("slowest call ms", calls.slowest(), 2000.0)
        .at_most("grown MiB", (grown >> 20) as f64, 48.0)
}

async fn within_until(gateway: &mut Process, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if gateway.has_ended() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// T14, J10: more connections than descriptors.
pub async fn no_descriptors(size: Size) -> Outcome {
    const LIMIT: usize = 160;
    let target = plain("plain");
    let (builder, metrics) = stand::gateway();
    let gateway = builder.target(&target).after(&format!("ulimit -n {LIMIT}")).start_ready().await;
    let address = gateway.url("").trim_start_matches("http://").to_owned();
    let client = connect(gateway.url("/mcp"), LEGACY).open().await;
    client.call("plain", json!({"nonce": "first"})).await.result();
    let before = stand::holds(&gateway, &metrics).await;
    let mut idle = Vec::new();
    for _ in 0..LIMIT * 2 {
        // The kernel takes them into its queue whether they are accepted or not.
        if let Ok(Ok(connection)) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(&address)).await {
            idle.push(connection);
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let held = sys::descriptors(gateway.pid());
    // Who is connected already is served; what that costs is not much more than before.
    let (cpu, start) = (sys::cpu(gateway.pid()), Instant::now());
    let (mut calls, mut number) = (crate::network::none(), 0);
    while start.elapsed() < size.seconds(3.0, 1.5) {
        let done = crate::traffic::call(&client, 0, "plain", format!("exhausted-{number}"), 0).await;
        calls.add(vec![done]);
        number += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let cores = (sys::cpu(gateway.pid()) - cpu) as f64 / 1e9 / start.elapsed().as_secs_f64();
    let connected = idle.len();
    drop(idle);
    let freed = Instant::now();
    let back = within_or(Duration::from_secs(10), || async {
        tokio::time::timeout(Duration::from_secs(1), transom_tests::Http::new().try_send("GET", &gateway.url("/health"), &[], ""))
            .await
            .is_ok_and(|reply| reply.is_ok_and(|reply| reply.status == 200))
    })
    .await;
    let back_after = freed.elapsed();
    let more = for_a_while(load(&gateway, "plain", size, "after"), size.seconds(1.0, 0.5)).await;
    calls.add(more.calls);
    drop(client);
    let mut counts = calls.counts(&executed(std::slice::from_ref(&target)));
    hang_up(&[target]);
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    Outcome::new(format!("{connected} connections to a gateway that may have {LIMIT} descriptors"), counts)
        .nothing_wrong()
        .goal(format!("no call of a client that was connected fails: {}", failed(&calls)), failed(&calls) == 0)
        .goal(format!("there were no descriptors left: {held} of {LIMIT}"), held + 70 >= LIMIT && connected > LIMIT)
        .goal("with descriptors again it accepts again", back)
        .in_time("accepts again after ms", back_after.as_secs_f64() * 1e3, 2000.0)
        .in_time("cores while there are none", (cores * 100.0).round() / 100.0, 0.5)
        .figure("held", stand::change(before, after))
}

/// Where the gateway of [`no_names`] asks for names.
const NAME_SERVER: &str = "127.0.0.77";

/// T14: the name service is silent, then it answers. The gateway gets a name service of its own, if this machine lets us (a mount namespace and
/// port 53); else a name that does not exist stands in for it.
pub async fn no_names(size: Size) -> Outcome {
    let (fine, named) = (plain("fine"), plain("named"));
    let answering = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let own_service = name_service(answering.clone(), asked.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let resolv = folder.path().join("resolv.conf");
    std::fs::write(&resolv, format!("nameserver {NAME_SERVER}\noptions timeout:5 attempts:2\n")).expect("a file is written");
    let host = |name: &str| json!({"host": format!("http://{name}:{}/mcp", named.addr().port())});
    let (builder, metrics) = stand::gateway();
    let mut builder = builder.target(&fine);
    if own_service {
        let script = format!("exec unshare -m sh -c 'mount --bind {} /etc/resolv.conf && exec \"$0\" \"$@\"' \"$0\" \"$@\"", resolv.display());
        builder = builder.entry(json!({"name": "named", "mcp": host("named.transom.test")})).after(&script);
    } else {
        builder = builder.entry(json!({"name": "named", "mcp": host("named.transom.invalid")}));
    }
    let mut gateway = builder.start().await;
    let client = connect(gateway.url("/mcp"), LEGACY).open().await;
    within(Duration::from_secs(20), "the fine target is there", || async { client.tool_names().await.contains(&"fine".to_owned()) }).await;
    let before = stand::holds(&gateway, &metrics).await;
    let mut calls = for_a_while(load(&gateway, "fine", size, "silent"), size.seconds(5.0, 2.0)).await;
    let silent = percentile(&mut times(&calls), 99);
    let state: Value = gateway.get("/status").await.json()["servers"]["named"].clone();
    let recovering = Instant::now();
    if own_service {
        answering.store(true, Relaxed);
    } else {
        gateway.rewrite(|config| config["backends"][0]["mcp"]["targets"][1]["mcp"] = host("localhost"));
    }
    let back = within_or(Duration::from_secs(60), || async { client.tool_names().await.contains(&"named".to_owned()) }).await;
    let back_after = recovering.elapsed();
    let more = for_a_while(load(&gateway, "named", size, "named"), size.seconds(1.0, 0.5)).await;
    calls.add(more.calls);
    drop(client);
    let mut counts = calls.counts(&executed(&[fine.clone(), named.clone()]));
    hang_up(&[fine, named]);
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, Duration::from_secs(15)).await;
    counts.leaked = leaked;
    let how = if own_service {
        "a name service that is silent, then answers"
    } else {
        "a name that does not exist, then another (no name service of our own here)"
    };
    Outcome::new(how, counts)
        .nothing_wrong()
        .goal(format!("no call fails: {}", failed(&calls)), failed(&calls) == 0)
        .goal(format!("the target was out of reach: {state}"), state["state"] != "connected")
        .goal("with names again it is back, without a restart", back)
        .goal("the name service was asked", !own_service || asked.load(Relaxed) > 0)
        .figure("back after s", back_after.as_secs_f64())
        .figure("p99 of others ms", silent)
        .figure("held", stand::change(before, after))
}

/// A name service on loopback that knows one answer, once it answers; `false` if this machine does not let us have one.
fn name_service(answering: Arc<AtomicBool>, asked: Arc<AtomicUsize>) -> bool {
    let namespaces = std::process::Command::new("unshare").args(["-m", "mount", "--bind", "/dev/null", "/etc/resolv.conf"]).output();
    if !namespaces.is_ok_and(|output| output.status.success()) {
        return false;
    }
    let Ok(socket) = UdpSocket::bind((NAME_SERVER, 53)) else { return false };
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            asked.fetch_add(1, Relaxed);
            if answering.load(Relaxed)
                && let Some(answer) = answer(&query[..length])
            {
                socket.send_to(&answer, from).ok();
            }
        }
    });
    true
}

/// Every name is 127.0.0.1, and none has an address of the sixth version.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    // Twelve bytes of header, then labels until an empty one, then type and class.
    let mut end = 12;
    while *query.get(end)? != 0 {
        end += usize::from(query[end]) + 1;
    }
    let question = query.get(12..end + 5)?;
    let is_address = question[question.len() - 3] == 1;
    let mut answer = query.get(..2)?.to_vec();
    answer.extend_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    answer.extend_from_slice(question);
    if is_address {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
