//! Group M and operations.md 6: what can be counted, what is logged, and what never is.

use std::collections::BTreeSet;
use std::time::Duration;
use transom_tests::*;

fn series(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

// R-005-8, operations.md 6
#[tokio::test]
async fn every_metric_that_belongs_here_is_there() {
    let (a, down) = (target("a").tool("echo", []), target("down"));
    down.stop();
    let gateway = gateway().target(&a).target(&down).start().await;
    let client = gateway.client().await;
    client.call("echo", json!({})).await.result();
    client.call("nope", json!({})).await.error();
    let _stream = client.stream().await;
    let text = gateway.metrics().await;
    for name in [
        "mcp_server_operation_duration_seconds_bucket",
        "mcp_client_operation_duration_seconds_bucket",
        "transom_overhead_seconds_bucket",
        "transom_tool_info",
        "transom_tool_response_bytes_total",
        "transom_target_up",
        "transom_target_in_flight",
        "transom_target_connects_total",
        "transom_requests_in_flight",
        "transom_sessions",
        "transom_streams_open",
        "transom_client_requests_total",
        "transom_build_info",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is missing");
    }
    assert_eq!(gateway::metric(&text, "transom_target_up{target=\"a\"}"), 1.0);
    assert_eq!(gateway::metric(&text, "transom_target_up{target=\"down\"}"), 0.0);
    assert_eq!(gateway::metric(&text, "transom_tool_info{tool=\"echo\",target=\"a\",source_tool=\"echo\"}"), 1.0);
    assert!(gateway::metric(&text, "transom_client_requests_total{mcp_protocol_version=\"2025-11-25\"}") >= 2.0);
    assert_eq!(gateway::metric(&text, "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\",gen_ai_tool_name=\"echo\"}"), 1.0);
    assert!(
        gateway::metric(&text, "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\",gen_ai_tool_name=\"_unknown\"}") >= 1.0
    );
    assert_eq!(gateway::metric(&text, "mcp_client_operation_duration_seconds_count{mcp_method_name=\"tools/call\",target=\"a\"}"), 1.0);
}

// promtool check metrics, in the small: the rules it looks for.
#[tokio::test]
async fn the_text_is_well_formed() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    gateway.client().await.call("echo", json!({})).await.result();
    let response = gateway.http.get(&format!("http://{}/metrics", gateway.metrics_addr())).await;
    assert!(response.header("content-type").starts_with("text/plain") || response.header("content-type").starts_with("application/openmetrics-text"));
    let text = response.text();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            assert!(!help.is_empty(), "{name} has no help");
            assert!(seen.insert(name.to_owned()), "{name} is described twice");
        } else if !line.starts_with('#') && !line.is_empty() {
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    let all: Vec<String> = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect();
    assert_eq!(all.len(), series(&text).len(), "a series stands there twice");
}

// M1, T22, CVE-2022-21698
#[tokio::test]
async fn what_clients_send_makes_no_new_series() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let provoke = async |n: u32| {
        let http = &gateway.http;
        gateway.client().await.call(&format!("random-{n}"), json!({})).await;
        gateway.modern().await.request(&format!("random/{n}"), json!({})).await;
        http.send(&format!("METHOD{n}"), &gateway.url("/mcp"), &[], "").await;
        gateway.get(&format!("/random-{n}")).await;
        gateway.post(&format!("/tools/random-{n}/invoke"), &json!({"arguments": {}})).await;
        let info = json!({"name": format!("client-{n}"), "version": n.to_string()});
        let params = json!({"protocolVersion": format!("2025-{n}"), "capabilities": {}, "clientInfo": info});
        gateway.post("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
        gateway.post_mcp(&[("mcp-protocol-version", &format!("v{n}"))], "{}").await;
        gateway.post_mcp(&[("mcp-session-id", &format!("s{n}"))], "{}").await;
        gateway.post_mcp(&[("origin", &format!("http://evil{n}"))], "{}").await;
    };
    for n in 0..3 {
        provoke(n).await;
    }
    let before = series(&gateway.metrics().await);
    for n in 3..150 {
        provoke(n).await;
    }
    let after = series(&gateway.metrics().await);
    let fresh: Vec<_> = after.difference(&before).collect();
    assert!(fresh.is_empty(), "{fresh:?}");
    assert!(after.len() < 5000);
}

// M1: the series of a tool that is gone go with it, and come back with it.
#[tokio::test]
async fn a_target_that_was_removed_leaves_the_gauges() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let mut gateway = gateway().target(&a).target(&b).start().await;
    gateway.reconfigure(|config| config.targets.retain(|target| target.name == "a"));
    gateway.until_listed(&["echo"]).await;
    eventually("target b is gone from the gauges", || async {
        let text = gateway.metrics().await;
        !text.lines().any(|line| (line.starts_with("transom_target_up") || line.starts_with("transom_tool_info")) && line.contains("target=\"b\""))
    })
    .await;
}

// M2
#[tokio::test]
async fn hostile_names_break_neither_metrics_nor_logs() {
    let logs = logs::capture();
    let a = target("a").tool("good", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    for name in ["a\"} evil 1\n", "x\r\nevil_metric 1", "\u{1b}[31m", "\u{202e}txt", "a\\\"b", "\0"] {
        client.call(name, json!({})).await.error();
        client.request(name, json!({})).await.error();
    }
    let text = gateway.metrics().await;
    assert!(!text.contains("evil"), "{text}");
    for line in logs.text().lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "not one JSON object per line: {line}");
        assert!(!line.contains('\u{1b}'));
    }
}

