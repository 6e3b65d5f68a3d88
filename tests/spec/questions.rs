//! Questions of servers (elicitation, sampling, roots) across the eras: E10, H5, H9, A11 and protocol.md, "Towards targets".

use std::time::Duration;
use transom_gateway::config::Authentication;
use transom_tests::client::{LEGACY, MODERN};
use transom_tests::target::text;
use transom_tests::*;
use transom_upstream::{Sessions, TargetSpec};

fn form(message: &str) -> Value {
    json!({"message": message, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}})
}

fn allowed(spec: &mut TargetSpec) {
    spec.allow_server_requests = true;
}

/// A legacy target whose tool `ask` asks as many questions as its argument `times` says, and answers with the answers.
fn legacy_asker(name: &str) -> Target {
    target(name).tool("ask", ["times", "name"]).handler("ask", |arguments, context| async move {
        let mut answers = Vec::new();
        for number in 0..arguments["times"].as_u64().unwrap_or(1) {
            let answer = context.ask("elicitation/create", form(&format!("question {number}"))).await;
            answers.push(answer.unwrap_or_else(|error| json!({"refused": error["code"]})));
        }
        Ok(json!({"content": [{"type": "text", "text": json!(answers).to_string()}], "structuredContent": {"answers": answers}}))
    })
}

/// A modern target whose tool `ask` asks until it has had `rounds` answers, and keeps its count in its state.
fn modern_asker(name: &str, rounds: usize) -> Target {
    target(name).era(Era::Modern).tool("ask", ["q"]).handler("ask", move |_, context| async move {
        let round: usize = context.params["requestState"].as_str().and_then(|state| state.strip_prefix("round ")?.parse().ok()).unwrap_or(0);
        if round >= rounds {
            return Ok(text(&format!("{round} rounds, last {}", context.params["inputResponses"])));
        }
        let requests = json!({
            "who": {"method": "elicitation/create", "params": form("who?")},
            "model": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 10}},
        });
        Ok(json!({"resultType": "input_required", "inputRequests": requests, "requestState": format!("round {}", round + 1)}))
    })
}

fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// The client's answer to what it was asked, as a retry of the call.
async fn retry(client: &Client, tool: &str, arguments: &Value, asked: &Reply, answer: Value) -> Reply {
    let keys = asked.result()["inputRequests"].as_object().unwrap_or_else(|| panic!("no questions: {}", asked.raw)).keys();
    let responses: serde_json::Map<String, Value> = keys.map(|key| (key.clone(), answer.clone())).collect();
    let params = json!({"name": tool, "arguments": arguments, "inputResponses": responses, "requestState": asked.result()["requestState"]});
    client.request("tools/call", params).await
}

fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

// protocol.md: a legacy target's question is `input_required` to a modern client, and the call is run once
#[tokio::test]
async fn a_legacy_target_asks_a_modern_client_by_a_result_and_goes_on_with_the_answer() {
    let a = legacy_asker("a");
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(MODERN).capabilities(everything()).open().await;
    let arguments = json!({"times": 3});
    let mut reply = client.call("ask", arguments.clone()).await;
    for number in 0..3 {
        assert_eq!(reply.result()["resultType"], "input_required", "{}", reply.raw);
        let (_, question) = reply.result()["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"], form(&format!("question {number}")));
        reply = retry(&client, "ask", &arguments, &reply, accept(&format!("answer {number}"))).await;
    }
    assert_eq!(reply.structured()["answers"], json!([accept("answer 0"), accept("answer 1"), accept("answer 2")]), "{}", reply.raw);
    assert_eq!(reply.result()["resultType"], "complete");
    assert_eq!(a.calls().len(), 1, "one call, however often the client came back");
    assert_eq!(gateway.metric("transom_target_in_flight").await, 0.0);
}

