//! Every client uses every server, and gets through the gateway what it gets from the server itself.

use crate::gateway::{Gateway, gateway, resource};
use crate::servers::{HttpServer, everything_http, everything_stdio, memory, modern, time};
use crate::talk::{Sdk, call, call_with_progress, list, prompt, read};
use serde_json::{Value, json};
use transom_tests::install::have;

const DOCUMENT: &str = "demo://resource/static/document/features.md";

/// One gateway before a legacy server on stdio, the same over HTTP, two more on stdio, and a modern one over HTTP.
struct Stage {
    web: HttpServer,
    modern: HttpServer,
    gateway: Gateway,
    _directory: tempfile::TempDir,
}

async fn stage() -> Stage {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (web, modern) = (everything_http().await, modern().await);
    let graph = memory(&directory.path().join("graph.jsonl"));
    let gateway = gateway(vec![everything_stdio("everything"), web.target("everything-web"), graph, time(), modern.target("modern")]).await;
    Stage { web, modern, gateway, _directory: directory }
}

#[tokio::test]
async fn the_python_sdk_uses_every_server_after_a_handshake() {
    uses_every_server(Sdk::PythonLegacy).await;
}

#[tokio::test]
async fn the_python_sdk_uses_every_server_without_one() {
    uses_every_server(Sdk::PythonAuto).await;
}

#[tokio::test]
async fn the_typescript_client_uses_every_server_after_a_handshake() {
    uses_every_server(Sdk::TypeScriptLegacy).await;
}

#[tokio::test]
async fn the_typescript_client_uses_every_server_without_one() {
    uses_every_server(Sdk::TypeScriptModern).await;
}

#[tokio::test]
async fn the_first_typescript_sdk_uses_every_server_over_streamable_http() {
    uses_every_server(Sdk::TypeScriptOne).await;
}

#[tokio::test]
async fn the_first_typescript_sdk_uses_every_server_over_the_sse_of_2024() {
    uses_every_server(Sdk::TypeScriptOneSse).await;
}

