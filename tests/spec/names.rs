//! How a tool is called from outside, and that a name once given keeps its meaning.

use transom_gateway::Prefix;
use transom_tests::*;

fn two_echoes() -> (Target, Target) {
    (target("a").tool("echo", ["q"]), target("b").tool("echo", ["q"]))
}

// R-001-6, R-000-4, N3
#[tokio::test]
async fn equal_names_carry_their_target() {
    let (a, b) = two_echoes();
    let gateway = gateway().target(&a).target(&b).start().await;
    assert_eq!(gateway.client().await.tool_names().await, ["a__echo", "b__echo"]);
}

// N4, C1
#[tokio::test]
async fn a_call_accepts_every_joined_form() {
    let (a, b) = two_echoes();
    let gateway = gateway().target(&a).target(&b).start().await;
    let client = gateway.client().await;
    for (name, server) in [("a__echo", "a"), ("a_echo", "a"), ("a:echo", "a"), ("b__echo", "b"), ("b_echo", "b"), ("b:echo", "b")] {
        assert_eq!(client.call(name, json!({})).await.structured()["server"], server, "{name}");
    }
    assert!(a.calls().iter().chain(&b.calls()).all(|(tool, _)| tool == "echo"), "the target sees its own name");
    client.call("echo", json!({})).await.error();
    assert_eq!((a.calls().len(), b.calls().len()), (3, 3), "an ambiguous name reaches nobody");
}

// R-000-9
#[tokio::test]
async fn joined_forms_work_for_unique_names_too() {
    let server1 = target("server1").tool("myTool", []);
    let gateway = gateway().target(&server1).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["myTool"]);
    for name in ["myTool", "server1_myTool", "server1__myTool", "server1:myTool"] {
        assert_eq!(client.call(name, json!({})).await.structured()["tool"], "myTool", "{name}");
    }
}

// R-001-7, C3
#[tokio::test]
async fn target_names_become_identifiers() {
    let (github, digits) = (target("github-api").tool("search", []), target("123server").tool("search", []));
    let gateway = gateway().target(&github).target(&digits).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["_123server__search", "github_api__search"]);
    assert_eq!(client.call("github_api__search", json!({})).await.structured()["server"], "github-api");
    assert_eq!(client.call("github-api:search", json!({})).await.structured()["server"], "github-api");
    assert_eq!(client.call("_123server__search", json!({})).await.structured()["server"], "123server");
}

// C1: a listed name is never split, whatever it looks like.
#[tokio::test]
async fn a_tool_whose_name_looks_joined_is_itself() {
    let (a, b) = (target("a").tool("b__echo", []), target("b").tool("echo", []));
    let gateway = gateway().target(&a).target(&b).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["b__echo", "echo"]);
    assert_eq!(client.call("b__echo", json!({})).await.structured()["server"], "a");
    assert_eq!(client.call("echo", json!({})).await.structured()["server"], "b");
}

// surfaces.md 2: several matches are an error that names them.
#[tokio::test]
async fn an_ambiguous_name_is_refused_and_the_candidates_named() {
    let (a, ab) = (target("a").tool("b_c", []).tool("x", []), target("a_b").tool("c", []).tool("x", []));
    let gateway = gateway().target(&a).target(&ab).start().await;
    let client = gateway.client().await;
    assert_eq!(client.call("x", json!({})).await.error_code(), -32602);
    let reply = client.call("a_b_c", json!({})).await;
    assert_eq!(reply.error_code(), -32602, "{}", reply.raw);
    assert!(reply.raw.contains("b_c") && reply.raw.contains("a_b"), "{}", reply.raw);
    assert!(a.calls().is_empty() && ab.calls().is_empty());
}

