//! What users write: reading a registry document, in every spelling that is accepted.
//!
//! Nothing is interpreted here. Each entry comes out as a [`VirtualToolDef`] whose parts still are pieces of the document's
//! text, so that every later complaint can point at the very characters. Entries with an error come out too: their source
//! must be withdrawn all the same. What the parts mean together is the business of [`compile`](mod@crate::compile).

mod entry;
mod place;
mod reader;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub(crate) use self::place::Place;
use self::reader::Reader;
use self::words::DOCUMENT_KEYS;
use crate::pin::OnDrift;
use crate::problem::{Code, Problem, Severity};
use crate::result::{Errors, OnMissing, OnUnshaped};
use std::borrow::Cow;
use std::ops::Range;
use transom_json::{Fault, Json, Kind, Limits, Tree, check};

/// A registry document to be read.
#[derive(Clone, Copy, Debug)]
pub struct Document<'d> {
    /// What to call it: a path, a URL.
    pub name: &'d str,
    /// Its text.
    pub text: &'d str,
}

/// A document may have this many bytes.
pub const DOCUMENT: usize = 16 << 20;
/// A document may have this many tools.
pub const TOOLS: usize = 10_000;
/// A tool may have this many fields hidden, and as many renamed or defaulted.
pub const FIELDS: usize = 1_000;

/// Duplicate keys are allowed here because a complaint about one needs its place, which the scan does not give.
const LIMITS: Limits = Limits { depth: 64, nodes: 4_000_000, key: 1024, duplicate_keys: true };

/// A registry as written.
#[derive(Debug, Default)]
pub struct Registry<'d> {
    /// `schemaVersion`, or "1.0".
    pub schema_version: Cow<'d, str>,
    /// Named schemas.
    pub schemas: Vec<NamedSchema<'d>>,
    /// Its tools, also those with an error.
    pub tools: Vec<VirtualToolDef<'d>>,
}

/// A schema that others refer to.
#[derive(Debug)]
pub struct NamedSchema<'d> {
    /// Its name.
    pub name: Text<'d>,
    /// The schema.
    pub schema: Json<'d>,
    /// Whether the name stands among the words of the schema.
    pub flat: bool,
}

impl NamedSchema<'_> {
    /// The schema without the words that are the registry's.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::from(self.schema);
        if let Some(members) = tree.as_object_mut().filter(|_| self.flat) {
            members.remove("name");
            members.remove("version");
        }
        tree
    }
}

/// One entry of `tools`.
#[derive(Debug)]
pub struct VirtualToolDef<'d> {
    /// The whole entry.
    pub json: Json<'d>,
    /// Where it stands among the tools of its document.
    pub index: usize,
    /// Its name; without one there is an error.
    pub name: Option<Text<'d>>,
    /// What it stands on.
    pub source: Option<ToolSource<'d>>,
    /// What it is if it stands on no target.
    pub implementation: Option<Json<'d>>,
    /// Overrides the source's title.
    pub title: Option<Text<'d>>,
    /// Overrides the source's description.
    pub description: Option<Text<'d>>,
    /// Overrides the source's annotations.
    pub annotations: Option<Json<'d>>,
    /// Replaces the source's input schema; speaks exposed names.
    pub input_schema: Option<Json<'d>>,
    /// Renamed arguments.
    pub arguments: Vec<Argument<'d>>,
    /// Values for fields of the source, by name or dotted path.
    pub defaults: Vec<(Text<'d>, Json<'d>)>,
    /// Fields of the source that callers never see.
    pub hide_fields: Vec<Text<'d>>,
    /// The shape of results.
    pub output: Option<OutputSchema<'d>>,
    /// The author's version of it.
    pub version: Option<Text<'d>>,
    /// Words for policies.
    pub tags: Vec<Text<'d>>,
    /// Anything else the author wants to keep with it.
    pub metadata: Option<Json<'d>>,
    /// The pin of the source.
    pub expected_source_hash: Option<Text<'d>>,
    /// Whether the source stays visible beside it.
    pub expose_source: bool,
    /// What it says for itself of what could be said for all.
    pub settings: Settings,
    /// The first thing that is wrong with it.
    pub error: Option<String>,
}

/// What a virtual tool stands on.
#[derive(Debug)]
pub enum ToolSource<'d> {
    /// A tool of a target.
    Target {
        /// The target.
        target: Text<'d>,
        /// The target's name for the tool; the entry's own name if it does not say.
        tool: Text<'d>,
    },
    /// Another tool of the registry.
    Tool(Text<'d>),
}

