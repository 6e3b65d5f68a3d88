//! When sources are read, and what is done with what they say.
//!
//! Files are watched, servers are asked at intervals, and everything is read again when somebody asks. Each source is read by one reader at a
//! time, so that an answer never overtakes a newer one; a slow server holds up nobody else.

use super::client::{Answer, FetchError, RegistryClient};
use super::compiling::Verdict;
use super::documents::Fetched;
use super::{Cache, Good, Loaded, Origin, Outcome, RegistryStore, Rejected, Source, Words, is_configured, meaning};
use crate::aside;
use crate::config::{Config, OnStart, RegistryLocation};
use crate::metrics::Reload;
use crate::watch::{Changes, watch_at};
use futures_util::future::join_all;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A server is not asked more often, whatever the config says.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// A task that ends with its handle.
pub(super) struct Task(tokio::task::JoinHandle<()>);

impl Task {
    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        !self.0.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why sources were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It was time, or a file changed.
    News,
    /// A secret may have changed: what is live is compiled again if it has.
    Secrets,
    /// Somebody asked: what was rejected gets another chance.
    Asked,
    /// The config is another one, with other sources or the same.
    Config { sources: bool },
}

type Answered = (Arc<RegistryClient>, Result<Answer, FetchError>);

impl RegistryStore {
    /// The first load, as `onStart` says; then the sources are watched. An error means that the gateway must not start.
    pub async fn start(self: &Arc<Self>) -> Result<(), String> {
        if !self.is_configured() {
            return Ok(());
        }
        let _one_at_a_time = self.configuring.lock().await;
        self.warn_of_open_doors();
        let eyes = self.eyes(Vec::new());
        self.fall_back_on_cache().await;
        let loaded = self.read(self.clients(), Cause::Config { sources: true }).await;
        if self.current().is_none() {
            let reason = loaded.err().unwrap_or_else(|| "the registry has not been loaded".into());
            match self.state().on_start() {
                OnStart::Retry => tracing::warn!("starting without a registry, no tool is listed until it is loaded"),
                OnStart::Cached => return Err(format!("{reason}; and there is no last known good to start with")),
                OnStart::Require => return Err(reason),
            }
        }
        self.keep_reading(eyes);
        Ok(())
    }

    /// Reads every source again now, and the environment.
    pub async fn reload(self: &Arc<Self>) -> Result<Outcome, String> {
        if !self.is_configured() {
            return Ok(Outcome::Unchanged);
        }
        self.read(self.clients(), Cause::Asked).await
    }

    /// Goes on with another config. Sources that are in both go on as they were; what cannot go live changes nothing.
    pub async fn reconfigure(self: &Arc<Self>, config: &Config, targets: Vec<String>) {
        let _one_config_at_a_time = self.configuring.lock().await;
        let (fresh, sources_changed, restart, configured) = {
            let _one_load_at_a_time = self.work.lock().await;
            let mut state = self.state();
            let wanted: Vec<_> = config.registry.iter().flat_map(|registry| &registry.sources).collect();
            let sources_changed = !state.sources.iter().map(|source| source.client.source()).eq(wanted.iter().copied());
            let interval = |registry: Option<&crate::config::RegistryConfig>| registry.map(|registry| registry.refresh);
            let restart = sources_changed || interval(state.registry.as_ref()) != interval(config.registry.as_ref()) || state.tasks.is_empty();
            let mut fresh = Vec::new();
            if sources_changed {
                let mut old = std::mem::take(&mut state.sources);
                for source in wanted {
                    let known = old.iter().position(|each| each.client.source() == source).map(|at| old.swap_remove(at));
                    state.sources.push(known.unwrap_or_else(|| {
                        let source = Source::new(RegistryClient::new(source));
                        fresh.push(source.client.clone());
                        source
                    }));
                }
            }
            state.configured = is_configured(config);
            state.registry = config.registry.clone();
            state.meaning = meaning(config, targets);
            state.cache = Cache::of(config).map(Arc::new);
            if restart {
                state.tasks.clear();
            }
            (fresh, sources_changed, restart, state.configured)
        };
        if !configured {
            self.clear();
            return;
        }
        let eyes = restart.then(|| self.eyes(Vec::new()));
        if restart {
            self.warn_of_open_doors();
        }
        if self.current().is_none() {
            self.fall_back_on_cache().await;
        }
        // What went wrong is in the log and in the status; what was live still is.
        let _ = self.read(fresh, Cause::Config { sources: sources_changed }).await;
        if let Some(eyes) = eyes {
            self.keep_reading(eyes);
        }
    }

