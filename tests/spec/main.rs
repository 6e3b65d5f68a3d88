//! The specification as tests. One binary, because linking is what takes the time.

mod architecture;
mod authentication;
mod authorization;
mod browser;
mod children;
mod discovery;
mod eras;
mod events;
mod examples;
mod exhaustion;
mod harness;
mod health;
mod lifecycle;
mod metrics;
mod names;
mod questions;
mod registry;
mod reload;
mod remotes;
mod rest;
mod resumption;
mod routing;
mod secrets;
mod sessions;
mod tasks;
mod transparency;
