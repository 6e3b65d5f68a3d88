//! A call while it runs: what its target has to say before the answer, and a client that may go away.

use crate::listener::answer::{Form, KEEP_ALIVE, Reply, event_stream, finished, outcome_message, read_out};
use crate::message::Context;
use crate::reply::Failure;
use crate::runtime::Admitted;
use crate::session::{LEVELS, Session};
use crate::tasks;
use crate::virtualize::masked;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;
use transom_protocol::json::Json;
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, RpcError, error, sse};
use transom_upstream::{FromTarget, Outbox};

/// A call under way. A modern client that goes away takes its call with it; a legacy one does not: then the call runs on
/// by itself, to its own deadline.
pub struct Running {
    future: Option<BoxFuture<'static, Result<Bytes, Failure>>>,
    admitted: Option<Admitted>,
    /// The road back of a call that outlives its client.
    outlives: Option<Arc<Outbox>>,
}

impl Running {
    /// A call of this request.
    pub fn new(future: BoxFuture<'static, Result<Bytes, Failure>>, context: &Context, admitted: Admitted) -> Running {
        let outlives = (context.era == Era::Legacy).then(|| context.outbox.clone());
        Running { future: Some(future), admitted: Some(admitted), outlives }
    }
}

impl Future for Running {
    type Output = Result<Bytes, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        // Taken out while it runs: a call that panics is over, and is not run on when this is dropped.
        let Some(mut future) = self.future.take() else { return Poll::Ready(Err(Failure::Internal)) };
        let done = future.as_mut().poll(cx);
        match done {
            Poll::Pending => self.future = Some(future),
            Poll::Ready(_) => self.admitted = None,
        }
        done
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(outbox) = self.outlives.take()
            && let Some(future) = self.future.take()
        {
            // Nobody is left to ask, and nobody should wait for an answer.
            outbox.go_deaf();
            let admitted = self.admitted.take();
            tokio::spawn(async move {
                let _ = future.await;
                drop(admitted);
            });
        }
    }
}

/// Waits for a call: one JSON message if nothing comes before the result, a stream if something does.
pub async fn wait(mut running: Running, context: Arc<Context>, form: Form) -> Reply {
    loop {
        tokio::select! {
            biased;
            message = context.outbox.next() => {
                let road = Road { context: &context, events: form.events };
                if let Some(first) = road.message(message) {
                    return match context.session.get().cloned() {
                        Some(session) => resumable(running, context, form, &session, &first),
                        None => stream(running, context, form, first),
                    };
                }
            }
            done = &mut running => {
                let before = Road { context: &context, events: form.events }.left();
                return match context.session.get() {
                    _ if before.is_empty() => finished(done, &form),
                    Some(session) => {
                        let (writer, reader) = session.shelf.open();
                        before.iter().for_each(|message| writer.write(message));
                        writer.write(&outcome_message(done, &form));
                        read_out(reader, None)
                    }
                    None => all_at_once(before, done, &form),
                };
            }
        }
    }
}

/// A stream of what came before the answer, and the answer, when all of it came together.
fn all_at_once(before: Vec<Bytes>, done: Result<Bytes, Failure>, form: &Form) -> Reply {
    let messages = before.into_iter().chain([outcome_message(done, form)]);
    event_stream(futures_util::stream::iter(messages.map(|message| sse::event(&message)).collect::<Vec<_>>()))
}

/// The id of a question, and where its answer will come.
type Asked = (Bytes, oneshot::Receiver<Result<Bytes, RpcError>>);

/// What a target's message during a call becomes for the client.
pub struct Road<'r> {
    /// What is known about the request.
    pub context: &'r Context,
    /// Whether there is a stream.
    pub events: bool,
}

