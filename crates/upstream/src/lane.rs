//! Which thread this is, among those that serve connections of their own.
//!
//! A connection to a target belongs to the runtime it was made in, which is told when there is something to read. Used from another thread it
//! works as well, but every answer takes the way over both. So each thread keeps those it made.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads that are told apart; with more of them some share.
const LANES: usize = 16;

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// This thread serves connections of its own, and is called this from now on.
pub fn enter(number: usize) {
    LANE.set(number % LANES);
}

/// One of something for every lane.
#[derive(Default)]
pub(crate) struct PerLane<T>([Aside<Mutex<T>>; LANES]);

/// Nobody's neighbour in the cache.
#[derive(Default)]
#[repr(align(128))]
struct Aside<T>(T);

impl<T> PerLane<T> {
    /// This lane's.
    #[allow(clippy::indexing_slicing, reason = "the remainder is below what it is divided by")]
    pub(crate) fn own(&self) -> MutexGuard<'_, T> {
        locked(&self.0[LANE.get() % LANES])
    }

    /// Every lane's, one after the other.
    pub(crate) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(locked)
    }
}

fn locked<T>(aside: &Aside<Mutex<T>>) -> MutexGuard<'_, T> {
    aside.0.lock().unwrap_or_else(PoisonError::into_inner)
}
