//! Sends a call to its target and waits for the answer.
//!
//! Knows targets and timeouts. What the call means was decided before.

use crate::generation::Slot;
use crate::message::Context;
use crate::metrics::Metrics;
use crate::reply::{ErrorType, Failure};
use crate::session::Session;
use crate::stage::Next;
use crate::virtualize::SourceCall;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use transom_protocol::json::Json;
use transom_upstream::{Call, CallError, Caller};

/// The end of the path.
#[derive(Clone)]
pub struct Dispatch {
    metrics: Arc<Metrics>,
}

impl Dispatch {
    /// With somewhere to count.
    pub fn new(metrics: Arc<Metrics>) -> Dispatch {
        Dispatch { metrics }
    }
}

impl Next<Box<SourceCall>> for Dispatch {
    type Reply = Bytes;

    async fn run(&self, source: Box<SourceCall>) -> Result<Bytes, Failure> {
        let SourceCall {
            context, session, slot, method, method_text, params, rename, arguments, source: name, param_headers, timeout, outbox, ..
        } = *source;
        let call = Call {
            method: method_text,
            params,
            rename,
            arguments,
            name_header: Some(name),
            param_headers,
            caller: caller(&context, session.as_deref()),
            outbox: Some(outbox),
            timeout,
        };
        let asked = Instant::now();
        let mut waiting = Waiting { context: &context, slot: &slot, metrics: &self.metrics, method, asked, outcome: ErrorType::Cancelled };
        #[cfg(feature = "inject-panics")]
        let fate = crate::inject::count();
        #[cfg(feature = "inject-panics")]
        fate.comes(crate::inject::Fate::Before);
        let answer = slot.handle.call(call).await;
        #[cfg(feature = "inject-panics")]
        fate.comes(crate::inject::Fate::After);
        waiting.outcome = answer.as_ref().err().map_or(ErrorType::None, ErrorType::of);
        drop(waiting);
        if let Ok(result) = &answer {
            context.upstream_bytes.store(result.len(), Relaxed);
        }
        answer.map_err(|error| match error {
            CallError::Refused(error) if is_error(&error) => Failure::Refused { server: slot.name.to_string(), error },
            CallError::Refused(_) => {
                Failure::Upstream { server: slot.name.to_string(), error: CallError::Invalid("an error without a code that can be read".into()) }
            }
            error => {
                let hide = |text: &str| context.generation.mask(&slot.name)?.text(text);
                Failure::Upstream { server: slot.name.to_string(), error: error.hiding(hide) }
            }
        })
    }
}

/// Whether this is an error as JSON-RPC has them: an object with a whole number for its code.
fn is_error(error: &Bytes) -> bool {
    let code = std::str::from_utf8(error).ok().and_then(|error| Json::trusted(error).get("code"));
    code.is_some_and(|code| code.raw().parse::<i64>().is_ok())
}

/// Who calls, as far as the target may know: what the request says, else what the session agreed on.
fn caller(context: &Context, session: Option<&Session>) -> Caller {
    let mut caller = context.caller.clone();
    if let Some(session) = session {
        caller.session = Some(session.key);
        caller.client_info = session.client().map(|client| client.info.clone());
        caller.capabilities = Some(session.abilities().json());
        caller.log_level = session.level();
    }
    caller
}

/// Counts a call when it ends, also when it ends by being dropped.
struct Waiting<'w> {
    context: &'w Context,
    slot: &'w Slot,
    metrics: &'w Metrics,
    method: transom_protocol::Method,
    asked: Instant,
    outcome: ErrorType,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let took = self.asked.elapsed();
        self.context.upstream_nanos.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.metrics.client_operation(&self.slot.series, self.method, self.outcome, took);
    }
}
