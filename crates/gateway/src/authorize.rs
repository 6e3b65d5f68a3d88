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
pub use visible::{Classes, Memo, Sight, Viewer, Visible};

use crate::generation::Entry;
use crate::message::{About, Addressed, Context, List, Named};
use crate::metrics::Action;
use crate::names::{Names, addressed};
use crate::reply::Failure;
use crate::runtime::Runtime;
use crate::session::{Client, Session};
use crate::stage::{Next, Stage};
use crate::tasks;
use std::sync::Arc;
use std::time::Duration;
use transom_protocol::Method;
use transom_protocol::json::{Json, Kind};
use transom_registry::Rejected;

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
        let said = context.caller.client_info.as_deref().and_then(|info| std::str::from_utf8(info).ok()).map(Json::trusted);
        circumstances.client = said.map(Client::names).or_else(|| session?.client().map(|client| (client.name.clone(), client.version.clone())));
        viewer.circumstances = Some(Arc::new(circumstances));
    }
    viewer
}

/// The stage.
#[derive(Clone)]
pub struct Authorize {
    runtime: Arc<Runtime>,
    names: Names,
}

impl Authorize {
    /// With the rules in force.
    pub fn new(runtime: Arc<Runtime>) -> Authorize {
        Authorize { names: Names::new(runtime.clone()), runtime }
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
            // They show and call nothing but what the principal sees and may use anyway.
            (Some(entry), _) if entry.own().is_some() => true,
            // Its arguments were judged when the task was made.
            (Some(entry), _) if tasks::is_about_task(call.method) => policy.may_see(&context.generation, &viewer, entry, metrics),
            (Some(entry), _) => policy.may_use(&context.generation, &viewer, entry, call.params.json().get("arguments"), metrics),
            (None, Some(slot)) => policy.may_read(&viewer, &slot.name, std::str::from_utf8(source).unwrap_or(""), metrics),
            (None, None) => false,
        }
    }
}

impl Authorize {
    /// The tool that a call means whose name belongs to one that the caller does not see. That one must not be told from one that does not exist, so
    /// its name is free for the tools that it is another spelling of. Asked only when a call is refused: others pay nothing for it.
    fn meant_instead(&self, call: &Named<Box<Addressed>>) -> Result<Arc<Entry>, Failure> {
        let Named { context, session, message, .. } = call;
        let Addressed { call, entry, .. } = &**message;
        let unknown = || Failure::not_found(call.kind.word(), &call.name);
        if tasks::is_about_task(call.method) {
            return Err(tasks::unknown());
        }
        let Some(entry) = entry.as_ref().filter(|_| call.method == Method::CallTool) else { return Err(unknown()) };
        let policy = self.runtime.policy.load();
        let viewer = viewer(&policy, context, session.as_deref());
        if policy.may_see(&context.generation, &viewer, entry, &self.runtime.metrics) {
            // Rules about arguments have no answer where there are none to speak of.
            let is_object = call.params.get("arguments").is_none_or(|arguments| matches!(arguments.kind(), Kind::Object | Kind::Null));
            return Err(if is_object { unknown() } else { Failure::arguments(Rejected::NotAnObject, "arguments must be an object") });
        }
        if call.name != entry.exposed() {
            return Err(unknown());
        }
        self.names.spelled(context, session.as_deref(), call)
    }

    /// Decides about a call, whatever its name turns out to mean.
    fn decide(&self, mut call: Named<Box<Addressed>>) -> (Named<Box<Addressed>>, Result<(), Failure>) {
        if self.permits(&call) {
            return (call, Ok(()));
        }
        match self.meant_instead(&call) {
            Ok(other) => {
                let unknown = Failure::not_found(call.message.call.kind.word(), &call.message.call.name);
                call.message = Box::new(addressed(other, call.message.call));
                let permitted = self.permits(&call);
                (call, if permitted { Ok(()) } else { Err(unknown) })
            }
            Err(failure) => (call, Err(failure)),
        }
    }
}

impl<N: Next<Permitted<Box<Addressed>>>> Stage<Named<Box<Addressed>>, N> for Authorize {
    type Reply = N::Reply;

    async fn handle(&self, call: Named<Box<Addressed>>, next: &N) -> Result<N::Reply, Failure> {
        let (call, decision) = self.decide(call);
        let Addressed { call: asked, entry, slot, .. } = &*call.message;
        let about_task = tasks::is_about_task(asked.method);
        let task = about_task.then(|| asked.name.clone());
        let _ = call.context.about.set(About { slot: slot.clone(), entry: entry.clone(), task });
        let action = match asked.method {
            method if method == Method::CallTool || about_task => Action::Call,
            Method::GetPrompt => Action::Get,
            Method::Complete => Action::Complete,
            _ => Action::Read,
        };
        self.runtime.metrics.decided(action, decision.is_ok());
        decision?;
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
