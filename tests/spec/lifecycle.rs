//! The real binary: how it starts, reloads, drains and ends (R-003-42).

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};
use transom_tests::process::{binary, stdio_entry};
use transom_tests::*;

// R-003-42, R-003-8, surfaces.md 9
#[tokio::test]
async fn it_serves_the_targets_of_its_config() {
    let a = target("a").tool("add", []);
    let process = process().target(&a).stdio("child", json!({"tools": ["echo"]})).start_ready().await;
    let client = process.client().await;
    assert_eq!(client.tool_names().await, ["add", "echo"]);
    assert_eq!(client.call("echo", json!({"q": 1})).await.structured()["arguments"]["q"], 1);
    assert_eq!(std::fs::read_to_string(process.file("pid")).unwrap().trim(), process.pid().to_string());
    let url = std::fs::read_to_string(process.file("url")).unwrap();
    assert!(url.trim().starts_with("http://127.0.0.1:") && !url.trim().ends_with('/'), "{url}");
}

// R-001-10, R-001-14
#[tokio::test]
async fn it_starts_without_a_config_on_a_free_port() {
    let process = process().without_config().start().await;
    assert!(process.client().await.tool_names().await.is_empty());
    assert!(process.stdout().contains("http://127.0.0.1:") || process.stderr().contains("http://127.0.0.1:"), "one line with its URL");
    let other = transom_tests::process().without_config().argument("--port").argument("0").start().await;
    assert_ne!(process.url(""), other.url(""));
}

// surfaces.md 9: one line with its URL; the files appear whole, once the socket is bound.
#[tokio::test]
async fn whoever_finds_the_url_file_finds_the_gateway() {
    let process = process().without_config().spawn();
    eventually("the file appears", || async { process.file("url").exists() }).await;
    let url = std::fs::read_to_string(process.file("url")).unwrap();
    let address = url.strip_prefix("http://").expect("the whole of it, at once");
    std::net::TcpStream::connect(address).expect("somebody listens there");
    eventually("its pid is known", || async { std::fs::read_to_string(process.file("pid")).is_ok_and(|pid| pid == process.pid().to_string()) }).await;
    eventually("it says so", || async { process.stdout() == format!("transom listening on {url}/mcp\n") }).await;
}

// R-001-15, R-001-16
#[tokio::test]
async fn a_port_is_taken_as_told_or_the_conflict_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let first = process().without_config().argument("--port").argument(&free.to_string()).start().await;
    assert!(first.url("").ends_with(&format!(":{free}")));
    let mut second = process().without_config().argument("--port").argument(&free.to_string()).spawn();
    let status = second.wait().await;
    assert_eq!(status.code(), Some(1));
    assert!(second.stderr().contains(&free.to_string()), "{}", second.stderr());
    assert!(!second.file("url").exists() && !second.file("pid").exists());
}

// R-001-13, R-001-19, surfaces.md 9
#[tokio::test]
async fn it_ends_in_order_on_sigterm_and_sigint() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mark = unique("order");
        let mut process = process().stdio("child", json!({"mark": mark})).start_ready().await;
        assert_eq!(sys::marked(&mark).len(), 1);
        let start = Instant::now();
        process.signal(signal);
        assert_eq!(process.wait().await.code(), Some(0), "{}", process.stderr());
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert!(sys::marked(&mark).is_empty(), "a child is left");
        assert!(!process.file("url").exists() && !process.file("pid").exists(), "its files are gone");
    }
}

