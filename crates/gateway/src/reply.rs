//! Every way a request can end, and what the client reads then. The one place where a failure becomes a reply.

use crate::generation::Kind;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use std::time::Duration;
use transom_protocol::error::{self, shorten};
use transom_protocol::json::Json;
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, Executed, Revision, RpcError};
use transom_upstream::CallError;

/// What the errors that are only ours say of a call that no target heard of.
const NOT_EXECUTED: &str = r#"{"executed":false}"#;
/// As much of an unknown URI is repeated in the error.
const LONGEST_URI: usize = 2048;

/// Why a request was refused before it reached a target. A closed set: log field, metric label and test name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// A browser page that is not allowed.
    Origin,
    /// A `Host` that is not ours.
    Host,
    /// A body above the limit.
    BodyTooLarge,
    /// A body that came too slowly.
    BodyTimeout,
    /// A compressed body.
    ContentEncoding,
    /// A body that does not call itself JSON.
    ContentType,
    /// `Accept` without anything we can answer.
    Accept,
    /// Not JSON or not UTF-8.
    Parse,
    /// The same key twice.
    DuplicateKey,
    /// Too deep, too many values, too long a key.
    Budget,
    /// A batch.
    Batch,
    /// JSON, but not a message we accept.
    InvalidRequest,
    /// An id that is already in flight.
    IdInUse,
    /// A header that is missing, doubled or says something else than the body.
    HeaderMismatch,
    /// A revision we do not speak.
    UnsupportedVersion,
    /// A session we do not know.
    UnknownSession,
    /// An event we do not know, or no longer.
    UnknownEvent,
    /// No room for another session.
    SessionCap,
    /// No room for another stream.
    StreamCap,
    /// Too much at once.
    Overloaded,
    /// Shutting down.
    Draining,
    /// No such method.
    UnknownMethod,
    /// No such tool, prompt or resource, or not for this principal.
    UnknownTool,
    /// A name that several tools could be meant by.
    AmbiguousName,
    /// No such path.
    UnknownPath,
    /// A method HTTP knows but this path does not.
    MethodNotAllowed,
    /// Framing that intermediaries read in different ways.
    Framing,
    /// A write on the admin listener without the token.
    AdminWrite,
    /// Too many calls in a time.
    RateLimited,
    /// Too many calls at once.
    ConcurrencyLimited,
    /// Arguments that the tool does not take.
    Arguments(transom_registry::Rejected),
    /// No credentials, or none that count.
    Unauthenticated,
    /// Good credentials that lack a scope.
    InsufficientScope,
    /// Credentials in the address.
    QueryToken,
    /// Credentials that cannot be judged, because the keys of their issuer are not there.
    KeysUnavailable,
    /// A request that has been here before, or has come too far.
    Loop,
}

