//! cases.md 6.4 (projection), 6.5; security.md E1-E7, E12.

use super::*;
use proptest::prelude::*;
use serde_json::Value;
use transom_json::{Limits, check};

/// Doc D of cases.md 6.4.
const D: &str = r#"{"a":1,"items":[{"n":"x","t":[1,2]},{"n":"y","t":[3]}],"one":[{"n":"z"}],"empty":[],"nul":null,"d":{"e":{"f":[10,20,30]}},"odd key":5,"users":[{"e":"a"},{},{"e":"c"}],"zero":0,"f":false}"#;

fn tree(text: &str) -> Tree {
    Tree::from(check(text.as_bytes(), &Limits::REPLY).unwrap_or_else(|fault| panic!("{}: {fault}", text.get(..200).unwrap_or(text))))
}

fn compile_with(schema: &str, shaping: Shaping) -> Projection {
    Projection::compile(&tree(schema), &Rules::default(), &shaping).unwrap_or_else(|bad| panic!("{schema}: {bad:?}")).expect("it has paths")
}

fn compile(schema: &str) -> Projection {
    compile_with(schema, Shaping::default())
}

// security.md: one word for each reason, in metrics and in tests
#[test]
fn every_reason_to_make_a_result_an_error_has_a_word_of_its_own() {
    use Refused::*;
    let words = [NoJson, WrongShape, Missing, Invalid, TooLarge].map(Refused::label);
    assert_eq!(words, ["no_json", "wrong_shape", "missing_field", "invalid", "too_large"]);
}

