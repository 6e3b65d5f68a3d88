//! The text of a file as a tree in which every node knows its place. YAML and JSON alike, JSON being YAML.
//!
//! Knows syntax only; which keys there are and what they mean is the business of [`read`](crate::read) and
//! [`meant`](crate::meant).

use crate::problem::{Problem, Problems};
use crate::written::Place;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error as YamlError, Location, Spanned};
use std::fmt;

/// Larger than any config a person wrote; what lies beyond is refused before it costs anything.
pub const LARGEST_SOURCE: usize = 4 << 20;

/// The same for what a small file with aliases can grow into.
const MOST_NODES: usize = 100_000;

/// A value and where it stands.
pub struct Node {
    /// Its place; of a map or list, where it begins.
    pub place: Place,
    /// What it is.
    pub value: Value,
}

/// What a node can be.
pub enum Value {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number, as spelled.
    Number(String),
    /// Everything else.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and their values, in the order of the file.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// What a person would call it.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Boolean(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// A scalar as the file spells it: `007` and `1.10` keep every character.
    pub fn spelling(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            Value::Boolean(true) => Some("true"),
            Value::Boolean(false) => Some("false"),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Whether this is a map that has the key.
    pub fn has(&self, name: &str) -> bool {
        matches!(&self.value, Value::Map(entries) if entries.iter().any(|(key, _)| key.spelling() == Some(name)))
    }

    /// What a JSON pointer (RFC 6901) leads to, and the key it stands under; if it leads nowhere, the last step that leads somewhere.
    pub(crate) fn at(&self, pointer: &str) -> (Option<&Node>, &Node) {
        let (mut key, mut node) = (None, self);
        for step in pointer.split('/').skip(1) {
            let Some(next) = node.step(step) else { break };
            (key, node) = next;
        }
        (key, node)
    }

    /// What a JSON pointer (RFC 6901) leads to.
    pub fn find(&self, pointer: &str) -> Option<&Node> {
        pointer.split('/').skip(1).try_fold(self, |node, step| node.step(step).map(|(_, node)| node))
    }

    /// What a step of a JSON pointer leads to, and the key it stands under.
    fn step(&self, step: &str) -> Option<(Option<&Node>, &Node)> {
        let step = step.replace("~1", "/").replace("~0", "~");
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(name, _)| name.spelling() == Some(&step)).map(|(name, value)| (Some(name), value)),
            Value::List(items) => step.parse().ok().and_then(|index: usize| items.get(index)).map(|item| (None, item)),
            Value::Null | Value::Boolean(_) | Value::Number(_) | Value::Text(_) => None,
        }
    }

    /// Where it should be underlined: a scalar itself; of anything longer its key, or else where it begins.
    pub(crate) fn underlined(&self, key: Option<&Node>) -> Place {
        let begin = |first: Option<&Node>| key.or(first).map_or(self.place, |node| node.place);
        match &self.value {
            Value::Map(entries) => begin(entries.first().map(|(key, _)| key)),
            Value::List(items) => begin(items.first()),
            Value::Null => begin(None),
            Value::Boolean(_) | Value::Number(_) | Value::Text(_) => self.place,
        }
    }

    /// Whether the file says nothing at all.
    pub fn is_empty(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    fn nothing(source: usize) -> Node {
        Node { place: Place { source, start: 0, length: 0 }, value: Value::Null }
    }
}

/// Parses one source; a syntax error is noted, and then there is no tree.
pub fn parse(text: &str, source: usize, problems: &mut Problems) -> Option<Node> {
    if text.len() > LARGEST_SOURCE {
        let place = Place { source, start: 0, length: 0 };
        problems.add(Problem::error(place, format!("the file is larger than {} MiB", LARGEST_SOURCE >> 20)));
        return None;
    }
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        // Numbers are kept as spelled; whether one fits into a float is nobody's concern here.
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
        budget: serde_saphyr::budget! { max_nodes: MOST_NODES },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_NODES },
    };
    match serde_saphyr::from_str_with_options::<Option<Raw>>(text, options) {
        Ok(raw) => Some(raw.map_or_else(|| Node::nothing(source), |raw| raw.placed(text, source))),
        Err(error) => {
            problems.add(syntax_problem(text, source, &error));
            None
        }
    }
}

