//! Input schemas in the words of Gemini's `Schema`: a part of OpenAPI 3.0, in which every schema has one type, nothing refers to
//! anything, and a word that is not known fails the whole request.
//!
//! What has no word there is left out, so what Gemini sees admits at least what the tool admits. Where the model should know all the
//! same, the description says it.

use super::merge::{both, resolve};
use transom_json::{Object, Tree};

/// Inlining can make a small schema endless; what lies beyond this is cut.
const MOST_SCHEMAS: usize = 2_000;
const DEEPEST: usize = 24;

/// Alternatives of one schema.
const MOST_ALTERNATIVES: usize = 32;

/// Values of a list that a description names.
const MOST_NAMED: usize = 30;

/// The `parameters` of a function, of a schema that is an object; none if it takes nothing, because Gemini refuses an object without
/// properties there.
pub fn parameters(schema: Object) -> Option<Object> {
    let root = Tree::Object(schema);
    let mut reducing = Reducing { root: &root, open: Vec::new(), left: MOST_SCHEMAS };
    let parameters = reducing.one(root.as_object()?, "object", 0);
    parameters.contains_key("properties").then_some(parameters)
}

struct Reducing<'s> {
    root: &'s Tree,
    /// References that are being inlined, innermost last.
    open: Vec<String>,
    left: usize,
}

/// What a schema admits: this, and perhaps `null`.
struct Reduced {
    alternatives: Vec<Object>,
    nullable: bool,
}

