//! What a JSON Schema says, as TypeScript declarations.
//!
//! Bounded: a schema beyond the depth, the number of its parts or the amount of its text is `unknown` from there on, which is
//! always true. A part that is referred to is a declaration of its own, made once, so nothing grows by being referred to.

use super::names::{Taken, pascal};
use super::text::literal;
use super::types::{Member, NEVER, NULL, Shape, Type, UNKNOWN, WIDEST_DECLARED, intersection, union};
use std::collections::{HashMap, HashSet};
use transom_json::{Object, Tree};

/// Schemas inside one another, in one declaration.
const DEEPEST: usize = 24;
/// Schemas inside one another over all declarations that are being made; those beyond are made afterwards.
const STACK: usize = 48;
/// What one schema may cost: its text, and so much for each of its parts.
const BUDGET: usize = 256 << 10;
const PART: usize = 32;
/// Values of an `enum`; of more only the kind is said.
const VALUES: usize = 500;
/// Elements of a tuple, members of a literal object; of more nothing is said.
const ELEMENTS: usize = 64;
/// Bytes of a string that is a type.
const LONGEST_LITERAL: usize = 500;

/// A declared type.
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// What is said of it.
    pub about: String,
    /// What it is.
    pub kind: Type,
}

/// The declarations of a schema; the first is the schema's own and is called `name`, the others what it refers to.
pub fn declarations(schema: Option<&Tree>, name: &str, taken: &mut Taken) -> Vec<Declaration> {
    let Some(root) = schema else { return vec![Declaration { name: name.to_owned(), about: String::new(), kind: UNKNOWN }] };
    let mut reader = Reader {
        root,
        stem: name,
        taken,
        places: HashMap::from([(String::new(), 0)]),
        made: vec![Made { name: name.to_owned(), schema: root, kind: None, needs: HashSet::new() }],
        waiting: Vec::new(),
        making: 0,
        inside: 0,
        stack: 0,
        budget: BUDGET,
    };
    reader.make(0);
    while let Some(at) = reader.waiting.pop() {
        reader.make(at);
    }
    let declared = |made: Made<'_>| Declaration { name: made.name, about: about(made.schema), kind: made.kind.unwrap_or(UNKNOWN) };
    reader.made.into_iter().map(declared).collect()
}

/// Whether nothing must be there for this schema to accept an empty object. Where that is hard to say, something must.
pub fn wants_nothing(schema: Option<&Tree>) -> bool {
    fn accepts(schema: &Tree, root: &Tree, steps: &mut usize) -> bool {
        *steps += 1;
        if *steps > 100 {
            return false;
        }
        let Tree::Object(object) = schema else { return *schema != Tree::Bool(false) };
        let each = |key: &str| object.get(key).and_then(Tree::as_array).unwrap_or_default();
        let refers = object.get("$ref").and_then(Tree::as_str);
        each("required").is_empty()
            && !["const", "enum", "minProperties", "not"].iter().any(|key| object.contains_key(key))
            && each("allOf").iter().all(|part| accepts(part, root, steps))
            && ["anyOf", "oneOf"].iter().all(|key| each(key).is_empty() || each(key).iter().any(|part| accepts(part, root, steps)))
            && refers.is_none_or(|to| place(root, to).is_some_and(|(_, part)| accepts(part, root, steps)))
    }
    schema.is_none_or(|schema| accepts(schema, schema, &mut 0))
}

fn about(schema: &Tree) -> String {
    schema.get("description").and_then(Tree::as_str).unwrap_or_default().to_owned()
}

/// Where a reference inside a schema points: the path to it, and what is there.
fn place<'s>(root: &'s Tree, reference: &str) -> Option<(String, &'s Tree)> {
    const LONGEST: usize = 500;
    let own = root.get("$id").and_then(Tree::as_str).filter(|id| !id.is_empty());
    let fragment = reference.strip_prefix('#').or_else(|| reference.strip_prefix(own?)?.strip_prefix('#'));
    // A schema may also be referred to by its own identifier alone.
    let fragment = fragment.or_else(|| (own == Some(reference)).then_some(""))?;
    let path = unescaped(fragment);
    if path.len() > LONGEST {
        return None;
    }
    if path.is_empty() || path.starts_with('/') {
        let found = root.pointer(&path)?;
        return Some((path, found));
    }
    let found = anchor(root, &path, &mut 0)?;
    // No path has such a beginning.
    Some((format!("#{path}"), found))
}

