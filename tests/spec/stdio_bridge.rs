//! `transom stdio`: a client on pipes, raw messages, a gateway behind it.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use transom_gateway::config::Authentication;
use transom_tests::children::free_port;
use transom_tests::process::{binary, stdio_entry};
use transom_tests::target::text;
use transom_tests::*;

const PATIENCE: Duration = Duration::from_secs(30);
const MODERN: &str = "2026-07-28";

/// A client that speaks lines.
struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    /// Everything that came and was not asked for yet.
    heard: Vec<Value>,
}

fn pipe(url: &str, arguments: &[&str]) -> Pipe {
    pipe_with(url, arguments, &[])
}

fn pipe_with(url: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Pipe {
    started(&[&["--url", url][..], arguments].concat(), environment)
}

fn started(arguments: &[&str], environment: &[(&str, &str)]) -> Pipe {
    let mut command = Command::new(binary());
    command.arg("stdio").args(arguments).env_remove("TRANSOM_URL").env_remove("TRANSOM_BEARER");
    command.envs(environment.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true).spawn().expect("it starts");
    let (input, output) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
    Pipe { child, input, output: BufReader::new(output).lines(), heard: Vec::new() }
}

impl Pipe {
    async fn line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("input is open");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    async fn send(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    async fn ask(&mut self, id: Value, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// The next line; every line is a message.
    async fn read(&mut self) -> Value {
        let line = timeout(PATIENCE, self.output.next_line()).await.expect("a line in time").expect("readable").expect("not the end");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("no message ({error}): {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// The first message that fits, in order of arrival; others are kept.
    async fn next(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            if let Some(at) = self.heard.iter().position(&fits) {
                return self.heard.remove(at);
            }
            assert!(begin.elapsed() < PATIENCE, "no {what}; heard {:?}", self.heard);
            let message = self.read().await;
            self.heard.push(message);
        }
    }

    async fn answer(&mut self, id: &Value) -> Value {
        self.next(&format!("answer to {id}"), |message| message.get("id") == Some(id) && message.get("method").is_none()).await
    }

    async fn notification(&mut self, method: &str) -> Value {
        self.next(method, |message| message["method"] == method && message.get("id").is_none()).await
    }

    async fn request(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.ask(id.clone(), method, params).await;
        self.answer(&id).await
    }

    async fn call(&mut self, id: Value, tool: &str, arguments: Value) -> Value {
        self.request(id, "tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "pipe", "version": "1"}});
        let answer = self.request(json!("init"), "initialize", params).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    async fn modern(&mut self, id: Value, method: &str, mut params: Value) -> Value {
        params["_meta"] = modern_meta();
        self.request(id, method, params).await
    }

    async fn tool_names(&mut self, id: Value) -> Vec<String> {
        let answer = self.request(id, "tools/list", json!({})).await;
        let mut names: Vec<String> = answer["result"]["tools"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"))
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    /// Says no more and waits for its end.
    async fn end(mut self) -> (std::process::ExitStatus, Vec<Value>) {
        drop(self.input.take());
        let mut rest = std::mem::take(&mut self.heard);
        while let Ok(Some(line)) = timeout(PATIENCE, self.output.next_line()).await.expect("the end in time") {
            rest.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("no message ({error}): {line}")));
        }
        (timeout(PATIENCE, self.child.wait()).await.expect("an end").unwrap(), rest)
    }
}

fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "pipe", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "p",
    })
}

#[tokio::test]
async fn a_legacy_client_on_pipes_has_a_session_like_any_other() {
    let a = target("a").tool("echo", ["q"]);
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    let opened = pipe.initialize(json!({})).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    assert_eq!(pipe.tool_names(json!(1)).await, ["echo"]);
    // Ids come back as they were spelled, and line breaks stay inside of strings.
    pipe.line(r#"{"jsonrpc":"2.0","id":"x\u0031","method":"tools/call","params":{"name":"echo","arguments":{"q":"a\nb"}}}"#).await;
    loop {
        let line = timeout(PATIENCE, pipe.output.next_line()).await.unwrap().unwrap().unwrap();
        if line.contains(r#""id":"x\u0031""#) {
            assert!(line.contains(r#""q":"a\nb""#), "{line}");
            break;
        }
    }
    assert_eq!(gateway.metric("transom_sessions").await, 1.0, "one session");
    let (status, rest) = pipe.end().await;
    assert!(status.success() && rest.iter().all(|message| message.get("id").is_none()), "{status} {rest:?}");
    eventually("the session is ended", || async { gateway.metric("transom_sessions").await == 0.0 }).await;
}

#[tokio::test]
async fn a_modern_client_on_pipes_needs_no_session() {
    let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "q": {}}});
    let a = target("a").tool("echo", ["q"]).tool_def(json!({"name": "marked", "inputSchema": schema})).resource("res://1");
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    let discovered = pipe.modern(json!(1), "server/discover", json!({})).await;
    assert!(discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)), "{discovered}");
    let called = pipe.modern(json!(2), "tools/call", json!({"name": "echo", "arguments": {"q": "é"}})).await;
    assert_eq!(called["result"]["structuredContent"]["arguments"]["q"], "é", "{called}");
    assert_eq!(called["result"]["resultType"], "complete");
    // An argument that has to be a header too: the client on a pipe does not know, and need not.
    for id in 3..5 {
        let called = pipe.modern(json!(id), "tools/call", json!({"name": "marked", "arguments": {"region": "süd", "q": id}})).await;
        assert_eq!(called["result"]["structuredContent"]["arguments"]["region"], "süd", "{called}");
    }
    assert_eq!(a.calls().len(), 3, "none was run twice");
    let uri = pipe.modern(json!(6), "resources/list", json!({})).await["result"]["resources"][0]["uri"].as_str().unwrap().to_owned();
    let read = pipe.modern(json!(7), "resources/read", json!({"uri": uri})).await;
    assert!(read["result"]["contents"].is_array(), "{read}");
    let unknown = pipe.modern(json!(8), "tools/call", json!({"name": "nope", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(gateway.metric("transom_sessions").await, 0.0);
    assert!(pipe.end().await.0.success());
}

#[tokio::test]
async fn many_requests_run_at_once_and_each_gets_its_own_answer() {
    let a = target("a").slow("slow", Duration::from_millis(700));
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({})).await;
    let begin = Instant::now();
    for id in 0..60 {
        let meta = if id % 2 == 0 { json!({}) } else { modern_meta() };
        pipe.ask(json!(id), "tools/call", json!({"name": "slow", "arguments": {"nonce": id}, "_meta": meta})).await;
    }
    for id in 0..60 {
        let answer = pipe.answer(&json!(id)).await;
        assert_eq!(answer["result"]["structuredContent"]["arguments"]["nonce"], id, "{answer}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "one after the other would take 42 seconds, not {:?}", begin.elapsed());
}

#[tokio::test]
async fn progress_arrives_while_a_call_runs() {
    let a = target("a").tool("work", []).handler("work", |_, context| async move {
        for step in 1..=3 {
            context.progress(step);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(text("done"))
    });
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({})).await;
    for (id, meta) in [(1, json!({"progressToken": "p"})), (2, modern_meta())] {
        pipe.ask(json!(id), "tools/call", json!({"name": "work", "arguments": {}, "_meta": meta})).await;
        for step in 1..=3 {
            let progress = pipe.notification("notifications/progress").await;
            assert_eq!((&progress["params"]["progress"], &progress["params"]["progressToken"]), (&json!(step), &json!("p")), "{progress}");
            assert!(!pipe.heard.iter().any(|message| message["id"] == id), "the answer came before");
        }
        assert_eq!(pipe.answer(&json!(id)).await["result"]["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_target_in_either_era() {
    let a = target("a").slow("slow", Duration::from_secs(60));
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({})).await;
    for (id, meta) in [(7, json!({})), (8, modern_meta())] {
        let before = a.calls().len();
        pipe.ask(json!(id), "tools/call", json!({"name": "slow", "arguments": {"nonce": id}, "_meta": meta})).await;
        eventually("the call runs", || async { a.calls().len() == before + 1 }).await;
        pipe.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}})).await;
        eventually("the target is told", || async { a.cancelled().len() == before + 1 }).await;
    }
    // Others go on, and nothing is said about those that were given up.
    assert_eq!(pipe.tool_names(json!(9)).await, ["slow"]);
    let (status, rest) = pipe.end().await;
    assert!(status.success(), "{status}");
    assert!(rest.iter().all(|message| message["id"] != 7 && message["id"] != 8), "{rest:?}");
}

#[tokio::test]
async fn what_belongs_to_no_request_arrives_too() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({})).await;
    eventually("its stream is open", || async { gateway.metric("transom_streams_open").await >= 1.0 }).await;
    a.set_tools(["echo", "more"]);
    a.notify_list_changed();
    pipe.notification("notifications/tools/list_changed").await;
    assert_eq!(pipe.tool_names(json!(1)).await, ["echo", "more"]);
    // The modern way: a subscription is a request that lasts.
    let listen = json!({"notifications": {"toolsListChanged": true}, "_meta": modern_meta()});
    pipe.ask(json!("sub"), "subscriptions/listen", listen).await;
    pipe.notification("notifications/subscriptions/acknowledged").await;
    a.set_tools(["third"]);
    a.notify_list_changed();
    pipe.next("a tagged notification", |message| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub" && message["method"] == "notifications/tools/list_changed"
    })
    .await;
    let begin = Instant::now();
    assert!(pipe.end().await.0.success());
    assert!(begin.elapsed() < Duration::from_secs(8), "a subscription holds up no end: {:?}", begin.elapsed());
}

