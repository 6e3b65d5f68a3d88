//! How long a principal stays one. A stream outlives the request that opened it, but not the credentials.

use crate::authenticate::{InForce, Principal};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// How often the clock on the wall is read at least: it may be set while a stream is open.
const LOOK: Duration = Duration::from_secs(60);

/// Tells when a principal's credentials have ended.
pub struct Validity {
    in_force: Arc<InForce>,
    changed: watch::Receiver<u64>,
    principal: Principal,
}

impl Validity {
    pub(super) fn new(in_force: Arc<InForce>, changed: watch::Receiver<u64>, principal: Principal) -> Validity {
        Validity { in_force, changed, principal }
    }

    /// Waits until they have expired, or a change of the config made them worthless. May be dropped and asked again.
    pub async fn over(&mut self) {
        loop {
            if !self.in_force.current.load().admits(&self.principal) {
                return;
            }
            let left = match self.principal.expires().map(|expires| expires.duration_since(SystemTime::now())) {
                None => LOOK,
                Some(Ok(left)) => left.min(LOOK),
                Some(Err(_)) => return,
            };
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // The sender is in `in_force`, so that this cannot fail while we wait.
                _ = self.changed.changed() => {}
            }
        }
    }
}
