//! A small MCP client over Streamable HTTP, for `list` and `call`.
//!
//! Works with any gateway or server: it asks the modern way first (`server/discover`) and falls back to `initialize`.
//! What servers send stays the bytes they sent. What a verb makes of an answer is the verb's business.

use crate::failure::{Exit, Failure};
use crate::terminal::{self, harmless};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::future::Future;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::timeout;
use transom_protocol::error::{UNSUPPORTED_VERSION, shorten};
use transom_protocol::json::{Json, Kind};
use transom_protocol::sse::Decoder;
use transom_protocol::{Era, Limits, Message, Method, Revision, RpcError, header, meta, write};

/// Where a gateway is when nobody says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:3000/mcp";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest answer read.
pub const MAX_ANSWER: usize = 64 << 20;
/// Of an answer that is no MCP, this much is shown.
const MAX_EXCERPT: usize = 300;
/// A list that has more pages than this does not end.
const MAX_PAGES: usize = 1000;

pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Which server, and what it is told on every request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The URL of the MCP endpoint.
    pub url: Uri,
    /// Headers of the user.
    pub headers: HeaderMap,
    /// How long a request may take.
    pub timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered.
    #[error("cannot reach {url}: {why}")]
    Unreachable {
        /// Where.
        url: Uri,
        /// Why not.
        why: String,
    },
    /// It went away before it had answered.
    #[error("the connection to {url} was lost before the answer was there: {why}")]
    Lost {
        /// Where.
        url: Uri,
        /// How.
        why: String,
    },
    /// The answer did not come in time.
    #[error("{url} did not answer within {} seconds", .after.as_secs_f64())]
    TimedOut {
        /// Where.
        url: Uri,
        /// How long we waited.
        after: Duration,
    },
    /// The server does not let us in.
    #[error("{url} refuses the request: {said}")]
    NotAuthorised {
        /// Where.
        url: Uri,
        /// Status and text of the refusal.
        said: String,
    },
    /// The server answered with a JSON-RPC error.
    #[error("{message} (code {code})")]
    Rpc {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data, as JSON.
        data: Option<String>,
    },
    /// The answer is not MCP.
    #[error("{url} does not answer as an MCP server: {why}")]
    NotMcp {
        /// Where.
        url: Uri,
        /// What was wrong.
        why: String,
    },
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let text = harmless(&error.to_string()).into_owned();
        match error {
            ClientError::Unreachable { .. } => Failure::new(Exit::Unreachable, text)
                .hint("is the gateway running? try `transom demo`, or name another one with `--url` or TRANSOM_URL"),
            ClientError::Lost { .. } => Failure::new(Exit::Unreachable, text).hint("nobody knows whether the request was carried out"),
            ClientError::TimedOut { .. } => Failure::new(Exit::Unreachable, text).hint("give it longer with `--timeout SECONDS`"),
            ClientError::NotAuthorised { .. } => {
                Failure::new(Exit::NotAuthorised, text).hint("send a token with `--bearer TOKEN`, or a header with `--header 'Name: value'`")
            }
            ClientError::Rpc { .. } => Failure::new(Exit::Unexpected, text),
            ClientError::NotMcp { .. } => Failure::new(Exit::Unexpected, text).hint("the URL of an MCP server usually ends in `/mcp`"),
        }
    }
}

/// A tool as a server lists it, kept as the bytes it sent.
#[derive(Clone, Debug)]
pub struct Tool(String);

impl Tool {
    /// The whole entry.
    pub fn json(&self) -> Json<'_> {
        Json::trusted(&self.0)
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.text("name").unwrap_or_default()
    }

    /// Its description, or its title.
    pub fn description(&self) -> String {
        self.text("description").filter(|text| !text.is_empty()).or_else(|| self.text("title")).unwrap_or_default()
    }

    /// What it takes; `null` if the entry does not say.
    pub fn input_schema(&self) -> Value {
        self.json().get("inputSchema").and_then(|schema| serde_json::from_str(schema.raw()).ok()).unwrap_or_default()
    }

    /// From an entry that was read.
    pub fn of_json(text: &str) -> Tool {
        Tool(text.into())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.json().get(key)?.string().map(|text| text.into_owned())
    }
}

