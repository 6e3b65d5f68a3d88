//! `GET /search`: tools by what they are about.

use crate::authorize::Viewer;
use crate::discovery;
use crate::generation::Registry;
use crate::listener::answer::{Reply, json};
use crate::listener::mcp::Endpoint;
use crate::message::Scope;
use crate::metrics::Action;
use crate::surface::parameter;
use crate::surface::rest::{refusal, server};
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;
use std::fmt::Write;
use transom_protocol::json::Json;
use transom_protocol::write;
use transom_views::search::Query;

/// How many tools there are without `limit`, and the most there are with it.
const USUAL: usize = 10;
const MOST: usize = 100;

/// The tools that fit `q` best, at most `limit`, of one `server` if that is said, none that scores less than `threshold`.
pub async fn search(endpoint: &Endpoint, viewer: &Viewer, query: &str) -> Reply {
    let filter = |name: &str| parameter(query, name).filter(|value| !value.is_empty());
    let bad = |why: &str| refusal(StatusCode::BAD_REQUEST, "invalid_request", why, Value::Null);
    let Some(text) = filter("q").filter(|text| !text.trim().is_empty()) else {
        return bad("`q` is missing: say in a few words what the tool should do, as in /search?q=create+issue");
    };
    let Some(limit) = filter("limit").map_or(Some(USUAL), |limit| limit.parse().ok()) else {
        return bad("`limit` is not a number of tools");
    };
    let threshold = filter("threshold").map_or(Some(0.0), |threshold| threshold.parse::<f64>().ok());
    let Some(threshold) = threshold.filter(|threshold| (0.0..=1.0).contains(threshold)) else {
        return bad("`threshold` is not a number from 0 to 1");
    };
    let generation = endpoint.runtime.generation().await;
    if generation.number == 0 || matches!(generation.registry(), Registry::Awaited) {
        let mut reply =
            refusal(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "it is not known yet which tools there are; try again soon", Value::Null);
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return reply;
    }
    let sight = endpoint.runtime.policy.load().sight(&generation, viewer, &endpoint.runtime.metrics);
    endpoint.runtime.metrics.decided(Action::List, true);
    let scope = Scope { server: filter("server"), prefix: None };
    let query = Query { text: &text, limit: usize::min(limit, MOST), threshold };
    let mut out = String::from("[");
    for (entry, hit) in discovery::search(&generation, &sight, &scope, &query).await {
        if out.len() > 1 {
            out.push(',');
        }
        let definition = Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}"));
        let description = definition.get("description").map_or("\"\"", Json::raw);
        let matched: Vec<String> = hit.matched.iter().map(|field| write::quoted(field.word())).collect();
        // Writing into a string does not fail.
        let _ = write!(
            out,
            "{{\"name\":{},\"server\":{},\"description\":{description},\"score\":{},\"matched\":[{}]}}",
            write::quoted(entry.exposed()),
            server(&entry),
            hit.score,
            matched.join(",")
        );
    }
    out.push(']');
    json(StatusCode::OK, out)
}
