//! A registry's own tests: cases in, differences out.
//!
//! Reads a test file that somebody else turned into a [`Tree`] (YAML and JSON look alike from here), and plays each case
//! against the engine. Where a case stands in its file, and how a failure is printed, is the business of the caller.

use crate::call::{ClientEra, LocalCall, Refusal, Resume, SourceCall, Step};
use crate::compile::{Compiled, Options, Unlisted, compile};
use crate::file::{self, Document, Settings};
use crate::list::Tools;
use crate::local::Given;
use crate::problem::{Problem, Severity, did_you_mean};
use crate::source::{Catalog, Offer, SourceTool};
use crate::template::Environment;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use transom_json::{Json, Limits, Tree, check};

/// Values deeper than this are compared as a whole.
const DEPTH: usize = 64;
/// Nobody reads more differences of one case than this.
const MOST_DIFFERENCES: usize = 50;
/// A longer value is cut in a message.
const LONGEST_VALUE: usize = 400;
/// In tests the clock stands still and nothing is random.
const STILL: Given = Given { unix_seconds: 0, random: [0; 16] };
/// The engine checks arguments for duplicate keys itself, so they have to get there.
const ARGUMENTS: Limits = Limits { duplicate_keys: true, ..Limits::REQUEST };

const FILE_KEYS: &[&str] = &["registry", "env", "files", "catalog", "options", "cases"];
const OPTION_KEYS: &[&str] = &["strict", "unlisted", "jsonpath", "env", "defaults"];
const SETTING_KEYS: &[&str] = &["hiddenArguments", "onDrift", "onMissing", "onUnshaped", "errors", "keepContent", "hideDefaulted", "coerceArguments"];
const CASE_KEYS: &[&str] =
    &["name", "list", "exact", "quarantined", "warnings", "errors", "call", "client", "upstream", "reply", "result", "contains", "lacks", "error"];

/// A test file, read.
#[derive(Debug)]
pub struct Suite {
    /// The registry it is about.
    pub registry: Subject,
    environment: Fake,
    catalog: Catalog,
    options: Options,
    cases: Vec<Case>,
}

/// The registry a test file is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A file, relative to the test file.
    File(String),
    /// The document itself, as JSON.
    Inline(String),
}

/// Something in a test file that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadTest {
    /// Where (RFC 6901).
    pub pointer: String,
    /// What is wrong, and what would do.
    pub message: String,
}

/// How one case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its place among the cases of the file.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// What was not as expected, a line each; empty if it passed.
    pub differences: Vec<String>,
}

impl Outcome {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

/// The environment of a test: what its file says and nothing else.
#[derive(Debug, Default)]
struct Fake {
    variables: HashMap<String, String>,
    files: HashMap<String, String>,
}

impl Environment for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        path.to_str().and_then(|path| self.files.get(path)).cloned().ok_or_else(|| "the test has no such file".into())
    }
}

#[derive(Debug)]
struct Case {
    name: String,
    list: Option<Vec<Tree>>,
    exact: bool,
    quarantined: Option<Vec<String>>,
    warnings: Vec<String>,
    errors: Vec<String>,
    call: Option<Call>,
}

#[derive(Debug)]
struct Call {
    tool: String,
    /// As JSON.
    arguments: Option<String>,
    client: ClientEra,
    upstream: Option<Tree>,
    /// As JSON.
    reply: Option<String>,
    result: Option<Tree>,
    contains: Vec<String>,
    lacks: Vec<String>,
    error: Option<String>,
}

