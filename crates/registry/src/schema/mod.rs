//! What a virtual tool's input looks like: the source's schema or the entry's own, with arguments renamed, fields hidden, and
//! defaults shown where they may be seen.
//!
//! Trees in, trees out. Where the defaults come from, how arguments are turned back, and what a warning is worth are the
//! business of others. The rooms: [`named`](resolve_named) expands references to the registry's own schemas, `change` is what
//! is to happen, `hide` does it (on a `draft`) and `close` closes what lost a name, `reference` keeps local references true,
//! `prove` checks that hidden names are gone, `fields` looks fields up.

mod change;
mod close;
mod document;
mod draft;
mod fields;
mod hide;
mod named;
mod prove;
mod reference;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod tests;

pub use named::{BadReference, resolve_named};

use crate::name::{FieldPath, Step};
use change::Level;
use document::Document;
use std::fmt;
use transom_json::Tree;

/// What is known about one virtual tool's input.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The source tool's `inputSchema`.
    pub source: &'a Tree,
    /// The entry's own `inputSchema`, which speaks exposed names; references to named schemas are expanded already.
    pub replacement: Option<&'a Tree>,
    /// Arguments under other names, or with other descriptions.
    pub renames: &'a [Rename],
    /// Fields that callers must not see, by source names.
    pub hidden: &'a [FieldPath],
    /// Values the gateway fills in, by source names.
    pub defaults: &'a [DefaultValue<'a>],
    /// Whether fields with a default are hidden.
    pub hide_defaulted: bool,
}

/// An argument that callers know by another name; or by its own, with another description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The name callers use.
    pub exposed: String,
    /// The name the source uses.
    pub source: String,
    /// The description callers see; without one, the schema's.
    pub description: Option<String>,
}

/// A value the gateway fills in.
#[derive(Clone, Copy, Debug)]
pub struct DefaultValue<'a> {
    /// The field, by source names.
    pub path: &'a FieldPath,
    /// The value; none, if it came from the environment or a file and must not be shown.
    pub value: Option<&'a Tree>,
}

/// The input schema callers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The schema.
    pub schema: Tree,
    /// The defaults that callers cannot replace, because their fields are hidden or not advertised; by source names.
    pub forced: Vec<FieldPath>,
    /// What is odd, though the tool can be shown.
    pub notices: Vec<Notice>,
}

/// Why a tool cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotShow {
    /// A hidden field that the source cannot do without.
    #[error("field `{field}` is hidden, but the source requires it and no default fills it in")]
    RequiredHidden {
        /// The field, by source names.
        field: FieldPath,
    },
    /// A name that may still be accepted.
    #[error("{}: {why}", Place(place))]
    NotProven {
        /// The level, from the top of the arguments.
        place: Vec<Step>,
        /// What stands in the way.
        why: String,
    },
    /// A secret would travel in a header, where others read it.
    #[error("field `{field}` gets a secret, but the source wants it in a header too (`x-mcp-header`)")]
    SecretInHeader {
        /// The field, by source names.
        field: FieldPath,
    },
    /// A new name that another visible argument has.
    #[error("argument `{source_name}` cannot be called `{exposed}`: the source has another argument of that name")]
    NameTaken {
        /// The wished name.
        exposed: String,
        /// The argument that wishes it.
        source_name: String,
    },
    /// One argument under two names.
    #[error("arguments `{first}` and `{second}` both stand for `{source_name}` of the source")]
    Twice {
        /// One name.
        first: String,
        /// The other.
        second: String,
        /// The source's name for both.
        source_name: String,
    },
    /// A schema for something else than arguments.
    #[error("the input schema is not of type \"object\"")]
    NotAnObject,
    /// A schema that is nested too deep.
    #[error("the input schema is nested more than {} deep, or its references are", document::DEPTH)]
    TooDeep,
    /// A schema that is, or would become, too large.
    #[error("the input schema has more than {} parts, or would get them if its references were followed", document::PARTS)]
    TooLarge,
}

impl CannotShow {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            CannotShow::RequiredHidden { field } => Some(format!("add a default for `{field}`, or do not hide it")),
            CannotShow::NotProven { .. } => Some("give the tool an `inputSchema` of its own that names what callers may send".to_owned()),
            CannotShow::SecretInHeader { .. } => Some("let the source take it in the arguments only".to_owned()),
            CannotShow::NameTaken { exposed, .. } => Some(format!("rename or hide `{exposed}`, or choose another name")),
            CannotShow::Twice { .. } => Some("keep one of them".to_owned()),
            CannotShow::NotAnObject => Some("write `\"type\": \"object\"` and describe the arguments under `properties`".to_owned()),
            CannotShow::TooDeep | CannotShow::TooLarge => None,
        }
    }
}

