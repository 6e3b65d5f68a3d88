//! Both eras on both sides: any client may talk to any target.

use std::time::Duration;
use transom_tests::client::{LEGACY, MODERN, REVISIONS};
use transom_tests::*;
use transom_upstream::EraChoice;

// Must show: three targets × five client revisions. R-001-1
#[tokio::test]
async fn a_client_of_each_revision_uses_targets_of_each_kind() {
    let http = target("http").tool("legacy_http", ["q"]).era(Era::Legacy("2025-06-18"));
    let modern = target("modern").tool("modern_http", ["q"]).era(Era::Modern);
    let old = target("old").tool("old_sse", ["q"]).transport(Transport::LegacySse);
    let events = target("events").tool("legacy_events", ["q"]).transport(Transport::Events);
    let gateway = gateway()
        .target(&http)
        .target(&modern)
        .target(&old)
        .target(&events)
        .stdio("child", json!({"tools": ["legacy_stdio"]}))
        .stdio("modern-child", json!({"tools": ["modern_stdio"], "era": "modern"}))
        .start()
        .await;
    let tools = ["legacy_events", "legacy_http", "legacy_stdio", "modern_http", "modern_stdio", "old_sse"];
    let mut clients = vec![("2024-11-05 on /sse", gateway.sse_client().await)];
    for revision in REVISIONS {
        clients.push((revision, gateway.client_of(revision).await));
    }
    for (revision, client) in clients {
        assert_eq!(client.tool_names().await, tools, "{revision}");
        for tool in tools {
            let reply = client.call(tool, json!({"q": revision})).await;
            assert_eq!(reply.structured()["arguments"]["q"], revision, "{revision} {tool}: {}", reply.raw);
            assert_eq!(reply.result().get("resultType").is_some(), revision == MODERN, "{revision} {tool}: {}", reply.raw);
        }
    }
}

// R-001-1
#[tokio::test]
async fn initialize_answers_with_the_revision_of_the_client_or_our_newest() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let response = gateway.post("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
        let result = response.json()["result"].clone();
        assert_eq!(result["protocolVersion"], given, "{asked}: {}", response.text());
        assert!(result["capabilities"]["tools"].is_object());
        assert_eq!(result["serverInfo"]["name"], "transom");
    }
}

// protocol.md: a plain curl works.
#[tokio::test]
async fn a_request_without_a_session_is_served() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for headers in [&[][..], &[("content-type", "application/json")], &[("accept", "*/*"), ("content-type", "application/json")]] {
        let response = gateway.send("POST", "/mcp", headers, body.clone()).await;
        assert_eq!(response.status, 200, "{headers:?} {}", response.text());
        assert!(response.header("content-type").starts_with("application/json"));
        assert_eq!(response.json()["result"]["tools"][0]["name"], "echo");
    }
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {}}});
    assert_eq!(gateway.post("/mcp", &call).await.json()["result"]["structuredContent"]["server"], "a");
}

#[tokio::test]
async fn the_reply_is_json_or_events_as_the_client_accepts() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}).to_string();
    for (accept, kind) in [
        ("application/json, text/event-stream", "application/json"),
        ("application/json", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("*/*", "application/json"),
    ] {
        let response = gateway.post_mcp(&[("accept", accept)], body.clone()).await;
        assert!(response.header("content-type").starts_with(kind), "{accept}: {}", response.header("content-type"));
        assert_eq!(response.json()["result"]["structuredContent"]["tool"], "echo");
    }
    assert_eq!(gateway.post_mcp(&[("content-type", "text/plain")], body.clone()).await.status, 415);
}

#[tokio::test]
async fn a_version_header_that_nobody_knows_is_refused() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let session = gateway.client().await.session().unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    for version in ["1999-01-01", "latest", "2025-11-25, 2025-06-18"] {
        let response = gateway.post_mcp(&[("mcp-session-id", &session), ("mcp-protocol-version", version)], body.clone()).await;
        assert_eq!(response.status, 400, "{version}");
    }
}

