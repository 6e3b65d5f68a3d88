//! How long a request may take: a wait that progress starts anew, and an end that nothing moves.

use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    wait: Duration,
    at: Instant,
    end: Instant,
}

impl Deadline {
    pub(crate) fn new(wait: Duration, longest: Duration) -> Deadline {
        let now = Instant::now();
        let end = now + longest.max(wait);
        Deadline { wait, at: now + wait, end }
    }

    /// For control requests: no progress, no second end.
    pub(crate) fn after(wait: Duration) -> Deadline {
        Deadline::new(wait, wait)
    }

    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// The end that nothing moves; applies while a person is asked.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Something happened at this time: wait anew from there.
    pub(crate) fn renew_from(&mut self, when: Instant) {
        self.at = (when + self.wait).min(self.end);
    }
}
