//! Replies: what came of a message, as HTTP and as a client of its era reads it.

use crate::authenticate::validity::Validity;
use crate::listener::body::ReplyBody;
use crate::listener::claims::settled;
use crate::replay::Reader;
use crate::reply::{Failure, Reject};
use crate::session::{Answer, Listening};
use crate::virtualize::Listed;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use std::collections::VecDeque;
use std::time::Duration;
use transom_protocol::json::{Json, Key};
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, Id, Method, meta, result_type, sse};

/// How often an idle stream says that it is alive.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A reply.
pub type Reply = Response<ReplyBody>;

/// How an answer may be written.
pub struct Form {
    /// The client's id.
    pub id: Option<Id>,
    /// Which era reads it.
    pub era: Era,
    /// What it answers.
    pub method: Method,
    /// Whether one JSON message will do.
    pub json: bool,
    /// Whether an event stream will do.
    pub events: bool,
}

/// The whole message that ends a call.
pub fn outcome_message(done: Result<Bytes, Failure>, form: &Form) -> Bytes {
    let id = form.id.as_ref().map(Id::raw);
    match done {
        Ok(result) => write::result(id.unwrap_or(b"null"), &for_era(&settled(result, form.era, form.method), form.era, form.method)),
        Err(failure) => write::error(id, &failure.rpc()),
    }
}

/// The reply to a call that needed no stream.
pub fn finished(done: Result<Bytes, Failure>, form: &Form) -> Reply {
    match done {
        Ok(_) => one_message(outcome_message(done, form), form),
        Err(failure) => failed_in(&failure, form),
    }
}

/// A result as a client of this era reads it: modern ones carry `resultType` (and freshness where the protocol asks for
/// it), legacy ones do not.
pub fn for_era(result: &Bytes, era: Era, method: Method) -> Bytes {
    let typed = result_type(result).is_some();
    let object = || Json::trusted(std::str::from_utf8(result).unwrap_or("{}"));
    let keep_all = |_: Key<'_>, _: Json<'_>| Edit::Keep;
    match era {
        Era::Legacy if !typed => result.clone(),
        Era::Legacy => {
            let drop = |key: Key<'_>, _: Json<'_>| if matches!(key.raw(), "resultType" | "ttlMs" | "cacheScope") { Edit::Drop } else { Edit::Keep };
            write::edited(object(), drop, &[]).into()
        }
        Era::Modern => {
            let mut added: Vec<(&str, &[u8])> = Vec::new();
            if !typed {
                added.push(("resultType", b"\"complete\""));
            }
            if method == Method::ReadResource {
                if object().get("ttlMs").is_none() {
                    added.push(("ttlMs", b"0"));
                }
                if object().get("cacheScope").is_none() {
                    added.push(("cacheScope", b"\"private\""));
                }
            }
            match added.as_slice() {
                [] => result.clone(),
                // The usual case: one member in front, the rest as it came.
                [("resultType", _)] if result.len() > 2 && result.starts_with(b"{\"") => {
                    [&b"{\"resultType\":\"complete\","[..], result.get(1..).unwrap_or(&[])].concat().into()
                }
                added => write::edited(object(), keep_all, added).into(),
            }
        }
    }
}

/// A list result, in pieces.
pub fn list_pieces(listed: Listed) -> [Bytes; 3] {
    let degraded = if listed.degraded.is_empty() {
        String::new()
    } else {
        let names: Vec<String> = listed.degraded.iter().map(|name| write::quoted(name)).collect();
        format!("\"dev.transom/unavailable\":[{}]", names.join(","))
    };
    let tail = match listed.era {
        Era::Legacy if degraded.is_empty() => Bytes::from_static(b"}"),
        Era::Legacy => format!(",\"_meta\":{{{degraded}}}}}").into(),
        Era::Modern => {
            let comma = if degraded.is_empty() { "" } else { "," };
            let info = crate::session::SERVER_INFO;
            let shared = if listed.public { "public" } else { "private" };
            format!(
                ",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"{shared}\",\"_meta\":{{\"{}\":{info}{comma}{degraded}}}}}",
                meta::SERVER_INFO
            )
            .into()
        }
    };
    [Bytes::from_static(b"{"), listed.body, tail]
}

/// The reply to a list.
pub fn listing(listed: Listed, form: &Form) -> Reply {
    let [open, body, tail] = list_pieces(listed);
    let id = form.id.as_ref().map_or(&b"null"[..], Id::raw);
    let head = [b"{\"jsonrpc\":\"2.0\",\"id\":", id, b",\"result\":", &open].concat();
    let tail = [&tail[..], b"}"].concat();
    if form.json {
        return with_type(StatusCode::OK, "application/json", ReplyBody::pieces([head.into(), body, tail.into()]));
    }
    one_message([&head[..], &body, &tail].concat().into(), form)
}

