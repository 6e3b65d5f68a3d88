//! Who may do what: one predicate for every list and every use, and what is denied looks like what does not exist.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use transom_gateway::config::{ApiKey, Authentication, ConcurrencyLimit, Effect, Per, RateLimit, Rule, ToolTimeout};
use transom_tests::http::PATIENCE;
use transom_tests::*;

const CHANGED: &str = "notifications/tools/list_changed";

fn rule(effect: Effect, expression: &str) -> Rule {
    Rule { effect, expression: expression.into() }
}

fn allow(expression: &str) -> Rule {
    rule(Effect::Allow, expression)
}

fn deny(expression: &str) -> Rule {
    rule(Effect::Deny, expression)
}

/// The key of somebody with these claims; the secret is `secret-` and the id.
fn somebody(id: &str, claims: Value) -> ApiKey {
    let mut key = api_key(id, &format!("secret-{id}"));
    key.claims = claims.as_object().cloned().unwrap_or_default();
    key
}

fn keys(keys: Vec<ApiKey>) -> Option<Authentication> {
    Some(Authentication { api_keys: keys, ..Authentication::default() })
}

async fn client_as(gateway: &Gateway, id: &str) -> Client {
    gateway.connect(transom_tests::client::LEGACY).header("x-api-key", &format!("secret-{id}")).open().await
}

async fn modern_as(gateway: &Gateway, id: &str) -> Client {
    gateway.connect(transom_tests::client::MODERN).header("x-api-key", &format!("secret-{id}")).open().await
}

async fn get_as(gateway: &Gateway, id: &str, path: &str) -> Value {
    gateway.send("GET", path, &[("x-api-key", &format!("secret-{id}"))], "").await.json()
}

async fn invoke_as(gateway: &Gateway, id: &str, tool: &str) -> (u16, Value) {
    let headers = [("x-api-key", &*format!("secret-{id}")), ("content-type", "application/json")];
    let reply = gateway.send("POST", &format!("/tools/{tool}/invoke"), &headers, r#"{"arguments":{}}"#).await;
    (reply.status, reply.json())
}

fn names(list: &[Value], member: &str) -> BTreeSet<String> {
    list.iter().filter_map(|item| item[member].as_str().map(str::to_owned)).collect()
}

const PEOPLE: usize = 50;
const TOOLS: usize = 200;
const TEAMS: usize = 5;

/// Who somebody is, for rules to look at: a team, its two neighbours, and a level.
fn person(number: usize) -> ApiKey {
    let teams = [number % TEAMS, (number + 1) % TEAMS].map(|team| format!("team{team}"));
    somebody(&format!("p{number}"), json!({"team": teams[0], "teams": teams, "level": number % 4}))
}

/// One of many sets of rules and tools, each with its own number, and this test's own reading of it.
#[derive(Clone, Copy)]
struct Plan(usize);

impl Plan {
    /// Whether the registry has something to say of a tool: of one in so many, or of a single one.
    fn is_virtual(self, tool: usize) -> bool {
        if self.0.is_multiple_of(2) { tool == TOOLS - 1 } else { tool % (3 + self.0 % 7) == self.0 % 3 }
    }

    fn name_of(self, tool: usize) -> String {
        let kind = if self.is_virtual(tool) { "virtual" } else { source_kind(tool) };
        format!("{kind}_{tool}")
    }

    fn registry(self) -> Value {
        let tools = (0..TOOLS).filter(|tool| self.is_virtual(*tool)).map(|tool| {
            json!({"name": self.name_of(tool), "source": {"target": format!("team{}", tool % TEAMS), "tool": format!("{}_{tool}", source_kind(tool))}})
        });
        json!({"tools": tools.collect::<Vec<_>>()})
    }

    /// How names begin that everybody may see.
    fn open(self) -> &'static str {
        ["open_", "own_1", "virtual_", "nothing_", "own_"][self.0 % 5]
    }

    /// The level that a destructive tool asks for.
    fn level(self) -> usize {
        (self.0 + 2) % 5
    }

    /// Whether what belongs to a team is for somebody.
    fn is_for(self, team: usize, person: usize) -> bool {
        match self.0 % 3 {
            0 => team == person % TEAMS,
            1 => team != person % TEAMS,
            _ => team == person % TEAMS || team == (person + 1) % TEAMS,
        }
    }

    fn rules(self) -> Vec<Rule> {
        let is_for = |of: &str| match self.0 % 3 {
            0 => format!("{of}.target == jwt.team"),
            1 => format!("{of}.target != jwt.team"),
            _ => format!("{of}.target in jwt.teams"),
        };
        let mut rules = vec![
            allow(&format!("has(mcp.tool) && mcp.tool.name.startsWith('{}')", self.open())),
            deny(&format!("has(mcp.tool) && mcp.tool.annotations.destructiveHint && jwt.level < {}", self.level())),
        ];
        rules.extend(["mcp.tool", "mcp.prompt", "mcp.resource"].map(|of| allow(&format!("has({of}) && {}", is_for(of)))));
        rules
    }

    /// Whether somebody may see and use a tool.
    fn shows(self, tool: usize, person: usize) -> bool {
        let denied = is_destructive(tool) && person % 4 < self.level();
        (self.name_of(tool).starts_with(self.open()) || self.is_for(tool % TEAMS, person)) && !denied
    }

    /// All that somebody sees.
    fn seen_by(self, person: usize) -> BTreeSet<String> {
        (0..TOOLS).filter(|tool| self.shows(*tool, person)).map(|tool| self.name_of(tool)).collect()
    }
}

