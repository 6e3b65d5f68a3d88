//! API keys. The config has their hashes only.

use crate::authenticate::Principal;
use crate::config::ApiKey;
use aws_lc_rs::constant_time::verify_slices_are_equal;

/// The keys that count.
pub(super) struct ApiKeys(Vec<([u8; 32], Principal)>);

impl ApiKeys {
    pub(super) fn new(keys: &[ApiKey]) -> ApiKeys {
        ApiKeys(keys.iter().map(|key| (key.hash, Principal::of_key(key))).collect())
    }

    /// The owner of the key with this hash. Every key is compared, each in constant time: how long it takes says nothing.
    pub(super) fn find(&self, hash: &[u8; 32]) -> Option<Principal> {
        let mut found = None;
        for (known, principal) in &self.0 {
            if verify_slices_are_equal(known, hash).is_ok() {
                found = Some(principal);
            }
        }
        found.cloned()
    }
}
