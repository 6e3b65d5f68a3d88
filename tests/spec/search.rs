//! Tools by what they are about: `/search`, and `discovery: search` for catalogs that are too large for a list.

use std::time::{Duration, Instant};
use transom_gateway::config::{ApiKey, Authentication, Effect, OnStart, Per, RateLimit, RegistryConfig, RegistryLocation, RegistrySource, Rule};
use transom_gateway::{Config, Discovery, DiscoveryMode};
use transom_protocol::json::Json;
use transom_tests::client::{LEGACY, MODERN};
use transom_tests::http::PATIENCE;
use transom_tests::*;
use transom_views::Tool;
use transom_views::search::{Index, Query};

const OWN: [&str; 3] = ["catalog_search", "describe_tool", "invoke_tool"];
const CHANGED: &str = "notifications/tools/list_changed";
const QUIET: Duration = Duration::from_millis(1500);

fn search_with(pinned: &[&str]) -> Discovery {
    Discovery { mode: DiscoveryMode::Search, pinned: pinned.iter().map(|name| (*name).to_owned()).collect(), ..Discovery::default() }
}

fn searching(config: &mut Config) {
    config.discovery = search_with(&[]);
}

/// A tool with this name and description.
fn about(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}}})
}

fn code() -> Target {
    target("code")
        .tool_def(about("read_file", "Read the content of a file"))
        .tool_def(about("create_repository", "Create a repository"))
        .tool_def(about("list_issues", "All issues of a repository"))
}

fn github() -> Target {
    target("github").tool_def(about("create_gist", "Share a snippet")).tool_def(json!({"name": "star", "inputSchema": {"type": "object"}}))
}

fn found(results: &Value) -> Vec<&str> {
    results.as_array().unwrap_or_else(|| panic!("{results}")).iter().map(|result| result["name"].as_str().unwrap()).collect()
}

/// What `catalog_search` finds, by name.
fn names(reply: &Reply) -> Vec<String> {
    reply.structured()["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", reply.raw))
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().into())
        .collect()
}

async fn invoke(client: &Client, name: &str, arguments: Value) -> Reply {
    client.call("invoke_tool", json!({"name": name, "arguments": arguments})).await
}

async fn listed(client: &Client) -> Vec<String> {
    client.list_tools().await.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
}

// GET /search

// G15
#[tokio::test]
async fn a_tool_is_found_by_its_name_a_part_a_typo_its_target_and_what_it_is_about() {
    let gateway = gateway().target(&code()).target(&github()).start().await;
    for (query, expected) in [
        ("read_file", "read_file"),
        ("read_fil", "read_file"),
        ("content", "read_file"),
        ("github+snippet", "create_gist"),
        ("issues%20repository", "list_issues"),
        ("creat+repositry", "create_repository"),
    ] {
        let results = gateway.get(&format!("/search?q={query}")).await.json();
        assert_eq!(found(&results).first(), Some(&expected), "{query}: {results}");
    }
    assert!(!found(&gateway.get("/search?q=git").await.json()).is_empty());
    assert_eq!(gateway.get("/search?q=zebra").await.json(), json!([]));

    let results = gateway.get("/search?q=read+file").await;
    assert_eq!(results.status, 200);
    let first = &results.json()[0];
    let mut members: Vec<&String> = first.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["description", "matched", "name", "score", "server"]);
    assert_eq!((&first["server"], &first["description"]), (&json!("code"), &json!("Read the content of a file")));
    assert_eq!(first["matched"], json!(["name", "description"]));
    let score = first["score"].as_f64().unwrap();
    assert!(score > 0.5 && score < 1.0, "{score}");
}

// G17, G18
#[tokio::test]
async fn a_search_takes_a_limit_a_threshold_and_a_server_and_refuses_what_makes_no_sense() {
    let gateway = gateway().target(&code()).target(&github()).start().await;
    for bad in [
        "/search",
        "/search?q=",
        "/search?q=%20",
        "/search?q=a&limit=x",
        "/search?q=a&limit=-1",
        "/search?q=a&threshold=2",
        "/search?q=a&threshold=NaN",
    ] {
        let reply = gateway.get(bad).await;
        assert_eq!(reply.status, 400, "{bad}: {}", reply.text());
        assert!(reply.json()["error"]["message"].is_string(), "{}", reply.text());
    }
    assert_eq!(gateway.post("/search?q=a", &json!({})).await.status, 405);
    let search = async |query: &str| gateway.get(&format!("/search?q=create+repository{query}")).await.json();
    let all = search("").await;
    assert!(found(&all).len() >= 3, "{all}");
    assert_eq!(found(&search("&limit=1").await), ["create_repository"]);
    assert_eq!(search("&limit=0").await, json!([]));
    assert_eq!(search("&limit=").await, all);
    assert_eq!(search("&threshold=1.0").await, json!([]));
    assert_eq!(search(&format!("&threshold={}", all[0]["score"])).await.as_array().unwrap().len(), 1);
    assert_eq!(found(&search("&server=github").await), ["create_gist"]);
    assert_eq!(search("&server=nobody").await, json!([]));
}

