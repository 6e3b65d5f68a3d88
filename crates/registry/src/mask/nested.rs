//! A text that is JSON, or has JSON in it, as it reads: every escape replaced by what it stands for. Which of its places is which of the
//! text's is worked out for those that matter only.

use std::ops::Range;

/// The text as it reads; `None` if it has no escapes.
pub(super) fn read(text: &str) -> Option<String> {
    memchr::memchr(b'\\', text.as_bytes())?;
    let mut out = String::with_capacity(text.len());
    for piece in (Pieces { text, at: 0 }) {
        match piece.reads {
            Some(character) => out.push(character),
            None => out.push_str(text.get(piece.at).unwrap_or_default()),
        }
    }
    Some(out)
}

/// The places of the text that these places of what it reads as come from. They are in order and do not overlap.
pub(super) fn origins(text: &str, places: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut origins: Vec<Range<usize>> = Vec::with_capacity(places.len());
    let mut waiting = places.iter().peekable();
    let mut begun: Option<usize> = None;
    let mut read = 0;
    for Piece { at, reads } in (Pieces { text, at: 0 }) {
        let next = read + reads.map_or(at.len(), char::len_utf8);
        // Several may begin and end in one piece.
        while let Some(place) = waiting.peek() {
            if begun.is_none() && place.start < next {
                begun = Some(if reads.is_some() { at.start } else { at.start + (place.start - read) });
            }
            match begun {
                Some(start) if place.end <= next => {
                    origins.push(start..if reads.is_some() { at.end } else { at.start + (place.end - read) });
                    begun = None;
                    waiting.next();
                }
                _ => break,
            }
        }
        if waiting.peek().is_none() {
            break;
        }
        read = next;
    }
    origins
}

/// A part of a text: an escape and the character it stands for, or something without escapes.
struct Piece {
    at: Range<usize>,
    reads: Option<char>,
}

struct Pieces<'t> {
    text: &'t str,
    at: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).filter(|rest| !rest.is_empty())?;
        let (length, reads) = match escape(rest) {
            Some((length, character)) => (length, Some(character)),
            // A backslash that is no escape stands for itself.
            None => (memchr::memchr(b'\\', rest.get(1..)?).map_or(rest.len(), |found| found + 1), None),
        };
        self.at += length;
        Some(Piece { at: start..self.at, reads })
    }
}

/// The escape that a text begins with: how long it is, and what it stands for.
fn escape(text: &[u8]) -> Option<(usize, char)> {
    let [b'\\', kind, rest @ ..] = text else { return None };
    let plain = match kind {
        b'"' | b'\\' | b'/' => char::from(*kind),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = unit(rest)?;
            return match char::from_u32(first) {
                Some(character) => Some((6, character)),
                None => {
                    let [b'\\', b'u', rest @ ..] = rest.get(4..)? else { return None };
                    let mut both = char::decode_utf16([u16::try_from(first).ok()?, u16::try_from(unit(rest)?).ok()?]);
                    Some((12, both.next()?.ok()?))
                }
            };
        }
        _ => return None,
    };
    Some((2, plain))
}

fn unit(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_reads_as_its_escapes_stand_for() {
        for (text, expected) in [
            ("plain", None),
            (r#"{\"a\":\"\u00e9\uD83D\uDE00\n\/\"}"#, Some("{\"a\":\"é😀\n/\"}")),
            (r"a\qb\", Some(r"a\qb\")),
            (r"\\\", Some(r"\\")),
            (r"\u12 \ud800 \ud800\u0041 \u+123", Some(r"\u12 \ud800 \ud800A \u+123")),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_place_comes_from_all_of_the_escapes_it_reads() {
        let text = r"ab\u0041\nd\\e";
        // Reads as abA⏎d\e.
        for (place, expected) in [(0..2, "ab"), (1..3, r"b\u0041"), (2..4, r"\u0041\n"), (4..6, r"d\\"), (6..7, "e"), (0..7, text)] {
            let [origin] = origins(text, std::slice::from_ref(&place)).try_into().unwrap();
            assert_eq!(text.get(origin), Some(expected), "{place:?}");
        }
        assert_eq!(origins(text, &[0..1, 1..2, 3..4, 6..7]), [0..1, 1..2, 8..10, 13..14]);
    }

    proptest! {
        /// What an origin reads as is what stood at the place.
        #[test]
        fn an_origin_reads_as_its_place(text in r#"([a-c"/é😀\\]|\\u00[46][1-3]|\\n|\\\\){0,16}"#, ends in (0usize..20, 0usize..20)) {
            if let Some(whole) = read(&text) {
                let (start, end) = (ends.0.min(ends.1), ends.0.max(ends.1));
                if let Some(part) = whole.get(start..end).filter(|part| !part.is_empty()) {
                    let found = origins(&text, std::slice::from_ref(&(start..end)));
                    prop_assert_eq!(found.len(), 1);
                    let origin = text.get(found[0].clone()).unwrap();
                    let reads = read(origin);
                    prop_assert_eq!(reads.as_deref().unwrap_or(origin), part);
                }
            }
        }
    }
}
