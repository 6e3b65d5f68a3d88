//! Names and what they may look like.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name that is spelled like this.
            pub fn new(text: &str) -> $name {
                $name(text.into())
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

names! {
    /// The name of a tool: a virtual one, or a target's own. Cheap to clone.
    ToolName,
    /// The name of a target. Cheap to clone.
    TargetName,
}

/// The place of a field in a tool's arguments: `debug`, `options.raw`, `rows[].secret`. A dot, a bracket or a backslash that
/// belongs to a name stands behind a backslash: `a\.b`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(Vec<Step>);

/// One step of a [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Into the member of this name.
    Member(String),
    /// Into every element of an array, written `[]`.
    Items,
}

/// Text that is no [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a field: {reason}")]
pub struct BadFieldPath {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl FieldPath {
    /// Steps more than this lead nowhere a schema could.
    const STEPS: usize = 64;

    /// Reads `options.raw` and its like.
    pub fn parse(text: &str) -> Result<FieldPath, BadFieldPath> {
        let bad = |reason| BadFieldPath { text: text.to_owned(), reason };
        let mut steps = Vec::new();
        let mut characters = text.chars().peekable();
        loop {
            let mut name = String::new();
            while let Some(next) = characters.next_if(|c| !matches!(c, '.' | '[' | ']')) {
                match next {
                    '\\' => name.push(characters.next().ok_or_else(|| bad("the backslash at its end protects nothing"))?),
                    other => name.push(other),
                }
            }
            if name.is_empty() {
                return Err(bad("a name is empty"));
            }
            steps.push(Step::Member(name));
            while characters.next_if_eq(&'[').is_some() {
                if characters.next_if_eq(&']').is_none() {
                    return Err(bad("elements are written `[]`, without a number"));
                }
                steps.push(Step::Items);
            }
            if steps.len() > FieldPath::STEPS {
                return Err(bad("it has more than 64 steps"));
            }
            match characters.next() {
                None => break,
                Some('.') => {}
                Some(_) => return Err(bad("a dot must stand before the next name")),
            }
        }
        if steps.last() == Some(&Step::Items) {
            return Err(bad("it ends in `[]`, which names no field"));
        }
        Ok(FieldPath(steps))
    }

    /// The path to a field at the top, whatever characters its name has.
    pub fn top(name: impl Into<String>) -> FieldPath {
        FieldPath(vec![Step::Member(name.into())])
    }

    /// A path of these steps, which begin and end with a member.
    pub(crate) fn of(steps: impl IntoIterator<Item = Step>) -> FieldPath {
        FieldPath(steps.into_iter().collect())
    }

    /// The steps, at least one; the first and the last are members.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The name at the top.
    pub fn first(&self) -> &str {
        match self.0.first() {
            Some(Step::Member(name)) => name,
            _ => "",
        }
    }

    /// The name of the field itself.
    pub fn last(&self) -> &str {
        match self.0.last() {
            Some(Step::Member(name)) => name,
            _ => "",
        }
    }

    /// Whether this is `other` or leads to something inside it.
    pub fn is_within(&self, other: &FieldPath) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The same path with another name at the top.
    pub fn with_first(&self, name: &str) -> FieldPath {
        let mut path = self.clone();
        if let Some(first) = path.0.first_mut() {
            *first = Step::Member(name.to_owned());
        }
        path
    }
}

impl FromStr for FieldPath {
    type Err = BadFieldPath;

    fn from_str(text: &str) -> Result<FieldPath, BadFieldPath> {
        FieldPath::parse(text)
    }
}

impl fmt::Display for FieldPath {
    /// As it is written in a registry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Items => f.write_str("[]")?,
                Step::Member(name) => {
                    if at > 0 {
                        f.write_str(".")?;
                    }
                    for c in name.chars() {
                        if matches!(c, '.' | '[' | ']' | '\\') {
                            f.write_str("\\")?;
                        }
                        write!(f, "{c}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A target's name made an identifier, as it stands in front of a tool's name: `github-api` becomes `github_api`,
/// `123server` becomes `_123server`.
pub fn identifier(name: &str) -> String {
    let mut text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) || text.is_empty() {
        text.insert(0, '_');
    }
    text
}

/// Whether every LLM provider takes this name for a tool: at most 64 of `[A-Za-z0-9_-]`.
pub fn is_portable(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Whether a character is not seen, or changes how others are seen.
pub(crate) fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether a target's name for a tool can be shown to anybody: 1 to 128 bytes, no control characters, and nothing that
/// is invisible or turns the text around it.
pub fn is_sound(name: &str) -> bool {
    !name.is_empty() && name.len() <= 128 && name.trim() == name && !name.chars().any(deceives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_path_is_written_as_it_was_read() {
        let member = |name: &str| Step::Member(name.into());
        for (text, steps) in [
            ("debug", vec![member("debug")]),
            ("options.raw", vec![member("options"), member("raw")]),
            ("rows[].secret", vec![member("rows"), Step::Items, member("secret")]),
            ("a[][].b", vec![member("a"), Step::Items, Step::Items, member("b")]),
            (r"a\.b.c\[\]", vec![member("a.b"), member("c[]")]),
            ("x y-ü", vec![member("x y-ü")]),
        ] {
            let path = FieldPath::parse(text).unwrap();
            assert_eq!((path.steps(), path.to_string().as_str()), (steps.as_slice(), text));
        }
        assert_eq!(FieldPath::top("a.b").to_string(), r"a\.b");
    }

    #[test]
    fn what_names_no_field_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("a..b", "empty"),
            (".a", "empty"),
            ("a.", "empty"),
            ("[].a", "empty"),
            ("a[0].b", "without a number"),
            ("a[]b", "dot"),
            ("a]", "dot"),
            ("rows[]", "names no field"),
            ("a\\", "backslash"),
            (&["a"; 65].join("."), "64"),
        ] {
            let error = FieldPath::parse(text).unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }

    // R-001-7
    #[test]
    fn target_names_become_identifiers() {
        for (name, expected) in
            [("github-api", "github_api"), ("123server", "_123server"), ("plain", "plain"), ("a.b c", "a_b_c"), ("日本", "__"), ("", "_")]
        {
            assert_eq!(identifier(name), expected);
        }
    }

    // M2
    #[test]
    fn names_that_deceive_are_not_sound() {
        for name in ["get_weather", "a.b-c", "server/tool", "日本"] {
            assert!(is_sound(name), "{name}");
        }
        for name in ["", "a\"} evil 1\n", "\u{202e}abc", "a\u{200b}", " a", "a\0", "\u{1b}[31m", &"x".repeat(129)] {
            assert!(!is_sound(name), "{name:?}");
        }
    }

    #[test]
    fn providers_take_short_plain_names() {
        assert!(is_portable("get_weather-2"));
        for name in ["", "a.b", "a b", "é", &"x".repeat(65)] {
            assert!(!is_portable(name), "{name}");
        }
    }
}
