//! JSON in text: many targets answer with prose, and an object somewhere in it.
//!
//! Over all texts: first those that are JSON as a whole, then fenced code blocks, then whatever begins with a brace or a bracket.
//! The first success wins. Scalars do not count. Time is linear: every text is read a bounded number of times, however hostile.

use crate::path::Indexed;
use transom_json::Kind;

/// Longer texts are not searched; no reply is longer.
const LONGEST: usize = 16 * 1024 * 1024;
/// Braces and brackets of prose that are tried as the beginning of a value, over all texts.
const STARTS: usize = 10_000;
/// How often prose may be read over, all starts together.
const PASSES: usize = 8;

/// What was found, and what it took.
pub struct Search<'t> {
    /// The first object or array.
    pub found: Option<Indexed<'t>>,
    /// Bytes that were read.
    pub steps: usize,
}

/// The first object or array in these texts. With `needs_object`, arrays in prose are passed over.
///
/// ```
/// use transom_registry::embedded;
/// let found = embedded::find(&["Here it is: {\"a\": 1}. Enjoy!"], true).found.unwrap();
/// assert_eq!(found.json(found.root()).raw(), "{\"a\": 1}");
/// ```
pub fn find<'t, T: AsRef<str>>(texts: &'t [T], needs_object: bool) -> Search<'t> {
    let texts = || texts.iter().map(AsRef::as_ref).filter(|text: &&str| text.len() <= LONGEST);
    let mut steps = 0;
    let found = texts().find_map(|text| container(text, &mut steps));
    let found = found.or_else(|| texts().flat_map(fenced).find_map(|block| container(block, &mut steps)));
    let found = found.or_else(|| prose(texts(), needs_object, &mut steps));
    Search { found, steps }
}

/// A text that is an object or array, white space and a byte order mark aside.
fn container<'t>(text: &'t str, steps: &mut usize) -> Option<Indexed<'t>> {
    let text = text.trim().trim_start_matches('\u{feff}').trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    *steps += text.len();
    Indexed::whole(text)
}

/// The contents of fenced code blocks. As in Markdown, one that is never closed goes on to the end.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let fence = loop {
            let (line, after) = split_line(rest)?;
            rest = after;
            if let Some(fence) = opening(line) {
                break fence;
            }
        };
        let block = rest;
        loop {
            let Some((line, after)) = split_line(rest) else { return Some(block) };
            let length = block.len() - rest.len();
            rest = after;
            if closes(line, fence) {
                return block.get(..length);
            }
        }
    })
}

fn split_line(text: &str) -> Option<(&str, &str)> {
    if text.is_empty() { None } else { Some(text.split_once('\n').unwrap_or((text, ""))) }
}

/// The fence that a line opens: its character and its length.
fn opening(line: &str) -> Option<(char, usize)> {
    let line = line.trim();
    let mark = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    // Backticks later in the line make it code within a sentence.
    (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length))
}

fn closes(line: &str, (mark, length): (char, usize)) -> bool {
    let line = line.trim();
    line.len() >= length && line.chars().all(|each| each == mark)
}

