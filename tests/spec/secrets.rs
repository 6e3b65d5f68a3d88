//! Canaries: secrets in every place that holds one, and a search through every byte that leaves the process.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
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

/// Variables of the gateway that something refers to. What each is for stands where it is used.
const VARIABLES: [&str; 20] = [
    "key",
    "nested",
    "object",
    "embedded",
    "visible",
    "spelled",
    "angled",
    "chained",
    "other",
    "second",
    "header",
    "bearer",
    "second_header",
    "child",
    "argument",
    "query",
    "registry",
    "registry_header",
    "session",
    "admin",
];

/// How one of them is written in a config or a registry.
fn variable(name: &str) -> String {
    format!("${{{}}}", variable_name(name))
}

fn variable_name(name: &str) -> String {
    format!("CANARY_{}", name.to_uppercase())
}

/// Which places may see a secret, by how their names begin.
fn entitled_to(name: &str) -> &'static [&'static str] {
    match name {
        "key" | "nested" | "object" | "embedded" | "visible" | "spelled" | "angled" | "chained" | "other" | "file" | "header" | "bearer" => {
            &["at entitled"]
        }
        "second" | "second_header" => &["at second"],
        "child" | "argument" => &["at child"],
        "registry" | "registry_header" => &["at registry"],
        // What a caller sends is for the tool that was called, and what that says is for the caller.
        "asked" => &["at "],
        "answered" => &["reply"],
        _ => &[],
    }
}

/// What a target was sent.
fn sent_to(target: &Target) -> Vec<u8> {
    let whole = |request: &Recorded| [format!("{} {:?}", request.path, request.headers).into_bytes(), request.body.to_vec()].concat();
    target.requests().iter().flat_map(whole).collect()
}