    fn clients(&self) -> Vec<Arc<RegistryClient>> {
        self.state().sources.iter().map(|source| source.client.clone()).collect()
    }

    /// Says once what an operator may not have meant.
    fn warn_of_open_doors(&self) {
        let reads_anything = self.state().meaning.reading.env_allow.is_none();
        for client in self.clients() {
            let source = &client.source().name;
            if client.sends_secrets_in_the_open() {
                tracing::warn!(%source, "the registry's token travels over plain http; use https");
            }
            if reads_anything && matches!(client.source().location, RegistryLocation::Http { .. }) {
                tracing::warn!(%source, "a registry from the network may read every variable of this process; bound it with `registry.env.allow`");
            }
            if let Some(warning) = client.writable_by_others() {
                tracing::warn!(%source, "{warning}");
            }
        }
    }

    /// What another process left behind counts until the sources say something.
    async fn fall_back_on_cache(&self) {
        let (cache, on_start) = {
            let state = self.state();
            (state.cache.clone(), state.on_start())
        };
        if on_start != OnStart::Cached {
            return;
        }
        let Some(cache) = cache else {
            tracing::debug!("there is no state directory, so no last known good of the registry is kept");
            return;
        };
        let Ok(documents) = tokio::task::spawn_blocking(move || cache.read()).await else { return };
        let mut state = self.state();
        for (source, document) in state.sources.iter_mut().zip(documents.unwrap_or_default()) {
            if source.good.is_none() && document.name == source.client.source().name {
                source.good = Some(Good { document, cached: true });
            }
        }
    }

    /// Reads these sources at once, and takes in what they say together.
    async fn read(self: &Arc<Self>, clients: Vec<Arc<RegistryClient>>, cause: Cause) -> Result<Outcome, String> {
        // In order, so that two who read several never wait for each other.
        let mut turns = Vec::with_capacity(clients.len());
        for client in &clients {
            turns.push(client.turn().await);
        }
        let answers = join_all(clients.iter().map(|client| client.fetch())).await;
        let (store, answers) = (self.clone(), clients.iter().cloned().zip(answers).collect());
        // To its end, also when who asked is gone: what was noted as the latest word of a source counts as news only once.
        let taken = tokio::spawn(async move {
            let taken = store.take_in(answers, cause).await;
            drop(turns);
            taken
        });
        taken.await.unwrap_or_else(|error| Err(format!("what the sources say could not be taken in: {error}")))
    }

    /// Notes what the sources said, and makes it live if it is new and fit.
    async fn take_in(self: &Arc<Self>, answers: Vec<Answered>, cause: Cause) -> Result<Outcome, String> {
        let _one_at_a_time = self.work.lock().await;
        let asked = !answers.is_empty();
        let (news, failures) = self.note(answers);
        let current = self.current();
        let from_sources = {
            let state = self.state();
            let rejected = || state.sources.iter().any(Source::is_rejected);
            news || current.is_none()
                || match cause {
                    Cause::News | Cause::Secrets => false,
                    Cause::Asked => rejected(),
                    Cause::Config { sources } => sources || rejected(),
                }
        };
        let outcome = match (from_sources, current) {
            (true, _) => {
                let loaded = self.load_sources().await;
                match self.current() {
                    // What the sources said has not ended the rollback, but secrets and config count for it too.
                    Some(current) if cause != Cause::News && self.holds_rollback() => {
                        let compiled = self.compile_again(&current).await;
                        loaded.and(compiled)
                    }
                    _ => loaded,
                }
            }
            (false, Some(current)) if cause != Cause::News => self.compile_again(&current).await,
            _ => {
                if asked && failures.is_empty() {
                    self.metrics.registry_loads.ended(if self.state().sources.iter().any(Source::is_rejected) {
                        Reload::Rejected
                    } else {
                        Reload::Unchanged
                    });
                }
                Ok(Outcome::Unchanged)
            }
        };
        self.metrics.registry_loads.well(self.state().last_error().is_none());
        match outcome {
            Err(reason) if failures.is_empty() => Err(reason),
            _ if !failures.is_empty() => Err(failures.join("; ")),
            outcome => outcome,
        }
    }

