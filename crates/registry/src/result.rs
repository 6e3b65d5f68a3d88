//! What a client gets of a result: the fields that the output schema names, each from where its path leads.
//!
//! [`Projection::compile`] reads an output schema once; [`Projection::apply`] shapes a whole `CallToolResult` with it. It fails closed:
//! a result that cannot be shaped becomes an error that has nothing of the original in it. Where the schema comes from, which
//! spelling a path had in the file and what a client's era wants around the result is the business of others. Secrets are masked
//! afterwards ([`crate::mask`]).

mod advertised;
mod convert;
mod plan;
mod project;
#[cfg(test)]
mod tests;
mod validate;

use crate::embedded;
use crate::path::{Document, Forms, Indexed, Rules};
pub use advertised::advertised;
pub(crate) use advertised::{PATH_WORDS, SCHEMAS};
pub use plan::BadField;
use plan::Plan;
use project::{Unshaped, Writer};
use std::borrow::Cow;
use std::ops::Range;
use transom_json::write::{self, Edit};
use transom_json::{Json, Key, Kind, Tree};
use validate::Demands;

/// What happens to a field that has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// It is left out.
    #[default]
    Omit,
    /// It is `null`.
    Null,
    /// The whole result is an error.
    Error,
}

/// What happens to a result that cannot be shaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnshaped {
    /// The client gets an error.
    #[default]
    Error,
    /// The client gets the result as it came.
    Passthrough,
}

/// What the client gets to see of an error of the tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Errors {
    /// What the tool said.
    #[default]
    Pass,
    /// That there was one.
    Generic,
}

/// How results are shaped, beside the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shaping {
    /// For fields without a value.
    pub on_missing: OnMissing,
    /// For results without JSON, or of the wrong shape.
    pub on_unshaped: OnUnshaped,
    /// For errors of the tool.
    pub errors: Errors,
    /// Whether images, resources and other blocks that are not text stay beside the projection.
    pub keep_content: bool,
}

/// A result on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped<'t> {
    /// The `CallToolResult`; borrowed if it is the original, byte for byte.
    pub json: Cow<'t, str>,
    /// What was done to it.
    pub outcome: Outcome,
}

/// What was done to a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the original.
    Passed,
    /// It is the projection.
    Projected,
    /// It is an error of the tool, in words of our own.
    Generic,
    /// It could not be shaped and became an error.
    Refused(Refused),
}

/// Why a result became an error; a label for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No JSON in it.
    NoJson,
    /// An array where an object is needed, or the other way round.
    WrongShape,
    /// A field that has to be there is not.
    Missing,
    /// A field has a value that the output schema does not allow.
    Invalid,
    /// Shaping it would cost too much.
    TooLarge,
}

impl Refused {
    /// A short name for metrics and logs.
    pub fn label(self) -> &'static str {
        match self {
            Refused::NoJson => "no_json",
            Refused::WrongShape => "wrong_shape",
            Refused::Missing => "missing_field",
            Refused::Invalid => "invalid",
            Refused::TooLarge => "too_large",
        }
    }
}

/// How the results of one tool are shaped.
#[derive(Clone, Debug)]
pub struct Projection {
    plan: Plan,
    demands: Option<Demands>,
    shaping: Shaping,
}

impl Projection {
    /// Reads an output schema with `sourceField`, `coalesce`, `literal` and `template` in it; `None` if it has none of them, and
    /// results pass as they are. Named references are resolved before; local ones (`#/$defs/…`) are followed here.
    ///
    /// ```
    /// use transom_json::{Json, Tree};
    /// use transom_registry::path::Rules;
    /// use transom_registry::result::{Projection, Shaping};
    ///
    /// let schema = r#"{"type":"object","properties":{"temperature":{"type":"number","sourceField":"$.data.current.temp_f"}}}"#;
    /// let schema = Tree::from(Json::trusted(schema));
    /// let projection = Projection::compile(&schema, &Rules::default(), &Shaping::default()).unwrap().unwrap();
    ///
    /// let reply = Json::trusted(r#"{"content":[],"structuredContent":{"data":{"current":{"temp_f":52.3,"cost":9}}}}"#);
    /// assert_eq!(
    ///     projection.apply(reply, false).json,
    ///     r#"{"structuredContent":{"temperature":52.3},"content":[{"type":"text","text":"{\"temperature\":52.3}"}]}"#
    /// );
    /// ```
    pub fn compile(output_schema: &Tree, rules: &Rules, shaping: &Shaping) -> Result<Option<Projection>, Vec<BadField>> {
        let Some(plan) = plan::compile(output_schema, rules, shaping.on_missing)? else { return Ok(None) };
        let demands = Demands::of(output_schema).map_err(|bad| vec![bad])?;
        Ok(Some(Projection { plan, demands, shaping: *shaping }))
    }

