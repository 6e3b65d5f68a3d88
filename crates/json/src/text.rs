//! A strict scanner for JSON text, and a view of text that passed it.
//!
//! [`scan`] reads the whole text once, without recursion and without building a tree: it checks the grammar, counts
//! nodes, bounds depth and key length and finds duplicate keys (after unescaping). [`Json`] then walks checked text
//! cheaply. Numbers are never converted, so `1e400` and 64-bit integers survive as they were written.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

/// What a text may cost before it is refused.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Containers inside one another; at most 64.
    pub depth: usize,
    /// Values in all, containers and scalars.
    pub nodes: usize,
    /// Bytes of a key as written.
    pub key: usize,
    /// Whether a key may stand twice in one object.
    pub duplicate_keys: bool,
}

impl Limits {
    /// For what clients send.
    pub const REQUEST: Limits = Limits { depth: 64, nodes: 100_000, key: 256, duplicate_keys: false };
    /// For what targets send: it is forwarded, not interpreted, so only what could hurt a reader is refused.
    pub const REPLY: Limits = Limits { depth: 64, nodes: 1_000_000, key: 4096, duplicate_keys: true };
}

/// Why a text was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Bytes that are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A break of the grammar, at this byte.
    #[error("not JSON at byte {0}")]
    NotJson(usize),
    /// Nested deeper than allowed.
    #[error("nested too deeply")]
    TooDeep,
    /// More values than allowed.
    #[error("too many values")]
    TooManyNodes,
    /// A key longer than allowed.
    #[error("key too long")]
    KeyTooLong,
    /// The same key twice in one object.
    #[error("duplicate key")]
    DuplicateKey,
}

/// Checks the text and calls `member` with each member of the outermost object: key as written (without quotes) and
/// the place of its value.
pub fn scan<'t>(bytes: &'t [u8], limits: &Limits, mut member: impl FnMut(Key<'t>, Range<usize>)) -> Result<&'t str, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotUtf8)?;
    Scanner { bytes, text, at: 0, nodes: 0, limits, hasher: foldhash::fast::RandomState::default() }.run(&mut member)?;
    Ok(text)
}

/// Checks the text and gives a view of it, without surrounding white space.
pub fn check<'t>(bytes: &'t [u8], limits: &Limits) -> Result<Json<'t>, Fault> {
    let text = scan(bytes, limits, |_, _| {})?;
    Ok(Json(text.trim_matches([' ', '\t', '\n', '\r'])))
}

const WHAT: usize = 64;

struct Scanner<'t, 'l> {
    bytes: &'t [u8],
    text: &'t str,
    at: usize,
    nodes: usize,
    limits: &'l Limits,
    hasher: foldhash::fast::RandomState,
}

