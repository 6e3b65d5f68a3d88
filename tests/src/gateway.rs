//! The real gateway in this process, on free ports, with the targets of a test behind it.

use crate::client::{self, Client, Connect, LEGACY, MODERN};
use crate::http::{Http, Raw, Response};
use crate::stdio;
use crate::target::Target;
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use transom_gateway::config::{OnStart, RegistryConfig, RegistryLocation, RegistrySource, Surroundings};
use transom_gateway::{Config, Handle, ListenAt};
use transom_registry::template::Environment;
use transom_upstream::TargetSpec;

/// A gateway to be.
pub struct Builder {
    config: Config,
    wait: bool,
    registry: Option<RegistryFile>,
}

/// A registry in a file of its own, gone with the gateway.
struct RegistryFile {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

/// The variables of a test; no files.
struct Variables(HashMap<String, String>);

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn file(&self, _: &Path) -> Result<String, String> {
        Err("a test has no files".into())
    }
}

/// A gateway with nothing behind it yet.
pub fn gateway() -> Builder {
    let anywhere = ListenAt::Preferred(SocketAddr::from(([127, 0, 0, 1], 0)));
    Builder { config: Config { admin: anywhere, metrics: anywhere, drain: Duration::from_secs(10), ..Config::default() }, wait: true, registry: None }
}

impl Builder {
    pub fn target(self, target: &Target) -> Builder {
        self.spec(target.spec())
    }

    /// A target whose spec the test changes first.
    pub fn target_with(self, target: &Target, change: impl FnOnce(&mut TargetSpec)) -> Builder {
        let mut spec = target.spec();
        change(&mut spec);
        self.spec(spec)
    }

    /// A child process that behaves like this; see [`stdio`].
    pub fn stdio(self, name: &str, behaviour: Value) -> Builder {
        self.spec(stdio::spec(name, behaviour))
    }

    pub fn spec(mut self, spec: TargetSpec) -> Builder {
        self.config.targets.push(spec);
        self
    }

    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Builder {
        change(&mut self.config);
        self
    }

    /// A registry in a file, which [`Gateway::publish`] rewrites.
    pub fn registry(mut self, document: &Value) -> Builder {
        let directory = tempfile::tempdir().expect("a directory for the registry");
        let path = directory.path().join("registry.json");
        std::fs::write(&path, document.to_string()).expect("the registry is written");
        let source = RegistrySource { name: "registry.json".into(), location: RegistryLocation::File(path.clone()) };
        self.config.registry =
            Some(RegistryConfig { sources: vec![source], refresh: Duration::from_secs(30), on_start: OnStart::Require, allow_empty: false });
        self.registry = Some(RegistryFile { _directory: directory, path });
        self
    }

    /// The variables that registries see.
    pub fn env<const N: usize>(mut self, variables: [(&str, &str); N]) -> Builder {
        self.config.environment = Surroundings::new(Variables(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()));
        self
    }

    /// Returns from `start` as soon as the sockets are bound, not when the first generation is live.
    pub fn without_waiting(mut self) -> Builder {
        self.wait = false;
        self
    }

    pub async fn start(self) -> Gateway {
        let config = self.config.clone();
        let bound = transom_gateway::bind(self.config).await.unwrap_or_else(|error| panic!("the gateway did not start: {error}"));
        let (url, metrics, admin, main, handle) = (bound.url(), bound.metrics_addr(), bound.admin_addr(), bound.main_addr(), bound.handle());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(bound.run(async move {
            stopped.await.ok();
        }));
        if self.wait {
            timeout(Duration::from_secs(15), handle.first_generation()).await.expect("a first generation within fifteen seconds");
        }
        Gateway { url, main, metrics, admin, handle, config, http: Http::new(), stop: Some(stop), task, registry: self.registry }
    }
}

/// A gateway that runs. Dropping it tells it to stop; [`Gateway::stop`] waits for that.
pub struct Gateway {
    pub http: Http,
    pub handle: Handle,
    /// What it was started with.
    pub config: Config,
    url: String,
    main: SocketAddr,
    metrics: SocketAddr,
    admin: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    registry: Option<RegistryFile>,
}

impl Gateway {
    /// Where its registry is.
    pub fn registry_path(&self) -> &Path {
        &self.registry.as_ref().expect("the gateway was started with a registry").path
    }

