//! Drift: whether a source tool is still the one that was approved.
//!
//! A pin is a hash over what a target says about its tool. This room hashes, compares and tells two definitions apart in words;
//! what becomes of a tool that drifted is decided where generations are bound to a catalog.

use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use transom_json::{Object, Tree};

/// Deeper than any checked JSON; what lies below is compared and written as one value.
const DEPTH: usize = 128;
/// Nobody reads more changes of one tool than this.
const MOST_CHANGES: usize = 100;

/// The members of a definition that a pin covers, whether they are there or not; what is absent counts as `null`.
const ALWAYS: [&str; 3] = ["name", "description", "inputSchema"];
/// The members that a pin covers where a target gives them.
const WHERE_PRESENT: [&str; 3] = ["displayName", "outputSchema", "annotations"];

/// A hash, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin([u8; 32]);

impl Pin {
    /// The hash of a source tool, given as its target sent it: before anything was filled in.
    pub fn of_source(definition: &Tree) -> Pin {
        let covered = |name: &&str| definition.get(name).filter(|value| **value != Tree::Null);
        let always = ALWAYS.iter().map(|name| ((*name).to_owned(), covered(name).cloned().unwrap_or(Tree::Null)));
        let present = WHERE_PRESENT.iter().filter_map(|name| Some(((*name).to_owned(), covered(name)?.clone())));
        Pin::of(&Tree::Object(always.chain(present).collect()))
    }

    /// The hash of any JSON value. The order of its members and its white space do not matter, the spelling of its numbers does.
    pub fn of(value: &Tree) -> Pin {
        let mut text = Vec::new();
        canonical(value, &mut text, DEPTH);
        Pin(Sha256::digest(&text).into())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no pin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a hash: it has the form `sha256:` and 64 hexadecimal digits")]
pub struct BadPin(String);

impl FromStr for Pin {
    type Err = BadPin;

    fn from_str(text: &str) -> Result<Pin, BadPin> {
        let bad = || BadPin(text.chars().take(100).collect());
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or_else(bad)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit())).ok_or_else(bad)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Pin(hash))
    }
}

/// What becomes of a tool whose source is not the pinned one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrift {
    /// It is neither listed nor callable.
    #[default]
    Quarantine,
    /// It stays, and a warning says so.
    Warn,
    /// Nothing; nobody looks.
    Ignore,
}

impl OnDrift {
    /// The modes as they are written.
    pub const NAMES: [&str; 3] = ["quarantine", "warn", "ignore"];

    /// The mode of that name.
    pub fn named(name: &str) -> Option<OnDrift> {
        match name {
            "quarantine" => Some(OnDrift::Quarantine),
            "warn" => Some(OnDrift::Warn),
            "ignore" => Some(OnDrift::Ignore),
            _ => None,
        }
    }
}

/// What a look at a source shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is as pinned, or nobody looked.
    Valid,
    /// It is another one.
    Drifted {
        /// The pin.
        expected: Pin,
        /// What the source hashes to now.
        found: Pin,
    },
    /// The target does not offer it.
    Missing,
}

/// Compares a source with its pin.
pub fn verify(expected: Pin, on_drift: OnDrift, offered: Option<&Tree>) -> Verdict {
    match (on_drift, offered.map(Pin::of_source)) {
        (OnDrift::Ignore, _) => Verdict::Valid,
        (_, None) => Verdict::Missing,
        (_, Some(found)) if found == expected => Verdict::Valid,
        (_, Some(found)) => Verdict::Drifted { expected, found },
    }
}

/// One difference between two definitions of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where: member names and positions, outermost first.
    pub place: Vec<String>,
    /// What was there.
    pub before: Option<Tree>,
    /// What is there now.
    pub after: Option<Tree>,
}

impl Change {
    /// The change with its values, for a person who asked to see them. Long values are cut.
    pub fn with_values(&self) -> String {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => format!("{self}: {} is now {}", shortened(before), shortened(after)),
            (Some(value), None) | (None, Some(value)) => format!("{self}: {}", shortened(value)),
            (None, None) => self.to_string(),
        }
    }
}

