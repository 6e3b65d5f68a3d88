//! Tools that stand on no target: mocks, builtins and the gateway's own.
//!
//! Reads and checks what an entry says about its `implementation`, and answers calls of mocks and builtins. Clock and
//! randomness are passed in. Internal handlers are known here by name only; the gateway runs them.

use crate::problem::did_you_mean;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use transom_json::{Json, Tree, write};

/// The builtin handlers, as they are written.
pub const BUILTIN: [&str; 3] = ["calculator", "current_datetime", "uuid"];
/// The handlers a gateway brings along, as they are written.
pub const INTERNAL: [&str; 2] = ["catalog_search", "gateway_status"];
/// The kinds of implementation, as they are written.
pub const KINDS: [&str; 3] = ["mock", "builtin", "internal"];
/// What is said, to the letter, of an entry that wants HTTP under schemaVersion 1.x.
pub const HTTP_REFUSED: &str = "HTTP tools not yet supported (coming in v2)";

/// Longer expressions are no arithmetic of a person or a model.
const LONGEST_EXPRESSION: usize = 1000;

/// What answers a call of a local tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Always the same response.
    Mock(Tree),
    /// A handler of this crate.
    Builtin(Builtin),
    /// A handler of the gateway, by name.
    Internal(String),
}

/// A handler of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// Arithmetic: the argument `expression`.
    Calculator,
    /// Date and time: the argument `timezone`, UTC without one or with one that is unknown.
    CurrentDatetime,
    /// A random UUID.
    Uuid,
}

impl Builtin {
    /// The handler of that name.
    pub fn named(name: &str) -> Option<Builtin> {
        match name {
            "calculator" => Some(Builtin::Calculator),
            "current_datetime" => Some(Builtin::CurrentDatetime),
            "uuid" => Some(Builtin::Uuid),
            _ => None,
        }
    }
}

/// What is wrong with an entry that stands on no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadImplementation {
    /// Where, from the top of the entry (RFC 6901).
    pub pointer: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Implementation {
    /// Reads an entry as written and checks all that a local tool must say about itself.
    pub fn read(entry: &Tree, schema_version: &str, internal: &[&str]) -> Result<Implementation, Vec<BadImplementation>> {
        let mut faults = Vec::new();
        let mut fault = |pointer, message: String, help: Option<String>| faults.push(BadImplementation { pointer, message, help });
        if entry.get("description").and_then(Tree::as_str).is_none_or(|text| text.trim().is_empty()) {
            fault("", "a tool that stands on no target needs a `description`".into(), Some("say in a sentence what it does".into()));
        }
        let (place, schema) = match entry.get("inputSchema") {
            Some(schema) => ("/inputSchema", Some(schema)),
            None => ("/parameters", entry.get("parameters")),
        };
        match schema {
            None => {
                let help = r#"without arguments they are `"parameters": {"type": "object"}`"#.into();
                fault("", "a tool that stands on no target needs `parameters`".into(), Some(help));
            }
            // A reference to a named schema is judged when it is resolved.
            Some(schema) if schema.get("type").is_none() && schema.get("$ref").is_some() => {}
            Some(schema) if schema.get("type").and_then(Tree::as_str) != Some("object") => {
                fault(
                    place,
                    "the `type` of the parameters is not \"object\"".into(),
                    Some("arguments are an object: write `\"type\": \"object\"`".into()),
                );
            }
            Some(_) => {}
        }
        if let Some(kind) = entry.get("type").filter(|kind| kind.as_str() != Some("function")) {
            fault("/type", format!("a tool's `type` is \"function\", not {kind}"), Some("remove it".into()));
        }
        match kind(entry, schema_version, internal) {
            Ok(implementation) if faults.is_empty() => Ok(implementation),
            Ok(_) => Err(faults),
            Err(more) => {
                faults.push(more);
                Err(faults)
            }
        }
    }

    /// The result of a call, a `CallToolResult` as JSON; nothing if the gateway has to answer.
    pub fn answer(&self, arguments: Json<'_>, given: &Given) -> Option<Vec<u8>> {
        let answer = match self {
            Implementation::Internal(_) => return None,
            Implementation::Mock(response) => return Some(mocked(response)),
            Implementation::Builtin(Builtin::Calculator) => calculate(arguments),
            Implementation::Builtin(Builtin::CurrentDatetime) => datetime(arguments, given),
            Implementation::Builtin(Builtin::Uuid) => Ok(uuid(given)),
        };
        Some(answer.map_or_else(|message| result(&message, None, true), |(text, data)| result(&text, Some(&data), false)))
    }
}

