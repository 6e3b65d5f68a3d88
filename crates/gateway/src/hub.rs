//! The open roads from server to client: `GET` streams of legacy sessions and modern subscriptions.
//!
//! Every stream has a bounded queue. A reader that does not keep up loses its stream, and nobody else notices.

use crate::authenticate::Principal;
use crate::authenticate::shares::{Share, Shares};
use crate::authorize::Viewer;
use crate::generation::Kind;
use crate::message::Scope;
use crate::metrics::Metrics;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use transom_protocol::json::{Json, Key};
use transom_protocol::{Id, meta, write};
use transom_registry::mask::Mask;
use transom_upstream::SessionKey;

const QUEUE: usize = 64;
const STREAMS: usize = 10_000;
/// Streams of one authenticated principal.
const STREAMS_EACH: usize = 32;
const WATCHED: usize = 100_000;
const WATCHED_EACH: usize = 1_000;

/// What a stream is to carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Changes of the list of resources.
    pub resources: bool,
    /// Updates of these resources, by exposed URI.
    pub uris: Vec<String>,
    /// The id of the `subscriptions/listen` request; a legacy stream has none.
    pub subscription: Option<Id>,
}

impl Wants {
    /// What a legacy `GET` stream carries: everything.
    pub fn legacy() -> Wants {
        Wants { tools: true, prompts: true, resources: true, uris: Vec::new(), subscription: None }
    }
}

/// What changed between two generations, per kind: the targets concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Targets whose tools changed.
    pub tools: HashSet<String>,
    /// Targets whose prompts changed.
    pub prompts: HashSet<String>,
    /// Targets whose resources or templates changed.
    pub resources: HashSet<String>,
}

impl Changed {
    /// Notes a change.
    pub fn note(&mut self, kind: Kind, target: &str) {
        let targets = match kind {
            Kind::Tool => &mut self.tools,
            Kind::Prompt => &mut self.prompts,
            Kind::Resource | Kind::Template => &mut self.resources,
        };
        targets.insert(target.to_owned());
    }
}

/// Who is told about a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watcher {
    /// A legacy session, on one of its streams.
    Session(SessionKey),
    /// A modern subscription.
    Stream(u64),
}

struct Open {
    sender: mpsc::Sender<Bytes>,
    wants: Wants,
    session: Option<SessionKey>,
    scope: Scope,
    viewer: Viewer,
    _share: Share,
}

#[derive(Default)]
struct Inner {
    streams: HashMap<u64, Open>,
    watched: HashMap<(String, String), HashMap<Watcher, Viewer>>,
}

/// The open streams.
pub struct Hub {
    inner: Mutex<Inner>,
    next: AtomicU64,
    /// Streams of every kind, those of the surfaces included.
    shares: Arc<Shares>,
    metrics: Arc<Metrics>,
}

/// The reading end of a stream; dropping it closes the stream.
pub struct Stream {
    id: u64,
    messages: mpsc::Receiver<Bytes>,
    hub: Arc<Hub>,
}

impl Stream {
    /// The next message; `None` when the stream was ended from our side.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.messages.recv().await
    }

    /// Which stream this is.
    pub fn watcher(&self) -> Watcher {
        Watcher::Stream(self.id)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.hub.close(self.id);
    }
}