/// `%25` in a fragment is a percent sign.
fn unescaped(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code =
            (first == b'%').then(|| after.get(..2)).flatten().and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { after.get(2..).unwrap_or(&[]) } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn anchor<'s>(schema: &'s Tree, name: &str, steps: &mut usize) -> Option<&'s Tree> {
    *steps += 1;
    if *steps > 10_000 {
        return None;
    }
    match schema {
        Tree::Object(object) => {
            let is_it = ["$anchor", "$dynamicAnchor"].iter().any(|key| object.get(key).and_then(Tree::as_str) == Some(name));
            if is_it { Some(schema) } else { object.values().find_map(|part| anchor(part, name, steps)) }
        }
        Tree::Array(parts) => parts.iter().find_map(|part| anchor(part, name, steps)),
        _ => None,
    }
}

/// A declaration, done or being made.
struct Made<'s> {
    name: String,
    schema: &'s Tree,
    kind: Option<Type>,
    /// Declarations that must be known before this one is: it is a union with them or the like. Members of objects and
    /// elements of arrays are looked at later, so only these must not go in a circle.
    needs: HashSet<usize>,
}

struct Reader<'s, 'n> {
    root: &'s Tree,
    stem: &'n str,
    taken: &'n mut Taken,
    /// Declarations by the path to their schema.
    places: HashMap<String, usize>,
    made: Vec<Made<'s>>,
    waiting: Vec<usize>,
    /// The one that is being made, how many objects and arrays of it we are inside of, and of how many schemas in all.
    making: usize,
    inside: usize,
    stack: usize,
    budget: usize,
}

