//! What happens to a client message, first to last. Each line is a stage, each stage a file of that name.

use crate::authenticate::Authenticate;
use crate::authorize::Authorize;
use crate::bridge::Bridge;
use crate::dispatch::Dispatch;
use crate::invoke::Invoke;
use crate::limits::LimitsStage;
use crate::message::{Call, Control, Incoming, List};
use crate::names::Names;
use crate::observe::Observe;
use crate::runtime::Runtime;
use crate::session::{Answer, SessionStage};
use crate::stage::{Door, stage};
use crate::virtualize::{Listed, Virtualize};
use bytes::Bytes;
use std::sync::Arc;
use tower::ServiceBuilder;

/// The request path, one door per kind of message.
#[derive(Clone)]
pub struct Mcp {
    /// A request addressed by name to one target.
    pub call: Door<Incoming<Box<Call>>, Bytes>,
    /// A request for a list.
    pub list: Door<Incoming<List>, Listed>,
    /// A message that ends at the gateway itself.
    pub control: Door<Incoming<Control>, Answer>,
}

/// Puts the path together.
pub fn stack(runtime: &Arc<Runtime>) -> Mcp {
    let metrics = || runtime.metrics.clone();
    let path = ServiceBuilder::new()
        .layer(stage(Observe::new(metrics()))) //             one timer, one log line
        .layer(stage(Authenticate)) //                        Incoming   -> Identified
        .layer(stage(SessionStage::new(runtime.clone()))) //  Identified -> InSession
        .layer(stage(Invoke)) //                              a call inside a call of `invoke_tool` -> that call
        .layer(stage(Names::new(runtime.clone()))) //         InSession  -> Named: exposed name <-> tool, prefixes
        .layer(stage(Authorize::new(runtime.clone()))) //     Named      -> Permitted
        .layer(stage(LimitsStage::new(runtime.clone()))) //   how much and how long
        .layer(stage(Virtualize::new(runtime.clone()))) //    Permitted  -> SourceCall: virtual tools
        .layer(stage(Bridge::new(runtime.clone()))) //        questions of servers, across the eras
        .service(Dispatch::new(metrics())); //                SourceCall -> its target
    let path = Arc::new(path);
    Mcp { call: Door::to(&path), list: Door::to(&path), control: Door::to(&path) }
}
