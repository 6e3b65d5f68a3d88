//! A strict scanner for JSON text, and a view of text that passed it.
//!
//! [`scan`] reads the whole text once, without recursion and without building a tree: it checks the grammar, counts
//! nodes, bounds depth and key length and finds duplicate keys (after unescaping). [`Json`] then walks checked text
//! cheaply. Numbers are never converted, so `1e400` and 64-bit integers survive as they were written.

use crate::block;
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
    scan_two(bytes, limits, |outer, key, range| {
        if outer.is_none() {
            member(key, range);
        }
    })
}

/// As [`scan`], and also calls `member` with each member of an object that is itself a member of the outermost one, whose
/// key comes first. Members of an object come before the object itself.
pub fn scan_two<'t>(bytes: &'t [u8], limits: &Limits, mut member: impl FnMut(Option<Key<'t>>, Key<'t>, Range<usize>)) -> Result<&'t str, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotUtf8)?;
    Scanner { bytes, text, limits, hasher: foldhash::fast::RandomState::default() }.run(&mut member)?;
    Ok(text)
}

/// Checks the text and gives a view of it, without surrounding white space.
pub fn check<'t>(bytes: &'t [u8], limits: &Limits) -> Result<Json<'t>, Fault> {
    let text = scan(bytes, limits, |_, _| {})?;
    Ok(Json(text.trim_matches([' ', '\t', '\n', '\r'])))
}

const DEEPEST: usize = 64;

struct Scanner<'t, 'l> {
    bytes: &'t [u8],
    text: &'t str,
    limits: &'l Limits,
    hasher: foldhash::fast::RandomState,
}