impl Reducing<'_> {
    /// A schema in place of a property or item.
    fn schema(&mut self, schema: &Tree, depth: usize) -> Tree {
        let Reduced { mut alternatives, nullable } = self.reduce(schema, depth);
        if nullable {
            alternatives.iter_mut().for_each(|alternative| alternative.insert("nullable", true.into()));
        }
        Tree::Object(match alternatives.len() {
            0 => simple("string"),
            1 => alternatives.remove(0),
            _ => {
                // Gemini takes nothing beside `anyOf`.
                let mut choice = Object::default();
                choice.insert("anyOf", Tree::Array(alternatives.into_iter().map(Tree::Object).collect()));
                choice
            }
        })
    }

    fn reduce(&mut self, schema: &Tree, depth: usize) -> Reduced {
        let anything = || Reduced { alternatives: vec![simple("string")], nullable: false };
        let Some(schema) = schema.as_object() else { return anything() };
        if self.left == 0 || depth > DEEPEST {
            return anything();
        }
        self.left -= 1;
        let before = self.open.len();
        let reduced = match self.flat(schema.clone()) {
            Ok(flat) => self.alternatives(&flat, depth),
            // A list of lists of lists has to end somewhere.
            Err(kind) => Reduced { alternatives: vec![simple(kind)], nullable: false },
        };
        self.open.truncate(before);
        reduced
    }

    /// A schema with what it refers to and what `allOf` adds. The type alone if it is inside itself.
    fn flat(&mut self, schema: Object) -> Result<Object, &'static str> {
        let reference = schema.get("$ref").and_then(Tree::as_str).unwrap_or_default();
        match resolve(self.root, reference) {
            Some(Tree::Object(meant)) if self.open.iter().any(|open| open == reference) => Err(kinds(meant).0.first().copied().unwrap_or("object")),
            _ => Ok(self.joined(schema)),
        }
    }

    fn joined(&mut self, mut schema: Object) -> Object {
        for _ in 0..MOST_ALTERNATIVES {
            if let Some(reference) = schema.remove("$ref") {
                let reference = reference.as_str().unwrap_or_default().to_owned();
                let Some(Tree::Object(meant)) = resolve(self.root, &reference) else { continue };
                if self.open.contains(&reference) {
                    // Another part said all of this already, or it is inside itself: of which only the type is left to say.
                    let kind = meant.get("type").map(|kind| ("type".to_owned(), kind.clone()));
                    schema = both(schema, &kind.into_iter().collect());
                    continue;
                }
                schema = both(schema, meant);
                self.open.push(reference);
            } else if let Some(parts) = schema.remove("allOf") {
                for part in parts.as_array().unwrap_or_default().iter().take(MOST_ALTERNATIVES).filter_map(Tree::as_object) {
                    let part = self.joined(part.clone());
                    schema = both(schema, &part);
                }
            } else {
                break;
            }
        }
        schema
    }

    fn alternatives(&mut self, schema: &Object, depth: usize) -> Reduced {
        let (of_type, mut nullable) = kinds(schema);
        let mut alternatives: Vec<Object> = Vec::new();
        let mut add = |alternative: Object| {
            if !alternatives.contains(&alternative) && alternatives.len() < MOST_ALTERNATIVES {
                alternatives.push(alternative);
            }
        };
        let word = ["anyOf", "oneOf"].into_iter().find(|word| schema.get(word).and_then(Tree::as_array).is_some_and(|of| !of.is_empty()));
        if let Some(word) = word {
            let mut around = schema.clone();
            let choices = around.remove(word);
            let description = around.remove("description");
            let mut choices_nullable = false;
            for choice in choices.as_ref().and_then(Tree::as_array).unwrap_or_default().iter().take(MOST_ALTERNATIVES) {
                let whole = choice.as_object().map_or_else(|| around.clone(), |choice| both(choice.clone(), &around));
                let reduced = self.reduce(&Tree::Object(whole), depth + 1);
                choices_nullable |= reduced.nullable;
                for mut alternative in reduced.alternatives {
                    describe(&mut alternative, description.as_ref());
                    add(alternative);
                }
            }
            nullable |= choices_nullable;
        } else {
            for kind in of_type {
                add(self.one(schema, kind, depth));
            }
        }
        Reduced { alternatives, nullable }
    }

    /// A schema as one type.
    fn one(&mut self, schema: &Object, kind: &'static str, depth: usize) -> Object {
        let mut out = simple(kind);
        if let Some(text) = schema.get("description").and_then(Tree::as_str).filter(|text| !text.is_empty()) {
            out.insert("description", text.into());
        }
        for word in ["default", "example"] {
            if let Some(value) = schema.get(word).filter(|value| **value != Tree::Null) {
                out.insert(word, value.clone());
            }
        }
        if let Some(format) = schema.get("format").and_then(Tree::as_str).filter(|format| knows_format(kind, format)) {
            out.insert("format", format.into());
        }
        values(&mut out, schema, kind);
        match kind {
            "string" => {
                counts(&mut out, schema, ["minLength", "maxLength"]);
                if let Some(pattern) = schema.get("pattern").and_then(Tree::as_str) {
                    out.insert("pattern", pattern.into());
                }
            }
            "number" | "integer" => {
                for (word, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
                    // An exclusive bound has no word; the inclusive one admits a single value more.
                    let bound = [word, exclusive].into_iter().find_map(|word| schema.get(word).filter(|bound| is_finite(bound)));
                    if let Some(bound) = bound {
                        out.insert(word, bound.clone());
                    }
                }
            }
            "array" => {
                counts(&mut out, schema, ["minItems", "maxItems"]);
                let items = self.items(schema, depth);
                out.insert("items", items);
            }
            "object" => self.members(&mut out, schema, depth),
            _ => {}
        }
        out
    }

    /// An array must say of what. Places of their own for the first few become a choice for all.
    fn items(&mut self, schema: &Object, depth: usize) -> Tree {
        let listed = ["prefixItems", "items"].into_iter().find_map(|word| schema.get(word).and_then(Tree::as_array));
        match (listed, schema.get("items")) {
            (Some(places), rest) => {
                let rest = rest.filter(|rest| rest.as_object().is_some());
                let choices = places.iter().chain(rest).take(MOST_ALTERNATIVES).cloned().collect();
                let choice: Object = [("anyOf".to_owned(), Tree::Array(choices))].into_iter().collect();
                self.schema(&Tree::Object(choice), depth + 1)
            }
            (None, Some(items)) => self.schema(items, depth + 1),
            (None, None) => Tree::Object(simple("string")),
        }
    }

    fn members(&mut self, out: &mut Object, schema: &Object, depth: usize) {
        let members = schema.get("properties").and_then(Tree::as_object);
        let members: Object = members
            .into_iter()
            .flat_map(Object::iter)
            .filter(|(_, member)| **member != Tree::Bool(false))
            .map(|(name, member)| (name.to_owned(), self.schema(member, depth + 1)))
            .collect();
        if members.is_empty() {
            return;
        }
        let required = schema.get("required").and_then(Tree::as_array).unwrap_or_default().iter();
        let required: Vec<Tree> = required.filter(|name| name.as_str().is_some_and(|name| members.contains_key(name))).cloned().collect();
        out.insert("properties", Tree::Object(members));
        if !required.is_empty() {
            out.insert("required", Tree::Array(required));
        }
        counts(out, schema, ["minProperties", "maxProperties"]);
    }
}

