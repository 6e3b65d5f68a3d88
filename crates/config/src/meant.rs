//! What a config means: variables replaced, paths absolute, defaults filled in, every rule checked.
//!
//! The last room that sees the file. It notes every problem it finds and goes on; what it returns is only used if there was
//! none. Messages quote what was written, never what a variable held. [`value`] has the single values, [`secrecy`] which of
//! them must not come back, [`network`] what servers have in common, [`target`] the targets, [`registry`] the registries, [`policies`] who may do what,
//! [`limits`] how much, [`discovery`] what lists show, and here is the rest.

mod discovery;
mod limits;
mod location;
mod network;
mod policies;
mod registry;
mod secrecy;
mod target;
mod value;

use crate::Source;
use crate::environment::Beside;
use crate::file::{self, File, Prefix, Readiness, ServerTls, Text};
use crate::merge::Merged;
use crate::problem::{Problem, Problems};
use crate::written::{Place, Written};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use transom_gateway::config::Surroundings;
use transom_gateway::{Config, ListenAt, Naming, TlsFiles};
use transom_registry::template::Environment;
use transom_upstream::Secret;
use value::Resolved;

/// How long a call may take when nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Shorter keys can be guessed.
const SHORTEST_KEY: usize = 16;

/// Decides what the files mean together.
pub fn config<E: Environment + Clone + Send + Sync + 'static>(
    merged: &Merged,
    sources: &[Source],
    environment: &E,
    problems: &RefCell<Problems>,
) -> Config {
    let meaning = Meaning { sources, environment, problems };
    let surroundings = surroundings(merged, sources, environment);
    let defaults = Config::default();
    let file = &merged.file;
    let policies = file.policies.value.as_ref();
    let timeout = policies.and_then(|policies| meaning.duration("defaultTimeout", &policies.default_timeout));
    let own_tools = meaning.own_tools(&file.tools);
    let config = Config {
        listen: meaning.address("listen", &file.listen).unwrap_or(defaults.listen),
        tls: file.tls.get().and_then(|(tls, place)| meaning.server_tls(tls, place)),
        admin: meaning.side_listener(file.admin.value.as_ref().map(|admin| &admin.listen), defaults.admin),
        admin_token: file.admin.value.as_ref().and_then(|admin| meaning.key("token", &admin.token)),
        metrics: meaning.side_listener(file.metrics.value.as_ref().map(|metrics| &metrics.listen), defaults.metrics),
        targets: meaning.targets(&merged.targets, timeout.unwrap_or(DEFAULT_TIMEOUT)),
        naming: meaning.naming(file.naming.value.as_ref()),
        discovery: meaning.discovery(&file.discovery),
        allowed_hosts: meaning.all(&file.allowed_hosts, Meaning::allowed_host),
        allowed_origins: meaning.all(&file.allowed_origins, Meaning::allowed_origin),
        session_key: meaning.key("sessionKey", &file.session_key),
        state_dir: meaning.path("stateDir", &file.state_dir).or_else(|| users_state_dir(environment)),
        readiness: file.readiness.value.map_or(defaults.readiness, |readiness| match readiness {
            Readiness::All => transom_gateway::Readiness::All,
            Readiness::Any => transom_gateway::Readiness::Any,
            Readiness::Registry => transom_gateway::Readiness::Registry,
        }),
        allow_unauthenticated: file.allow_unauthenticated.value.unwrap_or(defaults.allow_unauthenticated),
        registry: meaning.registry(&file.registry, own_tools.is_some()),
        reading: meaning.reading(file.registry.value.as_ref(), file.validation.value),
        own_tools,
        environment: surroundings,
        authentication: policies.and_then(|policies| meaning.authentication(&policies.authentication)),
        authorization: policies.and_then(|policies| meaning.authorization(&policies.authorization)),
        limits: meaning.limits(policies),
        drain: defaults.drain,
        memory_limit: meaning.size("memoryLimit", &file.memory_limit),
        via: environment.variable(transom_upstream::via::VARIABLE).filter(|via| !via.is_empty()),
    };
    meaning.point_out_itself(&merged.targets, &config);
    config
}

/// Where programs of this user keep what outlives them.
fn users_state_dir(environment: &dyn Environment) -> Option<PathBuf> {
    let set = |name: &str| environment.variable(name).filter(|value| !value.is_empty());
    let base = set("XDG_STATE_HOME").map(PathBuf::from).or_else(|| set("HOME").map(|home| Path::new(&home).join(".local/state")))?;
    base.is_absolute().then(|| base.join("transom"))
}

/// Where registries get their values later: relative paths start at the file that speaks of registries.
fn surroundings<E: Environment + Clone + Send + Sync + 'static>(merged: &Merged, sources: &[Source], environment: &E) -> Surroundings {
    let File { registry, tools, .. } = &merged.file;
    let speaker = registry.get().map(|(_, place)| place).or_else(|| tools.get().map(|(_, place)| place)).unwrap_or_default();
    match sources.get(speaker.source) {
        Some(source) => Surroundings::new(Beside { environment: environment.clone(), base_dir: source.base_dir.clone() }),
        None => Surroundings::new(environment.clone()),
    }
}

/// What is needed to decide what something means.
struct Meaning<'a> {
    sources: &'a [Source],
    environment: &'a dyn Environment,
    problems: &'a RefCell<Problems>,
}

