//! The process's own environment: the one place that reads variables and files for a config.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use transom_registry::template::Environment;

/// No secret and no certificate bundle is larger.
const LARGEST_FILE: u64 = 1 << 20;

/// Variables of this process and files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if !is_regular {
            return Err("it is not a file".into());
        }
        let mut text = String::new();
        file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if text.len() as u64 > LARGEST_FILE {
            return Err(format!("it is larger than {} MiB", LARGEST_FILE >> 20));
        }
        Ok(text)
    }
}

/// An environment in which relative paths start at the config file.
pub(crate) struct Beside<E, P> {
    pub(crate) environment: E,
    pub(crate) base_dir: P,
}

impl Beside<&dyn Environment, &Path> {
    /// A path as meant: `~/` is the home directory, everything else relative starts at the config file.
    pub(crate) fn path(&self, written: &str) -> PathBuf {
        let home = || self.environment.variable("HOME").filter(|home| !home.is_empty());
        match (written.strip_prefix("~/"), written) {
            (Some(rest), _) => home().map_or_else(|| self.base_dir.join(written), |home| Path::new(&home).join(rest)),
            (None, "~") => home().map_or_else(|| self.base_dir.join(written), PathBuf::from),
            (None, _) => self.base_dir.join(written),
        }
    }
}

impl Environment for Beside<&dyn Environment, &Path> {
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.variable(name)
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        self.environment.file(&self.base_dir.join(path))
    }
}

impl<E: Environment> Environment for Beside<E, PathBuf> {
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.variable(name)
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        self.environment.file(&self.base_dir.join(path))
    }
}
