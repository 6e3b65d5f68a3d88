//! One plain HTTP/1 connection, driven by whoever uses it.
//!
//! A call is written, read and answered where it was made: no task of its own, no channel, no wake-up between threads. The
//! request goes out in one write, a body that came with its head is handed on without a copy. Between calls a connection
//! rests in its pool and is looked at when it is taken again.

use crate::failure::Failure;
use crate::head::{self, Length};
use crate::http_client::{Pool, describe, lost, not_sent};
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

/// There is always room for this much before a read.
const ROOM: usize = 4 << 10;
/// What is made room for when there is too little.
const BUFFER: usize = 8 << 10;
/// Room for a large body is made in steps: a length is a promise.
const STEP: u64 = 1 << 20;
/// The longest line of a chunked body that is no data, and the longest of its trailers.
const LONGEST_LINE: usize = 4 << 10;
const TRAILERS: usize = 16 << 10;

pub(crate) struct Wire {
    stream: TcpStream,
    /// What was read and nobody has taken.
    fresh: BytesMut,
    /// What is left of a request whose answer came before it was written.
    unwritten: Bytes,
}

/// How sending a request can fail.
pub(crate) enum Unanswered {
    /// Not a byte was written.
    Unsent(Failure),
    Lost(Failure),
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire { stream, fresh: BytesMut::new(), unwritten: Bytes::new() }
    }

    /// Whether it can take a request: open, and with nothing on it that nobody asked for.
    pub(crate) fn is_ready(&self) -> bool {
        let mut byte = [0];
        self.unwritten.is_empty() && matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the head of the response.
    pub(crate) fn send<'w>(&'w mut self, head: &'w [u8], body: &'w [u8]) -> Sending<'w> {
        Sending { wire: self, head, body, written: 0, broken: None, looked: 0 }
    }

    /// Reads what is there; nothing is the end. Whatever is left of the request is written beside it.
    fn poll_fill(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        while !self.unwritten.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.unwritten) {
                Poll::Ready(Ok(count)) if count > 0 => self.unwritten.advance(count),
                // The answer may come all the same.
                Poll::Ready(_) | Poll::Pending => break,
            }
        }
        if self.fresh.capacity() - self.fresh.len() < room {
            self.fresh.reserve(room.max(BUFFER));
        }
        // Holds nothing between polls, so that one is made for each.
        pin!(self.stream.read_buf(&mut self.fresh)).poll(cx)
    }
}

/// A request on its way.
pub(crate) struct Sending<'w> {
    wire: &'w mut Wire,
    head: &'w [u8],
    body: &'w [u8],
    written: usize,
    /// Why no more can be written. A server that has had enough may have said why.
    broken: Option<io::Error>,
    /// How much of the answer was searched for the end of its head.
    looked: usize,
}

impl Sending<'_> {
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), Unanswered> {
        while self.broken.is_none() && self.written < self.head.len() + self.body.len() {
            let head = self.head.get(self.written..).unwrap_or_default();
            let body = self.body.get(self.written.saturating_sub(self.head.len())..).unwrap_or_default();
            match Pin::new(&mut self.wire.stream).poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(body)]) {
                Poll::Ready(Ok(count)) if count > 0 => self.written += count,
                Poll::Ready(result) => {
                    let error = result.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    if self.written == 0 {
                        return Err(Unanswered::Unsent(not_sent(&describe(&error))));
                    }
                    self.broken = Some(error);
                }
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Keeps for later what the answer did not wait for.
    fn set_aside(&mut self) {
        let rest = |part: &[u8], from: usize| part.get(from..).unwrap_or_default().to_vec();
        if self.written < self.head.len() + self.body.len() {
            let mut unwritten = rest(self.head, self.written);
            unwritten.extend(rest(self.body, self.written.saturating_sub(self.head.len())));
            self.wire.unwritten = unwritten.into();
        }
    }
}

