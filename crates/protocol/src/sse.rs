//! Server-sent events: read incrementally, written anew. A stream is never copied through.

use bytes::Bytes;

/// An event that carried data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `event:`; empty means `message`.
    pub name: String,
    /// `data:` lines joined by newlines.
    pub data: Bytes,
}

/// The stream sent a line or an event beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event larger than {0} bytes")]
pub struct TooLarge(pub usize);

/// An id beyond this is none.
const LONGEST_ID: usize = 1024;

/// Turns chunks into events, whatever the chunk borders.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    at_start: bool,
    last_id: Option<Bytes>,
    retry: Option<u64>,
}

impl Decoder {
    /// A decoder that refuses events above `limit` bytes.
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            limit,
            line: Vec::new(),
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            last_id: None,
            retry: None,
        }
    }

    /// Reads a chunk and appends the events it completes.
    pub fn push(&mut self, mut chunk: &[u8], events: &mut Vec<Event>) -> Result<(), TooLarge> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk.first() == Some(&b'\n') {
                chunk = chunk.get(1..).unwrap_or(&[]);
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', chunk);
            let (part, rest) = match end {
                Some(at) => (chunk.get(..at).unwrap_or(&[]), chunk.get(at + 1..).unwrap_or(&[])),
                None => (chunk, &[][..]),
            };
            if self.line.len() + self.data.len() + part.len() > self.limit {
                return Err(TooLarge(self.limit));
            }
            self.line.extend_from_slice(part);
            if let Some(at) = end {
                self.after_cr = chunk.get(at) == Some(&b'\r');
                self.end_line(events);
            }
            chunk = rest;
        }
        Ok(())
    }

    /// The id of the last event, if the stream gave one: where to go on when it is lost.
    pub fn last_id(&self) -> Option<&Bytes> {
        self.last_id.as_ref()
    }

    /// How many milliseconds the stream wants to be left alone before somebody comes back for it.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            if std::mem::take(&mut self.has_data) {
                events.push(Event { name, data: data.into() });
            }
        } else {
            let colon = memchr::memchr(b':', &line).unwrap_or(line.len());
            let (field, value) = line.split_at(colon);
            let value = value.strip_prefix(b":").unwrap_or(value);
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"data" => {
                    if std::mem::replace(&mut self.has_data, true) {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value);
                }
                b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
                // An id with a NUL in it is none; so is one that no header could carry back.
                b"id" if value.len() <= LONGEST_ID && value.iter().all(|byte| matches!(byte, 0x20..=0x7e)) => {
                    self.last_id = (!value.is_empty()).then(|| Bytes::copy_from_slice(value));
                }
                // Digits and nothing else: a sign, which Rust would read, is none.
                b"retry" if value.iter().all(u8::is_ascii_digit) => {
                    self.retry = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).or(self.retry);
                }
                _ => {}
            }
        }
        line.clear();
        self.line = line;
    }
}

/// One message as an event. JSON text has no raw line breaks inside strings; white space between tokens may, so those
/// become one `data:` line each.
pub fn event(message: &[u8]) -> Bytes {
    written(Vec::with_capacity(message.len() + 24), message)
}

/// One message as an event that can be named later, when its reader lost what came after it. The id is one line.
pub fn event_with_id(id: &str, message: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(message.len() + id.len() + 32);
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(id.as_bytes());
    out.push(b'\n');
    written(out, message)
}

fn written(mut out: Vec<u8>, message: &[u8]) -> Bytes {
    out.extend_from_slice(b"event: message\n");
    for line in message.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.into()
}

/// A line that keeps a connection alive and means nothing.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"\xef\xbb\xbf: hi\r\nevent: endpoint\r\ndata: /x\r\n\r\nid: 4\nretry: 0\ndata:{\"a\":\ndata: 1}\n\ndata\rdata: \r\revent: lost\n\ndata: {\"t\":\"\\n\\nevent: message\"}\n\n";

    fn events(chunks: impl Iterator<Item = Vec<u8>>) -> Vec<Event> {
        let mut decoder = Decoder::new(1000);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(&chunk, &mut events).unwrap();
        }
        events
    }

    // E8
    #[test]
    fn chunk_borders_change_nothing() {
        let whole = events(std::iter::once(STREAM.to_vec()));
        let read: Vec<_> = whole.iter().map(|e| (e.name.as_str(), std::str::from_utf8(&e.data).unwrap())).collect();
        assert_eq!(read, [("endpoint", "/x"), ("", "{\"a\":\n1}"), ("", "\n"), ("", "{\"t\":\"\\n\\nevent: message\"}")]);
        for at in 0..STREAM.len() {
            let (a, b) = STREAM.split_at(at);
            assert_eq!(events([a.to_vec(), b.to_vec()].into_iter()), whole, "split at {at}");
        }
        assert_eq!(events(STREAM.iter().map(|b| vec![*b])), whole);
    }

    #[test]
    fn the_last_id_and_the_wish_to_be_left_alone_are_kept() {
        let mut decoder = Decoder::new(1000);
        let mut read = |text: &str| {
            decoder.push(text.as_bytes(), &mut Vec::new()).unwrap();
            (decoder.last_id().map(|id| String::from_utf8_lossy(id).into_owned()), decoder.retry())
        };
        assert_eq!(read("data: x\n\n"), (None, None));
        assert_eq!(read("id: a/1\nretry: 250\ndata: \n\n"), (Some("a/1".into()), Some(250)));
        assert_eq!(read("id: b\u{0}c\nretry: soon\nretry: +5\n\n"), (Some("a/1".into()), Some(250)), "none of them is one");
        assert_eq!(read(&format!("id: {}\n\n", "x".repeat(999 - 4))), (Some("x".repeat(995)), Some(250)));
        assert_eq!(read("id\n\n"), (None, Some(250)), "an empty id takes the last one back");
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut decoder = Decoder::new(100);
        assert_eq!(decoder.push(&[b'x'; 200], &mut Vec::new()), Err(TooLarge(100)));
    }

    #[test]
    fn what_we_write_we_read() {
        let message = b"{\"a\":\r\n[1]}";
        let read = events(std::iter::once(event(message).to_vec()));
        assert_eq!(read.len(), 1);
        let text = std::str::from_utf8(&read[0].data).unwrap().replace('\n', "");
        assert_eq!(text, "{\"a\":[1]}");
    }
}