#[tokio::test]
async fn questions_of_a_server_reach_the_client_and_its_answers_the_server() {
    let a = target("a").tool("ask", []).handler("ask", |_, context| async move {
        let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}});
        let answer = context.ask("elicitation/create", form).await.unwrap_or_else(|error| error);
        Ok(text(&answer["content"]["name"].to_string()))
    });
    let gateway = gateway().target_with(&a, |spec| spec.allow_server_requests = true).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({"elicitation": {}})).await;
    pipe.ask(json!(1), "tools/call", json!({"name": "ask", "arguments": {}})).await;
    let question = pipe.next("a question", |message| message["method"] == "elicitation/create").await;
    pipe.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ann"}}})).await;
    assert_eq!(pipe.answer(&json!(1)).await["result"]["content"][0]["text"], "\"Ann\"");
}

#[tokio::test]
async fn a_gateway_that_is_down_is_an_error_to_each_request_and_no_end() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let mut pipe = pipe(&url, &[]);
    for (id, meta) in [(1, json!({})), (2, modern_meta())] {
        let answer = pipe.request(json!(id), "tools/list", json!({"_meta": meta})).await;
        assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["executed"]), (&json!(1002), &json!(false)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(&url), "{answer}");
    }
    let refused = pipe.initialize(json!({})).await;
    assert_eq!(refused["error"]["code"], 1002, "{refused}");
    let process = process().stdio("child", json!({"tools": ["echo"]})).argument("--port").argument(&port.to_string()).start_ready().await;
    pipe.initialize(json!({})).await;
    assert_eq!(pipe.tool_names(json!(3)).await, ["echo"], "as soon as it is there it is used");
    process.signal(libc::SIGKILL);
    eventually("it is gone", || async { sys::process(process.pid()).is_none_or(|process| process.state == 'Z') }).await;
    let answer = pipe.call(json!(4), "echo", json!({})).await;
    assert!([1002, 1003].contains(&answer["error"]["code"].as_i64().unwrap()), "{answer}");
    assert!(pipe.end().await.0.success(), "nor is a session that cannot be ended");
}