impl Future for Sending<'_> {
    type Output = Result<(head::Head, Bytes), Unanswered>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.poll_write(cx)?;
        loop {
            if let Some(end) = head::end(&this.wire.fresh, this.looked) {
                let text = this.wire.fresh.split_to(end).freeze();
                this.looked = 0;
                let head = head::read(&text).map_err(|what| Unanswered::Lost(Failure::Invalid(what.into())))?;
                match head.status {
                    StatusCode::SWITCHING_PROTOCOLS => {
                        return Poll::Ready(Err(Unanswered::Lost(Failure::Invalid("another protocol, unasked".into()))));
                    }
                    // Something else will follow.
                    status if status.is_informational() => continue,
                    _ => {}
                }
                this.set_aside();
                return Poll::Ready(Ok((head, text)));
            }
            if this.wire.fresh.len() > head::LONGEST {
                return Poll::Ready(Err(Unanswered::Lost(Failure::Invalid("a head that does not end".into()))));
            }
            this.looked = this.wire.fresh.len().saturating_sub(3);
            let failed = match ready!(this.wire.poll_fill(cx, ROOM)) {
                Ok(0) => "closed before it answered".to_owned(),
                Ok(_) => continue,
                Err(error) => describe(&error),
            };
            let reason = this.broken.as_ref().map_or(failed, describe);
            return Poll::Ready(Err(Unanswered::Lost(lost(&reason))));
        }
    }
}

/// The answer to a request: its head, and the body as it comes.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    headers: Headers,
    pub(crate) body: ResponseBody,
}

enum Headers {
    /// As written.
    Text(Bytes),
    Map(HeaderMap),
}

impl Response {
    pub(crate) fn wired(head: head::Head, text: Bytes, wire: Wire, pool: Arc<Pool>) -> Response {
        let body = Wired { rest: head.length.into(), reusable: head.stays_open, wire: Some(wire), pool };
        Response { status: head.status, headers: Headers::Text(text), body: ResponseBody::Wired(body) }
    }

    pub(crate) fn driven(response: http::Response<hyper::body::Incoming>) -> Response {
        let (parts, body) = response.into_parts();
        Response { status: parts.status, headers: Headers::Map(parts.headers), body: ResponseBody::Driven(body) }
    }

    /// The value of a header; nothing if there is none.
    pub(crate) fn header(&self, name: &HeaderName) -> &[u8] {
        match &self.headers {
            Headers::Text(head) => head::get(head, name).unwrap_or_default(),
            Headers::Map(headers) => headers.get(name).map_or(&[], HeaderValue::as_bytes),
        }
    }
}

/// The body of a response.
pub(crate) enum ResponseBody {
    /// Together with the connection it comes on.
    Wired(Wired),
    /// Somebody else drives the connection.
    Driven(hyper::body::Incoming),
}

pub(crate) struct Wired {
    rest: Rest,
    reusable: bool,
    /// Goes back to its pool at the end of the body; dropped before that, the connection is closed.
    wire: Option<Wire>,
    pool: Arc<Pool>,
}

/// What is still to come of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Exactly(u64),
    ToTheEnd,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers(usize),
    Nothing,
}

impl From<Length> for Rest {
    fn from(length: Length) -> Rest {
        match length {
            Length::Exactly(length) => Rest::Exactly(length),
            Length::Chunked => Rest::ChunkSize,
            Length::ToTheEnd => Rest::ToTheEnd,
        }
    }
}

