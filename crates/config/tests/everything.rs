//! A config that says everything a config can say about registries, principals and limits, and what it means.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use transom_config::{Environment, Loaded, Source, load};
use transom_gateway::config::{
    ApiKey, Authentication, ConcurrencyLimit, Effect, Jwks, JwtIssuer, Limits, OnStart, OwnTools, Per, RateLimit, Reading, RegistryConfig,
    RegistryLocation, RegistrySource, Rule, ToolTimeout,
};
use transom_gateway::{Config, Discovery, DiscoveryMode};
use transom_registry::file::HiddenArguments;
use transom_registry::pin::OnDrift;
use transom_registry::result::{Errors, OnMissing, OnUnshaped};
use transom_registry::{Settings, Unlisted};
use transom_upstream::Secret;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

#[derive(Clone)]
struct Fake(BTreeMap<&'static str, &'static str>);

impl Environment for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        match path.to_str() {
            Some("/etc/transom/ca.pem") => Ok(PEM.into()),
            Some("/etc/transom/secrets/token") => Ok("from-a-file".into()),
            _ => Err("No such file or directory".into()),
        }
    }
}

fn environment() -> Fake {
    Fake(BTreeMap::from([
        ("REGISTRY_TOKEN", "canary-token"),
        ("PASSWORD", "canary-password"),
        ("KEY", "canary-key"),
        ("TENANT", "acme"),
        ("HOME", "/home/me"),
        ("XDG_STATE_HOME", "/state"),
    ]))
}

fn loaded(text: &str) -> Loaded {
    let source = Source { name: "config.yaml".into(), text: text.into(), base_dir: "/etc/transom".into() };
    load(&[source], &environment()).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

fn config(text: &str) -> Config {
    let loaded = loaded(text);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.render(false));
    loaded.config
}

/// The defaults, in this environment.
fn nothing_said() -> Config {
    Config { state_dir: Some("/state/transom".into()), ..Config::default() }
}

fn warnings(text: &str) -> Vec<String> {
    loaded(text).warnings.problems().map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.message)).collect()
}

fn http(url: &'static str, headers: &[(&'static str, &str)], ca: bool) -> RegistryLocation {
    // What the file spells out is no secret, unless it proves who we are.
    let value = |name: &str, value: &str| if name == "authorization" { Secret::new(value) } else { Secret::plain(value) };
    let headers = headers.iter().map(|(name, text)| (http::HeaderName::from_static(name), value(name, text))).collect();
    RegistryLocation::Http { url: http::Uri::from_static(url), headers, ca: ca.then(|| PEM.as_bytes().into()) }
}

const EVERYTHING: &str = r#"
registry:
  sources:
    - https://registry.corp.example/api/v1/tools?team=a
    - file://./team%20a.json
    - { source: "https://other.example", auth: { basic: { username: user, password: pass }, headers: { X-Team: a } }, tls: { ca: ca.pem } }
    - ~/mine.json
  refreshInterval: 5m
  auth: { bearer: "${REGISTRY_TOKEN}" }
  env: { allow: ["WEATHER_*", "file:/run/secrets/*"] }
  onStart: retry
  strict: true
  allowEmpty: true
  unlisted: hide
  jsonpath: full
  defaults: { hiddenArguments: drop, onDrift: warn, onMissing: "null", onUnshaped: passthrough, errors: generic, keepContent: true, hideDefaulted: true, coerceArguments: false }
tools:
  - name: get_weather
    source: { target: weather, tool: fetch_weather }
    defaults: { api_key: "${KEY}", days: 1.50, exact: 12345678901234567890123, on: true, none: null, "a\"b": ["ü\n", 0x10] }
  - just text
