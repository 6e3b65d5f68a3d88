//! Closes a level that lost a name, so that the name cannot come back as one that nobody declared.
//!
//! A plain level says `additionalProperties: false`. That keyword sees only the declarations beside it, so a level that is
//! composed of several schemas says `unevaluatedProperties: false`, and dialects that do not know that keyword get a list of
//! all names that may come.

use super::CannotShow;
use super::change::Level;
use super::document::{allows, size};
use super::draft::Draft;
use super::fields::declared_inside;
use super::hide::{Editor, Outcome};
use super::reference::merged;
use transom_json::{Object, Tree};

/// Keywords that describe the same value as the schema they stand in.
pub(super) const IN_PLACE: [&str; 9] = ["$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"];

fn is_composed(schema: &Object) -> bool {
    IN_PLACE.iter().any(|keyword| schema.contains_key(keyword))
}

/// Declares names, or patterns, that are described elsewhere.
fn declare(object: &mut Object, keyword: &str, found: Vec<String>) {
    let declared = object.get(keyword).and_then(Tree::as_object);
    let new: Vec<String> = found.into_iter().filter(|name| declared.is_none_or(|declared| !declared.contains_key(name))).collect();
    if new.is_empty() {
        return;
    }
    if declared.is_none() {
        object.insert(keyword, Tree::object());
    }
    if let Some(declared) = object.get_mut(keyword).and_then(Tree::as_object_mut) {
        new.into_iter().for_each(|name| declared.insert(name, Tree::Bool(true)));
    }
}

