//! The document as the JSONPath library wants it, made only if a path needs it.

use super::indexed::{Indexed, Place};
use serde_json::{Number, Value};
use std::cell::OnceCell;
use std::collections::HashMap;
use transom_json::Kind;

/// Room for the library's form of one document; it is filled when the first query needs it.
#[derive(Default)]
pub struct Forms(OnceCell<Value>);

/// A document that paths can be run on.
pub struct Document<'d, 't> {
    indexed: &'d Indexed<'t>,
    forms: &'d Forms,
    located: OnceCell<Located<'d>>,
}

/// Which value of the library's form stands for which place, both ways.
struct Located<'d> {
    values: Vec<Option<&'d Value>>,
    /// By address: the form is not changed while it is borrowed, so an address names one value. That saves spelling out the
    /// location of every match, and looking it up member by member.
    places: HashMap<*const Value, Place>,
}

impl<'d, 't> Document<'d, 't> {
    /// A document, and room for its other form.
    pub fn new(indexed: &'d Indexed<'t>, forms: &'d Forms) -> Document<'d, 't> {
        Document { indexed, forms, located: OnceCell::new() }
    }

    /// The text and its places.
    pub fn indexed(&self) -> &'d Indexed<'t> {
        self.indexed
    }

    /// The value at a place in the library's form.
    pub(super) fn value(&self, place: Place) -> Option<&'d Value> {
        self.located().values.get(place.number()).copied().flatten()
    }

    /// The place of a value that the library found.
    pub(super) fn place(&self, value: &Value) -> Option<Place> {
        self.located().places.get(&std::ptr::from_ref(value)).copied()
    }

    fn located(&self) -> &Located<'d> {
        self.located.get_or_init(|| {
            let root = self.indexed.root();
            let mut located = Located { values: vec![None; self.indexed.count(root)], places: HashMap::with_capacity(self.indexed.count(root)) };
            let mut open = vec![(root, self.forms.0.get_or_init(|| self.indexed.value(root)))];
            while let Some((place, value)) = open.pop() {
                if let Some(slot) = located.values.get_mut(place.number()) {
                    *slot = Some(value);
                }
                located.places.insert(std::ptr::from_ref(value), place);
                match value {
                    Value::Array(elements) => open.extend(self.indexed.children(place).zip(elements)),
                    // Of equal keys only the last has a value of its own.
                    Value::Object(members) => open.extend(members.iter().filter_map(|(key, value)| Some((self.indexed.member(place, key)?, value)))),
                    _ => {}
                }
            }
            located
        })
    }
}

impl Indexed<'_> {
    /// A value as `serde_json` has it, to be compared or validated. It does not keep the spelling of numbers, so it is never
    /// sent. Recursion is bounded by the depth that an index admits.
    pub fn value(&self, place: Place) -> Value {
        let json = self.json(place);
        match json.kind() {
            Kind::Object => Value::Object(self.children(place).map(|child| (self.key(child).into_owned(), self.value(child))).collect()),
            Kind::Array => Value::Array(self.children(place).map(|child| self.value(child)).collect()),
            Kind::String => Value::String(json.string().unwrap_or_default().into_owned()),
            Kind::Number => Value::Number(number(json.raw())),
            Kind::Bool => Value::Bool(json.raw() == "true"),
            Kind::Null => Value::Null,
        }
    }
}

/// A number to be compared with in filters; what is copied is the spelling. `1e400` counts as the largest number there is.
fn number(raw: &str) -> Number {
    let whole = raw.parse::<i64>().map(Number::from).or_else(|_| raw.parse::<u64>().map(Number::from)).ok();
    let float = || raw.parse::<f64>().ok().and_then(|float| Number::from_f64(float.clamp(f64::MIN, f64::MAX)));
    whole.or_else(float).unwrap_or_else(|| Number::from(0))
}
