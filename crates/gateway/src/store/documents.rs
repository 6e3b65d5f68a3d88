//! What was published: texts, their digest, which tools stand in them, and the place of a problem.
//!
//! The tools of the config come first and are not published; problems in them point into the config.

use crate::config::OwnTools;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use transom_registry::{Document, Problem, position};

/// So many problems are told one by one; a document with more is read by nobody to the end.
const TOLD: usize = 100;
/// A chain of tools that is longer is compared up to here.
const CHAIN: usize = 32;

/// What one source published, read once: the same bytes are hashed, kept and compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// What logs, errors and `/status` call the source.
    pub name: String,
    /// What it says.
    pub text: Arc<str>,
}

impl Fetched {
    /// Whether it is a registry, and one without any tool.
    pub(super) fn is_empty(&self) -> bool {
        shape(&self.text).is_some_and(|shape| shape.tools.is_empty())
    }
}

/// Everything that one plan is made of.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    pub own: Option<Arc<OwnTools>>,
    pub fetched: Vec<Fetched>,
}

impl Documents {
    /// As the engine reads them: the tools of the config first, so that they win.
    pub fn to_read(&self) -> Vec<Document<'_>> {
        let own = self.own.iter().map(|own| Document { name: &own.name, text: &own.text });
        own.chain(self.fetched.iter().map(|each| Document { name: &each.name, text: &each.text })).collect()
    }

    /// SHA-256 in hex. Of a single document it is what `sha256sum` says of the file.
    pub fn digest(&self) -> String {
        let documents = self.to_read();
        if let [only] = documents.as_slice() {
            return hex(&Sha256::digest(only.text));
        }
        let mut all = Sha256::new();
        for document in documents {
            // A digest each: a tool that moves from the end of one to the start of the next is a change.
            all.update(Sha256::digest(document.text));
        }
        hex(&all.finalize())
    }

    /// The index among the published documents of a document that the engine speaks of.
    pub fn published(&self, document: usize) -> Option<usize> {
        document.checked_sub(usize::from(self.own.is_some()))
    }

    /// A problem with its place: `file:line:column: message (help)`.
    pub fn describe(&self, problem: &Problem) -> String {
        let mut line = match &self.own {
            Some(own) if problem.document == 0 => match place_in_config(own, &problem.pointer) {
                Some((line, column)) => format!("{}:{line}:{column}", own.name),
                None => own.name.clone(),
            },
            _ => match self.published(problem.document).and_then(|at| self.fetched.get(at)) {
                Some(document) => {
                    let (line, column) = position(&document.text, problem.span.start);
                    format!("{}:{line}:{column}", document.name)
                }
                None => "registry".to_owned(),
            },
        };
        line.push_str(": ");
        line.push_str(&problem.message);
        if let Some(help) = &problem.help {
            let _ = write!(line, " ({help})");
        }
        line
    }

    /// Problems with their places, and how many more there are.
    pub fn describe_all<'p>(&self, problems: impl ExactSizeIterator<Item = &'p Problem>) -> Vec<String> {
        let more = problems.len().saturating_sub(TOLD);
        let mut lines: Vec<String> = problems.take(TOLD).map(|problem| self.describe(problem)).collect();
        if more > 0 {
            lines.push(format!("and {more} more problems; `transom validate` shows them all"));
        }
        lines
    }

    /// A number for the definition of each tool: another definition, another number.
    pub fn definitions(&self) -> BTreeMap<String, u64> {
        let shapes: Vec<Shape<'_>> = self.to_read().iter().filter_map(|document| shape(document.text)).collect();
        let schemas = shapes.iter().filter_map(|shape| shape.schemas).fold(0, |all, schemas| all ^ definition(schemas.get(), 0));
        let mut entries: BTreeMap<Cow<'_, str>, (u64, Option<Cow<'_, str>>)> = BTreeMap::new();
        for tool in shapes.iter().flat_map(|shape| &shape.tools) {
            let Ok(Entry { name: Some(Text(name)), source }) = serde_json::from_str(tool.get()) else { continue };
            // The parent of a chain is a string; a tool of a target is an object.
            let parent = source.and_then(|source| serde_json::from_str::<Text<'_>>(source.get()).ok()).map(|Text(parent)| parent);
            let named_schemas = if tool.get().contains("#/schemas/") { schemas } else { 0 };
            entries.entry(name).or_insert_with(|| (definition(tool.get(), named_schemas), parent));
        }
        let whole = |name: &str| {
            let mut hasher = DefaultHasher::new();
            let mut next = entries.get(name);
            for _ in 0..CHAIN {
                let Some((own, parent)) = next else { break };
                hasher.write_u64(*own);
                next = parent.as_ref().and_then(|parent| entries.get(parent));
            }
            hasher.finish()
        };
        entries.keys().map(|name| (name.to_string(), whole(name))).collect()
    }
}

/// Lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Where an entry of the config stands, by its JSON pointer in the document made of them.
fn place_in_config(own: &OwnTools, pointer: &str) -> Option<(usize, usize)> {
    let index = pointer.strip_prefix("/tools/")?.split('/').next()?.parse::<usize>().ok()?;
    own.places.get(index).copied()
}

