//! What was live before: enough to tell what changed when, and to go back to it.

use super::documents::Fetched;
use super::{Loaded, Origin};
use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

/// So many versions are remembered.
const VERSIONS: usize = 20;
/// And no more text than this: with large registries one can go back less far.
const BYTES: usize = 64 << 20;

/// One version of the registry that was live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number, from 1.
    pub version: u64,
    /// SHA-256 of its documents, in hex.
    pub digest: String,
    /// When it went live.
    pub loaded_at: SystemTime,
    /// Where it came from.
    pub origin: Origin,
    /// How many virtual tools it had, those in quarantine not counted.
    pub tools: usize,
    /// How it differs from the version before it.
    pub difference: Difference,
}

/// Virtual tools that came, went or are defined otherwise, by exposed name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that are gone, into quarantine perhaps.
    pub removed: Vec<String>,
    /// Those with another definition.
    pub changed: Vec<String>,
}

impl Difference {
    /// From the definitions before to those after.
    pub(super) fn between(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Difference {
        let names =
            |of: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>| of.keys().filter(|name| !other.contains_key(*name)).cloned().collect();
        let changed = after.iter().filter(|(name, now)| before.get(*name).is_some_and(|then| then != *now)).map(|(name, _)| name.clone());
        Difference { added: names(after, before), removed: names(before, after), changed: changed.collect() }
    }
}

/// The last versions, newest last.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<(Version, Vec<Fetched>)>);

impl History {
    pub fn remember(&mut self, loaded: &Loaded, difference: Difference) {
        let version = Version {
            version: loaded.version,
            digest: loaded.digest.clone(),
            loaded_at: loaded.loaded_at,
            origin: loaded.origin,
            tools: loaded.plan.tools().len(),
            difference,
        };
        self.0.push_back((version, loaded.documents.clone()));
        let size =
            |history: &VecDeque<(Version, Vec<Fetched>)>| history.iter().flat_map(|(_, texts)| texts).map(|each| each.text.len()).sum::<usize>();
        while self.0.len() > VERSIONS || (self.0.len() > 1 && size(&self.0) > BYTES) {
            self.0.pop_front();
        }
    }

    pub fn versions(&self) -> Vec<Version> {
        self.0.iter().map(|(version, _)| version.clone()).collect()
    }

    /// What was published then.
    pub fn documents(&self, version: u64) -> Option<Vec<Fetched>> {
        self.0.iter().find(|(each, _)| each.version == version).map(|(_, documents)| documents.clone())
    }
}
