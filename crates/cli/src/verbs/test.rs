//! `transom test FILE…`: a registry's own tests. No network, no gateway: the engine alone.
//!
//! Turns YAML and JSON into the same tree and knows where each case stands; what a case means is the engine's business.

use super::Output;
use super::validate::placed;
use crate::failure::{Exit, Failure};
use crate::terminal;
use serde_json::{Value as Data, json};
use std::path::{Path, PathBuf};
use transom_config::{Node, Place, Problem, Report, Source, Value};
use transom_json::{Json, Kind, Limits, Tree, check};
use transom_registry::Document;
use transom_registry::suite::{Outcome, Subject, Suite};

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Test files, YAML or JSON
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Say of each file how it went, not only of those with failures
    #[arg(short, long)]
    verbose: bool,
    /// How to print what happened
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Output,
}

/// How the cases of one file went.
struct Played {
    file: String,
    outcomes: Vec<(Outcome, (usize, usize))>,
}

impl Played {
    fn passed(&self) -> usize {
        self.outcomes.iter().filter(|(outcome, _)| outcome.passed()).count()
    }

    fn failed(&self) -> usize {
        self.outcomes.len() - self.passed()
    }
}

/// Why a file has no outcomes.
enum Unplayed {
    /// The test file, or the registry it names, cannot be read or understood.
    Unreadable(String),
    /// The registry is none.
    NoRegistry(String),
}

/// Plays the cases of every file and prints what was not as expected.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut played = Vec::new();
    let mut broken = false;
    let mut unreadable = false;
    for path in &args.files {
        match play(path) {
            Ok(file) => played.push(file),
            Err(Unplayed::Unreadable(why)) => {
                terminal::note(&why);
                unreadable = true;
            }
            Err(Unplayed::NoRegistry(why)) => {
                terminal::note(&why);
                broken = true;
            }
        }
    }
    let text = match args.output {
        Output::Json => format!("{:#}", as_json(&played)),
        Output::Text => as_text(&played, args.verbose),
    };
    if !text.is_empty() {
        terminal::data(&text);
    }
    match (unreadable, broken || played.iter().any(|file| file.failed() > 0)) {
        (true, _) => Err(Failure::said(Exit::Unexpected)),
        (false, true) => Err(Failure::said(Exit::Negative)),
        (false, false) => Ok(()),
    }
}

fn play(path: &Path) -> Result<Played, Unplayed> {
    let name = path.display().to_string();
    let unreadable = |what: &str, error: std::io::Error| Unplayed::Unreadable(format!("error: cannot read `{what}`: {error}"));
    let source = Source::read(path).map_err(|error| unreadable(&name, error))?;
    let file = TestFile::read(&source).map_err(|report| Unplayed::Unreadable(report.render(terminal::color())))?;
    let suite = Suite::read(&file.tree).map_err(|faults| {
        let problems = faults.into_iter().map(|fault| Problem::error(file.place(&fault.pointer), fault.message).code("test"));
        Unplayed::Unreadable(Report::new(std::slice::from_ref(&source), problems).render(terminal::color()))
    })?;
    let registry = match &suite.registry {
        Subject::Inline(text) => Source { name: format!("{name} (registry)"), text: text.clone(), base_dir: source.base_dir.clone() },
        Subject::File(relative) => {
            let path = source.base_dir.join(relative);
            let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path.display().to_string(), error))?;
            Source { name: relative.clone(), text, base_dir: source.base_dir.clone() }
        }
    };
    let outcomes = suite.run(Document { name: &registry.name, text: &registry.text }).map_err(|problems| {
        let report = Report::new(std::slice::from_ref(&registry), problems.into_iter().map(placed));
        Unplayed::NoRegistry(report.render(terminal::color()))
    })?;
    let at = |outcome: Outcome| {
        let place = file.place(&format!("/cases/{}", outcome.index));
        let position = transom_registry::position(&source.text, place.start);
        (outcome, position)
    };
    Ok(Played { file: name, outcomes: outcomes.into_iter().map(at).collect() })
}

/// A test file: its tree, and where each value stands.
struct TestFile<'s> {
    tree: Tree,
    places: Places<'s>,
}

enum Places<'s> {
    /// Values of JSON are slices of the text.
    Json { text: &'s str, root: Json<'s> },
    /// YAML comes with places.
    Yaml(Node),
}

