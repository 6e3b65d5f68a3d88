//! The stand that tests put a gateway on: targets as processes, a gateway before them, and a look at what either leaves behind.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, Command};
use transom_tests::process::{self, Builder, stdio_entry};
use transom_tests::target::{echo, hold, target_at};
use transom_tests::{Process, sys, unique};

/// The gateway under test, for the report.
pub fn binary() -> String {
    process::binary().display().to_string()
}

/// A port of loopback that was free a moment ago.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// A gateway to be, whose metrics are at a port we know.
pub fn gateway() -> (Builder, String) {
    let port = free_port();
    let builder = transom_tests::process().config(|config| config["metrics"]["listen"] = json!(format!("127.0.0.1:{port}")));
    (builder, format!("http://127.0.0.1:{port}/metrics"))
}

/// A target that is a process, with a journal of what it executed. Its one tool is called after it and takes `nonce` and `ms`.
pub struct Backend {
    pub name: String,
    kind: Kind,
    journal: PathBuf,
}

enum Kind {
    /// A child of the gateway, found by this mark.
    Stdio(String),
    /// A process of ours, on a port that is held while it is down.
    Http { _held: TcpSocket, port: u16, child: Option<Child> },
}

impl Backend {
    pub fn stdio(name: &str, folder: &Path) -> Backend {
        Backend { name: name.into(), kind: Kind::Stdio(unique("faults")), journal: folder.join(format!("{name}.journal")) }
    }

    pub async fn http(name: &str, folder: &Path) -> Backend {
        let (held, port) = hold();
        let kind = Kind::Http { _held: held, port, child: None };
        let mut backend = Backend { name: name.into(), kind, journal: folder.join(format!("{name}.journal")) };
        backend.start().await;
        backend
    }

    pub fn is_http(&self) -> bool {
        matches!(self.kind, Kind::Http { .. })
    }

    /// Itself in the gateway's config.
    pub fn entry(&self, timeout: &str) -> Value {
        let mut entry = match &self.kind {
            Kind::Stdio(mark) => stdio_entry(&self.name, json!({"tools": [self.name], "mark": mark, "journal": self.journal, "lifeSeconds": 3600})),
            Kind::Http { port, .. } => json!({"name": self.name, "mcp": {"host": format!("http://127.0.0.1:{port}/mcp")}}),
        };
        entry["timeout"] = json!(timeout);
        entry
    }

    /// Starts the process of an HTTP target; returns when it accepts connections.
    pub async fn start(&mut self) {
        let journal = self.journal.display().to_string();
        let Kind::Http { port, child, .. } = &mut self.kind else { return };
        let behaviour = json!({"name": self.name, "port": port, "journal": journal}).to_string();
        // This very program, also if another one has been built in its place since.
        let mut command = Command::new("/proc/self/exe");
        command.args(["http-target", &behaviour]).stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
        *child = Some(command.spawn().expect("a target starts"));
        let address = (std::net::Ipv4Addr::LOCALHOST, *port);
        transom_tests::within(Duration::from_secs(20), "a target listens", || async { TcpStream::connect(address).await.is_ok() }).await;
    }

    /// The process that runs now.
    pub fn pid(&self) -> Option<i32> {
        match &self.kind {
            Kind::Stdio(mark) => sys::marked(mark).first().map(|process| process.pid),
            Kind::Http { child, .. } => child.as_ref().and_then(|child| child.id()).and_then(|pid| i32::try_from(pid).ok()),
        }
    }

    /// Ends the process with SIGKILL. An HTTP target is started again at once, as its supervisor would do; a child is the gateway's business.
    /// Returns since when it can be in service again.
    pub async fn kill(&mut self) -> Option<Instant> {
        sys::signal(self.pid()?, libc::SIGKILL);
        if let Kind::Http { child: Some(child), .. } = &mut self.kind {
            child.wait().await.ok();
            self.start().await;
        }
        Some(Instant::now())
    }

