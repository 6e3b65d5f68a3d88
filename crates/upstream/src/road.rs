//! The road of one call back to its client: progress under the client's own token, everything else as it came.

use crate::call::Call;
use crate::ears::{Ears, fault};
use crate::ident::Ident;
use crate::outbox::{FromTarget, Outbox};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use transom_protocol::message::{Notification, Params};
use transom_protocol::write::{self, Edit};
use transom_protocol::{Id, Method, RpcError, error};

/// Requests of a server that may wait for an answer during one call.
pub(crate) const OPEN_QUESTIONS: usize = 16;

pub(crate) struct Road {
    ident: Ident,
    token: Option<Bytes>,
    outbox: Option<Arc<Outbox>>,
    limit: u32,
    window: Instant,
    passed: u32,
}

/// Where the answer to a server's request will come from.
pub(crate) type Pledge = oneshot::Receiver<Result<Bytes, RpcError>>;

impl Road {
    pub(crate) fn new(call: &Call, ident: Ident, limit: u32) -> Road {
        Road { ident, token: call.caller.progress_token.clone(), outbox: call.outbox.clone(), limit, window: Instant::now(), passed: 0 }
    }

    /// A control request: nobody listens.
    pub(crate) fn nowhere(ident: Ident) -> Road {
        Road { ident, token: None, outbox: None, limit: 0, window: Instant::now(), passed: 0 }
    }

    pub(crate) fn has_client(&self) -> bool {
        self.outbox.is_some()
    }

    /// Progress; `false` if it is not about this call.
    pub(crate) fn progress(&mut self, params: &Params, ears: &Ears) -> bool {
        if progress_ident(params) != Some(self.ident) {
            return false;
        }
        if let Some(token) = self.token.clone()
            && self.admit(ears)
        {
            let edit = |key: transom_protocol::json::Key<'_>, _: transom_protocol::Json<'_>| {
                if key.is("progressToken") { Edit::Set(&token) } else { Edit::Keep }
            };
            let params = write::edited(params.json(), edit, &[]);
            self.push(write::request(None, "notifications/progress", Some(&params)).into(), ears);
        }
        true
    }

    /// Any other notification, whole.
    pub(crate) fn pass(&mut self, message: Bytes, ears: &Ears) {
        if self.outbox.is_some() && self.admit(ears) {
            self.push(message, ears);
        }
    }

    /// A request of the server for the client; `Err` says why the server gets none.
    pub(crate) fn question(&self, method: &str, params: &Params) -> Result<Pledge, RpcError> {
        let Some(outbox) = &self.outbox else { return Err(not_allowed(method)) };
        let (answer, pledge) = oneshot::channel();
        let params = params.raw().cloned().unwrap_or_else(|| Bytes::from_static(b"{}"));
        if outbox.push(FromTarget::Request { method: method.to_owned(), params, answer }) {
            Ok(pledge)
        } else {
            Err(RpcError::new(error::INTERNAL, "the client cannot take a request now"))
        }
    }

    fn push(&self, message: Bytes, ears: &Ears) {
        if let Some(outbox) = &self.outbox
            && !outbox.push(FromTarget::Notification(message))
        {
            ears.fault(fault::FLOOD);
        }
    }

    fn admit(&mut self, ears: &Ears) -> bool {
        let now = Instant::now();
        if now.duration_since(self.window) >= Duration::from_secs(1) {
            self.window = now;
            self.passed = 0;
        }
        self.passed = self.passed.saturating_add(1);
        let admitted = self.passed <= self.limit;
        if !admitted {
            ears.fault(fault::FLOOD);
        }
        admitted
    }
}

/// Which call a progress notification is about, if it carries a token of ours.
pub(crate) fn progress_ident(params: &Params) -> Option<Ident> {
    Ident::read(params.json().get("progressToken")?.raw().as_bytes())
}

/// Which request of its own a server takes back, if this says so.
pub(crate) fn withdrawn(note: &Notification) -> Option<Id> {
    if note.method != Method::Cancelled {
        return None;
    }
    Id::read(note.params.raw()?, note.params.json().get("requestId")?)
}

/// The answer to a server's request that reaches no client.
pub(crate) fn not_allowed(method: &str) -> RpcError {
    RpcError::new(error::METHOD_NOT_FOUND, format!("{} is not allowed here", error::shorten(method, 64)))
}

/// Whether this is a request a server may have for a client at all.
pub(crate) fn is_for_clients(method: Method) -> bool {
    matches!(method, Method::CreateMessage | Method::Elicit | Method::ListRoots)
}
