//! A connection with an eye on the clock: slow heads, idle connections and readers that do not read are closed. Every byte
//! that is read goes through [`Framing`] first.

use crate::listener::body::Chunks;
use crate::listener::framing::Framing;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a connection may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the first byte of a head to its last; also until the first byte of a new connection.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// Between requests, before the connection is put to rest.
    pub rest: Duration,
    /// For the peer to take what we write.
    pub write: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { head: Duration::from_secs(10), idle: Duration::from_secs(120), rest: Duration::from_millis(250), write: Duration::from_secs(10) }
    }
}

/// Requests of one connection: those being worked on, and all there ever were. Also what becomes of the connection when
/// there is nothing more to do for whoever reads its requests.
#[derive(Default)]
pub struct Activity {
    now: AtomicUsize,
    ever: AtomicUsize,
    rests: AtomicBool,
    head: AtomicU8,
    stream: Mutex<Option<Chunks>>,
    /// The replies of an HTTP/2 connection that are on their way.
    paces: Mutex<Vec<Weak<Pace>>>,
}

/// How a reply gets on that shares its connection with others. The connection may be written to all the time while the peer
/// gives one of its streams no room.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    /// Milliseconds after `began` at which the peer was given something to take; `OURS` while it waits for us.
    waits_since: AtomicU64,
}

const OURS: u64 = u64::MAX;
/// How often replies of HTTP/2 are looked at within the time the peer has for them.
const LOOKS: u32 = 4;

impl Pace {
    /// The peer has something to take from now on.
    pub fn offered(&self) {
        self.waits_since.store(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(OURS), Relaxed);
    }

    /// The peer has taken all there is.
    pub fn taken(&self) {
        self.waits_since.store(OURS, Relaxed);
    }

    fn stalled(&self, patience: Duration) -> bool {
        let since = self.waits_since.load(Relaxed);
        since != OURS && self.began.elapsed() > Duration::from_millis(since) + patience
    }
}

/// A stream was handed over, and the head of its reply is being written.
const WRITING: u8 = 1;
/// The head of a reply is written, and its body was asked for.
const WRITTEN: u8 = 2;
/// The head of a reply has left.
const SENT: u8 = 3;

impl Activity {
    /// All requests so far.
    pub fn ever(&self) -> usize {
        self.ever.load(Relaxed)
    }

    /// Hands over the body of the reply that is about to be written.
    pub fn hand_over(&self, chunks: Chunks) {
        if let Ok(mut stream) = self.stream.lock() {
            *stream = Some(chunks);
            self.head.store(WRITING, Relaxed);
        }
    }

    /// The body of a reply was asked for: its head is written, though it may not have left.
    pub fn head_is_written(&self) {
        let _ = self.head.compare_exchange(WRITING, WRITTEN, Relaxed, Relaxed);
    }

    fn all_is_sent(&self) {
        let _ = self.head.compare_exchange(WRITTEN, SENT, Relaxed, Relaxed);
    }

    /// Whether the head of a reply whose body was handed over has left.
    pub fn head_is_sent(&self) -> bool {
        self.head.load(Relaxed) == SENT
    }

    /// What was handed over.
    pub fn take_stream(&self) -> Option<Chunks> {
        self.head.store(0, Relaxed);
        self.stream.lock().ok()?.take()
    }

    /// There is something to do again. That it was time to rest may have been said when it rested already, as it does after a stream.
    pub fn wakes(&self) {
        self.rests.store(false, Relaxed);
    }

    /// Whether nothing has happened for a while, and nothing does now; asked once.
    pub fn rests(&self) -> bool {
        self.rests.load(Relaxed) && self.rests.swap(false, Relaxed) && self.now.load(Relaxed) == 0
    }

    /// The request goes on in other hands.
    pub fn go_on(self: &Arc<Self>) -> Busy {
        self.now.fetch_add(1, Relaxed);
        Busy(self.clone())
    }

    /// A request began; it ends when the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> Busy {
        self.now.fetch_add(1, Relaxed);
        self.ever.fetch_add(1, Relaxed);
        Busy(self.clone())
    }

    /// Keeps an eye on a reply that is about to be sent.
    pub fn pace(&self) -> Arc<Pace> {
        let pace = Arc::new(Pace { began: Instant::now(), waits_since: AtomicU64::new(0) });
        if let Ok(mut paces) = self.paces.lock() {
            // As many as the peer may have streams.
            paces.retain(|pace| pace.strong_count() > 0);
            paces.push(Arc::downgrade(&pace));
        }
        pace
    }

    /// Whether the peer has left a reply alone for too long.
    fn stalled(&self, patience: Duration) -> bool {
        self.paces.lock().is_ok_and(|paces| paces.iter().filter_map(Weak::upgrade).any(|pace| pace.stalled(patience)))
    }
}

/// See [`Activity::begin`].
pub struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Relaxed);
    }
}

/// See the module's documentation.
pub struct Guarded<S> {
    stream: S,
    activity: Arc<Activity>,
    patience: Patience,
    alarm: Option<Pin<Box<Sleep>>>,
    quiet_since: Instant,
    /// Requests whose end has been noticed.
    served: usize,
    /// Whether it was put to rest since.
    rested: bool,
    head_since: Option<Instant>,
    stalled_since: Option<Instant>,
    framing: Framing,
}

