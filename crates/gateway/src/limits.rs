//! How much and how long: calls per time, calls at once, and how long a call may take.
//!
//! Knows tools by name and principals by key. Who may call at all was decided before; what the call means comes after. A call that is
//! refused by one limit may have been counted by those before it.

use crate::authenticate::Principal;
use crate::authorize::Permitted;
use crate::config::{self, ConcurrencyLimit, Per, RateLimit, ToolTimeout};
use crate::message::{Addressed, List};
use crate::reply::{Failure, Reject};
use crate::runtime::Runtime;
use crate::stage::{Next, Stage};
use foldhash::fast::RandomState;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};
use transom_protocol::Method;

/// The most counts that one rate limit keeps. Beyond, callers share counts: nobody escapes a limit by being one of many.
const COUNTS: usize = 10_000;
const SHARED_COUNTS: u64 = 64;
/// The most tools whose limits are remembered.
const TOOLS: usize = 20_000;

/// The limits in force.
pub struct Limits {
    written: config::Limits,
    rates: Vec<Rate>,
    concurrency: Vec<Arc<AtOnce>>,
    timeouts: Vec<ToolTimeout>,
    by_tool: RwLock<HashMap<Arc<str>, Arc<ToolLimits>, RandomState>>,
}

/// Which limits a tool has.
pub struct ToolLimits {
    rates: Vec<usize>,
    concurrency: Vec<Arc<AtOnce>>,
    timeouts: Vec<(Option<String>, Duration)>,
}

struct Rate {
    limit: RateLimit,
    /// `None` where no call at all is allowed.
    limiter: Option<DefaultKeyedRateLimiter<String>>,
    swept: Mutex<Instant>,
}

/// Calls under way that are counted together, by whose and what they are.
struct AtOnce {
    limit: ConcurrencyLimit,
    running: Mutex<HashMap<String, u32, RandomState>>,
}

/// A place among the calls under way; dropping it gives the place back.
pub struct Running {
    counts: Arc<AtOnce>,
    key: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Ok(mut running) = self.counts.running.lock() else { return };
        if let Some(count) = running.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                running.remove(&self.key);
            }
        }
    }
}

/// What a call may have.
#[derive(Default)]
pub struct Granted {
    /// How long it may take, if a limit says so.
    pub timeout: Option<Duration>,
    /// Its places among the calls under way.
    pub places: Vec<Running>,
}

impl Limits {
    /// As configured.
    pub fn new(config: &config::Limits) -> Limits {
        let rate = |limit: &RateLimit| {
            // Nothing finer than a nanosecond: so many calls are as good as any number, and zero calls are none.
            let quota = NonZeroU32::new(limit.calls)
                .and_then(|calls| Some(Quota::with_period((limit.period / limit.calls).max(Duration::from_nanos(1)))?.allow_burst(calls)));
            Rate { limit: limit.clone(), limiter: quota.map(DefaultKeyedRateLimiter::hashmap), swept: Mutex::new(Instant::now()) }
        };
        let at_once = |limit: &ConcurrencyLimit| Arc::new(AtOnce { limit: limit.clone(), running: Mutex::default() });
        Limits {
            written: config.clone(),
            rates: config.rates.iter().map(rate).collect(),
            concurrency: config.concurrency.iter().map(at_once).collect(),
            timeouts: config.timeouts.clone(),
            by_tool: RwLock::default(),
        }
    }

    /// As written.
    pub fn written(&self) -> &config::Limits {
        &self.written
    }

    fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.concurrency.is_empty() && self.timeouts.is_empty()
    }

    /// Which limits a tool has, by its exposed name before any prefix. Patterns are looked at once per tool.
    pub fn for_tool(&self, name: &str) -> Arc<ToolLimits> {
        if let Ok(known) = self.by_tool.read()
            && let Some(limits) = known.get(name)
        {
            return limits.clone();
        }
        let fits = |pattern: &Option<String>| pattern.as_deref().is_none_or(|pattern| fits(pattern, name));
        let limits = Arc::new(ToolLimits {
            rates: self.rates.iter().enumerate().filter(|(_, rate)| fits(&rate.limit.tool)).map(|(at, _)| at).collect(),
            concurrency: self.concurrency.iter().filter(|at_once| fits(&at_once.limit.tool)).cloned().collect(),
            timeouts: self.timeouts.iter().filter(|timeout| fits(&timeout.tool)).map(|limit| (limit.principal.clone(), limit.timeout)).collect(),
        });
        if let Ok(mut known) = self.by_tool.write() {
            // Names of tools that are gone stay until there are too many.
            if known.len() >= TOOLS {
                known.clear();
            }
            known.insert(name.into(), limits.clone());
        }
        limits
    }

    /// Lets a call of a tool in, or says why not. `tool` is its exposed name before any prefix.
    pub fn admit(&self, tool: &str, principal: &Principal) -> Result<Granted, Failure> {
        if self.is_empty() {
            return Ok(Granted::default());
        }
        let limits = self.for_tool(tool);
        let mut granted = Granted::default();
        for at_once in &limits.concurrency {
            granted.places.push(at_once.enter(tool, principal)?);
        }
        for rate in limits.rates.iter().filter_map(|at| self.rates.get(*at)) {
            rate.count(tool, principal)?;
        }
        let is_theirs = |whose: &Option<String>| whose.as_deref().is_none_or(|whose| is_called(principal, whose));
        granted.timeout = limits.timeouts.iter().find(|(whose, _)| is_theirs(whose)).map(|(_, timeout)| *timeout);
        Ok(granted)
    }
}

/// Whether a principal has this API key id or this subject.
fn is_called(principal: &Principal, name: &str) -> bool {
    principal.api_key_id() == Some(name) || principal.claims().get("sub").and_then(serde_json::Value::as_str) == Some(name)
}

/// Calls that have the same key are counted together.
fn key(tool: Option<&str>, per: Per, principal: &Principal) -> String {
    match (per, tool) {
        (Per::All, tool) => tool.unwrap_or_default().to_owned(),
        (Per::Principal, tool) => format!("{}\n{}", tool.unwrap_or_default(), principal.key()),
    }
}

impl Rate {
    fn count(&self, tool: &str, principal: &Principal) -> Result<(), Failure> {
        let mut key = key(self.limit.tool.as_ref().map(|_| tool), self.limit.per, principal);
        let Some(limiter) = &self.limiter else { return Err(self.refusal(tool, self.limit.period)) };
        if limiter.len() >= COUNTS {
            self.sweep(limiter);
            if limiter.len() >= COUNTS {
                use std::hash::BuildHasher;
                // The same caller must come to the same count each time.
                static SAME: std::sync::LazyLock<RandomState> = std::sync::LazyLock::new(RandomState::default);
                key = format!("\n{}", SAME.hash_one(&key) % SHARED_COUNTS);
            }
        }
        let Err(not_until) = limiter.check_key(&key) else { return Ok(()) };
        Err(self.refusal(tool, not_until.wait_time_from(DefaultClock::default().now())))
    }

    fn refusal(&self, tool: &str, wait: Duration) -> Failure {
        let RateLimit { calls, period, .. } = self.limit;
        let what = described(self.limit.tool.as_ref().map(|_| tool), calls);
        let message = format!("Rate limit: at most {calls} {what} {}; try again in {}", per(period), seconds(wait));
        Failure::Limited { reason: Reject::RateLimited, message, retry_after: wait }
    }

    /// Forgets counts that have run out, once a second at most: it looks at all of them.
    fn sweep(&self, limiter: &DefaultKeyedRateLimiter<String>) {
        let Ok(mut swept) = self.swept.try_lock() else { return };
        if swept.elapsed() >= Duration::from_secs(1) {
            limiter.retain_recent();
            *swept = Instant::now();
        }
    }
}

impl AtOnce {
    fn enter(self: &Arc<Self>, tool: &str, principal: &Principal) -> Result<Running, Failure> {
        let key = key(self.limit.tool.as_ref().map(|_| tool), self.limit.per, principal);
        let Ok(mut running) = self.running.lock() else { return Err(Failure::Internal) };
        // Bounded by the requests in flight: a count of nothing is removed.
        if running.get(&key).copied().unwrap_or(0) >= self.limit.calls {
            let calls = self.limit.calls;
            let message = format!(
                "Concurrency limit: at most {calls} {} at once; try again when one has ended",
                described(self.limit.tool.as_ref().map(|_| tool), calls)
            );
            return Err(Failure::Limited { reason: Reject::ConcurrencyLimited, message, retry_after: Duration::from_secs(1) });
        }
        *running.entry(key.clone()).or_default() += 1;
        Ok(Running { counts: self.clone(), key })
    }
}

fn described(tool: Option<&str>, calls: u32) -> String {
    let calls = if calls == 1 { "call" } else { "calls" };
    tool.map_or_else(|| calls.to_owned(), |tool| format!("{calls} of {tool}"))
}

