//! What must hold for every schema, tried on random ones. The judge is the validator that judges calls.

use super::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::{Map, Value, json};
use transom_json::{Limits, check};

const NAMES: [&str; 3] = ["a", "b", "c"];
const PATHS: [&str; 10] = ["a", "b", "c", "a.b", "b.a", "a.b.c", "a[].b", "b[].a", "a[][].b", "a.b[].c"];

/// Decisions, drawn from bytes so that a failing case shrinks; without bytes the smallest choice.
struct Dice<'a> {
    bytes: std::slice::Iter<'a, u8>,
    /// Every schema declares every name, so that closing a level costs callers nothing but the hidden one.
    all_declared: bool,
}

impl Dice<'_> {
    fn below(&mut self, sides: usize) -> usize {
        self.bytes.next().map_or(0, |byte| usize::from(*byte) % sides)
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }

    fn names(&mut self) -> Vec<&'static str> {
        NAMES.into_iter().filter(|_| self.below(2) == 1).collect()
    }

    /// A schema. `here` are references that may describe the value itself, `inside` those for its members: only they may
    /// lead back, or a validator would never end.
    fn schema(&mut self, depth: usize, here: &[&str], inside: &[&str]) -> Value {
        if depth == 0 {
            return match self.below(6) {
                0 => json!({}),
                1 => json!(true),
                2 => json!({"type": "string"}),
                3 => json!({"type": ["object", "null"]}),
                4 => json!(false),
                _ => self.reference(here),
            };
        }
        let mut schema = Map::new();
        for _ in 0..self.below(4) {
            let (keyword, value) = self.keyword(depth - 1, here, inside);
            schema.insert(keyword.into(), value);
        }
        if self.all_declared || self.below(3) > 0 {
            schema.insert("properties".into(), self.properties(depth - 1, inside));
        }
        Value::Object(schema)
    }

    fn keyword(&mut self, depth: usize, here: &[&str], inside: &[&str]) -> (&'static str, Value) {
        let some = |dice: &mut Self| Value::Array((0..=dice.below(2)).map(|_| dice.schema(depth, here, inside)).collect());
        match self.below(26) {
            0 => ("required", json!(self.names())),
            1 => ("allOf", some(self)),
            2 => ("anyOf", some(self)),
            3 => ("oneOf", some(self)),
            4 => ("if", self.schema(depth, here, inside)),
            5 => ("then", self.schema(depth, here, inside)),
            6 => ("else", self.schema(depth, here, inside)),
            7 => ("not", self.schema(depth, here, inside)),
            8 => ("additionalProperties", self.schema(depth, inside, inside)),
            9 => ("unevaluatedProperties", self.schema(depth, inside, inside)),
            10 => ("patternProperties", json!({[".", "^a", "[bc]"][self.below(3)]: self.schema(depth, inside, inside)})),
            11 => ("propertyNames", json!({"enum": ["x", self.name(), "y"]})),
            12 => ("dependentRequired", json!({self.name(): self.names()})),
            13 => ("dependentSchemas", json!({self.name(): self.schema(depth, here, inside)})),
            14 => ("dependencies", json!({self.name(): self.schema(depth, here, inside)})),
            15 => ("items", self.schema(depth, inside, inside)),
            // A tuple whose elements lose a name is closed behind its end.
            16 if !self.all_declared => ("prefixItems", json!([self.schema(depth, inside, inside)])),
            17 => ("unevaluatedItems", self.schema(depth, inside, inside)),
            18 => ("contains", self.schema(depth, inside, inside)),
            19 => ("minProperties", json!(self.below(3))),
            20 => ("const", self.value(2)),
            21 => ("enum", json!([self.value(2), "z"])),
            22 => ("examples", json!([self.value(2)])),
            23 => ("type", json!(["object", "array"][self.below(2)])),
            24 => ("title", json!("a")),
            _ => match self.reference(here) {
                Value::Object(mut reference) => ("$ref", reference.remove("$ref").unwrap_or_default()),
                _ => ("description", json!("b")),
            },
        }
    }

    fn properties(&mut self, depth: usize, inside: &[&str]) -> Value {
        let names = if self.all_declared { NAMES.to_vec() } else { self.names() };
        Value::Object(names.into_iter().map(|name| (name.to_owned(), self.schema(depth, inside, inside))).collect())
    }

    fn reference(&mut self, to: &[&str]) -> Value {
        if to.is_empty() { json!(true) } else { json!({"$ref": to[self.below(to.len())]}) }
    }

    fn document(&mut self) -> Value {
        let mut schema = self.schema(3, &["#/$defs/one", "#/$defs/two"], &["#/$defs/one", "#/$defs/two"]);
        let definitions = json!({
            "one": {"properties": self.properties(1, &["#/$defs/two", "#/$defs/one", "#"]), "$ref": "#/$defs/two"},
            "two": {"properties": self.properties(1, &["#/$defs/two", "#/$defs/one", "#"]), "required": self.names()},
        });
        schema["$defs"] = definitions;
        schema["type"] = json!("object");
        match self.below(6) {
            4 => schema["$schema"] = json!("http://json-schema.org/draft-07/schema#"),
            5 => schema["$schema"] = json!("https://json-schema.org/draft/2019-09/schema"),
            _ => {}
        }
        schema
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 3 } else { 7 }) {
            0 => json!("s"),
            1 => json!(1),
            2 => Value::Null,
            3 => Value::Array((0..self.below(3)).map(|_| self.value(depth - 1)).collect()),
            _ => Value::Object(self.names().into_iter().map(|name| (name.to_owned(), self.value(depth - 1))).collect()),
        }
    }

    /// A value that has something at the end of the steps.
    fn value_with(&mut self, steps: &[Step]) -> Value {
        match steps.split_first() {
            None => self.value(2),
            Some((Step::Items, rest)) => {
                let mut elements: Vec<Value> = (0..self.below(2)).map(|_| self.value(2)).collect();
                elements.push(self.value_with(rest));
                Value::Array(elements)
            }
            Some((Step::Member(name), rest)) => {
                let mut members: Map<String, Value> = self.names().into_iter().map(|name| (name.to_owned(), self.value(2))).collect();
                members.insert(name.clone(), self.value_with(rest));
                Value::Object(members)
            }
        }
    }
}

