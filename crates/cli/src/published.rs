//! The files through which others find a running gateway: its URL and its pid.

use crate::failure::{Exit, Failure};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files of ours, each with what we wrote into it.
#[derive(Clone, Debug, Default)]
pub struct Published(Vec<(PathBuf, String)>);

impl Published {
    /// Writes the files that were asked for, each whole or not at all.
    pub fn write(url_file: Option<&Path>, pid_file: Option<&Path>, url: &str) -> Result<Published, Failure> {
        let mut published = Published::default();
        for (path, content) in [(url_file, url.to_string()), (pid_file, std::process::id().to_string())] {
            let Some(path) = path else { continue };
            if let Err(error) = replace(path, &content) {
                published.remove();
                return Err(Failure::new(Exit::Negative, format!("cannot write `{}`: {error}", path.display())));
            }
            published.0.push((path.to_path_buf(), content));
        }
        Ok(published)
    }

    /// Removes the files, unless somebody else has written into them since.
    pub fn remove(&self) {
        for (path, content) in &self.0 {
            if fs::read_to_string(path).is_ok_and(|found| found == *content) {
                // Nothing is left to do for a file that will not go.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Writes next to the file and renames, so that a reader never sees half of it.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    // A new file: in a folder of everybody's a link of that name would lead us to where somebody else wants us to write.
    let create = || OpenOptions::new().write(true).create_new(true).open(&beside);
    let file = create().or_else(|error| match error.kind() {
        // One with our number was cut off before; in a container all have the same.
        io::ErrorKind::AlreadyExists => fs::remove_file(&beside).and_then(|()| create()),
        _ => Err(error),
    });
    let written =
        file.and_then(|mut file| file.write_all(content.as_bytes()).and_then(|()| file.sync_all())).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("transom-published-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    // R-001-22
    #[test]
    fn files_hold_the_url_and_the_pid_alone_and_go_at_the_end() {
        let folder = folder("both");
        let (url, pid) = (folder.join("url"), folder.join("pid"));
        let published = Published::write(Some(&url), Some(&pid), "http://127.0.0.1:4711").unwrap();
        assert_eq!(fs::read_to_string(&url).unwrap(), "http://127.0.0.1:4711");
        assert_eq!(fs::read_to_string(&pid).unwrap(), std::process::id().to_string());
        published.remove();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "no file and no temporary file is left");
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_not_written_through() {
        let folder = folder("link");
        let (url, victim) = (folder.join("url"), folder.join("victim"));
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, folder.join(format!("url.{}.tmp", std::process::id()))).unwrap();
        Published::write(Some(&url), None, "http://127.0.0.1:1").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert_eq!(fs::read_to_string(&url).unwrap(), "http://127.0.0.1:1");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_another_gateway_took_over_stays() {
        let folder = folder("taken");
        let url = folder.join("url");
        let published = Published::write(Some(&url), None, "http://127.0.0.1:1").unwrap();
        fs::write(&url, "http://127.0.0.1:2").unwrap();
        published.remove();
        assert_eq!(fs::read_to_string(&url).unwrap(), "http://127.0.0.1:2");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_and_the_other_one_goes() {
        let folder = folder("bad");
        let url = folder.join("url");
        let failure = Published::write(Some(&url), Some(&folder.join("missing/pid")), "http://127.0.0.1:1").unwrap_err();
        assert_eq!(failure.exit, Exit::Negative);
        assert!(failure.to_string().contains("missing/pid"), "{failure}");
        assert!(!url.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