// protocol.md, modern client
#[tokio::test]
async fn discover_tells_versions_capabilities_and_who_we_are() {
    let a = target("a").tool("echo", []).prompt("p");
    let gateway = gateway().target(&a).start().await;
    let reply = gateway.modern().await.request("server/discover", json!({})).await;
    let result = reply.result();
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)));
    assert!(result["capabilities"]["tools"].is_object() && result["capabilities"]["prompts"].is_object(), "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "transom");
    assert_eq!(result["resultType"], "complete");
    assert!(result["ttlMs"].is_u64());
    assert!(["public", "private"].contains(&result["cacheScope"].as_str().unwrap()));
    assert!(a.requests_of("server/discover").len() <= 1, "clients are answered by the gateway");
}

#[tokio::test]
async fn modern_results_carry_their_type_and_lists_how_long_they_hold() {
    let a = target("a").tool("echo", []).prompt("p").resource("file:///a").template("file:///{x}");
    let gateway = gateway().target(&a).start().await;
    let client = gateway.modern().await;
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let reply = client.request(method, json!({})).await;
        let result = reply.result();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{method}: {result}");
    }
    let reply = client.request("resources/read", json!({"uri": "mcp://a/file%3A%2F%2F%2Fa"})).await;
    assert!(reply.result()["ttlMs"].is_u64() && reply.result()["cacheScope"].is_string(), "{}", reply.raw);
    assert_eq!(client.call("echo", json!({})).await.result()["resultType"], "complete");
    let legacy = gateway.client().await.request("tools/list", json!({})).await;
    assert!(legacy.result().get("resultType").is_none() && legacy.result().get("ttlMs").is_none(), "{}", legacy.raw);
}

fn modern_body(method: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

// Issue 2: h1 and h2c.
#[tokio::test]
async fn http2_is_spoken_without_tls() {
    use http_body_util::{BodyExt, Full};
    use hyper_util::rt::TokioExecutor;
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<bytes::Bytes>>();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"n": 2}}}).to_string();
    let request = hyper::Request::post(gateway.url("/mcp")).header("content-type", "application/json").body(Full::from(body)).unwrap();
    let response = client.request(request).await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (hyper::Version::HTTP_2, 200));
    let reply: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(reply["result"]["structuredContent"]["arguments"]["n"], 2);
}

