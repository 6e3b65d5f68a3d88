//! Heads of HTTP/1 messages as a plain connection has them: ours written from prepared lines, the target's read for what
//! it says about the body that follows.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// The longest head of a response.
pub(crate) const LONGEST: usize = 64 << 10;

/// How long the body after a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Exactly(u64),
    Chunked,
    /// It ends when the connection does.
    ToTheEnd,
}

/// What the head of a response says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) length: Length,
    /// Whether another request may follow on the connection.
    pub(crate) stays_open: bool,
}

/// One past the empty line that ends a head. `from`: what was looked at before.
pub(crate) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes.get(from..)?).find_map(|at| {
        let after = from + at + 1;
        match bytes.get(after..)? {
            [b'\n', ..] => Some(after + 1),
            [b'\r', b'\n', ..] => Some(after + 2),
            _ => None,
        }
    })
}

/// Reads a head, its empty line included. What could be read in two ways is refused, as is what we did not ask for.
pub(crate) fn read(head: &[u8]) -> Result<Head, &'static str> {
    let mut lines = lines(head);
    let (status, minor) = lines.next().and_then(status_line).ok_or("an answer that is not HTTP/1")?;
    let (mut length, mut coding, mut closes, mut keeps) = (None, None, false, false);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = field(line).ok_or("a header that cannot be read")?;
        // Most headers are told apart by how long their names are.
        match name.len() {
            10 if name.eq_ignore_ascii_case(CONNECTION.as_str().as_bytes()) => {
                closes |= lists(value, b"close");
                keeps |= lists(value, b"keep-alive");
            }
            14 if name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str().as_bytes()) => {
                let stated = decimal(value).ok_or("a content-length that is no number")?;
                if length.replace(stated).is_some_and(|before| before != stated) {
                    return Err("two lengths for one body");
                }
            }
            17 if name.eq_ignore_ascii_case(TRANSFER_ENCODING.as_str().as_bytes()) => {
                let twice = coding.replace(value).is_some();
                if twice || !value.eq_ignore_ascii_case(b"chunked") || minor == 0 {
                    return Err("a transfer-encoding we did not ask for");
                }
            }
            _ => {}
        }
    }
    let stays_open = !closes && (keeps || minor == 1);
    let (length, stays_open) = match (status, coding, length) {
        (StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED, ..) => (Length::Exactly(0), stays_open),
        // The coding counts; but who says both may mean something else by what comes next.
        (_, Some(_), stated) => (Length::Chunked, stays_open && stated.is_none()),
        (_, None, Some(stated)) => (Length::Exactly(stated), stays_open),
        (_, None, None) if status.is_informational() => (Length::Exactly(0), stays_open),
        (_, None, None) => (Length::ToTheEnd, false),
    };
    Ok(Head { status, length, stays_open })
}

/// The value of a header, the first if there are several.
pub(crate) fn get<'h>(head: &'h [u8], name: &HeaderName) -> Option<&'h [u8]> {
    lines(head).skip(1).filter_map(field).find(|(other, _)| other.eq_ignore_ascii_case(name.as_str().as_bytes())).map(|(_, value)| value)
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let (line, after) = rest.split_at_checked(memchr::memchr(b'\n', rest)?)?;
        rest = after.get(1..)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// The status and the minor version.
fn status_line(line: &[u8]) -> Option<(StatusCode, u8)> {
    let (minor, rest) = match line.strip_prefix(b"HTTP/1.")? {
        [b'1', b' ', rest @ ..] => (1, rest),
        [b'0', b' ', rest @ ..] => (0, rest),
        _ => return None,
    };
    let (code, reason) = rest.split_at_checked(3)?;
    (reason.is_empty() || reason.starts_with(b" ")).then_some(())?;
    Some((StatusCode::from_bytes(code).ok()?, minor))
}

/// Name and value. A line that goes on the one before it has no name, and is refused.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
    let is_token = |byte: &u8| {
        byte.is_ascii_graphic()
            && !matches!(byte, b'"' | b'(' | b')' | b',' | b'/' | b'<' | b'=' | b'>' | b'?' | b'@' | b'[' | b'\\' | b']' | b'{' | b'}' | b';')
    };
    let is_text = |byte: &u8| !byte.is_ascii_control() || *byte == b'\t';
    let value = value.get(1..)?.trim_ascii();
    (!name.is_empty() && name.iter().all(is_token) && value.iter().all(is_text)).then_some((name, value))
}

/// Whether this word is in a list of words.
fn lists(value: &[u8], word: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|listed| listed.trim_ascii().eq_ignore_ascii_case(word))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digit = |number: u64, byte: &u8| number.checked_mul(10)?.checked_add(byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?);
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, digit))?
}

