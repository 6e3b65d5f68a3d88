//! What a target offers, checked once, when it offers it.

use super::Kind;
use super::clean::without_secrets;
use bytes::Bytes;
use std::collections::HashSet;
use std::sync::Arc;
use transom_registry::SourceTool;
use transom_registry::mask::Mask;
use transom_registry::name::{is_portable, is_sound};
use transom_upstream::{Item, Offer};

/// An offer whose every part was checked once.
pub struct CheckedOffer {
    /// As the target wrote it.
    pub offer: Arc<Offer>,
    /// The aliases it was checked with.
    pub aliases: Vec<(String, String)>,
    /// Its tools, in its own order.
    pub tools: Vec<Checked>,
    plain: [Vec<Checked>; 3],
    /// What it has to say about itself.
    pub instructions: Option<String>,
}

/// One thing a target offers.
pub struct Checked {
    /// The target's own name for it.
    pub source: Bytes,
    /// The name it would like: its own or an alias.
    pub wish: String,
    /// Its definition.
    pub json: Bytes,
    /// What the registry's engine knows it as; only tools have that.
    pub tool: Option<Arc<SourceTool>>,
}

/// The text of a tool, shared with the engine.
struct Definition(Arc<SourceTool>);

impl AsRef<[u8]> for Definition {
    fn as_ref(&self) -> &[u8] {
        self.0.json.as_bytes()
    }
}

impl CheckedOffer {
    /// Checks an offer. What is wrong is logged and left out; the rest stands, without the secrets that the target was given.
    pub fn check(target: &str, aliases: &[(String, String)], offer: Arc<Offer>, mask: Option<&Mask>) -> CheckedOffer {
        let hidden =
            |kind: Kind, json: &Bytes| without_secrets(mask, kind, std::str::from_utf8(json).unwrap_or("")).map_or_else(|| json.clone(), Bytes::from);
        let mut seen: HashSet<&str> = HashSet::new();
        let mut tools = Vec::with_capacity(offer.tools.len());
        for item in &offer.tools {
            match SourceTool::read(std::str::from_utf8(&item.json).unwrap_or("")) {
                _ if !seen.insert(&item.name) => tracing::warn!(target = target, tool = item.name, "tool is offered twice; the first one counts"),
                _ if !is_sound(&item.name) => {
                    tracing::error!(target = target, tool = ?item.name, "tool is left out: its name is empty, over 128 bytes long, or has characters that deceive readers");
                }
                Err(reason) => {
                    // It quotes the definition.
                    let clean = |text: &str| mask.and_then(|mask| mask.text(text)).unwrap_or_else(|| text.to_owned());
                    tracing::error!(
                        target = target,
                        tool = clean(&item.name),
                        reason = clean(&reason),
                        "tool is left out: its definition is not sound"
                    );
                }
                Ok(mut tool) => {
                    if let Some(clean) = without_secrets(mask, Kind::Tool, &tool.json) {
                        tool.json = clean;
                    }
                    let alias = aliases.iter().find(|(_, name)| *name == item.name).map(|(alias, _)| alias.clone());
                    let wish = alias.unwrap_or_else(|| item.name.clone());
                    if !is_portable(&wish) {
                        tracing::warn!(
                            target = target,
                            tool = wish,
                            "some LLM providers refuse this tool name: over 64 characters, or other than A-Z a-z 0-9 _ -"
                        );
                    }
                    let tool = Arc::new(tool);
                    let json = Bytes::from_owner(Definition(tool.clone()));
                    tools.push(Checked { source: Bytes::copy_from_slice(item.name.as_bytes()), wish, json, tool: Some(tool) });
                }
            }
        }
        for (alias, name) in aliases {
            if !offer.tools.iter().any(|tool| tool.name == *name) {
                tracing::warn!(target = target, alias, tool = name, "alias names a tool that the target does not offer");
            }
        }
        let plain = |kind: Kind, items: &[Item]| -> Vec<Checked> {
            let mut seen = HashSet::new();
            let first = items.iter().filter(|item| !item.name.chars().any(char::is_control) && seen.insert(item.name.as_str()));
            first
                .map(|item| Checked {
                    source: Bytes::copy_from_slice(item.name.as_bytes()),
                    wish: item.name.clone(),
                    json: hidden(kind, &item.json),
                    tool: None,
                })
                .collect()
        };
        let plain = [plain(Kind::Prompt, &offer.prompts), plain(Kind::Resource, &offer.resources), plain(Kind::Template, &offer.templates)];
        let said = offer.instructions.clone();
        let instructions = said.map(|said| mask.and_then(|mask| mask.text(&said)).unwrap_or_else(|| said.to_string()));
        CheckedOffer { offer, aliases: aliases.to_vec(), tools, plain, instructions }
    }

    /// What it has of one kind.
    pub fn items(&self, kind: Kind) -> &[Checked] {
        let [prompts, resources, templates] = &self.plain;
        match kind {
            Kind::Tool => &self.tools,
            Kind::Prompt => prompts,
            Kind::Resource => resources,
            Kind::Template => templates,
        }
    }
}
