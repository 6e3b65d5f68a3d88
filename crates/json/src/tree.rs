//! A tree for JSON that must be changed: schemas, documents, arguments. It keeps what text keeps, so that what is not
//! changed is written as it was read, white space aside.

use crate::text::{Json, Kind, first_string, first_value, past_gap};
use crate::write;
use std::collections::HashMap;
use std::fmt;

/// A JSON value of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it was spelled.
    Number(Box<str>),
    /// A string after unescaping.
    String(String),
    /// `[…]`
    Array(Vec<Tree>),
    /// `{…}`
    Object(Object),
}

/// The members of an object, in order. A key stands once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Tree)>);

impl From<Json<'_>> for Tree {
    /// Reads checked text; its depth is bounded by the check.
    fn from(json: Json<'_>) -> Tree {
        read(json.raw()).map_or(Tree::Null, |(tree, _)| tree)
    }
}

/// The first value of a checked text, and what follows it. Each byte is read once: who looks for the end of a container first, and then into it,
/// reads what is deepest most often.
fn read(text: &str) -> Option<(Tree, &str)> {
    let text = past_gap(text);
    match text.as_bytes().first()? {
        b'{' => {
            let mut members = Members::default();
            let mut rest = text.get(1..)?;
            loop {
                rest = past_gap(rest);
                if let Some(rest) = rest.strip_prefix('}') {
                    return Some((Tree::Object(members.object), rest));
                }
                let (key, after) = first_string(rest)?;
                let (value, after) = read(past_gap(after).strip_prefix(':')?)?;
                members.add(key.into_owned(), value);
                rest = after;
            }
        }
        b'[' => {
            let mut elements = Vec::new();
            let mut rest = text.get(1..)?;
            loop {
                rest = past_gap(rest);
                if let Some(rest) = rest.strip_prefix(']') {
                    return Some((Tree::Array(elements), rest));
                }
                let (value, after) = read(rest)?;
                elements.push(value);
                rest = after;
            }
        }
        b'"' => first_string(text).map(|(string, rest)| (Tree::String(string.into_owned()), rest)),
        _ => {
            let (raw, rest) = first_value(text).filter(|(raw, _)| !raw.is_empty())?;
            let tree = match Json::trusted(raw).kind() {
                Kind::Number => Tree::Number(raw.into()),
                Kind::Bool => Tree::Bool(raw == "true"),
                _ => Tree::Null,
            };
            Some((tree, rest))
        }
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Tree {
        Tree::String(text.to_owned())
    }
}

impl From<bool> for Tree {
    fn from(value: bool) -> Tree {
        Tree::Bool(value)
    }
}

impl Tree {
    /// An empty object.
    pub fn object() -> Tree {
        Tree::Object(Object::default())
    }

    /// A member of an object.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.as_object()?.get(key)
    }

    /// The value a JSON pointer (RFC 6901) leads to.
    pub fn pointer(&self, pointer: &str) -> Option<&Tree> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |tree, step| match tree {
            Tree::Object(members) => members.get(&step.replace("~1", "/").replace("~0", "~")),
            Tree::Array(elements) => elements.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Tree::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The members, if it is an object, to be changed.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Tree::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn as_array(&self) -> Option<&[Tree]> {
        match self {
            Tree::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Tree::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth, if it is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Tree::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// It as compact JSON.
    pub fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(256);
        self.write(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Writes it compactly.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Tree::Null => out.extend_from_slice(b"null"),
            Tree::Bool(true) => out.extend_from_slice(b"true"),
            Tree::Bool(false) => out.extend_from_slice(b"false"),
            Tree::Number(spelling) => out.extend_from_slice(spelling.as_bytes()),
            Tree::String(text) => write::string(out, text),
            Tree::Array(elements) => {
                out.push(b'[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
            Tree::Object(members) => {
                out.push(b'{');
                for (at, (key, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write::string(out, key);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

impl fmt::Display for Tree {
    /// Compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl Object {
    /// A member.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// A member, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Tree> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Whether there is such a member.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a member: in its place if it is there, else at the end.
    pub fn insert(&mut self, key: impl Into<String>, value: Tree) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(place) => *place = value,
            None => self.0.push((key, value)),
        }
    }

    /// Takes a member out; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Tree> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// Keeps the members for which this is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Tree) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }

    /// The members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tree)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The members, in order, with values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Tree)> {
        self.0.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// The values, in order.
    pub fn values(&self) -> impl Iterator<Item = &Tree> {
        self.0.iter().map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Tree)> for Object {
    /// Of equal keys the last wins, in the place of the first.
    fn from_iter<I: IntoIterator<Item = (String, Tree)>>(members: I) -> Object {
        let members = members.into_iter();
        let mut all = Members { object: Object(Vec::with_capacity(members.size_hint().0)), ..Members::default() };
        members.for_each(|(key, value)| all.add(key, value));
        all.object
    }
}

/// An object on its way.
#[derive(Default)]
struct Members {
    object: Object,
    /// Where each key stands, once there are many.
    places: HashMap<String, usize>,
}

impl Members {
    /// Of equal keys the last wins, in the place of the first.
    fn add(&mut self, key: String, value: Tree) {
        let Members { object: Object(members), places } = self;
        // Small objects are searched; large ones are looked up, so that reading stays linear.
        let place = if members.len() < FEW {
            members.iter().position(|(name, _)| *name == key)
        } else {
            if places.is_empty() {
                places.extend(members.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)));
            }
            places.get(&key).copied()
        };
        match place.and_then(|at| members.get_mut(at)) {
            Some((_, place)) => *place = value,
            None => {
                if !places.is_empty() {
                    places.insert(key.clone(), members.len());
                }
                members.push((key, value));
            }
        }
    }
}

/// An object with fewer members is small.
const FEW: usize = 16;

impl IntoIterator for Object {
    type Item = (String, Tree);
    type IntoIter = std::vec::IntoIter<(String, Tree)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, check};

    fn tree(text: &str) -> Tree {
        Tree::from(check(text.as_bytes(), &Limits::REPLY).unwrap())
    }

    #[test]
    fn what_is_not_changed_is_written_as_it_was_read() {
        for text in
            [r#"{"b":1.0,"a":[1e400,-0,18446744073709551616,1E+2],"s":"\n\"é","t":true,"n":null,"o":{}}"#, "[]", "\"x\"", r#"{"":{"":[[],{}]}}"#]
        {
            assert_eq!(tree(text).to_string(), text);
        }
        assert_eq!(tree(" [ 1 , { \"a\" : 2 } ] ").to_string(), r#"[1,{"a":2}]"#);
    }

    #[test]
    fn of_equal_keys_the_last_wins_however_many_there_are() {
        assert_eq!(tree(r#"{"a":1,"b":2,"a":3}"#).to_string(), r#"{"a":3,"b":2}"#);
        let many: String = (0..100).map(|n| format!("\"k{}\":{n},", n % 50)).collect();
        let read = tree(&format!("{{{}}}", many.trim_end_matches(',')));
        assert_eq!(read.as_object().unwrap().len(), 50);
        assert_eq!(read.get("k7"), Some(&Tree::Number("57".into())));
    }

    #[test]
    fn pointers_lead_through_objects_and_arrays() {
        let tree = tree(r#"{"a/b":[{"~":5}]}"#);
        assert_eq!(tree.pointer("/a~1b/0/~0").map(Tree::to_string).as_deref(), Some("5"));
        assert_eq!(tree.pointer("/a~1b/1"), None);
        assert_eq!(tree.pointer("x"), None);
    }
}
