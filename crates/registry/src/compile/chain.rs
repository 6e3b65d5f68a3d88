//! Tools that stand on other tools of the registry: what they inherit, in the names of the source.

use super::Compiler;
use super::draft::{Draft, at_pointer, name_span, subject};
use super::plan::{Filling, Output, Parts, Spot, VirtualTool};
use crate::file::{self, Settings, ToolSource};
use crate::name::{FieldPath, ToolName};
use crate::path::Rules;
use crate::problem::{Code, GUESSES, did_you_mean};
use crate::result::{Projection, Shaping};
use crate::schema::Rename;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use transom_json::{Json, Kind, Tree};

/// Chains longer than this are no chains that anybody wrote by hand.
const CHAIN: usize = 64;
/// What a field costs, compared with a part of a schema.
const FIELD: usize = 4;

impl<'d> Compiler<'d, '_> {
    /// Resolves every chain. A tool that cannot be resolved has an error afterwards.
    pub(super) fn resolve(&mut self, drafts: &mut [Draft<'d>], by_name: &HashMap<String, usize>) -> Vec<Option<Arc<VirtualTool>>> {
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
}

enum ChainFault {
    Unknown,
    Circular(usize),
    TooLong,
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

fn shaping(settings: &Settings) -> Shaping {
    Shaping {
        on_missing: settings.on_missing.unwrap_or_default(),
        on_unshaped: settings.on_unshaped.unwrap_or_default(),
        errors: settings.errors.unwrap_or_default(),
        keep_content: settings.keep_content.unwrap_or_default(),
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
