//! `transom validate FILE…`: everything that is wrong with configs and registries, at once, with place and hint.
//!
//! Offline: no target and no server is asked. Which kind a file is shows in what it says, not in its name. Of a config, the
//! registries that it names are examined too, as far as they are files, and its own `tools`.

use super::Output;
use crate::failure::{Exit, Failure};
use crate::terminal;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use transom_config::{Environment, Node, Place, Problem, ProcessEnvironment, Report, Severity, Source};
use transom_gateway::Config;
use transom_gateway::config::{OnStart, RegistryLocation};
use transom_registry::{Code, Document, Options};

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
    /// Say what was not looked at
    #[arg(short, long)]
    verbose: bool,
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
    let Examined { report, not_fetched } = examine(&sources, &ProcessEnvironment, args.strict);
    if args.verbose {
        for name in not_fetched {
            terminal::note(&format!("note: `{name}` was not fetched: validate works on files alone"));
        }
    }
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

/// What came of a look at some files.
struct Examined {
    report: Report,
    /// Registries on servers.
    not_fetched: Vec<String>,
}

/// Every problem of every file. Configs come first: their targets are those that registries may name.
fn examine<E: Environment + Clone + Send + Sync + 'static>(sources: &[Source], environment: &E, strict: bool) -> Examined {
    let (mut registries, configs): (Vec<&Source>, Vec<&Source>) = sources.iter().partition(|source| is_registry(source));
    let mut targets: Option<Vec<String>> = None;
    let mut examined = Examined { report: Report::new(&[], []), not_fetched: Vec::new() };
    for source in configs {
        let (config, report) = transom_config::examine(std::slice::from_ref(source), environment);
        // A target that could not be read is missing in the config, and no registry is to blame for naming it.
        let known: Option<Vec<String>> = (!report.has_errors()).then(|| config.targets.iter().map(|target| target.name.to_string()).collect());
        examined.report = examined.report.and(report);
        registries.retain(|registry| !names(&config, registry));
        let of_config = examine_registries_of(source, &config, Options { targets: known.clone(), ..options(&config, strict) });
        examined.report = examined.report.and(of_config.report);
        examined.not_fetched.extend(of_config.not_fetched);
        if let Some(known) = known {
            targets.get_or_insert_default().extend(known);
        }
    }
    for registry in registries {
        let options = Options { strict, targets: targets.clone(), ..Options::default() };
        examined.report = examined.report.and(examine_registry(registry, environment, &options));
    }
    examined
}

fn examine_registry(source: &Source, environment: &dyn Environment, options: &Options) -> Report {
    let document = Document { name: &source.name, text: &source.text };
    let problems = transom_registry::compile(&[document], environment, options).map_or_else(|problems| problems, |compiled| compiled.problems);
    Report::new(std::slice::from_ref(source), problems.into_iter().map(placed))
}

fn options(config: &Config, strict: bool) -> Options {
    let reading = config.reading.clone();
    Options {
        settings: reading.settings,
        strict: strict || reading.strict,
        unlisted: reading.unlisted,
        full_jsonpath: reading.full_jsonpath,
        env_allow: reading.env_allow,
        validate_all: reading.validate_all,
        ..Options::default()
    }
}

/// Whether a config names a file as its registry.
fn names(config: &Config, file: &Source) -> bool {
    let path = Path::new(&file.name).file_name().map(|name| file.base_dir.join(name));
    let sources = config.registry.iter().flat_map(|registry| &registry.sources);
    path.is_some_and(|path| sources.into_iter().any(|source| matches!(&source.location, RegistryLocation::File(named) if *named == path)))
}

/// What a config's own tools and registries say, compiled together as the gateway would.
fn examine_registries_of(source: &Source, config: &Config, options: Options) -> Examined {
    let tree = transom_config::tree(source).ok();
    let mut problems = Vec::new();
    let mut not_fetched = Vec::new();
    // The config stands for its own tools, whose problems are shown in it.
    let mut pages = vec![source.clone()];
    let mut texts = vec![config.own_tools.as_ref().map_or_else(|| "{}".to_owned(), |tools| tools.text.clone())];
    let registry = config.registry.as_ref();
    for (index, named) in registry.iter().flat_map(|registry| &registry.sources).enumerate() {
        match &named.location {
            RegistryLocation::Http { .. } => not_fetched.push(named.name.clone()),
            RegistryLocation::File(path) => match read_named(source, path) {
                Ok(page) => {
                    texts.push(page.text.clone());
                    pages.push(page);
                }
                Err(error) => {
                    let message = format!("the registry `{}` cannot be read: {error}", path.display());
                    let place = tree.as_ref().map(|tree| place_of_source(tree, index)).unwrap_or_default();
                    let is_awaited = registry.is_some_and(|registry| registry.on_start == OnStart::Retry);
                    let problem = if is_awaited { Problem::warning(place, message) } else { Problem::error(place, message) };
                    problems.push(problem.help("a relative path starts at the config file's directory"));
                }
            },
        }
    }
    let documents: Vec<Document<'_>> = pages.iter().zip(&texts).map(|(page, text)| Document { name: &page.name, text }).collect();
    let found =
        transom_registry::compile(&documents, config.environment.get(), &options).map_or_else(|problems| problems, |compiled| compiled.problems);
    // What stands on a tool that was not fetched may be right.
    let found = found.into_iter().filter(|problem| not_fetched.is_empty() || problem.code != Code::UnknownSource);
    problems.extend(found.map(|problem| match (problem.document, &tree) {
        (0, Some(tree)) => {
            let part = texts.first().and_then(|text| text.get(problem.span.clone())).unwrap_or_default();
            let place = transom_config::place_of(tree, source, &problem.pointer, part);
            Problem { place, ..placed(problem) }
        }
        (document, _) => {
            let problem = placed(problem);
            Problem { place: Place { source: document, ..problem.place }, ..problem }
        }
    }));
    Examined { report: Report::new(&pages, problems), not_fetched }
}

