//! Work that takes a while, on a thread of its own that gives way to those on which requests run.

use std::io;
use tokio::sync::oneshot;

/// Nested JSONPaths are parsed by recursion; see security.md 0.4.
pub const STACK: usize = 8 << 20;

/// Does it; `Ok(None)` if it panicked. The future may be dropped, the thread ends by itself.
pub async fn run<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Option<T>> {
    let (done, result) = oneshot::channel();
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || {
        transom_upstream::give_way();
        // Nobody waits for it any more, perhaps.
        let _ = done.send(work());
    })?;
    Ok(result.await.ok())
}

/// Does it at once, and whoever asks waits: for what is short enough to wait for, and long enough to be in the way of requests.
pub fn within<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            transom_upstream::give_way();
            work()
        });
        thread.join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn work_aside_gives_its_result_or_says_that_it_broke() {
        assert_eq!(super::run("aside", || 7).await.unwrap(), Some(7));
        assert_eq!(super::run("aside", || panic!("on purpose")).await.unwrap(), None::<()>);
        assert_eq!(super::within(|| 7), 7);
    }
}