    /// Publishes another registry: a new file is renamed over the old one.
    pub fn publish(&self, document: &Value) {
        self.publish_text(&document.to_string());
    }

    /// Publishes a text that need not be a registry.
    pub fn publish_text(&self, text: &str) {
        let path = self.registry_path();
        let new = path.with_extension("new");
        std::fs::write(&new, text).expect("the new registry is written");
        std::fs::rename(&new, path).expect("the new registry takes the place of the old");
    }

    /// Its base URL with this path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub fn addr(&self) -> SocketAddr {
        self.main
    }

    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    pub fn metrics_addr(&self) -> SocketAddr {
        self.metrics
    }

    /// A legacy client of the newest legacy revision.
    pub async fn client(&self) -> Client {
        self.client_of(LEGACY).await
    }

    /// A client of this revision on `/mcp`.
    pub async fn client_of(&self, revision: &str) -> Client {
        self.connect(revision).open().await
    }

    /// A modern client.
    pub async fn modern(&self) -> Client {
        self.client_of(MODERN).await
    }

    /// A 2024-11-05 client on `/sse`.
    pub async fn sse_client(&self) -> Client {
        client::connect(self.url("/sse"), "2024-11-05").open_sse().await
    }

    /// A client to be, for more than the usual.
    pub fn connect(&self, revision: &str) -> Connect {
        client::connect(self.url("/mcp"), revision)
    }

    /// A client to be at another path.
    pub fn connect_at(&self, path: &str, revision: &str) -> Connect {
        client::connect(self.url(path), revision)
    }

    /// A TCP connection to the main listener.
    pub async fn raw(&self) -> Raw {
        Raw::connect(self.main).await
    }

    pub async fn get(&self, path: &str) -> Response {
        self.http.get(&self.url(path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.http.post_json(&self.url(path), body).await
    }

    /// Any request; the headers are sent as they are.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response {
        self.http.send(method, &self.url(path), headers, body).await
    }

    /// A body posted to `/mcp` with the headers of a plain client and these.
    pub async fn post_mcp(&self, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response {
        let mut all = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
        all.extend_from_slice(headers);
        self.send("POST", "/mcp", &all, body).await
    }

    /// What a scraper sees.
    pub async fn metrics(&self) -> String {
        self.http.get(&format!("http://{}/metrics", self.metrics)).await.text()
    }

    /// The value of one series, `name{label="value"}`, the labels in any order; 0 if there is none.
    pub async fn metric(&self, series: &str) -> f64 {
        metric(&self.metrics().await, series)
    }

    /// How many requests were refused for this reason.
    pub async fn rejected(&self, reason: &str) -> f64 {
        self.metric(&format!("transom_rejected_total{{reason=\"{reason}\"}}")).await
    }

    /// What `/status` says of a target.
    pub async fn state_of(&self, target: &str) -> String {
        self.get("/status").await.json()["servers"][target]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until `/status` says this of a target.
    pub async fn until(&self, target: &str, state: &str) {
        crate::eventually(&format!("target {target} is {state}"), || async { self.state_of(target).await == state }).await;
    }

    /// Waits until the list has exactly these names, in any order.
    pub async fn until_listed(&self, names: &[&str]) {
        let client = self.client().await;
        let mut expected: Vec<&str> = names.to_vec();
        expected.sort_unstable();
        crate::eventually(&format!("the list is {expected:?}"), || async { client.tool_names().await == expected }).await;
    }

    /// Changes the running configuration.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut Config)) -> Vec<String> {
        change(&mut self.config);
        self.handle.reconfigure(self.config.clone())
    }

    /// Tells it to stop and waits until it has.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        timeout(Duration::from_secs(30), &mut self.task)
            .await
            .expect("the gateway stops within thirty seconds")
            .expect("the gateway stops without a panic");
    }

    /// Tells it to stop and does not wait.
    pub fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
    }
}

/// The value of one series in the text format; 0 if there is none.
pub fn metric(text: &str, series: &str) -> f64 {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let wanted: Vec<&str> = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).collect();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|line| line.split(['{', ' ']).next() == Some(name))
        .filter(|line| wanted.iter().all(|label| line.contains(label)))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
