//! A call goes to its owner, its bytes arrive as they were sent, and what comes back is what was answered.

use std::time::{Duration, Instant};
use transom_tests::target::text;
use transom_tests::*;

// R-001-3, R-004-8
#[tokio::test]
async fn a_call_reaches_its_owner_and_its_answer_the_caller() {
    let (a, b) = (target("a").tool("echo", ["q"]), target("b").tool("add", ["x"]));
    let gateway = gateway().target(&a).target(&b).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        assert_eq!(client.call("echo", json!({"q": "hello"})).await.structured()["server"], "a");
        assert_eq!(client.call("add", json!({"x": 1})).await.structured()["server"], "b");
    }
    assert_eq!(a.calls(), vec![("echo".to_owned(), json!({"q": "hello"})); 2]);
    assert_eq!(b.calls(), vec![("add".to_owned(), json!({"x": 1})); 2]);
}

// R-004-9
#[tokio::test]
async fn arguments_arrive_byte_for_byte() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let session = client.session().unwrap();
    for arguments in [
        r#"{"big":18446744073709551616,"exp":1e400,"zero":-0,"one":1.0,"digits":0.1000}"#,
        r#"{"z":1,"a":{"nested":[null,true,"\u0061\n\ud83d\ude00"]},"":"empty key"}"#,
        r#"{ "spaced" :  [ 1 , 2 ] }"#,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#);
        let response = gateway.post_mcp(&[("mcp-session-id", &session)], body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        // The fake itself cannot read every number, so look at the bytes.
        let arrived = a.requests().iter().rev().map(target::Recorded::text).find(|text| text.contains("tools/call")).unwrap_or_default();
        assert!(arrived.contains(&format!("\"arguments\":{arguments}")), "{arguments} arrived as {arrived}");
    }
}

// R-004-10
#[tokio::test]
async fn a_result_comes_back_whole() {
    let result = json!({
        "content": [{"type": "text", "text": "ü", "annotations": {"priority": 0.5}}, {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "x:y", "name": "n"}, {"type": "future", "x": 1}],
        "structuredContent": {"a": [1, 2.50, null]},
        "isError": false,
        "_meta": {"com.example/trace": "t"},
        "brandNew": {"x": 1}
    });
    let a = target("a").tool("rich", []).reply("rich", result.clone()).tool("sad", []).reply("sad", json!({"content": [], "isError": true}));
    let gateway = gateway().target(&a).start().await;
    assert_eq!(gateway.client().await.call("rich", json!({})).await.result(), &result);
    assert!(gateway.client().await.call("sad", json!({})).await.is_error());
    let mut modern = gateway.modern().await.call("rich", json!({})).await.result().clone();
    assert_eq!(modern["resultType"], "complete");
    for (member, value) in result.as_object().unwrap() {
        if member != "_meta" {
            assert_eq!(&modern[member], value, "{member}");
        }
    }
    assert_eq!(modern["_meta"]["com.example/trace"], "t");
    modern["resultType"].take();
}

// R-000-12, R-001-42
#[tokio::test]
async fn an_error_of_a_target_keeps_its_code_and_gains_its_name() {
    let a = target("a")
        .tool("plain", [])
        .handler("plain", |_, _| async { Err(json!({"code": -32050, "message": "it broke"})) })
        .tool("rich", [])
        .handler("rich", |_, _| async { Err(json!({"code": 7, "message": "it broke", "data": {"why": "told to"}})) });
    let gateway = gateway().target(&a).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        let reply = client.call("plain", json!({})).await;
        assert_eq!((reply.error_code(), reply.error_message()), (-32050, "it broke".into()));
        assert_eq!(reply.error()["data"]["server"], "a");
        let reply = client.call("rich", json!({})).await;
        assert_eq!(reply.error_code(), 7);
        assert_eq!((&reply.error()["data"]["server"], &reply.error()["data"]["why"]), (&json!("a"), &json!("told to")));
    }
}

// R-000-11, N18, C14
#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_and_says_so() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        let a = target("a").era(era).slow("slow", Duration::from_secs(60)).tool("echo", []);
        let gateway = gateway().target_with(&a, |spec| spec.timeout = Duration::from_millis(200)).start().await;
        let client = gateway.client().await;
        let start = Instant::now();
        let reply = client.call("slow", json!({})).await;
        reply.failed(1004, json!("unknown"));
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!(reply.error()["data"]["server"], "a");
        eventually("the target is told", || async { if era == Era::Modern { a.disconnected() == 1 } else { a.cancelled().len() == 1 } }).await;
        if era != Era::Modern {
            assert_eq!(a.cancelled()[0]["requestId"], a.requests_of("tools/call")[0].json()["id"]);
        }
        assert_eq!(client.call("echo", json!({})).await.structured()["tool"], "echo", "the target stays in service");
    }
}