impl Suite {
    /// Reads a test file.
    pub fn read(file: &Tree) -> Result<Suite, Vec<BadTest>> {
        let mut reader = Reader { faults: Vec::new() };
        let suite = reader.suite(file);
        if reader.faults.is_empty() { Ok(suite) } else { Err(reader.faults) }
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Plays every case against the registry. Fails if that is none at all.
    pub fn run(&self, registry: Document<'_>) -> Result<Vec<Outcome>, Vec<Problem>> {
        let Compiled { plan, problems } = compile(&[registry], &self.environment, &self.options)?;
        let tools = plan.bind(&self.catalog);
        let outcome = |(index, case): (usize, &Case)| {
            let mut differences = case.play(&tools, &problems);
            differences.truncate(MOST_DIFFERENCES);
            Outcome { index, name: case.name.clone(), differences }
        };
        Ok(self.cases.iter().enumerate().map(outcome).collect())
    }
}

impl Case {
    fn play(&self, tools: &Tools, problems: &[Problem]) -> Vec<String> {
        let mut differences = Vec::new();
        if let Some(expected) = &self.list {
            compare_list(expected, self.exact, tools, &mut differences);
        }
        if let Some(expected) = &self.quarantined {
            compare_quarantined(expected, tools, &mut differences);
        }
        let all: Vec<&Problem> = problems.iter().chain(tools.problems()).collect();
        expect_problems("warnings", &self.warnings, &all, Severity::Warning, &mut differences);
        expect_problems("errors", &self.errors, &all, Severity::Error, &mut differences);
        if let Some(call) = &self.call {
            call.play(tools, &mut differences);
        }
        differences
    }
}

fn compare_list(expected: &[Tree], exact: bool, tools: &Tools, differences: &mut Vec<String>) {
    let found: Vec<(&str, Tree)> = tools.list().map(|tool| (tool.name(), Tree::from(Json::trusted(tool.json())))).collect();
    let name = |tool: &Tree| tool.get("name").and_then(Tree::as_str).unwrap_or("").to_owned();
    let names: Vec<String> = expected.iter().map(name).collect();
    if exact && !names.iter().map(String::as_str).eq(found.iter().map(|(name, _)| *name)) {
        let listed: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        differences.push(format!("list: expected [{}], found [{}]", names.join(", "), shortened(&listed.join(", "))));
    }
    for (tool, name) in expected.iter().zip(&names) {
        match found.iter().find(|(each, _)| each == name) {
            Some((_, found)) => compare_members(&format!("list.{name}"), tool, found, differences),
            None => match quarantined(tools, name) {
                Some(reason) => differences.push(format!("list.{name}: expected it to be listed, found it quarantined: {reason}")),
                None if exact => {}
                None => differences.push(format!("list.{name}: expected it to be listed, found no tool of that name")),
            },
        }
    }
}

/// Why a tool is out, if it is.
fn quarantined<'t>(tools: &'t Tools, name: &str) -> Option<&'t str> {
    tools.quarantined().iter().find(|tool| tool.name == name).map(|tool| tool.reason.as_str())
}

fn compare_quarantined(expected: &[String], tools: &Tools, differences: &mut Vec<String>) {
    // Names are compared, not entries: of three tools with one name two are out.
    for tool in tools.quarantined().iter().filter(|tool| !expected.contains(&tool.name)) {
        differences.push(format!("quarantined: expected `{}` to be fine, found it quarantined: {}", tool.name, tool.reason));
    }
    for name in expected.iter().filter(|name| quarantined(tools, name).is_none()) {
        differences.push(format!("quarantined: expected `{name}` to be quarantined, found that it is not"));
    }
}

/// `warnings` finds the reasons of quarantine too: test files that keep to the specification have no other word for them.
fn expect_problems(what: &str, expected: &[String], problems: &[&Problem], least: Severity, differences: &mut Vec<String>) {
    let texts: Vec<String> = problems
        .iter()
        .filter(|problem| problem.is_error() || least == Severity::Warning)
        .map(|problem| format!("{} {}", problem.message, problem.help.as_deref().unwrap_or("")).trim_end().to_owned())
        .collect();
    for wanted in expected.iter().filter(|wanted| !texts.iter().any(|text| contains(text, wanted))) {
        let found = if texts.is_empty() { "none".to_owned() } else { format!("\n    {}", texts.join("\n    ")) };
        differences.push(format!("{what}: expected one with \"{wanted}\", found {found}"));
    }
}

impl Call {
    fn play(&self, tools: &Tools, differences: &mut Vec<String>) {
        let arguments = match self.arguments.as_ref().map(|text| check(text.as_bytes(), &ARGUMENTS)).transpose() {
            Ok(arguments) => arguments,
            // What the edge of the gateway would refuse never reaches the engine.
            Err(fault) => return self.refused(&fault.to_string(), None, differences),
        };
        match tools.call(&self.tool, arguments) {
            Err(Refusal::UnknownTool) => match quarantined(tools, &self.tool) {
                // Callers are told nothing of this; whoever writes the registry wants to know.
                Some(reason) if self.error.is_none() => {
                    differences.push(format!("call: expected it to be made, found `{}` quarantined: {reason}", self.tool));
                }
                _ => self.refused(&format!("Tool not found: {}", self.tool), None, differences),
            },
            Err(Refusal::Unavailable { message, .. }) => self.refused(&message, None, differences),
            Err(Refusal::Arguments { result, violations, .. }) => self.refused(&violations.join("\n"), Some(&result), differences),
            Ok(Step::Call(call)) => self.called(call, differences),
            Ok(Step::Local(call)) => self.local(call, differences),
            Ok(Step::Done(result)) => self.finished(&result, differences),
        }
    }

