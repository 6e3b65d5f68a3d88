//! The output schema that clients see: the one that was written, without the words that say where values come from.

use transom_json::Tree;

/// Words that say where a value comes from. They mean nothing to a client.
pub(crate) const PATH_WORDS: [&str; 7] = ["sourceField", "source_field", "coalesce", "literal", "template", "vars", "onMissing"];

/// Schema words whose value is a schema, or a list of schemas.
pub(crate) const SCHEMAS: [&str; 16] = [
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
/// Schema words whose value is an object of schemas by name.
const NAMED_SCHEMAS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The schema without the path words, at any depth. A property that has such a name stays, and so does what `const`, `enum`,
/// `default` and `examples` hold.
pub fn advertised(output_schema: &Tree) -> Tree {
    let Tree::Object(members) = output_schema else { return output_schema.clone() };
    let kept = members.iter().filter(|(word, _)| !PATH_WORDS.contains(word));
    Tree::Object(kept.map(|(word, value)| (word.to_owned(), below(word, value))).collect())
}

fn below(word: &str, value: &Tree) -> Tree {
    match value {
        Tree::Array(schemas) if SCHEMAS.contains(&word) => Tree::Array(schemas.iter().map(advertised).collect()),
        Tree::Object(_) if SCHEMAS.contains(&word) => advertised(value),
        Tree::Object(schemas) if NAMED_SCHEMAS.contains(&word) => {
            Tree::Object(schemas.iter().map(|(name, schema)| (name.to_owned(), advertised(schema))).collect())
        }
        _ => value.clone(),
    }
}

/// The schemas directly inside a schema, each with its pointer from there.
pub(super) fn subschemas(schema: &Tree) -> Vec<(String, &Tree)> {
    let mut found = Vec::new();
    for (word, value) in schema.as_object().into_iter().flat_map(|members| members.iter()) {
        match value {
            Tree::Array(schemas) if SCHEMAS.contains(&word) => {
                found.extend(schemas.iter().enumerate().map(|(at, schema)| (format!("/{word}/{at}"), schema)));
            }
            Tree::Object(_) if SCHEMAS.contains(&word) => found.push((format!("/{word}"), value)),
            Tree::Object(schemas) if NAMED_SCHEMAS.contains(&word) => {
                found.extend(schemas.iter().map(|(name, schema)| (format!("/{word}/{}", token(name)), schema)));
            }
            _ => {}
        }
    }
    found
}

/// A name as a part of a JSON pointer.
pub(super) fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
