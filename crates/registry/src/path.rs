//! JSONPath (RFC 9535): what a field takes from a result.
//!
//! A path is bounded before anything reads it ([`outline`]). A singular query (`$.a['b'][0]`) walks the text itself; any other
//! is run by the `serde_json_path` crate on a form of the document that is made once, and what it finds is taken from the text
//! again, so that numbers keep their spelling. What a path may cost is known before it runs.

pub mod indexed;
mod located;
mod outline;
#[cfg(test)]
mod tests;

pub use indexed::{Indexed, Place};
pub use located::{Document, Forms};
use outline::{Query, Selector};
use serde_json_path::JsonPath;
use std::fmt;
use std::ops::Range;

/// Values that one path may look at in one result.
const BUDGET: u64 = 1_000_000;

/// What paths may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Lifts the bans on regular expressions, on `$` inside filters and on more than two `..`.
    pub full: bool,
}

/// A path that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadPath {
    /// Where in the text, in bytes.
    pub at: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

/// A path that would look at too many values of this document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path costs too much on a result of this size")]
pub struct TooMuchWork;

/// A path that was read once and can be run on any document.
#[derive(Clone, Debug)]
pub struct Path {
    text: Box<str>,
    run: Run,
}

#[derive(Clone, Debug)]
enum Run {
    /// Names and indexes only: at most one value.
    Walk(Vec<Step>),
    Query {
        query: JsonPath,
        outline: Query,
    },
}

#[derive(Clone, Debug)]
enum Step {
    Member(String),
    Element(i64),
}

impl Path {
    /// Reads a path.
    ///
    /// ```
    /// use transom_registry::path::{Path, Rules};
    /// assert!(Path::parse("$.data.current['temp_f']", &Rules::default()).unwrap().is_singular());
    /// let bad = Path::parse("data.temp", &Rules::default()).unwrap_err();
    /// assert_eq!(bad.help.as_deref(), Some("did you mean `$.data.temp`?"));
    /// ```
    pub fn parse(text: &str, rules: &Rules) -> Result<Path, BadPath> {
        let outline = outline::read(text, rules)?;
        let query = JsonPath::parse(text).map_err(|error| refused(text, &error))?;
        let run = match steps(&outline) {
            Some(steps) => Run::Walk(steps),
            None => Run::Query { query, outline },
        };
        Ok(Path { text: text.into(), run })
    }

    /// The path that leads from a value to its member of this name.
    pub fn member(name: &str) -> Path {
        let mut text = b"$[".to_vec();
        transom_json::write::string(&mut text, name);
        text.push(b']');
        Path { text: String::from_utf8_lossy(&text).into(), run: Run::Walk(vec![Step::Member(name.to_owned())]) }
    }

    /// The path that stays where it is: `$`.
    pub fn root() -> Path {
        Path { text: "$".into(), run: Run::Walk(Vec::new()) }
    }

    /// Whether it is a singular query: one that selects at most one value, whatever the document.
    pub fn is_singular(&self) -> bool {
        matches!(self.run, Run::Walk(_))
    }

    /// Whether it can find something in an object only: it begins with names.
    pub fn begins_with_name(&self) -> bool {
        match &self.run {
            Run::Walk(steps) => matches!(steps.first(), Some(Step::Member(_))),
            Run::Query { outline, .. } => outline
                .segments
                .first()
                .is_some_and(|first| !first.descendant && first.selectors.iter().all(|selector| matches!(selector, Selector::Name(_)))),
        }
    }

    /// Whether it stays where it is.
    pub fn is_root(&self) -> bool {
        matches!(&self.run, Run::Walk(steps) if steps.is_empty())
    }

    /// What it selects below `from`. `spent` counts what this path cost in this document so far.
    pub fn select(&self, document: &Document<'_, '_>, from: Place, spent: &mut u64) -> Result<Found, TooMuchWork> {
        let indexed = document.indexed();
        let nodes = indexed.count(from) as u64;
        *spent = spent.saturating_add(match &self.run {
            Run::Walk(steps) if steps.is_empty() => 1,
            Run::Walk(_) => nodes,
            Run::Query { outline, .. } => outline.work(nodes, indexed.depth() as u64),
        });
        if *spent > BUDGET {
            return Err(TooMuchWork);
        }
        Ok(match &self.run {
            Run::Walk(steps) => Found::One(walk(indexed, from, steps)),
            Run::Query { query, .. } => {
                let found = document.value(from).map(|value| query.query(value)).unwrap_or_default();
                Found::Many(found.iter().filter_map(|value| document.place(value)).collect())
            }
        })
    }
}

/// What a path selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// By a singular query.
    One(Option<Place>),
    /// By any other, in the order of RFC 9535.
    Many(Vec<Place>),
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn walk(indexed: &Indexed<'_>, from: Place, steps: &[Step]) -> Option<Place> {
    steps.iter().try_fold(from, |place, step| match step {
        Step::Member(name) => indexed.member(place, name),
        Step::Element(index) => indexed.element(place, *index),
    })
}

fn steps(outline: &Query) -> Option<Vec<Step>> {
    let step = |segment: &outline::Segment| match segment.selectors.as_slice() {
        [Selector::Name(name)] if !segment.descendant => Some(Step::Member(name.clone())),
        [Selector::Index(index)] if !segment.descendant => Some(Step::Element(*index)),
        _ => None,
    };
    outline.segments.iter().map(step).collect()
}

/// What the library does not accept. It says where, but seldom why.
fn refused(text: &str, error: &serde_json_path::ParseError) -> BadPath {
    let start = (0..=error.position().min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let rest = text.get(start..).unwrap_or_default();
    let message = match error.message() {
        reason if reason.contains("function") || reason.contains("argument") => reason.to_owned(),
        _ if rest.is_empty() => "the path ends too early".to_owned(),
        _ => format!("`{rest}` cannot be read as a part of a path"),
    };
    BadPath {
        at: start..text.len(),
        message,
        help: Some("paths are written as in RFC 9535, for example `$.items[*].name` or `$.items[?@.price < 10]`".into()),
    }
}
