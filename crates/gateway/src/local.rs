//! The tools that stand on no target: mocks and builtins are answered by the engine, the gateway's own here.

use crate::generation::Kind;
use crate::message::{Addressed, Named};
use crate::runtime::Runtime;
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::SystemTime;
use transom_protocol::json::Json;
use transom_registry::LocalCall;
use transom_registry::local::Given;
use transom_upstream::Status;

/// The result of a call, a `CallToolResult`.
pub fn answer(runtime: &Runtime, named: &Named<Box<Addressed>>, call: &LocalCall) -> Bytes {
    let unix_seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    let given = Given { unix_seconds, random: rand::random() };
    if let Some(result) = call.answer(&given) {
        return result.into();
    }
    let data = match call.handler() {
        Some("gateway_status") => gateway_status(runtime, named),
        Some("catalog_search") => catalog_search(runtime, named, &call.arguments),
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

/// Tools that the caller sees, the best match first: a word of the query in a name counts most, then in a title, then in a description.
fn catalog_search(runtime: &Runtime, named: &Named<Box<Addressed>>, arguments: &[u8]) -> Value {
    const MOST: usize = 50;
    let arguments = Json::trusted(std::str::from_utf8(arguments).unwrap_or("{}"));
    let query = arguments.get("query").and_then(Json::string).unwrap_or_default().to_lowercase();
    let words: Vec<&str> = query.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).take(20).collect();
    let limit = arguments.get("limit").and_then(|limit| limit.raw().parse::<usize>().ok()).unwrap_or(10).min(MOST);
    let policy = runtime.policy.load();
    let viewer = crate::authorize::viewer(&policy, &named.context, named.session.as_deref());
    let sight = policy.sight(&named.context.generation, &viewer, &runtime.metrics);
    let mut found: Vec<(usize, Value)> = Vec::new();
    for entry in sight.listed(Kind::Tool) {
        let definition = Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}"));
        let text = |member: &str| definition.get(member).and_then(Json::string).unwrap_or_default().into_owned();
        let description = text("description");
        let places = [(5, entry.exposed().to_lowercase()), (3, text("title").to_lowercase()), (1, description.to_lowercase())];
        let score: usize =
            words.iter().map(|word| places.iter().filter(|(_, place)| place.contains(word)).map(|(weight, _)| weight).sum::<usize>()).sum();
        if score > 0 {
            found.push((score, json!({ "name": entry.exposed(), "description": description, "score": score })));
        }
    }
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    json!({ "tools": found.into_iter().take(limit).map(|(_, tool)| tool).collect::<Vec<_>>() })
}

fn failed(message: &str) -> Bytes {
    json!({ "content": [{ "type": "text", "text": message }], "isError": true }).to_string().into()
}
