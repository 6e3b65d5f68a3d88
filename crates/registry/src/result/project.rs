//! Writes a projection: one buffer, values copied from the text as they are spelled.

use super::convert::Type;
use super::plan::{Field, Part, Plan, Shape, ShapeId, Source, Take};
use super::{OnMissing, Refused};
use crate::path::{Document, Found, Path, Place, TooMuchWork};
use std::ops::Range;
use transom_json::{Json, Kind, write};

/// No reply is longer, and no projection of one needs to be.
const LONGEST: usize = 16 * 1024 * 1024;
/// Shapes inside one another; only a schema that refers to itself can have more.
const DEPTH: usize = 64;

/// Why a result cannot be shaped. The texts go to the client and say nothing of the result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unshaped {
    #[error("The tool answered without the JSON that its output is made of.")]
    NoJson,
    #[error("The tool answered in another shape than its output is made of: {0} is needed.")]
    WrongShape(&'static str),
    #[error("The tool answered without a value for the field \"{0}\", which has to be there.")]
    Missing(String),
    #[error("The tool answered with a value that its output schema does not allow, at \"{0}\".")]
    Invalid(String),
    #[error("The tool's answer is too large to be shaped.")]
    TooLarge,
}

impl Unshaped {
    pub fn label(&self) -> Refused {
        match self {
            Unshaped::NoJson => Refused::NoJson,
            Unshaped::WrongShape(_) => Refused::WrongShape,
            Unshaped::Missing(_) => Refused::Missing,
            Unshaped::Invalid(_) => Refused::Invalid,
            Unshaped::TooLarge => Refused::TooLarge,
        }
    }

    /// The same, seen from the value around it.
    fn inside(self, outer: &str) -> Unshaped {
        match self {
            Unshaped::Missing(inner) if inner.is_empty() => Unshaped::Missing(outer.to_owned()),
            Unshaped::Missing(inner) if outer.is_empty() => Unshaped::Missing(inner),
            Unshaped::Missing(inner) if inner.starts_with('[') => Unshaped::Missing(format!("{outer}{inner}")),
            Unshaped::Missing(inner) => Unshaped::Missing(format!("{outer}.{inner}")),
            other => other,
        }
    }
}

impl From<TooMuchWork> for Unshaped {
    fn from(_: TooMuchWork) -> Unshaped {
        Unshaped::TooLarge
    }
}

/// Whether something was written, or the value is missing.
type Written = Result<bool, Unshaped>;

/// Writes one projection of one document.
pub struct Writer<'p, 'd, 't> {
    plan: &'p Plan,
    document: Document<'d, 't>,
    /// What each path has cost so far.
    spent: Vec<u64>,
    depth: usize,
}

impl<'p, 'd, 't> Writer<'p, 'd, 't> {
    pub fn new(plan: &'p Plan, document: Document<'d, 't>) -> Self {
        Writer { plan, document, spent: vec![0; plan.paths], depth: 0 }
    }

    /// Writes the projection to the end of `out` and says where it is.
    pub fn write(mut self, out: &mut Vec<u8>) -> Result<Range<usize>, Unshaped> {
        let start = out.len();
        let root = &self.plan.root;
        let wanted = match self.plan.shape(root.shape) {
            Some(shape) if shape.types.is_list() => "an array",
            Some(shape) if shape.properties.is_some() => "an object",
            _ => "an object or an array",
        };
        let from = self.document.indexed().root();
        let written = self.value(out, root, from)?;
        if !written || !matches!(out.get(start), Some(b'{' | b'[')) {
            return Err(Unshaped::WrongShape(wanted));
        }
        Ok(start..out.len())
    }