    /// How often each nonce was executed.
    pub fn executed(&self) -> HashMap<String, usize> {
        let mut executed = HashMap::new();
        for line in transom_tests::stdio::journal(&self.journal, "call") {
            *executed.entry(line.rsplit(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        executed
    }
}

/// The role `http-target`: serves until its parent is gone.
pub fn serve(behaviour: &str) {
    let behaviour: Value = serde_json::from_str(behaviour).expect("the argument is JSON");
    let name: &'static str = behaviour["name"].as_str().unwrap_or_default().to_owned().leak();
    let port = behaviour["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    let journal = PathBuf::from(behaviour["journal"].as_str().unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let target = target_at(name, port).tool(name, ["nonce", "ms"]).handler(name, move |arguments, context| {
            let journal = journal.clone();
            async move {
                let line = format!("call {name} {}\n", arguments["nonce"].as_str().unwrap_or_default());
                // One write of a short line at the end of a file is not torn.
                let written = std::fs::OpenOptions::new().create(true).append(true).open(&journal);
                written.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes())).expect("a journal");
                tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0))).await;
                Ok(echo(name, &context.tool, &arguments))
            }
        });
        tokio::io::stdin().read_to_end(&mut Vec::new()).await.ok();
        drop(target);
    });
}

/// What a gateway holds: calls under way, descriptors, threads, children, zombies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holds {
    pub pending: usize,
    pub descriptors: usize,
    pub threads: usize,
    pub children: usize,
    pub zombies: usize,
}

pub async fn holds(gateway: &Process, metrics: &str) -> Holds {
    let page = page(gateway, metrics).await;
    let series = |name: &str| transom_tests::gateway::metric(&page, name).max(0.0) as usize;
    let children = gateway.children();
    let zombies = children.iter().filter(|child| child.state == 'Z').count();
    Holds {
        pending: series(UNDER_WAY) + series("transom_target_in_flight"),
        descriptors: sys::descriptors(gateway.pid()),
        threads: sys::threads(gateway.pid()),
        children: children.len() - zombies,
        zombies,
    }
}

/// The metrics of a gateway that lives. One that is gone, or cannot be read, must not look as if it held nothing, so it ends the test.
async fn page(gateway: &Process, metrics: &str) -> String {
    let mut found = String::new();
    for _ in 0..25 {
        let lives = sys::process(gateway.pid()).is_some_and(|process| process.state != 'Z');
        assert!(lives, "the gateway is gone: {}", gateway.stderr().lines().last().unwrap_or_default());
        match gateway.http.try_send("GET", metrics, &[], "").await.map(|page| (page.status, page.text())) {
            Ok((200, text)) if text.contains(&format!("{UNDER_WAY} ")) => return text,
            Ok((status, text)) => found = format!("{status} {}", text.chars().take(300).collect::<String>()),
            Err(error) => found = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the metrics cannot be read, after five seconds: {found}");
}

/// A series that is always there.
const UNDER_WAY: &str = "transom_requests_in_flight";

/// What is held beyond what was held before, once there was time to let go. Calls and processes are counted one by one; a pool of connections or
/// threads may be some larger than it was.
pub async fn leaked(gateway: &Process, metrics: &str, before: Holds, patience: Duration) -> (usize, Holds) {
    let start = Instant::now();
    loop {
        let now = holds(gateway, metrics).await;
        let beyond = |now: usize, before: usize, spare: usize| now.saturating_sub(before + spare);
        let leaked = now.pending
            + now.zombies
            + beyond(now.children, before.children, 0)
            + beyond(now.descriptors, before.descriptors, SPARE_DESCRIPTORS)
            + beyond(now.threads, before.threads, SPARE_THREADS);
        if leaked == 0 || start.elapsed() > patience {
            return (leaked, now);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

const SPARE_DESCRIPTORS: usize = 5;
/// tokio's threads for blocking work come and go.
const SPARE_THREADS: usize = 5;

/// Two states of a gateway, for the report.
pub fn change(before: Holds, after: Holds) -> String {
    format!(
        "fds {}→{}, threads {}→{}, children {}→{}",
        before.descriptors, after.descriptors, before.threads, after.threads, before.children, after.children
    )
}
