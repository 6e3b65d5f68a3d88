//! What a target offers: every list it has, page by page to the end, within bounds.

use crate::connection::Connection;
use crate::ears::{Ears, fault};
use crate::failure::Failure;
use crate::handshake;
use crate::state::{Capabilities, Item, Offer};
use crate::text::LONGEST_REASON;
use crate::tuning::Tuning;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use transom_protocol::{Json, write};

/// Cursors are the target's own business, up to this length.
const LONGEST_CURSOR: usize = 64 << 10;

#[derive(Clone, Copy)]
struct List {
    method: &'static str,
    member: &'static str,
    key: &'static str,
}

const TOOLS: List = List { method: "tools/list", member: "tools", key: "name" };
const PROMPTS: List = List { method: "prompts/list", member: "prompts", key: "name" };
const RESOURCES: List = List { method: "resources/list", member: "resources", key: "uri" };
const TEMPLATES: List = List { method: "resources/templates/list", member: "resourceTemplates", key: "uriTemplate" };

/// A complete offer and how long it is good for.
pub(crate) struct Listing {
    pub(crate) offer: Arc<Offer>,
    pub(crate) fresh_for: Option<Duration>,
    /// Some list was refused; it is worth asking again soon.
    pub(crate) partial: bool,
}

/// Asks for every list the target has. A list the target refuses keeps what `before` had of it.
pub(crate) async fn fetch(connection: &Connection, before: Option<&Offer>, ears: &Ears, tuning: &Tuning) -> Result<Listing, Failure> {
    let server = &connection.server;
    let declared = server.capabilities;
    let mut reader = Reader { connection, ears, tuning, fresh_for: None, partial: false };
    let tools = reader.list(TOOLS, declared.is_none_or(|declared| declared.tools), before.map(|offer| &offer.tools)).await?;
    let prompts = reader.list(PROMPTS, declared.is_none_or(|declared| declared.prompts), before.map(|offer| &offer.prompts)).await?;
    let has_resources = declared.is_none_or(|declared| declared.resources);
    let resources = reader.list(RESOURCES, has_resources, before.map(|offer| &offer.resources)).await?;
    let templates = reader.list(TEMPLATES, has_resources, before.map(|offer| &offer.templates)).await?;
    let capabilities = declared.unwrap_or(Capabilities {
        tools: tools.is_some(),
        prompts: prompts.is_some(),
        resources: resources.is_some() || templates.is_some(),
        ..Capabilities::default()
    });
    let offer = Arc::new(Offer {
        era: server.era,
        revision: server.revision,
        capabilities,
        instructions: server.instructions.clone(),
        tools: tools.unwrap_or_default(),
        prompts: prompts.unwrap_or_default(),
        resources: resources.unwrap_or_default(),
        templates: templates.unwrap_or_default(),
    });
    Ok(Listing { offer, fresh_for: reader.fresh_for, partial: reader.partial })
}

/// Whether clients would see a difference.
pub(crate) fn same(a: &Offer, b: &Offer) -> bool {
    a.tools == b.tools
        && a.prompts == b.prompts
        && a.resources == b.resources
        && a.templates == b.templates
        && a.capabilities == b.capabilities
        && a.instructions == b.instructions
        && a.revision == b.revision
}

struct Reader<'r> {
    connection: &'r Connection,
    ears: &'r Ears,
    tuning: &'r Tuning,
    fresh_for: Option<Duration>,
    partial: bool,
}

impl Reader<'_> {
    /// One list; `None` if the target has no such thing.
    async fn list(&mut self, list: List, has: bool, before: Option<&Vec<Item>>) -> Result<Option<Vec<Item>>, Failure> {
        if !has {
            return Ok(None);
        }
        let mut items: Vec<Item> = Vec::new();
        let mut cursor: Option<String> = None;
        let mut seen: HashSet<String> = HashSet::new();
        for _ in 0..self.tuning.pages {
            let params = cursor.as_ref().map_or_else(|| "{}".to_owned(), |cursor| format!(r#"{{"cursor":{}}}"#, write::quoted(cursor)));
            let answer = match self.connection.ask(list.method, &params, self.tuning.listing).await {
                Err(Failure::Status { error: Some(error), .. }) => Err(error),
                other => other?,
            };
            let page = match answer {
                Ok(page) => page,
                answer @ Err(_) if cursor.is_none() && Connection::lacks_method(&answer) => return Ok(None),
                Err(error) => {
                    self.complain(list, &format!("it refused: {}", handshake::describe(&error)));
                    self.partial = true;
                    return Ok(Some(before.cloned().unwrap_or_default()));
                }
            };
            let result = handshake::view(&page);
            self.note_ttl(result);
            for element in result.get(list.member).map(Json::elements).into_iter().flatten() {
                if items.len() >= self.tuning.items {
                    self.complain(list, &format!("it lists more than {} items; the rest is left out", self.tuning.items));
                    return Ok(Some(items));
                }
                let name = element.get(list.key).and_then(Json::string);
                match name {
                    Some(_) if element.raw().len() > self.tuning.definition => {
                        self.complain(list, &format!("an item beyond {} bytes is left out", self.tuning.definition));
                    }
                    Some(name) => items.push(Item { name: name.into_owned(), json: page.slice_ref(element.raw().as_bytes()) }),
                    None => self.complain(list, &format!("an item without a string `{}` is left out", list.key)),
                }
            }
            cursor = match result.get("nextCursor").and_then(Json::string) {
                None => return Ok(Some(items)),
                Some(next) if next.len() > LONGEST_CURSOR => {
                    self.complain(list, "its cursor is too long; the rest is left out");
                    return Ok(Some(items));
                }
                Some(next) => {
                    if !seen.insert(next.as_ref().to_owned()) {
                        self.complain(list, "it repeats a cursor; the rest is left out");
                        return Ok(Some(items));
                    }
                    Some(next.into_owned())
                }
            };
        }
        self.complain(list, &format!("it has more than {} pages; the rest is left out", self.tuning.pages));
        Ok(Some(items))
    }

    fn note_ttl(&mut self, result: Json<'_>) {
        let announces = self.connection.server.announces.any();
        let ttl = result.get("ttlMs").and_then(Json::unsigned).filter(|ttl| *ttl > 0 || !announces);
        if let Some(ttl) = ttl {
            let ttl = Duration::from_millis(ttl).max(self.tuning.shortest_ttl);
            self.fresh_for = Some(self.fresh_for.map_or(ttl, |shortest| shortest.min(ttl)));
        }
    }

    fn complain(&self, list: List, what: &str) {
        self.ears.fault(fault::LISTING);
        let what = self.ears.scrubber.clean(what.as_bytes(), LONGEST_REASON);
        tracing::warn!(target = %self.ears.target, list = list.method, reason = %what, "a list of the target is not as it should be");
    }
}
