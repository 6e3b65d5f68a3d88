//! The registry changes while clients are connected: nothing is dropped, nothing is mixed, nobody restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;
use transom_gateway::config::{RegistryLocation, RegistrySource};
use transom_gateway::store::{Fetched, Origin, RegistryStore};
use transom_tests::client::{LEGACY, MODERN, connect};
use transom_tests::target::echo;
use transom_tests::*;

fn renamed(name: &str) -> Value {
    json!({"tools": [{"name": name, "source": {"target": "a", "tool": "echo"}}]})
}

async fn until_first_is(client: &Client, name: &str) -> Duration {
    let began = Instant::now();
    loop {
        if client.tool_names().await.first().is_some_and(|first| first == name) {
            return began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "`{name}` is not listed after twenty seconds");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

// R-003-3, R-005-4, R-003-31, R-003-55, R-003-63, L5, L10, L12, F9
#[tokio::test]
async fn an_edit_is_told_once_within_a_second_a_broken_one_changes_nothing_and_a_repair_is_applied() {
    let a = target("a").tool("echo", ["q"]);
    let gateway = gateway().target(&a).registry(&renamed("first")).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["first"]);
    let mut stream = client.stream().await;

    let began = Instant::now();
    gateway.publish(&renamed("second"));
    stream.notification("notifications/tools/list_changed").await;
    assert!(began.elapsed() < Duration::from_secs(1), "told after {:?}", began.elapsed());
    assert_eq!(client.tool_names().await, ["second"]);
    client.call("first", json!({})).await.is_not_found("first");
    assert!(stream.drain(Duration::from_millis(1500)).await.is_empty(), "told once");

    gateway.publish_text("{\"tools\": [\n  {\"name\": \"third\", \"source\": }\n]}");
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(client.tool_names().await, ["second"]);
    let status = gateway.get("/status").await.json();
    let said = status["registry"]["lastError"].as_str().unwrap_or_default();
    assert!(said.contains("registry.json:2:"), "{status}");
    assert_eq!(status["registry"]["stale"], true);
    assert_eq!(gateway.get("/ready").await.status, 200, "readiness stays up");

    gateway.publish(&renamed("third"));
    stream.notification("notifications/tools/list_changed").await;
    assert_eq!(client.tool_names().await, ["third"]);
    let status = gateway.get("/status").await.json();
    assert_eq!((&status["registry"]["lastError"], &status["registry"]["stale"]), (&Value::Null, &json!(false)));
    assert!(stream.drain(Duration::from_millis(300)).await.is_empty());
}

// O10, N2: a call keeps the generation it began with
#[tokio::test]
async fn a_running_call_is_shaped_by_the_generation_it_began_with() {
    let slow = target("a").tool("echo", ["q"]).handler("echo", |_, _| async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        Ok(json!({"structuredContent": {"one": 1, "two": 2}, "content": []}))
    });
    let shaped = |field: &str| {
        let output = json!({"type": "object", "properties": {field: {"type": "number", "sourceField": format!("$.{field}")}}, "required": [field]});
        json!({"tools": [{"name": "t", "source": {"target": "a", "tool": "echo"}, "outputSchema": output}]})
    };
    let (first, second) = (shaped("one"), shaped("two"));
    let gateway = gateway().target(&slow).registry(&first).start().await;
    let client = gateway.client().await;
    let mut running = client.start_call("t", json!({}));
    tokio::time::sleep(Duration::from_millis(100)).await;
    gateway.publish(&second);
    let reply = running.reply_within(Duration::from_secs(5)).await.unwrap();
    assert_eq!(reply.structured(), &json!({"one": 1}));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(client.call("t", json!({})).await.structured(), &json!({"two": 2}));
}

// F2, registry.md 2
#[tokio::test]
async fn an_empty_registry_does_not_replace_one_that_is_not() {
    let a = target("a").tool("echo", ["q"]);
    let gateway = gateway().target(&a).registry(&renamed("first")).start().await;
    let client = gateway.client().await;
    for empty in ["", "{}", "{\"tools\":[]}"] {
        gateway.publish_text(empty);
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(client.tool_names().await, ["first"], "{empty:?}");
    }
    gateway.publish(&renamed("second"));
    until_first_is(&client, "second").await;
}

