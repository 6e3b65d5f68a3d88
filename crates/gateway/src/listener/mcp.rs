//! The MCP endpoint: from an HTTP request to a message on the path. What comes of it is written by [`super::answer`].
//!
//! Both eras meet here. A request that names its revision in `_meta` is modern; `initialize` and everything else is
//! legacy. What a message means is decided further on.

use crate::authenticate::Principal;
use crate::authorize::Circumstances;
use crate::generation::{Generation, Kind};
use crate::hub::Wants;
use crate::listener::answer::{
    Form, Reply, answered, failed, failed_in, finished, for_era, json, list_pieces, listing, not_allowed, outcome_message, status,
};
use crate::listener::claims::settled;
use crate::listener::headers::McpHeaders;
use crate::listener::running::{Road, Running, wait};
use crate::message::{Call, Context, Control, Incoming, List, Scope};
use crate::reply::{Failure, Reject};
use crate::runtime::{Admitted, Runtime};
use crate::session::{Answer, Opened, Session, negotiated};
use crate::stack::Mcp;
use crate::tasks;
use bytes::Bytes;
use futures_util::StreamExt;
use http::StatusCode;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tower::Service;
use transom_protocol::json::Json;
use transom_protocol::message::Params;
use transom_protocol::{
    Era, Fault, Id, Limits, Malformed, Message, Method, Notification, Request, Revision, RpcError, error, header as mcp_header, meta, write,
};
use transom_upstream::{Caller, Outbox};

/// How long a handshake waits to hear what the targets can do.
const HANDSHAKE: Duration = Duration::from_millis(500);
/// Tasks of a list that are asked for at once.
const TASKS_AT_ONCE: usize = 8;
/// The most messages in a batch of revision 2025-03-26.
const BATCH: usize = 20;

/// What the endpoint works with.
#[derive(Clone)]
pub struct Endpoint {
    /// Generation, sessions, streams.
    pub runtime: Arc<Runtime>,
    /// The path.
    pub mcp: Mcp,
}

/// What the head of a request says.
pub struct Head {
    /// MCP's own headers.
    pub headers: McpHeaders,
    /// Who sends it.
    pub principal: Principal,
    /// How it came, where some rule asks.
    pub circumstances: Option<Arc<Circumstances>>,
    /// Through which gateways, if through any; see [`crate::via`].
    pub via: Option<http::HeaderValue>,
}

/// A message on its way into the stack.
enum Ask {
    Call(Incoming<Box<Call>>),
    List(Incoming<List>),
    Control(Incoming<Control>),
}

impl Endpoint {
    /// Answers a `POST` whose body has been read.
    pub async fn post(&self, head: Head, scope: Scope, body: Bytes, admitted: Admitted) -> Reply {
        let headers = &head.headers;
        if !headers.json && !headers.events {
            return self.refuse(
                &Failure::rejected(Reject::Accept, "Not acceptable: Accept must admit application/json or text/event-stream"),
                Era::Legacy,
                None,
            );
        }
        match Message::read(&body, &Limits::REQUEST) {
            Ok(Message::Request(request)) => {
                let params = request.params.clone();
                let view = ParamsView::read(&params);
                let era = era_of(request.method, &view, headers);
                let form = Form { id: Some(request.id.clone()), era, method: request.method, json: headers.json, events: headers.events };
                if request.method == Method::Listen && era == Era::Modern && !headers.events {
                    return self.refuse_in(&only_events(), &form);
                }
                match self.ask(&head, scope, request, &view, era, body.len()).await {
                    Ok(ask) => self.answer(ask, form, admitted).await,
                    Err(failure) => self.refuse_in(&failure, &form),
                }
            }
            Ok(Message::Notification(notification)) => {
                if !notification.method_name().starts_with("notifications/") {
                    let failure = Failure::rejected(Reject::InvalidRequest, "Invalid request: a request needs an id; nothing was run");
                    return self.refuse(&failure, Era::Legacy, None);
                }
                if let Some(stated) = headers.version.as_deref().filter(|stated| Revision::read(stated).is_none()) {
                    return self.refuse(&Failure::unsupported_version(stated), Era::Legacy, None);
                }
                let control = notification_control(&notification);
                self.control(&head, scope, Era::Legacy, control, body.len()).await
            }
            Ok(Message::Response(response)) => {
                let modern = headers.version.as_deref().and_then(Revision::read).is_some_and(|revision| revision.era() == Era::Modern);
                if modern || headers.session.is_none() {
                    let failure = Failure::rejected(Reject::InvalidRequest, "Invalid request: a response to nothing that was asked");
                    return self.refuse(&failure, Era::Legacy, None);
                }
                self.control(&head, scope, Era::Legacy, Control::Answer(response), body.len()).await
            }
            Err(Malformed::Batch) => self.batch(&head, &scope, &body, admitted).await,
            Err(malformed) => self.refuse(&malformed_failure(&malformed), Era::Legacy, None),
        }
    }

