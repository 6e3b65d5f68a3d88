//! The load: connections that are kept, each with one request at a time.

use crate::proc::Proxy;
use crate::{backend, modern_meta, revision};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

#[derive(Clone, Copy)]
pub enum Op {
    Call,
    List,
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
    pub async fn run(&self, proxy: &Proxy, era: Era, op: Op) -> Sample {
        let mut connections = Vec::new();
        for _ in 0..self.connections {
            connections.push(Connection::open(proxy.address, era).await);
        }
        let (mut connections, _) = drive(connections, op, self.time / 5).await;
        let before = proxy.cpu();
        let (done, times) = drive(std::mem::take(&mut connections), op, self.time).await;
        let cpu = proxy.cpu() - before;
        drop(done);
        Sample { cpu, times }
    }
}

async fn drive(connections: Vec<Connection>, op: Op, time: Duration) -> (Vec<Connection>, Vec<Duration>) {
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        tasks.spawn(async move {
            let (start, mut times) = (Instant::now(), Vec::new());
            while start.elapsed() < time {
                let asked = Instant::now();
                connection.ask(op).await;
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
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    era: Era,
    session: Option<String>,
    call: Bytes,
    list: Bytes,
}

impl Connection {
    async fn open(address: SocketAddr, era: Era) -> Connection {
        let mut params =
            json!({"name": backend::TOOL, "arguments": {"argument_0": "quarterly report", "argument_1": "open", "argument_2": "finance"}});
        let mut list = json!({});
        if era == Era::Modern {
            params["_meta"] = modern_meta();
            list["_meta"] = modern_meta();
        }
        let body = |method: &str, params: Value| Bytes::from(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string());
        let (call, list) = (body("tools/call", params), body("tools/list", list));
        let mut connection = Connection { sender: connect(address).await, host: address.to_string(), era, session: None, call, list };
        if era == Era::Legacy {
            let hello = json!({"protocolVersion": revision(era), "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
            let (head, _) = connection.post(body("initialize", hello), None).await;
            connection.session = head.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
            connection.post(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), None).await;
        }
        connection
    }

    /// One request, and a look whether the answer can be right.
    async fn ask(&mut self, op: Op) {
        let (body, headers, at_least) = match op {
            Op::Call => (self.call.clone(), ("tools/call", Some(backend::TOOL)), 2_000),
            Op::List => (self.list.clone(), ("tools/list", None), 100_000),
        };
        let (head, reply) = self.post(body, Some(headers)).await;
        let right = head.status() == StatusCode::OK && reply.len() >= at_least;
        assert!(right, "{}: {}", head.status(), String::from_utf8_lossy(reply.get(..300).unwrap_or(&reply)));
    }

    async fn post(&mut self, body: Bytes, names: Option<(&str, Option<&str>)>) -> (Response<()>, Bytes) {
        let mut request = Request::post("/mcp").header("host", &self.host).header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", revision(self.era));
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let (Era::Modern, Some((method, name))) = (self.era, names) {
            request = request.header("mcp-method", method);
            if let Some(name) = name {
                request = request.header("mcp-name", name);
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
    let request = Request::get("/ready").header("host", address.to_string()).body(Full::default()).expect("a request");
    let mut sender = connect(address).await;
    send(&mut sender, request).await.is_ok_and(|(head, _)| head.status() == StatusCode::OK)
}
