//! Ends what does not end by itself. Whatever returns is judged by what it took; an input that loops or waits for ever never gets
//! that far, so a second thread looks whether the first gets on.

use crate::sys;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How often it is looked.
const TICK: Duration = Duration::from_millis(50);

/// What the worker does, for the thread that looks.
#[derive(Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// The next run of an input begins.
    pub fn step(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Looks at the worker until it stands still, and then calls `end` with the reason.
pub fn over(progress: &Progress, slowest: Duration, end: impl FnOnce(&str) + Send + 'static) {
    let progress = progress.clone();
    let watching = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
        let mut patience = Patience::new(slowest);
        loop {
            std::thread::sleep(TICK);
            if let Some(why) = patience.look(progress.0.load(Relaxed), sys::worked()) {
                return end(&why);
            }
        }
    });
    watching.expect("a thread can be started");
}

/// How long the worker may stay with one input.
///
/// Twice what an input may cost, of the processor's time: on a busy machine that takes long and is nobody's fault. One that works at nothing
/// waits for something, and is given twenty times as long, counted in looks: while the whole process is held up nobody looks.
struct Patience {
    work: Duration,
    looks: u32,
    /// The run that was last seen, how much had been worked when it was first seen, and how often it was seen since.
    step: u64,
    since: Duration,
    seen: u32,
}

impl Patience {
    fn new(slowest: Duration) -> Patience {
        let looks = u32::try_from((slowest * 20).as_millis() / TICK.as_millis()).unwrap_or(u32::MAX);
        Patience { work: slowest * 2, looks, step: u64::MAX, since: Duration::ZERO, seen: 0 }
    }

    /// Why it is over, if it is.
    fn look(&mut self, step: u64, worked: Duration) -> Option<String> {
        if step != self.step {
            (self.step, self.since, self.seen) = (step, worked, 0);
            return None;
        }
        self.seen += 1;
        let work = worked.saturating_sub(self.since);
        if work > self.work {
            return Some(format!("an input that does not end: ended after {work:.1?} of work"));
        }
        (self.seen > self.looks).then(|| format!("an input that waits: ended after {:.1?}", TICK * self.seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_input_that_works_too_long_is_ended_however_often_it_was_looked_at() {
        let mut patience = Patience::new(SECOND);
        assert_eq!(patience.look(1, SECOND * 7), None);
        assert_eq!(patience.look(1, SECOND * 9), None);
        assert!(patience.look(1, SECOND * 10).is_some_and(|why| why.contains("3.0s of work")));
    }

    #[test]
    fn an_input_that_waits_is_ended_later() {
        let mut patience = Patience::new(SECOND);
        let looks = (0..).find(|_| patience.look(1, SECOND).is_some());
        assert_eq!(looks, Some(401));
    }

    #[test]
    fn whoever_gets_on_is_left_alone() {
        let mut patience = Patience::new(SECOND);
        assert!((0..10_000).all(|step| patience.look(u64::from(step), SECOND * step).is_none()));
    }
}
