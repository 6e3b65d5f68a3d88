//! Documents become a plan: on a thread of its own with a large stack, one after the other.
//!
//! What is compiled may come from anybody who can publish; no text of theirs may end the process or hold up a request.

use super::documents::{Documents, Fetched};
use super::{Loaded, Origin, Rejected};
use crate::aside;
use crate::config::{OwnTools, Reading, Surroundings};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use transom_registry::template::Environment;
use transom_registry::{Options, Plan, Problem, compile};

/// All that decides what the documents mean, besides their texts and the values behind placeholders.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Meaning {
    pub own: Option<Arc<OwnTools>>,
    pub reading: Reading,
    pub targets: Vec<String>,
    pub environment: Surroundings,
    pub allow_empty: bool,
}

/// One attempt to make documents a plan.
pub(super) struct Job {
    pub documents: Vec<Fetched>,
    pub meaning: Arc<Meaning>,
    pub origin: Origin,
    pub previous: Option<Arc<Loaded>>,
    /// Whoever holds it compiles.
    pub turn: Arc<Mutex<()>>,
    /// Later jobs have higher numbers.
    pub ticket: u64,
    pub salt: RandomState,
}

/// What came of it.
pub(super) enum Verdict {
    /// It means what the previous plan means.
    Same,
    /// It can go live.
    Fit(Box<Fit>),
    /// It cannot.
    Unfit(Rejected),
}

/// A plan that can go live.
pub(super) struct Fit {
    pub documents: Documents,
    pub meaning: Arc<Meaning>,
    pub origin: Origin,
    pub ticket: u64,
    pub digest: String,
    pub plan: Arc<Plan>,
    pub problems: Vec<String>,
    /// With those that are only counted.
    pub all_problems: usize,
    pub definitions: BTreeMap<String, u64>,
    pub readings: Readings,
}

impl Job {
    /// Does it on a thread of its own; the future may be dropped, the thread ends by itself.
    pub async fn run(self) -> Verdict {
        match aside::run("registry-compile", move || self.decide()).await {
            Ok(verdict) => verdict.unwrap_or_else(|| Verdict::Unfit(Rejected::broken())),
            Err(error) => Verdict::Unfit(Rejected::because(format!("the registry cannot be compiled: no thread for it: {error}"))),
        }
    }

    /// The same for a caller who can wait.
    pub fn run_blocking(self) -> Verdict {
        std::thread::scope(|scope| {
            match std::thread::Builder::new().name("registry-compile".into()).stack_size(aside::STACK).spawn_scoped(scope, move || self.decide()) {
                Ok(thread) => thread.join().unwrap_or_else(|_| Verdict::Unfit(Rejected::broken())),
                Err(error) => Verdict::Unfit(Rejected::because(format!("the registry cannot be compiled: no thread for it: {error}"))),
            }
        })
    }

    fn decide(self) -> Verdict {
        let turn = Arc::clone(&self.turn);
        let _serially = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let documents = Documents { own: self.meaning.own.clone(), fetched: self.documents };
        let digest = documents.digest();
        let environment = self.meaning.environment.get();
        if let Some(previous) = &self.previous
            && previous.digest == digest
            && *previous.meaning == *self.meaning
            && previous.readings.still_hold(environment, &self.salt)
        {
            return Verdict::Same;
        }
        let reader = Recorder { environment, salt: &self.salt, read: RefCell::default() };
        let options = options(&self.meaning);
        let compiled = match compile(&documents.to_read(), &reader, &options) {
            Ok(compiled) => compiled,
            Err(problems) => return Verdict::Unfit(rejected(&documents, &problems)),
        };
        // A rollback is somebody's decision; what a source says may be an accident.
        if self.origin == Origin::Source
            && !self.meaning.allow_empty
            && let Some(previous) = &self.previous
            && let Some(rejected) = emptied(&documents, previous)
        {
            return Verdict::Unfit(rejected);
        }
        Verdict::Fit(Box::new(Fit {
            all_problems: compiled.problems.len(),
            problems: documents.describe_all(compiled.problems.iter()),
            definitions: documents.definitions(),
            readings: Readings(reader.read.into_inner()),
            plan: Arc::new(compiled.plan),
            documents,
            meaning: self.meaning,
            origin: self.origin,
            ticket: self.ticket,
            digest,
        }))
    }
}

fn options(meaning: &Meaning) -> Options {
    let reading = meaning.reading.clone();
    Options {
        settings: reading.settings,
        strict: reading.strict,
        unlisted: reading.unlisted,
        full_jsonpath: reading.full_jsonpath,
        env_allow: reading.env_allow,
        targets: Some(meaning.targets.clone()),
        validate_all: reading.validate_all,
        ..Options::default()
    }
}

fn rejected(documents: &Documents, problems: &[Problem]) -> Rejected {
    let errors: Vec<&Problem> = problems.iter().filter(|problem| problem.is_error()).collect();
    let mut at_fault: Vec<usize> = errors.iter().filter_map(|problem| documents.published(problem.document)).collect();
    at_fault.dedup();
    Rejected { reasons: documents.describe_all(errors.into_iter()), at_fault }
}

/// An empty registry in the place of one that is not.
fn emptied(documents: &Documents, previous: &Loaded) -> Option<Rejected> {
    let had_tools = |name: &str| previous.documents.iter().any(|document| document.name == name && !document.is_empty());
    let emptied = documents.fetched.iter().position(|document| document.is_empty() && had_tools(&document.name));
    // Another source, and nothing in it: the same loss under another name.
    let all_empty = || documents.fetched.iter().all(Fetched::is_empty) && previous.documents.iter().any(|document| !document.is_empty());
    let at = emptied.or_else(|| (!documents.fetched.is_empty() && all_empty()).then_some(0))?;
    let name = documents.fetched.get(at).map_or("registry", |document| &document.name);
    let reason = format!("{name}:1:1: the registry is empty and would replace one that is not (set `registry.allowEmpty: true` if that is meant)");
    Some(Rejected { reasons: vec![reason], at_fault: vec![at] })
}

/// What the placeholders of a plan read. Values are kept as salted hashes only.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings(BTreeMap<Reference, u64>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reference {
    Variable(String),
    File(PathBuf),
}

impl Readings {
    /// Whether everything still says what it said.
    fn still_hold(&self, environment: &dyn Environment, salt: &RandomState) -> bool {
        self.0.iter().all(|(reference, value)| *value == look_up(reference, environment, salt).0)
    }

    /// The files behind `${file:…}`.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().filter_map(|reference| match reference {
            Reference::File(path) => Some(path.as_path()),
            Reference::Variable(_) => None,
        })
    }
}

fn look_up(reference: &Reference, environment: &dyn Environment, salt: &RandomState) -> (u64, Result<Option<String>, String>) {
    let value = match reference {
        Reference::Variable(name) => Ok(environment.variable(name)),
        Reference::File(path) => environment.file(path).map(Some),
    };
    (salt.hash_one(&value), value)
}

/// Remembers what was read.
struct Recorder<'e> {
    environment: &'e dyn Environment,
    salt: &'e RandomState,
    read: RefCell<BTreeMap<Reference, u64>>,
}

impl Recorder<'_> {
    fn read(&self, reference: Reference) -> Result<Option<String>, String> {
        let (hash, value) = look_up(&reference, self.environment, self.salt);
        self.read.borrow_mut().insert(reference, hash);
        value
    }
}

impl Environment for Recorder<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.read(Reference::Variable(name.to_owned())).ok().flatten()
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        self.read(Reference::File(path.to_owned())).map(Option::unwrap_or_default)
    }
}
