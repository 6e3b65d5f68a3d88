//! J10, J11, J12: too few files, too little memory, too many rules.

use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use transom_gateway::config::{ApiKey, Authentication, Effect, Rule};
use transom_tests::cgroup::Cgroup;
use transom_tests::client::{LEGACY, connect};
use transom_tests::*;

fn main_address(process: &Process) -> String {
    process.url("").trim_start_matches("http://").to_owned()
}

/// Time on a processor so far.
fn busy(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks: u64 =
        stat.rsplit_once(')').map_or(0, |(_, rest)| rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum());
    Duration::from_millis(ticks * 10)
}

/// Connections to this address that were accepted: one that waits for that, and one that was closed, have no inode.
fn accepted(address: &str) -> usize {
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("an address with a port");
    let local = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table of connections");
    let connections = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_held = |fields: &Vec<&str>| fields.len() > 9 && fields[1].ends_with(&local) && fields[3] != LISTENING && fields[9] != "0";
    connections.filter(is_held).count()
}

/// The state of a socket that waits for connections, in the table.
const LISTENING: &str = "0A";

/// What the gateway may open, and what of that is not for clients.
const FILES: usize = 256;
const RESERVED: usize = 64;

/// More connections than there are files, and none of them says anything.
async fn is_held_off(listeners: &[&str]) {
    let a = target("a").tool("echo", ["n"]);
    let process = process().target(&a).under(&["prlimit", &format!("--nofile={FILES}:{FILES}")]).start_ready().await;
    let client = process.client().await;
    client.call("echo", json!({"n": 0})).await.result();

    let metrics = process.log(&["metrics"]).iter().find_map(|line| Some(line.split("http://").nth(1)?.split([' ', '"']).next()?.to_owned()));
    let address = |listener: &&str| match *listener {
        "main" => main_address(&process),
        _ => metrics.clone().expect("the log says where the metrics are"),
    };
    let addresses: Vec<String> = listeners.iter().map(address).collect();
    let mut crowd = Vec::new();
    for address in &addresses {
        for _ in 0..440 / addresses.len() {
            if let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(address)).await {
                crowd.push(stream);
            }
        }
    }
    assert!(crowd.len() > FILES, "only {} came", crowd.len());
    let (before, start) = (busy(process.pid()), Instant::now());
    for n in 1..=20 {
        client.call("echo", json!({"n": n})).await.result();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (spent, took) = (busy(process.pid()) - before, start.elapsed());
    assert!(spent < took / 2, "it does not spin: {spent:?} of {took:?}");
    let (files, clients) = (sys::descriptors(process.pid()), addresses.iter().map(|address| accepted(address)).sum::<usize>());
    let complaints = process.log(&["cannot accept"]).len() + process.log(&["too many connections"]).len();
    println!(
        "{listeners:?}: {} connections, {clients} accepted, {files} files, {complaints} lines of complaint, {spent:?} of {took:?} busy",
        crowd.len()
    );
    // So that it was the reserve that held them off, and not something before it.
    assert!(clients >= FILES / 2, "only {clients} were let in");
    assert!(clients <= FILES - RESERVED, "{clients} connections of clients: {RESERVED} of {FILES} files are not for them");
    // The rest has to do with the reserve: the listeners, the log, what watches the config, two or three for each thread that serves, and the
    // connections to targets.
    assert!(files.saturating_sub(clients) <= RESERVED, "{files} files, of which {clients} are clients");
    assert!(complaints <= 20, "{complaints}");

    drop(crowd);
    eventually("new clients are served again", async || process.http.try_send("GET", &process.url("/ready"), &[], "").await.is_ok()).await;
    process.client().await.call("echo", json!({"n": "new"})).await.result();
    assert_eq!(a.calls().len(), 22);
}

// J10
#[tokio::test]
async fn without_files_left_nobody_is_served_worse_than_before_and_all_recovers() {
    is_held_off(&["main"]).await;
}

// J10: what is kept back is kept back from all listeners together.
#[tokio::test]
async fn a_crowd_at_two_listeners_gets_no_more_files_than_one_at_one() {
    is_held_off(&["main", "metrics"]).await;
}

// J10
#[tokio::test]
async fn the_gateway_may_open_as_many_files_as_it_is_allowed_to_and_its_children_as_many_as_before() {
    let process = process().stdio("child", json!({"tools": ["limits"]})).under(&["prlimit", "--nofile=512:2048"]).start_ready().await;
    let files = |text: &str| {
        text.lines().find(|line| line.starts_with("Max open files")).map(|line| line.split_whitespace().skip(3).take(2).collect::<Vec<_>>().join(" "))
    };
    let own = std::fs::read_to_string(format!("/proc/{}/limits", process.pid())).unwrap();
    assert_eq!(files(&own).as_deref(), Some("2048 2048"));
    assert_eq!(files(&process.client().await.call("limits", json!({})).await.text()).as_deref(), Some("512 2048"));
}

