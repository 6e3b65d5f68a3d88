//! Memory that runs out: better to refuse some work early than to be killed with all of it.
//!
//! What the process holds is compared with what it may hold, ten times a second or more and never on the path of a request: a
//! request reads one number. The less is left, the fewer bodies are read at once. From 85 % on calls are refused, which are what
//! takes memory; from 95 % on nothing new is taken at all: no body is read, no session or stream is opened. What runs goes on, and readiness stays: a replica that is told to rest for a
//! moment must not be taken away from the others, who would then hold even more.

use crate::metrics::Metrics;
use crate::runtime::Runtime;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often once half of the limit is taken: a burst takes the other half in less than a tenth of a second.
const LOOK_CLOSELY: Duration = Duration::from_millis(20);
/// Percent of the limit from which on calls are refused.
const SHED: u64 = 85;
/// Percent of the limit from which on everything new is refused.
const FULL: u64 = 95;
/// Percent that memory must fall below either before it counts as fallen.
const SLACK: u64 = 3;
/// A limit this large is how the kernel writes none.
const NO_LIMIT: u64 = 1 << 60;
/// The part of what is left that bodies of requests may take at once: each is sent on, answered, and the answer written.
const BODIES: u64 = 8;
/// What bodies may take however little is left, while any are taken at all: room for the largest of them.
const ONE_BODY: u64 = 4 << 20;

const CALM: u8 = 0;
const SHEDDING: u8 = 1;
const FULLY: u8 = 2;

/// How much memory there is, and how much of it is taken.
#[derive(Debug, Default)]
pub struct Pressure {
    level: AtomicU8,
    /// In bytes; 0 is none.
    limit: AtomicU64,
    /// Bytes that were held at the last look.
    held: AtomicU64,
}

impl Pressure {
    /// With the limit of the config or else of the cgroup; without either there is never any pressure.
    pub fn new(configured: Option<u64>) -> Pressure {
        let pressure = Pressure::default();
        pressure.set_limit(configured);
        pressure
    }

    /// Another limit, from the next look on.
    pub fn set_limit(&self, configured: Option<u64>) {
        self.limit.store(configured.or_else(of_cgroup).unwrap_or(0), Relaxed);
    }

    /// What the process may hold.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|limit| *limit > 0)
    }

    /// Whether calls are refused.
    pub fn sheds(&self) -> bool {
        self.level.load(Relaxed) >= SHEDDING
    }

    /// Whether everything new is refused.
    pub fn is_full(&self) -> bool {
        self.level.load(Relaxed) >= FULLY
    }

    /// How many bytes of bodies there may be at once, if `most` without a limit.
    pub fn bodies(&self, most: usize) -> usize {
        let Some(limit) = self.limit() else { return most };
        let left = (limit / 100 * FULL).saturating_sub(self.held.load(Relaxed));
        usize::try_from((left / BODIES).max(ONE_BODY)).map_or(most, |share| share.min(most))
    }

    /// How long to wait before the next look.
    fn pause(&self) -> Duration {
        match self.limit() {
            Some(limit) if self.held.load(Relaxed) >= limit / 2 => LOOK_CLOSELY,
            _ => LOOK,
        }
    }

    fn look(&self, held: u64, metrics: &Metrics) {
        self.held.store(held, Relaxed);
        let limit = self.limit();
        metrics.memory_limit.set(i64::try_from(limit.unwrap_or(0)).unwrap_or(i64::MAX));
        let before = self.level.load(Relaxed);
        let now = level(limit, held, before);
        if now == before {
            return;
        }
        self.level.store(now, Relaxed);
        metrics.memory_pressure.set(now.into());
        let mib = |bytes: u64| bytes >> 20;
        let (held_mib, limit_mib) = (mib(held), mib(limit.unwrap_or(0)));
        match now {
            CALM => tracing::info!(event = "memory_pressure", held_mib, limit_mib, "memory is no longer short"),
            SHEDDING => tracing::warn!(event = "memory_pressure", held_mib, limit_mib, "memory is short: calls are refused"),
            _ => tracing::warn!(event = "memory_pressure", held_mib, limit_mib, "memory is nearly used up: nothing new is taken"),
        }
    }
}

