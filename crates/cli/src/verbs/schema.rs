//! `transom schema`: what the files that people write may say, as JSON Schema for editors and checkers, and as a page to read.

use crate::failure::{Exit, Failure};
use crate::terminal;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Of which file
    #[arg(value_enum, default_value_t, value_name = "FILE")]
    of: Subject,
    /// For whom
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Subject {
    /// config.yaml
    #[default]
    Config,
    /// registry.json
    Registry,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// JSON Schema, for editors and checkers
    #[default]
    Json,
    /// Tables, for people
    Markdown,
}

/// Prints the schema.
pub fn run(args: Args) -> Result<(), Failure> {
    let json = |schema: serde_json::Value| {
        serde_json::to_string_pretty(&schema).map_err(|error| Failure::new(Exit::Unexpected, format!("the schema cannot be written: {error}")))
    };
    let text = match (args.of, args.format) {
        (Subject::Config, Format::Json) => json(transom_config::json_schema())?,
        (Subject::Config, Format::Markdown) => transom_config::config_page(),
        (Subject::Registry, Format::Json) => json(transom_registry::published::json_schema())?,
        (Subject::Registry, Format::Markdown) => transom_config::registry_page(),
    };
    terminal::data(&text);
    Ok(())
}
