//! What a target may not say of its results: who answers here, and who may keep an answer (E13). A client would take that for our word.

use crate::session::SERVER_INFO;
use bytes::Bytes;
use memchr::memmem::Finder;
use std::sync::LazyLock;
use transom_protocol::json::{Json, Key, Kind};
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, Method, meta};

/// How long a client may take a resource for fresh because its target says so, in milliseconds: a day.
const LONGEST: f64 = 86_400_000.0;

/// The result of a call without such claims. Nearly none has one, and stays as it is.
pub fn settled(result: Bytes, era: Era, method: Method) -> Bytes {
    // Whoever reads replies sees to it that these are spelled so; what a task came to was not looked at there.
    static SIGNS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| ["\"_meta\"", "\"cacheScope\""].map(Finder::new));
    let reads = method == Method::ReadResource;
    if !reads && method != Method::GetTask && SIGNS.iter().all(|sign| sign.find(&result).is_none()) {
        return result;
    }
    cleaned(result, era, method)
}

fn cleaned(result: Bytes, era: Era, method: Method) -> Bytes {
    let reads = method == Method::ReadResource;
    let Ok(text) = std::str::from_utf8(&result) else { return result };
    let object = Json::trusted(text);
    let speaks = |said: &Json<'_>| said.kind() == Kind::Object && said.members().any(|(key, _)| key.is(meta::SERVER_INFO) || key.is("cacheScope"));
    let said = object.get("_meta").filter(speaks).map(|said| {
        let caches = said.get("cacheScope").is_some();
        let edit = |key: Key<'_>, _: Json<'_>| match era {
            Era::Modern if key.is(meta::SERVER_INFO) => Edit::Set(SERVER_INFO.as_bytes()),
            Era::Legacy if key.is(meta::SERVER_INFO) => Edit::Drop,
            _ if caches && (key.is("cacheScope") || key.is("ttlMs")) => Edit::Drop,
            _ => Edit::Keep,
        };
        write::edited(said, edit, &[])
    });
    // What a task came to is the result of a call.
    let of_task = (method == Method::GetTask).then(|| object.get("result")).flatten().filter(|result| result.kind() == Kind::Object);
    let of_task = of_task.map(|of_task| cleaned(result.slice_ref(of_task.raw().as_bytes()), era, Method::CallTool));
    let caches = object.get("cacheScope").is_some();
    if said.is_none() && of_task.is_none() && !caches && !(reads && object.get("ttlMs").is_some()) {
        return result;
    }
    let edit = |key: Key<'_>, value: Json<'_>| match &said {
        _ if key.is("result") && of_task.is_some() => of_task.as_deref().map_or(Edit::Keep, Edit::Set),
        Some(said) if key.is("_meta") => {
            if said == b"{}" {
                Edit::Drop
            } else {
                Edit::Set(said)
            }
        }
        // Others may see less of it, or something else.
        _ if reads && key.is("cacheScope") => Edit::Set(b"\"private\""),
        _ if reads && key.is("ttlMs") => {
            if value.raw().parse().is_ok_and(|time: f64| (0.0..=LONGEST).contains(&time)) {
                Edit::Keep
            } else {
                Edit::Set(b"0")
            }
        }
        // Nothing else is kept by anybody. A task has a time to live of its own.
        _ if !reads && caches && (key.is("cacheScope") || key.is("ttlMs")) => Edit::Drop,
        _ => Edit::Keep,
    };
    write::edited(object, edit, &[]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // E13
    #[test]
    fn a_target_speaks_neither_for_the_gateway_nor_for_caches() {
        let evil = r#""io.modelcontextprotocol/serverInfo":{"name":"evil"}"#;
        let ours = format!("\"{}\":{SERVER_INFO}", meta::SERVER_INFO);
        let settled = |text: String, era, method| String::from_utf8(settled(Bytes::from(text), era, method).to_vec()).unwrap();
        for (era, method, before, after) in [
            (
                Era::Modern,
                Method::CallTool,
                format!(r#"{{"content":[],"_meta":{{{evil},"own":1}}}}"#),
                format!(r#"{{"content":[],"_meta":{{{ours},"own":1}}}}"#),
            ),
            (Era::Legacy, Method::CallTool, format!(r#"{{"content":[],"_meta":{{{evil},"own":1}}}}"#), r#"{"content":[],"_meta":{"own":1}}"#.into()),
            (Era::Legacy, Method::GetPrompt, format!(r#"{{"messages":[],"_meta":{{{evil}}}}}"#), r#"{"messages":[]}"#.into()),
            (Era::Modern, Method::CallTool, r#"{"content":[],"cacheScope":"public","ttlMs":1e15}"#.into(), r#"{"content":[]}"#.into()),
            (Era::Modern, Method::CallTool, r#"{"content":[],"_meta":{"cacheScope":"public","ttlMs":9}}"#.into(), r#"{"content":[]}"#.into()),
            (
                Era::Modern,
                Method::ReadResource,
                r#"{"contents":[],"cacheScope":"public","ttlMs":5000}"#.into(),
                r#"{"contents":[],"cacheScope":"private","ttlMs":5000}"#.into(),
            ),
            (Era::Modern, Method::ReadResource, r#"{"contents":[],"ttlMs":1e15}"#.into(), r#"{"contents":[],"ttlMs":0}"#.into()),
            // However they are spelled.
            (
                Era::Modern,
                Method::CallTool,
                r#"{"content":[],"_meta":{"io.modelcontextprotocol\/serverInfo":{"name":"evil"}}}"#.into(),
                format!(r#"{{"content":[],"_meta":{{"io.modelcontextprotocol\/serverInfo":{SERVER_INFO}}}}}"#),
            ),
            // A task lives for as long as its target says.
            (
                Era::Modern,
                Method::CallTool,
                r#"{"resultType":"task","taskId":"x","ttlMs":60000}"#.into(),
                r#"{"resultType":"task","taskId":"x","ttlMs":60000}"#.into(),
            ),
            (
                Era::Modern,
                Method::GetTask,
                format!(r#"{{"taskId":"x","ttlMs":60000,"result":{{"content":[],"cacheScope":"public","_meta":{{{evil}}}}}}}"#),
                format!(r#"{{"taskId":"x","ttlMs":60000,"result":{{"content":[],"_meta":{{{ours}}}}}}}"#),
            ),
            // What a tool tells of these things is a tool's business.
            (
                Era::Modern,
                Method::CallTool,
                r#"{"content":[{"type":"text","text":"\"cacheScope\""}],"structuredContent":{"cacheScope":"public","ttlMs":1}}"#.into(),
                r#"{"content":[{"type":"text","text":"\"cacheScope\""}],"structuredContent":{"cacheScope":"public","ttlMs":1}}"#.into(),
            ),
        ] {
            assert_eq!(settled(before.clone(), era, method), after, "{before}");
        }
    }
}
