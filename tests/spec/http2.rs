//! J5: HTTP/2 as an attacker speaks it, frame by frame. Whatever one connection does, the others are served, and it takes one core at most.
//!
//! The gateway is a process of its own here, so that what it uses can be told from what the attacker does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use transom_tests::frames::*;
use transom_tests::*;

struct Attacker {
    host: String,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The server said goodbye, with this reason, or closed without a word.
    Closed(Option<u32>),
    /// It is still open.
    Open,
}

impl Attacker {
    async fn connect(gateway: &Process, pairs: &[(u16, u32)]) -> Attacker {
        let host = host_of(gateway);
        let stream = TcpStream::connect(&host).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        writer.write_all(&[PREFACE, &settings(pairs)].concat()).await.unwrap();
        Attacker { host, reader, writer }
    }

    /// Writes until the server has had enough, at most so long. How many pieces went out.
    async fn flood(&mut self, pieces: impl Iterator<Item = Vec<u8>>, limit: Duration) -> usize {
        let mut sent = 0;
        let until = Instant::now() + limit;
        for piece in pieces {
            match timeout(until.saturating_duration_since(Instant::now()), self.writer.write_all(&piece)).await {
                Ok(Ok(())) => sent += 1,
                _ => break,
            }
        }
        sent
    }

    /// Reads to the end, or for so long. Pings are answered if `polite`.
    async fn end(&mut self, limit: Duration, polite: bool) -> End {
        let mut reason = None;
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 64 << 10];
        let until = Instant::now() + limit;
        loop {
            let read = timeout(until.saturating_duration_since(Instant::now()), self.reader.read(&mut chunk)).await;
            match read {
                Err(_) => return End::Open,
                Ok(Err(_) | Ok(0)) => return End::Closed(reason),
                Ok(Ok(count)) => bytes.extend_from_slice(&chunk[..count]),
            }
            while bytes.len() >= 9 {
                let length = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
                if bytes.len() < 9 + length {
                    break;
                }
                let whole: Vec<u8> = bytes.drain(..9 + length).collect();
                match whole[3] {
                    GOAWAY => reason = whole.get(13..17).and_then(|code| code.try_into().ok()).map(u32::from_be_bytes),
                    PING if polite && whole[4] & ACK == 0 => drop(self.writer.write_all(&frame(PING, ACK, 0, &whole[9..])).await),
                    SETTINGS if polite && whole[4] & ACK == 0 => drop(self.writer.write_all(&frame(SETTINGS, ACK, 0, &[])).await),
                    _ => {}
                }
            }
        }
    }
}

fn host_of(gateway: &Process) -> String {
    gateway.url("").trim_start_matches("http://").to_owned()
}

async fn one() -> (Target, Process) {
    let a = target("a").tool("echo", ["n"]);
    let gateway = process().target(&a).start_ready().await;
    (a, gateway)
}

/// Somebody who behaves, for as long as an attack lasts.
struct Bystander {
    attack_is_over: Arc<AtomicBool>,
    calls: tokio::task::JoinHandle<Served>,
}

/// How many calls were answered, in which time, and how long the slowest took.
struct Served {
    calls: usize,
    within: Duration,
    slowest: Duration,
}

/// Even an attack that is over at once is watched for so long: what it leaves behind must not disturb either.
const SHORTEST_WATCH: Duration = Duration::from_secs(2);
/// Between two calls, so that what the gateway uses is used for the attacker.
const BETWEEN_CALLS: Duration = Duration::from_millis(25);

impl Bystander {
    /// Has made its first call when this returns.
    async fn of(gateway: &Process) -> Bystander {
        let client = gateway.client().await;
        client.call("echo", json!({"n": 0})).await.result();
        let attack_is_over = Arc::new(AtomicBool::new(false));
        let told = attack_is_over.clone();
        let calls = tokio::spawn(async move {
            let (mut calls, mut slowest) = (0, Duration::ZERO);
            let start = Instant::now();
            while !told.load(Ordering::Relaxed) || start.elapsed() < SHORTEST_WATCH {
                let sent = Instant::now();
                client.call("echo", json!({"n": calls})).await.result();
                slowest = slowest.max(sent.elapsed());
                calls += 1;
                tokio::time::sleep(BETWEEN_CALLS).await;
            }
            Served { calls, within: start.elapsed(), slowest }
        });
        Bystander { attack_is_over, calls }
    }

    async fn was_served(self, attack: &str) {
        self.attack_is_over.store(true, Ordering::Relaxed);
        let Served { calls, within, slowest } = self.calls.await.unwrap();
        println!("{attack}: a bystander made {calls} calls in {within:?}, the slowest took {slowest:?}");
        let fewest = 5 * usize::try_from(within.as_secs()).unwrap();
        assert!(calls >= fewest && slowest < Duration::from_secs(2), "{attack}: {calls} calls in {within:?}, the slowest {slowest:?}");
    }
}

