//! A value as YAML that a person can go on with.

use serde_json::Value;

/// Block style; texts in quotes only where they need them.
pub fn written(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Value, level: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                indent(out, level);
                member(out, key, value, level);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(out, level);
                out.push_str("- ");
                match item {
                    // The first member stands beside the dash, the others below it.
                    Value::Object(members) if !members.is_empty() => {
                        for (at, (key, value)) in members.iter().enumerate() {
                            if at > 0 {
                                indent(out, level + 1);
                            }
                            member(out, key, value, level + 1);
                        }
                    }
                    other => line(out, other),
                }
            }
        }
        other => line(out, other),
    }
}

fn member(out: &mut String, key: &str, value: &Value, level: usize) {
    out.push_str(&scalar(key));
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push_str(":\n");
            write(out, value, level + 1);
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            out.push_str(":\n");
            write(out, value, level + 1);
        }
        other => {
            out.push_str(": ");
            line(out, other);
        }
    }
}

/// What fits on a line.
fn line(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => out.push_str(&scalar(text)),
        Value::Array(items) if !items.iter().any(|item| item.is_object() || item.is_array()) => {
            let items: Vec<String> = items.iter().map(json_text).collect();
            out.push_str(&format!("[{}]", items.join(", ")));
        }
        // What JSON writes on one line is YAML as well.
        other => out.push_str(&json_text(other)),
    }
    out.push('\n');
}

fn indent(out: &mut String, level: usize) {
    out.extend(std::iter::repeat_n("  ", level));
}

/// A text, in the quotes of JSON unless it is plainly a text without them.
fn scalar(text: &str) -> String {
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '/' | '.' | '_'));
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/' | '+' | ' ' | ',' | '(' | ')' | ';' | '\'');
    let is_word = matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    // `.5`, `.inf` and `.nan` are numbers.
    let is_number = text.strip_prefix('.').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_alphanumeric()));
    if starts_well && !is_word && !is_number && !text.ends_with(' ') && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        json_text(&Value::from(text))
    }
}

/// JSON in which every character is one that YAML has, too. Those that it lacks stand in texts only, where JSON can escape them.
fn json_text(value: &Value) -> String {
    let mut out = String::new();
    for letter in value.to_string().chars() {
        match letter {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)))
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn characters_that_yaml_lacks_are_escaped() {
        let value = json!({"\u{7f}": ["\u{7f}\u{80}\u{85}\u{9f}", "a\u{2028}b\u{2029}", "\u{feff}x\u{feff}", "\u{1}\u{0}", "\u{ffff}\u{fffe}"], "é": "é\u{a0}"});
        let text = written(&value);
        let source = crate::Source { name: "x.yaml".into(), text: text.clone(), base_dir: "/".into() };
        let tree = crate::tree(&source).unwrap_or_else(|report| panic!("{}\n{text:?}", report.render(false)));
        assert_eq!(crate::import::json(&tree), value, "{text:?}");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let value = json!({
            "listen": "127.0.0.1:3000", "on": "off", "n": 1.5, "none": null, "empty": {}, "list": [], "words": ["a b", "c: d", "# e", "- f", "true", ".5", "~"],
            "targets": [{"name": "a", "stdio": {"cmd": "npx", "args": ["-y", "@x/y"], "env": {"A": "${A}"}}}, {"name": "b"}, [1, [2, {"x": "multi\nline"}]]],
        });
        let text = written(&value);
        let source = crate::Source { name: "x.yaml".into(), text: text.clone(), base_dir: "/".into() };
        let tree = crate::tree(&source).unwrap_or_else(|report| panic!("{}\n{text}", report.render(false)));
        assert_eq!(crate::import::json(&tree), value, "{text}");
        assert!(text.contains("\n  - name: a\n    stdio:\n      cmd: npx\n"), "{text}");
    }
}
