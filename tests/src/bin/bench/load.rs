//! The load: connections that are kept, each with one request at a time.

use crate::modern_meta;
use crate::proc::Proxy;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use transom_tests::backend::{Era, revision};

/// What every connection asks for, again and again.
#[derive(Clone)]
pub struct Ask {
    pub era: Era,
    /// The tools to call, each connection its own in turn; a list if there are none.
    pub tools: Vec<String>,
    pub arguments: Value,
    pub bearer: Option<String>,
    pub expected: Expected,
}

/// What an answer must be like. An error is a 200 as well.
#[derive(Clone, Copy)]
pub struct Expected {
    /// It is at least so long.
    pub at_least: usize,
    /// It contains this, which nothing else does. At most 32 bytes, which are found fastest.
    pub contains: &'static str,
}

impl Expected {
    /// Whether this can be the answer.
    fn is(self, head: &Response<()>, reply: &[u8]) -> bool {
        let is_error = |text: &str| text.get(..100).unwrap_or(text).contains(r#""error":{"#) || text.contains(r#""isError":true"#);
        head.status() == StatusCode::OK
            && reply.len() >= self.at_least
            && std::str::from_utf8(reply).is_ok_and(|text| text.contains(self.contains) && !is_error(text))
    }
}

impl Ask {
    pub fn call(era: Era, tools: &[String]) -> Ask {
        let arguments = json!({"argument_0": "quarterly report", "argument_1": "open", "argument_2": "finance"});
        // The text of a result has this too, but escaped.
        let expected = Expected { at_least: 2_000, contains: r#""summary":"Sixteen rows match.""# };
        Ask { era, tools: tools.to_vec(), arguments, bearer: None, expected }
    }

    pub fn list(era: Era) -> Ask {
        let expected = Expected { at_least: 100_000, contains: r#""tools":["# };
        Ask { era, tools: Vec::new(), arguments: Value::Null, bearer: None, expected }
    }

    pub fn expecting(self, at_least: usize, contains: &'static str) -> Ask {
        Ask { expected: Expected { at_least, contains }, ..self }
    }

    pub fn with_bearer(self, bearer: String) -> Ask {
        Ask { bearer: Some(bearer), ..self }
    }
}

#[derive(Clone, Copy)]
pub struct Load {
    pub connections: usize,
    pub time: Duration,
}

/// What a proxy did under load.
#[derive(Default)]
pub struct Sample {
    cpu: u64,
    /// Every call, 32 bytes each: some megabytes for a row.
    calls: Vec<Call>,
}

/// When a call was asked, and how long it took.
#[derive(Clone, Copy)]
struct Call {
    asked: Instant,
    took: Duration,
}

impl Sample {
    pub fn add(&mut self, other: Sample) {
        self.cpu += other.cpu;
        self.calls.extend(other.calls);
    }

    /// In microseconds.
    pub fn cpu_per_request(&self) -> f64 {
        self.cpu as f64 / 1e3 / self.calls.len().max(1) as f64
    }

    /// Whether calls went on after this moment.
    pub fn outlasts(&self, moment: Instant) -> bool {
        self.calls.iter().any(|call| call.asked > moment)
    }

    /// Leaves only the calls that were under way at some time between the two.
    pub fn keep(&mut self, begun: Instant, ended: Instant) {
        self.calls.retain(|call| call.asked <= ended && call.asked + call.took >= begun);
    }

    /// In milliseconds; of nothing it is no number, which meets no goal.
    pub fn percentile(&mut self, percent: f64) -> f64 {
        self.calls.sort_unstable_by_key(|call| call.took);
        let place = ((self.calls.len() as f64 * percent / 100.0) as usize).min(self.calls.len().saturating_sub(1));
        self.calls.get(place).map_or(f64::NAN, |call| call.took.as_secs_f64() * 1e3)
    }
}

impl Load {
    /// Opens the connections, warms up for a fifth of the time, and then measures.
    pub async fn run(&self, proxy: &Proxy, ask: &Ask) -> Sample {
        let mut connections = Vec::new();
        for number in 0..self.connections {
            connections.push(Connection::open(proxy.address, ask, number).await);
        }
        let (connections, _) = drive(connections, self.time / 5).await;
        let before = proxy.cpu();
        let (done, calls) = drive(connections, self.time).await;
        let cpu = proxy.cpu() - before;
        drop(done);
        Sample { cpu, calls }
    }
}

async fn drive(connections: Vec<Connection>, time: Duration) -> (Vec<Connection>, Vec<Call>) {
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        tasks.spawn(async move {
            let (start, mut calls) = (Instant::now(), Vec::new());
            while start.elapsed() < time {
                let asked = Instant::now();
                connection.ask().await;
                calls.push(Call { asked, took: asked.elapsed() });
            }
            (connection, calls)
        });
    }
    let (mut connections, mut all) = (Vec::new(), Vec::new());
    while let Some(done) = tasks.join_next().await {
        let (connection, calls) = done.expect("a connection that was served");
        connections.push(connection);
        all.extend(calls);
    }
    (connections, all)
}

/// An MCP client on one connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    era: Era,
    session: Option<String>,
    bearer: Option<String>,
    body: Bytes,
    tool: Option<String>,
    expected: Expected,
}

impl Connection {
    pub async fn open(address: SocketAddr, ask: &Ask, number: usize) -> Connection {
        let era = ask.era;
        let tool = (!ask.tools.is_empty()).then(|| ask.tools[number % ask.tools.len()].clone());
        let mut params = match &tool {
            Some(tool) => json!({"name": tool, "arguments": ask.arguments}),
            None => json!({}),
        };
        if era == Era::Modern {
            params["_meta"] = modern_meta();
        }
        let message = |method: &str, params: Value| Bytes::from(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string());
        let body = message(if tool.is_some() { "tools/call" } else { "tools/list" }, params);
        let (sender, host, bearer) = (connect(address).await, address.to_string(), ask.bearer.clone());
        let mut connection = Connection { sender, host, era, session: None, bearer, body, tool, expected: ask.expected };
        if era == Era::Legacy {
            let hello = json!({"protocolVersion": revision(era), "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
            let (head, _) = connection.post(message("initialize", hello)).await;
            connection.session = head.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
            connection.post(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await;
        }
        connection
    }

    /// One request, and a look whether the answer can be right.
    pub async fn ask(&mut self) {
        let (head, reply) = self.post(self.body.clone()).await;
        assert!(self.expected.is(&head, &reply), "{}: {}", head.status(), String::from_utf8_lossy(reply.get(..300).unwrap_or(&reply)));
    }

    /// One request; whether the answer can be right.
    pub async fn try_ask(&mut self) -> bool {
        let (head, reply) = self.post(self.body.clone()).await;
        self.expected.is(&head, &reply)
    }

    /// The notification stream of the session, open, on this connection.
    pub async fn into_stream(mut self) -> Response<Incoming> {
        let mut request = Request::get("/mcp").header("host", &self.host).header("accept", "text/event-stream");
        request = request.header("mcp-protocol-version", revision(self.era));
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        self.sender.ready().await.expect("a connection");
        let response = self.sender.send_request(request.body(Full::default()).expect("a request")).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "a stream");
        response
    }

    async fn post(&mut self, body: Bytes) -> (Response<()>, Bytes) {
        let mut request = Request::post("/mcp").header("host", &self.host).header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", revision(self.era));
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", format!("Bearer {bearer}"));
        }
        if self.era == Era::Modern {
            request = request.header("mcp-method", if self.tool.is_some() { "tools/call" } else { "tools/list" });
            if let Some(tool) = &self.tool {
                request = request.header("mcp-name", tool);
            }
        }
        send(&mut self.sender, request.body(Full::from(body)).expect("a request")).await.expect("an answer")
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    sender
}

async fn send(sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Result<(Response<()>, Bytes), hyper::Error> {
    sender.ready().await?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok((Response::from_parts(head, ()), body.collect().await?.to_bytes()))
}

/// Whether a gateway is connected to all its targets.
pub async fn is_ready(address: SocketAddr) -> bool {
    let Ok(stream) = TcpStream::connect(address).await else { return false };
    let Ok((mut sender, connection)) = handshake(TokioIo::new(stream)).await else { return false };
    tokio::spawn(connection);
    let request = Request::get("/ready").header("host", address.to_string()).body(Full::default()).expect("a request");
    send(&mut sender, request).await.is_ok_and(|(head, _)| head.status() == StatusCode::OK)
}

/// Has the gateway read its registry again, over its admin listener.
pub async fn reload(admin: SocketAddr, token: &str) {
    let request = Request::post("/api/reload")
        .header("host", admin.to_string())
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"))
        .body(Full::from("{}"))
        .expect("a request");
    let (head, body) = send(&mut connect(admin).await, request).await.expect("an answer");
    assert_eq!(head.status(), StatusCode::OK, "{}", String::from_utf8_lossy(&body));
}