/// A level in words.
struct Place<'a>(&'a [Step]);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("it cannot be proven that hidden names are gone from the arguments"),
            steps => write!(f, "it cannot be proven that hidden names are gone from `{}`", FieldPath::of(steps.iter().cloned())),
        }
    }
}

/// Something odd about a tool that can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A hidden field that the source does not have.
    NothingToHide {
        /// The field.
        field: FieldPath,
        /// A name that looks like it.
        meant: Option<String>,
    },
    /// A renamed argument that the source does not have.
    NothingToRename {
        /// The name callers would use.
        exposed: String,
        /// The name the source should have had.
        source: String,
        /// A name that looks like it.
        meant: Option<String>,
    },
    /// The source requires an argument that the virtual tool neither takes nor fills in.
    Unmet {
        /// The argument, by its source name.
        field: FieldPath,
    },
    /// The virtual tool takes an argument that the source refuses.
    Refused {
        /// The argument, by its source name.
        field: FieldPath,
    },
    /// The virtual tool takes or fills in values of types that the source does not take.
    OtherType {
        /// The argument, by its source name.
        field: FieldPath,
        /// What the virtual tool takes or fills in.
        offered: String,
        /// What the source takes.
        taken: String,
    },
}

impl Notice {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Notice::NothingToHide { meant, .. } | Notice::NothingToRename { meant, .. } => {
                meant.as_ref().map(|name| format!("did you mean `{name}`?"))
            }
            Notice::Unmet { field } => Some(format!("add `{field}` to the tool's `inputSchema` or to its `defaults`")),
            Notice::Refused { .. } | Notice::OtherType { .. } => None,
        }
    }

    /// Whether it is about what the source could not accept, which a strict reader takes for an error.
    pub fn is_incompatible(&self) -> bool {
        matches!(self, Notice::Unmet { .. } | Notice::Refused { .. } | Notice::OtherType { .. })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::NothingToHide { field, .. } => write!(f, "hidden field `{field}` does not exist in the source's schema"),
            Notice::NothingToRename { exposed, source, .. } => {
                write!(f, "argument `{exposed}` stands for `{source}`, which does not exist in the source's schema")
            }
            Notice::Unmet { field } => write!(f, "the source requires `{field}`, which the tool neither takes nor fills in"),
            Notice::Refused { field } => write!(f, "the tool takes `{field}`, which the source refuses"),
            Notice::OtherType { field, offered, taken } => write!(f, "`{field}` is {offered} here, but the source takes {taken}"),
        }
    }
}

/// What a schema says about its fields, by its own names.
pub struct Fields<'a>(Document<'a>);

impl<'a> Fields<'a> {
    /// The fields of a schema; none of one that is too large to be looked through.
    pub fn of(schema: &'a Tree) -> Option<Fields<'a>> {
        Document::open(schema).ok().map(Fields)
    }

    /// The field that a path stands for: one whose name has the dots in it, if the schema declares such a one and no other.
    pub fn meant(&self, path: &FieldPath) -> FieldPath {
        if path.steps().len() > 1 && !fields::find(&self.0, path).exists() {
            let name = path.to_string();
            if fields::declared_at_top(&self.0).contains(&name.as_str()) {
                return FieldPath::top(name);
            }
        }
        path.clone()
    }

    /// The names of the types a field may have; nothing, if it may have any.
    pub fn types(&self, field: &FieldPath) -> Option<Vec<&'static str>> {
        fields::find(&self.0, field).types(&self.0)
    }

    /// Whether they have this one, in whichever branch.
    pub fn declare(&self, field: &FieldPath) -> bool {
        fields::find(&self.0, field).exists()
    }

    /// Whether the object that a field belongs to asks for it.
    pub fn is_required(&self, field: &FieldPath) -> bool {
        fields::find(&self.0, field).required
    }

    /// What a field asks for if it is an object.
    pub fn required_within(&self, field: &FieldPath) -> Vec<&'a str> {
        fields::required(&self.0, &fields::find(&self.0, field).schemas)
    }
}