impl<'t> Scanner<'t, '_> {
    fn run(&self, member: &mut impl FnMut(Option<Key<'t>>, Key<'t>, Range<usize>)) -> Result<(), Fault> {
        // One bit per open container says whether it is an object; its keys' hashes begin at `first_key`.
        let mut objects: u64 = 0;
        let mut first_key = [0usize; DEEPEST];
        let mut depth = 0usize;
        let mut nodes = 0usize;
        let mut keys: Vec<u64> = Vec::new();
        // The member that is open in the outermost object, and the one that is open in it.
        let mut outer: Option<(Key<'t>, usize)> = None;
        let mut inner: Option<(Key<'t>, usize)> = None;
        let mut at = 0;

        loop {
            // A value begins here.
            at = self.space(at);
            nodes += 1;
            if nodes > self.limits.nodes {
                return Err(Fault::TooManyNodes);
            }
            let opened = match self.bytes.get(at) {
                Some(b'"') => {
                    at = string_end(self.bytes, at).ok_or_else(|| Fault::NotJson(string_fault(self.bytes, at)))?;
                    None
                }
                Some(b'{') => Some(true),
                Some(b'[') => Some(false),
                Some(b'-' | b'0'..=b'9') => {
                    at = self.number(at).ok_or(Fault::NotJson(at))?;
                    None
                }
                Some(b't') => {
                    at = self.word(at, b"true").ok_or(Fault::NotJson(at))?;
                    None
                }
                Some(b'f') => {
                    at = self.word(at, b"false").ok_or(Fault::NotJson(at))?;
                    None
                }
                Some(b'n') => {
                    at = self.word(at, b"null").ok_or(Fault::NotJson(at))?;
                    None
                }
                _ => return Err(Fault::NotJson(at)),
            };
            if let Some(object) = opened {
                if depth >= self.limits.depth.min(DEEPEST) {
                    return Err(Fault::TooDeep);
                }
                objects = (objects & !(1 << depth)) | (u64::from(object) << depth);
                if let Some(slot) = first_key.get_mut(depth) {
                    *slot = keys.len();
                }
                depth += 1;
                at = self.space(at + 1);
                let close = if object { b'}' } else { b']' };
                if self.bytes.get(at) == Some(&close) {
                    at += 1;
                    depth -= 1;
                } else {
                    if object {
                        let key = self.key(&mut at, &mut keys)?;
                        match depth {
                            1 => outer = Some((key, at)),
                            2 => inner = Some((key, at)),
                            _ => {}
                        }
                    }
                    continue;
                }
            }
            // A value ended here; so may the containers around it.
            loop {
                // In an array none is open.
                if depth == 2
                    && let Some((key, start)) = inner.take()
                    && let Some((outer, _)) = outer
                {
                    member(Some(outer), key, start..at);
                } else if depth == 1
                    && let Some((key, start)) = outer.take()
                {
                    member(None, key, start..at);
                }
                at = self.space(at);
                if depth == 0 {
                    return if at == self.bytes.len() { Ok(()) } else { Err(Fault::NotJson(at)) };
                }
                let object = objects >> (depth - 1) & 1 == 1;
                match self.bytes.get(at) {
                    Some(b',') => {
                        at += 1;
                        if object {
                            at = self.space(at);
                            let key = self.key(&mut at, &mut keys)?;
                            match depth {
                                1 => outer = Some((key, at)),
                                2 => inner = Some((key, at)),
                                _ => {}
                            }
                        }
                        break;
                    }
                    Some(b'}') if object => {
                        if !self.limits.duplicate_keys {
                            let first = first_key.get(depth - 1).copied().unwrap_or(0);
                            if has_duplicates(keys.get_mut(first..).unwrap_or(&mut [])) {
                                return Err(Fault::DuplicateKey);
                            }
                            keys.truncate(first);
                        }
                    }
                    Some(b']') if !object => {}
                    _ => return Err(Fault::NotJson(at)),
                }
                at += 1;
                depth -= 1;
            }
        }
    }

    /// A key and its colon; the value begins after the white space that follows.
    #[inline(always)]
    fn key(&self, at: &mut usize, keys: &mut Vec<u64>) -> Result<Key<'t>, Fault> {
        let start = *at;
        if self.bytes.get(start) != Some(&b'"') {
            return Err(Fault::NotJson(start));
        }
        let (end, escapes) = string(self.bytes, start).ok_or_else(|| Fault::NotJson(string_fault(self.bytes, start)))?;
        let key = Key(self.text.get(start + 1..end - 1).unwrap_or(""));
        if key.0.len() > self.limits.key {
            return Err(Fault::KeyTooLong);
        }
        if !self.limits.duplicate_keys {
            keys.push(if escapes { self.hash(&key.text()) } else { self.hash(key.0) });
        }
        let colon = self.space(end);
        if self.bytes.get(colon) != Some(&b':') {
            return Err(Fault::NotJson(colon));
        }
        *at = self.space(colon + 1);
        Ok(key)
    }

    fn hash(&self, key: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key.as_bytes());
        hasher.finish()
    }

    /// Past white space.
    #[inline(always)]
    fn space(&self, mut at: usize) -> usize {
        while let Some(byte) = self.bytes.get(at)
            && *byte <= b' '
            && matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
        {
            at += 1;
        }
        at
    }

    fn word(&self, at: usize, word: &[u8]) -> Option<usize> {
        let end = at + word.len();
        (self.bytes.get(at..end)? == word).then_some(end)
    }

    fn digits(&self, start: usize) -> Option<usize> {
        let digits = self.bytes.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0).then_some(start + digits)
    }

    fn number(&self, mut at: usize) -> Option<usize> {
        let next_is = |at: usize, byte: u8| self.bytes.get(at) == Some(&byte);
        if next_is(at, b'-') {
            at += 1;
        }
        at = if next_is(at, b'0') { at + 1 } else { self.digits(at)? };
        if next_is(at, b'.') {
            at = self.digits(at + 1)?;
        }
        if next_is(at, b'e') || next_is(at, b'E') {
            at += 1;
            if next_is(at, b'+') || next_is(at, b'-') {
                at += 1;
            }
            at = self.digits(at)?;
        }
        Some(at)
    }
}

