//! Calls: the caller's arguments become the source's arguments, or a refusal.
//!
//! Arguments are built, never merged: what callers may say is copied as they spelled it, what they may not say is refused, and
//! what the registry says is written in. The request is parsed once and written once. Which tool a name leads to is decided in
//! [`crate::list`]; what becomes of results in [`crate::result`].

use crate::compile::{Base, Filling, VirtualTool};
use crate::file::HiddenArguments;
use crate::list::{Bound, read_as};
use crate::local::{Given, Implementation};
use crate::loosen;
use crate::mask::Mask;
use crate::name::{self, FieldPath, TargetName, ToolName};
use crate::result::{Errors, Outcome, Projection, Shaped, failed};
use crate::schema::{Fields, Shown};
use crate::source::{ParamHeader, SourceTool, plain, plain_number};
use caseless::Caseless;
use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use transom_json::{Json, Key, Kind, Object, Tree, write};
use unicode_normalization::UnicodeNormalization;

/// What to do next for a call.
#[derive(Debug)]
pub enum Step {
    /// Call this source tool, then [`Resume::resume`] with its result.
    Call(SourceCall),
    /// Run this local tool, then [`Resume::resume`] with its result.
    Local(LocalCall),
    /// Nothing more: the result for the client.
    Done(Vec<u8>),
}

/// A call to a target.
pub struct SourceCall {
    /// The target.
    pub target: TargetName,
    /// The target's own name for the tool.
    pub tool: ToolName,
    /// The arguments: an object in JSON. It may hold secrets and belongs into the request, nowhere else.
    pub arguments: Vec<u8>,
    /// What becomes of the result.
    pub resume: Resume,
    source: Arc<SourceTool>,
}

impl SourceCall {
    /// The arguments, by the source's names, that travel as headers too.
    pub fn headers(&self) -> &[ParamHeader] {
        &self.source.headers
    }
}

impl fmt::Debug for SourceCall {
    /// Without the arguments: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceCall({}/{})", self.target, self.tool)
    }
}

/// A call to a tool that stands on no target.
pub struct LocalCall {
    /// The arguments: an object in JSON.
    pub arguments: Vec<u8>,
    /// What becomes of the result.
    pub resume: Resume,
    implementation: Arc<Implementation>,
}

impl LocalCall {
    /// The gateway's handler that has to answer, by name; otherwise [`LocalCall::answer`] does.
    pub fn handler(&self) -> Option<&str> {
        match &*self.implementation {
            Implementation::Internal(name) => Some(name),
            _ => None,
        }
    }

    /// The result, if this crate can give it: a `CallToolResult` in JSON.
    pub fn answer(&self, given: &Given) -> Option<Vec<u8>> {
        let arguments = std::str::from_utf8(&self.arguments).unwrap_or("{}");
        self.implementation.answer(Json::trusted(arguments), given)
    }
}

impl fmt::Debug for LocalCall {
    /// Without the arguments: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalCall({:?})", self.handler())
    }
}

/// What becomes of a result. It belongs to the generation that the call began with.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    projection: Option<Arc<Projection>>,
    errors: Errors,
    mask: Option<Arc<Mask>>,
}

/// Which shapes a client can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEra {
    /// `structuredContent` must be an object: a projected list is wrapped as `{"items": […]}`.
    Legacy,
    /// Any JSON value may be structured content.
    Modern,
}

/// A result for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'t> {
    /// The `CallToolResult`; borrowed if it is the source's, byte for byte.
    pub json: Cow<'t, str>,
    /// What was done to it.
    pub outcome: Outcome,
    /// Whether a secret stood in it.
    pub masked: bool,
}

impl Resume {
    /// For a tool that passes through: secrets that other tools sent to its target are masked all the same.
    pub(crate) fn passing(mask: Option<Arc<Mask>>) -> Resume {
        Resume { mask, ..Resume::default() }
    }

    pub(crate) fn of(bound: &Bound) -> Resume {
        Resume { projection: bound.tool.projection.clone(), errors: bound.tool.settings.errors.unwrap_or_default(), mask: bound.mask.clone() }
    }

    /// The result for the client, from the source's. The text must have passed [`transom_json::check`].
    #[doc(alias = "transform_output")]
    pub fn resume<'t>(&self, result: Json<'t>, client: ClientEra) -> Reply<'t> {
        let shaped = match &self.projection {
            Some(projection) => projection.apply(result, client == ClientEra::Legacy),
            None if result.get("isError").is_some_and(|error| error.raw() == "true") => failed(result, self.errors),
            None => Shaped { json: Cow::Borrowed(result.raw()), outcome: Outcome::Passed },
        };
        match self.mask.as_ref().and_then(|mask| mask.json(&shaped.json)) {
            Some(masked) => Reply { json: Cow::Owned(masked), outcome: shaped.outcome, masked: true },
            None => Reply { json: shaped.json, outcome: shaped.outcome, masked: false },
        }
    }
}

/// Why a call is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such tool, or none that this caller should know of: they look alike.
    UnknownTool,
    /// The tool is there, its target is not, or does not offer the source.
    Unavailable {
        /// The target.
        target: TargetName,
        /// The sentence for the caller.
        message: String,
    },
    /// The arguments cannot be accepted.
    Arguments {
        /// The `CallToolResult` with `isError` that says so.
        result: Vec<u8>,
        /// Every violation, one sentence each.
        violations: Vec<String>,
        /// The first reason, for the metric.
        reason: Rejected,
    },
}

/// Why arguments were refused, worst first. A closed set, so that it can be the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rejected {
    /// Not an object.
    NotAnObject,
    /// The same key twice.
    DuplicateKey,
    /// A key that some peer would take for a hidden field.
    Lookalike,
    /// A hidden field by its own name.
    HiddenArgument,
    /// A key that the schema does not allow.
    UnknownArgument,
    /// Any other violation of the schema.
    Invalid,
}

impl Rejected {
    /// Its word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Rejected::NotAnObject => "not_an_object",
            Rejected::DuplicateKey => "duplicate_key",
            Rejected::Lookalike => "hidden_arg_lookalike",
            Rejected::HiddenArgument => "hidden_arg",
            Rejected::UnknownArgument => "unknown_arg",
            Rejected::Invalid => "invalid_arguments",
        }
    }
}