/// What a target calls its tool begins with this.
fn source_kind(tool: usize) -> &'static str {
    if tool.is_multiple_of(10) { "open" } else { "own" }
}

fn is_destructive(tool: usize) -> bool {
    tool.is_multiple_of(7)
}

// C1, B1, B6, B7, N1, T4: each plan takes the place of the one before, under the sessions that are there. `PLANS=100` judges a hundred of them.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_listed_can_be_used_and_nothing_else_wherever_one_looks() {
    let plans: usize = std::env::var("PLANS").ok().and_then(|plans| plans.parse().ok()).unwrap_or(10);
    let mut targets: Vec<Target> = (0..TEAMS).map(|team| target(&format!("team{team}"))).collect();
    for tool in 0..TOOLS {
        let name = format!("{}_{tool}", source_kind(tool));
        let definition = json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": is_destructive(tool)}});
        targets[tool % TEAMS] = targets[tool % TEAMS].clone().tool_def(definition);
    }
    for (team, target) in targets.iter_mut().enumerate() {
        *target = target.clone().prompt(&format!("prompt{team}")).resource(&format!("file:///{team}"));
    }
    let mut builder = gateway().registry(&Plan(0).registry()).config(|config| {
        config.authentication = keys((0..PEOPLE).map(person).collect());
        config.authorization = Some(Plan(0).rules());
    });
    for target in &targets {
        builder = builder.target(target);
    }
    let mut gateway = builder.start().await;
    let mut clients = Vec::new();
    for person in 0..PEOPLE {
        clients.push(client_as(&gateway, &format!("p{person}")).await);
    }
    let mut decisions = 0;
    for plan in (0..plans).map(Plan) {
        gateway.publish(&plan.registry());
        gateway.reconfigure(|config| config.authorization = Some(plan.rules()));
        let first = plan.seen_by(0);
        eventually("the plan is in force", async || names(&clients[0].list_tools().await, "name") == first).await;
        for (person, client) in clients.iter().enumerate() {
            decisions += judge(&gateway, client, plan, person, plans).await;
        }
    }

    let last = Plan(plans - 1);
    let mut readers = Vec::new();
    for person in 0..PEOPLE {
        let key = format!("secret-p{person}");
        let reader = gateway.http.open("GET", &gateway.url("/events"), &[("x-api-key", key.as_str())], "").await.unwrap();
        assert_eq!(reader.status, 200);
        readers.push(reader);
    }
    targets[0].stop();
    for (person, reader) in readers.iter_mut().enumerate() {
        let gone: BTreeSet<String> =
            (0..TOOLS).filter(|tool| tool.is_multiple_of(TEAMS) && last.shows(*tool, person)).map(|tool| last.name_of(tool)).collect();
        let mut removed: BTreeSet<String> = BTreeSet::new();
        while removed.len() < gone.len() {
            let event = tokio::time::timeout(PATIENCE, reader.next()).await.expect("an event in time").expect("the stream goes on");
            if event.name == "tool-changed" {
                let event = serde_json::from_str::<Value>(&event.data).unwrap();
                removed.extend(event["removed"].as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)));
            }
        }
        assert_eq!(removed, gone, "p{person} hears of its own tools and of no others");
    }
    let reached: usize = targets.iter().map(|target| target.calls().len()).sum();
    assert!(reached > 300, "{reached} calls reached a target");
    assert!(gateway.metric("transom_authz_decisions_total{action=\"call\",decision=\"deny\"}").await > 1_000.0);
    assert!(gateway.rejected("unknown_tool").await > 1_000.0);
    // Every decision agreed with the plan: a difference would have ended the test.
    evidence::say(&json!({"sent": decisions, "ok": decisions, "reached": reached, "plans": plans}));
}

