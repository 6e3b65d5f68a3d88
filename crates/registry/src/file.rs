//! What users write: reading a registry document, in every spelling that is accepted.
//!
//! Nothing is interpreted here. Each entry comes out as a [`VirtualToolDef`] whose parts still are pieces of the document's
//! text, so that every later complaint can point at the very characters. Entries with an error come out too: their source
//! must be withdrawn all the same. What the parts mean together is the business of [`compile`](mod@crate::compile).

use crate::name::{is_portable, is_sound};
use crate::pin::OnDrift;
use crate::problem::{Code, Problem, Severity, did_you_mean};
use crate::result::{Errors, OnMissing, OnUnshaped, PATH_WORDS, SCHEMAS};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use transom_json::{Fault, Json, Key, Kind, Limits, Tree, check};

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

/// A part of a document that complaints point into.
#[derive(Clone, Debug)]
pub(crate) struct Place<'d> {
    pub text: &'d str,
    pub document: usize,
    /// The value that is being read, a piece of `text`.
    pub root: Json<'d>,
    /// Its JSON pointer.
    pub base: String,
    /// The tool that complaints belong to.
    pub tool: Option<String>,
}

impl<'d> Place<'d> {
    /// The bytes of a piece of the text.
    pub fn span_of(&self, piece: &str) -> Range<usize> {
        let start = (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + piece.len()
    }

    /// The bytes of a key with its quotes.
    pub fn key_span(&self, key: Key<'_>) -> Range<usize> {
        let inner = self.span_of(key.raw());
        inner.start.saturating_sub(1)..inner.end + 1
    }

    /// A part of a string's text, given in bytes after unescaping, as bytes of the document.
    pub fn inside(&self, string: &Range<usize>, part: &Range<usize>) -> Range<usize> {
        let raw = self.text.get(string.start + 1..string.end.saturating_sub(1)).unwrap_or("");
        let from = string.start + 1 + escaped_offset(raw, part.start);
        let to = string.start + 1 + escaped_offset(raw, part.end);
        from..to.max(from)
    }

    /// The JSON pointer to whatever stands at this byte, found by walking down to it.
    pub fn pointer(&self, at: usize) -> String {
        let mut pointer = self.base.clone();
        let mut value = self.root;
        loop {
            let holds = |json: Json<'_>| self.span_of(json.raw()).contains(&at);
            let next = match value.kind() {
                Kind::Object => value.members().find(|(key, value)| self.key_span(*key).contains(&at) || holds(*value)).map(|(key, value)| {
                    pointer.push('/');
                    pointer.push_str(&key.text().replace('~', "~0").replace('/', "~1"));
                    value
                }),
                Kind::Array => value.elements().enumerate().find(|(_, value)| holds(*value)).map(|(index, value)| {
                    pointer.push_str(&format!("/{index}"));
                    value
                }),
                _ => None,
            };
            match next {
                Some(inner) => value = inner,
                None => return pointer,
            }
        }
    }

    /// A problem at these bytes.
    pub fn problem(&self, severity: Severity, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) -> Problem {
        let pointer = self.pointer(span.start);
        let (message, help) = (visible(message), help.map(visible));
        Problem { severity, code, document: self.document, tool: self.tool.clone(), pointer, span, message, label: label.to_owned(), help }
    }
}

/// Names and values in messages are written by others, and a terminal obeys control characters.
fn visible(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    text.chars().map(|each| if each.is_control() { each.escape_default().to_string() } else { each.into() }).collect()
}

/// Where the byte `at` of an unescaped string stands in the string as written.
fn escaped_offset(raw: &str, at: usize) -> usize {
    let (mut plain, mut written) = (0, 0);
    let mut rest = raw;
    while plain < at && !rest.is_empty() {
        let (length, bytes) = match rest.as_bytes() {
            [b'\\', b'u', ..] => {
                let unit = rest.get(2..6).and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0);
                if (0xd800..0xdc00).contains(&unit) { (12, 4) } else { (6, char::from_u32(unit).map_or(3, char::len_utf8)) }
            }
            [b'\\', ..] => (2, 1),
            _ => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                (length, length)
            }
        };
        plain += bytes;
        written += length;
        rest = rest.get(length..).unwrap_or("");
    }
    written.min(raw.len())
}

/// Reads one part of a document and collects what is wrong with it.
struct Reader<'d, 'p> {
    place: Place<'d>,
    problems: &'p mut Vec<Problem>,
    /// The first error.
    failed: Option<String>,
}

