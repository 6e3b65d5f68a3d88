//! `policies` as written.

use super::{ClientTls, Measure, Text};
use crate::shape::{Any, OneOrMany};
use crate::written::{Entries, Written};
use schemars::JsonSchema;
use serde::Deserialize;

/// What applies to every call.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policies {
    /// How long a call may take unless its target or `timeouts` says otherwise.
    #[schemars(with = "Measure", extend("default" = "60s"))]
    pub default_timeout: Written<Text>,
    /// Who may come in. Without it, everybody who can reach the listener.
    pub authentication: Written<Authentication>,
    /// Who may do what. Without it, everybody who came in may do everything.
    pub authorization: Written<Authorization>,
    /// How many calls in which time. Every limit that fits counts.
    pub rate_limit: Written<Vec<Written<RateLimit>>>,
    /// How many calls at once. Every limit that fits counts.
    pub concurrency: Written<Vec<Written<Concurrency>>>,
    /// How long calls of some tools or principals may take. The first that fits counts, else the target's own `timeout`.
    pub timeouts: Written<Vec<Written<Timeout>>>,
}

/// Who may come in: holders of a token or of an API key.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("anyOf" = [{ "required": ["jwt"] }, { "required": ["apiKeys"] }]))]
pub struct Authentication {
    /// Whose tokens count: one issuer, or a list of them.
    pub jwt: Written<OneOrMany<Jwt>>,
    /// Keys for programs.
    pub api_keys: Written<Vec<Written<ApiKey>>>,
    /// The URL by which clients know this gateway, for the protected-resource metadata. Guessed from each request if absent.
    pub resource: Written<Text>,
}

/// Somebody whose tokens count.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["issuer", "audiences", "jwks"]))]
pub struct Jwt {
    /// The `iss` of its tokens, to the letter.
    pub issuer: Written<Text>,
    /// One of these must be in a token's `aud`.
    #[schemars(extend("minItems" = 1))]
    pub audiences: Written<Vec<Written<Text>>>,
    /// Where its keys are.
    pub jwks: Written<Jwks>,
    /// Algorithms that count. Symmetric ones are never among them.
    #[schemars(extend("default" = super::ALGORITHMS, "items" = { "enum": super::ALGORITHMS }))]
    pub algorithms: Written<Vec<Written<Text>>>,
    /// Scopes that every token must carry.
    pub scopes: Written<Vec<Written<Text>>>,
}

/// The algorithms that tokens may be signed with, in the names of RFC 7518: all of them asymmetric.
pub const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

/// Where an issuer's keys are: exactly one of `url` and `file`.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("oneOf" = [{ "required": ["url"] }, { "required": ["file"] }]))]
pub struct Jwks {
    /// The URL of its JSON Web Key Set.
    pub url: Written<Text>,
    /// A file with the set, read again when it changes.
    pub file: Written<Text>,
    /// How to trust the server behind `url`.
    pub tls: Written<ClientTls>,
}

/// A key for a program.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["id", "hash"]))]
pub struct ApiKey {
    /// What logs and rules (`apiKey.id`) call its owner.
    pub id: Written<Text>,
    /// `sha256:` and the hash of the key, as `printf %s KEY | sha256sum` prints it.
    #[schemars(extend("pattern" = r"^(sha256:[0-9A-Fa-f]{64}|.*[$].*)$"))]
    pub hash: Written<Text>,
    /// What rules may know of its owner, as `jwt.*`.
    pub claims: Written<Entries<Any>>,
}

/// Who may do what.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["rules"]))]
pub struct Authorization {
    /// No `deny` may hold, every `require` must, and then some `allow` must. An empty list allows nothing.
    pub rules: Written<Vec<Written<Rule>>>,
}

/// One rule: exactly one of `allow`, `deny` and `require`, with an expression in CEL.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("oneOf" = [{ "required": ["allow"] }, { "required": ["deny"] }, { "required": ["require"] }]))]
pub struct Rule {
    /// Some of these must hold: `'mcp.tool.metadata.dataClassification == "public"'`.
    pub allow: Written<Text>,
    /// None of these may hold.
    pub deny: Written<Text>,
    /// All of these must hold.
    pub require: Written<Text>,
}

/// How many calls in which time: exactly one of `perPrincipal` and `total`.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("oneOf" = [{ "required": ["perPrincipal"] }, { "required": ["total"] }]))]
pub struct RateLimit {
    /// Which tools, by exposed name before any prefix; `*` stands for anything. Without it, all together.
    pub tool: Written<Text>,
    /// How many of each principal: `100/m`, `10/s`; the units are s, m, h and d.
    pub per_principal: Written<Text>,
    /// How many of all principals together.
    pub total: Written<Text>,
}

/// How many calls at once: exactly one of `perPrincipal` and `total`.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("oneOf" = [{ "required": ["perPrincipal"] }, { "required": ["total"] }]))]
pub struct Concurrency {
    /// Which tools, by exposed name before any prefix; `*` stands for anything. Without it, all together.
    pub tool: Written<Text>,
    /// How many of each principal.
    #[schemars(with = "Measure")]
    pub per_principal: Written<Text>,
    /// How many of all principals together.
    #[schemars(with = "Measure")]
    pub total: Written<Text>,
}

/// How long calls may take.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["timeout"]))]
pub struct Timeout {
    /// Which tools, by exposed name before any prefix; `*` stands for anything. Without it, all.
    pub tool: Written<Text>,
    /// Whose calls: the id of an API key or the `sub` of a token. Without it, everybody's.
    pub principal: Written<Text>,
    /// How long: `10s`, `500ms`; a bare number is seconds.
    #[schemars(with = "Measure")]
    pub timeout: Written<Text>,
}
