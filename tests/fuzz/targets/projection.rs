//! `{schema, reply}`: what a projection does not select is in no part of what comes out, and of a reply that cannot be shaped
//! nothing comes out at all.

use crate::world::{CANARY, is_json, read};
use serde_json::Value;
use transom_json::{Json, Tree, write};
use transom_registry::path::Rules;
use transom_registry::result::{Errors, OnMissing, Outcome, Projection, Shaping};

pub const WORDS: &[&str] = &[
    "schema",
    "reply",
    "type",
    "object",
    "array",
    "string",
    "number",
    "integer",
    "boolean",
    "null",
    "properties",
    "items",
    "required",
    "sourceField",
    "coalesce",
    "template",
    "vars",
    "literal",
    "$.a",
    "$.a.t",
    "$..n",
    "$.l[*]",
    "$.l[?@.x]",
    "$",
    "$.p",
    "$.q[0]",
    "{x}-{y}",
    "x",
    "y",
    "a",
    "t",
    "n",
    "l",
    "p",
    "q",
    "k",
    "additionalProperties",
    "enum",
    "const",
    "default",
    "isError",
    "content",
    "structuredContent",
    "$ref",
    "#/$defs/T",
    "$defs",
    "T",
    "1e400",
    "minimum",
];

/// What the fixed projection takes: `a.t`, every `n`, `x` of the elements of `l`, `p` and the first of `q`.
const FIXED: &str = r#"{"type":"object","properties":{"t":{"type":"number","sourceField":"$.a.t"},"n":{"type":"array","sourceField":"$..n"},
    "l":{"type":"array","sourceField":"$.l","items":{"type":"object","properties":{"x":{"type":"string","sourceField":"$.x"}}}},
    "c":{"coalesce":["$.p","$.q[0]"]},"w":{"template":"{x}-{y}","vars":{"x":"$.p","y":"$.a.t"}},"k":{"literal":1}}}"#;

pub fn run(bytes: &[u8]) {
    let Some(input) = read(bytes) else { return };
    let reply = input.get("reply").unwrap_or(input);
    fixed(reply);
    if let Some(schema) = input.get("schema") {
        any(schema, reply);
    }
}

fn results(document: &str) -> [String; 3] {
    [
        format!(r#"{{"content":[{{"type":"text","text":"{CANARY}"}}],"structuredContent":{document},"x":"{CANARY}"}}"#),
        format!(r#"{{"content":[{{"type":"image","data":"{CANARY}"}}],"structuredContent":{document}}}"#),
        format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, write::quoted(document)),
    ]
}

/// A projection that is known, and any reply.
fn fixed(reply: Json<'_>) {
    std::thread_local! {
        static PROJECTION: Projection = Projection::compile(&Tree::from(Json::trusted(FIXED)), &Rules::default(), &Shaping::default())
            .expect("the schema compiles").expect("it takes something");
    }
    let hidden = format!(r#"{{"hidden_{CANARY}":"{CANARY}","value":{}}}"#, reply.raw());
    for result in results(reply.raw()).into_iter().take(1).chain(results(&hidden)) {
        let shaped = PROJECTION.with(|projection| projection.apply(Json::trusted(&result), true).json.into_owned());
        assert!(is_json(&shaped), "{shaped}");
        if !reply.raw().contains("CANARY") {
            assert!(!shaped.contains(CANARY), "{result} became {shaped}");
        }
    }
}

/// Any projection, and a reply with something hidden in every object.
fn any(schema: Json<'_>, reply: Json<'_>) {
    let tree = Tree::from(schema);
    for on_missing in [OnMissing::Omit, OnMissing::Error] {
        let shaping = Shaping { on_missing, errors: Errors::Generic, ..Shaping::default() };
        let Ok(Some(projection)) = Projection::compile(&tree, &Rules::default(), &shaping) else { return };
        if schema.raw().contains("CANARY") || reply.raw().contains("CANARY") {
            return;
        }
        let marked = marked(reply);
        for result in results(&marked) {
            let shaped = projection.apply(Json::trusted(&result), true);
            assert!(is_json(&shaped.json), "{}", shaped.json);
            match shaped.outcome {
                Outcome::Projected if takes_scalars_only(schema) => {
                    assert!(!shaped.json.contains(CANARY), "{} took {} from {result}", schema.raw(), shaped.json);
                }
                Outcome::Projected => {}
                Outcome::Refused(_) | Outcome::Generic => {
                    let read: Value = serde_json::from_str(&shaped.json).expect("an error is JSON");
                    assert_eq!(read["isError"], true, "{}", shaped.json);
                    assert!(read.get("structuredContent").is_none() && !shaped.json.contains(CANARY), "{} told {}", schema.raw(), shaped.json);
                }
                Outcome::Passed => panic!("{} let {result} through", schema.raw()),
            }
        }
    }
}

/// The reply with a member in every object that no path names.
fn marked(json: Json<'_>) -> String {
    fn mark(value: &mut Tree) {
        match value {
            Tree::Object(members) => {
                members.iter_mut().for_each(|(_, value)| mark(value));
                members.insert("zz", Tree::from(CANARY));
            }
            Tree::Array(elements) => elements.iter_mut().for_each(mark),
            _ => {}
        }
    }
    let mut tree = Tree::from(json);
    mark(&mut tree);
    tree.to_string()
}

/// Whether every path is of names and indexes, and every field is a scalar or an object or a list of such: then nothing is taken
/// that is not named.
fn takes_scalars_only(schema: Json<'_>) -> bool {
    serde_json::from_str(schema.raw()).is_ok_and(|schema| is_narrow(&schema))
}

fn is_narrow(schema: &Value) -> bool {
    let plain = |path: &Value| {
        path.as_str()
            .is_some_and(|path| path.starts_with('$') && !path.contains(['*', '?', ':', '\\', ',']) && !path.contains("..") && !path.contains("zz"))
    };
    if schema.get("$ref").is_some() || schema.get("sourceField").is_some_and(|path| !plain(path)) {
        return false;
    }
    let many = |word: &str| match schema.get(word) {
        None => true,
        Some(Value::Array(paths)) => paths.iter().all(plain),
        Some(Value::Object(paths)) => paths.values().all(plain),
        Some(_) => false,
    };
    many("coalesce")
        && many("vars")
        && match schema.get("type").and_then(Value::as_str) {
            Some("number" | "integer" | "boolean" | "null" | "string") => true,
            Some("object") => {
                let properties = schema.get("properties").and_then(Value::as_object);
                properties.is_some_and(|all| !all.is_empty() && all.iter().all(|(name, property)| name != "zz" && is_narrow(property)))
            }
            Some("array") => schema.get("items").is_some_and(is_narrow),
            _ => false,
        }
}
