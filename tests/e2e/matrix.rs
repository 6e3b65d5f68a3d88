//! Every client × every server, through one gateway: what each pair can do, it does, and what it cannot do has a reason. `make e2e` shows the table.
//!
//! A client takes all its steps in one conversation, so a row is one process, but for the inspector, which is started anew for each question. That each answer is the server's own, to the last member, is told in
//! `every_client.rs`; here it only has to be the right one.

use crate::gateway::{Gateway, gateway, resource};
use crate::servers::{HttpServer, everything_overheard, fetch, filesystem, git, memory, modern, time, web};
use crate::talk::{Sdk, call, call_with_progress, cancel, change, change_resources, list};
use crate::{inspector, rust_client};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use transom_tests::children::stdout;
use transom_tests::evidence;
use transom_tests::install::have;
use transom_tests::table::Table;

/// As many conversations as there are cores on a small machine.
const AT_ONCE: usize = 2;

const SERVERS: [&str; 7] = ["everything", "memory", "filesystem", "time", "git", "fetch", "fastmcp"];

const DEEDS: [&str; 6] = ["list", "call", "error", "progress", "cancel", "change"];

#[derive(Clone, Copy, Debug)]
enum Client {
    Sdk(Sdk),
    Rmcp { is_modern: bool },
    Inspector { era: &'static str },
}

const CLIENTS: [(&str, Client); 11] = [
    ("Python, legacy", Client::Sdk(Sdk::PythonLegacy)),
    ("Python, auto", Client::Sdk(Sdk::PythonAuto)),
    ("TypeScript 1", Client::Sdk(Sdk::TypeScriptOne)),
    ("TypeScript 2, legacy", Client::Sdk(Sdk::TypeScriptLegacy)),
    ("TypeScript 2, modern", Client::Sdk(Sdk::TypeScriptModern)),
    ("FastMCP, legacy", Client::Sdk(Sdk::FastMcpLegacy)),
    ("FastMCP, auto", Client::Sdk(Sdk::FastMcpAuto)),
    ("rmcp, legacy", Client::Rmcp { is_modern: false }),
    ("rmcp, modern", Client::Rmcp { is_modern: true }),
    ("Inspector CLI, legacy", Client::Inspector { era: "legacy" }),
    ("Inspector CLI, modern", Client::Inspector { era: "modern" }),
];

/// What some pairs cannot do.
struct Gap {
    who: &'static str,
    fits: fn(Client, &str) -> bool,
    deeds: &'static [&'static str],
    why: &'static str,
}

const GAPS: [Gap; 3] = [
    Gap {
        who: "Inspector CLI",
        fits: |client, _| matches!(client, Client::Inspector { .. }),
        deeds: &["progress", "cancel", "change"],
        why: "asks one thing, prints the answer and nothing that came before it, and ends",
    },
    Gap {
        who: "memory, filesystem, time, git, fetch",
        fits: |_, server| !matches!(server, "everything" | "fastmcp"),
        deeds: &["progress", "cancel"],
        why: "say nothing of a call until it is done, so there is no progress; nearly all calls are done before they could be taken back",
    },
    Gap {
        who: "memory, filesystem, time, git, fetch",
        fits: |_, server| !matches!(server, "everything" | "fastmcp"),
        deeds: &["change"],
        why: "have lists that stay as they are",
    },
];

fn is_gap(client: Client, server: &str, deed: &str) -> bool {
    GAPS.iter().any(|gap| gap.deeds.contains(&deed) && (gap.fits)(client, server))
}

/// Something that a pair does.
struct Deed {
    server: &'static str,
    /// What the table calls it.
    name: &'static str,
    step: Value,
    /// The answer says this somewhere.
    says: Vec<String>,
    /// Whether the answer must be an error, of the tool or of the protocol.
    fails: bool,
    /// Whether the server must have been told that the call is cancelled. FastMCP's server is asked; this is for one that does not say.
    is_overheard: bool,
}