    /// Opens the stream of a legacy session.
    pub async fn get(&self, head: Head, scope: Scope) -> Reply {
        let headers = &head.headers;
        if headers.session.is_none() || is_modern(headers) {
            return not_allowed("GET opens the stream of a session: send initialize first", "POST");
        }
        if !headers.events {
            return self.refuse(&only_events(), Era::Legacy, None);
        }
        let control = match &headers.last_event {
            Some(last) => Control::Resume(last.clone()),
            None => Control::Listen(Wants::legacy()),
        };
        self.control(&head, scope, Era::Legacy, control, 0).await
    }

    /// Ends a legacy session.
    pub async fn delete(&self, head: Head) -> Reply {
        let headers = &head.headers;
        if headers.session.is_none() || is_modern(headers) {
            return not_allowed("DELETE ends a session, and there is none", "POST");
        }
        self.control(&head, Scope::default(), Era::Legacy, Control::End, 0).await
    }

    async fn control(&self, head: &Head, scope: Scope, era: Era, control: Control, bytes: usize) -> Reply {
        let generation = self.runtime.generation_now();
        let context = Arc::new(new_context(generation, head, scope, era, Revision::UNSTATED, Caller::default(), bytes));
        let form = Form { id: None, era, method: control.method(), json: head.headers.json, events: head.headers.events };
        match self.mcp.control.clone().call(Incoming { context, message: control }).await {
            Ok(answer) => answered(answer, &form),
            Err(failure) => failed(&failure, era, None),
        }
    }

    /// Takes a message of a client whose transport is its session, and sends what it answers to `answers`.
    pub async fn converse(&self, head: Head, session: Arc<Session>, body: Bytes, admitted: Admitted, answers: mpsc::Sender<Bytes>) {
        let attached = |generation, caller| {
            let mut context = new_context(generation, &head, Scope::default(), Era::Legacy, session.revision, caller, body.len());
            context.attached = Some(session.clone());
            Arc::new(context)
        };
        let answer = match Message::read(&body, &Limits::REQUEST) {
            Ok(Message::Request(request)) => {
                let (id, method) = (request.id.clone(), request.method);
                let view = ParamsView::read(&request.params);
                let caller = Caller { via: head.via.clone(), ..view.caller(&request.params, Era::Legacy) };
                let context = attached(self.generation_for(method).await, caller);
                let params = request.params.clone();
                match into_ask(context.clone(), Scope::default(), request, &ParamsView::read(&params), &[]) {
                    Ok(Ask::Call(incoming)) => {
                        let mut running = Running::new(self.mcp.call.clone().call(incoming), &context, admitted);
                        let road = Road { context: &context, events: true };
                        let done = loop {
                            tokio::select! {
                                biased;
                                message = context.outbox.next() => {
                                    if let Some(message) = road.message(message) && answers.send(message).await.is_err() {
                                        return;
                                    }
                                }
                                done = &mut running => break done,
                            }
                        };
                        for message in road.left() {
                            if answers.send(message).await.is_err() {
                                return;
                            }
                        }
                        let form = Form { id: Some(id), era: Era::Legacy, method, json: true, events: true };
                        Some(outcome_message(done, &form))
                    }
                    Ok(ask) => Some(self.message_for(ask, &id, method).await),
                    Err(failure) => Some(write::error(Some(id.raw()), &failure.rpc())),
                }
            }
            Ok(Message::Notification(notification)) => {
                let context = attached(self.runtime.generation_now(), Caller::default());
                let _ = self.mcp.control.clone().call(Incoming { context, message: notification_control(&notification) }).await;
                None
            }
            Ok(Message::Response(response)) => {
                let context = attached(self.runtime.generation_now(), Caller::default());
                let _ = self.mcp.control.clone().call(Incoming { context, message: Control::Answer(response) }).await;
                None
            }
            Err(malformed) => Some(write::error(None, &malformed_failure(&malformed).rpc())),
        };
        if let Some(answer) = answer {
            // The client may be gone; its answer goes with it.
            let _ = answers.send(answer).await;
        }
    }

