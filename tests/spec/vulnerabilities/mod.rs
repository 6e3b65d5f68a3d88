//! Vulnerabilities that were found in neighbouring programs, replayed: the attack as it would be sent, the real gateway, a target
//! that remembers what reached it. Each test says in one sentence what the vulnerability was.

mod addresses;
mod arguments;
mod commands;
mod framing;
mod sessions;

use transom_gateway::config::{ApiKey, Authentication, Effect, Rule};
use transom_tests::*;

/// Every one of them, as it is known to the public. The last has no number.
const KNOWN: [&str; 24] = [
    "CVE-2025-6514",
    "CVE-2025-49596",
    "CVE-2025-54136",
    "CVE-2025-64443",
    "CVE-2026-55887",
    "CVE-2026-25536",
    "CVE-2026-33946",
    "CVE-2026-52869",
    "CVE-2026-52870",
    "CVE-2026-27896",
    "CVE-2026-42559",
    "CVE-2026-29791",
    "CVE-2026-42271",
    "CVE-2026-12773",
    "CVE-2026-44427",
    "CVE-2026-2833",
    "CVE-2026-2835",
    "CVE-2026-2836",
    "CVE-2023-44487",
    "CVE-2022-21698",
    "GHSA-g53w-w6mj-hrpp",
    "GHSA-9pj6-vhgr-3mwh",
    "GHSA-9g45-5xwm-f3wc",
    "per-server connect path",
];

#[test]
fn each_known_vulnerability_has_a_test_of_its_name() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("spec/vulnerabilities");
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let source = files.collect::<Vec<_>>().join("\n");
    let tested = |id: &str| source.matches(&format!("async fn {}_", id.to_lowercase().replace(['-', ' '], "_"))).count();
    let missing: Vec<&str> = KNOWN.into_iter().filter(|id| tested(id) != 1).collect();
    assert!(missing.is_empty(), "without a test, or with two: {missing:?}");
    let tests = source.matches("#[tokio::test").count() - 1;
    assert_eq!(tests, KNOWN.len(), "a test here replays one of the list");
}

/// A target with a tool and a gateway before it.
async fn one() -> (Target, Gateway) {
    let a = target("a").tool("echo", ["n"]);
    let gateway = gateway().target(&a).start().await;
    (a, gateway)
}

/// A gateway that knows two people by their keys.
async fn two_people(a: &Target, rules: Option<Vec<Rule>>) -> Gateway {
    let key = |id: &str| ApiKey { claims: serde_json::Map::from_iter([("name".to_owned(), json!(id))]), ..api_key(id, &key_of(id)) };
    let authentication = Authentication { jwt: Vec::new(), api_keys: vec![key("alice"), key("bob")], resource: None };
    gateway()
        .target(a)
        .config(|config| {
            config.authentication = Some(authentication);
            config.authorization = rules;
        })
        .start()
        .await
}

fn key_of(id: &str) -> String {
    format!("key-of-{id}-0123456789")
}

async fn as_somebody(gateway: &Gateway, id: &str) -> Client {
    gateway.connect(client::LEGACY).header("authorization", &format!("Bearer {}", key_of(id))).open().await
}

fn allow(expression: &str) -> Rule {
    Rule { effect: Effect::Allow, expression: expression.into() }
}

fn call(tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}).to_string()
}
