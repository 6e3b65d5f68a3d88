//! Who asks what in a soak, and what each of them may get for an answer.

use super::scene::Editions;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use transom_tests::client::{Client, LEGACY, MODERN, Reply, connect};
use transom_tests::http::Http;
use transom_tests::wire::{Wire, post};

/// A request and its end.
pub struct Ended {
    pub kind: &'static str,
    pub started: Instant,
    pub took: Duration,
    pub outcome: Outcome,
}

pub enum Outcome {
    /// As asked.
    Done,
    /// Hostile, and told so.
    Refused,
    /// Taken back.
    Cancelled,
    /// A server was not there, or not in time.
    Error(i64),
    /// The answer to something else.
    Mixed(String),
    /// No answer.
    Lost(String),
    /// An answer that nobody should get.
    Odd(String),
}

/// Everybody who asks.
pub struct Clients {
    shared: Arc<Shared>,
}

struct Shared {
    address: SocketAddr,
    legacy: Vec<Client>,
    modern: Vec<Client>,
    oldest: Vec<Client>,
    http: Http,
    editions: Editions,
}

impl Clients {
    pub async fn connect(address: SocketAddr, editions: Editions) -> Clients {
        let url = format!("http://{address}/mcp");
        let (mut legacy, mut modern, mut oldest) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..24 {
            legacy.push(connect(&url, if number % 4 == 0 { "2025-03-26" } else { LEGACY }).open().await);
            modern.push(connect(&url, MODERN).open().await);
        }
        for _ in 0..4 {
            oldest.push(connect(format!("http://{address}/sse"), "2024-11-05").open_sse().await);
        }
        Clients { shared: Arc::new(Shared { address, legacy, modern, oldest, http: Http::new(), editions }) }
    }

    /// Begins the request with this number, and tells when it has ended.
    pub fn begin(&self, number: u64, ended: UnboundedSender<Ended>) {
        let shared = self.shared.clone();
        tokio::spawn(async move {
            let started = Instant::now();
            let (kind, outcome) = shared.one(number).await;
            ended.send(Ended { kind, started, took: started.elapsed(), outcome }).ok();
        });
    }
}

impl Shared {
    async fn one(&self, number: u64) -> (&'static str, Outcome) {
        // The same mixture in every hundred, in an order that does not repeat.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let client = |clients: &[Client]| clients.get(usize::try_from(mixed).unwrap_or(0) % clients.len()).cloned();
        let (Some(legacy), Some(modern), Some(oldest)) = (client(&self.legacy), client(&self.modern), client(&self.oldest)) else {
            return ("nobody", Outcome::Lost("no clients".into()));
        };
        let either = if number.is_multiple_of(2) { &legacy } else { &modern };
        let nonce = format!("n{number}");
        match mixed % 100 {
            0..=19 => ("virtual web", self.virtual_call(either, "virtual_web", &nonce).await),
            20..=27 => ("virtual events", self.virtual_call(either, "virtual_events", &nonce).await),
            28..=39 => ("virtual pipe", self.virtual_call(either, "virtual_pipe", &nonce).await),
            40..=51 => ("plain web", plain_call(either, "web", &nonce).await),
            52..=57 => ("plain events", plain_call(either, "events", &nonce).await),
            58..=67 => ("plain line", plain_call(either, "line", &nonce).await),
            68..=77 => ("list", list(either).await),
            78..=82 => ("invoke", self.invoke(&nonce).await),
            83..=87 => ("tools", self.tools().await),
            88..=92 => ("oldest", plain_call(&oldest, "web", &nonce).await),
            93..=95 => ("stream", stream(&legacy).await),
            96..=97 => ("subscription", subscription(&modern).await),
            98 if number.is_multiple_of(2) => ("left", leave(&modern, &nonce).await),
            98 => ("taken back", take_back(&legacy, &nonce).await),
            _ => ("hostile", hostile(self.address, number).await),
        }
    }

