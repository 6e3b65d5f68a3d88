//! The pure engine: what a virtual tool means. No sockets, no files, no clocks, no environment of its own.

pub mod template;