    /// Compiles what is live with the secrets and the config of now. After a rollback this is not what the sources say, and stays so.
    async fn compile_again(self: &Arc<Self>, current: &Loaded) -> Result<Outcome, String> {
        let verdict = self.job(current.documents.clone(), current.origin).run().await;
        self.conclude_aside(verdict, current.origin, Words::Other).await.map_err(|rejected| self.blame(&rejected))
    }

    /// What is new among thousands of tools takes a while to tell; requests go on meanwhile.
    async fn conclude_aside(self: &Arc<Self>, verdict: Verdict, origin: Origin, words: Words) -> Result<Outcome, Rejected> {
        if !matches!(verdict, Verdict::Fit(_)) {
            return self.conclude(verdict, origin, words);
        }
        let store = self.clone();
        match aside::run("registry-adopt", move || store.conclude(verdict, origin, words)).await {
            Ok(Some(concluded)) => concluded,
            Ok(None) => Err(Rejected::broken()),
            Err(error) => Err(Rejected::because(format!("the registry cannot go live: no thread for it: {error}"))),
        }
    }

    /// Whether somebody went back to an earlier version. With other sources in the config this counts no more.
    fn holds_rollback(&self) -> bool {
        self.current().is_some_and(|current| current.origin == Origin::Rollback) && self.state().is_settled()
    }

    /// Writes down what each source said: whether there is news, and what went wrong.
    fn note(&self, answers: Vec<Answered>) -> (bool, Vec<String>) {
        let mut news = false;
        let mut failures = Vec::new();
        let mut state = self.state();
        for (client, answer) in answers {
            // A source may have left the config while it was read.
            let Some(source) = state.sources.iter_mut().find(|source| Arc::ptr_eq(&source.client, &client)) else { continue };
            match answer {
                Err(error) => {
                    self.metrics.registry_loads.ended(if error.rejected { Reload::Rejected } else { Reload::Failed });
                    source.failed(&error.to_string());
                    failures.push(error.to_string());
                }
                Ok(Answer::Document(document)) if source.latest.as_ref() != Some(&document) => {
                    if source.good.as_ref().is_some_and(|good| good.document != document) {
                        tracing::info!(source = document.name, "registry changed, reloading");
                    }
                    source.latest = Some(document);
                    news = true;
                }
                Ok(_) if source.is_rejected() => source.failures = source.failures.saturating_add(1),
                Ok(_) => source.is_well(),
            }
        }
        (news, failures)
    }

    /// Makes what the sources say live. A source that says something unfit is represented by what it said before, so that it
    /// costs the others nothing.
    async fn load_sources(self: &Arc<Self>) -> Result<Outcome, String> {
        struct Candidate {
            document: Fetched,
            good: Option<Good>,
            cached: bool,
            /// Whether it is something else than what was accepted of this source before.
            new: bool,
        }
        let candidates: Option<Vec<Candidate>> = {
            let state = self.state();
            let candidate = |source: &Source| match (&source.latest, &source.good) {
                (Some(latest), good) => {
                    let new = good.as_ref().is_none_or(|good| good.document != *latest);
                    Some(Candidate { document: latest.clone(), good: good.clone(), cached: false, new })
                }
                (None, Some(good)) => Some(Candidate { document: good.document.clone(), good: None, cached: good.cached, new: false }),
                // Without a word from one of them nothing is shown: what it would have withdrawn must stay out of sight.
                (None, None) => None,
            };
            state.sources.iter().map(candidate).collect()
        };
        let Some(mut candidates) = candidates else { return Ok(Outcome::Unchanged) };
        let mut complaint = None;
        loop {
            let documents: Vec<Fetched> = candidates.iter().map(|candidate| candidate.document.clone()).collect();
            let origin = if candidates.iter().any(|candidate| candidate.cached) { Origin::Cache } else { Origin::Source };
            let verdict = self.job(documents.clone(), origin).run().await;
            let says_nothing_new = !candidates.iter().any(|candidate| candidate.new);
            if says_nothing_new && !matches!(verdict, Verdict::Unfit(_)) && self.holds_rollback() {
                // What is left is what somebody went back from.
                self.went_live(candidates.into_iter().map(|candidate| (candidate.document, candidate.cached)), &complaint);
                if complaint.is_none() {
                    self.metrics.registry_loads.ended(Reload::Unchanged);
                }
                return complaint.map_or(Ok(Outcome::Unchanged), Err);
            }
            match self.conclude_aside(verdict, origin, Words::OfAllSources).await {
                Ok(outcome) => {
                    self.went_live(candidates.into_iter().map(|candidate| (candidate.document, candidate.cached)), &complaint);
                    if origin == Origin::Source {
                        self.keep_as_last_known_good(documents).await;
                    }
                    return complaint.map_or(Ok(outcome), Err);
                }
                Err(rejected) => {
                    let reason = self.blame(&rejected);
                    complaint.get_or_insert(reason.clone());
                    let mut replaced = false;
                    for at in rejected.at_fault {
                        if let Some(candidate) = candidates.get_mut(at)
                            && let Some(good) = candidate.good.take()
                            && good.document != candidate.document
                        {
                            (candidate.document, candidate.cached, candidate.new) = (good.document, good.cached, false);
                            replaced = true;
                        }
                    }
                    if !replaced {
                        return Err(reason);
                    }
                }
            }
        }
    }

