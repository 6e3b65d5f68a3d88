//! Tools for scripts: plain HTTP, plain JSON.

use std::time::Duration;
use transom_tests::*;

async fn two() -> (Target, Target, Gateway) {
    let strict = json!({"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]});
    let a = target("a").tool_def(json!({"name": "search", "description": "finds", "inputSchema": strict, "outputSchema": {"type": "object"}}));
    let b = target("b").tool("add", ["x"]).slow("slow", Duration::from_secs(60));
    let gateway = gateway().target(&a).target_with(&b, |spec| spec.timeout = Duration::from_millis(300)).start().await;
    (a, b, gateway)
}

// surfaces.md 4, R-004-17
#[tokio::test]
async fn the_list_has_name_server_description_schemas_and_status() {
    let (_a, _b, gateway) = two().await;
    let tools = gateway.get("/tools").await.json();
    assert_eq!(tools.as_array().unwrap().len(), 3);
    let search = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "search").unwrap();
    assert_eq!((&search["server"], &search["description"], &search["status"]), (&json!("a"), &json!("finds"), &json!("available")));
    assert_eq!(search["inputSchema"]["required"], json!(["q"]));
    assert_eq!(search["outputSchema"], json!({"type": "object"}));
}

// R-000-6
#[tokio::test]
async fn the_compact_list_has_name_description_and_server_only() {
    let (_a, _b, gateway) = two().await;
    for tool in gateway.get("/tools?compact=true").await.json().as_array().unwrap() {
        let mut members: Vec<&String> = tool.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, ["description", "name", "server"]);
    }
}

// R-000-7, C17
#[tokio::test]
async fn one_tool_is_shown_whole_and_an_unknown_one_is_404() {
    let (_a, _b, gateway) = two().await;
    let search = gateway.get("/tools/search").await;
    assert_eq!(search.status, 200);
    assert_eq!(search.json()["inputSchema"]["properties"]["n"], json!({"type": "integer"}));
    let unknown = gateway.get("/tools/nope").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"].is_object() || unknown.json()["error"].is_string(), "{}", unknown.text());
}

// surfaces.md 4
#[tokio::test]
async fn invoke_calls_the_tool() {
    let (a, _b, gateway) = two().await;
    let response = gateway.post("/tools/search/invoke", &json!({"arguments": {"q": "x", "n": 3}})).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    assert_eq!((&body["success"], &body["server"]), (&json!(true), &json!("a")));
    assert_eq!(body["result"]["structuredContent"]["arguments"], json!({"q": "x", "n": 3}));
    assert!(body["durationMs"].is_number());
    assert_eq!(a.calls(), [("search".to_owned(), json!({"q": "x", "n": 3}))]);
    // The alias for generated clients.
    let response = gateway.post("/tools/a__search", &json!({"arguments": {"q": "y"}})).await;
    assert_eq!((response.status, response.json()["success"].clone()), (200, json!(true)));
}

// N27, R-001-44
#[tokio::test]
async fn invoke_refuses_what_is_wrong_and_the_target_is_not_asked() {
    let (a, b, gateway) = two().await;
    let calls = [
        ("/tools/a%20b%0a/invoke", json!({"arguments": {}}), 400),
        ("/tools/search/invoke", json!({"arguments": ["x"]}), 400),
        ("/tools/search/invoke", json!({"arguments": "x"}), 400),
        ("/tools/search/invoke", json!([]), 400),
        ("/tools/nope/invoke", json!({"arguments": {}}), 404),
        ("/tools/nobody__search", json!({"arguments": {}}), 404),
    ];
    for (path, body, status) in calls {
        let response = gateway.post(path, &body).await;
        assert_eq!(response.status, status, "{path} {body}: {}", response.text());
        let answer = response.json();
        assert_eq!(answer["success"], false);
        assert!(!answer["error"]["code"].is_null() && answer["error"]["message"].is_string(), "{answer}");
    }
    let not_json = gateway.send("POST", "/tools/search/invoke", &[("content-type", "application/json")], "{").await;
    assert_eq!(not_json.status, 400);
    assert!(a.calls().is_empty() && b.calls().is_empty());
}

