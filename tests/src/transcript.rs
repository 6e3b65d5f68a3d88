//! Shell sessions written down for people, played back against the real binary.
//!
//! A line `$ command` is typed; what follows is what it must print, standard error included. `…` stands for anything within a line,
//! a line `…` for any number of lines, and `[exit 5]` for an exit code that is not 0. Blank lines at the end of an output do not
//! count; a line `# …` after a blank one, or before the first command, is a remark.
//!
//! A command that ends in `&` stays in the background until the session ends. If it is `transom run`, it gets a free port and the
//! session goes on when it is ready; commands then find it by `$URL` (`$ADMIN` and `$METRICS` for its side listeners) and the client
//! verbs by themselves. `$PORT` is a free port for whatever else has to listen.

use crate::http::Http;
use crate::process::binary;
use crate::sys;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// How long one command may take, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command and what it must print.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it stands, from 1.
    pub line: usize,
    /// What is typed.
    pub command: String,
    /// What comes back.
    pub expected: Vec<String>,
}

/// The steps of a transcript.
pub fn read(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut remarks = true;
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { line: at + 1, command: command.into(), expected: Vec::new() }),
            _ if remarks && line.starts_with("# ") => continue,
            (None, Some(step)) => step.expected.push(line.into()),
            (None, None) => assert!(line.is_empty(), "line {}: output before any command: {line}", at + 1),
        }
        remarks = line.is_empty();
    }
    steps.iter_mut().for_each(|step| trim(&mut step.expected));
    steps
}

fn trim(lines: &mut Vec<String>) {
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
}

/// Whether the lines are as expected.
pub fn fits(expected: &[String], lines: &[String]) -> bool {
    match expected {
        [] => lines.is_empty(),
        [any, rest @ ..] if any == "…" => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        [first, rest @ ..] => lines.first().is_some_and(|line| line_fits(first, line)) && fits(rest, &lines[1..]),
    }
}

