//! One thing a client can see and use.

use super::{Kind, Own, Slot};
use crate::authorize::Subject;
use crate::metrics::ToolSeries;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use transom_protocol::Era;
use transom_protocol::json::Json;
use transom_registry::source::ParamHeader;
use transom_registry::{Refusal, Takes, VirtualTool};

/// Bytes of a definition whose validator is kept. That of a larger one is made for each call that needs it.
const LARGEST_KEPT: usize = 64 << 10;

/// One thing a client can see and use: a tool, a prompt, a resource or a template.
pub struct Entry {
    pub(super) kind: Kind,
    pub(super) exposed: Arc<str>,
    pub(super) source: Bytes,
    pub(super) slot: Option<Arc<Slot>>,
    pub(super) json: Bytes,
    pub(super) available: bool,
    pub(super) era: Era,
    pub(super) wish: String,
    pub(super) headers: Vec<ParamHeader>,
    pub(super) series: Arc<ToolSeries>,
    pub(super) virtual_tool: Option<Arc<VirtualTool>>,
    pub(super) absent: Option<String>,
    pub(super) own: Option<Own>,
    pub(super) subject: OnceLock<Subject>,
    pub(super) takes: OnceLock<Box<Takes>>,
}

impl Entry {
    /// Its exposed name, or URI.
    pub fn exposed(&self) -> &str {
        &self.exposed
    }

    /// Its exposed name before any prefix.
    pub fn unprefixed(&self) -> &str {
        &self.wish
    }

    /// The target's own name for it; empty for a tool that stands on no target.
    pub fn source(&self) -> &Bytes {
        &self.source
    }

    /// The target's own name for it, as text.
    pub fn source_name(&self) -> &str {
        std::str::from_utf8(&self.source).unwrap_or("")
    }

    /// Its target's name; empty for a tool that stands on no target.
    pub fn target_name(&self) -> &str {
        self.slot.as_ref().map_or("", |slot| &slot.name)
    }

    /// Its target; none for a tool that stands on no target.
    pub fn slot(&self) -> Option<&Arc<Slot>> {
        self.slot.as_ref()
    }

    /// The definition as clients read it.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Which era its target speaks, or spoke last.
    pub fn era(&self) -> Era {
        self.era
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it can be called now.
    pub fn available(&self) -> bool {
        self.available
    }

    /// Why a virtual tool cannot be called although its target may be connected: its source is not there.
    pub fn absent(&self) -> Option<&str> {
        self.absent.as_deref()
    }

    /// The virtual tool that it is; what passes through is none.
    pub fn virtual_tool(&self) -> Option<&VirtualTool> {
        self.virtual_tool.as_deref()
    }

    /// Which of the gateway's own tools it is, if it is one.
    pub fn own(&self) -> Option<Own> {
        self.own
    }

    /// What it is to rules, made when it is first judged.
    pub fn subject(&self) -> &Subject {
        self.subject.get_or_init(|| Subject::of(self))
    }

    /// Judges arguments by the definition as clients read it.
    pub fn judge(&self, arguments: Option<Json<'_>>) -> Result<(), Refusal> {
        let takes = || Box::new(Takes::by(std::str::from_utf8(&self.json).unwrap_or("{}")));
        if self.json.len() > LARGEST_KEPT { takes().judge(arguments) } else { self.takes.get_or_init(takes).judge(arguments) }
    }

    /// Arguments, by the names clients know, that travel as headers too.
    pub fn headers(&self) -> &[ParamHeader] {
        &self.headers
    }

    /// Its server-side series, by outcome.
    pub fn series(&self) -> &ToolSeries {
        &self.series
    }

    /// Whether nothing about it differs from another, so that the other can stand in its place.
    pub(super) fn is_same_as(&self, other: &Entry) -> bool {
        let same_slot = match (&self.slot, &other.slot) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        let same_tool = match (&self.virtual_tool, &other.virtual_tool) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_slot
            && same_tool
            && self.own == other.own
            && self.available == other.available
            && self.era == other.era
            && self.source == other.source
            && self.wish == other.wish
            && self.headers == other.headers
            && self.absent == other.absent
            && self.json == other.json
    }
}
