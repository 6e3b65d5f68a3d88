//! JSON for people: indented, every number and every key as it was written.

use transom_protocol::json::{Json, Kind};

/// The value, indented by two spaces a level. The text was checked, so its depth is bounded.
pub fn pretty(json: Json<'_>) -> String {
    let mut out = String::with_capacity(json.raw().len() * 2);
    write(&mut out, json, 0);
    out
}

fn write(out: &mut String, json: Json<'_>, level: usize) {
    match json.kind() {
        Kind::Object => block(out, ('{', '}'), level, json.members(), |out, (key, value)| {
            out.push('"');
            out.push_str(key.raw());
            out.push_str("\": ");
            write(out, value, level + 1);
        }),
        Kind::Array => block(out, ('[', ']'), level, json.elements(), |out, value| write(out, value, level + 1)),
        _ => out.push_str(json.raw()),
    }
}

fn block<T>(out: &mut String, (open, close): (char, char), level: usize, items: impl Iterator<Item = T>, mut item: impl FnMut(&mut String, T)) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    };
    out.push(open);
    let mut empty = true;
    for value in items {
        if !std::mem::replace(&mut empty, false) {
            out.push(',');
        }
        line(out, level + 1);
        item(out, value);
    }
    if !empty {
        line(out, level);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_white_space_changes() {
        let text = r#"{"a":[1e400,{"b\u0063":[]}],"d":{},"e":"x, \"y\": {"}"#;
        let expected = "{\n  \"a\": [\n    1e400,\n    {\n      \"b\\u0063\": []\n    }\n  ],\n  \"d\": {},\n  \"e\": \"x, \\\"y\\\": {\"\n}";
        assert_eq!(pretty(Json::trusted(text)), expected);
    }
}
