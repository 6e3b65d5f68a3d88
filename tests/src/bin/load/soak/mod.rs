//! T21: an hour like every other, for as long as somebody likes. Mixed traffic, registries that change, servers that die, and
//! some who take calls back or mean no good; and nothing may grow, get lost or come twice.

mod scene;
mod traffic;

use crate::report::{Report, Times, above_noise, mebibytes};
use scene::Scene;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use traffic::{Ended, Outcome};
use transom_tests::sys;

const TEST: &str = "T21";
/// Requests per second.
const RATE: u64 = 200;
const RELOAD: Duration = Duration::from_secs(10);
const DEATH: Duration = Duration::from_secs(30);
/// What share of all requests may meet a death: every other one is of a server, which a quarter of them calls on average, and
/// which is away for two of sixty seconds.
const MEET_A_DEATH: f64 = 0.02;
/// Every minute, and in short runs more often.
const LINE: Duration = Duration::from_secs(60);

/// What the process has at a moment.
#[derive(Clone, Copy, Default)]
struct Holds {
    resident: u64,
    files: usize,
    threads: usize,
    children: usize,
}

impl Holds {
    fn of(pid: i32) -> Holds {
        Holds { resident: sys::resident(pid), files: sys::descriptors(pid), threads: sys::threads(pid), children: sys::children(pid).len() }
    }
}

