//! The targets that `transom demo` puts behind the gateway.
//!
//! Each is an ordinary MCP server over stdio, compiled into this binary and started as `transom demo-target NAME`: the
//! gateway reaches it the way it reaches anybody's server. Nothing here uses the network. What agents see of them is up to the
//! registry in [`setup`].

mod flaky;
mod setup;
mod slow;
mod tickets;
mod weather;

use crate::failure::{Exit, Failure};
use rmcp::transport::stdio;
use rmcp::{ServerHandler, ServiceExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use transom_upstream::{EraChoice, Sessions, TargetSpec, Transport};

pub use setup::tools;

/// A built-in target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DemoTarget {
    /// Forecasts and alerts, as messy as real services write them.
    Weather,
    /// A ticket system in memory.
    Tickets,
    /// Takes its time, and says how far it is.
    Slow,
    /// Fails on command.
    Flaky,
}

impl DemoTarget {
    const ALL: [DemoTarget; 4] = [DemoTarget::Weather, DemoTarget::Tickets, DemoTarget::Slow, DemoTarget::Flaky];

    fn name(self) -> &'static str {
        match self {
            DemoTarget::Weather => "weather",
            DemoTarget::Tickets => "tickets",
            DemoTarget::Slow => "slow",
            DemoTarget::Flaky => "flaky",
        }
    }
}

/// The built-in targets as a config would write them: this very program, with another verb.
pub fn targets() -> Result<Vec<TargetSpec>, Failure> {
    let program = program()?;
    let spec = |target: DemoTarget| TargetSpec {
        name: target.name().into(),
        transport: Transport::Stdio {
            cmd: program.to_string_lossy().into_owned(),
            args: vec!["demo-target".into(), target.name().into()],
            env: Vec::new(),
            cwd: None,
            limits: Default::default(),
        },
        era: EraChoice::Auto,
        sessions: Sessions::Shared,
        timeout: Duration::from_secs(60),
        allow_server_requests: false,
        aliases: Vec::new(),
    };
    Ok(DemoTarget::ALL.into_iter().map(spec).collect())
}

/// Leaves targets and registry in a folder, as files of somebody's own.
pub fn write(folder: &Path) -> Result<(), Failure> {
    setup::write(folder, &program()?)
}

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Unexpected, format!("cannot find this program's own file, which the demo starts its targets from: {error}"))
    })
}

/// Is that target, on standard input and output, until the input ends.
pub async fn serve(target: DemoTarget) -> Result<(), Failure> {
    match target {
        DemoTarget::Weather => until_input_ends(weather::Weather).await,
        DemoTarget::Tickets => until_input_ends(tickets::Tickets::with_samples()).await,
        DemoTarget::Slow => until_input_ends(slow::Slow).await,
        DemoTarget::Flaky => until_input_ends(flaky::Flaky).await,
    }
}

