//! Bodies: of requests, collected within limits; of replies, pieces that are sent as they are, or a stream.

use crate::listener::io::Busy;
use crate::reply::{Failure, Reject};
use crate::runtime::Admitted;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The largest request.
pub const LARGEST: usize = 4 * 1024 * 1024;
const SLOWEST: Duration = Duration::from_secs(30);

/// Reads a request's body, within size and time.
pub async fn collect(mut body: Incoming, admitted: &mut Admitted) -> Result<Bytes, Failure> {
    let too_large = || Failure::rejected(Reject::BodyTooLarge, format!("Request body is larger than {LARGEST} bytes"));
    if body.size_hint().lower() > LARGEST as u64 {
        return Err(too_large());
    }
    let read = async {
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Failure::rejected(Reject::InvalidRequest, "Request body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            let so_far = first.as_ref().map_or(rest.len(), Bytes::len);
            if so_far + data.len() > LARGEST {
                return Err(too_large());
            }
            if !admitted.add_bytes(data.len()) {
                return Err(Failure::rejected(Reject::Overloaded, "Too many bytes in flight; try again later"));
            }
            match first.take() {
                None if rest.is_empty() => first = Some(data),
                one => {
                    rest.extend_from_slice(&one.unwrap_or_default());
                    rest.extend_from_slice(&data);
                }
            }
        }
        Ok(first.unwrap_or_else(|| rest.freeze()))
    };
    match tokio::time::timeout(SLOWEST, read).await {
        Ok(read) => read,
        Err(_) => Err(Failure::rejected(Reject::BodyTimeout, format!("Request body took longer than {} s", SLOWEST.as_secs()))),
    }
}

/// A stream of chunks.
pub type Chunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of a reply. It keeps its connection busy until it is sent.
pub struct ReplyBody {
    content: Content,
    _busy: Option<Busy>,
}

enum Content {
    Pieces { pieces: [Bytes; 3], next: usize },
    Stream(Chunks),
}

impl ReplyBody {
    /// These bytes.
    pub fn full(bytes: impl Into<Bytes>) -> ReplyBody {
        ReplyBody::pieces([bytes.into(), Bytes::new(), Bytes::new()])
    }

    /// These pieces, one after the other, without copying them together.
    pub fn pieces(pieces: [Bytes; 3]) -> ReplyBody {
        ReplyBody { content: Content::Pieces { pieces, next: 0 }, _busy: None }
    }

    /// Chunks as they come.
    pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> ReplyBody {
        ReplyBody { content: Content::Stream(Box::pin(chunks)), _busy: None }
    }

    /// Keeps the connection busy until the body is sent.
    pub fn holding(mut self, busy: Busy) -> ReplyBody {
        self._busy = Some(busy);
        self
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().content {
            Content::Pieces { pieces, next } => {
                while let Some(piece) = pieces.get_mut(*next) {
                    *next += 1;
                    if !piece.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(std::mem::take(piece)))));
                    }
                }
                Poll::Ready(None)
            }
            Content::Stream(chunks) => chunks.as_mut().poll_next(cx).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Pieces { pieces, .. } => pieces.iter().all(Bytes::is_empty),
            Content::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Pieces { pieces, .. } => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
