//! What is fuzzed: each target takes any bytes, and what it promises holds for all of them.

use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use transom_json::{Json, Limits, Tree, check, write};
use transom_registry::path::Rules;
use transom_registry::result::{Projection, Shaping};
use transom_registry::template::{Environment, expand};
use transom_registry::{Catalog, Compiled, Document, Offer, Options, SourceTool, Step, Tools, compile};

/// What no client may ever see.
const CANARY: &str = "CANARY-b1d2c3e4";

/// A target: its name, how inputs begin, and the check.
pub struct Target {
    pub name: &'static str,
    /// Whether inputs are JSON.
    pub json: bool,
    pub seeds: &'static [&'static str],
    pub run: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    Target { name: "document", json: true, seeds: DOCUMENTS, run: document },
    Target { name: "template", json: false, seeds: TEMPLATES, run: template },
    Target { name: "jsonpath", json: false, seeds: PATHS, run: jsonpath },
    Target { name: "schema-hiding", json: true, seeds: SCHEMAS, run: schema_hiding },
    Target { name: "arguments", json: true, seeds: ARGUMENTS, run: arguments },
    Target { name: "projection", json: true, seeds: RESULTS, run: projection },
    Target { name: "embedded-json", json: false, seeds: TEXTS, run: embedded },
];

struct Env;

impl Environment for Env {
    fn variable(&self, name: &str) -> Option<String> {
        matches!(name, "A" | "KEY").then(|| CANARY.to_owned())
    }

    fn file(&self, _: &Path) -> Result<String, String> {
        Err("no such file".into())
    }
}

fn compiled(text: &str) -> Option<Compiled> {
    compile(&[Document { name: "fuzz", text }], &Env, &Options::default()).ok()
}

fn catalog(schema: &str) -> Option<Catalog> {
    let tool = SourceTool::read(&format!(r#"{{"name":"s","description":"d","inputSchema":{schema}}}"#)).ok()?;
    Some(Catalog { targets: vec![Offer { target: "t".into(), available: true, tools: vec![Arc::new(tool)] }] })
}

/// By another parser than ours. JSON found in a text may be as deep as ours allows, and stands a little deeper in the result.
fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Compiling never panics; what is listed is JSON; what is quarantined is not listed; no value of the environment is told.
fn document(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(Compiled { plan, problems }) = compiled(text) else { return };
    let Some(catalog) =
        catalog(r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"object","properties":{"c":{}}}},"required":["a"]}"#)
    else {
        return;
    };
    let tools = plan.bind(&catalog);
    for tool in tools.list() {
        assert!(is_json(tool.json().as_bytes()), "{}", tool.json());
        assert!(!tool.json().contains(CANARY), "{}", tool.json());
    }
    for problem in problems.iter().chain(tools.problems()) {
        assert!(problem.span.start <= problem.span.end && problem.span.end <= text.len(), "{problem:?}");
        assert!(text.is_char_boundary(problem.span.start) && text.is_char_boundary(problem.span.end), "{problem:?}");
        assert!(!problem.message.contains(CANARY), "{problem:?}");
    }
}

/// One pass: without a `$` in the text nothing changes, and no error tells a value.
fn template(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match expand(text, &Env) {
        Ok(expanded) if text.contains('$') => assert!(expanded.secret || !expanded.text.contains(CANARY)),
        Ok(expanded) => assert_eq!(expanded.text, text),
        Err(faults) => faults.iter().for_each(|fault| {
            assert!(fault.at.end <= text.len());
            assert!(!fault.to_string().contains(CANARY));
        }),
    }
}