/// The first value that begins anywhere in the texts.
fn prose<'t>(texts: impl Iterator<Item = &'t str>, needs_object: bool, steps: &mut usize) -> Option<Indexed<'t>> {
    let mut starts = 0;
    for text in texts {
        let mut left = text.len().saturating_mul(PASSES);
        let mut from = 0;
        while let Some(start) = text.get(from..).and_then(|rest| rest.find(['{', '['])).map(|found| from + found) {
            starts += 1;
            if starts > STARTS {
                return None;
            }
            let (read, next) = match Indexed::first(text.get(start..)?) {
                Ok((value, _)) if value.kind(value.root()) == Kind::Object || !needs_object => {
                    *steps += value.json(value.root()).raw().len();
                    return Some(value);
                }
                // An array that nobody asked for is passed over as a whole, with the objects in it.
                Ok((_, end)) => (end, start + end),
                Err(read) => (read + 1, start + 1),
            };
            *steps += read;
            if read > left {
                break;
            }
            left -= read;
            from = next;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(texts: &[&str], needs_object: bool) -> Option<String> {
        find(texts, needs_object).found.map(|value| value.json(value.root()).raw().to_owned())
    }

    #[test]
    fn json_is_found_in_the_texts_of_cases_6_3() {
        let long = format!("[{}0]", "1,".repeat(99));
        let table: &[(&str, Option<&str>)] = &[
            (r#"{"foo":"bar","baz":123}"#, Some(r#"{"foo":"bar","baz":123}"#)), // J1
            (r#"[{"id":1},{"id":2}]"#, Some(r#"[{"id":1},{"id":2}]"#)),         // J2
            ("{\n  \"timezone\": \"UTC\",\n  \"is_dst\": false\n}\n", Some("{\n  \"timezone\": \"UTC\",\n  \"is_dst\": false\n}")), // J3
            (
                r#"{"source":{"t":1},"target":{"t":2},"time_difference":"+9.0h"}"#,
                Some(r#"{"source":{"t":1},"target":{"t":2},"time_difference":"+9.0h"}"#),
            ), // J4
            (
                "Content type application/json cannot be simplified, here is the raw content:\nContents of https://api.x/y:\n{\"id\":123}",
                Some("{\"id\":123}"),
            ), // J5
            ("{\"status\":\"complete\",\"count\":42}\n\nNote: done", Some("{\"status\":\"complete\",\"count\":42}")), // J6
            ("Here is the response data:\n{\"a\":1}\nEnd", Some("{\"a\":1}")),  // J7
            ("Nothing to see here.", None),                                     // J8
            ("# Heading\n[More…](https://x.y/z)", None),                        // J9
            ("1. one\n2. two [x]\n3. three", None),                             // J10
            (r#"{"incomplete": "data", "missing":"#, None),                     // J11
            ("", None),                                                         // J12
            (" \n\t", None),                                                    // J12
            (r#"{"q":"He said \"hello\""}"#, Some(r#"{"q":"He said \"hello\""}"#)), // J13
            (r#"x {"q":"a } b { c ] ["} y"#, Some(r#"{"q":"a } b { c ] ["}"#)), // J14
            (r#"{"e":"😀","x":1.5e10,"n":-1,"b":true,"z":null}"#, Some(r#"{"e":"😀","x":1.5e10,"n":-1,"b":true,"z":null}"#)), // J15
            (r#"{"@type":1,"$id":2,"name:en":3}"#, Some(r#"{"@type":1,"$id":2,"name:en":3}"#)), // J16
            (&long, Some(&long)),                                               // J17
            ("[[[[[[1]]]]]]", Some("[[[[[[1]]]]]]")),                           // J17
            ("{\"a\":1}\n{\"a\":2}", Some("{\"a\":1}")),                        // J18
            ("text {\"a\":1} tail", Some("{\"a\":1}")),                         // J20
            ("Use {x} or\n```json\n{\"a\":1}\n```\n", Some("{\"a\":1}\n")),     // J22
            ("{\"b\":2}\n```\n[1]\n```", Some("[1]\n")),                        // J22: the fence is preferred
            ("~~~~\n{\"md\":\"~~~\"}\n~~~~", Some("{\"md\":\"~~~\"}\n")),
            ("```json\n{\"a\":1}", Some("{\"a\":1}")),
            ("```json\nnot json\n```\n  ```\n{\"a\":1}\n  ```", Some("{\"a\":1}\n")),
            ("say ```{\"a\":1}``` now", Some("{\"a\":1}")),
            ("[note] then {\"a\":1}", Some("{\"a\":1}")),           // J24
            ("Response: {\"a\":1}", Some("{\"a\":1}")),             // J27
            ("Result of call: [1,2,3] done", Some("[1,2,3]")),      // J27
            ("Here is the data: {\"a\":1} bye", Some("{\"a\":1}")), // J27
            ("Data:\n    {\"a\":1}", Some("{\"a\":1}")),            // J28
            ("42", None),                                           // J31
            ("\"str\"", None),                                      // J31
            ("true", None),                                         // J31
            ("null", None),                                         // J31
            ("\u{feff}{\"a\":1}", Some("{\"a\":1}")),               // E7: a byte order mark
            ("\r\n {\"a\":1}\r\n", Some("{\"a\":1}")),
            ("{\"a\":NaN}", None), // E7
            ("{\"a\":1} garbage", Some("{\"a\":1}")),
        ];
        for (text, expected) in table {
            assert_eq!(found(&[text], false).as_deref().map(str::trim_end), expected.map(str::trim_end), "{text}");
        }
    }

    #[test]
    fn all_texts_are_tried_one_way_before_the_next_way() {
        // Section 7
        assert_eq!(found(&["a {\"prose\":1}", "```\n{\"fence\":1}\n```", "{\"whole\":1}"], true).as_deref(), Some("{\"whole\":1}"));
        assert_eq!(found(&["a {\"prose\":1}", "```\n{\"fence\":1}\n```"], true).as_deref(), Some("{\"fence\":1}"));
        assert_eq!(found(&["nothing", "a {\"prose\":1}"], true).as_deref(), Some("{\"prose\":1}"));
        assert_eq!(found(&[], true), None);
    }

    #[test]
    fn arrays_in_prose_are_passed_over_where_an_object_is_needed() {
        assert_eq!(found(&["see [1] and [{\"no\":1}], then {\"a\":1}"], true).as_deref(), Some("{\"a\":1}"));
        assert_eq!(found(&["see [1] and {\"a\":1}"], false).as_deref(), Some("[1]"));
        assert_eq!(found(&["[1]"], true).as_deref(), Some("[1]"), "an array that is all there is counts");
        assert_eq!(found(&["see [1]"], true), None);
    }

    /// Bytes read for a text of this length, at most: whole, fences, prose and the last start.
    fn bound(length: usize) -> usize {
        length * (PASSES + 3) + STARTS
    }

    #[test]
    fn a_hostile_text_is_read_a_bounded_number_of_times() {
        // J33
        for part in ["{", "[", "[\"", "{\"a\":", "[[1,", "[1,", "[\"[\",", "{\"a\":[{\"b\":\"", "```\n[\n", "```\n", "[1] ", "\\\"[", "{}{"] {
            let text = part.repeat(1024 * 1024 / part.len());
            let steps = find(&[text.as_str()], true).steps;
            assert!(steps <= bound(text.len()), "{part}: {steps} steps");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_searched_in_linear_time(texts in prop::collection::vec(r#"([\[\]{}",:0-9a \n\\]|```|\{"a":|\[\{){0,60}"#, 0..4), needs_object: bool) {
            let search = find(&texts, needs_object);
            prop_assert!(search.steps <= bound(texts.iter().map(String::len).sum()));
            if let Some(found) = search.found {
                prop_assert!(serde_json::from_str::<serde_json::Value>(found.json(found.root()).raw()).is_ok());
            }
        }
    }
}
