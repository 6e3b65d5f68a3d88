//! `GET /runtime/tools.ts`: what is listed, as a TypeScript module. It holds what the reader may call and nothing else, because it
//! is made from the same sight as a list.

use crate::authorize::{Sight, Viewer};
use crate::generation::{Entry, Kind};
use crate::listener::answer::Reply;
use crate::listener::mcp::Endpoint;
use crate::metrics::Action;
use crate::names::meant;
use crate::surface::parameter;
use crate::surface::rendered::Selection;
use crate::surface::rest::{LONGEST_NAME, refusal};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use transom_protocol::json::Json;
use transom_registry::name::identifier;
use transom_views::Tool;
use transom_views::typescript::{self, Options};

impl Selection for Options {
    fn length(&self) -> usize {
        [&self.server, &self.tool, &self.filter].into_iter().flatten().map(String::len).sum()
    }
}

/// `GET /runtime/tools.ts`, narrowed by `server`, `tool` and `filter`; `compact` for signatures only, `group=virtual` for virtual tools in a
/// namespace of their own.
pub async fn module(endpoint: &Endpoint, viewer: &Viewer, query: &str, headers: &HeaderMap) -> Reply {
    let options = match options(query) {
        Ok(options) => options,
        Err(message) => return refusal(StatusCode::BAD_REQUEST, "invalid_request", message, Value::Null),
    };
    let runtime = &endpoint.runtime;
    let generation = runtime.generation().await;
    let sight = runtime.policy.load().sight(&generation, viewer, &runtime.metrics);
    runtime.metrics.decided(Action::List, true);
    let gather = || {
        let tools: Vec<(Arc<Entry>, Option<String>)> = sight.listed(Kind::Tool).map(|entry| (entry.clone(), qualified(&sight, entry))).collect();
        let options = options.clone();
        move || {
            let listed: Vec<Tool<'_>> = tools.iter().map(|(entry, qualified)| tool(entry, qualified.as_deref())).collect();
            typescript::module(&listed, &options)
        }
    };
    match runtime.modules.get(&sight, &options, gather).await {
        Some(module) => module.reply(headers, "application/typescript"),
        None => refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the module could not be made", Value::Null),
    }
}

fn options(query: &str) -> Result<Options, &'static str> {
    let filter = |name: &str| parameter(query, name).filter(|value| !value.trim().is_empty());
    let server = filter("server");
    if server.is_none() && parameter(query, "tool").is_some() {
        return Err("`tool` needs `server`: ?server=NAME&tool=NAME, or ?filter=NAME__NAME");
    }
    Ok(Options {
        server,
        tool: filter("tool"),
        filter: filter("filter"),
        compact: filter("compact").is_some_and(|value| value == "true" || value == "1"),
        group_virtual: filter("group").as_deref() == Some("virtual"),
    })
}

/// `target__tool`, if that is a way to call it that nothing else can be meant by.
fn qualified(sight: &Sight<'_>, entry: &Arc<Entry>) -> Option<String> {
    if entry.slot().is_none() || entry.virtual_tool().is_some() {
        return None;
    }
    let spelling = format!("{}__{}", identifier(entry.target_name()), entry.unprefixed());
    let only = meant(sight.generation(), &spelling, |entry| sight.sees(entry)).ok()?;
    (Arc::ptr_eq(&only, entry) && spelling.len() <= LONGEST_NAME).then_some(spelling)
}

fn tool<'e>(entry: &'e Entry, qualified: Option<&'e str>) -> Tool<'e> {
    Tool {
        name: entry.exposed(),
        server: entry.slot().map(|slot| &*slot.name),
        own_name: entry.unprefixed(),
        qualified,
        is_virtual: entry.virtual_tool().is_some(),
        definition: Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // G10, R-001-37
    #[test]
    fn a_tool_is_asked_for_with_its_server() {
        assert!(options("tool=x").is_err() && options("tool=").is_err() && options("server=&tool=x").is_err());
        let both = options("server=a&tool=b&compact=1&group=virtual").unwrap();
        assert_eq!((both.server.as_deref(), both.tool.as_deref(), both.compact, both.group_virtual), (Some("a"), Some("b"), true, true));
        assert_eq!(options("server=&filter=%20").unwrap(), Options::default());
    }
}
