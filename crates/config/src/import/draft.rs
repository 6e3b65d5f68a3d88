//! What is put together while a file is read.

use super::placeholders::{Meaning, Variables, literal, meaning, placeholders, screaming};
use super::secrets::{HIDDEN, Kind, secrets_in, speaks_of_a_secret};
use super::yaml;
use super::{Finding, Fit, Format, Imported, Options, items};
use crate::Source;
use crate::problem::{Problems, line_and_column};
use crate::tree::{self, LARGEST_SOURCE, Node, Value as Written};
use crate::written::Place;
use serde_json::{Map, Value, json};
use std::ops::Range;

/// What a target's name can carry.
const LONGEST_TARGET_NAME: usize = 64;

/// What a tool's name can carry.
pub const LONGEST_TOOL_NAME: usize = 128;

/// A config and a registry to be.
pub struct Draft<'s> {
    source: &'s Source,
    /// What was told beside the file.
    pub options: &'s Options,
    targets: Vec<Value>,
    tools: Vec<Value>,
    /// Sections of the config beside the targets.
    pub sections: Map<String, Value>,
    /// Rules about who may do what.
    pub rules: Vec<Value>,
    /// Whether tools that the registry does not mention are hidden.
    pub hide_unlisted: bool,
    findings: Vec<(Place, Finding)>,
    variables: Variables,
}

/// What a value is for, which decides what a variable in its place is called.
pub struct Wish<'w> {
    /// The server it belongs to.
    pub server: &'w str,
    /// The name of the variable, header or flag.
    pub name: &'w str,
    /// What it is for.
    pub kind: Kind,
}

/// A stretch of a value that is not copied.
enum Stretch {
    Placeholder(Range<usize>),
    Secret(Range<usize>, Option<String>),
}

impl Stretch {
    fn at(&self) -> &Range<usize> {
        match self {
            Stretch::Placeholder(at) | Stretch::Secret(at, _) => at,
        }
    }
}

