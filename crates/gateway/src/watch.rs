//! Tells when a file has other content than before: the config, a registry, a secret.
//!
//! Directories are watched, not files: an editor renames a new file over the old one, and Kubernetes swaps the symlink
//! `..data` beside it. Every event only means "maybe"; what decides is the content. A poll stands behind it all for file
//! systems without events and for watches that were lost. What the content means is left to whoever asked.

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Files are compared up to here, and one byte further: no config or registry is larger.
const LARGEST_FILE: u64 = 16 << 20;

/// How patient the watcher is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Files are read when nothing happened for so long: writing takes a moment.
    pub(crate) quiet: Duration,
    /// But no later than this after the first event.
    pub(crate) longest: Duration,
    /// And this often without any event.
    pub(crate) poll: Duration,
}

pub(crate) const PACE: Pace = Pace { quiet: Duration::from_millis(100), longest: Duration::from_secs(2), poll: Duration::from_secs(10) };

/// The changes of some files. Dropping it ends the watch.
#[derive(Debug)]
pub struct Changes {
    counter: watch::Receiver<u64>,
    wake: SyncSender<()>,
    stop: Arc<AtomicBool>,
}

impl Changes {
    /// Waits until the content of a file is another one. Several changes in a row count as one.
    pub async fn changed(&mut self) {
        if self.counter.changed().await.is_err() {
            // The watcher is gone for good, which it only is when the process ends.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A full queue means that the thread is about to wake up anyway.
        let _ = self.wake.try_send(());
    }
}

/// A config may be written by hand and in parts, and half of a YAML file can be a whole one.
const CONFIG_PACE: Pace = Pace { quiet: Duration::from_millis(300), ..PACE };
/// A file that cannot be read for so long is gone.
const AWAY: Duration = Duration::from_secs(2);

/// Watches files, from now on: call it before reading them, and no change is missed.
pub fn watch(paths: Vec<PathBuf>) -> std::io::Result<Changes> {
    watch_at(paths, CONFIG_PACE)
}

pub(crate) fn watch_at(paths: Vec<PathBuf>, pace: Pace) -> std::io::Result<Changes> {
    let (wake, woken) = sync_channel(1);
    let (sender, counter) = watch::channel(0);
    let stop = Arc::new(AtomicBool::new(false));
    let known = |path: &PathBuf| Known { path: path.clone(), digest: digest(path), away_since: None, told: false };
    let mut files = Files { files: paths.iter().map(known).collect(), patience: AWAY };
    let mut eyes = Eyes { wake: wake.clone(), broken: Arc::default(), watching: BTreeSet::new(), watcher: None };
    eyes.look_at(&paths);
    let stopped = Arc::clone(&stop);
    std::thread::Builder::new().name("file-watch".into()).spawn(move || {
        transom_upstream::give_way();
        loop {
            // Timeout or event: look either way.
            let wait = if files.some_are_away() { pace.poll.min(AWAY) } else { pace.poll };
            if woken.recv_timeout(wait).is_ok() && !stopped.load(Ordering::Relaxed) {
                settle(&woken, pace);
            }
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            // First the watch, then the content: what changes in between raises an event.
            eyes.look_at(&paths);
            if files.have_changed() {
                sender.send_modify(|count| *count += 1);
            }
        }
    })?;
    Ok(Changes { counter, wake, stop })
}

/// Waits for a pause in the events, but not for ever.
fn settle(woken: &Receiver<()>, pace: Pace) {
    let deadline = Instant::now() + pace.longest;
    while Instant::now() < deadline && woken.recv_timeout(pace.quiet).is_ok() {}
}

struct Files {
    files: Vec<Known>,
    /// A file that cannot be read for so long is gone, and not being replaced.
    patience: Duration,
}

/// A file as it was found last.
struct Known {
    path: PathBuf,
    digest: Option<u64>,
    away_since: Option<Instant>,
    told: bool,
}

impl Files {
    /// A file that cannot be read at the moment counts as unchanged: it is being replaced. One that stays away is told of once, so that
    /// whoever loads it can say so.
    fn have_changed(&mut self) -> bool {
        let mut changed = false;
        for known in &mut self.files {
            match digest(&known.path) {
                Some(now) => {
                    changed |= known.digest != Some(now) || known.told;
                    (known.digest, known.away_since, known.told) = (Some(now), None, false);
                }
                None if known.digest.is_none() || known.told => {}
                None => {
                    known.told = known.away_since.get_or_insert_with(Instant::now).elapsed() >= self.patience;
                    changed |= known.told;
                }
            }
        }
        changed
    }

    /// Whether some file is away and nobody knows yet.
    fn some_are_away(&self) -> bool {
        self.files.iter().any(|known| known.away_since.is_some() && !known.told)
    }
}

fn digest(path: &Path) -> Option<u64> {
    let mut content = Vec::new();
    // To open anything but a file may take for ever.
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    File::open(path).ok()?.take(LARGEST_FILE + 1).read_to_end(&mut content).ok()?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&content);
    Some(hasher.finish())
}