// G17
#[tokio::test]
async fn a_search_before_it_is_known_which_tools_there_are_is_told_to_come_back() {
    let nowhere = std::env::temp_dir().join(unique("no-registry"));
    let gateway = gateway()
        .target(&code())
        .config(|config| {
            let source = RegistrySource { name: "registry.json".into(), location: RegistryLocation::File(nowhere) };
            config.registry =
                Some(RegistryConfig { sources: vec![source], refresh: Duration::from_secs(30), on_start: OnStart::Retry, allow_empty: false });
        })
        .start()
        .await;
    let reply = gateway.get("/search?q=file").await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.header("retry-after").parse::<u64>().is_ok());
    assert_eq!(reply.json()["error"]["code"], "not_ready");
    assert_eq!(gateway.get("/search").await.status, 400, "a bad question is bad at any time");
}

// G16
#[tokio::test]
async fn what_is_found_follows_what_is_offered() {
    let a = target("a").tool("first_thing", []);
    let gateway = gateway().target(&a).start().await;
    let search = async || found(&gateway.get("/search?q=thing").await.json()).join(" ");
    assert_eq!(search().await, "first_thing");
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;
    a.set_tools(["first_thing", "second_thing"]);
    a.notify_list_changed();
    eventually("both are found", || async { search().await == "first_thing second_thing" }).await;
    a.set_tools(["second_thing"]);
    a.notify_list_changed();
    eventually("only the second is found", || async { search().await == "second_thing" }).await;
    a.stop();
    eventually("nothing is found of a target that is down", || async { search().await.is_empty() }).await;
}

// How good, how fast

fn catalog() -> Vec<Value> {
    serde_json::from_str(include_str!("search/tools.json")).expect("a list of tools")
}

fn queries() -> Vec<(String, String)> {
    let queries: Vec<Value> = serde_json::from_str(include_str!("search/queries.json")).expect("a list of queries");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    queries.iter().map(|query| (text(&query["query"]), text(&query["expected"]))).collect()
}

// 300 tools, 60 queries, some with typos: nine in ten among the first three.
#[tokio::test]
async fn nine_of_ten_queries_find_their_tool_among_the_first_three() {
    let tools = catalog();
    let queries = queries();
    assert_eq!((tools.len(), queries.len()), (300, 60));
    let mut servers: Vec<Target> = Vec::new();
    for tool in &tools {
        let name = tool["server"].as_str().unwrap();
        if servers.last().is_none_or(|server| server.name() != name) {
            servers.push(target(name));
        }
        let mut definition = tool.clone();
        definition.as_object_mut().unwrap().remove("server");
        let server = servers.pop().unwrap().tool_def(definition);
        servers.push(server);
    }
    let gateway = servers.iter().fold(gateway(), |gateway, server| gateway.target(server)).start().await;
    let (mut first, mut among_three, mut missed) = (0, 0, Vec::new());
    for (query, expected) in &queries {
        let results = gateway.get(&format!("/search?limit=3&q={}", query.replace(' ', "+"))).await.json();
        let names = found(&results);
        first += usize::from(names.first() == Some(&expected.as_str()));
        if names.contains(&expected.as_str()) {
            among_three += 1;
        } else {
            missed.push(format!("{query}: {expected} is not in {names:?}"));
        }
    }
    println!("{among_three} of {} among the first three, {first} first; missed: {missed:#?}", queries.len());
    assert!(among_three * 10 >= queries.len() * 9, "{among_three} of {}: {missed:#?}", queries.len());
}

/// `count` tools made of those of the catalog, each with words of its own.
fn many(count: usize) -> Vec<(String, String, String)> {
    let catalog = catalog();
    let tool = |number: usize| {
        let tool = &catalog[number % catalog.len()];
        let name = format!("{}_{}", tool["name"].as_str().unwrap(), number / catalog.len());
        let mut definition = tool.clone();
        definition["name"] = json!(name);
        definition["description"] = json!(format!("{} Variant w{number:x}.", tool["description"].as_str().unwrap()));
        (name, tool["server"].as_str().unwrap().to_owned(), definition.to_string())
    };
    (0..count).map(tool).collect()
}