// M4, T14: whoever does not read the log holds up neither calls nor the end.
#[tokio::test]
async fn it_ends_though_nobody_reads_its_log() {
    let a = target("a").tool("echo", []);
    let (_unread, log) = std::io::pipe().unwrap();
    let mut process = process().target(&a).env("LOG_LEVEL", "trace").stderr(log).start_ready().await;
    let client = process.client().await;
    // A pipe holds 64 KiB, a call is logged in more than 200 bytes.
    for n in 0..400 {
        client.call("echo", json!({"n": n})).await.result();
    }
    process.signal(libc::SIGTERM);
    let start = Instant::now();
    assert_eq!(process.wait().await.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

// Must show: SIGTERM with 50 calls of two seconds in flight. T11
#[tokio::test]
async fn no_call_in_flight_is_lost_on_sigterm() {
    let mark = unique("drain");
    let a = target("a").slow("slow", Duration::from_secs(2));
    let mut process = process().target(&a).stdio("child", json!({"mark": mark, "tools": ["sleep"]})).start_ready().await;
    let client = process.client().await;
    let mut stream = client.stream().await;
    let calls: Vec<_> = (0..50)
        .map(
            |n| if n % 2 == 0 { client.start_call("slow", json!({"nonce": n})) } else { client.start_call("sleep", json!({"ms": 2000, "nonce": n})) },
        )
        .collect();
    eventually("the calls are under way", || async { a.calls().len() == 25 }).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    process.signal(libc::SIGTERM);
    for (n, call) in calls.into_iter().enumerate() {
        let reply = call.reply().await;
        let seen = if n % 2 == 0 { reply.structured()["arguments"]["nonce"].to_string() } else { reply.text().replace("slept ", "") };
        assert_eq!(seen, n.to_string(), "{}", reply.raw);
    }
    assert_eq!(process.wait().await.code(), Some(0));
    assert!(sys::marked(&mark).is_empty(), "a child is left");
    let end = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
    assert!(matches!(end, Ok(None)), "a stream ends in order");
}

// security.md vocabulary: draining.
#[tokio::test]
async fn while_it_drains_it_is_not_ready_and_takes_nothing_new() {
    let a = target("a").slow("slow", Duration::from_secs(3)).tool("echo", []);
    let mut process = process().target(&a).start_ready().await;
    let client = process.client().await;
    let call = client.start_call("slow", json!({}));
    eventually("the call is under way", || async { a.calls().len() == 1 }).await;
    process.signal(libc::SIGTERM);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}});
    eventually("new calls are refused", || async {
        match Http::new().try_send("POST", &process.url("/mcp"), &[("content-type", "application/json")], body.to_string()).await {
            Err(_) => true,
            Ok(response) => response.status == 503,
        }
    })
    .await;
    call.reply().await.result();
    assert_eq!(process.wait().await.code(), Some(0));
}

// K3, T12: SIGKILL of the gateway leaves no child.
#[tokio::test]
async fn no_child_outlives_a_killed_gateway() {
    let mark = unique("orphan");
    let process = process()
        .stdio("polite", json!({"mark": mark}))
        .stdio("stubborn", json!({"mark": mark, "ignoreEof": true, "ignoreTerm": true}))
        .start_ready()
        .await;
    eventually("both children run", || async { sys::marked(&mark).len() == 2 }).await;
    process.signal(libc::SIGKILL);
    within(Duration::from_secs(2), "no child is left", || async { sys::marked(&mark).is_empty() }).await;
}

