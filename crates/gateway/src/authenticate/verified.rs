//! Tokens that were verified before: the second request with one costs a hash and a lookup.

use crate::authenticate::Principal;
use crate::authenticate::jwks::KeysUsed;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::SystemTime;

const TOKENS: usize = 10_000;
const SHARDS: usize = 16;

struct Entry {
    principal: Principal,
    keys: KeysUsed,
}

impl Entry {
    /// Not expired, and the issuer still has the keys it had when the token was verified.
    fn is_good(&self, now: SystemTime) -> bool {
        self.principal.expires().is_some_and(|expires| now < expires) && self.keys.are_current()
    }
}

/// Verified tokens by their hash; the tokens themselves are not kept.
#[derive(Default)]
pub(super) struct Verified([Mutex<HashMap<[u8; 32], Entry, RandomState>>; SHARDS]);

impl Verified {
    #[allow(clippy::indexing_slicing, reason = "the remainder is below what it is divided by")]
    fn shard(&self, hash: &[u8; 32]) -> &Mutex<HashMap<[u8; 32], Entry, RandomState>> {
        let [first, ..] = hash;
        &self.0[usize::from(*first) % SHARDS]
    }

    pub(super) fn find(&self, hash: &[u8; 32]) -> Option<Principal> {
        let shard = self.shard(hash).lock().ok()?;
        shard.get(hash).filter(|entry| entry.is_good(SystemTime::now())).map(|entry| entry.principal.clone())
    }

    pub(super) fn remember(&self, hash: [u8; 32], principal: &Principal, keys: KeysUsed) {
        let Ok(mut shard) = self.shard(&hash).lock() else { return };
        if shard.len() >= TOKENS / SHARDS {
            let now = SystemTime::now();
            shard.retain(|_, entry| entry.is_good(now));
        }
        // Still full: some token is verified again when it comes next.
        if shard.len() >= TOKENS / SHARDS
            && let Some(some) = shard.keys().next().copied()
        {
            shard.remove(&some);
        }
        shard.insert(hash, Entry { principal: principal.clone(), keys });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }
}
