//! A gateway for one session of a coding agent: `transom session`, its files, and which process it stops (surfaces.md 9).

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::Command;
use transom_tests::process::{binary, stdio_entry};
use transom_tests::sys::ProcessInfo;
use transom_tests::*;

/// A user's runtime folder; whatever runs for it ends with the test.
struct Runtime {
    folder: TempDir,
}

fn runtime() -> Runtime {
    Runtime { folder: tempfile::tempdir().expect("a folder") }
}

impl Runtime {
    /// Where the sessions' files are.
    fn files(&self) -> PathBuf {
        self.folder.path().join("transom")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files().join(name)
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.files()) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.folder.path()).env("XDG_RUNTIME_DIR", self.folder.path()).env("NO_COLOR", "1").kill_on_drop(true);
        for name in ["SESSION_ID", "TRANSOM_URL", "TRANSOM_PORT", "TRANSOM_LISTEN"] {
            command.env_remove(name);
        }
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        tokio::time::timeout(Duration::from_secs(90), self.command(arguments).output()).await.expect("in time").expect("it runs")
    }

    /// Starts a session and returns its base URL.
    async fn start(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["session", "start"][..], arguments].concat()).await;
        assert!(output.status.success(), "{}", said(&output));
        url_in(&String::from_utf8_lossy(&output.stdout))
    }

    async fn stop(&self, id: &str) -> String {
        let output = self.run(&["session", "stop", "--id", id]).await;
        assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn pid(&self, id: &str) -> i32 {
        std::fs::read_to_string(self.file(&format!("{id}.pid"))).expect("a pid file").parse().expect("a pid, and nothing else")
    }

    /// Gateways of this folder.
    fn gateways(&self) -> Vec<ProcessInfo> {
        sys::marked(&self.files().display().to_string())
    }

    /// A config with one child that echoes.
    fn config(&self, name: &str, tool: &str) -> String {
        let free = json!({"listen": "127.0.0.1:0"});
        let targets = [stdio_entry(name, json!({"tools": [tool], "mark": self.folder.path()}))];
        let config = json!({"listen": "127.0.0.1:0", "admin": free, "metrics": free, "backends": [{"mcp": {"targets": targets}}]});
        let path = self.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, config.to_string()).expect("a config");
        path.display().to_string()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        for process in self.gateways() {
            sys::signal(process.pid, libc::SIGKILL);
        }
    }
}

fn said(output: &Output) -> String {
    format!("{}: {}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn url_in(exports: &str) -> String {
    let url = exports.lines().find_map(|line| line.strip_prefix("export TRANSOM_URL=")).unwrap_or_else(|| panic!("no URL: {exports}"));
    assert!(exports.contains(&format!("export TOOLSCRIPT_GATEWAY_URL={url}\n")), "{exports}");
    url.trim_matches('\'').to_owned()
}

async fn is_healthy(url: &str) -> bool {
    Http::new().try_send("GET", &format!("{url}/health"), &[], "").await.is_ok_and(|response| response.status == 200)
}

async fn tools(url: &str) -> Vec<String> {
    client::connect(format!("{url}/mcp"), client::LEGACY).open().await.tool_names().await
}

fn is_alive(pid: i32) -> bool {
    sys::process(pid).is_some_and(|process| process.state != 'Z')
}

// R-001-17, R-001-18, R-001-19
#[tokio::test]
async fn a_shell_learns_where_the_gateway_of_its_session_is() {
    let runtime = runtime();
    let config = runtime.config("child", "echo");
    let script = r#"eval "$("$0" session start --id shell -f "$1" 2> err)" && echo "$TOOLSCRIPT_GATEWAY_URL" && "$0" list"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(binary()).arg(&config).current_dir(runtime.folder.path()).env("XDG_RUNTIME_DIR", runtime.folder.path());
    let output = shell.env_remove("TRANSOM_URL").output().await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", said(&output));
    let url = printed.lines().next().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with('/'), "{printed}");
    assert!(printed.lines().any(|line| line.starts_with("echo")), "its targets are connected: {printed}");
    // The shell is gone, the gateway is not, and no terminal can take it along.
    let pid = runtime.pid("shell");
    assert!(is_healthy(url).await && is_alive(pid));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string(), "it leads a session of its own");
    sys::signal(pid, libc::SIGTERM);
    eventually("it ends on SIGTERM", || async { !is_alive(pid) }).await;
}

