//! Group I: what a web page on the same machine could try.

use std::net::SocketAddr;
use transom_tests::*;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

async fn one() -> (Target, Gateway) {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).config(|config| config.allowed_origins = vec!["https://app.example".into()]).start().await;
    (a, gateway)
}

// I1, CVE-2026-42559, CVE-2025-64443
#[tokio::test]
async fn a_foreign_origin_is_refused_on_every_listener() {
    let (a, gateway) = one().await;
    let before = a.touched();
    let refused_before = gateway.rejected("origin").await;
    let foreign = [
        "http://evil.com",
        "null",
        "http://localhost.evil.com",
        "http://[::1].evil.example",
        "http://localhost:80@evil",
        "http://127.0.0.1.evil.com",
        "https://app.example.evil.com",
        "https://app.example:8443",
        "http://app.example",
        "file://",
        "chrome-extension://abc",
        "localhost",
        "http://evil.com, http://localhost",
        "",
    ];
    for origin in foreign {
        let response = gateway.post_mcp(&[("origin", origin)], LIST).await;
        assert_eq!(response.status, 403, "{origin:?}");
        assert_eq!(response.json()["error"]["code"], -32600, "{origin:?}");
        for path in ["/mcp", "/sse", "/status", "/tools", "/tools/echo", "/events"] {
            assert_eq!(gateway.send("GET", path, &[("origin", origin), ("accept", "text/event-stream")], "").await.status, 403, "{path} {origin:?}");
        }
        assert_eq!(gateway.send("POST", "/tools/echo/invoke", &[("origin", origin)], "{}").await.status, 403);
        for listener in [gateway.admin_addr(), gateway.metrics_addr()] {
            let response = gateway.http.send("GET", &format!("http://{listener}/metrics"), &[("origin", origin)], "").await;
            assert_eq!(response.status, 403, "{listener} {origin:?}");
        }
    }
    let twice = gateway.post_mcp(&[("origin", "https://app.example"), ("origin", "https://app.example")], LIST).await;
    assert_eq!(twice.status, 403, "two origins");
    assert_eq!(a.touched(), before, "the target was not contacted");
    eventually("each is counted", || async { gateway.rejected("origin").await >= refused_before + foreign.len() as f64 }).await;
}

// security.md 4: loopback names when bound to loopback, and what the config says.
#[tokio::test]
async fn an_allowed_origin_is_served() {
    let (_a, gateway) = one().await;
    for origin in ["https://app.example", "http://localhost:6274", "http://127.0.0.1:3000", "http://[::1]:8080", "http://localhost"] {
        assert_eq!(gateway.post_mcp(&[("origin", origin)], LIST).await.status, 200, "{origin}");
    }
    assert_eq!(gateway.post_mcp(&[], LIST).await.status, 200, "no browser, no origin");
}

