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
        (r#"{"type":"object","$ref":"https://example.com/s","properties":{"k":{}}}"#, "k", "from the arguments: the reference `https://example.com/s` leads out"),
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

// A9: names without a default may be hidden where nothing requires them; a secret in a header only if it is one
#[test]
fn a_hidden_argument_with_a_header_is_fine_unless_a_secret_fills_it() {
    assert!(hide(r#"{"type":"object","properties":{"k":{"type":"string","x-mcp-header":"K"}}}"#, "k").is_ok());
}
