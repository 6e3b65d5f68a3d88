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
        // A name that no branch tells the others by: exactly one still holds.
        (
            r#"{"type":"object","oneOf":[{"properties":{"kind":{"const":"a"},"x":{}},"required":["kind"]},{"properties":{"kind":{"const":"b"}},"required":["kind"]}]}"#,
            "x",
            r#"{"type":"object","oneOf":[{"properties":{"kind":{"const":"a"}},"required":["kind"]},{"properties":{"kind":{"const":"b"}},"required":["kind"]}],"unevaluatedProperties":false}"#,
        ),
        // A name that does: more than one may hold now.
        (
            r#"{"type":"object","oneOf":[{"properties":{"kind":{"const":"a"},"x":{}},"required":["kind"]},{"properties":{"kind":{"const":"b"},"y":{}},"required":["kind"]}]}"#,
            "kind!",
            r#"{"type":"object","anyOf":[{"properties":{"x":{}}},{"properties":{"y":{}}}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","anyOf":[{"title":"A"}],"oneOf":[{"required":["k"]},{"required":["c"]}]}"#,
            "k!",
            r#"{"type":"object","anyOf":[{"title":"A"}],"allOf":[{"anyOf":[{},{"required":["c"]}]}],"unevaluatedProperties":false}"#,
        ),
        // A branch that cannot be had without the hidden name is no branch for callers.
        (
            r#"{"type":"object","properties":{"a":{}},"oneOf":[{"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}"#,
            "b",
            r#"{"type":"object","properties":{"a":{}},"oneOf":[{"required":["a"]}],"unevaluatedProperties":false}"#,
        ),
        // A branch that lets everything in would undo the closing.
        (
            r#"{"type":"object","allOf":[{"properties":{"a":{},"b":{}},"additionalProperties":true},{"unevaluatedProperties":{"type":"string"},"title":"T"}]}"#,
            "b",
            r#"{"type":"object","allOf":[{"properties":{"a":{}}},{"title":"T"}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":{"type":"string"},"allOf":[{"required":["a"]}]}"#,
            "b",
            r#"{"type":"object","properties":{"a":{}},"allOf":[{"required":["a"]}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false,"allOf":[{"required":["a"]}]}"#,
            "b",
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false,"allOf":[{"required":["a"]}]}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"b":{}},"unevaluatedProperties":true,"allOf":[{"required":["a"]}]}"#,
            "b",
            r#"{"type":"object","properties":{"a":{}},"allOf":[{"required":["a"]}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","allOf":[{"allOf":[{"anyOf":[{"properties":{"b":{},"c":{}}}]}]}]}"#,
            "b",
            r#"{"type":"object","allOf":[{"allOf":[{"anyOf":[{"properties":{"c":{}}}]}]}],"unevaluatedProperties":false}"#,
        ),
    ]);
}

#[test]
fn a_branch_that_says_nothing_of_a_member_cannot_let_in_what_is_hidden_inside_it() {
    hides(&[
        // Only one branch describes `opts`; the other would take any, so names it does not declare are refused.
        (
            r#"{"type":"object","anyOf":[{"properties":{"opts":{"properties":{"debug":{},"units":{}}}}},{"properties":{"city":{}}}]}"#,
            "opts.debug",
            r#"{"type":"object","anyOf":[{"properties":{"opts":{"properties":{"units":{}},"additionalProperties":false}}},{"properties":{"city":{}}}],"unevaluatedProperties":false}"#,
        ),
        // Both describe it and both must hold: neither may refuse what the other declares.
        (
            r#"{"type":"object","allOf":[{"properties":{"opts":{"properties":{"debug":{}}}}},{"properties":{"opts":{"properties":{"units":{}}}}}]}"#,
            "opts.debug",
            r#"{"type":"object","allOf":[{"properties":{"opts":{"properties":{"units":true},"additionalProperties":false}}},{"properties":{"opts":{"properties":{"units":{}}}}}]}"#,
        ),
        (
            r#"{"type":"object","properties":{"opts":{"anyOf":[{"properties":{"debug":{},"units":{}}},{"type":"null"}],"default":null}}}"#,
            "opts.debug",
            r#"{"type":"object","properties":{"opts":{"anyOf":[{"properties":{"units":{}}},{"type":"null"}],"default":null,"unevaluatedProperties":false}}}"#,
        ),
    ]);
}

