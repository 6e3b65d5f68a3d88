//! What is to change, arranged as the values are: a level for each object, inside it what happens to its members.

use crate::name::{FieldPath, Step};
use std::cell::Cell;
use transom_json::{Object, Tree};

/// What happens to the object, or to the elements of the array, at one place.
#[derive(Default)]
pub(super) struct Level<'a> {
    members: Vec<Member<'a>>,
    pub(super) items: Option<Box<Level<'a>>>,
    /// The level must be closed even if it loses nothing: else it could not be proven that a name is gone.
    pub(super) close: Cell<bool>,
}

/// What happens to one member.
#[derive(Default)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    /// It is taken away.
    pub(super) gone: bool,
    /// The gateway fills it in, so the caller need not.
    pub(super) supplied: bool,
    /// What the gateway fills in is secret.
    pub(super) secret: bool,
    /// The name it is shown under, if another.
    pub(super) exposed: Option<&'a str>,
    pub(super) description: Option<&'a str>,
    /// The default to be shown.
    pub(super) default: Option<&'a Tree>,
    pub(super) inside: Level<'a>,
    /// Whether a schema spoke of it.
    pub(super) found: Cell<bool>,
}

impl<'a> Level<'a> {
    /// The member at the end of a path whose top goes by this name; it and its parents are made if they are not there.
    pub(super) fn member(&mut self, first: &'a str, path: &'a FieldPath) -> &mut Member<'a> {
        let rest = path.steps().get(1..).unwrap_or_default();
        let Some((last, parents)) = rest.split_last() else { return self.named(first) };
        let level = parents.iter().fold(&mut self.named(first).inside, |level, step| match step {
            Step::Items => level.items.get_or_insert_default(),
            Step::Member(name) => &mut level.named(name).inside,
        });
        match last {
            Step::Member(name) => level.named(name),
            Step::Items => level.items.get_or_insert_default().named(""),
        }
    }

    /// The member of this name; it is made if it is not there.
    pub(super) fn named(&mut self, name: &'a str) -> &mut Member<'a> {
        let at = self.members.iter().position(|member| member.name == name);
        let member = at.map_or_else(|| Member { name, ..Member::default() }, |at| self.members.swap_remove(at));
        self.members.push_mut(member)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Member<'a>> {
        self.members.iter().find(|member| member.name == name)
    }

    pub(super) fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// The level at the end of these steps.
    pub(super) fn at(&self, steps: &[Step]) -> Option<&Level<'a>> {
        steps.iter().try_fold(self, |level, step| match step {
            Step::Items => level.items.as_deref(),
            Step::Member(name) => level.get(name).map(|member| &member.inside),
        })
    }

    /// The member at the end of a path.
    pub(super) fn find(&self, path: &FieldPath) -> Option<&Member<'a>> {
        let (last, parents) = path.steps().split_last()?;
        match last {
            Step::Member(name) => self.at(parents)?.get(name),
            Step::Items => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.items.is_none() && !self.close.get()
    }

    /// The same change for an instance: an example, a default, a constant. Nothing, if it stays as it is.
    pub(super) fn stripped(&self, value: &Tree) -> Option<Tree> {
        match value {
            Tree::Object(members) => {
                let mut changed = false;
                let kept = members.iter().filter_map(|(name, value)| {
                    let Some(member) = self.get(name) else { return Some((name.to_owned(), value.clone())) };
                    if member.gone {
                        member.found.set(true);
                        changed = true;
                        return None;
                    }
                    changed |= member.exposed.is_some();
                    let inner = member.inside.stripped(value);
                    changed |= inner.is_some();
                    Some((member.exposed.unwrap_or(name).to_owned(), inner.unwrap_or_else(|| value.clone())))
                });
                let kept: Object = kept.collect();
                changed.then_some(Tree::Object(kept))
            }
            Tree::Array(elements) => {
                let items = self.items.as_deref()?;
                changed_list(elements, |element| items.stripped(element))
            }
            _ => None,
        }
    }
}

/// The list with the elements that change; nothing, if none does.
pub(super) fn changed_list(elements: &[Tree], mut change: impl FnMut(&Tree) -> Option<Tree>) -> Option<Tree> {
    let changed: Vec<Option<Tree>> = elements.iter().map(&mut change).collect();
    changed
        .iter()
        .any(Option::is_some)
        .then(|| Tree::Array(changed.into_iter().zip(elements).map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect()))
}
