//! L12: gateways behind gateways, and what happens when one stands behind itself.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transom_tests::client::{LEGACY, MODERN};
use transom_tests::*;
use transom_upstream::TargetSpec;

const HEADER: &str = "mcp-gateway-via";

/// A port nobody else has; the ring needs its addresses before its members.
async fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

fn gateway_as_target(name: &str, at: SocketAddr) -> TargetSpec {
    let mut spec = target(name).spec();
    spec.transport = transom_upstream::Transport::Http { url: format!("http://{at}/mcp").parse().unwrap(), headers: Vec::new(), tls: None };
    spec
}

/// What the admin listener says is wrong with a target.
async fn fault_of(gateway: &Gateway, target: &str) -> String {
    let status = gateway.http.get(&format!("http://{}/status", gateway.admin_addr())).await.json();
    status["servers"][target]["lastError"].as_str().unwrap_or_default().to_owned()
}

/// Stands before a server like a proxy that keeps the headers it does not know to itself.
async fn forgetful_proxy(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(to).await else { return };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let there = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
                let back = async {
                    let mut chunk = vec![0; 64 << 10];
                    loop {
                        let read = from_server.read(&mut chunk).await?;
                        if read == 0 {
                            return Ok(());
                        }
                        // A head comes in one piece here; the same length keeps everything else in place.
                        let text = String::from_utf8_lossy(&chunk[..read]).replace("mcp-gateway-via", "mcp-gateway-gone");
                        let text = text.replace("mcp-gateway-gone: ", "x-proxy-took-it: ");
                        to_client.write_all(text.as_bytes()).await?;
                    }
                };
                let _ = tokio::select! { done = there => done, done = back => done };
            });
        }
    });
    at
}

#[tokio::test]
async fn a_request_that_was_here_before_or_came_too_far_is_refused_and_reaches_nobody() {
    for (era, revision) in [(Era::Legacy("2025-11-25"), LEGACY), (Era::Modern, MODERN)] {
        let a = target("a").era(era).tool("echo", []);
        let gateway = gateway().target(&a).start().await;
        let own = a.requests().iter().find_map(|request| request.header(HEADER).map(str::to_owned)).expect("targets are told who asks");
        assert!(own.len() == 16 && !own.contains(','), "{own}");

        let client = gateway.client_of(revision).await;
        client.call("echo", json!({})).await.result();
        assert_eq!(a.requests_of("tools/call")[0].header(HEADER), Some(own.as_str()), "prepared once, the same for every call");

        let call = client.message("tools/call", json!({"name": "echo", "arguments": {}}));
        let with = async |via: &str| {
            let mut headers = client.headers(&call);
            headers.push((HEADER.into(), via.into()));
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            gateway.send("POST", "/mcp", &headers, call.to_string()).await
        };
        for refused in [own.clone(), format!("x, {own}"), format!("{own},y"), "a, b, c, d, e".into()] {
            let reply = with(&refused).await;
            assert_eq!((reply.status, reply.json()["error"]["code"].as_i64()), (508, Some(1009)), "{refused}: {}", reply.text());
            assert_eq!(reply.json()["error"]["data"]["executed"], false, "{refused}: {}", reply.text());
        }
        assert_eq!(a.calls().len(), 1, "none of them got through");
        assert_eq!(gateway.rejected("loop").await, 4.0);

        assert_eq!(with("a, b, c, d").await.status, 200, "four gateways are no loop");
        assert_eq!(a.requests_of("tools/call")[1].header(HEADER), Some(format!("a, b, c, d, {own}").as_str()));
        client.call("echo", json!({})).await.result();
        assert_eq!(a.requests_of("tools/call")[2].header(HEADER), Some(own.as_str()), "what one client said is not said for the next");
    }
}

#[tokio::test]
async fn every_door_is_closed_to_a_loop() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let own = a.requests().iter().find_map(|request| request.header(HEADER).map(str::to_owned)).unwrap();
    for (method, path) in
        [("POST", "/mcp"), ("GET", "/mcp"), ("POST", "/mcp/a"), ("GET", "/sse"), ("POST", "/messages"), ("POST", "/tools/echo/invoke")]
    {
        let reply = gateway.send(method, path, &[(HEADER, &own), ("content-type", "application/json"), ("accept", "*/*")], "{}").await;
        assert_eq!(reply.status, 508, "{method} {path}: {}", reply.text());
    }
    assert!(a.calls().is_empty());
}

