//! The client of rmcp, the Rust SDK, which takes the same steps as the others (see [`crate::talk`]) in this process.

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ProgressNotificationParam, ProtocolVersion, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RequestHandle, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than any one step takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What it was told outside of answers.
struct Ears {
    progress: mpsc::UnboundedSender<ProgressNotificationParam>,
    /// Of which list.
    changes: mpsc::UnboundedSender<&'static str>,
}

impl ClientHandler for Ears {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        // Nobody listens any more when the conversation is over.
        let _ = self.progress.send(params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.changes.send("tools");
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.changes.send("resources");
    }
}

struct Conversation {
    client: RunningService<RoleClient, Ears>,
    progress: mpsc::UnboundedReceiver<ProgressNotificationParam>,
    changes: mpsc::UnboundedReceiver<&'static str>,
    is_modern: bool,
}

/// Has this conversation with whoever is at `url`.
pub async fn talk(url: &str, is_modern: bool, steps: &[Value]) -> Vec<Value> {
    // Its HTTP client wants one even where nothing is encrypted; the second conversation finds the first one's.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (progress_sender, progress) = mpsc::unbounded_channel();
    let (changes_sender, changes) = mpsc::unbounded_channel();
    let lifecycle = if is_modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let ears = Ears { progress: progress_sender, changes: changes_sender };
    let client = ears.serve_with_lifecycle(StreamableHttpClientTransport::from_uri(url), lifecycle).await.expect("rmcp connects");
    let mut conversation = Conversation { client, progress, changes, is_modern };
    let mut replies = Vec::new();
    for step in steps {
        replies.push(match conversation.take(step).await {
            Ok(reply) => reply,
            Err(ServiceError::McpError(error)) => json!({"error": {"code": error.code.0, "message": error.message}}),
            Err(error) => panic!("rmcp, {step}: {error}"),
        });
    }
    conversation.client.cancel().await.expect("rmcp ends");
    replies
}

impl Conversation {
    async fn take(&mut self, step: &Value) -> Result<Value, ServiceError> {
        if let Some(tool) = step["cancel"].as_str() {
            let call = self.start(tool, &step["arguments"]).await?;
            let token = call.progress_token.clone();
            self.reported(|progress| progress.progress_token == token).await;
            call.cancel(None).await?;
            return Ok(json!({"cancelled": true}));
        }
        if let Some(tool) = step["change"].as_str() {
            return self.change(tool, step).await;
        }
        let Some(tool) = step["call"].as_str() else { return Ok(json!({"tools": self.client.list_all_tools().await?})) };
        let call = self.start(tool, &step["arguments"]).await?;
        let token = call.progress_token.clone();
        let result = match timeout(PATIENCE, call.await_response()).await.expect("an answer in time")? {
            ServerResult::CallToolResult(result) => json!(result),
            other => panic!("rmcp, {step}: {other:?}"),
        };
        if step["progress"] != true {
            return Ok(result);
        }
        let mut progress = Vec::new();
        while let Ok(step) = self.progress.try_recv() {
            if step.progress_token == token {
                progress.push(json!([step.progress as i64, step.total.unwrap_or_default() as i64]));
            }
        }
        Ok(json!({"progress": progress, "result": result}))
    }

    async fn start(&self, tool: &str, arguments: &Value) -> Result<RequestHandle<RoleClient>, ServiceError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.as_object().cloned().unwrap_or_default());
        self.client.send_cancellable_request(ClientRequest::CallToolRequest(CallToolRequest::new(params)), PeerRequestOptions::no_options()).await
    }

    async fn reported(&mut self, is_it: impl Fn(&ProgressNotificationParam) -> bool) {
        let wait = async { while self.progress.recv().await.is_some_and(|progress| !is_it(&progress)) {} };
        timeout(PATIENCE, wait).await.expect("progress in time");
    }

    /// Changes a list, and waits until it was told so and finds what is new.
    async fn change(&mut self, tool: &str, step: &Value) -> Result<Value, ServiceError> {
        let of = step["of"].as_str().unwrap_or("tools");
        let filter = SubscriptionFilter::builder();
        let filter = if of == "tools" { filter.tools_list_changed() } else { filter.resources_list_changed() };
        let mut subscription = if self.is_modern { Some(self.client.listen(filter.build()).await?) } else { None };
        self.start(tool, &step["arguments"]).await?.await_response().await?;
        let told = async {
            loop {
                match &mut subscription {
                    Some(subscription) => drop(subscription.next().await?),
                    None => while self.changes.recv().await.is_some_and(|changed| changed != of) {},
                }
                let is_found = if of == "tools" {
                    self.client.list_all_tools().await?.iter().any(|tool| step["expect"] == *tool.name)
                } else {
                    self.client.list_all_resources().await?.iter().any(|resource| step["expect"] == *resource.uri)
                };
                if is_found {
                    return Ok(json!({"changed": true}));
                }
            }
        };
        timeout(PATIENCE, told).await.expect("the change in time")
    }
}