fn index(tools: &[(String, String, String)]) -> Index {
    Index::build(tools.iter().map(|(name, server, definition)| Tool {
        name,
        server: Some(server),
        qualified: None,
        own_name: name,
        is_virtual: false,
        definition: Json::trusted(definition),
    }))
}

/// The time that half of the queries take at most, in microseconds.
fn median(index: &Index, sees: impl Fn(usize) -> bool + Copy) -> u128 {
    let mut times: Vec<u128> = queries()
        .iter()
        .map(|(query, _)| {
            let start = Instant::now();
            let hits = index.search(&Query { text: query, limit: 10, threshold: 0.0 }, sees);
            let took = start.elapsed().as_micros();
            assert!(hits.iter().all(|hit| sees(hit.tool)), "{query}");
            took
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

// The bounds hold for a debug build, with room for a machine that has other things to do.
#[test]
fn a_query_takes_little_time_even_among_ten_thousand_tools() {
    for (count, bound) in [(300, 2_000), (10_000, 40_000)] {
        let tools = many(count);
        let start = Instant::now();
        let index = index(&tools);
        let built = start.elapsed();
        assert_eq!(index.len(), count);
        let (all, half) = (median(&index, |_| true), median(&index, |tool| tool % 2 == 0));
        println!("{count} tools: built in {built:?}, half of the queries within {all} µs, {half} µs for somebody who sees half of the tools");
        assert!(all < bound && half < bound, "{count} tools: {all} µs, {half} µs");
    }
}

// Who finds what

fn somebody(id: &str, team: &str) -> ApiKey {
    let mut key = api_key(id, &format!("secret-{id}"));
    key.claims = json!({"team": team}).as_object().cloned().unwrap_or_default();
    key
}

fn rule(effect: Effect, expression: &str) -> Rule {
    Rule { effect, expression: expression.into() }
}

/// Somebody of the red team, who sees what is tagged so by its name, and the boss, who sees everything.
fn teams(config: &mut Config) {
    config.authentication = Some(Authentication { api_keys: vec![somebody("red", "red"), somebody("boss", "boss")], ..Authentication::default() });
    config.authorization = Some(vec![rule(Effect::Allow, "mcp.tool.name.startsWith(jwt.team)"), rule(Effect::Allow, "jwt.team == 'boss'")]);
}

async fn client_as(gateway: &Gateway, revision: &str, id: &str) -> Client {
    gateway.connect(revision).header("x-api-key", &format!("secret-{id}")).open().await
}

async fn get_as(gateway: &Gateway, id: &str, path: &str) -> Value {
    gateway.send("GET", path, &[("x-api-key", &format!("secret-{id}"))], "").await.json()
}

static RED: [(&str, &str); 3] = [("red_report", "Write a report about sales"), ("red_list", "List every report"), ("red_mail", "Send mail")];
static BLUE: [(&str, &str); 4] = [
    ("blue_report", "Write a report report report about canary mail"),
    ("blue_raport", "raport, the misspelled canary"),
    ("blue_canary", "canary sales list"),
    ("mail", "Send canary mail"),
];

// B6: hidden tools are in no result, count, score, error or definition.
#[tokio::test]
async fn what_somebody_does_not_see_is_not_found_and_moves_no_score() {
    let part = RED.iter().fold(target("a"), |target, (name, text)| target.tool_def(about(name, text)));
    let whole = BLUE.iter().zip(RED.iter().chain([&RED[0]])).enumerate().fold(target("a"), |target, (at, ((name, text), (red, red_text)))| {
        let target = target.tool_def(about(name, text));
        if at < RED.len() { target.tool_def(about(red, red_text)) } else { target }
    });
    let setup = |config: &mut Config| {
        teams(config);
        searching(config);
    };
    let alone = gateway().target(&part).config(setup).start().await;
    let among = gateway().target(&whole).config(setup).start().await;
    assert_eq!(get_as(&among, "boss", "/search?q=canary").await.as_array().unwrap().len(), 4, "the others are there");
    for query in ["report", "raport", "canary", "mail", "blue", "blue_report", "sales+list", "red+report", "write"] {
        let path = format!("/search?limit=100&q={query}");
        let (expected, seen) = (get_as(&alone, "red", &path).await, get_as(&among, "red", &path).await);
        assert_eq!(expected, seen, "{query}");
        assert!(!seen.to_string().contains("canary") && !seen.to_string().contains("blue"), "{seen}");
        for revision in [LEGACY, MODERN] {
            let query = json!({"query": query.replace('+', " "), "limit": 50});
            let expected = client_as(&alone, revision, "red").await.call("catalog_search", query.clone()).await;
            let seen = client_as(&among, revision, "red").await.call("catalog_search", query.clone()).await;
            assert_eq!(expected.result(), seen.result(), "{query}");
        }
    }
    for revision in [LEGACY, MODERN] {
        let red = client_as(&among, revision, "red").await;
        for name in ["blue_report", "a__blue_report", "a:mail", "mail", "nobody"] {
            red.call("describe_tool", json!({"name": name})).await.is_not_found(name);
            invoke(&red, name, json!({})).await.is_not_found(name);
        }
        assert_eq!(red.call("describe_tool", json!({"name": "red_list"})).await.structured()["description"], "List every report");
        assert_eq!(invoke(&red, "a__red_list", json!({"q": "x"})).await.structured()["tool"], "red_list");
    }
    let reply = among.send("GET", "/search?q=report", &[], "").await;
    assert_eq!(reply.status, 401, "{}", reply.text());
    assert!(whole.calls().iter().all(|(name, _)| name == "red_list"), "{:?}", whole.calls());
}

// The short list

// surfaces.md 8
#[tokio::test]
async fn with_discovery_search_a_list_is_short_and_everything_can_still_be_found_described_and_called() {
    let (code, github) = (code(), github().instructions("Be gentle."));
    let gateway = gateway().target(&code).target(&github).config(|config| config.discovery = search_with(&["read_*", "github__star"])).start().await;
    for client in [gateway.client().await, gateway.modern().await, gateway.sse_client().await] {
        let list = client.list_tools().await;
        let names: Vec<&str> = list.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, [&OWN[..], &["read_file"]].concat(), "pinned by a pattern; a spelling is no name");
        for tool in &list {
            assert!(tool["description"].is_string() && tool["inputSchema"]["type"] == "object", "{tool}");
        }
        let found = client.call("catalog_search", json!({"query": "repositories", "limit": 2})).await;
        let tools = found.structured()["tools"].as_array().unwrap().clone();
        assert_eq!(names_of(&tools), ["create_repository", "list_issues"]);
        assert_eq!(tools[0]["description"], "Create a repository");
        assert_eq!(serde_json::from_str::<Value>(&found.text()).unwrap(), *found.structured(), "the same as text");
        let described = client.call("describe_tool", json!({"name": "list_issues"})).await;
        assert_eq!(*described.structured(), about("list_issues", "All issues of a repository"));
        assert_eq!(invoke(&client, "list_issues", json!({"q": "x"})).await.structured()["arguments"], json!({"q": "x"}));
        // By name, without a detour: what is not on the short list is not forbidden.
        assert_eq!(client.call("list_issues", json!({"q": "y"})).await.structured()["arguments"], json!({"q": "y"}));
    }
    // Scripts see all of it, and none of ours.
    assert_eq!(
        names_of(gateway.get("/tools").await.json().as_array().unwrap()),
        ["read_file", "create_repository", "list_issues", "create_gist", "star"]
    );
    assert_eq!(gateway.get("/status").await.json()["tools"]["exposed"], 5);

    // A client is told how it works, before it asks for a list.
    let told = gateway.client().await.initialized().result()["instructions"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("catalog_search") && told.contains("invoke_tool") && told.contains("Be gentle."), "{told}");
    let discovered = gateway.modern().await.request("server/discover", json!({})).await;
    assert!(discovered.result()["instructions"].as_str().is_some_and(|told| told.contains("catalog_search")), "{}", discovered.raw);
}

fn names_of(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test]
async fn without_discovery_the_three_names_are_nobodys() {
    let a = target("a").tool("echo", []).tool("invoke_tool", ["x"]);
    let gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["echo", "invoke_tool"]);
    assert_eq!(client.call("invoke_tool", json!({"name": "echo"})).await.structured()["arguments"], json!({"name": "echo"}), "the target's own");
    client.call("catalog_search", json!({"query": "echo"})).await.is_not_found("catalog_search");
    assert!(client.initialized().result().get("instructions").is_none());
}

// Names of ours are reserved while they are there: a target's gets its prefix, the registry's gives way and is told of.
#[tokio::test]
async fn a_target_or_a_registry_with_a_tool_of_the_same_name_does_not_stand_in_for_ours() {
    let a = target("a").tool("invoke_tool", ["x"]).tool("echo", []);
    let virtual_tool = |name: &str| json!({"name": name, "source": {"target": "a", "tool": "echo"}});
    let registry = json!({"tools": [virtual_tool("describe_tool"), virtual_tool("say")]});
    let mut gateway = gateway().target(&a).registry(&registry).config(searching).start().await;
    let client = gateway.client().await;
    assert_eq!(listed(&client).await, OWN);
    assert_eq!(names_of(gateway.get("/tools").await.json().as_array().unwrap()), ["say", "a__invoke_tool"]);
    assert_eq!(client.call("describe_tool", json!({"name": "say"})).await.structured()["name"], "say", "ours");
    assert_eq!(invoke(&client, "a__invoke_tool", json!({"x": 1})).await.structured()["tool"], "invoke_tool");
    assert_eq!(invoke(&client, "say", json!({})).await.structured()["tool"], "echo");
    // It gets its name back when nobody needs it.
    gateway.reconfigure(|config| config.discovery = Discovery::default());
    gateway.until_listed(&["describe_tool", "invoke_tool", "say"]).await;
    assert_eq!(client.call("describe_tool", json!({})).await.structured()["tool"], "echo");
}

// surfaces.md 1: /mcp/{target}
#[tokio::test]
async fn at_the_endpoint_of_one_target_nothing_of_another_is_found_described_or_called() {
    let (code, github) = (code(), github());
    let gateway = gateway().target(&code).target(&github).config(|config| config.discovery = search_with(&["star", "read_file"])).start().await;
    for (path, revision) in [("/mcp/github", LEGACY), ("/mcp/github", MODERN), ("/mcp?server=github", LEGACY)] {
        let client = gateway.connect_at(path, revision).open().await;
        assert_eq!(listed(&client).await, [&OWN[..], &["star"]].concat(), "{path}");
        assert_eq!(names(&client.call("catalog_search", json!({"query": "create repository gist"})).await), ["create_gist"]);
        client.call("describe_tool", json!({"name": "read_file"})).await.is_not_found("read_file");
        invoke(&client, "read_file", json!({})).await.is_not_found("read_file");
        invoke(&client, "code__read_file", json!({})).await.is_not_found("code__read_file");
        assert_eq!(invoke(&client, "create_gist", json!({})).await.structured()["server"], "github");
    }
    assert!(code.calls().is_empty());
}

#[tokio::test]
async fn with_auto_a_list_is_short_where_it_would_be_long() {
    let a = (0..6).fold(target("a"), |target, number| target.tool(&format!("red_{number}"), []));
    let b = target("b").tool("blue_0", []).tool("blue_1", []);
    let setup = |config: &mut Config| {
        teams(config);
        config.discovery = Discovery { mode: DiscoveryMode::Auto, threshold: 6, pinned: vec!["blue_1".into(), "red_5".into()] };
    };
    let mut gateway = gateway().target(&a).target(&b).config(setup).start().await;
    for revision in [LEGACY, MODERN] {
        // Eight tools are more than six.
        assert_eq!(listed(&client_as(&gateway, revision, "boss").await).await, [&OWN[..], &["red_5", "blue_1"]].concat());
        // Six are not.
        let red = client_as(&gateway, revision, "red").await;
        assert_eq!(listed(&red).await, ["red_0", "red_1", "red_2", "red_3", "red_4", "red_5"]);
        assert_eq!(invoke(&red, "red_0", json!({})).await.structured()["tool"], "red_0", "the way that others go is open to all");
        // Nor at the endpoint of one target.
        let scoped = gateway.connect_at("/mcp/b", revision).header("x-api-key", "secret-boss").open().await;
        assert_eq!(listed(&scoped).await, ["blue_0", "blue_1"]);
    }
    let told = |client: Client| client.initialized().result()["instructions"].is_string();
    assert!(told(client_as(&gateway, LEGACY, "boss").await) && !told(client_as(&gateway, LEGACY, "red").await));
    gateway.reconfigure(|config| config.discovery.threshold = 5);
    let red = client_as(&gateway, LEGACY, "red").await;
    eventually("the list of the red team is short", || async { listed(&red).await == [&OWN[..], &["red_5"]].concat() }).await;
}

// Change events: what is not on the list is not missed there.
#[tokio::test]
async fn a_client_with_a_short_list_is_told_when_that_changes_and_not_otherwise() {
    let a = target("a").tool("hidden", []).tool("pinned", []);
    let mut gateway = gateway().target(&a).config(|config| config.discovery = search_with(&["pinned", "later"])).start().await;
    let (client, modern) = (gateway.client().await, gateway.modern().await);
    let scoped = gateway.connect_at("/mcp/a", LEGACY).open().await;
    let mut streams = vec![client.stream().await, modern.listen(json!({"toolsListChanged": true})).await, scoped.stream().await];
    let mut events = gateway.http.open("GET", &gateway.url("/events"), &[], "").await.unwrap();
    eventually("the target has a stream to tell on", || async { a.streams() > 0 }).await;

    a.replace_tools(vec![json!({"name": "hidden2", "inputSchema": {"type": "object"}}), pinned_definition(&client).await]);
    a.notify_list_changed();
    let event = next_event(&mut events).await;
    assert_eq!((&event["added"], &event["removed"]), (&json!(["hidden2"]), &json!(["hidden"])), "scripts are told: {event}");
    for stream in &mut streams {
        assert!(stream.drain(QUIET).await.iter().all(|message| message["method"] != CHANGED), "nothing changed on this list");
    }

    a.set_tools(["hidden2", "pinned", "later"]);
    a.notify_list_changed();
    for stream in &mut streams {
        stream.notification(CHANGED).await;
    }
    assert_eq!(listed(&client).await, [&OWN[..], &["pinned", "later"]].concat());
    for stream in &mut streams {
        stream.drain(QUIET).await;
    }

    gateway.reconfigure(|config| config.discovery = Discovery::default());
    for stream in &mut streams {
        stream.notification(CHANGED).await;
    }
    assert_eq!(client.tool_names().await, ["hidden2", "later", "pinned"]);
}

async fn pinned_definition(client: &Client) -> Value {
    client.list_tools().await.into_iter().find(|tool| tool["name"] == "pinned").expect("it is pinned")
}

async fn next_event(events: &mut Stream) -> Value {
    loop {
        let event = tokio::time::timeout(PATIENCE, events.next()).await.expect("an event in time").expect("an open stream");
        if event.name == "tool-changed" {
            return serde_json::from_str(&event.data).unwrap();
        }
    }
}

// invoke_tool: a call like any other

#[tokio::test]
async fn a_call_through_invoke_tool_is_counted_as_a_call_of_the_tool_inside() {
    let a = target("a").tool("echo", ["q"]).tool("sad", []).reply("sad", json!({"content": [{"type": "text", "text": "no"}], "isError": true}));
    let gateway = gateway().target(&a).config(searching).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        invoke(&client, "echo", json!({"q": 1})).await.result();
        assert!(invoke(&client, "sad", json!({})).await.is_error());
        assert!(client.call("invoke_tool", json!({"name": "echo"})).await.result().is_object(), "without arguments");
    }
    let text = gateway.metrics().await;
    let count = |tool: &str| gateway::metric(&text, &format!("mcp_server_operation_duration_seconds_count{{gen_ai_tool_name=\"{tool}\"}}"));
    assert_eq!((count("echo"), count("sad"), count("invoke_tool")), (4.0, 2.0, 0.0));
    let failed = gateway::metric(&text, "mcp_server_operation_duration_seconds_count{gen_ai_tool_name=\"sad\",error_type=\"tool_error\"}");
    assert_eq!(failed, 2.0);
    let sent: Vec<Value> = a.requests_of("tools/call").iter().map(|request| request.json()["params"].clone()).collect();
    assert!(sent.iter().all(|params| params["name"] != "invoke_tool"), "{sent:?}");
    assert_eq!(sent[0]["arguments"], json!({"q": 1}));
}

