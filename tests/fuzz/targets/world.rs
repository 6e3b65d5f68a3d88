//! What the targets of the engine share: an environment with a secret, a target with one tool, and another reader of JSON.

use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use transom_json::{Json, Limits, check};
use transom_registry::template::Environment;
use transom_registry::{Catalog, Compiled, Document, Offer, Options, SourceTool, compile};

/// What no client may ever see.
pub const CANARY: &str = "CANARY-b1d2c3e4";

/// Keys that mean something to the engine.
pub const WORDS: &[&str] = &[
    "secret",
    "Secret",
    "secret\u{200b}",
    "ſecret",
    "ＳＥＣＲＥＴ",
    "s\u{ad}ecret",
    "\u{1d42c}ecret",
    "secre\u{2}t",
    "o",
    "O",
    "ｏ",
    "l",
    "ℓ",
    "a",
    "b",
    "c",
    "properties",
    "required",
    "items",
    "prefixItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$defs",
    "definitions",
    "#",
    "#/$defs/O",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "^s",
    "propertyNames",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "default",
    "examples",
    "enum",
    "const",
    "type",
    "object",
    "$id",
    "$anchor",
    "$dynamicRef",
    "$schema",
    "name",
    "source",
    "target",
    "tool",
    "tools",
    "schemas",
    "schema",
    "hide",
    "hideFields",
    "hideDefaulted",
    "defaults",
    "args",
    "value",
    "arguments",
    "outputSchema",
    "sourceField",
    "coalesce",
    "template",
    "vars",
    "literal",
    "inputSchema",
    "implementation",
    "city",
    "location",
    "api_key",
    "API_KEY",
    "opts",
    "opts.debug",
    "debug",
    "rows",
    "rows[].token",
    "token",
    "o.secret",
    "l[].secret",
    "units",
    "x-mcp-header",
    "exposeSource",
    "expectedSourceHash",
    "onMissing",
    "description",
    "version",
    "tags",
    "metadata",
    "minProperties",
    "maxProperties",
    "minLength",
    "minimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "uniqueItems",
    "minContains",
    "format",
    "pattern",
    "",
];

/// The environment of every registry here.
#[derive(Clone)]
pub struct Env;

impl Environment for Env {
    fn variable(&self, name: &str) -> Option<String> {
        matches!(name, "A" | "KEY").then(|| CANARY.to_owned())
    }

    fn file(&self, _: &Path) -> Result<String, String> {
        Err("no such file".into())
    }
}

pub fn compiled(text: &str) -> Option<Compiled> {
    compile(&[Document { name: "fuzz", text }], &Env, &Options::default()).ok()
}

/// One target `t` with one tool `s` of this schema; `None` if the gateway would not take such a tool.
pub fn catalog(schema: &str) -> Option<Catalog> {
    let tool = SourceTool::read(&format!(r#"{{"name":"s","description":"d","inputSchema":{schema}}}"#)).ok()?;
    Some(Catalog { targets: vec![Offer { target: "t".into(), available: true, tools: vec![Arc::new(tool)] }] })
}

/// The input as the gateway would take it from a client.
pub fn read(bytes: &[u8]) -> Option<Json<'_>> {
    check(bytes, &Limits::REQUEST).ok()
}

/// By another parser than ours. JSON found in a text may be as deep as ours allows, and stands a little deeper in the result.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Whether something in a value has this name, as a whole.
pub fn has_key(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(key, value)| key == name || has_key(value, name)),
        Value::Array(items) => items.iter().any(|item| has_key(item, name)),
        _ => false,
    }
}
