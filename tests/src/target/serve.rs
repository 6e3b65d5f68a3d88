//! The HTTP side of a fake server: Streamable HTTP in both eras, and the 2024-11-05 transport.

use super::{Context, Cursor, Era, Hostile, LiveStream, Recorded, Script, Shared, Transport, echo};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

const MODERN: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// Accepts until it is dropped, and takes every connection with it.
pub async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                stream.set_nodelay(true).ok();
                shared.record.lock().unwrap().connections += 1;
                let shared = shared.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let shared = shared.clone();
                        async move { Ok::<_, Infallible>(respond(shared, request).await) }
                    });
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn respond(shared: Arc<Shared>, request: Request<Incoming>) -> Response<Reply> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let recorded = Recorded {
        http_method: parts.method.to_string(),
        path: parts.uri.path_and_query().map(|path| path.to_string()).unwrap_or_default(),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect(),
        method: message["method"].as_str().unwrap_or_default().to_owned(),
        body,
    };
    shared.record.lock().unwrap().requests.push(recorded.clone());
    let legacy_sse = shared.script.lock().unwrap().transport == Transport::LegacySse;
    match (recorded.http_method.as_str(), parts.uri.path()) {
        ("POST", "/mcp") if !legacy_sse => post(shared, recorded, message).await,
        ("GET", "/mcp") if !legacy_sse => stream(&shared, &recorded),
        ("DELETE", "/mcp") if !legacy_sse => {
            let known = recorded.header("mcp-session-id").is_some_and(|session| shared.live.lock().unwrap().sessions.remove(session).is_some());
            status(if known { 200 } else { 404 })
        }
        ("GET", "/sse") if legacy_sse => open_sse(&shared),
        ("POST", "/messages") if legacy_sse => post_sse(shared, &recorded, message).await,
        _ => status(404),
    }
}

async fn post(shared: Arc<Shared>, request: Recorded, message: Value) -> Response<Reply> {
    let hostile = hostile(&shared, &request.method);
    if let Some(reply) = misbehave(&hostile, &message).await {
        return reply;
    }
    let modern = message["params"]["_meta"][VERSION_KEY].as_str() == Some(MODERN);
    let era = shared.script.lock().unwrap().era;
    match (era, modern) {
        (Era::Legacy(_), true) => return error(400, Value::Null, -32000, "Bad Request: Server not initialized", Value::Null),
        (Era::Modern, false) => {
            return error(
                400,
                message["id"].clone(),
                -32022,
                "Unsupported protocol version",
                json!({"supported": [MODERN], "requested": "initialize"}),
            );
        }
        _ => {}
    }
    let session = if modern {
        if let Some(problem) = header_problem(&request, &message) {
            return error(400, message["id"].clone(), -32020, &problem, Value::Null);
        }
        String::new()
    } else if request.method == "initialize" {
        let mut live = shared.live.lock().unwrap();
        live.next += 1;
        let session = format!("{}-session-{}", shared.name, live.next);
        live.sessions.insert(session.clone(), 0);
        session
    } else {
        match request.header("mcp-session-id") {
            None => return error(400, Value::Null, -32000, "Bad Request: no session id", Value::Null),
            Some(session) if !known(&shared, session, &request.method) => return error(404, Value::Null, -32001, "Session not found", Value::Null),
            Some(session) => session.to_owned(),
        }
    };
    if message.get("method").is_none() {
        take_answer(&shared, &message);
        return status(202);
    }
    if message.get("id").is_none() {
        take_notification(&shared, &session, &message);
        return status(202);
    }
    if request.method == "subscriptions/listen" && modern {
        return listen(&shared, &message);
    }

    let (sender, mut receiver) = mpsc::unbounded_channel();
    let (cancel, cancelled) = watch::channel(false);
    let key = (session.clone(), message["id"].to_string());
    shared.live.lock().unwrap().running.insert(key.clone(), cancel.clone());
    let twice = matches!(hostile, Some(Hostile::Twice));
    let mut guard = CallGuard { shared: shared.clone(), key, cancel: modern.then_some(cancel), done: false };
    tokio::spawn(run(shared.clone(), message.clone(), modern, sender, cancelled, hostile));
    if request.method == "tools/call" && shared.script.lock().unwrap().resumable {
        guard.done = true;
        return resumable(&shared, receiver);
    }
    let first = receiver.recv().await;
    let events = shared.script.lock().unwrap().transport == Transport::Events && request.method != "initialize";
    let mut reply = match first {
        None => {
            guard.done = true;
            status(500)
        }
        Some(first) if !events && !twice && first.get("method").is_none() => {
            guard.done = true;
            json_reply(200, &first)
        }
        Some(first) => {
            events_reply(Reply { first: Some(first), receiver: Some(receiver), bytes: None, guard: Some(guard), then: Then::End, endpoint: None })
        }
    };
    if !modern
        && request.method == "initialize"
        && let Ok(value) = session.parse()
    {
        reply.headers_mut().insert("mcp-session-id", value);
    }
    reply
}

