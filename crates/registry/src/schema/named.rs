//! References to the registry's own schemas: `{"$ref": "#/schemas/Name"}`, `#Name`, `#Name:1.0.0`.
//!
//! They are expanded where they stand. A schema that comes round to itself, or that has references of its own to its parts,
//! is kept under `$defs` and referred to. `#/$defs/…` and other JSON pointers stay what they are.

use super::document::{DEPTH, PARTS, children, held, size};
use super::reference::{define, escaped, merged, references, rewrite};
use std::collections::HashMap;
use transom_json::{Object, Tree};

/// A reference that leads to no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReference {
    /// It is not spelled like one.
    #[error("`{reference}` is not a reference to a schema")]
    Invalid {
        /// The reference as written.
        reference: String,
    },
    /// There is no schema of that name.
    #[error("schema `{name}` does not exist")]
    Missing {
        /// The reference as written.
        reference: String,
        /// The name.
        name: String,
        /// A name that looks like it.
        meant: Option<String>,
    },
    /// Schemas that refer to each other without end or measure.
    #[error("the schema becomes larger than {PARTS} parts, or deeper than {DEPTH}, when its references are expanded")]
    TooLarge,
}

impl BadReference {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            BadReference::Invalid { .. } => {
                Some("write `#/schemas/Name` for a schema under `schemas`, `#/$defs/Name` for a part of this one".to_owned())
            }
            BadReference::Missing { meant, .. } => meant.as_ref().map(|name| format!("did you mean `#/schemas/{name}`?")),
            BadReference::TooLarge => None,
        }
    }
}

/// Expands every reference to a named schema. A version in a reference is looked for as it is written, then without it.
pub fn resolve_named(schema: &Tree, named: &HashMap<&str, &Tree>) -> Result<Tree, BadReference> {
    let mut found = Vec::new();
    bounded(schema, DEPTH)?;
    references(schema, &mut found);
    if found.is_empty() {
        return Ok(schema.clone());
    }
    let mut resolver = Resolver { named, open: Vec::new(), kept: Vec::new(), left: PARTS };
    let mut root = resolver.root(schema)?;
    for (name, definition) in std::mem::take(&mut resolver.kept) {
        let Some(definition) = definition else { continue };
        let place = define(&mut root, name, definition);
        let wish = format!("{KEPT}{}", escaped(name));
        rewrite(&mut root, &|reference| {
            let rest = reference.strip_prefix(&wish).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            Some(format!("{place}{rest}"))
        });
    }
    bounded(&root, DEPTH)?;
    Ok(root)
}

/// Where a schema that is kept is looked for until it has its place. No pointer into a schema begins like this.
const KEPT: &str = "#\u{0}/";

struct Resolver<'a> {
    named: &'a HashMap<&'a str, &'a Tree>,
    /// The schemas that are being expanded.
    open: Vec<&'a str>,
    /// The schemas that are kept under `$defs`; those without content are being expanded.
    kept: Vec<(&'a str, Option<Tree>)>,
    left: usize,
}

impl<'a> Resolver<'a> {
    /// A schema that is nothing but a reference is what it refers to, local references included.
    fn root(&mut self, schema: &Tree) -> Result<Tree, BadReference> {
        let mut root = schema;
        let mut seen = Vec::new();
        while let Some(object) = root.as_object().filter(|object| object.len() == 1)
            && let Some(reference) = object.get("$ref").and_then(Tree::as_str)
            && let Some((name, target)) = self.named(reference)?
        {
            if seen.contains(&name) {
                return Err(BadReference::TooLarge);
            }
            seen.push(name);
            root = target;
        }
        self.expanded(root, DEPTH)
    }