#[tokio::test]
async fn progress_and_cancellation_go_through() {
    let a = target("a").slow("slow", Duration::from_secs(60)).tool("steps", []).handler("steps", |_, context| async move {
        context.progress(40);
        context.progress(80);
        Ok(target::text("done"))
    });
    let gateway = gateway().target(&a).config(searching).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        let params = json!({"name": "invoke_tool", "arguments": {"name": "steps"}, "_meta": {"progressToken": "mine"}});
        let reply = client.request("tools/call", params).await;
        assert_eq!(reply.text(), "done");
        let told: Vec<(&Value, &Value)> =
            reply.notifications.iter().map(|note| (&note["params"]["progressToken"], &note["params"]["progress"])).collect();
        assert_eq!(told, [(&json!("mine"), &json!(40)), (&json!("mine"), &json!(80))], "{:?}", reply.notifications);
    }
    let client = gateway.client().await;
    let mut call = client.start_call("invoke_tool", json!({"name": "slow", "arguments": {"nonce": 1}}));
    eventually("the call is there", || async { a.calls().iter().any(|(name, _)| name == "slow") }).await;
    assert_eq!(client.cancel(&call.id).await, 202);
    eventually("the target is told", || async { a.cancelled().len() == 1 }).await;
    let _ = call.reply_within(PATIENCE).await.expect("an end");
}