    async fn virtual_call(&self, client: &Client, tool: &str, nonce: &str) -> Outcome {
        let asked = Instant::now();
        let reply = client.call(tool, json!({"nonce": nonce})).await;
        if let Some(outcome) = failed(&reply) {
            return outcome;
        }
        // What the registry hides and what it leaves out must not come back.
        if reply.raw.contains("hidden") {
            return Outcome::Odd(reply.raw);
        }
        self.virtual_answer(&reply.message["result"], nonce, asked)
    }

    /// What a virtual tool answers: what it was called with, and by which edition of the registry.
    fn virtual_answer(&self, result: &Value, nonce: &str, asked: Instant) -> Outcome {
        let structured = &result["structuredContent"];
        match structured["edition"].as_u64() {
            Some(edition) if self.editions.answers(edition, asked) => same(&structured["nonce"], nonce, result),
            _ => Outcome::Odd(format!("edition {} is published, and this is the answer: {result}", self.editions.newest())),
        }
    }

    async fn invoke(&self, nonce: &str) -> Outcome {
        let asked = Instant::now();
        let url = format!("http://{}/tools/virtual_web/invoke", self.address);
        let headers = [("content-type", "application/json")];
        let response = match self.http.try_send("POST", &url, &headers, json!({"arguments": {"nonce": nonce}}).to_string()).await {
            Ok(response) => response,
            Err(error) => return Outcome::Lost(error),
        };
        let body = response.json();
        match response.status {
            200 => self.virtual_answer(&body["result"], nonce, asked),
            502..=504 => Outcome::Error(body["error"]["details"]["rpcCode"].as_i64().unwrap_or(0)),
            status => Outcome::Odd(format!("{status} {body}")),
        }
    }

    async fn tools(&self) -> Outcome {
        match self.http.try_send("GET", &format!("http://{}/tools?status=all", self.address), &[], "").await {
            Ok(response) if response.status == 200 && response.json().as_array().is_some_and(|tools| tools.len() >= 3) => Outcome::Done,
            Ok(response) => Outcome::Odd(format!("{} {}", response.status, response.text())),
            Err(error) => Outcome::Lost(error),
        }
    }
}

fn same(came: &Value, nonce: &str, whole: &Value) -> Outcome {
    match came.as_str() {
        Some(came) if came == nonce => Outcome::Done,
        Some(came) => Outcome::Mixed(format!("{came} instead of {nonce}")),
        None => Outcome::Odd(whole.to_string()),
    }
}

/// An answer that is no result: a server that is not there, or something that must not be.
fn failed(reply: &Reply) -> Option<Outcome> {
    if let Some(lost) = &reply.lost {
        return Some(Outcome::Lost(lost.clone()));
    }
    let error = reply.message.get("error")?;
    Some(match error["code"].as_i64() {
        // Too much to do, not connected, gone while it worked, or too slow: what a server can come to.
        Some(code @ 1001..=1004) => Outcome::Error(code),
        _ => Outcome::Odd(format!("{} {}", reply.status, reply.raw)),
    })
}

async fn plain_call(client: &Client, server: &str, nonce: &str) -> Outcome {
    let reply = client.call(&format!("{server}_plain"), json!({"nonce": nonce})).await;
    echoed(&reply, nonce)
}

/// What a tool answers that says what it was called with.
fn echoed(reply: &Reply, nonce: &str) -> Outcome {
    failed(reply).unwrap_or_else(|| same(&reply.message["result"]["structuredContent"]["arguments"]["nonce"], nonce, &reply.message))
}

async fn list(client: &Client) -> Outcome {
    let reply = client.request("tools/list", json!({})).await;
    if let Some(outcome) = failed(&reply) {
        return outcome;
    }
    let tools = reply.message["result"]["tools"].as_array().cloned().unwrap_or_default();
    // A virtual tool over a server that is down may be missing; a source under one is never there.
    let leaks = tools.iter().any(|tool| tool["name"].as_str().is_some_and(|name| name.ends_with("_raw") && !name.starts_with("line")));
    if tools.is_empty() || leaks { Outcome::Odd(reply.raw.clone()) } else { Outcome::Done }
}

