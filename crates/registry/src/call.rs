//! Calls: the caller's arguments become the source's arguments, or a refusal.
//!
//! Arguments are built, never merged: what callers may say is copied as they spelled it, what they may not say is refused, and
//! what the registry says is written in. The request is parsed once and written once. Which tool a name leads to is decided in
//! [`crate::list`]; what becomes of results in [`crate::result`].

mod build;
mod findings;
mod fold;
mod input;
mod level;
#[cfg(test)]
mod tests;

pub(crate) use self::input::Input;
use crate::compile::Base;
use crate::list::Bound;
use crate::local::{Given, Implementation};
use crate::mask::Mask;
use crate::name::{TargetName, ToolName};
use crate::result::{Errors, GENERIC, Outcome, Projection, Shaped, failed};
use crate::source::{ParamHeader, SourceTool};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use transom_json::{Json, Kind, write};

/// What to do next for a call.
#[derive(Debug)]
pub enum Step {
    /// Call this source tool, then [`Resume::resume`] with its result.
    Call(SourceCall),
    /// Run this local tool, then [`Resume::resume`] with its result.
    Local(LocalCall),
    /// Nothing more: the result for the client.
    Done(Vec<u8>),
}

/// A call to a target.
pub struct SourceCall {
    /// The target.
    pub target: TargetName,
    /// The target's own name for the tool.
    pub tool: ToolName,
    /// The arguments: an object in JSON. It may hold secrets and belongs into the request, nowhere else.
    pub arguments: Vec<u8>,
    /// What becomes of the result.
    pub resume: Resume,
    source: Arc<SourceTool>,
}

impl SourceCall {
    /// The arguments, by the source's names, that travel as headers too.
    pub fn headers(&self) -> &[ParamHeader] {
        &self.source.headers
    }
}

impl fmt::Debug for SourceCall {
    /// Without the arguments: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceCall({}/{})", self.target, self.tool)
    }
}

/// A call to a tool that stands on no target.
pub struct LocalCall {
    /// The arguments: an object in JSON.
    pub arguments: Vec<u8>,
    /// What becomes of the result.
    pub resume: Resume,
    implementation: Arc<Implementation>,
}

impl LocalCall {
    /// The gateway's handler that has to answer, by name; otherwise [`LocalCall::answer`] does.
    pub fn handler(&self) -> Option<&str> {
        match &*self.implementation {
            Implementation::Internal(name) => Some(name),
            _ => None,
        }
    }

    /// The result, if this crate can give it: a `CallToolResult` in JSON.
    pub fn answer(&self, given: &Given) -> Option<Vec<u8>> {
        let arguments = std::str::from_utf8(&self.arguments).unwrap_or("{}");
        self.implementation.answer(Json::trusted(arguments), given)
    }
}

impl fmt::Debug for LocalCall {
    /// Without the arguments: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalCall({:?})", self.handler())
    }
}

/// What becomes of a result. It belongs to the generation that the call began with.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    projection: Option<Arc<Projection>>,
    errors: Errors,
    mask: Option<Arc<Mask>>,
}

/// Which shapes a client can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEra {
    /// `structuredContent` must be an object: a projected list is wrapped as `{"items": […]}`.
    Legacy,
    /// Any JSON value may be structured content.
    Modern,
}

/// A result for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'t> {
    /// The `CallToolResult`; borrowed if it is the source's, byte for byte.
    pub json: Cow<'t, str>,
    /// What was done to it.
    pub outcome: Outcome,
    /// Whether a secret stood in it.
    pub masked: bool,
}

impl Resume {
    /// For a tool that passes through: secrets that other tools sent to its target are masked all the same.
    pub(crate) fn passing(mask: Option<Arc<Mask>>) -> Resume {
        Resume { mask, ..Resume::default() }
    }

    pub(crate) fn of(bound: &Bound) -> Resume {
        Resume { projection: bound.tool.projection.clone(), errors: bound.tool.settings.errors.unwrap_or_default(), mask: bound.mask.clone() }
    }

    /// The error object for the client where the source answered with one, if the tool does not pass on what it says.
    pub fn refused(&self, error: Json<'_>) -> Option<String> {
        let code = error.get("code").filter(|code| code.kind() == Kind::Number).map_or("-32603", Json::raw);
        (self.errors == Errors::Generic).then(|| format!("{{\"code\":{code},\"message\":{}}}", write::quoted(GENERIC)))
    }

