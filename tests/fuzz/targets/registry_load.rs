//! A registry, and a config in YAML, of any bytes: it is read or refused, within a second and 64 MiB; what is listed is JSON and
//! tells no secret; every problem has a place in the text; and the same document written anew means the same.

use crate::world::{CANARY, Env, catalog, compiled, is_json};
use std::path::PathBuf;
use transom_config::Source;
use transom_json::{Limits, Tree, check};
use transom_registry::{Compiled, Problem, Tools};

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    config(text);
    let Some((tools, problems)) = load(text) else { return };
    for tool in tools.list() {
        assert!(is_json(tool.json()), "{}", tool.json());
        assert!(!tool.json().contains(CANARY), "{}", tool.json());
    }
    for problem in &problems {
        assert!(problem.span.start <= problem.span.end && problem.span.end <= text.len(), "{problem:?}");
        assert!(text.is_char_boundary(problem.span.start) && text.is_char_boundary(problem.span.end), "{problem:?}");
        assert!(!problem.message.contains(CANARY), "{problem:?}");
    }
    // What a store keeps of a plan is its document.
    let Ok(json) = check(bytes, &Limits { depth: 64, nodes: 1_000_000, key: 4096, duplicate_keys: false }) else { return };
    let anew = Tree::from(json).to_string();
    let (again, others) = load(&anew).expect("the same document written anew is accepted too");
    let listed = |tools: &Tools| tools.list().map(|tool| tool.json().to_owned()).collect::<Vec<_>>();
    assert_eq!(listed(&again), listed(&tools), "{anew}");
    let told = |problems: &[Problem]| problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>();
    assert_eq!(told(&others), told(&problems), "{anew}");
    assert_eq!(again.quarantined().len(), tools.quarantined().len(), "{anew}");
}

fn load(text: &str) -> Option<(Tools, Vec<Problem>)> {
    let Compiled { plan, problems } = compiled(text)?;
    let schema = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"object","properties":{"c":{}}}},"required":["a"]}"#;
    let tools = plan.bind(&catalog(schema)?);
    let problems = problems.into_iter().chain(tools.problems().iter().cloned()).collect();
    Some((tools, problems))
}

fn config(text: &str) {
    let source = Source { name: "config.yaml".into(), text: text.to_owned(), base_dir: PathBuf::from("/") };
    let (_, report) = transom_config::examine(std::slice::from_ref(&source), &Env);
    let said = format!("{report:?}");
    assert!(!said.contains(CANARY), "{said}");
}
