//! `config.yaml` as written. These types mirror the file and are the source of its JSON Schema; what they mean is decided in
//! [`meant`](crate::meant).
//!
//! No `untagged` and no `flatten`: both lose the place of a mistake. No `Debug` either: a file may hold secrets.

mod discovery;
mod policies;
mod registry;

pub use discovery::*;
pub use policies::*;
pub use registry::*;

use crate::shape::{Any, TextOr};
use crate::written::{Entries, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// The configuration of the Transom gateway.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct File {
    /// Address of the main listener, `127.0.0.1:3000`. Without it a free port on loopback is taken and printed.
    pub listen: Written<Text>,
    /// The admin listener; 127.0.0.1:15000 if that is free.
    pub admin: Written<Admin>,
    /// The metrics listener; 127.0.0.1:15020 if that is free.
    pub metrics: Written<Listener>,
    /// The MCP servers behind the gateway.
    pub backends: Written<Vec<Written<Backend>>>,
    /// How tools are named.
    pub naming: Written<Naming>,
    /// How clients learn which tools there are: from lists, or by searching, for catalogs too large for a context window.
    #[schemars(with = "Discovering", extend("default" = "list"))]
    pub discovery: Written<TextOr<Discovery>>,
    /// TLS on the main listener; the files are read again when they change.
    pub tls: Written<ServerTls>,
    /// `Host` values to accept beside loopback and the bind address: `mcp.corp.example` or `mcp.corp.example:8443`.
    pub allowed_hosts: Written<Vec<Written<Text>>>,
    /// `Origin` values that browsers may send: `https://app.corp.example`.
    pub allowed_origins: Written<Vec<Written<Text>>>,
    /// Seals session ids; at least 16 bytes, the same on every replica. Random at start if absent.
    pub session_key: Written<Text>,
    /// Where files that outlive the process go; default the user's state directory.
    pub state_dir: Written<Text>,
    /// What `/ready` asks for.
    #[schemars(extend("default" = "all"))]
    pub readiness: Written<Readiness>,
    /// Lets a listener that others can reach start without authentication.
    #[schemars(extend("default" = false))]
    pub allow_unauthenticated: Written<bool>,
    /// Memory this process may hold, `512MiB`: from 85 % of it on calls are refused, from 95 % on everything new. Default is the limit of its cgroup, if it has one.
    #[schemars(with = "Measure")]
    pub memory_limit: Written<Text>,
    /// Where virtual tools are published. One section for all targets.
    pub registry: Written<Registry>,
    /// Registry entries kept in this file; they come first. One that is wrong is left out, and the log says why.
    #[schemars(with = "OwnTools")]
    pub tools: Written<Vec<Written<Any>>>,
    /// Whose arguments are validated before a call.
    #[schemars(extend("default" = "standard"))]
    pub validation: Written<Validation>,
    /// What applies to every call.
    pub policies: Written<Policies>,
}

/// Text; numbers, `true` and `false` count as text, spelled as they are in the file. `${NAME}`, `${NAME:-default}` and
/// `${file:/path}` stand for values from the environment.
#[derive(Clone, Default, Deserialize)]
pub struct Text(pub String);

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// What the schema says of a [`Text`] that is often a number or a switch, so that editors do not ask for quotes.
struct Scalar;

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

/// What the schema says of a [`Text`] that is a length of time or a number of things.
struct Measure;

impl JsonSchema for Measure {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Measure".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"] })
    }
}

/// What the schema says of `tools`: the entries of a registry, whose schema is part of ours.
struct OwnTools;

impl JsonSchema for OwnTools {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OwnTools".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "$ref": "#/$defs/tool" } })
    }
}

/// Where a side listener goes.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Listener {
    /// Address and port.
    pub listen: Written<Text>,
}

/// The listener for operators.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Admin {
    /// Address and port.
    pub listen: Written<Text>,
    /// What reload and rollback ask for; at least 16 bytes. Without it one is made and kept in the file `admin-token` under `stateDir`.
    pub token: Written<Text>,
}

/// A group of MCP servers.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Backend {
    /// The group.
    pub mcp: Written<McpBackend>,
}

/// A group of MCP servers.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpBackend {
    /// Its members.
    pub targets: Written<Vec<Written<Target>>>,
}

