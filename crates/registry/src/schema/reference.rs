//! Local references: how what they lead to is put in their place, and how those that stay keep their meaning.

use super::CannotShow;
use super::document::{Document, Holds, children, children_mut, held, size};
use std::collections::{HashMap, HashSet};
use transom_json::{Object, Tree};

/// Members that belong to the place a schema stands at, and do not travel with a copy of it.
const OF_THE_PLACE: [&str; 6] = ["$schema", "$id", "$anchor", "$dynamicAnchor", "$defs", "definitions"];

/// A schema whose `$ref` is replaced by what it refers to. Beside a reference stand mostly words (a title, a description),
/// which win over the target's own; whatever else it is, both must hold.
pub(super) fn merged(own: &Object, target: Tree, siblings_count: bool) -> Tree {
    let mut target = match target {
        Tree::Object(target) => target,
        Tree::Bool(false) => return Tree::Bool(false),
        _ => Object::default(),
    };
    target.retain(|keyword, _| !OF_THE_PLACE.contains(&keyword));
    let beside = || own.iter().filter(|(keyword, _)| *keyword != "$ref");
    if !siblings_count {
        let words = beside().filter(|(keyword, _)| is_word(keyword) || OF_THE_PLACE.contains(keyword));
        return joined(words, target);
    }
    let mergeable = beside().all(|(keyword, value)| {
        let alone = Holds::of(keyword) == Holds::Data && !matches!(keyword, "minContains" | "maxContains") || OF_THE_PLACE.contains(&keyword);
        alone && (is_word(keyword) || target.get(keyword).is_none_or(|theirs| theirs == value))
    });
    if mergeable {
        return joined(beside(), target);
    }
    let mut both: Object = beside().map(|(keyword, value)| (keyword.to_owned(), value.clone())).collect();
    match both.get_mut("allOf") {
        Some(Tree::Array(all)) => all.push(Tree::Object(target)),
        _ => both.insert("allOf", Tree::Array(vec![Tree::Object(target)])),
    }
    Tree::Object(both)
}

fn joined<'o>(own: impl Iterator<Item = (&'o str, &'o Tree)>, target: Object) -> Tree {
    let mut joined: Object = own.map(|(keyword, value)| (keyword.to_owned(), value.clone())).collect();
    for (keyword, value) in target {
        if !joined.contains_key(&keyword) {
            joined.insert(keyword, value);
        }
    }
    Tree::Object(joined)
}

/// Keywords that constrain nothing.
fn is_word(keyword: &str) -> bool {
    matches!(keyword, "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly" | "$comment")
        || keyword.starts_with("x-")
}

/// Lets every reference that stayed mean what it meant. Where the schema changed under one, a copy of what was there moves
/// to `$defs`; definitions that nothing refers to any more go, and the hidden names in them.
pub(super) fn settled(document: &Document, mut shown: Tree) -> Result<Tree, CannotShow> {
    if !document.refers {
        return Ok(shown);
    }
    let mut moved: HashMap<String, String> = HashMap::new();
    loop {
        let mut found = Vec::new();
        references(&shown, &mut found);
        let mut new = Vec::new();
        for reference in found {
            if moved.contains_key(reference) || new.contains(&reference) || is_definition(reference) {
                continue;
            }
            let Ok(meant) = document.follow(reference) else { continue };
            if reference.strip_prefix('#').and_then(|pointer| shown.pointer(pointer)) != Some(meant) {
                new.push(reference);
            }
        }
        if new.is_empty() {
            break;
        }
        // A reference within such a part starts there, and what it is to mean would be moved away from it.
        if has_own_base(document, &shown, true) {
            let why = "a part has an `$id` of its own, which changes where references lead".to_owned();
            return Err(CannotShow::NotProven { place: Vec::new(), why });
        }
        for reference in new.into_iter().map(str::to_owned).collect::<Vec<_>>() {
            let Ok(meant) = document.follow(&reference) else { continue };
            document.spend(size(meant))?;
            let mut copy = meant.clone();
            if let Tree::Object(copy) = &mut copy {
                copy.retain(|keyword, _| !OF_THE_PLACE.contains(&keyword));
            }
            let wish = reference.rsplit('/').next().filter(|name| *name != "#").unwrap_or("root");
            let name = define(&mut shown, wish, copy);
            moved.insert(reference, name);
        }
        rewrite(&mut shown, &|reference| moved.get(reference).cloned());
    }
    drop_unused(&mut shown);
    Ok(shown)
}

