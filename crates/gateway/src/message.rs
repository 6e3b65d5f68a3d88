//! The kinds of messages and the types they pass through on the path.
//!
//! `Incoming` → `Identified` → `InSession` → `Named` → `Permitted` → `SourceCall`. Each stage takes one type and makes
//! the next. Only [`crate::authorize`] can make a `Permitted`, and [`crate::virtualize`] takes nothing else, so a stack
//! without authorization does not compile.

use crate::authenticate::Principal;
use crate::authorize::Circumstances;
use crate::generation::{Entry, Generation, Kind, Slot};
use crate::session::Session;
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use transom_protocol::message::Params;
use transom_protocol::{Era, Id, Method, Revision};
use transom_upstream::{Caller, Outbox};

/// What is known about a request from its first byte to its last.
pub struct Context {
    /// The generation it started with and keeps.
    pub generation: Arc<Generation>,
    /// When its last byte arrived.
    pub started: Instant,
    /// Which era its client speaks.
    pub era: Era,
    /// Which revision, as far as the request says.
    pub revision: Revision,
    /// Who sent it; found out by [`crate::authenticate`] before its body was read.
    pub principal: Principal,
    /// How it came, where some rule asks.
    pub circumstances: Option<Arc<Circumstances>>,
    /// Which part of the catalog it may see and use.
    pub scope: Scope,
    /// The session id it came with.
    pub session_id: Option<String>,
    /// The session of the connection it came on, where the transport is the session (2024-11-05).
    pub attached: Option<Arc<Session>>,
    /// The session it turned out to belong to; set by [`crate::session`].
    pub session: OnceLock<Arc<Session>>,
    /// Who sent it, as far as the message says.
    pub caller: Caller,
    /// The road back while it runs.
    pub outbox: Arc<Outbox>,
    /// How many bytes it was.
    pub bytes: usize,
    /// What it turned out to be about; set by [`crate::authorize`], which has the last word on what a name means.
    pub about: OnceLock<About>,
    /// Nanoseconds spent waiting for a target; set by [`crate::dispatch`].
    pub upstream_nanos: AtomicU64,
    /// Bytes of the target's own result; set by [`crate::dispatch`].
    pub upstream_bytes: AtomicUsize,
    /// Whether a script sent it. Its arguments are judged here whatever the tool is, and bad ones are a failure; MCP clients get a result, so that a
    /// model can read it, and those of a tool that passes through are its target's to judge.
    pub from_script: bool,
}

impl Context {
    /// What is known about a request that this one gives rise to.
    pub fn for_another(&self) -> Context {
        Context {
            generation: self.generation.clone(),
            started: Instant::now(),
            era: self.era,
            revision: self.revision,
            principal: self.principal.clone(),
            circumstances: self.circumstances.clone(),
            scope: self.scope.clone(),
            session_id: self.session_id.clone(),
            attached: self.attached.clone(),
            session: OnceLock::new(),
            caller: self.caller.clone(),
            outbox: Arc::new(Outbox::default()),
            bytes: 0,
            about: OnceLock::new(),
            upstream_nanos: AtomicU64::new(0),
            upstream_bytes: AtomicUsize::new(0),
            from_script: self.from_script,
        }
    }
}

/// The part of the catalog a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only this target.
    pub server: Option<String>,
    /// Only names that begin so.
    pub prefix: Option<String>,
}

impl Scope {
    /// Whether it leaves everything in.
    pub fn is_all(&self) -> bool {
        self.server.is_none() && self.prefix.is_none()
    }

    /// Whether it leaves this in. Our own tools are part of every scope: they show and call nothing outside of it.
    pub fn admits(&self, entry: &Entry) -> bool {
        entry.own().is_some()
            || self.server.as_deref().is_none_or(|server| server == entry.target_name())
                && self.prefix.as_deref().is_none_or(|prefix| entry.exposed().starts_with(prefix))
    }
}

/// A request addressed by name to one target: a tool, a prompt or a resource. It travels in a box: seven rooms hand it on,
/// and each would keep a place for it.
pub struct Call {
    /// The client's id, if it has one of its own.
    pub id: Option<Id>,
    /// The method.
    pub method: Method,
    /// The method as written.
    pub method_text: Bytes,
    /// `params`, as the client sent them.
    pub params: Params,
    /// What is addressed.
    pub kind: Kind,
    /// By which name.
    pub name: String,
    /// `Mcp-Param-*` headers of a modern request, to be checked against the arguments; `None` where whoever sent it could not know which to send.
    pub param_headers: Option<Vec<(String, String)>>,
}

