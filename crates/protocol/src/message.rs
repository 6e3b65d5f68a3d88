//! One JSON-RPC message out of bytes.

use crate::error::{self, RpcError};
use crate::id::Id;
use crate::json::{self, Fault, Json, Kind, Limits};
use crate::method::Method;
use bytes::Bytes;

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
pub struct Params(Bytes);

impl Params {
    /// Parameters from JSON text that was checked.
    pub fn trusted(text: impl Into<Bytes>) -> Params {
        Params(text.into())
    }

    /// The object; an empty one if there was none.
    pub fn json(&self) -> Json<'_> {
        match std::str::from_utf8(&self.0) {
            Ok("") | Err(_) => Json::trusted("{}"),
            Ok(text) => Json::trusted(text),
        }
    }

    /// The bytes, if there were any.
    pub fn raw(&self) -> Option<&Bytes> {
        (!self.0.is_empty()).then_some(&self.0)
    }

    /// A member's text, when it is a string.
    pub fn string(&self, key: &str) -> Option<String> {
        self.json().get(key)?.string().map(|text| text.into_owned())
    }

    /// A slice of these bytes as a value of its own.
    pub fn slice(&self, json: Json<'_>) -> Bytes {
        if self.0.is_empty() { Bytes::copy_from_slice(json.raw().as_bytes()) } else { self.0.slice_ref(json.raw().as_bytes()) }
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
    jsonrpc: Option<std::ops::Range<usize>>,
    id: Option<std::ops::Range<usize>>,
    method: Option<std::ops::Range<usize>>,
    params: Option<std::ops::Range<usize>>,
    result: Option<std::ops::Range<usize>>,
    error: Option<std::ops::Range<usize>>,
}

impl Message {
    /// Reads one message. `id` and `method` must be what JSON-RPC and MCP allow; unknown members are ignored.
    pub fn read(bytes: &Bytes, limits: &Limits) -> Result<Message, Malformed> {
        let mut parts = Parts::default();
        let mut twice = false;
        let text = json::scan(bytes, limits, |key, range| {
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
        match text.trim_start().as_bytes().first() {
            Some(b'{') => {}
            Some(b'[') => return Err(Malformed::Batch),
            _ => return Err(Malformed::Invalid("a message is a JSON object")),
        }
        let part = |range: &Option<std::ops::Range<usize>>| range.clone().and_then(|r| text.get(r)).map(Json::trusted);

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
                Some(params) if params.kind() == Kind::Object => Params(bytes.slice_ref(params.raw().as_bytes())),
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