/// Where the string that opens at `start` goes wrong, if [`string_end`] found no end: only those who are refused wait for that.
#[cold]
pub fn string_fault(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        at = match byte {
            b'\\' => match bytes.get(at + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at + 2,
                _ => match unit_escape(bytes, at) {
                    Some(next) => next,
                    None => break,
                },
            },
            b'"' | 0..=0x1f => break,
            _ => at + 1,
        };
    }
    at
}

/// Past the string, quotes and all, that opens at `start`; `None` if it breaks the grammar.
#[inline(always)]
pub fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    string(bytes, start).map(|(end, _)| end)
}

/// Past the string that opens at `start`, and whether it has escapes; `None` if it breaks the grammar. Whole blocks are
/// looked at at once; only what is out of the ordinary in them is looked at byte by byte.
#[inline(always)]
fn string(bytes: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start + 1;
    let mut escapes = false;
    loop {
        let mut last = [b' '; block::WIDTH];
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let (block, width) = match rest.first_chunk() {
            Some(block) => (block, block::WIDTH),
            None => {
                last.get_mut(..rest.len())?.copy_from_slice(rest);
                (&last, rest.len())
            }
        };
        let backslashes = block::backslashes(block);
        let mut ends = block::ends(block);
        let mut next = at + width;
        if backslashes != 0 {
            escapes = true;
            let escaped = backslashes << 1;
            if backslashes & escaped == 0 && escaped & WITHIN & !block::escapable(block) == 0 {
                // Each stands alone and before a character it may stand before; of a block's last one that is to be seen.
                ends &= !escaped;
                next -= usize::from(escaped & !WITHIN != 0);
            } else {
                match past_escapes(bytes, at, width)? {
                    Past::String(end) => return Some((end, true)),
                    Past::Block(after) => {
                        at = after;
                        continue;
                    }
                }
            }
        }
        if ends != 0 {
            let place = at + ends.trailing_zeros() as usize;
            return (bytes.get(place) == Some(&b'"')).then_some((place + 1, escapes));
        }
        at = next;
    }
}

/// The bits of one block.
const WITHIN: u32 = (1 << block::WIDTH) - 1;

/// How far a look byte by byte came.
enum Past {
    String(usize),
    Block(usize),
}

/// Past a block in which escapes are more than a backslash and a letter, byte by byte.
fn past_escapes(bytes: &[u8], start: usize, width: usize) -> Option<Past> {
    let mut at = start;
    while at < start + width {
        at = match bytes.get(at)? {
            b'"' => return Some(Past::String(at + 1)),
            b'\\' => match bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at + 2,
                _ => unit_escape(bytes, at)?,
            },
            0..=0x1f => return None,
            _ => at + 1,
        };
    }
    Some(Past::Block(at))
}

/// Past `\uXXXX`, or a pair of them.
fn unit_escape(bytes: &[u8], at: usize) -> Option<usize> {
    match unit(bytes, at)? {
        0xdc00..=0xdfff => None,
        // A lone surrogate has no meaning in UTF-8; peers disagree about it.
        0xd800..=0xdbff => matches!(unit(bytes, at + 6)?, 0xdc00..=0xdfff).then_some(at + 12),
        _ => Some(at + 6),
    }
}

fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, byte| Some(unit << 4 | char::from(*byte).to_digit(16)?))
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
        if has_escape(self.0) { self.text() == name } else { self.0 == name }
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

/// What follows white space and a comma.
pub(crate) fn past_gap(text: &str) -> &str {
    let gap = text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',')).count();
    text.get(gap..).unwrap_or_default()
}

/// The text of the string that checked text begins with, and what follows the string.
pub(crate) fn first_string(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let (end, escapes) = string(text.as_bytes(), 0)?;
    let (raw, rest) = text.split_at_checked(end)?;
    let raw = inside(raw);
    Some((if escapes { unescape(raw) } else { raw.into() }, rest))
}

