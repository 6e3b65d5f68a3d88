//! Children are spawned from one thread that never ends: the kernel's parent-death signal fires when the spawning
//! *thread* ends, and a runtime's worker threads come and go.

use std::io;
use std::sync::{OnceLock, mpsc};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct Job {
    command: Command,
    runtime: Handle,
    done: oneshot::Sender<io::Result<Child>>,
}

/// Spawns the command; its streams belong to the current runtime.
pub(crate) async fn spawn(command: Command) -> io::Result<Child> {
    let (done, spawned) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts children is gone");
    jobs().send(Job { command, runtime: Handle::current(), done }).map_err(|_| gone())?;
    spawned.await.map_err(|_| gone())?
}

fn jobs() -> &'static mpsc::Sender<Job> {
    static JOBS: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    JOBS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Job>();
        // If the thread cannot be made, every spawn reports it: the channel has no receiver then.
        let _thread = std::thread::Builder::new().name("spawner".into()).spawn(move || {
            for mut job in receiver {
                crate::marked::call_guard();
                let _runtime = job.runtime.enter();
                // If nobody waits any more the child is dropped, and dropping it kills it.
                let _abandoned = job.done.send(job.command.spawn());
            }
        });
        sender
    })
}
