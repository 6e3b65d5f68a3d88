//! Keeps injected values out of what travels back: a target that echoes one gets it replaced by `[redacted]`.
//!
//! Each secret is looked for as it is and in the spellings that a target may give it: escaped for JSON (once and twice), for
//! URLs, in base64 at any alignment, in hexadecimal, in other letter cases. A text that is JSON itself, or a text in such a text, is also
//! looked at as it reads: which characters its writer escaped is nobody's guess. What has no secret in it keeps its bytes.

use crate::secret::{REDACTED, Secret};
use aho_corasick::{AhoCorasick, BuildError};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeSet;
use std::ops::Range;
use transom_json::{Json, write};

mod nested;

/// Shorter values stand in too many texts by chance.
const SHORTEST: usize = 8;
/// A text in a text in a text is as far as anybody goes.
const LEVELS: usize = 3;

/// What RFC 3986 calls unreserved is not encoded in a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Nor is the slash of a path.
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');
/// JavaScript leaves these alone in a part of a URL,
const COMPONENT: &AsciiSet = &UNRESERVED.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');
/// and these in a whole one.
const WHOLE: &AsciiSet = &COMPONENT
    .remove(b';')
    .remove(b'/')
    .remove(b'?')
    .remove(b':')
    .remove(b'@')
    .remove(b'&')
    .remove(b'=')
    .remove(b'+')
    .remove(b'$')
    .remove(b',')
    .remove(b'#');

/// Finds secrets in all their spellings. Made once per generation.
#[derive(Clone, Default)]
pub struct Mask {
    /// One for each set of secrets.
    finders: Vec<AhoCorasick>,
    /// Whether some secret has characters that JSON has to escape.
    escapes: bool,
}

impl std::fmt::Debug for Mask {
    /// The automaton holds the secrets, so it does not print.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

impl Mask {
    /// A mask for these secrets. Those of less than eight characters are not looked for. Fails only if there are too many.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Result<Mask, BuildError> {
        let mut forms = BTreeSet::new();
        let mut escapes = false;
        for secret in secrets {
            // A line break at its end, say, is nothing that a target has to keep.
            for text in [secret.expose(), secret.expose().trim()] {
                if text.chars().count() >= SHORTEST {
                    escapes |= escaped(text) != text;
                    spell(text, &mut forms);
                }
            }
        }
        let finders = if forms.is_empty() { Vec::new() } else { vec![AhoCorasick::new(forms)?] };
        Ok(Mask { finders, escapes })
    }

    /// A mask for the secrets of both.
    pub fn and(&self, other: &Mask) -> Mask {
        Mask { finders: self.finders.iter().chain(&other.finders).cloned().collect(), escapes: self.escapes || other.escapes }
    }

    /// Whether it hides nothing.
    pub fn is_empty(&self) -> bool {
        self.finders.is_empty()
    }

    /// How many bytes the longest spelling of a secret has.
    pub fn longest(&self) -> usize {
        self.finders.iter().map(AhoCorasick::max_pattern_len).max().unwrap_or(0)
    }

    fn finds(&self, text: &str) -> bool {
        self.finders.iter().any(|finder| finder.is_match(text))
    }

    /// A plain text without the secrets, if there are any in it.
    pub fn text(&self, text: &str) -> Option<String> {
        let found = self.places(text);
        (!found.is_empty()).then(|| replaced(text, &found))
    }

    /// A JSON text (checked before) without the secrets, if there are any in it. Strings keep all but the secret; a number that
    /// spells one becomes a string. What comes out is JSON again.
    pub fn json(&self, text: &str) -> Option<String> {
        // Where every string is spelled as it reads, one pass over all of them answers for each.
        if self.is_empty() || (self.reads_as_spelled(text.as_bytes()) && !self.finds(text)) {
            return None;
        }
        let mut out = Vec::new();
        let mut copied = 0;
        for token in scalars(text) {
            let raw = text.get(token.clone()).unwrap_or_default();
            let Some(clean) = self.clean(raw) else { continue };
            out.extend_from_slice(text.get(copied..token.start).unwrap_or_default().as_bytes());
            write::string(&mut out, &clean);
            copied = token.end;
        }
        if copied == 0 {
            return None;
        }
        out.extend_from_slice(text.get(copied..).unwrap_or_default().as_bytes());
        String::from_utf8(out).ok()
    }

