//! Work that takes a while, on a thread of its own that gives way to those on which requests run.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Nested JSONPaths are parsed by recursion; see security.md 0.4.
pub const STACK: usize = 8 << 20;

/// How often a thread is asked for where the system has none to give, and how long to wait in between: ten seconds altogether.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);

/// Does it; `Ok(None)` if it panicked. The future may be dropped, the thread ends by itself. Where the system gives no thread for a moment, it waits.
pub async fn run<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Option<T>> {
    let (done, result) = oneshot::channel();
    // It logs where whoever asked for it does.
    let log = tracing::dispatcher::get_default(Clone::clone);
    let task = move || {
        transom_upstream::give_way();
        // Nobody waits for it any more, perhaps.
        let _ = done.send(tracing::dispatcher::with_default(&log, work));
    };
    // A thread that cannot be had takes what it was to do with it.
    let task = Arc::new(Mutex::new(Some(task)));
    let begin = || {
        let task = task.clone();
        std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || {
            let task = task.lock().ok().and_then(|mut task| task.take());
            if let Some(task) = task {
                task();
            }
        })
    };
    let mut begun = begin();
    for _ in 1..ATTEMPTS {
        if begun.is_ok() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        begun = begin();
    }
    begun?;
    drop(task);
    Ok(result.await.ok())
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn work_aside_gives_its_result_or_says_that_it_broke() {
        assert_eq!(super::run("aside", || 7).await.unwrap(), Some(7));
        assert_eq!(super::run("aside", || panic!("on purpose")).await.unwrap(), None::<()>);
    }
}
