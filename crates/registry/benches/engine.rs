//! What the engine costs, each beside a plain serde_json parse of the same text. `make microbench`, or a part of a name after it:
//! `cargo bench -p transom-registry --bench engine -- project`.
//!
//! A small harness of our own: the median of many short rounds is steady enough to see a factor, and it adds no dependency.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]

use serde_json::Value;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transom_json::{Json, Limits, check};
use transom_registry::template::Environment;
use transom_registry::{Catalog, ClientEra, Document, Offer, Options, SourceTool, Step, Tools, compile};

struct Env;

impl Environment for Env {
    fn variable(&self, _: &str) -> Option<String> {
        Some("k-123456789".into())
    }

    fn file(&self, _: &Path) -> Result<String, String> {
        Err("no such file".into())
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let bench = Bench { wanted };
    println!("{:34} {:>12} {:>16}", "", "median", "serde_json parse");
    for count in [10, 100, 1_000, 10_000] {
        compiling(&bench, count);
    }
    arguments(&bench);
    projections(&bench);
}

struct Bench {
    wanted: Vec<String>,
}

impl Bench {
    /// Times an operation, and a parse of the same text beside it.
    fn run<T>(&self, name: &str, same_text: Option<&str>, mut operation: impl FnMut() -> T) {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|word| name.contains(word.as_str())) {
            return;
        }
        let own = median(&mut || drop(black_box(operation())));
        let parse = same_text.map(|text| median(&mut || drop(black_box(serde_json::from_str::<Value>(black_box(text))))));
        println!("{name:34} {:>12} {:>16}", shown(own), parse.map_or_else(String::new, shown));
    }
}

/// The median of rounds of about two milliseconds each.
fn median(operation: &mut dyn FnMut()) -> Duration {
    let begun = Instant::now();
    operation();
    let once = begun.elapsed().max(Duration::from_nanos(20));
    let times = (Duration::from_millis(2).as_nanos() / once.as_nanos()).clamp(1, 100_000) as u32;
    let rounds = if once > Duration::from_millis(100) { 5 } else { 51 };
    let mut measured: Vec<Duration> = (0..rounds)
        .map(|_| {
            let begun = Instant::now();
            (0..times).for_each(|_| operation());
            begun.elapsed() / times
        })
        .collect();
    measured.sort();
    measured[measured.len() / 2]
}

fn shown(time: Duration) -> String {
    format!("{time:.2?}")
}

/// An entry of the usual size: a description, two defaults, a hidden field, three output fields.
fn entry(number: usize) -> String {
    format!(
        r#"{{"name":"tool_{number}","source":{{"target":"t","tool":"source_{number}"}},"description":"Does number {number}, as its team describes it in a sentence or two",
            "defaults":{{"api_key":"${{KEY}}","units":"metric"}},"hideFields":["debug","api_key"],
            "outputSchema":{{"type":"object","properties":{{"temperature":{{"type":"number","sourceField":"$.data.current.temp_f"}},
            "conditions":{{"type":"string","sourceField":"$.data.current.condition.text"}},"station":{{"sourceField":"$.data.station"}}}}}}}}"#
    )
}

fn source(number: usize) -> String {
    format!(
        r#"{{"name":"source_{number}","description":"Raw {number}","inputSchema":{{"type":"object","properties":{{"city":{{"type":"string"}},"days":{{"type":"integer","minimum":1}},
            "lang":{{"enum":["en","no"]}},"units":{{"type":"string"}},"api_key":{{"type":"string"}},"debug":{{"type":"boolean"}}}},"required":["city","api_key"]}}}}"#
    )
}

fn catalog(definitions: impl Iterator<Item = String>) -> Catalog {
    let tools = definitions.map(|json| Arc::new(SourceTool::read(&json).expect("a sound tool"))).collect();
    Catalog { targets: vec![Offer { target: "t".into(), available: true, tools }] }
}

fn bound(registry: &str, catalog: &Catalog) -> Tools {
    let compiled = compile(&[Document { name: "bench", text: registry }], &Env, &Options::default()).expect("a registry");
    let tools = compiled.plan.bind(catalog);
    assert!(tools.quarantined().is_empty(), "{:?}", tools.quarantined());
    tools
}

