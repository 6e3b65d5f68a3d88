//! The client against servers that follow a script: what it says to them, and what it makes of their answers.

use super::*;
use http_body_util::combinators::BoxBody;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

/// A request as the server saw it.
#[derive(Clone, Debug)]
struct Seen {
    method: HttpMethod,
    headers: HeaderMap,
    body: Value,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or("")
    }

    fn result(&self, result: Value) -> Reply {
        json_reply(200, json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }
}

type Reply = Response<BoxBody<Bytes, Infallible>>;
type Log = Arc<Mutex<Vec<Seen>>>;

fn reply(status: u16, kind: &str, body: String) -> Reply {
    Response::builder().status(status).header(CONTENT_TYPE, kind).body(Full::new(Bytes::from(body)).boxed()).unwrap()
}

fn json_reply(status: u16, body: Value) -> Reply {
    reply(status, "application/json; charset=utf-8", body.to_string())
}

/// A server that answers as told and remembers what it was asked.
async fn server(script: impl Fn(&Seen) -> Reply + Clone + Send + Sync + 'static) -> (Endpoint, Log) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url: Uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let log = Log::default();
    let seen = log.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (script, seen) = (script.clone(), seen.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (script, seen) = (script.clone(), seen.clone());
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let request = Seen { method: parts.method, headers: parts.headers, body: serde_json::from_slice(&body).unwrap_or_default() };
                    seen.lock().unwrap().push(request.clone());
                    Ok::<_, Infallible>(script(&request))
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    (Endpoint { url, headers: HeaderMap::new(), timeout: Duration::from_secs(5) }, log)
}

fn modern(seen: &Seen) -> Reply {
    match (seen.rpc(), seen.body["params"]["cursor"].as_str()) {
        ("server/discover", _) => seen.result(json!({"resultType": "complete", "supportedVersions": ["2025-11-25", "2026-07-28"], "capabilities": {}})),
        ("tools/list", None) => seen.result(json!({"tools": [{"name": "grüße"}], "nextCursor": "p2"})),
        ("tools/list", Some("p2")) => seen.result(json!({"tools": [
            {"name": "b", "inputSchema": {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "in": {"properties": {"n": {"x-mcp-header": "N"}}}}}},
            "not a tool",
        ]})),
        ("tools/call", _) => seen.result(json!({"content": [{"type": "text", "text": "done"}]})),
        _ => json_reply(404, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32601, "message": "no such method"}})),
    }
}

#[tokio::test]
async fn a_modern_server_is_asked_without_a_handshake_and_every_page_is_read() {
    let (endpoint, log) = server(modern).await;
    let mut client = Client::connect(endpoint).await.unwrap();
    let tools = client.tools().await.unwrap();
    assert_eq!(tools.iter().map(Tool::name).collect::<Vec<_>>(), ["grüße", "b"]);
    client.call(&tools[0], "{}").await.unwrap();
    client.call(&tools[1], r#"{"region":" ü","in":{"n":12345678901234567890}}"#).await.unwrap();
    client.close().await;

    let log = log.lock().unwrap();
    let asked: Vec<_> = log.iter().map(Seen::rpc).collect();
    assert_eq!(asked, ["server/discover", "tools/list", "tools/list", "tools/call", "tools/call"]);
    for seen in log.iter() {
        assert_eq!((seen.header("mcp-protocol-version"), seen.header("mcp-method")), ("2026-07-28", seen.rpc()));
        assert_eq!(seen.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(seen.body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "transom");
        assert!(seen.header("accept").contains("application/json") && seen.header("accept").contains("text/event-stream"));
        assert_eq!(seen.header("mcp-session-id"), "");
    }
    assert_eq!(log[3].header("mcp-name"), "=?base64?Z3LDvMOfZQ==?=");
    assert_eq!(
        (log[4].header("mcp-name"), log[4].header("mcp-param-region"), log[4].header("mcp-param-n")),
        ("b", "=?base64?IMO8?=", "12345678901234567890")
    );
}

#[tokio::test]
async fn a_server_that_goes_away_in_the_middle_of_a_call_is_lost_and_not_strange() {
    let (endpoint, _) = server(|seen: &Seen| match seen.rpc() {
        "tools/call" => reply(200, "text/event-stream", ": the answer was to come here\n\n".into()),
        _ => modern(seen),
    })
    .await;
    let mut client = Client::connect(endpoint).await.unwrap();
    let failure = Failure::from(client.call(&Tool::of_json(r#"{"name":"b"}"#), "{}").await.unwrap_err());
    assert_eq!(failure.exit, Exit::Unreachable);
    assert!(failure.to_string().contains("connection") && failure.to_string().contains("lost"), "{failure}");
}

fn legacy(seen: &Seen) -> Reply {
    if seen.method == HttpMethod::DELETE || seen.body.get("result").is_some() || seen.body.get("error").is_some() {
        return reply(202, "text/plain", String::new());
    }
    match seen.rpc() {
        "initialize" => {
            let mut answer = seen.result(json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}));
            answer.headers_mut().insert(SESSION_ID, HeaderValue::from_static("s-1"));
            answer
        }
        "notifications/initialized" => reply(202, "text/plain", String::new()),
        "tools/list" => seen.result(json!({"tools": [{"name": "slow"}], "nextCursor": null})),
        "tools/call" => {
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}});
            let events = [
                "id: 1\ndata: \n\n".to_string(),
                ": keep-alive\n\n".into(),
                "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n".into(),
                "data: {\"jsonrpc\":\"2.0\",\"id\":\"ping-1\",\"method\":\"ping\"}\n\n".into(),
                "data: {\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"roots/list\"}\n\n".into(),
                format!("event: message\ndata: {answer}\n\n"),
            ];
            reply(200, "text/event-stream", events.concat())
        }
        _ => reply(400, "text/plain", "Bad Request: no session".into()),
    }
}

