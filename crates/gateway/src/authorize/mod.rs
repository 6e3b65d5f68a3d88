//! Decides whether a principal may use a tool. For now every principal may use what is listed; a later issue reads
//! rules here.
//!
//! Knows names and principals. Sessions, transports and how a virtual tool was built are the business of the stages
//! around it. Only this room can make a [`Permitted`].

mod evaluate;
mod policy;
mod rule;
mod subject;
#[cfg(test)]
mod tests;

pub use policy::{Decision, Policy, Standing};
pub use rule::BadRule;
pub use subject::{Arguments, Asked, Circumstances, Subject, Who};

use crate::message::{Addressed, List, Named};
use crate::metrics::Metrics;
use crate::reply::Failure;
use crate::stage::{Next, Stage};
use std::sync::Arc;

/// A message the policy allowed.
pub struct Permitted<M>(Named<M>);

impl<M> Permitted<M> {
    /// The message.
    pub fn into_inner(self) -> Named<M> {
        self.0
    }
}

/// The stage.
#[derive(Clone)]
pub struct Authorize {
    metrics: Arc<Metrics>,
}

impl Authorize {
    /// With the rules in force: none yet.
    pub fn new(metrics: Arc<Metrics>) -> Authorize {
        Authorize { metrics }
    }

    fn permit<M>(&self, message: Named<M>) -> Permitted<M> {
        self.metrics.allowed();
        Permitted(message)
    }
}

impl<N: Next<Permitted<Box<Addressed>>>> Stage<Named<Box<Addressed>>, N> for Authorize {
    type Reply = N::Reply;

    async fn handle(&self, call: Named<Box<Addressed>>, next: &N) -> Result<N::Reply, Failure> {
        next.run(self.permit(call)).await
    }
}

impl<N: Next<Permitted<List>>> Stage<Named<List>, N> for Authorize {
    type Reply = N::Reply;

    async fn handle(&self, list: Named<List>, next: &N) -> Result<N::Reply, Failure> {
        // Everybody sees the same, so the prepared list is the answer; with rules this is where it is filtered.
        next.run(Permitted(list)).await
    }
}