/// Looks at everything somebody can see under a plan, and tries what they can and cannot see. How many decisions that were: a list is one of each
/// thing that is or is not in it.
async fn judge(gateway: &Gateway, client: &Client, plan: Plan, person: usize, plans: usize) -> usize {
    let (id, mine) = (format!("p{person}"), plan.seen_by(person));
    let who = format!("{id} under plan {}", plan.0);
    assert_eq!(names(&client.list_tools().await, "name"), mine, "{who} lists");
    let rest = get_as(gateway, &id, "/tools?status=all").await;
    assert_eq!(names(rest.as_array().unwrap(), "name"), mine, "{who} lists over REST");
    let found = get_as(gateway, &id, "/search?limit=100&q=own+open+virtual").await;
    // No answer has more than a hundred.
    let found = names(found.as_array().unwrap(), "name");
    assert!(found.is_subset(&mine) && found.len() == mine.len().min(100), "{who} finds {found:?}");
    for format in transom_tests::providers::FORMATS {
        let exported = get_as(gateway, &id, &format!("/tools?format={format}")).await;
        let exported: BTreeSet<String> = transom_tests::providers::names(format, &exported).into_iter().collect();
        assert_eq!(exported, mine, "{who} exports for {format}");
    }
    let module = gateway.send("GET", "/runtime/tools.ts", &[("x-api-key", &*format!("secret-{id}"))], "").await.text();
    // `/tools/team1__own_1`, and what is virtual is nobody's.
    let calls = module.split("return call<").skip(1).filter_map(|call| call.split("/tools/").nth(1)?.split('"').next()?.rsplit("__").next());
    assert_eq!(calls.map(str::to_owned).collect::<BTreeSet<_>>(), mine, "{who} gets functions");
    let status = get_as(gateway, &id, "/status").await;
    assert_eq!(status["tools"]["exposed"], json!(mine.len()), "{who}: {status}");
    let mut decisions = TOOLS * (3 + transom_tests::providers::FORMATS.len());

    // What costs a request each is asked for some tools, others for each person and plan; `MATRIX=whole` asks for all.
    let step = if std::env::var_os("MATRIX").is_some() { 1 } else { (5 * plans).min(TOOLS) };
    for tool in ((person / 5 + plan.0 * 5) % step..TOOLS).step_by(step) {
        let name = plan.name_of(tool);
        let may = mine.contains(&name);
        let reply = client.call(&name, json!({})).await;
        if may {
            assert!(!reply.is_error(), "{who} {name}: {}", reply.raw)
        } else {
            reply.is_not_found(&name)
        }
        let definition = get_as(gateway, &id, &format!("/tools/{name}")).await;
        assert_eq!(definition["name"].is_string(), may, "{who} {name}: {definition}");
        let (status, body) = invoke_as(gateway, &id, &name).await;
        assert_eq!((status, body["success"] == json!(true)), if may { (200, true) } else { (404, false) }, "{who} {name}: {body}");
        // B1: what stands behind a virtual tool is nobody's.
        if plan.is_virtual(tool) {
            let source = format!("{}_{tool}", source_kind(tool));
            client.call(&source, json!({})).await.is_not_found(&source);
        }
        decisions += 3 + usize::from(plan.is_virtual(tool));
    }
    let prompts = names(&client.list("prompts/list", "prompts").await, "name");
    assert_eq!(prompts, (0..TEAMS).filter(|team| plan.is_for(*team, person)).map(|team| format!("prompt{team}")).collect(), "{who}");
    let uri_of = |team: usize| format!("mcp://team{team}/file%3A%2F%2F%2F{team}");
    let uris = names(&client.list("resources/list", "resources").await, "uri");
    assert_eq!(uris, (0..TEAMS).filter(|team| plan.is_for(*team, person)).map(uri_of).collect(), "{who}");
    for team in 0..TEAMS {
        let (may, uri) = (plan.is_for(team, person), uri_of(team));
        let got = client.request("prompts/get", json!({"name": format!("prompt{team}")})).await;
        assert_eq!(got.message.get("result").is_some(), may, "{who}: {}", got.raw);
        for method in ["resources/read", "resources/subscribe"] {
            let reply = client.request(method, json!({"uri": uri})).await;
            let refused = reply.message["error"]["message"] == json!(format!("Resource not found: {uri}"));
            assert_eq!(refused, !may, "{who} {method}: {}", reply.raw);
        }
        let complete = json!({"ref": {"type": "ref/prompt", "name": format!("prompt{team}")}, "argument": {"name": "a", "value": ""}});
        let reply = client.request("completion/complete", complete).await;
        assert_eq!(reply.message.get("result").is_some(), may, "{who}: {}", reply.raw);
        // B7: a target of which one sees nothing is not there.
        let at = gateway.send("POST", &format!("/mcp/team{team}"), &[("x-api-key", &*format!("secret-{id}"))], "{}").await;
        let sees = may || (0..TOOLS).any(|tool| tool % TEAMS == team && plan.shows(tool, person));
        assert_eq!(at.status == 404, !sees, "{who} /mcp/team{team}: {}", at.text());
        // Two of them by the lists above.
        decisions += 7;
    }
    decisions
}

