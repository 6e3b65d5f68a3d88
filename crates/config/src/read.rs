//! From a tree to the types of a file, noting every mistake on the way instead of stopping at the first.
//!
//! The types say what may be written; this room adds how mistakes are told: unknown keys with a suggestion, wrong types in the
//! words of a person. What values mean is left to [`meant`](crate::meant).

use crate::problem::{Problem, Problems, did_you_mean};
use crate::shape::{ANYTHING, ONE_OR_MANY, TEXT_OR_MAP};
use crate::tree::{Node, Value};
use crate::written::{Place, WRITTEN};
use serde::de::value::{StrDeserializer, UsizeDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use std::cell::RefCell;
use std::fmt;

/// Keys that people try and that are refused for a reason: the section, the key, what is wrong with it, what to do.
const REFUSED: &[(&str, &str, &str, &str)] = &[(
    "ApiKey",
    "key",
    "an API key does not stand in a config, only its hash does",
    "write `hash: sha256:…` with what `printf %s KEY | sha256sum` prints, and give the key to its owner",
)];

/// Keys for which "nothing" could be read as the opposite of what their author means: the section, the key, what to do.
const NEVER_EMPTY: &[(&str, &str, &str)] = &[
    ("Policies", "authentication", "remove it to let everybody in, or say who may come in: `jwt` or `apiKeys`"),
    ("Policies", "authorization", "remove it to allow everything, or write `rules: […]`; `rules: []` allows nothing"),
    ("Authorization", "rules", "write `[]` to allow nothing, or remove `authorization` to allow everything"),
    ("RegistryEnvironment", "allow", "write `[]` to let registries read nothing, or remove `env` to let them read every variable"),
    ("ToolDefaults", "onMissing", "write `\"null\"` in quotes to get `null` for fields without a value"),
];

/// Types of other programs' files: what they have beyond ours is pointed out, not refused.
const FOREIGN: &[&str] = &["McpServers", "Server"];

/// Reads a tree into one of the types of [`file`](crate::file) or [`mcp_servers`](crate::mcp_servers).
pub fn read<'a, T: Deserialize<'a>>(tree: &'a Node, problems: &'a RefCell<Problems>) -> Option<T> {
    T::deserialize(Reader { node: tree, key: None, problems }).ok()
}

/// A deserializer over a node. Whatever error it returns, it has noted before.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    node: &'a Node,
    key: Option<&'a Node>,
    problems: &'a RefCell<Problems>,
}

/// "This cannot be read, and the problem is noted."
#[derive(Debug)]
pub(crate) struct Noted(Option<String>);

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("see the problems noted"))
    }
}

impl std::error::Error for Noted {}

impl serde::de::Error for Noted {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Noted(Some(message.to_string()))
    }
}

impl<'a> Reader<'a> {
    fn note(&self, problem: Problem) -> Noted {
        self.problems.borrow_mut().add(problem);
        Noted(None)
    }

    /// Makes sure that an error of a visitor is noted too.
    fn checked<T>(&self, result: Result<T, Noted>) -> Result<T, Noted> {
        result.map_err(|error| match error.0 {
            Some(message) => self.note(Problem::error(self.place(), message)),
            None => error,
        })
    }

    fn wrong(&self, expected: &str) -> Noted {
        self.wrong_but(expected, None)
    }

    fn wrong_but(&self, expected: &str, help: Option<String>) -> Noted {
        let found = self.node.kind();
        let message = match self.key.and_then(Node::spelling) {
            Some(key) => format!("`{key}` must be {expected}"),
            None => format!("this must be {expected}"),
        };
        let mut problem = Problem::error(self.place(), message).label(format!("this is {found}"));
        problem.help = help.or_else(|| self.advice(expected));
        self.note(problem)
    }

    /// What the author of a wrong type most likely has to change.
    fn advice(&self, expected: &str) -> Option<String> {
        Some(match (expected, &self.node.value) {
            ("a list", Value::Map(_)) => "begin each item of the list with `- `".into(),
            ("a list", _) => format!("write `[{}]`", self.node.spelling()?),
            ("true or false", Value::Text(text)) if matches!(text.to_lowercase().as_str(), "yes" | "on" | "true") => "write `true`".into(),
            ("true or false", Value::Text(text)) if matches!(text.to_lowercase().as_str(), "no" | "off" | "false") => "write `false`".into(),
            _ => return None,
        })
    }

    fn place(&self) -> Place {
        self.node.underlined(self.key)
    }