/// Makes the schema callers see, or says why there can be none.
pub fn show(wanted: &Wanted) -> Result<Shown, CannotShow> {
    let source = Document::open(wanted.source)?;
    let base = wanted.replacement.map_or_else(|| Ok(None), |schema| Document::open(schema).map(Some))?;
    let names = Names { renames: wanted.renames };
    names.check(wanted, &source)?;
    secrets_in_headers(wanted, &source)?;
    let hidden = hidden(wanted, &source, base.as_ref(), &names);
    let changes = changes(wanted, &hidden, &names);
    let mut notices = Vec::new();
    let schema = match &base {
        None => rewritten(&source, &changes, &|changes| inherited_proofs(&hidden, &names, changes))?,
        Some(own) => {
            required_but_hidden(&source, &hidden)?;
            rewritten(own, &changes, &|changes| replaced_proofs(&source, &hidden, &names, changes))?
        }
    };
    let schema = of_type_object(schema)?;
    odd_names(wanted, &source, &changes, &names, &mut notices);
    if base.is_some() {
        let shown = Document::open(&schema)?;
        incompatible_arguments(wanted, &source, &shown, &names, &mut notices);
    }
    incompatible_defaults(wanted, &source, &mut notices);
    let is_forced = |default: &&DefaultValue| hidden.iter().any(|each| default.path.is_within(each.path));
    let forced = wanted.defaults.iter().filter(is_forced).map(|default| default.path.clone()).collect();
    Ok(Shown { schema, forced, notices })
}

/// A field that callers must not see.
struct Hidden<'a> {
    path: &'a FieldPath,
    /// The gateway fills it in, or something inside it.
    supplied: bool,
}

/// What is hidden: by name, because it has a default and the tool says so, or because it has a default and is not advertised.
fn hidden<'a>(wanted: &Wanted<'a>, source: &Document, own: Option<&Document>, names: &Names) -> Vec<Hidden<'a>> {
    let unadvertised = |path: &FieldPath| match own {
        None => !fields::find(source, path).exists(),
        Some(own) => names.exposed(path.first()).is_none_or(|exposed| !fields::find(own, &path.with_first(exposed)).exists()),
    };
    let within = |default: &DefaultValue| wanted.hidden.iter().any(|path| default.path.is_within(path));
    let by_default = wanted.defaults.iter().filter(|default| !within(default) && (wanted.hide_defaulted || unadvertised(default.path)));
    let paths = wanted.hidden.iter().chain(by_default.map(|default| default.path));
    paths.map(|path| Hidden { path, supplied: wanted.defaults.iter().any(|default| default.path.is_within(path)) }).collect()
}

/// What is to happen, in the names of the schema it happens to.
fn changes<'a>(wanted: &Wanted<'a>, hidden: &[Hidden<'a>], names: &Names<'a>) -> Level<'a> {
    let mut changes = Level::default();
    let replaced = wanted.replacement.is_some();
    for rename in wanted.renames {
        if replaced {
            changes.named(&rename.exposed).description = rename.description.as_deref();
            if rename.exposed != rename.source && !names.is_exposed(&rename.source) {
                let away = changes.named(&rename.source);
                (away.gone, away.supplied) = (true, true);
            }
        } else {
            let member = changes.named(&rename.source);
            member.description = rename.description.as_deref();
            member.exposed = Some(rename.exposed.as_str()).filter(|exposed| *exposed != rename.source);
        }
    }
    let spelled = |path: &'a FieldPath| if replaced { names.exposed(path.first()) } else { Some(path.first()) };
    for field in hidden {
        let Some(first) = spelled(field.path) else { continue };
        let member = changes.member(first, field.path);
        member.gone = true;
        // The entry's own schema may ask for what it hides; what counts is what the source asks for.
        member.supplied = field.supplied || replaced;
    }
    for default in wanted.defaults {
        let Some(first) = spelled(default.path) else { continue };
        let member = changes.member(first, default.path);
        member.supplied = true;
        member.secret = default.value.is_none();
        member.default = default.value;
    }
    changes
}

/// Applies the changes, and closes more levels until it is proven that what must be gone is gone.
fn rewritten(document: &Document, changes: &Level, proofs: &dyn Fn(&Level) -> Vec<FieldPath>) -> Result<Tree, CannotShow> {
    if changes.is_empty() {
        return Ok(document.root.clone());
    }
    loop {
        let edited = hide::apply(document, changes)?.map(|edited| reference::settled(document, edited)).transpose()?;
        let shown = Document::open(edited.as_ref().unwrap_or(document.root))?;
        match unproven(&shown, proofs(changes))? {
            Some(path) if close_next(changes, &path) => {}
            Some(path) => return Err(not_proven(document, &path)),
            None => return Ok(edited.unwrap_or_else(|| document.root.clone())),
        }
    }
}