validation: all
discovery: { mode: auto, threshold: 40, pinned: [get_weather, "github__*"] }
policies:
  authentication:
    jwt:
      - issuer: https://login.corp.example
        audiences: [mcp]
        jwks: { url: "https://login.corp.example/jwks", tls: { ca: ca.pem } }
        algorithms: [RS256, EdDSA]
        scopes: [tools]
      - { issuer: local, audiences: [a, b], jwks: { file: keys.json } }
    apiKeys:
      - id: ci
        hash: sha256:00FFa0000000000000000000000000000000000000000000000000000000000f
        claims: { role: admin, tenant: "${TENANT}", level: 7, groups: [a, b] }
    resource: https://mcp.corp.example/mcp
  authorization:
    rules:
      - allow: mcp.tool.metadata.dataClassification == "public"
      - { deny: 'jwt.role == "guest"' }
      - { require: 'mcp.method != "x"' }
  rateLimit: [{ perPrincipal: 100/m }, { tool: "get_*", total: 10/s }]
  concurrency: [{ tool: slow, perPrincipal: 5 }, { total: 200 }]
  timeouts: [{ tool: slow_*, principal: ci, timeout: 10s }, { timeout: 500ms }]
"#;

#[test]
fn everything_that_can_be_said_is_meant() {
    // R-003-4 to R-003-7, L1, L3, L4, C7
    let source = |name: &str, location| RegistrySource { name: name.into(), location };
    let mut hash = [0; 32];
    (hash[1], hash[2], hash[31]) = (0xff, 0xa0, 0x0f);
    let all = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
    let rule = |effect, expression: &str| Rule { effect, expression: expression.into() };
    let tool = |pattern: &str| Some(pattern.to_owned());
    let expected = Config {
        registry: Some(RegistryConfig {
            sources: vec![
                source(
                    "https://registry.corp.example/api/v1/tools",
                    http("https://registry.corp.example/api/v1/tools?team=a", &[("authorization", "Bearer canary-token")], false),
                ),
                source("file://./team%20a.json", RegistryLocation::File("/etc/transom/team a.json".into())),
                source("https://other.example", http("https://other.example/", &[("x-team", "a"), ("authorization", "Basic dXNlcjpwYXNz")], true)),
                source("~/mine.json", RegistryLocation::File("/home/me/mine.json".into())),
            ],
            refresh: Duration::from_secs(300),
            on_start: OnStart::Retry,
            allow_empty: true,
        }),
        reading: Reading {
            settings: Settings {
                hidden_arguments: Some(HiddenArguments::Drop),
                on_drift: Some(OnDrift::Warn),
                on_missing: Some(OnMissing::Null),
                on_unshaped: Some(OnUnshaped::Passthrough),
                errors: Some(Errors::Generic),
                keep_content: Some(true),
                hide_defaulted: Some(true),
                coerce_arguments: Some(false),
            },
            strict: true,
            unlisted: Unlisted::Hide,
            full_jsonpath: true,
            env_allow: Some(vec!["WEATHER_*".into(), "file:/run/secrets/*".into()]),
            validate_all: true,
        },
        own_tools: Some(OwnTools {
            name: "config.yaml".into(),
            text: r#"{"tools":[{"name":"get_weather","source":{"target":"weather","tool":"fetch_weather"},"defaults":{"api_key":"${KEY}","days":1.50,"exact":12345678901234567890123,"on":true,"none":null,"a\"b":["ü\n",16]}},"just text"]}"#.into(),
            places: vec![(18, 5), (21, 5)],
        }),
        discovery: Discovery { mode: DiscoveryMode::Auto, threshold: 40, pinned: vec!["get_weather".into(), "github__*".into()] },
        authentication: Some(Authentication {
            jwt: vec![
                JwtIssuer {
                    issuer: "https://login.corp.example".into(),
                    audiences: vec!["mcp".into()],
                    jwks: Jwks::Url { url: http::Uri::from_static("https://login.corp.example/jwks"), ca: Some(PEM.as_bytes().into()) },
                    algorithms: vec!["RS256".into(), "EdDSA".into()],
                    scopes: vec!["tools".into()],
                },
                JwtIssuer {
                    issuer: "local".into(),
                    audiences: vec!["a".into(), "b".into()],
                    jwks: Jwks::File("/etc/transom/keys.json".into()),
                    algorithms: all.map(str::to_owned).to_vec(),
                    scopes: vec![],
                },
            ],
            api_keys: vec![ApiKey {
                id: "ci".into(),
                hash,
                claims: serde_json::from_str(r#"{"role":"admin","tenant":"acme","level":7,"groups":["a","b"]}"#).unwrap(),
            }],
            resource: Some("https://mcp.corp.example/mcp".into()),
        }),
        authorization: Some(vec![
            rule(Effect::Allow, "mcp.tool.metadata.dataClassification == \"public\""),
            rule(Effect::Deny, "jwt.role == \"guest\""),
            rule(Effect::Require, "mcp.method != \"x\""),
        ]),
        limits: Limits {
            rates: vec![
                RateLimit { tool: None, per: Per::Principal, calls: 100, period: Duration::from_secs(60) },
                RateLimit { tool: tool("get_*"), per: Per::All, calls: 10, period: Duration::from_secs(1) },
            ],
            concurrency: vec![
                ConcurrencyLimit { tool: tool("slow"), per: Per::Principal, calls: 5 },
                ConcurrencyLimit { tool: None, per: Per::All, calls: 200 },
            ],
            timeouts: vec![
                ToolTimeout { tool: tool("slow_*"), principal: Some("ci".into()), timeout: Duration::from_secs(10) },
                ToolTimeout { tool: None, principal: None, timeout: Duration::from_millis(500) },
            ],
        },
        ..nothing_said()
    };
    let config = config(EVERYTHING);
    assert_eq!(config, expected);
    // L19
    assert!(!format!("{config:?}").contains("canary"), "{config:?}");
}

#[test]
fn a_source_alone_is_enough() {
    // R-003-5, R-003-6, C8
    let registry = |text: &str| config(&format!("registry: {{ {text} }}")).registry.unwrap();
    let plain = registry("source: file:///etc/registry.json");
    assert_eq!((plain.refresh, plain.on_start, plain.allow_empty), (Duration::from_secs(30), OnStart::Cached, false));
    assert_eq!(registry("source: r.json, refresh_interval: 2d").refresh, Duration::from_secs(172_800));
    assert_eq!(registry("source: r.json, refreshInterval: 30").refresh, Duration::from_secs(30));
    assert_eq!(registry("source: 'http://127.0.0.1:${PORT:-9}/r', auth: { bearer: x }").sources.len(), 1, "no warning on loopback");
}

#[test]
fn nothing_said_is_the_default() {
    for text in ["tools: []", "discovery: list", "validation: standard", "policies: { rateLimit: [], timeouts: [] }"] {
        assert_eq!(config(text), nothing_said(), "{text}");
    }
    assert_eq!(config("policies: { authorization: { rules: [{ allow: 'true' }] } }").authorization.map(|rules| rules.len()), Some(1));
}

#[test]
fn discovery_is_a_word_or_a_map() {
    for (word, mode) in [("list", DiscoveryMode::List), ("search", DiscoveryMode::Search), ("auto", DiscoveryMode::Auto)] {
        let expected = Discovery { mode, ..Discovery::default() };
        assert_eq!(config(&format!("discovery: {word}")).discovery, expected);
        assert_eq!(config(&format!("discovery: {{ mode: {word} }}")).discovery, expected);
    }
}

#[test]
fn settings_count_for_tools_in_the_config_without_a_registry() {
    let config = config("registry: { strict: true, env: { allow: [] } }\ntools: [{ name: a, source: { target: b } }]");
    assert!(config.registry.is_none() && config.own_tools.is_some());
    assert!(config.reading.strict);
    assert_eq!(config.reading.env_allow, Some(vec![]), "an empty list is not everything");
}

#[test]
fn one_issuer_needs_no_list() {
    let text = "policies: { authentication: { jwt: { issuer: a, audiences: [b], jwks: { file: c } } } }";
    assert_eq!(config(text).authentication.map(|section| section.jwt.len()), Some(1));
}

#[test]
fn registries_read_files_beside_the_config() {
    let config = config("registry: { source: r.json }");
    assert_eq!(config.environment.get().file(Path::new("secrets/token")), Ok("from-a-file".into()));
    assert_eq!(config.environment.get().variable("TENANT"), Some("acme".into()));
}

#[test]
fn doubtful_things_are_pointed_out_and_accepted() {
    // F6, R-002-1
    let table = [
        ("registry: { source: r.json, auth: { bearer: x } }", "1:29 `auth` has no effect on a registry that is a file"),
        ("registry: { source: 'http://a.example', auth: { bearer: x } }", "1:41 these credentials go over plain http, where others can read them"),
        ("tools: [{ name: 007 }]", "1:17 `007` is no number to JSON and counts as text"),
        ("policies: { authorization: { rules: [] } }", "1:30 no rule allows anything, so that nothing is allowed"),
        ("policies: { authorization: { rules: [{ deny: 'false' }] } }", "1:30 no rule allows anything, so that nothing is allowed"),
        (
            "policies: { authentication: { jwt: { issuer: a, audiences: [b], jwks: { url: 'http://a.example' } } } }",
            "1:78 these keys come over plain http, where others can replace them",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(warnings(text), [expected], "{text}");
    }
}

#[test]
fn a_later_file_does_not_send_the_token_of_an_earlier_one_elsewhere() {
    let source = |text: &str| Source { name: "c.yaml".into(), text: text.into(), base_dir: "/etc/transom".into() };
    let merged = |later: &str| {
        let earlier =
            "registry: { source: 'https://a.example', auth: { bearer: '${REGISTRY_TOKEN}' }, refreshInterval: 1m, strict: true }\nvalidation: all";
        load(&[source(earlier), source(later)], &environment()).unwrap().config
    };
    let elsewhere = merged("registry: { source: 'https://b.example', refresh_interval: 2m }");
    let registry = elsewhere.registry.unwrap();
    assert_eq!(registry.sources, [RegistrySource { name: "https://b.example".into(), location: http("https://b.example/", &[], false) }]);
    assert_eq!(registry.refresh, Duration::from_secs(120));
    assert!(elsewhere.reading.strict && elsewhere.reading.validate_all);

    let same = merged("registry: { auth: { bearer: other } }").registry.unwrap();
    assert_eq!(same.sources.first().map(|source| &source.location), Some(&http("https://a.example/", &[("authorization", "Bearer other")], false)));
}

#[test]
fn what_the_schema_calls_a_default_is_one() {
    // Written out, every default of a section without lists means what its absence means.
    let schema = transom_config::json_schema();
    let written = defaults(&schema, &schema);
    assert!(written.contains("\"refreshInterval\":\"30s\"") && written.contains("\"defaultTimeout\":\"60s\""), "{written}");
    let with = |text: &str| {
        let mut document: serde_json::Value = serde_json::from_str(text).unwrap();
        let targets = serde_json::json!([{ "mcp": { "targets": [{ "name": "a", "stdio": { "cmd": "b" } }] } }]);
        document.as_object_mut().unwrap().insert("backends".into(), targets);
        document
            .as_object_mut()
            .unwrap()
            .entry("registry")
            .or_insert(serde_json::json!({}))
            .as_object_mut()
            .unwrap()
            .insert("source".into(), "r.json".into());
        let mut config = config(&document.to_string());
        // Said or not said is a difference to the engine, which fills in the same.
        config.reading.settings = Settings::default();
        config
    };
    assert_eq!(with(&written), with("{}"));
}

fn defaults(root: &serde_json::Value, schema: &serde_json::Value) -> String {
    let properties = schema.get("properties").and_then(serde_json::Value::as_object).into_iter().flatten();
    let parts = properties.filter_map(|(key, property)| {
        let value = match (property.get("default"), property.get("$ref").and_then(serde_json::Value::as_str)) {
            (Some(value), _) => value.to_string(),
            (None, Some(reference)) => defaults(root, root.pointer(reference.strip_prefix('#')?)?),
            (None, None) => return None,
        };
        (value != "{}").then(|| format!("\"{key}\":{value}"))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}