impl Wired {
    /// How much is to come, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.rest {
            Rest::Exactly(length) => Some(length),
            _ => None,
        }
    }

    /// All of a body whose length is known, in one piece.
    pub(crate) async fn all(&mut self, length: usize) -> Result<Bytes, Failure> {
        let Some(wire) = &mut self.wire else { return Ok(Bytes::new()) };
        while wire.fresh.len() < length {
            let missing = (length - wire.fresh.len()).min(STEP as usize);
            if poll_fn(|cx| wire.poll_fill(cx, missing)).await.map_err(|_| broke())? == 0 {
                return Err(broke());
            }
        }
        let all = wire.fresh.split_to(length).freeze();
        self.finish();
        Ok(all)
    }

    /// The next piece, as large as it came; `None` at the end. May be dropped while it waits.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let Some(wire) = &mut self.wire else { return Ok(None) };
            match take(&mut wire.fresh, &mut self.rest)? {
                Taken::Piece(piece) => return Ok(Some(piece)),
                Taken::End => {
                    self.finish();
                    return Ok(None);
                }
                Taken::More => {}
            }
            let read = poll_fn(|cx| wire.poll_fill(cx, ROOM)).await.map_err(|_| broke())?;
            if read == 0 && self.rest == Rest::ToTheEnd {
                self.rest = Rest::Nothing;
            } else if read == 0 {
                return Err(broke());
            }
        }
    }

    /// The body is over: the connection is free, if the other side and what is left on it allow that.
    fn finish(&mut self) {
        self.rest = Rest::Nothing;
        if let Some(wire) = self.wire.take()
            && self.reusable
            && wire.fresh.is_empty()
        {
            self.pool.give_back(wire);
        }
    }
}

fn broke() -> Failure {
    Failure::Lost("the connection broke while it answered".into())
}

#[derive(Debug, PartialEq, Eq)]
enum Taken {
    Piece(Bytes),
    End,
    /// Nothing until more is read.
    More,
}

/// What can be taken out of what was read.
fn take(fresh: &mut BytesMut, rest: &mut Rest) -> Result<Taken, Failure> {
    let garbled = || Failure::Invalid("a chunked body that cannot be read".into());
    loop {
        match *rest {
            Rest::Nothing | Rest::Exactly(0) => return Ok(Taken::End),
            Rest::Exactly(_) | Rest::Chunk(_) | Rest::ToTheEnd if fresh.is_empty() => return Ok(Taken::More),
            Rest::ToTheEnd => return Ok(Taken::Piece(fresh.split().freeze())),
            Rest::Exactly(left) => {
                let piece = up_to(fresh, left);
                *rest = Rest::Exactly(left - piece.len() as u64);
                return Ok(Taken::Piece(piece));
            }
            Rest::Chunk(left) => {
                let piece = up_to(fresh, left);
                let left = left - piece.len() as u64;
                *rest = if left == 0 { Rest::ChunkEnd } else { Rest::Chunk(left) };
                return Ok(Taken::Piece(piece));
            }
            Rest::ChunkSize => {
                let Some(line) = line(fresh).map_err(|()| garbled())? else { return Ok(Taken::More) };
                *rest = match chunk_size(&line).ok_or_else(garbled)? {
                    0 => Rest::Trailers(0),
                    size => Rest::Chunk(size),
                };
            }
            Rest::ChunkEnd => match line(fresh).map_err(|()| garbled())? {
                None => return Ok(Taken::More),
                Some(line) if line.is_empty() => *rest = Rest::ChunkSize,
                Some(_) => return Err(garbled()),
            },
            Rest::Trailers(before) => match line(fresh).map_err(|()| garbled())? {
                None => return Ok(Taken::More),
                Some(line) if line.is_empty() => *rest = Rest::Nothing,
                Some(line) if before + line.len() <= TRAILERS => *rest = Rest::Trailers(before + line.len() + 2),
                Some(_) => return Err(garbled()),
            },
        }
    }
}

fn up_to(fresh: &mut BytesMut, most: u64) -> Bytes {
    let length = usize::try_from(most).map_or(fresh.len(), |most| most.min(fresh.len()));
    fresh.split_to(length).freeze()
}

/// The next line without its end, if all of it is there; an error if it is too long or ends in a line feed alone.
fn line(fresh: &mut BytesMut) -> Result<Option<BytesMut>, ()> {
    let Some(end) = memchr::memchr(b'\n', fresh) else { return if fresh.len() > LONGEST_LINE { Err(()) } else { Ok(None) } };
    let mut line = fresh.split_to(end + 1);
    if end > LONGEST_LINE || end.checked_sub(1).and_then(|last| line.get(last)) != Some(&b'\r') {
        return Err(());
    }
    line.truncate(end - 1);
    Ok(Some(line))
}

/// The number that opens a chunk; what may follow it after a semicolon means nothing to us.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    digits.iter().try_fold(0, |size, byte| Some(size << 4 | u64::from(char::from(*byte).to_digit(16)?)))
}

