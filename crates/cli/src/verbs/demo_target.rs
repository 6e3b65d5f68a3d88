//! `transom demo-target NAME`: one of the demo's targets, as the demo starts it.

use crate::demo::{self, DemoTarget};
use crate::failure::Failure;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which target
    #[arg(value_enum)]
    target: DemoTarget,
}

/// Serves until standard input ends.
pub async fn run(args: Args) -> Result<(), Failure> {
    demo::serve(args.target).await
}
