//! Connecting other people's MCP clients: what goes into their config, and where that is.
//!
//! What clients want is data, in [`table`]. How an entry gets into a file without touching anything else of it is the business of [`jsonc`] and [`toml`],
//! which only know text, and [`file`], which only knows files.

pub mod file;
mod jsonc;
mod table;
mod toml;

use crate::failure::{Exit, Failure};
use crate::terminal::shell_quoted;
use serde_json::{Map, Value};
use std::path::PathBuf;
use table::Format;
pub use table::{CLIENTS, Client};

/// What a client is to be told.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The URL of the gateway's MCP endpoint.
    pub url: String,
    /// What the client calls it.
    pub name: String,
    /// The environment variable that holds a token.
    pub token_env: Option<String>,
    /// Through a process of ours instead of HTTP.
    pub stdio: bool,
    /// Our own program.
    pub program: String,
}

/// What to tell a client.
#[derive(Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The text as it is shown: a piece of its config, or a command.
    pub text: String,
    /// What stands in the file by itself.
    entry: String,
    /// Whether the client talks to a process of ours.
    pub is_stdio: bool,
}

/// The client of this name.
pub fn client(name: &str) -> Result<&'static Client, Failure> {
    if let Some(client) = CLIENTS.iter().find(|client| client.name == name) {
        return Ok(client);
    }
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    let nearest = names.iter().map(|other| (strsim::jaro_winkler(name, other), *other)).max_by(|a, b| a.0.total_cmp(&b.0));
    let known = format!("known are {}", names.join(", "));
    let hint = match nearest.filter(|(nearness, _)| *nearness > 0.75) {
        Some((_, other)) => format!("did you mean `{other}`? {known}"),
        None => known,
    };
    Err(Failure::new(Exit::Unexpected, format!("no client `{}` is known", crate::terminal::harmless(name))).hint(hint))
}

impl Client {
    /// What this client is to be told.
    pub fn snippet(&self, wish: &Wish) -> Result<Snippet, Failure> {
        let over_http = match (&wish.token_env, wish.stdio) {
            (_, true) => None,
            (None, false) => self.http,
            // A client that cannot read a variable gets a process of ours, which can.
            (Some(_), false) => self.http_with_token,
        };
        let Some(template) = over_http.or(self.stdio) else {
            return Err(
                Failure::new(Exit::Unexpected, format!("{} cannot be told that way", self.title)).hint("leave out `--stdio` and `--token-env`")
            );
        };
        let is_stdio = over_http.is_none();
        let entry = self.filled(template, wish);
        let text = match self.format {
            Format::Json { under } => jsonc::document(under, &wish.name, &jsonc::value(&entry).map_err(broken)?),
            Format::Toml { under } => toml::table(under, &wish.name, &entry),
            Format::Whole | Format::Shown => entry.clone(),
        };
        Ok(Snippet { text, entry, is_stdio })
    }

    /// The file with this client's config, if there is one.
    pub fn path(&self, wish: &Wish) -> Result<Option<PathBuf>, Failure> {
        let written = match std::env::consts::OS {
            "macos" => self.macos,
            "windows" => self.windows,
            _ => self.linux,
        };
        if written.is_empty() { Ok(None) } else { file::expanded(&written.replace("@name", &wish.name)).map(Some) }
    }

    /// The text of its file with the entry in it; `None` if it is there already.
    pub fn changed(&self, text: &str, wish: &Wish, snippet: &Snippet) -> Result<Option<String>, String> {
        match self.format {
            Format::Json { under } => jsonc::set(text, under, &wish.name, &jsonc::value(&snippet.entry)?),
            Format::Toml { under } => toml::set(text, under, &wish.name, &snippet.entry),
            Format::Whole => Ok((text != snippet.text).then(|| snippet.text.clone())),
            Format::Shown => Err("it has to be done by hand".into()),
        }
    }

    /// Whether we can change its file.
    pub fn is_writable(&self) -> bool {
        !matches!(self.format, Format::Shown)
    }

    /// A template with everything filled in. What is quoted as JSON is quoted in TOML and YAML too.
    fn filled(&self, template: &str, wish: &Wish) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut args = vec!["stdio", "--url", &wish.url];
        args.extend(wish.token_env.iter().flat_map(|name| ["--token-env", name.as_str()]));
        let args: Vec<String> = args.into_iter().map(quoted).collect();
        let places = [
            ("args", format!("[{}]", args.join(", "))),
            ("command", quoted(&wish.program)),
            ("shell_url", shell_quoted(&wish.url)),
            ("name", quoted(&wish.name)),
            ("token", wish.token_env.clone().unwrap_or_default()),
            ("url", quoted(&wish.url)),
        ];
        // In one pass: what is filled in may look like a place itself.
        let (mut filled, mut rest) = (String::new(), template);
        while let Some((before, after)) = rest.split_once('@') {
            filled.push_str(before);
            match places.iter().find_map(|(place, text)| Some((text.as_str(), after.strip_prefix(*place)?))) {
                Some((text, after)) => {
                    filled.push_str(text);
                    rest = after;
                }
                None => {
                    filled.push('@');
                    rest = after;
                }
            }
        }
        filled + rest
    }
}

/// What an entry says about how to reach a server. All else in it is its owner's: whether it is in use, how long it may take.
const OURS: &[&str] = &[
    "type",
    "transport",
    "url",
    "serverUrl",
    "httpUrl",
    "uri",
    "command",
    "args",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token",
    "bearer_token_env_var",
];

fn is_ours(key: &str) -> bool {
    OURS.contains(&key)
}

