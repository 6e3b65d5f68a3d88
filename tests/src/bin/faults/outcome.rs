//! What a test did and counted, and whether that is good enough.

use serde_json::{Map, Value, json};
use std::fmt::Display;
use std::time::Duration;

pub const HEAD: &str = "test           sent       ok    error  mixed   lost doubled leaked  secs  verdict  what was done";

/// What every test counts in the same way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub sent: usize,
    pub ok: usize,
    pub error: usize,
    /// Answered with what belongs to another, or with what the rules in force do not explain.
    pub mixed: usize,
    /// Never answered.
    pub lost: usize,
    /// Executed more than once.
    pub doubled: usize,
    /// Left behind: pending calls, descriptors, threads, processes.
    pub leaked: usize,
}

impl Counts {
    pub const NAMES: [&str; 7] = ["sent", "ok", "error", "mixed", "lost", "doubled", "leaked"];

    /// In the order of the names.
    fn all(&self) -> [usize; 7] {
        let Counts { sent, ok, error, mixed, lost, doubled, leaked } = *self;
        [sent, ok, error, mixed, lost, doubled, leaked]
    }
}

/// Something that must be so, and whether it was.
struct Goal {
    text: String,
    met: bool,
    /// Judged by the clock, which on a machine with neighbours is not the gateway's alone.
    timed: bool,
}

#[derive(Default)]
pub struct Outcome {
    name: String,
    done: String,
    counts: Counts,
    /// Which of the counts nobody counted.
    not_counted: Vec<&'static str>,
    figures: Map<String, Value>,
    goals: Vec<Goal>,
    took: Duration,
}

impl Outcome {
    /// Of a test that did this.
    pub fn new(done: impl Into<String>, counts: Counts) -> Outcome {
        Outcome { done: done.into(), counts, ..Outcome::default() }
    }

    /// Of a test that did not come to its end.
    pub fn broken(why: &str) -> Outcome {
        Outcome::new("it broke", Counts::default()).not_counted(Counts::NAMES).goal(why.lines().take(12).collect::<Vec<_>>().join("\n"), false)
    }

    /// These of the counts nobody counted: a zero would look as if somebody had. To be said before anything is judged.
    pub fn not_counted(mut self, names: impl IntoIterator<Item = &'static str>) -> Outcome {
        self.not_counted.extend(names);
        self
    }

    /// Every count by name, none where nobody counted.
    fn counted(&self) -> impl Iterator<Item = (&'static str, Option<usize>)> {
        let counts = Counts::NAMES.into_iter().zip(self.counts.all());
        counts.map(|(name, count)| (name, (!self.not_counted.contains(&name)).then_some(count)))
    }

    /// Something measured.
    pub fn figure(mut self, name: &str, value: impl Into<Value>) -> Outcome {
        self.figures.insert(name.into(), value.into());
        self
    }

    /// Something that must be so.
    pub fn goal(mut self, text: impl Display, met: bool) -> Outcome {
        self.goals.push(Goal { text: text.to_string(), met, timed: false });
        self
    }

    /// A time, or what it cost of one, that must not be above another.
    pub fn in_time(mut self, what: &str, value: f64, most: f64) -> Outcome {
        self = self.at_most(what, value, most);
        if let Some(goal) = self.goals.last_mut() {
            goal.timed = true;
        }
        self
    }

    /// A number that must not be above another.
    pub fn at_most(self, what: &str, value: f64, most: f64) -> Outcome {
        self.figure(what, value).goal(format!("{what} at most {most}: {value:.1}"), value <= most)
    }

    /// Nothing mixed, lost, doubled or leaked as far as that was counted, and every call accounted for.
    pub fn nothing_wrong(self) -> Outcome {
        let Counts { sent, ok, error, .. } = self.counts;
        let faults: Vec<_> = self.counted().filter(|(name, _)| !["sent", "ok", "error"].contains(name)).collect();
        let mut outcome = self.goal(format!("sent = ok + error: {sent} = {ok} + {error}"), sent == ok + error);
        for (name, count) in faults {
            if let Some(count) = count {
                outcome = outcome.goal(format!("0 {name}: {count}"), count == 0);
            }
        }
        outcome
    }

    pub fn finish(&mut self, name: &str, took: Duration) {
        self.name = name.into();
        self.took = took;
    }

    /// Whether every goal was met; a test without goals has shown nothing.
    pub fn met(&self) -> bool {
        !self.goals.is_empty() && self.goals.iter().all(|goal| goal.met)
    }

    /// Whether nothing but the clock was missed.
    pub fn missed_by_the_clock_alone(&self) -> bool {
        !self.met() && self.missed().all(|goal| goal.timed)
    }

    fn missed(&self) -> impl Iterator<Item = &Goal> {
        self.goals.iter().filter(|goal| !goal.met)
    }

    /// Its line of the table; below it what was measured, and every goal that was missed.
    pub fn print(&self) {
        let verdict = if self.met() { "met" } else { "MISSED" };
        let columns = self.counted().zip([9, 9, 9, 7, 7, 8, 7]);
        let counts: String = columns.map(|((_, count), width)| format!("{:>width$}", count.map_or("–".into(), |count| count.to_string()))).collect();
        println!("{:<10}{counts}{:>6.0}  {verdict:<8} {}", self.name, self.took.as_secs_f64(), self.done);
        let figures: Vec<String> = self.figures.iter().map(|(name, value)| format!("{name} {}", short(value))).collect();
        if !figures.is_empty() {
            println!("{:12}{}", "", figures.join(" · "));
        }
        for goal in self.missed() {
            println!("{:12}missed: {}", "", goal.text);
        }
    }

    /// What was missed, for the last lines of the output.
    pub fn verdict(&self) -> String {
        let missed: Vec<&str> = self.missed().map(|goal| goal.text.as_str()).collect();
        format!("{}: {}", self.name, missed.join("; "))
    }

    pub fn json(&self) -> Value {
        let counts: Map<String, Value> = self.counted().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        let goals: Vec<Value> = self.goals.iter().map(|goal| json!({"goal": goal.text, "met": goal.met})).collect();
        json!({
            "test": self.name, "done": self.done, "seconds": (self.took.as_secs_f64() * 10.0).round() / 10.0, "met": self.met(),
            "counts": counts, "figures": self.figures, "goals": goals,
        })
    }
}

fn short(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number.fract() != 0.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.0}"),
        None => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// Milliseconds that so many percent of these are within; of nothing it is no number, which meets no goal.
pub fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    let place = (times.len() * percent / 100).min(last);
    times.get(place).map_or(f64::NAN, |time| (time.as_secs_f64() * 10_000.0).round() / 10.0)
}