#[tokio::test]
async fn a_client_goes_on_when_the_gateway_was_restarted() {
    let port = free_port().to_string();
    let start = async |tools: Value| process().stdio("child", json!({"tools": tools})).argument("--port").argument(&port).start_ready().await;
    let first = start(json!(["echo"])).await;
    let mut pipe = pipe(&format!("http://127.0.0.1:{port}/mcp"), &[]);
    pipe.initialize(json!({})).await;
    assert_eq!(pipe.tool_names(json!(1)).await, ["echo"]);
    first.signal(libc::SIGKILL);
    eventually("it is gone", || async { sys::process(first.pid()).is_none_or(|process| process.state == 'Z') }).await;
    let _second = start(json!(["echo", "more"])).await;
    // It does not know the session; the client is not troubled with that, but told to look at the lists again.
    let answer = pipe.call(json!(2), "echo", json!({"q": 1})).await;
    assert_eq!(answer["result"]["structuredContent"]["arguments"]["q"], 1, "{answer}");
    pipe.notification("notifications/tools/list_changed").await;
    assert_eq!(pipe.tool_names(json!(3)).await, ["echo", "more"]);
    assert!(pipe.end().await.0.success());
}

#[tokio::test]
async fn the_last_calls_are_waited_for_and_the_session_is_ended() {
    let a = target("a").slow("slow", Duration::from_secs(1));
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({})).await;
    pipe.ask(json!(1), "tools/call", json!({"name": "slow", "arguments": {"nonce": 5}})).await;
    eventually("the call runs", || async { a.calls().len() == 1 }).await;
    let (status, rest) = pipe.end().await;
    assert!(status.success());
    assert!(rest.iter().any(|message| message["id"] == 1 && message["result"]["structuredContent"]["arguments"]["nonce"] == 5), "{rest:?}");
    eventually("the session is ended", || async { gateway.metric("transom_sessions").await == 0.0 }).await;
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_costs_nothing_else() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    for (line, code) in [
        ("hello", -32700),
        ("{\"jsonrpc\":\"2.0\"", -32700),
        ("{}", -32600),
        ("7", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
    ] {
        pipe.line(line).await;
        let answer = pipe.read().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &Value::Null), "{line}: {answer}");
    }
    pipe.line("").await;
    pipe.line("   ").await;
    // Larger than any message may be.
    pipe.line(&"x".repeat(33 << 20)).await;
    assert_eq!(pipe.read().await["error"]["code"], -32600);
    pipe.initialize(json!({})).await;
    assert_eq!(pipe.tool_names(json!(1)).await, ["echo"]);
}

