//! What kind of result a modern server gives.

use crate::json::Json;
use memchr::memmem::Finder;
use std::sync::LazyLock;

const KEY: &[u8] = b"\"resultType\"";

/// The `resultType` of a result that was checked, as it is written. Where it stands first or last, as servers write it, nothing else of the
/// result is looked at; where the word is nowhere, neither is any member.
pub fn result_type(result: &[u8]) -> Option<&str> {
    static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(KEY));
    if let Some(value) = first(result).or_else(|| last(result)) {
        return Some(value);
    }
    WORD.find(result)?;
    Json::trusted(std::str::from_utf8(result).ok()?).get("resultType").map(Json::raw)
}

/// `{"resultType":"…"`: nothing stands before it, so it belongs to the result itself.
fn first(result: &[u8]) -> Option<&str> {
    let value = result.strip_prefix(b"{")?.strip_prefix(KEY)?.strip_prefix(b":")?;
    let end = plain(value)?;
    value.get(..end).and_then(|value| std::str::from_utf8(value).ok())
}

/// `,"resultType":"…"}`: the last brace closes the result itself, and what stands right before it is a member of that.
fn last(result: &[u8]) -> Option<&str> {
    let rest = result.strip_suffix(b"\"}")?;
    let quote = memchr::memrchr(b'"', rest)?;
    let (before, value) = (rest.get(..quote)?, result.get(quote..result.len().saturating_sub(1))?);
    before.strip_suffix(b":")?.strip_suffix(KEY)?.strip_suffix(b",")?;
    (plain(value) == Some(value.len())).then(|| std::str::from_utf8(value).ok()).flatten()
}

/// Past a string without escapes.
fn plain(text: &[u8]) -> Option<usize> {
    let inside = text.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', inside)?;
    (inside.get(end) == Some(&b'"')).then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_result_is_its_own_member_wherever_it_stands() {
        for (result, expected) in [
            (r#"{"resultType":"complete"}"#, Some("\"complete\"")),
            (r#"{"resultType":"task","taskId":"x"}"#, Some("\"task\"")),
            (r#"{"content":[],"resultType":"complete"}"#, Some("\"complete\"")),
            (r#"{"content":[] , "resultType" : "input_required" }"#, Some("\"input_required\"")),
            (r#"{"a":{"resultType":"inner"},"resultType":"outer","b":1}"#, Some("\"outer\"")),
            (r#"{"a":"x\"","resultType":"complete"}"#, Some("\"complete\"")),
            (r#"{"resultType":"com\u0070lete"}"#, Some(r#""com\u0070lete""#)),
            (r#"{"a":1,"resultType":"com\"plete"}"#, Some(r#""com\"plete""#)),
            (r#"{"resultType":7}"#, Some("7")),
            (r#"{"structuredContent":{"a":1,"resultType":"inner"}}"#, None),
            (r#"{"structuredContent":{"resultType":"inner"},"isError":false}"#, None),
            (r#"{"text":"{\"a\":1,\"resultType\":\"complete\"}"}"#, None),
            (r#"{"text":",\"resultType\":\"complete"}"#, None),
            (r#"{"a":["resultType"],"b":"resultType"}"#, None),
            ("{}", None),
        ] {
            assert_eq!(result_type(result.as_bytes()), expected, "{result}");
        }
    }

    proptest::proptest! {
        // Whatever stands around the word, and however deep: what the quick looks find is what a walk finds.
        #[test]
        fn the_quick_looks_agree_with_a_walk(pieces in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"resultType\"", "\"resultType\":\"x\"", "\"a\":", "\"x\"", "\"\\\"\"", "\"\\\\\"", "1", ",\"resultType\":\"complete\"}",
        ]), 0..10)) {
            let text = format!("{{{}", pieces.concat());
            if let Ok(json) = crate::json::check(text.as_bytes(), &crate::Limits { duplicate_keys: false, ..crate::Limits::REPLY }) {
                proptest::prop_assert_eq!(result_type(json.raw().as_bytes()), json.get("resultType").map(Json::raw), "{}", text);
            }
        }
    }
}
