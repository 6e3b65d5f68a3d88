//! Looks fields up in a schema: whether it speaks of them, asks for them, and what types they may have.
//!
//! For warnings and for telling hidden defaults from visible ones; proofs are made elsewhere.

use super::document::{Document, matches};
use crate::name::{FieldPath, Step};
use transom_json::{Object, Tree};

/// What a schema says about a field.
#[derive(Default)]
pub(super) struct Field<'a> {
    /// The schemas of its values.
    pub(super) schemas: Vec<&'a Tree>,
    /// A pattern of names fits it.
    by_pattern: bool,
    /// The object it belongs to asks for it, whatever else is in it.
    pub(super) required: bool,
    /// The object it belongs to takes no names that it does not declare.
    pub(super) closed: bool,
    /// The names beside it, for a did-you-mean.
    pub(super) names: Vec<&'a str>,
}

impl Field<'_> {
    /// Whether the schema speaks of it at all.
    pub(super) fn exists(&self) -> bool {
        self.required || self.by_pattern || !self.schemas.is_empty()
    }

    /// The names of the types it may have; nothing, if it may have any.
    pub(super) fn types(&self, document: &Document) -> Option<Vec<&'static str>> {
        self.schemas.iter().filter_map(|schema| types(document, schema)).next()
    }
}

/// Finds a field by the schema's own names.
pub(super) fn find<'a>(document: &Document<'a>, path: &FieldPath) -> Field<'a> {
    let mut values = vec![document.root];
    let Some((last, parents)) = path.steps().split_last() else { return Field::default() };
    for step in parents {
        let parts = all_parts(document, &values);
        values = match step {
            Step::Member(name) => parts.iter().filter_map(|part| part.object.get("properties")?.get(name)).collect(),
            Step::Items => parts.iter().flat_map(|part| elements(part.object)).collect(),
        };
    }
    let Step::Member(name) = last else { return Field::default() };
    let parts = all_parts(document, &values);
    let asks = |part: &Part| {
        let required = part.object.get("required").and_then(Tree::as_array).unwrap_or_default();
        part.certain && required.iter().any(|each| each.as_str() == Some(name))
    };
    let closes = |part: &Part| ["additionalProperties", "unevaluatedProperties"].iter().any(|each| part.object.get(each) == Some(&Tree::Bool(false)));
    let fits = |part: &Part| {
        let patterns = part.object.get("patternProperties").and_then(Tree::as_object);
        patterns.is_some_and(|patterns| patterns.keys().any(|pattern| matches(pattern, name) == Some(true)))
    };
    Field {
        by_pattern: parts.iter().any(fits),
        schemas: parts.iter().filter_map(|part| part.object.get("properties")?.get(name)).collect(),
        required: parts.iter().any(asks),
        closed: parts.iter().any(|part| part.certain && closes(part) && !part.object.contains_key("patternProperties")),
        names: parts.iter().filter_map(|part| part.object.get("properties")?.as_object()).flat_map(Object::keys).collect(),
    }
}

/// The names the source asks for at the top, whatever else is given.
pub(super) fn required_at_top<'a>(document: &Document<'a>) -> Vec<&'a str> {
    required(document, &[document.root])
}

/// The names that all of these schemas together ask for.
pub(super) fn required<'a>(document: &Document<'a>, schemas: &[&'a Tree]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for part in all_parts(document, schemas).iter().filter(|part| part.certain) {
        let required = part.object.get("required").and_then(Tree::as_array).unwrap_or_default();
        for name in required.iter().filter_map(Tree::as_str) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The names declared at the top.
pub(super) fn declared_at_top<'a>(document: &Document<'a>) -> Vec<&'a str> {
    find(document, &FieldPath::top("")).names
}

/// The names declared inside a member that several parts of a schema describe, one of them for every value; else none.
pub(super) fn declared_inside<'t>(document: &Document<'t>, schema: &'t Tree, member: &str) -> Vec<&'t str> {
    let parts = all_parts(document, &[schema]);
    let described: Vec<(&Tree, bool)> = parts.iter().filter_map(|part| Some((part.object.get("properties")?.get(member)?, part.certain))).collect();
    if described.len() < 2 || !described.iter().any(|(_, certain)| *certain) {
        return Vec::new();
    }
    let schemas: Vec<&Tree> = described.into_iter().map(|(schema, _)| schema).collect();
    let inside = all_parts(document, &schemas);
    inside.iter().filter_map(|part| part.object.get("properties")?.as_object()).flat_map(Object::keys).collect()
}

/// Alternatives within alternatives that are looked at for types.
const ALTERNATIVES: usize = 4;

