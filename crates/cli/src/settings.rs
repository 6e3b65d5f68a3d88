//! From flags, environment and files to one [`Config`]: flag, then environment, then file, then default.
//!
//! The only place that knows the config crate. What a file may say is that crate's business.

use crate::failure::{Exit, Failure};
use crate::terminal;
use crate::verbs::run;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use transom_config::{Environment, Loaded, ProcessEnvironment, Report, Source};
use transom_gateway::Config;
use transom_gateway::config::OwnTools;
use transom_upstream::TargetSpec;

/// No config is larger; more on standard input is a mistake.
const LARGEST_INPUT: u64 = 16 << 20;

/// Everything that was said about this gateway, ready to be read again when a file changes.
pub struct Settings {
    origins: Vec<Origin>,
    listen: ListenSettings,
    built_in: Vec<TargetSpec>,
    built_in_tools: Option<OwnTools>,
}

/// Where a part of the config comes from.
enum Origin {
    File(PathBuf),
    /// Standard input, which can be read only once.
    Input(Source),
}

/// A config, and what its author should know.
pub struct Meant {
    /// What it means.
    pub config: Config,
    /// Often empty.
    pub warnings: Report,
}

/// Why there is no config. As text it fits into a log; a person gets a [`Failure`], with places underlined.
#[derive(Debug, thiserror::Error)]
pub enum Rejected {
    /// A file cannot be read.
    #[error("cannot read `{}`: {why}", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: std::io::Error,
    },
    /// What it says makes no sense.
    #[error("{0}")]
    Invalid(Report),
}

impl From<Rejected> for Failure {
    fn from(rejected: Rejected) -> Failure {
        match rejected {
            Rejected::Unreadable { .. } => Failure::new(Exit::Negative, &rejected),
            Rejected::Invalid(report) => Failure::rendered(Exit::Negative, report.render(terminal::color())),
        }
    }
}

impl Settings {
    /// Collects what flags, environment and standard input say. Files are read when the config is asked for.
    pub fn collect(args: &run::Args, environment: &dyn Environment) -> Result<Settings, Failure> {
        let mut origins = Vec::with_capacity(args.file.len());
        for path in &args.file {
            let is_input = path.as_os_str() == "-";
            if is_input && origins.iter().any(|origin| matches!(origin, Origin::Input(_))) {
                return Err(Failure::new(Exit::Unexpected, "`-f -` is given twice, but standard input can be read only once"));
            }
            origins.push(if is_input { Origin::Input(standard_input()?) } else { Origin::File(path.clone()) });
        }
        Ok(Settings { origins, listen: ListenSettings::collect(args, environment)?, built_in: Vec::new(), built_in_tools: None })
    }

    /// With targets that no file has to name. A file's target of the same name takes the place of the built-in one.
    pub fn with_targets(mut self, targets: Vec<TargetSpec>) -> Settings {
        self.built_in = targets;
        self
    }

    /// With registry entries for when no file has any of its own.
    pub fn with_tools(mut self, tools: OwnTools) -> Settings {
        self.built_in_tools = Some(tools);
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

    /// What it all means, with every file as it is now.
    pub fn config(&self) -> Result<Meant, Rejected> {
        self.meant(&self.origins.iter().map(Origin::read).collect::<Result<Vec<_>, _>>()?)
    }

    /// As [`Settings::config`], for a gateway that runs. A file without a word in it is one that is being written: whoever writes in place empties
    /// it first, and a gateway that believed it would close every target.
    pub fn changed_config(&self) -> Result<Meant, Rejected> {
        let sources = self.origins.iter().map(Origin::read_written).collect::<Result<Vec<_>, _>>()?;
        self.meant(&sources)
    }

    fn meant(&self, sources: &[Source]) -> Result<Meant, Rejected> {
        let Loaded { mut config, warnings } = transom_config::load(sources, &ProcessEnvironment).map_err(Rejected::Invalid)?;
        config.listen = self.listen.address(config.listen);
        for target in &self.built_in {
            if config.targets.iter().all(|other| other.name != target.name) {
                config.targets.push(target.clone());
            }
        }
        if config.own_tools.is_none() && config.registry.is_none() {
            config.own_tools = self.built_in_tools.clone();
        }
        Ok(Meant { config, warnings })
    }

    /// Tells when a config file has other content than now. To be asked for before the config, so that no change is missed.
    pub fn changes(&self) -> Result<Changes, Failure> {
        let files: Vec<PathBuf> = self.origins.iter().filter_map(Origin::path).collect();
        if files.is_empty() {
            return Ok(Changes(None));
        }
        let watch =
            transom_config::watch(files).map_err(|error| Failure::new(Exit::Unexpected, format!("cannot watch the config for changes: {error}")))?;
        Ok(Changes(Some(watch)))
    }
}

impl Origin {
    fn path(&self) -> Option<PathBuf> {
        match self {
            Origin::File(path) => Some(path.clone()),
            Origin::Input(_) => None,
        }
    }

    fn read(&self) -> Result<Source, Rejected> {
        match self {
            Origin::Input(source) => Ok(source.clone()),
            Origin::File(path) => Source::read(path).map_err(|why| Rejected::Unreadable { path: path.clone(), why }),
        }
    }

