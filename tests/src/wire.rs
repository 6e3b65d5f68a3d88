//! HTTP/1 with next to nothing in between, for those who need thousands of connections: bytes go out as they are, and of a reply
//! only its status, its length and a few headers are looked at.

use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest anybody waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept.
pub struct Wire {
    stream: TcpStream,
    address: SocketAddr,
    read: Vec<u8>,
}

/// A whole reply.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, address, read: Vec::new() })
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a request and reads its whole reply.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.send(request).await?;
        self.answer().await
    }

    /// Posts a message to `/mcp`.
    pub async fn post(&mut self, session: Option<&str>, message: &str) -> io::Result<Answer> {
        let request = post(self.address, session, message);
        self.exchange(&request).await
    }

    /// Begins a legacy session; its id.
    pub async fn initialize(&mut self) -> io::Result<String> {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}});
        let answer = self.post(None, &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()).await?;
        let session = answer.header("mcp-session-id").map(str::to_owned).ok_or_else(|| refused("initialize", &answer))?;
        let ready = self.post(Some(&session), r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
        if ready.status == 202 { Ok(session) } else { Err(refused("notifications/initialized", &ready)) }
    }

    /// Opens the stream of a session on this connection.
    pub async fn listen(&mut self, session: &str) -> io::Result<()> {
        let head = format!("GET /mcp HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n", self.address);
        self.send(head.as_bytes()).await?;
        let end = self.until_end_of_head().await?;
        let head = self.head(end);
        if status(&head) != 200 {
            return Err(refused("GET", &Answer { status: status(&head), head, body: Vec::new() }));
        }
        self.read = Vec::new();
        Ok(())
    }

    /// Whether anything has come back, or the connection is over.
    pub fn has_answered(&mut self) -> bool {
        !matches!(self.stream.try_read(&mut [0; 64]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Reads and forgets what comes, until the connection ends.
    pub async fn ended(&mut self) -> io::Result<()> {
        let mut chunk = [0; 256];
        while self.stream.read(&mut chunk).await? > 0 {}
        Ok(())
    }

    /// Reads a whole reply.
    pub async fn answer(&mut self) -> io::Result<Answer> {
        timeout(PATIENCE, self.whole()).await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in a minute")))
    }

    async fn whole(&mut self) -> io::Result<Answer> {
        let end = self.until_end_of_head().await?;
        let head = self.head(end);
        let mut answer = Answer { status: status(&head), head, body: Vec::new() };
        if let Some(length) = answer.header("content-length").and_then(|length| length.parse::<usize>().ok()) {
            while self.read.len() < length {
                self.more().await?;
            }
            answer.body = self.read.drain(..length).collect();
        } else if answer.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await? {
                answer.body.extend_from_slice(&chunk);
            }
        }
        if self.read.is_empty() {
            // Thousands of these wait most of the time.
            self.read = Vec::new();
        }
        Ok(answer)
    }

    async fn until_end_of_head(&mut self) -> io::Result<usize> {
        loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(end + 4);
            }
            self.more().await?;
        }
    }

    fn head(&mut self, end: usize) -> String {
        String::from_utf8_lossy(&self.read.drain(..end).collect::<Vec<u8>>()).into_owned()
    }

    async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = loop {
            if let Some(end) = self.read.windows(2).position(|two| two == b"\r\n") {
                break self.read.drain(..end + 2).collect::<Vec<u8>>();
            }
            self.more().await?;
        };
        let size = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).map_err(io::Error::other)?;
        while self.read.len() < size + 2 {
            self.more().await?;
        }
        let chunk = self.read.drain(..size + 2).take(size).collect();
        Ok((size > 0).then_some(chunk))
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn refused(what: &str, answer: &Answer) -> io::Error {
    io::Error::other(format!("{what}: {} {}", answer.status, answer.text()))
}

/// A message as a client of the newest legacy revision posts it.
pub fn post(address: SocketAddr, session: Option<&str>, message: &str) -> Vec<u8> {
    let session = session.map_or(String::new(), |id| format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n"));
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{message}",
        message.len()
    )
    .into_bytes()
}

/// A call of a tool.
pub fn call(id: u64, tool: &str, arguments: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#)
}
