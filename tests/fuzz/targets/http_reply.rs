//! What a target answers over plain HTTP/1: part borders change nothing, a body is as long as its head says, and a head that could be
//! read in two ways is refused. The first bytes say where to split, the rest is what the target sends.

use crate::sse_decode::pieces;
use transom_upstream::fuzzing::{Head, answer};

pub const WORDS: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200\r\n",
    "\r\n\r\n",
    "content-length: ",
    "Content-Length: 5\r\n",
    "transfer-encoding: chunked\r\n",
    "connection: close\r\n",
    "connection: keep-alive\r\n",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "A;x=y\r\n",
    "204",
    "304",
    "100",
    "gzip",
    " ",
    "ffffffffffffffff",
    "\r\n ",
];

pub fn run(bytes: &[u8]) {
    let (lengths, sent) = bytes.split_at(bytes.len().min(4));
    let whole = answer([sent]);
    assert_eq!(answer(pieces(sent, lengths)), whole, "split by {lengths:?}");
    assert_eq!(answer(sent.chunks(1)), whole, "byte by byte");
    let Ok(Some((Head { status, end, length, chunked, stays_open }, body))) = whole else { return };
    assert!((100..1000).contains(&status));
    let head = String::from_utf8_lossy(&sent[..end]).to_ascii_lowercase();
    let named = |name: &str| head.lines().filter(|line| line.starts_with(name)).count();
    assert!(named("transfer-encoding:") <= 1, "{head}");
    if let Some(length) = length {
        let rest = (sent.len() - end) as u64;
        let (body, ended) = body.expect("a body of a known length can be read");
        assert_eq!((body.len() as u64, ended), (rest.min(length), rest >= length), "{head}");
        assert_eq!(body, &sent[end..end + body.len()]);
    } else if chunked {
        assert!(named("content-length:") == 0 || !stays_open, "{head}");
        if let Ok((body, _)) = body {
            assert!(body.is_empty() || body.len() < sent.len() - end, "a chunk has a head");
        }
    } else {
        assert!(!stays_open, "{head}");
        assert_eq!(body.expect("a body to the end can be read"), (sent[end..].to_vec(), false));
    }
}