fn per(period: Duration) -> String {
    match period.as_millis() {
        1_000 => "per second".to_owned(),
        60_000 => "per minute".to_owned(),
        3_600_000 => "per hour".to_owned(),
        86_400_000 => "per day".to_owned(),
        _ => format!("in {}", seconds(period)),
    }
}

/// A time as people say it, never rounded down: whoever waits that long has waited long enough.
fn seconds(time: Duration) -> String {
    let tenths = time.as_millis().div_ceil(100).max(1);
    if tenths.is_multiple_of(10) || tenths > 600 { format!("{} s", tenths.div_ceil(10)) } else { format!("{}.{} s", tenths / 10, tenths % 10) }
}

/// Whether a name fits a pattern; `*` stands for anything.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').collect::<Vec<_>>();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = left.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    left.ends_with(last)
}

/// The stage.
#[derive(Clone)]
pub struct LimitsStage {
    runtime: Arc<Runtime>,
}

impl LimitsStage {
    /// With the limits in force.
    pub fn new(runtime: Arc<Runtime>) -> LimitsStage {
        LimitsStage { runtime }
    }
}

impl<N: Next<Permitted<Box<Addressed>>>> Stage<Permitted<Box<Addressed>>, N> for LimitsStage {
    type Reply = N::Reply;

    async fn handle(&self, mut call: Permitted<Box<Addressed>>, next: &N) -> Result<N::Reply, Failure> {
        if self.runtime.pressure.sheds() {
            return Err(Failure::rejected(Reject::Overloaded, "Memory is short; try again later"));
        }
        let named = call.message();
        let entry = named.message.entry.as_ref().filter(|_| named.message.call.method == Method::CallTool);
        let granted = match entry {
            Some(entry) => self.runtime.limits.load().admit(entry.unprefixed(), &named.principal)?,
            None => Granted::default(),
        };
        if let Some(timeout) = granted.timeout {
            call.limit_to(timeout);
        }
        let reply = next.run(call).await;
        // The places are held for as long as the call runs, also one whose client goes away.
        drop(granted.places);
        reply
    }
}

impl<N: Next<Permitted<List>>> Stage<Permitted<List>, N> for LimitsStage {
    type Reply = N::Reply;

