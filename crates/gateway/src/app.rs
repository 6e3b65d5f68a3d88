//! Start-up and shutdown, in the order they happen.

use crate::authorize::{BadRule, Policy};
use crate::config::{Config, ListenAt};
use crate::limits::Limits;
use crate::listener::edge::Edge;
use crate::listener::gate::Gate;
use crate::listener::lanes::Lanes;
use crate::listener::legacy_sse::LegacySse;
use crate::listener::mcp::Endpoint;
use crate::listener::tls::Tls;
use crate::listener::{Closing, Room, serve};
use crate::runtime::{Runtime, target_names};
use crate::seal::Seal;
use crate::side::{Side, Which};
use crate::stack::stack;
use crate::store::RegistryStore;
use crate::via::is_own;
use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, watch};
use transom_upstream::{Secret, Status};

/// How long others keep sending after readiness went down.
const NOTICE: Duration = Duration::from_secs(5);
/// How long targets may take to close.
const CLOSE: Duration = Duration::from_secs(10);

/// A silent peer is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;
/// What we sent and nobody acknowledged for this long was sent to nobody. A stream sends something every 15 s at least.
const UNHEARD: Duration = Duration::from_secs(15);

/// A gateway whose sockets are bound and whose targets are being connected.
pub struct Bound {
    main: TcpListener,
    admin: TcpListener,
    metrics: TcpListener,
    addresses: [SocketAddr; 3],
    tls: Option<Arc<Tls>>,
    handle: Handle,
    drain: Duration,
    ended: watch::Sender<bool>,
}

fn bad_rules(bad: &[BadRule]) -> String {
    let said: Vec<String> = bad.iter().map(|bad| format!("authorization rule {}: {}", bad.rule + 1, bad.message)).collect();
    said.join("; ")
}

/// A way to reach a gateway while it runs. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    runtime: Arc<Runtime>,
    started_with: Arc<Config>,
    bind: IpAddr,
    /// The newest config, for what takes a while to follow it.
    configs: watch::Sender<Arc<Config>>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken.
    #[error("port {port} is already in use ({what} listener); choose another port or stop the program that has it")]
    PortTaken {
        /// Which port.
        port: u16,
        /// Which listener.
        what: &'static str,
    },
    /// An address we cannot have.
    #[error("cannot listen on {address} ({what} listener): {reason}")]
    CannotListen {
        /// Which address.
        address: SocketAddr,
        /// Which listener.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// Anybody could call anything.
    #[error(
        "refusing to listen on {0} without authentication: anybody who can reach it could call every tool; \
         listen on 127.0.0.1, configure policies.authentication, or set allowUnauthenticated: true if the network is trusted"
    )]
    Unauthenticated(SocketAddr),
    /// A target that is ourselves.
    #[error("target {0} is this gateway's own listener; every call of it would come back here")]
    OwnListener(String),
    /// The certificate or its key.
    #[error("{0}")]
    Tls(String),
    /// A rule about who may do what.
    #[error("{}", bad_rules(.0))]
    Rules(Vec<BadRule>),
    /// The registry.
    #[error("{0}")]
    Registry(String),
    /// No randomness to be had.
    #[error("the system gave no random bytes for a session key")]
    NoRandomness,
}

/// Binds the listeners and starts to connect every target.
pub async fn bind(config: Config) -> Result<Bound, StartError> {
    if !config.listen.ip().is_loopback() && !config.allow_unauthenticated && config.authentication.is_none() {
        return Err(StartError::Unauthenticated(config.listen));
    }
    let tls = config.tls.clone().map(Tls::load).transpose().map_err(StartError::Tls)?;
    let main = listen(config.listen, "main")?;
    let admin = listen_at(config.admin, "admin")?;
    let metrics = listen_at(config.metrics, "metrics")?;
    let address = |listener: &TcpListener, wanted| listener.local_addr().unwrap_or(wanted);
    let addresses = [address(&main, config.listen), address(&admin, config.listen), address(&metrics, config.listen)];

    if let Some(target) =
        config.targets.iter().find(|target| target.transport.url().is_some_and(|url| is_own(url, addresses[0], &config.allowed_hosts)))
    {
        return Err(StartError::OwnListener(target.name.clone()));
    }

    let seal = Seal::new(config.session_key.as_ref().map(Secret::expose)).ok_or(StartError::NoRandomness)?;
    let bind = config.listen.ip();
    let gate = Gate::new(&config.allowed_hosts, &config.allowed_origins, bind);
    let (ended, when_ended) = watch::channel(false);
    let policy = Policy::compile(config.authorization.as_deref()).map_err(StartError::Rules)?;
    let runtime = Runtime::new(&config, policy, Arc::new(seal), gate, when_ended);
    if config.allow_unauthenticated && config.authentication.is_none() {
        tracing::warn!(event = "unsafe_option", name = "allowUnauthenticated", "anybody who can reach the listener can call every tool");
        runtime.metrics.unsafe_option("allowUnauthenticated");
    }
    // Targets connect while the registry is fetched.
    runtime.set_targets(config.targets.clone());
    if let Err(reason) = runtime.store.start().await {
        futures_util::future::join_all(runtime.slots().into_iter().map(|slot| async move { slot.handle.close().await })).await;
        return Err(StartError::Registry(reason));
    }
    tokio::spawn(runtime.clone().keep_current());
    tokio::spawn(runtime.clone().keep_clients_told());
    tokio::spawn(runtime.clone().keep_tidy());
    tokio::spawn(crate::pressure::keep_watch(runtime.clone()));
    if let Some(tls) = &tls {
        tokio::spawn(tls.clone().keep_current());
    }
    let drain = config.drain;
    let started_with = Arc::new(config);
    let configs = watch::Sender::new(started_with.clone());
    tokio::spawn(keep_configured(runtime.clone(), configs.subscribe()));
    let handle = Handle { runtime, started_with, bind, configs };
    Ok(Bound { main, admin, metrics, addresses, tls, handle, drain, ended })
}

