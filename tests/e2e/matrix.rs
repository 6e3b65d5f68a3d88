//! Every client × every server, through one gateway: what each pair can do, it does. `make e2e` shows the table.
//!
//! A client takes all its steps in one conversation, so a row is one process. That each answer is the server's own, to the last member, is told in
//! `every_client.rs`; here it only has to be the right one.

use crate::gateway::{Gateway, gateway};
use crate::servers::{HttpServer, everything_stdio, fetch, filesystem, git, memory, modern, time, web};
use crate::talk::{Sdk, call, call_with_progress, cancel, change, list};
use crate::{inspector, rust_client};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use transom_tests::children::stdout;
use transom_tests::install::have;
use transom_tests::table::Table;

/// As many conversations as there are cores on a small machine.
const AT_ONCE: usize = 2;

const SERVERS: [&str; 7] = ["everything", "memory", "filesystem", "time", "git", "fetch", "fastmcp"];

#[derive(Clone, Copy, Debug)]
enum Client {
    Sdk(Sdk),
    Rmcp { is_modern: bool },
    Inspector,
}

const CLIENTS: [(&str, Client); 10] = [
    ("Python, legacy", Client::Sdk(Sdk::PythonLegacy)),
    ("Python, auto", Client::Sdk(Sdk::PythonAuto)),
    ("TypeScript 1", Client::Sdk(Sdk::TypeScriptOne)),
    ("TypeScript 2, legacy", Client::Sdk(Sdk::TypeScriptLegacy)),
    ("TypeScript 2, modern", Client::Sdk(Sdk::TypeScriptModern)),
    ("FastMCP, legacy", Client::Sdk(Sdk::FastMcpLegacy)),
    ("FastMCP, auto", Client::Sdk(Sdk::FastMcpAuto)),
    ("rmcp, legacy", Client::Rmcp { is_modern: false }),
    ("rmcp, modern", Client::Rmcp { is_modern: true }),
    ("Inspector CLI", Client::Inspector),
];

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
}

fn deed(server: &'static str, name: &'static str, step: Value, says: &[&str]) -> Deed {
    Deed { server, name, step, says: says.iter().map(|text| (*text).to_owned()).collect(), fails: name == "error" }
}

/// Where things are that the servers are asked about.
struct Places {
    folder: tempfile::TempDir,
    web: String,
}

/// What a client does with every server. The key is for what must not meet what another client does.
fn deeds(places: &Places, key: &str) -> Vec<Deed> {
    let (root, page, nowhere) = (places.folder.path(), format!("{}/page", places.web), format!("{}/nowhere", places.web));
    let (files, repository) = (root.join("files"), root.join("repository"));
    let entity = json!({"entities": [{"name": key, "entityType": "client", "observations": ["was here"]}]});
    let tokyo = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let mars = json!({"source_timezone": "Mars/Olympus", "time": "12:00", "target_timezone": "UTC"});
    let grown = format!("grown_{key}");
    vec![
        deed("everything", "list", list("tools"), &["\"echo\"", "\"trigger-long-running-operation\""]),
        deed("everything", "call", call("echo", json!({"message": key})), &[&format!("Echo: {key}")]),
        deed("everything", "error", call("echo", json!({"message": 7})), &[]),
        deed(
            "everything",
            "progress",
            call_with_progress("trigger-long-running-operation", json!({"duration": 0.4, "steps": 2})),
            &["[[1,2],[2,2]]", "completed"],
        ),
        deed("memory", "list", list("tools"), &["\"create_entities\"", "\"read_graph\""]),
        deed("memory", "call", call("create_entities", entity), &[key, "was here"]),
        deed("memory", "error", call("create_entities", json!({})), &[]),
        deed("filesystem", "list", list("tools"), &["\"list_directory\"", "\"write_file\""]),
        deed("filesystem", "call", call("list_directory", json!({"path": files})), &["hello.txt"]),
        deed("filesystem", "error", call("list_directory", json!({"path": "/"})), &["denied"]),
        deed("time", "list", list("tools"), &["\"convert_time\""]),
        deed("time", "call", call("convert_time", tokyo), &["T21:00:00+09:00"]),
        deed("time", "error", call("convert_time", mars), &["Mars"]),
        deed("git", "list", list("tools"), &["\"git_log\""]),
        deed("git", "call", call("git_log", json!({"repo_path": repository})), &["the first commit"]),
        deed("git", "error", call("git_log", json!({"repo_path": files})), &[]),
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

    /// The inspector is started anew for each question, and can ask for lists and results only.
    fn is_for_the_inspector(&self) -> bool {
        match self.name {
            "list" => self.server == "everything",
            "error" => self.server == "fastmcp",
            name => name == "call",
        }
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
            (place, row(client, &url, deeds(&places, &format!("client{place}"))).await)
        });
    }
    let mut rows = rows.join_all().await;
    rows.sort_by_key(|(place, _)| *place);

    let mut table = Table::new("every client, by server: what was done", SERVERS);
    let mut faults = Vec::new();
    for (place, cells) in rows {
        let name = CLIENTS[place].0;
        faults.extend(cells.iter().flat_map(|cell| &cell.faults).map(|fault| format!("{name}: {fault}")));
        table.line(name, cells.iter().map(Cell::text).collect());
    }
    table.print();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
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
        everything_stdio("everything"),
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
    faults: Vec<String>,
}

impl Cell {
    fn text(&self) -> String {
        if self.faults.is_empty() { self.done.join(" ") } else { "FAILED".into() }
    }
}

/// All that a client does, by server.
async fn row(client: Client, url: &str, deeds: Vec<Deed>) -> Vec<Cell> {
    let deeds: Vec<Deed> = match client {
        Client::Inspector => deeds.into_iter().filter(Deed::is_for_the_inspector).collect(),
        _ => deeds,
    };
    let steps: Vec<Value> = deeds.iter().map(|deed| deed.step.clone()).collect();
    let replies = match client {
        Client::Sdk(sdk) => {
            let talk = sdk.talk(url, &steps).await;
            assert_eq!(talk.revision, sdk.revision(), "{sdk:?}");
            talk.replies
        }
        Client::Rmcp { is_modern } => rust_client::talk(url, is_modern, &steps).await,
        Client::Inspector => inspected(url, &steps).await,
    };
    let mut cells: Vec<Cell> = SERVERS.iter().map(|_| Cell::default()).collect();
    for (deed, reply) in deeds.iter().zip(&replies) {
        let servers = SERVERS.iter().zip(&mut cells);
        for (_, cell) in servers.filter(|(server, _)| **server == deed.server) {
            cell.faults.extend(deed.fault(reply).map(|fault| format!("{}, {fault}", deed.server)));
            if !cell.done.contains(&deed.name) {
                cell.done.push(deed.name);
            }
        }
    }
    cells
}

async fn inspected(url: &str, steps: &[Value]) -> Vec<Value> {
    let mut replies = Vec::new();
    for step in steps {
        let reply = match step["call"].as_str() {
            None => inspector::ask(url, "modern", &["--method", "tools/list"]).await,
            Some(tool) => {
                let arguments = step["arguments"].to_string();
                inspector::ask(url, "modern", &["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &arguments]).await
            }
        };
        replies.push(reply.1);
    }
    replies
}