    /// The whole answer to a message that needs no stream.
    async fn message_for(&self, ask: Ask, id: &Id, method: Method) -> Bytes {
        let outcome = match ask {
            Ask::Call(incoming) => {
                // There is no stream on which the client could be asked.
                incoming.context.outbox.go_deaf();
                self.mcp.call.clone().call(incoming).await.map(|result| for_era(&settled(result, Era::Legacy, method), Era::Legacy, method))
            }
            Ask::List(incoming) => self.mcp.list.clone().call(incoming).await.map(|listed| list_pieces(listed).concat().into()),
            Ask::Control(Incoming { context, message: Control::Tasks }) => self.list_tasks(&context).await,
            Ask::Control(incoming) => self.mcp.control.clone().call(incoming).await.map(|answer| match answer {
                Answer::Result(result) | Answer::Session(result, _) => result,
                // Tasks were asked for one by one before.
                Answer::Accepted | Answer::Ended | Answer::Stream(_) | Answer::Replay(..) | Answer::Tasks(_) => Bytes::from_static(b"{}"),
            }),
        };
        match outcome {
            Ok(result) => write::result(id.raw(), &result),
            Err(failure) => write::error(Some(id.raw()), &failure.rpc()),
        }
    }

    /// Turns a request into a message for the path, or says why not.
    async fn ask(&self, head: &Head, mut scope: Scope, request: Request, view: &ParamsView<'_>, era: Era, bytes: usize) -> Result<Ask, Failure> {
        let headers = &head.headers;
        match era {
            Era::Modern => check_modern(headers, &request, view)?,
            Era::Legacy => check_legacy(headers, &request)?,
        }
        if let Some(filter) = view.meta.and_then(|meta| meta.get(meta::FILTER)) {
            narrow(
                &mut scope,
                filter,
                matches!(request.method, Method::ListTools | Method::ListPrompts | Method::ListResources | Method::ListTemplates),
            );
        }
        let mut caller = view.caller(&request.params, era);
        caller.via.clone_from(&head.via);
        let revision = match (era, request.method) {
            (Era::Modern, _) => Revision::V2026_07_28,
            (Era::Legacy, Method::Initialize) => negotiated(&request.params.string("protocolVersion").unwrap_or_default()),
            (Era::Legacy, _) => Revision::UNSTATED,
        };
        let generation = self.generation_for(request.method).await;
        let context = Arc::new(new_context(generation, head, scope.clone(), era, revision, caller, bytes));
        into_ask(context, scope, request, view, &headers.params)
    }

    /// The generation a request starts with. Only what needs to know the targets waits for the first one.
    async fn generation_for(&self, method: Method) -> Arc<Generation> {
        match method {
            Method::Ping | Method::SetLevel => self.runtime.generation_now(),
            // A handshake says what may come; it need not know what is there.
            Method::Initialize | Method::Discover => match tokio::time::timeout(HANDSHAKE, self.runtime.generation()).await {
                Ok(generation) => generation,
                Err(_) => self.runtime.generation_now(),
            },
            _ => self.runtime.generation().await,
        }
    }

