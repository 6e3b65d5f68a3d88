//! An MCP client of any revision (R-003-43).
//!
//! It keeps what it got as it came: the HTTP status, the raw message, every notification on the way. It checks nothing
//! by itself; that is what the tests are for.

use crate::http::{Http, PATIENCE, Stream};
use hyper::header::HeaderMap;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The modern revision.
pub const MODERN: &str = "2026-07-28";
/// The newest legacy revision.
pub const LEGACY: &str = "2025-11-25";
/// Every revision, oldest first.
pub const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN];

type Answerer = Arc<dyn Fn(&Value) -> Result<Value, Value> + Send + Sync>;

/// A client that is connected. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: Http,
    url: String,
    revision: String,
    capabilities: Value,
    headers: Vec<(String, String)>,
    session: Mutex<Option<String>>,
    ids: AtomicI64,
    answers: Mutex<HashMap<String, Answerer>>,
    initialized: Mutex<Reply>,
    sse: Option<Sse>,
}

struct Sse {
    endpoint: String,
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>>,
    notifications: tokio::sync::Mutex<mpsc::UnboundedReceiver<Value>>,
    reader: JoinHandle<()>,
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// How to connect.
pub struct Connect {
    url: String,
    revision: String,
    capabilities: Value,
    headers: Vec<(String, String)>,
    answers: HashMap<String, Answerer>,
}

/// A client for this endpoint, `http://…/mcp`.
pub fn connect(url: impl Into<String>, revision: &str) -> Connect {
    Connect { url: url.into(), revision: revision.into(), capabilities: json!({}), headers: Vec::new(), answers: HashMap::new() }
}

impl Connect {
    /// What the client says it can do.
    pub fn capabilities(mut self, capabilities: Value) -> Connect {
        self.capabilities = capabilities;
        self
    }

