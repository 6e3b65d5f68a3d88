//! How an exchange with a target can fail before there is an answer.

use crate::call::CallError;
use bytes::Bytes;
use http::StatusCode;
use std::time::Duration;

/// Why there is no JSON-RPC answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Nothing reached the target.
    NotSent(String),
    /// Gone after something was sent.
    Lost(String),
    /// No answer in time.
    TimedOut,
    /// An answer that is none.
    Invalid(String),
    /// An HTTP status that is no success, with the JSON-RPC error of its body, if it had one.
    Status { status: StatusCode, error: Option<Bytes>, retry_after: Option<Duration> },
}

/// A JSON-RPC answer: the result, or the error object.
pub(crate) type Answer = Result<Bytes, Bytes>;

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::NotSent(reason) | Failure::Lost(reason) | Failure::Invalid(reason) => f.write_str(reason),
            Failure::TimedOut => f.write_str("no answer in time"),
            Failure::Status { status, .. } if status.is_redirection() => write!(f, "answered HTTP {status}; redirects are never followed"),
            Failure::Status { status, .. } => write!(f, "answered HTTP {status}"),
        }
    }
}

impl Failure {
    /// What the caller of a call is told. `waited` is the call's own timeout.
    pub(crate) fn into_call_error(self, waited: Duration) -> CallError {
        match self {
            Failure::NotSent(reason) => CallError::Unavailable { reason, retry_after: None },
            Failure::Lost(reason) => CallError::Lost(reason),
            Failure::TimedOut => CallError::TimedOut(waited),
            Failure::Invalid(reason) => CallError::Invalid(reason),
            Failure::Status { error: Some(error), .. } => CallError::Refused(error),
            // Whoever answers 5xx may have run the call before it failed.
            Failure::Status { status, .. } if status.is_server_error() => CallError::Lost(self.to_string()),
            Failure::Status { retry_after, .. } => CallError::Unavailable { reason: self.to_string(), retry_after },
        }
    }
}
