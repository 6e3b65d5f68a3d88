//! The JSON Schema in `schema/` is the one the crate gives, and it agrees with the reader.
#![allow(clippy::disallowed_methods)]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use transom_registry::template::Environment;
use transom_registry::{Document, Options, compile};

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_schema_in_the_repository_is_current() {
    let path = workspace().join("schema/registry.schema.json");
    let current = format!("{:#}\n", transom_registry::published::json_schema());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == current, "schema/registry.schema.json is not what the code says: run `make gen` and commit the result");
}

struct Everything;

impl Environment for Everything {
    fn variable(&self, _: &str) -> Option<String> {
        Some("value".into())
    }

    fn file(&self, _: &Path) -> Result<String, String> {
        Ok("value".into())
    }
}

/// Whether the reader has nothing to say, not even a warning.
fn is_clean(document: &Value) -> bool {
    let text = document.to_string();
    compile(&[Document { name: "d", text: &text }], &Everything, &Options::default()).is_ok_and(|compiled| compiled.problems.is_empty())
}

#[test]
fn the_schema_accepts_what_the_reader_accepts_and_refuses_what_it_refuses() {
    let validator = jsonschema::validator_for(&transom_registry::published::json_schema()).unwrap();
    let tool = |tool: Value| json!({ "tools": [tool] });
    let source = json!({ "target": "w", "tool": "s" });
    let good = [
        json!({}),
        json!({ "tools": [] }),
        json!({ "$schema": "x", "$comment": "y", "x-team": {}, "schemaVersion": "1.0", "tools": [] }),
        json!({ "schemas": [{ "name": "A", "schema": { "type": "object" } }], "tools": [{ "name": "a", "source": source, "inputSchema": { "$ref": "#/schemas/A" } }] }),
        tool(
            json!({ "name": "a", "source": source, "title": "t", "description": "d", "annotations": {}, "hideFields": ["a.b", "c[].d"], "defaults": { "x": "${A}" } }),
        ),
        tool(json!({ "name": "a", "source": { "server": "w", "originalName": "s", "hideFields": ["a"] }, "arguments": { "b": { "source": "c" } } })),
        tool(
            json!({ "name": "a", "source": source, "version": "1", "tags": ["a"], "metadata": { "b": 1 }, "exposeSource": true, "onMissing": "null", "errors": "generic" }),
        ),
        tool(
            json!({ "name": "a", "source": source, "outputSchema": { "type": "object", "properties": { "x": { "sourceField": "$.x" }, "l": { "items": { "properties": { "y": { "coalesce": ["$.a", "$.b"] } } } } } } }),
        ),
        tool(json!({ "name": "a", "source": source, "outputTransform": { "mappings": { "x": { "path": "$.x" } } } })),
        tool(json!({ "name": "a", "source": source, "expectedSourceHash": format!("sha256:{}", "0".repeat(64)), "onDrift": "warn" })),
        tool(
            json!({ "name": "a", "description": "d", "parameters": { "type": "object" }, "implementation": { "type": "mock", "mock_response": null } }),
        ),
        tool(
            json!({ "name": "a", "description": "d", "type": "function", "parameters": { "type": "object" }, "implementation": { "type": "builtin", "handler": "uuid" } }),
        ),
    ];
    let bad = [
        json!([]),
        json!({ "tools": {} }),
        json!({ "tols": [] }),
        tool(json!("a")),
        tool(json!({ "source": source })),
        tool(json!({ "name": "a" })),
        tool(json!({ "name": "", "source": source })),
        tool(json!({ "name": "a", "source": source, "hideField": [] })),
        tool(json!({ "name": "a", "source": source, "command": "rm" })),
        tool(json!({ "name": "a", "source": source, "hideFields": "a" })),
        tool(json!({ "name": "a", "source": source, "defaults": [] })),
        tool(json!({ "name": "a", "source": { "target": "w", "hidefields": [] } })),
        tool(json!({ "name": "a", "source": { "tool": "s" } })),
        tool(json!({ "name": "a", "source": 7 })),
        tool(json!({ "name": "a", "source": source, "onMissing": "explode" })),
        tool(json!({ "name": "a", "source": source, "onDrift": "follow" })),
        tool(json!({ "name": "a", "source": source, "expectedSourceHash": "md5:1" })),
        tool(json!({ "name": "a", "source": source, "outputSchema": { "properties": { "x": { "sourceField": 7 } } } })),
        tool(json!({ "name": "a", "source": source, "implementation": { "type": "mock", "mock_response": 1 } })),
        tool(json!({ "name": "a", "description": "d", "parameters": { "type": "object" }, "implementation": { "type": "http" } })),
        tool(json!({ "name": "a", "source": source, "arguments": { "b": { "from": "c" } } })),
    ];
    for document in good {
        assert!(is_clean(&document), "the reader: {document}");
        assert!(validator.is_valid(&document), "the schema: {document}");
    }
    for document in bad {
        assert!(!is_clean(&document), "the reader: {document}");
        assert!(!validator.is_valid(&document), "the schema: {document}");
    }
}
