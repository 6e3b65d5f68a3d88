//! Many requests over one pair of streams: answers find their callers by our identifiers. Stdio children and legacy SSE
//! servers are reached this way; what carries the bytes is a [`Pipe`].
//!
//! Whatever the other side sends, nothing here blocks the reader, and nothing grows without a bound: the pending map is
//! as large as the calls under way, everything else is counted and dropped.

use crate::deadline::Deadline;
use crate::down::Down;
use crate::ears::{Ears, fault};
use crate::failure::{Answer, Failure};
use crate::fuzzing::Held;
use crate::ident::Ident;
use crate::inlet::Inlet;
use crate::outgoing;
use crate::road::{self, OPEN_QUESTIONS, Pledge, Road};
use crate::sse::SsePipe;
use crate::tuning::Tuning;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use transom_protocol::{Id, Limits, Message, Method, Notification, Request, Response, RpcError, write};

/// Given-up requests whose late answers are no fault of the target.
const REMEMBERED: usize = 1024;
/// How much of a broken message is searched for the request it answers.
const BLAME: usize = 4 << 10;

/// What carries the bytes.
pub(crate) enum Pipe {
    /// Lines for a child's standard input.
    Stdio(Inlet),
    /// POSTs to the endpoint of a legacy SSE server.
    Sse(Box<SsePipe>),
}

/// Who may hear what this connection says outside its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Audience {
    /// One client session has this connection for itself.
    pub(crate) private: bool,
    /// Requests of the server may reach clients.
    pub(crate) questions: bool,
}

pub(crate) struct Mux {
    pipe: Pipe,
    audience: Audience,
    pending: Mutex<Pending>,
    strays: Strays,
    /// Requests of the server that clients are being asked; dropping what stands here ends one.
    questions: Mutex<HashMap<Id, oneshot::Sender<()>>>,
    garbage: AtomicU32,
    pub(crate) ears: Arc<Ears>,
    pub(crate) down: Down,
    tuning: Arc<Tuning>,
    runtime: tokio::runtime::Handle,
}

#[derive(Default)]
struct Pending {
    /// Hashed quickly: every key is drawn by us, and at random.
    waiters: HashMap<Ident, Waiter, foldhash::fast::RandomState>,
    given_up: VecDeque<Ident>,
    closed: Option<String>,
}

struct Waiter {
    since: Instant,
    /// When progress was last heard.
    renewed: Option<Instant>,
    /// A person is being asked: the wait is over only at its end.
    asking: bool,
    road: Road,
    answer: oneshot::Sender<Result<Answer, Failure>>,
}

impl Mux {
    pub(crate) fn new(pipe: Pipe, audience: Audience, ears: Arc<Ears>, down: Down, tuning: Arc<Tuning>) -> Arc<Mux> {
        Arc::new(Mux {
            pipe,
            audience,
            pending: Mutex::default(),
            strays: Strays::default(),
            questions: Mutex::default(),
            garbage: AtomicU32::new(0),
            ears,
            down,
            tuning,
            runtime: tokio::runtime::Handle::current(),
        })
    }