// A9
#[test]
fn a_reference_is_followed_by_copying_and_nobody_else_is_changed() {
    hides(&[
        (
            r##"{"type":"object","properties":{"auth":{"$ref":"#/$defs/Auth"}},"$defs":{"Auth":{"type":"object","properties":{"user":{},"key":{}}}}}"##,
            "auth.key",
            r#"{"type":"object","properties":{"auth":{"type":"object","properties":{"user":{}},"additionalProperties":false}}}"#,
        ),
        (
            r##"{"type":"object","properties":{"one":{"$ref":"#/$defs/Auth"},"two":{"$ref":"#/$defs/Auth"}},"$defs":{"Auth":{"properties":{"user":{},"key":{}}}}}"##,
            "one.key",
            r##"{"type":"object","properties":{"one":{"properties":{"user":{}},"additionalProperties":false},"two":{"$ref":"#/$defs/Auth"}},"$defs":{"Auth":{"properties":{"user":{},"key":{}}}}}"##,
        ),
        // Words beside a reference win.
        (
            r##"{"type":"object","properties":{"auth":{"$ref":"#/$defs/A","description":"mine"}},"$defs":{"A":{"description":"theirs","properties":{"k":{}}}}}"##,
            "auth.k",
            r#"{"type":"object","properties":{"auth":{"description":"mine","properties":{},"additionalProperties":false}}}"#,
        ),
        // Anything else beside a reference must hold as well.
        (
            r##"{"type":"object","properties":{"auth":{"$ref":"#/$defs/A","properties":{"u":{}}}},"$defs":{"A":{"properties":{"k":{},"v":{}}}}}"##,
            "auth.k",
            r#"{"type":"object","properties":{"auth":{"properties":{"u":{}},"allOf":[{"properties":{"v":{}}}],"unevaluatedProperties":false}}}"#,
        ),
        (
            r##"{"type":"object","properties":{"auth":{"$ref":"#/$defs/A","properties":{"u":{},"k":{}}}},"$defs":{"A":{"properties":{"v":{}}}}}"##,
            "auth.k",
            r##"{"type":"object","properties":{"auth":{"$ref":"#/$defs/A","properties":{"u":{}},"unevaluatedProperties":false}},"$defs":{"A":{"properties":{"v":{}}}}}"##,
        ),
        // At the top, with its definitions beside it.
        (
            r##"{"$ref":"#/$defs/In","type":"object","$defs":{"In":{"type":"object","properties":{"a":{"$ref":"#/$defs/S"},"b":{"$ref":"#/$defs/T"}}},"S":{"type":"string"},"T":{}}}"##,
            "b",
            r##"{"type":"object","$defs":{"S":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/S"}},"additionalProperties":false}"##,
        ),
        // Through one reference to the next, with an escaped name.
        (
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y%20z"}},"$defs":{"x/y z":{"$ref":"#/$defs/w"},"w":{"properties":{"k":{},"v":{}}}}}"##,
            "a.k",
            r#"{"type":"object","properties":{"a":{"properties":{"v":{}},"additionalProperties":false}}}"#,
        ),
        // An optional model, as generators write it.
        (
            r##"{"type":"object","properties":{"o":{"anyOf":[{"$ref":"#/$defs/O"},{"type":"null"}]}},"$defs":{"O":{"properties":{"k":{},"v":{}},"additionalProperties":false}}}"##,
            "o.k",
            r#"{"type":"object","properties":{"o":{"anyOf":[{"properties":{"v":{}},"additionalProperties":false},{"type":"null"}],"unevaluatedProperties":false}}}"#,
        ),
        // A definition that goes on describing the same thing one level down keeps describing it.
        (
            r##"{"type":"object","properties":{"tree":{"$ref":"#/$defs/N"}},"$defs":{"N":{"properties":{"secret":{},"kids":{"items":{"$ref":"#/$defs/N"}}}}}}"##,
            "tree.secret",
            r##"{"type":"object","properties":{"tree":{"properties":{"kids":{"items":{"$ref":"#/$defs/N"}}},"additionalProperties":false}},"$defs":{"N":{"properties":{"secret":{},"kids":{"items":{"$ref":"#/$defs/N"}}}}}}"##,
        ),
        (
            r##"{"type":"object","properties":{"tree":{"$ref":"#/$defs/N"}},"$defs":{"N":{"properties":{"secret":{},"kid":{"$ref":"#/$defs/N"}}}}}"##,
            "tree.kid.secret",
            r##"{"type":"object","properties":{"tree":{"properties":{"secret":{},"kid":{"properties":{"kid":{"$ref":"#/$defs/N"}},"additionalProperties":false}}}},"$defs":{"N":{"properties":{"secret":{},"kid":{"$ref":"#/$defs/N"}}}}}"##,
        ),
        // A reference to the whole means the whole as it was.
        (
            r##"{"type":"object","properties":{"secret":{},"kid":{"$ref":"#"}}}"##,
            "secret",
            r##"{"type":"object","properties":{"kid":{"$ref":"#/$defs/root"}},"additionalProperties":false,"$defs":{"root":{"type":"object","properties":{"secret":{},"kid":{"$ref":"#/$defs/root"}}}}}"##,
        ),
        (
            r##"{"type":"object","properties":{"a":{"properties":{"k":{},"v":{}}},"b":{"$ref":"#/properties/a"}}}"##,
            "a.k",
            r##"{"type":"object","properties":{"a":{"properties":{"v":{}},"additionalProperties":false},"b":{"$ref":"#/$defs/a"}},"$defs":{"a":{"properties":{"k":{},"v":{}}}}}"##,
        ),
        (
            r##"{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"},"c":{}}}"##,
            "a",
            r##"{"type":"object","properties":{"b":{"$ref":"#/$defs/a"},"c":{}},"additionalProperties":false,"$defs":{"a":{"type":"string"}}}"##,
        ),
        (
            r##"{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"},"c":{}}}"##,
            "c",
            r##"{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}},"additionalProperties":false}"##,
        ),
    ]);
}

// A9
#[test]
fn conditions_that_ask_for_a_hidden_name_are_dropped_and_others_stay() {
    hides(&[
        // Either branch may hold, since only the source knows.
        (
            r#"{"type":"object","properties":{"k":{},"a":{},"b":{}},"if":{"required":["k"]},"then":{"required":["a"]},"else":{"required":["b"]}}"#,
            "k!",
            r#"{"type":"object","properties":{"a":{},"b":{}},"allOf":[{"anyOf":[{"required":["a"]},{"required":["b"]}]}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"k":{}},"if":{"properties":{"k":{"const":1}}},"then":{"properties":{"a":{}}}}"#,
            "k",
            r#"{"type":"object","properties":{},"allOf":[{"anyOf":[{"properties":{"a":{}}},true]}],"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"m":{},"k":{}},"if":{"required":["m"]},"then":{"properties":{"k":{"type":"string"}},"required":["k","m"]}}"#,
            "k!",
            r#"{"type":"object","properties":{"m":{}},"if":{"required":["m"]},"then":{"properties":{},"required":["m"]},"unevaluatedProperties":false}"#,
        ),
        // What would need the hidden name cannot be had.
        (
            r#"{"type":"object","properties":{"m":{},"k":{}},"if":{"required":["m"]},"then":{"required":["k"]}}"#,
            "k",
            r#"{"type":"object","properties":{"m":{}},"if":{"required":["m"]},"then":false,"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"k":{}},"not":{"required":["a","k"]}}"#,
            "k",
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"k":{}},"not":{"required":["a"]}}"#,
            "k",
            r#"{"type":"object","properties":{"a":{}},"not":{"required":["a"]},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"rows":{"items":{"properties":{"id":{},"k":{}}},"contains":{"required":["k"]},"minContains":1}}}"#,
            "rows[].k",
            r#"{"type":"object","properties":{"rows":{"items":{"properties":{"id":{}},"additionalProperties":false}}}}"#,
        ),
    ]);
}

