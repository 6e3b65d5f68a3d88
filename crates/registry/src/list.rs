//! A plan meets a catalog: what is listed, under which name, with which schema.
//!
//! [`Plan::bind`] makes one immutable generation of [`Tools`]. All that a request needs later is prepared here once: the
//! definitions as bytes, the way from a caller's arguments to the source's ([`crate::call`]), the names. Who may see a tool, and
//! which prefix it gets among others, is decided by the gateway.

use crate::call::{self, Input, Refusal, Resume, Step};
use crate::compile::{Base, Filling, Plan, Quarantined, Unlisted, VirtualTool};
use crate::mask::Mask;
use crate::name::{FieldPath, TargetName, ToolName, identifier};
use crate::pin::{OnDrift, Pin};
use crate::problem::{Code, GUESSES, Problem, Severity, did_you_mean};
use crate::schema::{self, DefaultValue, Fields, Notice, Wanted};
use crate::source::{Catalog, Offer, ParamHeader, SourceTool, param_headers_of};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use transom_json::write::{self, Edit};
use transom_json::{Json, Key, Kind, Limits, Tree, check};

/// One generation of tools: immutable, made once per change, shared by all requests.
#[derive(Debug, Default)]
pub struct Tools {
    listed: Vec<Listed>,
    by_name: HashMap<ToolName, Slot>,
    /// (target, source tool) to the place in the list, for tools that pass through.
    passing: HashMap<TargetName, HashMap<ToolName, usize>>,
    standing: HashMap<TargetName, HashMap<ToolName, Vec<ToolName>>>,
    masks: HashMap<TargetName, Arc<Mask>>,
    quarantined: Vec<Quarantined>,
    problems: Vec<Problem>,
    validate_all: bool,
}

/// What a name leads to.
#[derive(Debug)]
enum Slot {
    Listed(usize),
    /// A virtual tool whose source is not there.
    Absent {
        target: TargetName,
        message: String,
    },
}

/// One tool as clients see it.
#[derive(Debug)]
pub struct Listed {
    name: ToolName,
    kind: Listing,
}

#[derive(Debug)]
enum Listing {
    Virtual(Arc<Bound>),
    Passing { target: TargetName, tool: Arc<SourceTool>, renamed: Option<String>, input: Option<Arc<Input>> },
}

/// A virtual tool over its source.
#[derive(Debug)]
pub(crate) struct Bound {
    pub tool: Arc<VirtualTool>,
    pub source: Option<Arc<SourceTool>>,
    pub input: Input,
    pub mask: Option<Arc<Mask>>,
    json: String,
    headers: Vec<ParamHeader>,
}

impl Plan {
    /// Binds the plan to what the targets offer now.
    #[doc(alias = "transform_tools")]
    pub fn bind(&self, catalog: &Catalog) -> Tools {
        self.bind_hiding(catalog, HashMap::new())
    }

    /// As [`bind`](Self::bind), where targets were given secrets that the registry does not know of: what hides them, by target.
    pub fn bind_hiding(&self, catalog: &Catalog, given: HashMap<TargetName, Arc<Mask>>) -> Tools {
        let mut masks = given;
        for (target, mask) in &self.masks {
            let both = masks.get(target).map_or_else(|| mask.clone(), |given| Arc::new(mask.and(given)));
            masks.insert(target.clone(), both);
        }
        let offers: HashMap<&str, Offered<'_>> = catalog.targets.iter().map(|offer| (offer.target.as_str(), Offered::new(offer))).collect();
        let mut tools = Tools { quarantined: self.quarantined.clone(), masks, validate_all: self.validate_all, ..Tools::default() };
        for tool in &self.tools {
            let mut binder = Binder { plan: self, masks: &tools.masks, tool, problems: &mut tools.problems, error: None };
            match binder.bind(&offers) {
                Outcome::Bound(bound) => tools.enter(tool, *bound),
                Outcome::Absent { target, message } => {
                    tools.by_name.insert(tool.name.clone(), Slot::Absent { target, message });
                }
                Outcome::Quarantined => {
                    let reason = binder.error.unwrap_or_default();
                    tools.quarantined.push(Quarantined { name: tool.name.to_string(), reason });
                }
            }
        }
        if self.unlisted == Unlisted::Show {
            tools.pass_through(self, catalog);
        }
        tools
    }
}

/// One target's offer, by the names of its tools.
struct Offered<'c> {
    available: bool,
    tools: HashMap<&'c str, &'c Arc<SourceTool>>,
}

impl<'c> Offered<'c> {
    fn new(offer: &'c Offer) -> Offered<'c> {
        let mut tools = HashMap::with_capacity(offer.tools.len());
        for tool in &offer.tools {
            // Of two tools with one name the first counts, as everywhere.
            tools.entry(tool.name.as_str()).or_insert(tool);
        }
        Offered { available: offer.available, tools }
    }
}

enum Outcome {
    Bound(Box<Bound>),
    Absent { target: TargetName, message: String },
    Quarantined,
}

/// Binds one tool.
struct Binder<'p> {
    plan: &'p Plan,
    masks: &'p HashMap<TargetName, Arc<Mask>>,
    tool: &'p Arc<VirtualTool>,
    problems: &'p mut Vec<Problem>,
    error: Option<String>,
}

