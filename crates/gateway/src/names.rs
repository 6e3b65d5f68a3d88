//! Finds what a name means. Inside, a tool is a pair (target, tool); outside it has an exposed name. No string is taken
//! apart to find it: names are looked up in the generation's tables.

use crate::authenticate::Principal;
use crate::generation::{Entry, Generation, Kind, Slot};
use crate::message::{Addressed, Call, Context, InSession, List, Named};
use crate::reply::{Failure, Reject};
use crate::runtime::Runtime;
use crate::session::Session;
use crate::stage::{Next, Stage};
use crate::tasks::{self, TaskId};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use transom_protocol::error::shorten;
use transom_protocol::json::Json;
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, Method, header};
use transom_registry::source::ParamHeader;

/// How long a client may wait for the result of a task in one request.
const LONGEST_TASK_WAIT: Duration = Duration::from_secs(10 * 60);

/// The stage.
#[derive(Clone)]
pub struct Names {
    runtime: Arc<Runtime>,
}

impl Names {
    /// With the rules in force: several things can only be meant by those who see several.
    pub fn new(runtime: Arc<Runtime>) -> Names {
        Names { runtime }
    }
}

/// The tool that a name means to somebody: the one that has it, else the one that it is another spelling of. What they do not see counts for
/// nothing, not even by its name. `Err` with all of them if it is not one.
pub fn meant(generation: &Generation, name: &str, sees: impl Fn(&Entry) -> bool) -> Result<Arc<Entry>, Vec<Arc<Entry>>> {
    match generation.named(Kind::Tool, name).filter(|entry| sees(entry)) {
        Some(entry) => Ok(entry.clone()),
        None => spelled(generation, name, sees),
    }
}

fn spelled(generation: &Generation, name: &str, sees: impl Fn(&Entry) -> bool) -> Result<Arc<Entry>, Vec<Arc<Entry>>> {
    let matches: Vec<&Arc<Entry>> = generation.spelled(name).iter().filter(|entry| sees(entry)).collect();
    match matches.as_slice() {
        [only] => Ok((*only).clone()),
        _ => Err(matches.into_iter().cloned().collect()),
    }
}

/// The answer to a name that means nothing, or several things.
pub fn not_one(name: &str, matches: &[Arc<Entry>]) -> Failure {
    if matches.is_empty() { Failure::not_found(Kind::Tool.word(), name) } else { ambiguous(name, matches) }
}

impl<N: Next<Named<Box<Addressed>>>> Stage<InSession<Box<Call>>, N> for Names {
    type Reply = N::Reply;

    async fn handle(&self, request: InSession<Box<Call>>, next: &N) -> Result<N::Reply, Failure> {
        let InSession { context, principal, session, message: call } = request;
        let message = if tasks::is_about_task(call.method) {
            self.task(&context, &principal, call)?
        } else {
            self.address(&context, session.as_deref(), call)?
        };
        next.run(Named { context, principal, session, message }).await
    }
}

impl<N: Next<Named<List>>> Stage<InSession<List>, N> for Names {
    type Reply = N::Reply;

    async fn handle(&self, request: InSession<List>, next: &N) -> Result<N::Reply, Failure> {
        // The prepared lists carry exposed names already.
        let InSession { context, principal, session, message } = request;
        next.run(Named { context, principal, session, message }).await
    }
}

impl Names {
    /// A task is addressed by its id, and stands for the tool that made it.
    fn task(&self, context: &Context, principal: &Principal, call: Box<Call>) -> Result<Box<Addressed>, Failure> {
        if context.era == Era::Modern && !tasks::declared(context.caller.capabilities.as_ref()) {
            return Err(tasks::undeclared());
        }
        let id = TaskId::opened(&self.runtime.seal, principal, &call.name).ok_or_else(tasks::unknown)?;
        let Some(entry) = context.generation.named(Kind::Tool, &id.tool).cloned() else { return Err(tasks::unknown()) };
        // Each era has tasks of its own.
        if entry.target_name() != id.target || entry.era() != context.era || !context.scope.admits(&entry) {
            return Err(tasks::unknown());
        }
        let source = Bytes::from(id.inner);
        let timeout = (call.method == Method::TaskResult).then_some(LONGEST_TASK_WAIT);
        let rename = Some(("taskId", source.clone()));
        Ok(Box::new(Addressed { slot: entry.slot().cloned(), source, rename, entry: Some(entry), call, timeout }))
    }