// protocol.md: headers and body say the same, or the request is refused.
#[tokio::test]
async fn a_header_that_contradicts_the_body_is_refused() {
    let a = target("a").tool("echo", []).tool("日本", []).tool("other", []);
    let gateway = gateway().target(&a).start().await;
    let before = a.touched();
    let call = modern_body("tools/call", json!({"name": "echo", "arguments": {}})).to_string();
    let (version, method, name) = (("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "echo"));
    let refused: &[&[(&str, &str)]] = &[
        &[method, name],
        &[version, name],
        &[version, method],
        &[("mcp-protocol-version", LEGACY), method, name],
        &[version, ("mcp-method", "tools/list"), name],
        &[version, ("mcp-method", "Tools/Call"), name],
        &[version, method, ("mcp-name", "other")],
        &[version, method, ("mcp-name", "ECHO")],
        &[version, method, ("mcp-name", "=?base64?%%%?=")],
        &[version, method, ("mcp-name", "=?base64?ZWNobw?=")],
        &[version, method, name, name],
        &[version, method, method, name],
        &[version, version, method, name],
    ];
    for headers in refused {
        let response = gateway.post_mcp(headers, call.clone()).await;
        assert_eq!(response.status, 400, "{headers:?}: {}", response.text());
        assert_eq!(response.json()["error"]["code"], -32020, "{headers:?}: {}", response.text());
    }
    assert_eq!(a.touched(), before, "the target was not contacted");
    let accepted: &[&[(&str, &str)]] = &[
        &[version, method, name],
        &[("MCP-PROTOCOL-VERSION", MODERN), ("Mcp-Method", "tools/call"), ("MCP-NAME", "echo")],
        &[version, method, ("mcp-name", "=?base64?ZWNobw==?=")],
        &[version, method, ("mcp-name", "  echo ")],
    ];
    for headers in accepted {
        let response = gateway.post_mcp(headers, call.clone()).await;
        assert_eq!(response.status, 200, "{headers:?}: {}", response.text());
    }
}

#[tokio::test]
async fn an_unknown_modern_version_is_refused_with_the_ones_we_speak() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let mut body = modern_body("tools/list", json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let response = gateway.post_mcp(&[("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")], body.to_string()).await;
    assert_eq!(response.status, 400);
    let error = response.json()["error"].clone();
    assert_eq!(error["code"], -32022, "{error}");
    assert_eq!(error["data"]["requested"], "2099-01-01");
    assert!(error["data"]["supported"].as_array().unwrap().contains(&json!(MODERN)));
}

#[tokio::test]
async fn an_unknown_method_is_404_in_the_modern_era_and_200_in_the_legacy_one() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    for method in ["no/such", "initialize", "ping", "logging/setLevel", "resources/subscribe", "sampling/createMessage"] {
        let reply = gateway.modern().await.request(method, json!({})).await;
        assert_eq!((reply.status, reply.error_code()), (404, -32601), "{method}");
    }
    let reply = gateway.client().await.request("no/such", json!({})).await;
    assert_eq!((reply.status, reply.error_code()), (200, -32601));
}

#[tokio::test]
async fn missing_members_of_the_modern_envelope_are_refused() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    let mut body = modern_body("tools/list", json!({}));
    body["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    let response = gateway.post_mcp(&headers, body.to_string()).await;
    assert_eq!((response.status, response.json()["error"]["code"].as_i64()), (400, Some(-32602)), "{}", response.text());
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let response = gateway.post_mcp(&headers, body.to_string()).await;
    assert_eq!(response.status, 400, "a modern header without a modern body: {}", response.text());
}

#[tokio::test]
async fn get_and_delete_without_a_session_are_405() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    for method in ["GET", "DELETE"] {
        let response = gateway.send(method, "/mcp", &[("accept", "text/event-stream")], "").await;
        assert_eq!(response.status, 405, "{method}");
        assert!(response.header("allow").contains("POST"));
        let response = gateway.send(method, "/mcp", &[("accept", "text/event-stream"), ("mcp-protocol-version", MODERN)], "").await;
        assert_eq!(response.status, 405, "{method}");
    }
    assert_eq!(gateway.send("PUT", "/mcp", &[], "").await.status, 405);
    let reply = gateway.modern().await.request("tools/list", json!({})).await;
    assert!(reply.header("mcp-session-id").is_none(), "the modern era has no sessions");
}

// Towards a modern target: headers are ours, written from the final message.
#[tokio::test]
async fn a_modern_target_gets_the_headers_that_fit_its_own_names() {
    let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer", "x-mcp-header": "N"}}});
    let a = target("a").era(Era::Modern).tool_def(json!({"name": "query", "description": "q", "inputSchema": schema}));
    let b = target("b").era(Era::Modern).tool("query", []);
    let gateway = gateway().target(&a).target(&b).start().await;
    // From a legacy client: there were no headers, they are made.
    gateway.client().await.call("a__query", json!({"region": "日本", "n": 7})).await.result();
    let call = a.requests_of("tools/call")[0].clone();
    assert_eq!(call.header("mcp-name"), Some("query"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-param-region"), Some("=?base64?5pel5pys?="));
    assert_eq!(call.header("mcp-param-n"), Some("7"));
    assert!(call.header("mcp-session-id").is_none());
    // From a modern client: what it sent is checked and written anew.
    let body = modern_body("tools/call", json!({"name": "a__query", "arguments": {"region": "eu"}})).to_string();
    let base = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "a__query")];
    let good = [&base[..], &[("mcp-param-region", "eu"), ("mcp-param-unknown", "x")]].concat();
    assert_eq!(gateway.post_mcp(&good, body.clone()).await.status, 200);
    let call = a.requests_of("tools/call")[1].clone();
    assert_eq!(call.header("mcp-param-region"), Some("eu"));
    assert_eq!(call.header("mcp-param-unknown"), None);
    let before = a.touched();
    for wrong in [
        &base[..],
        &[&base[..], &[("mcp-param-region", "us")]].concat()[..],
        &[&base[..], &[("mcp-param-region", "eu"), ("mcp-param-region", "eu")]].concat()[..],
    ] {
        let response = gateway.post_mcp(wrong, body.clone()).await;
        assert_eq!((response.status, response.json()["error"]["code"].as_i64()), (400, Some(-32020)), "{wrong:?}");
    }
    // An integer is the same however it is written, and no other is.
    for (argument, sent, status) in [
        (json!(7), "7.0", 200),
        (json!(9_007_199_254_740_993_u64), "9007199254740993", 200),
        (json!(9_007_199_254_740_993_u64), "9007199254740992", 400),
        (json!("abc"), "xyz", 400),
        (json!(7), "seven", 400),
    ] {
        let body = modern_body("tools/call", json!({"name": "a__query", "arguments": {"n": argument}})).to_string();
        let response = gateway.post_mcp(&[&base[..], &[("mcp-param-n", sent)]].concat(), body).await;
        assert_eq!(response.status, status, "{argument} as {sent}: {}", response.text());
    }
    assert_eq!(a.touched(), before + 2);
}