impl<'t> Scanner<'t, '_> {
    fn run(&mut self, member: &mut impl FnMut(Key<'t>, Range<usize>)) -> Result<(), Fault> {
        // One bit per open container says whether it is an object; its keys' hashes begin at `first_key`.
        let mut objects: u64 = 0;
        let mut first_key = [0usize; WHAT];
        let mut depth = 0usize;
        let mut keys: Vec<u64> = Vec::new();
        let mut top: Option<(Key<'t>, usize)> = None;

        loop {
            // A value begins here.
            self.space();
            self.nodes += 1;
            if self.nodes > self.limits.nodes {
                return Err(Fault::TooManyNodes);
            }
            let opened = match self.peek() {
                Some(b'{') => Some(true),
                Some(b'[') => Some(false),
                Some(b'"') => {
                    self.string()?;
                    None
                }
                Some(b'-' | b'0'..=b'9') => {
                    self.number()?;
                    None
                }
                Some(b't') => self.word("true").map(|()| None)?,
                Some(b'f') => self.word("false").map(|()| None)?,
                Some(b'n') => self.word("null").map(|()| None)?,
                _ => return self.bad(),
            };
            if let Some(object) = opened {
                if depth >= self.limits.depth.min(WHAT) {
                    return Err(Fault::TooDeep);
                }
                self.at += 1;
                objects = (objects & !(1 << depth)) | (u64::from(object) << depth);
                if let Some(slot) = first_key.get_mut(depth) {
                    *slot = keys.len();
                }
                depth += 1;
                self.space();
                let close = if object { b'}' } else { b']' };
                if self.peek() == Some(close) {
                    self.at += 1;
                    depth -= 1;
                } else {
                    if object {
                        let key = self.key(&mut keys)?;
                        if depth == 1 {
                            top = Some((key, self.at));
                        }
                    }
                    continue;
                }
            }
            // A value ended here; so may the containers around it.
            loop {
                if depth == 1
                    && let Some((key, start)) = top.take()
                {
                    member(key, start..self.at);
                }
                self.space();
                if depth == 0 {
                    return if self.at == self.bytes.len() { Ok(()) } else { self.bad() };
                }
                let object = objects >> (depth - 1) & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if object {
                            self.space();
                            let key = self.key(&mut keys)?;
                            if depth == 1 {
                                top = Some((key, self.at));
                            }
                        }
                        break;
                    }
                    Some(b'}') if object => {
                        let first = first_key.get(depth - 1).copied().unwrap_or(0);
                        if !self.limits.duplicate_keys && has_duplicates(keys.get_mut(first..).unwrap_or(&mut [])) {
                            return Err(Fault::DuplicateKey);
                        }
                        keys.truncate(first);
                    }
                    Some(b']') if !object => {}
                    _ => return self.bad(),
                }
                self.at += 1;
                depth -= 1;
            }
        }
    }

    /// A key and its colon; the value begins after the white space that follows.
    fn key(&mut self, keys: &mut Vec<u64>) -> Result<Key<'t>, Fault> {
        if self.peek() != Some(b'"') {
            return self.bad();
        }
        let start = self.at + 1;
        self.string()?;
        let key = Key(self.text.get(start..self.at - 1).unwrap_or(""));
        if key.0.len() > self.limits.key {
            return Err(Fault::KeyTooLong);
        }
        if !self.limits.duplicate_keys {
            let mut hasher = self.hasher.build_hasher();
            hasher.write(key.text().as_bytes());
            keys.push(hasher.finish());
        }
        self.space();
        if self.peek() != Some(b':') {
            return self.bad();
        }
        self.at += 1;
        self.space();
        Ok(key)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn bad<T>(&self) -> Result<T, Fault> {
        Err(Fault::NotJson(self.at))
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        if self.bytes.get(self.at..self.at + word.len()) != Some(word.as_bytes()) {
            return self.bad();
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { self.bad() } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), Fault> {
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
        Ok(())
    }

    /// A string with its quotes. Plain runs are passed eight bytes at a time.
    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            while let Some(chunk) = self.bytes.get(self.at..self.at + 8) {
                let mut word = [0; 8];
                word.copy_from_slice(chunk);
                let special = specials(u64::from_le_bytes(word));
                if special != 0 {
                    self.at += special.trailing_zeros() as usize / 8;
                    break;
                }
                self.at += 8;
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                None | Some(0..=0x1f) => return self.bad(),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.unit(self.at)? {
                0xdc00..=0xdfff => return self.bad(),
                0xd800..=0xdbff => {
                    // A lone surrogate has no meaning in UTF-8; peers disagree about it.
                    if self.bytes.get(self.at + 6) != Some(&b'\\')
                        || self.bytes.get(self.at + 7) != Some(&b'u')
                        || !matches!(self.unit(self.at + 6)?, 0xdc00..=0xdfff)
                    {
                        return self.bad();
                    }
                    self.at += 12;
                }
                _ => self.at += 6,
            },
            _ => return self.bad(),
        }
        Ok(())
    }

    fn unit(&self, at: usize) -> Result<u32, Fault> {
        let digits = self.bytes.get(at + 2..at + 6).ok_or(Fault::NotJson(at))?;
        digits.iter().try_fold(0, |unit, byte| {
            let digit = char::from(*byte).to_digit(16).ok_or(Fault::NotJson(at))?;
            Ok(unit << 4 | digit)
        })
    }
}