/// The keys of a document.
pub(crate) const DOCUMENT_KEYS: &[&str] = &["$schema", "schemaVersion", "tools", "schemas"];
/// The keys of an entry.
pub(crate) const TOOL_KEYS: &[&str] = &[
    "name",
    "source",
    "server",
    "originalName",
    "implementation",
    "type",
    "handler",
    "title",
    "description",
    "annotations",
    "inputSchema",
    "parameters",
    "arguments",
    "defaults",
    "hideFields",
    "outputSchema",
    "outputTransform",
    "version",
    "tags",
    "metadata",
    "expectedSourceHash",
    "exposeSource",
    "hiddenArguments",
    "onDrift",
    "onMissing",
    "onUnshaped",
    "errors",
    "keepContent",
    "hideDefaulted",
    "coerceArguments",
];
/// The keys of a source that is an object.
pub(crate) const SOURCE_KEYS: &[&str] = &["target", "server", "tool", "originalName", "defaults", "hideFields"];
/// The keys of an argument.
pub(crate) const ARGUMENT_KEYS: &[&str] = &["source", "description"];
/// The keys of an implementation.
const IMPLEMENTATION_KEYS: &[&str] = &["type", "handler", "mock_response"];
/// Words of JSON Schema, beside those that hold data or schemas.
const SCHEMA_WORDS: &[&str] = &[
    "type",
    "title",
    "description",
    "format",
    "pattern",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependencies",
    "readOnly",
    "writeOnly",
    "deprecated",
    "contentEncoding",
    "contentMediaType",
    "id",
];
/// A registry refers to targets; it never says how to run or reach one (F1).
const FORBIDDEN_KEYS: &[&str] = &["command", "args", "env", "url", "headers", "targets"];