#[tokio::test]
async fn what_is_wrong_with_a_call_inside_is_told_as_of_any_other() {
    let a = target("a").tool("echo", ["q"]);
    let gateway =
        gateway().target(&a).target_with(&target("b").slow("slow", Duration::from_secs(60)), |spec| spec.timeout = Duration::from_millis(300));
    let gateway = gateway.config(searching).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        invoke(&client, "nope", json!({})).await.is_not_found("nope");
        assert_eq!(invoke(&client, "nope", json!({})).await.message["error"], client.call("nope", json!({})).await.message["error"], "to the byte");
        for bad in [json!([1]), json!("x"), json!(7)] {
            let direct = client.request("tools/call", json!({"name": "echo", "arguments": bad})).await;
            assert_eq!(invoke(&client, "echo", bad.clone()).await.result(), direct.result(), "{bad}");
            assert!(direct.is_error() && direct.text().contains("must be an object"));
        }
        invoke(&client, "slow", json!({})).await.failed(1004, json!("unknown"));
        for (arguments, why) in [
            (json!({}), "`name` is missing"),
            (json!({"name": 7}), "`name` is missing"),
            (json!({"name": "echo", "q": "x"}), "belong into `arguments`"),
            (json!({"name": "invoke_tool", "arguments": {"name": "echo"}}), "does not call itself"),
            (json!(["echo"]), "must be an object"),
        ] {
            let reply = client.request("tools/call", json!({"name": "invoke_tool", "arguments": arguments})).await;
            assert!(reply.is_error() && reply.text().contains(why), "{arguments}: {}", reply.raw);
        }
        let reply = client.request("tools/call", json!({"name": "invoke_tool"})).await;
        assert!(reply.is_error() && reply.text().contains("must be an object"), "{}", reply.raw);
        for (tool, arguments, why) in [
            ("catalog_search", json!({}), "\"query\" is a required property"),
            ("catalog_search", json!({"query": " "}), "`query` is empty"),
            ("catalog_search", json!({"query": "x", "limit": 0}), "/limit"),
            ("catalog_search", json!({"query": "x", "limit": -1}), "/limit"),
            ("catalog_search", json!({"query": "x", "limit": "5"}), "/limit"),
            ("catalog_search", json!({"query": "x", "limit": 1000}), "/limit"),
            ("catalog_search", json!({"query": 7, "more": 1}), "Unknown argument \"more\""),
            ("catalog_search", json!({"query": 7, "more": 1}), "/query"),
            ("describe_tool", json!({}), "\"name\" is a required property"),
        ] {
            let reply = client.call(tool, arguments).await;
            assert!(reply.is_error() && reply.text().contains(why), "{tool}: {}", reply.raw);
        }
    }
    assert!(a.calls().is_empty(), "{:?}", a.calls());
    // The same for scripts.
    let reply = gateway.post("/tools/invoke_tool/invoke", &json!({"arguments": {"name": "nope", "arguments": {}}})).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!("tool_not_found")), "{}", reply.text());
    let reply = gateway.post("/tools/invoke_tool/invoke", &json!({"arguments": {"name": "echo", "arguments": {"q": 2}}})).await;
    assert_eq!(reply.json()["result"]["structuredContent"]["arguments"], json!({"q": 2}), "{}", reply.text());
}

