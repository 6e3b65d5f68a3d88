//! What the tests of several rooms share: a small world to compile and bind in.

use crate::template::Environment;
use crate::{Catalog, Compiled, Document, Offer, Options, Problem, Refusal, SourceTool, Step, Tools, compile};
use std::path::Path;
use std::sync::Arc;
use transom_json::{Json, Limits, check};

/// An environment of a few names and one file.
pub(crate) struct World;

impl Environment for World {
    fn variable(&self, name: &str) -> Option<String> {
        let value = match name {
            "KEY" => "k-1234567890",
            "TIMEOUT" => "30",
            "RATIO" => "0.50",
            "FLAG" => "true",
            "WORD" => "abc",
            "A_B" => "${KEY}",
            "EMPTY" => "",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        if path == Path::new("/run/secrets/token") { Ok("f-1234567890\n".into()) } else { Err("no such file".into()) }
    }
}

pub(crate) fn compiled_with(text: &str, options: &Options) -> Result<Compiled, Vec<Problem>> {
    compile(&[Document { name: "registry.json", text }], &World, options)
}

pub(crate) fn compiled(text: &str) -> Compiled {
    compiled_with(text, &Options::default()).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}

/// A registry of these entries.
pub(crate) fn registry(entries: &[&str]) -> String {
    format!(r#"{{"tools":[{}]}}"#, entries.join(","))
}

/// One target `w` with one tool `s` of this input schema.
pub(crate) fn source(schema: &str) -> Catalog {
    catalog(&[("w", &[&format!(r#"{{"name":"s","description":"d","inputSchema":{schema}}}"#)])])
}

pub(crate) fn catalog(targets: &[(&str, &[&str])]) -> Catalog {
    let offer = |(target, tools): &(&str, &[&str])| Offer {
        target: (*target).to_owned(),
        available: true,
        tools: tools.iter().map(|json| Arc::new(SourceTool::read(json).unwrap_or_else(|why| panic!("{json}: {why}")))).collect(),
    };
    Catalog { targets: targets.iter().map(offer).collect() }
}

/// One tool `t` over `w/s`, with these members besides.
pub(crate) fn tool(schema: &str, members: &str) -> Tools {
    let comma = if members.is_empty() { "" } else { "," };
    let entry = format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}}{comma}{members}}}"#);
    let tools = compiled(&registry(&[&entry])).plan.bind(&source(schema));
    assert!(tools.get("t").is_some(), "{members}: {:?}", tools.quarantined());
    tools
}

pub(crate) fn json(text: &str) -> Json<'_> {
    check(text.as_bytes(), &Limits { duplicate_keys: true, ..Limits::REQUEST }).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// What the source gets, or what the caller is told.
pub(crate) fn sent(tools: &Tools, name: &str, arguments: &str) -> Result<String, String> {
    match tools.call(name, Some(json(arguments))) {
        Ok(Step::Call(call)) => Ok(String::from_utf8(call.arguments).unwrap()),
        Ok(other) => Err(format!("{other:?}")),
        Err(Refusal::Arguments { violations, .. }) => Err(violations.join("\n")),
        Err(other) => Err(format!("{other:?}")),
    }
}
