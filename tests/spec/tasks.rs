//! Tasks of both eras: calls that a target goes on with after it has answered. H9, N4, CVE-2026-52870.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use transom_gateway::config::{Authentication, Effect, Rule};
use transom_tests::client::{LEGACY, MODERN};
use transom_tests::target::text;
use transom_tests::*;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn knows_tasks() -> Value {
    json!({"extensions": {EXTENSION: {}}})
}

/// A target whose tool `slow` goes on until the test lets it end.
fn slow(name: &str, era: Era) -> (Target, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let target = target(name).era(era).tasks().tool("slow", ["q"]).handler("slow", move |arguments, _| {
        let gate = held.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(text(&format!("done with {}", arguments["q"].as_str().unwrap_or_default())))
        }
    });
    (target, gate)
}

const LEGACY_ERA: Era = Era::Legacy("2025-11-25");

async fn get(client: &Client, id: &Value) -> Reply {
    client.request("tasks/get", json!({"taskId": id})).await
}

async fn until(client: &Client, id: &Value, status: &str) -> Value {
    eventually(&format!("the task is {status}"), || async { get(client, id).await.result()["status"] == status }).await;
    get(client, id).await.result().clone()
}

// protocol.md: the extension of 2026-07-28 passes through, under ids of ours
#[tokio::test]
async fn a_modern_client_follows_a_task_of_a_modern_target() {
    let (a, gate) = slow("a", Era::Modern);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.connect(MODERN).capabilities(knows_tasks()).open().await;
    let discovered = client.request("server/discover", json!({})).await;
    assert_eq!(discovered.result()["capabilities"]["extensions"], json!({EXTENSION: {}}), "{}", discovered.raw);
    let made = client.call("slow", json!({"q": "x"})).await;
    assert_eq!((&made.result()["resultType"], &made.result()["status"]), (&json!("task"), &json!("working")), "{}", made.raw);
    let id = made.result()["taskId"].clone();
    assert!(!made.result()["taskId"].as_str().unwrap().contains("task-"), "the target's own id is not shown");
    let task = get(&client, &id).await;
    assert_eq!((&task.result()["taskId"], &task.result()["status"], &task.result()["resultType"]), (&id, &json!("working"), &json!("complete")));
    gate.add_permits(1);
    let done = until(&client, &id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "done with x");
    let asked = a.requests_of("tasks/get");
    assert!(asked.iter().all(|request| request.json()["params"]["taskId"].as_str().unwrap().starts_with("a-task-")));
    // Cancelling is acknowledged, and takes effect.
    let made = client.call("slow", json!({"q": "y"})).await;
    let cancelled = client.request("tasks/cancel", json!({"taskId": made.result()["taskId"]})).await;
    assert_eq!(cancelled.result()["resultType"], "complete");
    until(&client, &made.result()["taskId"], "cancelled").await;
    assert_eq!(a.calls().len(), 2);
}

