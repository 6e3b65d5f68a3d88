//! The last known good: what the sources published when it last went live, so that a restart survives an outage of theirs.
//!
//! Texts as published, with `${NAME}` and never a value. A file that was cut short or changed is no last known good.

use super::documents::{Fetched, hex};
use crate::config::{Config, RegistryLocation, RegistrySource};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use transom_registry::file::DOCUMENT;

/// Where the last known good of some sources is.
#[derive(Debug)]
pub(super) struct Cache {
    path: PathBuf,
    /// No file of ours is larger: every byte escaped, and room for names.
    largest: u64,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    /// Over names and texts.
    sha256: String,
    sources: Vec<KeptSource>,
}

#[derive(Serialize, Deserialize)]
struct KeptSource {
    name: String,
    text: String,
}

const FORMAT: u32 = 1;
/// Nobody writes for so long.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Cache {
    /// The place for the sources of this config; none without sources or without a directory.
    pub fn of(config: &Config) -> Option<Cache> {
        let registry = config.registry.as_ref()?;
        let mut key = Sha256::new();
        for source in &registry.sources {
            key.update(identity(source));
            key.update([0]);
        }
        let key: String = hex(&key.finalize()).chars().take(32).collect();
        let largest = (6 * DOCUMENT as u64 + (64 << 10)).saturating_mul(registry.sources.len() as u64);
        Some(Cache { path: config.state_dir.as_ref()?.join("registry").join(format!("{key}.json")), largest })
    }

    /// What was kept, if it is whole.
    pub fn read(&self) -> Option<Vec<Fetched>> {
        let mut bytes = Vec::new();
        File::open(&self.path).ok()?.take(self.largest + 1).read_to_end(&mut bytes).ok()?;
        let kept: Option<Kept> =
            serde_json::from_slice(&bytes).ok().filter(|kept: &Kept| kept.format == FORMAT && kept.sha256 == digest(&kept.sources));
        if kept.is_none() {
            tracing::warn!(file = %self.path.display(), "the last known good registry is damaged and does not count");
        }
        Some(kept?.sources.into_iter().map(|source| Fetched { name: source.name, text: source.text.into() }).collect())
    }

    /// Keeps these. Either all of it is there afterwards, or what was there before.
    pub fn write(&self, documents: &[Fetched]) -> io::Result<()> {
        let sources: Vec<KeptSource> = documents.iter().map(|each| KeptSource { name: each.name.clone(), text: each.text.to_string() }).collect();
        let kept = serde_json::to_vec(&Kept { format: FORMAT, sha256: digest(&sources), sources })?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        private_directory(directory)?;
        self.sweep(directory);
        // Several gateways may share the directory, and in containers also the number of their process.
        let draft = self.path.with_extension(format!("{:016x}.tmp", rand::random::<u64>()));
        let written = write_whole(&draft, &kept).and_then(|()| fs::rename(&draft, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written?;
        // The new name is on disk only when the directory is.
        File::open(directory)?.sync_all()
    }

    /// Removes drafts of processes that were killed; one of a process at work is younger.
    fn sweep(&self, directory: &Path) {
        let key = self.path.file_stem();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_draft = path.extension().is_some_and(|end| end == "tmp") && path.with_extension("").file_stem() == key;
            let age = entry.metadata().ok().and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
            if is_draft && age.is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// What tells one source from another. A password is no part of it, the query is: it may name the tenant.
fn identity(source: &RegistrySource) -> String {
    match &source.location {
        RegistryLocation::File(path) => format!("{}\n{}", source.name, path.display()),
        RegistryLocation::Http { url, .. } => format!("{}\n{}", source.name, url.query().unwrap_or("")),
    }
}

fn digest(sources: &[KeptSource]) -> String {
    let mut all = Sha256::new();
    for source in sources {
        all.update(Sha256::digest(&source.name));
        all.update(Sha256::digest(&source.text));
    }
    hex(&all.finalize())
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn private_directory(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