/// A stream for a moment.
async fn stream(client: &Client) -> Outcome {
    let stream = client.try_stream().await;
    let outcome = if stream.status == 200 && stream.is_events() { Outcome::Done } else { Outcome::Odd(stream.status.to_string()) };
    drop(stream);
    outcome
}

async fn subscription(client: &Client) -> Outcome {
    let message = client.message("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut stream = client.open_message(&message).await;
    match stream.message_within(Duration::from_secs(10)).await {
        Some(first) if first["method"] == "notifications/subscriptions/acknowledged" => Outcome::Done,
        other => Outcome::Odd(format!("{} {other:?}", stream.status)),
    }
}

/// How long a call runs before its client wants it no more; it would take ten times as long.
const CHANGE_OF_MIND: Duration = Duration::from_millis(50);
/// A reply that was on its way when the call was taken back comes within this time.
const RACE: Duration = Duration::from_millis(50);

/// A modern call whose client goes away while it runs.
async fn leave(client: &Client, nonce: &str) -> Outcome {
    let mut running = client.start_call("web_slow", json!({"nonce": nonce}));
    match running.reply_within(CHANGE_OF_MIND).await {
        Some(reply) => echoed(&reply, nonce),
        None => Outcome::Cancelled,
    }
}

/// A legacy call that its client takes back by a message while it runs.
async fn take_back(client: &Client, nonce: &str) -> Outcome {
    let mut running = client.start_call("web_slow", json!({"nonce": nonce}));
    if let Some(reply) = running.reply_within(CHANGE_OF_MIND).await {
        return echoed(&reply, nonce);
    }
    let (id, taken_back) = (running.id.clone(), Instant::now());
    // Both at once, so that what is slow is not the look at the clock.
    let (status, (reply, after)) = tokio::join!(client.cancel(&id), async {
        let reply = running.reply_within(Duration::from_secs(30)).await;
        (reply, taken_back.elapsed())
    });
    if status != 202 {
        return Outcome::Odd(format!("a message that takes a call back is answered with {status}"));
    }
    match reply {
        Some(reply) if reply.message["error"]["code"] == 1006 => Outcome::Cancelled,
        Some(reply) => match echoed(&reply, nonce) {
            Outcome::Done if after > RACE => Outcome::Odd(format!("taken back, and done all the same: {}", reply.raw)),
            outcome => outcome,
        },
        None => Outcome::Lost("a call that was taken back was not answered".into()),
    }
}

/// Something no honest client sends. It must be refused, or the connection closed.
async fn hostile(address: SocketAddr, number: u64) -> Outcome {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"web_plain","arguments":{}}}"#;
    let request = match number % 9 {
        0 => post(address, None, &call.replace("\"id\":1", "\"id\":1,\"id\":2")),
        1 => post(address, None, &call.replace("{}", &"[".repeat(10_000))),
        2 => post(address, None, &call.replace("{}", &format!("{{\"a\":[{}0]}}", "{\"a\":0},".repeat(150_000)))),
        3 => post(address, None, &format!("[{call}]")),
        4 => post(address, Some("not-a-session"), call),
        5 => format!("POST /mcp HTTP/1.1\nhost: {address}\n\n").into_bytes(),
        6 => b"POST /mcp HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0\r\n\r\n".to_vec(),
        7 => format!("POST /mcp HTTP/1.1\r\nhost: {address}\r\nx: {}\r\n\r\n", "y".repeat(70_000)).into_bytes(),
        _ => post(address, None, &call[..40]),
    };
    let Ok(mut wire) = Wire::connect(address).await else { return Outcome::Lost("no connection".into()) };
    // It may be refused before it was sent as a whole.
    let _ = wire.send(&request).await;
    match wire.answer().await {
        Ok(answer) if (400..500).contains(&answer.status) => Outcome::Refused,
        Ok(answer) => Outcome::Odd(format!("{} {}", answer.status, answer.text())),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset) => Outcome::Refused,
        Err(error) => Outcome::Lost(error.to_string()),
    }
}
