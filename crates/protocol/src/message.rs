//! One JSON-RPC message out of bytes.

use crate::error::{self, RpcError};
use crate::id::Id;
use crate::json::{self, Fault, Json, Kind, Limits};
use crate::method::Method;
use bytes::Bytes;
use std::ops::Range;

/// A message, its parts still the bytes they came as.
#[derive(Clone, Debug)]
pub enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Is one.
    Response(Response),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The sender's id.
    pub id: Id,
    /// Which method.
    pub method: Method,
    /// The method as written.
    pub method_text: Bytes,
    /// `params`, checked JSON; empty if absent.
    pub params: Params,
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Which method.
    pub method: Method,
    /// The method as written.
    pub method_text: Bytes,
    /// `params`.
    pub params: Params,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The id as written; `None` if it was `null` or absent.
    pub id: Option<Bytes>,
    /// `Ok(result)` or `Err(error)`, each checked JSON.
    pub outcome: Result<Bytes, Bytes>,
}

/// The `params` of a message: an object, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Params {
    text: Bytes,
    places: Option<Places>,
    /// Whether there are members beside the noted ones.
    others: bool,
}

/// Members of a result by which it is judged. They stand once, and as they are called: where two readers could find two things, one of them would be
/// judged, and a client might read the other.
const JUDGED: [&str; 8] = ["resultType", "inputRequests", "requestState", "_meta", "result", "task", "cacheScope", "ttlMs"];

/// Members that several rooms ask for.
const NOTED: [&str; 4] = ["name", "arguments", "_meta", "uri"];

/// Where the noted members stand, found by the one scan of the message; an empty place if there is none.
type Places = [Range<u32>; NOTED.len()];

impl Params {
    /// Parameters from JSON text that was checked.
    pub fn trusted(text: impl Into<Bytes>) -> Params {
        Params { text: text.into(), places: None, others: true }
    }

    /// The object; an empty one if there was none.
    pub fn json(&self) -> Json<'_> {
        match std::str::from_utf8(&self.text) {
            Ok("") | Err(_) => Json::trusted("{}"),
            Ok(text) => Json::trusted(text),
        }
    }

    /// A member. The usual ones of a message that was read are not searched for.
    pub fn get(&self, key: &str) -> Option<Json<'_>> {
        let noted = self.places.as_ref().zip(NOTED.iter().position(|noted| *noted == key));
        match noted.and_then(|(places, at)| places.get(at)) {
            Some(place) => {
                let value = self.text.get(place.start as usize..place.end as usize).filter(|value| !value.is_empty())?;
                std::str::from_utf8(value).ok().map(Json::trusted)
            }
            None => self.json().get(key),
        }
    }

    /// Whether there may be members beside those that nearly every message has.
    pub fn has_others(&self) -> bool {
        self.others
    }

    /// The bytes, if there were any.
    pub fn raw(&self) -> Option<&Bytes> {
        (!self.text.is_empty()).then_some(&self.text)
    }

    /// A member's text, when it is a string.
    pub fn string(&self, key: &str) -> Option<String> {
        self.get(key)?.string().map(|text| text.into_owned())
    }

    /// A slice of these bytes as a value of its own.
    pub fn slice(&self, json: Json<'_>) -> Bytes {
        if self.text.is_empty() { Bytes::copy_from_slice(json.raw().as_bytes()) } else { self.text.slice_ref(json.raw().as_bytes()) }
    }
}

/// Why bytes were no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not JSON or not UTF-8.
    Parse(Fault),
    /// An array: batches are the business of the one revision that knew them.
    Batch,
    /// JSON, but not a message; the text says what is wrong.
    Invalid(&'static str),
}

impl Malformed {
    /// The error the sender gets.
    pub fn error(&self) -> RpcError {
        match self {
            Malformed::Parse(Fault::NotUtf8 | Fault::NotJson(_)) => RpcError::new(error::PARSE, "Parse error: the body is not JSON"),
            Malformed::Parse(fault) => RpcError::new(error::INVALID_REQUEST, format!("Invalid request: {fault}")),
            Malformed::Batch => RpcError::new(error::INVALID_REQUEST, "Invalid request: batches are not accepted; send one message per request"),
            Malformed::Invalid(what) => RpcError::new(error::INVALID_REQUEST, format!("Invalid request: {what}")),
        }
    }
}