impl Binder<'_> {
    fn bind(&mut self, offers: &HashMap<&str, Offered<'_>>) -> Outcome {
        match &self.tool.base {
            Base::Local(_) => {
                let schema = self.tool.parts.input_schema.clone();
                let schema = schema.as_deref().cloned().unwrap_or_else(Tree::object);
                self.shown(None, None, &schema)
            }
            Base::Source { target, tool } => {
                let absent =
                    |why: String| Outcome::Absent { target: target.clone(), message: format!("tool `{}` is unavailable: {why}", self.tool.name) };
                let source = match offers.get(&**target) {
                    None => return absent(format!("target `{target}` is not connected")),
                    Some(offer) if !offer.available => return absent(format!("target `{target}` is not connected")),
                    Some(offer) => match offer.tools.get(&**tool) {
                        Some(source) => *source,
                        None => {
                            let message = format!("tool `{}` stands on `{tool}`, which target `{target}` does not offer", self.tool.name);
                            let guess = (self.problems.len() < GUESSES).then(|| did_you_mean(tool, offer.tools.keys().copied())).flatten();
                            let help = guess.map(|near| format!("did you mean `{near}`?"));
                            let outcome = absent(format!("its source is missing at target `{target}`"));
                            self.warning(Code::MissingSource, self.tool.spot.source.clone(), message, "not offered", help);
                            return outcome;
                        }
                    },
                };
                self.check_pin(source);
                if self.error.is_some() {
                    return Outcome::Quarantined;
                }
                let schema = Json::trusted(&source.json).get("inputSchema").map_or_else(Tree::object, Tree::from);
                self.shown(Some(source), Some(target), &schema)
            }
        }
    }

    fn error(&mut self, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.error.get_or_insert_with(|| message.clone());
        self.problem(Severity::Error, code, span, message, label, help);
    }

    fn warning(&mut self, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.problem(Severity::Warning, code, span, message, label, help);
    }

    fn problem(&mut self, severity: Severity, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.problems.push(self.plan.place(self.tool).problem(severity, code, span, message, label, help));
    }

    fn check_pin(&mut self, source: &SourceTool) {
        let Some(expected) = self.tool.parts.pin else { return };
        let on_drift = self.tool.settings.on_drift.unwrap_or_default();
        if on_drift == OnDrift::Ignore || source.pin == expected {
            return;
        }
        let message = format!("tool `{}`: its source has changed: pinned as {expected}, now {}", self.tool.name, source.pin);
        let span = self.tool.spot.pin.clone().unwrap_or_else(|| self.tool.spot.source.clone());
        let help = Some("look at it with `transom diff --live`, then accept it with `transom pin`".into());
        let severity = if on_drift == OnDrift::Quarantine { Severity::Error } else { Severity::Warning };
        match severity {
            Severity::Error => self.error(Code::Drift, span, message, "no longer the source", help),
            Severity::Warning => self.warning(Code::Drift, span, message, "no longer the source", help),
        }
    }

    /// The tool as callers see it, over the schema of its source.
    fn shown(&mut self, source: Option<&Arc<SourceTool>>, target: Option<&TargetName>, schema: &Tree) -> Outcome {
        let parts = &self.tool.parts;
        let fields = Fields::of(schema);
        let meant = |path: &FieldPath| fields.as_ref().map_or_else(|| path.clone(), |fields| fields.meant(path));
        let fillings: Vec<Filling> = parts.defaults.iter().map(|filling| Filling { path: meant(&filling.path), ..filling.clone() }).collect();
        let fillings: Vec<Filling> = fillings.iter().map(|filling| self.converted(filling, fields.as_ref())).collect();
        if self.error.is_some() {
            return Outcome::Quarantined;
        }
        // What the path would lead to stays hidden where a field has the path for a name: it could be meant, and a source may take anything there.
        let otherwise: Vec<&FieldPath> = parts.hidden.iter().map(|(path, _)| path).filter(|path| meant(path) != **path).collect();
        let hidden: Vec<FieldPath> = parts.hidden.iter().map(|(path, _)| meant(path)).chain(otherwise.iter().copied().cloned()).collect();
        let defaults: Vec<DefaultValue<'_>> =
            fillings.iter().map(|filling| DefaultValue { path: &filling.path, value: (!filling.secret).then_some(&*filling.value) }).collect();
        let wanted = Wanted {
            source: schema,
            replacement: source.and(parts.input_schema.as_deref()),
            renames: &parts.renames,
            hidden: &hidden,
            defaults: &defaults,
            hide_defaulted: self.tool.settings.hide_defaulted.unwrap_or_default(),
        };
        let shown = match schema::show(&wanted) {
            Ok(shown) => shown,
            Err(cannot) => {
                let span = match &cannot {
                    schema::CannotShow::RequiredHidden { field } | schema::CannotShow::SecretInHeader { field } => self.tool.place_of(field),
                    _ => self.tool.spot.input_schema.clone().unwrap_or_else(|| self.tool.spot.source.clone()),
                };
                let message = format!("tool `{}`: {cannot}", self.tool.name);
                self.error(Code::CannotHide, span, message, "cannot be shown", cannot.help());
                return Outcome::Quarantined;
            }
        };
        for notice in &shown.notices {
            if !matches!(notice, schema::Notice::NothingToHide { field, .. } if otherwise.contains(&field)) {
                self.notice(notice);
            }
        }
        let input = match Input::new(self.tool, fields.as_ref(), &hidden, &fillings, &shown) {
            Ok(input) => input,
            Err(field) => {
                let message =
                    format!("tool `{}`: `{field}` has a default inside it, but its own default is neither an object nor a list", self.tool.name);
                self.error(Code::BadDefault, self.tool.place_of(&field), message, "not an object", None);
                return Outcome::Quarantined;
            }
        };
        if self.error.is_some() {
            return Outcome::Quarantined;
        }
        let schema_text = input.schema().to_owned();
        let json = definition(self.tool, source.map(|source| Json::trusted(&source.json)), &schema_text);
        let headers = if schema_text.contains("x-mcp-header") { param_headers_of(&schema_text) } else { Vec::new() };
        let mask = target.and_then(|target| self.masks.get(target)).cloned();
        Outcome::Bound(Box::new(Bound { tool: self.tool.clone(), source: source.cloned(), input, mask, json, headers }))
    }

    fn notice(&mut self, notice: &Notice) {
        let (code, span) = match notice {
            Notice::NothingToHide { field, .. } => (Code::UnknownField, self.tool.place_of(field)),
            Notice::NothingToRename { .. } => (Code::UnknownField, self.tool.spot.source.clone()),
            Notice::Unmet { field } | Notice::Refused { field } | Notice::OtherType { field, .. } => {
                let at = self.tool.place_of(field);
                let at = if at == self.tool.spot.source { self.tool.spot.input_schema.clone().unwrap_or(at) } else { at };
                (Code::Incompatible, at)
            }
        };
        let message = format!("tool `{}`: {notice}", self.tool.name);
        if self.plan.strict && notice.is_incompatible() {
            self.error(code, span, message, "the source cannot take this", notice.help());
        } else {
            self.warning(code, span, message, if notice.is_incompatible() { "the source cannot take this" } else { "no such field" }, notice.help());
        }
    }

    /// A value that was one placeholder becomes what the source's type asks for.
    fn converted(&mut self, filling: &Filling, fields: Option<&Fields<'_>>) -> Filling {
        let Some(text) = filling.value.as_str().filter(|_| filling.convertible) else { return filling.clone() };
        let Some(types) = fields.and_then(|fields| fields.types(&filling.path)) else { return filling.clone() };
        if types.contains(&"string") {
            return filling.clone();
        }
        let wanted: Vec<&str> = types.into_iter().filter(|name| matches!(*name, "integer" | "number" | "boolean")).collect();
        if wanted.is_empty() {
            return filling.clone();
        }
        match wanted.iter().find_map(|name| read_as(text, name)) {
            Some(value) => Filling { value: Arc::new(value), ..filling.clone() },
            None => {
                // The value is a secret: not a character of it may be told.
                let message = format!(
                    "tool `{}`: the value for `{}` is not of type {}, which the source wants",
                    self.tool.name,
                    filling.path,
                    wanted.join(" or ")
                );
                self.error(
                    Code::BadDefault,
                    self.tool.place_of(&filling.path),
                    message,
                    "cannot be converted",
                    Some("correct the variable or the file".into()),
                );
                filling.clone()
            }
        }
    }
}

