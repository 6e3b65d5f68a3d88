//! Virtual tools on the wire: what clients see, what targets hear, and that nothing the registry hides can be reached around it.

use transom_tests::client::{LEGACY, MODERN};
use transom_tests::*;

/// The worked example of the specification.
fn weather_registry() -> Value {
    json!({ "tools": [{
        "name": "get_weather",
        "description": "Weather of a city",
        "source": { "target": "weather", "tool": "fetch_weather" },
        "defaults": { "api_key": "${WEATHER_API_KEY}", "units": "metric" },
        "hideFields": ["api_key", "units", "debug_mode"],
        "outputSchema": { "type": "object", "properties": {
            "temperature": { "type": "number", "sourceField": "$.data.current.temp_f" },
            "conditions": { "type": "string", "sourceField": "$.data.current.condition.text" } } },
        "version": "2.1.0", "tags": ["public"],
    }] })
}

const KEY: &str = "k-0123456789-abcdef";

fn weather() -> Target {
    let answer = json!({"data": {"current": {"temp_f": 52.3, "condition": {"text": "Cloudy"}, "internal_cost": 9}}});
    target("weather")
        .tool_def(json!({
            "name": "fetch_weather", "description": "Raw weather",
            "inputSchema": { "type": "object", "required": ["city", "api_key"], "properties": {
                "city": { "type": "string" }, "units": { "type": "string" }, "api_key": { "type": "string" }, "debug_mode": { "type": "boolean" } } },
        }))
        .tool("stations", ["region"])
        .reply("fetch_weather", json!({ "content": [{ "type": "text", "text": answer.to_string() }] }))
}

