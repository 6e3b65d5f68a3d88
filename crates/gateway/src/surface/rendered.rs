//! Texts that are made from what somebody sees, and kept: the same for everybody who sees the same.

use crate::authorize::{Sight, Visible};
use crate::listener::answer::{Reply, status, with_type};
use crate::listener::body::ReplyBody;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Texts that are kept, and their bytes in all.
const KEPT: usize = 128;
const KEPT_BYTES: usize = 32 << 20;
/// Characters of a selection that is kept. Longer ones are somebody's own, and made each time.
const LONGEST_SELECTION: usize = 1_000;

/// Which part of what is seen a text is about.
pub trait Selection: Clone + PartialEq {
    /// How many characters of the reader's own are in it.
    fn length(&self) -> usize;
}

/// A text, and how to tell it from another.
pub struct Rendered {
    text: Bytes,
    tag: HeaderValue,
}

/// The texts that were asked for last, of the current generation.
pub struct Renderings<S> {
    kept: Mutex<VecDeque<Kept<S>>>,
    /// One at a time is made: whoever asks for the same meanwhile finds it done.
    making: tokio::sync::Mutex<()>,
}

impl<S> Default for Renderings<S> {
    fn default() -> Self {
        Renderings { kept: Mutex::default(), making: tokio::sync::Mutex::default() }
    }
}

struct Kept<S> {
    generation: u64,
    /// Who sees this: a class of principals, or everybody.
    seen: Option<Arc<Visible>>,
    selection: S,
    rendered: Arc<Rendered>,
}

impl<S: Selection> Renderings<S> {
    /// What was made of this part before, or is made now: `gather` takes what it needs from the sight, and gives what makes the text.
    pub async fn get<M>(&self, sight: &Sight<'_>, selection: &S, gather: impl FnOnce() -> M) -> Option<Arc<Rendered>>
    where
        M: FnOnce() -> String + Send + 'static,
    {
        let generation = sight.generation().number;
        let seen = sight.visible();
        if let Some(rendered) = self.find(generation, seen.as_deref(), selection) {
            return Some(rendered);
        }
        let _turn = self.making.lock().await;
        if let Some(rendered) = self.find(generation, seen.as_deref(), selection) {
            return Some(rendered);
        }
        let make = gather();
        // Ten thousand tools take a while, and others want to be answered meanwhile.
        let rendered = tokio::task::spawn_blocking(move || Arc::new(Rendered::new(make()))).await.ok()?;
        self.keep(Kept { generation, seen, selection: selection.clone(), rendered: rendered.clone() });
        Some(rendered)
    }

    fn find(&self, generation: u64, seen: Option<&Visible>, selection: &S) -> Option<Arc<Rendered>> {
        let same_sight = |kept: &Kept<S>| match (kept.seen.as_deref(), seen) {
            (None, None) => true,
            (Some(one), Some(other)) => one.shows_the_same(other),
            _ => false,
        };
        let mut kept = self.kept.lock().ok()?;
        let at = kept.iter().position(|kept| kept.generation == generation && kept.selection == *selection && same_sight(kept))?;
        let found = kept.remove(at)?;
        let rendered = found.rendered.clone();
        kept.push_front(found);
        Some(rendered)
    }

    fn keep(&self, fresh: Kept<S>) {
        if fresh.selection.length() > LONGEST_SELECTION {
            return;
        }
        let Ok(mut kept) = self.kept.lock() else { return };
        // Requests keep the generation they began with: an older one than the newest is not asked for again.
        if kept.iter().any(|kept| kept.generation > fresh.generation) {
            return;
        }
        kept.retain(|kept| kept.generation == fresh.generation);
        kept.push_front(fresh);
        let bytes = |kept: &VecDeque<Kept<S>>| kept.iter().map(|kept| kept.rendered.text.len()).sum::<usize>();
        while kept.len() > KEPT || (kept.len() > 1 && bytes(&kept) > KEPT_BYTES) {
            kept.pop_back();
        }
    }
}

impl Rendered {
    fn new(text: String) -> Rendered {
        let digest: String = Sha256::digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::from_str(&format!("\"{digest}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Rendered { text: text.into(), tag }
    }

    /// As a reply of this type; without the text if the reader has it already.
    pub fn reply(&self, headers: &HeaderMap, kind: &'static str) -> Reply {
        let mut reply = if is_known(headers, &self.tag) {
            status(StatusCode::NOT_MODIFIED)
        } else {
            with_type(StatusCode::OK, kind, ReplyBody::full(self.text.clone()))
        };
        reply.headers_mut().insert(header::ETAG, self.tag.clone());
        // It is made for this reader, and may change at any time.
        reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        reply
    }
}

/// Whether the reader has it already.
fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_it = |one: &str| one.strip_prefix("W/").unwrap_or(one).as_bytes() == tag.as_bytes();
    given.into_iter().any(|value| value.trim() == "*" || value.split(',').map(str::trim).any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Generation;
    use std::cell::Cell;

    impl Selection for String {
        fn length(&self) -> usize {
            self.len()
        }
    }

    // R-001-29
    #[tokio::test]
    async fn what_was_made_once_is_given_again() {
        let (renderings, generation, gathered) = (Renderings::default(), Generation::empty(), Cell::new(0));
        let sight = Sight::everything(&generation);
        let get = |selection: &str| {
            let selection = selection.to_owned();
            let (renderings, sight, gathered) = (&renderings, &sight, &gathered);
            async move {
                let gather = || {
                    gathered.set(gathered.get() + 1);
                    let text = selection.clone();
                    move || text
                };
                renderings.get(sight, &selection, gather).await.unwrap()
            }
        };
        let (first, other, again) = (get("a").await, get("b").await, get("a").await);
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other) && first.tag != other.tag);
        assert_eq!(gathered.get(), 2);
    }

