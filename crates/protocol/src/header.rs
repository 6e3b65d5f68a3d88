//! Values of `Mcp-Name` and `Mcp-Param-*` headers: plain text, or `=?base64?…?=` where HTTP could not carry it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// The text as a header value.
pub fn encode(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let padded = text.starts_with(' ') || text.ends_with(' ');
    let looks_encoded = text.starts_with(OPEN) && text.ends_with(CLOSE);
    if plain && !padded && !looks_encoded { Cow::Borrowed(text) } else { Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(text))) }
}

/// The text behind a header value; `None` if it is no canonical encoding of UTF-8.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim_matches([' ', '\t']);
    match value.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) {
        None => Some(Cow::Borrowed(value)),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_http_cannot_carry_is_encoded_and_comes_back() {
        for (text, value) in [
            ("execute_sql", "execute_sql"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a\r\nb", "=?base64?YQ0KYg==?="),
            ("", ""),
        ] {
            assert_eq!(encode(text), value);
            assert_eq!(decode(value).as_deref(), Some(text));
        }
        for bad in ["=?base64?%%?=", "=?base64?YQ?=", "=?base64?/w==?="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode("=?base64??=").as_deref(), Some(""));
    }
}
