//! What is wrong with arguments, told in one refusal, and what may be mended instead.

use super::{Refusal, Rejected, refusal};
use crate::list::read_as;
use crate::source::plain;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use transom_json::{Json, write};

/// Nobody repairs more than this at once.
pub(super) const VIOLATIONS: usize = 100;

/// What is wrong with arguments, as far as it was looked at.
#[derive(Default)]
pub(super) struct Findings {
    reason: Option<Rejected>,
    /// Names that may not be there, for whichever reason: they must read the same. Sorted, lest the order tell one from another.
    pub(super) unknown: BTreeSet<String>,
    pub(super) violations: Vec<String>,
    /// Hidden arguments that are left out.
    pub(super) dropped: Vec<Vec<String>>,
}

impl Findings {
    pub(super) fn reject(&mut self, reason: Rejected) {
        self.reason = Some(self.reason.map_or(reason, |worst| worst.min(reason)));
    }

    pub(super) fn violation(&mut self, violation: Violation) {
        match violation {
            Violation::Unknown { at, names, .. } => {
                self.reject(Rejected::UnknownArgument);
                self.unknown.extend(names.iter().map(|name| dotted(at.iter().chain([name]))));
            }
            Violation::Type { message, .. } | Violation::Other(message) => {
                self.reject(Rejected::Invalid);
                self.violations.push(message);
            }
        }
    }

    pub(super) fn refusal(self) -> Option<Refusal> {
        let reason = self.reason?;
        let unknown = self.unknown.iter().map(|name| format!("Unknown argument {}", write::quoted(&shortened(name, 128))));
        let mut violations: Vec<String> = unknown.collect();
        violations.extend(self.violations);
        violations.truncate(VIOLATIONS);
        Some(refusal(violations, reason))
    }
}

/// What a validator complains about.
pub(super) enum Violation {
    Unknown { at: Vec<String>, names: Vec<String>, unevaluated: bool },
    Type { at: Vec<String>, names: Vec<&'static str>, message: String },
    Other(String),
}

impl Violation {
    pub(super) fn of(error: &jsonschema::ValidationError<'_>) -> Violation {
        let place = error.instance_path().to_string();
        let steps = || place.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        let message = || {
            let text = shortened(&error.to_string(), 400).into_owned();
            if place.is_empty() { text } else { format!("{place}: {text}") }
        };
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                Violation::Unknown { at: steps(), names: unexpected.clone(), unevaluated: false }
            }
            ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                Violation::Unknown { at: steps(), names: unexpected.clone(), unevaluated: true }
            }
            ValidationErrorKind::Type { kind } => {
                let all = ["integer", "number", "boolean"];
                let wanted = match kind {
                    TypeKind::Single(one) => vec![one.to_string()],
                    TypeKind::Multiple(several) => several.iter().map(|each| each.to_string()).collect(),
                };
                let names = all.into_iter().filter(|name| wanted.iter().any(|each| each == name)).collect();
                Violation::Type { at: steps(), names, message: message() }
            }
            _ => Violation::Other(message()),
        }
    }
}

/// Changes to what the caller sent, by JSON pointer: left out, or another value.
#[derive(Default)]
pub(super) struct Edits(pub(super) HashMap<String, Option<String>>);

/// A string in place of which one of these types is wanted, read as that: its new spelling. Changes the instance too.
pub(super) fn coerced(instance: &mut Value, at: &[String], names: &[&str]) -> Option<String> {
    let place = instance.pointer_mut(&pointer(at))?;
    let tree = names.iter().find_map(|name| read_as(place.as_str()?, name))?;
    let text = tree.to_string();
    *place = plain(Json::trusted(&text));
    Some(text)
}

/// Takes a member out of the instance.
pub(super) fn remove(instance: &mut Value, path: &[String]) -> bool {
    let Some((name, parents)) = path.split_last() else { return false };
    let object = instance.pointer_mut(&pointer(parents)).and_then(Value::as_object_mut);
    object.is_some_and(|object| object.shift_remove(name).is_some())
}

pub(super) fn pointer<'s>(steps: impl IntoIterator<Item = &'s String>) -> String {
    steps.into_iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

pub(super) fn dotted<'s>(steps: impl IntoIterator<Item = &'s String>) -> String {
    steps.into_iter().map(String::as_str).collect::<Vec<_>>().join(".")
}

pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most { Cow::Borrowed(text) } else { Cow::Owned(text.chars().take(most).chain(['…']).collect()) }
}