// protocol.md: every kind of question, also from a child that one client has for itself
#[tokio::test]
async fn a_child_asks_a_modern_client_too() {
    let spec = |name: &str, sessions| {
        let mut spec = stdio::spec(name, json!({"tools": ["ask"]}));
        (spec.allow_server_requests, spec.sessions) = (true, sessions);
        spec
    };
    let gateway = gateway().spec(spec("own", Sessions::PerSession)).spec(spec("shared", Sessions::Shared)).start().await;
    let client = gateway.connect(MODERN).capabilities(everything()).open().await;
    let asked = client.call("own__ask", json!({})).await;
    let reply = retry(&client, "own__ask", &json!({}), &asked, json!({"action": "decline"})).await;
    assert!(reply.text().contains("decline"), "{}", reply.raw);
    // Of a shared child nobody knows whose call its question belongs to.
    let reply = client.call("shared__ask", json!({})).await;
    assert!(reply.text().contains("-32601"), "{}", reply.raw);
}

// R: a retry that comes twice, late, or for another call is refused and never runs anything
#[tokio::test]
async fn a_call_that_waits_is_taken_up_once_and_by_nobody_else() {
    let a = legacy_asker("a").tool("other", []);
    let keys = vec![api_key("one", "key-of-one"), api_key("two", "key-of-two")];
    let gateway = gateway()
        .target_with(&a, allowed)
        .config(|config| config.authentication = Some(Authentication { jwt: vec![], api_keys: keys, resource: None }))
        .start()
        .await;
    let client = |key: &str| gateway.connect(MODERN).capabilities(everything()).header("x-api-key", key).open();
    let (one, two) = (client("key-of-one").await, client("key-of-two").await);
    let arguments = json!({"times": 1, "name": "x"});
    let asked = one.call("ask", arguments.clone()).await;
    let refused = |reply: Reply, why: &str| assert_eq!(reply.error_code(), -32602, "{why}: {}", reply.raw);
    refused(retry(&two, "ask", &arguments, &asked, accept("two")).await, "somebody else");
    refused(retry(&one, "other", &json!({}), &asked, accept("x")).await, "another tool");
    refused(retry(&one, "ask", &json!({"times": 9}), &asked, accept("x")).await, "A11: other arguments");
    let state = asked.result()["requestState"].as_str().unwrap().to_owned();
    for at in (0..state.len()).step_by(5) {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let mut forged = asked.clone();
        forged.message["result"]["requestState"] = json!(String::from_utf8(bytes).unwrap());
        refused(retry(&one, "ask", &arguments, &forged, accept("x")).await, "forged");
    }
    let malformed = json!({"name": "ask", "arguments": arguments, "inputResponses": [1], "requestState": state});
    refused(one.request("tools/call", malformed).await, "no answers at all");
    // None of that has touched the call, whose arguments may come in any order.
    let reply = retry(&one, "ask", &json!({"name": "x", "times": 1}), &asked, accept("one")).await;
    assert_eq!(reply.structured()["answers"], json!([accept("one")]), "{}", reply.raw);
    let again = retry(&one, "ask", &arguments, &asked, accept("one")).await;
    assert!(again.error_message().contains("nothing was run"), "{}", again.raw);
    refused(again, "the second time");
    assert_eq!(a.calls().len(), 1);
}

// A retry that leaves answers out is asked for them again
#[tokio::test]
async fn an_answer_that_is_missing_is_asked_for_again() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        let (one, two) = tokio::join!(context.ask("roots/list", json!({})), context.ask("elicitation/create", form("?")));
        Ok(text(&json!([one.unwrap_or_default(), two.unwrap_or_default()]).to_string()))
    });
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(MODERN).capabilities(everything()).open().await;
    let mut reply = client.call("ask", json!({})).await;
    let mut rounds = 0;
    while reply.result()["resultType"] == "input_required" {
        rounds += 1;
        assert!(rounds < 5, "{}", reply.raw);
        let mut asked = reply.clone();
        let requests = asked.message["result"]["inputRequests"].as_object_mut().unwrap();
        // One answer at a time.
        let first = requests.keys().next().unwrap().clone();
        let roots = requests[&first]["method"] == "roots/list";
        requests.retain(|key, _| *key == first);
        reply = retry(&client, "ask", &json!({}), &asked, if roots { json!({"roots": [{"uri": "file:///x"}]}) } else { accept("x") }).await;
    }
    assert_eq!(reply.text(), json!([{"roots": [{"uri": "file:///x"}]}, accept("x")]).to_string());
    assert_eq!(rounds, 2);
    assert_eq!(a.calls().len(), 1);
}