fn unproven(shown: &Document, proofs: Vec<FieldPath>) -> Result<Option<FieldPath>, CannotShow> {
    for path in proofs {
        if !prove::is_gone(shown, path.steps())? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn not_proven(document: &Document, path: &FieldPath) -> CannotShow {
    let why = if document.dialect.known {
        format!("the schema may still accept `{path}`")
    } else {
        "its `$schema` names a dialect that is not known".to_owned()
    };
    CannotShow::NotProven { place: Vec::new(), why }
}

/// Marks the innermost level around a field that is not marked yet; false, if all are.
fn close_next(changes: &Level, path: &FieldPath) -> bool {
    let steps = path.steps();
    (0..steps.len()).rev().filter_map(|end| changes.at(steps.get(..end)?)).any(|level| !level.close.replace(true))
}

/// What must be gone from an inherited schema: whatever was found in it and is hidden or renamed.
fn inherited_proofs(hidden: &[Hidden], names: &Names, changes: &Level) -> Vec<FieldPath> {
    let found = |path: &FieldPath| changes.find(path).is_some_and(|member| member.found.get());
    let fields = hidden.iter().map(|field| field.path).filter(|path| found(path));
    let fields = fields.filter_map(|path| match path.steps() {
        // A hidden name that another argument got is not gone, but it is another argument.
        [_] => (!names.is_exposed(path.first()) || names.source(path.first()) == path.first()).then(|| path.clone()),
        _ => names.exposed(path.first()).map(|exposed| path.with_first(exposed)),
    });
    let away = names.away().map(FieldPath::top).filter(|path| found(path));
    fields.chain(away).collect()
}

/// What must be gone from the entry's own schema: whatever the source has, or the schema itself had, and is hidden or renamed.
fn replaced_proofs(source: &Document, hidden: &[Hidden], names: &Names, changes: &Level) -> Vec<FieldPath> {
    let had = |path: &FieldPath| changes.find(path).is_some_and(|member| member.found.get());
    let fields = hidden.iter().filter_map(|field| {
        let exposed = field.path.with_first(names.exposed(field.path.first())?);
        (had(&exposed) || fields::find(source, field.path).exists()).then_some(exposed)
    });
    fields.chain(names.away().map(FieldPath::top)).collect()
}

/// The source's demands hold whatever the entry's own schema says.
fn required_but_hidden(source: &Document, hidden: &[Hidden]) -> Result<(), CannotShow> {
    match hidden.iter().find(|field| !field.supplied && fields::find(source, field.path).required) {
        Some(field) => Err(CannotShow::RequiredHidden { field: field.path.clone() }),
        None => Ok(()),
    }
}

/// Headers are read and logged on the way; a secret has no place there.
fn secrets_in_headers(wanted: &Wanted, source: &Document) -> Result<(), CannotShow> {
    let mut secrets = wanted.defaults.iter().filter(|default| default.value.is_none()).map(|default| default.path);
    match secrets.find(|path| fields::find(source, path).schemas.iter().any(|schema| schema.get("x-mcp-header").is_some())) {
        Some(path) => Err(CannotShow::SecretInHeader { field: path.clone() }),
        None => Ok(()),
    }
}

/// Every listing says that arguments are an object.
fn of_type_object(schema: Tree) -> Result<Tree, CannotShow> {
    match schema {
        Tree::Object(object) if object.contains_key("type") => {
            if object.get("type").and_then(Tree::as_str) == Some("object") {
                Ok(Tree::Object(object))
            } else {
                Err(CannotShow::NotAnObject)
            }
        }
        Tree::Object(object) => Ok(Tree::Object([("type".to_owned(), Tree::from("object"))].into_iter().chain(object).collect())),
        _ => Err(CannotShow::NotAnObject),
    }
}

/// Names that the registry speaks of and the source does not have.
fn odd_names(wanted: &Wanted, source: &Document, changes: &Level, names: &Names, notices: &mut Vec<Notice>) {
    for path in wanted.hidden {
        let field = fields::find(source, path);
        let first = if wanted.replacement.is_some() { names.exposed(path.first()) } else { Some(path.first()) };
        let found = first.and_then(|first| changes.find(&path.with_first(first))).is_some_and(|member| member.found.get());
        if !field.exists() && !found {
            notices.push(Notice::NothingToHide { field: path.clone(), meant: alike(path.last(), &field.names) });
        }
    }
    for Rename { exposed, source: name, .. } in wanted.renames {
        let field = fields::find(source, &FieldPath::top(name.as_str()));
        if !field.exists() {
            notices.push(Notice::NothingToRename { exposed: exposed.clone(), source: name.clone(), meant: alike(name, &field.names) });
        }
    }
}

/// What the entry's own schema promises and the source could not keep.
fn incompatible_arguments(wanted: &Wanted, source: &Document, shown: &Document, names: &Names, notices: &mut Vec<Notice>) {
    for name in fields::required_at_top(source) {
        let taken = names.exposed(name).is_some_and(|exposed| fields::find(shown, &FieldPath::top(exposed)).exists());
        if !taken && !wanted.defaults.iter().any(|default| default.path.first() == name) {
            notices.push(Notice::Unmet { field: FieldPath::top(name) });
        }
    }
    for exposed in fields::declared_at_top(shown) {
        let path = FieldPath::top(names.source(exposed));
        let theirs = fields::find(source, &path);
        if !theirs.exists() {
            // An argument that stands for nothing was named already.
            if theirs.closed && !names.is_exposed(exposed) {
                notices.push(Notice::Refused { field: path });
            }
            continue;
        }
        let ours = fields::find(shown, &FieldPath::top(exposed)).types(shown);
        if let (Some(offered), Some(taken)) = (ours, theirs.types(source))
            && !fields::overlap(&offered, &taken)
        {
            notices.push(Notice::OtherType { field: path, offered: offered.join(" or "), taken: taken.join(" or ") });
        }
    }
}

/// Values filled in that the source could not take.
fn incompatible_defaults(wanted: &Wanted, source: &Document, notices: &mut Vec<Notice>) {
    for default in wanted.defaults {
        let theirs = fields::find(source, default.path);
        if !theirs.exists() && theirs.closed {
            notices.push(Notice::Refused { field: default.path.clone() });
        }
        if let (Some(value), Some(taken)) = (default.value, theirs.types(source))
            && !fields::overlap(&[fields::type_of(value)], &taken)
        {
            let offered = fields::type_of(value).to_owned();
            notices.push(Notice::OtherType { field: default.path.clone(), offered, taken: taken.join(" or ") });
        }
    }
}

/// The name among these that was probably meant.
fn alike(name: &str, names: &[&str]) -> Option<String> {
    let scored = names.iter().map(|each| (strsim::jaro_winkler(name, each), *each)).filter(|(score, _)| *score > 0.8);
    scored.max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(one.1))).map(|(_, name)| name.to_owned())
}

