//! Proves that no value a schema accepts has something at a path.
//!
//! It knows nothing of how the schema came to be. Whatever it does not understand proves nothing, so a mistake elsewhere ends
//! in a refusal and not in a leak.

use super::CannotShow;
use super::close::IN_PLACE;
use super::document::{DEPTH, Document, allows, matches};
use crate::name::Step;
use transom_json::{Object, Tree};

/// Whether it is certain that no value under the document's schema has a member at the end of these steps.
pub(super) fn is_gone(document: &Document, steps: &[Step]) -> Result<bool, CannotShow> {
    if !document.dialect.known {
        return Ok(false);
    }
    Prover { document }.forbids(document.root, steps, DEPTH)
}

struct Prover<'d> {
    document: &'d Document<'d>,
}

impl Prover<'_> {
    fn forbids(&self, schema: &Tree, steps: &[Step], depth: usize) -> Result<bool, CannotShow> {
        let object = match schema {
            Tree::Bool(false) => return Ok(true),
            Tree::Object(object) => object,
            _ => return Ok(false),
        };
        let Some(depth) = depth.checked_sub(1) else { return Ok(false) };
        self.document.spend(1)?;
        if let Some(reference) = object.get("$ref").and_then(Tree::as_str) {
            if let Ok(target) = self.document.follow(reference)
                && self.forbids(target, steps, depth)?
            {
                return Ok(true);
            }
            if !self.document.dialect.modern {
                return Ok(false);
            }
        }
        let own = match steps.split_first() {
            Some((Step::Member(name), rest)) => self.forbids_member(object, steps, name, rest, depth)?,
            Some((Step::Items, rest)) => self.forbids_in_items(object, rest, depth)?,
            // The value itself is what must not be there.
            None => false,
        };
        if own {
            return Ok(true);
        }
        for (keyword, all) in [("allOf", false), ("anyOf", true), ("oneOf", true)] {
            let Some(branches) = object.get(keyword).and_then(Tree::as_array).filter(|branches| !branches.is_empty()) else { continue };
            let mut forbidding = 0;
            for branch in branches {
                forbidding += usize::from(self.forbids(branch, steps, depth)?);
            }
            if if all { forbidding == branches.len() } else { forbidding > 0 } {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn forbids_member(&self, object: &Object, steps: &[Step], name: &str, rest: &[Step], depth: usize) -> Result<bool, CannotShow> {
        if !allows(object, "object") {
            return Ok(true);
        }
        let named = |names: &Tree| match names {
            Tree::Bool(allowed) => *allowed,
            names => {
                names.get("enum").and_then(Tree::as_array).is_none_or(|list| list.iter().any(|each| each.as_str() == Some(name)))
                    && names.get("const").is_none_or(|only| only.as_str() == Some(name))
            }
        };
        if object.get("propertyNames").is_some_and(|names| !named(names)) {
            return Ok(true);
        }
        let declared = object.get("properties").and_then(|properties| properties.get(name));
        let by_pattern = self.patterns(object, name);
        let applies = declared.into_iter().chain(by_pattern.iter().flatten().copied());
        let mut described = by_pattern.is_none();
        for schema in applies {
            described = true;
            if *schema == Tree::Bool(false) || !rest.is_empty() && self.forbids(schema, rest, depth)? {
                return Ok(true);
            }
        }
        if !described && let Some(others) = object.get("additionalProperties") {
            return Ok(*others == Tree::Bool(false) || !rest.is_empty() && self.forbids(others, rest, depth)?);
        }
        if !described && self.document.dialect.modern && object.get("unevaluatedProperties") == Some(&Tree::Bool(false)) {
            return Ok(!self.evaluates_in_place(object, steps, name, depth)?);
        }
        Ok(false)
    }

    fn forbids_in_items(&self, object: &Object, rest: &[Step], depth: usize) -> Result<bool, CannotShow> {
        if !allows(object, "array") {
            return Ok(true);
        }
        let (tuple, others) = match (object.get("prefixItems").and_then(Tree::as_array), object.get("items")) {
            (Some(tuple), others) => (tuple, others),
            (None, Some(Tree::Array(tuple))) => (tuple.as_slice(), object.get("additionalItems")),
            (None, others) => (&[][..], others),
        };
        let others = others.or_else(|| object.get("unevaluatedItems").filter(|others| **others == Tree::Bool(false)));
        let Some(others) = others else { return Ok(false) };
        for schema in tuple.iter().chain([others]) {
            if !self.forbids(schema, rest, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the member may count as evaluated by a keyword that describes the same value, other than the schema's own
    /// `properties`. A branch that forbids what the steps lead to never holds when it is there, and evaluates nothing then.
    fn evaluates_in_place(&self, object: &Object, steps: &[Step], name: &str, depth: usize) -> Result<bool, CannotShow> {
        if object.contains_key("$dynamicRef") || object.contains_key("$recursiveRef") {
            return Ok(true);
        }
        for keyword in IN_PLACE {
            let branches: Vec<&Tree> = match (keyword, object.get(keyword)) {
                (_, None) => continue,
                ("$ref", Some(reference)) => match reference.as_str().map(|reference| self.document.follow(reference)) {
                    Some(Ok(target)) => vec![target],
                    _ => return Ok(true),
                },
                (_, Some(Tree::Array(list))) => list.iter().collect(),
                ("dependentSchemas" | "dependencies", Some(Tree::Object(map))) => map.values().collect(),
                (_, Some(branch)) => vec![branch],
            };
            for branch in branches {
                if self.evaluates(branch, steps, name, depth)? && !self.forbids(branch, steps, depth)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn evaluates(&self, schema: &Tree, steps: &[Step], name: &str, depth: usize) -> Result<bool, CannotShow> {
        let Tree::Object(object) = schema else { return Ok(false) };
        let Some(depth) = depth.checked_sub(1) else { return Ok(true) };
        self.document.spend(1)?;
        let declared = object.get("properties").and_then(|properties| properties.get(name)).is_some_and(|schema| *schema != Tree::Bool(false));
        let by_pattern = self.patterns(object, name).is_none_or(|found| !found.is_empty());
        let opens = |keyword| object.get(keyword).is_some_and(|others| *others != Tree::Bool(false));
        if declared || by_pattern || opens("additionalProperties") || opens("unevaluatedProperties") {
            return Ok(true);
        }
        self.evaluates_in_place(object, steps, name, depth)
    }

    /// The schemas whose pattern fits the name; nothing, if a pattern cannot be read.
    fn patterns<'o>(&self, object: &'o Object, name: &str) -> Option<Vec<&'o Tree>> {
        let Some(patterns) = object.get("patternProperties").and_then(Tree::as_object) else { return Some(Vec::new()) };
        let mut found = Vec::new();
        for (pattern, schema) in patterns.iter() {
            if matches(pattern, name)? {
                found.push(schema);
            }
        }
        Some(found)
    }
}