/// Follows every new config, one after the other; of several that came meanwhile, the last. First the registry, then the
/// targets: until the registry that belongs to them is there, nobody knows which of their tools may be seen.
async fn keep_configured(runtime: Arc<Runtime>, mut configs: watch::Receiver<Arc<Config>>) {
    let mut versions = runtime.store.changes();
    'next: while configs.changed().await.is_ok() {
        loop {
            let config = configs.borrow_and_update().clone();
            runtime.store.reconfigure(&config, target_names(&config.targets)).await;
            versions.borrow_and_update();
            if !runtime.store.is_settled() {
                tracing::warn!("the registry of the changed config cannot be read yet; the old targets and the old registry stay until it can");
            }
            let mut outdated = false;
            while !outdated && !runtime.store.is_settled() {
                tokio::select! {
                    _ = versions.changed() => {}
                    newer = configs.changed() => match newer {
                        Ok(()) => outdated = true,
                        Err(_) => return,
                    },
                }
            }
            if outdated {
                continue;
            }
            runtime.set_naming(config.naming.clone());
            runtime.set_discovery(config.discovery.clone());
            runtime.set_targets(config.targets.clone());
            continue 'next;
        }
    }
}

fn listen_at(place: ListenAt, what: &'static str) -> Result<TcpListener, StartError> {
    match place {
        ListenAt::Exactly(address) => listen(address, what),
        ListenAt::Preferred(address) => match listen(address, what) {
            Err(StartError::PortTaken { .. }) => listen(SocketAddr::new(address.ip(), 0), what),
            other => other,
        },
    }
}

/// What this listener accepts inherits it: a peer that vanished without a word is noticed within half a minute.
fn keep_an_eye_on_peers(socket: &TcpSocket) -> std::io::Result<()> {
    let socket = socket2::SockRef::from(socket);
    let asking = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL).with_retries(KEEP_ALIVE_RETRIES);
    socket.set_tcp_keepalive(&asking)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNHEARD))?;
    Ok(())
}

fn listen(address: SocketAddr, what: &'static str) -> Result<TcpListener, StartError> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        keep_an_eye_on_peers(&socket)?;
        socket.bind(address)?;
        socket.listen(4096)
    };
    open().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::AddrInUse => StartError::PortTaken { port: address.port(), what },
        _ => StartError::CannotListen { address, what, reason: error.to_string() },
    })
}

impl Bound {
    /// Where the main listener is.
    pub fn main_addr(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where the admin listener is.
    pub fn admin_addr(&self) -> SocketAddr {
        self.addresses[1]
    }

    /// Where metrics are.
    pub fn metrics_addr(&self) -> SocketAddr {
        self.addresses[2]
    }

    /// The base URL of the main listener, without a path: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.main_addr())
    }

    /// A way to reach the gateway while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until `shutdown` is ready, then drains: readiness goes down, running calls end, streams end in good order,
    /// targets are closed.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) {
        let runtime = self.handle.runtime.clone();
        let hosts = self.handle.started_with.allowed_hosts.clone();
        let (close, signal) = watch::channel(false);
        let (alive, mut all_gone) = mpsc::channel(1);
        let closing = Closing { signal, alive };

        let endpoint = Endpoint { runtime: runtime.clone(), mcp: stack(&runtime) };
        let edge = Arc::new(Edge { endpoint, legacy: LegacySse::default() });
        let token = crate::admin::token(self.handle.started_with.admin_token.as_ref(), self.handle.started_with.state_dir.as_deref());
        let side = |which, address: SocketAddr| Arc::new(Side::new(which, runtime.clone(), &hosts, address.ip(), token.clone()));
        let admin = side(Which::Admin, self.addresses[1]);
        let metrics = side(Which::Metrics, self.addresses[2]);
        // Until everything has drained: what runs on a lane ends with it.
        let lanes = Lanes::start();
        let room = Room::measured();
        let main = tokio::spawn(serve(self.main, room.main, lanes.clone(), edge, self.tls, closing.clone()));
        // The side listeners stay up through the drain, so that probes see it; they end with the process.
        let (_keep, never) = watch::channel(false);
        let aside = |alive| Closing { signal: never.clone(), alive };
        let (side_alive, _side_gone) = mpsc::channel(1);
        tokio::spawn(serve(self.admin, room.aside.clone(), Lanes::shared(), admin, None, aside(side_alive.clone())));
        tokio::spawn(serve(self.metrics, room.aside, Lanes::shared(), metrics, None, aside(side_alive)));

