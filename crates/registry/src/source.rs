//! A source tool: what a target offers, checked before anybody sees it.

use crate::name::deceives;
use crate::pin::Pin;
use serde_json::Value;
use std::sync::Arc;
use transom_json::write::{self, Edit};
use transom_json::{Json, Key, Kind, Limits, Tree, check};

/// What all targets offer now, in the order of the config.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// One offer per target.
    pub targets: Vec<Offer>,
}

/// What one target offers.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The target's name.
    pub target: String,
    /// Whether it can be called now.
    pub available: bool,
    /// Its tools, in its own order.
    pub tools: Vec<Arc<SourceTool>>,
}

/// A tool of a target whose definition is sound.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceTool {
    /// The target's own name for it.
    pub name: String,
    /// Arguments that travel as headers too.
    pub headers: Vec<ParamHeader>,
    /// The definition as JSON, with the members that every listing must carry.
    pub json: String,
    /// The hash of the definition as its target sent it.
    pub pin: Pin,
}

/// An argument marked `x-mcp-header`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// The header is `Mcp-Param-` and this.
    pub name: String,
    /// Where the argument is, from the top of `arguments`.
    pub path: Vec<String>,
    /// Whether it is an integer, whose spellings compare as numbers.
    pub integer: bool,
}

const SUBSCHEMAS: usize = 10_000;
const DEPTH: usize = 64;

impl SourceTool {
    /// Checks a definition. What is wrong with it is said for the person who runs the target.
    pub fn read(json: &str) -> Result<SourceTool, String> {
        // Two readers must not see two different tools in one text.
        let checked =
            check(json.as_bytes(), &Limits { duplicate_keys: false, ..Limits::REPLY }).map_err(|fault| format!("not a JSON object: {fault}"))?;
        let tool = plain(checked);
        let Some(members) = tool.as_object() else { return Err("not a JSON object".into()) };
        let Some(name) = members.get("name").and_then(Value::as_str) else { return Err("`name` is missing".into()) };
        let mut added = String::new();
        match members.get("description") {
            None | Some(Value::Null) => {
                let title = members.get("title").and_then(Value::as_str).unwrap_or("");
                added.push_str(&format!(",\"description\":{}", Value::from(title)));
            }
            Some(Value::String(_)) => {}
            Some(_) => return Err("`description` is not a string".into()),
        }
        let mut headers = Vec::new();
        match members.get("inputSchema") {
            None => added.push_str(",\"inputSchema\":{\"type\":\"object\"}"),
            Some(schema) => {
                check_schema("inputSchema", schema)?;
                if schema.get("type").and_then(Value::as_str) != Some("object") {
                    return Err("`inputSchema.type` is not \"object\"".into());
                }
                param_headers(schema, &mut headers)?;
            }
        }
        if let Some(schema) = members.get("outputSchema") {
            check_schema("outputSchema", schema)?;
        }
        let json = match members.get("description") {
            // A null description would stand twice: that definition is written anew.
            Some(Value::Null) => {
                let mut tool = members.clone();
                tool.shift_remove("description");
                let text = Value::Object(tool).to_string();
                splice(&text, &added)
            }
            _ => splice(json, &added),
        };
        let json = legible(json);
        Ok(SourceTool { name: name.to_owned(), headers, json, pin: Pin::of_source(&Tree::from(checked)) })
    }
}

/// The longest description that is passed on.
const DESCRIPTION: usize = 8 * 1024;

/// A definition whose title and description say what they seem to say; the same text if they do.
fn legible(json: String) -> String {
    let tool = Json::trusted(&json);
    let cleaned = |member: &str| tool.get(member).and_then(Json::string).and_then(|text| seen(&text)).map(|text| write::quoted(&text));
    let (title, description) = (cleaned("title"), cleaned("description"));
    if title.is_none() && description.is_none() {
        return json;
    }
    let edit = |key: Key<'_>, _: Json<'_>| match (&title, &description) {
        (Some(title), _) if key.is("title") => Edit::Set(title.as_bytes()),
        (_, Some(description)) if key.is("description") => Edit::Set(description.as_bytes()),
        _ => Edit::Keep,
    };
    String::from_utf8(write::edited(tool, edit, &[])).unwrap_or_default()
}