    #[test]
    fn a_reader_has_it_if_its_tag_is_among_those_it_names() {
        let tag = HeaderValue::from_static("\"abc\"");
        for (given, known) in [
            ("\"abc\"", true),
            ("W/\"abc\"", true),
            ("\"x\", \"abc\"", true),
            ("\"x\",W/\"abc\" , \"y\"", true),
            ("*", true),
            ("\"x\"", false),
            ("abc", false),
            ("\"a,*,b\"", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(given).unwrap())]);
            assert_eq!(is_known(&headers, &tag), known, "{given}");
        }
        assert!(!is_known(&HeaderMap::new(), &tag));
    }

    #[test]
    fn what_is_kept_has_a_bound_and_is_of_one_generation() {
        let renderings = Renderings::default();
        let kept = |generation, selection: String, bytes| Kept {
            generation,
            seen: None,
            selection,
            rendered: Arc::new(Rendered { text: vec![b'x'; bytes].into(), tag: HeaderValue::from_static("\"x\"") }),
        };
        let count = || renderings.kept.lock().unwrap().len();
        for at in 0..2 * KEPT {
            renderings.keep(kept(1, at.to_string(), 10));
        }
        assert_eq!(count(), KEPT);
        renderings.keep(kept(1, "x".repeat(LONGEST_SELECTION + 1), 10));
        assert_eq!(count(), KEPT);
        renderings.keep(kept(2, "new".into(), 10));
        assert_eq!(count(), 1);
        renderings.keep(kept(1, "late".into(), 10));
        assert_eq!(count(), 1);
        for at in 0..4 {
            renderings.keep(kept(2, at.to_string(), KEPT_BYTES / 2));
        }
        assert_eq!(count(), 2);
        let found = |generation, selection: &str| renderings.find(generation, None, &selection.to_owned()).is_some();
        assert!(found(2, "3") && !found(2, "0") && !found(1, "3"));
    }
}
