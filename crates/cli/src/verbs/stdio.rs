//! `transom stdio`: a client that speaks only standard input and output, served by a gateway.

use super::{Reach, run};
use crate::bridge;
use crate::failure::{Exit, Failure};
use crate::serve::Inside;
use crate::settings::Settings;
use std::path::PathBuf;
use transom_config::ProcessEnvironment;

/// What it takes. The longest call decides how long an answer may take, not this command's patience.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The MCP endpoint [env: TRANSOM_URL] [default: http://127.0.0.1:3000/mcp]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A config.yaml, or an `mcpServers` JSON file: no gateway has to run, there is one inside for this client alone; may repeat
    #[arg(short, long, visible_alias = "config", value_name = "FILE", conflicts_with = "url")]
    file: Vec<PathBuf>,
    /// A header to send along, `Name: value`; may repeat
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// A bearer token to send along [env: TRANSOM_BEARER]
    #[arg(long, value_name = "TOKEN", env = "TRANSOM_BEARER", hide_env = true)]
    bearer: Option<String>,
    /// The environment variable that holds the bearer token
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// How many seconds an answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

impl Args {
    /// Whether it is to be a gateway too.
    pub fn serves(&self) -> bool {
        !self.file.is_empty()
    }
}

/// Carries messages until the client is gone.
pub async fn run(args: Args) -> Result<(), Failure> {
    if args.file.iter().any(|file| file.as_os_str() == "-") {
        return Err(Failure::new(Exit::Unexpected, "standard input is the client's here, so no config can be read from it")
            .hint("write the config to a file and name that with `-f FILE`"));
    }
    let inside = match args.serves() {
        true => {
            let config = run::Args { file: args.file.clone(), ..run::Args::default() };
            Some(Inside::start(&Settings::collect(&config, &ProcessEnvironment)?).await?)
        }
        false => None,
    };
    let bearer = match &args.token_env {
        None => args.bearer,
        Some(name) => Some(std::env::var(name).ok().filter(|token| !token.is_empty()).ok_or_else(|| {
            Failure::new(Exit::Unexpected, format!("the environment variable {name} holds no token"))
                .hint("`--token-env` names the variable, not the token")
        })?),
    };
    let url = inside.as_ref().map(|inside| inside.url.clone()).or(args.url);
    let reach = Reach { url, header: args.header, bearer, timeout: args.timeout };
    let outcome = bridge::run(reach.endpoint()?, tokio::io::stdin(), tokio::io::stdout()).await;
    if let Some(inside) = inside {
        inside.end().await;
    }
    outcome
}