    /// Whether no secret can stand behind an escape. Without characters that have to be escaped, only those who like to can hide one, and a text in a
    /// text where they did so: what is looked for there has a backslash of its own.
    fn reads_as_spelled(&self, json: &[u8]) -> bool {
        if self.escapes {
            return memchr::memchr(b'\\', json).is_none();
        }
        let mut rest = json;
        while let Some(at) = memchr::memchr(b'\\', rest) {
            if matches!(rest.get(at + 1), Some(b'u' | b'/' | b'\\')) {
                return false;
            }
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        true
    }

    /// What a string or number reads without the secrets, if there are any in it.
    fn clean(&self, raw: &str) -> Option<String> {
        match Json::trusted(raw).string() {
            Some(text) => self.text(&text),
            // A number is taken as a whole: half of one would be another number.
            None => self.finds(raw).then(|| REDACTED.to_owned()),
        }
    }

    /// Where secrets stand in a text. Those that overlap are one place, so that no rest of either stays.
    fn places(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = self.plain_places(text);
        // What reads as the text does, one level further in each time.
        let mut inner: Vec<String> = Vec::new();
        for _ in 0..LEVELS {
            let Some(read) = nested::read(inner.last().map_or(text, String::as_str)) else { break };
            let mut places = self.plain_places(&read);
            for outer in inner.iter().map(String::as_str).rev().chain([text]) {
                places = nested::origins(outer, &places);
            }
            found = together(found.into_iter().chain(places).collect());
            inner.push(read);
        }
        found
    }

    /// Where they stand as they are spelled.
    fn plain_places(&self, text: &str) -> Vec<Range<usize>> {
        if !self.finds(text) {
            return Vec::new();
        }
        together(self.finders.iter().flat_map(|finder| finder.find_overlapping_iter(text)).map(|each| each.range()).collect())
    }
}

/// Places in order, those that overlap as one.
fn together(mut all: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    all.sort_unstable_by_key(|each| each.start);
    for each in all {
        match found.last_mut() {
            Some(last) if each.start < last.end => last.end = last.end.max(each.end),
            _ => found.push(each),
        }
    }
    found
}

fn replaced(text: &str, found: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for each in found {
        out.push_str(text.get(copied..each.start).unwrap_or_default());
        out.push_str(REDACTED);
        copied = each.end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out
}

/// The strings (keys too) and numbers of a JSON text.
fn scalars(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while !matches!(bytes.get(at)?, b'"' | b'-' | b'0'..=b'9') {
            at += 1;
        }
        let start = at;
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
                if bytes.get(at) == Some(&b'"') {
                    break;
                }
                at += 2;
            }
            at += 1;
        } else {
            while matches!(bytes.get(at), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
                at += 1;
            }
        }
        Some(start..at)
    })
}

/// Every spelling of a secret that is looked for.
fn spell(secret: &str, forms: &mut BTreeSet<String>) {
    let swapped = |each: char| if each.is_ascii_lowercase() { each.to_ascii_uppercase() } else { each.to_ascii_lowercase() };
    let swapped_whole = |each: char| if each.is_lowercase() { each.to_uppercase().to_string() } else { each.to_lowercase().to_string() };
    forms.extend([secret.to_owned(), secret.to_ascii_uppercase(), secret.to_ascii_lowercase(), secret.chars().map(swapped).collect()]);
    // Other letters have cases as well, and not everybody minds them.
    forms.extend([secret.to_uppercase(), secret.to_lowercase(), secret.chars().map(swapped_whole).collect()]);

    let once = escaped(secret);
    forms.extend([escaped(&once), once.replace('/', "\\/"), ascii(&once), once]);

    for kept in [UNRESERVED, PATH, COMPONENT, WHOLE] {
        let url = utf8_percent_encode(secret, kept).to_string();
        forms.extend([url.replace("%20", "+"), lower_escapes(&url), url]);
    }
    let every_byte: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    forms.extend([every_byte.to_ascii_lowercase(), every_byte]);

    // Where a secret begins inside a group of three bytes decides its letters; those shared with its neighbours are left out.
    for shift in 0..3usize {
        let bytes = [vec![0; shift].as_slice(), secret.as_bytes()].concat();
        let whole = bytes.len() * 8 / 6;
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let letters = engine.encode(&bytes);
            forms.extend(letters.get((shift * 8).div_ceil(6)..whole).map(str::to_owned));
        }
    }

    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    forms.extend([hex.to_ascii_uppercase(), hex]);
}

