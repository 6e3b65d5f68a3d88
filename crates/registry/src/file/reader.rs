//! Reading values of one kind or another, with a complaint where something else stands.

use super::words::FORBIDDEN_KEYS;
use super::{NamedSchema, Place, Text, kind, shortened};
use crate::problem::{Code, Problem, Severity, did_you_mean};
use std::collections::HashSet;
use std::ops::Range;
use transom_json::{Json, Key, Kind};

/// Reads one part of a document and collects what is wrong with it.
pub(super) struct Reader<'d, 'p> {
    pub(super) place: Place<'d>,
    pub(super) problems: &'p mut Vec<Problem>,
    /// The first error.
    pub(super) failed: Option<String>,
}

impl<'d> Reader<'d, '_> {
    pub(super) fn span(&self, json: Json<'_>) -> Range<usize> {
        self.place.span_of(json.raw())
    }

    pub(super) fn error(&mut self, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.failed.get_or_insert_with(|| message.clone());
        self.problems.push(self.place.problem(Severity::Error, code, span, message, label, help));
    }

    pub(super) fn warning(&mut self, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.problems.push(self.place.problem(Severity::Warning, code, span, message, label, help));
    }

    /// What is being read, at the head of a message.
    pub(super) fn subject(&self) -> String {
        match &self.place.tool {
            Some(name) => format!("tool `{name}`"),
            None if self.place.base.is_empty() => "the registry".into(),
            None => format!("the tool at `{}`", self.place.base),
        }
    }

    pub(super) fn wrong(&mut self, json: Json<'d>, what: &str, wanted: &str) {
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
    pub(super) fn unknown(&mut self, key: Key<'d>, name: &str, of: &str, known: &[&'static str]) {
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

    pub(super) fn text(&mut self, json: Json<'d>, what: &str) -> Option<Text<'d>> {
        match json.string() {
            Some(text) => Some(Text { text, at: self.span(json) }),
            None => {
                self.wrong(json, what, "a string");
                None
            }
        }
    }

    pub(super) fn key(&self, key: Key<'d>) -> Text<'d> {
        Text { text: key.text(), at: self.place.key_span(key) }
    }

    pub(super) fn bool(&mut self, json: Json<'d>, what: &str) -> Option<bool> {
        let value = json.bool();
        if value.is_none() {
            self.wrong(json, what, "true or false");
        }
        value
    }

    pub(super) fn object(&mut self, json: Json<'d>, what: &str) -> Option<Json<'d>> {
        if json.kind() == Kind::Object {
            return Some(json);
        }
        self.wrong(json, what, "an object");
        None
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, json: Json<'d>, what: &str, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(json, what)?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text.text) {
            return Some(*meaning);
        }
        let known: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        let message = format!("{}: `{what}` cannot be `{}`", self.subject(), shortened(&text.text));
        self.error(Code::BadValue, text.at, message, "no such choice", Some(format!("it is one of {}", known.join(", "))));
        None
    }

    pub(super) fn texts(&mut self, json: Json<'d>, what: &str) -> Vec<Text<'d>> {
        if json.kind() != Kind::Array {
            self.wrong(json, what, "a list of strings");
            return Vec::new();
        }
        json.elements().filter_map(|element| self.text(element, what)).collect()
    }

    pub(super) fn schemas(&mut self, json: Json<'d>, found: &mut Vec<NamedSchema<'d>>) {
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
    pub(super) fn duplicates(&mut self, json: Json<'d>) {
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

    pub(super) fn duplicate_members(&mut self, json: Json<'d>) {
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
}
