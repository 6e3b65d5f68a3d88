//! What one entry of a registry says by itself, before anything that it stands on is known.

use super::Compiler;
use super::plan::{Base, Filling, Output, Parts};
use crate::file::{OutputSchema, Place, Settings, Text, ToolSource, VirtualToolDef};
use crate::local::{self, Implementation};
use crate::name::{FieldPath, TargetName, ToolName};
use crate::problem::{Code, did_you_mean};
use crate::result::advertised;
use crate::schema::{BadReference, Rename, resolve_named};
use crate::secret::Secret;
use crate::source::plain;
use crate::template::{self, BadPlaceholder, Fault};
use std::ops::Range;
use std::sync::Arc;
use transom_json::{Json, Kind, Object, Tree};

/// A tool on its way: what it says itself.
pub(super) struct Draft<'d> {
    pub(super) def: &'d VirtualToolDef<'d>,
    pub(super) place: Place<'d>,
    pub(super) parts: Parts,
    pub(super) base: Option<Base>,
    /// On how many other tools it stands.
    pub(super) depth: usize,
    pub(super) settings: Settings,
    /// The values it took from the environment or a file.
    pub(super) secrets: Vec<Secret>,
    /// The first thing that is wrong with it.
    pub(super) error: Option<String>,
}

impl<'d> Compiler<'d, '_> {
    /// What one entry says by itself.
    pub(super) fn draft(&mut self, document: usize, def: &'d VirtualToolDef<'d>, schema_version: &str) -> Draft<'d> {
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
    pub(super) fn afford(&mut self, draft: &mut Draft<'d>, parts: usize, at: Range<usize>) -> bool {
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
                    found.secrets.extend(expanded.read.into_iter().map(|(_, value)| Secret::new(value)));
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
}

/// What was found in one default.
#[derive(Default)]
struct Found {
    secret: bool,
    secrets: Vec<Secret>,
}

/// How many values a tree has. As deep as a document, which is bounded.
fn parts_of(tree: &Tree) -> usize {
    1 + match tree {
        Tree::Array(elements) => elements.iter().map(parts_of).sum(),
        Tree::Object(members) => members.values().map(parts_of).sum(),
        _ => 0,
    }
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

/// The tool a message is about.
pub(super) fn subject(draft: &Draft<'_>) -> String {
    match &draft.place.tool {
        Some(name) if name.len() <= 128 => format!("tool `{name}`"),
        _ => format!("the tool at `{}`", draft.place.base),
    }
}

pub(super) fn name_span(draft: &Draft<'_>) -> Range<usize> {
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
pub(super) fn at_pointer<'d>(json: Json<'d>, pointer: &str) -> Json<'d> {
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
