//! One entry into a JSON text, and everything else stays as it was written: order, spaces, comments, commas at the end.
//!
//! The text is never written anew. Where the entry belongs is found in a copy of the same length in which comments are blank, the new text is put
//! there, and the result is read again: if it says anything else than before and the entry, it is refused.

use super::merged;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value, json};
use transom_json::{Json, Kind, Limits, check};

const USUAL_INDENT: &str = "  ";

/// A value from JSON.
pub fn value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A whole document with nothing but this entry.
pub fn document(under: &str, name: &str, entry: &Value) -> String {
    pretty(&json!({under: {name: entry}}), USUAL_INDENT, "", "\n") + "\n"
}

/// The text with `under.name` set to this; `None` if it is so already.
pub fn set(text: &str, under: &str, name: &str, entry: &Value) -> Result<Option<String>, String> {
    let strict = strict(text);
    if strict.trim().is_empty() {
        // Comments alone are no document, but somebody wrote them.
        return checked(format!("{}{}", with_line_end(text), document(under, name, entry)), &json!({under: {name: entry}}));
    }
    let before: Value = serde_json::from_str(&strict).map_err(|error| format!("it is not JSON: {error}"))?;
    let root = check(strict.as_bytes(), &Limits::REPLY).map_err(|fault| format!("it cannot be read: {fault}"))?;
    let file = Text { text, strict: &strict };
    let mut entry = entry.clone();
    let changed = match only(root, under)? {
        None => file.with_member(root, under, &json!({name: &entry})),
        Some(servers) => match only(servers, name).map_err(|why| format!("in `{under}`: {why}"))? {
            None => file.with_member(servers, name, &entry),
            Some(there) => {
                let said = value(there.raw())?;
                entry = merged(Some(&said), &entry);
                if said == entry {
                    return Ok(None);
                }
                file.with_value(there, &entry)
            }
        },
    };
    let mut wanted = before;
    wanted[under][name] = entry;
    checked(changed, &wanted)
}

/// The text, if it says what it should.
fn checked(text: String, wanted: &Value) -> Result<Option<String>, String> {
    match serde_json::from_str::<Value>(&strict(&text)) {
        Ok(after) if after == *wanted => Ok(Some(text)),
        _ => Err("it is written in a way that cannot be changed without touching other things".into()),
    }
}

/// The member of this name; an error if there are several, or if this is no object.
fn only<'t>(object: Json<'t>, name: &str) -> Result<Option<Json<'t>>, String> {
    if object.kind() != Kind::Object {
        return Err(format!("`{name}` would have to stand in an object, and there is none"));
    }
    let mut found = object.members().filter(|(key, _)| key.is(name)).map(|(_, value)| value);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("`{name}` stands there twice")),
        (first, None) => Ok(first),
    }
}

/// A text, and the same text with comments and commas at the end blank.
struct Text<'t> {
    text: &'t str,
    strict: &'t str,
}

