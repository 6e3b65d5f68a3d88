//! What a person sees who made a mistake in a config. Each snapshot should tell a stranger what is wrong, where, and what to do.

use std::collections::BTreeMap;
use std::path::Path;
use transom_config::{Environment, Severity, Source, load};

#[derive(Clone)]
struct Fake(BTreeMap<&'static str, &'static str>);

impl Environment for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        match path.to_str() {
            Some("/etc/transom/not-a.pem") => Ok("hello".into()),
            _ => Err("No such file or directory".into()),
        }
    }
}

fn source(name: &str, text: &str) -> Source {
    Source { name: name.into(), text: text.into(), base_dir: "/etc/transom".into() }
}

/// The report on one file; loading it must fail.
fn mistakes_in(name: &str, text: &str) -> String {
    let environment = Fake(BTreeMap::from([("PASSWORD", "canary-secret"), ("MULTILINE", "canary-secret\n"), ("WORD", "canary-secret")]));
    let report = load(&[source(name, text)], &environment).expect_err("this config has mistakes");
    let page = report.render(false);
    assert!(!page.contains("canary-secret") && !report.to_string().contains("canary-secret"), "a value reached a message: {page}");
    assert!(report.problems().any(|problem| problem.severity == Severity::Error));
    page
}

macro_rules! mistake {
    ($name:ident, $file:expr, $text:expr) => {
        #[test]
        fn $name() {
            insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(mistakes_in($file, $text)) });
        }
    };
}

mistake!(an_unknown_key_comes_with_a_suggestion, "config.yaml", "listen: 127.0.0.1:3000\nbackend:\n  - mcp: {}\n");

mistake!(
    an_unknown_key_of_a_target_lists_the_known_ones,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - name: time\n          stdio: { cmd: uvx, arguments: [mcp-server-time] }\n          colour: blue\n"
);

mistake!(
    a_wrong_type_is_told_in_plain_words,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        name: time\n        stdio: { cmd: uvx }\nallowUnauthenticated: yes\nallowedHosts: mcp.corp.example\nlisten: [127.0.0.1]\n"
);

mistake!(
    a_target_needs_a_name,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - stdio: { cmd: uvx }\n        - name: \"\"\n          stdio: { cmd: uvx }\n        - name: a/b\n          stdio: { cmd: uvx }\n"
);

// L2
mistake!(
    a_bad_duration_shows_the_forms,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - { name: time, stdio: { cmd: uvx }, timeout: 10 seconds }\n        - { name: date, stdio: { cmd: uvx }, timeout: 0s }\npolicies:\n  defaultTimeout: -5s\n"
);

mistake!(
    an_unset_variable_is_underlined_inside_its_string,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - name: search\n          mcp:\n            host: http://search.internal:8080/mcp\n            headers: { Authorization: \"Bearer ${SEARCH_TOKEN}\", X-Team: '${TEAM:?ask the platform team}' }\n        - name: bad\n          stdio: { cmd: run, args: [\"${}\", \"${A B}\", \"${file:/run/secrets/x}\"] }\n"
);

mistake!(
    a_target_has_exactly_one_transport,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - name: both\n          mcp: { host: localhost:8080 }\n          stdio:\n            cmd: uvx\n        - name: none\n          timeout: 5s\n        - name: hollow\n          stdio: { args: [x] }\n        - name: nowhere\n          sse: {}\n"
);

mistake!(bad_yaml_syntax_points_at_the_line, "config.yaml", "listen: 127.0.0.1:3000\nbackends:\n  - mcp:\n    targets: [\n      name: x\n");

mistake!(bad_yaml_indentation_points_at_the_line, "config.yaml", "admin:\n  listen: 127.0.0.1:1\n listen: 127.0.0.1:3000\n");

mistake!(a_key_written_twice_is_refused, "config.yaml", "listen: 127.0.0.1:3000\nnaming: {}\nlisten: 127.0.0.1:4000\n");

mistake!(
    two_targets_of_one_name_are_refused,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - { name: time, stdio: { cmd: uvx } }\n        - { name: time, stdio: { cmd: npx } }\n"
);

mistake!(
    bad_json_is_told_as_json,
    "claude_desktop_config.json",
    "{\n  \"mcpServers\": {\n    \"time\": { \"command\": \"uvx\" \"args\": [] }\n  }\n}\n"
);

mistake!(
    a_desktop_server_has_exactly_one_way_to_reach_it,
    "mcp.json",
    r#"{
  "mcpServers": {
    "both": { "command": "uvx", "url": "http://localhost:1" },
    "none": { "alwaysAllow": ["x"] },
    "odd": { "type": "htttp", "url": "http://localhost:1" }
  }
}
"#
);