    async fn answer(&self, ask: Ask, form: Form, admitted: Admitted) -> Reply {
        match ask {
            Ask::Call(incoming) => {
                let context = incoming.context.clone();
                let running = Running::new(self.mcp.call.clone().call(incoming), &context, admitted);
                wait(running, context, form).await
            }
            Ask::List(incoming) => match self.mcp.list.clone().call(incoming).await {
                Ok(listed) => listing(listed, &form),
                Err(failure) => failed_in(&failure, &form),
            },
            Ask::Control(Incoming { context, message: Control::Tasks }) => {
                let listed = self.list_tasks(&context).await;
                finished(listed, &form)
            }
            Ask::Control(incoming) => match self.mcp.control.clone().call(incoming).await {
                Ok(answer) => answered(answer, &form),
                Err(failure) => failed_in(&failure, &form),
            },
        }
    }

    /// The tasks of a session, each as its target describes it now. Those that are no more are left out, and forgotten.
    async fn list_tasks(&self, context: &Arc<Context>) -> Result<Bytes, Failure> {
        let asked = self.mcp.control.clone().call(Incoming { context: context.clone(), message: Control::Tasks }).await?;
        let Answer::Tasks(ids) = asked else { return Err(Failure::Internal) };
        let described = futures_util::stream::iter(ids).map(|id| async move {
            let call = Call {
                id: None,
                method: Method::GetTask,
                method_text: Bytes::from_static(b"tasks/get"),
                params: Params::trusted(format!("{{\"taskId\":{}}}", write::quoted(&id))),
                kind: Kind::Tool,
                name: id.clone(),
                param_headers: None,
            };
            let own = Arc::new(context.for_another());
            own.outbox.go_deaf();
            let described = self.mcp.call.clone().call(Incoming { context: own, message: Box::new(call) }).await;
            if let Err(Failure::Refused { .. }) = &described
                && let Some(session) = context.session.get()
            {
                session.forget_task(&id);
            }
            described.ok()
        });
        let tasks: Vec<Option<Bytes>> = described.buffered(TASKS_AT_ONCE).collect().await;
        let tasks: Vec<Bytes> = tasks.into_iter().flatten().collect();
        Ok([&b"{\"tasks\":["[..], &tasks.join(&b","[..]), b"]}"].concat().into())
    }

    /// Several messages at once: only sessions of revision 2025-03-26 know that.
    async fn batch(&self, head: &Head, scope: &Scope, body: &Bytes, admitted: Admitted) -> Reply {
        let refuse = |what: &str| self.refuse(&Failure::rejected(Reject::Batch, format!("Invalid request: {what}")), Era::Legacy, None);
        let session = head.headers.session.as_deref().map(|token| self.runtime.sessions.open(token, &head.principal));
        let known = matches!(&session, Some(Opened::Yes(session)) if session.revision == Revision::V2025_03_26);
        if !known {
            return refuse("batches are not accepted; send one message per request");
        }
        let text = std::str::from_utf8(body).unwrap_or("[]");
        let elements: Vec<Json<'_>> = Json::trusted(text.trim()).elements().take(BATCH + 1).collect();
        if elements.is_empty() || elements.len() > BATCH {
            return refuse("a batch has 1 to 20 messages");
        }
        let answers = elements.into_iter().map(|element| self.answer_in_batch(head, scope, body.slice_ref(element.raw().as_bytes())));
        let answers: Vec<Bytes> = futures_util::future::join_all(answers).await.into_iter().flatten().collect();
        drop(admitted);
        if answers.is_empty() {
            return status(StatusCode::ACCEPTED);
        }
        json(StatusCode::OK, [b"[", answers.join(&b","[..]).as_slice(), b"]"].concat())
    }

