//! Takes names away from a schema, renames others and notes what is filled in.
//!
//! The schema is not changed but rewritten along the way to what changes; everything else is taken over as it is. A value
//! belongs to one *level* and is described by the *parts* of that level: the schema itself, what it refers to, and its
//! branches. A name goes from all parts; then the level is closed.
//!
//! What comes out accepts no less from callers than before, hidden names aside: where a condition speaks of a hidden name it
//! is dropped, because the source judges the finished arguments anyway. Whether the names are gone is for `prove` to say.

use super::CannotShow;
use super::change::{Level, Member, changed_list};
use super::close::with_closed_items;
use super::document::{DEPTH, Document, Holds, matches, size};
use super::draft::Draft;
use super::reference::merged;
use crate::name::Step;
use transom_json::{Object, Tree};

/// Why a part cannot be rewritten.
pub(super) enum Stop {
    /// The tool cannot be shown.
    Cannot(CannotShow),
    /// The part asks for a hidden name that nothing fills in: as a branch it can never hold.
    Unmet(CannotShow),
}

impl From<CannotShow> for Stop {
    fn from(cannot: CannotShow) -> Stop {
        Stop::Cannot(cannot)
    }
}

pub(super) type Outcome<T> = Result<T, Stop>;

/// A part after the change.
#[derive(Default)]
struct Part {
    /// Nothing, if it stays as it was.
    tree: Option<Tree>,
    /// Whether its level lost a name.
    lost: bool,
}

/// Applies the changes to the document's schema. Nothing, if there is nothing to do.
pub(super) fn apply(document: &Document, changes: &Level) -> Result<Option<Tree>, CannotShow> {
    let mut editor = Editor { document, trail: Vec::new(), following: Vec::new(), loosened: 0, losses: 0, conditions: 0, cousins: Vec::new() };
    editor.level(document.root, changes, DEPTH).map_err(|stop| match stop {
        Stop::Cannot(cannot) | Stop::Unmet(cannot) => cannot,
    })
}

pub(super) struct Editor<'d> {
    pub(super) document: &'d Document<'d>,
    /// The way to the level at hand, for messages.
    trail: Vec<Step>,
    /// References that are being followed, with the level they are followed for.
    following: Vec<(*const Tree, *const ())>,
    /// How often a part came to accept more values than before, among those without hidden names.
    loosened: usize,
    /// How often a name was taken away, at any level.
    losses: usize,
    /// How many conditions (`if`, `not`, `contains`) surround the part at hand.
    conditions: usize,
    /// Names that other parts declare at a level, which a part that is closed on its own would refuse.
    pub(super) cousins: Vec<(*const (), Vec<String>)>,
}