// R-001-44
#[tokio::test]
async fn invoke_names_every_violation_of_the_schema() {
    let (a, _b, gateway) = two().await;
    let response = gateway.post("/tools/search/invoke", &json!({"arguments": {"n": "three"}})).await;
    assert_eq!(response.status, 400, "{}", response.text());
    let details = response.json()["error"]["details"].to_string();
    assert!(details.contains('q') && details.contains('n'), "{details}");
    assert!(a.calls().is_empty());
}

// registry.md 4: the arguments of a pass-through tool are the target's to judge over MCP.
#[tokio::test]
async fn a_call_over_mcp_reaches_the_target_which_judges_its_arguments() {
    let (a, _b, gateway) = two().await;
    for client in [gateway.client().await, gateway.modern().await] {
        client.call("search", json!({"n": "three"})).await;
    }
    assert_eq!(a.calls().len(), 2);
    let reply = gateway.client().await.request("tools/call", json!({"name": "search", "arguments": ["q"]})).await;
    assert!(reply.is_error() && reply.text().contains("must be an object"), "{}", reply.raw);
    assert_eq!(a.calls().len(), 2);
}

// R-001-43, R-004-18
#[tokio::test]
async fn invoke_says_when_a_target_is_down() {
    let (a, _b, gateway) = two().await;
    a.stop();
    gateway.until("a", "unavailable").await;
    let response = gateway.post("/tools/search/invoke", &json!({"arguments": {"q": "x"}})).await;
    assert_eq!(response.status, 503, "{}", response.text());
    assert!(response.header("retry-after").parse::<u64>().is_ok());
    assert!(!response.json()["error"]["code"].is_null());
    // Its tools are in no list, but not forgotten.
    let names = |tools: Value| tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    eventually("its tools leave the list", || async { !names(gateway.get("/tools").await.json()).contains(&"search".to_owned()) }).await;
    let all = gateway.get("/tools?status=all").await.json();
    assert!(names(all.clone()).contains(&"search".to_owned()));
    assert!(all.as_array().unwrap().iter().any(|tool| tool["status"] == "unavailable"));
    assert_eq!(gateway.get("/tools/search").await.json()["status"], "unavailable");
}

#[tokio::test]
async fn invoke_times_out_with_504() {
    let (_a, b, gateway) = two().await;
    let response = gateway.post("/tools/slow/invoke", &json!({"arguments": {}})).await;
    assert_eq!(response.status, 504, "{}", response.text());
    assert!(!response.json()["error"]["code"].is_null());
    eventually("the target is told", || async { b.cancelled().len() == 1 }).await;
}

