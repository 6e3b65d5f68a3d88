//! One connection in service: a link to the target and what the target said about itself.

use crate::body::Events;
use crate::call::{Call, CallError};
use crate::deadline::Deadline;
use crate::down::Down;
use crate::ears::{Ears, fault};
use crate::failure::{Answer, Failure};
use crate::handshake::{self, Server};
use crate::http_link::{Ask, HttpLink};
use crate::ident::Ident;
use crate::mux::Mux;
use crate::outgoing;
use crate::road::Road;
use crate::stdio::ChildHandle;
use crate::text::LONGEST_REASON;
use crate::tuning::Tuning;
use bytes::Bytes;
use http::HeaderValue;
use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use transom_protocol::{Era, error, write};

/// The resources clients want to hear about.
pub(crate) type Wanted = watch::Receiver<Arc<[String]>>;

pub(crate) struct Connection {
    pub(crate) server: Server,
    link: Link,
    /// Whether clients' capabilities are passed on.
    declares: bool,
    tuning: Arc<Tuning>,
}

pub(crate) enum Link {
    Http(Box<HttpLink>),
    Child(Arc<Mux>, ChildHandle),
    Sse(Arc<Mux>, AbortOnDrop),
}

/// A task that ends with its owner.
pub(crate) struct AbortOnDrop(pub(crate) tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a ping told us.
pub(crate) enum Pulse {
    Alive,
    /// Connected, but no answer in time.
    Silent,
    Dead(String),
}

impl Connection {
    pub(crate) fn new(server: Server, link: Link, declares: bool, tuning: Arc<Tuning>) -> Connection {
        Connection { server, link, declares, tuning }
    }

    /// A client's call. Dropping the future takes it back at the target.
    pub(crate) async fn call(&self, call: &Call) -> Result<Bytes, CallError> {
        let ident = Ident::fresh();
        let body = outgoing::call(call, ident, self.server.era, self.declares);
        let mut road = Road::new(call, ident, self.tuning.notifications);
        let mut deadline = Deadline::new(call.timeout, self.tuning.longest_call);
        let answer = match &self.link {
            Link::Http(link) => {
                let name = call.name_header.as_deref();
                let ask = Ask { ident, method: &call.method, body, name, params: &call.param_headers, via: call.caller.via.as_ref() };
                link.ask(&ask, &mut road, &mut deadline, true).await
            }
            Link::Child(mux, _) | Link::Sse(mux, _) => mux.ask(ident, body, road, deadline, true).await,
        };
        match answer {
            // A result of MCP is an object; a success made of anything else would be our invention.
            Ok(Ok(result)) if result.first() != Some(&b'{') => {
                self.ears().fault(fault::INVALID_REPLY);
                Err(CallError::Invalid("a result that is no object".into()))
            }
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(CallError::Refused(error)),
            Err(failure) => Err(failure.into_call_error(call.timeout)),
        }
    }

    /// A request of our own; `params` is a JSON object.
    pub(crate) async fn ask(&self, method: &str, params: &str, wait: Duration) -> Result<Answer, Failure> {
        let ident = Ident::fresh();
        let body = outgoing::control(ident, method, params, self.server.era);
        let mut deadline = Deadline::after(wait);
        match &self.link {
            Link::Http(link) => link.ask(&Ask::control(ident, method, body), &mut Road::nowhere(ident), &mut deadline, true).await,
            Link::Child(mux, _) | Link::Sse(mux, _) => mux.ask(ident, body, Road::nowhere(ident), deadline, true).await,
        }
    }

    fn down(&self) -> &Down {
        match &self.link {
            Link::Http(link) => &link.down,
            Link::Child(mux, _) | Link::Sse(mux, _) => &mux.down,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.down().reason().is_some()
    }

    /// Waits for the connection to end by itself.
    pub(crate) async fn gone(&self) -> String {
        self.down().gone().await.to_string()
    }

    /// Ends it in good order.
    pub(crate) async fn close(&self) {
        match &self.link {
            Link::Http(link) => link.close().await,
            Link::Child(mux, child) => {
                mux.close("closed");
                child.stop().await;
            }
            Link::Sse(mux, reader) => {
                mux.close("closed");
                reader.0.abort();
            }
        }
    }

    /// Whether someone answers at all; what they answer does not matter.
    pub(crate) async fn ping(&self) -> Pulse {
        if let Link::Http(link) = &self.link {
            link.renew_trust();
            link.tidy();
        }
        let method = if self.server.era == Era::Modern { "server/discover" } else { "ping" };
        // A pooled connection may have died with its server's previous life; a second try makes a new one.
        for last in [false, true] {
            return match self.ask(method, "{}", self.tuning.ping_timeout).await {
                Ok(_) | Err(Failure::Invalid(_)) => Pulse::Alive,
                Err(Failure::TimedOut) => Pulse::Silent,
                Err(Failure::Status { status, .. }) if !matches!(status.as_u16(), 502..=504) => Pulse::Alive,
                Err(Failure::Lost(_)) if !last => continue,
                Err(failure) => Pulse::Dead(failure.to_string()),
            };
        }
        Pulse::Alive
    }

    /// The gateways the target says it is, or stands in front of.
    pub(crate) fn gateways(&self) -> Arc<[String]> {
        match &self.link {
            Link::Http(link) => link.gateways(),
            Link::Child(..) | Link::Sse(..) => Arc::default(),
        }
    }

    pub(crate) fn is_http(&self) -> bool {
        matches!(self.link, Link::Http(_))
    }

    /// Keeps an ear on the target: the stream on which it speaks unasked or, if it has none, an idle connection that
    /// closes when the server goes. Whenever either ends, the target is suspect.
    pub(crate) async fn keep_line(&self, ears: &Ears, mut wanted: Wanted) -> std::convert::Infallible {
        match (&self.link, self.server.era) {
            (Link::Http(link), Era::Legacy) => self.keep_http_stream(link, ears).await,
            (Link::Http(link), Era::Modern) => self.keep_http_subscription(link, ears, &mut wanted).await,
            (Link::Child(mux, _), Era::Modern) => self.keep_subscription(mux, &mut wanted).await,
            // These hear everything on the stream they have.
            _ => std::future::pending().await,
        }
    }

    async fn keep_http_stream(&self, link: &HttpLink, ears: &Ears) -> std::convert::Infallible {
        let mut renewals = link.renewals();
        let (mut has_stream, mut again) = (true, false);
        let mut last: Option<HeaderValue> = None;
        let mut pause = StreamPause::new(&self.tuning);
        loop {
            let began = Instant::now();
            let listen = async {
                if has_stream {
                    let place = last.take();
                    match self.opened(link.open_stream(place.as_ref()), ears, again).await {
                        Ok(Some(mut events)) => {
                            link.listen(&mut events).await;
                            // A place after which the stream ends as soon as it began leads nowhere.
                            let kept = place.filter(|_| began.elapsed() >= self.tuning.stream_pause);
                            last = events.bookmark().and_then(|bookmark| HeaderValue::from_maybe_shared(bookmark.last).ok()).or(kept);
                            return true;
                        }
                        // It may be the place that it does not know.
                        Ok(None) if place.is_some() => return true,
                        Ok(None) => {}
                        Err(_) => {
                            last = place;
                            return true;
                        }
                    }
                }
                link.watch().await;
                false
            };
            tokio::select! {
                had_stream = listen => {
                    has_stream = had_stream;
                    ears.suspect.notify_one();
                    pause.rest(link, ears, had_stream, began).await;
                }
                // A place in a stream of the old session means nothing in the new one.
                _ = renewals.changed() => (has_stream, last) = (true, None),
            }
            again = true;
        }
    }

    async fn keep_http_subscription(&self, link: &HttpLink, ears: &Ears, wanted: &mut Wanted) -> std::convert::Infallible {
        let (mut has_stream, mut again) = (true, false);
        let mut pause = StreamPause::new(&self.tuning);
        loop {
            let began = Instant::now();
            let uris = wanted.borrow_and_update().clone();
            let listen = async {
                if has_stream && let Some((ident, body)) = self.subscription(&uris) {
                    match self.opened(link.open_subscription(ident, body), ears, again).await {
                        // A server with nothing to say on it ends the stream at once and in good order.
                        Ok(Some(mut events)) => return !(link.listen(&mut events).await && began.elapsed() < self.tuning.stream_pause),
                        Ok(None) => {}
                        Err(_) => return true,
                    }
                }
                link.watch().await;
                false
            };
            tokio::select! {
                had_stream = listen => {
                    has_stream = had_stream;
                    ears.suspect.notify_one();
                    pause.rest(link, ears, had_stream, began).await;
                }
                Ok(()) = wanted.changed() => has_stream = true,
            }
            again = self.server.announces.any();
        }
    }

    /// A stream that is being opened. What was announced while there was none is lost, so if there was one before, the
    /// lists are asked for again as soon as the next change will be heard. A head that is late comes with the first event,
    /// and the stream is there before it.
    async fn opened(
        &self,
        opening: impl Future<Output = Result<Option<Events>, Failure>>,
        ears: &Ears,
        again: bool,
    ) -> Result<Option<Events>, Failure> {
        let mut opening = pin!(opening);
        let in_time = timeout(self.tuning.stream_pause, &mut opening).await;
        if again && matches!(in_time, Ok(Ok(Some(_))) | Err(_)) {
            ears.stale.notify_one();
        }
        match in_time {
            Ok(opened) => opened,
            Err(_) => opening.await,
        }
    }

    async fn keep_subscription(&self, mux: &Arc<Mux>, wanted: &mut Wanted) -> std::convert::Infallible {
        const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
        let mut again = false;
        loop {
            let uris = wanted.borrow_and_update().clone();
            let listen = async {
                if let Some((ident, body)) = self.subscription(&uris) {
                    if again {
                        // As with streams of HTTP; what is asked next is read after this request.
                        mux.ears.stale.notify_one();
                    }
                    let answer = mux.ask(ident, body, Road::nowhere(ident), Deadline::after(FOREVER), true).await;
                    if matches!(answer, Ok(Ok(_))) {
                        sleep(self.tuning.stream_pause + jitter(self.tuning.stream_pause)).await;
                        return;
                    }
                }
                // It has no subscriptions, or nothing to tell.
                std::future::pending().await
            };
            tokio::select! {
                () = listen => {}
                Ok(()) = wanted.changed() => {}
            }
            again = self.server.announces.any();
        }
    }

    /// A `subscriptions/listen` for what this target can announce; `None` if that is nothing.
    fn subscription(&self, uris: &[String]) -> Option<(Ident, Bytes)> {
        let announces = self.server.announces;
        let uris = if self.server.capabilities.is_some_and(|capabilities| capabilities.subscribe) { uris } else { &[] };
        if !announces.any() && uris.is_empty() {
            return None;
        }
        let uris: Vec<String> = uris.iter().map(|uri| write::quoted(uri)).collect();
        let params = format!(
            r#"{{"notifications":{{"toolsListChanged":{},"promptsListChanged":{},"resourcesListChanged":{},"resourceSubscriptions":[{}]}}}}"#,
            announces.tools,
            announces.prompts,
            announces.resources,
            uris.join(",")
        );
        let ident = Ident::fresh();
        Some((ident, outgoing::control(ident, "subscriptions/listen", &params, Era::Modern)))
    }

    /// Keeps a legacy target's subscriptions in line with what clients want.
    pub(crate) async fn keep_subscriptions(&self, mut wanted: Wanted) -> std::convert::Infallible {
        let subscribes = self.server.era == Era::Legacy && self.server.capabilities.is_some_and(|capabilities| capabilities.subscribe);
        if !subscribes {
            return std::future::pending().await;
        }
        let mut renewals = match &self.link {
            Link::Http(link) => Some(link.renewals()),
            _ => None,
        };
        let mut have: HashSet<String> = HashSet::new();
        loop {
            let want = wanted.borrow_and_update().clone();
            let surplus: Vec<String> = have.iter().filter(|uri| !want.contains(uri)).cloned().collect();
            let missing: Vec<String> = want.iter().filter(|uri| !have.contains(*uri)).cloned().collect();
            let mut retry = false;
            for uri in surplus {
                retry |= !self.subscribe("resources/unsubscribe", &uri).await;
                have.remove(&uri);
            }
            for uri in missing {
                if self.subscribe("resources/subscribe", &uri).await {
                    have.insert(uri);
                } else {
                    retry = true;
                }
            }
            let renewed = async {
                match &mut renewals {
                    Some(renewals) => renewals.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Ok(()) = wanted.changed() => {}
                _ = renewed => have.clear(),
                () = sleep(self.tuning.ping_every), if retry => {}
            }
        }
    }

    /// Whether the target took it, or refused it for good.
    async fn subscribe(&self, method: &str, uri: &str) -> bool {
        let params = format!(r#"{{"uri":{}}}"#, write::quoted(uri));
        match self.ask(method, &params, self.tuning.listing).await {
            Ok(Ok(_)) => true,
            Ok(Err(refusal)) => {
                let reason = self.ears().scrubber.clean(handshake::describe(&refusal).as_bytes(), LONGEST_REASON);
                tracing::warn!(target = %self.ears().target, %reason, "the target refused a subscription");
                true
            }
            Err(_) => false,
        }
    }

    fn ears(&self) -> &Ears {
        match &self.link {
            Link::Http(link) => &link.ears,
            Link::Child(mux, _) | Link::Sse(mux, _) => &mux.ears,
        }
    }

    /// Whether an error says that the target has no such method.
    pub(crate) fn lacks_method(answer: &Answer) -> bool {
        matches!(answer, Err(object) if handshake::code(object) == Some(error::METHOD_NOT_FOUND))
    }
}

/// How long to leave a server alone between two streams: longer each time one ends as soon as it began.
struct StreamPause<'t> {
    tuning: &'t Tuning,
    short: u32,
}

impl<'t> StreamPause<'t> {
    fn new(tuning: &'t Tuning) -> StreamPause<'t> {
        StreamPause { tuning, short: 0 }
    }

    async fn rest(&mut self, link: &HttpLink, ears: &Ears, had_stream: bool, began: Instant) {
        if !had_stream {
            return sleep_until(began + self.tuning.watch_pause).await;
        }
        let short_lived = began.elapsed() < self.tuning.stream_pause;
        self.short = if short_lived { (self.short + 1).min(5) } else { 0 };
        let pause = self.tuning.stream_pause * (1 << self.short);
        // Meanwhile nobody would notice that the server goes.
        let watched = async {
            link.watch().await;
            ears.suspect.notify_one();
            std::future::pending::<()>().await
        };
        let _rested = timeout(pause + jitter(pause), watched).await;
    }
}

fn jitter(most: Duration) -> Duration {
    most.mul_f64(rand::random::<f64>() * 0.2)
}

/// Ends a connection even if nobody waits for its end.
pub(crate) fn close_in_background(connection: Arc<Connection>, runtime: &tokio::runtime::Handle, patience: Duration) {
    runtime.spawn(async move {
        let _in_time = timeout(patience, connection.close()).await;
    });
}