/// One MCP server, reached by exactly one of `stdio`, `mcp` and `sse`.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["name"], "oneOf" = [{ "required": ["stdio"] }, { "required": ["mcp"] }, { "required": ["sse"] }]))]
pub struct Target {
    /// What the config, the logs and the metrics call it.
    #[schemars(extend("minLength" = 1, "maxLength" = 64, "pattern" = "^[^/\\x00-\\x1f\\x7f]+$"))]
    pub name: Written<Text>,
    /// A child process that speaks MCP on its standard streams.
    pub stdio: Written<Stdio>,
    /// A server that speaks Streamable HTTP.
    pub mcp: Written<Remote>,
    /// A server that speaks HTTP with server-sent events, revision 2024-11-05.
    pub sse: Written<Remote>,
    /// Whether all clients share a connection, or each session has its own.
    #[schemars(extend("default" = "shared"))]
    pub sessions: Written<Sessions>,
    /// How long a call may take: `10s`, `500ms`; a bare number is seconds. Default `policies.defaultTimeout`.
    #[schemars(with = "Measure")]
    pub timeout: Written<Text>,
    /// Which era of MCP to speak; `auto` asks the server.
    #[schemars(extend("default" = "auto"))]
    pub era: Written<Era>,
    /// Other names for its tools: alias, then the tool's own name.
    pub aliases: Written<Entries<Text>>,
    /// How to trust the server, and how to prove who we are.
    pub tls: Written<TargetTls>,
    /// Whether elicitation, sampling and roots requests of this server reach clients.
    #[schemars(extend("default" = false))]
    pub allow_server_requests: Written<bool>,
}

/// A child process.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["cmd"]))]
pub struct Stdio {
    /// The program: a name to look up in `PATH`, or a path. No shell is involved.
    pub cmd: Written<Text>,
    /// Its arguments.
    #[schemars(with = "Vec<Scalar>")]
    pub args: Written<Vec<Written<Text>>>,
    /// Its variables, beside `PATH HOME LANG TZ TMPDIR`.
    #[schemars(with = "Entries<Scalar>")]
    pub env: Written<Entries<Text>>,
    /// Its working directory.
    pub cwd: Written<Text>,
    /// What it may use. Each holds for the program and for what it starts.
    pub limits: Written<ChildLimits>,
}

/// What a child process may use.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ChildLimits {
    /// Address space of each process, `2GiB`.
    #[schemars(with = "Measure")]
    pub memory: Written<Text>,
    /// Processes and threads of its user, all together; the kernel does not hold root to it.
    #[schemars(with = "Measure")]
    pub processes: Written<Text>,
    /// Open files of each process.
    #[schemars(with = "Measure")]
    pub files: Written<Text>,
    /// Time on a processor of each process, `10m`; then it is killed and started anew.
    #[schemars(with = "Measure")]
    pub cpu: Written<Text>,
}

/// A server on the network.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["host"]))]
pub struct Remote {
    /// Its URL. `localhost:8080` means `http://localhost:8080/mcp`, or `/sse` for `sse`.
    pub host: Written<Text>,
    /// Headers of every request.
    #[schemars(with = "Entries<Scalar>")]
    pub headers: Written<Entries<Text>>,
}

/// Whom to trust when connecting.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClientTls {
    /// PEM file with the only certificate authorities to trust; the system's if absent.
    pub ca: Written<Text>,
}

/// TLS towards a target. The files are read again when they change.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("dependentRequired" = { "cert": ["key"], "key": ["cert"] }))]
pub struct TargetTls {
    /// PEM file with the only certificate authorities to trust; the system's if absent.
    pub ca: Written<Text>,
    /// PEM file with a certificate chain of ours, for servers that ask who we are.
    pub cert: Written<Text>,
    /// PEM file with its private key.
    pub key: Written<Text>,
}

/// Certificate and key of a listener.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["cert", "key"]))]
pub struct ServerTls {
    /// PEM file with the certificate chain.
    pub cert: Written<Text>,
    /// PEM file with the private key.
    pub key: Written<Text>,
}

/// How tools are named.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Naming {
    /// When a tool's name carries its target's.
    #[schemars(extend("default" = "onCollision"))]
    pub prefix: Written<Prefix>,
    /// What stands between the two.
    #[schemars(extend("default" = "__"))]
    pub separator: Written<Text>,
}

/// When a tool's name carries its target's.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Prefix {
    /// When two targets offer the same name.
    OnCollision,
    /// Always.
    Always,
    /// Never; two tools of the same name are an error.
    Never,
}

/// Who shares a connection to a target.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Sessions {
    /// All clients.
    Shared,
    /// Each client session has one of its own.
    PerSession,
}

/// Which era of MCP to speak with a target.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Era {
    /// Ask the server.
    Auto,
    /// 2026-07-28 only.
    Modern,
    /// `initialize` only.
    Legacy,
}

/// What `/ready` asks for.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Readiness {
    /// Every target connected.
    All,
    /// At least one.
    Any,
    /// None: what is configured is served.
    Registry,
}