// 2025-11-25: `params.task`, `tasks/get`, `tasks/result`, `tasks/list`, `tasks/cancel`
#[tokio::test]
async fn a_legacy_client_follows_a_task_of_a_legacy_target() {
    let (a, gate) = slow("a", LEGACY_ERA);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let offered = &client.initialized().message["result"]["capabilities"]["tasks"];
    assert_eq!(offered, &json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
    assert!(gateway.client_of("2025-06-18").await.initialized().message["result"]["capabilities"].get("tasks").is_none());
    let make = |q: &'static str| client.request("tools/call", json!({"name": "slow", "arguments": {"q": q}, "task": {"ttl": 60_000}}));
    let made = make("x").await;
    let task = &made.result()["task"];
    assert_eq!(task["status"], "working", "{}", made.raw);
    // protocol.md: unknown members of any message survive, also beside a task.
    assert_eq!(made.result()["_meta"]["io.modelcontextprotocol/model-immediate-response"], "soon", "{}", made.raw);
    let id = task["taskId"].clone();
    assert!(!made.raw.contains("a-task-1\""), "the target's own id is not shown: {}", made.raw);
    assert_eq!(get(&client, &id).await.result()["taskId"], id);
    let waiting = client.start("tasks/result", json!({"taskId": id}));
    gate.add_permits(1);
    let result = waiting.reply().await;
    assert_eq!(result.text(), "done with x");
    assert_eq!(result.result()["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
    let other = make("y").await.result()["task"]["taskId"].clone();
    let listed = client.request("tasks/list", json!({})).await;
    let listed: Vec<(Value, Value)> =
        listed.result()["tasks"].as_array().unwrap().iter().map(|task| (task["taskId"].clone(), task["status"].clone())).collect();
    assert_eq!(listed, [(id.clone(), json!("completed")), (other.clone(), json!("working"))]);
    assert_eq!(gateway.client().await.request("tasks/list", json!({})).await.result()["tasks"], json!([]), "another session lists its own");
    assert_eq!(client.request("tasks/cancel", json!({"taskId": other})).await.result()["status"], "cancelled");
    // A call without `task` is a call.
    gate.add_permits(2);
    assert_eq!(client.call("slow", json!({"q": "z"})).await.text(), "done with z");
}

#[tokio::test]
async fn tasks_are_listed_over_the_oldest_transport_as_well() {
    let (a, gate) = slow("a", LEGACY_ERA);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.sse_client().await;
    assert_eq!(client.request("tasks/list", json!({})).await.result(), &json!({"tasks": []}));
    let made = client.request("tools/call", json!({"name": "slow", "arguments": {"q": "x"}, "task": {"ttl": 60_000}})).await;
    let listed = client.request("tasks/list", json!({})).await;
    assert_eq!(listed.result()["tasks"][0]["taskId"], made.result()["task"]["taskId"], "{}", listed.raw);
    gate.add_permits(1);
}

// CVE-2026-52870, H9: another principal's task looks unknown, and so does one that was never there
#[tokio::test]
async fn a_task_of_somebody_else_is_unknown() {
    let (old, _) = slow("old", LEGACY_ERA);
    let (new, _) = slow("new", Era::Modern);
    let keys = vec![api_key("one", "key-of-one"), api_key("two", "key-of-two")];
    let gateway = gateway()
        .target(&old)
        .target(&new)
        .config(|config| config.authentication = Some(Authentication { jwt: vec![], api_keys: keys, resource: None }))
        .start()
        .await;
    for (revision, tool) in [(LEGACY, "old__slow"), (MODERN, "new__slow")] {
        let connect = |key: &str| gateway.connect(revision).capabilities(knows_tasks()).header("x-api-key", key).open();
        let (owner, other) = (connect("key-of-one").await, connect("key-of-two").await);
        let made = owner.request("tools/call", json!({"name": tool, "arguments": {}, "task": {}})).await;
        let id = made.result().get("task").unwrap_or(made.result())["taskId"].clone();
        let methods: &[&str] =
            if revision == MODERN { &["tasks/get", "tasks/update", "tasks/cancel"] } else { &["tasks/get", "tasks/result", "tasks/cancel"] };
        let before = old.touched() + new.touched();
        let text = id.as_str().unwrap();
        let mut forged = vec![text.to_owned(), "old-task-1".into(), "new-task-1".into(), String::new()];
        for at in (0..text.len()).step_by(9) {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            forged.push(String::from_utf8(bytes).unwrap());
        }
        for (at, id) in forged.iter().enumerate() {
            for method in methods {
                let reply = if at == 0 { &other } else { &owner }.request(method, json!({"taskId": id, "inputResponses": {}})).await;
                assert_eq!((reply.error_code(), reply.error_message().as_str()), (-32602, "Task not found"), "{method} {id}");
            }
        }
        assert_eq!(old.touched() + new.touched(), before, "no target heard of it");
        get(&owner, &id).await.result();
        // The other era has tasks of its own.
        let stranger = gateway
            .connect(if revision == MODERN { LEGACY } else { MODERN })
            .capabilities(knows_tasks())
            .header("x-api-key", "key-of-one")
            .open()
            .await;
        assert_eq!(get(&stranger, &id).await.error_message(), "Task not found");
    }
}

// R: authorization is judged again with the tool's rule
#[tokio::test]
async fn a_task_of_a_tool_that_may_not_be_used_any_more_is_unknown() {
    let (a, _) = slow("a", LEGACY_ERA);
    let allow = |expression: &str| Some(vec![Rule { effect: Effect::Allow, expression: expression.into() }]);
    let mut gateway = gateway().target(&a.tool("other", [])).config(|config| config.authorization = allow("mcp.tool.name == 'slow'")).start().await;
    let client = gateway.client().await;
    let made = client.request("tools/call", json!({"name": "slow", "arguments": {}, "task": {}})).await;
    let id = made.result()["task"]["taskId"].clone();
    get(&client, &id).await.result();
    gateway.reconfigure(|config| config.authorization = allow("mcp.tool.name == 'other'"));
    eventually("the rule is in force", || async { get(&client, &id).await.message.get("error").is_some() }).await;
    assert_eq!(get(&client, &id).await.error_message(), "Task not found");
}

// N4: what a task of a virtual tool delivers has the shape that the registry gives, and nothing else gets out beside it
#[tokio::test]
async fn a_task_of_a_virtual_tool_delivers_what_the_registry_shows() {
    const KEY: &str = "the-secret-key-0815";
    let tool = |name: &str, era| {
        target(name).era(era).tasks().tool("fetch", ["q", "api_key"]).handler("fetch", |arguments, _| async move {
            let found = format!("{} with {}", arguments["q"].as_str().unwrap_or_default(), arguments["api_key"].as_str().unwrap_or_default());
            Ok(json!({"content": [{"type": "text", "text": "cost 9"}], "structuredContent": {"found": found, "cost": 9}}))
        })
    };
    let (old, new) = (tool("old", LEGACY_ERA), tool("new", Era::Modern));
    let virtual_tool = |name: &str, target: &str| {
        json!({"name": name, "source": {"target": target, "tool": "fetch"}, "defaults": {"api_key": "${KEY}"}, "hideFields": ["api_key"],
            "outputSchema": {"type": "object", "properties": {"found": {"type": "string", "sourceField": "$.found"}}}})
    };
    let registry = json!({"tools": [virtual_tool("look_old", "old"), virtual_tool("look_new", "new")]});
    let gateway = gateway().target(&old).target(&new).registry(&registry).env([("KEY", KEY)]).start().await;
    let hides = |raw: &str| assert!(!raw.contains(KEY) && !raw.contains("cost") && !raw.contains(" of "), "{raw}");

    let client = gateway.client().await;
    let made = client.request("tools/call", json!({"name": "look_old", "arguments": {"q": "x"}, "task": {}})).await;
    hides(&made.raw);
    assert!(!made.raw.contains("soon"), "{}", made.raw);
    let id = made.result()["task"]["taskId"].clone();
    let result = client.request("tasks/result", json!({"taskId": id})).await;
    assert!(result.structured()["found"].as_str().unwrap().starts_with("x with"), "{}", result.raw);
    assert_eq!(result.result()["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    hides(&result.raw);
    hides(&get(&client, &id).await.raw);
    assert_eq!(old.calls(), [("fetch".to_owned(), json!({"q": "x", "api_key": KEY}))]);

    let client = gateway.connect(MODERN).capabilities(knows_tasks()).open().await;
    let made = client.call("look_new", json!({"q": "x"})).await;
    hides(&made.raw);
    let done = until(&client, &made.result()["taskId"], "completed").await;
    assert_eq!(done["result"]["structuredContent"].as_object().unwrap().keys().collect::<Vec<_>>(), ["found"]);
    hides(&done.to_string());
}

// The extension: a client that did not declare it gets no task, and −32021 if it asks for one
#[tokio::test]
async fn a_client_that_does_not_know_tasks_is_given_none() {
    let (a, gate) = slow("a", Era::Modern);
    let gateway = gateway().target(&a).start().await;
    gate.add_permits(2);
    let client = gateway.modern().await;
    assert_eq!(client.call("slow", json!({"q": "x"})).await.text(), "done with x");
    assert_eq!(gateway.client().await.call("slow", json!({"q": "x"})).await.text(), "done with x");
    let reply = get(&client, &json!("x")).await;
    assert_eq!((reply.status, reply.error_code()), (400, -32021), "{}", reply.raw);
    assert_eq!(reply.error()["data"]["requiredCapabilities"]["extensions"], json!({EXTENSION: {}}));
    let listen = client.request("subscriptions/listen", json!({"notifications": {"taskIds": ["x"]}})).await;
    assert_eq!(listen.error_code(), -32021, "{}", listen.raw);
    // A target that answers with a task all the same has answered wrongly.
    let b = target("b").era(Era::Modern).tool("rogue", []).reply("rogue", json!({"resultType": "task", "taskId": "t", "status": "working"}));
    let other = transom_tests::gateway().target(&b).start().await;
    other.modern().await.call("rogue", json!({})).await.failed(1005, json!(true));
}

// Capabilities are advertised only if a target offers them, and the methods exist only then
#[tokio::test]
async fn where_no_target_has_tasks_there_are_none() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let (legacy, modern) = (gateway.client().await, gateway.connect(MODERN).capabilities(knows_tasks()).open().await);
    assert!(legacy.initialized().message["result"]["capabilities"].get("tasks").is_none());
    assert!(modern.request("server/discover", json!({})).await.result()["capabilities"].get("extensions").is_none());
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"] {
        for client in [&legacy, &modern] {
            assert_eq!(client.request(method, json!({"taskId": "x", "inputResponses": {}})).await.error_code(), -32601, "{method}");
        }
    }
    // A receiver without tasks takes the call for a call.
    assert!(legacy.request("tools/call", json!({"name": "echo", "arguments": {}, "task": {}})).await.result()["content"].is_array());
}

// The extension: a task asks through `tasks/get` and is answered by `tasks/update`, if it may ask at all
#[tokio::test]
async fn a_task_asks_only_where_it_may() {
    let asking = |name: &str| {
        target(name).era(Era::Modern).tasks().tool("ask", []).handler("ask", |_, context| async move {
            let question =
                json!({"who": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}});
            Ok(text(&context.ask_in_task(question).await.to_string()))
        })
    };
    let (a, b) = (asking("a"), asking("b"));
    let gateway = gateway().target_with(&a, |spec| spec.allow_server_requests = true).target(&b).start().await;
    let client = gateway.connect(MODERN).capabilities(json!({"elicitation": {}, "extensions": {EXTENSION: {}}})).open().await;
    let made = client.call("a__ask", json!({})).await;
    let id = made.result()["taskId"].clone();
    let asked = until(&client, &id, "input_required").await;
    assert_eq!(asked["inputRequests"]["who"]["method"], "elicitation/create");
    let answer = json!({"who": {"action": "decline"}});
    client.request("tasks/update", json!({"taskId": id, "inputResponses": answer})).await.result();
    assert_eq!(until(&client, &id, "completed").await["result"]["content"][0]["text"], answer.to_string());
    // Not for a target that may not ask, nor to a client that cannot answer.
    let made = client.call("b__ask", json!({})).await;
    let id = made.result()["taskId"].clone();
    eventually("the question is refused", || async { get(&client, &id).await.message.get("error").is_some() }).await;
    get(&client, &id).await.failed(1005, json!(true));
    assert_eq!(client.request("tasks/update", json!({"taskId": id, "inputResponses": answer})).await.error_code(), -32602);
    let mute = gateway.connect(MODERN).capabilities(knows_tasks()).open().await;
    let id = mute.call("a__ask", json!({})).await.result()["taskId"].clone();
    eventually("the question is refused", || async { get(&mute, &id).await.message.get("error").is_some() }).await;
}

// 2025-11-25: `notifications/tasks/status` reaches the session that made the task, under its id, and nobody else
#[tokio::test]
async fn what_becomes_of_a_task_is_told_to_its_maker() {
    let (a, _) = slow("a", LEGACY_ERA);
    let gateway = gateway().target(&a).start().await;
    let (maker, other) = (gateway.client().await, gateway.client().await);
    let (mut heard, mut silent) = (maker.stream().await, other.stream().await);
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    let made = maker.request("tools/call", json!({"name": "slow", "arguments": {}, "task": {}})).await;
    let inner = a.task_ids().pop().unwrap();
    a.broadcast(
        "notifications/tasks/status",
        json!({"taskId": inner, "status": "failed", "statusMessage": "secret", "createdAt": "x", "lastUpdatedAt": "y", "ttl": null}),
    );
    a.broadcast("notifications/tasks/status", json!({"taskId": "somebody else's", "status": "failed"}));
    let status = heard.notification("notifications/tasks/status").await;
    assert_eq!((&status["params"]["taskId"], &status["params"]["status"]), (&made.result()["task"]["taskId"], &json!("failed")));
    assert!(status["params"].get("statusMessage").is_none(), "{status}");
    assert!(silent.message_within(Duration::from_millis(300)).await.is_none());
    assert!(heard.message_within(Duration::from_millis(100)).await.is_none());
}

// E2: what went wrong with a task of a tool whose errors are generic is not told either
#[tokio::test]
async fn a_generic_error_of_a_task_says_nothing_of_what_its_source_said() {
    let failing = |name: &str, era| {
        target(name)
            .era(era)
            .tasks()
            .tool("fetch", [])
            .handler("fetch", |_, _| async move { Err(json!({"code": -32050, "message": "db.internal failed"})) })
    };
    let (old, new) = (failing("old", LEGACY_ERA), failing("new", Era::Modern));
    let tool = |target: &str| json!({"name": format!("look_{target}"), "source": {"target": target, "tool": "fetch"}, "errors": "generic"});
    let gateway = gateway().target(&old).target(&new).registry(&json!({"tools": [tool("old"), tool("new")]})).start().await;
    let client = gateway.client().await;
    let made = client.request("tools/call", json!({"name": "look_old", "arguments": {}, "task": {}})).await;
    let result = client.request("tasks/result", json!({"taskId": made.result()["task"]["taskId"]})).await;
    assert!(result.error_code() == -32050 && !result.raw.contains("db.internal"), "{}", result.raw);
    let client = gateway.connect(MODERN).capabilities(knows_tasks()).open().await;
    let made = client.call("look_new", json!({})).await;
    let failed = until(&client, &made.result()["taskId"], "failed").await;
    assert!(failed["error"]["code"] == -32050 && !failed.to_string().contains("db.internal"), "{failed}");
}
