//! Schemas of OpenAPI as JSON Schema.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Schemas that one tool may bring along.
const MOST_NAMED: usize = 200;

/// Words of OpenAPI that JSON Schema does not have.
const OWN_WORDS: [&str; 5] = ["xml", "discriminator", "externalDocs", "example", "nullable"];

/// A schema as JSON Schema, and the names of the components that it refers to.
pub fn converted(schema: &Value, named: &mut BTreeSet<String>) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (word, value) in members {
        match (word.as_str(), value) {
            ("$ref", Value::String(reference)) => match reference.strip_prefix("#/components/schemas/") {
                Some(name) => {
                    named.insert(name.to_owned());
                    out.insert("$ref".into(), format!("#/$defs/{name}").into());
                }
                // Another document, or a part of this one that is no schema: anything.
                None => drop(out.insert("description".into(), format!("see {reference}").into())),
            },
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(properties)) => {
                let properties: Map<String, Value> = properties.iter().map(|(name, property)| (name.clone(), converted(property, named))).collect();
                out.insert(word.clone(), properties.into());
            }
            ("items" | "additionalProperties" | "not" | "contains", value) => drop(out.insert(word.clone(), converted(value, named))),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(parts)) => {
                let parts: Vec<Value> = parts.iter().map(|part| converted(part, named)).collect();
                out.insert(word.clone(), parts.into());
            }
            // In 3.0 these are switches on the inclusive bound.
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(is_exclusive)) => {
                let inclusive = if word == "exclusiveMinimum" { "minimum" } else { "maximum" };
                if let (true, Some(bound)) = (is_exclusive, members.get(inclusive)) {
                    out.insert(word.clone(), bound.clone());
                }
            }
            ("minimum", _) if members.get("exclusiveMinimum") == Some(&Value::Bool(true)) => {}
            ("maximum", _) if members.get("exclusiveMaximum") == Some(&Value::Bool(true)) => {}
            (word, _) if OWN_WORDS.contains(&word) || word.starts_with("x-") => {}
            _ => drop(out.insert(word.clone(), value.clone())),
        }
    }
    if members.get("nullable") == Some(&Value::Bool(true)) {
        return nullable(out);
    }
    out.into()
}

fn nullable(mut schema: Map<String, Value>) -> Value {
    match schema.get_mut("type") {
        Some(kind @ Value::String(_)) => {
            *kind = json!([kind, "null"]);
            if let Some(Value::Array(values)) = schema.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
            schema.into()
        }
        Some(_) => schema.into(),
        None => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}

/// The components that a tool needs, and those that they need.
pub fn definitions(document: &Value, mut wanted: BTreeSet<String>) -> Map<String, Value> {
    let mut out = Map::new();
    while let Some(name) = wanted.pop_first() {
        let Some(schema) = document.pointer("/components/schemas").and_then(|schemas| schemas.get(&name)) else { continue };
        if out.len() >= MOST_NAMED || out.contains_key(&name) {
            continue;
        }
        let mut further = BTreeSet::new();
        out.insert(name, converted(schema, &mut further));
        wanted.extend(further.into_iter().filter(|name| !out.contains_key(name)));
    }
    out
}