/// Publishes a registry past file and watcher.
async fn swap(store: &Arc<RegistryStore>, text: &str) {
    let (store, document) = (store.clone(), Fetched { name: "registry.json".into(), text: text.into() });
    tokio::task::spawn_blocking(move || store.update(vec![document], Origin::Source)).await.unwrap().expect("a good registry");
}

/// How many calls the long test makes; `CALLS=1000000` for the whole of it.
fn calls_wanted() -> usize {
    std::env::var("CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// The most calls there may be for every swap. On two cores that all of it shares with a compiler, a build without optimisation makes one for 16.
const CALLS_A_SWAP: usize = 100;

/// Whether the target tells progress of the call with this nonce, `client-call`: of every fourth.
fn is_told(nonce: &str) -> bool {
    nonce.rsplit('-').next().and_then(|call| call.parse::<usize>().ok()).is_some_and(|call| call % 4 == 0)
}

// F8, T2, H1, L11, R-003-28, R-003-52: renamed field, injected value and projection all belong to one version. 200 clients with the same ids and the
// same progress tokens, four servers and four children behind them. Progress comes to the call it is of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reply_is_explained_by_exactly_one_version() {
    const CLIENTS: usize = 200;
    const TARGETS: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let journal = |number: usize| folder.path().join(format!("t{number}"));
    let definition = json!({"name": "echo", "description": "", "inputSchema": {"type": "object", "properties": {
        "nonce": {"type": "string"}, "stamp": {"type": "string"}, "A": {"type": "string"}, "B": {"type": "string"}}}});
    let server = |number: usize| {
        let name = format!("t{number}");
        target(&name).tool_def(definition.clone()).handler("echo", move |arguments, context| {
            let name = name.clone();
            async move {
                if arguments["nonce"].as_str().is_some_and(is_told) {
                    let progress = json!({"progressToken": context.meta["progressToken"], "progress": 1, "message": arguments["nonce"]});
                    context.notify("notifications/progress", progress);
                }
                Ok(echo(&name, &context.tool, &arguments))
            }
        })
    };
    let servers: Vec<Target> = (0..TARGETS / 2).map(server).collect();
    // Both letters are there in every version; which one is shown, the projection says.
    let version = |letter: &str| {
        let probe = |number: usize| {
            json!({"name": format!("probe{number}"), "description": letter, "source": {"target": format!("t{number}"), "tool": "echo"},
                "defaults": {"stamp": letter, "A": "A", "B": "B"}, "hideFields": ["stamp", "A", "B"],
                "outputSchema": {"type": "object", "properties": {
                    "nonce": {"type": "string", "sourceField": "$.arguments.nonce"},
                    "stamp": {"type": "string", "sourceField": "$.arguments.stamp"},
                    "letter": {"type": "string", "sourceField": format!("$.arguments.{letter}")}}, "required": ["nonce", "stamp", "letter"]}})
        };
        let steps = |number: usize| json!({"name": format!("steps{number}"), "source": {"target": format!("t{number}"), "tool": "progress"}});
        json!({"tools": (0..TARGETS).map(probe).chain((TARGETS / 2..TARGETS).map(steps)).collect::<Vec<_>>()})
    };
    let mut builder = gateway().registry(&version("A"));
    for number in 0..TARGETS {
        builder = match servers.get(number) {
            Some(server) => builder.target(server),
            None => {
                let behaviour = json!({"tools": [definition, "progress"], "journal": journal(number), "lifeSeconds": 3600});
                builder.stdio(&format!("t{number}"), behaviour)
            }
        };
    }
    let gateway = builder.start().await;
    for number in 0..TARGETS {
        gateway.until(&format!("t{number}"), "connected").await;
    }
    let store = gateway.handle.store().clone();
    let over = Arc::new(AtomicBool::new(false));
    let swaps = Arc::new(AtomicUsize::new(0));
    let swapper = {
        let (over, swaps, texts) = (over.clone(), swaps.clone(), [version("B").to_string(), version("A").to_string()]);
        tokio::spawn(async move {
            // As often as this where there is time for it: a swap that comes late is not made up for by two at once.
            let mut due = tokio::time::interval(Duration::from_millis(10));
            due.set_missed_tick_behavior(MissedTickBehavior::Skip);
            while !over.load(Relaxed) {
                due.tick().await;
                let text = &texts[swaps.fetch_add(1, Relaxed) % 2];
                swap(&store, text).await;
            }
        })
    };
    let each = calls_wanted() / CLIENTS;
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|number| {
        let url = gateway.url("/mcp");
        tokio::spawn(async move {
            let client = connect(url, if number % 2 == 0 { LEGACY } else { MODERN }).open().await;
            let (mut counts, mut stepped, mut progress) = ([0usize; 2], 0, 0);
            for call in 0..each {
                let nonce = format!("{number}-{call}");
                let place = (number + call) % TARGETS;
                let params = json!({"name": format!("probe{place}"), "arguments": {"nonce": nonce}, "_meta": {"progressToken": "same"}});
                // Every client counts from zero.
                let reply = client.exchange(client.message_with_id(json!(call), "tools/call", params), None).await;
                assert_eq!(reply.message["id"], json!(call), "{}", reply.raw);
                let shaped = reply.structured();
                assert_eq!(shaped["nonce"], nonce.as_str(), "{}", reply.raw);
                assert_eq!(shaped["stamp"], shaped["letter"], "mixed: {}", reply.raw);
                assert_eq!(shaped.as_object().map(|object| object.len()), Some(3), "{}", reply.raw);
                counts[usize::from(shaped["stamp"] == "B")] += 1;
                let is_child = place >= TARGETS / 2;
                let told = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                let mut own = Vec::new();
                if is_told(&nonce) && !is_child {
                    own.push(told(json!({"progressToken": "same", "progress": 1, "message": nonce})));
                }
                assert_eq!(reply.notifications, own, "the progress of {nonce} and no other");
                progress += own.len();
                if !is_child || !is_told(&nonce) {
                    continue;
                }
                // A child tells progress without a message, so many steps as it is asked for: one of another call would be a step too many.
                let steps = 1 + (number + call / 4) % 5;
                let arguments = json!({"nonce": format!("{nonce}-steps"), "n": steps});
                let params = json!({"name": format!("steps{place}"), "arguments": arguments, "_meta": {"progressToken": "same"}});
                let id = json!(each + call);
                let reply = client.exchange(client.message_with_id(id.clone(), "tools/call", params), None).await;
                assert_eq!((&reply.message["id"], reply.text()), (&id, "done".into()), "{}", reply.raw);
                let own: Vec<Value> = (0..steps).map(|step| told(json!({"progressToken": "same", "progress": step}))).collect();
                assert_eq!(reply.notifications, own, "the {steps} steps of {nonce} and no other");
                stepped += 1;
                progress += steps;
            }
            (counts, stepped, progress)
        })
    });
    let (mut seen, mut stepped, mut progress) = ([0usize; 2], 0, 0);
    for client in clients.collect::<Vec<_>>() {
        let (counts, more_stepped, more_progress) = client.await.expect("no client fails");
        seen[0] += counts[0];
        seen[1] += counts[1];
        stepped += more_stepped;
        progress += more_progress;
    }
    over.store(true, Relaxed);
    swapper.await.unwrap();
    let took = began.elapsed();
    assert_eq!(seen[0] + seen[1], each * CLIENTS, "none lost");
    let (sent, ok) = (each * CLIENTS + stepped, seen[0] + seen[1] + stepped);
    let at_servers =
        servers.iter().flat_map(|server| server.calls()).map(|(_, arguments)| arguments["nonce"].as_str().unwrap_or_default().to_owned());
    let at_children = (TARGETS / 2..TARGETS).flat_map(|number| stdio::journal(&journal(number), "call"));
    let at_children = at_children.map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned());
    let mut executed: Vec<String> = at_servers.chain(at_children).collect();
    assert_eq!(executed.len(), sent, "none executed twice, none not at all");
    executed.sort();
    executed.dedup();
    assert_eq!(executed.len(), sent, "each once");
    assert!(seen[0] > 0 && seen[1] > 0, "both versions were seen: {seen:?}");
    let swaps = swaps.load(Relaxed);
    assert!(swaps >= sent / CALLS_A_SWAP, "{swaps} swaps under {sent} calls are too few to show anything");
    let apart = took.as_secs_f64() * 1e3 / swaps as f64;
    let counted = json!({"sent": sent, "ok": ok, "mixed": 0, "lost": 0, "doubled": 0, "progress": progress, "byVersion": seen,
        "swaps": swaps, "millisecondsApart": (apart * 10.0).round() / 10.0});
    evidence::say(&counted);
}

