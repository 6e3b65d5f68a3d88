//! A fuzzer for stable Rust. Inputs come from a committed corpus, a dictionary and mutations; where the code was built with
//! counters (`make fuzz` does that), an input that makes it do something new is mutated further.
//!
//! Run as a test, each target replays its corpus and gets a few thousand inputs more. `make fuzz SECONDS=60` or
//! `EXECUTIONS=1000000` is for longer: one line for each target, and `target/evidence/fuzz.json`. `ONLY=a,b` chooses
//! targets, `SEED=n` other inputs, and `GROW=1` adds to the corpus what reached code that nothing in it reaches.
//!
//! Each target has a process of its own, so that an input that ends it (a stack that overflows cannot be caught) is known. An input that
//! does not end is ended, and one that takes all memory gets no more than [`MEMORY`].

pub mod corpus;
pub mod coverage;
pub mod mutate;
pub mod random;
pub mod report;
pub mod sys;
mod watch;

use coverage::Coverage;
use random::Random;
use report::Row;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use watch::Progress;

/// Inputs of a run that says nothing else.
const EXECUTIONS: u64 = 2_000;
/// The stack of a worker of the gateway: what overflows there has to overflow here.
const STACK: usize = 2 << 20;
/// What a worker gets of the machine's memory, in bytes. Far more than any target may take for an input: what asks for more is ended before the
/// machine suffers.
const MEMORY: u64 = 512 << 20;
/// Inputs that are mutated further; more are found and let go.
const POOL: usize = 4_096;
/// What `GROW=1` may add to the corpus of a target, in bytes.
const GROWTH: usize = 4 << 10;

/// What is fuzzed: any bytes go in, and what it promises holds for all of them.
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// Whether inputs are JSON: then two of three stay JSON, so that they get past the parser.
    pub json: bool,
    /// The longest input, in bytes.
    pub longest: usize,
    /// What may be taken for one input, in bytes.
    pub memory: usize,
    /// Words that mean something to it; for JSON, keys.
    pub words: &'static [&'static str],
    /// Panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// What the words of the environment ask for.
struct Wishes {
    seconds: Option<Duration>,
    executions: u64,
    seed: u64,
    only: Vec<String>,
    grow: bool,
    /// Without counters there is no point.
    counted: bool,
    /// Somebody asked for a long run.
    campaign: bool,
}

impl Wishes {
    fn read() -> Wishes {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |name: &str| text(name).map(|value| value.parse::<u64>().unwrap_or_else(|_| panic!("{name}={value} is not a number")));
        let (seconds, executions) = (number("FUZZ_SECONDS").map(Duration::from_secs), number("FUZZ_EXECUTIONS"));
        Wishes {
            campaign: seconds.is_some() || executions.is_some(),
            executions: executions.unwrap_or(if seconds.is_some() { u64::MAX } else { EXECUTIONS }),
            seconds,
            seed: number("FUZZ_SEED").unwrap_or(1),
            only: text("FUZZ_ONLY").map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default(),
            grow: text("FUZZ_GROW").is_some(),
            counted: text("FUZZ_COUNTED").is_some(),
        }
    }

    /// What one input may cost the processor. A test is built without optimisation.
    fn slowest(&self) -> Duration {
        Duration::from_secs(if self.campaign { 1 } else { 5 })
    }
}

/// What the command line asks for: the words of Rust's own test harness, as far as cargo and nextest use them.
enum Asked {
    List { ignored: bool },
    Worker(String),
    Run { names: Vec<String>, exact: bool },
}

impl Asked {
    fn read() -> Asked {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let has = |word: &str| words.iter().any(|other| other == word);
        if has("--list") {
            return Asked::List { ignored: has("--ignored") };
        }
        if let [first, name] = words.as_slice()
            && first == "--worker"
        {
            return Asked::Worker(name.clone());
        }
        Asked::Run { names: words.iter().filter(|word| !word.starts_with('-')).cloned().collect(), exact: has("--exact") }
    }
}

