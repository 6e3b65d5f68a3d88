//! Tools in the formats of LLM providers, and the way back from what a model picked.

use std::collections::BTreeSet;
use transom_gateway::config::{Authentication, Effect, Rule};
use transom_tests::providers::{FORMATS, accepts, name_of, names, schema_of};
use transom_tests::*;

const DOTTED: &str = "files.read";

fn long() -> String {
    "look_up_everything_that_is_known_about_a_customer_and_all_of_their_orders_since_the_beginning".to_owned()
}

/// Two targets with tools that are awkward in every way that providers mind.
async fn awkward() -> (Target, Target, Gateway) {
    let a = target("a")
        .tool("plain", ["q"])
        .tool_def(json!({"name": DOTTED, "description": "Reads.", "inputSchema": {"type": "object", "properties": {
            "path": {"type": "string", "format": "uri"}, "lines": {"type": ["integer", "null"], "exclusiveMinimum": 0}, "all": true}, "required": ["path"]}}))
        .tool_def(json!({"name": long(), "inputSchema": {"type": "object"}}));
    let b = target("b")
        .tool_def(json!({"name": "2fa_enable", "inputSchema": {"type": "object", "properties": {"codes": {"type": "array"}}}}))
        .tool_def(json!({"name": "choose", "description": "x".repeat(3000), "inputSchema": {"type": "object", "$defs": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "kind": {"const": 7}}}},
            "oneOf": [{"properties": {"node": {"$ref": "#/$defs/Node"}}, "required": ["node"]}, {"properties": {"id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}]}}))
        .tool_def(json!({"name": "free", "title": "Free", "inputSchema": {"type": "object", "properties": {
            "data": {"type": "object", "additionalProperties": {"type": "string"}}, "mode": {"enum": ["fast", "", null]}, "n": {"enum": [1, 2]}}}}));
    let gateway = gateway().target(&a).target(&b).start().await;
    (a, b, gateway)
}

async fn export(gateway: &Gateway, query: &str) -> Value {
    let response = gateway.get(&format!("/tools?{query}")).await;
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    response.json()
}

// F1, F2, F3, F18, R-002-7, R-002-8, R-002-9
#[tokio::test]
async fn every_format_is_what_its_provider_accepts() {
    let (_a, _b, gateway) = awkward().await;
    for format in FORMATS {
        let tools = export(&gateway, &format!("format={format}")).await;
        accepts(format, &tools);
        let names = names(format, &tools);
        assert_eq!(names.len(), 6, "{format}: {names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 6, "{format}: {names:?}");
        assert_eq!(names[0], "plain");
        assert!(schema_of(format, &tools[0])["properties"]["q"].is_object(), "{format}: {}", tools[0]);
    }
    let [openai, ollama] = ["openai", "ollama"].map(|format| format!("format={format}&allowed=plain,free"));
    assert_eq!(export(&gateway, &openai).await, export(&gateway, &ollama).await);
}

// F4, F5, F6, R-002-10, surfaces.md 6
#[tokio::test]
async fn allowed_server_and_prefix_narrow_an_export_and_leave_the_order() {
    let (_a, _b, gateway) = awkward().await;
    let all = names("openai", &export(&gateway, "format=openai").await);
    let of = |query: &'static str| {
        let gateway = &gateway;
        async move { names("openai", &export(gateway, &format!("format=openai&{query}")).await) }
    };
    assert_eq!(of("allowed=free,plain").await, ["plain", "free"]);
    assert_eq!(of("allowed=").await, [""; 0]);
    assert_eq!(of("allowed=nobody").await, [""; 0]);
    assert_eq!(of("server=b").await, all[3..]);
    assert_eq!(of("server=b&allowed=free,plain").await, ["free"]);
    assert_eq!(of("prefix=pl").await, ["plain"]);
    assert_eq!(of("server=&prefix=").await, all);
    // By the tool's own name and by its safe one, which is the same however much is left out around it.
    assert_eq!(of("allowed=files.read").await, all[1..2]);
    let by_safe_name = export(&gateway, &format!("format=openai&allowed={}", all[1])).await;
    assert_eq!(names("openai", &by_safe_name), all[1..2]);
}

// F7, R-002-11
#[tokio::test]
async fn an_unknown_provider_is_refused_with_the_names_of_those_we_know() {
    let (_a, _b, gateway) = awkward().await;
    let response = gateway.get("/tools?format=x").await;
    assert_eq!(response.status, 400);
    let body = response.json();
    assert_eq!(body["success"], false);
    assert_eq!(body["error"]["message"], r#"unsupported provider "x"; supported: openai, ollama, gemini, anthropic"#);
}

// Issue 6: export, a model picks, invoke by the safe name.
#[tokio::test]
async fn what_a_model_picks_by_the_exported_name_can_be_invoked_by_it() {
    let (a, b, gateway) = awkward().await;
    for format in FORMATS {
        let tools = export(&gateway, &format!("format={format}")).await;
        for tool in tools.as_array().unwrap() {
            let (name, arguments) = pick(name_of(format, tool), schema_of(format, tool));
            let response = gateway.post(&format!("/tools/{name}/invoke"), &json!({"arguments": arguments})).await;
            assert_eq!(response.status, 200, "{format} {name} {arguments}: {}", response.text());
            assert_eq!(response.json()["success"], true);
            let definition = gateway.get(&format!("/tools/{name}")).await;
            assert_eq!(definition.status, 200, "{format} {name}");
        }
        let mut called: Vec<String> = a.calls().into_iter().chain(b.calls()).map(|(tool, _)| tool).collect();
        called.sort();
        let mut expected = ["plain", DOTTED, &long(), "2fa_enable", "choose", "free"].map(str::to_owned);
        expected.sort();
        assert_eq!(called, expected, "{format}");
        a.clear();
        b.clear();
    }
}

/// A model: takes a function by the name it was given, and fills in what the schema requires, as OpenAI's API answers it.
fn pick(name: &str, schema: &Value) -> (String, Value) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let arguments: serde_json::Map<String, Value> = required.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), json!("x"))).collect();
    let answer =
        json!({"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": Value::Object(arguments).to_string()}}]});
    let function = &answer["tool_calls"][0]["function"];
    (function["name"].as_str().unwrap().to_owned(), serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap())
}

