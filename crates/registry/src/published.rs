//! The JSON Schema of a registry document, for editors and checkers of others.
//!
//! It says what [`file`](crate::file) reads; a test holds the two to the same keys. It is stricter in one point: a key that is
//! only a warning to the reader is refused here, because an editor should underline it.

use crate::local::KINDS;
use crate::pin::OnDrift;
use serde_json::{Value, json};

/// The schema, draft 2020-12.
pub fn json_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Transom registry",
        "description": "Virtual tools: what clients see instead of the tools of the targets.",
        "type": "object",
        "properties": {
            "$schema": text("Where this schema is, for editors."),
            "schemaVersion": { "type": "string", "description": "The version of this format.", "default": "1.0" },
            "schemas": schemas(),
            "tools": { "type": "array", "maxItems": crate::file::TOOLS, "items": { "$ref": "#/$defs/tool" }, "description": "The virtual tools, in the order in which they are listed." },
        },
        "patternProperties": comments(),
        "additionalProperties": false,
        "$defs": { "tool": tool(), "source": source(), "fields": fields(), "values": values(), "output": output() },
    })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn one_of(words: &[&str], description: &str) -> Value {
    json!({ "enum": words, "description": description })
}

/// `$comment…` and `x-…` are for people and other programs.
fn comments() -> Value {
    json!({ r"^(x-|\$comment)": true })
}

fn schemas() -> Value {
    let named = json!({
        "type": "object",
        "properties": { "name": text("What `#/schemas/NAME` refers to."), "schema": { "type": ["object", "boolean"], "description": "The JSON Schema." } },
        "required": ["name"],
    });
    json!({
        "description": "JSON Schemas with names, for `{\"$ref\": \"#/schemas/NAME\"}` in the schemas of tools.",
        "anyOf": [
            { "type": "array", "items": named },
            { "type": "object", "additionalProperties": { "type": ["object", "boolean"] } },
        ],
    })
}

fn tool() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 128, "description": "What clients call it." },
            "source": { "$ref": "#/$defs/source" },
            "server": text("The target; the older spelling of `source.target`."),
            "originalName": text("The target's tool; the older spelling of `source.tool`."),
            "implementation": implementation(),
            "type": { "const": "function", "description": "Accepted, and without meaning." },
            "handler": text("The handler of a builtin or internal tool; may stand in `implementation` as well."),
            "title": text("Instead of the source's title."),
            "description": text("Instead of the source's description."),
            "annotations": { "type": "object", "description": "Instead of the source's annotations." },
            "inputSchema": { "type": "object", "description": "Instead of the source's input schema; speaks exposed names." },
            "parameters": { "type": "object", "description": "The older spelling of `inputSchema`." },
            "arguments": {
                "type": "object",
                "description": "Arguments under other names: exposed name, then where it goes.",
                "additionalProperties": {
                    "type": "object",
                    "properties": { "source": text("The source's name for it."), "description": text("Instead of the source's description of it.") },
                    "patternProperties": comments(),
                    "additionalProperties": false,
                },
            },
            "defaults": { "$ref": "#/$defs/values" },
            "hideFields": { "$ref": "#/$defs/fields" },
            "outputSchema": { "$ref": "#/$defs/output" },
            "outputTransform": {
                "type": "object",
                "description": "The older spelling of paths in `outputSchema`.",
                "properties": { "mappings": { "type": "object", "additionalProperties": { "type": "object", "properties": { "path": text("A JSONPath.") } } } },
                "patternProperties": comments(),
                "additionalProperties": false,
            },
            "version": text("The author's version of it."),
            "tags": { "type": "array", "items": { "type": "string" }, "description": "Words for policies." },
            "metadata": { "type": "object", "description": "Anything else to keep with it; policies can read it, clients cannot." },
            "expectedSourceHash": { "type": "string", "pattern": "^sha256:[0-9A-Fa-f]{64}$", "description": "The pin of the source." },
            "exposeSource": flag("Keeps the source visible beside it."),
            "hiddenArguments": one_of(&["reject", "drop"], "What becomes of a hidden argument that a caller sends; default `reject`."),
            "onDrift": one_of(&OnDrift::NAMES, "What becomes of it when its pinned source changed; default `quarantine`."),
            "onMissing": { "enum": ["omit", "null", "error", null], "description": "What becomes of an output field without a value; default `omit`." },
            "onUnshaped": one_of(&["error", "passthrough"], "What becomes of a result that cannot be shaped; default `error`."),
            "errors": one_of(&["pass", "generic"], "Whether the texts of failed calls reach the caller; default `pass`."),
            "keepContent": flag("Keeps images and other blocks beside the shaped result."),
            "hideDefaulted": flag("Hides every field that has a default."),
            "coerceArguments": flag("Turns strings into numbers and booleans where the schema asks for them and nothing is lost."),
        },
        "required": ["name"],
        "oneOf": [{ "required": ["source"] }, { "required": ["server"] }, { "required": ["implementation"] }],
        "patternProperties": comments(),
        "additionalProperties": false,
    })
}

