//! `GET /runtime/tools.ts`: a program gets a function for every tool it may call, and for no other.

use std::collections::BTreeSet;
use transom_gateway::config::{Authentication, Effect, Rule};
use transom_tests::http::Response;
use transom_tests::*;

const PATH: &str = "/runtime/tools.ts";

fn github() -> Target {
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
    target("github")
        .tool_def(json!({"name": "create_issue", "description": "Creates an issue", "inputSchema": schema}))
        .tool("list_issues", ["state"])
}

/// The paths that the functions of a module post to.
fn paths(module: &str) -> BTreeSet<String> {
    let calls = module.split("return call<").skip(1);
    calls.filter_map(|call| call.split('"').nth(1)).map(str::to_owned).collect()
}

/// The functions of a module, as `namespace.function`.
fn functions(module: &str) -> Vec<String> {
    let mut namespace = "";
    let mut found = Vec::new();
    for line in module.split_once("export const tools = ").expect("the tools").1.lines() {
        if let Some(name) = line.strip_prefix("  ").and_then(|line| line.strip_suffix(": {")).filter(|name| !name.starts_with(' ')) {
            namespace = name;
        }
        if let Some(rest) = line.strip_prefix("    async ") {
            found.push(format!("{namespace}.{}", rest.split('(').next().unwrap()));
        }
    }
    found
}

