//! Writing messages: envelopes around bytes that are already JSON.

use crate::error::RpcError;
use bytes::Bytes;

pub use transom_json::write::{Edit, edited, quoted, string};

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
