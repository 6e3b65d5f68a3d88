//! JSON-RPC and MCP messages as a gateway reads and writes them, both eras.
//!
//! Pure: bytes in, bytes out. Nothing here knows a runtime, a socket, a clock or the environment. A message is scanned,
//! not parsed into a tree: what the gateway does not change stays the bytes it came as.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod error;
pub mod header;
pub mod id;
pub mod message;
pub mod meta;
pub mod method;
pub mod result;
pub mod sse;
pub mod uri;
pub mod version;
pub mod write;

pub use transom_json as json;

pub use error::{Executed, RpcError};
pub use id::Id;
pub use json::{Fault, Json, Limits};
pub use message::{Malformed, Message, Notification, Request, Response};
pub use method::Method;
pub use result::result_type;
pub use version::{Era, Revision};
