//! Questions of servers (elicitation, sampling, roots) where the client and the target ask and answer in different ways.
//!
//! | | legacy target: a request during the call | modern target: a result that asks for input |
//! |---|---|---|
//! | legacy client | passes, see [`crate::listener::running`] | becomes requests on the call's stream; their answers are sent to the target with the call, again |
//! | modern client | becomes a result that asks; the call waits ([`crate::parked`]) and is taken up by the client's next request | passes |
//!
//! Nothing is put to a client that did not declare it, nor for a target that may not ask (`allowServerRequests`).

use crate::abilities::Abilities;
use crate::generation::Slot;
use crate::message::Context;
use crate::parked::{Lost, Question, Waiting};
use crate::reply::Failure;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::stage::{Next, Stage};
use crate::virtualize::{SourceCall, masked};
use bytes::Bytes;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use transom_protocol::json::{Json, Key, Kind, Limits, Tree, check};
use transom_protocol::message::Params;
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, Method, RpcError, error, result_type};
use transom_registry::pin::Pin;
use transom_upstream::{CallError, FromTarget, Outbox};

/// How often a modern target may ask within one call of a legacy client.
const ROUNDS: usize = 8;
/// Questions at a time.
const QUESTIONS: usize = 16;
/// How long a legacy client may take to answer.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How a call to a target ended well.
pub enum Answered {
    /// With a result.
    Result(Bytes),
    /// With a question of a modern target, its own state in it.
    Question(Bytes),
    /// With a question of a legacy target, whose call waits under this ticket.
    Parked(Bytes, crate::parked::Ticket),
}

/// The stage.
#[derive(Clone)]
pub struct Bridge {
    runtime: Arc<Runtime>,
}

impl Bridge {
    /// With the calls that wait.
    pub fn new(runtime: Arc<Runtime>) -> Bridge {
        Bridge { runtime }
    }
}

impl<N: Next<Box<SourceCall>, Reply = Bytes> + Clone> Stage<Box<SourceCall>, N> for Bridge {
    type Reply = Answered;

    async fn handle(&self, source: Box<SourceCall>, next: &N) -> Result<Answered, Failure> {
        match (source.context.era, source.target_era) {
            // Boxed from here on: rare, and large enough to make every call's future so.
            (Era::Modern, _) if source.ticket.is_some() => Box::pin(self.take_up(source)).await,
            (Era::Modern, Era::Legacy) if may_ask(&source) && can_wait(source.method) && abilities(&source).any() => {
                Box::pin(self.converse(source, next)).await
            }
            (_, Era::Legacy) => next.run(source).await.map(|result| Answered::Result(untyped(result))),
            (Era::Modern, Era::Modern) => {
                let asked = QuestionJudge::of(&source);
                let result = next.run(source).await?;
                if !asks_for_input(&result) {
                    return Ok(Answered::Result(result));
                }
                asked.check(&result)?;
                Ok(Answered::Question(result))
            }
            (Era::Legacy, Era::Modern) => {
                let asked = QuestionJudge::of(&source);
                let again = asked.allowed.then(|| source.clone());
                let result = next.run(source).await?;
                match again {
                    _ if !asks_for_input(&result) => Ok(Answered::Result(result)),
                    Some(again) => Box::pin(ask_and_repeat(*again, asked, result, next)).await.map(Answered::Result),
                    None => Err(asked.refused("it asks for input in a way that the client's revision does not have")),
                }
            }
        }
    }
}

/// Whether a target may ask at all.
fn may_ask(source: &SourceCall) -> bool {
    source.slot.handle.spec().allow_server_requests
}

/// Which requests may be answered with a question.
fn can_wait(method: Method) -> bool {
    matches!(method, Method::CallTool | Method::GetPrompt | Method::ReadResource)
}

/// What the client of a call can do for servers.
fn abilities(source: &SourceCall) -> Abilities {
    match &source.session {
        Some(session) => session.abilities(),
        None => {
            let declared = source.context.caller.capabilities.as_ref().and_then(|declared| std::str::from_utf8(declared).ok());
            Abilities::read(declared.map(Json::trusted))
        }
    }
}

/// A result of a legacy target without a type. Its revision has none, and what calls itself a question would be taken for one.
fn untyped(result: Bytes) -> Bytes {
    if result_type(&result).is_none() {
        return result;
    }
    write::edited(view(&result), |key, _| if key.is("resultType") { Edit::Drop } else { Edit::Keep }, &[]).into()
}

