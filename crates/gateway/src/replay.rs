//! Streams of calls that a legacy client may take up again where it lost them.
//!
//! A call whose reply became a stream belongs to nobody's connection: it is written into its session's shelf, and whoever
//! reads the stream reads from there. A reader that goes away loses nothing; a `GET` with the id of the last event it saw
//! goes on from there. What was read is kept for a while, within bounds; what nobody came back for is let go first.
//!
//! A call that is answered with one JSON message never gets here.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use transom_protocol::sse;

/// Events of one stream that are kept.
const EVENTS: usize = 256;
/// Bytes of one stream that are kept.
const STREAM_BYTES: usize = 1 << 20;
/// Bytes of all streams of a session that are kept.
const SESSION_BYTES: usize = 2 << 20;
/// Bytes of all streams there are that are kept.
const ALL_BYTES: usize = 32 << 20;
/// Streams of a session that have ended.
const ENDED: usize = 64;
/// How long a stream is kept when it has ended.
const KEPT: Duration = Duration::from_secs(120);
/// How far a reader may be behind before the stream waits for it, in events. In bytes it is what is kept of a stream.
const BEHIND: u64 = 64;

/// What all shelves together hold, in bytes.
#[derive(Clone, Debug, Default)]
pub struct Total(Arc<AtomicUsize>);

impl Total {
    /// How much that is.
    pub fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// The streams of one session.
#[derive(Debug, Default)]
pub struct Shelf {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    streams: HashMap<u128, Kept>,
    bytes: usize,
    total: Total,
}

/// One stream.
#[derive(Debug)]
struct Kept {
    /// The number of the oldest event that is kept.
    first: u64,
    events: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the event that the reader gets next.
    next: u64,
    /// Bytes of this event and those after it, while there is a reader.
    unread: usize,
    /// How many readers there were; the last one has the stream.
    readers: u64,
    /// Whether it is still there.
    attached: bool,
    ended: Option<Instant>,
    news: Arc<Notify>,
}

impl Kept {
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Whether the stream should wait for its reader.
    fn is_behind(&self) -> bool {
        self.attached && (self.end() - self.next >= BEHIND || self.unread > STREAM_BYTES)
    }
}

/// Which event: its stream, and its number there. The stream's name is random, and good in its own session only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventId(u128, u64);

impl EventId {
    fn text(self) -> String {
        format!("{:032x}-{}", self.0, self.1)
    }

    fn read(text: &str) -> Option<EventId> {
        let (stream, number) = text.split_once('-')?;
        let plain = stream.len() == 32 && stream.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let id = EventId(u128::from_str_radix(stream, 16).ok().filter(|_| plain)?, number.parse().ok()?);
        // One spelling each.
        (id.text() == text).then_some(id)
    }
}

impl Inner {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.total.0.fetch_add(bytes, Relaxed);
    }

    fn subtract(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.total.0.fetch_sub(bytes, Relaxed);
    }

    fn is_full(&self) -> bool {
        self.bytes > SESSION_BYTES || self.total.bytes() > ALL_BYTES
    }

    fn remove(&mut self, key: u128) {
        if let Some(kept) = self.streams.remove(&key) {
            self.subtract(kept.bytes);
            kept.news.notify_waiters();
        }
    }

    /// Lets go of streams that have ended: those whose time is over and, if there is too much, those that ended first.
    fn tidy(&mut self) {
        let mut ended: Vec<(Instant, u128)> =
            self.streams.iter().filter(|(_, kept)| !kept.attached).filter_map(|(key, kept)| Some((kept.ended?, *key))).collect();
        ended.sort_unstable();
        let mut left = ended.len();
        for (when, key) in ended {
            if when.elapsed() < KEPT && left <= ENDED && !self.is_full() {
                break;
            }
            self.remove(key);
            left -= 1;
        }
    }

    /// Lets go of a stream's oldest events. Those that a reader is about to get are never among them.
    fn trim(&mut self, key: u128) {
        while let full = self.is_full()
            && let Some(kept) = self.streams.get_mut(&key)
            && (full || kept.events.len() > EVENTS || kept.bytes > STREAM_BYTES)
            && (!kept.attached || kept.first < kept.next)
            && let Some(oldest) = kept.events.pop_front()
        {
            kept.first += 1;
            kept.bytes -= oldest.len();
            self.subtract(oldest.len());
        }
    }
}

