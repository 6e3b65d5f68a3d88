//! Tools for scripts: `/tools`, `/tools/{name}`, `/tools/{name}/invoke`. A call passes every stage like any other call.

use crate::authorize::Viewer;
use crate::generation::{Entry, Generation, Kind};
use crate::listener::answer::{Reply, json};
use crate::listener::mcp::{Endpoint, malformed_failure};
use crate::message::{Call, Context, Incoming, Scope};
use crate::metrics::Action;
use crate::names::{meant, not_one};
use crate::reply::{Failure, Reject};
use crate::surface::{formats, parameter};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json as value};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tower::Service;
use transom_protocol::json::{Json, Key, Kind as JsonKind};
use transom_protocol::message::Params;
use transom_protocol::{Era, Limits, Malformed, Method, Revision, json as scanner, write};
use transom_upstream::{CallError, Caller, Outbox};
use transom_views::provider::Allowed;

/// Bytes of a name that can be invoked.
pub const LONGEST_NAME: usize = 128;

/// `GET /tools`: what is listed, narrowed by `server`, `prefix` and `allowed`; `compact` for the short form, `status=all` for what is
/// down as well, `format` for the format of an LLM provider.
pub async fn tools(endpoint: &Endpoint, viewer: &Viewer, query: &str, headers: &HeaderMap) -> Reply {
    let filter = |name: &str| parameter(query, name).filter(|value| !value.is_empty());
    if let Some(format) = filter("format") {
        return formats::tools(endpoint, viewer, query, headers, &format).await;
    }
    let compact = match filter("compact").as_deref() {
        None | Some("false" | "0") => false,
        Some("true" | "1") => true,
        Some(_) => return bad_query("`compact` is true or false"),
    };
    let all = match filter("status").as_deref() {
        None | Some("available") => false,
        Some("all") => true,
        Some(_) => return bad_query("`status` is `available`, or `all` for tools of targets that are down as well"),
    };
    let allowed = Allowed::read(parameter(query, "allowed").as_deref());
    let generation = endpoint.runtime.generation().await;
    let sight = endpoint.runtime.policy.load().sight(&generation, viewer, &endpoint.runtime.metrics);
    endpoint.runtime.metrics.decided(Action::List, true);
    let scope = Scope::of_query(query);
    let wanted = |entry: &&Arc<Entry>| scope.admits(entry) && allowed.admits(entry.exposed(), entry.exposed());
    let remembered = sight.remembered(Kind::Tool).filter(|_| all);
    let mut out = vec![b'['];
    for entry in sight.listed(Kind::Tool).chain(remembered).filter(wanted) {
        if out.len() > 1 {
            out.push(b',');
        }
        definition(&mut out, entry, compact);
    }
    out.push(b']');
    json(StatusCode::OK, out)
}

fn bad_query(why: &str) -> Reply {
    refusal(StatusCode::BAD_REQUEST, "invalid_request", why, Value::Null)
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
        Err(seen) => failed(&not_one(name, &seen)),
    }
}

