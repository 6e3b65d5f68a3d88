//! An output schema as meant: for each field where its value comes from and what it has to be.

use super::OnMissing;
use super::advertised::{PATH_WORDS, subschemas, token};
use super::convert::{Type, Types};
use crate::path::{BadPath, Path, Rules};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use transom_json::{Json, Tree, write};

/// References that lead to references.
const HOPS: usize = 16;

/// Something in an output schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadField {
    /// The JSON pointer from the top of the schema.
    pub pointer: String,
    /// Which bytes, if it is a part of a string.
    pub at: Option<Range<usize>>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

/// Everything that is known before a result comes.
#[derive(Clone, Debug)]
pub struct Plan {
    pub root: Field,
    shapes: Vec<Shape>,
    /// How many paths there are; each has a budget of its own.
    pub paths: usize,
}

/// A value of the projection: where it comes from, what it has to be, and what if it is missing.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    /// The name as a JSON string, and the colon.
    pub key: Box<str>,
    pub take: Take,
    pub shape: ShapeId,
    pub required: bool,
    pub on_missing: OnMissing,
}

/// Where a value comes from: the first of these that has one.
#[derive(Clone, Debug)]
pub struct Take {
    pub sources: Vec<Source>,
    /// With more than one source, `null` counts as nothing.
    pub skips_null: bool,
}

/// One place that a value may come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A path from the value of the parent, and its number in the plan.
    Path(Path, usize),
    /// The value around: members of an object that say themselves where they come from.
    Around,
    /// This JSON.
    Literal(Box<str>),
    /// A text with values in it.
    Template(Vec<Part>),
}

/// A piece of a template.
#[derive(Clone, Debug)]
pub enum Part {
    Text(String),
    Value(Take),
}

/// What a value has to be.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    pub types: Types,
    /// The members of an object. It has no others.
    pub properties: Option<Vec<Field>>,
    /// How the elements of an array are shaped.
    pub items: Option<Box<Field>>,
    /// Whether its fields can be found in an object only.
    pub needs_object: bool,
}

/// A shape by its number in the plan; schemas that refer to themselves have shapes that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeId(usize);

impl Plan {
    pub fn shape(&self, id: ShapeId) -> Option<&Shape> {
        self.shapes.get(id.0)
    }

    /// Whether only an object can be projected: all paths start with the name of a member.
    pub fn needs_object(&self) -> bool {
        needs_object(&self.root.take, self.shape(self.root.shape))
    }
}

fn needs_object(take: &Take, shape: Option<&Shape>) -> bool {
    take.sources.iter().all(|source| match source {
        Source::Around => shape.is_some_and(|shape| shape.needs_object),
        Source::Path(path, _) if path.is_root() => shape.is_some_and(|shape| shape.needs_object),
        Source::Path(path, _) => path.begins_with_name(),
        Source::Literal(_) => true,
        Source::Template(parts) => parts.iter().all(|part| match part {
            Part::Text(_) => true,
            Part::Value(take) => needs_object(take, None),
        }),
    })
}

/// Reads a schema, or names everything in it that cannot be used. `None` if it says nowhere where a value comes from.
pub fn compile(schema: &Tree, rules: &Rules, on_missing: OnMissing) -> Result<Option<Plan>, Vec<BadField>> {
    if !says_where(schema) {
        return Ok(None);
    }
    let written = path_words(schema);
    let mut compiler =
        Compiler { top: schema, rules, on_missing, shapes: Vec::new(), referred: HashMap::new(), read: HashSet::new(), paths: 0, bad: Vec::new() };
    let root = compiler.field("", schema, "", false, Path::root());
    if !compiler.shape_of(&root).is_some_and(|shape| shape.types.is_any() || shape.types.has(Type::Array) || shape.types.has(Type::Object)) {
        compiler.refuse("/type".into(), "the output of a tool is an object or an array", Some("put the value into a property of an object"));
    }
    for (pointer, word) in written {
        if !compiler.read.contains(&pointer) {
            let help = "values are taken for `properties`, for `items` and for what they refer to";
            compiler.refuse(format!("{pointer}/{word}"), &format!("`{word}` is never read here"), Some(help));
        }
    }
    let Compiler { shapes, paths, bad, .. } = compiler;
    if bad.is_empty() { Ok(Some(Plan { root, shapes, paths })) } else { Err(bad) }
}

/// Whether a schema says at any depth where a value comes from. Words that only go with others do not.
fn says_where(schema: &Tree) -> bool {
    path_words(schema).iter().any(|(_, word)| !matches!(*word, "vars" | "onMissing"))
}

/// Each path word of a schema: the pointer of the schema that has it, and the word.
fn path_words(schema: &Tree) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), schema)];
    while let Some((pointer, schema)) = open.pop() {
        found.extend(PATH_WORDS.iter().filter(|word| schema.get(word).is_some()).map(|word| (pointer.clone(), *word)));
        open.extend(subschemas(schema).into_iter().rev().map(|(below, schema)| (format!("{pointer}{below}"), schema)));
    }
    found
}

