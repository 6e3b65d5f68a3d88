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

impl FromTarget {
    fn size(&self) -> usize {
        match self {
            FromTarget::Notification(message) => message.len(),
            FromTarget::Request { method, params, .. } => method.len() + params.len(),
        }
    }
}

/// A bounded queue from a call to whoever writes to its client. A full queue drops notifications and counts them.
#[derive(Debug, Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<FromTarget>,
    /// Of all that is in the queue.
    bytes: usize,
    waker: Option<Waker>,
    dropped: u64,
    /// Nobody will answer questions.
    deaf: bool,
}

const CAPACITY: usize = 64;
/// What may wait together. A message that is larger passes when it waits alone.
const BYTES: usize = 4 << 20;

impl Inner {
    fn is_full_for(&self, message: &FromTarget) -> bool {
        self.queue.len() >= CAPACITY || (!self.queue.is_empty() && self.bytes + message.size() > BYTES)
    }

    fn pop(&mut self) -> Option<FromTarget> {
        let message = self.queue.pop_front()?;
        self.bytes -= message.size();
        Some(message)
    }
}

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
            inner.bytes = inner.queue.iter().map(FromTarget::size).sum();
        }
    }

    /// Queues a message; `false` if there was no room and it was dropped.
    pub fn push(&self, message: FromTarget) -> bool {
        let Ok(mut inner) = self.inner.lock() else { return false };
        if inner.deaf && matches!(message, FromTarget::Request { .. }) {
            return false;
        }
        if inner.is_full_for(&message) {
            inner.dropped += 1;
            return false;
        }
        inner.bytes += message.size();
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
        self.inner.lock().ok()?.pop()
    }

    /// Waits for the next message. One reader at a time.
    pub async fn next(&self) -> FromTarget {
        poll_fn(|cx| {
            let Ok(mut inner) = self.inner.lock() else { return Poll::Pending };
            match inner.pop() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn large() -> FromTarget {
        FromTarget::Notification(Bytes::from(vec![b'x'; BYTES / 3]))
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_what_was_taken_counts_no_more() {
        let outbox = Outbox::default();
        let passed = (0..10).filter(|_| outbox.push(large())).count();
        assert_eq!((passed, outbox.dropped()), (3, 7));
        assert!(outbox.try_next().is_some());
        assert!(outbox.push(large()));
        while outbox.try_next().is_some() {}
        assert!(outbox.push(FromTarget::Notification(Bytes::from(vec![b'x'; 2 * BYTES]))), "alone it passes, however large");
        assert!(!outbox.push(large()), "and nothing beside it");
    }

    #[test]
    fn questions_that_were_given_up_make_room() {
        let outbox = Outbox::default();
        let question = FromTarget::Request { method: "roots/list".into(), params: Bytes::from(vec![b' '; BYTES]), answer: oneshot::channel().0 };
        assert!(outbox.push(question));
        assert!(!outbox.push(large()));
        outbox.go_deaf();
        assert!(outbox.push(large()) && outbox.push(large()));
    }
}
