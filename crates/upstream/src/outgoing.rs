//! What a target is sent: the client's params with our identifiers, the target's own names and the `_meta` its era needs.
//!
//! Arguments are never parsed here. The common case, a legacy target and nothing to change, is one copy.

use crate::call::Call;
use crate::ident::Ident;
use bytes::Bytes;
use transom_protocol::meta::{self, Modern, Rewrite};
use transom_protocol::write;
use transom_protocol::{Era, Json};

/// Who we are, to targets whose caller does not say.
pub(crate) const CLIENT_INFO: &[u8] = concat!("{\"name\":\"transom\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}").as_bytes();
/// The modern revision as JSON.
pub(crate) const MODERN_VERSION: &[u8] = b"\"2026-07-28\"";
const NO_CAPABILITIES: &[u8] = b"{}";
const TASKS_ONLY: &[u8] = br#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// The whole request for a call. `declare` passes the client's capabilities on to a modern target.
pub(crate) fn call(call: &Call, ident: Ident, era: Era, declare: bool) -> Bytes {
    let ident = ident.json();
    let params = call.params.json();
    let meta = call.params.get("_meta");
    let token = call.caller.progress_token.is_some() && call.outbox.is_some();
    let modern = (era == Era::Modern).then(|| Modern {
        protocol_version: MODERN_VERSION,
        client_info: call.caller.client_info.as_deref().unwrap_or(CLIENT_INFO),
        client_capabilities: capabilities(call.caller.capabilities.as_deref(), declare),
        log_level: call.caller.log_level.as_deref(),
    });
    let rewritten = (modern.is_some() || token || meta.is_some_and(|meta| !meta::needs_no_rewrite(meta)))
        .then(|| meta::rewritten(meta, &Rewrite { progress_token: token.then_some(&ident[..]), modern }));

    let room = params.raw().len() + rewritten.as_ref().map_or(0, Vec::len) + call.arguments.as_ref().map_or(0, Bytes::len) + 64;
    let mut out = envelope(&ident, &call.method, room);
    let edits = Edits { rename: call.rename.as_ref(), arguments: call.arguments.as_deref(), meta: rewritten.as_deref() };
    edited(&mut out, params, &edits);
    out.push(b'}');
    out.into()
}

/// What a modern target hears of what the client can do. That it knows tasks asks nothing of it, and is always told.
fn capabilities(declared: Option<&[u8]>, declare: bool) -> &[u8] {
    match declared {
        Some(declared) if declare => declared,
        Some(declared) if memchr::memmem::find(declared, meta::TASKS.as_bytes()).is_some() => TASKS_ONLY,
        _ => NO_CAPABILITIES,
    }
}

/// What is written differently from how the client sent it.
#[derive(Clone, Copy, Default)]
struct Edits<'e> {
    rename: Option<&'e (&'static str, Bytes)>,
    arguments: Option<&'e [u8]>,
    meta: Option<&'e [u8]>,
}

/// `params` with its edits: what is replaced stays in its place, what was not there comes last, and so does `_meta`.
fn edited(out: &mut Vec<u8>, params: Json<'_>, edits: &Edits<'_>) {
    let Edits { rename, mut arguments, meta } = *edits;
    if rename.is_none() && arguments.is_none() && meta.is_none() {
        out.extend_from_slice(params.raw().as_bytes());
        return;
    }
    let open = out.len();
    out.push(b'{');
    for (key, value) in params.members() {
        if meta.is_some() && key.is("_meta") {
            continue;
        }
        member(out, open, key.raw());
        match rename {
            Some((renamed, name)) if key.is(renamed) => write::string(out, std::str::from_utf8(name).unwrap_or("")),
            _ if arguments.is_some() && key.is("arguments") => out.extend_from_slice(arguments.take().unwrap_or_default()),
            _ => out.extend_from_slice(value.raw().as_bytes()),
        }
    }
    for (key, value) in [("arguments", arguments), ("_meta", meta)] {
        if let Some(value) = value {
            member(out, open, key);
            out.extend_from_slice(value);
        }
    }
    out.push(b'}');
}

