//! Between a client on standard input and output and a gateway over Streamable HTTP, in either era.
//!
//! A line is a message, and messages stay the bytes they came as: only what HTTP needs to know is read out of them. Each request of the client is
//! a request of its own to the gateway, as many at once as the client likes; whatever the gateway says meanwhile goes to the client as it comes.
//! Notifications and answers of the client go out in the order in which they came. None of this keeps the next line from being read: what a client
//! cancels, and that it has gone, is noticed at once.
//!
//! What HTTP has and pipes have not is made up for here: the session and its stream ([`legacy`]), the headers of the modern era and
//! cancellation by hanging up ([`modern`]).

mod gateway;
mod legacy;
mod lines;
mod modern;
mod session;

use crate::client::{Endpoint, excerpt};
use crate::failure::Failure;
use crate::serve::Stops;
use crate::terminal::{self, harmless};
use bytes::Bytes;
use gateway::{Events, Gateway, is_stream};
use http::{HeaderMap, HeaderValue, Method as HttpMethod};
use hyper::body::Incoming;
use lines::{Line, Lines, one_line};
use serde_json::Value;
use session::{Opening, Session};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use transom_protocol::error::{INVALID_REQUEST, OVERLOADED, UPSTREAM_TIMEOUT};
use transom_protocol::json::{self, Json, Kind};
use transom_protocol::{Executed, Id, Limits, Malformed, Message, Method, Notification, Request, RpcError, write};

/// The most requests of a client under way at once.
const MOST_RUNNING: usize = 512;
/// The longest message of a client.
const LONGEST_LINE: usize = 32 << 20;
/// The most messages that wait until the client reads them; and that wait to be told to the gateway.
const MOST_WAITING: usize = 256;
/// What is read and written at once.
const BUFFER: usize = 64 << 10;
/// How long a message that gets no answer may take to be taken.
const ONE_WAY: Duration = Duration::from_secs(15);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// How long calls may go on after the client has said its last.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// How long the end may take.
const GOODBYE: Duration = Duration::from_secs(2);
/// How often in a row the rest of a stream is asked for that broke off.
const MOST_RESUMED: usize = 5;
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Carries messages until the client has no more to say, or nobody listens to it any more.
pub async fn run(endpoint: Endpoint, input: impl AsyncRead + Unpin, output: impl AsyncWrite + Unpin + Send + 'static) -> Result<(), Failure> {
    let mut stops = Stops::new()?;
    let (out, messages) = mpsc::channel(MOST_WAITING);
    let mut writer = tokio::spawn(write_out(messages, BufWriter::with_capacity(BUFFER, output)));
    let (errands, waiting) = mpsc::channel(MOST_WAITING);
    let bridge = Arc::new(Bridge {
        gateway: Gateway::new(endpoint)?,
        out,
        running: Mutex::default(),
        idle: Notify::new(),
        state: Mutex::default(),
        reopening: tokio::sync::Mutex::new(()),
        schemas: Mutex::default(),
    });
    let messenger = tokio::spawn(bridge.clone().run_errands(waiting));
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER, input), LONGEST_LINE);
    let end = loop {
        let line = tokio::select! {
            line = lines.next() => line,
            _ = &mut writer => break End::Unheard,
            _ = stops.next() => break End::Asked,
        };
        let Ok(line) = line else { break End::Said };
        if line == Line::End {
            break End::Said;
        }
        tokio::select! {
            () = bridge.take(line, &errands) => {}
            _ = &mut writer => break End::Unheard,
            _ = stops.next() => break End::Asked,
        }
    };
    drop(errands);
    if end == End::Said {
        tokio::select! {
            () = bridge.last_calls(messenger) => {}
            _ = stops.next() => {}
        }
    }
    bridge.close().await;
    if end != End::Unheard {
        let _ = timeout(GOODBYE, writer).await;
    }
    Ok(())
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client has said its last.
    Said,
    /// The client reads no more.
    Unheard,
    /// A signal.
    Asked,
}

