//! Doors for the fuzzer, which looks at rooms that nobody else outside this crate sees. Nothing here is part of what the crate
//! offers, and nothing in the gateway uses it.

use crate::deadline::Deadline;
use crate::down::Down;
use crate::ears::Ears;
use crate::failure::Failure;
use crate::head::{self, Length};
use crate::ident::Ident;
use crate::inlet::Inlet;
use crate::lines::{Line, Lines};
use crate::mux::{Audience, Mux, Pipe};
use crate::outgoing;
use crate::road::Road;
use crate::spec::{EraChoice, Sessions, TargetSpec, Transport};
use crate::target::Host;
use crate::tuning::Tuning;
use crate::wire;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::Instant;

/// The lines of these reads; `None` for one beyond the limit. Also the largest buffer that was needed.
pub fn lines<'c>(chunks: impl IntoIterator<Item = &'c [u8]>, limit: usize) -> (Vec<Option<Bytes>>, usize) {
    let mut lines = Lines::new(limit);
    let (mut out, mut most) = (Vec::new(), 0);
    for chunk in chunks {
        lines.space().extend_from_slice(chunk);
        most = most.max(lines.space().len());
        while let Some(line) = lines.next() {
            out.push(match line {
                Line::Whole(line) => Some(line),
                Line::Overlong(_) => None,
            });
        }
        most = most.max(lines.space().len());
    }
    (out, most)
}

/// What the head of an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// One past its empty line.
    pub end: usize,
    /// The length of its body, if it says one.
    pub length: Option<u64>,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    /// Whether another request may follow.
    pub stays_open: bool,
}

/// How an answer over plain HTTP/1 was read: its head, and then the body and whether it ended. `None` while there is no whole head;
/// an error where it cannot be read.
pub type Read = Result<Option<(Head, Result<(Vec<u8>, bool), Unreadable>)>, Unreadable>;

/// It cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Reads an answer that arrives in these parts.
pub fn answer<'c>(parts: impl IntoIterator<Item = &'c [u8]>) -> Read {
    let mut parts = parts.into_iter();
    let (mut seen, mut looked_at) = (Vec::new(), 0usize);
    let end = loop {
        let Some(part) = parts.next() else { return Ok(None) };
        seen.extend_from_slice(part);
        match head::end(&seen, looked_at) {
            Some(end) => break end,
            // The end may have begun before what comes next.
            None => looked_at = seen.len().saturating_sub(3),
        }
    };
    let (first, rest) = seen.split_at_checked(end).ok_or(Unreadable)?;
    let said = head::read(first).map_err(|_| Unreadable)?;
    let body = wire::body_of(said.length, rest, parts).map_err(|_| Unreadable);
    let length = if let Length::Exactly(length) = said.length { Some(length) } else { None };
    let head = Head { status: said.status.as_u16(), end, length, chunked: said.length == Length::Chunked, stays_open: said.stays_open };
    Ok(Some((head, body)))
}

/// A multiplexer over a pipe.
pub struct Multiplexer(Arc<Mux>);

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With a result.
    Result(Bytes),
    /// With an error of the target.
    Error(Bytes),
    /// Nothing was sent.
    NotSent,
    /// The connection ended.
    Lost,
    /// Nobody answered in time.
    TimedOut,
    /// What came was no answer.
    Invalid,
}

/// What a multiplexer still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Requests that wait for an answer.
    pub waiting: usize,
    /// Requests nobody waits for any more, whose answers may still come.
    pub given_up: usize,
    /// Questions of the server that wait for an answer.
    pub questions: usize,
}

impl Multiplexer {
    /// One that writes to this pipe.
    pub fn new(pipe: pipe::Sender, host: Arc<dyn Host>) -> Multiplexer {
        let spec = TargetSpec {
            name: "t".into(),
            transport: Transport::Stdio { cmd: "t".into(), args: vec![], env: vec![], cwd: None, limits: Default::default() },
            era: EraChoice::Auto,
            sessions: Sessions::Shared,
            timeout: Duration::from_secs(1),
            allow_server_requests: false,
            aliases: vec![],
        };
        let audience = Audience { private: false, questions: false };
        let ears = Arc::new(Ears::new(&spec, host));
        Multiplexer(Mux::new(Pipe::Stdio(Inlet::of(pipe)), audience, ears, Down::new(), Arc::new(Tuning::default())))
    }

    /// Asks something: the identifier it goes out with, as JSON, and what to wait for.
    pub fn ask(&self, wait: Duration, cancels: bool) -> (Bytes, impl Future<Output = Ended> + use<>) {
        let (mux, ident) = (self.0.clone(), Ident::fresh());
        let body = outgoing::control(ident, "ping", "{}", transom_protocol::Era::Legacy);
        let asking = async move {
            match mux.ask(ident, body, Road::nowhere(ident), Deadline::after(wait), cancels).await {
                Ok(Ok(result)) => Ended::Result(result),
                Ok(Err(error)) => Ended::Error(error),
                Err(Failure::NotSent(_)) => Ended::NotSent,
                Err(Failure::TimedOut) => Ended::TimedOut,
                Err(Failure::Invalid(_)) => Ended::Invalid,
                Err(Failure::Lost(_) | Failure::Status { .. }) => Ended::Lost,
            }
        };
        (Bytes::copy_from_slice(&ident.json()), asking)
    }

    /// A message of the other side.
    pub fn incoming(&self, message: Bytes) {
        self.0.incoming(message);
    }

    /// A line too long to read, that began now.
    pub fn overlong(&self) {
        self.0.overlong(Instant::now());
    }

    /// The connection is over.
    pub fn close(&self) {
        self.0.close("over");
    }

    /// Writes what waits to be written, for ever.
    pub fn writer(&self) -> impl Future<Output = ()> + use<> {
        let mux = self.0.clone();
        async move {
            if let Some(inlet) = mux.inlet() {
                inlet.run(Duration::from_secs(3600)).await;
            }
        }
    }

    /// What it holds.
    pub fn held(&self) -> Held {
        self.0.held()
    }
}
