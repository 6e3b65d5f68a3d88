//! Where sessions keep their files, under which names, and who may change them.

use crate::failure::{Exit, Failure};
use crate::sys;
use crate::terminal::harmless;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A name that would be longer is cut, and told apart from others by a hash.
const LONGEST_NAME: usize = 120;
/// What remains of such a name, for people.
const KEPT: usize = 40;
/// Nobody names a session like that.
const LONGEST_ID: usize = 4096;
/// The most sessions that are listed.
const MOST_SESSIONS: usize = 10_000;
/// How often somebody who waits for a lock looks again.
const GLANCE: Duration = Duration::from_millis(20);

/// What a session is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionId(String);

impl SessionId {
    /// An id as somebody wrote it: anything but nothing.
    pub fn read(text: &str) -> Result<SessionId, Failure> {
        match text.len() {
            0 => Err(Failure::new(Exit::Unexpected, "the session has no id").hint("name it with `--id ID`, or set SESSION_ID")),
            length if length > LONGEST_ID => {
                Err(Failure::new(Exit::Unexpected, format!("the id of the session has {length} bytes; {LONGEST_ID} are the most")))
            }
            _ => Ok(SessionId(text.into())),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// For a terminal.
    pub fn shown(&self) -> String {
        harmless(&self.0).replace(['\n', '\t'], " ")
    }

    /// The id as a file name without an ending. Two ids never get the same one, not even where capitals do not count; and none leads out of the
    /// folder: what is no small letter, digit, `-` or `_` is written as its number.
    fn file_name(&self) -> String {
        let mut name = String::with_capacity(self.0.len());
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
                _ => {
                    // Writing to a string does not fail.
                    let _ = write!(name, "={byte:02X}");
                }
            }
        }
        if name.len() <= LONGEST_NAME {
            return name;
        }
        // No byte is written as `=h`.
        let hash: String = Sha256::digest(self.0.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}=h{hash}", name.chars().take(KEPT).collect::<String>())
    }
}

/// The folder of this user's sessions.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder by the environment: `$XDG_RUNTIME_DIR/transom`, else one of this user's own among the temporary files. Made if need be.
    pub fn of_user() -> Result<Folder, Failure> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir());
        let path = match runtime {
            Some(runtime) => runtime.join("transom"),
            None => std::env::temp_dir().join(format!("transom-{}", sys::user())),
        };
        Folder::at(path)
    }

    /// This folder, if it is ours alone. Among temporary files anybody can make one first, and would then choose which process we stop.
    fn at(path: PathBuf) -> Result<Folder, Failure> {
        let refused = |why: String| Failure::new(Exit::Negative, format!("sessions cannot be kept in `{}`: {why}", path.display()));
        // One spelling, however it is written: what is told to a gateway has to lead here for as long as it runs.
        let parent = path.parent().map(fs::canonicalize).transpose().map_err(|error| refused(error.to_string()))?;
        let path = parent.zip(path.file_name()).map_or_else(|| path.clone(), |(parent, name)| parent.join(name));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(error.to_string())),
        }
        // The link itself counts, not what it points at.
        let found = fs::symlink_metadata(&path).map_err(|error| refused(error.to_string()))?;
        let elsewhere = "remove it, or set XDG_RUNTIME_DIR to a folder of yours";
        if !found.is_dir() {
            return Err(refused("it is no folder but a link or a file".into()).hint(elsewhere));
        }
        if found.uid() != sys::user() {
            return Err(refused(format!("it belongs to user {}, not to {}", found.uid(), sys::user())).hint(elsewhere));
        }
        if found.mode() & 0o077 != 0 {
            let hint = format!("look into it, then `chmod 700 {}`", path.display());
            return Err(refused(format!("others may use it (mode {:o})", found.mode() & 0o777)).hint(hint));
        }
        Ok(Folder(path))
    }

    /// Where this session's files are.
    pub fn place(&self, id: &SessionId) -> Place {
        Place { folder: self.0.clone(), name: id.file_name() }
    }

    /// Every session that left a record or a pid file.
    pub fn places(&self) -> Result<Vec<Place>, Failure> {
        let unreadable = |error: io::Error| Failure::new(Exit::Negative, format!("cannot read `{}`: {error}", self.0.display()));
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(unreadable)?.take(MOST_SESSIONS) {
            let name = entry.map_err(unreadable)?.file_name();
            names.extend(name.to_str().and_then(|name| name.strip_suffix(".json").or(name.strip_suffix(".pid"))).map(str::to_owned));
        }
        names.sort();
        names.dedup();
        Ok(names.into_iter().map(|name| Place { folder: self.0.clone(), name }).collect())
    }
}

/// The files of one session.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
    name: String,
}

impl Place {
    /// The number of its process, and nothing else.
    pub fn pid_file(&self) -> PathBuf {
        self.file("pid")
    }

    /// Its URL, and nothing else.
    pub fn url_file(&self) -> PathBuf {
        self.file("url")
    }

    /// Whose process that is, and since when.
    pub fn record_file(&self) -> PathBuf {
        self.file("json")
    }

    /// What the gateway says.
    pub fn log_file(&self) -> PathBuf {
        self.file("log")
    }

    /// What it said before.
    pub fn old_log_file(&self) -> PathBuf {
        self.file("log.1")
    }

