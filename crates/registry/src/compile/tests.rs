use super::bounded::matches;
use super::*;
use crate::testing::{compiled, compiled_with, registry, sent, source};
use proptest::prelude::*;
use transom_json::Object;

fn entry(members: &str) -> String {
    registry(&[&format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}},{members}}}"#)])
}

fn underlined(text: &str, problem: &Problem) -> String {
    text.get(problem.span.clone()).unwrap_or("?").to_owned()
}

// L17, R-003-44, R-003-47, E6, E14, E15, E17, P19, P20, S30, S37, S39: each mistake under the very characters
#[test]
fn every_mistake_is_underlined_where_it_stands() {
    for (members, code, place, pointer, message, help) in [
        (r#""defaults":{"a":"x ${MISSING} y"}"#, Code::BadPlaceholder, "${MISSING}", "/tools/0/defaults/a", "`MISSING` is not set", "MISSING:-"),
        (r#""defaults":{"a":{"b":["\u00e9${}"]}}"#, Code::BadPlaceholder, "${}", "/tools/0/defaults/a/b/0", "names no variable", "$${"),
        (r#""defaults":{"a":"${ A }"}"#, Code::BadPlaceholder, "${ A }", "/tools/0/defaults/a", "not the name of a variable", ""),
        (r#""defaults":{"a":"${MISSING:?ask ops}"}"#, Code::BadPlaceholder, "${MISSING:?ask ops}", "/tools/0/defaults/a", "ask ops", ""),
        (
            r#""defaults":{"a":"${file:/etc/passwd}"}"#,
            Code::BadPlaceholder,
            "${file:/etc/passwd}",
            "/tools/0/defaults/a",
            "allow",
            "registry.env.allow",
        ),
        (r#""defaults":{"a..b":1}"#, Code::BadField, r#""a..b""#, "/tools/0/defaults/a..b", "not a field", "rows[]"),
        (r#""hideFields":["ok","rows[]"]"#, Code::BadField, r#""rows[]""#, "/tools/0/hideFields/1", "not a field", ""),
        (r##""inputSchema":{"$ref":"#/schemas/Nope"}"##, Code::BadReference, r##""#/schemas/Nope""##, "/tools/0/inputSchema/$ref", "`Nope`", ""),
        (
            r##""outputSchema":{"properties":{"a":{"$ref":"#Nope"}}}"##,
            Code::BadReference,
            r##""#Nope""##,
            "/tools/0/outputSchema/properties/a/$ref",
            "`Nope`",
            "",
        ),
        (r#""expectedSourceHash":"sha256:12""#, Code::BadValue, r#""sha256:12""#, "/tools/0/expectedSourceHash", "not a hash", "transom pin"),
    ] {
        let text = entry(members);
        let compiled = compiled(&text);
        let [problem] = compiled.problems.as_slice() else { panic!("{members}: {:?}", compiled.problems) };
        assert_eq!((problem.code, problem.severity), (code, Severity::Error), "{problem:?}");
        assert_eq!(underlined(&text, problem), place, "{members}");
        assert_eq!(problem.pointer, pointer, "{members}");
        assert!(problem.message.contains("tool `t`") || code == Code::BadValue, "{problem:?}");
        assert!(problem.message.contains(message) && problem.help.as_deref().unwrap_or("").contains(help), "{problem:?}");
        assert_eq!(compiled.plan.quarantined(), [Quarantined { name: "t".into(), reason: problem.message.clone() }]);
        assert!(compiled.plan.get_tool("t").is_none());
    }
}

// operations.md 5: a bad JSONPath is underlined inside its string, in whichever spelling it was written
#[test]
fn a_bad_path_is_underlined_inside_its_string() {
    for members in [
        r#""outputSchema":{"properties":{"ok":{"sourceField":"$.a"},"a":{"sourceField":"$.items["}}}"#,
        r#""outputSchema":{"properties":{"a":{"source_field":"$.items["}}}"#,
        r#""outputTransform":{"mappings":{"a":{"path":"$.items["}}}"#,
        r#""outputSchema":{"properties":{"a":{"type":"string"}}},"outputTransform":{"mappings":{"a":{"path":"$.items["}}}"#,
    ] {
        let text = entry(members);
        let compiled = compiled(&text);
        let [problem] = compiled.problems.as_slice() else { panic!("{members}: {:?}", compiled.problems) };
        assert_eq!(problem.code, Code::BadPath);
        let string = text.find("$.items[").unwrap();
        assert!(problem.span.start >= string && problem.span.end <= string + "$.items[".len(), "{members}: {problem:?}");
        assert!(text.get(problem.span.clone()).is_some());
    }
}

// E15
#[test]
fn an_unclosed_placeholder_is_literal_with_a_warning() {
    let text = entry(r#""defaults":{"a":"x${KEY"}"#);
    let compiled = compiled(&text);
    let [problem] = compiled.problems.as_slice() else { panic!("{:?}", compiled.problems) };
    assert_eq!((problem.severity, underlined(&text, problem).as_str()), (Severity::Warning, "${"));
    assert_eq!(sent(&compiled.plan.bind(&source(r#"{"type":"object"}"#)), "t", "{}").as_deref(), Ok(r#"{"a":"x${KEY"}"#));
}

// E1, E3, E19, E22, D8: in values at any depth, never in keys, one pass
#[test]
fn placeholders_are_replaced_in_values_at_any_depth_and_once() {
    let text = entry(
        r#""defaults":{"a":{"${KEY}":["$<KEY>","${env.KEY}-${env:WORD}","$KEY","$${KEY}"]},"b":"${A_B}","c":"${NO:-${KEY}}","d":"${EMPTY:-x}"}"#,
    );
    let expected = r#"{"a":{"${KEY}":["k-1234567890","k-1234567890-abc","$KEY","${KEY}"]},"b":"${KEY}","c":"${KEY}","d":""}"#;
    assert_eq!(sent(&compiled(&text).plan.bind(&source(r#"{"type":"object"}"#)), "t", "{}").as_deref(), Ok(expected));
}

// D6
#[test]
fn a_registry_reads_what_it_is_allowed_to_read() {
    let allow = |patterns: &[&str]| Options { env_allow: Some(patterns.iter().map(|each| (*each).to_owned()).collect()), ..Options::default() };
    for (value, patterns, allowed) in [
        ("${KEY}", &["KEY"][..], true),
        ("${KEY}", &["K*"], true),
        ("${KEY}", &["*"], true),
        ("${KEY}", &["KE?"], true),
        ("${KEY}", &["KEYS", "EY"], false),
        ("${KEY:-fallback}", &["WORD"], false),
        ("${KEY}", &[], false),
        ("${file:/run/secrets/token}", &["file:/run/secrets/*"], true),
        ("${file:/run/secrets/token}", &["file:/run/*"], false),
        ("${file:/run/secrets/../secrets/token}", &["file:/run/secrets/*", "file:/run/secrets/../secrets/token"], false),
        ("${file:/run/secrets/token}", &["*"], false),
    ] {
        let compiled = compiled_with(&entry(&format!(r#""defaults":{{"a":"{value}"}}"#)), &allow(patterns)).unwrap();
        assert_eq!(compiled.plan.get_tool("t").is_some(), allowed, "{value} {patterns:?}: {:?}", compiled.problems);
        if !allowed {
            assert!(compiled.problems[0].message.contains("registry.env.allow"), "{:?}", compiled.problems);
        }
    }
}

// operations.md 5
#[test]
fn a_target_that_is_not_configured_is_named_with_the_ones_that_are() {
    let text = registry(&[r#"{"name":"get_weather","source":{"target":"wether","tool":"s"}}"#]);
    let options = Options { targets: Some(vec!["weather".into(), "tickets".into()]), ..Options::default() };
    let compiled = compiled_with(&text, &options).unwrap();
    let problem = &compiled.problems[0];
    assert_eq!(problem.message, "tool `get_weather` points at target `wether`, which is not configured");
    assert_eq!(problem.help.as_deref(), Some("did you mean `weather`? configured targets: weather, tickets"));
    assert_eq!((underlined(&text, problem).as_str(), problem.label.as_str()), ("\"wether\"", "no such target"));
}

// S24 to S30: chains
#[test]
fn chains_inherit_and_broken_ones_cost_only_those_on_them() {
    let text = registry(&[
        r#"{"name":"top","source":"middle","defaults":{"c":3,"a":"child"},"hideFields":["z"],"description":"Top"}"#,
        r#"{"name":"middle","source":"base","defaults":{"b":2},"hideFields":["y"]}"#,
        r#"{"name":"base","source":{"target":"w","tool":"s"},"defaults":{"a":1},"hideFields":["x"],"title":"Base"}"#,
        r#"{"name":"loop_a","source":"loop_b"}"#,
        r#"{"name":"loop_b","source":"loop_a"}"#,
        r#"{"name":"on_loop","source":"loop_a"}"#,
        r#"{"name":"self","source":"self"}"#,
        r#"{"name":"lost","source":"bas"}"#,
    ]);
    let compiled = compiled(&text);
    assert_eq!(compiled.plan.names_of("w", "s").iter().map(|name| &**name).collect::<Vec<_>>(), ["top", "middle", "base"]);
    let schema = r#"{"type":"object","properties":{"a":{},"b":{},"c":{},"x":{},"y":{},"z":{},"v":{}}}"#;
    let tools = compiled.plan.bind(&source(schema));
    assert_eq!(sent(&tools, "top", "{}").as_deref(), Ok(r#"{"c":3,"a":"child","b":2}"#));
    assert_eq!(sent(&tools, "middle", r#"{"v":0}"#).as_deref(), Ok(r#"{"v":0,"b":2,"a":1}"#));
    for hidden in ["x", "y", "z"] {
        assert!(sent(&tools, "top", &format!(r#"{{"{hidden}":1}}"#)).is_err());
    }
    let message =
        |name: &str| compiled.problems.iter().find(|problem| problem.tool.as_deref() == Some(name)).map(|problem| problem.message.clone()).unwrap();
    assert!(message("loop_a").contains("Circular source: loop_a → loop_b → loop_a"), "{}", message("loop_a"));
    assert!(message("loop_b").contains("Circular") && message("self").contains("Circular"));
    assert!(message("on_loop").contains("`loop_a`, which has an error"));
    assert!(message("lost").contains("references unknown source `bas`"));
    let lost = compiled.problems.iter().find(|problem| problem.tool.as_deref() == Some("lost")).unwrap();
    assert_eq!((lost.help.as_deref(), underlined(&text, lost).as_str()), (Some("did you mean `base`?"), "\"bas\""));
}

#[test]
fn a_tool_on_a_renaming_one_speaks_its_names() {
    let text = registry(&[
        r#"{"name":"base","source":{"target":"w","tool":"s"},"arguments":{"city":{"source":"location"}},"inputSchema":{"type":"object","properties":{"city":{"type":"string"},"n":{}},"required":["city"]}}"#,
        r#"{"name":"hiding","source":"base","hideFields":["city"],"defaults":{"city":"Oslo"}}"#,
        r#"{"name":"renaming","source":"base","arguments":{"town":{"source":"city"}}}"#,
    ]);
    let tools = compiled(&text).plan.bind(&source(r#"{"type":"object","properties":{"location":{"type":"string"},"n":{}},"required":["location"]}"#));
    assert_eq!(sent(&tools, "base", r#"{"city":"Rome"}"#).as_deref(), Ok(r#"{"location":"Rome"}"#));
    assert_eq!(sent(&tools, "hiding", r#"{"n":1}"#).as_deref(), Ok(r#"{"n":1,"location":"Oslo"}"#));
    assert_eq!(sent(&tools, "renaming", r#"{"town":"Rome"}"#).as_deref(), Ok(r#"{"location":"Rome"}"#));
    assert!(sent(&tools, "renaming", r#"{"city":"Rome"}"#).is_err());
}

#[test]
fn a_chain_of_thousands_is_an_error_and_not_a_stack() {
    let entries: Vec<String> = (0..5000).map(|n| format!(r#"{{"name":"t{n}","source":"t{}"}}"#, n + 1)).collect();
    let last = r#"{"name":"t5000","source":{"target":"w"}}"#.to_owned();
    let text = format!(r#"{{"tools":[{},{last}]}}"#, entries.join(","));
    let compiled = compiled(&text);
    assert!(compiled.problems.iter().any(|problem| problem.code == Code::TooLarge));
    assert!(compiled.plan.get_tool("t5000").is_some());
}

// L16, R-002-2
#[test]
fn of_two_equal_names_the_first_wins_across_documents_too() {
    let one = registry(&[r#"{"name":"t","source":{"target":"w","tool":"a"}}"#]);
    let two = registry(&[r#"{"name":"t","source":{"target":"w","tool":"b"}}"#, r#"{"name":"u","source":"t"}"#]);
    let documents = [Document { name: "config.yaml", text: &one }, Document { name: "registry.json", text: &two }];
    let compiled = compile(&documents, &crate::testing::World, &Options::default()).unwrap();
    assert_eq!(compiled.plan.get_tool("t").and_then(VirtualTool::source), Some(("w", "a")));
    assert_eq!(compiled.plan.get_tool("u").and_then(VirtualTool::source), Some(("w", "a")));
    let [problem] = compiled.problems.as_slice() else { panic!("{:?}", compiled.problems) };
    assert_eq!((problem.code, problem.document, problem.pointer.as_str()), (Code::DuplicateName, 1, "/tools/0/name"));
    // The source of the second is withdrawn all the same.
    assert!(compiled.plan.is_virtualized("w", "b") && compiled.plan.is_withdrawn("w", "b"));
}

// R-002-4, R-003-16, R-003-17, R-003-18, R-003-19, R-003-22
#[test]
fn a_plan_answers_by_name_and_by_source() {
    let compiled = compiled(&registry(&[
        r#"{"name":"metric","source":{"target":"w","tool":"s"},"version":"2.1.0","tags":["public"],"metadata":{"n":1.0}}"#,
        r#"{"name":"imperial","source":{"target":"w","tool":"s"}}"#,
    ]));
    let tool = compiled.plan.get_tool("metric").unwrap();
    assert_eq!(
        (tool.version(), tool.tags(), tool.metadata().map(Tree::to_string)),
        (Some("2.1.0"), &["public".to_owned()][..], Some(r#"{"n":1.0}"#.into()))
    );
    assert_eq!(compiled.plan.names_of("w", "s"), ["metric", "imperial"]);
    assert!(compiled.plan.is_virtualized("w", "s") && !compiled.plan.is_virtualized("w", "other") && !compiled.plan.is_virtualized("x", "s"));
    assert!(compiled.plan.get_tool("none").is_none());
}

// registry.md 2, R-002-16
#[test]
fn strict_makes_every_error_fatal_and_without_it_the_rest_goes_live() {
    let text = registry(&[
        r#"{"name":"good","source":{"target":"w"}}"#,
        r#"{"name":"h","description":"d","parameters":{"type":"object"},"implementation":{"type":"http"}}"#,
    ]);
    let compiled = compiled(&text);
    assert!(compiled.plan.get_tool("good").is_some());
    assert_eq!(compiled.plan.quarantined()[0].reason, "HTTP tools not yet supported (coming in v2)");
    assert!(compiled_with(&text, &Options { strict: true, ..Options::default() }).is_err());
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_text() {
    let text = registry(&[
        r#"{"name":"a","source":{"target":"w"},"titel":"x","defaults":{"k":"${MISSING}"}}"#,
        r#"{"name":"b","source":"nowhere"}"#,
        r#"{"source":{"target":"w"}}"#,
        r#"{"name":"c","source":{"target":"w"},"outputSchema":{"properties":{"x":{"sourceField":"a"}}},"hideFields":7}"#,
    ]);
    let codes: Vec<_> = compiled(&text).problems.iter().map(|problem| problem.code).collect();
    use Code::*;
    assert_eq!(codes, [UnknownKey, BadPlaceholder, UnknownSource, MissingKey, BadPath, BadValue]);
}

#[test]
fn patterns_are_whole_and_stop_at_slashes() {
    for (pattern, text, expected) in [
        ("*", "ABC", true),
        ("A*C", "ABBC", true),
        ("A*C", "ABCD", false),
        ("", "", true),
        ("*", "", true),
        ("?", "", false),
        ("**", "a", true),
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/b/c", false),
        ("/a/*/c", "/a/b/c", true),
        ("?", "/", false),
        ("A?C", "ABC", true),
        ("a*b*c", "axxbxxbc", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
    assert!(!matches(&"*a".repeat(50), &"b".repeat(10_000)));
}

proptest! {
    // Whatever the document, compiling ends with a plan or with problems; and every problem has a place in the text.
    #[test]
    fn compiling_never_panics(text in document()) {
        let problems = match compiled_with(&text, &Options::default()) {
            Ok(compiled) => {
                let tools = compiled.plan.bind(&source(r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#));
                compiled.problems.into_iter().chain(tools.problems().iter().cloned()).collect()
            }
            Err(problems) => problems,
        };
        for problem in problems {
            prop_assert!(text.get(problem.span.clone()).is_some(), "{problem:?}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = compiled_with(&text, &Options::default());
    }
}

/// Documents made of the words that mean something, in places where they may not.
fn document() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "name",
        "source",
        "target",
        "tool",
        "tools",
        "defaults",
        "hideFields",
        "arguments",
        "inputSchema",
        "outputSchema",
        "properties",
        "sourceField",
        "type",
        "object",
        "w",
        "s",
        "a",
        "a.b",
        "rows[].x",
        "${KEY}",
        "${",
        "$.a",
        "$..a[?@.b]",
        "#/schemas/N",
        "$ref",
        "schemas",
        "implementation",
        "mock",
        "handler",
        "builtin",
        "items",
        "required",
        "onMissing",
        "null",
        "é\u{1F600}",
        "\"\\\n",
    ]);
    let leaf =
        prop_oneof![word.clone().prop_map(Tree::from), Just(Tree::Null), any::<bool>().prop_map(Tree::from), Just(Tree::Number("1e400".into()))];
    let key = word;
    let value = leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::Array),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|members| Tree::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    });
    let tool = value.clone().prop_map(|extra| {
        let mut tool: Object = [("name".to_owned(), Tree::from("t"))].into_iter().collect();
        if let Tree::Object(members) = extra {
            members.into_iter().for_each(|(key, value)| tool.insert(key, value));
        }
        Tree::Object(tool)
    });
    (prop::collection::vec(tool, 0..4), value).prop_map(|(tools, schemas)| {
        Tree::Object([("tools".to_owned(), Tree::Array(tools)), ("schemas".to_owned(), schemas)].into_iter().collect()).to_string()
    })
}