/// Gateways that have each other as target, the last one the first; the first has a real one besides. `way` leads to the next.
async fn ring(size: usize, real: &Target, way: impl AsyncFn(SocketAddr) -> SocketAddr) -> Vec<Gateway> {
    let mut addresses = Vec::new();
    for _ in 0..size {
        addresses.push(free().await);
    }
    let mut ring = Vec::new();
    for at in 0..size {
        let next = gateway_as_target("next", way(addresses[(at + 1) % size]).await);
        let member = gateway().spec(next).config(|config| config.listen = addresses[at]);
        let member = if at == 0 { member.target(real) } else { member };
        ring.push(member.without_waiting().start().await);
    }
    ring
}

#[tokio::test]
async fn in_a_ring_the_target_that_leads_back_is_left_out_and_the_lists_do_not_grow() {
    for size in [2, 3] {
        let real = target("real").tool("echo", ["n"]);
        let ring = ring(size, &real, async |next| next).await;
        let broken = async || {
            let mut broken = 0;
            for member in &ring {
                broken += usize::from(
                    fault_of(member, "next").await.contains("leads back to this gateway") && member.state_of("next").await != "connected",
                );
            }
            broken
        };
        within(Duration::from_secs(60), "the ring is open at one place", async || broken().await >= 1).await;
        // Every list holds the one real tool at most once, however often it is asked for.
        for member in &ring {
            let client = member.client().await;
            assert!(client.tool_names().await.len() <= 2, "{:?}", client.tool_names().await);
            for tool in client.tool_names().await {
                let start = Instant::now();
                client.call(&tool, json!({"n": 1})).await;
                assert!(start.elapsed() < Duration::from_secs(1), "{tool}: {:?}", start.elapsed());
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_goes_round_ends_in_under_a_second_even_where_nobody_says_who_answers() {
    for size in [2, 3] {
        let real = target("real").tool("echo", ["n"]);
        let ring = ring(size, &real, forgetful_proxy).await;
        let client = ring[0].client().await;
        let around = |names: &[String]| names.iter().find(|name| name.starts_with("next__")).cloned();
        within(Duration::from_secs(60), "the ring is closed", async || around(&client.tool_names().await).is_some()).await;
        let tool = around(&client.tool_names().await).unwrap();
        let start = Instant::now();
        let reply = client.call(&tool, json!({"n": 1})).await;
        let took = start.elapsed();
        assert_eq!(reply.error_code(), 1009, "{}", reply.message);
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(real.calls().is_empty(), "it was stopped where it came back");
    }
}

#[tokio::test]
async fn a_child_is_told_who_started_it_and_a_gateway_that_is_such_a_child_passes_it_on() {
    let gateway = gateway().stdio("child", json!({"tools": ["env"]})).start().await;
    let environment: Vec<(String, String)> = serde_json::from_str(&gateway.client().await.call("env", json!({})).await.text()).unwrap();
    let said = environment.iter().find(|(name, _)| name == "MCP_GATEWAY_VIA").map(|(_, value)| value.clone()).unwrap_or_default();
    assert_eq!(said.len(), 16, "{said}");

    let a = target("a").tool("echo", []);
    let _child = process().target(&a).env("MCP_GATEWAY_VIA", &said).start_ready().await;
    let told = a.requests().iter().find_map(|request| request.header(HEADER).map(str::to_owned)).unwrap();
    assert!(told.starts_with(&format!("{said}, ")) && told.len() == 34, "{told}");
}

#[tokio::test]
async fn a_target_that_is_the_gateways_own_listener_is_refused_at_the_start() {
    let at = free().await;
    for url in [format!("http://{at}/mcp"), format!("http://localhost:{}/", at.port())] {
        let mut child =
            process().entry(json!({"name": "me", "mcp": {"host": url}})).config(|config| config["listen"] = json!(at.to_string())).spawn();
        assert!(!child.wait().await.success());
        assert!(child.stderr().contains("target `me` is this gateway's own listener"), "{}", child.stderr());
    }
    let config = transom_gateway::Config { listen: at, targets: vec![gateway_as_target("me", at)], ..transom_gateway::Config::default() };
    let refused = transom_gateway::bind(config).await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("own listener"), "{refused}");
}