    /// Shapes a whole result. `wrap_arrays` is for clients of the legacy era, whose `structuredContent` has to be an object.
    pub fn apply<'t>(&self, result: Json<'t>, wrap_arrays: bool) -> Shaped<'t> {
        let parts = Parts::of(result);
        if parts.is_error {
            return failed(result, self.shaping.errors);
        }
        if parts.is_question {
            return question(result);
        }
        let projected = match parts.structured {
            Some(content) => Indexed::whole(content.raw()).ok_or(Unshaped::TooLarge).and_then(|found| self.projected(&parts, &found, wrap_arrays)),
            None => {
                let texts: Vec<Cow<'_, str>> = parts.texts().collect();
                let found = embedded::find(&texts, self.plan.needs_object()).found;
                found.ok_or(Unshaped::NoJson).and_then(|found| self.projected(&parts, &found, wrap_arrays))
            }
        };
        match projected {
            Ok(json) => Shaped { json: Cow::Owned(json), outcome: Outcome::Projected },
            Err(Unshaped::NoJson | Unshaped::WrongShape(_)) if self.shaping.on_unshaped == OnUnshaped::Passthrough => {
                Shaped { json: Cow::Borrowed(result.raw()), outcome: Outcome::Passed }
            }
            Err(unshaped) => Shaped { json: Cow::Owned(error(&unshaped.to_string(), None)), outcome: Outcome::Refused(unshaped.label()) },
        }
    }

    /// The result with the projection of this document in place of its content.
    fn projected(&self, parts: &Parts<'_>, document: &Indexed<'_>, wrap_arrays: bool) -> Result<String, Unshaped> {
        let forms = Forms::default();
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(b"{\"structuredContent\":");
        let unwrapped = out.len();
        let range = Writer::new(&self.plan, Document::new(document, &forms)).write(&mut out)?;
        if let Some(demands) = &self.demands {
            let projection = std::str::from_utf8(out.get(range.clone()).unwrap_or_default()).unwrap_or_default();
            if let Some(place) = demands.broken(Json::trusted(projection)) {
                return Err(Unshaped::Invalid(place));
            }
        }
        if wrap_arrays && out.get(unwrapped) == Some(&b'[') {
            const WRAP: &[u8] = b"{\"items\":";
            out.splice(unwrapped..unwrapped, WRAP.iter().copied());
            out.push(b'}');
            self.finish(&mut out, range.start + WRAP.len()..range.end + WRAP.len(), parts);
        } else {
            self.finish(&mut out, range, parts);
        }
        // Slices of text, and text of our own.
        String::from_utf8(out).map_err(|_| Unshaped::TooLarge)
    }

    /// The content, which is the projection as text, and `_meta`.
    fn finish(&self, out: &mut Vec<u8>, projection: Range<usize>, parts: &Parts<'_>) {
        out.extend_from_slice(b",\"content\":[{\"type\":\"text\",\"text\":\"");
        project::quote_from_within(out, projection);
        out.extend_from_slice(b"\"}");
        if self.shaping.keep_content {
            for block in parts.blocks().filter(|block| !is_text(*block)) {
                out.push(b',');
                out.extend_from_slice(block.raw().as_bytes());
            }
        }
        out.push(b']');
        if let Some(meta) = parts.meta {
            out.extend_from_slice(b",\"_meta\":");
            out.extend_from_slice(meta.raw().as_bytes());
        }
        out.push(b'}');
    }
}

/// All that a client learns of an error where it should learn no more.
pub(crate) const GENERIC: &str = "The tool reported an error.";

/// A result whose `isError` is true, as the client gets it. For tools without a projection too.
pub fn failed(result: Json<'_>, errors: Errors) -> Shaped<'_> {
    match errors {
        Errors::Pass => Shaped { json: Cow::Borrowed(result.raw()), outcome: Outcome::Passed },
        Errors::Generic => Shaped { json: Cow::Owned(error(GENERIC, result.get("_meta"))), outcome: Outcome::Generic },
    }
}

/// A question to the client is no result yet; only what belongs to the question stays.
fn question(result: Json<'_>) -> Shaped<'_> {
    let known = |key: Key<'_>| ["resultType", "inputRequests", "requestState", "_meta"].iter().any(|name| key.is(name));
    if result.members().all(|(key, _)| known(key)) {
        return Shaped { json: Cow::Borrowed(result.raw()), outcome: Outcome::Passed };
    }
    let edited = write::edited(result, |key, _| if known(key) { Edit::Keep } else { Edit::Drop }, &[]);
    Shaped { json: Cow::Owned(String::from_utf8(edited).unwrap_or_default()), outcome: Outcome::Passed }
}

/// A result that is an error, with this text.
fn error(text: &str, meta: Option<Json<'_>>) -> String {
    let meta = meta.map(|meta| format!(",\"_meta\":{}", meta.raw())).unwrap_or_default();
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"isError\":true{meta}}}", write::quoted(text))
}

/// The members of a result that matter here, found in one pass.
#[derive(Default)]
struct Parts<'t> {
    is_error: bool,
    is_question: bool,
    structured: Option<Json<'t>>,
    content: Option<Json<'t>>,
    meta: Option<Json<'t>>,
}

impl<'t> Parts<'t> {
    fn of(result: Json<'t>) -> Parts<'t> {
        let mut parts = Parts::default();
        for (key, value) in result.members() {
            match key.text().as_ref() {
                "isError" => parts.is_error = value.bool() == Some(true),
                "resultType" => parts.is_question = value.string().as_deref() == Some("input_required"),
                "structuredContent" => parts.structured = Some(value).filter(|content| content.kind() != Kind::Null),
                "content" => parts.content = Some(value),
                "_meta" => parts.meta = Some(value),
                _ => {}
            }
        }
        parts
    }

    fn blocks(&self) -> impl Iterator<Item = Json<'t>> + use<'t> {
        self.content.into_iter().flat_map(Json::elements)
    }

    fn texts(&self) -> impl Iterator<Item = Cow<'t, str>> + use<'t> {
        self.blocks().filter(|block| is_text(*block)).filter_map(|block| block.get("text")?.string())
    }
}

fn is_text(block: Json<'_>) -> bool {
    block.get("type").and_then(Json::string).as_deref() == Some("text")
}
