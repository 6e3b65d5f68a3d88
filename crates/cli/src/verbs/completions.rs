//! `transom completions SHELL`: what the shell needs to complete our verbs and flags.

use crate::failure::Failure;
use crate::terminal;
use clap_complete::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "transom", &mut script);
    terminal::data(&String::from_utf8_lossy(&script));
    Ok(())
}