/// A path is refused or gives JSON, with the limits and without them.
fn jsonpath(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (path, document) = text.split_once('\n').unwrap_or((text, r#"{"a":[{"b":1},{"b":[2,3]}],"c":"x"}"#));
    if !is_json(document.as_bytes()) {
        return;
    }
    let schema = format!(r#"{{"type":"object","properties":{{"v":{{"sourceField":{}}}}}}}"#, write::quoted(path));
    let schema = Tree::from(Json::trusted(&schema));
    for rules in [Rules::default(), Rules { full: true }] {
        let Ok(Some(projection)) = Projection::compile(&schema, &rules, &Shaping::default()) else { continue };
        let result = format!(r#"{{"content":[],"structuredContent":{document}}}"#);
        let shaped = projection.apply(Json::trusted(&result), true);
        assert!(is_json(shaped.json.as_bytes()), "{path}: {}", shaped.json);
    }
}

/// Whatever the schema: what is hidden never comes from the caller.
fn schema_hiding(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(schema) = check(bytes, &Limits { duplicate_keys: false, ..Limits::REPLY }) else { return };
    let Some(catalog) = catalog(schema.raw()) else { return };
    let entry = r#"{"tools":[{"name":"v","source":{"target":"t","tool":"s"},"hideFields":["secret","o.secret","l[].secret"],"defaults":{"secret":"${KEY}"}}]}"#;
    let Some(Compiled { plan, .. }) = compiled(entry) else { return };
    let tools = plan.bind(&catalog);
    for tool in tools.list() {
        assert!(is_json(tool.json().as_bytes()), "{text}");
        assert!(tool.name() == "v" && !tool.json().contains(CANARY), "{text}");
    }
    for arguments in [
        r#"{"secret":"CALLER"}"#,
        r#"{"SECRET":"CALLER"}"#,
        r#"{"o":{"secret":"CALLER"}}"#,
        r#"{"l":[{"secret":"CALLER"}]}"#,
        r#"{"a":1,"o":{"a":1},"l":[{"a":1}]}"#,
    ] {
        if let Some(sent) = sent(&tools, arguments) {
            assert!(!sent.contains("CALLER"), "{text} let {arguments} through as {sent}");
        }
    }
}

fn sent(tools: &Tools, arguments: &str) -> Option<String> {
    match tools.call("v", Some(Json::trusted(arguments))) {
        Ok(Step::Call(call)) => Some(String::from_utf8(call.arguments).expect("arguments are text")),
        _ => None,
    }
}

const WEATHER: &str = r#"{"tools":[{"name":"v","source":{"target":"t","tool":"s"},"hideFields":["api_key","opts.debug","rows[].token"],
    "defaults":{"api_key":"${KEY}","opts.debug":false,"units":"metric"},"arguments":{"city":{"source":"location"}}}]}"#;
const WEATHER_SCHEMA: &str = r#"{"type":"object","properties":{"location":{"type":"string"},"api_key":{"type":"string"},"units":{"type":"string"},
    "opts":{"type":"object","properties":{"debug":{"type":"boolean"},"lang":{"type":"string"}}},
    "rows":{"type":"array","items":{"type":"object","properties":{"id":{},"token":{}}}}},"required":["location","api_key"]}"#;

std::thread_local! {
    static TOOLS: Tools = compiled(WEATHER).expect("the registry compiles").plan.bind(&catalog(WEATHER_SCHEMA).expect("the source is sound"));
}

/// What a source gets has the forced values and nothing of a hidden field, whatever the caller sends.
fn arguments(bytes: &[u8]) {
    let Ok(arguments) = check(bytes, &Limits { duplicate_keys: true, ..Limits::REQUEST }) else { return };
    TOOLS.with(|tools| {
        let Some(sent) = sent(tools, arguments.raw()) else { return };
        assert!(is_json(sent.as_bytes()), "{} became {sent}", arguments.raw());
        let value: Value = serde_json::from_str(&sent.replace("1e400", "1")).unwrap_or(Value::Null);
        if value.is_null() {
            // A number that only text can hold.
            return;
        }
        assert_eq!(value["api_key"], CANARY, "{} became {sent}", arguments.raw());
        assert_eq!(value["opts"]["debug"], false, "{} became {sent}", arguments.raw());
        for row in value["rows"].as_array().into_iter().flatten() {
            assert!(row.get("token").is_none(), "{} became {sent}", arguments.raw());
        }
    });
}

