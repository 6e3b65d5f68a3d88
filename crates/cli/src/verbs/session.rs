//! `transom session start|stop|status`: a gateway of its own for one session of a coding agent.

use crate::failure::{Exit, Failure};
use crate::session::{self, Folder, Found, Place, Record, SessionId, Started, Stopped, Wish};
use crate::terminal::{self, harmless, shell_quoted};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Under which names programs look for a gateway; the second is what ToolScript's programs know.
const VARIABLES: [&str; 2] = ["TRANSOM_URL", "TOOLSCRIPT_GATEWAY_URL"];

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, clap::Subcommand)]
enum Act {
    /// Start a gateway in the background, wait until it answers, and print how to find it
    Start(Start),
    /// Stop the gateway of a session, and nothing else
    Stop(Stop),
    /// Show the sessions of this user
    Status(Status),
}

#[derive(Debug, clap::Args)]
struct Start {
    /// What the session is called [env: SESSION_ID]
    #[arg(long, value_name = "ID", env = "SESSION_ID", hide_env = true)]
    id: Option<String>,
    /// Append the variables to this file instead of printing them
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// A config.yaml, or an `mcpServers` JSON file, as `run` takes it; may repeat
    #[arg(short, long, visible_alias = "config", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// The port to listen on; a free one unless given [env: TRANSOM_PORT]
    #[arg(long)]
    port: Option<u16>,
    /// The address to listen on, such as 127.0.0.1:3000 [env: TRANSOM_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How many seconds it may take until the gateway answers
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
}

#[derive(Debug, clap::Args)]
struct Stop {
    /// What the session is called [env: SESSION_ID]
    #[arg(long, value_name = "ID", env = "SESSION_ID", hide_env = true)]
    id: Option<String>,
    /// How many seconds calls under way may take to finish
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3600))]
    wait: u64,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// Only this session; exit code 1 if it does not run
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// As a JSON array
    #[arg(long)]
    json: bool,
}

/// Starts, stops or shows.
pub async fn run(args: Args) -> Result<(), Failure> {
    match args.act {
        Act::Start(args) => start(args).await,
        Act::Stop(args) => stop(args).await,
        Act::Status(args) => status(&args),
    }
}

async fn start(args: Start) -> Result<(), Failure> {
    let id = SessionId::read(args.id.as_deref().unwrap_or_default())?;
    let wish = Wish { files: args.file, port: args.port, listen: args.listen };
    // Before anything runs: what cannot be told where it is should not be there.
    let unwritable = |file: &Path, error| Failure::new(Exit::Negative, format!("cannot write `{}`: {error}", file.display()));
    let env_file = args.env_file.as_deref().map(|file| opened(file).map_err(|error| unwritable(file, error)).map(|open| (file, open))).transpose()?;
    let Started { url, pid, already, log, not_applied } = session::start(&Folder::of_user()?, &id, &wish, Duration::from_secs(args.wait)).await?;
    let exports: String = VARIABLES.iter().map(|name| format!("export {name}={}\n", shell_quoted(&url))).collect();
    match env_file {
        None => terminal::data(&exports),
        Some((file, open)) => append(open, &exports).map_err(|error| unwritable(file, error))?,
    }
    let how = if already { "runs already" } else { "started" };
    terminal::note(&format!("session `{}` {how}: {url}/mcp, process {pid}, log `{}`", id.shown(), log.display()));
    if !not_applied.is_empty() {
        terminal::note(&format!("it was started otherwise, so {} is not applied; `transom session stop` ends it first", not_applied.join(", ")));
    }
    Ok(())
}