/// The reply to a message that ends at the gateway.
pub fn answered(answer: Answer, form: &Form) -> Reply {
    let id = form.id.as_ref().map_or(&b"null"[..], Id::raw);
    match answer {
        Answer::Result(result) => one_message(write::result(id, &for_era(&result, form.era, form.method)), form),
        Answer::Session(result, token) => {
            let mut reply = one_message(write::result(id, &result), form);
            if let Ok(token) = HeaderValue::from_str(&token) {
                reply.headers_mut().insert("mcp-session-id", token);
            }
            reply
        }
        // Tasks were asked for one by one before they came here.
        Answer::Accepted | Answer::Tasks(_) => status(StatusCode::ACCEPTED),
        Answer::Ended => status(StatusCode::OK),
        Answer::Stream(listening) => listen(listening),
        Answer::Replay(reader, validity) => read_out(reader, Some(validity)),
    }
}

/// An open stream: what opens it, what comes, and the end if it is ours.
fn listen(listening: Listening) -> Reply {
    struct Open {
        listening: Listening,
        ready: VecDeque<Bytes>,
        ended: bool,
        alive: tokio::time::Interval,
    }
    let first = listening.first.as_ref().map_or(sse::KEEP_ALIVE, |first| sse::event(first));
    let alive = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    let open = Open { listening, ready: VecDeque::from([first]), ended: false, alive };
    open_stream(futures_util::stream::unfold(open, |mut open| async move {
        if let Some(chunk) = open.ready.pop_front() {
            return Some((chunk, open));
        }
        if open.ended {
            return None;
        }
        let message = tokio::select! {
            biased;
            () = open.listening.validity.over() => None,
            message = open.listening.stream.next() => message,
            _ = open.alive.tick() => return Some((sse::KEEP_ALIVE, open)),
        };
        let chunk = match message {
            Some(message) => sse::event(&message),
            None => {
                open.ended = true;
                let last = open.listening.last.take();
                last.map_or_else(|| Bytes::from_static(b": the server closed this stream\n\n"), |last| sse::event(&last))
            }
        };
        Some((chunk, open))
    }))
}

/// A call's stream from where its reader stands, to its end.
pub fn read_out(reader: Reader, validity: Option<Validity>) -> Reply {
    let alive = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    event_stream(futures_util::stream::unfold((reader, validity, alive), |(mut reader, mut validity, mut alive)| async move {
        let over = async {
            match &mut validity {
                Some(validity) => validity.over().await,
                None => std::future::pending().await,
            }
        };
        let chunk = tokio::select! {
            biased;
            () = over => None,
            event = reader.next() => event,
            _ = alive.tick() => Some(sse::KEEP_ALIVE),
        };
        Some((chunk?, (reader, validity, alive)))
    }))
}

fn one_message(message: Bytes, form: &Form) -> Reply {
    if form.json { json(StatusCode::OK, message) } else { with_type(StatusCode::OK, "text/event-stream", ReplyBody::full(sse::event(&message))) }
}

/// A failure as the client reads it.
pub fn failed(failure: &Failure, era: Era, id: Option<&Id>) -> Reply {
    let mut reply = json(failure.status(era), write::error(id.map(Id::raw), &failure.rpc()));
    advise(&mut reply, failure);
    reply
}

/// A failure in the form that the client accepts. A status of its own says all that a client needs which cannot read the rest.
pub fn failed_in(failure: &Failure, form: &Form) -> Reply {
    if form.json || failure.status(form.era) != StatusCode::OK {
        return failed(failure, form.era, form.id.as_ref());
    }
    let mut reply = one_message(write::error(form.id.as_ref().map(Id::raw), &failure.rpc()), form);
    advise(&mut reply, failure);
    reply
}

/// Tells a client in headers what to do next: when to come back, how to get credentials, whether to go on with this connection.
pub fn advise(reply: &mut Reply, failure: &Failure) {
    let is_told = reply.status() != StatusCode::OK || matches!(failure, Failure::Limited { .. });
    if let Some(after) = failure.retry_after().filter(|_| is_told) {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    if let Some(challenge) = failure.challenge() {
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    if matches!(failure.reason(), Some(Reject::Draining | Reject::BodyTooLarge | Reject::BodyTimeout | Reject::Framing)) {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// `405` with what is allowed.
pub fn not_allowed(message: &str, allow: &'static str) -> Reply {
    let mut reply = failed(&Failure::rejected(Reject::MethodNotAllowed, message), Era::Legacy, None);
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    reply
}

/// A JSON reply.
pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    with_type(status, "application/json", ReplyBody::full(body))
}

/// An empty reply.
pub fn status(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::full(Bytes::new()));
    *reply.status_mut() = status;
    reply
}

/// A reply of this type.
pub fn with_type(status: StatusCode, kind: &'static str, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// A reply that is a stream of events.
pub fn event_stream(chunks: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Reply {
    events(ReplyBody::stream(chunks))
}

/// A reply that is a stream of events without an end in sight.
pub fn open_stream(chunks: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Reply {
    events(ReplyBody::lasting(chunks))
}

fn events(body: ReplyBody) -> Reply {
    let mut reply = with_type(StatusCode::OK, "text/event-stream", body);
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    reply.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}
