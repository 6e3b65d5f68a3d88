//! `mcpServers`, and the tool transforms that FastMCP has in them.

use super::draft::{Draft, Wish, has_secret};
use super::secrets::Kind;
use super::{entries, get, items, json, servers, text};
use crate::tree::{Node, Value as Written};
use serde_json::{Map, Value, json};

/// Reads a file.
pub fn import(tree: &Node, draft: &mut Draft<'_>) {
    let servers = get(tree, "mcpServers").filter(|servers| draft.is_map(servers, "`mcpServers`"));
    for (name, server) in servers.into_iter().flat_map(entries) {
        let Some(target) = servers::target(draft, name, server, &["tools", "include_tags", "exclude_tags"]) else { continue };
        let transforms = get(server, "tools").filter(|tools| draft.is_map(tools, &format!("`tools` of `{target}`")));
        for (tool, transform) in transforms.into_iter().flat_map(entries) {
            transformed(draft, &target, tool, transform);
        }
        for key in ["include_tags", "exclude_tags"] {
            if let Some(tags) = get(server, key).filter(|tags| !items(tags).is_empty()) {
                draft.unsupported(
                    tags,
                    format!("`{key}`: a server's own tags are not known to the gateway"),
                    "hide tools by name, with a rule like `deny: 'has(mcp.tool) && mcp.tool.source == \"x\"'`",
                );
            }
        }
    }
    let several = servers.is_some_and(|servers| entries(servers).count() > 1);
    let transforms = servers.into_iter().flat_map(entries).any(|(_, server)| get(server, "tools").is_some());
    if let (true, true, Some(servers)) = (several, transforms, servers) {
        draft.approximate(
            servers,
            "FastMCP puts the server's name in front of every tool where there are several; here a name is bare where nobody else has it",
            "write `naming: { prefix: always, separator: _ }` if clients rely on the longer names",
        );
    }
    for (key, value) in entries(tree) {
        let name = key.spelling().unwrap_or_default();
        if name != "mcpServers" && name != "$schema" {
            draft.unsupported(value, format!("`{name}` is about the program that reads this file"), "keep it there");
        }
    }
}

/// A tool transform as a virtual tool.
fn transformed(draft: &mut Draft<'_>, target: &str, tool: &Node, transform: &Node) {
    let source = tool.spelling().unwrap_or_default();
    if get(transform, "enabled").is_some_and(|enabled| matches!(enabled.value, Written::Boolean(false))) {
        hidden(draft, target, source);
        draft.exact(tool, format!("tool `{source}` of `{target}` is hidden by a rule"));
        return;
    }
    if !draft.is_map(transform, &format!("the transform of tool `{source}`")) {
        return;
    }
    let mut out = json!({ "name": text(transform, "name").unwrap_or(source), "source": { "target": target, "tool": source } });
    for key in ["title", "description", "version", "tags"] {
        if let Some(value) = get(transform, key).filter(|value| !value.is_empty()) {
            out[key] = if key == "version" { value.spelling().unwrap_or_default().into() } else { json(value) };
        }
    }
    match get(transform, "meta").filter(|meta| !meta.is_empty()) {
        Some(meta) if has_secret(meta, &Wish { server: target, name: "meta", kind: Kind::Other }) => {
            draft.manual(meta, format!("`meta` of `{source}` looks like it has a secret, and is left out"), "write `metadata` without it");
        }
        Some(meta) => {
            out["metadata"] = json(meta);
            draft.approximate(
                meta,
                format!("`meta` of `{source}` is its `metadata`: rules can read it, clients cannot"),
                "nothing, if only rules need it",
            );
        }
        None => {}
    }
    let mut plan = Arguments::default();
    for (argument, change) in get(transform, "arguments").into_iter().flat_map(entries) {
        plan.add(draft, target, source, argument, change);
    }
    for (key, value) in [("arguments", Value::Object(plan.renamed)), ("defaults", Value::Object(plan.defaults)), ("hideFields", plan.hidden.into())] {
        let is_empty = value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            out[key] = value;
        }
    }
    const READ: [&str; 8] = ["name", "title", "description", "version", "tags", "meta", "arguments", "enabled"];
    for (key, value) in entries(transform).filter(|(key, _)| !READ.contains(&key.spelling().unwrap_or_default())) {
        let name = key.spelling().unwrap_or_default();
        draft.unsupported(
            value,
            format!("`{name}` of tool `{source}` is left out"),
            "see whether the registry has a word for it: `transom schema registry --format markdown`",
        );
    }
    draft.exact(tool, format!("tool `{source}` of `{target}` is virtual tool `{}`", out["name"].as_str().unwrap_or(source)));
    draft.tool(out, tool);
}

/// Hides a source tool.
pub fn hidden(draft: &mut Draft<'_>, target: &str, source: &str) {
    if draft.rules.is_empty() {
        draft.rules.push(json!({ "allow": "true" }));
    }
    let quoted = |text: &str| Value::from(text).to_string();
    let rule = format!("has(mcp.tool) && mcp.tool.target == {} && mcp.tool.source == {}", quoted(target), quoted(source));
    draft.rules.push(json!({ "deny": rule }));
}

#[derive(Default)]
struct Arguments {
    renamed: Map<String, Value>,
    defaults: Map<String, Value>,
    hidden: Vec<Value>,
}

impl Arguments {
    fn add(&mut self, draft: &mut Draft<'_>, target: &str, tool: &str, argument: &Node, change: &Node) {
        let name = argument.spelling().unwrap_or_default();
        if !draft.is_map(change, &format!("argument `{name}` of tool `{tool}`")) {
            return;
        }
        let is_hidden = get(change, "hide").is_some_and(|hide| matches!(hide.value, Written::Boolean(true)));
        if let Some(default) = get(change, "default").filter(|default| !default.is_empty())
            && let Some(value) = draft.tree(default, &Wish { server: target, name, kind: Kind::Other })
        {
            self.defaults.insert(name.to_owned(), value);
        }
        if is_hidden {
            self.hidden.push(name.into());
        } else if get(change, "name").is_some() || get(change, "description").is_some() {
            let mut renamed = json!({ "source": name });
            if let Some(description) = text(change, "description") {
                renamed["description"] = description.into();
            }
            self.renamed.insert(text(change, "name").unwrap_or(name).to_owned(), renamed);
        }
        for (key, value) in entries(change) {
            match key.spelling().unwrap_or_default() {
                "name" | "description" | "default" | "hide" => {}
                "required" => draft.manual(
                    value,
                    format!("argument `{name}` of tool `{tool}` is not made required"),
                    "write an `inputSchema` for the tool that requires it",
                ),
                "examples" => draft.unsupported(value, format!("examples of argument `{name}` are left out"), "put them into its description"),
                other => draft.unsupported(
                    value,
                    format!("`{other}` of argument `{name}` is left out"),
                    "write an `inputSchema` for the tool that says it",
                ),
            }
        }
    }
}
