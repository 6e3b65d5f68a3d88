//! What the standard library has no safe form for: a session of its own for a process in the background, a hold on a process that
//! outlives the reuse of its number, and memory that is given back. The only unsafe code of this crate.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// How often a process is looked at where the kernel cannot tell of its end.
const GLANCE: Duration = Duration::from_millis(20);

unsafe extern "C" {
    /// Of mimalloc, which is our allocator.
    fn mi_option_set(option: libc::c_int, value: libc::c_long);
}

/// `mi_option_purge_delay`, in mimalloc's second version as in its third.
const PURGE_DELAY: libc::c_int = 15;

/// What is free goes back to the system after some milliseconds in place of a second. After that second nobody may come and ask for memory,
/// which is when it would be given back: what a rush of connections took would stay with us while they rest.
pub fn give_back_early() {
    // SAFETY: takes two integers, the first of them the number of an option that exists; allowed at any time.
    unsafe { mi_option_set(PURGE_DELAY, 10) }
}

/// Who we are.
pub fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The command gets a session of its own: no terminal, and no signal that is meant for ours, reaches it.
pub fn detach(command: &mut Command) {
    // SAFETY: the closure runs in the forked child and calls one async-signal-safe function; it allocates nothing.
    unsafe {
        command.pre_exec(|| if libc::setsid() == -1 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
}

/// A process that is held: whatever becomes of it, its number does not come to mean another one.
#[derive(Debug)]
pub struct Held {
    pid: libc::pid_t,
    /// None on a kernel that knows no such thing; there a number is all there is.
    handle: Option<OwnedFd>,
}

impl Held {
    /// Holds the process with this number; `None` if there is none.
    pub fn of(pid: u32) -> io::Result<Option<Held>> {
        // 0 and 1 are never a gateway, and to signals 0 means everybody around us.
        let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 1) else { return Ok(None) };
        // SAFETY: takes two integers and returns a descriptor or -1.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if let Some(descriptor) = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0) {
            // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
            let handle = unsafe { OwnedFd::from_raw_fd(descriptor) };
            return Ok(Some(Held { pid, handle: Some(handle) }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // The last two: a thread has this number, not a process.
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => Ok(None),
            Some(libc::ENOSYS | libc::EPERM) => Ok(Some(Held { pid, handle: None }).filter(|held| !held.is_gone())),
            _ => Err(error),
        }
    }

    /// Sends a signal to this very process.
    pub fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        let done = match &self.handle {
            // SAFETY: a descriptor that we own, an integer, and null where the call allows it.
            Some(handle) => unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), signal, std::ptr::null::<libc::siginfo_t>(), 0) },
            // SAFETY: takes two integers; the number is never 0 or 1.
            None => unsafe { libc::c_long::from(libc::kill(self.pid, signal)) },
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits for its end, so long at most; whether it has ended.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = match &self.handle {
                Some(handle) => {
                    let mut poll = libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                    let milliseconds = libc::c_int::try_from(left.as_millis()).unwrap_or(libc::c_int::MAX);
                    // SAFETY: a pointer to one live struct, and its number.
                    unsafe { libc::poll(&mut poll, 1, milliseconds) > 0 }
                }
                None => {
                    std::thread::sleep(left.min(GLANCE));
                    self.is_gone()
                }
            };
            if ended || left.is_zero() {
                return ended;
            }
        }
    }

    fn is_gone(&self) -> bool {
        // SAFETY: takes two integers; signal 0 asks and does nothing.
        let asked = unsafe { libc::kill(self.pid, 0) };
        asked != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_process_is_signalled_and_its_end_noticed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let held = Held::of(child.id()).unwrap().unwrap();
        assert!(!held.ends_within(Duration::from_millis(30)));
        held.signal(libc::SIGTERM).unwrap();
        assert!(held.ends_within(Duration::from_secs(10)), "before anybody has waited for it");
        child.wait().unwrap();
        assert!(held.signal(libc::SIGTERM).is_err());
        assert!(Held::of(child.id()).unwrap().is_none());
    }

    #[test]
    fn nobody_holds_everybody() {
        for pid in [0, 1, u32::MAX] {
            assert!(Held::of(pid).unwrap().is_none(), "{pid}");
        }
    }
}
