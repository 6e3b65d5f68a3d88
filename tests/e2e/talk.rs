//! Other people's clients, told what to say.
//!
//! A conversation is a list of steps, the same for every client; the scripts in `clients/` play it with one SDK each and print
//! `{"revision": …, "replies": [one per step]}`. The steps:
//!
//! | step | reply |
//! |---|---|
//! | `{"list": "tools" \| "resources" \| "prompts"}` | the result |
//! | `{"call": NAME, "arguments": {…}}` | the result |
//! | `{"call": NAME, "arguments": {…}, "progress": true}` | `{"progress": [[done, total], …], "result": …}` |
//! | `{"read": URI}` | the result |
//! | `{"prompt": NAME, "arguments": {…}}` | the result |
//! | `{"cancel": NAME, "arguments": {…}}`: a call, given up as soon as it reports progress | `{"cancelled": true}` |
//! | `{"change": NAME, "arguments": {…}, "expect": TOOL}`: a call that adds a tool to the list | `{"changed": true}`, when the client was told and has found it |
//! | the same with `"of": "resources"`: a call that adds a resource, and its URI | the same |
//!
//! A JSON-RPC error is the reply `{"error": {"code": …, "message": …}}`.

use serde_json::{Value, json};
use tokio::process::Command;
use transom_tests::children::stdout;
use transom_tests::install::{folder, node, python};

/// A client in front of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    /// Python `mcp`, by handshake.
    PythonLegacy,
    /// Python `mcp`, which asks for the modern revision first.
    PythonAuto,
    /// FastMCP's client, by handshake.
    FastMcpLegacy,
    /// FastMCP's client, which asks for the modern revision first.
    FastMcpAuto,
    /// TypeScript `@modelcontextprotocol/client`, by handshake.
    TypeScriptLegacy,
    /// TypeScript `@modelcontextprotocol/client`, modern or nothing.
    TypeScriptModern,
    /// TypeScript `@modelcontextprotocol/sdk`, the generation before, over Streamable HTTP.
    TypeScriptOne,
    /// The same over HTTP+SSE, the transport of 2024-11-05.
    TypeScriptOneSse,
}

impl Sdk {
    /// The revision this client agrees on with a server that knows all of them.
    pub fn revision(self) -> &'static str {
        match self {
            Sdk::PythonAuto | Sdk::FastMcpAuto | Sdk::TypeScriptModern => "2026-07-28",
            _ => "2025-11-25",
        }
    }

    /// The same SDK in a form that can talk to a legacy server over Streamable HTTP, to ask it directly.
    pub fn legacy(self) -> Sdk {
        match self {
            Sdk::PythonLegacy | Sdk::PythonAuto => Sdk::PythonLegacy,
            Sdk::FastMcpLegacy | Sdk::FastMcpAuto => Sdk::FastMcpLegacy,
            Sdk::TypeScriptLegacy | Sdk::TypeScriptModern => Sdk::TypeScriptLegacy,
            Sdk::TypeScriptOne | Sdk::TypeScriptOneSse => Sdk::TypeScriptOne,
        }
    }

    /// Has this conversation with whoever is at `url`, or with a process that it starts: `{"command": …, "args": […]}`.
    pub async fn talk(self, url: &str, steps: &[Value]) -> Talk {
        let (program, script, how) = match self {
            Sdk::PythonLegacy => (python("python"), "python.py", "legacy"),
            Sdk::PythonAuto => (python("python"), "python.py", "auto"),
            Sdk::FastMcpLegacy => (python("python"), "python.py", "fastmcp:legacy"),
            Sdk::FastMcpAuto => (python("python"), "python.py", "fastmcp:auto"),
            Sdk::TypeScriptLegacy => (node(), "typescript.mjs", "legacy"),
            Sdk::TypeScriptModern => (node(), "typescript.mjs", "modern"),
            Sdk::TypeScriptOne => (node(), "typescript.mjs", "sdk1"),
            Sdk::TypeScriptOneSse => (node(), "typescript.mjs", "sdk1-sse"),
        };
        let steps_text = json!(steps).to_string();
        let text = stdout(Command::new(program).arg(folder("e2e").join("clients").join(script)).args([url, how, &steps_text])).await;
        let mut answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{self:?} printed no JSON ({error}): {text}"));
        let Value::Array(replies) = answer["replies"].take() else { panic!("{self:?} printed no replies: {text}") };
        assert_eq!(replies.len(), steps.len(), "{self:?}: a reply per step");
        Talk { revision: answer["revision"].as_str().unwrap_or_default().to_owned(), replies: replies.into_iter().map(essence).collect() }
    }
}

/// What came of a conversation.
#[derive(Debug)]
pub struct Talk {
    pub revision: String,
    pub replies: Vec<Value>,
}

pub fn list(what: &str) -> Value {
    json!({"list": what})
}

pub fn call(tool: &str, arguments: Value) -> Value {
    json!({"call": tool, "arguments": arguments})
}

pub fn call_with_progress(tool: &str, arguments: Value) -> Value {
    json!({"call": tool, "arguments": arguments, "progress": true})
}

pub fn read(uri: &str) -> Value {
    json!({"read": uri})
}

pub fn prompt(name: &str, arguments: Value) -> Value {
    json!({"prompt": name, "arguments": arguments})
}

pub fn cancel(tool: &str, arguments: Value) -> Value {
    json!({"cancel": tool, "arguments": arguments})
}

pub fn change(tool: &str, arguments: Value, expect: &str) -> Value {
    json!({"change": tool, "arguments": arguments, "expect": expect})
}

pub fn change_resources(tool: &str, arguments: Value, expect: &str) -> Value {
    json!({"change": tool, "arguments": arguments, "expect": expect, "of": "resources"})
}

/// A reply without what belongs to the era or to whoever answered: the rest must be the same, direct and through a gateway.
fn essence(mut reply: Value) -> Value {
    if let Some(members) = reply.as_object_mut() {
        for hop in ["resultType", "ttlMs", "cacheScope"] {
            members.remove(hop);
        }
        if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.remove("io.modelcontextprotocol/serverInfo");
            if meta.is_empty() {
                members.remove("_meta");
            }
        }
        if let Some(result) = members.remove("result") {
            members.insert("result".into(), essence(result));
        }
    }
    reply
}
