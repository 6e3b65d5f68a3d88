//! A server as desktop clients and editors write it, as a target.

use super::draft::{Draft, Wish};
use super::secrets::{Kind, flag_of, is_switch};
use super::{entries, first, get, is_true, text};
use crate::tree::{Node, Value as Written};
use serde_json::{Map, Value, json};

/// Reads one server; the name of its target, if it became one.
pub fn target(draft: &mut Draft<'_>, name: &Node, server: &Node, known: &[&str]) -> Option<String> {
    let called = name.spelling().unwrap_or_default();
    if is_true(server, "disabled") || get(server, "enabled").is_some_and(|on| matches!(on.value, Written::Boolean(false))) {
        draft.exact(name, format!("server `{called}` is disabled, and is left out"));
        return None;
    }
    if !draft.is_map(server, &format!("server `{called}`")) {
        if server.is_empty() {
            draft.unsupported(name, format!("server `{called}` says nothing, and is left out"), "give it a `command` or a `url`");
        }
        return None;
    }
    let url = first(server, &["url", "serverUrl", "httpUrl"]).filter(|url| draft.is_text(url, &format!("`url` of `{called}`")));
    let command = get(server, "command").filter(|command| draft.is_text(command, &format!("`command` of `{called}`")));
    let transport = match (command, url) {
        (None, None) => {
            draft.unsupported(
                name,
                format!("server `{called}` has neither `command` nor `url` that could be used, and is left out"),
                "give it one of them, or add the target by hand",
            );
            return None;
        }
        (Some(command), _) => {
            if let Some(url) = url {
                draft.unsupported(
                    url,
                    format!("server `{called}` has `command` and `url`; the URL is left out"),
                    "make a target of its own of it if both are wanted",
                );
            }
            ("stdio", Value::Object(stdio(draft, called, command, server)))
        }
        (None, Some(url)) => {
            let kind = first(server, &["type", "transport"]).and_then(Node::spelling).unwrap_or_default();
            let is_sse = kind == "sse" || kind.is_empty() && path_is_sse(url.spelling().unwrap_or_default());
            (if is_sse { "sse" } else { "mcp" }, Value::Object(remote(draft, called, url, server)))
        }
    };
    others(draft, called, server, transport.0 == "stdio", known);
    let target = draft.target_name(called, name);
    draft.exact(name, format!("server `{called}` is target `{target}`"));
    let mut whole = json!({ "name": target });
    whole[transport.0] = transport.1;
    draft.target(whole);
    Some(target)
}

fn stdio(draft: &mut Draft<'_>, server: &str, command: &Node, node: &Node) -> Map<String, Value> {
    let mut stdio = Map::new();
    stdio.insert("cmd".into(), draft.value(command, &Wish { server, name: "command", kind: Kind::Command }).into());
    if let Some(args) = get(node, "args") {
        let args = arguments(draft, server, args);
        if !args.is_empty() {
            stdio.insert("args".into(), args.into());
        }
    }
    if let Some(env) = get(node, "env") {
        let env = texts(draft, server, "env", env);
        if !env.is_empty() {
            stdio.insert("env".into(), env.into());
        }
    }
    if let Some(cwd) = get(node, "cwd").filter(|cwd| draft.is_text(cwd, &format!("`cwd` of `{server}`"))) {
        stdio.insert("cwd".into(), draft.value(cwd, &Wish { server, name: "cwd", kind: Kind::Other }).into());
    }
    stdio
}

/// Arguments; one after `--api-key`, or behind its `=`, is what that says.
pub fn arguments(draft: &mut Draft<'_>, server: &str, args: &Node) -> Vec<Value> {
    let mut flag = "";
    let mut out = Vec::new();
    for arg in draft.list(args, &format!("`args` of `{server}`")) {
        let Some(written) = arg.spelling() else {
            draft.unsupported(arg, format!("an argument of `{server}` is {}, not text; it is left out", arg.kind()), "write it as text");
            continue;
        };
        out.push(draft.value(arg, &Wish { server, name: flag, kind: Kind::Argument }).into());
        flag = flag_of(written);
    }
    out
}