/// Begins a call of a virtual tool.
pub(crate) fn begin(bound: &Bound, arguments: Option<Json<'_>>) -> Result<Step, Refusal> {
    let arguments = bound.input.accept(object(arguments)?)?;
    let resume = Resume::of(bound);
    Ok(match (&bound.tool.base, &bound.source) {
        (Base::Source { target, tool }, Some(source)) => {
            Step::Call(SourceCall { target: target.clone(), tool: tool.clone(), arguments, resume, source: source.clone() })
        }
        (Base::Local(implementation), _) => {
            let call = LocalCall { arguments, resume, implementation: implementation.clone() };
            let mock = matches!(**implementation, Implementation::Mock(_)) && call.resume.projection.is_none();
            match call.answer(&Given { unix_seconds: 0, random: [0; 16] }).filter(|_| mock) {
                Some(result) => Step::Done(result),
                None => Step::Local(call),
            }
        }
        (Base::Source { .. }, None) => return Err(Refusal::UnknownTool),
    })
}

/// Begins a call of a tool that passes through: its target judges the arguments, unless the config wants that done here.
pub(crate) fn pass(
    target: &TargetName,
    source: &Arc<SourceTool>,
    input: Option<&Input>,
    arguments: Option<Json<'_>>,
    resume: Resume,
) -> Result<Step, Refusal> {
    let arguments = object(arguments)?;
    let arguments = match input {
        Some(input) => input.accept(arguments)?,
        None => arguments.raw().as_bytes().to_vec(),
    };
    Ok(Step::Call(SourceCall { target: target.clone(), tool: ToolName::new(&source.name), arguments, resume, source: source.clone() }))
}

/// The arguments as an object: none are none, and anything else is refused (S17, S18, A8).
fn object(arguments: Option<Json<'_>>) -> Result<Json<'_>, Refusal> {
    match arguments {
        None => Ok(Json::trusted("{}")),
        Some(json) => match json.kind() {
            Kind::Null => Ok(Json::trusted("{}")),
            Kind::Object => Ok(json),
            _ => Err(refusal(vec!["arguments must be an object".into()], Rejected::NotAnObject)),
        },
    }
}

fn refusal(violations: Vec<String>, reason: Rejected) -> Refusal {
    let mut result = Vec::with_capacity(128);
    result.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    write::string(&mut result, &violations.join("\n"));
    result.extend_from_slice(br#"}],"isError":true}"#);
    Refusal::Arguments { result, violations, reason }
}

/// What arguments a tool takes by its definition alone, for tools that no plan stands behind.
pub struct Takes(Input);

impl Takes {
    /// As the definition says, which must have passed [`transom_json::check`].
    pub fn by(definition: &str) -> Takes {
        Takes(Input::open(definition))
    }

    /// Judges arguments, or names everything that is wrong with them.
    pub fn judge(&self, arguments: Option<Json<'_>>) -> Result<(), Refusal> {
        self.0.accept(object(arguments)?).map(drop)
    }
}

/// The way from a caller's arguments to the source's.
pub(crate) struct Input {
    top: Level,
    /// The advertised schema, as JSON.
    schema: Box<str>,
    /// Made at the first call: thousands of tools are listed, a few are called.
    validator: OnceLock<Option<Validator>>,
    drop: bool,
    coerce: bool,
}

impl fmt::Debug for Input {
    /// The schema only: the rest holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// What happens to one object of the arguments.
#[derive(Default)]
struct Level {
    /// Names that callers may not use.
    hidden: Vec<Hidden>,
    /// Members that have another name at the source, or something happens inside them.
    members: Vec<Member>,
    /// If it is a list: what happens to its elements.
    items: Option<Box<Level>>,
    /// What is written in where the caller said nothing.
    fills: Vec<Fill>,
    /// Whether something must be written in, so that nothing but an object will do.
    needs_object: bool,
}

struct Hidden {
    name: String,
    folded: String,
}

struct Member {
    exposed: String,
    source: String,
    inside: Level,
}

struct Fill {
    /// The source's name.
    name: String,
    /// `"name":value`
    json: Vec<u8>,
}

/// The fields of a tool as a tree, by source names, while it is being bound.
#[derive(Default)]
struct Node<'f> {
    value: Option<&'f Tree>,
    hidden: bool,
    forced: bool,
    children: Vec<(&'f str, Node<'f>)>,
    items: Option<Box<Node<'f>>>,
}

impl<'f> Node<'f> {
    fn at(&mut self, path: &'f FieldPath) -> &mut Node<'f> {
        path.steps().iter().fold(self, |node, step| match step {
            name::Step::Items => node.items.get_or_insert_default(),
            name::Step::Member(name) => {
                let at = node.children.iter().position(|(each, _)| each == name).unwrap_or(node.children.len());
                if at == node.children.len() {
                    node.children.push((name, Node::default()));
                }
                // The position was found or made above.
                match node.children.get_mut(at) {
                    Some((_, child)) => child,
                    None => node.items.get_or_insert_default(),
                }
            }
        })
    }
}

/// Makes levels out of nodes.
struct Builder<'b> {
    tool: &'b VirtualTool,
    fields: Option<&'b Fields<'b>>,
}

impl Builder<'_> {
    /// What is sent for a field that the caller left out, and that has `around` from a default around it; an error names the field whose
    /// value has no room for others.
    fn left_out(&self, node: &Node<'_>, around: Option<&Tree>, path: &mut Vec<name::Step>) -> Result<Option<Tree>, FieldPath> {
        let mut value = node.value.or(around).cloned();
        for (name, child) in &node.children {
            path.push(name::Step::Member((*name).to_owned()));
            let inner = self.left_out(child, value.as_ref().and_then(|value| value.get(name)), path)?;
            path.pop();
            match (&mut value, inner) {
                (_, None) => {}
                (Some(Tree::Object(object)), Some(inner)) => object.insert(*name, inner),
                (Some(_), Some(_)) => return Err(FieldPath::of(path.iter().cloned())),
                (none, Some(inner)) => *none = Some(Tree::Object(Object::from_iter([((*name).to_owned(), inner)]))),
            }
        }
        if let (Some(items), Some(elements)) = (&node.items, &mut value) {
            let Tree::Array(elements) = elements else { return Err(FieldPath::of(path.iter().cloned())) };
            for element in elements {
                self.fill_element(items, element, path)?;
            }
        }
        // An object made up for the sake of what is inside must be one that the source can take.
        let made_up = node.value.or(around).is_none() && !path.is_empty();
        if let (true, Some(Tree::Object(object)), Some(fields)) = (made_up, &value, self.fields) {
            let here = FieldPath::of(path.iter().cloned());
            let lacking = fields.required_within(&here).iter().any(|name| !object.contains_key(name));
            if lacking && !fields.is_required(&here) {
                return Ok(None);
            }
        }
        Ok(value)
    }

    /// Writes defaults of elements into an element of a default.
    fn fill_element(&self, node: &Node<'_>, element: &mut Tree, path: &mut Vec<name::Step>) -> Result<(), FieldPath> {
        path.push(name::Step::Items);
        for (name, child) in &node.children {
            path.push(name::Step::Member((*name).to_owned()));
            let inner = self.left_out(child, element.get(name), path)?;
            path.pop();
            match (&mut *element, inner) {
                (_, None) => {}
                (Tree::Object(object), Some(inner)) => {
                    if child.forced || child.value.is_none() || !object.contains_key(name) {
                        object.insert(*name, inner);
                    }
                }
                (_, Some(_)) => return Err(FieldPath::of(path.iter().cloned())),
            }
        }
        path.pop();
        Ok(())
    }

    fn level(&self, node: &Node<'_>, path: &mut Vec<name::Step>) -> Result<Level, FieldPath> {
        let mut level = Level::default();
        let renames: &[_] = if path.is_empty() { &self.tool.parts.renames } else { &[] };
        let is_exposed = |name: &str| renames.iter().any(|rename| rename.exposed == name);
        let hide = |level: &mut Level, name: &str| {
            if !level.hidden.iter().any(|hidden| hidden.name == name) {
                level.hidden.push(Hidden { name: name.to_owned(), folded: fold(name).into_owned() });
            }
        };
        for rename in renames.iter().filter(|rename| rename.exposed != rename.source) {
            // A renamed-away name is unknown to callers, unless another argument took it over.
            if !is_exposed(&rename.source) {
                hide(&mut level, &rename.source);
            }
            if !node.children.iter().any(|(name, _)| *name == rename.source) {
                level.members.push(Member { exposed: rename.exposed.clone(), source: rename.source.clone(), inside: Level::default() });
            }
        }
        for (name, child) in &node.children {
            let exposed = renames.iter().find(|rename| rename.source == *name).map_or(*name, |rename| &rename.exposed);
            path.push(name::Step::Member((*name).to_owned()));
            let left_out = self.left_out(child, None, path)?;
            let inside = if child.hidden { Level::default() } else { self.level(child, path)? };
            path.pop();
            if child.hidden {
                if exposed != *name || !is_exposed(name) {
                    hide(&mut level, exposed);
                }
            } else if exposed != *name || !inside.is_empty() {
                level.members.push(Member { exposed: exposed.to_owned(), source: (*name).to_owned(), inside });
            }
            if let Some(value) = left_out {
                let mut json = Vec::new();
                write::string(&mut json, name);
                json.push(b':');
                value.write(&mut json);
                level.needs_object |= child.is_forced();
                level.fills.push(Fill { name: (*name).to_owned(), json });
            }
        }
        if let Some(items) = &node.items {
            path.push(name::Step::Items);
            level.items = Some(Box::new(self.level(items, path)?));
            path.pop();
        }
        Ok(level)
    }
}

impl Node<'_> {
    /// Whether something in it is not the caller's to say.
    fn is_forced(&self) -> bool {
        self.forced || self.children.iter().any(|(_, child)| child.is_forced())
    }
}