    /// The answer to one message of a batch, if it gets one.
    async fn answer_in_batch(&self, head: &Head, scope: &Scope, bytes: Bytes) -> Option<Bytes> {
        let control = match Message::read(&bytes, &Limits::REQUEST) {
            Ok(Message::Request(request)) => {
                let (id, method, params) = (request.id.clone(), request.method, request.params.clone());
                return Some(match self.ask(head, scope.clone(), request, &ParamsView::read(&params), Era::Legacy, bytes.len()).await {
                    Ok(ask) => self.message_for(ask, &id, method).await,
                    Err(failure) => write::error(Some(id.raw()), &failure.rpc()),
                });
            }
            Ok(Message::Notification(notification)) if notification.method_name().starts_with("notifications/") => {
                notification_control(&notification)
            }
            Ok(Message::Notification(_)) => {
                return Some(write::error(None, &RpcError::new(error::INVALID_REQUEST, "Invalid request: a request needs an id; nothing was run")));
            }
            Ok(Message::Response(response)) => Control::Answer(response),
            Err(malformed) => return Some(write::error(None, &malformed.error())),
        };
        let generation = self.runtime.generation_now();
        let context = Arc::new(new_context(generation, head, scope.clone(), Era::Legacy, Revision::UNSTATED, Caller::default(), bytes.len()));
        let answered = self.mcp.control.clone().call(Incoming { context, message: control }).await;
        answered.err().map(|failure| write::error(None, &failure.rpc()))
    }

    fn refuse(&self, failure: &Failure, era: Era, id: Option<&Id>) -> Reply {
        self.count(failure);
        failed(failure, era, id)
    }

    fn refuse_in(&self, failure: &Failure, form: &Form) -> Reply {
        self.count(failure);
        failed_in(failure, form)
    }

    fn count(&self, failure: &Failure) {
        if let Some(reason) = failure.reason() {
            self.runtime.rejected(reason);
        }
    }
}

fn new_context(generation: Arc<Generation>, head: &Head, scope: Scope, era: Era, revision: Revision, caller: Caller, bytes: usize) -> Context {
    Context {
        generation,
        started: Instant::now(),
        era,
        revision: head.headers.version.as_deref().and_then(Revision::read).unwrap_or(revision),
        principal: head.principal.clone(),
        circumstances: head.circumstances.clone(),
        scope,
        session_id: head.headers.session.clone(),
        attached: None,
        session: OnceLock::new(),
        caller,
        outbox: Arc::new(Outbox::default()),
        bytes,
        about: OnceLock::new(),
        upstream_nanos: AtomicU64::new(0),
        upstream_bytes: AtomicUsize::new(0),
        from_script: false,
    }
}

fn notification_control(notification: &Notification) -> Control {
    match (notification.method, notification.params.json().get("requestId")) {
        (Method::Cancelled, Some(id)) => {
            let source = notification.params.raw().cloned().unwrap_or_default();
            Id::read(&source, id).map_or(Control::Notification(Method::Cancelled), Control::Cancelled)
        }
        _ => Control::Notification(notification.method),
    }
}

