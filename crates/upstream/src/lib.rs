//! One MCP server each: stdio child, Streamable HTTP or legacy SSE; handshake or discovery, catalog, reconnect, calls.
//!
//! A [`Target`] is a handle to a task that keeps one connection alive. Its [`TargetState`] is level-triggered: whoever
//! is told that something changed reads it again. A [`Call`] goes out with identifiers of ours and comes back as the
//! bytes of its result; dropping the future of a call cancels it at the target.
//!
//! In reading order: [`target`] (the handle and its supervisor) · `connect` (era probe and handshake) · `connection` (one
//! connection in service) · `http_link` and `mux` (the two ways a request finds its answer) · `stdio` and `sse` (what a
//! mux runs over) · `outgoing` and `road` (what goes to a target and what comes back during a call).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod call;
#[doc(hidden)]
pub mod fuzzing;
pub mod lane;
pub mod outbox;
pub mod spec;
pub mod state;
pub mod target;
pub mod trust;
#[doc(hidden)]
pub mod tuning;
pub mod via;

mod backoff;
mod body;
mod connect;
mod connection;
mod courier;
mod deadline;
mod down;
mod ears;
mod failure;
mod gate;
mod handshake;
mod head;
mod http_client;
mod http_link;
mod ident;
mod inlet;
mod lines;
mod listing;
mod marked;
mod mux;
mod outgoing;
mod road;
mod sessions;
mod spawner;
mod sse;
mod stdio;
mod supervisor;
#[allow(unsafe_code)]
mod sys;
mod text;
mod wire;

pub use call::{Call, CallError, Caller, SessionKey};
pub use marked::{dismiss_guard, set_guard, stand_guard};
pub use outbox::{FromTarget, Outbox};
pub use spec::{ChildLimits, ClientTls, EraChoice, Secret, Sessions, TargetSpec, Transport};
pub use state::{Capabilities, Item, Offer, Status, TargetState};
pub use sys::{file_limit, give_way, harden_process, keep_pages_small, raise_file_limit, take_short_turns};
pub use target::{Host, Target};