    fn refused(&self, message: &str, result: Option<&[u8]>, differences: &mut Vec<String>) {
        match (&self.error, result) {
            (Some(wanted), _) if contains(message, wanted) => {}
            (Some(wanted), _) => differences.push(format!("error: expected a refusal with \"{wanted}\", found \"{message}\"")),
            (None, Some(result)) if self.result.is_some() && self.upstream.is_none() => self.compare_result(result, differences),
            (None, _) => differences.push(format!("call: expected it to be made, found a refusal: {message}")),
        }
    }

    fn called(&self, call: SourceCall, differences: &mut Vec<String>) {
        let arguments = Json::trusted(std::str::from_utf8(&call.arguments).unwrap_or("null"));
        // A case that gives the reply means the call to be made, and the error to be what comes of it.
        if let Some(wanted) = self.error.as_ref().filter(|_| self.reply.is_none()) {
            let made = format!("{} of target {} was called with {}", call.tool, call.target, shortened(arguments.raw()));
            return differences.push(format!("error: expected a refusal with \"{wanted}\", found that {made}"));
        }
        if let Some(expected) = &self.upstream {
            let found = [
                ("target", Tree::String(call.target.to_string())),
                ("tool", Tree::String(call.tool.to_string())),
                ("arguments", Tree::from(arguments)),
            ];
            let found = Tree::Object(found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
            compare_members("upstream", expected, &found, differences);
        }
        self.replied(&call.resume, differences);
    }

    /// Mocks and builtins answer for themselves; for what the gateway would answer the case gives the reply.
    fn local(&self, call: LocalCall, differences: &mut Vec<String>) {
        let Some(answer) = call.answer(&STILL).filter(|_| self.reply.is_none()) else { return self.replied(&call.resume, differences) };
        let answer = Json::trusted(std::str::from_utf8(&answer).unwrap_or("{}"));
        self.finished(call.resume.resume(answer, self.client).json.as_bytes(), differences);
    }

    fn replied(&self, resume: &Resume, differences: &mut Vec<String>) {
        match &self.reply {
            Some(reply) => {
                let result = resume.resume(Json::trusted(reply), self.client).json;
                self.compare_error(&result, differences);
                self.compare_result(result.as_bytes(), differences);
            }
            None if self.result.is_some() => differences.push("result: the source was called, and the case gives no `reply` for it".into()),
            None => {}
        }
    }

    fn finished(&self, result: &[u8], differences: &mut Vec<String>) {
        if self.upstream.is_some() {
            differences.push("upstream: expected a call to a target, found a result without one".into());
        }
        if self.error.is_none() {
            return self.compare_result(result, differences);
        }
        self.compare_error(std::str::from_utf8(result).unwrap_or("{}"), differences);
    }

    /// A result that is to be an error has `isError`, and the words in one of its texts.
    fn compare_error(&self, result: &str, differences: &mut Vec<String>) {
        let Some(wanted) = &self.error else { return };
        let json = Json::trusted(result);
        let failed = json.get("isError").and_then(Json::bool) == Some(true);
        if !failed || !(contains(json.raw(), wanted) || contains(&strings(json), wanted)) {
            differences.push(format!("error: expected a refusal with \"{wanted}\", found the result {}", shortened(json.raw())));
        }
    }

    fn compare_result(&self, result: &[u8], differences: &mut Vec<String>) {
        let Ok(json) = check(result, &Limits { nodes: usize::MAX, ..Limits::REPLY }) else {
            return differences.push(format!("result: expected JSON, found {}", shortened(&String::from_utf8_lossy(result))));
        };
        if let Some(expected) = &self.result {
            compare_members("result", expected, &Tree::from(json), differences);
        }
        // Looked for in the strings too, as a reader would see them.
        let text = format!("{}\n{}", json.raw(), strings(json));
        for wanted in self.contains.iter().filter(|wanted| !text.contains(wanted.as_str())) {
            differences.push(format!("contains: expected \"{wanted}\" somewhere in {}", shortened(json.raw())));
        }
        for unwanted in self.lacks.iter().filter(|unwanted| text.contains(unwanted.as_str())) {
            differences.push(format!("lacks: expected \"{unwanted}\" nowhere, found it in {}", shortened(json.raw())));
        }
    }
}

/// Every string of a value after unescaping, a line each.
fn strings(json: Json<'_>) -> String {
    let mut found = String::new();
    let mut waiting = vec![json];
    while let Some(json) = waiting.pop() {
        if let Some(text) = json.string() {
            found.push_str(&text);
            found.push('\n');
        }
        waiting.extend(json.elements());
        for (key, value) in json.members() {
            found.push_str(&key.text());
            found.push('\n');
            waiting.push(value);
        }
    }
    found
}

/// Whether a message has the words, ignoring case.
fn contains(text: &str, words: &str) -> bool {
    text.to_lowercase().contains(&words.to_lowercase())
}

/// Every member that is expected must be equal; `absent` names members that must not be there.
fn compare_members(place: &str, expected: &Tree, found: &Tree, differences: &mut Vec<String>) {
    for (name, value) in expected.as_object().into_iter().flat_map(|members| members.iter()) {
        match (name, value.as_array()) {
            ("absent", Some(names)) => {
                for name in names.iter().filter_map(Tree::as_str) {
                    if let Some(value) = found.get(name) {
                        differences.push(format!("{place}.{name}: expected nothing, found {}", shortened(&value.to_string())));
                    }
                }
            }
            _ => compare(&format!("{place}.{name}"), Some(value), found.get(name), differences, DEPTH),
        }
    }
}

/// Numbers are compared by their spelling, objects without regard to order.
fn compare(place: &str, expected: Option<&Tree>, found: Option<&Tree>, differences: &mut Vec<String>, depth: usize) {
    if same(expected, found, DEPTH) || differences.len() > MOST_DIFFERENCES {
        return;
    }
    let below = depth.saturating_sub(1);
    match (expected, found) {
        (Some(Tree::Object(expected)), Some(Tree::Object(found))) if below > 0 => {
            for name in expected.keys().chain(found.keys().filter(|name| !expected.contains_key(name))) {
                compare(&format!("{place}.{name}"), expected.get(name), found.get(name), differences, below);
            }
        }
        (Some(Tree::Array(expected)), Some(Tree::Array(found))) if below > 0 => {
            for at in 0..expected.len().max(found.len()) {
                compare(&format!("{place}[{at}]"), expected.get(at), found.get(at), differences, below);
            }
        }
        _ => {
            let shown = |value: Option<&Tree>| value.map_or_else(|| "nothing".to_owned(), |value| shortened(&value.to_string()));
            differences.push(format!("{place}: expected {}, found {}", shown(expected), shown(found)));
        }
    }
}

/// Equal but for the order of members.
fn same(one: Option<&Tree>, other: Option<&Tree>, depth: usize) -> bool {
    let below = depth.saturating_sub(1);
    match (one, other) {
        (Some(Tree::Object(one)), Some(Tree::Object(other))) if below > 0 => {
            one.len() == other.len() && one.iter().all(|(name, value)| same(Some(value), other.get(name), below))
        }
        (Some(Tree::Array(one)), Some(Tree::Array(other))) if below > 0 => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(Some(one), Some(other), below))
        }
        _ => one == other,
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LONGEST_VALUE { text.to_owned() } else { text.chars().take(LONGEST_VALUE).chain(['…']).collect() }
}