/// Which argument is known by which name.
#[derive(Clone, Copy)]
struct Names<'a> {
    renames: &'a [Rename],
}

impl<'a> Names<'a> {
    /// The name callers use for an argument; none, if that name went to another argument.
    fn exposed(&self, source: &'a str) -> Option<&'a str> {
        match self.renames.iter().find(|rename| rename.source == source) {
            Some(rename) => Some(&rename.exposed),
            None => (!self.is_exposed(source)).then_some(source),
        }
    }

    /// The source's name for what callers call this.
    fn source<'n>(&self, exposed: &'n str) -> &'n str
    where
        'a: 'n,
    {
        self.renames.iter().find(|rename| rename.exposed == exposed).map_or(exposed, |rename| &rename.source)
    }

    fn is_exposed(&self, name: &str) -> bool {
        self.renames.iter().any(|rename| rename.exposed == name)
    }

    /// The names that are gone because their arguments have others.
    fn away(&self) -> impl Iterator<Item = &'a str> {
        let names = *self;
        self.renames.iter().map(|rename| rename.source.as_str()).filter(move |name| !names.is_exposed(name))
    }

    fn check(&self, wanted: &Wanted, source: &Document) -> Result<(), CannotShow> {
        for (at, rename) in self.renames.iter().enumerate() {
            if let Some(other) = self.renames.iter().take(at).find(|other| other.source == rename.source) {
                let (first, second) = (other.exposed.clone(), rename.exposed.clone());
                return Err(CannotShow::Twice { first, second, source_name: rename.source.clone() });
            }
            let name = FieldPath::top(rename.exposed.as_str());
            let free = wanted.replacement.is_some()
                || self.renames.iter().any(|other| other.source == rename.exposed)
                || wanted.hidden.contains(&name)
                || !fields::find(source, &name).exists();
            if !free {
                return Err(CannotShow::NameTaken { exposed: rename.exposed.clone(), source_name: rename.source.clone() });
            }
        }
        Ok(())
    }
}
