//! One table into a TOML text; everything else stays as it was written.
//!
//! The text is changed by a parser that keeps comments, order and spaces. What it would write otherwise than it stands there is refused, and so is a
//! result that says anything else than before and the entry.

use super::{is_ours, merged};
use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

const MARK: char = '\u{feff}';

/// A table with these lines.
pub fn table(under: &str, name: &str, lines: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let key = if is_bare { name.to_owned() } else { Value::from(name).to_string() };
    format!("[{under}.{key}]\n{lines}")
}

/// The text with this table in it; `None` if it is there already.
pub fn set(text: &str, under: &str, name: &str, lines: &str) -> Result<Option<String>, String> {
    let entry: DocumentMut = lines.parse().map_err(|error| format!("the entry makes no sense: {error}"))?;
    let (mark, body) = text.strip_prefix(MARK).map_or(("", text), |body| ("\u{feff}", body));
    let line_end = if body.contains("\r\n") { "\r\n" } else { "\n" };
    let mut document: DocumentMut = body.replace("\r\n", "\n").parse().map_err(|error| format!("it is not TOML: {error}"))?;
    let written = |document: &DocumentMut| document.to_string().replace('\n', line_end);
    let untouchable = || "it is written in a way that cannot be changed without touching other things".to_owned();
    if written(&document) != body {
        return Err(untouchable());
    }
    let mut wanted = said(document.as_table());
    let there = wanted.get(under).and_then(|servers| servers.get(name));
    let ours = merged(there, &said(entry.as_table()).into());
    if there == Some(&ours) {
        return Ok(None);
    }
    let servers = wanted.entry(under).or_insert_with(|| Map::new().into());
    servers.as_object_mut().ok_or_else(|| format!("`{under}` is no table"))?.insert(name.into(), ours);
    let after = match document.get_mut(under).and_then(Item::as_table_like_mut).and_then(|servers| servers.get_mut(name)) {
        Some(there) => {
            put(there.as_table_like_mut().ok_or_else(|| format!("`{under}.{name}` is no table"))?, entry.as_table());
            written(&document)
        }
        None => {
            let before = if body.trim().is_empty() { String::new() } else { format!("{}{line_end}{line_end}", body.trim_end()) };
            before + &table(under, name, lines).replace('\n', line_end)
        }
    };
    match after.parse::<DocumentMut>() {
        Ok(document) if said(document.as_table()) == wanted => Ok(Some(format!("{mark}{after}"))),
        _ => Err(untouchable()),
    }
}

/// Puts the entry's values into a table that is there, as [`merged`] does, and leaves the rest as it stands.
fn put(there: &mut dyn TableLike, entry: &Table) {
    let gone: Vec<String> = there.iter().map(|(key, _)| key.to_owned()).filter(|key| is_ours(key) && !entry.contains_key(key)).collect();
    for key in gone {
        there.remove(&key);
    }
    for (key, item) in entry {
        let Item::Value(new) = item else { continue };
        match there.get_mut(key) {
            Some(_) if !is_ours(key) => {}
            // A comment behind the value stays.
            Some(Item::Value(old)) => {
                let decor = old.decor().clone();
                *old = new.clone();
                *old.decor_mut() = decor;
            }
            _ => drop(there.insert(key, value(new.clone()))),
        }
    }
}

/// What a table says, to be compared.
fn said(table: &dyn TableLike) -> Map<String, Value> {
    table.iter().map(|(key, item)| (key.to_owned(), said_by(item))).collect()
}

