//! `k=v` on a command line, turned into the arguments a tool's schema asks for.
//!
//! Values stay the text they were given as, so that a number keeps every digit. Whether the arguments are complete and
//! allowed is for the server to say.

use serde_json::Value;
use std::collections::VecDeque;
use transom_protocol::json::{self, Json, Kind};
use transom_protocol::{Limits, write};

/// References followed in a row before a schema counts as saying nothing.
const MAX_HOPS: usize = 16;
/// Schemas looked at to learn the types of one argument; a schema may refer to itself.
const MAX_SCHEMAS: usize = 256;

/// Why arguments could not be made; the text names the argument and says what would do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadArgument(String);

fn bad<T>(text: impl Into<String>) -> Result<T, BadArgument> {
    Err(BadArgument(text.into()))
}

/// The arguments as a JSON object: `whole` (from `--args`) first, then each `k=v` or `k:=JSON` over it.
pub fn build(schema: &Value, whole: Option<&str>, pairs: &[String]) -> Result<String, BadArgument> {
    let mut root = match whole {
        None => Node::Object(Vec::new()),
        Some(text) => match json::check(text.as_bytes(), &Limits::REQUEST) {
            Ok(json) if json.kind() == Kind::Object => Node::read(json),
            Ok(_) => return bad("`--args` must be a JSON object, such as '{\"city\":\"Oslo\"}'"),
            Err(fault) => return bad(format!("`--args` is not JSON ({fault}); write it like '{{\"city\":\"Oslo\"}}'")),
        },
    };
    let mut seen: Vec<Vec<&str>> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return bad(format!("`{pair}` is no argument; write `key=value`, or `key:=JSON`"));
        };
        let (key, forced) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
        if key.is_empty() {
            return bad(format!("`{pair}` has no key; write `key=value`, or `key:=JSON`"));
        }
        let path = path(schema, key);
        if seen.contains(&path) {
            return bad(format!("argument `{key}` is given twice; write a list as `{key}:='[\"a\",\"b\"]'`"));
        }
        let text = if forced { forced_json(key, value)? } else { convert(schema, &path, key, value)? };
        root.set(&path, key, text)?;
        seen.push(path);
    }
    let mut out = Vec::new();
    root.write(&mut out);
    // Every piece is UTF-8: keys and values come from `str`.
    Ok(String::from_utf8(out).unwrap_or_default())
}

/// `a.b` means `b` inside `a`, unless the schema has a property of that very name.
fn path<'k>(schema: &Value, key: &'k str) -> Vec<&'k str> {
    let literal = resolve(schema, schema).get("properties").is_some_and(|properties| properties.get(key).is_some());
    if literal { vec![key] } else { key.split('.').collect() }
}

fn forced_json(key: &str, value: &str) -> Result<String, BadArgument> {
    match json::check(value.as_bytes(), &Limits::REQUEST) {
        Ok(json) => Ok(json.raw().into()),
        Err(fault) => bad(format!("argument `{key}` is not JSON ({fault}); `{key}={value}` would be converted by the tool's schema")),
    }
}

/// The value as JSON text of a type that the schema names at this path; a string where it names none.
fn convert(schema: &Value, path: &[&str], key: &str, value: &str) -> Result<String, BadArgument> {
    let types = at(schema, path).map_or_else(Types::default, |property| Types::of(schema, property));
    let json = json::check(value.as_bytes(), &Limits::REQUEST).ok();
    let fits = json.is_some_and(|json| match json.kind() {
        Kind::Null => types.null,
        Kind::Bool => types.boolean,
        Kind::Number => types.number || (types.integer && is_whole(json.raw())),
        Kind::Array => types.array,
        Kind::Object => types.object,
        Kind::String => false,
    });
    if let (true, Some(json)) = (fits, json) {
        return Ok(json.raw().into());
    }
    if types.string || types.is_empty() {
        return Ok(write::quoted(value));
    }
    let example = if types.array || types.object {
        format!("; write it as JSON, `{key}:='{}'`", if types.array { "[…]" } else { "{…}" })
    } else {
        String::new()
    };
    bad(format!("argument `{key}` wants {}, not `{value}`{example}", types.words()))
}