impl<'s> Draft<'s> {
    /// Nothing yet.
    pub fn new(source: &'s Source, options: &'s Options) -> Draft<'s> {
        Draft {
            source,
            options,
            targets: Vec::new(),
            tools: Vec::new(),
            sections: Map::new(),
            rules: Vec::new(),
            hide_unlisted: false,
            findings: Vec::new(),
            variables: Variables::default(),
        }
    }

    /// Notes what became of an item.
    pub fn note(&mut self, fit: Fit, at: &Node, what: impl Into<String>, next: Option<&str>) {
        let place = at.underlined(None);
        let (line, column) = line_and_column(&self.source.text, place.start);
        self.findings.push((place, Finding { fit, line, column, what: what.into(), next: next.map(str::to_owned) }));
    }

    /// It means the same here.
    pub fn exact(&mut self, at: &Node, what: impl Into<String>) {
        self.note(Fit::Exact, at, what, None);
    }

    /// It means almost the same.
    pub fn approximate(&mut self, at: &Node, what: impl Into<String>, next: &str) {
        self.note(Fit::Approximate, at, what, Some(next));
    }

    /// Something is left to do.
    pub fn manual(&mut self, at: &Node, what: impl Into<String>, next: &str) {
        self.note(Fit::Manual, at, what, Some(next));
    }

    /// It was left out.
    pub fn unsupported(&mut self, at: &Node, what: impl Into<String>, next: &str) {
        self.note(Fit::Unsupported, at, what, Some(next));
    }

    /// A name that a target can have and none has yet.
    pub fn target_name(&mut self, wanted: &str, at: &Node) -> String {
        let clean: String =
            wanted.chars().map(|letter| if letter == '/' || letter.is_control() { '-' } else { letter }).take(LONGEST_TARGET_NAME).collect();
        let clean = if clean.trim().is_empty() { "server".to_owned() } else { clean };
        let mut name = clean.clone();
        let mut number = 2;
        while self.has_target(&name) {
            let cut: String = clean.chars().take(LONGEST_TARGET_NAME - 4).collect();
            name = format!("{cut}-{number}");
            number += 1;
        }
        if name != wanted {
            self.approximate(
                at,
                format!("`{wanted}` is called `{name}` here"),
                "a target's name has 1 to 64 characters, no `/`, and no other target has it",
            );
        }
        name
    }

    /// Whether there is such a target.
    pub fn has_target(&self, name: &str) -> bool {
        self.targets.iter().any(|target| target["name"] == name)
    }

    /// A variable that is spoken of already.
    pub fn variable(&mut self, name: &str) {
        self.variables.named(name);
    }

    /// Adds a target.
    pub fn target(&mut self, target: Value) {
        self.targets.push(target);
    }

    /// The targets so far, by name.
    pub fn target_names(&self) -> Vec<String> {
        self.targets.iter().filter_map(|target| target["name"].as_str().map(str::to_owned)).collect()
    }

    /// A target that tools stand on although the file says nothing of where it is.
    pub fn placeholder_target(&mut self, name: &str, at: &Node) {
        let variable = self.variables.named(&format!("{}_MCP_URL", screaming(name)));
        self.target(json!({ "name": name, "mcp": { "host": format!("${{{variable}}}") } }));
        self.manual(
            at,
            format!("the file does not say where target `{name}` is; it is reached at `${{{variable}}}`"),
            &format!("set {variable} to the URL of the MCP server, like http://localhost:8080/mcp, or write another transport into the config"),
        );
    }

    /// Adds a virtual tool. One whose name is taken gets a number behind it.
    pub fn tool(&mut self, mut tool: Value, at: &Node) {
        let name = tool["name"].as_str().unwrap_or_default().to_owned();
        let mut free = name.clone();
        let mut number = 2;
        while self.tools.iter().any(|other| other["name"] == free.as_str()) {
            let end = format!("_{number}");
            free = name.chars().take(LONGEST_TOOL_NAME - end.len()).chain(end.chars()).collect();
            number += 1;
        }
        if free != name {
            tool["name"] = free.as_str().into();
            self.approximate(at, format!("another tool `{name}` is called `{free}` here"), "every tool of a registry has a name of its own");
        }
        self.tools.push(tool);
    }

    /// Notes that something is not what it should be, and so is left out. What is not there at all needs no word.
    pub fn misfit(&mut self, at: &Node, what: &str, wanted: &str) {
        if !at.is_empty() {
            self.unsupported(at, format!("{what} is {}, not {wanted}; it is left out", at.kind()), &format!("write it as {wanted}"));
        }
    }

    /// The items of what should be a list.
    pub fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        if !matches!(node.value, Written::List(_)) {
            self.misfit(node, what, "a list");
        }
        items(node)
    }

    /// Whether something is the map that it should be.
    pub fn is_map(&mut self, node: &Node, what: &str) -> bool {
        let is_map = matches!(node.value, Written::Map(_));
        if !is_map {
            self.misfit(node, what, "a map");
        }
        is_map
    }

    /// Whether something is the text that it should be; a number will do.
    pub fn is_text(&mut self, node: &Node, what: &str) -> bool {
        if node.spelling().is_none() {
            self.misfit(node, what, "text");
        }
        node.spelling().is_some()
    }

    /// A value as our files write it: placeholders in our spelling, secrets behind a variable.
    pub fn value(&mut self, node: &Node, wish: &Wish<'_>) -> String {
        let text = node.spelling().unwrap_or_default().to_owned();
        self.value_of(&text, node, wish)
    }

    /// As [`Draft::value`], of a text that is only part of its node.
    pub fn value_of(&mut self, text: &str, node: &Node, wish: &Wish<'_>) -> String {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for stretch in stretches(text, wish) {
            let at = stretch.at().clone();
            out.push_str(&literal(&text[done..at.start]));
            done = at.end;
            match stretch {
                Stretch::Placeholder(_) => {
                    let ours = self.placeholder(&text[at], node, wish);
                    out.push_str(&ours);
                }
                Stretch::Secret(_, own) => {
                    let name = own.as_deref().unwrap_or(if wish.name.is_empty() { "value" } else { wish.name });
                    let is_own = wish.kind == Kind::Variable && own.is_none();
                    let wanted = if is_own { screaming(name) } else { screaming(&format!("{}_{name}", wish.server)) };
                    let variable = self.variables.standing_for(&wanted, &text[at]);
                    self.manual(
                        node,
                        format!("`{name}` of `{}` looks like a secret; it is `${{{variable}}}` now", wish.server),
                        &format!("set {variable} to the value in this file, and take it out of here"),
                    );
                    out.push_str(&format!("${{{variable}}}"));
                }
            }
        }
        out.push_str(&literal(&text[done..]));
        out
    }

    /// A placeholder in our spelling. A default that looks like a secret goes.
    fn placeholder(&mut self, written: &str, node: &Node, wish: &Wish<'_>) -> String {
        match meaning(written) {
            Meaning::Text(text) => text.to_owned(),
            Meaning::Variable { name, default: None } => {
                self.variables.named(name);
                format!("${{{name}}}")
            }
            Meaning::Variable { name, default: Some(default) } => {
                let is_secret = [wish.name, name].into_iter().any(|name| is_secret(default, &Wish { name, ..*wish }));
                if is_secret {
                    self.variables.named(name);
                    self.manual(
                        node,
                        format!("what `{name}` of `{}` is where it is not set looks like a secret, and is left out", wish.server),
                        &format!("set {name} to the value in this file, and take it out of here"),
                    );
                    return format!("${{{name}}}");
                }
                let default = self.value_of(default, node, wish);
                format!("${{{name}:-{default}}}")
            }
            Meaning::Odd { written, variable } => {
                if !self.variables.has(&variable) {
                    let next = format!("set {variable} to what it stands for");
                    self.manual(node, format!("`{written}` becomes `${{{variable}}}`"), &next);
                }
                self.variables.named(&variable);
                format!("${{{variable}}}")
            }
        }
    }

    /// A value of any shape, with its texts as [`Draft::value`] makes them. A number whose name speaks of a secret is left out: no
    /// variable can stand for it.
    pub fn tree(&mut self, node: &Node, wish: &Wish<'_>) -> Option<Value> {
        Some(match &node.value {
            Written::Text(_) => self.value(node, wish).into(),
            Written::Number(spelled) if is_secret(spelled, wish) => {
                let next = "write it as text, and a variable can take its place";
                self.manual(node, format!("`{}` of `{}` looks like a secret, and is left out", wish.name, wish.server), next);
                return None;
            }
            Written::List(items) => items.iter().filter_map(|item| self.tree(item, wish)).collect(),
            Written::Map(entries) => {
                let mut out = Map::new();
                for (key, value) in entries {
                    let name = key.spelling().unwrap_or_default();
                    // What stands in `credentials` is one, whatever it is called.
                    let called = if speaks_of_a_secret(wish.name) { wish.name } else { name };
                    if let Some(value) = self.tree(value, &Wish { name: called, ..*wish }) {
                        out.insert(name.to_owned(), value);
                    }
                }
                out.into()
            }
            _ => super::json(node),
        })
    }

    /// What came of it all.
    pub fn finish(mut self, format: Format) -> Imported {
        let mut config = Map::new();
        for key in ["listen", "tls"] {
            config.extend(self.sections.shift_remove_entry(key));
        }
        config.insert("backends".into(), json!([{ "mcp": { "targets": self.targets } }]));
        if !self.rules.is_empty() {
            let policies = self.sections.entry("policies").or_insert_with(|| json!({}));
            policies["authorization"] = json!({ "rules": self.rules });
        }
        config.append(&mut self.sections);
        let has_tools = !self.tools.is_empty();
        let mut registry = Map::new();
        if self.hide_unlisted {
            registry.insert("unlisted".into(), "hide".into());
        }
        let (mut beside, mut whole) = (config.clone(), config);
        if has_tools {
            whole.insert("tools".into(), self.tools.clone().into());
            let mut named = registry.clone();
            named.shift_insert(0, "source".into(), "./registry.json".into());
            beside.insert("registry".into(), named.into());
        }
        if !registry.is_empty() {
            whole.insert("registry".into(), registry.into());
        }
        let variables = self.variables.names();
        let head = |mut text: String| {
            let name: String = self.source.name.chars().filter(|letter| !letter.is_control()).collect();
            let mut head = format!("# Made by `transom import` from {name}.\n");
            if !variables.is_empty() {
                head.push_str(&format!("# Variables to set: {}\n", variables.join(", ")));
            }
            text.insert_str(0, &head);
            text
        };
        let document = json!({ "schemaVersion": "1.0", "tools": self.tools });
        let is_empty = self.targets.is_empty() && !has_tools;
        let config = head(yaml::written(&beside.into()));
        let whole = head(yaml::written(&whole.into()));
        let registry = has_tools.then(|| format!("{document:#}\n"));
        self.findings.sort_by_key(|(place, _)| place.start);
        let mut findings: Vec<Finding> = self.findings.into_iter().map(|(_, finding)| finding).collect();
        findings.extend(too_large(&whole, registry.as_deref()));
        Imported { format, config, registry, whole, findings, variables, is_empty }
    }
}