impl Hub {
    /// No streams.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Hub> {
        Arc::new(Hub { inner: Mutex::default(), next: AtomicU64::new(1), shares: Shares::new(STREAMS_EACH), metrics })
    }

    /// A place for a stream that is kept elsewhere; `None` if its principal has too many.
    pub fn share(&self, principal: &Principal) -> Option<Share> {
        self.shares.take(principal)
    }

    /// Opens a stream; `None` if there are too many.
    pub fn open(self: &Arc<Self>, wants: Wants, session: Option<SessionKey>, scope: Scope, viewer: Viewer) -> Option<Stream> {
        let share = self.shares.take(&viewer.principal)?;
        let (sender, messages) = mpsc::channel(QUEUE);
        let id = self.next.fetch_add(1, Relaxed);
        let mut inner = self.inner.lock().ok()?;
        if inner.streams.len() >= STREAMS {
            return None;
        }
        inner.streams.insert(id, Open { sender, wants, session, scope, viewer, _share: share });
        drop(inner);
        self.metrics.streams.inc();
        Some(Stream { id, messages, hub: self.clone() })
    }

    fn close(&self, id: u64) {
        let Ok(mut inner) = self.inner.lock() else { return };
        if inner.streams.remove(&id).is_some() {
            self.metrics.streams.dec();
        }
    }

    /// Ends every stream in good order.
    pub fn end_all(&self) {
        let Ok(mut inner) = self.inner.lock() else { return };
        let ended = inner.streams.len();
        inner.streams.clear();
        self.metrics.streams.dec_by(i64::try_from(ended).unwrap_or(0));
    }

    /// Ends the streams of a session.
    pub fn end_session(&self, session: SessionKey) {
        let Ok(mut inner) = self.inner.lock() else { return };
        let before = inner.streams.len();
        inner.streams.retain(|_, open| open.session != Some(session));
        self.metrics.streams.dec_by(i64::try_from(before - inner.streams.len()).unwrap_or(0));
    }

    /// Tells who reads the streams of a session, where it was not known when they were opened.
    pub fn introduce(&self, session: SessionKey, viewer: &Viewer) {
        let Ok(mut inner) = self.inner.lock() else { return };
        inner.streams.values_mut().filter(|open| open.session == Some(session)).for_each(|open| open.viewer = viewer.clone());
    }

    /// The sessions that have a stream open.
    pub fn listening(&self) -> HashSet<SessionKey> {
        self.inner.lock().map(|inner| inner.streams.values().filter_map(|open| open.session).collect()).unwrap_or_default()
    }

    /// Tells every stream that wants to know which lists changed for whoever reads it. A session with several streams
    /// hears it on one.
    pub fn changed(&self, mut for_whom: impl FnMut(&Viewer, &Scope) -> Changed) {
        // Judging may take a while: nobody waits for the streams meanwhile.
        let viewers: Vec<(u64, Viewer, Scope)> = match self.inner.lock() {
            Ok(inner) => inner.streams.iter().map(|(id, open)| (*id, open.viewer.clone(), open.scope.clone())).collect(),
            Err(_) => return,
        };
        let changes: HashMap<u64, Changed> = viewers.iter().map(|(id, viewer, scope)| (*id, for_whom(viewer, scope))).collect();
        let Ok(mut inner) = self.inner.lock() else { return };
        let mut heard: HashSet<SessionKey> = HashSet::new();
        let mut slow = Vec::new();
        let mut ids: Vec<u64> = inner.streams.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some((open, changed)) = inner.streams.get(&id).zip(changes.get(&id)) else { continue };
            if open.session.is_some_and(|session| !heard.insert(session)) {
                continue;
            }
            let in_scope = |targets: &HashSet<String>| match &open.scope.server {
                Some(server) => targets.contains(server),
                None => !targets.is_empty(),
            };
            let lists = [
                (open.wants.tools && in_scope(&changed.tools), "notifications/tools/list_changed"),
                (open.wants.prompts && in_scope(&changed.prompts), "notifications/prompts/list_changed"),
                (open.wants.resources && in_scope(&changed.resources), "notifications/resources/list_changed"),
            ];
            for (_, method) in lists.iter().filter(|(wanted, _)| *wanted) {
                let message = notification(method, open.wants.subscription.as_ref(), Json::trusted("{}"));
                if open.sender.try_send(message).is_err() {
                    slow.push(id);
                }
            }
        }
        self.drop_slow(&mut inner, &slow);
    }

    fn drop_slow(&self, inner: &mut Inner, slow: &[u64]) {
        for id in slow {
            if inner.streams.remove(id).is_some() {
                self.metrics.streams.dec();
                tracing::warn!(event = "slow_stream_closed", "a client did not read its stream; the stream was closed");
            }
        }
    }

    /// Starts telling somebody about a resource of a target; `false` if there are too many.
    pub fn watch(&self, watcher: Watcher, viewer: &Viewer, target: &str, source: &str) -> bool {
        let Ok(mut inner) = self.inner.lock() else { return false };
        let own = inner.watched.values().filter(|watchers| watchers.contains_key(&watcher)).count();
        if own >= WATCHED_EACH || inner.watched.len() >= WATCHED {
            return false;
        }
        inner.watched.entry((target.to_owned(), source.to_owned())).or_default().insert(watcher, viewer.clone());
        true
    }

    /// The URIs of a target that anybody wants to hear about.
    pub fn watched_at(&self, target: &str) -> Vec<String> {
        let Ok(inner) = self.inner.lock() else { return Vec::new() };
        inner.watched.keys().filter(|(of, _)| of == target).map(|(_, uri)| uri.clone()).collect()
    }

    /// Stops telling somebody about a resource.
    pub fn unwatch(&self, watcher: Watcher, target: &str, source: &str) {
        let Ok(mut inner) = self.inner.lock() else { return };
        let key = (target.to_owned(), source.to_owned());
        if let Some(watchers) = inner.watched.get_mut(&key) {
            watchers.remove(&watcher);
            if watchers.is_empty() {
                inner.watched.remove(&key);
            }
        }
    }

    /// Stops telling somebody about anything. Gives the targets concerned.
    pub fn unwatch_all(&self, watcher: Watcher) -> HashSet<String> {
        let Ok(mut inner) = self.inner.lock() else { return HashSet::new() };
        let mut targets = HashSet::new();
        inner.watched.retain(|(target, _), watchers| {
            if watchers.remove(&watcher).is_some() {
                targets.insert(target.clone());
            }
            !watchers.is_empty()
        });
        targets
    }

    /// Ends the subscriptions to resources that their holders may not read any more, and streams that are left with
    /// nothing to say. Gives the targets concerned.
    pub fn judge_again(&self, mut may: impl FnMut(&Viewer, &str, &str) -> bool) -> HashSet<String> {
        let watched: Vec<(String, String, Watcher, Viewer)> = match self.inner.lock() {
            Ok(inner) => {
                let each = inner.watched.iter().flat_map(|((target, uri), watchers)| {
                    watchers.iter().map(move |(watcher, viewer)| (target.clone(), uri.clone(), *watcher, viewer.clone()))
                });
                each.collect()
            }
            Err(_) => return HashSet::new(),
        };
        let lost: Vec<_> = watched.into_iter().filter(|(target, uri, _, viewer)| !may(viewer, target, uri)).collect();
        let Ok(mut inner) = self.inner.lock() else { return HashSet::new() };
        let mut targets = HashSet::new();
        for (target, uri, watcher, _) in lost {
            let key = (target, uri);
            if let Some(watchers) = inner.watched.get_mut(&key) {
                watchers.remove(&watcher);
                if watchers.is_empty() {
                    inner.watched.remove(&key);
                }
            }
            targets.insert(key.0);
            if let Watcher::Stream(id) = watcher {
                let idle = |open: &Open| !(open.wants.tools || open.wants.prompts || open.wants.resources);
                let hears = inner.watched.values().any(|watchers| watchers.contains_key(&watcher));
                if !hears && inner.streams.get(&id).is_some_and(idle) && inner.streams.remove(&id).is_some() {
                    self.metrics.streams.dec();
                }
            }
        }
        targets
    }

    /// Tells one session something, on one of its streams; a session without a stream does not hear it.
    pub fn tell_session(&self, session: SessionKey, message: Bytes) {
        let Ok(mut inner) = self.inner.lock() else { return };
        let open = inner.streams.iter().filter(|(_, open)| open.session == Some(session)).min_by_key(|(id, _)| **id);
        let Some((id, sender)) = open.map(|(id, open)| (*id, open.sender.clone())) else { return };
        if sender.try_send(message).is_err() {
            self.drop_slow(&mut inner, &[id]);
        }
    }

    /// A target's resource changed: whoever asked hears it, and nobody else, under the URI that is `exposed`.
    pub fn resource_updated(&self, target: &str, params: &Bytes, mask: Option<&Mask>, exposed: impl FnOnce(&str) -> String) {
        let Ok(text) = std::str::from_utf8(params) else { return };
        let params = Json::trusted(text);
        let Some(source) = params.get("uri").and_then(Json::string) else { return };
        let watchers: HashSet<Watcher> = {
            let Ok(inner) = self.inner.lock() else { return };
            let watched = inner.watched.iter().filter(|((of, watched), _)| of == target && is_part_of(&source, watched));
            watched.flat_map(|(_, watchers)| watchers.keys().copied()).collect()
        };
        if watchers.is_empty() {
            return;
        }
        // Without the lock: it is held against templates, and the rest is searched for secrets.
        let exposed = write::quoted(&exposed(&source));
        let clean = mask.and_then(|mask| mask.json(text));
        if clean.is_some() {
            self.metrics.secret_reflected(target);
        }
        let params = Json::trusted(clean.as_deref().unwrap_or(text));
        let Ok(mut inner) = self.inner.lock() else { return };
        let mut slow = Vec::new();
        for watcher in watchers {
            let id = match watcher {
                Watcher::Stream(id) => Some(id),
                Watcher::Session(session) => inner.streams.iter().filter(|(_, open)| open.session == Some(session)).map(|(id, _)| *id).min(),
            };
            let Some((id, open)) = id.and_then(|id| Some((id, inner.streams.get(&id)?))) else { continue };
            let edited = write::edited(params, |key, _| if key.is("uri") { write::Edit::Set(exposed.as_bytes()) } else { write::Edit::Keep }, &[]);
            let edited = String::from_utf8(edited).unwrap_or_default();
            let message = notification("notifications/resources/updated", open.wants.subscription.as_ref(), Json::trusted(&edited));
            if open.sender.try_send(message).is_err() {
                slow.push(id);
            }
        }
        self.drop_slow(&mut inner, &slow);
    }
}