// R: the call that waits dies with its target, and its client hears of it
#[tokio::test]
async fn a_call_that_waits_dies_with_its_target() {
    let a = legacy_asker("a");
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(MODERN).capabilities(everything()).open().await;
    let asked = client.call("ask", json!({})).await;
    assert_eq!(gateway.metric("transom_target_in_flight").await, 1.0, "the call waits");
    a.stop();
    eventually("the call is given up", || async { gateway.metric("transom_target_in_flight").await == 0.0 }).await;
    a.start();
    gateway.until("a", "connected").await;
    let reply = retry(&client, "ask", &json!({}), &asked, accept("late")).await;
    reply.failed(1003, json!("unknown"));
    assert_eq!(a.calls().len(), 1, "it is not run again");
}

// R: there are so many calls that wait and no more; who comes on top is not kept waiting
#[tokio::test]
async fn calls_that_wait_are_bounded_for_each_principal() {
    let a = legacy_asker("a");
    let keys = vec![api_key("one", "key-of-one"), api_key("two", "key-of-two")];
    let gateway = gateway()
        .target_with(&a, allowed)
        .config(|config| config.authentication = Some(Authentication { jwt: vec![], api_keys: keys, resource: None }))
        .start()
        .await;
    let client = |key: &str| gateway.connect(MODERN).capabilities(everything()).header("x-api-key", key).open();
    let (one, two) = (client("key-of-one").await, client("key-of-two").await);
    for _ in 0..16 {
        assert_eq!(one.call("ask", json!({})).await.result()["resultType"], "input_required");
    }
    let reply = one.call("ask", json!({})).await;
    assert_eq!(reply.structured()["answers"], json!([{"refused": -32603}]), "{}", reply.raw);
    assert_eq!(two.call("ask", json!({})).await.result()["resultType"], "input_required", "others are not touched");
}

// protocol.md: only what the client declared, only where the config allows it; and nobody waits
#[tokio::test]
async fn a_legacy_target_is_refused_where_nobody_may_be_asked() {
    let (a, b) = (legacy_asker("a"), legacy_asker("b"));
    let gateway = gateway().target_with(&a, allowed).target(&b).start().await;
    for revision in [LEGACY, MODERN] {
        let able = gateway.connect(revision).capabilities(everything()).open().await;
        let other = gateway.connect(revision).capabilities(json!({"roots": {}})).open().await;
        let unable = gateway.connect(revision).open().await;
        for (client, tool) in [(&other, "a__ask"), (&unable, "a__ask"), (&able, "b__ask")] {
            let reply = client.call(tool, json!({})).await;
            assert_eq!(reply.structured()["answers"], json!([{"refused": -32601}]), "{revision} {tool}: {}", reply.raw);
        }
    }
    // Neither can anybody be asked where there is no stream to ask on: a script, and a client that reads only JSON.
    let rest = gateway.post("/tools/a__ask/invoke", &json!({"arguments": {}})).await;
    assert_eq!(rest.json()["result"]["structuredContent"]["answers"][0]["refused"], -32603, "{}", rest.text());
    let session = gateway.connect(LEGACY).capabilities(everything()).open().await.session().unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a__ask", "arguments": {}}});
    let reply = gateway.post_mcp(&[("mcp-session-id", &session), ("accept", "application/json")], body.to_string()).await;
    assert_eq!(reply.json()["result"]["structuredContent"]["answers"][0]["refused"], -32601, "{}", reply.text());
    let old = gateway.connect("2025-03-26").capabilities(everything()).open().await.session().unwrap();
    let batch = gateway.post_mcp(&[("mcp-session-id", &old)], json!([body]).to_string()).await;
    assert_eq!(batch.json()[0]["result"]["structuredContent"]["answers"][0]["refused"], -32603, "{}", batch.text());
}