/// As much of a registry as it takes to compare two.
#[derive(Deserialize)]
struct Shape<'d> {
    #[serde(borrow, default)]
    tools: Vec<&'d RawValue>,
    #[serde(borrow, default)]
    schemas: Option<&'d RawValue>,
}

#[derive(Deserialize)]
struct Entry<'d> {
    #[serde(borrow)]
    name: Option<Text<'d>>,
    #[serde(borrow, default)]
    source: Option<&'d RawValue>,
}

#[derive(Deserialize)]
struct Text<'d>(#[serde(borrow)] Cow<'d, str>);

fn shape(text: &str) -> Option<Shape<'_>> {
    // Serde would take a list for the fields of the struct in order.
    if !text.trim_ascii_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Hashes JSON as if it were written without white space.
fn definition(json: &str, seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seed);
    let (mut inside, mut escaped, mut start) = (false, false, 0);
    for (at, byte) in json.bytes().enumerate() {
        if !inside && byte.is_ascii_whitespace() {
            // In pieces as long as they come: byte by byte costs the hasher ten times as much.
            hasher.write(json.as_bytes().get(start..at).unwrap_or_default());
            start = at + 1;
            continue;
        }
        if byte == b'"' && !escaped {
            inside = !inside;
        }
        escaped = inside && byte == b'\\' && !escaped;
    }
    hasher.write(json.as_bytes().get(start..).unwrap_or_default());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(texts: &[&str]) -> Documents {
        let fetched = texts.iter().enumerate().map(|(at, text)| Fetched { name: format!("{at}.json"), text: (*text).into() });
        Documents { own: None, fetched: fetched.collect() }
    }

    #[test]
    fn the_digest_of_one_document_is_that_of_its_file() {
        assert_eq!(documents(&["{}"]).digest(), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        assert_ne!(documents(&["ab", "c"]).digest(), documents(&["a", "bc"]).digest());
    }

    #[test]
    fn a_definition_is_another_when_its_entry_its_parent_or_its_schemas_are() {
        let table = [
            (r#"{"tools":[{"name":"a","source":{"target":"t"}}]}"#, r#"{"tools":[ {"name" : "a", "source":{"target":"t"}}]}"#, true),
            (r#"{"tools":[{"name":"a","title":"x \" y"}]}"#, r#"{"tools":[{"name":"a","title":"x \"  y"}]}"#, false),
            (
                r#"{"tools":[{"name":"p","title":"1"},{"name":"a","source":"p"}]}"#,
                r#"{"tools":[{"name":"p","title":"2"},{"name":"a","source":"p"}]}"#,
                false,
            ),
            (
                r##"{"schemas":[1],"tools":[{"name":"a","i":{"$ref":"#/schemas/X"}}]}"##,
                r##"{"schemas":[2],"tools":[{"name":"a","i":{"$ref":"#/schemas/X"}}]}"##,
                false,
            ),
            (r#"{"schemas":[1],"tools":[{"name":"a"}]}"#, r#"{"schemas":[2],"tools":[{"name":"a"}]}"#, true),
        ];
        for (one, other, same) in table {
            let [one_a, other_a] = [one, other].map(|text| documents(&[text]).definitions().remove("a").unwrap());
            assert_eq!(one_a == other_a, same, "{one} {other}");
        }
        // A chain that never ends is an error elsewhere; here it only must end.
        documents(&[r#"{"tools":[{"name":"a","source":"b"},{"name":"b","source":"a"}]}"#]).definitions();
    }

    #[test]
    fn only_a_registry_without_tools_is_empty() {
        for (text, empty) in
            [("{}", true), (r#"{"tools":[]}"#, true), ("", false), ("[]", false), (r#"{"tools":null}"#, false), (r#"{"tools":[1]}"#, false)]
        {
            assert_eq!(Fetched { name: "x".into(), text: text.into() }.is_empty(), empty, "{text}");
        }
    }

    #[test]
    fn a_problem_in_the_configs_own_tools_points_into_the_config() {
        let own = OwnTools { name: "config.yaml".into(), text: r#"{"tools":[{"name":"a"},{"name":"b"}]}"#.into(), places: vec![(7, 3), (9, 3)] };
        let documents = Documents { own: Some(Arc::new(own)), ..documents(&["{\n  x}"]) };
        let problem = |document, pointer: &str, at| Problem {
            severity: transom_registry::Severity::Error,
            code: transom_registry::Code::BadValue,
            document,
            tool: None,
            pointer: pointer.into(),
            span: at..at,
            message: "wrong".into(),
            label: String::new(),
            help: Some("right it".into()),
        };
        assert_eq!(documents.describe(&problem(0, "/tools/1/name", 12)), "config.yaml:9:3: wrong (right it)");
        assert_eq!(documents.describe(&problem(1, "", 4)), "0.json:2:3: wrong (right it)");
        assert_eq!(documents.published(0), None);
    }
}
