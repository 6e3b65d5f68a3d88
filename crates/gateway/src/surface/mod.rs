//! What scripts and people can ask for over plain HTTP, beside MCP. Everything that lists tools is rendered from the
//! same generation as an MCP list.

mod events;
mod health;
mod rest;

use crate::authorize::Viewer;
use crate::listener::answer::{Reply, challenged, not_allowed};
use crate::listener::mcp::Endpoint;
use crate::reply::{Failure, Reject};
use bytes::Bytes;
use http::{HeaderValue, Method, header};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use transom_protocol::Era;

pub use health::{health, ready, status};

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
}

/// Which route a path is.
pub fn route(path: &str) -> Option<Route> {
    match path {
        "/health" => Some(Route::Health),
        "/ready" => Some(Route::Ready),
        "/status" => Some(Route::Status),
        "/tools" => Some(Route::Tools),
        "/events" => Some(Route::Events),
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
pub async fn answer(endpoint: &Endpoint, viewer: &Viewer, route: Route, method: &Method, query: &str, body: Bytes) -> Reply {
    match (route, method) {
        (Route::Health, &Method::GET | &Method::HEAD) => health(&endpoint.runtime),
        (Route::Ready, &Method::GET | &Method::HEAD) => ready(&endpoint.runtime, !endpoint.runtime.authentication.is_configured()),
        (Route::Status, &Method::GET) => status(&endpoint.runtime, Some(viewer), !endpoint.runtime.authentication.is_configured()),
        (Route::Tools, &Method::GET) => rest::tools(endpoint, viewer, query).await,
        (Route::Tool(name), &Method::GET) => rest::tool(endpoint, viewer, &name).await,
        (Route::Tool(name) | Route::Invoke(name), &Method::POST) => rest::invoke(endpoint, viewer, &name, body).await,
        (Route::Events, &Method::GET) => events::events(&endpoint.runtime, viewer, query),
        (Route::Invoke(_), _) => not_allowed("Method not allowed: POST to invoke a tool", "POST"),
        _ => not_allowed("Method not allowed", "GET"),
    }
}

/// What scripts read when they are turned away at the door.
pub fn refused(failure: &Failure) -> Reply {
    let status = failure.status(Era::Legacy);
    let code = failure.reason().map_or("internal", Reject::label);
    let mut reply = rest::refusal(status, code, &failure.rpc().message, serde_json::Value::Null);
    challenged(&mut reply, failure);
    if let Some(after) = failure.retry_after() {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    reply
}

/// A parameter of a query string.
pub fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then(|| {
            let spaced: Cow<'_, str> = if value.contains('+') { value.replace('+', " ").into() } else { value.into() };
            percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        })
    })
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
        assert_eq!(parameter("a=1", "b"), None);
    }
}
