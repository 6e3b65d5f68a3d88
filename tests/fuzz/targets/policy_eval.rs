//! `{rules, claims, tool, args}`: rules are refused or judge; a deny that holds wins whatever else does; the order of rules does not
//! matter; what may be called is listed, and what rules look at without arguments is callable exactly if it is listed.

use crate::world::read;
use serde_json::Value;
use transom_gateway::authorize::{Arguments, Asked, Decision, Policy, Subject, Who};
use transom_gateway::config::{Effect, Rule};
use transom_gateway::generation::Kind;
use transom_json::Json;

pub const WORDS: &[&str] = &[
    "rules",
    "claims",
    "tool",
    "args",
    "allow",
    "deny",
    "require",
    "mcp.tool.name",
    "mcp.tool.target",
    "mcp.tool.tags",
    "mcp.tool.arguments.a",
    "mcp.tool",
    "mcp.prompt.name",
    "mcp.resource.uri",
    "mcp.method",
    "jwt.sub",
    "jwt.roles",
    "jwt",
    "apiKey.id",
    "has(",
    "size(",
    ".exists(x, x == ",
    ".all(x, ",
    ".map(x, ",
    ".filter(x, ",
    " in ",
    " == ",
    " != ",
    " < ",
    " && ",
    " || ",
    "!",
    "true",
    "false",
    "'a'",
    "1",
    "[",
    "]",
    ".startsWith('a')",
    ".matches('a.*')",
    "?",
    ":",
    "-",
    "name",
    "target",
    "source",
    "tags",
    "metadata",
    "annotations",
    "title",
    "version",
    "sub",
    "roles",
    "a",
    "reader",
];

/// More rules than that show nothing new.
const RULES: usize = 5;

pub fn run(bytes: &[u8]) {
    let Some(input) = read(bytes) else { return };
    let value: Value = match serde_json::from_str(input.raw()) {
        Ok(value) => value,
        Err(_) => return,
    };
    let rules: Vec<Rule> = value["rules"].as_array().into_iter().flatten().filter_map(rule).take(RULES).collect();
    let policy = match Policy::compile(Some(&rules)) {
        Ok(policy) => policy,
        Err(bad) => {
            assert!(!bad.is_empty());
            for bad in bad {
                let text = &rules[bad.rule].expression;
                assert!(bad.offset.is_none_or(|at| at <= text.len() && text.is_char_boundary(at)), "{bad:?}");
            }
            return;
        }
    };
    let claims = value["claims"].as_object().cloned().unwrap_or_default();
    let who = Who::new(&claims, value["apiKey"].as_str());
    let subject = subject(input.get("tool"));
    let arguments = Arguments::read(input.get("args"));

    let listed = judge(&policy, &subject, &who, None);
    let called = judge(&policy, &subject, &who, Some(&arguments));
    assert!(listed.allowed || !called.allowed, "{rules:?} let somebody call what is not listed");
    if !policy.reads_arguments() {
        assert_eq!(listed, called, "{rules:?} tell a list from a call");
    }
    // Each rule alone, put together here.
    let mut alone = Vec::new();
    for rule in &rules {
        let allow = [Rule { effect: Effect::Allow, expression: rule.expression.clone() }];
        let only = Policy::compile(Some(&allow)).expect("a rule that is sound among others is sound alone");
        alone.push((rule.effect, judge(&only, &subject, &who, Some(&arguments))));
    }
    let denied = alone.iter().any(|(effect, decision)| *effect == Effect::Deny && (decision.allowed || decision.errors > 0));
    let required = alone.iter().all(|(effect, decision)| *effect != Effect::Require || decision.allowed);
    let allowed = alone.iter().any(|(effect, decision)| *effect == Effect::Allow && decision.allowed);
    assert_eq!(called.allowed, !denied && required && allowed, "{rules:?} judge otherwise together: {alone:?}");

    if rules.len() > 1 {
        let turned: Vec<Rule> = rules.iter().rev().cloned().collect();
        let other_way = Policy::compile(Some(&turned)).expect("rules are sound in any order");
        assert_eq!(judge(&other_way, &subject, &who, Some(&arguments)), called, "{rules:?} in another order");
    }
}

fn rule(written: &Value) -> Option<Rule> {
    let (effect, expression) = written.as_object()?.iter().next()?;
    let effect = match effect.as_str() {
        "allow" => Effect::Allow,
        "deny" => Effect::Deny,
        "require" => Effect::Require,
        _ => return None,
    };
    Some(Rule { effect, expression: expression.as_str()?.to_owned() })
}

fn subject(tool: Option<Json<'_>>) -> Subject {
    const MEMBERS: [&str; 8] = ["name", "target", "source", "title", "version", "tags", "metadata", "annotations"];
    let Some(tool) = tool else { return Subject::of_resource("t", "file:///a") };
    let members: Vec<(&'static str, &str)> = MEMBERS.into_iter().filter_map(|name| Some((name, tool.get(name)?.raw()))).collect();
    Subject::with(Kind::Tool, &members)
}

fn judge(policy: &Policy, subject: &Subject, who: &Who, arguments: Option<&Arguments>) -> Decision {
    let standing = policy.standing(who, None);
    let mut asked = Asked::new(Some(subject), who);
    asked.arguments = arguments;
    policy.judge(&asked, &standing)
}
