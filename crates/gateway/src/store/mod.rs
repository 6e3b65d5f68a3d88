//! Where the registry comes from, and how it becomes the plan that is live.
//!
//! Rooms: `client` reads a source, `refresh` decides when, `compiling` makes documents a plan, `cache` keeps the last known good, `history`
//! remembers what was live. This one holds what is live now. Readers never wait; whoever loads does it one after the other, and what cannot go
//! live changes nothing. What a plan means for clients is the business of [`generation`](crate::generation).

mod cache;
mod client;
mod compiling;
mod documents;
mod history;
mod refresh;
#[cfg(test)]
mod tests;

pub use client::{Answer, FetchError, RegistryClient};
pub use documents::Fetched;
pub use history::{Difference, Version};

use crate::config::{Config, OnStart, OwnTools, RegistryConfig, RegistrySource};
use crate::metrics::{Metrics, Reload};
use crate::watch::{PACE, Pace};
use arc_swap::ArcSwapOption;
use cache::Cache;
use compiling::{Fit, Job, Meaning, Readings, Verdict};
use documents::Documents;
use history::History;
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::sync::{Notify, watch};
use transom_registry::{Plan, Problem};

/// So many problems of one version are logged.
const LOGGED: usize = 20;

/// What is live, and everything that may change it.
pub struct RegistryStore {
    current: ArcSwapOption<Loaded>,
    version: watch::Sender<u64>,
    metrics: Arc<Metrics>,
    /// Held by whoever starts or reconfigures: what is watched in the end must be what the last config says.
    configuring: tokio::sync::Mutex<()>,
    /// Held from the first look at the answers of sources to the swap.
    work: tokio::sync::Mutex<()>,
    compiling: Arc<Mutex<()>>,
    tickets: AtomicU64,
    salt: RandomState,
    state: Mutex<State>,
    pace: Pace,
}

struct State {
    configured: bool,
    registry: Option<RegistryConfig>,
    meaning: Arc<Meaning>,
    cache: Option<Arc<Cache>>,
    sources: Vec<Source>,
    /// The sources that what is live was compiled from.
    settled_on: Option<Vec<RegistrySource>>,
    /// What is wrong and no source is to blame for.
    error: Option<String>,
    history: History,
    versions: u64,
    /// The ticket of what is live: what was asked for earlier and comes later is out of date.
    adopted: u64,
    tasks: Vec<refresh::Task>,
}

/// A source and what is known of it.
struct Source {
    client: Arc<RegistryClient>,
    /// What it said last, fit or not.
    latest: Option<Fetched>,
    /// What it said when it last went live.
    good: Option<Good>,
    /// Attempts in a row that left us without what the source says.
    failures: u32,
    /// Told when they are over.
    recovered: Arc<Notify>,
    error: Option<String>,
}

#[derive(Clone)]
struct Good {
    document: Fetched,
    /// Whether another process wrote it down.
    cached: bool,
}

/// A plan that is or was live.
#[derive(Clone)]
pub struct Loaded {
    /// Counts from 1 and never goes back.
    pub version: u64,
    /// SHA-256 over the documents, in hex.
    pub digest: String,
    /// What they mean.
    pub plan: Arc<Plan>,
    /// What is wrong with them, each as `file:line:column: message (help)`; tools with an error are quarantined in the plan.
    pub problems: Vec<String>,
    /// When it went live.
    pub loaded_at: SystemTime,
    /// Where it came from.
    pub origin: Origin,
    /// What the sources published, in order.
    pub documents: Vec<Fetched>,
    own: Option<Arc<OwnTools>>,
    meaning: Arc<Meaning>,
    readings: Readings,
    definitions: BTreeMap<String, u64>,
}

impl Loaded {
    /// A problem of this plan as `file:line:column: message (help)`, found when it was compiled or later.
    pub fn describe(&self, problem: &Problem) -> String {
        Documents { own: self.own.clone(), fetched: self.documents.clone() }.describe(problem)
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("version", &self.version).field("digest", &self.digest).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Where a plan came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the sources, as they are.
    Source,
    /// From the last known good: some source could not be read.
    Cache,
    /// From an earlier version, because somebody said so.
    Rollback,
}

impl Origin {
    /// Its word in logs and `/status`.
    pub fn label(self) -> &'static str {
        match self {
            Origin::Source => "source",
            Origin::Cache => "cache",
            Origin::Rollback => "rollback",
        }
    }
}

