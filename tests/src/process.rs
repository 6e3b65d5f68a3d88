//! The real binary as a process: on a free port, with a config in a folder of its own (R-003-42).

use crate::client::{self, Client, LEGACY};
use crate::http::{Http, Response};
use crate::stdio;
use crate::sys::{self, ProcessInfo};
use crate::target::{Target, Transport};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// The binary `transom`, built if need be. `TRANSOM_BIN` names another one.
pub fn binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    if let Some(path) = std::env::var_os("TRANSOM_BIN") {
        return path.into();
    }
    let folder = folder();
    if !in_deps()
        && let Some(path) = beside("transom")
    {
        return path;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["build", "--quiet", "--package", "transom-cli", "--bin", "transom"]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "the binary does not build");
    folder.join("transom")
}

/// A binary that cargo put beside this one.
pub fn beside(name: &str) -> Option<PathBuf> {
    Some(folder().join(name)).filter(|path| path.exists())
}

/// Where cargo puts binaries: a test lives one folder further down.
fn folder() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its own path");
    let folder = own.parent().expect("a program lives in a folder");
    if in_deps() { folder.parent().unwrap_or(folder).to_owned() } else { folder.to_owned() }
}

fn in_deps() -> bool {
    std::env::current_exe().is_ok_and(|own| own.parent().is_some_and(|folder| folder.ends_with("deps")))
}

/// A process to be.
pub struct Builder {
    binary: PathBuf,
    before: Option<String>,
    stderr: Option<Stdio>,
    config: Value,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    with_config: bool,
    under: Vec<String>,
}

/// The binary with a config that has no targets yet.
pub fn process() -> Builder {
    let free = json!({"listen": "127.0.0.1:0"});
    let config = json!({"listen": "127.0.0.1:0", "admin": free, "metrics": free, "backends": [{"mcp": {"targets": []}}]});
    let binary = std::env::var_os("TRANSOM_BIN").map_or_else(PathBuf::new, PathBuf::from);
    Builder { binary, before: None, stderr: None, config, arguments: Vec::new(), environment: Vec::new(), with_config: true, under: Vec::new() }
}

impl Builder {
    pub fn target(self, target: &Target) -> Builder {
        let kind = if target.spec().transport.label() == "tcp" && target.url().ends_with("/sse") { Transport::LegacySse } else { Transport::Json };
        let host = json!({"host": target.url()});
        let entry =
            if kind == Transport::LegacySse { json!({"name": target.name(), "sse": host}) } else { json!({"name": target.name(), "mcp": host}) };
        self.entry(entry)
    }

    /// A child process that behaves like this; see [`stdio`].
    pub fn stdio(self, name: &str, behaviour: Value) -> Builder {
        let entry = stdio_entry(name, behaviour);
        self.entry(entry)
    }

    /// A target as the config writes it.
    pub fn entry(mut self, entry: Value) -> Builder {
        if let Some(targets) = self.config["backends"][0]["mcp"]["targets"].as_array_mut() {
            targets.push(entry);
        }
        self
    }

    pub fn config(mut self, change: impl FnOnce(&mut Value)) -> Builder {
        change(&mut self.config);
        self
    }

    /// Another build of it.
    pub fn binary(mut self, path: PathBuf) -> Builder {
        self.binary = path;
        self
    }

    /// What a shell does in the same process before it becomes the gateway: `ulimit -f 8`.
    pub fn after(mut self, script: &str) -> Builder {
        self.before = Some(script.into());
        self
    }