// Must show: one of three targets killed with SIGKILL.
#[tokio::test]
async fn one_of_three_killed_costs_its_tools_for_a_moment_and_nobody_else_anything() {
    let mark = unique("victim");
    let a = target("a").tool("add", []);
    let process = process()
        .target(&a)
        .stdio("other", json!({"tools": ["other"]}))
        .stdio("victim", json!({"tools": ["echo"], "mark": mark, "startMs": 700}))
        .start_ready()
        .await;
    let client = process.client().await;
    let mut stream = client.stream().await;
    let busy = tokio::spawn({
        let client = client.clone();
        async move {
            for n in 0..600 {
                client.call(["add", "other"][n % 2], json!({})).await.result();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    // Notifications of the start are over.
    stream.drain(Duration::from_millis(1500)).await;
    let old = sys::marked(&mark)[0].pid;
    let start = Instant::now();
    sys::signal(old, 9);
    stream.notification("notifications/tools/list_changed").await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(client.tool_names().await, ["add", "other"], "within a second its tools are gone");
    eventually("it is back by itself", || async { client.tool_names().await == ["add", "echo", "other"] }).await;
    client.call("echo", json!({})).await.result();
    busy.await.unwrap();
    let told = stream.drain(Duration::from_millis(300)).await.len();
    assert!(told <= 1, "once for the loss, once for the return, not {}", told + 1);
    assert!(process.children().iter().all(|child| child.state != 'Z'), "a zombie is left");
}

// R-003-42, operations.md 1: the config is watched.
#[tokio::test]
async fn targets_come_and_go_with_the_config_file() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let mark = unique("reload");
    let mut process = process().target(&a).start_ready().await;
    let client = process.client().await;
    let mut stream = client.stream().await;
    process.rewrite(|config| {
        let targets = config["backends"][0]["mcp"]["targets"].as_array_mut().unwrap();
        targets.push(json!({"name": "b", "mcp": {"host": b.url()}}));
        targets.push(stdio_entry("child", json!({"tools": ["third"], "mark": mark})));
    });
    stream.notification("notifications/tools/list_changed").await;
    eventually("the new targets serve", || async { client.tool_names().await == ["add", "echo", "third"] }).await;
    assert_eq!(a.initializes(), 1, "a target that did not change keeps its connection");
    // A bad config changes nothing.
    std::fs::write(process.file("config.yaml"), "backends: [").unwrap();
    eventually("the mistake is logged", || async { process.stderr().contains("config.yaml") }).await;
    assert_eq!(client.tool_names().await, ["add", "echo", "third"]);
    process.rewrite(|config| drop(config["backends"][0]["mcp"]["targets"].as_array_mut().unwrap().drain(1..)));
    eventually("removed targets are gone", || async { client.tool_names().await == ["echo"] }).await;
    eventually("the child is gone too", || async { sys::marked(&mark).is_empty() }).await;
}

// operations.md 1, T3: whoever writes a file in place empties it first.
#[tokio::test]
async fn an_emptied_config_closes_nothing() {
    let a = target("a").tool("echo", []);
    let mut process = process().target(&a).start_ready().await;
    let client = process.client().await;
    std::fs::write(process.file("config.yaml"), "\n").unwrap();
    process.signal(libc::SIGHUP);
    eventually("it is said", || async { process.stderr().contains("it is empty") }).await;
    assert_eq!(client.tool_names().await, ["echo"]);
    assert_eq!(a.initializes(), 1, "the connection stayed");
    process.rewrite(|config| config["backends"][0]["mcp"]["targets"] = json!([]));
    eventually("a config without targets counts", || async { client.tool_names().await.is_empty() }).await;
}

// operations.md 1: a mistake is pointed at.
#[tokio::test]
async fn a_mistake_in_the_config_is_pointed_at() {
    let mut process = process().config(|config| config["backnds"] = json!([])).spawn();
    let status = process.wait().await;
    assert_ne!(status.code(), Some(0));
    let stderr = process.stderr();
    assert!(stderr.contains("backnds") && stderr.contains("backends"), "did you mean: {stderr}");
    assert!(stderr.contains("config.yaml:"), "the place: {stderr}");
}

// R-001-45, R-001-48
#[tokio::test]
async fn the_log_level_decides_what_is_logged() {
    let a = target("a").tool("echo", []);
    let loud = process().target(&a).env("LOG_LEVEL", "info").start_ready().await;
    let quiet = process().target(&a).env("LOG_LEVEL", "error").start_ready().await;
    for process in [&loud, &quiet] {
        process.client().await.call("echo", json!({"q": "ARGUMENT-VALUE"})).await.result();
    }
    eventually("the call is logged", || async { !loud.log(&["tools/call", "echo"]).is_empty() }).await;
    let line: Value = serde_json::from_str(&loud.log(&["tools/call", "echo"])[0]).expect("JSON off a terminal");
    assert!(line.to_string().contains("duration"), "{line}");
    assert!(quiet.log(&["tools/call"]).is_empty(), "{}", quiet.stderr());
    assert!(!loud.stderr().contains("ARGUMENT-VALUE"));
}

// K7, J: what a hostile child writes does not stay in memory.
#[tokio::test]
async fn a_hostile_child_does_not_grow_the_gateway() {
    let process = process().stdio("child", json!({"endless": 200 << 20, "stderr": 1 << 20})).start_ready().await;
    let client = process.client().await;
    let before = sys::resident(process.pid());
    assert_eq!(client.call("echo", json!({})).await.error_code(), 1005);
    let after = sys::resident(process.pid());
    assert!(after < before + (64 << 20), "{} MiB more", (after.saturating_sub(before)) >> 20);
}

// layout: descriptors do not leak over connects and disconnects.
#[tokio::test]
async fn descriptors_do_not_leak() {
    let a = target("a").tool("echo", []);
    let process = process().target(&a).start_ready().await;
    let round = async || {
        for _ in 0..50 {
            let client = process.client().await;
            let _stream = client.stream().await;
            client.call("echo", json!({})).await.result();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        sys::descriptors(process.pid())
    };
    let before = round().await;
    let after = round().await;
    assert!(after <= before + 10, "{before} descriptors, then {after}");
}

// operations.md 1: the mcpServers form, by shape.
#[tokio::test]
async fn a_desktop_clients_file_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("claude.json");
    let servers = json!({"mcpServers": {"child": {"command": stdio::binary(), "args": [json!({"tools": ["echo"]}).to_string()]}}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let process = process().without_config().argument("-f").argument(&file.display().to_string()).start_ready().await;
    assert_eq!(process.client().await.tool_names().await, ["echo"]);
}

// surfaces.md 9, issue 2: `list` and `call` against any gateway.
#[tokio::test]
async fn list_and_call_are_clients_of_any_gateway() {
    let a = target("a").tool_def(json!({"name": "add", "description": "adds", "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}, "s": {"type": "string"}}}}));
    let gateway = gateway().target(&a).start().await;
    let run = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(binary());
        command.args(arguments).arg("--url").arg(gateway.url("/mcp")).env("NO_COLOR", "1");
        command.output().await.unwrap()
    };
    let output = run(&["list"]).await;
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("add"), "{output:?}");
    let output = run(&["call", "add", "x=3", "s=4"]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(a.calls(), [("add".to_owned(), json!({"x": 3, "s": "4"}))], "values follow the schema");
    assert_eq!(run(&["call", "nope"]).await.status.code(), Some(5));
    let mut unreachable = tokio::process::Command::new(binary());
    let output = unreachable.args(["list", "--url", "http://127.0.0.1:1/mcp"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

// R-005-7
#[test]
fn the_top_level_is_laid_out_as_promised() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["Cargo.toml", "crates", "schema", "examples", "architecture", "tests", "Makefile"] {
        assert!(root.join(name).exists(), "{name} is missing");
    }
}

// R-005-2, R-005-3
#[test]
fn the_stages_stand_in_one_file_in_the_order_a_message_meets_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let stack = std::fs::read_to_string(root.join("crates/gateway/src/stack.rs")).expect("the stack is one file");
    let layers: Vec<&str> =
        stack.lines().filter(|line| line.trim_start().starts_with(".layer(") || line.trim_start().starts_with(".service(")).collect();
    let mut at = 0;
    for stage in ["Observe", "Authenticate", "Session", "Names", "Authorize", "Virtualize", "Dispatch"] {
        let found = layers.iter().skip(at).position(|line| line.contains(stage));
        at += found.unwrap_or_else(|| panic!("{stage} is not among the layers after line {at}: {layers:#?}")) + 1;
    }
    let manifest = std::fs::read_to_string(root.join("crates/gateway/Cargo.toml")).unwrap();
    assert!(manifest.contains("arc-swap") && manifest.contains("tower") && manifest.contains("prometheus-client"));
}

// operations.md 1: TLS on the main listener; a target may have a certificate authority of its own.
#[tokio::test]
async fn a_gateway_with_tls_is_reached_by_another_one_that_trusts_it() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/upstream/tests/fixtures");
    let files = transom_gateway::TlsFiles { cert: fixtures.join("localhost.pem"), key: fixtures.join("localhost.key") };
    let inner = target("inner").tool("echo", ["q"]);
    let secure = gateway().target(&inner).config(|config| config.tls = Some(files)).start().await;
    let url: hyper::Uri = format!("https://localhost:{}/mcp", secure.addr().port()).parse().unwrap();
    let spec = |ca: Option<&str>| transom_upstream::TargetSpec {
        transport: transom_upstream::Transport::Http {
            url: url.clone(),
            headers: Vec::new(),
            tls: ca.map(|file| std::sync::Arc::new(transom_upstream::ClientTls { ca: Some(fixtures.join(file)), identity: None })),
        },
        name: "secure".into(),
        ..inner.spec()
    };
    let outer = gateway().spec(spec(Some("ca.pem"))).start().await;
    assert_eq!(outer.client().await.call("echo", json!({"q": "through both"})).await.structured()["arguments"]["q"], "through both");
    // Whoever does not trust the authority does not connect.
    let stranger = gateway().spec(spec(None)).start().await;
    // Between two attempts, that is.
    eventually("`secure` is unavailable", async || stranger.state_of("secure").await == "unavailable").await;
    assert_eq!(inner.calls().len(), 1);
}
