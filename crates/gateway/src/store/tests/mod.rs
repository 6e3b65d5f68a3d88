//! Real files, real sockets, the real engine.

mod file;
mod http;
mod log;
mod swap;

use super::*;
use crate::config::{RegistryConfig, RegistryLocation, RegistrySource};
use crate::watch::Pace;
use std::path::Path;
use std::time::{Duration, Instant};

/// Fast enough for tests; the poll is slow, so that it is the events which are tested.
const QUICK: Pace = Pace { quiet: Duration::from_millis(20), longest: Duration::from_millis(200), poll: Duration::from_secs(60) };

/// A registry with these virtual tools.
fn registry(names: &[&str]) -> String {
    let tools: Vec<_> =
        names.iter().map(|name| serde_json::json!({"name": name, "source": {"target": "t", "tool": format!("raw_{name}")}})).collect();
    serde_json::json!({ "tools": tools }).to_string()
}

fn fetched(name: &str, text: impl Into<Arc<str>>) -> Fetched {
    Fetched { name: name.into(), text: text.into() }
}

fn file_source(path: &Path) -> RegistrySource {
    RegistrySource { name: path.file_name().unwrap().to_str().unwrap().into(), location: RegistryLocation::File(path.into()) }
}

fn config(sources: Vec<RegistrySource>) -> Config {
    let registry = RegistryConfig { sources, refresh: Duration::from_secs(300), on_start: OnStart::Cached, allow_empty: false };
    Config { registry: Some(registry), ..Config::default() }
}

fn store(config: &Config) -> Arc<RegistryStore> {
    RegistryStore::with_pace(config, vec!["t".into()], Metrics::new(), QUICK)
}

async fn started(config: &Config) -> Arc<RegistryStore> {
    let store = store(config);
    store.start().await.unwrap();
    store
}

/// The names of the virtual tools that are live.
fn tools(store: &RegistryStore) -> Vec<String> {
    store.current().map_or_else(Vec::new, |current| current.plan.tools().map(|tool| tool.name().to_owned()).collect())
}

/// Waits until it holds; how long it took.
async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}

/// The value of a series.
fn metric(store: &RegistryStore, series: &str) -> Option<f64> {
    // A page may be a second old, and the other format is another page.
    store.metrics.page(true);
    let page = store.metrics.page(false);
    let line = page.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line?.rsplit(' ').next()?.parse().ok()
}
