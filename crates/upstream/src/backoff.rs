//! When to try again: exponential with full jitter, and a floor once a target has failed five times in a row.

use crate::tuning::Tuning;
use std::time::Duration;

/// Failures in a row that open the circuit.
const CIRCUIT: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The connection did its work; what comes next is a first failure.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait after one more failure.
    pub(crate) fn next(&mut self, tuning: &Tuning) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let doublings = (self.failures - 1).min(16);
        let ceiling = tuning.backoff_first.saturating_mul(1 << doublings).min(tuning.backoff_longest);
        let delay = ceiling.mul_f64(rand::random::<f64>());
        if self.failures < CIRCUIT {
            return delay;
        }
        let opened = (self.failures - CIRCUIT).min(16);
        let floor = tuning.circuit_delay.saturating_mul(1 << opened).min(tuning.backoff_longest);
        delay.clamp(floor.mul_f64(0.5).max(tuning.circuit_delay), tuning.backoff_longest.max(tuning.circuit_delay))
    }

    /// Whether the next attempt is a lone probe after many failures.
    pub(crate) fn circuit_open(&self) -> bool {
        self.failures >= CIRCUIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-001-12, K1, L5, L6
    #[test]
    fn delays_grow_with_jitter_and_the_fifth_failure_opens_the_circuit() {
        let tuning = Tuning::default();
        for _ in 0..100 {
            let mut backoff = Backoff::default();
            for failure in 1..=20u32 {
                let delay = backoff.next(&tuning);
                let ceiling = Duration::from_millis(100 << (failure - 1).min(16)).min(Duration::from_secs(30)).max(Duration::from_secs(1));
                assert!(delay <= ceiling, "failure {failure}: {delay:?}");
                assert_eq!(backoff.circuit_open(), failure >= 5);
                assert!(failure < 5 || delay >= Duration::from_secs(1), "failure {failure}: {delay:?}");
            }
            assert!(backoff.next(&tuning) >= Duration::from_secs(15));
            backoff.reset();
            assert!(backoff.next(&tuning) <= Duration::from_millis(100));
        }
    }
}
