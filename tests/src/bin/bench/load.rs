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
    /// The answer is at least so long, or it is none.
    pub at_least: usize,
}

impl Ask {
    pub fn call(era: Era, tools: &[String]) -> Ask {
        let arguments = json!({"argument_0": "quarterly report", "argument_1": "open", "argument_2": "finance"});
        Ask { era, tools: tools.to_vec(), arguments, bearer: None, at_least: 2_000 }
    }

    pub fn list(era: Era) -> Ask {
        Ask { era, tools: Vec::new(), arguments: Value::Null, bearer: None, at_least: 100_000 }
    }

    pub fn shorter(self, at_least: usize) -> Ask {
        Ask { at_least, ..self }
    }

    pub fn with_bearer(self, bearer: String) -> Ask {
        Ask { bearer: Some(bearer), ..self }
    }
}

pub struct Load {
    pub connections: usize,
    pub time: Duration,
}

/// What a proxy did under load.
#[derive(Default)]
pub struct Sample {
    cpu: u64,
    times: Vec<Duration>,
}

impl Sample {
    pub fn add(&mut self, other: Sample) {
        self.cpu += other.cpu;
        self.times.extend(other.times);
    }

    /// In microseconds.
    pub fn cpu_per_request(&self) -> f64 {
        self.cpu as f64 / 1e3 / self.times.len().max(1) as f64
    }

    pub fn percentile(&mut self, percent: usize) -> Duration {
        self.times.sort_unstable();
        self.times.get(self.times.len() * percent / 100).copied().unwrap_or_default()
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
        let (done, times) = drive(connections, self.time).await;
        let cpu = proxy.cpu() - before;
        drop(done);
        Sample { cpu, times }
    }
}

async fn drive(connections: Vec<Connection>, time: Duration) -> (Vec<Connection>, Vec<Duration>) {
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        tasks.spawn(async move {
            let (start, mut times) = (Instant::now(), Vec::new());
            while start.elapsed() < time {
                let asked = Instant::now();
                connection.ask().await;
                times.push(asked.elapsed());
            }
            (connection, times)
        });
    }
    let (mut connections, mut all) = (Vec::new(), Vec::new());
    while let Some(done) = tasks.join_next().await {
        let (connection, times) = done.expect("a connection that was served");
        connections.push(connection);
        all.extend(times);
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
    at_least: usize,
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
        let mut connection = Connection { sender, host, era, session: None, bearer, body, tool, at_least: ask.at_least };
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
        let right = head.status() == StatusCode::OK && reply.len() >= self.at_least;
        assert!(right, "{}: {}", head.status(), String::from_utf8_lossy(reply.get(..300).unwrap_or(&reply)));
    }

    /// One request; whether the answer can be right.
    pub async fn try_ask(&mut self) -> bool {
        let (head, reply) = self.post(self.body.clone()).await;
        head.status() == StatusCode::OK && reply.len() >= self.at_least
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