/// As in a JSON string, without the quotes.
fn escaped(text: &str) -> String {
    let quoted = write::quoted(text);
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// As writers spell it that keep to ASCII.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for each in text.chars() {
        if each.is_ascii() {
            out.push(each);
        } else {
            let mut units = [0; 2];
            out.extend(each.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// `%2F` as `%2f`.
fn lower_escapes(url: &str) -> String {
    let mut out = String::with_capacity(url.len());
    let mut digits = 0;
    for each in url.chars() {
        out.push(if digits > 0 { each.to_ascii_lowercase() } else { each });
        digits = if each == '%' { 2 } else { digits.max(1) - 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CANARY: &str = "CANARY-7f3a/é\"x y\n0";

    fn mask(secrets: &[&str]) -> Mask {
        let secrets: Vec<Secret> = secrets.iter().map(|each| Secret::new(*each)).collect();
        Mask::new(&secrets).unwrap()
    }

    fn json_string(text: &str) -> String {
        format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, write::quoted(text))
    }

    #[test]
    fn an_echoed_secret_is_masked_however_it_is_spelled() {
        // D2: raw and in every encoding, in the middle of other text.
        let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut echoes = vec![
            CANARY.to_owned(),
            CANARY.to_ascii_uppercase(),
            "canary-7F3A/é\"X Y\n0".to_owned(),
            serde_json::to_string(CANARY).unwrap(),
            serde_json::to_string(&serde_json::to_string(CANARY).unwrap()).unwrap(),
            "CANARY-7f3a\\/é\\\"x y\\n0".to_owned(),
            "CANARY-7f3a/\\u00e9\\\"x y\\n0".to_owned(),
            "CANARY-7f3a%2F%C3%A9%22x%20y%0A0".to_owned(),
            "CANARY-7f3a%2f%c3%a9%22x%20y%0a0".to_owned(),
            "CANARY-7f3a%2F%C3%A9%22x+y%0A0".to_owned(),
            "CANARY-7f3a/%C3%A9%22x%20y%0A0".to_owned(),
            "canary-7F3A/É\"X Y\n0".to_owned(),
            CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            hex.to_ascii_uppercase(),
            hex,
        ];
        for before in ["", "a", "ab", "abc"] {
            for after in ["", "z", "zy"] {
                let text = format!("{before}{CANARY}{after}");
                echoes.push(base64::engine::general_purpose::STANDARD.encode(&text));
                echoes.push(base64::engine::general_purpose::URL_SAFE.encode(&text));
            }
        }
        let mask = mask(&[CANARY]);
        for echo in echoes {
            let masked = mask.text(&format!("got key={echo}!")).unwrap_or_else(|| panic!("{echo}"));
            assert!(masked.starts_with("got key=") && masked.contains(REDACTED), "{echo}: {masked}");
            assert!(!masked.contains("NARY") && masked.len() < 40, "{echo}: {masked}");
            let text = json_string(&format!("got {echo}!"));
            let masked = mask.json(&text).unwrap_or_else(|| panic!("{text}"));
            assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{masked}");
            assert!(masked.contains(REDACTED), "{masked}");
        }
    }

    // D2: encoders differ in what they escape, and some texts are in a text that is in a text
    #[test]
    fn a_secret_is_found_whatever_the_encoder_of_an_inner_text_escapes() {
        let mask = mask(&["ab&cd<ef>gh12", "kQ+9/zz=='p7", "pässwörd-Ünï99", "line\nbreak\"1", "with space 1 "]);
        for inner in [
            r#"{"k":"ab\u0026cd\u003cef\u003egh12"}"#,
            r#"{"k":"kQ\u002B9/zz==\u0027p7"}"#,
            r#"{"k":"kQ+9\/zz\u003d\u003d\u0027p7"}"#,
            r#"{"k":"p\u00E4ssw\u00F6rd-\u00DCn\u00ef99"}"#,
            r#"{"k":"line\nbreak\u00221"}"#,
            r#""\u0077ith space 1""#,
        ] {
            let plain = mask.text(&format!("said {inner}!")).unwrap_or_else(|| panic!("{inner}"));
            assert_eq!(plain.matches(REDACTED).count(), 1, "{plain}");
            for text in [inner.to_owned(), write::quoted(inner), write::quoted(&write::quoted(inner))] {
                let json = json_string(&text);
                let masked = mask.json(&json).unwrap_or_else(|| panic!("{json}"));
                let read: serde_json::Value = serde_json::from_str(&masked).unwrap();
                let said = read["content"][0]["text"].as_str().unwrap();
                assert!(said.contains(REDACTED) && said.len() <= text.len(), "{said}");
                assert!(!["gh12", "p7", "99", "break", "space"].iter().any(|rest| said.contains(rest)), "{said}");
            }
        }
        assert_eq!(mask.text(r"C:\users\new \u12 \ud800 \"), None);
    }

    // D2: a text in a text, written by those who escape what they need not
    #[test]
    fn a_secret_behind_escapes_of_a_text_in_a_text_is_masked() {
        let mask = mask(&["pässwort-1234", "abcd/efgh12345678"]);
        for text in [r#"{"text":"{\"pw\": \"p\\u00e4sswort-1234\"}"}"#, r#"{"text":"{\"k\":\"abcd\\/efgh12345678\"}"}"#] {
            let masked = mask.json(text).unwrap_or_else(|| panic!("{text}"));
            assert!(masked.contains(REDACTED) && !masked.contains("1234"), "{masked}");
        }
        assert_eq!(mask.json(r#"{"text":"C:\\windows\n\"x\""}"#), None);
    }

    #[test]
    fn json_stays_json_and_keeps_all_but_the_secret() {
        // D2: keys, values, numbers, odd escapes; E2: texts of errors.
        let mask = mask(&["supersecret1", "12345678", "a\",\"bcdefg"]);
        let table = [
            (r#"{"a":"x supersecret1 y","b":1.50}"#, r#"{"a":"x [redacted] y","b":1.50}"#),
            (r#"{"supersecret1":true}"#, r#"{"[redacted]":true}"#),
            (r#"{"n":12345678,"m":912345678e2}"#, r#"{"n":"[redacted]","m":"[redacted]"}"#),
            (r#"["\u0073upersecret1\n\u00e9"]"#, "[\"[redacted]\\né\"]"),
            (r#"["super\u0073ecret1","\\"]"#, r#"["[redacted]","\\"]"#),
            (r#"["a\",\"bcdefg"]"#, r#"["[redacted]"]"#),
            (r#"["supersecret12345678"]"#, r#"["[redacted]"]"#), // two that overlap are one
            (r#"["supersecret1supersecret1"]"#, r#"["[redacted][redacted]"]"#),
        ];
        for (text, expected) in table {
            assert_eq!(mask.json(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_secret_is_left_alone() {
        // O3: byte for byte, so nothing is given back at all.
        let with = mask(&["supersecret1", "short"]);
        for text in [r#"{"a":"short","b":"\u0073uper \\ \" "}"#, "{}", "1e400", r#"{"a":["a","bcdefg"]}"#, ""] {
            assert_eq!(with.json(text), None, "{text}");
        }
        assert_eq!(mask(&["a\",\"bcdefg"]).json(r#"["a","bcdefg"]"#), None, "two strings are not one");
        assert_eq!(with.text("short"), None);
        assert_eq!(Mask::default().json(r#"{"a":"supersecret1"}"#), None);
        assert_eq!(mask(&["seven77"]).text("seven77"), None, "seven characters are too few");
    }

    #[test]
    fn two_masks_hide_what_either_does_and_what_overlaps_as_one() {
        let both = mask(&["supersecret1"]).and(&mask(&["secret1-and-more"]));
        assert_eq!(both.text("a supersecret1-and-more z").as_deref(), Some("a [redacted] z"));
        assert_eq!(both.json(r#"["supersecret1",1]"#).as_deref(), Some(r#"["[redacted]",1]"#));
        assert!(mask(&[]).and(&Mask::default()).is_empty());
        // Each byte as `%70` is the longest of the spellings.
        assert_eq!((both.longest(), Mask::default().longest()), (3 * "secret1-and-more".len(), 0));
    }

    #[test]
    fn a_mask_does_not_print_what_it_masks() {
        // D5, N6
        let secret = Secret::new("supersecret1");
        assert_eq!(format!("{:?} {:?}", Mask::new([&secret]).unwrap(), secret), "Mask [redacted]");
    }

    /// A JSON string in one of the many ways to spell it.
    fn spelled(text: &str, escape_all: bool) -> String {
        let escaped = |each: char| {
            let mut units = [0; 2];
            each.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04X}")).collect::<String>()
        };
        if escape_all { format!("\"{}\"", text.chars().map(escaped).collect::<String>()) } else { write::quoted(text) }
    }

    proptest! {
        /// D2: wherever a secret stands, it goes, and nothing else does.
        #[test]
        fn no_string_has_a_secret_afterwards(
            secret in "[a-zé\"\\\\/ \n+=]{8,12}",
            texts in prop::collection::vec(("[ -~é]{0,6}", any::<bool>(), "[ -~é]{0,6}", any::<bool>()), 1..5),
        ) {
            let mask = mask(&[&secret]);
            let plain: Vec<String> = texts.iter().map(|(before, with, after, _)| if *with { format!("{before}{secret}{after}") } else { format!("{before}{after}") }).collect();
            let json: Vec<String> = plain.iter().zip(&texts).map(|(text, (.., escape_all))| spelled(text, *escape_all)).collect();
            let json = format!("[{}]", json.join(" , "));
            let masked = mask.json(&json).unwrap_or_else(|| json.clone());
            let read: Vec<String> = serde_json::from_str(&masked).unwrap();
            for (read, plain) in read.iter().zip(&plain) {
                prop_assert!(!read.contains(&secret));
                prop_assert_eq!(read, &mask.text(plain).unwrap_or_else(|| plain.clone()));
            }
            prop_assert_eq!(mask.json(&json).is_none(), plain.iter().all(|text| mask.text(text).is_none()));
        }
    }
}
