//! What is different between two generations, as clients would notice it: each sees its own part.

use crate::authorize::Sight;
use crate::generation::{Entry, Kind};
use crate::hub::Changed;
use crate::runtime::ToolChanged;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What changed from one generation to another, as somebody sees them.
pub fn between(old: &Sight<'_>, new: &Sight<'_>) -> (Changed, ToolChanged) {
    let mut changed = Changed::default();
    let mut event = ToolChanged { generation: new.generation().number, ..ToolChanged::default() };
    for kind in Kind::ALL {
        let before: HashMap<&str, &Arc<Entry>> = old.listed(kind).map(|entry| (entry.exposed(), entry)).collect();
        let mut unseen = before.clone();
        let mut note = |list: Option<&mut Vec<(String, String)>>, entry: &Entry| {
            changed.note(kind, entry.target_name());
            if let Some(list) = list {
                list.push((entry.exposed().to_owned(), entry.target_name().to_owned()));
            }
        };
        let is_tool = kind == Kind::Tool;
        for entry in new.listed(kind) {
            match unseen.remove(entry.exposed()) {
                None => note(is_tool.then_some(&mut event.added), entry),
                Some(was) if Arc::ptr_eq(was, entry) || (was.json() == entry.json() && was.target_name() == entry.target_name()) => {}
                Some(_) => note(is_tool.then_some(&mut event.changed), entry),
            }
        }
        let mut gone: Vec<_> = unseen.into_values().collect();
        gone.sort_by(|a, b| a.exposed().cmp(b.exposed()));
        for entry in gone {
            note(is_tool.then_some(&mut event.removed), entry);
        }
    }
    (changed, event)
}

/// The targets whose tools differ between what lists of an endpoint showed and what they show now: of the one target that it is restricted to, or of
/// all. What is not on a short list is not missed there.
pub fn of_lists(old: &Sight<'_>, new: &Sight<'_>, server: Option<&str>) -> HashSet<String> {
    let mut unseen: HashMap<&str, &Arc<Entry>> = old.shown(server).map(|entry| (entry.exposed(), entry)).collect();
    let mut different: Vec<&Arc<Entry>> = Vec::new();
    for entry in new.shown(server) {
        match unseen.remove(entry.exposed()) {
            Some(was) if Arc::ptr_eq(was, entry) || was.json() == entry.json() => {}
            _ => different.push(entry),
        }
    }
    different.extend(unseen.into_values());
    // Our own tools are part of every endpoint.
    let target = |entry: &Arc<Entry>| if entry.own().is_some() { server.unwrap_or_default().to_owned() } else { entry.target_name().to_owned() };
    different.into_iter().map(target).collect()
}
