//! What cannot pass, and what a run comes to when that is taken into account.

use crate::runner::{Verdict, Verdicts};
use serde_json::Value;
use transom_tests::install::folder;

/// The file `expected-failures.json`: where, which scenarios (and which of their checks, if not any), and why.
pub struct Expected(Vec<Value>);

/// A scenario that must fail, or checks of it.
pub struct Failing<'a> {
    scenario: &'a str,
    checks: Option<Vec<&'a str>>,
}

impl Expected {
    pub fn read() -> Expected {
        let text = std::fs::read_to_string(folder("conformance").join("expected-failures.json")).expect("a file of expected failures");
        let entries: Vec<Value> = serde_json::from_str(&text).expect("expected-failures.json is a list");
        for entry in &entries {
            assert!(entry["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "no reason: {entry}");
        }
        Expected(entries)
    }

    /// What must fail there in that revision. Where: `alone`, `legacy`, `modern` (the era of the target) or `client`.
    pub fn of(&self, place: &str, revision: &str) -> Vec<Failing<'_>> {
        let applies = |entry: &&Value| texts(&entry["with"]).contains(&place) && texts(&entry["revisions"]).contains(&revision);
        let mut all = Vec::new();
        for entry in self.0.iter().filter(applies) {
            let checks = entry.get("checks").map(texts);
            all.extend(texts(&entry["scenarios"]).into_iter().map(|scenario| Failing { scenario, checks: checks.clone() }));
        }
        all
    }
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// What a run comes to.
pub struct Judged {
    passed: usize,
    failed: usize,
    expected: usize,
    /// One line for each check that did not come out as it should.
    pub faults: Vec<String>,
}

impl Judged {
    pub fn cell(&self) -> String {
        format!("{} / {} / {}", self.passed, self.failed, self.expected)
    }
}

/// Compares a run with the same run without a gateway and with what must fail.
pub fn judge(run: &Verdicts, alone: &Verdicts, expected: &[Failing<'_>]) -> Judged {
    let mut failures: Vec<(&str, &str, String)> = Vec::new();
    for ((scenario, check), verdict) in &run.checks {
        if let Verdict::Failed(why) = verdict {
            failures.push((scenario, check, why.clone()));
        }
    }
    for (key @ (scenario, check), verdict) in &alone.checks {
        if *verdict == Verdict::Passed && !matches!(run.checks.get(key), Some(Verdict::Passed | Verdict::Failed(_))) {
            failures.push((scenario, check, "passes without the gateway, and is not judged through it".into()));
        }
    }
    let is_expected = |scenario: &str, check: &str| {
        expected.iter().any(|failing| failing.scenario == scenario && failing.checks.as_ref().is_none_or(|checks| checks.contains(&check)))
    };
    let (known, new): (Vec<_>, Vec<_>) = failures.iter().partition(|(scenario, check, _)| is_expected(scenario, check));
    let mut faults: Vec<String> = new.iter().map(|(scenario, check, why)| format!("{scenario}: {check}: {why}")).collect();
    for Failing { scenario, checks } in expected {
        let was_played = run.checks.keys().chain(alone.checks.keys()).any(|(played, _)| played == scenario);
        let failed = |check: Option<&str>| known.iter().any(|(name, id, _)| name == scenario && check.is_none_or(|check| check == *id));
        let passing: Vec<String> = match checks {
            _ if !was_played => Vec::new(),
            None if failed(None) => Vec::new(),
            None => vec![(*scenario).to_owned()],
            Some(checks) => checks.iter().filter(|check| !failed(Some(check))).map(|check| format!("{scenario}: {check}")).collect(),
        };
        faults.extend(passing.into_iter().map(|what| format!("{what}: expected to fail, and passes; take it off the list")));
    }
    Judged { passed: run.passed, failed: faults.len(), expected: known.len(), faults }
}
