//! What a target says reaches the client, whatever the eras of the two: the faults of a proxy that the official conformance suite does not notice.
//!
//! Each story is told for targets and clients of both eras. That a message may cross eras is in `eras.rs`; here it is about what it still says then.

use transom_tests::client::{LEGACY, MODERN};
use transom_tests::*;

const ERAS: [Era; 2] = [Era::Legacy("2025-11-25"), Era::Modern];
const CLIENTS: [&str; 2] = [LEGACY, MODERN];

/// What a result says beyond what the gateway itself adds for a modern client.
fn essence(result: &Value) -> Value {
    let mut result = result.clone();
    if let Some(members) = result.as_object_mut() {
        for added in ["resultType", "ttlMs", "cacheScope"] {
            members.remove(added);
        }
    }
    result
}

fn icons() -> Value {
    json!([{"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark", "x-shape": "round"}])
}

#[tokio::test]
async fn definitions_of_every_kind_are_listed_whole() {
    let tool = json!({
        "name": "rich", "title": "A title", "description": "has everything", "icons": icons(),
        "inputSchema": {"type": "object", "x-vendor": {"ui": ["a", 1.50]}, "properties": {"z": {"type": "string", "x-enum-labels": ["ü"], "format": "x-own"},
            "a": {"type": "integer", "markdownDescription": "*a*", "deprecated": true}}, "required": ["z"], "additionalProperties": false},
        "outputSchema": {"type": "object", "x-vendor": true, "properties": {"ok": {"type": "boolean", "x-color": "green"}}, "required": ["ok"]},
        "annotations": {"title": "Other title", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false, "x-cost": 3},
        "_meta": {"com.example/owner": {"team": "search"}}, "brandNew": [null]
    });
    let prompt = json!({
        "name": "ask", "title": "A title", "description": "asks", "icons": icons(),
        "arguments": [{"name": "topic", "title": "Topic", "description": "what about", "required": true, "x-hint": 1}], "_meta": {"com.example/x": 1}, "brandNew": 7
    });
    let resource = json!({
        "uri": "note://one", "name": "one", "title": "A title", "description": "a note", "mimeType": "text/plain", "size": 17, "icons": icons(),
        "annotations": {"audience": ["user"], "priority": 0.50, "lastModified": "2026-01-01T00:00:00Z"}, "_meta": {"com.example/x": 1}, "brandNew": true
    });
    let template = json!({
        "uriTemplate": "note://{name}", "name": "any", "title": "A title", "description": "notes", "mimeType": "text/plain", "icons": icons(),
        "annotations": {"audience": ["assistant"]}, "_meta": {"com.example/x": 1}, "brandNew": {}
    });
    for era in ERAS {
        let a = target("a").era(era).tool_def(tool.clone()).prompt_def(prompt.clone()).resource_def(resource.clone()).template_def(template.clone());
        let gateway = gateway().target(&a).start().await;
        for revision in CLIENTS {
            let client = gateway.client_of(revision).await;
            for (method, member, wanted, uri) in [
                ("tools/list", "tools", &tool, None),
                ("prompts/list", "prompts", &prompt, None),
                ("resources/list", "resources", &resource, Some(("uri", "mcp://a/note%3A%2F%2Fone"))),
                ("resources/templates/list", "resourceTemplates", &template, Some(("uriTemplate", "mcp://a/note%3A%2F%2F{name}"))),
            ] {
                let mut wanted = wanted.clone();
                if let Some((member, uri)) = uri {
                    // The one thing that is the gateway's: where a resource is found.
                    wanted[member] = json!(uri);
                }
                assert_eq!(client.list(method, member).await, [wanted], "{method} of a {era:?} target for a client of {revision}");
            }
        }
    }
}

