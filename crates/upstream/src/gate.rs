//! How many calls a target has at once, and how many may wait. What comes on top is told so within a second.

use crate::tuning::Tuning;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) struct Gate {
    places: Semaphore,
    size: usize,
    waiting: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(tuning: &Tuning) -> Gate {
        Gate { places: Semaphore::new(tuning.in_flight), size: tuning.in_flight, waiting: AtomicUsize::new(0) }
    }

    /// A place, held until dropped; `None` if there is none in time.
    pub(crate) async fn enter(&self, tuning: &Tuning) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.places.try_acquire() {
            return Some(place);
        }
        let _waiting = Waiting::new(&self.waiting, tuning.queue)?;
        tokio::time::timeout(tuning.queue_wait, self.places.acquire()).await.ok()?.ok()
    }

    pub(crate) fn in_use(&self) -> usize {
        self.size.saturating_sub(self.places.available_permits())
    }
}

struct Waiting<'g>(&'g AtomicUsize);

impl<'g> Waiting<'g> {
    fn new(count: &'g AtomicUsize, limit: usize) -> Option<Waiting<'g>> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Ordering::Relaxed) < limit).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
