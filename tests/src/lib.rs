//! The harness: real stack, fake ends.
//!
//! [`target`] is an MCP server that does what it is told, [`gateway()`](gateway::gateway) the real gateway in this
//! process, [`Client`](client::Client) an MCP client of any revision, and [`process`] the real binary. Everything takes
//! a free port, everything ends with the test. [`install`] and [`children`] are for other people's programs. Nothing here is
//! shared with the product but the types of its configuration, so that a mistake in the product cannot hide behind the same
//! mistake in its test.

pub mod backend;
pub mod cgroup;
pub mod children;
pub mod client;
pub mod evidence;
pub mod frames;
pub mod gateway;
pub mod http;
pub mod install;
pub mod issuer;
pub mod logs;
pub mod process;
pub mod providers;
pub mod publisher;
pub mod stdio;
pub mod sys;
pub mod table;
pub mod target;
pub mod tls;
pub mod transcript;
pub mod wire;

pub use client::{Client, Reply};
pub use gateway::{Gateway, gateway};
pub use http::{Http, Raw, Stream};
pub use issuer::{Issuer, api_key, issuer};
pub use process::{Process, process};
pub use publisher::{Mood, Publisher, publisher};
pub use serde_json::{Value, json};
pub use target::{Context, Era, Hostile, Recorded, Target, Transport, target};

use std::future::Future;
use std::time::{Duration, Instant};

/// Asks again and again until the answer is yes; after twenty seconds the test has failed.
pub async fn eventually<F, Fut>(what: &str, mut check: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    within(Duration::from_secs(20), what, &mut check).await;
}

/// As [`eventually`], with a limit of its own. Returns how long it took.
pub async fn within<F, Fut>(limit: Duration, what: &str, mut check: F) -> Duration
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let start = Instant::now();
    loop {
        if check().await {
            return start.elapsed();
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A text nobody else uses.
pub fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