/// Names in the order of the listing; `tool_names` sorts them.
async fn in_order(client: &Client) -> Vec<String> {
    client.list_tools().await.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

// R-003-54, R-003-40, R-003-34, R-003-35, R-003-36, R-003-38, N9, N10, N11: with one target and with three, in both eras
#[tokio::test]
async fn the_worked_example_holds_with_one_target_and_with_three() {
    for others in [0, 2] {
        let weather = weather();
        let others: Vec<Target> = (0..others).map(|n| target(&format!("other{n}")).tool("echo", ["q"])).collect();
        let mut builder = gateway().target(&weather).registry(&weather_registry()).env([("WEATHER_API_KEY", KEY)]);
        for other in &others {
            builder = builder.target(other);
        }
        let gateway = builder.start().await;
        for client in [gateway.client().await, gateway.modern().await] {
            let names = in_order(&client).await;
            assert!(names.contains(&"get_weather".to_owned()) && !names.iter().any(|name| name.contains("fetch_weather")), "{names:?}");
            assert_eq!(names.first().map(String::as_str), Some("get_weather"), "virtual tools come first");
            let reply = client.call("get_weather", json!({"city": "Seattle"})).await;
            assert_eq!(reply.structured(), &json!({"temperature": 52.3, "conditions": "Cloudy"}));
            assert_eq!(reply.structured()["temperature"], 52.3);
            assert!(!reply.raw.contains("internal_cost"), "{}", reply.raw);
        }
        let sent = json!({"city": "Seattle", "api_key": KEY, "units": "metric"});
        assert_eq!(weather.calls(), [("fetch_weather".to_owned(), sent.clone()), ("fetch_weather".to_owned(), sent)]);
    }
}

// R-003-58: what a person does with curl
#[tokio::test]
async fn a_plain_post_without_a_session_lists_and_calls_virtual_tools() {
    let weather = weather();
    let gateway = gateway().target(&weather).registry(&weather_registry()).env([("WEATHER_API_KEY", KEY)]).start().await;
    let list = gateway.post("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.json();
    let listed = &list["result"]["tools"][0];
    assert_eq!(listed["name"], "get_weather");
    assert_eq!(listed["inputSchema"]["properties"], json!({"city": {"type": "string"}}));
    assert_eq!(listed["outputSchema"]["properties"]["temperature"], json!({"type": "number"}));
    assert!(!list.to_string().contains(KEY));
}

// R-003-37, R-003-39, O3: pass-through is untouched, byte for byte
#[tokio::test]
async fn what_the_registry_does_not_mention_passes_through_byte_for_byte() {
    let odd = r#"{"content":[{"type":"text","text":"a\u0062c"}],"n" : 1.0e400,"structuredContent":{"b":1,"a":18446744073709551617}}"#;
    let weather =
        weather().hostile("tools/call", Hostile::Body("application/json", format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{odd}}}"#).into()));
    let gateway = gateway().target(&weather).registry(&weather_registry()).env([("WEATHER_API_KEY", KEY)]).start().await;
    let client = gateway.client().await;
    let reply = client.call("stations", json!({"region": 1e3})).await;
    assert!(reply.raw.contains(odd), "{}", reply.raw);
}

// B1, B2, C13, N11: every spelling of a source that is virtualised
#[tokio::test]
async fn no_spelling_of_a_withdrawn_source_reaches_a_target() {
    let weather = weather();
    let gateway = gateway().target(&weather).registry(&weather_registry()).env([("WEATHER_API_KEY", KEY)]).start().await;
    let spellings = [
        "fetch_weather",
        "weather_fetch_weather",
        "weather__fetch_weather",
        "weather:fetch_weather",
        "weather/fetch_weather",
        "weather.fetch_weather",
        "weather-fetch_weather",
        "virtual_get_weather",
        "Get_Weather",
        "get_weather ",
        " get_weather",
        "get_weather\u{0}",
        "FETCH_WEATHER",
        "weather__get_weather",
        "weather:get_weather",
        "weather_get_weather",
        "get_weather\u{200b}",
        "ｇet_weather",
        "fetch_weather\u{202e}",
        "fetch%5Fweather",
        "weather%3Afetch_weather",
        "mcp://weather/fetch_weather",
        "tools/fetch_weather",
        "../fetch_weather",
        "",
        "*",
        "get_*",
    ];
    let long = "w".repeat(129);
    for client in [gateway.client().await, gateway.modern().await] {
        for name in spellings.iter().copied().chain([long.as_str()]) {
            let reply = client.call(name, json!({"city": "X"})).await;
            assert!(reply.message["error"]["code"] == -32602 || reply.status == 400, "{name:?}: {} {}", reply.status, reply.raw);
        }
    }
    for name in spellings.iter().filter(|name| name.is_ascii() && !name.contains(['/', '\0', ' ', '%']) && !name.is_empty()) {
        let reply = gateway.post(&format!("/tools/{name}/invoke"), &json!({"arguments": {"city": "X"}})).await;
        assert_eq!(reply.status, 404, "{name}: {}", reply.text());
        assert_eq!(gateway.get(&format!("/tools/{name}")).await.status, 404, "{name}");
    }
    // A13: by way of what is no tool
    let client = gateway.client().await;
    for (method, params) in [
        ("prompts/get", json!({"name": "fetch_weather"})),
        ("resources/read", json!({"uri": "mcp://weather/fetch_weather"})),
        ("resources/read", json!({"uri": "mcp://weather/tools%2Ffetch_weather"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "fetch_weather"}, "argument": {"name": "api_key", "value": ""}})),
        ("completion/complete", json!({"ref": {"type": "ref/tool", "name": "get_weather"}, "argument": {"name": "api_key", "value": ""}})),
    ] {
        assert_eq!(client.request(method, params.clone()).await.error_code(), -32602, "{method} {params}");
    }
    let scoped = gateway.connect_at("/mcp/weather", LEGACY).open().await;
    assert_eq!(in_order(&scoped).await, ["get_weather", "stations"]);
    scoped.call("fetch_weather", json!({"city": "X", "api_key": "mine"})).await.is_not_found("fetch_weather");
    assert!(weather.calls().is_empty(), "{:?}", weather.calls());
}

// A1, A2, A3, A7, S22, R(hidden_arg): the upstream never sees what a caller says about a hidden field
#[tokio::test]
async fn a_hidden_argument_is_refused_like_a_made_up_one_and_counted() {
    let weather = weather();
    let gateway = gateway().target(&weather).registry(&weather_registry()).env([("WEATHER_API_KEY", KEY)]).start().await;
    let client = gateway.client().await;
    let texts: Vec<String> = {
        let mut texts = Vec::new();
        for name in ["api_key", "zzzzzzz"] {
            let reply = client.call("get_weather", json!({"city": "X", name: "mine"})).await;
            assert!(reply.is_error(), "{}", reply.raw);
            texts.push(reply.text().replace(name, "NAME"));
        }
        texts
    };
    assert_eq!(texts[0], texts[1], "the two read the same");
    for name in ["API_KEY", "Api_Key", "api_\u{212a}ey", "ａpi_key", "api_key\u{200b}", "debug_mode", "DEBUG_MODE"] {
        assert!(client.call("get_weather", json!({"city": "X", name: "mine"})).await.is_error(), "{name}");
    }
    assert!(weather.calls().is_empty(), "{:?}", weather.calls());
    assert!(gateway.rejected("hidden_arg").await >= 2.0);
    assert!(gateway.rejected("hidden_arg_lookalike").await >= 4.0);
    let invoked = gateway.post("/tools/get_weather/invoke", &json!({"arguments": {"city": 7}})).await;
    assert_eq!(invoked.status, 400, "{}", invoked.text());
    assert_eq!(invoked.json()["error"]["code"], "invalid_arguments");
    assert!(invoked.json()["error"]["details"][0].as_str().is_some_and(|text| text.contains("city")), "{}", invoked.text());
}

// D2: raw and encoded, in a result, an error, a progress message and a log message
#[tokio::test]
async fn a_secret_that_a_target_sends_back_is_masked_wherever_it_stands() {
    let definition = json!({"name": "echo_all", "description": "", "inputSchema": {"type": "object", "properties": {"key": {"type": "string"}, "how": {"type": "string"}}}});
    let leaky = target("leaky").tool_def(definition).tool("other", []).handler("echo_all", |arguments, context| async move {
        let key = arguments["key"].as_str().unwrap_or_default().to_owned();
        context.progress(1);
        context.notify("notifications/message", json!({"level": "error", "data": format!("key is {key}")}));
        match arguments["how"].as_str() {
            Some("error") => Err(json!({"code": -5, "message": format!("bad key {key}"), "data": {"key": key}})),
            Some("is_error") => Ok(json!({"content": [{"type": "text", "text": format!("bad {key}")}], "isError": true})),
            _ => {
                Ok(json!({"content": [{"type": "text", "text": format!("got api_key={key}")}], "structuredContent": {"k": key}, "_meta": {"k": key}}))
            }
        }
    });
    let leaky = leaky.handler("other", |_, _| async move { Ok(json!({"content": [{"type": "text", "text": format!("a neighbour saw {KEY}")}]})) });
    let registry = json!({"tools": [{"name": "shout", "source": {"target": "leaky", "tool": "echo_all"}, "defaults": {"key": "${KEY}"}, "hideFields": ["key"]}]});
    let gateway = gateway().target(&leaky).registry(&registry).env([("KEY", KEY)]).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        for how in ["plain", "error", "is_error"] {
            let mut pending = client.start("tools/call", json!({"name": "shout", "arguments": {"how": how}, "_meta": {"progressToken": 1}}));
            let reply = pending.reply_within(std::time::Duration::from_secs(5)).await.expect("an answer");
            assert!(!reply.raw.contains(KEY), "{how}: {}", reply.raw);
            assert!(reply.raw.contains("[redacted]"), "{how}: {}", reply.raw);
            for notified in reply.notified() {
                assert!(!notified.contains(KEY), "{notified}");
            }
        }
        let neighbour = client.call("other", json!({})).await;
        assert!(!neighbour.raw.contains(KEY), "{}", neighbour.raw);
    }
    assert!(gateway.metric("transom_secret_reflected_total{target=\"leaky\"}").await >= 4.0);
}

