//! `transom call TOOL k=v…`: one call, its arguments converted by the tool's schema.

use super::{Output, Reach};
use crate::arguments;
use crate::client::{Client, ClientError, Tool};
use crate::failure::{Exit, Failure};
use crate::pretty::pretty;
use crate::terminal::{self, harmless};
use transom_protocol::Json;
use transom_protocol::error::{INVALID_PARAMS, OVERLOADED, UPSTREAM_TIMEOUT};
use transom_protocol::json::Kind;
use transom_protocol::write;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The tool, by the name that `transom list` shows
    tool: String,
    /// Arguments: `key=value` (converted by the tool's schema), `a.b=value` (inside an object), `key:=JSON`
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// All arguments as a JSON object; `key=value` goes over it
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    #[command(flatten)]
    reach: Reach,
    /// How to print the result: its text, or the whole of it as JSON
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Output,
}

/// Calls the tool and prints what it says.
pub async fn run(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect(args.reach.endpoint()?).await?;
    let result = call(&mut client, &args).await;
    client.close().await;
    let result = result?;
    let result = Json::trusted(&result);
    if args.output == Output::Json {
        terminal::data(&pretty(result));
    }
    print(&read(result), args.output)
}

async fn call(client: &mut Client, args: &Args) -> Result<String, Failure> {
    let tools = client.tools().await?;
    let listed = tools.iter().find(|tool| tool.name() == args.tool).cloned();
    let known = match listed {
        Some(tool) => Some(tool),
        None => described(client, &args.tool, &tools).await?,
    };
    let is_known = known.is_some();
    // It may be another spelling of a tool, or one whose target is down: the gateway knows.
    let tool = known.unwrap_or_else(|| Tool::of_json(&format!("{{\"name\":{}}}", write::quoted(&args.tool))));
    let arguments = arguments::build(&tool.input_schema(), args.args.as_deref(), &args.pairs)
        .map_err(|error| Failure::new(Exit::Unexpected, format!("tool `{}`: {error}", args.tool)))?;
    client.call(&tool, &arguments).await.map_err(|error| match error {
        ClientError::Rpc { code: INVALID_PARAMS, message, .. } if !is_known && message.starts_with("Tool not found") => unknown(&args.tool, &tools),
        error => failed(&args.tool, error),
    })
}

/// A tool that is not on the list of a gateway with `discovery: search`, which describes it to those who ask.
async fn described(client: &mut Client, name: &str, tools: &[Tool]) -> Result<Option<Tool>, Failure> {
    let own = |name: &str| tools.iter().find(|tool| tool.name() == name);
    let (Some(describe), Some(_), Some(_)) = (own("describe_tool"), own("catalog_search"), own("invoke_tool")) else { return Ok(None) };
    let result = match client.call(describe, &format!("{{\"name\":{}}}", write::quoted(name))).await {
        Ok(result) => result,
        // It says so of a tool that is not there.
        Err(ClientError::Rpc { code: INVALID_PARAMS, .. }) => return Ok(None),
        Err(error) => return Err(failed(name, error)),
    };
    let definition = Json::trusted(&result).get("structuredContent").filter(|definition| definition.kind() == Kind::Object);
    Ok(definition.map(|definition| Tool::of_json(definition.raw())))
}

/// An error in place of a result. Codes of the gateway's own that say it did not get through count as unreachable.
fn failed(tool: &str, error: ClientError) -> Failure {
    match error {
        ClientError::Rpc { code, message, .. } => {
            let exit = if (OVERLOADED..=UPSTREAM_TIMEOUT).contains(&code) { Exit::Unreachable } else { Exit::Tool };
            Failure::new(exit, harmless(&format!("tool `{tool}`: {message} (code {code})")))
        }
        other => other.into(),
    }
}

fn unknown(name: &str, tools: &[Tool]) -> Failure {
    let failure = Failure::new(Exit::Tool, format!("no tool `{}` here", harmless(name)));
    let names = tools.iter().map(Tool::name);
    let nearest =
        names.map(|other| (strsim::jaro_winkler(name, &other), other)).max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(nearness, _)| *nearness > 0.75);
    match nearest {
        Some((_, other)) => failure.hint(format!("did you mean `{}`? `transom list` shows all {}", harmless(&other), tools.len())),
        None if tools.is_empty() => failure.hint("the gateway offers no tools at all; its targets may not be connected yet"),
        None => failure.hint(format!("`transom list` shows all {}", tools.len())),
    }
}

/// A result, sorted by where its parts go.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reading {
    /// The texts of the result; its structured content if there are none.
    text: String,
    /// What a terminal cannot show.
    remarks: Vec<String>,
    is_error: bool,
    wants_input: bool,
}