/// What is made of a large document may be more than a gateway reads.
fn too_large(whole: &str, registry: Option<&str>) -> Option<Finding> {
    let limit = LARGEST_SOURCE >> 20;
    let (what, next) = if registry.is_some_and(|registry| registry.len() > LARGEST_SOURCE) {
        (format!("what is made of this file is larger than the {limit} MiB that a gateway reads"), "import the document in parts")
    } else if tree::parse(whole, 0, &mut Problems::default()).is_none() {
        (format!("as one file this is larger than the {limit} MiB that a gateway reads"), "write two files with `--out`, or import it in parts")
    } else {
        return None;
    };
    Some(Finding { fit: Fit::Manual, line: 1, column: 1, what, next: Some(next.to_owned()) })
}

/// Placeholders and secrets of a value, first to last. What is written between placeholders is judged as well.
fn stretches(text: &str, wish: &Wish<'_>) -> Vec<Stretch> {
    let placeholders = placeholders(text);
    let mut hidden = text.to_owned();
    for at in &placeholders {
        hidden.replace_range(at.clone(), &HIDDEN.to_string().repeat(at.len()));
    }
    let mut out: Vec<Stretch> = Vec::new();
    for secret in secrets_in(wish.kind, wish.name, &hidden) {
        let mut start = secret.at.start;
        for part in hidden[secret.at.clone()].split(HIDDEN) {
            let end = start + part.len();
            if part.contains(char::is_alphanumeric) {
                // A `$` in front of a variable would make it a text.
                let dollars = hidden[..start].len() - hidden[..start].trim_end_matches('$').len();
                out.push(Stretch::Secret(start - dollars..end, secret.name.clone()));
            }
            start = end + HIDDEN.len_utf8();
        }
    }
    out.extend(placeholders.into_iter().map(Stretch::Placeholder));
    out.sort_by_key(|stretch| stretch.at().start);
    out
}

fn is_secret(text: &str, wish: &Wish<'_>) -> bool {
    stretches(text, wish).iter().any(|stretch| matches!(stretch, Stretch::Secret(..)))
}

/// Whether there is a secret in a value of any shape.
pub fn has_secret(node: &Node, wish: &Wish<'_>) -> bool {
    match &node.value {
        Written::List(items) => items.iter().any(|item| has_secret(item, wish)),
        Written::Map(entries) => entries.iter().any(|(key, value)| {
            let name = if speaks_of_a_secret(wish.name) { wish.name } else { key.spelling().unwrap_or_default() };
            has_secret(value, &Wish { name, ..*wish })
        }),
        _ => node.spelling().is_some_and(|text| is_secret(text, wish)),
    }
}