/// Reads a registry that a config names, and calls it so that whoever named the config finds it.
fn read_named(config: &Source, path: &Path) -> std::io::Result<Source> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    let beside = path.strip_prefix(&config.base_dir).ok().map(|relative| Path::new(&config.name).with_file_name("").join(relative));
    let name = beside.unwrap_or_else(|| path.to_path_buf()).display().to_string();
    Ok(Source { name, text, base_dir: path.parent().map(Path::to_path_buf).unwrap_or_default() })
}

/// Where a config names its registry of this index.
fn place_of_source(tree: &Node, index: usize) -> Place {
    let written = ["/registry/source".to_owned(), format!("/registry/sources/{index}/source"), format!("/registry/sources/{index}")];
    let found = written.iter().find_map(|pointer| tree.find(pointer));
    found.unwrap_or(tree).place
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
    const OF_CONFIGS: [&str; 10] =
        ["backends", "listen", "admin", "metrics", "mcpServers", "registry", "policies", "naming", "discovery", "validation"];
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

    #[derive(Clone)]
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
        examine(sources, &Nothing, false).report.render(false)
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
    shown!(the_same_as_json, pretty(&as_json(&examine(&[source("registry.json", FIVE)], &Nothing, false).report)));
    shown!(
        the_same_as_sarif,
        pretty(&as_sarif(&examine(&[source("r.json", r#"{"tools":[{"name":"a","source":"b"}],"tols":[]}"#)], &Nothing, false).report))
    );

    /// A config beside real files; problems name it by the file's name alone.
    fn beside(files: &[(&str, &str)], config: &str) -> Examined {
        static FOLDERS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("transom-validate-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let sources: Vec<Source> = std::iter::once(("config.yaml", config))
            .chain(files.iter().copied())
            .map(|(name, text)| Source { name: name.into(), text: text.into(), base_dir: folder.clone() })
            .collect();
        let examined = examine(&sources, &Nothing, false);
        std::fs::remove_dir_all(folder).unwrap();
        examined
    }

    const WITH_TOOLS: &str = r#"registry: { sources: [file://./registry.json, "https://registry.corp.example/tools"] }
backends: [{ mcp: { targets: [{ name: weather, stdio: { cmd: uvx } }] } }]
tools:
  - name: own
    source: { target: wether, tool: a }
    outputSchema:
      properties:
        t: { sourceField: "$.data[" }
  - { name: elsewhere, source: a_tool_that_was_not_fetched }
  - just text
"#;

    // R-002-1, R-003-53: the registry of a config and its own tools are looked at, each problem once and at its place.
    shown!(
        a_config_brings_its_tools_and_its_registry,
        beside(
            &[(
                "registry.json",
                "{\"tools\": [\n  {\"name\": \"own\", \"source\": {\"target\": \"weather\", \"tool\": \"b\"}, \"hideField\": []}\n]}"
            )],
            WITH_TOOLS
        )
        .report
        .render(false)
    );

    #[test]
    fn what_is_on_a_server_is_not_fetched_and_what_is_missing_is_told_in_the_config() {
        let examined = beside(&[], "registry: { sources: [\"https://a.example/tools?key=canary\", r.json] }\n");
        assert_eq!(examined.not_fetched, ["https://a.example/tools"]);
        let problems: Vec<_> =
            examined.report.problems().map(|problem| (problem.file.to_owned(), problem.line, problem.column, problem.severity)).collect();
        assert_eq!(problems, [("config.yaml".to_owned(), 1, 61, Severity::Error)]);
        assert!(examined.report.to_string().contains("r.json` cannot be read"), "{}", examined.report);

        let awaited = beside(&[], "registry: { source: r.json, onStart: retry }\n").report;
        assert!(!awaited.has_errors() && !awaited.is_empty(), "{awaited}");
    }

    #[test]
    fn a_registry_is_read_as_its_config_says() {
        let registry = [("r.json", r#"{"tools":[{"name":"a","source":{"target":"t","tool":"b"},"defaults":{"k":"${UNSET:-x}","l":"${file:/k}"}}]}"#)];
        let targets = "backends: [{ mcp: { targets: [{ name: t, stdio: { cmd: x } }] } }]\n";
        let count = |section: &str| beside(&registry, &format!("registry: {{ source: r.json{section} }}\n{targets}")).report.problems().count();
        assert_eq!((count(""), count(", env: { allow: [] }")), (1, 2), "no file may be read, and with an empty list no variable either");
    }

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
            run(Args { files, strict: false, live, verbose: false, format: None, output: Some(Output::Json) }).err().map(|failure| failure.exit)
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
        #[derive(Clone)]
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
        let report = examine(&[source("registry.json", &text)], &Secret, true).report;
        assert!(!report.render(false).contains("canary-secret") && !as_json(&report).to_string().contains("canary-secret"));
    }
}