fn deed(server: &'static str, name: &'static str, step: Value, says: &[&str]) -> Deed {
    let says = says.iter().map(|text| (*text).to_owned()).collect();
    Deed { server, name, step, says, fails: name == "error", is_overheard: (server, name) == ("everything", "cancel") }
}

/// Where things are that the servers are asked about.
struct Places {
    folder: tempfile::TempDir,
    web: String,
}

impl Places {
    /// What the gateway said to `everything`, a message a line.
    fn overheard(&self) -> PathBuf {
        self.folder.path().join("overheard")
    }
}

/// What a client does with every server. The number is for what must not meet what another client does.
fn deeds(places: &Places, number: usize) -> Vec<Deed> {
    let key = &format!("client{number}");
    let (root, page, nowhere) = (places.folder.path(), format!("{}/page", places.web), format!("{}/nowhere", places.web));
    let (files, repository) = (root.join("files"), root.join("repository"));
    let entity = json!({"entities": [{"name": key, "entityType": "client", "observations": ["was here"]}]});
    let tokyo = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let mars = json!({"source_timezone": "Mars/Olympus", "time": "12:00", "target_timezone": "UTC"});
    let grown = format!("grown_{key}");
    // As long as nobody else's, so that the call can be told from others, and longer than anybody waits.
    let long = json!({"duration": 30 + number, "steps": 100});
    let zipped = resource("everything", &format!("demo://resource/session/{key}.gz"));
    vec![
        deed("everything", "list", list("tools"), &["\"echo\"", "\"trigger-long-running-operation\""]),
        deed("everything", "call", call("echo", json!({"message": key})), &[&format!("Echo: {key}")]),
        deed("everything", "error", call("echo", json!({"message": 7})), &["expected string"]),
        deed(
            "everything",
            "progress",
            call_with_progress("trigger-long-running-operation", json!({"duration": 0.4, "steps": 2})),
            &["[[1,2],[2,2]]", "completed"],
        ),
        deed("everything", "cancel", cancel("trigger-long-running-operation", long), &["true"]),
        // Its tools stay, its resources do not.
        deed(
            "everything",
            "change",
            change_resources("gzip-file-as-resource", json!({"name": format!("{key}.gz"), "data": "data:,hello"}), &zipped),
            &["true"],
        ),
        deed("memory", "list", list("tools"), &["\"create_entities\"", "\"read_graph\""]),
        deed("memory", "call", call("create_entities", entity), &[key, "was here"]),
        deed("memory", "error", call("create_entities", json!({})), &["entities"]),
        deed("filesystem", "list", list("tools"), &["\"list_directory\"", "\"write_file\""]),
        deed("filesystem", "call", call("list_directory", json!({"path": files})), &["hello.txt"]),
        deed("filesystem", "error", call("list_directory", json!({"path": "/"})), &["denied"]),
        deed("time", "list", list("tools"), &["\"convert_time\""]),
        deed("time", "call", call("convert_time", tokyo), &["T21:00:00+09:00"]),
        deed("time", "error", call("convert_time", mars), &["Mars"]),
        deed("git", "list", list("tools"), &["\"git_log\""]),
        deed("git", "call", call("git_log", json!({"repo_path": repository})), &["the first commit"]),
        deed("git", "error", call("git_log", json!({"repo_path": files})), &["/files"]),
        deed("fetch", "list", list("tools"), &["\"fetch\""]),
        deed("fetch", "call", call("fetch", json!({"url": page})), &["a page for Transom"]),
        deed("fetch", "error", call("fetch", json!({"url": nowhere})), &["404"]),
        deed("fastmcp", "list", list("tools"), &["\"add\"", "\"refuse\""]),
        deed("fastmcp", "call", call("add", json!({"a": 2, "b": 40})), &["42"]),
        deed("fastmcp", "error", call("refuse", json!({})), &["not today"]),
        deed("fastmcp", "progress", call_with_progress("count", json!({"to": 2})), &["[[1,2],[2,2]]", "counted to 2"]),
        deed("fastmcp", "cancel", cancel("wait", json!({"key": key})), &["true"]),
        // The server has to know it too.
        deed("fastmcp", "cancel", call("was_cancelled", json!({"key": key})), &["true"]),
        deed("fastmcp", "change", change("grow", json!({"key": key}), &grown), &["true"]),
    ]
}

