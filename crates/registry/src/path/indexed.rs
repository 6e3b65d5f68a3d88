//! A JSON text with the place of every value in it.
//!
//! One strict pass over the text: it checks the grammar and notes where each value begins and ends, so that a path can step
//! over what it does not want, and what it does want can be copied as it was written. Nothing is unescaped or converted.

use std::borrow::Cow;
use transom_json::{Json, Kind};

/// Containers inside one another, as everywhere in this program.
const DEPTH: usize = 64;
/// Values in all, as for any reply.
const NODES: usize = 1_000_000;

/// Text and the places of its values.
pub struct Indexed<'t> {
    text: &'t str,
    nodes: Vec<Node>,
    depth: usize,
}

/// A value of an [`Indexed`] text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// Where a value stands. The values inside it follow it, up to `after`.
struct Node {
    /// Its key with the quotes, if it is a member.
    key: (u32, u32),
    value: (u32, u32),
    after: u32,
}

impl<'t> Indexed<'t> {
    /// Reads a text that is one value, white space around it aside.
    pub fn whole(text: &'t str) -> Option<Indexed<'t>> {
        // Room for what a text of this length usually has.
        let (indexed, end) = Indexed::read(text, Vec::with_capacity((text.len() / 16).min(4096))).ok()?;
        text.get(end..)?.trim_start_matches([' ', '\t', '\n', '\r']).is_empty().then_some(indexed)
    }

    /// Reads the value that the text begins with, and says where it ends. If there is none, says how far the text was read.
    pub fn first(text: &'t str) -> Result<(Indexed<'t>, usize), usize> {
        Indexed::read(text, Vec::new())
    }

    fn read(text: &'t str, nodes: Vec<Node>) -> Result<(Indexed<'t>, usize), usize> {
        if u32::try_from(text.len()).is_err() {
            return Err(0);
        }
        let mut scan = Scan { bytes: text.as_bytes(), at: 0, nodes, open: Vec::new(), depth: 0 };
        match scan.run() {
            Some(()) => Ok((Indexed { text, nodes: scan.nodes, depth: scan.depth }, scan.at)),
            None => Err(scan.at),
        }
    }

    /// The value that holds all others.
    pub fn root(&self) -> Place {
        Place(0)
    }

    /// The deepest nesting of containers.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// How many values stand here, the value itself included.
    pub fn count(&self, place: Place) -> usize {
        self.node(place).map_or(0, |node| node.after.saturating_sub(place.0) as usize)
    }

    /// The value as it was written.
    pub fn json(&self, place: Place) -> Json<'t> {
        Json::trusted(self.node(place).map_or("null", |node| self.slice(node.value)))
    }

    /// What the value is.
    pub fn kind(&self, place: Place) -> Kind {
        self.json(place).kind()
    }

    /// The values directly inside, in order; none in a scalar.
    pub fn children(&self, place: Place) -> impl Iterator<Item = Place> + '_ {
        let end = self.node(place).map_or(0, |node| node.after);
        let mut next = place.0.saturating_add(1);
        std::iter::from_fn(move || {
            let child = Place(next);
            let node = self.node(child).filter(|_| next < end)?;
            next = node.after.max(next.saturating_add(1));
            Some(child)
        })
    }

    /// The key of a member, unescaped.
    pub fn key(&self, place: Place) -> Cow<'t, str> {
        self.node(place).and_then(|node| Json::trusted(self.slice(node.key)).string()).unwrap_or_default()
    }

    /// A member of an object. Of equal keys the last counts, as for nearly every reader of JSON.
    pub fn member(&self, place: Place, name: &str) -> Option<Place> {
        if self.kind(place) != Kind::Object {
            return None;
        }
        self.children(place).filter(|child| self.has_key(*child, name)).last()
    }

    /// An element of an array; a negative index counts from the end.
    pub fn element(&self, place: Place, index: i64) -> Option<Place> {
        if self.kind(place) != Kind::Array {
            return None;
        }
        let steps = match usize::try_from(index) {
            Ok(steps) => steps,
            Err(_) => self.children(place).count().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
        };
        self.children(place).nth(steps)
    }

    fn has_key(&self, place: Place, name: &str) -> bool {
        let Some(quoted) = self.node(place).map(|node| self.slice(node.key)) else { return false };
        let written = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or("");
        // What is written with escapes reads as something else, so it is never compared as it is.
        if written.contains('\\') { self.key(place) == name } else { written == name }
    }

    fn node(&self, place: Place) -> Option<&Node> {
        self.nodes.get(place.0 as usize)
    }

    fn slice(&self, (start, end): (u32, u32)) -> &'t str {
        self.text.get(start as usize..end as usize).unwrap_or("")
    }

    /// All places, in the order of the text.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        // The number of nodes is bounded far below what the type holds.
        (0..self.nodes.len() as u32).map(Place)
    }
}

impl Place {
    /// The place as a number, for tables that have an entry per place.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    nodes: Vec<Node>,
    /// Containers that are not closed yet, and whether they are objects.
    open: Vec<(usize, bool)>,
    depth: usize,
}