#[tokio::test]
async fn a_target_that_is_down_is_told_of_only_to_those_who_see_its_tools() {
    let (a, b) = (target("a").tool("red_echo", []), target("b").tool("red_other", []));
    let setup = |config: &mut Config| {
        teams(config);
        searching(config);
        config.authentication.as_mut().unwrap().api_keys.push(somebody("blue", "blue"));
    };
    let gateway = gateway().target(&a).target(&b).config(setup).start().await;
    a.stop();
    eventually("its tools leave the lists", || async { get_as(&gateway, "boss", "/tools").await.as_array().unwrap().len() == 1 }).await;
    for revision in [LEGACY, MODERN] {
        let (red, blue) = (client_as(&gateway, revision, "red").await, client_as(&gateway, revision, "blue").await);
        assert_eq!(names(&red.call("catalog_search", json!({"query": "red"})).await), ["red_other"]);
        invoke(&red, "red_echo", json!({})).await.failed(1002, json!(false));
        red.call("describe_tool", json!({"name": "red_echo"})).await.failed(1002, json!(false));
        invoke(&blue, "red_echo", json!({})).await.is_not_found("red_echo");
        blue.call("describe_tool", json!({"name": "red_echo"})).await.is_not_found("red_echo");
    }
}

// Rules and limits see the tool inside.
#[tokio::test]
async fn rules_about_arguments_and_limits_hold_for_the_tool_inside() {
    let a = target("a").tool("open", ["priority"]).tool("scarce", []);
    let setup = |config: &mut Config| {
        searching(config);
        config.authorization = Some(vec![
            rule(Effect::Allow, "mcp.tool.name == 'open' || mcp.tool.name == 'scarce'"),
            rule(Effect::Deny, "has(mcp.tool.arguments.priority) && mcp.tool.arguments.priority == 'urgent'"),
        ]);
        config.limits.rates = vec![RateLimit { tool: Some("scarce".into()), per: Per::All, calls: 2, period: Duration::from_secs(3600) }];
    };
    let gateway = gateway().target(&a).config(setup).start().await;
    let client = gateway.client().await;
    assert_eq!(listed(&client).await, OWN, "no rule allows them, and none has to");
    invoke(&client, "open", json!({"priority": "low"})).await.result();
    invoke(&client, "open", json!({"priority": "urgent"})).await.is_not_found("open");
    // A member beside `arguments` is not what a rule would look at either.
    assert!(client.call("invoke_tool", json!({"name": "open", "priority": "low", "arguments": {"priority": "urgent"}})).await.is_error());
    invoke(&client, "scarce", json!({})).await.result();
    client.call("scarce", json!({})).await.result();
    let refused = invoke(&client, "scarce", json!({})).await;
    assert!(refused.error_code() == 1001 && refused.error_message().contains("2 calls of scarce"), "{}", refused.raw);
    assert_eq!(a.calls().len(), 3);
}

