//! Which inputs made the code do something it had not done before.

use crate::sys;
use std::sync::atomic::Ordering::Relaxed;

/// What was seen so far.
pub struct Coverage {
    /// One byte for each edge: one bit for each class of how often it was taken.
    seen: Vec<u8>,
    edges: usize,
}

impl Coverage {
    /// Nothing was seen.
    pub fn new() -> Coverage {
        Coverage { seen: vec![0; Coverage::all()], edges: 0 }
    }

    /// How many edges the code has; none if it does not count.
    pub fn all() -> usize {
        sys::edges().len() * 8
    }

    /// Forgets what the code did up to here.
    pub fn begin(&self) {
        for word in sys::edges() {
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
    }

    /// Looks at what the code did since it was last looked at; whether something of it is new.
    pub fn is_new(&mut self) -> bool {
        let mut new = false;
        for (word, seen) in sys::edges().iter().zip(self.seen.chunks_exact_mut(8)) {
            let counts = word.load(Relaxed);
            if counts == 0 {
                continue;
            }
            word.store(0, Relaxed);
            for (count, seen) in counts.to_ne_bytes().into_iter().zip(seen) {
                let class = class(count);
                if class & !*seen != 0 {
                    self.edges += usize::from(*seen == 0);
                    *seen |= class;
                    new = true;
                }
            }
        }
        new
    }

    /// How many edges were taken.
    pub fn edges(&self) -> usize {
        self.edges
    }
}

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage::new()
    }
}

/// Once, twice, a few times, often: a loop that runs once more is nothing new, one that runs twice as often may be.
fn class(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}
