//! Decides whether a principal may use a tool, a prompt or a resource.
//!
//! Knows names, principals and rules. Sessions, transports and how a virtual tool was built are the business of the
//! stages around it. Only this room can make a [`Permitted`]. What is not permitted looks like what does not exist, to
//! the byte.
//!
//! In reading order: `rule` (CEL as written) · `subject` (what rules can see) · `evaluate` (within bounds) · `policy`
//! (rules put together) · `visible` (what somebody sees of a generation).

mod evaluate;
mod policy;
mod rule;
mod subject;
#[cfg(test)]
mod tests;
mod visible;

pub use policy::{Decision, Policy, Standing};
pub use rule::BadRule;
pub use subject::{Arguments, Asked, Circumstances, Subject, Who};
pub use visible::{Classes, Memo, Sight, Viewer};

use crate::message::{Addressed, Context, List, Named};
use crate::metrics::Action;
use crate::reply::Failure;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::stage::{Next, Stage};
use crate::tasks;
use std::sync::Arc;
use std::time::Duration;
use transom_protocol::Method;
use transom_protocol::json::Json;

/// A message the policy allowed.
pub struct Permitted<M>(Named<M>);

impl<M> Permitted<M> {
    /// The message.
    pub fn message(&self) -> &Named<M> {
        &self.0
    }

    /// The message, to go on with.
    pub fn into_inner(self) -> Named<M> {
        self.0
    }
}

impl Permitted<Box<Addressed>> {
    /// Gives the call so long and no longer. Nothing else about it can be changed any more.
    pub fn limit_to(&mut self, timeout: Duration) {
        self.0.message.timeout = Some(timeout);
    }
}

/// Who looks, in a request: with what the rules in force ask about it.
pub fn viewer(policy: &Policy, context: &Context, session: Option<&Session>) -> Viewer {
    let mut viewer = Viewer { principal: context.principal.clone(), circumstances: None };
    if policy.reads_request() {
        let mut circumstances = context.circumstances.as_deref().cloned().unwrap_or_default();
        let said = context.caller.client_info.as_ref().or_else(|| session?.client_info.as_ref());
        if let Some(info) = said.and_then(|info| std::str::from_utf8(info).ok()).map(Json::trusted) {
            let member = |name| info.get(name).and_then(Json::string).unwrap_or_default().into_owned();
            circumstances.client = Some((member("name"), member("version")));
        }
        viewer.circumstances = Some(Arc::new(circumstances));
    }
    viewer
}

/// The stage.
#[derive(Clone)]
pub struct Authorize {
    runtime: Arc<Runtime>,
}

impl Authorize {
    /// With the rules in force.
    pub fn new(runtime: Arc<Runtime>) -> Authorize {
        Authorize { runtime }
    }

    fn permits(&self, call: &Named<Box<Addressed>>) -> bool {
        let policy = self.runtime.policy.load();
        if policy.allows_all() {
            return true;
        }
        let (context, metrics) = (&call.context, &self.runtime.metrics);
        let viewer = viewer(&policy, context, call.session.as_deref());
        let Addressed { call, entry, slot, source, .. } = &*call.message;
        match (entry, slot) {
            // Its arguments were judged when the task was made.
            (Some(entry), _) if tasks::is_about_task(call.method) => policy.may_see(&context.generation, &viewer, entry, metrics),
            (Some(entry), _) => policy.may_use(&context.generation, &viewer, entry, call.params.json().get("arguments"), metrics),
            (None, Some(slot)) => policy.may_read(&viewer, &slot.name, std::str::from_utf8(source).unwrap_or(""), metrics),
            (None, None) => false,
        }
    }
}

impl<N: Next<Permitted<Box<Addressed>>>> Stage<Named<Box<Addressed>>, N> for Authorize {
    type Reply = N::Reply;

    async fn handle(&self, call: Named<Box<Addressed>>, next: &N) -> Result<N::Reply, Failure> {
        let permitted = self.permits(&call);
        let action = match call.message.call.method {
            method if method == Method::CallTool || tasks::is_about_task(method) => Action::Call,
            Method::GetPrompt => Action::Get,
            Method::Complete => Action::Complete,
            _ => Action::Read,
        };
        self.runtime.metrics.decided(action, permitted);
        if !permitted {
            let call = &call.message.call;
            if tasks::is_about_task(call.method) {
                return Err(tasks::unknown());
            }
            return Err(Failure::not_found(call.kind.word(), &call.name));
        }
        next.run(Permitted(call)).await
    }
}

impl<N: Next<Permitted<List>>> Stage<Named<List>, N> for Authorize {
    type Reply = N::Reply;

    async fn handle(&self, list: Named<List>, next: &N) -> Result<N::Reply, Failure> {
        // Everybody may ask for a list; what is on it is a matter of what they see, and that is found out where it is
        // put together.
        self.runtime.metrics.decided(Action::List, true);
        next.run(Permitted(list)).await
    }
}