/// An entry in place of the one that is there: how to reach the server is as we say, and what else its owner said stays.
fn merged(there: Option<&Value>, entry: &Value) -> Value {
    let (Some(Value::Object(there)), Value::Object(entry)) = (there, entry) else { return entry.clone() };
    let mut merged: Map<String, Value> = there.iter().filter(|(key, _)| !is_ours(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    for (key, value) in entry {
        if is_ours(key) || !merged.contains_key(key) {
            merged.insert(key.clone(), value.clone());
        }
    }
    merged.into()
}

fn broken(why: String) -> Failure {
    Failure::new(Exit::Unexpected, format!("the entry makes no sense: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish {
        let (url, name) = ("http://127.0.0.1:3000/mcp".into(), "transom".into());
        Wish { url, name, token_env: None, stdio: false, program: "/opt/my \"tools\"/transom".into() }
    }

    fn wishes() -> [Wish; 4] {
        let token_env = Some("GATEWAY_TOKEN".to_owned());
        [wish(), Wish { stdio: true, ..wish() }, Wish { token_env: token_env.clone(), ..wish() }, Wish { token_env, stdio: true, ..wish() }]
    }

    #[test]
    fn every_client_gets_an_entry_that_leads_to_the_gateway_and_holds_no_placeholder() {
        for client in CLIENTS {
            for wish in wishes() {
                if wish.stdio && client.stdio.is_none() {
                    continue;
                }
                let snippet = client.snippet(&wish).unwrap();
                assert!(snippet.text.contains(&wish.url), "{}: {}", client.name, snippet.text);
                for placeholder in ["@url", "@args", "@command", "@token", "@name"] {
                    assert!(!snippet.text.contains(placeholder), "{}: {}", client.name, snippet.text);
                }
                assert_eq!(wish.token_env.is_some(), snippet.text.contains("GATEWAY_TOKEN"), "{}: {}", client.name, snippet.text);
                assert!(!wish.stdio || snippet.is_stdio, "{}", client.name);
            }
        }
    }

    #[test]
    fn a_command_to_run_is_quoted_for_the_shell() {
        let wish = Wish { url: "http://h/mcp?a=$(id)".into(), ..wish() };
        let text = client("inspector").unwrap().snippet(&wish).unwrap().text;
        assert!(text.contains(" --server-url 'http://h/mcp?a=$(id)' "), "{text}");
    }

    #[test]
    fn what_the_owner_of_an_entry_said_stays() {
        let there = serde_json::json!({"command": "old", "args": [], "disabled": true, "timeout": 5});
        let entry = serde_json::json!({"url": "new", "disabled": false, "tools": ["*"]});
        assert_eq!(merged(Some(&there), &entry), serde_json::json!({"url": "new", "disabled": true, "timeout": 5, "tools": ["*"]}));
        assert_eq!(merged(Some(&Value::Null), &entry), entry);
        assert_eq!(merged(None, &entry), entry);
    }

    #[test]
    fn names_are_in_order_and_once() {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn every_file_that_we_write_gets_the_entry_once_and_stays_as_it_is_the_second_time() {
        for client in CLIENTS.iter().filter(|client| client.is_writable()) {
            for wish in wishes() {
                let Ok(snippet) = client.snippet(&wish) else { continue };
                let first = client.changed("", &wish, &snippet).unwrap().unwrap();
                assert_eq!(client.changed(&first, &wish, &snippet).unwrap(), None, "{}: {first}", client.name);
                let elsewhere = Wish { url: "http://127.0.0.1:4000/mcp".into(), ..wish.clone() };
                let snippet = client.snippet(&elsewhere).unwrap();
                let second = client.changed(&first, &elsewhere, &snippet).unwrap().unwrap();
                assert!(second.contains(":4000/mcp") && !second.contains(":3000/mcp"), "{}: {second}", client.name);
            }
        }
    }

    #[test]
    fn clients_that_speak_http_are_sent_to_the_url_and_the_others_to_us() {
        let entry = |name: &str, wish: &Wish| -> Value { serde_json::from_str(&client(name).unwrap().snippet(wish).unwrap().text).unwrap() };
        assert_eq!(entry("cursor", &wish())["mcpServers"]["transom"]["url"], "http://127.0.0.1:3000/mcp");
        assert_eq!(entry("vscode", &wish())["servers"]["transom"]["type"], "http");
        let desktop = &entry("claude-desktop", &wish())["mcpServers"]["transom"];
        assert_eq!(desktop["command"], "/opt/my \"tools\"/transom");
        assert_eq!(desktop["args"], serde_json::json!(["stdio", "--url", "http://127.0.0.1:3000/mcp"]));
        let [_, _, token, _] = wishes();
        assert_eq!(entry("claude-code", &token)["mcpServers"]["transom"]["headers"]["Authorization"], "Bearer ${GATEWAY_TOKEN}");
        assert_eq!(entry("cursor", &token)["mcpServers"]["transom"]["headers"]["Authorization"], "Bearer ${env:GATEWAY_TOKEN}");
        assert_eq!(entry("zed", &token)["context_servers"]["transom"]["args"][4], "GATEWAY_TOKEN", "it reads no variables, we do");
    }

    #[test]
    fn an_unknown_client_comes_with_the_nearest_and_all_names() {
        let failure = client("cursr").unwrap_err();
        assert_eq!(failure.exit, Exit::Unexpected);
        assert!(failure.to_string().contains("did you mean `cursor`?") && failure.to_string().contains("zed"), "{failure}");
        assert!(!client("qqqq").unwrap_err().to_string().contains("did you mean"));
    }
}
