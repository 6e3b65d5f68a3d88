//! New inputs out of old ones.

use crate::random::Random;
use serde_json::{Value, json};

/// Pieces that mean something somewhere.
pub const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "null",
    "true",
    "false",
    "-0",
    "1e400",
    "0.1",
    "18446744073709551616",
    "9007199254740993",
    "\\u0061",
    "\\ud800",
    "\\ud83c\\udf89",
    "\\u0000",
    "\u{200b}",
    "K",
    "ſ",
    "é",
    "🎉",
    "$",
    "'",
    "..",
    "-1",
    "(",
    ")",
    "((((",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    " ",
    "\t",
    "\u{feff}",
    "\0",
    "\x7f",
    "0",
    "9",
    "a",
    "secret",
    "```json\n",
    "```",
];

/// Keys and values that mean something to every JSON target.
const VALUES: &[&str] = &["", "secret", "SECRET", "a", "$", "${KEY}", "string", "object", "array", "integer", "null"];

/// Bytes with a few places changed.
pub fn bytes(pool: &[Vec<u8>], words: &[&str], longest: usize, random: &mut Random) -> Vec<u8> {
    let mut input = if pool.is_empty() { Vec::new() } else { recent(pool, random).clone() };
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        match random.below(10) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 | 8 => input.splice(at..at, word(words, random).bytes()).for_each(drop),
            2 => {
                let end = (at + 1 + random.below(16)).min(input.len());
                input.drain(at.min(end)..end);
            }
            3 => {
                let piece = input[at..(at + 1 + random.below(32)).min(input.len())].to_vec();
                let copies = 1 + random.below(4);
                input.splice(at..at, piece.repeat(copies));
            }
            4 if !pool.is_empty() => {
                let other = random.pick(pool);
                let from = random.below(other.len());
                input.splice(at..at, other[from..(from + 1 + random.below(64)).min(other.len())].iter().copied());
            }
            5 => {
                // Something that opens many times, and perhaps closes.
                let (open, close) = *random.pick(&[("[", "]"), ("{\"a\":", "}"), ("(", ")"), ("${", "}"), ("{\"allOf\":[", "]}"), ("!", "")]);
                let times = 1 + random.below(80);
                let tail = if random.below(2) == 0 { close.repeat(times) } else { String::new() };
                input.splice(at..at, (open.repeat(times) + "1" + &tail).into_bytes());
            }
            6 => {
                // One word of the input becomes another.
                let end = (at..input.len()).find(|i| !input[*i].is_ascii_alphanumeric()).unwrap_or(input.len());
                input.splice(at..end, word(words, random).bytes());
            }
            7 if at < input.len() => input[at] = (random.number() & 0xff) as u8,
            _ if at < input.len() => input[at] = (random.number() & 0x7f) as u8,
            _ => {}
        }
        input.truncate(longest);
    }
    input
}

fn word<'w>(words: &'w [&'w str], random: &mut Random) -> &'w str {
    if words.is_empty() || random.below(2) == 0 { random.pick::<&str>(WORDS) } else { random.pick::<&str>(words) }
}

/// What was found of late is less well known: half of the time it is tried first.
fn recent<'p>(pool: &'p [Vec<u8>], random: &mut Random) -> &'p Vec<u8> {
    let from = if random.below(2) == 0 { pool.len() * 3 / 4 } else { 0 };
    random.pick(&pool[from..])
}

/// JSON whose parts were exchanged, renamed, wrapped and removed; `None` if there is no JSON to begin with.
pub fn json(pool: &[Vec<u8>], words: &[&str], longest: usize, random: &mut Random) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(recent(pool, random)).ok()?;
    let key = |random: &mut Random| if words.is_empty() { "a".to_owned() } else { (*random.pick(words)).to_owned() };
    for _ in 0..=random.below(5) {
        let replacement = match random.below(6) {
            0 => random.pick(&[json!(null), json!(true), json!(false), json!(0), json!(-1), json!({}), json!([]), json!(1.5)]).clone(),
            1 => json!(random.pick(VALUES)),
            2 => json!(key(random)),
            _ => {
                let mut other: Value = serde_json::from_slice(random.pick::<Vec<u8>>(pool)).unwrap_or_default();
                let size = nodes(&other);
                node(&mut other, random.below(size)).map_or(Value::Null, |found| found.clone())
            }
        };
        let size = nodes(&value);
        let Some(place) = node(&mut value, random.below(size)) else { continue };
        match (random.below(7), &mut *place) {
            (0 | 6, Value::Object(members)) => drop(members.insert(key(random), replacement)),
            (1, Value::Object(members)) if !members.is_empty() => {
                let name = members.keys().nth(random.below(members.len())).cloned().unwrap_or_default();
                let moved = members.remove(&name).unwrap_or_default();
                if random.below(2) == 0 {
                    members.insert(key(random), moved);
                }
            }
            (2, Value::Array(elements)) => elements.push(replacement),
            (2, Value::String(text)) => {
                let at = (0..=random.below(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text.insert_str(at, word(words, random));
            }
            (3, part) => *part = json!({ *random.pick(&["allOf", "anyOf", "oneOf"]): [part.clone(), replacement] }),
            (4, part) => *part = json!({ key(random): part.clone() }),
            (_, part) => *part = replacement,
        }
    }
    let text = value.to_string().into_bytes();
    (text.len() <= longest).then_some(text)
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(nodes).sum(),
        Value::Object(members) => members.values().map(nodes).sum(),
        _ => 0,
    }
}

fn node(value: &mut Value, mut at: usize) -> Option<&mut Value> {
    if at == 0 {
        return Some(value);
    }
    at -= 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(elements) => elements.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => return None,
    };
    for child in children {
        let size = nodes(child);
        if at < size {
            return node(child, at);
        }
        at -= size;
    }
    None
}
