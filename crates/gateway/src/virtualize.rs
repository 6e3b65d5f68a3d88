//! Turns what a client asked for into what a target understands, and the answer back, as the plan of the request's generation
//! says. What passes through is not touched; a virtual tool's arguments are built and its result is shaped by the engine.
//!
//! Everything that comes back from a target is searched for the secrets that were sent there ([`masked`]).

use crate::authenticate::Principal;
use crate::authorize::Permitted;
use crate::bridge::{Answered, QuestionJudge};
use crate::discovery;
use crate::generation::{Entry, Kind as Listable, Slot};
use crate::local;
use crate::message::{Addressed, Call, Context, List, Named};
use crate::metrics::Metrics;
use crate::names::{check_param_headers, final_headers};
use crate::parked::Ticket;
use crate::reply::Failure;
use crate::request_state::{self, Binding};
use crate::runtime::Runtime;
use crate::session::Session;
use crate::stage::{Next, Stage};
use crate::tasks::{self, TaskId};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use transom_protocol::json::{Json, Key, Kind};
use transom_protocol::message::Params;
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, Method};
use transom_registry::mask::Mask;
use transom_registry::{ClientEra, Refusal, Rejected, Resume, Step};
use transom_upstream::{CallError, Outbox};

/// A call in a target's own terms.
#[derive(Clone)]
pub struct SourceCall {
    /// What is known about the request.
    pub context: Arc<Context>,
    /// The client's session, if it has one.
    pub session: Option<Arc<Session>>,
    /// The target.
    pub slot: Arc<Slot>,
    /// The method.
    pub method: Method,
    /// The method as written.
    pub method_text: Bytes,
    /// `params` as the client sent them.
    pub params: Params,
    /// A member of `params` that gets the target's own name.
    pub rename: Option<(&'static str, Bytes)>,
    /// `arguments` as the registry makes them; they may hold secrets.
    pub arguments: Option<Bytes>,
    /// The target's own name for what is addressed.
    pub source: Bytes,
    /// `Mcp-Param-*` headers, written anew from the arguments.
    pub param_headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// How long it may take.
    pub timeout: Duration,
    /// Which era the target speaks, or spoke last.
    pub target_era: Era,
    /// The road back while it runs.
    pub outbox: Arc<Outbox>,
    /// The call that this is the answer to a question of.
    pub ticket: Option<Ticket>,
}

/// The stage.
#[derive(Clone)]
pub struct Virtualize {
    runtime: Arc<Runtime>,
}

impl Virtualize {
    /// With the key that seals what travels through clients, and what the gateway's own tools tell of.
    pub fn new(runtime: Arc<Runtime>) -> Virtualize {
        Virtualize { runtime }
    }

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }
}

/// What there is to give to the client.
enum Outcome {
    /// A result, to be given its shape.
    Result(Bytes),
    /// A question or a task, to be passed on as it is.
    Passing(Bytes),
}

impl<N: Next<Box<SourceCall>, Reply = Answered>> Stage<Permitted<Box<Addressed>>, N> for Virtualize {
    type Reply = Bytes;

    async fn handle(&self, permitted: Permitted<Box<Addressed>>, next: &N) -> Result<Bytes, Failure> {
        let named = permitted.into_inner();
        // Only now: to those who may not call it, a tool has no headers either.
        if let Some(entry) =
            named.message.entry.as_ref().filter(|_| named.context.era == Era::Modern && named.message.call.method == Method::CallTool)
        {
            check_param_headers(entry, &named.message.call)?;
        }
        check_available(named.message.slot.as_ref(), named.message.entry.as_deref())?;
        if tasks::is_about_task(named.message.call.method) {
            return self.task(named, next).await;
        }
        if named.message.call.method == Method::CallTool && named.message.entry.as_ref().is_some_and(|entry| entry.virtual_tool().is_some()) {
            self.call_virtual(named, next).await
        } else {
            self.pass(named, next).await
        }
    }
}

