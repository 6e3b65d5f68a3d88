//! The pure engine: what a tool means, decided without runtime, clock, files or environment.

pub mod local;
pub mod name;
pub mod pin;
pub mod source;
pub mod template;