impl<'d> Reader<'d, '_> {
    fn span(&self, json: Json<'_>) -> Range<usize> {
        self.place.span_of(json.raw())
    }

    fn error(&mut self, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.failed.get_or_insert_with(|| message.clone());
        self.problems.push(self.place.problem(Severity::Error, code, span, message, label, help));
    }

    fn warning(&mut self, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.problems.push(self.place.problem(Severity::Warning, code, span, message, label, help));
    }

    /// What is being read, at the head of a message.
    fn subject(&self) -> String {
        match &self.place.tool {
            Some(name) => format!("tool `{name}`"),
            None if self.place.base.is_empty() => "the registry".into(),
            None => format!("the tool at `{}`", self.place.base),
        }
    }

    fn wrong(&mut self, json: Json<'d>, what: &str, wanted: &str) {
        let message = format!("{}: `{what}` is {}, not {wanted}", self.subject(), kind(json));
        let form = match wanted {
            "a string" => r#"write "…""#,
            "true or false" => "write true or false, without quotes",
            "a list" => "write […]",
            "a list of strings" => r#"write ["…"], even for one"#,
            "an object" => r#"write {"…": …}"#,
            _ => r#"write {"target": "…", "tool": "…"}, or the name of another tool of this registry"#,
        };
        self.error(Code::BadValue, self.span(json), message, &format!("{wanted} goes here"), Some(form.into()));
    }

    /// A key nobody reads: a warning, or an error if it would run or reach something. Comments are silent.
    fn unknown(&mut self, key: Key<'d>, name: &str, of: &str, known: &[&'static str]) {
        if name.starts_with("$comment") || name.starts_with("x-") {
            return;
        }
        let span = self.place.key_span(key);
        let name = shortened(name);
        if FORBIDDEN_KEYS.contains(&name.as_str()) {
            let message = format!("{}: a registry may not say `{name}`", self.subject());
            let help = Some("a registry can only refer to targets; how they are run or reached stands in the config".into());
            self.error(Code::ForbiddenKey, span, message, "not allowed here", help);
            return;
        }
        let message = match of {
            "a tool" | "the registry" => format!("{} has no key `{name}`", self.subject()),
            part => format!("{}: {part} has no key `{name}`", self.subject()),
        };
        let help = match did_you_mean(&name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "keys that begin with `x-` or `$comment` are left alone".into(),
        };
        self.warning(Code::UnknownKey, span, message, "unknown key", Some(help));
    }

    fn text(&mut self, json: Json<'d>, what: &str) -> Option<Text<'d>> {
        match json.string() {
            Some(text) => Some(Text { text, at: self.span(json) }),
            None => {
                self.wrong(json, what, "a string");
                None
            }
        }
    }

    fn key(&self, key: Key<'d>) -> Text<'d> {
        Text { text: key.text(), at: self.place.key_span(key) }
    }

    fn bool(&mut self, json: Json<'d>, what: &str) -> Option<bool> {
        let value = json.bool();
        if value.is_none() {
            self.wrong(json, what, "true or false");
        }
        value
    }

    fn object(&mut self, json: Json<'d>, what: &str) -> Option<Json<'d>> {
        if json.kind() == Kind::Object {
            return Some(json);
        }
        self.wrong(json, what, "an object");
        None
    }

    /// One of a few words.
    fn word<T: Copy>(&mut self, json: Json<'d>, what: &str, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(json, what)?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text.text) {
            return Some(*meaning);
        }
        let known: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        let message = format!("{}: `{what}` cannot be `{}`", self.subject(), shortened(&text.text));
        self.error(Code::BadValue, text.at, message, "no such choice", Some(format!("it is one of {}", known.join(", "))));
        None
    }

    fn texts(&mut self, json: Json<'d>, what: &str) -> Vec<Text<'d>> {
        if json.kind() != Kind::Array {
            self.wrong(json, what, "a list of strings");
            return Vec::new();
        }
        json.elements().filter_map(|element| self.text(element, what)).collect()
    }

    fn schemas(&mut self, json: Json<'d>, found: &mut Vec<NamedSchema<'d>>) {
        let mut seen = HashSet::new();
        let mut named = Vec::new();
        match json.kind() {
            Kind::Object => named.extend(json.members().map(|(key, schema)| (self.key(key), schema, false))),
            Kind::Array => {
                for element in json.elements() {
                    match element.get("name").map(|name| self.text(name, "schemas[].name")) {
                        Some(Some(name)) => named.push((name, element.get("schema").unwrap_or(element), element.get("schema").is_none())),
                        Some(None) => {}
                        None => {
                            let help = Some("write {\"name\": \"…\", \"schema\": {…}}".into());
                            self.error(Code::MissingKey, self.span(element), "a named schema has no name".into(), "`name` is missing", help);
                        }
                    }
                }
            }
            _ => self.wrong(json, "schemas", "a list"),
        }
        for (name, schema, flat) in named {
            if !seen.insert(name.text.clone()) {
                let message = format!("schema `{}` is defined twice; the first one counts", shortened(&name.text));
                self.error(Code::DuplicateName, name.at, message, "the second one", Some("rename one of them, or remove it".into()));
            } else if !matches!(schema.kind(), Kind::Object | Kind::Bool) {
                self.wrong(schema, "schemas[].schema", "an object");
            } else {
                found.push(NamedSchema { name, schema, flat });
            }
        }
    }

    /// Keys that stand twice anywhere in a value.
    fn duplicates(&mut self, json: Json<'d>) {
        // As deep as the document, which is bounded.
        match json.kind() {
            Kind::Object => {
                self.duplicate_members(json);
                json.members().for_each(|(_, value)| self.duplicates(value));
            }
            Kind::Array => json.elements().for_each(|element| self.duplicates(element)),
            _ => {}
        }
    }

    fn duplicate_members(&mut self, json: Json<'d>) {
        let mut seen = HashSet::new();
        for (key, _) in json.members() {
            if !seen.insert(key.text()) {
                let message = format!("{}: key `{}` stands twice in one object", self.subject(), shortened(&key.text()));
                self.error(
                    Code::DuplicateKey,
                    self.place.key_span(key),
                    message,
                    "the second one",
                    Some("readers disagree which one counts; keep one".into()),
                );
            }
        }
    }

    /// One entry.
    fn tool(&mut self, json: Json<'d>, index: usize) -> VirtualToolDef<'d> {
        let mut tool = VirtualToolDef {
            json,
            index,
            name: None,
            source: None,
            implementation: None,
            title: None,
            description: None,
            annotations: None,
            input_schema: None,
            arguments: Vec::new(),
            defaults: Vec::new(),
            hide_fields: Vec::new(),
            output: None,
            version: None,
            tags: Vec::new(),
            metadata: None,
            expected_source_hash: None,
            expose_source: false,
            settings: Settings::default(),
            error: None,
        };
        if json.kind() != Kind::Object {
            let message = format!("{} is {}, not an object", self.subject(), kind(json));
            self.error(Code::BadValue, self.span(json), message, "a tool goes here", Some(r#"write {"name": "…", "source": {…}}"#.into()));
            tool.error = self.failed.take();
            return tool;
        }
        self.name(json, &mut tool);
        for (key, value) in json.members() {
            self.member(key, value, &mut tool);
        }
        self.source(json, &mut tool);
        tool.error = self.failed.take();
        tool
    }

    fn name(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(name) = json.get("name") else {
            let start = self.span(json).start;
            let help = Some("every tool needs a `name` of its own".into());
            self.error(Code::MissingKey, start..start + 1, format!("{} has no `name`", self.subject()), "`name` is missing", help);
            return;
        };
        let Some(name) = self.text(name, "name") else { return };
        if !is_sound(&name.text) {
            let message = format!("{}: this cannot be the name of a tool", self.subject());
            let help = "1 to 128 bytes, no blanks around it, no control, invisible or direction-changing characters";
            self.error(Code::BadName, name.at.clone(), message, "not a name", Some(help.into()));
        } else if !is_portable(&name.text) {
            let message = format!("{}: some LLM providers refuse this name", self.subject());
            let help = "at most 64 letters, digits, `_` and `-` please all of them";
            self.warning(Code::BadName, name.at.clone(), message, "not a name everywhere", Some(help.into()));
        }
        tool.name = Some(name);
    }

    /// Everything of an entry but its name and its source, which are read as a whole.
    fn member(&mut self, key: Key<'d>, value: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let name = key.text();
        let what = &*name;
        // An explicit null is how programs write that they have nothing to say. Only `onMissing` has a meaning for it.
        if value.kind() == Kind::Null && what != "onMissing" && TOOL_KEYS.contains(&what) {
            return;
        }
        match what {
            "name" | "source" | "server" | "originalName" => {}
            "type" => {
                self.word(value, what, &[("function", ())]);
            }
            // Read together with the implementation.
            "handler" => {
                self.text(value, what);
            }
            "implementation" => {
                tool.implementation = self.object(value, what);
                for (key, _) in value.members() {
                    let name = key.text();
                    if !IMPLEMENTATION_KEYS.contains(&&*name)
                        && let Some(near) = did_you_mean(&name, IMPLEMENTATION_KEYS.iter().copied())
                    {
                        self.misspelled(key, "an implementation", near);
                    }
                }
            }
            "title" => tool.title = self.text(value, what),
            "description" => tool.description = self.text(value, what),
            "annotations" => tool.annotations = self.object(value, what),
            "inputSchema" | "parameters" => {
                if tool.input_schema.is_some() {
                    self.twice(key, "inputSchema", "parameters");
                }
                tool.input_schema = self.object(value, what);
            }
            "arguments" => self.arguments(value, tool),
            "defaults" => self.defaults(value, tool),
            "hideFields" => self.hide_fields(value, tool),
            "outputSchema" => {
                let schema = self.object(value, what);
                schema.into_iter().for_each(|schema| self.output_words(schema, "sourceField"));
                tool.output.get_or_insert(OutputSchema { schema: None, fields: Vec::new() }).schema = schema;
            }
            "outputTransform" => self.output_transform(value, tool),
            "version" => tool.version = self.text(value, what),
            "tags" => tool.tags = self.texts(value, what),
            "metadata" => tool.metadata = self.object(value, what),
            "expectedSourceHash" => tool.expected_source_hash = self.text(value, what),
            "exposeSource" => tool.expose_source = self.bool(value, what).unwrap_or(false),
            "hiddenArguments" => {
                tool.settings.hidden_arguments = self.word(value, what, &[("reject", HiddenArguments::Reject), ("drop", HiddenArguments::Drop)]);
            }
            "onDrift" => {
                let words = [("quarantine", OnDrift::Quarantine), ("warn", OnDrift::Warn), ("ignore", OnDrift::Ignore)];
                tool.settings.on_drift = self.word(value, what, &words);
            }
            "onMissing" if value.kind() == Kind::Null => tool.settings.on_missing = Some(OnMissing::Null),
            "onMissing" => {
                let words = [("null", OnMissing::Null), ("error", OnMissing::Error), ("omit", OnMissing::Omit)];
                tool.settings.on_missing = self.word(value, what, &words);
            }
            "onUnshaped" => {
                let words = [("error", OnUnshaped::Error), ("passthrough", OnUnshaped::Passthrough)];
                tool.settings.on_unshaped = self.word(value, what, &words);
            }
            "errors" => tool.settings.errors = self.word(value, what, &[("pass", Errors::Pass), ("generic", Errors::Generic)]),
            "keepContent" => tool.settings.keep_content = self.bool(value, what),
            "hideDefaulted" => tool.settings.hide_defaulted = self.bool(value, what),
            "coerceArguments" => tool.settings.coerce_arguments = self.bool(value, what),
            _ => self.unknown(key, what, "a tool", TOOL_KEYS),
        }
    }

    /// Misspelled words of an output schema: without its paths a result would pass as it is. JSON Schema lets everybody have words
    /// of their own, so only those are told that look like ours or hold a path.
    fn output_words(&mut self, schema: Json<'d>, path_word: &'static str) {
        // As deep as the document, which is bounded.
        for (key, value) in schema.members() {
            let name = key.text();
            match &*name {
                "const" | "enum" | "default" | "examples" | "literal" | "vars" | "coalesce" => {}
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                    value.members().for_each(|(_, schema)| self.output_words(schema, "sourceField"));
                }
                word if PATH_WORDS.contains(&word) || SCHEMAS.contains(&word) || SCHEMA_WORDS.contains(&word) || word == path_word => {
                    value.elements().chain([value]).for_each(|schema| self.output_words(schema, "sourceField"));
                }
                word if word.starts_with('$') || word.starts_with("x-") => {}
                word => {
                    let holds_path = value.string().is_some_and(|text| text.starts_with("$.") || text.starts_with("$["));
                    let near =
                        did_you_mean(word, PATH_WORDS.iter().copied().filter(|each| *each != "source_field")).or(holds_path.then_some(path_word));
                    if let Some(near) = near {
                        self.misspelled(key, "an output field", near);
                    }
                }
            }
        }
    }

    /// A key that looks like another.
    fn misspelled(&mut self, key: Key<'d>, of: &str, near: &str) {
        let message = format!("{}: {of} has no key `{}`", self.subject(), shortened(&key.text()));
        self.warning(Code::UnknownKey, self.place.key_span(key), message, "unknown key", Some(format!("did you mean `{near}`?")));
    }

    /// The same thing under two of its spellings.
    fn twice(&mut self, key: Key<'d>, one: &str, other: &str) {
        let message = format!("{}: `{one}` and `{other}` mean the same; only one of them may stand here", self.subject());
        self.error(Code::Contradiction, self.place.key_span(key), message, "said twice", Some(format!("keep `{one}`")));
    }

    fn arguments(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(json) = self.object(json, "arguments") else { return };
        for (key, value) in json.members().take(self.bounded(json, "arguments")) {
            let exposed = self.key(key);
            let what = format!("arguments.{}", shortened(&exposed.text));
            let Some(value) = self.object(value, &what) else { continue };
            let mut argument = Argument { source: exposed.clone(), exposed, description: None };
            for (key, value) in value.members() {
                match &*key.text() {
                    "source" => argument.source = self.text(value, &format!("{what}.source")).unwrap_or(argument.source),
                    "description" => argument.description = self.text(value, &format!("{what}.description")),
                    other => self.unknown(key, other, "an argument", ARGUMENT_KEYS),
                }
            }
            tool.arguments.push(argument);
        }
    }

    fn defaults(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(json) = self.object(json, "defaults") else { return };
        for (key, value) in json.members().take(self.bounded(json, "defaults")) {
            let key = self.key(key);
            if tool.defaults.iter().any(|(other, _)| other.text == key.text) {
                let message = format!("{}: the default of `{}` is given in the entry and in its source", self.subject(), shortened(&key.text));
                self.error(Code::Contradiction, key.at, message, "given twice", Some("keep the one in the entry".into()));
            } else {
                tool.defaults.push((key, value));
            }
        }
    }

    fn hide_fields(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let fields = self.texts(json, "hideFields");
        if fields.len() > FIELDS {
            self.too_many(json, "hideFields");
        }
        tool.hide_fields.extend(fields.into_iter().take(FIELDS));
    }

    /// How many members are read; more than a tool can mean is its error.
    fn bounded(&mut self, json: Json<'d>, what: &str) -> usize {
        if json.members().nth(FIELDS).is_some() {
            self.too_many(json, what);
        }
        FIELDS
    }

    fn too_many(&mut self, json: Json<'d>, what: &str) {
        let start = self.span(json).start;
        let message = format!("{}: `{what}` names more than {FIELDS} fields", self.subject());
        self.error(Code::TooLarge, start..start + 1, message, "too many", None);
    }

    fn output_transform(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(json) = self.object(json, "outputTransform") else { return };
        for (key, value) in json.members() {
            match &*key.text() {
                "mappings" => {
                    let Some(mappings) = self.object(value, "outputTransform.mappings") else { continue };
                    let output = tool.output.get_or_insert(OutputSchema { schema: None, fields: Vec::new() });
                    for (key, rule) in mappings.members() {
                        let name = self.key(key);
                        match self.object(rule, &format!("outputTransform.mappings.{}", shortened(&name.text))) {
                            Some(rule) => {
                                self.output_words(rule, "path");
                                output.fields.push(OutputField { name, rule });
                            }
                            None => continue,
                        }
                    }
                }
                other => self.unknown(key, other, "`outputTransform`", &["mappings"]),
            }
        }
    }

    /// What the tool stands on: exactly one of a source (in any spelling) and an implementation.
    fn source(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let mut target = None;
        let mut original = None;
        let mut chain = None;
        for (key, value) in json.members() {
            match &*key.text() {
                _ if value.kind() == Kind::Null => {}
                "server" => target = self.text(value, "server"),
                "originalName" => original = self.text(value, "originalName"),
                "source" if value.kind() == Kind::Object => self.source_object(value, tool, &mut target, &mut original),
                "source" if value.kind() == Kind::String => chain = self.text(value, "source"),
                "source" => self.wrong(value, "source", "an object or the name of a tool"),
                _ => {}
            }
        }
        tool.source = match (chain, target, &tool.name) {
            (Some(chain), None, _) if original.is_none() => Some(ToolSource::Tool(chain)),
            (Some(chain), target, _) => {
                let message = format!("{}: its source is a tool of the registry and a target at once", self.subject());
                let at = target.or(original).map_or_else(|| chain.at.clone(), |text| text.at);
                self.error(Code::Contradiction, at, message, "the second source", Some("keep one of them".into()));
                Some(ToolSource::Tool(chain))
            }
            (None, Some(target), name) => original.or_else(|| name.clone()).map(|tool| ToolSource::Target { target, tool }),
            (None, None, _) => None,
        };
        match (&tool.source, tool.implementation) {
            (Some(_), None) | (None, Some(_)) => {}
            (Some(_), Some(implementation)) => {
                let message = format!("{}: it has a source and an implementation", self.subject());
                let start = self.span(implementation).start;
                self.error(Code::Contradiction, start..start + 1, message, "beside a source", Some("keep one of them".into()));
            }
            // A source that could not be read was reported where it stands.
            (None, None) if self.failed.is_some() && json.get("source").is_some() => {}
            (None, None) => {
                let at = json.get("source").map_or_else(|| self.span(json).start..self.span(json).start + 1, |source| self.span(source));
                let message = format!("{} has no server reference and no valid source", self.subject());
                let help = Some("write \"source\": {\"target\": \"…\", \"tool\": \"…\"}, or an `implementation`".into());
                self.error(Code::MissingKey, at, message, "no target is named", help);
            }
        }
    }

    fn source_object(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>, target: &mut Option<Text<'d>>, original: &mut Option<Text<'d>>) {
        for (key, value) in json.members() {
            let name = key.text();
            match &*name {
                _ if value.kind() == Kind::Null && SOURCE_KEYS.contains(&&*name) => {}
                "target" | "server" => {
                    if target.is_some() {
                        self.twice(key, "target", "server");
                    }
                    *target = self.text(value, "source.target");
                }
                "tool" | "originalName" => {
                    if original.is_some() {
                        self.twice(key, "tool", "originalName");
                    }
                    *original = self.text(value, "source.tool");
                }
                "defaults" => self.defaults(value, tool),
                "hideFields" => self.hide_fields(value, tool),
                other => self.unknown(key, other, "a source", SOURCE_KEYS),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::position;

    fn problems(text: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        read(0, text, &mut problems);
        problems
    }

    fn tool(body: &str) -> String {
        format!(r#"{{"tools":[{{"name":"t","source":{{"target":"w","tool":"s"}},{body}}}]}}"#)
    }

    // R-003-9, S45, S46
    #[test]
    fn an_empty_registry_is_a_registry() {
        for (text, version) in [("{}", "1.0"), (r#"{"tools":[]}"#, "1.0"), (r#"{"$schema":"x","schemaVersion":"2.0","tools":[]}"#, "2.0")] {
            let mut problems = Vec::new();
            let registry = read(0, text, &mut problems).unwrap();
            assert_eq!((&*registry.schema_version, registry.tools.len(), problems.len()), (version, 0, 0), "{text}");
        }
    }

    // M2
    #[test]
    fn no_message_moves_the_cursor_of_a_terminal() {
        for text in [r#"{"tools":[{"name":"a\u001b[2J\nb","source":7}]}"#, r#"{"\u009b2J":1}"#] {
            let problems = problems(text);
            assert!(!problems.is_empty() && !problems.iter().any(|problem| problem.message.contains(char::is_control)), "{problems:?}");
        }
    }

    // R-003-44: malformed text costs the document, with the place and a hint
    #[test]
    fn what_is_no_registry_is_rejected_with_its_place() {
        let deep = format!("{{\"tools\":[{}{}]}}", "[".repeat(10_000), "]".repeat(10_000));
        for (text, code, at, help) in [
            ("", Code::NotARegistry, (1, 1), "cut off"),
            ("{\n  \"tools\": [,]\n}", Code::NotARegistry, (2, 13), ""),
            ("{\"tools\": [],}", Code::NotARegistry, (1, 14), "no comma"),
            ("{\n 'tools': []}", Code::NotARegistry, (2, 2), "double quotes"),
            ("\u{feff}{}", Code::NotARegistry, (1, 1), "byte order mark"),
            ("[]", Code::NotARegistry, (1, 1), "tools"),
            ("{\"tools\": {}}", Code::NotARegistry, (1, 11), ""),
            ("{\"tools\": \"x\"}", Code::NotARegistry, (1, 11), ""),
            (&deep, Code::TooLarge, (1, 73), ""),
        ] {
            let mut problems = Vec::new();
            assert!(read(0, text, &mut problems).is_none());
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert_eq!((problem.code, position(text, problem.span.start)), (code, at), "{problem:?}");
            assert!(problem.help.as_deref().unwrap_or("").contains(help), "{problem:?}");
        }
    }

    // F3
    #[test]
    fn limits_stand_before_work() {
        let many = format!("{{\"tools\":[{}{{}}]}}", "{},".repeat(TOOLS));
        assert_eq!(problems(&many)[0].code, Code::TooLarge);
        let large = format!("{{\"x\":\"{}\"}}", "x".repeat(DOCUMENT));
        assert_eq!(problems(&large)[0].code, Code::TooLarge);
        let long = format!(r#"{{"tools":[{{"name":"{}","source":{{"target":"w"}}}}]}}"#, "n".repeat(10_000));
        assert_eq!(problems(&long)[0].code, Code::BadName);
        assert!(problems(&long)[0].message.len() < 300);
        let fields: Vec<_> = (0..=FIELDS).map(|n| format!("\"f{n}\"")).collect();
        assert_eq!(problems(&tool(&format!("\"hideFields\":[{}]", fields.join(","))))[0].code, Code::TooLarge);
    }

    // L18, F1: each mistake is underlined where it stands
    #[test]
    fn every_problem_points_at_the_characters_that_caused_it() {
        for (body, code, severity, underlined, pointer, help) in [
            (r#""hidefields":[]"#, Code::UnknownKey, Severity::Warning, r#""hidefields""#, "/tools/0/hidefields", "`hideFields`"),
            (r#""zzz":1"#, Code::UnknownKey, Severity::Warning, r#""zzz""#, "/tools/0/zzz", "x-"),
            (r#""command":"sh""#, Code::ForbiddenKey, Severity::Error, r#""command""#, "/tools/0/command", "config"),
            (r#""url":"http://x""#, Code::ForbiddenKey, Severity::Error, r#""url""#, "/tools/0/url", "config"),
            (r#""title":5"#, Code::BadValue, Severity::Error, "5", "/tools/0/title", ""),
            (r#""hideFields":"a""#, Code::BadValue, Severity::Error, r#""a""#, "/tools/0/hideFields", ""),
            (r#""hideFields":["a",{}]"#, Code::BadValue, Severity::Error, "{}", "/tools/0/hideFields/1", ""),
            (r#""onDrift":"explode""#, Code::BadValue, Severity::Error, r#""explode""#, "/tools/0/onDrift", "`quarantine`, `warn`, `ignore`"),
            (r#""arguments":{"a/b":{"sorce":"x"}}"#, Code::UnknownKey, Severity::Warning, r#""sorce""#, "/tools/0/arguments/a~1b/sorce", "`source`"),
            (r#""inputSchema":{},"parameters":{}"#, Code::Contradiction, Severity::Error, r#""parameters""#, "/tools/0/parameters", "keep"),
            (r#""type":"tool""#, Code::BadValue, Severity::Error, r#""tool""#, "/tools/0/type", "`function`"),
            (r#""metadata":{"a":[{"b":1,"\u0062":2}]}"#, Code::DuplicateKey, Severity::Error, r#""\u0062""#, "/tools/0/metadata/a/0/b", "keep one"),
            (r#""title":"a","title":"b""#, Code::DuplicateKey, Severity::Error, r#""title""#, "/tools/0/title", "keep one"),
            (r#""exposeSource":"yes""#, Code::BadValue, Severity::Error, r#""yes""#, "/tools/0/exposeSource", ""),
        ] {
            let text = tool(body);
            let problems = problems(&text);
            let [problem] = problems.as_slice() else { panic!("{body}: {problems:?}") };
            assert_eq!((problem.code, problem.severity), (code, severity), "{body}");
            assert_eq!(text.get(problem.span.clone()), Some(underlined), "{body}");
            assert_eq!(problem.pointer, pointer, "{body}");
            assert!(problem.help.as_deref().unwrap_or("").contains(help), "{body}: {problem:?}");
            assert!(problem.message.contains("tool `t`"), "{body}: {problem:?}");
        }
    }

    #[test]
    fn comments_and_extensions_are_silent_and_null_says_nothing() {
        assert!(problems(&tool(r#""$comment":1,"$comment_x":2,"x-team":{},"title":null,"defaults":null"#)).is_empty());
        assert!(problems(r#"{"$comment":"c","x-a":1}"#).is_empty());
    }

    // R-003-10, R-003-44, S27, S28, S30, S31
    #[test]
    fn a_source_may_be_spelled_in_several_ways_and_must_be_one() {
        let source = |body: &str| {
            let text = format!(r#"{{"tools":[{{"name":"n",{body}}}]}}"#);
            let mut problems = Vec::new();
            let registry = read(0, &text, &mut problems).unwrap();
            let source = match &registry.tools[0].source {
                Some(ToolSource::Target { target, tool }) => format!("{}/{}", target.text, tool.text),
                Some(ToolSource::Tool(name)) => name.text.to_string(),
                None => "none".into(),
            };
            (source, problems.first().map(|problem| problem.message.clone()).unwrap_or_default())
        };
        for (body, expected) in [
            (r#""source":{"target":"w","tool":"s"}"#, "w/s"),
            (r#""source":{"server":"w","originalName":"s"}"#, "w/s"),
            (r#""source":{"target":"w"}"#, "w/n"),
            (r#""server":"w","originalName":"s""#, "w/s"),
            (r#""server":"w""#, "w/n"),
            (r#""source":"base""#, "base"),
        ] {
            assert_eq!(source(body), (expected.to_owned(), String::new()), "{body}");
        }
        for (body, message) in [
            (r#""title":"x""#, "has no server reference and no valid source"),
            (r#""source":{"tool":"s"}"#, "has no server reference and no valid source"),
            (r#""source":7"#, "not an object or the name of a tool"),
            (r#""source":"base","server":"w""#, "at once"),
            (r#""source":"base","implementation":{}"#, "a source and an implementation"),
            (r#""source":{"target":"w","server":"v"}"#, "mean the same"),
        ] {
            let (_, found) = source(body);
            assert!(found.contains(message), "{body}: {found}");
        }
    }

    // S44
    #[test]
    fn defaults_and_hidden_fields_count_wherever_they_stand() {
        let text = r#"{"tools":[{"name":"t","defaults":{"a":1},"hideFields":["x"],"source":{"target":"w","defaults":{"b":2},"hideFields":["y"]}}]}"#;
        let registry = read(0, text, &mut Vec::new()).unwrap();
        let keys: Vec<_> = registry.tools[0].defaults.iter().map(|(key, value)| format!("{}={}", key.text, value.raw())).collect();
        let hidden: Vec<_> = registry.tools[0].hide_fields.iter().map(|field| &*field.text).collect();
        assert_eq!((keys.join(" "), hidden.join(" ")), ("a=1 b=2".into(), "x y".into()));
    }

    #[test]
    fn a_place_inside_a_string_survives_escapes() {
        let text = r#"{"a":"\u00e9\n\ud83d\ude00é${X}z"}"#;
        let json = check(text.as_bytes(), &LIMITS).unwrap();
        let place = Place { text, document: 0, root: json, base: String::new(), tool: None };
        let value = json.get("a").unwrap();
        let plain = value.string().unwrap();
        let at = plain.find("${X}").unwrap();
        let span = place.inside(&place.span_of(value.raw()), &(at..at + 4));
        assert_eq!(text.get(span), Some("${X}"));
    }
}