#[tokio::test]
async fn a_virtual_tool_is_found_by_what_the_registry_says_and_called_as_the_registry_means() {
    let raw = json!({"name": "wx_raw", "description": "canary source", "inputSchema": {"type": "object", "properties": {
        "q": {"type": "string"}, "api_key": {"type": "string"}}, "required": ["q", "api_key"]}});
    let weather = target("weather").tool_def(raw).reply("wx_raw", json!({"content": [], "structuredContent": {"deep": {"t": 7}, "cost": 1}}));
    let registry = json!({"tools": [{"name": "get_temperature", "description": "How warm it is in a city", "source": {"target": "weather", "tool": "wx_raw"},
        "defaults": {"api_key": "${KEY}"}, "hideFields": ["api_key"],
        "outputSchema": {"type": "object", "properties": {"celsius": {"type": "number", "sourceField": "$.deep.t"}}}}]});
    let gateway = gateway().target(&weather).registry(&registry).env([("KEY", "secret-key-1")]).config(searching).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        assert_eq!(names(&client.call("catalog_search", json!({"query": "warm city"})).await), ["get_temperature"]);
        assert!(names(&client.call("catalog_search", json!({"query": "canary wx_raw"})).await).is_empty());
        let described = client.call("describe_tool", json!({"name": "get_temperature"})).await;
        assert!(!described.raw.contains("api_key") && !described.raw.contains("secret-key-1"), "{}", described.raw);
        assert_eq!(*invoke(&client, "get_temperature", json!({"q": "Oslo"})).await.structured(), json!({"celsius": 7}));
        assert!(invoke(&client, "get_temperature", json!({"q": "Oslo", "api_key": "mine"})).await.is_error());
        invoke(&client, "wx_raw", json!({"q": "Oslo"})).await.is_not_found("wx_raw");
    }
    assert_eq!(weather.calls()[0].1, json!({"q": "Oslo", "api_key": "secret-key-1"}));
    assert_eq!(weather.calls().len(), 2);
}

