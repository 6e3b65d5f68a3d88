//! L14: certificates that expire and are renewed while the gateway runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use transom_tests::tls::{Certificates, TlsFront};
use transom_tests::*;
use transom_upstream::{ClientTls, TargetSpec};

async fn free() -> SocketAddr {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

fn secured(inner: &Target, at: SocketAddr, tls: ClientTls) -> TargetSpec {
    let url = format!("https://localhost:{}/mcp", at.port()).parse().unwrap();
    TargetSpec { transport: transom_upstream::Transport::Http { url, headers: Vec::new(), tls: Some(Arc::new(tls)) }, ..inner.spec() }
}

async fn fault(gateway: &Gateway) -> String {
    let status = gateway.http.get(&format!("http://{}/status", gateway.admin_addr())).await.json();
    status["servers"]["inner"]["lastError"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_expired_certificate_is_a_clear_1002_and_a_renewed_one_needs_no_restart() {
    let certificates = Certificates::default();
    certificates.authority("ca");
    certificates.certificate("good", "ca", 10);
    certificates.certificate("old", "ca", -1);
    let (inner, at) = (target("inner").tool("echo", []), free().await);
    let front = TlsFront::start(at, inner.addr(), &certificates, "good", None);
    let gateway = gateway().spec(secured(&inner, at, ClientTls { ca: Some(certificates.path("ca.pem")), identity: None })).start().await;
    let client = gateway.client().await;
    client.call("echo", json!({})).await.result();

    front.stop().await;
    let front = TlsFront::start(at, inner.addr(), &certificates, "old", None);
    eventually("the certificate is refused", async || fault(&gateway).await.contains("expired")).await;
    let refused = client.call("echo", json!({})).await;
    refused.failed(1002, json!(false));
    assert!(refused.error_message().contains("certificate") && refused.error_message().contains("expired"), "{}", refused.error_message());
    assert_eq!(inner.calls().len(), 1, "nothing was sent to whoever shows it");

    front.stop().await;
    let _front = TlsFront::start(at, inner.addr(), &certificates, "good", None);
    within(Duration::from_secs(60), "the target is back", async || {
        client.call("echo", json!({})).await.status == 200 && gateway.state_of("inner").await == "connected"
    })
    .await;
    client.call("echo", json!({})).await.result();
}

#[tokio::test]
async fn another_authority_on_disk_is_followed_without_a_restart() {
    let certificates = Certificates::default();
    for name in ["one", "two"] {
        certificates.authority(name);
        certificates.certificate(&format!("by-{name}"), name, 10);
    }
    std::fs::copy(certificates.path("one.pem"), certificates.path("trusted.pem")).unwrap();
    let (inner, at) = (target("inner").tool("echo", []), free().await);
    let front = TlsFront::start(at, inner.addr(), &certificates, "by-one", None);
    let gateway = gateway().spec(secured(&inner, at, ClientTls { ca: Some(certificates.path("trusted.pem")), identity: None })).start().await;
    let client = gateway.client().await;
    client.call("echo", json!({})).await.result();

    front.stop().await;
    let _front = TlsFront::start(at, inner.addr(), &certificates, "by-two", None);
    eventually("the new authority is not trusted yet", async || fault(&gateway).await.contains("certificate")).await;
    certificates.replace("trusted.pem", "two.pem");
    within(Duration::from_secs(60), "the target is back", async || gateway.state_of("inner").await == "connected").await;
    client.call("echo", json!({})).await.result();
}

#[tokio::test]
async fn a_certificate_of_ours_is_shown_and_a_rotated_one_is_used_without_a_restart() {
    let logs = logs::capture();
    let certificates = Certificates::default();
    certificates.authority("ca");
    certificates.certificate("server", "ca", 10);
    for name in ["first", "second"] {
        certificates.authority(name);
        certificates.certificate(&format!("of-{name}"), name, 10);
    }
    for kind in ["pem", "key"] {
        std::fs::copy(certificates.path(&format!("of-first.{kind}")), certificates.path(&format!("own.{kind}"))).unwrap();
    }
    let identity = Some((certificates.path("own.pem"), certificates.path("own.key")));
    let (inner, at) = (target("inner").tool("echo", []), free().await);
    let front = TlsFront::start(at, inner.addr(), &certificates, "server", Some("first"));
    let gateway = gateway().spec(secured(&inner, at, ClientTls { ca: Some(certificates.path("ca.pem")), identity })).start().await;
    let client = gateway.client().await;
    client.call("echo", json!({})).await.result();
    // Whoever shows none is not let in.
    let stranger =
        transom_tests::gateway().spec(secured(&inner, at, ClientTls { ca: Some(certificates.path("ca.pem")), identity: None })).start().await;
    assert_ne!(stranger.state_of("inner").await, "connected");

    front.stop().await;
    let _front = TlsFront::start(at, inner.addr(), &certificates, "server", Some("second"));
    gateway.until("inner", "unavailable").await;
    // Half of a renewal changes nothing and breaks nothing.
    certificates.replace("own.key", "of-second.key");
    certificates.replace("own.pem", "of-second.pem");
    within(Duration::from_secs(60), "the target is back", async || gateway.state_of("inner").await == "connected").await;
    client.call("echo", json!({})).await.result();
    assert!(!logs.lines(&["certificates for this target have changed and are in use"]).is_empty());
}