// I1: DNS rebinding sends a foreign Host.
#[tokio::test]
async fn a_foreign_host_is_refused() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).config(|config| config.allowed_hosts = vec!["mcp.corp.example".into()]).start().await;
    let before = a.touched();
    let port = gateway.addr().port();
    for host in [
        "evil.com".to_owned(),
        format!("evil.com:{port}"),
        "localhost.evil.com".into(),
        "127.0.0.1.nip.io".into(),
        "169.254.169.254".into(),
        String::new(),
    ] {
        let mut raw = gateway.raw().await;
        raw.write(
            format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{LIST}", LIST.len())
                .as_bytes(),
        )
        .await;
        let reply = raw.reply().await;
        assert!(matches!(reply.status(), 400 | 403), "{host:?}: {}", reply.text());
        for path in ["/status", "/tools", "/events", "/sse"] {
            let mut raw = gateway.raw().await;
            raw.write(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await;
            assert!(matches!(raw.reply().await.status(), 400 | 403), "{path} {host:?}");
        }
        if !host.is_empty() {
            let mut raw = Raw::connect(gateway.admin_addr()).await;
            raw.write(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await;
            assert_eq!(raw.reply().await.status(), 403, "admin {host:?}");
            // A scraper and an orchestrator may use any name.
            for path in ["/health", "/ready"] {
                let mut raw = gateway.raw().await;
                raw.write(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await;
                assert_eq!(raw.reply().await.status(), 200, "{path} {host:?}");
            }
        }
    }
    for host in [
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        "localhost".into(),
        "[::1]".into(),
        "mcp.corp.example".into(),
        "mcp.corp.example:443".into(),
    ] {
        assert_eq!(gateway.post_mcp(&[("host", &host)], LIST).await.status, 200, "{host}");
    }
    assert_eq!(a.touched(), before);
}

/// Requests a page could make to the admin listener without being asked.
async fn simple_requests(gateway: &Gateway, listener: SocketAddr, path: &str) -> Vec<u16> {
    let url = format!("http://{listener}{path}");
    let mut statuses = Vec::new();
    for (method, headers) in [
        ("GET", &[][..]),
        ("POST", &[("content-type", "text/plain")]),
        ("POST", &[("content-type", "application/x-www-form-urlencoded")]),
        ("POST", &[("content-type", "multipart/form-data; boundary=x")]),
        ("POST", &[("content-type", "application/json"), ("origin", "http://localhost:3000")]),
        ("POST", &[("content-type", "application/json")]),
    ] {
        statuses.push(gateway.http.send(method, &url, headers, "{}").await.status);
    }
    statuses
}

// I2
#[tokio::test]
async fn nothing_on_the_admin_listener_changes_without_a_token() {
    let (_a, gateway) = one().await;
    let generation = gateway.get("/status").await.json()["registry"]["generation"].clone();
    for path in ["/reload", "/api/reload", "/api/preview", "/quit", "/shutdown", "/api/servers"] {
        for status in simple_requests(&gateway, gateway.admin_addr(), path).await {
            assert!(status >= 400, "{path}: {status}");
        }
    }
    assert!(gateway.admin_addr().ip().is_loopback());
    assert_eq!(gateway.get("/status").await.json()["registry"]["generation"], generation);
}

// I3, CVE-2025-49596, CVE-2026-42271
#[tokio::test]
async fn no_endpoint_takes_a_command_or_an_address() {
    let (a, gateway) = one().await;
    let evil = target("evil").tool("pwn", []);
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof");
    let command = json!({"name": "x", "command": "touch", "args": [proof], "cmd": "touch", "url": evil.url(), "stdio": {"cmd": "touch", "args": [proof]},
        "mcpServers": {"x": {"command": "touch", "args": [proof]}}, "transport": "stdio", "host": evil.url()});
    let before = a.touched();
    for listener in [gateway.addr(), gateway.admin_addr(), gateway.metrics_addr()] {
        for path in [
            "/",
            "/api/servers",
            "/api/targets",
            "/api/config",
            "/api/test",
            "/test_connection",
            "/mcp-rest/test/connection",
            "/stdio",
            "/proxy",
            "/config",
            "/servers",
            "/connect",
        ] {
            for method in ["POST", "PUT", "PATCH"] {
                let response = gateway
                    .http
                    .send(
                        method,
                        &format!("http://{listener}{path}?command=touch&url={}", evil.url()),
                        &[("content-type", "application/json")],
                        command.to_string(),
                    )
                    .await;
                assert!(response.status >= 400, "{method} {listener}{path}: {}", response.status);
            }
        }
    }
    assert!(!proof.exists() && evil.requests().is_empty());
    assert_eq!(a.touched(), before);
}

// I4, CVE-2026-44427
#[tokio::test]
async fn paths_are_matched_exactly_and_never_redirected() {
    let (a, gateway) = one().await;
    let before = a.touched();
    let paths = [
        "/mcp/../admin",
        "//admin",
        "/%61dmin",
        "/;/admin",
        "/admin",
        "/mcp/",
        "/mcp//",
        "//mcp",
        "/MCP",
        "/Mcp",
        "/mcp/.",
        "/mcp/..",
        "/mcp;x",
        "/mcp%2f",
        "/%6dcp",
        "/mcp/%2e%2e/admin",
        "/mcp/..%2fadmin",
        "/mcp\\..\\admin",
        "/./mcp",
        "/../mcp",
        "/..",
        "/...",
        "/health/",
        "/health/../mcp",
        "/status/",
        "/tools/../status",
        "/registry.json",
        "/api/reload",
        "/api/generations",
        "/metrics",
        "/ui",
        "/.env",
        "/.git/config",
        "//evil.com/",
        "//evil.com/%2e%2e",
        "/\u{5c}evil.com",
        "/mcp/a/../../admin",
        "/mcp/a/b",
        "/sse/",
        "/messages/",
        "/index.html",
        "/debug/pprof",
        "/mcp%00",
        "/mcp%20",
        "/events/",
        "/cgi-bin/",
    ];
    let mut wrong = Vec::new();
    for path in paths {
        for method in ["GET", "POST"] {
            let mut raw = gateway.raw().await;
            let host = gateway.addr();
            raw.write(
                format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{LIST}", LIST.len())
                    .as_bytes(),
            )
            .await;
            let reply = raw.reply().await;
            if !matches!(reply.status(), 400..=499) || reply.text().to_lowercase().contains("\nlocation:") {
                wrong.push(format!("{method} {path}: {}", reply.text().lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for form in ["http://x/admin", "http://evil.com/mcp", "https://evil.com/", "*", "evil.com:443"] {
        let mut raw = gateway.raw().await;
        raw.write(format!("GET {form} HTTP/1.1\r\nHost: {}\r\n\r\n", gateway.addr()).as_bytes()).await;
        let reply = raw.reply().await;
        assert!(matches!(reply.status(), 0 | 400..=499), "{form}: {}", reply.text());
    }
    let mut raw = gateway.raw().await;
    raw.write(format!("CONNECT evil.com:443 HTTP/1.1\r\nHost: {}\r\n\r\n", gateway.addr()).as_bytes()).await;
    assert!(matches!(raw.reply().await.status(), 0 | 400..=499));
    assert_eq!(a.touched(), before);
}

// security.md 4: a page may not read what it could not ask for.
#[tokio::test]
async fn no_reply_invites_other_origins() {
    let (_a, gateway) = one().await;
    for path in ["/health", "/status", "/tools"] {
        let response = gateway.get(path).await;
        assert_ne!(response.header("access-control-allow-origin"), "*", "{path}");
    }
    let preflight = gateway.send("OPTIONS", "/mcp", &[("origin", "http://evil.com"), ("access-control-request-method", "POST")], "").await;
    assert!(preflight.status >= 400);
}

// security.md 4: a listener that others can reach does not start without authentication.
#[tokio::test]
async fn a_public_bind_without_authentication_does_not_start() {
    let refused = transom_gateway::bind(transom_gateway::Config {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        admin: transom_gateway::ListenAt::Preferred(SocketAddr::from(([127, 0, 0, 1], 0))),
        metrics: transom_gateway::ListenAt::Preferred(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..transom_gateway::Config::default()
    })
    .await;
    let Err(error) = refused else { panic!("it started") };
    assert!(error.to_string().contains("allowUnauthenticated"), "{error}");
    let gateway = gateway()
        .config(|config| {
            config.listen = SocketAddr::from(([0, 0, 0, 0], 0));
            config.allow_unauthenticated = true;
        })
        .start()
        .await;
    assert!(gateway.addr().port() > 0);
}