impl Editor<'_> {
    /// Where several parts describe the same member, what one of them declares inside it must stay possible for the others.
    pub(super) fn meet_cousins(&mut self, schema: &Tree, level: &Level) {
        if !schema.as_object().is_some_and(is_composed) {
            return;
        }
        for member in level.members().iter().filter(|member| !member.gone && !member.inside.is_empty()) {
            let names = declared_inside(self.document, schema, member.name);
            let shown = names.into_iter().filter(|name| member.inside.get(name).is_none_or(|inner| !inner.gone)).map(str::to_owned).collect();
            self.cousins.push((std::ptr::from_ref(&member.inside).cast(), shown));
        }
    }

    /// Closes a level: names that are not declared are refused.
    pub(super) fn closed(&mut self, schema: Tree, level: &Level, depth: usize) -> Outcome<Tree> {
        let mut object = match schema {
            Tree::Object(object) => object,
            Tree::Bool(true) => Object::default(),
            other => return Ok(other),
        };
        while let Some(reference) = object.get("$ref").and_then(Tree::as_str)
            && !self.document.dialect.modern
        {
            let target = self.document.follow(reference).map_err(|why| self.cannot(format!("the reference `{reference}` {why}")))?;
            self.document.spend(size(target))?;
            object = match merged(&object, target.clone(), false) {
                Tree::Object(object) => object,
                other => return Ok(other),
            };
        }
        if !allows(&object, "object") {
            return Ok(Tree::Object(object));
        }
        let is_closed = object.get("additionalProperties") == Some(&Tree::Bool(false));
        let composed = is_composed(&object);
        let cousins = self.cousins.iter().find(|(of, _)| std::ptr::eq(*of, std::ptr::from_ref(level).cast()));
        if let Some((_, names)) = cousins.filter(|_| !is_closed) {
            declare(&mut object, "properties", names.clone());
        }
        if is_closed || !composed {
            object.insert("additionalProperties", Tree::Bool(false));
        } else if self.document.dialect.modern {
            let whole = Tree::Object(object);
            object = match self.unopened(&whole, depth)?.unwrap_or(whole) {
                Tree::Object(object) => object,
                other => return Ok(other),
            };
            object.insert("unevaluatedProperties", Tree::Bool(false));
        } else {
            self.close_by_name(&mut object, depth)?;
        }
        Ok(Tree::Object(object))
    }

    /// A branch that lets all other names in would count them as evaluated.
    fn unopened(&mut self, part: &Tree, depth: usize) -> Outcome<Option<Tree>> {
        let Tree::Object(object) = part else { return Ok(None) };
        let depth = depth.checked_sub(1).ok_or(CannotShow::TooDeep)?;
        self.document.spend(1)?;
        let mut draft = Draft::of(object);
        for keyword in ["additionalProperties", "unevaluatedProperties"] {
            if object.get(keyword).is_some_and(|value| *value != Tree::Bool(false)) {
                draft.remove(keyword);
            }
        }
        let mut referred = None;
        for keyword in IN_PLACE {
            let Some(value) = object.get(keyword) else { continue };
            let open = self.unopened_keyword(keyword, value, depth)?;
            match (keyword, open) {
                ("$ref", open) => referred = open,
                ("oneOf", Some(Tree::Array(branches))) => draft.weaken_one_of(branches),
                (_, open) => draft.replace(keyword, open),
            }
        }
        let tree = draft.finish();
        Ok(match referred {
            None => tree,
            Some(target) => Some(merged(tree.as_ref().and_then(Tree::as_object).unwrap_or(object), target, true)),
        })
    }

    fn unopened_keyword(&mut self, keyword: &str, value: &Tree, depth: usize) -> Outcome<Option<Tree>> {
        match (keyword, value) {
            ("$ref", Tree::String(reference)) => {
                let target = self.document.follow(reference).map_err(|why| self.cannot(format!("the reference `{reference}` {why}")))?;
                let open = self.followed(target, &Level::default(), |editor| editor.unopened(target, depth))?;
                self.document.spend(open.as_ref().map_or(0, size))?;
                Ok(open)
            }
            // A condition is left as it asks; if it lets names in, the proof will say so.
            ("if", _) => Ok(None),
            (_, Tree::Array(branches)) => {
                let mut list = Vec::with_capacity(branches.len());
                let mut changed = false;
                for branch in branches {
                    let open = self.unopened(branch, depth)?;
                    changed |= open.is_some();
                    list.push(open.unwrap_or_else(|| branch.clone()));
                }
                Ok(changed.then_some(Tree::Array(list)))
            }
            ("dependentSchemas" | "dependencies", Tree::Object(branches)) => {
                let mut changed = None;
                for (name, branch) in branches.iter() {
                    if let Some(open) = self.unopened(branch, depth)? {
                        changed.get_or_insert_with(|| branches.clone()).insert(name, open);
                    }
                }
                Ok(changed.map(Tree::Object))
            }
            (_, branch) => self.unopened(branch, depth),
        }
    }

    /// Before `unevaluatedProperties` there was, a composed level could only be closed by naming all that may come.
    fn close_by_name(&mut self, object: &mut Object, depth: usize) -> Outcome<()> {
        let mut names = Vec::new();
        let mut patterns = Vec::new();
        self.declared(object, &mut names, &mut patterns, depth)?;
        declare(object, "properties", names);
        declare(object, "patternProperties", patterns);
        object.insert("additionalProperties", Tree::Bool(false));
        Ok(())
    }

    fn declared(&mut self, object: &Object, names: &mut Vec<String>, patterns: &mut Vec<String>, depth: usize) -> Outcome<()> {
        let depth = depth.checked_sub(1).ok_or(CannotShow::TooDeep)?;
        self.document.spend(1)?;
        if let Some(reference) = object.get("$ref").and_then(Tree::as_str) {
            let target = self.document.follow(reference).map_err(|why| self.cannot(format!("the reference `{reference}` {why}")))?;
            if let Tree::Object(target) = target {
                self.declared(target, names, patterns, depth)?;
            }
            return Ok(());
        }
        for (keyword, list) in [("properties", &mut *names), ("patternProperties", &mut *patterns)] {
            list.extend(object.get(keyword).and_then(Tree::as_object).into_iter().flat_map(Object::keys).map(str::to_owned));
        }
        for keyword in IN_PLACE {
            let branches: Vec<&Tree> = match object.get(keyword) {
                Some(Tree::Array(list)) => list.iter().collect(),
                Some(Tree::Object(map)) if keyword == "dependencies" => map.values().collect(),
                Some(branch) => vec![branch],
                None => continue,
            };
            for branch in branches.into_iter().filter_map(Tree::as_object) {
                self.declared(branch, names, patterns, depth)?;
            }
        }
        Ok(())
    }
}

/// An array of anything, with elements that are closed.
pub(super) fn with_closed_items(schema: &Tree) -> Option<Tree> {
    let object =
        schema.as_object().filter(|object| allows(object, "array") && !object.contains_key("items") && !object.contains_key("prefixItems"))?;
    let closed: Object = [("additionalProperties".to_owned(), Tree::Bool(false))].into_iter().collect();
    let mut object = object.clone();
    object.insert("items", Tree::Object(closed));
    Some(Tree::Object(object))
}
