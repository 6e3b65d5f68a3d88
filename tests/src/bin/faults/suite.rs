//! T2, T4, T5, T13 and the clocks of T14: tests that the suite has already, made larger. They are run as they are; what they counted they say.

use crate::Size;
use crate::outcome::{Counts, Outcome};
use serde_json::Value;
use std::process::Stdio;
use tokio::process::Command;
use transom_tests::evidence;

/// Runs tests of the suite by name; how many passed, how many did not, and what they counted.
struct Ran {
    passed: usize,
    failed: usize,
    counted: Value,
    text: String,
}

async fn run(binary: &[&str], names: &[&str], environment: &[(&str, String)]) -> Ran {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--workspace"]).args(binary).arg("--").args(names).arg("--nocapture");
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("cargo runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut ran = Ran { passed: 0, failed: usize::from(!output.status.success()), counted: evidence::said(&text).unwrap_or(Value::Null), text };
    for line in ran.text.lines().filter_map(|line| line.split_once("test result: ")) {
        // `ok. 3 passed; 0 failed; …`
        let words: Vec<&str> = line.1.split_whitespace().collect();
        let before =
            |word: &str| words.iter().position(|other| other.starts_with(word)).and_then(|at| words.get(at.checked_sub(1)?)?.parse::<usize>().ok());
        ran.passed += before("passed").unwrap_or(0);
        ran.failed = ran.failed.max(before("failed").unwrap_or(0));
    }
    ran
}

impl Ran {
    /// What the tests said they counted.
    fn counts(&self) -> Counts {
        let count = |name: &str| self.counted[name].as_u64().unwrap_or(0) as usize;
        Counts {
            sent: count("sent"),
            ok: count("ok"),
            error: count("error"),
            mixed: count("mixed"),
            lost: count("lost"),
            doubled: count("doubled"),
            leaked: count("leaked"),
        }
    }

    /// Of tests that say what they counted; what they do not mention they did not count.
    fn outcome(&self, done: &str, tests: usize) -> Outcome {
        let silent = Counts::NAMES.into_iter().filter(|name| !self.counted[name].is_u64());
        self.judged(Outcome::new(done, self.counts()).not_counted(silent), tests)
    }

    /// Of tests that say nothing: they themselves are what is counted.
    fn outcome_of_tests(&self, done: &str, tests: usize) -> Outcome {
        let counts = Counts { sent: self.passed + self.failed, ok: self.passed, lost: self.failed, ..Counts::default() };
        self.judged(Outcome::new(done, counts).not_counted(["error", "mixed", "doubled", "leaked"]), tests)
    }

    fn judged(&self, outcome: Outcome, tests: usize) -> Outcome {
        let why: String = self
            .text
            .lines()
            .filter(|line| line.contains("panicked") || line.contains("assertion") || line.contains("error"))
            .take(3)
            .collect::<Vec<_>>()
            .join("; ");
        outcome.goal(format!("{tests} tests pass: {} passed, {} failed {why}", self.passed, self.failed), self.passed >= tests && self.failed == 0)
    }
}

/// T2: replies under swaps of the registry, and ids that all begin with zero.
pub async fn swaps(size: Size) -> Outcome {
    let calls = size.of(20_000, 1_000).to_string();
    let ran = run(
        &["--test", "spec"],
        &["reload::every_reply_is_explained_by_exactly_one_version", "--exact"],
        &[("CALLS", calls), ("SEED", size.seed.to_string())],
    )
    .await;
    let (swaps, apart) = (&ran.counted["swaps"], &ran.counted["millisecondsApart"]);
    let done = format!("200 clients with the same ids and tokens, 8 targets, {swaps} swaps of the registry, one every {apart} ms");
    let progress = ran.counted["progress"].as_u64().unwrap_or(0);
    ran.outcome(&done, 1)
        .nothing_wrong()
        .goal("calls were made", ran.counts().sent > 0)
        .goal("progress was told", progress > 0)
        .goal(format!("a swap for every 100 calls at least: {swaps}"), swaps.as_u64().is_some_and(|swaps| swaps as usize >= ran.counts().sent / 100))
        .figure("progress", progress)
        .figure("swaps", swaps.clone())
        .figure("ms from swap to swap", apart.clone())
}

/// T4.
pub async fn listed_is_callable(size: Size) -> Outcome {
    let mut environment = vec![("PLANS", size.of(10, 10).to_string())];
    if !size.is_short() {
        environment.push(("MATRIX", "whole".to_owned()));
    }
    let ran =
        run(&["--test", "spec"], &["authorization::whatever_is_listed_can_be_used_and_nothing_else_wherever_one_looks", "--exact"], &environment)
            .await;
    let (plans, decisions) = (&ran.counted["plans"], &ran.counted["sent"]);
    let done = format!("50 principals, 200 tools, {plans} plans, listed = callable in every way there is; {decisions} decisions");
    ran.outcome(&done, 1).nothing_wrong().goal("decisions were made", ran.counts().sent > 0)
}

/// T5.
pub async fn canaries(_: Size) -> Outcome {
    let ran = run(&["--test", "spec"], &["secrets::no_canary_leaves_the_process_but_to_those_entitled_to_it", "--exact"], &[]).await;
    let done = format!("{} canaries, {} places searched in 9 forms each, at level trace", ran.counted["canaries"], ran.counted["sent"]);
    ran.outcome(&done, 1).nothing_wrong().goal("places were searched", ran.counts().sent > 0)
}

/// What T13 is made of, each by its whole name: among many tests that pass, one that is gone would not be missed.
const IN_TROUBLE: [&str; 9] = [
    "store::tests::file::a_file_torn_at_a_thousand_offsets_is_never_half_applied",
    "store::tests::file::a_hundred_swaps_of_a_kubernetes_volume_are_all_applied",
    "store::tests::file::of_a_thousand_versions_in_a_row_the_last_one_wins_and_few_are_compiled",
    "store::tests::http::a_document_that_is_cut_off_at_any_byte_changes_nothing",
    "store::tests::http::a_restart_during_an_outage_is_served_from_the_last_known_good",
    "store::tests::http::a_server_that_says_nothing_is_given_ten_seconds_and_holds_up_nobody",
    "store::tests::http::redirects_are_not_followed",
    "store::tests::http::whatever_a_server_does_the_last_good_stays_and_the_next_good_is_taken",
    "store::tests::swap::each_reader_sees_one_whole_generation_during_a_thousand_swaps",
];

/// T13: the store against files torn at a thousand offsets, volumes swapped a hundred times, and servers that lie.
pub async fn registry_in_trouble(_: Size) -> Outcome {
    let ran = run(&["--lib"], &[&IN_TROUBLE[..], &["--exact"]].concat(), &[]).await;
    let done = "the registry's store: torn at 1000 offsets, cut off at every byte, swapped 100 times, servers that fail; counts are tests";
    ran.outcome_of_tests(done, IN_TROUBLE.len()).nothing_wrong()
}

/// T14, L13: the clock on the wall jumps by an hour and back, and tokens are judged by it.
pub async fn clocks(_: Size) -> Outcome {
    let ran = run(&["--test", "spec"], &["clocks::"], &[]).await;
    let outcome = ran.outcome_of_tests("every test of the clock: it jumps by an hour either way under calls and sessions; counts are tests", 3);
    let skipped = ran.text.contains("SKIPPED");
    outcome.nothing_wrong().goal("the clock could be moved: `make test` installs what that takes", !skipped)
}