// R-003-27, R-003-30, R-003-32, R-005-9, F2, F4, F5, F10, L6, L7: over HTTP, with the real binary
#[tokio::test]
async fn a_registry_server_in_trouble_costs_nothing_and_a_restart_serves_what_was_good() {
    let a = target("a").tool("echo", ["q"]);
    let published = publisher(renamed("first").to_string()).await;
    let elsewhere = publisher(renamed("evil").to_string()).await;
    let state = tempfile::tempdir().unwrap();
    let start = || {
        process().target(&a).config(|config| {
            config["registry"] = json!({"source": published.url(), "refreshInterval": "200ms", "auth": {"bearer": "${TOKEN}"}, "env": {"allow": []}});
            config["stateDir"] = json!(state.path());
        })
    };
    let running = start().env("TOKEN", "t-123").start_ready().await;
    let client = running.client().await;
    assert_eq!(client.tool_names().await, ["first"]);
    assert!(published.requests()[0].contains("authorization: bearer t-123"), "{:?}", published.requests());
    eventually("the server is asked with the tag it gave", || async {
        published.requests().iter().any(|head| head.contains("if-none-match: \"v1\""))
    })
    .await;
    published.publish(renamed("second").to_string());
    until_first_is(&client, "second").await;
    // R-003-59
    eventually("both loads are in the log", || async { running.log(&["registry refreshed successfully"]).len() == 2 }).await;

    for mood in [Mood::Status(500), Mood::Truncated, Mood::Redirect(elsewhere.url()), Mood::Slowly] {
        let asked = published.requests().len();
        published.mood(mood.clone());
        published.publish(renamed("third").to_string());
        eventually("the server was asked again", || async { published.requests().len() > asked }).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(client.tool_names().await, ["second"], "{mood:?}");
        assert_eq!(client.call("second", json!({"q": 1})).await.structured()["tool"], "echo", "{mood:?}");
    }
    assert!(elsewhere.requests().is_empty(), "a redirect is not followed");
    let status = running.get("/status").await.json();
    assert!(status["registry"]["lastError"].is_string() && status["registry"]["stale"] == true, "{status}");
    running.signal(libc::SIGKILL);
    drop(running);
    published.mood(Mood::Status(500));

    let restarted = start().env("TOKEN", "t-123").start_ready().await;
    let client = restarted.client().await;
    assert_eq!(client.tool_names().await, ["second"], "from the cache");
    let status = restarted.get("/status").await.json();
    assert_eq!((&status["registry"]["origin"], &status["registry"]["stale"]), (&json!("cache"), &json!(true)), "{status}");
    published.mood(Mood::Well);
    until_first_is(&client, "third").await;
    assert_eq!(restarted.get("/status").await.json()["registry"]["stale"], false);
}