/// A result with this structured content.
fn structured(document: &str) -> String {
    format!(r#"{{"content":[],"structuredContent":{document}}}"#)
}

/// A result with these texts.
fn answered(texts: &[&str]) -> String {
    let blocks: Vec<String> = texts.iter().map(|text| format!(r#"{{"type":"text","text":{}}}"#, write::quoted(text))).collect();
    format!(r#"{{"content":[{}]}}"#, blocks.join(","))
}

fn apply(projection: &Projection, result: &str) -> Tree {
    tree(&projection.apply(check(result.as_bytes(), &Limits::REPLY).unwrap(), false).json)
}

/// The projection of a document, or the text of the error.
fn project_with(schema: &str, document: &str, shaping: Shaping) -> String {
    let result = apply(&compile_with(schema, shaping), &structured(document));
    let text = result.pointer("/content/0/text").and_then(Tree::as_str).unwrap().to_owned();
    match result.get("structuredContent") {
        Some(projection) => {
            assert_eq!(text, projection.to_string(), "content and structuredContent say the same");
            text
        }
        None => {
            assert_eq!(result.get("isError"), Some(&Tree::Bool(true)));
            text
        }
    }
}

fn project(schema: &str, document: &str) -> String {
    project_with(schema, document, Shaping::default())
}

/// A schema with these properties.
fn object(properties: &str) -> String {
    format!(r#"{{"type":"object","properties":{{{properties}}}}}"#)
}

#[test]
fn a_path_without_a_declared_type_gives_what_it_selects() {
    let table = [
        ("$.a", "1"),                             // P1
        ("$.d.e.f", "[10,20,30]"),                // P2
        ("$.items[0]", r#"{"n":"x","t":[1,2]}"#), // P3
        ("$.items[-1].n", r#""y""#),              // P3
        ("$.items[*].n", r#"["x","y"]"#),         // P4
        ("$.one[*].n", r#"["z"]"#),               // P5
        ("$.empty[*].n", "[]"),                   // P6
        ("$.empty", "[]"),                        // P7
        ("$.nul", "null"),                        // P8
        ("$..n", r#"["x","y","z"]"#),             // P10
        ("$.d.e.f[0:2]", "[10,20]"),              // P11
        ("$.d.e.f[::2]", "[10,30]"),              // P11
        ("$['odd key']", "5"),                    // P12
        ("$.items[0,1].n", r#"["x","y"]"#),       // P15
        ("$.users[*].e", r#"["a","c"]"#),         // P16
        ("$", D),                                 // P18
        ("$.zero", "0"),                          // P21
        ("$.f", "false"),                         // P21
        ("$.items[?@.n == 'y'].t", "[[3]]"),
        ("$.missing[*]", "[]"),
    ];
    for (path, expected) in table {
        let schema = object(&format!(r#""x":{{"sourceField":{}}}"#, write::quoted(path)));
        assert_eq!(project(&schema, D), format!(r#"{{"x":{expected}}}"#), "{path}");
    }
    // P9
    for path in ["$.missing", "$.items[5].n"] {
        assert_eq!(project(&object(&format!(r#""x":{{"sourceField":"{path}"}}"#)), D), "{}", "{path}");
    }
}

#[test]
fn a_declared_type_decides_between_the_first_match_and_a_list_of_all() {
    let table = [
        ("array", "$.one[*].n", r#"{"x":["z"]}"#), // P23
        ("array", "$.empty[*].n", r#"{"x":[]}"#),  // P23
        ("array", "$.a", r#"{"x":[1]}"#),
        ("array", "$.d.e.f", r#"{"x":[10,20,30]}"#),
        ("array", "$.items[*].t", r#"{"x":[[1,2],[3]]}"#),
        ("array", "$.one[*]", r#"{"x":[{"n":"z"}]}"#),
        ("array", "$.missing", "{}"),
        ("array", "$.nul", r#"{"x":[null]}"#),
        ("string", "$.items[*].n", r#"{"x":"x"}"#),
        ("string", "$.empty[*].n", "{}"),
        ("string", "$.nul", "{}"),
        ("string", "$.a", r#"{"x":"1"}"#),
        ("number", "$.items[0].n", "{}"),
        ("object", "$.items[*]", r#"{"x":{"n":"x","t":[1,2]}}"#),
        ("object", "$.a", "{}"),
        ("integer", "$.zero", r#"{"x":0}"#),
    ];
    for (declared, path, expected) in table {
        let schema = object(&format!(r#""x":{{"type":"{declared}","sourceField":"{path}"}}"#));
        assert_eq!(project(&schema, D), expected, "{path} as {declared}");
    }
    let several = [
        (r#"["array","null"]"#, "$.nul", r#"{"x":null}"#),
        (r#"["string","array"]"#, "$.items[*].n", r#"{"x":["x","y"]}"#),
        (r#"["string","array"]"#, "$.items[0].n", r#"{"x":"x"}"#),
        (r#"["string","null"]"#, "$.nul", r#"{"x":null}"#),
        (r#"["object","null"]"#, "$.d.e", r#"{"x":{"f":[10,20,30]}}"#),
    ];
    for (declared, path, expected) in several {
        let schema = object(&format!(r#""x":{{"type":{declared},"sourceField":"{path}"}}"#));
        assert_eq!(project(&schema, D), expected, "{path} as {declared}");
    }
}

#[test]
fn a_field_with_properties_is_an_object_and_one_with_items_a_list_without_saying_so() {
    let table = [
        (r#""x":{"sourceField":"$.a","properties":{"n":{}}}"#, "{}"),
        (r#""x":{"sourceField":"$.one[0]","properties":{"n":{}}}"#, r#"{"x":{"n":"z"}}"#),
        (r#""x":{"sourceField":"$.a","items":{"type":"number"}}"#, r#"{"x":[1]}"#),
        (r#""x":{"sourceField":"$.items[*].n","items":{}}"#, r#"{"x":["x","y"]}"#),
    ];
    for (properties, expected) in table {
        assert_eq!(project(&object(properties), D), expected, "{properties}");
    }
    // What is said outright counts for more.
    for properties in
        [r#""x":{"type":"string","sourceField":"$.one[0]","properties":{"n":{}}}"#, r#""x":{"type":"string","sourceField":"$.d.e.f","items":{}}"#]
    {
        assert_eq!(project(&object(properties), D), "{}", "{properties}");
    }
}

// registry.md 6: the client is told what was needed, and nothing of what came.
#[test]
fn an_answer_in_another_shape_is_told_what_is_needed() {
    let table = [
        (r#"{"type":"array","sourceField":"$.missing"}"#, "an array is needed"),
        (r#"{"type":"object","properties":{"x":{"sourceField":"$.a.b"}}}"#, "an object is needed"),
        (r#"{"sourceField":"$.a"}"#, "an object or an array is needed"),
    ];
    for (schema, needed) in table {
        let document = if needed.starts_with("an object is") { "[1]" } else { D };
        let told = project(schema, document);
        assert!(told.ends_with(&format!("output is made of: {needed}.")), "{schema}: {told}");
    }
}

// registry.md 6: `onMissing: error` names the field, through lists and through names that are empty.
#[test]
fn a_missing_field_is_named_by_its_way() {
    let table = [
        (r#""a":{"properties":{"b":{"onMissing":"error"}}}"#, r#"{"a":{}}"#, "a.b"),
        (r#""a":{"items":{"properties":{"b":{"onMissing":"error"}}}}"#, r#"{"a":[{"b":1},{}]}"#, "a[1].b"),
        (r#""a":{"properties":{"":{"onMissing":"error"}}}"#, r#"{"a":{}}"#, "a"),
        (r#""":{"properties":{"b":{"onMissing":"error"}}}"#, r#"{"":{}}"#, "b"),
    ];
    for (properties, document, way) in table {
        let schema = object(&format!(r#"{properties},"z":{{"literal":1}}"#));
        let told = project(&schema, document);
        assert_eq!(told, format!("The tool answered without a value for the field \"{way}\", which has to be there."), "{properties}");
    }
}

#[test]
fn projections_of_whole_documents() {
    let table = [
        // P30
        (r#""result":{"type":"number","sourceField":"$.raw.data.value"}"#, r#"{"raw":{"data":{"value":42}}}"#, r#"{"result":42}"#),
        // P31
        (
            r#""temperature":{"type":"number","sourceField":"$.sensor.temp"},"humidity":{"sourceField":"$.sensor.hum"},"station":{"sourceField":"$.meta.station"}"#,
            r#"{"sensor":{"temp":72.5,"hum":45,"x":1},"meta":{"station":"A"}}"#,
            r#"{"temperature":72.5,"humidity":45,"station":"A"}"#,
        ),
        // P32, P33
        (
            r#""status":{"type":"string"},"wind":{"sourceField":"$.wind"},"t":{"sourceField":"$.t"}"#,
            r#"{"status":"ok","t":1,"u":2}"#,
            r#"{"status":"ok","t":1}"#,
        ),
        // P34
        (
            r#""ids":{"type":"array","sourceField":"$.records[*].id"}"#,
            r#"{"records":[{"id":"a"},{"id":"b"},{"id":"c"}]}"#,
            r#"{"ids":["a","b","c"]}"#,
        ),
        // P35, P36
        (
            r#""contacts":{"type":"array","sourceField":"$.users","items":{"type":"object","properties":{"name":{"sourceField":"$.full_name"},"email":{"sourceField":"$.mail.work"}}}}"#,
            r#"{"users":[{"full_name":"A","mail":{"work":"a@x"},"ssn":1},{"full_name":"B"}]}"#,
            r#"{"contacts":[{"name":"A","email":"a@x"},{"name":"B"}]}"#,
        ),
        // P38: the spelling of 68.0 stays
        (
            r#""t":{"sourceField":"$.stations[*].readings.temp"}"#,
            r#"{"stations":[{"readings":{"temp":72.5}},{"readings":{"temp":68.0}},{"readings":{"temp":75.2}}]}"#,
            r#"{"t":[72.5,68.0,75.2]}"#,
        ),
        // P39
        (r#""a":{"sourceField":"$.readings[0]"},"b":{"sourceField":"$.readings[1]"}"#, r#"{"readings":[100,105]}"#, r#"{"a":100,"b":105}"#),
        // P41
        (
            r#""names":{"sourceField":"$.entities[*].name"},"sources":{"sourceField":"$.relations[*].from"},"pairs":{"type":"array","sourceField":"$.entities[*]","items":{"properties":{"name":{},"type":{"sourceField":"$.entityType"}}}},"triples":{"type":"array","sourceField":"$.relations[*]","items":{"properties":{"subject":{"sourceField":"$.from"},"predicate":{"sourceField":"$.relationType"},"object":{"sourceField":"$.to"}}}}"#,
            r#"{"entities":[{"name":"A","entityType":"p","o":[]},{"name":"B","entityType":"q"}],"relations":[{"from":"A","to":"B","relationType":"r"},{"from":"A","to":"A","relationType":"s"}]}"#,
            r#"{"names":["A","B"],"sources":["A","A"],"pairs":[{"name":"A","type":"p"},{"name":"B","type":"q"}],"triples":[{"subject":"A","predicate":"r","object":"B"},{"subject":"A","predicate":"s","object":"A"}]}"#,
        ),
        // P42
        (
            r#""total":{"type":"integer","sourceField":"$.total_count"},"repos":{"type":"array","sourceField":"$.items[*]","items":{"type":"object","properties":{"name":{"sourceField":"$.full_name"},"stars":{"sourceField":"$.stargazers_count"},"url":{"sourceField":"$.html_url"}}}}"#,
            r#"{"total_count":2,"items":[{"full_name":"o/a","stargazers_count":5,"html_url":"u1","private":true},{"full_name":"o/b","stargazers_count":7,"html_url":"u2"}]}"#,
            r#"{"total":2,"repos":[{"name":"o/a","stars":5,"url":"u1"},{"name":"o/b","stars":7,"url":"u2"}]}"#,
        ),
        // P43
        (r#""link":{"coalesce":["$.pdf","$.web","$.fallback"]}"#, r#"{"pdf":null,"web":"w","fallback":"f"}"#, r#"{"link":"w"}"#),
        (r#""link":{"coalesce":["$.pdf","$.web"]}"#, r#"{"pdf":null}"#, "{}"),
        (r#""link":{"coalesce":["$.a[*].url","$.web"]}"#, r#"{"a":[],"web":"w"}"#, r#"{"link":"w"}"#),
        (r#""links":{"type":"array","coalesce":["$.a[*].url","$.b"]}"#, r#"{"a":[{"url":null},{"url":"w"}],"b":"f"}"#, r#"{"links":["w"]}"#),
        (r#""links":{"type":"array","coalesce":["$.a[*].url","$.b"]}"#, r#"{"a":[{"url":null}],"b":"f"}"#, r#"{"links":["f"]}"#),
        (r#""link":{"sourceField":"$.pdf","literal":"none"}"#, r#"{"pdf":null}"#, r#"{"link":"none"}"#),
        (r#""link":{"coalesce":["$.pdf",{"literal":"none"}]}"#, "{}", r#"{"link":"none"}"#),
        // P44
        (
            r#""s":{"literal":"v1"},"n":{"type":"number","literal":1.0},"b":{"literal":false},"o":{"literal":{"a":[1]}}"#,
            r#"{"s":"no"}"#,
            r#"{"s":"v1","n":1.0,"b":false,"o":{"a":[1]}}"#,
        ),
        // P45
        (
            r#""cite":{"type":"string","template":"{author} ({year}). {title}","vars":{"author":"$.author.name","year":"$.year","title":"$.title"}}"#,
            r#"{"author":{"name":"Smith"},"year":2024,"title":"A Study"}"#,
            r#"{"cite":"Smith (2024). A Study"}"#,
        ),
        // P46
        (
            r#""name":{"template":"{first} {last}","vars":{"first":"$.first","last":"$.last"}}"#,
            r#"{"first":"John","last":"Doe"}"#,
            r#"{"name":"John Doe"}"#,
        ),
        (r#""name":{"template":"{first} {last}","vars":{"first":"$.first","last":"$.last"}}"#, r#"{"first":"John"}"#, "{}"),
        (
            r#""n":{"template":"{{{a}}} {b}","vars":{"a":"$.a","b":{"coalesce":["$.b"],"literal":"-"}}}"#,
            r#"{"a":"\"q\"\n"}"#,
            r#"{"n":"{\"q\"\n} -"}"#,
        ),
        (r#""n":{"type":"number","template":"{a}.{b}","vars":{"a":"$.a","b":"$.b"}}"#, r#"{"a":1,"b":50}"#, r#"{"n":1.50}"#),
        // P47: a group of fields from one place, or from the whole
        (
            r#""author_info":{"type":"object","sourceField":"$.author","properties":{"name":{"sourceField":"$.n"},"mail":{"sourceField":"$.m"}}}"#,
            r#"{"author":{"n":"A","m":"a@x","id":9}}"#,
            r#"{"author_info":{"name":"A","mail":"a@x"}}"#,
        ),
        (
            r#""author_info":{"sourceField":"$","properties":{"name":{"sourceField":"$.author.n"}}}"#,
            r#"{"author":{"n":"A","id":9},"author_info":{"name":"no"}}"#,
            r#"{"author_info":{"name":"A"}}"#,
        ),
        // P49, R-003-15
        (
            r#""temperature":{"type":"number","sourceField":"$.data.current.temp_f"},"conditions":{"type":"string","sourceField":"$.data.current.condition.text"}"#,
            r#"{"data":{"current":{"temp_f":52.3,"condition":{"text":"Cloudy","code":1}},"cost":0.1}}"#,
            r#"{"temperature":52.3,"conditions":"Cloudy"}"#,
        ),
        // P50, R-003-61
        (
            r#""result":{"type":"string","sourceField":"$.deeply.nested.value"}"#,
            r#"{"deeply":{"nested":{"value":"hello"}}}"#,
            r#"{"result":"hello"}"#,
        ),
        // R-003-45, with the old spelling
        (r#""n":{"source_field":"$..name"}"#, r#"{"name":1,"x":[{"name":2}]}"#, r#"{"n":[1,2]}"#),
        // E7: what no reader can hold passes through, and can be compared with
        (
            r#""n":{"type":"number","sourceField":"$.n"},"m":{"sourceField":"$..n"},"l":{"sourceField":"$.r[?@.n > 5].n"}"#,
            r#"{"n":1e400,"r":[{"n":-1e400},{"n":1e400},{"n":18446744073709551616}]}"#,
            r#"{"n":1e400,"m":[1e400,-1e400,1e400,18446744073709551616],"l":[1e400,18446744073709551616]}"#,
        ),
        // White space between values goes, inside strings it stays
        (r#""o":{"sourceField":"$.o"}"#, "{ \"o\" : { \"a b\" : [ 1 , \" \\\" x \" ] } }", r#"{"o":{"a b":[1," \" x "]}}"#),
        // An element that does not fit is treated as any other missing value
        (r#""l":{"type":"array","sourceField":"$.l","items":{"type":"integer"}}"#, r#"{"l":[1,"2","x",null,4.0]}"#, r#"{"l":[1,2,4.0]}"#),
        (r#""l":{"type":"array","sourceField":"$.l","items":{"sourceField":"$.v"}}"#, r#"{"l":[{"v":1},{},{"v":3}]}"#, r#"{"l":[1,3]}"#),
        // Keys are compared after unescaping; of equal ones the last counts
        (r#""x":{"sourceField":"$.é"}"#, r#"{"\u00e9":1,"é":2}"#, r#"{"x":2}"#),
    ];
    for (properties, document, expected) in table {
        assert_eq!(project(&object(properties), document), expected, "{properties}");
    }
}

#[test]
fn an_array_can_be_projected_and_legacy_clients_get_it_wrapped() {
    // J37, registry.md 6
    let projection = compile(r#"{"type":"array","sourceField":"$.rows","items":{"properties":{"id":{"sourceField":"$.key.id"}}}}"#);
    let result = structured(r#"{"rows":[{"key":{"id":1,"secret":2}},{"key":{"id":2}}]}"#);
    let shaped = |wrap| projection.apply(Json::trusted(&result), wrap).json.into_owned();
    let text = r#"[{"type":"text","text":"[{\"id\":1},{\"id\":2}]"}]"#;
    assert_eq!(shaped(false), format!(r#"{{"structuredContent":[{{"id":1}},{{"id":2}}],"content":{text}}}"#));
    assert_eq!(shaped(true), format!(r#"{{"structuredContent":{{"items":[{{"id":1}},{{"id":2}}]}},"content":{text}}}"#));
    let bare = compile(r#"{"type":"array","items":{"properties":{"id":{"sourceField":"$.i"}}}}"#);
    assert_eq!(apply(&bare, &answered(&[r#"[{"i":1,"j":2}]"#])).get("structuredContent").unwrap().to_string(), r#"[{"id":1}]"#);
}

#[test]
fn a_schema_that_refers_to_itself_shapes_a_tree() {
    let schema = r##"{"$ref":"#/$defs/Node","$defs":{"Node":{"type":"object","properties":{"id":{"sourceField":"$.key"},"below":{"type":"array","sourceField":"$.children","items":{"$ref":"#/$defs/Node"}}}}}}"##;
    let document = r#"{"key":1,"x":0,"children":[{"key":2,"x":0,"children":[]},{"key":3,"children":[{"key":4,"x":0}]}]}"#;
    assert_eq!(project(schema, document), r#"{"id":1,"below":[{"id":2,"below":[]},{"id":3,"below":[{"id":4}]}]}"#);
    // As deep as a document can be.
    let chain = r##"{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"next":{"sourceField":"$.n","$ref":"#/$defs/N"}}}}}"##;
    let nested = |name: &str| format!("{}{{}}{}", format!(r#"{{"{name}":"#).repeat(62), "}".repeat(62));
    assert_eq!(project(chain, &nested("n")), nested("next"));
    // Where a value comes from may stand behind the reference as well; what stands before it counts first.
    let shared = r##"{"type":"object","properties":{"x":{"$ref":"#/$defs/T"},"y":{"$ref":"#/$defs/T","sourceField":"$.u"}},"$defs":{"T":{"type":"number","sourceField":"$.t"}}}"##;
    assert_eq!(project(shared, r#"{"t":1,"u":2,"x":3,"y":4}"#), r#"{"x":1,"y":2}"#);
    // One that never gets anywhere ends all the same.
    let endless = r##"{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"a":{"sourceField":"$","$ref":"#/$defs/N"},"b":{"sourceField":"$","$ref":"#/$defs/N"}}}}}"##;
    assert_eq!(project(endless, "{}"), "The tool's answer is too large to be shaped.");
}

#[test]
fn a_missing_value_is_omitted_null_or_an_error() {
    let properties = r#""a":{"sourceField":"$.a"},"b":{"type":"number","sourceField":"$.b"}"#;
    let with = |on_missing| project_with(&object(properties), r#"{"a":1,"b":"x","c":3}"#, Shaping { on_missing, ..Shaping::default() });
    assert_eq!(with(OnMissing::Omit), r#"{"a":1}"#);
    assert_eq!(with(OnMissing::Null), r#"{"a":1,"b":null}"#);
    assert!(with(OnMissing::Error).contains("\"b\""));
    assert_eq!(project(&object(r#""a":{"sourceField":"$.x","onMissing":"null"}"#), "{}"), r#"{"a":null}"#);
}

#[test]
fn a_required_field_that_is_missing_makes_an_error_with_its_name() {
    // O7
    let schema = r#"{"type":"object","required":["rows"],"properties":{"rows":{"type":"array","sourceField":"$.r","items":{"required":["id"],"properties":{"id":{"type":"string","sourceField":"$.i"}}}}}}"#;
    assert_eq!(project(schema, r#"{"r":[{"i":"a"}]}"#), r#"{"rows":[{"id":"a"}]}"#);
    assert!(project(schema, r#"{"r":[{"i":"a"},{"internal_cost":9}]}"#).contains("\"rows[1].id\""));
    assert!(project(schema, r#"{"internal_cost":9}"#).contains("\"rows\""));
    for on_missing in [OnMissing::Null, OnMissing::Omit] {
        assert!(project_with(schema, "{}", Shaping { on_missing, ..Shaping::default() }).contains("has to be there"));
    }
}

#[test]
fn a_projection_that_the_advertised_schema_does_not_allow_is_an_error() {
    // E4
    let schema = object(r#""unit":{"type":"string","enum":["C","F"],"sourceField":"$.u"},"t":{"type":"number","maximum":100,"sourceField":"$.t"}"#);
    assert_eq!(project(&schema, r#"{"u":"C","t":3}"#), r#"{"unit":"C","t":3}"#);
    assert_eq!(project(&schema, r#"{"t":"3"}"#), r#"{"t":3}"#);
    let refused = project(&schema, r#"{"u":"internal_cost","t":3}"#);
    assert!(refused.contains("\"/unit\"") && !refused.contains("internal_cost"), "{refused}");
    assert!(project(&schema, r#"{"t":1e400}"#).contains("\"/t\""));
    let null = Shaping { on_missing: OnMissing::Null, ..Shaping::default() };
    assert_eq!(project_with(&schema, r#"{"t":3}"#, null), r#"{"unit":null,"t":3}"#);
    let bad = Projection::compile(&tree(&object(r#""u":{"sourceField":"$.u","pattern":"("}"#)), &Rules::default(), &null).unwrap_err();
    assert!(bad.first().is_some_and(|bad| bad.message.contains("not JSON Schema")), "{bad:?}");
}

#[test]
fn only_what_the_schema_names_is_left_of_a_result() {
    // E1-E4, E6, O1, O2, O6, O8, J34, J35
    let projection = compile(&object(r#""temp":{"sourceField":"$.current.temp_c"}"#));
    let good = r#"{"current":{"temp_c":3,"internal_cost":9}}"#;
    let other = r#"{"current":{"temp_c":4},"internal_cost":9}"#;
    let quoted = write::quoted(other);
    let text = |text: &str| format!(r#"{{"type":"text","text":{}}}"#, write::quoted(text));
    let shapes = [
        structured(good),                                                                                              // O2
        answered(&[good]),                                                                                             // O1
        answered(&["temp is 3, internal_cost 9", good]),                                                               // E3
        answered(&[good, other]),                                                                                      // E3
        answered(&[&format!("Here:\n```json\n{good}\n```\ninternal_cost")]),                                           // J22
        answered(&[&format!("internal_cost: [9] {good}")]),                                                            // J24
        format!(r#"{{"structuredContent":{good},"content":[{{"type":"text","text":{quoted}}}]}}"#),                    // E4, J35
        format!(r#"{{"content":[{{"type":"image","data":"internal_cost","mimeType":"image/png"}},{}]}}"#, text(good)), // O6, J34
        format!(r#"{{"content":[{{"type":"audio","data":"internal_cost","mimeType":"a/b"}},{}]}}"#, text(good)),
        format!(r#"{{"content":[{{"type":"resource","resource":{{"uri":"x","text":"internal_cost"}}}},{}]}}"#, text(good)),
        format!(r#"{{"content":[{{"type":"resource_link","uri":"file:///etc/passwd?internal_cost","name":"x"}},{}]}}"#, text(good)),
        format!(r#"{{"content":[{{"type":"text"}},{{"type":"text","text":7}},8,{}],"internal_cost":9}}"#, text(good)),
        format!(r#"{{"content":[{{"type":"text","text":{},"annotations":{{"internal_cost":9}}}}]}}"#, write::quoted(good)),
        format!(r#"{{"structuredContent":null,"content":[{}],"isError":false}}"#, text(good)),
    ];
    for result in shapes {
        let shaped = projection.apply(check(result.as_bytes(), &Limits::REPLY).unwrap(), true);
        assert_eq!(shaped.outcome, Outcome::Projected, "{result}");
        assert_eq!(shaped.json, r#"{"structuredContent":{"temp":3},"content":[{"type":"text","text":"{\"temp\":3}"}]}"#, "{result}");
    }
    let with_meta = format!(r#"{{"_meta":{{"trace": "t"}},{}"#, &structured(good)[1..]); // O8
    assert!(projection.apply(Json::trusted(&with_meta), false).json.ends_with(r#","_meta":{"trace": "t"}}"#));
}

#[test]
fn a_result_that_cannot_be_shaped_is_an_error_with_nothing_of_it() {
    // E1, E6, E7, J8, J31, J34, J36
    let projection = compile(&object(r#""temp":{"sourceField":"$.current.temp_c"}"#));
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let table = [
        (answered(&["temp is 3, internal_cost 9"]), Refused::NoJson),
        (answered(&["42", "\"internal_cost\"", "true", "null", ""]), Refused::NoJson),
        (answered(&[&deep]), Refused::NoJson),
        (answered(&[r#"{"current":{"temp_c":NaN,"internal_cost":9}}"#]), Refused::NoJson),
        (answered(&[r#"{"current":"\ud800","internal_cost":9}"#]), Refused::NoJson),
        (r#"{"content":[]}"#.to_owned(), Refused::NoJson),
        (r#"{"content":"internal_cost"}"#.to_owned(), Refused::NoJson),
        ("{}".to_owned(), Refused::NoJson),
        ("[\"internal_cost\"]".to_owned(), Refused::NoJson),
        (structured(r#"[{"internal_cost":9}]"#), Refused::WrongShape),
        (structured(r#""internal_cost""#), Refused::WrongShape),
        (structured("9"), Refused::WrongShape),
        (answered(&[r#"[{"internal_cost":9}]"#]), Refused::WrongShape),
    ];
    for (result, reason) in table {
        let with_meta = format!(r#"{{"_meta":{{"internal_cost":9}},{}"#, result.get(1..).unwrap());
        for result in [result, with_meta].into_iter().filter(|text| check(text.as_bytes(), &Limits::REPLY).is_ok()) {
            let shaped = projection.apply(Json::trusted(&result), false);
            assert_eq!(shaped.outcome, Outcome::Refused(reason), "{result}");
            assert!(shaped.json.contains(r#""isError":true"#) && !shaped.json.contains("internal_cost"), "{}", shaped.json);
        }
    }
    let open = compile_with(&object(r#""temp":{"sourceField":"$.t"}"#), Shaping { on_unshaped: OnUnshaped::Passthrough, ..Shaping::default() });
    let prose = answered(&["just prose"]);
    assert_eq!(open.apply(Json::trusted(&prose), false), Shaped { json: Cow::Borrowed(&prose), outcome: Outcome::Passed });
}

#[test]
fn an_error_of_the_tool_passes_or_becomes_generic() {
    // E2
    let result = r#"{"content":[{"type":"text","text":"internal_cost"}],"structuredContent":{"t":1},"isError": true,"_meta":{"a":1}}"#;
    let schema = object(r#""t":{"sourceField":"$.t"}"#);
    assert_eq!(compile(&schema).apply(Json::trusted(result), false), Shaped { json: Cow::Borrowed(result), outcome: Outcome::Passed });
    let generic = compile_with(&schema, Shaping { errors: Errors::Generic, ..Shaping::default() }).apply(Json::trusted(result), false);
    assert_eq!(generic.json, r#"{"content":[{"type":"text","text":"The tool reported an error."}],"isError":true,"_meta":{"a":1}}"#);
}

#[test]
fn a_question_to_the_client_is_not_projected_and_carries_nothing_else() {
    let projection = compile(&object(r#""t":{"sourceField":"$.t"}"#));
    let question = r#"{"resultType":"input_required","requestState":"s","inputRequests":{"a":{}}}"#;
    assert_eq!(projection.apply(Json::trusted(question), false).json, question);
    let smuggling = r#"{"resultType":"input_required","requestState":"s","structuredContent":{"internal_cost":9},"content":[]}"#;
    assert_eq!(projection.apply(Json::trusted(smuggling), false).json, r#"{"resultType":"input_required","requestState":"s"}"#);
}

#[test]
fn other_blocks_stay_only_if_the_tool_says_so() {
    // O6
    let result = r#"{"content":[{"type":"text","text":"{\"t\":1,\"u\":2}"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}"#;
    let schema = object(r#""t":{"sourceField":"$.t"}"#);
    let keep = compile_with(&schema, Shaping { keep_content: true, ..Shaping::default() });
    assert_eq!(
        keep.apply(Json::trusted(result), false).json,
        r#"{"structuredContent":{"t":1},"content":[{"type":"text","text":"{\"t\":1}"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}"#
    );
    assert!(!compile(&schema).apply(Json::trusted(result), false).json.contains("image"));
}

#[test]
fn a_schema_without_paths_projects_nothing() {
    // P37, P48, O3
    for schema in [
        "{}",
        r#"{"type":"object"}"#,
        r#"{"type":"object","properties":{"literal":{"type":"string"},"a":{"const":{"sourceField":"$.x"}}}}"#,
        r#"{"type":"object","properties":{"a":{"enum":[{"sourceField":"$.x"}],"default":{"b":{"sourceField":"$.x"}}}}}"#,
        "true",
    ] {
        assert!(Projection::compile(&tree(schema), &Rules::default(), &Shaping::default()).unwrap().is_none(), "{schema}");
    }
}

#[test]
fn the_advertised_schema_has_no_path_words_at_any_depth() {
    // P40, O14, S42
    let written = tree(
        r#"{"type":"object","properties":{"literal":{"type":"string","sourceField":"$.x","description":"d"},"rows":{"type":"array","coalesce":["$.a"],"items":{"properties":{"id":{"source_field":"$.i","minimum":1}},"anyOf":[{"template":"x","vars":{}}]}}},"required":["literal"],"$defs":{"N":{"literal":1,"enum":[{"literal":1}],"default":{"template":"kept","x":{"template":"kept"}}}},"additionalProperties":{"onMissing":"null"}}"#,
    );
    let before = written.clone();
    assert_eq!(
        advertised(&written).to_string(),
        r#"{"type":"object","properties":{"literal":{"type":"string","description":"d"},"rows":{"type":"array","items":{"properties":{"id":{"minimum":1}},"anyOf":[{}]}}},"required":["literal"],"$defs":{"N":{"enum":[{"literal":1}],"default":{"template":"kept","x":{"template":"kept"}}}},"additionalProperties":{}}"#
    );
    assert_eq!(written, before);
}

#[test]
fn what_cannot_be_used_is_named_with_its_place() {
    // P19, P20, E12
    let table = [
        (object(r#""x":{"sourceField":"a"}"#), "/properties/x/sourceField", Some(0..1), "begins with `$`"),
        (object(r#""x/y":{"sourceField":"$.odd key"}"#), "/properties/x~1y/sourceField", Some(5..9), "not part of a path"),
        (object(r#""x":{"sourceField":7}"#), "/properties/x/sourceField", None, "a path is a string"),
        (object(r#""x":{"coalesce":"$.a"}"#), "/properties/x/coalesce", None, "list of paths"),
        (object(r#""x":{"coalesce":[]}"#), "/properties/x/coalesce", None, "list of paths"),
        (object(r#""x":{"coalesce":["$.a","$."]}"#), "/properties/x/coalesce/1", Some(1..2), "missing after the dot"),
        (object(r#""x":{"template":"{a} {b}","vars":{"a":"$.a"}}"#), "/properties/x/template", Some(4..7), "`{b}` is none of the `vars`"),
        (object(r#""x":{"template":"{a","vars":{}}"#), "/properties/x/template", Some(0..2), "none of the `vars`"),
        (object(r#""x":{"template":"{a}","vars":{"a":"b"}}"#), "/properties/x/vars/a", Some(0..1), "begins with `$`"),
        (object(r#""x":{"type":"number","literal":"v"}"#), "/properties/x/literal", None, "not of the declared type"),
        (object(r#""x":{"type":"text","sourceField":"$.x"}"#), "/properties/x/type", None, "no type of JSON Schema"),
        (object(r#""x":{"sourceField":"$.x","onMissing":"skip"}"#), "/properties/x/onMissing", None, "one of"),
        (object(r#""x":{"sourceField":"$.x","onMissing":7}"#), "/properties/x/onMissing", None, "one of"),
        (
            object(r#""x":{"sourceField":"$.x","anyOf":[{"properties":{"y":{"sourceField":"$.y"}}}]}"#),
            "/properties/x/anyOf/0/properties/y/sourceField",
            None,
            "never read",
        ),
        (r#"{"required":["y"],"properties":{"x":{"sourceField":"$.x"}}}"#.to_owned(), "/required/0", None, "none of the properties"),
        (r#"{"type":"string","sourceField":"$.x"}"#.to_owned(), "/type", None, "an object or an array"),
    ];
    for (schema, pointer, at, message) in table {
        let bad = Projection::compile(&tree(&schema), &Rules::default(), &Shaping::default()).expect_err(&schema);
        let [bad] = bad.as_slice() else { panic!("{schema}: {bad:?}") };
        assert_eq!((bad.pointer.as_str(), bad.at.clone()), (pointer, at), "{schema}");
        assert!(bad.message.contains(message), "{schema}: {}", bad.message);
    }
    let several = object(r#""x":{"sourceField":"a"},"y":{"sourceField":"$["},"z":{"sourceField":"$.z"}"#);
    assert_eq!(Projection::compile(&tree(&several), &Rules::default(), &Shaping::default()).unwrap_err().len(), 2);
}

#[test]
fn a_projection_costs_no_more_than_its_budget() {
    // E12: the path, the document, the output
    let wide = format!("[{}0]", "{\"a\":0},".repeat(100_000));
    let schema = |path: &str| format!(r#"{{"type":"array","sourceField":"{path}"}}"#);
    assert!(project(&schema("$[0:2]"), &wide).starts_with("[{"));
    let shaped = r#"{"type":"array","items":{"properties":{"a":{}}}}"#;
    let rows = format!("[{}]", vec![r#"{"a":0}"#; 1_000].join(","));
    assert_eq!(project(&shaped.replace("{}", r#"{"sourceField":"$.a"}"#), &rows), rows);
    let long = format!(r#"["{}"]"#, "x".repeat(2 << 20));
    assert_eq!(project(&schema("$"), &long), long);
    assert_eq!(project(&schema("$..[*,*,*,*,*,*]"), &wide), "The tool's answer is too large to be shaped.");
    // Each value of a deep document with all that is below it: little work, much output.
    let deep = format!("{}\"{}\"{}", "[".repeat(60), "x".repeat(1024 * 1024), "]".repeat(60));
    assert_eq!(project(&schema("$..*"), &deep), "The tool's answer is too large to be shaped.");
    // Paths inside items share one budget for all items.
    let nested = (0..6).fold("{}".to_owned(), |items, _| format!(r#"{{"type":"array","sourceField":"$..*","items":{items}}}"#));
    let deep = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    assert_eq!(project(&nested, &deep), "The tool's answer is too large to be shaped.");
}

/// A document in which every scalar and every key that no path names is a word of its own.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = Just(Value::Null);
    let shape = leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[abcd]", inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    shape.prop_map(|mut value| {
        name_leaves(&mut value, &mut 0);
        value
    })
}

fn name_leaves(value: &mut Value, next: &mut usize) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| name_leaves(element, next)),
        Value::Object(members) => members.values_mut().for_each(|member| name_leaves(member, next)),
        _ => {
            *next += 1;
            *value = Value::from(format!("leaf{next}."));
        }
    }
}

/// The words of all scalars in a text.
fn leaves(text: &str) -> Vec<String> {
    text.split("leaf").skip(1).filter_map(|rest| rest.split_once('.')).map(|(number, _)| format!("leaf{number}.")).collect()
}

fn below(path: &str, value: &Value) -> Vec<Value> {
    serde_json_path::JsonPath::parse(path).unwrap().query(value).iter().map(|value| (*value).clone()).collect()
}

const PATHS: [&str; 10] = ["$.a", "$.b.c", "$[0]", "$[*].a", "$..b", "$.c[?@.a]", "$.a[-1]", "$['d','a']", "$..[0:2]", "$.b[*].c"];

proptest! {
    /// E3, N4: whatever the target answers, no value leaves that no path selects.
    #[test]
    fn a_projection_never_has_a_value_that_no_path_selects(
        document in documents(),
        extra in documents(),
        outer in prop::sample::select(&PATHS[..]),
        rows in prop::sample::select(&PATHS[..]),
        inner in prop::sample::select(&PATHS[..]),
        declared in prop::sample::select(vec!["", r#""type":"array","#, r#""type":"string","#, r#""type":"object","#]),
        channel in 0..4,
    ) {
        prop_assume!(document.is_array() || document.is_object());
        let schema = format!(
            r#"{{"type":"object","properties":{{"x":{{{declared}"sourceField":"{outer}"}},"rows":{{"type":"array","sourceField":"{rows}","items":{{"type":"object","properties":{{"y":{{"sourceField":"{inner}"}},"d":{{}}}}}}}},"t":{{"template":"<{{v}}>","vars":{{"v":"{inner}"}}}}}}}}"#
        );
        let extra = extra.to_string().replace("leaf", "leafextra");
        let result = match channel {
            0 => format!(r#"{{"structuredContent":{document},"content":[{{"type":"text","text":{}}}],"other":{extra}}}"#, write::quoted(&extra)),
            1 => answered(&[&document.to_string(), &extra]),
            2 => answered(&["prose", &format!("Here:\n```json\n{document}\n```\n{extra}")]),
            _ => format!(r#"{{"content":[{{"type":"resource","resource":{extra}}},{{"type":"text","text":{}}}]}}"#, write::quoted(&document.to_string())),
        };
        let shaped = compile(&schema).apply(check(result.as_bytes(), &Limits::REPLY).unwrap(), false);
        prop_assert!(check(shaped.json.as_bytes(), &Limits::REQUEST).is_ok(), "{}", shaped.json);

        let mut selected = below(outer, &document);
        for row in below(rows, &document).into_iter().flat_map(|row| match row {
            Value::Array(elements) => [vec![Value::Array(elements.clone())], elements].concat(),
            row => vec![row],
        }) {
            selected.extend(below(inner, &row));
            selected.extend(below("$.d", &row));
        }
        selected.extend(below(inner, &document));
        let allowed: Vec<String> = selected.iter().flat_map(|value| leaves(&value.to_string())).collect();
        for leaf in leaves(&shaped.json) {
            prop_assert!(allowed.contains(&leaf), "{} in {}", leaf, shaped.json);
        }
    }

    /// Compile and apply take whatever comes.
    #[test]
    fn no_schema_and_no_result_makes_it_panic(
        schema in documents(),
        path in prop::sample::select(&PATHS[..]),
        text in r#"([\[\]{}",:0-9a \n\\]|```|\{"a":|\[\{){0,40}"#,
    ) {
        let words = schema.to_string().replace("\"a\"", "\"properties\"").replace("\"b\"", "\"sourceField\"").replace("\"c\"", "\"items\"").replace("\"leaf1.\"", &format!("\"{path}\""));
        let schema = Tree::from(Json::trusted(&words));
        if let Ok(Some(projection)) = Projection::compile(&schema, &Rules::default(), &Shaping::default()) {
            let result = answered(&[&text]);
            prop_assert!(check(projection.apply(Json::trusted(&result), true).json.as_bytes(), &Limits::REPLY).is_ok());
        }
        prop_assert_eq!(advertised(&advertised(&schema)), advertised(&schema));
    }
}