mistake!(discovery_is_one_of_three_modes, "config.yaml", "discovery: serch\n");

mistake!(discovery_says_which_mode_and_names_tools, "config.yaml", "discovery:\n  threshold: many\n  pinned: [get weather, \"\"]\n");

mistake!(an_unknown_choice_comes_with_a_suggestion, "config.yaml", "naming: { prefix: onColision, separator: \"\" }\nreadiness: most\n");

mistake!(
    an_address_needs_host_and_port,
    "config.yaml",
    "listen: 3000\nadmin: { listen: localhost }\nmetrics: { listen: metrics.corp.example:15020 }\n"
);

// L10, D3: no credentials in URLs.
mistake!(
    a_url_is_http_and_has_no_password,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - { name: a, mcp: { host: \"https://me:${PASSWORD}@search.internal\" } }\n        - { name: b, mcp: { host: \"ftp://search.internal\" } }\n        - { name: c, mcp: { host: \"http://search internal\" } }\n        - { name: d, sse: { host: \"http://search.internal:99999/sse\" } }\n        - { name: e, sse: { host: \"${PASSWORD}:${PASSWORD}\" } }\n"
);

mistake!(
    a_header_has_to_be_sendable,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - name: a\n          mcp:\n            host: localhost:8080\n            headers:\n              \"bad name\": x\n              Authorization: ${MULTILINE}\n              authorization: x\n              Content-Length: 5\n"
);

mistake!(
    files_have_to_be_there,
    "config.yaml",
    "tls: { cert: server.pem }\nbackends:\n  - mcp:\n      targets:\n        - { name: a, mcp: { host: \"https://a.internal\" }, tls: { ca: not-a.pem } }\n"
);

mistake!(
    an_empty_item_is_not_an_empty_text,
    "config.yaml",
    "allowedHosts:\n  - mcp.corp.example\n  -\nbackends:\n  - mcp:\n      targets:\n        - name: a\n          stdio:\n            cmd: uvx\n            env:\n              KEY:\n"
);

mistake!(
    hosts_and_origins_have_their_form,
    "config.yaml",
    "allowedHosts: [\"https://mcp.corp.example/\", \"*.corp.example\"]\nallowedOrigins: [\"*\", app.corp.example, \"https://app.corp.example/path\"]\nsessionKey: short\nadmin: { token: short }\n"
);

mistake!(
    an_alias_is_the_name_of_a_tool,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - name: a\n          stdio: { cmd: uvx }\n          aliases: { \"read file\": read_file, write: \"\" }\n"
);

mistake!(
    one_mistake_does_not_hide_the_next,
    "config.yaml",
    "listn: 1\nbackends:\n  - mcp:\n      targets:\n        - name: a\n          stdio: { cmd: \"${UNSET}\", args: 5, x-note: fine }\n          $comment: fine\n          timeout: soon\n          era: future\n"
);

mistake!(a_file_of_the_wrong_kind_is_refused, "notes.txt", "just some text\n");

mistake!(
    an_alias_written_twice_is_refused,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - name: a\n          stdio: { cmd: uvx }\n          aliases: { read: read_file, read: cat }\n"
);

mistake!(
    a_wrong_type_is_told_once,
    "config.yaml",
    "backends:\n  - mcp:\n      targets:\n        - name: [a]\n          stdio: uvx mcp-server-time\n        - name: b\n          mcp: { host: { url: x } }\n"
);

mistake!(
    what_a_variable_held_is_not_told,
    "config.yaml",
    "listen: ${WORD}\nstateDir: ''\ntls: { cert: \"${WORD}/a.pem\", key: ~/server.key }\nallowedHosts: [\"https://${WORD}/\"]\nallowedOrigins: [\"${WORD}\"]\nsessionKey: ${WORD}\npolicies: { defaultTimeout: \"${WORD}\" }\nbackends: [{ mcp: { targets: [{ name: a, mcp: { host: \"${WORD}://x\" } }] } }]\n"
);

#[test]
fn a_mistake_in_the_second_file_names_the_second_file() {
    // L15
    let sources = [source("a.yaml", "listen: 127.0.0.1:3000\n"), source("b.yaml", "listen: here\n")];
    let report = load(&sources, &Fake(BTreeMap::new())).expect_err("b.yaml is wrong");
    let problems: Vec<_> = report.problems().map(|problem| (problem.file, problem.line, problem.column)).collect();
    assert_eq!(problems, [("b.yaml", 1, 9)]);
}

#[test]
fn an_alias_bomb_and_deep_nesting_are_stopped() {
    // F3
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", ")));
    }
    for text in [bomb, "[".repeat(10_000), format!("{}x{}", "{a: ".repeat(500), "}".repeat(500))] {
        let started = std::time::Instant::now();
        assert!(load(&[source("bomb.yaml", &text)], &Fake(BTreeMap::new())).is_err());
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
    }
}