    fn with(&self, node: &'a Node, key: Option<&'a Node>) -> Reader<'a> {
        Reader { node, key, problems: self.problems }
    }

    /// Notes a key that must not be left empty and is.
    fn check_filled(&self, owner: &str, key: &Node, value: &Node) {
        let name = key.spelling().unwrap_or_default();
        let rule = NEVER_EMPTY.iter().find(|(section, key, _)| *section == owner && *key == name);
        if let (Some((.., help)), Value::Null) = (rule, &value.value) {
            self.note(Problem::error(key.place, format!("`{name}` has no value")).help(*help));
        }
    }

    /// Notes a key that the struct does not have.
    fn unknown_key(&self, owner: &str, key: &Node, fields: &[&str]) {
        let name = key.spelling().unwrap_or_default();
        let refused = REFUSED.iter().find(|(section, key, ..)| *section == owner && *key == name);
        let problem = if let Some((_, _, why, help)) = refused {
            Problem::error(key.place, *why).label("in plain text").help(*help)
        } else if FOREIGN.contains(&owner) {
            Problem::warning(key.place, format!("`{name}` has no effect here"))
                .label("ignored")
                .help(format!("of a file with `mcpServers`, these keys are read: {}", fields.join(", ")))
        } else {
            let known = format!("known keys here: {}", fields.join(", "));
            let help = match did_you_mean(name, fields.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`? {known}"),
                None => known,
            };
            Problem::error(key.place, format!("unknown key `{name}`")).label("not a key of this section").help(help)
        };
        self.note(problem);
    }
}

/// Keys that belong to people and editors, in every map of ours.
fn is_comment(key: &str) -> bool {
    key.starts_with("$comment") || key.starts_with("x-") || key == "$schema"
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Noted;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        let result = match self.node.spelling() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_unit(),
        };
        self.checked(result)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        match self.node.spelling() {
            Some(text) => self.checked(visitor.visit_borrowed_str(text)),
            None => Err(self.wrong("text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        match self.node.value {
            Value::Boolean(value) => self.checked(visitor.visit_bool(value)),
            _ => Err(self.wrong("true or false")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, variants: &'static [&'static str], visitor: V) -> Result<V::Value, Noted> {
        let Some(text) = self.node.spelling() else { return Err(self.wrong(&format!("one of {}", variants.join(", ")))) };
        if variants.contains(&text) {
            let variant: StrDeserializer<'_, Noted> = text.into_deserializer();
            return self.checked(visitor.visit_enum(variant));
        }
        let key = self.key.and_then(Node::spelling).unwrap_or("this");
        let choices = variants.join(", ");
        let help = did_you_mean(text, variants.iter().copied())
            .map_or(format!("write one of: {choices}"), |meant| format!("did you mean `{meant}`? it can be: {choices}"));
        Err(self.note(Problem::error(self.place(), format!("`{key}` cannot be `{text}`")).label("not one of its values").help(help)))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Noted> {
        if name == WRITTEN {
            let place = self.place();
            return visitor.visit_seq(PlaceAndValue { place: [place.source, place.start, place.length].into_iter(), value: Some(self) });
        }
        match (name, &self.node.value) {
            (TEXT_OR_MAP, Value::Boolean(_) | Value::Number(_) | Value::Text(_)) => self.deserialize_str(visitor),
            (TEXT_OR_MAP, Value::List(_)) => Err(self.wrong("text or a map")),
            (ONE_OR_MANY, Value::List(_)) => self.deserialize_seq(visitor),
            (ANYTHING, value) => self.checked(match value {
                Value::Null => visitor.visit_unit(),
                Value::Boolean(value) => visitor.visit_bool(*value),
                Value::Number(spelled) => visitor.visit_borrowed_bytes(spelled.as_bytes()),
                Value::Text(text) => visitor.visit_borrowed_str(text),
                Value::List(items) => visitor.visit_seq(Items { reader: self, items: items.iter() }),
                Value::Map(entries) => {
                    visitor.visit_map(Pairs { reader: self, entries: entries.iter().collect::<Vec<_>>().into_iter(), value: None })
                }
            }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        let Value::List(items) = &self.node.value else { return Err(self.wrong("a list")) };
        for item in items.iter().filter(|item| matches!(item.value, Value::Null)) {
            self.note(Problem::error(item.place, "this item is empty").help("remove it, or write `\"\"` for an empty text"));
        }
        self.checked(visitor.visit_seq(Items { reader: self, items: items.iter() }))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        let Value::Map(entries) = &self.node.value else { return Err(self.wrong("a map")) };
        for (key, _) in entries.iter().filter(|(_, value)| matches!(value.value, Value::Null)) {
            let name = key.spelling().unwrap_or_default();
            self.note(Problem::error(key.place, format!("`{name}` has no value")).help("remove it, or write `\"\"` for an empty text"));
        }
        self.checked(visitor.visit_map(Pairs { reader: self, entries: entries.iter().collect::<Vec<_>>().into_iter(), value: None }))
    }

    fn deserialize_struct<V: Visitor<'de>>(self, name: &'static str, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Noted> {
        let Value::Map(entries) = &self.node.value else { return Err(self.wrong_but("a map", Some(format!("its keys are: {}", fields.join(", "))))) };
        let mut known = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = entry.0.spelling().unwrap_or_default();
            if fields.contains(&key) {
                self.check_filled(name, &entry.0, &entry.1);
                known.push(entry);
            } else if !is_comment(key) {
                self.unknown_key(name, &entry.0, fields);
            }
        }
        self.checked(visitor.visit_map(Pairs { reader: self, entries: known.into_iter(), value: None }))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Noted> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

/// What [`Written`](crate::written::Written) asks for: three numbers, then the value.
struct PlaceAndValue<'a> {
    place: std::array::IntoIter<usize, 3>,
    value: Option<Reader<'a>>,
}

impl<'de> SeqAccess<'de> for PlaceAndValue<'de> {
    type Error = Noted;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Noted> {
        if let Some(number) = self.place.next() {
            let number: UsizeDeserializer<Noted> = number.into_deserializer();
            return seed.deserialize(number).map(Some);
        }
        self.value.take().map(|reader| seed.deserialize(reader)).transpose()
    }
}

struct Items<'a> {
    reader: Reader<'a>,
    items: std::slice::Iter<'a, Node>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Noted;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Noted> {
        self.items.next().map(|item| seed.deserialize(self.reader.with(item, None))).transpose()
    }
}

struct Pairs<'a> {
    reader: Reader<'a>,
    entries: std::vec::IntoIter<&'a (Node, Node)>,
    value: Option<&'a (Node, Node)>,
}

impl<'de> MapAccess<'de> for Pairs<'de> {
    type Error = Noted;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Noted> {
        self.value = self.entries.next();
        self.value.map(|(key, _)| seed.deserialize(self.reader.with(key, None))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Noted> {
        match self.value.take() {
            Some((key, value)) => seed.deserialize(self.reader.with(value, Some(key))),
            None => Err(serde::de::Error::custom("a value was asked for before its key")),
        }
    }
}