#[tokio::test]
async fn results_of_every_kind_come_back_whole() {
    let call = json!({
        "content": [{"type": "text", "text": "ü", "annotations": {"priority": 0.50}, "_meta": {"com.example/block": 1}},
            {"type": "resource", "resource": {"uri": "note://one", "text": "x", "_meta": {"com.example/inner": 2}}}, {"type": "future", "x": 1}],
        "structuredContent": {"list": [1, 2.50, null], "nested": {"deep": [{}]}},
        "isError": true, "_meta": {"com.example/trace": "t-1"}, "brandNew": {"x": 1}
    });
    let got = json!({
        "description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": "hi", "_meta": {"com.example/block": 1}}, "x": 1}],
        "_meta": {"com.example/trace": "t-2"}, "brandNew": 1
    });
    let read = json!({
        "contents": [{"uri": "note://one", "mimeType": "text/plain", "text": "x", "_meta": {"com.example/inner": 1}, "brandNew": 1},
            {"uri": "note://two", "blob": "AA=="}],
        "_meta": {"com.example/trace": "t-3"}, "brandNew": []
    });
    let complete =
        json!({"completion": {"values": ["a"], "total": 7, "hasMore": true, "x": 1}, "_meta": {"com.example/trace": "t-4"}, "brandNew": null});
    for era in ERAS {
        let a = target("a").era(era).tool("rich", []).reply("rich", call.clone()).prompt("ask").resource("note://one");
        let a = a.method("prompts/get", got.clone()).method("resources/read", read.clone()).method("completion/complete", complete.clone());
        let gateway = gateway().target(&a).start().await;
        let mut exposed = read.clone();
        exposed["contents"][0]["uri"] = json!("mcp://a/note%3A%2F%2Fone");
        exposed["contents"][1]["uri"] = json!("mcp://a/note%3A%2F%2Ftwo");
        for revision in CLIENTS {
            let client = gateway.client_of(revision).await;
            let reference = json!({"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "topic", "value": "a"}});
            for (method, params, wanted) in [
                ("tools/call", json!({"name": "rich", "arguments": {}}), &call),
                ("prompts/get", json!({"name": "ask", "arguments": {}}), &got),
                ("resources/read", json!({"uri": "mcp://a/note%3A%2F%2Fone"}), &exposed),
                ("completion/complete", reference, &complete),
            ] {
                let reply = client.request(method, params).await;
                assert_eq!(&essence(reply.result()), wanted, "{method} of a {era:?} target for a client of {revision}");
            }
        }
    }
}

#[tokio::test]
async fn lists_of_every_kind_that_come_in_pages_are_whole() {
    for era in ERAS {
        let mut a = target("a").era(era).page_size(2);
        for number in 0..5 {
            a = a.tool(&format!("t{number}"), []).prompt(&format!("p{number}"));
            a = a.resource(&format!("note://{number}")).template(&format!("note://{number}/{{x}}"));
        }
        let gateway = gateway().target(&a).start().await;
        for revision in CLIENTS {
            let client = gateway.client_of(revision).await;
            for (method, member) in [
                ("tools/list", "tools"),
                ("prompts/list", "prompts"),
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
            ] {
                let items = client.list(method, member).await;
                assert_eq!(items.len(), 5, "{method} of a {era:?} target for a client of {revision}: {items:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_change_of_any_list_reaches_the_clients_that_listen() {
    for era in ERAS {
        let a = target("a").era(era).tool("first", []).prompt("first").resource("note://first");
        let gateway = gateway().target(&a).start().await;
        let legacy = gateway.client().await;
        let modern = gateway.modern().await;
        let mut stream = legacy.stream().await;
        let mut subscription = modern.listen(json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})).await;
        eventually("the gateway listens to its target", || async { a.streams() > 0 }).await;
        for kind in ["tools", "prompts", "resources"] {
            let _ = match kind {
                "tools" => a.clone().tool("second", []),
                "prompts" => a.clone().prompt("second"),
                _ => a.clone().resource("note://second"),
            };
            let method = format!("notifications/{kind}/list_changed");
            a.broadcast(&method, json!({}));
            let (heard, told) = (stream.message().await, subscription.message().await);
            assert_eq!(heard["method"], method.as_str(), "a legacy client of a {era:?} target: {heard}");
            assert_eq!(told["method"], method.as_str(), "a modern client of a {era:?} target: {told}");
            assert!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number(), "{told}");
            for client in [&legacy, &modern] {
                assert_eq!(client.list(&format!("{kind}/list"), kind).await.len(), 2, "{kind}: who is told finds it changed");
            }
        }
    }
}

#[tokio::test]
async fn the_stream_of_a_session_opens_whether_or_not_the_target_has_one() {
    for era in ERAS {
        for offered in [true, false] {
            let a = target("a").era(era).tool("echo", []).get_stream(offered);
            let gateway = gateway().target(&a).start().await;
            let stream = gateway.client().await.try_stream().await;
            assert_eq!(stream.status, 200, "{era:?} target with a stream: {offered}");
        }
    }
}

#[tokio::test]
async fn ids_and_progress_tokens_keep_their_type() {
    for era in ERAS {
        let a = target("a").era(era).tool("echo", []);
        let a = a.tool("busy", []).handler("busy", |_, context| async move {
            context.progress(50);
            Ok(target::text("done"))
        });
        let a = a.tool("sad", []).handler("sad", |_, _| async { Err(json!({"code": -32603, "message": "no"})) });
        let gateway = gateway().target(&a).start().await;
        for revision in CLIENTS {
            let client = gateway.client_of(revision).await;
            for id in [json!(7_000), json!("7000"), json!(0), json!("")] {
                for (method, params) in [
                    ("tools/call", json!({"name": "echo", "arguments": {}})),
                    ("tools/call", json!({"name": "busy", "arguments": {}, "_meta": {"progressToken": id}})),
                    ("tools/call", json!({"name": "sad", "arguments": {}})),
                    ("tools/call", json!({"name": "nobody", "arguments": {}})),
                    ("tools/list", json!({})),
                    ("no/such", json!({})),
                ] {
                    let reply = client.exchange(client.message_with_id(id.clone(), method, params.clone()), None).await;
                    assert_eq!(reply.message["id"], id, "{method} {params} for a client of {revision}: {}", reply.raw);
                    let tokens: Vec<&Value> = reply.notifications.iter().map(|note| &note["params"]["progressToken"]).collect();
                    assert!(tokens.iter().all(|token| **token == id), "{tokens:?} for {id}");
                    assert_eq!(tokens.len(), usize::from(params["name"] == "busy"), "{}", reply.raw);
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_of_every_method_keep_their_code_message_and_data() {
    for era in ERAS {
        for code in [-32002, -32602, -32603, -32601, -32000, -32042, 404] {
            let error = json!({"code": code, "message": format!("told {code}"), "data": {"why": [1, null]}});
            let told = error.clone();
            let a = target("a").era(era).prompt("ask").resource("note://one").tool("sad", []).handler("sad", move |_, _| {
                let told = told.clone();
                async move { Err(told) }
            });
            let a = ["prompts/get", "resources/read", "completion/complete"].iter().fold(a, |a, method| a.method_error(method, error.clone()));
            let gateway = gateway().target(&a).start().await;
            for revision in CLIENTS {
                let client = gateway.client_of(revision).await;
                for (method, params) in [
                    ("tools/call", json!({"name": "sad", "arguments": {}})),
                    ("prompts/get", json!({"name": "ask"})),
                    ("resources/read", json!({"uri": "mcp://a/note%3A%2F%2Fone"})),
                    ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "topic", "value": ""}})),
                ] {
                    let reply = client.request(method, params).await;
                    let said = (reply.error_code(), reply.error_message(), reply.error()["data"]["why"].clone());
                    assert_eq!(said, (code, format!("told {code}"), json!([1, null])), "{method} of a {era:?} target for a client of {revision}");
                    assert_eq!(reply.status, 200, "{method} {code} for a client of {revision}");
                }
            }
        }
    }
}

// What the modern revision ties to a status: the client has to declare more, so its request was a bad one.
#[tokio::test]
async fn a_capability_that_a_target_misses_is_a_bad_request_of_a_modern_client() {
    let error = json!({"code": -32021, "message": "Missing required client capability", "data": {"requiredCapabilities": {"sampling": {}}}});
    let a = target("a").era(Era::Modern).tool("needy", []).handler("needy", move |_, _| {
        let error = error.clone();
        async move { Err(error) }
    });
    let gateway = gateway().target(&a).start().await;
    for (client, status) in [(gateway.modern().await, 400), (gateway.client().await, 200)] {
        let reply = client.call("needy", json!({})).await;
        assert_eq!((reply.status, reply.error_code()), (status, -32021), "{}", reply.raw);
        assert_eq!(reply.error()["data"]["requiredCapabilities"], json!({"sampling": {}}));
    }
}

#[tokio::test]
async fn a_resource_that_nobody_has_is_named_in_the_error() {
    let (a, b) = (target("a").resource("note://one"), target("b").resource("note://two"));
    let gateway = gateway().target(&a).target(&b).start().await;
    for revision in CLIENTS {
        let reply = gateway.client_of(revision).await.request("resources/read", json!({"uri": "test://nowhere"})).await;
        assert_eq!((reply.error_code(), &reply.error()["data"]), (-32602, &json!({"uri": "test://nowhere"})), "{}", reply.raw);
    }
}