/// A request for a list.
pub struct List {
    /// Of what.
    pub kind: Kind,
    /// Which part.
    pub scope: Scope,
}

/// A message that ends at the gateway itself.
pub enum Control {
    /// `initialize`: the revision asked for and the client's `params`.
    Initialize {
        /// As the client wrote it.
        requested: String,
        /// Its capabilities and name.
        params: Params,
    },
    /// `ping`.
    Ping,
    /// `logging/setLevel`.
    SetLevel(String),
    /// `server/discover`.
    Discover,
    /// `notifications/cancelled` for this id.
    Cancelled(Id),
    /// Any other notification.
    Notification(Method),
    /// An answer to one of our requests: its id, and result or error.
    Answer(transom_protocol::Response),
    /// `resources/subscribe` or `unsubscribe`.
    Watch {
        /// The exposed URI.
        uri: String,
        /// Whether it begins or ends.
        on: bool,
    },
    /// A stream for what the server has to say: `GET`, or `subscriptions/listen`.
    Listen(crate::hub::Wants),
    /// `tasks/list`: which there are; what they are is asked for one by one.
    Tasks,
    /// The rest of a call's stream after the event with this id: `GET` with `Last-Event-ID`.
    Resume(String),
    /// `DELETE`.
    End,
}

impl Control {
    /// The method it came as.
    pub fn method(&self) -> Method {
        match self {
            Control::Initialize { .. } => Method::Initialize,
            Control::Ping => Method::Ping,
            Control::SetLevel(_) => Method::SetLevel,
            Control::Discover => Method::Discover,
            Control::Cancelled(_) => Method::Cancelled,
            Control::Watch { on: true, .. } => Method::Subscribe,
            Control::Watch { on: false, .. } => Method::Unsubscribe,
            Control::Listen(wants) if wants.subscription.is_some() => Method::Listen,
            Control::Tasks => Method::ListTasks,
            Control::Notification(method) => *method,
            // These have no name in MCP: a stream and the end of a session are matters of HTTP.
            Control::Listen(_) | Control::Resume(_) | Control::Answer(_) | Control::End => Method::Unknown,
        }
    }
}

/// A message that has arrived.
pub struct Incoming<M> {
    /// What is known about it.
    pub context: Arc<Context>,
    /// What it says.
    pub message: M,
}

/// A message whose sender is known.
pub struct Identified<M> {
    /// What is known about it.
    pub context: Arc<Context>,
    /// Who sent it.
    pub principal: Principal,
    /// What it says.
    pub message: M,
}

/// A message that belongs to a session, or to none by right.
pub struct InSession<M> {
    /// What is known about it.
    pub context: Arc<Context>,
    /// Who sent it.
    pub principal: Principal,
    /// Its session.
    pub session: Option<Arc<Session>>,
    /// What it says.
    pub message: M,
}

/// A message whose name has been found in the generation.
pub struct Named<M> {
    /// What is known about it.
    pub context: Arc<Context>,
    /// Who sent it.
    pub principal: Principal,
    /// Its session.
    pub session: Option<Arc<Session>>,
    /// What it says.
    pub message: M,
}

/// What a request is about.
pub struct About {
    /// The target; none for a tool that stands on no target.
    pub slot: Option<Arc<Slot>>,
    /// What is listed of it, if it is listed.
    pub entry: Option<Arc<Entry>>,
    /// The client's id of the task it is about.
    pub task: Option<String>,
}

/// A call together with what it addresses.
pub struct Addressed {
    /// The call.
    pub call: Box<Call>,
    /// What is addressed, where it is listed: tools and prompts are, resources need not be.
    pub entry: Option<Arc<Entry>>,
    /// The target; none for a tool that stands on no target.
    pub slot: Option<Arc<Slot>>,
    /// The target's own name for what is addressed.
    pub source: Bytes,
    /// A member of `params` that gets that name.
    pub rename: Option<(&'static str, Bytes)>,
    /// How long it may take, if that differs from what its target allows; set by [`crate::limits`].
    pub timeout: Option<Duration>,
}