/// Whether a result is a question.
fn asks_for_input(result: &Bytes) -> bool {
    result_type(result) == Some("\"input_required\"")
}

fn view(json: &Bytes) -> Json<'_> {
    Json::trusted(std::str::from_utf8(json).unwrap_or("{}"))
}

/// What it takes to judge a modern target's questions.
pub struct QuestionJudge {
    server: Arc<str>,
    allowed: bool,
    client: Client,
}

/// Of whom the abilities are read when there is a question, not before.
enum Client {
    Session(Option<Arc<Session>>),
    Declared(Option<Bytes>),
}

impl QuestionJudge {
    fn of(source: &SourceCall) -> QuestionJudge {
        QuestionJudge::new(&source.context, source.session.as_ref(), &source.slot)
    }

    /// For a request of this client to this target.
    pub fn new(context: &Context, session: Option<&Arc<Session>>, slot: &Slot) -> QuestionJudge {
        let client = match context.era {
            Era::Legacy => Client::Session(session.cloned()),
            Era::Modern => Client::Declared(context.caller.capabilities.clone()),
        };
        QuestionJudge { server: slot.name.clone(), allowed: slot.handle.spec().allow_server_requests, client }
    }

    /// Whether the target may ask at all.
    pub fn allowed(&self) -> bool {
        self.allowed
    }

    fn refused(&self, why: impl Into<String>) -> Failure {
        Failure::Upstream { server: self.server.to_string(), error: CallError::Invalid(why.into()) }
    }

    fn abilities(&self) -> Abilities {
        match &self.client {
            Client::Session(session) => session.as_ref().map(|session| session.abilities()).unwrap_or_default(),
            Client::Declared(declared) => Abilities::read(declared.as_ref().map(view)),
        }
    }

    /// The questions of a result, if all of them may be put to the client. There may be none: then the target only wants to be
    /// called again.
    pub fn check<'r>(&self, result: &'r Bytes) -> Result<Vec<(String, String, Json<'r>)>, Failure> {
        // Rare, and what is judged here must be what the client reads.
        if check(result, &Limits { duplicate_keys: false, ..Limits::REPLY }).is_err() {
            return Err(self.refused("it asks for input in a form that can be read in two ways"));
        }
        let requests = view(result).get("inputRequests").unwrap_or(Json::trusted("{}"));
        if requests.kind() != Kind::Object {
            return Err(self.refused("it asks for input in a form that cannot be read"));
        }
        let mut questions = Vec::new();
        for (key, request) in requests.members() {
            if !self.allowed {
                return Err(self.refused("it asks for input, and `allowServerRequests` is not set for it"));
            }
            if questions.len() >= QUESTIONS {
                return Err(self.refused(format!("it asks more than {QUESTIONS} questions at once")));
            }
            let method = request.get("method").and_then(Json::string).unwrap_or_default().into_owned();
            let params = request.get("params").filter(|params| params.kind() == Kind::Object).unwrap_or(Json::trusted("{}"));
            let judged = self.abilities().judge(&method, params);
            judged.map_err(|refusal| self.refused(format!("it asks for input: {}", refusal.message)))?;
            questions.push((key.text().into_owned(), method, params));
        }
        Ok(questions)
    }
}

/// Puts a modern target's questions to a legacy client and calls the target again with the answers, until it has a result.
async fn ask_and_repeat<N: Next<Box<SourceCall>, Reply = Bytes>>(
    call: SourceCall,
    asked: QuestionJudge,
    mut result: Bytes,
    next: &N,
) -> Result<Bytes, Failure> {
    for _ in 0..ROUNDS {
        let answers = answers(&call, &asked, &result).await?;
        let state = view(&result).get("requestState").map(|state| state.raw().as_bytes().to_vec());
        let mut added: Vec<(&str, &[u8])> = Vec::new();
        if let Some(answers) = &answers {
            added.push(("inputResponses", answers));
        }
        if let Some(state) = &state {
            added.push(("requestState", state));
        }
        let mut again = call.clone();
        again.params = Params::trusted(write::edited(call.params.json(), |_, _| Edit::Keep, &added));
        result = Box::pin(next.run(Box::new(again))).await?;
        if !asks_for_input(&result) {
            return Ok(result);
        }
    }
    Err(asked.refused(format!("it asked for input more than {ROUNDS} times")))
}

