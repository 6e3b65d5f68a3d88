//! A server for measurements: as fast as it can be, with prepared answers.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Which era is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// The revision an era is spoken in here.
pub fn revision(era: Era) -> &'static str {
    match era {
        Era::Legacy => "2025-11-25",
        Era::Modern => "2026-07-28",
    }
}

/// What a server offers.
#[derive(Clone, Copy)]
pub struct Offer {
    pub era: Era,
    /// What the names of its tools begin with.
    pub prefix: &'static str,
    pub tools: usize,
}

/// The name of a tool.
pub fn tool(prefix: &str, number: usize) -> String {
    format!("{prefix}_{number:03}")
}

/// Answers, ready but for the id.
struct Answers {
    era: Era,
    list: String,
    call: String,
}

impl Answers {
    /// Tools of about 1.2 KiB each and 2.3 KiB of result.
    fn new(offer: Offer) -> Answers {
        let property =
            |n: usize| json!({"type": "string", "description": format!("Argument {n} of the tool, explained in a sentence of usual length.")});
        let properties: Value = (0..8).map(|n| (format!("argument_{n}"), property(n))).collect::<serde_json::Map<_, _>>().into();
        let schema = json!({"type": "object", "properties": properties, "required": ["argument_0"]});
        let described = "Does something useful with what it is given. ".repeat(4);
        let definition = |n| json!({"name": tool(offer.prefix, n), "description": described, "inputSchema": schema});
        let mut list = json!({"tools": (0..offer.tools).map(definition).collect::<Vec<_>>()});
        let rows: Vec<_> = (0..16).map(|n| json!({"id": n, "title": format!("Row number {n}"), "owner": "somebody", "score": 0.5})).collect();
        let document = json!({"total": 16, "summary": "Sixteen rows match.", "rows": rows});
        let mut call = json!({"content": [{"type": "text", "text": document.to_string()}], "structuredContent": document});
        if offer.era == Era::Modern {
            for result in [&mut list, &mut call] {
                result["resultType"] = json!("complete");
            }
            list["ttlMs"] = json!(60_000);
            list["cacheScope"] = json!("public");
        }
        Answers { era: offer.era, list: list.to_string(), call: call.to_string() }
    }

    /// The answer to a message; none to a notification.
    fn answer(&self, message: &[u8]) -> Option<String> {
        let message: Value = serde_json::from_slice(message).expect("JSON from the proxy");
        let id = message.get("id")?;
        let opening =
            json!({"protocolVersion": revision(Era::Legacy), "capabilities": {"tools": {}}, "serverInfo": {"name": "backend", "version": "1"}});
        let discovery = json!({
            "supportedVersions": [revision(Era::Modern)], "capabilities": {"tools": {}}, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
        });
        let result = match (message["method"].as_str().unwrap_or_default(), self.era) {
            ("tools/call", _) => &self.call,
            ("tools/list", _) => &self.list,
            ("initialize", Era::Legacy) => &opening.to_string(),
            ("server/discover", Era::Modern) => &discovery.to_string(),
            ("ping", Era::Legacy) => "{}",
            _ => return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#)),
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }
}

/// Serves on a free port until this process ends.
pub async fn serve_http(offer: Offer) -> SocketAddr {
    let answers = Arc::new(Answers::new(offer));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).ok();
            let answers = answers.clone();
            let service = service_fn(move |request| reply(answers.clone(), request));
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

async fn reply(answers: Arc<Answers>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let plain = |status| Response::builder().status(status).body(Full::default());
    if request.method() == Method::DELETE {
        return Ok(plain(StatusCode::OK).expect("a response"));
    }
    if request.method() != Method::POST {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED).expect("a response"));
    }
    let message = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let Some(answer) = answers.answer(&message) else { return Ok(plain(StatusCode::ACCEPTED).expect("a response")) };
    let status = if answers.era == Era::Modern && answer.contains("-32601") { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    if answers.era == Era::Legacy {
        response = response.header("mcp-session-id", "the-only-one");
    }
    Ok(response.body(Full::from(answer)).expect("a response"))
}

/// The same server, legacy, on stdin and stdout.
pub fn serve_stdio() {
    let answers = Answers::new(Offer { era: Era::Legacy, prefix: "tool", tools: 100 });
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if let Some(answer) = answers.answer(line.as_bytes()) {
            let written = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
            if written.is_err() {
                return;
            }
        }
    }
}