/// The whole program.
pub fn main(targets: &'static [Target]) -> ExitCode {
    let wishes = Wishes::read();
    match Asked::read() {
        Asked::List { ignored: true } => ExitCode::SUCCESS,
        Asked::List { .. } => {
            targets.iter().for_each(|target| println!("{}: test", target.name));
            ExitCode::SUCCESS
        }
        Asked::Worker(name) => match targets.iter().find(|target| target.name == name) {
            Some(target) => work(target, wishes),
            None => ExitCode::FAILURE,
        },
        Asked::Run { names, exact } => {
            let named = |target: &Target| {
                names.is_empty() || names.iter().any(|name| if exact { target.name == name } else { target.name.contains(name.as_str()) })
            };
            if let Some(name) = wishes.only.iter().find(|name| !targets.iter().any(|target| target.name == **name)) {
                eprintln!("there is no target {name}: {}", targets.iter().map(|target| target.name).collect::<Vec<_>>().join(", "));
                return ExitCode::FAILURE;
            }
            let chosen = |target: &Target| wishes.only.is_empty() || wishes.only.iter().any(|name| name == target.name);
            run(targets.iter().filter(|target| named(target) && chosen(target)), &wishes)
        }
    }
}

/// Runs targets one after the other, each in a process of its own.
fn run(targets: impl Iterator<Item = &'static Target>, wishes: &Wishes) -> ExitCode {
    if wishes.counted && Coverage::all() == 0 {
        eprintln!("the code does not count what it does: was it built with tests/fuzz/instrument, as `make fuzz` does?");
        return ExitCode::FAILURE;
    }
    let mut rows: Vec<Row> = Vec::new();
    for target in targets {
        if rows.is_empty() {
            report::print_head();
        }
        let row = supervise(target);
        report::print(&row);
        rows.push(row);
    }
    if wishes.campaign {
        report::print_sum(&rows, Coverage::all());
        report::write(&rows, wishes.seed, Coverage::all());
    }
    let blind: Vec<&str> = rows.iter().filter(|row| wishes.counted && row.finding.is_none() && row.edges == 0).map(|row| row.name.as_str()).collect();
    if !blind.is_empty() {
        eprintln!("no code that counts was reached by {}: was all of it built with tests/fuzz/instrument?", blind.join(", "));
    }
    if rows.iter().any(|row| row.finding.is_some()) || !blind.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Where the worker notes which input it is about to try.
fn note_of(target: &str) -> PathBuf {
    report::folder().join(format!("fuzz-trying-{target}"))
}

/// What a worker noted: how many inputs were tried before, and the one it was about to try. Both numbers go first, since cutting the file each
/// time would take longer than most inputs do.
fn noted(target: &str) -> Option<(u64, Vec<u8>)> {
    let note = std::fs::read(note_of(target)).ok()?;
    let (count, rest) = note.split_first_chunk()?;
    let (length, input) = rest.split_first_chunk()?;
    let input = input.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((u64::from_le_bytes(*count), input.to_vec()))
}

fn supervise(target: &Target) -> Row {
    let program = std::env::current_exe().expect("this program has a path");
    let begun = Instant::now();
    let output = Command::new(program).args(["--worker", target.name]).output().expect("this program can be started");
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprint!("{complaint}");
    let mut row = said.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok()).map_or_else(
        || {
            // It could not even say what happened. Its first complaint tells a stack that is full from memory that is.
            let (executions, input) = noted(target.name).unwrap_or_default();
            let first = complaint.lines().find(|line| !line.is_empty()).unwrap_or_default();
            let why = format!("after {executions} executions: the process ended: {}: {first}", output.status);
            Row { executions, seconds: begun.elapsed().as_secs_f64(), finding: Some(kept(target.name, &why, &input)), ..Row::of(target.name) }
        },
        |said| Row::read(target.name, &said),
    );
    let _gone = std::fs::remove_file(note_of(target.name));
    row.corpus = corpus::load(target.name).len();
    row
}

/// Keeps an input that broke a promise, and says where.
fn kept(target: &str, why: &str, input: &[u8]) -> String {
    let place = corpus::keep(&report::folder().join("findings"), &format!("{target}-"), input);
    let place = place.map_or_else(|error| error.to_string(), |path| path.display().to_string());
    format!("{why}\n  input: {:?}\n  kept as {place}", String::from_utf8_lossy(input))
}

