//! What is listed, as readers other than MCP clients want it: a TypeScript module, the formats of LLM providers, an index
//! for search.
//!
//! Pure: tools in, text or an index out. Who may see a tool is decided before it gets here.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod provider;
pub mod search;
pub mod typescript;

use transom_json::Json;

/// A listed tool.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'t> {
    /// The name clients see and call.
    pub name: &'t str,
    /// The target it stands on; `None` for a tool that stands on none.
    pub server: Option<&'t str>,
    /// What it is called among the tools of its server: the source tool's own name or its alias, or the name of a virtual tool.
    pub own_name: &'t str,
    /// `server__tool`, where that can only mean this tool; `None` where only `name` is sure to.
    pub qualified: Option<&'t str>,
    /// Whether the registry defines it.
    pub is_virtual: bool,
    /// Its definition as lists show it.
    pub definition: Json<'t>,
}
