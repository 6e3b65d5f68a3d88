//! JSON as it was written: a strict scanner, a view of checked text without copies, and a tree for what must be changed.
//!
//! Numbers are never converted, so `1e400`, `1.0` and 64-bit integers survive; objects keep the order of their members.
//! Pure: text in, text out. Both the protocol and the registry stand on it.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod block;
mod text;
pub mod tree;
pub mod write;

pub use text::{Elements, Fault, Json, Key, Kind, Limits, Members, check, scan, scan_two, string_end, string_fault};
pub use tree::{Object, Tree};
