//! What somebody sees of a generation. Decisions are made once per principal and generation and kept with the principal;
//! prepared lists are kept with the generation, one per class of equal decisions and not per principal.

use super::policy::Policy;
use super::subject::{Arguments, Asked, Circumstances, Subject, Who};
use crate::authenticate::Principal;
use crate::config::DiscoveryMode;
use crate::generation::{Entry, Generation, Kind};
use crate::metrics::Metrics;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use transom_protocol::json::Json;

/// Classes whose lists a generation keeps. Those of further ones are prepared each time.
const CLASSES: usize = 256;

/// Who looks, and how.
#[derive(Clone)]
pub struct Viewer {
    /// Who.
    pub principal: Principal,
    /// How, where some rule asks.
    pub circumstances: Option<Arc<Circumstances>>,
}

/// What a principal carries along, so that it is judged once.
#[derive(Default)]
pub struct Memo {
    who: OnceLock<Who>,
    last: ArcSwapOption<Kept>,
}

struct Kept {
    policy: u64,
    generation: u64,
    visible: Arc<Visible>,
}

/// What a class of principals sees of one generation.
pub struct Visible {
    /// One bit per entry, in the order of [`Generation::entries`].
    bits: Box<[u64]>,
    bodies: [OnceLock<Bytes>; 4],
}

/// What a generation keeps of decisions.
#[derive(Default)]
pub struct Classes {
    /// Where each entry stands, by its address.
    positions: OnceLock<HashMap<usize, usize, RandomState>>,
    known: Mutex<HashMap<Box<[u64]>, Arc<Visible>, RandomState>>,
}

impl Classes {
    fn position(&self, generation: &Generation, entry: &Entry) -> Option<usize> {
        let address = |entry: &Entry| std::ptr::from_ref(entry) as usize;
        let positions = self.positions.get_or_init(|| generation.entries().enumerate().map(|(at, known)| (address(known), at)).collect());
        positions.get(&address(entry)).copied()
    }

    fn class(&self, bits: Box<[u64]>) -> Arc<Visible> {
        let fresh = |bits| Arc::new(Visible { bits, bodies: Default::default() });
        let Ok(mut known) = self.known.lock() else { return fresh(bits) };
        if let Some(visible) = known.get(&bits) {
            return visible.clone();
        }
        let visible = fresh(bits.clone());
        if known.len() < CLASSES {
            known.insert(bits, visible.clone());
        }
        visible
    }
}

impl Visible {
    /// Whether another class of the same generation sees the same.
    pub fn shows_the_same(&self, other: &Visible) -> bool {
        self.bits == other.bits
    }

    fn has(&self, position: usize) -> bool {
        self.bits.get(position / 64).is_some_and(|bits| bits >> (position % 64) & 1 == 1)
    }
}

/// A generation as somebody sees it.
pub struct Sight<'g> {
    generation: &'g Generation,
    /// `None`: all of it.
    visible: Option<Arc<Visible>>,
}

impl<'g> Sight<'g> {
    /// All of it.
    pub fn everything(generation: &'g Generation) -> Sight<'g> {
        Sight { generation, visible: None }
    }

    /// The generation.
    pub fn generation(&self) -> &'g Generation {
        self.generation
    }

    /// Whether nothing is hidden because nothing is judged: what one sees, all see.
    pub fn is_everybodys(&self) -> bool {
        self.visible.is_none()
    }

    /// Whether this is seen. Our own tools are: they show and call nothing but what else is seen.
    pub fn sees(&self, entry: &Entry) -> bool {
        let Some(visible) = &self.visible else { return true };
        entry.own().is_some() || self.generation.classes.position(self.generation, entry).is_some_and(|at| visible.has(at))
    }

    /// What is listed, in order.
    pub fn listed(&self, kind: Kind) -> impl Iterator<Item = &'g Arc<Entry>> {
        self.generation.listed(kind).iter().filter(|entry| self.sees(entry))
    }

    /// Whether the listed tool at this place is seen.
    pub fn sees_tool_at(&self, place: usize) -> bool {
        // Listed tools are the first of all entries.
        self.visible.as_ref().is_none_or(|visible| visible.has(place))
    }

    /// Whether a list of tools is short, at the endpoint of this target or of all.
    pub fn is_short(&self, server: Option<&str>) -> bool {
        let discovery = self.generation.discovery();
        match discovery.mode {
            DiscoveryMode::List => false,
            DiscoveryMode::Search => true,
            DiscoveryMode::Auto => {
                let mut there = self.listed(Kind::Tool).filter(|entry| server.is_none_or(|server| server == entry.target_name()));
                there.nth(discovery.threshold).is_some()
            }
        }
    }

    /// The tools that a list shows, at the endpoint of this target or of all. Whose they are is not looked at again.
    pub fn shown(&self, server: Option<&str>) -> Box<dyn Iterator<Item = &'g Arc<Entry>> + '_> {
        if self.is_short(server) { Box::new(self.generation.short().filter(|entry| self.sees(entry))) } else { Box::new(self.listed(Kind::Tool)) }
    }

    /// What is remembered of targets that are down.
    pub fn remembered(&self, kind: Kind) -> impl Iterator<Item = &'g Arc<Entry>> {
        self.generation.remembered(kind).iter().filter(|entry| self.sees(entry))
    }

    /// Whether anything of this target is seen.
    pub fn sees_target(&self, target: &str) -> bool {
        self.visible.is_none() || self.generation.entries().any(|entry| entry.target_name() == target && self.sees(entry))
    }

    /// `"tools":[…]`, prepared.
    pub fn body(&self, kind: Kind) -> Bytes {
        let Some(visible) = &self.visible else { return self.generation.body(kind) };
        let prepare = || match kind {
            Kind::Tool => crate::generation::body(kind, self.shown(None)),
            _ => crate::generation::body(kind, self.listed(kind)),
        };
        visible.bodies.get(kind as usize).map_or_else(prepare, |body| body.get_or_init(prepare).clone())
    }

    /// What decides what this shows; `None`: all of it.
    pub fn visible(&self) -> Option<Arc<Visible>> {
        self.visible.clone()
    }

    /// Which class this is: equal for two sights of one generation that show the same.
    pub fn class(&self) -> usize {
        self.visible.as_ref().map_or(0, |visible| Arc::as_ptr(visible) as usize)
    }
}

