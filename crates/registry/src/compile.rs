//! From what was written to what it means: documents and an environment become a [`Plan`].
//!
//! Everything that does not depend on what the targets offer is settled here, once: chains, named schemas, placeholders, field
//! paths, JSONPaths, settings. Problems are collected and cost only the tool they belong to. What a plan looks like over a
//! catalog is the business of [`list`](mod@crate::list).

mod bounded;
mod chain;
mod draft;
mod plan;
#[cfg(test)]
mod tests;

use self::bounded::Bounded;
use self::draft::Draft;
pub(crate) use self::plan::{Base, Filling};
pub use self::plan::{Plan, Quarantined, VirtualTool};
use crate::file::{self, Document, Place, Settings, ToolSource};
use crate::local;
use crate::mask::Mask;
use crate::name::TargetName;
use crate::problem::{Code, Problem, Severity};
use crate::secret::Secret;
use crate::template::Environment;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use transom_json::{Json, Tree};

/// What the config says about all registries.
#[derive(Clone, Debug)]
pub struct Options {
    /// What holds for a tool that says nothing else (`registry.defaults`).
    pub settings: Settings,
    /// Whether every error is fatal, and an override that the source cannot accept an error.
    pub strict: bool,
    /// What becomes of tools that the registry does not mention.
    pub unlisted: Unlisted,
    /// Whether the bans on costly JSONPaths are lifted (`registry.jsonpath: full`).
    pub full_jsonpath: bool,
    /// What placeholders may read (`registry.env.allow`): patterns of variable names, and of files as `file:/path/*`.
    /// `None`: every variable, no file.
    pub env_allow: Option<Vec<String>>,
    /// The targets of the config, if they are known.
    pub targets: Option<Vec<String>>,
    /// The gateway's own handlers, for `implementation.type: internal`.
    pub internal: Vec<String>,
    /// Whether the arguments of tools that pass through are validated as well (`validation: all`).
    pub validate_all: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            settings: Settings::default(),
            strict: false,
            unlisted: Unlisted::Show,
            full_jsonpath: false,
            env_allow: None,
            targets: None,
            internal: local::INTERNAL.map(str::to_owned).to_vec(),
            validate_all: false,
        }
    }
}

/// What becomes of tools that the registry does not mention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unlisted {
    /// They pass through unchanged.
    #[default]
    Show,
    /// Only virtual tools are exposed.
    Hide,
}

/// A plan, and what was wrong on the way to it.
#[derive(Debug)]
pub struct Compiled {
    /// What goes live.
    pub plan: Plan,
    /// Every problem, in the order of the documents. Tools with an error are quarantined in the plan.
    pub problems: Vec<Problem>,
}

