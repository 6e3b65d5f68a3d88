//! What the stages and surfaces share: the current generation, sessions, streams, targets, counters.

use crate::aside;
use crate::authenticate::InForce;
use crate::authorize::{Policy, Sight, Viewer};
use crate::config::{Config, Discovery, Naming, Readiness};
use crate::generation::{CheckedOffer, Generation, Material, Registry, Slot, View};
use crate::hub::{Hub, Watcher};
use crate::limits::Limits;
use crate::logging::Sampler;
use crate::metrics::{Action, Metrics};
use crate::naming::Names;
use crate::parked::Parked;
use crate::pressure::Pressure;
use crate::reply::{Failure, Reject};
use crate::seal::Seal;
use crate::session::Sessions;
use crate::store::RegistryStore;
use crate::tasks::TaskBook;
use crate::via::Via;
use crate::virtualize::masked;
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, watch};
use transom_registry::mask::Mask;
use transom_registry::secret::Secret;
use transom_upstream::{Host, SessionKey, Target, TargetSpec};

/// How long the first generation waits for targets that are still connecting.
const FIRST: Duration = Duration::from_secs(5);
/// When a generation that could not be built is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// The most requests at once.
const IN_FLIGHT: usize = 10_000;
/// The most bytes of requests at once.
const IN_FLIGHT_BYTES: usize = 256 * 1024 * 1024;

/// See the module's documentation.
pub struct Runtime {
    generation: ArcSwap<Generation>,
    live: watch::Sender<u64>,
    slots: Mutex<Vec<Arc<Slot>>>,
    naming: Mutex<Naming>,
    discovery: Mutex<Discovery>,
    wake: Arc<Wake>,
    /// Where the registry comes from.
    pub store: Arc<RegistryStore>,
    /// Seals what travels through clients and comes back.
    pub seal: Arc<Seal>,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Tasks whose makers want to hear of them.
    pub tasks: Arc<TaskBook>,
    /// Calls that wait for their clients to answer.
    pub parked: Arc<Parked>,
    /// Open streams.
    pub hub: Arc<Hub>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Who we are among gateways.
    pub via: Arc<Via>,
    /// Who may do what.
    pub policy: ArcSwap<Policy>,
    /// How short memory is.
    pub pressure: Pressure,
    /// How much and how long.
    pub limits: ArcSwap<Limits>,
    /// What clients were told of last; changes when they are told of something new.
    pub told: watch::Sender<Arc<Told>>,
    /// Who may come in, as configured.
    pub authentication: Arc<InForce>,
    /// Host and origin rules, as configured.
    pub gate: ArcSwap<crate::listener::gate::Gate>,
    /// What `/ready` asks for.
    pub readiness: Mutex<Readiness>,
    /// Whether the gateway is shutting down: readiness is down, requests are still served.
    pub draining: AtomicBool,
    /// Whether new requests are refused.
    pub closing: AtomicBool,
    /// Becomes true when every stream must end.
    pub ended: watch::Receiver<bool>,
    /// When it started.
    pub started: Instant,
    /// The same, by the clock on the wall.
    pub started_at: SystemTime,
    /// When the current generation was built.
    pub loaded_at: Mutex<SystemTime>,
    /// What programs have been given to call tools with.
    pub modules: crate::surface::Modules,
    /// Lists in the formats of LLM providers that were asked for last.
    pub exports: crate::surface::Exports,
    rejections: Sampler,
    in_flight: AtomicUsize,
    in_flight_bytes: AtomicUsize,
}

/// What clients were told of.
pub struct Told {
    /// This generation.
    pub generation: Arc<Generation>,
    /// Seen under these rules.
    pub policy: Arc<Policy>,
}

/// The exposed set of tools changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChanged {
    /// The generation that brought it.
    pub generation: u64,
    /// Tools that are new: exposed name and target.
    pub added: Vec<(String, String)>,
    /// Tools that are gone.
    pub removed: Vec<(String, String)>,
    /// Tools whose definition changed.
    pub changed: Vec<(String, String)>,
}