// E10: a page is a web address, in both eras, and only for clients that open pages
#[tokio::test]
async fn a_page_to_open_must_be_a_web_address() {
    let page = |url: &str| json!({"mode": "url", "message": "please", "url": url, "elicitationId": "e1"});
    let a = target("a").tool("open", ["url"]).handler("open", move |arguments, context| async move {
        let answer = context.ask("elicitation/create", page(arguments["url"].as_str().unwrap_or_default())).await;
        Ok(text(&answer.unwrap_or_else(|error| error["code"].clone()).to_string()))
    });
    let b = target("b").era(Era::Modern).tool("visit", ["url"]).handler("visit", |arguments, context| async move {
        if context.params["inputResponses"].is_object() {
            return Ok(text(&context.params["inputResponses"].to_string()));
        }
        let params = json!({"mode": "url", "message": "please", "url": arguments["url"]});
        Ok(json!({"resultType": "input_required", "inputRequests": {"page": {"method": "elicitation/create", "params": params}}}))
    });
    let gateway = gateway().target_with(&a, allowed).target_with(&b, allowed).start().await;
    let legacy = gateway.connect(LEGACY).capabilities(everything()).answer("elicitation/create", |_| Ok(json!({"action": "accept"}))).open().await;
    let modern = gateway.connect(MODERN).capabilities(everything()).open().await;
    for bad in ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x"] {
        let arguments = json!({"url": bad});
        assert_eq!(legacy.call("open", arguments.clone()).await.text(), "-32602", "{bad}");
        assert_eq!(modern.call("open", arguments.clone()).await.text(), "-32602", "{bad}");
        legacy.call("visit", arguments.clone()).await.failed(1005, json!(true));
        modern.call("visit", arguments).await.failed(1005, json!(true));
    }
    let arguments = json!({"url": "https://example.com/sign-in"});
    assert_eq!(legacy.call("open", arguments.clone()).await.text(), r#"{"action":"accept"}"#);
    let visited = legacy.call("visit", arguments.clone()).await;
    assert_eq!(visited.text(), r#"{"page":{"action":"accept"}}"#);
    assert!(visited.notifications[0]["params"]["elicitationId"].is_string(), "legacy clients need an id: {:?}", visited.notifications);
    assert_eq!(modern.call("visit", arguments.clone()).await.result()["resultType"], "input_required");
    let forms = gateway.connect(LEGACY).capabilities(json!({"elicitation": {}})).open().await;
    assert_eq!(forms.call("open", arguments).await.text(), "-32601", "it declared forms only");
}

// protocol.md: a modern target's question is a server request to a legacy client, and the answers go back with its state
#[tokio::test]
async fn a_modern_target_asks_a_legacy_client_by_requests_on_the_call() {
    let a = modern_asker("a", 3);
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway
        .connect(LEGACY)
        .capabilities(everything())
        .answer("elicitation/create", |params| Ok(accept(params["message"].as_str().unwrap_or_default())))
        .answer("sampling/createMessage", |_| Ok(json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}})))
        .open()
        .await;
    let reply = client.call("ask", json!({"q": "kept"})).await;
    assert!(reply.text().starts_with("3 rounds"), "{}", reply.raw);
    assert!(reply.text().contains(r#""name":"who?""#) && reply.text().contains("hello"), "{}", reply.raw);
    assert_eq!(reply.notified(), ["elicitation/create", "sampling/createMessage"].repeat(3));
    assert!(!reply.raw.contains("resultType") && !reply.raw.contains("round 1"), "{}", reply.raw);
    let sent = a.requests_of("tools/call");
    assert_eq!(sent.len(), 4);
    for (round, request) in sent.iter().enumerate() {
        let params = &request.json()["params"];
        assert_eq!(params["arguments"], json!({"q": "kept"}), "the arguments come with every round");
        assert_eq!(params.get("requestState").cloned().unwrap_or_default(), if round == 0 { Value::Null } else { json!(format!("round {round}")) });
    }
}

// 2024-11-05 has its own transport, and the same questions
#[tokio::test]
async fn a_modern_target_asks_a_client_of_the_oldest_revision() {
    let a = modern_asker("a", 1);
    let gateway = gateway().target_with(&a, allowed).start().await;
    let connect = transom_tests::client::connect(gateway.url("/sse"), "2024-11-05").capabilities(everything());
    let client =
        connect.answer("elicitation/create", |_| Ok(accept("sse"))).answer("sampling/createMessage", |_| Ok(json!({"model": "m"}))).open_sse().await;
    let call = client.start_call("ask", json!({}));
    for _ in 0..2 {
        let question = client.sse_notification().await;
        client.answer(&question).await;
    }
    assert!(call.reply().await.text().starts_with("1 rounds"));
}

// protocol.md: otherwise a clear refusal, and no hang; rounds are bounded
#[tokio::test]
async fn a_modern_target_that_may_not_ask_is_an_error_to_its_caller() {
    let (a, b, endless) = (modern_asker("a", 1), modern_asker("b", 1), modern_asker("endless", 100));
    let gateway = gateway().target_with(&a, allowed).target(&b).target_with(&endless, allowed).start().await;
    for revision in [LEGACY, MODERN] {
        let able = gateway.connect(revision).capabilities(everything()).open().await;
        let half = gateway.connect(revision).capabilities(json!({"elicitation": {}})).open().await;
        for (client, tool) in [(&half, "a__ask"), (&able, "b__ask")] {
            let reply = client.call(tool, json!({})).await;
            reply.failed(1005, json!(true));
            assert!(reply.notifications.is_empty(), "{revision}: nothing was asked");
        }
    }
    let refusing = gateway.connect(LEGACY).capabilities(everything()).open().await;
    let reply = refusing.call("a__ask", json!({})).await;
    reply.failed(1005, json!(true));
    assert!(reply.error_message().contains("refused"), "{}", reply.raw);
    let patient = gateway
        .connect(LEGACY)
        .capabilities(everything())
        .answer("elicitation/create", |_| Ok(accept("x")))
        .answer("sampling/createMessage", |_| Ok(json!({"model": "m"})))
        .open()
        .await;
    let before = endless.calls().len();
    let reply = patient.call("endless__ask", json!({})).await;
    reply.failed(1005, json!(true));
    assert_eq!(endless.calls().len() - before, 9, "the call and eight rounds");
    // A script cannot be asked anything.
    let rest = gateway.post("/tools/a__ask/invoke", &json!({"arguments": {}})).await;
    assert_eq!((rest.status, rest.json()["error"]["code"].clone()), (502, json!("upstream_invalid")), "{}", rest.text());
}

// H9: what only the modern era has cannot be brought along by a legacy client, past the seal
#[tokio::test]
async fn a_legacy_client_cannot_bring_a_state_along() {
    let a = modern_asker("a", 5);
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(LEGACY).capabilities(everything()).open().await;
    for smuggled in [json!({"requestState": "round 5"}), json!({"inputResponses": {"who": {}}})] {
        let mut params = json!({"name": "ask", "arguments": {}});
        params.as_object_mut().unwrap().extend(smuggled.as_object().unwrap().clone());
        assert_eq!(client.request("tools/call", params).await.error_code(), -32602);
    }
    assert!(a.calls().is_empty());
}

// A11, N4: a virtual tool's result is shaped when it is complete, and only then; secrets do not come back by a question
#[tokio::test]
async fn a_virtual_tool_asks_and_is_shaped_when_it_is_done() {
    const KEY: &str = "the-secret-key-0815";
    let definition = json!({"name": "fetch", "description": "", "inputSchema": {"type": "object", "properties": {
        "q": {"type": "string"}, "api_key": {"type": "string"}}}});
    let done = |answer: &Value| json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"found": answer, "cost": 9}});
    let old = target("old").tool_def(definition.clone()).handler("fetch", move |arguments, context| async move {
        let answer = context.ask("elicitation/create", form(&format!("is {} yours?", arguments["api_key"].as_str().unwrap_or_default()))).await;
        Ok(done(&answer.unwrap_or_else(|error| error)["content"]["name"]))
    });
    let new = target("new").era(Era::Modern).tool_def(definition).handler("fetch", move |arguments, context| async move {
        match &context.params["inputResponses"]["who"]["content"]["name"] {
            Value::Null => {
                let params = form(&format!("is {} yours?", arguments["api_key"].as_str().unwrap_or_default()));
                Ok(json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"who": {"method": "elicitation/create", "params": params}}}))
            }
            name => Ok(done(name)),
        }
    });
    let virtual_tool = |name: &str, target: &str| {
        json!({"name": name, "source": {"target": target, "tool": "fetch"}, "defaults": {"api_key": "${KEY}"}, "hideFields": ["api_key"],
            "outputSchema": {"type": "object", "properties": {"found": {"type": "string", "sourceField": "$.found"}}}})
    };
    let registry = json!({"tools": [virtual_tool("look_old", "old"), virtual_tool("look_new", "new")]});
    let gateway = gateway().target_with(&old, allowed).target_with(&new, allowed).registry(&registry).env([("KEY", KEY)]).start().await;
    let legacy = gateway.connect(LEGACY).capabilities(everything()).answer("elicitation/create", |_| Ok(accept("Ann"))).open().await;
    let modern = gateway.connect(MODERN).capabilities(everything()).open().await;
    for (tool, target) in [("look_old", &old), ("look_new", &new)] {
        let reply = legacy.call(tool, json!({"q": "x"})).await;
        assert_eq!(reply.structured(), &json!({"found": "Ann"}), "{tool}: {}", reply.raw);
        assert!(!json!(reply.notifications).to_string().contains(KEY), "{tool}: {:?}", reply.notifications);
        let asked = modern.call(tool, json!({"q": "x"})).await;
        assert!(asked.raw.contains("yours?") && !asked.raw.contains(KEY), "{tool}: {}", asked.raw);
        assert!(retry(&modern, tool, &json!({"q": "x", "api_key": "mine"}), &asked, accept("Bob")).await.is_error(), "{tool}");
        let reply = retry(&modern, tool, &json!({"q": "x"}), &asked, accept("Bob")).await;
        assert_eq!(reply.structured(), &json!({"found": "Bob"}), "{tool}: {}", reply.raw);
        for request in target.requests_of("tools/call") {
            assert_eq!(request.json()["params"]["arguments"], json!({"q": "x", "api_key": KEY}), "{tool}");
        }
    }
    assert_eq!(old.calls().len(), 2);
}

