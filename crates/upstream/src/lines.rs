//! Lines out of a child's standard output, whatever the borders of the reads.

use bytes::{Buf, Bytes, BytesMut};
use tokio::time::Instant;

const READ: usize = 64 << 10;
/// A line up to this length is copied. The buffer stays where it is then, warm and nobody else's: slices of it would be
/// counted by every thread that answers a caller.
const COPIED: usize = 16 << 10;
/// A buffer that had to grow beyond this is given back once it is empty.
const KEEP: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end and without a byte order mark.
    Whole(Bytes),
    /// A line beyond the limit began at this time; the rest of it is skipped.
    Overlong(Instant),
}

pub(crate) struct Lines {
    buffer: BytesMut,
    searched: usize,
    limit: usize,
    skipping: bool,
    /// When the first bytes of a line were seen whose end was not.
    began: Option<Instant>,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Lines {
        Lines { buffer: BytesMut::new(), searched: 0, limit, skipping: false, began: None }
    }

    /// Where the next read goes.
    pub(crate) fn space(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
            self.buffer = BytesMut::new();
        }
        let (length, capacity) = (self.buffer.len(), self.buffer.capacity());
        if length > KEEP && capacity - length < READ {
            // A long line: the usual doubling would end at twice what a line may have.
            let enough = (capacity * 2).min(self.limit + 2 * READ).max(length + READ);
            let mut grown = BytesMut::with_capacity(enough);
            grown.extend_from_slice(&self.buffer);
            self.buffer = grown;
        } else {
            self.buffer.reserve(READ);
        }
        &mut self.buffer
    }

    /// The next line of what was read.
    pub(crate) fn next(&mut self) -> Option<Line> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(at) = memchr::memchr(b'\n', unsearched).map(|at| at + self.searched) else {
                self.searched = self.buffer.len();
                if self.searched == 0 {
                    return None;
                }
                let began = *self.began.get_or_insert_with(Instant::now);
                if self.skipping {
                    self.buffer.clear();
                    self.searched = 0;
                } else if self.buffer.len() > self.limit {
                    self.skipping = true;
                    self.buffer.clear();
                    self.searched = 0;
                    return Some(Line::Overlong(began));
                }
                return None;
            };
            self.searched = 0;
            let mut line = if at < COPIED {
                let line = self.buffer.get(..=at).map(Bytes::copy_from_slice).unwrap_or_default();
                self.buffer.advance(at + 1);
                line
            } else {
                self.buffer.split_to(at + 1).freeze()
            };
            let began = self.began.take();
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > self.limit {
                return Some(Line::Overlong(began.unwrap_or_else(Instant::now)));
            }
            line.truncate(line.len() - 1);
            if line.ends_with(b"\r") {
                line.truncate(line.len() - 1);
            }
            if line.starts_with(b"\xef\xbb\xbf") {
                line.advance(3);
            }
            return Some(Line::Whole(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]], limit: usize) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.space().extend_from_slice(chunk);
            while let Some(line) = lines.next() {
                out.push(match line {
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Line::Overlong(_) => "OVERLONG".into(),
                });
            }
        }
        out
    }

    // K5, K6, K7
    #[test]
    fn chunk_borders_change_nothing_and_an_endless_line_is_skipped() {
        let stream = b"\xef\xbb\xbfone\r\n\ntwo and more than that\nthree\nrest";
        let whole = lines(&[stream], 10);
        assert_eq!(whole, ["one", "", "OVERLONG", "three"]);
        for at in 0..stream.len() {
            let (a, b) = stream.split_at(at);
            assert_eq!(lines(&[a, b], 10), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(lines(&bytes, 10), whole);
    }
}