/// Wakes whoever builds generations, and passes on what targets have to say.
struct Wake {
    runtime: Weak<Runtime>,
    notify: Notify,
    tasks: Arc<TaskBook>,
    hub: Arc<Hub>,
    metrics: Arc<Metrics>,
    via: Arc<Via>,
}

impl Host for Wake {
    fn changed(&self) {
        self.notify.notify_one();
    }

    fn resource_updated(&self, target: &str, params: Bytes) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let generation = runtime.generation.load();
        let mask = generation.mask(target).map(|mask| &**mask);
        self.hub.resource_updated(target, &params, mask, |uri| generation.expose_uri(target, uri));
    }

    fn task_status(&self, target: &str, params: Bytes) {
        let Some(((session, message), runtime)) = self.tasks.status(target, &params).zip(self.runtime.upgrade()) else { return };
        let generation = runtime.generation.load();
        let clean = masked(generation.mask(target).map(|mask| &**mask), &message);
        if clean.is_some() {
            self.metrics.secret_reflected(target);
        }
        self.hub.tell_session(session, clean.unwrap_or(message));
    }

    fn connected(&self, target: &str, success: bool) {
        self.metrics.connected(target, success);
    }

    fn lost(&self, target: &str) {
        self.metrics.lost(target);
    }

    fn protocol_error(&self, target: &str, kind: &'static str) {
        self.metrics.protocol_error(target, kind);
    }

    fn hide(&self, target: &str, text: &str) -> Option<String> {
        let generation = self.runtime.upgrade()?.generation_now();
        generation.mask(target)?.text(text)
    }

    fn longest_hidden(&self, target: &str) -> usize {
        let generation = self.runtime.upgrade().map(|runtime| runtime.generation_now());
        generation.and_then(|generation| generation.mask(target).map(|mask| mask.longest())).unwrap_or(0)
    }

    fn via(&self) -> &str {
        self.via.chain()
    }
}

impl Runtime {
    /// Everything in its place; no target is started yet.
    pub fn new(config: &Config, policy: Policy, seal: Arc<Seal>, gate: crate::listener::gate::Gate, ended: watch::Receiver<bool>) -> Arc<Runtime> {
        let metrics = Metrics::new();
        let policy = Arc::new(policy);
        let hub = Hub::new(metrics.clone());
        let tasks = Arc::new(TaskBook::default());
        let via = Arc::new(Via::new(config.via.as_deref()));
        // Even a handshake before the first generation says how tools are found.
        let empty = Material { discovery: config.discovery.clone(), ..Material::default() };
        let empty = Generation::build(0, empty, &mut Names::default(), None, &|tool| metrics.tool(tool));
        Arc::new_cyclic(|runtime| Runtime {
            generation: ArcSwap::from_pointee(empty),
            live: watch::Sender::new(0),
            slots: Mutex::default(),
            naming: Mutex::new(config.naming.clone()),
            discovery: Mutex::new(config.discovery.clone()),
            wake: Arc::new(Wake {
                runtime: runtime.clone(),
                notify: Notify::new(),
                tasks: tasks.clone(),
                hub: hub.clone(),
                metrics: metrics.clone(),
                via: via.clone(),
            }),
            store: RegistryStore::new(config, target_names(&config.targets), metrics.clone()),
            sessions: Sessions::new(seal.clone()),
            seal,
            tasks,
            parked: Parked::new(),
            hub,
            metrics,
            via,
            told: watch::Sender::new(Arc::new(Told { generation: Arc::new(Generation::empty()), policy: policy.clone() })),
            policy: ArcSwap::new(policy),
            pressure: Pressure::new(config.memory_limit),
            limits: ArcSwap::from_pointee(Limits::new(&config.limits)),
            authentication: InForce::new(config.authentication.clone(), config.tls.is_some()),
            gate: ArcSwap::from_pointee(gate),
            readiness: Mutex::new(config.readiness),
            draining: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            ended,
            started: Instant::now(),
            started_at: SystemTime::now(),
            loaded_at: Mutex::new(SystemTime::now()),
            rejections: Sampler::default(),
            modules: crate::surface::Modules::default(),
            exports: crate::surface::Exports::default(),
            in_flight: AtomicUsize::new(0),
            in_flight_bytes: AtomicUsize::new(0),
        })
    }