// protocol.md: the answer to a request comes in a form that its sender accepts.
#[tokio::test]
async fn an_error_is_one_event_where_nothing_but_events_is_accepted() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    for (method, params, code) in [("tools/call", json!({"name": "nobody"}), -32602), ("no/such", json!({}), -32601)] {
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params}).to_string();
        let response = gateway.send("POST", "/mcp", &[("content-type", "application/json"), ("accept", "text/event-stream")], body).await;
        assert_eq!((response.status, response.header("content-type")), (200, "text/event-stream"), "{}", response.text());
        let text = response.text();
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event");
        let message: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&message["id"], &message["error"]["code"]), (&json!("x"), &json!(code)), "{text}");
    }
}

// protocol.md, which era: probed once, remembered, asked again after a reconnect.
#[tokio::test]
async fn the_era_of_a_target_is_found_out_and_can_be_told() {
    let both = target("both").tool("echo", []).era(Era::Both);
    let gateway_auto = gateway().target(&both).start().await;
    assert_eq!(gateway_auto.get("/status").await.json()["servers"]["both"]["era"], "modern");
    assert_eq!(both.initializes(), 0);
    let both = target("both").tool("echo", []).era(Era::Both);
    let gateway_legacy = gateway().target_with(&both, |spec| spec.era = EraChoice::Legacy).start().await;
    assert_eq!(gateway_legacy.get("/status").await.json()["servers"]["both"]["era"], "legacy");
    assert!(both.requests_of("server/discover").is_empty());
    let legacy = target("legacy").tool("echo", []);
    let gateway_modern = gateway().target_with(&legacy, |spec| spec.era = EraChoice::Modern).start().await;
    assert_eq!(gateway_modern.state_of("legacy").await, "unavailable", "a target told to be modern is not asked for a handshake");
    assert_eq!(legacy.initializes(), 0);
}

#[tokio::test]
async fn a_target_may_change_its_era_between_two_lives() {
    let a = target("a").tool("echo", []).era(Era::Legacy("2025-11-25"));
    let gateway = gateway().target(&a).start().await;
    assert_eq!(gateway.get("/status").await.json()["servers"]["a"]["era"], "legacy");
    a.stop();
    gateway.until("a", "unavailable").await;
    let a = a.era(Era::Modern);
    a.start();
    gateway.until("a", "connected").await;
    assert_eq!(gateway.get("/status").await.json()["servers"]["a"]["era"], "modern");
    gateway.client().await.call("echo", json!({})).await.result();
}

// A legacy server may answer the probe in many ways.
#[tokio::test]
async fn every_way_to_refuse_the_probe_means_legacy() {
    let refusals = [
        Hostile::Status(400),
        Hostile::Status(404),
        Hostile::Status(405),
        Hostile::Body("application/json", r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"Method not found"}}"#.into()),
        Hostile::Body("application/json", r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"Invalid request parameters"}}"#.into()),
        Hostile::Body(
            "application/json",
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#.into(),
        ),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        let a = target("a").tool("echo", []).hostile("server/discover", refusal);
        let gateway = gateway().target(&a).start().await;
        assert_eq!(gateway.state_of("a").await, "connected", "case {n}");
        gateway.client().await.call("echo", json!({})).await.result();
    }
}

