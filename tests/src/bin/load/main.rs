//! `make load` and `make soak`: how much the gateway bears, counted. Tests T17 to T23 of the project's list of threats.
//!
//! The real binary runs as a process of its own; clients and servers live in this one. Each test says what it found and what was
//! asked for; all of it goes to `target/evidence`, and the program fails when a goal is missed.
//!
//! `load [--short] [--only T17,T18] [--sessions N] [--slow N] [--names N] [--minutes N]` or `load soak [--minutes N]`; loopback only.

mod bodies;
mod names;
mod overload;
mod report;
mod sessions;
mod slow;
mod soak;
mod stand;
mod together;

use report::Report;
use std::process::ExitCode;
use std::time::Duration;
use transom_tests::{evidence, sys};

/// What `--only` can name.
const TESTS: [&str; 6] = ["T17", "T18", "T19", "T20", "T22", "T23"];

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How large everything is.
pub struct Size {
    /// Sessions with open streams that are asked for.
    pub wanted: usize,
    /// As many of them as there are files for.
    pub sessions: usize,
    /// How long they call.
    pub calling: Duration,
    /// Connections that are slow on purpose.
    pub slow: usize,
    /// How long good clients are watched beside them.
    pub watched: Duration,
    /// Milliseconds below which a machine that they all share makes of a time what it likes.
    pub noise: f64,
    /// Sessions that do nothing.
    pub idle: usize,
    /// Rounds of large bodies.
    pub rounds: usize,
    /// Names nobody has.
    pub names: usize,
    /// How long everything is tried at once.
    pub together: Duration,
    /// How long more is asked than can be done.
    pub overload: Duration,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |name: &str, default: usize| {
        value(&arguments, name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} wants a number, not `{text}`")))
    };
    let files = files();
    let short = arguments.contains(&"--short");
    let seconds = |long, short_form| Duration::from_secs(if short { short_form } else { long });
    let wanted = number("--sessions", if short { 1_000 } else { 9_000 });
    let size = Size {
        wanted,
        // Two descriptors each, here as well as there, and some for everything else.
        sessions: wanted.min((files.saturating_sub(800)) / 2),
        idle: if short { 600 } else { 3_000 },
        calling: seconds(60, 10),
        slow: number("--slow", if short { 500 } else { 5_000 }),
        watched: seconds(15, 3),
        noise: if short { 50.0 } else { 1.0 },
        rounds: if short { 1 } else { 4 },
        names: number("--names", if short { 10_000 } else { 1_000_000 }),
        together: value(&arguments, "--minutes").map_or(seconds(180, 6), |_| Duration::from_secs(number("--minutes", 3) as u64 * 60)),
        overload: seconds(30, 6),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if arguments.first() == Some(&"soak") {
        let mut report = Report::new(evidence::name_of("soak", false, ""));
        runtime.block_on(soak::run(&mut report, Duration::from_secs(number("--minutes", 20) as u64 * 60)));
        return report.end();
    }
    let only = value(&arguments, "--only").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only.split(',').any(|one| one.eq_ignore_ascii_case(name));
    let unknown: Vec<&str> = only.split(',').filter(|name| !only.is_empty() && !TESTS.iter().any(|test| test.eq_ignore_ascii_case(name))).collect();
    if !unknown.is_empty() {
        eprintln!("--only does not know `{}`; it knows {}", unknown.join("`, `"), TESTS.join(", "));
        return ExitCode::from(2);
    }
    let mut report = Report::new(evidence::name_of("load", short, only));
    report.note("options", arguments.join(" "));
    report.note("short", short);
    report.note("only", only);
    report.note("files", files);
    runtime.block_on(async {
        if wanted("T17") {
            sessions::idle(&mut report, &size).await;
            sessions::calling(&mut report, &size).await;
        }
        if wanted("T18") {
            slow::run(&mut report, &size).await;
        }
        if wanted("T19") {
            bodies::run(&mut report, &size).await;
        }
        if wanted("T20") {
            together::run(&mut report, &size).await;
        }
        if wanted("T22") {
            names::run(&mut report, &size).await;
        }
        if wanted("T23") {
            overload::run(&mut report, &size).await;
        }
    });
    report.end()
}

fn value<'a>(arguments: &[&'a str], name: &str) -> Option<&'a str> {
    let place = arguments.iter().position(|argument| *argument == name)?;
    arguments.get(place + 1).copied()
}

/// Raises the number of open files as far as it goes, also for the gateway, which inherits it; how far that is.
fn files() -> usize {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    sys::limit(own, libc::RLIMIT_NOFILE, u64::MAX);
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    line.split_whitespace().nth(3).and_then(|soft| soft.parse().ok()).unwrap_or(1024)
}