impl Editor<'_> {
    /// The schema of one value.
    fn level(&mut self, schema: &Tree, level: &Level, depth: usize) -> Outcome<Option<Tree>> {
        if level.is_empty() {
            return Ok(None);
        }
        self.meet_cousins(schema, level);
        let mut part = self.part(schema, level, depth)?;
        if level.items.as_ref().is_some_and(|items| items.close.get()) {
            part.tree = part.tree.or_else(|| with_closed_items(schema));
        }
        if let Some(fewer) = fewer(part.tree.as_ref().unwrap_or(schema), level) {
            self.loosened += 1;
            part.tree = Some(fewer);
        }
        if !part.lost && !level.close.get() {
            return Ok(part.tree);
        }
        let tree = part.tree.unwrap_or_else(|| schema.clone());
        Ok(Some(self.closed(tree, level, depth)?))
    }

    /// One of the schemas that describe the value of a level.
    fn part(&mut self, schema: &Tree, level: &Level, depth: usize) -> Outcome<Part> {
        let Tree::Object(object) = schema else { return Ok(Part::default()) };
        let depth = depth.checked_sub(1).ok_or(CannotShow::TooDeep)?;
        self.document.spend(1)?;
        self.refuse_what_cannot_be_followed(schema, object)?;
        let mut draft = Draft::of(object);
        let mut referred = None;
        if let Some(reference) = object.get("$ref").and_then(Tree::as_str) {
            let target = self.document.follow(reference).map_err(|why| self.cannot(format!("the reference `{reference}` {why}")))?;
            let inner = self.followed(target, level, |editor| editor.part(target, level, depth))?;
            draft.lost = inner.lost;
            referred = inner.tree;
            if !self.document.dialect.modern {
                // Older dialects ignore what stands beside a reference, but readers do not: if it names what is hidden, it goes.
                self.conditions += 1;
                let beside = self.keywords(&mut draft, level, depth);
                self.conditions -= 1;
                beside?;
                let lost = draft.lost;
                let own = draft.finish();
                if referred.is_none() && !lost {
                    return Ok(Part { tree: own, lost });
                }
                let target = referred.unwrap_or_else(|| target.clone());
                self.document.spend(size(&target))?;
                return Ok(Part { tree: Some(merged(own.as_ref().and_then(Tree::as_object).unwrap_or(object), target, false)), lost });
            }
        }
        self.keywords(&mut draft, level, depth)?;
        let lost = draft.lost;
        let tree = match (draft.finish(), referred) {
            (tree, None) => tree,
            (tree, Some(target)) => {
                self.document.spend(size(&target))?;
                let own = tree.as_ref().and_then(Tree::as_object).unwrap_or(object);
                Some(merged(own, target, true))
            }
        };
        Ok(Part { tree, lost })
    }

    fn keywords<'o>(&mut self, draft: &mut Draft<'o>, level: &Level, depth: usize) -> Outcome<()> {
        let object = draft.object;
        let mut condition_lost = false;
        for (keyword, value) in object.iter() {
            match keyword {
                "$ref" => {}
                "properties" => self.properties(draft, value, level, depth)?,
                "required" => self.required(draft, value, level)?,
                "dependentRequired" | "dependentSchemas" | "dependencies" => self.dependencies(draft, keyword, value, level, depth)?,
                "patternProperties" => self.patterns(draft, value, level, depth)?,
                "propertyNames" => self.property_names(draft, value, level),
                "additionalProperties" | "unevaluatedProperties" => self.refuse_what_others_share(object, value, level, depth)?,
                "allOf" => {
                    if let Some(list) = self.branches(draft, value, level, depth, false)? {
                        draft.set(keyword, Tree::Array(list));
                    }
                }
                "anyOf" => {
                    if let Some(list) = self.branches(draft, value, level, depth, true)? {
                        draft.set(keyword, Tree::Array(list));
                    }
                }
                "oneOf" => {
                    let loosened = self.loosened;
                    if let Some(list) = self.branches(draft, value, level, depth, true)? {
                        // Branches that came to accept more may now hold together, which "exactly one" would refuse.
                        if self.loosened == loosened { draft.set(keyword, Tree::Array(list)) } else { draft.weaken_one_of(list) }
                    }
                }
                "if" => {
                    let (tree, lost) = self.condition(|editor| editor.part(value, level, depth))?;
                    condition_lost |= lost;
                    draft.replace(keyword, tree);
                }
                "not" => match self.condition(|editor| editor.part(value, level, depth))? {
                    (_, true) => {
                        self.loosened += 1;
                        draft.remove(keyword);
                    }
                    (tree, false) => draft.replace(keyword, tree),
                },
                "then" | "else" => {
                    let tree = self.branch(draft, value, level, depth)?;
                    draft.replace(keyword, tree);
                }
                "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" => self.items(draft, keyword, value, level, depth)?,
                "contains" => {
                    let Some(items) = level.items.as_deref() else { continue };
                    match self.condition(|editor| Ok(Part { tree: editor.level(value, items, depth)?, lost: false }))? {
                        (_, true) => {
                            self.loosened += 1;
                            ["contains", "minContains", "maxContains"].into_iter().for_each(|each| draft.remove(each));
                        }
                        (tree, false) => draft.replace(keyword, tree),
                    }
                }
                "default" => draft.replace(keyword, level.stripped(value)),
                "const" => {
                    if let Some(stripped) = level.stripped(value) {
                        self.loosened += 1;
                        self.losses += 1;
                        draft.set(keyword, stripped);
                    }
                }
                "examples" | "enum" => {
                    let Some(Tree::Array(list)) = value.as_array().and_then(|list| changed_list(list, |each| level.stripped(each))) else { continue };
                    self.loosened += usize::from(keyword == "enum");
                    self.losses += usize::from(keyword == "enum");
                    draft.set(keyword, Tree::Array(without_repeats(list)));
                }
                _ => {
                    let names = |name: &str| level.get(name).is_some_and(|member| member.gone || member.exposed.is_some());
                    if Holds::of(keyword) == Holds::Data && !is_known(keyword) && mentions(value, &names) {
                        draft.remove(keyword);
                    }
                }
            }
        }
        if condition_lost {
            self.loosened += 1;
            draft.weaken_if();
        }
        Ok(())
    }

    fn properties(&mut self, draft: &mut Draft, value: &Tree, level: &Level, depth: usize) -> Outcome<()> {
        let Tree::Object(properties) = value else { return Ok(()) };
        if !level.members().iter().any(|member| properties.contains_key(member.name)) {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(properties.len());
        let mut changed = false;
        for (name, property) in properties.iter() {
            let Some(member) = level.get(name) else {
                kept.push((name.to_owned(), property.clone()));
                continue;
            };
            member.found.set(true);
            if member.gone {
                self.losses += 1;
                draft.lost = true;
                changed = true;
                continue;
            }
            let inner = self.inside(Step::Member(name.to_owned()), |editor| editor.level(property, &member.inside, depth))?;
            changed |= inner.is_some() || member.exposed.is_some();
            let mut property = inner.unwrap_or_else(|| property.clone());
            changed |= self.conditions == 0 && dress(&mut property, member);
            draft.lost |= member.exposed.is_some();
            kept.push((member.exposed.unwrap_or(name).to_owned(), property));
        }
        if changed {
            draft.set("properties", Tree::Object(kept.into_iter().collect()));
        }
        Ok(())
    }

    fn required(&mut self, draft: &mut Draft, value: &Tree, level: &Level) -> Outcome<()> {
        let Tree::Array(names) = value else { return Ok(()) };
        let mut kept = Vec::with_capacity(names.len());
        let mut changed = false;
        for name in names {
            let member = name.as_str().and_then(|name| level.get(name));
            match member {
                Some(member) if member.gone => {
                    member.found.set(true);
                    if !member.supplied && self.conditions == 0 {
                        return Err(Stop::Unmet(CannotShow::RequiredHidden { field: self.spelled(member.name) }));
                    }
                    self.losses += 1;
                    self.loosened += 1;
                    draft.lost = true;
                    changed = true;
                }
                Some(member) if member.supplied && self.conditions == 0 => {
                    member.found.set(true);
                    self.loosened += 1;
                    changed = true;
                }
                Some(Member { exposed: Some(exposed), found, .. }) => {
                    found.set(true);
                    draft.lost = true;
                    changed = true;
                    kept.push(Tree::from(*exposed));
                }
                _ => kept.push(name.clone()),
            }
        }
        if changed {
            draft.set_unless_empty("required", Tree::Array(kept));
        }
        Ok(())
    }

    /// `dependentRequired`, `dependentSchemas`, and their elder, which is both.
    fn dependencies<'o>(&mut self, draft: &mut Draft<'o>, keyword: &'o str, value: &Tree, level: &Level, depth: usize) -> Outcome<()> {
        let Tree::Object(dependencies) = value else { return Ok(()) };
        let mut kept = Vec::with_capacity(dependencies.len());
        let mut changed = false;
        for (name, needs) in dependencies.iter() {
            let member = level.get(name);
            if let Some(member) = member.filter(|member| member.gone) {
                member.found.set(true);
                self.losses += 1;
                self.loosened += 1;
                (draft.lost, changed) = (true, true);
                continue;
            }
            let exposed = member.and_then(|member| member.exposed);
            changed |= exposed.is_some();
            let name = exposed.unwrap_or(name).to_owned();
            let Tree::Array(names) = needs else {
                let branch = self.branch(draft, needs, level, depth)?;
                changed |= branch.is_some();
                kept.push((name, branch.unwrap_or_else(|| needs.clone())));
                continue;
            };
            let mut list = Vec::with_capacity(names.len());
            for needed in names {
                match needed.as_str().and_then(|needed| level.get(needed)) {
                    Some(member) if member.gone || member.supplied => {
                        member.found.set(true);
                        self.losses += usize::from(member.gone);
                        self.loosened += 1;
                        draft.lost |= member.gone;
                        changed = true;
                    }
                    Some(Member { exposed: Some(exposed), .. }) => {
                        changed = true;
                        list.push(Tree::from(*exposed));
                    }
                    _ => list.push(needed.clone()),
                }
            }
            if !list.is_empty() || names.is_empty() {
                kept.push((name, Tree::Array(list)));
            }
        }
        if changed {
            draft.set_unless_empty(keyword, Tree::Object(kept.into_iter().collect()));
        }
        Ok(())
    }

    /// A pattern that lets a name in which must be unknown goes as a whole: it cannot be narrowed.
    fn patterns(&mut self, draft: &mut Draft, value: &Tree, level: &Level, depth: usize) -> Outcome<()> {
        let Tree::Object(patterns) = value else { return Ok(()) };
        let mut kept = patterns.clone();
        for (pattern, schema) in patterns.iter() {
            for member in level.members() {
                let found = matches(pattern, member.name).ok_or_else(|| self.cannot(format!("the pattern `{pattern}` cannot be read")))?;
                if !found {
                    continue;
                }
                if member.gone || member.exposed.is_some() {
                    member.found.set(true);
                    self.losses += usize::from(member.gone);
                    self.loosened += 1;
                    draft.lost = true;
                    kept.remove(pattern);
                } else if self.level(schema, &member.inside, depth)?.is_some() {
                    let name = member.name;
                    return Err(self.cannot(format!("`{name}` is described by the pattern `{pattern}`, which other names share")).into());
                }
            }
        }
        if kept.len() < patterns.len() {
            draft.set_unless_empty("patternProperties", Tree::Object(kept));
        }
        Ok(())
    }

    fn property_names(&mut self, draft: &mut Draft, value: &Tree, level: &Level) {
        let speaks = |name: &str| level.get(name).is_some_and(|member| member.gone || member.exposed.is_some());
        if !mentions(value, &speaks) {
            return;
        }
        let gone = |name: &str| level.get(name).is_some_and(|member| member.gone);
        if mentions(value, &gone) {
            self.losses += 1;
            draft.lost = true;
        }
        for member in level.members().iter().filter(|member| mentions(value, &|name| name == member.name)) {
            member.found.set(true);
        }
        let only_names = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("enum")).and_then(Tree::as_array);
        match only_names {
            Some(names) => {
                let shown = names.iter().filter_map(|name| match name.as_str().and_then(|name| level.get(name)) {
                    Some(member) if member.gone => None,
                    Some(Member { exposed: Some(exposed), .. }) => Some(Tree::from(*exposed)),
                    _ => Some(name.clone()),
                });
                let list: Vec<Tree> = shown.collect();
                // An empty enumeration is no schema; no name at all is `false`.
                let names =
                    if list.is_empty() { Tree::Bool(false) } else { Tree::Object([("enum".to_owned(), Tree::Array(list))].into_iter().collect()) };
                draft.set("propertyNames", names);
            }
            // It only forbids names, and the closed level forbids all that are not declared.
            None => {
                self.loosened += 1;
                draft.remove("propertyNames");
            }
        }
    }

    /// The branches of `allOf`, `anyOf`, `oneOf`; nothing, if all stay as they were. An alternative that can never hold goes;
    /// if none is left, the whole cannot hold.
    fn branches(&mut self, draft: &mut Draft, value: &Tree, level: &Level, depth: usize, alternatives: bool) -> Outcome<Option<Vec<Tree>>> {
        let Tree::Array(branches) = value else { return Ok(None) };
        let mut kept = Vec::with_capacity(branches.len());
        let mut changed = false;
        let mut unmet = None;
        for branch in branches {
            match self.part(branch, level, depth) {
                Ok(part) => {
                    draft.lost |= part.lost;
                    changed |= part.tree.is_some();
                    kept.push(part.tree.unwrap_or_else(|| branch.clone()));
                }
                Err(Stop::Unmet(why)) if alternatives => {
                    self.losses += 1;
                    draft.lost = true;
                    changed = true;
                    unmet = Some(why);
                }
                Err(stop) => return Err(stop),
            }
        }
        match unmet {
            Some(why) if kept.is_empty() => Err(Stop::Unmet(why)),
            _ => Ok(changed.then_some(kept)),
        }
    }

    /// A branch that holds under a condition; one that can never hold forbids its condition.
    fn branch(&mut self, draft: &mut Draft, value: &Tree, level: &Level, depth: usize) -> Outcome<Option<Tree>> {
        match self.part(value, level, depth) {
            Ok(part) => {
                draft.lost |= part.lost;
                Ok(part.tree)
            }
            Err(Stop::Unmet(_)) => {
                self.losses += 1;
                draft.lost = true;
                Ok(Some(Tree::Bool(false)))
            }
            Err(stop) => Err(stop),
        }
    }

    /// A schema that asks a question: what it becomes, and whether it asked for a hidden name.
    fn condition(&mut self, change: impl FnOnce(&mut Self) -> Outcome<Part>) -> Outcome<(Option<Tree>, bool)> {
        let losses = self.losses;
        self.conditions += 1;
        let part = change(self);
        self.conditions -= 1;
        Ok((part?.tree, self.losses > losses))
    }

    fn items<'o>(&mut self, draft: &mut Draft<'o>, keyword: &'o str, value: &Tree, level: &Level, depth: usize) -> Outcome<()> {
        let Some(items) = level.items.as_deref() else { return Ok(()) };
        let losses = self.losses;
        let mut element = |schema: &Tree| self.inside(Step::Items, |editor| editor.level(schema, items, depth));
        let Tree::Array(elements) = value else {
            draft.replace(keyword, element(value)?);
            return Ok(());
        };
        let mut list = Vec::with_capacity(elements.len());
        let mut changed = false;
        for schema in elements {
            let inner = element(schema)?;
            changed |= inner.is_some();
            list.push(inner.unwrap_or_else(|| schema.clone()));
        }
        if changed {
            draft.set(keyword, Tree::Array(list));
        }
        // What is behind the tuple could hold anything, the hidden name too.
        let rest = if keyword == "prefixItems" { "items" } else { "additionalItems" };
        if self.losses > losses && !draft.object.contains_key(rest) {
            draft.added.push((rest, Tree::Bool(false)));
        }
        Ok(())
    }

    /// Goes one step further into the value.
    fn inside<T>(&mut self, step: Step, go: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.trail.push(step);
        let outcome = go(self);
        self.trail.pop();
        outcome
    }

    /// Something hidden inside members that are described together with others cannot be taken from one of them.
    fn refuse_what_others_share(&mut self, object: &Object, value: &Tree, level: &Level, depth: usize) -> Outcome<()> {
        for member in level.members() {
            let declared = object.get("properties").and_then(|properties| properties.get(member.name)).is_some();
            if !declared && !member.gone && !member.inside.is_empty() && self.level(value, &member.inside, depth)?.is_some() {
                let name = member.name;
                return Err(self.cannot(format!("`{name}` is described by `additionalProperties`, which other names share")).into());
            }
        }
        Ok(())
    }

    fn refuse_what_cannot_be_followed(&self, schema: &Tree, object: &Object) -> Outcome<()> {
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if object.contains_key(keyword) {
                return Err(self.cannot(format!("`{keyword}` leads to different schemas at different times")).into());
            }
        }
        let is_root = std::ptr::eq(schema, self.document.root);
        if !is_root && (object.contains_key("$id") || object.contains_key("id") && !self.document.dialect.modern) {
            return Err(self.cannot("a part has an `$id` of its own, which changes where references lead".to_owned()).into());
        }
        Ok(())
    }

    /// Follows a reference, once for a level: a schema that refers to itself for the same value describes nothing.
    pub(super) fn followed<T>(&mut self, target: &Tree, level: &Level, change: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let step = (std::ptr::from_ref(target), std::ptr::from_ref(level).cast());
        if self.following.contains(&step) {
            return Err(self.cannot("a reference leads to itself".to_owned()).into());
        }
        self.following.push(step);
        let outcome = change(self);
        self.following.pop();
        outcome
    }

    fn spelled(&self, name: &str) -> crate::name::FieldPath {
        crate::name::FieldPath::of(self.trail.iter().cloned().chain([Step::Member(name.to_owned())]))
    }

    pub(super) fn cannot(&self, why: String) -> CannotShow {
        CannotShow::NotProven { place: self.trail.clone(), why }
    }
}

