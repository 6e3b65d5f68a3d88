//! L13: the clock on the wall jumps, and nothing that is under way notices.

use std::path::Path;
use std::time::{Duration, Instant};
use transom_tests::client::LEGACY;
use transom_tests::issuer::seconds_from_now;
use transom_tests::*;

#[tokio::test]
async fn a_clock_that_jumps_by_an_hour_changes_no_deadline_and_ends_no_session() {
    if !install::have(&["faketime"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let offset = folder.path().join("offset");
    let jump = |seconds: &str| std::fs::write(&offset, format!("{seconds}\n")).unwrap();
    jump("+0");
    let a = target("a").slow("slow", Duration::from_secs(2)).tool("echo", []);
    let hang = target("hang").tool("hang", []).hostile("tools/call", Hostile::Hang);
    let process = process()
        .target(&a)
        .entry(json!({"name": "hang", "mcp": {"host": hang.url()}, "timeout": "3s"}))
        .env("LD_PRELOAD", &install::faketime().display().to_string())
        .env("FAKETIME_TIMESTAMP_FILE", &offset.display().to_string())
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .start_ready()
        .await;
    let client = process.client().await;
    let year = async || process.get("/status").await.json()["startedAt"].to_string();
    year().await;
    for seconds in ["+3600", "-3600", "+0"] {
        let running = client.start_call("slow", json!({"nonce": seconds}));
        let waiting = client.start_call("hang", json!({}));
        let start = Instant::now();
        eventually("both are under way", async || !a.calls().is_empty() && !hang.requests_of("tools/call").is_empty()).await;
        jump(seconds);
        running.reply().await.result();
        let late = waiting.reply().await;
        late.failed(1004, json!("unknown"));
        let took = start.elapsed();
        assert!((Duration::from_millis(2900)..Duration::from_secs(10)).contains(&took), "{seconds}: {took:?}");
        client.call("echo", json!({})).await.result();
        a.clear();
        hang.clear();
    }
    // Otherwise nothing was tried: the log tells the time of the wall.
    let hours: std::collections::HashSet<String> =
        process.stderr().lines().filter_map(|line| Some(line.split("T").nth(1)?.get(..2)?.to_owned())).collect();
    assert!(hours.len() >= 2, "the clock did jump: {hours:?}");
}

// L13, C3
#[tokio::test]
async fn a_token_may_be_a_minute_off_and_not_more() {
    let issuer = issuer(jsonwebtoken::Algorithm::ES256).await;
    let a = target("a").tool("echo", []);
    let authentication = transom_gateway::config::Authentication { jwt: vec![issuer.config()], api_keys: Vec::new(), resource: None };
    let gateway = gateway().target(&a).config(|config| config.authentication = Some(authentication)).start().await;
    for (claim, seconds, status) in [("exp", -30, 200), ("exp", -90, 401), ("nbf", 30, 200), ("nbf", 90, 401), ("iat", 30, 200)] {
        let mut claims = issuer.claims("me");
        claims[claim] = json!(seconds_from_now(seconds));
        let token = format!("Bearer {}", issuer.key().sign(&claims));
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let reply = gateway.post_mcp(&[("authorization", &token)], message.to_string()).await;
        assert_eq!(reply.status, status, "{claim} {seconds}: {}", reply.text());
    }
}

/// A file without its tests.
fn product_code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let is_test = path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests");
    if is_test { String::new() } else { text.split("#[cfg(test)]").next().unwrap_or_default().to_owned() }
}

// L13: who measures a span by the clock on the wall measures something else. Only moments that others tell us, or that we
// tell others, are of that clock.
#[test]
fn only_what_is_told_to_others_or_by_others_reads_the_clock_on_the_wall() {
    let moments = [
        "gateway/src/authenticate/validity.rs",
        "gateway/src/authenticate/verified.rs",
        "gateway/src/authenticate/jwt.rs",
        "gateway/src/local.rs",
        "gateway/src/logging.rs",
        "gateway/src/metrics.rs",
        "gateway/src/metrics/registry.rs",
        "gateway/src/observe.rs",
        "gateway/src/request_state.rs",
        "gateway/src/runtime.rs",
        "gateway/src/session.rs",
        "gateway/src/store/",
        "gateway/src/surface/health.rs",
        "upstream/src/state.rs",
        "upstream/src/supervisor.rs",
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut left: Vec<std::path::PathBuf> = ["upstream", "gateway"].map(|name| crates.join(name).join("src")).to_vec();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if product_code(&path).contains("SystemTime::now()") {
            let name = path.strip_prefix(&crates).unwrap().display().to_string();
            if !moments.iter().any(|known| name.starts_with(known)) {
                found.push(name);
            }
        }
    }
    assert!(found.is_empty(), "use std::time::Instant for spans: {found:?}");
}