// N14, registry.md 3, R-004-18: a virtual tool goes and comes with its target
#[tokio::test]
async fn a_virtual_tool_follows_its_target() {
    let (weather, other) = (weather(), target("other").tool("echo", []));
    let gateway = gateway().target(&weather).target(&other).registry(&weather_registry()).env([("WEATHER_API_KEY", KEY)]).start().await;
    let client = gateway.client().await;
    weather.stop();
    gateway.until("weather", "unavailable").await;
    gateway.until_listed(&["echo"]).await;
    let reply = client.call("get_weather", json!({"city": "X"})).await;
    reply.failed(1002, json!(false));
    let described = gateway.get("/tools/get_weather").await.json();
    assert_eq!(described["status"], "unavailable");
    assert_eq!(described["inputSchema"]["properties"], json!({"city": {"type": "string"}}), "what it was is remembered");
    weather.start();
    gateway.until_listed(&["get_weather", "stations", "echo"]).await;
    assert_eq!(client.call("get_weather", json!({"city": "X"})).await.structured()["temperature"], 52.3);
}

// N12, R-003-62: many on one source; a name that a target has as well
#[tokio::test]
async fn one_source_carries_many_tools_and_a_virtual_name_wins() {
    let (weather, other) = (weather(), target("other").tool("get_weather", ["q"]));
    let mut registry = weather_registry();
    let mut imperial = registry["tools"][0].clone();
    imperial["name"] = json!("get_weather_imperial");
    imperial["defaults"]["units"] = json!("imperial");
    registry["tools"].as_array_mut().unwrap().push(imperial);
    let gateway = gateway().target(&weather).target(&other).registry(&registry).env([("WEATHER_API_KEY", KEY)]).start().await;
    let client = gateway.client().await;
    assert_eq!(in_order(&client).await, ["get_weather", "get_weather_imperial", "stations", "other__get_weather"]);
    client.call("get_weather_imperial", json!({"city": "X"})).await;
    assert_eq!(weather.calls()[0].1["units"], "imperial");
    assert_eq!(client.call("other__get_weather", json!({"q": 1})).await.structured()["server"], "other");
}

