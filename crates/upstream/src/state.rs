//! What a target is and offers right now.

use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use transom_protocol::{Era, Revision};

/// A snapshot of a target.
#[derive(Clone, Debug)]
pub struct TargetState {
    /// Where it stands.
    pub status: Status,
    /// What it offers; `None` unless connected.
    pub offer: Option<Arc<Offer>>,
    /// Since when it stands there.
    pub since: SystemTime,
    /// Why it is not connected, or was not the last time. Never holds a secret or a URL's user information.
    pub last_error: Option<String>,
    /// When the next attempt is due.
    pub next_retry: Option<Instant>,
    /// Connections lost and made anew.
    pub restarts: u64,
    /// Whether it has connected or failed at least once.
    pub settled: bool,
}

impl TargetState {
    /// A target nobody has tried yet.
    pub fn fresh() -> TargetState {
        TargetState {
            status: Status::Connecting,
            offer: None,
            since: SystemTime::now(),
            last_error: None,
            next_retry: None,
            restarts: 0,
            settled: false,
        }
    }

    /// How long until the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.next_retry.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

/// Where a target stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Being connected for the first time, or again.
    Connecting,
    /// In service.
    Connected,
    /// Waiting for the next attempt.
    Unavailable,
}

impl Status {
    /// As `/status` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Connecting => "connecting",
            Status::Connected => "connected",
            Status::Unavailable => "unavailable",
        }
    }
}

/// What a connected target offers: complete, every page fetched.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Which era the connection speaks.
    pub era: Era,
    /// The revision agreed on.
    pub revision: Revision,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Its `instructions`, if any.
    pub instructions: Option<String>,
    /// Its tools in its own order.
    pub tools: Vec<Item>,
    /// Its prompts.
    pub prompts: Vec<Item>,
    /// Its resources, by URI.
    pub resources: Vec<Item>,
    /// Its resource templates, by URI template.
    pub templates: Vec<Item>,
}

/// What a target said it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// `tools`
    pub tools: bool,
    /// `prompts`
    pub prompts: bool,
    /// `resources`
    pub resources: bool,
    /// `resources.subscribe`
    pub subscribe: bool,
    /// `completions`
    pub completions: bool,
    /// `logging`
    pub logging: bool,
    /// `tasks.requests.tools.call`, of a legacy target
    pub legacy_tasks: bool,
    /// `tasks.cancel`, of a legacy target
    pub legacy_task_cancel: bool,
    /// The extension of tasks, of a modern target
    pub modern_tasks: bool,
}

/// One thing of a listing: a tool, prompt, resource or template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name, URI or URI template.
    pub name: String,
    /// The whole definition: checked JSON, byte for byte as the target wrote it.
    pub json: Bytes,
}
