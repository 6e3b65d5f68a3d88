//! Turns what a client asked for into what a target understands, and the answer back. For now every tool passes through
//! unchanged; a later issue puts the registry's plan here.

use crate::authorize::Permitted;
use crate::generation::Slot;
use crate::message::{Addressed, Context, List, Named};
use crate::reply::Failure;
use crate::request_state::{self, Binding};
use crate::seal::Seal;
use crate::session::Session;
use crate::stage::{Next, Stage};
use bytes::Bytes;
use std::sync::Arc;
use transom_protocol::json::{Json, Kind};
use transom_protocol::message::Params;
use transom_protocol::{Era, Method};
use transom_upstream::CallError;

/// A call in a target's own terms.
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
    /// The target's own name for what is addressed.
    pub source: Bytes,
    /// `Mcp-Param-*` headers, written anew from the arguments.
    pub param_headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

/// The stage.
#[derive(Clone)]
pub struct Virtualize {
    seal: Arc<Seal>,
}

impl Virtualize {
    /// With the key that seals what travels through clients.
    pub fn new(seal: Arc<Seal>) -> Virtualize {
        Virtualize { seal }
    }
}

impl<N: Next<Box<SourceCall>, Reply = Bytes>> Stage<Permitted<Box<Addressed>>, N> for Virtualize {
    type Reply = Bytes;

    async fn handle(&self, permitted: Permitted<Box<Addressed>>, next: &N) -> Result<Bytes, Failure> {
        let Named { context, principal, session, message } = permitted.into_inner();
        let Addressed { call, slot, source, rename, param_headers } = *message;
        if call.method == Method::CallTool && !has_object_arguments(&call.params) {
            return Ok(Bytes::from_static(br#"{"content":[{"type":"text","text":"arguments must be an object"}],"isError":true}"#));
        }
        if call.method == Method::Complete && !completes(&context, &slot) {
            return Ok(Bytes::from_static(br#"{"completion":{"values":[],"total":0,"hasMore":false}}"#));
        }
        let era = context.era;
        let modern_target = context.about.get().and_then(|about| about.entry.as_ref()).is_none_or(|entry| entry.era() == Era::Modern);
        let target = slot.name.clone();
        let binding = Binding { principal: &principal, target: &target, source: &source };
        let params = if era == Era::Modern { request_state::opened(&self.seal, &binding, call.params)? } else { call.params };
        let source_call = Box::new(SourceCall {
            context,
            session,
            slot,
            method: call.method,
            method_text: call.method_text,
            params,
            rename,
            source: source.clone(),
            param_headers,
        });
        let result = next.run(source_call).await?;
        match (call.method, modern_target && asks_for_input(&result), era) {
            (_, true, Era::Modern) => Ok(request_state::sealed(&self.seal, &binding, result)),
            (_, true, Era::Legacy) => Err(Failure::Upstream {
                server: target.to_string(),
                error: CallError::Invalid("it asks for input in a way that the client's revision does not have".into()),
            }),
            (Method::ReadResource, false, _) => Ok(crate::resources::exposed_contents(&target, &result)),
            _ => Ok(result),
        }
    }
}

/// Whether a target can complete arguments; one that cannot is not asked.
fn completes(context: &Context, slot: &Slot) -> bool {
    context.generation.view(&slot.name).and_then(|view| view.offer.as_ref()).is_some_and(|offer| offer.offer.capabilities.completions)
}

fn has_object_arguments(params: &Params) -> bool {
    params.json().get("arguments").is_none_or(|arguments| matches!(arguments.kind(), Kind::Object | Kind::Null))
}

/// Whether a result is a question; nearly none has the word at all.
fn asks_for_input(result: &Bytes) -> bool {
    memchr::memmem::find(result, b"\"input_required\"").is_some()
        && std::str::from_utf8(result).is_ok_and(|text| Json::trusted(text).get("resultType").is_some_and(|kind| kind.raw() == "\"input_required\""))
}

impl<N: Send + Sync + 'static> Stage<Permitted<List>, N> for Virtualize {
    type Reply = Listed;

    async fn handle(&self, permitted: Permitted<List>, _: &N) -> Result<Listed, Failure> {
        let named = permitted.into_inner();
        let (generation, list) = (&named.context.generation, &named.message);
        let body = if list.scope.is_all() {
            generation.body(list.kind)
        } else {
            crate::generation::body(list.kind, generation.listed(list.kind).iter().filter(|entry| list.scope.admits(entry)))
        };
        Ok(Listed { body, era: named.context.era, degraded: generation.unavailable().map(str::to_owned).collect() })
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
}