// A9
#[test]
fn dependencies_and_rules_about_names_lose_the_name() {
    hides(&[
        (
            r#"{"type":"object","properties":{"a":{},"k":{}},"dependentRequired":{"k":["a"]}}"#,
            "k",
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"b":{},"k":{}},"dependentRequired":{"a":["k"],"b":["k","a"]}}"#,
            "k!",
            r#"{"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"b":["a"]},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"k":{}},"dependentSchemas":{"k":{"required":["a"]},"a":{"properties":{"k":{}}}}}"#,
            "k",
            r#"{"type":"object","properties":{"a":{}},"dependentSchemas":{"a":{"properties":{}}},"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"k":{}},"dependentSchemas":{"a":{"required":["k"]}}}"#,
            "k",
            r#"{"type":"object","properties":{"a":{}},"dependentSchemas":{"a":false},"unevaluatedProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{}},"patternProperties":{"^api":{"type":"string"},"^x_":{}}}"#,
            "api_key",
            r#"{"type":"object","properties":{"a":{}},"patternProperties":{"^x_":{}},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"key":{}},"patternProperties":{"e":{},"^k(?!ez)":{}}}"#,
            "key",
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","propertyNames":{"enum":["a","key"]}}"#,
            "key",
            r#"{"type":"object","propertyNames":{"enum":["a"]},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{}},"propertyNames":{"anyOf":[{"const":"a"},{"const":"key"}]}}"#,
            "key",
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{},"key":{}},"propertyNames":{"pattern":"^[a-z]+$"}}"#,
            "key",
            r#"{"type":"object","properties":{"a":{}},"propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":false}"#,
        ),
        (r#"{"type":"object","required":["k"],"minProperties":1}"#, "k!", r#"{"type":"object","additionalProperties":false}"#),
        (
            r#"{"type":"object","properties":{"a":{},"b":{},"k":{}},"minProperties":2,"maxProperties":3}"#,
            "k!",
            r#"{"type":"object","properties":{"a":{},"b":{}},"minProperties":1,"maxProperties":3,"additionalProperties":false}"#,
        ),
    ]);
}

// A9
#[test]
fn examples_and_other_values_lose_the_hidden_member() {
    hides(&[
        (
            r#"{"type":"object","properties":{"a":{},"k":{}},"examples":[{"a":1.0,"k":2},{"a":1}],"default":{"k":1}}"#,
            "k",
            r#"{"type":"object","properties":{"a":{}},"examples":[{"a":1.0},{"a":1}],"default":{},"additionalProperties":false}"#,
        ),
        (
            r#"{"type":"object","properties":{"o":{"properties":{"k":{},"v":{}},"enum":[{"k":1,"v":1},{"k":2,"v":1},null]}},"examples":[{"o":{"k":1}}]}"#,
            "o.k",
            r#"{"type":"object","properties":{"o":{"properties":{"v":{}},"enum":[{"v":1},null],"additionalProperties":false}},"examples":[{"o":{}}]}"#,
        ),
        (
            r#"{"type":"object","properties":{"r":{"items":{"properties":{"k":{},"v":{}},"const":{"k":1,"v":2}},"default":[{"k":1,"v":2}]}}}"#,
            "r[].k",
            r#"{"type":"object","properties":{"r":{"items":{"properties":{"v":{}},"const":{"v":2},"additionalProperties":false},"default":[{"v":2}]}}}"#,
        ),
        // Keywords of others that speak of the name.
        (
            r#"{"type":"object","properties":{"a":{},"k":{}},"propertyOrdering":["k","a"],"discriminator":{"propertyName":"k"},"x-group":"g","title":"k"}"#,
            "k",
            r#"{"type":"object","properties":{"a":{}},"x-group":"g","title":"k","additionalProperties":false}"#,
        ),
    ]);
}

#[test]
fn older_dialects_are_closed_in_their_own_way() {
    hides(&[
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[{"properties":{"a":{},"k":{}}},{"properties":{"b":{}},"patternProperties":{"^x_":{}}}]}"#,
            "k",
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[{"properties":{"a":{}}},{"properties":{"b":{}},"patternProperties":{"^x_":{}}}],"properties":{"a":true,"b":true},"patternProperties":{"^x_":true},"additionalProperties":false}"#,
        ),
        // What stands beside a reference counts for nothing there.
        (
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"o":{"$ref":"#/definitions/O","required":["k"],"title":"T"}},"definitions":{"O":{"properties":{"k":{},"v":{}}}}}"##,
            "o.k",
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"o":{"title":"T","properties":{"v":{}},"additionalProperties":false}}}"#,
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{},"k":{}},"dependencies":{"a":["k"],"k":["a"]}}"#,
            "k!",
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"r":{"items":[{"properties":{"k":{}}}]}}}"#,
            "r[].k",
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"r":{"items":[{"properties":{},"additionalProperties":false}],"additionalItems":false}}}"#,
        ),
        (
            r#"{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","allOf":[{"properties":{"k":{}}}]}"#,
            "k",
            r#"{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","allOf":[{"properties":{}}],"unevaluatedProperties":false}"#,
        ),
    ]);
}