/// Reads a test file and collects what cannot be understood.
struct Reader {
    faults: Vec<BadTest>,
}

impl Reader {
    fn fault(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.faults.push(BadTest { pointer: pointer.into(), message: message.into() });
    }

    fn suite(&mut self, file: &Tree) -> Suite {
        if file.as_object().is_none() {
            self.fault("", "a test file is an object with `registry` and `cases`");
        }
        self.known_keys(file, "", "a test file", FILE_KEYS);
        let registry = match file.get("registry") {
            // The document as a text: no path begins like that.
            Some(Tree::String(text)) if text.trim_start().starts_with('{') => Subject::Inline(text.clone()),
            Some(Tree::String(path)) => Subject::File(path.clone()),
            Some(document @ Tree::Object(_)) => Subject::Inline(document.to_string()),
            Some(_) => {
                self.fault("/registry", "`registry` is the path of a registry, or the document itself");
                Subject::Inline("{}".into())
            }
            None => {
                self.fault("", "the test file says no `registry`: a path, or the document itself");
                Subject::Inline("{}".into())
            }
        };
        let environment = Fake { variables: self.texts(file, "env"), files: self.texts(file, "files") };
        let catalog = self.catalog(file.get("catalog"));
        let options = file.get("options").map(|options| self.options(options)).unwrap_or_default();
        let cases = match file.get("cases") {
            Some(Tree::Array(cases)) => cases.iter().enumerate().map(|(index, case)| self.case(index, case)).collect(),
            _ => {
                self.fault("", "the test file says no `cases`: a list");
                Vec::new()
            }
        };
        Suite { registry, environment, catalog, options, cases }
    }

