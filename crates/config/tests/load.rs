//! What configs mean.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use transom_config::{Environment, Loaded, ProcessEnvironment, Report, Severity, Source, load};
use transom_gateway::{Config, ListenAt, Prefix, Readiness, TlsFiles};
use transom_upstream::{EraChoice, Sessions, TargetSpec, Transport};

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

#[derive(Clone)]
struct Fake(BTreeMap<&'static str, &'static str>);

impl Environment for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        let files = ["/etc/transom/ca.pem", "/etc/transom/server.pem", "/etc/transom/server.key", "/home/me/ca.pem"];
        if path == Path::new("/etc/transom/token") {
            return Ok("from-a-file\n".into());
        }
        if files.iter().any(|file| path == Path::new(file)) { Ok(PEM.into()) } else { Err("No such file or directory".into()) }
    }
}

fn environment() -> Fake {
    Fake(BTreeMap::from([("KEY", "canary-1"), ("TOKEN", "canary-2"), ("SESSION_KEY", "0123456789abcdef"), ("HOME", "/home/me"), ("PORT", "4000")]))
}

fn source(name: &str, text: &str) -> Source {
    Source { name: name.into(), text: text.into(), base_dir: "/etc/transom".into() }
}

fn loaded(texts: &[&str]) -> Loaded {
    let sources: Vec<_> = texts.iter().enumerate().map(|(index, text)| source(&format!("{index}.yaml"), text)).collect();
    load(&sources, &environment()).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

fn config(text: &str) -> Config {
    let loaded = loaded(&[text]);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.render(false));
    loaded.config
}

fn target(text: &str) -> TargetSpec {
    let mut targets = config(&format!("backends: [{{ mcp: {{ targets: [{text}] }} }}]")).targets;
    assert_eq!(targets.len(), 1);
    targets.remove(0)
}

