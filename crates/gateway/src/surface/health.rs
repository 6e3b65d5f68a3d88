//! Is it alive, is it ready, what does it know: `/health`, `/ready`, `/status`.

#![allow(clippy::indexing_slicing, reason = "objects that are built here take a member of any name")]

use crate::authorize::{Sight, Viewer};
use crate::config::Readiness;
use crate::generation::{Generation, Kind, Registry};
use crate::listener::answer::{Reply, json};
use crate::logging::time_text;
use crate::runtime::Runtime;
use http::StatusCode;
use serde_json::{Map, Value, json as value};
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;
use transom_upstream::Status;

/// `/health`: 200 for as long as the process lives.
pub fn health(runtime: &Runtime) -> Reply {
    let all_up = runtime.slots().iter().all(|slot| slot.handle.state().status == Status::Connected);
    let body = value!({
        "status": if all_up { "ok" } else { "degraded" },
        "version": env!("CARGO_PKG_VERSION"),
        "timestamp": time_text(SystemTime::now()),
        "uptimeSeconds": runtime.started.elapsed().as_secs(),
    });
    json(StatusCode::OK, body.to_string())
}

/// `/ready`: 200 if traffic should come here. Without `names` it says nothing of single targets: whoever asks may be
/// anybody.
pub fn ready(runtime: &Runtime, names: bool) -> Reply {
    let generation = runtime.generation_now();
    let slots = runtime.slots();
    let up = slots.iter().filter(|slot| slot.handle.state().status == Status::Connected).count();
    let rule = runtime.readiness.lock().map(|rule| *rule).unwrap_or_default();
    let reason = if runtime.draining.load(Relaxed) {
        Some("shutting down".to_owned())
    } else if generation.number == 0 {
        Some("targets are still being connected".to_owned())
    } else if matches!(generation.registry(), Registry::Awaited) {
        Some("the registry has not been loaded yet".to_owned())
    } else {
        match rule {
            Readiness::All if up < slots.len() => Some(format!("{} of {} targets are not connected", slots.len() - up, slots.len())),
            Readiness::Any if up == 0 && !slots.is_empty() => Some("no target is connected".to_owned()),
            _ => None,
        }
    };
    let servers: Map<String, Value> = slots.iter().map(|slot| (slot.name.to_string(), slot.handle.state().status.name().into())).collect();
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = value!({ "ready": reason.is_none() });
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    if names {
        body["servers"] = servers.into();
    }
    json(status, body.to_string())
}

/// `/status`: the targets and what is exposed, as far as `viewer` may know of it; `None` may know everything. What is quarantined and why stands only where there is `quarantine`.
pub fn status(runtime: &Runtime, viewer: Option<&Viewer>, quarantine: bool) -> Reply {
    let generation = runtime.generation_now();
    let sight = match viewer {
        Some(viewer) => runtime.policy.load().sight(&generation, viewer, &runtime.metrics),
        None => Sight::everything(&generation),
    };
    let mut servers = Map::new();
    for slot in runtime.slots().into_iter().filter(|slot| sight.sees_target(&slot.name)) {
        let state = slot.handle.state();
        let offer = state.offer.as_ref();
        let tools = sight.listed(Kind::Tool).filter(|entry| entry.target_name() == &*slot.name).count();
        let next_retry = state.retry_after().map(|after| time_text(SystemTime::now() + after));
        servers.insert(
            slot.name.to_string(),
            value!({
                "state": state.status.name(),
                "era": offer.map(|offer| offer.era.name()),
                "protocolVersion": offer.map(|offer| offer.revision.text()),
                "since": time_text(state.since),
                "tools": tools,
                "lastError": state.last_error,
                "nextRetryAt": next_retry,
                "restarts": state.restarts,
                "inFlight": slot.handle.in_flight(),
            }),
        );
    }
    let exposed = sight.listed(Kind::Tool).count();
    let virtual_tools = sight.listed(Kind::Tool).filter(|entry| entry.virtual_tool().is_some()).count();
    let mut body = value!({
        "servers": servers,
        "registry": registry(runtime, &generation),
        "tools": { "exposed": exposed, "virtual": virtual_tools, "passthrough": exposed - virtual_tools },
    });
    if quarantine {
        body["quarantined"] = quarantined(&generation).into();
    } else if !body["registry"]["lastError"].is_null() {
        // Its text may speak of tools that this reader does not see.
        body["registry"]["lastError"] = "see /status on the admin listener".into();
    }
    json(StatusCode::OK, body.to_string())
}

/// How it stands with the registry.
fn registry(runtime: &Runtime, generation: &Generation) -> Value {
    let status = runtime.store.status();
    let loaded_at = status.loaded_at.or_else(|| runtime.loaded_at.lock().ok().map(|at| *at));
    let source = match status.sources.as_slice() {
        [] => Value::Null,
        [only] => only.as_str().into(),
        several => value!(several),
    };
    value!({
        "source": source,
        "generation": generation.number,
        "version": status.version,
        "digest": status.digest,
        "origin": status.origin.map(|origin| origin.label()),
        "loadedAt": loaded_at.map(time_text),
        "age": loaded_at.and_then(|at| at.elapsed().ok()).map(|age| age.as_secs()),
        "lastError": status.last_error,
        "stale": status.stale,
    })
}

/// The registry's tools that are out, each with its reason and place.
fn quarantined(generation: &Generation) -> Vec<Value> {
    const MOST: usize = 1_000;
    let Some((tools, loaded)) = generation.tools().zip(generation.registry().loaded()) else { return Vec::new() };
    let found: Vec<String> = tools.problems().iter().map(|problem| loaded.describe(problem)).collect();
    let place = |name: &str| {
        let named = format!("`{name}`");
        let problem = loaded.problems.iter().chain(&found).find(|problem| problem.contains(&named))?;
        problem.split_once(": ").map(|(place, _)| place.to_owned())
    };
    let each = tools.quarantined().iter().take(MOST);
    each.map(|tool| value!({ "tool": tool.name, "reason": tool.reason, "at": place(&tool.name) })).collect()
}