// C2, B3
#[tokio::test]
async fn a_name_once_given_keeps_its_meaning() {
    let (a, b) = two_echoes();
    let mut gateway = gateway().target(&a).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["echo"]);
    gateway.reconfigure(|config| config.targets.push(b.spec()));
    gateway.until_listed(&["b__echo", "echo"]).await;
    assert_eq!(client.call("echo", json!({})).await.structured()["server"], "a");
    assert_eq!(client.call("b__echo", json!({})).await.structured()["server"], "b");
    a.stop();
    gateway.until("a", "unavailable").await;
    let reply = client.call("echo", json!({})).await;
    reply.failed(1002, json!(false));
    assert_eq!(b.calls().len(), 1, "the name of a target that is down does not pass to another");
    a.start();
    gateway.until_listed(&["b__echo", "echo"]).await;
}

#[tokio::test]
async fn the_prefix_can_be_asked_for_always() {
    let (a, b) = (target("a").tool("echo", []), target("b").tool("add", []));
    let gateway = gateway().target(&a).target(&b).config(|config| config.naming.prefix = Prefix::Always).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["a__echo", "b__add"]);
    assert_eq!(client.call("a__echo", json!({})).await.structured()["server"], "a");
}

#[tokio::test]
async fn the_separator_can_be_chosen() {
    let (a, b) = two_echoes();
    let gateway = gateway().target(&a).target(&b).config(|config| config.naming.separator = "-".into()).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["a-echo", "b-echo"]);
    assert_eq!(client.call("a-echo", json!({})).await.structured()["server"], "a");
}

// surfaces.md 2: `never` with a collision is an error that names both.
#[tokio::test]
async fn without_prefixes_a_collision_is_an_error_that_names_both() {
    let logs = logs::capture();
    let (a, b) = (target("first").tool("echo", []).tool("one", []), target("second").tool("echo", []).tool("two", []));
    let gateway = gateway().target(&a).target(&b).config(|config| config.naming.prefix = Prefix::Never).start().await;
    let names = gateway.client().await.tool_names().await;
    assert!(names.iter().filter(|name| name.contains("echo")).count() <= 1, "{names:?}");
    assert!(!logs.lines(&["echo", "first", "second"]).is_empty(), "nothing names both: {}", logs.text());
}

// R-000-5, N17
#[tokio::test]
async fn an_alias_is_listed_instead_and_both_names_work() {
    let logs = logs::capture();
    let files = target("filesystem").tool("read_file", []).tool("write_file", []);
    let aliases = vec![("read".to_owned(), "read_file".to_owned()), ("ghost".to_owned(), "no_such_tool".to_owned())];
    let gateway = gateway().target_with(&files, |spec| spec.aliases = aliases).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["read", "write_file"]);
    for name in ["read", "filesystem:read_file", "filesystem__read_file", "filesystem_read_file"] {
        assert_eq!(client.call(name, json!({})).await.structured()["tool"], "read_file", "{name}");
    }
    client.call("ghost", json!({})).await.is_not_found("ghost");
    assert!(!logs.lines(&["ghost"]).is_empty(), "an alias of nothing is warned about");
}

// R-000-10, R-001-4, N8, N9 of security.md
#[tokio::test]
async fn an_unknown_name_is_refused_in_one_text() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    for client in [gateway.client().await, gateway.modern().await] {
        for name in ["nope", "a__nope", "b:echo", "", "ECHO", "echo ", "__proto__", "../echo"] {
            let reply = client.call(name, json!({})).await;
            reply.is_not_found(name);
            assert_eq!(reply.status, 200);
        }
        let long = "x".repeat(5000);
        let reply = client.call(&long, json!({})).await;
        assert_eq!(reply.error_message(), format!("Tool not found: {}", "x".repeat(128)));
    }
    assert!(a.calls().is_empty());
}

// M2: names are checked when they come.
#[tokio::test]
async fn a_tool_with_an_impossible_name_is_left_out() {
    let a = target("a").tool("good", []).tool("a\"} evil 1\n", []).tool("", []).tool("\u{202e}txt", []).tool(&"n".repeat(300), []);
    let gateway = gateway().target(&a).start().await;
    assert_eq!(gateway.client().await.tool_names().await, ["good"]);
}
