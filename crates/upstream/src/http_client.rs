//! Pooled HTTP clients, one per target. Redirects are never followed: a target's headers and bodies go where the config
//! says and nowhere else.
//!
//! Plain HTTP/1 has a pool of its own: a connection goes back at the end of its response, and a call costs no task, no
//! search by host and no wake-up between threads (see [`crate::wire`]).

use crate::failure::Failure;
use crate::head;
use crate::lane::PerLane;
use crate::spec::ClientTls;
use crate::trust::{self, Stamps};
use crate::wire::{Response, Unanswered, Wire};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::Either;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Collected, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const CONNECT: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(90);
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// A peer that is asked and says nothing: together with the first wait no more than half a minute.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
pub(crate) const KEEP_ALIVE_RETRIES: u32 = 3;
/// What we sent and nobody acknowledged for this long was sent to nobody.
const UNHEARD: Duration = Duration::from_secs(25);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
const IDLE_PER_HOST: usize = 512;
/// A connection that was not needed for so long, while others were, was opened for a rush that is over.
const SPARE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) enum HttpClient {
    Plain(Arc<Pool>),
    Tls(Arc<Secure>),
}

/// A client that speaks TLS as its files say.
pub(crate) struct Secure {
    current: ArcSwap<Client<HttpsConnector<HttpConnector>, Full<Bytes>>>,
    files: Option<ClientTls>,
    /// What the files were when they were read.
    stamps: Mutex<Stamps>,
}

impl Secure {
    fn client(files: Option<&ClientTls>) -> Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>, String> {
        let config = trust::with_files(files)?;
        let mut connector = connector();
        connector.enforce_http(false);
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().enable_http2().wrap_connector(connector);
        Ok(builder().build(connector))
    }
}

impl HttpClient {
    /// A client for this URL.
    pub(crate) fn new(url: &http::Uri, tls: Option<&ClientTls>) -> Result<HttpClient, String> {
        if url.scheme_str() != Some("https") {
            return Ok(HttpClient::Plain(Arc::new(Pool { connector: connector(), idle: PerLane::default() })));
        }
        let stamps = Mutex::new(tls.map(trust::stamps).unwrap_or_default());
        let current = ArcSwap::from_pointee(Secure::client(tls)?);
        Ok(HttpClient::Tls(Arc::new(Secure { current, files: tls.cloned(), stamps })))
    }

    /// Closes what is over and what nobody has used for too long.
    pub(crate) fn tidy(&self) {
        if let HttpClient::Plain(pool) = self {
            pool.tidy();
        }
    }

    /// Reads the files for TLS again if they have changed; connections made from now on follow them. Bad files change nothing.
    pub(crate) fn renew(&self, target: &str) {
        let HttpClient::Tls(secure) = self else { return };
        let Some(files) = &secure.files else { return };
        let now = trust::stamps(files);
        let mut stamps = secure.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        if *stamps == now {
            return;
        }
        *stamps = now;
        match Secure::client(Some(files)) {
            Ok(client) => {
                secure.current.store(Arc::new(client));
                tracing::info!(%target, "the certificates for this target have changed and are in use");
            }
            Err(reason) => tracing::warn!(%target, reason, "the certificates for this target have changed and cannot be used; the old ones stay"),
        }
    }

    /// Posts a body and waits for the head of the response. `more` are headers of this request alone.
    pub(crate) fn post<'a>(
        &'a self,
        letterhead: &'a Letterhead,
        more: Vec<(HeaderName, HeaderValue)>,
        body: &'a Bytes,
    ) -> impl Future<Output = Result<Response, Failure>> + Send + 'a {
        let written = match self {
            // What stands twice is sent once: a map sorts that out.
            HttpClient::Plain(pool) if !more.iter().any(|(name, _)| letterhead.headers.contains_key(name)) => Some(pool),
            _ => None,
        };
        match written {
            Some(pool) => {
                let mut head = Vec::with_capacity(letterhead.opening.len() + 48 + 64 * more.len());
                head.extend_from_slice(&letterhead.opening);
                more.iter().for_each(|(name, value)| head::line(&mut head, name, value));
                head::close(&mut head, body.len());
                Either::Left(async move { pool.send(&letterhead.url, &head, body).await })
            }
            None => {
                let mut request = letterhead.request(body.clone());
                more.into_iter().for_each(|(name, value)| drop(request.headers_mut().insert(name, value)));
                Either::Right(Box::pin(self.send(request)))
            }
        }
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) fn send(&self, request: Request<Full<Bytes>>) -> impl Future<Output = Result<Response, Failure>> + Send {
        match self {
            HttpClient::Plain(pool) => Either::Left(async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
                let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
                let host = host_header(&parts.uri);
                let mut head = head::opening(&parts.method, path, host.as_ref(), &parts.headers);
                if body.is_empty() && parts.method != Method::POST {
                    head.extend_from_slice(b"\r\n")
                } else {
                    head::close(&mut head, body.len())
                }
                pool.send(&parts.uri, &head, &body).await
            }),
            HttpClient::Tls(secure) => Either::Right(Box::pin(async move {
                let client = Client::clone(&secure.current.load());
                match client.request(request).await {
                    Ok(response) => Ok(Response::driven(response)),
                    Err(error) => {
                        let reason = reason(&error);
                        Err(if error.is_connect() { not_sent(&reason) } else { lost(&reason) })
                    }
                }
            })),
        }
    }
}