/// What is filled in counts towards the number of members that the source asks for.
fn fewer(schema: &Tree, level: &Level) -> Option<Tree> {
    let Tree::Object(object) = schema else { return None };
    let Some(Tree::Number(spelling)) = object.get("minProperties") else { return None };
    let filled = level.members().iter().filter(|member| member.supplied && member.found.get()).count();
    let least: usize = spelling.parse().ok().filter(|_| filled > 0)?;
    let mut object = object.clone();
    match least.saturating_sub(filled) {
        0 => drop(object.remove("minProperties")),
        fewer => object.insert("minProperties", Tree::Number(fewer.to_string().into())),
    }
    Some(Tree::Object(object))
}

/// Writes description and default of a member onto its schema; whether that changed it.
fn dress(property: &mut Tree, member: &Member) -> bool {
    if *property == Tree::Bool(true) && (member.description.is_some() || member.default.is_some()) {
        *property = Tree::object();
    }
    let Some(object) = property.as_object_mut() else { return false };
    if let Some(description) = member.description {
        object.insert("description", Tree::from(description));
    }
    match member.default {
        Some(default) => object.insert("default", default.clone()),
        // The source's own default is not what will be sent.
        None if member.secret => return object.remove("default").is_some() || member.description.is_some(),
        None => return member.description.is_some(),
    }
    true
}

/// Whether a string of the tree, as a whole, is such a name.
fn mentions(tree: &Tree, name: &dyn Fn(&str) -> bool) -> bool {
    match tree {
        Tree::String(text) => name(text),
        Tree::Array(elements) => elements.iter().any(|each| mentions(each, name)),
        Tree::Object(members) => members.iter().any(|(key, value)| name(key) || mentions(value, name)),
        _ => false,
    }
}

/// Keywords whose text says nothing about members, even if it happens to be the name of one.
fn is_known(keyword: &str) -> bool {
    matches!(
        keyword,
        "type" | "title" | "description" | "format" | "pattern" | "contentMediaType" | "contentEncoding" | "x-mcp-header" | "readOnly" | "writeOnly"
    ) || keyword.starts_with('$')
}

fn without_repeats(list: Vec<Tree>) -> Vec<Tree> {
    let mut kept: Vec<Tree> = Vec::with_capacity(list.len());
    for value in list {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}
