//! What the shape of a projection does not guarantee: `enum`, `pattern`, `minimum` and their like.
//!
//! Clients check structured content against the advertised schema, and drop what breaks it; so it is checked here first.

use super::advertised::{PATH_WORDS, advertised, subschemas};
use super::plan::BadField;
use crate::path::Indexed;
use jsonschema::Validator;
use std::sync::Arc;
use transom_json::{Json, Tree};

/// Words that every projection keeps, or that demand nothing.
const KEPT: [&str; 20] = [
    "type",
    "properties",
    "items",
    "required",
    "$ref",
    "$defs",
    "definitions",
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "contentMediaType",
];

/// Checks projections against the advertised schema, if it demands more than their shape guarantees.
#[derive(Clone, Debug)]
pub struct Demands(Arc<Validator>);

impl Demands {
    /// What a schema demands; `None` if every projection meets it.
    pub fn of(schema: &Tree) -> Result<Option<Demands>, BadField> {
        if !demanding(schema) {
            return Ok(None);
        }
        let text = advertised(schema).to_string();
        let schema = Indexed::whole(&text).map(|schema| schema.value(schema.root())).unwrap_or_default();
        let validator = jsonschema::validator_for(&schema).map_err(|error| BadField {
            pointer: error.instance_path().to_string(),
            at: None,
            message: format!("this is not JSON Schema: {error}"),
            help: None,
        })?;
        Ok(Some(Demands(Arc::new(validator))))
    }

    /// Where a projection breaks them, as a JSON pointer. A `null` that stands for a missing value breaks nothing.
    pub fn broken(&self, projection: Json<'_>) -> Option<String> {
        let indexed = Indexed::whole(projection.raw())?;
        let value = indexed.value(indexed.root());
        if self.0.is_valid(&value) {
            return None;
        }
        self.0.iter_errors(&value).find(|error| !error.instance().is_null()).map(|error| error.instance_path().to_string())
    }
}

fn demanding(schema: &Tree) -> bool {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        let demands = |(word, value): (&str, &Tree)| match word {
            // A level with `properties` has no others.
            "additionalProperties" => value.as_bool().is_none() || schema.get("properties").is_none(),
            _ => !KEPT.contains(&word) && !PATH_WORDS.contains(&word) && !word.starts_with("x-"),
        };
        if schema.as_object().is_some_and(|members| members.iter().any(demands)) {
            return true;
        }
        open.extend(subschemas(schema).into_iter().map(|(_, schema)| schema));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    // Nothing is checked per result that its shape guarantees.
    #[test]
    fn a_schema_is_demanding_if_it_says_more_than_what_is_where() {
        let table = [
            (r#"{"type":"object","properties":{"a":{"type":"array","items":{"title":"t","sourceField":"$.x"}}},"required":["a"],"x-note":1}"#, false),
            (r#"{"properties":{},"additionalProperties":false}"#, false),
            (r#"{"additionalProperties":false}"#, true),
            (r#"{"properties":{},"additionalProperties":{"type":"string"}}"#, true),
            (r#"{"properties":{"a":{"items":{"minimum":1}}}}"#, true),
            (r#"{"anyOf":[{"type":"object"}]}"#, true),
            (r#"{"properties":{"minimum":{"type":"number"}}}"#, false),
        ];
        for (schema, expected) in table {
            assert_eq!(demanding(&Tree::from(Json::trusted(schema))), expected, "{schema}");
        }
    }
}
