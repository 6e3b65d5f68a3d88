//! `transom run`: serve what the config says.

use crate::failure::Failure;
use crate::serve::serve;
use crate::settings::Settings;
use std::net::SocketAddr;
use std::path::PathBuf;
use transom_config::{Environment, ProcessEnvironment};

/// What it takes; `demo` takes the same.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// A config.yaml, or an `mcpServers` JSON file; `-` reads standard input; may repeat, later files go over earlier ones
    #[arg(short, long, visible_alias = "config", value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// The port to listen on; 0 takes a free one [env: TRANSOM_PORT]
    #[arg(long)]
    pub port: Option<u16>,
    /// The address to listen on, such as 127.0.0.1:3000 [env: TRANSOM_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Write the base URL here once the socket is bound; removed at exit [env: TRANSOM_URL_FILE]
    #[arg(long, value_name = "FILE")]
    pub url_file: Option<PathBuf>,
    /// Write the process id here once the socket is bound; removed at exit [env: TRANSOM_PID_FILE]
    #[arg(long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// Write the log here instead of standard error: the last 8 MiB, and the 8 MiB before them into FILE.1 [env: TRANSOM_LOG_FILE]
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
}

impl Args {
    /// With what the environment says where no flag does. An empty variable says nothing.
    pub fn or_environment(mut self, environment: &dyn Environment) -> Args {
        let files = [(&mut self.url_file, "TRANSOM_URL_FILE"), (&mut self.pid_file, "TRANSOM_PID_FILE"), (&mut self.log_file, "TRANSOM_LOG_FILE")];
        for (file, name) in files {
            *file = file.take().or_else(|| environment.variable(name).filter(|path| !path.is_empty()).map(PathBuf::from));
        }
        self
    }
}

/// Serves until a signal.
pub async fn run(args: Args) -> Result<(), Failure> {
    let settings = Settings::collect(&args, &ProcessEnvironment)?;
    serve(&args, settings, |_| None).await
}
