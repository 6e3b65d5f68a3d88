//! What a run that is to be believed says of itself: which commit, which machine, which figures.

use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commit that was built, with `+` if files differ from it.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    format!("{}{}", git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into()), if changed { "+" } else { "" })
}

/// The machine, as far as figures depend on it.
pub fn machine() -> Value {
    let line = |path: &str, start: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned()
    };
    json!({
        "cpus": std::thread::available_parallelism().map_or(0, |cpus| cpus.get()),
        "cpu": line("/proc/cpuinfo", "model name"),
        "memory": line("/proc/meminfo", "MemTotal"),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "load": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').take(3).collect::<Vec<_>>().join(" "),
    })
}

/// Where reports go: `target/evidence`, wherever cargo was told to put `target`.
pub fn folder() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let target = own.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), Path::to_owned).join("evidence")
}

/// What the report of a run is called: one of a part, or in a short form, does not take the place of a whole one. `faults.json`, `faults-short-T7-T9.json`.
pub fn name_of(what: &str, short: bool, only: &str) -> String {
    let words = only.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let parts: Vec<&str> = std::iter::once(what).chain(short.then_some("short")).chain(words).collect();
    format!("{}.json", parts.join("-"))
}

/// Writes a report, `faults.json`; where it is now.
pub fn write(name: &str, report: &Value) -> std::io::Result<PathBuf> {
    let path = folder().join(name);
    std::fs::create_dir_all(folder())?;
    std::fs::write(&path, format!("{report:#}\n"))?;
    Ok(path)
}

/// Writes one part of a report that several tests write, each perhaps in a process of its own. Parts of another commit are dropped.
pub fn write_part(name: &str, part: &str, figures: Value) -> std::io::Result<PathBuf> {
    let path = folder().join(name);
    std::fs::create_dir_all(folder())?;
    let lock = File::create(path.with_extension("lock"))?;
    lock.lock()?;
    let known = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let commit = commit();
    let mut report = known.filter(|report| report["commit"] == commit.as_str()).unwrap_or_else(|| json!({"commit": commit}));
    report["machine"] = machine();
    report[part] = figures;
    write(name, &report)
}

/// What a test counted, for a program that runs the test and looks for it among its output.
pub fn say(counted: &Value) {
    eprintln!("{MARK}{counted}");
}

/// What [`say`] said, in the output of a test.
pub fn said(output: &str) -> Option<Value> {
    output.lines().rev().find_map(|line| serde_json::from_str(line.strip_prefix(MARK)?).ok())
}

const MARK: &str = "counted: ";
