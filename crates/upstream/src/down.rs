//! The end of a connection, as a value: set once with its reason, seen by all at once.

use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub(crate) struct Down(Arc<watch::Sender<Option<Arc<str>>>>);

impl Down {
    pub(crate) fn new() -> Down {
        Down(Arc::new(watch::Sender::new(None)))
    }

    /// The connection is over; the first reason stays.
    pub(crate) fn fail(&self, reason: &str) {
        self.0.send_if_modified(|state| {
            let first = state.is_none();
            if first {
                *state = Some(reason.into());
            }
            first
        });
    }

    pub(crate) fn reason(&self) -> Option<Arc<str>> {
        self.0.borrow().clone()
    }

    /// Waits for the end.
    pub(crate) async fn gone(&self) -> Arc<str> {
        let mut state = self.0.subscribe();
        match state.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "closed".into(),
        }
    }
}