/// The client's answers as `inputResponses`; `None` if nothing was asked.
async fn answers(call: &SourceCall, asked: &QuestionJudge, result: &Bytes) -> Result<Option<Vec<u8>>, Failure> {
    let questions = asked.check(result)?;
    if questions.is_empty() {
        return Ok(None);
    }
    let cannot = || asked.refused("it asks for input, and the client cannot be asked now");
    let mut pledges = Vec::with_capacity(questions.len());
    for (key, method, params) in questions {
        let (answer, pledge) = oneshot::channel();
        let params = for_legacy(&method, params);
        if !call.outbox.push(FromTarget::Request { method, params, answer }) {
            return Err(cannot());
        }
        pledges.push(async move { (key, pledge.await) });
    }
    let answered = tokio::time::timeout(PATIENCE, join_all(pledges)).await.map_err(|_| asked.refused("it asks for input, and nobody answered"))?;
    let mut responses = vec![b'{'];
    for (key, answer) in answered {
        let answer = answer.map_err(|_| cannot())?.map_err(|refusal| {
            let why = error::shorten(&refusal.message, 200).to_owned();
            asked.refused(format!("it asks for input, and the client refused: {why}"))
        })?;
        if responses.len() > 1 {
            responses.push(b',');
        }
        write::string(&mut responses, &key);
        responses.push(b':');
        responses.extend_from_slice(&answer);
    }
    responses.push(b'}');
    Ok(Some(responses))
}

/// A question as legacy clients read it: a page needs an id there, which the modern era no longer has.
fn for_legacy(method: &str, params: Json<'_>) -> Bytes {
    let opens_page = method == "elicitation/create" && params.get("url").is_some();
    if opens_page && params.get("elicitationId").is_none() {
        let id = format!("\"transom-{:032x}\"", rand::random::<u128>());
        return write::edited(params, |_, _| Edit::Keep, &[("elicitationId", id.as_bytes())]).into();
    }
    Bytes::copy_from_slice(params.raw().as_bytes())
}

impl Bridge {
    /// A call of a modern client at a legacy target that may ask: it has a road of its own, and may outlive the request.
    async fn converse<N: Next<Box<SourceCall>, Reply = Bytes> + Clone>(&self, source: Box<SourceCall>, next: &N) -> Result<Answered, Failure> {
        let context = source.context.clone();
        let can = abilities(&source);
        let outbox = Arc::new(Outbox::default());
        let waiting = Waiting {
            done: None,
            open: Vec::new(),
            asked: 0,
            arguments: arguments_of(&source),
            mask: context.generation.mask(&source.slot.name).cloned(),
            target: source.slot.name.clone(),
            bytes: context.bytes,
            outbox: outbox.clone(),
            call: {
                let next = next.clone();
                let source = Box::new(SourceCall { outbox, ..*source });
                Box::pin(async move { next.run(source).await })
            },
        };
        self.drive(Box::new(waiting), &context, can, None).await
    }

    /// The client's answers to a call that waits.
    async fn take_up(&self, source: Box<SourceCall>) -> Result<Answered, Failure> {
        let Some(ticket) = source.ticket else { return Err(Failure::Internal) };
        let responses = source.params.json().get("inputResponses").unwrap_or(Json::trusted("{}"));
        let sound = responses.kind() == Kind::Object && responses.members().all(|(_, answer)| answer.kind() == Kind::Object);
        if !sound {
            return Err(Failure::InvalidParams("`inputResponses` must be an object of results".into()));
        }
        let waiting = self.runtime.parked.take(ticket, arguments_of(&source)).await;
        let mut waiting = waiting.map_err(|lost| {
            Failure::InvalidParams(match lost {
                Lost::Unknown => "`requestState` was used before, or the call that it belongs to has ended; nothing was run".into(),
                Lost::OtherArguments => "the arguments are not those that the call was made with; nothing was run".into(),
            })
        })?;
        let answer_to = |question: &Question| responses.get(&question.key).map(|answer| source.params.slice(answer));
        let (answered, open): (Vec<_>, Vec<_>) = waiting.open.drain(..).partition(|question| answer_to(question).is_some());
        waiting.open = open;
        for question in answered {
            if let Some(answer) = answer_to(&question) {
                // The target may have given up on its question.
                let _ = question.answer.send(Ok(answer));
            }
        }
        let token = source.context.caller.progress_token.clone();
        self.drive(waiting, &source.context, abilities(&source), Some(token)).await
    }

    /// What a target says in a call, without the secrets that the call was sent with: they may have changed since.
    fn clean(&self, waiting: &Waiting, json: Bytes) -> Bytes {
        let Some(masked) = masked(waiting.mask.as_deref(), &json) else { return json };
        self.runtime.metrics.secret_reflected(&waiting.target);
        masked
    }

