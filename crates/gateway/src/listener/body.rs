//! Bodies: of requests, collected within limits; of replies, pieces that are sent as they are, or a stream.

use crate::listener::io::{Activity, Busy, Pace};
use crate::listener::mcp::malformed_failure;
use crate::reply::{Failure, Reject};
use crate::runtime::Admitted;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use transom_protocol::{Fault, Limits, Malformed};

/// The largest request.
pub const LARGEST: usize = 4 * 1024 * 1024;
const SLOWEST: Duration = Duration::from_secs(30);

/// A body larger than this is looked at while it comes, and gets the buffer it says it needs.
const LARGE: usize = 64 * 1024;

/// Reads a request's body, within size and time.
pub async fn collect(mut body: Incoming, admitted: &mut Admitted) -> Result<Bytes, Failure> {
    let too_large = || Failure::rejected(Reject::BodyTooLarge, format!("Request body is larger than {LARGEST} bytes"));
    let announced = body.size_hint().lower();
    if announced > LARGEST as u64 {
        return Err(too_large());
    }
    let read = async {
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        let mut values = Values::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Failure::rejected(Reject::InvalidRequest, "Request body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            let so_far = first.as_ref().map_or(rest.len(), Bytes::len);
            let length = so_far + data.len();
            if length > LARGEST {
                return Err(too_large());
            }
            if !admitted.add_bytes(data.len()) {
                return Err(Failure::rejected(Reject::Overloaded, "Too many bytes in flight; try again later"));
            }
            match first.take() {
                None if rest.is_empty() => first = Some(data),
                one => {
                    rest.extend_from_slice(&one.unwrap_or_default());
                    if so_far <= LARGE && length > LARGE {
                        // Once, instead of twice as much again and again. Who has sent nothing yet gets nothing either.
                        rest.reserve(usize::try_from(announced).unwrap_or(0).saturating_sub(so_far));
                    }
                    rest.extend_from_slice(&data);
                }
            }
            if length > LARGE && values.too_many(rest.get(values.seen..).unwrap_or_default()) {
                return Err(malformed_failure(&Malformed::Parse(Fault::TooManyNodes)));
            }
        }
        Ok(first.unwrap_or_else(|| rest.freeze()))
    };
    match tokio::time::timeout(SLOWEST, read).await {
        Ok(read) => read,
        Err(_) => Err(Failure::rejected(Reject::BodyTimeout, format!("Request body took longer than {} s", SLOWEST.as_secs()))),
    }
}

/// Counts what cannot be fewer than the values of a JSON text: a comma outside of strings has a value on either side. So a bomb
/// is refused when its first part has come, and never kept as a whole.
#[derive(Default)]
struct Values {
    commas: usize,
    /// Bytes looked at.
    seen: usize,
    in_string: bool,
    escaped: bool,
}

impl Values {
    /// Looks at what has come since; whether it is too much already.
    fn too_many(&mut self, fresh: &[u8]) -> bool {
        self.seen += fresh.len();
        for byte in fresh {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b',' if !self.in_string => self.commas += 1,
                _ => {}
            }
        }
        self.commas >= Limits::REQUEST.nodes
    }
}

/// A stream of chunks.
pub type Chunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of a reply. It keeps its connection busy until it is sent.
pub struct ReplyBody {
    content: Content,
    _busy: Option<Busy>,
    pace: Option<Arc<Pace>>,
}

enum Content {
    Pieces {
        pieces: [Bytes; 3],
        next: usize,
    },
    Stream(Chunks),
    /// A stream that may stay open for hours with little to say.
    Lasting(Chunks),
    /// Written by the connection itself: whoever asks here never gets any of it.
    Elsewhere(Arc<Activity>),
}

impl Content {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Content::Pieces { pieces, next } => {
                while let Some(piece) = pieces.get_mut(*next) {
                    *next += 1;
                    if !piece.is_empty() {
                        return Poll::Ready(Some(std::mem::take(piece)));
                    }
                }
                Poll::Ready(None)
            }
            Content::Elsewhere(activity) => {
                activity.head_is_written();
                Poll::Pending
            }
            Content::Stream(chunks) | Content::Lasting(chunks) => chunks.as_mut().poll_next(cx),
        }
    }
}

impl ReplyBody {
    /// These bytes.
    pub fn full(bytes: impl Into<Bytes>) -> ReplyBody {
        ReplyBody::pieces([bytes.into(), Bytes::new(), Bytes::new()])
    }

    /// These pieces, one after the other, without copying them together.
    pub fn pieces(pieces: [Bytes; 3]) -> ReplyBody {
        ReplyBody { content: Content::Pieces { pieces, next: 0 }, _busy: None, pace: None }
    }

    /// Chunks as they come.
    pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> ReplyBody {
        ReplyBody { content: Content::Stream(Box::pin(chunks)), _busy: None, pace: None }
    }

    /// Chunks as they come, for hours.
    pub fn lasting(chunks: impl Stream<Item = Bytes> + Send + 'static) -> ReplyBody {
        ReplyBody { content: Content::Lasting(Box::pin(chunks)), _busy: None, pace: None }
    }

    /// Hands a lasting stream to its connection, which writes it with less. Any other body stays what it is.
    pub fn handed_to(mut self, activity: &Arc<Activity>) -> ReplyBody {
        self.content = match self.content {
            Content::Lasting(chunks) => {
                activity.hand_over(chunks);
                Content::Elsewhere(activity.clone())
            }
            content => content,
        };
        self
    }

    /// Keeps the connection busy until the body is sent.
    pub fn holding(mut self, busy: Busy) -> ReplyBody {
        self._busy = Some(busy);
        self
    }
}

impl ReplyBody {
    /// Tells how it gets on.
    pub fn paced(mut self, pace: Arc<Pace>) -> ReplyBody {
        self.pace = Some(pace);
        self
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let next = this.content.poll_next(cx);
        if let Some(pace) = &this.pace {
            if next.is_pending() { pace.taken() } else { pace.offered() }
        }
        next.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Pieces { pieces, .. } => pieces.iter().all(Bytes::is_empty),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Pieces { pieces, .. } => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_many(text: &str, part: usize) -> bool {
        let mut values = Values::default();
        text.as_bytes().chunks(part).any(|part| values.too_many(part))
    }

    // A14, J7: refused early is only what would be refused in the end.
    #[test]
    fn commas_are_counted_where_they_separate_values() {
        let most = Limits::REQUEST.nodes;
        let list = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        let texts = [
            (list(most - 1), false),
            (list(most + 1), true),
            (format!("[\"{}\"]", ",".repeat(2 * most)), false),
            (format!("[\"\\\"{}\"]", ",".repeat(2 * most)), false),
            (format!("[\"\\\\\"{}]", ",0".repeat(most)), true),
            (format!("{{{}}}", (0..most).map(|n| format!("\"k{n}\":{{}}")).collect::<Vec<_>>().join(",")), false),
        ];
        for (text, expected) in texts {
            for part in [1, 7, 4096, text.len()] {
                assert_eq!(too_many(&text, part), expected, "{}…", &text[..20]);
                let refused = transom_protocol::json::check(text.as_bytes(), &Limits::REQUEST).is_err();
                assert!(refused || !expected, "what is refused early is refused in the end");
            }
        }
    }
}
