//! The table, as it grows, and what is left of it at the end: JSON, a picture, a verdict.

use crate::Run;
use crate::picture;
use crate::rows::Pair;
use serde_json::{Value, json};
use std::process::ExitCode;
use transom_tests::evidence;

/// What a figure counts.
#[derive(Clone, Copy)]
pub enum Unit {
    Milliseconds,
    Mebibytes,
    Kibibytes,
    Times,
}

impl Unit {
    fn text(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Mebibytes => "MiB",
            Unit::Kibibytes => "KiB",
            Unit::Times => "×",
        }
    }
}

/// A request's cost against the bare proxy's, as something grows.
pub struct Curve {
    /// `call` or `list`.
    pub of: &'static str,
    pub along: &'static str,
    pub points: Vec<(usize, f64)>,
    /// What such a request may cost at all, for the picture. The curve is judged by how it grows.
    pub bar: f64,
}

impl Curve {
    pub fn of_calls(along: &'static str) -> Curve {
        Curve { of: "call", along, points: Vec::new(), bar: 1.6 }
    }

    pub fn of_lists(along: &'static str) -> Curve {
        Curve { of: "list", along, points: Vec::new(), bar: 1.0 }
    }

    pub fn point(&mut self, at: usize, ratio: f64) {
        self.points.push((at, ratio));
    }

    /// The last point against the first; no number if there are not two.
    fn growth(&self) -> f64 {
        match self.points.as_slice() {
            [(_, first), .., (_, last)] => last / first,
            _ => f64::NAN,
        }
    }
}

/// What the last point of a curve may be, against the first.
const FLAT: f64 = 1.10;

/// What each hundred percent of slack allow one run of the gateway above another. Where the gateway is measured against itself, a bar of `+5 %` says
/// that nothing is added, and what is found instead is the noise of the machine: that is as large for a small bar as for a large one, so it is added
/// and not multiplied with. CI asks for 200 %: its rounds of a second, of a gateway built in a hurry, have been 40 % apart; there `+5 %` is judged as
/// `+85 %`, and a curve may be 1.9.
const NOISE: f64 = 0.4;

/// Whether a figure is within its bar, and whether it is with the slack of this run.
#[derive(Clone, Copy)]
struct Verdict {
    met: bool,
    met_with_slack: bool,
}

impl Verdict {
    fn of(value: f64, bar: f64, with_slack: f64) -> Verdict {
        Verdict { met: value <= bar, met_with_slack: value <= with_slack }
    }

    /// Of the gateway against itself.
    fn of_growth(run: &Run, ratio: f64, bar: f64) -> Verdict {
        Verdict::of(ratio, bar, bar + NOISE * (run.slack - 1.0))
    }

    /// A row of the report with its verdict.
    fn on(self, mut row: Value) -> Value {
        row["met"] = self.met.into();
        row["metWithSlack"] = self.met_with_slack.into();
        row
    }
}

#[derive(Default)]
pub struct Report {
    rows: Vec<Value>,
    curves: Vec<Curve>,
    curve_rows: Vec<Value>,
    missed: Vec<String>,
}

impl Report {
    pub fn heading(&mut self, text: &str) {
        println!("\n{text:<42}{:>12}{:>18}{:>10}{:>9}  verdict", "measured", "rounds", "must", "aim");
    }

    /// A ratio to the bare proxy.
    pub fn ratio(&mut self, run: &Run, label: &str, mut pair: Pair, must: f64, aim: f64) {
        let range = format!("{:.2} to {:.2}", pair.ratios.first().unwrap_or(&f64::NAN), pair.ratios.last().unwrap_or(&f64::NAN));
        let (bare, ours) = (pair.limit.cpu_per_request(), pair.ours.cpu_per_request());
        let ratio = pair.ratio();
        let verdict = Verdict::of(ratio, must, must * run.slack);
        self.line(label, &format!("{ratio:.2} ×"), &range, &format!("{must:.2} ×"), &format!("{aim:.2} ×"), verdict);
        println!("    bare {bare:.1} µs, gateway {ours:.1} µs; p99 {:.1} and {:.1} ms", pair.limit.percentile(99.0), pair.ours.percentile(99.0));
        let row = json!({"what": label, "ratio": ratio, "rounds": pair.ratios, "must": must, "aim": aim, "bareMicroseconds": bare, "gatewayMicroseconds": ours});
        self.rows.push(verdict.on(row));
    }