/// JSON Schema counts `2.0` and `1e3` as integers; they are passed on as they were written.
fn is_whole(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(|number| number.fract() == 0.0)
}

/// The schema of the property at this path.
fn at<'s>(root: &'s Value, path: &[&str]) -> Option<&'s Value> {
    path.iter().try_fold(resolve(root, root), |schema, name| {
        let property = schema.get("properties").and_then(|properties| properties.get(name)).or_else(|| schema.get("additionalProperties"))?;
        Some(resolve(root, property))
    })
}

/// Follows references within the document.
fn resolve<'s>(root: &'s Value, mut schema: &'s Value) -> &'s Value {
    for _ in 0..MAX_HOPS {
        let target =
            schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#')).and_then(|place| root.pointer(place));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// The types a schema allows, as far as it says so.
#[derive(Debug, Default)]
struct Types {
    string: bool,
    integer: bool,
    number: bool,
    boolean: bool,
    null: bool,
    array: bool,
    object: bool,
}

impl Types {
    /// Nearest first, so that a schema that refers to itself still says what it says outright.
    fn of(root: &Value, schema: &Value) -> Types {
        let mut types = Types::default();
        let mut waiting = VecDeque::from([schema]);
        for _ in 0..MAX_SCHEMAS {
            let Some(schema) = waiting.pop_front().map(|schema| resolve(root, schema)) else { break };
            match schema.get("type") {
                Some(Value::String(name)) => types.add(name),
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).for_each(|name| types.add(name)),
                _ => {
                    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
                    listed.for_each(|value| types.add(type_of(value)));
                }
            }
            for key in ["anyOf", "oneOf", "allOf"] {
                waiting.extend(schema.get(key).and_then(Value::as_array).into_iter().flatten().take(MAX_SCHEMAS));
            }
        }
        types
    }

    fn add(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "array" => self.array = true,
            "object" => self.object = true,
            _ => {}
        }
    }

    fn named(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.integer, "an integer"),
            (self.number, "a number"),
            (self.boolean, "`true` or `false`"),
            (self.array, "a list"),
            (self.object, "an object"),
            (self.string, "a text"),
            (self.null, "`null`"),
        ]
        .into_iter()
        .filter_map(|(allowed, name)| allowed.then_some(name))
    }

    fn is_empty(&self) -> bool {
        self.named().next().is_none()
    }

    fn words(&self) -> String {
        self.named().collect::<Vec<_>>().join(" or ")
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Arguments on their way: objects that may still grow, and everything else as JSON text.
enum Node {
    Object(Vec<(String, Node)>),
    Text(String),
}

impl Node {
    fn read(json: Json<'_>) -> Node {
        match json.kind() {
            Kind::Object => Node::Object(json.members().map(|(key, value)| (key.text().into_owned(), Node::read(value))).collect()),
            _ => Node::Text(json.raw().into()),
        }
    }

    fn set(&mut self, path: &[&str], key: &str, text: String) -> Result<(), BadArgument> {
        let Some((name, rest)) = path.split_first() else {
            *self = match json::check(text.as_bytes(), &Limits::REQUEST) {
                Ok(json) => Node::read(json),
                Err(_) => Node::Text(text),
            };
            return Ok(());
        };
        let Node::Object(members) = self else {
            return bad(format!("argument `{key}` lies inside a value that is no object"));
        };
        let place = members.iter().position(|(member, _)| member == name).unwrap_or_else(|| {
            members.push(((*name).into(), Node::Object(Vec::new())));
            members.len() - 1
        });
        members.get_mut(place).map_or(Ok(()), |(_, member)| member.set(rest, key, text))
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Text(text) => out.extend_from_slice(text.as_bytes()),
            Node::Object(members) => {
                out.push(b'{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write::string(out, key);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "ratio": {"type": "number"},
                "deep": {"type": "boolean"},
                "note": {"type": ["string", "null"]},
                "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "filter": {"$ref": "#/$defs/Filter"},
                "level": {"enum": [1, 2, "max"]},
                "a.b": {"type": "integer"},
                "env": {"type": "object", "additionalProperties": {"type": "integer"}},
                "loop": {"$ref": "#/properties/loop"},
                "maze": {"anyOf": [{"$ref": "#/properties/maze"}, {"$ref": "#/properties/maze"}, {"type": "integer"}]},
                "any": {}
            },
            "$defs": {"Filter": {"type": "object", "properties": {"min": {"type": "integer"}, "name": {"type": "string"}}}}
        })
    }

    fn built(pairs: &[&str]) -> Result<String, String> {
        let pairs: Vec<String> = pairs.iter().map(|pair| pair.to_string()).collect();
        build(&schema(), None, &pairs).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_becomes_what_the_schema_asks_for() {
        for (pair, expected) in [
            ("city=Oslo", r#"{"city":"Oslo"}"#),
            ("city=", r#"{"city":""}"#),
            ("city=7", r#"{"city":"7"}"#),
            ("city=a=b", r#"{"city":"a=b"}"#),
            ("city=\"x\"", r#"{"city":"\"x\""}"#),
            ("days=3", r#"{"days":3}"#),
            ("days=123456789012345678901234567890", r#"{"days":123456789012345678901234567890}"#),
            ("days=3.0", r#"{"days":3.0}"#),
            ("ratio=0.50", r#"{"ratio":0.50}"#),
            ("deep=true", r#"{"deep":true}"#),
            ("note=null", r#"{"note":null}"#),
            ("note=7", r#"{"note":"7"}"#),
            ("count=null", r#"{"count":null}"#),
            ("tags=[\"a\", \"b\"]", r#"{"tags":["a", "b"]}"#),
            ("filter={\"min\":1}", r#"{"filter":{"min":1}}"#),
            ("filter.min=1", r#"{"filter":{"min":1}}"#),
            ("filter.name=1", r#"{"filter":{"name":"1"}}"#),
            ("level=2", r#"{"level":2}"#),
            ("level=max", r#"{"level":"max"}"#),
            ("a.b=1", r#"{"a.b":1}"#),
            ("env.PORT=80", r#"{"env":{"PORT":80}}"#),
            ("loop=x", r#"{"loop":"x"}"#),
            ("maze=5", r#"{"maze":5}"#),
            ("any=1", r#"{"any":"1"}"#),
            ("any:=1", r#"{"any":1}"#),
            ("new.deep.er=x", r#"{"new":{"deep":{"er":"x"}}}"#),
            ("city:={\"x\":[1]}", r#"{"city":{"x":[1]}}"#),
        ] {
            assert_eq!(built(&[pair]).as_deref(), Ok(expected), "{pair}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_what_is_asked_for_is_refused_with_the_reason() {
        for (pairs, reason) in [
            (&["days=three"][..], "argument `days` wants an integer, not `three`"),
            (&["days=2.5"], "wants an integer"),
            (&["deep=yes"], "wants `true` or `false`"),
            (&["count=x"], "wants an integer or `null`"),
            (&["tags=a"], "write it as JSON, `tags:='[…]'`"),
            (&["any:=nope"], "argument `any` is not JSON"),
            (&["oslo"], "`oslo` is no argument"),
            (&["=x"], "has no key"),
            (&["city=a", "city=b"], "given twice"),
            (&["city=a", "city.x=b"], "inside a value that is no object"),
        ] {
            let error = built(pairs).unwrap_err();
            assert!(error.contains(reason), "{pairs:?}: {error}");
        }
    }

    #[test]
    fn pairs_go_over_the_whole() {
        let pairs = ["days=2".to_string(), "filter.min=3".to_string()];
        let whole = r#"{"city":"Oslo","days":1,"filter":{"name":"x","big":1e400}}"#;
        let expected = r#"{"city":"Oslo","days":2,"filter":{"name":"x","big":1e400,"min":3}}"#;
        assert_eq!(build(&schema(), Some(whole), &pairs).unwrap(), expected);
        for whole in ["[]", "{", "7"] {
            assert!(build(&schema(), Some(whole), &[]).unwrap_err().to_string().contains("--args"), "{whole}");
        }
        assert_eq!(build(&json!(true), None, &["a=1".into()]).unwrap(), r#"{"a":"1"}"#);
    }
}
