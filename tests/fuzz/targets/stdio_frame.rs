//! Chunk borders change nothing; a line beyond the limit is one line that is skipped, and the next one is read as if nothing had
//! happened. The first bytes say where to split, the rest is what a child writes.

use crate::sse_decode::pieces;
use transom_upstream::fuzzing::lines;

const LIMIT: usize = 24;

pub fn run(bytes: &[u8]) {
    let (lengths, stream) = bytes.split_at(bytes.len().min(4));
    let (whole, _) = lines([stream], LIMIT);
    let (split, most) = lines(pieces(stream, lengths), LIMIT);
    assert_eq!(split, whole, "split by {lengths:?}");
    let longest = lengths.iter().copied().max().unwrap_or(1).max(1);
    assert!(most <= LIMIT + usize::from(longest) + 1, "{most} bytes are kept");
    assert_eq!(lines(stream.chunks(1), LIMIT).0, whole, "byte by byte");

    // Told in another way: what is between two ends of lines is a line, if it is not too long. A line without an end is not there
    // yet, unless it is too long already.
    let mut expected: Vec<Option<&[u8]>> = Vec::new();
    let mut parts: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let rest = parts.pop().unwrap_or_default();
    for line in parts {
        let plain = line.strip_suffix(b"\r").unwrap_or(line);
        let plain = plain.strip_prefix(b"\xef\xbb\xbf").unwrap_or(plain);
        expected.push((line.len() < LIMIT).then_some(plain));
    }
    if rest.len() > LIMIT {
        expected.push(None);
    }
    assert_eq!(whole.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
}
