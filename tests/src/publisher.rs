//! A small HTTP server that publishes a registry the way an internal server would, and fails the way one does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mood {
    /// As it should.
    Well,
    /// With this status.
    Status(u16),
    /// With another place to look.
    Redirect(String),
    /// A byte at a time.
    Slowly,
    /// Not at all.
    Silent,
    /// With less than it announced.
    Truncated,
}

struct State {
    text: String,
    tag: u64,
    mood: Mood,
    requests: Vec<String>,
}

/// A server that publishes one document.
pub struct Publisher {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// Publishes this, from now on.
pub async fn publisher(text: impl Into<String>) -> Publisher {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let state = Arc::new(Mutex::new(State { text: text.into(), tag: 1, mood: Mood::Well, requests: Vec::new() }));
    let shared = state.clone();
    let task = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let state = shared.clone();
            tokio::spawn(async move {
                // A client that goes away is no matter.
                let _ = serve(socket, state).await;
            });
        }
    });
    Publisher { state, address, task }
}

impl Publisher {
    pub fn url(&self) -> String {
        format!("http://{}/registry.json", self.address)
    }

    /// Publishes something else.
    pub fn publish(&self, text: impl Into<String>) {
        let mut state = self.state.lock().unwrap();
        state.text = text.into();
        state.tag += 1;
    }

    pub fn mood(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// The heads of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, state: Arc<Mutex<State>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        let mut byte = [0; 1024];
        let read = socket.read(&mut byte).await?;
        if read == 0 {
            return Ok(());
        }
        head.extend_from_slice(&byte[..read]);
        while let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let request = String::from_utf8_lossy(&head[..end]).to_lowercase();
            head.drain(..end + 4);
            let (text, tag, mood) = {
                let mut state = state.lock().unwrap();
                state.requests.push(request.clone());
                (state.text.clone(), format!("\"v{}\"", state.tag), state.mood.clone())
            };
            answer(&mut socket, &request, &text, &tag, &mood).await?;
        }
    }
}

async fn answer(socket: &mut TcpStream, request: &str, text: &str, tag: &str, mood: &Mood) -> std::io::Result<()> {
    let ok = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\netag: {tag}\r\ncontent-length: {}\r\n\r\n", text.len());
    match mood {
        Mood::Well if request.contains(&format!("if-none-match: {tag}")) => {
            socket.write_all(format!("HTTP/1.1 304 Not Modified\r\netag: {tag}\r\n\r\n").as_bytes()).await
        }
        Mood::Well => socket.write_all(format!("{ok}{text}").as_bytes()).await,
        Mood::Status(status) => socket.write_all(format!("HTTP/1.1 {status} No\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes()).await,
        Mood::Redirect(place) => socket.write_all(format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await,
        Mood::Slowly => {
            for byte in format!("{ok}{text}").bytes() {
                socket.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Ok(())
        }
        Mood::Silent => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(())
        }
        Mood::Truncated => {
            let half: String = text.chars().take(text.chars().count() / 2).collect();
            socket.write_all(format!("{ok}{half}").as_bytes()).await?;
            socket.shutdown().await
        }
    }
}
