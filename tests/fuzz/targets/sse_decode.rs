//! Chunk borders change nothing; what a decoder holds stays below its limit; what we write as an event we read back.
//! The first bytes say where to split, the rest is the stream.

use transom_protocol::sse::{Decoder, Event, TooLarge, event, event_with_id};

pub const WORDS: &[&str] =
    &["data:", "data: ", "event: ", "event: endpoint\n", "id: 1\n", "retry: 0\n", ": hi\n", "\n\n", "\r\n\r\n", "\r\r", "\u{feff}", "data"];

const LIMIT: usize = 64;

/// The events, how it ended, and what the decoder remembers.
#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    events: Vec<Event>,
    outcome: Result<(), TooLarge>,
    last_id: Option<Vec<u8>>,
    retry: Option<u64>,
}

fn decode<'c>(chunks: impl IntoIterator<Item = &'c [u8]>, limit: usize) -> Decoded {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    let outcome = chunks.into_iter().try_for_each(|chunk| decoder.push(chunk, &mut events));
    Decoded { events, outcome, last_id: decoder.last_id().map(|id| id.to_vec()), retry: decoder.retry() }
}

/// The stream in pieces as long as these bytes say, again and again.
pub fn pieces<'s>(mut stream: &'s [u8], lengths: &[u8]) -> Vec<&'s [u8]> {
    let mut pieces = Vec::new();
    let mut lengths = lengths.iter().cycle();
    while !stream.is_empty() {
        let length = lengths.next().map_or(1, |length| usize::from(*length).max(1)).min(stream.len());
        let (piece, rest) = stream.split_at(length);
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

pub fn run(bytes: &[u8]) {
    let (lengths, stream) = bytes.split_at(bytes.len().min(4));
    for limit in [LIMIT, 1 << 20] {
        let whole = decode([stream], limit);
        assert_eq!(decode(pieces(stream, lengths), limit), whole, "split by {lengths:?}, limit {limit}");
        assert_eq!(decode(stream.chunks(1), limit), whole, "byte by byte, limit {limit}");
        for event in &whole.events {
            assert!(event.data.len() <= limit, "an event of {} bytes", event.data.len());
        }
        // It goes back in a header.
        assert!(whole.last_id.as_ref().is_none_or(|id| !id.is_empty() && id.iter().all(|byte| (0x20..=0x7e).contains(byte))));
    }
    let read = decode([&event_with_id("a/1", stream)[..]], 1 << 20);
    assert_eq!((read.outcome, read.last_id.as_deref()), (Ok(()), Some(&b"a/1"[..])));
    let read = decode([&event(stream)[..]], 1 << 20);
    assert_eq!((read.outcome, &read.last_id), (Ok(()), &None));
    let [only] = read.events.as_slice() else { panic!("one message became {} events", read.events.len()) };
    assert_eq!(only.name, "message");
    let line = |byte: &u8| if *byte == b'\r' { b'\n' } else { *byte };
    assert_eq!(only.data, stream.iter().map(line).collect::<Vec<u8>>());
}
