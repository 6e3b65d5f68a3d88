//! Which tools there are: what the targets offer, all of it, and nothing that is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use transom_tests::target::schema;
use transom_tests::*;

// R-004-1, N1
#[tokio::test]
async fn the_tools_of_one_target_are_listed_under_their_own_names() {
    let a = target("a").tool("one", []).tool("two", []).tool("three", []);
    let gateway = gateway().target(&a).start().await;
    assert_eq!(gateway.client().await.tool_names().await, ["one", "three", "two"]);
}

// R-001-2, R-004-2, N2
#[tokio::test]
async fn the_list_is_the_union_over_all_targets() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    assert_eq!(gateway.client().await.tool_names().await, ["add", "echo"]);
}

// R-000-1, N15
#[tokio::test]
async fn pages_are_followed_to_the_end() {
    let a = target("a").tool("t1", []).tool("t2", []).tool("t3", []).tool("t4", []).tool("t5", []).page_size(2);
    let gateway = gateway().target(&a).start().await;
    assert_eq!(gateway.client().await.tool_names().await, ["t1", "t2", "t3", "t4", "t5"]);
    let cursors: Vec<Value> = a.requests_of("tools/list").iter().map(|request| request.json()["params"]["cursor"].clone()).take(3).collect();
    assert_eq!(cursors, [Value::Null, json!("page-2"), json!("page-4")]);
}

// R-000-3, R-004-14
#[tokio::test]
async fn a_definition_is_kept_whole_with_members_nobody_knows() {
    let definition = json!({
        "name": "rich",
        "title": "Rich",
        "description": "has everything",
        "icons": [{"src": "data:,x", "sizes": ["48x48"]}],
        "inputSchema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"z": {"type": "integer", "x-vendor": [1, 2.50, "ü"]}, "a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
        "outputSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
        "annotations": {"readOnlyHint": true, "future": {"x": 1}},
        "execution": {"taskSupport": "optional"},
        "_meta": {"com.example/x": [true, null]},
        "brandNew": 7
    });
    let a = target("a").tool_def(definition.clone());
    let gateway = gateway().target(&a).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        assert_eq!(client.list_tools().await, std::slice::from_ref(&definition));
    }
    // R-000-7
    let shown = gateway.get("/tools/rich").await.json();
    assert_eq!(shown["inputSchema"], definition["inputSchema"]);
    assert_eq!(shown["outputSchema"], definition["outputSchema"]);
}

// R-004-4, R-004-16, C18
#[tokio::test]
async fn every_listed_tool_has_a_name_a_description_and_a_schema() {
    let a = target("a")
        .tool_def(json!({"name": "bare", "inputSchema": {"type": "object"}}))
        .tool_def(json!({"name": "titled", "title": "Its title", "inputSchema": {"type": "object"}}));
    let gateway = gateway().target(&a).start().await;
    let tools = gateway.client().await.list_tools().await;
    assert_eq!(tools[0]["description"], "");
    assert_eq!(tools[1]["description"], "Its title");
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
}

// R-004-15
#[tokio::test]
async fn an_invalid_schema_costs_that_tool_alone() {
    let logs = logs::capture();
    let a = target("a")
        .tool("good", [])
        .tool_def(json!({"name": "no_schema", "description": "x"}))
        .tool_def(json!({"name": "text_schema", "description": "x", "inputSchema": "object"}))
        .tool_def(json!({"name": "wrong_type", "description": "x", "inputSchema": {"type": "object", "properties": {"n": {"type": "nonsense"}}}}))
        .tool_def(json!({"name": "not_object", "description": "x", "inputSchema": {"type": "array"}}))
        .tool("also_good", []);
    let gateway = gateway().target(&a).start().await;
    let names = gateway.client().await.tool_names().await;
    assert!(names.contains(&"good".to_owned()) && names.contains(&"also_good".to_owned()), "{names:?}");
    for bad in ["text_schema", "wrong_type", "not_object"] {
        assert!(!names.contains(&bad.to_owned()), "{bad} is listed");
        assert!(!logs.lines(&[bad]).is_empty(), "nothing is logged about {bad}");
        gateway.client().await.call(bad, json!({})).await.is_not_found(bad);
    }
    assert_eq!(gateway.state_of("a").await, "connected");
    assert!(a.calls().is_empty());
}