impl fmt::Display for Change {
    /// Without values: fit for a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (&self.before, &self.after) {
            (None, Some(_)) => "was added",
            (Some(_), None) => "is gone",
            _ => "changed",
        };
        write!(f, "`{}` {what}", self.place.join("."))
    }
}

/// How two definitions of a source tool differ, in the parts that a pin covers. At most 100 changes are told.
pub fn difference(before: &Tree, after: &Tree) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut place = Vec::new();
    for name in ALWAYS.into_iter().chain(WHERE_PRESENT) {
        let part = |tool: &Tree| tool.get(name).filter(|value| **value != Tree::Null).cloned();
        compare(name, part(before).as_ref(), part(after).as_ref(), &mut place, &mut changes, DEPTH);
    }
    changes.truncate(MOST_CHANGES);
    changes
}

fn compare(step: &str, before: Option<&Tree>, after: Option<&Tree>, place: &mut Vec<String>, changes: &mut Vec<Change>, depth: usize) {
    if before == after || changes.len() >= MOST_CHANGES {
        return;
    }
    place.push(step.to_owned());
    let below = depth.saturating_sub(1);
    match (before, after) {
        (Some(Tree::Object(before)), Some(Tree::Object(after))) if below > 0 => {
            for name in names(before, after) {
                compare(name, before.get(name), after.get(name), place, changes, below);
            }
        }
        (Some(Tree::Array(before)), Some(Tree::Array(after))) if below > 0 => compare_lists(before, after, place, changes, below),
        _ => changes.push(Change { place: place.clone(), before: before.cloned(), after: after.cloned() }),
    }
    place.pop();
}

/// Lists of plain values (`required`, `enum`) are compared as what they hold; others position by position.
fn compare_lists(before: &[Tree], after: &[Tree], place: &mut Vec<String>, changes: &mut Vec<Change>, depth: usize) {
    let plain = |list: &[Tree]| list.iter().all(|each| !matches!(each, Tree::Array(_) | Tree::Object(_)));
    if !plain(before) || !plain(after) {
        for at in 0..before.len().max(after.len()) {
            compare(&at.to_string(), before.get(at), after.get(at), place, changes, depth);
        }
        return;
    }
    let found = changes.len();
    let word = |value: &Tree| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut one = |value: &Tree, before: Option<Tree>, after: Option<Tree>| {
        let place = place.iter().cloned().chain([word(value)]).collect();
        changes.push(Change { place, before, after });
    };
    before.iter().filter(|value| !after.contains(value)).for_each(|value| one(value, Some(value.clone()), None));
    after.iter().filter(|value| !before.contains(value)).for_each(|value| one(value, None, Some(value.clone())));
    if changes.len() == found {
        // The same values in another order, or another number of times.
        let list = |values: &[Tree]| Some(Tree::Array(values.to_vec()));
        changes.push(Change { place: place.clone(), before: list(before), after: list(after) });
    }
}

fn names<'t>(before: &'t Object, after: &'t Object) -> impl Iterator<Item = &'t str> {
    before.keys().chain(after.keys().filter(|name| !before.contains_key(name)))
}

