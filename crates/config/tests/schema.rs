//! The JSON Schema in `schema/` is the one the types give, and it agrees with the reader.

use std::path::PathBuf;

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_current(file: &str, current: &str) {
    let path = workspace().join("schema").join(file);
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(workspace().join("schema")).unwrap();
        std::fs::write(&path, current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == current, "schema/{file} is not what the types say: run `make gen` and commit the result");
}

#[test]
fn the_schema_in_the_repository_is_current() {
    // R-003-53
    is_current("config.schema.json", &format!("{:#}\n", transom_config::json_schema()));
}

#[test]
fn the_pages_in_the_repository_are_current() {
    // R-003-56
    is_current("config.md", &transom_config::config_page());
    is_current("registry.md", &transom_config::registry_page());
}

#[test]
fn the_schema_accepts_what_the_reader_accepts_and_refuses_what_it_refuses() {
    let validator = jsonschema::validator_for(&transom_config::json_schema()).unwrap();
    let target = |target: serde_json::Value| serde_json::json!({ "backends": [{ "mcp": { "targets": [target] } }] });
    let good = [
        serde_json::json!({}),
        serde_json::json!({ "$schema": "x", "$comment": "y", "x-team": {}, "listen": "127.0.0.1:3000", "policies": { "defaultTimeout": 30 } }),
        target(serde_json::json!({ "name": "a", "stdio": { "cmd": "uvx", "args": ["--port", 8080], "env": { "DEBUG": true } }, "timeout": "10s" })),
        target(
            serde_json::json!({ "name": "a", "sse": { "host": "localhost:1" }, "era": "legacy", "sessions": "perSession", "aliases": { "a": "b" } }),
        ),
    ];
    let bad = [
        serde_json::json!({ "listn": "127.0.0.1:3000" }),
        serde_json::json!({ "allowUnauthenticated": "yes" }),
        target(serde_json::json!({ "stdio": { "cmd": "uvx" } })),
        target(serde_json::json!({ "name": "a" })),
        target(serde_json::json!({ "name": "a/b", "stdio": { "cmd": "uvx" } })),
        target(serde_json::json!({ "name": "a", "stdio": { "cmd": "uvx" }, "mcp": { "host": "x" } })),
        target(serde_json::json!({ "name": "a", "mcp": {} })),
        target(serde_json::json!({ "name": "a", "mcp": { "host": "x" }, "era": "future" })),
    ];
    for document in good {
        assert!(validator.is_valid(&document), "{document}");
    }
    for document in bad {
        assert!(!validator.is_valid(&document), "{document}");
    }
}
