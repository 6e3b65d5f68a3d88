//! `transom list`: the tools that a gateway offers.

use super::{Output, Reach};
use crate::client::{Client, Tool};
use crate::failure::Failure;
use crate::pretty::pretty;
use crate::terminal::{self, harmless};
use transom_protocol::Json;

/// Names longer than this do not push everybody else's description away.
const WIDEST_NAME: usize = 40;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    reach: Reach,
    /// How to print the tools: as lines, or as a JSON array of what the server sent
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Output,
}

/// Prints the tools.
pub async fn run(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect(args.reach.endpoint()?).await?;
    let tools = client.tools().await;
    client.close().await;
    let tools = tools?;
    match args.output {
        Output::Json => terminal::data(&as_json(&tools)),
        Output::Text if tools.is_empty() => terminal::note("no tools: no target offers any, or none is connected yet"),
        Output::Text => terminal::data(&as_lines(&tools)),
    }
    Ok(())
}

fn as_json(tools: &[Tool]) -> String {
    let entries: Vec<&str> = tools.iter().map(|tool| tool.json().raw()).collect();
    pretty(Json::trusted(&format!("[{}]", entries.join(","))))
}

/// One line a tool: its name, then the first line of its description, aligned.
fn as_lines(tools: &[Tool]) -> String {
    let rows: Vec<(String, String)> = tools.iter().map(|tool| (one_line(&tool.name()), one_line(&tool.description()))).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).filter(|width| *width <= WIDEST_NAME).max().unwrap_or(0);
    let lines: Vec<String> = rows.iter().map(|(name, description)| format!("{name:width$}  {description}").trim_end().to_string()).collect();
    lines.join("\n")
}

fn one_line(text: &str) -> String {
    harmless(text.trim().lines().next().unwrap_or("")).replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<Tool> {
        let long = format!(r#"{{"name":"{}","description":"Long."}}"#, "x".repeat(50));
        [r#"{"name":"a","description":"First.\nSecond."}"#, r#"{"name":"get_forecast","title":"Forecast","big":1e400}"#, r#"{"name":"bare"}"#, &long]
            .map(Tool::of_json)
            .to_vec()
    }

    #[test]
    fn a_tool_is_a_line_and_descriptions_are_aligned() {
        let long = "x".repeat(50);
        assert_eq!(as_lines(&tools()), format!("a             First.\nget_forecast  Forecast\nbare\n{long}  Long."));
    }

    #[test]
    fn a_name_cannot_drive_the_terminal() {
        let lines = as_lines(&[Tool::of_json(r#"{"name":"a\u001b[2J","description":"\u0007b\tc"}"#)]);
        assert_eq!(lines, "a\u{fffd}[2J  \u{fffd}b c");
    }

    #[test]
    fn json_is_what_the_server_sent() {
        let text = as_json(&tools());
        assert!(text.starts_with("[\n  {\n    \"name\": \"a\",") && text.contains("1e400"), "{text}");
    }
}