/// The line that opens a request and its headers, `Host` among them, without what depends on the body.
pub(crate) fn opening(method: &Method, path: &str, host: Option<&HeaderValue>, headers: &HeaderMap) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(host) = host.filter(|_| !headers.contains_key(HOST)) {
        line(&mut out, &HOST, host);
    }
    // How the body ends and whether the connection stays is said by whoever writes them.
    for (name, value) in headers.iter().filter(|(name, _)| ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name)) {
        line(&mut out, name, value);
    }
    out
}

/// One header.
pub(crate) fn line(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The end of a head, with the length of the body.
pub(crate) fn close(out: &mut Vec<u8>, body: usize) {
    out.extend_from_slice(b"content-length: ");
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = body;
    for (place, slot) in digits.iter_mut().enumerate().rev() {
        *slot = b'0' + (rest % 10) as u8;
        rest /= 10;
        start = place;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
    out.extend_from_slice(b"\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(head: &str) -> Result<(u16, Length, bool), &'static str> {
        assert_eq!(end(head.as_bytes(), 0), Some(head.len()), "{head:?}");
        read(head.as_bytes()).map(|head| (head.status.as_u16(), head.length, head.stays_open))
    }

    #[test]
    fn a_head_says_how_its_body_ends_and_whether_the_connection_stays() {
        use Length::{Chunked, Exactly, ToTheEnd};
        for (head, status, length, stays) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: application/json\r\n\r\n", 200, Exactly(12), true),
            ("HTTP/1.1 200\r\ncontent-length:  0 \r\n\r\n", 200, Exactly(0), true),
            ("HTTP/1.1 200 \r\nTRANSFER-ENCODING: Chunked\r\n\r\n", 200, Chunked, true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n", 200, Exactly(5), true),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", 200, Chunked, false),
            ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 1\r\n\r\n", 200, Exactly(1), false),
            ("HTTP/1.1 200 OK\r\nconnection: close\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\n", 200, Exactly(1), false),
            ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n", 200, Exactly(1), false),
            ("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\n", 200, Exactly(1), true),
            ("HTTP/1.1 200 OK\r\n\r\n", 200, ToTheEnd, false),
            ("HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n", 204, Exactly(0), true),
            ("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304, Exactly(0), true),
            ("HTTP/1.1 100 Continue\r\n\r\n", 100, Exactly(0), true),
            ("HTTP/1.1 200 OK\nContent-Length: 2\n\n", 200, Exactly(2), true),
            ("HTTP/1.1 200 Gr\u{fc}n\r\nx: \u{e9}\tz\r\nlength: 7\r\n\r\n", 200, ToTheEnd, false),
        ] {
            assert_eq!(said(head), Ok((status, length, stays)), "{head:?}");
        }
    }

    #[test]
    fn what_is_no_head_or_can_be_read_in_two_ways_is_refused() {
        for head in [
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.2 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "hello\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: b\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length : 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        ] {
            assert!(said(head).is_err(), "{head:?}");
        }
    }

    #[test]
    fn a_head_ends_at_its_empty_line_however_it_arrives() {
        let text = b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{}";
        for arrived in 0..text.len() {
            let seen = &text[..arrived];
            assert_eq!(end(seen, 0), (arrived >= 25).then_some(25), "{arrived}");
            assert_eq!(end(seen, arrived.saturating_sub(4)), (arrived == 25 || arrived == 26).then_some(25), "{arrived}");
        }
        assert_eq!(get(text, &HeaderName::from_static("a")), Some(&b"b"[..]));
        assert_eq!(get(text, &HeaderName::from_static("b")), None);
    }

    #[test]
    fn a_request_is_written_as_it_is_read() {
        let mut headers = HeaderMap::new();
        headers.insert("x-a", HeaderValue::from_static("1"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        for (length, text) in [(0, "0"), (7, "7"), (1024, "1024"), (usize::MAX, "18446744073709551615")] {
            let mut out = opening(&Method::POST, "/mcp?x=1", Some(&HeaderValue::from_static("t:1")), &headers);
            close(&mut out, length);
            assert_eq!(String::from_utf8(out).unwrap(), format!("POST /mcp?x=1 HTTP/1.1\r\nhost: t:1\r\nx-a: 1\r\ncontent-length: {text}\r\n\r\n"));
        }
        headers.insert(HOST, HeaderValue::from_static("own"));
        let out = opening(&Method::GET, "/", Some(&HeaderValue::from_static("t:1")), &headers);
        assert_eq!(String::from_utf8(out).unwrap(), "GET / HTTP/1.1\r\nx-a: 1\r\nhost: own\r\n");
    }
}