/// The stream of a call that can be taken up again. Its first event carries nothing but an id.
fn resumable(shared: &Arc<Shared>, mut receiver: mpsc::UnboundedReceiver<Value>) -> Response<Reply> {
    let (reader, events) = mpsc::unbounded_channel();
    let key = {
        let mut live = shared.live.lock().unwrap();
        live.next += 1;
        let key = format!("call-{}", live.next);
        reader.send(json!(format!("id: {key}/0\ndata: \n\n"))).ok();
        live.calls.insert(key.clone(), super::LiveCall { reader: Some(reader), ..Default::default() });
        key
    };
    let shared = shared.clone();
    tokio::spawn(async move {
        while let Some(message) = receiver.recv().await {
            let mut live = shared.live.lock().unwrap();
            let Some(call) = live.calls.get_mut(&key) else { return };
            if let Some(retry) = message.get("$hang_up") {
                if let Some(reader) = call.reader.take() {
                    reader.send(json!(format!("retry: {retry}\n\n"))).ok();
                }
                continue;
            }
            let event = format!("id: {key}/{}\nevent: message\ndata: {message}\n\n", call.events.len() + 1);
            if let Some(reader) = &call.reader {
                reader.send(json!(event)).ok();
            }
            call.events.push(event);
        }
        if let Some(call) = shared.live.lock().unwrap().calls.get_mut(&key) {
            (call.reader, call.done) = (None, true);
        }
    });
    events_reply(Reply { receiver: Some(events), bytes: None, ..Reply::whole(Bytes::new()) })
}

/// The rest of such a stream.
fn rest(shared: &Shared, last: &str) -> Response<Reply> {
    let mut live = shared.live.lock().unwrap();
    let place = last.split_once('/').and_then(|(key, number)| Some((live.calls.get_mut(key)?, number.parse::<usize>().ok()?)));
    let Some((call, number)) = place else { return status(400) };
    let (reader, events) = mpsc::unbounded_channel();
    for event in call.events.iter().skip(number) {
        reader.send(json!(event)).ok();
    }
    call.reader = (!call.done).then_some(reader);
    events_reply(Reply { receiver: Some(events), bytes: None, ..Reply::whole(Bytes::new()) })
}

/// Counts a call against its session, and forgets the session when its time has come.
fn known(shared: &Shared, session: &str, method: &str) -> bool {
    let limit = shared.script.lock().unwrap().forget_after;
    let mut live = shared.live.lock().unwrap();
    let Some(calls) = live.sessions.get_mut(session) else { return false };
    if method == "tools/call" {
        *calls += 1;
        if limit.is_some_and(|limit| *calls > limit) {
            live.sessions.remove(session);
            return false;
        }
    }
    true
}

fn hostile(shared: &Shared, method: &str) -> Option<Hostile> {
    let script = shared.script.lock().unwrap();
    script.hostile.get(method).or_else(|| script.hostile.get("*")).cloned()
}

/// What is wrong before the request was even read; `None` if the answer itself will be wrong, or nothing is.
async fn misbehave(hostile: &Option<Hostile>, message: &Value) -> Option<Response<Reply>> {
    match hostile.as_ref()? {
        Hostile::Hang => std::future::pending().await,
        Hostile::Delay(delay) => {
            tokio::time::sleep(*delay).await;
            None
        }
        Hostile::Status(code) => Some(status(*code)),
        Hostile::Redirect(to) => {
            let mut reply = status(307);
            reply.headers_mut().insert("location", to.parse().expect("a header value"));
            Some(reply)
        }
        Hostile::Body(content_type, body) => {
            let body = replace_id(body, &message["id"]);
            Some(Response::builder().header("content-type", *content_type).body(Reply::whole(body)).expect("a response"))
        }
        Hostile::DropMidReply => {
            let half = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",");
            let reply = Reply { bytes: Some(half), then: Then::Break, ..Reply::whole(Bytes::new()) };
            Some(Response::builder().header("content-type", "application/json").header("content-length", "1000").body(reply).expect("a response"))
        }
        Hostile::EndlessEvents => {
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                let event = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "still here"}});
                while sender.send(event.clone()).is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            Some(events_reply(Reply { receiver: Some(receiver), bytes: None, ..Reply::whole(Bytes::new()) }))
        }
        Hostile::WrongId | Hostile::Twice | Hostile::ResultAndError => None,
    }
}