// N9, B6: what is denied and what does not exist are one, to the byte
#[tokio::test]
async fn a_denied_tool_looks_like_an_unknown_one_to_the_byte() {
    let marked = json!({"name": "hidden", "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}, "required": ["region"]}});
    let a = target("a").tool("open", []).tool_def(marked).instructions("CANARY-a");
    let b = target("b").tool("hidden", []).instructions("CANARY-b");
    let gateway = gateway()
        .target(&a)
        .target(&b)
        .config(|config| {
            config.authentication = keys(vec![somebody("low", json!({})), somebody("high", json!({"all": true}))]);
            config.authorization = Some(vec![allow("has(mcp.tool) && mcp.tool.name == 'open'"), allow("has(jwt.all)")]);
        })
        .start()
        .await;
    let (low, high) = (client_as(&gateway, "low").await, client_as(&gateway, "high").await);
    assert_eq!(high.tool_names().await, ["a__hidden", "b__hidden", "open"]);
    assert_eq!(low.tool_names().await, ["open"]);
    let modern = modern_as(&gateway, "low").await;
    for name in ["a__hidden", "b__hidden", "a:hidden", "b_hidden", "hidden"] {
        for client in [&low, &modern] {
            for arguments in [json!({}), json!({"region": 7}), json!({"zzz": 1})] {
                let denied = client.call(name, arguments.clone()).await;
                let unknown = client.call(&"x".repeat(name.len()), arguments).await;
                let blank = |reply: &Reply, name: &str| {
                    let mut message = reply.message.clone();
                    message["id"] = json!(0);
                    (reply.status, message.to_string().replace(name, "NAME"))
                };
                assert_eq!(blank(&denied, name), blank(&unknown, &"x".repeat(name.len())), "{name}");
            }
        }
        let (denied, unknown) = (invoke_as(&gateway, "low", name).await, invoke_as(&gateway, "low", "xxx").await);
        assert_eq!(denied.1.to_string().replace(name, "NAME"), unknown.1.to_string().replace("xxx", "NAME"));
        assert_eq!(denied.0, 404);
    }
    assert!(b.calls().is_empty() && a.calls().is_empty());
    let seen_by_low = format!(
        "{}{}{}{}",
        low.initialized().raw,
        modern.request("server/discover", json!({})).await.raw,
        get_as(&gateway, "low", "/status").await,
        get_as(&gateway, "low", "/tools").await
    );
    assert!(!seen_by_low.contains("CANARY-b") && !seen_by_low.contains("\"b\""), "{seen_by_low}");
    assert!(high.initialized().raw.contains("CANARY-b"));
    high.call("hidden", json!({})).await.is_not_found("hidden");
}

// C5
#[tokio::test]
async fn interleaved_lists_never_cross_and_are_marked_private() {
    let a = target("a").tool("one", []).tool("two", []);
    let gateway = gateway()
        .target(&a)
        .config(|config| {
            config.authentication = keys(vec![somebody("x", json!({"see": "one"})), somebody("y", json!({"see": "two"})), somebody("z", json!({}))]);
            config.authorization = Some(vec![allow("mcp.tool.name == jwt.see")]);
        })
        .start()
        .await;
    let clients = [modern_as(&gateway, "x").await, modern_as(&gateway, "y").await, modern_as(&gateway, "z").await];
    for round in 0..1_000 {
        let reply = clients[round % 3].request("tools/list", json!({})).await;
        let expected: &[&str] = [&["one"][..], &["two"], &[]][round % 3];
        let listed = names(reply.result()["tools"].as_array().unwrap(), "name");
        assert_eq!(listed, expected.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), "round {round}");
        assert_eq!((&reply.result()["cacheScope"], &reply.result()["ttlMs"]), (&json!("private"), &json!(0)));
    }
    assert!(gateway.metric("transom_authz_errors_total").await >= 2.0, "z has no claim `see`");
}

#[tokio::test]
async fn rules_may_look_at_the_request_the_client_and_the_arguments() {
    let a = target("a").tool("by_header", []).tool("by_client", []).tool("by_address", []).tool("by_argument", ["city"]);
    let rules = vec![
        allow("mcp.tool.name == 'by_header' && request.headers['x-team'] == 'blue' && request.path == '/mcp'"),
        allow("mcp.tool.name == 'by_client' && client.name.startsWith('nobody')"),
        allow("mcp.tool.name == 'by_address' && source.address == '127.0.0.1'"),
        allow("mcp.tool.name == 'by_argument' && mcp.tool.arguments.city == 'Oslo'"),
        deny("'x-api-key' in request.headers || 'authorization' in request.headers"),
    ];
    let gateway = gateway()
        .target(&a)
        .config(|config| {
            config.authentication = keys(vec![somebody("x", json!({}))]);
            config.authorization = Some(rules);
        })
        .start()
        .await;
    let plain = client_as(&gateway, "x").await;
    assert_eq!(plain.tool_names().await, ["by_address", "by_argument"]);
    plain.call("by_client", json!({})).await.is_not_found("by_client");
    let blue = gateway.connect(transom_tests::client::LEGACY).header("x-api-key", "secret-x").header("x-team", "blue").open().await;
    assert_eq!(blue.tool_names().await, ["by_address", "by_argument", "by_header"]);
    assert!(!blue.call("by_header", json!({})).await.is_error());
    plain.call("by_header", json!({})).await.is_not_found("by_header");
    assert!(!plain.call("by_argument", json!({"city": "Oslo"})).await.is_error());
    plain.call("by_argument", json!({"city": "Rome"})).await.is_not_found("by_argument");
    plain.call("by_argument", json!({})).await.is_not_found("by_argument");
    assert_eq!(a.calls().len(), 2);
}

// sessions.md: what a session id holds is what any replica needs to go on.
#[tokio::test]
async fn what_a_client_calls_itself_counts_on_every_replica_and_over_every_transport() {
    let a = target("a").tool("one", []);
    let replica = || {
        gateway().target(&a).config(|config| {
            config.session_key = Some(transom_upstream::Secret::new("0123456789abcdef0123456789abcdef"));
            config.authorization = Some(vec![allow("client.name == 'transom-tests' && client.version == '1'")]);
        })
    };
    let (first, second) = (replica().start().await, replica().start().await);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    let session = first.client().await.session().unwrap();
    for gateway in [&first, &second] {
        let listed = gateway.post_mcp(&[("mcp-session-id", &session)], list.clone()).await;
        assert_eq!(listed.json()["result"]["tools"][0]["name"], "one", "{}", listed.text());
    }
    assert_eq!(first.modern().await.tool_names().await, ["one"]);
    // Over the oldest transport the stream is there before the client has a name.
    let sse = first.sse_client().await;
    assert_eq!(sse.tool_names().await, ["one"]);
    eventually("the target has a stream to tell on", || async { a.streams() > 1 }).await;
    a.set_tools(["two"]);
    a.notify_list_changed();
    assert_eq!(sse.sse_notification().await["method"], "notifications/tools/list_changed");
    // A name without end makes no id without end, and is cut between characters.
    for name in ["transom-tests ".repeat(200), "\u{65e5}".repeat(200), String::new()] {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": name}});
        let opened = first.post_mcp(&[], json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()).await;
        let session = opened.header("mcp-session-id");
        assert!((1..=512).contains(&session.len()), "{} bytes", session.len());
        let listed = second.post_mcp(&[("mcp-session-id", session)], list.clone()).await;
        assert_eq!(listed.json()["result"]["tools"], json!([]), "{}", listed.text());
    }
}

// C4
#[tokio::test]
async fn a_policy_change_is_told_to_those_it_concerns_and_ends_what_it_forbids() {
    let a = target("a").tool("one", []).tool("two", []).resource("file:///x");
    let mut gateway = gateway()
        .target(&a)
        .config(|config| {
            config.authentication = keys(vec![somebody("x", json!({"sees": ["one", "two"]})), somebody("y", json!({"sees": ["one"]}))]);
            config.authorization = Some(vec![allow("mcp.tool.name in jwt.sees"), allow("has(mcp.resource)")]);
        })
        .start()
        .await;
    let (x, y) = (client_as(&gateway, "x").await, client_as(&gateway, "y").await);
    let uri = "mcp://a/file%3A%2F%2F%2Fx";
    let (mut of_x, mut of_y) = (x.stream().await, y.stream().await);
    for client in [&x, &y] {
        client.request("resources/subscribe", json!({"uri": uri})).await.result();
    }
    let events_of = |id: &str| {
        let (http, url, key) = (gateway.http.clone(), gateway.url("/events"), format!("secret-{id}"));
        async move { http.open("GET", &url, &[("accept", "text/event-stream"), ("x-api-key", &key)], "").await.unwrap() }
    };
    let (mut events_of_x, mut events_of_y) = (events_of("x").await, events_of("y").await);
    let modern = modern_as(&gateway, "y").await;
    let mut only_resource = modern.listen(json!({"resourceSubscriptions": [uri]})).await;
    eventually("the target was asked", || async { !a.requests_of("resources/subscribe").is_empty() }).await;

    let changed_at = Instant::now();
    gateway.reconfigure(|config| {
        config.authorization = Some(vec![
            allow("has(mcp.tool) && mcp.tool.name in jwt.sees"),
            deny("has(mcp.tool) && mcp.tool.name == 'two'"),
            allow("has(mcp.resource) && 'two' in jwt.sees"),
        ]);
    });
    x.call("two", json!({})).await.is_not_found("two");
    of_x.notification(CHANGED).await;
    assert!(changed_at.elapsed() < Duration::from_secs(1), "{:?}", changed_at.elapsed());
    let event = loop {
        let event = tokio::time::timeout(PATIENCE, events_of_x.next()).await.expect("an event in time").expect("an open stream");
        if event.name == "tool-changed" {
            break serde_json::from_str::<Value>(&event.data).unwrap();
        }
    };
    assert_eq!((&event["removed"], &event["added"]), (&json!(["two"]), &json!([])), "{event}");
    // A stream that is left with nothing to say ends.
    let rest = async { while only_resource.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(2), rest).await.expect("the subscription of y ends");
    a.broadcast("notifications/resources/updated", json!({"uri": "file:///x"}));
    of_x.notification("notifications/resources/updated").await;
    let heard: Vec<Value> = of_y.drain(Duration::from_millis(500)).await;
    assert!(heard.iter().all(|message| message["method"] != "notifications/resources/updated" && message["method"] != CHANGED), "{heard:?}");
    let quiet = tokio::time::timeout(Duration::from_millis(300), async {
        while let Some(event) = events_of_y.next().await {
            assert_ne!(event.name, "tool-changed", "nothing changed for y: {}", event.data);
        }
    });
    assert!(quiet.await.is_err(), "the stream of y is still open");
}

// C8
#[tokio::test]
async fn a_rule_that_cannot_be_read_stops_the_start_and_changes_nothing_later() {
    let a = target("a").tool("one", []);
    let bad = vec![allow("mcp.tool.name == 'one'"), deny("mcp.tool.nme == 'x'")];
    let mut gateway = gateway().target(&a).config(|config| config.authorization = Some(vec![allow("has(mcp.tool)")])).start().await;
    let mut broken = gateway.config.clone();
    broken.authorization = Some(bad.clone());
    let error = transom_gateway::bind(broken).await.err().expect("the gateway does not start").to_string();
    assert!(error.contains("authorization rule 2") && error.contains("mcp.tool.nme"), "{error}");
    gateway.reconfigure(|config| config.authorization = Some(bad));
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["one"]);
    gateway.reconfigure(|config| config.authorization = Some(Vec::new()));
    assert!(client.tool_names().await.is_empty(), "no rule at all lets nobody do anything");
    client.call("one", json!({})).await.is_not_found("one");
}