fn read(result: Json<'_>) -> Reading {
    let mut reading = Reading {
        is_error: result.get("isError").and_then(Json::bool) == Some(true),
        wants_input: result.get("resultType").and_then(Json::string).as_deref() == Some("input_required"),
        ..Reading::default()
    };
    let mut texts: Vec<String> = Vec::new();
    for block in result.get("content").filter(|content| content.kind() == Kind::Array).into_iter().flat_map(Json::elements) {
        let member = |key: &str| block.get(key).and_then(Json::string).map(|text| text.into_owned()).unwrap_or_default();
        match member("type").as_str() {
            "text" => texts.push(member("text")),
            kind @ ("image" | "audio") => reading.remarks.push(format!("[{kind} {}, {} bytes of base64]", member("mimeType"), member("data").len())),
            "resource_link" => reading.remarks.push(format!("[link to {}]", member("uri"))),
            "resource" => {
                let uri = block.get("resource").and_then(|resource| resource.get("uri")).and_then(Json::string).unwrap_or_default();
                reading.remarks.push(format!("[resource {uri}]"));
            }
            other => reading.remarks.push(format!("[content of type `{other}`]")),
        }
    }
    reading.text = match (texts.is_empty(), result.get("structuredContent")) {
        (true, Some(structured)) => pretty(structured),
        _ => texts.join("\n"),
    };
    reading
}

fn print(reading: &Reading, output: Output) -> Result<(), Failure> {
    if output == Output::Text {
        for remark in &reading.remarks {
            terminal::note(&harmless(remark));
        }
    }
    if reading.wants_input {
        return Err(Failure::new(Exit::Unexpected, "the tool asks for more input, which this command cannot give")
            .hint("call it from a client that supports elicitation"));
    }
    if reading.is_error {
        let text = if reading.text.is_empty() { "error: the tool says that it failed, and nothing more" } else { &reading.text };
        return Err(Failure::rendered(Exit::Tool, harmless(text)));
    }
    if output == Output::Text && !reading.text.is_empty() {
        terminal::foreign_data(&reading.text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_printed_and_the_rest_is_remarked_upon() {
        let result = r#"{"content":[{"type":"text","text":"a\n"},{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"text","text":"b"},
            {"type":"resource_link","uri":"file:///x","name":"x"},{"type":"resource","resource":{"uri":"mcp://y"}},{"type":"hologram"}],"structuredContent":{"a":1}}"#;
        let reading = read(Json::trusted(result));
        assert_eq!(reading.text, "a\n\nb");
        assert_eq!(
            reading.remarks,
            ["[image image/png, 4 bytes of base64]", "[link to file:///x]", "[resource mcp://y]", "[content of type `hologram`]"]
        );
        assert!(!reading.is_error);
    }

    #[test]
    fn structured_content_stands_in_where_there_is_no_text() {
        assert_eq!(read(Json::trusted(r#"{"structuredContent":{"a":1.50}}"#)).text, "{\n  \"a\": 1.50\n}");
        assert_eq!(read(Json::trusted(r#"{"content":[]}"#)), Reading::default());
        assert_eq!(read(Json::trusted("7")), Reading::default());
    }

    #[test]
    fn a_tool_that_says_it_failed_is_exit_code_5() {
        let failure = print(&read(Json::trusted(r#"{"content":[{"type":"text","text":"no luck"}],"isError":true}"#)), Output::Text).unwrap_err();
        assert_eq!((failure.exit, failure.to_string().as_str()), (Exit::Tool, "no luck"));
        let failure = print(&read(Json::trusted(r#"{"resultType":"input_required"}"#)), Output::Text).unwrap_err();
        assert_eq!(failure.exit, Exit::Unexpected);
    }

    #[test]
    fn an_unknown_tool_is_exit_code_5_with_the_nearest_name() {
        let tools = [r#"{"name":"get_forecast"}"#, r#"{"name":"get_alerts"}"#].map(Tool::of_json);
        let failure = unknown("get_forcast", &tools);
        assert_eq!(failure.exit, Exit::Tool);
        assert!(failure.to_string().contains("did you mean `get_forecast`?"), "{failure}");
        assert!(unknown("zzz", &tools).to_string().contains("shows all 2"));
        assert!(unknown("zzz", &[]).to_string().contains("no tools at all"));
    }

    #[test]
    fn what_did_not_get_through_is_exit_code_4_and_what_was_refused_5() {
        let rpc = |code| ClientError::Rpc { code, message: "m".into(), data: None };
        assert_eq!(failed("t", rpc(1002)).exit, Exit::Unreachable);
        assert_eq!(failed("t", rpc(-32602)).exit, Exit::Tool);
        assert_eq!(failed("t", rpc(1005)).exit, Exit::Tool);
    }
}
