//! Where `tests/e2e/setup.sh` put other people's programs.

use std::path::{Path, PathBuf};

/// A folder of `tests/`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn tier(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.e2e").join(name)
}

/// Whether these tiers are installed. If not, the test says so and is skipped; in CI that is a failure.
pub fn have(tiers: &[&str]) -> bool {
    let missing: Vec<_> = tiers.iter().filter(|name| !tier(name).join("stamp").exists()).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "not installed: {missing:?}; run tests/e2e/setup.sh");
    eprintln!("SKIPPED: not installed: {missing:?}; run tests/e2e/setup.sh");
    false
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