impl<'s> TestFile<'s> {
    /// What looks like JSON and is JSON is read as such, so that numbers and escapes mean what JSON says.
    fn read(source: &'s Source) -> Result<TestFile<'s>, Report> {
        let limits = Limits { duplicate_keys: false, ..Limits::REPLY };
        if source.text.trim_start().starts_with('{')
            && let Ok(root) = check(source.text.as_bytes(), &limits)
        {
            return Ok(TestFile { tree: Tree::from(root), places: Places::Json { text: &source.text, root } });
        }
        let node = transom_config::tree(source)?;
        let mut problems = Vec::new();
        let tree = json_of(&node, &mut problems);
        if problems.is_empty() { Ok(TestFile { tree, places: Places::Yaml(node) }) } else { Err(Report::new(std::slice::from_ref(source), problems)) }
    }

    /// Where a value stands, or the nearest value around it.
    fn place(&self, pointer: &str) -> Place {
        let steps: Vec<String> = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        match &self.places {
            Places::Json { text, root } => {
                let mut json = *root;
                for step in &steps {
                    let next = match json.kind() {
                        Kind::Array => step.parse().ok().and_then(|at| json.elements().nth(at)),
                        _ => json.get(step),
                    };
                    match next {
                        Some(next) => json = next,
                        None => break,
                    }
                }
                let start = json.raw().as_ptr() as usize - text.as_ptr() as usize;
                Place { source: 0, start, length: json.raw().len() }
            }
            Places::Yaml(node) => {
                let mut node = node;
                for step in &steps {
                    let next = match &node.value {
                        Value::List(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
                        Value::Map(entries) => entries.iter().find(|(key, _)| key.spelling() == Some(step)).map(|(_, value)| value),
                        _ => None,
                    };
                    match next {
                        Some(next) => node = next,
                        None => break,
                    }
                }
                node.place
            }
        }
    }
}

/// YAML as JSON. Its depth was bounded when it was parsed.
fn json_of(node: &Node, problems: &mut Vec<Problem>) -> Tree {
    match &node.value {
        Value::Null => Tree::Null,
        Value::Boolean(value) => Tree::Bool(*value),
        Value::Text(text) => Tree::String(text.clone()),
        Value::Number(spelling) => {
            if check(spelling.as_bytes(), &Limits::REQUEST).is_err() {
                let problem = Problem::error(node.place, format!("`{spelling}` is a number that JSON cannot spell"));
                problems.push(problem.code("test").help("put quotes around it, or write the test as JSON"));
            }
            Tree::Number(spelling.as_str().into())
        }
        Value::List(items) => Tree::Array(items.iter().map(|item| json_of(item, problems)).collect()),
        Value::Map(entries) => {
            let member = |(key, value): &(Node, Node)| (key.spelling().unwrap_or_default().to_owned(), json_of(value, problems));
            Tree::Object(entries.iter().map(member).collect())
        }
    }
}

/// For each failing case its name, its place and what was different; last, how many passed and failed.
fn as_text(played: &[Played], verbose: bool) -> String {
    let mut text = String::new();
    for file in played {
        for (outcome, (line, column)) in file.outcomes.iter().filter(|(outcome, _)| !outcome.passed()) {
            text.push_str(&format!("✗ {}\n  at {}:{line}:{column}\n", outcome.name, file.file));
            outcome.differences.iter().for_each(|difference| text.push_str(&format!("  {difference}\n")));
            text.push('\n');
        }
        if verbose && file.failed() == 0 {
            text.push_str(&format!("{}: {} passed, 0 failed\n", file.file, file.passed()));
        }
    }
    let total = |count: fn(&Played) -> usize| played.iter().map(count).sum::<usize>();
    text.push_str(&format!("{} passed, {} failed\n", total(Played::passed), total(Played::failed)));
    text
}

fn as_json(played: &[Played]) -> Data {
    let case = |(outcome, (line, column)): &(Outcome, (usize, usize))| json!({ "name": outcome.name, "passed": outcome.passed(), "line": line, "column": column, "differences": outcome.differences });
    let files: Vec<Data> = played
        .iter()
        .map(|file| {
            let cases: Vec<Data> = file.outcomes.iter().map(case).collect();
            json!({ "file": file.file, "passed": file.passed(), "failed": file.failed(), "cases": cases })
        })
        .collect();
    let total = |count: fn(&Played) -> usize| played.iter().map(count).sum::<usize>();
    json!({ "passed": total(Played::passed), "failed": total(Played::failed), "files": files })
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
registry:
  tools:
    - { name: v, source: { target: t, tool: s }, hideFields: [h], defaults: { h: 30 } }
catalog:
  t: [{ name: s, description: d, inputSchema: { type: object, properties: { a: {}, h: {} } } }]
cases:
  - name: it works
    call: { tool: v, arguments: { a: 1.50 } }
    upstream: { target: t, tool: s, arguments: { a: 1.50, h: 30 } }

  - name: it does not
    call: { tool: v }
    upstream: { target: t, tool: s, arguments: { h: 30.0 } }
";

    fn write(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("transom-test-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    fn played(name: &str, text: &str) -> Result<Played, Unplayed> {
        let path = write(name, text);
        let outcome = play(&path).map(|played| Played { file: name.into(), ..played });
        std::fs::remove_file(path).unwrap();
        outcome
    }

    fn unreadable(name: &str, text: &str) -> String {
        match played(name, text) {
            Err(Unplayed::Unreadable(why)) => why,
            _ => panic!("{name} was understood"),
        }
    }

    #[test]
    fn a_failure_is_told_with_its_place_and_success_in_one_line() {
        let Ok(file) = played("a.test.yaml", YAML) else { panic!() };
        let expected = "✗ it does not\n  at a.test.yaml:11:5\n  upstream.arguments.h: expected 30.0, found 30\n\n1 passed, 1 failed\n";
        assert_eq!(as_text(&[file], false), expected);
        let Ok(good) = played("b.test.yaml", &YAML.replace("30.0", "30")) else { panic!() };
        assert_eq!(as_text(std::slice::from_ref(&good), false), "2 passed, 0 failed\n");
        assert_eq!(as_text(&[good], true), "b.test.yaml: 2 passed, 0 failed\n2 passed, 0 failed\n");
    }

    // R-003-41: the scenarios of the prototype are among them
    /// The golden cases of the engine, through the same door as everybody's. `cargo test -p transom-cli golden` after a change.
    #[test]
    fn the_golden_cases_pass() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../registry/cases");
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let played: Vec<Played> = files
            .iter()
            .map(|path| match play(path) {
                Ok(played) => played,
                Err(Unplayed::Unreadable(why) | Unplayed::NoRegistry(why)) => panic!("{why}"),
            })
            .collect();
        let passed = played.iter().map(Played::passed).sum::<usize>();
        assert_eq!(as_text(&played, false), format!("{passed} passed, 0 failed\n"));
        assert!(passed >= 250);
    }

    #[test]
    fn the_same_as_data() {
        let Ok(file) = played("c.test.yaml", YAML) else { panic!() };
        let data = as_json(&[file]);
        assert_eq!((data["passed"].as_u64(), data["failed"].as_u64()), (Some(1), Some(1)));
        assert_eq!(data["files"][0]["cases"][1]["line"], 11);
        assert_eq!(data["files"][0]["cases"][1]["differences"][0], "upstream.arguments.h: expected 30.0, found 30");
    }

    #[test]
    fn the_exit_code_is_the_answer() {
        let (good, bad) = (write("good.test.yaml", &YAML.replace("30.0", "30")), write("bad.test.yaml", YAML));
        let exit = |files: &[&Path]| {
            let files = files.iter().map(|path| path.to_path_buf()).collect();
            run(Args { files, verbose: false, output: Output::Text }).err().map(|failure| failure.exit)
        };
        assert_eq!(exit(&[&good]), None);
        assert_eq!(exit(&[&good, &bad]), Some(Exit::Negative));
        assert_eq!(exit(&[&bad, Path::new("/nowhere/x.test.yaml")]), Some(Exit::Unexpected));
        std::fs::remove_file(good).unwrap();
        std::fs::remove_file(bad).unwrap();
    }

    #[test]
    fn json_keeps_what_yaml_cannot_hold() {
        let text = r#"{"registry":{"tools":[{"name":"v","source":{"target":"t","tool":"s"}}]},
  "catalog":{"t":[{"name":"s","description":"\ud83c\udf89","inputSchema":{"type":"object"}}]},
  "cases":[
    {"name":"exact","call":{"tool":"v","arguments":{"n":1e400}},"upstream":{"arguments":{"n":1e400}}},
    {"name":"off","call":{"tool":"v","arguments":{"n":1e400}},"upstream":{"arguments":{"n":1E400}}}]}"#;
        let Ok(file) = played("d.test.json", text) else { panic!() };
        assert!(as_text(&[file], false).starts_with("✗ off\n  at d.test.json:5:5\n  upstream.arguments.n: expected 1E400, found 1e400\n"));
    }

    #[test]
    fn what_cannot_be_understood_is_shown_in_the_file() {
        assert!(unreadable("e.test.yaml", "registry: [\n").contains("e.test.yaml"));
        let page = unreadable("f.test.yaml", "registry: {}\ncases:\n  - name: a\n    lists: []\n");
        assert!(page.contains("did you mean `list`?") && page.contains("f.test.yaml:4:12"), "{page}");
        let page = unreadable("g.test.yaml", "registry: {}\nenv: { A: 0x1F }\ncases: []\n");
        assert!(page.contains("`0x1F` is a number that JSON cannot spell"), "{page}");
        let page = unreadable("h.test.yaml", "registry: nowhere.json\ncases: []\n");
        assert!(page.contains("nowhere.json"), "{page}");
        assert!(matches!(play(Path::new("/nowhere/x.test.yaml")), Err(Unplayed::Unreadable(_))));
    }

    #[test]
    fn a_registry_may_stand_beside_the_test() {
        let registry = write("beside.json", r#"{"tools":[{"name":"v","source":{"target":"t","tool":"s"}}]}"#);
        let name = registry.file_name().unwrap().to_str().unwrap();
        let text = format!("registry: {name}\ncases:\n  - {{ name: gone, call: {{ tool: v }}, error: unavailable }}\n");
        assert!(matches!(played("i.test.yaml", &text), Ok(file) if file.failed() == 0));
        std::fs::write(&registry, "[]").unwrap();
        let Err(Unplayed::NoRegistry(page)) = played("j.test.yaml", &text) else { panic!() };
        assert!(page.contains("not an object"), "{page}");
        std::fs::remove_file(registry).unwrap();
    }
}