/// A text as a value of this type, if it is exactly one.
pub(crate) fn read_as(text: &str, name: &str) -> Option<Tree> {
    match name {
        "boolean" => match text {
            "true" => Some(Tree::Bool(true)),
            "false" => Some(Tree::Bool(false)),
            _ => None,
        },
        _ => {
            let json = check(text.as_bytes(), &Limits::REQUEST).ok().filter(|json| json.kind() == Kind::Number && json.raw() == text)?;
            let whole = !json.raw().contains(['.', 'e', 'E']);
            (whole || name == "number").then(|| Tree::Number(json.raw().into()))
        }
    }
}

/// The definition as listed: what the entry says, the rest as the source wrote it.
fn definition(tool: &VirtualTool, source: Option<Json<'_>>, schema: &str) -> String {
    let parts = &tool.parts;
    // Walked once: schemas are long, and every look at a member passes those before it.
    let members: Vec<(Key<'_>, Json<'_>)> = source.into_iter().flat_map(Json::members).collect();
    let of_source = |name: &str| members.iter().find(|(key, _)| key.is(name)).map(|(_, value)| *value);
    let own_title = parts.title.as_deref().map(write::quoted);
    let title = || parts.title.clone().or_else(|| of_source("title").and_then(Json::string).map(Into::into));
    let description = match &parts.description {
        Some(text) => Some(write::quoted(text)),
        // Of a listing every client may expect a description.
        None => match of_source("description").and_then(Json::string) {
            Some(text) if !text.is_empty() => None,
            _ => Some(write::quoted(&title().unwrap_or_default())),
        },
    };
    let name = write::quoted(&tool.name);
    let output = parts.output.as_ref().map(|output| output.advertised.as_str());
    let reshaped = tool.projection.is_some() || output.is_some();
    let set: [(&str, Option<&str>); 6] = [
        ("name", Some(&name)),
        ("title", own_title.as_deref()),
        ("description", description.as_deref()),
        ("inputSchema", Some(schema)),
        ("outputSchema", output),
        ("annotations", parts.annotations.as_deref()),
    ];
    let edit = |key: Key<'_>| match set.iter().find(|(name, _)| key.is(name)) {
        Some((_, Some(value))) => Edit::Set(value.as_bytes()),
        Some(("outputSchema", None)) if reshaped => Edit::Drop,
        _ => Edit::Keep,
    };
    let added: Vec<(&str, &[u8])> =
        set.iter().filter(|(name, _)| of_source(name).is_none()).filter_map(|(name, value)| Some((*name, (*value)?.as_bytes()))).collect();
    let kept = members.iter().map(|(key, value)| (*key, *value, edit(*key)));
    let room = source.map_or(0, |source| source.raw().len()) + schema.len();
    String::from_utf8(write::object_of(kept, &added, room)).unwrap_or_default()
}