impl Input {
    /// Prepares calls of a tool. The error is a field whose default has no room for the defaults inside it.
    pub fn new(
        tool: &VirtualTool,
        fields: Option<&Fields<'_>>,
        hidden: &[FieldPath],
        fillings: &[Filling],
        shown: &Shown,
    ) -> Result<Input, FieldPath> {
        let mut root = Node::default();
        for path in hidden {
            root.at(path).hidden = true;
        }
        for path in &shown.forced {
            let node = root.at(path);
            (node.hidden, node.forced) = (true, true);
        }
        for filling in fillings {
            root.at(&filling.path).value = Some(&filling.value);
        }
        let top = Builder { tool, fields }.level(&root, &mut Vec::new())?;
        Ok(Input {
            top,
            schema: shown.schema.to_string().into(),
            validator: OnceLock::new(),
            drop: tool.settings.hidden_arguments == Some(HiddenArguments::Drop),
            coerce: tool.settings.coerce_arguments == Some(true),
        })
    }

    /// For a tool that passes through, by its definition: validation and nothing else.
    pub fn open(definition: &str) -> Input {
        let schema = Json::trusted(definition).get("inputSchema").map_or("{}", Json::raw);
        Input { top: Level::default(), schema: schema.into(), validator: OnceLock::new(), drop: false, coerce: false }
    }

    /// The advertised schema, as JSON.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// What of a schema cannot be judged (a reference to elsewhere, a dialect nobody knows) is the target's to enforce.
    fn validator(&self) -> Option<&Validator> {
        let make = || loosen::validator(&plain(Json::trusted(&self.schema)));
        self.validator.get_or_init(make).as_ref()
    }

    /// The source's arguments for these, or every reason why there are none.
    pub fn accept(&self, arguments: Json<'_>) -> Result<Vec<u8>, Refusal> {
        let mut found = Findings::default();
        let mut instance = value(arguments, DEPTH, &mut found);
        self.top.inspect(arguments, &mut Vec::new(), self.drop, &mut found);
        for path in &found.dropped {
            remove(&mut instance, path);
        }
        let mut edits = Edits::default();
        if let Some(validator) = self.validator()
            && !validator.is_valid(&instance)
        {
            self.settle(validator, &mut instance, &mut found, &mut edits);
        }
        if let Some(refusal) = found.refusal() {
            return Err(refusal);
        }
        let mut out = Vec::with_capacity(arguments.raw().len() + self.top.fills.iter().map(|fill| fill.json.len() + 1).sum::<usize>());
        let edits = Some(edits).filter(|edits| !edits.0.is_empty());
        self.top.write(arguments, edits.as_ref(), &mut String::new(), &mut out);
        Ok(out)
    }

    /// Tries to mend what the settings allow to mend, and collects what is left.
    fn settle(&self, validator: &Validator, instance: &mut Value, found: &mut Findings, edits: &mut Edits) {
        // Each round drops or converts something; rounds are bounded because what a schema reveals one by one may be long.
        for _ in 0..ROUNDS {
            let mut mended = false;
            let errors: Vec<Violation> = validator.iter_errors(instance).take(VIOLATIONS).map(|error| Violation::of(&error)).collect();
            let errors = self.told_apart(errors, instance);
            for violation in &errors {
                mended |= match violation {
                    Violation::Unknown { at, names, .. } if self.drop => {
                        let mut any = false;
                        for name in names {
                            any |= remove(instance, &[at.clone(), vec![name.clone()]].concat());
                            edits.0.insert(pointer(at.iter().chain([name])), None);
                        }
                        any
                    }
                    Violation::Type { at, names, .. } if self.coerce => match coerced(instance, at, names) {
                        Some(text) => {
                            edits.0.insert(pointer(at), Some(text));
                            true
                        }
                        None => false,
                    },
                    _ => false,
                };
            }
            if mended && validator.is_valid(instance) {
                return;
            }
            if !mended {
                for violation in errors {
                    found.violation(violation);
                }
                return;
            }
        }
        found.violations.push("the arguments do not fit the schema".into());
    }