// R-001-10
#[tokio::test]
async fn without_targets_the_list_is_empty_and_the_start_a_success() {
    let gateway = gateway().start().await;
    assert!(gateway.client().await.tool_names().await.is_empty());
    assert!(gateway.modern().await.tool_names().await.is_empty());
    assert_eq!(gateway.get("/ready").await.status, 200);
    assert_eq!(gateway.get("/tools").await.json(), json!([]));
}

// R-001-5, R-001-9
#[tokio::test]
async fn targets_are_connected_before_anyone_asks() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let _gateway = gateway().target(&a).target(&b).without_waiting().start().await;
    eventually("both were asked for their tools", || async { !a.requests_of("tools/list").is_empty() && !b.requests_of("tools/list").is_empty() })
        .await;
}

// R-001-11
#[tokio::test]
async fn connections_are_used_again() {
    let a = target("a").tool("echo", ["n"]);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    for n in 0..50 {
        assert_eq!(client.call("echo", json!({"n": n})).await.structured()["arguments"]["n"], n);
    }
    assert_eq!(a.initializes(), 1);
    assert!(a.connections() <= 6, "{} connections for 50 calls one after the other", a.connections());
}

// R-001-8, N19, L8
#[tokio::test]
async fn a_target_that_cannot_be_reached_costs_its_own_tools_only() {
    let logs = logs::capture();
    let (a, b, dead) = (target("a").tool("echo", []), target("b").tool("add", []), target("dead").tool("gone", []));
    dead.stop();
    let gateway = gateway().target(&a).target(&dead).target(&b).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["add", "echo"]);
    assert_eq!(client.call("echo", json!({})).await.structured()["server"], "a");
    assert_eq!(gateway.get("/health").await.json()["status"], "degraded");
    assert_eq!(gateway.get("/ready").await.status, 503);
    assert!(!logs.lines(&["dead"]).is_empty());
    dead.start();
    gateway.until_listed(&["add", "echo", "gone"]).await;
}

// R-000-2, N16
#[tokio::test]
async fn removing_a_target_drops_what_it_offered_and_nothing_else() {
    let a = target("a").tool("echo", []).prompt("greet").resource("file:///a").template("file:///{x}");
    let b = target("b").tool("add", []).prompt("ask").resource("file:///b");
    let mut gateway = gateway().target(&a).target(&b).start().await;
    let client = gateway.client().await;
    assert_eq!(client.list("prompts/list", "prompts").await.len(), 2);
    gateway.reconfigure(|config| config.targets.retain(|target| target.name != "a"));
    gateway.until_listed(&["add"]).await;
    assert_eq!(client.list("prompts/list", "prompts").await.len(), 1);
    assert_eq!(client.list("resources/list", "resources").await.len(), 1);
    assert!(client.list("resources/templates/list", "resourceTemplates").await.is_empty());
    client.call("echo", json!({})).await.is_not_found("echo");
    assert!(a.calls().is_empty());
}

// C4: what runs, runs on.
#[tokio::test]
async fn a_running_call_outlives_the_removal_of_its_target() {
    let mut gateway = gateway().stdio("child", json!({"tools": ["sleep"]})).start().await;
    let client = gateway.client().await;
    let caller = client.clone();
    let running = tokio::spawn(async move { caller.call("sleep", json!({"ms": 1500})).await });
    eventually("the call runs", || async { gateway.get("/status").await.json()["servers"]["child"]["inFlight"] == 1 }).await;
    gateway.reconfigure(|config| config.targets.clear());
    gateway.until_listed(&[]).await;
    let reply = running.await.unwrap();
    assert!(reply.raw.contains("\"result\""), "{}", reply.raw);
}

#[tokio::test]
async fn a_new_timeout_or_alias_needs_no_new_connection() {
    let a = target("a").tool("read_file", []);
    let mut gateway = gateway().target(&a).start().await;
    let before = a.initializes();
    gateway.reconfigure(|config| {
        for target in &mut config.targets {
            target.timeout = Duration::from_secs(7);
            target.aliases = vec![("read".into(), "read_file".into())];
        }
    });
    gateway.until_listed(&["read"]).await;
    assert_eq!(a.initializes(), before);
}

