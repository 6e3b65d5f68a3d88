//! Levels are built when a tool is bound: from its hidden fields, its defaults and its renames, once for all calls.

use super::fold::fold;
use super::level::{Fill, Hidden, Level, Member};
use crate::compile::{Filling, VirtualTool};
use crate::name::{self, FieldPath};
use crate::schema::Fields;
use transom_json::{Object, Tree, write};

/// What happens to the arguments of a tool. The error is a field whose default has no room for the defaults inside it.
pub(super) fn level(
    tool: &VirtualTool,
    fields: Option<&Fields<'_>>,
    hidden: &[FieldPath],
    forced: &[FieldPath],
    fillings: &[Filling],
) -> Result<Level, FieldPath> {
    let mut root = Node::default();
    for path in hidden {
        root.at(path).hidden = true;
    }
    for path in forced {
        let node = root.at(path);
        (node.hidden, node.forced) = (true, true);
    }
    for filling in fillings {
        root.at(&filling.path).value = Some(&filling.value);
    }
    Builder { tool, fields }.level(&root, &mut Vec::new())
}

/// The fields of a tool as a tree, by source names, while it is being bound.
#[derive(Default)]
struct Node<'f> {
    value: Option<&'f Tree>,
    hidden: bool,
    forced: bool,
    children: Vec<(&'f str, Node<'f>)>,
    items: Option<Box<Node<'f>>>,
}

impl<'f> Node<'f> {
    fn at(&mut self, path: &'f FieldPath) -> &mut Node<'f> {
        path.steps().iter().fold(self, |node, step| match step {
            name::Step::Items => node.items.get_or_insert_default(),
            name::Step::Member(name) => {
                let at = node.children.iter().position(|(each, _)| each == name).unwrap_or(node.children.len());
                if at == node.children.len() {
                    node.children.push((name, Node::default()));
                }
                // The position was found or made above.
                match node.children.get_mut(at) {
                    Some((_, child)) => child,
                    None => node.items.get_or_insert_default(),
                }
            }
        })
    }
}

/// Makes levels out of nodes.
struct Builder<'b> {
    tool: &'b VirtualTool,
    fields: Option<&'b Fields<'b>>,
}

impl Builder<'_> {
    /// What is sent for a field that the caller left out, and that has `around` from a default around it; an error names the field whose
    /// value has no room for others.
    fn left_out(&self, node: &Node<'_>, around: Option<&Tree>, path: &mut Vec<name::Step>) -> Result<Option<Tree>, FieldPath> {
        let mut value = node.value.or(around).cloned();
        for (name, child) in &node.children {
            path.push(name::Step::Member((*name).to_owned()));
            let inner = self.left_out(child, value.as_ref().and_then(|value| value.get(name)), path)?;
            path.pop();
            match (&mut value, inner) {
                (_, None) => {}
                (Some(Tree::Object(object)), Some(inner)) => object.insert(*name, inner),
                (Some(_), Some(_)) => return Err(FieldPath::of(path.iter().cloned())),
                (none, Some(inner)) => *none = Some(Tree::Object(Object::from_iter([((*name).to_owned(), inner)]))),
            }
        }
        if let (Some(items), Some(elements)) = (&node.items, &mut value) {
            let Tree::Array(elements) = elements else { return Err(FieldPath::of(path.iter().cloned())) };
            for element in elements {
                self.fill_element(items, element, path)?;
            }
        }
        // An object made up for the sake of what is inside must be one that the source can take.
        let made_up = node.value.or(around).is_none();
        if let (true, Some(Tree::Object(object)), Some(fields)) = (made_up, &value, self.fields) {
            let here = FieldPath::of(path.iter().cloned());
            let lacking = fields.required_within(&here).iter().any(|name| !object.contains_key(name));
            if lacking && !fields.is_required(&here) {
                return Ok(None);
            }
        }
        Ok(value)
    }

    /// Writes defaults of elements into an element of a default.
    fn fill_element(&self, node: &Node<'_>, element: &mut Tree, path: &mut Vec<name::Step>) -> Result<(), FieldPath> {
        path.push(name::Step::Items);
        for (name, child) in &node.children {
            path.push(name::Step::Member((*name).to_owned()));
            let inner = self.left_out(child, element.get(name), path)?;
            path.pop();
            match (&mut *element, inner) {
                (_, None) => {}
                (Tree::Object(object), Some(inner)) => {
                    if child.forced || child.value.is_none() || !object.contains_key(name) {
                        object.insert(*name, inner);
                    }
                }
                (_, Some(_)) => return Err(FieldPath::of(path.iter().cloned())),
            }
        }
        path.pop();
        Ok(())
    }

    fn level(&self, node: &Node<'_>, path: &mut Vec<name::Step>) -> Result<Level, FieldPath> {
        let mut level = Level::default();
        let renames: &[_] = if path.is_empty() { &self.tool.parts.renames } else { &[] };
        let is_exposed = |name: &str| renames.iter().any(|rename| rename.exposed == name);
        let hide = |level: &mut Level, name: &str| {
            if !level.hidden.iter().any(|hidden| hidden.name == name) {
                level.hidden.push(Hidden { name: name.to_owned(), folded: fold(name).into_owned() });
            }
        };
        for rename in renames.iter().filter(|rename| rename.exposed != rename.source) {
            // A renamed-away name is unknown to callers, unless another argument took it over.
            if !is_exposed(&rename.source) {
                hide(&mut level, &rename.source);
            }
            if !node.children.iter().any(|(name, _)| *name == rename.source) {
                level.members.push(Member::new(&rename.exposed, &rename.source, Level::default()));
            }
        }
        for (name, child) in &node.children {
            let exposed = renames.iter().find(|rename| rename.source == *name).map_or(*name, |rename| &rename.exposed);
            path.push(name::Step::Member((*name).to_owned()));
            let left_out = self.left_out(child, None, path)?;
            let inside = if child.hidden { Level::default() } else { self.level(child, path)? };
            path.pop();
            if child.hidden {
                let taken_over = renames.iter().any(|rename| rename.exposed == exposed && rename.source != *name);
                if !taken_over {
                    hide(&mut level, exposed);
                }
            } else if exposed != *name || !inside.is_empty() {
                level.members.push(Member::new(exposed, name, inside));
            }
            if let Some(value) = left_out {
                let mut json = Vec::new();
                write::string(&mut json, name);
                json.push(b':');
                value.write(&mut json);
                level.needs_object |= child.is_forced();
                level.fills.push(Fill { name: (*name).to_owned(), json });
            }
        }
        // A new name was chosen on purpose; one that the source gave may be read as a hidden one of the source.
        for member in level.members.iter_mut().filter(|member| member.exposed == member.source) {
            let folded = fold(&member.source);
            member.taken_for_hidden = level.hidden.iter().any(|hidden| hidden.folded == folded);
        }
        if let Some(items) = &node.items {
            path.push(name::Step::Items);
            level.items = Some(Box::new(self.level(items, path)?));
            path.pop();
        }
        Ok(level)
    }
}

impl Node<'_> {
    /// Whether something in it is not the caller's to say.
    fn is_forced(&self) -> bool {
        self.forced || self.children.iter().any(|(_, child)| child.is_forced())
    }
}
