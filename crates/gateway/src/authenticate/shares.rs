//! How much of something each principal may hold at once, so that one cannot take it all. Nobody in particular is not
//! counted: many stand behind that name.

use crate::authenticate::Principal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What every principal holds.
pub struct Shares {
    each: usize,
    held: Mutex<HashMap<Arc<str>, usize>>,
}

/// One of them; dropping it gives it back.
pub struct Share(Option<(Arc<Shares>, Arc<str>)>);

impl Shares {
    /// At most so many for each.
    pub fn new(each: usize) -> Arc<Shares> {
        Arc::new(Shares { each, held: Mutex::default() })
    }

    /// One for this principal; `None` if it holds too many.
    pub fn take(self: &Arc<Self>, principal: &Principal) -> Option<Share> {
        if principal.is_anonymous() {
            return Some(Share(None));
        }
        let mut held = self.held.lock().ok()?;
        let key: Arc<str> = match held.get_key_value(principal.key()) {
            Some((_, count)) if *count >= self.each => return None,
            Some((key, _)) => key.clone(),
            None => principal.key().into(),
        };
        *held.entry(key.clone()).or_default() += 1;
        Some(Share(Some((self.clone(), key))))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some((shares, key)) = self.0.take() else { return };
        let Ok(mut held) = shares.held.lock() else { return };
        if let Some(count) = held.get_mut(&key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                held.remove(&key);
            }
        }
    }
}
