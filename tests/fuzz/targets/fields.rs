//! Field paths on values, written anew here so that a mistake of the engine cannot hide behind the same mistake in its test.

use regex::Regex;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// A step of `a.b[].c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Member(String),
    Each,
}

/// The steps of a path of plain names; `None` for anything more artful.
pub fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let name = part.trim_end_matches("[]");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$')) {
            return None;
        }
        steps.push(Step::Member(name.to_owned()));
        steps.extend((0..(part.len() - name.len()) / 2).map(|_| Step::Each));
    }
    Some(steps)
}

/// What a path can mean, also one with names that [`steps`] leaves alone: fields within fields, or one field of that very name.
pub fn readings(path: &str) -> [Vec<Step>; 2] {
    let within = path.split('.').flat_map(|part| {
        let name = part.trim_end_matches("[]");
        let each = (part.len() - name.len()) / 2;
        std::iter::once(Step::Member(name.to_owned())).chain(std::iter::repeat_n(Step::Each, each))
    });
    [within.collect(), vec![Step::Member(path.to_owned())]]
}

/// Everything at the end of these steps.
pub fn at<'v>(value: &'v Value, steps: &[Step]) -> Vec<&'v Value> {
    steps.iter().fold(vec![value], |found, step| match step {
        Step::Member(name) => found.into_iter().filter_map(|value| value.as_object()?.get(name)).collect(),
        Step::Each => found.into_iter().filter_map(Value::as_array).flatten().collect(),
    })
}

/// Whether something is at the end of these steps, by a reader to whom keys are the same if Unicode's compatibility caseless match (D146) says so once
/// nothing invisible is left of them.
pub fn has_folded(value: &Value, steps: &[Step]) -> bool {
    let found = steps.iter().fold(vec![value], |found, step| match step {
        Step::Member(name) => {
            let members = found.into_iter().filter_map(Value::as_object).flatten();
            members.filter(|(key, _)| caseless::compatibility_caseless_match_str(&visible(key), name)).map(|(_, value)| value).collect()
        }
        Step::Each => found.into_iter().filter_map(Value::as_array).flatten().collect(),
    });
    !found.is_empty()
}

/// What is seen of a name. Names of [`steps`] are seen whole.
fn visible(name: &str) -> Cow<'_, str> {
    static UNSEEN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[\p{Cc}\p{Default_Ignorable_Code_Point}\u{2028}\u{2029}]").expect("an expression of our own"));
    UNSEEN.replace_all(name, "")
}

/// The value with something at the end of these steps, whatever stands in the way.
pub fn with(value: &Value, steps: &[Step], end: &Value) -> Value {
    let Some((step, rest)) = steps.split_first() else { return end.clone() };
    match step {
        Step::Member(name) => {
            let mut members = value.as_object().cloned().unwrap_or_default();
            let inner = with(members.get(name).unwrap_or(&Value::Null), rest, end);
            members.insert(name.clone(), inner);
            Value::Object(members)
        }
        Step::Each => {
            let mut elements = value.as_array().cloned().unwrap_or_default();
            let inner = with(elements.first().unwrap_or(&Value::Null), rest, end);
            if elements.is_empty() {
                elements.push(inner);
            } else {
                elements[0] = inner;
            }
            Value::Array(elements)
        }
    }
}