#[derive(Default)]
struct Parts {
    jsonrpc: Option<Range<usize>>,
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
}

impl Message {
    /// Reads one message. `id` and `method` must be what JSON-RPC and MCP allow; unknown members are ignored.
    pub fn read(bytes: &Bytes, limits: &Limits) -> Result<Message, Malformed> {
        let mut parts = Parts::default();
        let mut twice = false;
        let mut places: [Range<usize>; NOTED.len()] = Default::default();
        let mut others = false;
        let (mut judged, mut odd) = (0u8, false);
        let text = json::scan_two(bytes, limits, |outer, key, range| {
            if let Some(outer) = outer {
                if outer.raw() == "result" {
                    let written = key.raw();
                    if let Some(at) = JUDGED.iter().position(|name| *name == written) {
                        let twice = judged & (1 << at) != 0;
                        odd |= twice || (at == 0 && bytes.get(range).is_some_and(|value| value.contains(&b'\\')));
                        judged |= 1 << at;
                    } else if written.contains('\\') {
                        odd |= JUDGED.iter().any(|name| key.is(name));
                    }
                } else if outer.raw() == "params" {
                    match NOTED.iter().position(|noted| key.is(noted)).and_then(|at| places.get_mut(at)) {
                        // The first counts, as it does for whoever searches.
                        Some(place) if place.end == 0 => *place = range,
                        Some(_) => {}
                        None => others = true,
                    }
                }
                return;
            }
            let slot = match key.raw() {
                "jsonrpc" => &mut parts.jsonrpc,
                "id" => &mut parts.id,
                "method" => &mut parts.method,
                "params" => &mut parts.params,
                "result" => &mut parts.result,
                "error" => &mut parts.error,
                _ => return,
            };
            twice |= slot.replace(range).is_some();
        })
        .map_err(Malformed::Parse)?;
        if twice {
            return Err(Malformed::Invalid("a member of the message stands twice"));
        }
        if odd {
            return Err(Malformed::Invalid("a member by which a result is judged stands twice, or is written with escapes"));
        }
        match text.trim_start().as_bytes().first() {
            Some(b'{') => {}
            Some(b'[') => return Err(Malformed::Batch),
            _ => return Err(Malformed::Invalid("a message is a JSON object")),
        }
        let part = |range: &Option<Range<usize>>| range.clone().and_then(|r| text.get(r)).map(Json::trusted);

        if part(&parts.jsonrpc).map(Json::raw) != Some("\"2.0\"") {
            return Err(Malformed::Invalid("`jsonrpc` must be \"2.0\""));
        }
        if let Some(method) = part(&parts.method) {
            if parts.result.is_some() || parts.error.is_some() {
                return Err(Malformed::Invalid("a message is a request or a response, not both"));
            }
            let name = method.string().ok_or(Malformed::Invalid("`method` must be a string"))?;
            let method_text = match name {
                std::borrow::Cow::Borrowed(text) => bytes.slice_ref(text.as_bytes()),
                std::borrow::Cow::Owned(text) => Bytes::from(text),
            };
            let method = Method::read(std::str::from_utf8(&method_text).unwrap_or(""));
            let params = match part(&parts.params) {
                None => Params::default(),
                Some(params) if params.kind() == Kind::Object => {
                    let start = parts.params.map_or(0, |range| range.start);
                    let within = |at: usize| u32::try_from(at.saturating_sub(start)).ok();
                    let place = |place: &Range<usize>| within(place.start).zip(within(place.end)).map(|(start, end)| start..end);
                    let places = places.each_ref().map(place);
                    // What is too far away for a place is searched for.
                    let places = places.iter().all(Option::is_some).then(|| places.map(Option::unwrap_or_default));
                    Params { text: bytes.slice_ref(params.raw().as_bytes()), places, others }
                }
                Some(_) => return Err(Malformed::Invalid("`params` must be an object")),
            };
            return match part(&parts.id) {
                None => Ok(Message::Notification(Notification { method, method_text, params })),
                Some(id) => {
                    let id = Id::read(bytes, id).ok_or(Malformed::Invalid("`id` must be a string of at most 256 bytes or an integer"))?;
                    Ok(Message::Request(Request { id, method, method_text, params }))
                }
            };
        }
        let id = part(&parts.id).filter(|id| id.kind() != Kind::Null).map(|id| bytes.slice_ref(id.raw().as_bytes()));
        let outcome = match (part(&parts.result), part(&parts.error)) {
            (Some(result), None) => Ok(bytes.slice_ref(result.raw().as_bytes())),
            (None, Some(error)) => Err(bytes.slice_ref(error.raw().as_bytes())),
            (Some(_), Some(_)) => return Err(Malformed::Invalid("a response has a result or an error, not both")),
            (None, None) => return Err(Malformed::Invalid("a message has a `method`, a `result` or an `error`")),
        };
        Ok(Message::Response(Response { id, outcome }))
    }
}

