//! `make faults`: the real binary under faults and under concurrency, counted (security.md 3.2 and 3.3, T1 to T16).
//!
//! Every test starts gateways and targets of its own, does its harm, and counts: what was sent, what was answered, what was answered to the
//! wrong one, what never was, what ran twice, what is left behind. Targets keep a journal of what they executed; leaks are counted from `/proc`
//! and the gateway's own metrics. One table, one report, and exit code 1 when a goal is missed.
//!
//! `faults [--seed N] [--times F] [--short] [--only T7,T9]`; loopback only.

mod backends;
mod chance;
mod ends;
mod machine;
mod network;
mod notifications;
mod outcome;
mod panics;
mod parsers;
mod policies;
mod proxy;
mod rings;
mod stand;
mod suite;
mod traffic;

use outcome::Outcome;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};
use transom_tests::evidence;

/// How much is done, and with which seed.
#[derive(Clone, Copy)]
pub struct Size {
    pub seed: u64,
    times: f64,
    short: bool,
}

impl Size {
    /// So many by default, fewer in the short form; at least one.
    pub fn of(&self, whole: usize, short: usize) -> usize {
        let size = if self.short { short } else { whole };
        ((size as f64 * self.times) as usize).max(1)
    }

    /// As [`Size::of`], in seconds.
    pub fn seconds(&self, whole: f64, short: f64) -> Duration {
        Duration::from_secs_f64((if self.short { short } else { whole }) * self.times)
    }

    pub fn is_short(&self) -> bool {
        self.short
    }
}

type Run = fn(Size) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

macro_rules! tests {
    ($($name:literal: $run:path),* $(,)?) => {
        [$(($name, (|size| Box::pin($run(size))) as Run)),*]
    };
}

/// No test takes longer, whatever it waits for: what hangs is a miss like any other. Grows with the size.
const LONGEST: Duration = Duration::from_secs(900);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["http-target", behaviour] => stand::serve(behaviour),
        options => std::process::exit(measure(options)),
    }
}

fn option<'o>(options: &[&'o str], name: &str) -> Option<&'o str> {
    options.iter().position(|option| *option == name).and_then(|place| options.get(place + 1)).copied().filter(|value| !value.is_empty())
}

fn number<N: std::str::FromStr>(options: &[&str], name: &str, default: N) -> N {
    option(options, name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} wants a number, not `{text}`")))
}

fn measure(options: &[&str]) -> i32 {
    let size = Size { seed: number(options, "--seed", 1), times: number(options, "--times", 1.0), short: options.contains(&"--short") };
    // What `make test` has run at its usual size already.
    let left_out: &[&str] = if size.short { &["T4", "T5", "T13", "T14 clock"] } else { &[] };
    let only: Option<Vec<&str>> = option(options, "--only").map(|names| names.split(',').map(str::trim).collect());
    let tests = tests! {
        "T1": parsers::differential,
        "T2": suite::swaps,
        "T3": policies::swaps,
        "T4": suite::listed_is_callable,
        "T5": suite::canaries,
        "T6": notifications::isolation,
        "T7": backends::killed,
        "T8": backends::stopped,
        "T9": network::toxic,
        "T10": network::forgotten_sessions,
        "T11": ends::terminated,
        "T12": ends::killed,
        "T13": suite::registry_in_trouble,
        "T14 disk": machine::disk_full,
        "T14 log": machine::log_blocked,
        "T14 files": machine::no_descriptors,
        "T14 names": machine::no_names,
        "T14 clock": suite::clocks,
        "T15": panics::injected,
        "T16": rings::refused,
    };
    // `T14` is every test of T14.
    let is_called = |name: &str, wanted: &str| name == wanted || name.split(' ').next() == Some(wanted);
    let unknown: Vec<&str> = only.iter().flatten().copied().filter(|wanted| !tests.iter().any(|(name, _)| is_called(name, wanted))).collect();
    if !unknown.is_empty() {
        let known: Vec<&str> = tests.iter().map(|(name, _)| *name).collect();
        eprintln!("--only: no test is called `{}`; there are {}", unknown.join("`, `"), known.join(", "));
        return 2;
    }
    // What breaks is told in the table, in a line.
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let began = Instant::now();
    let mut outcomes: Vec<Outcome> = Vec::new();
    println!("{}", outcome::HEAD);
    for (name, run) in tests {
        if only.as_ref().map_or(left_out.contains(&name), |only| !only.iter().any(|wanted| is_called(name, wanted))) {
            continue;
        }
        let mut outcome = once(&runtime, name, run, size);
        outcome.print();
        // The short form has too few calls to tell a hiccup of the machine from one of the gateway. What was counted is judged as it is.
        if size.short && outcome.missed_by_the_clock_alone() {
            println!("{:12}only times were missed: once more", "");
            outcome = once(&runtime, name, run, size);
            outcome.print();
        }
        outcomes.push(outcome);
    }
    let missed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.met()).collect();
    let report = json!({
        "what": "faults and concurrency (security.md 3.2, 3.3)",
        "commit": evidence::commit(),
        "machine": evidence::machine(),
        "binary": stand::binary(),
        "seed": size.seed,
        "times": size.times,
        "short": size.short,
        "only": only,
        "leftOut": left_out,
        "seconds": began.elapsed().as_secs_f64().round(),
        "met": missed.is_empty() && !outcomes.is_empty(),
        "tests": outcomes.iter().map(Outcome::json).collect::<Vec<Value>>(),
    });
    let written = evidence::write(&evidence::name_of("faults", size.short, option(options, "--only").unwrap_or_default()), &report);
    let place = written.map_or_else(|error| format!("the report could not be written: {error}"), |path| path.display().to_string());
    println!("\n{} tests in {:.0} s, seed {} · {place}", outcomes.len(), began.elapsed().as_secs_f64(), size.seed);
    if outcomes.is_empty() {
        println!("nothing ran, so nothing was shown");
        return 2;
    }
    if missed.is_empty() {
        println!("every goal met");
        return 0;
    }
    for outcome in missed {
        println!("missed by {}", outcome.verdict());
    }
    1
}

/// One run of one test.
fn once(runtime: &tokio::runtime::Runtime, name: &str, run: Run, size: Size) -> Outcome {
    let start = Instant::now();
    let limit = LONGEST.mul_f64(size.times.max(1.0));
    let done = runtime.block_on(async { tokio::time::timeout(limit, tokio::spawn(run(size))).await });
    let mut outcome = match done {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(broken)) => Outcome::broken(&panic_text(broken)),
        Err(_) => Outcome::broken(&format!("it did not end within {limit:?}")),
    };
    outcome.finish(name, start.elapsed());
    outcome
}

fn panic_text(broken: tokio::task::JoinError) -> String {
    let Ok(panic) = broken.try_into_panic() else { return "it was cancelled".into() };
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "it broke".into())
}