// C5, E6, registry.md 2: a missing variable costs its own tool, and never publishes the raw one
#[tokio::test]
async fn a_quarantined_tool_costs_only_itself_and_status_says_why() {
    let weather = weather();
    let mut registry = weather_registry();
    registry["tools"].as_array_mut().unwrap().push(json!({"name": "list_stations", "source": {"target": "weather", "tool": "stations"}}));
    let gateway = gateway().target(&weather).registry(&registry).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["list_stations"]);
    client.call("get_weather", json!({"city": "X"})).await.is_not_found("get_weather");
    client.call("fetch_weather", json!({"city": "X", "api_key": "x"})).await.is_not_found("fetch_weather");
    let status = gateway.get("/status").await.json();
    assert_eq!(status["quarantined"][0]["tool"], "get_weather", "{status}");
    assert!(status["quarantined"][0]["reason"].as_str().unwrap().contains("WEATHER_API_KEY"), "{status}");
    assert_eq!(status["tools"], json!({"exposed": 1, "virtual": 1, "passthrough": 0}));
    assert_eq!(gateway.metric("transom_virtual_tools{state=\"quarantined\"}").await, 1.0);
}

// A10, protocol.md: Mcp-Name and Mcp-Param-* are written anew from the final arguments
#[tokio::test]
async fn headers_towards_a_modern_target_speak_its_own_names() {
    let definition = json!({"name": "fetch", "description": "", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}, "tier": {"type": "string", "x-mcp-header": "Tier"}}}});
    let modern = target("modern").era(Era::Modern).tool_def(definition);
    let registry = json!({"tools": [{"name": "look_up", "source": {"target": "modern", "tool": "fetch"},
        "arguments": {"area": {"source": "region"}}, "defaults": {"tier": "gold"}, "hideFields": ["tier"]}]});
    let gateway = gateway().target(&modern).registry(&registry).start().await;
    let legacy = gateway.client().await;
    legacy.call("look_up", json!({"area": "north"})).await.result();
    let sent = modern.requests_of("tools/call").pop().unwrap();
    assert_eq!(
        (sent.header("mcp-name"), sent.header("mcp-param-region"), sent.header("mcp-param-tier")),
        (Some("fetch"), Some("north"), Some("gold"))
    );
    assert_eq!(sent.json()["params"]["arguments"], json!({"region": "north", "tier": "gold"}));

    let client = gateway.modern().await;
    let message = client.message("tools/call", json!({"name": "look_up", "arguments": {"area": "north"}}));
    let send = |extra: Vec<(&'static str, &'static str)>| {
        let mut headers = client.headers(&message);
        headers.extend(extra.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        let (message, gateway) = (message.to_string(), &gateway);
        async move {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            gateway.post_mcp(&headers, message).await
        }
    };
    assert_eq!(send(vec![("mcp-param-region", "north")]).await.status, 200);
    for bad in [vec![], vec![("mcp-param-region", "south")], vec![("mcp-param-region", "north"), ("mcp-param-tier", "iron")]] {
        let reply = send(bad).await;
        assert_eq!((reply.status, reply.json()["error"]["code"].as_i64()), (400, Some(-32020)), "{}", reply.text());
    }
    assert_eq!(modern.requests_of("tools/call").len(), 2);
}

