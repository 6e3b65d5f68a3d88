//! The legacy era: a handshake, a session, a stream of its own; and a gateway that may forget all of it.

use super::gateway::{Events, is_stream};
use super::lines::one_line;
use super::session::{Opening, Promise, Session, opened};
use super::{Bridge, Gate, HANDSHAKE, LONGEST_PAUSE, SHORTEST_PAUSE};
use crate::terminal;
use bytes::Bytes;
use http::{HeaderMap, Method as HttpMethod, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use transom_protocol::error::UPSTREAM_UNAVAILABLE;
use transom_protocol::json::Json;
use transom_protocol::{Executed, Id, Limits, Message, Method, Request, RpcError, write};

/// When a cancellation is said again that seems not to have been heard.
const SAID_AGAIN: Duration = Duration::from_millis(250);

impl Bridge {
    /// Opens the session that the client asks for. Whatever the client says next waits for it.
    pub(super) async fn open(self: Arc<Self>, line: Bytes, request: Request, before: Gate) {
        before.passed().await;
        let opening = timeout(HANDSHAKE, async {
            let response = self.gateway.send(HttpMethod::POST, HeaderMap::new(), line).await?;
            let headers = response.headers().clone();
            Ok((headers, self.answer(response, &request.id, None).await?))
        });
        let message = match opening.await.unwrap_or_else(|_| Err(self.gateway.silent(HANDSHAKE))) {
            Ok((headers, message)) => {
                if let Some(promise) = promise_in(&message) {
                    let mut state = self.state();
                    let number = state.session.as_ref().map_or(1, |before| before.number + 1);
                    state.session = opened(&headers, &promise, number);
                    state.opening = Some(Opening::new(request.params.clone(), promise));
                }
                message
            }
            Err(error) => write::error(Some(request.id.raw()), &error),
        };
        // A handshake cannot be cancelled, so it is answered in any case.
        self.say(message).await;
        self.done([request.id.raw()]);
    }

    /// One request and its answer.
    pub(super) async fn ask(self: &Arc<Self>, line: Bytes, request: &Request) -> Result<Bytes, RpcError> {
        let mut session = self.session();
        let mut response = self.post(session.as_ref(), line.clone()).await?;
        if let Some(lost) = session.as_ref().filter(|session| session.is_kept() && response.status() == StatusCode::NOT_FOUND) {
            // Whoever does not know the session has not run the request: it may be made once more.
            let again = self.reopen(lost).await?;
            response = self.post(Some(&again), line).await?;
            session = Some(again);
        }
        let is_taken = response.status().is_success();
        let message = self.answer(response, &request.id, session.as_ref()).await?;
        if is_taken && let Some(opening) = &mut self.state().opening {
            opening.note(request);
        }
        Ok(message)
    }

    /// Tells the gateway that the client does not want an answer.
    pub(super) async fn cancel_legacy(self: Arc<Self>, line: Bytes, id: Vec<u8>, before: Gate) {
        before.passed().await;
        if self.session().is_none() {
            return;
        }
        self.tell(line.clone()).await;
        // Request and cancellation went over two connections, and nothing says which arrived first. To say it twice does no harm.
        tokio::time::sleep(SAID_AGAIN).await;
        if self.running().contains_key(&id) {
            self.tell(line).await;
        }
    }

    /// Opens a session in place of one that the gateway does not know, if the client would not notice: the same handshake, the same promises, and
    /// what it had asked for. That lists may be others is said by the notifications for it.
    async fn reopen(self: &Arc<Self>, lost: &Session) -> Result<Session, RpcError> {
        let _one = self.reopening.lock().await;
        let (current, opening) = {
            let state = self.state();
            (state.session.clone(), state.opening.clone())
        };
        if let Some(current) = current.filter(|current| current.number != lost.number) {
            return Ok(current);
        }
        let cannot = |why: &str| {
            let text = format!("the gateway has forgotten this session, and it cannot be opened again: {why}; connect anew");
            RpcError::upstream(UPSTREAM_UNAVAILABLE, text, "gateway", Executed::No, None)
        };
        let opening = opening.ok_or_else(|| cannot("there was no handshake"))?;
        let id = Id::ours("\"transom-stdio\"".into());
        let initialize = write::request(Some(id.raw()), Method::Initialize.name(), opening.params.raw().map(|params| &params[..]));
        let response = self.gateway.send(HttpMethod::POST, HeaderMap::new(), initialize.into()).await?;
        let headers = response.headers().clone();
        let message = self.answer(response, &id, None).await?;
        let promise = promise_in(&message).ok_or_else(|| cannot("it refused the handshake"))?;
        if let Some(why) = opening.promise.broken_by(&promise) {
            return Err(cannot(&why));
        }
        let session = opened(&headers, &promise, lost.number + 1).ok_or_else(|| cannot("its revision is none"))?;
        let initialized = write::request(None, Method::Initialized.name(), None);
        self.gateway.send(HttpMethod::POST, session.headers(), initialized.into()).await?;
        for (method, params) in opening.again() {
            let request = write::request(Some(id.raw()), method.name(), params.raw().map(|params| &params[..]));
            self.gateway.send(HttpMethod::POST, session.headers(), request.into()).await?;
        }
        self.state().session = Some(session.clone());
        self.listen();
        self.say_changed(&opening.promise).await;
        terminal::note("the gateway was restarted; the client goes on with a new session");
        Ok(session)
    }

    /// Listens to the session's own stream, from which everything comes that belongs to no request.
    pub(super) fn listen(self: &Arc<Self>) {
        let mut state = self.state();
        let Some(session) = state.session.clone().filter(Session::is_kept) else { return };
        let ear = tokio::spawn(self.clone().hear(session)).abort_handle();
        if let Some(before) = state.ear.replace(ear) {
            before.abort();
        }
    }

    async fn hear(self: Arc<Self>, session: Session) {
        let (mut pause, mut is_first) = (SHORTEST_PAUSE, true);
        loop {
            match self.gateway.send(HttpMethod::GET, session.headers(), Bytes::new()).await {
                Ok(response) if response.status().is_success() && is_stream(&response) => {
                    // What was said while nobody listened is not said again.
                    let promise = self.state().opening.as_ref().map(|opening| opening.promise.clone());
                    if let Some(promise) = promise.filter(|_| !is_first) {
                        self.say_changed(&promise).await;
                    }
                    is_first = false;
                    let mut events = Events::of(response);
                    while let Some(data) = events.next().await {
                        pause = SHORTEST_PAUSE;
                        if Message::read(&data, &Limits::REPLY).is_ok() {
                            self.say(one_line(data)).await;
                        }
                    }
                }
                Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                    // As a task of its own: a new session has a new listener, and that ends this one.
                    tokio::spawn(async move {
                        if let Err(error) = self.reopen(&session).await {
                            terminal::note(&terminal::harmless(&error.message));
                        }
                    });
                    return;
                }
                // This server has no such stream, or not for us.
                Ok(response) if response.status().is_client_error() => return,
                Ok(_) | Err(_) => is_first = false,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Tells the client to look again at whatever the gateway had promised to tell it about.
    async fn say_changed(&self, promise: &Promise) {
        for method in &promise.changes {
            self.say(write::request(None, method, None).into()).await;
        }
    }
}

/// What a gateway promises in its answer to `initialize`.
fn promise_in(message: &Bytes) -> Option<Promise> {
    let Ok(Message::Response(transom_protocol::Response { outcome: Ok(result), .. })) = Message::read(message, &Limits::REPLY) else { return None };
    Promise::read(Json::trusted(std::str::from_utf8(&result).ok()?))
}
