//! What cannot pass, and what a run comes to when that is taken into account.

use crate::runner::{Verdict, Verdicts};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use transom_tests::install::folder;

/// The file `expected-failures.json`: where, which scenarios (and which of their checks, if not any), and why.
pub struct Expected(Vec<Value>);

/// Where something fails: without a gateway, by the era of the gateway's target, or where the gateway is the client.
const PLACES: [&str; 4] = ["alone", "legacy", "modern", "client"];

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
            assert!(texts(&entry["with"]).iter().all(|place| PLACES.contains(place)), "no such place: {entry}");
        }
        Expected(entries)
    }

    /// What must fail there in that revision.
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

/// Whom the scenarios were played with, in which revision, and which.
pub type Played<'a> = BTreeSet<(&'a str, &'a str, &'a str)>;

impl Expected {
    /// One line for each failure that is expected in these places and never had the chance.
    pub fn never_played(&self, places: &[&str], played: &Played<'_>) -> Vec<String> {
        let mut all = Vec::new();
        for entry in &self.0 {
            for place in texts(&entry["with"]).into_iter().filter(|place| places.contains(place)) {
                for revision in texts(&entry["revisions"]) {
                    let missing = texts(&entry["scenarios"]).into_iter().filter(|scenario| !played.contains(&(place, revision, *scenario)));
                    all.extend(
                        missing.map(|scenario| format!("{scenario}, {place}, {revision}: expected to fail, and never played; take it off the list")),
                    );
                }
            }
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

    /// The same for machines.
    pub fn json(&self) -> Value {
        json!({"passed": self.passed, "failed": self.failed, "expectedToFail": self.expected})
    }
}

/// Compares a run with the same run without a gateway and with what must fail.
pub fn judge(run: &Verdicts, alone: &Verdicts, expected: &[Failing<'_>]) -> Judged {
    let mut failures = failed(run);
    for (key @ (scenario, check), _) in alone.checks.iter().filter(|(_, verdict)| **verdict == Verdict::Passed) {
        match run.checks.get(key) {
            None | Some(Verdict::Skipped) => failures.push((scenario, check, "passes without the gateway, and is not made through it".into())),
            Some(Verdict::Noted) => failures.push((scenario, check, "passes without the gateway, and finds nothing to judge through it".into())),
            Some(Verdict::Passed | Verdict::Failed(_)) => {}
        }
    }
    weigh(run, failures, |scenario| alone.has_played(scenario), expected)
}

/// As [`judge`], where there is no such run: what was skipped may have been what mattered, and something has to pass.
pub fn judge_by_itself(run: &Verdicts, scenario: &str, expected: &[Failing<'_>]) -> Judged {
    let mut failures = failed(run);
    let skipped = run.checks.iter().filter(|(_, verdict)| **verdict == Verdict::Skipped);
    failures.extend(skipped.map(|((scenario, check), _)| (scenario.as_str(), check.as_str(), "is not made".to_owned())));
    if !run.checks.iter().any(|((of, _), verdict)| of == scenario && *verdict == Verdict::Passed) {
        failures.push((scenario, "any", "no check of it passes".into()));
    }
    weigh(run, failures, |played| played == scenario, expected)
}

/// A scenario, one of its checks, and what is wrong with it.
type Failure<'a> = (&'a str, &'a str, String);

fn failed(run: &Verdicts) -> Vec<Failure<'_>> {
    let mut failures = Vec::new();
    for ((scenario, check), verdict) in &run.checks {
        if let Verdict::Failed(why) = verdict {
            failures.push((scenario.as_str(), check.as_str(), why.clone()));
        }
    }
    failures
}

/// Tells failures that were expected from others, and finds those that were expected and did not come.
fn weigh(run: &Verdicts, failures: Vec<Failure<'_>>, is_played: impl Fn(&str) -> bool, expected: &[Failing<'_>]) -> Judged {
    let is_expected = |scenario: &str, check: &str| {
        expected.iter().any(|failing| failing.scenario == scenario && failing.checks.as_ref().is_none_or(|checks| checks.contains(&check)))
    };
    let (known, new): (Vec<_>, Vec<_>) = failures.iter().partition(|(scenario, check, _)| is_expected(scenario, check));
    let mut faults: Vec<String> = new.iter().map(|(scenario, check, why)| format!("{scenario}: {check}: {why}")).collect();
    // A scenario that belongs to another suite is not missed here: whether it was played at all, `never_played` asks.
    for Failing { scenario, checks } in expected.iter().filter(|failing| is_played(failing.scenario)) {
        let failed = |check: Option<&str>| known.iter().any(|(name, id, _)| name == scenario && check.is_none_or(|check| check == *id));
        let passing: Vec<String> = match checks {
            None if failed(None) => Vec::new(),
            None => vec![(*scenario).to_owned()],
            Some(checks) => checks.iter().filter(|check| !failed(Some(check))).map(|check| format!("{scenario}: {check}")).collect(),
        };
        faults.extend(passing.into_iter().map(|what| format!("{what}: expected to fail, and passes; take it off the list")));
    }
    Judged { passed: run.passed, failed: faults.len(), expected: known.len(), faults }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(checks: &[(&str, &str, Verdict)]) -> Verdicts {
        let checks = checks.iter().map(|(scenario, check, verdict)| (((*scenario).to_owned(), (*check).to_owned()), verdict.clone()));
        Verdicts { checks: checks.collect(), passed: 0 }
    }

    fn failing(scenario: &str) -> Vec<Failing<'_>> {
        vec![Failing { scenario, checks: None }]
    }

    #[test]
    fn a_check_that_fails_is_skipped_is_gone_or_finds_nothing_to_judge_is_a_fault() {
        let alone = run(&[("s", "c", Verdict::Passed)]);
        let cases =
            [(Some(Verdict::Failed("no".into())), 1), (Some(Verdict::Skipped), 1), (None, 1), (Some(Verdict::Noted), 1), (Some(Verdict::Passed), 0)];
        for (verdict, faults) in cases {
            let through = verdict.iter().map(|verdict| ("s", "c", verdict.clone())).collect::<Vec<_>>();
            assert_eq!(judge(&run(&through), &alone, &[]).faults.len(), faults, "{verdict:?}");
            assert!(judge(&run(&through), &alone, &failing("s")).faults.len() == 1 - faults, "{verdict:?}, and expected to fail");
        }
        // What has nothing to judge without a gateway needs none through it.
        let alone = run(&[("s", "c", Verdict::Noted)]);
        assert!(judge(&alone, &alone, &[]).faults.is_empty());
    }

    #[test]
    fn a_scenario_judged_by_itself_has_a_check_that_passes_and_none_that_is_skipped() {
        type Checks<'c> = &'c [(&'c str, &'c str, Verdict)];
        let cases: [(Checks<'_>, usize); 6] = [
            (&[("s", "c", Verdict::Passed)], 0),
            (&[("s", "c", Verdict::Passed), ("s", "d", Verdict::Noted)], 0),
            (&[("s", "c", Verdict::Passed), ("s", "d", Verdict::Skipped)], 1),
            (&[("s", "c", Verdict::Passed), ("s", "d", Verdict::Failed("no".into()))], 1),
            (&[("s", "c", Verdict::Noted)], 1),
            (&[("other", "c", Verdict::Passed)], 1),
        ];
        for (checks, faults) in cases {
            let judged = judge_by_itself(&run(checks), "s", &[]);
            assert_eq!(judged.faults.len(), faults, "{checks:?}: {:?}", judged.faults);
        }
        assert_eq!(judge_by_itself(&run(&[("s", "c", Verdict::Passed)]), "s", &failing("s")).faults.len(), 1, "expected to fail, and passes");
    }

    #[test]
    fn an_expected_failure_that_passes_or_is_never_played_is_a_fault() {
        let alone = run(&[("s", "c", Verdict::Passed)]);
        assert_eq!(judge(&alone, &alone, &failing("s")).faults, ["s: expected to fail, and passes; take it off the list"]);
        assert!(judge(&run(&[("s", "c", Verdict::Failed("no".into()))]), &alone, &failing("s")).faults.is_empty());

        let expected = Expected(vec![json!({"with": ["legacy", "client"], "revisions": ["2026-07-28"], "scenarios": ["s", "t"]})]);
        let played = Played::from([("legacy", "2026-07-28", "s"), ("modern", "2026-07-28", "t")]);
        let stale = expected.never_played(&["alone", "legacy", "modern"], &played);
        assert_eq!(stale, ["t, legacy, 2026-07-28: expected to fail, and never played; take it off the list"]);
    }
}
