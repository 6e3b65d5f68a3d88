//! A fake MCP server on a real transport that does what the test says and remembers what it was asked.
//!
//! ```ignore
//! let github = target("github").tool("search", ["q", "token"]);
//! let gateway = gateway().target(&github).start().await;
//! …
//! assert!(github.calls().is_empty());
//! ```
//!
//! It serves from the moment it is made. Without a handler a tool answers with what it was called with.

mod serve;

use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use transom_upstream::{EraChoice, Sessions, TargetSpec, Transport as SpecTransport};

/// Which era a fake speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// `initialize` with this revision.
    Legacy(&'static str),
    /// 2026-07-28 only.
    Modern,
    /// Whatever it is spoken to in.
    Both,
}

/// How a fake answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP, JSON where one message suffices.
    Json,
    /// Streamable HTTP, always a stream of events.
    Events,
    /// `/sse` and `/messages`, revision 2024-11-05.
    LegacySse,
}

/// What a fake does wrong, per method.
#[derive(Clone)]
pub enum Hostile {
    /// Never answers.
    Hang,
    /// Answers late.
    Delay(Duration),
    /// Answers with this status and no body.
    Status(u16),
    /// Answers 307 to this address.
    Redirect(String),
    /// Answers with this body; `$ID` stands for the id of the request.
    Body(&'static str, Bytes),
    /// A stream that never ends and never answers, an event every ten milliseconds.
    EndlessEvents,
    /// Half an answer, then the connection is gone.
    DropMidReply,
    /// An answer to a question nobody asked.
    WrongId,
    /// The answer, twice, the second one different.
    Twice,
    /// A result and an error at once.
    ResultAndError,
}

impl Hostile {
    /// An answer that is no JSON.
    pub fn bad_json() -> Hostile {
        Hostile::Body("application/json", Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{"))
    }

    /// An answer that is no UTF-8.
    pub fn invalid_utf8() -> Hostile {
        Hostile::Body(
            "application/json",
            Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xfe\"}]}}"),
        )
    }

    /// A well-formed answer of this many bytes.
    pub fn huge(bytes: usize) -> Hostile {
        let mut body = b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"".to_vec();
        body.resize(body.len() + bytes, b'x');
        body.extend_from_slice(b"\"}]}}");
        Hostile::Body("application/json", body.into())
    }

    /// A well-formed answer of this depth.
    pub fn deep(levels: usize) -> Hostile {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        Hostile::Body("application/json", format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"content\":[],\"x\":{open}{close}}}}}").into())
    }
}

/// What `nextCursor` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Ends with the last page.
    Honest,
    /// The same cursor for ever.
    Constant,
    /// A new cursor for ever.
    Endless,
}

/// What a tool answers: a result, or an error object.
pub type Answer = Result<Value, Value>;
type Handler = Arc<dyn Fn(Value, Context) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// `POST`, `GET`, `DELETE`.
    pub http_method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// The JSON-RPC method, if it had one.
    pub method: String,
}