/// Turns a request whose context is known into a message for the path.
fn into_ask(
    context: Arc<Context>,
    scope: Scope,
    request: Request,
    view: &ParamsView<'_>,
    param_headers: &[(String, String)],
) -> Result<Ask, Failure> {
    check_members(&request.params)?;
    let modern = context.era == Era::Modern;
    let can = context.generation.capabilities;
    let list = |kind| list_ask(&context, &scope, &request.params, kind);
    let control = |message| Ok(Ask::Control(Incoming { context: context.clone(), message }));
    let call = |kind, name| Ok(call_ask(&context, &request, kind, name, param_headers));
    let text = |key: &str| request.params.string(key).ok_or_else(|| Failure::InvalidParams(format!("`{key}` is missing or not a string")));
    match request.method {
        Method::CallTool => call(Kind::Tool, view.name()?),
        Method::ListTools => list(Kind::Tool),
        Method::ListPrompts => list(Kind::Prompt),
        Method::ListResources => list(Kind::Resource),
        Method::ListTemplates => list(Kind::Template),
        Method::GetPrompt => call(Kind::Prompt, view.name()?),
        Method::ReadResource => call(Kind::Resource, text("uri")?),
        Method::Complete => {
            let reference = request.params.json().get("ref").ok_or_else(|| Failure::InvalidParams("`ref` is missing".into()))?;
            let member = |key: &str| reference.get(key).and_then(Json::string).map(|text| text.into_owned());
            match member("type").as_deref() {
                Some("ref/prompt") => call(Kind::Prompt, member("name").unwrap_or_default()),
                Some("ref/resource") => call(Kind::Resource, member("uri").unwrap_or_default()),
                _ => Err(Failure::InvalidParams("`ref.type` must be ref/prompt or ref/resource".into())),
            }
        }
        Method::GetTask | Method::CancelTask | Method::UpdateTask if modern && can.modern_tasks => call(Kind::Tool, text("taskId")?),
        Method::GetTask | Method::TaskResult if !modern && can.legacy_tasks => call(Kind::Tool, text("taskId")?),
        Method::CancelTask if !modern && can.legacy_task_cancel => call(Kind::Tool, text("taskId")?),
        Method::ListTasks if !modern && can.legacy_tasks => {
            if request.params.json().get("cursor").is_some_and(|cursor| cursor.raw() != "null") {
                return Err(Failure::InvalidParams("unknown `cursor`: every list is one page".into()));
            }
            control(Control::Tasks)
        }
        Method::Discover if modern => control(Control::Discover),
        Method::Listen if modern => {
            let wants = wants(&request)?;
            let tasks = request.params.json().get("notifications").is_some_and(|asked| asked.get("taskIds").is_some());
            if tasks && can.modern_tasks && !tasks::declared(context.caller.capabilities.as_ref()) {
                return Err(tasks::undeclared());
            }
            control(Control::Listen(wants))
        }
        Method::Initialize if !modern => control(Control::Initialize { requested: text("protocolVersion")?, params: request.params.clone() }),
        Method::Ping if !modern => control(Control::Ping),
        Method::SetLevel if !modern => control(Control::SetLevel(text("level")?)),
        Method::Subscribe if !modern => control(Control::Watch { uri: text("uri")?, on: true }),
        Method::Unsubscribe if !modern => control(Control::Watch { uri: text("uri")?, on: false }),
        _ => Err(Failure::unknown_method(request.method_name())),
    }
}

/// Members of `params` that decide what is called with what.
const DECIDING: [&str; 9] = ["name", "arguments", "_meta", "uri", "ref", "task", "taskId", "requestState", "inputResponses"];

/// Refuses a member that a lenient target takes for another one: `Arguments` beside `arguments` would be what it reads, and not what was judged here
/// (CVE-2026-27896). Other members pass, known or not.
fn check_members(params: &Params) -> Result<(), Failure> {
    if !params.has_others() {
        return Ok(());
    }
    check_object(params.json(), "params", &DECIDING)?;
    // What a completion is asked of stands a level deeper.
    params.json().get("ref").map_or(Ok(()), |reference| check_object(reference, "ref", &["type", "name", "uri"]))
}

fn check_object(object: Json<'_>, called: &str, deciding: &[&str]) -> Result<(), Failure> {
    for (key, _) in object.members() {
        let key = key.text();
        if let Some(meant) = deciding.iter().find(|deciding| **deciding != key && transom_registry::reads_as(&key, deciding)) {
            let message = format!("Invalid request: a member of `{called}` can be taken for `{meant}`; nothing was run");
            return Err(Failure::rejected(Reject::InvalidRequest, message));
        }
    }
    Ok(())
}

fn list_ask(context: &Arc<Context>, scope: &Scope, params: &Params, kind: Kind) -> Result<Ask, Failure> {
    if params.json().get("cursor").is_some_and(|cursor| cursor.raw() != "null") {
        return Err(Failure::InvalidParams("unknown `cursor`: every list is one page".into()));
    }
    Ok(Ask::List(Incoming { context: context.clone(), message: List { kind, scope: scope.clone() } }))
}

