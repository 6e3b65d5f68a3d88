//! Faults on purpose, for a build that no one ships (`--features inject-panics`): what a mistake of ours costs is measured, not hoped.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One call in a thousand fails this way.
const EVERY: u64 = 1000;

/// Counts a call.
pub fn count() -> Fate {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let number = CALLS.fetch_add(1, Relaxed) + 1;
    match (number.is_multiple_of(EVERY), (number / EVERY).is_multiple_of(2)) {
        (false, _) => Fate::Well,
        (true, false) => Fate::Before,
        (true, true) => Fate::After,
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing of note.
    Well,
    /// A panic before its target hears of it.
    Before,
    /// A panic while the answer is in our hands.
    After,
}

impl Fate {
    /// Panics if this is the moment.
    pub fn comes(self, moment: Fate) {
        assert!(self != moment, "a panic on purpose, {moment:?} the target was asked");
    }
}