    /// A name in a branch that does not hold counts as unevaluated, though it is known: it is neither told as unknown nor dropped.
    fn told_apart(&self, errors: Vec<Violation>, instance: &Value) -> Vec<Violation> {
        if !errors.iter().any(|error| matches!(error, Violation::Unknown { unevaluated: true, .. })) {
            return errors;
        }
        let schema = Tree::from(Json::trusted(&self.schema));
        let Some(fields) = Fields::of(&schema) else { return errors };
        let nothing_else = errors.iter().all(|error| matches!(error, Violation::Unknown { .. }));
        let mut told = Vec::with_capacity(errors.len());
        for error in errors {
            let Violation::Unknown { at, names, unevaluated: true } = error else {
                told.push(error);
                continue;
            };
            let (known, names): (Vec<String>, Vec<String>) =
                names.into_iter().partition(|name| fields.declare(&field_of(instance, at.iter().chain([name]))));
            // What is wrong with the branch is told already, unless another branch held in its place.
            if nothing_else {
                let misfit = |name: &String| Violation::Other(format!("{}: this does not fit the schema", pointer(at.iter().chain([name]))));
                told.extend(known.iter().map(misfit));
            }
            if !names.is_empty() {
                told.push(Violation::Unknown { at, names, unevaluated: true });
            }
        }
        told
    }
}

/// The field that a place in the arguments belongs to.
fn field_of<'s>(instance: &Value, place: impl IntoIterator<Item = &'s String>) -> FieldPath {
    let mut value = Some(instance);
    let steps = place.into_iter().map(|step| match value {
        Some(Value::Array(elements)) => {
            value = step.parse::<usize>().ok().and_then(|index| elements.get(index));
            name::Step::Items
        }
        other => {
            value = other.and_then(|value| value.get(step));
            name::Step::Member(step.clone())
        }
    });
    FieldPath::of(steps)
}

/// Deeper than any checked arguments.
const DEPTH: usize = 64;
/// Nobody repairs more than this at once.
const VIOLATIONS: usize = 100;
const ROUNDS: usize = 16;

/// Arguments as `jsonschema` reads them. Never sent anywhere: numbers lose their spelling here.
fn value(json: Json<'_>, depth: usize, found: &mut Findings) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    match json.kind() {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(json.raw() == "true"),
        Kind::Number => plain_number(json.raw()),
        Kind::String => Value::String(json.string().unwrap_or_default().into_owned()),
        Kind::Array => Value::Array(json.elements().map(|element| value(element, depth, found)).collect()),
        Kind::Object => {
            let mut map = serde_json::Map::new();
            for (key, member) in json.members() {
                let name = key.text();
                if map.contains_key(&*name) {
                    found.reject(Rejected::DuplicateKey);
                    found.violations.push(format!("Duplicate key {}", write::quoted(&shortened(&name, 128))));
                }
                map.insert(name.into_owned(), value(member, depth, found));
            }
            Value::Object(map)
        }
    }
}

/// What is wrong with arguments, as far as it was looked at.
#[derive(Default)]
struct Findings {
    reason: Option<Rejected>,
    /// Names that may not be there, for whichever reason: they must read the same. Sorted, lest the order tell one from another.
    unknown: BTreeSet<String>,
    violations: Vec<String>,
    /// Hidden arguments that are left out.
    dropped: Vec<Vec<String>>,
}

impl Findings {
    fn reject(&mut self, reason: Rejected) {
        self.reason = Some(self.reason.map_or(reason, |worst| worst.min(reason)));
    }

    fn violation(&mut self, violation: Violation) {
        match violation {
            Violation::Unknown { at, names, .. } => {
                self.reject(Rejected::UnknownArgument);
                self.unknown.extend(names.iter().map(|name| dotted(at.iter().chain([name]))));
            }
            Violation::Type { message, .. } | Violation::Other(message) => {
                self.reject(Rejected::Invalid);
                self.violations.push(message);
            }
        }
    }

    fn refusal(self) -> Option<Refusal> {
        let reason = self.reason?;
        let unknown = self.unknown.iter().map(|name| format!("Unknown argument {}", write::quoted(&shortened(name, 128))));
        let mut violations: Vec<String> = unknown.collect();
        violations.extend(self.violations);
        violations.truncate(VIOLATIONS);
        Some(refusal(violations, reason))
    }
}

/// What a validator complains about.
enum Violation {
    Unknown { at: Vec<String>, names: Vec<String>, unevaluated: bool },
    Type { at: Vec<String>, names: Vec<&'static str>, message: String },
    Other(String),
}

impl Violation {
    fn of(error: &jsonschema::ValidationError<'_>) -> Violation {
        let place = error.instance_path().to_string();
        let steps = || place.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        let message = || {
            let text = shortened(&error.to_string(), 400).into_owned();
            if place.is_empty() { text } else { format!("{place}: {text}") }
        };
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                Violation::Unknown { at: steps(), names: unexpected.clone(), unevaluated: false }
            }
            ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                Violation::Unknown { at: steps(), names: unexpected.clone(), unevaluated: true }
            }
            ValidationErrorKind::Type { kind } => {
                let all = ["integer", "number", "boolean"];
                let wanted = match kind {
                    TypeKind::Single(one) => vec![one.to_string()],
                    TypeKind::Multiple(several) => several.iter().map(|each| each.to_string()).collect(),
                };
                let names = all.into_iter().filter(|name| wanted.iter().any(|each| each == name)).collect();
                Violation::Type { at: steps(), names, message: message() }
            }
            _ => Violation::Other(message()),
        }
    }
}

/// Changes to what the caller sent, by JSON pointer: left out, or another value.
#[derive(Default)]
struct Edits(HashMap<String, Option<String>>);

/// A string in place of which one of these types is wanted, read as that: its new spelling. Changes the instance too.
fn coerced(instance: &mut Value, at: &[String], names: &[&str]) -> Option<String> {
    let place = instance.pointer_mut(&pointer(at))?;
    let tree = names.iter().find_map(|name| read_as(place.as_str()?, name))?;
    let text = tree.to_string();
    *place = plain(Json::trusted(&text));
    Some(text)
}

/// Takes a member out of the instance.
fn remove(instance: &mut Value, path: &[String]) -> bool {
    let Some((name, parents)) = path.split_last() else { return false };
    let object = instance.pointer_mut(&pointer(parents)).and_then(Value::as_object_mut);
    object.is_some_and(|object| object.shift_remove(name).is_some())
}

fn pointer<'s>(steps: impl IntoIterator<Item = &'s String>) -> String {
    steps.into_iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

fn dotted<'s>(steps: impl IntoIterator<Item = &'s String>) -> String {
    steps.into_iter().map(String::as_str).collect::<Vec<_>>().join(".")
}

fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most { Cow::Borrowed(text) } else { Cow::Owned(text.chars().take(most).chain(['…']).collect()) }
}

impl Level {
    fn is_empty(&self) -> bool {
        self.hidden.is_empty() && self.members.is_empty() && self.items.is_none() && self.fills.is_empty()
    }

    /// Looks for what callers may not say, whatever the schema says about it.
    fn inspect(&self, json: Json<'_>, path: &mut Vec<String>, drop: bool, found: &mut Findings) {
        match json.kind() {
            Kind::Object => {
                for (key, value) in json.members() {
                    match self.judge(key) {
                        Some(Rejected::HiddenArgument) if drop => {
                            found.dropped.push(path.iter().cloned().chain([key.text().into_owned()]).collect());
                            continue;
                        }
                        Some(reason) => {
                            found.reject(reason);
                            found.unknown.insert(dotted(path.iter().chain([&key.text().into_owned()])));
                            continue;
                        }
                        None => {}
                    }
                    if let Some(member) = self.members.iter().find(|member| key.is(&member.exposed)).filter(|member| !member.inside.is_empty()) {
                        path.push(member.exposed.clone());
                        member.inside.inspect(value, path, drop, found);
                        path.pop();
                    }
                }
            }
            // Elements keep what an object would lose: where something must be written in, only an object will do.
            Kind::Array if self.items.is_some() => {
                if let Some(items) = &self.items {
                    for (index, element) in json.elements().enumerate() {
                        path.push(index.to_string());
                        items.inspect(element, path, drop, found);
                        path.pop();
                    }
                }
            }
            _ if self.needs_object => {
                found.reject(Rejected::Invalid);
                found.violations.push(format!("/{}: an object is needed here", path.join("/")));
            }
            _ => {}
        }
    }

    /// Whether a key is one that callers may not use, or could be taken for one.
    fn judge(&self, key: Key<'_>) -> Option<Rejected> {
        if self.hidden.is_empty() {
            return None;
        }
        if self.hidden.iter().any(|hidden| key.is(&hidden.name)) {
            return Some(Rejected::HiddenArgument);
        }
        let name = key.text();
        if name.chars().any(is_invisible) {
            return Some(Rejected::Lookalike);
        }
        let alike = if name.is_ascii() {
            self.hidden.iter().any(|hidden| hidden.folded.eq_ignore_ascii_case(&name))
        } else {
            let folded = fold(&name);
            self.hidden.iter().any(|hidden| hidden.folded == folded)
        };
        alike.then_some(Rejected::Lookalike)
    }

    /// Writes what the source gets for an object, or for a list of them.
    fn write(&self, json: Json<'_>, edits: Option<&Edits>, pointer: &mut String, out: &mut Vec<u8>) {
        match json.kind() {
            Kind::Object => self.write_object(json, edits, pointer, out),
            Kind::Array if self.items.is_some() || edits.is_some() => {
                out.push(b'[');
                for (index, element) in json.elements().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    let length = pointer.len();
                    if edits.is_some() {
                        pointer.push_str(&format!("/{index}"));
                    }
                    self.items.as_deref().unwrap_or(NOTHING).write_value(element, edits, pointer, out);
                    pointer.truncate(length);
                }
                out.push(b']');
            }
            _ => out.extend_from_slice(json.raw().as_bytes()),
        }
    }

    fn write_value(&self, json: Json<'_>, edits: Option<&Edits>, pointer: &mut String, out: &mut Vec<u8>) {
        match edits.and_then(|edits| edits.0.get(pointer.as_str())) {
            Some(Some(text)) => out.extend_from_slice(text.as_bytes()),
            _ if self.is_empty() && edits.is_none() => out.extend_from_slice(json.raw().as_bytes()),
            _ => self.write(json, edits, pointer, out),
        }
    }

    fn write_object(&self, json: Json<'_>, edits: Option<&Edits>, pointer: &mut String, out: &mut Vec<u8>) {
        out.push(b'{');
        let start = out.len();
        let mut said = vec![false; self.fills.len()];
        for (key, value) in json.members() {
            // Callers that may send hidden arguments do so in vain.
            if self.hidden.iter().any(|hidden| key.is(&hidden.name)) {
                continue;
            }
            let length = pointer.len();
            if let Some(edits) = edits {
                pointer.push_str(&format!("/{}", key.text().replace('~', "~0").replace('/', "~1")));
                if edits.0.get(pointer.as_str()) == Some(&None) {
                    pointer.truncate(length);
                    continue;
                }
            }
            if out.len() > start {
                out.push(b',');
            }
            let member = self.members.iter().find(|member| key.is(&member.exposed));
            let is_called = |name: &str| member.map_or_else(|| key.is(name), |member| member.source == name);
            for (said, _) in said.iter_mut().zip(&self.fills).filter(|(_, fill)| is_called(&fill.name)) {
                *said = true;
            }
            match member {
                Some(member) => write::string(out, &member.source),
                None => {
                    out.push(b'"');
                    out.extend_from_slice(key.raw().as_bytes());
                    out.push(b'"');
                }
            }
            out.push(b':');
            member.map_or(NOTHING, |member| &member.inside).write_value(value, edits, pointer, out);
            pointer.truncate(length);
        }
        for (fill, _) in self.fills.iter().zip(&said).filter(|(_, said)| !**said) {
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(&fill.json);
        }
        out.push(b'}');
    }
}

/// Where nothing happens.
const NOTHING: &Level = &Level { hidden: Vec::new(), members: Vec::new(), items: None, fills: Vec::new(), needs_object: false };

/// A name as a lenient peer may read it: compatibility forms and case made equal (Unicode toNFKC_Casefold), nothing invisible.
fn fold(name: &str) -> Cow<'_, str> {
    if name.is_ascii() && !name.bytes().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_control()) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.nfkc().filter(|c| !is_invisible(*c)).default_case_fold().nfkc().collect())
}

