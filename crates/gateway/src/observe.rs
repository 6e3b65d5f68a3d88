//! One timer, one counter and one log line per operation. Never a value of an argument or a result.

use crate::logging::{self, LogFormat, Sampler};
use crate::message::{Call, Context, Control, Incoming, List};
use crate::metrics::Metrics;
use crate::reply::{ErrorType, Failure};
use crate::session::Answer;
use crate::stage::{Next, Stage};
use crate::virtualize::Listed;
use bytes::Bytes;
use memchr::memmem::Finder;
use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};
use transom_protocol::{Method, write};

/// The stage.
#[derive(Clone)]
pub struct Observe {
    metrics: Arc<Metrics>,
    rejections: Arc<Sampler>,
}

impl Observe {
    /// With somewhere to count.
    pub fn new(metrics: Arc<Metrics>) -> Observe {
        Observe { metrics, rejections: Arc::default() }
    }

    fn begin(&self) -> InFlight<'_> {
        self.metrics.in_flight.inc();
        InFlight(&self.metrics)
    }

    fn end(&self, context: &Context, method: Method, outcome: Result<(ErrorType, usize), &Failure>) {
        let revision = context.session.get().map_or(context.revision, |session| session.revision);
        self.metrics.client_request(revision);
        let took = context.started.elapsed();
        let waited = Duration::from_nanos(context.upstream_nanos.load(Relaxed));
        let own = took.saturating_sub(waited);
        let about = context.about.get();
        let entry = about.and_then(|about| about.entry.as_deref());
        let (error, bytes) = match outcome {
            Ok(done) => done,
            Err(failure) => (failure.error_type(), 0),
        };
        self.metrics.operation(method, entry.map(crate::generation::Entry::series), error, took);
        match method {
            Method::CallTool => {
                self.metrics.overhead_of_call(own);
                if let Some(entry) = entry
                    && bytes > 0
                {
                    let from_target = match context.upstream_bytes.load(Relaxed) {
                        0 => bytes,
                        from_target => from_target,
                    };
                    self.metrics.response_bytes(entry.series(), from_target, bytes);
                }
            }
            Method::ListTools => self.metrics.overhead_of_list(own),
            _ => {}
        }
        let line = Line { context, method, outcome: outcome.map(|_| error), took, own, bytes };
        if let Err(failure) = outcome
            && let Some(reason) = failure.reason()
        {
            self.metrics.rejected(reason);
            match self.rejections.admit(10) {
                Some(0) => {}
                Some(skipped) => tracing::info!(skipped, "more requests were rejected than are logged"),
                None => return,
            }
        }
        line.write();
    }
}

struct InFlight<'m>(&'m Metrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

/// Ends the observation of a request that is dropped before it is answered.
struct Unfinished<'u> {
    observe: &'u Observe,
    context: &'u Context,
    method: Method,
    done: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.observe.end(self.context, self.method, Err(&Failure::Cancelled));
        }
    }
}

impl<N: Next<Incoming<Box<Call>>, Reply = Bytes>> Stage<Incoming<Box<Call>>, N> for Observe {
    type Reply = Bytes;

    async fn handle(&self, incoming: Incoming<Box<Call>>, next: &N) -> Result<Bytes, Failure> {
        let (context, method) = (incoming.context.clone(), incoming.message.method);
        let _in_flight = self.begin();
        let mut unfinished = Unfinished { observe: self, context: &context, method, done: false };
        let reply = next.run(incoming).await;
        unfinished.done = true;
        let outcome = reply.as_ref().map(|result| {
            let error = if method == Method::CallTool && is_error(result) { ErrorType::ToolError } else { ErrorType::None };
            (error, result.len())
        });
        self.end(&context, method, outcome);
        match reply {
            Err(Failure::Arguments { result, .. }) if !context.from_script => Ok(result),
            reply => reply,
        }
    }
}

impl<N: Next<Incoming<List>, Reply = Listed>> Stage<Incoming<List>, N> for Observe {
    type Reply = Listed;

    async fn handle(&self, incoming: Incoming<List>, next: &N) -> Result<Listed, Failure> {
        let context = incoming.context.clone();
        let _in_flight = self.begin();
        let method = match incoming.message.kind {
            crate::generation::Kind::Tool => Method::ListTools,
            crate::generation::Kind::Prompt => Method::ListPrompts,
            crate::generation::Kind::Resource => Method::ListResources,
            crate::generation::Kind::Template => Method::ListTemplates,
        };
        let reply = next.run(incoming).await;
        self.end(&context, method, reply.as_ref().map(|listed| (ErrorType::None, listed.body.len())));
        reply
    }
}

impl<N: Next<Incoming<Control>, Reply = Answer>> Stage<Incoming<Control>, N> for Observe {
    type Reply = Answer;

    async fn handle(&self, incoming: Incoming<Control>, next: &N) -> Result<Answer, Failure> {
        let (context, method) = (incoming.context.clone(), incoming.message.method());
        let _in_flight = self.begin();
        let reply = next.run(incoming).await;
        self.end(&context, method, reply.as_ref().map(|_| (ErrorType::None, 0)));
        reply
    }
}