/// How this server is spoken to.
enum Talk {
    Modern,
    Legacy { revision: HeaderValue, session: Option<HeaderValue> },
}

/// A conversation with one server.
pub struct Client {
    http: Http,
    endpoint: Endpoint,
    talk: Talk,
    last_id: u64,
}

impl Client {
    /// Finds out how the server wants to be spoken to, with a handshake if it needs one.
    pub async fn connect(endpoint: Endpoint) -> Result<Client, ClientError> {
        let http = http_client(&endpoint)?;
        let mut client = Client { http, endpoint, talk: Talk::Modern, last_id: 0 };
        let url = client.endpoint.url.clone();
        within(HANDSHAKE_TIMEOUT, url, async {
            if !client.speaks_modern().await? {
                client.initialize().await?;
            }
            Ok(client)
        })
        .await
    }

    /// Every tool, whatever the number of pages.
    pub async fn tools(&mut self) -> Result<Vec<Tool>, ClientError> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = cursor.as_ref().map_or("{}".to_string(), |cursor| format!("{{\"cursor\":{}}}", write::quoted(cursor)));
            let page = self.request(Method::ListTools, &params, HeaderMap::new()).await?;
            let page = Json::trusted(&page);
            let entries =
                page.get("tools").filter(|tools| tools.kind() == Kind::Array).ok_or_else(|| self.not_mcp("its tool list has no `tools`"))?;
            tools.extend(entries.elements().filter(|entry| entry.kind() == Kind::Object).map(|entry| Tool(entry.raw().into())));
            let next = page.get("nextCursor").and_then(Json::string).map(|cursor| cursor.into_owned());
            if next.is_none() || next == cursor {
                return Ok(tools);
            }
            cursor = next;
        }
        Err(self.not_mcp(&format!("its tool list has more than {MAX_PAGES} pages")))
    }

    /// Calls a tool with arguments that are a JSON object; the result as the server wrote it.
    pub async fn call(&mut self, tool: &Tool, arguments: &str) -> Result<String, ClientError> {
        let name = tool.name();
        let params = format!("{{\"name\":{},\"arguments\":{arguments}}}", write::quoted(&name));
        let mut headers = HeaderMap::new();
        if matches!(self.talk, Talk::Modern) {
            insert(&mut headers, MCP_NAME, &header::encode(&name));
            param_headers(&tool.input_schema(), Json::trusted(arguments), &mut headers);
        }
        self.request(Method::CallTool, &params, headers).await
    }

    /// Ends a legacy session. A server that keeps it anyway is not our trouble.
    pub async fn close(mut self) {
        if matches!(self.talk, Talk::Legacy { session: Some(_), .. }) {
            let _ = timeout(GOODBYE_TIMEOUT, self.send(HttpMethod::DELETE, Bytes::new(), HeaderMap::new())).await;
        }
    }

    /// Asks the modern way. Anything but a clear yes means the other era, except where no era would help.
    async fn speaks_modern(&mut self) -> Result<bool, ClientError> {
        match self.exchange(Method::Discover, "{}", HeaderMap::new()).await {
            Ok(answer) => {
                let versions = Json::trusted(&answer).get("supportedVersions");
                Ok(versions
                    .is_some_and(|versions| versions.elements().any(|version| version.string().as_deref() == Some(Revision::V2026_07_28.text()))))
            }
            Err(ClientError::Rpc { code: UNSUPPORTED_VERSION, message, data: Some(data) }) => {
                let supported = Json::trusted(&data).get("supported");
                let knows_legacy = supported.is_none_or(|versions| {
                    versions
                        .elements()
                        .any(|version| version.string().and_then(|text| Revision::read(&text)).is_some_and(|revision| revision.era() == Era::Legacy))
                });
                if knows_legacy { Ok(false) } else { Err(ClientError::Rpc { code: UNSUPPORTED_VERSION, message, data: Some(data) }) }
            }
            Err(ClientError::Rpc { .. } | ClientError::NotMcp { .. } | ClientError::Lost { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn initialize(&mut self) -> Result<(), ClientError> {
        let newest = Revision::NEWEST_LEGACY.text();
        self.talk = Talk::Legacy { revision: HeaderValue::from_static(newest), session: None };
        let params = format!("{{\"protocolVersion\":\"{newest}\",\"capabilities\":{{}},\"clientInfo\":{}}}", client_info());
        let body = write::request(Some(&self.next_id()), Method::Initialize.name(), Some(params.as_bytes()));
        let response = self.send(HttpMethod::POST, body.into(), HeaderMap::new()).await?;
        let session = response.headers().get(SESSION_ID).cloned();
        let answer = self.answer(response).await?;
        let agreed = Json::trusted(&answer)
            .get("protocolVersion")
            .and_then(Json::string)
            .ok_or_else(|| self.not_mcp("it answered `initialize` without a `protocolVersion`"))?;
        let revision = HeaderValue::from_str(&agreed).map_err(|_| self.not_mcp("its `protocolVersion` is no version"))?;
        self.talk = Talk::Legacy { revision, session };
        let initialized = write::request(None, Method::Initialized.name(), None);
        let response = self.send(HttpMethod::POST, initialized.into(), HeaderMap::new()).await?;
        if response.status().is_success() { Ok(()) } else { Err(self.refusal(response).await) }
    }

    /// One request of ours and its result, in time.
    async fn request(&mut self, method: Method, params: &str, headers: HeaderMap) -> Result<String, ClientError> {
        within(self.endpoint.timeout, self.endpoint.url.clone(), self.exchange(method, params, headers)).await
    }

    async fn exchange(&mut self, method: Method, params: &str, mut headers: HeaderMap) -> Result<String, ClientError> {
        let id = self.next_id();
        let client_info = client_info();
        let modern = match self.talk {
            Talk::Legacy { .. } => None,
            Talk::Modern => {
                headers.insert(MCP_METHOD, HeaderValue::from_static(method.name()));
                let (protocol_version, client_info) = (b"\"2026-07-28\"", client_info.as_bytes());
                Some(meta::Modern { protocol_version, client_info, client_capabilities: b"{}", log_level: None })
            }
        };
        let meta = meta::rewritten(None, &meta::Rewrite { progress_token: Some(&id), modern });
        let params = write::edited(Json::trusted(params), |_, _| write::Edit::Keep, &[("_meta", &meta)]);
        let body = write::request(Some(&id), method.name(), Some(&params));
        let response = self.send(HttpMethod::POST, body.into(), headers).await?;
        self.answer(response).await
    }

    async fn send(&mut self, method: HttpMethod, body: Bytes, headers: HeaderMap) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.endpoint.url.clone();
        let all = request.headers_mut();
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        all.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        match &self.talk {
            Talk::Modern => {
                all.insert(PROTOCOL_VERSION, HeaderValue::from_static(Revision::V2026_07_28.text()));
            }
            Talk::Legacy { revision, session } => {
                all.insert(PROTOCOL_VERSION, revision.clone());
                if let Some(session) = session {
                    all.insert(SESSION_ID, session.clone());
                }
            }
        }
        all.extend(headers);
        all.extend(self.endpoint.headers.clone());
        self.http.request(request).await.map_err(|error| {
            let why = innermost(&error);
            if error.is_connect() { ClientError::Unreachable { url: self.endpoint.url.clone(), why } } else { self.lost(why) }
        })
    }

    /// The result in a response, be it JSON or a stream of events that ends with it.
    async fn answer(&mut self, response: Response<Incoming>) -> Result<String, ClientError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("").to_ascii_lowercase();
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        if kind.starts_with("text/event-stream") {
            return self.streamed(response.into_body()).await;
        }
        let body = self.body(response.into_body()).await?;
        match Message::read(&body, &Limits::REPLY) {
            Ok(Message::Response(response)) => self.outcome(response),
            _ => Err(self.not_mcp(&format!("it sent {}", excerpt(&body)))),
        }
    }

    async fn streamed(&mut self, mut body: Incoming) -> Result<String, ClientError> {
        let mut decoder = Decoder::new(MAX_ANSWER);
        let mut events = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.lost(innermost(&error)))?;
            let Ok(chunk) = frame.into_data() else { continue };
            decoder.push(&chunk, &mut events).map_err(|error| self.not_mcp(&error.to_string()))?;
            for event in events.drain(..) {
                match Message::read(&event.data, &Limits::REPLY) {
                    Ok(Message::Response(response)) => return self.outcome(response),
                    Ok(Message::Notification(notification)) => show(&notification),
                    Ok(Message::Request(request)) => self.decline(&request).await?,
                    // Priming events carry no message.
                    Err(_) => {}
                }
            }
        }
        Err(self.lost("its stream ended".into()))
    }

    /// Answers a request of a legacy server: it may ask whether we are there, and for nothing else.
    async fn decline(&mut self, request: &transom_protocol::Request) -> Result<(), ClientError> {
        let answer = match request.method {
            Method::Ping => write::result(request.id.raw(), b"{}"),
            _ => write::error(
                Some(request.id.raw()),
                &RpcError::new(transom_protocol::error::METHOD_NOT_FOUND, "transom's command line answers no requests"),
            ),
        };
        self.send(HttpMethod::POST, answer, HeaderMap::new()).await.map(drop)
    }

    fn outcome(&self, response: transom_protocol::Response) -> Result<String, ClientError> {
        match response.outcome {
            Ok(result) => Ok(String::from_utf8_lossy(&result).into_owned()),
            Err(error) => Err(rpc_error(&error)),
        }
    }

    /// What an HTTP status other than success means.
    async fn refusal(&mut self, response: Response<Incoming>) -> ClientError {
        let status = response.status();
        let url = self.endpoint.url.clone();
        let body = match self.body(response.into_body()).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let rpc = match Message::read(&body, &Limits::REPLY) {
            Ok(Message::Response(transom_protocol::Response { outcome: Err(error), .. })) => Some(rpc_error(&error)),
            _ => None,
        };
        match (status, rpc) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, rpc) => {
                let said = rpc.map_or_else(|| excerpt(&body), |error| error.to_string());
                ClientError::NotAuthorised { url, said: format!("HTTP {status}, {said}") }
            }
            (_, Some(error)) => error,
            (StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, None) => {
                ClientError::Unreachable { url, why: format!("HTTP {status}, {}", excerpt(&body)) }
            }
            (_, None) => self.not_mcp(&format!("HTTP {status}, {}", excerpt(&body))),
        }
    }

    async fn body(&self, body: Incoming) -> Result<Bytes, ClientError> {
        match Limited::new(body, MAX_ANSWER).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(self.not_mcp(&format!("its answer is too long: {error}"))),
            Err(error) => Err(self.lost(innermost(&*error))),
        }
    }

    fn lost(&self, why: String) -> ClientError {
        ClientError::Lost { url: self.endpoint.url.clone(), why }
    }

    fn not_mcp(&self, why: &str) -> ClientError {
        ClientError::NotMcp { url: self.endpoint.url.clone(), why: why.into() }
    }

    fn next_id(&mut self) -> Vec<u8> {
        self.last_id += 1;
        self.last_id.to_string().into_bytes()
    }
}

