//! What a target is, as meant: every variable resolved, every path absolute.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    /// Whether it stands in the config as it is, and tells nobody anything.
    plain: bool,
}

impl Secret {
    /// Wraps a resolved value.
    pub fn new(value: impl Into<String>) -> Secret {
        Secret { text: value.into(), plain: false }
    }

    /// Wraps a value that nobody has to be kept from: it is not looked for in what a target answers.
    pub fn plain(value: impl Into<String>) -> Secret {
        Secret { text: value.into(), plain: true }
    }

    /// The value, for the one place entitled to it.
    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

/// One configured MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSpec {
    /// Its name in the config.
    pub name: String,
    /// How to reach it.
    pub transport: Transport,
    /// Which era to speak.
    pub era: EraChoice,
    /// Who shares its connection.
    pub sessions: Sessions,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether elicitation, sampling and roots requests of this target reach clients.
    pub allow_server_requests: bool,
    /// Other names for its tools: alias, then the tool's own name.
    pub aliases: Vec<(String, String)>,
}

/// What a child may use. The kernel holds it, and what it starts, to each of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildLimits {
    /// Bytes of address space, of each process.
    pub memory: Option<u64>,
    /// Processes and threads of its user, all together.
    pub processes: Option<u64>,
    /// Open files, of each process.
    pub files: Option<u64>,
    /// Time on a processor, of each process; whole seconds.
    pub cpu: Option<Duration>,
}

/// How to reach a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A child process that speaks on its standard streams.
    Stdio {
        /// The program; looked up in `PATH`.
        cmd: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside `PATH HOME LANG TZ TMPDIR`.
        env: Vec<(String, Secret)>,
        /// Its working directory.
        cwd: Option<PathBuf>,
        /// What it may use.
        limits: ChildLimits,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: http::Uri,
        /// Headers of every request.
        headers: Vec<(http::HeaderName, Secret)>,
        /// Whom to trust and how to prove who we are; by default the system's authorities, and not at all.
        tls: Option<Arc<ClientTls>>,
    },
    /// HTTP with server-sent events, revision 2024-11-05.
    Sse {
        /// The stream.
        url: http::Uri,
        /// Headers of every request.
        headers: Vec<(http::HeaderName, Secret)>,
        /// Whom to trust and how to prove who we are; by default the system's authorities, and not at all.
        tls: Option<Arc<ClientTls>>,
    },
}

/// PEM files for TLS towards a server. They are read again when they changed and a connection is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// The only authorities to trust; the system's if absent.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Transport {
    /// Where it is, if it is on the network.
    pub fn url(&self) -> Option<&http::Uri> {
        match self {
            Transport::Stdio { .. } => None,
            Transport::Http { url, .. } | Transport::Sse { url, .. } => Some(url),
        }
    }

    /// What is given to it and may not come back from it: values, and of credentials also the part without the scheme.
    pub fn secrets(&self) -> Vec<&str> {
        let given: Vec<&Secret> = match self {
            Transport::Stdio { env, .. } => env.iter().map(|(_, value)| value).collect(),
            Transport::Http { headers, .. } | Transport::Sse { headers, .. } => headers.iter().map(|(_, value)| value).collect(),
        };
        let secret = given.into_iter().filter(|value| !value.plain).map(Secret::expose);
        secret.flat_map(|text| std::iter::once(text).chain(text.split_once(' ').map(|(_, rest)| rest.trim()))).collect()
    }

    /// The value of the metric label `network_transport`.
    pub fn label(&self) -> &'static str {
        match self {
            Transport::Stdio { .. } => "pipe",
            Transport::Http { .. } | Transport::Sse { .. } => "tcp",
        }
    }
}

/// Which era to speak with a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// Ask it.
    #[default]
    Auto,
    /// 2026-07-28 only.
    Modern,
    /// `initialize` only.
    Legacy,
}

/// Who shares a target's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sessions {
    /// All clients.
    #[default]
    Shared,
    /// Each client session has one of its own.
    PerSession,
}
