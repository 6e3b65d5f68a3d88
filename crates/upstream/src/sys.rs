//! The only unsafe code: what a child does between fork and exec, limits of processes, and signals to process groups.

use crate::spec::ChildLimits;
use std::io;
use std::sync::OnceLock;
use tokio::process::Command;

/// Makes the memory and the environment of this process unreadable to its children. Call it once at start.
pub fn harden_process() {
    // SAFETY: takes integers, touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// From now on this thread gives way to others of ours: where there is not enough time for all it gets half of what they get.
pub fn give_way() {
    // SAFETY: takes integers, touches no memory of ours. Of the calling thread alone, as Linux has it.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 3);
    }
}

/// From now on this thread takes its time in short pieces, and therefore gets it as soon as it has something to do, also where another is at a long
/// one. It gets no more of it. Systems that do not know of this yet leave everything as it is.
pub fn take_short_turns() {
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0),
        sched_policy: libc::SCHED_OTHER.cast_unsigned(),
        sched_flags: 0,
        // SAFETY: takes integers, touches no memory of ours.
        sched_nice: unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) },
        sched_priority: 0,
        sched_runtime: 100_000,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: reads a struct that outlives the call, whose size it is told. Of the calling thread alone.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

/// Keeps memory in small pages: in huge ones a gateway that rests holds twice what it uses. Call it once at start.
pub fn keep_pages_small() {
    // SAFETY: takes integers, touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
}

/// How many files this process might open before we raised that.
static FILES_AT_START: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the number of files this process may open as far as it is allowed to. Children start with the old one: some
/// programs walk through all numbers a file could have. Call it once at start.
pub fn raise_file_limit() {
    let Some(limit) = files() else { return };
    if limit.rlim_cur >= limit.rlim_max {
        return;
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    // SAFETY: reads a struct that outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
        let _first = FILES_AT_START.set(limit);
    }
}

/// How many files this process may open; `None` if nobody knows.
pub fn file_limit() -> Option<usize> {
    files().and_then(|limit| usize::try_from(limit.rlim_cur).ok())
}

fn files() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to a struct that outlives the call.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0).then_some(limit)
}

/// What a child may use: what to limit, and to how much.
fn bounds(limits: &ChildLimits) -> Vec<(libc::__rlimit_resource_t, libc::rlimit)> {
    let exactly = |most: u64| libc::rlimit { rlim_cur: most, rlim_max: most };
    let mut bounds = vec![(libc::RLIMIT_CORE, exactly(0))];
    match (limits.files, FILES_AT_START.get()) {
        (Some(files), _) => bounds.push((libc::RLIMIT_NOFILE, exactly(files))),
        (None, Some(before)) => bounds.push((libc::RLIMIT_NOFILE, *before)),
        (None, None) => {}
    }
    bounds.extend(limits.memory.map(|memory| (libc::RLIMIT_AS, exactly(memory))));
    bounds.extend(limits.processes.map(|processes| (libc::RLIMIT_NPROC, exactly(processes))));
    bounds.extend(limits.cpu.map(|cpu| (libc::RLIMIT_CPU, exactly(cpu.as_secs().max(1)))));
    bounds
}

/// The child dies with the thread that spawned it, leaves no core, gains no rights by what it starts, and keeps to its limits.
pub(crate) fn bind_to_parent(command: &mut Command, limits: &ChildLimits) {
    let bounds = bounds(limits);
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
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Files that we were started with and know nothing of are not for children. Systems that do not know this call leave them open.
            libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            for (resource, bound) in &bounds {
                if libc::setrlimit(*resource, bound) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
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
