//! Work that takes a while, on a thread of its own that gives way to those on which requests run.

use std::io;
use tokio::sync::oneshot;

/// Nested JSONPaths are parsed by recursion; see security.md 0.4.
pub const STACK: usize = 8 << 20;

/// Does it; `Ok(None)` if it panicked. The future may be dropped, the thread ends by itself.
pub async fn run<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Option<T>> {
    let (done, result) = oneshot::channel();
    // It logs where whoever asked for it does.
    let log = tracing::dispatcher::get_default(Clone::clone);
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || {
        transom_upstream::give_way();
        // Nobody waits for it any more, perhaps.
        let _ = done.send(tracing::dispatcher::with_default(&log, work));
    })?;
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