    /// The id by the name of its files, for when no record says it. Of one that was cut it is the name itself.
    pub fn id(&self) -> String {
        let mut bytes = Vec::new();
        let mut rest = self.name.as_str();
        while let Some((before, coded)) = rest.split_once('=') {
            bytes.extend_from_slice(before.as_bytes());
            let Some((byte, after)) = coded.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok()).zip(coded.get(2..)) else {
                return self.name.clone();
            };
            bytes.push(byte);
            rest = after;
        }
        bytes.extend_from_slice(rest.as_bytes());
        String::from_utf8(bytes).unwrap_or_else(|_| self.name.clone())
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// Removes what says that a gateway runs.
    pub fn clear(&self) {
        for file in [self.pid_file(), self.url_file(), self.record_file()] {
            // That it is not there is what we want.
            let _ = fs::remove_file(file);
        }
    }

    /// Removes everything.
    pub fn clear_all(&self) {
        self.clear();
        for file in [self.log_file(), self.old_log_file()] {
            let _ = fs::remove_file(file);
        }
    }

    /// Waits until nobody else starts or stops this session.
    pub async fn lock(&self, patience: Duration) -> Result<Lock, Failure> {
        let path = self.file("lock");
        let failed = |error: io::Error| Failure::new(Exit::Negative, format!("cannot lock `{}`: {error}", path.display()));
        let deadline = Instant::now() + patience;
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)
                .map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Lock { _file: file, path }),
                // Or whoever had it before us has removed the file that we locked.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if Instant::now() >= deadline {
                return Err(Failure::new(
                    Exit::Negative,
                    format!("somebody else has been starting or stopping this session for {} seconds", patience.as_secs()),
                )
                .hint("try again; `transom session status` shows what runs"));
            }
            tokio::time::sleep(GLANCE).await;
        }
    }
}

/// Held by the one who starts or stops a session. Its file goes with it: there would be one for every session that ever was.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While we still hold it, so that nobody can have locked it in between.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::os::unix::fs::PermissionsExt;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("transom-sessions-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    // R-001-25
    #[test]
    fn two_ids_never_share_a_file_and_none_leads_out_of_the_folder() {
        let long = "x".repeat(500);
        let ids = [
            "a",
            "A",
            "a.b",
            "a=2Eb",
            "a/b",
            "a_b",
            "a-b",
            "..",
            ".",
            "../../etc/passwd",
            "a\0b",
            "a\nb",
            "é",
            "e",
            "=41",
            "=h",
            "a.json",
            "a.log",
            " ",
            "a ",
            &long,
            &long[1..],
            &format!("{long}y"),
        ];
        let names: HashSet<String> = ids.iter().map(|id| SessionId::read(id).unwrap().file_name()).collect();
        assert_eq!(names.len(), ids.len(), "{names:?}");
        let without_capitals: HashSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(without_capitals.len(), ids.len());
        for name in &names {
            assert!(!name.is_empty() && name.len() <= 200 && !name.contains(['/', '.', '\0']), "{name}");
        }
        assert_eq!(SessionId::read("3f2a-77").unwrap().file_name(), "3f2a-77", "usual ids are readable");
        assert!(SessionId::read("").is_err() && SessionId::read(&"x".repeat(5000)).is_err());
    }

    #[test]
    fn an_id_is_read_back_from_the_name_of_its_files() {
        let place = |id: &str| Place { folder: PathBuf::new(), name: SessionId::read(id).unwrap().file_name() };
        for id in ["a", "A/b.c", "é ü", "=41", "a-b_c"] {
            assert_eq!(place(id).id(), id);
        }
        let long = place(&"X".repeat(500));
        assert_eq!(long.id(), long.name);
    }

    #[test]
    fn a_folder_is_made_for_this_user_alone() {
        let scratch = scratch("made");
        let path = scratch.join("transom");
        Folder::at(path.clone()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        Folder::at(path).unwrap();
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_folder_has_one_name_however_it_is_spelled() {
        let scratch = scratch("spelled");
        let (real, link) = (scratch.join("real"), scratch.join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let id = SessionId::read("one").unwrap();
        let expected = fs::canonicalize(&real).unwrap().join("transom/one.pid");
        let doubled = PathBuf::from(format!("{}//./transom", real.display()));
        for path in [real.join("transom"), link.join("transom"), doubled, link.join("../real/transom")] {
            assert_eq!(Folder::at(path).unwrap().place(&id).pid_file().into_os_string(), expected, "byte for byte");
        }
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_folder_that_somebody_else_could_have_prepared_is_refused() {
        let scratch = scratch("refused");
        let (open, file, link, real) = (scratch.join("open"), scratch.join("file"), scratch.join("link"), scratch.join("real"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o770)).unwrap();
        fs::write(&file, "").unwrap();
        DirBuilder::new().mode(0o700).create(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for (path, why) in [(&open, "chmod 700"), (&file, "a link or a file"), (&link, "a link or a file")] {
            let failure = Folder::at(path.clone()).unwrap_err();
            assert!(failure.exit == Exit::Negative && failure.to_string().contains(why), "{failure}");
        }
        assert!(Folder::at(scratch.join("missing/deeper")).is_err());
        fs::remove_dir_all(scratch).unwrap();
    }

    #[tokio::test]
    async fn a_lock_is_held_by_one_and_leaves_nothing_behind() {
        let scratch = scratch("lock");
        let folder = Folder::at(scratch.join("transom")).unwrap();
        let place = folder.place(&SessionId::read("one").unwrap());
        let other = folder.place(&SessionId::read("two").unwrap());
        let held = place.lock(Duration::from_secs(5)).await.unwrap();
        assert!(place.lock(Duration::from_millis(60)).await.is_err());
        drop(other.lock(Duration::from_millis(60)).await.unwrap());
        drop(held);
        drop(place.lock(Duration::from_secs(5)).await.unwrap());
        assert_eq!(fs::read_dir(scratch.join("transom")).unwrap().count(), 0);
        fs::remove_dir_all(scratch).unwrap();
    }
}