fn simple(kind: &str) -> Object {
    [("type".to_owned(), kind.into())].into_iter().collect()
}

/// The types that a schema admits, without `null`, and whether it admits that. What says nothing is guessed by its other words.
fn kinds(schema: &Object) -> (Vec<&'static str>, bool) {
    const KNOWN: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
    let named: Vec<&str> = match schema.get("type") {
        Some(Tree::String(kind)) => vec![kind.as_str()],
        Some(Tree::Array(kinds)) => kinds.iter().filter_map(Tree::as_str).collect(),
        _ => Vec::new(),
    };
    let values = listed(schema);
    let nullable = named.contains(&"null") || values.contains(&Tree::Null) || schema.get("nullable").and_then(Tree::as_bool) == Some(true);
    let mut kinds: Vec<&str> = KNOWN.into_iter().filter(|known| named.contains(known)).collect();
    if kinds.contains(&"number") {
        kinds.retain(|kind| *kind != "integer");
    }
    if kinds.is_empty() && !named.contains(&"null") {
        let has = |words: &[&str]| words.iter().any(|word| schema.contains_key(word));
        let of_value = |value: &Tree| match value {
            Tree::Null => None,
            Tree::String(_) => Some("string"),
            Tree::Number(_) => Some("number"),
            Tree::Bool(_) => Some("boolean"),
            Tree::Array(_) => Some("array"),
            Tree::Object(_) => Some("object"),
        };
        let of_values: Vec<&str> = values.iter().filter_map(of_value).collect();
        kinds = KNOWN.into_iter().filter(|known| of_values.contains(known)).collect();
        if kinds.is_empty() {
            kinds.push(if has(&["properties", "additionalProperties", "patternProperties", "required"]) {
                "object"
            } else if has(&["items", "prefixItems", "minItems", "maxItems"]) {
                "array"
            } else if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
                "number"
            } else {
                "string"
            });
        }
    }
    (kinds, nullable)
}

/// The values of `enum` or `const`.
fn listed(schema: &Object) -> Vec<Tree> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Tree::Array(values)), _) => values.clone(),
        (_, Some(value)) => vec![value.clone()],
        _ => Vec::new(),
    }
}

/// Gemini lists strings only, and none that is empty. Other values go into the description.
fn values(out: &mut Object, schema: &Object, kind: &str) {
    let values = listed(schema);
    if values.is_empty() {
        return;
    }
    if kind == "string" {
        let texts: Vec<Tree> = values.into_iter().filter(|value| value.as_str().is_some_and(|text| !text.is_empty())).collect();
        if !texts.is_empty() {
            out.insert("enum", Tree::Array(texts));
        }
        return;
    }
    let named: Vec<String> = values.iter().filter(|value| **value != Tree::Null).take(MOST_NAMED).map(Tree::to_string).collect();
    let more = if values.len() > MOST_NAMED { ", …" } else { "" };
    describe(out, Some(&Tree::String(format!("One of: {}{more}", named.join(", ")))));
}

/// Adds to a description; what was there comes after.
fn describe(out: &mut Object, text: Option<&Tree>) {
    let Some(text) = text.and_then(Tree::as_str).filter(|text| !text.is_empty()) else { return };
    let whole = match out.get("description").and_then(Tree::as_str) {
        Some(own) if own != text => format!("{text}\n{own}"),
        _ => text.to_owned(),
    };
    out.insert("description", Tree::String(whole));
}

fn knows_format(kind: &str, format: &str) -> bool {
    match kind {
        "string" => matches!(format, "enum" | "date-time"),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

fn counts(out: &mut Object, schema: &Object, words: [&str; 2]) {
    for word in words {
        if let Some(count @ Tree::Number(spelled)) = schema.get(word)
            && spelled.parse::<u32>().is_ok()
        {
            out.insert(word, count.clone());
        }
    }
}

fn is_finite(bound: &Tree) -> bool {
    matches!(bound, Tree::Number(spelled) if spelled.parse::<f64>().is_ok_and(f64::is_finite))
}