    /// The current generation. Before the first one is built this waits for it, five seconds at most.
    pub async fn generation(&self) -> Arc<Generation> {
        let current = self.generation.load();
        if current.number > 0 {
            return arc_swap::Guard::into_inner(current);
        }
        let mut live = self.live.subscribe();
        let _ = tokio::time::timeout(FIRST + Duration::from_secs(1), live.wait_for(|number| *number > 0)).await;
        self.generation.load_full()
    }

    /// The current generation, whatever it is.
    pub fn generation_now(&self) -> Arc<Generation> {
        self.generation.load_full()
    }

    /// The targets that run, in the order of the config.
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().map(|slots| slots.clone()).unwrap_or_default()
    }

    /// Makes the targets these: what is new is started, what is gone is closed, what changed is replaced.
    pub fn set_targets(&self, specs: Vec<TargetSpec>) {
        let Ok(mut slots) = self.slots.lock() else { return };
        let mut old: HashMap<Arc<str>, Arc<Slot>> = slots.drain(..).map(|slot| (slot.name.clone(), slot)).collect();
        for spec in specs {
            let name: Arc<str> = spec.name.as_str().into();
            let slot = match old.remove(&name) {
                Some(slot) if slot.timeout == spec.timeout && slot.aliases == spec.aliases && connects_alike(slot.handle.spec(), &spec) => slot,
                replaced => {
                    let series = self.metrics.target(&name, spec.transport.label());
                    let (timeout, aliases, mask) = (spec.timeout, spec.aliases.clone(), mask(&spec));
                    let handle = match replaced {
                        // Only settings of ours changed: the connection stays.
                        Some(slot) if connects_alike(slot.handle.spec(), &spec) => slot.handle.clone(),
                        replaced => {
                            if let Some(slot) = replaced {
                                close(slot);
                            }
                            let handle = Target::start(spec, self.wake.clone());
                            // Who watched resources of a target with this name still does.
                            handle.subscribe_to(self.hub.watched_at(&name));
                            handle
                        }
                    };
                    Arc::new(Slot { name, handle, timeout, aliases, series, mask })
                }
            };
            slots.push(slot);
        }
        for slot in old.into_values() {
            self.metrics.forget_target(&slot.name);
            close(slot);
        }
        drop(slots);
        self.wake.notify.notify_one();
    }

    /// Other naming rules from the next generation on.
    pub fn set_naming(&self, naming: Naming) {
        if let Ok(mut current) = self.naming.lock() {
            *current = naming;
        }
        self.wake.notify.notify_one();
    }

    /// Other lists from the next generation on.
    pub fn set_discovery(&self, discovery: Discovery) {
        if let Ok(mut current) = self.discovery.lock() {
            *current = discovery;
        }
        self.wake.notify.notify_one();
    }

    /// Builds a generation whenever a target or the config changes. Runs for as long as the gateway does.
    pub async fn keep_current(self: Arc<Self>) {
        let mut names = Names::default();
        let mut offers: HashMap<Arc<str>, Arc<CheckedOffer>> = HashMap::new();
        let mut number = 0;
        let mut registry_changes = self.store.changes();
        let mut told = Vec::new();
        let mut built_from = None;
        loop {
            registry_changes.borrow_and_update();
            let slots = self.slots();
            let settled = slots.iter().all(|slot| slot.handle.state().settled);
            let waited = self.started.elapsed();
            if number == 0 && !settled && waited < FIRST {
                let _ = tokio::time::timeout(FIRST - waited, self.wake.notify.notified()).await;
                continue;
            }
            let rules = self.naming.lock().map(|naming| naming.clone()).unwrap_or_default();
            let separator = rules.separator.clone();
            names.set_rules(rules);
            names.keep_targets(&slots.iter().map(|slot| &*slot.name).collect());
            offers.retain(|name, _| slots.iter().any(|slot| slot.name == *name));
            let views = views(&slots, &mut offers).await;

            let discovery = self.discovery.lock().map(|discovery| discovery.clone()).unwrap_or_default();
            let (material, this) = (Material { views, registry: self.registry(), separator, discovery }, self.clone());
            let print = Fingerprint::of(&material, &names);
            if built_from.as_ref() == Some(&print) {
                // A target that cannot be reached changes its state with every attempt; that is no news.
                self.something_changed(&mut registry_changes).await;
                continue;
            }
            number += 1;
            let told_before = std::mem::take(&mut told);
            // Thousands of virtual tools take a while to bind; requests go on meanwhile.
            let built = aside::run("generation", move || {
                let previous = this.generation.load_full();
                let next = Generation::build(number, material, &mut names, Some(&previous), &|tool| this.metrics.tool(tool));
                this.metrics.generation(&next);
                let told = report(&next, told_before);
                (next, names, told)
            });
            let Ok(Some((next, back, now_told))) = built.await else {
                tracing::error!("a generation could not be built; the old one stays");
                names = Names::default();
                // Whatever was missing for it may be there again, and nobody else will ask.
                let _ = tokio::time::timeout(AGAIN, self.something_changed(&mut registry_changes)).await;
                continue;
            };
            (names, told, built_from) = (back, now_told, Some(print));
            if let Ok(mut at) = self.loaded_at.lock() {
                *at = SystemTime::now();
            }
            tracing::debug!(generation = number, tools = next.listed(crate::generation::Kind::Tool).len(), "generation is live");
            self.generation.store(Arc::new(next));
            self.live.send_replace(number);
            self.something_changed(&mut registry_changes).await;
        }
    }

    async fn something_changed(&self, registry_changes: &mut watch::Receiver<u64>) {
        tokio::select! {
            () = self.wake.notify.notified() => {}
            // The store lives as long as the runtime.
            _ = registry_changes.changed() => {}
        }
    }

    /// What the registry has to say now.
    fn registry(&self) -> Registry {
        match self.store.current() {
            Some(loaded) => Registry::Loaded(loaded),
            None if self.store.is_configured() => Registry::Awaited,
            None => Registry::None,
        }
    }

    /// Tells clients what changed: a burst is one notification, and a change that was undone is none.
    pub async fn keep_clients_told(self: Arc<Self>) {
        let mut live = self.live.subscribe();
        let _ = live.wait_for(|number| *number > 0).await;
        let mut told = Arc::new(Told { generation: self.generation.load_full(), policy: self.policy.load_full() });
        self.told.send_replace(told.clone());
        let mut warned = self.warn_of_names(&told, Vec::new());
        while live.changed().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            live.borrow_and_update();
            let current = Arc::new(Told { generation: self.generation.load_full(), policy: self.policy.load_full() });
            if Arc::ptr_eq(&told.generation, &current.generation) && Arc::ptr_eq(&told.policy, &current.policy) {
                continue;
            }
            let event = self.tell(&told, &current).await;
            let old = std::mem::replace(&mut told, current);
            warned = self.warn_of_names(&told, warned);
            if event != (ToolChanged { generation: event.generation, ..ToolChanged::default() }) {
                tracing::info!(
                    event = "tool-changed",
                    generation = event.generation,
                    added = event.added.len(),
                    removed = event.removed.len(),
                    changed = event.changed.len(),
                    "tools changed"
                );
            }
            drop(self.told.send_replace(told.clone()));
            // Nobody may need that generation any more, and thousands of tools take a while to go.
            let _gone = aside::run("generation-end", move || drop(old)).await;
            tokio::time::sleep(Duration::from_millis(900)).await;
        }
    }

    /// Says which names in rules nobody has, once for as long as it stays so.
    fn warn_of_names(&self, told: &Told, warned: Vec<String>) -> Vec<String> {
        const LINES: usize = 20;
        let names = told.policy.names_nobody_has(&told.generation);
        for warning in names.iter().filter(|warning| !warned.contains(warning)).take(LINES) {
            tracing::warn!(event = "rule_names_nobody", "{warning}");
        }
        names
    }

    /// Tells each stream what changed for whoever reads it. Gives what changed altogether.
    async fn tell(self: &Arc<Self>, old: &Arc<Told>, new: &Arc<Told>) -> ToolChanged {
        let compare = |old: &Told, new: &Told| crate::changes::between(&Sight::everything(&old.generation), &Sight::everything(&new.generation));
        let both = (old.clone(), new.clone());
        // Without a thread for it, here.
        let compared = aside::run("changes", move || compare(&both.0, &both.1)).await.ok().flatten();
        let (changed, event) = compared.unwrap_or_else(|| compare(old, new));
        let discovers = old.generation.discovers() || new.generation.discovers();
        if old.policy.allows_all() && new.policy.allows_all() && !discovers {
            if changed != crate::hub::Changed::default() {
                self.hub.changed(|_, _| changed.clone());
            }
            return event;
        }
        let (runtime, old, new) = (self.clone(), old.clone(), new.clone());
        // With many principals there is much to judge; requests go on meanwhile.
        let judged = tokio::task::spawn_blocking(move || {
            // What was compared is kept until the end, so that no two classes have one address.
            let mut by_class = HashMap::new();
            runtime.hub.changed(|viewer, scope| {
                let before = old.policy.sight(&old.generation, viewer, &runtime.metrics);
                let after = new.policy.sight(&new.generation, viewer, &runtime.metrics);
                // What a list shows may depend on how many tools its endpoint has. What is no target is no endpoint.
                let server = scope.server.as_deref().filter(|server| discovers && new.generation.view(server).is_some());
                let classes = (before.class(), after.class(), server.map(str::to_owned));
                let judged = by_class.entry(classes).or_insert_with(|| {
                    let (mut changed, _) = crate::changes::between(&before, &after);
                    if discovers {
                        changed.tools = crate::changes::of_lists(&before, &after, server);
                    }
                    (before, after, changed)
                });
                judged.2.clone()
            });
        });
        let _ = judged.await;
        event
    }

    /// From now on these rules count. Subscriptions that they do not allow end; lists that look different now are told of.
    pub fn set_policy(self: &Arc<Self>, policy: Policy) {
        self.policy.store(Arc::new(policy));
        let runtime = self.clone();
        tokio::task::spawn_blocking(move || {
            let (policy, metrics) = (runtime.policy.load(), &runtime.metrics);
            for target in runtime.hub.judge_again(|viewer, target, uri| policy.may_read(viewer, target, uri, metrics)) {
                runtime.follow(&target);
            }
        });
        self.live.send_modify(|_| {});
    }

    /// Whether there is such a target, as far as somebody may know.
    pub fn has_target(&self, viewer: &Viewer, target: &str) -> bool {
        let policy = self.policy.load();
        self.slots().iter().any(|slot| *slot.name == *target)
            && (policy.allows_all() || policy.sight(&self.generation.load(), viewer, &self.metrics).sees_target(target))
    }

    /// What a gateway in front is told: who answers, and who stands behind.
    pub fn gateways(&self) -> Option<http::HeaderValue> {
        let slots = self.slots();
        let known = slots.iter().flat_map(|slot| slot.handle.gateways().iter().cloned().collect::<Vec<_>>());
        self.via.behind(known)
    }

    /// Starts or stops telling somebody about a resource.
    pub fn watch(&self, generation: &Generation, viewer: &Viewer, watcher: Watcher, exposed: &str, on: bool) -> Result<(), Failure> {
        let not_found = || Failure::not_found("Resource", exposed);
        let (target, source) = match generation.resolve_uri(exposed) {
            Some(pair) => pair,
            None => match generation.with_source_uri(exposed) {
                [only] => (only.target_name().to_owned(), exposed.to_owned()),
                _ => return Err(not_found()),
            },
        };
        let permitted = self.policy.load().may_read(viewer, &target, &source, &self.metrics);
        self.metrics.decided(Action::Subscribe, permitted);
        if !permitted {
            return Err(not_found());
        }
        let view = generation.view(&target).ok_or_else(not_found)?;
        let can = view.offer.as_ref().is_some_and(|offer| offer.offer.capabilities.subscribe);
        if on && !can {
            return Err(Failure::InvalidParams(format!("target {target} does not tell when its resources change")));
        }
        if !on {
            self.hub.unwatch(watcher, &target, &source);
        } else if !self.hub.watch(watcher, viewer, &target, &source) {
            return Err(Failure::rejected(Reject::StreamCap, "Too many subscriptions; end some first"));
        }
        self.follow(&target);
        Ok(())
    }

    /// Stops telling somebody about anything.
    pub fn unwatch_all(&self, watcher: Watcher) {
        for target in self.hub.unwatch_all(watcher) {
            self.follow(&target);
        }
    }

    /// Makes a target tell of what is watched there and of nothing else. The target is the one that runs now, not that of an older
    /// generation; and of two who change what is watched, the last to come here has seen both.
    fn follow(&self, target: &str) {
        let Ok(slots) = self.slots.lock() else { return };
        if let Some(slot) = slots.iter().find(|slot| *slot.name == *target) {
            slot.handle.subscribe_to(self.hub.watched_at(target));
        }
    }

    /// A session ended: its streams, its subscriptions and its connections to targets go.
    pub fn session_ended(&self, session: SessionKey) {
        self.hub.end_session(session);
        self.unwatch_all(Watcher::Session(session));
        for slot in self.slots() {
            slot.handle.end_session(session);
        }
    }

    /// Housekeeping, every few seconds.
    pub async fn keep_tidy(self: Arc<Self>) {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            for session in self.sessions.sweep(&self.hub.listening()) {
                self.session_ended(session);
            }
            self.metrics.sweep();
        }
    }

    /// A place among the requests in flight; `None` if there is none.
    pub fn admit(self: &Arc<Self>) -> Option<Admitted> {
        if self.pressure.is_full() {
            return None;
        }
        if self.in_flight.fetch_add(1, Relaxed) >= IN_FLIGHT {
            self.in_flight.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Admitted { runtime: self.clone(), bytes: 0 })
    }

    /// A request was refused at the door: counted, and logged while there are few.
    pub fn rejected(&self, reason: Reject) {
        self.metrics.rejected(reason);
        if let Some(skipped) = self.rejections.admit(10) {
            tracing::info!(event = "rejected", reason = reason.label(), skipped, "request refused");
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }
}