fn url(target: &TargetSpec) -> String {
    match &target.transport {
        Transport::Http { url, .. } | Transport::Sse { url, .. } => url.to_string(),
        Transport::Stdio { .. } => panic!("not on the network"),
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn no_config_at_all_is_the_default() {
    // R-001-10, R-001-14
    let default = Config { state_dir: Some("/home/me/.local/state/transom".into()), ..Config::default() };
    assert_eq!(load(&[], &environment()).unwrap().config, default);
    for nothing in ["", "\n", "# only a comment\n", "---\n", "{}", "backends: []", "backends:\n", "listen:\nadmin:\n"] {
        assert_eq!(config(nothing), default, "{nothing:?}");
    }
}

#[test]
fn what_outlives_the_process_goes_where_the_user_keeps_such_things() {
    let state_dir = |variables: &[(&'static str, &'static str)]| load(&[], &Fake(variables.iter().copied().collect())).unwrap().config.state_dir;
    assert_eq!(state_dir(&[("XDG_STATE_HOME", "/state"), ("HOME", "/home/me")]), Some(PathBuf::from("/state/transom")));
    assert_eq!(state_dir(&[("XDG_STATE_HOME", ""), ("HOME", "/home/me")]), Some(PathBuf::from("/home/me/.local/state/transom")));
    assert_eq!(state_dir(&[("XDG_STATE_HOME", "relative")]), None);
    assert_eq!(state_dir(&[]), None);
}

#[test]
fn every_key_has_its_meaning() {
    // operations.md section 1, R-003-8
    let config = config(
        r#"
# yaml-language-server: $schema=../schema/config.schema.json, cost $5
$schema: https://example.com/x
$comment: ignored
x-team: { anything: [1, 2] }
listen: 127.0.0.1:3000
admin: { listen: localhost:15001, token: "${SESSION_KEY}" }
metrics: { listen: "0.0.0.0:15021" }
backends:
  - mcp:
      x-owner: platform
      targets:
        - name: weather
          stdio: { cmd: uvx, args: ["mcp-server-weather", --port, 8080, 1.10, true], env: { KEY: "${KEY}", N: 007 }, cwd: work }
        - name: search
          mcp: { host: http://search.internal:8080/mcp, headers: { Authorization: "Bearer ${TOKEN}", x-api-key: plain } }
          allowServerRequests: true
          era: modern
  - mcp:
      targets:
        - name: old
          sse: { host: https://old.internal/sse }
          sessions: perSession
          timeout: 10s
          era: legacy
          aliases: { read: read_file, write: write_file }
          tls: { ca: ca.pem }
naming: { prefix: always, separator: "-" }
tls: { cert: server.pem, key: /etc/transom/server.key }
allowedHosts: [mcp.corp.example, "MCP.corp.example:8443"]
allowedOrigins: ["https://app.corp.example"]
sessionKey: "${SESSION_KEY}"
stateDir: ~/state
readiness: any
allowUnauthenticated: true
policies:
  defaultTimeout: 2m
"#,
    );
    assert_eq!(config.listen, address("127.0.0.1:3000"));
    assert_eq!(config.admin, ListenAt::Exactly(address("127.0.0.1:15001")));
    assert_eq!(config.admin_token.as_ref().map(|token| token.expose()), Some("0123456789abcdef"));
    assert_eq!(config.metrics, ListenAt::Exactly(address("0.0.0.0:15021")));
    assert_eq!((config.naming.prefix, config.naming.separator.as_str()), (Prefix::Always, "-"));
    assert_eq!(config.tls, Some(TlsFiles { cert: "/etc/transom/server.pem".into(), key: "/etc/transom/server.key".into() }));
    assert_eq!(config.allowed_hosts, ["mcp.corp.example", "mcp.corp.example:8443"]);
    assert_eq!(config.allowed_origins, ["https://app.corp.example"]);
    assert_eq!(config.session_key.as_ref().map(|key| key.expose()), Some("0123456789abcdef"));
    assert_eq!(config.state_dir, Some(PathBuf::from("/home/me/state")));
    assert_eq!(config.readiness, Readiness::Any);
    assert!(config.allow_unauthenticated);

    let [weather, search, old] = config.targets.as_slice() else { panic!("three targets") };
    let Transport::Stdio { cmd, args, env, cwd, .. } = &weather.transport else { panic!("stdio") };
    assert_eq!(cmd, "uvx");
    assert_eq!(args, &["mcp-server-weather", "--port", "8080", "1.10", "true"], "numbers keep their spelling");
    let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(env, [("KEY", "canary-1"), ("N", "007")]);
    assert_eq!(cwd.as_deref(), Some(Path::new("/etc/transom/work")), "relative to the config file");
    assert_eq!((weather.timeout, weather.era, weather.sessions), (Duration::from_secs(120), EraChoice::Auto, Sessions::Shared));
    assert!(!weather.allow_server_requests);

    let Transport::Http { url, headers, tls: None } = &search.transport else { panic!("http") };
    assert_eq!(url, "http://search.internal:8080/mcp");
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("authorization", "Bearer canary-2"), ("x-api-key", "plain")]);
    assert_eq!((search.era, search.allow_server_requests), (EraChoice::Modern, true));

    let Transport::Sse { url, tls: Some(tls), .. } = &old.transport else { panic!("sse") };
    assert_eq!(url, "https://old.internal/sse");
    assert_eq!(tls.ca.as_deref(), Some(Path::new("/etc/transom/ca.pem")));
    assert_eq!((old.timeout, old.era, old.sessions), (Duration::from_secs(10), EraChoice::Legacy, Sessions::PerSession));
    assert_eq!(old.aliases, [("read".into(), "read_file".into()), ("write".into(), "write_file".into())]);

    // D5: nothing resolved is ever printed.
    assert!(!format!("{config:?}").contains("canary"));
}

// D2: what may not come back from a target is what proves something, not what is a part of many results
#[test]
fn of_a_text_that_is_put_together_the_secret_parts_are_secrets_too() {
    let values = [
        ("DB_USER", "Reporting-7"),
        ("DB_PASSWORD", "correct-horse"),
        ("DB_HOST", "db2.corp.example:5432"),
        ("DB_NAME", "Customers2024"),
        ("SALT", "x9y8z7w6"),
        ("MIRROR", "pg://app:open-sesame@elsewhere"),
    ];
    let environment = Fake(values.into_iter().chain([("HOME", "/home/alice")]).collect());
    let text = "backends: [{ mcp: { targets: [{ name: t, stdio: { cmd: x, env: { HOME: '${HOME}', WHERE: '${HOME}/data', \
        DSN: 'pg://${DB_USER}:${DB_PASSWORD}@${DB_HOST}/${DB_NAME}?s=${SALT}', MIRROR: '${MIRROR}', FILE: 'in ${file:/etc/transom/token}' } } }] } }]";
    let config = load(&[source("config.yaml", text)], &environment).unwrap_or_else(|report| panic!("{}", report.render(false))).config;
    let mut secrets = config.targets[0].transport.secrets();
    secrets.sort_unstable();
    secrets.dedup();
    let whole = "pg://Reporting-7:correct-horse@db2.corp.example:5432/Customers2024?s=x9y8z7w6";
    assert_eq!(secrets, ["correct-horse", "from-a-file", "in from-a-file", "open-sesame", whole, "pg://app:open-sesame@elsewhere", "x9y8z7w6"]);
}

#[test]
fn a_host_becomes_a_url() {
    let table = [
        ("mcp", "localhost:8080", "http://localhost:8080/mcp"),
        ("sse", "localhost:8080", "http://localhost:8080/sse"),
        ("mcp", "localhost:${PORT}", "http://localhost:4000/mcp"),
        ("mcp", "search.internal", "http://search.internal/mcp"),
        ("mcp", "http://search.internal", "http://search.internal/mcp"),
        ("mcp", "https://search.internal", "https://search.internal/mcp"),
        ("mcp", "HTTPS://search.internal:8443/v1/mcp", "https://search.internal:8443/v1/mcp"),
        ("mcp", "http://search.internal/", "http://search.internal/"),
        ("mcp", "http://search.internal?team=a", "http://search.internal/mcp?team=a"),
        ("mcp", "localhost:8080/other", "http://localhost:8080/other"),
        ("mcp", "[::1]:8080", "http://[::1]:8080/mcp"),
        ("sse", "http://old.internal/events", "http://old.internal/events"),
    ];
    for (key, host, expected) in table {
        assert_eq!(url(&target(&format!("{{ name: a, {key}: {{ host: '{host}' }} }}"))), expected, "{host}");
    }
}

#[test]
fn a_program_is_a_name_or_a_path() {
    let table = [
        ("uvx", "uvx"),
        ("./server", "/etc/transom/./server"),
        ("bin/server", "/etc/transom/bin/server"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("~/bin/server", "/home/me/bin/server"),
    ];
    for (written, meant) in table {
        let Transport::Stdio { cmd, .. } = target(&format!("{{ name: a, stdio: {{ cmd: '{written}' }} }}")).transport else { panic!("stdio") };
        assert_eq!(cmd, meant);
    }
}

#[test]
fn values_come_from_the_environment_after_parsing() {
    // cases.md 6.1: E22, E24, E25, E26; registry.md section 5.
    let text = "{ name: '${NAME}', stdio: { cmd: run, args: ['${KEY}', '$KEY', '$${KEY}', '${NONE:-a: b}', '$<KEY>', '${file:token}', '$.data.x'], env: { '${KEY}': x } } }";
    let target = target(text);
    assert_eq!(target.name, "${NAME}", "a name is a name");
    let Transport::Stdio { args, env, .. } = target.transport else { panic!("stdio") };
    assert_eq!(args, ["canary-1", "$KEY", "${KEY}", "a: b", "canary-1", "from-a-file", "$.data.x"]);
    assert_eq!(env.first().map(|(name, _)| name.as_str()), Some("${KEY}"), "keys are never expanded");
    assert_eq!(config("listen: 127.0.0.1:${PORT}\n").listen, address("127.0.0.1:4000"));
    assert_eq!(
        config("policies: { defaultTimeout: '${T:-3s}' }\nbackends: [{mcp: {targets: [{name: a, stdio: {cmd: b}}]}}]")
            .targets
            .first()
            .map(|target| target.timeout),
        Some(Duration::from_secs(3))
    );
}

#[test]
fn doubtful_things_are_pointed_out_and_accepted() {
    let report = loaded(&[
        "backends: [{ mcp: { targets: [{ name: a, stdio: { cmd: 'npx -y server', env: { A: '${KEY' } }, aliases: { x: x }, tls: { ca: ca.pem } }] } }]\n",
    ])
    .warnings;
    let messages: Vec<_> = report.problems().map(|problem| (problem.severity, problem.message)).collect();
    assert_eq!(
        messages,
        [
            (Severity::Warning, "`cmd` contains a space, and there is no shell that splits it"),
            (Severity::Warning, "this placeholder is never closed and stays as it is"),
            (Severity::Warning, "`x` is an alias of itself"),
            (Severity::Warning, "`tls` has no effect on a target that is not reached by https"),
        ]
    );
    assert!(report.render(false).ends_with("4 warnings\n"));
}

#[test]
fn a_later_file_replaces_targets_whole_and_other_settings_one_by_one() {
    // L15
    let merged = loaded(&[
        "listen: 127.0.0.1:1\nnaming: { prefix: always, separator: '-' }\nallowedHosts: [a.example]\nbackends: [{mcp: {targets: [{name: a, stdio: {cmd: old, args: [x]}, timeout: 5s}, {name: b, stdio: {cmd: b}}]}}]",
        "naming: { separator: '.' }\nallowedHosts: [b.example]\npolicies: { defaultTimeout: 7s }\nbackends: [{mcp: {targets: [{name: c, stdio: {cmd: c}}, {name: a, stdio: {cmd: new}}]}}]",
    ])
    .config;
    assert_eq!(merged.listen, address("127.0.0.1:1"));
    assert_eq!((merged.naming.prefix, merged.naming.separator.as_str()), (Prefix::Always, "."));
    assert_eq!(merged.allowed_hosts, ["b.example"]);
    let targets: Vec<_> = merged.targets.iter().map(|target| (target.name.as_str(), target.timeout.as_secs(), &target.transport)).collect();
    let stdio = |cmd: &str| Transport::Stdio { cmd: cmd.into(), args: vec![], env: vec![], cwd: None, limits: Default::default() };
    assert_eq!(targets, [("a", 7, &stdio("new")), ("b", 7, &stdio("b")), ("c", 7, &stdio("c"))]);
}

#[test]
fn each_file_has_its_own_directory_and_variables() {
    // E27
    let beside = |base: &str, name: &str| Source {
        name: name.into(),
        text: format!("backends: [{{mcp: {{targets: [{{name: {name}, stdio: {{cmd: ./run}}}}]}}}}]"),
        base_dir: base.into(),
    };
    let config = load(&[beside("/one", "a"), beside("/two", "b")], &environment()).unwrap().config;
    let commands: Vec<_> = config.targets.iter().map(|target| &target.transport).collect();
    let stdio = |cmd: &str| Transport::Stdio { cmd: cmd.into(), args: vec![], env: vec![], cwd: None, limits: Default::default() };
    assert_eq!(commands, [&stdio("/one/./run"), &stdio("/two/./run")]);
}

#[test]
fn the_file_of_a_desktop_client_is_recognised_by_its_shape() {
    let loaded = loaded(&[r#"{
        "mcpServers": {
            "time": { "command": "uvx", "args": ["mcp-server-time"], "env": { "TZ": "UTC", "KEY": "${KEY}" }, "cwd": "work", "type": "stdio" },
            "search": { "url": "http://search.internal:8080/mcp", "headers": { "Authorization": "Bearer ${env:TOKEN}" } },
            "typed": { "type": "streamable-http", "url": "https://a.example/x/sse" },
            "windsurf": { "serverUrl": "https://b.example/sse" },
            "old": { "type": "sse", "url": "https://c.example/events" },
            "off": { "command": "false", "args": ["${UNSET}"], "disabled": true },
            "on": { "command": "true", "disabled": false, }
        }
    }"#]);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.render(false));
    let shown: Vec<_> = loaded
        .config
        .targets
        .iter()
        .map(|target| {
            let transport = match &target.transport {
                Transport::Stdio { cmd, args, cwd, env, .. } => format!("stdio {cmd} {args:?} {cwd:?} {}", env.len()),
                Transport::Http { url, headers, .. } => format!("http {url} {}", headers.len()),
                Transport::Sse { url, .. } => format!("sse {url}"),
            };
            format!("{}: {transport}", target.name)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "time: stdio uvx [\"mcp-server-time\"] Some(\"/etc/transom/work\") 2",
            "search: http http://search.internal:8080/mcp 1",
            "typed: http https://a.example/x/sse 0",
            "windsurf: sse https://b.example/sse",
            "old: sse https://c.example/events",
            "on: stdio true [] None 0",
        ]
    );
}

#[test]
fn what_a_desktop_client_has_beyond_us_is_pointed_out() {
    let warnings = loaded(&[r#"{ "globalShortcut": "x", "mcpServers": { "a": { "command": "a", "alwaysAllow": [] } } }"#]).warnings;
    let messages: Vec<_> = warnings.problems().map(|problem| problem.message).collect();
    assert_eq!(messages, ["`globalShortcut` has no effect here", "`alwaysAllow` has no effect here"]);
}

#[test]
fn json_is_read_like_yaml() {
    let text = "\u{feff}{\"listen\": \"127.0.0.1:3000\",\t\"backends\": [{\"mcp\": {\"targets\": [\n\t{\"name\": \"ab\\ud83d\\ude00\", \"stdio\": {\"cmd\": \"x\", \"args\": [1e400, 12345678901234567890123]}}]}}]}";
    let config = config(text);
    let target = config.targets.first().unwrap();
    assert_eq!(target.name, "ab😀");
    let Transport::Stdio { args, .. } = &target.transport else { panic!("stdio") };
    assert_eq!(args, &["1e400", "12345678901234567890123"]);
}

#[test]
fn yaml_anchors_work_and_ambiguous_words_are_text() {
    // F3: `NO` is Norway, `1_000` is what it says.
    let config = config(
        "x-env: &env { COUNTRY: NO, N: 1_000, T: 12:30:00 }\nbackends: [{mcp: {targets: [{name: a, stdio: {cmd: x, env: *env}}, {name: b, stdio: {cmd: y, env: {<<: *env, Z: on}}}]}}]\n",
    );
    let env = |index: usize| match config.targets.get(index).map(|target| &target.transport) {
        Some(Transport::Stdio { env, .. }) => env.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect::<Vec<_>>(),
        _ => panic!("stdio"),
    };
    assert_eq!(env(0), ["COUNTRY=NO", "N=1_000", "T=12:30:00"]);
    assert_eq!(env(1).len(), 4);
    assert!(env(1).contains(&"Z=on".to_owned()) && env(1).contains(&"N=1_000".to_owned()));
}

#[test]
fn a_report_is_data_too() {
    let report: Report = load(&[source("a.yaml", "naming:\n  prefix: allways\nlisten: \"ü\" \n")], &environment()).unwrap_err();
    let first = report.problems().next().unwrap();
    assert_eq!((first.file, first.line, first.column, first.message), ("a.yaml", 2, 11, "`prefix` cannot be `allways`"));
    assert_eq!(first.help, Some("did you mean `always`? it can be: onCollision, always, never"));
    assert_eq!(report.to_string().lines().count(), 2);
    assert!(report.to_string().starts_with("a.yaml:2:11: `prefix` cannot be `allways` (did you mean"));
    assert!(report.render(true).contains("\u{1b}["));
    assert!(!report.render(false).contains("\u{1b}["));
}

#[test]
fn a_very_long_line_is_cropped_around_the_problem() {
    let text = format!("{{\"x-a\": \"{}\", \"lisen\": \"x\", \"x-b\": \"{}\"}}", "a".repeat(50_000), "b".repeat(50_000));
    let report = load(&[source("a.json", &text)], &environment()).unwrap_err();
    let page = report.render(false);
    assert!(page.len() < 2_000 && page.contains("\"lisen\"") && page.contains("a.json:1:50013"), "{page}");
}

#[test]
fn a_thousand_mistakes_are_counted_and_a_hundred_shown() {
    let text: String = (0..1_000).map(|index| format!("wrong{index}: 1\n")).collect();
    let report = load(&[source("a.yaml", &text)], &environment()).unwrap_err();
    assert_eq!(report.problems().count(), 100);
    assert!(report.render(false).ends_with("100 errors and 900 more\n"));
}

#[test]
fn every_example_loads() {
    // layout.md: each example is executed by a test; R-003-53.
    #[derive(Clone)]
    struct Generous;
    impl Environment for Generous {
        fn variable(&self, name: &str) -> Option<String> {
            Some(if name.ends_with("_HASH") { format!("sha256:{}", "0".repeat(64)) } else { format!("value-of-{name}-long-enough") })
        }
        fn file(&self, path: &Path) -> Result<String, String> {
            ProcessEnvironment
                .file(path)
                .or_else(|reason| if path.extension().is_some_and(|end| end == "pem") { Ok(PEM.into()) } else { Err(reason) })
        }
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for example in std::fs::read_dir(examples).unwrap() {
        let folder = example.unwrap().path();
        for name in ["config.yaml", "mcp.json"] {
            let file = folder.join(name);
            if file.exists() {
                let loaded = load(&[Source::read(&file).unwrap()], &Generous).unwrap_or_else(|report| panic!("{}", report.render(false)));
                assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.render(false));
                assert!(!loaded.config.targets.is_empty(), "{}", file.display());
                seen += 1;
            }
        }
        assert!(folder.join("README.md").exists(), "{} has no README.md", folder.display());
    }
    assert!(seen >= 3, "{seen} example configs");
}

#[test]
fn the_process_environment_reads_variables_and_small_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "t\n").unwrap();
    std::fs::write(dir.path().join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    assert!(ProcessEnvironment.variable("PATH").is_some());
    assert_eq!(ProcessEnvironment.variable("TRANSOM_TEST_NO_SUCH_VARIABLE"), None);
    assert_eq!(ProcessEnvironment.file(&dir.path().join("token")), Ok("t\n".into()));
    assert!(ProcessEnvironment.file(&dir.path().join("missing")).is_err());
    assert_eq!(ProcessEnvironment.file(&dir.path().join("large")), Err("it is larger than 1 MiB".into()));
    assert_eq!(ProcessEnvironment.file(dir.path()), Err("it is not a file".into()));
}