async fn within<T>(limit: Duration, url: Uri, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    timeout(limit, work).await.unwrap_or(Err(ClientError::TimedOut { url, after: limit }))
}

/// How requests are sent.
pub type Http = HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Plain or TLS by the scheme; the system's certificate authorities are read only where they are needed.
pub fn http_client(endpoint: &Endpoint) -> Result<Http, ClientError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let mut roots = rustls::RootCertStore::empty();
    if endpoint.url.scheme_str() == Some("https") {
        let found = rustls_native_certs::load_native_certs();
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            return Err(ClientError::Unreachable { url: endpoint.url.clone(), why: "this system has no certificate authorities to trust".into() });
        }
    }
    let tls = rustls::ClientConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Unreachable { url: endpoint.url.clone(), why: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().enable_http2().wrap_connector(tcp);
    Ok(HttpClient::builder(TokioExecutor::new()).build(connector))
}

/// The endpoint that a URL of the user means: `localhost:3000` is `http://localhost:3000/mcp`.
pub fn endpoint_url(text: &str) -> Result<Uri, Failure> {
    let whole = if text.contains("://") { text.to_string() } else { format!("http://{text}") };
    let has_path = whole.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    let whole = if has_path { whole } else { format!("{whole}/mcp") };
    let wrong = |why: &str| {
        Failure::new(Exit::Unexpected, format!("`{text}` is no URL of an MCP server: {why}")).hint(format!("write it like `{DEFAULT_URL}`"))
    };
    let url: Uri = whole.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => Ok(url),
        Some("http" | "https") => Err(wrong("it names no host")),
        _ => Err(wrong("it must begin with `http://` or `https://`")),
    }
}