fn member(out: &mut Vec<u8>, open: usize, key: &str) {
    if out.len() > open + 1 {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn envelope(ident: &[u8], method: &[u8], room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room + 96 + method.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(ident);
    out.extend_from_slice(b",\"method\":");
    write::string(&mut out, std::str::from_utf8(method).unwrap_or(""));
    out.extend_from_slice(b",\"params\":");
    out
}

/// A request of the gateway itself; `params` is a JSON object.
pub(crate) fn control(ident: Ident, method: &str, params: &str, era: Era) -> Bytes {
    let ident = ident.json();
    let mut out = envelope(&ident, method.as_bytes(), params.len() + 192);
    match era {
        Era::Legacy => out.extend_from_slice(params.as_bytes()),
        Era::Modern => {
            let modern = Modern { protocol_version: MODERN_VERSION, client_info: CLIENT_INFO, client_capabilities: NO_CAPABILITIES, log_level: None };
            let meta = meta::rewritten(None, &Rewrite { progress_token: None, modern: Some(modern) });
            edited(&mut out, Json::trusted(params), &Edits { meta: Some(&meta), ..Edits::default() });
        }
    }
    out.push(b'}');
    out.into()
}

/// Takes a request back.
pub(crate) fn cancelled(ident: Ident, reason: &str) -> Bytes {
    let mut params = Vec::with_capacity(96);
    params.extend_from_slice(b"{\"requestId\":");
    params.extend_from_slice(&ident.json());
    params.extend_from_slice(b",\"reason\":");
    write::string(&mut params, reason);
    params.push(b'}');
    write::request(None, "notifications/cancelled", Some(&params)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Caller;
    use crate::outbox::Outbox;
    use std::sync::Arc;
    use std::time::Duration;
    use transom_protocol::json::{Limits, check};
    use transom_protocol::message::Params;

    fn sent(params: &str, rename: Option<(&'static str, &str)>, token: Option<&str>, era: Era) -> String {
        let request = Call {
            method: "tools/call".into(),
            params: if params.is_empty() { Params::default() } else { Params::trusted(params.to_owned()) },
            rename: rename.map(|(key, name)| (key, Bytes::from(name.to_owned()))),
            arguments: None,
            name_header: None,
            param_headers: vec![],
            caller: Caller {
                progress_token: token.map(|t| Bytes::from(t.to_owned())),
                capabilities: Some("{\"roots\":{}}".into()),
                ..Caller::default()
            },
            outbox: Some(Arc::new(Outbox::default())),
            timeout: Duration::from_secs(1),
        };
        let ident = Ident::fresh();
        let bytes = call(&request, ident, era, true);
        check(&bytes, &Limits::REQUEST).unwrap();
        let id = String::from_utf8(ident.json().to_vec()).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap().replace(&id, "ID")
    }

    #[test]
    fn a_call_keeps_its_bytes_and_gets_our_identifiers() {
        let head = r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":"#;
        let legacy =
            |params, rename, token| sent(params, rename, token, Era::Legacy).strip_prefix(head).unwrap().strip_suffix('}').unwrap().to_owned();
        let same = r#"{"name":"x","arguments":{"n" : 1e400}}"#;
        assert_eq!(legacy(same, None, None), same);
        assert_eq!(legacy("", None, None), "{}");
        assert_eq!(legacy(same, Some(("name", "y\"")), None), r#"{"name":"y\"","arguments":{"n" : 1e400}}"#);
        assert_eq!(legacy(r#"{"_meta":{"traceparent":"00"},"name":"x"}"#, None, None), r#"{"_meta":{"traceparent":"00"},"name":"x"}"#);
        // N5, H11: the client's token never travels
        assert_eq!(
            legacy(r#"{"_meta":{"progressToken":7,"a":1},"name":"x"}"#, None, Some("7")),
            r#"{"name":"x","_meta":{"a":1,"progressToken":ID}}"#
        );
        assert_eq!(legacy(r#"{"_meta":{"progressToken":7},"name":"x"}"#, None, None), r#"{"name":"x","_meta":{}}"#);
        assert_eq!(legacy(r#"{"name":"x"}"#, None, Some("7")), r#"{"name":"x","_meta":{"progressToken":ID}}"#);
    }

    // R-003-24: the arguments that the registry made travel in place of the client's
    #[test]
    fn arguments_can_be_replaced_or_added() {
        let edits = Edits { arguments: Some(b"{\"key\":1}"), ..Edits::default() };
        for (params, expected) in [
            (r#"{"arguments":{"a":1},"name":"x"}"#, r#"{"arguments":{"key":1},"name":"x"}"#),
            (r#"{"name":"x"}"#, r#"{"name":"x","arguments":{"key":1}}"#),
            (r#"{"\u0061rguments":null}"#, r#"{"\u0061rguments":{"key":1}}"#),
        ] {
            let mut out = Vec::new();
            edited(&mut out, Json::trusted(params), &edits);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_modern_target_hears_who_asks_and_in_which_revision() {
        let text = sent(r#"{"name":"x"}"#, None, None, Era::Modern);
        assert!(
            text.contains(
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"transom""#
            ),
            "{text}"
        );
        assert!(text.contains(r#""io.modelcontextprotocol/clientCapabilities":{"roots":{}}"#), "{text}");
    }
}
