//! Whether the gateway of a session runs.
//!
//! A number in a file says little: the process may be gone and the number another program's. So the process is held first, then looked at:
//! it must be ours, have begun when the record says, and carry this session's own pid file among its arguments. Its program and its environment
//! would say the same, but a gateway hides both from everybody. Where no record says when it began, it must at least be called as we are and have
//! been told to `run`.

use super::folder::Place;
use super::start::Wish;
use crate::failure::{Exit, Failure};
use crate::sys::{self, Held};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// None of our files is larger.
const LARGEST: u64 = 64 << 10;

/// What is remembered of a session beside the pid file (R-001-23).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The session, as its owner calls it.
    pub id: String,
    /// Its process.
    pub pid: u32,
    /// When the process began, in ticks since the machine did.
    pub began: u64,
    /// Which start of the machine that was.
    pub boot: String,
    /// When, for people.
    pub since: String,
    /// What it says.
    pub log: PathBuf,
    /// What was asked for when it was started.
    #[serde(default)]
    pub wish: Wish,
}

impl Record {
    /// Whole or not at all.
    pub fn write(&self, place: &Place) -> io::Result<()> {
        let path = place.record_file();
        let beside = path.with_extension(format!("json.{}.tmp", std::process::id()));
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&beside)?;
        let written = file.write_all(&text).and_then(|()| fs::rename(&beside, &path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// The record of a session, if it left one that can be read.
    pub fn read(place: &Place) -> Option<Record> {
        serde_json::from_str(&small(&place.record_file())?).ok()
    }
}

/// What there is of a session.
#[derive(Debug)]
pub enum Found {
    /// Its gateway runs.
    Running {
        /// The process.
        held: Held,
        /// Its number.
        pid: u32,
        /// Where it listens; `None` while it starts.
        url: Option<String>,
        /// What is remembered of it.
        record: Option<Record>,
    },
    /// Files of a gateway that runs no more.
    Stale(Option<Record>),
    /// Nothing.
    Nothing,
}

/// Looks for the gateway of a session.
pub fn find(place: &Place) -> Result<Found, Failure> {
    let record = Record::read(place);
    let in_file = small(&place.pid_file()).and_then(|text| text.trim().parse().ok());
    let Some(pid) = record.as_ref().map(|record| record.pid).or(in_file) else {
        let any = [place.pid_file(), place.url_file(), place.record_file()].iter().any(|file| file.exists());
        return Ok(if any { Found::Stale(None) } else { Found::Nothing });
    };
    let blind = |why: String| {
        Failure::new(Exit::Negative, format!("cannot see whether process {pid} is the gateway of this session: {why}; nothing was done to it"))
    };
    // Held before it is looked at: what we see is then what we hold.
    let Some(held) = Held::of(pid).map_err(|error| blind(error.to_string()))? else { return Ok(Found::Stale(record)) };
    let Some(seen) = Seen::look(pid) else {
        // It may have ended just now; if not, the system hides it.
        return if held.ends_within(std::time::Duration::ZERO) { Ok(Found::Stale(record)) } else { Err(blind("the system hides it".into())) };
    };
    let is_meant = match &record {
        Some(record) => record.began == seen.began && record.boot == boot(),
        None => seen.runs_as(&own_name()),
    };
    if seen.is_over || seen.user != sys::user() || !is_meant || !seen.carries(&place.pid_file()) {
        return Ok(Found::Stale(record));
    }
    let url = small(&place.url_file()).map(|text| text.trim().to_owned()).filter(|url| !url.is_empty());
    Ok(Found::Running { held, pid, url, record })
}

/// When a process began, and which start of the machine that was: together with its number they name it for good.
pub fn birth(pid: u32) -> Option<(u64, String)> {
    Seen::look(pid).map(|seen| (seen.began, boot()))
}

/// What the system calls this program.
fn own_name() -> String {
    small(Path::new("/proc/self/comm")).unwrap_or_default().trim_end_matches('\n').to_owned()
}

fn boot() -> String {
    small(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default().trim().to_owned()
}

/// A process as the system shows it.
struct Seen {
    name: String,
    is_over: bool,
    began: u64,
    user: u32,
    arguments: Vec<u8>,
}

impl Seen {
    fn look(pid: u32) -> Option<Seen> {
        let stat = small(&PathBuf::from(format!("/proc/{pid}/stat")))?;
        // The name in parentheses may hold anything, also a parenthesis.
        let (before, after) = stat.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let mut fields = after.split_whitespace();
        let is_over = matches!(fields.next()?, "Z" | "X" | "x");
        let began = fields.nth(18)?.parse().ok()?;
        let status = small(&PathBuf::from(format!("/proc/{pid}/status")))?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        let user = users.split_whitespace().nth(1)?.parse().ok()?;
        let mut arguments = Vec::new();
        File::open(format!("/proc/{pid}/cmdline")).ok()?.take(LARGEST).read_to_end(&mut arguments).ok()?;
        Some(Seen { name, is_over, began, user, arguments })
    }

    /// Whether it was told to write this pid file.
    fn carries(&self, pid_file: &Path) -> bool {
        let mut arguments = self.arguments.split(|byte| *byte == 0);
        arguments.any(|argument| argument == b"--pid-file")
            && arguments.next().is_some_and(|told| is_same(Path::new(OsStr::from_bytes(told)), pid_file))
    }

    /// Whether it has this name and was told to be a gateway. Anything may have the rest of our words among its arguments.
    fn runs_as(&self, name: &str) -> bool {
        self.name == name && self.arguments.split(|byte| *byte == 0).nth(1) == Some(b"run")
    }
}

/// Whether two paths are one file of one folder, however they are spelled.
fn is_same(one: &Path, other: &Path) -> bool {
    let folder = |path: &Path| path.parent().and_then(|folder| fs::metadata(folder).ok()).map(|found| (found.dev(), found.ino()));
    one == other || (one.is_absolute() && one.file_name() == other.file_name() && folder(one).is_some_and(|one| Some(one) == folder(other)))
}

/// The text of a small file; `None` if there is none, or if it is none of ours.
fn small(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    // What a process calls itself need not be text.
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &[u8]) -> Seen {
        Seen { name: "transom".into(), is_over: false, began: 1, user: 1, arguments: line.to_vec() }
    }

    #[test]
    fn a_process_is_recognised_by_the_pid_file_it_was_given() {
        let file = Path::new("/run/transom/a.pid");
        assert!(seen(b"transom\0run\0--pid-file\0/run/transom/a.pid\0").carries(file));
        for other in [
            &b"transom\0run\0--pid-file\0/run/transom/a.pid.b\0"[..],
            b"transom\0run\0--pid-file\0/run/transom/b.pid\0",
            b"vim\0/run/transom/a.pid\0",
            b"sleep\x00600\x00",
            b"",
        ] {
            assert!(!seen(other).carries(file), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn the_pid_file_may_be_spelled_otherwise() {
        let folder = std::env::temp_dir().join(format!("transom-found-{}", std::process::id()));
        let (real, link) = (folder.join("real"), folder.join("link"));
        fs::create_dir_all(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let told = |path: &Path| seen(format!("transom\0run\0--pid-file\0{}\0", path.display()).as_bytes());
        assert!(told(&link.join("a.pid")).carries(&real.join("a.pid")));
        assert!(told(Path::new(&format!("{}//a.pid", real.display()))).carries(&real.join("a.pid")));
        assert!(!told(&link.join("b.pid")).carries(&real.join("a.pid")));
        assert!(!told(&folder.join("a.pid")).carries(&real.join("a.pid")));
        assert!(!told(Path::new("a.pid")).carries(&real.join("a.pid")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_process_without_a_record_is_ours_only_by_name_and_verb() {
        assert!(seen(b"/usr/bin/transom\0run\0--pid-file\0/run/transom/a.pid\0").runs_as("transom"));
        assert!(!seen(b"transom\0list\0run\0--pid-file\0/run/transom/a.pid\0").runs_as("transom"));
        assert!(!seen(b"python3\0run\0--pid-file\0/run/transom/a.pid\0").runs_as("python3 "));
        assert!(!own_name().is_empty());
    }

    #[test]
    fn our_own_birth_is_known_and_stays_the_same() {
        let own = birth(std::process::id()).unwrap();
        assert!(own.0 > 0 && own.1.len() == 36, "{own:?}");
        assert_eq!(birth(std::process::id()), Some(own));
        assert_eq!(birth(u32::MAX), None);
    }
}