// R-001-20, R-001-22, R-001-23
#[tokio::test]
async fn the_pid_file_holds_the_pid_and_the_record_the_session() {
    let runtime = runtime();
    let mut command = runtime.command(&["session", "start"]);
    let output = command.env("SESSION_ID", "from-the-environment").output().await.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let url = url_in(&String::from_utf8_lossy(&output.stdout));
    let pid = runtime.pid("from-the-environment");
    assert_eq!(std::fs::read_to_string(runtime.file("from-the-environment.url")).unwrap(), url);
    let record: Value = serde_json::from_slice(&std::fs::read(runtime.file("from-the-environment.json")).unwrap()).unwrap();
    assert_eq!((&record["id"], &record["pid"]), (&json!("from-the-environment"), &json!(pid)));
    for entry in std::fs::read_dir(runtime.files()).unwrap() {
        let mode = entry.as_ref().unwrap().metadata().unwrap().permissions().mode() & 0o777;
        assert!(mode & 0o022 == 0, "{entry:?} {mode:o}");
    }
    assert_eq!(std::fs::metadata(runtime.files()).unwrap().permissions().mode() & 0o777, 0o700);
    let mut command = runtime.command(&["session", "stop"]);
    let output = command.env("SESSION_ID", "from-the-environment").output().await.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!is_alive(pid) && !is_healthy(&url).await);
    assert_eq!(runtime.names(), Vec::<String>::new(), "nothing is left");
}

// R-001-24, R-001-25. Must show: two sessions at once are independent; stop kills exactly its own.
#[tokio::test]
async fn two_sessions_are_two_gateways_and_stop_ends_exactly_one() {
    let runtime = runtime();
    let (one, two) = (runtime.config("one", "first"), runtime.config("two", "second"));
    let (one, two) = (["--id", "one", "--config", one.as_str()], ["--id", "two", "--config", two.as_str()]);
    let (one, two) = tokio::join!(runtime.start(&one), runtime.start(&two));
    assert_ne!(one, two);
    assert_eq!((tools(&one).await, tools(&two).await), (vec!["first".to_owned()], vec!["second".to_owned()]));
    let (first, second) = (runtime.pid("one"), runtime.pid("two"));
    assert!(runtime.stop("one").await.contains(&format!("process {first} has ended")));
    assert!(!is_alive(first) && is_alive(second));
    assert_eq!(tools(&two).await, ["second"], "the other one did not notice");
    assert!(runtime.stop("one").await.contains("does not run"), "a second stop is no failure");
    runtime.stop("two").await;
    assert!(!is_alive(second));
    eventually("nothing they started is left", || async { runtime.gateways().is_empty() }).await;
}

// R-001-21. Must show: after SIGKILL start works again.
#[tokio::test]
async fn after_a_sigkill_stop_cleans_up_and_start_works_again() {
    let runtime = runtime();
    let first = runtime.start(&["--id", "killed"]).await;
    let pid = runtime.pid("killed");
    sys::signal(pid, libc::SIGKILL);
    eventually("it is gone", || async { !is_alive(pid) }).await;
    assert!(runtime.file("killed.pid").exists(), "nobody could remove it");
    let again = runtime.start(&["--id", "killed"]).await;
    assert!(is_healthy(&again).await && !is_healthy(&first).await);
    assert_ne!(runtime.pid("killed"), pid);

    sys::signal(runtime.pid("killed"), libc::SIGKILL);
    eventually("it is gone", || async { runtime.gateways().is_empty() }).await;
    assert!(runtime.stop("killed").await.contains("files are removed"));
    assert_eq!(runtime.names(), Vec::<String>::new());
}