impl Scan<'_> {
    /// Reads one value; `None` where the grammar or a limit is broken.
    fn run(&mut self) -> Option<()> {
        self.space();
        let mut key = (0, 0);
        loop {
            // A value begins here.
            if self.nodes.len() >= NODES {
                return None;
            }
            let node = self.nodes.len();
            let start = self.at as u32;
            self.nodes.push(Node { key, value: (start, start), after: 0 });
            match self.peek()? {
                open @ (b'{' | b'[') => {
                    if self.open.len() >= DEPTH {
                        return None;
                    }
                    self.at += 1;
                    let object = open == b'{';
                    self.open.push((node, object));
                    self.depth = self.depth.max(self.open.len());
                    self.space();
                    if self.peek()? != if object { b'}' } else { b']' } {
                        key = if object { self.key()? } else { (0, 0) };
                        continue;
                    }
                }
                b'"' => {
                    self.string()?;
                    self.end(node);
                }
                b'-' | b'0'..=b'9' => {
                    self.number()?;
                    self.end(node);
                }
                b't' => {
                    self.word(b"true")?;
                    self.end(node);
                }
                b'f' => {
                    self.word(b"false")?;
                    self.end(node);
                }
                b'n' => {
                    self.word(b"null")?;
                    self.end(node);
                }
                _ => return None,
            }
            // A value ended here, or its container is about to; so may the containers around it.
            loop {
                let Some(&(container, object)) = self.open.last() else { return Some(()) };
                self.space();
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        self.space();
                        key = if object { self.key()? } else { (0, 0) };
                        break;
                    }
                    b'}' if object => {}
                    b']' if !object => {}
                    _ => return None,
                }
                self.at += 1;
                self.open.pop();
                self.end(container);
            }
        }
    }

    fn end(&mut self, node: usize) {
        let (at, after) = (self.at as u32, self.nodes.len() as u32);
        if let Some(node) = self.nodes.get_mut(node) {
            node.value.1 = at;
            node.after = after;
        }
    }

    /// A key with its quotes, past its colon.
    fn key(&mut self) -> Option<(u32, u32)> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at as u32;
        self.string()?;
        let key = (start, self.at as u32);
        self.space();
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        self.space();
        Some(key)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// A string with its quotes.
    #[inline]
    fn string(&mut self) -> Option<()> {
        let end = transom_json::string_end(self.bytes, self.at);
        self.at = end.unwrap_or_else(|| transom_json::string_fault(self.bytes, self.at));
        end.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use transom_json::{Limits, check};

    #[test]
    fn what_the_checker_accepts_is_indexed_and_nothing_else() {
        // E6, E7
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        let texts = [
            "{}",
            "[]",
            " [ 1 , { \"a\" : 2 } ] ",
            "\"\\ud83d\\ude00\"",
            "1e400",
            "-0",
            "01",
            "-",
            "1.",
            "1e",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "\"",
            "{\"a\"}",
            "{\"a\":}",
            "{,}",
            "[1,]",
            "[1 2]",
            "{\"a\":1]",
            "tru",
            "nulll",
            "NaN",
            "Infinity",
            "1 2",
            "\u{feff}{}",
            "",
            &deep(64),
            &deep(65),
            &deep(100_000),
        ];
        for text in texts {
            assert_eq!(Indexed::whole(text).is_some(), check(text.as_bytes(), &Limits::REPLY).is_ok(), "{}", text.get(..40).unwrap_or(text));
        }
    }

    #[test]
    fn values_are_found_where_they_stand() {
        let escaped = Indexed::whole(r#"{"\\":1,"\\\\":2}"#).unwrap();
        assert_eq!(escaped.member(escaped.root(), r"\").map(|place| escaped.json(place).raw()), Some("1"));
        assert_eq!(escaped.member(escaped.root(), r"\\").map(|place| escaped.json(place).raw()), Some("2"));
        let text = r#" {"a":[10,{"b":"x"}], "\u0063":{} ,"a":[1,2,3]}"#;
        let indexed = Indexed::whole(text).unwrap();
        let root = indexed.root();
        let a = indexed.member(root, "a").unwrap();
        assert_eq!(indexed.json(a).raw(), "[1,2,3]", "of equal keys the last counts");
        assert_eq!(indexed.element(a, -1).map(|place| indexed.json(place).raw()), Some("3"));
        assert_eq!(indexed.element(a, 3), None);
        assert_eq!(indexed.element(a, -4), None);
        assert_eq!(indexed.element(a, i64::MIN), None);
        assert_eq!(indexed.member(root, "c").map(|place| indexed.json(place).raw()), Some("{}"));
        assert_eq!(indexed.member(a, "c"), None);
        assert_eq!((indexed.count(root), indexed.depth()), (10, 3));
    }

    #[test]
    fn a_value_may_be_followed_by_anything() {
        let (indexed, end) = Indexed::first("{\"a\":1} tail").unwrap();
        assert_eq!((indexed.json(indexed.root()).raw(), end), ("{\"a\":1}", 7));
        assert_eq!(Indexed::first("[1,x").err(), Some(3));
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_the_checker_reads_it(text in r#"[\[\]{}",:0-9a-e\\u .tn+-]{0,40}"#) {
            prop_assert_eq!(Indexed::whole(&text).is_some(), check(text.as_bytes(), &Limits::REPLY).is_ok());
        }
    }
}