impl Recorded {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A fake server. Cheap to clone; it stops with the runtime of the test.
#[derive(Clone)]
pub struct Target(Arc<Shared>);

struct Shared {
    name: String,
    addr: SocketAddr,
    /// Holds the port while the server is stopped: bound, not listening, so a connection is refused.
    _port: TcpSocket,
    script: Mutex<Script>,
    record: Mutex<Record>,
    live: Mutex<Live>,
    server: Mutex<Option<JoinHandle<()>>>,
}

struct Script {
    era: Era,
    transport: Transport,
    tools: Vec<Value>,
    prompts: Vec<Value>,
    resources: Vec<Value>,
    templates: Vec<Value>,
    handlers: HashMap<String, Handler>,
    methods: HashMap<String, Answer>,
    hostile: HashMap<String, Hostile>,
    page_size: Option<usize>,
    cursor: Cursor,
    get_stream: bool,
    forget_after: Option<usize>,
    endpoint: Option<String>,
    instructions: Option<String>,
    resumable: bool,
    tasks: bool,
}

#[derive(Default)]
struct Record {
    requests: Vec<Recorded>,
    calls: Vec<(String, Value)>,
    cancelled: Vec<Value>,
    disconnected: usize,
    connections: usize,
    finished: usize,
}

#[derive(Default)]
struct Live {
    next: u64,
    sessions: HashMap<String, usize>,
    /// Streams that carry what belongs to no request: a GET stream, an SSE connection, a subscription.
    streams: Vec<LiveStream>,
    running: HashMap<(String, String), watch::Sender<bool>>,
    asked: HashMap<String, oneshot::Sender<Answer>>,
    /// Calls whose streams can be taken up again.
    calls: HashMap<String, LiveCall>,
    tasks: HashMap<String, watch::Sender<LiveTask>>,
}

/// A task: what became of it, and what it asks meanwhile.
#[derive(Clone, Default)]
struct LiveTask {
    outcome: Option<Answer>,
    cancelled: bool,
    questions: Option<Value>,
    answers: Option<Value>,
}

/// A call whose stream can be taken up again: every event so far, and whoever reads it.
#[derive(Default)]
struct LiveCall {
    events: Vec<String>,
    reader: Option<mpsc::UnboundedSender<Value>>,
    done: bool,
}

struct LiveStream {
    session: String,
    /// The id of a modern subscription.
    subscription: Option<Value>,
    sender: mpsc::UnboundedSender<Value>,
}

/// A fake server with this name and no tools. Must be called inside a runtime.
pub fn target(name: &str) -> Target {
    target_at(name, 0)
}

/// As [`target`], on this port of loopback, which [`hold`] may have taken before.
pub fn target_at(name: &str, port: u16) -> Target {
    let port = reusable(SocketAddr::from(([127, 0, 0, 1], port)));
    let addr = port.local_addr().expect("a bound socket has an address");
    let script = Script {
        era: Era::Legacy("2025-11-25"),
        transport: Transport::Json,
        tools: Vec::new(),
        prompts: Vec::new(),
        resources: Vec::new(),
        templates: Vec::new(),
        handlers: HashMap::new(),
        methods: HashMap::new(),
        hostile: HashMap::new(),
        page_size: None,
        cursor: Cursor::Honest,
        get_stream: true,
        forget_after: None,
        endpoint: None,
        instructions: None,
        resumable: false,
        tasks: false,
    };
    let shared = Shared {
        name: name.into(),
        addr,
        _port: port,
        script: Mutex::new(script),
        record: Mutex::default(),
        live: Mutex::default(),
        server: Mutex::new(None),
    };
    let target = Target(Arc::new(shared));
    target.start();
    target
}

/// A free port, held so that nobody else gets it: a connection is refused until a [`target_at`] listens there.
pub fn hold() -> (TcpSocket, u16) {
    let held = reusable(SocketAddr::from(([127, 0, 0, 1], 0)));
    let port = held.local_addr().expect("a bound socket has an address").port();
    (held, port)
}

fn reusable(addr: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseport(true).expect("SO_REUSEPORT");
    socket.bind(addr).unwrap_or_else(|error| panic!("bind {addr}: {error}"));
    socket
}

/// A schema that knows these fields and takes any value for them.
pub fn schema<const N: usize>(fields: [&str; N]) -> Value {
    let properties: serde_json::Map<String, Value> = fields.iter().map(|field| ((*field).to_owned(), json!({}))).collect();
    json!({"type": "object", "properties": properties})
}

impl Target {
    // What it offers.

    /// A tool with these arguments.
    pub fn tool<const N: usize>(self, name: &str, fields: [&str; N]) -> Target {
        let definition = json!({"name": name, "description": format!("{name} of {}", self.0.name), "inputSchema": schema(fields)});
        self.tool_def(definition)
    }

    /// A tool with this definition.
    pub fn tool_def(self, definition: Value) -> Target {
        self.script(|script| script.tools.push(definition));
        self
    }

    /// A tool always answers with this result.
    pub fn reply(self, tool: &str, result: Value) -> Target {
        self.handler(tool, move |_, _| {
            let result = result.clone();
            async move { Ok(result) }
        })
    }