    /// Remembers what of each source is accepted now; it is live, unless a rollback stands before it.
    fn went_live(&self, documents: impl Iterator<Item = (Fetched, bool)>, complaint: &Option<String>) {
        let mut state = self.state();
        if complaint.is_none() {
            state.error = None;
        }
        for (source, (document, cached)) in state.sources.iter_mut().zip(documents) {
            match &source.latest {
                Some(latest) if *latest != document => source.good = Some(Good { document, cached }),
                _ => source.went_live(document, cached),
            }
        }
    }

    /// Tells the log and the status who is to blame.
    fn blame(&self, rejected: &Rejected) -> String {
        let reason = rejected.to_string();
        let mut state = self.state();
        let state = &mut *state;
        let mut somebody = false;
        for at in &rejected.at_fault {
            if let Some(source) = state.sources.get_mut(*at) {
                source.failed(&reason);
                somebody = true;
            }
        }
        if !somebody {
            if state.error.as_ref() != Some(&reason) {
                tracing::warn!("{reason}");
            }
            state.error = Some(reason.clone());
        }
        reason
    }

    async fn keep_as_last_known_good(&self, documents: Vec<Fetched>) {
        let Some(cache) = self.state().cache.clone() else { return };
        if documents.is_empty() {
            return;
        }
        let written = aside::run("registry-cache", move || cache.write(&documents)).await;
        if let Ok(Some(Err(error))) = written {
            tracing::warn!(%error, "the last known good registry cannot be kept; a restart during an outage of the registry will fail");
        }
    }

    /// A watch over the files among the sources and these others.
    fn eyes(&self, others: Vec<PathBuf>) -> Option<Changes> {
        let mut paths: Vec<PathBuf> = self.clients().iter().filter_map(|client| client.path().map(ToOwned::to_owned)).collect();
        paths.extend(others);
        if paths.is_empty() {
            return None;
        }
        watch_at(paths, self.pace).inspect_err(|error| tracing::warn!(%error, "registry files cannot be watched; use `POST /api/reload`")).ok()
    }

    /// From here on sources are read without anybody asking.
    fn keep_reading(self: &Arc<Self>, eyes: Option<Changes>) {
        let interval = self.state().registry.as_ref().map_or(LAST_RETRY, |registry| registry.refresh);
        let servers = self.clients().into_iter().filter(|client| client.path().is_none());
        let mut tasks: Vec<Task> = servers.map(|client| self.spawn_refresh_loop(client, interval)).collect();
        tasks.push(self.spawn_file_watcher(eyes));
        self.state().tasks = tasks;
    }