pub async fn run(report: &mut Report, time: Duration) {
    let mut scene = Scene::set().await;
    let pid = scene.stand.process.pid();
    scene.rest().await;
    let before = Holds::of(pid);
    let (busy_before, own_before) = (machine_busy(), own_time(pid));
    let clients = traffic::Clients::connect(scene.stand.address, scene.editions.clone()).await;
    let (send, mut ended) = tokio::sync::mpsc::unbounded_channel::<Ended>();
    let start = Instant::now();
    let (mut sent, mut next_reload, mut next_death, mut next_line, mut next_look) =
        (0_u64, RELOAD, DEATH, LINE.min(time / 4), Duration::from_secs(1));
    let mut all = Totals::default();
    let mut memory: Vec<(f64, f64)> = Vec::new();
    let mut minute = Totals::default();
    println!(
        "\n{:>6} {:>9} {:>6} {:>8} {:>9} {:>8} {:>8} {:>8}  what came of it",
        "minute", "RSS MiB", "fds", "threads", "children", "p50 ms", "p99 ms", "calls"
    );
    while start.elapsed() < time {
        let elapsed = start.elapsed();
        while sent < (elapsed.as_secs_f64() * RATE as f64) as u64 {
            sent += 1;
            clients.begin(sent, send.clone());
        }
        if elapsed >= next_reload {
            scene.publish_next();
            next_reload += RELOAD;
        }
        if elapsed >= next_death {
            scene.kill_one();
            next_death += DEATH;
        }
        scene.revive();
        while let Ok(one) = ended.try_recv() {
            all.count(&one, start, true);
            minute.count(&one, start, false);
        }
        if elapsed >= next_look {
            memory.push((elapsed.as_secs_f64(), mebibytes(sys::resident(pid))));
            next_look += Duration::from_secs(1);
        }
        if elapsed >= next_line {
            let now = Holds::of(pid);
            let at = elapsed.as_secs_f64() / 60.0;
            minute.print(at, &now);
            minute = Totals::default();
            next_line += LINE.min(time / 4);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop(send);
    // Whatever was asked ends one way or the other; what does not within this time is lost.
    let patience = tokio::time::Instant::now() + Duration::from_secs(90);
    while let Ok(Some(one)) = tokio::time::timeout_at(patience, ended.recv()).await {
        all.count(&one, start, true);
    }
    minute.print(time.as_secs_f64() / 60.0, &Holds::of(pid));
    let running = (machine_busy() - busy_before, own_time(pid) - own_before);
    drop(clients);
    scene.revive_all();
    scene.rest().await;
    let after = scene.settle(pid, before.files).await;
    conclude(report, &mut scene, &all, sent, &memory, (before, after), running, time).await;
}

#[allow(clippy::too_many_arguments, reason = "everything that was seen is judged in one place")]
async fn conclude(
    report: &mut Report,
    scene: &mut Scene,
    all: &Totals,
    sent: u64,
    memory: &[(f64, f64)],
    (before, after): (Holds, Holds),
    (machine, own): (f64, f64),
    time: Duration,
) {
    println!();
    report.note("T21 what came of requests", json!(all.outcomes));
    report.note("T21 registries published", scene.editions.newest());
    report.note("T21 servers killed", scene.killed);
    let count = |what: &str| all.outcomes.iter().filter(|(name, _)| name.starts_with(what)).map(|(_, count)| *count).sum::<usize>() as f64;
    report.figure(TEST, format!("requests in {:.0} minutes", time.as_secs_f64() / 60.0), sent as f64, "");
    report.at_most(TEST, "panics", scene.stand.panics().await, "", 0.0);
    report.at_most(TEST, "mixed: an answer that belongs to somebody else", count("mixed"), "", 0.0);
    report.at_most(TEST, "lost: never answered", count("lost") + (sent as f64 - all.ended as f64), "", 0.0);
    report.at_most(TEST, "doubled: executed more than once", scene.doubled() as f64, "", 0.0);
    report.at_most(TEST, "answers outside the set that is allowed", count("odd"), "", 0.0);
    let met = format!("calls that met a dead or late server ({} deaths)", scene.killed);
    report.at_most(TEST, met, count("error"), "", MEET_A_DEATH * sent as f64);
    judge_scene(report, scene, time).await;
    for (kind, what) in [("taken back", "calls taken back by a message, and told so"), ("left", "calls whose client went away")] {
        report.at_least(TEST, what, count(&format!("cancelled {kind}")), "", 1.0);
    }
    let later: Vec<(f64, f64)> = memory.iter().copied().filter(|(at, _)| *at >= time.as_secs_f64() / 4.0).collect();
    let slope = slope(&later) * 3600.0;
    // What is left of the start, and one hiccup of the machine, are much of a minute.
    let brief = time < Duration::from_secs(5 * 60);
    let what = "slope of resident memory after the first quarter";
    // Half a MiB per hour is what a few pages more or less make of minutes.
    if time >= Duration::from_secs(60 * 60) {
        report.at_most(TEST, what, slope, "MiB/h", 0.5);
    } else {
        report.figure(TEST, what, slope, "MiB/h");
    }
    let half = later.len() / 2;
    let median = |part: &[(f64, f64)]| {
        let mut sorted: Vec<f64> = part.iter().map(|(_, value)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let grown = median(later.get(half..).unwrap_or_default()) - median(later.get(..half).unwrap_or_default());
    report.at_most(TEST, "growth of memory between the halves of that time", grown, "MiB", if brief { 2.0 } else { 0.5 });
    report.figure(TEST, "resident memory at the end of it", later.last().map_or(f64::NAN, |(_, value)| *value), "MiB");
    for (what, before, after) in
        [("file descriptors", before.files, after.files), ("threads", before.threads, after.threads), ("children", before.children, after.children)]
    {
        report.at_most(TEST, format!("{what} left over, of {before} before"), after as f64 - before as f64, "", 5.0);
    }
    let (first, last) = (all.quarter(0, time).percentile(99.0), all.quarter(3, time).percentile(99.0));
    // Others on the machine decide about a p99 more than we do.
    let others = (machine - own).max(0.0) / time.as_secs_f64();
    let (factor, noise, why) = if others < 0.25 { (1.1, 1.0, "a quiet machine") } else { (2.0, 5.0, "a busy machine") };
    report.figure(TEST, "processors that others used meanwhile", others, "");
    report.figure(TEST, "p50 of a call that was done", all.percentile(50.0), "ms");
    report.figure(TEST, "p99 of the first quarter", first, "ms");
    let what = format!("p99 of the last quarter, on {why}");
    if brief {
        report.figure(TEST, what, last, "ms");
    } else {
        report.at_most(TEST, what, last, "ms", above_noise(factor * first, noise));
    }
}

/// Whether registries and deaths were what they were meant to be: one that is not applied, or hits nobody, tries nothing.
async fn judge_scene(report: &mut Report, scene: &Scene, time: Duration) {
    let published = scene.editions.newest();
    report.at_least(TEST, format!("registries that answered, of {published} published"), scene.editions.answered() as f64, "", published as f64);
    let behind = scene.behind().await;
    for tool in &behind {
        println!("      {}", tool.chars().take(300).collect::<String>());
    }
    report.at_most(TEST, "virtual tools that do not answer with the newest at the end", behind.len() as f64, "", 0.0);
    let deaths = (time.as_secs() / DEATH.as_secs()).saturating_sub(2);
    if deaths > 0 {
        report.at_least(TEST, "servers killed", scene.killed as f64, "", deaths as f64);
    }
}

/// What requests came to.
#[derive(Default)]
struct Totals {
    ended: usize,
    outcomes: BTreeMap<String, usize>,
    done: Vec<(Duration, Duration)>,
}

impl Totals {
    fn count(&mut self, one: &Ended, start: Instant, loud: bool) {
        self.ended += 1;
        let name = match &one.outcome {
            Outcome::Done => {
                self.done.push((one.started.saturating_duration_since(start), one.took));
                format!("ok {}", one.kind)
            }
            Outcome::Refused => format!("refused {}", one.kind),
            Outcome::Cancelled => format!("cancelled {}", one.kind),
            Outcome::Error(code) => format!("error {code}"),
            Outcome::Mixed(_) => format!("mixed {}", one.kind),
            Outcome::Lost(_) => format!("lost {}", one.kind),
            Outcome::Odd(_) => format!("odd {}", one.kind),
        };
        if let Outcome::Mixed(text) | Outcome::Lost(text) | Outcome::Odd(text) = &one.outcome
            && loud
            && self.outcomes.get(&name).is_none_or(|count| *count < 3)
        {
            println!("      {name}: {}", text.chars().take(300).collect::<String>());
        }
        *self.outcomes.entry(name).or_default() += 1;
    }

    fn percentile(&self, percent: f64) -> f64 {
        let mut times = Times::default();
        self.done.iter().for_each(|(_, took)| times.push(*took));
        times.percentile(percent)
    }

    fn quarter(&self, number: u32, of: Duration) -> Times {
        let (from, to) = (of / 4 * number, of / 4 * (number + 1));
        let mut times = Times::default();
        self.done.iter().filter(|(at, _)| *at >= from && *at < to).for_each(|(_, took)| times.push(*took));
        times
    }

    fn print(&self, at: f64, holds: &Holds) {
        if self.ended == 0 {
            return;
        }
        let of = |what: &str| self.outcomes.iter().filter(|(name, _)| name.starts_with(what)).map(|(_, count)| count).sum::<usize>();
        let errors: Vec<String> = self
            .outcomes
            .iter()
            .filter(|(name, _)| !name.starts_with("ok") && !name.starts_with("refused"))
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        println!(
            "{at:>6.1} {:>9.1} {:>6} {:>8} {:>9} {:>8.2} {:>8.2} {:>8}  ok {} refused {} {}",
            mebibytes(holds.resident),
            holds.files,
            holds.threads,
            holds.children,
            self.percentile(50.0),
            self.percentile(99.0),
            self.ended,
            of("ok"),
            of("refused"),
            errors.join(" ")
        );
    }
}

/// Least squares: how much more per second.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len().max(1) as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (up, down) = points.iter().fold((0.0, 0.0), |(up, down), point| (up + (point.0 - x) * (point.1 - y), down + (point.0 - x).powi(2)));
    if down > 0.0 { up / down } else { f64::NAN }
}

/// Seconds of processor time that this machine has spent on anything.
fn machine_busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (ticks.iter().take(8).sum::<f64>() - idle) / 100.0
}

/// Seconds of processor time that the gateway and this program have used.
fn own_time(gateway: i32) -> f64 {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    (sys::cpu(gateway) + sys::cpu(own)) as f64 / 1e9
}