/// The first value of checked text, past white space and a comma, and what follows it.
pub(crate) fn first_value(text: &str) -> Option<(&str, &str)> {
    let text = past_gap(text);
    let bytes = text.as_bytes();
    let end = match bytes.first()? {
        b'"' => string_end(bytes, 0)?,
        b'{' | b'[' => container_end(bytes)?,
        _ => bytes.iter().position(|b| matches!(b, b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r')).unwrap_or(bytes.len()),
    };
    text.split_at_checked(end)
}

/// One past the end of the container that opens at the start.
fn container_end(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    'blocks: loop {
        let (mut structure, width) = look(bytes, at, block::structure)?;
        while structure != 0 {
            let place = at + structure.trailing_zeros() as usize;
            structure &= structure - 1;
            match bytes.get(place)? {
                b'"' => {
                    let end = string_end(bytes, place)?;
                    if end >= at + width {
                        at = end;
                        continue 'blocks;
                    }
                    // What stands inside the string is not structure.
                    structure &= u32::MAX << (end - at);
                }
                b'{' | b'[' => depth += 1,
                _ => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(place + 1);
                    }
                }
            }
        }
        at += width;
    }
}

/// What a look at the block at `at` shows, and how many bytes it was; `None` past the end.
#[inline(always)]
fn look(bytes: &[u8], at: usize, shows: impl Fn(&[u8; block::WIDTH]) -> u32) -> Option<(u32, usize)> {
    let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
    Some(match rest.first_chunk() {
        Some(block) => (shows(block), block::WIDTH),
        None => {
            let mut last = [b' '; block::WIDTH];
            last.get_mut(..rest.len())?.copy_from_slice(rest);
            (shows(&last), rest.len())
        }
    })
}

/// Looks at every byte whatever comes, which for the short texts of keys and names is faster than stopping early.
fn has_escape(raw: &str) -> bool {
    raw.bytes().fold(false, |seen, byte| seen | (byte == b'\\'))
}