struct Compiler<'s> {
    top: &'s Tree,
    rules: &'s Rules,
    on_missing: OnMissing,
    shapes: Vec<Shape>,
    /// The shape of each schema by its pointer, so that each is read once.
    referred: HashMap<String, ShapeId>,
    /// Pointers of the schemas whose path words were read.
    read: HashSet<String>,
    paths: usize,
    bad: Vec<BadField>,
}

impl<'s> Compiler<'s> {
    /// A field with this schema. Without a path of its own it takes `otherwise`. Recursion is bounded by the depth of the schema,
    /// and by reading each schema once.
    fn field(&mut self, name: &str, schema: &'s Tree, pointer: &str, required: bool, otherwise: Path) -> Field {
        let (target, target_pointer) = self.followed(schema, pointer);
        let shape = self.shape(target, &target_pointer);
        let own = self.take(schema, pointer);
        let take = own.or_else(|| (target_pointer != pointer).then(|| self.take(target, &target_pointer)).flatten());
        let take = take.unwrap_or_else(|| {
            // An object that is put together here has no counterpart in the result: its members are looked for where it would be. Not where
            // a reference leads: that may be the value around.
            let members = target.get("properties").and_then(Tree::as_object).filter(|_| target_pointer == pointer && !otherwise.is_root());
            let made_here = members.is_some_and(|members| members.iter().any(|(_, member)| says_where(member)));
            let mut sources = vec![self.number(otherwise)];
            sources.extend(made_here.then_some(Source::Around));
            Take { sources, skips_null: false }
        });
        self.check_literals(&take, shape, pointer);
        let on_missing = self.on_missing(schema, pointer);
        Field { name: name.to_owned(), key: (write::quoted(name) + ":").into(), take, shape, required, on_missing }
    }

    /// The schema that a schema stands for: itself, or where its local references lead.
    fn followed(&mut self, schema: &'s Tree, pointer: &str) -> (&'s Tree, String) {
        let (mut schema, mut pointer) = (schema, pointer.to_owned());
        for _ in 0..HOPS {
            let Some(reference) = schema.get("$ref").and_then(Tree::as_str).and_then(|reference| reference.strip_prefix('#')) else { break };
            let Some(target) = self.top.pointer(reference) else { break };
            (schema, pointer) = (target, reference.to_owned());
        }
        (schema, pointer)
    }

    fn shape(&mut self, schema: &'s Tree, pointer: &str) -> ShapeId {
        if let Some(id) = self.referred.get(pointer) {
            return *id;
        }
        let id = ShapeId(self.shapes.len());
        self.shapes.push(Shape::default());
        self.referred.insert(pointer.to_owned(), id);

        let properties = schema.get("properties").and_then(Tree::as_object);
        let items = schema.get("items").filter(|items| items.as_object().is_some());
        let mut types = Types::read(schema.get("type")).unwrap_or_else(|| {
            let help = "one of object, array, string, number, integer, boolean, null, or a list of them";
            self.refuse(format!("{pointer}/type"), "this is no type of JSON Schema", Some(help));
            Types::default()
        });
        if types.is_any() && properties.is_some() {
            types = Types::of(Type::Object);
        } else if types.is_any() && items.is_some() {
            types = Types::of(Type::Array);
        }
        let properties = properties.map(|properties| {
            let required = self.required(schema, pointer);
            let field = |(name, property): (&str, &'s Tree)| {
                let pointer = format!("{pointer}/properties/{}", token(name));
                self.field(name, property, &pointer, required.contains(&name), Path::member(name))
            };
            properties.iter().map(field).collect::<Vec<_>>()
        });
        let items = items.map(|items| Box::new(self.field("", items, &format!("{pointer}/items"), false, Path::root())));
        let needs_object =
            properties.as_ref().is_some_and(|fields| fields.iter().all(|field| needs_object(&field.take, self.shapes.get(field.shape.0))));
        if let Some(slot) = self.shapes.get_mut(id.0) {
            *slot = Shape { types, properties, items, needs_object };
        }
        id
    }