    /// The result for the client, from the source's. The text must have passed [`transom_json::check`].
    #[doc(alias = "transform_output")]
    pub fn resume<'t>(&self, result: Json<'t>, client: ClientEra) -> Reply<'t> {
        let shaped = match &self.projection {
            Some(projection) => projection.apply(result, client == ClientEra::Legacy),
            None if result.get("isError").is_some_and(|error| error.raw() == "true") => failed(result, self.errors),
            None => Shaped { json: Cow::Borrowed(result.raw()), outcome: Outcome::Passed },
        };
        match self.mask.as_ref().and_then(|mask| mask.json(&shaped.json)) {
            Some(masked) => Reply { json: Cow::Owned(masked), outcome: shaped.outcome, masked: true },
            None => Reply { json: shaped.json, outcome: shaped.outcome, masked: false },
        }
    }
}

/// Whether a lenient peer may take the one name for the other: by case, compatibility forms or characters that nobody sees.
pub fn reads_as(name: &str, other: &str) -> bool {
    fold::fold(name) == fold::fold(other)
}

/// Why a call is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such tool, or none that this caller should know of: they look alike.
    UnknownTool,
    /// The tool is there, its target is not, or does not offer the source.
    Unavailable {
        /// The target.
        target: TargetName,
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

/// Why arguments were refused, worst first. A closed set, so that it can be the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rejected {
    /// Not an object.
    NotAnObject,
    /// The same key twice.
    DuplicateKey,
    /// A key that some peer would take for a hidden field.
    Lookalike,
    /// A hidden field by its own name.
    HiddenArgument,
    /// A key that the schema does not allow.
    UnknownArgument,
    /// Any other violation of the schema.
    Invalid,
}

impl Rejected {
    /// Its word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Rejected::NotAnObject => "not_an_object",
            Rejected::DuplicateKey => "duplicate_key",
            Rejected::Lookalike => "hidden_arg_lookalike",
            Rejected::HiddenArgument => "hidden_arg",
            Rejected::UnknownArgument => "unknown_arg",
            Rejected::Invalid => "invalid_arguments",
        }
    }
}

/// Begins a call of a virtual tool.
pub(crate) fn begin(bound: &Bound, arguments: Option<Json<'_>>) -> Result<Step, Refusal> {
    let arguments = bound.input.accept(object(arguments)?)?;
    let resume = Resume::of(bound);
    Ok(match (&bound.tool.base, &bound.source) {
        (Base::Source { target, tool }, Some(source)) => {
            Step::Call(SourceCall { target: target.clone(), tool: tool.clone(), arguments, resume, source: source.clone() })
        }
        (Base::Local(implementation), _) => {
            let call = LocalCall { arguments, resume, implementation: implementation.clone() };
            let mock = matches!(**implementation, Implementation::Mock(_)) && call.resume.projection.is_none();
            match call.answer(&Given { unix_seconds: 0, random: [0; 16] }).filter(|_| mock) {
                Some(result) => Step::Done(result),
                None => Step::Local(call),
            }
        }
        (Base::Source { .. }, None) => return Err(Refusal::UnknownTool),
    })
}

/// Begins a call of a tool that passes through: its target judges the arguments, unless the config wants that done here.
pub(crate) fn pass(
    target: &TargetName,
    source: &Arc<SourceTool>,
    input: Option<&Input>,
    arguments: Option<Json<'_>>,
    resume: Resume,
) -> Result<Step, Refusal> {
    let arguments = object(arguments)?;
    let arguments = match input {
        Some(input) => input.accept(arguments)?,
        None => arguments.raw().as_bytes().to_vec(),
    };
    Ok(Step::Call(SourceCall { target: target.clone(), tool: ToolName::new(&source.name), arguments, resume, source: source.clone() }))
}

/// The arguments as an object: none are none, and anything else is refused (S17, S18, A8).
fn object(arguments: Option<Json<'_>>) -> Result<Json<'_>, Refusal> {
    match arguments {
        None => Ok(Json::trusted("{}")),
        Some(json) => match json.kind() {
            Kind::Null => Ok(Json::trusted("{}")),
            Kind::Object => Ok(json),
            _ => Err(refusal(vec!["arguments must be an object".into()], Rejected::NotAnObject)),
        },
    }
}

fn refusal(violations: Vec<String>, reason: Rejected) -> Refusal {
    let mut result = Vec::with_capacity(128);
    result.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    write::string(&mut result, &violations.join("\n"));
    result.extend_from_slice(br#"}],"isError":true}"#);
    Refusal::Arguments { result, violations, reason }
}

/// What arguments a tool takes by its definition alone, for tools that no plan stands behind.
pub struct Takes(Input);

impl Takes {
    /// As the definition says, which must have passed [`transom_json::check`].
    pub fn by(definition: &str) -> Takes {
        Takes(Input::open(definition))
    }

    /// Judges arguments, or names everything that is wrong with them.
    pub fn judge(&self, arguments: Option<Json<'_>>) -> Result<(), Refusal> {
        self.0.accept(object(arguments)?).map(drop)
    }
}