impl Meaning<'_> {
    fn note(&self, problem: Problem) {
        self.problems.borrow_mut().add(problem);
    }

    fn beside(&self, place: Place) -> Beside<&dyn Environment, &Path> {
        let base_dir = self.sources.get(place.source).map_or(Path::new(""), |source| source.base_dir.as_path());
        Beside { environment: self.environment, base_dir }
    }

    fn line(&self, place: Place) -> usize {
        let before = self.sources.get(place.source).and_then(|source| source.text.get(..place.start));
        before.unwrap_or_default().matches('\n').count() + 1
    }

    fn address(&self, key: &str, written: &Written<Text>) -> Option<SocketAddr> {
        let resolved = self.filled(key, written)?;
        let text = resolved.text.trim();
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok()) {
            return Some((Ipv4Addr::LOCALHOST, port).into());
        }
        let port = text.trim_start_matches(['*', ':']);
        let help = if port.parse::<u16>().is_ok() && !resolved.secret {
            format!("write `127.0.0.1:{port}` for this machine only, or `0.0.0.0:{port}` for everyone")
        } else if text.parse::<IpAddr>().is_ok() || text == "localhost" {
            "add a port, like `127.0.0.1:3000`".to_owned()
        } else {
            "write an IP address and a port, like `127.0.0.1:3000` or `[::1]:3000`".to_owned()
        };
        self.note(Problem::error(resolved.place, format!("`{}` is not an address to listen on", resolved.written)).help(help));
        None
    }

    fn side_listener(&self, written: Option<&Written<Text>>, default: ListenAt) -> ListenAt {
        written.and_then(|written| self.address("listen", written)).map_or(default, ListenAt::Exactly)
    }

    fn server_tls(&self, tls: &ServerTls, place: Place) -> Option<TlsFiles> {
        for (key, written) in [("cert", &tls.cert), ("key", &tls.key)] {
            if written.is_missing() {
                self.note(Problem::error(place, format!("`tls` has no `{key}`")).help("TLS needs both `cert` and `key`, each a PEM file"));
            }
        }
        let cert = self.pem("cert", &tls.cert, "certificate", "-----BEGIN CERTIFICATE-----");
        let key = self.pem("key", &tls.key, "private key", "-----BEGIN ");
        Some(TlsFiles { cert: cert?.0, key: key?.0 })
    }

    fn naming(&self, written: Option<&file::Naming>) -> Naming {
        let mut naming = Naming::default();
        let Some(written) = written else { return naming };
        match written.prefix.value {
            Some(Prefix::OnCollision) => naming.prefix = transom_gateway::Prefix::OnCollision,
            Some(Prefix::Always) => naming.prefix = transom_gateway::Prefix::Always,
            Some(Prefix::Never) => naming.prefix = transom_gateway::Prefix::Never,
            None => {}
        }
        if let Some((Text(separator), place)) = written.separator.get() {
            if separator.is_empty() {
                self.note(
                    Problem::error(place, "`separator` is empty")
                        .help("without one, two different tools could get the same name; the default is `__`"),
                );
            } else if !separator.chars().all(is_tool_name_character) {
                self.note(Problem::error(place, format!("`separator` cannot be `{separator}`")).help(TOOL_NAME_CHARACTERS));
            } else {
                naming.separator.clone_from(separator);
            }
        }
        naming
    }

    fn allowed_host(&self, host: Resolved<'_>) -> Option<String> {
        let text = host.text.trim().to_ascii_lowercase();
        let bare = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
        let bare = bare.split('/').next().unwrap_or_default();
        let is_host = text.parse::<http::uri::Authority>().is_ok_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty());
        if is_host && text == bare && !text.contains('*') {
            return Some(text);
        }
        let mut problem = Problem::error(host.place, format!("`{}` is not a host", host.written));
        problem = if text != bare && !host.secret {
            problem.help(format!("write only the host: `{bare}`"))
        } else {
            problem.help("write a host with or without a port, like `mcp.corp.example` or `mcp.corp.example:8443`; there are no wildcards")
        };
        self.note(problem);
        None
    }

    fn allowed_origin(&self, origin: Resolved<'_>) -> Option<String> {
        let text = origin.text.trim().to_ascii_lowercase();
        let parsed = text.parse::<http::Uri>().ok();
        let is_origin = parsed.is_some_and(|uri| {
            let authority = uri.authority().filter(|authority| !authority.as_str().contains(['@', '*']) && !authority.host().is_empty());
            authority.zip(uri.scheme_str()).is_some_and(|(authority, scheme)| format!("{scheme}://{authority}") == text)
        });
        if is_origin {
            return Some(text);
        }
        self.note(
            Problem::error(origin.place, format!("`{}` is not an origin", origin.written))
                .help("write scheme, host and port as a browser sends them, like `https://app.corp.example`; there are no wildcards"),
        );
        None
    }

    /// A secret of ours that nobody may guess.
    fn key(&self, key: &str, written: &Written<Text>) -> Option<Secret> {
        let resolved = self.text(written)?;
        if resolved.text.len() < SHORTEST_KEY {
            self.note(
                Problem::error(resolved.place, format!("`{key}` is shorter than {SHORTEST_KEY} bytes"))
                    .label("can be guessed")
                    .help("make one with `openssl rand -hex 32`"),
            );
            return None;
        }
        Some(Secret::new(resolved.text))
    }
}

const TOOL_NAME_CHARACTERS: &str = "names of tools consist of letters, digits, `_`, `-` and `.`, at most 128 of them";

fn is_tool_name_character(each: char) -> bool {
    each.is_ascii_alphanumeric() || matches!(each, '_' | '-' | '.')
}