async fn stop(args: Stop) -> Result<(), Failure> {
    let id = SessionId::read(args.id.as_deref().unwrap_or_default())?;
    let stopped = session::stop(&Folder::of_user()?, &id, Duration::from_secs(args.wait)).await?;
    let what = match stopped {
        Stopped::Ended(pid) => format!("stopped, process {pid} has ended"),
        Stopped::Killed(pid) => format!("stopped, process {pid} had to be killed"),
        Stopped::Stale => "did not run any more; its files are removed".into(),
        Stopped::Nothing => "does not run".into(),
    };
    terminal::note(&format!("session `{}` {what}", id.shown()));
    Ok(())
}

/// A session as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    id: String,
    state: &'static str,
    pid: Option<u32>,
    url: Option<String>,
    since: Option<String>,
    log: PathBuf,
}

impl Shown {
    /// `None` if there is nothing to show.
    fn of(place: &Place, id: Option<&str>) -> Result<Option<Shown>, Failure> {
        let shown = |state, pid, url, record: Option<Record>| {
            let (named, since) = record.map_or((None, None), |record| (Some(record.id), Some(record.since)));
            let id = id.map(str::to_owned).or(named).unwrap_or_else(|| place.id());
            Some(Shown { id, state, pid, url, since, log: place.log_file() })
        };
        Ok(match session::find(place)? {
            Found::Running { pid, url, record, .. } => shown(if url.is_some() { "running" } else { "starting" }, Some(pid), url, record),
            Found::Stale(record) => shown("stale", None, None, record),
            Found::Nothing => None,
        })
    }
}

fn status(args: &Status) -> Result<(), Failure> {
    let folder = Folder::of_user()?;
    let mut sessions = Vec::new();
    match &args.id {
        Some(id) => sessions.extend(Shown::of(&folder.place(&SessionId::read(id)?), Some(id))?),
        None => {
            for place in folder.places()? {
                sessions.extend(Shown::of(&place, None)?);
            }
        }
    }
    if args.json {
        terminal::data(&serde_json::to_string_pretty(&sessions).unwrap_or_default());
    } else if sessions.is_empty() {
        terminal::note("no sessions");
    } else {
        terminal::data(&lines(&sessions));
    }
    let runs = sessions.iter().any(|session| session.state == "running");
    if args.id.is_some() && !runs { Err(Failure::said(Exit::Negative)) } else { Ok(()) }
}

fn lines(sessions: &[Shown]) -> String {
    let width = sessions.iter().map(|session| session.id.chars().count()).max().unwrap_or(0).min(60);
    let line = |session: &Shown| {
        let pid = session.pid.map_or("-".into(), |pid| pid.to_string());
        let id = harmless(&session.id).replace(['\n', '\t'], " ");
        let since = session.since.as_deref().unwrap_or("-");
        format!("{id:width$}  {:8}  {pid:>8}  {}  since {since}", session.state, session.url.as_deref().unwrap_or("-"))
    };
    sessions.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A file to append to.
fn opened(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// In one write, on a line of its own; others may append to the same file. A pipe or a terminal has no last line to look at.
fn append(mut file: File, text: &str) -> std::io::Result<()> {
    let mut last = [b'\n'];
    if file.metadata()?.is_file() && file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let begin = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{begin}{text}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_appended_on_lines_of_their_own() {
        let path = std::env::temp_dir().join(format!("transom-env-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        append(opened(&path).unwrap(), "export A=1\n").unwrap();
        std::fs::write(&path, "export A=1\nexport B=2").unwrap();
        append(opened(&path).unwrap(), "export C=3\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "export A=1\nexport B=2\nexport C=3\n");
        assert!(opened(Path::new("/nowhere/env")).is_err());
        append(opened(Path::new("/dev/null")).unwrap(), "x").unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn sessions_are_lines_and_their_ids_drive_no_terminal() {
        let session = |id: &str, state| Shown { id: id.into(), state, pid: Some(7), url: None, since: None, log: PathBuf::new() };
        let text = lines(&[session("a\x1b[2J\nb", "running"), session("c", "stale")]);
        assert_eq!(text.lines().count(), 2);
        assert!(!text.contains('\x1b'), "{text:?}");
    }
}