impl Virtualize {
    /// A call of a virtual tool: arguments in, a step out, and what comes back shaped.
    async fn call_virtual<N: Next<Box<SourceCall>, Reply = Answered>>(&self, mut named: Named<Box<Addressed>>, next: &N) -> Result<Bytes, Failure> {
        let generation = named.context.generation.clone();
        let era = named.context.era;
        let client = if era == Era::Modern { ClientEra::Modern } else { ClientEra::Legacy };
        let Some((tools, entry)) = generation.tools().zip(named.message.entry.clone()) else { return Err(Failure::Internal) };
        let step = tools.call(entry.exposed(), named.message.call.params.get("arguments"));
        match step {
            Ok(Step::Call(source)) => {
                let text = std::str::from_utf8(&source.arguments).unwrap_or("{}");
                let param_headers = final_headers(source.headers(), Some(Json::trusted(text)));
                let resume = source.resume;
                if let Some(params) = without_bare_names(&named.message.call.params) {
                    named.message.call.params = params;
                }
                let prepared = Prepared { arguments: Some(source.arguments.into()), param_headers };
                match self.send(named, prepared, next).await.map_err(|failure| told(&resume, failure))? {
                    Outcome::Passing(question) => Ok(question),
                    Outcome::Result(result) => Ok(self.shaped(&entry, &resume, result, client)),
                }
            }
            Ok(Step::Local(call)) => {
                let result = local::answer(&self.runtime, &named, &call).await?;
                Ok(self.shaped(&entry, &call.resume, result, client))
            }
            Ok(Step::Done(result)) => Ok(result.into()),
            Err(Refusal::UnknownTool) => Err(Failure::not_found("Tool", &named.message.call.name)),
            Err(Refusal::Unavailable { target, message }) => Err(Failure::Absent { server: target.to_string(), message, retry_after: None }),
            Err(Refusal::Arguments { result, violations, reason }) => Err(Failure::Arguments { result: result.into(), violations, reason }),
        }
    }

    fn shaped(&self, entry: &Entry, resume: &Resume, result: Bytes, client: ClientEra) -> Bytes {
        let Ok(text) = std::str::from_utf8(&result) else { return result };
        let reply = resume.resume(Json::trusted(text), client);
        self.metrics().projection(entry.series(), reply.outcome);
        if reply.masked {
            self.reflected(entry.target_name());
        }
        match reply.json {
            Cow::Borrowed(same) => result.slice_ref(same.as_bytes()),
            Cow::Owned(shaped) => shaped.into(),
        }
    }

