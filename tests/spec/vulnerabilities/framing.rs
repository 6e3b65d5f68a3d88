//! Attacks by where one message ends and the next begins.

use super::{as_somebody, call, one, two_people};
use std::time::Duration;
use transom_tests::*;

// Pingora passed everything after a request with `Upgrade` on to the server before the server had agreed, so that a second request went by unseen.
#[tokio::test]
async fn cve_2026_2833_what_follows_an_upgrade_is_not_passed_on() {
    let (a, gateway) = one().await;
    let (host, hidden) = (gateway.addr(), call("echo"));
    let second = format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len());
    let mut sent = Vec::new();
    for upgrade in ["websocket", "h2c", "foo", "TLS/1.0, HTTP/1.1"] {
        for (method, body) in [("GET", ""), ("POST", "{}")] {
            let first = format!(
                "{method} /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut raw = gateway.raw().await;
            raw.write(format!("{first}{second}").as_bytes()).await;
            sent.push((format!("{method} {upgrade}"), raw));
        }
    }
    // Closed a second after the answer: whoever still sends then would not read it otherwise.
    for (what, mut raw) in sent {
        let reply = raw.read(Duration::from_secs(5)).await;
        assert_eq!((reply.status(), reply.count(), reply.closed), (400, 1, true), "{what}: {}", reply.text());
    }
    assert!(a.calls().is_empty(), "the second request was seen by the target");
}

// Pingora believed a length where the server behind it believed the chunks, in HTTP/1.0 and with several codings, so that both saw different requests.
#[tokio::test]
async fn cve_2026_2835_a_body_with_two_lengths_is_no_body() {
    let (a, gateway) = one().await;
    let (host, hidden) = (gateway.addr(), call("echo"));
    let smuggled =
        format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len());
    let chunks = format!("0\r\n\r\n{smuggled}");
    for (version, framing) in [
        ("1.1", format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", chunks.len())),
        ("1.1", format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", chunks.len())),
        ("1.1", format!("Content-Length: {}\r\nTransfer-Encoding: identity, chunked\r\n", chunks.len())),
        ("1.1", "Transfer-Encoding: chunked, identity\r\n".to_owned()),
        ("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned()),
        ("1.1", format!("Content-Length: {}\r\nTransfer-Encoding: xchunked\r\n", chunks.len())),
        ("1.1", format!("Content-Length: {}\r\nTransfer-Encoding : chunked\r\n", chunks.len())),
        ("1.1", format!("Content-Length: {}\r\nTransfer-Encoding:\tchunked\r\n", chunks.len())),
        ("1.0", "Transfer-Encoding: chunked\r\n".to_owned()),
        ("1.0", "Connection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n".to_owned()),
        ("1.1", format!("Content-Length: 5\r\nContent-Length: {}\r\n", chunks.len())),
    ] {
        let mut raw = gateway.raw().await;
        raw.write(format!("POST /mcp HTTP/{version}\r\nHost: {host}\r\nContent-Type: application/json\r\n{framing}\r\n{chunks}").as_bytes()).await;
        let reply = raw.read(Duration::from_millis(500)).await;
        assert!(matches!(reply.status(), 400..=499 | 501 | 505), "{framing:?}: {}", reply.text());
        assert_eq!(reply.count(), 1, "{framing:?}: one answer and no more: {}", reply.text());
    }
    assert!(a.calls().is_empty(), "the second request was seen by the target");
}

// Pingora's cache knew replies by their path alone, so that what one host or one person was shown was shown to the others.
#[tokio::test]
async fn cve_2026_2836_what_one_is_shown_is_not_kept_for_another() {
    let a = target("a").tool("of_alice", []).tool("of_bob", []);
    let rules = vec![super::allow(r#"has(mcp.tool) && mcp.tool.name == "of_" + jwt.name"#)];
    let gateway = two_people(&a, Some(rules)).await;
    let (alice, bob) = (as_somebody(&gateway, "alice").await, as_somebody(&gateway, "bob").await);
    for _ in 0..50 {
        assert_eq!(alice.tool_names().await, ["of_alice"]);
        assert_eq!(bob.tool_names().await, ["of_bob"]);
    }
    for id in ["alice", "bob", "alice"] {
        for path in ["/tools", "/runtime/tools.ts", "/status"] {
            let bearer = format!("Bearer {}", super::key_of(id));
            let text = gateway.send("GET", path, &[("authorization", &bearer)], "").await.text();
            let other = if id == "alice" { "of_bob" } else { "of_alice" };
            assert!(!text.contains(other), "{path} as {id}: {text}");
        }
    }
    // By raw bytes: the same path, another host, in every form that names one.
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for request in [
        "POST /mcp HTTP/1.1\r\nHost: evil.example\r\n".to_owned(),
        format!("POST http://evil.example/mcp HTTP/1.1\r\nHost: {}\r\n", gateway.addr()),
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nHost: evil.example\r\n", gateway.addr()),
    ] {
        let mut raw = gateway.raw().await;
        let head =
            format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", super::key_of("alice"), body.len());
        raw.write(format!("{request}{head}{body}").as_bytes()).await;
        let reply = raw.reply().await;
        assert!(matches!(reply.status(), 400 | 403), "{request}: {}", reply.text());
        assert!(!reply.text().contains("of_alice"), "{request}");
    }
}

// Servers of HTTP/2 began to work on streams that were opened and reset at once, without counting them as open: work without end from one connection.
#[tokio::test(flavor = "multi_thread")]
async fn cve_2023_44487_streams_that_are_reset_at_once_are_not_worked_on() {
    let (a, gateway) = one().await;
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    };
    let field = |name: &str, value: &str| [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat();
    let host = gateway.addr().to_string();
    let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/mcp"), (":authority", &host), ("content-type", "application/json")];
    let head: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
    let body = call("echo");
    let mut raw = gateway.raw().await;
    let mut open = raw.write(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(4, 0, 0, &[])].concat()).await;
    let mut sent = 0;
    for stream in (1..100_000u32).step_by(2) {
        let attack = [frame(1, 4, stream, &head), frame(0, 1, stream, body.as_bytes()), frame(3, 0, stream, &8u32.to_be_bytes())].concat();
        open = open && raw.write(&attack).await;
        if !open {
            break;
        }
        sent += 1;
    }
    let reply = raw.read(Duration::from_secs(5)).await;
    assert!(reply.closed, "{sent} streams and it is still open");
    assert!(sent < 50_000, "all were taken");
    let reached = a.calls().len();
    assert!(reached <= 200, "{sent} sent, {reached} reached the target");
    gateway.client().await.call("echo", json!({})).await.result();
}