async fn module(gateway: &Gateway, query: &str) -> Response {
    let reply = gateway.get(&format!("{PATH}{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    reply
}

// G1, R-001-31
#[tokio::test]
async fn without_targets_the_module_is_empty() {
    let gateway = gateway().start().await;
    assert!(module(&gateway, "").await.text().contains("export const tools = {};"));
}

// G2, G14, R-001-26, R-001-27, R-001-28, R-001-34
#[tokio::test]
async fn every_tool_is_a_function_that_calls_it() {
    let (github, other) = (github(), target("my-api").tool("get_user-profile", ["id"]).tool("list_issues", []));
    let gateway = gateway().target(&github).target(&other).start().await;
    let reply = module(&gateway, "").await;
    assert_eq!(reply.header("content-type"), "application/typescript");
    let text = reply.text();
    assert!(text.contains("async createIssue(params: GithubCreateIssueParams): Promise<GithubCreateIssueResult>"), "{text}");
    assert!(text.contains("\"/tools/github__create_issue\", \"github\""), "{text}");
    assert_eq!(functions(&text), ["github.createIssue", "github.listIssues", "myApi.getUserProfile", "myApi.listIssues"]);
    // Each path leads to its tool, by whatever name the tool is listed.
    for path in paths(&text) {
        let reply = gateway.post(&path, &json!({"arguments": {"title": "x"}})).await;
        assert_eq!((reply.status, reply.json()["success"].clone()), (200, json!(true)), "{path}: {}", reply.text());
    }
    let called = |target: &Target| target.calls().into_iter().map(|(tool, _)| tool).collect::<BTreeSet<_>>();
    assert_eq!(called(&github), BTreeSet::from(["create_issue".to_owned(), "list_issues".to_owned()]));
    assert_eq!(called(&other), BTreeSet::from(["get_user-profile".to_owned(), "list_issues".to_owned()]));
}

// surfaces.md 2: no path means another tool, even where the joined names of two are the same
#[tokio::test]
async fn a_path_is_never_that_of_another_tool() {
    let a = target("a").tool("b__c", []);
    let b = target("a__b").tool("c", []).tool("d", []);
    let c = target("x").tool("a__b__d", []);
    let gateway = gateway().target(&a).target(&b).target(&c).start().await;
    let text = module(&gateway, "").await.text();
    assert_eq!(paths(&text).len(), 4, "{text}");
    for path in paths(&text) {
        let reply = gateway.post(&path, &json!({"arguments": {}})).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
    assert_eq!((a.calls().len(), b.calls().len(), c.calls().len()), (1, 2, 1));
}

// G13, R-001-29
#[tokio::test]
async fn whoever_has_it_is_told_so() {
    let github = github();
    let gateway = gateway().target(&github).start().await;
    let (first, second) = (module(&gateway, "").await, module(&gateway, "").await);
    assert_eq!(first.body, second.body);
    let tag = first.header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "a strong tag: {tag}");
    assert_eq!(second.header("etag"), tag);
    assert_eq!(first.header("cache-control"), "private, no-cache");
    for (given, status) in [(tag, 304), (&*format!("\"other\", W/{tag}"), 304), ("*", 304), ("\"other\"", 200)] {
        let reply = gateway.send("GET", PATH, &[("if-none-match", given)], "").await;
        assert_eq!((reply.status, reply.header("etag"), reply.body.is_empty()), (status, tag, status == 304), "{given}");
    }
    let head = gateway.send("HEAD", PATH, &[], "").await;
    assert_eq!((head.status, head.header("etag"), head.body.is_empty()), (200, tag, true));
    assert_eq!(head.header("content-length"), first.body.len().to_string());
    for method in ["POST", "PUT", "DELETE"] {
        let reply = gateway.send(method, PATH, &[("content-type", "application/json")], "{}").await;
        assert_eq!((reply.status, reply.header("allow")), (405, "GET, HEAD"), "{method}");
    }
    assert_ne!(module(&gateway, "?compact=true").await.header("etag"), tag);
}

// G13, R-001-30
#[tokio::test]
async fn a_change_of_tools_makes_another_module_and_a_return_the_same_again() {
    let (github, other) = (github(), target("other").tool("stays", []));
    let gateway = gateway().target(&github).target(&other).start().await;
    let before = module(&gateway, "").await;
    let tag = before.header("etag").to_owned();
    github.stop();
    eventually("the tools of a target that is down are gone", || async { functions(&module(&gateway, "").await.text()) == ["other.stays"] }).await;
    let without = gateway.send("GET", PATH, &[("if-none-match", &tag)], "").await;
    assert_eq!(without.status, 200);
    assert_ne!(without.header("etag"), tag);
    github.start();
    eventually("they are back, to the byte", || async { gateway.send("GET", PATH, &[("if-none-match", &tag)], "").await.status == 304 }).await;

    eventually("the target has a stream to tell on", || async { github.streams() > 0 }).await;
    github.set_tools(["fresh"]);
    github.notify_list_changed();
    eventually("a new tool is there", || async { functions(&module(&gateway, "").await.text()) == ["github.fresh", "other.stays"] }).await;
}

// G8, G9, G10, R-001-32, R-001-33, R-001-35, R-001-36, R-001-37
#[tokio::test]
async fn a_query_narrows_it() {
    let (github, other) = (github(), target("my-api").tool("go", []));
    let gateway = gateway().target(&github).target(&other).start().await;
    let both = ["github.createIssue", "github.listIssues"];
    let cases: [(&str, &[&str]); 11] = [
        ("?server=github", &both),
        ("?server=my-api", &["myApi.go"]),
        ("?server=github&tool=createIssue", &both[..1]),
        ("?server=github&tool=create_issue", &both[..1]),
        ("?server=github&tool=nothing", &[]),
        ("?server=nobody", &[]),
        ("?filter=github", &both),
        ("?filter=my_api,github__list_issues", &["github.listIssues", "myApi.go"]),
        ("?filter=%20my-api%20,", &["myApi.go"]),
        ("?filter=", &["github.createIssue", "github.listIssues", "myApi.go"]),
        ("?filter=nobody", &[]),
    ];
    for (query, expected) in cases {
        assert_eq!(functions(&module(&gateway, query).await.text()), expected, "{query}");
    }
    assert!(module(&gateway, "?server=nobody").await.text().contains("export const tools = {};"));
    assert!(module(&gateway, "?server=github&tool=nothing").await.text().contains("export const tools = {\n  github: {},\n};"));
    for query in ["?tool=createIssue", "?tool=", "?server=&tool=x"] {
        let reply = gateway.get(&format!("{PATH}{query}")).await;
        assert_eq!((reply.status, reply.json()["error"]["code"].clone()), (400, json!("invalid_request")), "{query}");
    }
    // G7
    let compact = module(&gateway, "?compact=true").await.text();
    assert!(compact.contains("createIssue(params: GithubCreateIssueParams): Promise<GithubCreateIssueResult>;"), "{compact}");
    assert!(compact.contains("/** Creates an issue */") && !compact.contains("fetch") && !compact.contains("/tools/"), "{compact}");
}

// surfaces.md 7: virtual tools stand with their target, and what they stand on is nowhere
#[tokio::test]
async fn virtual_tools_are_there_as_they_are_listed() {
    let weather = target("weather").tool("fetch_weather", ["city", "api_key"]).tool("stations", []);
    let registry = json!({"tools": [
        {"name": "get_weather", "description": "Weather", "source": {"target": "weather", "tool": "fetch_weather"}, "defaults": {"api_key": "CANARY"}, "hideFields": ["api_key"]},
    ]});
    let gateway = gateway().target(&weather).registry(&registry).start().await;
    let text = module(&gateway, "").await.text();
    assert_eq!(functions(&text), ["weather.getWeather", "weather.stations"]);
    assert!(!text.contains("api_key") && !text.contains("CANARY") && !text.contains("fetch_weather"), "{text}");
    assert!(text.contains("\"/tools/get_weather\", \"weather\""), "{text}");
    assert_eq!(functions(&module(&gateway, "?group=virtual").await.text()), ["weather.stations", "virtual.getWeather"]);
    let reply = gateway.post("/tools/get_weather", &json!({"arguments": {"city": "Oslo"}})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

// B6, R-001-26: the module of one is never given to another
#[tokio::test]
async fn everybody_gets_a_module_of_their_own() {
    let (a, b) = (target("a").tool("open", []).tool("secret", []), target("b").tool("inner", []));
    let key = |id: &str, all: bool| {
        let mut key = api_key(id, &format!("secret-{id}"));
        key.claims = json!({"all": all}).as_object().cloned().unwrap_or_default();
        key
    };
    let gateway = gateway()
        .target(&a)
        .target(&b)
        .config(|config| {
            config.authentication =
                Some(Authentication { api_keys: vec![key("low", false), key("low2", false), key("high", true)], ..Authentication::default() });
            let allow = |expression: &str| Rule { effect: Effect::Allow, expression: expression.into() };
            config.authorization = Some(vec![allow("mcp.tool.name == 'open'"), allow("jwt.all")]);
        })
        .start()
        .await;
    assert_eq!(gateway.get(PATH).await.status, 401);
    let get = async |id: &str, query: &str, tag: &str| {
        let key = format!("secret-{id}");
        gateway.send("GET", &format!("{PATH}{query}"), &[("x-api-key", &*key), ("if-none-match", tag)], "").await
    };
    let everything = ["a.open", "a.secret", "b.inner"];
    let mut tags = Vec::new();
    // Each way round: what one was given is not what the next one gets.
    let (high, low): (&[&str], &[&str]) = (&everything, &everything[..1]);
    for (id, expected) in [("high", high), ("low", low), ("high", high), ("low2", low), ("low", low)] {
        let reply = get(id, "", "\"none\"").await;
        assert_eq!(functions(&reply.text()), expected, "{id}");
        tags.push(reply.header("etag").to_owned());
    }
    assert!(tags[0] == tags[2] && tags[1] == tags[3] && tags[1] == tags[4] && tags[0] != tags[1]);
    // A tag that somebody else was given says nothing.
    assert_eq!(get("low", "", &tags[0]).await.status, 200);
    assert_eq!(get("low", "", &tags[1]).await.status, 304);
    for query in ["?server=b", "?filter=b", "?server=a&tool=secret"] {
        assert!(functions(&get("low", query, "\"none\"").await.text()).is_empty(), "{query}");
    }
    // A server of which one sees nothing is one that does not exist.
    assert_eq!(get("low", "?server=b", "\"none\"").await.body, get("low", "?server=nobody", "\"none\"").await.body);
}

// D10: over the wire as well
#[tokio::test]
async fn what_a_target_says_stays_in_strings_and_comments() {
    let evil = "*/ evil(); /* </script> `${evil()}` \u{2028}";
    let schema = json!({"type": "object", "description": evil, "properties": {evil: {"const": evil, "description": evil}}});
    let a = target("a").tool_def(json!({"name": "x(){};import(\"fs\")//", "description": evil, "inputSchema": schema, "outputSchema": schema}));
    let gateway = gateway().target(&a).start().await;
    let text = module(&gateway, "").await.text();
    let own = text.split_once("export interface AXImportFsParams").expect("its types").1;
    assert!(!own.contains("</script") && !own.contains('\u{2028}'), "{own}");
    assert_eq!(functions(&text), ["a.xImportFs"]);
}