/// Variables or headers, by the key they stand under. A list of `NAME=value` will do.
pub fn texts(draft: &mut Draft<'_>, server: &str, under: &str, map: &Node) -> Map<String, Value> {
    let kind = if under == "env" { Kind::Variable } else { Kind::Header };
    let mut pairs: Vec<(String, String, &Node)> = Vec::new();
    if let Written::List(items) = &map.value {
        for item in items {
            match item.spelling().and_then(|text| text.split_once('=')) {
                Some((name, value)) if kind == Kind::Variable => pairs.push((name.to_owned(), value.to_owned(), item)),
                _ => draft.misfit(item, &format!("an item of `{under}` of `{server}`"), "`NAME: value`"),
            }
        }
    } else if draft.is_map(map, &format!("`{under}` of `{server}`")) {
        for (key, value) in entries(map) {
            let name = key.spelling().unwrap_or_default();
            match value.spelling() {
                Some(text) => pairs.push((name.to_owned(), text.to_owned(), value)),
                None => draft.unsupported(value, format!("`{name}` of `{server}` is {} and is left out", value.kind()), "write it as text"),
            }
        }
    }
    let mut out = Map::new();
    let mut kept = Vec::new();
    for (name, text, node) in pairs {
        // `Authorization` would be an odd name for a token.
        let called = if kind == Kind::Header && name.eq_ignore_ascii_case("authorization") { "token" } else { &name };
        let value = draft.value_of(&text, node, &Wish { server, name: called, kind });
        let is_amount = text.bytes().all(|byte| byte.is_ascii_digit());
        if value == text && !value.contains("${") && !is_switch(&text) && !is_amount {
            kept.push(format!("`{name}`"));
        }
        out.insert(name, value.into());
    }
    if !kept.is_empty() {
        let (verb, it) = if kept.len() == 1 { ("is", "it is") } else { ("are", "one of them is") };
        draft.approximate(
            map,
            format!("{} of `{server}` {verb} copied word by word", kept.join(", ")),
            &format!("if {it} a secret, write `\"${{NAME}}\"` in its place and set that variable"),
        );
    }
    out
}

fn remote(draft: &mut Draft<'_>, server: &str, url: &Node, node: &Node) -> Map<String, Value> {
    let mut remote = Map::new();
    remote.insert("host".into(), draft.value(url, &Wish { server, name: "url", kind: Kind::Other }).into());
    let mut headers = get(node, "headers").map(|headers| texts(draft, server, "headers", headers)).unwrap_or_default();
    if let Some(auth) = get(node, "auth") {
        match auth.spelling() {
            Some("oauth") | None => draft.manual(
                auth,
                format!("server `{server}` asks the user to sign in, which a gateway cannot"),
                "give the target a token of its own, like `headers: { Authorization: \"Bearer ${TOKEN}\" }`",
            ),
            Some(token) => {
                let token = draft.value_of(token, auth, &Wish { server, name: "token", kind: Kind::Header });
                headers.insert("Authorization".into(), format!("Bearer {token}").into());
            }
        }
    }
    if !headers.is_empty() {
        remote.insert("headers".into(), headers.into());
    }
    remote
}

/// Clients that have no `type` tell the old transport by the path that its servers use by convention.
fn path_is_sse(url: &str) -> bool {
    url.split(['?', '#']).next().is_some_and(|path| path.trim_end_matches('/').ends_with("/sse"))
}

/// What is there beside what was read.
fn others(draft: &mut Draft<'_>, server: &str, node: &Node, is_stdio: bool, known: &[&str]) {
    const READ: [&str; 15] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "serverUrl",
        "httpUrl",
        "type",
        "transport",
        "headers",
        "auth",
        "disabled",
        "enabled",
        "description",
        "name",
    ];
    let unread: &[&str] = if is_stdio { &["headers", "auth"] } else { &["args", "env", "cwd"] };
    for (key, value) in entries(node) {
        let name = key.spelling().unwrap_or_default();
        match name {
            _ if unread.contains(&name) && !value.is_empty() => {
                let kind = if is_stdio { "a server that is started" } else { "a server at a URL" };
                draft.unsupported(value, format!("`{name}` of `{server}` means nothing to {kind}"), "leave it out");
            }
            _ if READ.contains(&name) || known.contains(&name) => {}
            "timeout" => draft.manual(
                value,
                format!("`timeout` of `{server}` is left out: some programs mean seconds, some milliseconds"),
                "write `timeout: 30s` into the target",
            ),
            "envFile" => {
                let file = text(node, "envFile").unwrap_or_default();
                draft.manual(
                    value,
                    format!("the variables in `{file}` are not read"),
                    "write them into the target's `env`, as `NAME: \"${NAME}\"`, and load the file before the gateway starts",
                );
            }
            "autoApprove" | "alwaysAllow" | "trust" => draft.unsupported(
                value,
                format!("`{name}` of `{server}` is between a client and its user"),
                "keep it in the client's own config",
            ),
            "includeTools" | "excludeTools" | "disabledTools" | "enabledTools" => draft.manual(
                value,
                format!("`{name}` of `{server}` is left out"),
                "hide tools with a rule, like `deny: 'has(mcp.tool) && mcp.tool.target == \"x\" && mcp.tool.source == \"y\"'`, or with `registry.unlisted: hide`",
            ),
            _ => draft.unsupported(value, format!("`{name}` of `{server}` means nothing here"), "leave it out, or keep it in the client's own config"),
        }
    }
}
