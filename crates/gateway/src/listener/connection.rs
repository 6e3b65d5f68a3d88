//! One connection from its first byte to its last, and what it costs while nothing happens on it.
//!
//! hyper reads requests and writes replies. It keeps buffers and room for a request for as long as it has a connection, some
//! 20 KiB, and most connections of MCP clients wait: for the next call, or with an open stream for news. So hyper has a
//! connection only while there is something for it to do. One that rests is kept as a socket and an alarm; an open stream is
//! written here. `architecture/decisions/0027-resting-connections.md` has the figures.

use super::body::{Chunks, ReplyBody};
use super::io::{Activity, Busy, Guarded, Patience};
use super::{Closing, Handler};
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use http::{HeaderName, HeaderValue, Request, Version, header};
use hyper::body::{Body, Incoming};
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::Handle;
use tower::ServiceBuilder;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;

const HEAD_BYTES: usize = 64 * 1024;
/// How much is looked at before hyper is asked: most requests are there as a whole.
const FIRST_LOOK: usize = 4 * 1024;
/// A body announced to be larger is not waited for when its request is refused.
const SMALL: u64 = 64 * 1024;
/// How long and how much we listen to somebody whose connection is over.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 8 << 20;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static SECRET_HEADERS: LazyLock<Arc<[HeaderName]>> = LazyLock::new(|| {
    Arc::from([
        header::AUTHORIZATION,
        header::PROXY_AUTHORIZATION,
        header::COOKIE,
        HeaderName::from_static("x-api-key"),
        HeaderName::from_static("mcp-session-id"),
    ])
});

/// How the two versions of HTTP are spoken.
pub struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<Elsewhere>,
}

/// Runs the requests of an HTTP/2 connection, of which there can be many at once, on all threads of a runtime.
#[derive(Clone)]
struct Elsewhere(Handle);

impl<F> Executor<F> for Elsewhere
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, request: F) {
        self.0.spawn(request);
    }
}

impl Protocols {
    /// Where one connection has many requests, they run on this runtime.
    pub fn new(shared: Handle) -> Protocols {
        let mut http1 = http1::Builder::new();
        // Heads are timed by `io::Guarded`, which knows an idle connection from a slow one. More than 100 headers are refused
        // by default; to say the same number again would cost a filled array per request.
        http1.max_buf_size(HEAD_BYTES).header_read_timeout(None);
        let mut http2 = http2::Builder::new(Elsewhere(shared));
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(100)
            .initial_stream_window_size(64 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .max_header_list_size(16 * 1024)
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(1024)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        Protocols { http1, http2 }
    }
}

/// The two addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Ours.
    pub local: IpAddr,
    /// The other one.
    pub peer: IpAddr,
}

/// Serves a connection until either side has had enough.
pub async fn converse<S, H>(stream: S, ends: Ends, protocols: Arc<Protocols>, handler: Arc<H>, mut closing: Closing)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let activity = Arc::new(Activity::default());
    let mut io = Box::new(Guarded::new(stream, activity.clone(), Patience::default()));
    let mut bytes = Bytes::new();
    loop {
        let known = activity.ever() > 0;
        tokio::select! {
            read = first_look(&mut *io, &mut bytes, known) => if read.is_err() { return },
            _ = closing.signal.wait_for(|closing| *closing) => return,
        }
        let rewound = Rewound { bytes: std::mem::take(&mut bytes), io };
        if !known && rewound.bytes.starts_with(PREFACE) {
            return converse_http2(rewound, ends, &protocols, handler, activity, closing).await;
        }
        activity.wakes();
        let service = service(ends, handler.clone(), activity.clone());
        let mut http = Box::new(protocols.http1.serve_connection(TokioIo::new(rewound), service));
        let mut ends_soon = false;
        let step = loop {
            let next = poll_fn(|cx| match Pin::new(&mut *http).poll(cx) {
                Poll::Ready(ended) => Poll::Ready(Step::Ended(ended)),
                Poll::Pending if activity.head_is_sent() => Poll::Ready(Step::Stream),
                Poll::Pending if activity.rests() => Poll::Ready(Step::Rest),
                Poll::Pending => Poll::Pending,
            });
            tokio::select! {
                step = next => break step,
                _ = closing.signal.wait_for(|closing| *closing), if !ends_soon => ends_soon = true,
            }
            Pin::new(&mut *http).graceful_shutdown();
        };
        let stream = match step {
            Step::Ended(ended) => {
                report(ended, &*handler);
                if !ends_soon {
                    Box::pin(linger(&mut http.into_parts().io.into_inner().io)).await;
                }
                return;
            }
            Step::Rest => None,
            Step::Stream => {
                let Some(chunks) = activity.take_stream() else { return };
                // Until now the body that hyper holds kept the connection busy.
                Some((chunks, activity.go_on()))
            }
        };
        let left = http.into_parts();
        io = left.io.into_inner().io;
        // A copy of what little there may be: the buffer is what we want to be rid of.
        bytes = Bytes::copy_from_slice(&left.read_buf);
        drop((left.read_buf, left.service));
        if let Some((chunks, busy)) = stream {
            match write_stream(&mut *io, chunks, busy).await {
                Ok(Peers::Waits) if bytes.is_empty() && !ends_soon => {}
                // What came meanwhile is nobody's: it was not kept.
                _ => return,
            }
        }
    }
}

enum Step {
    /// The connection is over.
    Ended(hyper::Result<()>),
    /// Nothing has happened for a while.
    Rest,
    /// The head of a reply is out, and its body is a stream.
    Stream,
}

