//! What a tool takes: from a caller's arguments to the source's, or to every reason why not.

use super::build;
use super::findings::{Edits, Findings, VIOLATIONS, Violation, coerced, pointer, remove, shortened};
use super::level::Level;
use super::{Refusal, Rejected};
use crate::compile::{Filling, VirtualTool};
use crate::file::HiddenArguments;
use crate::loosen;
use crate::name::{self, FieldPath};
use crate::schema::{Fields, Shown};
use crate::source::{plain, plain_number};
use jsonschema::Validator;
use serde_json::Value;
use std::fmt;
use std::sync::OnceLock;
use transom_json::{Json, Kind, Tree, write};

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

impl Input {
    /// Prepares calls of a tool. The error is a field whose default has no room for the defaults inside it.
    pub fn new(
        tool: &VirtualTool,
        fields: Option<&Fields<'_>>,
        hidden: &[FieldPath],
        fillings: &[Filling],
        shown: &Shown,
    ) -> Result<Input, FieldPath> {
        Ok(Input {
            top: build::level(tool, fields, hidden, &shown.forced, fillings)?,
            schema: shown.schema.to_json().into(),
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
        found.violation(Violation::Other("the arguments do not fit the schema".into()));
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