/// A directory and which one it is: after `rm -r` and `mkdir` the name is the same and the watch is lost.
type Directory = (PathBuf, u64);

/// What the files are called, and the files that their symlinks lead to.
fn names(paths: &[PathBuf]) -> BTreeSet<OsString> {
    let real = paths.iter().filter_map(|path| path.canonicalize().ok());
    paths.iter().cloned().chain(real).filter_map(|path| path.file_name().map(ToOwned::to_owned)).collect()
}

/// Where the files are, and where the files are that their symlinks lead to.
fn directories(paths: &[PathBuf]) -> BTreeSet<Directory> {
    let real = paths.iter().filter_map(|path| path.canonicalize().ok());
    let parent = |path: PathBuf| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((parent.to_path_buf(), identity(parent)?))
    };
    paths.iter().cloned().chain(real).filter_map(parent).collect()
}

#[cfg(unix)]
fn identity(directory: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    directory.metadata().ok().map(|metadata| metadata.ino())
}

#[cfg(not(unix))]
fn identity(directory: &Path) -> Option<u64> {
    directory.metadata().ok().map(|_| 0)
}

/// The watches of the operating system; armed anew whenever they may be lost.
struct Eyes {
    wake: SyncSender<()>,
    broken: Arc<AtomicBool>,
    watching: BTreeSet<Directory>,
    watcher: Option<RecommendedWatcher>,
}

impl Eyes {
    fn look_at(&mut self, paths: &[PathBuf]) {
        let directories = directories(paths);
        let broken = self.broken.swap(false, Ordering::Relaxed);
        if self.watcher.is_some() && !broken && directories == self.watching {
            return;
        }
        match self.armed(&directories, names(paths)) {
            Ok(watcher) => {
                self.watcher = Some(watcher);
                self.watching = directories;
            }
            Err(error) => {
                // The next poll tries again, and until then the poll itself finds changes.
                tracing::debug!(%error, "files cannot be watched, polling them");
                self.watcher = None;
            }
        }
    }

    fn armed(&self, directories: &BTreeSet<Directory>, names: BTreeSet<OsString>) -> notify::Result<RecommendedWatcher> {
        let (wake, broken) = (self.wake.clone(), Arc::clone(&self.broken));
        let folders: Vec<PathBuf> = directories.iter().map(|(folder, _)| folder.clone()).collect();
        // A busy neighbour must not keep us from looking. What Kubernetes swaps begins with two dots.
        let concerns_us = move |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            names.contains(name) || name.as_encoded_bytes().starts_with(b"..") || folders.contains(path)
        };
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            match event {
                // Reading a file is an event too: without this line each look would cause the next.
                Ok(event) if is_mere_reading(event.kind) => return,
                Ok(event) if event.need_rescan() => broken.store(true, Ordering::Relaxed),
                Ok(event) if !event.paths.is_empty() && !event.paths.iter().any(&concerns_us) => return,
                Ok(_) => {}
                Err(_) => broken.store(true, Ordering::Relaxed),
            }
            // A full queue means that somebody else has said so already.
            let _ = wake.try_send(());
        })?;
        for (directory, _) in directories {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    }
}