impl Reject {
    /// The label value.
    pub fn label(self) -> &'static str {
        match self {
            Reject::Origin => "origin",
            Reject::Host => "host",
            Reject::BodyTooLarge => "body_too_large",
            Reject::BodyTimeout => "body_timeout",
            Reject::ContentEncoding => "content_encoding",
            Reject::ContentType => "content_type",
            Reject::Accept => "accept",
            Reject::Parse => "parse",
            Reject::DuplicateKey => "duplicate_key",
            Reject::Budget => "budget",
            Reject::Batch => "batch",
            Reject::InvalidRequest => "invalid_request",
            Reject::IdInUse => "id_in_use",
            Reject::HeaderMismatch => "header_mismatch",
            Reject::UnsupportedVersion => "unsupported_version",
            Reject::UnknownSession => "unknown_session",
            Reject::UnknownEvent => "unknown_event",
            Reject::SessionCap => "session_cap",
            Reject::StreamCap => "stream_cap",
            Reject::Overloaded => "overloaded",
            Reject::Draining => "draining",
            Reject::UnknownMethod => "unknown_method",
            Reject::UnknownTool => "unknown_tool",
            Reject::AmbiguousName => "ambiguous_name",
            Reject::UnknownPath => "unknown_path",
            Reject::MethodNotAllowed => "method_not_allowed",
            Reject::Framing => "framing",
            Reject::AdminWrite => "admin_write",
            Reject::RateLimited => "rate_limited",
            Reject::ConcurrencyLimited => "concurrency_limited",
            Reject::Arguments(reason) => reason.label(),
            Reject::Unauthenticated => "unauthenticated",
            Reject::InsufficientScope => "insufficient_scope",
            Reject::QueryToken => "query_token",
            Reject::KeysUnavailable => "keys_unavailable",
            Reject::Loop => "loop",
        }
    }

    /// The status that goes with it when nothing else decides.
    fn status(self) -> StatusCode {
        match self {
            Reject::Unauthenticated => StatusCode::UNAUTHORIZED,
            Reject::Origin | Reject::Host | Reject::InsufficientScope => StatusCode::FORBIDDEN,
            Reject::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Reject::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Reject::ContentEncoding | Reject::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Reject::Accept => StatusCode::NOT_ACCEPTABLE,
            Reject::RateLimited | Reject::ConcurrencyLimited => StatusCode::TOO_MANY_REQUESTS,
            Reject::UnknownSession | Reject::UnknownPath => StatusCode::NOT_FOUND,
            Reject::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Reject::SessionCap | Reject::StreamCap | Reject::Overloaded | Reject::Draining | Reject::KeysUnavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Reject::UnknownMethod | Reject::UnknownTool | Reject::AmbiguousName => StatusCode::OK,
            Reject::Loop => StatusCode::LOOP_DETECTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    fn code(self) -> i64 {
        match self {
            Reject::Parse => error::PARSE,
            Reject::HeaderMismatch => error::HEADER_MISMATCH,
            Reject::UnsupportedVersion => error::UNSUPPORTED_VERSION,
            Reject::SessionCap | Reject::StreamCap | Reject::Overloaded | Reject::Draining | Reject::KeysUnavailable => error::OVERLOADED,
            Reject::UnknownMethod => error::METHOD_NOT_FOUND,
            Reject::UnknownTool | Reject::AmbiguousName => error::INVALID_PARAMS,
            Reject::Loop => error::LOOP_DETECTED,
            _ => error::INVALID_REQUEST,
        }
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub enum Failure {
    /// Refused by the gateway; no target heard of it.
    Rejected {
        /// Which rule.
        reason: Reject,
        /// What the client reads.
        error: Box<RpcError>,
    },
    /// Refused by the gateway until the client shows other credentials.
    Challenged(Box<Challenge>),
    /// A target's own error, with its name.
    Refused {
        /// Which target.
        server: String,
        /// Its error object, JSON.
        error: Bytes,
    },
    /// The way to the target failed.
    Upstream {
        /// Which target.
        server: String,
        /// How.
        error: CallError,
    },
    /// A virtual tool whose source is not there.
    Absent {
        /// The target that should have it.
        server: String,
        /// The sentence for the caller.
        message: String,
        /// When to come back, if somebody knows.
        retry_after: Option<Duration>,
    },
    /// Arguments that the tool does not take. Clients of MCP read the result, so that a model can repair its call.
    Arguments {
        /// The result that says so, JSON.
        result: Bytes,
        /// Every violation, a sentence each.
        violations: Vec<String>,
        /// The worst of them.
        reason: transom_registry::Rejected,
    },
    /// Too much for now; see [`crate::limits`].
    Limited {
        /// Which limit.
        reason: Reject,
        /// What the client reads, a model perhaps.
        message: String,
        /// When to come back.
        retry_after: Duration,
    },
    /// Right method, wrong parameters.
    InvalidParams(String),
    /// The client took the request back.
    Cancelled,
    /// Our own fault.
    Internal,
}

/// What a client reads that has to show other credentials.
#[derive(Debug)]
pub struct Challenge {
    /// Which rule.
    pub reason: Reject,
    /// What went wrong.
    pub message: String,
    /// `WWW-Authenticate`: how to get better ones.
    pub header: HeaderValue,
}

impl Failure {
    /// Refused by this rule, with this text.
    pub fn rejected(reason: Reject, message: impl Into<String>) -> Failure {
        let error = RpcError::new(reason.code(), message);
        let error = match error.code {
            error::OVERLOADED | error::LOOP_DETECTED => error.with_data(NOT_EXECUTED),
            _ => error,
        };
        Failure::Rejected { reason, error: Box::new(error) }
    }

    /// Arguments that a tool does not take, with the sentence that says why.
    pub fn arguments(reason: transom_registry::Rejected, why: &str) -> Failure {
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"isError\":true}}", write::quoted(why));
        Failure::Arguments { result: result.into(), violations: vec![why.to_owned()], reason }
    }

    /// The one answer for every name that is not listed.
    pub fn not_found(what: &str, name: &str) -> Failure {
        let mut error = RpcError::not_found(what, name);
        // A resource that is not there is named in the data too, since 2026-07-28.
        if what == Kind::Resource.word() {
            error = error.with_data(format!("{{\"uri\":{}}}", write::quoted(shorten(name, LONGEST_URI))));
        }
        Failure::Rejected { reason: Reject::UnknownTool, error: Box::new(error) }
    }

    /// A method nobody here knows.
    pub fn unknown_method(name: &str) -> Failure {
        Failure::rejected(Reject::UnknownMethod, format!("Method not found: {}", shorten(name, 128)))
    }

    /// A modern revision we do not speak.
    pub fn unsupported_version(requested: &str) -> Failure {
        let supported: Vec<String> = Revision::ALL.iter().map(|r| format!("\"{}\"", r.text())).collect();
        let data = format!("{{\"supported\":[{}],\"requested\":{}}}", supported.join(","), write::quoted(shorten(requested, 64)));
        let error = RpcError::new(error::UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(data);
        Failure::Rejected { reason: Reject::UnsupportedVersion, error: Box::new(error) }
    }

    /// The rule that refused it, if one did.
    pub fn reason(&self) -> Option<Reject> {
        match self {
            Failure::Rejected { reason, .. } => Some(*reason),
            Failure::Arguments { reason, .. } => Some(Reject::Arguments(*reason)),
            Failure::Challenged(challenge) => Some(challenge.reason),
            Failure::Limited { reason, .. } => Some(*reason),
            Failure::Upstream { error: CallError::Overloaded, .. } => Some(Reject::Overloaded),
            _ => None,
        }
    }

    /// The value of the metric label `error_type`.
    pub fn error_type(&self) -> ErrorType {
        match self {
            Failure::Arguments { .. } => ErrorType::ToolError,
            Failure::Absent { .. } => ErrorType::Unavailable,
            Failure::Rejected { .. } | Failure::Challenged(_) | Failure::Limited { .. } | Failure::InvalidParams(_) => ErrorType::Rejected,
            Failure::Refused { .. } => ErrorType::TargetError,
            Failure::Upstream { error, .. } => ErrorType::of(error),
            Failure::Cancelled => ErrorType::Cancelled,
            Failure::Internal => ErrorType::Internal,
        }
    }

    /// The HTTP status, for a client of this era.
    pub fn status(&self, era: Era) -> StatusCode {
        match self {
            Failure::Rejected { reason: Reject::UnknownMethod, .. } if era == Era::Modern => StatusCode::NOT_FOUND,
            Failure::Rejected { reason, .. } => reason.status(),
            Failure::Challenged(challenge) => challenge.reason.status(),
            // Clients of the legacy era take a status like this for the end of their connection: they never read the error, and some
            // lose their session over it.
            Failure::Limited { .. } if era == Era::Legacy => StatusCode::OK,
            Failure::Limited { reason, .. } => reason.status(),
            Failure::Upstream { error: CallError::Overloaded, .. } => StatusCode::SERVICE_UNAVAILABLE,
            // The one error of a target that its revision ties to a status: what the client has to declare, it has to declare to us.
            Failure::Refused { error, .. } if era == Era::Modern && has_code(error, error::MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        }
    }

    /// How to get better credentials, where that is the problem.
    pub fn challenge(&self) -> Option<&HeaderValue> {
        match self {
            Failure::Challenged(challenge) => Some(&challenge.header),
            _ => None,
        }
    }

    /// When to come back, for refusals that pass.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Rejected {
                reason: Reject::SessionCap | Reject::StreamCap | Reject::Overloaded | Reject::Draining | Reject::KeysUnavailable,
                ..
            }
            | Failure::Upstream { error: CallError::Overloaded, .. } => Some(Duration::from_secs(1)),
            Failure::Upstream { error: CallError::Unavailable { retry_after, .. }, .. } | Failure::Absent { retry_after, .. } => {
                Some(retry_after.unwrap_or(Duration::from_secs(1)))
            }
            // Headers count in whole seconds, and whoever comes back too early is refused again.
            Failure::Limited { retry_after, .. } => Some(Duration::from_secs(retry_after.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))),
            _ => None,
        }
    }

    /// What the log says of it. Values are never logged: a target's own words may repeat what it was sent, and a violation of a schema quotes it.
    pub fn for_the_log(&self) -> String {
        match (self, self.rpc()) {
            (Failure::Arguments { violations, .. }, _) => format!("{} violations, of which the caller was told", violations.len()),
            (_, error) if self.error_type() == ErrorType::TargetError => format!("the target answered with error {}", error.code),
            (_, error) => error.message,
        }
    }

    /// The error object.
    pub fn rpc(&self) -> RpcError {
        match self {
            Failure::Rejected { error, .. } => (**error).clone(),
            Failure::Challenged(challenge) => RpcError::new(challenge.reason.code(), challenge.message.clone()),
            Failure::Limited { message, retry_after, .. } => {
                let wait = retry_after.as_micros().div_ceil(1000).max(1);
                RpcError::new(error::OVERLOADED, message.clone()).with_data(format!("{{\"executed\":false,\"retryAfterMs\":{wait}}}"))
            }
            Failure::Refused { server, error } => with_server(error, server),
            Failure::Upstream { server, error } => upstream_error(server, error),
            Failure::Absent { server, message, .. } => {
                let retry = self.retry_after().map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX).max(1));
                RpcError::upstream(error::UPSTREAM_UNAVAILABLE, message.clone(), server, Executed::No, retry)
            }
            Failure::Arguments { violations, .. } => RpcError::new(error::INVALID_PARAMS, violations.join("; ")),
            Failure::InvalidParams(message) => RpcError::new(error::INVALID_PARAMS, message.clone()),
            // It may have been with the target already.
            Failure::Cancelled => RpcError::new(1006, "Request cancelled by the client").with_data(r#"{"executed":"unknown"}"#),
            Failure::Internal => RpcError::new(error::INTERNAL, "Internal error; the gateway's log has the details"),
        }
    }
}