fn replace_id(body: &Bytes, id: &Value) -> Bytes {
    match body.windows(3).position(|window| window == b"$ID") {
        None => body.clone(),
        Some(at) => [body.get(..at).unwrap_or_default(), id.to_string().as_bytes(), body.get(at + 3..).unwrap_or_default()].concat().into(),
    }
}

/// Strict, so that a gateway that forgets a header is found out.
fn header_problem(request: &Recorded, message: &Value) -> Option<String> {
    if request.header("mcp-protocol-version") != Some(MODERN) {
        return Some("MCP-Protocol-Version does not match".into());
    }
    if message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].as_object().is_none() {
        return Some("clientCapabilities are missing".into());
    }
    // Which headers a notification carries is not laid down.
    message.get("id")?;
    if request.header("mcp-method") != message["method"].as_str() {
        return Some("Mcp-Method does not match".into());
    }
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => message["params"]["name"].as_str(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => message["params"]["taskId"].as_str(),
        "resources/read" => message["params"]["uri"].as_str(),
        _ => return None,
    };
    let header = request.header("mcp-name").and_then(transom_protocol::header::decode);
    (header.as_deref() != name).then(|| "Mcp-Name does not match".into())
}

fn take_answer(shared: &Shared, message: &Value) {
    let asked = shared.live.lock().unwrap().asked.remove(&message["id"].to_string());
    if let Some(asked) = asked {
        let answer = match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message["result"].clone()),
        };
        asked.send(answer).ok();
    }
}

fn take_notification(shared: &Shared, session: &str, message: &Value) {
    if message["method"] == "notifications/cancelled" {
        shared.record.lock().unwrap().cancelled.push(message["params"].clone());
        let key = (session.to_owned(), message["params"]["requestId"].to_string());
        if let Some(cancel) = shared.live.lock().unwrap().running.get(&key) {
            cancel.send(true).ok();
        }
    }
}

/// Answers a request into `out`, which closes with the answer.
async fn run(
    shared: Arc<Shared>,
    message: Value,
    modern: bool,
    out: mpsc::UnboundedSender<Value>,
    cancel: watch::Receiver<bool>,
    hostile: Option<Hostile>,
) {
    let id = message["id"].clone();
    let answer = answer(&shared, &message, modern, &out, cancel).await;
    let mut response = match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    };
    match hostile {
        Some(Hostile::WrongId) => response["id"] = json!("nobody asked"),
        Some(Hostile::ResultAndError) => response["error"] = json!({"code": 1, "message": "and an error too"}),
        Some(Hostile::Twice) => {
            out.send(response.clone()).ok();
            response["result"] = super::text("the second answer");
        }
        _ => {}
    }
    out.send(response).ok();
}