// R-004-11
#[tokio::test]
async fn the_tools_of_a_target_that_joins_appear_and_clients_are_told() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let mut gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    let mut stream = client.stream().await;
    gateway.reconfigure(|config| config.targets.push(b.spec()));
    stream.notification("notifications/tools/list_changed").await;
    assert_eq!(client.tool_names().await, ["add", "echo"]);
}

// R-004-12, R-004-18, R-004-19
#[tokio::test]
async fn the_tools_of_a_target_that_goes_disappear_and_clients_are_told() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    let client = gateway.client().await;
    let mut stream = client.stream().await;
    b.stop();
    stream.notification("notifications/tools/list_changed").await;
    assert_eq!(client.tool_names().await, ["echo"]);
    let reply = client.call("add", json!({})).await;
    reply.failed(1002, json!(false));
    assert_eq!(reply.error()["data"]["server"], "b");
    assert_eq!(gateway.get("/tools/add").await.json()["status"], "unavailable");
    // Between two attempts, that is.
    eventually("`b` is unavailable", async || gateway.state_of("b").await == "unavailable").await;
    b.start();
    stream.notification("notifications/tools/list_changed").await;
    assert_eq!(client.tool_names().await, ["add", "echo"]);
    assert_eq!(gateway.get("/tools/add").await.json()["status"], "available");
}

// N20
#[tokio::test]
async fn a_target_that_changes_its_tools_changes_the_list() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        let a = target("a").tool("old", []).era(era);
        let gateway = gateway().target(&a).start().await;
        let client = gateway.client().await;
        let mut stream = client.stream().await;
        eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
        a.set_tools(["new", "newer"]);
        a.notify_list_changed();
        stream.notification("notifications/tools/list_changed").await;
        assert_eq!(client.tool_names().await, ["new", "newer"], "{era:?}");
        client.call("old", json!({})).await.is_not_found("old");
    }
}

// R-004-13, N21
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_rapid_connects_and_disconnects_leave_every_list_whole() {
    let steady = target("steady").tool("s1", []).tool("s2", []);
    let flapping = target("flapping").tool("f1", []).tool("f2", []).tool("f3", []);
    let mut gateway = gateway().target(&steady).start().await;
    let client = gateway.client().await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (client, done) = (client.clone(), done.clone());
        async move {
            let mut lists = 0;
            while !done.load(Ordering::Relaxed) {
                let names = client.tool_names().await;
                assert!(names == ["s1", "s2"] || names == ["f1", "f2", "f3", "s1", "s2"], "{names:?}");
                lists += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            lists
        }
    });
    let mut generation = 0;
    for round in 0..100_u64 {
        let there = round % 2 == 0;
        gateway.reconfigure(|config| {
            config.targets.retain(|target| target.name == "steady");
            if there {
                config.targets.push(flapping.spec());
            }
        });
        // Sometimes long enough to connect, sometimes not.
        tokio::time::sleep(Duration::from_millis(round * 7 % 40)).await;
        let now = gateway.get("/status").await.json()["registry"]["generation"].as_u64().unwrap_or(0);
        assert!(now >= generation, "generation {now} after {generation}");
        generation = now;
    }
    gateway.reconfigure(|config| config.targets.push(flapping.spec()));
    gateway.until_listed(&["f1", "f2", "f3", "s1", "s2"]).await;
    done.store(true, Ordering::Relaxed);
    assert!(reader.await.unwrap() > 50);
    assert!(generation > 0, "/status tells the generation");
}

// R-004-3, L8
#[tokio::test]
async fn a_list_is_answered_at_once_while_a_target_hangs() {
    let (a, stuck) = (target("a").tool("echo", []), target("stuck").tool("slow", []));
    let gateway = gateway().target(&a).target(&stuck).start().await;
    stuck.misbehave("*", Some(Hostile::Hang));
    let client = gateway.client().await;
    let _pending = client.start_call("slow", json!({}));
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        client.tool_names().await;
        times.push(start.elapsed());
    }
    times.sort();
    assert!(times[times.len() / 2] < Duration::from_millis(50), "{times:?}");
}

