//! The servers behind the gateway: how each is written in a `config.yaml`, and those that must be started first.

use serde_json::{Value, json};
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;
use transom_tests::children::{Background, free_port};
use transom_tests::install::{folder, node, package, python};

/// A server of its own that listens on a port.
pub struct HttpServer {
    pub url: String,
    _process: Background,
}

/// The reference server with something of everything, over Streamable HTTP. Legacy.
pub async fn everything_http() -> HttpServer {
    let port = free_port();
    let mut command = Command::new(node());
    command.arg(package("@modelcontextprotocol/server-everything/dist/index.js")).arg("streamableHttp").env("PORT", port.to_string());
    serve("server-everything", &mut command, port).await
}

/// A FastMCP server, `servers/modern.py`. Both eras, so that a gateway talks to it in the modern one.
pub async fn modern() -> HttpServer {
    let port = free_port();
    let mut command = Command::new(python("python"));
    command.arg(folder("e2e").join("servers/modern.py")).arg(port.to_string());
    serve("modern.py", &mut command, port).await
}

async fn serve(name: &str, command: &mut Command, port: u16) -> HttpServer {
    let process = Background::start(name, command).listening(port).await;
    HttpServer { url: format!("http://127.0.0.1:{port}/mcp"), _process: process }
}

impl HttpServer {
    pub fn target(&self, name: &str) -> Value {
        json!({"name": name, "mcp": {"host": self.url}})
    }
}

/// The reference server with something of everything, over stdio. Legacy.
pub fn everything_stdio(name: &str) -> Value {
    json!({"name": name, "stdio": {"cmd": node(), "args": [package("@modelcontextprotocol/server-everything/dist/index.js"), "stdio"]}})
}

/// The same, with everything that the gateway says to it written to a file as well.
pub fn everything_overheard(name: &str, file: &std::path::Path) -> Value {
    let script = package("@modelcontextprotocol/server-everything/dist/index.js");
    json!({"name": name, "stdio": {"cmd": "/bin/sh", "args": ["-c", "tee \"$0\" | \"$@\"", file, node(), script, "stdio"]}})
}

/// A knowledge graph in a file, over stdio. Legacy.
pub fn memory(file: &std::path::Path) -> Value {
    let script = package("@modelcontextprotocol/server-memory/dist/index.js");
    json!({"name": "memory", "stdio": {"cmd": node(), "args": [script], "env": {"MEMORY_FILE_PATH": file}}})
}

/// What time it is, over stdio, in Python. Both eras.
pub fn time() -> Value {
    json!({"name": "time", "stdio": {"cmd": python("mcp-server-time"), "args": ["--local-timezone", "UTC"]}})
}

/// Files below a folder, over stdio. Legacy.
pub fn filesystem(folder: &std::path::Path) -> Value {
    json!({"name": "filesystem", "stdio": {"cmd": node(), "args": [package("@modelcontextprotocol/server-filesystem/dist/index.js"), folder]}})
}

/// A repository, over stdio, in Python. Both eras.
pub fn git(repository: &std::path::Path) -> Value {
    json!({"name": "git", "stdio": {"cmd": python("mcp-server-git"), "args": ["--repository", repository]}})
}

/// Web pages as text, over stdio, in Python. Both eras. By itself it refuses addresses that are not public, and [`web`] has none.
pub fn fetch() -> Value {
    json!({"name": "fetch", "stdio": {"cmd": python("mcp-server-fetch"), "args": ["--ignore-robots-txt", "--allow-private-ips"]}})
}

/// A web server on the loopback interface with one page, for [`fetch`]. It ends with the test.
pub async fn web() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let read = socket.read(&mut request).await.unwrap_or(0);
                let known = request[..read].starts_with(b"GET /page ");
                let (status, text) = if known { ("200 OK", "a page for Transom") } else { ("404 Not Found", "nothing") };
                let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
                // Whoever asked may be gone.
                let _ = socket.write_all(format!("{head}{text}").as_bytes()).await;
            });
        }
    });
    url
}
