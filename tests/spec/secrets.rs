//! Canaries: secrets in every place that holds one, and a search through every byte that leaves the process.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::path::Path;
use transom_tests::client::{LEGACY, MODERN, connect};
use transom_tests::*;

/// A secret that can be told from everything else.
fn canary(name: &str) -> String {
    format!("CANARY-{name}-9f8e7d6c5b4a")
}

/// The forms in which a secret could slip out.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let mut forms: Vec<Vec<u8>> = vec![secret.as_bytes().to_vec(), secret.to_lowercase().into_bytes()];
    forms.push(secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes());
    forms.push(secret.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>().into_bytes());
    forms.push(secret.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>().into_bytes());
    forms.push(secret.chars().rev().collect::<String>().into_bytes());
    for skip in 0..3 {
        // The same text at each alignment has other letters; the first and last few depend on the neighbours.
        let padded = [vec![b'x'; skip], secret.as_bytes().to_vec()].concat();
        let encoded = STANDARD.encode(padded);
        forms.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
    }
    forms
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files(&entry.path(), found);
        } else if let Ok(bytes) = std::fs::read(entry.path()) {
            found.push((entry.path().display().to_string(), bytes));
        }
    }
}

// T5, D1..D4, L19, C3, C6: at log level trace
#[tokio::test]
async fn no_canary_leaves_the_process_but_to_those_entitled_to_it() {
    let (key, registry_token, header, client_key, session_key, admin_token) =
        (canary("env"), canary("registry"), canary("header"), canary("client"), canary("session"), canary("admin"));
    let definition = json!({"name": "fetch", "description": "", "inputSchema": {"type": "object", "properties": {
        "q": {"type": "string"}, "api_key": {"type": "string"}, "how": {"type": "string"}}}});
    let entitled = target("entitled").tool_def(definition).handler("fetch", |arguments, context| async move {
        let key = arguments["api_key"].as_str().unwrap_or_default().to_owned();
        context.notify("notifications/message", json!({"level": "error", "data": key.clone()}));
        match arguments["how"].as_str() {
            Some("error") => Err(json!({"code": 1, "message": format!("key {key}"), "data": [key]})),
            Some("isError") => Ok(json!({"content": [{"type": "text", "text": key}], "isError": true})),
            _ => Ok(json!({"content": [{"type": "text", "text": format!("{{\"key\":\"{key}\"}}")}], "structuredContent": {"key": key}})),
        }
    });
    let bystander = target("bystander").tool("echo", ["q"]).resource("file:///a");
    let registry = json!({"tools": [
        {"name": "look_up", "source": {"target": "entitled", "tool": "fetch"}, "defaults": {"api_key": "${CANARY_KEY}"}, "hideFields": ["api_key"]},
        {"name": "missing", "source": {"target": "entitled", "tool": "fetch"}, "defaults": {"api_key": "${NOT_SET}"}, "hideFields": ["api_key"]},
    ]});
    let published = publisher(registry.to_string()).await;
    let hash = sha256(&client_key);
    let process = process()
        .entry(json!({"name": "entitled", "mcp": {"host": entitled.url(), "headers": {"X-Secret": "${CANARY_HEADER}"}}}))
        .target(&bystander)
        .config(|config| {
            config["registry"] = json!({"source": published.url(), "auth": {"bearer": "${CANARY_REGISTRY}"}, "refreshInterval": "1s"});
            config["policies"] =
                json!({"authentication": {"apiKeys": [{"id": "tester", "hash": format!("sha256:{hash}"), "claims": {"role": "qa"}}]}});
            config["sessionKey"] = json!("${CANARY_SESSION}");
            config["admin"]["token"] = json!("${CANARY_ADMIN}");
        })
        .env("CANARY_KEY", &key)
        .env("CANARY_REGISTRY", &registry_token)
        .env("CANARY_HEADER", &header)
        .env("CANARY_SESSION", &session_key)
        .env("CANARY_ADMIN", &admin_token)
        .env("LOG_LEVEL", "trace")
        .env("RUST_LOG", "trace")
        .start_ready()
        .await;

    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let bearer = format!("Bearer {client_key}");
    for revision in [LEGACY, MODERN] {
        let client = connect(process.url("/mcp"), revision).header("authorization", &bearer).open().await;
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            seen.push((format!("{revision} {method}"), client.request(method, json!({})).await.raw.into_bytes()));
        }
        for how in ["plain", "error", "isError"] {
            let reply = client.call("look_up", json!({"q": "x", "how": how})).await;
            seen.push((format!("{revision} call {how}"), reply.raw.clone().into_bytes()));
            seen.push((format!("{revision} notified {how}"), reply.notified().concat().into_bytes()));
        }
        for (name, arguments) in [
            ("look_up", json!({"api_key": "mine"})),
            ("look_up", json!({"q": 7})),
            ("missing", json!({})),
            ("fetch", json!({})),
            ("echo", json!({"q": "x"})),
        ] {
            seen.push((format!("{revision} call {name}"), client.call(name, arguments).await.raw.into_bytes()));
        }
    }
    for path in ["/health", "/ready", "/status", "/tools", "/tools/look_up", "/tools?status=all", "/tools/missing", "/nowhere"] {
        for headers in [vec![], vec![("authorization", bearer.as_str())]] {
            let reply = process.http.send("GET", &process.url(path), &headers, "").await;
            seen.push((format!("GET {path}"), reply.text().into_bytes()));
        }
    }
    let invoke = process.url("/tools/look_up/invoke");
    for headers in [vec![("content-type", "application/json")], vec![("content-type", "application/json"), ("authorization", bearer.as_str())]] {
        let reply = process.http.send("POST", &invoke, &headers, json!({"arguments": {"q": "x"}}).to_string()).await;
        seen.push(("invoke".into(), reply.text().into_bytes()));
    }
    let lines = process.stderr();
    let side = |name: &str| {
        lines
            .lines()
            .find_map(|line| Some(line.split_once(&format!("{name} on http://"))?.1.split([' ', '"']).next()?.to_owned()))
            .expect("a side listener")
    };
    for (listener, path) in [("metrics", "/metrics"), ("admin", "/status"), ("admin", "/api/generations")] {
        let url = format!("http://{}{path}", side(listener));
        seen.push((url.clone(), process.http.get(&url).await.text().into_bytes()));
    }
    // A registry that breaks, with the values still in the environment.
    published.publish("{\"tools\": [{\"name\": \"x\", \"source\": {\"target\": \"entitled\", \"tool\": \"${CANARY_KEY}\"}, \"defaults\": {\"api_key\": \"${CANARY_KEY} ${NOT_SET}\"}}]");
    eventually("the broken registry is refused", || async {
        let reply = process.http.send("GET", &process.url("/status"), &[("authorization", bearer.as_str())], "").await;
        reply.json()["registry"]["lastError"].is_string()
    })
    .await;
    let status = process.http.send("GET", &process.url("/status"), &[("authorization", bearer.as_str())], "").await;
    seen.push(("status with an error".into(), status.text().into_bytes()));
    process.signal(libc::SIGTERM);
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;

    files(process.folder.path(), &mut seen);
    for request in bystander.requests() {
        seen.push((format!("bystander {}", request.method), [format!("{:?}", request.headers).into_bytes(), request.body.to_vec()].concat()));
    }
    let sent_to_entitled: Vec<u8> =
        entitled.requests().iter().flat_map(|request| [format!("{:?}", request.headers).into_bytes(), request.body.to_vec()].concat()).collect();
    let sent_to_registry: Vec<u8> = published.requests().concat().into_bytes();
    assert!(contains(&sent_to_entitled, key.as_bytes()) && contains(&sent_to_entitled, header.as_bytes()), "the entitled target gets both");
    assert!(contains(&sent_to_registry, registry_token.to_lowercase().as_bytes()), "and the registry its token");
    seen.push(("entitled".into(), sent_to_entitled.clone()));
    seen.push(("registry".into(), sent_to_registry.clone()));

    let mut hits = BTreeMap::new();
    for (name, secret, allowed) in [
        ("env", &key, Some("entitled")),
        ("registry", &registry_token, Some("registry")),
        ("header", &header, Some("entitled")),
        ("client", &client_key, None),
        ("session", &session_key, None),
        ("admin", &admin_token, None),
    ] {
        for form in forms(secret) {
            for (place, bytes) in seen.iter().filter(|(place, _)| Some(place.as_str()) != allowed) {
                if contains(bytes, &form) {
                    *hits.entry(format!("{name} in {place}")).or_insert(0usize) += 1;
                }
            }
        }
    }
    assert!(hits.is_empty(), "{hits:#?}");
    assert!(seen.len() > 60, "{} places were searched", seen.len());
    evidence::say(&json!({"sent": seen.len(), "ok": seen.len()}));
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
