//! A target that fails the way it is told, to show what a failure costs: its own tools and nothing else.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::Write;

/// The server.
#[derive(Clone)]
pub struct Flaky;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Command {
    /// `ok` answers; `error` is a JSON-RPC error; `isError` a result that says so; `crash` ends the process; `hang` never
    /// answers; `garbage` writes a line that is not JSON before it answers.
    how: How,
    /// What to say, where there is something to say.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    message: String,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum How {
    Ok,
    Error,
    IsError,
    Crash,
    Hang,
    Garbage,
}

#[tool_router]
impl Flaky {
    /// Fail in a way of your choice, to see what the gateway and the other targets make of it.
    #[tool(annotations(
        title = "Fail on command",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn fail_on_command(
        &self,
        Parameters(Command { how, message }): Parameters<Command>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let say = |otherwise: &str| vec![ContentBlock::text(if message.is_empty() { otherwise } else { message.as_str() })];
        match how {
            How::Ok => Ok(CallToolResult::success(say("nothing failed"))),
            How::Error => Err(ErrorData::internal_error(if message.is_empty() { "failed on command".into() } else { message }, None)),
            How::IsError => Ok(CallToolResult::error(say("failed on command"))),
            How::Crash => {
                eprintln!("crashing on command");
                std::process::exit(70)
            }
            How::Hang => {
                context.ct.cancelled().await;
                Ok(CallToolResult::error(say("cancelled")))
            }
            How::Garbage => {
                // One write of a whole line, so that it cannot end up inside a message.
                let _ = std::io::stdout().lock().write_all(b"<html>502 Bad Gateway</html>\n");
                Ok(CallToolResult::success(say("the line before this answer was not JSON")))
            }
        }
    }
}

#[tool_handler(name = "transom-demo-flaky", instructions = "Fails on command, to show what a failure costs.")]
impl ServerHandler for Flaky {}