/// Whose words are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    /// Those of every source that is configured now.
    OfAllSources,
    /// Those of an earlier version, or of some sources only.
    Other,
}

/// What came of a load that found nothing to complain about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What is live stays.
    Unchanged,
    /// Another plan is live.
    Adopted {
        /// Its number.
        version: u64,
        /// Virtual tools that were not there before.
        added: usize,
        /// Virtual tools that are gone.
        removed: usize,
        /// Virtual tools with another definition.
        changed: usize,
    },
}

/// Why documents cannot go live. What is live stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Rejected {
    /// Every reason, each as `file:line:column: message (help)`.
    pub reasons: Vec<String>,
    /// Which of the documents are to blame.
    pub at_fault: Vec<usize>,
}

impl Rejected {
    fn because(reason: String) -> Rejected {
        Rejected { reasons: vec![reason], at_fault: Vec::new() }
    }

    fn broken() -> Rejected {
        Rejected::because("the registry cannot be compiled: the compiler broke on it; please report this with the document".into())
    }

    fn text(&self) -> String {
        match self.reasons.as_slice() {
            [] => "the registry cannot be used".into(),
            [only] => only.clone(),
            [first, more @ ..] => format!("{first} (and {} more)", more.len()),
        }
    }
}

/// How it stands with the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sources, by name, in order.
    pub sources: Vec<String>,
    /// The version that is live.
    pub version: Option<u64>,
    /// Its digest.
    pub digest: Option<String>,
    /// When it went live.
    pub loaded_at: Option<SystemTime>,
    /// Where it came from.
    pub origin: Option<Origin>,
    /// What went wrong last and has not been right since, with its place.
    pub last_error: Option<String>,
    /// Whether what is live may not be what the sources say: one could not be read or was rejected, or it came from the cache or a rollback.
    pub stale: bool,
}

impl RegistryStore {
    /// A store for this config. Nothing is read yet.
    pub fn new(config: &Config, targets: Vec<String>, metrics: Arc<Metrics>) -> Arc<RegistryStore> {
        RegistryStore::with_pace(config, targets, metrics, PACE)
    }

    fn with_pace(config: &Config, targets: Vec<String>, metrics: Arc<Metrics>, pace: Pace) -> Arc<RegistryStore> {
        let state = State {
            configured: is_configured(config),
            registry: config.registry.clone(),
            meaning: meaning(config, targets),
            cache: Cache::of(config).map(Arc::new),
            sources: config.registry.iter().flat_map(|registry| &registry.sources).map(|source| Source::new(RegistryClient::new(source))).collect(),
            settled_on: None,
            error: None,
            history: History::default(),
            versions: 0,
            adopted: 0,
            tasks: Vec::new(),
        };
        Arc::new(RegistryStore {
            current: ArcSwapOption::empty(),
            version: watch::Sender::new(0),
            metrics,
            configuring: tokio::sync::Mutex::default(),
            work: tokio::sync::Mutex::default(),
            compiling: Arc::default(),
            tickets: AtomicU64::new(1),
            salt: RandomState::new(),
            state: Mutex::new(state),
            pace,
        })
    }

    /// Whether there is anything a plan could be made of. If not, there never is one, and tools pass through.
    pub fn is_configured(&self) -> bool {
        self.state().configured
    }

    /// What is live. Never waits.
    pub fn current(&self) -> Option<Arc<Loaded>> {
        self.current.load_full()
    }

    /// Whether what is live was compiled from the sources that are configured now. If not, an earlier plan stands in for them, or none at
    /// all, because one of them has not yet said anything that can go live. Without a registry there is nothing to wait for.
    pub fn is_settled(&self) -> bool {
        let state = self.state();
        !state.configured || state.is_settled()
    }