// sessions.md: progress of a call that was taken up goes to the request that took it up, under its own token
#[tokio::test]
async fn progress_goes_to_the_request_that_took_the_call_up() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        context.progress(1);
        let _ = context.ask("elicitation/create", form("?")).await;
        context.progress(2);
        Ok(text("done"))
    });
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(MODERN).capabilities(everything()).open().await;
    let asked = client.call_with_token("ask", json!({}), json!("first")).await;
    let steps = |reply: &Reply| {
        reply.notifications.iter().map(|note| (note["params"]["progressToken"].clone(), note["params"]["progress"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(steps(&asked), [(json!("first"), json!(1))]);
    let key = asked.result()["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params = json!({"name": "ask", "arguments": {}, "inputResponses": {key: accept("x")}, "requestState": asked.result()["requestState"], "_meta": {"progressToken": 7}});
    let reply = client.request("tools/call", params).await;
    assert_eq!((reply.text().as_str(), steps(&reply)), ("done", vec![(json!(7), json!(2))]));
}

// A client that goes away takes its call with it, also one that was taken up
#[tokio::test]
async fn a_modern_client_that_goes_away_takes_a_call_back_that_it_took_up() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        let _ = context.ask("elicitation/create", form("?")).await;
        context.cancelled().await;
        Err(json!({"code": -32800, "message": "cancelled"}))
    });
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(MODERN).capabilities(everything()).open().await;
    let asked = client.call("ask", json!({})).await;
    let key = asked.result()["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params = json!({"name": "ask", "arguments": {}, "inputResponses": {key: accept("x")}, "requestState": asked.result()["requestState"]});
    let mut pending = client.start("tools/call", params);
    assert!(pending.reply_within(Duration::from_millis(300)).await.is_none(), "the call goes on");
    drop(pending);
    eventually("the target hears of it", || async { a.cancelled().len() == 1 }).await;
    eventually("nothing is left", || async { gateway.metric("transom_target_in_flight").await == 0.0 }).await;
}

// A legacy client that was gone before it could be asked does not keep the target waiting
#[tokio::test]
async fn a_question_to_a_client_that_is_gone_is_refused() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let answer = context.ask("elicitation/create", form("?")).await;
        context.log("info", "answered");
        Ok(text(&answer.map_or_else(|error| error.to_string(), |answer| answer.to_string())))
    });
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(LEGACY).capabilities(everything()).open().await;
    let call = client.start_call("ask", json!({}));
    eventually("the call arrives", || async { a.calls().len() == 1 }).await;
    drop(call);
    eventually("the call ends by itself", || async { a.finished() == 1 }).await;
}

