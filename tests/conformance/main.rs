//! The official conformance suite, run against a server, and against the gateway in front of that server.
//!
//! `make conformance` shows the tables. The server is [`server.mjs`](server.mjs): what fails without a gateway is a fault of ours in there and not the
//! gateway's. Through the gateway every check must come out as it does without one: a check that is merely no longer made counts as failed, and so does a
//! warning, and one that then says there is nothing to judge. What cannot pass is in `expected-failures.json` with its reason, and must fail.
//!
//! The scenarios for clients judge what the gateway sends to a server: there a scenario is the gateway's target, and [`client.mjs`](client.mjs) drives it.
//! There is no run without a gateway to compare these with, so each must have a check that passes and none that is skipped.

mod expected;
mod runner;

use expected::{Expected, Judged, Played, judge, judge_by_itself};
use runner::{CLIENT_SCENARIOS, SUITES, Verdicts};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use transom_tests::children::{Background, PATIENCE};
use transom_tests::evidence;
use transom_tests::install::{folder, have, node};
use transom_tests::process::process;
use transom_tests::table::Table;
use transom_tests::{Era, target, within};

/// More at once would make each other late: some checks wait a second and no longer.
const AT_ONCE: usize = 2;

/// What stands before the scenarios of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setup {
    /// What the table calls it.
    title: &'static str,
    /// How the gateway speaks to the server, or nothing without a gateway.
    era: Option<&'static str>,
    /// How many targets the gateway has.
    targets: usize,
}

const SETUPS: [Setup; 5] = [
    Setup { title: "no gateway", era: None, targets: 0 },
    Setup { title: "1 legacy", era: Some("legacy"), targets: 1 },
    Setup { title: "1 modern", era: Some("modern"), targets: 1 },
    Setup { title: "3 legacy", era: Some("legacy"), targets: 3 },
    Setup { title: "3 modern", era: Some("modern"), targets: 3 },
];

#[tokio::test]
async fn a_server_conforms_through_the_gateway_as_it_does_alone() {
    if !have(&["node"]) {
        return;
    }
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut runs = JoinSet::new();
    for (place, setup) in SETUPS.into_iter().enumerate() {
        let turns = turns.clone();
        runs.spawn(async move {
            let _turn = turns.acquire_owned().await;
            (place, suites(setup).await)
        });
    }
    let mut all: Vec<(usize, Vec<Verdicts>)> = runs.join_all().await;
    all.sort_by_key(|(place, _)| *place);

    let expected = Expected::read();
    let mut table =
        Table::new("the scenarios for servers, by what they talk to: passed / failed / expected to fail", SETUPS.map(|setup| setup.title));
    let (mut faults, mut played, mut figures) = (Vec::new(), Played::new(), Vec::new());
    for (line, suite) in SUITES.iter().enumerate() {
        let alone = &all[0].1[line];
        let cells = SETUPS.iter().zip(&all).map(|(setup, (_, verdicts))| {
            let place = setup.era.unwrap_or("alone");
            played.extend(verdicts[line].scenarios().map(|scenario| (place, suite.revision, scenario)));
            let judged = judge(&verdicts[line], alone, &expected.of(place, suite.revision));
            faults.extend(judged.faults.iter().map(|fault| format!("{}, {}: {fault}", suite.title, setup.title)));
            figures.push(json!({"suite": suite.title, "with": setup.title, "checks": judged.json()}));
            judged.cell()
        });
        table.line(suite.title, cells.collect());
    }
    faults.extend(expected.never_played(&["alone", "legacy", "modern"], &played));
    table.print();
    report("servers", &figures, &faults);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Every suite against one server of its own.
async fn suites(setup: Setup) -> Vec<Verdicts> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("url");
    let mut command = Command::new(node());
    let server = Background::start("server.mjs", command.arg(folder("conformance").join("server.mjs")).arg(&file));
    let url = || std::fs::read_to_string(&file).unwrap_or_default();
    within(PATIENCE, "the server listens", || async { url().ends_with("/mcp") }).await;
    let alone = url();
    // Two small servers of either era with lists of their own: nothing of theirs may get in the way.
    let tickets = target("tickets").tool("find_ticket", ["query"]).prompt("summarize").resource("ticket://newest").era(Era::Legacy("2025-11-25"));
    let notes = target("notes").tool("add_note", ["text"]).resource("note://first").template("note://{name}").era(Era::Modern);
    let gateway = match setup.era {
        None => None,
        Some(era) => {
            let mut builder = process();
            builder = builder.entry(json!({"name": "conformance", "mcp": {"host": alone}, "era": era, "allowServerRequests": true}));
            if setup.targets > 1 {
                builder = builder.target(&tickets).target(&notes);
            }
            Some(builder.start_ready().await)
        }
    };
    let url = gateway.as_ref().map_or(alone, |gateway| gateway.url("/mcp"));
    let mut all = Vec::new();
    for suite in &SUITES {
        all.push(runner::server(suite, &url).await);
    }
    drop((gateway, server));
    all
}

#[tokio::test]
async fn what_the_gateway_sends_to_a_server_conforms() {
    if !have(&["node"]) {
        return;
    }
    let expected = Expected::read();
    let mut table = Table::new("the scenarios for clients, by revision: passed / failed / expected to fail", runner::REVISIONS);
    let (mut faults, mut played, mut figures) = (Vec::new(), Played::new(), Vec::new());
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut runs = JoinSet::new();
    for (scenario, revisions) in CLIENT_SCENARIOS {
        for revision in *revisions {
            let turns = turns.clone();
            runs.spawn(async move {
                let _turn = turns.acquire_owned().await;
                (*scenario, *revision, runner::client(scenario, revision).await)
            });
        }
    }
    let all = runs.join_all().await;
    for (scenario, _) in CLIENT_SCENARIOS {
        let cells = runner::REVISIONS.iter().map(|revision| {
            let Some((_, _, verdicts)) = all.iter().find(|(name, of, _)| name == scenario && of == revision) else { return String::new() };
            played.insert(("client", *revision, *scenario));
            let judged: Judged = judge_by_itself(verdicts, scenario, &expected.of("client", revision));
            faults.extend(judged.faults.iter().map(|fault| format!("{revision}: {fault}")));
            figures.push(json!({"scenario": scenario, "revision": revision, "checks": judged.json()}));
            judged.cell()
        });
        let cells = cells.collect();
        table.line(scenario, cells);
    }
    faults.extend(expected.never_played(&["client"], &played));
    table.print();
    report("clients", &figures, &faults);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Writes the figures of one table down, beside those of the other.
fn report(part: &str, figures: &[Value], faults: &[String]) {
    let written = evidence::write_part("conformance.json", part, json!({"figures": figures, "faults": faults})).expect("a place for the report");
    println!("  written to {}\n", written.display());
}
