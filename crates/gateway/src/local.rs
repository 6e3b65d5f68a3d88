//! The tools that stand on no target: mocks and builtins are answered by the engine, the gateway's own here.

use crate::discovery;
use crate::generation::Kind;
use crate::message::{Addressed, Named};
use crate::reply::Failure;
use crate::runtime::Runtime;
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::SystemTime;
use transom_protocol::json::Json;
use transom_registry::LocalCall;
use transom_registry::local::Given;
use transom_upstream::Status;

/// The result of a call, a `CallToolResult`.
pub async fn answer(runtime: &Runtime, named: &Named<Box<Addressed>>, call: &LocalCall) -> Result<Bytes, Failure> {
    let unix_seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    let given = Given { unix_seconds, random: rand::random() };
    if let Some(result) = call.answer(&given) {
        return Ok(result.into());
    }
    let data = match call.handler() {
        Some("gateway_status") => gateway_status(runtime, named),
        Some("catalog_search") => {
            let arguments = Json::trusted(std::str::from_utf8(&call.arguments).unwrap_or("{}"));
            discovery::found(runtime, named, Some(arguments)).await?
        }
        other => return Ok(failed(&format!("no internal handler {}", other.unwrap_or_default()))),
    };
    Ok(discovery::result(&data.to_string()))
}

/// What a caller may know of the gateway: of what it sees, and no names of targets, which are not the business of agents.
fn gateway_status(runtime: &Runtime, named: &Named<Box<Addressed>>) -> Value {
    let sight = discovery::sight(runtime, named);
    let slots: Vec<_> = runtime.slots().into_iter().filter(|slot| sight.sees_target(&slot.name)).collect();
    let connected = slots.iter().filter(|slot| slot.handle.state().status == Status::Connected).count();
    json!({
        "status": if connected == slots.len() { "ok" } else { "degraded" },
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": runtime.started.elapsed().as_secs(),
        "generation": sight.generation().number,
        "targets": { "configured": slots.len(), "connected": connected },
        "tools": sight.listed(Kind::Tool).count(),
    })
}

fn failed(message: &str) -> Bytes {
    json!({ "content": [{ "type": "text", "text": message }], "isError": true }).to_string().into()
}
