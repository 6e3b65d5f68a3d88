//! Fuzzing on stable Rust: seeds, a dictionary, mutations, and a count of executions.
//!
//! Without further words each target gets a few thousand inputs, so that every test run looks a little further. For more:
//! `make fuzz EXECUTIONS=1000000` or `make fuzz SECONDS=60`, one line for each target; `ONLY=arguments` for one alone and
//! `SEED=n` for other inputs. An input that breaks a promise is printed, and the run fails.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]

mod targets;

use serde_json::{Value, json};
use std::panic::catch_unwind;
use std::time::{Duration, Instant};
use targets::{TARGETS, Target};

/// Inputs of a run that says nothing else.
const EXECUTIONS: u64 = 2_000;
/// No input is longer.
const LONGEST: usize = 4096;
/// No input may take longer; a loaded machine is slow too.
const SLOWEST: Duration = Duration::from_secs(5);

/// Pieces that mean something somewhere.
const WORDS: &[&str] = &[
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
    "-0",
    "1e400",
    "18446744073709551616",
    "\\u0061",
    "\\ud800",
    "\u{200b}",
    "K",
    "ſ",
    "é",
    "🎉",
    "$",
    "$.",
    "$..",
    "[*]",
    "[?",
    "@.",
    "&&",
    "||",
    "!",
    "==",
    "(",
    ")",
    "((((",
    "'",
    "..",
    "-1",
    "::",
    "${",
    "$<",
    ">",
    ":-",
    ":?",
    "${A}",
    "$$",
    "\"secret\":",
    "\"api_key\":",
    "\"debug\":",
    "\"token\":",
    "\"$ref\":\"#\"",
    "\"$ref\":\"#/$defs/O\"",
    "\"allOf\":[",
    "\"properties\":{",
    "\"required\":[\"secret\"]",
    "\"additionalProperties\":true",
    "\"unevaluatedProperties\":{}",
    "\"$dynamicRef\":\"#x\"",
    "\"not\":{}",
    "\"hideFields\":[\"a\"]",
    "\"source\":\"v\"",
    "\"defaults\":{}",
    "```json\n",
    "```",
    "\n",
    " ",
    "\t",
    "\u{feff}",
    "\0",
    "sourceField",
    "length(",
    "count(",
    "match(",
    "0",
    "9",
    "a",
    "secret",
];

fn main() {
    // `cargo test NAME` runs every test binary; what it is looking for is not here.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if std::env::args().any(|word| word == "--list") || (!asked.is_empty() && !asked.iter().any(|word| "fuzz".contains(word.as_str()))) {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("SECONDS").map(Duration::from_secs);
    let executions = number("EXECUTIONS").unwrap_or(if seconds.is_some() { u64::MAX } else { EXECUTIONS });
    let only = std::env::var("ONLY").ok().filter(|name| !name.is_empty());
    std::panic::set_hook(Box::new(|_| {}));
    let mut failed = false;
    for target in TARGETS.iter().filter(|target| only.as_ref().is_none_or(|name| name == target.name)) {
        let seed = number("SEED").unwrap_or(1);
        let begun = Instant::now();
        // The stack of a worker of the gateway: what overflows there has to overflow here.
        let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(move || fuzz(target, seed, executions, seconds));
        let outcome =
            worker.map_err(|error| error.to_string()).and_then(|worker| worker.join().unwrap_or_else(|_| Err("a panic of the fuzzer".into())));
        match outcome {
            Ok(count) => println!("{:14} {count} executions in {:.1?}, no finding", target.name, begun.elapsed()),
            Err(finding) => {
                failed = true;
                println!("{:14} FOUND {finding}", target.name);
            }
        }
    }
    if failed {
        std::process::exit(1);
    }
}

fn fuzz(target: &Target, seed: u64, executions: u64, seconds: Option<Duration>) -> Result<u64, String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let end = seconds.map(|seconds| Instant::now() + seconds);
    let mut count = 0;
    while count < executions && end.is_none_or(|end| Instant::now() < end) {
        let input = match usize::try_from(count).ok().and_then(|at| target.seeds.get(at)) {
            Some(seed) => seed.as_bytes().to_vec(),
            // Two of three inputs of a JSON target stay JSON, so that they get past the parser.
            None if target.json && random.below(3) > 0 => rearranged(target.seeds, &mut random),
            None => mutated(target.seeds, &mut random),
        };
        let begun = Instant::now();
        let run = target.run;
        if let Err(panic) = catch_unwind(|| run(&input)) {
            let why = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            return Err(format!("after {count} executions: {why}\n  input: {:?}", String::from_utf8_lossy(&input)));
        }
        if begun.elapsed() > SLOWEST {
            return Err(format!("an input that takes {:?}: {:?}", begun.elapsed(), String::from_utf8_lossy(&input)));
        }
        count += 1;
    }
    Ok(count)
}