async fn answer(
    shared: &Arc<Shared>,
    message: &Value,
    modern: bool,
    out: &mpsc::UnboundedSender<Value>,
    cancel: watch::Receiver<bool>,
) -> super::Answer {
    let method = message["method"].as_str().unwrap_or_default();
    let params = &message["params"];
    let mut result = match method {
        "tools/call" => {
            let tool = params["name"].as_str().unwrap_or_default().to_owned();
            let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
            shared.record.lock().unwrap().calls.push((tool.clone(), arguments.clone()));
            let (handler, exists) = {
                let script = shared.script.lock().unwrap();
                (script.handlers.get(&tool).cloned(), script.tools.iter().any(|definition| definition["name"] == tool.as_str()))
            };
            let becomes_task = shared.script.lock().unwrap().tasks
                && match modern {
                    true => params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object(),
                    false => params["task"].is_object(),
                };
            let mut context = Context {
                tool: tool.clone(),
                meta: params["_meta"].clone(),
                params: params.clone(),
                task: None,
                shared: shared.clone(),
                out: out.clone(),
                cancel,
            };
            let answer = match handler {
                Some(handler) if becomes_task => {
                    let (id, sender) = new_task(shared);
                    context.task = Some(id.clone());
                    tokio::spawn(async move {
                        let outcome = handler(arguments, context).await;
                        sender.send_modify(|task| (task.outcome, task.questions) = (Some(outcome), None));
                    });
                    return Ok(match modern {
                        true => {
                            let mut task = described(shared, &id, true).unwrap_or_default();
                            task["resultType"] = json!("task");
                            task
                        }
                        false => {
                            json!({"task": described(shared, &id, false), "_meta": {"io.modelcontextprotocol/model-immediate-response": "soon"}})
                        }
                    });
                }
                Some(handler) => handler(arguments, context).await,
                None if exists => Ok(echo(&shared.name, &tool, &arguments)),
                None => Err(json!({"code": -32602, "message": format!("Unknown tool: {tool}")})),
            };
            shared.record.lock().unwrap().finished += 1;
            answer?
        }
        "tasks/get" | "tasks/result" | "tasks/update" | "tasks/cancel" | "tasks/list" if shared.script.lock().unwrap().tasks => {
            task_request(shared, method, params, modern).await?
        }
        _ => plain(shared, method, params, modern)?,
    };
    if modern && let Some(result) = result.as_object_mut() {
        result.entry("resultType").or_insert_with(|| json!("complete"));
    }
    Ok(result)
}

fn new_task(shared: &Shared) -> (String, watch::Sender<super::LiveTask>) {
    let mut live = shared.live.lock().unwrap();
    live.next += 1;
    let (id, sender) = (format!("{}-task-{}", shared.name, live.next), watch::Sender::default());
    live.tasks.insert(id.clone(), sender.clone());
    (id, sender)
}

/// A task as its era describes it.
fn described(shared: &Shared, id: &str, modern: bool) -> Option<Value> {
    let task = shared.live.lock().unwrap().tasks.get(id)?.borrow().clone();
    let status = match (&task.outcome, task.cancelled, &task.questions) {
        (_, true, _) => "cancelled",
        (Some(Ok(_)), ..) => "completed",
        (Some(Err(_)), ..) => "failed",
        (None, _, Some(_)) => "input_required",
        (None, ..) => "working",
    };
    let (ttl, poll) = if modern { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    let mut described = json!({"taskId": id, "status": status, "statusMessage": format!("{status} of {id}"),
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:01Z", ttl: 60_000, poll: 50});
    if modern && !task.cancelled {
        match task.outcome {
            Some(Ok(result)) => described["result"] = result,
            Some(Err(error)) => described["error"] = error,
            None => {
                if let Some(questions) = task.questions {
                    described["inputRequests"] = questions;
                }
            }
        }
    }
    Some(described)
}

async fn task_request(shared: &Arc<Shared>, method: &str, params: &Value, modern: bool) -> super::Answer {
    if method == "tasks/list" {
        let ids: Vec<String> = shared.live.lock().unwrap().tasks.keys().cloned().collect();
        return Ok(json!({"tasks": ids.iter().filter_map(|id| described(shared, id, modern)).collect::<Vec<_>>()}));
    }
    let id = params["taskId"].as_str().unwrap_or_default();
    let sender = shared.live.lock().unwrap().tasks.get(id).cloned();
    let Some(sender) = sender else { return Err(json!({"code": -32602, "message": "Failed to retrieve task: Task not found"})) };
    match method {
        "tasks/update" => {
            sender.send_modify(|task| (task.answers, task.questions) = (Some(params["inputResponses"].clone()), None));
            return Ok(json!({}));
        }
        "tasks/cancel" => {
            sender.send_modify(|task| task.cancelled = true);
            if modern {
                return Ok(json!({}));
            }
        }
        "tasks/result" => {
            let mut changes = sender.subscribe();
            let done = changes.wait_for(|task| task.outcome.is_some() || task.cancelled).await.map(|task| task.outcome.clone());
            let mut result = done.ok().flatten().unwrap_or_else(|| Err(json!({"code": -32000, "message": "Task cancelled"})))?;
            result["_meta"]["io.modelcontextprotocol/related-task"] = json!({"taskId": id});
            return Ok(result);
        }
        _ => {}
    }
    Ok(described(shared, id, modern).unwrap_or_default())
}

fn plain(shared: &Shared, method: &str, params: &Value, modern: bool) -> super::Answer {
    let script = shared.script.lock().unwrap();
    if let Some(answer) = script.methods.get(method) {
        return answer.clone();
    }
    let mut result = match method {
        "initialize" if !modern => {
            let revision = match script.era {
                Era::Legacy(revision) => revision,
                Era::Modern | Era::Both => "2025-11-25",
            };
            let mut result =
                json!({"protocolVersion": revision, "capabilities": capabilities(&script), "serverInfo": {"name": shared.name, "version": "1"}});
            if let Some(instructions) = &script.instructions {
                result["instructions"] = json!(instructions);
            }
            return Ok(result);
        }
        "server/discover" if modern => {
            let info = json!({"io.modelcontextprotocol/serverInfo": {"name": shared.name, "version": "1"}});
            json!({"supportedVersions": [MODERN], "capabilities": capabilities(&script), "_meta": info})
        }
        "ping" => return Ok(json!({})),
        "tools/list" => page(&script, "tools", &script.tools, params),
        "prompts/list" => page(&script, "prompts", &script.prompts, params),
        "resources/list" => page(&script, "resources", &script.resources, params),
        "resources/templates/list" => page(&script, "resourceTemplates", &script.templates, params),
        "prompts/get" => {
            let text = format!("{} says {}", shared.name, params["arguments"]);
            return Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}));
        }
        "resources/read" => json!({"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": format!("content of {}", shared.name)}]}),
        "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => return Ok(json!({})),
        "completion/complete" => return Ok(json!({"completion": {"values": [shared.name]}})),
        _ => return Err(json!({"code": -32601, "message": format!("Method not found: {method}")})),
    };
    if modern {
        result["ttlMs"] = json!(60_000);
        result["cacheScope"] = json!("public");
    }
    Ok(result)
}