    /// A value of a field below `from`. What is missing leaves nothing in the buffer.
    fn value(&mut self, out: &mut Vec<u8>, field: &'p Field, from: Place) -> Written {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Unshaped::TooLarge);
        }
        let start = out.len();
        let mut written = false;
        for source in &field.take.sources {
            written = match source {
                Source::Path(path, number) => self.selected(out, path, *number, field, from)?,
                Source::Around => self.put_together(out, field.shape, from)?,
                Source::Literal(json) => self.fitted(out, field.shape, Json::trusted(json))?,
                Source::Template(parts) => match self.filled(parts, from)? {
                    Some(text) => self.fitted(out, field.shape, Json::trusted(&write::quoted(&text)))?,
                    None => false,
                },
            };
            if written {
                break;
            }
            out.truncate(start);
        }
        self.depth -= 1;
        Ok(written)
    }

    /// What a path selects, in the shape that the field declares: a list of all, or the first.
    fn selected(&mut self, out: &mut Vec<u8>, path: &Path, number: usize, field: &'p Field, from: Place) -> Written {
        let Some(shape) = self.plan.shape(field.shape) else { return Ok(false) };
        let skipped = |kind: Kind| field.take.skips_null && kind == Kind::Null;
        match self.select(path, number, from)? {
            Found::One(None) => Ok(false),
            Found::One(Some(place)) => match self.document.indexed().kind(place) {
                kind if skipped(kind) => Ok(false),
                // A single value is a list of one, unless it is a list already; `null` may stand for one if the schema says so.
                Kind::Null if shape.types.has(Type::Null) => self.shaped(out, shape, place),
                kind if shape.types.is_list() && kind != Kind::Array => self.list(out, shape, [place].into_iter()),
                _ => self.shaped(out, shape, place),
            },
            Found::Many(mut places) => {
                if field.take.skips_null {
                    places.retain(|place| self.document.indexed().kind(*place) != Kind::Null);
                    if places.is_empty() {
                        return Ok(false);
                    }
                }
                if shape.types.admit(Type::Array) {
                    return self.list(out, shape, places.into_iter());
                }
                match places.first() {
                    Some(place) => self.shaped(out, shape, *place),
                    None => Ok(false),
                }
            }
        }
    }

    /// The value at a place, with the fields of its shape and no others.
    fn shaped(&mut self, out: &mut Vec<u8>, shape: &'p Shape, place: Place) -> Written {
        let indexed = self.document.indexed();
        match (indexed.kind(place), &shape.properties) {
            (Kind::Object, Some(fields)) if shape.types.admit(Type::Object) => self.object(out, fields, place),
            (Kind::Array, Some(fields)) if !shape.needs_object && !shape.types.admit(Type::Array) => self.object(out, fields, place),
            (Kind::Array, _) if shape.items.is_some() && shape.types.admit(Type::Array) => self.list(out, shape, indexed.children(place)),
            _ => fitted(out, shape, indexed.json(place)),
        }
    }

    /// An object whose members come from the value around it. Without one of them, or without one that has to be there, it is missing.
    fn put_together(&mut self, out: &mut Vec<u8>, shape: ShapeId, from: Place) -> Written {
        let Some(fields) = self.plan.shape(shape).and_then(|shape| shape.properties.as_ref()) else { return Ok(false) };
        let depth = self.depth;
        match self.members(out, fields, from) {
            Err(Unshaped::Missing(_)) => {
                self.depth = depth;
                Ok(false)
            }
            found => found.map(|found| found > 0),
        }
    }

    fn object(&mut self, out: &mut Vec<u8>, fields: &'p [Field], place: Place) -> Written {
        self.members(out, fields, place).map(|_| true)
    }

    /// Writes an object with these fields; how many of them had a value.
    fn members(&mut self, out: &mut Vec<u8>, fields: &'p [Field], place: Place) -> Result<usize, Unshaped> {
        let mut found = 0;
        out.push(b'{');
        let first = out.len();
        for field in fields {
            let start = out.len();
            if start > first {
                out.push(b',');
            }
            out.extend_from_slice(field.key.as_bytes());
            if self.value(out, field, place).map_err(|unshaped| unshaped.inside(&field.name))? {
                found += 1;
                continue;
            }
            match field.on_missing {
                _ if field.required => return Err(Unshaped::Missing(field.name.clone())),
                OnMissing::Error => return Err(Unshaped::Missing(field.name.clone())),
                OnMissing::Null => out.extend_from_slice(b"null"),
                OnMissing::Omit => out.truncate(start),
            }
        }
        out.push(b'}');
        Ok(found)
    }

    fn list(&mut self, out: &mut Vec<u8>, shape: &'p Shape, places: impl Iterator<Item = Place>) -> Written {
        out.push(b'[');
        let first = out.len();
        for (at, place) in places.enumerate() {
            let start = out.len();
            if start > first {
                out.push(b',');
            }
            let Some(items) = &shape.items else {
                copy(out, self.document.indexed().json(place).raw())?;
                continue;
            };
            let here = || format!("[{at}]");
            if !self.value(out, items, place).map_err(|unshaped| unshaped.inside(&here()))? {
                match items.on_missing {
                    OnMissing::Error => return Err(Unshaped::Missing(here())),
                    OnMissing::Null => out.extend_from_slice(b"null"),
                    OnMissing::Omit => out.truncate(start),
                }
            }
        }
        out.push(b']');
        Ok(true)
    }

    fn select(&mut self, path: &Path, number: usize, from: Place) -> Result<Found, TooMuchWork> {
        let spent = self.spent.get_mut(number).ok_or(TooMuchWork)?;
        path.select(&self.document, from, spent)
    }

    fn fitted(&self, out: &mut Vec<u8>, shape: ShapeId, json: Json<'_>) -> Written {
        self.plan.shape(shape).map_or(Ok(false), |shape| fitted(out, shape, json))
    }

    /// A template with its values; `None` if one is missing.
    fn filled(&mut self, parts: &'p [Part], from: Place) -> Result<Option<String>, Unshaped> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Value(take) if self.inserted(&mut text, take, from)? => {}
                Part::Value(_) => return Ok(None),
            }
            if text.len() > LONGEST {
                return Err(Unshaped::TooLarge);
            }
        }
        Ok(Some(text))
    }

    /// Adds a value to the text of a template. Only scalars can stand in one.
    fn inserted(&mut self, text: &mut String, take: &'p Take, from: Place) -> Written {
        for source in &take.sources {
            let json = match source {
                Source::Around => None,
                Source::Literal(json) => Some(Json::trusted(json)),
                Source::Path(path, number) => {
                    let first = match self.select(path, *number, from)? {
                        Found::One(place) => place,
                        Found::Many(places) => places.first().copied(),
                    };
                    first.map(|place| self.document.indexed().json(place))
                }
                Source::Template(parts) => {
                    if let Some(filled) = self.filled(parts, from)? {
                        text.push_str(&filled);
                        return Ok(true);
                    }
                    None
                }
            };
            let value = match json.map(|json| (json.kind(), json)) {
                Some((Kind::String, json)) => json.string(),
                Some((Kind::Number | Kind::Bool, json)) => Some(json.raw().into()),
                _ => None,
            };
            if let Some(value) = value {
                text.push_str(&value);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A value as it is, or converted, if the shape admits it.
fn fitted(out: &mut Vec<u8>, shape: &Shape, json: Json<'_>) -> Written {
    match shape.types.fit(json) {
        Some(fit) => copy(out, &fit).map(|()| true),
        None => Ok(false),
    }
}

/// Copies a JSON text without the white space between its parts.
fn copy(out: &mut Vec<u8>, raw: &str) -> Result<(), Unshaped> {
    if out.len().saturating_add(raw.len()) > LONGEST {
        return Err(Unshaped::TooLarge);
    }
    let bytes = raw.as_bytes();
    if !matches!(bytes.first(), Some(b'{' | b'[')) {
        out.extend_from_slice(bytes);
        return Ok(());
    }
    let mut copied = 0;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.extend_from_slice(bytes.get(copied..at).unwrap_or_default());
                at += 1;
                copied = at;
            }
            _ => at += 1,
        }
    }
    out.extend_from_slice(bytes.get(copied..).unwrap_or_default());
    Ok(())
}

/// One past the closing quote of the string that opens at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Adds a part of the buffer to its end, as the inside of a JSON string. The part is compact JSON, so nothing but quotes and
/// backslashes has to be escaped.
pub fn quote_from_within(out: &mut Vec<u8>, part: Range<usize>) {
    out.reserve(part.len() + part.len() / 4);
    let mut at = part.start;
    while at < part.end {
        let rest = out.get(at..part.end).unwrap_or_default();
        let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        out.extend_from_within(at..at + plain);
        at += plain;
        if at < part.end {
            out.push(b'\\');
            out.extend_from_within(at..at + 1);
            at += 1;
        }
    }
}
