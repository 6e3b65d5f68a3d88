use super::*;
use crate::problem::position;

fn problems(text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    read(0, text, &mut problems);
    problems
}

fn tool(body: &str) -> String {
    format!(r#"{{"tools":[{{"name":"t","source":{{"target":"w","tool":"s"}},{body}}}]}}"#)
}

// R-003-9, S45, S46
#[test]
fn an_empty_registry_is_a_registry() {
    for (text, version) in [("{}", "1.0"), (r#"{"tools":[]}"#, "1.0"), (r#"{"$schema":"x","schemaVersion":"2.0","tools":[]}"#, "2.0")] {
        let mut problems = Vec::new();
        let registry = read(0, text, &mut problems).unwrap();
        assert_eq!((&*registry.schema_version, registry.tools.len(), problems.len()), (version, 0, 0), "{text}");
    }
}

// M2
#[test]
fn no_message_moves_the_cursor_of_a_terminal() {
    for text in [r#"{"tools":[{"name":"a\u001b[2J\nb","source":7}]}"#, r#"{"\u009b2J":1}"#] {
        let problems = problems(text);
        assert!(!problems.is_empty() && !problems.iter().any(|problem| problem.message.contains(char::is_control)), "{problems:?}");
    }
}

// R-003-44: malformed text costs the document, with the place and a hint
#[test]
fn what_is_no_registry_is_rejected_with_its_place() {
    let deep = format!("{{\"tools\":[{}{}]}}", "[".repeat(10_000), "]".repeat(10_000));
    for (text, code, at, help) in [
        ("", Code::NotARegistry, (1, 1), "cut off"),
        ("{\n  \"tools\": [,]\n}", Code::NotARegistry, (2, 13), ""),
        ("{\"tools\": [],}", Code::NotARegistry, (1, 14), "no comma"),
        ("{\n 'tools': []}", Code::NotARegistry, (2, 2), "double quotes"),
        ("\u{feff}{}", Code::NotARegistry, (1, 1), "byte order mark"),
        ("[]", Code::NotARegistry, (1, 1), "tools"),
        ("{\"tools\": {}}", Code::NotARegistry, (1, 11), ""),
        ("{\"tools\": \"x\"}", Code::NotARegistry, (1, 11), ""),
        (&deep, Code::TooLarge, (1, 73), ""),
    ] {
        let mut problems = Vec::new();
        assert!(read(0, text, &mut problems).is_none());
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!((problem.code, position(text, problem.span.start)), (code, at), "{problem:?}");
        assert!(problem.help.as_deref().unwrap_or("").contains(help), "{problem:?}");
    }
}

// F3
#[test]
fn limits_stand_before_work() {
    let many = format!("{{\"tools\":[{}{{}}]}}", "{},".repeat(TOOLS));
    assert_eq!(problems(&many)[0].code, Code::TooLarge);
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(DOCUMENT));
    assert_eq!(problems(&large)[0].code, Code::TooLarge);
    let long = format!(r#"{{"tools":[{{"name":"{}","source":{{"target":"w"}}}}]}}"#, "n".repeat(10_000));
    assert_eq!(problems(&long)[0].code, Code::BadName);
    assert!(problems(&long)[0].message.len() < 300);
    let fields: Vec<_> = (0..=FIELDS).map(|n| format!("\"f{n}\"")).collect();
    assert_eq!(problems(&tool(&format!("\"hideFields\":[{}]", fields.join(","))))[0].code, Code::TooLarge);
}

// L18, F1: each mistake is underlined where it stands
#[test]
fn every_problem_points_at_the_characters_that_caused_it() {
    for (body, code, severity, underlined, pointer, help) in [
        (r#""hidefields":[]"#, Code::UnknownKey, Severity::Warning, r#""hidefields""#, "/tools/0/hidefields", "`hideFields`"),
        (r#""zzz":1"#, Code::UnknownKey, Severity::Warning, r#""zzz""#, "/tools/0/zzz", "x-"),
        (r#""command":"sh""#, Code::ForbiddenKey, Severity::Error, r#""command""#, "/tools/0/command", "config"),
        (r#""url":"http://x""#, Code::ForbiddenKey, Severity::Error, r#""url""#, "/tools/0/url", "config"),
        (r#""title":5"#, Code::BadValue, Severity::Error, "5", "/tools/0/title", ""),
        (r#""hideFields":"a""#, Code::BadValue, Severity::Error, r#""a""#, "/tools/0/hideFields", ""),
        (r#""hideFields":["a",{}]"#, Code::BadValue, Severity::Error, "{}", "/tools/0/hideFields/1", ""),
        (r#""onDrift":"explode""#, Code::BadValue, Severity::Error, r#""explode""#, "/tools/0/onDrift", "`quarantine`, `warn`, `ignore`"),
        (r#""arguments":{"a/b":{"sorce":"x"}}"#, Code::UnknownKey, Severity::Warning, r#""sorce""#, "/tools/0/arguments/a~1b/sorce", "`source`"),
        (r#""inputSchema":{},"parameters":{}"#, Code::Contradiction, Severity::Error, r#""parameters""#, "/tools/0/parameters", "keep"),
        (r#""type":"tool""#, Code::BadValue, Severity::Error, r#""tool""#, "/tools/0/type", "`function`"),
        (r#""metadata":{"a":[{"b":1,"\u0062":2}]}"#, Code::DuplicateKey, Severity::Error, r#""\u0062""#, "/tools/0/metadata/a/0/b", "keep one"),
        (r#""title":"a","title":"b""#, Code::DuplicateKey, Severity::Error, r#""title""#, "/tools/0/title", "keep one"),
        (r#""exposeSource":"yes""#, Code::BadValue, Severity::Error, r#""yes""#, "/tools/0/exposeSource", ""),
    ] {
        let text = tool(body);
        let problems = problems(&text);
        let [problem] = problems.as_slice() else { panic!("{body}: {problems:?}") };
        assert_eq!((problem.code, problem.severity), (code, severity), "{body}");
        assert_eq!(text.get(problem.span.clone()), Some(underlined), "{body}");
        assert_eq!(problem.pointer, pointer, "{body}");
        assert!(problem.help.as_deref().unwrap_or("").contains(help), "{body}: {problem:?}");
        assert!(problem.message.contains("tool `t`"), "{body}: {problem:?}");
    }
}

#[test]
fn comments_and_extensions_are_silent_and_null_says_nothing() {
    assert!(problems(&tool(r#""$comment":1,"$comment_x":2,"x-team":{},"title":null,"defaults":null"#)).is_empty());
    assert!(problems(r#"{"$comment":"c","x-a":1}"#).is_empty());
}

// R-003-10, R-003-44, S27, S28, S30, S31
#[test]
fn a_source_may_be_spelled_in_several_ways_and_must_be_one() {
    let source = |body: &str| {
        let text = format!(r#"{{"tools":[{{"name":"n",{body}}}]}}"#);
        let mut problems = Vec::new();
        let registry = read(0, &text, &mut problems).unwrap();
        let source = match &registry.tools[0].source {
            Some(ToolSource::Target { target, tool }) => format!("{}/{}", target.text, tool.text),
            Some(ToolSource::Tool(name)) => name.text.to_string(),
            None => "none".into(),
        };
        (source, problems.first().map(|problem| problem.message.clone()).unwrap_or_default())
    };
    for (body, expected) in [
        (r#""source":{"target":"w","tool":"s"}"#, "w/s"),
        (r#""source":{"server":"w","originalName":"s"}"#, "w/s"),
        (r#""source":{"target":"w"}"#, "w/n"),
        (r#""server":"w","originalName":"s""#, "w/s"),
        (r#""server":"w""#, "w/n"),
        (r#""source":"base""#, "base"),
    ] {
        assert_eq!(source(body), (expected.to_owned(), String::new()), "{body}");
    }
    for (body, message) in [
        (r#""title":"x""#, "has no server reference and no valid source"),
        (r#""source":{"tool":"s"}"#, "has no server reference and no valid source"),
        (r#""source":7"#, "not an object or the name of a tool"),
        (r#""source":"base","server":"w""#, "at once"),
        (r#""source":"base","implementation":{}"#, "a source and an implementation"),
        (r#""source":{"target":"w","server":"v"}"#, "mean the same"),
    ] {
        let (_, found) = source(body);
        assert!(found.contains(message), "{body}: {found}");
    }
}

// S44
#[test]
fn defaults_and_hidden_fields_count_wherever_they_stand() {
    let text = r#"{"tools":[{"name":"t","defaults":{"a":1},"hideFields":["x"],"source":{"target":"w","defaults":{"b":2},"hideFields":["y"]}}]}"#;
    let registry = read(0, text, &mut Vec::new()).unwrap();
    let keys: Vec<_> = registry.tools[0].defaults.iter().map(|(key, value)| format!("{}={}", key.text, value.raw())).collect();
    let hidden: Vec<_> = registry.tools[0].hide_fields.iter().map(|field| &*field.text).collect();
    assert_eq!((keys.join(" "), hidden.join(" ")), ("a=1 b=2".into(), "x y".into()));
}

#[test]
fn a_place_inside_a_string_survives_escapes() {
    let text = r#"{"a":"\u00e9\n\ud83d\ude00é${X}z"}"#;
    let json = check(text.as_bytes(), &LIMITS).unwrap();
    let place = Place { text, document: 0, root: json, base: String::new(), tool: None };
    let value = json.get("a").unwrap();
    let plain = value.string().unwrap();
    let at = plain.find("${X}").unwrap();
    let span = place.inside(&place.span_of(value.raw()), &(at..at + 4));
    assert_eq!(text.get(span), Some("${X}"));
}