impl Deed {
    /// What is wrong with the answer.
    fn fault(&self, reply: &Value) -> Option<String> {
        let text = reply.to_string();
        let failed = reply["error"].is_object() || reply["isError"] == true || reply["result"]["isError"] == true;
        if failed == self.fails && self.says.iter().all(|part| text.contains(part)) {
            return None;
        }
        Some(format!("{}: {} answered {}", self.name, self.step, text.chars().take(600).collect::<String>()))
    }
}

#[tokio::test]
async fn every_client_does_with_every_server_what_the_two_can_do() {
    if !have(&["node", "venv"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let places = Arc::new(Places { web: web().await, folder });
    let (gateway, _fastmcp) = stage(places.folder.path()).await;
    let (url, turns) = (gateway.mcp(), Arc::new(Semaphore::new(AT_ONCE)));
    let mut rows = JoinSet::new();
    for (place, (_, client)) in CLIENTS.into_iter().enumerate() {
        let (places, url, turns) = (places.clone(), url.clone(), turns.clone());
        rows.spawn(async move {
            let _turn = turns.acquire_owned().await;
            let deeds = deeds(&places, place).into_iter().filter(|deed| !is_gap(client, deed.server, deed.name)).collect();
            (place, row(client, &url, deeds, &places.overheard()).await)
        });
    }
    let mut rows = rows.join_all().await;
    rows.sort_by_key(|(place, _)| *place);

    let title = format!("every client, by server: {}; ✓ done, ✗ failed, – cannot be", DEEDS.join(", "));
    let mut table = Table::new(&title, SERVERS);
    let (mut faults, mut figures) = (Vec::new(), Vec::new());
    for (place, cells) in rows {
        let (name, client) = CLIENTS[place];
        faults.extend(cells.iter().flat_map(|cell| &cell.faults).map(|fault| format!("{name}: {fault}")));
        let mut marks = Vec::new();
        for (server, cell) in SERVERS.iter().zip(&cells) {
            let outcomes = DEEDS.map(|deed| cell.outcome(client, server, deed));
            marks.push(outcomes.map(Outcome::mark).join(" "));
            let by_deed: Map<String, Value> = DEEDS.iter().zip(outcomes).map(|(deed, outcome)| ((*deed).to_owned(), outcome.word().into())).collect();
            figures.push(json!({"client": name, "server": server, "deeds": by_deed}));
        }
        table.line(name, marks);
    }
    table.print();
    for gap in &GAPS {
        println!("  – {}: {}: {}", gap.who, gap.deeds.join(", "), gap.why);
    }
    let gaps: Vec<Value> = GAPS.iter().map(|gap| json!({"who": gap.who, "deeds": gap.deeds, "why": gap.why})).collect();
    let report = json!({"commit": evidence::commit(), "machine": evidence::machine(), "figures": figures, "cannot": gaps, "faults": faults});
    println!("\n  written to {}\n", evidence::write("e2e.json", &report).expect("a place for the report").display());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    let open: Vec<&Value> = figures.iter().filter(|figure| figure.to_string().contains("left out")).collect();
    assert!(open.is_empty(), "neither done nor explained: {open:?}");
}

/// The gateway before all the servers.
async fn stage(root: &Path) -> (Gateway, HttpServer) {
    let (files, repository) = (root.join("files"), root.join("repository"));
    std::fs::create_dir_all(&files).expect("a folder");
    std::fs::create_dir_all(&repository).expect("a folder");
    std::fs::write(files.join("hello.txt"), "hello").expect("a file");
    let who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    for arguments in [vec!["init", "--quiet"], [&who[..], &["commit", "--quiet", "--allow-empty", "--message", "the first commit"]].concat()] {
        stdout(Command::new("git").current_dir(&repository).args(arguments)).await;
    }
    let fastmcp = modern().await;
    let targets = vec![
        everything_overheard("everything", &root.join("overheard")),
        memory(&root.join("graph.jsonl")),
        filesystem(&files),
        time(),
        git(&repository),
        fetch(),
        fastmcp.target("fastmcp"),
    ];
    (gateway(targets).await, fastmcp)
}

/// What a pair did.
#[derive(Default)]
struct Cell {
    done: Vec<&'static str>,
    failed: Vec<&'static str>,
    faults: Vec<String>,
}

/// How a deed of a pair came out.
#[derive(Clone, Copy)]
enum Outcome {
    Done,
    Failed,
    Gap,
    LeftOut,
}

impl Cell {
    fn outcome(&self, client: Client, server: &str, deed: &str) -> Outcome {
        match () {
            () if self.failed.contains(&deed) => Outcome::Failed,
            () if self.done.contains(&deed) => Outcome::Done,
            () if is_gap(client, server, deed) => Outcome::Gap,
            () => Outcome::LeftOut,
        }
    }
}

impl Outcome {
    fn mark(self) -> &'static str {
        match self {
            Outcome::Done => "✓",
            Outcome::Failed => "✗",
            Outcome::Gap => "–",
            Outcome::LeftOut => "?",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Gap => "cannot",
            Outcome::LeftOut => "left out",
        }
    }
}

/// All that a client does, by server.
async fn row(client: Client, url: &str, deeds: Vec<Deed>, overheard: &Path) -> Vec<Cell> {
    let steps: Vec<Value> = deeds.iter().map(|deed| deed.step.clone()).collect();
    let replies = match client {
        Client::Sdk(sdk) => {
            let talk = sdk.talk(url, &steps).await;
            assert_eq!(talk.revision, sdk.revision(), "{sdk:?}");
            talk.replies
        }
        Client::Rmcp { is_modern } => rust_client::talk(url, is_modern, &steps).await,
        Client::Inspector { era } => inspected(url, era, &steps).await,
    };
    let mut cells: Vec<Cell> = SERVERS.iter().map(|_| Cell::default()).collect();
    for (deed, reply) in deeds.iter().zip(&replies) {
        let mut fault = deed.fault(reply);
        if fault.is_none() && deed.is_overheard && !heard_of_cancellation(overheard, &deed.step["arguments"]).await {
            fault = Some(format!("{}: {}: the server was not told", deed.name, deed.step));
        }
        let servers = SERVERS.iter().zip(&mut cells);
        for (_, cell) in servers.filter(|(server, _)| **server == deed.server) {
            if fault.is_some() { &mut cell.failed } else { &mut cell.done }.push(deed.name);
            cell.faults.extend(fault.iter().map(|fault| format!("{}, {fault}", deed.server)));
        }
    }
    cells
}

/// Whether the gateway told a server that the call with these arguments is cancelled, or does within ten seconds.
async fn heard_of_cancellation(overheard: &Path, arguments: &Value) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        let text = std::fs::read_to_string(overheard).unwrap_or_default();
        let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let calls = messages.iter().filter(|message| message["method"] == "tools/call" && message["params"]["arguments"] == *arguments);
        let mut cancelled = messages.iter().filter(|message| message["method"] == "notifications/cancelled");
        let ids: Vec<&Value> = calls.map(|call| &call["id"]).collect();
        if cancelled.any(|message| ids.contains(&&message["params"]["requestId"])) {
            return true;
        }
        sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn inspected(url: &str, era: &str, steps: &[Value]) -> Vec<Value> {
    let mut replies = Vec::new();
    for step in steps {
        let reply = match step["call"].as_str() {
            None => inspector::ask(url, era, &["--method", "tools/list"]).await,
            Some(tool) => {
                let arguments = step["arguments"].to_string();
                inspector::ask(url, era, &["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &arguments]).await
            }
        };
        replies.push(reply.1);
    }
    replies
}
