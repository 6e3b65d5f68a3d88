//! The handle to a target and the task that keeps it connected.

use crate::call::{Call, CallError, Caller, SessionKey};
use crate::connect::Dialer;
use crate::connection::{Connection, close_in_background};
use crate::ears::Ears;
use crate::gate::Gate;
use crate::sessions::{SessionConnections, Slot};
use crate::spec::{Sessions, TargetSpec};
use crate::state::TargetState;
use crate::supervisor;
use crate::tuning::Tuning;
use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::watch;

/// What a target tells the gateway it lives in. Implementations return at once.
pub trait Host: Send + Sync + 'static {
    /// Some target's state changed; read it again.
    fn changed(&self);
    /// A subscribed resource changed: the target's name and the notification's `params`.
    fn resource_updated(&self, target: &str, params: Bytes);
    /// A task changed, says a legacy target: the target's name and the notification's `params`.
    fn task_status(&self, target: &str, params: Bytes) {
        let _nobody_listens = (target, params);
    }
    /// An attempt to connect ended.
    fn connected(&self, target: &str, success: bool);
    /// A connection was lost that had been in service.
    fn lost(&self, target: &str);
    /// The target broke the protocol in this way (a closed set of words).
    fn protocol_error(&self, target: &str, kind: &'static str);
    /// A text of the target without the secrets that are sent to it, if there are any in it.
    fn hide(&self, target: &str, text: &str) -> Option<String> {
        let _nothing_is_known = (target, text);
        None
    }
    /// How long the longest is that [`Host::hide`] looks for.
    fn longest_hidden(&self, target: &str) -> usize {
        let _nothing_is_known = target;
        0
    }
    /// The gateways a request of ours has come through, ours last; empty if there is none. See [`crate::via`].
    fn via(&self) -> &str {
        ""
    }
}

/// A handle to one target. Cheap to clone; the task ends with [`Target::close`].
#[derive(Clone)]
pub struct Target {
    shared: Arc<Shared>,
}

/// What the handle, its calls and the supervisor share.
pub(crate) struct Shared {
    pub(crate) spec: Arc<TargetSpec>,
    pub(crate) tuning: Arc<Tuning>,
    pub(crate) ears: Arc<Ears>,
    pub(crate) dialer: Dialer,
    pub(crate) gate: Gate,
    pub(crate) state: ArcSwap<TargetState>,
    /// The connection in service.
    pub(crate) current: ArcSwapOption<Connection>,
    pub(crate) sessions: SessionConnections,
    /// Calls in a row that got no answer in time.
    pub(crate) timeouts: AtomicU32,
    pub(crate) wanted: watch::Sender<Arc<[String]>>,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) closed: watch::Sender<bool>,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Target {
    /// Starts connecting, at once and on its own. Must be called inside a tokio runtime.
    pub fn start(spec: TargetSpec, host: Arc<dyn Host>) -> Target {
        Target::start_tuned(spec, host, Tuning::default())
    }

    /// As [`Target::start`], with other limits.
    #[doc(hidden)]
    pub fn start_tuned(spec: TargetSpec, host: Arc<dyn Host>, tuning: Tuning) -> Target {
        let (spec, tuning) = (Arc::new(spec), Arc::new(tuning));
        let ears = Arc::new(Ears::new(&spec, host));
        let shared = Arc::new(Shared {
            dialer: Dialer::new(spec.clone(), ears.clone(), tuning.clone()),
            gate: Gate::new(&tuning),
            state: ArcSwap::from_pointee(TargetState::fresh()),
            current: ArcSwapOption::empty(),
            sessions: SessionConnections::default(),
            timeouts: AtomicU32::new(0),
            wanted: watch::Sender::new(Arc::from([])),
            closing: watch::Sender::new(false),
            closed: watch::Sender::new(false),
            runtime: tokio::runtime::Handle::current(),
            spec,
            tuning,
            ears,
        });
        tokio::spawn(supervisor::run(shared.clone()));
        Target { shared }
    }

    /// What it was started with.
    pub fn spec(&self) -> &TargetSpec {
        &self.shared.spec
    }

    /// What it is now.
    pub fn state(&self) -> Arc<TargetState> {
        self.shared.state.load_full()
    }

    /// The gateways it says it is, or stands in front of.
    pub fn gateways(&self) -> Arc<[String]> {
        self.shared.current.load().as_ref().map(|connection| connection.gateways()).unwrap_or_default()
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.shared.gate.in_use()
    }

    /// Sends a request and waits for its result, as the JSON the target wrote. Dropping the future cancels the call at
    /// the target.
    pub async fn call(&self, call: Call) -> Result<Bytes, CallError> {
        let shared = &self.shared;
        let _place = shared.gate.enter(&shared.tuning).await.ok_or(CallError::Overloaded)?;
        let current = shared.current.load_full().ok_or_else(|| shared.unavailable())?;
        let outcome = match shared.spec.sessions {
            Sessions::Shared => current.call(&call).await,
            Sessions::PerSession => {
                // Boxed: a handshake's future is large, and most calls need none.
                let connecting = tokio::time::timeout(call.timeout, Box::pin(shared.own_connection(&call.caller)));
                let late = || CallError::Unavailable { reason: "no connection for this session in time".into(), retry_after: None };
                let connection = connecting.await.map_err(|_| late())??;
                connection.0.call(&call).await
            }
        };
        shared.learn_from(outcome)
    }

    /// The resources to be told about, all of them; the target is brought in line with it, also after a reconnect.
    pub fn subscribe_to(&self, uris: Vec<String>) {
        self.shared.wanted.send_if_modified(|wanted| {
            let changed = **wanted != *uris;
            if changed {
                *wanted = uris.into();
            }
            changed
        });
    }

    /// A client session ended: its connection, if it had one, goes too.
    pub fn end_session(&self, session: SessionKey) {
        if let Some(slot) = self.shared.sessions.remove(session) {
            self.shared.close_slot(slot);
        }
    }

    /// Asks for the lists again.
    pub fn refresh(&self) {
        self.shared.ears.stale.notify_one();
    }

    /// Ends the connection in good order: running calls are lost, a child is asked to stop, then made to.
    pub async fn close(&self) {
        self.shared.closing.send_replace(true);
        let mut closed = self.shared.closed.subscribe();
        let _closed = closed.wait_for(|closed| *closed).await;
    }
}

