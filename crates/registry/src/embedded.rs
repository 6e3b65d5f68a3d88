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
