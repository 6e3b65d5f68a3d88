//! What was found, what was asked for, and whether the one is as good as the other.

use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use transom_tests::evidence;

/// The findings of a run.
pub struct Report {
    /// Of the file it goes to.
    name: String,
    started: Instant,
    machine: Value,
    notes: Map<String, Value>,
    rows: Vec<Row>,
}

struct Row {
    test: &'static str,
    what: String,
    found: f64,
    unit: &'static str,
    goal: String,
    met: bool,
}

impl Report {
    pub fn new(name: String) -> Report {
        println!("{:<5} {:<68} {:>12}  {:<34} verdict", "test", "what", "found", "goal");
        Report { name, started: Instant::now(), machine: evidence::machine(), notes: Map::new(), rows: Vec::new() }
    }

    /// Something that explains the figures.
    pub fn note(&mut self, what: &str, value: impl Into<Value>) {
        self.notes.insert(what.to_owned(), value.into());
    }

    /// A figure without a goal.
    pub fn figure(&mut self, test: &'static str, what: impl Into<String>, found: f64, unit: &'static str) {
        self.row(test, what.into(), found, unit, String::new(), true);
    }

    /// A figure that must not be above this.
    pub fn at_most(&mut self, test: &'static str, what: impl Into<String>, found: f64, unit: &'static str, most: f64) {
        self.row(test, what.into(), found, unit, format!("<= {}", shown(most, unit)), found <= most);
    }

    /// A figure that must not be below this.
    pub fn at_least(&mut self, test: &'static str, what: impl Into<String>, found: f64, unit: &'static str, least: f64) {
        self.row(test, what.into(), found, unit, format!(">= {}", shown(least, unit)), found >= least);
    }

    fn row(&mut self, test: &'static str, what: String, found: f64, unit: &'static str, goal: String, met: bool) {
        let verdict = if goal.is_empty() {
            ""
        } else if met {
            "ok"
        } else {
            "MISSED"
        };
        println!("{test:<5} {what:<68} {:>12}  {goal:<34} {verdict}", shown(found, unit));
        self.rows.push(Row { test, what, found, unit, goal, met });
    }

    /// Writes it all down. A missed goal is a failure, and so is a run that found nothing.
    pub fn end(self) -> ExitCode {
        if self.rows.is_empty() {
            println!("\nnothing ran, so nothing is shown");
            return ExitCode::FAILURE;
        }
        let missed: Vec<&Row> = self.rows.iter().filter(|row| !row.met).collect();
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| json!({"test": row.test, "what": row.what, "found": row.found, "unit": row.unit, "goal": row.goal, "met": row.met}))
            .collect();
        let seconds = self.started.elapsed().as_secs();
        let report = json!({
            "commit": evidence::commit(), "machine": self.machine, "machineAtEnd": evidence::machine(), "seconds": seconds, "met": missed.is_empty(), "notes": self.notes, "figures": rows,
        });
        match evidence::write(&self.name, &report) {
            Ok(path) => println!("\n{} figures in {seconds} s, {} goals missed; {}", rows.len(), missed.len(), path.display()),
            Err(error) => println!("\nthe report could not be written: {error}"),
        }
        if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn shown(value: f64, unit: &str) -> String {
    if value.is_nan() {
        return "none".to_owned();
    }
    let digits = if value.fract() == 0.0 || value.abs() >= 1_000.0 { 0 } else { 2 };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

/// Times, to be looked at in order.
#[derive(Clone, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn extend(&mut self, other: Times) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In milliseconds; of nothing it is no number, which meets no goal.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (sorted.len() as f64 * percent / 100.0) as usize;
        sorted.get(place.min(sorted.len().saturating_sub(1))).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

/// A bound that is not below what the machine makes of it. Where there is no bound, no figure is within it (`f64::max` would forget that).
pub fn above_noise(bound: f64, noise: f64) -> f64 {
    if bound < noise { noise } else { bound }
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