fn shortened(value: &Tree) -> String {
    const LONGEST: usize = 200;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// Compact JSON, keys sorted by code point, every character beyond printable ASCII escaped: the same bytes in any language.
fn canonical(value: &Tree, out: &mut Vec<u8>, depth: usize) {
    let Some(below) = depth.checked_sub(1) else { return value.write(out) };
    match value {
        Tree::String(text) => escaped(text, out),
        Tree::Array(elements) => {
            out.push(b'[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                canonical(element, out, below);
            }
            out.push(b']');
        }
        Tree::Object(members) => {
            let mut members: Vec<(&str, &Tree)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push(b'{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                escaped(name, out);
                out.push(b':');
                canonical(value, out, below);
            }
            out.push(b'}');
        }
        Tree::Null | Tree::Bool(_) | Tree::Number(_) => value.write(out),
    }
}

fn escaped(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(character as u8),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_json::{Limits, check};

    fn tree(text: &str) -> Tree {
        Tree::from(check(text.as_bytes(), &Limits::REPLY).unwrap())
    }

    fn pin(definition: &str) -> String {
        Pin::of_source(&tree(definition)).to_string()
    }

    // cases.md 6.9: the values of the original program
    #[test]
    fn the_hashes_are_those_of_the_original_program() {
        for (definition, hash) in [
            // V1
            (
                r#"{"name":"test","description":"A test","inputSchema":{"type":"object"}}"#,
                "1e92b51e492159f46fbd3ea2628ce4db85a71e96fc76b1d908550d07d3c7e19f",
            ),
            // V2
            (
                r#"{"name":"test_tool","description":"A test tool","inputSchema":{"type":"object","properties":{"x":{"type":"number"}}}}"#,
                "ee78dd364aba9d95c567dbec590a282fb1c5cf0e277e99905e36a7770a66a005",
            ),
            // V3
            (
                r#"{"name":"t","description":"naïve ★","inputSchema":{"type":"object"}}"#,
                "4dc02c30a5912997c2e309c86f2fc3d86720db64dfafa6590baf577c930fcdca",
            ),
            // V4
            (
                r#"{"name":"t","description":null,"inputSchema":{"type":"object"}}"#,
                "4ebb500649223455dcdeec082f52ec7a77b90c31e1f680e35ec403718f0f030d",
            ),
            // V4: absent is null
            (r#"{"name":"t","inputSchema":{"type":"object"}}"#, "4ebb500649223455dcdeec082f52ec7a77b90c31e1f680e35ec403718f0f030d"),
        ] {
            assert_eq!(pin(definition), format!("sha256:{hash}"), "{definition}");
        }
    }

    // V5, G1
    #[test]
    fn order_white_space_and_escapes_do_not_matter() {
        let one = r#"{"name":"a","description":"é","inputSchema":{"type":"object","properties":{"x":{},"y":{}}}}"#;
        let other = r#" { "inputSchema" : { "properties" : {"y":{}, "x":{}}, "type":"object" }, "description":"\u00e9", "name":"a" } "#;
        assert_eq!(pin(one), pin(other));
    }

    // V6, G1, G2, G4
    #[test]
    fn every_part_of_a_definition_counts_and_nothing_else_does() {
        let base = r#"{"name":"a","description":"d","inputSchema":{"type":"object"}}"#;
        for other in [
            r#"{"name":"b","description":"d","inputSchema":{"type":"object"}}"#,
            r#"{"name":"a","description":"d!","inputSchema":{"type":"object"}}"#,
            r#"{"name":"a","description":"d","inputSchema":{"type":"object","required":["bcc"]}}"#,
            r#"{"name":"a","description":"d","inputSchema":{"type":"object"},"displayName":"A"}"#,
            r#"{"name":"a","description":"d","inputSchema":{"type":"object"},"outputSchema":{}}"#,
            r#"{"name":"a","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
        ] {
            assert_ne!(pin(base), pin(other), "{other}");
        }
        let more = r#"{"name":"a","description":"d","inputSchema":{"type":"object"},"title":"A","icons":[],"_meta":{"x":1},"annotations":null}"#;
        assert_eq!(pin(base), pin(more));
    }

    // V7: a virtual tool's own hash, over its entry
    #[test]
    fn the_hash_of_an_entry_changes_with_all_it_says() {
        let base = r#"{"name":"v","source":{"target":"t","tool":"a"},"defaults":{"k":1},"outputSchema":{"properties":{"x":{"sourceField":"$.x"}}}}"#;
        for (from, to) in [("$.x", "$.y"), (r#""k":1"#, r#""k":2"#), (r#""tool":"a""#, r#""tool":"b""#), (r#""k":1"#, r#""k":1.0"#)] {
            assert_ne!(Pin::of(&tree(base)), Pin::of(&tree(&base.replace(from, to))), "{to}");
        }
    }

    // V8, V9, V10, V12
    #[test]
    fn a_source_is_valid_drifted_or_missing() {
        let then = tree(r#"{"name":"a","description":"d","inputSchema":{"type":"object"}}"#);
        let now = tree(r#"{"name":"a","description":"e","inputSchema":{"type":"object"}}"#);
        let expected = Pin::of_source(&then);
        assert_eq!(verify(expected, OnDrift::Quarantine, Some(&then)), Verdict::Valid);
        assert_eq!(verify(expected, OnDrift::Warn, Some(&now)), Verdict::Drifted { expected, found: Pin::of_source(&now) });
        assert_eq!(verify(expected, OnDrift::Quarantine, None), Verdict::Missing);
        assert_eq!(verify(expected, OnDrift::Ignore, Some(&now)), Verdict::Valid);
    }

    #[test]
    fn a_pin_is_read_as_it_is_written() {
        let text = "sha256:1e92b51e492159f46fbd3ea2628ce4db85a71e96fc76b1d908550d07d3c7e19f";
        assert_eq!(text.parse::<Pin>().unwrap().to_string(), text);
        let upper = text.replace("1e92b51e", "1E92B51E");
        assert_eq!(upper.parse::<Pin>(), text.parse());
        let foreign = format!("sha256:{}é", "0".repeat(62));
        for bad in
            ["", "sha256:", "1e92b51e", "md5:00", &text[..70], &format!("{text}0"), &text.replace('e', "g"), &text.replace("1e", "+e"), &foreign]
        {
            assert!(bad.parse::<Pin>().unwrap_err().to_string().contains("64 hexadecimal digits"), "{bad}");
        }
        for name in OnDrift::NAMES {
            assert!(OnDrift::named(name).is_some());
        }
        assert_eq!(OnDrift::named("follow"), None);
    }

    // G1
    #[test]
    fn two_definitions_are_told_apart_in_words() {
        let before = tree(
            r#"{"name":"send","description":"Sends","annotations":{"readOnlyHint":true},"title":"x",
                "inputSchema":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"],"allOf":[{"a":1}]}}"#,
        );
        let after = tree(
            r#"{"title":"y","name":"send","description":"Sends all","outputSchema":{},"annotations":{},
                "inputSchema":{"type":"object","properties":{"to":{"type":"array"},"bcc":{"type":"string"}},"required":["to","bcc"],"allOf":[{"a":2}]}}"#,
        );
        let told: Vec<String> = difference(&before, &after).iter().map(Change::to_string).collect();
        assert_eq!(
            told,
            [
                "`description` changed",
                "`inputSchema.properties.to.type` changed",
                "`inputSchema.properties.bcc` was added",
                "`inputSchema.required.bcc` was added",
                "`inputSchema.allOf.0.a` changed",
                "`outputSchema` was added",
                "`annotations.readOnlyHint` is gone",
            ]
        );
        let values: Vec<String> = difference(&before, &after).iter().map(Change::with_values).collect();
        assert_eq!(values[0], r#"`description` changed: "Sends" is now "Sends all""#);
        assert_eq!(values[2], r#"`inputSchema.properties.bcc` was added: {"type":"string"}"#);
        assert_eq!(difference(&before, &before), []);
        let reordered = difference(&tree(r#"{"inputSchema":{"required":["a","b"]}}"#), &tree(r#"{"inputSchema":{"required":["b","a"]}}"#));
        assert_eq!(reordered.iter().map(Change::to_string).collect::<Vec<_>>(), ["`inputSchema.required` changed"]);
    }

    #[test]
    fn a_difference_has_an_end() {
        let many =
            |with: &str| tree(&format!(r#"{{"inputSchema":{{{}}}}}"#, (0..500).map(|n| format!(r#""k{n}":{with}"#)).collect::<Vec<_>>().join(",")));
        assert_eq!(difference(&many("1"), &many("2")).len(), MOST_CHANGES);
        let long = Change { place: vec!["description".into()], before: None, after: Some(Tree::String("x".repeat(1000))) };
        assert!(long.with_values().chars().count() < 250);
    }
}