/// Writes messages until there is `None`.
async fn write_out(mut messages: mpsc::Receiver<Option<Bytes>>, mut output: impl AsyncWrite + Unpin) {
    while let Some(Some(message)) = messages.recv().await {
        let written = async {
            output.write_all(&message).await?;
            output.write_all(b"\n").await?;
            if messages.is_empty() { output.flush().await } else { Ok(()) }
        };
        if written.await.is_err() {
            return;
        }
    }
    // The client may be gone by now.
    let _ = output.flush().await;
}

/// A request of the client under way.
struct Running {
    work: AbortHandle,
    is_modern: bool,
    /// Whether it ends only when somebody ends it.
    is_subscription: bool,
    is_cancelled: bool,
}

/// What a legacy client has agreed on.
#[derive(Default)]
struct State {
    session: Option<Session>,
    opening: Option<Opening>,
    /// Reads the session's stream.
    ear: Option<AbortHandle>,
    /// What the next message has to wait for.
    gate: Gate,
}

/// A part of the handshake under way: nothing that follows makes sense before it is done.
#[derive(Clone, Default)]
struct Gate(Option<watch::Receiver<()>>);

impl Gate {
    /// Waits until it is done, well or not.
    async fn passed(self) {
        if let Some(mut key) = self.0 {
            while key.changed().await.is_ok() {}
        }
    }
}

/// Something to be told to the gateway in its turn.
struct Errand {
    line: Bytes,
    what: OneWay,
    before: Gate,
}

enum OneWay {
    /// A notification or an answer.
    Message,
    /// The end of the handshake; the key opens the gate behind it.
    Initialized(watch::Sender<()>),
    /// Several at once without a request among them.
    Batch,
}

struct Bridge {
    gateway: Gateway,
    out: mpsc::Sender<Option<Bytes>>,
    /// By the id as it was written.
    running: Mutex<HashMap<Vec<u8>, Running>>,
    /// Told whenever a request is done.
    idle: Notify,
    state: Mutex<State>,
    /// Held by the one who opens a session again.
    reopening: tokio::sync::Mutex<()>,
    /// Schemas of tools that want arguments in headers.
    schemas: Mutex<HashMap<String, Value>>,
}