    /// Sends a request and waits for its answer. Giving up, by time or by dropping the future, tells the target so if
    /// `cancels`.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        ident: Ident,
        body: Bytes,
        road: Road,
        mut deadline: Deadline,
        cancels: bool,
    ) -> Result<Answer, Failure> {
        let (sender, mut receiver) = oneshot::channel();
        {
            let mut pending = self.pending();
            if let Some(reason) = &pending.closed {
                return Err(Failure::NotSent(reason.clone()));
            }
            let waiter = Waiter { since: Instant::now(), renewed: None, asking: false, road, answer: sender };
            pending.waiters.insert(ident, waiter);
        }
        let mut given_up = GiveUp { mux: self, ident, cancels, armed: true, reason: "the caller went away" };
        match timeout_at(deadline.at(), self.send(body, &mut receiver)).await {
            Ok(Sent::Yes) => {}
            Ok(Sent::Answered(outcome)) => {
                given_up.armed = false;
                return outcome;
            }
            Ok(Sent::No(failure)) => {
                given_up.cancels = false;
                return Err(failure);
            }
            Err(_) => return Err(Failure::TimedOut),
        }
        loop {
            match timeout_at(deadline.at(), &mut receiver).await {
                Ok(Ok(outcome)) => {
                    given_up.armed = false;
                    return outcome;
                }
                Ok(Err(_)) => return Err(Failure::Lost("the connection was closed".into())),
                Err(_) => {
                    let before = deadline.at();
                    if let Some(waiter) = self.pending().waiters.get(&ident) {
                        if waiter.asking {
                            deadline.renew_from(deadline.end());
                        } else if let Some(renewed) = waiter.renewed {
                            deadline.renew_from(renewed);
                        }
                    }
                    if deadline.at() <= before || deadline.at() <= Instant::now() {
                        given_up.reason = "no answer in time";
                        return Err(Failure::TimedOut);
                    }
                }
            }
        }
    }

    /// Hands a request to the pipe; an answer may come before the pipe has said that it took it.
    async fn send(&self, body: Bytes, receiver: &mut oneshot::Receiver<Result<Answer, Failure>>) -> Sent {
        match &self.pipe {
            Pipe::Stdio(inlet) => match inlet.write(&body) {
                Ok(()) => Sent::Yes,
                Err(reason) => Sent::No(Failure::NotSent(reason)),
            },
            Pipe::Sse(pipe) => tokio::select! {
                sent = pipe.post(body) => match sent {
                    Ok(()) => Sent::Yes,
                    Err(failure) => Sent::No(failure),
                },
                answer = receiver => Sent::Answered(answer.unwrap_or_else(|_| Err(Failure::Lost("the connection was closed".into())))),
            },
        }
    }

    /// Sends a message nobody waits for; dropped if the pipe is full.
    pub(crate) fn tell(&self, body: Bytes) {
        match &self.pipe {
            Pipe::Stdio(inlet) => {
                let _full = inlet.write(&body);
            }
            Pipe::Sse(pipe) => pipe.dispatch(body),
        }
    }

    /// Sends a notification that must arrive, such as the one that ends the handshake.
    pub(crate) async fn notify(&self, body: Bytes) -> Result<(), Failure> {
        match &self.pipe {
            Pipe::Stdio(inlet) => inlet.write(&body).map_err(Failure::NotSent),
            Pipe::Sse(pipe) => pipe.post(body).await,
        }
    }

    /// What a child reads, if this is one.
    pub(crate) fn inlet(&self) -> Option<&Inlet> {
        match &self.pipe {
            Pipe::Stdio(inlet) => Some(inlet),
            Pipe::Sse(_) => None,
        }
    }

    /// One message of the other side.
    pub(crate) fn incoming(self: &Arc<Self>, bytes: Bytes) {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match Message::read(&bytes, &Limits::REPLY) {
            Ok(message) => {
                self.garbage.store(0, Ordering::Relaxed);
                match message {
                    Message::Response(response) => self.response(response),
                    Message::Notification(note) => self.notification(&note, &bytes),
                    Message::Request(request) => self.request(&request),
                }
            }
            Err(malformed) => {
                self.ears.garbage(&bytes);
                self.blame(&bytes, &malformed.error().message);
                if self.garbage.fetch_add(1, Ordering::Relaxed) + 1 >= self.tuning.garbage {
                    self.down.fail(&format!("{} lines in a row that are no MCP messages", self.tuning.garbage));
                }
            }
        }
    }

    fn response(&self, response: Response) {
        let ident = response.id.as_deref().and_then(Ident::read);
        let waiter = ident.and_then(|ident| {
            let mut pending = self.pending();
            let waiter = pending.waiters.remove(&ident);
            if waiter.is_none() && pending.given_up.contains(&ident) {
                // Late, and no wonder.
                pending.given_up.retain(|other| *other != ident);
                return Some(None);
            }
            waiter.map(Some)
        });
        match waiter {
            Some(Some(waiter)) => {
                let _gone = waiter.answer.send(Ok(response.outcome));
            }
            Some(None) => {}
            None => self.stray(),
        }
    }

    fn stray(&self) {
        self.ears.fault(fault::UNKNOWN_ID);
        if self.strays.count() >= self.tuning.strays {
            self.down.fail("too many answers to questions nobody asked");
        }
    }

    fn notification(&self, note: &Notification, bytes: &Bytes) {
        if let Some(id) = road::withdrawn(note) {
            self.questions().remove(&id);
            return;
        }
        if self.ears.hear(note) {
            return;
        }
        let mut pending = self.pending();
        if note.method == Method::Progress {
            let known = road::progress_ident(&note.params).and_then(|ident| pending.waiters.get_mut(&ident));
            match known {
                Some(waiter) => {
                    waiter.renewed = Some(Instant::now());
                    waiter.road.progress(&note.params, &self.ears);
                }
                None => self.ears.fault(fault::UNKNOWN_TOKEN),
            }
        } else if self.audience.private {
            // It does not say which call it is about; told to each of them it would be heard more than once.
            if let Some((_, waiter)) = pending.oldest_with_client() {
                waiter.road.pass(bytes.clone(), &self.ears);
            }
        } else {
            tracing::debug!(target = %self.ears.target, method = %self.ears.scrubber.clean(note.method_name().as_bytes(), 64), "notification that belongs to no call");
        }
    }

    fn request(self: &Arc<Self>, request: &Request) {
        if request.method == Method::Ping {
            return self.tell(write::result(request.id.raw(), b"{}"));
        }
        match self.question(request) {
            Ok((ident, pledge, withdrawn)) => {
                let (mux, id) = (self.clone(), request.id.clone());
                self.runtime.spawn(async move {
                    let mut is_withdrawn = false;
                    let answered = tokio::select! {
                        answered = pledge => answered.ok(),
                        _ = mux.down.gone() => None,
                        _ = withdrawn => {
                            is_withdrawn = true;
                            None
                        }
                    };
                    if !is_withdrawn {
                        mux.questions().remove(&id);
                    }
                    if let Some(waiter) = mux.pending().waiters.get_mut(&ident) {
                        waiter.asking = false;
                        waiter.renewed = Some(Instant::now());
                    }
                    if is_withdrawn {
                        return;
                    }
                    mux.tell(match answered {
                        Some(Ok(result)) => write::result(id.raw(), &result),
                        Some(Err(error)) => write::error(Some(id.raw()), &error),
                        None => write::error(Some(id.raw()), &RpcError::new(transom_protocol::error::INTERNAL, "the client went away")),
                    });
                });
            }
            Err(refusal) => {
                self.ears.fault(fault::UNEXPECTED_REQUEST);
                self.tell(write::error(Some(request.id.raw()), &refusal));
            }
        }
    }

    /// Passes a server's request to the client of a running call: only on a connection one client has for itself, only
    /// while a call of that client is under way.
    fn question(&self, request: &Request) -> Result<(Ident, Pledge, oneshot::Receiver<()>), RpcError> {
        let refusal = || road::not_allowed(request.method_name());
        if !(self.audience.private && self.audience.questions && road::is_for_clients(request.method)) {
            return Err(refusal());
        }
        let mut pending = self.pending();
        let Some((ident, waiter)) = pending.oldest_with_client() else { return Err(refusal()) };
        let mut questions = self.questions();
        if questions.len() >= OPEN_QUESTIONS || questions.contains_key(&request.id) {
            return Err(refusal());
        }
        let pledge = waiter.road.question(request.method_name(), &request.params)?;
        waiter.asking = true;
        let (open, withdrawn) = oneshot::channel();
        questions.insert(request.id.detached(), open);
        Ok((ident, pledge, withdrawn))
    }

    /// A line too long to read began at this time: whoever waited then may wait for it, and it will never come.
    pub(crate) fn overlong(&self, began: Instant) {
        self.ears.fault(fault::OVERLONG);
        tracing::warn!(target = %self.ears.target, limit = self.tuning.message, "skipped a message beyond the size limit");
        let reason = format!("a reply larger than {} bytes", self.tuning.message);
        self.end_where(|_, waiter| waiter.since <= began, &Failure::Invalid(reason));
    }

    /// A message we cannot read still names the request it answers, most of the time.
    fn blame(&self, bytes: &[u8], reason: &str) {
        let head = bytes.get(..BLAME).unwrap_or(bytes);
        let tail = bytes.get(bytes.len().saturating_sub(BLAME)..).unwrap_or_default();
        let named = |ident: Ident| {
            let json = ident.json();
            memchr::memmem::find(head, &json).is_some() || memchr::memmem::find(tail, &json).is_some()
        };
        let failure = Failure::Invalid(format!("a reply that cannot be read: {reason}"));
        if self.end_where(|ident, _| named(ident), &failure) {
            self.ears.fault(fault::INVALID_REPLY);
        }
    }

    fn end_where(&self, ends: impl Fn(Ident, &Waiter) -> bool, failure: &Failure) -> bool {
        let mut pending = self.pending();
        let ended: Vec<Ident> = pending.waiters.iter().filter(|(ident, waiter)| ends(**ident, waiter)).map(|(ident, _)| *ident).collect();
        for ident in &ended {
            if let Some(waiter) = pending.waiters.remove(ident) {
                let _gone = waiter.answer.send(Err(failure.clone()));
            }
            pending.remember(*ident);
        }
        !ended.is_empty()
    }

    /// The connection is over: every waiting call learns it now, and no new one begins.
    pub(crate) fn close(&self, reason: &str) {
        self.down.fail(reason);
        let reason = self.down.reason().map_or_else(|| reason.to_owned(), |reason| reason.to_string());
        let waiters = {
            let mut pending = self.pending();
            pending.closed.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut pending.waiters)
        };
        for waiter in waiters.into_values() {
            let _gone = waiter.answer.send(Err(Failure::Lost(reason.clone())));
        }
    }

    /// What is still in the books.
    pub(crate) fn held(&self) -> Held {
        let pending = self.pending();
        Held { waiting: pending.waiters.len(), given_up: pending.given_up.len(), questions: self.questions().len() }
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<Id, oneshot::Sender<()>>> {
        self.questions.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Nothing panics while it holds this lock; a poisoned one is as good as any.
        self.pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Pending {
    fn remember(&mut self, ident: Ident) {
        if self.given_up.len() >= REMEMBERED {
            self.given_up.pop_front();
        }
        self.given_up.push_back(ident);
    }

    /// Who hears what a server says without naming a call.
    fn oldest_with_client(&mut self) -> Option<(Ident, &mut Waiter)> {
        let listened_to = self.waiters.iter_mut().filter(|(_, waiter)| waiter.road.has_client());
        listened_to.min_by_key(|(_, waiter)| waiter.since).map(|(ident, waiter)| (*ident, waiter))
    }
}

enum Sent {
    Yes,
    Answered(Result<Answer, Failure>),
    No(Failure),
}

/// A request that ends without its answer leaves the map, and the target hears that nobody waits.
struct GiveUp<'m> {
    mux: &'m Arc<Mux>,
    ident: Ident,
    cancels: bool,
    armed: bool,
    reason: &'static str,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let was_waiting = {
            let mut pending = self.mux.pending();
            pending.remember(self.ident);
            pending.waiters.remove(&self.ident).is_some()
        };
        if was_waiting && self.cancels {
            self.mux.tell(outgoing::cancelled(self.ident, self.reason));
        }
    }
}

