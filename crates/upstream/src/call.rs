//! One request to a target and how it can end.

use crate::outbox::Outbox;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use transom_protocol::message::Params;

/// Which client session a call belongs to, for targets that keep one connection per session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(pub u128);

/// A request to a target in the gateway's terms. It does not print: arguments may hold secrets.
#[derive(Clone)]
pub struct Call {
    /// The method.
    pub method: Bytes,
    /// `params` as the client sent them.
    pub params: Params,
    /// A member of `params` to replace by this string: `name` or `uri`, then the target's own name for it.
    pub rename: Option<(&'static str, Bytes)>,
    /// What `params.arguments` become, JSON; `None` leaves them as the client sent them.
    pub arguments: Option<Bytes>,
    /// The value of `Mcp-Name` towards a modern HTTP target, unencoded.
    pub name_header: Option<Bytes>,
    /// `Mcp-Param-*` headers towards a modern HTTP target.
    pub param_headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// Who calls.
    pub caller: Caller,
    /// The road back while the call runs.
    pub outbox: Option<Arc<Outbox>>,
    /// How long to wait for the answer. Progress starts the wait anew, up to ten minutes in all.
    pub timeout: Duration,
}

/// Who calls, as far as a target may know.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The client's session, if it has one.
    pub session: Option<SessionKey>,
    /// The client's `clientInfo`, JSON.
    pub client_info: Option<Bytes>,
    /// The client's `clientCapabilities`, JSON.
    pub capabilities: Option<Bytes>,
    /// The client's token for progress, JSON as written.
    pub progress_token: Option<Bytes>,
    /// The log level the client asked for, a JSON string.
    pub log_level: Option<Bytes>,
    /// Through which gateways the call came, ours included, if through any other; see [`crate::via`].
    pub via: Option<http::HeaderValue>,
}

/// How a call can fail. What each means to a client is decided by the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The target answered with an error: its error object, checked JSON.
    Refused(Bytes),
    /// Not connected, or refused before anything was sent. Nothing ran.
    Unavailable {
        /// For people; no secret, no URL.
        reason: String,
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// Too many calls at this target. Nothing ran.
    Overloaded,
    /// Gone after the request was sent.
    Lost(String),
    /// No answer in time; the target was told.
    TimedOut(Duration),
    /// An answer we cannot pass on: too large, not JSON, wrong id.
    Invalid(String),
}

impl CallError {
    /// The same, with its words for people changed by `hide` where that has something to change: some of them are the target's own.
    pub fn hiding(mut self, hide: impl Fn(&str) -> Option<String>) -> CallError {
        match &mut self {
            CallError::Unavailable { reason: words, .. } | CallError::Lost(words) | CallError::Invalid(words) => {
                if let Some(hidden) = hide(words) {
                    *words = hidden;
                }
            }
            CallError::Refused(_) | CallError::Overloaded | CallError::TimedOut(_) => {}
        }
        self
    }
}
