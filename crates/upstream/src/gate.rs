//! How many calls a target has at once, and how many may wait. What comes on top is told so within a second, and while it goes on
//! like that, at once: who waits in vain is worse off than who is turned away.

use crate::tuning::Tuning;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) struct Gate {
    places: Semaphore,
    size: usize,
    waiting: AtomicUsize,
    since: Instant,
    /// Until when nobody waits, in milliseconds of this gate's life.
    no_waiting_until: AtomicU64,
}

impl Gate {
    pub(crate) fn new(tuning: &Tuning) -> Gate {
        Gate {
            places: Semaphore::new(tuning.in_flight),
            size: tuning.in_flight,
            waiting: AtomicUsize::new(0),
            since: Instant::now(),
            no_waiting_until: AtomicU64::new(0),
        }
    }

    /// A place, held until dropped; `None` if there is none in time.
    pub(crate) async fn enter(&self, tuning: &Tuning) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.places.try_acquire() {
            return Some(place);
        }
        if self.now() < self.no_waiting_until.load(Ordering::Relaxed) {
            self.turned_away(tuning.queue_wait);
            return None;
        }
        let _waiting = Waiting::new(&self.waiting, tuning.queue)?;
        match tokio::time::timeout(tuning.queue_wait, self.places.acquire()).await {
            Ok(place) => place.ok(),
            Err(_) => {
                self.turned_away(tuning.queue_wait);
                None
            }
        }
    }

    /// Somebody waited in vain, or would have: for as long again nobody waits.
    fn turned_away(&self, wait: Duration) {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.no_waiting_until.store(self.now().saturating_add(wait), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
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