    fn known_keys(&mut self, value: &Tree, pointer: &str, what: &str, known: &[&str]) {
        for key in value.as_object().into_iter().flat_map(|members| members.keys()) {
            if known.contains(&key) || key.starts_with("$comment") || key.starts_with("x-") {
                continue;
            }
            let guess = did_you_mean(key, known.iter().copied());
            let next = guess.map_or_else(|| format!("it has {}", known.join(", ")), |guess| format!("did you mean `{guess}`?"));
            self.fault(format!("{pointer}/{}", escaped(key)), format!("`{key}` is no key of {what}; {next}"));
        }
    }

    /// A map of texts; numbers and booleans count as what they spell.
    fn texts(&mut self, file: &Tree, key: &str) -> HashMap<String, String> {
        let mut texts = HashMap::new();
        match file.get(key) {
            None | Some(Tree::Null) => {}
            Some(Tree::Object(members)) => {
                for (name, value) in members.iter() {
                    match value {
                        Tree::String(text) => drop(texts.insert(name.to_owned(), text.clone())),
                        Tree::Number(_) | Tree::Bool(_) => drop(texts.insert(name.to_owned(), value.to_string())),
                        _ => self.fault(format!("/{key}/{}", escaped(name)), format!("`{key}.{name}` is a text")),
                    }
                }
            }
            Some(_) => self.fault(format!("/{key}"), format!("`{key}` is a map of names to texts")),
        }
        texts
    }

    fn catalog(&mut self, catalog: Option<&Tree>) -> Catalog {
        let mut targets = Vec::new();
        let members = match catalog {
            None | Some(Tree::Null) => return Catalog { targets },
            Some(Tree::Object(members)) => members,
            Some(_) => {
                self.fault("/catalog", "`catalog` is a map of targets to lists of tools");
                return Catalog { targets };
            }
        };
        for (target, offered) in members.iter() {
            let pointer = format!("/catalog/{}", escaped(target));
            let mut tools = Vec::new();
            match offered {
                Tree::Array(definitions) => {
                    for (index, definition) in definitions.iter().enumerate() {
                        match SourceTool::read(&definition.to_string()) {
                            Ok(tool) => tools.push(Arc::new(tool)),
                            Err(why) => self.fault(format!("{pointer}/{index}"), format!("tool {index} of target `{target}` is not sound: {why}")),
                        }
                    }
                }
                // A target that is not connected.
                Tree::Null => {}
                _ => self.fault(&pointer, format!("target `{target}` has a list of tools, or `null` if it is not connected")),
            }
            targets.push(Offer { target: target.to_owned(), available: *offered != Tree::Null, tools });
        }
        Catalog { targets }
    }

    /// The same words as under `registry:` in the config.
    fn options(&mut self, tree: &Tree) -> Options {
        let mut options = Options::default();
        self.known_keys(tree, "/options", "`options`", OPTION_KEYS);
        options.strict = self.flag(tree.get("strict"), "/options/strict", false);
        match tree.get("unlisted").map(Tree::as_str) {
            None | Some(Some("show")) => {}
            Some(Some("hide")) => options.unlisted = Unlisted::Hide,
            Some(_) => self.fault("/options/unlisted", "`unlisted` is `show` or `hide`"),
        }
        match tree.get("jsonpath").map(Tree::as_str) {
            None | Some(Some("safe")) => {}
            Some(Some("full")) => options.full_jsonpath = true,
            Some(_) => self.fault("/options/jsonpath", "`jsonpath` is `full`, or is left out"),
        }
        if let Some(allow) = tree.pointer("/env/allow") {
            options.env_allow = Some(self.words(Some(allow), "/options/env/allow"));
        }
        if let Some(defaults) = tree.get("defaults") {
            options.settings = self.settings(defaults);
        }
        options
    }

