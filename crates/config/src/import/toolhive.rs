//! ToolHive's overrides: names and descriptions of tools, and which of them are there at all.

use super::draft::{Draft, Wish};
use super::secrets::Kind;
use super::{entries, first, get, is_toolhive_resource, items, servers, text};
use crate::tree::Node;
use serde_json::{Value, json};

/// Reads a file for `--tools-override`, a run config, or an `MCPToolConfig`.
pub fn import(tree: &Node, draft: &mut Draft<'_>) {
    let is_resource = is_toolhive_resource(tree);
    let spec = if is_resource { get(tree, "spec").unwrap_or(tree) } else { tree };
    if is_resource && text(tree, "kind") != Some("MCPToolConfig") {
        let kind = text(tree, "kind").unwrap_or("resource");
        draft.manual(
            tree,
            format!("a `{kind}` says how ToolHive runs a server; only its tools are read"),
            "import the `MCPToolConfig` that it refers to",
        );
    }
    let own_name = if is_resource { get(tree, "metadata").and_then(|metadata| get(metadata, "name")) } else { get(tree, "name") };
    let wanted = draft.options.target.clone().or_else(|| own_name.and_then(Node::spelling).map(str::to_owned)).unwrap_or_else(|| "toolhive".into());
    let target = draft.target_name(&wanted, own_name.unwrap_or(tree));
    place(draft, &target, tree, spec);

    let filter = first(spec, &["toolsFilter", "tools_filter"]).filter(|filter| !draft.list(filter, "`toolsFilter`").is_empty());
    let wanted: Option<Vec<&str>> = filter.map(|filter| items(filter).iter().filter_map(Node::spelling).collect());
    let mut met = Vec::new();
    let overrides = first(spec, &["toolsOverride", "tools_override"]).filter(|overrides| draft.is_map(overrides, "`toolsOverride`"));
    for (tool, change) in overrides.into_iter().flat_map(entries) {
        let source = tool.spelling().unwrap_or_default();
        if !draft.is_map(change, &format!("the override of tool `{source}`")) {
            continue;
        }
        let name = text(change, "name").filter(|name| !name.is_empty()).unwrap_or(source);
        if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&name)) {
            draft.exact(tool, format!("tool `{name}` is not among those that are let through, and is hidden"));
            continue;
        }
        met.push(name.to_owned());
        let mut virtual_tool = json!({ "name": name, "source": { "target": target, "tool": source } });
        if let Some(description) = text(change, "description").filter(|text| !text.is_empty()) {
            virtual_tool["description"] = description.into();
        }
        for (key, value) in entries(change) {
            match key.spelling().unwrap_or_default() {
                "name" | "description" => {}
                "annotations" => virtual_tool["annotations"] = super::json(value),
                other => draft.unsupported(value, format!("`{other}` of tool `{source}` is left out"), "see whether the registry has a word for it"),
            }
        }
        draft.exact(tool, format!("tool `{source}` is virtual tool `{name}`"));
        draft.tool(virtual_tool, tool);
    }
    if let (Some(filter), Some(wanted)) = (filter, &wanted) {
        for name in wanted.iter().filter(|name| !met.iter().any(|met| met == *name)) {
            draft.tool(json!({ "name": name, "source": { "target": target, "tool": name } }), filter);
        }
        draft.hide_unlisted = true;
        draft.approximate(
            filter,
            "only the tools of this list are shown: `registry.unlisted` is `hide`",
            "that holds for every target of the gateway; give other targets entries of their own in the registry",
        );
    }
}

/// Where the server is, as far as the file tells.
fn place(draft: &mut Draft<'_>, target: &str, tree: &Node, spec: &Node) {
    const READ: [&str; 14] = [
        "name",
        "toolsFilter",
        "tools_filter",
        "toolsOverride",
        "tools_override",
        "remote_url",
        "remoteUrl",
        "image",
        "transport",
        "cmd_args",
        "args",
        "env_vars",
        "schema_version",
        "secrets",
    ];
    let transport = text(spec, "transport").unwrap_or_default();
    if let Some(url) = first(spec, &["remote_url", "remoteUrl"]).filter(|url| draft.is_text(url, "the URL")) {
        let host = draft.value(url, &Wish { server: target, name: "url", kind: Kind::Other });
        let key = if transport == "sse" { "sse" } else { "mcp" };
        draft.exact(url, format!("the server is target `{target}`"));
        let mut whole = json!({ "name": target });
        whole[key] = json!({ "host": host });
        draft.target(whole);
    } else if let Some(image) = get(spec, "image").filter(|_| transport == "stdio") {
        let mut args: Vec<Value> = ["run", "-i", "--rm"].map(Value::from).to_vec();
        let env = get(spec, "env_vars").map(|env| servers::texts(draft, target, "env", env)).unwrap_or_default();
        args.extend(env.keys().flat_map(|name| ["-e".into(), Value::from(name.as_str())]));
        args.push(draft.value(image, &Wish { server: target, name: "image", kind: Kind::Other }).into());
        if let Some(more) = first(spec, &["cmd_args", "args"]) {
            args.extend(servers::arguments(draft, target, more));
        }
        let mut stdio = json!({ "cmd": "docker", "args": args });
        if !env.is_empty() {
            stdio["env"] = env.into();
        }
        draft.approximate(
            image,
            format!("target `{target}` runs the image with `docker run -i --rm`, without ToolHive's permission profile"),
            "let ToolHive run it and write the URL of its proxy as `mcp: { host: … }` if the profile matters",
        );
        draft.target(json!({ "name": target, "stdio": stdio }));
    } else {
        draft.placeholder_target(target, spec);
    }
    for (key, value) in entries(spec) {
        let name = key.spelling().unwrap_or_default();
        let is_of_resource = std::ptr::eq(tree, spec) || !matches!(name, "apiVersion" | "kind" | "metadata");
        match name {
            "secrets" => draft.manual(
                value,
                "ToolHive's secrets stay with ToolHive",
                "set each as a variable, and write it into the target's `env` as `\"${NAME}\"`",
            ),
            _ if READ.contains(&name) || !is_of_resource || value.is_empty() => {}
            _ => draft.unsupported(value, format!("`{name}` is about how ToolHive runs the server"), "keep it there"),
        }
    }
}