/// The high bit of each byte that may be a quote, a backslash or a control character. The lowest bit that is set is
/// always right; those above it may be carried over from it.
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGH;
    let below_space = word.wrapping_sub(ONES.wrapping_mul(0x20)) & !word & HIGH;
    zero(word ^ ONES.wrapping_mul(0x22)) | zero(word ^ ONES.wrapping_mul(0x5c)) | below_space
}

fn has_duplicates(hashes: &mut [u64]) -> bool {
    if hashes.len() <= 8 {
        return hashes.iter().enumerate().any(|(i, a)| hashes.iter().take(i).any(|b| a == b));
    }
    hashes.sort_unstable();
    hashes.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
}

/// A key as written, without its quotes.
#[derive(Clone, Copy, Debug)]
pub struct Key<'t>(&'t str);

impl<'t> Key<'t> {
    /// The key after unescaping.
    pub fn text(self) -> Cow<'t, str> {
        unescape(self.0)
    }

    /// Whether this is that key, after unescaping.
    pub fn is(self, name: &str) -> bool {
        self.0 == name || (self.0.contains('\\') && self.text() == name)
    }

    /// As written between the quotes.
    pub fn raw(self) -> &'t str {
        self.0
    }
}

/// What a JSON value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// digits
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

/// One value of a text that [`check`] or [`scan`] accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'t>(&'t str);

impl<'t> Json<'t> {
    /// A value inside text that was checked before. The caller vouches for it; an unchecked text gives wrong answers,
    /// never a panic.
    pub fn trusted(text: &'t str) -> Self {
        Json(text)
    }

    /// The text of the value.
    pub fn raw(self) -> &'t str {
        self.0
    }

    /// What it is.
    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// The members of an object, in order; nothing for other values.
    pub fn members(self) -> Members<'t> {
        Members { rest: if self.kind() == Kind::Object { inside(self.0) } else { "" } }
    }

    /// The elements of an array, in order; nothing for other values.
    pub fn elements(self) -> Elements<'t> {
        Elements { rest: if self.kind() == Kind::Array { inside(self.0) } else { "" } }
    }

    /// A member of an object.
    pub fn get(self, key: &str) -> Option<Json<'t>> {
        self.members().find(|(name, _)| name.is(key)).map(|(_, value)| value)
    }

    /// A string's text.
    pub fn string(self) -> Option<Cow<'t, str>> {
        (self.kind() == Kind::String).then(|| unescape(inside(self.0)))
    }

    /// A number, if it is an unsigned integer that fits.
    pub fn unsigned(self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// A boolean.
    pub fn bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
}

fn inside(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1)).unwrap_or("")
}

/// See [`Json::members`].
pub struct Members<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Members<'t> {
    type Item = (Key<'t>, Json<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = first_value(self.rest)?;
        let rest = rest.trim_start_matches([' ', '\t', '\n', '\r']).strip_prefix(':')?;
        let (value, rest) = first_value(rest)?;
        self.rest = rest;
        Some((Key(inside(key)), Json(value)))
    }
}

/// See [`Json::elements`].
pub struct Elements<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Elements<'t> {
    type Item = Json<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        let (value, rest) = first_value(self.rest)?;
        self.rest = rest;
        Some(Json(value))
    }
}

