//! `transom validate FILE…`: everything that is wrong with configs and registries, at once, with place and hint.
//!
//! Offline: no target is asked. Which kind a file is shows in what it says, not in its name.

use super::Output;
use crate::failure::{Exit, Failure};
use crate::terminal;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use transom_config::{Environment, Place, Problem, ProcessEnvironment, Report, Severity, Source};
use transom_registry::{Document, Options};

/// A registry may have 16 MiB; one byte more is read, so that the engine says that it is too large.
const LARGEST_FILE: u64 = (16 << 20) + 1;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Registries and configs; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Treat an override that its source could not accept as an error
    #[arg(long)]
    strict: bool,
    /// Ask the targets too
    #[arg(long)]
    live: bool,
    /// How to print the problems
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The same as `--format`, as for every other reader
    #[arg(long, value_enum, value_name = "FORM", conflicts_with = "format")]
    output: Option<Output>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For code scanners: SARIF 2.1.0
    Sarif,
}

impl Args {
    fn form(&self) -> Format {
        match self.output {
            Some(Output::Json) => Format::Json,
            Some(Output::Text) => Format::Text,
            None => self.format.unwrap_or_default(),
        }
    }
}

/// Prints every problem; fails if there is an error among them.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.live {
        return Err(Failure::new(Exit::Unexpected, "`--live` is not there yet: validate works on files alone").hint("leave it out"));
    }
    let mut sources = Vec::new();
    let mut unreadable = None;
    for path in &args.files {
        match read(path) {
            Ok(source) => sources.push(source),
            // The other files are told about all the same.
            Err(failure) => {
                if let Some(earlier) = unreadable.replace(failure) {
                    terminal::note(&earlier.to_string());
                }
            }
        }
    }
    let report = examine(&sources, &ProcessEnvironment, args.strict);
    match args.form() {
        Format::Text if report.is_empty() => {}
        Format::Text => terminal::data(&report.render(terminal::color_of_data())),
        Format::Json => terminal::data(&pretty(&as_json(&report))),
        Format::Sarif => terminal::data(&pretty(&as_sarif(&report))),
    }
    if let Some(failure) = unreadable {
        return Err(failure);
    }
    if report.has_errors() { Err(Failure::said(Exit::Negative)) } else { Ok(()) }
}

fn read(path: &Path) -> Result<Source, Failure> {
    let cannot = |error: std::io::Error| Failure::new(Exit::Unexpected, format!("cannot read `{}`: {error}", path.display()));
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(LARGEST_FILE).read_to_string(&mut text).map_err(cannot)?;
        let base_dir = std::env::current_dir().map_err(cannot)?;
        return Ok(Source { name: "standard input".into(), text, base_dir });
    }
    std::fs::File::open(path).and_then(|file| file.take(LARGEST_FILE).read_to_string(&mut text)).map_err(cannot)?;
    let base_dir = std::path::absolute(path).map_err(cannot)?.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(Source { name: path.display().to_string(), text, base_dir })
}

/// Every problem of every file. Configs come first: their targets are those that registries may name.
fn examine(sources: &[Source], environment: &dyn Environment, strict: bool) -> Report {
    let (registries, configs): (Vec<&Source>, Vec<&Source>) = sources.iter().partition(|source| is_registry(source));
    let mut targets: Option<Vec<String>> = None;
    let mut report = Report::new(&[], []);
    for config in configs {
        report = report.and(match transom_config::load(std::slice::from_ref(config), environment) {
            Ok(loaded) => {
                targets.get_or_insert_default().extend(loaded.config.targets.iter().map(|target| target.name.to_string()));
                loaded.warnings
            }
            Err(problems) => problems,
        });
    }
    for registry in registries {
        let options = Options { strict, targets: targets.clone(), ..Options::default() };
        report = report.and(examine_registry(registry, environment, &options));
    }
    report
}

fn examine_registry(source: &Source, environment: &dyn Environment, options: &Options) -> Report {
    let document = Document { name: &source.name, text: &source.text };
    let problems = transom_registry::compile(&[document], environment, options).map_or_else(|problems| problems, |compiled| compiled.problems);
    Report::new(std::slice::from_ref(source), problems.into_iter().map(placed))
}

