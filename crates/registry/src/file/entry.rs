//! One entry of `tools`, in every spelling that is accepted.

use super::reader::Reader;
use super::words::{ARGUMENT_KEYS, IMPLEMENTATION_KEYS, SCHEMA_WORDS, SOURCE_KEYS, TOOL_KEYS};
use super::{Argument, FIELDS, HiddenArguments, OutputField, OutputSchema, Settings, Text, ToolSource, VirtualToolDef, kind, shortened};
use crate::name::{is_portable, is_sound};
use crate::pin::OnDrift;
use crate::problem::{Code, did_you_mean};
use crate::result::{Errors, OnMissing, OnUnshaped, PATH_WORDS, SCHEMAS};
use transom_json::{Json, Key, Kind};

impl<'d> Reader<'d, '_> {
    /// One entry.
    pub(super) fn tool(&mut self, json: Json<'d>, index: usize) -> VirtualToolDef<'d> {
        let mut tool = VirtualToolDef {
            json,
            index,
            name: None,
            source: None,
            implementation: None,
            title: None,
            description: None,
            annotations: None,
            input_schema: None,
            arguments: Vec::new(),
            defaults: Vec::new(),
            hide_fields: Vec::new(),
            output: None,
            version: None,
            tags: Vec::new(),
            metadata: None,
            expected_source_hash: None,
            expose_source: false,
            settings: Settings::default(),
            error: None,
        };
        if json.kind() != Kind::Object {
            let message = format!("{} is {}, not an object", self.subject(), kind(json));
            self.error(Code::BadValue, self.span(json), message, "a tool goes here", Some(r#"write {"name": "…", "source": {…}}"#.into()));
            tool.error = self.failed.take();
            return tool;
        }
        self.name(json, &mut tool);
        for (key, value) in json.members() {
            self.member(key, value, &mut tool);
        }
        self.source(json, &mut tool);
        tool.error = self.failed.take();
        tool
    }

    fn name(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(name) = json.get("name") else {
            let start = self.span(json).start;
            let help = Some("every tool needs a `name` of its own".into());
            self.error(Code::MissingKey, start..start + 1, format!("{} has no `name`", self.subject()), "`name` is missing", help);
            return;
        };
        let Some(name) = self.text(name, "name") else { return };
        if !is_sound(&name.text) {
            let message = format!("{}: this cannot be the name of a tool", self.subject());
            let help = "1 to 128 bytes, no blanks around it, no control, invisible or direction-changing characters";
            self.error(Code::BadName, name.at.clone(), message, "not a name", Some(help.into()));
        } else if !is_portable(&name.text) {
            let message = format!("{}: some LLM providers refuse this name", self.subject());
            let help = "at most 64 letters, digits, `_` and `-` please all of them";
            self.warning(Code::BadName, name.at.clone(), message, "not a name everywhere", Some(help.into()));
        }
        tool.name = Some(name);
    }

    /// Everything of an entry but its name and its source, which are read as a whole.
    fn member(&mut self, key: Key<'d>, value: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let name = key.text();
        let what = &*name;
        // An explicit null is how programs write that they have nothing to say. Only `onMissing` has a meaning for it.
        if value.kind() == Kind::Null && what != "onMissing" && TOOL_KEYS.contains(&what) {
            return;
        }
        match what {
            "name" | "source" | "server" | "originalName" => {}
            "type" => {
                self.word(value, what, &[("function", ())]);
            }
            // Read together with the implementation.
            "handler" => {
                self.text(value, what);
            }
            "implementation" => {
                tool.implementation = self.object(value, what);
                for (key, _) in value.members() {
                    let name = key.text();
                    if !IMPLEMENTATION_KEYS.contains(&&*name)
                        && let Some(near) = did_you_mean(&name, IMPLEMENTATION_KEYS.iter().copied())
                    {
                        self.misspelled(key, "an implementation", near);
                    }
                }
            }
            "title" => tool.title = self.text(value, what),
            "description" => tool.description = self.text(value, what),
            "annotations" => tool.annotations = self.object(value, what),
            "inputSchema" | "parameters" => {
                if tool.input_schema.is_some() {
                    self.twice(key, "inputSchema", "parameters");
                }
                tool.input_schema = self.object(value, what);
            }
            "arguments" => self.arguments(value, tool),
            "defaults" => self.defaults(value, tool),
            "hideFields" => self.hide_fields(value, tool),
            "outputSchema" => {
                let schema = self.object(value, what);
                schema.into_iter().for_each(|schema| self.output_words(schema, "sourceField"));
                tool.output.get_or_insert(OutputSchema { schema: None, fields: Vec::new() }).schema = schema;
            }
            "outputTransform" => self.output_transform(value, tool),
            "version" => tool.version = self.text(value, what),
            "tags" => tool.tags = self.texts(value, what),
            "metadata" => tool.metadata = self.object(value, what),
            "expectedSourceHash" => tool.expected_source_hash = self.text(value, what),
            "exposeSource" => tool.expose_source = self.bool(value, what).unwrap_or(false),
            "hiddenArguments" => {
                tool.settings.hidden_arguments = self.word(value, what, &[("reject", HiddenArguments::Reject), ("drop", HiddenArguments::Drop)]);
            }
            "onDrift" => {
                let words = [("quarantine", OnDrift::Quarantine), ("warn", OnDrift::Warn), ("ignore", OnDrift::Ignore)];
                tool.settings.on_drift = self.word(value, what, &words);
            }
            "onMissing" if value.kind() == Kind::Null => tool.settings.on_missing = Some(OnMissing::Null),
            "onMissing" => {
                let words = [("null", OnMissing::Null), ("error", OnMissing::Error), ("omit", OnMissing::Omit)];
                tool.settings.on_missing = self.word(value, what, &words);
            }
            "onUnshaped" => {
                let words = [("error", OnUnshaped::Error), ("passthrough", OnUnshaped::Passthrough)];
                tool.settings.on_unshaped = self.word(value, what, &words);
            }
            "errors" => tool.settings.errors = self.word(value, what, &[("pass", Errors::Pass), ("generic", Errors::Generic)]),
            "keepContent" => tool.settings.keep_content = self.bool(value, what),
            "hideDefaulted" => tool.settings.hide_defaulted = self.bool(value, what),
            "coerceArguments" => tool.settings.coerce_arguments = self.bool(value, what),
            _ => self.unknown(key, what, "a tool", TOOL_KEYS),
        }
    }

    /// Misspelled words of an output schema: without its paths a result would pass as it is. JSON Schema lets everybody have words
    /// of their own, so only those are told that look like ours or hold a path.
    fn output_words(&mut self, schema: Json<'d>, path_word: &'static str) {
        // As deep as the document, which is bounded.
        for (key, value) in schema.members() {
            let name = key.text();
            match &*name {
                "const" | "enum" | "default" | "examples" | "literal" | "vars" | "coalesce" => {}
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                    value.members().for_each(|(_, schema)| self.output_words(schema, "sourceField"));
                }
                word if PATH_WORDS.contains(&word) || SCHEMAS.contains(&word) || SCHEMA_WORDS.contains(&word) || word == path_word => {
                    value.elements().chain([value]).for_each(|schema| self.output_words(schema, "sourceField"));
                }
                word if word.starts_with('$') || word.starts_with("x-") => {}
                word => {
                    let holds_path = value.string().is_some_and(|text| text.starts_with("$.") || text.starts_with("$["));
                    let near =
                        did_you_mean(word, PATH_WORDS.iter().copied().filter(|each| *each != "source_field")).or(holds_path.then_some(path_word));
                    if let Some(near) = near {
                        self.misspelled(key, "an output field", near);
                    }
                }
            }
        }
    }

    /// A key that looks like another.
    fn misspelled(&mut self, key: Key<'d>, of: &str, near: &str) {
        let message = format!("{}: {of} has no key `{}`", self.subject(), shortened(&key.text()));
        self.warning(Code::UnknownKey, self.place.key_span(key), message, "unknown key", Some(format!("did you mean `{near}`?")));
    }

    /// The same thing under two of its spellings.
    fn twice(&mut self, key: Key<'d>, one: &str, other: &str) {
        let message = format!("{}: `{one}` and `{other}` mean the same; only one of them may stand here", self.subject());
        self.error(Code::Contradiction, self.place.key_span(key), message, "said twice", Some(format!("keep `{one}`")));
    }

    fn arguments(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(json) = self.object(json, "arguments") else { return };
        for (key, value) in json.members().take(self.bounded(json, "arguments")) {
            let exposed = self.key(key);
            let what = format!("arguments.{}", shortened(&exposed.text));
            let Some(value) = self.object(value, &what) else { continue };
            let mut argument = Argument { source: exposed.clone(), exposed, description: None };
            for (key, value) in value.members() {
                match &*key.text() {
                    "source" => argument.source = self.text(value, &format!("{what}.source")).unwrap_or(argument.source),
                    "description" => argument.description = self.text(value, &format!("{what}.description")),
                    other => self.unknown(key, other, "an argument", ARGUMENT_KEYS),
                }
            }
            tool.arguments.push(argument);
        }
    }

    fn defaults(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(json) = self.object(json, "defaults") else { return };
        for (key, value) in json.members().take(self.bounded(json, "defaults")) {
            let key = self.key(key);
            if tool.defaults.iter().any(|(other, _)| other.text == key.text) {
                let message = format!("{}: the default of `{}` is given in the entry and in its source", self.subject(), shortened(&key.text));
                self.error(Code::Contradiction, key.at, message, "given twice", Some("keep the one in the entry".into()));
            } else {
                tool.defaults.push((key, value));
            }
        }
    }

    fn hide_fields(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let fields = self.texts(json, "hideFields");
        if fields.len() > FIELDS {
            self.too_many(json, "hideFields");
        }
        tool.hide_fields.extend(fields.into_iter().take(FIELDS));
    }

    /// How many members are read; more than a tool can mean is its error.
    fn bounded(&mut self, json: Json<'d>, what: &str) -> usize {
        if json.members().nth(FIELDS).is_some() {
            self.too_many(json, what);
        }
        FIELDS
    }

    fn too_many(&mut self, json: Json<'d>, what: &str) {
        let start = self.span(json).start;
        let message = format!("{}: `{what}` names more than {FIELDS} fields", self.subject());
        self.error(Code::TooLarge, start..start + 1, message, "too many", None);
    }

    fn output_transform(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let Some(json) = self.object(json, "outputTransform") else { return };
        for (key, value) in json.members() {
            match &*key.text() {
                "mappings" => {
                    let Some(mappings) = self.object(value, "outputTransform.mappings") else { continue };
                    let output = tool.output.get_or_insert(OutputSchema { schema: None, fields: Vec::new() });
                    for (key, rule) in mappings.members() {
                        let name = self.key(key);
                        match self.object(rule, &format!("outputTransform.mappings.{}", shortened(&name.text))) {
                            Some(rule) => {
                                self.output_words(rule, "path");
                                output.fields.push(OutputField { name, rule });
                            }
                            None => continue,
                        }
                    }
                }
                other => self.unknown(key, other, "`outputTransform`", &["mappings"]),
            }
        }
    }

    /// What the tool stands on: exactly one of a source (in any spelling) and an implementation.
    fn source(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>) {
        let mut target = None;
        let mut original = None;
        let mut chain = None;
        for (key, value) in json.members() {
            match &*key.text() {
                _ if value.kind() == Kind::Null => {}
                "server" => target = self.text(value, "server"),
                "originalName" => original = self.text(value, "originalName"),
                "source" if value.kind() == Kind::Object => self.source_object(value, tool, &mut target, &mut original),
                "source" if value.kind() == Kind::String => chain = self.text(value, "source"),
                "source" => self.wrong(value, "source", "an object or the name of a tool"),
                _ => {}
            }
        }
        tool.source = match (chain, target, &tool.name) {
            (Some(chain), None, _) if original.is_none() => Some(ToolSource::Tool(chain)),
            (Some(chain), target, _) => {
                let message = format!("{}: its source is a tool of the registry and a target at once", self.subject());
                let at = target.or(original).map_or_else(|| chain.at.clone(), |text| text.at);
                self.error(Code::Contradiction, at, message, "the second source", Some("keep one of them".into()));
                Some(ToolSource::Tool(chain))
            }
            (None, Some(target), name) => original.or_else(|| name.clone()).map(|tool| ToolSource::Target { target, tool }),
            (None, None, _) => None,
        };
        match (&tool.source, tool.implementation) {
            (Some(_), None) | (None, Some(_)) => {}
            (Some(_), Some(implementation)) => {
                let message = format!("{}: it has a source and an implementation", self.subject());
                let start = self.span(implementation).start;
                self.error(Code::Contradiction, start..start + 1, message, "beside a source", Some("keep one of them".into()));
            }
            // A source that could not be read was reported where it stands.
            (None, None) if self.failed.is_some() && json.get("source").is_some() => {}
            (None, None) => {
                let at = json.get("source").map_or_else(|| self.span(json).start..self.span(json).start + 1, |source| self.span(source));
                let message = format!("{} has no server reference and no valid source", self.subject());
                let help = Some("write \"source\": {\"target\": \"…\", \"tool\": \"…\"}, or an `implementation`".into());
                self.error(Code::MissingKey, at, message, "no target is named", help);
            }
        }
    }

    fn source_object(&mut self, json: Json<'d>, tool: &mut VirtualToolDef<'d>, target: &mut Option<Text<'d>>, original: &mut Option<Text<'d>>) {
        for (key, value) in json.members() {
            let name = key.text();
            match &*name {
                _ if value.kind() == Kind::Null && SOURCE_KEYS.contains(&&*name) => {}
                "target" | "server" => {
                    if target.is_some() {
                        self.twice(key, "target", "server");
                    }
                    *target = self.text(value, "source.target");
                }
                "tool" | "originalName" => {
                    if original.is_some() {
                        self.twice(key, "tool", "originalName");
                    }
                    *original = self.text(value, "source.tool");
                }
                "defaults" => self.defaults(value, tool),
                "hideFields" => self.hide_fields(value, tool),
                other => self.unknown(key, other, "a source", SOURCE_KEYS),
            }
        }
    }
}
