//! Errors as JSON-RPC knows them, with the codes we use.

use crate::write;
use bytes::Bytes;

/// Not JSON, or not UTF-8.
pub const PARSE: i64 = -32700;
/// JSON, but not a message we accept.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Wrong parameters; also every unknown, hidden or denied name.
pub const INVALID_PARAMS: i64 = -32602;
/// Our own fault.
pub const INTERNAL: i64 = -32603;
/// A header says something else than the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// The client lacks a capability that the request needs.
pub const MISSING_CAPABILITY: i64 = -32021;
/// A modern revision we do not speak.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// Too much at once; nothing ran.
pub const OVERLOADED: i64 = 1001;
/// The target is not connected; nothing ran.
pub const UPSTREAM_UNAVAILABLE: i64 = 1002;
/// The target went away after the request was sent.
pub const UPSTREAM_LOST: i64 = 1003;
/// The target did not answer in time.
pub const UPSTREAM_TIMEOUT: i64 = 1004;
/// The target answered with something we cannot pass on.
pub const UPSTREAM_INVALID: i64 = 1005;

/// The request goes in circles; nothing ran.
pub const LOOP_DETECTED: i64 = 1009;

/// Whether the target ran the call; `data.executed` of our own failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// It did not.
    No,
    /// It did.
    Yes,
    /// We cannot know.
    Unknown,
}

impl Executed {
    fn json(self) -> &'static str {
        match self {
            Executed::No => "false",
            Executed::Yes => "true",
            Executed::Unknown => "\"unknown\"",
        }
    }
}

/// An error object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// One sentence.
    pub message: String,
    /// JSON, if there is more to say.
    pub data: Option<Bytes>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None }
    }

    /// One of the gateway's own failures on the way to a target.
    pub fn upstream(code: i64, message: impl Into<String>, server: &str, executed: Executed, retry_after_ms: Option<u64>) -> Self {
        let mut data = Vec::with_capacity(64);
        data.extend_from_slice(b"{\"server\":");
        write::string(&mut data, server);
        data.extend_from_slice(b",\"executed\":");
        data.extend_from_slice(executed.json().as_bytes());
        if let Some(ms) = retry_after_ms {
            data.extend_from_slice(b",\"retryAfterMs\":");
            data.extend_from_slice(itoa::Buffer::new().format(ms).as_bytes());
        }
        data.push(b'}');
        RpcError { code, message: message.into(), data: Some(data.into()) }
    }

    /// The answer to every name that is not listed, whatever the reason: one text for all.
    pub fn not_found(what: &str, name: &str) -> Self {
        RpcError::new(INVALID_PARAMS, format!("{what} not found: {}", shorten(name, 128)))
    }

    /// With this data.
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The error object as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.code).as_bytes());
        out.extend_from_slice(b",\"message\":");
        write::string(out, &self.message);
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(data);
        }
        out.push(b'}');
    }
}

/// At most `bytes` bytes of a text, cut between characters.
pub fn shorten(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}
