use super::*;
use transom_json::{Limits, check};

fn exported(provider: Provider, definitions: &[&str]) -> Vec<String> {
    let definitions: Vec<Json<'_>> = definitions.iter().map(|text| check(text.as_bytes(), &Limits::REPLY).unwrap()).collect();
    let names: Vec<String> = definitions.iter().map(|tool| tool.get("name").and_then(Json::string).unwrap().into_owned()).collect();
    let safe = SafeNames::of(provider, names.iter().map(String::as_str));
    let tools = definitions.iter().zip(&names).map(|(definition, name)| Tool {
        name,
        server: Some("a"),
        own_name: name,
        qualified: None,
        is_virtual: false,
        definition: *definition,
    });
    let text = export(provider, tools, &safe);
    check(text.as_bytes(), &Limits::REPLY).unwrap().elements().map(|tool| tool.raw().to_owned()).collect()
}

/// The Gemini form of a property.
fn gemini(property: &str) -> String {
    gemini_with(property, "{}")
}

fn gemini_with(property: &str, definitions: &str) -> String {
    let tool = format!(r#"{{"name":"t","inputSchema":{{"type":"object","properties":{{"p":{property}}},"$defs":{definitions}}}}}"#);
    let tool = exported(Provider::Gemini, &[&tool]).remove(0);
    let tool = Tree::from(Json::trusted(&tool));
    let property = tool.pointer("/functionDeclarations/0/parameters/properties/p");
    property.unwrap_or_else(|| panic!("{tool}")).to_string()
}

const CALCULATOR: &str = r#"{"name":"calculator","description":"Calculates.","inputSchema":{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}}"#;
const CLOCK: &str = r#"{"name":"clock","title":"Clock","inputSchema":{"type":"object"}}"#;

// F1, R-002-7
#[test]
fn openai_takes_a_function_with_name_description_and_parameters() {
    assert_eq!(
        exported(Provider::OpenAi, &[CALCULATOR, CLOCK]),
        [
            r#"{"type":"function","function":{"name":"calculator","description":"Calculates.","parameters":{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}}}"#,
            r#"{"type":"function","function":{"name":"clock","description":"Clock","parameters":{"type":"object","properties":{}}}}"#,
        ]
    );
}

// F2, R-002-8
#[test]
fn ollama_takes_what_openai_takes() {
    assert_eq!(exported(Provider::Ollama, &[CALCULATOR, CLOCK]), exported(Provider::OpenAi, &[CALCULATOR, CLOCK]));
}

// F3, R-002-9
#[test]
fn gemini_takes_declarations_one_list_a_tool_and_no_parameters_where_there_are_none() {
    assert_eq!(
        exported(Provider::Gemini, &[CALCULATOR, CLOCK]),
        [
            r#"{"functionDeclarations":[{"name":"calculator","description":"Calculates.","parameters":{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}}]}"#,
            r#"{"functionDeclarations":[{"name":"clock","description":"Clock"}]}"#,
        ]
    );
}

// F7
#[test]
fn anthropic_takes_an_input_schema() {
    assert_eq!(
        exported(Provider::Anthropic, &[CALCULATOR, r#"{"name":"bare"}"#]),
        [
            r#"{"name":"calculator","description":"Calculates.","input_schema":{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}}"#,
            r#"{"name":"bare","input_schema":{"type":"object","properties":{}}}"#,
        ]
    );
}

// F7, R-002-11
#[test]
fn a_provider_nobody_knows_is_an_error_that_names_those_we_know() {
    for provider in Provider::ALL {
        assert_eq!(Provider::parse(provider.name()), Ok(provider));
    }
    let error = Provider::parse("x").unwrap_err().to_string();
    assert_eq!(error, r#"unsupported provider "x"; supported: openai, ollama, gemini, anthropic"#);
    assert!(Provider::parse(&"y".repeat(10_000)).unwrap_err().to_string().len() < 200);
    assert!(Provider::parse("OpenAI").is_err(), "names are as they are spelled");
}

// F4, F5, F6, R-002-10
#[test]
fn allowed_is_a_list_by_either_name_and_an_empty_one_is_none() {
    let names = ["b", "a", "x.y"];
    let safe = SafeNames::of(Provider::OpenAi, names);
    let kept = |list: Option<&str>| -> Vec<&str> {
        let allowed = Allowed::read(list);
        names.into_iter().filter(|name| allowed.admits(name, safe.safe(name))).collect()
    };
    assert_eq!(kept(None), names);
    assert_eq!(kept(Some("")), [""; 0]);
    assert_eq!(kept(Some(" ,")), [""; 0]);
    assert_eq!(kept(Some("a, b")), ["b", "a"], "the list's order, not the caller's");
    assert_eq!(kept(Some(safe.safe("x.y"))), ["x.y"]);
    assert_eq!(kept(Some("x.y,nobody")), ["x.y"]);
}

#[test]
fn a_choice_at_the_top_becomes_one_object_because_providers_refuse_it_there() {
    let tool = r##"{"name":"t","inputSchema":{"$ref":"#/$defs/Input","$defs":{
        "Input":{"oneOf":[{"$ref":"#/$defs/A"},{"type":"object","properties":{"kind":{"const":"b"},"y":{"type":"integer"}},"required":["kind","y"]}]},
        "A":{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind"]}}}}"##;
    let [tool] = &exported(Provider::Anthropic, &[tool])[..] else { panic!() };
    let schema = Tree::from(Json::trusted(tool));
    let schema = schema.get("input_schema").unwrap();
    assert_eq!(
        schema.get("properties").unwrap().to_string(),
        r#"{"kind":{"anyOf":[{"const":"a"},{"const":"b"}]},"x":{"type":"string"},"y":{"type":"integer"}}"#
    );
    assert_eq!(schema.get("required").unwrap().to_string(), r#"["kind"]"#);
    assert_eq!(schema.get("type").unwrap().as_str(), Some("object"));
    for word in ["$ref", "oneOf", "anyOf", "allOf"] {
        assert!(schema.get(word).is_none(), "{word}");
    }
}

#[test]
fn what_openai_refuses_further_down_is_made_good_and_the_rest_is_left_alone() {
    let tool = r#"{"name":"t","description":"d","inputSchema":{"type":["object","null"],"properties":{
        "list":{"type":"array"},"any":true,"never":false,"deep":{"type":"object","properties":{"l":{"type":["array","null"]}}},"n":{"minimum":1e400,"x-mark":1.0}},
        "required":["list","never"]}}"#;
    let tool = exported(Provider::OpenAi, &[tool]).remove(0);
    let tool = Tree::from(Json::trusted(&tool));
    assert_eq!(
        tool.pointer("/function/parameters").unwrap().to_string(),
        r#"{"type":"object","properties":{"list":{"type":"array","items":{}},"any":{},"deep":{"type":"object","properties":{"l":{"type":["array","null"],"items":{}}}},"n":{"minimum":1e400,"x-mark":1.0}},"required":["list"]}"#
    );
}

#[test]
fn a_description_too_long_for_openai_is_cut_for_openai_alone() {
    let tool = format!(r#"{{"name":"t","description":"{}"}}"#, "wörd ".repeat(400));
    let length = |provider| {
        let tool = exported(provider, &[&tool]).remove(0);
        let tool = Tree::from(Json::trusted(&tool));
        let text = ["/function/description", "/description", "/functionDeclarations/0/description"].iter().find_map(|at| tool.pointer(at)).unwrap();
        (text.as_str().unwrap().chars().count(), text.as_str().unwrap().ends_with("wörd…"))
    };
    assert!(length(Provider::OpenAi).0 <= 1024 && length(Provider::OpenAi).1);
    for provider in [Provider::Ollama, Provider::Anthropic, Provider::Gemini] {
        assert_eq!(length(provider).0, 2000, "{provider:?}");
    }
    assert_eq!(shortened("x".repeat(1024), 1024).chars().count(), 1024);
}

// F18
#[test]
fn gemini_reads_its_own_words_only() {
    for (written, read) in [
        (r#"{"type":"string","format":"uri","title":"X","x-y":1,"examples":["a"]}"#, r#"{"type":"string"}"#),
        (
            r#"{"type":"string","format":"date-time","minLength":1,"pattern":"^a"}"#,
            r#"{"type":"string","format":"date-time","minLength":1,"pattern":"^a"}"#,
        ),
        (r#"{"type":["string","null"],"description":"d"}"#, r#"{"type":"string","description":"d","nullable":true}"#),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"description":"d"}"#,
            r#"{"type":"string","description":"d","nullable":true}"#,
        ),
        (r#"{"const":"a"}"#, r#"{"type":"string","enum":["a"]}"#),
        (r#"{"enum":["a","",null]}"#, r#"{"type":"string","enum":["a"],"nullable":true}"#),
        (r#"{"type":"integer","enum":[1,2],"description":"d"}"#, r#"{"type":"integer","description":"One of: 1, 2\nd"}"#),
        (r#"{"const":true}"#, r#"{"type":"boolean","description":"One of: true"}"#),
        (
            r#"{"type":"integer","exclusiveMinimum":0,"maximum":1e400,"multipleOf":5,"format":"int32"}"#,
            r#"{"type":"integer","format":"int32","minimum":0}"#,
        ),
        (
            r#"{"oneOf":[{"type":"string"},{"type":"integer"}],"description":"d"}"#,
            r#"{"anyOf":[{"type":"string","description":"d"},{"type":"integer","description":"d"}]}"#,
        ),
        (r#"{"type":["string","integer","number"]}"#, r#"{"anyOf":[{"type":"string"},{"type":"number"}]}"#),
        (r#"{"type":"array"}"#, r#"{"type":"array","items":{"type":"string"}}"#),
        (
            r#"{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]}"#,
            r#"{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"integer"}]}}"#,
        ),
        (r#"{"type":"object","additionalProperties":{"type":"string"},"required":["x"]}"#, r#"{"type":"object"}"#),
        (r#"{"properties":{"a":true,"b":false},"required":["a","z"]}"#, r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#),
        (
            r#"{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"number"}},"required":["b"]}]}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}},"required":["b"]}"#,
        ),
        (r#"{}"#, r#"{"type":"string"}"#),
        (r#"true"#, r#"{"type":"string"}"#),
        (r#"{"type":"null"}"#, r#"{"type":"string"}"#),
    ] {
        assert_eq!(gemini(written), read, "{written}");
    }
}

#[test]
fn references_are_inlined_for_gemini_and_what_is_inside_itself_ends() {
    assert_eq!(
        gemini_with(r##"{"$ref":"#/$defs/Size","description":"mine"}"##, r#"{"Size":{"type":"integer","description":"its"}}"#),
        r#"{"type":"integer","description":"mine"}"#
    );
    assert_eq!(gemini_with(r##"{"$ref":"#/$defs/a%20b"}"##, r#"{"a b":{"type":"boolean"}}"#), r#"{"type":"boolean"}"#);
    assert_eq!(gemini(r##"{"$ref":"https://elsewhere.example/x"}"##), r#"{"type":"string"}"#);
    let tree = r##"{"Node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}"##;
    assert_eq!(
        gemini_with(r##"{"$ref":"#/$defs/Node"}"##, tree),
        r#"{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"type":"object"}}}}"#
    );
}

#[test]
fn a_small_schema_cannot_grow_without_end() {
    // Each definition uses the next one ten times: 10^20 schemas if nobody counted.
    let level = |at: usize| {
        let members: Vec<String> = (0..10).map(|n| format!("\"p{n}\":{{\"$ref\":\"#/$defs/L{}\"}}", at + 1)).collect();
        format!("\"L{at}\":{{\"type\":\"object\",\"properties\":{{{}}}}}", members.join(","))
    };
    let definitions: Vec<String> = (0..20).map(level).collect();
    let grown = gemini_with(r##"{"$ref":"#/$defs/L0"}"##, &format!("{{{}}}", definitions.join(",")));
    assert!(grown.len() < 500_000, "{}", grown.len());
    let circle = r##"{"A":{"allOf":[{"$ref":"#/$defs/B"}]},"B":{"allOf":[{"$ref":"#/$defs/A"}]},"C":{"$ref":"#/$defs/C"},"D":{"anyOf":[{"$ref":"#/$defs/D"},{"type":"string"}]}}"##;
    for name in ["A", "B", "C", "D"] {
        assert!(gemini_with(&format!(r##"{{"$ref":"#/$defs/{name}"}}"##), circle).contains("\"type\""));
    }
    let circle_at_the_top = r##"{"name":"t","inputSchema":{"$ref":"#"}}"##;
    for provider in Provider::ALL {
        assert_eq!(exported(provider, &[circle_at_the_top]).len(), 1);
    }
}

#[test]
fn what_two_parts_refer_to_alike_is_said_once_and_the_rest_of_them_stays() {
    let definitions = r##"{"base":{"type":"object","properties":{"id":{"type":"string"}}},
        "one":{"allOf":[{"$ref":"#/$defs/base"}],"properties":{"a":{"type":"integer"}}},
        "two":{"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"type":"boolean"}}}]},
        "tree":{"type":"object","properties":{"leaf":{"type":"string"},"next":{"description":"more","allOf":[{"$ref":"#/$defs/tree"}]}}}}"##;
    let both = gemini_with(r##"{"allOf":[{"$ref":"#/$defs/one"},{"$ref":"#/$defs/two"}]}"##, definitions);
    for member in ["\"id\":", "\"a\":", "\"b\":"] {
        assert!(both.contains(member), "{member} in {both}");
    }
    let tree = gemini_with(r##"{"allOf":[{"$ref":"#/$defs/tree"}]}"##, definitions);
    let next = Tree::from(Json::trusted(&tree)).pointer("/properties/next").map(ToString::to_string);
    assert!(tree.contains("\"leaf\":") && next.is_some_and(|next| next.contains("object") || next.contains("OBJECT")), "{tree}");
}
