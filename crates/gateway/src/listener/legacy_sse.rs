//! The transport of revision 2024-11-05: one `GET /sse` stream per client, and `POST /messages` for what it sends.
//!
//! The stream is the session: it ends with it. Answers travel on the stream, so each message runs on its own.

use crate::abilities::Abilities;
use crate::authorize::Viewer;
use crate::hub::Wants;
use crate::listener::answer::{Reply, failed, open_stream, status};
use crate::listener::mcp::{Endpoint, Head};
use crate::message::Scope;
use crate::reply::{Failure, Reject};
use crate::runtime::Admitted;
use crate::session::Session;
use bytes::Bytes;
use http::StatusCode;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use transom_protocol::{Era, Revision, sse};
use transom_upstream::SessionKey;

const CONNECTIONS: usize = 10_000;
const QUEUE: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Client {
    session: Arc<Session>,
    answers: mpsc::Sender<Bytes>,
}

/// The clients of this transport.
#[derive(Clone, Default)]
pub struct LegacySse {
    clients: Arc<Mutex<HashMap<String, Client>>>,
}

/// Takes a client off the books when its stream ends.
struct Connected {
    token: String,
    key: SessionKey,
    legacy: LegacySse,
    endpoint: Endpoint,
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Ok(mut clients) = self.legacy.clients.lock() {
            clients.remove(&self.token);
        }
        self.endpoint.runtime.session_ended(self.key);
    }
}

impl LegacySse {
    /// Opens a stream; its first event says where to send messages.
    pub fn open(&self, endpoint: &Endpoint, viewer: &Viewer) -> Reply {
        let principal = &viewer.principal;
        let refused = || failed(&Failure::rejected(Reject::StreamCap, "Too many streams; try again later"), Era::Legacy, None);
        let (answers, receiver) = mpsc::channel(QUEUE);
        let key = SessionKey(rand::random());
        let token = format!("{:032x}{:032x}", rand::random::<u128>(), key.0);
        let session = Arc::new(Session::new(key, Revision::V2024_11_05, Abilities::default(), None, principal, Arc::default()));
        let Some(changes) = endpoint.runtime.hub.open(Wants::legacy(), Some(key), Scope::default(), viewer.clone()) else { return refused() };
        match self.clients.lock() {
            Ok(mut clients) if clients.len() < CONNECTIONS => clients.insert(token.clone(), Client { session, answers }),
            _ => return refused(),
        };
        let first = Bytes::from(format!("event: endpoint\ndata: /messages?sessionId={token}\n\n"));
        let connected = Connected { token, key, legacy: self.clone(), endpoint: endpoint.clone() };
        let alive = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        let validity = endpoint.runtime.authentication.validity(principal);
        let state = (receiver, changes, alive, VecDeque::from([first]), (connected, validity));
        open_stream(futures_util::stream::unfold(state, |(mut receiver, mut changes, mut alive, mut ready, (connected, mut validity))| async move {
            if ready.is_empty() {
                tokio::select! {
                    biased;
                    () = validity.over() => return None,
                    answer = receiver.recv() => ready.push_back(sse::event(&answer?)),
                    change = changes.next() => ready.push_back(sse::event(&change?)),
                    _ = alive.tick() => ready.push_back(sse::KEEP_ALIVE),
                }
            }
            let chunk = ready.pop_front()?;
            Some((chunk, (receiver, changes, alive, ready, (connected, validity))))
        }))
    }

    /// Takes a message of a client; what it answers goes to the client's stream. Somebody else's stream looks unknown.
    pub fn post(&self, endpoint: &Endpoint, head: Head, query: &str, body: Bytes, admitted: Admitted) -> Reply {
        let unknown = || failed(&Failure::rejected(Reject::UnknownSession, "Session not found: open /sse first"), Era::Legacy, None);
        let token = query.split('&').find_map(|pair| pair.strip_prefix("sessionId=").or_else(|| pair.strip_prefix("session_id=")));
        let found = token.and_then(|token| {
            let clients = self.clients.lock().ok()?;
            let client = clients.get(token).filter(|client| client.session.belongs_to(&head.principal))?;
            Some((client.session.clone(), client.answers.clone()))
        });
        let Some((session, answers)) = found else { return unknown() };
        let endpoint = endpoint.clone();
        tokio::spawn(async move { endpoint.converse(head, session, body, admitted, answers).await });
        status(StatusCode::ACCEPTED)
    }
}
