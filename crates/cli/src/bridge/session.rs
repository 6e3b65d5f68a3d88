//! What a legacy client has agreed on with the gateway, and what of it would have to be said again to a gateway that forgot.

use crate::client::{PROTOCOL_VERSION, SESSION_ID};
use http::{HeaderMap, HeaderValue};
use std::collections::{BTreeMap, BTreeSet};
use transom_protocol::json::{Json, Kind};
use transom_protocol::message::Params;
use transom_protocol::{Method, Request};

/// The most resources that are subscribed to again.
const MOST_WATCHED: usize = 1_000;

/// A session as requests carry it.
#[derive(Clone, Debug)]
pub struct Session {
    /// `None` where the server keeps none.
    id: Option<HeaderValue>,
    revision: HeaderValue,
    /// Counts how often it was opened.
    pub number: u64,
}

impl Session {
    /// What requests of this session say.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(PROTOCOL_VERSION, self.revision.clone());
        if let Some(id) = &self.id {
            headers.insert(SESSION_ID, id.clone());
        }
        headers
    }

    /// Whether the server keeps it, and can forget it.
    pub fn is_kept(&self) -> bool {
        self.id.is_some()
    }
}

/// What a gateway promises when a session is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    revision: String,
    capabilities: BTreeSet<String>,
    /// Notifications about lists that it would send.
    pub changes: Vec<&'static str>,
}

impl Promise {
    /// The promise in the result of `initialize`.
    pub fn read(result: Json<'_>) -> Option<Promise> {
        let revision = result.get("protocolVersion")?.string()?.into_owned();
        let capabilities = result.get("capabilities").filter(|value| value.kind() == Kind::Object);
        let tells = |name: &str| capabilities.and_then(|all| all.get(name)?.get("listChanged")?.bool()) == Some(true);
        let lists = [("tools", Method::ToolsChanged), ("prompts", Method::PromptsChanged), ("resources", Method::ResourcesChanged)];
        Some(Promise {
            revision,
            capabilities: capabilities.into_iter().flat_map(|all| all.members().map(|(key, _)| key.text().into_owned())).collect(),
            changes: lists.into_iter().filter(|(name, _)| tells(name)).map(|(_, method)| method.name()).collect(),
        })
    }

    /// Whether a client that was promised this would be deceived by that; the end of a sentence that says why.
    pub fn broken_by(&self, other: &Promise) -> Option<String> {
        if other.revision != self.revision {
            return Some(format!("it now speaks {}, and this client was promised {}", other.revision, self.revision));
        }
        let missing: Vec<&str> = self.capabilities.difference(&other.capabilities).map(String::as_str).collect();
        (!missing.is_empty()).then(|| format!("it no longer offers {}", missing.join(", ")))
    }
}

/// How the client opened its session, and what it has asked for since.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The parameters of its `initialize`.
    pub params: Params,
    /// What it was promised.
    pub promise: Promise,
    /// The parameters of its last `logging/setLevel`.
    level: Option<Params>,
    /// Of its subscriptions, by resource.
    watched: BTreeMap<String, Params>,
}

impl Opening {
    /// A client that has asked for nothing yet.
    pub fn new(params: Params, promise: Promise) -> Opening {
        Opening { params, promise, level: None, watched: BTreeMap::new() }
    }

    /// Notes a request whose effect a forgetful gateway would forget.
    pub fn note(&mut self, request: &Request) {
        let uri = || request.params.string("uri").unwrap_or_default();
        match request.method {
            Method::SetLevel => self.level = Some(request.params.clone()),
            Method::Subscribe if self.watched.len() < MOST_WATCHED => drop(self.watched.insert(uri(), request.params.clone())),
            Method::Unsubscribe => drop(self.watched.remove(&uri())),
            _ => {}
        }
    }

    /// Those requests again.
    pub fn again(&self) -> impl Iterator<Item = (Method, &Params)> {
        let level = self.level.iter().map(|params| (Method::SetLevel, params));
        level.chain(self.watched.values().map(|params| (Method::Subscribe, params)))
    }
}

/// The session that was opened, by its reply.
pub fn opened(headers: &HeaderMap, promise: &Promise, number: u64) -> Option<Session> {
    let revision = HeaderValue::from_str(&promise.revision).ok()?;
    Some(Session { id: headers.get(SESSION_ID).cloned(), revision, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(text: &str) -> Promise {
        Promise::read(Json::trusted(text)).unwrap()
    }

    #[test]
    fn a_gateway_that_offers_as_much_as_before_may_take_over() {
        let before = promise(r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}}}"#);
        assert_eq!(before.changes, ["notifications/tools/list_changed"]);
        let more = promise(r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{},"prompts":{}}}"#);
        assert_eq!(before.broken_by(&more), None);
        let less = promise(r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#);
        assert!(before.broken_by(&less).unwrap().contains("logging"));
        let other = promise(r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}}}"#);
        assert!(before.broken_by(&other).unwrap().contains("2025-06-18"));
        assert_eq!(Promise::read(Json::trusted("{}")), None);
    }
}
