//! `_meta` of requests: what a modern request says about itself, and how a request's `_meta` is rewritten for a target.

use crate::json::{Json, Key};
use crate::write::{self, Edit};

/// Which revision a modern request is written in.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client can do, on every modern request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// From which level on the client wants log messages of this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is, on modern results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which subscription a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The extension of tasks, in capabilities.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Which task a message of the legacy era belongs to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The client's token for progress of this request.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Filters of a listing, ours.
pub const FILTER: &str = "dev.transom/filter";

/// What `_meta` becomes on the way to a target.
#[derive(Default)]
pub struct Rewrite<'r> {
    /// Our token in place of the client's; `None` removes it.
    pub progress_token: Option<&'r [u8]>,
    /// What a modern target needs to hear; `None` for a legacy target.
    pub modern: Option<Modern<'r>>,
}

/// The reserved members of a modern request, as JSON.
pub struct Modern<'r> {
    /// The revision, a JSON string.
    pub protocol_version: &'r [u8],
    /// An object.
    pub client_info: &'r [u8],
    /// An object.
    pub client_capabilities: &'r [u8],
    /// A JSON string.
    pub log_level: Option<&'r [u8]>,
}

/// Whether a `_meta` can go to a legacy target as it is.
pub fn needs_no_rewrite(meta: Json<'_>) -> bool {
    !meta.members().any(|(key, _)| is_reserved(key))
}

fn is_reserved(key: Key<'_>) -> bool {
    let key = key.text();
    key == PROGRESS_TOKEN || key == FILTER || key.starts_with("io.modelcontextprotocol/")
}

/// The `_meta` object for a target. Members that are the client's own business survive.
pub fn rewritten(meta: Option<Json<'_>>, rewrite: &Rewrite<'_>) -> Vec<u8> {
    let mut added: Vec<(&str, &[u8])> = Vec::with_capacity(5);
    if let Some(token) = rewrite.progress_token {
        added.push((PROGRESS_TOKEN, token));
    }
    if let Some(modern) = &rewrite.modern {
        added.push((PROTOCOL_VERSION, modern.protocol_version));
        added.push((CLIENT_INFO, modern.client_info));
        added.push((CLIENT_CAPABILITIES, modern.client_capabilities));
        if let Some(level) = modern.log_level {
            added.push((LOG_LEVEL, level));
        }
    }
    let edit = |key: Key<'_>, _: Json<'_>| if is_reserved(key) { Edit::Drop } else { Edit::Keep };
    write::edited(meta.unwrap_or(Json::trusted("{}")), edit, &added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_members_are_ours_and_the_rest_survives() {
        let meta = Json::trusted(r#"{"progressToken":"abc","traceparent":"00-1","io.modelcontextprotocol/clientInfo":{},"x/y":{"z":1}}"#);
        assert!(!needs_no_rewrite(meta));
        let legacy = rewritten(Some(meta), &Rewrite { progress_token: Some(b"\"t1\""), modern: None });
        assert_eq!(String::from_utf8(legacy).unwrap(), r#"{"traceparent":"00-1","x/y":{"z":1},"progressToken":"t1"}"#);
        let modern = Modern { protocol_version: b"\"2026-07-28\"", client_info: b"{}", client_capabilities: b"{}", log_level: None };
        let text = String::from_utf8(rewritten(None, &Rewrite { progress_token: None, modern: Some(modern) })).unwrap();
        assert_eq!(
            text,
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{}}"#
        );
    }
}
