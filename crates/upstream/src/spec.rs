//! What a target is, as meant: every variable resolved, every path absolute.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    /// The secrets that are parts of it: a target may tell one of them alone.
    parts: Vec<String>,
    /// Whether it stands in the config as it is, and tells nobody anything.
    plain: bool,
}

impl Secret {
    /// Wraps a resolved value.
    pub fn new(value: impl Into<String>) -> Secret {
        Secret::made_of(value, Vec::new())
    }

    /// Wraps a value that has other secrets in it, as a connection string has a password.
    pub fn made_of(value: impl Into<String>, parts: Vec<String>) -> Secret {
        Secret { text: value.into(), parts, plain: false }
    }

    /// Wraps a value that nobody has to be kept from: it is not looked for in what a target answers.
    pub fn plain(value: impl Into<String>) -> Secret {
        Secret { text: value.into(), parts: Vec::new(), plain: true }
    }

    /// In what forms a target may tell it: whole, without its scheme, and a part of it alone.
    fn told(&self) -> impl Iterator<Item = &str> {
        let rest = self.text.split_once(' ').map(|(_, rest)| rest);
        // What is white around it, nobody has to repeat.
        std::iter::once(self.text.as_str()).chain(rest).chain(self.parts.iter().map(String::as_str)).flat_map(|text| [text, text.trim()])
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

    /// What is given to it and may not come back from it: values, what they are made of, and of credentials also the part without the scheme.
    pub fn secrets(&self) -> Vec<&str> {
        self.given().filter(|value| !value.plain).flat_map(Secret::told).collect()
    }

    /// Every value that is given to it.
    pub(crate) fn given(&self) -> impl Iterator<Item = &Secret> {
        let (env, headers) = match self {
            Transport::Stdio { env, .. } => (Some(env), None),
            Transport::Http { headers, .. } | Transport::Sse { headers, .. } => (None, Some(headers)),
        };
        env.into_iter().flatten().map(|(_, value)| value).chain(headers.into_iter().flatten().map(|(_, value)| value))
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
