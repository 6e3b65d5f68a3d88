//! The pure engine: what a tool means, decided without runtime, clock, files or environment.

pub mod name;
pub mod schema;
pub mod source;
pub mod template;