impl Text<'_> {
    /// Where a piece of the strict text stands, in both.
    fn place(&self, piece: &str) -> usize {
        piece.as_ptr() as usize - self.strict.as_ptr() as usize
    }

    fn with_value(&self, there: Json<'_>, entry: &Value) -> String {
        let start = self.place(there.raw());
        let end = start + there.raw().len();
        let outer = self.indent_at(start);
        format!("{}{}{}", &self.text[..start], pretty(entry, &self.unit(), outer, self.line_end()), &self.text[end..])
    }

    /// With one more member, the last of the object.
    fn with_member(&self, object: Json<'_>, key: &str, entry: &Value) -> String {
        let open = self.place(object.raw());
        let close = open + object.raw().len() - 1;
        let (unit, line_end) = (self.unit(), self.line_end());
        let outer = self.indent_at(if self.begins_line(close) { close } else { open });
        let first = object.members().next().map(|(key, _)| self.place(key.raw()) - 1).filter(|start| self.begins_line(*start));
        let inner = first.map_or_else(|| format!("{outer}{unit}"), |start| self.indent_at(start).to_owned());
        let last = object.members().last().map_or(open + 1, |(_, value)| self.place(value.raw()) + value.raw().len());
        // Between the last member and the bracket there may be a comma and comments. Both stay where they are.
        let rest = &self.text[last..close];
        let comma = if last == open + 1 || uncommented(rest).contains(',') { "" } else { "," };
        let member = format!("{}: {}", Value::from(key), pretty(entry, &unit, &inner, line_end));
        format!("{}{comma}{}{line_end}{inner}{member}{line_end}{outer}{}", &self.text[..last], rest.trim_end(), &self.text[close..])
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |before| before + 1)
    }

    fn begins_line(&self, at: usize) -> bool {
        self.text[self.line_start(at)..at].bytes().all(|byte| matches!(byte, b' ' | b'\t'))
    }

    /// How far the line is indented in which this stands.
    fn indent_at(&self, at: usize) -> &str {
        let line = &self.text[self.line_start(at)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// What one step of indentation is here: that of the first line that has any.
    fn unit(&self) -> String {
        // The mark at the beginning is blank in there, but indents nothing.
        let text = self.strict.get(if self.text.starts_with('\u{feff}') { 3 } else { 0 }..).unwrap_or_default();
        let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
        let indent = indented.map(|line| &line[..line.len() - line.trim_start().len()]).unwrap_or(USUAL_INDENT);
        indent.chars().take(8).collect()
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }
}

fn with_line_end(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("{}\n", text.trim_end()) }
}

/// A value over several lines, all but the first indented by `outer`.
fn pretty(value: &Value, unit: &str, outer: &str, line_end: &str) -> String {
    let mut out = Vec::new();
    let mut writer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(unit.as_bytes()));
    // Into memory nothing fails.
    let _ = serde::Serialize::serialize(value, &mut writer);
    String::from_utf8_lossy(&out).replace('\n', &format!("{line_end}{outer}"))
}

