//! The road of a call back to its client while the call is running: progress, log messages, requests of the server.

use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};
use tokio::sync::oneshot;
use transom_protocol::RpcError;

/// What a target sends during a call, already in the client's terms.
#[derive(Debug)]
pub enum FromTarget {
    /// A whole JSON-RPC notification; progress carries the client's own token.
    Notification(Bytes),
    /// A request for the client: its method, its params, and where the answer goes (`result` as JSON, or an error).
    Request {
        /// `sampling/createMessage`, `elicitation/create` or `roots/list`.
        method: String,
        /// JSON object.
        params: Bytes,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<Bytes, RpcError>>,
    },
}

/// A bounded queue from a call to whoever writes to its client. A full queue drops notifications and counts them.
#[derive(Debug, Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<FromTarget>,
    waker: Option<Waker>,
    dropped: u64,
    /// Nobody will answer questions.
    deaf: bool,
}

const CAPACITY: usize = 64;

impl Outbox {
    /// For a request whose client cannot be asked anything: questions find no room.
    pub fn deaf() -> Outbox {
        let outbox = Outbox::default();
        outbox.go_deaf();
        outbox
    }

    /// From now on nobody answers questions; those that wait are given up, so that whoever asked need not wait either.
    pub fn go_deaf(&self) {
        if let Ok(mut inner) = self.inner.lock() {
            inner.deaf = true;
            inner.queue.retain(|message| matches!(message, FromTarget::Notification(_)));
        }
    }

    /// Queues a message; `false` if there was no room and it was dropped.
    pub fn push(&self, message: FromTarget) -> bool {
        let Ok(mut inner) = self.inner.lock() else { return false };
        if inner.deaf && matches!(message, FromTarget::Request { .. }) {
            return false;
        }
        if inner.queue.len() >= CAPACITY {
            inner.dropped += 1;
            return false;
        }
        inner.queue.push_back(message);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// The next message, if one is there.
    pub fn try_next(&self) -> Option<FromTarget> {
        self.inner.lock().ok()?.queue.pop_front()
    }

    /// Waits for the next message. One reader at a time.
    pub async fn next(&self) -> FromTarget {
        poll_fn(|cx| {
            let Ok(mut inner) = self.inner.lock() else { return Poll::Pending };
            match inner.queue.pop_front() {
                Some(message) => Poll::Ready(message),
                None => {
                    inner.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// How many messages found no room.
    pub fn dropped(&self) -> u64 {
        self.inner.lock().map_or(0, |inner| inner.dropped)
    }
}
