//! The binary `transom`: reads the command line and hands over to a verb.

mod arguments;
mod bridge;
mod brief;
mod client;
mod connect;
mod demo;
mod failure;
mod pretty;
mod published;
mod rest;
mod serve;
mod session;
mod settings;
#[allow(unsafe_code)]
mod sys;
mod terminal;
mod verbs;

use clap::{CommandFactory, Parser, Subcommand};
use failure::{Exit, Failure};
use std::path::Path;
use std::process::ExitCode;
use transom_config::ProcessEnvironment;
use transom_gateway::logging::LogFormat;
use verbs::{call, completions, demo_target, export, import, list, run, schema, serve_with, test, validate, wait_for};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One MCP endpoint in front of many MCP servers.
#[derive(Debug, Parser)]
#[command(name = "transom", version, args_conflicts_with_subcommands = true, subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(after_help = "Without a verb, `transom -f FILE` is `transom run -f FILE`. `transom demo` shows the whole thing without any file.")]
struct Line {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: run::Args,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve what the config says
    Run(run::Args),
    /// Serve built-in targets with a registry on port 3000 and say what to try
    Demo(verbs::demo::Args),
    /// List the tools of a gateway
    List(list::Args),
    /// Call a tool through a gateway
    Call(call::Args),
    /// Run a gateway in the background for one session of a coding agent
    Session(verbs::session::Args),
    /// Print the config that connects an MCP client to the gateway, or write it into the client's file
    Connect(verbs::connect::Args),
    /// Serve a client that speaks only standard input and output, by a gateway
    Stdio(verbs::stdio::Args),
    /// Print the tools of a gateway or a config as LLM providers take them, or as a TypeScript module
    Export(export::Args),
    /// Turn another program's file into a config and a registry
    Import(import::Args),
    /// Show everything that is wrong with registries and configs
    Validate(validate::Args),
    /// Run a registry's own tests
    Test(test::Args),
    /// Print the JSON Schema of a registry or of config.yaml
    Schema(schema::Args),
    /// Print completions for a shell
    Completions(completions::Args),
    /// Be one of the demo's targets, on standard input and output
    #[command(hide = true)]
    DemoTarget(demo_target::Args),
    /// Wait for a gateway to end, then end what it left behind
    #[command(hide = true)]
    Guard { instance: String },
}

fn main() -> ExitCode {
    if std::env::args_os().len() <= 1 {
        terminal::data(&Line::command().render_help().to_string());
        return code(all_said());
    }
    // A child of ours, or any process of the same user, must not read our environment and memory.
    transom_upstream::harden_process();
    transom_upstream::keep_pages_small();
    sys::give_back_early();
    transom_upstream::raise_file_limit();
    let code = code(act(Line::parse()).and_then(|()| all_said()));
    transom_gateway::logging::flush();
    code
}

/// What the shell is told.
fn code(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            transom_gateway::logging::flush();
            terminal::note(&failure.to_string());
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// A verb whose answer did not arrive has not succeeded.
fn all_said() -> Result<(), Failure> {
    match terminal::lost() {
        None => Ok(()),
        Some(error) => Err(Failure::new(Exit::Negative, format!("cannot write to standard output: {error}"))),
    }
}

/// Log lines of the verbs that serve: to standard error, for people on a terminal and for machines off it; or to a file.
fn log(file: Option<&Path>, usual: &str) -> Result<(), Failure> {
    let level = ["RUST_LOG", "LOG_LEVEL"].into_iter().find_map(|name| std::env::var(name).ok().filter(|level| !level.is_empty()));
    let level = level.as_deref().unwrap_or(usual);
    match file {
        None => transom_gateway::logging::init(LogFormat::detect(), level),
        Some(file) => transom_gateway::logging::init_file(LogFormat::Json, level, file)
            .map_err(|error| Failure::new(Exit::Negative, format!("cannot write the log to `{}`: {error}", file.display())))?,
    }
    Ok(())
}

fn act(line: Line) -> Result<(), Failure> {
    match line.verb.unwrap_or(Verb::Run(line.run)) {
        Verb::Run(args) => {
            let args = args.or_environment(&ProcessEnvironment);
            log(args.log_file.as_deref(), "info")?;
            serve_with(run::run(args))
        }
        Verb::Demo(args) => {
            let args = args.or_environment(&ProcessEnvironment);
            log(args.log_file(), "info")?;
            serve_with(verbs::demo::run(args))
        }
        Verb::List(args) => wait_for(list::run(args)),
        Verb::Call(args) => wait_for(call::run(args)),
        Verb::Session(args) => wait_for(verbs::session::run(args)),
        Verb::Connect(args) => verbs::connect::run(&args),
        Verb::Stdio(args) if args.serves() => {
            // Clients show people what their servers say there.
            log(None, "warn")?;
            serve_with(verbs::stdio::run(args))
        }
        Verb::Stdio(args) => wait_for(verbs::stdio::run(args)),
        Verb::Export(args) => wait_for(export::run(args)),
        Verb::Import(args) => import::run(args),
        Verb::Validate(args) => validate::run(args),
        Verb::Test(args) => test::run(args),
        Verb::Schema(args) => schema::run(args),
        Verb::Completions(args) => completions::run(args, Line::command()),
        Verb::DemoTarget(args) => wait_for(demo_target::run(args)),
        Verb::Guard { instance } => {
            transom_upstream::stand_guard(&instance);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Line, clap::Error> {
        Line::try_parse_from(std::iter::once("transom").chain(line.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_sound() {
        Line::command().debug_assert();
    }

    #[test]
    fn a_file_without_a_verb_is_run() {
        let line = parse("-f a.yaml -f - --port 0").unwrap();
        assert!(line.verb.is_none());
        assert_eq!(line.run.file, [Path::new("a.yaml"), Path::new("-")]);
        assert_eq!(line.run.port, Some(0));
        let Some(Verb::Run(args)) = parse("run -f a.yaml --listen 127.0.0.1:80").unwrap().verb else { panic!() };
        assert_eq!(args.listen.unwrap().port(), 80);
    }

    #[test]
    fn what_is_no_usage_is_exit_code_2() {
        for line in [
            "--port 70000",
            "run --listen nowhere",
            "call",
            "list --output xml",
            "fly",
            "validate",
            "test",
            "validate x.json --format xml",
            "export",
            "export cohere",
            "import",
            "import x.json --from make",
            "import x.json --force",
            "-f a.yaml run",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn help_names_the_verbs_that_exist_and_no_others() {
        let help = Line::command().render_help().to_string();
        for verb in ["run", "demo", "list", "call", "session", "connect", "stdio", "export", "import", "validate", "test", "schema", "completions"] {
            assert!(help.contains(&format!("\n  {verb} ")), "{verb}\n{help}");
        }
        assert!(!help.contains("demo-target") && !help.contains("explain"), "{help}");
    }
}
