//! Stopping the gateway of a session: that one, and no other process.

use super::folder::{Folder, SessionId};
use super::found::{Found, find};
use crate::failure::{Exit, Failure};
use std::time::Duration;

/// How long somebody else may be busy with this session.
const BUSY: Duration = Duration::from_secs(60);
/// What a gateway gets after it was asked a second time, which makes it end at once.
const HURRY: Duration = Duration::from_secs(3);
/// How long the kernel may take to end a process.
const KILLED: Duration = Duration::from_secs(10);

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It ran as this process, and does so no more.
    Ended(u32),
    /// It had to be killed.
    Killed(u32),
    /// Only files were left of it; they are gone.
    Stale,
    /// There was nothing.
    Nothing,
}

/// Stops the gateway of this session. One that has calls under way gets `patience` to finish them.
pub async fn stop(folder: &Folder, id: &SessionId, patience: Duration) -> Result<Stopped, Failure> {
    let place = folder.place(id);
    let _lock = place.lock(BUSY).await?;
    let stopped = match find(&place)? {
        Found::Nothing => Stopped::Nothing,
        Found::Stale(_) => Stopped::Stale,
        Found::Running { held, pid, .. } => {
            let mut outcome = Stopped::Ended(pid);
            for (signal, limit) in [(libc::SIGTERM, patience), (libc::SIGTERM, HURRY), (libc::SIGKILL, KILLED)] {
                if let Err(error) = held.signal(signal)
                    && !held.ends_within(Duration::ZERO)
                {
                    return Err(Failure::new(Exit::Negative, format!("process {pid} cannot be stopped: {error}")));
                }
                if signal == libc::SIGKILL {
                    outcome = Stopped::Killed(pid);
                }
                if held.ends_within(limit) {
                    break;
                }
            }
            if !held.ends_within(Duration::ZERO) {
                return Err(Failure::new(Exit::Negative, format!("process {pid} does not end, not even killed")));
            }
            outcome
        }
    };
    place.clear_all();
    Ok(stopped)
}
