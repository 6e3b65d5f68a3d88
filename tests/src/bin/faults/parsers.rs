//! T1: whatever the gateway lets through means the same to every parser that may stand behind it.
//!
//! Bodies are made by chance, most of them a little wrong; and every file of the JSON Parsing Test Suite is an argument once. What passes comes back
//! from the target as it arrived there, byte for byte; Python and Node then read what was sent and what arrived, and all four readings must be one.

use crate::Size;
use crate::chance::Chance;
use crate::outcome::{Counts, Outcome};
use crate::stand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::process::Command;
use tokio::task::{JoinHandle, JoinSet};
use transom_tests::Http;
use transom_tests::client::{LEGACY, connect};
use transom_tests::install::{self, have, parsing};

const WORKERS: usize = 32;
const BATCH: usize = 10_000;

/// A3, T1.
pub async fn differential(size: Size) -> Outcome {
    let (address, seen, serving) = mirror().await;
    let (builder, metrics) = stand::gateway();
    let entry = json!({"name": "mirror", "mcp": {"host": format!("http://{address}/mcp")}});
    let gateway = builder.entry(entry).env("LOG_LEVEL", "warn").start_ready().await;
    let client = connect(gateway.url("/mcp"), LEGACY).open().await;
    let session = Arc::new(client.session().unwrap_or_default());
    let before = stand::holds(&gateway, &metrics).await;
    let total = size.of(120_000, 2_000);
    let installed = suite();
    let suite = installed.as_deref().unwrap_or_default();
    let node = if have(&["node"]) { install::node() } else { "node".into() };
    let (mut counts, mut statuses, mut disagreements) = (Counts::default(), BTreeMap::<u16, usize>::new(), Vec::new());
    let mut through = BTreeSet::new();
    let mut begun = 0;
    while begun < total + suite.len() {
        let batch = BATCH.min(total + suite.len() - begun);
        let mut tasks = JoinSet::new();
        for worker in 0..WORKERS {
            let (url, session) = (gateway.url("/mcp"), session.clone());
            let mine = (begun..begun + batch).filter(move |number| number % WORKERS == worker);
            let bodies: Vec<Vec<u8>> = mine
                .map(|number| match number.checked_sub(total).and_then(|place| suite.get(place)) {
                    Some((_, body)) => body.clone(),
                    None => body(&mut Chance::new(size.seed, number as u64 + 1), number),
                })
                .collect();
            tasks.spawn(async move {
                let http = Http::new();
                let mut ended = Vec::new();
                for body in bodies {
                    let headers = [
                        ("content-type", "application/json"),
                        ("accept", "application/json, text/event-stream"),
                        ("mcp-session-id", session.as_str()),
                        ("mcp-protocol-version", LEGACY),
                    ];
                    let reply = http.try_send("POST", &url, &headers, body.clone()).await;
                    ended.push((body, reply));
                }
                ended
            });
        }
        let mut passed = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            for (body, reply) in ended.expect("a worker ends") {
                counts.sent += 1;
                let Ok(reply) = reply else {
                    counts.lost += 1;
                    continue;
                };
                *statuses.entry(reply.status).or_default() += 1;
                let message: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
                match message["result"]["content"][0]["text"].as_str() {
                    Some(arrived) => {
                        counts.ok += 1;
                        passed.push((body, arrived.to_owned()));
                    }
                    None => counts.error += 1,
                }
            }
        }
        let sent: Vec<String> = passed.iter().map(|(body, _)| STANDARD.encode(body)).collect();
        let arrived: Vec<String> = passed.iter().map(|(_, arrived)| arrived.clone()).collect();
        let (python, node) = ((Path::new("python3"), ["-c", include_str!("peer.py")]), (node.as_path(), ["-e", include_str!("peer.js")]));
        let readings = [read(python, &sent).await, read(python, &arrived).await, read(node, &sent).await, read(node, &arrived).await];
        through.extend(suite.iter().filter(|(_, body)| passed.iter().any(|(other, _)| other == body)).map(|(name, _)| name.as_str()));
        for (place, (body, _)) in passed.iter().enumerate() {
            let said: Vec<&str> = readings.iter().map(|reading| reading.get(place).map_or("nothing", String::as_str)).collect();
            if said.iter().any(|said| *said != said_first(&readings, place)) || said[0].starts_with("refused") {
                disagreements.push(format!("{} {said:?}", String::from_utf8_lossy(body)));
            }
        }
        begun += batch;
    }
    drop(client);
    serving.abort();
    counts.mixed = disagreements.len();
    let (leaked, after) = stand::leaked(&gateway, &metrics, before, std::time::Duration::from_secs(15)).await;
    counts.leaked = leaked;
    // Every call that the target executed is answered, and by one reply.
    counts.doubled = seen.executed.load(Relaxed).saturating_sub(counts.ok + counts.lost);
    let unreadable = seen.unreadable.load(Relaxed);
    let wrong: Vec<&str> = suite.iter().map(|(name, _)| name.as_str()).filter(|name| is_wrong(name, through.contains(name))).collect();
    let bodies = total + suite.len();
    let files = match installed {
        Some(_) => format!("{} of them files of JSONTestSuite", suite.len()),
        None => "WITHOUT JSONTestSuite, which is not installed (tests/e2e/setup.sh)".to_owned(),
    };
    Outcome::new(format!("{bodies} bodies read by the gateway, Python and Node, {files}; ok = reached the target"), counts)
        .nothing_wrong()
        .goal(format!("0 bodies pass that parsers disagree on: {:?}", disagreements.iter().take(3).collect::<Vec<_>>()), disagreements.is_empty())
        .goal(format!("nothing arrives that is not JSON: {unreadable}"), unreadable == 0)
        .goal(format!("JSONTestSuite has files where it is installed: {}", suite.len()), installed.is_none() || !suite.is_empty())
        .goal(format!("of JSONTestSuite what must be accepted passes, what must not does not: {wrong:?}"), wrong.is_empty())
        .goal("many pass and many are refused", counts.ok > total / 4 && counts.error > total / 10)
        .figure("by status", json!(statuses.iter().map(|(status, times)| (status.to_string(), times)).collect::<BTreeMap<_, _>>()))
        .figure("held", stand::change(before, after))
}