/// What every POST of a session begins with: the headers and, for a plain connection, the head as it is written.
pub(crate) struct Letterhead {
    url: Uri,
    headers: HeaderMap,
    opening: Vec<u8>,
}

impl Letterhead {
    pub(crate) fn new(url: &Uri, headers: HeaderMap) -> Letterhead {
        let path = url.path_and_query().map_or("/", PathAndQuery::as_str);
        let opening = head::opening(&Method::POST, path, host_header(url).as_ref(), &headers);
        Letterhead { url: url.clone(), headers, opening }
    }

    /// A request that can be changed before it is sent.
    pub(crate) fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// The name a server is asked for.
fn host_header(url: &Uri) -> Option<HeaderValue> {
    let host = url.host()?;
    match url.port_u16() {
        None | Some(80) => HeaderValue::from_str(host).ok(),
        Some(port) => HeaderValue::from_str(&format!("{host}:{port}")).ok(),
    }
}

pub(crate) fn not_sent(reason: &str) -> Failure {
    Failure::NotSent(format!("cannot connect: {reason}"))
}

pub(crate) fn lost(reason: &str) -> Failure {
    Failure::Lost(format!("the connection broke: {reason}"))
}

/// Connections to one plain HTTP/1 server.
pub(crate) struct Pool {
    connector: HttpConnector,
    /// The most recently used last.
    idle: PerLane<VecDeque<Idle>>,
}

struct Idle {
    wire: Wire,
    since: Instant,
}

impl Idle {
    fn is_good(&self) -> bool {
        self.wire.is_ready() && self.since.elapsed() <= IDLE
    }
}

impl Pool {
    async fn send(self: &Arc<Self>, url: &Uri, head: &[u8], body: &[u8]) -> Result<Response, Failure> {
        loop {
            let pooled = self.take();
            let fresh = pooled.is_none();
            let mut wire = match pooled {
                Some(wire) => wire,
                // Boxed: rare, and large enough to make every call's future so.
                None => Box::pin(self.connect(url.clone())).await?,
            };
            match wire.send(head, body).await {
                Ok((head, text)) => return Ok(Response::wired(head, text, wire, self.clone())),
                // The pooled connection turned out to be closed. After the first byte nothing is ever sent twice.
                Err(Unanswered::Unsent(_)) if !fresh => {}
                Err(Unanswered::Unsent(failure) | Unanswered::Lost(failure)) => return Err(failure),
            }
        }
    }

    /// The connection used last that still works. One that does not is seldom alone: a server that goes closes all it has, on every lane.
    fn take(&self) -> Option<Wire> {
        let last = self.idle.own().pop_back()?;
        if last.is_good() {
            return Some(last.wire);
        }
        self.tidy();
        self.idle.own().pop_back().map(|last| last.wire)
    }

    fn tidy(&self) {
        self.idle.all().for_each(|mut idle| idle.retain(Idle::is_good));
    }

    pub(crate) fn give_back(&self, wire: Wire) {
        let mut idle = self.idle.own();
        let now = Instant::now();
        if idle.len() < IDLE_PER_HOST {
            idle.push_back(Idle { wire, since: now });
        }
        let spare = idle.pop_front_if(|first| now.duration_since(first.since) > SPARE);
        drop(idle);
        // Closed without the lock.
        drop(spare);
    }

    async fn connect(&self, url: Uri) -> Result<Wire, Failure> {
        let mut connector = self.connector.clone();
        poll_fn(|cx| tower_service::Service::poll_ready(&mut connector, cx)).await.map_err(|error| not_sent(&reason(&error)))?;
        let stream = tower_service::Service::call(&mut connector, url).await.map_err(|error| {
            // Nobody is there any more; what other lanes have kept is of no use either.
            self.tidy();
            not_sent(&reason(&error))
        })?;
        Ok(Wire::new(stream.into_inner()))
    }
}

fn builder() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        // Repeats a request only if not a byte of it was written: the pooled connection turned out to be closed. After
        // the first byte nothing is ever sent twice.
        .retry_canceled_requests(true);
    builder
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_keepalive(Some(KEEP_ALIVE));
    connector.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(UNHEARD));
    connector
}

/// The innermost cause: it names no URL, and it is what a person needs to know.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = match inner.downcast_ref::<std::io::Error>() {
            Some(io) => describe(io),
            None => inner.to_string(),
        };
        source = inner.source();
    }
    text
}

/// An I/O error without its number.
pub(crate) fn describe(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    // T17: descriptors do not add up from one rush to the next
    #[tokio::test]
    async fn connections_of_a_rush_are_closed_one_by_one_while_others_are_used() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let wire = async || Wire::new(TcpStream::connect(address).await.unwrap());
        let pool = Pool { connector: connector(), idle: PerLane::default() };
        let now = Instant::now();
        for seconds in [9, 6, 4] {
            let since = now.checked_sub(Duration::from_secs(seconds)).unwrap();
            let wire = wire().await;
            pool.idle.own().push_back(Idle { wire, since });
        }
        let mut counts = Vec::new();
        for _ in 0..4 {
            let used = pool.take().unwrap();
            pool.give_back(used);
            counts.push(pool.idle.own().len());
        }
        assert_eq!(counts, [2, 1, 1, 1], "the two that nobody needed go, the one in use stays");
    }
}
