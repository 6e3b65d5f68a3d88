//! The `mcpServers` form of desktop clients and editors, turned into a file of ours.
//!
//! Recognised by its shape, whatever the file is called. Such files belong to other programs: what they have beyond what we
//! understand is pointed out, not refused.

use crate::file::{Backend, File, McpBackend, Remote, Stdio, Target, Text};
use crate::problem::{Problem, Problems, did_you_mean};
use crate::read::read;
use crate::tree::Node;
use crate::written::{Entries, Place, Written};
use serde::Deserialize;
use std::cell::RefCell;

/// The values of `type`; clients spell Streamable HTTP in several ways.
const TYPES: [&str; 5] = ["stdio", "http", "streamable-http", "streamableHttp", "sse"];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct McpServers {
    mcp_servers: Written<Entries<Server>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Server {
    command: Written<Text>,
    args: Written<Vec<Written<Text>>>,
    env: Written<Entries<Text>>,
    cwd: Written<Text>,
    url: Written<Text>,
    server_url: Written<Text>,
    #[serde(rename = "type")]
    kind: Written<Text>,
    headers: Written<Entries<Text>>,
    disabled: Written<bool>,
}

/// Whether a file is in this form.
pub fn recognises(tree: &Node) -> bool {
    tree.has("mcpServers")
}

/// Reads the servers as targets; one that is disabled is left out.
pub fn file(tree: &Node, problems: &RefCell<Problems>) -> File {
    let servers = read::<McpServers>(tree, problems).unwrap_or_default().mcp_servers;
    let place = servers.place;
    let targets = servers.or_default().0.into_iter().filter_map(|(name, server)| {
        let server_place = server.place;
        let server = server.value?;
        if server.disabled.value == Some(true) {
            return None;
        }
        target(name, server, problems).map(|target| Written::new(target, server_place))
    });
    let targets = Written::new(targets.collect(), place);
    let backend = Backend { mcp: Written::new(McpBackend { targets }, place) };
    File { backends: Written::new(vec![Written::new(backend, place)], place), ..File::default() }
}

fn target(name: Written<String>, server: Server, problems: &RefCell<Problems>) -> Option<Target> {
    let note = |problem| {
        problems.borrow_mut().add(problem);
        None
    };
    let shown = name.value.clone().unwrap_or_default();
    let place = name.place;
    let kind = kind(&server.kind, problems);
    let url = server.server_url.or_later(server.url);
    let mut target = Target { name: name.map(Text), ..Target::default() };
    match (server.command.get(), url.get()) {
        (None, None) => {
            return note(
                Problem::error(place, format!("server `{shown}` has neither `command` nor `url`"))
                    .label("cannot be reached")
                    .help("give it a `command` to run or the `url` of a running server"),
            );
        }
        (Some(_), Some((_, at))) => {
            return note(
                Problem::error(at, format!("server `{shown}` has both `command` and `url`"))
                    .label("the second way to reach it")
                    .help("keep one of them, or make two servers of it"),
            );
        }
        (Some((_, at)), None) => {
            let Server { command, args, env, cwd, .. } = server;
            target.stdio = Written::new(Stdio { cmd: command, args, env, cwd, ..Stdio::default() }, at);
        }
        (None, Some((text, at))) => {
            let is_sse = kind.map_or_else(|| path_is_sse(&text.0), |kind| kind == "sse");
            let remote = Written::new(Remote { host: url, headers: server.headers }, at);
            if is_sse {
                target.sse = remote;
            } else {
                target.mcp = remote;
            }
        }
    }
    Some(target)
}

/// Clients that have no `type` tell the old transport by the path that its servers use by convention.
fn path_is_sse(url: &str) -> bool {
    url.split(['?', '#']).next().is_some_and(|path| path.trim_end_matches('/').ends_with("/sse"))
}

fn kind(written: &Written<Text>, problems: &RefCell<Problems>) -> Option<&'static str> {
    let (Text(text), place): (&Text, Place) = written.get()?;
    let known = TYPES.into_iter().find(|each| each == text);
    if known.is_none() {
        let choices = TYPES.join(", ");
        let help = match did_you_mean(text, TYPES) {
            Some(meant) => format!("did you mean `{meant}`? it can be: {choices}"),
            None => format!("write one of: {choices}"),
        };
        problems.borrow_mut().add(Problem::error(place, format!("`type` cannot be `{text}`")).label("not one of its values").help(help));
    }
    known
}
