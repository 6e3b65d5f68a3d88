//! Streamable HTTP, both eras: every request is a POST whose response carries its answer.
//!
//! The path of a call is short on purpose: prepared headers, one POST, one body, no task and no channel of its own. A
//! legacy session the target has forgotten is made anew once for all who wait for it.

use crate::body::{self, Events};
use crate::courier::Courier;
use crate::deadline::Deadline;
use crate::down::Down;
use crate::ears::{Ears, fault};
use crate::failure::{Answer, Failure};
use crate::handshake;
use crate::http_client::{HttpClient, KEEP_ALIVE, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_RETRIES, Letterhead};
use crate::ident::Ident;
use crate::mux::Strays;
use crate::outgoing;
use crate::road::{self, OPEN_QUESTIONS, Pledge, Road};
use crate::sse::is_event_stream;
use crate::tuning::Tuning;
use crate::via;
use crate::wire::{Response, ResponseBody};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, StatusCode, Uri};
use http_body_util::Full;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout, timeout_at};
use transom_protocol::{Era, Id, Limits, Message, Method, Response as Reply, Revision, RpcError, header, write};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a lost stream is left alone if its server does not say.
const RESUME_AFTER: Duration = Duration::from_secs(1);
/// The bounds of what it may say: nobody is asked without a pause, and no call is put to sleep.
const RESUME_SOONEST: Duration = Duration::from_millis(50);
const RESUME_LATEST: Duration = Duration::from_secs(30);

/// An error body is read up to this size.
const ERROR_BODY: usize = 256 << 10;
/// Why there is no connection to ourselves.
const LEADS_BACK: &str = "it leads back to this gateway: a loop";
/// A session id beyond this is no id.
const LONGEST_SESSION_ID: usize = 4096;

pub(crate) struct HttpLink {
    client: HttpClient,
    courier: Courier,
    url: Uri,
    /// Headers of every request, era and session aside.
    base: HeaderMap,
    session: ArcSwap<Session>,
    renewing: Mutex<()>,
    /// Counts sessions, so that whoever keeps something in one sees that it is gone.
    renewals: watch::Sender<u64>,
    questions: bool,
    strays: Strays,
    /// The gateways the target says it is, or stands in front of.
    gateways: ArcSwap<Arc<[String]>>,
    pub(crate) ears: Arc<Ears>,
    pub(crate) down: Down,
    tuning: Arc<Tuning>,
    runtime: tokio::runtime::Handle,
}

/// What the target knows us by, and the headers that say so.
struct Session {
    era: Era,
    id: Option<HeaderValue>,
    letterhead: Letterhead,
}

/// A request on its way: the method and, for modern targets, what their headers repeat of the body.
pub(crate) struct Ask<'a> {
    pub(crate) ident: Ident,
    pub(crate) method: &'a [u8],
    pub(crate) body: Bytes,
    pub(crate) name: Option<&'a [u8]>,
    pub(crate) params: &'a [(HeaderName, HeaderValue)],
    /// Through which gateways it came, if through any but ours.
    pub(crate) via: Option<&'a HeaderValue>,
}

impl<'a> Ask<'a> {
    pub(crate) fn control(ident: Ident, method: &'a str, body: Bytes) -> Ask<'a> {
        Ask { ident, method: method.as_bytes(), body, name: None, params: &[], via: None }
    }
}

impl HttpLink {
    pub(crate) fn new(client: HttpClient, url: Uri, own: &HeaderMap, questions: bool, ears: Arc<Ears>, tuning: Arc<Tuning>) -> HttpLink {
        let runtime = tokio::runtime::Handle::current();
        let mut base = own.clone();
        base.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        base.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(via) = Some(ears.host.via()).filter(|via| !via.is_empty()).and_then(|via| HeaderValue::from_str(via).ok()) {
            base.insert(via::HEADER, via);
        }
        HttpLink {
            courier: Courier::new(client.clone(), runtime.clone()),
            client,
            session: ArcSwap::from_pointee(Session { era: Era::Legacy, id: None, letterhead: Letterhead::new(&url, base.clone()) }),
            url,
            base,
            renewing: Mutex::new(()),
            renewals: watch::Sender::new(0),
            questions,
            strays: Strays::default(),
            gateways: ArcSwap::default(),
            ears,
            down: Down::new(),
            tuning,
            runtime,
        }
    }

