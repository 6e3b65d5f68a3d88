//! A path and a document: the path is refused, or costs too much, or finds what another implementation of RFC 9535 finds, value
//! for value and in its order. What it is said to cost stays within its budget. That all of it passes the
//! compliance suite of the RFC is seen in `tests/e2e/jsonpath.rs`; here the walk of our own is held to the library that runs the other queries, and
//! so is the way from its values back to our text.

use crate::world::is_json;
use serde_json::Value;
use serde_json_path::JsonPath;
use transom_json::{Json, Limits, Tree, check, write};
use transom_registry::path::Found;
use transom_registry::path::{Document, Forms, Indexed, Path, Rules};
use transom_registry::result::{Projection, Shaping};

pub const WORDS: &[&str] = &[
    "$",
    "$.",
    "$..",
    "[*]",
    "[?",
    "@.",
    "@",
    "&&",
    "||",
    "!",
    "==",
    "<=",
    ">",
    "'a'",
    "\"b\"",
    "[0]",
    "[-1]",
    "[1:3]",
    "[::2]",
    "[::-1]",
    "length(",
    "count(",
    "match(",
    "search(",
    "value(",
    ".a",
    ".b",
    "..*",
    "['\\u0061']",
    "null",
    "1e3",
];

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (path, document) = text.split_once('\n').unwrap_or((text, r#"{"a":[{"b":1},{"b":[2,3]}],"c":"x"}"#));
    let Ok(json) = check(document.as_bytes(), &Limits::REPLY) else { return };
    for rules in [Rules::default(), Rules { full: true }] {
        let parsed = match Path::parse(path, &rules) {
            Ok(parsed) => parsed,
            Err(bad) => {
                assert!(bad.at.start <= bad.at.end && bad.at.end <= path.len(), "{bad:?}");
                assert!(path.is_char_boundary(bad.at.start) && path.is_char_boundary(bad.at.end), "{bad:?}");
                continue;
            }
        };
        assert_eq!(parsed.to_string(), path);
        agrees(&parsed, path, json);
        projects(path, &rules, json);
    }
}

fn agrees(parsed: &Path, path: &str, json: Json<'_>) {
    let other = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path} is no path to others: {error}"));
    let Some(indexed) = Indexed::whole(json.raw()) else { return };
    let forms = Forms::default();
    let document = Document::new(&indexed, &forms);
    let mut spent = 0;
    let Ok(found) = parsed.select(&document, indexed.root(), &mut spent) else { return };
    assert!(spent <= 1_000_000, "{path} costs {spent}");
    // The other reads numbers as numbers: what it cannot hold it does not see as it is.
    let Ok(value) = serde_json::from_str::<Value>(json.raw()) else { return };
    let theirs: Vec<&Value> = other.query(&value).all();
    let places = match found {
        Found::One(place) => {
            assert!(parsed.is_singular());
            place.into_iter().collect()
        }
        Found::Many(places) => places,
    };
    let ours: Vec<Value> = places.iter().map(|place| serde_json::from_str(indexed.json(*place).raw()).expect("a part of JSON is JSON")).collect();
    if Tree::from(json).to_string().len() < json.raw().len() && has_double(json) {
        // Of equal keys the last counts for both, but places of the first are counted by us.
        return;
    }
    assert_eq!(ours.iter().collect::<Vec<_>>(), theirs, "{path} on {}", json.raw());
}

fn has_double(json: Json<'_>) -> bool {
    check(json.raw().as_bytes(), &Limits { duplicate_keys: false, ..Limits::REPLY }).is_err()
}

fn projects(path: &str, rules: &Rules, json: Json<'_>) {
    let schema = format!(r#"{{"type":"object","properties":{{"v":{{"sourceField":{}}}}}}}"#, write::quoted(path));
    let schema = Tree::from(Json::trusted(&schema));
    let Ok(Some(projection)) = Projection::compile(&schema, rules, &Shaping::default()) else { return };
    let result = format!(r#"{{"content":[],"structuredContent":{}}}"#, json.raw());
    let shaped = projection.apply(Json::trusted(&result), true);
    assert!(is_json(&shaped.json), "{path}: {}", shaped.json);
}