    /// A tool answers with what this function says.
    pub fn handler<F, Fut>(self, tool: &str, handler: F) -> Target
    where
        F: Fn(Value, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |arguments, context| Box::pin(handler(arguments, context)));
        self.script(|script| script.handlers.insert(tool.to_owned(), handler));
        self
    }

    /// A tool that answers after so long, and remembers whether it was cancelled before.
    pub fn slow(self, tool: &str, delay: Duration) -> Target {
        let name = self.0.name.clone();
        self.tool(tool, ["nonce"]).handler(tool, move |arguments, context| {
            let name = name.clone();
            async move {
                tokio::select! {
                    () = tokio::time::sleep(delay) => Ok(echo(&name, &context.tool, &arguments)),
                    () = context.cancelled() => Err(json!({"code": -32800, "message": "cancelled"})),
                }
            }
        })
    }

    pub fn prompt(self, name: &str) -> Target {
        self.prompt_def(json!({"name": name, "description": "a prompt", "arguments": [{"name": "topic"}]}))
    }

    /// A prompt with this definition.
    pub fn prompt_def(self, definition: Value) -> Target {
        self.script(|script| script.prompts.push(definition));
        self
    }

    pub fn resource(self, uri: &str) -> Target {
        self.resource_def(json!({"uri": uri, "name": uri, "mimeType": "text/plain"}))
    }

    /// A resource with this definition.
    pub fn resource_def(self, definition: Value) -> Target {
        self.script(|script| script.resources.push(definition));
        self
    }

    pub fn template(self, uri: &str) -> Target {
        self.template_def(json!({"uriTemplate": uri, "name": uri}))
    }

    /// A template with this definition.
    pub fn template_def(self, definition: Value) -> Target {
        self.script(|script| script.templates.push(definition));
        self
    }

    /// Any other method answers with this result.
    pub fn method(self, method: &str, result: Value) -> Target {
        self.script(|script| script.methods.insert(method.to_owned(), Ok(result)));
        self
    }

    /// Any other method answers with this error.
    pub fn method_error(self, method: &str, error: Value) -> Target {
        self.script(|script| script.methods.insert(method.to_owned(), Err(error)));
        self
    }

    pub fn instructions(self, text: &str) -> Target {
        self.script(|script| script.instructions = Some(text.to_owned()));
        self
    }

    // How it speaks.

    pub fn era(self, era: Era) -> Target {
        self.script(|script| script.era = era);
        self
    }

    pub fn transport(self, transport: Transport) -> Target {
        self.script(|script| {
            script.transport = transport;
            if transport == Transport::LegacySse {
                script.era = Era::Legacy("2024-11-05");
            }
        });
        self
    }

    pub fn page_size(self, size: usize) -> Target {
        self.script(|script| script.page_size = Some(size));
        self
    }

    pub fn cursor(self, cursor: Cursor) -> Target {
        self.script(|script| script.cursor = cursor);
        self
    }

    /// Whether GET opens a stream, or is 405.
    pub fn get_stream(self, offered: bool) -> Target {
        self.script(|script| script.get_stream = offered);
        self
    }

    /// What the `endpoint` event of the 2024-11-05 transport says, instead of the truth.
    pub fn endpoint(self, uri: &str) -> Target {
        self.script(|script| script.endpoint = Some(uri.to_owned()));
        self
    }

    /// From now on this goes wrong whenever the method is called; `"*"` is every method.
    pub fn hostile(self, method: &str, hostile: Hostile) -> Target {
        self.misbehave(method, Some(hostile));
        self
    }

    /// A session is forgotten after so many calls: the next one is 404.
    pub fn forget_session_after(self, calls: usize) -> Target {
        self.script(|script| script.forget_after = Some(calls));
        self
    }

    /// Goes on with calls as tasks: of a legacy client that asks for it, of a modern client that says it knows them.
    pub fn tasks(self) -> Target {
        self.script(|script| script.tasks = true);
        self
    }

    /// Streams of calls give their events ids and can be taken up again; see [`Context::hang_up`].
    pub fn resumable(self) -> Target {
        self.script(|script| script.resumable = true);
        self
    }

    // What happens while it runs.

