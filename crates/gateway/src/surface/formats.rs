//! `GET /tools?format=…`: what is listed, in the format of an LLM provider. The names that a provider needs lead back to the tools
//! in [`rest`](super::rest), so what a model picks can be invoked as it picked it.

use crate::authorize::{Sight, Viewer};
use crate::generation::{Entry, Kind};
use crate::listener::answer::Reply;
use crate::listener::mcp::Endpoint;
use crate::message::Scope;
use crate::metrics::Action;
use crate::surface::rendered::Selection;
use crate::surface::{parameter, rest};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use transom_protocol::json::Json;
use transom_views::Tool;
use transom_views::provider::{self, Allowed, Provider, SafeNames};

/// The tools that somebody sees, narrowed by `server`, `prefix` and `allowed`.
pub async fn tools(endpoint: &Endpoint, viewer: &Viewer, query: &str, headers: &HeaderMap, format: &str) -> Reply {
    let provider = match Provider::parse(format) {
        Ok(provider) => provider,
        Err(unsupported) => return rest::refusal(StatusCode::BAD_REQUEST, "unsupported_provider", &unsupported.to_string(), Value::Null),
    };
    let generation = endpoint.runtime.generation().await;
    let sight = endpoint.runtime.policy.load().sight(&generation, viewer, &endpoint.runtime.metrics);
    endpoint.runtime.metrics.decided(Action::List, true);
    let part = Part { provider, scope: Scope::of_query(query), allowed: parameter(query, "allowed") };
    let gather = || {
        let names: Vec<Arc<Entry>> = seen(&sight).cloned().collect();
        let listed: Vec<Arc<Entry>> = sight.listed(Kind::Tool).cloned().collect();
        let part = part.clone();
        move || part.render(&names, &listed)
    };
    match endpoint.runtime.exports.get(&sight, &part, gather).await {
        Some(rendered) => rendered.reply(headers, "application/json"),
        None => rest::refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the list could not be made", Value::Null),
    }
}

/// What is asked for: these tools, in this format.
#[derive(Clone, PartialEq)]
pub struct Part {
    provider: Provider,
    scope: Scope,
    /// As written.
    allowed: Option<String>,
}

impl Selection for Part {
    fn length(&self) -> usize {
        [&self.scope.server, &self.scope.prefix, &self.allowed].into_iter().flatten().map(String::len).sum()
    }
}

impl Part {
    /// The text. `names` is everything that has a safe name, `listed` what can be wanted.
    fn render(&self, names: &[Arc<Entry>], listed: &[Arc<Entry>]) -> String {
        let names = SafeNames::of(self.provider, names.iter().map(|entry| entry.exposed()));
        let allowed = Allowed::read(self.allowed.as_deref());
        let wanted = listed.iter().filter(|entry| self.scope.admits(entry) && allowed.admits(entry.exposed(), names.safe(entry.exposed())));
        provider::export(self.provider, wanted.map(|entry| viewed(entry)), &names)
    }
}

/// The tool that a safe name stands for, of those that somebody sees.
pub fn with_safe_name(sight: &Sight<'_>, name: &str) -> Option<Arc<Entry>> {
    let names: Vec<&str> = seen(sight).map(|entry| entry.exposed()).collect();
    let exposed = provider::original(names.iter().copied(), name)?;
    seen(sight).find(|entry| entry.exposed() == exposed).cloned()
}

/// Everything that has a safe name: of targets that are down as well, so that names do not change while one comes and goes.
fn seen<'g>(sight: &Sight<'g>) -> impl Iterator<Item = &'g Arc<Entry>> {
    sight.listed(Kind::Tool).chain(sight.remembered(Kind::Tool))
}

fn viewed(entry: &Entry) -> Tool<'_> {
    let is_virtual = entry.virtual_tool().is_some();
    Tool {
        name: entry.exposed(),
        server: entry.slot().map(|slot| &*slot.name),
        own_name: if is_virtual { entry.exposed() } else { entry.source_name() },
        qualified: None,
        is_virtual,
        definition: Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}")),
    }
}
