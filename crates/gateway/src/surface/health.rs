//! Is it alive, is it ready, what does it know: `/health`, `/ready`, `/status`.

use crate::config::Readiness;
use crate::generation::Kind;
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

/// `/status`: every target, and what is exposed. What is quarantined and why stands only where there is `quarantine`.
pub fn status(runtime: &Runtime, quarantine: bool) -> Reply {
    let generation = runtime.generation_now();
    let mut servers = Map::new();
    for slot in runtime.slots() {
        let state = slot.handle.state();
        let offer = state.offer.as_ref();
        let tools = generation.listed(Kind::Tool).iter().filter(|entry| entry.target_name() == &*slot.name).count();
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
    let exposed = generation.listed(Kind::Tool).len();
    let loaded_at = runtime.loaded_at.lock().map_or(SystemTime::UNIX_EPOCH, |at| *at);
    let mut body = value!({
        "servers": servers,
        "registry": {
            "source": null,
            "generation": generation.number,
            "digest": null,
            "loadedAt": time_text(loaded_at),
            "age": loaded_at.elapsed().map_or(0, |age| age.as_secs()),
            "lastError": null,
            "stale": false,
        },
        "tools": { "exposed": exposed, "virtual": 0, "passthrough": exposed },
    });
    if quarantine {
        body["quarantined"] = value!([]);
    }
    json(StatusCode::OK, body.to_string())
}
