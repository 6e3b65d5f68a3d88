//! Lines from a client, whatever the borders of the reads.

use bytes::{Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end.
    Whole(Bytes),
    /// A line beyond the limit; it was skipped.
    TooLong,
    /// The client will say no more.
    End,
}

/// Reads lines of at most `limit` bytes.
pub struct Lines<R> {
    input: R,
    line: BytesMut,
    limit: usize,
    skipping: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Lines of this input.
    pub fn new(input: R, limit: usize) -> Lines<R> {
        Lines { input, line: BytesMut::new(), limit, skipping: false }
    }

    /// The next line. Nothing is lost if the future is dropped before it is ready.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(self.rest());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            if self.line.len() + part.len() > self.limit {
                self.skipping = true;
                self.line = BytesMut::new();
            }
            if !self.skipping {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_none() {
                continue;
            }
            match self.rest() {
                Line::End => {}
                line => return Ok(line),
            }
        }
    }

    /// What has come since the last line; the end if that is nothing. Whoever ends without a line break has said it all the same.
    fn rest(&mut self) -> Line {
        if std::mem::take(&mut self.skipping) {
            return Line::TooLong;
        }
        let line = std::mem::take(&mut self.line).freeze();
        let line = line.slice_ref(line.trim_ascii());
        if line.is_empty() { Line::End } else { Line::Whole(line) }
    }
}

/// A message as one line: between its tokens it may have had several.
pub fn one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    // Inside a string a line break is an escape; these are between tokens.
    message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn lines(text: &[u8], buffer: usize, limit: usize) -> Vec<String> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text), limit);
        let mut out = Vec::new();
        loop {
            out.push(match lines.next().await.unwrap() {
                Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                Line::TooLong => "TOO LONG".into(),
                Line::End => return out,
            });
        }
    }

    #[tokio::test]
    async fn borders_of_reads_change_nothing_and_a_line_beyond_the_limit_costs_only_itself() {
        let text = b"one\r\n\n  two \na line that is too long\nthree\n";
        for buffer in [1, 2, 3, 7, 100] {
            assert_eq!(lines(text, buffer, 10).await, ["one", "two", "TOO LONG", "three"], "{buffer}");
        }
    }

    #[tokio::test]
    async fn the_last_line_needs_no_line_break() {
        for buffer in [1, 3, 100] {
            assert_eq!(lines(b"one\n two", buffer, 10).await, ["one", "two"], "{buffer}");
            assert_eq!(lines(b"one\n  ", buffer, 10).await, ["one"], "{buffer}");
            assert_eq!(lines(b"one\na line that is too long", buffer, 10).await, ["one", "TOO LONG"], "{buffer}");
        }
    }

    #[test]
    fn a_message_over_several_lines_becomes_one() {
        let message = Bytes::from_static(b"{\n  \"a\": \"x\\ny\"\r\n}");
        assert_eq!(one_line(message), &b"{   \"a\": \"x\\ny\"  }"[..]);
    }
}