/// The first value of checked text, past white space and a comma, and what follows it.
fn first_value(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', ',']);
    let bytes = text.as_bytes();
    let end = match bytes.first()? {
        b'"' => string_end(bytes, 0)?,
        b'{' | b'[' => {
            let mut depth = 0usize;
            let mut at = 0;
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            break at + 1;
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        _ => bytes.iter().position(|b| matches!(b, b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r')).unwrap_or(bytes.len()),
    };
    text.split_at_checked(end)
}

/// One past the closing quote of the string that opens at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = raw.find('\\') else { return Cow::Borrowed(raw) };
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut next = Some(first);
    while let Some(at) = next {
        let (plain, escape) = rest.split_at(at);
        text.push_str(plain);
        let (character, length) = match escape.as_bytes().get(1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'u') => {
                let unit = |from: usize| escape.get(from..from + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                match (unit(2), unit(8)) {
                    (Some(high @ 0xd800..=0xdbff), Some(low)) => {
                        let point = 0x1_0000 + ((high - 0xd800) << 10) + low.wrapping_sub(0xdc00);
                        (char::from_u32(point).unwrap_or('\u{fffd}'), 12)
                    }
                    (Some(unit), _) => (char::from_u32(unit).unwrap_or('\u{fffd}'), 6),
                    (None, _) => ('\u{fffd}', 2),
                }
            }
            Some(other) => (char::from(*other), 2),
            None => break,
        };
        text.push(character);
        rest = escape.get(length..).unwrap_or("");
        next = rest.find('\\');
    }
    text.push_str(rest);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Fault {
        check(text.as_bytes(), &Limits::REQUEST).expect_err(text)
    }

    #[test]
    fn what_is_json_passes_and_keeps_its_spelling() {
        for text in [
            "{}",
            "[]",
            "0",
            "-0",
            "1e400",
            "18446744073709551616",
            "\"\\ud83d\\ude00\"",
            " [1 , {\"a\" : [ ] } ] ",
            "true",
            "null",
            r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#,
            "1.5E+10",
            "\"\\u0000\"",
        ] {
            let json = check(text.as_bytes(), &Limits::REQUEST).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!(json.raw(), text.trim());
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "NaN",
            "Infinity",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"a",
            "[1}",
            "{\"a\":1]",
            "tru",
            "1 2",
            "\u{feff}{}",
            "{\"a\" 1}",
            "{,}",
            "[,]",
            "nulll",
        ] {
            assert!(matches!(refused(text), Fault::NotJson(_)), "{text}");
        }
        assert_eq!(check(b"\"\xff\"", &Limits::REQUEST).unwrap_err(), Fault::NotUtf8);
    }

    #[test]
    fn a_key_may_stand_once_in_an_object_however_it_is_spelled() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"x":{"api_key":1,"\u0061pi_key":2}}"#, r#"[{"b":1,"c":2,"b":{}}]"#] {
            assert_eq!(refused(text), Fault::DuplicateKey, "{text}");
        }
        let many: Vec<String> = (0..50).map(|n| format!("\"k{n}\":{n}")).collect();
        assert!(check(format!("{{{}}}", many.join(",")).as_bytes(), &Limits::REQUEST).is_ok());
        assert_eq!(refused(&format!("{{{},\"k7\":0}}", many.join(","))), Fault::DuplicateKey);
    }

    #[test]
    fn depth_nodes_and_keys_are_bounded_without_recursion() {
        let nest = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(check(nest(64).as_bytes(), &Limits::REQUEST).is_ok());
        assert_eq!(refused(&nest(65)), Fault::TooDeep);
        assert_eq!(refused(&"[".repeat(100_000)), Fault::TooDeep);
        assert_eq!(refused(&format!("[{}0]", "0,".repeat(100_000))), Fault::TooManyNodes);
        assert_eq!(refused(&format!("{{\"{}\":1}}", "k".repeat(257))), Fault::KeyTooLong);
    }

    #[test]
    fn members_and_elements_are_found_past_everything_in_between() {
        let text = r#" { "a" : [ "]" , {"}":"\""} ] , "b\u0063" : -1.5e3 ,"d":"x\ny" } "#;
        let json = check(text.as_bytes(), &Limits::REQUEST).unwrap();
        assert_eq!(json.get("bc").map(Json::raw), Some("-1.5e3"));
        assert_eq!(json.get("d").and_then(Json::string).as_deref(), Some("x\ny"));
        let elements: Vec<_> = json.get("a").unwrap().elements().map(Json::raw).collect();
        assert_eq!(elements, [r#""]""#, r#"{"}":"\""}"#]);
        assert_eq!(json.get("missing"), None);
    }

    #[test]
    fn the_scan_reports_each_outer_member_once() {
        let text = br#"{"id": 7 ,"params":{"id":8,"x":[1,{"y":2}]},"e":{}}"#;
        let mut seen = Vec::new();
        scan(text, &Limits::REQUEST, |key, range| seen.push((key.text().into_owned(), std::str::from_utf8(&text[range]).unwrap()))).unwrap();
        let seen: Vec<_> = seen.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(seen, [("id", "7"), ("params", r#"{"id":8,"x":[1,{"y":2}]}"#), ("e", "{}")]);
    }
}
