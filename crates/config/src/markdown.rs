//! A JSON Schema as a page for people: a table for each section, in the order of the schema. What the page says comes from the
//! schema alone, so that it cannot say anything else.

use serde_json::Value;
use std::collections::HashMap;

/// `schema/config.md`.
pub fn config_page() -> String {
    let elsewhere = HashMap::from([("#/$defs/tool", "[entry of a registry](registry.md#tools)")]);
    Page::new(&crate::json_schema(), elsewhere).write("config")
}

/// `schema/registry.md`.
pub fn registry_page() -> String {
    Page::new(&transom_registry::published::json_schema(), HashMap::new()).write("registry")
}

/// A page in the making.
struct Page<'s> {
    root: &'s Value,
    /// References that are told on another page, and how to get there.
    elsewhere: HashMap<&'static str, &'static str>,
    /// The section that tells of a definition: the path under which it was met first.
    told: HashMap<String, String>,
    /// Sections that the current one leads to.
    waiting: Vec<(String, &'s Value)>,
}

impl<'s> Page<'s> {
    fn new(root: &'s Value, elsewhere: HashMap<&'static str, &'static str>) -> Page<'s> {
        Page { root, elsewhere, told: HashMap::new(), waiting: Vec::new() }
    }

    fn write(mut self, verb: &str) -> String {
        let title = self.root.get("title").and_then(Value::as_str).unwrap_or_default();
        let mut page = format!("<!-- Made by `transom schema {verb} --format markdown`; `make gen` writes it anew. -->\n# {title}\n");
        let root = self.root;
        self.section("", root, &mut page);
        page
    }

    /// The table of a section, then the sections that it leads to.
    fn section(&mut self, path: &str, schema: &'s Value, page: &mut String) {
        if let Some(description) = description(schema) {
            page.push_str(&format!("\n{description}\n"));
        }
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let required: Vec<&str> = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        page.push_str("\n| key | type | default | meaning |\n|---|---|---|---|\n");
        for (key, property) in properties {
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let kind = self.kind(&inner, property);
            let default = property.get("default").map_or(String::new(), default);
            let mark = if required.contains(&key.as_str()) { " *" } else { "" };
            let told = description(property).or_else(|| description(self.definition(property)));
            let meaning = [told.unwrap_or_default(), self.choices(property)];
            let meaning = meaning.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" ");
            let row = [format!("`{key}`{mark}"), kind, default, meaning].map(|cell| cell.replace('|', "\\|"));
            page.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        if !required.is_empty() {
            page.push_str("\n\\* has to be there\n");
        }
        for (inner, schema) in std::mem::take(&mut self.waiting) {
            page.push_str(&format!("\n## `{inner}`\n"));
            self.section(&inner, schema, page);
        }
    }

    /// What may stand there; sections that it leads to wait for their turn.
    fn kind(&mut self, path: &str, schema: &'s Value) -> String {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return match self.elsewhere.get(reference) {
                Some(link) => (*link).to_owned(),
                None => self.referred(path, reference),
            };
        }
        if let Some(words) = words(schema) {
            return words.join(", ");
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array).filter(|_| schema.get("type").is_none()) {
            let mut kinds: Vec<String> = choices.iter().map(|choice| self.kind(path, choice)).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
        match schema.get("type") {
            // What counts as text whatever it looks like.
            Some(Value::Array(names)) if names.len() == 3 && names.iter().any(|name| name == "string") => "text".into(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(plain).collect::<Vec<_>>().join(" or "),
            Some(Value::String(name)) if name == "array" => match schema.get("items") {
                Some(items) => format!("list of {}", self.kind(&format!("{path}[]"), items)),
                None => "list".into(),
            },
            Some(Value::String(name)) if name == "object" => self.object(path, schema),
            Some(Value::String(name)) => plain(name).into(),
            _ => "any JSON".into(),
        }
    }

    fn referred(&mut self, path: &str, reference: &str) -> String {
        let root = self.root;
        let Some(definition) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else { return "any JSON".into() };
        if definition.get("properties").is_none() {
            return self.kind(path, definition);
        }
        let section = match self.told.get(reference) {
            Some(section) => section.clone(),
            None => {
                self.told.insert(reference.to_owned(), path.to_owned());
                self.waiting.push((path.to_owned(), definition));
                path.to_owned()
            }
        };
        link("map", &section)
    }

    fn object(&mut self, path: &str, schema: &'s Value) -> String {
        if schema.get("properties").is_some() {
            self.waiting.push((path.to_owned(), schema));
            return link("map", path);
        }
        match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => format!("map of {}", self.kind(&format!("{path}.*"), values)),
            _ => "map".into(),
        }
    }

    /// What a reference leads to; everything else is its own definition.
    fn definition<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        reference.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    /// What each of several words means, where the schema says so.
    fn choices(&self, schema: &Value) -> String {
        let choices = self.definition(schema).get("oneOf").and_then(Value::as_array).into_iter().flatten();
        let told = choices.filter_map(|choice| Some(format!("{}: {}", word(choice.get("const")?), description(choice)?)));
        told.collect::<Vec<_>>().join(" ")
    }
}

/// The words that may stand there, if only certain ones may.
fn words(schema: &Value) -> Option<Vec<String>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![word(only)]);
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let mut told: Vec<String> = Vec::new();
        // `null` and `"null"` are two values and one word.
        for word in words.iter().map(word) {
            if !told.contains(&word) {
                told.push(word);
            }
        }
        return Some(told);
    }
    schema.get("oneOf")?.as_array()?.iter().map(|choice| choice.get("const").map(word)).collect()
}

fn word(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn default(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(", "),
        other => word(other),
    }
}

/// On one line, as the cell of a table must be.
fn description(schema: &Value) -> Option<String> {
    schema.get("description")?.as_str().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn plain(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "boolean" => "`true` or `false`",
        "array" => "list",
        "object" => "map",
        other => other,
    }
}

/// A link to the heading of a section, as GitHub makes anchors of headings.
fn link(text: &str, section: &str) -> String {
    let anchor: String = section.to_lowercase().chars().filter(|each| each.is_alphanumeric() || matches!(each, '-' | '_')).collect();
    format!("[{text}](#{anchor})")
}