/// A place among the requests in flight; dropping it gives the place and its bytes back.
pub struct Admitted {
    runtime: Arc<Runtime>,
    bytes: usize,
}

impl Admitted {
    /// Counts bytes of the request; `false` if there is no room for them.
    pub fn add_bytes(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.runtime.in_flight_bytes.fetch_add(bytes, Relaxed) + bytes <= self.runtime.pressure.bodies(IN_FLIGHT_BYTES)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.runtime.in_flight.fetch_sub(1, Relaxed);
        if self.bytes > 0 {
            self.runtime.in_flight_bytes.fetch_sub(self.bytes, Relaxed);
        }
    }
}

/// What hides the secrets that a config gives to a target; it fails only of more than any config can hold.
fn mask(spec: &TargetSpec) -> Option<Arc<Mask>> {
    let secrets: Vec<Secret> = spec.transport.secrets().into_iter().map(Secret::new).collect();
    Mask::new(&secrets).ok().filter(|mask| !mask.is_empty()).map(Arc::new)
}

/// The targets as they stand, with checked offers; one that is down keeps the offer it had.
async fn views(slots: &[Arc<Slot>], offers: &mut HashMap<Arc<str>, Arc<CheckedOffer>>) -> Vec<View> {
    let mut views = Vec::with_capacity(slots.len());
    for slot in slots {
        let state = slot.handle.state();
        if let Some(offer) = &state.offer
            && offers.get(&slot.name).is_none_or(|known| !Arc::ptr_eq(&known.offer, offer) || known.aliases != slot.aliases)
        {
            let (target, offer) = (slot.clone(), offer.clone());
            // Thousands of schemas take a while to check; requests go on meanwhile.
            let checked =
                tokio::task::spawn_blocking(move || CheckedOffer::check(&target.name, &target.aliases, offer, target.mask.as_deref())).await;
            if let Ok(checked) = checked {
                offers.insert(slot.name.clone(), Arc::new(checked));
            }
        }
        views.push(View { slot: slot.clone(), status: state.status, offer: offers.get(&slot.name).cloned() });
    }
    views
}