/// What a builtin cannot find out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub unix_seconds: i64,
    /// Bytes that nobody can guess.
    pub random: [u8; 16],
}

fn kind(entry: &Tree, schema_version: &str, internal: &[&str]) -> Result<Implementation, BadImplementation> {
    let fault = |pointer, message: String, help: String| BadImplementation { pointer, message, help: Some(help) };
    let implementation = entry.get("implementation").unwrap_or(&Tree::Null);
    let Some(kind) = implementation.get("type") else {
        return Err(fault("/implementation", "an `implementation` needs a `type`".into(), format!("known types: {}", KINDS.join(", "))));
    };
    let handler = |known: &[&str], what: &str| {
        let (place, name) = match implementation.get("handler") {
            Some(name) => ("/implementation/handler", Some(name)),
            None => ("/handler", entry.get("handler")),
        };
        let known_ones = format!("known handlers: {}", known.join(", "));
        match name {
            None => Err(fault("/implementation", format!("an implementation of type \"{what}\" needs a `handler`"), known_ones)),
            Some(name) => match known.iter().find(|each| name.as_str() == Some(each)) {
                Some(known) => Ok((*known).to_owned()),
                None => Err(fault(place, format!("No {what} handler {name}; {known_ones}"), nearest(name, known))),
            },
        }
    };
    match kind.as_str() {
        Some("mock") => match implementation.get("mock_response") {
            Some(response) => Ok(Implementation::Mock(response.clone())),
            None => Err(fault("/implementation", "a mock needs a `mock_response`".into(), "any JSON will do, `null` included".into())),
        },
        Some("builtin") => {
            let name = handler(&BUILTIN, "builtin")?;
            // Every name of the list is one that `named` knows; a test holds that.
            Ok(Implementation::Builtin(Builtin::named(&name).unwrap_or(Builtin::Uuid)))
        }
        Some("internal") => Ok(Implementation::Internal(handler(internal, "internal")?)),
        Some("http") if schema_version == "1" || schema_version.starts_with("1.") => {
            Err(fault("/implementation/type", HTTP_REFUSED.into(), "let a target speak to it, and stand on that target".into()))
        }
        _ => {
            let message = format!("{kind} is no type of implementation; known types: {}", KINDS.join(", "));
            Err(fault("/implementation/type", message, nearest(kind, &KINDS)))
        }
    }
}

/// What to write in place of a word that is none of these.
fn nearest(word: &Tree, known: &[&str]) -> String {
    let guess = word.as_str().and_then(|word| did_you_mean(word, known.iter().copied()));
    guess.map_or_else(|| "write one of these".into(), |near| format!("did you mean `{near}`?"))
}

/// A string is said as it is, anything else as JSON; an object is given as data too.
fn mocked(response: &Tree) -> Vec<u8> {
    let text = response.as_str().map_or_else(|| response.to_string(), str::to_owned);
    result(&text, response.as_object().map(|_| response.to_string()).as_deref(), false)
}