impl From<transom_registry::Refusal> for Failure {
    fn from(refusal: transom_registry::Refusal) -> Failure {
        match refusal {
            transom_registry::Refusal::Arguments { result, violations, reason } => Failure::Arguments { result: result.into(), violations, reason },
            _ => Failure::Internal,
        }
    }
}

/// A closed set of ways to fail, for metrics and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum ErrorType {
    /// No failure.
    None,
    /// A result with `isError: true`.
    ToolError,
    /// Refused by the gateway.
    Rejected,
    /// The target answered with an error.
    TargetError,
    /// The target is not connected.
    Unavailable,
    /// The target went away during the call.
    Lost,
    /// The target did not answer in time.
    Timeout,
    /// The target's answer could not be passed on.
    Invalid,
    /// Taken back by the client.
    Cancelled,
    /// Our own fault.
    Internal,
}

impl ErrorType {
    /// How many there are.
    pub const COUNT: usize = 10;

    /// How a call to a target failed.
    pub fn of(error: &CallError) -> ErrorType {
        match error {
            CallError::Refused(_) => ErrorType::TargetError,
            CallError::Overloaded => ErrorType::Rejected,
            CallError::Unavailable { .. } => ErrorType::Unavailable,
            CallError::Lost(_) => ErrorType::Lost,
            CallError::TimedOut(_) => ErrorType::Timeout,
            CallError::Invalid(_) => ErrorType::Invalid,
        }
    }