impl<S> Guarded<S> {
    /// Watches a stream.
    pub fn new(stream: S, activity: Arc<Activity>, patience: Patience) -> Guarded<S> {
        Guarded {
            stream,
            activity,
            patience,
            alarm: None,
            quiet_since: Instant::now(),
            served: 0,
            rested: false,
            head_since: None,
            stalled_since: None,
            framing: Framing::default(),
        }
    }

    /// Whether a request is being worked on. A request may have come and gone since the last look: then a new head is
    /// due all the same.
    fn busy(&mut self) -> bool {
        let ever = self.activity.ever.load(Relaxed);
        let busy = self.activity.now.load(Relaxed) > 0;
        if !busy && self.served != ever {
            self.served = ever;
            self.rested = false;
            self.quiet_since = Instant::now();
            // The next message may have begun behind this one, and has as long as any other.
            self.head_since = self.framing.is_amid().then(Instant::now);
        }
        busy
    }

    fn deadline(&mut self) -> Option<Instant> {
        let busy = self.busy();
        let read = match self.head_since {
            _ if busy => None,
            Some(since) => Some(since + self.patience.head),
            None if self.served == 0 => Some(self.quiet_since + self.patience.head),
            None if self.rested => Some(self.quiet_since + self.patience.idle),
            None => Some(self.quiet_since + self.patience.rest),
        };
        let write = self.stalled_since.map(|since| since + self.patience.write);
        match (read, write) {
            (Some(read), Some(write)) => Some(read.min(write)),
            (read, write) => read.or(write),
        }
    }

    /// Whether the time has come to put it to rest, and not to close it.
    fn goes_to_rest(&mut self) -> bool {
        let rests = self.served > 0 && !self.rested && self.head_since.is_none() && self.stalled_since.is_none();
        if rests {
            self.rested = true;
            self.activity.rests.store(true, Relaxed);
        }
        rests
    }

    /// Whether time is up. The alarm may ring early; then it is set again.
    fn expired(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            let deadline = self.deadline();
            // Replies that share a connection are looked at now and then.
            let look = self.framing.is_http2().then(|| Instant::now() + self.patience.write / LOOKS);
            let Some(next) = deadline.into_iter().chain(look).min() else { return false };
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next.into())));
            if alarm.deadline().into_std() > next {
                alarm.as_mut().reset(next.into());
            }
            match alarm.as_mut().poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(()) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    // What rang is over; the next alarm is a new one.
                    self.alarm = None;
                    if !self.goes_to_rest() {
                        return true;
                    }
                }
                Poll::Ready(()) if self.framing.is_http2() && self.activity.stalled(self.patience.write) => return true,
                Poll::Ready(()) => alarm.as_mut().reset(next.into()),
            }
        }
    }

    fn written<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled_since = None;
            return result;
        }
        self.stalled_since.get_or_insert_with(Instant::now);
        if self.expired(cx) { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                let busy = this.busy();
                if let Some(fresh) = buffer.filled_mut().get_mut(before..)
                    && !fresh.is_empty()
                {
                    this.framing.check(fresh);
                    if !busy {
                        // Even if it has come as a whole: whoever reads it may look for more before it begins.
                        this.head_since.get_or_insert_with(Instant::now);
                    }
                }
                Poll::Ready(Ok(()))
            }
            Poll::Pending if this.expired(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            other => other,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, result)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_flush(cx);
        if result.is_ready() {
            this.activity.all_is_sent();
        }
        this.written(cx, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.written(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn is_silent(io: &mut (impl AsyncRead + Unpin)) -> bool {
        tokio::time::timeout(Duration::from_millis(5), io.read(&mut [0; 64])).await.is_err()
    }

    #[tokio::test]
    async fn a_connection_rests_when_nothing_comes_and_not_when_a_request_has_come_and_not_begun() {
        let rest = Duration::from_millis(30);
        for comes in [false, true] {
            let (mut peer, ours) = tokio::io::duplex(1024);
            let activity = Arc::new(Activity::default());
            let mut io = Guarded::new(ours, activity.clone(), Patience { rest, ..Patience::default() });
            drop(activity.begin());
            assert!(is_silent(&mut io).await && !activity.rests(), "one request is done, and nothing is due yet");
            if comes {
                std::thread::sleep(2 * rest);
                peer.write_all(b"GET /health HTTP/1.1\r\n\r\n").await.unwrap();
                assert_eq!(io.read(&mut [0; 64]).await.unwrap(), 24);
            }
            tokio::time::sleep(2 * rest).await;
            assert!(is_silent(&mut io).await);
            assert_eq!(activity.rests(), !comes);
        }
    }

    #[test]
    fn who_was_told_to_rest_and_has_something_to_do_does_not_rest() {
        let activity = Arc::new(Activity::default());
        activity.rests.store(true, Relaxed);
        let busy = activity.begin();
        assert!(!activity.rests());
        drop(busy);
        assert!(!activity.rests(), "it was asked, and is told again when it is time");
        activity.rests.store(true, Relaxed);
        assert!(activity.rests());
    }
}
