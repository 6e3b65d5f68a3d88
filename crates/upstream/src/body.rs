//! Response bodies: whole and bounded, or event by event.

use crate::failure::Failure;
use crate::wire::ResponseBody;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use std::collections::VecDeque;
use transom_protocol::sse::{Decoder, Event};

/// The whole body, refused above `limit` bytes. A body of one piece is not copied.
pub(crate) async fn whole(mut body: ResponseBody, limit: usize) -> Result<Bytes, Failure> {
    let too_large = || Failure::Invalid(format!("a reply larger than {limit} bytes"));
    if let ResponseBody::Wired(wired) = &mut body
        && let Some(length) = wired.length()
    {
        let length = usize::try_from(length).ok().filter(|length| *length <= limit).ok_or_else(too_large)?;
        return wired.all(length).await;
    }
    let mut first = Bytes::new();
    let mut all: Option<BytesMut> = None;
    while let Some(piece) = piece(&mut body).await? {
        let so_far = all.as_ref().map_or(first.len(), BytesMut::len);
        if so_far + piece.len() > limit {
            return Err(too_large());
        }
        match &mut all {
            Some(all) => all.extend_from_slice(&piece),
            None if first.is_empty() => first = piece,
            None => {
                let mut joined = BytesMut::with_capacity((first.len() + piece.len()) * 2);
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&piece);
                all = Some(joined);
            }
        }
    }
    Ok(all.map_or(first, BytesMut::freeze))
}

async fn piece(body: &mut ResponseBody) -> Result<Option<Bytes>, Failure> {
    let body = match body {
        ResponseBody::Wired(wired) => return wired.piece().await,
        ResponseBody::Driven(body) => body,
    };
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(_)) => return Err(Failure::Lost("the connection broke while it answered".into())),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// A place in a stream that its server lets us come back to.
pub(crate) struct Bookmark {
    pub(crate) last: Bytes,
    pub(crate) retry: Option<std::time::Duration>,
}

/// A stream of server-sent events.
pub(crate) struct Events {
    body: ResponseBody,
    decoder: Decoder,
    ready: VecDeque<Event>,
}

impl Events {
    pub(crate) fn new(body: ResponseBody, limit: usize) -> Events {
        Events { body, decoder: Decoder::new(limit), ready: VecDeque::new() }
    }

    /// The next event; `None` at the end. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = piece(&mut self.body).await? else { return Ok(None) };
            let mut events = Vec::new();
            let read = self.decoder.push(&chunk, &mut events);
            self.ready.extend(events);
            if let Err(error) = read {
                return Err(Failure::Invalid(error.to_string()));
            }
        }
    }

    /// Where to go on if the stream ends too early, and how long to wait before that.
    pub(crate) fn bookmark(&self) -> Option<Bookmark> {
        Some(Bookmark { last: self.decoder.last_id()?.clone(), retry: self.decoder.retry().map(std::time::Duration::from_millis) })
    }

    /// What is left when the answer has come: usually nothing but the end, and reading it keeps the connection usable.
    pub(crate) fn finish(self, runtime: &tokio::runtime::Handle) {
        const LINGER: std::time::Duration = std::time::Duration::from_secs(1);
        let mut body = self.body;
        let end = async move {
            for _ in 0..16 {
                match piece(&mut body).await {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
        };
        let mut end = Box::pin(tokio::time::timeout(LINGER, end));
        use futures_util::FutureExt;
        if (&mut end).now_or_never().is_none() {
            runtime.spawn(end);
        }
    }
}
