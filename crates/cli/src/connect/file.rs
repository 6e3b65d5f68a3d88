//! Somebody else's config file: changed as a whole or not at all, with what it said before kept beside it.

use crate::failure::{Exit, Failure};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// No config is larger.
const LARGEST: u64 = 16 << 20;
/// The most copies that are kept of a file before it was changed.
const MOST_BACKUPS: usize = 1_000;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It says so already.
    Unchanged,
    /// It is there now, and was not before.
    Created,
    /// It was changed; what it said before is in this file.
    Changed(PathBuf),
}

/// A path of the table, for this user on this system.
pub fn expanded(path: &str) -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || {
        variable("HOME")
            .or_else(|| variable("USERPROFILE"))
            .ok_or_else(|| Failure::new(Exit::Negative, "there is no home folder to look for the file in").hint("set HOME, or leave out `--write`"))
    };
    if let Some(rest) = path.strip_prefix("~/") {
        return Ok(home()?.join(rest));
    }
    let Some(rest) = path.strip_prefix("$CONFIG/") else { return Ok(PathBuf::from(path)) };
    match variable("XDG_CONFIG_HOME").or_else(|| variable("APPDATA")) {
        Some(folder) => Ok(folder.join(rest)),
        None => Ok(home()?.join(".config").join(rest)),
    }
}

/// The file that a path leads to, through links.
pub fn real(path: &Path) -> Result<PathBuf, Failure> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => Ok(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Failure::new(Exit::Negative, format!("`{}` is a link that leads nowhere", path.display())))
        }
        Err(error) => Err(Failure::new(Exit::Negative, format!("cannot read `{}`: {error}", path.display()))),
    }
}

/// Changes a file to what `change` makes of it; `None` leaves it alone.
pub fn change(path: &Path, change: impl FnOnce(&str) -> Result<Option<String>, String>) -> Result<Outcome, Failure> {
    let failed = |what: &str, error: io::Error| Failure::new(Exit::Negative, format!("cannot {what} `{}`: {error}", path.display()));
    let before = read(path).map_err(|error| failed("read", error))?;
    let refused = |why: String| {
        Failure::new(Exit::Negative, format!("`{}` is left alone: {why}", path.display())).hint("put it in by hand; without `--write` it is printed")
    };
    let Some(after) = change(before.as_ref().map_or("", |before| before.text.as_str())).map_err(refused)? else { return Ok(Outcome::Unchanged) };
    let Some(before) = before else {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| failed("make the folder of", error))?;
        replace(path, &after, None).map_err(|error| failed("write", error))?;
        return Ok(Outcome::Created);
    };
    let backup = back_up(path, &before).map_err(|error| failed("keep a copy of", error))?;
    let now = read(path).map_err(|error| failed("read", error))?;
    if now.is_none_or(|now| now.text != before.text) {
        let _ = fs::remove_file(&backup);
        return Err(Failure::new(Exit::Negative, format!("`{}` was changed by somebody else just now", path.display())).hint("try again"));
    }
    replace(path, &after, Some(&before)).map_err(|error| failed("write", error))?;
    Ok(Outcome::Changed(backup))
}

/// A file as it is.
struct Before {
    text: String,
    mode: u32,
    owner: (u32, u32),
}

fn read(path: &Path) -> io::Result<Option<Before>> {
    // Without waiting: a pipe would first want somebody at its other end.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if found.len() > LARGEST {
        return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(Some(Before { text, mode: found.mode() & 0o7777, owner: (found.uid(), found.gid()) }))
}

/// A copy beside the file, under a name that nothing has yet.
fn back_up(path: &Path, before: &Before) -> io::Result<PathBuf> {
    for number in 0..MOST_BACKUPS {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 0 { ".bak".into() } else { format!(".bak{number}") });
        let backup = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&backup) {
            Ok(file) => return fill(file, &before.text, Some(before)).map(|()| backup),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("there are {MOST_BACKUPS} copies already")))
}

/// Writes beside the file and renames, so that nobody ever sees half of it.
fn replace(path: &Path, text: &str, like: Option<&Before>) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(name);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = fill(file, text, like).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file is for its owner alone: it may come to hold a token. One that was there keeps its mode and its owner.
fn fill(mut file: File, text: &str, like: Option<&Before>) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    if let Some(like) = like {
        // Only root can give a file away; to everybody else it is theirs already.
        let _ = std::os::unix::fs::fchown(&file, Some(like.owner.0), Some(like.owner.1));
        file.set_permissions(Permissions::from_mode(like.mode))?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("transom-connect-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_changed_file_keeps_its_mode_and_leaves_a_copy() {
        let folder = scratch("changed");
        let file = folder.join("mcp.json");
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(change(&file, |text| Ok(Some(format!("{text} two")))).unwrap(), Outcome::Changed(folder.join("mcp.json.bak")));
        assert_eq!(change(&file, |text| Ok(Some(format!("{text} three")))).unwrap(), Outcome::Changed(folder.join("mcp.json.bak1")));
        assert_eq!(change(&file, |_| Ok(None)).unwrap(), Outcome::Unchanged);
        assert_eq!(names(&folder), ["mcp.json", "mcp.json.bak", "mcp.json.bak1"]);
        for (name, text) in [("mcp.json", "one two three"), ("mcp.json.bak", "one"), ("mcp.json.bak1", "one two")] {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), text);
            assert_eq!(fs::metadata(folder.join(name)).unwrap().mode() & 0o777, 0o640, "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_is_not_there_is_made_for_its_owner_alone() {
        let folder = scratch("made");
        let file = folder.join("deep/er/mcp.json");
        assert_eq!(change(&file, |_| Ok(Some("new".into()))).unwrap(), Outcome::Created);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(names(file.parent().unwrap()), ["mcp.json"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_refused_or_meddled_with_changes_nothing() {
        let folder = scratch("refused");
        let file = folder.join("mcp.json");
        fs::write(&file, "one").unwrap();
        let failure = change(&file, |_| Err("it is odd".into())).unwrap_err();
        assert!(failure.to_string().contains("left alone: it is odd"), "{failure}");
        let meddled = change(&file, |_| {
            fs::write(&file, "somebody else's").unwrap();
            Ok(Some("ours".into()))
        });
        assert!(meddled.unwrap_err().to_string().contains("somebody else"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "somebody else's");
        assert_eq!(names(&folder), ["mcp.json"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let folder = scratch("pipe");
        let pipe = folder.join("mcp.json");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (done, waits) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(change(&pipe, |_| Ok(Some("new".into()))).unwrap_err().to_string()));
        let refused = waits.recv_timeout(std::time::Duration::from_secs(20)).expect("it does not hang");
        assert!(refused.contains("it is no file"), "{refused}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_is_followed_to_its_file_and_one_that_leads_nowhere_is_not() {
        let folder = scratch("link");
        let (file, link, dangling) = (folder.join("real.json"), folder.join("link.json"), folder.join("dangling.json"));
        fs::write(&file, "one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::os::unix::fs::symlink(folder.join("nowhere"), &dangling).unwrap();
        assert_eq!(real(&link).unwrap(), fs::canonicalize(&file).unwrap());
        assert!(real(&dangling).unwrap_err().to_string().contains("leads nowhere"));
        assert_eq!(real(&folder.join("missing")).unwrap(), folder.join("missing"));
        fs::remove_dir_all(folder).unwrap();
    }
}