/// The headers that the user asked for; a bearer token last, so that it wins.
pub fn user_headers(lines: &[String], bearer: Option<&str>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let wrong = || Failure::new(Exit::Unexpected, "a header cannot be sent as it is written").hint("write it like `--header 'Name: value'`");
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    if let Some(token) = bearer {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Failure::new(Exit::Unexpected, "the bearer token has characters that a header cannot carry"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// `Mcp-Param-*` for the arguments that the tool's schema marks with `x-mcp-header`.
pub fn param_headers(schema: &Value, arguments: Json<'_>, headers: &mut HeaderMap) {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(argument) = arguments.get(name) else { continue };
        let text = match argument.kind() {
            Kind::Object => {
                param_headers(property, argument, headers);
                continue;
            }
            Kind::String => argument.string().unwrap_or_default().into_owned(),
            Kind::Number | Kind::Bool => argument.raw().to_string(),
            Kind::Null | Kind::Array => continue,
        };
        let marked = property.get("x-mcp-header").and_then(Value::as_str);
        if let Some(header_name) = marked.and_then(|mark| HeaderName::try_from(format!("mcp-param-{mark}")).ok()) {
            insert(headers, header_name, &header::encode(&text));
        }
    }
}

/// Sets a header, unless no header can carry the value.
pub fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn client_info() -> String {
    format!("{{\"name\":\"transom\",\"version\":{}}}", write::quoted(env!("CARGO_PKG_VERSION")))
}

fn rpc_error(error: &[u8]) -> ClientError {
    let text = String::from_utf8_lossy(error);
    let error = Json::trusted(&text);
    let member = |key: &str| (error.kind() == Kind::Object).then(|| error.get(key)).flatten();
    ClientError::Rpc {
        code: member("code").and_then(|code| code.raw().parse().ok()).unwrap_or(0),
        message: member("message").and_then(Json::string).map_or_else(|| "an error without a message".into(), |text| text.into_owned()),
        data: member("data").map(|data| data.raw().to_string()),
    }
}

/// Progress and log messages, for a person who watches.
fn show(notification: &transom_protocol::Notification) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let text = match notification.method {
        Method::Progress => notification.params.string("message"),
        Method::LogMessage => notification.params.string("data"),
        _ => None,
    };
    if let Some(text) = text {
        terminal::note(&harmless(&text));
    }
}

/// What an error says at its root: the layers above it say less.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

pub fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match shorten(text.trim(), MAX_EXCERPT) {
        "" => "an empty answer".into(),
        part => format!("`{part}`"),
    }
}

#[cfg(test)]
mod tests;