    /// A header of every request.
    pub fn header(mut self, name: &str, value: &str) -> Connect {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// How requests of the server are answered; without this they are refused.
    pub fn answer(mut self, method: &str, answer: impl Fn(&Value) -> Result<Value, Value> + Send + Sync + 'static) -> Connect {
        self.answers.insert(method.into(), Arc::new(answer));
        self
    }

    /// Connects: `initialize` in the legacy era, nothing in the modern one.
    pub async fn open(self) -> Client {
        let client = Client(Arc::new(self.inner(None)));
        if client.is_modern() {
            return client;
        }
        let reply = client.initialize().await;
        assert!(reply.message["result"].is_object(), "initialize was refused: {} {}", reply.status, reply.message);
        *client.0.session.lock().unwrap() = reply.header("mcp-session-id").map(str::to_owned);
        *client.0.initialized.lock().unwrap() = reply;
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    /// Connects as 2024-11-05 did: a stream for everything that comes, a second address for what goes. The URL is that
    /// of the stream.
    pub async fn open_sse(self) -> Client {
        let http = Http::new();
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut stream = http.open("GET", &self.url, &headers, "").await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(stream.status, 200, "GET {}", self.url);
        let event = timeout(PATIENCE, stream.next()).await.expect("an endpoint event in time").expect("an endpoint event");
        assert_eq!(event.name, "endpoint");
        let endpoint = absolute(&self.url, &event.data);
        let waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>> = Arc::default();
        let (sender, notifications) = mpsc::unbounded_channel();
        let reader = tokio::spawn({
            let waiting = waiting.clone();
            async move {
                while let Some(event) = stream.next().await {
                    let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
                    let waiter = if message.get("method").is_none() { waiting.lock().unwrap().remove(&message["id"].to_string()) } else { None };
                    match waiter {
                        Some(waiter) => drop(waiter.send(message)),
                        None => drop(sender.send(message)),
                    }
                }
            }
        });
        let sse = Sse { endpoint, waiting, notifications: tokio::sync::Mutex::new(notifications), reader };
        let client = Client(Arc::new(self.inner(Some(sse))));
        let reply = client.initialize().await;
        assert!(reply.message["result"].is_object(), "initialize was refused: {}", reply.message);
        *client.0.initialized.lock().unwrap() = reply;
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    fn inner(self, sse: Option<Sse>) -> Inner {
        Inner {
            http: Http::new(),
            url: self.url,
            revision: self.revision,
            capabilities: self.capabilities,
            headers: self.headers,
            session: Mutex::new(None),
            ids: AtomicI64::new(1),
            answers: Mutex::new(self.answers),
            initialized: Mutex::new(Reply::default()),
            sse,
        }
    }
}

fn absolute(base: &str, reference: &str) -> String {
    if reference.starts_with("http://") {
        return reference.into();
    }
    let after_scheme = base.find("://").map_or(0, |at| at + 3);
    let host_end = base.get(after_scheme..).and_then(|rest| rest.find('/')).map_or(base.len(), |at| after_scheme + at);
    format!("{}{reference}", base.get(..host_end).unwrap_or(base))
}

impl Client {
    pub fn is_modern(&self) -> bool {
        self.0.revision == MODERN
    }

    /// The session id the server gave.
    pub fn session(&self) -> Option<String> {
        self.0.session.lock().unwrap().clone()
    }

    /// The reply to `initialize`.
    pub fn initialized(&self) -> Reply {
        self.0.initialized.lock().unwrap().clone()
    }

    async fn initialize(&self) -> Reply {
        let info = json!({"name": "transom-tests", "version": "1"});
        self.request("initialize", json!({"protocolVersion": self.0.revision, "capabilities": self.0.capabilities, "clientInfo": info})).await
    }

    /// Where a 2024-11-05 client sends its messages.
    pub fn endpoint(&self) -> String {
        self.0.sse.as_ref().map(|sse| sse.endpoint.clone()).expect("a 2024-11-05 client")
    }

    /// What was given to [`Connect::header`].
    fn own_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The headers a well-behaved client sends with this message.
    pub fn headers(&self, message: &Value) -> Vec<(String, String)> {
        let mut headers = vec![("content-type".into(), "application/json".into()), ("accept".into(), "application/json, text/event-stream".into())];
        if self.is_modern() {
            headers.push(("mcp-protocol-version".into(), MODERN.into()));
            headers.push(("mcp-method".into(), message["method"].as_str().unwrap_or_default().into()));
            let name = message["params"]["name"].as_str().or(message["params"]["uri"].as_str());
            if let (Some(name), "tools/call" | "prompts/get" | "resources/read") = (name, message["method"].as_str().unwrap_or_default()) {
                headers.push(("mcp-name".into(), transom_protocol::header::encode(name).into_owned()));
            }
        } else if let Some(session) = self.session() {
            headers.push(("mcp-session-id".into(), session));
            if self.0.revision.as_str() >= "2025-06-18" {
                headers.push(("mcp-protocol-version".into(), self.0.revision.clone()));
            }
        }
        headers.extend(self.0.headers.iter().cloned());
        headers
    }

    /// A request as this client would write it, with an id of its own.
    pub fn message(&self, method: &str, params: Value) -> Value {
        self.message_with_id(json!(self.0.ids.fetch_add(1, Ordering::Relaxed)), method, params)
    }

    /// A request with this id.
    pub fn message_with_id(&self, id: Value, method: &str, params: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": self.params(params)})
    }

    fn params(&self, mut params: Value) -> Value {
        if self.is_modern() {
            if !params.is_object() {
                params = json!({});
            }
            if let Some(params) = params.as_object_mut() {
                let meta = params.entry("_meta").or_insert_with(|| json!({}));
                if let Some(meta) = meta.as_object_mut() {
                    meta.insert("io.modelcontextprotocol/protocolVersion".into(), json!(MODERN));
                    meta.insert("io.modelcontextprotocol/clientInfo".into(), json!({"name": "transom-tests", "version": "1"}));
                    meta.insert("io.modelcontextprotocol/clientCapabilities".into(), self.0.capabilities.clone());
                }
            }
        }
        params
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&self, method: &str, params: Value) -> Reply {
        self.exchange(self.message(method, params), None).await
    }

    /// Sends this very message and waits for its answer.
    pub async fn exchange(&self, message: Value, notifications: Option<mpsc::UnboundedSender<Value>>) -> Reply {
        if let Some(sse) = &self.0.sse {
            return self.exchange_sse(sse, message).await;
        }
        let headers = self.headers(&message);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let stream = match self.0.http.open("POST", &self.0.url, &headers, message.to_string()).await {
            Ok(stream) => stream,
            Err(error) => return Reply { lost: Some(error), ..Reply::default() },
        };
        self.read(stream, &message["id"], notifications).await
    }

    async fn read(&self, mut stream: Stream, id: &Value, sender: Option<mpsc::UnboundedSender<Value>>) -> Reply {
        let mut reply = Reply { status: stream.status, headers: stream.headers.clone(), events: stream.is_events(), ..Reply::default() };
        if !stream.is_events() {
            match stream.whole().await {
                Ok(response) => {
                    reply.raw = response.text();
                    reply.message = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
                }
                Err(error) => reply.lost = Some(error),
            }
            return reply;
        }
        loop {
            let Ok(event) = timeout(PATIENCE, stream.next()).await else {
                reply.lost = Some("the stream went silent".into());
                return reply;
            };
            let Some(event) = event else {
                reply.lost = Some("the stream ended without an answer".into());
                return reply;
            };
            let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
            if message.get("method").is_none() && message["id"] == *id {
                reply.raw = event.data;
                reply.message = message;
                return reply;
            }
            if message.get("method").is_some() && message.get("id").is_some() {
                self.answer(&message).await;
            }
            if let Some(sender) = &sender {
                sender.send(message.clone()).ok();
            }
            reply.notifications.push(message);
        }
    }

    async fn exchange_sse(&self, sse: &Sse, message: Value) -> Reply {
        let (sender, receiver) = oneshot::channel();
        sse.waiting.lock().unwrap().insert(message["id"].to_string(), sender);
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(self.own_headers());
        let posted = self.0.http.send("POST", &sse.endpoint, &headers, message.to_string()).await;
        let mut reply = Reply { status: posted.status, headers: posted.headers.clone(), events: true, ..Reply::default() };
        if posted.status >= 300 {
            reply.raw = posted.text();
            return reply;
        }
        match timeout(PATIENCE, receiver).await {
            Ok(Ok(message)) => {
                reply.raw = message.to_string();
                reply.message = message;
            }
            _ => reply.lost = Some("no answer on the stream".into()),
        }
        reply
    }

    /// The next message on the stream of a 2024-11-05 client that is no answer.
    pub async fn sse_notification(&self) -> Value {
        let sse = self.0.sse.as_ref().expect("a 2024-11-05 client");
        timeout(PATIENCE, sse.notifications.lock().await.recv()).await.expect("a notification in time").expect("an open stream")
    }

    /// Answers a request of the server by what was given to [`Connect::answer`].
    pub async fn answer(&self, request: &Value) {
        let answer = self.0.answers.lock().unwrap().get(request["method"].as_str().unwrap_or_default()).cloned();
        let outcome = match answer {
            Some(answer) => answer(&request["params"]),
            None => Err(json!({"code": -32601, "message": "Method not found"})),
        };
        let message = match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": request["id"], "error": error}),
        };
        self.post(message).await;
    }

    /// Posts any message and returns the HTTP status.
    pub async fn post(&self, message: Value) -> u16 {
        let headers = self.headers(&message);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let url = self.0.sse.as_ref().map_or(self.0.url.as_str(), |sse| sse.endpoint.as_str());
        self.0.http.try_send("POST", url, &headers, message.to_string()).await.map_or(0, |response| response.status)
    }

    pub async fn notify(&self, method: &str, params: Value) -> u16 {
        self.post(json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Starts a request without waiting for it. Dropping what it returns closes the connection.
    pub fn start(&self, method: &str, params: Value) -> Pending {
        let message = self.message(method, params);
        self.start_message(message)
    }

    /// Starts this very message.
    pub fn start_message(&self, message: Value) -> Pending {
        let id = message["id"].clone();
        let (sender, notifications) = mpsc::unbounded_channel();
        let client = self.clone();
        let task = tokio::spawn(async move { client.exchange(message, Some(sender)).await });
        Pending { id, notifications, task }
    }

    pub fn start_call(&self, tool: &str, arguments: Value) -> Pending {
        self.start("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// A call that asks for progress under this token.
    pub async fn call_with_token(&self, tool: &str, arguments: Value, token: Value) -> Reply {
        self.request("tools/call", json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": token}})).await
    }

    /// The whole list, every page.
    pub async fn list_tools(&self) -> Vec<Value> {
        self.list("tools/list", "tools").await
    }

    /// Any list, every page.
    pub async fn list(&self, method: &str, member: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut params = json!({});
        for _ in 0..200 {
            let reply = self.request(method, params.clone()).await;
            let result = reply.result();
            items.extend(result[member].as_array().unwrap_or_else(|| panic!("no {member} in {result}")).iter().cloned());
            match result["nextCursor"].as_str() {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return items,
            }
        }
        panic!("{method} never ends");
    }

    /// The names of the tools, sorted.
    pub async fn tool_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.list_tools().await.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect();
        names.sort();
        names
    }

    /// Tells the server to stop working on a request.
    pub async fn cancel(&self, id: &Value) -> u16 {
        self.notify("notifications/cancelled", json!({"requestId": id, "reason": "test"})).await
    }

    /// Opens the notification stream of a legacy session.
    pub async fn stream(&self) -> Stream {
        let stream = self.try_stream().await;
        assert_eq!(stream.status, 200, "GET {}", self.0.url);
        stream
    }

    /// As [`Client::stream`], whatever the status.
    pub async fn try_stream(&self) -> Stream {
        self.get_with(&[]).await
    }

    /// Comes back for the rest of a stream, whatever the status.
    pub async fn resume(&self, last: &str) -> Stream {
        self.get_with(&[("last-event-id", last)]).await
    }

    async fn get_with(&self, more: &[(&str, &str)]) -> Stream {
        let session = self.session().unwrap_or_default();
        let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", session.as_str())];
        headers.extend_from_slice(more);
        if self.0.revision.as_str() >= "2025-06-18" {
            headers.push(("mcp-protocol-version", self.0.revision.as_str()));
        }
        headers.extend(self.own_headers());
        self.0.http.open("GET", &self.0.url, &headers, "").await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens a modern subscription and checks that it was acknowledged.
    pub async fn listen(&self, notifications: Value) -> Stream {
        let message = self.message("subscriptions/listen", json!({"notifications": notifications}));
        let mut stream = self.open_message(&message).await;
        assert_eq!(stream.status, 200);
        let acknowledged = stream.message().await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
        assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], message["id"]);
        stream
    }

    /// Posts a message and hands out the reply as it comes.
    pub async fn open_message(&self, message: &Value) -> Stream {
        let headers = self.headers(message);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.0.http.open("POST", &self.0.url, &headers, message.to_string()).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Ends the session; returns the HTTP status.
    pub async fn delete(&self) -> u16 {
        let session = self.session().unwrap_or_default();
        let mut headers = vec![("mcp-session-id", session.as_str())];
        headers.extend(self.own_headers());
        self.0.http.send("DELETE", &self.0.url, &headers, "").await.status
    }
}

/// A request under way.
pub struct Pending {
    pub id: Value,
    pub notifications: mpsc::UnboundedReceiver<Value>,
    task: JoinHandle<Reply>,
}

impl Pending {
    /// Waits for the answer.
    pub async fn reply(mut self) -> Reply {
        (&mut self.task).await.unwrap_or_else(|error| panic!("the request failed: {error}"))
    }

    /// Waits for the answer for so long.
    pub async fn reply_within(&mut self, limit: Duration) -> Option<Reply> {
        timeout(limit, &mut self.task).await.ok().map(|reply| reply.unwrap_or_else(|error| panic!("the request failed: {error}")))
    }

    /// The next message that comes before the answer.
    pub async fn notification(&mut self) -> Value {
        timeout(PATIENCE, self.notifications.recv()).await.expect("a notification in time").expect("a notification before the answer")
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What came back for a request.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// The JSON-RPC response.
    pub message: Value,
    /// The response as text.
    pub raw: String,
    /// Everything that came before it.
    pub notifications: Vec<Value>,
    /// Whether it came as a stream of events.
    pub events: bool,
    /// Why there is no response.
    pub lost: Option<String>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The result; the test fails if there is none.
    #[track_caller]
    pub fn result(&self) -> &Value {
        match self.message.get("result") {
            Some(result) => result,
            None => panic!("no result: status {}, {}, {:?}", self.status, self.raw, self.lost),
        }
    }

    /// The error; the test fails if there is none.
    #[track_caller]
    pub fn error(&self) -> &Value {
        match self.message.get("error") {
            Some(error) => error,
            None => panic!("no error: status {}, {}, {:?}", self.status, self.raw, self.lost),
        }
    }

    #[track_caller]
    pub fn error_code(&self) -> i64 {
        self.error()["code"].as_i64().unwrap_or(0)
    }

    #[track_caller]
    pub fn error_message(&self) -> String {
        self.error()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The text of the first content block.
    #[track_caller]
    pub fn text(&self) -> String {
        self.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn structured(&self) -> &Value {
        &self.result()["structuredContent"]
    }

    /// Whether the tool said that it failed.
    pub fn is_error(&self) -> bool {
        self.message["result"]["isError"] == json!(true)
    }

    /// Refused as invalid, with this text somewhere in the message: an error result or a protocol error.
    #[track_caller]
    pub fn is_invalid(&self, text: &str) {
        let refused = self.is_error() || self.message["error"]["code"] == json!(-32602);
        assert!(refused && self.raw.contains(text), "not refused because of {text}: {}", self.raw);
    }

    /// Refused like every name that is not listed.
    #[track_caller]
    pub fn is_not_found(&self, name: &str) {
        assert_eq!(self.error_code(), -32602, "{}", self.raw);
        assert_eq!(self.error_message(), format!("Tool not found: {name}"));
    }

    /// Failed in the gateway with this code; `executed` is what `data.executed` must say.
    #[track_caller]
    pub fn failed(&self, code: i64, executed: Value) {
        assert_eq!(self.error_code(), code, "{}", self.raw);
        assert_eq!(self.error()["data"]["executed"], executed, "{}", self.raw);
    }

    /// The methods of what came before the answer.
    pub fn notified(&self) -> Vec<String> {
        self.notifications.iter().map(|message| message["method"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Members of an object, for `_meta` and the like.
pub fn object(pairs: &[(&str, Value)]) -> Value {
    Value::Object(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>())
}
