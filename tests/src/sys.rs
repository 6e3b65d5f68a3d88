//! Signals and the process table. The only unsafe code of the harness.

use std::fs;

/// Sends a signal; `false` if there is no such process.
#[allow(unsafe_code, reason = "kill has no safe form in the standard library")]
pub fn signal(pid: i32, signal: i32) -> bool {
    assert!(pid > 1, "a test may only signal a process it knows");
    // SAFETY: kill takes two integers and touches no memory.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// Sends a signal to a process group, named by its leader; `false` if there is no such group.
#[allow(unsafe_code, reason = "kill has no safe form in the standard library")]
pub fn signal_group(leader: i32, signal: i32) -> bool {
    assert!(leader > 1, "a test may only signal a group it knows");
    // SAFETY: kill takes two integers and touches no memory.
    unsafe { libc::kill(-leader, signal) == 0 }
}

/// Ignores a signal from now on.
#[allow(unsafe_code, reason = "signal has no safe form in the standard library")]
pub fn ignore(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition and no handler of ours runs.
    unsafe {
        libc::signal(signal, libc::SIG_IGN);
    }
}

/// A process as `/proc` shows it.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// `R`, `S`, `Z` …
    pub state: char,
    pub command_line: String,
}

/// Every process there is.
pub fn processes() -> Vec<ProcessInfo> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(process).collect()
}

/// One process, if it is there.
pub fn process(pid: i32) -> Option<ProcessInfo> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, also a parenthesis.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(ProcessInfo { pid, parent, group, state, command_line: String::from_utf8_lossy(&command_line).replace('\0', " ") })
}

/// Living processes with this text in their command line. Zombies have none, so look for those by parent.
pub fn marked(mark: &str) -> Vec<ProcessInfo> {
    processes().into_iter().filter(|process| process.state != 'Z' && process.command_line.contains(mark)).collect()
}

/// Direct children, zombies too.
pub fn children(pid: i32) -> Vec<ProcessInfo> {
    processes().into_iter().filter(|process| process.parent == pid).collect()
}

/// Resident memory of a process in bytes.
pub fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The most resident memory a process ever had, in bytes.
pub fn peak(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Open file descriptors of a process.
pub fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count())
}

/// Threads of a process.
pub fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |entries| entries.count())
}

/// CPU time a process has used, in nanoseconds: of all its threads, and of those that have ended. It never shrinks, so two of them can be subtracted.
#[allow(unsafe_code, reason = "the clock of another process has no safe form in the standard library")]
pub fn cpu(pid: i32) -> u64 {
    let mut clock = 0;
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are to live values of the right type.
    let is_read = unsafe { libc::clock_getcpuclockid(pid, &mut clock) == 0 && libc::clock_gettime(clock, &mut used) == 0 };
    assert!(is_read, "there is no process {pid} any more, and nobody knows what it used");
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Sets how many files a process may have open, or how large one it writes may grow: `RLIMIT_NOFILE`, `RLIMIT_FSIZE`.
#[allow(unsafe_code, reason = "prlimit has no safe form in the standard library")]
pub fn limit(pid: i32, resource: libc::__rlimit_resource_t, soft: u64) -> bool {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both pointers are to live structs of the right type, or null where the call allows it.
    unsafe {
        if libc::prlimit(pid, resource, std::ptr::null(), &mut now) != 0 {
            return false;
        }
        let wanted = libc::rlimit { rlim_cur: soft.min(now.rlim_max), rlim_max: now.rlim_max };
        libc::prlimit(pid, resource, &wanted, std::ptr::null_mut()) == 0
    }
}
