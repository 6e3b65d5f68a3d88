//! Attacks that have the gateway go somewhere, or a browser come from somewhere.

use super::{call, one};
use transom_tests::*;

// mcp-remote handed the `authorization_endpoint` a server named to a shell that was to open a browser, and so ran what the server wrote.
#[tokio::test]
async fn cve_2025_6514_an_authorization_endpoint_of_a_server_is_neither_opened_nor_run() {
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof");
    let trap = target("trap");
    let endpoint = format!("a:$(touch {})?response_type=code", proof.display());
    let metadata =
        json!({"issuer": trap.url(), "authorization_endpoint": endpoint, "token_endpoint": trap.url(), "registration_endpoint": trap.url()});
    // A server that answers 401 to everything and shows where to go.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let challenge = format!("Bearer resource_metadata=\"{}\", authorization_uri=\"{endpoint}\"", trap.url());
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 16 << 10];
            let Ok(1..) = stream.read(&mut head).await else { continue };
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let body = metadata.to_string();
            let reply = format!(
                "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: {challenge}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(reply.as_bytes()).await.ok();
        }
    });
    let mut spec = target("evil").spec();
    spec.transport = transom_upstream::Transport::Http { url: format!("http://{at}/mcp").parse().unwrap(), headers: Vec::new(), tls: None };
    let fine = target("fine").tool("echo", []);
    let gateway = gateway().spec(spec).target(&fine).start().await;
    eventually("it was asked more than once", async || asked.load(std::sync::atomic::Ordering::SeqCst) >= 3).await;
    assert!(!proof.exists(), "something was run");
    assert!(trap.requests().is_empty() && trap.connections() == 0, "something was fetched");
    assert_eq!(gateway.client().await.tool_names().await, ["echo"]);
}

// Docker's gateway took requests on loopback whatever name they were sent to, so that a page whose name was rebound to 127.0.0.1 could call tools.
#[tokio::test]
async fn cve_2025_64443_a_page_whose_name_is_rebound_to_loopback_calls_nothing() {
    let (a, gateway) = one().await;
    let port = gateway.addr().port();
    for (host, origin) in
        [("rebound.evil.example", "http://rebound.evil.example"), ("7f000001.evil.example", "null"), ("localhost", "http://rebound.evil.example")]
    {
        for (path, method) in [("/mcp", "POST"), ("/sse", "GET"), ("/messages", "POST"), ("/tools/echo/invoke", "POST")] {
            let (host, origin) = (format!("{host}:{port}"), if origin == "null" { origin.to_owned() } else { format!("{origin}:{port}") });
            let headers = [("host", host.as_str()), ("origin", &origin), ("content-type", "application/json"), ("accept", "*/*")];
            let reply = gateway.send(method, path, &headers, call("echo")).await;
            assert_eq!(reply.status, 403, "{method} {path} {host} {origin}: {}", reply.text());
            assert!(reply.header("access-control-allow-origin").is_empty());
        }
    }
    assert!(a.calls().is_empty());
}

// rmcp's HTTP server did not look at `Host` at all, which made every server on it reachable by DNS rebinding.
#[tokio::test]
async fn cve_2026_42559_a_host_that_is_not_ours_is_refused_on_every_listener() {
    let (a, gateway) = one().await;
    let before = a.touched();
    for listener in [gateway.addr(), gateway.admin_addr(), gateway.metrics_addr()] {
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80", "[::1].evil.example", "127.0.0.1@evil.example"]
        {
            // Scrapers come by whatever name they were told, to `/metrics` only; nothing can be called there.
            for path in ["/mcp", "/status", "/api/reload", "/tools"] {
                let mut raw = Raw::connect(listener).await;
                let body = call("echo");
                let request =
                    format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                raw.write(request.as_bytes()).await;
                let status = raw.reply().await.status();
                assert!(matches!(status, 400 | 403), "{listener}{path} as {host}: {status}");
            }
        }
    }
    assert_eq!(a.touched(), before);
}

// The MCP registry redirected `//evil.example/` to a path that browsers read as another host: an open redirect.
#[tokio::test]
async fn cve_2026_44427_a_path_that_looks_like_a_host_is_not_redirected() {
    let (a, gateway) = one().await;
    for path in [
        "//evil.example/",
        "//evil.example/%2e%2e/",
        "/\\evil.example/",
        "///evil.example",
        "//evil.example/mcp/",
        "/mcp//evil.example",
        "/%2f%2fevil.example/",
        "/.//evil.example",
    ] {
        for listener in [gateway.addr(), gateway.admin_addr(), gateway.metrics_addr()] {
            let mut raw = Raw::connect(listener).await;
            raw.write(format!("GET {path} HTTP/1.1\r\nHost: {listener}\r\nConnection: close\r\n\r\n").as_bytes()).await;
            let reply = raw.reply().await;
            assert!(reply.status() >= 400, "{listener}{path}: {}", reply.text());
            assert!(!reply.text().to_lowercase().contains("\r\nlocation:"), "{listener}{path}: {}", reply.text());
        }
    }
    assert!(a.calls().is_empty());
}

// rmcp's client followed redirects to other origins and sent its custom headers, API keys among them, along.
#[tokio::test]
async fn ghsa_9g45_5xwm_f3wc_headers_for_a_target_do_not_follow_a_redirect() {
    let trap = target("trap").tool("echo", []);
    let a = target("a").tool("echo", []);
    let gateway = gateway()
        .target_with(&a, |spec| {
            if let transom_upstream::Transport::Http { headers, .. } = &mut spec.transport {
                headers.push((hyper::header::HeaderName::from_static("x-api-key"), transom_upstream::Secret::new("CANARY-of-the-target")));
            }
        })
        .start()
        .await;
    let client = gateway.client().await;
    client.call("echo", json!({})).await.result();
    assert_eq!(a.requests_of("tools/call")[0].header("x-api-key"), Some("CANARY-of-the-target"));
    a.misbehave("*", Some(Hostile::Redirect(trap.url())));
    let refused = client.call("echo", json!({})).await;
    assert!(refused.error_code() != 0, "{}", refused.message);
    assert!(!refused.raw.contains("CANARY"), "{}", refused.raw);
    assert!(trap.requests().is_empty() && trap.connections() == 0, "nobody came to where it points");
}
