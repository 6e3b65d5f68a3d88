//! A folder of the kernel in which a test limits memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Gone when it is dropped, if whoever was in it is.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// With room for so many bytes; none where we may not make one.
    pub fn new(bytes: u64) -> Option<Cgroup> {
        let name = crate::unique("transom-test");
        let (folder, file) = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            (Path::new("/sys/fs/cgroup").join(name), "memory.max")
        } else {
            (Path::new("/sys/fs/cgroup/memory").join(name), "memory.limit_in_bytes")
        };
        std::fs::create_dir(&folder).ok()?;
        let made = Cgroup(folder);
        std::fs::write(made.0.join(file), bytes.to_string()).ok().map(|()| made)
    }

    /// For `sh -c`: moves in, then becomes the program of its arguments.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs; exec \"$@\"", self.0.display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Empty once the processes in it are gone.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