/// The tool that a name means to somebody, also by the safe form that a provider's format gave it; `Err` with all of them if it is not one.
fn find(endpoint: &Endpoint, generation: &Generation, viewer: &Viewer, name: &str) -> Result<Arc<Entry>, Vec<Arc<Entry>>> {
    let (policy, metrics) = (endpoint.runtime.policy.load(), &endpoint.runtime.metrics);
    meant(generation, name, |entry| policy.may_see(generation, viewer, entry, metrics)).or_else(|seen| {
        let safe = || formats::with_safe_name(&policy.sight(generation, viewer, metrics), name);
        if seen.is_empty() { safe().ok_or(seen) } else { Err(seen) }
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
        let mine = |key: Key<'_>, _: Json<'_>| {
            if key.is("server") || key.is("status") { write::Edit::Drop } else { write::Edit::Keep }
        };
        out.extend_from_slice(&write::edited(tool, mine, &[("server", server.as_bytes()), ("status", status)]));
    }
}

/// The target's name; `null` for a tool that stands on none.
pub fn server(entry: &Entry) -> String {
    if entry.slot().is_some() { write::quoted(entry.target_name()) } else { "null".to_owned() }
}

/// `POST /tools/{name}/invoke` with `{"arguments": {…}}`.
pub async fn invoke(endpoint: &Endpoint, viewer: &Viewer, name: &str, body: Bytes) -> Reply {
    let refuse = |reason: Reject, why: &str| {
        endpoint.runtime.rejected(reason);
        refusal(StatusCode::BAD_REQUEST, "invalid_request", why, Value::Null)
    };
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        endpoint.runtime.rejected(Reject::InvalidRequest);
        return refusal(StatusCode::BAD_REQUEST, "invalid_name", "a tool name has 1 to 128 bytes and no control characters", Value::Null);
    }
    let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
    let request = match scanner::check(&body, &Limits::REQUEST) {
        Ok(request) if request.kind() == JsonKind::Object => request,
        Ok(_) => return refuse(Reject::InvalidRequest, "the body must be a JSON object with `arguments`"),
        Err(fault) => {
            let why = format!("the body is refused: {fault}");
            return refuse(malformed_failure(&Malformed::Parse(fault)).reason().unwrap_or(Reject::Parse), &why);
        }
    };
    // Whether they are an object is judged with all else about them, by the stages.
    let arguments = request.get("arguments").filter(|arguments| arguments.kind() != JsonKind::Null).unwrap_or(Json::trusted("{}"));
    let generation = endpoint.runtime.generation().await;
    // What was found is what is called, however it was spelled. What was not is refused by the stages, which count and log it.
    let found = find(endpoint, &generation, viewer, name);
    let name = found.as_ref().map_or(name, |entry| entry.exposed());
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
        from_script: true,
    });
    let started = context.started;
    let call = Box::new(Call {
        id: None,
        method: Method::CallTool,
        method_text: Bytes::from_static(b"tools/call"),
        params: Params::trusted(params),
        kind: Kind::Tool,
        name: name.to_owned(),
        param_headers: None,
    });
    match endpoint.mcp.call.clone().call(Incoming { context: context.clone(), message: call }).await {
        Ok(result) => {
            let took = started.elapsed().as_millis();
            let entry = context.about.get().and_then(|about| about.entry.as_ref());
            let server = entry.map_or_else(|| "null".to_owned(), |entry| server(entry));
            let result = String::from_utf8_lossy(&result).into_owned();
            json(StatusCode::OK, format!("{{\"success\":true,\"result\":{result},\"server\":{server},\"durationMs\":{took}}}"))
        }
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> Reply {
    let (status, code) = match failure {
        Failure::Rejected { reason: Reject::UnknownTool, .. } => (StatusCode::NOT_FOUND, "tool_not_found"),
        // What MCP tells without a status of its own is the caller's mistake here.
        Failure::Rejected { reason, .. } => match failure.status(Era::Legacy) {
            StatusCode::OK => (StatusCode::BAD_REQUEST, reason.label()),
            status => (status, reason.label()),
        },
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
    let data = error.data.as_deref().and_then(|data| std::str::from_utf8(data).ok()).map_or(Json::trusted("{}"), Json::trusted);
    // Whether a call ran and when to come back is what we say, not what a target says in an error of its own.
    let theirs = matches!(failure, Failure::Refused { .. } | Failure::Upstream { error: CallError::Refused(_), .. });
    let ours = |key: Key<'_>, _: Json<'_>| match key.is("rpcCode") || theirs && (key.is("executed") || key.is("retryAfterMs")) {
        true => write::Edit::Drop,
        false => write::Edit::Keep,
    };
    let details = write::edited(data, ours, &[("rpcCode", error.code.to_string().as_bytes())]);
    let mut reply = refusal_with(status, code, &error.message, std::str::from_utf8(&details).unwrap_or("null"));
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        let seconds = failure.retry_after().map_or(1, |after| after.as_secs().max(1));
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

/// A refusal as scripts read it.
pub fn refusal(status: StatusCode, code: &str, message: &str, details: Value) -> Reply {
    refusal_with(status, code, message, &details.to_string())
}

fn refusal_with(status: StatusCode, code: &str, message: &str, details: &str) -> Reply {
    let (code, message) = (write::quoted(code), write::quoted(message));
    json(status, format!("{{\"success\":false,\"error\":{{\"code\":{code},\"message\":{message},\"details\":{details}}}}}"))
}