/// The files of the JSON Parsing Test Suite, each as an argument. Nothing if it is not installed, which in CI breaks the test.
fn suite() -> Option<Vec<(String, Vec<u8>)>> {
    if !have(&["parsing"]) {
        return None;
    }
    let files = std::fs::read_dir(parsing()).expect("the files").map(|file| file.expect("a file").path());
    let mut suite: Vec<(String, Vec<u8>)> = files
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let file = std::fs::read(&path).expect("a file");
            let before = format!(r#"{{"jsonrpc":"2.0","id":"{name}","method":"tools/call","params":{{"name":"mirror","arguments":{{"x":"#);
            (name, [before.as_bytes(), &file, b"}}}"].concat())
        })
        .collect();
    suite.sort();
    Some(suite)
}

/// Whether a file ought not to have passed, or ought to. A key that stands twice is JSON, and refused (A3).
fn is_wrong(name: &str, passed: bool) -> bool {
    match name.as_bytes().first() {
        Some(b'y') => passed == name.contains("duplicated_key"),
        Some(b'n') => passed,
        _ => false,
    }
}

fn said_first(readings: &[Vec<String>; 4], place: usize) -> &str {
    readings[0].get(place).map_or("nothing", String::as_str)
}

/// What another parser makes of these bodies.
async fn read((program, arguments): (&Path, [&str; 2]), lines: &[String]) -> Vec<String> {
    if lines.is_empty() {
        return Vec::new();
    }
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(format!("{}\n", lines.join("\n")).as_bytes()).expect("a file is written");
    std::io::Seek::rewind(&mut file).expect("a file is read from its start");
    let output = Command::new(program).args(arguments).stdin(Stdio::from(file)).output().await;
    let output = output.unwrap_or_else(|error| panic!("{} is needed: {error}", program.display()));
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What came to the mirror: calls it executed, and requests it could not read.
#[derive(Default)]
struct Seen {
    executed: AtomicUsize,
    unreadable: AtomicUsize,
}

/// A target that answers a call with the bytes it got.
async fn mirror() -> (SocketAddr, Arc<Seen>, JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let seen = Arc::new(Seen::default());
    let counted = seen.clone();
    let serving = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).ok();
            let counted = counted.clone();
            let service = service_fn(move |request| reflect(counted.clone(), request));
            connections.spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (address, seen, serving)
}

