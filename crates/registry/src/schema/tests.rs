//! The specification of what callers see, as tables.

use super::*;
use transom_json::{Limits, check};

fn tree(text: &str) -> Tree {
    Tree::from(check(text.as_bytes(), &Limits::REPLY).unwrap_or_else(|fault| panic!("{fault:?}: {text}")))
}

/// Fields separated by spaces; one with `!` behind it is filled in with a secret.
fn hide(schema: &str, fields: &str) -> Result<Shown, CannotShow> {
    let paths: Vec<FieldPath> = fields.split(' ').map(|field| FieldPath::parse(field.trim_end_matches('!')).unwrap()).collect();
    let filled = fields.split(' ').zip(&paths).filter(|(field, _)| field.ends_with('!'));
    let defaults: Vec<DefaultValue> = filled.map(|(_, path)| DefaultValue { path, value: None }).collect();
    let source = tree(schema);
    show(&Wanted { source: &source, replacement: None, renames: &[], hidden: &paths, defaults: &defaults, hide_defaulted: false })
}

/// One line per case: before, hidden, after.
fn hides(cases: &[(&str, &str, &str)]) {
    for (before, hidden, after) in cases {
        let shown = hide(before, hidden).unwrap_or_else(|error| panic!("{before} without {hidden}: {error}"));
        assert_eq!(shown.schema.to_string(), tree(after).to_string(), "\n{before}\nwithout {hidden}");
        assert_eq!(shown.notices, [], "{before} without {hidden}");
        // Hiding twice is hiding once.
        let again = hide(after, hidden).unwrap_or_else(|error| panic!("{after} without {hidden}: {error}"));
        assert_eq!(again.schema.to_string(), tree(after).to_string(), "\n{before}\nwithout {hidden}, twice");
    }
}

// R-003-14, R-003-49, S2, A5
#[test]
fn a_hidden_name_goes_and_its_level_is_closed() {
    hides(&[
        (
            r#"{"type":"object","properties":{"city":{"type":"string"},"units":{"type":"string"},"debug_mode":{"type":"boolean"}},"required":["city"]}"#,
            "debug_mode",
            r#"{"type":"object","properties":{"city":{"type":"string"},"units":{"type":"string"}},"required":["city"],"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"b":{}},"required":["b"]}"#,
            "b!",
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"b":{}},"required":["b","a"],"additionalProperties":{"type":"string"},"title":"T"}"#,
            "b!",
            r#"{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false,"title":"T"}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":true}"#,
            "a c",
            r#"{"type":"object","properties":{"b":{}},"additionalProperties":false}"#,
        ),
        (r#"{"type":"object","properties":{"a":{}}}"#, "a", r#"{"type":"object","properties":{},"additionalProperties":false}"#),
        (
            r#"{"type":"object","properties":{"a":{"type":"number","maximum":1e400,"default":1.0}, "b":{}}}"#,
            "b",
            r#"{"type":"object","properties":{"a":{"type":"number","maximum":1e400,"default":1.0}},"additionalProperties":false}"#,
        ),
    ]);
}
// A6
#[test]
fn a_path_leads_into_objects_and_arrays_and_closes_only_the_level_that_lost_a_name() {
    hides(&[
        (
            r#"{"type":"object","properties":{"opts":{"type":"object","properties":{"debug":{},"units":{}}},"city":{}}}"#,
            "opts.debug",
            r#"{"type":"object","properties":{"opts":{"type":"object","properties":{"units":{}},"additionalProperties":false},"city":{}}}"#,
        ),
        (
            r#"{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{},"secret":{}}}}}}"#,
            "rows[].secret",
            r#"{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{}},"additionalProperties":false}}}}"#,
        ),
        (
            r#"{"type":"object","properties":{"rows":{"prefixItems":[{"properties":{"secret":{}}},{"type":"string"}]}}}"#,
            "rows[].secret",
            r#"{"type":"object","properties":{"rows":{"prefixItems":[{"properties":{},"additionalProperties":false},{"type":"string"}],"items":false}}}"#,
        ),
        (
            r#"{"type":"object","properties":{"grid":{"items":{"items":{"properties":{"x":{},"y":{}}}}}}}"#,
            "grid[][].y",
            r#"{"type":"object","properties":{"grid":{"items":{"items":{"properties":{"x":{}},"additionalProperties":false}}}}}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{"properties":{"b":{"properties":{"c":{},"d":{}},"required":["c"]}}}}}"#,
            "a.b.c!",
            r#"{"type":"object","properties":{"a":{"properties":{"b":{"properties":{"d":{}},"additionalProperties":false}}}}}"#,
        ),
        (r#"{"type":"object","properties":{"a.b":{},"c":{}}}"#, r"a\.b", r#"{"type":"object","properties":{"c":{}},"additionalProperties":false}"#),
    ]);
}

// A9
#[test]
fn a_name_goes_from_every_branch() {
    hides(&[
        (
            r#"{"type":"object","allOf":[{"properties":{"city":{}}},{"properties":{"api_key":{}},"required":["api_key"]}]}"#,
            "api_key!",
            r#"{"type":"object","allOf":[{"properties":{"city":{}}},{"properties":{}}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"key":{}},"anyOf":[{"properties":{"key":{"minLength":1}}},{"properties":{"city":{}}}]}"#,
            "key",
            r#"{"type":"object","properties":{},"anyOf":[{"properties":{}},{"properties":{"city":{}}}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"kind":{},"x":{}},"oneOf":[{"properties":{"kind":{"const":"a"},"x":{}},"required":["kind"]},{"properties":{"kind":{"const":"b"}},"required":["kind"]}]}"#,
            "x",
            r#"{"type":"object","properties":{"kind":{}},"oneOf":[{"properties":{"kind":{"const":"a"}},"required":["kind"]},{"properties":{"kind":{"const":"b"}},"required":["kind"]}],"unevaluatedProperties":false}"#,
        ),
    ]);
}
