//! The tools that stand on no target: mocks and builtins are answered by the engine, the gateway's own here.

use crate::generation::Kind;
use crate::message::{Addressed, Named};
use crate::runtime::Runtime;
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::SystemTime;
use transom_registry::LocalCall;
use transom_registry::local::Given;
use transom_upstream::Status;

/// The gateway's own handlers, as registries name them.
pub const INTERNAL: [&str; 1] = ["gateway_status"];

/// The result of a call, a `CallToolResult`.
pub fn answer(runtime: &Runtime, named: &Named<Box<Addressed>>, call: &LocalCall) -> Bytes {
    let unix_seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    let given = Given { unix_seconds, random: rand::random() };
    if let Some(result) = call.answer(&given) {
        return result.into();
    }
    let data = match call.handler() {
        Some("gateway_status") => gateway_status(runtime, named),
        other => return failed(&format!("no internal handler {}", other.unwrap_or_default())),
    };
    let result = json!({ "content": [{ "type": "text", "text": data.to_string() }], "structuredContent": data });
    result.to_string().into()
}

/// What a caller may know of the gateway: no names of targets, which are not the business of agents.
fn gateway_status(runtime: &Runtime, named: &Named<Box<Addressed>>) -> Value {
    let slots = runtime.slots();
    let connected = slots.iter().filter(|slot| slot.handle.state().status == Status::Connected).count();
    let generation = &named.context.generation;
    json!({
        "status": if connected == slots.len() { "ok" } else { "degraded" },
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": runtime.started.elapsed().as_secs(),
        "generation": generation.number,
        "targets": { "configured": slots.len(), "connected": connected },
        "tools": generation.listed(Kind::Tool).len(),
    })
}

fn failed(message: &str) -> Bytes {
    json!({ "content": [{ "type": "text", "text": message }], "isError": true }).to_string().into()
}