    /// The tool that the name of a call is another spelling of, among those that the caller sees.
    pub fn spelled(&self, context: &Context, session: Option<&Session>, call: &Call) -> Result<Arc<Entry>, Failure> {
        if call.kind != Kind::Tool {
            return Err(Failure::not_found(call.kind.word(), &call.name));
        }
        let generation = &context.generation;
        // Whether the only one there is may be used is asked by who comes next.
        if let [only] = generation.spelled(&call.name) {
            return if context.scope.admits(only) { Ok(only.clone()) } else { Err(not_one(&call.name, &[])) };
        }
        let policy = self.runtime.policy.load();
        let viewer = crate::authorize::viewer(&policy, context, session);
        let sees = |entry: &Entry| context.scope.admits(entry) && policy.may_see(generation, &viewer, entry, &self.runtime.metrics);
        spelled(generation, &call.name, sees).map_err(|seen| not_one(&call.name, &seen))
    }

    fn address(&self, context: &Context, session: Option<&Session>, mut call: Box<Call>) -> Result<Box<Addressed>, Failure> {
        let generation = &context.generation;
        Ok(Box::new(match call.kind {
            Kind::Tool | Kind::Prompt => {
                let entry = match generation.named(call.kind, &call.name) {
                    Some(entry) if context.scope.admits(entry) => entry.clone(),
                    _ => self.spelled(context, session, &call)?,
                };
                addressed(entry, call)
            }
            Kind::Resource | Kind::Template => {
                let (slot, source) = resource(generation, context, &call.name).ok_or_else(|| Failure::not_found(call.kind.word(), &call.name))?;
                let source = Bytes::from(source);
                let rename = if call.method == Method::Complete {
                    call.params = with_reference(&call, "uri", &source);
                    None
                } else {
                    (call.name.as_bytes() != source.as_ref()).then(|| ("uri", source.clone()))
                };
                Addressed { slot: Some(slot), source, rename, entry: None, call, timeout: None }
            }
        }))
    }
}

/// A call together with the tool or prompt that it addresses.
pub fn addressed(entry: Arc<Entry>, mut call: Box<Call>) -> Addressed {
    let rename = (call.name.as_bytes() != entry.source().as_ref()).then(|| entry.source().clone());
    let rename = match (rename, call.method) {
        (Some(source), Method::Complete) => {
            call.params = with_reference(&call, "name", &source);
            None
        }
        (rename, _) => rename.map(|source| ("name", source)),
    };
    Addressed { slot: entry.slot().cloned(), source: entry.source().clone(), rename, entry: Some(entry), call, timeout: None }
}

/// Which target a resource URI belongs to: ours say so, a target's own must be listed by exactly one target, or fit the
/// only target that has resources at all (templates list no URIs).
fn resource(generation: &Generation, context: &Context, name: &str) -> Option<(Arc<Slot>, String)> {
    let in_scope = |target: &str| context.scope.server.as_deref().is_none_or(|server| server == target);
    if let Some((target, source)) = generation.resolve_uri(name) {
        let view = generation.view(&target).filter(|_| in_scope(&target))?;
        let has = view.offer.as_ref().is_some_and(|offer| offer.offer.capabilities.resources);
        return has.then(|| (view.slot.clone(), source));
    }
    match generation.with_source_uri(name) {
        [] => {}
        [only] => return only.slot().filter(|slot| in_scope(&slot.name)).map(|slot| (slot.clone(), name.to_owned())),
        _ => return None,
    }
    if let Some(slot) = only_template(generation, name, in_scope) {
        return Some((slot, name.to_owned()));
    }
    let mut with_resources = generation
        .views()
        .iter()
        .filter(|view| in_scope(&view.slot.name) && view.offer.as_ref().is_some_and(|offer| offer.offer.capabilities.resources));
    match (with_resources.next(), with_resources.next()) {
        (Some(only), None) => Some((only.slot.clone(), name.to_owned())),
        _ => None,
    }
}

/// The only target with a template that this URI begins like.
fn only_template(generation: &Generation, uri: &str, in_scope: impl Fn(&str) -> bool) -> Option<Arc<Slot>> {
    let fits = |template: &str| template.split_once('{').is_some_and(|(literal, _)| !literal.is_empty() && uri.starts_with(literal));
    let mut slots = generation
        .listed(Kind::Template)
        .iter()
        .filter(|entry| in_scope(entry.target_name()) && fits(entry.source_name()))
        .filter_map(|entry| entry.slot());
    let first = slots.next()?;
    slots.all(|slot| Arc::ptr_eq(slot, first)).then(|| first.clone())
}

/// The answer to a name that could mean several things.
fn ambiguous(name: &str, matches: &[Arc<Entry>]) -> Failure {
    let names: Vec<&str> = matches.iter().map(|entry| entry.exposed()).collect();
    let message = format!("Ambiguous tool name: {} could mean {}; use one of these", shorten(name, 128), names.join(", "));
    Failure::rejected(Reject::AmbiguousName, message)
}