// M3
#[tokio::test]
async fn a_thousand_scrapes_at_once_hurt_nobody() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let url = format!("http://{}/metrics", gateway.metrics_addr());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (http, url) = (gateway.http.clone(), url.clone());
        tasks.spawn(async move { http.try_send("GET", &url, &[], "").await.map_or(0, |response| response.status) });
    }
    gateway.client().await.call("echo", json!({})).await.result();
    let mut good = 0;
    while let Some(status) = tasks.join_next().await {
        let status = status.unwrap();
        assert!(matches!(status, 200 | 503), "{status}");
        good += usize::from(status == 200);
    }
    assert!(good > 0);
    assert!(gateway.metrics().await.contains("transom_build_info"));
}

// M3: the metrics listener serves metrics and nothing else.
#[tokio::test]
async fn the_metrics_listener_is_no_way_in() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    for path in ["/mcp", "/tools", "/status", "/sse", "/api/reload", "/"] {
        let response =
            gateway.http.send("POST", &format!("http://{}{path}", gateway.metrics_addr()), &[("content-type", "application/json")], "{}").await;
        assert!(matches!(response.status, 404 | 405), "{path}: {}", response.status);
    }
    assert_eq!(gateway.get("/metrics").await.status, 404, "metrics are not on the main listener");
}

// M4
#[tokio::test]
async fn a_flood_of_refusals_is_logged_in_measure() {
    let logs = logs::capture();
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let before = gateway.rejected("origin").await;
    for _ in 0..1000 {
        gateway.post_mcp(&[("origin", "http://evil.com")], "{}").await;
    }
    eventually("each is counted", || async { gateway.rejected("origin").await - before >= 1000.0 }).await;
    let lines = logs.lines(&["rejected"]).len();
    assert!((1..=300).contains(&lines), "{lines} lines for a thousand refusals");
}

// M5
#[test]
fn the_build_holds_what_it_promises() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let deny = std::fs::read_to_string(root.join("deny.toml")).expect("deny.toml");
    for banned in ["serde_yml", "libyml", "openssl"] {
        assert!(deny.contains(banned), "deny.toml does not ban {banned}");
    }
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).expect("Cargo.lock");
    for banned in ["name = \"serde_yml\"", "name = \"libyml\"", "name = \"openssl\"", "name = \"openssl-sys\""] {
        assert!(!lock.contains(banned), "{banned} is in the build");
    }
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("Cargo.toml");
    assert!(manifest.lines().any(|line| line.starts_with("jsonschema") && line.contains("default-features = false")), "jsonschema would fetch");
    assert!(manifest.contains("unsafe_code = \"deny\"") || manifest.contains("unsafe_code = \"forbid\""));
}

// M6: nothing a client or a target sends is an internal error.
#[tokio::test]
async fn mangled_messages_are_never_our_own_failure() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let good =
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,{"b":"c"}]},"_meta":{"progressToken":1}}}"#;
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0)
    };
    for round in 0..1500 {
        let mut body = good.to_vec();
        for _ in 0..=random() % 3 {
            let at = random() % body.len();
            match random() % 4 {
                0 => body[at] = u8::try_from(random() % 256).unwrap_or(0),
                1 => drop(body.remove(at)),
                2 => body.insert(at, b"{}[]\",:0\\u\x00\xff"[random() % 12]),
                _ => body.truncate(at.max(1)),
            }
        }
        let response = gateway.post_mcp(&[], body.clone()).await;
        assert!(matches!(response.status, 200 | 202 | 400 | 413), "round {round}: {} for {:?}", response.status, String::from_utf8_lossy(&body));
        assert!(!response.text().contains("-32603"), "round {round}: {} for {:?}", response.text(), String::from_utf8_lossy(&body));
    }
    gateway.client().await.call("echo", json!({})).await.result();
}

// R-001-45, operations.md 6
#[tokio::test]
async fn each_operation_leaves_one_line_without_a_value() {
    let a = target("a").tool("echo", ["password"]).reply("echo", target::text("RESULT-VALUE"));
    let process = process().target(&a).env("LOG_LEVEL", "debug").start_ready().await;
    let client = process.client().await;
    client.call("echo", json!({"password": "ARGUMENT-VALUE"})).await.result();
    client.call("nope", json!({"password": "ARGUMENT-VALUE"})).await.error();
    process.http.post_json(&process.url("/tools/echo/invoke"), &json!({"arguments": {"password": "ARGUMENT-VALUE"}})).await;
    eventually("every call is logged", || async { process.log(&["\"tools/call\""]).len() >= 3 }).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(process.log(&["\"tools/call\""]).len(), 3, "{}", process.stderr());
    let line: Value = serde_json::from_str(&process.log(&["\"tools/call\"", "echo"])[0]).unwrap();
    for member in ["method", "tool", "target", "sourceTool", "generation", "principal", "outcome", "durationUs", "ownUs", "bytesIn", "bytesOut"] {
        assert!(!line[member].is_null(), "{member} is missing in {line}");
    }
    assert!(!process.stderr().contains("ARGUMENT-VALUE"), "an argument stands in the log");
    assert!(!process.stderr().contains("RESULT-VALUE"), "a result stands in the log");
}

// R-001-46, R-001-47
#[tokio::test]
async fn changes_of_state_and_errors_are_logged() {
    let logs = logs::capture();
    let a = target("fragile").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    assert!(!logs.lines(&["fragile", "connected"]).is_empty(), "{}", logs.text());
    a.stop();
    gateway.until("fragile", "unavailable").await;
    eventually("the loss is logged", || async { !logs.lines(&["fragile", "WARN"]).is_empty() || !logs.lines(&["fragile", "ERROR"]).is_empty() })
        .await;
    a.start();
    let before = logs.lines(&["fragile", "connected"]).len();
    gateway.until("fragile", "connected").await;
    assert!(logs.lines(&["fragile", "connected"]).len() >= before);
    tokio::time::sleep(Duration::from_millis(1)).await;
}
