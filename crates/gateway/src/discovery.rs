//! Finds tools, for agents and for scripts: the search that all of them share, and the gateway's own tools that show what it finds.
//!
//! Knows what a caller sees. How well a tool fits a query is the business of `transom_views::search`; how a tool that was found is called, of
//! [`crate::invoke`].

use crate::authorize::Sight;
use crate::generation::{Entry, Generation, Kind, Own};
use crate::message::{Addressed, Named, Scope};
use crate::names::{meant, not_one};
use crate::reply::Failure;
use crate::runtime::Runtime;
use crate::virtualize::check_available;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use transom_protocol::error::shorten;
use transom_protocol::json::Json;
use transom_protocol::write;
use transom_registry::{Rejected, Takes};
use transom_views::search::{Hit, Query};

/// How many tools an agent gets that does not say how many it wants. The most it can get stands in the definition.
const USUAL: usize = 10;
/// As much of a description is shown to an agent; `describe_tool` shows all of it.
const DESCRIPTION: usize = 400;

/// The listed tools that somebody sees and that fit best, best first.
pub async fn search(generation: &Arc<Generation>, sight: &Sight<'_>, scope: &Scope, query: &Query<'_>) -> Vec<(Arc<Entry>, Hit)> {
    let listed = generation.listed(Kind::Tool);
    let index = generation.index().await;
    let sees = |place: usize| sight.sees_tool_at(place) && listed.get(place).is_some_and(|entry| scope.admits(entry));
    index.search(query, sees).into_iter().filter_map(|hit| Some((listed.get(hit.tool)?.clone(), hit))).collect()
}

/// Answers a call of one of the gateway's own tools.
pub async fn answer(runtime: &Runtime, named: &Named<Box<Addressed>>) -> Result<Bytes, Failure> {
    let Addressed { call, entry, .. } = &*named.message;
    let arguments = call.params.get("arguments");
    let Some(entry) = entry else { return Err(Failure::Internal) };
    match entry.own() {
        Some(Own::Search) => found(runtime, named, arguments).await.map(|found| result(&found.to_string())),
        Some(Own::Describe) => {
            entry.judge(arguments)?;
            let name = arguments.and_then(|arguments| arguments.get("name")?.string()).unwrap_or_default();
            let entry = described(runtime, named, &name)?;
            Ok(result(std::str::from_utf8(entry.json()).unwrap_or("{}")))
        }
        // Such a call became the call inside it before it got here.
        Some(Own::Invoke) | None => Err(Failure::Internal),
    }
}

/// What `catalog_search` finds for whoever calls it.
pub async fn found(runtime: &Runtime, named: &Named<Box<Addressed>>, arguments: Option<Json<'_>>) -> Result<Value, Failure> {
    static TAKES: LazyLock<Takes> = LazyLock::new(|| Takes::by(Own::Search.definition()));
    TAKES.judge(arguments)?;
    let arguments = arguments.unwrap_or(Json::trusted("{}"));
    let text = arguments.get("query").and_then(Json::string).unwrap_or_default();
    if text.trim().is_empty() {
        return Err(Failure::arguments(Rejected::Invalid, "`query` is empty; say in a few words what the tool should do"));
    }
    let limit = arguments.get("limit").and_then(Json::unsigned).and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL);
    let context = &named.context;
    let sight = sight(runtime, named);
    let hits = search(&context.generation, &sight, &context.scope, &Query { text: &text, limit, threshold: 0.0 }).await;
    let tools = hits.iter().map(|(entry, hit)| json!({ "name": entry.exposed(), "description": in_short(entry), "score": hit.score }));
    Ok(json!({ "tools": tools.collect::<Vec<_>>() }))
}

/// What the caller sees.
pub fn sight<'n>(runtime: &Runtime, named: &'n Named<Box<Addressed>>) -> Sight<'n> {
    let policy = runtime.policy.load();
    let viewer = crate::authorize::viewer(&policy, &named.context, named.session.as_deref());
    policy.sight(&named.context.generation, &viewer, &runtime.metrics)
}

fn in_short(entry: &Entry) -> String {
    let definition = Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}"));
    let description = definition.get("description").and_then(Json::string).unwrap_or_default();
    let short = shorten(&description, DESCRIPTION);
    if short.len() < description.len() { format!("{short}…") } else { short.to_owned() }
}

/// The tool of this name, if the caller sees it, as a call of it would find it.
fn described(runtime: &Runtime, named: &Named<Box<Addressed>>, name: &str) -> Result<Arc<Entry>, Failure> {
    let context = &named.context;
    let policy = runtime.policy.load();
    let viewer = crate::authorize::viewer(&policy, context, named.session.as_deref());
    let sees = |entry: &Entry| context.scope.admits(entry) && policy.may_see(&context.generation, &viewer, entry, &runtime.metrics);
    let entry = meant(&context.generation, name, sees).map_err(|seen| not_one(name, &seen))?;
    check_available(entry.slot(), Some(&entry))?;
    Ok(entry)
}

/// A `CallToolResult` of this data, as text and as data.
pub fn result(data: &str) -> Bytes {
    let text = write::quoted(data);
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"structuredContent\":{data}}}").into()
}