    /// What a gateway costs more than another, in percent.
    pub fn increase(&mut self, run: &Run, label: &str, pair: Pair, must: f64, aim: f64) {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let more = percent(pair.ratio());
        let range =
            format!("{:+.0} to {:+.0} %", percent(*pair.ratios.first().unwrap_or(&f64::NAN)), percent(*pair.ratios.last().unwrap_or(&f64::NAN)));
        let verdict = Verdict::of_growth(run, pair.ratio(), 1.0 + must / 100.0);
        self.line(label, &format!("{more:+.1} %"), &range, &format!("{must:+.0} %"), &format!("{aim:+.0} %"), verdict);
        self.rows.push(verdict.on(json!({"what": label, "percent": more, "rounds": pair.ratios, "must": must, "aim": aim})));
    }

    /// Something counted.
    pub fn figure(&mut self, run: &Run, label: &str, value: f64, unit: Unit, must: f64, aim: f64) {
        let text = |value: f64| format!("{value:.1} {}", unit.text());
        // A session takes the same memory on a busy machine and in another build; all else has some of either.
        let slack = if matches!(unit, Unit::Kibibytes) { 1.0 } else { run.slack };
        let verdict = Verdict::of(value, must, must * slack);
        self.line(label, &text(value), "", &text(must), &text(aim), verdict);
        self.rows.push(verdict.on(json!({"what": label, "value": value, "unit": unit.text(), "must": must, "aim": aim})));
    }

    pub fn curve(&mut self, run: &Run, curve: Curve) {
        let points: Vec<String> = curve.points.iter().map(|(at, ratio)| format!("{at}: {ratio:.2} ×")).collect();
        println!("\n{}, by number of {}\n    {}", curve.of, curve.along, points.join("   "));
        let growth = curve.growth();
        let verdict = Verdict::of_growth(run, growth, FLAT);
        self.line(&format!("{} by {}: last to first", curve.of, curve.along), &format!("{growth:.2} ×"), "", &format!("{FLAT:.2} ×"), "", verdict);
        let row = json!({"of": curve.of, "along": curve.along, "points": curve.points, "lastToFirst": growth, "must": FLAT});
        self.curve_rows.push(verdict.on(row));
        self.curves.push(curve);
    }

    fn line(&mut self, label: &str, measured: &str, range: &str, must: &str, aim: &str, verdict: Verdict) {
        let text = match verdict {
            Verdict { met: true, .. } => "met",
            Verdict { met_with_slack: true, .. } => "above, within the slack",
            Verdict { .. } => "MISSED",
        };
        println!("{label:<42}{measured:>12}{range:>18}{must:>10}{aim:>9}  {text}");
        if !verdict.met_with_slack {
            self.missed.push(format!("{label}: {measured}, must be at most {must}"));
        }
    }

    /// Writes everything down and says whether all of it was reached.
    pub fn finish(self, run: &Run) -> ExitCode {
        if self.rows.is_empty() && self.curves.is_empty() {
            println!("\nnothing was measured: no row has `{}` in its name, nor is it `footprint`, `compile` or `curves`", run.only);
            return ExitCode::FAILURE;
        }
        let met = self.rows.iter().chain(&self.curve_rows).all(|row| row["met"] == true);
        let report = json!({
            "commit": evidence::commit(), "machine": evidence::machine(), "options": run.options(), "met": met, "metWithSlack": self.missed.is_empty(),
            "rows": self.rows, "curves": self.curve_rows, "missed": self.missed,
        });
        let written = evidence::write(&evidence::name_of("bench", run.short, &run.only), &report).expect("a place for the report");
        println!("\nwritten to {}", written.display());
        if !self.curves.is_empty() {
            let picture = written.with_extension("svg");
            std::fs::write(&picture, picture::draw(&self.curves)).expect("a place for the picture");
            println!("drawn in {}", picture.display());
        }
        for missed in &self.missed {
            println!("MISSED  {missed}");
        }
        if self.missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