/// A text without what readers do not see: terminal sequences, control and invisible characters, changes of direction; and not too long of
/// it. Nothing if it is fine as it is. What joins letters and pictures (U+200C, U+200D) stays.
fn seen(text: &str) -> Option<String> {
    let hides = |c: char| deceives(c) && !matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}');
    if text.len() <= DESCRIPTION && !text.chars().any(hides) {
        return None;
    }
    let mut out = String::with_capacity(text.len().min(DESCRIPTION));
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if out.len() + letter.len_utf8() > DESCRIPTION {
            break;
        }
        if letter == '\u{1b}' && letters.next_if_eq(&'[').is_some() {
            // The sequence ends with its first letter.
            while letters.next_if(|c| ('\u{20}'..='\u{3f}').contains(c)).is_some() {}
            letters.next_if(|c| ('@'..='~').contains(c));
        } else if !hides(letter) {
            out.push(letter);
        }
    }
    Some(out)
}

/// JSON as `jsonschema` reads it. Never sent anywhere: numbers lose their spelling here.
pub(crate) fn plain(json: Json<'_>) -> Value {
    // As deep as checked text, which is bounded.
    match json.kind() {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(json.raw() == "true"),
        Kind::Number => plain_number(json.raw()),
        Kind::String => Value::String(json.string().unwrap_or_default().into_owned()),
        Kind::Array => Value::Array(json.elements().map(plain).collect()),
        Kind::Object => Value::Object(json.members().map(|(key, value)| (key.text().into_owned(), plain(value))).collect()),
    }
}

/// A number that `f64` cannot hold counts as the largest it can: no schema tells them apart by more than their size.
pub(crate) fn plain_number(spelling: &str) -> Value {
    let exact = spelling.parse::<i64>().map(Value::from).or_else(|_| spelling.parse::<u64>().map(Value::from));
    exact.unwrap_or_else(|_| Value::from(spelling.parse::<f64>().unwrap_or(0.0).clamp(f64::MIN, f64::MAX)))
}

/// An object's text with more members at its end.
fn splice(object: &str, added: &str) -> String {
    match object.trim_end().strip_suffix('}') {
        Some(head) if head.trim_end().ends_with('{') => format!("{head}{}}}", added.trim_start_matches(',')),
        Some(head) => format!("{head}{added}}}"),
        None => object.to_owned(),
    }
}

fn check_schema(what: &str, schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err(format!("`{what}` is not an object"));
    }
    let mut budget = SUBSCHEMAS;
    bounded(schema, DEPTH, &mut budget).map_err(|why| format!("`{what}` {why}"))?;
    match schema.get("$schema").and_then(Value::as_str) {
        // A dialect we do not know cannot be judged; the target answers for it.
        Some(dialect) if !dialect.contains("json-schema.org") => Ok(()),
        _ => {
            jsonschema::meta::validate(schema).map_err(|error| format!("`{what}` is not a valid JSON Schema: {error} at `{}`", error.instance_path()))
        }
    }
}

fn bounded(value: &Value, depth: usize, budget: &mut usize) -> Result<(), String> {
    let Some(depth) = depth.checked_sub(1) else { return Err(format!("is nested more than {DEPTH} deep")) };
    *budget = budget.checked_sub(1).ok_or_else(|| format!("has more than {SUBSCHEMAS} parts"))?;
    match value {
        Value::Object(members) => members.values().try_for_each(|value| bounded(value, depth, budget)),
        Value::Array(elements) => elements.iter().try_for_each(|value| bounded(value, depth, budget)),
        _ => Ok(()),
    }
}

/// Collects the arguments marked `x-mcp-header`; a mark where the protocol does not allow one spoils the tool.
fn param_headers(schema: &Value, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    let marks = count_marks(schema);
    collect(schema, &mut Vec::new(), found)?;
    if found.len() != marks {
        return Err("`x-mcp-header` stands where no argument is".into());
    }
    for (at, header) in found.iter().enumerate() {
        if found.iter().take(at).any(|other| other.name.eq_ignore_ascii_case(&header.name)) {
            return Err(format!("`x-mcp-header` \"{}\" stands twice", header.name));
        }
    }
    Ok(())
}

