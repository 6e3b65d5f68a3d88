//! A gateway for one session: found by an id, started in the background, stopped by whoever started it.
//!
//! Everything about a session stands in files of a folder that belongs to this user alone ([`folder`]). Whether its gateway runs is decided by
//! looking at the process, not at the files ([`found`]): files outlive a SIGKILL, and numbers of processes are given out again.

mod folder;
mod found;
mod start;
mod stop;

pub use folder::{Folder, Place, SessionId};
pub use found::{Found, Record, find};
pub use start::{Started, Wish, start};
pub use stop::{Stopped, stop};