fn source() -> Value {
    let object = json!({
        "type": "object",
        "properties": {
            "target": text("The target, by its name in the config."),
            "server": text("Another word for `target`."),
            "tool": text("The target's name for the tool; the entry's own name if absent."),
            "originalName": text("Another word for `tool`."),
            "defaults": { "$ref": "#/$defs/values" },
            "hideFields": { "$ref": "#/$defs/fields" },
        },
        "anyOf": [{ "required": ["target"] }, { "required": ["server"] }],
        "patternProperties": comments(),
        "additionalProperties": false,
    });
    json!({ "description": "What it stands on: a tool of a target, or another tool of this registry by its name.", "anyOf": [{ "type": "string" }, object] })
}

fn implementation() -> Value {
    json!({
        "type": "object",
        "description": "What it is if it stands on no target.",
        "properties": {
            "type": one_of(&KINDS, "A fixed response, a handler of Transom, or a service of the gateway."),
            "handler": text("The handler's name."),
            "mock_response": { "description": "What a mock answers; any JSON." },
        },
        "required": ["type"],
    })
}

fn fields() -> Value {
    json!({
        "type": "array",
        "maxItems": crate::file::FIELDS,
        "items": { "type": "string" },
        "description": "Fields of the source that callers never see: `debug`, `filter.debug`, `rows[].secret`.",
    })
}

fn values() -> Value {
    json!({
        "type": "object",
        "maxProperties": crate::file::FIELDS,
        "description": "Values for fields of the source, by name or dotted path. Strings may hold `${NAME}`, `${NAME:-default}` or `${file:/path}`.",
    })
}

fn output() -> Value {
    let path = json!({ "type": "string", "maxLength": 512, "description": "A JSONPath (RFC 9535), relative to what the parent selected." });
    json!({
        "description": "The shape of results: a JSON Schema whose properties may say where their values come from.",
        "type": "object",
        "properties": {
            "sourceField": path,
            "source_field": path,
            "coalesce": { "type": "array", "items": path, "description": "The first path that finds something." },
            "literal": { "description": "This very value." },
            "template": text("Text with `{name}` for each of `vars`."),
            "vars": { "type": "object", "additionalProperties": path },
            "properties": { "type": "object", "additionalProperties": { "$ref": "#/$defs/output" } },
            "items": { "anyOf": [{ "$ref": "#/$defs/output" }, { "type": "boolean" }] },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::words::{ARGUMENT_KEYS, DOCUMENT_KEYS, SOURCE_KEYS, TOOL_KEYS};

    fn keys(schema: &Value, pointer: &str) -> Vec<String> {
        let mut keys: Vec<String> = schema.pointer(pointer).and_then(Value::as_object).unwrap().keys().cloned().collect();
        keys.sort();
        keys
    }

    fn sorted(keys: &[&str]) -> Vec<String> {
        let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        keys.sort();
        keys
    }

    #[test]
    fn the_schema_has_the_keys_that_the_reader_has() {
        let schema = json_schema();
        assert_eq!(keys(&schema, "/properties"), sorted(DOCUMENT_KEYS));
        assert_eq!(keys(&schema, "/$defs/tool/properties"), sorted(TOOL_KEYS));
        assert_eq!(keys(&schema, "/$defs/source/anyOf/1/properties"), sorted(SOURCE_KEYS));
        assert_eq!(keys(&schema, "/$defs/tool/properties/arguments/additionalProperties/properties"), sorted(ARGUMENT_KEYS));
    }
}