// F10, R-003-32: nothing to fall back on
#[tokio::test]
async fn without_a_registry_and_without_a_copy_the_start_fails_with_one_clear_line() {
    let a = target("a").tool("echo", ["q"]);
    let published = publisher("{}").await;
    published.mood(Mood::Status(503));
    let mut refused = process().target(&a).config(|config| config["registry"] = json!({"source": published.url()})).spawn();
    assert_eq!(refused.wait().await.code(), Some(1));
    let said = refused.stderr();
    assert!(said.contains("503") && said.contains(&published.url()), "{said}");
    let waiting = process()
        .target(&a)
        .config(|config| config["registry"] = json!({"source": published.url(), "onStart": "retry", "refreshInterval": "200ms"}))
        .start()
        .await;
    assert_eq!(waiting.get("/ready").await.status, 503);
    assert!(waiting.client().await.tool_names().await.is_empty(), "raw tools are never shown instead");
    published.mood(Mood::Well);
    published.publish(renamed("late").to_string());
    eventually("it is ready", || async { waiting.get("/ready").await.status == 200 }).await;
    assert_eq!(waiting.client().await.tool_names().await, ["late"]);
}

// operations.md 3 and surfaces.md 10, I2: reload and rollback need POST, JSON and the token
#[tokio::test]
async fn an_operator_can_reload_and_go_back_until_the_source_changes() {
    let a = target("a").tool("echo", ["q"]);
    let gateway = gateway()
        .target(&a)
        .registry(&renamed("first"))
        .config(|config| config.admin_token = Some(transom_upstream::Secret::new("operators-only-token")))
        .start()
        .await;
    let client = gateway.client().await;
    gateway.publish(&renamed("second"));
    until_first_is(&client, "second").await;
    let admin = |path: &str| format!("http://{}{path}", gateway.admin_addr());
    let versions = gateway.http.get(&admin("/api/generations")).await.json();
    assert_eq!(versions["versions"][1]["added"], json!(["second"]), "{versions}");
    assert_eq!(versions["versions"][1]["removed"], json!(["first"]), "{versions}");
    let first = versions["versions"][0]["version"].as_u64().unwrap();
    let body = json!({"version": first}).to_string();
    let json_type = ("content-type", "application/json");
    let token = ("authorization", "Bearer operators-only-token");
    for (headers, status) in [
        (vec![json_type], 401),
        (vec![json_type, ("authorization", "Bearer wrong")], 401),
        (vec![("content-type", "text/plain"), token], 415),
        (vec![json_type, token, ("origin", "http://localhost")], 403),
    ] {
        assert_eq!(gateway.http.send("POST", &admin("/api/rollback"), &headers, body.clone()).await.status, status, "{headers:?}");
    }
    assert_eq!(gateway.http.send("GET", &admin("/api/rollback"), &[token], "").await.status, 405);
    assert_eq!(client.tool_names().await, ["second"]);
    let back = gateway.http.send("POST", &admin("/api/rollback"), &[json_type, token], body).await;
    assert_eq!(back.json()["result"], "adopted", "{}", back.text());
    until_first_is(&client, "first").await;
    assert_eq!(gateway.get("/status").await.json()["registry"]["origin"], "rollback");
    let unknown = gateway.http.send("POST", &admin("/api/rollback"), &[json_type, token], "{\"version\":99}").await;
    assert_eq!(unknown.status, 409, "{}", unknown.text());
    gateway.publish(&renamed("third"));
    until_first_is(&client, "third").await;
    let same = gateway.http.send("POST", &admin("/api/reload"), &[json_type, token], "{}").await;
    assert_eq!((same.status, same.json()["result"].as_str()), (200, Some("unchanged")), "{}", same.text());
}

// The old registry does not know the new targets: what it says about them is nobody's intention.
#[tokio::test]
async fn new_targets_wait_for_the_registry_that_belongs_to_them() {
    let (a, b) = (target("a").tool("echo", ["q"]), target("b").tool("raw", ["q"]));
    let mut gateway = gateway().target(&a).registry(&renamed("first")).start().await;
    let client = gateway.client().await;
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("other.json");
    gateway.reconfigure(|config| {
        config.targets.push(b.spec());
        if let Some(registry) = &mut config.registry {
            registry.sources = vec![RegistrySource { name: "other.json".into(), location: RegistryLocation::File(elsewhere.clone()) }];
        }
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(client.tool_names().await, ["first"], "the old registry and the old targets stay");
    client.call("raw", json!({})).await.is_not_found("raw");
    std::fs::write(&elsewhere, json!({"tools": [{"name": "second", "source": {"target": "b", "tool": "raw"}}]}).to_string()).unwrap();
    gateway.until_listed(&["echo", "second"]).await;
    assert!(b.calls().is_empty());
}
