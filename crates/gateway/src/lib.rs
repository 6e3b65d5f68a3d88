//! The proxy: listener, stages, catalog, generations.
//!
//! Start reading at [`app`] (how it starts), then [`stack`] (what happens to a message).

pub mod app;
pub mod config;

pub use app::{Bound, Handle, bind};
pub use config::{Config, ListenAt, Naming, Prefix, Readiness, TlsFiles};