// security.md error vocabulary, rate limits
#[tokio::test]
async fn a_limit_is_told_in_words_a_model_can_read_and_with_a_time() {
    let a = target("a").tool("fast", []).tool("slow", []).slow("slow", Duration::from_secs(3)).tool("lame", []).slow("lame", Duration::from_secs(5));
    let gateway = gateway()
        .target(&a)
        .config(|config| {
            config.authentication = keys(vec![somebody("x", json!({})), somebody("y", json!({}))]);
            config.limits.rates = vec![RateLimit { tool: Some("fa*".into()), per: Per::Principal, calls: 2, period: Duration::from_secs(60) }];
            config.limits.concurrency = vec![ConcurrencyLimit { tool: Some("slow".into()), per: Per::All, calls: 1 }];
            config.limits.timeouts =
                vec![ToolTimeout { tool: Some("lame".into()), principal: Some("x".into()), timeout: Duration::from_millis(300) }];
        })
        .start()
        .await;
    let (x, y) = (client_as(&gateway, "x").await, client_as(&gateway, "y").await);
    for _ in 0..2 {
        assert!(!x.call("fast", json!({})).await.is_error());
    }
    let refused = x.call("fast", json!({})).await;
    refused.failed(1001, json!(false));
    assert!(refused.error_message().starts_with("Rate limit: at most 2 calls of fast per minute; try again in "), "{}", refused.raw);
    let wait = refused.error()["data"]["retryAfterMs"].as_u64().unwrap();
    assert!((1..=30_000).contains(&wait), "{wait}");
    assert_eq!(refused.status, 200, "another status would cost many a legacy client its session");
    assert!(refused.header("retry-after").and_then(|after| after.parse::<u64>().ok()).is_some_and(|after| after * 1000 >= wait), "{}", refused.raw);
    let refused = modern_as(&gateway, "x").await.call("fast", json!({})).await;
    assert_eq!((refused.status, refused.error_code()), (429, 1001), "{}", refused.raw);
    let wait = refused.error()["data"]["retryAfterMs"].as_u64().unwrap();
    assert!(refused.header("retry-after").and_then(|after| after.parse::<u64>().ok()).is_some_and(|after| after * 1000 >= wait), "{}", refused.raw);
    let reply = gateway.send("POST", "/tools/fast/invoke", &[("x-api-key", "secret-x"), ("content-type", "application/json")], "{}").await;
    assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (429, Some("rate_limited")));
    assert!(reply.header("retry-after").parse::<u64>().is_ok());
    assert!(!y.call("fast", json!({})).await.is_error(), "each has a count of their own");

    let running = y.start_call("slow", json!({}));
    eventually("the call runs", || async { a.calls().iter().any(|(tool, _)| tool == "slow") }).await;
    let refused = x.call("slow", json!({})).await;
    refused.failed(1001, json!(false));
    assert!(refused.error_message().starts_with("Concurrency limit: at most 1 call of slow at once"), "{}", refused.raw);
    assert!(!running.reply().await.is_error());

    let started = Instant::now();
    x.call("lame", json!({})).await.failed(1004, json!("unknown"));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!((gateway.rejected("rate_limited").await, gateway.rejected("concurrency_limited").await), (3.0, 1.0));
}
