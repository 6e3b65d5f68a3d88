//! Calls: the caller's arguments become the source's arguments, or a refusal.

use transom_json::Json;

/// What to do next for a call.
#[derive(Debug)]
pub enum Step {
    /// Call this source tool, then [`Resume::resume`] with its result.
    Call(SourceCall),
    /// Run this handler of the gateway, then [`Resume::resume`] with its result.
    Local(LocalCall),
    /// Nothing more: the result for the client.
    Done(Vec<u8>),
}

/// A call to a target.
#[derive(Debug)]
pub struct SourceCall {
    /// The target.
    pub target: String,
    /// The target's own name for the tool.
    pub tool: String,
    /// The arguments: an object in JSON. It may hold secrets and belongs into the request, nowhere else.
    pub arguments: Vec<u8>,
    /// What becomes of the result.
    pub resume: Resume,
}

/// A call to a handler that needs a clock, randomness or the gateway.
#[derive(Debug)]
pub struct LocalCall {
    /// The handler's name.
    pub handler: String,
    /// The arguments: an object in JSON.
    pub arguments: Vec<u8>,
    /// What becomes of the result.
    pub resume: Resume,
}

/// What becomes of a result.
#[derive(Debug)]
pub struct Resume {}

/// Which shapes a client can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEra {
    /// `structuredContent` must be an object: a projected list is wrapped as `{"items": […]}`.
    Legacy,
    /// Any JSON value may be structured content.
    Modern,
}

impl Resume {
    /// The `CallToolResult` for the client, from the source's.
    #[doc(alias = "transform_output")]
    pub fn resume(self, result: Json<'_>, client: ClientEra) -> Vec<u8> {
        let _ = client;
        result.raw().as_bytes().to_vec()
    }
}

/// Why a call is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such tool, or none that this caller should know of: they look alike.
    UnknownTool,
    /// The tool is there, its target is not, or does not offer the source.
    Unavailable {
        /// The target.
        target: String,
        /// The sentence for the caller.
        message: String,
    },
    /// The arguments cannot be accepted.
    Arguments {
        /// The `CallToolResult` with `isError` that says so.
        result: Vec<u8>,
        /// Every violation, one sentence each.
        violations: Vec<String>,
        /// The first reason, for the metric.
        reason: Rejected,
    },
}

/// Why arguments were refused. A closed set, so that it can be the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejected {
    /// Not an object.
    NotAnObject,
    /// A hidden field by its own name.
    HiddenArgument,
    /// A key that some peer would take for a hidden field.
    Lookalike,
    /// A key that the schema does not allow.
    UnknownArgument,
    /// The same key twice.
    DuplicateKey,
    /// Any other violation of the schema.
    Invalid,
}

impl Rejected {
    /// Its word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Rejected::NotAnObject => "not_an_object",
            Rejected::HiddenArgument => "hidden_arg",
            Rejected::Lookalike => "hidden_arg_lookalike",
            Rejected::UnknownArgument => "unknown_arg",
            Rejected::DuplicateKey => "duplicate_key",
            Rejected::Invalid => "invalid_arguments",
        }
    }
}