/// An argument under another name.
#[derive(Debug)]
pub struct Argument<'d> {
    /// What callers say.
    pub exposed: Text<'d>,
    /// What the source says.
    pub source: Text<'d>,
    /// Overrides the description of the field.
    pub description: Option<Text<'d>>,
}

/// The shape of results, as written.
#[derive(Debug)]
pub struct OutputSchema<'d> {
    /// `outputSchema`.
    pub schema: Option<Json<'d>>,
    /// `outputTransform.mappings`, the older spelling of paths.
    pub fields: Vec<OutputField<'d>>,
}

/// One of `outputTransform.mappings`.
#[derive(Debug)]
pub struct OutputField<'d> {
    /// The property it fills.
    pub name: Text<'d>,
    /// Its rule: an object with `path` and the like.
    pub rule: Json<'d>,
}

/// A string of the document and its place.
#[derive(Clone, Debug)]
pub struct Text<'d> {
    /// After unescaping.
    pub text: Cow<'d, str>,
    /// Its bytes in the document, with the quotes.
    pub at: Range<usize>,
}

/// What may be said for one tool or for all (`registry.defaults`). Nothing said: the next wider rule holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What becomes of a hidden argument that a caller sends.
    pub hidden_arguments: Option<HiddenArguments>,
    /// What becomes of a tool whose source changed.
    pub on_drift: Option<OnDrift>,
    /// What becomes of an output field that the result does not have.
    pub on_missing: Option<OnMissing>,
    /// What becomes of a result that cannot be shaped.
    pub on_unshaped: Option<OnUnshaped>,
    /// Whether the texts of failed calls reach the caller.
    pub errors: Option<Errors>,
    /// Whether other blocks stay beside a projection.
    pub keep_content: Option<bool>,
    /// Whether fields with a default are hidden.
    pub hide_defaulted: Option<bool>,
    /// Whether strings become numbers and booleans where the schema wants those and nothing is lost.
    pub coerce_arguments: Option<bool>,
}

impl Settings {
    /// These, and what they leave open from wider ones.
    pub fn or(&self, wider: &Settings) -> Settings {
        Settings {
            hidden_arguments: self.hidden_arguments.or(wider.hidden_arguments),
            on_drift: self.on_drift.or(wider.on_drift),
            on_missing: self.on_missing.or(wider.on_missing),
            on_unshaped: self.on_unshaped.or(wider.on_unshaped),
            errors: self.errors.or(wider.errors),
            keep_content: self.keep_content.or(wider.keep_content),
            hide_defaulted: self.hide_defaulted.or(wider.hide_defaulted),
            coerce_arguments: self.coerce_arguments.or(wider.coerce_arguments),
        }
    }
}

/// What becomes of a hidden argument that a caller sends. One that only looks like it is always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HiddenArguments {
    /// The call is refused.
    #[default]
    Reject,
    /// The argument is left out.
    Drop,
}

/// Reads a document. Problems of tools are collected; `None` means that the document is no registry at all.
pub fn read<'d>(document: usize, text: &'d str, problems: &mut Vec<Problem>) -> Option<Registry<'d>> {
    let whole = match checked(document, text) {
        Ok(whole) => whole,
        Err(problem) => {
            problems.push(*problem);
            return None;
        }
    };
    let place = Place { text, document, root: whole, base: String::new(), tool: None };
    let mut reader = Reader { place, problems, failed: None };
    let mut registry = Registry { schema_version: "1.0".into(), ..Registry::default() };
    let mut lists = Vec::new();
    for (key, value) in whole.members() {
        match &*key.text() {
            "schemaVersion" => {
                if let Some(version) = reader.text(value, "schemaVersion") {
                    registry.schema_version = version.text;
                }
            }
            "tools" if value.kind() == Kind::Array => lists.push(value),
            "tools" => {
                let found = kind(value);
                reader.error(
                    Code::NotARegistry,
                    reader.span(value),
                    format!("`tools` is {found}, not a list"),
                    "a list of tools goes here",
                    Some("write [{…}], even for one".into()),
                );
                return None;
            }
            "schemas" => reader.schemas(value, &mut registry.schemas),
            "$schema" => {}
            other => reader.unknown(key, other, "the registry", DOCUMENT_KEYS),
        }
    }
    // A second `tools` is a duplicate key and reported as such; its tools are read all the same, lest their sources show.
    let tools: Vec<Json<'_>> = lists.iter().flat_map(|list| list.elements()).take(TOOLS + 1).collect();
    if let Some(extra) = tools.get(TOOLS) {
        let message = format!("the registry has more than {TOOLS} tools");
        reader.error(Code::TooLarge, reader.span(*extra), message, "one too many", Some("split it over several gateways".into()));
        return None;
    }
    // The scan that refuses duplicates is fast; only if it found one are they looked for one by one.
    let duplicates = matches!(check(text.as_bytes(), &Limits { duplicate_keys: false, ..LIMITS }), Err(Fault::DuplicateKey));
    if duplicates {
        reader.duplicate_members(whole);
        whole.members().filter(|(key, _)| !key.is("tools")).for_each(|(_, value)| reader.duplicates(value));
    }
    for (index, json) in tools.into_iter().enumerate() {
        let base = format!("/tools/{index}");
        let name = json.get("name").and_then(Json::string);
        let place = Place { text, document, root: json, base, tool: name.as_deref().map(shortened) };
        let mut reader = Reader { place, problems: &mut *reader.problems, failed: None };
        if duplicates {
            reader.duplicates(json);
        }
        registry.tools.push(reader.tool(json, index));
    }
    Some(registry)
}

