//! What the gateway was told to do, as meant: nothing optional by accident, nothing left to look up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
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
    /// The metrics listener.
    pub metrics: ListenAt,
    /// The MCP servers, in the order of the config.
    pub targets: Vec<TargetSpec>,
    /// How tools are named.
    pub naming: Naming,
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
}

impl Default for Config {
    /// Nothing configured: a free port on loopback and no targets.
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Config {
            listen: loopback(0),
            tls: None,
            admin: ListenAt::Preferred(loopback(15000)),
            metrics: ListenAt::Preferred(loopback(15020)),
            targets: Vec::new(),
            naming: Naming::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            session_key: None,
            state_dir: None,
            readiness: Readiness::All,
            allow_unauthenticated: false,
            drain: Duration::from_secs(25),
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
