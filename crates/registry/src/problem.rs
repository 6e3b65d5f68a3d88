//! What is wrong with a registry, where, and what to do about it.
//!
//! A problem is data: the place as a JSON pointer and as bytes of the document, the message, the words under the caret and
//! a hint. How it is printed is the business of whoever shows it.

use std::ops::Range;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The tool (or, without a tool, that part of the document) is out.
    Error,
    /// It works, but hardly as its author meant it.
    Warning,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// What kind of problem it is. A closed set, so that it can be the label of a metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// All there are.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// Its word in metrics, logs and machine-readable reports.
            pub fn label(self) -> &'static str {
                match self {
                    $(Code::$name => $label,)*
                }
            }
        }
    };
}

codes! {
    /// The document is not JSON, not an object, or its `tools` are not a list.
    NotARegistry = "not-a-registry",
    /// More than a limit allows: bytes, tools, depth, length of a name.
    TooLarge = "too-large",
    /// The same key twice in one object.
    DuplicateKey = "duplicate-key",
    /// A key nobody reads.
    UnknownKey = "unknown-key",
    /// A key that would run or reach something; only the config may say such things.
    ForbiddenKey = "forbidden-key",
    /// A key that must be there and is not.
    MissingKey = "missing-key",
    /// A value of the wrong kind, or none of the words that are allowed.
    BadValue = "bad-value",
    /// A tool name that cannot be shown to anybody.
    BadName = "bad-name",
    /// The second tool of that name.
    DuplicateName = "duplicate-name",
    /// A target that the config does not have.
    UnknownTarget = "unknown-target",
    /// A chain that begins at no tool.
    UnknownSource = "unknown-source",
    /// A chain that never ends.
    CircularSource = "circular-source",
    /// A chain that stands on a tool with an error.
    BrokenSource = "broken-source",
    /// A source tool that its target does not offer.
    MissingSource = "missing-source",
    /// A reference to a named schema that is malformed or leads nowhere.
    BadReference = "bad-reference",
    /// A schema that is not one.
    BadSchema = "bad-schema",
    /// A placeholder that cannot be replaced.
    BadPlaceholder = "bad-placeholder",
    /// A value that does not fit the field it is meant for.
    BadDefault = "bad-default",
    /// A field path that cannot be read.
    BadField = "bad-field",
    /// A JSONPath that is wrong or over a limit.
    BadPath = "bad-path",
    /// A field that the source does not have.
    UnknownField = "unknown-field",
    /// A field that cannot be hidden.
    CannotHide = "cannot-hide",
    /// An override that the source cannot accept.
    Incompatible = "incompatible",
    /// A virtual tool that takes the name of a target's tool.
    Shadowed = "shadowed",
    /// A source that is no longer what was pinned.
    Drift = "drift",
    /// A local tool that cannot be run.
    BadImplementation = "bad-implementation",
    /// Entries that contradict each other.
    Contradiction = "contradiction",
}

/// One problem and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What kind it is.
    pub code: Code,
    /// The index of the document among those that were compiled.
    pub document: usize,
    /// The tool it belongs to, by its name as far as it has one.
    pub tool: Option<String>,
    /// The place as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// The place in bytes of the document's text.
    pub span: Range<usize>,
    /// The whole sentence: the thing, what is wrong with it.
    pub message: String,
    /// A few words to stand under the caret.
    pub label: String,
    /// The next step, where one can be guessed.
    pub help: Option<String>,
}

impl Problem {
    /// Whether it costs the tool its place.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Line and column of a byte, both from 1, the column in characters.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    (line, before.get(line_start..).unwrap_or("").chars().count() + 1)
}

/// Hints are searched for so many problems, because each search is as long as the list; whoever has more reads the first ones.
pub(crate) const GUESSES: usize = 100;

/// The best of the candidates for a mistyped word, if one is near enough to be meant.
pub(crate) fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Long words are not compared: the comparison is quadratic, and nobody mistypes 10 kB.
    if word.len() > 128 {
        return None;
    }
    let near = candidates.into_iter().filter(|each| each.len() <= 128).map(|each| (strsim::jaro_winkler(word, each), each));
    near.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, each)| each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "{\n  \"é\": x\n}";
        for (at, expected) in [(0, (1, 1)), (2, (2, 1)), (4, (2, 3)), (text.find('x').unwrap(), (2, 8)), (text.len(), (3, 2)), (999, (3, 2))] {
            assert_eq!(position(text, at), expected, "{at}");
        }
    }

    #[test]
    fn a_near_miss_is_guessed_and_a_far_one_is_not() {
        let keys = ["hideFields", "defaults", "inputSchema"];
        for (word, expected) in [
            ("hidefields", Some("hideFields")),
            ("hideField", Some("hideFields")),
            ("default", Some("defaults")),
            ("inputSchma", Some("inputSchema")),
            ("zzz", None),
        ] {
            assert_eq!(did_you_mean(word, keys), expected, "{word}");
        }
        assert_eq!(did_you_mean(&"h".repeat(10_000), keys), None);
    }

    #[test]
    fn every_code_has_a_label_of_its_own() {
        let labels: std::collections::HashSet<_> = Code::ALL.iter().map(|code| code.label()).collect();
        assert_eq!(labels.len(), Code::ALL.len());
    }
}