/// Whether a tool result says `isError: true`. Only a result that has the words somewhere is looked at member by member.
fn is_error(result: &Bytes) -> bool {
    let says_true = |at: usize| {
        let after = result.get(at + b"\"isError\"".len()..).unwrap_or(&[]);
        after.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b':')) == Some(&b't')
    };
    static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"isError\""));
    if !WORD.find_iter(result).any(says_true) {
        return false;
    }
    let text = std::str::from_utf8(result).unwrap_or("{}");
    transom_protocol::Json::trusted(text).get("isError").and_then(transom_protocol::Json::bool) == Some(true)
}

thread_local! {
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The line of one operation.
struct Line<'l> {
    context: &'l Context,
    method: Method,
    outcome: Result<ErrorType, &'l Failure>,
    took: Duration,
    own: Duration,
    bytes: usize,
}

impl Line<'_> {
    fn write(&self) {
        // The filter decides as for any other line; the line itself is put together by hand because it is written
        // once per request.
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let Some(sink) = logging::sink() else { return };
        LINE.with_borrow_mut(|line| {
            line.clear();
            match sink.format() {
                LogFormat::Json => self.json(line),
                LogFormat::Text => self.text(line),
            }
            // Put together before the buffer is locked: others wait only for the copy.
            sink.line(|out| out.extend_from_slice(line));
        });
    }

    fn outcome(&self) -> &'static str {
        match self.outcome {
            Ok(ErrorType::None) => "ok",
            Ok(error) => error.label(),
            Err(failure) => failure.reason().map_or_else(|| failure.error_type().label(), crate::reply::Reject::label),
        }
    }

    fn json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"timestamp\":\"");
        logging::write_time(out, SystemTime::now());
        out.extend_from_slice(b"\",\"level\":\"INFO\",\"message\":\"request\",\"method\":");
        write::string(out, self.method.name());
        if let Some(about) = self.context.about.get() {
            if let Some(entry) = &about.entry {
                out.extend_from_slice(b",\"tool\":");
                write::string(out, entry.exposed());
                out.extend_from_slice(b",\"sourceTool\":");
                write::string(out, entry.source_name());
            }
            if let Some(slot) = &about.slot {
                out.extend_from_slice(b",\"target\":");
                write::string(out, &slot.name);
            }
        }
        out.extend_from_slice(b",\"generation\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.context.generation.number).as_bytes());
        out.extend_from_slice(b",\"principal\":");
        write::string(out, self.context.principal.log_name());
        out.extend_from_slice(b",\"outcome\":\"");
        out.extend_from_slice(self.outcome().as_bytes());
        out.push(b'"');
        if let Err(failure) = self.outcome {
            out.extend_from_slice(b",\"error\":");
            write::string(out, &failure.for_the_log());
        }
        out.extend_from_slice(b",\"durationUs\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.took.as_micros()).as_bytes());
        out.extend_from_slice(b",\"ownUs\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.own.as_micros()).as_bytes());
        out.extend_from_slice(b",\"bytesIn\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.context.bytes).as_bytes());
        out.extend_from_slice(b",\"bytesOut\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.bytes).as_bytes());
        out.extend_from_slice(b"}\n");
    }

    fn text(&self, out: &mut Vec<u8>) {
        logging::write_time(out, SystemTime::now());
        out.extend_from_slice(b"  INFO ");
        out.extend_from_slice(self.method.name().as_bytes());
        let entry = self.context.about.get().and_then(|about| about.entry.as_ref());
        if let Some(entry) = entry {
            out.push(b' ');
            out.extend_from_slice(entry.exposed().escape_debug().to_string().as_bytes());
            out.extend_from_slice(b" target=");
            out.extend_from_slice(entry.target_name().escape_debug().to_string().as_bytes());
        }
        if !self.context.principal.is_anonymous() {
            out.extend_from_slice(b" principal=");
            out.extend_from_slice(self.context.principal.log_name().escape_debug().to_string().as_bytes());
        }
        out.extend_from_slice(format!(" {} {:.1?} own={:.1?}", self.outcome(), self.took, self.own).as_bytes());
        if let Err(failure) = self.outcome {
            out.extend_from_slice(format!(" error={:?}", failure.for_the_log()).as_bytes());
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_an_error_if_it_says_so_itself() {
        for (result, error) in [
            (r#"{"content":[],"isError":true}"#, true),
            (r#"{"isError" : true,"content":[]}"#, true),
            (r#"{"content":[],"isError":false}"#, false),
            (r#"{"content":[]}"#, false),
            (r#"{"isError":false}"#, false),
            (r#"{"content":[{"isError":true}]}"#, false),
            (r#"{"content":["\"isError\":true"]}"#, false),
            (r#"{"isError":true,"content":[{"x":1,"isError":false}]}"#, true),
            (r#"{"isError":true,"x":{"y":1,"isError":false}}"#, true),
            (r#"{"isError":true,"x":",\"isError\":false}"}"#, true),
        ] {
            assert_eq!(is_error(&Bytes::from_static(result.as_bytes())), error, "{result}");
        }
    }
}
