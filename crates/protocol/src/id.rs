//! JSON-RPC ids as clients choose them.

use crate::json::{Json, Kind};
use bytes::Bytes;

/// An id, kept as it was written so that it goes back with the same type and spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(Bytes);

impl Id {
    /// Integers within ±(2^53−1) and strings of at most 256 bytes; nothing else.
    pub fn read(source: &Bytes, json: Json<'_>) -> Option<Id> {
        let raw = json.raw();
        let fits = match json.kind() {
            Kind::String => raw.len() <= 258,
            Kind::Number => raw.parse::<i64>().is_ok_and(|n| n.unsigned_abs() < 1 << 53),
            _ => false,
        };
        fits.then(|| Id(source.slice_ref(raw.as_bytes())))
    }

    /// An id made by us.
    pub fn ours(text: String) -> Id {
        Id(Bytes::from(text))
    }

    /// The same, without a hold on the message it came in.
    pub fn detached(&self) -> Id {
        Id(Bytes::copy_from_slice(&self.0))
    }

    /// The id as JSON.
    pub fn raw(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // H3
    #[test]
    fn integers_and_short_strings_are_ids_and_nothing_else_is() {
        let long_ok = format!("\"{}\"", "x".repeat(256));
        let too_long = format!("\"{}\"", "x".repeat(257));
        for (text, accepted) in [
            ("0", true),
            ("7", true),
            ("-1", true),
            ("9007199254740991", true),
            ("-9007199254740991", true),
            ("\"\"", true),
            ("\"1\"", true),
            (long_ok.as_str(), true),
            ("null", false),
            ("1.5", false),
            ("1.0", false),
            ("1e3", false),
            ("9007199254740992", false),
            ("9007199254740993", false),
            ("true", false),
            ("{}", false),
            ("[]", false),
            (too_long.as_str(), false),
        ] {
            let source = Bytes::copy_from_slice(text.as_bytes());
            let json = Json::trusted(std::str::from_utf8(&source).unwrap());
            let id = Id::read(&source, json);
            assert_eq!(id.is_some(), accepted, "{text}");
            if let Some(id) = id {
                assert_eq!(id.raw(), text.as_bytes());
            }
        }
    }
}