    /// Read as if one tool said them, so that they mean the same.
    fn settings(&mut self, defaults: &Tree) -> Settings {
        self.known_keys(defaults, "/options/defaults", "`defaults`", SETTING_KEYS);
        let mut entry = defaults.clone();
        let Some(members) = entry.as_object_mut() else {
            self.fault("/options/defaults", "`defaults` is a map of settings");
            return Settings::default();
        };
        members.insert("name", Tree::from("all"));
        members.insert("source", Tree::from("all"));
        let text = format!(r#"{{"tools":[{entry}]}}"#);
        let mut problems = Vec::new();
        let settings = file::read(0, &text, &mut problems).and_then(|registry| Some(registry.tools.first()?.settings.clone()));
        for problem in problems.into_iter().filter(Problem::is_error) {
            self.fault("/options/defaults", problem.message);
        }
        settings.unwrap_or_default()
    }

    fn case(&mut self, index: usize, case: &Tree) -> Case {
        let pointer = format!("/cases/{index}");
        let at = |key: &str| format!("{pointer}/{key}");
        self.known_keys(case, &pointer, "a case", CASE_KEYS);
        let name = case.get("name").and_then(Tree::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            self.fault(&pointer, "a case needs a `name` that says what it shows");
        }
        if !["list", "call", "quarantined", "warnings", "errors"].iter().any(|key| case.get(key).is_some()) {
            self.fault(&pointer, format!("case `{name}` checks nothing; it needs `list` or `call`"));
        }
        if case.get("call").is_none()
            && let Some(key) = ["client", "upstream", "reply", "result", "contains", "lacks", "error"].iter().find(|key| case.get(key).is_some())
        {
            self.fault(at(key), format!("`{key}` belongs to a `call`, and case `{name}` has none"));
        }
        let list = match case.get("list") {
            None => None,
            Some(Tree::Array(tools)) if tools.iter().all(|tool| tool.get("name").and_then(Tree::as_str).is_some()) => Some(tools.clone()),
            Some(_) => {
                self.fault(at("list"), "`list` is a list of tools, each with its `name`");
                None
            }
        };
        Case {
            name,
            list,
            exact: self.flag(case.get("exact"), &at("exact"), true),
            quarantined: case.get("quarantined").map(|names| self.words(Some(names), &at("quarantined"))),
            warnings: self.words(case.get("warnings"), &at("warnings")),
            errors: self.words(case.get("errors"), &at("errors")),
            call: case.get("call").map(|call| self.call(&pointer, call, case)),
        }
    }

    fn call(&mut self, pointer: &str, call: &Tree, case: &Tree) -> Call {
        let at = |key: &str| format!("{pointer}/{key}");
        self.known_keys(call, &at("call"), "a call", &["tool", "arguments", "json"]);
        let tool = call.get("tool").and_then(Tree::as_str).unwrap_or_default().to_owned();
        if call.get("tool").and_then(Tree::as_str).is_none() {
            self.fault(at("call"), "a call needs the name of a `tool`");
        }
        let arguments = match call.get("json") {
            None => call.get("arguments").map(Tree::to_string),
            Some(Tree::String(text)) => Some(text.clone()),
            Some(_) => {
                self.fault(at("call/json"), "`json` holds the arguments as a text");
                None
            }
        };
        let client = match case.get("client").map(Tree::as_str) {
            None | Some(Some("modern")) => ClientEra::Modern,
            Some(Some("legacy")) => ClientEra::Legacy,
            Some(_) => {
                self.fault(at("client"), "`client` is `modern` or `legacy`");
                ClientEra::Modern
            }
        };
        let upstream = self.object(case.get("upstream"), &at("upstream"));
        if let Some(upstream) = &upstream {
            self.known_keys(upstream, &at("upstream"), "`upstream`", &["target", "tool", "arguments"]);
        }
        let error = match case.get("error") {
            None => None,
            Some(Tree::String(text)) => Some(text.clone()),
            Some(_) => {
                self.fault(at("error"), "`error` is a part of the message");
                None
            }
        };
        Call {
            tool,
            arguments,
            client,
            upstream,
            reply: self.object(case.get("reply"), &at("reply")).map(|reply| reply.to_string()),
            result: self.object(case.get("result"), &at("result")),
            contains: self.words(case.get("contains"), &at("contains")),
            lacks: self.words(case.get("lacks"), &at("lacks")),
            error,
        }
    }

    fn object(&mut self, value: Option<&Tree>, pointer: &str) -> Option<Tree> {
        match value {
            Some(Tree::Null) => None,
            Some(value) if value.as_object().is_none() => {
                self.fault(pointer, "an object goes here");
                None
            }
            other => other.cloned(),
        }
    }

    fn flag(&mut self, value: Option<&Tree>, pointer: &str, otherwise: bool) -> bool {
        match value {
            None => otherwise,
            Some(Tree::Bool(value)) => *value,
            Some(_) => {
                self.fault(pointer, "`true` or `false` goes here");
                otherwise
            }
        }
    }

    fn words(&mut self, value: Option<&Tree>, pointer: &str) -> Vec<String> {
        let words = match value {
            None => return Vec::new(),
            Some(Tree::Array(words)) => words,
            Some(_) => {
                self.fault(pointer, "a list of texts goes here");
                return Vec::new();
            }
        };
        let text = |word: &Tree| match word {
            Tree::String(text) => Some(text.clone()),
            Tree::Number(_) | Tree::Bool(_) => Some(word.to_string()),
            _ => None,
        };
        let texts: Vec<String> = words.iter().filter_map(text).collect();
        if texts.len() < words.len() {
            self.fault(pointer, "a list of texts goes here");
        }
        texts
    }
}

/// A key as a step of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        Tree::from(check(text.as_bytes(), &Limits::REPLY).unwrap())
    }

    fn played(file: &str) -> Vec<Outcome> {
        let suite = Suite::read(&tree(file)).unwrap();
        let Subject::Inline(text) = &suite.registry else { panic!() };
        suite.run(Document { name: "inline", text }).unwrap()
    }

    fn differences(case: &str) -> String {
        let file = format!(
            r#"{{"registry":{{"tools":[{{"name":"v","source":{{"target":"t","tool":"s"}},"hideFields":["h"],"defaults":{{"h":30}}}},{{"name":"q","source":"lost"}}]}},
                "catalog":{{"t":[{{"name":"s","description":"d","inputSchema":{{"type":"object","properties":{{"a":{{}},"h":{{}}}}}}}}]}},
                "cases":[{case}]}}"#
        );
        let outcomes = played(&file);
        assert_eq!(outcomes[0].passed(), outcomes[0].differences.is_empty());
        outcomes[0].differences.join("\n")
    }

    #[test]
    fn what_is_as_expected_gives_no_difference() {
        for case in [
            r#"{"name":"c","list":[{"name":"v","description":"d","absent":["outputSchema"]}],"quarantined":["q"],"errors":["LOST"],"warnings":["unknown source"]}"#,
            r#"{"name":"c","list":[],"exact":false}"#,
            r#"{"name":"c","quarantined":["q","q"]}"#,
            r#"{"name":"c","call":{"tool":"v","arguments":{"a":[1.0]}},"upstream":{"arguments":{"h":30,"a":[1.0]},"tool":"s","target":"t"}}"#,
            r#"{"name":"c","call":{"tool":"v"},"reply":{"content":[],"x":{"b":1,"a":2}},"result":{"x":{"a":2,"b":1},"absent":["y"]},"contains":["content"],"lacks":["zzz"]}"#,
            r#"{"name":"c","call":{"tool":"s"},"upstream":null,"error":"TOOL not found"}"#,
            r#"{"name":"c","call":{"tool":"v","arguments":{"h":1}},"error":"unknown argument"}"#,
            r#"{"name":"c","call":{"tool":"v","arguments":{"h":1}},"result":{"isError":true}}"#,
            r#"{"name":"c","call":{"tool":"v"},"upstream":{"tool":"s"},"reply":{"content":[{"type":"text","text":"no \"key\""}],"isError":true},"error":"no \"KEY\""}"#,
            r#"{"name":"c","call":{"tool":"v","json":"{\"a\":1,\"a\":2}"},"error":"duplicate"}"#,
        ] {
            assert_eq!(differences(case), "", "{case}");
        }
    }

    #[test]
    fn what_is_not_is_told_with_its_place() {
        for (case, expected) in [
            (r#"{"name":"c","list":[]}"#, "list: expected [], found [v]"),
            (r#"{"name":"c","list":[{"name":"w"}],"exact":false}"#, "list.w: expected it to be listed, found no tool of that name"),
            (r#"{"name":"c","list":[{"name":"v","description":"x"}]}"#, r#"list.v.description: expected "x", found "d""#),
            (r#"{"name":"c","quarantined":["v","q"]}"#, "quarantined: expected `v` to be quarantined, found that it is not"),
            (
                r#"{"name":"c","quarantined":[]}"#,
                "quarantined: expected `q` to be fine, found it quarantined: tool `q` references unknown source `lost`",
            ),
            (
                r#"{"name":"c","list":[{"name":"q"}],"exact":false}"#,
                "list.q: expected it to be listed, found it quarantined: tool `q` references unknown source `lost`",
            ),
            (r#"{"name":"c","call":{"tool":"q"}}"#, "call: expected it to be made, found `q` quarantined: tool `q` references unknown source `lost`"),
            (
                r#"{"name":"c","warnings":["odd"]}"#,
                "warnings: expected one with \"odd\", found \n    tool `q` references unknown source `lost` a source is the name of a tool of this registry, or {\"target\": \"…\", \"tool\": \"…\"}",
            ),
            (
                r#"{"name":"c","errors":["odd"],"quarantined":["q"]}"#,
                "errors: expected one with \"odd\", found \n    tool `q` references unknown source `lost` a source is the name of a tool of this registry, or {\"target\": \"…\", \"tool\": \"…\"}",
            ),
            (
                r#"{"name":"c","call":{"tool":"v"},"upstream":{"target":"t","tool":"s","arguments":{"h":30.0,"a":1}}}"#,
                "upstream.arguments.h: expected 30.0, found 30\nupstream.arguments.a: expected 1, found nothing",
            ),
            (
                r#"{"name":"c","call":{"tool":"v"},"reply":{"content":[1,2]},"result":{"content":[1],"x":1,"absent":["content"]}}"#,
                "result.content[1]: expected nothing, found 2\nresult.x: expected 1, found nothing\nresult.content: expected nothing, found [1,2]",
            ),
            (
                r#"{"name":"c","call":{"tool":"v"},"error":"no"}"#,
                r#"error: expected a refusal with "no", found that s of target t was called with {"h":30}"#,
            ),
            (
                r#"{"name":"c","call":{"tool":"v"},"reply":{"content":[]},"error":"no"}"#,
                r#"error: expected a refusal with "no", found the result {"content":[]}"#,
            ),
            (r#"{"name":"c","call":{"tool":"w"},"upstream":{"target":"t"}}"#, "call: expected it to be made, found a refusal: Tool not found: w"),
            (r#"{"name":"c","call":{"tool":"v"},"result":{}}"#, "result: the source was called, and the case gives no `reply` for it"),
            (
                r#"{"name":"c","call":{"tool":"v"},"reply":{"a":"b\"c"},"lacks":["b\"c"]}"#,
                r#"lacks: expected "b"c" nowhere, found it in {"a":"b\"c"}"#,
            ),
        ] {
            assert_eq!(differences(case), expected, "{case}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_told_at_once_with_its_place() {
        let faults = Suite::read(&tree(
            r#"{"registri":1,"env":{"A":[]},"catalog":{"t":[{"name":7}],"u":3},"options":{"unlisted":"x","defaults":{"onMissing":"explode"}},
                "cases":[{"name":"a"},{"list":[{}]},{"name":"b","call":{},"error":7},{"name":"c","list":[],"reply":{}},{"name":"d","list":[],"lists":1}]}"#,
        ))
        .unwrap_err();
        let pointers: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(
            pointers,
            [
                "/registri",
                "",
                "/env/A",
                "/catalog/t/0",
                "/catalog/u",
                "/options/unlisted",
                "/options/defaults",
                "/cases/0",
                "/cases/1",
                "/cases/1/list",
                "/cases/2/call",
                "/cases/2/error",
                "/cases/3/reply",
                "/cases/4/lists",
            ]
        );
        assert!(faults[0].message.contains("did you mean `registry`?"), "{}", faults[0]);
        for bad in ["[]", "7", "{}"] {
            assert!(Suite::read(&tree(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_registry_may_be_a_path() {
        let suite = Suite::read(&tree(r#"{"registry":"registry.json","cases":[]}"#)).unwrap();
        assert_eq!(suite.registry, Subject::File("registry.json".into()));
        let inline = Suite::read(&tree(r#"{"registry":"\n{\"tools\": []}","cases":[]}"#)).unwrap();
        assert_eq!(inline.registry, Subject::Inline("\n{\"tools\": []}".into()));
        assert!(suite.is_empty());
        assert_eq!(suite.len(), 0);
    }
}