    /// Where its log goes; a file in its folder unless this says otherwise.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Builder {
        self.stderr = Some(stderr.into());
        self
    }

    /// No config file at all.
    pub fn without_config(mut self) -> Builder {
        self.with_config = false;
        self
    }

    pub fn argument(mut self, argument: &str) -> Builder {
        self.arguments.push(argument.into());
        self
    }

    /// Started by this program, which becomes it: `prlimit`, `setpriv`, `ip netns exec`.
    pub fn under(mut self, command: &[&str]) -> Builder {
        self.under = command.iter().map(|part| (*part).to_owned()).collect();
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Builder {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts it and waits until `/health` answers.
    pub async fn start(self) -> Process {
        let mut process = self.spawn();
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            if let Ok(url) = std::fs::read_to_string(process.folder.path().join("url"))
                && !url.trim().is_empty()
            {
                process.url = url.trim().to_owned();
                if process.http.try_send("GET", &process.url("/health"), &[], "").await.is_ok_and(|response| response.status == 200) {
                    return process;
                }
            }
            if let Ok(Some(status)) = process.child.try_wait() {
                panic!("it ended with {status}: {}", process.stderr());
            }
            assert!(Instant::now() < limit, "not up after twenty seconds: {}", process.stderr());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts it and waits for `/ready`.
    pub async fn start_ready(self) -> Process {
        let process = self.start().await;
        crate::eventually("the process is ready", || async { process.get("/ready").await.status == 200 }).await;
        process
    }

    /// Starts it and waits for nothing.
    pub fn spawn(self) -> Process {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("config.yaml");
        let stderr = self.stderr.unwrap_or_else(|| std::fs::File::create(folder.path().join("stderr")).expect("a file").into());
        let stdout = std::fs::File::create(folder.path().join("stdout")).expect("a file");
        let program = if self.binary.as_os_str().is_empty() { binary() } else { self.binary };
        let mut command = match (&self.before, self.under.split_first()) {
            (None, None) => Command::new(program),
            (None, Some((first, arguments))) => {
                // Whoever it becomes may be somebody else.
                use std::os::unix::fs::PermissionsExt;
                std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("a folder for anybody");
                let mut command = Command::new(first);
                command.args(arguments).arg(program);
                command
            }
            (Some(script), _) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("{script}\nexec \"$0\" \"$@\"")).arg(program);
                shell
            }
        };
        command.arg("run");
        if self.with_config {
            std::fs::write(&config, serde_json::to_string_pretty(&self.config).expect("JSON")).expect("a config is written");
            command.arg("-f").arg(&config);
        }
        command.arg("--url-file").arg(folder.path().join("url")).arg("--pid-file").arg(folder.path().join("pid"));
        command.args(&self.arguments).env("XDG_STATE_HOME", folder.path()).env("XDG_RUNTIME_DIR", folder.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(stdout).stderr(stderr).kill_on_drop(true);
        let child = command.spawn().expect("the binary starts");
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).expect("a running process has an id");
        Process { folder, config: self.config, child, pid, url: String::new(), http: Http::new() }
    }
}

/// A stdio target as the config writes it.
pub fn stdio_entry(name: &str, mut behaviour: Value) -> Value {
    behaviour["name"] = json!(name);
    json!({"name": name, "stdio": {"cmd": stdio::binary().display().to_string(), "args": [behaviour.to_string()]}})
}

/// A process that runs; killed when dropped.
pub struct Process {
    pub folder: TempDir,
    pub http: Http,
    /// What the config file says.
    pub config: Value,
    child: Child,
    pid: i32,
    url: String,
}

impl Process {
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub async fn get(&self, path: &str) -> Response {
        self.http.get(&self.url(path)).await
    }

    pub async fn client(&self) -> Client {
        client::connect(self.url("/mcp"), LEGACY).open().await
    }

    /// Writes the config anew, in place.
    pub fn rewrite(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.config);
        std::fs::write(self.folder.path().join("config.yaml"), self.config.to_string()).expect("a config is written");
    }

    pub fn signal(&self, signal: i32) {
        sys::signal(self.pid, signal);
    }

    /// Its children, zombies too.
    pub fn children(&self) -> Vec<ProcessInfo> {
        sys::children(self.pid)
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> ExitStatus {
        tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await.expect("it ends within a minute").expect("its status is known")
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    pub fn stdout(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stdout")).unwrap_or_default()
    }

    /// Lines of the log that contain every one of these texts.
    pub fn log(&self, texts: &[&str]) -> Vec<String> {
        self.stderr().lines().filter(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned).collect()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
