//! Other programs' files, turned into a config and a registry of ours.
//!
//! Pure: a text in, texts and findings out. Every item of the file has a finding that says how well it fits; nothing is dropped in
//! silence. A secret never reaches the output: a variable takes its place, and a finding names it.

#![allow(clippy::indexing_slicing, reason = "a member that is not there reads as null; what is built takes a member of any name")]

mod agentgateway;
mod comments;
mod draft;
mod fastmcp;
mod openapi;
mod placeholders;
mod schema;
mod secrets;
mod servers;
mod toolhive;
mod vscode;
mod yaml;

use crate::problem::{Problem, Problems, Report};
use crate::tree::{Node, Value};
use crate::{Source, tree};
use draft::Draft;
use std::fmt;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// agentgateway's config, long (`binds`) or short (`mcp`).
    Agentgateway,
    /// `mcpServers`, of desktop clients and editors.
    McpServers,
    /// VS Code's `servers`, with `inputs`.
    VsCode,
    /// FastMCP's `mcpServers` with tool transforms.
    FastMcp,
    /// ToolHive's overrides: a file for `--tools-override`, a run config, or an `MCPToolConfig`.
    ToolHive,
    /// An OpenAPI document, 3.0 or 3.1.
    OpenApi,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] = [Format::Agentgateway, Format::McpServers, Format::VsCode, Format::FastMcp, Format::ToolHive, Format::OpenApi];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Agentgateway => "agentgateway",
            Format::McpServers => "mcp-servers",
            Format::VsCode => "vscode",
            Format::FastMcp => "fastmcp",
            Format::ToolHive => "toolhive",
            Format::OpenApi => "openapi",
        }
    }
}

/// How well an item fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It means the same here.
    Exact,
    /// It means almost the same; the finding says what differs.
    Approximate,
    /// Something is left for a person to do.
    Manual,
    /// There is no such thing here, and it was left out.
    Unsupported,
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fit::Exact => "exact",
            Fit::Approximate => "approximate",
            Fit::Manual => "manual",
            Fit::Unsupported => "unsupported",
        })
    }
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How well it fits.
    pub fit: Fit,
    /// Where it stands in the file, counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// What was found and what was made of it. Never holds a secret.
    pub what: String,
    /// What to do next.
    pub next: Option<String>,
}

/// What can be told beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whose file it is; told by its content if absent.
    pub from: Option<Format>,
    /// The target that tools stand on, for files that name none.
    pub target: Option<String>,
}

/// What came of a file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Whose file it was.
    pub format: Format,
    /// The config, in YAML. It names `registry.json` beside it if there is a registry.
    pub config: String,
    /// The registry, in JSON.
    pub registry: Option<String>,
    /// Config and registry in one, in YAML.
    pub whole: String,
    /// What became of every item, in the order of the file.
    pub findings: Vec<Finding>,
    /// The variables that must be set before the config can be used.
    pub variables: Vec<String>,
    /// Whether there was neither a server nor a tool in it that could be read.
    pub is_empty: bool,
}

/// Turns a file of another program into ours. Fails if it cannot be read, or nobody's shape is recognised.
pub fn import(source: &Source, options: &Options) -> Result<Imported, Report> {
    let plain = Source { text: comments::without_comments(&source.text), ..source.clone() };
    let mut problems = Problems::default();
    let Some(tree) = tree::parse(&plain.text, 0, &mut problems) else {
        return Err(problems.into_report(std::slice::from_ref(source)));
    };
    let Some(format) = options.from.or_else(|| told_apart(&tree)) else {
        let problem = Problem::error(tree.underlined(None), "this is no file that can be imported");
        let known = "known are agentgateway (`binds` or `mcp`), `mcpServers`, VS Code (`servers`), FastMCP (`mcpServers` with `tools`), ToolHive (`toolsOverride`) and OpenAPI (`openapi`)";
        return Err(Report::new(std::slice::from_ref(source), [problem.help(format!("{known}; name one with `--from`"))]));
    };
    let mut draft = Draft::new(&plain, options);
    match format {
        Format::Agentgateway => agentgateway::import(&tree, &mut draft),
        Format::McpServers | Format::FastMcp => fastmcp::import(&tree, &mut draft),
        Format::VsCode => vscode::import(&tree, &mut draft),
        Format::ToolHive => toolhive::import(&tree, &mut draft),
        Format::OpenApi => openapi::import(&tree, &mut draft),
    }
    Ok(draft.finish(format))
}

/// Whose file it is, by what it says.
fn told_apart(tree: &Node) -> Option<Format> {
    let has = |key: &str| tree.has(key);
    if has("openapi") || has("swagger") {
        Some(Format::OpenApi)
    } else if let Some(servers) = get(tree, "mcpServers") {
        let transforms = entries(servers).any(|(_, server)| get(server, "tools").is_some_and(|tools| matches!(tools.value, Value::Map(_))));
        Some(if transforms { Format::FastMcp } else { Format::McpServers })
    } else if has("binds") || get(tree, "mcp").is_some_and(|mcp| mcp.has("targets")) {
        Some(Format::Agentgateway)
    } else if ["toolsOverride", "tools_override", "toolsFilter", "tools_filter"].into_iter().any(has) || is_toolhive_resource(tree) {
        Some(Format::ToolHive)
    } else if has("servers") || get(tree, "mcp").is_some_and(|mcp| mcp.has("servers")) {
        Some(Format::VsCode)
    } else {
        None
    }
}

fn is_toolhive_resource(tree: &Node) -> bool {
    get(tree, "apiVersion").and_then(Node::spelling).is_some_and(|version| version.starts_with("toolhive."))
}

/// A member of a map.
fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    entries(node).find(|(name, _)| name.spelling() == Some(key)).map(|(_, value)| value)
}

/// The first of several spellings of a member.
fn first<'n>(node: &'n Node, keys: &[&str]) -> Option<&'n Node> {
    keys.iter().find_map(|key| get(node, key))
}

/// The members of a map.
fn entries(node: &Node) -> impl Iterator<Item = (&Node, &Node)> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|(key, value)| (key, value))
}

/// The items of a list.
fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => &[],
    }
}

/// A text member.
fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    get(node, key).and_then(Node::spelling)
}

/// Whether a member says `true`.
fn is_true(node: &Node, key: &str) -> bool {
    get(node, key).is_some_and(|value| matches!(value.value, Value::Boolean(true)))
}

/// A node as JSON, numbers as they are spelled as far as JSON can.
fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Number(spelled) => serde_json::from_str(spelled).unwrap_or_else(|_| spelled.as_str().into()),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            serde_json::Value::Object(entries.iter().map(|(key, value)| (key.spelling().unwrap_or_default().to_owned(), json(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests;
