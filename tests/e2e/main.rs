//! End to end: the real binary between real MCP servers and real MCP clients, all of them other people's programs.
//!
//! The servers and clients come from the public registries, pinned in `package.json` and `requirements.txt`; `make test` installs them
//! into `.e2e/` (see `setup.sh`). Here is only how they are started ([`servers`], [`gateway`]), how a client is told what to say ([`talk`]),
//! and the stories themselves. What needs no stranger's program is told in `tests/spec`.

mod gateway;
mod rust_client;
mod servers;
mod talk;

mod every_client;
mod exports;
mod inspector;
mod jsonpath;
mod matrix;
mod metrics;
mod outage;
mod over_pipes;
mod own_client;
mod readme;
mod typescript;