fn work(target: &'static Target, wishes: Wishes) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    sys::bound_memory(MEMORY);
    let (progress, begun) = (Progress::default(), Instant::now());
    watch::over(&progress, wishes.slowest(), move |why| {
        let (executions, input) = noted(target.name).unwrap_or_default();
        let finding = kept(target.name, &format!("after {executions} executions: {why}"), &input);
        println!("{}", json!({ "executions": executions, "seconds": begun.elapsed().as_secs_f64(), "finding": finding }));
        std::process::exit(1);
    });
    let worker = std::thread::Builder::new().stack_size(STACK).spawn(move || Campaign::new(target, wishes, progress).run());
    match worker.expect("a thread can be started").join() {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// One target's run.
struct Campaign {
    target: &'static Target,
    wishes: Wishes,
    progress: Progress,
    coverage: Coverage,
    pool: Vec<Vec<u8>>,
    /// How many of the pool come from the corpus.
    known: usize,
    note: Option<File>,
    noted: Vec<u8>,
    slowest: Duration,
    memory: usize,
    count: u64,
}

impl Campaign {
    fn new(target: &'static Target, wishes: Wishes, progress: Progress) -> Campaign {
        let pool = corpus::load(target.name);
        let note = std::fs::create_dir_all(report::folder()).and_then(|()| File::create(note_of(target.name))).ok();
        Campaign {
            target,
            wishes,
            progress,
            coverage: Coverage::new(),
            known: pool.len(),
            pool,
            note,
            noted: Vec::new(),
            slowest: Duration::ZERO,
            memory: 0,
            count: 0,
        }
    }

    fn run(mut self) -> Value {
        let begun = Instant::now();
        let finding = self.fuzz(begun).err();
        let (seconds, found, executions) = (begun.elapsed().as_secs_f64(), self.pool.len() - self.known, self.count);
        if self.wishes.grow && finding.is_none() {
            self.grow();
        }
        json!({
            "executions": executions, "seconds": seconds, "finding": finding, "edges": self.coverage.edges(), "found": found,
            "slowest_ms": self.slowest.as_secs_f64() * 1e3, "memory": self.memory,
        })
    }

    fn fuzz(&mut self, begun: Instant) -> Result<(), String> {
        let mut random = Random::new(self.wishes.seed);
        self.coverage.begin();
        for at in 0..self.known {
            let input = self.pool[at].clone();
            self.attempt(&input)?;
        }
        let end = self.wishes.seconds.map(|seconds| begun + seconds);
        while self.count < self.wishes.executions && end.is_none_or(|end| Instant::now() < end) {
            let Target { words, longest, .. } = *self.target;
            let rearranged = self.target.json && random.below(3) > 0;
            let input = rearranged.then(|| mutate::json(&self.pool, words, longest, &mut random)).flatten();
            let input = input.unwrap_or_else(|| mutate::bytes(&self.pool, words, longest, &mut random));
            if self.attempt(&input)? && self.pool.len() < POOL {
                self.pool.push(input);
            }
        }
        Ok(())
    }

    /// Tries an input; whether the code did something new.
    fn attempt(&mut self, input: &[u8]) -> Result<bool, String> {
        if let Some(note) = &self.note {
            self.noted.clear();
            self.noted.extend_from_slice(&self.count.to_le_bytes());
            self.noted.extend_from_slice(&(input.len() as u64).to_le_bytes());
            self.noted.extend_from_slice(input);
            let _full = note.write_all_at(&self.noted, 0);
        }
        let run = self.target.run;
        self.progress.step();
        let (before, begun) = (sys::memory(), Instant::now());
        let outcome = catch_unwind(AssertUnwindSafe(|| run(input)));
        let (took, taken) = (begun.elapsed(), sys::memory_since(before));
        self.count += 1;
        self.slowest = self.slowest.max(took);
        self.memory = self.memory.max(taken);
        let broken = |why: &str| Err(kept(self.target.name, &format!("after {} executions: {why}", self.count), input));
        if let Err(panic) = outcome {
            let why = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            return broken(why.unwrap_or("a panic"));
        }
        if taken > self.target.memory {
            return broken(&format!("an input that takes {} KiB of memory", taken / 1024));
        }
        let limit = self.wishes.slowest();
        if took > limit {
            // Perhaps only the machine was busy.
            self.progress.step();
            let before = sys::worked();
            let _same = catch_unwind(AssertUnwindSafe(|| run(input)));
            let work = sys::worked().saturating_sub(before);
            if work > limit {
                return broken(&format!("an input that takes {work:?} of work"));
            }
        }
        Ok(self.coverage.is_new())
    }

    /// Adds to the corpus what reaches code that nothing in it reaches, the shortest first, as far as there is room.
    fn grow(&mut self) {
        let mut fresh = self.pool.split_off(self.known);
        fresh.sort_by_key(Vec::len);
        self.coverage = Coverage::new();
        for at in 0..self.known {
            let input = self.pool[at].clone();
            let _known = self.attempt(&input);
        }
        let mut room = GROWTH;
        for input in fresh {
            let before = self.coverage.edges();
            let _new = self.attempt(&input);
            if self.coverage.edges() > before && input.len() <= room {
                room -= input.len();
                let _full = corpus::keep(&corpus::folder(self.target.name), "found-", &input);
            }
        }
    }
}
