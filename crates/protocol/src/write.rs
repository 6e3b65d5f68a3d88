//! Writing messages: envelopes around bytes that are already JSON.

use crate::error::RpcError;
use crate::json::{Json, Key, Kind};
use bytes::Bytes;

/// A JSON string.
pub fn string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut start = 0;
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..=0x1f => &[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), HEX[usize::from(byte & 15)]],
            _ => continue,
        };
        out.extend_from_slice(bytes.get(start..at).unwrap_or(&[]));
        out.extend_from_slice(escape);
        start = at + 1;
    }
    out.extend_from_slice(bytes.get(start..).unwrap_or(&[]));
    out.push(b'"');
}

/// A JSON string, on its own.
pub fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// A request or, without an id, a notification.
pub fn request(id: Option<&[u8]>, method: &str, params: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + method.len() + params.map_or(0, <[u8]>::len) + id.map_or(0, <[u8]>::len));
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id);
    }
    out.extend_from_slice(b",\"method\":");
    string(&mut out, method);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params);
    }
    out.push(b'}');
    out
}

/// A successful response.
pub fn result(id: &[u8], result: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(40 + id.len() + result.len());
    result_into(&mut out, id, &[result]);
    out.into()
}

/// A successful response whose result comes in pieces.
pub fn result_into(out: &mut Vec<u8>, id: &[u8], pieces: &[&[u8]]) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id);
    out.extend_from_slice(b",\"result\":");
    for piece in pieces {
        out.extend_from_slice(piece);
    }
    out.push(b'}');
}

/// An error response; without an id the request had none we could read.
pub fn error(id: Option<&[u8]>, error: &RpcError) -> Bytes {
    let mut out = Vec::with_capacity(96 + error.message.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.unwrap_or(b"null"));
    out.extend_from_slice(b",\"error\":");
    error.write(&mut out);
    out.push(b'}');
    out.into()
}

/// What becomes of one member of an object.
pub enum Edit<'e> {
    /// It stays as it was written.
    Keep,
    /// It goes.
    Drop,
    /// It gets this value.
    Set(&'e [u8]),
}

/// An object with some members changed; members in `added` come last. Other members keep their bytes and their order.
pub fn edited<'e>(object: Json<'_>, mut edit: impl FnMut(Key<'_>, Json<'_>) -> Edit<'e>, added: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.raw().len() + 64);
    out.push(b'{');
    let separate = |out: &mut Vec<u8>| {
        if out.len() > 1 {
            out.push(b',');
        }
    };
    if object.kind() == Kind::Object {
        for (key, value) in object.members() {
            let value = match edit(key, value) {
                Edit::Keep => value.raw().as_bytes(),
                Edit::Drop => continue,
                Edit::Set(value) => value,
            };
            separate(&mut out);
            out.push(b'"');
            out.extend_from_slice(key.raw().as_bytes());
            out.extend_from_slice(b"\":");
            out.extend_from_slice(value);
        }
    }
    for (key, value) in added {
        separate(&mut out);
        string(&mut out, key);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_so_that_any_reader_gets_them_back() {
        let text = "a\"b\\c\nd\r\t\u{0}\u{1f}é\u{2028}";
        assert_eq!(serde_json_like(&quoted(text)), text);
        assert!(quoted(text).contains("\\u0000") && quoted(text).contains("\\u001f"));
    }

    fn serde_json_like(text: &str) -> String {
        crate::json::check(text.as_bytes(), &crate::Limits::REQUEST).unwrap().string().unwrap().into_owned()
    }

    #[test]
    fn an_edited_object_keeps_what_was_not_named() {
        let json = Json::trusted(r#"{"name":"x","arguments":{"n":1e400},"_meta":{},"z":[ 1 ]}"#);
        let edit = |key: Key<'_>, _: Json<'_>| match key.raw() {
            "name" => Edit::Set(b"\"y\""),
            "_meta" => Edit::Drop,
            _ => Edit::Keep,
        };
        let text = String::from_utf8(edited(json, edit, &[("new", b"true")])).unwrap();
        assert_eq!(text, r#"{"name":"y","arguments":{"n":1e400},"z":[ 1 ],"new":true}"#);
        assert_eq!(edited(Json::trusted("null"), |_, _| Edit::Keep, &[("a", b"1")]), b"{\"a\":1}");
    }
}