// J11
#[tokio::test]
async fn calls_are_refused_when_memory_is_short_and_everything_new_when_it_is_used_up() {
    let a = target("a").tool("echo", []);
    let mut process = process().target(&a).start_ready().await;
    let client = process.client().await;
    client.call("echo", json!({})).await.result();
    let limit = |process: &mut Process, share: f64| {
        let held = sys::resident(process.pid()) as f64;
        process.rewrite(|config| config["memoryLimit"] = json!(((held / share) as u64).to_string()));
    };
    let post = async |process: &Process, body: &Value| {
        let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        process.http.send("POST", &process.url("/mcp"), &headers, body.to_string()).await
    };
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});

    limit(&mut process, 0.90);
    eventually("calls are refused", async || client.call("echo", json!({})).await.status == 503).await;
    let refused = client.call("echo", json!({})).await;
    assert_eq!((refused.status, refused.error_code(), refused.header("retry-after")), (503, 1001, Some("1")));
    refused.failed(1001, json!(false));
    let refused = process.http.send("POST", &process.url("/tools/echo/invoke"), &[("content-type", "application/json")], "{}").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"), "{}", refused.text());
    assert_eq!(refused.json()["error"]["details"]["executed"], false, "{}", refused.text());
    let before = a.calls().len();
    assert_eq!(client.tool_names().await, ["echo"], "what costs little is still done");
    assert_eq!(post(&process, &initialize).await.status, 200, "new sessions are still taken");
    assert_eq!(process.get("/ready").await.status, 200, "readiness stays");

    limit(&mut process, 1.05);
    eventually("new sessions are refused", async || post(&process, &initialize).await.status == 503).await;
    assert_eq!(post(&process, &initialize).await.json()["error"]["code"], 1001);
    assert_eq!(client.try_stream().await.status, 503, "so are streams");
    assert_eq!(process.get("/ready").await.status, 200, "readiness stays");
    assert_eq!(process.get("/health").await.status, 200);
    assert_eq!(a.calls().len(), before, "nothing that was refused ran");

    limit(&mut process, 0.10);
    eventually("all is well again", async || client.call("echo", json!({})).await.status == 200).await;
    eventually("each change is one line", async || process.log(&["memory_pressure"]).len() == 3).await;
}

