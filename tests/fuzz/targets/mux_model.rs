//! The multiplexer against a model of it: each byte is something that happens (a call, an answer, a lie, a caller who leaves, a
//! connection that ends or is replaced). Every call ends exactly once and as the model says, no two have an identifier in common,
//! a target hears of a caller who left, and in the end the books are empty.
//!
//! Futures are polled by hand, so what happens when is decided by the input alone.

use bytes::Bytes;
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::net::unix::pipe;
use transom_upstream::Host;
use transom_upstream::fuzzing::{Ended, Held, Multiplexer};

/// More calls than that at once show nothing new.
const CALLS: usize = 24;
/// Answers a multiplexer remembers that nobody waits for.
const REMEMBERED: usize = 1024;

struct Nobody;
impl Host for Nobody {
    fn changed(&self) {}
    fn resource_updated(&self, _: &str, _: Bytes) {}
    fn connected(&self, _: &str, _: bool) {}
    fn lost(&self, _: &str) {}
    fn protocol_error(&self, _: &str, _: &'static str) {}
}

/// One connection: the real one, and what the other side has read of it.
struct Connection {
    mux: Multiplexer,
    writer: Pin<Box<dyn Future<Output = ()>>>,
    reader: pipe::Receiver,
    heard: Vec<u8>,
    closed: bool,
}

struct Call {
    connection: usize,
    ident: Bytes,
    cancels: bool,
    /// Its time is up when the story is over.
    hasty: bool,
    /// `None` once the caller has left.
    asking: Option<Pin<Box<dyn Future<Output = Ended>>>>,
    /// What the model says it ended with; `None` while it waits.
    expected: Option<Ended>,
    /// What it did end with.
    ended: Option<Ended>,
    /// The other side must hear that nobody waits.
    cancelled: bool,
}

struct World {
    connections: Vec<Connection>,
    calls: Vec<Call>,
}

pub fn run(bytes: &[u8]) {
    std::thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    }
    RUNTIME.with(|runtime| runtime.block_on(story(bytes)));
}

async fn story(bytes: &[u8]) {
    let mut world = World { connections: vec![Connection::new()], calls: Vec::new() };
    let mut bytes = bytes.iter().copied();
    while let Some(what) = bytes.next() {
        let which = usize::from(bytes.next().unwrap_or(0));
        world.happens(what, which);
        world.settle();
    }
    world.end().await;
}

impl Connection {
    fn new() -> Connection {
        let (sender, reader) = pipe::pipe().expect("a pipe can be made");
        let mux = Multiplexer::new(sender, Arc::new(Nobody));
        let writer = Box::pin(mux.writer());
        Connection { mux, writer, reader, heard: Vec::new(), closed: false }
    }
}

impl Call {
    fn waits(&self) -> bool {
        self.expected.is_none()
    }
}