impl Shared {
    pub(crate) fn host(&self) -> &dyn crate::target::Host {
        &*self.ears.host
    }

    fn unavailable(&self) -> CallError {
        let state = self.state.load();
        let reason = state.last_error.clone().unwrap_or_else(|| "not connected yet".into());
        CallError::Unavailable { reason, retry_after: state.retry_after() }
    }

    /// What the end of a call says about the target's health.
    fn learn_from(&self, outcome: Result<Bytes, CallError>) -> Result<Bytes, CallError> {
        match &outcome {
            Ok(_) | Err(CallError::Refused(_) | CallError::Invalid(_)) => self.timeouts.store(0, Ordering::Relaxed),
            Err(CallError::TimedOut(_)) => {
                if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= self.tuning.timeouts {
                    self.ears.suspect.notify_one();
                }
            }
            Err(CallError::Unavailable { .. } | CallError::Lost(_)) => self.ears.suspect.notify_one(),
            Err(CallError::Overloaded) => {}
        }
        outcome
    }

    /// The connection of the caller's session or, without a session, one for this call alone.
    async fn own_connection(self: &Arc<Self>, caller: &Caller) -> Result<Borrowed, CallError> {
        let connect = async || self.dialer.connect(true).await.map_err(|reason| CallError::Unavailable { reason, retry_after: None });
        let Some(key) = caller.session else {
            return Ok(Borrowed(Arc::new(connect().await?), Some(self.clone())));
        };
        let slot = self.sessions.slot(key, self.tuning.sessions).ok_or(CallError::Overloaded)?;
        let mut place = slot.connection.lock().await;
        match &*place {
            Some(connection) if !connection.is_gone() => Ok(Borrowed(connection.clone(), None)),
            _ => {
                let connection = Arc::new(connect().await?);
                if let Some(old) = place.replace(connection.clone()) {
                    self.close_in_background(old);
                }
                Ok(Borrowed(connection, None))
            }
        }
    }

    pub(crate) fn close_slot(self: &Arc<Self>, slot: Arc<Slot>) {
        let shared = self.clone();
        self.runtime.spawn(async move {
            let connection = slot.connection.lock().await.take();
            if let Some(connection) = connection {
                shared.close_in_background(connection);
            }
        });
    }

    pub(crate) async fn close_sessions(&self) {
        let slots = self.sessions.take_all();
        let closing = slots.iter().map(|slot| async {
            if let Some(connection) = slot.connection.lock().await.take() {
                connection.close().await;
            }
        });
        futures_util::future::join_all(closing).await;
    }

    fn close_in_background(&self, connection: Arc<Connection>) {
        close_in_background(connection, &self.runtime, self.tuning.stop_politely + self.tuning.stop_firmly * 2);
    }
}

/// A connection for one call; one that nobody else uses ends with it.
struct Borrowed(Arc<Connection>, Option<Arc<Shared>>);

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(shared) = self.1.take() {
            shared.close_in_background(self.0.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{EraChoice, Transport};
    use std::time::Duration;

    struct Nobody;
    impl Host for Nobody {
        fn changed(&self) {}
        fn resource_updated(&self, _: &str, _: Bytes) {}
        fn connected(&self, _: &str, _: bool) {}
        fn lost(&self, _: &str) {}
        fn protocol_error(&self, _: &str, _: &'static str) {}
    }

    // T17: memory per call under way is bounded and small
    #[tokio::test]
    async fn the_future_of_a_call_is_small() {
        let transport = Transport::Http { url: "http://127.0.0.1:1/mcp".parse().unwrap(), headers: vec![], tls: None };
        let spec = TargetSpec {
            name: "t".into(),
            transport,
            era: EraChoice::Auto,
            sessions: Sessions::Shared,
            timeout: Duration::from_secs(1),
            allow_server_requests: false,
            aliases: vec![],
        };
        let target = Target::start(spec, Arc::new(Nobody));
        let call = Call {
            method: "ping".into(),
            params: Default::default(),
            rename: None,
            arguments: None,
            name_header: None,
            param_headers: vec![],
            caller: Caller::default(),
            outbox: None,
            timeout: Duration::from_secs(1),
        };
        let size = std::mem::size_of_val(&target.call(call));
        assert!(size <= 5 * 1024, "{size}");
        target.close().await;
    }
}