/// Whether a part says where its references start.
fn has_own_base(document: &Document, schema: &Tree, is_root: bool) -> bool {
    let Tree::Object(object) = schema else { return false };
    let says = object.contains_key("$id") || object.contains_key("id") && !document.dialect.modern;
    (says && !is_root) || children(object).any(|child| has_own_base(document, child, false))
}

/// Adds a definition under a name that is free; gives the reference to it.
pub(super) fn define(root: &mut Tree, wish: &str, schema: Tree) -> String {
    let Some(root) = root.as_object_mut() else { return "#".to_owned() };
    if !root.contains_key("$defs") {
        root.insert("$defs", Tree::object());
    }
    let Some(definitions) = root.get_mut("$defs").and_then(Tree::as_object_mut) else { return "#".to_owned() };
    let name = free_name(wish, |name| definitions.contains_key(name));
    definitions.insert(name.as_str(), schema);
    format!("#/$defs/{}", escaped(&name))
}

/// The name, or the name with a number, that is not taken.
pub(super) fn free_name(wish: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(wish) {
        return wish.to_owned();
    }
    (2..).map(|number| format!("{wish}-{number}")).find(|name| !taken(name)).unwrap_or_default()
}

/// A name as a step of a JSON pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Changes references in all schemas of the tree.
pub(super) fn rewrite(schema: &mut Tree, new: &dyn Fn(&str) -> Option<String>) {
    let Tree::Object(object) = schema else { return };
    if let Some(Tree::String(reference)) = object.get_mut("$ref")
        && let Some(new) = new(reference)
    {
        *reference = new;
    }
    children_mut(object).for_each(|child| rewrite(child, new));
}

/// Every reference in the schemas of the tree, in order.
pub(super) fn references<'t>(schema: &'t Tree, found: &mut Vec<&'t str>) {
    let Tree::Object(object) = schema else { return };
    found.extend(["$ref", "$dynamicRef", "$recursiveRef"].iter().filter_map(|keyword| object.get(keyword)).filter_map(Tree::as_str));
    children(object).for_each(|child| references(child, found));
}

fn is_definition(reference: &str) -> bool {
    reference.starts_with("#/$defs/") || reference.starts_with("#/definitions/")
}

fn drop_unused(root: &mut Tree) {
    let Tree::Object(object) = &*root else { return };
    let mut found: Vec<&str> = object.get("$ref").and_then(Tree::as_str).into_iter().collect();
    for (keyword, value) in object.iter().filter(|(keyword, _)| !matches!(*keyword, "$defs" | "definitions")) {
        held(keyword, value).for_each(|child| references(child, &mut found));
    }
    let mut used: HashSet<(String, String)> = HashSet::new();
    while let Some(reference) = found.pop() {
        if !reference.starts_with("#/") && reference != "#" {
            // It may lead to any definition.
            return;
        }
        let mut steps = reference.split('/').skip(1);
        let (Some(container @ ("$defs" | "definitions")), Some(name)) = (steps.next(), steps.next()) else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        let Some(definition) = object.get(container).and_then(|definitions| definitions.get(&name)) else { continue };
        if used.insert((container.to_owned(), name)) {
            references(definition, &mut found);
        }
    }
    let Tree::Object(object) = root else { return };
    for container in ["$defs", "definitions"] {
        let Some(definitions) = object.get_mut(container).and_then(Tree::as_object_mut) else { continue };
        definitions.retain(|name, _| used.contains(&(container.to_owned(), name.to_owned())));
        if definitions.is_empty() {
            object.remove(container);
        }
    }
}