#[tokio::test]
async fn a_token_comes_from_the_environment_and_a_refusal_is_told() {
    let a = target("a").tool("echo", []);
    let authentication = Authentication { api_keys: vec![api_key("pipe", "s3cret")], ..Authentication::default() };
    let gateway = gateway().target(&a).config(|config| config.authentication = Some(authentication)).start().await;
    let mut stranger = pipe(&gateway.url("/mcp"), &[]);
    let refused = stranger.initialize(json!({})).await;
    assert!(refused["error"]["message"].is_string(), "{refused}");
    assert!(stranger.end().await.0.success());
    let mut known = pipe_with(&gateway.url("/mcp"), &["--token-env", "MY_TOKEN"], &[("MY_TOKEN", "s3cret")]);
    known.initialize(json!({})).await;
    assert_eq!(known.tool_names(json!(1)).await, ["echo"]);
    let output = Command::new(binary()).args(["stdio", "--token-env", "NOT_SET_ANYWHERE"]).stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{output:?}");
}

/// A gateway that opens sessions, then takes whatever mentions `stuck` and never answers; everything it was sent.
async fn half_deaf() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(half_deaf_connection(stream, log.clone()));
        }
    });
    (url, seen)
}

async fn half_deaf_connection(stream: tokio::net::TcpStream, log: Arc<Mutex<Vec<String>>>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begin = head.len();
            if read.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
            length = head[begin..].to_lowercase().strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        log.lock().unwrap().push(if body.is_empty() { head[..head.find(' ').unwrap()].to_owned() } else { body.clone() });
        if body.contains("stuck") {
            return std::future::pending().await;
        }
        let result = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}});
        let (status, body) = match serde_json::from_str::<Value>(&body) {
            Ok(message) if message["id"].is_null() => ("202 Accepted", String::new()),
            Ok(message) => ("200 OK", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()),
            Err(_) => ("405 Method Not Allowed", String::new()),
        };
        let head = format!("HTTP/1.1 {status}\r\nmcp-session-id: s\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        write.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn whatever_the_gateway_does_not_answer_the_next_lines_are_read() {
    let (url, seen) = half_deaf().await;
    let mut pipe = pipe(&url, &[]);
    pipe.initialize(json!({})).await;
    pipe.line(r#"[{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"stuck"}}]"#).await;
    pipe.send(json!({"jsonrpc": "2.0", "method": "notifications/stuck"})).await;
    let begin = Instant::now();
    pipe.request(json!(1), "ping", json!({})).await;
    pipe.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "b"}})).await;
    eventually("the cancellation is told", || async { seen.lock().unwrap().iter().any(|body| body.contains("cancelled")) }).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let begin = Instant::now();
    assert!(pipe.end().await.0.success());
    assert!(begin.elapsed() < Duration::from_secs(14), "the end is seen too: {:?}", begin.elapsed());
    assert!(seen.lock().unwrap().iter().any(|body| body == "DELETE"), "and the session ended");
}