    /// Everything that is not a virtual tool: the target's own bytes, there and back.
    async fn pass<N: Next<Box<SourceCall>, Reply = Answered>>(&self, named: Named<Box<Addressed>>, next: &N) -> Result<Bytes, Failure> {
        let Addressed { call, entry, slot, source, .. } = &*named.message;
        // What stands on no target and is no virtual tool is our own.
        let Some(slot) = slot.clone() else { return Box::pin(discovery::answer(&self.runtime, &named)).await };
        let mut prepared = Prepared::default();
        let method = call.method;
        match method {
            Method::CallTool => {
                let arguments = call.params.get("arguments");
                if arguments.is_some_and(|arguments| !matches!(arguments.kind(), Kind::Object | Kind::Null)) {
                    return Err(Failure::arguments(Rejected::NotAnObject, "arguments must be an object"));
                }
                if let Some(entry) = entry {
                    prepared.param_headers = final_headers(entry.headers(), arguments);
                }
                validated(&named.context, entry.as_deref(), &slot.name, source, arguments)?;
            }
            Method::Complete if !completes(&named.context, &slot) => {
                return Ok(Bytes::from_static(br#"{"completion":{"values":[],"total":0,"hasMore":false}}"#));
            }
            _ => {}
        }
        let mask = named.context.generation.mask(&slot.name).cloned();
        let reading = (method == Method::ReadResource).then(|| named.context.generation.clone());
        let result = match self.send(named, prepared, next).await? {
            Outcome::Passing(question) => return Ok(question),
            Outcome::Result(result) => result,
        };
        let result = self.masked(mask.as_deref(), &slot.name, result);
        Ok(match reading {
            Some(generation) => crate::resources::exposed_contents(&generation, &slot.name, &result),
            None => result,
        })
    }

    /// Sends a call to its target. A question that comes back instead of a result is sealed, so that only this principal can
    /// answer it, and only for this tool.
    async fn send<N: Next<Box<SourceCall>, Reply = Answered>>(
        &self,
        named: Named<Box<Addressed>>,
        prepared: Prepared,
        next: &N,
    ) -> Result<Outcome, Failure> {
        let Named { context, principal, session, message } = named;
        let Addressed { call, entry, slot, source, rename, timeout } = *message;
        let Some(slot) = slot else { return Err(Failure::Internal) };
        let target_era = entry.as_ref().map_or_else(|| spoken(&context, &slot), |entry| entry.era());
        let mask = context.generation.mask(&slot.name).cloned();
        let target = slot.name.clone();
        let Call { method, method_text, params, .. } = *call;
        let exposed = entry.as_ref().map_or("", |entry| entry.exposed());
        let binding = Binding { principal: &principal, target: &target, method, source: &source, exposed };
        let (params, ticket) = match (context.era, target_era) {
            (Era::Modern, _) => request_state::opened(&self.runtime.seal, &binding, params)?,
            (Era::Legacy, Era::Modern) if request_state::smuggled(&params) => {
                return Err(Failure::InvalidParams("`requestState` and `inputResponses` do not exist in the client's revision".into()));
            }
            (Era::Legacy, _) => (params, None),
        };
        let timeout = timeout.unwrap_or(slot.timeout);
        let can = context.generation.capabilities;
        let makes_tasks = match (context.era, target_era) {
            (Era::Modern, Era::Modern) => can.modern_tasks && tasks::declared(context.caller.capabilities.as_ref()),
            (Era::Legacy, Era::Legacy) => can.legacy_tasks && params.json().get("task").is_some_and(|task| task.kind() == Kind::Object),
            _ => false,
        };
        let book = makes_tasks.then(|| session.clone()).flatten();
        // A modern target might make one that nobody asked for; a legacy one cannot.
        let may_make_task = method == Method::CallTool && (makes_tasks || target_era == Era::Modern);
        let source_call = Box::new(SourceCall {
            outbox: context.outbox.clone(),
            context,
            session,
            slot,
            method,
            method_text,
            params,
            rename,
            arguments: prepared.arguments,
            source: source.clone(),
            param_headers: prepared.param_headers,
            timeout,
            target_era,
            ticket,
        });
        // Boxed: the way to a target is the largest part of a call's future, and five rooms above would carry it along.
        match Box::pin(next.run(source_call)).await {
            Ok(Answered::Result(result)) => {
                let Some(task) = may_make_task.then(|| tasks::created(&result, target_era)).flatten() else {
                    return Ok(Outcome::Result(result));
                };
                match (makes_tasks, &entry, target_era) {
                    (true, Some(entry), _) => {
                        let made = Made { result: &result, task, era: target_era, entry, principal: &principal, session: book.as_deref() };
                        self.task_made(&made).map(|made| Outcome::Passing(self.masked(mask.as_deref(), &target, made)))
                    }
                    // A result of the legacy era may have a member of that name.
                    (false, _, Era::Legacy) => Ok(Outcome::Result(result)),
                    _ => {
                        let error = CallError::Invalid("it answers with a task to a client that did not say it knows tasks".into());
                        Err(Failure::Upstream { server: target.to_string(), error })
                    }
                }
            }
            Ok(Answered::Question(question)) => {
                // Sealed first: what a target wants to have back, it gets back as it was.
                let question = request_state::sealed(&self.runtime.seal, &binding, question);
                Ok(Outcome::Passing(self.masked(mask.as_deref(), &target, question)))
            }
            Ok(Answered::Parked(question, ticket)) => {
                let question = self.masked(mask.as_deref(), &target, question);
                request_state::ticketed(&self.runtime.seal, &binding, &question, ticket).map(Outcome::Passing).ok_or(Failure::Internal)
            }
            Err(Failure::Refused { server, error }) => Err(Failure::Refused { error: self.masked(mask.as_deref(), &target, error), server }),
            Err(failure) => Err(failure),
        }
    }

    /// A task that was made instead of a result, under an id of ours.
    fn task_made(&self, made: &Made<'_>) -> Result<Bytes, Failure> {
        let Made { result, task, era, entry, principal, session } = *made;
        let server = || entry.target_name().to_owned();
        let invalid = |why: &str| Failure::Upstream { server: server(), error: CallError::Invalid(why.into()) };
        let inner = tasks::inner_id(task).ok_or_else(|| invalid("it answers with a task that has no id"))?;
        let known = TaskId { target: server(), tool: entry.exposed().to_owned(), inner };
        let id = known.sealed(&self.runtime.seal, principal).ok_or(Failure::Internal)?;
        let is_virtual = entry.virtual_tool().is_some();
        let task = tasks::renamed(task, &id, is_virtual, &[]);
        if let Some(session) = session {
            self.runtime.tasks.note(&known, session.key, id.clone());
            session.note_task(id);
        }
        Ok(match era {
            Era::Modern => task.into(),
            Era::Legacy if is_virtual => [&b"{\"task\":"[..], &task, b"}"].concat().into(),
            Era::Legacy => write::edited(view(result), |key, _| if key.is("task") { Edit::Set(&task) } else { Edit::Keep }, &[]).into(),
        })
    }

    /// A request about a task: the target's answer under our id, and a result in it as the tool that made it gives results.
    async fn task<N: Next<Box<SourceCall>, Reply = Answered>>(&self, named: Named<Box<Addressed>>, next: &N) -> Result<Bytes, Failure> {
        let context = named.context.clone();
        let (method, id) = (named.message.call.method, named.message.call.name.clone());
        let (Some(entry), Some(slot)) = (named.message.entry.clone(), named.message.slot.clone()) else { return Err(Failure::Internal) };
        let resume = match entry.virtual_tool() {
            Some(_) => Some(context.generation.tools().and_then(|tools| tools.resume_of(entry.exposed())).ok_or_else(tasks::unknown)?),
            None => None,
        };
        let judge = QuestionJudge::new(&context, named.session.as_ref(), &slot);
        if method == Method::UpdateTask && !judge.allowed() {
            return Err(Failure::InvalidParams("nothing was asked that could be answered".into()));
        }
        let client = if context.era == Era::Modern { ClientEra::Modern } else { ClientEra::Legacy };
        let shaped = |result: Bytes| match &resume {
            Some(resume) => self.shaped(&entry, resume, result, client),
            None => result,
        };
        let sent = self.send(named, Prepared::default(), next).await;
        let sent = sent.map_err(|failure| match &resume {
            Some(resume) => told(resume, failure),
            None => failure,
        });
        let Outcome::Result(answer) = sent? else { return Err(Failure::Internal) };
        let answer = match method {
            Method::TaskResult => {
                let result = shaped(answer);
                tasks::made_related(view(&result), &id)
            }
            _ => {
                judge.check(&answer)?;
                let task = view(&answer);
                let result = task.get("result").map(|result| shaped(answer.slice_ref(result.raw().as_bytes())));
                let error = task.get("error").and_then(|error| resume.as_ref()?.refused(error));
                let told: Vec<(&str, &[u8])> =
                    [result.as_deref().map(|result| ("result", result)), error.as_deref().map(|error| ("error", error.as_bytes()))]
                        .into_iter()
                        .flatten()
                        .collect();
                tasks::renamed(task, &id, entry.virtual_tool().is_some(), &told)
            }
        };
        let mask = context.generation.mask(&slot.name).cloned();
        Ok(self.masked(mask.as_deref(), &slot.name, answer.into()))
    }

    /// JSON from a target without the secrets that were sent there.
    fn masked(&self, mask: Option<&Mask>, target: &str, json: Bytes) -> Bytes {
        match masked(mask, &json) {
            Some(masked) => {
                self.reflected(target);
                masked
            }
            None => json,
        }
    }

    fn reflected(&self, target: &str) {
        self.metrics().secret_reflected(target);
        tracing::warn!(event = "secret_reflected", target, "a target sent back a secret that it was given; it was masked");
    }
}

/// JSON from a target without the secrets that were sent there; `None` if there are none in it.
pub fn masked(mask: Option<&Mask>, json: &Bytes) -> Option<Bytes> {
    mask?.json(std::str::from_utf8(json).ok()?).map(Bytes::from)
}

/// Names in `_meta` that belong to nobody in particular and mean the same to everybody.
const COMMON: [&str; 4] = ["progressToken", "traceparent", "tracestate", "baggage"];

/// Params whose `_meta` has no names but common ones and those that say whose they are (`example.com/name`), if these have others. A source may take
/// any other name for that of an argument (A11).
fn without_bare_names(params: &Params) -> Option<Params> {
    let said = params.get("_meta").filter(|said| said.kind() == Kind::Object)?;
    let is_bare = |key: Key<'_>| !key.raw().contains('/') && !COMMON.iter().any(|common| key.is(common));
    if !said.members().any(|(key, _)| is_bare(key)) {
        return None;
    }
    let said = write::edited(said, |key, _| if is_bare(key) { Edit::Drop } else { Edit::Keep }, &[]);
    Some(Params::trusted(write::edited(params.json(), |key, _| if key.is("_meta") { Edit::Set(&said) } else { Edit::Keep }, &[])))
}

/// JSON that was checked.
fn view(json: &Bytes) -> Json<'_> {
    Json::trusted(std::str::from_utf8(json).unwrap_or("{}"))
}

/// A target's own error, as far as the tool lets the caller know.
fn told(resume: &Resume, failure: Failure) -> Failure {
    match failure {
        Failure::Refused { server, error } => {
            let told = resume.refused(view(&error)).map(Bytes::from);
            Failure::Refused { server, error: told.unwrap_or(error) }
        }
        failure => failure,
    }
}

/// A task that a target made.
struct Made<'m> {
    /// The result that says so.
    result: &'m Bytes,
    task: Json<'m>,
    era: Era,
    entry: &'m Entry,
    principal: &'m Principal,
    session: Option<&'m Session>,
}

