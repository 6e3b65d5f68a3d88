//! The only unsafe code: what a child does between fork and exec, and signals to process groups.

use std::io;
use tokio::process::Command;

/// Makes the memory and the environment of this process unreadable to its children. Call it once at start.
pub fn harden_process() {
    // SAFETY: takes integers, touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// Keeps memory in small pages: in huge ones a gateway that rests holds twice what it uses. Call it once at start.
pub fn keep_pages_small() {
    // SAFETY: takes integers, touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
}

/// The child dies with the thread that spawned it and leaves no core.
pub(crate) fn bind_to_parent(command: &mut Command) {
    // SAFETY: reads a number.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the closure runs in the forked child and calls only async-signal-safe functions; it allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the line above.
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            // How we hold our memory is no business of a child's, which inherits it.
            libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            Ok(())
        });
    }
}

/// A child's process group; its leader's id is the group's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group(libc::pid_t);

impl Group {
    pub(crate) fn led_by(child: u32) -> Option<Group> {
        libc::pid_t::try_from(child).ok().filter(|pid| *pid > 1).map(Group)
    }

    pub(crate) fn terminate(self) {
        self.signal(libc::SIGTERM);
    }

    pub(crate) fn kill(self) {
        self.signal(libc::SIGKILL);
    }

    fn signal(self, signal: libc::c_int) {
        // SAFETY: takes integers; the group is one we made, never 0 or 1. That it is gone already is no error.
        unsafe {
            libc::killpg(self.0, signal);
        }
    }
}

/// Kills one process.
pub(crate) fn kill(process: u32) {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|pid| *pid > 1) else { return };
    // SAFETY: takes integers. That the process is gone already is no error.
    unsafe {
        libc::kill(process, libc::SIGKILL);
    }
}