/// Compiles documents, in order: of two tools with one name the first wins.
///
/// Fails only if a document is no registry at all, or with [`Options::strict`] on any error.
pub fn compile(documents: &[Document<'_>], environment: &dyn Environment, options: &Options) -> Result<Compiled, Vec<Problem>> {
    let mut problems = Vec::new();
    let registries: Vec<_> = documents.iter().enumerate().map(|(at, document)| file::read(at, document.text, &mut problems)).collect();
    let Some(registries) = registries.into_iter().collect::<Option<Vec<_>>>() else { return Err(in_order(problems)) };

    let mut named: HashMap<&str, Tree> = HashMap::new();
    for schema in registries.iter().flat_map(|registry| &registry.schemas) {
        named.entry(&schema.name.text).or_insert_with(|| schema.tree());
    }
    let environment = Bounded::new(environment, options.env_allow.as_deref());
    let mut compiler = Compiler { documents, options, environment, named, problems, secrets: HashMap::new(), parts: PARTS };

    let mut drafts: Vec<Draft<'_>> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (document, registry) in registries.iter().enumerate() {
        for def in &registry.tools {
            let mut draft = compiler.draft(document, def, &registry.schema_version);
            if let Some(name) = &def.name {
                match by_name.entry(name.text.to_string()) {
                    std::collections::hash_map::Entry::Vacant(free) => {
                        free.insert(drafts.len());
                    }
                    std::collections::hash_map::Entry::Occupied(_) => {
                        let message = format!("tool `{}` is defined twice; the first one counts", name.text);
                        let help = Some("rename one of them, or remove it".to_owned());
                        compiler.error(&mut draft, Code::DuplicateName, name.at.clone(), message, "the second one", help);
                    }
                }
            }
            drafts.push(draft);
        }
    }
    let resolved = compiler.resolve(&mut drafts, &by_name);
    let mut plan = Plan {
        tools: Vec::with_capacity(drafts.len()),
        quarantined: Vec::new(),
        by_name: HashMap::new(),
        sources: HashMap::new(),
        masks: HashMap::new(),
        texts: documents.iter().map(|document| document.text.into()).collect(),
        strict: options.strict,
        unlisted: options.unlisted,
        validate_all: options.validate_all,
    };
    for (draft, tool) in drafts.into_iter().zip(resolved) {
        compiler.enter(draft, tool, &mut plan);
    }
    for (target, secrets) in &mut compiler.secrets {
        // Thousands of tools may share one key.
        secrets.sort_unstable_by(|one, other| one.expose().cmp(other.expose()));
        secrets.dedup();
        // A mask that cannot be built would let secrets through; one that hides nothing is never made.
        match Mask::new(&*secrets) {
            Ok(mask) => {
                plan.masks.insert(target.clone(), Arc::new(mask));
            }
            Err(_) => return Err(vec![too_many_secrets(documents, target)]),
        }
    }
    let problems = in_order(compiler.problems);
    if options.strict && problems.iter().any(Problem::is_error) {
        return Err(problems);
    }
    Ok(Compiled { plan, problems })
}

fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.document, problem.span.start));
    problems
}

struct Compiler<'d, 'e> {
    documents: &'d [Document<'d>],
    options: &'e Options,
    environment: Bounded<'e>,
    named: HashMap<&'d str, Tree>,
    problems: Vec<Problem>,
    secrets: HashMap<TargetName, Vec<Secret>>,
    /// What is left of [`PARTS`].
    parts: usize,
}

/// What all tools together may come to, in parts of schemas: a short text can refer to a long one very often.
const PARTS: usize = 2_000_000;

impl<'d> Compiler<'d, '_> {
    fn error(&mut self, draft: &mut Draft<'d>, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        draft.error.get_or_insert_with(|| message.clone());
        self.problems.push(draft.place.problem(Severity::Error, code, span, message, label, help));
    }

    fn warning(&mut self, draft: &Draft<'d>, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.problems.push(draft.place.problem(Severity::Warning, code, span, message, label, help));
    }

    /// Enters a tool, or its quarantine, into the plan. Its source is withdrawn either way.
    fn enter(&mut self, draft: Draft<'d>, tool: Option<Arc<VirtualTool>>, plan: &mut Plan) {
        let base = tool.as_ref().map(|tool| tool.base.clone()).or(draft.base);
        if let Some(Base::Source { target, tool: source }) = base {
            self.secrets.entry(target.clone()).or_default().extend(draft.secrets);
            let standing = plan.sources.entry(target).or_default().entry(source).or_default();
            // Who stands on another virtual tool has no say in what lies below that one.
            standing.withdrawn |= matches!(draft.def.source, Some(ToolSource::Target { .. })) && !draft.def.expose_source;
            if let Some(tool) = &tool {
                standing.names.push(tool.name.clone());
            }
        }
        match tool {
            Some(tool) => {
                plan.by_name.insert(tool.name.clone(), plan.tools.len());
                plan.tools.push(tool);
            }
            None => {
                let name = draft.place.tool.clone().unwrap_or_else(|| draft.place.base.clone());
                plan.quarantined.push(Quarantined { name, reason: draft.error.unwrap_or_default() });
            }
        }
    }
}

/// A mask that cannot be built must not be left out.
fn too_many_secrets(documents: &[Document<'_>], target: &str) -> Problem {
    let text = documents.first().map_or("", |document| document.text);
    let place = Place { text, document: 0, root: Json::trusted("{}"), base: String::new(), tool: None };
    let message = format!("the secrets for target `{target}` are too many or too long to be masked in its results");
    place.problem(Severity::Error, Code::TooLarge, 0..0, message, "", Some("use fewer or shorter values".into()))
}
