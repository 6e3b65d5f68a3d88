//! One MCP server each: stdio child, Streamable HTTP or legacy SSE; handshake or discovery, catalog, reconnect, calls.
//!
//! A [`Target`] is a handle to a task that keeps one connection alive. Its [`TargetState`] is level-triggered: whoever
//! is told that something changed reads it again. A [`Call`] goes out with identifiers of ours and comes back as the
//! bytes of its result; dropping the future of a call cancels it at the target.

pub mod call;
pub mod outbox;
pub mod spec;
pub mod state;
pub mod target;

pub use call::{Call, CallError, Caller, SessionKey};
pub use outbox::{FromTarget, Outbox};
pub use spec::{EraChoice, Secret, Sessions, TargetSpec, Transport};
pub use state::{Capabilities, Item, Offer, Status, TargetState};
pub use target::{Host, Target};
