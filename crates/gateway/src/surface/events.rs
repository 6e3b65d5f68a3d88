//! `GET /events`: what changed, as it changes.

use crate::authenticate::shares::Share;
use crate::authenticate::validity::Validity;
use crate::authorize::Viewer;
use crate::listener::answer::{Reply, open_stream};
use crate::message::Scope;
use crate::reply::{Failure, Reject};
use crate::runtime::{Runtime, Told, ToolChanged};
use crate::surface::refused;
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use transom_protocol::sse;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream of `tool-changed` events, narrowed like a list. It ends when the gateway does, or the reader's credentials.
pub fn events(runtime: &Arc<Runtime>, viewer: &Viewer, query: &str) -> Reply {
    let Some(share) = runtime.hub.share(&viewer.principal) else {
        runtime.rejected(Reject::StreamCap);
        return refused(&Failure::rejected(Reject::StreamCap, "Too many streams; close one or try again later"));
    };
    let mut told = runtime.told.subscribe();
    let seen = told.borrow_and_update().clone();
    let reader = Reader {
        seen,
        told,
        scope: Scope::of_query(query),
        ended: runtime.ended.clone(),
        alive: tokio::time::interval(KEEP_ALIVE),
        validity: runtime.authentication.validity(&viewer.principal),
        viewer: viewer.clone(),
        runtime: runtime.clone(),
        _share: share,
    };
    open_stream(futures_util::stream::unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) }))
}

/// Somebody who reads events. One who is slow hears of several changes as of one.
struct Reader {
    runtime: Arc<Runtime>,
    viewer: Viewer,
    scope: Scope,
    told: watch::Receiver<Arc<Told>>,
    seen: Arc<Told>,
    ended: watch::Receiver<bool>,
    alive: tokio::time::Interval,
    validity: Validity,
    _share: Share,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                biased;
                () = self.validity.over() => return None,
                _ = self.ended.wait_for(|ended| *ended) => return None,
                changed = self.told.changed() => changed.ok()?,
                _ = self.alive.tick() => return Some(sse::KEEP_ALIVE),
            }
            if let Some(event) = self.changed() {
                return Some(event);
            }
        }
    }

    /// What is different for this reader since it last heard of something.
    fn changed(&mut self) -> Option<Bytes> {
        let now = self.told.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.seen, now.clone());
        let metrics = &self.runtime.metrics;
        let before = before.policy.sight(&before.generation, &self.viewer, metrics);
        let after = now.policy.sight(&now.generation, &self.viewer, metrics);
        render(&crate::changes::between(&before, &after).1, &self.scope)
    }
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