// protocol.md: headers from arguments, and questions of servers, of the modern era.
#[tokio::test]
async fn a_modern_tool_inside_gets_its_headers_and_may_ask_back() {
    let marked = json!({"name": "route", "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}});
    let asking = target("asking").era(Era::Modern).tool_def(marked).tool("ask", ["q"]).handler("ask", |_, context| async move {
        if context.params["requestState"] == "inner-state" {
            return Ok(target::text("thanks"));
        }
        Ok(json!({"resultType": "input_required", "requestState": "inner-state", "inputRequests": {"who": {"method": "elicitation/create", "params": {}}}}))
    });
    let gateway = gateway().target_with(&asking, |spec| spec.allow_server_requests = true).config(searching).start().await;
    let client = gateway.connect(MODERN).capabilities(json!({"elicitation": {}})).open().await;
    invoke(&client, "route", json!({"region": "north"})).await.result();
    let sent = asking.requests_of("tools/call").pop().unwrap();
    assert_eq!((sent.header("mcp-param-region"), sent.header("mcp-name")), (Some("north"), Some("route")));

    let question = invoke(&client, "ask", json!({"q": "x"})).await;
    let state = question.result()["requestState"].clone();
    assert!(state.is_string() && !question.raw.contains("inner-state"), "{}", question.raw);
    let answer = json!({"name": "invoke_tool", "arguments": {"name": "ask", "arguments": {"q": "x"}}, "requestState": state, "inputResponses": {}});
    assert_eq!(client.request("tools/call", answer).await.text(), "thanks");
    // An answer for one tool is none for another.
    let other = json!({"name": "invoke_tool", "arguments": {"name": "route", "arguments": {}}, "requestState": state, "inputResponses": {}});
    assert!(client.request("tools/call", other).await.message.get("error").is_some());
}