/// Answers nobody asked for within the last minute.
#[derive(Default)]
pub(crate) struct Strays(Mutex<VecDeque<std::time::Instant>>);

impl Strays {
    const WINDOW: Duration = Duration::from_secs(60);
    const MOST: usize = 64;

    /// One more; how many there were of late.
    pub(crate) fn count(&self) -> u32 {
        let mut times = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = std::time::Instant::now();
        while times.len() >= Strays::MOST || times.front().is_some_and(|at| now.duration_since(*at) > Strays::WINDOW) {
            times.pop_front();
        }
        times.push_back(now);
        u32::try_from(times.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{EraChoice, Sessions, TargetSpec, Transport};
    use crate::target::Host;
    use std::sync::atomic::AtomicUsize;
    use transom_protocol::json;

    #[derive(Default)]
    struct Counter(AtomicUsize);
    impl Host for Counter {
        fn changed(&self) {}
        fn resource_updated(&self, _: &str, _: Bytes) {}
        fn connected(&self, _: &str, _: bool) {}
        fn lost(&self, _: &str) {}
        fn protocol_error(&self, _: &str, _: &'static str) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A mux over `cat`: every request comes straight back, and is no answer.
    async fn mux() -> (Arc<Mux>, Arc<Counter>, tokio::process::Child) {
        let transport = Transport::Stdio { cmd: "cat".into(), args: vec![], env: vec![], cwd: None, limits: Default::default() };
        let spec = TargetSpec {
            name: "t".into(),
            transport,
            era: EraChoice::Auto,
            sessions: Sessions::Shared,
            timeout: Duration::from_secs(1),
            allow_server_requests: false,
            aliases: vec![],
        };
        let mut child = tokio::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let inlet = Inlet::new(child.stdin.take().unwrap()).unwrap();
        let host = Arc::new(Counter::default());
        let audience = Audience { private: false, questions: false };
        let mux = Mux::new(Pipe::Stdio(inlet), audience, Arc::new(Ears::new(&spec, host.clone())), Down::new(), Arc::new(Tuning::default()));
        (mux, host, child)
    }

    fn answer(ident: Ident, nonce: usize) -> Bytes {
        write::result(&ident.json(), format!("{nonce}").as_bytes())
    }

    // L2, E9, H1: every request ends exactly once, whatever the order of answers, timeouts, drops and lies
    #[tokio::test]
    async fn whatever_happens_every_request_ends_once_and_nothing_is_left_over() {
        let (mux, host, _child) = mux().await;
        let writer = mux.clone();
        tokio::spawn(async move { writer.inlet().unwrap().run(Duration::from_secs(5)).await });
        let mut stray = 0;
        for nonce in 0..10_000usize {
            if nonce % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let ident = Ident::fresh();
            let body = outgoing::control(ident, "ping", "{}", transom_protocol::Era::Legacy);
            assert!(json::check(&body, &Limits::REQUEST).is_ok());
            let wait = if nonce % 5 == 1 { Duration::ZERO } else { Duration::from_secs(5) };
            let mut asking = Box::pin(mux.ask(ident, body, Road::nowhere(ident), Deadline::after(wait), false));
            assert!(wait.is_zero() || futures_util::FutureExt::now_or_never(&mut asking).is_none());
            match nonce % 5 {
                0 => {
                    mux.incoming(answer(ident, nonce));
                    mux.incoming(answer(ident, nonce + 1));
                    stray += 1;
                    assert_eq!(asking.await.unwrap().unwrap(), nonce.to_string());
                }
                1 => {
                    assert!(matches!(asking.await, Err(Failure::TimedOut)));
                    mux.incoming(answer(ident, nonce));
                }
                2 => {
                    drop(asking);
                    mux.incoming(answer(ident, nonce));
                }
                3 => {
                    mux.incoming(answer(Ident::fresh(), nonce));
                    stray += 1;
                    mux.incoming(answer(ident, nonce));
                    assert_eq!(asking.await.unwrap().unwrap(), nonce.to_string());
                }
                _ => {
                    mux.overlong(Instant::now());
                    stray += 1;
                    assert!(matches!(asking.await, Err(Failure::Invalid(_))));
                }
            }
        }
        assert_eq!(host.0.load(Ordering::Relaxed), stray);
        assert!(mux.pending().waiters.is_empty());
        assert!(mux.pending().given_up.len() <= REMEMBERED);
        mux.close("over");
        let ident = Ident::fresh();
        let late = mux.ask(ident, Bytes::from_static(b"{}"), Road::nowhere(ident), Deadline::after(Duration::from_secs(1)), true).await;
        assert!(matches!(late, Err(Failure::NotSent(_))));
    }
}