// protocol.md: progress keeps a call alive.
#[tokio::test]
async fn progress_starts_the_wait_anew() {
    let a = target("a").tool("long", []).handler("long", |_, context| async move {
        for step in 0..8 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            context.progress(step);
        }
        Ok(text("done"))
    });
    let gateway = gateway().target_with(&a, |spec| spec.timeout = Duration::from_millis(600)).start().await;
    let reply = gateway.client().await.call_with_token("long", json!({}), json!("t")).await;
    assert_eq!(reply.text(), "done");
    assert_eq!(reply.notifications.len(), 8);
}

// R-001-43, R-004-18
#[tokio::test]
async fn a_call_to_a_target_that_is_down_says_when_to_try_again() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    a.stop();
    gateway.until("a", "unavailable").await;
    let reply = client.call("echo", json!({})).await;
    reply.failed(1002, json!(false));
    assert_eq!(reply.error()["data"]["server"], "a");
    assert!(reply.error()["data"]["retryAfterMs"].is_u64(), "{}", reply.raw);
}

#[tokio::test]
async fn progress_and_log_messages_reach_the_caller_before_the_answer() {
    let a = target("a").tool("talk", []).handler("talk", |_, context| async move {
        context.progress(1);
        context.log("info", "half way");
        context.notify("notifications/com.example/new", json!({"x": 1}));
        context.progress(2);
        Ok(text("done"))
    });
    let gateway = gateway().target(&a).start().await;
    let reply = gateway.client().await.call_with_token("talk", json!({}), json!("mine")).await;
    assert!(reply.events);
    assert_eq!(reply.notified(), ["notifications/progress", "notifications/message", "notifications/com.example/new", "notifications/progress"]);
    assert_eq!(reply.notifications[0]["params"]["progressToken"], "mine");
    // N5: the target never sees the client's token or id.
    let arrived = a.requests_of("tools/call")[0].json();
    assert_ne!(arrived["params"]["_meta"]["progressToken"], "mine");

    let reply = gateway.modern().await.call_with_token("talk", json!({}), json!(17)).await;
    assert_eq!(reply.notifications[0]["params"]["progressToken"], 17);
    assert_eq!(reply.notifications[0]["params"]["total"], 100);
}

// A modern client that asked for no log level gets no log messages.
#[tokio::test]
async fn a_modern_client_gets_log_messages_only_if_it_asks() {
    let a = target("a").tool("talk", []).handler("talk", |_, context| async move {
        context.log("info", "half way");
        Ok(text("done"))
    });
    let gateway = gateway().target(&a).start().await;
    let client = gateway.modern().await;
    assert!(client.call("talk", json!({})).await.notifications.is_empty());
    let meta = json!({"io.modelcontextprotocol/logLevel": "info"});
    let reply = client.request("tools/call", json!({"name": "talk", "arguments": {}, "_meta": meta})).await;
    assert_eq!(reply.notified(), ["notifications/message"]);
}

// N26
#[tokio::test]
async fn resources_are_listed_under_uris_of_ours_and_read_by_them() {
    let server1 = target("server1").resource("file:///test.txt").template("file:///{path}");
    let server2 = target("server2").resource("file:///test.txt");
    let gateway = gateway().target(&server1).target(&server2).start().await;
    let uri = "mcp://server1/file%3A%2F%2F%2Ftest.txt";
    for client in [gateway.client().await, gateway.modern().await] {
        let mut uris: Vec<String> = client.list("resources/list", "resources").await.iter().map(|r| r["uri"].as_str().unwrap().to_owned()).collect();
        uris.sort();
        assert_eq!(uris, [uri, "mcp://server2/file%3A%2F%2F%2Ftest.txt"]);
        let reply = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(reply.result()["contents"][0]["text"], "content of server1");
        assert_eq!(client.list("resources/templates/list", "resourceTemplates").await.len(), 1);
        for unknown in ["mcp://nobody/x", "file:///test.txt", "mcp://server2", "mcp:///file%3A%2F%2F%2Ftest.txt", "http://server1/", ""] {
            let reply = client.request("resources/read", json!({"uri": unknown})).await;
            assert!(reply.message.get("error").is_some(), "{unknown}: {}", reply.raw);
        }
    }
    // What a tool links to need not be listed, so a target is asked for any URI of its own, under its own name.
    assert!(server1.requests_of("resources/read").iter().all(|request| request.json()["params"]["uri"].as_str().unwrap().starts_with("file:///")));
}

