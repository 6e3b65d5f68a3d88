//! `registry` and `validation` as written.

use super::{ClientTls, Measure, Scalar, Text};
use crate::shape::TextOr;
use crate::written::{Entries, Written};
use schemars::JsonSchema;
use serde::Deserialize;

/// Where virtual tools are published, and how they are read.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("not" = { "required": ["source", "sources"] }))]
pub struct Registry {
    /// Where the registry is: `https://registry.corp.example/tools`, `file:///etc/transom/registry.json`, or
    /// `file://./registry.json` beside this file. A plain path will do too.
    pub source: Written<Text>,
    /// Several registries instead of one `source`, in order: of two tools with one name the first wins.
    pub sources: Written<Vec<Written<TextOr<RegistrySource>>>>,
    /// How often HTTP sources are asked: `5m`, `30s`; a bare number is seconds. Files are watched.
    #[schemars(with = "Measure", extend("default" = "30s"))]
    pub refresh_interval: Written<Text>,
    /// The older spelling of `refreshInterval`.
    #[serde(rename = "refresh_interval")]
    #[schemars(with = "Measure")]
    pub older_refresh_interval: Written<Text>,
    /// What HTTP sources ask for.
    pub auth: Written<RegistryAuth>,
    /// How to trust HTTP sources.
    pub tls: Written<ClientTls>,
    /// What `${…}` in registries may read.
    pub env: Written<RegistryEnvironment>,
    /// What to do when the first load fails.
    #[schemars(extend("default" = "cached"))]
    pub on_start: Written<OnStart>,
    /// Whether one bad tool rejects the whole registry, instead of being left out of it.
    #[schemars(extend("default" = false))]
    pub strict: Written<bool>,
    /// Whether an empty registry may replace one that is not.
    #[schemars(extend("default" = false))]
    pub allow_empty: Written<bool>,
    /// What becomes of tools that no registry mentions.
    #[schemars(extend("default" = "show"))]
    pub unlisted: Written<Unlisted>,
    /// How much of JSONPath registries may use.
    #[schemars(extend("default" = "standard"))]
    pub jsonpath: Written<JsonPath>,
    /// What holds for every tool that says nothing else.
    pub defaults: Written<ToolDefaults>,
}

/// One of several registries.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["source"]))]
pub struct RegistrySource {
    /// Where it is.
    pub source: Written<Text>,
    /// What it asks for, instead of `registry.auth`.
    pub auth: Written<RegistryAuth>,
    /// How to trust it, instead of `registry.tls`.
    pub tls: Written<ClientTls>,
}

/// Credentials for a registry server.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("not" = { "required": ["bearer", "basic"] }))]
pub struct RegistryAuth {
    /// A token: `"${REGISTRY_TOKEN}"`. It is sent as `Authorization: Bearer …`.
    pub bearer: Written<Text>,
    /// User name and password, sent as `Authorization: Basic …`.
    pub basic: Written<Basic>,
    /// Headers of every request.
    #[schemars(with = "Entries<Scalar>")]
    pub headers: Written<Entries<Text>>,
}

/// User name and password.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["username", "password"]))]
pub struct Basic {
    /// The user name; it has no `:`.
    pub username: Written<Text>,
    /// The password.
    pub password: Written<Text>,
}

/// What `${…}` in registries may read.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RegistryEnvironment {
    /// Patterns of variable names, and of files as `file:/run/secrets/*`. Without it every variable may be read and no file.
    pub allow: Written<Vec<Written<Text>>>,
}

/// What holds for every tool that says nothing else.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolDefaults {
    /// What becomes of a hidden argument that a caller sends.
    #[schemars(extend("default" = "reject"))]
    pub hidden_arguments: Written<HiddenArguments>,
    /// What becomes of a tool whose pinned source changed.
    #[schemars(extend("default" = "quarantine"))]
    pub on_drift: Written<OnDrift>,
    /// What becomes of an output field without a value.
    #[schemars(extend("default" = "omit"))]
    pub on_missing: Written<OnMissing>,
    /// What becomes of a result that cannot be shaped.
    #[schemars(extend("default" = "error"))]
    pub on_unshaped: Written<OnUnshaped>,
    /// Whether the texts of failed calls reach the caller.
    #[schemars(extend("default" = "pass"))]
    pub errors: Written<Errors>,
    /// Whether images and other blocks stay beside a shaped result.
    #[schemars(extend("default" = false))]
    pub keep_content: Written<bool>,
    /// Whether every field that has a default is hidden.
    #[schemars(extend("default" = false))]
    pub hide_defaulted: Written<bool>,
    /// Whether strings become numbers and booleans where the schema asks for them and nothing is lost.
    #[schemars(extend("default" = false))]
    pub coerce_arguments: Written<bool>,
}

/// What to do when the first load of the registry fails.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnStart {
    /// Use the last known good; without one, do not start.
    Cached,
    /// Do not start.
    Require,
    /// Start, not ready and with an empty list, and keep trying.
    Retry,
}

/// What becomes of tools that no registry mentions.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unlisted {
    /// They pass through unchanged.
    Show,
    /// Only virtual tools are exposed.
    Hide,
}

/// How much of JSONPath registries may use.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JsonPath {
    /// Everything but what can cost much time on a large result.
    Standard,
    /// All of RFC 9535.
    Full,
}

/// What becomes of a hidden argument that a caller sends.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HiddenArguments {
    /// The call is refused.
    Reject,
    /// The argument is left out.
    Drop,
}

/// What becomes of a tool whose pinned source changed.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnDrift {
    /// It is neither listed nor callable.
    Quarantine,
    /// It stays, and a warning says so.
    Warn,
    /// Nothing; nobody looks.
    Ignore,
}

/// What becomes of an output field without a value.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnMissing {
    /// It is left out.
    Omit,
    /// It is `null`.
    Null,
    /// The whole result is an error.
    Error,
}

/// What becomes of a result that cannot be shaped.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnUnshaped {
    /// The caller gets an error.
    Error,
    /// The caller gets it as it came.
    Passthrough,
}

/// Whether the texts of failed calls reach the caller.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Errors {
    /// They do.
    Pass,
    /// The caller learns that there was an error.
    Generic,
}

/// Whose arguments are validated before a call.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Validation {
    /// Those of virtual tools; the targets look at the others themselves.
    Standard,
    /// Those of every tool.
    All,
}