impl Road<'_> {
    /// Whether the client wants to hear this: log messages only from the level it asked for, and a modern client that
    /// asked for none gets none.
    fn wants(&self, message: &[u8]) -> bool {
        if memchr::memmem::find(message, b"notifications/message").is_none() {
            return true;
        }
        let json = Json::trusted(std::str::from_utf8(message).unwrap_or("{}"));
        if json.get("method").map(Json::raw) != Some("\"notifications/message\"") {
            return true;
        }
        let asked = match self.context.session.get() {
            Some(session) => session.level(),
            None => self.context.caller.log_level.clone(),
        };
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level.trim_matches('"'));
        let asked = match (asked.as_deref().map(|level| std::str::from_utf8(level).unwrap_or("")), self.context.era) {
            (Some(level), _) => rank(level),
            (None, Era::Legacy) => Some(0),
            (None, Era::Modern) => return false,
        };
        let level = json.get("params").and_then(|params| params.get("level")).and_then(|level| rank(level.raw()));
        level >= asked
    }

    /// Without the secrets that were sent to the target.
    fn masked(&self, message: Bytes) -> Bytes {
        let slot = self.context.about.get().and_then(|about| about.slot.as_ref());
        let mask = slot.and_then(|slot| self.context.generation.mask(&slot.name));
        masked(mask.map(|mask| &**mask), &message).unwrap_or(message)
    }

    /// Params of a message about the task that the request is about, under the client's id.
    fn related(&self, params: Bytes) -> Bytes {
        let Some(id) = self.context.about.get().and_then(|about| about.task.as_deref()) else { return params };
        let json = Json::trusted(std::str::from_utf8(&params).unwrap_or("{}"));
        tasks::related(json, id).map_or(params, Bytes::from)
    }

    /// A notification about the task that the request is about, under the client's id.
    fn of_task(&self, message: Bytes) -> Bytes {
        let Some(id) = self.context.about.get().and_then(|about| about.task.as_deref()) else { return message };
        let json = Json::trusted(std::str::from_utf8(&message).unwrap_or("{}"));
        let Some(params) = json.get("params").and_then(|params| tasks::related(params, id)) else { return message };
        write::edited(json, |key, _| if key.is("params") { Edit::Set(&params) } else { Edit::Keep }, &[]).into()
    }

    /// What the target said and nobody has heard yet. A target may say it in one breath with the answer.
    pub fn left(&self) -> Vec<Bytes> {
        std::iter::from_fn(|| self.context.outbox.try_next()).filter_map(|message| self.message(message)).collect()
    }

    /// Notes a question to the client; `Err` says why it is not put.
    fn ask(&self, method: &str, params: &Bytes) -> Result<Asked, RpcError> {
        let cannot = || RpcError::new(error::METHOD_NOT_FOUND, format!("the client that made this call cannot answer {method}"));
        let session = self.context.session.get().filter(|_| self.events).ok_or_else(cannot)?;
        session.abilities().judge(method, Json::trusted(std::str::from_utf8(params).unwrap_or("{}")))?;
        session.ask().ok_or_else(|| RpcError::new(error::INTERNAL, "the client owes too many answers"))
    }

    /// The message for the client's stream; `None` if there is no stream or nothing to send.
    pub fn message(&self, message: FromTarget) -> Option<Bytes> {
        match message {
            FromTarget::Notification(message) => (self.events && self.wants(&message)).then(|| self.of_task(self.masked(message))),
            FromTarget::Request { method, params, answer } => {
                let asked = self.ask(&method, &params);
                let (id, answered) = match asked {
                    Ok(asked) => asked,
                    Err(refusal) => {
                        // The target may have given up on its question.
                        let _ = answer.send(Err(refusal));
                        return None;
                    }
                };
                let (outbox, asked_as) = (self.context.outbox.clone(), id.clone());
                tokio::spawn(async move {
                    let mut answer = answer;
                    tokio::select! {
                        outcome = answered => {
                            if let Ok(outcome) = outcome {
                                let _ = answer.send(outcome);
                            }
                        }
                        // Whoever asked has given up: the client owes nothing any more, and hears so while there is somebody to tell it.
                        () = answer.closed() => {
                            let params = [&b"{\"requestId\":"[..], &asked_as, b"}"].concat();
                            outbox.push(FromTarget::Notification(write::request(None, "notifications/cancelled", Some(&params)).into()));
                        }
                    }
                });
                Some(write::request(Some(&id), &method, Some(&self.related(self.masked(params)))).into())
            }
        }
    }
}

/// The stream of a call in a session. The call belongs to the session and not to this connection: whoever loses the stream may
/// come back for the rest of it.
fn resumable(mut running: Running, context: Arc<Context>, form: Form, session: &Session, first: &Bytes) -> Reply {
    let (writer, reader) = session.shelf.open();
    writer.write(first);
    tokio::spawn(async move {
        let road = Road { context: &context, events: true };
        loop {
            let heard = async {
                // A reader that is slow loses what it would have been told, as it always did; not what it was told.
                writer.room().await;
                context.outbox.next().await
            };
            tokio::select! {
                biased;
                message = heard => {
                    if let Some(message) = road.message(message) {
                        writer.write(&message);
                    }
                }
                done = &mut running => {
                    road.left().iter().for_each(|message| writer.write(message));
                    writer.write(&outcome_message(done, &form));
                    return;
                }
            }
        }
    });
    read_out(reader, None)
}

struct Streaming {
    running: Option<Running>,
    context: Arc<Context>,
    form: Form,
    ready: VecDeque<Bytes>,
    alive: tokio::time::Interval,
}

fn stream(running: Running, context: Arc<Context>, form: Form, first: Bytes) -> Reply {
    let alive = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    let state = Streaming { running: Some(running), context, form, ready: VecDeque::from([sse::event(&first)]), alive };
    event_stream(futures_util::stream::unfold(state, |mut state| async move {
        loop {
            if let Some(chunk) = state.ready.pop_front() {
                return Some((chunk, state));
            }
            let running = state.running.as_mut()?;
            tokio::select! {
                biased;
                message = state.context.outbox.next() => {
                    let road = Road { context: &state.context, events: true };
                    state.ready.extend(road.message(message).map(|message| sse::event(&message)));
                }
                done = running => {
                    state.running = None;
                    let before = Road { context: &state.context, events: true }.left();
                    state.ready.extend(before.iter().map(|message| sse::event(message)));
                    state.ready.push_back(sse::event(&outcome_message(done, &state.form)));
                }
                _ = state.alive.tick() => state.ready.push_back(sse::KEEP_ALIVE),
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    // M6, L2: a legacy call outlives its client, but not its own panic.
    #[tokio::test]
    async fn a_call_that_panicked_is_not_run_on() {
        let polled = Arc::new(AtomicUsize::new(0));
        let counter = polled.clone();
        let future = std::future::poll_fn(move |_| match counter.fetch_add(1, Relaxed) {
            0 => panic!("on purpose"),
            _ => Poll::Ready(Err(Failure::Internal)),
        });
        let mut running = Running { future: Some(Box::pin(future)), admitted: None, outlives: Some(Arc::default()) };
        assert!(AssertUnwindSafe(&mut running).catch_unwind().await.is_err());
        drop(running);
        tokio::task::yield_now().await;
        assert_eq!(polled.load(Relaxed), 1);
    }
}
