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
