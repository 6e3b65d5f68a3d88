//! `transom export FORMAT`: the tools of a gateway, or of a config, as LLM providers and programs want them.

use super::Reach;
use crate::brief::Brief;
use crate::client::{Client, Endpoint};
use crate::failure::{Exit, Failure};
use crate::pretty::pretty;
use crate::rest;
use crate::terminal::{self, harmless};
use std::path::PathBuf;
use transom_protocol::Json;
use transom_views::Tool;
use transom_views::provider::{self, Allowed, Provider, SafeNames};
use transom_views::typescript;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// For whom
    #[arg(value_enum, value_name = "FORMAT")]
    format: Format,
    /// Only these tools, with commas between them; without it all, and an empty list is none
    #[arg(long, value_name = "NAMES")]
    allowed: Option<String>,
    /// Only the tools of this target
    #[arg(long, value_name = "TARGET")]
    server: Option<String>,
    /// Write here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Start this config for as long as it takes, instead of asking a gateway that runs: everything it exposes, whoever may see it
    #[arg(short, long, value_name = "CONFIG", conflicts_with_all = ["url", "header", "bearer"])]
    file: Vec<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// Functions of OpenAI's chat completions
    Openai,
    /// The same, as Ollama takes them
    Ollama,
    /// Function declarations of Gemini
    Gemini,
    /// Tools of Anthropic's messages
    Anthropic,
    /// A TypeScript module with a function for every tool
    Typescript,
}

impl Format {
    /// `None`: no provider's.
    fn provider(self) -> Option<Provider> {
        match self {
            Format::Openai => Some(Provider::OpenAi),
            Format::Ollama => Some(Provider::Ollama),
            Format::Gemini => Some(Provider::Gemini),
            Format::Anthropic => Some(Provider::Anthropic),
            Format::Typescript => None,
        }
    }
}

/// A tool, and the target it stands on where that is known.
struct Listed {
    name: String,
    server: Option<String>,
    definition: String,
}

/// Prints the tools.
pub async fn run(args: Args) -> Result<(), Failure> {
    let text = if args.file.is_empty() {
        text(&args, &args.reach.endpoint()?).await?
    } else {
        let brief = Brief::start(&args.file, args.reach.patience()).await?;
        let text = text(&args, brief.endpoint()).await;
        brief.stop().await;
        text?
    };
    match &args.output {
        None => terminal::foreign_data(&text),
        Some(path) => {
            std::fs::write(path, ended(text)).map_err(|error| Failure::new(Exit::Negative, format!("cannot write `{}`: {error}", path.display())))?
        }
    }
    Ok(())
}

/// The tools of whoever is there, in the format asked for.
async fn text(args: &Args, endpoint: &Endpoint) -> Result<String, Failure> {
    // Which name a tool has among those of its server, a gateway knows best. A selection by tool is made here.
    if args.format.provider().is_none()
        && args.allowed.is_none()
        && let Some(module) = rest::module(endpoint, args.server.as_deref()).await?
    {
        return Ok(module);
    }
    let listed = listed(endpoint, args.server.as_deref()).await?;
    let allowed = Allowed::read(args.allowed.as_deref());
    let names = SafeNames::of(args.format.provider().unwrap_or(Provider::OpenAi), listed.iter().map(|tool| tool.name.as_str()));
    let tools = listed.iter().map(|tool| Tool {
        name: &tool.name,
        server: tool.server.as_deref(),
        own_name: &tool.name,
        qualified: None,
        is_virtual: false,
        definition: Json::trusted(&tool.definition),
    });
    let wanted = tools.filter(|tool| {
        let of_server = args.server.as_deref().is_none_or(|server| tool.server == Some(server));
        of_server && allowed.admits(tool.name, names.safe(tool.name))
    });
    for what in unmatched(args, &listed, &names) {
        terminal::note(&harmless(&format!("note: {what}")));
    }
    Ok(match args.format.provider() {
        Some(provider) => pretty(Json::trusted(&provider::export(provider, wanted, &names))),
        None => typescript::module(&wanted.collect::<Vec<_>>(), &typescript::Options::default()),
    })
}

/// What was asked for and is not there; a typo would else look like an empty gateway.
fn unmatched(args: &Args, listed: &[Listed], names: &SafeNames<'_>) -> Vec<String> {
    let of_server = |tool: &&Listed| args.server.is_none() || tool.server == args.server;
    let server = args.server.iter().filter(|_| !listed.iter().any(|tool| of_server(&tool)));
    let mut unmatched: Vec<String> = server.map(|server| format!("no tool stands on a target `{server}`")).collect();
    if unmatched.is_empty() {
        let wanted = args.allowed.iter().flat_map(|allowed| allowed.split(',')).map(str::trim).filter(|name| !name.is_empty());
        let is_there = |name: &str| listed.iter().filter(of_server).any(|tool| tool.name == name || names.safe(&tool.name) == name);
        unmatched.extend(wanted.filter(|name| !is_there(name)).map(|name| format!("no tool `{name}` here")));
    }
    unmatched
}

/// Everything that is listed. Of another MCP server than ours it is not known what stands on what.
async fn listed(endpoint: &Endpoint, server: Option<&str>) -> Result<Vec<Listed>, Failure> {
    let page = rest::beside(endpoint, "/tools");
    let answer = match &page {
        Some((url, _)) => rest::get(endpoint, url).await?,
        None => None,
    };
    if let (Some(answer), Some((_, target))) = (answer, page) {
        let tools = rest::objects(&answer).filter_map(of_page);
        return Ok(tools.filter(|tool| target.is_none() || tool.server == target).collect());
    }
    if server.is_some() {
        return Err(Failure::new(Exit::Unexpected, format!("{} does not say which target a tool stands on", endpoint.url))
            .hint("leave `--server` out, or name a Transom gateway with `--url`"));
    }
    let mut client = Client::connect(endpoint.clone()).await?;
    let tools = client.tools().await;
    client.close().await;
    let listed = |tool: &crate::client::Tool| Listed { name: tool.name(), server: None, definition: tool.json().raw().to_owned() };
    Ok(tools?.iter().map(listed).collect())
}

/// Files end with a line break.
fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn of_page(tool: Json<'_>) -> Option<Listed> {
    let text = |member: &str| tool.get(member).and_then(Json::string).map(|text| text.into_owned());
    Some(Listed { name: text("name")?, server: text("server"), definition: tool.raw().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_was_asked_for_and_is_not_there_is_named() {
        let listed = [("get_forecast", "weather"), ("a/b", "files")].map(|(name, server)| Listed {
            name: name.into(),
            server: Some(server.into()),
            definition: "{}".into(),
        });
        let names = SafeNames::of(Provider::OpenAi, listed.iter().map(|tool| tool.name.as_str()));
        for (line, expected) in [
            ("openai", &[][..]),
            ("openai --allowed get_forecast,nope", &["no tool `nope` here"]),
            ("openai --server nope --allowed get_forecast", &["no tool stands on a target `nope`"]),
            ("openai --server files --allowed get_forecast", &["no tool `get_forecast` here"]),
            ("openai --server weather --allowed get_forecast", &[]),
        ] {
            let args = Line::parse_from(std::iter::once("export").chain(line.split(' '))).args;
            assert_eq!(unmatched(&args, &listed, &names), expected, "{line}");
        }
        let safe = Line::parse_from(["export", "openai", "--allowed", names.safe("a/b")]).args;
        assert!(unmatched(&safe, &listed, &names).is_empty(), "by its safe name too");
    }
}