    /// Changes whenever [`current`](Self::current) does, and when what is live [turns out](Self::is_settled) to be what new sources say; the
    /// value is the version, and higher when there is no plan any more.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Compiles these documents and makes them current. For callers that can wait.
    pub fn update(&self, documents: Vec<Fetched>, origin: Origin) -> Result<Outcome, Rejected> {
        let job = self.job(documents.clone(), origin);
        let whole = origin == Origin::Source && {
            let state = self.state();
            state.sources.iter().map(|source| &source.client.source().name).eq(documents.iter().map(|document| &document.name))
        };
        let outcome = self.conclude(job.run_blocking(), origin, if whole { Words::OfAllSources } else { Words::Other })?;
        if origin == Origin::Source {
            let mut state = self.state();
            for document in documents {
                if let Some(source) = state.sources.iter_mut().find(|source| source.client.source().name == document.name) {
                    source.went_live(document, false);
                }
            }
        }
        Ok(outcome)
    }

    /// The last versions, newest last.
    pub fn history(&self) -> Vec<Version> {
        self.state().history.versions()
    }

    /// Goes back to what was published then, as a version of its own. It stays until a source says something new.
    pub fn rollback(&self, version: u64) -> Result<Outcome, String> {
        let (documents, known) = {
            let state = self.state();
            (state.history.documents(version), state.history.versions())
        };
        let Some(documents) = documents else {
            let known = match (known.first(), known.last()) {
                (Some(first), Some(last)) => format!("versions {} to {} are", first.version, last.version),
                _ => "none is".into(),
            };
            return Err(format!("version {version} of the registry is not remembered; {known}"));
        };
        self.update(documents, Origin::Rollback).map_err(|rejected| format!("version {version} of the registry cannot go live again: {rejected}"))
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let current = self.current();
        let state = self.state();
        let last_error = state.last_error();
        Status {
            sources: state.sources.iter().map(|source| source.client.source().name.clone()).collect(),
            version: current.as_ref().map(|current| current.version),
            digest: current.as_ref().map(|current| current.digest.clone()),
            loaded_at: current.as_ref().map(|current| current.loaded_at),
            origin: current.as_ref().map(|current| current.origin),
            stale: last_error.is_some() || current.is_some_and(|current| current.origin != Origin::Source),
            last_error,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn job(&self, documents: Vec<Fetched>, origin: Origin) -> Job {
        Job {
            documents,
            meaning: self.state().meaning.clone(),
            origin,
            previous: self.current(),
            turn: self.compiling.clone(),
            ticket: self.tickets.fetch_add(1, Ordering::Relaxed),
            salt: self.salt.clone(),
        }
    }

    /// Acts on what the compiler found.
    fn conclude(&self, verdict: Verdict, origin: Origin, words: Words) -> Result<Outcome, Rejected> {
        match verdict {
            Verdict::Fit(fit) => Ok(self.adopt(*fit, words)),
            Verdict::Same => {
                self.relabel(origin, words);
                self.metrics.registry_loads.ended(Reload::Unchanged);
                Ok(Outcome::Unchanged)
            }
            Verdict::Unfit(rejected) => {
                self.metrics.registry_loads.ended(Reload::Rejected);
                Err(rejected)
            }
        }
    }

    /// The source turns out to say what came from elsewhere: it is no longer stale. Only who waits for new sources needs to be told.
    fn relabel(&self, origin: Origin, words: Words) {
        let mut state = self.state();
        if let Some(current) = self.current()
            && current.origin != origin
        {
            self.current.store(Some(Arc::new(Loaded { origin, ..(*current).clone() })));
        }
        if words == Words::OfAllSources && !state.is_settled() {
            state.settle();
            self.version.send_modify(|_| {});
        }
    }

    /// Makes it live.
    fn adopt(&self, fit: Fit, words: Words) -> Outcome {
        let mut state = self.state();
        if fit.ticket < state.adopted {
            return Outcome::Unchanged;
        }
        state.adopted = fit.ticket;
        state.versions += 1;
        // Before anybody is told of the version: whoever waits for new sources looks once.
        if words == Words::OfAllSources {
            state.settle();
        }
        let live = |name: &String| fit.plan.get_tool(name).is_some();
        let definitions: BTreeMap<String, u64> = fit.definitions.into_iter().filter(|(name, _)| live(name)).collect();
        let previous = self.current();
        let nothing = BTreeMap::new();
        let difference = Difference::between(previous.as_ref().map_or(&nothing, |previous| &previous.definitions), &definitions);
        let [added, removed, changed] = [&difference.added, &difference.removed, &difference.changed].map(Vec::len);
        let loaded = Arc::new(Loaded {
            version: state.versions,
            digest: fit.digest,
            plan: fit.plan,
            problems: fit.problems,
            loaded_at: SystemTime::now(),
            origin: fit.origin,
            documents: fit.documents.fetched,
            own: fit.documents.own,
            meaning: fit.meaning,
            readings: fit.readings,
            definitions,
        });
        state.history.remember(&loaded, difference);
        self.current.store(Some(loaded.clone()));
        self.metrics.registry_loads.ended(Reload::Success);
        self.metrics.registry_loads.live(Some((&loaded.digest, loaded.loaded_at)));
        self.version.send_replace(loaded.version);
        drop(state);
        let digest = loaded.digest.get(..12).unwrap_or(&loaded.digest);
        tracing::info!(
            generation = loaded.version,
            digest,
            added,
            removed,
            changed,
            origin = loaded.origin.label(),
            "registry refreshed successfully"
        );
        for problem in loaded.problems.iter().take(LOGGED) {
            tracing::warn!(generation = loaded.version, "{problem}");
        }
        if let Some(more) = fit.all_problems.checked_sub(LOGGED).filter(|more| *more > 0) {
            tracing::warn!(generation = loaded.version, more, "the registry has more problems; `transom validate` shows them all");
        }
        Outcome::Adopted { version: loaded.version, added, removed, changed }
    }

    /// There is no registry any more.
    fn clear(&self) {
        let mut state = self.state();
        state.error = None;
        state.settled_on = None;
        state.adopted = self.tickets.load(Ordering::Relaxed);
        if self.current.swap(None).is_some() {
            state.versions += 1;
            self.metrics.registry_loads.live(None);
            self.version.send_replace(state.versions);
        }
    }
}

impl State {
    fn is_settled(&self) -> bool {
        self.settled_on.as_ref().is_some_and(|live| live.iter().eq(self.sources.iter().map(|source| source.client.source())))
    }

    fn settle(&mut self) {
        self.settled_on = Some(self.sources.iter().map(|source| source.client.source().clone()).collect());
    }

    fn last_error(&self) -> Option<String> {
        self.sources.iter().find_map(|source| source.error.clone()).or_else(|| self.error.clone())
    }

    fn on_start(&self) -> OnStart {
        self.registry.as_ref().map_or(OnStart::Require, |registry| registry.on_start)
    }
}

impl Source {
    fn new(client: RegistryClient) -> Source {
        Source { client: Arc::new(client), latest: None, good: None, failures: 0, recovered: Arc::default(), error: None }
    }

    /// Whether it said something that is not live because it cannot be.
    fn is_rejected(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| self.good.as_ref().is_none_or(|good| good.cached || good.document != *latest))
    }

    /// It says what is accepted of it. Whoever waits longer because it was not so need not.
    fn is_well(&mut self) {
        self.error = None;
        if let Some(latest) = &self.latest {
            self.client.accept(&latest.text);
        }
        if std::mem::take(&mut self.failures) > 0 {
            self.recovered.notify_waiters();
        }
    }

    fn went_live(&mut self, document: Fetched, cached: bool) {
        if !cached {
            self.latest = Some(document.clone());
            self.is_well();
        }
        self.good = Some(Good { document, cached });
    }
}

fn is_configured(config: &Config) -> bool {
    config.registry.is_some() || config.own_tools.is_some()
}

fn meaning(config: &Config, targets: Vec<String>) -> Arc<Meaning> {
    Arc::new(Meaning {
        own: config.own_tools.clone().map(Arc::new),
        reading: config.reading.clone(),
        targets,
        environment: config.environment.clone(),
        allow_empty: config.registry.as_ref().is_some_and(|registry| registry.allow_empty),
    })
}