    /// As [`Origin::read`], unless there is nothing in it.
    fn read_written(&self) -> Result<Source, Rejected> {
        let source = self.read()?;
        match self.path() {
            Some(path) if source.text.trim().is_empty() => Err(Rejected::Unreadable { path, why: std::io::Error::other("it is empty") }),
            _ => Ok(source),
        }
    }
}

fn standard_input() -> Result<Source, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LARGEST_INPUT + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::new(Exit::Negative, format!("cannot read the config from standard input: {error}")))?;
    if text.len() as u64 > LARGEST_INPUT {
        return Err(Failure::new(Exit::Negative, format!("the config on standard input is larger than {} MiB", LARGEST_INPUT >> 20)));
    }
    let base_dir =
        std::path::absolute(Path::new(".")).map_err(|error| Failure::new(Exit::Negative, format!("there is no current directory: {error}")))?;
    Ok(Source { name: "<stdin>".into(), text, base_dir })
}

/// See [`Settings::changes`].
pub struct Changes(Option<transom_config::Changes>);

impl Changes {
    /// Waits for the next change; for ever where no file can change.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(files) => files.changed().await,
            None => std::future::pending().await,
        }
    }
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
    fn collect(args: &run::Args, environment: &dyn Environment) -> Result<ListenSettings, Failure> {
        let mut overrides = Vec::new();
        if let Some(text) = environment.variable("TRANSOM_LISTEN").filter(|text| !text.is_empty()) {
            overrides.push(Override::Address(text.parse().map_err(|_| unusable("TRANSOM_LISTEN", &text, "an address such as 127.0.0.1:3000"))?));
        }
        if let Some(text) = environment.variable("TRANSOM_PORT").filter(|text| !text.is_empty()) {
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

    struct Variables<'a>(&'a [(&'a str, &'a str)]);

    impl Environment for Variables<'_> {
        fn variable(&self, name: &str) -> Option<String> {
            self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        }

        fn file(&self, _: &Path) -> Result<String, String> {
            Err("no files here".into())
        }
    }

    fn settings(line: &[&str], environment: &[(&str, &str)]) -> Result<Settings, Failure> {
        let line = Line::parse_from(std::iter::once(&"run").chain(line));
        Settings::collect(&line.args, &Variables(environment))
    }

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("transom-settings-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
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
            let config = settings(line, environment).unwrap().config().unwrap().config;
            assert_eq!(config.listen.to_string(), expected, "{line:?} {environment:?}");
        }
    }

    #[test]
    fn the_demo_has_a_port_of_its_own_unless_somebody_names_one() {
        let demo = |line: &[&str]| settings(line, &[]).unwrap().or_listen_on(([127, 0, 0, 1], 3000).into());
        assert_eq!(demo(&[]).config().unwrap().config.listen.port(), 3000);
        assert!(demo(&[]).is_default_port(3000));
        assert_eq!(demo(&["--port", "0"]).config().unwrap().config.listen.port(), 0);
        assert!(!demo(&["--port", "3000"]).is_default_port(3000));
    }

    #[test]
    fn a_bad_variable_is_named() {
        let failure = settings(&[], &[("TRANSOM_PORT", "http")]).err().unwrap();
        assert_eq!(failure.exit, Exit::Unexpected);
        assert!(failure.to_string().contains("TRANSOM_PORT is `http`"), "{failure}");
    }

    #[test]
    fn what_the_file_says_is_weaker_than_a_flag_and_stronger_than_a_default() {
        let path = file("listen.yaml", "listen: 127.0.0.1:4000\n");
        let listen = |line: &[&str]| {
            let settings = settings(line, &[]).unwrap().or_listen_on(([127, 0, 0, 1], 3000).into());
            settings.config().unwrap().config.listen.port()
        };
        assert_eq!((listen(&["-f", &path]), listen(&["-f", &path, "--port", "5000"]), listen(&[])), (4000, 5000, 3000));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_target_of_the_file_takes_the_place_of_a_built_in_one() {
        let path = file("targets.json", r#"{"mcpServers": {"slow": {"url": "http://127.0.0.1:9/mcp"}, "mine": {"command": "true"}}}"#);
        let settings = settings(&["-f", &path], &[]).unwrap().with_targets(crate::demo::targets().unwrap());
        let config = settings.config().unwrap().config;
        let names: Vec<_> = config.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["slow", "mine", "weather", "tickets", "flaky"]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_bad_file_is_exit_code_1_and_named() {
        let failure: Failure = settings(&["-f", "/nowhere/transom.yaml"], &[]).unwrap().config().err().unwrap().into();
        assert_eq!(failure.exit, Exit::Negative);
        assert!(failure.to_string().contains("/nowhere/transom.yaml"), "{failure}");

        let path = file("bad.yaml", "listen: 127.0.0.1:4000\nadmim: {}\n");
        let failure: Failure = settings(&["-f", &path], &[]).unwrap().config().err().unwrap().into();
        assert_eq!(failure.exit, Exit::Negative);
        assert!(failure.to_string().contains("bad.yaml:2:1") && failure.to_string().contains("did you mean `admin`"), "{failure}");
        std::fs::remove_file(path).unwrap();
    }
}