// T5, D1..D6, L19, C3, C6, K13: at log level trace
#[tokio::test]
async fn no_canary_leaves_the_process_but_to_those_entitled_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let secret_file = folder.path().join("secret");
    std::fs::write(&secret_file, canary("file")).unwrap();
    let issuer = issuer(jsonwebtoken::Algorithm::ES256).await;
    let keys = folder.path().join("jwks.json");
    std::fs::write(&keys, issuer.jwks().to_string()).unwrap();

    // Whatever it is given it says again, in every way there is.
    let text = json!({"type": "string"});
    let inner = json!({"type": "object", "properties": {"auth": {"type": "object", "properties": {"token": text}}}});
    let fields = json!({"type": "object", "properties": {
        "q": text, "how": text, "api_key": text, "opts": inner, "extra": {"type": "object"}, "line": text, "region": text, "a": text, "b": text, "c": text, "d": text}});
    let definition = |name: &str| json!({"name": name, "description": "", "inputSchema": fields});
    let reflect = |arguments: Value, context: Context| async move {
        let all = arguments.to_string();
        context.notify("notifications/message", json!({"level": "error", "data": all.clone()}));
        match arguments["how"].as_str() {
            Some("error") => Err(json!({"code": 1, "message": format!("got {all}"), "data": [arguments]})),
            Some("isError") => Ok(json!({"content": [{"type": "text", "text": all}], "isError": true})),
            _ => Ok(json!({"content": [{"type": "text", "text": all}], "structuredContent": {"got": arguments, "note": canary("answered")}})),
        }
    };
    let entitled = target("entitled").tool_def(definition("fetch")).tool_def(definition("send")).handler("fetch", reflect).handler("send", reflect);
    let second = target("second").tool_def(definition("store")).handler("store", reflect);
    let bystander = target("bystander").tool("echo", ["q"]).resource("file:///a");
    let registry = json!({"tools": [
        {"name": "look_up", "source": {"target": "entitled", "tool": "fetch"}, "hideFields": ["api_key", "opts.auth", "extra", "line", "a", "b", "c"], "defaults": {
            "api_key": variable("key"), "opts": {"auth": {"token": variable("nested")}}, "extra": {"deep": [1, {"k": variable("object")}]},
            "line": format!("Bearer {}; then more", variable("embedded")), "region": variable("visible"),
            "a": format!("${{env:{}}}", variable_name("spelled")), "b": format!("$<{}>", variable_name("angled")),
            "c": format!("${{file:{}}}", secret_file.display())}},
        {"name": "look_further", "source": "look_up", "hideFields": ["d"], "defaults": {"d": variable("chained")}},
        {"name": "send_it", "source": {"target": "entitled", "tool": "send"}, "hideFields": ["api_key"], "defaults": {"api_key": variable("other")}},
        {"name": "store_it", "source": {"target": "second", "tool": "store"}, "hideFields": ["api_key"], "defaults": {"api_key": variable("second")}},
        {"name": "missing", "source": {"target": "entitled", "tool": "fetch"}, "defaults": {"api_key": "${NOT_SET}"}, "hideFields": ["api_key"]},
    ]});
    let published = publisher(registry.to_string()).await;
    let recorded = |name: &str| folder.path().join(format!("{name}.record"));
    let mut child = process::stdio_entry("child", json!({"tools": ["work"], "record": recorded("child")}));
    child["stdio"]["env"] = json!({"TOKEN": variable("child")});
    child["stdio"]["args"].as_array_mut().unwrap().push(json!(variable("argument")));
    let mut builder = process()
        .entry(json!({"name": "entitled", "mcp": {"host": entitled.url(), "headers": {"X-Secret": variable("header"), "Authorization": format!("Bearer {}", variable("bearer"))}}}))
        .entry(json!({"name": "second", "mcp": {"host": second.url(), "headers": {"X-Api-Key": variable("second_header")}}}))
        .entry(json!({"name": "nowhere", "mcp": {"host": format!("http://127.0.0.1:1/mcp?key={}", variable("query"))}}))
        .entry(child)
        .stdio("idler", json!({"tools": ["idle"], "record": recorded("idler")}))
        .target(&bystander)
        .config(|config| {
            config["readiness"] = json!("any");
            let auth = json!({"bearer": variable("registry"), "headers": {"X-Registry": variable("registry_header")}});
            let allow = json!({"allow": ["CANARY_*", "NOT_SET", format!("file:{}", secret_file.display())]});
            config["registry"] = json!({"source": published.url(), "auth": auth, "env": allow, "refreshInterval": "1s"});
            let keys_of_programs = ["client", "colleague"].map(|id| json!({"id": id, "hash": format!("sha256:{}", sha256(&canary(id)))}));
            let jwt = json!({"issuer": issuer.config().issuer, "audiences": ["transom"], "jwks": {"file": keys}});
            config["policies"] = json!({"authentication": {"apiKeys": keys_of_programs, "jwt": jwt}});
            config["sessionKey"] = json!(variable("session"));
            config["admin"]["token"] = json!(variable("admin"));
        })
        // Nothing refers to this one.
        .env(&variable_name("unused"), &canary("unused"))
        .env("LOG_LEVEL", "trace")
        .env("RUST_LOG", "trace");
    for name in VARIABLES {
        builder = builder.env(&variable_name(name), &canary(name));
    }
    let process = builder.start_ready().await;
    let token = issuer.token("tester");
    let signature = token.rsplit('.').next().unwrap().to_owned();
    let bearers = [canary("client"), canary("colleague"), token].map(|credentials| format!("Bearer {credentials}"));
    let bearer = bearers[0].as_str();
    let tools = ["look_up", "look_further", "send_it", "store_it", "work", "echo", "idle"];
    let seeing = connect(process.url("/mcp"), LEGACY).header("authorization", bearer).open().await;
    within(Duration::from_secs(20), "everything is there", async || {
        let names = seeing.tool_names().await;
        tools.iter().all(|tool| names.iter().any(|name| name == tool))
    })
    .await;

    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let mut streams: Vec<(String, Stream)> = vec![("stream".into(), seeing.stream().await)];
    for path in ["/events", "/sse"] {
        let headers = [("accept", "text/event-stream"), ("authorization", bearer)];
        streams.push((path.into(), process.http.open("GET", &process.url(path), &headers, "").await.unwrap()));
    }
    let mut clients = vec![("2024-11-05", connect(process.url("/sse"), "2024-11-05").header("authorization", bearer).open_sse().await)];
    for (revision, bearer) in [(LEGACY, &bearers[1]), (MODERN, &bearers[2])] {
        clients.push((revision, connect(process.url("/mcp"), revision).header("authorization", bearer).open().await));
    }
    for (revision, client) in &clients {
        seen.push((format!("{revision} initialized"), client.initialized().raw.into_bytes()));
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"] {
            seen.push((format!("{revision} {method}"), client.request(method, json!({})).await.raw.into_bytes()));
        }
        for tool in tools {
            for how in ["plain", "error", "isError"] {
                let reply = client.call(tool, json!({"q": canary("asked"), "how": how})).await;
                // A tool that says again what it was asked tells the one who asked nothing new.
                let echoed = reply.raw.replace(&canary("asked"), "what was asked");
                seen.push((format!("reply {revision} {tool} {how}"), echoed.into_bytes()));
                let notified = reply.notified().concat().replace(&canary("asked"), "what was asked");
                seen.push((format!("{revision} notified {tool} {how}"), notified.into_bytes()));
            }
        }
        for (name, arguments) in
            [("look_up", json!({"api_key": "mine"})), ("look_up", json!({"opts": canary("asked")})), ("missing", json!({})), ("fetch", json!({}))]
        {
            let reply = client.call(name, arguments).await.raw.replace(&canary("asked"), "what was asked");
            seen.push((format!("{revision} call {name}"), reply.into_bytes()));
        }
    }
    let mut paths: Vec<String> = [
        "/health",
        "/ready",
        "/status",
        "/tools",
        "/tools?status=all",
        "/tools/missing",
        "/runtime/tools.ts",
        "/search?q=look+send+store",
        "/nowhere",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend(tools.map(|tool| format!("/tools/{tool}")));
    paths.extend(providers::FORMATS.map(|format| format!("/tools?format={format}")));
    for path in &paths {
        // Somebody known, nobody, and somebody whose key is not one, which is no reason to write it down.
        for headers in [vec![("authorization", bearer)], vec![], vec![("x-api-key", "CANARY-stranger-9f8e7d6c5b4a")]] {
            let reply = process.http.send("GET", &process.url(path), &headers, "").await;
            seen.push((format!("GET {path} {}", reply.status), format!("{:?} {}", reply.headers, reply.text()).into_bytes()));
        }
    }
    for tool in tools {
        let invoke = process.url(&format!("/tools/{tool}/invoke"));
        for headers in [vec![("content-type", "application/json")], vec![("content-type", "application/json"), ("authorization", bearer)]] {
            let reply = process.http.send("POST", &invoke, &headers, json!({"arguments": {"q": "x"}}).to_string()).await;
            seen.push((format!("reply invoke {tool}"), reply.text().into_bytes()));
        }
    }
    let lines = process.stderr();
    let side = |name: &str| {
        lines
            .lines()
            .find_map(|line| Some(line.split_once(&format!("{name} on http://"))?.1.split([' ', '"']).next()?.to_owned()))
            .expect("a side listener")
    };
    let (admin, metrics) = (format!("http://{}", side("admin")), format!("http://{}", side("metrics")));
    let admin_bearer = format!("Bearer {}", canary("admin"));
    // The last two are not there, and what is said instead is looked at all the same.
    for path in ["/status", "/ready", "/api/generations", "/registry.json", "/api/diff"] {
        seen.push((format!("admin {path}"), process.http.get(&format!("{admin}{path}")).await.text().into_bytes()));
    }
    for (path, body) in [("/api/reload", json!({})), ("/api/rollback", json!({"version": 99}))] {
        for credentials in [admin_bearer.as_str(), "Bearer CANARY-stranger-9f8e7d6c5b4a"] {
            let headers = [("content-type", "application/json"), ("authorization", credentials)];
            let reply = process.http.send("POST", &format!("{admin}{path}"), &headers, body.to_string()).await;
            seen.push((format!("admin {path} {}", reply.status), reply.text().into_bytes()));
        }
    }
    seen.push(("metrics".into(), process.http.get(&format!("{metrics}/metrics")).await.text().into_bytes()));
    // A registry that breaks, with the values still in the environment.
    let key = variable("key");
    published.publish(format!("{{\"tools\": [{{\"name\": \"x\", \"source\": {{\"target\": \"entitled\", \"tool\": \"{key}\"}}, \"defaults\": {{\"api_key\": \"{key} ${{NOT_SET}}\"}}}}]"));
    let status = async || process.http.send("GET", &process.url("/status"), &[("authorization", bearer)], "").await;
    eventually("the broken registry is refused", async || status().await.json()["registry"]["lastError"].is_string()).await;
    seen.push(("status with an error".into(), status().await.text().into_bytes()));
    seen.push(("admin status with an error".into(), process.http.get(&format!("{admin}/status")).await.text().into_bytes()));
    // And one in which a tool is at fault, which the streams are told of.
    published.publish(
        json!({"tools": [{"name": "look_up", "source": {"target": "entitled", "tool": "fetch"}, "hideFields": ["api_key"],
        "defaults": {"api_key": format!("{key} ${{NOT_SET}}")}}]})
        .to_string(),
    );
    eventually("the tools are gone", async || !seeing.tool_names().await.contains(&"look_further".to_owned())).await;
    seen.push(("admin status with a tool at fault".into(), process.http.get(&format!("{admin}/status")).await.text().into_bytes()));
    for (name, stream) in &mut streams {
        let mut events = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(700), stream.next()).await {
            events.push(format!("{} {}", event.name, event.data));
        }
        assert!(!events.is_empty(), "{name} told something");
        seen.push((format!("told on {name}"), events.concat().into_bytes()));
    }
    process.signal(libc::SIGTERM);
    tokio::time::sleep(Duration::from_millis(700)).await;

    files(process.folder.path(), &mut seen);
    let kept = seen.iter().find(|(place, bytes)| place.contains("/registry/") && contains(bytes, key.as_bytes()));
    assert!(kept.is_some(), "the last known good is kept as it was published");
    for (place, bytes) in [("at entitled", sent_to(&entitled)), ("at second", sent_to(&second)), ("at bystander", sent_to(&bystander))] {
        seen.push((place.into(), bytes));
    }
    for name in ["child", "idler"] {
        seen.push((format!("at {name}"), std::fs::read(recorded(name)).unwrap()));
    }
    seen.push(("at registry".into(), published.requests().concat().into_bytes()));

    let named = |name: &'static str| (name, canary(name));
    let mut canaries: Vec<(&str, String)> = VARIABLES.map(named).to_vec();
    canaries.extend(["file", "unused", "client", "colleague", "stranger", "asked", "answered"].map(named));
    canaries.push(("token", signature));
    let mut hits = BTreeMap::new();
    for (name, secret) in &canaries {
        let (forms, entitled) = (forms(secret), entitled_to(name));
        let may = |place: &str| entitled.iter().any(|allowed| place.starts_with(allowed));
        for (place, bytes) in &seen {
            let found = forms.iter().any(|form| contains(bytes, form));
            if found && !may(place) {
                *hits.entry(format!("{name} in {place}")).or_insert(0usize) += 1;
            }
        }
        // What arrives nowhere has been sought for nothing.
        let arrived = entitled.is_empty() || seen.iter().any(|(place, bytes)| may(place) && forms.iter().any(|form| contains(bytes, form)));
        assert!(arrived, "`{name}` never got to where it belongs");
    }
    assert!(hits.is_empty(), "{hits:#?}");
    assert!(seen.len() > 250 && canaries.len() >= 25, "{} places were searched for {} canaries", seen.len(), canaries.len());
    evidence::say(&json!({"sent": seen.len(), "ok": seen.len(), "canaries": canaries.len()}));
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