fn is_mere_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Fast enough for tests; the poll is slow, so that it is the events which are tested.
    const QUICK: Pace = Pace { quiet: Duration::from_millis(30), longest: Duration::from_millis(300), poll: Duration::from_secs(60) };

    async fn is_told(changes: &mut Changes) -> bool {
        tokio::time::timeout(Duration::from_secs(3), changes.changed()).await.is_ok()
    }

    async fn is_left_alone(changes: &mut Changes) -> bool {
        tokio::time::timeout(Duration::from_millis(600), changes.changed()).await.is_err()
    }

    fn watched(path: &Path) -> Changes {
        watch_at(vec![path.to_path_buf()], QUICK).unwrap()
    }

    #[tokio::test]
    async fn every_way_to_replace_a_file_is_noticed_once() {
        // L10, F11
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, "one").unwrap();
        let mut changes = watched(&file);

        fs::write(&file, "two").unwrap();
        assert!(is_told(&mut changes).await, "written in place");

        fs::write(dir.path().join(".config.yaml.tmp"), "three").unwrap();
        fs::rename(dir.path().join(".config.yaml.tmp"), &file).unwrap();
        assert!(is_told(&mut changes).await, "renamed over");

        fs::remove_file(&file).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        fs::write(&file, "four").unwrap();
        assert!(is_told(&mut changes).await, "removed and created");
        assert!(is_left_alone(&mut changes).await, "only once");
    }

    #[tokio::test]
    async fn a_kubernetes_swap_of_the_data_symlink_is_noticed() {
        // L9
        let dir = tempfile::tempdir().unwrap();
        let version = |name: &str, text: &str| {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("config.yaml"), text).unwrap();
        };
        version("..1", "one");
        symlink("..1", dir.path().join("..data")).unwrap();
        symlink("..data/config.yaml", dir.path().join("config.yaml")).unwrap();
        let mut changes = watched(&dir.path().join("config.yaml"));

        for (old, new) in [("..1", "..2"), ("..2", "..3")] {
            version(new, new);
            symlink(new, dir.path().join("..data_tmp")).unwrap();
            fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
            fs::remove_dir_all(dir.path().join(old)).unwrap();
            assert!(is_told(&mut changes).await, "{new}");
        }
    }

    #[tokio::test]
    async fn a_file_behind_a_symlink_is_watched_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("real.yaml"), "one").unwrap();
        symlink(elsewhere.path().join("real.yaml"), dir.path().join("config.yaml")).unwrap();
        let mut changes = watched(&dir.path().join("config.yaml"));

        fs::write(elsewhere.path().join("real.yaml"), "two").unwrap();
        assert!(is_told(&mut changes).await);
    }

    #[tokio::test]
    async fn what_leaves_the_content_alone_is_no_change() {
        // L8, F11: touch, the same text again, a neighbour, an editor's backup.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, "one").unwrap();
        let mut changes = watched(&file);

        fs::write(&file, "one").unwrap();
        fs::write(dir.path().join("config.yaml~"), "two").unwrap();
        File::open(&file).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(is_left_alone(&mut changes).await);

        fs::write(&file, "one").unwrap();
        assert!(is_left_alone(&mut changes).await);
        fs::write(&file, "two").unwrap();
        assert!(is_told(&mut changes).await);
    }

    #[tokio::test]
    async fn the_poll_finds_what_no_event_tells() {
        // F11: the whole directory is replaced, so its watch is lost.
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("etc");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("config.yaml"), "one").unwrap();
        let mut changes = watch_at(vec![inner.join("config.yaml")], Pace { poll: Duration::from_millis(200), ..QUICK }).unwrap();

        for text in ["two", "three"] {
            fs::remove_dir_all(&inner).unwrap();
            fs::create_dir(&inner).unwrap();
            fs::write(inner.join("config.yaml"), text).unwrap();
            assert!(is_told(&mut changes).await, "{text}");
        }
    }

    #[tokio::test]
    async fn a_file_that_stays_away_is_told_of_once_and_so_is_its_return() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, "one").unwrap();
        let mut changes = watched(&file);
        fs::remove_file(&file).unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(8), changes.changed()).await.is_ok(), "gone");
        assert!(is_left_alone(&mut changes).await, "only once");
        fs::write(&file, "one").unwrap();
        assert!(is_told(&mut changes).await, "back");
        assert!(is_left_alone(&mut changes).await);
    }

    #[tokio::test]
    async fn a_pipe_in_place_of_a_file_does_not_stop_the_watch() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, "one").unwrap();
        let mut changes = watched(&file);
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        tokio::time::sleep(Duration::from_millis(200)).await;
        fs::remove_file(&file).unwrap();
        fs::write(&file, "two").unwrap();
        assert!(is_told(&mut changes).await);
    }

    #[tokio::test]
    async fn a_busy_neighbour_does_not_delay_the_news() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, "one").unwrap();
        let pace = Pace { longest: Duration::from_secs(20), ..QUICK };
        let mut changes = watch_at(vec![file.clone()], pace).unwrap();
        let (log, over) = (dir.path().join("app.log"), Arc::new(AtomicBool::new(false)));
        let busy = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    fs::write(&log, "x").unwrap();
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        fs::write(&file, "two").unwrap();
        assert!(is_told(&mut changes).await);
        over.store(true, Ordering::Relaxed);
        busy.join().unwrap();
    }

    #[tokio::test]
    async fn a_flood_of_events_delays_the_news_only_so_long() {
        // F11: 1,000 events a second in the same directory.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, "one").unwrap();
        let mut changes = watched(&file);
        let noise = dir.path().join("noise");
        let over = Arc::new(AtomicBool::new(false));
        let flood = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    fs::write(&noise, "x").unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });

        fs::write(&file, "two").unwrap();
        assert!(is_told(&mut changes).await);
        over.store(true, Ordering::Relaxed);
        flood.join().unwrap();
    }

    #[tokio::test]
    async fn dropping_the_changes_ends_the_watch() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.yaml"), "one").unwrap();
        let changes = watched(&dir.path().join("config.yaml"));
        let mut counter = changes.counter.clone();
        drop(changes);
        let ended = tokio::time::timeout(Duration::from_secs(3), counter.changed()).await;
        assert!(ended.is_ok_and(|result| result.is_err()), "the thread holds the sender until it ends");
    }
}