#[tokio::test]
async fn a_result_that_says_is_error_is_still_a_result() {
    let a = target("a").tool("sad", []).reply("sad", json!({"content": [{"type": "text", "text": "no"}], "isError": true}));
    let gateway = gateway().target(&a).start().await;
    let body = gateway.post("/tools/sad/invoke", &json!({"arguments": {}})).await.json();
    assert_eq!(body["result"]["isError"], true, "{body}");
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

// surfaces.md 4, N23
#[tokio::test]
async fn the_list_is_narrowed_by_server_and_prefix_and_an_empty_one_narrows_nothing() {
    let (_a, _b, gateway) = two().await;
    for (query, expected) in [
        ("server=a", vec!["search"]),
        ("server=b", vec!["add", "slow"]),
        ("server=b&prefix=s", vec!["slow"]),
        ("prefix=s&compact=1", vec!["search", "slow"]),
        ("server=nobody", vec![]),
        ("server=&prefix=", vec!["search", "add", "slow"]),
    ] {
        assert_eq!(names(&gateway.get(&format!("/tools?{query}")).await.json()), expected, "{query}");
    }
}

// R-001-44: the arguments of a virtual tool are judged by what it advertises.
#[tokio::test]
async fn invoke_names_what_is_wrong_with_the_arguments_of_a_virtual_tool() {
    let (a, _b, gateway_without) = two().await;
    drop(gateway_without);
    let registry = json!({"tools": [{"name": "find", "source": {"target": "a", "tool": "search"}, "hideFields": ["n"]}]});
    let gateway = gateway().target(&a).registry(&registry).start().await;
    for (arguments, named) in [(json!({}), "q"), (json!({"q": 7}), "q"), (json!({"q": "x", "n": 1}), "n")] {
        let response = gateway.post("/tools/find/invoke", &json!({"arguments": arguments})).await;
        assert_eq!(response.status, 400, "{arguments}: {}", response.text());
        let error = &response.json()["error"];
        assert_eq!(error["code"], "invalid_arguments", "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    assert!(a.calls().is_empty());
    let good = gateway.post("/tools/find/invoke", &json!({"arguments": {"q": "x"}})).await.json();
    assert_eq!((&good["success"], &good["server"]), (&json!(true), &json!("a")), "{good}");
}

#[tokio::test]
async fn a_tool_without_arguments_needs_none_and_no_body_either() {
    let a = target("a").tool("ping", []);
    let gateway = gateway().target(&a).start().await;
    for body in ["", "{}", r#"{"arguments":null}"#, r#"{"arguments":{}}"#] {
        let response = gateway.send("POST", "/tools/ping/invoke", &[("content-type", "application/json")], body).await;
        assert_eq!(response.status, 200, "{body:?}: {}", response.text());
    }
    assert_eq!(a.calls().len(), 4);
}

// surfaces.md 2: several matches are an error that names them.
#[tokio::test]
async fn a_name_that_could_mean_several_tools_is_refused_and_the_candidates_named() {
    let (one, other) = (target("a_b").tool("c", []), target("a").tool("b_c", []));
    let gateway = gateway().target(&one).target(&other).start().await;
    for response in [gateway.get("/tools/a_b_c").await, gateway.post("/tools/a_b_c/invoke", &json!({})).await] {
        assert_eq!(response.status, 400, "{}", response.text());
        let error = &response.json()["error"];
        assert_eq!(error["code"], "ambiguous_name");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(" c") && message.contains("b_c"), "{message}");
    }
    assert!(one.calls().is_empty() && other.calls().is_empty());
}

// surfaces.md 4: code 1002, and when to try again.
#[tokio::test]
async fn a_tool_whose_target_is_down_says_so_with_code_and_time() {
    let (a, _b, gateway) = two().await;
    a.stop();
    gateway.until("a", "unavailable").await;
    let response = gateway.post("/tools/a__search", &json!({"arguments": {"q": "x"}})).await;
    assert_eq!(response.status, 503, "{}", response.text());
    let error = &response.json()["error"];
    assert_eq!((&error["code"], &error["details"]["rpcCode"]), (&json!("upstream_unavailable"), &json!(1002)), "{error}");
    let compact = gateway.get("/tools?status=all&compact=true&server=a").await.json();
    assert_eq!(compact, json!([{"name": "search", "description": "finds", "server": "a"}]));
}

fn rules(config: &mut transom_gateway::Config, deny: &str) {
    let rule = |effect, expression: &str| transom_gateway::config::Rule { effect, expression: expression.to_owned() };
    let effects = (transom_gateway::config::Effect::Allow, transom_gateway::config::Effect::Deny);
    config.authorization = Some(vec![rule(effects.0, "true"), rule(effects.1, deny)]);
}

// operations.md: what is refused is counted, whichever way it came.
#[tokio::test]
async fn a_refused_invocation_is_counted_like_a_refused_call() {
    let (a, b, _) = two().await;
    let gateway = gateway().target(&a).target(&b).config(|config| rules(config, "has(mcp.tool) && mcp.tool.name == 'add'")).start().await;
    for (path, arguments, status) in [
        ("/tools/nope/invoke", json!({}), 404),
        ("/tools/add/invoke", json!({"x": "1"}), 404),
        ("/tools/search/invoke", json!({"n": "three"}), 400),
        ("/tools/search/invoke", json!("x"), 400),
    ] {
        let response = gateway.post(path, &json!({"arguments": arguments})).await;
        assert_eq!(response.status, status, "{path}: {}", response.text());
    }
    let calls = "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\"}";
    eventually("each is counted as a call", || async { gateway.metric(calls).await == 4.0 }).await;
    for (reason, times) in [("unknown_tool", 2.0), ("invalid_arguments", 1.0), ("not_an_object", 1.0)] {
        assert_eq!(gateway.rejected(reason).await, times, "{reason}");
    }
    assert!(a.calls().is_empty() && b.calls().is_empty());
}

// operations.md: a limit counts what is asked for, good or not.
#[tokio::test]
async fn bad_arguments_of_a_script_count_against_its_limit() {
    let (a, _, _) = two().await;
    let rate = transom_gateway::config::RateLimit { tool: None, per: transom_gateway::config::Per::All, calls: 1, period: Duration::from_secs(600) };
    let gateway = gateway().target(&a).config(|config| config.limits.rates = vec![rate]).start().await;
    let bad = json!({"arguments": {"n": "three"}});
    assert_eq!(gateway.post("/tools/search/invoke", &bad).await.status, 400);
    assert_eq!(gateway.post("/tools/search/invoke", &bad).await.status, 429);
}

// security.md: a hidden tool cannot be told from one that does not exist, not even by its name.
#[tokio::test]
async fn a_hidden_tool_does_not_stand_in_the_way_of_another_spelling() {
    let (x, z) = (target("x").tool("y", []), target("z").tool("x_y", []));
    let gateway = gateway().target(&x).target(&z).config(|config| rules(config, "has(mcp.tool) && mcp.tool.target == 'z'")).start().await;
    assert_eq!(gateway.get("/tools/x_y").await.json()["server"], "x");
    assert_eq!(gateway.post("/tools/x_y/invoke", &json!({})).await.json()["server"], "x");
    for client in [gateway.client().await, gateway.modern().await] {
        assert!(!client.call("x_y", json!({})).await.is_error());
    }
    assert_eq!((x.calls().len(), z.calls().len()), (3, 0));
}

#[tokio::test]
async fn arguments_that_are_no_object_are_told_as_such_where_rules_read_them() {
    let a = target("a").tool("t", ["city"]);
    let gateway = gateway().target(&a).config(|config| rules(config, "has(mcp.tool) && mcp.tool.arguments.city == 'Rome'")).start().await;
    let reply = gateway.client().await.request("tools/call", json!({"name": "t", "arguments": "x"})).await;
    assert!(reply.is_error() && reply.text().contains("arguments must be an object"), "{}", reply.raw);
    let reply = gateway.client().await.request("tools/call", json!({"name": "t", "arguments": {"city": "Rome"}})).await;
    reply.is_not_found("t");
}

// surfaces.md 4: failures are `{success: false, error}` wherever scripts are.
#[tokio::test]
async fn whatever_is_refused_at_the_door_is_told_as_scripts_read_it() {
    let (_a, _b, gateway) = two().await;
    let json_type = [("content-type", "application/json")];
    let large = format!(r#"{{"arguments":{{"q":"{}"}}}}"#, "x".repeat(5 << 20));
    for (method, path, headers, body, status) in [
        ("POST", "/tools/search/invoke", &[("content-type", "text/plain")][..], "{}", 415),
        ("POST", "/tools/search/invoke", &json_type[..], large.as_str(), 413),
        ("PUT", "/tools", &[][..], "", 405),
        ("PUT", "/search?q=x", &[][..], "", 405),
        ("GET", "/tools/a/b/c", &[][..], "", 404),
        ("GET", "/runtime/nothing", &[][..], "", 404),
    ] {
        let response = gateway.send(method, path, headers, body.to_owned()).await;
        assert_eq!(response.status, status, "{method} {path}: {}", response.text());
        let answer = response.json();
        assert_eq!(answer["success"], false, "{method} {path}: {answer}");
        assert!(answer["error"]["code"].is_string() && answer["error"]["message"].is_string(), "{answer}");
    }
    assert_eq!(gateway.get("/nothing").await.json()["jsonrpc"], "2.0");
}

#[tokio::test]
async fn every_path_names_the_methods_it_takes() {
    let (_a, _b, gateway) = two().await;
    for (path, allowed) in [
        ("/tools", "GET, HEAD"),
        ("/tools/search", "GET, HEAD, POST"),
        ("/tools/search/invoke", "POST"),
        ("/search", "GET, HEAD"),
        ("/status", "GET, HEAD"),
        ("/events", "GET"),
    ] {
        assert_eq!(gateway.send("DELETE", path, &[], "").await.header("allow"), allowed, "{path}");
    }
    for path in ["/tools", "/tools/search", "/search?q=x", "/status"] {
        let response = gateway.send("HEAD", path, &[], "").await;
        assert_eq!((response.status, response.text().len()), (200, 0), "{path}");
    }
}

#[tokio::test]
async fn a_targets_error_does_not_speak_for_the_gateway() {
    let a = target("a").tool("sad", []).handler("sad", |_, _| async {
        Err(json!({"code": -5, "message": "no", "data": {"rpcCode": 1, "executed": false, "retryAfterMs": 5, "server": "b", "why": 1}}))
    });
    let gateway = gateway().target(&a).start().await;
    let error = gateway.post("/tools/sad/invoke", &json!({})).await.json()["error"].clone();
    assert_eq!(error["details"], json!({"why": 1, "server": "a", "rpcCode": -5}), "{error}");
}

#[tokio::test]
async fn a_definition_shows_each_member_once_however_its_target_spelled_it() {
    let tools = r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"t","st\u0061tus":"mine","inputSchema":{"type":"object","properties":{"n":{"maximum":1e400}}}}]}}"#;
    let a = target("a").tool("t", []).hostile("tools/list", Hostile::Body("application/json", tools.into()));
    let gateway = gateway().target(&a).start().await;
    let shown = gateway.get("/tools/t").await;
    assert!(shown.text().contains("\"status\":\"available\"") && !shown.text().contains("mine"), "{}", shown.text());
    // A number that no float holds keeps nobody from calling.
    let response = gateway.post("/tools/t/invoke", &json!({"arguments": {"n": 5}})).await;
    assert_eq!(response.status, 200, "{}", response.text());
}