// protocol.md, K10: a question that its target takes back is nobody's any more, and the time of the call counts again
#[tokio::test]
async fn a_question_that_is_taken_back_is_not_waited_for() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        context.send(json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": form("who?")}));
        tokio::time::sleep(Duration::from_millis(200)).await;
        context.notify("notifications/cancelled", json!({"requestId": "q-1"}));
        context.cancelled().await;
        Ok(text("never"))
    });
    let short = |spec: &mut TargetSpec| (spec.allow_server_requests, spec.timeout) = (true, Duration::from_secs(1));
    let gateway = gateway().target_with(&a, short).start().await;
    let client = gateway.connect(LEGACY).capabilities(everything()).open().await;
    let mut stream = client.open_message(&client.message("tools/call", json!({"name": "ask", "arguments": {}}))).await;
    let mut next = async || stream.message_within(Duration::from_secs(5)).await.expect("a message in time");
    let question = next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let told = next().await;
    assert_eq!((&told["method"], &told["params"]["requestId"]), (&json!("notifications/cancelled"), &question["id"]), "{told}");
    let end = next().await;
    assert_eq!(end["error"]["code"], 1004, "{end}");
}

// registry.md 4.1: no arguments are an empty object, also to whoever compares
#[tokio::test]
async fn an_answer_may_spell_out_that_there_are_no_arguments() {
    let a = legacy_asker("a");
    let gateway = gateway().target_with(&a, allowed).start().await;
    let client = gateway.connect(MODERN).capabilities(everything()).open().await;
    let asked = client.request("tools/call", json!({"name": "ask"})).await;
    let reply = retry(&client, "ask", &json!({}), &asked, accept("x")).await;
    assert_eq!(reply.structured()["answers"], json!([accept("x")]), "{}", reply.raw);
}