/// The types a schema lets a value have; nothing, if it says nothing about them.
pub(super) fn types(document: &Document, schema: &Tree) -> Option<Vec<&'static str>> {
    types_within(document, schema, ALTERNATIVES)
}

/// The types of any of the alternatives of a schema, if all of them name theirs: an optional number is written so.
fn of_alternatives(document: &Document, schema: &Object, depth: usize) -> Option<Vec<&'static str>> {
    let branches = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array())?;
    let of_each: Option<Vec<_>> = branches.iter().map(|branch| types_within(document, branch, depth.checked_sub(1)?)).collect();
    let mut types = of_each?.concat();
    types.sort_unstable();
    types.dedup();
    Some(types)
}

fn types_within(document: &Document, schema: &Tree, depth: usize) -> Option<Vec<&'static str>> {
    let mut found: Option<Vec<&'static str>> = None;
    for part in all_parts(document, &[schema]).iter().filter(|part| part.certain) {
        let said: Vec<&'static str> = match part.object.get("type") {
            Some(Tree::String(name)) => type_named(name).into_iter().collect(),
            Some(Tree::Array(names)) => names.iter().filter_map(Tree::as_str).filter_map(type_named).collect(),
            _ => match (part.object.get("const"), part.object.get("enum").and_then(Tree::as_array)) {
                (Some(only), _) => vec![type_of(only)],
                (None, Some(list)) => {
                    let mut types: Vec<&'static str> = list.iter().map(type_of).collect();
                    types.sort_unstable();
                    types.dedup();
                    types
                }
                (None, None) => match of_alternatives(document, part.object, depth) {
                    Some(types) => types,
                    None => continue,
                },
            },
        };
        found = Some(match found {
            None => said,
            Some(before) => before.into_iter().filter(|each| said.iter().any(|other| is_like(each, other))).collect(),
        });
    }
    found
}

/// Whether a value of one of these types can be of one of those.
pub(super) fn overlap(some: &[&str], others: &[&str]) -> bool {
    some.iter().any(|each| others.iter().any(|other| is_like(each, other)))
}

/// The type of a value.
pub(super) fn type_of(value: &Tree) -> &'static str {
    match value {
        Tree::Null => "null",
        Tree::Bool(_) => "boolean",
        Tree::Number(_) => "number",
        Tree::String(_) => "string",
        Tree::Array(_) => "array",
        Tree::Object(_) => "object",
    }
}

fn type_named(name: &str) -> Option<&'static str> {
    ["null", "boolean", "number", "integer", "string", "array", "object"].into_iter().find(|each| *each == name)
}

fn is_like(one: &str, other: &str) -> bool {
    one == other || matches!((one, other), ("integer", "number") | ("number", "integer"))
}

/// One of the schemas that describe a value.
struct Part<'a> {
    object: &'a Object,
    /// It holds for every value, not in one branch only.
    certain: bool,
}

/// How many parts are looked at; more only cost warnings.
const MOST: usize = 256;

fn all_parts<'t>(document: &Document<'t>, schemas: &[&'t Tree]) -> Vec<Part<'t>> {
    let mut parts: Vec<Part<'t>> = Vec::new();
    let mut waiting: Vec<(&'t Tree, bool)> = schemas.iter().rev().map(|schema| (*schema, true)).collect();
    while let Some((schema, certain)) = waiting.pop() {
        let Tree::Object(object) = schema else { continue };
        if parts.len() == MOST || parts.iter().any(|part| std::ptr::eq(part.object, object)) {
            continue;
        }
        parts.push(Part { object, certain });
        if let Some(Ok(target)) = object.get("$ref").and_then(Tree::as_str).map(|reference| document.follow(reference)) {
            waiting.push((target, certain));
        }
        let branches = |keyword| object.get(keyword).and_then(Tree::as_array).unwrap_or_default();
        waiting.extend(branches("allOf").iter().map(|branch| (branch, certain)));
        waiting.extend(["anyOf", "oneOf"].into_iter().flat_map(branches).map(|branch| (branch, false)));
        waiting.extend(["if", "then", "else"].into_iter().filter_map(|keyword| object.get(keyword)).map(|branch| (branch, false)));
        let dependent = ["dependentSchemas", "dependencies"].into_iter().filter_map(|keyword| object.get(keyword)?.as_object());
        waiting.extend(dependent.flat_map(Object::values).map(|branch| (branch, false)));
    }
    parts
}

fn elements(object: &Object) -> Vec<&Tree> {
    let mut found = Vec::new();
    for keyword in ["items", "prefixItems", "additionalItems", "unevaluatedItems"] {
        match object.get(keyword) {
            Some(Tree::Array(tuple)) => found.extend(tuple),
            Some(schema) => found.push(schema),
            None => {}
        }
    }
    found
}