// registry.md 9, R-002-13..15: tools that stand on no target
#[tokio::test]
async fn local_tools_are_answered_in_place() {
    let weather = weather();
    let local = |name: &str, implementation: Value| json!({"name": name, "description": name, "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}}, "implementation": implementation});
    let registry = json!({"tools": [
        local("mocked", json!({"type": "mock", "mock_response": {"answer": 42}})),
        local("sum", json!({"type": "builtin", "handler": "calculator"})),
        local("about", json!({"type": "internal", "handler": "gateway_status"})),
        json!({"name": "find", "description": "Looks for tools", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
            "implementation": {"type": "internal", "handler": "catalog_search"}}),
    ]});
    let gateway = gateway().target(&weather).registry(&registry).start().await;
    let client = gateway.client().await;
    assert_eq!(in_order(&client).await, ["mocked", "sum", "about", "find", "fetch_weather", "stations"]);
    let found = client.call("find", json!({"query": "raw weather?"})).await;
    assert_eq!(found.structured()["tools"][0]["name"], "fetch_weather", "{}", found.raw);
    assert_eq!(client.call("mocked", json!({})).await.structured(), &json!({"answer": 42}));
    assert!(client.call("sum", json!({"expression": "2+2*3"})).await.text().contains('8'));
    assert_eq!(client.call("about", json!({})).await.structured()["targets"], json!({"configured": 1, "connected": 1}));
    let invoked = gateway.post("/tools/sum/invoke", &json!({"arguments": {"expression": "1+1"}})).await.json();
    assert_eq!((invoked["success"].as_bool(), &invoked["server"]), (Some(true), &Value::Null), "{invoked}");
    weather.stop();
    gateway.until_listed(&["mocked", "sum", "about", "find"]).await;
    assert!(client.call("sum", json!({"expression": "2+2"})).await.text().contains('4'), "no target is needed");
}

// surfaces.md 1, N23: filters see virtual tools under their own names
#[tokio::test]
async fn filters_narrow_virtual_tools_like_any_other() {
    let (weather, other) = (weather(), target("other").tool("get_time", []));
    let gateway = gateway().target(&weather).target(&other).registry(&weather_registry()).env([("WEATHER_API_KEY", KEY)]).start().await;
    for (path, expected) in [
        ("/mcp?prefix=get_", vec!["get_weather", "get_time"]),
        ("/mcp?server=weather", vec!["get_weather", "stations"]),
        ("/mcp?server=&prefix=", vec!["get_weather", "stations", "get_time"]),
        ("/mcp/weather?prefix=get_", vec!["get_weather"]),
    ] {
        assert_eq!(in_order(&gateway.connect_at(path, LEGACY).open().await).await, expected, "{path}");
    }
    let narrowed = gateway.connect_at("/mcp?server=other", LEGACY).open().await;
    narrowed.call("get_weather", json!({"city": "X"})).await.is_not_found("get_weather");
    assert!(weather.calls().is_empty());
}

// A11, H9: the answer to a question is a call like any other: its arguments are built from scratch
#[tokio::test]
async fn an_answer_to_a_question_cannot_bring_hidden_arguments_along() {
    let definition = json!({"name": "fetch", "description": "", "inputSchema": {"type": "object", "properties": {
        "q": {"type": "string"}, "api_key": {"type": "string"}}}});
    let asking = target("asking").era(Era::Modern).tool_def(definition).handler("fetch", |_, _| async move {
        let question = json!({"who": {"method": "elicitation/create", "params": {"message": format!("is it {KEY}?")}}});
        Ok(json!({"resultType": "input_required", "requestState": format!("inner-state of {KEY}"), "inputRequests": question}))
    });
    let registry = json!({"tools": [{"name": "look_up", "source": {"target": "asking", "tool": "fetch"}, "defaults": {"api_key": "${KEY}"}, "hideFields": ["api_key"]}]});
    let gateway = gateway().target_with(&asking, |spec| spec.allow_server_requests = true).registry(&registry).env([("KEY", KEY)]).start().await;
    let client = gateway.connect(MODERN).capabilities(json!({"elicitation": {}})).open().await;
    let question = client.call("look_up", json!({"q": "x"})).await;
    let state = question.result()["requestState"].clone();
    assert!(state.is_string() && !question.raw.contains("inner-state"), "{}", question.raw);
    // D2: what is asked has no secret in it; the state, which nobody but the target reads, keeps what it had.
    assert!(question.raw.contains("is it [redacted]?") && !question.raw.contains(KEY), "{}", question.raw);
    let retry = |arguments: Value| {
        client.request("tools/call", json!({"name": "look_up", "arguments": arguments, "requestState": state, "inputResponses": {}}))
    };
    assert!(retry(json!({"q": "x", "api_key": "mine"})).await.is_error());
    assert_eq!(asking.calls().len(), 1, "nothing was asked again");
    retry(json!({"q": "y"})).await.result();
    let sent = asking.requests_of("tools/call").pop().unwrap().json();
    assert_eq!(sent["params"]["requestState"], format!("inner-state of {KEY}"));
    assert_eq!(sent["params"]["arguments"], json!({"q": "y", "api_key": KEY}));
}

// R-005-5: first the registry, then the rules, and the prefix last
#[tokio::test]
async fn rules_see_what_the_registry_makes_and_not_what_the_prefix_makes_of_it() {
    use transom_gateway::config::{Effect, Rule};
    let (weather, a, b) = (weather(), target("a").tool("echo", ["q"]), target("b").tool("echo", ["q"]));
    let allow = |expression: &str| Rule { effect: Effect::Allow, expression: expression.into() };
    let gateway = gateway()
        .target(&weather)
        .target(&a)
        .target(&b)
        .registry(&weather_registry())
        .env([("WEATHER_API_KEY", KEY)])
        .config(|config| {
            config.authorization = Some(vec![
                allow("'public' in mcp.tool.tags && mcp.tool.version == '2.1.0' && mcp.tool.source == 'fetch_weather'"),
                allow("mcp.tool.name == 'echo' && mcp.tool.target == 'a'"),
                allow("mcp.tool.name == 'fetch_weather' || mcp.tool.name == 'b__echo'"),
            ]);
        })
        .start()
        .await;
    let client = gateway.client().await;
    assert_eq!(in_order(&client).await, ["get_weather", "a__echo"]);
    assert_eq!(client.call("get_weather", json!({"city": "X"})).await.structured()["temperature"], 52.3);
    assert_eq!(client.call("a__echo", json!({})).await.structured()["server"], "a");
    client.call("b__echo", json!({})).await.is_not_found("b__echo");
    client.call("fetch_weather", json!({})).await.is_not_found("fetch_weather");
    assert!(b.calls().is_empty());
}

// E2, registry.md 6: `errors: generic` covers every way in which a source can say what went wrong
#[tokio::test]
async fn a_generic_error_says_nothing_of_what_its_source_said() {
    let failing = |name: &str, era: Era| {
        target(name).era(era).tool("fetch", ["q"]).handler("fetch", |arguments, _| async move {
            match arguments["q"].as_str() {
                Some("error") => Err(json!({"code": -32050, "message": "db.internal failed", "data": {"dsn": "db.internal"}})),
                _ => Ok(json!({"content": [{"type": "text", "text": "db.internal failed"}], "isError": true})),
            }
        })
    };
    let (old, new) = (failing("old", Era::Legacy("2025-11-25")), failing("new", Era::Modern));
    let tool = |name: &str, errors: &str| json!({"name": format!("{name}_{errors}"), "source": {"target": name, "tool": "fetch"}, "errors": errors});
    let registry = json!({"tools": [tool("old", "generic"), tool("new", "generic"), tool("old", "pass"), tool("new", "pass")]});
    let gateway = gateway().target(&old).target(&new).registry(&registry).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        for tool in ["old", "new"] {
            let reply = client.call(&format!("{tool}_generic"), json!({"q": "error"})).await;
            assert_eq!((reply.error_code(), reply.error()["data"].clone()), (-32050, json!({"server": tool})), "{}", reply.raw);
            assert!(!reply.raw.contains("db.internal"), "{}", reply.raw);
            assert!(!client.call(&format!("{tool}_generic"), json!({"q": "result"})).await.raw.contains("db.internal"));
            let reply = client.call(&format!("{tool}_pass"), json!({"q": "error"})).await;
            assert_eq!((reply.error_message(), &reply.error()["data"]["dsn"]), ("db.internal failed".to_owned(), &json!("db.internal")));
        }
    }
    let rest = gateway.send("POST", "/tools/old_generic/invoke", &[("content-type", "application/json")], r#"{"arguments":{"q":"error"}}"#).await;
    assert!(rest.status == 502 && !rest.text().contains("db.internal"), "{}", rest.text());
}

// N4, registry.md 6: a legacy result has no type; calling itself a question does not lead around a projection
#[tokio::test]
async fn a_legacy_result_that_calls_itself_a_question_is_shaped_like_any_other() {
    let a = target("a").tool("fetch", []).reply(
        "fetch",
        json!({"content": [{"type": "text", "text": "{\"t\":1,\"cost\":9}"}], "resultType": "input_required", "inputRequests": {"a": {"x": "cost"}}}),
    );
    let registry = json!({"tools": [{"name": "look", "source": {"target": "a", "tool": "fetch"},
        "outputSchema": {"type": "object", "properties": {"t": {"type": "integer", "sourceField": "$.t"}}}}]});
    let gateway = gateway().target(&a).registry(&registry).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        let reply = client.call("look", json!({})).await;
        assert_eq!(reply.structured(), &json!({"t": 1}), "{}", reply.raw);
        assert!(!reply.raw.contains("cost") && !reply.raw.contains("input_required"), "{}", reply.raw);
    }
}

// A11: `_meta` is for those who say whose names they use, and for what everybody knows
#[tokio::test]
async fn a_hidden_argument_does_not_come_by_meta() {
    let a = target("a").tool("fetch", ["q", "api_key"]);
    let registry = json!({"tools": [{"name": "look", "source": {"target": "a", "tool": "fetch"}, "defaults": {"api_key": "${KEY}"}, "hideFields": ["api_key"]}]});
    let gateway = gateway().target(&a).registry(&registry).env([("KEY", KEY)]).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        let said = json!({"api_key": "mine", "API_KEY": "mine", "example.com/note": "kept", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
        let mut message = client.message("tools/call", json!({"name": "look", "arguments": {"q": "x"}}));
        for (key, value) in said.as_object().unwrap() {
            message["params"]["_meta"][key] = value.clone();
        }
        client.exchange(message, None).await.result();
        let sent = a.requests_of("tools/call").pop().unwrap();
        let said = &sent.json()["params"]["_meta"];
        assert!(!sent.text().contains("mine"), "{}", sent.text());
        assert_eq!((&said["example.com/note"], said["traceparent"].is_string()), (&json!("kept"), true), "{}", sent.text());
    }
}
