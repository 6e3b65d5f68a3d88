//! Tools for scripts: `/tools`, `/tools/{name}`, `/tools/{name}/invoke`. A call passes every stage like any other call.

use crate::authorize::Viewer;
use crate::generation::{Entry, Found, Generation, Kind};
use crate::listener::answer::{Reply, json};
use crate::listener::mcp::Endpoint;
use crate::message::{Call, Context, Incoming, Scope};
use crate::metrics::Action;
use crate::names::only_seen;
use crate::reply::Failure;
use crate::surface::parameter;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json as value};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tower::Service;
use transom_protocol::json::{Json, Kind as JsonKind};
use transom_protocol::message::Params;
use transom_protocol::{Era, Limits, Method, Revision, json as scanner, write};
use transom_upstream::{CallError, Caller, Outbox};

/// `GET /tools`: what is listed, narrowed by `server` and `prefix`; `compact` for the short form, `status=all` for what is
/// down as well.
pub async fn tools(endpoint: &Endpoint, viewer: &Viewer, query: &str) -> Reply {
    let generation = endpoint.runtime.generation().await;
    let sight = endpoint.runtime.policy.load().sight(&generation, viewer, &endpoint.runtime.metrics);
    endpoint.runtime.metrics.decided(Action::List, true);
    let filter = |name: &str| parameter(query, name).filter(|value| !value.is_empty());
    let scope = Scope { server: filter("server"), prefix: filter("prefix") };
    let compact = filter("compact").is_some_and(|value| value == "true" || value == "1");
    let all = filter("status").as_deref() == Some("all");
    let remembered = sight.remembered(Kind::Tool).filter(|_| all);
    let mut out = vec![b'['];
    for entry in sight.listed(Kind::Tool).chain(remembered).filter(|entry| scope.admits(entry)) {
        if out.len() > 1 {
            out.push(b',');
        }
        definition(&mut out, entry, compact);
    }
    out.push(b']');
    json(StatusCode::OK, out)
}

/// `GET /tools/{name}`: the whole definition.
pub async fn tool(endpoint: &Endpoint, viewer: &Viewer, name: &str) -> Reply {
    let generation = endpoint.runtime.generation().await;
    match find(endpoint, &generation, viewer, name) {
        Ok(entry) => {
            let mut out = Vec::new();
            definition(&mut out, &entry, false);
            json(StatusCode::OK, out)
        }
        Err(refusal) => *refusal,
    }
}

/// The tool that a name means to somebody. What they do not see does not exist.
fn find(endpoint: &Endpoint, generation: &Generation, viewer: &Viewer, name: &str) -> Result<Arc<Entry>, Box<Reply>> {
    let matches = match generation.find(Kind::Tool, name) {
        Found::One(entry) => vec![entry],
        Found::Many(matches) => matches,
        Found::None => Vec::new(),
    };
    let sight = endpoint.runtime.policy.load().sight(generation, viewer, &endpoint.runtime.metrics);
    only_seen(&sight, &Scope::default(), matches).map_err(|seen| match seen.as_slice() {
        [] => Box::new(refusal(StatusCode::NOT_FOUND, "tool_not_found", &format!("Tool not found: {name}"), Value::Null)),
        several => {
            let names: Vec<&str> = several.iter().map(|entry| entry.exposed()).collect();
            Box::new(refusal(StatusCode::BAD_REQUEST, "ambiguous_name", &format!("{name} could mean {}", names.join(", ")), Value::Null))
        }
    })
}

fn definition(out: &mut Vec<u8>, entry: &Entry, compact: bool) {
    let tool = Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}"));
    let status = if entry.available() { &b"\"available\""[..] } else { b"\"unavailable\"" };
    let server = server(entry);
    if compact {
        let description = tool.get("description").map_or("\"\"", Json::raw);
        out.extend_from_slice(
            format!("{{\"name\":{},\"description\":{description},\"server\":{server}}}", write::quoted(entry.exposed())).as_bytes(),
        );
    } else {
        let mine = |key: transom_protocol::json::Key<'_>, _: Json<'_>| {
            if matches!(key.raw(), "server" | "status") { write::Edit::Drop } else { write::Edit::Keep }
        };
        out.extend_from_slice(&write::edited(tool, mine, &[("server", server.as_bytes()), ("status", status)]));
    }
}

/// The target's name; `null` for a tool that stands on none.
fn server(entry: &Entry) -> String {
    if entry.slot().is_some() { write::quoted(entry.target_name()) } else { "null".to_owned() }
}

