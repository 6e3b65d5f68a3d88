//! An input that ends the process, or would never end, is a finding like any other: it is named, counted and kept.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Whether a short campaign of this target succeeded, what it printed, and its line of the report.
fn campaign(target: &str, more: &[(&str, &str)]) -> (bool, String, Value) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(target);
    let _before = std::fs::remove_dir_all(&folder);
    let output = Command::new(env!("CARGO_BIN_EXE_hostile"))
        .envs([("FUZZ_ONLY", target), ("FUZZ_EXECUTIONS", "100"), ("FUZZ_SECONDS", ""), ("FUZZ_COUNTED", ""), ("FUZZ_SEED", "")])
        .envs(more.iter().copied())
        .env("CARGO_TARGET_DIR", &folder)
        .output()
        .expect("the program runs");
    let report = std::fs::read(folder.join("evidence/fuzz.json")).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let row = report.map(|mut report| report["targets"][0].take()).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said, row)
}

/// Nothing but the bad input was kept, and the report tells of it for this reason.
fn is_found(target: &str, reason: &str) {
    let (succeeded, said, row) = campaign(target, &[]);
    assert!(!succeeded && said.contains("FOUND"), "{said}");
    let finding = row["finding"].as_str().unwrap_or_default();
    assert!(finding.contains(reason), "{said}");
    assert!(row["findings"] == 1 && row["executions"].as_u64().is_some_and(|executions| executions < 100), "{row}");
    let kept = finding.rsplit_once("kept as ").map(|(_, path)| path).unwrap_or_default();
    assert!(std::fs::read(kept).is_ok_and(|input| input.len() > 3), "{finding}");
}

#[test]
fn an_input_that_never_ends_is_ended_and_kept() {
    is_found("endless", "does not end");
}

#[test]
fn an_input_that_takes_all_memory_is_ended_and_kept() {
    is_found("greedy", "memory allocation of");
}

#[test]
fn an_input_that_overflows_the_stack_is_kept() {
    is_found("deep", "overflowed its stack");
}

#[test]
fn an_input_that_waits_for_ever_is_ended_and_kept() {
    is_found("waiting", "waits");
}

#[test]
fn a_run_that_must_count_fails_if_nothing_counts() {
    let (succeeded, said, row) = campaign("harmless", &[("FUZZ_COUNTED", "1")]);
    assert!(!succeeded && said.contains("instrument"), "{said}");
    assert!(row.is_null(), "{row}");
    let (succeeded, said, row) = campaign("harmless", &[]);
    assert!(succeeded && row["executions"] == 100 && row["findings"] == 0, "{said}");
}