/// `completion/complete` names its object inside `ref`.
fn with_reference(call: &Call, member: &str, source: &Bytes) -> transom_protocol::message::Params {
    let params = call.params.json();
    let name = write::quoted(std::str::from_utf8(source).unwrap_or(""));
    let reference = params.get("ref").unwrap_or(Json::trusted("{}"));
    let reference = write::edited(reference, |key, _| if key.is(member) { Edit::Set(name.as_bytes()) } else { Edit::Keep }, &[]);
    transom_protocol::message::Params::trusted(write::edited(params, |key, _| if key.is("ref") { Edit::Set(&reference) } else { Edit::Keep }, &[]))
}

/// Each argument marked `x-mcp-header` must be in its header too, and say the same there. A virtual tool takes no other such
/// headers: one could speak of an argument that it hides.
pub fn check_param_headers(entry: &Entry, call: &Call) -> Result<(), Failure> {
    let Some(param_headers) = &call.param_headers else { return Ok(()) };
    let marked = entry.headers();
    let is_known =
        |header: &str| marked.iter().any(|mark| header.strip_prefix("mcp-param-").is_some_and(|name| name.eq_ignore_ascii_case(&mark.name)));
    if entry.virtual_tool().is_some()
        && let Some((header, _)) = param_headers.iter().find(|(header, _)| !is_known(header))
    {
        return Err(Failure::rejected(
            Reject::HeaderMismatch,
            format!("Header mismatch: {} belongs to no argument of this tool", shorten(header, 64)),
        ));
    }
    let arguments = call.params.get("arguments");
    for mark in marked {
        let name = format!("mcp-param-{}", mark.name.to_ascii_lowercase());
        let sent = param_headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.as_str());
        let argument = argument_text(arguments, mark);
        let mismatch = |what: &str| Err(Failure::rejected(Reject::HeaderMismatch, format!("Header mismatch: Mcp-Param-{} {what}", mark.name)));
        match (argument, sent) {
            (None, None) => {}
            (Some(_), None) => return mismatch("is missing"),
            (None, Some(_)) => return mismatch("has no argument in the body"),
            (Some(argument), Some(sent)) => {
                let sent = header::decode(sent);
                let same = match &sent {
                    Some(sent) if mark.integer => *sent == argument || same_number(sent, &argument),
                    Some(sent) => *sent == argument,
                    None => false,
                };
                if !same {
                    return mismatch("does not match the argument in the body");
                }
            }
        }
    }
    Ok(())
}

/// Whether both are numbers, and the same one, however large and however it is written.
fn same_number(one: &str, other: &str) -> bool {
    decimal(one).is_some_and(|one| decimal(other) == Some(one))
}

/// A number as its sign, its digits without zeros at either end, and how far the point is from their end.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, "0"), |(mantissa, exponent)| (mantissa, exponent));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let exponent: i64 = exponent.parse::<i32>().ok()?.into();
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let point = exponent - i64::try_from(fraction.len()).ok()? + zeros;
    let significant = significant.trim_start_matches('0');
    Some(if significant.is_empty() { (false, String::new(), 0) } else { (negative, significant.to_owned(), point) })
}

/// `Mcp-Param-*` towards the target, from the final arguments; what the client sent is not passed on.
pub fn final_headers(marked: &[ParamHeader], arguments: Option<Json<'_>>) -> Vec<(http::HeaderName, http::HeaderValue)> {
    if marked.is_empty() {
        return Vec::new();
    }
    let header = |mark: &ParamHeader| {
        let value = argument_text(arguments, mark)?;
        let name = http::HeaderName::from_bytes(format!("mcp-param-{}", mark.name).as_bytes()).ok()?;
        Some((name, http::HeaderValue::from_str(&header::encode(&value)).ok()?))
    };
    marked.iter().filter_map(header).collect()
}

fn argument_text(arguments: Option<Json<'_>>, mark: &ParamHeader) -> Option<String> {
    let value = mark.path.iter().try_fold(arguments?, |value, step| value.get(step))?;
    match value.kind() {
        transom_protocol::json::Kind::String => value.string().map(|text| text.into_owned()),
        transom_protocol::json::Kind::Number | transom_protocol::json::Kind::Bool => Some(value.raw().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::same_number;

    #[test]
    fn numbers_are_compared_as_they_are_and_not_as_floats() {
        for (one, other) in [("5", "5.0"), ("5e2", "500"), ("-0", "0.0"), ("0.05e3", "50"), ("007", "7"), ("9007199254740993", "9007199254740993.0")]
        {
            assert!(same_number(one, other) && same_number(other, one), "{one} {other}");
        }
        let different =
            [("9007199254740993", "9007199254740992"), ("5", "-5"), ("5", "50"), ("1e400", "2e400"), ("abc", "xyz"), ("abc", "abc"), ("", "")];
        for (one, other) in
            different.into_iter().chain([("5", "+5"), ("5", "5."), ("5", "0x5"), ("NaN", "NaN"), ("inf", "inf"), ("1e99999999999", "1e99999999999")])
        {
            assert!(!same_number(one, other) && !same_number(other, one), "{one} {other}");
        }
    }
}
