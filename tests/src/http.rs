//! HTTP as the tests speak it: whole replies, streams of events, and bytes of any shape.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a test waits for anything before it gives up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A client with a pool of its own.
#[derive(Clone)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A whole reply.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Default for Http {
    fn default() -> Http {
        Http::new()
    }
}

impl Http {
    pub fn new() -> Http {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Http { client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// Sends a request and returns the reply as soon as its head is there.
    pub async fn open(&self, method: &str, url: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Stream, String> {
        let mut request = hyper::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).map_err(|error| error.to_string())?;
        let response = timeout(PATIENCE, self.client.request(request)).await.map_err(|_| format!("no reply to {method} {url} in {PATIENCE:?}"))?;
        let response = response.map_err(|error| format!("{method} {url}: {error:?}"))?;
        let (parts, body) = response.into_parts();
        Ok(Stream { status: parts.status.as_u16(), headers: parts.headers, body, buffer: Vec::new(), comments: 0, ended: false })
    }

    /// Sends a request and reads the whole reply.
    pub async fn try_send(&self, method: &str, url: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Response, String> {
        self.open(method, url, headers, body).await?.whole().await
    }

    /// Sends a request and reads the whole reply; the test fails if there is none.
    pub async fn send(&self, method: &str, url: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response {
        self.try_send(method, url, headers, body).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub async fn get(&self, url: &str) -> Response {
        self.send("GET", url, &[], Bytes::new()).await
    }

    pub async fn post_json(&self, url: &str, body: &Value) -> Response {
        self.send("POST", url, &[("content-type", "application/json"), ("accept", "application/json, text/event-stream")], body.to_string()).await
    }
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; if it is a stream of events, the last message of it.
    pub fn json(&self) -> Value {
        if self.header("content-type").starts_with("text/event-stream") {
            let mut buffer = self.body.to_vec();
            let mut last = Value::Null;
            while let Some(event) = take_event(&mut buffer, &mut 0) {
                last = serde_json::from_str(&event.data).unwrap_or(last);
            }
            return last;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in the body of a {}: {:?}", self.status, self.text()))
    }

    /// A header's value, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: String,
    pub id: Option<String>,
}

/// A reply that is read bit by bit.
pub struct Stream {
    pub status: u16,
    pub headers: HeaderMap,
    /// Comment lines seen so far.
    pub comments: usize,
    body: Incoming,
    buffer: Vec<u8>,
    ended: bool,
}

impl Stream {
    pub fn is_events(&self) -> bool {
        self.headers.get("content-type").and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with("text/event-stream"))
    }

    /// The rest of the body.
    pub async fn whole(mut self) -> Result<Response, String> {
        let mut body = std::mem::take(&mut self.buffer);
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(Response { status: self.status, headers: self.headers, body: body.into() })
    }

    /// The next piece of the body as it came.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        timeout(PATIENCE, self.chunk_forever()).await.unwrap_or_else(|_| Err(format!("the body stopped for {PATIENCE:?}")))
    }

    /// As [`Stream::chunk`], for as long as it takes.
    pub async fn chunk_forever(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The next event with data; `None` when the stream ends.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = take_event(&mut self.buffer, &mut self.comments) {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) | None => self.ended = true,
            }
        }
    }

    /// The next JSON message; the test fails if none comes.
    pub async fn message(&mut self) -> Value {
        self.message_within(PATIENCE).await.expect("a message on the stream")
    }

    /// The next JSON message, if one comes in time.
    pub async fn message_within(&mut self, limit: Duration) -> Option<Value> {
        timeout(limit, async {
            loop {
                let event = self.next().await?;
                if let Ok(message) = serde_json::from_str::<Value>(&event.data) {
                    return Some(message);
                }
            }
        })
        .await
        .ok()
        .flatten()
    }

    /// The next notification of this method, others skipped.
    pub async fn notification(&mut self, method: &str) -> Value {
        loop {
            let message = self.message().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Everything that comes until the stream has been silent for so long.
    pub async fn drain(&mut self, silence: Duration) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.message_within(silence).await {
            messages.push(message);
        }
        messages
    }
}

fn take_event(buffer: &mut Vec<u8>, comments: &mut usize) -> Option<Event> {
    loop {
        let text = String::from_utf8_lossy(buffer).into_owned();
        let text = text.replace("\r\n", "\n");
        let end = text.find("\n\n")?;
        let (block, rest) = (text.get(..end)?, text.get(end + 2..)?);
        *buffer = rest.as_bytes().to_vec();
        let mut event = Event { name: "message".into(), data: String::new(), id: None };
        let mut data: Vec<&str> = Vec::new();
        for line in block.lines() {
            if line.starts_with(':') {
                *comments += 1;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => data.push(value),
                "event" => event.name = value.into(),
                "id" => event.id = Some(value.into()),
                _ => {}
            }
        }
        if !data.is_empty() {
            event.data = data.join("\n");
            return Some(event);
        }
    }
}

/// A TCP connection for requests no library would send.
pub struct Raw {
    stream: TcpStream,
}

/// What came back on a raw connection.
#[derive(Clone, Debug)]
pub struct RawReply {
    pub bytes: Vec<u8>,
    /// Whether the peer closed the connection.
    pub closed: bool,
}

impl Raw {
    pub async fn connect(addr: SocketAddr) -> Raw {
        let stream = TcpStream::connect(addr).await.unwrap_or_else(|error| panic!("connect to {addr}: {error}"));
        stream.set_nodelay(true).ok();
        Raw { stream }
    }

    /// Writes; `false` if the peer has gone.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Reads until the peer closes or is silent for so long.
    pub async fn read(&mut self, silence: Duration) -> RawReply {
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match timeout(silence, self.stream.read(&mut chunk)).await {
                Err(_) => return RawReply { bytes, closed: false },
                Ok(Err(_)) | Ok(Ok(0)) => return RawReply { bytes, closed: true },
                Ok(Ok(n)) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            }
        }
    }

    /// Reads the head and a body of known length, or until the peer closes.
    pub async fn reply(&mut self) -> RawReply {
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            if complete(&bytes) {
                return RawReply { bytes, closed: false };
            }
            match timeout(PATIENCE, self.stream.read(&mut chunk)).await {
                Err(_) | Ok(Err(_)) | Ok(Ok(0)) => return RawReply { bytes, closed: true },
                Ok(Ok(n)) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            }
        }
    }
}

fn complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    match head.lines().find_map(|line| line.strip_prefix("content-length:")) {
        Some(length) => length.trim().parse().is_ok_and(|length: usize| body.len() >= length),
        None => !head.contains("transfer-encoding: chunked") || body.ends_with("0\r\n\r\n"),
    }
}

impl RawReply {
    /// The status of the first reply; 0 if there was none.
    pub fn status(&self) -> u16 {
        self.text().split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// How many replies came.
    pub fn count(&self) -> usize {
        self.text().matches("HTTP/1.").count()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
