//! What stands behind the gateway in a soak: servers of both kinds, a registry that changes, and a way to kill them.

use crate::stand::{Stand, get};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use transom_tests::client::{MODERN, connect};
use transom_tests::process::stdio_entry;
use transom_tests::target::{Era, Target, Transport, echo};
use transom_tests::{process, stdio, sys, target, unique};

/// How often each nonce was executed.
type Journal = Arc<Mutex<HashMap<String, usize>>>;

/// The virtual tools that every edition of the registry has, and their targets.
const VIRTUAL: [(&str, &str); 3] = [("virtual_web", "web"), ("virtual_events", "events"), ("virtual_pipe", "pipe")];
/// An edition may answer for so long after the next one was published. The watcher takes up to three seconds.
const RELOADED: Duration = Duration::from_secs(5);

/// The editions of the registry, by number.
#[derive(Clone)]
pub struct Editions(Arc<Mutex<Vec<Edition>>>);

struct Edition {
    published: Instant,
    answered: bool,
}

impl Editions {
    fn new() -> Editions {
        let editions = Editions(Arc::default());
        editions.add();
        editions
    }

    fn known(&self) -> MutexGuard<'_, Vec<Edition>> {
        self.0.lock().expect("the editions")
    }

    /// The number of one more.
    fn add(&self) -> usize {
        let mut known = self.known();
        known.push(Edition { published: Instant::now(), answered: false });
        known.len() - 1
    }

    /// The number of the newest, which is how many were published after the first.
    pub fn newest(&self) -> usize {
        self.known().len() - 1
    }

    /// A call that was asked at this time is answered by this edition: whether it may be.
    pub fn answers(&self, edition: u64, asked: Instant) -> bool {
        let (mut known, number) = (self.known(), usize::try_from(edition).unwrap_or(usize::MAX));
        let in_time = known.get(number.saturating_add(1)).is_none_or(|next| asked < next.published + RELOADED);
        let Some(edition) = known.get_mut(number) else { return false };
        edition.answered |= in_time;
        in_time
    }

    /// How many of those after the first have answered.
    pub fn answered(&self) -> usize {
        self.known().iter().skip(1).filter(|edition| edition.answered).count()
    }
}

pub struct Scene {
    pub stand: Stand,
    pub editions: Editions,
    /// Servers that were really there to be killed.
    pub killed: usize,
    /// Whose turn it is.
    turn: usize,
    servers: [Target; 2],
    journal: Journal,
    stdio_journal: PathBuf,
    marks: [String; 2],
    down: Option<(usize, Instant)>,
    _folder: tempfile::TempDir,
}

/// A server whose tools answer with what they were called with, and write it down.
fn server(name: &str, journal: &Journal) -> Target {
    let mut server = target(name);
    for tool in ["plain", "raw"] {
        let (journal, name, tool_name) = (journal.clone(), name.to_owned(), tool.to_owned());
        server = server.tool(tool, ["nonce", "secret", "edition"]).handler(tool, move |arguments, _| {
            if let (Ok(mut journal), Some(nonce)) = (journal.lock(), arguments["nonce"].as_str()) {
                *journal.entry(nonce.to_owned()).or_default() += 1;
            }
            let answer = echo(&name, &tool_name, &arguments);
            async move { Ok(answer) }
        });
    }
    server.slow("slow", Duration::from_millis(500))
}

fn registry(edition: usize) -> Value {
    let tool = |name: &str, target: &str| {
        json!({
            "name": name, "description": format!("Edition {edition} of {name}"), "source": {"target": target, "tool": "raw"},
            "defaults": {"secret": "hidden", "edition": edition}, "hideFields": ["secret", "edition"],
            "outputSchema": {"type": "object", "properties": {
                "nonce": {"type": "string", "sourceField": "$.arguments.nonce"},
                "edition": {"type": "integer", "sourceField": "$.arguments.edition"},
            }},
        })
    };
    // One tool comes and goes, so that lists change.
    let mut tools: Vec<Value> = VIRTUAL.iter().map(|(name, target)| tool(name, target)).collect();
    if edition % 2 == 1 {
        tools.push(tool("sometimes", "web"));
    }
    json!({"tools": tools})
}