fn capabilities(script: &Script) -> Value {
    let mut capabilities = json!({"tools": {"listChanged": true}});
    if !script.prompts.is_empty() {
        capabilities["prompts"] = json!({"listChanged": true});
        capabilities["completions"] = json!({});
    }
    if !script.resources.is_empty() || !script.templates.is_empty() {
        capabilities["resources"] = json!({"listChanged": true, "subscribe": true});
    }
    if script.tasks {
        capabilities["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    }
    capabilities
}

fn page(script: &Script, member: &str, items: &[Value], params: &Value) -> Value {
    let start: usize = params["cursor"].as_str().and_then(|cursor| cursor.rsplit('-').next()?.parse().ok()).unwrap_or(0);
    let size = script.page_size.unwrap_or(usize::MAX);
    let end = start.saturating_add(size).min(items.len());
    let mut result = json!({ member: items.get(start.min(end)..end).unwrap_or_default() });
    match script.cursor {
        Cursor::Honest if end < items.len() => result["nextCursor"] = json!(format!("page-{end}")),
        Cursor::Honest => {}
        Cursor::Constant => result["nextCursor"] = json!("page-0"),
        Cursor::Endless => {
            // Always a page, never the same one: what was asked for is counted up and the items start again.
            result[member] = json!(items);
            result["nextCursor"] = json!(format!("page-{}", start.saturating_add(1)));
        }
    }
    result
}

/// GET: the stream of a legacy session.
fn stream(shared: &Arc<Shared>, request: &Recorded) -> Response<Reply> {
    let (offered, era) = {
        let script = shared.script.lock().unwrap();
        (script.get_stream, script.era)
    };
    if !offered || era == Era::Modern {
        return status(405);
    }
    let session = request.header("mcp-session-id").unwrap_or_default().to_owned();
    if let Some(last) = request.header("last-event-id") {
        return rest(shared, last);
    }
    let mut live = shared.live.lock().unwrap();
    if !live.sessions.contains_key(&session) {
        return status(404);
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    live.streams.push(LiveStream { session, subscription: None, sender });
    events_reply(Reply { receiver: Some(receiver), bytes: None, ..Reply::whole(Bytes::new()) })
}

fn listen(shared: &Arc<Shared>, message: &Value) -> Response<Reply> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
    let params = json!({"_meta": meta, "notifications": message["params"]["notifications"]});
    sender.send(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})).ok();
    shared.live.lock().unwrap().streams.push(LiveStream { session: String::new(), subscription: Some(message["id"].clone()), sender });
    events_reply(Reply { receiver: Some(receiver), bytes: None, ..Reply::whole(Bytes::new()) })
}

