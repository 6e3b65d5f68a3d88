//! A connection with an eye on the clock: slow heads, idle connections and readers that do not read are closed, and a
//! line that ends in a bare line feed is made unreadable, so that nobody can read it in two ways.

use crate::listener::body::Chunks;
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
        Patience { head: Duration::from_secs(10), idle: Duration::from_secs(120), rest: Duration::from_secs(1), write: Duration::from_secs(10) }
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

    /// Whether nothing has happened for a while; asked once.
    pub fn rests(&self) -> bool {
        self.rests.load(Relaxed) && self.rests.swap(false, Relaxed)
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
    head: Head,
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
            head: Head::default(),
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
            self.head_since = None;
            self.head.begin();
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
            let look = self.head.http2.then(|| Instant::now() + self.patience.write / LOOKS);
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
                Poll::Ready(()) if self.head.http2 && self.activity.stalled(self.patience.write) => return true,
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
                if !this.busy()
                    && let Some(fresh) = buffer.filled_mut().get_mut(before..)
                    && !fresh.is_empty()
                {
                    this.head_since.get_or_insert_with(Instant::now);
                    this.head.check(fresh);
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

/// Follows the lines of a request's head: their ends, and whether the body's length is told in two ways.
#[derive(Debug, Default)]
struct Head {
    done: bool,
    http2: bool,
    lines: usize,
    line: Line,
    has_length: bool,
    has_coding: bool,
}

/// What is kept of a line that comes in parts: how it begins, how it ends, how long it is.
#[derive(Debug, Default)]
struct Line {
    begin: [u8; BEGIN],
    last: Option<u8>,
    length: usize,
}

/// Longer than anything a line is asked to begin with.
const BEGIN: usize = 18;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r";

impl Line {
    fn extend(&mut self, part: &[u8]) {
        for (slot, byte) in self.begin.iter_mut().skip(self.length).zip(part) {
            *slot = *byte;
        }
        self.length += part.len();
        self.last = part.last().copied().or(self.last);
    }
}

impl Head {
    fn begin(&mut self) {
        *self = Head { http2: self.http2, lines: 1, ..Head::default() };
    }

    /// Looks at fresh bytes. A line feed alone, or a second way to tell the body's length, becomes a byte that no head
    /// may have: whoever parses it refuses it.
    fn check(&mut self, fresh: &mut [u8]) {
        let mut start = 0;
        while !self.done && !self.http2 {
            let Some(rest) = fresh.get(start..) else { return };
            let Some(length) = memchr::memchr(b'\n', rest) else {
                self.line.extend(rest);
                return;
            };
            let part = rest.get(..length).unwrap_or_default();
            let bad = if self.line.length == 0 {
                self.ends_badly(part, length, part.last().copied())
            } else {
                self.line.extend(part);
                let Line { begin, last, length } = std::mem::take(&mut self.line);
                self.ends_badly(begin.get(..length.min(BEGIN)).unwrap_or_default(), length, last)
            };
            let end = start + length;
            if bad && let Some(byte) = fresh.get_mut(end) {
                *byte = 0;
                self.done = true;
            }
            start = end + 1;
        }
    }

    /// Judges a line by how it begins, how long it is and how it ends.
    fn ends_badly(&mut self, begin: &[u8], length: usize, last: Option<u8>) -> bool {
        let begins = |text: &[u8]| begin.get(..text.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(text));
        self.lines += 1;
        self.http2 = self.lines == 1 && length == PREFACE.len() && begins(PREFACE);
        self.done = length == 1;
        match begin.first() {
            Some(b'c' | b'C') => self.has_length |= begins(b"content-length:"),
            Some(b't' | b'T') => self.has_coding |= begins(b"transfer-encoding:"),
            _ => {}
        }
        last != Some(b'\r') || (self.has_length && self.has_coding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str, chunk: usize) -> String {
        let mut head = Head::default();
        let mut bytes = text.as_bytes().to_vec();
        for part in bytes.chunks_mut(chunk) {
            head.check(part);
        }
        String::from_utf8(bytes).unwrap()
    }

    // J1
    #[test]
    fn a_bare_line_feed_in_a_head_makes_the_head_unreadable_and_nothing_else_is_touched() {
        for chunk in [1, 3, 1000] {
            let good = "POST /mcp HTTP/1.1\r\nHost: x\r\n\r\n{\n\"a\":1}\n";
            assert_eq!(checked(good, chunk), good);
            assert!(checked("POST /mcp HTTP/1.1\nHost: x\n\n{}", chunk).starts_with("POST /mcp HTTP/1.1\0"));
            assert!(checked("POST /mcp HTTP/1.1\r\nA: b\nHost: x\r\n\r\n", chunk).contains("A: b\0Host"));
            assert!(checked("POST / HTTP/1.1\r\nContent-Length: 3\r\nTRANSFER-encoding: chunked\r\n\r\n", chunk).contains('\0'));
            let h2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n\n\n";
            assert_eq!(checked(h2, chunk), h2);
        }
    }
}