impl World {
    fn happens(&mut self, what: u8, which: usize) {
        let newest = self.connections.len() - 1;
        match what % 16 {
            0..=2 => self.call(newest, which),
            // An answer, right or wrong, to whichever call: it may have ended long ago.
            3 | 4 => {
                self.answer(which, |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":{which}}}}}"#), Some(Ok(format!("{{\"n\":{which}}}"))))
            }
            5 => self.answer(which, |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1}}}}"#), Some(Err(r#"{"code":1}"#.into()))),
            6 => self.answer(which, |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#), None),
            7 => self.leave(which),
            8 => self.overlong(which),
            // Nothing of this ends a call.
            9 => self.say(which, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.into()),
            10 => self.say(which, format!(r#"{{"jsonrpc":"2.0","id":"{:032x}","result":{{}}}}"#, which)),
            11 => self.say(which, "no JSON at all".into()),
            12 => {
                let token = self.calls.get(which % self.calls.len().max(1)).map_or_else(|| "1".to_owned(), |call| text(&call.ident));
                self.say(
                    which,
                    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#),
                );
            }
            13 => self.say(
                which,
                format!(r#"{{"jsonrpc":"2.0","id":{which},"method":"{}"}}"#, if which.is_multiple_of(2) { "ping" } else { "sampling/createMessage" }),
            ),
            14 => self.close(which % self.connections.len()),
            // A new connection takes over; calls of the old one go on.
            _ if self.connections.len() < 4 => self.connections.push(Connection::new()),
            _ => {}
        }
    }

    fn call(&mut self, connection: usize, which: usize) {
        if self.calls.iter().filter(|call| call.waits()).count() >= CALLS || self.calls.len() >= 4 * CALLS {
            return;
        }
        let cancels = which.is_multiple_of(2);
        // No clock is looked at before the story is over: until then it waits like any other. Waiting for the clock takes
        // longer than all the rest, so it is rare.
        let hasty = which % 64 >= 62;
        let wait = if hasty { Duration::ZERO } else { Duration::from_secs(3600) };
        let Connection { mux, closed, .. } = &self.connections[connection];
        let (ident, asking) = mux.ask(wait, cancels);
        let expected = closed.then_some(Ended::NotSent);
        self.calls.push(Call { connection, ident, cancels, hasty, asking: Some(Box::pin(asking)), expected, ended: None, cancelled: false });
        // It begins when it is polled first: that is now.
        self.settle();
    }

    /// Something with the identifier of a call, on its own connection.
    fn answer(&mut self, which: usize, message: impl Fn(&str) -> String, outcome: Option<Result<String, String>>) {
        if self.calls.is_empty() {
            return;
        }
        let at = which % self.calls.len();
        let call = &mut self.calls[at];
        let message = message(&text(&call.ident));
        self.connections[call.connection].mux.incoming(message.into());
        if call.waits() {
            call.expected = Some(match outcome {
                Some(Ok(result)) => Ended::Result(result.into()),
                Some(Err(error)) => Ended::Error(error.into()),
                // It cannot be read, and it names the call.
                None => Ended::Invalid,
            });
        }
    }

    fn say(&mut self, which: usize, message: String) {
        let at = which % self.connections.len();
        self.connections[at].mux.incoming(message.into());
    }

    fn leave(&mut self, which: usize) {
        if self.calls.is_empty() {
            return;
        }
        let at = which % self.calls.len();
        let call = &mut self.calls[at];
        call.asking = None;
        if call.waits() {
            call.expected = Some(Ended::Lost);
            call.cancelled = call.cancels;
        }
    }

    /// Whoever waits on this connection may wait for the line that was too long.
    fn overlong(&mut self, which: usize) {
        let at = which % self.connections.len();
        self.connections[at].mux.overlong();
        for call in self.calls.iter_mut().filter(|call| call.connection == at && call.waits()) {
            call.expected = Some(Ended::Invalid);
        }
    }

    fn close(&mut self, at: usize) {
        self.connections[at].mux.close();
        self.connections[at].closed = true;
        for call in self.calls.iter_mut().filter(|call| call.connection == at && call.waits()) {
            call.expected = Some(Ended::Lost);
        }
    }

    /// Polls every call once: it has ended if and as the model says.
    fn settle(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for call in &mut self.calls {
            let Some(asking) = &mut call.asking else { continue };
            match asking.as_mut().poll(&mut context) {
                Poll::Pending => {
                    assert!(call.waits(), "{:?} should have ended with {:?}", call.ident, call.expected);
                }
                Poll::Ready(ended) => {
                    assert_eq!(Some(&ended), call.expected.as_ref(), "{:?}", call.ident);
                    assert!(call.ended.replace(ended).is_none());
                    call.asking = None;
                }
            }
        }
        for (at, connection) in self.connections.iter().enumerate() {
            let Held { waiting, given_up, questions } = connection.mux.held();
            let expected = self.calls.iter().filter(|call| call.connection == at && call.waits()).count();
            assert_eq!(waiting, expected, "calls in the books, and in the model");
            assert!(given_up <= REMEMBERED && questions == 0);
        }
    }

    async fn end(mut self) {
        for call in self.calls.iter_mut().filter(|call| call.hasty && call.waits()) {
            if let Some(asking) = call.asking.take() {
                assert_eq!(asking.await, Ended::TimedOut, "{:?}", call.ident);
                (call.expected, call.ended, call.cancelled) = (Some(Ended::TimedOut), Some(Ended::TimedOut), call.cancels);
            }
        }
        // What was written arrives: as soon as the runtime has looked at the pipes.
        for _ in 0..100 {
            if (0..self.connections.len()).all(|at| self.has_heard_all(at)) {
                break;
            }
            tokio::task::yield_now().await;
            let mut context = Context::from_waker(Waker::noop());
            for Connection { writer, reader, heard, .. } in &mut self.connections {
                assert!(writer.as_mut().poll(&mut context).is_pending(), "the pipe broke");
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = reader.try_read(&mut buffer) {
                    heard.extend_from_slice(&buffer[..count]);
                }
            }
        }
        for at in 0..self.connections.len() {
            self.close(at);
        }
        self.settle();
        let mut idents = HashSet::new();
        for call in &self.calls {
            assert!(idents.insert(call.ident.clone()), "two calls have one identifier");
            assert!(call.asking.is_none(), "{:?} never ended", call.ident);
        }
        for (at, connection) in self.connections.iter().enumerate() {
            assert_eq!(connection.mux.held().waiting, 0, "calls are left in the books");
            assert!(self.has_heard_all(at), "{}", String::from_utf8_lossy(&connection.heard));
        }
    }

    /// Whether the other side of a connection heard every call once and every caller who left once. It hears nothing twice, and
    /// nothing that is another's.
    fn has_heard_all(&self, at: usize) -> bool {
        let said = String::from_utf8_lossy(&self.connections[at].heard);
        let lines: Vec<&str> = said.split_terminator('\n').collect();
        self.calls.iter().all(|call| {
            let ident = text(&call.ident);
            let about = lines.iter().filter(|line| line.contains(&ident));
            let (cancelled, asked): (Vec<&str>, Vec<&str>) = about.partition(|line| line.contains("notifications/cancelled"));
            let wanted = if call.connection != at || call.ended == Some(Ended::NotSent) { (0, 0) } else { (1, usize::from(call.cancelled)) };
            assert!(asked.len() <= wanted.0 && cancelled.len() <= wanted.1, "{ident} should be heard of {wanted:?} times: {said}");
            (asked.len(), cancelled.len()) == wanted
        })
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