#[tokio::test]
async fn a_long_name_is_not_repeated_whole() {
    let (_a, _b, gateway) = two().await;
    let response = gateway.get(&format!("/tools/{}", "x".repeat(5_000))).await;
    assert_eq!(response.status, 404);
    assert!(response.text().len() < 400, "{}", response.text());
}

// surfaces.md 4 and 6
#[tokio::test]
async fn parameters_of_the_list_are_read_or_refused_and_never_ignored() {
    let (_a, _b, gateway) = two().await;
    for (query, expected) in [
        ("allowed=add,search", vec!["search", "add"]),
        ("allowed=", vec![]),
        ("%73erver=a", vec!["search"]),
        ("status=available&compact=false", vec!["search", "add", "slow"]),
    ] {
        assert_eq!(names(&gateway.get(&format!("/tools?{query}")).await.json()), expected, "{query}");
    }
    for query in ["status=everything", "compact=maybe"] {
        let response = gateway.get(&format!("/tools?{query}")).await;
        assert_eq!((response.status, response.json()["success"].clone()), (400, json!(false)), "{query}");
    }
}

// registry.md: what an internal handler tells is what its caller sees.
#[tokio::test]
async fn the_status_tool_counts_what_the_caller_sees() {
    let (a, b, _) = two().await;
    let about = json!({"name": "about", "description": "says how it is", "inputSchema": {"type": "object"},
        "implementation": {"type": "internal", "handler": "gateway_status"}});
    let hide = "has(mcp.tool) && (mcp.tool.name == 'add' || mcp.tool.name == 'slow')";
    let gateway = gateway().target(&a).target(&b).registry(&json!({"tools": [about]})).config(|config| rules(config, hide)).start().await;
    let seen = gateway.client().await.tool_names().await.len();
    let told = gateway.post("/tools/about/invoke", &json!({})).await.json()["result"]["structuredContent"].clone();
    assert_eq!((&told["targets"]["configured"], &told["tools"]), (&json!(1), &json!(seen)), "{told}");
}
