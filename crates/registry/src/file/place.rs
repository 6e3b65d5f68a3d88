//! Where in a document something stands, so that complaints can point at it.

use crate::problem::{Code, Problem, Severity};
use std::ops::Range;
use transom_json::{Json, Key, Kind};

/// A part of a document that complaints point into.
#[derive(Clone, Debug)]
pub(crate) struct Place<'d> {
    pub text: &'d str,
    pub document: usize,
    /// The value that is being read, a piece of `text`.
    pub root: Json<'d>,
    /// Its JSON pointer.
    pub base: String,
    /// The tool that complaints belong to.
    pub tool: Option<String>,
}

impl<'d> Place<'d> {
    /// The bytes of a piece of the text.
    pub fn span_of(&self, piece: &str) -> Range<usize> {
        let start = (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + piece.len()
    }

    /// The bytes of a key with its quotes.
    pub fn key_span(&self, key: Key<'_>) -> Range<usize> {
        let inner = self.span_of(key.raw());
        inner.start.saturating_sub(1)..inner.end + 1
    }

    /// A part of a string's text, given in bytes after unescaping, as bytes of the document.
    pub fn inside(&self, string: &Range<usize>, part: &Range<usize>) -> Range<usize> {
        let raw = self.text.get(string.start + 1..string.end.saturating_sub(1)).unwrap_or("");
        let from = string.start + 1 + escaped_offset(raw, part.start);
        let to = string.start + 1 + escaped_offset(raw, part.end);
        from..to.max(from)
    }

    /// The JSON pointer to whatever stands at this byte, found by walking down to it.
    pub fn pointer(&self, at: usize) -> String {
        let mut pointer = self.base.clone();
        let mut value = self.root;
        loop {
            let holds = |json: Json<'_>| self.span_of(json.raw()).contains(&at);
            let next = match value.kind() {
                Kind::Object => value.members().find(|(key, value)| self.key_span(*key).contains(&at) || holds(*value)).map(|(key, value)| {
                    pointer.push('/');
                    pointer.push_str(&key.text().replace('~', "~0").replace('/', "~1"));
                    value
                }),
                Kind::Array => value.elements().enumerate().find(|(_, value)| holds(*value)).map(|(index, value)| {
                    pointer.push_str(&format!("/{index}"));
                    value
                }),
                _ => None,
            };
            match next {
                Some(inner) => value = inner,
                None => return pointer,
            }
        }
    }

    /// A problem at these bytes.
    pub fn problem(&self, severity: Severity, code: Code, span: Range<usize>, message: String, label: &str, help: Option<String>) -> Problem {
        let pointer = self.pointer(span.start);
        let (message, help) = (visible(message), help.map(visible));
        Problem { severity, code, document: self.document, tool: self.tool.clone(), pointer, span, message, label: label.to_owned(), help }
    }
}

/// Names and values in messages are written by others, and a terminal obeys control characters.
pub(super) fn visible(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    text.chars().map(|each| if each.is_control() { each.escape_default().to_string() } else { each.into() }).collect()
}

/// Where the byte `at` of an unescaped string stands in the string as written.
pub(super) fn escaped_offset(raw: &str, at: usize) -> usize {
    let (mut plain, mut written) = (0, 0);
    let mut rest = raw;
    while plain < at && !rest.is_empty() {
        let (length, bytes) = match rest.as_bytes() {
            [b'\\', b'u', ..] => {
                let unit = rest.get(2..6).and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0);
                if (0xd800..0xdc00).contains(&unit) { (12, 4) } else { (6, char::from_u32(unit).map_or(3, char::len_utf8)) }
            }
            [b'\\', ..] => (2, 1),
            _ => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                (length, length)
            }
        };
        plain += bytes;
        written += length;
        rest = rest.get(length..).unwrap_or("");
    }
    written.min(raw.len())
}
