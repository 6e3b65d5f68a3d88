//! Schemas that no validator takes as a whole: a reference that leads elsewhere or nowhere, an expression that cannot be read.
//!
//! One such part must not switch off the rest, or a target could open what a registry closed. The part that cannot be judged is
//! left to the target; everything else is held.

use jsonschema::Validator;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

/// A validator for a schema, or for as much of it as can be judged.
pub(crate) fn validator(schema: &Value) -> Option<Validator> {
    jsonschema::validator_for(schema).or_else(|_| jsonschema::validator_for(&loosened(schema, schema))).ok()
}

/// A schema without what cannot be judged. As deep as the schema, which is bounded.
fn loosened(schema: &Value, root: &Value) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let mut kept = Map::new();
    let mut anything = false;
    for (word, value) in members {
        let value = match (word.as_str(), value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", reference) if !leads_somewhere(reference, root) => {
                anything = true;
                continue;
            }
            ("pattern", pattern) if !is_readable(pattern) => continue,
            ("patternProperties", Value::Object(patterns)) => {
                let readable = patterns.iter().filter(|(pattern, _)| is_readable(&json!(pattern)));
                Value::Object(readable.map(|(pattern, schema)| (pattern.clone(), loosened(schema, root))).collect())
            }
            ("properties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                Value::Object(schemas.iter().map(|(name, schema)| (name.clone(), loosened(schema, root))).collect())
            }
            ("const" | "enum" | "default" | "examples", data) => data.clone(),
            (_, Value::Array(schemas)) => Value::Array(schemas.iter().map(|schema| loosened(schema, root)).collect()),
            (_, schema) => loosened(schema, root),
        };
        kept.insert(word.clone(), value);
    }
    if anything {
        // What it referred to may have declared any name; a level that takes only declared ones must not refuse them for that.
        kept.entry("additionalProperties").or_insert(Value::Bool(true));
        kept.entry("items").or_insert(Value::Bool(true));
    }
    Value::Object(kept)
}

/// Whether a reference stays in the schema and finds something there.
fn leads_somewhere(reference: &Value, root: &Value) -> bool {
    let Some(pointer) = reference.as_str().and_then(|reference| reference.strip_prefix('#')) else { return false };
    percent_decode_str(pointer).decode_utf8().is_ok_and(|pointer| root.pointer(&pointer).is_some())
}

fn is_readable(pattern: &Value) -> bool {
    jsonschema::validator_for(&json!({ "pattern": pattern })).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_that_cannot_be_judged_does_not_switch_off_the_rest() {
        for part in [
            json!({ "$ref": "https://example.com/x.json" }),
            json!({ "$ref": "#/$defs/Nope" }),
            json!({ "$ref": "other.json#/a" }),
            json!({ "type": "string", "pattern": "[" }),
            json!({ "type": "array", "items": { "anyOf": [{ "$ref": "https://example.com/x.json" }] } }),
            json!({ "patternProperties": { "(": { "type": "string" } } }),
        ] {
            let schema = json!({ "type": "object", "properties": { "part": part, "b": { "type": "integer" } }, "additionalProperties": false });
            assert!(jsonschema::validator_for(&schema).is_err(), "{schema}");
            let validator = validator(&schema).unwrap();
            for (arguments, expected) in [(json!({ "b": 1 }), true), (json!({ "b": "x" }), false), (json!({ "zzz": 1 }), false)] {
                assert_eq!(validator.is_valid(&arguments), expected, "{schema} {arguments}");
            }
        }
    }

    #[test]
    fn what_a_lost_reference_may_have_declared_is_not_refused() {
        let schema = json!({ "allOf": [{ "$ref": "https://example.com/x.json" }], "properties": { "b": { "type": "integer" } }, "unevaluatedProperties": false });
        let validator = validator(&schema).unwrap();
        assert!(validator.is_valid(&json!({ "a": 1, "b": 1 })));
        assert!(!validator.is_valid(&json!({ "b": "x" })));
    }

    #[test]
    fn data_is_no_schema() {
        let schema = json!({ "properties": { "a": { "const": { "$ref": "x" } }, "$ref": { "pattern": "[" } } });
        let loose = loosened(&schema, &schema);
        assert_eq!(loose, json!({ "properties": { "a": { "const": { "$ref": "x" } }, "$ref": {} } }));
    }
}