    /// As [`Target::hostile`], while running; `None` makes it behave again.
    pub fn misbehave(&self, method: &str, hostile: Option<Hostile>) {
        self.script(|script| match hostile {
            Some(hostile) => drop(script.hostile.insert(method.to_owned(), hostile)),
            None => drop(script.hostile.remove(method)),
        });
    }

    /// Forgets every session: what comes next with one of them is 404.
    pub fn forget_sessions(&self) {
        self.live().sessions.clear();
    }

    /// Forgets every stream that could have been taken up again.
    pub fn forget_streams(&self) {
        self.live().calls.clear();
    }

    /// Changes the tools, silently.
    pub fn set_tools<const N: usize>(&self, names: [&str; N]) {
        let tools =
            names.iter().map(|name| json!({"name": name, "description": format!("{name} of {}", self.0.name), "inputSchema": schema([])})).collect();
        self.script(|script| script.tools = tools);
    }

    /// Changes the tools to these definitions, silently.
    pub fn replace_tools(&self, definitions: Vec<Value>) {
        self.script(|script| script.tools = definitions);
    }

    /// Says that the tools have changed.
    pub fn notify_list_changed(&self) {
        self.broadcast("notifications/tools/list_changed", json!({}));
    }

    /// Sends a notification on every open stream that belongs to no request.
    pub fn broadcast(&self, method: &str, params: Value) {
        self.broadcast_message(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends any message on every open stream that belongs to no request.
    pub fn broadcast_message(&self, message: Value) {
        self.live().streams.retain(|stream| {
            let mut message = message.clone();
            if let Some(subscription) = &stream.subscription {
                message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = subscription.clone();
            }
            stream.sender.send(message).is_ok()
        });
    }

    /// Open streams that belong to no request.
    pub fn streams(&self) -> usize {
        let mut live = self.live();
        live.streams.retain(|stream| !stream.sender.is_closed());
        live.streams.len()
    }

    /// Stops as a crash would: every connection is gone, new ones are refused.
    pub fn stop(&self) {
        if let Some(server) = self.0.server.lock().unwrap().take() {
            server.abort();
        }
        let mut live = self.live();
        live.sessions.clear();
        live.streams.clear();
        live.asked.clear();
        live.running.clear();
    }

    /// Serves again, on the same port, with no memory of sessions.
    pub fn start(&self) {
        let listener = reusable(self.0.addr).listen(1024).unwrap_or_else(|error| panic!("listen on {}: {error}", self.0.addr));
        let server = tokio::spawn(serve::accept(self.0.clone(), listener));
        if let Some(old) = self.0.server.lock().unwrap().replace(server) {
            old.abort();
        }
    }

    // What it remembers.

    /// Tool calls that reached it: name and arguments.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.record().calls.clone()
    }

    /// Everything that reached it.
    pub fn requests(&self) -> Vec<Recorded> {
        self.record().requests.clone()
    }

    /// Everything that reached it with this JSON-RPC method.
    pub fn requests_of(&self, method: &str) -> Vec<Recorded> {
        self.record().requests.iter().filter(|request| request.method == method).cloned().collect()
    }

    /// Requests that a client caused: everything but handshakes, lists and streams, which the gateway makes on its own.
    pub fn touched(&self) -> usize {
        let own = [
            "",
            "initialize",
            "server/discover",
            "ping",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "subscriptions/listen",
        ];
        self.record()
            .requests
            .iter()
            .filter(|request| !own.contains(&request.method.as_str()) && !request.method.starts_with("notifications/"))
            .count()
    }

    /// Its own ids of tasks.
    pub fn task_ids(&self) -> Vec<String> {
        self.live().tasks.keys().cloned().collect()
    }

    /// Handshakes, completed or not.
    pub fn initializes(&self) -> usize {
        self.requests_of("initialize").len()
    }

    /// `params` of every `notifications/cancelled`.
    pub fn cancelled(&self) -> Vec<Value> {
        self.record().cancelled.clone()
    }

    /// Calls whose connection was closed before they were answered.
    pub fn disconnected(&self) -> usize {
        self.record().disconnected
    }

    /// TCP connections ever made.
    pub fn connections(&self) -> usize {
        self.record().connections
    }

    /// Tool calls that ran to their end.
    pub fn finished(&self) -> usize {
        self.record().finished
    }

    /// Forgets what it remembers.
    pub fn clear(&self) {
        *self.record() = Record::default();
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn addr(&self) -> SocketAddr {
        self.0.addr
    }

    /// Its endpoint.
    pub fn url(&self) -> String {
        let path = if self.script(|script| script.transport) == Transport::LegacySse { "sse" } else { "mcp" };
        format!("http://{}/{path}", self.0.addr)
    }

    /// Itself as a gateway's target.
    pub fn spec(&self) -> TargetSpec {
        let url = self.url().parse().expect("a URL");
        let transport = match self.script(|script| script.transport) {
            Transport::LegacySse => SpecTransport::Sse { url, headers: Vec::new(), tls: None },
            Transport::Json | Transport::Events => SpecTransport::Http { url, headers: Vec::new(), tls: None },
        };
        TargetSpec {
            name: self.0.name.clone(),
            transport,
            era: EraChoice::Auto,
            sessions: Sessions::Shared,
            timeout: Duration::from_secs(20),
            allow_server_requests: false,
            aliases: Vec::new(),
        }
    }

    fn script<R>(&self, change: impl FnOnce(&mut Script) -> R) -> R {
        change(&mut self.0.script.lock().unwrap())
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.0.record.lock().unwrap()
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Live> {
        self.0.live.lock().unwrap()
    }
}

/// What a tool without a handler answers.
pub fn echo(server: &str, tool: &str, arguments: &Value) -> Value {
    let structured = json!({"server": server, "tool": tool, "arguments": arguments});
    json!({"content": [{"type": "text", "text": structured.to_string()}], "structuredContent": structured})
}

/// A result with one text.
pub fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// What a handler can do while its call runs.
#[derive(Clone)]
pub struct Context {
    /// The tool that was called.
    pub tool: String,
    /// `params._meta` of the call.
    pub meta: Value,
    /// The whole `params` of the call.
    pub params: Value,
    /// The task that the call became.
    pub task: Option<String>,
    shared: Arc<Shared>,
    out: mpsc::UnboundedSender<Value>,
    cancel: watch::Receiver<bool>,
}

impl Context {
    /// Sends a notification to whoever made the call.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends any message to whoever made the call.
    pub fn send(&self, message: Value) {
        self.out.send(message).ok();
    }

    /// Progress under the token that came with the call.
    pub fn progress(&self, progress: u64) {
        self.notify("notifications/progress", json!({"progressToken": self.meta["progressToken"], "progress": progress, "total": 100}));
    }

    pub fn log(&self, level: &str, data: &str) {
        self.notify("notifications/message", json!({"level": level, "data": data}));
    }

    /// Asks the client something and waits for the answer.
    pub async fn ask(&self, method: &str, params: Value) -> Answer {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut live = self.shared.live.lock().unwrap();
            live.next += 1;
            let id = format!("ask-{}", live.next);
            live.asked.insert(json!(id).to_string(), sender);
            id
        };
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        receiver.await.unwrap_or_else(|_| Err(json!({"code": -32000, "message": "never answered"})))
    }

    /// Asks the client something by way of the task that the call became, and waits for the answer.
    pub async fn ask_in_task(&self, questions: Value) -> Value {
        let task = self.task.clone().expect("a call that became a task");
        let sender = self.shared.live.lock().unwrap().tasks.get(&task).cloned().expect("a task");
        sender.send_modify(|task| (task.questions, task.answers) = (Some(questions), None));
        let mut changes = sender.subscribe();
        let answered = changes.wait_for(|task| task.answers.is_some()).await.expect("a task");
        answered.answers.clone().unwrap_or_default()
    }

    /// Closes the connection of the call, which goes on; whoever wants its rest may come back after so long. Only of a target
    /// that is [`Target::resumable`].
    pub fn hang_up(&self, retry: Duration) {
        self.send(json!({"$hang_up": u64::try_from(retry.as_millis()).unwrap_or(0)}));
    }

    /// Waits until the call is cancelled.
    pub async fn cancelled(&self) {
        let mut cancel = self.cancel.clone();
        if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending().await
        }
    }

    pub fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }
}