    /// How a call ended.
    fn finished(&self, waiting: &Waiting, done: Result<Bytes, Failure>) -> Result<Answered, Failure> {
        match done {
            Ok(result) => Ok(Answered::Result(untyped(self.clean(waiting, result)))),
            Err(Failure::Refused { server, error }) => Err(Failure::Refused { server, error: self.clean(waiting, error) }),
            Err(failure) => Err(failure),
        }
    }

    /// Goes on with a call until it is done or asks something. `token` is the progress token of a request that took it up, which
    /// is not the one the call began with.
    async fn drive(
        &self,
        mut waiting: Box<Waiting>,
        context: &Arc<Context>,
        can: Abilities,
        token: Option<Option<Bytes>>,
    ) -> Result<Answered, Failure> {
        let pass = |message: FromTarget, waiting: &mut Waiting| match message {
            FromTarget::Notification(message) => {
                let message = self.clean(waiting, message);
                let message = match &token {
                    None => Some(message),
                    Some(token) => under_token(message, token.as_ref()),
                };
                if let Some(message) = message {
                    context.outbox.push(FromTarget::Notification(message));
                }
            }
            FromTarget::Request { method, params, answer } => match can.judge(&method, view(&params)) {
                Ok(()) if waiting.open.len() < QUESTIONS => {
                    waiting.asked += 1;
                    let params = self.clean(waiting, params);
                    waiting.open.push(Question { key: format!("question-{}", waiting.asked), method, params, answer });
                }
                refused => {
                    let refusal = refused.err().unwrap_or_else(|| RpcError::new(error::INTERNAL, "too many questions at once"));
                    // The target may have given up on its question.
                    let _ = answer.send(Err(refusal));
                }
            },
        };
        loop {
            while let Some(message) = waiting.outbox.try_next() {
                pass(message, &mut waiting);
            }
            if let Some(done) = waiting.done.take() {
                return self.finished(&waiting, done);
            }
            waiting.open.retain(|question| !question.answer.is_closed());
            if !waiting.open.is_empty() {
                let question = input_required(&waiting.open);
                match self.runtime.parked.park(&context.principal, waiting) {
                    Ok(ticket) => return Ok(Answered::Parked(question, ticket)),
                    Err(back) => {
                        waiting = back;
                        for question in waiting.open.drain(..) {
                            let _ = question.answer.send(Err(RpcError::new(error::INTERNAL, "too many calls wait for answers of clients")));
                        }
                    }
                }
            }
            let Waiting { outbox, call, done, .. } = &mut *waiting;
            let message = tokio::select! {
                biased;
                message = outbox.next() => Some(message),
                end = call.as_mut() => {
                    *done = Some(end);
                    None
                }
            };
            if let Some(message) = message {
                pass(message, &mut waiting);
            }
        }
    }
}

/// The result that asks these questions; its state is added where it can be sealed.
fn input_required(questions: &[Question]) -> Bytes {
    let mut out = br#"{"resultType":"input_required","inputRequests":{"#.to_vec();
    for (at, question) in questions.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write::string(&mut out, &question.key);
        out.extend_from_slice(b":{\"method\":");
        write::string(&mut out, &question.method);
        out.extend_from_slice(b",\"params\":");
        // The legacy era had a progress token here, which means nothing to whoever reads this.
        let without_meta = |key: Key<'_>, _: Json<'_>| if key.is("_meta") { Edit::Drop } else { Edit::Keep };
        out.extend_from_slice(&write::edited(view(&question.params), without_meta, &[]));
        out.push(b'}');
    }
    out.extend_from_slice(b"}}");
    out.into()
}

/// A notification for a request with this progress token; `None` if it is progress and there is no token.
fn under_token(message: Bytes, token: Option<&Bytes>) -> Option<Bytes> {
    let json = view(&message);
    if json.get("method").map(Json::raw) != Some("\"notifications/progress\"") {
        return Some(message);
    }
    let (token, params) = (token?, json.get("params")?);
    let params = write::edited(params, |key, _| if key.is("progressToken") { Edit::Set(token) } else { Edit::Keep }, &[]);
    Some(write::request(None, "notifications/progress", Some(&params)).into())
}

/// What the client's arguments are, whatever the order of their members. None are the same as an empty object.
fn arguments_of(source: &SourceCall) -> Pin {
    let arguments = source.params.get("arguments").filter(|arguments| arguments.kind() != Kind::Null);
    Pin::of(&Tree::from(arguments.unwrap_or(Json::trusted("{}"))))
}