// Must show: a stale pid of another program is never killed.
#[tokio::test]
async fn a_process_that_is_not_the_gateway_of_the_session_is_never_stopped() {
    let runtime = runtime();
    runtime.start(&["--id", "real"]).await;
    let gateway = runtime.pid("real");
    let record: Value = serde_json::from_slice(&std::fs::read(runtime.file("real.json")).unwrap()).unwrap();
    let mut bystander = Command::new("sleep").arg("300").kill_on_drop(true).spawn().unwrap();
    let sleeper = i32::try_from(bystander.id().unwrap()).unwrap();
    let began = |pid: i32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
    };
    for (case, pid) in [
        ("a number given out again", sleeper),
        ("the gateway of another session", gateway),
        ("ourselves", i32::try_from(std::process::id()).unwrap()),
    ] {
        for with_record in [false, true] {
            std::fs::write(runtime.file("stale.pid"), pid.to_string()).unwrap();
            std::fs::write(runtime.file("stale.url"), "http://127.0.0.1:1").unwrap();
            if with_record {
                // Even when everything else fits.
                let mut forged = record.clone();
                (forged["id"], forged["pid"], forged["began"]) = (json!("stale"), json!(pid), json!(began(pid)));
                std::fs::write(runtime.file("stale.json"), forged.to_string()).unwrap();
            }
            assert!(runtime.stop("stale").await.contains("did not run any more"), "{case}");
            assert!(!runtime.names().iter().any(|name| name.starts_with("stale.")), "{case}: {:?}", runtime.names());
        }
    }
    // The right process, but not the one that the record means.
    let mut older = record.clone();
    older["began"] = json!(began(gateway) - 1);
    std::fs::write(runtime.file("real.json"), older.to_string()).unwrap();
    assert!(runtime.stop("real").await.contains("did not run any more"));
    assert!(is_alive(gateway), "it cannot be told apart from a stranger, so it lives");
    assert!(bystander.try_wait().unwrap().is_none());
    // Numbers that mean everybody.
    for number in ["0", "1", "-1", "4294967295", "not a number", ""] {
        std::fs::write(runtime.file("odd.pid"), number).unwrap();
        runtime.stop("odd").await;
    }
    assert!(is_alive(sleeper));
}