#[tokio::test]
async fn a_tool_that_is_called_like_a_safe_name_is_the_one_that_is_meant_by_it() {
    let a = target("a").tool(DOTTED, []);
    let gateway = gateway().target(&a).start().await;
    let safe = names("openai", &export(&gateway, "format=openai").await).remove(0);
    assert_ne!(safe, DOTTED);
    gateway.post(&format!("/tools/{safe}/invoke"), &json!({})).await;
    assert_eq!(a.calls().remove(0).0, DOTTED);
    a.clear();
    let definition = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.replace_tools(vec![definition(DOTTED), definition(&safe)]);
    a.notify_list_changed();
    gateway.until_listed(&[DOTTED, &safe]).await;
    gateway.post(&format!("/tools/{safe}/invoke"), &json!({})).await;
    assert_eq!(a.calls().remove(0).0, safe, "its own name comes first");
    a.clear();
    // The other one has another safe name now, which leads to it.
    let exported = names("openai", &export(&gateway, "format=openai").await);
    assert_eq!(exported.iter().filter(|name| **name == safe).count(), 1, "{exported:?}");
    let other = exported.iter().find(|name| **name != safe).unwrap();
    gateway.post(&format!("/tools/{other}/invoke"), &json!({})).await;
    assert_eq!(a.calls().remove(0).0, DOTTED);
}

// surfaces.md: whatever a principal may not call, no surface shows.
#[tokio::test]
async fn a_safe_name_leads_nowhere_for_whoever_does_not_see_the_tool() {
    let a = target("a").tool(DOTTED, []).tool("plain", []);
    let gateway = gateway()
        .target(&a)
        .config(|config| {
            let keys = ["all", "few"].map(|id| api_key(id, &format!("secret-{id}"))).to_vec();
            config.authentication = Some(Authentication { api_keys: keys, ..Authentication::default() });
            let expression = format!("apiKey.id == 'all' || mcp.tool.name != '{DOTTED}'");
            config.authorization = Some(vec![Rule { effect: Effect::Allow, expression }]);
        })
        .start()
        .await;
    let export_as = async |id: &str| {
        let response = gateway.send("GET", "/tools?format=openai", &[("x-api-key", &format!("secret-{id}"))], "").await;
        names("openai", &response.json())
    };
    let all = export_as("all").await;
    assert_eq!(export_as("few").await, ["plain"]);
    let safe = all.iter().find(|name| *name != "plain").unwrap();
    for (id, status) in [("few", 404), ("all", 200)] {
        let headers = [("x-api-key", &*format!("secret-{id}")), ("content-type", "application/json")];
        let response = gateway.send("POST", &format!("/tools/{safe}/invoke"), &headers, "{}").await;
        assert_eq!(response.status, status, "{id}: {}", response.text());
        assert_eq!(gateway.send("GET", &format!("/tools/{safe}"), &headers[..1], "").await.status, status, "{id}");
    }
    assert_eq!(gateway.get("/tools?format=openai").await.status, 401);
}

#[tokio::test]
async fn the_safe_name_of_a_tool_whose_target_is_down_says_so() {
    let a = target("a").tool(DOTTED, []);
    let gateway = gateway().target(&a).start().await;
    let safe = names("openai", &export(&gateway, "format=openai").await).remove(0);
    a.stop();
    gateway.until("a", "unavailable").await;
    eventually("its tools leave the export", || async { export(&gateway, "format=openai").await == json!([]) }).await;
    let response = gateway.post(&format!("/tools/{safe}/invoke"), &json!({})).await;
    assert_eq!(response.status, 503, "{}", response.text());
    assert!(response.header("retry-after").parse::<u64>().is_ok());
}

#[tokio::test]
async fn an_export_that_did_not_change_is_not_sent_again() {
    let a = target("a").tool("plain", []);
    let gateway = gateway().target(&a).start().await;
    let first = gateway.get("/tools?format=openai").await;
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() > 10, "{tag}");
    let again = gateway.send("GET", "/tools?format=openai", &[("if-none-match", &tag)], "").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(gateway.send("GET", "/tools?format=gemini", &[("if-none-match", &tag)], "").await.status, 200);
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["other"]);
    a.notify_list_changed();
    gateway.until_listed(&["other"]).await;
    assert_eq!(gateway.send("GET", "/tools?format=openai", &[("if-none-match", &tag)], "").await.status, 200);
}
