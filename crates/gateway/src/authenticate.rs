//! Says who sends a message. For now everybody is anonymous; a later issue reads tokens and keys here.
//!
//! Knows credentials. What a principal may do is the business of [`crate::authorize`].

use crate::message::{Identified, Incoming};
use crate::reply::Failure;
use crate::stage::{Next, Stage};

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Nobody in particular.
    Anonymous,
}

impl Principal {
    /// What sessions and sealed tokens are bound to.
    pub fn key(&self) -> &str {
        match self {
            Principal::Anonymous => "anonymous",
        }
    }
}

/// The stage.
#[derive(Clone, Default)]
pub struct Authenticate;

impl<M: Send + 'static, N: Next<Identified<M>>> Stage<Incoming<M>, N> for Authenticate {
    type Reply = N::Reply;

    async fn handle(&self, incoming: Incoming<M>, next: &N) -> Result<N::Reply, Failure> {
        let Incoming { context, message } = incoming;
        next.run(Identified { context, principal: Principal::Anonymous, message }).await
    }
}
