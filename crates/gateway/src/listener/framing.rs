//! Where one HTTP/1 message ends and the next begins, followed byte by byte before anybody parses them: a head that can be
//! read in two ways is made unreadable.
//!
//! What is let through is less than what the parser takes, and where both take it, both find the same end. So the bytes of
//! a body are never taken for a head, nor those of a head for a body, in whatever pieces they come.

/// Follows the messages of a connection.
#[derive(Debug, Default)]
pub struct Framing {
    part: Part,
    line: Line,
    /// Whether any line of this connection has ended.
    begun: bool,
    length: Option<u64>,
    chunked: bool,
}

#[derive(Debug, Default, PartialEq)]
enum Part {
    /// Before a request line, where empty lines are skipped.
    #[default]
    Between,
    Head,
    /// So many bytes are left of the body, or of its chunk.
    Body(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// Frames, which are somebody else's.
    Http2,
    /// Nothing from here on is shown to anybody.
    Refused,
}

/// What is kept of a line that comes in parts: how it begins, how it ends, how long it is.
#[derive(Debug)]
struct Line {
    begin: [u8; BEGIN],
    last: Option<u8>,
    length: usize,
}

/// As much of a line as is read: the name of a header that tells a length, and its value with some space around it.
const BEGIN: usize = 64;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r";
/// As many digits as a size may have.
const HEX_DIGITS: usize = 16;

impl Default for Line {
    fn default() -> Self {
        Line { begin: [0; BEGIN], last: None, length: 0 }
    }
}

impl Line {
    fn extend(&mut self, part: &[u8]) {
        for (slot, byte) in self.begin.iter_mut().skip(self.length).zip(part) {
            *slot = *byte;
        }
        self.length += part.len();
        self.last = part.last().copied().or(self.last);
    }
}

/// A line that is bad.
struct Bad;

impl Framing {
    /// Whether the connection speaks HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.part == Part::Http2
    }

    /// Whether a message has begun and not ended.
    pub fn is_amid(&self) -> bool {
        !matches!(self.part, Part::Between | Part::Http2) || self.line.length > 0
    }

    /// Looks at fresh bytes. From the end of a bad line on they become bytes that no head may have: whoever parses them
    /// refuses them.
    pub fn check(&mut self, mut fresh: &mut [u8]) {
        while !fresh.is_empty() {
            let passed = match &mut self.part {
                Part::Http2 => return,
                Part::Refused => return fresh.fill(0),
                Part::Body(left) | Part::Chunk(left) => {
                    let passed = usize::try_from(*left).unwrap_or(usize::MAX).min(fresh.len());
                    *left -= passed as u64;
                    if *left == 0 {
                        self.part = if matches!(self.part, Part::Chunk(_)) { Part::ChunkEnd } else { Part::Between };
                    }
                    passed
                }
                _ => {
                    let Some(length) = memchr::memchr(b'\n', fresh) else { return self.line.extend(fresh) };
                    let part = fresh.get(..length).unwrap_or_default();
                    let judged = if self.line.length == 0 {
                        self.ends(part, length, part.last().copied())
                    } else {
                        self.line.extend(part);
                        let Line { begin, last, length } = std::mem::take(&mut self.line);
                        self.ends(begin.get(..length.min(BEGIN)).unwrap_or_default(), length, last)
                    };
                    match judged {
                        Ok(next) => {
                            self.part = next;
                            length + 1
                        }
                        Err(Bad) => {
                            self.part = Part::Refused;
                            length
                        }
                    }
                }
            };
            fresh = fresh.get_mut(passed..).unwrap_or_default();
        }
    }

    /// Judges a line by how it begins, how long it is and how it ends; what comes after it.
    fn ends(&mut self, begin: &[u8], length: usize, last: Option<u8>) -> Result<Part, Bad> {
        if last != Some(b'\r') {
            return Err(Bad);
        }
        let first = !std::mem::replace(&mut self.begun, true);
        let is_empty = length == 1;
        match self.part {
            Part::Between if is_empty => Ok(Part::Between),
            Part::Between if first && begin == PREFACE => Ok(Part::Http2),
            Part::Between => Ok(Part::Head),
            Part::Head if is_empty => Ok(match (self.length.take(), std::mem::take(&mut self.chunked)) {
                (_, true) => Part::ChunkSize,
                (None | Some(0), false) => Part::Between,
                (Some(length), false) => Part::Body(length),
            }),
            Part::Head => self.header(begin, length).map(|()| Part::Head),
            Part::ChunkSize => match chunk_size(begin)? {
                0 => Ok(Part::Trailers),
                size => Ok(Part::Chunk(size)),
            },
            Part::ChunkEnd if is_empty => Ok(Part::ChunkSize),
            Part::Trailers if is_empty => Ok(Part::Between),
            Part::Trailers => Ok(Part::Trailers),
            Part::ChunkEnd | Part::Body(_) | Part::Chunk(_) | Part::Http2 | Part::Refused => Err(Bad),
        }
    }