fn mutated(seeds: &[&str], random: &mut Random) -> Vec<u8> {
    let mut input = random.pick(seeds).as_bytes().to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        match random.below(8) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 => input.splice(at..at, random.pick(WORDS).bytes()).for_each(drop),
            2 => {
                let end = (at + 1 + random.below(16)).min(input.len());
                input.drain(at.min(end)..end);
            }
            3 => {
                let piece = input[at..(at + 1 + random.below(32)).min(input.len())].to_vec();
                let copies = 1 + random.below(4);
                input.splice(at..at, piece.repeat(copies));
            }
            4 => {
                let other = random.pick(seeds).as_bytes();
                let from = random.below(other.len());
                input.splice(at..at, other[from..(from + 1 + random.below(64)).min(other.len())].iter().copied());
            }
            5 => {
                // Something that opens many times, and perhaps closes.
                let (open, close) = *random.pick(&[("[", "]"), ("{\"a\":", "}"), ("(", ")"), ("${", "}"), ("{\"allOf\":[", "]}")]);
                let times = 1 + random.below(80);
                let tail = if random.below(2) == 0 { close.repeat(times) } else { String::new() };
                input.splice(at..at, (open.repeat(times) + "1" + &tail).into_bytes());
            }
            6 => {
                // One word of the input becomes another.
                let end = (at..input.len()).find(|i| !input[*i].is_ascii_alphanumeric()).unwrap_or(input.len());
                input.splice(at..end, random.pick(WORDS).bytes());
            }
            _ if at < input.len() => input[at] = (random.next() & 0x7f) as u8,
            _ => {}
        }
        input.truncate(LONGEST);
    }
    input
}

/// JSON whose parts were exchanged, renamed, wrapped and removed.
fn rearranged(seeds: &[&str], random: &mut Random) -> Vec<u8> {
    let seed = |random: &mut Random| {
        let text = random.pick(seeds);
        serde_json::from_str::<Value>(text).unwrap_or(Value::Null)
    };
    let mut value = seed(random);
    for _ in 0..=random.below(5) {
        let mut other = seed(random);
        let replacement = match random.below(4) {
            0 => random
                .pick(&[json!(null), json!(true), json!(0), json!("secret"), json!({}), json!([]), json!("$.a"), json!("${A}"), json!(1.5)])
                .clone(),
            1 => json!(random.pick(KEYS)),
            _ => {
                let size = nodes(&other);
                node(&mut other, random.below(size)).map_or(Value::Null, |found| found.clone())
            }
        };
        let size = nodes(&value);
        let Some(place) = node(&mut value, random.below(size)) else { continue };
        match (random.below(6), &mut *place) {
            (0, Value::Object(members)) => drop(members.insert((*random.pick(KEYS)).to_owned(), replacement)),
            (1, Value::Object(members)) if !members.is_empty() => {
                let key = members.keys().nth(random.below(members.len())).cloned().unwrap_or_default();
                let moved = members.shift_remove(&key).unwrap_or_default();
                if random.below(2) == 0 {
                    members.insert((*random.pick(KEYS)).to_owned(), moved);
                }
            }
            (2, Value::Array(elements)) => elements.push(replacement),
            (3, part) => *part = json!({ *random.pick(&["allOf", "anyOf", "oneOf"]): [part.clone(), replacement] }),
            (4, part) => *part = json!({ *random.pick(KEYS): part.clone() }),
            (_, part) => *part = replacement,
        }
    }
    let mut text = value.to_string().into_bytes();
    text.truncate(LONGEST);
    text
}

/// Keys that mean something to one of the targets.
const KEYS: &[&str] = &[
    "secret",
    "Secret",
    "o",
    "l",
    "a",
    "b",
    "properties",
    "required",
    "items",
    "prefixItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$defs",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "additionalProperties",
    "unevaluatedProperties",
    "contains",
    "default",
    "examples",
    "enum",
    "const",
    "type",
    "$id",
    "$anchor",
    "$dynamicRef",
    "name",
    "source",
    "target",
    "tool",
    "tools",
    "schemas",
    "hideFields",
    "defaults",
    "arguments",
    "outputSchema",
    "sourceField",
    "coalesce",
    "template",
    "vars",
    "literal",
    "inputSchema",
    "implementation",
    "city",
    "location",
    "api_key",
    "API_KEY",
    "opts",
    "debug",
    "rows",
    "token",
    "units",
    "n",
    "t",
    "x",
    "p",
    "q",
    "",
];

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

/// xorshift64*: fast, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