    /// The label value; empty for success.
    pub fn label(self) -> &'static str {
        match self {
            ErrorType::None => "",
            ErrorType::ToolError => "tool_error",
            ErrorType::Rejected => "rejected",
            ErrorType::TargetError => "target_error",
            ErrorType::Unavailable => "upstream_unavailable",
            ErrorType::Lost => "upstream_lost",
            ErrorType::Timeout => "upstream_timeout",
            ErrorType::Invalid => "upstream_invalid",
            ErrorType::Cancelled => "cancelled",
            ErrorType::Internal => "internal",
        }
    }
}

fn upstream_error(server: &str, failure: &CallError) -> RpcError {
    let retry = |after: &Option<Duration>| Some(after.map_or(1000, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX).max(1)));
    match failure {
        CallError::Refused(raw) => with_server(raw, server),
        CallError::Unavailable { reason, retry_after } => RpcError::upstream(
            error::UPSTREAM_UNAVAILABLE,
            format!("Target {server} is unavailable: {reason}; try again later"),
            server,
            Executed::No,
            retry(retry_after),
        ),
        CallError::Overloaded => RpcError::upstream(
            error::OVERLOADED,
            format!("Target {server} has too many calls in flight; try again later"),
            server,
            Executed::No,
            Some(1000),
        ),
        CallError::Lost(reason) => {
            RpcError::upstream(error::UPSTREAM_LOST, format!("Target {server} was lost during the call: {reason}"), server, Executed::Unknown, None)
        }
        CallError::TimedOut(after) => RpcError::upstream(
            error::UPSTREAM_TIMEOUT,
            format!("Timeout: target {server} did not answer within {} ms; the call was cancelled", after.as_millis()),
            server,
            Executed::Unknown,
            None,
        ),
        CallError::Invalid(reason) => RpcError::upstream(
            error::UPSTREAM_INVALID,
            format!("Target {server} answered with something that cannot be passed on: {reason}"),
            server,
            Executed::Yes,
            None,
        ),
    }
}

