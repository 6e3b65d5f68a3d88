//! VS Code's `mcp.json`: `servers`, and `inputs` that it asks its user for.

use super::draft::Draft;
use super::placeholders::screaming;
use super::{entries, get, servers, text};
use crate::tree::Node;

/// Reads a file; the section `mcp` of `settings.json` will do too.
pub fn import(tree: &Node, draft: &mut Draft<'_>) {
    let tree = get(tree, "mcp").filter(|section| section.has("servers")).unwrap_or(tree);
    let inputs = get(tree, "inputs").map(|inputs| draft.list(inputs, "`inputs`")).unwrap_or_default();
    for input in inputs {
        let id = text(input, "id").unwrap_or_default();
        let variable = screaming(id);
        let asked = text(input, "description").map(|text| format!(" ({text})")).unwrap_or_default();
        draft.manual(
            input,
            format!("input `{id}`{asked} is asked of nobody here; `${{input:{id}}}` is `${{{variable}}}`"),
            &format!("set {variable} before the gateway starts"),
        );
        draft.variable(&variable);
    }
    let servers = get(tree, "servers").filter(|servers| draft.is_map(servers, "`servers`"));
    for (name, server) in servers.into_iter().flat_map(entries) {
        servers::target(draft, name, server, &["dev", "gallery", "version", "sandboxEnabled", "sandbox"]);
        for key in ["dev", "sandboxEnabled", "sandbox"] {
            if let Some(value) = get(server, key) {
                let next =
                    if key == "dev" { "start the server by hand while you work on it" } else { "run the gateway, or the server, in a container" };
                draft.unsupported(value, format!("`{key}` of `{}` is VS Code's own", name.spelling().unwrap_or_default()), next);
            }
        }
    }
    for (key, value) in entries(tree) {
        let name = key.spelling().unwrap_or_default();
        if !matches!(name, "servers" | "inputs" | "$schema") {
            draft.unsupported(value, format!("`{name}` is VS Code's own"), "keep it there");
        }
    }
}