        shutdown.await;

        tracing::info!("shutting down: readiness is down, running calls may finish");
        runtime.draining.store(true, Relaxed);
        if !self.handle.bind.is_loopback() {
            tokio::time::sleep(NOTICE).await;
        }
        close.send_replace(true);
        let _ = main.await;
        runtime.closing.store(true, Relaxed);
        runtime.hub.end_all();
        self.ended.send_replace(true);
        drop(closing);
        let drained = async {
            // Every connection holds a sender; calls whose client left count as well.
            while all_gone.recv().await.is_some() {}
            while runtime.in_flight() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(self.drain, drained).await.is_err() {
            tracing::warn!(in_flight = runtime.in_flight(), "some calls did not finish in time");
        }
        let closed = futures_util::future::join_all(runtime.slots().into_iter().map(|slot| async move { slot.handle.close().await }));
        if tokio::time::timeout(CLOSE, closed).await.is_err() {
            tracing::warn!("some targets did not close in time");
        }
        drop(lanes);
        tracing::info!("stopped");
        crate::logging::flush();
    }
}

impl Handle {
    /// Makes the running gateway look like this config: targets come, go and change; naming, hosts and origins change.
    /// Listeners stay where they are. Returns the settings that differ from what runs and need a restart.
    ///
    /// What guards something does not fall away while it runs: half of a config file can be a whole one. Authentication, rules and the
    /// registry can be changed, but to be without them takes a restart.
    pub fn reconfigure(&self, mut config: Config) -> Vec<String> {
        let current = &self.started_with;
        let running = self.configs.borrow().clone();
        let mut needs_restart = Vec::new();
        let mut note = |changed: bool, what: &str| {
            if changed {
                needs_restart.push(what.to_owned());
            }
        };
        // Port 0 asked for any port, and we have one.
        let moved = current.listen != config.listen && config.listen.port() != 0;
        note(moved, "listen");
        note(current.admin != config.admin, "admin.listen");
        note(current.admin_token != config.admin_token, "admin.token");
        note(current.metrics != config.metrics, "metrics.listen");
        note(current.tls != config.tls, "tls");
        note(current.session_key != config.session_key, "sessionKey");
        note(current.state_dir != config.state_dir, "stateDir");
        note(current.allow_unauthenticated != config.allow_unauthenticated, "allowUnauthenticated");
        note(config.authentication.is_none() && running.authentication.is_some(), "policies.authentication");
        note(config.authorization.is_none() && running.authorization.is_some(), "policies.authorization");
        note(config.registry.is_none() && running.registry.is_some(), "registry");
        config.authentication = config.authentication.or_else(|| running.authentication.clone());
        config.authorization = config.authorization.or_else(|| running.authorization.clone());
        config.registry = config.registry.or_else(|| running.registry.clone());
        self.runtime.pressure.set_limit(config.memory_limit);
        self.runtime.authentication.replace(config.authentication.clone());
        self.runtime.gate.store(Arc::new(Gate::new(&config.allowed_hosts, &config.allowed_origins, self.bind)));
        if let Ok(mut readiness) = self.runtime.readiness.lock() {
            *readiness = config.readiness;
        }
        match Policy::compile(config.authorization.as_deref()) {
            Ok(policy) if self.runtime.policy.load().written() != policy.written() => self.runtime.set_policy(policy),
            Ok(_) => {}
            Err(bad) => tracing::error!("{}; the rules that were in force stay", bad_rules(&bad)),
        }
        if *self.runtime.limits.load().written() != config.limits {
            // Counts begin anew: they were kept under other limits.
            self.runtime.limits.store(Arc::new(Limits::new(&config.limits)));
        }
        self.configs.send_replace(Arc::new(config));
        needs_restart
    }

    /// Where the registry comes from.
    pub fn store(&self) -> &Arc<RegistryStore> {
        &self.runtime.store
    }

    /// Waits until the first generation is live.
    pub async fn first_generation(&self) {
        self.runtime.generation().await;
    }

    /// The targets whose tools the current generation is without, each with what went wrong; where nothing did yet, they may still come.
    pub fn missing(&self) -> Vec<(String, Option<String>)> {
        let generation = self.runtime.generation_now();
        let without = generation.views().iter().filter(|view| !view.available());
        let missing = without.map(|view| {
            let state = view.slot.handle.state();
            let why = state.last_error.clone().filter(|_| state.status != Status::Connected);
            (view.slot.name.to_string(), why)
        });
        missing.collect()
    }
}
