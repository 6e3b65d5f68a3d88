//! Which name a tool or prompt gets, and that it keeps it.
//!
//! Inside, a tool is a pair (target, tool). Outside it has its own name where that is unique, else the target's name in
//! front. Tools that collide in the first generation are all prefixed; later a name once given keeps its meaning while
//! targets come and go, and a newcomer that collides is the one that gets the prefix.

use crate::config::{Naming, Prefix};
use crate::generation::Kind;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use transom_registry::name::identifier;

/// A tool or prompt as its target offers it: kind, target, the name it would like.
pub type Wish<'w> = (Kind, &'w str, &'w str);

type Owner = (Kind, Box<str>, Box<str>);

/// The names given so far.
#[derive(Default)]
pub struct Names {
    rules: Naming,
    given: HashMap<Owner, Arc<str>>,
    taken: HashMap<(Kind, Arc<str>), Owner>,
    /// Tool names that belong to the registry.
    reserved: HashSet<Arc<str>>,
    begun: bool,
}

impl Names {
    /// No names yet.
    pub fn new(rules: Naming) -> Names {
        Names { rules, ..Names::default() }
    }

    /// The rules in force.
    pub fn rules(&self) -> &Naming {
        &self.rules
    }

    /// Other rules: every name is given anew.
    pub fn set_rules(&mut self, rules: Naming) {
        if self.rules != rules {
            *self = Names::new(rules);
        }
    }

    /// Forgets the names of targets that are no longer configured.
    pub fn keep_targets(&mut self, targets: &HashSet<&str>) {
        self.given.retain(|(_, target, _), _| targets.contains(&**target));
        self.taken.retain(|_, (_, target, _)| targets.contains(&**target));
    }

    /// Names that belong to the registry from now on: a target's tool that has one of them gives it up, and gets it back when
    /// the registry does not want it any more.
    pub fn reserve(&mut self, names: HashSet<Arc<str>>) {
        if names == self.reserved {
            return;
        }
        for name in names.difference(&self.reserved) {
            if let Some(owner) = self.taken.remove(&(Kind::Tool, name.clone())) {
                self.given.remove(&owner);
            }
        }
        for name in self.reserved.difference(&names) {
            let mut waiting = self.given.iter().filter(|(owner, _)| owner.0 == Kind::Tool && *owner.2 == **name);
            if let (Some((owner, given)), None) = (waiting.next(), waiting.next()) {
                let (owner, given) = (owner.clone(), given.clone());
                self.given.remove(&owner);
                self.taken.remove(&(Kind::Tool, given));
            }
        }
        self.reserved = names;
    }