impl Scene {
    pub async fn set() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::default();
        let servers = [server("web", &journal), server("events", &journal).era(Era::Both).transport(Transport::Events)];
        let stdio_journal = folder.path().join("journal");
        let marks = [unique("soak-pipe"), unique("soak-line")];
        let tools: Vec<Value> = ["plain", "raw", "sleep"]
            .iter()
            .map(|name| json!({"name": name, "inputSchema": {"type": "object", "properties": {"nonce": {}, "secret": {}, "edition": {}}}}))
            .collect();
        let child = |mark: &str, era: &str| json!({"tools": tools, "era": era, "mark": mark, "journal": stdio_journal, "lifeSeconds": 7 * 24 * 3600});
        let document = folder.path().join("registry.json");
        std::fs::write(&document, registry(0).to_string()).expect("a registry");
        let builder = process()
            .target(&servers[0])
            .target(&servers[1])
            .entry(stdio_entry("pipe", child(&marks[0], "legacy")))
            .entry(stdio_entry("line", child(&marks[1], "both")))
            .config(|config| {
                config["registry"] = json!({"source": format!("file://{}", document.display())});
                // Less than clients wait: whatever happens, they are told.
                config["policies"] = json!({"defaultTimeout": "20s"});
            });
        let stand = Stand::start(builder).await;
        Scene { stand, editions: Editions::new(), killed: 0, turn: 0, servers, journal, stdio_journal, marks, down: None, _folder: folder }
    }

    /// Puts another edition of the registry in the place of the last one.
    pub fn publish_next(&mut self) {
        // Known before it is there: nobody may be answered by an edition that is not.
        let edition = self.editions.add();
        let (document, new) = (self._folder.path().join("registry.json"), self._folder.path().join("registry.new"));
        std::fs::write(&new, registry(edition).to_string()).and_then(|()| std::fs::rename(&new, &document)).expect("a registry is published");
        // What servers remember for tests is not needed here.
        self.servers.iter().for_each(Target::clear);
    }

    /// Kills the next one in turn: a child, or a server, which comes back after two seconds.
    pub fn kill_one(&mut self) {
        let which = self.turn % 4;
        self.turn += 1;
        let killed = match which {
            0 | 2 => {
                let child = sys::marked(self.marks.get(which / 2).map_or("", String::as_str))
                    .into_iter()
                    .find(|child| child.parent == self.stand.process.pid());
                child.is_some_and(|child| sys::signal(child.pid, libc::SIGKILL))
            }
            _ => {
                let number = which / 2;
                let server = self.servers.get(number).filter(|_| self.down.is_none());
                if let Some(server) = server {
                    server.stop();
                    self.down = Some((number, Instant::now()));
                }
                server.is_some()
            }
        };
        self.killed += usize::from(killed);
    }

    /// Brings back a server that has been down for two seconds.
    pub fn revive(&mut self) {
        if self.down.is_some_and(|(_, since)| since.elapsed() > Duration::from_secs(2)) {
            self.revive_all();
        }
    }

    pub fn revive_all(&mut self) {
        if let Some((number, _)) = self.down.take()
            && let Some(server) = self.servers.get(number)
        {
            server.start();
        }
    }

    /// Waits until everything is in service.
    pub async fn rest(&self) {
        let address = self.stand.address;
        transom_tests::within(Duration::from_secs(120), "every target is in service", || async move {
            get(address, "/ready").await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    /// What the process holds when nobody asks it anything any more. Idle connections are given their time to end.
    pub async fn settle(&self, pid: i32, files: usize) -> super::Holds {
        let start = Instant::now();
        loop {
            let now = super::Holds::of(pid);
            if now.files <= files + 5 || start.elapsed() > Duration::from_secs(150) {
                return now;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The virtual tools that do not answer with the newest edition, and what they do instead.
    pub async fn behind(&self) -> Vec<String> {
        let (client, newest) = (connect(format!("http://{}/mcp", self.stand.address), MODERN).open().await, self.editions.newest());
        let mut behind = Vec::new();
        for (tool, _) in VIRTUAL {
            let reply = client.call(tool, json!({"nonce": unique("last")})).await;
            if reply.message["result"]["structuredContent"]["edition"] != json!(newest) {
                behind.push(format!("{tool}, edition {newest}: {} {:?}", reply.raw, reply.lost));
            }
        }
        behind
    }

    /// Calls that a server executed more than once.
    pub fn doubled(&self) -> usize {
        let mut counts = self.journal.lock().map(|journal| journal.clone()).unwrap_or_default();
        for line in stdio::journal(&self.stdio_journal, "call") {
            if let Some(nonce) = line.split(' ').nth(2) {
                *counts.entry(nonce.to_owned()).or_default() += 1;
            }
        }
        counts.values().filter(|count| **count > 1).count()
    }
}
