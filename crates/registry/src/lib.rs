//! The pure engine: what a tool means, decided without runtime, clock, files or environment.

pub mod embedded;
pub mod mask;
pub mod name;
pub mod path;
pub mod result;
pub mod secret;
pub mod source;
pub mod template;
