//! What scripts and people can ask for over plain HTTP, beside MCP. Everything that lists tools is rendered from the
//! same generation as an MCP list.

mod events;
mod formats;
mod health;
mod rendered;
mod rest;
mod search;
mod typescript;

use crate::authorize::Viewer;
use crate::listener::answer::{Reply, advise};
use crate::listener::mcp::Endpoint;
use crate::message::Scope;
use crate::reply::{Failure, Reject};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, header};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use transom_protocol::Era;

pub use health::{health, ready, status};

/// Modules of TypeScript that were made.
pub type Modules = rendered::Renderings<transom_views::typescript::Options>;
/// Lists in the formats of LLM providers that were made.
pub type Exports = rendered::Renderings<formats::Part>;

/// A path of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/health`
    Health,
    /// `/ready`
    Ready,
    /// `/status`
    Status,
    /// `/tools`
    Tools,
    /// `/tools/{name}`
    Tool(String),
    /// `/tools/{name}/invoke`
    Invoke(String),
    /// `/events`
    Events,
    /// `/search`
    Search,
    /// `/runtime/tools.ts`
    Module,
}

/// Which route a path is.
pub fn route(path: &str) -> Option<Route> {
    match path {
        "/health" => Some(Route::Health),
        "/ready" => Some(Route::Ready),
        "/status" => Some(Route::Status),
        "/tools" => Some(Route::Tools),
        "/events" => Some(Route::Events),
        "/search" => Some(Route::Search),
        "/runtime/tools.ts" => Some(Route::Module),
        _ => {
            let rest = path.strip_prefix("/tools/")?;
            let (name, invoke) = match rest.strip_suffix("/invoke") {
                Some(name) => (name, true),
                None => (rest, false),
            };
            if name.contains('/') {
                return None;
            }
            let name = percent_decode_str(name).decode_utf8().ok()?.into_owned();
            Some(if invoke { Route::Invoke(name) } else { Route::Tool(name) })
        }
    }
}

/// Answers a route.
pub async fn answer(endpoint: &Endpoint, viewer: &Viewer, route: Route, head: &Parts, body: Bytes) -> Reply {
    let (method, query) = (&head.method, head.uri.query().unwrap_or(""));
    match (route, method) {
        (Route::Health, &Method::GET | &Method::HEAD) => health(&endpoint.runtime),
        (Route::Ready, &Method::GET | &Method::HEAD) => ready(&endpoint.runtime, !endpoint.runtime.authentication.is_configured()),
        (Route::Status, &Method::GET | &Method::HEAD) => status(&endpoint.runtime, Some(viewer), !endpoint.runtime.authentication.is_configured()),
        (Route::Tools, &Method::GET | &Method::HEAD) => rest::tools(endpoint, viewer, query, &head.headers).await,
        (Route::Tool(name), &Method::GET | &Method::HEAD) => rest::tool(endpoint, viewer, &name).await,
        (Route::Tool(name) | Route::Invoke(name), &Method::POST) => rest::invoke(endpoint, viewer, &name, body).await,
        (Route::Events, &Method::GET) => events::events(&endpoint.runtime, viewer, query),
        (Route::Search, &Method::GET | &Method::HEAD) => search::search(endpoint, viewer, query).await,
        (Route::Module, &Method::GET | &Method::HEAD) => typescript::module(endpoint, viewer, query, &head.headers).await,
        (Route::Invoke(_), _) => not_allowed("Method not allowed: POST to invoke a tool", "POST"),
        (Route::Tool(_), _) => not_allowed("Method not allowed", "GET, HEAD, POST"),
        (Route::Events, _) => not_allowed("Method not allowed", "GET"),
        _ => not_allowed("Method not allowed", "GET, HEAD"),
    }
}

/// Whether whoever asks for a path reads refusals as scripts do, also where nothing is there.
pub fn is_for_scripts(path: &str) -> bool {
    let first = path.strip_prefix('/').and_then(|path| path.split('/').next());
    matches!(first, Some("tools" | "search" | "runtime" | "events" | "health" | "ready" | "status"))
}

fn not_allowed(message: &str, allow: &'static str) -> Reply {
    let mut reply = refused(&Failure::rejected(Reject::MethodNotAllowed, message));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    reply
}

/// What scripts read when they are turned away at the door.
pub fn refused(failure: &Failure) -> Reply {
    let status = failure.status(Era::Legacy);
    let code = failure.reason().map_or("internal", Reject::label);
    let mut reply = rest::refusal(status, code, &failure.rpc().message, serde_json::Value::Null);
    advise(&mut reply, failure);
    reply
}

/// A parameter of a query string.
pub fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key) == name).then(|| decoded(value).into_owned())
    })
}

fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['+', '%']) {
        return text.into();
    }
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned().into()
}

impl Scope {
    /// What `server` and `prefix` of a query narrow a list to; an empty one narrows nothing.
    fn of_query(query: &str) -> Scope {
        let filter = |name: &str| parameter(query, name).filter(|value| !value.is_empty());
        Scope { server: filter("server"), prefix: filter("prefix") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I4
    #[test]
    fn only_exact_paths_have_an_answer() {
        assert_eq!(route("/tools/a__b/invoke"), Some(Route::Invoke("a__b".into())));
        assert_eq!(route("/tools/a%20b"), Some(Route::Tool("a b".into())));
        for path in [
            "/",
            "/admin",
            "//health",
            "/health/",
            "/Health",
            "/%68ealth",
            "/tools/a/b",
            "/tools/a/b/invoke",
            "/tools/../admin",
            "/mcp/../admin",
            "/;/admin",
        ] {
            assert_eq!(route(path), None, "{path}");
        }
    }

    #[test]
    fn query_parameters_are_decoded() {
        assert_eq!(parameter("a=1&prefix=get%5F&c", "prefix").as_deref(), Some("get_"));
        assert_eq!(parameter("a=1+2", "a").as_deref(), Some("1 2"));
        assert_eq!(parameter("%73erver=x", "server").as_deref(), Some("x"));
        assert_eq!(parameter("a=1", "b"), None);
    }
}
