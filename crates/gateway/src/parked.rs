//! Calls of legacy targets that wait for a modern client to answer a question.
//!
//! A legacy target asks in the middle of a call and waits; a modern client is asked by a result, and answers with another
//! request. In between the call waits here, alive, so that it is run once however often the client comes back. There are so
//! many and no more, each has its time, and whoever takes one out has it for good.

use crate::authenticate::Principal;
use crate::authenticate::shares::{Share, Shares};
use crate::reply::Failure;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use transom_protocol::RpcError;
use transom_registry::mask::Mask;
use transom_registry::pin::Pin;
use transom_upstream::Outbox;

/// The most calls that wait.
const CALLS: usize = 256;
/// Of one authenticated principal.
const CALLS_EACH: usize = 16;
/// At one target: each keeps a place there that others could use.
const CALLS_AT_TARGET: usize = 64;
/// What their requests may hold, in bytes.
const BYTES: usize = 64 << 20;
/// How long a call waits for its client.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How long a call that has ended meanwhile is kept for its client to hear of it.
const AFTER_END: Duration = Duration::from_secs(60);

/// Leads back to a call that waits: random, and known to whoever can open the seal around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u128);

/// A call in the middle of a conversation.
pub struct Waiting {
    /// The call itself, to be polled until it is done.
    pub call: BoxFuture<'static, Result<Bytes, Failure>>,
    /// How it ended, if it has.
    pub done: Option<Result<Bytes, Failure>>,
    /// What its target says on the way.
    pub outbox: Arc<Outbox>,
    /// What its client owes an answer to.
    pub open: Vec<Question>,
    /// How many questions there were.
    pub asked: u32,
    /// What its arguments were: those of a retry are never sent, so they must not say anything else.
    pub arguments: Pin,
    /// The secrets that may come back, as they were when it was sent.
    pub mask: Option<Arc<Mask>>,
    /// Its target.
    pub target: Arc<str>,
    /// How many bytes its request was.
    pub bytes: usize,
}

/// A question of a target that waits for its answer.
pub struct Question {
    /// The client's name for it.
    pub key: String,
    /// Its method.
    pub method: String,
    /// Its params, JSON.
    pub params: Bytes,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Result<Bytes, RpcError>>,
}

/// Why a ticket leads nowhere.
pub enum Lost {
    /// Used, expired, or of another life of the gateway.
    Unknown,
    /// It is for a call with other arguments.
    OtherArguments,
}

/// Every call that waits.
pub struct Parked {
    calls: Mutex<HashMap<Ticket, Place>>,
    shares: Arc<Shares>,
}

struct Place {
    arguments: Pin,
    target: Arc<str>,
    bytes: usize,
    /// Asks the keeper for the call.
    take: oneshot::Sender<oneshot::Sender<Box<Waiting>>>,
    _share: Share,
}

impl Parked {
    /// None yet.
    pub fn new() -> Arc<Parked> {
        Arc::new(Parked { calls: Mutex::default(), shares: Shares::new(CALLS_EACH) })
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.calls.lock().map_or(0, |calls| calls.len())
    }

    /// Lets a call wait; gives it back if there is no room.
    pub fn park(self: &Arc<Self>, principal: &Principal, waiting: Box<Waiting>) -> Result<Ticket, Box<Waiting>> {
        let Some(share) = self.shares.take(principal) else { return Err(waiting) };
        let ticket = Ticket(rand::random());
        let (take, taken) = oneshot::channel();
        {
            let Ok(mut calls) = self.calls.lock() else { return Err(waiting) };
            let at_target = calls.values().filter(|place| place.target == waiting.target).count();
            let bytes: usize = calls.values().map(|place| place.bytes).sum();
            if calls.len() >= CALLS || at_target >= CALLS_AT_TARGET || bytes + waiting.bytes > BYTES {
                return Err(waiting);
            }
            let place = Place { arguments: waiting.arguments, target: waiting.target.clone(), bytes: waiting.bytes, take, _share: share };
            calls.insert(ticket, place);
        }
        tokio::spawn(keep(self.clone(), ticket, waiting, taken));
        Ok(ticket)
    }

    /// Takes a call out, once.
    pub async fn take(&self, ticket: Ticket, arguments: Pin) -> Result<Box<Waiting>, Lost> {
        let place = {
            let mut calls = self.calls.lock().map_err(|_| Lost::Unknown)?;
            match calls.get(&ticket) {
                None => return Err(Lost::Unknown),
                Some(place) if place.arguments != arguments => return Err(Lost::OtherArguments),
                Some(_) => calls.remove(&ticket).ok_or(Lost::Unknown)?,
            }
        };
        let (back, waiting) = oneshot::channel();
        place.take.send(back).map_err(|_| Lost::Unknown)?;
        waiting.await.map_err(|_| Lost::Unknown)
    }
}

/// Keeps a call going until its client comes back for it or its time is over; then dropping it takes it back at its target.
async fn keep(parked: Arc<Parked>, ticket: Ticket, mut waiting: Box<Waiting>, mut taken: oneshot::Receiver<oneshot::Sender<Box<Waiting>>>) {
    let mut end = Box::pin(tokio::time::sleep(PATIENCE));
    loop {
        tokio::select! {
            biased;
            back = &mut taken => {
                if let Ok(back) = back {
                    // A client that has gone meanwhile has taken its call back.
                    let _ = back.send(waiting);
                }
                return;
            }
            () = &mut end => break,
            done = waiting.call.as_mut(), if waiting.done.is_none() => {
                waiting.done = Some(done);
                let soon = Instant::now() + AFTER_END;
                if soon < end.deadline() {
                    end.as_mut().reset(soon);
                }
            }
        }
    }
    if let Ok(mut calls) = parked.calls.lock() {
        calls.remove(&ticket);
    }
}