// Any program may have our words among its arguments.
#[tokio::test]
async fn without_a_record_only_a_process_with_our_name_is_stopped() {
    let runtime = runtime();
    runtime.start(&["--id", "real"]).await;
    let pid_file = runtime.file("stale.pid");
    std::fs::write(runtime.folder.path().join("run"), "read line\n").unwrap();
    let mut stranger = Command::new("sh");
    stranger.args(["run", "--pid-file"]).arg(&pid_file).current_dir(runtime.folder.path()).stdin(std::process::Stdio::piped()).kill_on_drop(true);
    let mut stranger = stranger.spawn().unwrap();
    std::fs::write(&pid_file, stranger.id().unwrap().to_string()).unwrap();
    assert!(runtime.stop("stale").await.contains("did not run any more"));
    assert!(stranger.try_wait().unwrap().is_none(), "it is not ours");
    // Our own gateway is known without its record too.
    let pid = runtime.pid("real");
    std::fs::remove_file(runtime.file("real.json")).unwrap();
    assert!(runtime.stop("real").await.contains(&format!("process {pid} has ended")));
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_session_is_the_same_however_its_folder_is_spelled() {
    let runtime = runtime();
    let link = runtime.folder.path().join("link");
    symlink(runtime.folder.path(), &link).unwrap();
    let doubled = format!("{}//.", runtime.folder.path().display());
    let spelled = async |folder: &str, act: &str| {
        let output = runtime.command(&["session", act, "--id", "s"]).env("XDG_RUNTIME_DIR", folder).output().await.unwrap();
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    let link = link.display().to_string();
    spelled(&link, "start").await;
    let pid = runtime.pid("s");
    for folder in [doubled.as_str(), runtime.folder.path().to_str().unwrap(), &link] {
        assert!(spelled(folder, "start").await.contains("runs already"), "{folder}");
        assert!(spelled(folder, "status").await.contains("running"), "{folder}");
    }
    assert_eq!(runtime.pid("s"), pid);
    assert!(spelled(&doubled, "stop").await.contains(&format!("process {pid} has ended")));
    assert!(!is_alive(pid) && runtime.gateways().is_empty());
}

#[tokio::test]
async fn a_session_that_runs_is_not_started_twice() {
    let runtime = runtime();
    let first = runtime.start(&["--id", "x"]).await;
    let pid = runtime.pid("x");
    assert_eq!(runtime.start(&["--id", "x"]).await, first);
    assert_eq!(runtime.pid("x"), pid);
    assert_eq!(runtime.gateways().len(), 1);
}

#[tokio::test]
async fn many_starts_of_one_session_at_once_are_one_gateway() {
    let runtime = runtime();
    let starts: Vec<_> = (0..6).map(|_| runtime.command(&["session", "start", "--id", "race", "--wait", "80"]).output()).collect();
    let mut urls = Vec::new();
    for start in starts.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
        let output = start.await.unwrap().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        urls.push(url_in(&String::from_utf8_lossy(&output.stdout)));
    }
    urls.dedup();
    assert_eq!(urls.len(), 1, "{urls:?}");
    assert_eq!(runtime.gateways().len(), 1);
    assert_eq!(runtime.names(), ["race.json", "race.log", "race.pid", "race.url"], "no lock is left");
}

#[tokio::test]
async fn variables_go_into_a_file_if_asked() {
    let runtime = runtime();
    let file = runtime.folder.path().join("env");
    std::fs::write(&file, "export BEFORE=1").unwrap();
    let output = runtime.run(&["session", "start", "--id", "env", "--env-file", file.to_str().unwrap()]).await;
    assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("export BEFORE=1\nexport TRANSOM_URL=http://127.0.0.1:") && text.ends_with('\n'), "{text}");
    assert!(is_healthy(&url_in(&text)).await);
}

#[tokio::test]
async fn a_file_for_variables_that_cannot_be_written_starts_nothing_and_a_pipe_is_one_too() {
    let runtime = runtime();
    let output = runtime.run(&["session", "start", "--id", "env", "--env-file", "/nowhere/env"]).await;
    assert!(output.status.code() == Some(1) && said(&output).contains("/nowhere/env"), "{}", said(&output));
    assert!(runtime.gateways().is_empty() && runtime.names().is_empty(), "{:?}", runtime.names());
    let output = runtime.run(&["session", "start", "--id", "env", "--env-file", "/dev/stdout"]).await;
    assert!(output.status.success(), "{}", said(&output));
    assert!(is_healthy(&url_in(&String::from_utf8_lossy(&output.stdout))).await);
}

#[tokio::test]
async fn what_a_session_that_runs_was_not_started_with_is_said() {
    let runtime = runtime();
    let config = runtime.config("child", "echo");
    let start = ["session", "start", "--id", "x"];
    runtime.start(&["--id", "x", "-f", &config]).await;
    for again in [&["-f", config.as_str()][..], &["-f", "child.yaml"], &[]] {
        let output = runtime.run(&[&start[..], again].concat()).await;
        assert!(output.status.success() && !said(&output).contains("not applied"), "{}", said(&output));
    }
    let output = runtime.run(&[&start[..], &["--port", "5555", "-f", "other.yaml"]].concat()).await;
    assert!(output.status.success() && said(&output).contains("`-f`, `--port` is not applied"), "{}", said(&output));
}

#[tokio::test]
async fn a_session_is_listed_also_without_a_record_that_can_be_read() {
    let runtime = runtime();
    runtime.start(&["--id", "a/b"]).await;
    for remains in [None, Some("{ broken")] {
        let record = runtime.file("a=2Fb.json");
        match remains {
            None => std::fs::remove_file(record).unwrap(),
            Some(text) => std::fs::write(record, text).unwrap(),
        }
        let output = runtime.run(&["session", "status", "--json"]).await;
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        assert_eq!((&listed[0]["id"], &listed[0]["state"]), (&json!("a/b"), &json!("running")), "{listed}");
    }
}