/// What a projection does not select is in no part of what comes out.
fn projection(bytes: &[u8]) {
    let Ok(found) = check(bytes, &Limits::REPLY) else { return };
    let schema = r#"{"type":"object","properties":{"t":{"type":"number","sourceField":"$.a.t"},"n":{"type":"array","sourceField":"$..n"},
        "l":{"type":"array","sourceField":"$.l","items":{"type":"object","properties":{"x":{"type":"string","sourceField":"$.x"}}}},
        "c":{"coalesce":["$.p","$.q[0]"]},"w":{"template":"{x}-{y}","vars":{"x":"$.p","y":"$.a.t"}},"k":{"literal":1}}}"#;
    let schema = Tree::from(Json::trusted(schema));
    let Ok(Some(projection)) = Projection::compile(&schema, &Rules::default(), &Shaping::default()) else { return };
    let hidden = format!(r#"{{"hidden_{CANARY}":"{CANARY}","value":{}}}"#, found.raw());
    for result in [
        format!(r#"{{"content":[{{"type":"text","text":"{CANARY}"}}],"structuredContent":{},"x":"{CANARY}"}}"#, found.raw()),
        format!(r#"{{"content":[{{"type":"image","data":"{CANARY}"}}],"structuredContent":{hidden}}}"#),
        format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, write::quoted(&hidden)),
    ] {
        let shaped = projection.apply(Json::trusted(&result), true);
        assert!(is_json(shaped.json.as_bytes()), "{}", shaped.json);
        if !found.raw().contains("CANARY") {
            assert!(!shaped.json.contains(CANARY), "{result} became {}", shaped.json);
        }
    }
}

/// Any text is searched, and what comes out is JSON.
fn embedded(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for path in ["$", "$.a"] {
        let schema = format!(r#"{{"type":"object","properties":{{"v":{{"sourceField":"{path}"}}}}}}"#);
        let schema = Tree::from(Json::trusted(&schema));
        let Ok(Some(projection)) = Projection::compile(&schema, &Rules::default(), &Shaping::default()) else { return };
        let result = format!(r#"{{"content":[{{"type":"text","text":{}}},{{"type":"text","text":"tail {{\"a\":1}}"}}]}}"#, write::quoted(text));
        let shaped = projection.apply(Json::trusted(&result), false);
        assert!(is_json(shaped.json.as_bytes()), "{text}: {}", shaped.json);
    }
}

const DOCUMENTS: &[&str] = &[
    r#"{"tools":[{"name":"v","source":{"target":"t","tool":"s"},"hideFields":["a","b.c"],"defaults":{"a":"${A}","b.c":30}}]}"#,
    r##"{"schemaVersion":"1.0","schemas":[{"name":"N","schema":{"type":"object","properties":{"n":{"$ref":"#/schemas/N"}}}}],"tools":[{"name":"x","source":"y","inputSchema":{"$ref":"#/schemas/N"}},{"name":"y","source":{"server":"t","originalName":"s"}}]}"##,
    r#"{"tools":[{"name":"m","description":"d","parameters":{"type":"object"},"implementation":{"type":"mock","mock_response":[1,{"a":null}]}},{"name":"c","description":"d","parameters":{"type":"object"},"implementation":{"type":"builtin","handler":"calculator"}}]}"#,
    r#"{"tools":[{"name":"o","source":{"target":"t","tool":"s"},"outputSchema":{"type":"object","required":["x"],"properties":{"x":{"type":"number","sourceField":"$..a[?@.b>1]"},"y":{"coalesce":["$.a","$.b"]},"z":{"template":"{q}","vars":{"q":"$.q"}}}},"onMissing":"null","expectedSourceHash":"sha256:1e92b51e492159f46fbd3ea2628ce4db85a71e96fc76b1d908550d07d3c7e19f"}]}"#,
    r#"{"tools":[{"name":"r","source":{"target":"t","tool":"s"},"arguments":{"p":{"source":"a","description":"x"}},"hideDefaulted":true,"defaults":{"a":{"k":"${KEY:-d}"}},"exposeSource":true}]}"#,
];
const TEMPLATES: &[&str] =
    &["${A}", "pre-${A}-post $${A} $$<A> $<A>", "${MISSING:-${A}}", "${A:?m} ${env.A} ${env:A}", "${file:/x} ${ A } ${} ${A", "${M:-{\"a\":{}}}"];
const PATHS: &[&str] = &[
    "$.a[*].b\n{\"a\":[{\"b\":1},{\"b\":[2,3]}],\"c\":\"x\"}",
    "$..a[?@.b > 1 && !(@.c == 'x')]\n{\"a\":[{\"b\":1},{\"b\":2}]}",
    "$['a'][0,1,-1,1:3:2]\n{\"a\":[1,2,3,4]}",
    "$.a[?length(@.b) == 1 || count(@.*) > 2]\n{\"a\":[{\"b\":\"x\"}]}",
    "$[?search(@.a, 'x.*')]..b\n[{\"a\":\"xy\",\"b\":1e400}]",
    "$[?((((@.a))))]\n[1]",
];
const SCHEMAS: &[&str] = &[
    r#"{"type":"object","properties":{"secret":{"type":"string"},"a":{"type":"integer"}},"required":["secret"]}"#,
    r##"{"type":"object","properties":{"o":{"$ref":"#/$defs/O"},"l":{"type":"array","items":{"$ref":"#/$defs/O"}}},"$defs":{"O":{"type":"object","properties":{"secret":{},"a":{}}}}}"##,
    r#"{"type":"object","allOf":[{"properties":{"secret":{}}},{"anyOf":[{"required":["secret"]},{"properties":{"a":{}}}]}],"dependentRequired":{"a":["secret"]}}"#,
    r##"{"type":"object","$ref":"#/$defs/T","$defs":{"T":{"oneOf":[{"properties":{"secret":{"const":1}}},{"$ref":"#"}]}},"patternProperties":{"^s":{}}}"##,
    r#"{"type":"object","if":{"properties":{"a":{"const":1}}},"then":{"properties":{"secret":{}}},"else":{"not":{"required":["secret"]}},"propertyNames":{"enum":["secret","a"]},"unevaluatedProperties":{"type":"string"}}"#,
    r#"{"type":"object","properties":{"l":{"type":"array","prefixItems":[{"properties":{"secret":{}}}],"items":{"properties":{"secret":{}}},"contains":{"required":["secret"]}},"o":{"minProperties":1,"properties":{"secret":{}},"dependentSchemas":{"secret":{"required":["a"]}}}}}"#,
];
const ARGUMENTS: &[&str] = &[
    r#"{"city":"Oslo"}"#,
    r#"{"city":"Oslo","api_key":"CALLER","opts":{"debug":true,"lang":"no"},"rows":[{"id":1,"token":"CALLER"}]}"#,
    r#"{"city":"Oslo","opts":{"lang":"no"},"rows":[{"id":1},{"id":[2]}],"units":null}"#,
    r#"{"c\u0069ty":"X","API_KEY":"CALLER","\uff41pi_key":1,"api_key\u200b":2}"#,
    r#"{"city":"X","n":18446744073709551616,"m":1e400,"location":"Y"}"#,
];
const RESULTS: &[&str] = &[
    r#"{"a":{"t":52.3},"l":[{"x":"y","z":1}],"p":null,"q":[1,2],"n":3}"#,
    r#"{"a":{"t":"52.30","n":[1]},"l":{"x":1},"q":["x"],"p":{"n":{"n":1e400}}}"#,
    r#"[{"n":1},{"n":[{"n":2}]}]"#,
    r#""text""#,
];
const TEXTS: &[&str] = &[
    r#"{"a":1}"#,
    "Here:\n```json\n{\"a\":[1,2]}\n```\nbye {\"b\":1}",
    r#"[note] then {"a":"}{][\"\\"} and [1,{"a":2}] tail"#,
    "{{{{[[[[ {\"a\":{\"a\":{\"a\":1}}}",
    "\u{feff} {\"a\":1e400,\"\u{e9}\":null}",
];
