//! Group J: requests that are malformed, too large, too slow or too many.

use std::time::{Duration, Instant};
use transom_tests::http::RawReply;
use transom_tests::wire::Wire;
use transom_tests::*;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#;

async fn one() -> (Target, Gateway) {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    (a, gateway)
}

async fn send(gateway: &Gateway, request: &str) -> RawReply {
    let mut raw = gateway.raw().await;
    raw.write(request.replace("$HOST", &gateway.addr().to_string()).replace("$LEN", &CALL.len().to_string()).replace("$CALL", CALL).as_bytes()).await;
    raw.read(Duration::from_millis(400)).await
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

// J1, CVE-2026-2833, CVE-2026-2835, CVE-2026-2836
#[tokio::test]
async fn ambiguous_framing_is_refused_and_nothing_runs() {
    let (a, gateway) = one().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/json\r\n";
    let chunks = chunked(CALL);
    let cases = [
        ("two lengths", format!("{head}Content-Length: $LEN\r\nContent-Length: 5\r\n\r\n$CALL")),
        ("a list of lengths", format!("{head}Content-Length: 5, $LEN\r\n\r\n$CALL")),
        ("a signed length", format!("{head}Content-Length: +$LEN\r\n\r\n$CALL")),
        ("a negative length", format!("{head}Content-Length: -1\r\n\r\n$CALL")),
        ("a hexadecimal length", format!("{head}Content-Length: 0x50\r\n\r\n$CALL")),
        ("an empty length", format!("{head}Content-Length: \r\n\r\n$CALL")),
        ("a length beyond all", format!("{head}Content-Length: 99999999999999999999999\r\n\r\n$CALL")),
        ("chunked, then identity", format!("{head}Transfer-Encoding: chunked, identity\r\n\r\n{chunks}")),
        ("an unknown coding", format!("{head}Transfer-Encoding: xchunked\r\n\r\n{chunks}")),
        ("gzip, then nothing", format!("{head}Transfer-Encoding: gzip\r\n\r\n{chunks}")),
        ("chunked in HTTP/1.0", format!("{}Transfer-Encoding: chunked\r\n\r\n{chunks}", head.replace("HTTP/1.1", "HTTP/1.0"))),
        ("a space before the colon", format!("{head}Content-Length : $LEN\r\n\r\n$CALL")),
        ("a folded header", format!("{head}X-A: b\r\n c\r\nContent-Length: $LEN\r\n\r\n$CALL")),
        ("a folded coding", format!("{head}Transfer-Encoding:\r\n chunked\r\n\r\n{chunks}")),
        ("no colon", format!("{head}Nonsense\r\nContent-Length: $LEN\r\n\r\n$CALL")),
        ("a NUL in a header", format!("{head}X-A: b\0c\r\nContent-Length: $LEN\r\n\r\n$CALL")),
        ("a bare CR in a header", format!("{head}X-A: b\rc\r\nContent-Length: $LEN\r\n\r\n$CALL")),
        ("a chunk size beyond all", format!("{head}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n$CALL\r\n0\r\n\r\n")),
        ("a signed chunk size", format!("{head}Transfer-Encoding: chunked\r\n\r\n+{:x}\r\n$CALL\r\n0\r\n\r\n", CALL.len())),
        ("a chunk without its end", format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n$CALLXX0\r\n\r\n", CALL.len())),
        ("two hosts", format!("{head}Host: evil.com\r\nContent-Length: $LEN\r\n\r\n$CALL")),
        ("no host", "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: $LEN\r\n\r\n$CALL".to_owned()),
        ("an unknown version", format!("{}Content-Length: $LEN\r\n\r\n$CALL", head.replace("HTTP/1.1", "HTTP/3.7"))),
        ("a space in the path", format!("{}Content-Length: $LEN\r\n\r\n$CALL", head.replace("/mcp", "/mcp /x"))),
        ("no length at all", format!("{head}\r\n$CALL")),
    ];
    let mut wrong = Vec::new();
    for (what, request) in &cases {
        let before = a.calls().len();
        let reply = send(&gateway, request).await;
        let refused = matches!(reply.status(), 400..=499 | 501 | 505);
        if !refused || a.calls().len() > before {
            wrong.push(format!("{what}: {}", reply.text().lines().next().unwrap_or("no reply, still open")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// J1: the classic of request smuggling.
#[tokio::test]
async fn a_length_beside_chunks_is_refused() {
    let (a, gateway) = one().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/json\r\n";
    let chunks = chunked(CALL);
    for (what, request) in [
        ("length and chunked", format!("{head}Content-Length: $LEN\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")),
        ("chunked and length", format!("{head}Transfer-Encoding: chunked\r\nContent-Length: $LEN\r\n\r\n{chunks}")),
    ] {
        let reply = send(&gateway, &request).await;
        assert!(reply.closed && reply.status() == 400, "{what}: {}", reply.text());
        assert!(a.calls().is_empty(), "{what} reached the target");
    }
}

// J1
#[tokio::test]
async fn line_feeds_alone_end_no_header() {
    let (a, gateway) = one().await;
    let reply = send(&gateway, "POST /mcp HTTP/1.1\nHost: $HOST\nContent-Type: application/json\nContent-Length: $LEN\n\n$CALL").await;
    assert!(!reply.text().starts_with("HTTP/1.1 200"), "{}", reply.text());
    assert!(a.calls().is_empty());
}

// J1: nor do they in a later request of the same connection.
#[tokio::test]
async fn line_feeds_alone_end_no_later_header_either() {
    let (a, gateway) = one().await;
    let mut raw = gateway.raw().await;
    let host = gateway.addr();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for _ in 0..3 {
        raw.write(
            format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{list}", list.len())
                .as_bytes(),
        )
        .await;
        assert_eq!(raw.reply().await.status(), 200);
    }
    raw.write(format!("POST /mcp HTTP/1.1\nHost: {host}\nContent-Type: application/json\nContent-Length: {}\n\n{CALL}", CALL.len()).as_bytes()).await;
    let reply = raw.reply().await;
    assert!(!reply.text().starts_with("HTTP/1.1 200"), "{}", reply.text());
    assert!(a.calls().is_empty());
}

// J1: nor is anything else read in two ways because of what stands before it.
#[tokio::test]
async fn ambiguous_framing_is_refused_behind_an_empty_line_and_behind_a_good_request() {
    let (a, gateway) = one().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/json\r\n";
    let (list, chunks) = (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, chunked(CALL));
    let plain = format!("{head}Content-Length: {}\r\n\r\n{list}", list.len());
    let in_chunks = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", chunked(list));
    for (what, bad) in [
        ("length and chunked", format!("{head}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}", chunks.len())),
        ("chunked and length", format!("{head}Transfer-Encoding: chunked\r\nContent-Length: {}\r\n\r\n{chunks}", chunks.len())),
        ("two lengths", format!("{head}Content-Length: $LEN\r\nContent-Length: $LEN\r\n\r\n$CALL")),
        ("line feeds alone", format!("{head}Content-Length: $LEN\r\n\r\n$CALL").replace("\r\n", "\n")),
        ("one line feed alone", format!("{head}X-A: b\nContent-Length: $LEN\r\n\r\n$CALL")),
    ] {
        for (before, good) in [("\r\n", 0), ("\r\n\r\n", 0), (plain.as_str(), 1), (in_chunks.as_str(), 1), (&format!("{plain}\r\n{in_chunks}"), 2)] {
            let reply = send(&gateway, &format!("{before}{bad}")).await;
            let text = reply.text();
            assert_eq!(text.matches("HTTP/1.1 200").count(), good, "{what} behind {before:?}: {text}");
            assert!(reply.closed && reply.count() == good + 1 && text.contains("HTTP/1.1 400"), "{what} behind {before:?}: {text}");
        }
    }
    assert!(a.calls().is_empty());
}

// The other side: what comes early is answered in its turn.
#[tokio::test]
async fn requests_that_come_in_one_piece_are_answered_in_order() {
    let (a, gateway) = one().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/json\r\n";
    let call = |id: u32| CALL.replace("\"id\":1", &format!("\"id\":\"n{id}\""));
    let plain = |id| format!("{head}Content-Length: {}\r\n\r\n{}", call(id).len(), call(id));
    let in_chunks = |id| format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", chunked(&call(id)));
    let health = "GET /health HTTP/1.1\r\nHost: $HOST\r\n\r\n";
    let reply = send(&gateway, &[&plain(1), &in_chunks(2), "\r\n", health, &plain(3), &in_chunks(4)].concat()).await;
    let text = reply.text();
    assert_eq!((reply.count(), text.matches("HTTP/1.1 200").count(), a.calls().len()), (5, 5, 4), "{text}");
    let places: Vec<_> = (1..=4).map(|id| text.find(&format!("\"n{id}\"")).expect("an answer")).collect();
    assert!(places.is_sorted(), "{text}");
}

// J4: a head has as long when its first bytes came along with the request before it.
#[tokio::test]
async fn a_slow_head_is_cut_off_behind_a_request_as_well() {
    let (_a, gateway) = one().await;
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", gateway.addr());
    let mut raw = gateway.raw().await;
    raw.write(format!("{head}Content-Length: {}\r\n\r\n{CALL}{head}", CALL.len()).as_bytes()).await;
    let start = Instant::now();
    let reply = raw.read(Duration::from_secs(20)).await;
    assert!(reply.closed && reply.count() == 1, "{}", reply.text());
    assert!((9..15).contains(&start.elapsed().as_secs()), "closed after {:?}", start.elapsed());
}

// J1: an upgrade is not taken, and what follows it is not read.
#[tokio::test]
async fn an_upgrade_is_not_taken() {
    let (a, gateway) = one().await;
    let second = "POST /mcp HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/json\r\nContent-Length: $LEN\r\n\r\n$CALL";
    let second = second.replace("$LEN", &CALL.len().to_string()).replace("$CALL", CALL);
    let mut sent = Vec::new();
    for upgrade in ["foo", "websocket", "h2c"] {
        for path in ["/health", "/mcp"] {
            let first = format!("GET {path} HTTP/1.1\r\nHost: $HOST\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n");
            let mut raw = gateway.raw().await;
            raw.write(format!("{first}{second}").replace("$HOST", &gateway.addr().to_string()).as_bytes()).await;
            sent.push((format!("{path} {upgrade}"), raw));
        }
    }
    // Closed a second after the answer: whoever still sends then would not read it otherwise.
    for (what, mut raw) in sent {
        let reply = raw.read(Duration::from_secs(5)).await;
        assert_eq!((reply.status(), reply.count(), reply.closed), (400, 1, true), "{what}: {}", reply.text());
    }
    assert!(a.calls().is_empty());
}

// J1: what was refused early leaves nothing behind on the connection.
#[tokio::test]
async fn a_body_that_was_not_read_is_never_a_request() {
    let (a, gateway) = one().await;
    let hidden = "POST /mcp HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/json\r\nContent-Length: $LEN\r\n\r\n$CALL";
    let hidden = hidden.replace("$HOST", &gateway.addr().to_string()).replace("$LEN", &CALL.len().to_string()).replace("$CALL", CALL);
    for path in ["/nope", "/health", "/mcp/nobody"] {
        let reply = send(
            &gateway,
            &format!("POST {path} HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()),
        )
        .await;
        assert_eq!(reply.count(), 1, "{path}: {}", reply.text());
    }
    let reply =
        send(&gateway, &format!("POST /mcp HTTP/1.1\r\nHost: $HOST\r\nOrigin: http://evil.com\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()))
            .await;
    assert_eq!(reply.count(), 1);
    assert!(a.calls().is_empty());
}

// J2
#[tokio::test]
async fn too_many_or_too_large_headers_are_431() {
    let (a, gateway) = one().await;
    let many: String = (0..101).map(|n| format!("X-{n}: y\r\n")).collect();
    let reply = send(&gateway, &format!("POST /mcp HTTP/1.1\r\nHost: $HOST\r\n{many}Content-Length: $LEN\r\n\r\n$CALL")).await;
    assert_eq!(reply.status(), 431, "{}", reply.text());
    let large = "y".repeat(64 * 1024 + 1);
    let reply = send(&gateway, &format!("POST /mcp HTTP/1.1\r\nHost: $HOST\r\nX-A: {large}\r\nContent-Length: $LEN\r\n\r\n$CALL")).await;
    assert_eq!(reply.status(), 431, "{}", reply.text());
    assert!(a.calls().is_empty());
}

// J2
#[tokio::test]
async fn doubled_and_disguised_headers_are_refused() {
    let (a, gateway) = one().await;
    let session = gateway.client().await.session().unwrap();
    let cases: &[&[(&str, &str)]] = &[
        &[("mcp-session-id", &session), ("mcp-session-id", &session)],
        &[("mcp-session-id", &session), ("mcp-session-id", "other")],
        &[("mcp-protocol-version", "2025-11-25"), ("mcp-protocol-version", "2025-11-25")],
        &[("mcp-session-id", &session), ("mcp_name", "echo")],
        &[("mcp_session_id", &session)],
        &[("mcp_protocol_version", "2025-11-25")],
        &[("mcp_method", "tools/call")],
    ];
    for headers in cases {
        let response = gateway.post_mcp(headers, CALL).await;
        assert!(matches!(response.status, 400 | 415), "{headers:?}: {}", response.status);
    }
    assert!(a.calls().is_empty());
}

// J2, security.md 4: singletons sent twice are refused.
#[tokio::test]
async fn two_content_types_are_refused() {
    let (a, gateway) = one().await;
    for types in [["application/json", "text/plain"], ["text/plain", "application/json"]] {
        let response = gateway.post_mcp(&[("content-type", types[0]), ("content-type", types[1])], CALL).await;
        assert!(matches!(response.status, 400 | 415), "{types:?}: {}", response.status);
    }
    assert!(a.calls().is_empty());
}

// J3
#[tokio::test]
async fn a_body_beyond_the_limit_is_413() {
    let (a, gateway) = one().await;
    let filler = "x".repeat(4 << 20);
    let body = CALL.replace("\"arguments\":{}", &format!("\"arguments\":{{\"q\":\"{filler}\"}}"));
    let response = gateway.http.try_send("POST", &gateway.url("/mcp"), &[("content-type", "application/json")], body.clone()).await;
    // The gateway may close before everything was written; what it must not do is run it.
    if let Ok(response) = response {
        assert_eq!(response.status, 413);
    }
    // Said beforehand: refused before a byte of it is sent.
    let mut raw = gateway.raw().await;
    raw.write(
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", gateway.addr(), (4 << 20) + 1)
            .as_bytes(),
    )
    .await;
    assert_eq!(raw.reply().await.status(), 413);
    // Not said: refused while it streams.
    let mut raw = gateway.raw().await;
    raw.write(
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", gateway.addr()).as_bytes(),
    )
    .await;
    let block = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..70 {
        if !raw.write(block.as_bytes()).await {
            break;
        }
    }
    let reply = raw.reply().await;
    assert!(reply.status() == 413 || reply.bytes.is_empty(), "{}", reply.text());
    assert!(a.calls().is_empty());
    assert!(gateway.metric("transom_rejected_total").await > 0.0);
    gateway.client().await.call("echo", json!({})).await.result();
}

// J3
#[tokio::test]
async fn a_compressed_body_is_415() {
    let (a, gateway) = one().await;
    for coding in ["gzip", "br", "deflate", "zstd", "gzip, gzip"] {
        assert_eq!(gateway.post_mcp(&[("content-encoding", coding)], CALL).await.status, 415, "{coding}");
        // Said in a second header, it is said.
        let hidden = [("content-encoding", "identity"), ("content-encoding", coding)];
        assert_eq!(gateway.post_mcp(&hidden, CALL).await.status, 415, "identity and {coding}");
    }
    assert!(a.calls().is_empty());
}

// J4: slow in every way, and everyone else is served.
#[tokio::test]
async fn the_slow_are_cut_off_and_the_others_served() {
    let big = target("big").tool("big", []).reply("big", json!({"content": [{"type": "text", "text": "x".repeat(14 << 20)}]})).tool("echo", []);
    let gateway = gateway().target(&big).start().await;
    let host = gateway.addr();
    let start = Instant::now();
    let mut slow_heads = Vec::new();
    for _ in 0..50 {
        let mut raw = gateway.raw().await;
        raw.write(format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nX-Slow: ").as_bytes()).await;
        slow_heads.push(raw);
    }
    let mut slow_body = gateway.raw().await;
    slow_body
        .write(format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{").as_bytes())
        .await;
    let mut deaf = gateway.raw().await;
    let call = CALL.replace("echo", "big");
    deaf.write(
        format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{call}", call.len()).as_bytes(),
    )
    .await;
    let client = gateway.client().await;
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let start = Instant::now();
        client.call("echo", json!({})).await.result();
        slowest = slowest.max(start.elapsed());
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?} for a good client");
    for mut raw in slow_heads {
        let reply = raw.read(Duration::from_secs(20)).await;
        assert!(reply.closed, "a head may take ten seconds, not {:?}", start.elapsed());
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // Nobody has read a byte of the large reply so far: it is given up.
    tokio::time::sleep(Duration::from_secs(22).saturating_sub(start.elapsed())).await;
    let reply = deaf.read(Duration::from_secs(5)).await;
    assert!(reply.closed && reply.bytes.len() < 14 << 20, "{} bytes, closed: {}", reply.bytes.len(), reply.closed);
    let reply = slow_body.read(Duration::from_secs(25)).await;
    assert!(reply.closed || reply.status() == 408, "a body may take thirty seconds, not {:?}", start.elapsed());
}

// J4, the other side: a connection that is in use, or rests for a while, is not slow.
#[tokio::test]
async fn a_connection_in_use_outlives_the_patience_for_one_head() {
    let (_a, gateway) = one().await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let request =
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{list}", gateway.addr(), list.len());
    let (mut busy, mut resting) = (gateway.raw().await, gateway.raw().await);
    resting.write(request.as_bytes()).await;
    assert_eq!(resting.reply().await.status(), 200);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(13) {
        assert!(busy.write(request.as_bytes()).await, "closed after {:?}", start.elapsed());
        assert_eq!(busy.reply().await.status(), 200, "closed after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    resting.write(request.as_bytes()).await;
    assert_eq!(resting.reply().await.status(), 200, "closed while at rest");
}

// J6
#[tokio::test]
async fn batches_beyond_reason_are_refused() {
    let (a, gateway) = one().await;
    let session = gateway.client_of("2025-03-26").await.session().unwrap();
    let many = |n: usize| format!("[{}]", vec![CALL; n].join(","));
    for (what, body) in
        [("ten thousand", many(10_000)), ("21", many(21)), ("none", "[]".into()), ("a number", "[1]".into()), ("nested", format!("[[{CALL}]]"))]
    {
        let response = gateway.post_mcp(&[("mcp-session-id", &session)], body).await;
        // Inside a batch that is one, what is no request is an error of its own.
        let inside = matches!(what, "a number" | "nested") && response.status == 200 && response.json()[0]["error"]["code"] == -32600;
        assert!(inside || (response.status, response.json()["error"]["code"].as_i64()) == (400, Some(-32600)), "{what}: {}", response.text());
    }
    assert!(a.calls().is_empty());
}

// J7
#[tokio::test]
async fn depth_is_bounded() {
    let (a, gateway) = one().await;
    let nested = |n: usize| CALL.replace("\"arguments\":{}", &format!("\"arguments\":{{\"q\":{}{}}}", "[".repeat(n), "]".repeat(n)));
    for body in [nested(65), nested(100_000), "[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        let response = gateway.post_mcp(&[], body).await;
        assert_eq!(response.status, 400, "{}", response.text());
        assert!(matches!(response.json()["error"]["code"].as_i64(), Some(-32600 | -32700)), "{}", response.text());
    }
    assert!(a.calls().is_empty());
    assert_eq!(gateway.post_mcp(&[], nested(50)).await.status, 200);
}

// security.md 0.2 and 0.3: duplicate keys and node bombs.
#[tokio::test]
async fn duplicate_keys_and_node_bombs_are_refused() {
    let (a, gateway) = one().await;
    let bomb = CALL.replace("\"arguments\":{}", &format!("\"arguments\":{{\"q\":[{}0]}}", "{\"a\":0},".repeat(400_000)));
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"echo","arguments":{}}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","name":"echo","arguments":{}}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"\u0061":2}}}"#.into(),
        bomb,
    ] {
        let response = gateway.post_mcp(&[], body.clone()).await;
        assert_eq!(
            (response.status, response.json()["error"]["code"].as_i64()),
            (400, Some(-32600)),
            "{}: {}",
            &body[..body.len().min(120)],
            response.text()
        );
    }
    for body in ["", "{", "nonsense", "\u{feff}{}", "{\"a\":1}x", "{'a':1}", "NaN"] {
        let response = gateway.post_mcp(&[], body).await;
        assert_eq!(response.status, 400, "{body:?}");
        assert!(matches!(response.json()["error"]["code"].as_i64(), Some(-32600 | -32700)), "{body:?}: {}", response.text());
    }
    let response = gateway.post_mcp(&[], &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"x\":\"\xff\"}}"[..]).await;
    assert_eq!((response.status, response.json()["error"]["code"].as_i64()), (400, Some(-32700)));
    assert!(a.calls().is_empty());
}

// J1, J2: a connection that is closed under somebody's hands takes its answer along
#[tokio::test]
async fn who_is_refused_while_still_sending_can_read_why() {
    let (a, gateway) = one().await;
    let bomb = CALL.replace("\"arguments\":{}", &format!("\"arguments\":{{\"q\":[{}0]}}", "{\"a\":0},".repeat(500_000)));
    for (body, status) in [("x".repeat(6 << 20), 413), (bomb, 400)] {
        for _ in 0..5 {
            let mut wire = wire::Wire::connect(gateway.addr()).await.unwrap();
            wire.send(&wire::post(gateway.addr(), None, &body)).await.unwrap();
            let answer = wire.answer().await.unwrap();
            assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{}", answer.text());
        }
    }
    assert!(a.calls().is_empty());
}

// J8
#[tokio::test]
async fn many_idle_streams_cost_no_one_anything() {
    let (a, gateway) = one().await;
    let mut streams = Vec::new();
    for number in 0..300 {
        let client = gateway.client().await;
        streams.push(client.stream().await);
        if number % 3 == 0 {
            streams.push(gateway.modern().await.listen(json!({"toolsListChanged": true})).await);
        }
    }
    assert_eq!(gateway.metric("transom_streams_open").await, streams.len() as f64);
    gateway.client().await.call("echo", json!({})).await.result();
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["other"]);
    a.notify_list_changed();
    for stream in &mut streams {
        stream.notification("notifications/tools/list_changed").await;
    }
    drop(streams);
    eventually("closed streams are forgotten", || async { gateway.metric("transom_streams_open").await == 0.0 }).await;
}

// J8: a flood towards a client that does not read is bounded, and its call still ends.
#[tokio::test]
async fn a_flood_of_progress_does_not_pile_up() {
    let a = target("a").tool("flood", []).handler("flood", |_, context| async move {
        for step in 0..20_000 {
            context.progress(step);
        }
        Ok(target::text("done"))
    });
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let message = client.message("tools/call", json!({"name": "flood", "arguments": {}, "_meta": {"progressToken": 1}}));
    let mut stream = client.open_message(&message).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut last = Value::Null;
    while let Some(message) = stream.message_within(Duration::from_secs(20)).await {
        last = message;
    }
    assert_eq!(last["result"]["content"][0]["text"], "done", "{last}");
}

// J9
#[tokio::test]
async fn a_stuck_target_sheds_load_and_the_others_do_not_notice() {
    let (stuck, fine) = (target("stuck").tool("hang", []).hostile("tools/call", Hostile::Hang), target("fine").tool("echo", []));
    let gateway = gateway().target(&stuck).target(&fine).start().await;
    let client = gateway.client().await;
    let mut pending: Vec<_> = (0..300).map(|_| client.start_call("hang", json!({}))).collect();
    let start = Instant::now();
    let mut refused = 0;
    for call in &mut pending {
        let limit = Duration::from_secs(6).saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        if let Some(reply) = call.reply_within(limit).await {
            assert_eq!(reply.error_code(), 1001, "{}", reply.raw);
            assert_eq!(reply.status, 503);
            assert!(reply.header("retry-after").is_some());
            refused += 1;
        }
    }
    assert_eq!(refused, 300 - 256);
    assert_eq!(stuck.requests_of("tools/call").len(), 256);
    let start = Instant::now();
    fine_call(&gateway).await;
    assert!(start.elapsed() < Duration::from_millis(500));
}

// J9: what a script sends counts until it is answered.
#[tokio::test]
async fn the_bytes_of_scripts_under_way_count_until_they_are_answered() {
    let stuck = target("stuck").tool("hang", []).hostile("tools/call", Hostile::Hang);
    let gateway = std::sync::Arc::new(gateway().target(&stuck).start().await);
    // Only the arguments travel on, so that the test needs little more than what it fills.
    let body = bytes::Bytes::from(format!(r#"{{"pad":"{}"}}"#, "x".repeat((4 << 20) - 100)));
    let post = || {
        let (gateway, body) = (gateway.clone(), body.clone());
        tokio::spawn(async move { gateway.send("POST", "/tools/hang/invoke", &[("content-type", "application/json")], body).await })
    };
    let mut pending = Vec::new();
    // A few at a time: each is four megabytes to read.
    for _ in 0..16 {
        pending.extend((0..4).map(|_| post()));
        eventually("they wait", || async { stuck.requests_of("tools/call").len() == pending.len() }).await;
    }
    let response = post().await.unwrap();
    assert_eq!((response.status, &response.json()["error"]["code"]), (503, &json!("overloaded")), "{}", response.text());
    pending.iter().for_each(|call| call.abort());
}

async fn fine_call(gateway: &Gateway) {
    gateway.client().await.call("echo", json!({})).await.result();
}

// J9, T23: a short rush may wait; when it does not end, who comes next hears so at once, and the next call after it is served.
#[tokio::test]
async fn who_would_wait_in_vain_is_turned_away_at_once() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let busy = target("busy").tool("wait", []).handler("wait", move |_, _| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.ok();
            Ok(target::text("done"))
        }
    });
    let gateway = gateway().target(&busy).start().await;
    let client = gateway.client().await;
    let mut pending: Vec<_> = (0..257).map(|_| client.start_call("wait", json!({}))).collect();
    eventually("every place is taken", || async { busy.calls().len() == 256 }).await;
    let mut turned_away = None;
    for call in &mut pending {
        if let Some(reply) = call.reply_within(Duration::from_millis(20)).await {
            turned_away = Some(reply);
        }
    }
    assert_eq!(turned_away.expect("one waited in vain").error_code(), 1001);
    for attempt in 0..5 {
        let asked = Instant::now();
        let reply = client.call("wait", json!({})).await;
        assert_eq!((reply.status, reply.error_code()), (503, 1001));
        // The first may be a rush of its own: a second has passed without anybody being turned away.
        assert!(attempt == 0 || asked.elapsed() < Duration::from_millis(700), "{:?} to be turned away", asked.elapsed());
    }
    open.send_replace(true);
    eventually("it serves again", || async { client.call("wait", json!({})).await.message["result"].is_object() }).await;
}

// J4, J8: what was a stream is a connection again, however long nothing happens on it.
#[tokio::test]
async fn a_connection_whose_stream_has_ended_serves_the_next_request_after_a_rest() {
    let slow = target("a").slow("work", Duration::from_millis(100));
    let gateway = gateway().target(&slow).start().await;
    for rest in [0, 400, 1_300] {
        let (mut calls, mut stream) = (Wire::connect(gateway.addr()).await.unwrap(), Wire::connect(gateway.addr()).await.unwrap());
        let session = calls.initialize().await.unwrap();
        let request = |method: &str| {
            format!("{method} /mcp HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n", gateway.addr())
        };
        stream.send(request("GET").as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(calls.exchange(request("DELETE").as_bytes()).await.unwrap().status < 300);
        assert_eq!(stream.answer().await.unwrap().status, 200, "the stream, to its end");
        tokio::time::sleep(Duration::from_millis(rest)).await;
        let message = wire::call(1, "work", &json!({"nonce": 1}));
        let answer = tokio::time::timeout(Duration::from_secs(5), stream.post(None, &message)).await;
        assert_eq!(answer.unwrap_or_else(|_| panic!("no answer after {rest} ms")).unwrap().status, 200);
    }
}

// J4, J8: what rests costs next to nothing, and is as good as new when it is needed.
#[tokio::test]
async fn a_connection_that_has_rested_serves_the_next_request_whole_or_in_pieces() {
    let (_a, gateway) = one().await;
    let request = |filler: usize| {
        let call = CALL.replace("{}", &format!("{{\"q\":\"{}\"}}", "x".repeat(filler)));
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{call}", gateway.addr(), call.len())
    };
    let mut raw = gateway.raw().await;
    for (filler, pieces) in [(10, 1), (10, 40), (200_000, 1), (9_000, 7), (0, 3)] {
        let request = request(filler);
        for piece in request.as_bytes().chunks(request.len().div_ceil(pieces)) {
            assert!(raw.write(piece).await);
            if pieces > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let reply = raw.reply().await;
        assert_eq!(reply.status(), 200, "{filler} in {pieces}: {}", reply.text().chars().take(300).collect::<String>());
        assert!(reply.bytes.len() > filler);
        // Longer than it takes to be put to rest.
        tokio::time::sleep(Duration::from_millis(1_300)).await;
    }
    raw.write(b"POST /mcp HTTP/1.1\nHost: x\n\n").await;
    let reply = raw.reply().await;
    assert_eq!(reply.status(), 400, "rested or not, a head is looked at: {}", reply.text());
}

// J8: a stream is written by other hands than its head; nobody can tell.
#[tokio::test]
async fn a_stream_is_framed_to_its_end_and_its_connection_lives_on() {
    let (_a, gateway) = one().await;
    let client = gateway.client().await;
    let session = client.session().unwrap();
    let mut raw = gateway.raw().await;
    let get = |connection: &str| {
        format!("GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n{connection}\r\n", gateway.addr())
    };
    raw.write(get("Connection: keep-alive\r\n").as_bytes()).await;
    eventually("the stream is open", || async { gateway.metric("transom_streams_open").await == 1.0 }).await;
    let mut closing = gateway.raw().await;
    closing.write(get("Connection: close\r\n").as_bytes()).await;
    let mut old = gateway.raw().await;
    old.write(get("").replace("HTTP/1.1", "HTTP/1.0").as_bytes()).await;
    eventually("all streams are open", || async { gateway.metric("transom_streams_open").await == 3.0 }).await;
    assert_eq!(client.delete().await, 200);
    let reply = raw.reply().await;
    let text = reply.text();
    assert!(!reply.closed && text.contains("transfer-encoding: chunked") && text.ends_with("\n\n\r\n0\r\n\r\n"), "{text}");
    assert!(text.contains(": the server closed this stream"), "{text}");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let post =
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{list}", gateway.addr(), list.len());
    raw.write(post.as_bytes()).await;
    assert_eq!(raw.reply().await.status(), 200);
    for mut other in [closing, old] {
        let reply = other.read(Duration::from_secs(5)).await;
        assert!(reply.closed && reply.text().contains(": the server closed this stream"), "{}", reply.text());
    }
    eventually("no stream is left", || async { gateway.metric("transom_streams_open").await == 0.0 }).await;
}

// H13, J8: a session keeps what it needs of the request that began it, and nothing else.
#[tokio::test]
async fn sessions_do_not_keep_the_requests_that_began_them() {
    let process = process().start().await;
    let filler = "z".repeat(1 << 20);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "big", "version": "1"}, "filler": filler,
    }});
    let begin = || async { assert_eq!(process.http.post_json(&process.url("/mcp"), &hello).await.status, 200) };
    for _ in 0..20 {
        begin().await;
    }
    let before = sys::resident(process.pid());
    for _ in 0..200 {
        begin().await;
    }
    let grown = sys::resident(process.pid()).saturating_sub(before) >> 20;
    assert!(grown < 50, "200 sessions that began with 1 MiB each keep {grown} MiB");
}
