//! The pure engine: what a virtual tool means, decided without runtime, clock, files or environment.
//!
//! The rooms, in the order a definition lives: [`file`] (what users write) · [`name`] · [`template`] (`${…}`) ·
//! [`compile`](mod@compile) (documents and an environment become a [`Plan`]) · [`list`] (a plan and a [`Catalog`] become
//! [`Tools`]) · [`call`] (arguments in, a [`Step`] out) · [`problem`] (place, message, hint).

#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod call;
pub mod compile;
pub mod embedded;
pub mod file;
pub mod list;
pub mod local;
pub mod mask;
pub mod name;
pub mod path;
pub mod pin;
pub mod problem;
pub mod result;
pub mod schema;
pub mod secret;
pub mod source;
pub mod template;

pub use call::{ClientEra, LocalCall, Refusal, Rejected, Reply, Resume, SourceCall, Step};
pub use compile::{Compiled, Options, Plan, Quarantined, Unlisted, VirtualTool, compile};
pub use file::{Document, Settings};
pub use list::{Listed, Tools};
pub use problem::{Code, Problem, Severity, position};
pub use source::{Catalog, Offer, SourceTool};