#[tokio::test]
async fn a_hook_takes_the_first_session_id_of_what_the_agent_says() {
    let runtime = runtime();
    let fake = runtime.folder.path().join("transom");
    std::fs::write(&fake, "#!/bin/sh\necho \"$SESSION_ID\"\n").unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", runtime.folder.path().display(), std::env::var("PATH").unwrap());
    for hook in ["session-start.sh", "session-end.sh"] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/coding-agent").join(hook);
        for (said, expected) in [
            (r#"{"session_id":"mine","tool":{"session_id":"other"}}"#, "mine"),
            ("{\n  \"cwd\": \"/\",\n  \"session_id\" : \"mine\",\n  \"x\": {\"session_id\": \"other\"}\n}", "mine"),
            (r#"{"cwd":"/"}"#, ""),
        ] {
            let mut child = Command::new("sh")
                .arg(&script)
                .env("PATH", &path)
                .env_remove("SESSION_ID")
                .env_remove("CLAUDE_ENV_FILE")
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut child.stdin.take().unwrap(), said.as_bytes()).await.unwrap();
            let output = child.wait_with_output().await.unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{hook}: {said}");
        }
    }
}

#[tokio::test]
async fn an_empty_variable_says_nothing() {
    let runtime = runtime();
    let mut command = runtime.command(&["run", "-f", "nowhere.yaml"]);
    for name in ["TRANSOM_PID_FILE", "TRANSOM_URL_FILE", "TRANSOM_LOG_FILE"] {
        command.env(name, "");
    }
    let output = command.output().await.unwrap();
    assert!(output.status.code() == Some(1) && said(&output).contains("nowhere.yaml"), "{}", said(&output));
}

#[tokio::test]
async fn a_full_disk_is_no_success_and_a_reader_that_has_seen_enough_is() {
    let runtime = runtime();
    for (arguments, full) in [(&["connect"][..], true), (&["schema", "config"], true), (&["connect"], false)] {
        let mut command = runtime.command(arguments);
        if full {
            command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        } else {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            command.stdout(writer);
        }
        let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(i32::from(full)), "{arguments:?}: {}", said(&output));
        assert_eq!(said(&output).contains("standard output"), full, "{arguments:?}: {}", said(&output));
    }
}

#[tokio::test]
async fn a_gateway_that_cannot_start_says_why_and_leaves_only_its_log() {
    let runtime = runtime();
    let bad = runtime.folder.path().join("bad.yaml");
    std::fs::write(&bad, "listen: 127.0.0.1:0\nbacknds: []\n").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (arguments, says) in [(["-f", bad.to_str().unwrap()], "did you mean `backends`"), (["--port", port.as_str()], port.as_str())] {
        let begin = Instant::now();
        let output = runtime.run(&[&["session", "start", "--id", "bad", "--wait", "80"][..], &arguments[..]].concat()).await;
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(says) && text.contains("bad.log") && output.stdout.is_empty(), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(40), "it does not wait for what has ended");
        assert!(runtime.names().iter().all(|name| name.starts_with("bad.log")), "{:?}", runtime.names());
    }
    assert!(runtime.gateways().is_empty());
    let output = runtime.run(&["session", "start"]).await;
    assert_eq!(output.status.code(), Some(2), "a session has an id: {}", said(&output));
}

