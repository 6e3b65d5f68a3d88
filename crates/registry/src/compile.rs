//! From what was written to what it means: documents and an environment become a [`Plan`].
//!
//! Everything that does not depend on what the targets offer is settled here, once: chains, named schemas, placeholders, field
//! paths, JSONPaths, settings. Problems are collected and cost only the tool they belong to. What a plan looks like over a
//! catalog is the business of [`list`](mod@crate::list).

use crate::file::{self, Document, OutputSchema, Place, Settings, Text, ToolSource, VirtualToolDef};
use crate::local::{self, Implementation};
use crate::mask::Mask;
use crate::name::{FieldPath, TargetName, ToolName};
use crate::path::Rules;
use crate::pin::Pin;
use crate::problem::{Code, GUESSES, Problem, Severity, did_you_mean};
use crate::result::{Projection, Shaping, advertised};
use crate::schema::{BadReference, Rename, resolve_named};
use crate::secret::Secret;
use crate::source::plain;
use crate::template::{self, BadPlaceholder, Environment, Fault};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use transom_json::{Json, Kind, Object, Tree};

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

/// What the documents mean, whatever the targets offer.
#[doc(alias = "CompiledRegistry")]
#[derive(Debug)]
pub struct Plan {
    pub(crate) tools: Vec<Arc<VirtualTool>>,
    pub(crate) quarantined: Vec<Quarantined>,
    by_name: HashMap<ToolName, usize>,
    sources: HashMap<TargetName, HashMap<ToolName, Standing>>,
    pub(crate) masks: HashMap<TargetName, Arc<Mask>>,
    /// What was compiled, so that problems found later have a place too.
    pub(crate) texts: Vec<Box<str>>,
    pub(crate) strict: bool,
    pub(crate) unlisted: Unlisted,
    pub(crate) validate_all: bool,
}

/// A virtual tool that is neither listed nor callable, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name, or its place in the document if it has none.
    pub name: String,
    /// The first error it had.
    pub reason: String,
}

/// Who stands on one source.
#[derive(Debug, Default)]
struct Standing {
    /// The virtual tools, in order.
    names: Vec<ToolName>,
    /// Whether somebody wants the source out of sight.
    withdrawn: bool,
}

/// One virtual tool, as meant.
#[derive(Debug)]
pub struct VirtualTool {
    pub(crate) name: ToolName,
    pub(crate) base: Base,
    pub(crate) parts: Parts,
    pub(crate) settings: Settings,
    pub(crate) projection: Option<Arc<Projection>>,
    version: Option<String>,
    tags: Vec<String>,
    metadata: Option<Tree>,
    depth: usize,
    pub(crate) spot: Spot,
}

/// What a virtual tool stands on in the end.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// A tool of a target.
    Source { target: TargetName, tool: ToolName },
    /// Nothing but itself.
    Local(Arc<Implementation>),
}

/// What a tool says and a tool that stands on it inherits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub title: Option<String>,
    pub description: Option<String>,
    /// As JSON.
    pub annotations: Option<String>,
    /// In exposed names, named schemas expanded.
    pub input_schema: Option<Arc<Tree>>,
    pub renames: Vec<Rename>,
    pub hidden: Vec<(FieldPath, Range<usize>)>,
    pub defaults: Vec<Filling>,
    pub output: Option<Arc<Output>>,
    pub pin: Option<Pin>,
}

/// The shape of results.
#[derive(Debug)]
pub(crate) struct Output {
    /// With paths, named schemas expanded.
    schema: Tree,
    /// As clients see it, as JSON.
    pub advertised: String,
}

/// A value for a field of the source.
#[derive(Clone)]
pub(crate) struct Filling {
    pub path: FieldPath,
    pub value: Arc<Tree>,
    /// Whether it came from the environment or a file and may be shown nowhere.
    pub secret: bool,
    /// Whether it was one placeholder and nothing else, and may become a number or a boolean.
    pub convertible: bool,
    pub at: Range<usize>,
    /// Whether it was said by this tool or by one that it stands on: places count in one entry only.
    pub own: bool,
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.secret { crate::secret::REDACTED.to_owned() } else { self.value.to_string() };
        write!(f, "{} = {value}", self.path)
    }
}

/// Where a tool stands, for problems that are found when its document is no longer at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spot {
    pub document: usize,
    index: usize,
    entry: Range<usize>,
    pub name: Range<usize>,
    pub source: Range<usize>,
    pub input_schema: Option<Range<usize>>,
    pub pin: Option<Range<usize>>,
}

impl VirtualTool {
    /// The name it is exposed under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The target and the source tool it stands on; a local tool has none.
    pub fn source(&self) -> Option<(&str, &str)> {
        match &self.base {
            Base::Source { target, tool } => Some((target, tool)),
            Base::Local(_) => None,
        }
    }

    /// The author's version of it.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Words for policies.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// What else the author keeps with it.
    pub fn metadata(&self) -> Option<&Tree> {
        self.metadata.as_ref()
    }

    /// The place that a value given by this tool itself, or else its source, has in the document.
    pub(crate) fn place_of(&self, path: &FieldPath) -> Range<usize> {
        let default = self.parts.defaults.iter().find(|filling| filling.own && filling.path == *path).map(|filling| &filling.at);
        default
            .or_else(|| self.parts.hidden.iter().find(|(hidden, at)| hidden == path && !at.is_empty()).map(|(_, at)| at))
            .unwrap_or(&self.spot.source)
            .clone()
    }
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
    let environment = Bounded { environment, allow: options.env_allow.as_deref(), refused: RefCell::default(), seen: RefCell::default() };
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

impl Plan {
    /// Whether some virtual tool stands on this source, quarantined ones included.
    pub fn is_virtualized(&self, target: &str, tool: &str) -> bool {
        self.standing(target, tool).is_some()
    }

    /// A virtual tool by its exposed name.
    pub fn get_tool(&self, name: &str) -> Option<&VirtualTool> {
        self.tools.get(*self.by_name.get(name)?).map(Arc::as_ref)
    }

    /// The same, to be kept.
    pub fn shared_tool(&self, name: &str) -> Option<Arc<VirtualTool>> {
        self.tools.get(*self.by_name.get(name)?).cloned()
    }

    /// All virtual tools that are not quarantined, in order.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &VirtualTool> {
        self.tools.iter().map(Arc::as_ref)
    }

    /// The virtual tools that stand on a source, in order; quarantined ones are not among them.
    pub fn names_of(&self, target: &str, tool: &str) -> &[ToolName] {
        self.standing(target, tool).map_or(&[], |standing| &standing.names)
    }

    /// The tools that have an error.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// Whether a tool of a target is exposed as it is: nothing stands on it that withdraws it, and the config shows such tools.
    pub fn passes(&self, target: &str, tool: &str) -> bool {
        self.unlisted == Unlisted::Show && !self.is_withdrawn(target, tool)
    }

    /// Whether the arguments of tools that pass through are validated here as well.
    pub fn validates_all(&self) -> bool {
        self.validate_all
    }

    /// Whether a source is out of sight because of a virtual tool.
    pub(crate) fn is_withdrawn(&self, target: &str, tool: &str) -> bool {
        self.standing(target, tool).is_some_and(|standing| standing.withdrawn)
    }

    fn standing(&self, target: &str, tool: &str) -> Option<&Standing> {
        self.sources.get(target)?.get(tool)
    }