    /// Asks a server again and again: at the interval, or sooner as long as something is wrong.
    fn spawn_refresh_loop(self: &Arc<Self>, client: Arc<RegistryClient>, interval: Duration) -> Task {
        let store = Arc::downgrade(self);
        let recovered = self.recovered(&client);
        Task(tokio::spawn(async move {
            loop {
                // It hears from here on, also while the pause is worked out.
                let well_again = recovered.notified();
                let Some(pause) = store.upgrade().map(|store| store.pause(&client, interval)) else { return };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    // Somebody else has read it with success: what is left of a long wait counts no more.
                    () = well_again => continue,
                }
                let Some(store) = store.upgrade() else { return };
                // A failure is in the log and in the status; the next round is due all the same.
                let _ = store.read(vec![client.clone()], Cause::News).await;
            }
        }))
    }

    /// Reads the files again when one of them, or a file behind `${file:…}`, has other content.
    fn spawn_file_watcher(self: &Arc<Self>, mut eyes: Option<Changes>) -> Task {
        let store = Arc::downgrade(self);
        let mut versions = self.version.subscribe();
        let poll = self.pace.poll;
        let mut secrets = Vec::new();
        // What is live already may read files.
        versions.mark_changed();
        Task(tokio::spawn(async move {
            loop {
                let cause = tokio::select! {
                    () = changed(&mut eyes) => Cause::News,
                    told = versions.changed() => {
                        if told.is_err() { return }
                        let Some(store) = store.upgrade() else { return };
                        let now = store.secret_files();
                        if now == secrets {
                            continue;
                        }
                        // Only absolute paths are ours to find; the others are found by the poll.
                        eyes = store.eyes(now.iter().filter(|path| path.is_absolute()).cloned().collect());
                        secrets = now;
                        Cause::Secrets
                    }
                    () = tokio::time::sleep(poll), if !secrets.is_empty() => Cause::Secrets,
                };
                let Some(store) = store.upgrade() else { return };
                let files =
                    if cause == Cause::News { store.clients().into_iter().filter(|client| client.path().is_some()).collect() } else { Vec::new() };
                let cause = if secrets.is_empty() { cause } else { Cause::Secrets };
                // A failure is in the log and in the status; the next change is looked at all the same.
                let _ = store.read(files, cause).await;
            }
        }))
    }

    fn secret_files(&self) -> Vec<PathBuf> {
        self.current().map_or_else(Vec::new, |current| current.readings.files().map(ToOwned::to_owned).collect())
    }

    /// Told when this source is well again; never, if it has left the config.
    fn recovered(&self, client: &Arc<RegistryClient>) -> Arc<Notify> {
        let state = self.state();
        state.sources.iter().find(|source| Arc::ptr_eq(&source.client, client)).map_or_else(Arc::default, |source| source.recovered.clone())
    }

    fn pause(&self, client: &Arc<RegistryClient>, interval: Duration) -> Duration {
        let failures = self.state().sources.iter().find(|source| Arc::ptr_eq(&source.client, client)).map_or(0, |source| source.failures);
        pause(failures, interval).mul_f64(rand::random_range(0.9..=1.1))
    }
}

/// Before jitter: the interval if all is well, else a wait that doubles.
fn pause(failures: u32, interval: Duration) -> Duration {
    match failures.checked_sub(1) {
        None => interval.max(SHORTEST_INTERVAL),
        Some(doublings) => FIRST_RETRY.saturating_mul(1 << doublings.min(16)).min(LAST_RETRY),
    }
}

async fn changed(eyes: &mut Option<Changes>) {
    match eyes {
        Some(eyes) => eyes.changed().await,
        None => std::future::pending().await,
    }
}

impl Source {
    /// Whoever fails the same way again and again is mentioned less and less often.
    fn failed(&mut self, reason: &str) {
        self.failures = self.failures.saturating_add(1);
        if self.error.as_deref() != Some(reason) || self.failures.is_power_of_two() {
            let consequence = match &self.good {
                Some(good) if good.cached => "the last known good counts",
                Some(_) => "what was live stays",
                None => "nothing of it is live",
            };
            tracing::warn!(source = self.client.source().name, failures = self.failures, "{reason}; {consequence}");
        }
        self.error = Some(reason.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_100_ms_to_a_minute_and_success_resets_them() {
        // L6
        let interval = Duration::from_secs(300);
        for (failures, millis) in [(0, 300_000), (1, 100), (2, 200), (3, 400), (10, 51_200), (11, 60_000), (500, 60_000)] {
            assert_eq!(pause(failures, interval), Duration::from_millis(millis), "{failures}");
        }
        assert_eq!(pause(0, Duration::ZERO), SHORTEST_INTERVAL);
    }
}