#[tokio::test]
async fn sessions_are_listed_for_people_and_for_programs() {
    let runtime = runtime();
    let status = async |arguments: &[&str]| runtime.run(&[&["session", "status"][..], arguments].concat()).await;
    assert_eq!(String::from_utf8_lossy(&status(&["--json"]).await.stdout).trim(), "[]");
    let url = runtime.start(&["--id", "a/b"]).await;
    runtime.start(&["--id", "dead"]).await;
    sys::signal(runtime.pid("dead"), libc::SIGKILL);
    eventually("one is gone", || async { runtime.gateways().len() == 1 }).await;
    let listed: Value = serde_json::from_slice(&status(&["--json"]).await.stdout).unwrap();
    let seen: Vec<_> =
        listed.as_array().unwrap().iter().map(|session| (session["id"].as_str().unwrap(), session["state"].as_str().unwrap())).collect();
    assert_eq!(seen, [("a/b", "running"), ("dead", "stale")]);
    assert_eq!(listed[0]["url"], url.as_str());
    let output = status(&[]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().count() == 2 && text.contains(&url) && text.contains("stale"), "{text}");
    assert_eq!(status(&["--id", "a/b"]).await.status.code(), Some(0));
    assert_eq!(status(&["--id", "dead"]).await.status.code(), Some(1));
    assert_eq!(status(&["--id", "never"]).await.status.code(), Some(1));
}

// Every wait has an end.
#[tokio::test]
async fn a_gateway_that_does_not_end_is_killed_after_a_while() {
    let runtime = runtime();
    runtime.start(&["--id", "stuck"]).await;
    let pid = runtime.pid("stuck");
    sys::signal(pid, libc::SIGSTOP);
    let begin = Instant::now();
    let output = runtime.run(&["session", "stop", "--id", "stuck", "--wait", "1"]).await;
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("had to be killed"), "{}", said(&output));
    assert!(!is_alive(pid) && begin.elapsed() < Duration::from_secs(30));
    assert_eq!(runtime.names(), Vec::<String>::new());
}

#[tokio::test]
async fn a_folder_that_another_user_could_have_prepared_is_not_used() {
    let runtime = runtime();
    let prepared = tempfile::tempdir().unwrap();
    let link = |to: &Path| {
        let _ = std::fs::remove_file(runtime.files());
        symlink(to, runtime.files()).unwrap();
    };
    link(prepared.path());
    let output = runtime.run(&["session", "start", "--id", "x"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("link"), "{}", said(&output));
    assert_eq!(std::fs::read_dir(prepared.path()).unwrap().count(), 0);

    std::fs::remove_file(runtime.files()).unwrap();
    std::fs::create_dir(runtime.files()).unwrap();
    std::fs::set_permissions(runtime.files(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = runtime.run(&["session", "stop", "--id", "x"]).await;
    assert!(output.status.code() == Some(1) && said(&output).contains("chmod 700"), "{}", said(&output));
}

// Without a runtime folder of the system: a private one among the temporary files.
#[tokio::test]
async fn without_a_runtime_folder_one_is_made_for_this_user_alone() {
    let runtime = runtime();
    let temporary = tempfile::tempdir().unwrap();
    let run = async |arguments: &[&str]| {
        let mut command = runtime.command(arguments);
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", temporary.path()).output().await.unwrap()
    };
    let output = run(&["session", "start", "--id", "t"]).await;
    assert!(output.status.success(), "{}", said(&output));
    let made: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(made.len(), 1);
    assert!(made[0].file_name().to_str().unwrap().starts_with("transom-"));
    assert_eq!(made[0].metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert!(run(&["session", "stop", "--id", "t"]).await.status.success());
    assert!(sys::marked(&temporary.path().display().to_string()).is_empty());
}

// R-001-14: no config, no port: a free one, and the files of `run` are written as the session's are.
#[tokio::test]
async fn the_log_of_a_session_is_a_file_that_names_what_happened() {
    let runtime = runtime();
    let config = runtime.config("child", "echo");
    let url = runtime.start(&["--id", "log", "-f", &config]).await;
    client::connect(format!("{url}/mcp"), client::LEGACY).open().await.call("echo", json!({})).await.result();
    eventually("the call is in the log", || async {
        let log = std::fs::read_to_string(runtime.file("log.log")).unwrap_or_default();
        log.contains("tools/call") && log.contains("transom listening on")
    })
    .await;
}
