//! The handle to a target and the task that keeps it connected.

use crate::call::{Call, CallError, SessionKey};
use crate::spec::TargetSpec;
use crate::state::TargetState;
use bytes::Bytes;
use std::sync::Arc;

/// What a target tells the gateway it lives in. Implementations return at once.
pub trait Host: Send + Sync + 'static {
    /// Some target's state changed; read it again.
    fn changed(&self);
    /// A subscribed resource changed: the target's name and the notification's `params`.
    fn resource_updated(&self, target: &str, params: Bytes);
    /// An attempt to connect ended.
    fn connected(&self, target: &str, success: bool);
    /// A connection was lost that had been in service.
    fn lost(&self, target: &str);
    /// The target broke the protocol in this way (a closed set of words).
    fn protocol_error(&self, target: &str, kind: &'static str);
}

/// A handle to one target. Cheap to clone; the task ends with [`Target::close`].
#[derive(Clone)]
pub struct Target {
    spec: Arc<TargetSpec>,
}

impl Target {
    /// Starts connecting, at once and on its own.
    pub fn start(spec: TargetSpec, _host: Arc<dyn Host>) -> Target {
        Target { spec: Arc::new(spec) }
    }

    /// What it was started with.
    pub fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    /// What it is now.
    pub fn state(&self) -> Arc<TargetState> {
        Arc::new(TargetState::fresh())
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        0
    }

    /// Sends a request and waits for its result, as the JSON the target wrote. Dropping the future cancels the call at
    /// the target.
    pub async fn call(&self, _call: Call) -> Result<Bytes, CallError> {
        Err(CallError::Overloaded)
    }

    /// The resources to be told about, all of them; the target is brought in line with it, also after a reconnect.
    pub fn subscribe_to(&self, _uris: Vec<String>) {}

    /// A client session ended: its connection, if it had one, goes too.
    pub fn end_session(&self, _session: SessionKey) {}

    /// Asks for the lists again.
    pub fn refresh(&self) {}

    /// Ends the connection in good order: running calls are lost, a child is asked to stop, then made to.
    pub async fn close(&self) {}
}
