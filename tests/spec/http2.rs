//! J5: HTTP/2 as an attacker speaks it, frame by frame. Whatever one connection does, the others are served.

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
    async fn connect(gateway: &Gateway, pairs: &[(u16, u32)]) -> Attacker {
        let stream = TcpStream::connect(gateway.addr()).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        writer.write_all(&[PREFACE, &settings(pairs)].concat()).await.unwrap();
        Attacker { host: gateway.addr().to_string(), reader, writer }
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

async fn one() -> (Target, Gateway) {
    let a = target("a").tool("echo", ["n"]);
    let gateway = gateway().target(&a).start().await;
    (a, gateway)
}

/// Somebody who behaves, for as long as the attack lasts: how many calls, and the slowest.
fn bystander(gateway: &Gateway) -> tokio::task::JoinHandle<(usize, Duration)> {
    let connect = gateway.connect(client::LEGACY);
    tokio::spawn(async move {
        let client = connect.open().await;
        let (mut calls, mut slowest) = (0, Duration::ZERO);
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let start = Instant::now();
            client.call("echo", json!({"n": calls})).await.result();
            slowest = slowest.max(start.elapsed());
            calls += 1;
        }
        (calls, slowest)
    })
}

async fn was_served(bystander: tokio::task::JoinHandle<(usize, Duration)>, attack: &str) {
    let (calls, slowest) = bystander.await.unwrap();
    println!("{attack}: a bystander made {calls} calls in 2 s, the slowest took {slowest:?}");
    assert!(calls >= 10 && slowest < Duration::from_secs(2), "{attack}: {calls} calls, the slowest {slowest:?}");
}

// J5, CVE-2023-44487
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_opened_and_reset_end_the_connection_and_nothing_runs() {
    let (a, gateway) = one().await;
    let good = bystander(&gateway);
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let head = head(&attacker.host, "POST");
    let cancel = 8u32.to_be_bytes();
    let resets = (0..200_000u32).map(|at| [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(RST_STREAM, 0, at * 2 + 1, &cancel)].concat());
    let sent = attacker.flood(resets, Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(10), false).await;
    assert!(matches!(end, End::Closed(None | Some(11))), "{sent} resets and it is {end:?}");
    assert!(sent < 200_000, "the connection took all {sent}");
    was_served(good, "rapid reset").await;
    let own = a.calls().iter().filter(|(_, arguments)| arguments["n"].is_null()).count();
    assert_eq!(own, 0, "nothing of it reached the target");
}

// J5: MadeYouReset, in which the server is brought to reset streams itself.
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_we_are_made_to_reset_end_the_connection_too() {
    let (_, gateway) = one().await;
    let good = bystander(&gateway);
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let head = head(&attacker.host, "POST");
    // A window that grows by nothing is an error of its stream.
    let streams = (0..200_000u32).map(|at| [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(WINDOW_UPDATE, 0, at * 2 + 1, &[0; 4])].concat());
    let sent = attacker.flood(streams, Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(10), false).await;
    assert!(matches!(end, End::Closed(_)) && sent < 200_000, "{sent} streams and it is {end:?}");
    was_served(good, "made you reset").await;
}

// J5
#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_an_end_is_not_collected() {
    let (_, gateway) = one().await;
    let good = bystander(&gateway);
    let before = sys::resident(std::process::id().try_into().unwrap());
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let head = head(&attacker.host, "POST");
    let more: Vec<u8> = (0..60).flat_map(|_| field("x-more", &"y".repeat(120))).collect();
    let first = std::iter::once(frame(HEADERS, 0, 1, &head));
    let sent = attacker.flood(first.chain((0..100_000).map(|_| frame(CONTINUATION, 0, 1, &more))), Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(10), false).await;
    assert!(matches!(end, End::Closed(_)) && sent < 10_000, "{sent} continuations and it is {end:?}");
    // Without any bytes to add they cost as much.
    let mut attacker = Attacker::connect(&gateway, &[]).await;
    let first = std::iter::once(frame(HEADERS, 0, 1, &head));
    let sent = attacker.flood(first.chain((0..5_000_000).map(|_| frame(CONTINUATION, 0, 1, &[]))), Duration::from_secs(10)).await;
    let end = attacker.end(Duration::from_secs(15), false).await;
    assert!(matches!(end, End::Closed(_)), "{sent} empty continuations and it is {end:?}");
    was_served(good, "continuation flood").await;
    let grown = sys::resident(std::process::id().try_into().unwrap()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

// J5
#[tokio::test(flavor = "multi_thread")]
async fn settings_and_pings_without_end_cost_nobody_else_anything() {
    let (_, gateway) = one().await;
    for (what, piece) in [("pings", frame(PING, 0, 0, &[7; 8])), ("settings", settings(&[(4, 65_535)])), ("empty data", frame(DATA, 0, 1, &[]))] {
        let good = bystander(&gateway);
        let before = sys::resident(std::process::id().try_into().unwrap());
        let mut attacker = Attacker::connect(&gateway, &[]).await;
        // Nothing of what comes back is read: answers must not pile up either.
        let many = piece.repeat(1000);
        let sent = attacker.flood((0..100_000).map(|_| many.clone()), Duration::from_secs(2)).await;
        was_served(good, what).await;
        let grown = sys::resident(std::process::id().try_into().unwrap()).saturating_sub(before);
        println!("{what}: {sent} thousand sent, memory grew by {} KiB", grown >> 10);
        assert!(grown < 64 << 20, "{what}: {grown} bytes");
        // A connection on which nobody asks for anything has ten seconds.
        let end = attacker.end(Duration::from_secs(25), false).await;
        assert!(matches!(end, End::Closed(_)), "{what}: {end:?}");
    }
}

// J5
#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_given_no_room_are_not_held_for_ever() {
    let (_, gateway) = one().await;
    let good = bystander(&gateway);
    // No stream of this connection has any room.
    let mut attacker = Attacker::connect(&gateway, &[(4, 0)]).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    let head = head(&attacker.host, "POST");
    for at in 0..50u32 {
        let request = [frame(HEADERS, END_HEADERS, at * 2 + 1, &head), frame(DATA, END_STREAM, at * 2 + 1, body.as_bytes())].concat();
        attacker.writer.write_all(&request).await.unwrap();
    }
    was_served(good, "no window").await;
    let start = Instant::now();
    let end = attacker.end(Duration::from_secs(40), true).await;
    println!("no window: {end:?} after {:?}", start.elapsed());
    assert!(matches!(end, End::Closed(_)), "{end:?}");
    eventually("nothing of it is left", async || gateway.metric("transom_requests_in_flight").await == 0.0).await;
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
