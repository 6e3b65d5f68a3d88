//! One plain HTTP/1 connection, driven by whoever uses it.
//!
//! hyper wants a connection to be polled. In a task of its own it would have to be woken for every request and would
//! wake the caller twice for every answer, often across threads. Here the caller polls it: a call is written, read and
//! answered where it was made. Between calls a connection rests in its pool and is looked at when it is taken again.

use crate::failure::Failure;
use crate::http_client::{Pool, lost, not_sent, reason};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tokio::net::TcpStream;

/// How often one poll looks at the connection before others get their turn.
const ROUNDS: usize = 8;

pub(crate) struct Wire {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<TokioIo<TcpStream>, Full<Bytes>>,
    relay: Arc<Relay>,
    waker: Waker,
    over: bool,
}

/// How sending a request can fail.
pub(crate) enum Unanswered {
    /// Not a byte was written; here it is again.
    Unsent(Box<Request<Full<Bytes>>>, Failure),
    Lost(Failure),
}

impl Wire {
    pub(crate) async fn open(stream: TokioIo<TcpStream>) -> Result<Box<Wire>, Failure> {
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(|error| not_sent(&reason(&error)))?;
        let relay = Arc::new(Relay::default());
        Ok(Box::new(Wire { sender, connection, waker: Waker::from(relay.clone()), relay, over: false }))
    }

    /// Sends a request and waits for the head of the response.
    pub(crate) fn send(&mut self, request: Request<Full<Bytes>>) -> impl Future<Output = Result<Response<Incoming>, Unanswered>> {
        let answer = self.sender.try_send_request(request);
        Sending { answer, connection: &mut self.connection, relay: &self.relay, waker: &self.waker, over: &mut self.over }
    }

    /// Whether it can take a request now. Looks at the connection, since nobody does while it rests.
    pub(crate) fn is_ready(&mut self) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        let (connection, relay, waker, over) = (&mut self.connection, &self.relay, &self.waker, &mut self.over);
        let _looked: Poll<()> = drive(connection, relay, waker, over, &mut nobody, |_| Poll::Pending);
        !self.over && self.sender.is_ready()
    }

    fn rest(&self) {
        self.relay.task.take();
    }
}

pin_project_lite::pin_project! {
    /// A request on its way. Written out, because it is part of every call's future and an `async` block would hold the
    /// request twice.
    struct Sending<'w, A> {
        #[pin]
        answer: A,
        connection: &'w mut Connection<TokioIo<TcpStream>, Full<Bytes>>,
        relay: &'w Relay,
        waker: &'w Waker,
        over: &'w mut bool,
    }
}

impl<A> Future for Sending<'_, A>
where
    A: Future<Output = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>>,
{
    type Output = Result<Response<Incoming>, Unanswered>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let answered = drive(this.connection, this.relay, this.waker, this.over, cx, |cx| this.answer.as_mut().poll(cx));
        answered.map_err(|mut error| match error.take_message() {
            Some(unsent) => Unanswered::Unsent(Box::new(unsent), not_sent(&reason(error.error()))),
            None => Unanswered::Lost(lost(&reason(error.error()))),
        })
    }
}

/// Polls the connection, then what depends on it, until neither gets any further.
fn drive<T>(
    connection: &mut Connection<TokioIo<TcpStream>, Full<Bytes>>,
    relay: &Relay,
    waker: &Waker,
    over: &mut bool,
    cx: &mut Context<'_>,
    mut outcome: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    relay.task.register(cx.waker());
    let mut own = Context::from_waker(waker);
    // Only the connection can bring the outcome about, so nobody needs to be woken for it.
    let mut nobody = Context::from_waker(Waker::noop());
    for _ in 0..ROUNDS {
        relay.begin();
        if !*over {
            *over = Pin::new(&mut *connection).poll(&mut own).is_ready();
        }
        let outcome = outcome(&mut nobody);
        let again = relay.end();
        if outcome.is_ready() || *over || !again {
            return outcome;
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Passes the connection's wake-ups on to the task that drives it. One that comes while it is being driven costs another
/// look and not another turn of the task.
#[derive(Default)]
struct Relay {
    task: AtomicWaker,
    driving: AtomicBool,
    again: AtomicBool,
}

impl Relay {
    fn begin(&self) {
        self.driving.store(true, Ordering::SeqCst);
        self.again.store(false, Ordering::SeqCst);
    }

    /// Whether there was a wake-up meanwhile.
    fn end(&self) -> bool {
        self.driving.store(false, Ordering::SeqCst);
        self.again.load(Ordering::SeqCst)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        if !self.driving.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

/// The body of a response, together with the connection it comes on.
pub(crate) enum ResponseBody {
    Wired(Wired),
    /// Somebody else drives the connection.
    Driven(Incoming),
}

pub(crate) struct Wired {
    incoming: Incoming,
    /// Goes back to its pool at the end of the body; dropped before that, the connection is closed.
    wire: Option<Box<Wire>>,
    pool: Arc<Pool>,
}

impl Wired {
    pub(crate) fn new(incoming: Incoming, wire: Box<Wire>, pool: Arc<Pool>) -> Wired {
        Wired { incoming, wire: Some(wire), pool }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Wired { incoming, wire, pool } = match self.get_mut() {
            ResponseBody::Driven(incoming) => return Pin::new(incoming).poll_frame(cx),
            ResponseBody::Wired(wired) => wired,
        };
        let Some(Wire { connection, relay, waker, over, .. }) = wire.as_deref_mut() else { return Poll::Ready(None) };
        let frame = drive(connection, relay, waker, over, cx, |cx| Pin::new(&mut *incoming).poll_frame(cx));
        match &frame {
            Poll::Ready(None) => {
                if let Some(wire) = wire.take() {
                    wire.rest();
                    pool.give_back(wire);
                }
            }
            Poll::Ready(Some(Err(_))) => *wire = None,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Driven(incoming) => incoming.is_end_stream(),
            ResponseBody::Wired(wired) => wired.wire.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Driven(incoming) => incoming.size_hint(),
            ResponseBody::Wired(wired) => wired.incoming.size_hint(),
        }
    }
}
