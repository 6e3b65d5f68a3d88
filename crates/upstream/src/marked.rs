//! Every child carries a mark in its environment, and so does everything it starts. Whatever leaves its process group is
//! found by it; and a guard, a process of its own, finds what is left when the gateway itself is killed.

use crate::sys;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The variable that holds the mark.
pub(crate) const NAME: &str = "TRANSOM_CHILD";

/// A new mark for a child of this process.
pub(crate) fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{}.{}.", instance(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn instance() -> &'static str {
    static INSTANCE: OnceLock<String> = OnceLock::new();
    INSTANCE.get_or_init(|| format!("{:032x}", rand::random::<u128>()))
}

/// Kills every process whose mark begins so. Returns how many there were.
pub(crate) fn kill(mark: &str) -> usize {
    if mark.is_empty() {
        return 0;
    }
    let wanted = format!("{NAME}={mark}");
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // What we may not read is not ours.
    let marked = numbers.filter(|pid| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|line| line.starts_with(wanted.as_bytes())))
    });
    marked.map(sys::kill).count()
}

static GUARD: Mutex<Guard> = Mutex::new(Guard { program: None, child: None });

struct Guard {
    program: Option<(PathBuf, Vec<String>)>,
    child: Option<Child>,
}

/// Names the program that calls [`stand_guard`] with the last argument it gets; it is started with the first child.
pub fn set_guard(program: PathBuf, arguments: Vec<String>) {
    if let Ok(mut guard) = GUARD.lock() {
        guard.program = Some((program, arguments));
    }
}

/// Starts the guard, if there is one and it is not there yet.
pub(crate) fn call_guard() {
    let Ok(mut guard) = GUARD.lock() else { return };
    if guard.child.is_some() {
        return;
    }
    let Some((program, arguments)) = &guard.program else { return };
    let mut command = Command::new(program);
    command.args(arguments).arg(instance()).env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    match command.spawn() {
        Ok(child) => guard.child = Some(child),
        Err(error) => tracing::warn!(%error, "no guard for children: if this process is killed, what they started may live on"),
    }
}

/// Lets the guard go: the gateway ends in good order.
pub fn dismiss_guard() {
    let Ok(mut guard) = GUARD.lock() else { return };
    guard.program = None;
    if let Some(mut child) = guard.child.take() {
        drop(child.stdin.take());
        let _status = child.wait();
    }
}

/// The guard's whole life: waits until the gateway is gone, then kills what it left behind.
pub fn stand_guard(instance: &str) {
    let mut nothing = [0; 64];
    // The gateway never writes; its end is the end of our input.
    while std::io::stdin().read(&mut nothing).is_ok_and(|read| read > 0) {}
    let mark = format!("{instance}.");
    for _ in 0..10 {
        if kill(&mark) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K2
    #[test]
    fn a_process_that_left_its_group_is_found_by_its_mark() {
        let mark = fresh();
        let mut child = Command::new("setsid").args(["sleep", "60"]).env(NAME, &mark).spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").env(NAME, fresh()).spawn().unwrap();
        let found = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            kill(&mark) == 1
        });
        assert!(found);
        assert!(!child.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "a process with another mark lives on");
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(kill(""), 0);
    }
}
