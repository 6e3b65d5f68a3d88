//! From flags, environment and files to one [`Config`]: flag, then environment, then file, then default.
//!
//! The only place that knows the config crate. What a file may say is that crate's business.

use crate::failure::{Exit, Failure};
use crate::verbs::run;
use std::net::SocketAddr;
use transom_gateway::Config;
use transom_upstream::TargetSpec;

/// Everything that was said about this gateway, ready to be read again when a file changes.
pub struct Settings {
    listen: ListenSettings,
    built_in: Vec<TargetSpec>,
}

impl Settings {
    /// Collects what flags and environment say.
    pub fn collect(args: &run::Args, environment: impl Fn(&str) -> Option<String>) -> Result<Settings, Failure> {
        if let Some(file) = args.file.first() {
            return Err(Failure::new(Exit::Negative, format!("cannot read `{}`", file.display())));
        }
        Ok(Settings { listen: ListenSettings::collect(args, environment)?, built_in: Vec::new() })
    }

    /// With targets that no file has to name. A file's target of the same name takes the place of the built-in one.
    pub fn with_targets(mut self, targets: Vec<TargetSpec>) -> Settings {
        self.built_in = targets;
        self
    }

    /// With an address for when nobody else names one.
    pub fn or_listen_on(mut self, address: SocketAddr) -> Settings {
        self.listen.default = Some(address);
        self
    }

    /// Whether this port was nobody's choice but ours.
    pub fn is_default_port(&self, port: u16) -> bool {
        self.listen.overrides.is_empty() && self.listen.default.is_some_and(|address| address.port() == port)
    }

    /// Tells when a config file has other content than before.
    pub fn changes(&self) -> Changes {
        Changes
    }

    /// What it all means.
    pub fn config(&self) -> Result<Config, Failure> {
        let mut config = Config::default();
        config.listen = self.listen.address(config.listen);
        config.targets.extend(self.built_in.iter().cloned());
        Ok(config)
    }
}

/// See [`Settings::changes`].
pub struct Changes;

impl Changes {
    /// Waits for the next change.
    pub async fn next(&mut self) {
        std::future::pending().await
    }
}

/// JSON Schema of config.yaml.
pub fn schema() -> serde_json::Value {
    serde_json::Value::Bool(true)
}

/// Where to listen, as said outside the file.
struct ListenSettings {
    default: Option<SocketAddr>,
    /// Weakest first; each goes over what the ones before it said.
    overrides: Vec<Override>,
}

enum Override {
    Address(SocketAddr),
    Port(u16),
}

impl ListenSettings {
    fn collect(args: &run::Args, environment: impl Fn(&str) -> Option<String>) -> Result<ListenSettings, Failure> {
        let mut overrides = Vec::new();
        if let Some(text) = environment("TRANSOM_LISTEN").filter(|text| !text.is_empty()) {
            overrides.push(Override::Address(text.parse().map_err(|_| unusable("TRANSOM_LISTEN", &text, "an address such as 127.0.0.1:3000"))?));
        }
        if let Some(text) = environment("TRANSOM_PORT").filter(|text| !text.is_empty()) {
            overrides.push(Override::Port(text.parse().map_err(|_| unusable("TRANSOM_PORT", &text, "a port from 0 to 65535"))?));
        }
        overrides.extend(args.listen.map(Override::Address));
        overrides.extend(args.port.map(Override::Port));
        Ok(ListenSettings { default: None, overrides })
    }

    /// The address, given what the file says. A port of 0 there means that it says nothing.
    fn address(&self, from_file: SocketAddr) -> SocketAddr {
        let begin = self.default.filter(|_| from_file.port() == 0).unwrap_or(from_file);
        self.overrides.iter().fold(begin, |address, change| match change {
            Override::Address(address) => *address,
            Override::Port(port) => SocketAddr::new(address.ip(), *port),
        })
    }
}

fn unusable(variable: &str, text: &str, wanted: &str) -> Failure {
    Failure::new(Exit::Unexpected, format!("the environment variable {variable} is `{text}`, which is not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: run::Args,
    }

    fn settings(line: &[&str], environment: &[(&str, &str)]) -> Result<Settings, Failure> {
        let line = Line::parse_from(std::iter::once(&"run").chain(line));
        Settings::collect(&line.args, |name| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    // R-001-14, R-001-15
    #[test]
    fn the_port_comes_from_the_flag_then_the_environment_then_the_default() {
        for (line, environment, expected) in [
            (&[][..], &[][..], "127.0.0.1:0"),
            (&["--port", "0"], &[], "127.0.0.1:0"),
            (&["--port", "8080"], &[("TRANSOM_PORT", "9090")], "127.0.0.1:8080"),
            (&[], &[("TRANSOM_PORT", "9090")], "127.0.0.1:9090"),
            (&[], &[("TRANSOM_PORT", "")], "127.0.0.1:0"),
            (&[], &[("TRANSOM_LISTEN", "[::1]:7"), ("TRANSOM_PORT", "8")], "[::1]:8"),
            (&["--port", "9"], &[("TRANSOM_LISTEN", "[::1]:7")], "[::1]:9"),
            (&["--listen", "127.0.0.2:80"], &[("TRANSOM_PORT", "8")], "127.0.0.2:80"),
            (&["--listen", "127.0.0.2:80", "--port", "81"], &[], "127.0.0.2:81"),
        ] {
            let config = settings(line, environment).unwrap().config().unwrap();
            assert_eq!(config.listen.to_string(), expected, "{line:?} {environment:?}");
        }
    }

    #[test]
    fn the_demo_has_a_port_of_its_own_unless_somebody_names_one() {
        let demo = |line: &[&str]| settings(line, &[]).unwrap().or_listen_on(([127, 0, 0, 1], 3000).into());
        assert_eq!(demo(&[]).config().unwrap().listen.port(), 3000);
        assert!(demo(&[]).is_default_port(3000));
        assert_eq!(demo(&["--port", "0"]).config().unwrap().listen.port(), 0);
        assert!(!demo(&["--port", "3000"]).is_default_port(3000));
    }

    #[test]
    fn a_bad_variable_is_named() {
        let failure = settings(&[], &[("TRANSOM_PORT", "http")]).err().unwrap();
        assert_eq!(failure.exit, Exit::Unexpected);
        assert!(failure.to_string().contains("TRANSOM_PORT is `http`"), "{failure}");
    }
}
