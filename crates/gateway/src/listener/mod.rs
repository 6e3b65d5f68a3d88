//! The HTTP edge: connections, their limits, and who answers which path.

pub mod answer;
pub mod body;
pub mod edge;
pub mod gate;
pub mod headers;
pub mod io;
pub mod legacy_sse;
pub mod mcp;
pub mod running;
pub mod tls;

use crate::listener::body::ReplyBody;
use crate::listener::io::{Activity, Guarded, Patience};
use http::{HeaderName, Request, Response, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tower::ServiceBuilder;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;

const CONNECTIONS: usize = 25_000;
const HANDSHAKE: Duration = Duration::from_secs(15);
const HEAD_BYTES: usize = 64 * 1024;

static SECRET_HEADERS: LazyLock<Arc<[HeaderName]>> = LazyLock::new(|| {
    Arc::from([
        header::AUTHORIZATION,
        header::PROXY_AUTHORIZATION,
        header::COOKIE,
        HeaderName::from_static("x-api-key"),
        HeaderName::from_static("mcp-session-id"),
    ])
});

/// Answers the requests of a listener.
pub trait Handler: Send + Sync + 'static {
    /// Answers one; `local` is the address it was sent to.
    fn handle(&self, request: Request<Incoming>, local: IpAddr) -> impl Future<Output = Response<ReplyBody>> + Send;

    /// A head could not be read and was refused by the HTTP library.
    fn unreadable(&self);
}

/// How a listener is told to finish: no new connections, then no new requests on the old ones.
#[derive(Clone)]
pub struct Closing {
    /// Becomes true when it is time.
    pub signal: watch::Receiver<bool>,
    /// Held by every connection; when all are gone the listener is done.
    pub alive: mpsc::Sender<()>,
}

/// Accepts connections until told to finish.
pub async fn serve<H: Handler>(listener: TcpListener, handler: Arc<H>, tls: Option<Arc<tls::Tls>>, mut closing: Closing) {
    let builder = Arc::new(protocol());
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.signal.wait_for(|closing| *closing) => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of files, most likely: others will be closed in a moment.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            tracing::warn!("too many connections; one was closed");
            continue;
        };
        let (builder, handler, tls, closing) = (builder.clone(), handler.clone(), tls.clone(), closing.clone());
        tokio::spawn(async move {
            connection(stream, builder, handler, tls, closing).await;
            drop(place);
        });
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Heads are timed by `io::Guarded`, which knows an idle connection from a slow one. More than 100 headers are refused
    // by default; to say the same number again would cost a filled array per request.
    builder.http1().max_buf_size(HEAD_BYTES).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_header_list_size(16 * 1024)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(1024)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

async fn connection<H: Handler>(
    stream: TcpStream,
    builder: Arc<auto::Builder<TokioExecutor>>,
    handler: Arc<H>,
    tls: Option<Arc<tls::Tls>>,
    closing: Closing,
) {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
    let ends = Ends { local: local.ip(), peer: Peer(peer.ip()) };
    // Without it every streamed event waits for the one before it to be acknowledged.
    let _ = stream.set_nodelay(true);
    match tls {
        None => converse(stream, ends, builder, handler, closing).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => converse(stream, ends, builder, handler, closing).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        },
    }
}

/// Where a request came from, among its extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

#[derive(Clone, Copy)]
struct Ends {
    local: IpAddr,
    peer: Peer,
}

async fn converse<S, H>(stream: S, ends: Ends, builder: Arc<auto::Builder<TokioExecutor>>, handler: Arc<H>, mut closing: Closing)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let activity = Arc::new(Activity::default());
    let guarded = Guarded::new(stream, activity.clone(), Patience::default());
    let answering = handler.clone();
    let answer = tower::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ends.peer);
        let (handler, busy) = (answering.clone(), activity.begin());
        async move {
            let reply = handler.handle(request, ends.local).await;
            Ok::<_, Infallible>(reply.map(|body| body.holding(busy)))
        }
    });
    // Whoever prints a request, these values are not printed.
    let service = ServiceBuilder::new().layer(SetSensitiveRequestHeadersLayer::from_shared(SECRET_HEADERS.clone())).service(answer);
    let connection = builder.serve_connection(TokioIo::new(guarded), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = closing.signal.wait_for(|closing| *closing) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            handler.unreadable();
        }
        tracing::debug!(%error, "connection ended");
    }
    drop(closing.alive);
}
