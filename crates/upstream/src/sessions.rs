//! Connections of client sessions, for targets that keep one for each: made on the first call, closed with the session or
//! when nobody calls any more.

use crate::call::SessionKey;
use crate::connection::Connection;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct SessionConnections {
    slots: Mutex<HashMap<SessionKey, Arc<Slot>>>,
}

/// One session's place; the lock makes the first of several calls connect for all.
pub(crate) struct Slot {
    pub(crate) connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    used: Mutex<Instant>,
}

impl SessionConnections {
    /// The session's place; `None` if there are too many.
    pub(crate) fn slot(&self, key: SessionKey, limit: usize) -> Option<Arc<Slot>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&key) {
            *slot.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            return Some(slot.clone());
        }
        if slots.len() >= limit {
            return None;
        }
        let slot = Arc::new(Slot { connection: tokio::sync::Mutex::new(None), used: Mutex::new(Instant::now()) });
        slots.insert(key, slot.clone());
        Some(slot)
    }

    pub(crate) fn remove(&self, key: SessionKey) -> Option<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&key)
    }

    /// Takes out whatever nobody used for so long. A place some call holds is in use.
    pub(crate) fn take_idle(&self, idle: Duration) -> Vec<Arc<Slot>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let old = |slot: &Arc<Slot>| Arc::strong_count(slot) == 1 && slot.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= idle;
        let keys: Vec<SessionKey> = slots.iter().filter(|(_, slot)| old(slot)).map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| slots.remove(key)).collect()
    }

    pub(crate) fn take_all(&self) -> Vec<Arc<Slot>> {
        std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner)).into_values().collect()
    }
}