/// What the gateway uses from now on.
struct Meter {
    pid: i32,
    before: u64,
    start: Instant,
    /// How many cores the calls of a bystander take by themselves, if that is known. They are not the attacker's, and may cost twice as much beside one.
    for_bystander: f64,
}

impl Meter {
    fn of(gateway: &Process) -> Meter {
        Meter { pid: gateway.pid(), before: sys::cpu(gateway.pid()), start: Instant::now(), for_bystander: 0.0 }
    }

    fn cores(&self) -> f64 {
        (sys::cpu(self.pid) - self.before) as f64 / 1e9 / self.start.elapsed().as_secs_f64()
    }

    /// Ask while the attack goes on: a quiet time after it would make it look cheaper.
    fn at_most_one_core(&self, attack: &str) {
        let spent = Duration::from_nanos(sys::cpu(self.pid) - self.before);
        let took = self.start.elapsed();
        println!("{attack}: {spent:?} on a processor in {took:?}, where a bystander alone takes {:.2} cores", self.for_bystander);
        // What a thread has used is brought up to date with every tick, so an attack that is over sooner may look like more than it was, or like nothing.
        assert!(!spent.is_zero() || took < TICK, "{attack}: nothing was measured");
        assert!(spent <= took.mul_f64(1.0 + 2.0 * self.for_bystander) + TICK, "{attack}: {spent:?} on a processor in {took:?}");
    }
}

const TICK: Duration = Duration::from_millis(10);

// J5, CVE-2023-44487
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_opened_and_reset_end_the_connection_and_nothing_runs() {
    let (a, gateway) = one().await;
    let good = Bystander::of(&gateway).await;
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let head = head(&attacker.host, "POST");
    let cancel = 8u32.to_be_bytes();
    let resets = (0..200_000u32).map(|at| [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(RST_STREAM, 0, at * 2 + 1, &cancel)].concat());
    let meter = Meter::of(&gateway);
    let sent = attacker.flood(resets, Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(10), false).await;
    meter.at_most_one_core("rapid reset");
    assert!(matches!(end, End::Closed(None | Some(11))), "{sent} resets and it is {end:?}");
    assert!(sent < 200_000, "the connection took all {sent}");
    good.was_served("rapid reset").await;
    let own = a.calls().iter().filter(|(_, arguments)| arguments["n"].is_null()).count();
    assert_eq!(own, 0, "nothing of it reached the target");
}

// J5: MadeYouReset, in which the server is brought to reset streams itself.
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_we_are_made_to_reset_end_the_connection_too() {
    let (_, gateway) = one().await;
    let good = Bystander::of(&gateway).await;
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let head = head(&attacker.host, "POST");
    // A window that grows by nothing is an error of its stream.
    let streams = (0..200_000u32).map(|at| [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(WINDOW_UPDATE, 0, at * 2 + 1, &[0; 4])].concat());
    let meter = Meter::of(&gateway);
    let sent = attacker.flood(streams, Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(10), false).await;
    meter.at_most_one_core("made you reset");
    assert!(matches!(end, End::Closed(_)) && sent < 200_000, "{sent} streams and it is {end:?}");
    good.was_served("made you reset").await;
}