fn said_by(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return said(table).into();
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| Value::from(said(table))).collect();
    }
    if let Some(values) = item.as_array() {
        return values.iter().map(|value| said_by(&Item::Value(value.clone()))).collect();
    }
    match item.as_value() {
        Some(toml_edit::Value::String(text)) => text.value().as_str().into(),
        // As it is written: a date is no text, and 1.0 not 1.
        Some(other) => Value::from(vec![Value::from(other.type_name()), Value::from(other.clone().decorated("", "").to_string())]),
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &str) -> Result<Option<String>, String> {
        set(text, "mcp_servers", "transom", "url = \"new\"\n")
    }

    #[test]
    fn a_table_is_put_at_the_end_and_stays_there() {
        let text = "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"a\"\n";
        let changed = put(text).unwrap().unwrap();
        assert_eq!(changed, format!("{text}\n[mcp_servers.transom]\nurl = \"new\"\n"));
        assert_eq!(put(&changed).unwrap(), None);
        assert_eq!(put("").unwrap().unwrap(), "[mcp_servers.transom]\nurl = \"new\"\n");
    }

    #[test]
    fn a_table_of_that_name_gets_new_values_and_keeps_its_comments_and_what_is_not_ours() {
        let text = "[mcp_servers.transom]\n# mine\nurl = \"old\" # here\nbearer_token_env_var = \"T\"\nenabled = false\n\n[mcp_servers.transom.env]\nA = \"1\"\n\n[tui]\na = 1\n";
        let expected =
            "[mcp_servers.transom]\n# mine\nurl = \"new\" # here\nenabled = false\n\n[mcp_servers.transom.env]\nA = \"1\"\n\n[tui]\na = 1\n";
        assert_eq!(put(text).unwrap().unwrap(), expected);
        assert_eq!(put(expected).unwrap(), None);
    }

    #[test]
    fn however_the_table_is_written_it_is_found() {
        for text in [
            "mcp_servers = { transom = { url = \"old\" } }\n",
            "mcp_servers.transom.url = \"old\"\n",
            "\"mcp_servers\".transom.url = \"old\"\n[tui]\na = 1\n",
            "[mcp_servers]\ntransom = { url = \"old\" }\n",
            "[mcp_servers.\"tr\\u0061nsom\"]\nurl = \"old\"\n",
            "[mcp_servers.transom] # ]\nurl = \"old\"\n",
            "[mcp_servers.transom]\ncommand = \"x\"\nargs = [\n  \"a\",\n]\n",
        ] {
            let changed = put(text).unwrap().unwrap();
            let document: DocumentMut = changed.parse().unwrap();
            assert_eq!(document["mcp_servers"]["transom"].as_table_like().unwrap().len(), 1, "{changed}");
            assert_eq!(document["mcp_servers"]["transom"]["url"].as_str(), Some("new"), "{changed}");
            assert_eq!(put(&changed).unwrap(), None, "{changed}");
        }
        assert!(put("[other.transom]\nmcp_servers_path = 1\n").unwrap().is_some());
        assert!(put("a = \"\"\"\n[mcp_servers.transom]\n\"\"\"\n").unwrap().unwrap().starts_with("a = \"\"\"\n[mcp_servers.transom]\n\"\"\"\n\n"));
    }

    #[test]
    fn the_mark_at_the_beginning_and_the_ends_of_lines_stay() {
        let text = "\u{feff}model = \"x\"\r\n\r\n[mcp_servers.transom]\r\nurl = \"old\"\r\n";
        assert_eq!(put(text).unwrap().unwrap(), text.replace("old", "new"));
        let changed = put("\u{feff}model = \"x\"\r\n").unwrap().unwrap();
        assert_eq!(changed, "\u{feff}model = \"x\"\r\n\r\n[mcp_servers.transom]\r\nurl = \"new\"\r\n");
    }

    #[test]
    fn what_is_no_toml_or_has_no_room_for_the_entry_is_refused() {
        for text in [
            "this is not toml\n",
            "{\"mcpServers\": {}}\n",
            "mcp_servers = 1\n",
            "[[mcp_servers]]\na = 1\n",
            "mcp_servers = { other = {} }\n",
            "[mcp_servers]\ntransom = 1\n",
            "[mcp_servers.transom]\n[mcp_servers.transom]\n",
            "a = 1\r\nb = 2\n",
            // Two spellings of one name.
            "[mcp_servers.\"transom\"]\nurl = \"old\"\n[mcp_servers.transom.env]\nA = \"1\"\n",
        ] {
            assert!(put(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_with_a_dot_is_quoted() {
        assert_eq!(table("mcp_servers", "a.b", "url = 1\n"), "[mcp_servers.\"a.b\"]\nurl = 1\n");
        let changed = set("", "mcp_servers", "a.b", "url = 1\n").unwrap().unwrap();
        assert_eq!(set(&changed, "mcp_servers", "a.b", "url = 1\n").unwrap(), None);
    }
}