/// The text, byte for byte as long, without comments and commas before a closing bracket.
fn strict(text: &str) -> String {
    let mut bytes = uncommented(text).into_bytes();
    let mut comma = None;
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => {
                in_string = !in_string;
                comma = None;
            }
            _ if in_string => {}
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The text, byte for byte as long, with comments blank.
fn uncommented(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if text.starts_with('\u{feff}') {
        bytes[..3].fill(b' ');
    }
    let mut at = 0;
    let mut in_string = false;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\\', _) if in_string => at += 1,
            (b'"', _) => in_string = !in_string,
            (b'/', Some(b'/')) if !in_string => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    bytes[at] = b' ';
                    at += 1;
                }
                continue;
            }
            (b'/', Some(b'*')) if !in_string => {
                let end = bytes[at + 2..].windows(2).position(|pair| pair == b"*/").map_or(bytes.len(), |length| at + 2 + length + 2);
                for byte in &mut bytes[at..end] {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> Value {
        json!({"url": "http://127.0.0.1:1/mcp"})
    }

    fn put(text: &str) -> String {
        set(text, "mcpServers", "transom", &entry()).unwrap().unwrap()
    }

    #[test]
    fn an_empty_file_becomes_a_document() {
        let expected = "{\n  \"mcpServers\": {\n    \"transom\": {\n      \"url\": \"http://127.0.0.1:1/mcp\"\n    }\n  }\n}\n";
        assert_eq!(put(""), expected);
        assert_eq!(put(" \n"), expected);
        assert_eq!(put("// mine"), format!("// mine\n{expected}"));
    }

    #[test]
    fn comments_and_commas_and_spaces_stay_where_they_are() {
        let text = "// servers of mine\n{\n    \"theme\" :  \"dark\", // not light\n    \"mcpServers\": {\n        // the first\n        \"one\": {\"command\": \"a // b\", /* odd */ \"args\": [1,],},  // last\n        /* nothing more */\n    },\n}\n";
        let expected = "// servers of mine\n{\n    \"theme\" :  \"dark\", // not light\n    \"mcpServers\": {\n        // the first\n        \"one\": {\"command\": \"a // b\", /* odd */ \"args\": [1,],},  // last\n        /* nothing more */\n        \"transom\": {\n            \"url\": \"http://127.0.0.1:1/mcp\"\n        }\n    },\n}\n";
        assert_eq!(put(text), expected);
        assert_eq!(set(expected, "mcpServers", "transom", &entry()).unwrap(), None, "the second time nothing changes");
    }

    #[test]
    fn a_comment_after_the_last_member_stays_with_it() {
        let text = "{\n\t\"a\": 1 // one\n}";
        let expected = "{\n\t\"a\": 1, // one\n\t\"mcpServers\": {\n\t\t\"transom\": {\n\t\t\t\"url\": \"http://127.0.0.1:1/mcp\"\n\t\t}\n\t}\n}";
        assert_eq!(put(text), expected);
    }

    #[test]
    fn an_entry_of_the_same_name_is_replaced_and_its_neighbours_are_not() {
        let text = "{\r\n  \"mcpServers\": {\r\n    \"transom\": {\"url\": \"old\"}, // mine\r\n    \"z\": {}\r\n  }\r\n}\r\n";
        let expected = "{\r\n  \"mcpServers\": {\r\n    \"transom\": {\r\n      \"url\": \"http://127.0.0.1:1/mcp\"\r\n    }, // mine\r\n    \"z\": {}\r\n  }\r\n}\r\n";
        assert_eq!(put(text), expected);
    }

    #[test]
    fn what_somebody_added_to_the_entry_stays() {
        let text = r#"{"mcpServers": {"transom": {"url": "old", "disabled": true, "timeout": 5}}}"#;
        let changed = put(text);
        assert_eq!(value(&changed).unwrap()["mcpServers"]["transom"], json!({"url": "http://127.0.0.1:1/mcp", "disabled": true, "timeout": 5}));
        assert_eq!(set(&changed, "mcpServers", "transom", &entry()).unwrap(), None);
    }

    #[test]
    fn a_mark_at_the_beginning_is_no_indentation() {
        let expected = put("{}");
        assert_eq!(put("\u{feff}{}"), format!("\u{feff}{expected}"));
    }

    #[test]
    fn texts_on_one_line_and_empty_objects_work() {
        for text in [
            r#"{"a":1}"#,
            "{}",
            r#"{"mcpServers":{}}"#,
            r#"{"mcpServers":{"b":{}},"c":[1,2]}"#,
            "\u{feff}{\"ä\": \"ö\"}",
            "{ /* x */ }",
            "{\"a\": 1,}",
        ] {
            let changed = put(text);
            assert_eq!(value(&strict(&changed)).unwrap()["mcpServers"]["transom"], entry(), "{changed}");
        }
    }

    #[test]
    fn what_cannot_be_changed_safely_is_refused_with_its_reason() {
        for (text, why) in [
            ("[1]", "no"),
            ("{\"mcpServers\": []}", "there is none"),
            ("{\"mcpServers\": {}, \"mcpServers\": {}}", "twice"),
            ("{\"mcpServers\": {\"transom\": {}, \"transom\": {}}}", "twice"),
            ("{\"a\": }", "not JSON"),
            ("{\"a\": 1 /* open", "not JSON"),
            ("/* open", "cannot be changed"),
            ("{'a': 1}", "not JSON"),
        ] {
            let refused = set(text, "mcpServers", "transom", &entry()).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), any::<i32>().prop_map(Value::from), ".{0,6}".prop_map(Value::from)];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z/*\"\\\\]{1,4}", inner, 0..4).prop_map(|members| Value::Object(members.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_else_is_in_the_file_is_in_it_afterwards(
            members in prop::collection::btree_map("[a-z/,}\"]{1,5}", json_value(), 0..5),
            servers in prop::option::of(prop::collection::btree_map("[a-z]{1,3}", json_value(), 0..3)),
            spread in any::<bool>(),
        ) {
            let mut document = Value::Object(members.into_iter().collect());
            if let Some(servers) = servers {
                document["mcpServers"] = Value::Object(servers.into_iter().collect());
            }
            let text = if spread { serde_json::to_string_pretty(&document).unwrap() } else { document.to_string() };
            let changed = put(&text);
            document["mcpServers"]["transom"] = entry();
            prop_assert_eq!(value(&changed).unwrap(), document);
            prop_assert_eq!(set(&changed, "mcpServers", "transom", &entry()).unwrap(), None);
        }
    }
}