impl Policy {
    /// A generation as somebody sees it.
    pub fn sight<'g>(&self, generation: &'g Generation, viewer: &Viewer, metrics: &Metrics) -> Sight<'g> {
        if self.allows_all() {
            return Sight::everything(generation);
        }
        let memo = viewer.principal.memo();
        if !self.reads_request()
            && let Some(kept) = &*memo.last.load()
            && kept.policy == self.number()
            && kept.generation == generation.number
        {
            return Sight { generation, visible: Some(kept.visible.clone()) };
        }
        let visible = self.judge_all(generation, viewer, metrics);
        if !self.reads_request() {
            let kept = Kept { policy: self.number(), generation: generation.number, visible: visible.clone() };
            memo.last.store(Some(Arc::new(kept)));
        }
        Sight { generation, visible: Some(visible) }
    }

    fn judge_all(&self, generation: &Generation, viewer: &Viewer, metrics: &Metrics) -> Arc<Visible> {
        let who = viewer.who();
        let circumstances = viewer.circumstances.as_deref();
        let standing = self.standing(who, circumstances);
        let mut bits = vec![0u64; generation.entries().count().div_ceil(64)].into_boxed_slice();
        for (at, entry) in generation.entries().enumerate() {
            let decision = self.judge(&Asked { circumstances, ..Asked::new(Some(entry.subject()), who) }, &standing);
            metrics.authz_errors.inc_by(decision.errors.into());
            if decision.allowed
                && let Some(word) = bits.get_mut(at / 64)
            {
                *word |= 1 << (at % 64);
            }
        }
        generation.classes.class(bits)
    }

    /// Whether somebody may use this, with these arguments where it is a tool. Whatever may be used is seen.
    pub fn may_use(&self, generation: &Generation, viewer: &Viewer, entry: &Entry, arguments: Option<Json<'_>>, metrics: &Metrics) -> bool {
        if self.allows_all() {
            return true;
        }
        let looks_inside = self.reads_arguments() && entry.kind() == Kind::Tool;
        if !self.reads_request() {
            let seen = self.sight(generation, viewer, metrics).sees(entry);
            if !seen || !looks_inside {
                return seen;
            }
        }
        let arguments = looks_inside.then(|| Arguments::read(arguments));
        self.may(entry.subject(), viewer, arguments.as_ref(), metrics)
    }

    /// Whether somebody sees a tool now, whatever its arguments are or were.
    pub fn may_see(&self, generation: &Generation, viewer: &Viewer, entry: &Entry, metrics: &Metrics) -> bool {
        if !self.reads_request() {
            return self.sight(generation, viewer, metrics).sees(entry);
        }
        entry.own().is_some() || self.may(entry.subject(), viewer, None, metrics)
    }

    /// Whether somebody may read a resource, by the URI that its target knows. It need not be listed.
    pub fn may_read(&self, viewer: &Viewer, target: &str, uri: &str, metrics: &Metrics) -> bool {
        self.allows_all() || self.may(&Subject::of_resource(target, uri), viewer, None, metrics)
    }

    fn may(&self, subject: &Subject, viewer: &Viewer, arguments: Option<&Arguments>, metrics: &Metrics) -> bool {
        let who = viewer.who();
        let circumstances = viewer.circumstances.as_deref();
        let standing = self.standing(who, circumstances);
        let decision = self.judge(&Asked { circumstances, arguments, ..Asked::new(Some(subject), who) }, &standing);
        metrics.authz_errors.inc_by(decision.errors.into());
        decision.allowed
    }
}

impl Viewer {
    /// Somebody of whom no more is known than who it is.
    pub fn of(principal: &Principal) -> Viewer {
        Viewer { principal: principal.clone(), circumstances: None }
    }

    fn who(&self) -> &Who {
        self.principal.memo().who.get_or_init(|| Who::new(self.principal.claims(), self.principal.api_key_id()))
    }
}