/// As much of a message as the mirror needs; the rest is not read.
#[derive(Default)]
struct Envelope<'m> {
    id: Option<&'m RawValue>,
    method: String,
}

fn envelope(message: &[u8]) -> Option<Envelope<'_>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(message).ok()?;
    let method = members.get("method").and_then(|method| serde_json::from_str(method.get()).ok()).unwrap_or_default();
    Some(Envelope { id: members.get("id").copied(), method })
}

async fn reflect(seen: Arc<Seen>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let reply = |status: u16, body: String| {
        let reply = Response::builder().status(status).header("content-type", "application/json").header("mcp-session-id", "mirror");
        Ok(reply.body(Full::from(body)).expect("a response"))
    };
    if request.method() != Method::POST {
        return reply(if request.method() == Method::DELETE { 200 } else { 405 }, String::new());
    }
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let Some(envelope) = envelope(&body) else {
        seen.unreadable.fetch_add(1, Relaxed);
        return reply(500, String::new());
    };
    let Some(id) = envelope.id else { return reply(202, String::new()) };
    let result = match envelope.method.as_str() {
        "tools/call" => {
            seen.executed.fetch_add(1, Relaxed);
            json!({"content": [{"type": "text", "text": STANDARD.encode(&body)}]})
        }
        "tools/list" => json!({"tools": [{"name": "mirror", "inputSchema": {"type": "object"}}]}),
        "initialize" => json!({"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "mirror", "version": "1"}}),
        "ping" => json!({}),
        _ => return reply(200, format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#, id.get())),
    };
    reply(200, format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.get()))
}

/// A call of the mirror with arguments by chance; in four of ten something is not as it should be.
fn body(chance: &mut Chance, number: usize) -> Vec<u8> {
    let bad = chance.percent(40);
    let mut out = Vec::new();
    out.extend_from_slice(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"tools/call\",\"params\":{{\"name\":\"mirror\",\"arguments\":").as_bytes(),
    );
    let rare = if bad && chance.percent(60) { 8 } else { 0 };
    object(chance, &mut out, 0, rare);
    out.extend_from_slice(b"}}");
    if bad && rare == 0 {
        for _ in 0..=chance.below(3) {
            damage(chance, &mut out);
        }
    }
    out
}

/// Texts that are JSON and that some parser has once read otherwise.
const ODD: [&str; 40] = [
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1e5",
    "1E+2",
    "1e-2",
    "0.1e1",
    "1e400",
    "-1e400",
    "1e-400",
    "123456789012345678901234567890",
    "9007199254740993",
    "-9223372036854775809",
    "18446744073709551616",
    "1.7976931348623157e308",
    "5e-324",
    "0.30000000000000004",
    "true",
    "false",
    "null",
    "\"\"",
    "\"\\u0000\"",
    "\"\\u0061\"",
    "\"\\ud83d\\ude00\"",
    "\"\\uD83D\\uDE00\"",
    "\"\\/\\b\\f\\n\\r\\t\\\"\\\\\"",
    "\"\u{2028}\u{2029}\"",
    "\"\u{feff}\"",
    "\"\u{10ffff}\"",
    "\"\u{7f}\"",
    "\"e\u{301}\"",
    "\"\u{ffff}\"",
    "\"<!--\"",
    "\"__proto__\"",
    "[]",
    "{}",
    "[[[]]]",
    "[null,null]",
    "{\"\":{}}",
];
/// Texts that are no JSON, or not to everybody.
const WRONG: [&str; 44] = [
    "01",
    "-01",
    "+1",
    ".5",
    "5.",
    "1e",
    "1e+",
    "0x10",
    "1_000",
    "NaN",
    "-NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "undefined",
    "None",
    "True",
    "nul",
    "'x'",
    "\"\\x41\"",
    "\"\\u12\"",
    "\"\\u{41}\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud800x\"",
    "\"\\'\"",
    "\"a\nb\"",
    "\"a\tb\"",
    "\"",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{\"a\":1,}",
    "{\"a\" 1}",
    "{a:1}",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1,\"\\u0061\":2}",
    "/* */1",
    "1//",
    "#",
    "(1)",
    "1;",
    "\u{feff}1",
    "{\"a\":1}{",
];
/// Bytes that are no UTF-8.
const BYTES: [&[u8]; 6] = [b"\"\xff\"", b"\"\xc0\xaf\"", b"\"\xed\xa0\x80\"", b"\"\xf4\x90\x80\x80\"", b"\"\xe2\x82\"", b"\"\x80\""];
const KEYS: [&str; 12] = ["a", "b", "A", "", "__proto__", "constructor", "toString", "a\u{301}", "\\u0061", "\\u0062", "x y", "\u{130}"];
const SPACE: [&str; 6] = ["", "", "", " ", "\n", "\t\r\n "];
const WRONG_SPACE: [&str; 4] = ["\u{a0}", "\u{c}", "\u{b}", "\u{2003}"];

/// An object; one value in a hundred times `rare` is wrong.
fn object(chance: &mut Chance, out: &mut Vec<u8>, depth: usize, rare: usize) {
    out.push(b'{');
    let mut used: Vec<String> = Vec::new();
    for number in 0..chance.below(5) {
        if number > 0 {
            out.push(b',');
        }
        space(chance, out, rare);
        let mut key = if chance.percent(50) { (*chance.pick(&KEYS)).to_owned() } else { format!("k{}", chance.below(1000)) };
        let plain = key.replace("\\u0061", "a").replace("\\u0062", "b");
        if used.contains(&plain) && !chance.percent(rare * 5) {
            key = format!("{plain}{number}");
        }
        used.push(key.replace("\\u0061", "a").replace("\\u0062", "b"));
        out.extend_from_slice(format!("\"{key}\"").as_bytes());
        space(chance, out, 0);
        out.push(b':');
        space(chance, out, rare);
        value(chance, out, depth + 1, rare);
    }
    out.push(b'}');
}

fn value(chance: &mut Chance, out: &mut Vec<u8>, depth: usize, rare: usize) {
    if chance.percent(rare) {
        match chance.below(WRONG.len() + BYTES.len()) {
            place if place < WRONG.len() => out.extend_from_slice(WRONG[place].as_bytes()),
            place => out.extend_from_slice(BYTES[place - WRONG.len()]),
        }
        return;
    }
    match chance.below(10) {
        0 | 1 if depth < 6 => object(chance, out, depth, rare),
        2 | 3 if depth < 6 => {
            out.push(b'[');
            for number in 0..chance.below(4) {
                if number > 0 {
                    out.push(b',');
                }
                value(chance, out, depth + 1, rare);
            }
            out.push(b']');
        }
        4 if chance.percent(3) => {
            // About the depth where the gateway draws the line.
            let levels = 50 + chance.below(30);
            out.extend(std::iter::repeat_n(b'[', levels));
            out.extend(std::iter::repeat_n(b']', levels));
        }
        4 | 5 => {
            let letters: String = (0..chance.below(12)).filter_map(|_| char::from_u32(chance.below(0x3000) as u32)).collect();
            out.extend_from_slice(json!(letters).to_string().as_bytes());
        }
        6 => out.extend_from_slice((chance.next() as i64).to_string().as_bytes()),
        7 => out.extend_from_slice(format!("{:e}", f64::from_bits(chance.next()).clamp(-1e300, 1e300)).replace("NaN", "0").as_bytes()),
        _ => out.extend_from_slice(chance.pick(&ODD).as_bytes()),
    }
}

fn space(chance: &mut Chance, out: &mut Vec<u8>, rare: usize) {
    let kinds: &[&str] = if chance.percent(rare / 4) { &WRONG_SPACE } else { &SPACE };
    out.extend_from_slice(chance.pick(kinds).as_bytes());
}

/// Flips, drops, doubles or adds a byte somewhere.
fn damage(chance: &mut Chance, out: &mut Vec<u8>) {
    let at = chance.below(out.len());
    match chance.below(5) {
        0 => out[at] ^= 1 << chance.below(8),
        1 => drop(out.remove(at)),
        2 => out.insert(at, out[at]),
        3 => out.insert(at, *chance.pick(b"{}[]\",:\\0e-+. \t\n\x00\xff")),
        _ => {
            let end = (at + 1 + chance.below(20)).min(out.len());
            let piece = out[at..end].to_vec();
            out.splice(at..at, piece);
        }
    }
}