// N26: a client expands a template that we changed, and its target reads what it would have read without us.
#[tokio::test]
async fn a_value_in_a_template_reaches_the_target_as_the_client_wrote_it() {
    for era in [Era::Legacy("2025-06-18"), Era::Modern] {
        let a = target("a").era(era).resource("file:///a b.txt").resource("file:///x%20y").resource("db://one%2Ftwo/rows");
        let a = a.template("file:///{path}").template("db://{table}/rows{?q}").template("db://{table}").template("note://{+path}").prompt("greet");
        let gateway = gateway().target(&a).target(&target("b").template("file:///{path}")).start().await;
        for client in [gateway.client().await, gateway.modern().await] {
            let templates = client.list("resources/templates/list", "resourceTemplates").await;
            assert!(templates.iter().any(|template| template["uriTemplate"] == "mcp://a/file%3A%2F%2F%2F{path}"), "{templates:?}");
            for (asked, read) in [
                ("file%3A%2F%2F%2Fa%20b", "file:///a%20b"),
                ("file%3A%2F%2F%2F50%25", "file:///50%25"),
                ("file%3A%2F%2F%2Fa%2Fb", "file:///a%2Fb"),
                ("file%3A%2F%2F%2F%FF", "file:///%FF"),
                ("db%3A%2F%2Fx%2Frows?q=1%262", "db://x/rows?q=1%262"),
                ("db%3A%2F%2Fx%2Frows", "db://x/rows"),
                ("db%3A%2F%2Fx%20y", "db://x%20y"),
                ("note%3A%2F%2Fx/y%20z?a#b", "note://x/y%20z?a#b"),
                // What is listed is what it was listed as.
                ("file%3A%2F%2F%2Fa%20b.txt", "file:///a b.txt"),
                ("file%3A%2F%2F%2Fx%2520y", "file:///x%20y"),
                ("db%3A%2F%2Fone%252Ftwo%2Frows", "db://one%2Ftwo/rows"),
                // What fits no template is encoded as a whole.
                ("other%3A%2F%2Fa%20b%2Fc%2520d", "other://a b/c%20d"),
            ] {
                a.clear();
                let asked = format!("mcp://a/{asked}");
                let reply = client.request("resources/read", json!({"uri": asked})).await;
                assert_eq!(a.requests_of("resources/read")[0].json()["params"]["uri"], read, "{asked} of a {era:?} target");
                assert_eq!(reply.result()["contents"][0]["uri"], asked.as_str(), "what comes back is what was asked for");
            }
            a.clear();
            let reference = json!({"type": "ref/resource", "uri": "mcp://a/db%3A%2F%2F{table}%2Frows{?q}"});
            client.request("completion/complete", json!({"ref": reference, "argument": {"name": "q", "value": ""}})).await;
            assert_eq!(a.requests_of("completion/complete")[0].json()["params"]["ref"]["uri"], "db://{table}/rows{?q}");
        }
    }
}

// H10: the same for who wants to hear of it.
#[tokio::test]
async fn an_update_of_a_resource_behind_a_template_is_told_under_the_uri_that_was_subscribed_to() {
    let a = target("a").resource("file:///listed").template("file:///{path}");
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let mut stream = client.stream().await;
    client.request("resources/subscribe", json!({"uri": "mcp://a/file%3A%2F%2F%2Fa%20b"})).await.result();
    eventually("the target was asked", || async { !a.requests_of("resources/subscribe").is_empty() }).await;
    assert_eq!(a.requests_of("resources/subscribe")[0].json()["params"]["uri"], "file:///a%20b");
    eventually("there is a stream", || async { a.streams() > 0 }).await;
    a.broadcast("notifications/resources/updated", json!({"uri": "file:///a%20b"}));
    assert_eq!(stream.notification("notifications/resources/updated").await["params"]["uri"], "mcp://a/file%3A%2F%2F%2Fa%20b");
}