/// A problem of the engine as this crate shows problems.
pub fn placed(problem: transom_registry::Problem) -> Problem {
    let place = Place { source: 0, start: problem.span.start, length: problem.span.len() };
    let shown = if problem.is_error() { Problem::error(place, problem.message) } else { Problem::warning(place, problem.message) };
    Problem { label: Some(problem.label).filter(|label| !label.is_empty()), help: problem.help, ..shown.code(problem.code.label()) }
}

/// A registry is a list of tools; a config says where to listen and whom to reach. What says neither, or is too broken to tell, goes
/// by its name: configs are YAML, registries JSON.
fn is_registry(source: &Source) -> bool {
    const OF_REGISTRIES: [&str; 3] = ["tools", "schemas", "schemaVersion"];
    const OF_CONFIGS: [&str; 8] = ["backends", "listen", "admin", "metrics", "mcpServers", "registry", "policies", "naming"];
    match transom_config::tree(source) {
        Ok(tree) => {
            let says_so = OF_REGISTRIES.iter().any(|key| tree.has(key));
            (says_so || source.name.ends_with(".json")) && !OF_CONFIGS.iter().any(|key| tree.has(key))
        }
        Err(_) => {
            let says = |key: &&str| source.text.contains(&format!("\"{key}\""));
            !source.name.ends_with(".yaml") && !source.name.ends_with(".yml") && !OF_CONFIGS.iter().any(says)
        }
    }
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn as_json(report: &Report) -> Value {
    let count = |severity| report.problems().filter(|problem| problem.severity == severity).count();
    let problems: Vec<Value> = report
        .problems()
        .map(|problem| {
            json!({
                "severity": level(problem.severity), "code": problem.code, "file": problem.file, "line": problem.line, "column": problem.column,
                "message": problem.message, "help": problem.help,
            })
        })
        .collect();
    json!({ "errors": count(Severity::Error), "warnings": count(Severity::Warning), "problems": problems })
}

fn as_sarif(report: &Report) -> Value {
    let mut rules: Vec<&str> = report.problems().map(|problem| problem.code).collect();
    rules.sort_unstable();
    rules.dedup();
    let rules: Vec<Value> = rules.into_iter().map(|code| json!({ "id": code })).collect();
    let results: Vec<Value> = report
        .problems()
        .map(|problem| {
            let text = problem.help.map_or_else(|| problem.message.to_owned(), |help| format!("{} ({help})", problem.message));
            let region = json!({ "startLine": problem.line, "startColumn": problem.column });
            let location = json!({ "physicalLocation": { "artifactLocation": { "uri": problem.file }, "region": region } });
            json!({ "ruleId": problem.code, "level": level(problem.severity), "message": { "text": text }, "locations": [location] })
        })
        .collect();
    let driver = json!({ "name": "transom", "version": env!("CARGO_PKG_VERSION"), "rules": rules });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "columnKind": "unicodeCodePoints", "results": results }],
    })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Environment for Nothing {
        fn variable(&self, _: &str) -> Option<String> {
            None
        }

        fn file(&self, _: &Path) -> Result<String, String> {
            Err("No such file or directory".into())
        }
    }

    fn source(name: &str, text: &str) -> Source {
        Source { name: name.into(), text: text.into(), base_dir: "/etc/transom".into() }
    }

    fn page(sources: &[Source]) -> String {
        examine(sources, &Nothing, false).render(false)
    }

    const CONFIG: &str =
        "backends:\n  - mcp:\n      targets:\n        - { name: weather, stdio: { cmd: uvx } }\n        - { name: tickets, stdio: { cmd: uvx } }\n";

    /// Five different mistakes, each in its own tool.
    const FIVE: &str = r#"{
  "tools": [
    {
      "name": "get_weather",
      "description": "Where a target is misspelt",
      "source": { "target": "wether", "tool": "fetch_weather" }
    },
    { "name": "bad_path", "source": { "target": "weather", "tool": "a" }, "outputSchema": { "properties": { "t": { "sourceField": "$.data[" } } } },
    { "name": "unset", "source": { "target": "weather", "tool": "b" }, "defaults": { "key": "Bearer ${WEATHER_API_KEY}" } },
    { "name": "lost", "source": "get_wether" },
    { "name": "runs", "source": { "target": "tickets", "tool": "c" }, "command": "rm" },
    { "name": "fine", "source": { "target": "tickets", "tool": "d" }, "hideField": ["x"] }
  ]
}
"#;

    macro_rules! shown {
        ($name:ident, $page:expr) => {
            #[test]
            fn $name() {
                insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($page) });
            }
        };
    }

    shown!(five_mistakes_are_shown_at_once, page(&[source("config.yaml", CONFIG), source("registry.json", FIVE)]));
    shown!(a_registry_that_is_cut_off_is_shown_where_it_ends, page(&[source("registry.json", "{\n  \"tools\": [\n    { \"name\": \"a\",")]));
    shown!(a_config_and_a_registry_share_one_report, page(&[source("r.json", r#"{"tools":{}}"#), source("c.yaml", "listn: 1\n")]));
    shown!(the_same_as_json, pretty(&as_json(&examine(&[source("registry.json", FIVE)], &Nothing, false))));
    shown!(
        the_same_as_sarif,
        pretty(&as_sarif(&examine(&[source("r.json", r#"{"tools":[{"name":"a","source":"b"}],"tols":[]}"#)], &Nothing, false)))
    );

    #[test]
    fn a_good_file_is_no_news() {
        for (name, text) in [
            ("registry.json", r#"{"tools":[{"name":"a","source":{"target":"weather","tool":"b"}}]}"#),
            ("empty.json", "{}"),
            ("config.yaml", CONFIG),
            ("mcp.json", r#"{"mcpServers":{"time":{"command":"uvx"}}}"#),
        ] {
            assert_eq!(page(&[source(name, text)]), "", "{name}");
        }
    }

    #[test]
    fn what_a_file_says_tells_its_kind() {
        for (name, text, expected) in [
            ("a.json", r#"{"tools":[]}"#, true),
            ("a.yaml", r#"{"tools":[]}"#, true),
            ("a.json", r#"{"schemaVersion":"1.0"}"#, true),
            ("a.json", r#"{"mcpServers":{}}"#, false),
            ("a.yaml", "listen: 127.0.0.1:3000\ntools: []\n", false),
            ("a.json", r#"{"tools":["#, true),
            ("a.yaml", "listen: [\n", false),
            ("a.json", r#"{"mcpServers":{"#, false),
            ("a.json", "", true),
            ("a.json", "[]", true),
            ("a.json", r#"{"toolz":[]}"#, true),
            ("a.json", r#"{"admin":{}}"#, false),
            ("a.yaml", "", false),
        ] {
            assert_eq!(is_registry(&source(name, text)), expected, "{name} {text}");
        }
    }

    #[test]
    fn the_exit_code_is_the_answer() {
        let file = |name: &str, text: &str| {
            let path = std::env::temp_dir().join(format!("transom-validate-{}-{name}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            path
        };
        let (good, bad) = (file("good.json", "{}"), file("bad.json", r#"{"tools":7}"#));
        let exit = |files: &[&Path], live: bool| {
            let files = files.iter().map(|path| path.to_path_buf()).collect();
            run(Args { files, strict: false, live, format: None, output: Some(Output::Json) }).err().map(|failure| failure.exit)
        };
        assert_eq!(exit(&[&good], false), None);
        assert_eq!(exit(&[&good, &bad], false), Some(Exit::Negative));
        assert_eq!(exit(&[&good, Path::new("/nowhere/r.json")], false), Some(Exit::Unexpected));
        assert_eq!(exit(&[&good], true), Some(Exit::Unexpected));
        std::fs::remove_file(good).unwrap();
        std::fs::remove_file(bad).unwrap();
    }

    #[test]
    fn what_the_environment_held_is_not_told() {
        struct Secret;
        impl Environment for Secret {
            fn variable(&self, _: &str) -> Option<String> {
                Some("canary-secret".into())
            }
            fn file(&self, _: &Path) -> Result<String, String> {
                Ok("canary-secret".into())
            }
        }
        let text = FIVE.replace("\"key\": \"Bearer", "\"key.\": \"Bearer");
        let report = examine(&[source("registry.json", &text)], &Secret, true);
        assert!(!report.render(false).contains("canary-secret") && !as_json(&report).to_string().contains("canary-secret"));
    }
}