    /// From now on every request is a modern one.
    pub(crate) fn speak_modern(&self) {
        let mut headers = self.base.clone();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(Revision::V2026_07_28.text()));
        self.session.store(Arc::new(Session { era: Era::Modern, id: None, letterhead: Letterhead::new(&self.url, headers) }));
    }

    /// From now on every request says nothing about versions or sessions, as before a handshake.
    pub(crate) fn speak_nothing(&self) {
        self.session.store(Arc::new(Session { era: Era::Legacy, id: None, letterhead: Letterhead::new(&self.url, self.base.clone()) }));
    }

    /// From now on every request belongs to this legacy session.
    fn speak_legacy(&self, revision: Revision, id: Option<HeaderValue>) {
        let mut headers = self.base.clone();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.text()));
        if let Some(id) = &id {
            headers.insert(SESSION_ID, id.clone());
        }
        self.session.store(Arc::new(Session { era: Era::Legacy, id, letterhead: Letterhead::new(&self.url, headers) }));
    }

    pub(crate) fn renewals(&self) -> watch::Receiver<u64> {
        self.renewals.subscribe()
    }

    /// Sends a request and waits for its answer. If the target forgot the session, there is one new handshake for all
    /// who wait, and the request, which was refused and never ran, is sent once more.
    pub(crate) async fn ask(&self, ask: &Ask<'_>, road: &mut Road, deadline: &mut Deadline, cancels: bool) -> Result<Answer, Failure> {
        let session = self.session.load_full();
        match self.exchange(&session, ask, road, deadline, cancels).await {
            Err(Failure::Status { status: StatusCode::NOT_FOUND, .. }) if session.id.is_some() => {}
            done => return done,
        }
        // Boxed: rare, and large enough to make every call's future so.
        let renewed = timeout_at(deadline.at(), Box::pin(self.renew(&session))).await.map_err(|_| Failure::TimedOut)??;
        match Box::pin(self.exchange(&renewed, ask, road, deadline, cancels)).await {
            Err(Failure::Status { status: StatusCode::NOT_FOUND, .. }) => Err(Failure::NotSent("it forgets every session at once".into())),
            done => done,
        }
    }

    /// The session after this one: made now, or by someone who came first.
    async fn renew(&self, old: &Arc<Session>) -> Result<Arc<Session>, Failure> {
        let _one_at_a_time = self.renewing.lock().await;
        let current = self.session.load_full();
        if !Arc::ptr_eq(&current, old) {
            return Ok(current);
        }
        tracing::info!(target = %self.ears.target, "the target forgot its session; a new one is made");
        let before = Session { era: Era::Legacy, id: None, letterhead: Letterhead::new(&self.url, self.base.clone()) };
        let mut deadline = Deadline::after(self.tuning.handshake);
        let renewed = self.initialize_from(&before, &mut deadline).await;
        if let Err(failure) = renewed {
            self.ears.suspect.notify_one();
            return Err(Failure::NotSent(format!("no new session: {failure}")));
        }
        self.renewals.send_modify(|count| *count += 1);
        self.ears.stale.notify_one();
        Ok(self.session.load_full())
    }

    /// The legacy handshake; the session it opens is used from now on.
    pub(crate) async fn initialize(&self, deadline: &mut Deadline) -> Result<handshake::Initialized, Failure> {
        self.speak_nothing();
        let before = self.session.load_full();
        self.initialize_from(&before, deadline).await
    }

    async fn initialize_from(&self, before: &Session, deadline: &mut Deadline) -> Result<handshake::Initialized, Failure> {
        let ident = Ident::fresh();
        let body = handshake::initialize(ident, self.questions);
        let ask = Ask::control(ident, "initialize", body);
        let response =
            timeout_at(deadline.at(), self.client.post(&before.letterhead, Vec::new(), &ask.body)).await.map_err(|_| Failure::TimedOut)??;
        self.look_behind(&response)?;
        let id = HeaderValue::from_bytes(response.header(&SESSION_ID)).ok().filter(is_session_id);
        let answer = self.answer(response, &ask, &mut Road::nowhere(ident), deadline, Era::Legacy).await?;
        let initialized = handshake::read_initialized(answer).map_err(Failure::Invalid)?;
        self.speak_legacy(initialized.revision, id);
        let session = self.session.load_full();
        let receipt = timeout_at(deadline.at(), self.client.send(session.letterhead.request(handshake::initialized())))
            .await
            .map_err(|_| Failure::TimedOut)??;
        if !receipt.status.is_success() {
            return Err(Failure::Status { status: receipt.status, error: None, retry_after: None });
        }
        let _receipt = timeout_at(deadline.at(), body::whole(receipt.body, ERROR_BODY)).await;
        Ok(initialized)
    }

    async fn exchange(&self, session: &Session, ask: &Ask<'_>, road: &mut Road, deadline: &mut Deadline, cancels: bool) -> Result<Answer, Failure> {
        let more = more_headers(session.era, ask);
        // A modern target sees the closed connection; a legacy one must be told.
        let mut given_up = GiveUp { link: self, ident: ask.ident, armed: cancels && session.era == Era::Legacy, reason: "the caller went away" };
        let outcome = async {
            // One timer for the head and for a whole body.
            let mut timer = pin!(sleep_until(deadline.at()));
            let response = within(timer.as_mut(), pin!(self.client.post(&session.letterhead, more, &ask.body))).await??;
            if ask.name.is_none() {
                // A request of our own.
                self.look_behind(&response)?;
            }
            if is_whole(&response) {
                let body = within(timer, pin!(body::whole(response.body, self.tuning.message))).await??;
                return self.read_answer(&body, ask.ident);
            }
            // Boxed: errors and streams are the rarer answers, and large enough to make every call's future so.
            Box::pin(self.answer(response, ask, road, deadline, session.era)).await
        }
        .await;
        match &outcome {
            Err(Failure::TimedOut) => given_up.reason = "no answer in time",
            _ => given_up.armed = false,
        }
        outcome
    }

    /// The gateways the target says it is, or stands in front of.
    pub(crate) fn gateways(&self) -> Arc<[String]> {
        Arc::clone(&self.gateways.load())
    }

    /// Learns which gateways are behind this target. If we are among them, whatever it offers may be our own.
    fn look_behind(&self, response: &Response) -> Result<(), Failure> {
        let said = std::str::from_utf8(response.header(&via::HEADER)).unwrap_or_default();
        if !via::ids(said).take(via::MOST).eq(self.gateways.load().iter().map(String::as_str)) {
            self.gateways.store(Arc::new(via::ids(said).take(via::MOST).map(str::to_owned).collect()));
        }
        let own = via::ids(self.ears.host.via()).last();
        if own.is_some_and(|own| via::ids(said).any(|id| id == own)) {
            self.down.fail(LEADS_BACK);
            return Err(Failure::NotSent(LEADS_BACK.into()));
        }
        Ok(())
    }

    async fn answer(&self, response: Response, ask: &Ask<'_>, road: &mut Road, deadline: &mut Deadline, era: Era) -> Result<Answer, Failure> {
        let status = response.status;
        if !status.is_success() {
            let retry_after = retry_after(&response);
            let body = timeout_at(deadline.at(), body::whole(response.body, ERROR_BODY)).await;
            let error = body.ok().and_then(Result::ok).and_then(|body| error_object(&body));
            return Err(Failure::Status { status, error, retry_after });
        }
        if is_event_stream(&response) {
            return self.stream(response.body, ask, road, deadline, era).await;
        }
        if !is_json(&response) {
            return Err(Failure::Invalid(format!("HTTP {status} with neither JSON nor an event stream")));
        }
        let body = timeout_at(deadline.at(), body::whole(response.body, self.tuning.message)).await.map_err(|_| Failure::TimedOut)??;
        self.read_answer(&body, ask.ident)
    }

    /// The answer in a body that is one message.
    fn read_answer(&self, body: &Bytes, ident: Ident) -> Result<Answer, Failure> {
        match Message::read(body, &Limits::REPLY) {
            Ok(Message::Response(reply)) => self.own(reply, ident).ok_or_else(|| Failure::Invalid("an answer with an id that is not ours".into())),
            Ok(_) => Err(Failure::Invalid("a reply that is no answer".into())),
            Err(malformed) => {
                self.ears.fault(fault::INVALID_REPLY);
                Err(Failure::Invalid(format!("a reply that cannot be read: {}", malformed.error().message)))
            }
        }
    }

    /// The answer, if it is the one to this request. HTTP already says whose it is, so an error without id will do.
    fn own(&self, reply: Reply, ident: Ident) -> Option<Answer> {
        match reply.id.as_deref() {
            Some(id) if id == ident.json() => return Some(reply.outcome),
            None if reply.outcome.is_err() => return Some(reply.outcome),
            _ => {}
        }
        self.ears.fault(fault::UNKNOWN_ID);
        if self.strays.count() >= self.tuning.strays {
            self.down.fail("too many answers to questions nobody asked");
        }
        None
    }

    /// A response that is a stream: what concerns the client on the way, then the answer.
    async fn stream(&self, body: ResponseBody, ask: &Ask<'_>, road: &mut Road, deadline: &mut Deadline, era: Era) -> Result<Answer, Failure> {
        let mut events = Events::new(body, self.tuning.message);
        let mut questions: FuturesUnordered<Question> = FuturesUnordered::new();
        let mut bookmark = None;
        let mut resuming: Option<BoxFuture<'_, Result<Box<Events>, Failure>>> = None;
        loop {
            // While a person is asked only the end of all waiting counts.
            let until = if questions.is_empty() { deadline.at() } else { deadline.end() };
            let next = async {
                match &mut resuming {
                    Some(resuming) => Next::Stream(resuming.await),
                    None => Next::Event(events.next().await),
                }
            };
            let event = tokio::select! {
                next = timeout_at(until, next) => match next.map_err(|_| Failure::TimedOut)? {
                    Next::Stream(resumed) => {
                        (events, resuming) = (*resumed?, None);
                        continue;
                    }
                    Next::Event(Ok(Some(event))) => Some(event),
                    Next::Event(ended) => {
                        // A stream that broke, or that its server did not want to hold open, goes on where it stopped.
                        bookmark = events.bookmark().or(bookmark);
                        match &bookmark {
                            Some(bookmark) if era == Era::Legacy => {
                                resuming = Some(Box::pin(self.resume(bookmark.last.clone(), bookmark.retry)));
                                continue;
                            }
                            _ => ended?,
                        }
                    }
                },
                Some((id, answered)) = questions.next(), if !questions.is_empty() => {
                    deadline.renew_from(Instant::now());
                    self.reply(&id, answered);
                    continue;
                }
            };
            let Some(event) = event else { return Err(Failure::Lost("the response stream ended without an answer".into())) };
            if event.data.is_empty() || !(event.name.is_empty() || event.name == "message") {
                continue;
            }
            match Message::read(&event.data, &Limits::REPLY) {
                Ok(Message::Response(reply)) => {
                    if let Some(answer) = self.own(reply, ask.ident) {
                        events.finish(&self.runtime);
                        return Ok(answer);
                    }
                }
                Ok(Message::Notification(note)) if note.method == Method::Progress => {
                    if road.progress(&note.params, &self.ears) {
                        deadline.renew_from(Instant::now());
                    } else {
                        self.ears.fault(fault::UNKNOWN_TOKEN);
                    }
                }
                Ok(Message::Notification(note)) if road::withdrawn(&note).is_some() => {
                    let id = road::withdrawn(&note);
                    // Whoever is being asked hears of it by losing the way back.
                    questions = std::mem::take(&mut questions).into_iter().filter(|question| Some(&question.id) != id.as_ref()).collect();
                    deadline.renew_from(Instant::now());
                }
                Ok(Message::Notification(note)) => {
                    if !self.ears.hear(&note) {
                        road.pass(event.data, &self.ears);
                    }
                }
                Ok(Message::Request(_)) if era == Era::Modern => {
                    self.ears.fault(fault::UNEXPECTED_REQUEST);
                    return Err(Failure::Invalid("a request inside a response, which this revision does not have".into()));
                }
                Ok(Message::Request(request)) if request.method == Method::Ping => self.reply(&request.id, Ok(Bytes::from_static(b"{}"))),
                Ok(Message::Request(request)) => {
                    let allowed = self.questions && road::is_for_clients(request.method) && questions.len() < OPEN_QUESTIONS;
                    let asked =
                        if allowed { road.question(request.method_name(), &request.params) } else { Err(road::not_allowed(request.method_name())) };
                    match asked {
                        Ok(pledge) => questions.push(Question { id: request.id, pledge }),
                        Err(refusal) => {
                            self.ears.fault(fault::UNEXPECTED_REQUEST);
                            self.reply(&request.id, Err(refusal));
                        }
                    }
                }
                Err(malformed) => {
                    self.ears.garbage(&event.data);
                    if names(&event.data, ask.ident) {
                        return Err(Failure::Invalid(format!("a reply that cannot be read: {}", malformed.error().message)));
                    }
                }
            }
        }
    }

    /// The rest of a stream after this event. The call itself is not made again.
    async fn resume(&self, last: Bytes, retry: Option<Duration>) -> Result<Box<Events>, Failure> {
        sleep(retry.unwrap_or(RESUME_AFTER).clamp(RESUME_SOONEST, RESUME_LATEST)).await;
        let lost = |what: &str| Failure::Lost(format!("the response stream ended without an answer, and {what}"));
        let last = HeaderValue::from_maybe_shared(last).map_err(|_| lost("its place cannot be named"))?;
        let mut request = self.stream_request();
        request.headers_mut().insert(LAST_EVENT_ID, last);
        let response = self.client.send(request).await.map_err(|failure| lost(&failure.to_string()))?;
        opened(response, self.tuning.message).ok().flatten().map(Box::new).ok_or_else(|| lost("the target does not let it be resumed"))
    }

    /// A `GET` in the present session.
    fn stream_request(&self) -> http::Request<Full<Bytes>> {
        let mut request = self.session.load().letterhead.request(Bytes::new());
        *request.method_mut() = Verb::GET;
        request.headers_mut().remove(CONTENT_TYPE);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        request
    }

    /// Answers a request of the server.
    fn reply(&self, id: &Id, answered: Result<Bytes, RpcError>) {
        let body = match answered {
            Ok(result) => write::result(id.raw(), &result),
            Err(error) => write::error(Some(id.raw()), &error),
        };
        self.courier.dispatch(self.session.load().letterhead.request(body));
    }

    /// Opens the stream on which a legacy server speaks unasked. `None`: it has none.
    ///
    /// Some servers send the head of a stream with its first event, so there is no limit to this wait; if the server
    /// goes, it ends.
    pub(crate) async fn open_stream(&self, last: Option<&HeaderValue>) -> Result<Option<Events>, Failure> {
        let mut request = self.stream_request();
        if let Some(last) = last {
            request.headers_mut().insert(LAST_EVENT_ID, last.clone());
        }
        opened(self.client.send(request).await?, self.tuning.message)
    }

    /// Opens a modern subscription. `None`: the server has none to offer.
    pub(crate) async fn open_subscription(&self, ident: Ident, body: Bytes) -> Result<Option<Events>, Failure> {
        let ask = Ask::control(ident, "subscriptions/listen", body);
        let session = self.session.load_full();
        opened(self.client.post(&session.letterhead, more_headers(Era::Modern, &ask), &ask.body).await?, self.tuning.message)
    }

    /// Reads a stream that belongs to no call, to its end. `true`: the server ended it in good order.
    pub(crate) async fn listen(&self, events: &mut Events) -> bool {
        while let Ok(Some(event)) = events.next().await {
            if event.data.is_empty() || !(event.name.is_empty() || event.name == "message") {
                continue;
            }
            match Message::read(&event.data, &Limits::REPLY) {
                Ok(Message::Notification(note)) => {
                    if !self.ears.hear(&note) {
                        tracing::debug!(target = %self.ears.target, method = %self.ears.scrubber.clean(note.method_name().as_bytes(), 64), "notification that belongs to no call");
                    }
                }
                Ok(Message::Request(request)) if request.method == Method::Ping => self.reply(&request.id, Ok(Bytes::from_static(b"{}"))),
                // Nobody knows whose call it belongs to, so nobody may be asked.
                Ok(Message::Request(request)) => {
                    self.ears.fault(fault::UNEXPECTED_REQUEST);
                    self.reply(&request.id, Err(road::not_allowed(request.method_name())));
                }
                Ok(Message::Response(_)) => return true,
                Err(_) => self.ears.garbage(&event.data),
            }
            tokio::task::consume_budget().await;
        }
        false
    }

    /// Holds an idle connection to the host until the other side closes it: the quickest way to learn that a server
    /// without streams is gone.
    pub(crate) async fn watch(&self) {
        let (Some(host), secure) = (self.url.host(), self.url.scheme_str() == Some("https")) else { return };
        let port = self.url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let Ok(Ok(stream)) = timeout(Duration::from_secs(5), TcpStream::connect((host, port))).await else { return };
        let asked = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL).with_retries(KEEP_ALIVE_RETRIES);
        // Without it a server that vanishes is noticed by the next ping.
        let _set = socket2::SockRef::from(&stream).set_tcp_keepalive(&asked);
        let mut byte = [0];
        let _closed = stream.peek(&mut byte).await;
    }

    /// Follows files for TLS that have changed.
    pub(crate) fn renew_trust(&self) {
        self.client.renew(&self.ears.target);
    }

    /// See [`HttpClient::tidy`].
    pub(crate) fn tidy(&self) {
        self.client.tidy();
    }

    /// Ends the legacy session, if there is one.
    pub(crate) async fn close(&self) {
        self.down.fail("closed");
        let session = self.session.load_full();
        if session.id.is_none() {
            return;
        }
        let mut request = session.letterhead.request(Bytes::new());
        *request.method_mut() = Verb::DELETE;
        request.headers_mut().remove(CONTENT_TYPE);
        let _answered = timeout(Duration::from_secs(2), self.client.send(request)).await;
    }
}