    fn required(&mut self, schema: &'s Tree, pointer: &str) -> Vec<&'s str> {
        let names = schema.get("required").and_then(Tree::as_array).unwrap_or_default();
        let known = |name: &str| schema.get("properties").and_then(|properties| properties.get(name)).is_some();
        let names: Vec<&str> = names.iter().filter_map(Tree::as_str).collect();
        for (at, name) in names.iter().enumerate().filter(|(_, name)| !known(name)) {
            let message = format!("`{name}` is required but is none of the properties, so every result would be an error");
            self.refuse(format!("{pointer}/required/{at}"), &message, Some("give it a property, or do not require it"));
        }
        names
    }

    /// What the path words of a schema say; `None` if there are none.
    fn take(&mut self, schema: &'s Tree, pointer: &str) -> Option<Take> {
        self.read.insert(pointer.to_owned());
        let mut sources = Vec::new();
        for word in ["sourceField", "source_field"] {
            if let Some(path) = schema.get(word) {
                sources.extend(self.path(path, &format!("{pointer}/{word}")));
            }
        }
        if let Some(choices) = schema.get("coalesce") {
            let pointer = format!("{pointer}/coalesce");
            match choices.as_array() {
                Some(choices) if !choices.is_empty() => {
                    for (at, choice) in choices.iter().enumerate() {
                        sources.extend(self.choice(choice, &format!("{pointer}/{at}")).into_iter().flat_map(|take| take.sources));
                    }
                }
                _ => self.refuse(pointer, "`coalesce` is a list of paths", Some("for example [\"$.pdf\", \"$.web\"]")),
            }
        }
        if let Some(template) = schema.get("template") {
            sources.extend(self.template(template, schema.get("vars"), pointer));
        }
        if let Some(literal) = schema.get("literal") {
            sources.push(Source::Literal(literal.to_string().into()));
        }
        let several = sources.len() > 1 || schema.get("coalesce").is_some();
        let any = PATH_WORDS.iter().any(|word| !matches!(*word, "vars" | "onMissing") && schema.get(word).is_some());
        any.then_some(Take { sources, skips_null: several })
    }

    /// A path, or an object with path words.
    fn choice(&mut self, choice: &'s Tree, pointer: &str) -> Option<Take> {
        if choice.as_object().is_some()
            && let Some(take) = self.take(choice, pointer)
        {
            return Some(take);
        }
        let source = self.path(choice, pointer)?;
        Some(Take { sources: vec![source], skips_null: true })
    }

    fn path(&mut self, written: &Tree, pointer: &str) -> Option<Source> {
        let Some(text) = written.as_str() else {
            self.refuse(pointer.to_owned(), "a path is a string", Some("for example \"$.data.value\""));
            return None;
        };
        match Path::parse(text, self.rules) {
            Ok(path) => Some(self.number(path)),
            Err(BadPath { at, message, help }) => {
                self.bad.push(BadField { pointer: pointer.to_owned(), at: Some(at), message, help });
                None
            }
        }
    }

    /// `"{a} ({b})"` with a path for each name in `vars`. Doubled braces stand for themselves.
    fn template(&mut self, template: &'s Tree, vars: Option<&'s Tree>, pointer: &str) -> Option<Source> {
        let place = format!("{pointer}/template");
        let Some(text) = template.as_str() else {
            self.refuse(place, "a template is a string", Some("for example \"{author} ({year})\", with `vars`"));
            return None;
        };
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(next) = text.get(at..).and_then(|rest| rest.chars().next()) {
            let rest = text.get(at..).unwrap_or_default();
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push(next);
                at += 2;
            } else if next == '{' {
                let end = rest.find('}').map_or(text.len(), |close| at + close + 1);
                let name = text.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
                let Some(var) = vars.and_then(|vars| vars.get(name)) else {
                    let message = format!("`{{{name}}}` is none of the `vars`");
                    let help = "give its path in `vars`; a brace that stands for itself is doubled".to_owned();
                    self.bad.push(BadField { pointer: place, at: Some(at..end), message, help: Some(help) });
                    return None;
                };
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Value(self.choice(var, &format!("{pointer}/vars/{}", token(name)))?));
                at = end;
            } else {
                plain.push(next);
                at += next.len_utf8();
            }
        }
        parts.push(Part::Text(plain));
        Some(Source::Template(parts))
    }

    fn on_missing(&mut self, schema: &Tree, pointer: &str) -> OnMissing {
        match schema.get("onMissing").map(Tree::as_str) {
            None => self.on_missing,
            // In YAML the word is easily written without quotes.
            Some(None) if schema.get("onMissing") == Some(&Tree::Null) => OnMissing::Null,
            Some(Some("omit")) => OnMissing::Omit,
            Some(Some("null")) => OnMissing::Null,
            Some(Some("error")) => OnMissing::Error,
            Some(_) => {
                self.refuse(format!("{pointer}/onMissing"), "`onMissing` is one of \"null\", \"error\", \"omit\"", None);
                self.on_missing
            }
        }
    }

    /// A literal never changes, so that it has the wrong type can be said now.
    fn check_literals(&mut self, take: &Take, shape: ShapeId, pointer: &str) {
        let types = self.shapes.get(shape.0).map(|shape| shape.types.clone()).unwrap_or_default();
        let misfit = |source: &Source| matches!(source, Source::Literal(json) if types.fit(Json::trusted(json)).is_none());
        if take.sources.iter().any(misfit) {
            self.refuse(format!("{pointer}/literal"), "the literal is not of the declared type", Some("change the literal or the `type`"));
        }
    }

    fn number(&mut self, path: Path) -> Source {
        self.paths += 1;
        Source::Path(path, self.paths - 1)
    }

    fn shape_of(&self, field: &Field) -> Option<&Shape> {
        self.shapes.get(field.shape.0)
    }

    fn refuse(&mut self, pointer: String, message: &str, help: Option<&str>) {
        self.bad.push(BadField { pointer, at: None, message: message.to_owned(), help: help.map(str::to_owned) });
    }
}