async fn until_input_ends(server: impl ServerHandler) -> Result<(), Failure> {
    let unexpected = |error: &dyn std::fmt::Display| Failure::new(Exit::Unexpected, format!("this demo target stopped: {error}"));
    match server.serve(stdio()).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| unexpected(&error)),
        // Whoever started it went away before saying anything; that is an end like any other.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(unexpected(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{CallToolRequestParams, CallToolResult, Tool};
    use rmcp::service::{RoleClient, RunningService};
    use serde_json::{Value, json};

    /// A client of one target, over a pipe in memory.
    async fn client(server: impl ServerHandler) -> RunningService<RoleClient, ()> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move { server.serve(theirs).await.unwrap().waiting().await.unwrap() });
        ().serve(ours).await.unwrap()
    }

    async fn call(client: &RunningService<RoleClient, ()>, tool: &'static str, arguments: Value) -> CallToolResult {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
    }

    fn text(result: &CallToolResult) -> String {
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.clone()).collect()
    }

    async fn every_tool() -> Vec<Tool> {
        let mut tools = client(weather::Weather).await.list_all_tools().await.unwrap();
        tools.extend(client(tickets::Tickets::with_samples()).await.list_all_tools().await.unwrap());
        tools.extend(client(slow::Slow).await.list_all_tools().await.unwrap());
        tools.extend(client(flaky::Flaky).await.list_all_tools().await.unwrap());
        tools
    }

    #[tokio::test]
    async fn every_tool_says_what_it_does_what_it_takes_and_what_it_changes() {
        let tools = every_tool().await;
        let mut names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        names.sort();
        assert_eq!(
            names,
            ["close_ticket", "create_ticket", "fail_on_command", "get_alerts", "get_ticket", "search_tickets", "slow_echo", "wx_forecast_v2"]
        );
        for tool in &tools {
            let annotations = tool.annotations.as_ref().unwrap();
            assert!(annotations.read_only_hint.is_some() && annotations.open_world_hint == Some(false), "{}", tool.name);
            assert!(tool.description.as_ref().is_some_and(|text| text.len() > 30), "{}", tool.name);
            let schema = Value::Object((*tool.input_schema).clone());
            assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)), "{}", tool.name);
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{}.{name}", tool.name);
                assert!(property.get("$ref").is_none(), "{}.{name}: a schema that people read should not send them elsewhere", tool.name);
            }
        }
    }

    #[tokio::test]
    async fn a_forecast_is_the_same_each_time_and_known_for_every_place() {
        let client = client(weather::Weather).await;
        let query = |q: &str, num_days: u8, units: &str| json!({"q": q, "num_days": num_days, "api_key": "demo-key", "units": units});
        let oslo = call(&client, "wx_forecast_v2", query("Oslo", 3, "metric")).await;
        assert_eq!(oslo, call(&client, "wx_forecast_v2", query(" Oslo ", 3, "metric")).await);
        let nowhere = call(&client, "wx_forecast_v2", query("Ankh-Morpork", 5, "metric")).await;
        let body = nowhere.structured_content.unwrap();
        assert_eq!(body["data"]["forecast"]["periods"].as_array().unwrap().len(), 5);
        assert_eq!(body["data"]["location"]["match"]["quality"], "approximate");
        let refused = call(&client, "wx_forecast_v2", query("Oslo", 8, "metric")).await;
        assert_eq!(refused.is_error, Some(true));
        assert!(text(&refused).contains("1 to 7"), "{}", text(&refused));
        let alerts = call(&client, "get_alerts", json!({"region": "Vestland"})).await;
        assert!(alerts.structured_content.unwrap()["data"]["features"].is_array());
    }

    #[tokio::test]
    async fn a_forecast_needs_a_key_and_tells_it_to_nobody_who_does_not_debug() {
        let client = client(weather::Weather).await;
        let refused = call(&client, "wx_forecast_v2", json!({"q": "Oslo", "api_key": "short", "units": "metric"})).await;
        assert!(refused.is_error == Some(true) && text(&refused).contains("api_key"));
        let quiet = call(&client, "wx_forecast_v2", json!({"q": "Oslo", "api_key": "canary-key", "units": "imperial"})).await;
        let body = quiet.structured_content.clone().unwrap();
        assert_eq!(body["data"]["current"]["temperature"]["unitCode"], "wmoUnit:degF");
        assert!(!body.to_string().contains("canary-key") && !text(&quiet).contains("canary-key"));
        let chatty = call(&client, "wx_forecast_v2", json!({"q": "Oslo", "api_key": "canary-key", "units": "metric", "debug": true})).await;
        assert_eq!(chatty.structured_content.unwrap()["_internal"]["request"]["api_key"], "canary-key");
    }

    /// The registry over what the targets really offer: no problem, nothing quarantined, nothing raw left in sight.
    #[tokio::test]
    async fn the_registry_fits_the_targets() {
        struct Nothing;
        impl transom_registry::template::Environment for Nothing {
            fn variable(&self, _: &str) -> Option<String> {
                None
            }
            fn file(&self, _: &Path) -> Result<String, String> {
                Err("no files here".into())
            }
        }
        let offer = |target: &str, tools: Vec<Tool>| {
            let read = |tool: &Tool| std::sync::Arc::new(transom_registry::SourceTool::read(&serde_json::to_string(tool).unwrap()).unwrap());
            transom_registry::Offer { target: target.into(), available: true, tools: tools.iter().map(read).collect() }
        };
        let weather = offer("weather", client(weather::Weather).await.list_all_tools().await.unwrap());
        let tickets = offer("tickets", client(tickets::Tickets::with_samples()).await.list_all_tools().await.unwrap());
        let registry = tools();
        let documents = [transom_registry::Document { name: &registry.name, text: &registry.text }];
        let compiled = transom_registry::compile(&documents, &Nothing, &transom_registry::Options::default()).unwrap();
        assert!(compiled.problems.is_empty(), "{:?}", compiled.problems);
        let bound = compiled.plan.bind(&transom_registry::Catalog { targets: vec![weather, tickets] });
        assert!(bound.problems().is_empty(), "{:?}", bound.problems());
        let listed: Vec<&str> = bound.list().map(|tool| tool.name()).collect();
        assert_eq!(listed, ["get_forecast", "find_tickets", "get_alerts", "close_ticket", "create_ticket", "get_ticket"]);
        assert!(!bound.list().any(|tool| tool.json().contains("api_key")));
    }

    #[tokio::test]
    async fn a_ticket_is_created_found_closed_and_not_closed_twice() {
        let client = client(tickets::Tickets::with_samples()).await;
        let made = call(&client, "create_ticket", json!({"title": "Printer on fire", "priority": "urgent"})).await.structured_content.unwrap();
        assert_eq!((&made["status"], &made["priority"]), (&json!("open"), &json!("urgent")));
        let id = made["id"].clone();
        assert_eq!(call(&client, "get_ticket", json!({"id": id})).await.structured_content.unwrap(), made);
        let found = call(&client, "search_tickets", json!({"query": "PRINTER on", "status": "open"})).await.structured_content.unwrap();
        assert_eq!((&found["total"], &found["tickets"][0]["id"]), (&json!(1), &id));
        let closed = call(&client, "close_ticket", json!({"id": id, "resolution": "Put out."})).await.structured_content.unwrap();
        assert_eq!(closed["status"], "closed");
        let again = call(&client, "close_ticket", json!({"id": id, "resolution": "Again."})).await;
        assert!(again.is_error == Some(true) && text(&again).contains("already closed"));
        let missing = call(&client, "get_ticket", json!({"id": "T-999"})).await;
        assert!(missing.is_error == Some(true) && text(&missing).contains("T-999"));
    }

    #[tokio::test]
    async fn the_flaky_one_fails_the_way_it_is_told() {
        let client = client(flaky::Flaky).await;
        assert!(text(&call(&client, "fail_on_command", json!({"how": "ok"})).await).contains("nothing failed"));
        let said = call(&client, "fail_on_command", json!({"how": "isError", "message": "no luck"})).await;
        assert_eq!((said.is_error, text(&said).as_str()), (Some(true), "no luck"));
        let mut arguments = serde_json::Map::new();
        arguments.insert("how".into(), json!("error"));
        let error = client.call_tool(CallToolRequestParams::new("fail_on_command").with_arguments(arguments)).await.unwrap_err();
        assert!(error.to_string().contains("on command"), "{error}");
    }
}