fn call_ask(context: &Arc<Context>, request: &Request, kind: Kind, name: String, param_headers: &[(String, String)]) -> Ask {
    let message = Call {
        id: Some(request.id.clone()),
        method: request.method,
        method_text: request.method_text.clone(),
        params: request.params.clone(),
        kind,
        name,
        param_headers: Some(param_headers.to_vec()),
    };
    Ask::Call(Incoming { context: context.clone(), message: Box::new(message) })
}

/// The members of `params` that the edge looks at.
struct ParamsView<'p> {
    meta: Option<Json<'p>>,
    name: Option<Json<'p>>,
    uri: Option<Json<'p>>,
}

impl<'p> ParamsView<'p> {
    fn read(params: &'p Params) -> ParamsView<'p> {
        ParamsView { meta: params.get("_meta"), name: params.get("name"), uri: params.get("uri") }
    }

    fn name(&self) -> Result<String, Failure> {
        let name = self.name.and_then(Json::string).ok_or_else(|| Failure::InvalidParams("`name` is missing or not a string".into()))?;
        Ok(name.into_owned())
    }

    /// Who calls, as far as `_meta` says.
    fn caller(&self, params: &Params, era: Era) -> Caller {
        let Some(meta) = self.meta else { return Caller::default() };
        let member = |key: &str| meta.get(key).map(|value| params.slice(value));
        let modern = |key: &str| if era == Era::Modern { member(key) } else { None };
        Caller {
            session: None,
            client_info: modern(meta::CLIENT_INFO),
            capabilities: modern(meta::CLIENT_CAPABILITIES),
            progress_token: member(meta::PROGRESS_TOKEN).filter(|token| token.len() <= 1024),
            log_level: modern(meta::LOG_LEVEL),
            via: None,
        }
    }
}

/// The answer to whoever asks for a stream and would not read one.
fn only_events() -> Failure {
    Failure::rejected(Reject::Accept, "Not acceptable: Accept must admit text/event-stream")
}

/// A request that names its revision in `_meta` is modern. A handshake is legacy whatever its `_meta` says, unless its header calls it modern too:
/// then it is a method that its revision does not have.
fn era_of(method: Method, view: &ParamsView<'_>, headers: &McpHeaders) -> Era {
    let claims = |meta: Json<'_>| meta.get(meta::PROTOCOL_VERSION).is_some();
    let modern = view.meta.is_some_and(claims) && (method != Method::Initialize || is_modern(headers));
    if modern { Era::Modern } else { Era::Legacy }
}

fn is_modern(headers: &McpHeaders) -> bool {
    headers.version.as_deref().and_then(Revision::read).is_some_and(|revision| revision.era() == Era::Modern)
}

/// A modern request says the same in its headers as in its body.
fn check_modern(headers: &McpHeaders, request: &Request, view: &ParamsView<'_>) -> Result<(), Failure> {
    let mismatch = |what: String| Err(Failure::rejected(Reject::HeaderMismatch, format!("Header mismatch: {what}")));
    let meta = view.meta.unwrap_or(Json::trusted("{}"));
    let Some(version) = meta.get(meta::PROTOCOL_VERSION).and_then(Json::string) else {
        return Err(bad_envelope(meta::PROTOCOL_VERSION, "must be a string"));
    };
    match headers.version.as_deref() {
        Some(stated) if stated == version => {}
        Some(_) => return mismatch("MCP-Protocol-Version does not match the revision in _meta".into()),
        None => return mismatch("MCP-Protocol-Version is missing".into()),
    }
    if Revision::read(&version).is_none_or(|revision| revision.era() != Era::Modern) {
        return Err(Failure::unsupported_version(&version));
    }
    if meta.get(meta::CLIENT_CAPABILITIES).is_none_or(|value| !value.raw().starts_with('{')) {
        return Err(bad_envelope(meta::CLIENT_CAPABILITIES, "must be an object"));
    }
    match headers.method.as_deref() {
        Some(method) if method == request.method_name() => {}
        Some(_) => return mismatch("Mcp-Method does not match the method in the body".into()),
        None => return mismatch("Mcp-Method is missing".into()),
    }
    let named = match request.method {
        Method::CallTool | Method::GetPrompt => view.name.and_then(Json::string),
        Method::ReadResource => view.uri.and_then(Json::string),
        // The extension asks for it, but not every client knows.
        Method::GetTask | Method::UpdateTask | Method::CancelTask if headers.name.is_some() => {
            request.params.json().get("taskId").and_then(Json::string)
        }
        _ => None,
    };
    if let Some(named) = named {
        match headers.name.as_deref().map(mcp_header::decode) {
            Some(Some(sent)) if sent == named => {}
            Some(Some(_)) => return mismatch("Mcp-Name does not match the name in the body".into()),
            Some(None) => return mismatch("Mcp-Name is not a canonical encoding".into()),
            None => return mismatch("Mcp-Name is missing".into()),
        }
    }
    Ok(())
}

fn bad_envelope(key: &str, problem: &str) -> Failure {
    let error = RpcError::new(error::INVALID_PARAMS, format!("Invalid params: `_meta` member `{key}` {problem}"));
    Failure::Rejected { reason: Reject::InvalidRequest, error: Box::new(error) }
}

fn check_legacy(headers: &McpHeaders, request: &Request) -> Result<(), Failure> {
    let Some(stated) = headers.version.as_deref() else { return Ok(()) };
    match Revision::read(stated).map(Revision::era) {
        Some(Era::Legacy) => Ok(()),
        Some(Era::Modern) if request.method == Method::Initialize => {
            Err(Failure::rejected(Reject::HeaderMismatch, "Header mismatch: initialize belongs to revisions before the one in MCP-Protocol-Version"))
        }
        Some(Era::Modern) => Err(bad_envelope(meta::PROTOCOL_VERSION, "is missing")),
        None => Err(Failure::unsupported_version(stated)),
    }
}

/// Narrows a scope by a filter from `_meta`; an empty string is no filter. Only lists take it.
fn narrow(scope: &mut Scope, filter: Json<'_>, is_list: bool) {
    if !is_list {
        return;
    }
    let member = |key: &str| filter.get(key).and_then(Json::string).filter(|text| !text.is_empty()).map(|text| text.into_owned());
    if let Some(server) = member("server") {
        // A filter narrows: with another target already chosen nothing is left.
        scope.server = Some(if scope.server.as_ref().is_some_and(|chosen| *chosen != server) { String::new() } else { server });
    }
    if let Some(prefix) = member("prefix") {
        scope.prefix = Some(prefix);
    }
}

fn wants(request: &Request) -> Result<Wants, Failure> {
    const URIS: usize = 1_000;
    let params = request.params.json();
    let asked = params.get("notifications").filter(|asked| asked.raw().starts_with('{'));
    let asked = asked.ok_or_else(|| Failure::InvalidParams("`notifications` is missing or not an object".into()))?;
    let flag = |key: &str| asked.get(key).and_then(Json::bool).unwrap_or(false);
    let uris: Vec<String> = asked
        .get("resourceSubscriptions")
        .into_iter()
        .flat_map(Json::elements)
        .filter_map(Json::string)
        .take(URIS + 1)
        .map(|uri| uri.into_owned())
        .collect();
    if uris.len() > URIS {
        return Err(Failure::InvalidParams(format!("`resourceSubscriptions` has more than {URIS} entries")));
    }
    Ok(Wants {
        tools: flag("toolsListChanged"),
        prompts: flag("promptsListChanged"),
        resources: flag("resourcesListChanged"),
        uris,
        subscription: Some(request.id.detached()),
    })
}

/// Which rule a malformed body broke.
pub fn malformed_failure(malformed: &Malformed) -> Failure {
    let reason = match malformed {
        Malformed::Parse(Fault::NotUtf8 | Fault::NotJson(_)) => Reject::Parse,
        Malformed::Parse(Fault::DuplicateKey) => Reject::DuplicateKey,
        Malformed::Parse(_) => Reject::Budget,
        Malformed::Batch => Reject::Batch,
        Malformed::Invalid(_) => Reject::InvalidRequest,
    };
    Failure::Rejected { reason, error: Box::new(malformed.error()) }
}