/// What a generation is built from, to compare. The same material makes the same generation.
#[derive(PartialEq)]
struct Fingerprint {
    /// Each target, whether it is in service, and what it offers, by address: nothing of it is changed in place, and the
    /// generation that was built from it keeps it alive.
    targets: Vec<(usize, bool, usize)>,
    registry: usize,
    naming: Naming,
    discovery: Discovery,
}

impl Fingerprint {
    fn of(material: &Material, names: &Names) -> Fingerprint {
        let offer = |view: &View| view.offer.as_ref().map_or(0, |offer| Arc::as_ptr(offer) as usize);
        Fingerprint {
            targets: material.views.iter().map(|view| (Arc::as_ptr(&view.slot) as usize, view.available(), offer(view))).collect(),
            registry: match &material.registry {
                Registry::None => 0,
                Registry::Awaited => 1,
                Registry::Loaded(loaded) => Arc::as_ptr(loaded) as usize,
            },
            naming: names.rules().clone(),
            discovery: material.discovery.clone(),
        }
    }
}

/// What showed only when the plan met the catalog, said once for as long as it stays.
fn report(generation: &Generation, told: Vec<String>) -> Vec<String> {
    const LINES: usize = 20;
    let Some((tools, loaded)) = generation.tools().zip(generation.registry().loaded()) else { return Vec::new() };
    let mut problems: Vec<String> = tools.problems().iter().map(|problem| loaded.describe(problem)).collect();
    let displaced = generation.displaced().iter();
    problems.extend(displaced.map(|name| {
        format!("the registry's tool `{name}` is left out: under `discovery` that name belongs to a tool of the gateway; give it another")
    }));
    for message in problems.iter().filter(|message| !told.contains(message)).take(LINES) {
        tracing::warn!(generation = generation.number, "{message}");
    }
    problems
}

/// The names of targets, in order.
pub fn target_names(targets: &[TargetSpec]) -> Vec<String> {
    targets.iter().map(|target| target.name.clone()).collect()
}

/// Whether two targets are reached in the same way; timeouts and aliases are our own business.
fn connects_alike(one: &TargetSpec, other: &TargetSpec) -> bool {
    let same = TargetSpec { timeout: one.timeout, aliases: one.aliases.clone(), ..other.clone() };
    *one == same
}

/// Closes a target that nobody can address any more, once the calls that still run there have ended.
fn close(slot: Arc<Slot>) {
    tokio::spawn(async move {
        let until = Instant::now() + slot.timeout;
        while slot.handle.in_flight() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        slot.handle.close().await;
    });
}
