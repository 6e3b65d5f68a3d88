//! Turns what a client asked for into what a target understands, and the answer back. For now every tool passes through
//! unchanged; a later issue puts the registry's plan here.

use crate::authorize::Permitted;
use crate::generation::Slot;
use crate::message::{Addressed, Context, List};
use crate::reply::Failure;
use crate::session::Session;
use crate::stage::{Next, Stage};
use bytes::Bytes;
use std::sync::Arc;
use transom_protocol::message::Params;
use transom_protocol::{Era, Method};

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
pub struct Virtualize;

impl<N: Next<SourceCall, Reply = Bytes>> Stage<Permitted<Addressed>, N> for Virtualize {
    type Reply = Bytes;

    async fn handle(&self, permitted: Permitted<Addressed>, next: &N) -> Result<Bytes, Failure> {
        let named = permitted.into_inner();
        let Addressed { call, slot, source, rename, param_headers, .. } = named.message;
        let (context, session) = (named.context, named.session);
        let (slot_name, method) = (slot.name.clone(), call.method);
        let result = next
            .run(SourceCall { context, session, slot, method, method_text: call.method_text, params: call.params, rename, source, param_headers })
            .await?;
        Ok(match method {
            Method::ReadResource => crate::resources::exposed_contents(&slot_name, &result),
            _ => result,
        })
    }
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
