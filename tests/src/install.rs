//! Where `tests/e2e/setup.sh` put other people's programs.

use std::path::{Path, PathBuf};

/// A folder of `tests/`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn tier(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.e2e").join(name)
}

/// Whether these tiers are installed. If not, the test is skipped.
pub fn have(tiers: &[&str]) -> bool {
    let missing: Vec<_> = tiers.iter().filter(|name| !tier(name).join("stamp").exists()).collect();
    if !missing.is_empty() {
        skip(&format!("not installed: {missing:?}; run tests/e2e/setup.sh"));
    }
    missing.is_empty()
}

/// Says that a test cannot be done here, and why. In CI that is a failure: what is skipped there is done nowhere.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
    eprintln!("SKIPPED: {why}");
}

pub fn node() -> PathBuf {
    tier("node").join("node")
}

/// A file of an npm package.
pub fn package(file: &str) -> PathBuf {
    tier("node").join("node_modules").join(file)
}

/// A program of the Python environment.
pub fn python(program: &str) -> PathBuf {
    tier("venv/bin").join(program)
}

pub fn promtool() -> PathBuf {
    tier("promtool").join("promtool")
}

/// A library to be loaded into a process whose clock is to jump.
pub fn faketime() -> PathBuf {
    tier("faketime").join("libfaketime.so.1")
}

/// The files of the JSON Parsing Test Suite. What they are called begins with what a parser must do: `y` accept, `n` refuse, `i` as it likes.
pub fn parsing() -> PathBuf {
    tier("parsing").join("test_parsing")
}