fn unescape(raw: &str) -> Cow<'_, str> {
    if !has_escape(raw) {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    // Escapes stand close together where they stand at all (JSON inside a string), so a plain loop finds the next one soonest.
    while let Some(at) = rest.bytes().position(|byte| byte == b'\\') {
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
                        let point = (0x1_0000 + ((high - 0xd800) << 10)).wrapping_add(low.wrapping_sub(0xdc00));
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
        // A key is what it means, not what it looks like.
        assert_eq!(Json::trusted(r#"{"\\":1}"#).get(r"\\"), None);
        assert_eq!(Json::trusted(r#"{"\\":1}"#).get(r"\").map(Json::raw), Some("1"));
    }

    #[test]
    fn strings_end_where_they_end_whatever_is_escaped_at_whatever_place() {
        for before in 0..40 {
            for (inside, ends) in [
                (r#"\""#, true),
                (r#"\\"#, true),
                (r#"\\\""#, true),
                (r#"\n\t\/\b"#, true),
                (r#"a\"b\"c\"d\"e\"f\"g"#, true),
                (r#"\u00e9\ud83d\ude00"#, true),
                ("\\", false),
                ("\\x", false),
                ("\\ud83d", false),
                ("\\u12", false),
                ("\t", false),
            ] {
                for after in ["", "more", "\u{e9} and rather a lot more of it, {}[] and so on"] {
                    let text = format!("\"{}{inside}{after}\",\"\\n\":1", "x".repeat(before));
                    let string = before + inside.len() + after.len() + 2;
                    // A backslash before the closing quote escapes it.
                    let end =
                        if inside == "\\" { string_end(text.as_bytes(), 0).filter(|end| *end == string) } else { string_end(text.as_bytes(), 0) };
                    assert_eq!(end, ends.then_some(string), "{text}");
                    assert_eq!(string_end(&text.as_bytes()[..string - 1], 0), None, "{text}");
                }
            }
        }
    }

    #[test]
    fn the_scan_reports_members_of_members_before_them_and_nothing_deeper() {
        let text = br#"{"a":{"b":1,"c":{"d":2},"e":[{"f":3}]},"g":[{"h":4}],"i":{}}"#;
        let mut seen = Vec::new();
        let member = |outer: Option<Key<'_>>, key: Key<'_>, range: std::ops::Range<usize>| {
            seen.push(format!("{}/{}={}", outer.map_or("", Key::raw), key.raw(), std::str::from_utf8(&text[range]).unwrap()));
        };
        scan_two(text, &Limits::REQUEST, member).unwrap();
        assert_eq!(seen, ["a/b=1", r#"a/c={"d":2}"#, r#"a/e=[{"f":3}]"#, r#"/a={"b":1,"c":{"d":2},"e":[{"f":3}]}"#, r#"/g=[{"h":4}]"#, "/i={}"]);
        scan_two(br#"[{"a":1},{"b":{"c":2}}]"#, &Limits::REQUEST, |_, key, _| panic!("{}", key.raw())).unwrap();
    }

    #[test]
    fn the_scan_reports_each_outer_member_once() {
        let text = br#"{"id": 7 ,"params":{"id":8,"x":[1,{"y":2}]},"e":{}}"#;
        let mut seen = Vec::new();
        scan(text, &Limits::REQUEST, |key, range| seen.push((key.text().into_owned(), std::str::from_utf8(&text[range]).unwrap()))).unwrap();
        let seen: Vec<_> = seen.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(seen, [("id", "7"), ("params", r#"{"id":8,"x":[1,{"y":2}]}"#), ("e", "{}")]);
    }

    /// Pieces that texts are put together from: structure, strings with specials at every place, numbers, nonsense.
    fn piece() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::prelude::*;
        prop_oneof![
            4 => prop::sample::select(vec!["{", "}", "[", "]", ",", ":", " ", "\n", "\"", "\\", "\\\"", "\\\\", "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\x", "\t"]).prop_map(str::to_owned),
            2 => prop::sample::select(vec!["true", "false", "null", "0", "-1.5", "12e3", "01", "\"key\":", "\"\"", "{}", "[]", "nul"]).prop_map(str::to_owned),
            3 => "[a-z{}\\[\\] é]{0,24}".prop_map(|text| format!("\"{text}\"")),
            1 => "[ -~]{0,20}",
        ]
    }

    fn json_value() -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "[ -~é\\n\\t😀]{0,40}".prop_map(Into::into)
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::vec(("[ -~é]{0,20}", inner), 0..8)
                    .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    /// What the view shows, as another reader's value.
    fn seen(json: Json<'_>) -> serde_json::Value {
        match json.kind() {
            Kind::Object => json.members().map(|(key, value)| (key.text().into_owned(), seen(value))).collect::<serde_json::Map<_, _>>().into(),
            Kind::Array => json.elements().map(seen).collect::<Vec<_>>().into(),
            Kind::String => json.string().unwrap().into_owned().into(),
            _ => serde_json::from_str(json.raw()).unwrap(),
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4_000))]

        #[test]
        fn another_reader_accepts_and_refuses_the_same_texts(pieces in proptest::collection::vec(piece(), 0..12)) {
            let text = pieces.concat();
            let limits = Limits { duplicate_keys: true, ..Limits::REQUEST };
            proptest::prop_assert_eq!(check(text.as_bytes(), &limits).is_ok(), serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
        }

        #[test]
        fn another_reader_sees_the_same_values(value in json_value(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let json = check(text.as_bytes(), &Limits::REQUEST).unwrap();
            proptest::prop_assert_eq!(seen(json), value);
        }
    }
}
