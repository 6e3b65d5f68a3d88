//! The module as a whole: what stands where, for which tools.

use super::*;
use serde_json::{Value, json};

/// Tools of servers, as a gateway would give them.
fn module_of(tools: &[(&str, Value)], options: &Options) -> String {
    let definitions: Vec<(Option<&str>, &str, String, String)> = tools
        .iter()
        .map(|(server, definition)| {
            let name = definition["name"].as_str().unwrap();
            let server = (!server.is_empty()).then_some(*server);
            (server, name, format!("{}__{name}", server.unwrap_or_default().replace('-', "_")), definition.to_string())
        })
        .collect();
    let tools: Vec<Tool<'_>> = definitions
        .iter()
        .map(|(server, name, qualified, definition)| Tool {
            name,
            server: *server,
            own_name: name,
            qualified: server.map(|_| qualified.as_str()),
            is_virtual: name.starts_with("v_") || server.is_none(),
            definition: Json::trusted(definition),
        })
        .collect();
    module(&tools, options)
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn whole(tools: &[(&str, Value)]) -> String {
    module_of(tools, &Options::default())
}

/// What stands after the part that is always the same.
fn own_part(module: &str) -> &str {
    module.split_once(RUNTIME).or_else(|| module.split_once(COMPACT)).expect("a module begins with the runtime").1
}

/// The type of a property `x` with this schema, as a type of arguments.
fn type_of(schema: Value) -> String {
    let text = whole(&[("s", json!({"name": "t", "inputSchema": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}))]);
    let members = text.split_once("export interface STParams {\n").expect("an interface").1;
    let (members, _) = members.split_once("\n}\n").expect("an end of it");
    members.trim_start().strip_prefix("x: ").unwrap_or(members).trim_end_matches(';').to_owned()
}

fn github() -> Value {
    json!({
        "name": "create_issue",
        "description": "Creates an issue",
        "inputSchema": {
            "type": "object",
            "title": "Evil",
            "properties": {"title": {"type": "string", "description": "What it is about"}, "labels": {"type": "array", "items": {"type": "string"}}},
            "required": ["title"]
        },
        "outputSchema": {"type": "object", "title": "EvilToo", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    })
}

// G1, R-001-31
#[test]
fn without_tools_there_is_an_empty_object() {
    for compact in [false, true] {
        assert!(module_of(&[], &Options { compact, ..Options::default() }).ends_with("\nexport const tools = {};\n"));
    }
}

// G2, G6, G12, R-001-27, R-001-28
#[test]
fn a_tool_is_a_function_with_types_of_its_own() {
    let text = whole(&[("github", github())]);
    assert_eq!(
        own_part(&text),
        r#"
export interface GithubCreateIssueParams {
  /** What it is about */
  title: string;
  labels?: string[];
}

export interface GithubCreateIssueResult {
  number: number;
}

export const tools = {
  github: {
    /** Creates an issue */
    async createIssue(params: GithubCreateIssueParams): Promise<GithubCreateIssueResult> {
      return call<GithubCreateIssueResult>("/tools/github__create_issue", "github", params);
    },
  },
};
"#
    );
    assert!(!text.contains("Evil"));
}

// G3
#[test]
fn servers_are_namespaces() {
    let text = whole(&[("b", tool("x")), ("a", tool("z")), ("a", tool("y"))]);
    let order: Vec<usize> = ["  a: {", "async y(", "async z(", "  b: {", "async x("].iter().map(|part| text.find(part).unwrap()).collect();
    assert!(order.is_sorted(), "{text}");
    assert_eq!(text.matches("\n  a: {").count(), 1);
    assert_eq!(text, whole(&[("a", tool("y")), ("a", tool("z")), ("b", tool("x"))]), "the order of tools does not matter");
}

// G4
#[test]
fn without_schemas_arguments_are_empty_and_results_unknown() {
    let text = whole(&[("s", json!({"name": "t"}))]);
    assert!(text.contains("export interface STParams {}\n") && text.contains("export type STResult = unknown;\n"), "{text}");
    assert!(text.contains("async t(params?: STParams): Promise<STResult>"), "{text}");
}

// G5
#[test]
fn types_are_called_by_server_and_tool() {
    let text = whole(&[("my-api-server", tool("get_user_profile"))]);
    assert!(text.contains("export interface MyApiServerGetUserProfileParams"), "{text}");
    assert!(text.contains("  myApiServer: {") && text.contains("async getUserProfile("), "{text}");
    assert!(text.contains("\"/tools/my_api_server__get_user_profile\", \"my-api-server\""), "{text}");
}

// G7
#[test]
fn the_compact_form_has_types_and_signatures_and_nothing_that_runs() {
    let text = module_of(&[("github", github()), ("github", tool("new"))], &Options { compact: true, ..Options::default() });
    assert!(
        text.contains("/** Creates an issue */\n    createIssue(params: GithubCreateIssueParams): Promise<GithubCreateIssueResult>;\n"),
        "{text}"
    );
    assert!(text.contains("export interface GithubCreateIssueParams {"), "{text}");
    assert!(text.contains("    \"new\"(params?: GithubNewParams)"), "{text}");
    for word in ["fetch", "env", "/tools/", "return", "async"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

// cases.md 6.6
#[test]
fn names_that_meet_get_numbers_and_say_what_they_were() {
    let text =
        whole(&[("s", tool("get_user")), ("s", tool("get-user")), ("s", tool("日本")), ("s", tool("")), ("a_b", tool("c")), ("a", tool("b_c"))]);
    for part in [
        "async getUser(",
        "/** Tool \"get-user\" */\n    async getUser_2(",
        "/** Tool \"\" */\n    async tool_1(",
        "/** Tool \"日本\" */\n    async tool_2(",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for name in ["SGetUserParams", "SGetUser_2Params", "STool_1Params", "STool_2Result", "ABCParams", "ABC_2Params"] {
        assert_eq!(text.matches(&format!("interface {name} ")).count() + text.matches(&format!("type {name} ")).count(), 1, "{name} in {text}");
    }
    let text = whole(&[("a-b", tool("t")), ("a_b", tool("t"))]);
    assert!(text.contains("  aB: {") && text.contains("  /** Server \"a-b\" */\n  aB_2: {"), "{text}");
}

#[test]
fn a_newcomer_that_sounds_alike_takes_no_name_away() {
    for (has_it, newcomer) in [
        ("v_find", "v-find"),
        ("v_find", "vFind"),
        ("createIssue", "create_issue"),
        ("create_issue", "create-issue"),
        ("create_issue", "CREATE_ISSUE"),
    ] {
        let text = whole(&[("s", tool(newcomer)), ("s", tool(has_it))]);
        assert!(text.contains(&format!("/** Tool \"{newcomer}\" */")) && !text.contains(&format!("/** Tool \"{has_it}\" */")), "{text}");
        assert_eq!(text, whole(&[("s", tool(has_it)), ("s", tool(newcomer))]));
    }
}

// surfaces.md 7
#[test]
fn virtual_tools_stand_with_their_server_or_in_a_group() {
    let tools = [("s", tool("v_one")), ("s", tool("two")), ("", tool("v_three")), ("virtual", tool("own"))];
    let text = whole(&tools);
    let at = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"));
    assert!(at(&text, "  s: {") < at(&text, "async vOne(") && at(&text, "  virtual_2: {") < at(&text, "async vThree("));
    assert!(at(&text, "  virtual: {") < at(&text, "async own("));
    assert!(text.contains("call<Virtual_2VThreeResult>(\"/tools/v_three\", null, params)"), "{text}");
    let grouped = module_of(&tools[..3], &Options { group_virtual: true, ..Options::default() });
    assert!(at(&grouped, "  virtual: {") < at(&grouped, "async vOne(") && at(&grouped, "async two(") < at(&grouped, "  virtual: {"));
}

// G8, G9, R-001-32 to R-001-36
#[test]
fn what_is_asked_for_is_there_and_nothing_else() {
    let tools = [("github", github()), ("github", tool("list_issues")), ("my-api", tool("go")), ("my-api", tool("stay")), ("x", tool("y"))];
    let functions = |options: &Options| -> Vec<String> {
        let text = module_of(&tools, options);
        text.match_indices("    async ").map(|(at, found)| text[at + found.len()..].split('(').next().unwrap().to_owned()).collect()
    };
    let all = ["createIssue", "listIssues", "go", "stay", "y"];
    let filter = |text: &str| Options { filter: Some(text.into()), ..Options::default() };
    let of = |server: &str, tool: &str| Options { server: Some(server.into()), tool: Some(tool.into()), ..Options::default() };
    let cases: [(Options, &[&str]); 22] = [
        (Options::default(), &all),
        (of("github", ""), &all[..2]),
        (of("my-api", ""), &all[2..4]),
        (of("myApi", ""), &all[2..4]),
        (of("my_api", ""), &all[2..4]),
        (of("nobody", ""), &[]),
        (of("github", "createIssue"), &all[..1]),
        (of("github", "create_issue"), &all[..1]),
        (of("github", "nothing"), &[]),
        (of("nobody", "createIssue"), &[]),
        (filter("github"), &all[..2]),
        (filter("github__create_issue"), &all[..1]),
        (filter("github__createIssue"), &all[..1]),
        (filter("x,my_api__go"), &["go", "y"]),
        (filter(" x , my-api__go "), &["go", "y"]),
        (filter("create_issue"), &all[..1]),
        (filter(""), &all),
        (filter("  "), &all),
        (filter(","), &all),
        (filter("nobody"), &[]),
        (filter("nobody__create"), &[]),
        (Options { server: Some("github".into()), ..filter("x,github__list_issues") }, &all[1..2]),
    ];
    for (options, expected) in cases {
        assert_eq!(functions(&options), expected, "{options:?}");
    }
    assert!(module_of(&tools, &of("github", "nothing")).ends_with("export const tools = {\n  github: {},\n};\n"));
    assert!(module_of(&tools, &of("nobody", "")).ends_with("export const tools = {};\n"));
    // A function is called the same in every selection.
    let two = [("s", tool("get_user")), ("s", tool("get-user"))];
    assert!(module_of(&two, &of("s", "get-user")).contains("async getUser_2("));
}

// surfaces.md 7
#[test]
fn a_schema_is_the_type_that_it_means() {
    for (schema, expected) in [
        (json!({"type": "string"}), "string"),
        (json!({"type": "integer"}), "number"),
        (json!({"type": ["string", "null"]}), "string | null"),
        (json!({"type": "string", "nullable": true}), "string | null"),
        (json!({}), "unknown"),
        (json!(true), "unknown"),
        (json!(false), "never"),
        (json!({"not": {}}), "never"),
        (json!("nonsense"), "unknown"),
        (json!({"type": "nonsense"}), "unknown"),
        (json!({"enum": ["a", "b", 1, -2.5, true, null, "a"]}), "\"a\" | \"b\" | 1 | -2.5 | true | null"),
        (json!({"enum": []}), "never"),
        (json!({"const": "*/ \u{2028}"}), "\"*/ \\u2028\""),
        (json!({"const": [1, {"a-b": []}]}), "[1, {\n    \"a-b\": [];\n  }]"),
        (json!({"type": "array"}), "unknown[]"),
        (json!({"type": "array", "items": {"type": ["string", "number"]}}), "(string | number)[]"),
        (json!({"type": "array", "items": {"enum": [-1]}}), "(-1)[]"),
        (json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": false, "minItems": 1}), "[string, number?]"),
        (json!({"type": "array", "prefixItems": [{"type": "string"}], "minItems": 1}), "[string, ...unknown[]]"),
        (json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "number"}, "minItems": 1}), "[string, ...number[]]"),
        (json!({"prefixItems": [{"type": "string"}, {}], "maxItems": 1}), "[string?]"),
        (json!({"type": "array", "items": false}), "[]"),
        (json!({"type": "object"}), "{ [key: string]: unknown }"),
        (json!({"type": "object", "additionalProperties": false}), "{ [key: string]: never }"),
        (json!({"type": "object", "additionalProperties": {"type": "number"}}), "{ [key: string]: number }"),
        (json!({"type": "object", "patternProperties": {"^a": {"type": "number"}}, "additionalProperties": false}), "{ [key: string]: number }"),
        (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "string | number"),
        (json!({"oneOf": [{"type": "string"}, {}]}), "unknown"),
        (json!({"allOf": [{"$ref": "#/nowhere"}, {"type": "string"}]}), "string"),
        (json!({"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]}), "string"),
        (json!({"type": "object", "oneOf": [{"required": ["a"]}, {"type": "null"}]}), "{\n    a: unknown;\n  } | null"),
        (json!({"$ref": "https://example.com/schema.json"}), "unknown"),
    ] {
        assert_eq!(type_of(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn numbers_that_no_program_can_hold_are_just_numbers() {
    let text = r#"{"name":"t","inputSchema":{"type":"object","properties":{"x":{"enum":[1e400,12345678901234567890,1E2]}}}}"#;
    let tool = Tool { name: "t", server: None, own_name: "t", qualified: None, is_virtual: true, definition: Json::trusted(text) };
    assert!(module(&[tool], &Options::default()).contains("x?: number | 12345678901234567890 | 1E2;"));
}

#[test]
fn an_index_signature_agrees_with_named_members() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b-c": {"type": "boolean"}}, "required": ["a"], "additionalProperties": {"type": "number"}});
    assert_eq!(type_of(schema), "{\n    a: string;\n    \"b-c\"?: boolean;\n    [key: string]: number | string | boolean | undefined;\n  }");
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true});
    assert_eq!(type_of(schema), "{\n    a?: string;\n    [key: string]: unknown;\n  }");
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
    assert_eq!(type_of(schema), "{\n    a?: string;\n  }");
}

#[test]
fn what_is_referred_to_is_a_type_of_its_own() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree-node"}, "self": {"$ref": "#"}, "anchored": {"$ref": "#here"}, "again": {"$ref": "#/$defs/tree-node"}},
        "$defs": {
            "tree-node": {"description": "A node", "type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/tree-node"}, {"type": "null"}]}}},
            "other": {"$anchor": "here", "type": "array", "items": {"$ref": "#here"}}
        }
    });
    let text = whole(&[("s", json!({"name": "t", "inputSchema": schema}))]);
    assert!(text.contains("/** A node */\nexport interface STParamsTreeNode {\n  next?: STParamsTreeNode | null;\n}\n"), "{text}");
    assert!(text.contains("  tree?: STParamsTreeNode;\n  self?: STParams;\n  anchored?: STParamsHere;\n  again?: STParamsTreeNode;\n"), "{text}");
    assert!(text.contains("export type STParamsHere = STParamsHere[];\n"), "{text}");
    assert_eq!(text.matches("STParamsTreeNode {").count(), 1);
}