impl<'s> Reader<'s, '_> {
    fn make(&mut self, at: usize) {
        let Some(schema) = self.made.get(at).map(|made| made.schema) else { return };
        let before = (std::mem::replace(&mut self.making, at), std::mem::take(&mut self.inside));
        let kind = self.read(schema, 0);
        (self.making, self.inside) = before;
        if let Some(made) = self.made.get_mut(at) {
            made.kind = Some(if kind.width() > WIDEST_DECLARED { UNKNOWN } else { kind });
        }
    }

    /// Pays for a part; `false` if there is nothing left.
    fn spend(&mut self, text: usize) -> bool {
        let left = self.budget.checked_sub(PART + text);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    fn read(&mut self, schema: &'s Tree, depth: usize) -> Type {
        let object = match schema {
            Tree::Bool(false) => return NEVER,
            Tree::Object(object) => object,
            _ => return UNKNOWN,
        };
        if depth >= DEEPEST || !self.spend(0) {
            return UNKNOWN;
        }
        self.stack += 1;
        let kind = self.read_object(object, depth);
        self.stack -= 1;
        kind
    }

    fn read_object(&mut self, object: &'s Object, depth: usize) -> Type {
        match object.get("not") {
            Some(Tree::Bool(true)) => return NEVER,
            Some(Tree::Object(nothing)) if nothing.is_empty() => return NEVER,
            _ => {}
        }
        let each = |key: &str| object.get(key).and_then(Tree::as_array).unwrap_or_default();
        let mut parts = Vec::new();
        for key in ["$ref", "$dynamicRef"] {
            if let Some(to) = object.get(key).and_then(Tree::as_str) {
                parts.push(self.refer(to));
            }
        }
        for part in each("allOf") {
            parts.push(self.read(part, depth + 1));
        }
        for key in ["anyOf", "oneOf"] {
            if !each(key).is_empty() {
                let choices: Vec<Type> = each(key).iter().map(|choice| self.read(choice, depth + 1)).collect();
                parts.push(union(choices));
            }
        }
        // `type: object` beside branches that say which one says nothing more.
        let plain = parts.iter().all(|part| *part == UNKNOWN) || has_shape(object) || object.get("type").and_then(Tree::as_str) != Some("object");
        if plain {
            let own = self.read_own(object, depth);
            parts.insert(0, own);
        }
        let kind = intersection(parts);
        if object.get("nullable") == Some(&Tree::Bool(true)) { union([kind, NULL]) } else { kind }
    }

    /// What the schema says without its branches.
    fn read_own(&mut self, object: &'s Object, depth: usize) -> Type {
        if let Some(value) = object.get("const") {
            return self.value(value, depth);
        }
        if let Some(values) = object.get("enum").and_then(Tree::as_array) {
            if values.len() > VALUES {
                return union(values.iter().map(kind_of));
            }
            let values: Vec<Type> = values.iter().map(|value| self.value(value, depth)).collect();
            return union(values);
        }
        match object.get("type") {
            Some(Tree::String(kind)) => self.kind(kind, object, depth),
            Some(Tree::Array(kinds)) if !kinds.is_empty() => {
                let kinds: Vec<Type> = kinds.iter().take(ELEMENTS).map(|kind| self.kind(kind.as_str().unwrap_or_default(), object, depth)).collect();
                union(kinds)
            }
            _ if has_shape(object) => self.object(object, depth),
            _ if ["items", "prefixItems"].iter().any(|key| object.contains_key(key)) => self.array(object, depth),
            _ => UNKNOWN,
        }
    }

    fn kind(&mut self, kind: &str, object: &'s Object, depth: usize) -> Type {
        match kind {
            "string" => Type::Word("string"),
            "number" | "integer" => Type::Word("number"),
            "boolean" => Type::Word("boolean"),
            "null" => NULL,
            "object" => self.object(object, depth),
            "array" => self.array(object, depth),
            _ => UNKNOWN,
        }
    }

    fn object(&mut self, object: &'s Object, depth: usize) -> Type {
        self.inside += 1;
        let shape = self.shape(object, depth);
        self.inside -= 1;
        Type::Object(shape)
    }

    fn shape(&mut self, object: &'s Object, depth: usize) -> Shape {
        let parts = |key: &str| object.get(key).and_then(Tree::as_object);
        let required: Vec<&str> = object.get("required").and_then(Tree::as_array).unwrap_or_default().iter().filter_map(Tree::as_str).collect();
        let wanted: HashSet<&str> = required.iter().copied().collect();
        let properties = parts("properties");
        let mut members: Vec<Member> = Vec::new();
        let mut cut = false;
        for (name, schema) in properties.into_iter().flat_map(Object::iter) {
            let about = about(schema);
            if !self.spend(name.len() + about.len()) {
                cut = true;
                break;
            }
            let kind = self.read(schema, depth + 1);
            members.push(Member { name: name.to_owned(), optional: !wanted.contains(name), about, kind });
        }
        let mut named: HashSet<&str> = properties.into_iter().flat_map(Object::keys).collect();
        for name in required {
            if named.insert(name) {
                if !self.spend(name.len()) {
                    cut = true;
                    break;
                }
                members.push(Member { name: name.to_owned(), optional: false, about: String::new(), kind: UNKNOWN });
            }
        }
        if cut {
            return Shape::new(members, Some(UNKNOWN));
        }
        let mut others: Vec<Type> = Vec::new();
        for schema in parts("patternProperties").into_iter().flat_map(Object::values) {
            others.push(self.read(schema, depth + 1));
        }
        let more = object.get("additionalProperties");
        if let Some(schema) = more {
            others.push(self.read(schema, depth + 1));
        }
        let others = if others.is_empty() { None } else { Some(union(others)) };
        let others = match others {
            // What is not mentioned may be there, but a type that says so helps nobody to find a misspelled name.
            None if members.is_empty() => Some(UNKNOWN),
            Some(NEVER) if !members.is_empty() => None,
            others => others,
        };
        Shape::new(members, others)
    }

    fn array(&mut self, object: &'s Object, depth: usize) -> Type {
        self.inside += 1;
        let kind = self.elements(object, depth);
        self.inside -= 1;
        kind
    }

    fn elements(&mut self, object: &'s Object, depth: usize) -> Type {
        // Before 2020-12 the first elements stood in `items`, and the others in `additionalItems`.
        let (first, others) = match (object.get("prefixItems"), object.get("items")) {
            (Some(Tree::Array(first)), others) => (first.as_slice(), others),
            (_, Some(Tree::Array(first))) => (first.as_slice(), object.get("additionalItems")),
            (_, others) => (&[][..], others),
        };
        let count = |key: &str| match object.get(key) {
            Some(Tree::Number(number)) => number.parse::<usize>().ok(),
            _ => None,
        };
        if first.len() > ELEMENTS {
            return Type::Array(Box::new(UNKNOWN));
        }
        let rest = others.map_or(UNKNOWN, |others| self.read(others, depth + 1));
        if first.is_empty() {
            return if rest == NEVER { Type::Tuple(Vec::new(), 0, None) } else { Type::Array(Box::new(rest)) };
        }
        let most = count("maxItems").unwrap_or(usize::MAX);
        let items: Vec<Type> = first.iter().take(most).map(|item| self.read(item, depth + 1)).collect();
        let certain = count("minItems").unwrap_or(0).min(items.len());
        let rest = (rest != NEVER && most > items.len()).then(|| Box::new(rest));
        Type::Tuple(items, certain, rest)
    }

    /// A value as the type that has only this value.
    fn value(&mut self, value: &Tree, depth: usize) -> Type {
        let text = if let Tree::String(text) = value { text.len() } else { 0 };
        if depth >= DEEPEST || text > LONGEST_LITERAL || !self.spend(text) {
            return kind_of(value);
        }
        match value {
            Tree::Bool(is) => Type::Literal(is.to_string()),
            Tree::Number(number) if number.len() < ELEMENTS && number.parse::<f64>().is_ok_and(f64::is_finite) => Type::Literal(number.to_string()),
            Tree::String(text) => Type::Literal(literal(text)),
            Tree::Array(items) if items.len() <= ELEMENTS => {
                let items: Vec<Type> = items.iter().map(|item| self.value(item, depth + 1)).collect();
                let certain = items.len();
                Type::Tuple(items, certain, None)
            }
            Tree::Object(members) if members.len() <= ELEMENTS && members.keys().all(|name| name.len() <= LONGEST_LITERAL) => {
                let named = |(name, value): (&str, &Tree)| Member {
                    name: name.to_owned(),
                    optional: false,
                    about: String::new(),
                    kind: self.value(value, depth + 1),
                };
                Type::Object(Shape { members: members.iter().map(named).collect(), index: None })
            }
            other => kind_of(other),
        }
    }

    fn refer(&mut self, to: &str) -> Type {
        let Some((path, schema)) = place(self.root, to) else { return UNKNOWN };
        let at = match self.places.get(&path) {
            Some(at) => *at,
            None => {
                if !self.spend(path.len()) {
                    return UNKNOWN;
                }
                let at = self.made.len();
                let last = path.rsplit('/').next().and_then(pascal).unwrap_or_else(|| "Type".to_owned());
                let stem = format!("{}{last}", self.stem);
                let ending = self.taken.free(&stem, &[""]);
                self.made.push(Made { name: format!("{stem}{ending}"), schema, kind: None, needs: HashSet::new() });
                self.places.insert(path, at);
                if self.stack < STACK {
                    self.make(at)
                } else {
                    self.waiting.push(at)
                }
                at
            }
        };
        if self.inside == 0 && !self.may_need(at) {
            return UNKNOWN;
        }
        let Some(made) = self.made.get(at) else { return UNKNOWN };
        // One that is being made may turn out as wide as any.
        Type::Name(made.name.clone(), made.kind.as_ref().map_or(WIDEST_DECLARED, Type::width))
    }

    /// Notes that the declaration that is being made needs another one, if that does not need it in turn.
    fn may_need(&mut self, at: usize) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![at];
        while let Some(at) = next.pop() {
            if at == self.making {
                return false;
            }
            if seen.insert(at) {
                next.extend(self.made.get(at).into_iter().flat_map(|made| &made.needs));
            }
        }
        if let Some(made) = self.made.get_mut(self.making) {
            made.needs.insert(at);
        }
        true
    }
}

fn has_shape(object: &Object) -> bool {
    ["properties", "required", "patternProperties", "additionalProperties"].iter().any(|key| object.contains_key(key))
}

/// What kind of value this is.
fn kind_of(value: &Tree) -> Type {
    match value {
        Tree::Null => NULL,
        Tree::Bool(_) => Type::Word("boolean"),
        Tree::Number(_) => Type::Word("number"),
        Tree::String(_) => Type::Word("string"),
        Tree::Array(_) => Type::Array(Box::new(UNKNOWN)),
        Tree::Object(_) => Type::Object(Shape { members: Vec::new(), index: Some(Box::new(UNKNOWN)) }),
    }
}