fn compiling(bench: &Bench, count: usize) {
    let registry = format!(r#"{{"tools":[{}]}}"#, (0..count).map(entry).collect::<Vec<_>>().join(","));
    let catalog = catalog((0..count).map(source));
    let document = [Document { name: "bench", text: &registry }];
    bench.run(&format!("compile {count} tools"), Some(&registry), || compile(&document, &Env, &Options::default()));
    bench.run(&format!("compile and bind {count} tools"), Some(&registry), || bound(&registry, &catalog));
    let tools = bound(&registry, &catalog);
    bench.run(&format!("list {count} tools"), None, || tools.list().map(|tool| tool.json().len()).sum::<usize>());
    let last = format!("tool_{}", count - 1);
    bench.run(&format!("look up one of {count}"), None, || tools.call(black_box(&last), None).is_ok());
}

fn arguments(bench: &Bench) {
    let few = bound(&format!(r#"{{"tools":[{}]}}"#, entry(0)), &catalog(std::iter::once(source(0))));
    let sent = r#"{"city":"Seattle","days":3,"lang":"en","units":"imperial"}"#;
    call(bench, "arguments: 5 fields, 2 defaults", &few, "tool_0", sent);

    let names: Vec<String> = (0..100).map(|n| format!("field_{n}")).collect();
    let properties: Vec<String> = names.iter().map(|name| format!(r#""{name}":{{"type":"string"}}"#)).collect();
    let schema = format!(r#"{{"name":"s","description":"d","inputSchema":{{"type":"object","properties":{{{}}}}}}}"#, properties.join(","));
    let defaults: Vec<String> = names.iter().skip(50).map(|name| format!(r#""{name}":"value""#)).collect();
    let hidden: Vec<String> = names.iter().skip(75).map(|name| format!(r#""{name}""#)).collect();
    let registry = format!(
        r#"{{"tools":[{{"name":"v","source":{{"target":"t","tool":"s"}},"defaults":{{{}}},"hideFields":[{}]}}]}}"#,
        defaults.join(","),
        hidden.join(",")
    );
    let many = bound(&registry, &catalog(std::iter::once(schema)));
    let sent: Vec<String> = names.iter().take(50).map(|name| format!(r#""{name}":"a value of the caller""#)).collect();
    call(bench, "arguments: 50 fields, 50 defaults", &many, "v", &format!("{{{}}}", sent.join(",")));
}

fn call(bench: &Bench, name: &str, tools: &Tools, tool: &str, arguments: &str) {
    bench.run(name, Some(arguments), || {
        let arguments = check(black_box(arguments.as_bytes()), &Limits::REQUEST).expect("JSON");
        match tools.call(tool, Some(arguments)) {
            Ok(Step::Call(call)) => call.arguments.len(),
            other => panic!("{other:?}"),
        }
    });
}

fn projections(bench: &Bench) {
    let filler = |bytes: usize| {
        let rows: Vec<String> = (0..bytes / 64).map(|n| format!(r#"{{"id":{n},"name":"row number {n}","value":{n}.5,"ok":true}}"#)).collect();
        rows.join(",")
    };
    let current = r#""data":{"current":{"temp_f":52.3,"condition":{"text":"Cloudy"}},"station":"KSEA"}"#;
    for (size, bytes) in [("1 KiB", 1 << 10), ("100 KiB", 100 << 10)] {
        let structured = format!(r#"{{"content":[],"structuredContent":{{"rows":[{}],{current}}}}}"#, filler(bytes));
        project(bench, &format!("project 3 fields of {size}"), &entry(0), &structured);
        let text = format!(r#"{{"rows":[{}],{current}}}"#, filler(bytes));
        let text = format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, transom_json::write::quoted(&text));
        project(bench, &format!("project 3 fields of {size} in text"), &entry(0), &text);
    }
    let outputs = |schema: &str| {
        format!(r#"{{"name":"tool_0","source":{{"target":"t","tool":"source_0"}},"defaults":{{"api_key":"x"}},"outputSchema":{schema}}}"#)
    };
    let items = outputs(
        r#"{"type":"object","properties":{"rows":{"type":"array","sourceField":"$.rows","items":{"type":"object","properties":{"n":{"type":"string","sourceField":"$.name"}}}}}}"#,
    );
    let wide = format!(r#"{{"content":[],"structuredContent":{{"rows":[{}]}}}}"#, filler(100 << 10));
    project(bench, "project every row of 100 KiB", &items, &wide);
    let deep = outputs(&format!(r#"{{"type":"object","properties":{{"v":{{"sourceField":"${}"}}}}}}"#, ".a".repeat(40)));
    let nested = format!(r#"{{"content":[],"structuredContent":{}1{}}}"#, r#"{"z":[1,2,3],"a":"#.repeat(40), "}".repeat(40));
    project(bench, "project 40 levels down", &deep, &nested);
    let query = outputs(r#"{"type":"object","properties":{"v":{"type":"array","sourceField":"$..name"}}}"#);
    project(bench, "project a query over 100 KiB", &query, &wide);
    let plain = r#"{"name":"tool_0","source":{"target":"t","tool":"source_0"},"defaults":{"api_key":"${KEY}"},"hideFields":["api_key"]}"#;
    project(bench, "pass 100 KiB through, masked", plain, &wide);
}

fn project(bench: &Bench, name: &str, entry: &str, result: &str) {
    let tools = bound(&format!(r#"{{"tools":[{entry}]}}"#), &catalog(std::iter::once(source(0))));
    let Ok(Step::Call(call)) = tools.call("tool_0", Some(Json::trusted(r#"{"city":"Oslo"}"#))) else { panic!("no call") };
    bench.run(name, Some(result), || {
        // The gateway checked the reply when it arrived; here the check counts too, as the parse beside it has to check.
        let result = check(black_box(result.as_bytes()), &Limits::REPLY).expect("JSON");
        call.resume.resume(result, ClientEra::Modern).json.len()
    });
}