impl Tools {
    /// All tools: virtual ones in the order of the registry, then those that pass through in the order of the catalog.
    pub fn list(&self) -> impl ExactSizeIterator<Item = &Listed> {
        self.listed.iter()
    }

    /// A listed tool by the name it is listed under.
    pub fn get(&self, name: &str) -> Option<&Listed> {
        match self.by_name.get(name)? {
            Slot::Listed(at) => self.listed.get(*at),
            Slot::Absent { .. } => None,
        }
    }

    /// Where the source of a virtual tool is missing, and the sentence for its callers.
    pub fn absence(&self, name: &str) -> Option<(&str, &str)> {
        match self.by_name.get(name)? {
            Slot::Absent { target, message } => Some((target, message)),
            Slot::Listed(_) => None,
        }
    }

    /// What only showed when the plan met the catalog.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The virtual tools that are out, for whichever reason.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// The virtual tools of this generation that stand on a source.
    pub fn names_of(&self, target: &str, tool: &str) -> &[ToolName] {
        self.standing.get(target).and_then(|tools| tools.get(tool)).map_or(&[], Vec::as_slice)
    }

    /// What hides the secrets that were sent to a target in all that comes back from it.
    pub fn mask(&self, target: &str) -> Option<&Arc<Mask>> {
        self.masks.get(target)
    }

    /// Begins a call of a listed tool.
    #[doc(alias = "prepare_call_args")]
    pub fn call(&self, name: &str, arguments: Option<Json<'_>>) -> Result<Step, Refusal> {
        match self.by_name.get(name) {
            Some(Slot::Listed(at)) => self.listed.get(*at).map_or(Err(Refusal::UnknownTool), |listed| self.begin(listed, arguments)),
            Some(Slot::Absent { target, message }) => Err(Refusal::Unavailable { target: target.clone(), message: message.clone() }),
            None => Err(Refusal::UnknownTool),
        }
    }

    /// Begins a call of a tool that passes through, by its target and the target's own name: for those who have names of their
    /// own for such tools.
    pub fn call_source(&self, target: &str, tool: &str, arguments: Option<Json<'_>>) -> Result<Step, Refusal> {
        let at = self.passing.get(target).and_then(|tools| tools.get(tool)).ok_or(Refusal::UnknownTool)?;
        self.listed.get(*at).map_or(Err(Refusal::UnknownTool), |listed| self.begin(listed, arguments))
    }

    /// What becomes of a result of a virtual tool that is listed, for results that come without a call.
    pub fn resume_of(&self, name: &str) -> Option<Resume> {
        let Slot::Listed(at) = self.by_name.get(name)? else { return None };
        match &self.listed.get(*at)?.kind {
            Listing::Virtual(bound) => Some(Resume::of(bound)),
            Listing::Passing { .. } => None,
        }
    }

    fn begin(&self, listed: &Listed, arguments: Option<Json<'_>>) -> Result<Step, Refusal> {
        match &listed.kind {
            Listing::Virtual(bound) => call::begin(bound, arguments),
            Listing::Passing { target, tool, input, .. } => {
                let resume = Resume::passing(self.masks.get(target).cloned());
                call::pass(target, tool, input.as_deref(), arguments, resume)
            }
        }
    }

    fn enter(&mut self, tool: &VirtualTool, bound: Bound) {
        if let Base::Source { target, tool: source } = &tool.base {
            self.standing.entry(target.clone()).or_default().entry(source.clone()).or_default().push(tool.name.clone());
        }
        self.by_name.insert(tool.name.clone(), Slot::Listed(self.listed.len()));
        self.listed.push(Listed { name: tool.name.clone(), kind: Listing::Virtual(Arc::new(bound)) });
    }

