//! The HTTP edge: connections, their limits, and who answers which path.

pub mod answer;
pub mod body;
pub mod claims;
pub mod connection;
pub mod edge;
pub mod framing;
pub mod gate;
pub mod headers;
pub mod io;
pub mod lanes;
pub mod legacy_sse;
pub mod mcp;
pub mod running;
pub mod tls;

use crate::listener::body::ReplyBody;
use crate::listener::connection::{Protocols, converse};
use crate::listener::lanes::Lanes;
use crate::logging::Sampler;
use http::{Request, Response};
use hyper::body::Incoming;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

pub use crate::listener::connection::Ends;

const CONNECTIONS: usize = 25_000;
/// The most on the admin and metrics listeners together.
const CONNECTIONS_ASIDE: usize = 1_024;
/// Files that connections of clients may not take.
const RESERVED_FILES: usize = 64;
const FEWEST: usize = 16;
/// Between two attempts to accept while there is no file left for it.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const HANDSHAKE: Duration = Duration::from_secs(15);

/// Answers the requests of a listener.
pub trait Handler: Send + Sync + 'static {
    /// Answers one.
    fn handle(&self, request: Request<Incoming>, ends: Ends) -> impl Future<Output = Response<ReplyBody>> + Send;

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
pub async fn serve<H: Handler>(
    listener: TcpListener,
    room: Arc<Semaphore>,
    lanes: Lanes,
    handler: Arc<H>,
    tls: Option<Arc<tls::Tls>>,
    mut closing: Closing,
) {
    let protocols = Arc::new(Protocols::new(tokio::runtime::Handle::current()));
    let full = Sampler::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.signal.wait_for(|closing| *closing) => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => {
                pause = FIRST_PAUSE;
                stream
            }
            // It was gone before we took it.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                // Out of files, most likely. Whoever waits stays in the queue until others have closed theirs.
                if pause == FIRST_PAUSE {
                    tracing::warn!(%error, "cannot accept connections for now");
                }
                let _closing = tokio::time::timeout(pause, closing.signal.wait_for(|closing| *closing)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            if let Some(skipped) = full.admit(1) {
                tracing::warn!(skipped, "too many connections; one was closed");
            }
            continue;
        };
        let (protocols, handler, tls, closing) = (protocols.clone(), handler.clone(), tls.clone(), closing.clone());
        let Ok(stream) = stream.into_std() else { continue };
        lanes.serve(stream, |stream| async move {
            connection(stream, protocols, handler, tls, closing).await;
            drop(place);
        });
    }
}

/// How many connections there may be.
pub struct Room {
    /// On the main listener.
    pub main: Arc<Semaphore>,
    /// On all others together: whoever crowds the one must not keep a scraper from the other.
    pub aside: Arc<Semaphore>,
}

impl Room {
    /// As much as there are files for. Some are kept for targets, logs and whatever else a request needs, however many listeners there are.
    pub fn measured() -> Room {
        let all = transom_upstream::file_limit().map_or(usize::MAX, |files| files.saturating_sub(RESERVED_FILES)).max(FEWEST);
        let aside = (all / 8).min(CONNECTIONS_ASIDE);
        Room { main: Arc::new(Semaphore::new((all - aside).min(CONNECTIONS))), aside: Arc::new(Semaphore::new(aside)) }
    }
}

async fn connection<H: Handler>(stream: TcpStream, protocols: Arc<Protocols>, handler: Arc<H>, tls: Option<Arc<tls::Tls>>, closing: Closing) {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
    let ends = Ends { local: local.ip(), peer: peer.ip() };
    // Without it every streamed event waits for the one before it to be acknowledged.
    let _ = stream.set_nodelay(true);
    match tls {
        None => converse(stream, ends, protocols, handler, closing).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await {
            // In a box: connections without TLS would keep room for it too.
            Ok(Ok(stream)) => Box::pin(converse(stream, ends, protocols, handler, closing)).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        },
    }
}