/// A `CallToolResult` of one text.
fn result(text: &str, data: Option<&str>, is_error: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    out.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    write::string(&mut out, text);
    out.extend_from_slice(b"}]");
    if let Some(data) = data {
        out.extend_from_slice(br#","structuredContent":"#);
        out.extend_from_slice(data.as_bytes());
    }
    if is_error {
        out.extend_from_slice(br#","isError":true"#);
    }
    out.push(b'}');
    out
}

/// What a builtin says, as text and as data.
type Answer = (String, String);

fn uuid(given: &Given) -> Answer {
    let random = u128::from_be_bytes(given.random);
    // Version 4, variant 1: RFC 9562, section 5.4.
    let bits = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let part = |from: u32, digits: u32| (bits >> from) & ((1u128 << (digits * 4)) - 1);
    let text = format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12));
    let data = format!(r#"{{"uuid":"{text}"}}"#);
    (text, data)
}

fn datetime(arguments: Json<'_>, given: &Given) -> Result<Answer, String> {
    let wanted = arguments.get("timezone").and_then(Json::string);
    let zone = wanted.and_then(|name| TimeZoneDatabase::bundled().get(&name).ok()).unwrap_or(TimeZone::UTC);
    let moment = Timestamp::from_second(given.unix_seconds).map_err(|_| "the clock shows a time outside of the calendar".to_owned())?;
    let name = zone.iana_name().unwrap_or("UTC").to_owned();
    let text = moment.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let data = format!(r#"{{"datetime":"{text}","timezone":{},"unix":{}}}"#, write::quoted(&name), given.unix_seconds);
    Ok((text, data))
}

fn calculate(arguments: Json<'_>) -> Result<Answer, String> {
    let expression =
        arguments.get("expression").and_then(Json::string).ok_or(r#"the argument "expression" must be a string, such as "2 + 3 * 4""#)?;
    let value = evaluate(&expression)?;
    let text = number(value);
    let data = format!(r#"{{"result":{text}}}"#);
    Ok((text, data))
}

/// As a person would write it: `4`, not `4.0`.
fn number(value: f64) -> String {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= LARGEST_EXACT { format!("{}", value as i64) } else { serde_json::Value::from(value).to_string() }
}

#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Open,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Negate,
    Power,
}

impl Operator {
    /// What binds tighter is done first; `-2^2` is `-(2^2)`.
    fn strength(self) -> u8 {
        match self {
            Operator::Open => 0,
            Operator::Add | Operator::Subtract => 1,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 2,
            Operator::Negate => 3,
            Operator::Power => 4,
        }
    }

    fn binary(character: char) -> Option<Operator> {
        match character {
            '+' => Some(Operator::Add),
            '-' | '−' => Some(Operator::Subtract),
            '*' | '×' => Some(Operator::Multiply),
            '/' | '÷' => Some(Operator::Divide),
            '%' => Some(Operator::Remainder),
            '^' => Some(Operator::Power),
            _ => None,
        }
    }
}

/// The value of an expression of numbers, `+ - * / % ^` (also `**`) and parentheses, in doubles. Two stacks instead of recursion:
/// a thousand parentheses cost a thousand entries.
fn evaluate(expression: &str) -> Result<f64, String> {
    if expression.len() > LONGEST_EXPRESSION {
        return Err(format!("the expression is longer than {LONGEST_EXPRESSION} bytes"));
    }
    let mut values: Vec<f64> = Vec::new();
    let mut waiting: Vec<Operator> = Vec::new();
    let mut after_value = false;
    let mut rest = expression;
    loop {
        rest = rest.trim_start();
        let Some(character) = rest.chars().next() else { break };
        let next = rest.get(character.len_utf8()..).unwrap_or("");
        let unexpected = || format!("`{character}` is not expected at position {}", expression.chars().count() - rest.chars().count() + 1);
        if !after_value {
            match character {
                '0'..='9' | '.' => {
                    let (value, length) = literal(rest).ok_or_else(unexpected)?;
                    values.push(value);
                    after_value = true;
                    rest = rest.get(length..).unwrap_or("");
                    continue;
                }
                '-' | '−' => waiting.push(Operator::Negate),
                '+' => {}
                '(' => waiting.push(Operator::Open),
                _ => return Err(unexpected()),
            }
            rest = next;
        } else if character == ')' {
            while let Some(operator) = waiting.pop_if(|operator| *operator != Operator::Open) {
                apply(operator, &mut values)?;
            }
            waiting.pop().ok_or_else(unexpected)?;
            rest = next;
        } else {
            let (operator, following) = match next.strip_prefix('*').filter(|_| character == '*') {
                Some(following) => (Operator::Power, following),
                None => (Operator::binary(character).ok_or_else(unexpected)?, next),
            };
            // Powers group from the right, all others from the left.
            let first = |other: &mut Operator| {
                other.strength() > operator.strength() || other.strength() == operator.strength() && operator != Operator::Power
            };
            while let Some(earlier) = waiting.pop_if(first) {
                apply(earlier, &mut values)?;
            }
            waiting.push(operator);
            after_value = false;
            rest = following;
        }
    }
    if !after_value {
        return Err(if expression.trim().is_empty() { "the expression is empty".into() } else { "the expression ends where a number is due".into() });
    }
    while let Some(operator) = waiting.pop() {
        if operator == Operator::Open {
            return Err("a parenthesis is not closed".into());
        }
        apply(operator, &mut values)?;
    }
    values.pop().filter(|value| value.is_finite()).ok_or_else(|| "the result is no number that can be written".into())
}

/// A number at the start of the text, and how long it is.
fn literal(text: &str) -> Option<(f64, usize)> {
    let digits = |from: usize| text.bytes().skip(from).take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    if text.as_bytes().get(length) == Some(&b'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(text.as_bytes().get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.as_bytes().get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    Some((text.get(..length)?.parse().ok()?, length))
}

fn apply(operator: Operator, values: &mut Vec<f64>) -> Result<(), String> {
    let mut value = || values.pop().ok_or("the expression ends where a number is due");
    let right = value()?;
    if operator == Operator::Negate {
        values.push(-right);
        return Ok(());
    }
    let left = value()?;
    if matches!(operator, Operator::Divide | Operator::Remainder) && right == 0.0 {
        return Err("division by zero".into());
    }
    values.push(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
        Operator::Power => left.powf(right),
        Operator::Negate | Operator::Open => right,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_json::{Limits, check};

    const GIVEN: Given = Given { unix_seconds: 1_785_240_000, random: [0xff; 16] };

    fn tree(text: &str) -> Tree {
        Tree::from(check(text.as_bytes(), &Limits::REPLY).unwrap())
    }

    fn entry(implementation: &str) -> Tree {
        tree(&format!(r#"{{"name":"t","description":"d","parameters":{{"type":"object"}},"implementation":{implementation}}}"#))
    }

    fn read(implementation: &str) -> Result<Implementation, String> {
        Implementation::read(&entry(implementation), "1.0", &INTERNAL)
            .map_err(|faults| faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>().join("; "))
    }

    fn called(implementation: &str, arguments: &str) -> String {
        String::from_utf8(read(implementation).unwrap().answer(Json::trusted(arguments), &GIVEN).unwrap()).unwrap()
    }

    // R-002-12 to R-002-15
    #[test]
    fn the_three_kinds_are_read() {
        assert_eq!(read(r#"{"type":"mock","mock_response":null}"#), Ok(Implementation::Mock(Tree::Null)));
        for name in BUILTIN {
            let expected = Builtin::named(name).map(Implementation::Builtin);
            assert_eq!(read(&format!(r#"{{"type":"builtin","handler":"{name}"}}"#)).ok(), expected);
            assert!(expected.is_some());
        }
        for name in INTERNAL {
            assert_eq!(read(&format!(r#"{{"type":"internal","handler":"{name}"}}"#)), Ok(Implementation::Internal(name.into())));
        }
        let above = tree(
            r#"{"name":"t","type":"function","handler":"uuid","description":"d","inputSchema":{"type":"object"},"implementation":{"type":"builtin"}}"#,
        );
        assert_eq!(Implementation::read(&above, "1.0", &[]), Ok(Implementation::Builtin(Builtin::Uuid)));
    }

    // R-002-3, R-002-16, F8 to F11, F14
    #[test]
    fn what_a_local_tool_lacks_is_said() {
        assert_eq!(read(r#"{"type":"http","url":"http://x"}"#).unwrap_err(), "HTTP tools not yet supported (coming in v2)");
        for (implementation, message) in [
            (r#"{"type":"grpc"}"#, r#""grpc" is no type of implementation"#),
            ("{}", "needs a `type`"),
            ("7", "needs a `type`"),
            (r#"{"type":"mock"}"#, "needs a `mock_response`"),
            (r#"{"type":"builtin"}"#, "needs a `handler`"),
            (r#"{"type":"builtin","handler":"rm"}"#, r#"No builtin handler "rm""#),
            (r#"{"type":"internal","handler":7}"#, "No internal handler 7"),
        ] {
            assert!(read(implementation).unwrap_err().contains(message), "{implementation}");
        }
        let helps = Implementation::read(&entry(r#"{"type":"builtin","handler":"rm"}"#), "1.0", &INTERNAL).unwrap_err();
        assert_eq!(helps[0].message, r#"No builtin handler "rm"; known handlers: calculator, current_datetime, uuid"#);
        // Another version of the document knows no `http` either, but nobody promised anything.
        let later = Implementation::read(&entry(r#"{"type":"http"}"#), "2.0", &INTERNAL).unwrap_err();
        assert!(later[0].message.contains("no type"));
    }

    // R-002-3: all faults at once
    #[test]
    fn every_fault_of_an_entry_is_said_at_once() {
        let bare = tree(r#"{"name":"t","type":"tool","parameters":{"type":"array"},"implementation":{"type":"mock"}}"#);
        let faults = Implementation::read(&bare, "1.0", &INTERNAL).unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.pointer).collect::<Vec<_>>(), ["", "/parameters", "/type", "/implementation"]);
        let nothing =
            Implementation::read(&tree(r#"{"name":"t","implementation":{"type":"mock","mock_response":1}}"#), "1.0", &INTERNAL).unwrap_err();
        assert_eq!(nothing.len(), 2);
    }

    // F13
    #[test]
    fn a_mock_gives_its_response_whatever_is_asked() {
        for (response, result) in [
            (r#""hello""#, r#"{"content":[{"type":"text","text":"hello"}]}"#),
            ("1e400", r#"{"content":[{"type":"text","text":"1e400"}]}"#),
            ("[1,2]", r#"{"content":[{"type":"text","text":"[1,2]"}]}"#),
            (r#"{"a":"b"}"#, r#"{"content":[{"type":"text","text":"{\"a\":\"b\"}"}],"structuredContent":{"a":"b"}}"#),
        ] {
            assert_eq!(called(&format!(r#"{{"type":"mock","mock_response":{response}}}"#), r#"{"x":1}"#), result);
        }
        assert_eq!(read(r#"{"type":"internal","handler":"gateway_status"}"#).unwrap().answer(Json::trusted("{}"), &GIVEN), None);
    }

    // F15
    #[test]
    fn the_calculator_keeps_the_rules_of_arithmetic() {
        for (expression, value) in [
            ("2+2", "4"),
            (" 2 + 3 * 4 ", "14"),
            ("(2+3)*4", "20"),
            ("2-3-4", "-5"),
            ("2^3^2", "512"),
            ("2**10", "1024"),
            ("-2^2", "-4"),
            ("2^-1", "0.5"),
            ("2*-3+1", "-5"),
            ("--3", "3"),
            ("+3", "3"),
            ("7%4", "3"),
            ("8/4/2", "1"),
            ("1.5e3", "1500"),
            (".5*2", "1"),
            ("10÷4−1×2", "0.5"),
            ("1e30", "1e+30"),
            ("0*-1", "0"),
            ("2 * (3 + (4 - 1)) ^ 2", "72"),
        ] {
            assert_eq!(evaluate(expression).map(number).as_deref(), Ok(value), "{expression}");
        }
        let calculator = r#"{"type":"builtin","handler":"calculator"}"#;
        assert_eq!(called(calculator, r#"{"expression":"2+2"}"#), r#"{"content":[{"type":"text","text":"4"}],"structuredContent":{"result":4}}"#);
        assert_eq!(called(calculator, r#"{"expression":"1/0"}"#), r#"{"content":[{"type":"text","text":"division by zero"}],"isError":true}"#);
        assert!(called(calculator, r#"{"expression":7}"#).contains(r#""isError":true"#));
    }

    #[test]
    fn what_is_no_arithmetic_is_refused_and_nothing_overflows() {
        for (expression, message) in [
            ("", "empty"),
            ("2+", "ends where a number is due"),
            ("(2", "not closed"),
            ("2)", "`)` is not expected at position 2"),
            ("()", "`)` is not expected at position 2"),
            ("2 3", "`3` is not expected at position 3"),
            ("process.exit(1)", "`p` is not expected at position 1"),
            ("2+import", "`i` is not expected at position 3"),
            (".", "`.` is not expected"),
            ("1..2", "`.` is not expected"),
            ("1/0", "division by zero"),
            ("5%0", "division by zero"),
            ("1e999", "no number"),
            ("10^400", "no number"),
            ("(0-1)^0.5", "no number"),
            ("é", "`é` is not expected"),
        ] {
            let error = evaluate(expression).unwrap_err();
            assert!(error.contains(message), "{expression}: {error}");
        }
        assert!(evaluate(&"(".repeat(1000)).is_err());
        assert!(evaluate(&"-".repeat(1000)).is_err());
        assert!(evaluate(&"(".repeat(1001)).unwrap_err().contains("longer"));
        assert_eq!(evaluate(&format!("{}1{}", "(".repeat(499), ")".repeat(499))), Ok(1.0));
    }

    // F15
    #[test]
    fn date_and_time_are_those_of_the_zone_and_of_utc_where_it_is_unknown() {
        let handler = r#"{"type":"builtin","handler":"current_datetime"}"#;
        for (arguments, text, zone) in [
            ("{}", "2026-07-28T12:00:00+00:00", "UTC"),
            (r#"{"timezone":"Europe/Oslo"}"#, "2026-07-28T14:00:00+02:00", "Europe/Oslo"),
            (r#"{"timezone":"Asia/Kolkata"}"#, "2026-07-28T17:30:00+05:30", "Asia/Kolkata"),
            (r#"{"timezone":"Mars/Olympus"}"#, "2026-07-28T12:00:00+00:00", "UTC"),
            (r#"{"timezone":7}"#, "2026-07-28T12:00:00+00:00", "UTC"),
        ] {
            let data = format!(r#""structuredContent":{{"datetime":"{text}","timezone":"{zone}","unix":1785240000}}"#);
            let result = called(handler, arguments);
            assert!(result.contains(&data) && result.contains(&format!(r#""text":"{text}""#)), "{result}");
        }
        let never = Given { unix_seconds: i64::MAX, ..GIVEN };
        let result = read(handler).unwrap().answer(Json::trusted("{}"), &never).unwrap();
        assert!(String::from_utf8(result).unwrap().contains("isError"));
    }

    // F15
    #[test]
    fn a_uuid_is_random_and_says_so() {
        let handler = read(r#"{"type":"builtin","handler":"uuid"}"#).unwrap();
        for (random, uuid) in [([0xff; 16], "ffffffff-ffff-4fff-bfff-ffffffffffff"), ([0; 16], "00000000-0000-4000-8000-000000000000")] {
            let result = handler.answer(Json::trusted("{}"), &Given { random, ..GIVEN }).unwrap();
            assert!(String::from_utf8(result).unwrap().contains(&format!(r#""structuredContent":{{"uuid":"{uuid}"}}"#)));
        }
    }
}
