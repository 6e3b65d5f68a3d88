//! What the gateway was told to do, as meant: nothing optional by accident, nothing left to look up.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use transom_registry::template::Environment;
use transom_registry::{Settings, Unlisted};
use transom_upstream::{Secret, TargetSpec};

/// Everything the gateway needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The main listener; port 0 takes a free one.
    pub listen: SocketAddr,
    /// TLS on the main listener.
    pub tls: Option<TlsFiles>,
    /// The admin listener.
    pub admin: ListenAt,
    /// The token that writes on the admin listener need; made and kept in `state_dir` if absent.
    pub admin_token: Option<Secret>,
    /// The metrics listener.
    pub metrics: ListenAt,
    /// The MCP servers, in the order of the config.
    pub targets: Vec<TargetSpec>,
    /// How tools are named.
    pub naming: Naming,
    /// Which tools lists show.
    pub discovery: Discovery,
    /// `Host` values beside loopback and the bind address.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values that browsers may send.
    pub allowed_origins: Vec<String>,
    /// The key that seals session ids; random if absent.
    pub session_key: Option<Secret>,
    /// Where files that outlive the process go.
    pub state_dir: Option<PathBuf>,
    /// What `/ready` asks for.
    pub readiness: Readiness,
    /// Whether a listener that others can reach may start without authentication.
    pub allow_unauthenticated: bool,
    /// How long a drain may take.
    pub drain: Duration,
    /// Where the registry is; without one, tools pass through unless `own_tools` says otherwise.
    pub registry: Option<RegistryConfig>,
    /// How registries are read.
    pub reading: Reading,
    /// Registry entries kept in the config; they come first.
    pub own_tools: Option<OwnTools>,
    /// Where `${…}` in registries gets its values.
    pub environment: Surroundings,
    /// Who may come in; `None`: anybody, as nobody in particular.
    pub authentication: Option<Authentication>,
    /// Who may do what; `None`: everybody everything, an empty list: nobody anything.
    pub authorization: Option<Vec<Rule>>,
    /// How much and how long.
    pub limits: Limits,
    /// Bytes this process may hold before it begins to refuse work; what its cgroup says if absent.
    pub memory_limit: Option<u64>,
    /// The gateways that started this one, if any did; see [`crate::via`].
    pub via: Option<String>,
}

impl Default for Config {
    /// Nothing configured: a free port on loopback and no targets.
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Config {
            listen: loopback(0),
            tls: None,
            admin: ListenAt::Preferred(loopback(15000)),
            admin_token: None,
            metrics: ListenAt::Preferred(loopback(15020)),
            targets: Vec::new(),
            naming: Naming::default(),
            discovery: Discovery::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            session_key: None,
            state_dir: None,
            readiness: Readiness::All,
            allow_unauthenticated: false,
            drain: Duration::from_secs(25),
            registry: None,
            reading: Reading::default(),
            own_tools: None,
            environment: Surroundings::default(),
            authentication: None,
            authorization: None,
            limits: Limits::default(),
            memory_limit: None,
            via: None,
        }
    }
}

/// Where a side listener goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAt {
    /// Here; it is an error if the port is taken.
    Exactly(SocketAddr),
    /// Here if it is free, else on a free port.
    Preferred(SocketAddr),
}

/// Certificate chain and key, PEM; read again when the files change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// How tools are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// When a tool's name carries its target's.
    pub prefix: Prefix,
    /// What stands between the two.
    pub separator: String,
}

impl Default for Naming {
    fn default() -> Self {
        Naming { prefix: Prefix::default(), separator: "__".into() }
    }
}

/// When a tool's name carries its target's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// When two targets offer the same name.
    #[default]
    OnCollision,
    /// Always.
    Always,
    /// Never; a collision is an error.
    Never,
}

/// Which tools lists show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// All of them, or a short list and the means to search.
    pub mode: DiscoveryMode,
    /// With `auto`, whoever sees more tools than this gets the short list.
    pub threshold: usize,
    /// Tools that are on the short list, by exposed name, with or without its prefix; `*` stands for anything.
    pub pinned: Vec<String>,
}

impl Default for Discovery {
    fn default() -> Self {
        Discovery { mode: DiscoveryMode::default(), threshold: 100, pinned: Vec::new() }
    }
}

/// How clients learn which tools there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscoveryMode {
    /// From lists.
    #[default]
    List,
    /// By searching: lists are short.
    Search,
    /// From lists that are not too long, else by searching.
    Auto,
}

/// What `/ready` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// Every target connected.
    #[default]
    All,
    /// At least one.
    Any,
    /// A live generation is enough.
    Registry,
}

/// Where registries are published.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryConfig {
    /// In order: of two tools with one name the first wins.
    pub sources: Vec<RegistrySource>,
    /// How often HTTP sources are asked.
    pub refresh: Duration,
    /// What to do when the first load fails.
    pub on_start: OnStart,
    /// Whether an empty registry may replace one that is not.
    pub allow_empty: bool,
}

/// One place where a registry is published.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistrySource {
    /// What logs, errors and `/status` call it: as written, without user name, password and query.
    pub name: String,
    /// Where it is.
    pub location: RegistryLocation,
}

