//! What a run has to show: a line for each target, and a file.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One target's figures.
pub struct Row {
    /// The target.
    pub name: String,
    /// Inputs tried.
    pub executions: u64,
    /// Time taken.
    pub seconds: f64,
    /// The promise that was broken, and by which input.
    pub finding: Option<String>,
    /// Inputs in the corpus.
    pub corpus: usize,
    /// Inputs of this run that made the code do something new.
    pub found: u64,
    /// Edges of the code that were taken; 0 if nobody counted.
    pub edges: u64,
    /// The slowest input, by the clock.
    pub slowest_ms: f64,
    /// The most memory that one input took.
    pub memory: u64,
}

impl Row {
    /// Nothing is known yet.
    pub fn of(name: &str) -> Row {
        Row { name: name.to_owned(), executions: 0, seconds: 0.0, finding: None, corpus: 0, found: 0, edges: 0, slowest_ms: 0.0, memory: 0 }
    }

    /// From what a worker said.
    pub fn read(name: &str, said: &Value) -> Row {
        let whole = |key: &str| said[key].as_u64().unwrap_or(0);
        let number = |key: &str| said[key].as_f64().unwrap_or(0.0);
        Row {
            executions: whole("executions"),
            seconds: number("seconds"),
            finding: said["finding"].as_str().map(str::to_owned),
            found: whole("found"),
            edges: whole("edges"),
            slowest_ms: number("slowest_ms"),
            memory: whole("memory"),
            ..Row::of(name)
        }
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.executions as f64 / self.seconds } else { 0.0 }
    }
}

/// The head of the table.
pub fn print_head() {
    println!(
        "{:14} {:>12} {:>9} {:>8} {:>7} {:>7} {:>8} {:>11} {:>11}",
        "target", "executions", "exec/s", "findings", "corpus", "found", "edges", "slowest ms", "memory KiB"
    );
}

/// A line of the table.
pub fn print(row: &Row) {
    println!(
        "{:14} {:>12} {:>9.0} {:>8} {:>7} {:>7} {:>8} {:>11.1} {:>11}",
        row.name,
        row.executions,
        row.rate(),
        u8::from(row.finding.is_some()),
        row.corpus,
        row.found,
        row.edges,
        row.slowest_ms,
        row.memory / 1024
    );
    if let Some(finding) = &row.finding {
        println!("FOUND {finding}\n  Once it is mended, move it to tests/fuzz/corpus/{}/ to keep it so.", row.name);
    }
}

/// The last line: what all of them did. `of` is how many edges there are to take.
pub fn print_sum(rows: &[Row], of: usize) {
    let (executions, findings) = (rows.iter().map(|row| row.executions).sum::<u64>(), rows.iter().filter(|row| row.finding.is_some()).count());
    println!("{} targets, {executions} executions, {findings} findings; the code has {of} edges that count", rows.len());
}

/// Where evidence goes.
pub fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    target.join("evidence")
}

/// Writes `fuzz.json`. Targets that did not run this time keep their figures, if they are of the same commit and built in the same way.
pub fn write(rows: &[Row], seed: u64, edges: usize) {
    let path = folder().join("fuzz.json");
    let commit = said_by("git", &["rev-parse", "HEAD"]);
    let before: Option<Value> = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let alike = |before: &Value| before["commit"] == json!(commit) && before["edges"] == json!(edges);
    let before = before.filter(alike).map(|mut before| before["targets"].take());
    let mut targets = before.and_then(|targets| targets.as_array().cloned()).unwrap_or_default();
    for row in rows {
        targets.retain(|other| other["target"] != json!(row.name));
        targets.push(json!({
            "target": row.name, "executions": row.executions, "seconds": row.seconds, "executionsPerSecond": row.rate(), "seed": seed,
            "findings": u8::from(row.finding.is_some()), "finding": row.finding, "corpus": row.corpus, "found": row.found,
            "edges": row.edges, "slowestMs": row.slowest_ms, "memoryBytes": row.memory,
        }));
    }
    let report = json!({
        "what": "fuzz", "commit": commit, "machine": machine(), "rustc": said_by("rustc", &["--version"]),
        "coverage": edges > 0, "edges": edges, "targets": targets,
    });
    let text = format!("{report:#}\n");
    match std::fs::create_dir_all(folder()).and_then(|()| std::fs::write(&path, text)) {
        Ok(()) => println!("written to {}", path.display()),
        Err(error) => println!("cannot write {}: {error}", path.display()),
    }
}

fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn machine() -> Value {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")).map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    json!({ "cores": std::thread::available_parallelism().map_or(0, usize::from), "cpu": model })
}