fn has_code(raw: &Bytes, code: i64) -> bool {
    code_of(std::str::from_utf8(raw).map_or(Json::trusted("{}"), Json::trusted)) == Some(code)
}

fn code_of(error: Json<'_>) -> Option<i64> {
    error.get("code").and_then(|code| code.raw().parse().ok())
}

/// A target's error as the client reads it: code, message and data as they were, and the target's name in `data.server`.
fn with_server(raw: &Bytes, server: &str) -> RpcError {
    let json = std::str::from_utf8(raw).map_or(Json::trusted("{}"), Json::trusted);
    let code = code_of(json).unwrap_or(error::INTERNAL);
    let message = json.get("message").and_then(Json::string).unwrap_or_default().into_owned();
    let name = write::quoted(server);
    let data = match json.get("data") {
        Some(data) if data.raw().starts_with('{') => {
            let edit = |key: transom_protocol::json::Key<'_>, _: Json<'_>| if key.is("server") { Edit::Drop } else { Edit::Keep };
            write::edited(data, edit, &[("server", name.as_bytes())])
        }
        Some(data) if data.raw() != "null" => {
            write::edited(Json::trusted("{}"), |_, _| Edit::Keep, &[("value", data.raw().as_bytes()), ("server", name.as_bytes())])
        }
        _ => write::edited(Json::trusted("{}"), |_, _| Edit::Keep, &[("server", name.as_bytes())]),
    };
    RpcError { code, message, data: Some(data.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-000-12, R-001-42
    #[test]
    fn a_targets_error_keeps_code_message_and_data_and_gains_the_targets_name() {
        for (raw, data) in [
            (r#"{"code":-5,"message":"no","data":{"a":1}}"#, r#"{"a":1,"server":"github"}"#),
            (r#"{"code":-5,"message":"no","data":[1]}"#, r#"{"value":[1],"server":"github"}"#),
            (r#"{"code":-5,"message":"no"}"#, r#"{"server":"github"}"#),
        ] {
            let error = with_server(&Bytes::from_static(raw.as_bytes()), "github");
            assert_eq!((error.code, error.message.as_str(), error.data.as_deref()), (-5, "no", Some(data.as_bytes())));
        }
    }
}
