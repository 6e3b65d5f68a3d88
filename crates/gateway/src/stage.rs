//! The only tower plumbing: a stage takes a message and what comes next, and answers.
//!
//! Stages are put together by tower's `ServiceBuilder` (see [`crate::stack`]); between them a message is passed by
//! plain `async fn`s, so that the whole path is one future. The outside sees an ordinary `tower::Service`.

use crate::reply::Failure;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Layer;

/// Whatever answers a message of this kind: the rest of the path.
pub trait Next<M>: Send + Sync + 'static {
    /// What it answers with.
    type Reply: Send;

    /// Answers the message.
    fn run(&self, message: M) -> impl Future<Output = Result<Self::Reply, Failure>> + Send;
}

/// One room on the path. `N` is the rest of it.
pub trait Stage<M, N>: Send + Sync + 'static {
    /// What it answers with.
    type Reply: Send;

    /// Handles the message, with or without the rest of the path.
    fn handle(&self, message: M, next: &N) -> impl Future<Output = Result<Self::Reply, Failure>> + Send;
}

/// Makes a layer of a stage.
pub fn stage<S>(stage: S) -> StageLayer<S> {
    StageLayer(stage)
}

/// See [`stage`].
#[derive(Clone)]
pub struct StageLayer<S>(S);

impl<S: Clone, N> Layer<N> for StageLayer<S> {
    type Service = Staged<S, N>;

    fn layer(&self, next: N) -> Staged<S, N> {
        Staged { stage: self.0.clone(), next }
    }
}

/// A stage in front of the rest of the path.
pub struct Staged<S, N> {
    stage: S,
    next: N,
}

impl<M, S, N> Next<M> for Staged<S, N>
where
    M: Send + 'static,
    N: Send + Sync + 'static,
    S: Stage<M, N>,
{
    type Reply = S::Reply;

    fn run(&self, message: M) -> impl Future<Output = Result<Self::Reply, Failure>> + Send {
        self.stage.handle(message, &self.next)
    }
}

/// A whole path, seen from outside: an ordinary tower service for one kind of message. One boxed future per message.
pub struct Door<M, R>(Arc<dyn Fn(M) -> Answering<R> + Send + Sync>);

/// An answer on its way.
pub type Answering<R> = futures_util::future::BoxFuture<'static, Result<R, Failure>>;

impl<M: Send + 'static, R> Door<M, R> {
    /// Leads to this path.
    pub fn to<P: Next<M, Reply = R>>(path: &Arc<P>) -> Door<M, R> {
        let path = path.clone();
        Door(Arc::new(move |message| {
            let path = path.clone();
            Box::pin(async move { path.run(message).await })
        }))
    }
}

impl<M, R> Clone for Door<M, R> {
    fn clone(&self) -> Self {
        Door(self.0.clone())
    }
}

impl<M, R> tower::Service<M> for Door<M, R> {
    type Response = R;
    type Error = Failure;
    type Future = Answering<R>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: M) -> Answering<R> {
        (self.0)(message)
    }
}
