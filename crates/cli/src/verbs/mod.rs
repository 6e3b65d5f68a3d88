//! The verbs, one file each: what it takes, what it does, what it prints.

pub mod call;
pub mod completions;
pub mod connect;
pub mod demo;
pub mod demo_target;
pub mod export;
pub mod import;
pub mod list;
pub mod run;
pub mod schema;
pub mod session;
pub mod stdio;
pub mod test;
pub mod validate;

use crate::client::{self, Endpoint};
use crate::failure::{Exit, Failure};
use std::future::Future;
use std::time::Duration;
use tokio::runtime::Builder;

/// How a reader prints what it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Which gateway a client verb talks to.
#[derive(Debug, clap::Args)]
pub struct Reach {
    /// The MCP endpoint [env: TRANSOM_URL] [default: http://127.0.0.1:3000/mcp]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A header to send along, `Name: value`; may repeat
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// A bearer token to send along [env: TRANSOM_BEARER]
    #[arg(long, value_name = "TOKEN", env = "TRANSOM_BEARER", hide_env = true)]
    bearer: Option<String>,
    /// How many seconds an answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

impl Reach {
    /// The endpoint by flag, then environment, then default.
    pub fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.endpoint_with(std::env::var("TRANSOM_URL").ok())
    }

    /// How long an answer may take.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    fn endpoint_with(&self, from_environment: Option<String>) -> Result<Endpoint, Failure> {
        // `--url-file` and hooks hand out base URLs, with or without a slash at the end.
        let from_environment = from_environment.map(|url| url.trim_end_matches('/').to_string()).filter(|url| !url.is_empty());
        let text = self.url.clone().or(from_environment).unwrap_or_else(|| client::DEFAULT_URL.into());
        let headers = client::user_headers(&self.header, self.bearer.as_deref().filter(|token| !token.is_empty()))?;
        Ok(Endpoint { url: client::endpoint_url(&text)?, headers, timeout: Duration::from_secs(self.timeout) })
    }
}

/// Does work that waits for one thing at a time.
pub fn wait_for(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    finish(Builder::new_current_thread(), work)
}

/// Does the work of a gateway.
pub fn serve_with(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    finish(Builder::new_multi_thread(), work)
}

fn finish(mut builder: Builder, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = builder.enable_all().build().map_err(no_runtime)?;
    let outcome = runtime.block_on(work);
    // A thread that still reads standard input must not hold up the exit.
    runtime.shutdown_background();
    outcome
}

fn no_runtime(error: std::io::Error) -> Failure {
    Failure::new(Exit::Unexpected, format!("the system gives this process no event loop: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(url: Option<&str>) -> Reach {
        Reach { url: url.map(Into::into), header: vec!["X-Team: a:b".into()], bearer: Some("t0ken".into()), timeout: 5 }
    }

    #[test]
    fn the_endpoint_comes_from_the_flag_then_the_environment_then_the_default() {
        for (flag, environment, expected) in [
            (None, None, "http://127.0.0.1:3000/mcp"),
            (None, Some(""), "http://127.0.0.1:3000/mcp"),
            (None, Some("http://127.0.0.1:4000"), "http://127.0.0.1:4000/mcp"),
            (None, Some("http://127.0.0.1:4000/"), "http://127.0.0.1:4000/mcp"),
            (None, Some("http://127.0.0.1:4000/mcp"), "http://127.0.0.1:4000/mcp"),
            (Some("http://[::1]:1/mcp/weather"), Some("http://127.0.0.1:4000"), "http://[::1]:1/mcp/weather"),
            (Some("localhost:5000"), None, "http://localhost:5000/mcp"),
            (Some("https://gateway.corp.example/"), None, "https://gateway.corp.example/"),
        ] {
            let endpoint = reach(flag).endpoint_with(environment.map(Into::into)).unwrap();
            assert_eq!(endpoint.url.to_string(), expected);
        }
    }

    #[test]
    fn headers_go_along_and_secrets_are_marked() {
        let endpoint = reach(None).endpoint_with(None).unwrap();
        assert_eq!(endpoint.headers["x-team"], "a:b");
        assert_eq!(endpoint.headers["authorization"], "Bearer t0ken");
        assert!(endpoint.headers["authorization"].is_sensitive());
        for bad in ["no colon", "b ad: x", ": x", "a: \u{1}"] {
            let mut reach = reach(None);
            reach.header = vec![bad.into()];
            assert_eq!(reach.endpoint_with(None).unwrap_err().exit, Exit::Unexpected, "{bad}");
        }
    }

    #[test]
    fn what_is_no_url_is_a_usage_error_that_shows_a_good_one() {
        for bad in ["ftp://x/mcp", "http://", "http:///mcp", "http://a b/mcp"] {
            let failure = reach(Some(bad)).endpoint_with(None).unwrap_err();
            assert_eq!(failure.exit, Exit::Unexpected, "{bad}");
            assert!(failure.to_string().contains(client::DEFAULT_URL), "{failure}");
        }
    }
}
