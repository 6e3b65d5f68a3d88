//! The official runner: which suites, how it is called, and what it wrote down.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::process::Command;
use transom_tests::children::run;
use transom_tests::install::{folder, node, package};
use transom_tests::process::binary;

pub const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// Scenarios that the runner plays in one go.
pub struct Suite {
    pub title: &'static str,
    pub revision: &'static str,
    arguments: &'static [&'static str],
}

/// All there is for a revision, and what was frozen as its requirements.
pub const SUITES: [Suite; 5] = [
    Suite { title: "2025-06-18", revision: "2025-06-18", arguments: &["--suite", "all", "--spec-version", "2025-06-18"] },
    Suite { title: "2025-11-25", revision: "2025-11-25", arguments: &["--suite", "all", "--spec-version", "2025-11-25"] },
    Suite { title: "2026-07-28", revision: "2026-07-28", arguments: &["--suite", "all", "--spec-version", "2026-07-28"] },
    Suite { title: "2025-11-25 required", revision: "2025-11-25", arguments: &["--requirements", "2025-11-25"] },
    Suite { title: "2026-07-28 required", revision: "2026-07-28", arguments: &["--requirements", "2026-07-28"] },
];

/// What judges a gateway as a client, and in which revisions. `auth/*` is left out: there the client fetches tokens, and a gateway has none to fetch.
pub const CLIENT_SCENARIOS: &[(&str, &[&str])] = &[
    ("initialize", &["2025-06-18", "2025-11-25"]),
    ("tools_call", &REVISIONS),
    ("elicitation-sep1034-client-defaults", &["2025-11-25"]),
    ("sse-retry", &["2025-11-25"]),
    ("json-schema-2020-12-preservation", &["2025-11-25", "2026-07-28"]),
    ("json-schema-ref-no-deref", &["2026-07-28"]),
    ("request-metadata", &["2026-07-28"]),
    ("sep-2322-client-request-state", &["2026-07-28"]),
    ("http-standard-headers", &["2026-07-28"]),
    ("http-custom-headers", &["2026-07-28"]),
    ("http-invalid-tool-headers", &["2026-07-28"]),
];

/// How a check came out: several of one name are as good as the worst of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Was not made.
    Skipped,
    /// Looked, and found that there is nothing to judge: an option that a server may leave out.
    Noted,
    Passed,
    Failed(String),
}

/// What a run says, by scenario and check.
#[derive(Default)]
pub struct Verdicts {
    pub checks: BTreeMap<(String, String), Verdict>,
    /// How many checks passed, as the runner counts them: one by one.
    pub passed: usize,
}

/// Plays a suite against the server at `url`.
pub async fn server(suite: &Suite, url: &str) -> Verdicts {
    let output = tempfile::tempdir().expect("a temporary directory");
    let mut command = runner("server", output.path());
    run(command.args(["--url", url]).args(suite.arguments)).await;
    Verdicts::read(output.path(), "server-")
}

/// Plays a scenario whose server is the only target of a gateway.
pub async fn client(scenario: &str, revision: &str) -> Verdicts {
    let output = tempfile::tempdir().expect("a temporary directory");
    let mut command = runner("client", output.path());
    let driver = format!("{} {}", node().display(), folder("conformance").join("client.mjs").display());
    run(command.args(["--command", &driver, "--scenario", scenario, "--spec-version", revision]).env("TRANSOM_BIN", binary())).await;
    Verdicts::read(output.path(), "")
}

fn runner(mode: &str, output: &Path) -> Command {
    let mut command = Command::new(node());
    command.arg(package("@modelcontextprotocol/conformance/dist/index.js")).arg(mode).arg("--output-dir").arg(output);
    command
}

impl Verdicts {
    /// One folder per scenario, called PREFIX-SCENARIO-TIME, with a file of checks. The exit status is of no use: it knows nothing of what we expect.
    fn read(output: &Path, prefix: &str) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let folders = std::fs::read_dir(output).expect("the runner wrote results");
        for folder in folders.map(|entry| entry.expect("a folder")) {
            let name = folder.file_name().to_string_lossy().into_owned();
            let (scenario, _time) = name.split_at(name.len().saturating_sub("-2026-01-01T00-00-00-000Z".len()));
            let scenario = scenario.strip_prefix(prefix).unwrap_or(scenario);
            let checks = std::fs::read_to_string(folder.path().join("checks.json")).unwrap_or_else(|error| panic!("{name}: {error}"));
            let checks: Vec<Value> = serde_json::from_str(&checks).unwrap_or_else(|error| panic!("{name}: {error}"));
            for check in checks {
                verdicts.add(scenario, &check);
            }
        }
        assert!(!verdicts.checks.is_empty(), "nothing was judged at all: does the runner run?");
        verdicts
    }

    pub fn scenarios(&self) -> impl Iterator<Item = &str> {
        self.checks.keys().map(|(scenario, _)| scenario.as_str())
    }

    pub fn has_played(&self, scenario: &str) -> bool {
        self.scenarios().any(|played| played == scenario)
    }

    fn add(&mut self, scenario: &str, check: &Value) {
        let text = |member: &str| check[member].as_str().unwrap_or_default().to_owned();
        let verdict = match check["status"].as_str() {
            Some("SUCCESS") => Verdict::Passed,
            Some("FAILURE" | "WARNING") => Verdict::Failed(text("errorMessage")),
            Some("INFO") => Verdict::Noted,
            _ => Verdict::Skipped,
        };
        self.passed += usize::from(verdict == Verdict::Passed);
        let known = self.checks.entry((scenario.to_owned(), text("id"))).or_insert(Verdict::Skipped);
        *known = verdict.max(known.clone());
    }
}