// L3: the schemes are named.
mistake!(
    a_registry_is_a_file_or_on_a_web_server,
    "config.yaml",
    "registry:\n  sources:\n    - ftp://registry.corp.example/tools\n    - localhost:8080/tools\n    - file://registry.json\n    - https://me:${PASSWORD}@registry.corp.example/tools\n    - { auth: { bearer: x } }\n    - [a]\n"
);

mistake!(
    a_registry_has_one_source_or_a_list_of_them,
    "config.yaml",
    "registry:\n  source: file://./registry.json\n  sources: [file://./other.json]\n  refreshInterval: 5m\n  refresh_interval: 5m\n"
);

mistake!(
    a_registry_section_says_where_the_registry_is,
    "config.yaml",
    "registry:\n  strict: true\n  env: { allow: }\n  defaults: { onMissing: null }\n"
);

// L18
mistake!(
    an_unknown_key_of_the_registry_comes_with_a_suggestion,
    "config.yaml",
    "registry:\n  $comment: fine\n  x-owner: fine\n  sorce: file://./registry.json\n  source: registry.json\n  onStart: cache\n  defaults: { hideDefault: true }\n"
);

// L2
mistake!(
    a_bad_refresh_interval_shows_the_forms,
    "config.yaml",
    "registry: { source: registry.json, refreshInterval: -5s }\npolicies:\n  timeouts: [{ tool: slow, timeout: '' }, { principal: ci }, { tool: 'a b', timeout: abc }]\n"
);

// L4, L19: told at its place, never with its value.
mistake!(
    credentials_of_a_registry_are_complete_and_go_to_one_server,
    "config.yaml",
    "registry:\n  sources:\n    - { source: \"https://a.example\", auth: { bearer: \"${REGISTRY_TOKEN}\" } }\n    - { source: \"https://b.example\", auth: { bearer: \"${MULTILINE}x\", headers: { Authorization: x } } }\n    - { source: \"https://c.example\", auth: { basic: { username: \"a:b\" } } }\n    - { source: \"https://d.example\", auth: {} }\n    - https://e.example\n    - https://f.example\n  auth: { bearer: \"${PASSWORD}\" }\n"
);

mistake!(tools_are_a_list, "config.yaml", "tools: { name: get_weather }\nvalidation: most\n");

mistake!(authentication_lets_somebody_in, "config.yaml", "policies:\n  authentication: { resource: mcp.corp.example }\n");

// C8: what is empty by mistake must not mean "everybody".
mistake!(an_empty_policy_is_not_no_policy, "config.yaml", "policies:\n  authentication:\n  authorization:\n");

mistake!(
    an_issuer_is_complete_and_signs_with_keys_of_its_own,
    "config.yaml",
    "policies:\n  authentication:\n    jwt:\n      - { audiences: [], jwks: { url: \"https://a.example\", file: keys.json } }\n      - { issuer: \"https://b.example\", audiences: [mcp], jwks: {}, algorithms: [HS256, none, RS265] }\n      - { issuer: \"https://c.example\", jwks: { url: \"ftp://c.example\" } }\n"
);

mistake!(
    an_api_key_stands_in_a_config_as_its_hash,
    "config.yaml",
    "policies:\n  authentication:\n    apiKeys:\n      - { id: ci, key: hunter2 }\n      - { id: cd, hash: hunter2 }\n      - { id: ce, hash: 0000000000000000000000000000000000000000000000000000000000000000 }\n      - { id: cf, hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000001\" }\n      - { id: cf, hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000001\" }\n      - { hash: \"sha256:${PASSWORD}\" }\n"
);

mistake!(
    a_rule_has_one_effect,
    "config.yaml",
    "policies:\n  authorization:\n    rules:\n      - { allow: 'true', deny: 'false' }\n      - {}\n      - { alow: 'true' }\n      - { allow: '' }\n"
);

mistake!(
    a_limit_is_a_number_of_calls,
    "config.yaml",
    "policies:\n  rateLimit:\n    - { perPrincipal: 100 per minute }\n    - { total: 0/s }\n    - { tool: get_*, perPrincipal: 10/s, total: 100/s }\n    - { tool: get_* }\n  concurrency:\n    - { total: 0 }\n    - { tool: 'get weather', perPrincipal: many }\n"
);

// A rule that cannot be read is an error, never skipped.
mistake!(
    an_unparsable_rule_is_underlined_inside_its_string,
    "config.yaml",
    "policies:\n  authorization:\n    rules:\n      - { allow: 'jwt.role == ' }\n      - { deny: \"jwt.role == '${WORD}\" }\n"
);