    async fn handle(&self, list: Permitted<List>, next: &N) -> Result<N::Reply, Failure> {
        next.run(list).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ApiKey;

    fn principal(id: &str) -> Principal {
        Principal::of_key(&ApiKey { id: id.to_owned(), hash: [0; 32], claims: serde_json::Map::new() })
    }

    fn rate(tool: Option<&str>, per: Per, calls: u32, period: Duration) -> RateLimit {
        RateLimit { tool: tool.map(str::to_owned), per, calls, period }
    }

    fn refusal(outcome: Result<Granted, Failure>) -> (Reject, String, Duration) {
        match outcome {
            Err(Failure::Limited { reason, message, retry_after }) => (reason, message, retry_after),
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("let in"),
        }
    }

    #[test]
    fn a_pattern_fits_whole_names() {
        for (pattern, name, expected) in [
            ("get_*", "get_weather", true),
            ("get_*", "get_", true),
            ("get_*", "forget_it", false),
            ("*", "anything", true),
            ("*_it", "forget_it", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("echo", "echo", true),
            ("echo", "echos", false),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn each_principal_and_each_tool_that_fits_has_a_count_of_its_own() {
        let rates = vec![rate(Some("get_*"), Per::Principal, 2, Duration::from_secs(10))];
        let limits = Limits::new(&config::Limits { rates, ..config::Limits::default() });
        let (a, b) = (principal("a"), principal("b"));
        for _ in 0..2 {
            for (tool, who) in [("get_weather", &a), ("get_weather", &b), ("get_time", &a)] {
                assert!(limits.admit(tool, who).is_ok(), "{tool}");
            }
        }
        let (reason, message, wait) = refusal(limits.admit("get_weather", &a));
        assert_eq!(reason, Reject::RateLimited);
        assert!(message.starts_with("Rate limit: at most 2 calls of get_weather in 10 s; try again in "), "{message}");
        assert!(wait > Duration::from_secs(4) && wait <= Duration::from_secs(5), "{wait:?}");
        assert!((0..50).all(|_| limits.admit("set_time", &a).is_ok()), "what no limit names is free");
    }

    #[test]
    fn a_limit_without_a_tool_counts_all_calls_together() {
        let rates = vec![rate(None, Per::All, 3, Duration::from_secs(60))];
        let limits = Limits::new(&config::Limits { rates, ..config::Limits::default() });
        for (tool, who) in [("x", "a"), ("y", "b"), ("z", "c")] {
            assert!(limits.admit(tool, &principal(who)).is_ok());
        }
        assert!(refusal(limits.admit("w", &principal("d"))).1.starts_with("Rate limit: at most 3 calls per minute; try again in "));
    }

    #[test]
    fn a_rate_comes_back_with_time() {
        let rates = vec![rate(None, Per::Principal, 20, Duration::from_secs(1))];
        let limits = Limits::new(&config::Limits { rates, ..config::Limits::default() });
        let who = principal("a");
        while limits.admit("x", &who).is_ok() {}
        let (_, _, wait) = refusal(limits.admit("x", &who));
        std::thread::sleep(wait);
        assert!(limits.admit("x", &who).is_ok());
    }

    // N7
    #[test]
    fn zero_never_means_unlimited() {
        let rates = vec![rate(None, Per::All, 0, Duration::from_secs(1))];
        assert_eq!(refusal(Limits::new(&config::Limits { rates, ..config::Limits::default() }).admit("x", &principal("a"))).0, Reject::RateLimited);
        let concurrency = vec![ConcurrencyLimit { tool: None, per: Per::All, calls: 0 }];
        let limits = Limits::new(&config::Limits { concurrency, ..config::Limits::default() });
        assert_eq!(refusal(limits.admit("x", &principal("a"))).0, Reject::ConcurrencyLimited);
    }

    // N7
    #[test]
    fn any_number_of_callers_leaves_a_bounded_number_of_counts_and_none_escapes() {
        let rates = vec![rate(None, Per::Principal, 1, Duration::from_secs(3600))];
        let limits = Limits::new(&config::Limits { rates, ..config::Limits::default() });
        let refused = (0..COUNTS + 1_000).filter(|n| limits.admit("x", &principal(&n.to_string())).is_err()).count();
        assert!(refused > 900, "{refused}: callers beyond the bound share counts");
        assert!(limits.rates[0].limiter.as_ref().unwrap().len() <= COUNTS + usize::try_from(SHARED_COUNTS).unwrap());
    }

    #[test]
    fn calls_at_once_are_counted_until_they_end() {
        let concurrency = vec![ConcurrencyLimit { tool: Some("slow".into()), per: Per::All, calls: 2 }];
        let limits = Limits::new(&config::Limits { concurrency, ..config::Limits::default() });
        let who = principal("a");
        let first = limits.admit("slow", &who).unwrap();
        let _second = limits.admit("slow", &principal("b")).unwrap();
        let (reason, message, _) = refusal(limits.admit("slow", &who));
        assert_eq!(reason, Reject::ConcurrencyLimited);
        assert_eq!(message, "Concurrency limit: at most 2 calls of slow at once; try again when one has ended");
        assert!(limits.admit("fast", &who).is_ok());
        drop(first);
        assert!(limits.admit("slow", &who).is_ok());
        drop(_second);
        assert!(limits.concurrency[0].running.lock().unwrap().is_empty(), "nothing is kept of calls that ended");
    }

    #[test]
    fn the_first_timeout_that_fits_counts() {
        let timeout = |tool: Option<&str>, principal: Option<&str>, seconds| ToolTimeout {
            tool: tool.map(str::to_owned),
            principal: principal.map(str::to_owned),
            timeout: Duration::from_secs(seconds),
        };
        let timeouts = vec![timeout(Some("slow_*"), Some("batch"), 600), timeout(Some("slow_*"), None, 30), timeout(None, Some("batch"), 7)];
        let limits = Limits::new(&config::Limits { timeouts, ..config::Limits::default() });
        for (tool, who, expected) in [("slow_a", "batch", Some(600)), ("slow_a", "me", Some(30)), ("x", "batch", Some(7)), ("x", "me", None)] {
            let granted = limits.admit(tool, &principal(who)).unwrap();
            assert_eq!(granted.timeout, expected.map(Duration::from_secs), "{tool} {who}");
        }
    }

    #[test]
    fn times_are_said_as_people_say_them_and_never_too_short() {
        for (millis, text) in [(1, "0.1 s"), (400, "0.4 s"), (401, "0.5 s"), (1_000, "1 s"), (1_001, "1.1 s"), (90_050, "91 s")] {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }
}
