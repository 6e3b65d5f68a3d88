//! Input schemas for providers that read JSON Schema: an object at the top, without a choice there, and nothing that is known to
//! be refused further down.

use super::merge::plain;
use transom_json::{Json, Kind, Object, Tree};

/// The input schema of a tool as an object with `properties`.
pub fn object(definition: Json<'_>) -> Object {
    let written = definition.get("inputSchema").filter(|schema| schema.kind() == Kind::Object).map(Tree::from);
    let mut schema = match &written {
        Some(root @ Tree::Object(schema)) => plain(root, schema),
        _ => Object::default(),
    };
    // Providers take an object and look for nothing else at the top.
    for word in ["not", "enum", "const", "nullable"] {
        schema.remove(word);
    }
    schema.insert("type", "object".into());
    if schema.get("properties").and_then(Tree::as_object).is_none() {
        schema.insert("properties", Tree::object());
    }
    tidy(&mut schema);
    schema
}

/// Makes good what is sound JSON Schema and refused all the same: arrays that do not say of what, properties that are `true`.
/// The depth is that of a definition, which is bounded where it is read.
fn tidy(schema: &mut Object) {
    let is_array =
        schema.get("type").is_some_and(|kind| kind.as_str() == Some("array") || kind.as_array().is_some_and(|of| of.contains(&"array".into())));
    if is_array && !schema.contains_key("items") && !schema.contains_key("prefixItems") {
        schema.insert("items", Tree::object());
    }
    let mut impossible = Vec::new();
    for (word, value) in schema.iter_mut() {
        match (word, value) {
            ("properties" | "$defs" | "definitions", Tree::Object(members)) => {
                members.retain(|name, member| {
                    let can_be = *member != Tree::Bool(false);
                    if !can_be && word == "properties" {
                        impossible.push(name.to_owned());
                    }
                    can_be || word != "properties"
                });
                for (_, member) in members.iter_mut() {
                    tidy_one(member);
                }
            }
            ("items" | "additionalProperties" | "not" | "contains", member @ Tree::Object(_)) => tidy_one(member),
            ("items" | "prefixItems" | "anyOf" | "oneOf" | "allOf", Tree::Array(members)) => members.iter_mut().for_each(tidy_one),
            _ => {}
        }
    }
    match schema.get_mut("required") {
        Some(Tree::Array(required)) => required.retain(|name| name.as_str().is_some_and(|name| !impossible.iter().any(|other| other == name))),
        // `required: true` on a property was never JSON Schema of this century.
        Some(_) => drop(schema.remove("required")),
        None => {}
    }
}

fn tidy_one(schema: &mut Tree) {
    match schema {
        Tree::Object(schema) => tidy(schema),
        anything @ Tree::Bool(true) => *anything = Tree::object(),
        _ => {}
    }
}