#[test]
fn what_is_only_itself_is_unknown() {
    for definitions in [
        json!({"a": {"$ref": "#/$defs/a"}}),
        json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}),
        json!({"a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}),
        // By way of an object first, and then straight.
        json!({"a": {"anyOf": [{"type": "object", "properties": {"x": {"$ref": "#/$defs/b"}}}, {"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}),
    ] {
        let text = whole(&[(
            "s",
            json!({"name": "t", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": definitions}}),
        )]);
        assert!(text.contains("= unknown;") || text.contains("| unknown"), "{text}");
    }
}

// Everything has a bound.
#[test]
fn a_schema_beyond_every_bound_is_unknown_somewhere() {
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "array", "items": deep});
    }
    assert!(type_of(deep).starts_with("unknown["));

    let wide: serde_json::Map<String, Value> = (0..100_000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let text = whole(&[("s", json!({"name": "t", "inputSchema": {"type": "object", "properties": wide}}))]);
    assert!(text.len() < 1 << 20 && text.contains("[key: string]: unknown;"));

    // A chain of references longer than any stack, and one that would double at every step.
    let chain: serde_json::Map<String, Value> =
        (0..5_000).map(|at| (format!("d{at}"), json!({"anyOf": [{"$ref": format!("#/$defs/d{}", at + 1)}, {"type": "null"}]}))).collect();
    whole(&[("s", json!({"name": "t", "inputSchema": {"$ref": "#/$defs/d0", "$defs": chain}}))]);
    let twice = |at: usize| json!({"type": "object", "properties": {"a": {"$ref": format!("#/$defs/d{}", at + 1)}}, "additionalProperties": {"$ref": format!("#/$defs/d{}", at + 1)}});
    let doubling: serde_json::Map<String, Value> = (0..60).map(|at| (format!("d{at}"), twice(at))).collect();
    assert!(whole(&[("s", json!({"name": "t", "inputSchema": {"$ref": "#/$defs/d0", "$defs": doubling}}))]).len() < 1 << 16);

    // Choices that a compiler would multiply: more than it takes.
    let choices: Vec<Value> = (0..400).map(|at| json!({"const": format!("v{at}")})).collect();
    let text = type_of(json!({"allOf": [{"anyOf": choices}, {"oneOf": choices}, {"anyOf": choices}]}));
    assert!(!text.contains('&'), "{text}");
}

// D10
#[test]
fn nothing_that_others_wrote_leaves_its_string_or_comment() {
    let evil = "x(){};import(\"fs\")//\n*/ evil(); /* `${evil()}` </script>\u{2028}evil()";
    let schema = json!({"type": "object", "description": evil, "properties": {evil: {"description": evil, "enum": [evil]}, "__proto__": {"type": "string"}}, "required": [evil]});
    let text = whole(&[(evil, json!({"name": evil, "description": evil, "inputSchema": schema, "outputSchema": schema}))]);
    let own = own_part(&text);
    assert!(!own.contains('\u{2028}') && !own.contains("</script"), "{own}");
    let mut code = String::new();
    let mut rest = own;
    // Without comments and strings, nothing of it is left.
    while let Some(at) = rest.find(['"', '/']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("/**") {
            rest = comment.split_once("*/").expect("an end").1;
            continue;
        }
        let end = rest.char_indices().skip(1).scan(false, |escaped, (at, letter)| {
            let ends = letter == '"' && !*escaped;
            *escaped = letter == '\\' && !*escaped;
            Some((at, ends))
        });
        rest = &rest[end.into_iter().find(|(_, ends)| *ends).expect("an end").0 + 1..];
    }
    code.push_str(rest);
    assert!(!code.contains("evil()") && !code.contains('`') && !code.contains("import"), "{code}");
    assert!(code.contains("__proto__?: string;"), "{code}");
}