    /// Notes how long the body is. It is told once, in one way, and in a line that was kept as a whole.
    fn header(&mut self, begin: &[u8], length: usize) -> Result<(), Bad> {
        let value = |name: &[u8]| {
            let (begin, value) = begin.split_at_checked(name.len())?;
            begin.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
        };
        let told = match begin.first() {
            Some(b'c' | b'C') => value(b"content-length:").map(|value| (value, false)),
            Some(b't' | b'T') => value(b"transfer-encoding:").map(|value| (value, true)),
            _ => None,
        };
        let Some((value, is_coding)) = told else { return Ok(()) };
        if length > BEGIN || self.length.is_some() || self.chunked {
            return Err(Bad);
        }
        if is_coding {
            self.chunked = value.eq_ignore_ascii_case(b"chunked");
            return if self.chunked { Ok(()) } else { Err(Bad) };
        }
        self.length = Some(number(value, 10)?);
        Ok(())
    }
}

/// The size of a chunk; what is said about it after a semicolon is nothing to us.
fn chunk_size(line: &[u8]) -> Result<u64, Bad> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, rest) = line.split_at(digits);
    match rest.trim_ascii_start().first() {
        None | Some(b';') if digits <= HEX_DIGITS => number(size, 16),
        _ => Err(Bad),
    }
}

/// Digits and nothing else: no sign, which the standard library would read.
fn number(digits: &[u8], radix: u32) -> Result<u64, Bad> {
    if digits.is_empty() {
        return Err(Bad);
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = char::from(*byte).to_digit(radix).ok_or(Bad)?;
        number.checked_mul(radix.into()).and_then(|number| number.checked_add(digit.into())).ok_or(Bad)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is let through of a text that comes in parts: all of it, or so much.
    fn passed(text: &str, part: usize) -> usize {
        let mut framing = Framing::default();
        let mut bytes = text.as_bytes().to_vec();
        for part in bytes.chunks_mut(part) {
            framing.check(part);
        }
        let passed = bytes.iter().zip(text.bytes()).take_while(|(after, before)| **after == *before).count();
        assert!(bytes.iter().skip(passed).all(|byte| *byte == 0), "{text:?} was changed and let through");
        passed
    }

    const PLAIN: &str = "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{\n\"a\":1}\n\r\n\r";
    const CHUNKED: &str = "POST /mcp HTTP/1.1\r\nTransfer-ENCODING:chunked \r\n\r\nA \r\n{\n\"a\":1}\n\n\r\n2;x=\"y\"\r\n\r\n\r\n0\r\nA: b\r\n\r\n";
    const EMPTY: &str = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

    // J1
    #[test]
    fn what_can_be_read_in_one_way_only_is_let_through_untouched() {
        let h2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n\n\n";
        for text in [h2.to_owned(), [PLAIN, CHUNKED, EMPTY, "\r\n\r\n", PLAIN, EMPTY, CHUNKED, CHUNKED].concat()] {
            for part in [1, 2, 3, 7, 50, 1000] {
                assert_eq!(passed(&text, part), text.len(), "in parts of {part}");
            }
        }
    }

    // J1
    #[test]
    fn a_head_that_can_be_read_in_two_ways_is_unreadable_wherever_it_comes() {
        let line = "POST / HTTP/1.1\r\n";
        let chunks = format!("{line}Transfer-Encoding: chunked\r\n\r\n");
        let bad = [
            "POST /mcp HTTP/1.1\n".to_owned(),
            "\n".to_owned(),
            "PRI * HTTP/2.0\r\nA: b\n".to_owned(),
            format!("{line}A: b\n"),
            format!("{line}A: b\r\n\n"),
            format!("{line}Content-Length: 3\r\nTRANSFER-encoding: chunked\r\n"),
            format!("{line}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
            format!("{line}Content-Length: 3\r\nContent-Length: 3\r\n"),
            format!("{line}Content-Length: +3\r\n"),
            format!("{line}Content-Length: a\r\n"),
            format!("{line}Content-Length: 3, 3\r\n"),
            format!("{line}Content-Length:\r\n"),
            format!("{line}Content-Length:{}3\r\n", " ".repeat(BEGIN)),
            format!("{line}Content-Length: 99999999999999999999999\r\n"),
            format!("{line}Transfer-Encoding: chunked, identity\r\n"),
            format!("{line}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            format!("{chunks}+1\r\n"),
            format!("{chunks}\r\n"),
            format!("{chunks}1x\r\n"),
            format!("{chunks}1\n"),
            format!("{chunks}1;\n"),
            format!("{chunks}11111111111111111\r\n"),
            format!("{chunks}1\r\naX\r\n"),
            format!("{chunks}1\r\na\n"),
            format!("{chunks}0\r\n\n"),
            format!("{chunks}0\r\nA: b\n"),
        ];
        for bad in &bad {
            for before in ["", "\r\n", PLAIN, CHUNKED, EMPTY] {
                // The preface of HTTP/2 is one only where a connection begins.
                if before.is_empty() && bad.starts_with("PRI") {
                    continue;
                }
                let text = format!("{before}{bad}Host: x\r\n\r\n");
                for part in [1, 3, 1000] {
                    assert_eq!(passed(&text, part), before.len() + bad.len() - 1, "{text:?} in parts of {part}");
                }
            }
        }
    }

    // J4
    #[test]
    fn a_message_that_has_begun_is_known_from_none() {
        let text = [PLAIN, CHUNKED].concat();
        for length in 0..=text.len() {
            let mut framing = Framing::default();
            framing.check(&mut text.as_bytes().to_vec()[..length]);
            assert_eq!(framing.is_amid(), ![0, PLAIN.len(), text.len()].contains(&length), "after {length}");
        }
    }
}