#[tokio::test]
async fn prompts_and_completion_follow_their_target() {
    let (a, b) = (target("a").prompt("greet"), target("b").prompt("greet").prompt("ask"));
    let gateway = gateway().target(&a).target(&b).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        let mut names: Vec<String> = client.list("prompts/list", "prompts").await.iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["a__greet", "ask", "b__greet"]);
        let reply = client.request("prompts/get", json!({"name": "b__greet", "arguments": {"topic": "x"}})).await;
        assert!(reply.raw.contains("b says"), "{}", reply.raw);
        let reference = json!({"ref": {"type": "ref/prompt", "name": "a__greet"}, "argument": {"name": "topic", "value": ""}});
        let reply = client.request("completion/complete", reference).await;
        assert_eq!(reply.result()["completion"]["values"], json!(["a"]));
        assert_eq!(client.request("prompts/get", json!({"name": "nope"})).await.error_code(), -32602);
    }
    assert_eq!(a.requests_of("completion/complete")[0].json()["params"]["ref"]["name"], "greet");
}

// protocol.md, legacy client
#[tokio::test]
async fn ping_and_log_level_are_answered_by_the_gateway() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    assert_eq!(client.request("ping", json!({})).await.result(), &json!({}));
    assert_eq!(client.request("logging/setLevel", json!({"level": "debug"})).await.result(), &json!({}));
    // H12
    assert!(a.requests_of("logging/setLevel").is_empty());
    assert_eq!(client.request("no/such/method", json!({})).await.error_code(), -32601);
}

// protocol.md: requests of a target are off unless it is allowed.
#[tokio::test]
async fn a_target_may_ask_the_client_only_when_it_is_allowed_to() {
    let asking = |name: &str| {
        target(name).tool("ask", []).handler("ask", |_, context| async move {
            let params = json!({"message": "your name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}});
            Ok(text(&match context.ask("elicitation/create", params).await {
                Ok(answer) => answer.to_string(),
                Err(error) => format!("refused {}", error["code"]),
            }))
        })
    };
    let (off, on) = (asking("off"), asking("on"));
    let gateway = gateway().target(&off).target_with(&on, |spec| spec.allow_server_requests = true).start().await;
    let able = gateway
        .connect(client::LEGACY)
        .capabilities(json!({"elicitation": {}}))
        .answer("elicitation/create", |params| Ok(json!({"action": "accept", "content": {"name": params["message"]}})))
        .open()
        .await;
    assert!(able.call("off__ask", json!({})).await.text().starts_with("refused"));
    let reply = able.call("on__ask", json!({})).await;
    assert_eq!(reply.text(), r#"{"action":"accept","content":{"name":"your name?"}}"#);
    let unable = gateway.client().await;
    assert!(unable.call("on__ask", json!({})).await.text().starts_with("refused"), "a client that declared nothing is not asked");
}

// Must show: the answer of a slow call does not hold up a fast one.
#[tokio::test]
async fn calls_of_one_client_run_side_by_side() {
    let a = target("a").slow("slow", Duration::from_secs(2)).tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let slow = client.start_call("slow", json!({"nonce": 1}));
    let start = Instant::now();
    client.call("echo", json!({})).await.result();
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(slow.reply().await.structured()["arguments"]["nonce"], 1);
}

// protocol.md: what we do not know survives.
#[tokio::test]
async fn unknown_members_of_params_reach_the_target() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    gateway.client().await.request("tools/call", json!({"name": "echo", "arguments": {}, "task": {"ttl": 5}, "brandNew": [1]})).await.result();
    let arrived = a.requests_of("tools/call")[0].json();
    assert_eq!(arrived["params"]["task"], json!({"ttl": 5}));
    assert_eq!(arrived["params"]["brandNew"], json!([1]));
}

// A8 for pass-through tools: what is no object is no set of arguments.
#[tokio::test]
async fn arguments_that_are_no_object_are_refused_and_absent_ones_are_none() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    for arguments in [json!(["X"]), json!(42), json!("{}"), json!(true)] {
        let reply = client.call("echo", arguments.clone()).await;
        assert!(reply.is_error() || reply.message.get("error").is_some(), "{arguments}: {}", reply.raw);
    }
    assert!(a.calls().is_empty());
    client.request("tools/call", json!({"name": "echo"})).await.result();
    assert_eq!(a.calls(), [("echo".to_owned(), json!({}))]);
}