// J11, T19: bodies that unfold to many times their size, from many clients at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_large_bodies_in_a_small_cgroup_kills_nobody() {
    const LIMIT: u64 = 256 << 20;
    let Some(cgroup) = Cgroup::new(LIMIT) else {
        return install::skip("no cgroup can be made here; be root, with /sys/fs/cgroup writable");
    };
    let a = target("a").tool("echo", ["items"]);
    let enter = cgroup.enter();
    let mut process = process().target(&a).under(&["sh", "-c", &enter, "sh"]).start_ready().await;
    let metrics = process.log(&["metrics"]).iter().find_map(|line| Some(line.split("http://").nth(1)?.split([' ', '"']).next()?.to_owned()));
    if let Some(metrics) = metrics {
        let text = process.http.get(&format!("http://{metrics}/metrics")).await.text();
        assert_eq!(gateway::metric(&text, "transom_memory_limit_bytes"), LIMIT as f64, "it knows the limit of its cgroup");
    }
    // Under the bound on values of a request, so that they are passed on.
    let items = format!("[{}]", vec![r#"{"a":0}"#; 30_000].join(","));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"items":{items},"pad":"{}"}}}}}}"#,
        "x".repeat(3 << 20)
    );
    let body = bytes::Bytes::from(body);
    let mut flood = tokio::task::JoinSet::new();
    let until = Instant::now() + Duration::from_secs(8);
    for _ in 0..64 {
        let (url, body) = (process.url("/mcp"), body.clone());
        flood.spawn(async move {
            let http = Http::new();
            let (mut served, mut refused) = (0, 0);
            while Instant::now() < until {
                match http.try_send("POST", &url, &[("content-type", "application/json")], body.clone()).await {
                    Ok(reply) if reply.status == 200 => served += 1,
                    _ => refused += 1,
                }
            }
            (served, refused)
        });
    }
    let mut highest = 0;
    while Instant::now() < until {
        highest = highest.max(sys::resident(process.pid()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (mut served, mut refused) = (0, 0);
    while let Some(Ok((one, other))) = flood.join_next().await {
        served += one;
        refused += other;
    }
    println!("{served} served, {refused} refused, at most {} MiB of {} MiB held", highest >> 20, LIMIT >> 20);
    assert!(!process.has_ended(), "{}", process.stderr());
    assert!(highest < LIMIT);
    eventually("it serves again", async || connect(process.url("/mcp"), LEGACY).open().await.call("echo", json!({})).await.status == 200).await;
}

/// A gateway whose rules let the roles of these numbers see tools, and the caller's own among them.
async fn with_roles(targets: &[Target], roles: impl Iterator<Item = usize>) -> Gateway {
    let mut rules: Vec<Rule> = roles
        .map(|n| Rule {
            effect: Effect::Allow,
            expression: format!(r#""role-{n}" in jwt.roles && mcp.tool.name.matches("^tool_{}_{}[0-9]*$")"#, n % 5, n % 2000),
        })
        .collect();
    rules.push(Rule { effect: Effect::Deny, expression: r#"has(mcp.tool) && mcp.tool.name == "tool_1_1""#.into() });
    let claims = |roles: Value| serde_json::Map::from_iter([("roles".to_owned(), roles)]);
    let key = |id: &str, roles: Value| ApiKey { claims: claims(roles), ..api_key(id, &format!("key-of-{id}-1234567890")) };
    let few = json!(FEW.map(|n| format!("role-{n}")));
    let authentication = Authentication { jwt: Vec::new(), api_keys: vec![key("few", few), key("none", json!([]))], resource: None };
    let builder = targets.iter().fold(gateway(), |builder, target| builder.target(target));
    let start = Instant::now();
    let gateway = builder
        .config(|config| {
            config.authentication = Some(authentication);
            config.authorization = Some(rules);
        })
        .start()
        .await;
    println!("start: {:?}", start.elapsed());
    let status = format!("http://{}/status", gateway.admin_addr());
    within(Duration::from_secs(60), "all targets are there", async || {
        let servers = gateway.http.get(&status).await.json()["servers"].clone();
        (0..5).all(|at| servers[format!("t{at}")]["state"] == "connected")
    })
    .await;
    gateway
}

/// The caller's own roles.
const FEW: [usize; 3] = [7, 1, 9999];

// J12
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_roles_and_ten_thousand_tools_cost_what_the_callers_own_roles_cost() {
    const ROLES: usize = 10_000;
    let targets: Vec<Target> = (0..5)
        .map(|at| {
            let target = target(&format!("t{at}"));
            (0..2000).fold(target, |target, n| target.tool_def(json!({"name": format!("tool_{at}_{n}"), "inputSchema": {"type": "object"}})))
        })
        .collect();
    let alone = with_roles(&targets, FEW.into_iter()).await;
    let among_others = with_roles(&targets, 0..ROLES).await;
    let mut firsts = Vec::new();
    for gateway in [&alone, &among_others] {
        // Of `few`: 7, 70 to 79 and 700 to 799; 10 to 19, 100 to 199 and 1000 to 1999 without 1, which is denied; and 1999.
        for (id, expected) in [("few", 111 + 1110 + 1), ("none", 0)] {
            let client = gateway.connect(LEGACY).header("authorization", &format!("Bearer key-of-{id}-1234567890")).open().await;
            let start = Instant::now();
            let seen = client.tool_names().await;
            let first = start.elapsed();
            let start = Instant::now();
            client.tool_names().await;
            println!("{id}: {} tools, first list {first:?}, second {:?}", seen.len(), start.elapsed());
            assert_eq!(seen.len(), expected);
            firsts.push(first);
        }
        let few = gateway.connect(LEGACY).header("authorization", "Bearer key-of-few-1234567890").open().await;
        few.call("tool_2_7", json!({})).await.result();
        few.call("tool_1_1", json!({})).await.is_not_found("tool_1_1");
    }
    let [few, none, few_among_others, none_among_others] = firsts[..] else { panic!("four first lists") };
    for (mine, among_others) in [(few, few_among_others), (none, none_among_others)] {
        // A rule of somebody else's role is asked about once, not about each tool; with each it would take a thousand times as long.
        assert!(among_others < 5 * mine + Duration::from_millis(500), "{among_others:?} among {ROLES}, {mine:?} alone");
    }
}

// J12
#[tokio::test]
async fn a_pattern_that_compiles_to_more_than_a_mebibyte_is_refused_at_the_start() {
    for (pattern, said) in [("(a{1000}){1000}", "too large"), ("(", "not a pattern")] {
        let rule = Rule { effect: Effect::Allow, expression: format!("has(mcp.tool) && mcp.tool.name.matches(\"{pattern}\")") };
        let config = transom_gateway::Config { authorization: Some(vec![rule]), ..transom_gateway::Config::default() };
        let refused = transom_gateway::bind(config).await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(said), "{pattern}: {refused}");
    }
}
