//! Inputs worth keeping: `tests/fuzz/corpus/TARGET/`. Each of them is tried in every run, so a finding that was mended stays
//! there as a test.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a target's inputs are.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs of a target, the same order everywhere.
pub fn load(target: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder(target)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// Keeps an input in this folder, under a name that is made of its content.
pub fn keep(folder: &Path, prefix: &str, input: &[u8]) -> std::io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let path = folder.join(format!("{prefix}{hash:016x}"));
    fs::write(&path, input)?;
    Ok(path)
}
