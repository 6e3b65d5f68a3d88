//! `transom schema`: JSON Schemas for the files that people write, for editors and checkers.

use crate::failure::{Exit, Failure};
use crate::terminal;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Of which file
    #[arg(value_enum, default_value_t, value_name = "FILE")]
    of: Subject,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Subject {
    /// config.yaml
    #[default]
    Config,
    /// registry.json
    Registry,
}

/// Prints the schema.
pub fn run(args: Args) -> Result<(), Failure> {
    let schema = match args.of {
        Subject::Config => transom_config::json_schema(),
        Subject::Registry => transom_registry::published::json_schema(),
    };
    let text =
        serde_json::to_string_pretty(&schema).map_err(|error| Failure::new(Exit::Unexpected, format!("the schema cannot be written: {error}")))?;
    terminal::data(&text);
    Ok(())
}