#[tokio::test]
async fn a_legacy_server_gets_its_handshake_its_session_and_a_goodbye() {
    let (endpoint, log) = server(legacy).await;
    let mut client = Client::connect(endpoint).await.unwrap();
    let tools = client.tools().await.unwrap();
    assert_eq!(client.call(&tools[0], "{}").await.unwrap(), r#"{"content":[]}"#);
    client.close().await;

    let log = log.lock().unwrap();
    let asked: Vec<_> = log.iter().map(|seen| if seen.rpc().is_empty() { seen.method.as_str() } else { seen.rpc() }).collect();
    assert_eq!(asked, ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call", "POST", "POST", "DELETE"]);
    for seen in &log[2..] {
        assert_eq!((seen.header("mcp-session-id"), seen.header("mcp-protocol-version")), ("s-1", "2025-06-18"));
    }
    assert_eq!(log[4].body["params"]["_meta"], json!({"progressToken": 4}));
    assert_eq!((&log[5].body["id"], &log[5].body["result"]), (&json!("ping-1"), &json!({})));
    assert_eq!((&log[6].body["id"], &log[6].body["error"]["code"]), (&json!(8), &json!(-32601)));
}

async fn failure_of(script: impl Fn(&Seen) -> Reply + Clone + Send + Sync + 'static) -> Failure {
    let (mut endpoint, _) = server(script).await;
    endpoint.timeout = Duration::from_millis(200);
    let listed = async { Client::connect(endpoint).await?.tools().await };
    listed.await.unwrap_err().into()
}

#[tokio::test]
async fn each_way_to_fail_has_its_exit_code_and_its_words() {
    let failure = failure_of(|_| reply(401, "text/plain", "who are you?".into())).await;
    assert_eq!(failure.exit, Exit::NotAuthorised);
    assert!(failure.to_string().contains("who are you?") && failure.to_string().contains("--bearer"), "{failure}");

    let failure = failure_of(|_| reply(404, "text/html", "<html>\u{1b}[2Jnothing here</html>".into())).await;
    assert_eq!(failure.exit, Exit::Unexpected);
    assert!(failure.to_string().contains("HTTP 404") && failure.to_string().contains("/mcp") && !failure.to_string().contains('\u{1b}'), "{failure}");

    let failure = failure_of(|_| reply(503, "text/plain", "draining".into())).await;
    assert_eq!(failure.exit, Exit::Unreachable);

    let future = json!({"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2031-01-01"], "requested": "2026-07-28"}});
    let failure = failure_of(move |seen| json_reply(400, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": future}))).await;
    assert!(failure.to_string().contains("Unsupported protocol version"), "{failure}");

    let failure =
        failure_of(|seen| if seen.rpc() == "tools/list" { reply(200, "text/event-stream", ": and that was it\n\n".into()) } else { modern(seen) })
            .await;
    assert_eq!(failure.exit, Exit::Unreachable);
    assert!(failure.to_string().contains("lost before the answer was there"), "{failure}");

    let endless = |seen: &Seen| {
        if seen.rpc() == "tools/list" {
            Response::builder().header(CONTENT_TYPE, "text/event-stream").body(Forever.boxed()).unwrap()
        } else {
            modern(seen)
        }
    };
    let failure = failure_of(endless).await;
    assert_eq!(failure.exit, Exit::Unreachable);
    assert!(failure.to_string().contains("did not answer within 0.2 seconds") && failure.to_string().contains("--timeout"), "{failure}");
}

/// A body that never says anything.
struct Forever;

impl hyper::body::Body for Forever {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test]
async fn nobody_there_is_exit_code_4_with_the_url_and_the_next_step() {
    let free = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let url: Uri = format!("http://{free}/mcp").parse().unwrap();
    let endpoint = Endpoint { url: url.clone(), headers: HeaderMap::new(), timeout: Duration::from_secs(5) };
    let failure: Failure = Client::connect(endpoint).await.err().unwrap().into();
    assert_eq!(failure.exit, Exit::Unreachable);
    let text = failure.to_string();
    assert!(text.contains(&url.to_string()) && text.contains("is the gateway running? try `transom demo`"), "{text}");
}

#[tokio::test]
async fn an_error_in_place_of_a_result_keeps_its_code_and_its_words() {
    let script = |seen: &Seen| match seen.rpc() {
        "tools/call" => json_reply(
            200,
            json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": 1002, "message": "target `x` is not connected", "data": {"executed": false}}}),
        ),
        _ => modern(seen),
    };
    let (endpoint, _) = server(script).await;
    let mut client = Client::connect(endpoint).await.unwrap();
    let tools = client.tools().await.unwrap();
    let Err(ClientError::Rpc { code, message, data }) = client.call(&tools[0], "{}").await else { panic!() };
    assert_eq!((code, message.as_str(), data.as_deref()), (1002, "target `x` is not connected", Some("{\"executed\":false}")));
}

#[tokio::test]
async fn a_list_that_never_ends_is_left() {
    let script = |seen: &Seen| match seen.rpc() {
        "tools/list" => seen.result(json!({"tools": [], "nextCursor": seen.body["id"].to_string()})),
        _ => modern(seen),
    };
    let (endpoint, _) = server(script).await;
    let error = Client::connect(endpoint).await.unwrap().tools().await.unwrap_err();
    assert!(error.to_string().contains("more than 1000 pages"), "{error}");
}

fn echo() -> rmcp::model::Tool {
    let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    rmcp::model::Tool::new("echo", "Says it again.", Arc::new(schema.as_object().unwrap().clone()))
}

/// A server on the SDK, which checks more than a script does. It speaks the revisions of one era only.
#[derive(Clone)]
struct OnTheSdk(Era);

impl rmcp::ServerHandler for OnTheSdk {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        rmcp::model::ServerConfig::new(rmcp::model::ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [rmcp::model::ProtocolVersion]> {
        let of_this_era = |version: &rmcp::model::ProtocolVersion| version.has_initialize() == (self.0 == Era::Legacy);
        rmcp::model::ProtocolVersion::KNOWN_VERSIONS.iter().filter(|version| of_this_era(version)).cloned().collect()
    }

    async fn list_tools(
        &self,
        _: Option<rmcp::model::PaginatedRequestParams>,
        _: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<rmcp::model::ListToolsResult, rmcp::ErrorData> {
        Ok(rmcp::model::ListToolsResult::with_all_items(vec![echo()]))
    }

    fn get_tool(&self, _: &str) -> Option<rmcp::model::Tool> {
        Some(echo())
    }

    async fn call_tool(
        &self,
        call: rmcp::model::CallToolRequestParams,
        context: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<rmcp::model::CallToolResponse, rmcp::ErrorData> {
        let token = context.meta.get_progress_token().unwrap();
        context.peer.notify_progress(rmcp::model::ProgressNotificationParam::new(token, 1.0)).await.unwrap();
        Ok(rmcp::model::CallToolResult::success(vec![rmcp::model::ContentBlock::text(json!(call.arguments).to_string())]).into())
    }
}

#[tokio::test]
async fn servers_of_either_era_on_the_sdk_list_and_answer() {
    use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
    use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
    for era in [Era::Legacy, Era::Modern] {
        let service: StreamableHttpService<OnTheSdk, LocalSessionManager> =
            StreamableHttpService::new(move || Ok(OnTheSdk(era)), Default::default(), StreamableHttpServerConfig::default());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url: Uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = service.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let service = service.clone();
                    async move { Ok::<_, Infallible>(service.handle(request).await) }
                });
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
            }
        });
        let mut client = Client::connect(Endpoint { url, headers: HeaderMap::new(), timeout: Duration::from_secs(5) }).await.unwrap();
        assert_eq!(matches!(client.talk, Talk::Modern), era == Era::Modern);
        let tools = client.tools().await.unwrap();
        let result = client.call(&tools[0], r#"{"region":"Vestlandet, Noreg – på kysten"}"#).await.unwrap();
        let result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(result["content"][0]["text"], r#"{"region":"Vestlandet, Noreg – på kysten"}"#);
        client.close().await;
    }
}