/// Characters that a reader does not see and some peers drop.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{compiled, json, registry, sent, source, tool};
    use crate::{Options, Tools};
    use proptest::prelude::*;

    const S: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"units":{"type":["string","null"]},"debug":{"type":"boolean"},"limit":{"type":"number"}},"required":["city"]}"#;

    fn reason(tools: &Tools, arguments: &str) -> Rejected {
        match tools.call("t", Some(json(arguments))) {
            Err(Refusal::Arguments { reason, .. }) => reason,
            other => panic!("{arguments}: {other:?}"),
        }
    }

    // security.md: one word for each reason, in metrics and in tests
    #[test]
    fn every_reason_to_reject_has_a_word_of_its_own() {
        use Rejected::*;
        let words = [NotAnObject, DuplicateKey, Lookalike, HiddenArgument, UnknownArgument, Invalid].map(Rejected::label);
        assert_eq!(words, ["not_an_object", "duplicate_key", "hidden_arg_lookalike", "hidden_arg", "unknown_arg", "invalid_arguments"]);
    }

    #[test]
    fn a_number_that_no_float_holds_is_nobodys_fault() {
        let takes = Takes::by(r#"{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":1e400}}}}"#);
        for fine in [r#"{}"#, r#"{"n":7}"#, r#"{"n":1e400}"#] {
            assert_eq!(takes.judge(Some(json(fine))), Ok(()), "{fine}");
        }
        assert!(takes.judge(Some(json(r#"{"n":"x"}"#))).is_err() && takes.judge(Some(json("[]"))).is_err());
        assert_eq!(takes.judge(None), Ok(()));
    }

    // S11 to S19, R-003-24, R-003-48, R-003-60
    #[test]
    fn defaults_fill_in_what_the_caller_left_out_and_numbers_keep_their_spelling() {
        for (members, arguments, expected) in [
            (r#""defaults":{"units":"metric","limit":30}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","units":"metric","limit":30}"#),
            (r#""defaults":{"units":"metric"}"#, r#"{"city":"Oslo","units":"imperial"}"#, r#"{"city":"Oslo","units":"imperial"}"#),
            (r#""defaults":{"units":"metric"}"#, r#"{"city":"Oslo","units":null}"#, r#"{"city":"Oslo","units":null}"#),
            (r#""defaults":{"units":"metric"}"#, r#"{"city":"Oslo","units":""}"#, r#"{"city":"Oslo","units":""}"#),
            (r#""defaults":{"limit":1e400}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","limit":1e400}"#),
            (r#""defaults":{"limit":30.0}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","limit":30.0}"#),
            ("", r#"{"city":"Oslo","limit":18446744073709551616}"#, r#"{"city":"Oslo","limit":18446744073709551616}"#),
            ("", r#"{"city":"Oslo","limit":1e400}"#, r#"{"city":"Oslo","limit":1e400}"#),
            ("", r#"{"city":"Oslo","limit":-0}"#, r#"{"city":"Oslo","limit":-0}"#),
            ("", r#"{ "c\u0069ty" : "\u004fslo" }"#, r#"{"c\u0069ty":"\u004fslo"}"#),
            (r#""defaults":{"limit":"${TIMEOUT}"}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","limit":30}"#),
            (r#""hideFields":["units"],"defaults":{"units":null}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","units":null}"#),
        ] {
            assert_eq!(sent(&tool(S, members), "t", arguments).as_deref(), Ok(expected), "{members}");
        }
    }

    // S17, S18, A8
    #[test]
    fn arguments_are_an_object_or_absent() {
        let tools = tool(r#"{"type":"object","properties":{"a":{}}}"#, r#""defaults":{"a":1}"#);
        for arguments in [None, Some(json("null")), Some(json("{}"))] {
            let Ok(Step::Call(call)) = tools.call("t", arguments) else { panic!() };
            assert_eq!(call.arguments, br#"{"a":1}"#);
        }
        for arguments in ["[1]", "42", "\"{}\"", "true", "[[\"a\",1]]"] {
            assert_eq!(sent(&tools, "t", arguments), Err("arguments must be an object".into()));
            assert_eq!(reason(&tools, arguments), Rejected::NotAnObject);
        }
    }

    // A1, A5, S22: the refusal reads the same for a hidden and for a made-up name, whatever else is wrong
    #[test]
    fn a_hidden_name_and_a_made_up_one_read_the_same() {
        let tools = tool(S, r#""hideFields":["debug"]"#);
        for template in [r#"{"city":"Oslo","NAME":true}"#, r#"{"NAME":true}"#, r#"{"limit":"x","NAME":{"a":[]},"city":5}"#] {
            let hidden = sent(&tools, "t", &template.replace("NAME", "debug")).unwrap_err();
            let made_up = sent(&tools, "t", &template.replace("NAME", "zzzzz")).unwrap_err();
            assert_eq!(hidden.replace("debug", "zzzzz"), made_up);
            assert!(hidden.starts_with("Unknown argument \"debug\""), "{hidden}");
        }
        assert_eq!(reason(&tools, r#"{"city":"Oslo","debug":true}"#), Rejected::HiddenArgument);
        assert_eq!(reason(&tools, r#"{"city":"Oslo","zzz":true}"#), Rejected::UnknownArgument);
        let Err(Refusal::Arguments { result, .. }) = tools.call("t", Some(json(r#"{"city":"Oslo","zzz":1}"#))) else { panic!() };
        assert_eq!(result, br#"{"content":[{"type":"text","text":"Unknown argument \"zzz\""}],"isError":true}"#);
    }

    // A2, A4, CVE-2026-27896
    #[test]
    fn whatever_a_lenient_peer_would_read_as_a_hidden_name_is_refused() {
        let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"api_key":{"type":"string"},"straße":{}}}"#;
        let rejecting = tool(schema, r#""hideFields":["api_key","straße","absent_ſ"],"defaults":{"api_key":"forced"}"#);
        let dropping = tool(schema, r#""hideFields":["api_key","straße","absent_ſ"],"defaults":{"api_key":"forced"},"hiddenArguments":"drop""#);
        for name in [
            "API_KEY",
            "Api_Key",
            "api_\u{212a}ey",
            "\u{ff41}pi_key",
            "api_key\u{200b}",
            "api_key\\u0000",
            "\u{feff}api_key",
            "ap\u{ad}i_key",
            "api\u{ff3f}key",
            "\u{1d41a}pi_key",
            "a\u{2060}pi_key",
            "\\u0041pi_key",
            "STRASSE",
            "strasse",
            "Straße",
            "ABSENT_S",
            "absent_s",
        ] {
            for tools in [&rejecting, &dropping] {
                let arguments = format!(r#"{{"city":"X","{name}":"mine"}}"#);
                assert!(sent(tools, "t", &arguments).is_err_and(|text| text.contains("Unknown argument")), "{name}");
                assert_eq!(reason(tools, &arguments), Rejected::Lookalike, "{name}");
            }
        }
        for name in ["api_key", "\\u0061pi_key", "api\\u005fkey", "absent_ſ"] {
            let arguments = format!(r#"{{"city":"X","{name}":"mine"}}"#);
            assert_eq!(reason(&rejecting, &arguments), Rejected::HiddenArgument, "{name}");
            assert_eq!(sent(&dropping, "t", &arguments).as_deref(), Ok(r#"{"city":"X","api_key":"forced"}"#), "{name}");
        }
        // Not alike after folding, but unknown.
        assert_eq!(reason(&rejecting, r#"{"apiKey":"x"}"#), Rejected::UnknownArgument);
    }

    // A3
    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        let tools = tool(r#"{"type":"object"}"#, "");
        for arguments in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, r#"{"o":[{"b":1,"b":1}]}"#] {
            assert_eq!(reason(&tools, arguments), Rejected::DuplicateKey, "{arguments}");
        }
    }

    const NESTED: &str = r#"{"type":"object","properties":{"opts":{"type":["object","null"],"properties":{"debug":{"type":"boolean"},"level":{"type":"integer"}}},
        "rows":{"type":"array","items":{"type":"object","properties":{"id":{},"secret":{}}}},
        "page":{"type":"object","properties":{"number":{},"trace":{}},"required":["number"]}}}"#;

    // A6, A7, 4.4
    #[test]
    fn nested_fields_are_hidden_forced_and_filled_in_where_they_are() {
        let forced = r#""hideFields":["opts.debug"],"defaults":{"opts.debug":false}"#;
        let items = r#""hideFields":["rows[].secret"],"defaults":{"rows[].secret":7}"#;
        let trace = r#""hideFields":["page.trace"],"defaults":{"page.trace":1}"#;
        for (members, arguments, expected) in [
            (forced, "{}", Ok(r#"{"opts":{"debug":false}}"#)),
            (forced, r#"{"opts":{}}"#, Ok(r#"{"opts":{"debug":false}}"#)),
            (forced, r#"{"opts":{"level":1.0}}"#, Ok(r#"{"opts":{"level":1.0,"debug":false}}"#)),
            (forced, r#"{"opts":{"debug":true}}"#, Err("Unknown argument \"opts.debug\"")),
            (forced, r#"{"opts":{"DEBUG":true}}"#, Err("Unknown argument \"opts.DEBUG\"")),
            (forced, r#"{"opts":null}"#, Err("/opts: an object is needed here")),
            (forced, r#"{"opts":[{"debug":true}]}"#, Err("/opts: ")),
            (forced, r#"{"opts.debug":true}"#, Ok(r#"{"opts.debug":true,"opts":{"debug":false}}"#)),
            (forced, r#"{"opts":"{\"debug\":true}"}"#, Err("/opts: ")),
            (items, r#"{"rows":[{"id":1},{}]}"#, Ok(r#"{"rows":[{"id":1,"secret":7},{"secret":7}]}"#)),
            (items, r#"{"rows":[{"secret":1}]}"#, Err("Unknown argument \"rows.0.secret\"")),
            (items, "{}", Ok("{}")),
            // A parent that would lack what it requires is not made up; one that the caller gave is completed.
            (trace, "{}", Ok("{}")),
            (trace, r#"{"page":{"number":2}}"#, Ok(r#"{"page":{"number":2,"trace":1}}"#)),
            // A default object is not merged into a caller's.
            (r#""defaults":{"opts":{"level":1,"debug":true}}"#, r#"{"opts":{"level":2}}"#, Ok(r#"{"opts":{"level":2}}"#)),
            (r#""defaults":{"opts":{"level":1}}"#, "{}", Ok(r#"{"opts":{"level":1}}"#)),
            (r#""defaults":{"opts":{"level":1},"opts.debug":true}"#, "{}", Ok(r#"{"opts":{"level":1,"debug":true}}"#)),
            (r#""defaults":{"opts.level":1}"#, r#"{"opts":{"debug":true}}"#, Ok(r#"{"opts":{"debug":true,"level":1}}"#)),
            (r#""defaults":{"opts.level":1}"#, r#"{"opts":null}"#, Ok(r#"{"opts":null}"#)),
        ] {
            let found = sent(&tool(NESTED, members), "t", arguments);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{members} {arguments}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{members} {arguments}: {found}"),
                (found, _) => panic!("{members} {arguments}: {found:?}"),
            }
        }
    }

    #[test]
    fn renamed_arguments_go_back_to_the_names_of_the_source() {
        let renamed = r#""arguments":{"place":{"source":"city"}}"#;
        let swapped = r#""arguments":{"city":{"source":"units"},"units":{"source":"city"}}"#;
        for (members, arguments, expected) in [
            (renamed, r#"{"place":"Oslo","limit":1}"#, Ok(r#"{"city":"Oslo","limit":1}"#)),
            (renamed, r#"{"place":"Oslo","city":"Rome"}"#, Err("Unknown argument \"city\"")),
            (renamed, r#"{"place":"Oslo","CITY":"Rome"}"#, Err("Unknown argument \"CITY\"")),
            (swapped, r#"{"units":"Oslo","city":"m"}"#, Ok(r#"{"city":"Oslo","units":"m"}"#)),
            (r#""arguments":{"place":{"source":"city"}},"defaults":{"city":"Rome"}"#, "{}", Ok(r#"{"city":"Rome"}"#)),
            (r#""arguments":{"place":{"source":"city"}},"defaults":{"city":"Rome"}"#, r#"{"place":"Oslo"}"#, Ok(r#"{"city":"Oslo"}"#)),
        ] {
            let found = sent(&tool(S, members), "t", arguments);
            assert_eq!(found.as_deref().map_err(|text| text.lines().next().unwrap_or("")), expected, "{members} {arguments}");
        }
    }

    // 4.3, SEP-1303
    #[test]
    fn every_violation_is_listed_with_its_path() {
        let tools = tool(S, "");
        let found = sent(&tools, "t", r#"{"city":5,"limit":"x","units":[]}"#).unwrap_err();
        for path in ["/city: ", "/limit: ", "/units: "] {
            assert!(found.contains(path), "{found}");
        }
        assert!(sent(&tools, "t", "{}").is_err_and(|text| text.contains("city")));
        let long = format!(r#"{{"city":{{"a":"{}"}}}}"#, "x".repeat(10_000));
        assert!(sent(&tools, "t", &long).is_err_and(|text| text.len() < 600));
    }

    // 11
    #[test]
    fn strings_become_what_the_schema_wants_if_the_tool_says_so_and_nothing_is_lost() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string"},"o":{"type":"object","properties":{"n":{"type":["integer","null"]}}},"l":{"type":"array","items":{"type":"number"}}}}"#;
        let tools = tool(schema, r#""coerceArguments":true"#);
        let arguments = r#"{"n":"5","x":"1.50","b":"true","s":"7","o":{"n":"-3"},"l":["1",2,"1e3"]}"#;
        assert_eq!(sent(&tools, "t", arguments).as_deref(), Ok(r#"{"n":5,"x":1.50,"b":true,"s":"7","o":{"n":-3},"l":[1,2,1e3]}"#));
        for arguments in [r#"{"n":"5.5"}"#, r#"{"n":" 5"}"#, r#"{"b":"yes"}"#, r#"{"n":""}"#, r#"{"x":"0x10"}"#, r#"{"s":7}"#] {
            assert!(sent(&tools, "t", arguments).is_err(), "{arguments}");
        }
        assert!(sent(&tool(schema, ""), "t", r#"{"n":"5"}"#).is_err());
    }

    #[test]
    fn dropping_leaves_out_hidden_and_unknown_arguments_alike() {
        let schema = r#"{"type":"object","properties":{"a":{},"h":{},"o":{"type":"object","properties":{"x":{}},"additionalProperties":false}}}"#;
        let tools = tool(schema, r#""hideFields":["h"],"hiddenArguments":"drop""#);
        assert_eq!(sent(&tools, "t", r#"{"a":1,"h":2,"zzz":3,"o":{"x":1,"y":2}}"#).as_deref(), Ok(r#"{"a":1,"o":{"x":1}}"#));
    }

    #[test]
    fn settings_for_all_hold_where_a_tool_says_nothing() {
        let text = registry(&[
            r#"{"name":"t","source":{"target":"w","tool":"s"},"hideFields":["debug"]}"#,
            r#"{"name":"u","source":{"target":"w","tool":"s"},"hideFields":["debug"],"hiddenArguments":"reject"}"#,
        ]);
        let mut options = Options::default();
        options.settings.hidden_arguments = Some(HiddenArguments::Drop);
        let tools = crate::testing::compiled_with(&text, &options).unwrap().plan.bind(&source(S));
        assert_eq!(sent(&tools, "t", r#"{"city":"X","debug":true}"#).as_deref(), Ok(r#"{"city":"X"}"#));
        assert!(sent(&tools, "u", r#"{"city":"X","debug":true}"#).is_err());
    }

    // 9: tools that stand on no target
    #[test]
    fn local_tools_are_validated_and_answered_here() {
        let parameters = r#""parameters":{"type":"object","properties":{"expression":{"type":"string"}}}"#;
        let text = registry(&[
            &format!(r#"{{"name":"calc","description":"c",{parameters},"implementation":{{"type":"builtin","handler":"calculator"}}}}"#),
            r#"{"name":"mock","description":"m","parameters":{"type":"object"},"implementation":{"type":"mock","mock_response":{"a":1}}}"#,
            r#"{"name":"status","description":"s","parameters":{"type":"object"},"implementation":{"type":"internal","handler":"gateway_status"}}"#,
        ]);
        let tools = compiled(&text).plan.bind(&Default::default());
        let Ok(Step::Local(call)) = tools.call("calc", Some(json(r#"{"expression":"2+3*4"}"#))) else { panic!() };
        let answer = call.answer(&Given { unix_seconds: 0, random: [0; 16] }).unwrap();
        assert!(String::from_utf8(answer).unwrap().contains("14"));
        assert!(sent(&tools, "calc", r#"{"expression":5}"#).is_err_and(|text| text.contains("/expression")));
        let Ok(Step::Done(result)) = tools.call("mock", None) else { panic!() };
        assert!(String::from_utf8(result).unwrap().contains(r#""structuredContent":{"a":1}"#));
        let Ok(Step::Local(call)) = tools.call("status", None) else { panic!() };
        assert_eq!(call.handler(), Some("gateway_status"));
    }

    // D2, D5
    #[test]
    fn a_secret_goes_to_the_source_and_nowhere_else() {
        let schema = r#"{"type":"object","properties":{"key":{"type":"string"},"q":{}}}"#;
        let tools = tool(schema, r#""defaults":{"key":"Bearer ${KEY}"}"#);
        let Ok(Step::Call(call)) = tools.call("t", None) else { panic!() };
        assert_eq!(call.arguments, br#"{"key":"Bearer k-1234567890"}"#);
        assert!(!format!("{tools:?} {call:?}").contains("k-1234567890"));
        assert!(!tools.get("t").unwrap().json().contains("k-1234567890"));
        let echo = r#"{"content":[{"type":"text","text":"got k-1234567890"}]}"#;
        let reply = call.resume.resume(json(echo), ClientEra::Modern);
        assert!(reply.masked && !reply.json.contains("k-1234567890"), "{}", reply.json);
    }

    #[test]
    fn tools_that_pass_through_are_left_to_their_target_unless_all_are_validated() {
        let text = registry(&[]);
        let tools = compiled(&text).plan.bind(&source(S));
        assert_eq!(sent(&tools, "s", r#"{ "city" : 5 }"#).as_deref(), Ok(r#"{ "city" : 5 }"#));
        assert!(matches!(tools.call_source("w", "s", None), Ok(Step::Call(_))));
        let strict = Options { validate_all: true, ..Options::default() };
        let tools = crate::testing::compiled_with(&text, &strict).unwrap().plan.bind(&source(S));
        assert!(sent(&tools, "s", r#"{"city":5}"#).is_err());
    }

    proptest! {
        // A1 to A6: whatever a caller sends, a hidden name never comes from the caller.
        #[test]
        fn a_hidden_name_never_comes_from_the_caller(arguments in arguments(), drop in any::<bool>()) {
            let drop = if drop { r#","hiddenArguments":"drop""# } else { "" };
            let schema = r#"{"type":"object","properties":{"a":{},"key":{},"o":{"type":"object","properties":{"key":{},"b":{}}}}}"#;
            let tools = tool(schema, &format!(r#""hideFields":["key","o.key"],"defaults":{{"key":"forced","o.key":"forced"}}{drop}"#));
            if let Ok(sent) = sent(&tools, "t", &arguments.to_string()) {
                let sent = Tree::from(json(&sent));
                prop_assert_eq!(sent.get("key").and_then(Tree::as_str), Some("forced"));
                let inner = sent.get("o").and_then(|o| o.get("key")).and_then(Tree::as_str);
                prop_assert_eq!(inner, Some("forced"));
                prop_assert!(sent.as_object().is_some_and(|object| object.keys().all(|name| ["a", "key", "o"].contains(&name))));
            }
        }

        #[test]
        fn folding_twice_is_folding_once(name in "\\PC*") {
            let once = fold(&name).into_owned();
            prop_assert_eq!(fold(&once).into_owned(), once);
        }
    }

    fn arguments() -> impl Strategy<Value = Tree> {
        let name = prop_oneof![Just("a"), Just("key"), Just("KEY"), Just("o"), Just("b"), Just("k\u{200b}ey"), Just("other")];
        let leaf = prop_oneof![Just(Tree::from("mine")), Just(Tree::Null), Just(Tree::Bool(true)), Just(Tree::Number("1e400".into()))];
        let value = leaf.prop_recursive(3, 16, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Tree::Array),
                proptest::collection::vec((name.clone(), inner), 0..4)
                    .prop_map(|members| Tree::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
            ]
        });
        proptest::collection::vec((prop_oneof![Just("a"), Just("key"), Just("o"), Just("Key"), Just("x")], value), 0..5)
            .prop_map(|members| Tree::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
    }
}
