//! Attacks by what stands in a call.

use super::one;
use transom_tests::client::MODERN;
use transom_tests::*;

// The Go SDK read members whatever their case, so that an intermediary which looked for `api_key` did not see `API_KEY`.
#[tokio::test]
async fn cve_2026_27896_no_spelling_of_a_hidden_argument_gets_through() {
    let a = target("a").tool_def(json!({"name": "fetch", "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}, "api_key": {"type": "string"}, "ask": {"type": "string"}}}}));
    let registry = json!({"tools": [{"name": "weather", "source": {"target": "a", "tool": "fetch"}, "defaults": {"api_key": "ours-0123456789", "ask": "ours"}, "hideFields": ["api_key", "ask"]}]});
    let gateway = gateway().target(&a).registry(&registry).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        for key in [
            "api_key",
            "API_KEY",
            "Api_Key",
            "aPi_kEy",
            "api_KEY",
            "api_\u{212a}ey",
            "\u{ff41}pi_key",
            "api_key\u{200b}",
            "api\u{2060}_key",
            "api_key\u{0}",
            "ap\u{131}_key",
            "a\u{17f}k",
            "A\u{17f}K",
            "as\u{212a}",
            "ASK",
            "Ask",
        ] {
            let reply = client.call("weather", json!({"city": "x", key: "mine"})).await;
            assert!(reply.is_error(), "{key:?}: {}", reply.raw);
        }
        // Escapes are the same text.
        let name = client.message("tools/call", json!({"name": "weather", "arguments": {"city": "x"}})).to_string();
        for spelled in [r#""\u0061pi_key":"mine""#, r#""api\u005fkey":"mine""#, r#""\u0041PI_KEY":"mine""#] {
            let body = name.replace(r#""city":"x""#, &format!(r#""city":"x",{spelled}"#));
            let headers = client.headers(&serde_json::from_str(&name).unwrap());
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let reply = gateway.send("POST", "/mcp", &headers, body).await;
            assert!(reply.json()["result"]["isError"] == true, "{spelled}: {}", reply.text());
        }
    }
    // Nor does a second set of arguments, under a name that such a peer takes for that of the first.
    for client in [gateway.client().await, gateway.modern().await] {
        for key in ["Arguments", "ARGUMENTS", "argument\u{17f}", "\u{ff41}rguments", "arguments\u{200b}", "Name", "_Meta", "RequestState", "taskid"] {
            let reply =
                client.request("tools/call", json!({"name": "weather", "arguments": {"city": "x"}, key: {"city": "x", "api_key": "mine"}})).await;
            assert_eq!(reply.error_code(), -32600, "{key:?}: {}", reply.raw);
        }
    }
    assert!(a.calls().is_empty(), "{:?}", a.calls());
    gateway.client().await.call("weather", json!({"city": "x"})).await.result();
    assert_eq!(a.calls()[0].1["api_key"], "ours-0123456789");
}

// agentgateway put arguments into paths, queries and headers of HTTP requests as they were; here the only way from an argument to HTTP is `Mcp-Param-*`.
#[tokio::test]
async fn cve_2026_29791_an_argument_ends_where_its_header_ends() {
    let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "q": {"type": "string"}}});
    let a = target("a").era(Era::Modern).tool_def(json!({"name": "query", "inputSchema": schema}));
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let values = [
        "eu\r\nX-Admin: true",
        "eu\nX-Admin: true",
        "eu\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n",
        "../../admin",
        "a?admin=true&b#c",
        "\u{0}",
        "=?base64?ZXU=?=",
        "ü\u{202e}",
        " eu ",
    ];
    let mut reached = 0;
    for value in values {
        let reply = client.call("query", json!({"region": value, "q": value})).await;
        reached += usize::from(reply.message["result"].is_object());
    }
    let calls = a.requests_of("tools/call");
    assert_eq!(calls.len(), reached, "one request for each call");
    for (request, (_, arguments)) in calls.iter().zip(a.calls()) {
        assert_eq!((request.path.as_str(), request.http_method.as_str()), ("/mcp", "POST"));
        assert_eq!(request.header("x-admin"), None);
        assert_eq!(request.headers.iter().filter(|(name, _)| name == "host").count(), 1);
        let said = request.header("mcp-param-region").expect("its header");
        let meant = transom_protocol::header::decode(said).expect("an encoding that can be read back");
        assert_eq!(Some(&*meant), arguments["region"].as_str(), "{said}");
        assert_eq!(request.json()["params"]["arguments"], arguments);
    }
    // Names go into headers as well.
    for name in ["query\r\nX-Admin: true", "query\n", "../query", "query?x"] {
        client.call(name, json!({})).await.is_not_found(name);
        let modern = gateway.client_of(MODERN).await;
        modern.call(name, json!({})).await.is_not_found(name);
    }
    assert_eq!(a.requests_of("tools/call").len(), reached);
}

// Prometheus' Go client made a series of every HTTP method a client came up with, until memory was gone.
#[tokio::test]
async fn cve_2022_21698_what_clients_make_up_makes_no_series() {
    let (a, gateway) = one().await;
    let client = gateway.client().await;
    let storm = async |round: usize| {
        for n in 0..300 {
            let word = format!("X{round}N{n}");
            gateway.send(&word, "/mcp", &[("accept", "*/*")], "").await;
            gateway.send("GET", &format!("/{word}"), &[], "").await;
            client.call(&word, json!({})).await.is_not_found(&word);
            client.request(&word, json!({})).await;
            let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": word, "capabilities": {}, "clientInfo": {"name": word, "version": word}}});
            gateway.post_mcp(&[("user-agent", &word), ("mcp-protocol-version", &word)], hello.to_string()).await;
        }
        let text = gateway.metrics().await;
        assert!(!text.contains(&format!("X{round}N")), "a made-up word is in the metrics");
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    let (first, second) = (storm(0).await, storm(1).await);
    // Scrapes are kept for a second.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let third = storm(2).await;
    assert_eq!(second, third, "{first}, then {second}, then {third} series");
    assert!(third < 5000 && a.calls().is_empty());
}
