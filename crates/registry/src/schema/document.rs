//! One JSON Schema document: its dialect, its local references, and how much work it may cause.
//!
//! What the keywords mean for hiding is decided elsewhere; here is only which of them hold schemas.

use super::CannotShow;
use serde_json::{Value, json};
use std::cell::Cell;
use transom_json::{Object, Tree};

/// How deep a schema may be nested, and how many levels and references may lead to one place in it.
pub(super) const DEPTH: usize = 64;
/// How many values a schema may hold.
pub(super) const PARTS: usize = 10_000;
/// How many values may be visited or copied while one tool is shown.
const WORK: usize = 200_000;

/// What a keyword of JSON Schema holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// A schema.
    Schema,
    /// A list of schemas.
    List,
    /// Schemas by name.
    Map,
    /// A schema, or a list of them in older dialects.
    SchemaOrList,
    /// By name, a schema or a list of names.
    SchemasOrNames,
    /// Data, or nothing that is known.
    Data,
}

impl Holds {
    pub(super) fn of(keyword: &str) -> Holds {
        match keyword {
            "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema" => Holds::Schema,
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => Holds::Map,
            "items" => Holds::SchemaOrList,
            "dependencies" => Holds::SchemasOrNames,
            _ => Holds::Data,
        }
    }
}

/// The schemas that stand directly in a schema.
pub(super) fn children(schema: &Object) -> impl Iterator<Item = &Tree> {
    schema.iter().flat_map(|(keyword, value)| held(keyword, value))
}

/// The schemas that a keyword holds.
pub(super) fn held<'t>(keyword: &str, value: &'t Tree) -> Box<dyn Iterator<Item = &'t Tree> + 't> {
    match (Holds::of(keyword), value) {
        (Holds::Schema | Holds::SchemaOrList, Tree::Object(_) | Tree::Bool(_)) => Box::new(std::iter::once(value)),
        (Holds::List | Holds::SchemaOrList, Tree::Array(elements)) => Box::new(elements.iter()),
        (Holds::Map | Holds::SchemasOrNames, Tree::Object(members)) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// The schemas that stand directly in a schema, to be changed.
pub(super) fn children_mut(schema: &mut Object) -> impl Iterator<Item = &mut Tree> {
    schema.iter_mut().flat_map(|(keyword, value)| -> Box<dyn Iterator<Item = &mut Tree>> {
        match (Holds::of(keyword), value) {
            (Holds::Schema | Holds::SchemaOrList, value @ (Tree::Object(_) | Tree::Bool(_))) => Box::new(std::iter::once(value)),
            (Holds::List | Holds::SchemaOrList, Tree::Array(elements)) => Box::new(elements.iter_mut()),
            (Holds::Map | Holds::SchemasOrNames, Tree::Object(members)) => Box::new(members.iter_mut().map(|(_, value)| value)),
            _ => Box::new(std::iter::empty()),
        }
    })
}

/// What the dialects of JSON Schema disagree on, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// `unevaluatedProperties` is known, and keywords beside `$ref` count (2019-09 and later).
    pub modern: bool,
    /// Whether anything can be said at all.
    pub known: bool,
}

impl Dialect {
    fn of(root: &Tree) -> Dialect {
        match root.get("$schema").and_then(Tree::as_str) {
            None => Dialect { modern: true, known: true },
            Some(name) if name.contains("json-schema.org") => {
                Dialect { modern: !["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"].iter().any(|old| name.contains(old)), known: true }
            }
            Some(_) => Dialect { modern: true, known: false },
        }
    }
}

/// A schema and what is needed to walk it.
pub(super) struct Document<'a> {
    pub(super) root: &'a Tree,
    pub(super) dialect: Dialect,
    /// Whether any reference stands in it.
    pub(super) refers: bool,
    left: Cell<usize>,
}

impl<'a> Document<'a> {
    /// Measures a schema before anything walks it.
    pub(super) fn open(root: &'a Tree) -> Result<Document<'a>, CannotShow> {
        let mut parts = PARTS;
        let refers = measure(root, DEPTH, &mut parts)?;
        Ok(Document { root, dialect: Dialect::of(root), refers, left: Cell::new(WORK) })
    }

    /// Pays for a visit or a copy, so that references that multiply end in an error and not in memory.
    pub(super) fn spend(&self, work: usize) -> Result<(), CannotShow> {
        let left = self.left.get().checked_sub(work).ok_or(CannotShow::TooLarge)?;
        self.left.set(left);
        Ok(())
    }

    /// Where a reference leads, or why it cannot be followed.
    pub(super) fn follow(&self, reference: &str) -> Result<&'a Tree, &'static str> {
        match reference.strip_prefix('#') {
            None => Err("leads out of the schema"),
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => self.root.pointer(&percent_decoded(pointer)).ok_or("leads nowhere"),
            Some(_) => Err("names an anchor, and only JSON pointers are followed"),
        }
    }
}

/// How many values a tree holds.
pub(super) fn size(tree: &Tree) -> usize {
    match tree {
        Tree::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        Tree::Array(elements) => 1 + elements.iter().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Checks depth and size, and tells whether any reference stands in the tree.
pub(super) fn measure(tree: &Tree, depth: usize, parts: &mut usize) -> Result<bool, CannotShow> {
    let depth = depth.checked_sub(1).ok_or(CannotShow::TooDeep)?;
    *parts = parts.checked_sub(1).ok_or(CannotShow::TooLarge)?;
    let mut refers = false;
    match tree {
        Tree::Object(members) => {
            for (key, value) in members.iter() {
                refers |= key == "$ref";
                refers |= measure(value, depth, parts)?;
            }
        }
        Tree::Array(elements) => {
            for value in elements {
                refers |= measure(value, depth, parts)?;
            }
        }
        _ => {}
    }
    Ok(refers)
}

/// Whether a pattern of JSON Schema finds something in this name. Asked of the validator itself, so that there is one idea of
/// what a pattern means; nothing, if it cannot be read.
pub(super) fn matches(pattern: &str, name: &str) -> Option<bool> {
    Some(jsonschema::validator_for(&json!({ "pattern": pattern })).ok()?.is_valid(&Value::from(name)))
}

/// Whether `type` lets a value be of this kind.
pub(super) fn allows(schema: &Object, kind: &str) -> bool {
    match schema.get("type") {
        Some(Tree::String(only)) => only == kind,
        Some(Tree::Array(kinds)) => kinds.iter().any(|each| each.as_str() == Some(kind)),
        _ => true,
    }
}

fn percent_decoded(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_or_else(|_| text.into(), Into::into)
}
