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
use super::document::{DEPTH, Document, Holds, allows, matches, size};
use super::fields::declared_inside;
use super::reference::merged;
use crate::name::Step;
use transom_json::{Object, Tree};

/// Why a part cannot be rewritten.
enum Stop {
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

type Outcome<T> = Result<T, Stop>;

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

struct Editor<'d> {
    document: &'d Document<'d>,
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
    cousins: Vec<(*const (), Vec<String>)>,
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
        let mut draft = Draft { object, edits: Vec::new(), added: Vec::new(), conjuncts: Vec::new(), lost: false };
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
                if referred.is_none() && !draft.lost {
                    return Ok(Part::default());
                }
                let target = referred.unwrap_or_else(|| target.clone());
                self.document.spend(size(&target))?;
                let lost = draft.lost;
                let own = draft.finish();
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
                if member.secret && property.get("x-mcp-header").is_some() {
                    return Err(CannotShow::SecretInHeader { field: self.spelled(name) }.into());
                }
                self.losses += 1;
                draft.lost = true;
                changed = true;
                continue;
            }
            self.trail.push(Step::Member(name.to_owned()));
            let inner = self.level(property, &member.inside, depth)?;
            self.trail.pop();
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
        self.trail.push(Step::Items);
        let losses = self.losses;
        match value {
            Tree::Array(elements) => {
                let mut list = Vec::with_capacity(elements.len());
                let mut changed = false;
                for element in elements {
                    let inner = self.level(element, items, depth)?;
                    changed |= inner.is_some();
                    list.push(inner.unwrap_or_else(|| element.clone()));
                }
                if changed {
                    draft.set(keyword, Tree::Array(list));
                }
                // What is behind the tuple could hold anything, the hidden name too.
                let rest = if keyword == "prefixItems" { "items" } else { "additionalItems" };
                if self.losses > losses && !draft.object.contains_key(rest) {
                    draft.added.push((rest, Tree::Bool(false)));
                }
            }
            schema => {
                let inner = self.level(schema, items, depth)?;
                draft.replace(keyword, inner);
            }
        }
        self.trail.pop();
        Ok(())
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
    fn followed<T>(&mut self, target: &Tree, level: &Level, change: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let step = (std::ptr::from_ref(target), std::ptr::from_ref(level).cast());
        if self.following.contains(&step) {
            return Err(self.cannot("a reference leads to itself".to_owned()).into());
        }
        self.following.push(step);
        let outcome = change(self);
        self.following.pop();
        outcome
    }

    /// Where several parts describe the same member, what one of them declares inside it must stay possible for the others.
    fn meet_cousins(&mut self, schema: &Tree, level: &Level) {
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
    fn closed(&mut self, schema: Tree, level: &Level, depth: usize) -> Outcome<Tree> {
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
        let mut draft = Draft { object, edits: Vec::new(), added: Vec::new(), conjuncts: Vec::new(), lost: false };
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

    fn spelled(&self, name: &str) -> crate::name::FieldPath {
        crate::name::FieldPath::of(self.trail.iter().cloned().chain([Step::Member(name.to_owned())]))
    }

    fn cannot(&self, why: String) -> CannotShow {
        CannotShow::NotProven { place: self.trail.clone(), why }
    }
}

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

/// A schema while it is rewritten.
struct Draft<'o> {
    object: &'o Object,
    /// By keyword, the member it becomes, or nothing.
    edits: Vec<(&'o str, Option<(&'o str, Tree)>)>,
    added: Vec<(&'o str, Tree)>,
    /// Further schemas that must hold.
    conjuncts: Vec<Tree>,
    lost: bool,
}

impl<'o> Draft<'o> {
    fn set(&mut self, keyword: &'o str, value: Tree) {
        self.edits.push((keyword, Some((keyword, value))));
    }

    fn replace(&mut self, keyword: &'o str, value: Option<Tree>) {
        if let Some(value) = value {
            self.set(keyword, value);
        }
    }

    fn remove(&mut self, keyword: &'o str) {
        self.edits.push((keyword, None));
    }

    fn set_unless_empty(&mut self, keyword: &'o str, value: Tree) {
        let empty = match &value {
            Tree::Array(list) => list.is_empty(),
            Tree::Object(map) => map.is_empty(),
            _ => false,
        };
        if empty { self.remove(keyword) } else { self.set(keyword, value) }
    }

    fn weaken_one_of(&mut self, branches: Vec<Tree>) {
        if self.object.contains_key("anyOf") {
            self.remove("oneOf");
            self.conjuncts.push(either(branches));
        } else {
            self.edits.push(("oneOf", Some(("anyOf", Tree::Array(branches)))));
        }
    }

    /// The condition asked for a hidden name: either branch may hold.
    fn weaken_if(&mut self) {
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
    fn finish(mut self) -> Option<Tree> {
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

/// An array of anything, with elements that are closed.
fn with_closed_items(schema: &Tree) -> Option<Tree> {
    let object =
        schema.as_object().filter(|object| allows(object, "array") && !object.contains_key("items") && !object.contains_key("prefixItems"))?;
    let closed: Object = [("additionalProperties".to_owned(), Tree::Bool(false))].into_iter().collect();
    let mut object = object.clone();
    object.insert("items", Tree::Object(closed));
    Some(Tree::Object(object))
}

fn either(branches: Vec<Tree>) -> Tree {
    Tree::Object([("anyOf".to_owned(), Tree::Array(branches))].into_iter().collect())
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