/// A syntax error in the words of the format the file seems to be in.
fn syntax_problem(text: &str, source: usize, error: &YamlError) -> Problem {
    if text.trim_start().starts_with('{')
        && let Err(json) = serde_json::from_str::<serde::de::IgnoredAny>(text)
    {
        return json_problem(text, source, &json);
    }
    let place = error.location().map_or(Place { source, start: 0, length: 0 }, |location| syntax_place(text, location, source));
    match error.without_snippet() {
        YamlError::DuplicateMappingKey { key: Some(key), .. } => {
            Problem::error(place, format!("key `{key}` is written twice")).label("the second one").help("keep one of them")
        }
        YamlError::MultipleDocuments { .. } => Problem::error(place, "the file has more than one document")
            .label("the second one begins here")
            .help("give each document a file of its own and repeat `-f`"),
        YamlError::UnknownAnchor { .. } => {
            Problem::error(place, "this alias refers to an anchor that is not defined above it").help("text that begins with `*` needs quotes")
        }
        YamlError::Budget { .. }
        | YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => {
            Problem::error(place, "the file is nested too deeply or grows too large when its aliases are expanded")
        }
        other => Problem::error(place, format!("not valid YAML: {}", plain_message(other)))
            .help("check the indentation, and quote text that contains `: `, ` #` or begins with one of `{ [ * & ! % @`"),
    }
}

/// serde_json says what and where in one string; the place is shown in the text, so only the what is kept.
fn json_problem(text: &str, source: usize, error: &serde_json::Error) -> Problem {
    let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let start = (line_start + error.column().saturating_sub(1)).min(text.len());
    let whole = error.to_string();
    let what = whole.split(" at line ").next().unwrap_or(&whole);
    Problem::error(Place { source, start, length: 1 }, format!("not valid JSON: {what}"))
}

/// The parser's own sentence without the place it appends.
fn plain_message(error: &YamlError) -> String {
    let whole = error.to_string();
    whole.split(" at line ").next().unwrap_or(&whole).to_owned()
}

fn place(location: Location, source: usize) -> Place {
    let number = |value: Option<u64>| value.and_then(|value| usize::try_from(value).ok()).unwrap_or(0);
    Place { source, start: number(location.span().byte_offset()), length: number(location.span().byte_len()) }
}

/// Of a syntax error serde-saphyr may know only line and column.
fn syntax_place(text: &str, location: Location, source: usize) -> Place {
    if location.span().byte_offset().is_some() {
        return place(location, source);
    }
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX).saturating_sub(1);
    let line_start = text.split_inclusive('\n').take(number(location.line())).map(str::len).sum::<usize>();
    let column = text.get(line_start..).unwrap_or_default().chars().take(number(location.column())).map(char::len_utf8).sum::<usize>();
    Place { source, start: line_start + column, length: 0 }
}

/// What serde-saphyr hands out: values with locations, numbers without their spelling.
struct Raw(Spanned<RawValue>);

enum RawValue {
    Null,
    Boolean(bool),
    Number,
    Text(String),
    List(Vec<Raw>),
    Map(Vec<(Spanned<String>, Raw)>),
}

impl Raw {
    /// Takes the spelling of numbers from the text.
    fn placed(self, text: &str, source: usize) -> Node {
        let Raw(Spanned { value, referenced, defined }) = self;
        let value = match value {
            RawValue::Null => Value::Null,
            RawValue::Boolean(value) => Value::Boolean(value),
            RawValue::Number => {
                let spelled = place(defined, source);
                Value::Number(text.get(spelled.start..spelled.start + spelled.length).unwrap_or_default().trim().to_owned())
            }
            RawValue::Text(value) => Value::Text(value),
            RawValue::List(items) => Value::List(items.into_iter().map(|item| item.placed(text, source)).collect()),
            RawValue::Map(entries) => {
                let key = |key: Spanned<String>| Node { place: place(key.referenced, source), value: Value::Text(key.value) };
                Value::Map(entries.into_iter().map(|(name, value)| (key(name), value.placed(text, source))).collect())
            }
        };
        Node { place: place(referenced, source), value }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Raw)
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = RawValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_unit<E>(self) -> Result<RawValue, E> {
                Ok(RawValue::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<RawValue, E> {
                Ok(RawValue::Boolean(value))
            }

            fn visit_i64<E>(self, _: i64) -> Result<RawValue, E> {
                Ok(RawValue::Number)
            }

            fn visit_u64<E>(self, _: u64) -> Result<RawValue, E> {
                Ok(RawValue::Number)
            }

            fn visit_i128<E>(self, _: i128) -> Result<RawValue, E> {
                Ok(RawValue::Number)
            }

            fn visit_u128<E>(self, _: u128) -> Result<RawValue, E> {
                Ok(RawValue::Number)
            }

            fn visit_f64<E>(self, _: f64) -> Result<RawValue, E> {
                Ok(RawValue::Number)
            }

            fn visit_str<E>(self, text: &str) -> Result<RawValue, E> {
                Ok(RawValue::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawValue, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(RawValue::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawValue, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(RawValue::Map(entries))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
