//! A target that takes its time: progress on the way, and an end as soon as nobody wants the answer any more.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often it says how far it is.
const TICK: Duration = Duration::from_millis(500);

/// The server.
#[derive(Clone)]
pub struct Slow;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SlowEcho {
    /// What to say in the end.
    #[schemars(length(max = 10_000))]
    text: String,
    /// How long to take.
    #[serde(default = "three_seconds")]
    #[schemars(range(min = 0, max = 300))]
    seconds: f64,
}

fn three_seconds() -> f64 {
    3.0
}

#[tool_router]
impl Slow {
    /// Repeat a text after some seconds. Reports progress twice a second and stops at once when the call is cancelled.
    #[tool(annotations(title = "Slow echo", read_only_hint = true, open_world_hint = false))]
    async fn slow_echo(&self, Parameters(SlowEcho { text, seconds }): Parameters<SlowEcho>, context: RequestContext<RoleServer>) -> CallToolResult {
        if !(0.0..=300.0).contains(&seconds) {
            return CallToolResult::error(vec![ContentBlock::text("`seconds` must be 0 to 300")]);
        }
        tokio::select! {
            () = wait(Duration::from_secs_f64(seconds), &context) => CallToolResult::success(vec![ContentBlock::text(text)]),
            // Nobody reads this answer; returning is what ends the work.
            () = context.ct.cancelled() => CallToolResult::error(vec![ContentBlock::text("cancelled")]),
        }
    }
}

#[tool_handler(name = "transom-demo-slow", instructions = "Takes its time, to show progress, timeouts and cancellation.")]
impl ServerHandler for Slow {}

async fn wait(whole: Duration, context: &RequestContext<RoleServer>) {
    let begin = Instant::now();
    loop {
        let passed = begin.elapsed();
        let left = whole.saturating_sub(passed);
        if left.is_zero() {
            return;
        }
        sleep(left.min(TICK)).await;
        if let Some(token) = context.meta.get_progress_token() {
            let passed = begin.elapsed().min(whole).as_secs_f64();
            let total = whole.as_secs_f64();
            let progress = ProgressNotificationParam::new(token, passed).with_total(total).with_message(format!("{passed:.1} of {total:.1} seconds"));
            // Progress is a courtesy: a client that does not hear it still gets its answer.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
}