impl Request {
    /// The method as text.
    pub fn method_name(&self) -> &str {
        std::str::from_utf8(&self.method_text).unwrap_or("")
    }
}

impl Notification {
    /// The method as text.
    pub fn method_name(&self) -> &str {
        std::str::from_utf8(&self.method_text).unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Message, Malformed> {
        Message::read(&Bytes::copy_from_slice(text.as_bytes()), &Limits::REQUEST)
    }

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        let Ok(Message::Request(request)) = read(r#"{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"x"},"extra":1}"#) else {
            panic!()
        };
        assert_eq!((request.id.raw(), request.method, request.params.string("name").as_deref()), (&b"\"7\""[..], Method::CallTool, Some("x")));
        let Ok(Message::Notification(note)) = read(r#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#) else { panic!() };
        assert_eq!((note.method, note.method_name()), (Method::Unknown, "notifications/whatever"));
        let Ok(Message::Response(response)) = read(r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}"#) else { panic!() };
        assert_eq!(response.outcome.unwrap(), &b"{\"a\":[1]}"[..]);
        let Ok(Message::Response(response)) = read(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#) else { panic!() };
        assert!(response.id.is_none() && response.outcome.is_err());
    }

    // E9, E13: what is judged is what a client reads
    #[test]
    fn a_result_that_can_be_read_in_two_ways_is_refused() {
        for (result, sound) in [
            (r#"{"resultType":"complete","content":[],"_meta":{},"ttlMs":1}"#, true),
            (r#"{"content":[],"content":[],"x":1,"\u0078":2,"structuredContent":{"_meta":1,"_meta":2}}"#, true),
            (r#"{"resultType":"complete","resultType":"input_required"}"#, false),
            (r#"{"resultType":"input\u005frequired"}"#, false),
            (r#"{"\u0072esultType":"input_required"}"#, false),
            (r#"{"_meta":1,"_meta":{}}"#, false),
            (r#"{"_meta":1,"_met\u0061":{}}"#, false),
            (r#"{"result":1,"result":{}}"#, false),
        ] {
            let read = Message::read(&Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)), &Limits::REPLY);
            assert_eq!(read.is_ok(), sound, "{result}");
        }
    }

    #[test]
    fn a_member_of_params_is_the_same_noted_and_searched_for() {
        for params in [
            "{}",
            r#"{"name":"x"}"#,
            r#" { "arguments" : { "name" : "inner", "uri": [ {"_meta":1} ] } , "n\u0061me" : "\u0078" , "other":1} "#,
            r#"{"_meta":{"arguments":{}},"uri":"u://x","arguments":null,"name":7}"#,
        ] {
            for text in [
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#),
                format!(r#"{{"params":{params},"other":{{"name":"y","uri":1}},"method":"m","id":1,"jsonrpc":"2.0"}}"#),
            ] {
                let Ok(Message::Request(request)) = read(&text) else { panic!("{text}") };
                for key in NOTED.iter().chain(&["other", "missing"]) {
                    assert_eq!(request.params.get(key), Json::trusted(params.trim()).get(key), "{key} of {text}");
                }
            }
        }
        // Where a key may stand twice, the first is the one that a search finds.
        let text = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"m","params":{"name":1,"name":2}}"#);
        let Ok(Message::Notification(note)) = Message::read(&text, &Limits::REPLY) else { panic!() };
        assert_eq!(note.params.get("name").map(Json::raw), Some("1"));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_reason() {
        for text in [
            "1",
            "\"x\"",
            "{}",
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        ] {
            assert!(matches!(read(text), Err(Malformed::Invalid(_))), "{text}");
        }
        assert_eq!(read("[]").unwrap_err(), Malformed::Batch);
        assert_eq!(read("{").unwrap_err().error().code, error::PARSE);
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#).unwrap_err().error().code, error::INVALID_REQUEST);
    }
}
