//! What rules mean, as tables. The same through the whole gateway is in `tests/spec/authorization.rs`.

use super::*;
use crate::config::{Effect, Rule};
use crate::generation::Kind;
use serde_json::json;
use transom_protocol::json::Json;

fn rules(written: &[(&str, &str)]) -> Vec<Rule> {
    let effect = |word: &str| match word {
        "allow" => Effect::Allow,
        "deny" => Effect::Deny,
        "require" => Effect::Require,
        other => panic!("no effect {other}"),
    };
    written.iter().map(|(word, expression)| Rule { effect: effect(word), expression: (*expression).to_owned() }).collect()
}

fn policy(written: &[(&str, &str)]) -> Policy {
    Policy::compile(Some(&rules(written))).unwrap_or_else(|bad| panic!("{bad:?}"))
}

fn alice() -> Who {
    let claims = json!({"sub": "alice", "roles": ["reader", "writer"], "age": 30, "https://corp.example/team": "blue", "nested": {"a": null}});
    Who::new(claims.as_object().unwrap(), None)
}

fn robot() -> Who {
    Who::new(json!({"team": "red"}).as_object().unwrap(), Some("ci"))
}

fn weather() -> Subject {
    Subject::with(
        Kind::Tool,
        &[
            ("name", r#""get_weather""#),
            ("target", r#""wx""#),
            ("source", r#""fetch_weather""#),
            ("title", r#""Weather""#),
            ("version", r#""1.2""#),
            ("tags", r#"["public", "blue"]"#),
            ("metadata", r#"{"dataClassification": "public", "cost": 3}"#),
            ("annotations", r#"{"readOnlyHint": true}"#),
        ],
    )
}

fn plain() -> Subject {
    let empty = [("name", r#""echo""#), ("target", r#""a""#), ("source", r#""echo""#), ("tags", "[]"), ("metadata", "{}"), ("annotations", "{}")];
    Subject::with(Kind::Tool, &empty)
}

fn prompt() -> Subject {
    Subject::with(Kind::Prompt, &[("name", r#""greet""#), ("target", r#""a""#)])
}

fn resource() -> Subject {
    Subject::of_resource("files", "file:///etc/motd")
}

fn circumstances() -> Circumstances {
    Circumstances {
        headers: vec![("x-team".into(), "blue".into())],
        path: Some("/mcp/wx".into()),
        client: Some(("claude".into(), "1.0".into())),
        address: Some("10.0.0.7".into()),
    }
}

fn decide(policy: &Policy, subject: &Subject, who: &Who, arguments: Option<&str>) -> Decision {
    let circumstances = circumstances();
    let arguments = arguments.map(|text| Arguments::read(Some(Json::trusted(text))));
    let standing = policy.standing(who, Some(&circumstances));
    policy.judge(&Asked { circumstances: Some(&circumstances), arguments: arguments.as_ref(), ..Asked::new(Some(subject), who) }, &standing)
}

fn allowed(errors: u32) -> Decision {
    Decision { allowed: true, errors }
}

fn refused(errors: u32) -> Decision {
    Decision { allowed: false, errors }
}

// C8, R-003-63
#[test]
fn deny_wins_then_every_require_then_some_allow() {
    let (yes, no, broken, text) = ("1 == 1", "1 == 2", "jwt.nothing == 1", "'true'");
    for (written, expected) in [
        (&[][..], refused(0)),
        (&[("allow", yes)], allowed(0)),
        (&[("allow", no)], refused(0)),
        (&[("allow", no), ("allow", yes)], allowed(0)),
        (&[("deny", no)], refused(0)),
        (&[("require", yes)], refused(0)),
        (&[("allow", yes), ("deny", no)], allowed(0)),
        (&[("allow", yes), ("deny", yes)], refused(0)),
        (&[("deny", yes), ("allow", yes)], refused(0)),
        (&[("allow", yes), ("require", yes)], allowed(0)),
        (&[("allow", yes), ("require", yes), ("require", no)], refused(0)),
        (&[("allow", yes), ("allow", broken)], allowed(1)),
        (&[("allow", broken)], refused(1)),
        (&[("allow", yes), ("require", broken)], refused(1)),
        (&[("allow", yes), ("deny", broken)], refused(1)),
        (&[("allow", text)], refused(1)),
        (&[("allow", yes), ("deny", text)], refused(1)),
    ] {
        assert_eq!(decide(&policy(written), &weather(), &alice(), None), expected, "{written:?}");
    }
}

#[test]
fn no_section_allows_everything_and_an_empty_one_nothing() {
    let none = Policy::compile(None).unwrap();
    assert!(none.allows_all() && decide(&none, &weather(), &alice(), None).allowed);
    let empty = policy(&[]);
    assert!(!empty.allows_all() && !decide(&empty, &weather(), &alice(), None).allowed);
}

#[test]
fn rules_see_every_variable_that_the_specification_names() {
    for expression in [
        "mcp.method == 'tools/call'",
        "mcp.tool.name == 'get_weather'",
        "mcp.tool['name'] == 'get_weather'",
        "mcp.tool.target == 'wx' && mcp.tool.source == 'fetch_weather'",
        "mcp.tool.title == 'Weather' && mcp.tool.version.startsWith('1.')",
        "'public' in mcp.tool.tags && size(mcp.tool.tags) == 2",
        "mcp.tool.metadata.dataClassification == 'public' && mcp.tool.metadata.cost < 5",
        "mcp.tool.metadata['dataClassification'].matches('^pub.*$')",
        "mcp.tool.annotations.readOnlyHint",
        "has(mcp.tool) && !has(mcp.prompt) && !has(mcp.resource)",
        "has(mcp.tool.title) && has(mcp.tool.metadata.cost) && !has(mcp.tool.metadata.owner)",
        "jwt.sub == 'alice' && 'writer' in jwt.roles && jwt.age >= 18",
        "jwt['https://corp.example/team'] == 'blue'",
        "has(jwt.sub) && !has(jwt.email) && jwt.nested.a == null",
        "!has(apiKey.id)",
        "jwt.roles.exists(r, r == 'writer') && jwt.roles.all(r, r != 'admin')",
        "mcp.tool.tags.exists(tag, jwt.roles.exists(role, role + 's' == 'readers') && tag == 'blue')",
        "jwt.roles.map(r, 'x-' + r) == ['x-reader', 'x-writer']",
        "request.headers['x-team'] == 'blue' && request.path.startsWith('/mcp')",
        "client.name == 'claude' && client.version == '1.0'",
        "source.address.startsWith('10.')",
        "type(jwt.age) == int && {'a': 1}.a == 1",
    ] {
        assert_eq!(decide(&policy(&[("allow", expression)]), &weather(), &alice(), None), allowed(0), "{expression}");
    }
    for (expression, subject) in [
        ("mcp.method == 'prompts/get' && mcp.prompt.name == 'greet' && mcp.prompt.target == 'a'", prompt()),
        ("mcp.method == 'resources/read' && mcp.resource.uri.startsWith('file:') && mcp.resource.target == 'files'", resource()),
        ("apiKey.id == 'ci' && jwt.team == 'red'", weather()),
        ("size(mcp.tool.tags) == 0 && !has(mcp.tool.title) && !has(mcp.tool.version) && !has(mcp.tool.metadata.x)", plain()),
    ] {
        assert_eq!(decide(&policy(&[("allow", expression)]), &subject, &robot(), None), allowed(0), "{expression}");
    }
}

#[test]
fn what_a_rule_asks_for_and_is_not_there_counts_against_the_caller() {
    let cases = [
        ("mcp.tool.name == 'greet'", prompt()),
        ("mcp.tool.name != 'x'", prompt()),
        ("mcp.tool.arguments.x == 1", prompt()),
        ("has(mcp.tool.title)", resource()),
        ("mcp.tool.title == ''", plain()),
        ("mcp.tool.metadata.owner == 'me'", plain()),
        ("jwt.email != 'x'", plain()),
        ("apiKey.id != 'x'", plain()),
        ("jwt.sub < 3", plain()),
    ];
    for (expression, subject) in cases {
        assert_eq!(decide(&policy(&[("allow", expression)]), &subject, &alice(), None), refused(1), "{expression}");
        assert_eq!(decide(&policy(&[("allow", "true"), ("require", expression)]), &subject, &alice(), None), refused(1), "{expression}");
        assert_eq!(decide(&policy(&[("allow", "true"), ("deny", expression)]), &subject, &alice(), None), refused(1), "{expression}");
    }
    let careful = policy(&[("allow", "true"), ("deny", "has(mcp.tool) && mcp.tool.name == 'get_weather'")]);
    assert!(decide(&careful, &prompt(), &alice(), None).allowed);
    assert!(!decide(&careful, &weather(), &alice(), None).allowed);
}

#[test]
fn a_rule_about_arguments_lets_the_tool_be_listed_and_judges_the_call() {
    let allow = policy(&[("allow", "mcp.tool.arguments.city == 'Oslo'")]);
    let deny = policy(&[("allow", "true"), ("deny", "has(mcp.tool.arguments.city) && mcp.tool.arguments.city != 'Oslo'")]);
    let require = policy(&[("allow", "true"), ("require", "mcp.tool.arguments.amount <= 1000")]);
    for (policy, arguments, expected) in [
        (&allow, None, allowed(0)),
        (&allow, Some(r#"{"city":"Oslo"}"#), allowed(0)),
        (&allow, Some(r#"{"city":"Rome"}"#), refused(0)),
        (&allow, Some("{}"), refused(1)),
        (&allow, Some("null"), refused(1)),
        (&allow, Some(r#"["city"]"#), refused(1)),
        (&deny, None, allowed(0)),
        (&deny, Some(r#"{"city":"Rome"}"#), refused(0)),
        (&deny, Some("{}"), allowed(0)),
        (&require, None, allowed(0)),
        (&require, Some(r#"{"amount":1000}"#), allowed(0)),
        (&require, Some(r#"{"amount":1e3}"#), allowed(0)),
        (&require, Some(r#"{"amount":999.5}"#), allowed(0)),
        (&require, Some(r#"{"amount":1000.5}"#), refused(0)),
        (&require, Some(r#"{"amount":18446744073709551616}"#), refused(0)),
        (&require, Some(r#"{"amount":"1"}"#), refused(1)),
    ] {
        assert_eq!(decide(policy, &weather(), &alice(), arguments), expected, "{arguments:?}");
    }
    assert!(allow.reads_arguments() && !allow.reads_request());
    // What the arguments cannot change is known while listing.
    for (expression, listed) in [
        ("mcp.tool.name == 'echo' && mcp.tool.arguments.x == 1", refused(0)),
        ("mcp.tool.arguments.x == 1 && mcp.tool.name == 'echo'", refused(0)),
        ("mcp.tool.name == 'get_weather' && mcp.tool.arguments.x == 1", allowed(0)),
        ("has(mcp.tool.arguments.x) && jwt.nothing", allowed(0)),
        ("jwt.nothing && 'a' == mcp.tool.arguments.x", allowed(0)),
        ("mcp.tool.title == 'x' && mcp.tool.arguments.x == 1", refused(0)),
        ("jwt.nothing == 1 ? mcp.tool.arguments.x == 1 : true", refused(1)),
    ] {
        assert_eq!(decide(&policy(&[("allow", expression)]), &weather(), &alice(), None), listed, "{expression}");
    }
}

#[test]
fn a_number_is_the_same_however_it_is_spelled() {
    let policy = policy(&[("allow", "true"), ("deny", "mcp.tool.arguments.amount == 1000")]);
    for spelled in ["1000", "1000.0", "1e3", "10.0E+2", "1000.000"] {
        let arguments = format!("{{\"amount\":{spelled}}}");
        assert!(!decide(&policy, &weather(), &alice(), Some(&arguments)).allowed, "{spelled}");
    }
    assert!(decide(&policy, &weather(), &alice(), Some(r#"{"amount":1000.5}"#)).allowed);
}

// C8
#[test]
fn a_rule_that_cannot_be_used_is_an_error_with_its_place() {
    for (expression, offset, part) in [
        ("", None, "empty"),
        ("   ", None, "empty"),
        ("mcp.tool.name ==", Some(16), "not CEL"),
        ("mcp.tool.name = 'x'", Some(14), "not CEL"),
        ("mcp.tool.nme == 'x'", Some(0), "there is no `mcp.tool.nme`"),
        ("true || tool.name == 'x'", Some(8), "there is no variable `tool`"),
        ("mcp.tool == 'x'", Some(0), "cannot be used as a whole"),
        ("mcp.tool.exists(k, k == 'name')", Some(0), "cannot be used as a whole"),
        ("'x' in mcp", Some(7), "cannot be used as a whole"),
        ("mcp['to' + 'ol'].name == 'x'", Some(0), "cannot be used as a whole"),
        ("apiKey == 'x'", Some(0), "cannot be used as a whole"),
        ("jwt.roles.exists(mcp, mcp == 'x')", None, "is a variable already"),
        ("admin", Some(0), "there is no variable `admin`"),
        ("lower(jwt.sub) == 'x'", None, "there is no function `lower`"),
        ("jwt.sub.matches(jwt.pattern)", None, "pattern as a text in quotes"),
        ("jwt.sub.matches('(')", None, "not a pattern"),
        ("jwt.sub.matches('((a{1000}){1000}){1000}')", None, "too large"),
        ("Thing{a: 1} == 1", None, "not a value"),
        ("jwt.?sub == 'x'", None, "not CEL"),
    ] {
        let bad = Policy::compile(Some(&rules(&[("allow", "true"), ("deny", expression)]))).err().unwrap_or_else(|| panic!("accepted: {expression}"));
        assert!(bad.iter().all(|bad| bad.rule == 1), "{bad:?}");
        assert!(bad[0].message.contains(part), "{expression}: {bad:?}");
        if offset.is_some() {
            assert_eq!(bad[0].offset, offset, "{expression}: {bad:?}");
        }
    }
    let all = Policy::compile(Some(&rules(&[("allow", "a"), ("allow", "true"), ("deny", "b && c")]))).err().unwrap();
    assert_eq!(all.iter().map(|bad| (bad.rule, bad.offset)).collect::<Vec<_>>(), [(0, Some(0)), (2, Some(0)), (2, Some(5))]);
    let umlaut = Policy::compile(Some(&rules(&[("allow", "'äöü' == name")]))).err().unwrap();
    assert_eq!(umlaut[0].offset, Some("'äöü' == ".len()));
}

// J12
#[test]
fn no_rule_can_blow_the_stack_or_run_for_ever() {
    let repeated = |left: &str, middle: &str, right: &str, times: usize| format!("{}{middle}{}", left.repeat(times), right.repeat(times));
    for deep in [
        repeated("(", "true", ")", 2_000),
        repeated("[", "1", "]", 2_000),
        repeated("!", "true", "", 4_000),
        repeated("-", "1", "", 4_000),
        repeated("1+", "1", "", 2_000),
        repeated("true?true:", "true", "", 400),
        repeated("jwt.a", "", ".a", 1_500),
        repeated("jwt[", "1", "]", 900),
        repeated("size(", "''", ")", 600),
        repeated("{1:", "1", "}", 1_000),
        "(".repeat(4_096),
        "a?".repeat(2_048),
        "\"".repeat(4_095),
        "x".repeat(5_000),
    ] {
        // What is left of these after parsing is either refused or shallow enough to evaluate here.
        if let Ok(policy) = Policy::compile(Some(&rules(&[("allow", &deep)]))) {
            decide(&policy, &weather(), &alice(), None);
        }
    }
    let deepest = repeated("(1+", "1", ")", rule::DEEPEST - 2);
    let policy_at_the_limit = policy(&[("allow", &format!("{deepest}>1"))]);
    assert_eq!(decide(&policy_at_the_limit, &weather(), &alice(), None), allowed(0));

    let many = format!("{{\"list\":[{}]}}", vec!["1"; 4_000].join(","));
    let started = std::time::Instant::now();
    let list = "mcp.tool.arguments.list";
    for expression in
        [format!("{list}.all(a, {list}.all(b, {list}.all(c, a == b && b == c)))"), format!("size({list}.map(a, {list}.map(b, {list}))) > 0")]
    {
        assert_eq!(decide(&policy(&[("allow", &expression)]), &weather(), &alice(), Some(&many)), refused(1), "{expression}");
    }
    assert_eq!(decide(&policy(&[("allow", &format!("{list}.all(a, a == 1)"))]), &weather(), &alice(), Some(&many)), allowed(0));
    // Arguments that are too much to look at cannot be judged.
    let text = format!("{{\"city\":\"{}\"}}", "x".repeat(70_000));
    assert_eq!(decide(&policy(&[("allow", "mcp.tool.arguments.city != ''")]), &weather(), &alice(), Some(&text)), refused(1));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn a_policy_knows_what_it_reads() {
    for (expression, request, arguments) in [
        ("jwt.sub == 'x' && mcp.tool.name == 'y' && apiKey.id == 'z'", false, false),
        ("request.path == ''", true, false),
        ("has(client.name)", true, false),
        ("source.address == ''", true, false),
        ("'x' in request.headers", true, false),
        ("mcp.tool['arguments'].x == 1", false, true),
        ("has(mcp.tool.arguments)", false, true),
        ("has(mcp.tool.arguments.x)", false, true),
    ] {
        let policy = policy(&[("allow", expression)]);
        assert_eq!((policy.reads_request(), policy.reads_arguments()), (request, arguments), "{expression}");
    }
}

/// A small generator: no two runs differ, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

// N1, C1: policy_eval
#[test]
fn deny_wins_and_list_equals_call_whatever_the_rules_are() {
    const ATOMS: [&str; 14] = [
        "true",
        "false",
        "mcp.tool.name == 'get_weather'",
        "'blue' in mcp.tool.tags",
        "mcp.tool.metadata.dataClassification == 'public'",
        "mcp.tool.title == 'Weather'",
        "has(mcp.tool)",
        "has(mcp.prompt)",
        "mcp.method == 'prompts/get'",
        "jwt.sub == 'alice'",
        "'writer' in jwt.roles",
        "apiKey.id == 'ci'",
        "mcp.resource.target == 'files'",
        "jwt.nothing",
    ];
    let subjects = [weather(), plain(), prompt(), resource()];
    let people = [alice(), robot(), Who::nobody()];
    let mut dice = Dice(42);
    let mut outcomes = [0; 2];
    for _ in 0..400 {
        let mut written = Vec::new();
        for _ in 0..dice.roll(5) {
            let effect = ["allow", "allow", "deny", "require"][dice.roll(4)];
            let (a, b) = (ATOMS[dice.roll(ATOMS.len())], ATOMS[dice.roll(ATOMS.len())]);
            written.push((effect, [a.to_owned(), format!("{a} && {b}"), format!("{a} || {b}"), format!("!({a})")][dice.roll(4)].clone()));
        }
        let borrowed: Vec<(&str, &str)> = written.iter().map(|(effect, expression)| (*effect, expression.as_str())).collect();
        let whole = policy(&borrowed);
        for (subject, who) in subjects.iter().flat_map(|subject| people.iter().map(move |who| (subject, who))) {
            let listed = decide(&whole, subject, who, None).allowed;
            outcomes[usize::from(listed)] += 1;
            assert_eq!(listed, decide(&whole, subject, who, Some(r#"{"a":1}"#)).allowed, "listed is callable: {written:?}");
            for rule in &borrowed {
                // Each rule on its own, as an allow beside nothing else.
                let alone = decide(&policy(&[("allow", rule.1)]), subject, who, None);
                match rule.0 {
                    "deny" if alone.allowed || alone.errors > 0 => assert!(!listed, "a deny that holds wins: {written:?}"),
                    "require" if !alone.allowed => assert!(!listed, "a require that does not hold refuses: {written:?}"),
                    _ => {}
                }
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 200), "both outcomes were seen: {outcomes:?}");
}
