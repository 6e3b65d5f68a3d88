//! A message that is accepted is the same tree to a second parser that knows nothing of ours; it has no key twice, no more
//! values than allowed, and its parts are where the tree has them. What is refused as no JSON is none to the second parser.

use bytes::Bytes;
use serde_json::Value;
use transom_json::{Fault, Json, Kind, Limits, Tree, check};
use transom_protocol::{Malformed, Message};

pub const WORDS: &[&str] = &[
    "jsonrpc",
    "2.0",
    "id",
    "method",
    "params",
    "result",
    "error",
    "name",
    "arguments",
    "_meta",
    "uri",
    "progressToken",
    "tools/call",
    "initialize",
    "ping",
    "notifications/cancelled",
    "n\\u0061me",
    "code",
    "message",
];

const LIMITS: Limits = Limits { depth: 16, nodes: 200, key: 64, duplicate_keys: false };

pub fn run(bytes: &[u8]) {
    let other: Result<Value, _> = serde_json::from_slice(bytes);
    match check(bytes, &LIMITS) {
        Ok(json) => {
            let other = match other {
                Ok(other) => other,
                // Numbers that only text can hold are ours to forward and not ours to judge.
                Err(error) if error.to_string().starts_with("number out of range") => return,
                Err(error) => panic!("we accept what is no JSON to others: {error}"),
            };
            let mut count = 0;
            same(json, &other, &mut count);
            assert!(count <= LIMITS.nodes, "{count} values");
            let tree = Tree::from(json);
            let again = tree.to_string();
            assert_eq!(check(again.as_bytes(), &Limits::REPLY).map(Tree::from), Ok(tree), "what we write we read");
        }
        Err(Fault::NotUtf8) => assert!(std::str::from_utf8(bytes).is_err()),
        // Of a text with several faults each parser may see another first; that there is one is what they agree on.
        Err(Fault::NotJson(at)) => {
            assert!(at <= bytes.len(), "a fault behind the end");
            assert!(other.is_err(), "we refuse what is JSON to others, at {at}");
        }
        Err(Fault::DuplicateKey) => {
            let doubles = Limits { duplicate_keys: true, ..LIMITS };
            if let Ok(json) = check(bytes, &doubles) {
                assert!(has_double(json), "no key stands twice");
            }
        }
        Err(Fault::TooDeep | Fault::TooManyNodes | Fault::KeyTooLong) => {}
    }
    message(bytes);
}

/// Both see the same value; keys that are equal to the other would be fewer there.
fn same(json: Json<'_>, other: &Value, count: &mut usize) {
    *count += 1;
    match (json.kind(), other) {
        (Kind::Object, Value::Object(members)) => {
            assert_eq!(json.members().count(), members.len(), "a key stands twice");
            for ((key, value), (other_key, other)) in json.members().zip(members) {
                assert_eq!(key.text(), other_key.as_str());
                same(value, other, count);
            }
        }
        (Kind::Array, Value::Array(elements)) => {
            assert_eq!(json.elements().count(), elements.len());
            json.elements().zip(elements).for_each(|(element, other)| same(element, other, count));
        }
        (Kind::String, Value::String(text)) => assert_eq!(json.string().as_deref(), Some(text.as_str())),
        (Kind::Number, Value::Number(number)) => {
            let ours: Value = serde_json::from_str(json.raw()).expect("a number is a number");
            assert_eq!(ours, Value::Number(number.clone()));
        }
        (Kind::Bool, Value::Bool(value)) => assert_eq!(json.bool(), Some(*value)),
        (Kind::Null, Value::Null) => {}
        (kind, other) => panic!("we see {kind:?}, others {other}"),
    }
}

fn has_double(json: Json<'_>) -> bool {
    match json.kind() {
        Kind::Object => {
            let mut keys: Vec<_> = json.members().map(|(key, _)| key.text()).collect();
            let all = keys.len();
            keys.sort_unstable();
            keys.dedup();
            keys.len() < all || json.members().any(|(_, value)| has_double(value))
        }
        Kind::Array => json.elements().any(has_double),
        _ => false,
    }
}

fn message(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let read = match Message::read(&bytes, &LIMITS) {
        Ok(read) => read,
        Err(malformed) => {
            let code = malformed.error().code;
            assert!(code == -32700 || code == -32600);
            assert_eq!(code == -32700, matches!(malformed, Malformed::Parse(Fault::NotUtf8 | Fault::NotJson(_))));
            return;
        }
    };
    let Ok(other) = serde_json::from_slice::<Value>(&bytes) else { return };
    assert_eq!(other["jsonrpc"], "2.0");
    let value = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("a part of JSON is JSON");
    let (method, params) = match &read {
        Message::Request(request) => {
            assert_eq!(value(request.id.raw()), other["id"]);
            assert!(other["id"].is_string() || other["id"].is_i64());
            (request.method_name(), &request.params)
        }
        Message::Notification(note) => {
            assert!(other.get("id").is_none());
            (note.method_name(), &note.params)
        }
        Message::Response(response) => {
            assert!(other.get("method").is_none());
            let (key, outcome) = match &response.outcome {
                Ok(result) => ("result", result),
                Err(error) => ("error", error),
            };
            assert_eq!(value(outcome), other[key]);
            assert_eq!(response.id.as_deref().map_or(Value::Null, value), other["id"]);
            return;
        }
    };
    assert_eq!(method, other["method"]);
    for key in ["name", "arguments", "_meta", "uri", "other"] {
        let ours = params.get(key).map(|json| value(json.raw().as_bytes()));
        assert_eq!(ours.as_ref(), other["params"].get(key), "{key}");
    }
}