/// Where a registry is.
#[derive(Clone, Debug, PartialEq)]
pub enum RegistryLocation {
    /// A file; absolute.
    File(PathBuf),
    /// An HTTP server.
    Http {
        /// The URL.
        url: http::Uri,
        /// Headers of every request, `Authorization` among them.
        headers: Vec<(http::HeaderName, Secret)>,
        /// PEM of the only certificate authorities to trust; the system's if absent.
        ca: Option<Arc<[u8]>>,
    },
}

/// What to do when the first load of the registry fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStart {
    /// Use the last known good; without one, do not start.
    #[default]
    Cached,
    /// Do not start.
    Require,
    /// Start, not ready and with an empty list, and keep trying.
    Retry,
}

/// How registries are read; see `transom_registry::Options`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// What holds for a tool that says nothing else.
    pub settings: Settings,
    /// Whether every error is fatal.
    pub strict: bool,
    /// What becomes of tools that the registry does not mention.
    pub unlisted: Unlisted,
    /// Whether the bans on costly JSONPaths are lifted.
    pub full_jsonpath: bool,
    /// What placeholders may read.
    pub env_allow: Option<Vec<String>>,
    /// Whether the arguments of tools that pass through are validated as well.
    pub validate_all: bool,
}

/// Registry entries kept in the config, as a registry document of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTools {
    /// What problems call it: the config file.
    pub name: String,
    /// `{"tools": […]}`, JSON.
    pub text: String,
    /// Where each entry stands in the config: line and column, from 1.
    pub places: Vec<(usize, usize)>,
}

/// Where `${…}` in registries gets its values.
#[derive(Clone)]
pub struct Surroundings(Arc<dyn Environment + Send + Sync>);

impl Surroundings {
    /// Reads from here.
    pub fn new(environment: impl Environment + Send + Sync + 'static) -> Surroundings {
        Surroundings(Arc::new(environment))
    }

    /// The environment.
    pub fn get(&self) -> &(dyn Environment + Send + Sync) {
        &*self.0
    }
}

impl Default for Surroundings {
    /// No variables and no files.
    fn default() -> Self {
        Surroundings::new(Nothing)
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Surroundings")
    }
}

impl PartialEq for Surroundings {
    /// What an environment holds is read when it is needed, so that any two are alike.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

struct Nothing;

impl Environment for Nothing {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> Result<String, String> {
        Err("no files here".into())
    }
}

/// Who may come in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Authentication {
    /// Issuers of tokens.
    pub jwt: Vec<JwtIssuer>,
    /// Keys for programs.
    pub api_keys: Vec<ApiKey>,
    /// Our own URL as clients know it, for the protected-resource metadata; guessed from the request if absent.
    pub resource: Option<String>,
}

/// Somebody whose tokens count.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtIssuer {
    /// `iss`, compared to the letter.
    pub issuer: String,
    /// One of these must be in `aud`.
    pub audiences: Vec<String>,
    /// Where its keys are.
    pub jwks: Jwks,
    /// Algorithms that count, in the names of RFC 7518; never a symmetric one. None named: every one we know.
    pub algorithms: Vec<String>,
    /// Scopes that every token must carry.
    pub scopes: Vec<String>,
}

/// Where an issuer's keys are.
#[derive(Clone, Debug, PartialEq)]
pub enum Jwks {
    /// On its server.
    Url {
        /// The URL.
        url: http::Uri,
        /// PEM of the only certificate authorities to trust; the system's if absent.
        ca: Option<Arc<[u8]>>,
    },
    /// In a file, read again when it changes.
    File(PathBuf),
}

/// A key for a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiKey {
    /// What logs and rules call it.
    pub id: String,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// What rules may know of its owner, as `jwt.*`.
    pub claims: serde_json::Map<String, serde_json::Value>,
}

/// A rule about who may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What follows when it holds.
    pub effect: Effect,
    /// CEL.
    pub expression: String,
}

/// What follows when a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Some of these must hold.
    Allow,
    /// None of these may hold.
    Deny,
    /// All of these must hold.
    Require,
}

/// How much and how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Calls per time.
    pub rates: Vec<RateLimit>,
    /// Calls at once.
    pub concurrency: Vec<ConcurrencyLimit>,
    /// How long calls may take; the first that fits counts, else the target's own.
    pub timeouts: Vec<ToolTimeout>,
}

/// Calls per time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Which tools, by exposed name before any prefix; `*` stands for anything. `None`: all together.
    pub tool: Option<String>,
    /// Whose calls are counted together.
    pub per: Per,
    /// How many.
    pub calls: u32,
    /// In which time.
    pub period: Duration,
}

/// Calls at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    /// Which tools; see [`RateLimit::tool`].
    pub tool: Option<String>,
    /// Whose calls are counted together.
    pub per: Per,
    /// How many.
    pub calls: u32,
}

/// Whose calls are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Everybody's.
    All,
    /// Each principal's.
    Principal,
}

/// How long calls of some tools may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTimeout {
    /// Which tools; see [`RateLimit::tool`].
    pub tool: Option<String>,
    /// Whose calls: API key ids or subjects; `None`: everybody's.
    pub principal: Option<String>,
    /// How long.
    pub timeout: Duration,
}