/// The arguments marked `x-mcp-header` in an input schema that was checked before.
pub(crate) fn param_headers_of(schema: &str) -> Vec<ParamHeader> {
    let mut found = Vec::new();
    let read = collect(&plain(Json::trusted(schema)), &mut Vec::new(), &mut found).is_ok();
    if read { found } else { Vec::new() }
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(mark) = property.get("x-mcp-header") {
            let header = mark.as_str().filter(|text| is_token(text)).ok_or_else(|| format!("`x-mcp-header` of `{name}` is not a header name"))?;
            let integer = match property.get("type").and_then(Value::as_str) {
                Some("integer") => true,
                Some("string" | "boolean") => false,
                _ => return Err(format!("`x-mcp-header` of `{name}` needs the type string, integer or boolean")),
            };
            found.push(ParamHeader { name: header.to_owned(), path: path.clone(), integer });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// Every mark in a schema; keywords that hold data, not schemas, are passed over.
fn count_marks(value: &Value) -> usize {
    match value {
        Value::Object(members) => {
            usize::from(members.get("x-mcp-header").is_some_and(|mark| !mark.is_object()))
                + members
                    .iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "default" | "const" | "enum" | "examples"))
                    .map(|(_, value)| count_marks(value))
                    .sum::<usize>()
        }
        Value::Array(elements) => elements.iter().map(count_marks).sum(),
        _ => 0,
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-004-4, R-004-14, R-004-16
    // B4: what a model reads is what a person would see
    #[test]
    fn descriptions_say_what_they_seem_to_say() {
        let described = |text: &str| {
            let tool = SourceTool::read(&serde_json::json!({"name": "t", "title": text, "description": text, "x": text}).to_string()).unwrap();
            let read: Value = serde_json::from_str(&tool.json).unwrap();
            assert_eq!(read["title"], read["description"]);
            assert_eq!(read["x"], text, "what nobody reads to decide stays as it is");
            read["description"].as_str().unwrap().to_owned()
        };
        for (text, expected) in [
            ("plain\ttext\nwith \u{fc}ml\u{e4}uts", "plain\ttext\nwith \u{fc}ml\u{e4}uts"),
            ("a\u{1b}[31mred\u{1b}[0m b\u{1b}]0;x\u{7}", "ared b]0;x"),
            ("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{0}f\u{e0041}g\u{61c}h", "abcdefgh"),
            ("family \u{1f468}\u{200d}\u{1f469}", "family \u{1f468}\u{200d}\u{1f469}"),
        ] {
            assert_eq!(described(text), expected, "{text:?}");
        }
        assert_eq!(described(&"\u{fc}".repeat(5_000)).len(), DESCRIPTION);
        let clean = r#"{"name":"t","description" : "same \u0062ytes","inputSchema":{"type":"object"}}"#;
        assert_eq!(SourceTool::read(clean).unwrap().json, clean);
    }

    #[test]
    fn a_sound_tool_keeps_its_bytes_and_gains_only_what_a_listing_must_carry() {
        for (json, listed) in [
            (
                r#"{"name":"a","description":"d","inputSchema":{"type":"object"},"x":18446744073709551616}"#,
                r#"{"name":"a","description":"d","inputSchema":{"type":"object"},"x":18446744073709551616}"#,
            ),
            (
                r#"{"name":"a","title":"T","inputSchema":{"type":"object"}}"#,
                r#"{"name":"a","title":"T","inputSchema":{"type":"object"},"description":"T"}"#,
            ),
            (r#"{"name":"a"}"#, r#"{"name":"a","description":"","inputSchema":{"type":"object"}}"#),
            (r#"{"description":null,"name":"a"}"#, r#"{"name":"a","description":"","inputSchema":{"type":"object"}}"#),
        ] {
            assert_eq!(SourceTool::read(json).unwrap().json, listed);
        }
    }

    // R-004-15
    #[test]
    fn a_tool_with_a_broken_schema_is_refused_with_the_reason() {
        let deep = format!("{}{}", r#"{"type":"object","properties":{"a":"#.repeat(40), "1".to_owned() + &"}}".repeat(40));
        for (schema, reason) in [
            ("7", "not an object"),
            (r#"{"type":"string"}"#, "not \"object\""),
            (r#"{"type":"object","properties":{"a":{"type":"strin"}}}"#, "not a valid JSON Schema"),
            (r#"{"type":"object","properties":[]}"#, "not a valid JSON Schema"),
            (deep.as_str(), "deep"),
            (r#"{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#, "needs the type"),
            (r#"{"type":"object","items":{"x-mcp-header":"A"}}"#, "no argument"),
            (r#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A b"}}}"#, "not a header name"),
            (r#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#, "twice"),
        ] {
            let error = SourceTool::read(&format!(r#"{{"name":"t","description":"","inputSchema":{schema}}}"#)).unwrap_err();
            assert!(error.contains(reason), "{schema}: {error}");
        }
    }

    #[test]
    fn arguments_marked_as_headers_are_found_with_their_paths() {
        let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}"#;
        let tool = SourceTool::read(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#)).unwrap();
        let found: Vec<_> = tool.headers.iter().map(|h| (h.name.as_str(), h.path.join("."), h.integer)).collect();
        assert_eq!(found, [("Region", "region".to_owned(), false), ("N", "o.n".to_owned(), true)]);
    }

    // §0.6: a reference is never fetched
    #[test]
    fn a_schema_that_refers_to_a_url_is_not_fetched() {
        let json = r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:9/latest/meta-data/"}}}}"#;
        assert!(SourceTool::read(json).is_ok());
    }
}
