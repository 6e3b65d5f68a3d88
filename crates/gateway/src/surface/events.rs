//! `GET /events`: what changed, as it changes.

use crate::authenticate::Principal;
use crate::listener::answer::{Reply, event_stream};
use crate::message::Scope;
use crate::reply::{Failure, Reject};
use crate::runtime::{Runtime, ToolChanged};
use crate::surface::{parameter, refused};
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use transom_protocol::sse;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream of `tool-changed` events, narrowed like a list. It ends when the gateway does, or the reader's credentials.
pub fn events(runtime: &Runtime, principal: &Principal, query: &str) -> Reply {
    let Some(share) = runtime.hub.share(principal) else {
        runtime.rejected(Reject::StreamCap);
        return refused(&Failure::rejected(Reject::StreamCap, "Too many streams; close one or try again later"));
    };
    let leave = (runtime.authentication.validity(principal), share);
    let filter = |name: &str| parameter(query, name).filter(|value| !value.is_empty());
    let scope = Scope { server: filter("server"), prefix: filter("prefix") };
    let state = (runtime.events.subscribe(), scope, runtime.ended.clone(), tokio::time::interval(KEEP_ALIVE), leave);
    event_stream(futures_util::stream::unfold(state, |(mut events, scope, mut ended, mut alive, mut leave)| async move {
        loop {
            let chunk = tokio::select! {
                biased;
                () = leave.0.over() => return None,
                event = events.recv() => match event {
                    Ok(event) => render(&event, &scope),
                    // A reader that fell behind is told so and can ask for the list.
                    Err(RecvError::Lagged(missed)) => Some(Bytes::from(format!("event: lagged\ndata: {{\"missed\":{missed}}}\n\n"))),
                    Err(RecvError::Closed) => return None,
                },
                _ = ended.wait_for(|ended| *ended) => return None,
                _ = alive.tick() => Some(sse::KEEP_ALIVE),
            };
            if let Some(chunk) = chunk {
                return Some((chunk, (events, scope, ended, alive, leave)));
            }
        }
    }))
}

fn render(event: &ToolChanged, scope: &Scope) -> Option<Bytes> {
    let admits = |(name, target): &&(String, String)| {
        scope.server.as_deref().is_none_or(|server| server == target) && scope.prefix.as_deref().is_none_or(|prefix| name.starts_with(prefix))
    };
    let names = |list: &[(String, String)]| -> Vec<String> { list.iter().filter(admits).map(|(name, _)| name.clone()).collect() };
    let (added, removed, changed) = (names(&event.added), names(&event.removed), names(&event.changed));
    if added.is_empty() && removed.is_empty() && changed.is_empty() {
        return None;
    }
    let data = json!({ "generation": event.generation, "added": added, "removed": removed, "changed": changed });
    Some(Bytes::from(format!("event: tool-changed\ndata: {data}\n\n")))
}