// A9: what cannot be proven is not shown
#[test]
fn a_tool_is_refused_when_it_cannot_be_proven_that_a_name_is_gone() {
    for (schema, hidden, reason) in [
        (r#"{"type":"object","properties":{"k":{}},"required":["k"]}"#, "k", "field `k` is hidden, but the source requires it"),
        (r#"{"type":"object","properties":{"o":{"properties":{"k":{}},"required":["k"]}}}"#, "o.k", "field `o.k` is hidden, but"),
        (r#"{"type":"object","allOf":[{"required":["k"]}]}"#, "k", "`k` is hidden, but"),
        (r#"{"type":"object","anyOf":[{"required":["k"]},{"allOf":[{"required":["k","a"]}]}]}"#, "k", "`k` is hidden, but"),
        (r##"{"type":"object","properties":{"o":{"$ref":"#/$defs/O"}},"$defs":{"O":{"required":["k"]}}}"##, "o.k", "`o.k` is hidden, but"),
        (
            r#"{"type":"object","$ref":"https://example.com/s","properties":{"k":{}}}"#,
            "k",
            "from the arguments: the reference `https://example.com/s` leads out",
        ),
        (r#"{"type":"object","properties":{"o":{"$ref":"other.json#/x"}}}"#, "o.k", "from `o`: the reference `other.json#/x` leads out"),
        (r##"{"type":"object","properties":{"o":{"$ref":"#Anchor"}}}"##, "o.k", "names an anchor"),
        (r##"{"type":"object","properties":{"o":{"$ref":"#/$defs/None"}}}"##, "o.k", "`#/$defs/None` leads nowhere"),
        (r##"{"type":"object","allOf":[{"$ref":"#"}]}"##, "k", "leads to itself"),
        (r##"{"type":"object","properties":{"k":{}},"$dynamicRef":"#x"}"##, "k", "`$dynamicRef` leads to different schemas"),
        (r##"{"type":"object","properties":{"k":{}},"anyOf":[{"$recursiveRef":"#"}]}"##, "k", "`$recursiveRef`"),
        (r#"{"type":"object","properties":{"o":{"$id":"x","properties":{"k":{}}}}}"#, "o.k", "`$id`"),
        (r#"{"type":"object","properties":{"k":{}},"patternProperties":{"(":{}}}"#, "k", "pattern `(` cannot be read"),
        (r#"{"type":"object","properties":{"k":{}},"$schema":"https://example.com/my-dialect"}"#, "k", "dialect that is not known"),
        (r#"{"type":"object","additionalProperties":{"properties":{"k":{}}}}"#, "o.k", "`o` is described by `additionalProperties`"),
        (r#"{"type":"object","patternProperties":{"^o":{"properties":{"k":{}}}}}"#, "o.k", "`o` is described by the pattern `^o`"),
        (r#"{"type":"object","properties":{"k":{}},"if":{"additionalProperties":true},"then":{}}"#, "k", "may still accept `k`"),
        (r#"{"type":"object","properties":{"k":{"type":"string","x-mcp-header":"K"}}}"#, "k!", "wants it in a header"),
    ] {
        let error = hide(schema, hidden).map(|shown| shown.schema.to_string()).expect_err(schema);
        assert!(error.to_string().contains(reason), "{schema}: {error}");
        assert!(error.help().is_some(), "{error}");
    }
}

// A10
#[test]
fn a_secret_never_travels_in_a_header() {
    let source = r#"{"type":"object","properties":{"k":{"type":"string","x-mcp-header":"K"},"a":{}}}"#;
    tool(source).fill_secretly("k").cannot("field `k` gets a secret, but the source wants it in a header too");
    tool(source).own(r#"{"type":"object","properties":{"a":{}}}"#).fill_secretly("k").hide("k").cannot("header");
    tool(source).hide("k").fill("k", "\"public\"").shows(r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#, &["k"], &[]);
    tool(source).hide("k").shows(r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#, &[], &[]);
}

const WEATHER: &str =
    r#"{"type":"object","properties":{"city":{"type":"string"},"units":{"type":"string"},"debug_mode":{"type":"boolean"}},"required":["city"]}"#;

/// A virtual tool over a source's schema.
struct Tool {
    source: Tree,
    own: Option<Tree>,
    renames: Vec<Rename>,
    hidden: Vec<FieldPath>,
    defaults: Vec<(FieldPath, Option<Tree>)>,
    hide_defaulted: bool,
}

fn tool(source: &str) -> Tool {
    Tool { source: tree(source), own: None, renames: Vec::new(), hidden: Vec::new(), defaults: Vec::new(), hide_defaulted: false }
}

impl Tool {
    fn own(self, schema: &str) -> Tool {
        Tool { own: Some(tree(schema)), ..self }
    }

    fn rename(mut self, exposed: &str, source: &str) -> Tool {
        self.renames.push(Rename { exposed: exposed.into(), source: source.into(), description: None });
        self
    }

    fn describe(mut self, name: &str, description: &str) -> Tool {
        match self.renames.iter_mut().find(|rename| rename.exposed == name) {
            Some(rename) => rename.description = Some(description.into()),
            None => self.renames.push(Rename { exposed: name.into(), source: name.into(), description: Some(description.into()) }),
        }
        self
    }

    fn hide(mut self, field: &str) -> Tool {
        self.hidden.push(FieldPath::parse(field).unwrap());
        self
    }

    fn fill(mut self, field: &str, value: &str) -> Tool {
        self.defaults.push((FieldPath::parse(field).unwrap(), Some(tree(value))));
        self
    }

    fn fill_secretly(mut self, field: &str) -> Tool {
        self.defaults.push((FieldPath::parse(field).unwrap(), None));
        self
    }

    fn hide_defaulted(self) -> Tool {
        Tool { hide_defaulted: true, ..self }
    }

    fn show(&self) -> Result<Shown, CannotShow> {
        let defaults: Vec<DefaultValue> = self.defaults.iter().map(|(path, value)| DefaultValue { path, value: value.as_ref() }).collect();
        show(&Wanted {
            source: &self.source,
            replacement: self.own.as_ref(),
            renames: &self.renames,
            hidden: &self.hidden,
            defaults: &defaults,
            hide_defaulted: self.hide_defaulted,
        })
    }

    /// Expects this schema, these forced fields, and these words about it.
    fn shows(self, schema: &str, forced: &[&str], notices: &[&str]) {
        let shown = self.show().unwrap_or_else(|error| panic!("{error}, instead of {schema}"));
        assert_eq!(shown.schema.to_string(), tree(schema).to_string());
        assert_eq!(shown.forced.iter().map(FieldPath::to_string).collect::<Vec<_>>(), forced, "{schema}");
        assert_eq!(shown.notices.iter().map(Notice::to_string).collect::<Vec<_>>(), notices, "{schema}");
    }

    fn cannot(self, reason: &str) {
        let error = self.show().map(|shown| shown.schema.to_string()).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

// R-003-12, S1, S32
#[test]
fn without_changes_the_source_s_schema_is_shown_as_it_is() {
    for schema in [
        WEATHER,
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"maximum":1e400},"Unused":{}},"additionalProperties":true}"##,
        r##"{"type":"object","$ref":"https://example.com/elsewhere","properties":{"a":{"$dynamicRef":"#x"}}}"##,
    ] {
        tool(schema).shows(schema, &[], &[]);
    }
}

// S4
#[test]
fn hiding_what_is_not_there_changes_nothing_and_is_said() {
    tool(WEATHER).hide("nope").shows(WEATHER, &[], &["hidden field `nope` does not exist in the source's schema"]);
    tool(WEATHER).hide("city.raw").shows(WEATHER, &[], &["hidden field `city.raw` does not exist in the source's schema"]);
    let shown = tool(WEATHER).hide("debug_mod").show().unwrap();
    assert_eq!(shown.notices.first().and_then(Notice::help).as_deref(), Some("did you mean `debug_mode`?"));
}

// R-003-50, S5
#[test]
fn the_entry_s_own_schema_replaces_the_source_s() {
    let own = r#"{"type":"object","properties":{"city":{"type":"string","minLength":1}},"required":["city"]}"#;
    tool(WEATHER).own(own).shows(own, &[], &[]);
    tool(WEATHER).own(r#"{"properties":{"city":{}}}"#).shows(r#"{"type":"object","properties":{"city":{}}}"#, &[], &[]);
    tool(WEATHER).own(r#"{"type":"string"}"#).cannot("not of type \"object\"");
    tool(WEATHER).own("true").cannot("not of type \"object\"");
}

// S5, A5: what the source has and the entry hides stays unknown, though the entry's own schema never spoke of it
#[test]
fn hides_hold_for_the_entry_s_own_schema_too() {
    tool(WEATHER).own(r#"{"type":"object","properties":{"city":{}}}"#).hide("debug_mode").shows(
        r#"{"type":"object","properties":{"city":{}},"additionalProperties":false}"#,
        &[],
        &[],
    );
    tool(WEATHER).own(r#"{"type":"object","properties":{"city":{},"debug_mode":{}},"required":["debug_mode","city"]}"#).hide("debug_mode").shows(
        r#"{"type":"object","properties":{"city":{}},"required":["city"],"additionalProperties":false}"#,
        &[],
        &[],
    );
    tool(WEATHER).own(r#"{"type":"object","properties":{"units":{}}}"#).hide("city").cannot("field `city` is hidden, but the source requires it");
    let nested = r#"{"type":"object","properties":{"o":{"properties":{"k":{},"v":{}}},"r":{"items":{"properties":{"k":{}}}}}}"#;
    tool(nested).own(r#"{"type":"object","properties":{"o":{"type":"object"}}}"#).hide("o.k").shows(
        r#"{"type":"object","properties":{"o":{"type":"object","additionalProperties":false}}}"#,
        &[],
        &[],
    );
    tool(nested).own(r#"{"type":"object","properties":{"v":{}}}"#).hide("o.k").shows(
        r#"{"type":"object","properties":{"v":{}},"additionalProperties":false}"#,
        &[],
        &[],
    );
    tool(nested).own(r#"{"type":"object","properties":{"r":{"type":"array"}}}"#).hide("r[].k").shows(
        r#"{"type":"object","properties":{"r":{"type":"array","items":{"additionalProperties":false}}}}"#,
        &[],
        &[],
    );
}

// Section 3: renames
#[test]
fn a_renamed_argument_is_known_by_its_new_name_only() {
    tool(WEATHER).rename("place", "city").shows(
        r#"{"type":"object","properties":{"place":{"type":"string"},"units":{"type":"string"},"debug_mode":{"type":"boolean"}},"required":["place"],"additionalProperties":false}"#,
        &[],
        &[],
    );
    tool(WEATHER).rename("place", "city").describe("place", "Where").hide("debug_mode").shows(
        r#"{"type":"object","properties":{"place":{"type":"string","description":"Where"},"units":{"type":"string"}},"required":["place"],"additionalProperties":false}"#,
        &[],
        &[],
    );
    // A description alone hides nothing and closes nothing.
    tool(r#"{"type":"object","properties":{"a":{"description":"old"},"b":true}}"#).describe("a", "new").describe("b", "B").shows(
        r#"{"type":"object","properties":{"a":{"description":"new"},"b":{"description":"B"}}}"#,
        &[],
        &[],
    );
    // Two that change places.
    tool(r#"{"type":"object","properties":{"a":{"title":"A"},"b":{"title":"B"}},"required":["a"]}"#).rename("b", "a").rename("a", "b").shows(
        r#"{"type":"object","properties":{"b":{"title":"A"},"a":{"title":"B"}},"required":["b"],"additionalProperties":false}"#,
        &[],
        &[],
    );
    // Everywhere the name stands.
    tool(
        r#"{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"not":{"required":["a"]}}],"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"dependentRequired":{"a":["b"],"b":["a"]},"dependentSchemas":{"a":{"minProperties":1}},"propertyNames":{"enum":["a","b"]},"patternProperties":{"^a$":{}},"examples":[{"a":1}],"propertyOrdering":["a"]}"#,
    )
    .rename("x", "a")
    .shows(
        r#"{"type":"object","properties":{"x":{},"b":{}},"anyOf":[{"required":["x"]},{"not":{"required":["x"]}}],"if":{"properties":{"x":{"const":1}}},"then":{"required":["b"]},"dependentRequired":{"x":["b"],"b":["x"]},"dependentSchemas":{"x":{"minProperties":1}},"propertyNames":{"enum":["x","b"]},"examples":[{"x":1}],"unevaluatedProperties":false}"#,
        &[],
        &[],
    );
    // Hides speak the source's names, inside renamed arguments too.
    tool(r#"{"type":"object","properties":{"o":{"properties":{"k":{},"v":{}}}}}"#).rename("options", "o").hide("o.k").shows(
        r#"{"type":"object","properties":{"options":{"properties":{"v":{}},"additionalProperties":false}},"additionalProperties":false}"#,
        &[],
        &[],
    );
    // A hidden name may go to another argument.
    tool(r#"{"type":"object","properties":{"id":{"title":"internal"},"public":{}}}"#).hide("id").rename("id", "public").shows(
        r#"{"type":"object","properties":{"id":{}},"additionalProperties":false}"#,
        &[],
        &[],
    );
}

#[test]
fn the_entry_s_own_schema_speaks_exposed_names() {
    let own = r#"{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}"#;
    let closed = r#"{"type":"object","properties":{"place":{"type":"string"}},"required":["place"],"additionalProperties":false}"#;
    tool(WEATHER).own(own).rename("place", "city").shows(closed, &[], &[]);
    tool(WEATHER).own(own).rename("place", "city").describe("place", "Where").shows(
        r#"{"type":"object","properties":{"place":{"type":"string","description":"Where"}},"required":["place"],"additionalProperties":false}"#,
        &[],
        &[],
    );
    // Both names for one argument: the old one is unknown all the same.
    tool(WEATHER).own(r#"{"type":"object","properties":{"place":{"type":"string"},"city":{}},"required":["place"]}"#).rename("place", "city").shows(
        closed,
        &[],
        &[],
    );
    tool(WEATHER).own(own).rename("place", "city").hide("city").fill("city", "\"Oslo\"").shows(
        r#"{"type":"object","properties":{},"additionalProperties":false}"#,
        &["city"],
        &[],
    );
}

#[test]
fn renames_that_cannot_be_meant_are_refused_or_said() {
    tool(WEATHER).rename("units", "city").cannot("argument `city` cannot be called `units`");
    tool(WEATHER).rename("a", "city").rename("b", "city").cannot("`a` and `b` both stand for `city`");
    tool(WEATHER).rename("place", "town").shows(WEATHER, &[], &["argument `place` stands for `town`, which does not exist in the source's schema"]);
    tool(r#"{"type":"object","anyOf":[{"$ref":"https://example.com/x"}]}"#).rename("a", "b").cannot("leads out of the schema");
}

// R-003-48, section 3: a default for a visible field
#[test]
fn a_visible_default_makes_its_field_optional_and_is_shown_unless_it_is_secret() {
    tool(WEATHER).fill("city", "\"Oslo\"").shows(
        r#"{"type":"object","properties":{"city":{"type":"string","default":"Oslo"},"units":{"type":"string"},"debug_mode":{"type":"boolean"}}}"#,
        &[],
        &[],
    );
    tool(WEATHER).fill_secretly("city").shows(
        r#"{"type":"object","properties":{"city":{"type":"string"},"units":{"type":"string"},"debug_mode":{"type":"boolean"}}}"#,
        &[],
        &[],
    );
    // The source's own default is not what a secret one will be; spellings stay.
    tool(r#"{"type":"object","properties":{"a":{"default":1},"b":{"default":2}}}"#).fill_secretly("a").fill("b", "3.0").shows(
        r#"{"type":"object","properties":{"a":{},"b":{"default":3.0}}}"#,
        &[],
        &[],
    );
    tool(r#"{"type":"object","properties":{"o":{"properties":{"u":true,"v":{}},"required":["u","v"]}},"required":["o"]}"#).fill("o.u", "1").shows(
        r#"{"type":"object","properties":{"o":{"properties":{"u":{"default":1},"v":{}},"required":["v"]}},"required":["o"]}"#,
        &[],
        &[],
    );
    tool(r#"{"type":"object","oneOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}"#).fill("a", "1").shows(
        r#"{"type":"object","anyOf":[{"properties":{"a":{"default":1}}},{"properties":{"b":{}},"required":["b"]}]}"#,
        &[],
        &[],
    );
    tool(WEATHER).rename("place", "city").fill("city", "\"Oslo\"").shows(
        r#"{"type":"object","properties":{"place":{"type":"string","default":"Oslo"},"units":{"type":"string"},"debug_mode":{"type":"boolean"}},"additionalProperties":false}"#,
        &[],
        &[],
    );
}

// S9, S34, R-003-60
#[test]
fn a_default_is_forced_where_callers_do_not_see_its_field() {
    let source = r#"{"type":"object","properties":{"query":{"type":"string"},"api_key":{"type":"string"}},"required":["query","api_key"]}"#;
    let closed = r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],"additionalProperties":false}"#;
    tool(source).fill_secretly("api_key").hide_defaulted().shows(closed, &["api_key"], &[]);
    tool(source).fill_secretly("api_key").hide("api_key").shows(closed, &["api_key"], &[]);
    // Required by the source and not advertised: hidden.
    let own = r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}"#;
    tool(source).own(own).fill_secretly("api_key").shows(closed, &["api_key"], &[]);
    // A field that the source does not speak of is filled in, and nothing is closed for it.
    tool(WEATHER).fill("trace", "true").shows(WEATHER, &["trace"], &[]);
    // Inside something hidden.
    tool(r#"{"type":"object","properties":{"o":{"required":["k"]},"a":{}},"required":["o"]}"#).hide("o").fill("o.k", "1").shows(
        r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        &["o.k"],
        &[],
    );
    // A default for a whole does not stand for a part that is hidden in it.
    tool(r#"{"type":"object","properties":{"o":{"properties":{"k":{}},"required":["k"]}}}"#)
        .hide("o.k")
        .fill("o", r#"{"k":1}"#)
        .cannot("`o.k` is hidden");
}

// Section 3: an override that the source could not accept
#[test]
fn what_the_source_could_not_accept_is_said() {
    let source = r#"{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":["string","null"]},"kind":{"enum":["a","b"]}},"required":["id","name"],"additionalProperties":false}"#;
    let own = r#"{"type":"object","properties":{"id":{"type":"string"},"kind":{"type":"boolean"},"extra":{}}}"#;
    tool(source).own(own).shows(
        own,
        &[],
        &[
            "the source requires `name`, which the tool neither takes nor fills in",
            "`id` is string here, but the source takes integer",
            "`kind` is boolean here, but the source takes string",
            "the tool takes `extra`, which the source refuses",
        ],
    );
    let own = r#"{"type":"object","properties":{"id":{"type":"number"},"kind":{"const":"a"}},"additionalProperties":false}"#;
    tool(source).own(own).fill("name", "null").shows(own, &["name"], &[]);
    tool(source).fill("id", "\"7\"").fill("nope", "1").hide_defaulted().shows(
        r#"{"type":"object","properties":{"name":{"type":["string","null"]},"kind":{"enum":["a","b"]}},"required":["name"],"additionalProperties":false}"#,
        &["id", "nope"],
        &["`id` is string here, but the source takes integer", "the tool takes `nope`, which the source refuses"],
    );
    assert!(Notice::Unmet { field: FieldPath::top("name") }.is_incompatible());
}

fn named(schema: &str, schemas: &[(&str, &str)]) -> Result<String, BadReference> {
    let trees: Vec<(&str, Tree)> = schemas.iter().map(|(name, schema)| (*name, tree(schema))).collect();
    resolve_named(&tree(schema), &trees.iter().map(|(name, schema)| (*name, schema)).collect()).map(|resolved| resolved.to_string())
}

// S35, S36, S38
#[test]
fn references_to_named_schemas_are_expanded() {
    let schemas = [
        ("Query", r#"{"type":"object","properties":{"q":{"type":"string"}}}"#),
        ("Person", r##"{"type":"object","properties":{"address":{"$ref":"#/schemas/Address"}}}"##),
        ("Address", r#"{"type":"object","description":"theirs","properties":{"street":{}}}"#),
        ("Node", r##"{"type":"object","properties":{"next":{"$ref":"#Node"}}}"##),
        ("Even", r##"{"properties":{"odd":{"$ref":"#/schemas/Odd"}}}"##),
        ("Odd", r##"{"properties":{"even":{"$ref":"#/schemas/Even"}}}"##),
        ("Local", r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}"##),
        ("Old:2.0.0", r#"{"title":"two"}"#),
        ("Old", r#"{"title":"one"}"#),
    ];
    for (before, after) in [
        (r##"{"$ref":"#/schemas/Query"}"##, r#"{"type":"object","properties":{"q":{"type":"string"}}}"#),
        (r##"{"$ref":"#Query"}"##, r#"{"type":"object","properties":{"q":{"type":"string"}}}"#),
        (r##"{"$ref":"#Query:1.0.0"}"##, r#"{"type":"object","properties":{"q":{"type":"string"}}}"#),
        (r##"{"$ref":"#Old:2.0.0"}"##, r#"{"title":"two"}"#),
        (r##"{"$ref":"#Old:1.0.0"}"##, r#"{"title":"one"}"#),
        (
            r##"{"properties":{"who":{"$ref":"#/schemas/Person"}}}"##,
            r#"{"properties":{"who":{"type":"object","properties":{"address":{"type":"object","description":"theirs","properties":{"street":{}}}}}}}"#,
        ),
        (
            r##"{"items":{"$ref":"#Address","description":"mine","sourceField":"$.a"}}"##,
            r#"{"items":{"description":"mine","sourceField":"$.a","type":"object","properties":{"street":{}}}}"#,
        ),
        (
            r##"{"anyOf":[{"$ref":"#Address","required":["street"]},{"$ref":"#Address","properties":{"x":{}}}]}"##,
            r#"{"anyOf":[{"required":["street"],"type":"object","description":"theirs","properties":{"street":{}}},{"properties":{"x":{}},"allOf":[{"type":"object","description":"theirs","properties":{"street":{}}}]}]}"#,
        ),
        // What comes round to itself is kept.
        (
            r##"{"type":"object","properties":{"list":{"$ref":"#/schemas/Node"}}}"##,
            r##"{"type":"object","properties":{"list":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}}}}}"##,
        ),
        (
            r##"{"$ref":"#/schemas/Node"}"##,
            r##"{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}}}}}"##,
        ),
        (
            r##"{"properties":{"n":{"$ref":"#Even"}},"$defs":{"Even":{"title":"another"}}}"##,
            r##"{"properties":{"n":{"$ref":"#/$defs/Even-2"}},"$defs":{"Even":{"title":"another"},"Even-2":{"properties":{"odd":{"properties":{"even":{"$ref":"#/$defs/Even-2"}}}}}}}"##,
        ),
        // References inside a schema stay local to it.
        (
            r##"{"properties":{"a":{"$ref":"#/$defs/A"},"l":{"$ref":"#Local"}},"$defs":{"A":{"type":"number"}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/A"},"l":{"$ref":"#/$defs/Local"}},"$defs":{"A":{"type":"number"},"Local":{"type":"object","properties":{"a":{"$ref":"#/$defs/Local/$defs/A"}},"$defs":{"A":{"type":"string"}}}}}"##,
        ),
        (r##"{"$ref":"#Local"}"##, r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}"##),
        // What is data, or a member of that name, is no reference.
        (r##"{"properties":{"$ref":{"const":{"$ref":"#None"}}}}"##, r##"{"properties":{"$ref":{"const":{"$ref":"#None"}}}}"##),
    ] {
        assert_eq!(named(before, &schemas).unwrap_or_else(|error| panic!("{before}: {error}")), tree(after).to_string(), "{before}");
    }
}

// S37, S39
#[test]
fn references_that_lead_to_no_schema_are_named() {
    let schemas = [("Address", "{}"), ("Loop", r##"{"$ref":"#Loop"}"##), ("Through", r##"{"items":{"$ref":"#Missing"}}"##)];
    for (reference, message, help) in [
        ("#", "`#` is not a reference to a schema", "#/schemas/Name"),
        ("NoHash", "`NoHash` is not a reference to a schema", "#/schemas/Name"),
        ("https://example.com/x", "is not a reference to a schema", "#/schemas/Name"),
        ("#/schemas/", "is not a reference to a schema", "#/schemas/Name"),
        ("#/schemas/Adress", "schema `Adress` does not exist", "did you mean `#/schemas/Address`?"),
        ("#Adress:1.0.0", "schema `Adress` does not exist", "did you mean `#/schemas/Address`?"),
        ("#Through", "schema `Missing` does not exist", ""),
        ("#Loop", "larger than", ""),
    ] {
        for schema in [format!(r#"{{"$ref":"{reference}"}}"#), format!(r#"{{"properties":{{"a":{{"$ref":"{reference}"}}}}}}"#)] {
            // A schema that is only itself means nothing at the top; inside, it is kept as what it is.
            let Err(error) = named(&schema, &schemas) else {
                assert_eq!(reference, "#Loop");
                continue;
            };
            assert!(error.to_string().contains(message), "{schema}: {error}");
            assert!(error.help().unwrap_or_default().contains(help), "{schema}: {:?}", error.help());
        }
    }
}

// F3: bombs end in an error, not in memory
#[test]
fn schemas_that_multiply_are_refused() {
    let bomb = |levels: usize| -> String {
        let doubled = |level| format!(r##""d{level}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, level + 1);
        let definitions: Vec<String> = (0..levels).map(doubled).collect();
        format!(r##"{{"type":"object","$ref":"#/$defs/d0","$defs":{{{},"d{levels}":{{"properties":{{"k":{{}}}}}}}}}}"##, definitions.join(","))
    };
    assert!(hide(&bomb(4), "k").is_ok());
    assert_eq!(hide(&bomb(30), "k").unwrap_err(), CannotShow::TooLarge);

    let wide = format!(r#"{{"type":"object","enum":[{}]}}"#, ["1"; 10_001].join(","));
    assert_eq!(hide(&wide, "k").unwrap_err(), CannotShow::TooLarge);
    let deep = (0..70).fold(Tree::object(), |inner, _| Tree::Object([("not".to_owned(), inner)].into_iter().collect()));
    let wanted = Wanted { source: &deep, replacement: None, renames: &[], hidden: &[], defaults: &[], hide_defaulted: false };
    assert_eq!(show(&wanted).unwrap_err(), CannotShow::TooDeep);
    let chain: Vec<String> = (0..200).map(|at| format!(r##""d{at}":{{"$ref":"#/$defs/d{}"}}"##, at + 1)).collect();
    let chain = format!(r##"{{"type":"object","$ref":"#/$defs/d0","$defs":{{{},"d200":{{"properties":{{"k":{{}}}}}}}}}}"##, chain.join(","));
    assert_eq!(hide(&chain, "k").unwrap_err(), CannotShow::TooDeep);

    let doubled = |at: usize| tree(&format!(r##"{{"properties":{{"a":{{"$ref":"#S{0}"}},"b":{{"$ref":"#S{0}"}}}}}}"##, at + 1));
    let schemas: Vec<(String, Tree)> = (0..30).map(|at| (format!("S{at}"), doubled(at))).chain([("S30".to_owned(), Tree::object())]).collect();
    let by_name = schemas.iter().map(|(name, schema)| (name.as_str(), schema)).collect();
    assert_eq!(resolve_named(&tree(r##"{"items":{"$ref":"#S0"}}"##), &by_name), Err(BadReference::TooLarge));
}