    /// Where problems of a tool are to be shown.
    pub(crate) fn place(&self, tool: &VirtualTool) -> Place<'_> {
        let text = self.texts.get(tool.spot.document).map_or("", |text| text);
        let root = Json::trusted(text.get(tool.spot.entry.clone()).unwrap_or("null"));
        let base = format!("/tools/{}", tool.spot.index);
        Place { text, document: tool.spot.document, root, base, tool: Some(tool.name.to_string()) }
    }
}

/// A tool on its way: what it says itself.
struct Draft<'d> {
    def: &'d VirtualToolDef<'d>,
    place: Place<'d>,
    parts: Parts,
    base: Option<Base>,
    /// On how many other tools it stands.
    depth: usize,
    settings: Settings,
    /// The values it took from the environment or a file.
    secrets: Vec<Secret>,
    /// The first thing that is wrong with it.
    error: Option<String>,
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

/// Chains longer than this are no chains that anybody wrote by hand.
const CHAIN: usize = 64;
/// What all tools together may come to, in parts of schemas: a short text can refer to a long one very often.
const PARTS: usize = 2_000_000;
/// What a field costs, compared with a part of a schema.
const FIELD: usize = 4;

impl<'d> Compiler<'d, '_> {
    fn error(&mut self, draft: &mut Draft<'d>, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        draft.error.get_or_insert_with(|| message.clone());
        self.problems.push(draft.place.problem(Severity::Error, code, span, message, label, help));
    }

    fn warning(&mut self, draft: &Draft<'d>, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.problems.push(draft.place.problem(Severity::Warning, code, span, message, label, help));
    }

    /// What one entry says by itself.
    fn draft(&mut self, document: usize, def: &'d VirtualToolDef<'d>, schema_version: &str) -> Draft<'d> {
        let text = self.documents.get(document).map_or("", |document| document.text);
        let name = def.name.as_ref().map(|name| name.text.to_string());
        let place = Place { text, document, root: def.json, base: format!("/tools/{}", def.index), tool: name };
        let mut draft = Draft {
            def,
            place,
            parts: Parts::default(),
            base: None,
            depth: 0,
            settings: def.settings.clone(),
            secrets: Vec::new(),
            error: def.error.clone(),
        };
        let text = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.text.to_string());
        draft.parts.title = text(&def.title);
        draft.parts.description = text(&def.description);
        draft.parts.annotations = def.annotations.map(|annotations| annotations.raw().to_owned());
        draft.parts.input_schema = def.input_schema.and_then(|schema| self.input_schema(&mut draft, schema)).map(Arc::new);
        draft.parts.renames = def
            .arguments
            .iter()
            .map(|argument| Rename {
                exposed: argument.exposed.text.to_string(),
                source: argument.source.text.to_string(),
                description: text(&argument.description),
            })
            .collect();
        for field in &def.hide_fields {
            if let Some(path) = self.field(&mut draft, field) {
                draft.parts.hidden.push((path, field.at.clone()));
            }
        }
        for (field, value) in &def.defaults {
            self.default(&mut draft, field, *value);
        }
        if let Some(output) = &def.output {
            self.output(&mut draft, output);
        }
        if let Some(pin) = &def.expected_source_hash {
            match pin.text.parse() {
                Ok(hash) => draft.parts.pin = Some(hash),
                Err(bad) => {
                    let message = format!("{}: {bad}", subject(&draft));
                    self.error(&mut draft, Code::BadValue, pin.at.clone(), message, "not a hash", Some("`transom pin` writes them".into()));
                }
            }
        }
        self.base(&mut draft, schema_version);
        draft
    }

    /// A target's tool or an implementation; a chain is resolved when all tools are known.
    fn base(&mut self, draft: &mut Draft<'d>, schema_version: &str) {
        let def = draft.def;
        match &def.source {
            Some(ToolSource::Target { target, tool }) => {
                draft.base = Some(Base::Source { target: TargetName::new(&target.text), tool: ToolName::new(&tool.text) });
                if let Some(known) = &self.options.targets
                    && !known.iter().any(|each| *each == target.text)
                {
                    let message = format!("{} points at target `{}`, which is not configured", subject(draft), target.text);
                    let guess = did_you_mean(&target.text, known.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`? "));
                    let help = format!("{}configured targets: {}", guess.unwrap_or_default(), listed(known.iter().map(String::as_str)));
                    self.error(draft, Code::UnknownTarget, target.at.clone(), message, "no such target", Some(help));
                }
            }
            Some(ToolSource::Tool(_)) => {}
            None if def.implementation.is_some() => {
                let internal: Vec<&str> = self.options.internal.iter().map(String::as_str).collect();
                match Implementation::read(&Tree::from(def.json), schema_version, &internal) {
                    Ok(implementation) => draft.base = Some(Base::Local(Arc::new(implementation))),
                    Err(faults) => {
                        for fault in faults {
                            let value = at_pointer(def.json, fault.pointer);
                            let span = if fault.pointer.is_empty() { name_span(draft) } else { draft.place.span_of(value.raw()) };
                            // The refusal of HTTP is promised to the letter.
                            let message =
                                if fault.message == local::HTTP_REFUSED { fault.message } else { format!("{}: {}", subject(draft), fault.message) };
                            self.error(draft, Code::BadImplementation, span, message, "here", fault.help);
                        }
                    }
                }
            }
            None => {}
        }
    }

    /// R-002-3: the entry's own schema must be one.
    fn input_schema(&mut self, draft: &mut Draft<'d>, written: Json<'d>) -> Option<Tree> {
        let schema = self.expanded(draft, written, Tree::from(written))?;
        let dialect = schema.get("$schema").and_then(Tree::as_str);
        // A dialect we do not know cannot be judged; the target answers for it.
        if dialect.is_some_and(|dialect| !dialect.contains("json-schema.org")) {
            return Some(schema);
        }
        let text = schema.to_string();
        if let Err(fault) = jsonschema::meta::validate(&plain(Json::trusted(&text))) {
            let span = draft.place.span_of(at_pointer(written, &fault.instance_path().to_string()).raw());
            let (what, help) = if fault.instance_path().to_string().ends_with("/type") {
                (format!("{} is no type", fault.instance()), "one of object, array, string, number, integer, boolean, null, or a list of them")
            } else {
                (fault.to_string(), "schemas are written as in JSON Schema 2020-12, or in the dialect that `$schema` names")
            };
            let message = format!("{}: its input schema is not a JSON Schema: {what}", subject(draft));
            self.error(draft, Code::BadSchema, span, message, "not JSON Schema", Some(help.into()));
            return None;
        }
        Some(schema)
    }

    /// A schema with the named schemas in it written out.
    fn expanded(&mut self, draft: &mut Draft<'d>, written: Json<'d>, schema: Tree) -> Option<Tree> {
        // A schema without a reference is as it is; an escaped spelling of `$ref` has a backslash.
        if !written.raw().contains("$ref") && !written.raw().contains('\\') {
            return Some(schema);
        }
        let named = self.named.iter().map(|(name, schema)| (*name, schema)).collect();
        match resolve_named(&schema, &named) {
            Ok(schema) => {
                let at = draft.place.span_of(written.raw());
                self.afford(draft, parts_of(&schema), at).then_some(schema)
            }
            Err(bad) => {
                let span = match &bad {
                    BadReference::Invalid { reference } | BadReference::Missing { reference, .. } => reference_span(&draft.place, written, reference),
                    BadReference::TooLarge => None,
                };
                let span = span.unwrap_or_else(|| draft.place.span_of(written.raw()));
                let help = bad.help().or_else(|| {
                    // A map has no order of its own; a hint has to read the same every time.
                    let mut names: Vec<&str> = self.named.keys().copied().collect();
                    names.sort_unstable();
                    if names.is_empty() {
                        return Some("the registry has no `schemas`: give it some, each with a `name` and a `schema`".into());
                    }
                    Some(format!("named schemas: {}", listed(names.into_iter())))
                });
                self.error(draft, Code::BadReference, span, format!("{}: {bad}", subject(draft)), "leads nowhere", help);
                None
            }
        }
    }

    /// Takes from what all tools together may come to.
    fn afford(&mut self, draft: &mut Draft<'d>, parts: usize, at: Range<usize>) -> bool {
        match self.parts.checked_sub(parts) {
            Some(left) => {
                self.parts = left;
                true
            }
            None => {
                let message = format!("{}: with what it refers to, the registry is too large", subject(draft));
                self.error(draft, Code::TooLarge, at, message, "one too many", Some("refer to smaller schemas, or split the registry".into()));
                false
            }
        }
    }

    fn field(&mut self, draft: &mut Draft<'d>, field: &Text<'d>) -> Option<FieldPath> {
        match FieldPath::parse(&field.text) {
            Ok(path) => Some(path),
            Err(bad) => {
                let help = Some("fields are written `name`, `outer.inner` or `rows[].name`".into());
                self.error(draft, Code::BadField, field.at.clone(), format!("{}: {bad}", subject(draft)), "not a field", help);
                None
            }
        }
    }

    fn default(&mut self, draft: &mut Draft<'d>, field: &Text<'d>, written: Json<'d>) {
        let path = self.field(draft, field);
        let mut found = Found::default();
        // Most values have no `$` in any spelling.
        let plain = !written.raw().contains('$') && !written.raw().contains('\\');
        let value = if plain { Tree::from(written) } else { self.replaced(draft, written, &mut found) };
        let convertible = found.secret && written.string().is_some_and(|text| template::is_one_placeholder(&text));
        draft.secrets.append(&mut found.secrets);
        if let Some(path) = path {
            let at = draft.place.span_of(written.raw());
            draft.parts.defaults.push(Filling { path, value: Arc::new(value), secret: found.secret, convertible, at, own: true });
        }
    }

    /// A value with its placeholders replaced, in strings at any depth, never in keys.
    fn replaced(&mut self, draft: &mut Draft<'d>, written: Json<'d>, found: &mut Found) -> Tree {
        // As deep as the document, which is bounded.
        match written.kind() {
            Kind::Array => Tree::Array(written.elements().map(|element| self.replaced(draft, element, found)).collect()),
            Kind::Object => {
                let members: Vec<_> = written.members().map(|(key, value)| (key.text().into_owned(), self.replaced(draft, value, found))).collect();
                Tree::Object(members.into_iter().collect())
            }
            Kind::String => Tree::String(self.replaced_text(draft, written, found)),
            _ => Tree::from(written),
        }
    }

    fn replaced_text(&mut self, draft: &mut Draft<'d>, written: Json<'d>, found: &mut Found) -> String {
        let text = written.string().unwrap_or_default();
        let string = draft.place.span_of(written.raw());
        self.environment.forget();
        match template::expand(&text, &self.environment) {
            Ok(expanded) => {
                // D6: a default of its own is no excuse for asking for what may not be read.
                let refused: Vec<String> = self.environment.refused.borrow().clone();
                for name in refused {
                    let at = text.find(&name).map_or_else(|| string.clone(), |at| draft.place.inside(&string, &(at..at + name.len())));
                    let (message, label, help) = self.environment.explained(&Fault::Unset(name));
                    self.error(draft, Code::BadPlaceholder, at, format!("{}: {message}", subject(draft)), label, Some(help));
                }
                for at in &expanded.unclosed {
                    let span = draft.place.inside(&string, at);
                    let message = format!("{}: a placeholder is opened and never closed; it stays as it is written", subject(draft));
                    self.warning(draft, Code::BadPlaceholder, span, message, "never closed", Some("write `$${` if that is what you mean".into()));
                }
                if expanded.secret {
                    // The whole text is secret, and so is each value in it: a target may echo the one or the other.
                    found.secret = true;
                    found.secrets.push(Secret::new(expanded.text.as_str()));
                    found.secrets.append(&mut self.environment.seen.borrow_mut());
                }
                expanded.text
            }
            Err(faults) => {
                for BadPlaceholder { at, fault } in faults {
                    let span = draft.place.inside(&string, &at);
                    let (message, label, help) = self.environment.explained(&fault);
                    self.error(draft, Code::BadPlaceholder, span, format!("{}: {message}", subject(draft)), label, Some(help));
                }
                found.secret = true;
                String::new()
            }
        }
    }

    /// The shape of results, with `outputTransform.mappings` written into it.
    fn output(&mut self, draft: &mut Draft<'d>, written: &'d OutputSchema<'d>) {
        let schema = written.schema.map_or_else(Tree::object, Tree::from);
        let schema = match written.schema {
            Some(json) => self.expanded(draft, json, schema),
            None => Some(schema),
        };
        let Some(mut schema) = schema else { return };
        for field in &written.fields {
            let Some(object) = schema.as_object_mut() else { return };
            if !object.contains_key("properties") {
                object.insert("properties", Tree::object());
            }
            let Some(Tree::Object(properties)) = object.get_mut("properties") else { return };
            if !properties.contains_key(&field.name.text) {
                properties.insert(field.name.text.to_string(), Tree::object());
            }
            let Some(Tree::Object(property)) = properties.get_mut(&field.name.text) else { continue };
            add_rule(property, field.rule);
        }
        let advertised = advertised(&schema).to_string();
        draft.parts.output = Some(Arc::new(Output { schema, advertised }));
    }

    /// Resolves every chain. A tool that cannot be resolved has an error afterwards.
    fn resolve(&mut self, drafts: &mut [Draft<'d>], by_name: &HashMap<String, usize>) -> Vec<Option<Arc<VirtualTool>>> {
        let mut resolved: Vec<Option<Arc<VirtualTool>>> = drafts.iter().map(|_| None).collect();
        let mut done = vec![false; drafts.len()];
        for start in 0..drafts.len() {
            // From the tool down to the first that is settled or stands on no other, then back up.
            let mut chain = vec![start];
            let mut fault = None;
            while let Some(&at) = chain.last() {
                let Some(draft) = drafts.get(at) else { break };
                let Some(ToolSource::Tool(parent)) = &draft.def.source else { break };
                if done.get(at) == Some(&true) {
                    break;
                }
                fault = match by_name.get(&*parent.text) {
                    None => Some(ChainFault::Unknown),
                    Some(next) if chain.contains(next) => Some(ChainFault::Circular(*next)),
                    Some(_) if chain.len() >= CHAIN => Some(ChainFault::TooLong),
                    Some(next) => {
                        chain.push(*next);
                        continue;
                    }
                };
                break;
            }
            if let Some(fault) = fault {
                self.broken_chain(drafts, &chain, fault, by_name);
            }
            while let Some(at) = chain.pop() {
                if done.get(at) == Some(&true) {
                    continue;
                }
                let parent = drafts.get(at).and_then(|draft| match &draft.def.source {
                    Some(ToolSource::Tool(parent)) => by_name.get(&*parent.text).copied(),
                    _ => None,
                });
                let parent_tool = parent.and_then(|parent| resolved.get(parent).cloned().flatten());
                let Some(draft) = drafts.get_mut(at) else { continue };
                if let Some(flag) = done.get_mut(at) {
                    *flag = true;
                }
                let tool = self.finish(draft, parent_tool.as_deref());
                if let Some(slot) = resolved.get_mut(at) {
                    *slot = tool.map(Arc::new);
                }
            }
        }
        resolved
    }

    fn broken_chain(&mut self, drafts: &mut [Draft<'d>], chain: &[usize], fault: ChainFault, by_name: &HashMap<String, usize>) {
        let name = |at: usize| drafts.get(at).and_then(|draft| draft.def.name.as_ref()).map_or("", |name| &*name.text);
        let Some(&last) = chain.last() else { return };
        let around = match fault {
            ChainFault::Circular(back) => {
                let ring: Vec<&str> = chain.iter().skip_while(|at| **at != back).chain([&back]).map(|at| name(*at)).collect();
                ring.join(" → ")
            }
            _ => String::new(),
        };
        if let ChainFault::Circular(back) = fault {
            for at in chain.iter().skip_while(|at| **at != back) {
                let Some(draft) = drafts.get_mut(*at) else { continue };
                let Some(ToolSource::Tool(parent)) = &draft.def.source else { continue };
                let message = format!("{}: Circular source: {around}", subject(draft));
                let help = Some("one of them must stand on a target".into());
                self.error(draft, Code::CircularSource, parent.at.clone(), message, "comes back to itself", help);
            }
            return;
        }
        let Some(draft) = drafts.get_mut(last) else { return };
        let Some(ToolSource::Tool(parent)) = &draft.def.source else { return };
        let parent_name = parent.text.chars().take(128).collect::<String>();
        match fault {
            ChainFault::Unknown => {
                let message = format!("{} references unknown source `{parent_name}`", subject(draft));
                let guess = (self.problems.len() < GUESSES).then(|| did_you_mean(&parent.text, by_name.keys().map(String::as_str)));
                let help = match guess.flatten() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "a source is the name of a tool of this registry, or {\"target\": \"…\", \"tool\": \"…\"}".into(),
                };
                self.error(draft, Code::UnknownSource, parent.at.clone(), message, "no such tool", Some(help));
            }
            ChainFault::Circular(_) | ChainFault::TooLong => self.too_long(draft, parent.at.clone()),
        }
    }

    fn too_long(&mut self, draft: &mut Draft<'d>, at: Range<usize>) {
        let message = format!("{} stands on more than {CHAIN} others", subject(draft));
        self.error(draft, Code::TooLarge, at, message, "too long a chain", None);
    }

    /// A tool with all that it inherits; none if something is wrong with it.
    fn finish(&mut self, draft: &mut Draft<'d>, parent: Option<&VirtualTool>) -> Option<VirtualTool> {
        if let Some(ToolSource::Tool(name)) = &draft.def.source {
            match parent {
                Some(parent) if parent.depth + 1 >= CHAIN => self.too_long(draft, name.at.clone()),
                Some(parent) => {
                    draft.base = Some(parent.base.clone());
                    draft.depth = parent.depth + 1;
                    let fields = parent.parts.fields() + draft.parts.fields();
                    if fields > 3 * file::FIELDS {
                        let message = format!("{} speaks of more than {} fields, with those below it", subject(draft), 3 * file::FIELDS);
                        self.error(draft, Code::TooLarge, name.at.clone(), message, "too many fields", None);
                    } else if self.afford(draft, fields * FIELD, name.at.clone()) {
                        draft.parts = std::mem::take(&mut draft.parts).over(&parent.parts);
                    }
                    draft.settings = draft.settings.or(&parent.settings);
                }
                None if draft.error.is_none() => {
                    let message = format!("{} stands on `{}`, which has an error", subject(draft), name.text);
                    self.error(draft, Code::BrokenSource, name.at.clone(), message, "has an error", Some("mend that one first".into()));
                }
                None => {}
            }
        }
        draft.settings = draft.settings.or(&self.options.settings);
        let shaping = shaping(&draft.settings);
        let projection = match (&draft.parts.output, parent) {
            (None, _) => None,
            // What is inherited as it is was compiled before.
            (Some(_), Some(parent)) if draft.def.output.is_none() && shaping == self::shaping(&parent.settings) => parent.projection.clone(),
            (Some(output), _) => {
                let output = output.clone();
                self.projection(draft, &output, &shaping).map(Arc::new)
            }
        };
        if draft.error.is_some() {
            return None;
        }
        let def = draft.def;
        let name = def.name.as_ref()?;
        let span_of = |json: &Json<'_>| draft.place.span_of(json.raw());
        let spot = Spot {
            document: draft.place.document,
            index: def.index,
            entry: draft.place.span_of(def.json.raw()),
            name: name.at.clone(),
            source: def.json.get("source").as_ref().map_or_else(|| name.at.clone(), span_of),
            input_schema: def.input_schema.as_ref().map(span_of),
            pin: def.expected_source_hash.as_ref().map(|pin| pin.at.clone()),
        };
        Some(VirtualTool {
            name: ToolName::new(&name.text),
            base: draft.base.clone()?,
            parts: std::mem::take(&mut draft.parts),
            settings: std::mem::take(&mut draft.settings),
            projection,
            version: def.version.as_ref().map(|version| version.text.to_string()),
            tags: def.tags.iter().map(|tag| tag.text.to_string()).collect(),
            metadata: def.metadata.map(Tree::from),
            depth: draft.depth,
            spot,
        })
    }

    fn projection(&mut self, draft: &mut Draft<'d>, output: &Output, shaping: &Shaping) -> Option<Projection> {
        let rules = Rules { full: self.options.full_jsonpath };
        match Projection::compile(&output.schema, &rules, shaping) {
            Ok(projection) => projection,
            Err(faults) => {
                for fault in faults {
                    let span = output_span(draft, &fault.pointer, fault.at.as_ref());
                    let message = format!("{}: {}", subject(draft), fault.message);
                    self.error(draft, Code::BadPath, span, message, "here", fault.help);
                }
                None
            }
        }
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

enum ChainFault {
    Unknown,
    Circular(usize),
    TooLong,
}

/// What was found in one default.
#[derive(Default)]
struct Found {
    secret: bool,
    secrets: Vec<Secret>,
}

impl Parts {
    /// How many fields they speak of.
    fn fields(&self) -> usize {
        self.renames.len() + self.hidden.len() + self.defaults.len()
    }

    /// These over those of the tool below. The names of fields are those of the tool below; they become those of the source.
    fn over(self, below: &Parts) -> Parts {
        let at_source = |name: &str| below.renames.iter().find(|rename| rename.exposed == name).map_or(name, |rename| &rename.source).to_owned();
        let path_at_source = |path: &FieldPath| path.with_first(&at_source(path.first()));

        let input_schema = self.input_schema.or_else(|| {
            let inherited = below.input_schema.as_ref()?;
            let renamed = self.renames.iter().any(|rename| rename.exposed != rename.source);
            Some(if renamed { Arc::new(with_names(inherited, &self.renames)) } else { inherited.clone() })
        });
        let mut renames: Vec<Rename> = self.renames.into_iter().map(|rename| Rename { source: at_source(&rename.source), ..rename }).collect();
        let kept: Vec<Rename> = below.renames.iter().filter(|rename| !renames.iter().any(|own| own.source == rename.source)).cloned().collect();
        renames.extend(kept);

        let mut hidden: Vec<_> = self.hidden.iter().map(|(path, at)| (path_at_source(path), at.clone())).collect();
        for (path, _) in &below.hidden {
            if !hidden.iter().any(|(own, _)| own == path) {
                hidden.push((path.clone(), 0..0));
            }
        }
        let mut defaults: Vec<Filling> = self.defaults.into_iter().map(|own| Filling { path: path_at_source(&own.path), ..own }).collect();
        // Another value for a field replaces what was said about its parts too.
        let inherited = below.defaults.iter().filter(|filling| !defaults.iter().any(|own| filling.path.is_within(&own.path)));
        let inherited: Vec<Filling> = inherited.map(|filling| Filling { own: false, ..filling.clone() }).collect();
        defaults.extend(inherited);
        Parts {
            title: self.title.or_else(|| below.title.clone()),
            description: self.description.or_else(|| below.description.clone()),
            annotations: self.annotations.or_else(|| below.annotations.clone()),
            input_schema,
            renames,
            hidden,
            defaults,
            output: self.output.or_else(|| below.output.clone()),
            pin: self.pin.or(below.pin),
        }
    }
}

/// How many values a tree has. As deep as a document, which is bounded.
fn parts_of(tree: &Tree) -> usize {
    1 + match tree {
        Tree::Array(elements) => elements.iter().map(parts_of).sum(),
        Tree::Object(members) => members.values().map(parts_of).sum(),
        _ => 0,
    }
}

/// A schema in exposed names, with some of them changed: the names at its top, in all its branches. As deep as a document, which is
/// bounded.
fn with_names(schema: &Tree, renames: &[Rename]) -> Tree {
    let new = |name: &str| renames.iter().find(|rename| rename.source == name).map_or(name, |rename| &rename.exposed).to_owned();
    let new_names = |names: Vec<Tree>| names.into_iter().map(|name| name.as_str().map_or(name.clone(), |text| Tree::String(new(text)))).collect();
    let Tree::Object(members) = schema.clone() else { return schema.clone() };
    let renamed = members.into_iter().map(|(keyword, value)| {
        let value = match (keyword.as_str(), value) {
            ("properties", Tree::Object(properties)) => Tree::Object(properties.into_iter().map(|(name, value)| (new(&name), value)).collect()),
            ("required", Tree::Array(names)) => Tree::Array(new_names(names)),
            ("dependentRequired" | "dependentSchemas" | "dependencies", Tree::Object(dependencies)) => {
                let needs = |needs: Tree| match needs {
                    Tree::Array(names) => Tree::Array(new_names(names)),
                    schema => with_names(&schema, renames),
                };
                Tree::Object(dependencies.into_iter().map(|(name, value)| (new(&name), needs(value))).collect())
            }
            ("allOf" | "anyOf" | "oneOf", Tree::Array(branches)) => Tree::Array(branches.iter().map(|branch| with_names(branch, renames)).collect()),
            ("if" | "then" | "else" | "not", branch) => with_names(&branch, renames),
            (_, value) => value,
        };
        (keyword, value)
    });
    Tree::Object(renamed.collect())
}

/// `outputTransform.mappings.X` in the words of `outputSchema.properties.X`; what the schema says itself stays.
fn add_rule(property: &mut Object, rule: Json<'_>) {
    for (key, value) in rule.members() {
        let key = key.text();
        let key = if key == "path" { "sourceField" } else { &*key };
        if !property.contains_key(key) {
            property.insert(key, Tree::from(value));
        }
    }
}

fn shaping(settings: &Settings) -> Shaping {
    Shaping {
        on_missing: settings.on_missing.unwrap_or_default(),
        on_unshaped: settings.on_unshaped.unwrap_or_default(),
        errors: settings.errors.unwrap_or_default(),
        keep_content: settings.keep_content.unwrap_or_default(),
    }
}

/// The tool a message is about.
fn subject(draft: &Draft<'_>) -> String {
    match &draft.place.tool {
        Some(name) if name.len() <= 128 => format!("tool `{name}`"),
        _ => format!("the tool at `{}`", draft.place.base),
    }
}

fn name_span(draft: &Draft<'_>) -> Range<usize> {
    let start = draft.place.span_of(draft.def.json.raw()).start;
    draft.def.name.as_ref().map_or(start..start + 1, |name| name.at.clone())
}

/// A few names for a hint, in the order given.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", names.into_iter().take(20).collect::<Vec<_>>().join(", "))
}

/// The value a JSON pointer leads to, or the last on the way that is there.
fn at_pointer<'d>(json: Json<'d>, pointer: &str) -> Json<'d> {
    let mut value = json;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match value.kind() {
            Kind::Object => value.get(&step),
            Kind::Array => step.parse().ok().and_then(|index| value.elements().nth(index)),
            _ => None,
        };
        match next {
            Some(inner) => value = inner,
            None => break,
        }
    }
    value
}

/// The string that is this reference, somewhere in a schema.
fn reference_span(place: &Place<'_>, schema: Json<'_>, reference: &str) -> Option<Range<usize>> {
    // As deep as the document, which is bounded.
    match schema.kind() {
        Kind::Object => schema.members().find_map(|(key, value)| {
            let here = key.is("$ref") && value.string().is_some_and(|text| text == reference);
            if here { Some(place.span_of(value.raw())) } else { reference_span(place, value, reference) }
        }),
        Kind::Array => schema.elements().find_map(|element| reference_span(place, element, reference)),
        _ => None,
    }
}

/// The place of something in an output schema, whichever spelling it had.
fn output_span(draft: &Draft<'_>, pointer: &str, at: Option<&Range<usize>>) -> Range<usize> {
    let Some(output) = &draft.def.output else { return name_span(draft) };
    let mapped = pointer.strip_prefix("/properties/").and_then(|rest| {
        let (name, keyword) = rest.split_once('/')?;
        let field = output.fields.iter().find(|field| field.name.text == name.replace("~1", "/").replace("~0", "~").as_str())?;
        let keyword = keyword.strip_prefix("sourceField").map_or(keyword.to_owned(), |rest| format!("path{rest}"));
        let first = keyword.split('/').next().unwrap_or("");
        field.rule.get(first).map(|_| at_pointer(field.rule, &format!("/{keyword}")))
    });
    let value = mapped.or_else(|| output.schema.map(|schema| at_pointer(schema, pointer)));
    let Some(value) = value else { return name_span(draft) };
    let span = draft.place.span_of(value.raw());
    match at {
        Some(at) if value.kind() == Kind::String => draft.place.inside(&span, at),
        _ => span,
    }
}

/// The environment within the bounds of `registry.env.allow`, with an eye on what was read.
struct Bounded<'e> {
    environment: &'e dyn Environment,
    allow: Option<&'e [String]>,
    /// What was asked for and not allowed.
    refused: RefCell<Vec<String>>,
    /// The values that were given since somebody last looked.
    seen: RefCell<Vec<Secret>>,
}

const NOT_ALLOWED: &str = "no pattern of `registry.env.allow` admits it";

impl Environment for Bounded<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        if self.allow.is_some_and(|patterns| !patterns.iter().any(|pattern| matches(pattern, name))) {
            self.refused.borrow_mut().push(name.to_owned());
            return None;
        }
        let value = self.environment.variable(name)?;
        self.seen.borrow_mut().push(Secret::new(value.as_str()));
        Some(value)
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        let text = path.to_str().ok_or("its path is not UTF-8")?;
        let plain = text.starts_with('/') && !text.split('/').any(|step| matches!(step, "." | ".."));
        let admitted =
            self.allow.unwrap_or_default().iter().filter_map(|pattern| pattern.strip_prefix("file:")).any(|pattern| matches(pattern, text));
        if !plain || !admitted {
            return Err(NOT_ALLOWED.to_owned());
        }
        let content = self.environment.file(path)?;
        self.seen.borrow_mut().push(Secret::new(content.trim_end()));
        Ok(content)
    }
}

impl Bounded<'_> {
    /// Begins anew: what was asked for in one text says nothing about the next.
    fn forget(&self) {
        self.refused.borrow_mut().clear();
        self.seen.borrow_mut().clear();
    }

    /// What is wrong with a placeholder, what to write under it and what to do.
    fn explained(&self, fault: &Fault) -> (String, &'static str, String) {
        let refused = |name: &str| self.refused.borrow().iter().any(|each| each == name);
        match fault {
            Fault::Unset(name) | Fault::Required { name, .. } if refused(name) => {
                let help = format!("add `{name}` to `registry.env.allow` if this registry may read it");
                (format!("variable `{name}` may not be read: {NOT_ALLOWED}"), "not allowed", help)
            }
            Fault::Unset(name) => (fault.to_string(), "not set", format!("set `{name}`, or write `${{{name}:-default}}`")),
            Fault::Required { name, .. } => (fault.to_string(), "not set", format!("set `{name}`")),
            Fault::File { path, reason } if reason == NOT_ALLOWED => {
                (fault.to_string(), "not allowed", format!("add `file:{path}` to `registry.env.allow` if this registry may read it"))
            }
            Fault::File { .. } => (fault.to_string(), "cannot be read", "check that the file is there and can be read".into()),
            Fault::Empty | Fault::BadName(_) => {
                (fault.to_string(), "not a variable", "write `${NAME}` with letters, digits and `_`, or `$${` for the characters themselves".into())
            }
        }
    }
}

/// Whether a pattern with `*` and `?` is the whole text. Neither of them stands for a `/`.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Where the last star was and how much it took: the only point to come back to.
    let mut star: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(b'?') if byte != b'/' => (at, from) = (at + 1, from + 1),
            Some(&other) if other == byte && other != b'?' => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((place, taken)) if text.get(taken) != Some(&b'/') => {
                    star = Some((place, taken + 1));
                    (at, from) = (place + 1, taken + 1);
                }
                _ => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{compiled, compiled_with, registry, sent, source};
    use proptest::prelude::*;

    fn entry(members: &str) -> String {
        registry(&[&format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}},{members}}}"#)])
    }

    fn underlined(text: &str, problem: &Problem) -> String {
        text.get(problem.span.clone()).unwrap_or("?").to_owned()
    }

    // L17, R-003-44, R-003-47, E6, E14, E15, E17, P19, P20, S30, S37, S39: each mistake under the very characters
    #[test]
    fn every_mistake_is_underlined_where_it_stands() {
        for (members, code, place, pointer, message, help) in [
            (r#""defaults":{"a":"x ${MISSING} y"}"#, Code::BadPlaceholder, "${MISSING}", "/tools/0/defaults/a", "`MISSING` is not set", "MISSING:-"),
            (r#""defaults":{"a":{"b":["\u00e9${}"]}}"#, Code::BadPlaceholder, "${}", "/tools/0/defaults/a/b/0", "names no variable", "$${"),
            (r#""defaults":{"a":"${ A }"}"#, Code::BadPlaceholder, "${ A }", "/tools/0/defaults/a", "not the name of a variable", ""),
            (r#""defaults":{"a":"${MISSING:?ask ops}"}"#, Code::BadPlaceholder, "${MISSING:?ask ops}", "/tools/0/defaults/a", "ask ops", ""),
            (
                r#""defaults":{"a":"${file:/etc/passwd}"}"#,
                Code::BadPlaceholder,
                "${file:/etc/passwd}",
                "/tools/0/defaults/a",
                "allow",
                "registry.env.allow",
            ),
            (r#""defaults":{"a..b":1}"#, Code::BadField, r#""a..b""#, "/tools/0/defaults/a..b", "not a field", "rows[]"),
            (r#""hideFields":["ok","rows[]"]"#, Code::BadField, r#""rows[]""#, "/tools/0/hideFields/1", "not a field", ""),
            (r##""inputSchema":{"$ref":"#/schemas/Nope"}"##, Code::BadReference, r##""#/schemas/Nope""##, "/tools/0/inputSchema/$ref", "`Nope`", ""),
            (
                r##""outputSchema":{"properties":{"a":{"$ref":"#Nope"}}}"##,
                Code::BadReference,
                r##""#Nope""##,
                "/tools/0/outputSchema/properties/a/$ref",
                "`Nope`",
                "",
            ),
            (r#""expectedSourceHash":"sha256:12""#, Code::BadValue, r#""sha256:12""#, "/tools/0/expectedSourceHash", "not a hash", "transom pin"),
        ] {
            let text = entry(members);
            let compiled = compiled(&text);
            let [problem] = compiled.problems.as_slice() else { panic!("{members}: {:?}", compiled.problems) };
            assert_eq!((problem.code, problem.severity), (code, Severity::Error), "{problem:?}");
            assert_eq!(underlined(&text, problem), place, "{members}");
            assert_eq!(problem.pointer, pointer, "{members}");
            assert!(problem.message.contains("tool `t`") || code == Code::BadValue, "{problem:?}");
            assert!(problem.message.contains(message) && problem.help.as_deref().unwrap_or("").contains(help), "{problem:?}");
            assert_eq!(compiled.plan.quarantined(), [Quarantined { name: "t".into(), reason: problem.message.clone() }]);
            assert!(compiled.plan.get_tool("t").is_none());
        }
    }

    // operations.md 5: a bad JSONPath is underlined inside its string, in whichever spelling it was written
    #[test]
    fn a_bad_path_is_underlined_inside_its_string() {
        for members in [
            r#""outputSchema":{"properties":{"ok":{"sourceField":"$.a"},"a":{"sourceField":"$.items["}}}"#,
            r#""outputSchema":{"properties":{"a":{"source_field":"$.items["}}}"#,
            r#""outputTransform":{"mappings":{"a":{"path":"$.items["}}}"#,
            r#""outputSchema":{"properties":{"a":{"type":"string"}}},"outputTransform":{"mappings":{"a":{"path":"$.items["}}}"#,
        ] {
            let text = entry(members);
            let compiled = compiled(&text);
            let [problem] = compiled.problems.as_slice() else { panic!("{members}: {:?}", compiled.problems) };
            assert_eq!(problem.code, Code::BadPath);
            let string = text.find("$.items[").unwrap();
            assert!(problem.span.start >= string && problem.span.end <= string + "$.items[".len(), "{members}: {problem:?}");
            assert!(text.get(problem.span.clone()).is_some());
        }
    }

    // E15
    #[test]
    fn an_unclosed_placeholder_is_literal_with_a_warning() {
        let text = entry(r#""defaults":{"a":"x${KEY"}"#);
        let compiled = compiled(&text);
        let [problem] = compiled.problems.as_slice() else { panic!("{:?}", compiled.problems) };
        assert_eq!((problem.severity, underlined(&text, problem).as_str()), (Severity::Warning, "${"));
        assert_eq!(sent(&compiled.plan.bind(&source(r#"{"type":"object"}"#)), "t", "{}").as_deref(), Ok(r#"{"a":"x${KEY"}"#));
    }

    // E1, E3, E19, E22, D8: in values at any depth, never in keys, one pass
    #[test]
    fn placeholders_are_replaced_in_values_at_any_depth_and_once() {
        let text = entry(
            r#""defaults":{"a":{"${KEY}":["$<KEY>","${env.KEY}-${env:WORD}","$KEY","$${KEY}"]},"b":"${A_B}","c":"${NO:-${KEY}}","d":"${EMPTY:-x}"}"#,
        );
        let expected = r#"{"a":{"${KEY}":["k-1234567890","k-1234567890-abc","$KEY","${KEY}"]},"b":"${KEY}","c":"${KEY}","d":""}"#;
        assert_eq!(sent(&compiled(&text).plan.bind(&source(r#"{"type":"object"}"#)), "t", "{}").as_deref(), Ok(expected));
    }

    // D6
    #[test]
    fn a_registry_reads_what_it_is_allowed_to_read() {
        let allow = |patterns: &[&str]| Options { env_allow: Some(patterns.iter().map(|each| (*each).to_owned()).collect()), ..Options::default() };
        for (value, patterns, allowed) in [
            ("${KEY}", &["KEY"][..], true),
            ("${KEY}", &["K*"], true),
            ("${KEY}", &["*"], true),
            ("${KEY}", &["KE?"], true),
            ("${KEY}", &["KEYS", "EY"], false),
            ("${KEY:-fallback}", &["WORD"], false),
            ("${KEY}", &[], false),
            ("${file:/run/secrets/token}", &["file:/run/secrets/*"], true),
            ("${file:/run/secrets/token}", &["file:/run/*"], false),
            ("${file:/run/secrets/../secrets/token}", &["file:/run/secrets/*", "file:/run/secrets/../secrets/token"], false),
            ("${file:/run/secrets/token}", &["*"], false),
        ] {
            let compiled = compiled_with(&entry(&format!(r#""defaults":{{"a":"{value}"}}"#)), &allow(patterns)).unwrap();
            assert_eq!(compiled.plan.get_tool("t").is_some(), allowed, "{value} {patterns:?}: {:?}", compiled.problems);
            if !allowed {
                assert!(compiled.problems[0].message.contains("registry.env.allow"), "{:?}", compiled.problems);
            }
        }
    }

    // operations.md 5
    #[test]
    fn a_target_that_is_not_configured_is_named_with_the_ones_that_are() {
        let text = registry(&[r#"{"name":"get_weather","source":{"target":"wether","tool":"s"}}"#]);
        let options = Options { targets: Some(vec!["weather".into(), "tickets".into()]), ..Options::default() };
        let compiled = compiled_with(&text, &options).unwrap();
        let problem = &compiled.problems[0];
        assert_eq!(problem.message, "tool `get_weather` points at target `wether`, which is not configured");
        assert_eq!(problem.help.as_deref(), Some("did you mean `weather`? configured targets: weather, tickets"));
        assert_eq!((underlined(&text, problem).as_str(), problem.label.as_str()), ("\"wether\"", "no such target"));
    }

    // S24 to S30: chains
    #[test]
    fn chains_inherit_and_broken_ones_cost_only_those_on_them() {
        let text = registry(&[
            r#"{"name":"top","source":"middle","defaults":{"c":3,"a":"child"},"hideFields":["z"],"description":"Top"}"#,
            r#"{"name":"middle","source":"base","defaults":{"b":2},"hideFields":["y"]}"#,
            r#"{"name":"base","source":{"target":"w","tool":"s"},"defaults":{"a":1},"hideFields":["x"],"title":"Base"}"#,
            r#"{"name":"loop_a","source":"loop_b"}"#,
            r#"{"name":"loop_b","source":"loop_a"}"#,
            r#"{"name":"on_loop","source":"loop_a"}"#,
            r#"{"name":"self","source":"self"}"#,
            r#"{"name":"lost","source":"bas"}"#,
        ]);
        let compiled = compiled(&text);
        assert_eq!(compiled.plan.names_of("w", "s").iter().map(|name| &**name).collect::<Vec<_>>(), ["top", "middle", "base"]);
        let schema = r#"{"type":"object","properties":{"a":{},"b":{},"c":{},"x":{},"y":{},"z":{},"v":{}}}"#;
        let tools = compiled.plan.bind(&source(schema));
        assert_eq!(sent(&tools, "top", "{}").as_deref(), Ok(r#"{"c":3,"a":"child","b":2}"#));
        assert_eq!(sent(&tools, "middle", r#"{"v":0}"#).as_deref(), Ok(r#"{"v":0,"b":2,"a":1}"#));
        for hidden in ["x", "y", "z"] {
            assert!(sent(&tools, "top", &format!(r#"{{"{hidden}":1}}"#)).is_err());
        }
        let message = |name: &str| {
            compiled.problems.iter().find(|problem| problem.tool.as_deref() == Some(name)).map(|problem| problem.message.clone()).unwrap()
        };
        assert!(message("loop_a").contains("Circular source: loop_a → loop_b → loop_a"), "{}", message("loop_a"));
        assert!(message("loop_b").contains("Circular") && message("self").contains("Circular"));
        assert!(message("on_loop").contains("`loop_a`, which has an error"));
        assert!(message("lost").contains("references unknown source `bas`"));
        let lost = compiled.problems.iter().find(|problem| problem.tool.as_deref() == Some("lost")).unwrap();
        assert_eq!((lost.help.as_deref(), underlined(&text, lost).as_str()), (Some("did you mean `base`?"), "\"bas\""));
    }

    #[test]
    fn a_tool_on_a_renaming_one_speaks_its_names() {
        let text = registry(&[
            r#"{"name":"base","source":{"target":"w","tool":"s"},"arguments":{"city":{"source":"location"}},"inputSchema":{"type":"object","properties":{"city":{"type":"string"},"n":{}},"required":["city"]}}"#,
            r#"{"name":"hiding","source":"base","hideFields":["city"],"defaults":{"city":"Oslo"}}"#,
            r#"{"name":"renaming","source":"base","arguments":{"town":{"source":"city"}}}"#,
        ]);
        let tools =
            compiled(&text).plan.bind(&source(r#"{"type":"object","properties":{"location":{"type":"string"},"n":{}},"required":["location"]}"#));
        assert_eq!(sent(&tools, "base", r#"{"city":"Rome"}"#).as_deref(), Ok(r#"{"location":"Rome"}"#));
        assert_eq!(sent(&tools, "hiding", r#"{"n":1}"#).as_deref(), Ok(r#"{"n":1,"location":"Oslo"}"#));
        assert_eq!(sent(&tools, "renaming", r#"{"town":"Rome"}"#).as_deref(), Ok(r#"{"location":"Rome"}"#));
        assert!(sent(&tools, "renaming", r#"{"city":"Rome"}"#).is_err());
    }

    #[test]
    fn a_chain_of_thousands_is_an_error_and_not_a_stack() {
        let entries: Vec<String> = (0..5000).map(|n| format!(r#"{{"name":"t{n}","source":"t{}"}}"#, n + 1)).collect();
        let last = r#"{"name":"t5000","source":{"target":"w"}}"#.to_owned();
        let text = format!(r#"{{"tools":[{},{last}]}}"#, entries.join(","));
        let compiled = compiled(&text);
        assert!(compiled.problems.iter().any(|problem| problem.code == Code::TooLarge));
        assert!(compiled.plan.get_tool("t5000").is_some());
    }

    // L16, R-002-2
    #[test]
    fn of_two_equal_names_the_first_wins_across_documents_too() {
        let one = registry(&[r#"{"name":"t","source":{"target":"w","tool":"a"}}"#]);
        let two = registry(&[r#"{"name":"t","source":{"target":"w","tool":"b"}}"#, r#"{"name":"u","source":"t"}"#]);
        let documents = [Document { name: "config.yaml", text: &one }, Document { name: "registry.json", text: &two }];
        let compiled = compile(&documents, &crate::testing::World, &Options::default()).unwrap();
        assert_eq!(compiled.plan.get_tool("t").and_then(VirtualTool::source), Some(("w", "a")));
        assert_eq!(compiled.plan.get_tool("u").and_then(VirtualTool::source), Some(("w", "a")));
        let [problem] = compiled.problems.as_slice() else { panic!("{:?}", compiled.problems) };
        assert_eq!((problem.code, problem.document, problem.pointer.as_str()), (Code::DuplicateName, 1, "/tools/0/name"));
        // The source of the second is withdrawn all the same.
        assert!(compiled.plan.is_virtualized("w", "b") && compiled.plan.is_withdrawn("w", "b"));
    }

    // R-002-4, R-003-16, R-003-17, R-003-18, R-003-19, R-003-22
    #[test]
    fn a_plan_answers_by_name_and_by_source() {
        let compiled = compiled(&registry(&[
            r#"{"name":"metric","source":{"target":"w","tool":"s"},"version":"2.1.0","tags":["public"],"metadata":{"n":1.0}}"#,
            r#"{"name":"imperial","source":{"target":"w","tool":"s"}}"#,
        ]));
        let tool = compiled.plan.get_tool("metric").unwrap();
        assert_eq!(
            (tool.version(), tool.tags(), tool.metadata().map(Tree::to_string)),
            (Some("2.1.0"), &["public".to_owned()][..], Some(r#"{"n":1.0}"#.into()))
        );
        assert_eq!(compiled.plan.names_of("w", "s"), ["metric", "imperial"]);
        assert!(compiled.plan.is_virtualized("w", "s") && !compiled.plan.is_virtualized("w", "other") && !compiled.plan.is_virtualized("x", "s"));
        assert!(compiled.plan.get_tool("none").is_none());
    }

    // registry.md 2, R-002-16
    #[test]
    fn strict_makes_every_error_fatal_and_without_it_the_rest_goes_live() {
        let text = registry(&[
            r#"{"name":"good","source":{"target":"w"}}"#,
            r#"{"name":"h","description":"d","parameters":{"type":"object"},"implementation":{"type":"http"}}"#,
        ]);
        let compiled = compiled(&text);
        assert!(compiled.plan.get_tool("good").is_some());
        assert_eq!(compiled.plan.quarantined()[0].reason, "HTTP tools not yet supported (coming in v2)");
        assert!(compiled_with(&text, &Options { strict: true, ..Options::default() }).is_err());
    }

    #[test]
    fn all_problems_come_at_once_in_the_order_of_the_text() {
        let text = registry(&[
            r#"{"name":"a","source":{"target":"w"},"titel":"x","defaults":{"k":"${MISSING}"}}"#,
            r#"{"name":"b","source":"nowhere"}"#,
            r#"{"source":{"target":"w"}}"#,
            r#"{"name":"c","source":{"target":"w"},"outputSchema":{"properties":{"x":{"sourceField":"a"}}},"hideFields":7}"#,
        ]);
        let codes: Vec<_> = compiled(&text).problems.iter().map(|problem| problem.code).collect();
        use Code::*;
        assert_eq!(codes, [UnknownKey, BadPlaceholder, UnknownSource, MissingKey, BadPath, BadValue]);
    }

    #[test]
    fn patterns_are_whole_and_stop_at_slashes() {
        for (pattern, text, expected) in [
            ("*", "ABC", true),
            ("A*C", "ABBC", true),
            ("A*C", "ABCD", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("**", "a", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/*/c", "/a/b/c", true),
            ("?", "/", false),
            ("A?C", "ABC", true),
            ("a*b*c", "axxbxxbc", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!matches(&"*a".repeat(50), &"b".repeat(10_000)));
    }

    proptest! {
        // Whatever the document, compiling ends with a plan or with problems; and every problem has a place in the text.
        #[test]
        fn compiling_never_panics(text in document()) {
            let problems = match compiled_with(&text, &Options::default()) {
                Ok(compiled) => {
                    let tools = compiled.plan.bind(&source(r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#));
                    compiled.problems.into_iter().chain(tools.problems().iter().cloned()).collect()
                }
                Err(problems) => problems,
            };
            for problem in problems {
                prop_assert!(text.get(problem.span.clone()).is_some(), "{problem:?}");
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = compiled_with(&text, &Options::default());
        }
    }

    /// Documents made of the words that mean something, in places where they may not.
    fn document() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "name",
            "source",
            "target",
            "tool",
            "tools",
            "defaults",
            "hideFields",
            "arguments",
            "inputSchema",
            "outputSchema",
            "properties",
            "sourceField",
            "type",
            "object",
            "w",
            "s",
            "a",
            "a.b",
            "rows[].x",
            "${KEY}",
            "${",
            "$.a",
            "$..a[?@.b]",
            "#/schemas/N",
            "$ref",
            "schemas",
            "implementation",
            "mock",
            "handler",
            "builtin",
            "items",
            "required",
            "onMissing",
            "null",
            "é\u{1F600}",
            "\"\\\n",
        ]);
        let leaf =
            prop_oneof![word.clone().prop_map(Tree::from), Just(Tree::Null), any::<bool>().prop_map(Tree::from), Just(Tree::Number("1e400".into()))];
        let key = word;
        let value = leaf.prop_recursive(6, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::Array),
                prop::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|members| Tree::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
            ]
        });
        let tool = value.clone().prop_map(|extra| {
            let mut tool: Object = [("name".to_owned(), Tree::from("t"))].into_iter().collect();
            if let Tree::Object(members) = extra {
                members.into_iter().for_each(|(key, value)| tool.insert(key, value));
            }
            Tree::Object(tool)
        });
        (prop::collection::vec(tool, 0..4), value).prop_map(|(tools, schemas)| {
            Tree::Object([("tools".to_owned(), Tree::Array(tools)), ("schemas".to_owned(), schemas)].into_iter().collect()).to_string()
        })
    }
}
