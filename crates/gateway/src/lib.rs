//! The proxy: listener, stages, catalog, generations.
//!
//! Start reading at [`app`] (how it starts), then [`stack`] (what happens to a message).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod abilities;
pub mod admin;
pub mod app;
pub mod aside;
pub mod authenticate;
pub mod authorize;
pub mod bridge;
pub mod changes;
pub mod config;
pub mod discovery;
pub mod dispatch;
#[doc(hidden)]
pub mod fuzzing;
pub mod generation;
pub mod hub;
#[cfg(feature = "inject-panics")]
pub mod inject;
pub mod invoke;
pub mod limits;
pub mod listener;
pub mod local;
pub mod logging;
pub mod message;
pub mod metrics;
pub mod names;
pub mod naming;
pub mod observe;
pub mod parked;
pub mod pressure;
pub mod replay;
pub mod reply;
pub mod request_state;
pub mod resources;
pub mod runtime;
pub mod seal;
pub mod session;
pub mod side;
pub mod stack;
pub mod stage;
pub mod store;
pub mod surface;
pub mod tasks;
pub mod via;
pub mod virtualize;
pub mod watch;
mod web;

pub use app::{Bound, Handle, StartError, bind};
pub use config::{Config, Discovery, DiscoveryMode, ListenAt, Naming, Prefix, Readiness, TlsFiles};