/// For the fuzzer: the body after a head, in what was read with it and what arrives in these parts, and whether it ended.
pub(crate) fn body_of<'c>(length: Length, first: &[u8], parts: impl Iterator<Item = &'c [u8]>) -> Result<(Vec<u8>, bool), Failure> {
    let (mut fresh, mut body, mut rest) = (BytesMut::from(first), Vec::new(), Rest::from(length));
    let mut parts = parts.fuse();
    loop {
        match take(&mut fresh, &mut rest)? {
            Taken::Piece(piece) => body.extend_from_slice(&piece),
            Taken::End => return Ok((body, true)),
            Taken::More => match parts.next() {
                Some(part) => fresh.extend_from_slice(part),
                None => return Ok((body, false)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body in what arrives in parts of this size, and whether it ended.
    fn body(text: &[u8], part: usize, mut rest: Rest) -> Result<(Vec<u8>, bool), Failure> {
        let (mut fresh, mut body) = (BytesMut::new(), Vec::new());
        for part in text.chunks(part) {
            fresh.extend_from_slice(part);
            loop {
                match take(&mut fresh, &mut rest)? {
                    Taken::Piece(piece) => {
                        assert!(!piece.is_empty());
                        body.extend_from_slice(&piece);
                    }
                    Taken::End => return Ok((body, true)),
                    Taken::More => break,
                }
            }
        }
        Ok((body, false))
    }

    #[test]
    fn a_body_is_the_same_however_it_arrives() {
        for part in [1, 2, 3, 7, 1000] {
            for (text, whole, ended) in [
                ("5\r\nhello\r\n0\r\n\r\n", "hello", true),
                ("5;x=\"y\"\r\nhello\r\n00A \r\n 1234567\n\r\r\n0\r\nTrailer: x\r\n\r\n", "hello 1234567\n\r", true),
                ("5\r\nhel", "hel", false),
                ("5\r\nhello\r\n0\r\n\r", "hello", false),
            ] {
                assert_eq!(body(text.as_bytes(), part, Rest::ChunkSize).unwrap(), (whole.as_bytes().to_vec(), ended), "{text:?} by {part}");
            }
            assert_eq!(body(b"hello", part, Rest::Exactly(5)).unwrap(), (b"hello".to_vec(), true));
            assert_eq!(body(b"hello", part, Rest::Exactly(6)).unwrap(), (b"hello".to_vec(), false));
            assert_eq!(body(b"hello", part, Rest::ToTheEnd).unwrap(), (b"hello".to_vec(), false));
        }
    }

    #[test]
    fn a_chunk_that_can_be_read_in_two_ways_is_refused() {
        for text in [
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhelloworld\r\n",
            "+5\r\nhello\r\n",
            "0x5\r\nhello\r\n",
            "\r\n",
            ";x\r\n",
            "1000000000000000\r\n",
            " 5\r\nhello\r\n",
        ] {
            for part in [1, 1000] {
                assert!(body(text.as_bytes(), part, Rest::ChunkSize).is_err(), "{text:?}");
            }
        }
        assert!(body(&[b'1'; LONGEST_LINE + 2], 100, Rest::ChunkSize).is_err());
        let endless = format!("0\r\n{}", "x: y\r\n".repeat(TRAILERS));
        assert!(body(endless.as_bytes(), 100, Rest::ChunkSize).is_err());
    }

    /// A server that answers each connection with these bytes, in parts, once it has read a head; then it closes or stays.
    async fn server(answers: &'static [(&'static [&'static str], bool)]) -> (http::Uri, tokio::task::JoinHandle<Vec<String>>) {
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let served = tokio::spawn(async move {
            let mut requests = Vec::new();
            let mut kept = None;
            for (answer, closes) in answers {
                let mut stream = match kept.take() {
                    Some(stream) => stream,
                    None => listener.accept().await.unwrap().0,
                };
                let mut request = BytesMut::with_capacity(4096);
                while head::end(&request, 0).is_none() {
                    assert!(stream.read_buf(&mut request).await.unwrap() > 0, "no request came");
                }
                requests.push(String::from_utf8(request.to_vec()).unwrap());
                for part in *answer {
                    stream.write_all(part.as_bytes()).await.unwrap();
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                kept = (!closes).then_some(stream);
            }
            requests
        });
        (url, served)
    }

    async fn post(client: &crate::http_client::HttpClient, url: &http::Uri, body: &'static [u8]) -> Result<(u16, Bytes), Failure> {
        let letterhead = crate::http_client::Letterhead::new(url, HeaderMap::new());
        let response = client.post(&letterhead, Vec::new(), &Bytes::from_static(body)).await?;
        let status = response.status.as_u16();
        Ok((status, crate::body::whole(response.body, 100).await?))
    }

    #[tokio::test]
    async fn answers_are_read_however_they_come_and_the_connection_is_used_again_where_it_may_be() {
        let (url, served) = server(&[
            (&["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst"], false),
            (&["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 ", "200 OK\r\nContent-Len", "gth: 6\r\n\r", "\nsec", "ond"], false),
            (&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nthi", "\r\n2\r", "\nrd\r\n0\r\n\r\n"], false),
            (&["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 6\r\n\r\nfourth"], true),
            (&["HTTP/1.0 200 OK\r\n\r\nfi", "fth"], true),
            // A connection that the server closes while it rests is replaced without a word.
            (&["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsixth"], true),
            (&["HTTP/1.1 204 No Content\r\n\r\n"], false),
        ])
        .await;
        let client = crate::http_client::HttpClient::new(&url, None).unwrap();
        for (status, body) in [(200, "first"), (200, "second"), (200, "third"), (200, "fourth"), (200, "fifth"), (200, "sixth"), (204, "")] {
            assert_eq!(post(&client, &url, b"{}").await.unwrap(), (status, Bytes::from(body)));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let requests = served.await.unwrap();
        assert!(requests.iter().all(|request| request.starts_with("POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:")), "{requests:?}");
        assert!(requests.iter().all(|request| request.ends_with("\r\ncontent-length: 2\r\n\r\n{}")), "{requests:?}");
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_or_is_too_large_is_an_error_and_ends_its_connection() {
        let (url, _served) = server(&[
            (&["HTTP/1.1 200 OK\r\ncontent-le"], true),
            (&["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfir"], true),
            (&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nthi"], true),
            (&["HTTP/1.1 101 Switching Protocols\r\n\r\n"], true),
            (&["HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n"], true),
            (&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok, and more than was said"], true),
            (&["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nnew"], true),
        ])
        .await;
        let client = crate::http_client::HttpClient::new(&url, None).unwrap();
        for lost in [true, true, true, false, false] {
            let failure = post(&client, &url, b"{}").await.unwrap_err();
            assert_eq!(matches!(failure, Failure::Lost(_)), lost, "{failure:?}");
            assert!(lost || matches!(failure, Failure::Invalid(_)), "{failure:?}");
        }
        assert_eq!(post(&client, &url, b"{}").await.unwrap().1, "ok");
        assert_eq!(post(&client, &url, b"{}").await.unwrap().1, "new");
    }

    #[tokio::test]
    async fn an_answer_that_does_not_wait_for_the_request_is_heard_and_the_request_goes_on() {
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: http::Uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let body = Bytes::from(vec![b'x'; 16 << 20]);
        let served = tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap().0;
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
            let (mut read, mut buffer) = (0, BytesMut::new());
            while read < 16 << 20 {
                buffer.clear();
                read += stream.read_buf(&mut buffer).await.unwrap();
            }
            stream.write_all(b"4\r\ndone\r\n0\r\n\r\n").await.unwrap();
        });
        let client = crate::http_client::HttpClient::new(&url, None).unwrap();
        let letterhead = crate::http_client::Letterhead::new(&url, HeaderMap::new());
        let response = client.post(&letterhead, Vec::new(), &body).await.unwrap();
        assert_eq!(crate::body::whole(response.body, 100).await.unwrap(), "done");
        served.await.unwrap();
    }
}