/// Whether a resource is what was subscribed to, or a part of it: a server may report either. `res://1` is no part of `res://12`, nor the other way
/// round, however much the one begins like the other.
fn is_part_of(source: &str, watched: &str) -> bool {
    match source.strip_prefix(watched) {
        Some(rest) => rest.is_empty() || watched.ends_with('/') || rest.starts_with(['/', '?', '#']),
        None => false,
    }
}

/// A notification, tagged with its subscription where there is one. The tag that a target put there is of our subscription with it, which is nobody
/// else's business.
pub fn notification(method: &str, subscription: Option<&Id>, params: Json<'_>) -> Bytes {
    let without = |name: &'static str| move |key: Key<'_>, _: Json<'_>| if key.is(name) { write::Edit::Drop } else { write::Edit::Keep };
    let said = params.get("_meta").unwrap_or(Json::trusted("{}"));
    let tagged = |tags: &[(&str, &[u8])]| {
        let said = write::edited(said, without(meta::SUBSCRIPTION_ID), tags);
        let kept: &[(&str, &[u8])] = if said == b"{}" { &[] } else { &[("_meta", &said)] };
        write::edited(params, without("_meta"), kept)
    };
    let params = match subscription {
        Some(id) => Some(tagged(&[(meta::SUBSCRIPTION_ID, id.raw())])),
        None if params.raw() == "{}" => None,
        None if said.get(meta::SUBSCRIPTION_ID).is_some() => Some(tagged(&[])),
        None => Some(params.raw().as_bytes().to_vec()),
    };
    write::request(None, method, params.as_deref()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // N5
    #[test]
    fn nobody_hears_by_which_id_the_gateway_has_subscribed() {
        let told =
            |subscription: Option<&Id>, params: &str| String::from_utf8(notification("n", subscription, Json::trusted(params)).to_vec()).unwrap();
        let theirs = r#"{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":"inner","a":1}}"#;
        let bare = r#"{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":"inner"}}"#;
        let id = Id::read(&Bytes::from_static(b"7"), Json::trusted("7")).unwrap();
        assert_eq!(told(None, theirs), r#"{"jsonrpc":"2.0","method":"n","params":{"uri":"u","_meta":{"a":1}}}"#);
        assert_eq!(told(None, bare), r#"{"jsonrpc":"2.0","method":"n","params":{"uri":"u"}}"#);
        let ours = r#"{"jsonrpc":"2.0","method":"n","params":{"uri":"u","_meta":{"a":1,"io.modelcontextprotocol/subscriptionId":7}}}"#;
        assert_eq!(told(Some(&id), theirs), ours);
    }

    // H10
    #[test]
    fn a_part_begins_where_the_whole_ends() {
        for (source, watched, part) in [
            ("res://1", "res://1", true),
            ("res://1/a", "res://1", true),
            ("res://1?q", "res://1", true),
            ("res://1#top", "res://1", true),
            ("res://1/a", "res://1/", true),
            ("res://12", "res://1", false),
            ("res://1", "res://12", false),
            ("file:///secrets", "file:///secret", false),
            ("file:///a", "file:///", true),
        ] {
            assert_eq!(is_part_of(source, watched), part, "{source} of {watched}");
        }
    }
}