async fn converse_http2<S, H>(
    io: Rewound<Box<Guarded<S>>>,
    ends: Ends,
    protocols: &Protocols,
    handler: Arc<H>,
    activity: Arc<Activity>,
    mut closing: Closing,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let mut http = Box::pin(protocols.http2.serve_connection(TokioIo::new(io), service(ends, handler.clone(), activity)));
    tokio::select! {
        ended = http.as_mut() => return report(ended, &*handler),
        _ = closing.signal.wait_for(|closing| *closing) => {}
    }
    http.as_mut().graceful_shutdown();
    report(http.await, &*handler);
}

fn report<H: Handler>(ended: hyper::Result<()>, handler: &H) {
    if let Err(error) = ended {
        if error.is_parse() {
            handler.unreadable();
        }
        tracing::debug!(%error, "connection ended");
    }
}

/// Answers the requests of one connection.
fn service<H: Handler>(
    ends: Ends,
    handler: Arc<H>,
    activity: Arc<Activity>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = http::Response<ReplyBody>,
    Error = Infallible,
    Future = impl Future<Output = Result<http::Response<ReplyBody>, Infallible>> + Send + 'static,
> + Send {
    let answer = tower::service_fn(move |request: Request<Incoming>| {
        let (handler, activity, busy) = (handler.clone(), activity.clone(), activity.begin());
        // Other versions end a stream in other ways, and so does a client that wants the connection closed.
        let ours = request.version() == Version::HTTP_11 && !wants_close(request.headers());
        // Over HTTP/1 a reply that is not taken stops the connection, and that is seen.
        let shares = request.version() == Version::HTTP_2;
        let large = !shares && request.body().size_hint().upper().is_none_or(|most| most > SMALL);
        async move {
            let mut reply = handler.handle(request, ends).await;
            if large && !reply.status().is_success() {
                // The rest of it may still be under way, and then hyper ends the connection: nobody should try it again.
                reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            let ours = ours && reply.status().is_success();
            Ok::<_, Infallible>(reply.map(|body| match (ours, shares) {
                (true, _) => body.handed_to(&activity).holding(busy),
                (false, true) => body.holding(busy).paced(activity.pace()),
                (false, false) => body.holding(busy),
            }))
        }
    });
    // Whoever prints a request, these values are not printed.
    TowerToHyperService::new(ServiceBuilder::new().layer(SetSensitiveRequestHeadersLayer::from_shared(SECRET_HEADERS.clone())).service(answer))
}

fn wants_close(headers: &http::HeaderMap) -> bool {
    let closes = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close")));
    headers.get_all(header::CONNECTION).iter().any(closes)
}

/// Listens to what is still being sent, and forgets it. To close a connection on somebody who sends is to take back the answer: the system throws
/// away what was not read yet, on the other side as well.
async fn linger<S: AsyncRead + Unpin>(io: &mut S) {
    let listen = async {
        let mut left = LINGER_BYTES;
        while let Ok(more) = read_some(io).await {
            left = left.saturating_sub(more.len());
            if left == 0 {
                return;
            }
        }
    };
    let _ended = tokio::time::timeout(LINGER, listen).await;
}

/// Waits for the beginning of a request. On a new connection it is read until it is known which HTTP it is.
async fn first_look<S: AsyncRead + Unpin>(io: &mut Guarded<S>, bytes: &mut Bytes, known: bool) -> io::Result<()> {
    let undecided = |bytes: &[u8]| bytes.is_empty() || (!known && bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes));
    while undecided(bytes) {
        let fresh = read_some(io).await?;
        *bytes = if bytes.is_empty() { fresh } else { [&bytes[..], &fresh[..]].concat().into() };
    }
    Ok(())
}

/// What is there to be read, without a buffer for what is not. An end is an error.
async fn read_some<S: AsyncRead + Unpin>(io: &mut S) -> io::Result<Bytes> {
    poll_fn(|cx| {
        let mut space = [std::mem::MaybeUninit::uninit(); FIRST_LOOK];
        let mut buffer = ReadBuf::uninit(&mut space);
        std::task::ready!(Pin::new(&mut *io).poll_read(cx, &mut buffer))?;
        match buffer.filled() {
            [] => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            bytes => Poll::Ready(Ok(Bytes::copy_from_slice(bytes))),
        }
    })
    .await
}

/// What the peer of a stream has done meanwhile.
enum Peers {
    /// Nothing: it waits.
    Waits,
    /// It has sent something before the stream was over.
    Talks,
}

/// Writes a stream in chunks, as its head said, to its end.
async fn write_stream<S: AsyncRead + AsyncWrite + Unpin>(io: &mut Guarded<S>, mut chunks: Chunks, _busy: Busy) -> io::Result<Peers> {
    let mut peer = Peers::Waits;
    loop {
        let chunk = tokio::select! {
            chunk = chunks.next() => chunk,
            read = read_some(io), if matches!(peer, Peers::Waits) => {
                read?;
                peer = Peers::Talks;
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        if !chunk.is_empty() {
            let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), &chunk, b"\r\n"].concat();
            io.write_all(&framed).await?;
            io.flush().await?;
        }
    }
    io.write_all(b"0\r\n\r\n").await?;
    io.flush().await?;
    Ok(peer)
}

/// A stream some of which has been read already.
struct Rewound<S> {
    bytes: Bytes,
    io: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buffer);
        }
        let length = self.bytes.len().min(buffer.remaining());
        buffer.put_slice(self.bytes.get(..length).unwrap_or_default());
        self.bytes.advance(length);
        if self.bytes.is_empty() {
            self.bytes = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