/// GET `/sse`: the 2024-11-05 stream.
fn open_sse(shared: &Arc<Shared>) -> Response<Reply> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut live = shared.live.lock().unwrap();
    live.next += 1;
    let session = format!("sse-{}", live.next);
    live.sessions.insert(session.clone(), 0);
    live.streams.push(LiveStream { session: session.clone(), subscription: None, sender });
    let endpoint = shared.script.lock().unwrap().endpoint.clone().unwrap_or_else(|| format!("/messages?session={session}"));
    let endpoint = Bytes::from(format!("event: endpoint\ndata: {endpoint}\n\n"));
    events_reply(Reply { receiver: Some(receiver), bytes: None, endpoint: Some(endpoint), ..Reply::whole(Bytes::new()) })
}

async fn post_sse(shared: Arc<Shared>, request: &Recorded, message: Value) -> Response<Reply> {
    let hostile = hostile(&shared, &request.method);
    if let Some(reply) = misbehave(&hostile, &message).await {
        return reply;
    }
    let session = request.path.split_once("session=").map(|(_, session)| session.to_owned()).unwrap_or_default();
    let stream = shared.live.lock().unwrap().streams.iter().find(|stream| stream.session == session).map(|stream| stream.sender.clone());
    let Some(out) = stream else { return status(404) };
    if message.get("method").is_none() {
        take_answer(&shared, &message);
    } else if message.get("id").is_none() {
        take_notification(&shared, &session, &message);
    } else {
        let (cancel, cancelled) = watch::channel(false);
        shared.live.lock().unwrap().running.insert((session, message["id"].to_string()), cancel);
        tokio::spawn(run(shared.clone(), message, false, out, cancelled, hostile));
    }
    status(202)
}

fn status(code: u16) -> Response<Reply> {
    Response::builder().status(code).body(Reply::whole(Bytes::new())).expect("a response")
}

fn json_reply(code: u16, message: &Value) -> Response<Reply> {
    Response::builder().status(code).header("content-type", "application/json").body(Reply::whole(message.to_string().into())).expect("a response")
}

fn error(code: u16, id: Value, rpc: i64, message: &str, data: Value) -> Response<Reply> {
    let mut error = json!({"code": rpc, "message": message});
    if !data.is_null() {
        error["data"] = data;
    }
    json_reply(code, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn events_reply(reply: Reply) -> Response<Reply> {
    Response::builder().header("content-type", "text/event-stream").body(reply).expect("a response")
}

/// Notices when a call's connection goes before its answer.
struct CallGuard {
    shared: Arc<Shared>,
    key: (String, String),
    /// Set for a modern call, where this means that it is cancelled.
    cancel: Option<watch::Sender<bool>>,
    done: bool,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if !self.done {
            self.shared.record.lock().unwrap().disconnected += 1;
            if let Some(cancel) = &self.cancel {
                cancel.send(true).ok();
            }
        }
        self.shared.live.lock().unwrap().running.remove(&self.key);
    }
}

/// A body: some bytes, then maybe a stream of events, then maybe a broken connection.
struct Reply {
    endpoint: Option<Bytes>,
    first: Option<Value>,
    bytes: Option<Bytes>,
    receiver: Option<mpsc::UnboundedReceiver<Value>>,
    guard: Option<CallGuard>,
    then: Then,
}

enum Then {
    End,
    Break,
}

impl Reply {
    fn whole(bytes: Bytes) -> Reply {
        Reply { endpoint: None, first: None, bytes: Some(bytes), receiver: None, guard: None, then: Then::End }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if let Some(bytes) = this.endpoint.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if let Some(bytes) = this.bytes.take() {
            return Poll::Ready(if bytes.is_empty() { None } else { Some(Ok(Frame::data(bytes))) });
        }
        if matches!(this.then, Then::Break) {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
        }
        let next = match this.first.take() {
            Some(first) => Some(first),
            None => match &mut this.receiver {
                Some(receiver) => ready!(receiver.poll_recv(cx)),
                None => None,
            },
        };
        match next {
            Some(message) => {
                if message.get("method").is_none()
                    && let Some(guard) = &mut this.guard
                {
                    guard.done = true;
                }
                if let Some(raw) = message.as_str() {
                    return Poll::Ready(Some(Ok(Frame::data(raw.to_owned().into()))));
                }
                Poll::Ready(Some(Ok(Frame::data(format!("event: message\ndata: {message}\n\n").into()))))
            }
            None => {
                if let Some(guard) = &mut this.guard {
                    guard.done = true;
                }
                Poll::Ready(None)
            }
        }
    }
}