/// The outermost questions: is it small enough, is it JSON, is it an object?
fn checked(document: usize, text: &str) -> Result<Json<'_>, Box<Problem>> {
    let refuse = |code, span: Range<usize>, message: String, label: &str, help: Option<String>| {
        let (pointer, label) = (String::new(), label.to_owned());
        Err(Box::new(Problem { severity: Severity::Error, code, document, tool: None, pointer, span, message, label, help }))
    };
    if text.len() > DOCUMENT {
        let message = format!("the registry has more than {DOCUMENT} bytes");
        return refuse(Code::TooLarge, 0..0, message, "too large", Some("split it over several gateways".into()));
    }
    match check(text.as_bytes(), &LIMITS) {
        Ok(json) if json.kind() == Kind::Object => Ok(json),
        Ok(json) => {
            let message = format!("the registry is {}, not an object", kind(json));
            refuse(Code::NotARegistry, 0..text.trim_end().len(), message, "an object goes here", Some("write {\"tools\": […]}".into()))
        }
        Err(Fault::NotJson(at)) => {
            let end = text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |next| at + next.len_utf8());
            let (label, help) = match text.get(at..).and_then(|rest| rest.chars().next()) {
                None => ("it ends here", Some("something is not closed, or the file was cut off")),
                Some('}' | ']') => ("not expected here", Some("JSON allows no comma before a closing bracket")),
                Some('\'') => ("not expected here", Some("JSON strings stand in double quotes")),
                Some('/' | '#') => ("not expected here", Some("JSON has no comments; a key \"$comment\" may hold one")),
                Some('\u{feff}') => ("a byte order mark", Some("save the file as UTF-8 without a byte order mark")),
                Some(_) if text.get(..at).is_some_and(|before| before.trim().is_empty()) => {
                    ("not expected here", Some("a registry is written in JSON and begins with `{`"))
                }
                Some(_) => ("not expected here", Some("names and texts stand in double quotes, and commas between members")),
            };
            // Where the text just ends there is nothing to underline but what came last.
            let start = if at < end { at } else { text.trim_end().char_indices().next_back().map_or(0, |(last, _)| last) };
            refuse(Code::NotARegistry, start..end, "the registry is not JSON".into(), label, help.map(str::to_owned))
        }
        Err(Fault::TooDeep) => {
            let at = first_deeper_than(text, LIMITS.depth);
            refuse(
                Code::TooLarge,
                at..at + 1,
                format!("the registry is nested more than {} deep", LIMITS.depth),
                "too deep",
                Some("refer to named `schemas` instead of nesting them".into()),
            )
        }
        Err(fault) => refuse(Code::TooLarge, 0..0, format!("the registry cannot be read: {fault}"), "", None),
    }
}

/// Where checked-so-far JSON first goes deeper than this.
fn first_deeper_than(text: &str, limit: usize) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' if depth == limit => return at,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    0
}

/// What a value is, for messages.
pub(crate) fn kind(json: Json<'_>) -> &'static str {
    match json.kind() {
        Kind::Object => "an object",
        Kind::Array => "a list",
        Kind::String => "a string",
        Kind::Number => "a number",
        Kind::Bool => "a boolean",
        Kind::Null => "null",
    }
}

/// A name as it may stand in a message.
fn shortened(name: &str) -> String {
    if name.len() <= 128 { name.to_owned() } else { name.chars().take(40).chain(['…']).collect() }
}
