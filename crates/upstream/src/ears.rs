//! What the connections of one target have in common: whom to tell, and how often to say it.

use crate::spec::TargetSpec;
use crate::target::Host;
use crate::text::Scrubber;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use transom_protocol::{Method, Notification};

/// The closed set of words for [`Host::protocol_error`].
pub(crate) mod fault {
    pub(crate) const GARBAGE: &str = "garbage";
    pub(crate) const OVERLONG: &str = "overlong_message";
    pub(crate) const UNKNOWN_ID: &str = "unknown_id";
    pub(crate) const UNKNOWN_TOKEN: &str = "unknown_token";
    pub(crate) const INVALID_REPLY: &str = "invalid_reply";
    pub(crate) const UNEXPECTED_REQUEST: &str = "unexpected_request";
    pub(crate) const FLOOD: &str = "notification_flood";
    pub(crate) const LISTING: &str = "listing";
}

/// A line per minute about garbage says all there is to say.
const GARBAGE_LOG: Duration = Duration::from_secs(60);

/// More changes of resources than that are a flood.
const UPDATES_PER_SECOND: u32 = 1000;

pub(crate) struct Ears {
    pub(crate) target: String,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) scrubber: Scrubber,
    /// The lists may have changed.
    pub(crate) stale: Notify,
    /// The target may be gone.
    pub(crate) suspect: Notify,
    garbage_logged: Mutex<Option<Instant>>,
    updates: Mutex<(Instant, u32)>,
}

impl Ears {
    pub(crate) fn new(spec: &TargetSpec, host: Arc<dyn Host>) -> Ears {
        Ears {
            target: spec.name.clone(),
            scrubber: Scrubber::new(spec, host.clone()),
            host,
            stale: Notify::new(),
            suspect: Notify::new(),
            garbage_logged: Mutex::new(None),
            updates: Mutex::new((Instant::now(), 0)),
        }
    }

    /// Takes a notification about the target as a whole; `false` if it is about some call.
    pub(crate) fn hear(&self, note: &Notification) -> bool {
        match note.method {
            Method::ToolsChanged | Method::PromptsChanged | Method::ResourcesChanged => self.stale.notify_one(),
            Method::ResourceUpdated => {
                if let Some(params) = note.params.raw()
                    && self.admits_update()
                {
                    self.host.resource_updated(&self.target, params.clone());
                }
            }
            Method::TaskStatus => {
                if let Some(params) = note.params.raw()
                    && self.admits_update()
                {
                    self.host.task_status(&self.target, params.clone());
                }
            }
            // What became of a task of the modern era goes to nobody who did not subscribe to it, and we subscribed to none.
            Method::TaskNews => {}
            // A server that takes back a request of its own that nobody was asked, or confirms a subscription: nothing to do.
            Method::Cancelled => {}
            _ => return note.method_name() == "notifications/subscriptions/acknowledged",
        }
        true
    }

    fn admits_update(&self) -> bool {
        let Ok(mut updates) = self.updates.lock() else { return false };
        let (window, count) = &mut *updates;
        if window.elapsed() >= Duration::from_secs(1) {
            (*window, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
        let admitted = *count <= UPDATES_PER_SECOND;
        drop(updates);
        if !admitted {
            self.fault(fault::FLOOD);
        }
        admitted
    }

    pub(crate) fn fault(&self, kind: &'static str) {
        self.host.protocol_error(&self.target, kind);
    }

    /// Something that is no message.
    pub(crate) fn garbage(&self, bytes: &[u8]) {
        self.fault(fault::GARBAGE);
        let Ok(mut logged) = self.garbage_logged.lock() else { return };
        if logged.is_none_or(|at| at.elapsed() >= GARBAGE_LOG) {
            *logged = Some(Instant::now());
            tracing::warn!(target = %self.target, text = %self.scrubber.clean(bytes, 200), "skipped output that is no MCP message");
        }
    }
}