fn line_fits(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// A shell with the binary in its path, in a folder, with nobody else's settings.
pub struct Session {
    folder: PathBuf,
    home: TempDir,
    environment: Vec<(String, String)>,
    background: Vec<Child>,
    gateways: usize,
}

impl Session {
    /// Begins in this folder.
    pub fn new(folder: &Path) -> Session {
        let home = tempfile::tempdir().expect("a folder");
        let bin = home.path().join("bin");
        std::fs::create_dir(&bin).expect("a folder");
        std::os::unix::fs::symlink(binary(), bin.join("transom")).expect("a link to the binary");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        let home_text = home.path().display().to_string();
        let environment = [
            ("PATH", path),
            ("HOME", home_text.clone()),
            ("XDG_STATE_HOME", home_text.clone()),
            ("XDG_RUNTIME_DIR", home_text),
            ("NO_COLOR", "1".into()),
            ("PORT", free.to_string()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        Session { folder: folder.to_owned(), home, environment, background: Vec::new(), gateways: 0 }
    }

    /// With a variable; a later one of the same name counts.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.into(), value.into()));
    }

    /// What a variable is.
    pub fn get(&self, name: &str) -> &str {
        self.environment.iter().rev().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// Plays a transcript to its end.
    pub async fn play(&mut self, transcript: &Path) {
        let text = std::fs::read_to_string(transcript).unwrap_or_else(|error| panic!("{}: {error}", transcript.display()));
        let steps = read(&text);
        assert!(!steps.is_empty(), "{} says nothing", transcript.display());
        for step in steps {
            let place = format!("{}:{}", transcript.display(), step.line);
            let printed = match step.command.strip_suffix('&') {
                Some(command) if command.trim_start().starts_with("transom run ") => {
                    self.gateway(command).await;
                    Vec::new()
                }
                Some(command) => {
                    self.start(command);
                    Vec::new()
                }
                None => self.run(&step.command).await,
            };
            let (expected, found) = (step.expected.join("\n"), printed.join("\n"));
            assert!(
                fits(&step.expected, &printed),
                "{place}\n$ {}\n--- expected\n{expected}\n--- printed\n{found}\n---{}",
                step.command,
                self.logs()
            );
        }
    }

    /// Runs a command to its end; what it printed, and `[exit N]` if it did not succeed.
    pub async fn run(&self, command: &str) -> Vec<String> {
        let mut shell = self.shell(&format!("exec 2>&1\n{command}"));
        let child = shell.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a shell starts");
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {command}{}", self.logs())).expect("its output");
        let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end().to_owned()).collect();
        trim(&mut lines);
        if !output.status.success() {
            lines.push(format!("[exit {}]", output.status.code().unwrap_or(-1)));
        }
        lines
    }

    /// Starts a gateway on a free port and waits until it is ready.
    pub async fn gateway(&mut self, command: &str) {
        self.gateways += 1;
        let url_file = self.home.path().join(format!("url-{}", self.gateways));
        let command = command.trim().replacen("transom run ", &format!("exec transom run --port 0 --url-file {} ", url_file.display()), 1);
        let process = self.start(&command);
        let http = Http::new();
        crate::within(PATIENCE, &format!("ready: {command}"), || async {
            assert!(sys::process(process).is_some_and(|process| process.state != 'Z'), "it ended: {command}{}", self.logs());
            let Ok(url) = std::fs::read_to_string(&url_file) else { return false };
            http.try_send("GET", &format!("{}/ready", url.trim()), &[], "").await.is_ok_and(|response| response.status == 200)
        })
        .await;
        let url = std::fs::read_to_string(&url_file).expect("a URL").trim().to_owned();
        // Said only if they are not where everybody looks.
        let log = std::fs::read_to_string(self.folder.join("gateway.log")).unwrap_or_default();
        let side = |name: &str, usual: &str| {
            let mut said = log.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(" on ")?.split_whitespace().next());
            said.next_back().unwrap_or(usual).to_owned()
        };
        let (admin, metrics) = (side("admin", "http://127.0.0.1:15000"), side("metrics", "http://127.0.0.1:15020"));
        for (name, value) in [("TRANSOM_URL", format!("{url}/mcp")), ("URL", url), ("ADMIN", admin), ("METRICS", metrics)] {
            self.set(name, &value);
        }
    }

    /// Ends what is in the background, and with it the session.
    pub async fn end(mut self) {
        self.signal(libc::SIGTERM);
        for child in &mut self.background {
            tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends when it is asked to").expect("its status is known");
        }
    }

    /// To the groups: what a shell started has no other way to hear of it.
    fn signal(&self, signal: i32) {
        for pid in self.background.iter().filter_map(|child| child.id().and_then(|pid| i32::try_from(pid).ok())) {
            sys::signal_group(pid, signal);
        }
    }

    fn start(&mut self, command: &str) -> i32 {
        // In a group of its own, so that everything it starts ends with it.
        let mut shell = self.shell(command);
        let child = shell.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().expect("a shell starts");
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).expect("a running process has an id");
        self.background.push(child);
        pid
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&self.folder).stdin(Stdio::null());
        shell.envs(self.environment.iter().map(|(name, value)| (name, value)));
        shell
    }

    /// What gateways of this session said last.
    fn logs(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join("gateway.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("\n--- gateway.log, its end\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
    }
}

impl Drop for Session {
    /// For tests that failed; those that did not [`end`](Session::end) in good order.
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // Gateways that a command left in the background are known by their files.
        for process in sys::marked(&self.home.path().display().to_string()) {
            sys::signal(process.pid, libc::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_transcript_is_commands_and_what_they_print() {
        let steps = read("# A remark.\n\n$ one\na\n# not a remark\n\n# a remark\n$ two\n\n\n");
        assert_eq!(
            steps,
            [
                Step { line: 3, command: "one".into(), expected: lines("a\n# not a remark") },
                Step { line: 8, command: "two".into(), expected: Vec::new() }
            ]
        );
    }

    #[test]
    fn an_ellipsis_stands_for_anything_in_a_line_or_for_lines() {
        for (expected, printed, fit) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a", "", false),
            ("", "a", false),
            ("a…", "abc", true),
            ("a…c", "abc", true),
            ("a…c", "abcd", false),
            ("…b…", "abc", true),
            ("a…b…c", "aXbYc", true),
            ("a…b…c", "aXYc", false),
            ("a…a", "a", false),
            ("…", "", true),
            ("…", "a\nb", true),
            ("a\n…\nd", "a\nb\nc\nd", true),
            ("a\n…\nd", "a\nd", true),
            ("a\n…\nd", "a\nb", false),
            ("a\n…", "b", false),
        ] {
            assert_eq!(fits(&lines(expected), &lines(printed)), fit, "{expected:?} {printed:?}");
        }
    }

    #[tokio::test]
    async fn what_a_command_prints_on_either_stream_counts_and_so_does_its_exit() {
        let folder = tempfile::tempdir().unwrap();
        let session = Session::new(folder.path());
        assert_eq!(session.run("echo out; echo err >&2; exit 3").await, ["out", "err", "[exit 3]"]);
        assert!(session.run("true").await.is_empty());
    }
}