/// The headers in which a modern request repeats what its body says.
fn more_headers(era: Era, ask: &Ask<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let via = ask.via.map(|via| (via::HEADER, via.clone()));
    if era == Era::Legacy {
        return via.into_iter().collect();
    }
    let method = HeaderValue::from_bytes(ask.method).ok().map(|method| (MCP_METHOD, method));
    let name = ask.name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.and_then(|name| HeaderValue::from_str(&header::encode(name)).ok()).map(|name| (MCP_NAME, name));
    method.into_iter().chain(name).chain(via).chain(ask.params.iter().cloned()).collect()
}

/// What comes next of a response stream: an event, or the stream again after it was lost.
enum Next {
    Event(Result<Option<transom_protocol::sse::Event>, Failure>),
    Stream(Result<Box<Events>, Failure>),
}

/// The stream that a response is. `None`: the server has none to offer.
fn opened(response: Response, limit: usize) -> Result<Option<Events>, Failure> {
    match response.status {
        status if status.is_server_error() => Err(Failure::Status { status, error: None, retry_after: None }),
        status if status.is_success() && is_event_stream(&response) => Ok(Some(Events::new(response.body, limit))),
        _ => Ok(None),
    }
}

/// A legacy request that ends without its answer is taken back.
struct GiveUp<'l> {
    link: &'l HttpLink,
    ident: Ident,
    armed: bool,
    reason: &'static str,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if self.armed {
            let body = outgoing::cancelled(self.ident, self.reason);
            self.link.courier.dispatch(self.link.session.load().letterhead.request(body));
        }
    }
}