fn tree(value: &Value) -> Tree {
    Tree::from(check(value.to_string().as_bytes(), &Limits::REPLY).unwrap())
}

fn value(tree: &Tree) -> Value {
    serde_json::from_str(&tree.to_string()).unwrap()
}

fn hide(schema: &Tree, path: &FieldPath, filled: bool) -> Result<Shown, CannotShow> {
    let defaults = if filled { vec![DefaultValue { path, value: None }] } else { Vec::new() };
    let hidden = std::slice::from_ref(path);
    show(&Wanted { source: schema, replacement: None, renames: &[], hidden, defaults: &defaults, hide_defaulted: false })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    // A9
    #[test]
    fn no_value_that_a_shown_schema_accepts_has_what_is_hidden(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut dice = Dice { bytes: bytes.iter(), all_declared: false };
        let path = FieldPath::parse(PATHS[dice.below(PATHS.len())]).unwrap();
        let filled = dice.below(2) == 1;
        let document = dice.document();
        let source = tree(&document);
        let Ok(shown) = hide(&source, &path, filled) else { return Ok(()) };

        if shown.notices.iter().any(|notice| matches!(notice, Notice::NothingToHide { .. })) {
            // S4: what is not there changes nothing.
            prop_assert_eq!(shown.schema.to_string().replace(r#""default":"#, ""), source.to_string().replace(r#""default":"#, ""));
            return Ok(());
        }
        let schema = value(&shown.schema);
        let validator = jsonschema::validator_for(&schema);
        prop_assert!(validator.is_ok(), "{document}\nwithout {path}\n{schema}\n{:?}", validator.err());
        let validator = validator.unwrap();
        for _ in 0..40 {
            let instance = dice.value_with(path.steps());
            prop_assert!(!validator.is_valid(&instance), "{document}\nwithout {path}\n{schema}\naccepts {instance}");
        }
        let again = hide(&shown.schema, &path, filled);
        let again = again.map(|again| again.schema.to_string());
        prop_assert_eq!(again, Ok(shown.schema.to_string()), "{} without {}, twice", document, path);
    }
}

fn contains(value: &Value, steps: &[Step]) -> bool {
    match steps.split_first() {
        None => true,
        Some((Step::Items, rest)) => value.as_array().is_some_and(|list| list.iter().any(|each| contains(each, rest))),
        Some((Step::Member(name), rest)) => value.get(name).is_some_and(|inner| contains(inner, rest)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_callers_could_send_without_the_hidden_name_they_still_can(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut dice = Dice { bytes: bytes.iter(), all_declared: true };
        let path = FieldPath::parse(PATHS[dice.below(PATHS.len())]).unwrap();
        let document = dice.document();
        let source = tree(&document);
        let Ok(shown) = hide(&source, &path, true) else { return Ok(()) };
        let schema = value(&shown.schema);
        let (before, after) = (jsonschema::validator_for(&document).unwrap(), jsonschema::validator_for(&schema).unwrap());
        for _ in 0..40 {
            let instance = dice.value_with(&[]);
            if instance.is_object() && !contains(&instance, path.steps()) && before.is_valid(&instance) {
                prop_assert!(after.is_valid(&instance), "{document}\nwithout {path}\n{schema}\nrefuses {instance}");
            }
        }
    }
}

#[test]
fn no_example_beside_a_reference_of_an_older_dialect_tells_a_hidden_name() {
    let document = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": {"o": {"$ref": "#/definitions/o", "examples": [{"a": 1, "b": 2}]}},
        "definitions": {"o": {"properties": {"b": {}}}},
    });
    let shown = hide(&tree(&document), &FieldPath::parse("o.a").unwrap(), true).unwrap();
    assert_eq!(value(&shown.schema)["properties"]["o"]["examples"], json!([{"b": 2}]), "{}", shown.schema);
}

/// A property over refusals alone would prove nothing.
#[test]
fn most_random_schemas_can_be_shown() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    let (mut shown, mut refused) = (0, 0);
    for _ in 0..2_000 {
        let drawn = bytes.new_tree(&mut runner).unwrap().current();
        let mut dice = Dice { bytes: drawn.iter(), all_declared: false };
        let path = FieldPath::parse(PATHS[dice.below(PATHS.len())]).unwrap();
        match hide(&tree(&dice.document()), &path, true) {
            Ok(found) if found.notices.is_empty() => shown += 1,
            Ok(_) => {}
            Err(_) => refused += 1,
        }
    }
    assert!(shown > refused, "{shown} shown, {refused} refused");
}