    /// All that no virtual tool stands on, under its own name where that is free.
    fn pass_through(&mut self, plan: &Plan, catalog: &Catalog) {
        // The name of a tool in quarantine stays its own: callers must not reach something else under it.
        let reserved: HashSet<&str> = plan.tools().map(VirtualTool::name).chain(plan.quarantined.iter().map(|tool| tool.name.as_str())).collect();
        let mut warned: HashSet<&str> = HashSet::new();
        let mut offered: HashMap<&str, usize> = HashMap::new();
        for offer in &catalog.targets {
            for tool in offer.tools.iter().filter(|tool| !plan.is_withdrawn(&offer.target, &tool.name)) {
                *offered.entry(&tool.name).or_default() += 1;
            }
        }
        for offer in catalog.targets.iter().filter(|offer| offer.available) {
            let target = TargetName::new(&offer.target);
            for tool in offer.tools.iter().filter(|tool| !plan.is_withdrawn(&offer.target, &tool.name)) {
                if let Some(shadowing) = plan.get_tool(&tool.name).filter(|shadowing| warned.insert(shadowing.name())) {
                    self.shadowed(plan, shadowing, &offer.target);
                }
                let alone = !reserved.contains(tool.name.as_str()) && offered.get(tool.name.as_str()) == Some(&1);
                let name = if alone { ToolName::new(&tool.name) } else { ToolName::new(&format!("{}__{}", identifier(&offer.target), tool.name)) };
                if self.by_name.contains_key(&*name) {
                    continue;
                }
                let renamed = (!alone).then(|| renamed(tool, &name));
                let input = self.validate_all.then(|| Arc::new(Input::open(&tool.json)));
                self.passing.entry(target.clone()).or_default().insert(ToolName::new(&tool.name), self.listed.len());
                self.by_name.insert(name.clone(), Slot::Listed(self.listed.len()));
                self.listed.push(Listed { name, kind: Listing::Passing { target: target.clone(), tool: tool.clone(), renamed, input } });
            }
        }
    }

    /// R-003-62: the virtual tool wins, and one warning says so.
    fn shadowed(&mut self, plan: &Plan, tool: &VirtualTool, target: &str) {
        let message =
            format!("tool `{}` has the name of a tool of target `{target}`, which is now `{}__{}`", tool.name, identifier(target), tool.name);
        let help = Some("choose another name if both are meant to be seen".into());
        self.problems.push(plan.place(tool).problem(
            Severity::Warning,
            Code::Shadowed,
            tool.spot.name.clone(),
            message,
            "wins over the target's tool",
            help,
        ));
    }
}

/// A definition under another name.
fn renamed(tool: &SourceTool, name: &str) -> String {
    let name = write::quoted(name);
    let edit = |key: Key<'_>, _: Json<'_>| if key.is("name") { Edit::Set(name.as_bytes()) } else { Edit::Keep };
    String::from_utf8(write::edited(Json::trusted(&tool.json), edit, &[])).unwrap_or_default()
}

impl Listed {
    /// The name it is listed under, before any prefix the gateway gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its target; a local tool has none.
    pub fn target(&self) -> Option<&str> {
        match &self.kind {
            Listing::Virtual(bound) => bound.tool.source().map(|(target, _)| target),
            Listing::Passing { target, .. } => Some(target),
        }
    }

    /// The target's own name for it; a local tool has none.
    pub fn source(&self) -> Option<&str> {
        match &self.kind {
            Listing::Virtual(bound) => bound.tool.source().map(|(_, source)| source),
            Listing::Passing { tool, .. } => Some(&tool.name),
        }
    }

    /// The virtual tool that it is; a tool that passes through is none.
    pub fn virtual_tool(&self) -> Option<&Arc<VirtualTool>> {
        match &self.kind {
            Listing::Virtual(bound) => Some(&bound.tool),
            Listing::Passing { .. } => None,
        }
    }

    /// The definition as listed.
    pub fn json(&self) -> &str {
        match &self.kind {
            Listing::Virtual(bound) => &bound.json,
            Listing::Passing { tool, renamed, .. } => renamed.as_deref().unwrap_or(&tool.json),
        }
    }

    /// The arguments, as callers know them, that travel as headers too.
    pub fn headers(&self) -> &[ParamHeader] {
        match &self.kind {
            Listing::Virtual(bound) => &bound.headers,
            Listing::Passing { tool, .. } => &tool.headers,
        }
    }