/// A server's request that a client is being asked.
struct Question {
    id: Id,
    pledge: Pledge,
}

impl Future for Question {
    type Output = (Id, Result<Bytes, RpcError>);

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.pledge).poll(cx).map(|answered| {
            let gone = || Err(RpcError::new(transom_protocol::error::INTERNAL, "the client went away"));
            (self.id.clone(), answered.unwrap_or_else(|_| gone()))
        })
    }
}

/// Whether the response is the answer itself, in one piece.
fn is_whole(response: &Response) -> bool {
    response.status.is_success() && is_json(response)
}

/// What becomes of it before the timer ends.
fn within<T>(mut timer: Pin<&mut Sleep>, mut future: Pin<&mut impl Future<Output = T>>) -> impl Future<Output = Result<T, Failure>> {
    poll_fn(move |cx| match future.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| Err(Failure::TimedOut)),
    })
}

fn is_json(response: &Response) -> bool {
    response.header(&CONTENT_TYPE).get(..16).is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/json"))
}

fn is_session_id(id: &HeaderValue) -> bool {
    let id = id.as_bytes();
    !id.is_empty() && id.len() <= LONGEST_SESSION_ID && id.iter().all(|byte| (0x21..=0x7e).contains(byte))
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds: u64 = std::str::from_utf8(response.header(&RETRY_AFTER)).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(3600)))
}

/// The JSON-RPC error of a body that came with an HTTP error. HTTP says which request it answers; servers that refuse a
/// request before they read it invent an id or leave it out.
fn error_object(body: &Bytes) -> Option<Bytes> {
    match Message::read(body, &Limits::REPLY) {
        Ok(Message::Response(Reply { outcome: Err(error), .. })) => Some(error),
        _ => None,
    }
}

/// Whether a broken message names this request.
fn names(bytes: &[u8], ident: Ident) -> bool {
    memchr::memmem::find(bytes, &ident.json()).is_some()
}
