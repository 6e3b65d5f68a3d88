//! Health, readiness and status: what an orchestrator and an operator see.

use transom_gateway::Readiness;
use transom_tests::*;

// R-001-38
#[tokio::test]
async fn health_is_200_while_the_process_lives() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let health = gateway.get("/health").await;
    assert_eq!(health.status, 200);
    let body = health.json();
    assert_eq!(body["status"], "ok");
    assert!(body["version"].is_string() && !body["timestamp"].is_null() && body["uptimeSeconds"].is_number(), "{body}");
    a.stop();
    gateway.until("a", "unavailable").await;
    let health = gateway.get("/health").await;
    assert_eq!((health.status, health.json()["status"].as_str().unwrap().to_owned()), (200, "degraded".into()));
}

// R-001-39, G20
#[tokio::test]
async fn ready_is_200_when_every_target_is_connected() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    assert_eq!(gateway.get("/ready").await.status, 200);
    b.stop();
    gateway.until("b", "unavailable").await;
    let ready = gateway.get("/ready").await;
    assert_eq!(ready.status, 503);
    let body = ready.json();
    assert_eq!(body["ready"], false);
    assert!(body["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    assert_eq!((&body["servers"]["a"], &body["servers"]["b"]), (&json!("connected"), &json!("unavailable")));
    b.start();
    gateway.until("b", "connected").await;
    assert_eq!(gateway.get("/ready").await.status, 200);
}

// C24
#[tokio::test]
async fn how_strict_readiness_is_can_be_chosen() {
    let (up, down) = (target("up").tool("echo", []), target("down").tool("gone", []));
    down.stop();
    for (readiness, both, dead_only) in [(Readiness::All, 503, 503), (Readiness::Any, 200, 503), (Readiness::Registry, 200, 200)] {
        let gateway_of_both = gateway().target(&up).target(&down).config(|config| config.readiness = readiness).start().await;
        assert_eq!(gateway_of_both.get("/ready").await.status, both, "{readiness:?}");
        let gateway_of_one = gateway().target(&down).config(|config| config.readiness = readiness).start().await;
        assert_eq!(gateway_of_one.get("/ready").await.status, dead_only, "{readiness:?}");
    }
}

// R-001-40
#[tokio::test]
async fn status_tells_how_every_target_stands() {
    let legacy = target("legacy").tool("echo", []).tool("add", []).era(Era::Legacy("2025-06-18"));
    let (modern, dead) = (target("modern").tool("find", []).era(Era::Modern), target("dead"));
    dead.stop();
    let gateway = gateway().target(&legacy).target(&modern).target(&dead).start().await;
    gateway.until("dead", "unavailable").await;
    let status = gateway.get("/status").await.json();
    let servers = &status["servers"];
    assert_eq!(servers["legacy"]["state"], "connected");
    assert_eq!(servers["legacy"]["era"], "legacy");
    assert_eq!(servers["legacy"]["protocolVersion"], "2025-06-18");
    assert_eq!(servers["legacy"]["tools"], 2);
    assert_eq!(servers["modern"]["era"], "modern");
    assert_eq!(servers["modern"]["protocolVersion"], "2026-07-28");
    assert_eq!(servers["dead"]["state"], "unavailable");
    assert!(servers["dead"]["lastError"].as_str().is_some_and(|error| !error.is_empty()), "{servers}");
    for member in ["since", "restarts"] {
        assert!(!servers["legacy"][member].is_null(), "{member} in {servers}");
    }
    assert!(!servers["dead"]["nextRetryAt"].is_null(), "{servers}");
    assert_eq!(status["tools"], json!({"exposed": 3, "virtual": 0, "passthrough": 3}));
    assert!(status["registry"]["generation"].as_u64().is_some_and(|generation| generation > 0));
    assert_eq!(status["quarantined"], json!([]));
}

#[tokio::test]
async fn the_reason_of_a_failure_holds_no_secret() {
    let dead = target("dead");
    dead.stop();
    let gateway = gateway()
        .target_with(&dead, |spec| {
            let url = format!("http://user:hunter2@{}/mcp?token=hunter2", dead.addr()).parse().unwrap();
            spec.transport = transom_upstream::Transport::Http {
                url,
                headers: vec![("authorization".parse().unwrap(), transom_upstream::Secret::new("Bearer hunter2"))],
                tls: None,
            };
        })
        .start()
        .await;
    gateway.until("dead", "unavailable").await;
    for path in ["/status", "/ready", "/health", "/tools?status=all"] {
        assert!(!gateway.get(path).await.text().contains("hunter2"), "{path}");
    }
}

#[tokio::test]
async fn only_get_is_served_there() {
    let gateway = gateway().start().await;
    for path in ["/health", "/ready", "/status", "/tools"] {
        for method in ["POST", "DELETE", "PUT"] {
            assert_eq!(gateway.send(method, path, &[], "").await.status, 405, "{method} {path}");
        }
    }
}