    /// The pin of its source as it is now; a local tool has none.
    pub fn pin(&self) -> Option<Pin> {
        match &self.kind {
            Listing::Virtual(bound) => bound.source.as_ref().map(|source| source.pin),
            Listing::Passing { tool, .. } => Some(tool.pin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{catalog, compiled, compiled_with, registry, sent, source, tool};
    use crate::{Compiled, Options};

    const SCHEMA: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"api_key":{"type":"string"}},"required":["city","api_key"]}"#;

    fn names(tools: &Tools) -> Vec<&str> {
        tools.list().map(Listed::name).collect()
    }

    // S7, S8, R-003-11: what the entry does not say stays as the source wrote it, to the byte
    #[test]
    fn a_listing_is_the_entry_over_the_untouched_source() {
        let source = r#"{"name":"s","title":"T","description":"D","icons":[ {"src":"x"} ],"inputSchema":{"type":"object","properties":{"n":{"maximum":1.0}}},"_meta":{"k":18446744073709551616},"execution":{},"annotations":{"readOnlyHint":false},"outputSchema":{"type":"object"}}"#;
        for (members, expected) in [
            (
                "",
                r#"{"name":"t","title":"T","description":"D","icons":[ {"src":"x"} ],"inputSchema":{"type":"object","properties":{"n":{"maximum":1.0}}},"_meta":{"k":18446744073709551616},"execution":{},"annotations":{"readOnlyHint":false},"outputSchema":{"type":"object"}}"#,
            ),
            (
                r#","title":"New","description":"Über\n","annotations":{ "readOnlyHint": true }"#,
                r#"{"name":"t","title":"New","description":"Über\n","icons":[ {"src":"x"} ],"inputSchema":{"type":"object","properties":{"n":{"maximum":1.0}}},"_meta":{"k":18446744073709551616},"execution":{},"annotations":{ "readOnlyHint": true },"outputSchema":{"type":"object"}}"#,
            ),
            (
                r#","outputSchema":{"properties":{"a":{"type":"number","sourceField":"$.x"}}}"#,
                r#"{"name":"t","title":"T","description":"D","icons":[ {"src":"x"} ],"inputSchema":{"type":"object","properties":{"n":{"maximum":1.0}}},"_meta":{"k":18446744073709551616},"execution":{},"annotations":{"readOnlyHint":false},"outputSchema":{"properties":{"a":{"type":"number"}}}}"#,
            ),
        ] {
            let text = registry(&[&format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}}{members}}}"#)]);
            let tools = compiled(&text).plan.bind(&catalog(&[("w", &[source])]));
            let listed = tools.get("t").unwrap().json();
            // A schema that is advertised says that it is an object where it has to.
            assert_eq!(listed.replace(r#""outputSchema":{"type":"object","properties""#, r#""outputSchema":{"properties""#), expected, "{members}");
        }
    }

    // G3: a target that shows one face and then another is compared with the pin each time
    #[test]
    fn every_catalog_is_compared_with_the_pin_anew() {
        const PIN: &str = "sha256:1e92b51e492159f46fbd3ea2628ce4db85a71e96fc76b1d908550d07d3c7e19f";
        let text = registry(&[&format!(r#"{{"name":"t","source":{{"target":"w","tool":"test"}},"expectedSourceHash":"{PIN}"}}"#)]);
        let plan = compiled(&text).plan;
        let pinned = r#"{"name":"test","description":"A test","inputSchema":{"type":"object"}}"#;
        let other = r#"{"name":"test","description":"A test","inputSchema":{"type":"object","properties":{"bcc":{}}}}"#;
        for (source, listed) in [(pinned, true), (other, false), (pinned, true)] {
            let tools = plan.bind(&catalog(&[("w", &[source])]));
            assert_eq!(tools.get("t").is_some(), listed);
            assert_eq!(tools.call("t", None).is_ok(), listed);
            assert_eq!(tools.call("test", None).unwrap_err(), Refusal::UnknownTool, "the source is withdrawn either way");
        }
    }

    // registry.md 3, R-004-14
    #[test]
    fn a_listing_always_carries_a_description() {
        let listed = |source: &str, members: &str| {
            let text = registry(&[&format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}}{members}}}"#)]);
            let tools = compiled(&text).plan.bind(&catalog(&[("w", &[source])]));
            Json::trusted(tools.get("t").unwrap().json()).get("description").and_then(Json::string).map(|text| text.into_owned())
        };
        assert_eq!(listed(r#"{"name":"s","title":"Source"}"#, "").as_deref(), Some("Source"));
        assert_eq!(listed(r#"{"name":"s"}"#, r#","title":"Entry""#).as_deref(), Some("Entry"));
        assert_eq!(listed(r#"{"name":"s"}"#, "").as_deref(), Some(""));
    }

    // R-003-36, R-003-37, N11, N12: withdrawn is withdrawn, by a quarantined tool too
    #[test]
    fn sources_are_withdrawn_and_the_rest_passes_through_in_order() {
        let offers = catalog(&[
            ("b", &[r#"{"name":"raw","description":""}"#, r#"{"name":"other","description":"o"}"#, r#"{"name":"shown","description":""}"#]),
            ("a", &[r#"{"name":"broken_raw","description":""}"#, r#"{"name":"more","description":"m"}"#]),
        ]);
        let compiled = compiled(&registry(&[
            r#"{"name":"two","source":{"target":"b","tool":"raw"}}"#,
            r#"{"name":"one","source":{"target":"b","tool":"raw"}}"#,
            r#"{"name":"beside","source":{"target":"b","tool":"shown"},"exposeSource":true}"#,
            r#"{"name":"broken","source":{"target":"a","tool":"broken_raw"},"defaults":{"k":"${MISSING}"}}"#,
        ]));
        let tools = compiled.plan.bind(&offers);
        assert_eq!(names(&tools), ["two", "one", "beside", "other", "shown", "more"]);
        assert_eq!(tools.names_of("b", "raw"), ["two", "one"]);
        assert_eq!(tools.quarantined().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["broken"]);
        for name in ["raw", "broken_raw", "broken", "b__raw", "nothing"] {
            assert_eq!(tools.call(name, None).unwrap_err(), Refusal::UnknownTool, "{name}");
        }
        for (target, name) in [("b", "raw"), ("a", "broken_raw"), ("zzz", "raw")] {
            assert_eq!(tools.call_source(target, name, None).unwrap_err(), Refusal::UnknownTool);
        }
        assert_eq!(tools.get("other").unwrap().json(), r#"{"name":"other","description":"o","inputSchema":{"type":"object"}}"#);
    }

    #[test]
    fn unlisted_tools_can_be_hidden() {
        let options = Options { unlisted: Unlisted::Hide, ..Options::default() };
        let text = registry(&[r#"{"name":"t","source":{"target":"w","tool":"a"}}"#]);
        let offers = catalog(&[("w", &[r#"{"name":"a"}"#, r#"{"name":"b"}"#])]);
        let tools = compiled_with(&text, &options).unwrap().plan.bind(&offers);
        assert_eq!(names(&tools), ["t"]);
        assert_eq!(tools.call("b", None).unwrap_err(), Refusal::UnknownTool);
    }

    // R-003-62, N3
    #[test]
    fn a_virtual_tool_wins_over_a_target_tool_of_its_name_with_one_warning() {
        let text = registry(&[r#"{"name":"search","source":{"target":"w","tool":"find"}}"#]);
        let offers =
            catalog(&[("w", &[r#"{"name":"find"}"#]), ("x-y", &[r#"{"name":"search"}"#, r#"{"name":"same"}"#]), ("z", &[r#"{"name":"same"}"#])]);
        let tools = compiled(&text).plan.bind(&offers);
        assert_eq!(names(&tools), ["search", "x_y__search", "x_y__same", "z__same"]);
        let [problem] = tools.problems() else { panic!("{:?}", tools.problems()) };
        assert_eq!((problem.code, text.get(problem.span.clone())), (Code::Shadowed, Some(r#""search""#)));
        assert!(tools.get("x_y__search").unwrap().json().starts_with(r#"{"name":"x_y__search""#));
        assert_eq!(tools.get("search").unwrap().source(), Some("find"));
    }

    // N14
    #[test]
    fn a_tool_without_its_source_is_not_listed_and_says_why() {
        let text = registry(&[r#"{"name":"t","source":{"target":"w","tool":"fetch"}}"#]);
        let Compiled { plan, .. } = compiled(&text);
        let mut down = catalog(&[("w", &[r#"{"name":"fetch"}"#])]);
        down.targets[0].available = false;
        for (offers, message, problems) in [
            (Catalog::default(), "target `w` is not connected", 0),
            (down, "target `w` is not connected", 0),
            (catalog(&[("w", &[r#"{"name":"fetsh"}"#])]), "its source is missing at target `w`", 1),
        ] {
            let tools = plan.bind(&offers);
            assert!(!names(&tools).contains(&"t"));
            let Err(Refusal::Unavailable { message: said, .. }) = tools.call("t", None) else { panic!() };
            assert!(said.contains(message), "{said}");
            assert_eq!(tools.problems().len(), problems);
        }
        let missing = plan.bind(&catalog(&[("w", &[r#"{"name":"fetsh"}"#])]));
        assert_eq!(missing.problems()[0].help.as_deref(), Some("did you mean `fetsh`?"));
    }

    // registry.md 5: a lone placeholder takes the type of the source
    #[test]
    fn a_lone_placeholder_becomes_what_the_source_wants() {
        let schema = |kind: &str| format!(r#"{{"type":"object","properties":{{"f":{{"type":{kind}}}}}}}"#);
        for (kind, value, expected) in [
            (r#""integer""#, "${TIMEOUT}", Some("30")),
            (r#""number""#, "${RATIO}", Some("0.50")),
            (r#""boolean""#, "${FLAG}", Some("true")),
            (r#""string""#, "${TIMEOUT}", Some(r#""30""#)),
            (r#"["string","integer"]"#, "${TIMEOUT}", Some(r#""30""#)),
            (r#"["integer","null"]"#, "${TIMEOUT}", Some("30")),
            (r#""integer""#, "${WORD}", None),
            (r#""integer""#, "${RATIO}", None),
            (r#""boolean""#, "${TIMEOUT}", None),
            (r#""integer""#, "${EMPTY}", None),
        ] {
            let text =
                registry(&[&format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}},"hideFields":["f"],"defaults":{{"f":"{value}"}}}}"#)]);
            let tools = compiled(&text).plan.bind(&source(&schema(kind)));
            match expected {
                Some(expected) => assert_eq!(sent(&tools, "t", "{}"), Ok(format!(r#"{{"f":{expected}}}"#)), "{kind} {value}"),
                None => {
                    let problem = &tools.problems()[0];
                    assert_eq!((problem.code, problem.pointer.as_str()), (Code::BadDefault, "/tools/0/defaults/f"));
                    assert!(!problem.message.contains("abc") && !problem.message.contains("0.50"), "{problem:?}");
                    assert_eq!(tools.quarantined().len(), 1);
                }
            }
        }
    }

    // V8, V9, V14, G1
    #[test]
    fn a_source_that_drifted_is_handled_as_the_tool_says() {
        let offers = source(SCHEMA);
        let pin = offers.targets[0].tools[0].pin;
        let wrong = format!("sha256:{}", "0".repeat(64));
        for (hash, mode, listed, problems) in [
            (pin.to_string(), "", true, 0),
            (wrong.clone(), "", false, 1),
            (wrong.clone(), r#","onDrift":"quarantine""#, false, 1),
            (wrong.clone(), r#","onDrift":"warn""#, true, 1),
            (wrong.clone(), r#","onDrift":"ignore""#, true, 0),
        ] {
            let text = registry(&[
                &format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}},"expectedSourceHash":"{hash}"{mode}}}"#),
                r#"{"name":"child","source":"t"}"#,
            ]);
            let tools = compiled(&text).plan.bind(&offers);
            assert_eq!((tools.get("t").is_some(), tools.get("child").is_some()), (listed, listed), "{hash} {mode}");
            assert_eq!(tools.problems().len(), problems * 2, "{mode}");
            assert_eq!(tools.quarantined().len(), if listed { 0 } else { 2 });
            assert!(!names(&tools).contains(&"s"));
            if let Some(problem) = tools.problems().first() {
                assert!(problem.message.contains(&pin.to_string()) && problem.message.contains(&wrong));
                assert_eq!(text.get(problem.span.clone()), Some(format!("\"{wrong}\"").as_str()));
            }
        }
    }

    // S4, S34, R-003-49, R-003-64: hides and overrides over a catalog
    #[test]
    fn hides_and_overrides_are_judged_against_the_source() {
        for (members, options, code, place, quarantined) in [
            (r#""hideFields":["nope"]"#, Options::default(), Code::UnknownField, r#""nope""#, false),
            (r#""hideFields":["api_key"]"#, Options::default(), Code::CannotHide, r#""api_key""#, true),
            (
                r#""inputSchema":{"type":"object","properties":{"city":{"type":"string"}}}"#,
                Options::default(),
                Code::Incompatible,
                r#"{"type":"object","properties":{"city":{"type":"string"}}}"#,
                false,
            ),
            (
                r#""inputSchema":{"type":"object","properties":{"city":{"type":"string"}}}"#,
                Options { strict: true, ..Options::default() },
                Code::Incompatible,
                r#"{"type":"object","properties":{"city":{"type":"string"}}}"#,
                true,
            ),
        ] {
            let text = registry(&[&format!(r#"{{"name":"t","source":{{"target":"w","tool":"s"}},{members}}}"#)]);
            let tools = compiled_with(&text, &options).unwrap().plan.bind(&source(SCHEMA));
            let [problem] = tools.problems() else { panic!("{members}: {:?}", tools.problems()) };
            assert_eq!((problem.code, text.get(problem.span.clone())), (code, Some(place)), "{problem:?}");
            assert_eq!(tools.quarantined().len(), usize::from(quarantined), "{members}");
            assert!(problem.message.starts_with("tool `t`: "));
        }
    }

    // S9, D1: what came from the environment is shown nowhere
    #[test]
    fn defaults_are_shown_unless_they_are_secret() {
        let tools = tool(SCHEMA, r#""defaults":{"city":"Oslo","api_key":"${KEY}"}"#);
        let listed = tools.get("t").unwrap().json();
        assert!(listed.contains(r#""default":"Oslo""#) && !listed.contains("k-1234567890"), "{listed}");
        assert!(!listed.contains("required"), "{listed}");
        let tools = tool(SCHEMA, r#""hideDefaulted":true,"defaults":{"api_key":"${KEY}"}"#);
        let listed = tools.get("t").unwrap().json();
        assert!(!listed.contains("api_key") && listed.contains(r#""required":["city"]"#), "{listed}");
        assert_eq!(sent(&tools, "t", r#"{"city":"X"}"#).as_deref(), Ok(r#"{"city":"X","api_key":"k-1234567890"}"#));
    }

    // A10
    #[test]
    fn arguments_that_are_headers_are_known_by_their_exposed_names() {
        let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"q":{}}}"#;
        let tools = tool(schema, r#""arguments":{"area":{"source":"region"}}"#);
        let headers: Vec<_> = tools.get("t").unwrap().headers().iter().map(|header| (header.name.as_str(), header.path.join("."))).collect();
        assert_eq!(headers, [("Region", "area".to_owned())]);
        let Ok(Step::Call(call)) = tools.call("t", None) else { panic!() };
        assert_eq!(call.headers()[0].path, ["region"]);
        let text = registry(&[r#"{"name":"t","source":{"target":"w","tool":"s"},"hideFields":["region"],"defaults":{"region":"${KEY}"}}"#]);
        let tools = compiled(&text).plan.bind(&source(schema));
        assert_eq!(tools.quarantined().len(), 1, "{:?}", tools.problems());
    }
}