impl Shelf {
    /// An empty one, which counts with the others.
    pub fn new(total: Total) -> Arc<Shelf> {
        Arc::new(Shelf { inner: Mutex::new(Inner { total, ..Inner::default() }) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds this lock; a poisoned one is as good as any.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new stream: who writes it, and who reads it from its beginning.
    pub fn open(self: &Arc<Self>) -> (Writer, Reader) {
        let key = rand::random();
        let news = Arc::new(Notify::new());
        let kept =
            Kept { first: 0, events: VecDeque::new(), bytes: 0, next: 0, unread: 0, readers: 1, attached: true, ended: None, news: news.clone() };
        let mut inner = self.inner();
        inner.tidy();
        inner.streams.insert(key, kept);
        drop(inner);
        (Writer { shelf: self.clone(), key, news: news.clone() }, Reader { shelf: self.clone(), key, number: 1, news })
    }

    /// The rest of a stream after this event; `None` if there is no such stream here, or not all of its rest. Whoever read it
    /// so far, and may not know that nobody listens any more, reads no further.
    pub fn resume(self: &Arc<Self>, after: &str) -> Option<Reader> {
        let EventId(key, seen) = EventId::read(after)?;
        let mut inner = self.inner();
        let kept = inner.streams.get_mut(&key)?;
        let next = seen.checked_add(1)?;
        if next < kept.first || next > kept.end() {
            return None;
        }
        kept.next = next;
        let read = usize::try_from(next - kept.first).ok()?;
        kept.unread = kept.events.iter().skip(read).map(Bytes::len).sum();
        kept.readers += 1;
        kept.attached = true;
        kept.news.notify_waiters();
        Some(Reader { shelf: self.clone(), key, number: kept.readers, news: kept.news.clone() })
    }

    /// Lets go of what was kept long enough.
    pub fn tidy(&self) {
        let mut inner = self.inner();
        if !inner.streams.is_empty() {
            inner.tidy();
        }
    }

    /// Whether there is nothing on it.
    pub fn is_empty(&self) -> bool {
        self.inner().streams.is_empty()
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let mut inner = self.inner();
        let bytes = inner.bytes;
        inner.subtract(bytes);
    }
}

/// Writes a stream; dropping it ends the stream.
pub struct Writer {
    shelf: Arc<Shelf>,
    key: u128,
    news: Arc<Notify>,
}

impl Writer {
    /// Adds a message.
    pub fn write(&self, message: &[u8]) {
        let mut inner = self.shelf.inner();
        let Some(kept) = inner.streams.get_mut(&self.key) else { return };
        let event = sse::event_with_id(&EventId(self.key, kept.end()).text(), message);
        let length = event.len();
        kept.bytes += length;
        kept.unread += length;
        kept.events.push_back(event);
        inner.add(length);
        if inner.is_full() {
            inner.tidy();
        }
        inner.trim(self.key);
        drop(inner);
        self.news.notify_waiters();
    }

    /// Waits until the reader, if there is one, has caught up.
    pub async fn room(&self) {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            if !self.shelf.inner().streams.get(&self.key).is_some_and(Kept::is_behind) {
                return;
            }
            news.await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut inner = self.shelf.inner();
        if let Some(kept) = inner.streams.get_mut(&self.key) {
            kept.ended = Some(Instant::now());
        }
        inner.tidy();
        drop(inner);
        self.news.notify_waiters();
    }
}

/// Reads a stream. Dropping it leaves the stream to whoever comes next.
pub struct Reader {
    shelf: Arc<Shelf>,
    key: u128,
    number: u64,
    news: Arc<Notify>,
}

impl Reader {
    /// The next event as it is sent; `None` when the stream is over, or somebody else has taken it up.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            {
                let mut inner = self.shelf.inner();
                let kept = inner.streams.get_mut(&self.key).filter(|kept| kept.readers == self.number)?;
                let at = usize::try_from(kept.next.checked_sub(kept.first)?).ok()?;
                if let Some(event) = kept.events.get(at).cloned() {
                    kept.next += 1;
                    kept.unread -= event.len();
                    inner.trim(self.key);
                    drop(inner);
                    // The writer may be waiting for this.
                    self.news.notify_waiters();
                    return Some(event);
                }
                if kept.ended.is_some() {
                    return None;
                }
            }
            news.await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut inner = self.shelf.inner();
        if let Some(kept) = inner.streams.get_mut(&self.key).filter(|kept| kept.readers == self.number) {
            kept.attached = false;
        }
        inner.trim(self.key);
        drop(inner);
        self.news.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(event: &Bytes) -> String {
        let text = std::str::from_utf8(event).unwrap();
        text.lines().next().unwrap().strip_prefix("id: ").unwrap().to_owned()
    }

    async fn rest(reader: &mut Reader) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = reader.next().await {
            events.push(String::from_utf8_lossy(&event).lines().last().unwrap_or_default().to_owned());
            let data = String::from_utf8_lossy(&event).lines().find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
            *events.last_mut().unwrap() = data.unwrap();
        }
        events
    }

    #[tokio::test]
    async fn a_reader_that_comes_back_gets_what_it_missed_and_the_one_before_it_nothing_more() {
        let total = Total::default();
        let shelf = Shelf::new(total.clone());
        let (writer, mut reader) = shelf.open();
        writer.write(b"one");
        writer.write(b"two");
        let first = id(&reader.next().await.unwrap());
        let mut again = shelf.resume(&first).unwrap();
        assert!(reader.next().await.is_none(), "it was taken up by another");
        drop(reader);
        drop(writer);
        assert_eq!(rest(&mut again).await, ["two"]);
        drop(again);
        // The end may have been lost on the way.
        assert_eq!(rest(&mut shelf.resume(&first).unwrap()).await, ["two"]);
        for odd in ["", "x", "0-0", &first.to_uppercase(), &format!("{first}0"), &format!("{first} "), &first.replace('-', "-+"), "-1"] {
            if *odd != first {
                assert!(shelf.resume(odd).is_none(), "{odd}");
            }
        }
        assert!(Shelf::new(total.clone()).resume(&first).is_none(), "of another session");
        assert!(total.bytes() > 0);
        drop(shelf);
        assert_eq!(total.bytes(), 0);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_a_gap_is_never_passed_over() {
        let total = Total::default();
        let shelf = Shelf::new(total.clone());
        let (writer, mut reader) = shelf.open();
        writer.write(b"first");
        let first = id(&reader.next().await.unwrap());
        drop(reader);
        let large = vec![b'x'; 100_000];
        for _ in 0..100 {
            writer.write(&large);
        }
        assert!(total.bytes() <= STREAM_BYTES, "{}", total.bytes());
        assert!(shelf.resume(&first).is_none(), "what came after it is gone");
        drop(writer);
        // Ended streams of a session make room for each other, the oldest first.
        let mut ids = Vec::new();
        for _ in 0..50 {
            let (writer, mut reader) = shelf.open();
            writer.write(&large);
            ids.push(id(&reader.next().await.unwrap()));
        }
        assert!(total.bytes() <= SESSION_BYTES + 200_000, "{}", total.bytes());
        assert!(shelf.resume(&ids[0]).is_none() && shelf.resume(&ids[49]).is_some());
        for _ in 0..200 {
            drop(shelf.open());
        }
        assert!(shelf.inner().streams.len() <= ENDED + 2);
    }

    #[tokio::test]
    async fn a_slow_reader_loses_nothing_and_holds_the_writer_back() {
        let shelf = Shelf::new(Total::default());
        let (writer, mut reader) = shelf.open();
        let writing = tokio::spawn(async move {
            for number in 0..1_000 {
                writer.room().await;
                writer.write(format!("{number}").as_bytes());
            }
        });
        tokio::task::yield_now().await;
        assert!(!writing.is_finished());
        let read = rest(&mut reader).await;
        assert_eq!(read, (0..1_000).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_slow_reader_holds_the_writer_back_by_bytes_as_well() {
        let total = Total::default();
        let shelf = Shelf::new(total.clone());
        let (writer, mut reader) = shelf.open();
        let large = vec![b'x'; STREAM_BYTES / 2];
        let writing = tokio::spawn(async move {
            for _ in 0..20 {
                writer.room().await;
                writer.write(&large);
            }
        });
        tokio::task::yield_now().await;
        assert!(!writing.is_finished());
        assert!(total.bytes() <= 2 * STREAM_BYTES, "{}", total.bytes());
        let first = id(&reader.next().await.unwrap());
        // Whoever takes it up is behind by what is left, not by what the one before was.
        let mut again = shelf.resume(&first).unwrap();
        assert_eq!(rest(&mut again).await.len(), 19);
        assert!(writing.is_finished());
        assert_eq!(shelf.inner().streams.values().map(|kept| kept.unread).sum::<usize>(), 0);
    }
}
