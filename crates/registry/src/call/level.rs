//! One object of the arguments: which names callers may not use in it, and what the source gets for it.

use super::Rejected;
use super::findings::{Edits, Findings, dotted};
use super::fold::{fold, is_invisible};
use transom_json::{Json, Key, Kind, write};

/// What happens to one object of the arguments.
#[derive(Default)]
pub(super) struct Level {
    /// Names that callers may not use.
    pub(super) hidden: Vec<Hidden>,
    /// Members that have another name at the source, or something happens inside them.
    pub(super) members: Vec<Member>,
    /// If it is a list: what happens to its elements.
    pub(super) items: Option<Box<Level>>,
    /// What is written in where the caller said nothing.
    pub(super) fills: Vec<Fill>,
    /// Whether something must be written in, so that nothing but an object will do.
    pub(super) needs_object: bool,
}

pub(super) struct Hidden {
    pub(super) name: String,
    pub(super) folded: String,
}

pub(super) struct Member {
    pub(super) exposed: String,
    pub(super) source: String,
    pub(super) inside: Level,
    /// The source's name, folded, if something inside is hidden: whatever a lenient peer takes for it leads there as well.
    pub(super) guarded: Option<String>,
    /// Whether a lenient peer takes the name for a hidden one beside it.
    pub(super) taken_for_hidden: bool,
}

impl Member {
    pub(super) fn new(exposed: &str, source: &str, inside: Level) -> Member {
        let guarded = inside.hides().then(|| fold(source).into_owned());
        Member { exposed: exposed.to_owned(), source: source.to_owned(), inside, guarded, taken_for_hidden: false }
    }
}

pub(super) struct Fill {
    /// The source's name.
    pub(super) name: String,
    /// `"name":value`
    pub(super) json: Vec<u8>,
}

impl Level {
    pub(super) fn is_empty(&self) -> bool {
        self.hidden.is_empty() && self.members.is_empty() && self.items.is_none() && self.fills.is_empty()
    }

    /// Whether callers may not use some name in it, at any depth.
    fn hides(&self) -> bool {
        !self.hidden.is_empty()
            || self.members.iter().any(|member| member.guarded.is_some())
            || self.items.as_ref().is_some_and(|items| items.hides())
    }

    /// Looks for what callers may not say, whatever the schema says about it.
    pub(super) fn inspect(&self, json: Json<'_>, path: &mut Vec<String>, drop: bool, found: &mut Findings) {
        match (json.kind(), &self.items) {
            (Kind::Object, _) => {
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
            (Kind::Array, Some(items)) => {
                for (index, element) in json.elements().enumerate() {
                    path.push(index.to_string());
                    items.inspect(element, path, drop, found);
                    path.pop();
                }
            }
            _ if self.needs_object => {
                found.reject(Rejected::Invalid);
                found.violations.push(format!("/{}: an object is needed here", path.join("/")));
            }
            _ => {}
        }
    }

    /// Whether a key is one that callers may not use, or could be taken for one or for the way to one.
    fn judge(&self, key: Key<'_>) -> Option<Rejected> {
        let mut guarded =
            self.hidden.iter().map(|hidden| &hidden.folded).chain(self.members.iter().filter_map(|member| member.guarded.as_ref())).peekable();
        guarded.peek()?;
        if self.hidden.iter().any(|hidden| key.is(&hidden.name)) {
            return Some(Rejected::HiddenArgument);
        }
        // Spelled as it is shown: this one is known, and goes to the source by the source's name.
        if let Some(member) = self.members.iter().find(|member| key.is(&member.exposed)) {
            return member.taken_for_hidden.then_some(Rejected::Lookalike);
        }
        let name = key.text();
        if name.chars().any(is_invisible) {
            return Some(Rejected::Lookalike);
        }
        let alike = if name.is_ascii() {
            guarded.any(|folded| folded.eq_ignore_ascii_case(&name))
        } else {
            let name = fold(&name);
            guarded.any(|folded| *folded == name)
        };
        alike.then_some(Rejected::Lookalike)
    }

    /// Writes what the source gets for an object, or for a list of them.
    pub(super) fn write(&self, json: Json<'_>, edits: Option<&Edits>, pointer: &mut String, out: &mut Vec<u8>) {
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