/// `POST /tools/{name}/invoke` with `{"arguments": {…}}`.
pub async fn invoke(endpoint: &Endpoint, viewer: &Viewer, name: &str, body: Bytes) -> Reply {
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return refusal(StatusCode::BAD_REQUEST, "invalid_name", "a tool name has 1 to 128 characters and no control characters", Value::Null);
    }
    let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
    let request = match scanner::check(&body, &Limits::REQUEST) {
        Ok(request) if request.kind() == JsonKind::Object => request,
        Ok(_) => return refusal(StatusCode::BAD_REQUEST, "invalid_request", "the body must be a JSON object with `arguments`", Value::Null),
        Err(fault) => return refusal(StatusCode::BAD_REQUEST, "invalid_request", &format!("the body is refused: {fault}"), Value::Null),
    };
    let arguments = match request.get("arguments") {
        None => Json::trusted("{}"),
        Some(arguments) if arguments.raw() == "null" => Json::trusted("{}"),
        Some(arguments) if arguments.kind() == JsonKind::Object => arguments,
        Some(_) => return refusal(StatusCode::BAD_REQUEST, "invalid_arguments", "`arguments` must be an object", Value::Null),
    };
    let generation = endpoint.runtime.generation().await;
    let entry = match find(endpoint, &generation, viewer, name) {
        Ok(entry) => entry,
        Err(refusal) => return *refusal,
    };
    if entry.available()
        && entry.virtual_tool().is_none()
        && let Err(violations) = transom_registry::source::validate(std::str::from_utf8(entry.json()).unwrap_or("{}"), arguments.raw())
    {
        return refusal(StatusCode::BAD_REQUEST, "invalid_arguments", "the arguments do not fit the tool's input schema", value!(violations));
    }
    let params = format!("{{\"name\":{},\"arguments\":{}}}", write::quoted(name), arguments.raw());
    let context = Arc::new(Context {
        generation,
        started: Instant::now(),
        era: Era::Legacy,
        revision: Revision::NEWEST_LEGACY,
        principal: viewer.principal.clone(),
        circumstances: viewer.circumstances.clone(),
        scope: Scope::default(),
        session_id: None,
        attached: None,
        session: OnceLock::new(),
        caller: Caller::default(),
        outbox: Arc::new(Outbox::deaf()),
        bytes: body.len(),
        about: OnceLock::new(),
        upstream_nanos: AtomicU64::new(0),
        upstream_bytes: AtomicUsize::new(0),
        plain_refusals: true,
    });
    let started = context.started;
    let call = Box::new(Call {
        id: None,
        method: Method::CallTool,
        method_text: Bytes::from_static(b"tools/call"),
        params: Params::trusted(params),
        kind: Kind::Tool,
        name: name.to_owned(),
        param_headers: Vec::new(),
    });
    match endpoint.mcp.call.clone().call(Incoming { context, message: call }).await {
        Ok(result) => {
            let took = started.elapsed().as_millis();
            let server = server(&entry);
            let result = String::from_utf8_lossy(&result).into_owned();
            json(StatusCode::OK, format!("{{\"success\":true,\"result\":{result},\"server\":{server},\"durationMs\":{took}}}"))
        }
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> Reply {
    let (status, code) = match failure {
        Failure::Rejected { reason: crate::reply::Reject::UnknownTool, .. } => (StatusCode::NOT_FOUND, "tool_not_found"),
        Failure::Rejected { reason, .. } => (StatusCode::BAD_REQUEST, reason.label()),
        Failure::Arguments { violations, .. } => {
            return refusal(StatusCode::BAD_REQUEST, "invalid_arguments", "the arguments do not fit the tool's input schema", value!(violations));
        }
        Failure::Absent { .. } => (StatusCode::SERVICE_UNAVAILABLE, "upstream_unavailable"),
        Failure::Limited { reason, .. } => (failure.status(Era::Modern), reason.label()),
        Failure::Challenged(challenge) => (failure.status(Era::Legacy), challenge.reason.label()),
        Failure::InvalidParams(_) => (StatusCode::BAD_REQUEST, "invalid_arguments"),
        Failure::Refused { .. } => (StatusCode::BAD_GATEWAY, "target_error"),
        Failure::Upstream { error, .. } => match error {
            CallError::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "upstream_unavailable"),
            CallError::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            CallError::TimedOut(_) => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
            CallError::Lost(_) => (StatusCode::BAD_GATEWAY, "upstream_lost"),
            CallError::Invalid(_) => (StatusCode::BAD_GATEWAY, "upstream_invalid"),
            CallError::Refused(_) => (StatusCode::BAD_GATEWAY, "target_error"),
        },
        Failure::Cancelled => (StatusCode::BAD_GATEWAY, "cancelled"),
        Failure::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    };
    let error = failure.rpc();
    let data = error.data.as_ref().and_then(|data| serde_json::from_slice(data).ok()).unwrap_or(Value::Null);
    let mut details = value!({ "rpcCode": error.code });
    if let Some(details) = details.as_object_mut()
        && let Value::Object(data) = data
    {
        details.extend(data);
    }
    let mut reply = refusal(status, code, &error.message, details);
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        let seconds = failure.retry_after().map_or(1, |after| after.as_secs().max(1));
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

/// A refusal as scripts read it.
pub fn refusal(status: StatusCode, code: &str, message: &str, details: Value) -> Reply {
    json(status, value!({ "success": false, "error": { "code": code, "message": message, "details": details } }).to_string())
}