impl Bridge {
    /// One line of the client.
    async fn take(self: &Arc<Self>, line: Line, errands: &mpsc::Sender<Errand>) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                let text = format!("Invalid request: a message of more than {} MiB", LONGEST_LINE >> 20);
                return self.say(write::error(None, &RpcError::new(INVALID_REQUEST, text))).await;
            }
            Line::End => return,
        };
        // Loosely: what is too deep or too large is for the gateway to say.
        match Message::read(&line, &Limits::REPLY) {
            Ok(Message::Request(request)) => {
                let is_modern = modern::is_modern(&request);
                self.begin(line, request, is_modern).await;
            }
            Ok(Message::Notification(notification)) if notification.method == Method::Cancelled => self.cancel(line, &notification, errands),
            Ok(Message::Notification(notification)) if notification.method == Method::Initialized => {
                let (before, key) = self.shut();
                self.enqueue(errands, Errand { line, what: OneWay::Initialized(key), before });
            }
            Ok(Message::Notification(_) | Message::Response(_)) => {
                self.enqueue(errands, Errand { line, what: OneWay::Message, before: self.gate() });
            }
            Err(Malformed::Batch) => self.begin_batch(line, errands).await,
            Err(malformed) => self.say(write::error(None, &malformed.error())).await,
        }
    }

    /// A message for the client.
    async fn say(&self, message: Bytes) {
        // If the client reads no more, everything is over anyway.
        let _ = self.out.send(Some(message)).await;
    }

    /// Sends a request on its way.
    async fn begin(self: &Arc<Self>, line: Bytes, request: Request, is_modern: bool) {
        if self.running().len() >= MOST_RUNNING {
            return self.say(write::error(Some(request.id.raw()), &too_many())).await;
        }
        let (id, is_subscription) = (request.id.raw().to_vec(), request.method == Method::Listen);
        // Held until it is noted, so that it cannot be done before.
        let mut running = self.running();
        let work = if request.method == Method::Initialize && !is_modern {
            let (before, key) = self.shut();
            let opening = self.clone().open(line, request, before);
            tokio::spawn(async move {
                opening.await;
                drop(key);
            })
        } else {
            tokio::spawn(self.clone().exchange(line, request, is_modern, self.gate()))
        };
        running.insert(id, Running { work: work.abort_handle(), is_modern, is_subscription, is_cancelled: false });
    }

    /// Sends several messages on their way together.
    async fn begin_batch(self: &Arc<Self>, line: Bytes, errands: &mpsc::Sender<Errand>) {
        let ids = requests_in(&line);
        let before = self.gate();
        if ids.is_empty() {
            return self.enqueue(errands, Errand { line, what: OneWay::Batch, before });
        }
        if self.running().len() + ids.len() > MOST_RUNNING {
            return self.say(write::error(None, &too_many())).await;
        }
        let mut running = self.running();
        let (bridge, all) = (self.clone(), ids.clone());
        let work = tokio::spawn(async move {
            before.passed().await;
            bridge.batch(line, bridge.gateway.patience()).await;
            bridge.done(all.iter().map(Vec::as_slice));
        });
        let note = || Running { work: work.abort_handle(), is_modern: false, is_subscription: false, is_cancelled: false };
        running.extend(ids.into_iter().map(|id| (id, note())));
    }

    /// Requests that are under way no more.
    fn done<'i>(&self, ids: impl IntoIterator<Item = &'i [u8]>) {
        let mut running = self.running();
        for id in ids {
            running.remove(id);
        }
        drop(running);
        self.idle.notify_one();
    }

    /// What has to be over before the next message goes out.
    fn gate(&self) -> Gate {
        self.state().gate.clone()
    }

    /// The same, and a key: whatever comes from now on waits until that is dropped.
    fn shut(&self) -> (Gate, watch::Sender<()>) {
        let (key, closed) = watch::channel(());
        (std::mem::replace(&mut self.state().gate, Gate(Some(closed))), key)
    }

    /// Has something told to the gateway after everything that came before it. A gateway that takes nothing does not stop the client.
    fn enqueue(&self, errands: &mpsc::Sender<Errand>, errand: Errand) {
        if errands.try_send(errand).is_err() {
            terminal::note(&format!("a message of the client was not taken: {MOST_WAITING} others wait to be taken by the gateway"));
        }
    }

    /// Tells the gateway what it is to be told, one after the other.
    async fn run_errands(self: Arc<Self>, mut errands: mpsc::Receiver<Errand>) {
        while let Some(Errand { line, what, before }) = errands.recv().await {
            before.passed().await;
            match what {
                OneWay::Message => self.tell(line).await,
                OneWay::Batch => self.batch(line, ONE_WAY).await,
                OneWay::Initialized(key) => {
                    self.tell(line).await;
                    drop(key);
                    self.listen();
                }
            }
        }
    }

    /// One request and its answer.
    async fn exchange(self: Arc<Self>, line: Bytes, request: Request, is_modern: bool, before: Gate) {
        before.passed().await;
        let work = async { if is_modern { self.ask_modern(line, &request).await } else { self.ask(line, &request).await } };
        let answer = match request.method {
            Method::Listen => work.await,
            _ => timeout(self.gateway.patience(), work).await.unwrap_or_else(|_| Err(self.gateway.silent(self.gateway.patience()))),
        };
        let is_cancelled = self.running().get(request.id.raw()).is_some_and(|running| running.is_cancelled);
        match answer {
            // Nobody waits for it.
            _ if is_cancelled => {}
            Ok(message) => self.say(message).await,
            Err(error) => self.say(write::error(Some(request.id.raw()), &error)).await,
        }
        self.done([request.id.raw()]);
    }

    /// A message that gets no answer.
    async fn tell(&self, line: Bytes) {
        let told = timeout(ONE_WAY, async {
            let response = self.post(self.session().as_ref(), line).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(());
            }
            Err(self.gateway.refused(status, &self.gateway.body(response.into_body()).await?))
        });
        let trouble = match told.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.message,
            Err(_) => self.gateway.silent(ONE_WAY).message,
        };
        terminal::note(&format!("a message of the client was not taken: {}", harmless(&trouble)));
    }

    /// Several messages at once, as one revision had it: the answers come together as well.
    async fn batch(&self, line: Bytes, patience: Duration) {
        let answered = timeout(patience, async {
            let response = self.post(self.session().as_ref(), line).await?;
            let status = response.status();
            if status.is_success() && is_stream(&response) {
                let mut events = Events::of(response);
                while let Some(data) = events.next().await {
                    self.say(one_line(data)).await;
                }
                return Ok(Bytes::new());
            }
            let body = self.gateway.body(response.into_body()).await?;
            // One that takes no batches says so itself.
            let is_answer = status.is_success() || matches!(Message::read(&body, &Limits::REPLY), Ok(Message::Response(_)));
            if is_answer { Ok(body) } else { Err(self.gateway.refused(status, &body)) }
        });
        match answered.await.unwrap_or_else(|_| Err(self.gateway.silent(patience))) {
            Ok(body) if body.is_empty() => {}
            Ok(body) => self.say(one_line(body)).await,
            Err(error) => self.say(write::error(None, &error)).await,
        }
    }

    /// The client no longer wants an answer. In the modern era one hangs up; in the legacy era one says so.
    fn cancel(self: &Arc<Self>, line: Bytes, notification: &Notification, errands: &mpsc::Sender<Errand>) {
        let Some(id) = notification.params.get("requestId").map(|id| id.raw().as_bytes().to_vec()) else { return };
        let before = self.gate();
        let mut all = self.running();
        match all.get_mut(&id) {
            Some(running) if running.is_modern => {
                running.work.abort();
                drop(all);
                self.done([id.as_slice()]);
            }
            Some(running) if running.is_cancelled => {}
            Some(running) => {
                running.is_cancelled = true;
                drop(all);
                // Not after other messages: those may take long, and it is about a request, not about them.
                tokio::spawn(self.clone().cancel_legacy(line, id, before));
            }
            // It is done as far as we know; what the gateway makes of that is its business.
            None if self.session().is_some() => self.enqueue(errands, Errand { line, what: OneWay::Message, before }),
            None => {}
        }
    }

    async fn post(&self, session: Option<&Session>, line: Bytes) -> Result<http::Response<Incoming>, RpcError> {
        let headers = session.map_or_else(HeaderMap::new, Session::headers);
        self.gateway.send(HttpMethod::POST, headers, line).await
    }

    /// The message that answers a request. Whatever comes before it goes to the client at once.
    async fn answer(&self, response: http::Response<Incoming>, id: &Id, session: Option<&Session>) -> Result<Bytes, RpcError> {
        let status = response.status();
        if status.is_success() && is_stream(&response) {
            return self.follow(Events::of(response), id, session).await;
        }
        let body = self.gateway.body(response.into_body()).await?;
        match Message::read(&body, &Limits::REPLY) {
            Ok(Message::Response(found)) if found.id.as_deref() == Some(id.raw()) => Ok(one_line(body)),
            // It says what is wrong, but not with what.
            Ok(Message::Response(transom_protocol::Response { id: None, outcome: Err(error) })) => {
                let pieces: [&[u8]; 5] = [b"{\"jsonrpc\":\"2.0\",\"id\":", id.raw(), b",\"error\":", &error, b"}"];
                Ok(one_line(pieces.concat().into()))
            }
            _ if status.is_success() => Err(self.gateway.strange(&format!("it sent {}", excerpt(&body)))),
            _ => Err(self.gateway.refused(status, &body)),
        }
    }

    /// The answer at the end of a stream. If a session's stream breaks off, the rest of it is asked for.
    async fn follow(&self, mut events: Events, id: &Id, session: Option<&Session>) -> Result<Bytes, RpcError> {
        let (mut last, mut resumed) = (None, 0);
        loop {
            while let Some(data) = events.next().await {
                resumed = 0;
                match Message::read(&data, &Limits::REPLY) {
                    Ok(Message::Response(found)) if found.id.as_deref() == Some(id.raw()) => return Ok(one_line(data)),
                    Ok(_) => self.say(one_line(data)).await,
                    Err(_) => return Err(self.gateway.strange(&format!("it sent {}", excerpt(&data)))),
                }
            }
            last = events.last_id().or(last);
            let (Some(session), Some(last)) = (session, &last) else { return Err(self.gateway.lost("its stream ended")) };
            if resumed == MOST_RESUMED {
                return Err(self.gateway.lost("its stream ended, and the rest cannot be had"));
            }
            resumed += 1;
            tokio::time::sleep(events.pause().unwrap_or(SHORTEST_PAUSE).min(LONGEST_PAUSE)).await;
            let mut headers = session.headers();
            headers.insert("last-event-id", HeaderValue::clone(last));
            let Ok(response) = self.gateway.send(HttpMethod::GET, headers, Bytes::new()).await else { continue };
            if !response.status().is_success() || !is_stream(&response) {
                return Err(self.gateway.lost("its stream ended, and the rest is gone"));
            }
            events = Events::of(response);
        }
    }

    /// Waits for the calls that are under way, and for what is still to be told, for a while. Who is not waited for any longer is told so.
    async fn last_calls(&self, messenger: JoinHandle<()>) {
        let done = async {
            // It ends when it has nothing more to tell.
            let _ = messenger.await;
            while self.running().values().any(|running| !running.is_subscription) {
                self.idle.notified().await;
            }
        };
        if timeout(LAST_CALLS, done).await.is_ok() {
            return;
        }
        let given_up: Vec<_> = self.running().extract_if(|_, running| !running.is_subscription).collect();
        for (id, running) in given_up {
            running.work.abort();
            if !running.is_cancelled {
                let text = format!("the input has ended, and there was no answer within {} seconds of that", LAST_CALLS.as_secs());
                let error = RpcError::upstream(UPSTREAM_TIMEOUT, text, "gateway", Executed::Unknown, None);
                self.say(write::error(Some(&id), &error)).await;
            }
        }
    }

    /// Hangs up, ends the session and the output.
    async fn close(&self) {
        for (_, running) in self.running().drain() {
            running.work.abort();
        }
        let session = {
            let mut state = self.state();
            if let Some(ear) = state.ear.take() {
                ear.abort();
            }
            state.session.take()
        };
        if let Some(session) = session.filter(Session::is_kept) {
            // A gateway that keeps it anyway will forget it in time.
            let _ = timeout(GOODBYE, self.gateway.send(HttpMethod::DELETE, session.headers(), Bytes::new())).await;
        }
        let _ = timeout(GOODBYE, self.out.send(None)).await;
    }

    fn session(&self) -> Option<Session> {
        self.state().session.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many() -> RpcError {
    RpcError::upstream(OVERLOADED, format!("more than {MOST_RUNNING} requests at once"), "gateway", Executed::No, None)
}

/// The ids of the requests in a batch, as they are written.
fn requests_in(batch: &[u8]) -> Vec<Vec<u8>> {
    let Ok(batch) = json::check(batch, &Limits::REPLY) else { return Vec::new() };
    let id = |message: Json<'_>| message.get("method").and(message.get("id")).map(|id| id.raw().as_bytes().to_vec());
    batch.elements().filter(|message| message.kind() == Kind::Object).filter_map(id).collect()
}