// K8, R-004-3
#[tokio::test]
async fn a_target_that_never_answers_the_handshake_holds_nobody_up() {
    let (a, stuck) = (target("a").tool("echo", []), target("stuck").tool("slow", []).hostile("*", Hostile::Hang));
    let start = Instant::now();
    let gateway = gateway().target(&a).target(&stuck).start().await;
    assert!(start.elapsed() < Duration::from_secs(8), "the first generation took {:?}", start.elapsed());
    let client = gateway.client().await;
    let mut times = Vec::new();
    for _ in 0..10 {
        let start = Instant::now();
        assert_eq!(client.tool_names().await, ["echo"]);
        times.push(start.elapsed());
    }
    times.sort();
    assert!(times[times.len() / 2] < Duration::from_millis(50), "{times:?}");
    assert_eq!(gateway.state_of("stuck").await, "connecting");
    assert_eq!(gateway.get("/ready").await.status, 503);
}

// N23, R-004-5, R-004-6, R-004-7
#[tokio::test]
async fn filters_narrow_the_list_and_an_empty_one_does_not() {
    let (a, b) = (target("a").tool("get_x", []).tool("put_x", []), target("b").tool("get_y", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    let all = ["get_x", "get_y", "put_x"];
    for (query, meta, expected) in [
        ("?prefix=get_", json!({"prefix": "get_"}), &["get_x", "get_y"][..]),
        ("?server=a", json!({"server": "a"}), &["get_x", "put_x"]),
        ("?server=a&prefix=get_", json!({"server": "a", "prefix": "get_"}), &["get_x"]),
        ("?server=&prefix=", json!({"server": "", "prefix": ""}), &all),
        ("", json!({}), &all),
        ("?server=nobody", json!({"server": "nobody"}), &[]),
    ] {
        let client = gateway.connect_at(&format!("/mcp{query}"), client::LEGACY).open().await;
        assert_eq!(client.tool_names().await, expected, "{query}");
        let client = gateway.client().await;
        let reply = client.request("tools/list", json!({"_meta": {"dev.transom/filter": meta}})).await;
        let mut names: Vec<&str> = reply.result()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{meta}");
        let rest = gateway.get(&format!("/tools{query}")).await.json();
        assert_eq!(rest.as_array().unwrap().len(), expected.len(), "{query}");
    }
    // The URL form narrows calls too.
    let client = gateway.connect_at("/mcp?server=a", client::LEGACY).open().await;
    client.call("get_y", json!({})).await.is_not_found("get_y");
    assert!(b.calls().is_empty());
    assert_eq!(client.call("get_x", json!({})).await.structured()["server"], "a");
}

// surfaces.md 1
#[tokio::test]
async fn the_endpoint_of_one_target_knows_that_target_alone() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    for revision in [client::LEGACY, client::MODERN] {
        let client = gateway.connect_at("/mcp/a", revision).open().await;
        assert_eq!(client.tool_names().await, ["echo"]);
        client.call("add", json!({})).await.is_not_found("add");
        assert_eq!(client.call("echo", json!({})).await.structured()["server"], "a");
    }
    assert!(b.calls().is_empty());
    let unknown = gateway.post("/mcp/nobody", &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert_eq!(unknown.status, 404);
}

// protocol.md, towards targets
#[tokio::test]
async fn a_target_is_not_asked_for_what_it_does_not_offer() {
    let a = target("a").tool("echo", []);
    let _gateway = gateway().target(&a).start().await;
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        assert!(a.requests_of(method).is_empty(), "{method}");
    }
}

// R-000-8 in the large: the schema of a tool that changed is the new one.
#[tokio::test]
async fn a_changed_definition_is_listed_as_changed() {
    let a = target("a").tool("echo", ["q"]);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    assert_eq!(client.list_tools().await[0]["inputSchema"], schema(["q"]));
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["echo"]);
    a.notify_list_changed();
    eventually("the new schema is listed", || async { client.list_tools().await[0]["inputSchema"] == schema([]) }).await;
}
