//! Doors for the fuzzer, which looks at rooms that nobody else outside this crate sees. Nothing here is part of what the crate
//! offers, and nothing in the gateway uses it.

use crate::authenticate::Principal;
use crate::config::ApiKey;
use crate::listener::edge;
use crate::listener::framing::Framing;
use http::{HeaderMap, Version};

/// Somebody, without a credential.
pub fn principal(key: &ApiKey) -> Principal {
    Principal::of_key(key)
}

/// Whether a head with these headers is read in one way only.
pub fn framing_is_plain(headers: &HeaderMap, version: Version) -> bool {
    edge::check_framing(headers, version).is_ok()
}

/// Whether a body with these headers is read.
pub fn content_is_read(headers: &HeaderMap) -> bool {
    edge::check_content(headers).is_ok()
}

/// What the parser of HTTP/1 is shown of bytes that come in parts of this size.
pub fn shown(bytes: &[u8], part: usize) -> Vec<u8> {
    let (mut framing, mut bytes) = (Framing::default(), bytes.to_vec());
    bytes.chunks_mut(part).for_each(|part| framing.check(part));
    bytes
}