async fn uses_every_server(sdk: Sdk) {
    if !have(&["node", "venv"]) {
        return;
    }
    let stage = stage().await;
    let endpoint = if sdk == Sdk::TypeScriptOneSse { stage.gateway.process.url("/sse") } else { stage.gateway.mcp() };
    let weather = json!({"location": "Chicago"});
    let annotated = json!({"messageType": "success", "includeImage": true});
    let long = json!({"duration": 0.4, "steps": 4});

    // What the servers say when nobody stands between. The second `everything` behind the gateway answers as the first.
    let direct = sdk
        .legacy()
        .talk(
            &stage.web.url,
            &[
                list("tools"),
                list("resources"),
                list("prompts"),
                call("get-structured-content", weather.clone()),
                call("get-annotated-message", annotated.clone()),
                call_with_progress("trigger-long-running-operation", long.clone()),
                read(DOCUMENT),
                prompt("simple-prompt", json!({})),
            ],
        )
        .await;
    let [tools, resources, prompts, structured, message, progress, document, greeting] = steps(direct.replies);
    let direct_modern = if sdk == Sdk::TypeScriptOneSse { sdk.legacy() } else { sdk }
        .talk(
            &stage.modern.url,
            &[
                list("tools"),
                call("add", json!({"a": 2, "b": 40})),
                call("tagged", json!({"text": "hi"})),
                call_with_progress("count", json!({"to": 3})),
                call("refuse", json!({})),
                read("note://today"),
                prompt("greet", json!({"name": "Ann"})),
            ],
        )
        .await;
    let [modern_tools, sum, tagged, counted, refused, note, hello] = steps(direct_modern.replies);

    // The lists: everything that a server offers, in full, under a name of its own.
    let through = sdk.talk(&endpoint, &[list("tools"), list("resources"), list("prompts")]).await;
    assert_eq!(through.revision, sdk.revision());
    let [listed, listed_resources, listed_prompts] = steps(through.replies);
    for target in ["everything", "everything-web"] {
        let prefix = target.replace('-', "_");
        for tool in items(&tools, "tools") {
            let mut tool = renamed(tool, "name", format!("{prefix}__{}", text(tool, "name")));
            if let (Sdk::TypeScriptModern, Some(members)) = (sdk, tool.as_object_mut()) {
                // The modern revision has no such member, and this client drops what its revision does not know.
                members.remove("execution");
            }
            offers(&listed, "tools", "name", &tool);
        }
        for item in items(&resources, "resources") {
            offers(&listed_resources, "resources", "uri", &renamed(item, "uri", resource(target, text(item, "uri"))));
        }
        for item in items(&prompts, "prompts") {
            offers(&listed_prompts, "prompts", "name", &renamed(item, "name", format!("{prefix}__{}", text(item, "name"))));
        }
    }
    for tool in items(&modern_tools, "tools") {
        offers(&listed, "tools", "name", tool);
    }

    // The calls: the same content, structured content, metadata and errors, byte for byte where JSON lets us see it.
    let city = json!([{"name": "Oslo", "entityType": "city", "observations": ["has a fjord"]}]);
    let through = sdk
        .talk(
            &endpoint,
            &[
                call("everything__get-structured-content", weather.clone()),
                call("everything_web__get-structured-content", weather),
                call("everything__get-annotated-message", annotated.clone()),
                call("everything_web__get-annotated-message", annotated),
                call_with_progress("everything__trigger-long-running-operation", long.clone()),
                call_with_progress("everything_web__trigger-long-running-operation", long),
                call("add", json!({"a": 2, "b": 40})),
                call("tagged", json!({"text": "hi"})),
                call_with_progress("count", json!({"to": 3})),
                call("refuse", json!({})),
                call("create_entities", json!({"entities": city})),
                call("read_graph", json!({})),
                call("convert_time", json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})),
                call("nowhere", json!({})),
            ],
        )
        .await;
    let mut answers: [Value; 14] = steps(through.replies);
    if sdk == Sdk::TypeScriptOneSse {
        for place in [4, 5] {
            restore_the_last_step(&mut answers[place], &progress);
        }
    }
    let expected = [&structured, &structured, &message, &message, &progress, &progress, &sum, &tagged, &counted, &refused];
    for (answer, direct) in answers.iter().zip(expected) {
        assert_eq!(answer, direct, "through the gateway, and then direct");
    }
    assert_eq!(answers[4]["progress"], json!([[1, 4], [2, 4], [3, 4], [4, 4]]), "every step of the way was reported");
    assert_eq!(answers[11]["structuredContent"]["entities"], city, "{}", answers[11]);
    assert!(answers[12].to_string().contains("T21:00:00+09:00"), "{}", answers[12]);
    assert_eq!(answers[13]["error"]["code"], -32602);
    assert!(text(&answers[13]["error"], "message").contains("Tool not found: nowhere"), "{}", answers[13]);

    // Resources and prompts.
    let through = sdk
        .talk(
            &endpoint,
            &[
                read(&resource("everything", DOCUMENT)),
                read(&resource("everything-web", DOCUMENT)),
                read(&resource("modern", "note://today")),
                prompt("everything__simple-prompt", json!({})),
                prompt("greet", json!({"name": "Ann"})),
            ],
        )
        .await;
    let [first, second, third, same_greeting, same_hello] = steps(through.replies);
    for (answer, direct) in [(first, &document), (second, &document), (third, &note)] {
        assert_eq!(answer["contents"][0]["text"], direct["contents"][0]["text"], "{answer}");
        assert_eq!(answer["contents"][0]["mimeType"], direct["contents"][0]["mimeType"], "{answer}");
    }
    assert_eq!((same_greeting, same_hello), (greeting, hello));
}

fn steps<const N: usize>(replies: Vec<Value>) -> [Value; N] {
    replies.try_into().expect("a reply per step")
}

fn items<'a>(reply: &'a Value, kind: &str) -> &'a [Value] {
    reply[kind].as_array().map(Vec::as_slice).filter(|items| !items.is_empty()).unwrap_or_else(|| panic!("no {kind} in {reply}"))
}

fn text<'a>(item: &'a Value, member: &str) -> &'a str {
    item[member].as_str().unwrap_or_else(|| panic!("no {member} in {item}"))
}

fn renamed(item: &Value, member: &str, to: String) -> Value {
    let mut item = item.clone();
    item[member] = to.into();
    item
}

/// Exactly one item of that name, and equal in every member.
fn offers(listed: &Value, kind: &str, key: &str, wanted: &Value) {
    let found: Vec<_> = items(listed, kind).iter().filter(|item| item[key] == wanted[key]).collect();
    assert_eq!(found, [wanted], "{kind} called {}", wanted[key]);
}

/// The `EventSource` of the first SDK hands over all events of a packet at once, and the SDK forgets whom to tell about progress as soon as it
/// sees the result: a last step that arrives together with the result is lost in the client.
pub fn restore_the_last_step(answer: &mut Value, direct: &Value) {
    if let (Some(steps), Some(all)) = (answer["progress"].as_array_mut(), direct["progress"].as_array())
        && steps.len() + 1 == all.len()
    {
        steps.extend(all.last().cloned());
    }
}