    fn expanded(&mut self, schema: &Tree, depth: usize) -> Result<Tree, BadReference> {
        let Tree::Object(object) = schema else { return Ok(schema.clone()) };
        let depth = depth.checked_sub(1).ok_or(BadReference::TooLarge)?;
        let mut new = Object::default();
        for (keyword, value) in object.iter() {
            self.left = self.left.checked_sub(1).ok_or(BadReference::TooLarge)?;
            let value = if held(keyword, value).next().is_none() { value.clone() } else { self.children(value, keyword, depth)? };
            new.insert(keyword, value);
        }
        let Some(reference) = object.get("$ref").and_then(Tree::as_str) else { return Ok(Tree::Object(new)) };
        match self.named(reference)? {
            None => Ok(Tree::Object(new)),
            Some((name, target)) => match self.target(name, target, depth)? {
                Some(target) => Ok(merged(&new, target, true)),
                None => {
                    new.insert("$ref", Tree::String(format!("{KEPT}{}", escaped(name))));
                    Ok(Tree::Object(new))
                }
            },
        }
    }

    fn children(&mut self, value: &Tree, keyword: &str, depth: usize) -> Result<Tree, BadReference> {
        match value {
            Tree::Array(list) => list.iter().map(|each| self.expanded(each, depth)).collect::<Result<_, _>>().map(Tree::Array),
            Tree::Object(map) if held(keyword, value).next().is_some_and(|first| !std::ptr::eq(first, value)) => {
                let members = map.iter().map(|(name, each)| Ok((name.to_owned(), self.expanded(each, depth)?)));
                members.collect::<Result<Object, _>>().map(Tree::Object)
            }
            schema => self.expanded(schema, depth),
        }
    }

    /// What a named schema expands to; nothing, if it is kept and must be referred to.
    fn target(&mut self, name: &'a str, target: &'a Tree, depth: usize) -> Result<Option<Tree>, BadReference> {
        if self.kept.iter().any(|(kept, _)| *kept == name) {
            return Ok(None);
        }
        if self.open.contains(&name) || has_local_references(target) {
            self.kept.push((name, None));
            if self.open.contains(&name) {
                return Ok(None);
            }
        }
        self.left = self.left.checked_sub(size(target)).ok_or(BadReference::TooLarge)?;
        self.open.push(name);
        let expanded = self.expanded(target, depth)?;
        self.open.pop();
        match self.kept.iter_mut().find(|(kept, _)| *kept == name) {
            None => Ok(Some(expanded)),
            Some((_, place)) => {
                let mut expanded = expanded;
                let own = format!("{KEPT}{}", escaped(name));
                rewrite(&mut expanded, &|reference| reference.strip_prefix("#/").map(|pointer| format!("{own}/{pointer}")));
                *place = Some(expanded);
                Ok(None)
            }
        }
    }

    /// The named schema a reference speaks of; nothing, if it is a pointer into its own schema.
    fn named(&self, reference: &str) -> Result<Option<(&'a str, &'a Tree)>, BadReference> {
        let invalid = || BadReference::Invalid { reference: reference.to_owned() };
        let rest = reference.strip_prefix('#').ok_or_else(invalid)?;
        let name = match rest.strip_prefix('/') {
            Some(pointer) => match pointer.strip_prefix("schemas/") {
                Some(name) => name.replace("~1", "/").replace("~0", "~"),
                None => return Ok(None),
            },
            None => rest.to_owned(),
        };
        if name.is_empty() {
            return Err(invalid());
        }
        let bare = name.split_once(':').map_or(name.as_str(), |(bare, _)| bare);
        if let Some((name, schema)) = self.named.get_key_value(name.as_str()).or_else(|| self.named.get_key_value(bare)) {
            return Ok(Some((name, schema)));
        }
        let mut names: Vec<&str> = self.named.keys().copied().collect();
        names.sort_unstable();
        let meant = super::alike(bare, &names);
        Err(BadReference::Missing { reference: reference.to_owned(), name: bare.to_owned(), meant })
    }
}

fn has_local_references(schema: &Tree) -> bool {
    let mut found = Vec::new();
    references(schema, &mut found);
    found.iter().any(|reference| reference.starts_with("#/") && !reference.starts_with("#/schemas/"))
}

/// A schema comes from a document whose depth was checked; one that was put together has not been.
fn bounded(schema: &Tree, depth: usize) -> Result<(), BadReference> {
    let depth = depth.checked_sub(1).ok_or(BadReference::TooLarge)?;
    schema.as_object().into_iter().flat_map(children).try_for_each(|child| bounded(child, depth))
}