/// What the plan adds to a call.
#[derive(Default)]
struct Prepared {
    arguments: Option<Bytes>,
    param_headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

/// Whether it makes sense to ask the target at all. Judged here, after authorization: that a tool is unavailable is told only to
/// those who may see it.
pub fn check_available(slot: Option<&Arc<Slot>>, entry: Option<&Entry>) -> Result<(), Failure> {
    let Some(slot) = slot else { return Ok(()) };
    if entry.is_some_and(Entry::available) {
        return Ok(());
    }
    let state = slot.handle.state();
    if let Some(message) = entry.and_then(Entry::absent) {
        return Err(Failure::Absent { server: slot.name.to_string(), message: message.to_owned(), retry_after: state.retry_after() });
    }
    if state.offer.is_some() {
        return Ok(());
    }
    let reason = state.last_error.clone().unwrap_or_else(|| "not connected".to_owned());
    Err(Failure::Upstream { server: slot.name.to_string(), error: CallError::Unavailable { reason, retry_after: state.retry_after() } })
}

/// Arguments of tools that pass through, where they are judged here at all: with `validation: all`, and those of scripts, which read statuses and not
/// results.
fn validated(context: &Context, entry: Option<&Entry>, target: &str, source: &Bytes, arguments: Option<Json<'_>>) -> Result<(), Failure> {
    let generation = &context.generation;
    let tools = generation.tools().filter(|_| generation.registry().loaded().is_some_and(|loaded| loaded.plan.validates_all()));
    let judged = match (tools, entry) {
        (Some(tools), _) => tools.call_source(target, std::str::from_utf8(source).unwrap_or(""), arguments).map(drop),
        (None, Some(entry)) if context.from_script => entry.judge(arguments),
        _ => Ok(()),
    };
    match judged {
        Err(refusal @ Refusal::Arguments { .. }) => Err(refusal.into()),
        _ => Ok(()),
    }
}

/// Whether a target can complete arguments; one that cannot is not asked.
fn completes(context: &Context, slot: &Slot) -> bool {
    context.generation.view(&slot.name).and_then(|view| view.offer.as_ref()).is_some_and(|offer| offer.offer.capabilities.completions)
}

/// Which era the target of something that is not listed speaks.
fn spoken(context: &Context, slot: &Slot) -> Era {
    context.generation.view(&slot.name).and_then(|view| view.offer.as_ref()).map_or(Era::Modern, |offer| offer.offer.era)
}

impl<N: Send + Sync + 'static> Stage<Permitted<List>, N> for Virtualize {
    type Reply = Listed;

    async fn handle(&self, permitted: Permitted<List>, _: &N) -> Result<Listed, Failure> {
        let named = permitted.into_inner();
        let (context, list) = (&named.context, &named.message);
        let policy = self.runtime.policy.load();
        let viewer = crate::authorize::viewer(&policy, context, named.session.as_deref());
        let sight = policy.sight(&context.generation, &viewer, self.metrics());
        let body = match list.kind {
            kind if list.scope.is_all() => sight.body(kind),
            Listable::Tool => crate::generation::body(list.kind, sight.shown(list.scope.server.as_deref()).filter(|entry| list.scope.admits(entry))),
            kind => crate::generation::body(kind, sight.listed(kind).filter(|entry| list.scope.admits(entry))),
        };
        let degraded = context.generation.unavailable().filter(|target| sight.sees_target(target)).map(str::to_owned).collect();
        Ok(Listed { body, era: context.era, degraded, public: sight.is_everybodys() })
    }
}

/// A list on its way back to the client.
pub struct Listed {
    /// `"tools":[…]`.
    pub body: Bytes,
    /// Which era reads it.
    pub era: Era,
    /// Targets that are missing from it.
    pub degraded: Vec<String>,
    /// Whether everybody is shown the same.
    pub public: bool,
}