    /// One name per wish, in order; `None` where `prefix: never` meets a collision.
    pub fn give(&mut self, wishes: &[Wish<'_>]) -> Vec<Option<Arc<str>>> {
        let mut wanted: HashMap<(Kind, &str), usize> = HashMap::new();
        if !self.begun {
            for (kind, _, name) in wishes {
                *wanted.entry((*kind, *name)).or_default() += 1;
            }
            self.begun = !wishes.is_empty();
        }
        wishes.iter().map(|wish| self.give_one(*wish, wanted.get(&(wish.0, wish.2)).copied().unwrap_or(0) > 1)).collect()
    }

    fn give_one(&mut self, (kind, target, name): Wish<'_>, collides: bool) -> Option<Arc<str>> {
        let owner: Owner = (kind, target.into(), name.into());
        if let Some(given) = self.given.get(&owner) {
            return Some(given.clone());
        }
        let bare: Arc<str> = name.into();
        let free = |names: &Self, name: &Arc<str>| {
            let reserved = kind == Kind::Tool && names.reserved.contains(name);
            !reserved && !names.taken.contains_key(&(kind, name.clone()))
        };
        let choice = match self.rules.prefix {
            Prefix::OnCollision if !collides && free(self, &bare) => bare,
            Prefix::Never if free(self, &bare) => bare,
            Prefix::Never => {
                let other = self.taken.get(&(kind, bare)).map_or("the registry", |(_, target, _)| target);
                tracing::error!(
                    name,
                    first = other,
                    second = target,
                    "two targets offer the same name and naming.prefix is never; the second is left out"
                );
                return None;
            }
            Prefix::OnCollision | Prefix::Always => {
                let prefixed = format!("{}{}{name}", identifier(target), self.rules.separator);
                let mut choice: Arc<str> = prefixed.as_str().into();
                let mut number = 2;
                while !free(self, &choice) {
                    choice = format!("{prefixed}_{number}").into();
                    number += 1;
                }
                if self.rules.prefix == Prefix::OnCollision {
                    tracing::info!(name, target, exposed = &*choice, event = "tool_name_conflict", "name is taken; exposed with its target's name");
                }
                choice
            }
        };
        self.taken.insert((kind, choice.clone()), owner.clone());
        self.given.insert(owner, choice.clone());
        Some(choice)
    }

    /// Every spelling under which a call may address a tool besides its exposed name.
    pub fn spellings<'s>(separator: &'s str, target: &'s str, names: &[&str]) -> Vec<String> {
        let ident = identifier(target);
        let mut spellings = Vec::new();
        for target in [target, ident.as_str()] {
            for separator in [separator, "__", ":", "_"] {
                for name in names {
                    let spelling = format!("{target}{separator}{name}");
                    if !spellings.contains(&spelling) {
                        spellings.push(spelling);
                    }
                }
            }
        }
        spellings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(names: &mut Names, wishes: &[(&str, &str)]) -> Vec<String> {
        let wishes: Vec<Wish<'_>> = wishes.iter().map(|(target, name)| (Kind::Tool, *target, *name)).collect();
        names.give(&wishes).into_iter().map(|name| name.map_or("-".to_owned(), |name| name.to_string())).collect()
    }

    // N1, N2, N3, R-001-6, R-004-2
    #[test]
    fn only_names_that_collide_are_prefixed_and_then_all_of_them() {
        let mut names = Names::new(Naming::default());
        assert_eq!(give(&mut names, &[("a", "echo"), ("b-1", "echo"), ("b-1", "add")]), ["a__echo", "b_1__echo", "add"]);
    }

    #[test]
    fn a_name_once_given_keeps_its_meaning_while_targets_come_and_go() {
        let mut names = Names::new(Naming::default());
        assert_eq!(give(&mut names, &[("b", "echo")]), ["echo"]);
        assert_eq!(give(&mut names, &[("a", "echo"), ("b", "echo")]), ["a__echo", "echo"]);
        assert_eq!(give(&mut names, &[("a", "echo")]), ["a__echo"]);
        names.keep_targets(&HashSet::from(["a"]));
        assert_eq!(give(&mut names, &[("a", "echo"), ("c", "echo")]), ["a__echo", "echo"]);
    }

    // R-003-62
    #[test]
    fn a_name_the_registry_takes_is_given_up_and_comes_back_with_it() {
        let mut names = Names::new(Naming::default());
        assert_eq!(give(&mut names, &[("a", "echo"), ("b", "add")]), ["echo", "add"]);
        names.reserve(HashSet::from(["echo".into()]));
        assert_eq!(give(&mut names, &[("a", "echo"), ("b", "add")]), ["a__echo", "add"]);
        names.reserve(HashSet::new());
        assert_eq!(give(&mut names, &[("a", "echo"), ("b", "add")]), ["echo", "add"]);
    }

    #[test]
    fn always_and_never_do_as_they_say() {
        let rules = |prefix| Naming { prefix, separator: ".".into() };
        assert_eq!(give(&mut Names::new(rules(Prefix::Always)), &[("a", "echo")]), ["a.echo"]);
        assert_eq!(give(&mut Names::new(rules(Prefix::Never)), &[("a", "echo"), ("b", "echo")]), ["echo", "-"]);
    }

    #[test]
    fn a_prefixed_name_that_is_somebodys_own_name_gets_a_number() {
        let mut names = Names::new(Naming::default());
        assert_eq!(give(&mut names, &[("x", "a__echo"), ("a", "echo"), ("b", "echo")]), ["a__echo", "a__echo_2", "b__echo"]);
    }
}
