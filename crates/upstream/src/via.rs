//! How gateways that stand behind one another tell who they are.

use http::HeaderName;

/// On a request: the gateways it came through, the last one last. On an answer: who answered and which gateways stand behind.
pub const HEADER: HeaderName = HeaderName::from_static("mcp-gateway-via");

/// The same for a child, of whoever started it.
pub const VARIABLE: &str = "MCP_GATEWAY_VIA";

/// More gateways than this are not listed.
pub const MOST: usize = 32;

/// A longer word is no id.
const LONGEST: usize = 64;

/// The ids in a list. What cannot be an id still counts as a gateway.
pub fn ids(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|id| id.trim_matches([' ', '\t'])).filter(|id| !id.is_empty()).map(|id| if id.len() > LONGEST { "?" } else { id })
}
