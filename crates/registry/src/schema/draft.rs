//! A schema while it is rewritten: what changes is noted beside it, and only then is anything copied.

use transom_json::{Object, Tree};

/// A schema while it is rewritten.
pub(super) struct Draft<'o> {
    pub(super) object: &'o Object,
    /// By keyword, the member it becomes, or nothing.
    edits: Vec<(&'o str, Option<(&'o str, Tree)>)>,
    pub(super) added: Vec<(&'o str, Tree)>,
    /// Further schemas that must hold.
    conjuncts: Vec<Tree>,
    /// Whether the level lost a name.
    pub(super) lost: bool,
}

impl<'o> Draft<'o> {
    pub(super) fn of(object: &'o Object) -> Draft<'o> {
        Draft { object, edits: Vec::new(), added: Vec::new(), conjuncts: Vec::new(), lost: false }
    }

    pub(super) fn set(&mut self, keyword: &'o str, value: Tree) {
        self.edits.push((keyword, Some((keyword, value))));
    }

    pub(super) fn replace(&mut self, keyword: &'o str, value: Option<Tree>) {
        if let Some(value) = value {
            self.set(keyword, value);
        }
    }

    pub(super) fn remove(&mut self, keyword: &'o str) {
        self.edits.push((keyword, None));
    }

    pub(super) fn set_unless_empty(&mut self, keyword: &'o str, value: Tree) {
        let empty = match &value {
            Tree::Array(list) => list.is_empty(),
            Tree::Object(map) => map.is_empty(),
            _ => false,
        };
        if empty { self.remove(keyword) } else { self.set(keyword, value) }
    }

    pub(super) fn weaken_one_of(&mut self, branches: Vec<Tree>) {
        if self.object.contains_key("anyOf") {
            self.remove("oneOf");
            self.conjuncts.push(either(branches));
        } else {
            self.edits.push(("oneOf", Some(("anyOf", Tree::Array(branches)))));
        }
    }

    /// The condition asked for a hidden name: either branch may hold.
    pub(super) fn weaken_if(&mut self) {
        let branches = ["then", "else"].map(|keyword| {
            let edited = self.edits.iter().find(|(edited, _)| *edited == keyword).and_then(|(_, value)| value.as_ref()).map(|(_, value)| value);
            edited.or_else(|| self.object.get(keyword)).cloned()
        });
        let some = branches.iter().any(Option::is_some);
        self.edits.retain(|(keyword, _)| !matches!(*keyword, "if" | "then" | "else"));
        ["if", "then", "else"].into_iter().for_each(|keyword| self.remove(keyword));
        if some {
            self.conjuncts.push(either(branches.into_iter().map(|branch| branch.unwrap_or(Tree::Bool(true))).collect()));
        }
    }

    /// The schema as it became; nothing, if it stays as it was.
    pub(super) fn finish(mut self) -> Option<Tree> {
        if self.edits.is_empty() && self.added.is_empty() && self.conjuncts.is_empty() {
            return None;
        }
        let mut members = Vec::with_capacity(self.object.len() + self.added.len() + 2);
        for (keyword, value) in self.object.iter() {
            match self.edits.iter().position(|(edited, _)| *edited == keyword) {
                Some(at) => members.extend(self.edits.swap_remove(at).1.map(|(keyword, value)| (keyword.to_owned(), value))),
                None => members.push((keyword.to_owned(), value.clone())),
            }
        }
        members.extend(self.added.into_iter().map(|(keyword, value)| (keyword.to_owned(), value)));
        let mut object: Object = members.into_iter().collect();
        if !self.conjuncts.is_empty() {
            let mut all = match object.remove("allOf") {
                Some(Tree::Array(all)) => all,
                _ => Vec::new(),
            };
            all.append(&mut self.conjuncts);
            object.insert("allOf", Tree::Array(all));
        }
        Some(Tree::Object(object))
    }
}

fn either(branches: Vec<Tree>) -> Tree {
    Tree::Object([("anyOf".to_owned(), Tree::Array(branches))].into_iter().collect())
}