// protocol.md: if `initialize` fails with 4xx, try legacy SSE.
#[tokio::test]
async fn an_http_target_that_knows_only_the_oldest_transport_is_found() {
    let old = target("old").tool("echo", []).transport(Transport::LegacySse);
    let gateway = gateway()
        .target_with(&old, |spec| {
            spec.transport = transom_upstream::Transport::Http { url: old.url().parse().unwrap(), headers: Vec::new(), tls: None };
        })
        .start()
        .await;
    assert_eq!(gateway.client().await.call("echo", json!({})).await.structured()["server"], "old");
}

// protocol.md, legacy client: GET and its keep-alive.
#[tokio::test]
async fn an_idle_stream_is_kept_alive() {
    let gateway = gateway().target(&target("a").tool("echo", [])).start().await;
    let (client, modern) = (gateway.client().await, gateway.modern().await);
    let mut stream = client.stream().await;
    let mut subscription = modern.listen(json!({"toolsListChanged": true})).await;
    let (one, two) = tokio::join!(stream.message_within(Duration::from_secs(18)), subscription.message_within(Duration::from_secs(18)));
    assert_eq!((one, two), (None, None));
    assert!(stream.comments > 0, "no comment within 18 seconds");
    assert!(subscription.comments > 0, "no comment within 18 seconds");
}

// J6 and protocol.md: only 2025-03-26 knew batches.
#[tokio::test]
async fn batches_are_for_2025_03_26_alone() {
    let a = target("a").tool("echo", ["n"]);
    let gateway = gateway().target(&a).start().await;
    let call = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"n": id}}});
    let session = gateway.client_of("2025-03-26").await.session().unwrap();
    let batch = json!([call(1), {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, call(2)]).to_string();
    let response = gateway.post_mcp(&[("mcp-session-id", &session)], batch.clone()).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let mut ids: Vec<i64> =
        response.json().as_array().unwrap().iter().map(|reply| reply["result"]["structuredContent"]["arguments"]["n"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    for revision in ["2024-11-05", "2025-06-18", LEGACY] {
        let session = gateway.client_of(revision).await.session().unwrap();
        let response = gateway.post_mcp(&[("mcp-session-id", &session)], batch.clone()).await;
        assert_eq!((response.status, response.json()["error"]["code"].as_i64()), (400, Some(-32600)), "{revision}");
    }
    assert_eq!(a.calls().len(), 2);
}

// H2, protocol.md: a message in a batch is as good as one of its own.
#[tokio::test]
async fn the_messages_of_a_batch_run_side_by_side_and_cancellations_among_them_count() {
    let gateway = gateway().stdio("child", json!({"tools": ["sleep"]})).start().await;
    let session = gateway.client_of("2025-03-26").await.session().unwrap();
    let call = |id: i64, ms: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "sleep", "arguments": {"ms": ms}}});
    let headers = [("mcp-session-id", session.as_str())];
    let started = std::time::Instant::now();
    let batch = json!([call(1, 700), call(2, 700), call(3, 700), call(3, 700)]).to_string();
    let response = gateway.post_mcp(&headers, batch).await;
    assert!(started.elapsed() < std::time::Duration::from_millis(1900), "{:?}", started.elapsed());
    let replies = response.json();
    let errors: Vec<&Value> = replies.as_array().unwrap().iter().filter(|reply| reply.get("error").is_some()).collect();
    assert_eq!((replies.as_array().unwrap().len(), errors.len()), (4, 1), "{replies}");
    assert_eq!(errors[0]["error"]["code"], -32600);

    let slow = call(8, 20_000).to_string();
    let cancel = json!([{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}]).to_string();
    let (slow, cancelled) = tokio::join!(gateway.post_mcp(&headers, slow), async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        gateway.post_mcp(&headers, cancel).await
    });
    assert_eq!(cancelled.status, 202);
    assert!(slow.json().get("error").is_some(), "{}", slow.text());
}