#[tokio::test]
async fn a_handshake_that_gets_no_answer_holds_up_no_end_and_is_answered_there() {
    let (url, _) = half_deaf().await;
    let mut pipe = pipe(&url, &[]);
    pipe.ask(json!("init"), "initialize", json!({"stuck": true})).await;
    pipe.ask(json!(1), "tools/list", json!({})).await;
    let begin = Instant::now();
    let (status, rest) = pipe.end().await;
    assert!(status.success() && begin.elapsed() < Duration::from_secs(14), "{status} {:?}", begin.elapsed());
    for id in [json!("init"), json!(1)] {
        let answer = rest.iter().find(|message| message["id"] == id).unwrap_or_else(|| panic!("{id}: {rest:?}"));
        assert!(answer["error"]["message"].as_str().unwrap().contains("the input has ended"), "{answer}");
        assert_eq!(answer["error"]["data"]["executed"], "unknown", "{answer}");
    }
}

#[tokio::test]
async fn all_lines_at_once_and_no_line_break_at_the_end_lose_nothing() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string(),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}).to_string(),
    ];
    pipe.input.as_mut().unwrap().write_all(lines.join("\n").as_bytes()).await.unwrap();
    let (status, rest) = pipe.end().await;
    assert!(status.success());
    for id in [1, 2] {
        assert!(rest.iter().any(|message| message["id"] == id && message["result"].is_object()), "{id}: {rest:?}");
    }
    eventually("the session is ended", || async { gateway.metric("transom_sessions").await == 0.0 }).await;
}

#[tokio::test]
async fn a_batch_that_a_revision_does_not_know_is_refused_by_the_gateway_in_its_own_words() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({})).await;
    for batch in [r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#] {
        pipe.line(batch).await;
        let refused = pipe.next("a refusal", |message| message.get("error").is_some()).await;
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32600), &Value::Null), "{refused}");
    }
}

#[tokio::test]
async fn standard_input_is_the_clients_and_no_config() {
    let output = Command::new(binary()).args(["stdio", "-f", "-"]).stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard input is the client's"), "{output:?}");
}

#[tokio::test]
async fn a_signal_ends_it_in_order() {
    let a = target("a").slow("slow", Duration::from_secs(60));
    let gateway = gateway().target(&a).start().await;
    let mut pipe = pipe(&gateway.url("/mcp"), &[]);
    pipe.initialize(json!({})).await;
    pipe.ask(json!(1), "tools/call", json!({"name": "slow", "arguments": {}})).await;
    eventually("the call runs", || async { a.calls().len() == 1 }).await;
    sys::signal(i32::try_from(pipe.child.id().unwrap()).unwrap(), libc::SIGTERM);
    let status = timeout(PATIENCE, pipe.child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    eventually("the session is ended", || async { gateway.metric("transom_sessions").await == 0.0 }).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_any_more_ends_it() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let Pipe { mut child, input, output, .. } = pipe(&gateway.url("/mcp"), &[]);
    drop(output);
    let mut input = input.unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string() + "\n";
    let status = timeout(PATIENCE, async {
        loop {
            let _ = input.write_all(ping.as_bytes()).await;
            if let Ok(Some(status)) = child.try_wait() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(status.await.expect("it ends").success());
}

#[tokio::test]
async fn with_a_config_the_gateway_is_inside() {
    let folder = tempfile::tempdir().unwrap();
    let (config, mark) = (folder.path().join("config.yaml"), unique("inside"));
    let targets = [stdio_entry("child", json!({"tools": ["echo"], "mark": mark}))];
    // Its address is of no use here, and it may well be taken.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = json!({"listen": taken.local_addr().unwrap().to_string(), "backends": [{"mcp": {"targets": targets}}]});
    std::fs::write(&config, text.to_string()).unwrap();
    let mut pipe = started(&["--config", config.to_str().unwrap()], &[]);
    pipe.initialize(json!({})).await;
    assert_eq!(pipe.call(json!(1), "echo", json!({"q": 2})).await["result"]["structuredContent"]["arguments"]["q"], 2);
    assert_eq!(sys::marked(&mark).len(), 1);
    assert!(pipe.end().await.0.success());
    eventually("its children are gone", || async { sys::marked(&mark).is_empty() }).await;
    std::fs::write(&config, "backnds: []").unwrap();
    let output = Command::new(binary()).args(["stdio", "-f"]).arg(&config).stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("backends"), "{output:?}");
}