fn level(limit: Option<u64>, held: u64, before: u8) -> u8 {
    let Some(limit) = limit else { return CALM };
    // Whoever was over a threshold stays so until well below it.
    let over = |percent: u64, level: u8| held >= limit / 100 * (if before >= level { percent - SLACK } else { percent });
    if over(FULL, FULLY) {
        FULLY
    } else if over(SHED, SHEDDING) {
        SHEDDING
    } else {
        CALM
    }
}

/// Looks at memory for as long as the gateway runs.
pub async fn keep_watch(runtime: Arc<Runtime>) {
    loop {
        if let Some(held) = held() {
            runtime.pressure.look(held, &runtime.metrics);
        }
        tokio::time::sleep(runtime.pressure.pause()).await;
    }
}

/// Bytes that the process holds.
fn held() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?;
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// The limit of the cgroup this process is in, of either version.
fn of_cgroup() -> Option<u64> {
    limit_in(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new("/sys/fs/cgroup"))
}

/// The tightest limit on the way from a cgroup, as `/proc/self/cgroup` names it, to the root of its tree.
fn limit_in(cgroups: &str, root: &Path) -> Option<u64> {
    let read = |folder: PathBuf, file: &str| -> Option<u64> {
        let limit = fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()?;
        (limit < NO_LIMIT).then_some(limit)
    };
    let mut tightest = None;
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (tree, file) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the path may be one that only the host can see; its root is then ours.
        for folder in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = read(tree.join(folder), file);
            tightest = match (tightest, limit) {
                (Some(one), Some(other)) => Some(std::cmp::min(one, other)),
                (one, other) => one.or(other),
            };
        }
    }
    tightest
}

#[cfg(test)]
mod tests {
    use super::*;

    // J11
    #[test]
    fn pressure_rises_with_memory_and_falls_only_well_below() {
        let limit = Some(1000);
        for (held, before, expected) in [
            (849, CALM, CALM),
            (850, CALM, SHEDDING),
            (830, SHEDDING, SHEDDING),
            (819, SHEDDING, CALM),
            (949, SHEDDING, SHEDDING),
            (950, SHEDDING, FULLY),
            (930, FULLY, FULLY),
            (900, FULLY, SHEDDING),
            (100, FULLY, CALM),
            (2000, CALM, FULLY),
        ] {
            assert_eq!(level(limit, held, before), expected, "{held} after {before}");
        }
        assert_eq!(level(None, u64::MAX, FULLY), CALM, "no limit, no pressure");
    }

    // J11
    #[test]
    fn the_less_memory_is_left_the_less_of_it_bodies_get_and_the_more_often_it_is_looked_at() {
        const MIB: u64 = 1 << 20;
        let pressure = Pressure::new(Some(1000 * MIB));
        for (held, bodies, pause) in [(150, 100, LOOK), (550, 50, LOOK_CLOSELY), (942, 4, LOOK_CLOSELY), (2000, 4, LOOK_CLOSELY)] {
            pressure.held.store(held * MIB, Relaxed);
            assert_eq!(pressure.bodies(usize::MAX) >> 20, bodies, "{held}");
            assert_eq!(pressure.pause(), pause, "{held}");
        }
        assert_eq!(Pressure::default().bodies(7), 7, "no limit, no pressure");
    }

    // J11
    #[test]
    fn the_tightest_cgroup_counts_in_both_versions() {
        let root = std::env::temp_dir().join(format!("transom-cgroup-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("memory/pod/box/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/pod/memory.limit_in_bytes", "536870912\n");
        write("memory/memory.limit_in_bytes", "1073741824\n");
        write("new/memory.max", "max\n");
        write("new/inner/memory.max", "268435456\n");
        assert_eq!(limit_in("3:cpu,cpuacct:/x\n2:memory:/pod/box\n", &root), Some(536_870_912));
        assert_eq!(limit_in("0::/new/inner\n", &root), Some(268_435_456));
        assert_eq!(limit_in("0::/new\n", &root), None, "`max` is no limit");
        assert_eq!(limit_in("2:memory:/seen/only/by/the/host\n", &root), Some(1_073_741_824));
        fs::remove_dir_all(&root).unwrap();
    }
}