// J5
#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_an_end_is_not_collected() {
    let (_, gateway) = one().await;
    let good = Bystander::of(&gateway).await;
    let before = sys::resident(gateway.pid());
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let head = head(&attacker.host, "POST");
    let more: Vec<u8> = (0..60).flat_map(|_| field("x-more", &"y".repeat(120))).collect();
    let first = std::iter::once(frame(HEADERS, 0, 1, &head));
    let meter = Meter::of(&gateway);
    let sent = attacker.flood(first.chain((0..100_000).map(|_| frame(CONTINUATION, 0, 1, &more))), Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(10), false).await;
    meter.at_most_one_core("continuation flood");
    assert!(matches!(end, End::Closed(_)) && sent < 10_000, "{sent} continuations and it is {end:?}");
    // Without any bytes to add they cost as much.
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let first = std::iter::once(frame(HEADERS, 0, 1, &head));
    let meter = Meter::of(&gateway);
    let sent = attacker.flood(first.chain((0..5_000_000).map(|_| frame(CONTINUATION, 0, 1, &[]))), Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(15), false).await;
    meter.at_most_one_core("empty continuations");
    assert!(matches!(end, End::Closed(_)), "{sent} empty continuations and it is {end:?}");
    good.was_served("continuation flood").await;
    let grown = sys::resident(gateway.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

// J5
#[tokio::test(flavor = "multi_thread")]
async fn settings_and_pings_without_end_cost_nobody_else_anything() {
    let (_, gateway) = one().await;
    for (what, piece) in [("pings", frame(PING, 0, 0, &[7; 8])), ("settings", settings(&[(4, 65_535)])), ("empty data", frame(DATA, 0, 1, &[]))] {
        let good = Bystander::of(&gateway).await;
        let before = sys::resident(gateway.pid());
        let mut attacker = Attacker::connect(&gateway, &[]).await;
        // Nothing of what comes back is read: answers must not pile up either.
        let many = piece.repeat(1000);
        let meter = Meter::of(&gateway);
        let sent = attacker.flood((0..100_000).map(|_| many.clone()), Duration::from_secs(2)).await;
        meter.at_most_one_core(what);
        let grown = sys::resident(gateway.pid()).saturating_sub(before);
        println!("{what}: {sent} thousand sent, memory grew by {} KiB", grown >> 10);
        assert!(grown < 64 << 20, "{what}: {grown} bytes");
        // A connection on which nobody asks for anything has ten seconds.
        let end = attacker.end(Duration::from_secs(25), false).await;
        good.was_served(what).await;
        assert!(matches!(end, End::Closed(_)), "{what}: {end:?}");
    }
}

// J5: a connection that is closed costs little, so whoever wants to do harm comes again, or keeps to the rules and takes the answers.
#[tokio::test(flavor = "multi_thread")]
async fn an_attacker_who_does_not_give_up_takes_one_core_and_no_more() {
    let (_, gateway) = one().await;
    let head = head(&host_of(&gateway), "POST");
    let opened_and = |kind: u8, payload: [u8; 4]| -> Vec<u8> {
        let streams = (0..2000u32).map(|at| [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(kind, 0, at * 2 + 1, &payload)].concat());
        streams.flatten().collect()
    };
    let more: Vec<u8> = (0..60).flat_map(|_| field("x-more", &"y".repeat(120))).collect();
    let endless = [frame(HEADERS, 0, 1, &head), frame(CONTINUATION, 0, 1, &more).repeat(50)].concat();
    let attacks = [
        ("rapid reset, again and again", opened_and(RST_STREAM, 8u32.to_be_bytes())),
        ("made you reset, again and again", opened_and(WINDOW_UPDATE, [0; 4])),
        ("continuation flood, again and again", endless),
        ("pings with their answers taken", frame(PING, 0, 0, &[7; 8]).repeat(1000)),
        ("settings with their answers taken", settings(&[(4, 65_535)]).repeat(1000)),
    ];
    for (attack, piece) in attacks {
        let good = Bystander::of(&gateway).await;
        let alone = Meter::of(&gateway);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let meter = Meter { for_bystander: alone.cores(), ..Meter::of(&gateway) };
        let until = meter.start + Duration::from_secs(3);
        let (mut connections, mut pieces) = (0, 0);
        while Instant::now() < until {
            let Attacker { mut reader, mut writer, .. } = Attacker::connect(&gateway, &[]).await;
            let answers = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
            while let Ok(Ok(())) = timeout(until.saturating_duration_since(Instant::now()), writer.write_all(&piece)).await {
                pieces += 1;
            }
            connections += 1;
            answers.abort();
        }
        println!("{attack}: {connections} connections, {pieces} pieces of {} KiB", piece.len() >> 10);
        meter.at_most_one_core(attack);
        good.was_served(attack).await;
    }
}

// J5
#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_given_no_room_are_not_held_for_ever() {
    let (_, gateway) = one().await;
    let good = Bystander::of(&gateway).await;
    // No stream of this connection has any room.
    let mut attacker = Attacker::connect(&gateway, &[(4, 0)]).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    let head = head(&attacker.host, "POST");
    let (meter, start) = (Meter::of(&gateway), Instant::now());
    for at in 0..50u32 {
        let request = [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(DATA, END_STREAM, at * 2 + 1, body.as_bytes())].concat();
        attacker.writer.write_all(&request).await.unwrap();
    }
    // What was asked for is worked on now, and from then on nothing should happen.
    let mut end = attacker.end(Duration::from_secs(1), true).await;
    meter.at_most_one_core("no window, at first");
    if end == End::Open {
        let meter = Meter::of(&gateway);
        end = attacker.end(Duration::from_secs(40), true).await;
        meter.at_most_one_core("no window, while it waits");
    }
    println!("no window: {end:?} after {:?}", start.elapsed());
    good.was_served("no window").await;
    assert!(matches!(end, End::Closed(_)), "{end:?}");
    let metrics = gateway.log(&["metrics"]).iter().find_map(|line| Some(line.split("http://").nth(1)?.split([' ', '"']).next()?.to_owned()));
    let metrics = format!("http://{}/metrics", metrics.expect("the log says where the metrics are"));
    let in_flight = async || {
        let text = gateway.http.get(&metrics).await.text();
        assert!(text.contains("transom_requests_in_flight"), "{text}");
        gateway::metric(&text, "transom_requests_in_flight")
    };
    eventually("nothing of it is left", async || in_flight().await == 0.0).await;
}

// J5, the other side: a client that behaves may be slow.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_its_time_and_takes_its_replies_is_served() {
    let (_, gateway) = one().await;
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    let head = head(&attacker.host, "POST");
    for at in 0..4u32 {
        let request = [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(DATA, END_STREAM, at * 2 + 1, body.as_bytes())].concat();
        attacker.writer.write_all(&request).await.unwrap();
        assert_eq!(attacker.end(Duration::from_secs(4), true).await, End::Open);
    }
}
