//! Secrets in the values of other programs' files, told by what they are called and by what they look like.
//!
//! Too much is better than too little: a variable that was not needed costs a line in the environment, a secret that was copied costs more.

use super::placeholders::screaming;
use std::ops::Range;

/// Words that say that a value is nobody's business, alone or at the end of a longer one, like `PGPASSWORD`.
const SECRET_WORDS: [&str; 13] =
    ["password", "passwd", "passphrase", "pass", "pwd", "token", "tokens", "secret", "secrets", "key", "keys", "credential", "credentials"];

/// More of them, which mean it only when they stand alone.
const SECRET_WORDS_ALONE: [&str; 18] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "creds",
    "pat",
    "dsn",
    "session",
    "sid",
    "jwt",
    "signature",
    "sig",
    "pin",
    "otp",
    "webhook",
    "mnemonic",
    "apikey",
];

/// Words that only end like those above.
const OTHER_WORDS: [&str; 9] = ["bypass", "compass", "monkey", "donkey", "turkey", "hotkey", "hotkeys", "whiskey", "hockey"];

/// Words after which a name speaks of something else than the secret itself.
const HARMLESS_ENDS: [&str; 28] = [
    "file",
    "path",
    "dir",
    "url",
    "uri",
    "endpoint",
    "host",
    "port",
    "type",
    "mode",
    "enabled",
    "name",
    "ttl",
    "timeout",
    "limit",
    "count",
    "size",
    "length",
    "algorithm",
    "issuer",
    "audience",
    "scope",
    "scopes",
    "provider",
    "method",
    "version",
    "region",
    "level",
];

/// How the tokens of well-known services begin.
const TOKEN_PREFIXES: [&str; 27] = [
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "SG.",
    "hf_",
    "ntn_",
    "lin_api_",
    "npm_",
    "pypi-",
    "dop_v1_",
    "shpat_",
];

/// Words in front of a token in a header.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "token ", "apikey "];

/// What a placeholder is while secrets are looked for, so that its own characters are not taken for any.
pub const HIDDEN: char = '\u{1}';

/// How often a value is taken apart: JSON in a flag in a command line is three.
const DEEPEST: usize = 5;

/// What a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A variable of a process; one of the same name is the best to take its place.
    Variable,
    /// A header. Few are there for anything else than to prove who is calling.
    Header,
    /// An argument; its name is the flag in front of it.
    Argument,
    /// A command, perhaps with its arguments.
    Command,
    /// Anything else.
    Other,
}

/// A part of a value that is nobody's business.
#[derive(Debug)]
pub struct Secret {
    /// Which part.
    pub at: Range<usize>,
    /// What the value itself calls it.
    pub name: Option<String>,
}

/// The parts of a value that are secrets, first to last; none overlaps another. Placeholders have to be [`HIDDEN`].
pub fn secrets_in(kind: Kind, name: &str, value: &str) -> Vec<Secret> {
    let mut search = Search { text: value, found: Vec::new(), depth: 0 };
    let whole = 0..value.len();
    match kind {
        Kind::Command => search.command_line(whole),
        Kind::Argument => search.argument(name, whole),
        Kind::Header => search.value(name, whole, true),
        Kind::Variable | Kind::Other => search.value(name, whole, false),
    }
    let mut found = search.found;
    found.sort_by_key(|secret| (secret.at.start, std::cmp::Reverse(secret.at.end)));
    let mut out: Vec<Secret> = Vec::new();
    for mut secret in found {
        if secret.name.as_deref() == Some(name) {
            secret.name = None;
        }
        match out.last_mut() {
            Some(last) if secret.at.start < last.at.end => last.at.end = last.at.end.max(secret.at.end),
            _ => out.push(secret),
        }
    }
    out
}

struct Search<'v> {
    text: &'v str,
    found: Vec<Secret>,
    depth: usize,
}

impl<'v> Search<'v> {
    fn add(&mut self, at: Range<usize>, name: &str) {
        if self.text[at.clone()].contains(|letter: char| letter.is_alphanumeric()) {
            self.found.push(Secret { at, name: (!name.is_empty()).then(|| name.to_owned()) });
        }
    }

    /// A value of this name.
    fn value(&mut self, name: &str, at: Range<usize>, is_header: bool) {
        let at = trimmed(self.text, at);
        let text = &self.text[at.clone()];
        if text.is_empty() || self.depth == DEEPEST {
            return;
        }
        self.depth += 1;
        self.judge(name, at, text, is_header);
        self.depth -= 1;
    }

    fn judge(&mut self, name: &str, at: Range<usize>, text: &'v str, is_header: bool) {
        let is_named = speaks_of_a_secret(name) && !is_harmless(name, text);
        if text.starts_with(['{', '[']) && text.contains('"') && !is_named {
            return self.json(name, at, is_header || screaming(name).contains("HEADER"));
        }
        if let Some(scheme) = SCHEMES.iter().find(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))) {
            let rest = at.start + scheme.len()..at.end;
            if is_named || is_header || *scheme == "bearer " || !is_plain(&self.text[rest.clone()]) {
                return self.add(rest, if speaks_of_a_secret(name) { name } else { "token" });
            }
        }
        let before = self.found.len();
        self.urls(at.clone());
        if is_named {
            // Of a URL its secret will do.
            let is_url = text.contains("://") && !text.contains(|letter: char| letter.is_whitespace() || matches!(letter, ',' | ';'));
            if !is_url || self.found.len() == before {
                self.add(at, name);
            }
            return;
        }
        let is_odd_header = is_header && !is_harmless_header(name) && !is_plain(text) && !text.contains("://");
        if is_odd_header || looks_like_a_token(text) {
            return self.add(at, name);
        }
        self.pairs(at.clone(), is_header);
        if text.contains(char::is_whitespace) {
            self.command_line(at.clone());
        }
        self.tokens(at);
    }

    /// `Server=a;Password=b`, `a=b,c=d`, `Name: value`
    fn pairs(&mut self, at: Range<usize>, is_header: bool) {
        let text = &self.text[at.clone()];
        let separator = [';', '\n', ','].into_iter().find(|separator| text.contains(*separator)).unwrap_or(';');
        // `TOKEN=a exec b` is a command line.
        let is_command_line = !text.contains(separator) && text.contains(char::is_whitespace) && text.find('=') < text.find(':').or(Some(text.len()));
        if is_command_line && text.contains('=') {
            return;
        }
        let mut start = at.start;
        for piece in text.split(separator) {
            let piece_at = trimmed(self.text, start..start + piece.len());
            if let Some((name, value)) = pair(self.text, piece_at) {
                self.value(name, value, is_header);
            }
            start += piece.len() + separator.len_utf8();
        }
    }

    /// Words as a shell takes them apart.
    fn command_line(&mut self, at: Range<usize>) {
        let mut flag = "";
        for word in words(self.text, at) {
            self.argument(flag, word.clone());
            flag = flag_of(&self.text[word]);
        }
    }

    /// An argument behind this flag.
    fn argument(&mut self, flag: &str, at: Range<usize>) {
        let text = &self.text[at.clone()];
        if let Some(bare) = text.strip_prefix('-') {
            return self.flag(bare.trim_start_matches('-'), !bare.starts_with('-'), at);
        }
        let is_plain = is_plain(text);
        match flag {
            "H" | "header" | "headers" => match pair(self.text, at.clone()) {
                Some((name, value)) => self.value(name, value, true),
                None => self.value(flag, at, true),
            },
            "k" if !text.contains('/') && !is_number(text) => self.add(at, "key"),
            "t" | "p" | "P" | "a" | "s" | "w" if !is_plain && !text.contains(['/', ':', '=', '\\']) => {
                self.add(at, if flag == "t" { "token" } else { "password" });
            }
            "u" | "user" if text.contains(':') && !text.contains("://") => {
                let password = at.start + text.find(':').unwrap_or_default() + 1;
                self.add(password..at.end, "password");
            }
            _ => self.value(flag, at, false),
        }
    }

    /// `--api-key=…`, `-p…`
    fn flag(&mut self, bare: &str, is_short: bool, at: Range<usize>) {
        let start = at.end - bare.len();
        if let Some((name, value)) = bare.split_once('=') {
            return self.value(name, at.end - value.len()..at.end, matches!(name, "header" | "headers"));
        }
        let named = match bare.chars().next() {
            Some('p') => "password",
            Some('k') => "key",
            Some('t') => "token",
            Some('H') => "header",
            _ => return self.tokens(at),
        };
        let rest = start + 1..at.end;
        let glued = &self.text[rest.clone()];
        if named == "header" && is_short && glued.contains(':') {
            self.argument("header", rest);
        } else if named != "header" && is_short && glued.len() >= 4 && !is_plain(glued) && !glued.contains([':', '/']) {
            self.add(rest, named);
        } else {
            self.tokens(at);
        }
    }

    /// Members of JSON, by their own names and those of what they stand in.
    fn json(&mut self, name: &str, at: Range<usize>, is_header: bool) {
        let text = self.text;
        let (mut key, mut above): (&str, Vec<&str>) = ("", vec![name]);
        let mut start = at.start;
        while start < at.end {
            let rest = &text[start..at.end];
            let Some(letter) = rest.chars().next() else { break };
            let mut length = letter.len_utf8();
            match letter {
                '"' => {
                    let inside = start + 1..start + 1 + quoted(&rest[1..]);
                    length = (inside.end + 1).min(at.end) - start;
                    if text[start + length..at.end].trim_start().starts_with(':') {
                        key = &text[inside];
                    } else {
                        self.member(key, &above, inside, is_header);
                    }
                }
                '{' | '[' => above.push(key),
                '}' | ']' => {
                    above.pop();
                }
                _ if letter.is_ascii_digit() => {
                    length = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '.' | '+' | '-')).unwrap_or(rest.len());
                    if speaks_of_a_secret(key) && !is_harmless(key, &rest[..length]) {
                        self.add(start..start + length, key);
                    }
                }
                _ => {}
            }
            start += length;
        }
    }

    fn member(&mut self, key: &str, above: &[&str], at: Range<usize>, is_header: bool) {
        let nearest = above.iter().rev().copied().find(|name| !name.is_empty()).unwrap_or_default();
        let own = if key.is_empty() { nearest } else { key };
        let is_secret = above.iter().any(|name| speaks_of_a_secret(name)) && !is_harmless(own, &self.text[at.clone()]);
        let is_scheme = SCHEMES.iter().any(|scheme| self.text[at.clone()].to_ascii_lowercase().starts_with(scheme));
        if is_secret && !is_scheme { self.add(at, own) } else { self.value(own, at, is_header) }
    }

    /// User, password, path, query and fragment of every URL.
    fn urls(&mut self, at: Range<usize>) {
        let mut from = at.start;
        while let Some(found) = self.text[from..at.end].find("://") {
            from += found + 3;
            let is_end = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '<' | '>');
            let rest = &self.text[from..at.end];
            let rest = &rest[..rest.find("://").unwrap_or(rest.len())];
            self.url(from..from + rest.find(is_end).unwrap_or(rest.len()));
        }
    }

    fn url(&mut self, at: Range<usize>) {
        let text = &self.text[at.clone()];
        let mut length = text.find(['/', '?', '#', ';', '&']).unwrap_or(text.len());
        // A password may have a `/` that should have been escaped; behind a `:` there is a port otherwise.
        let has_odd_port = text[..length].split_once(':').is_some_and(|(_, port)| !is_number(port) && !port.contains([HIDDEN, ']']));
        if let (false, true, Some(sign)) = (text[..length].contains('@'), has_odd_port, text.rfind('@')) {
            length = sign + text[sign..].find(['/', '?', '#', '&']).unwrap_or(text.len() - sign);
        }
        if let Some((user, _)) = text[..length].rsplit_once('@') {
            match user.split_once(':') {
                Some((name, _)) => {
                    self.add(at.start + name.len() + 1..at.start + user.len(), "password");
                    if looks_like_a_token(name) {
                        self.add(at.start..at.start + name.len(), "user");
                    }
                }
                None if !is_plain(user) => self.add(at.start..at.start + user.len(), "token"),
                None => {}
            }
        }
        let host = &text[..length];
        let path_length = text[length..].find(['?', '#', '&', ';']).unwrap_or(text.len() - length);
        self.path(at.start + length..at.start + length + path_length, host.starts_with("hooks."));
        let mut start = at.start + length + path_length;
        for piece in self.text[start..at.end].split(['?', '#', '&', ';']) {
            if let Some((name, value)) = piece.split_once('=') {
                let value_at = start + name.len() + 1..start + piece.len();
                let is_named = speaks_of_a_secret(name) && !is_harmless(name, value) || matches!(name, "code" | "k") && !is_plain(value);
                if is_named || looks_like_a_token(value) || looks_random(value) {
                    self.add(value_at, name);
                }
            }
            start += piece.len() + 1;
        }
    }

    /// Whoever knows such a URL may use it: `/s/TOKEN/mcp`, `/services/T0/B0/TOKEN`.
    fn path(&mut self, at: Range<usize>, is_hook: bool) {
        let text = &self.text[at.clone()];
        let is_hook = is_hook || text.contains("/webhooks/") || text.contains("/hooks/");
        let mut start = at.start;
        for segment in text.split('/') {
            let segment_at = start..start + segment.len();
            let is_last = segment_at.end == at.end;
            if looks_like_a_token(segment) || looks_random(segment) || is_hook && is_last && segment.len() >= 6 {
                self.add(segment_at, "token");
            }
            start += segment.len() + 1;
        }
    }

    /// Tokens of well-known services, and what follows `Bearer`, wherever they stand.
    fn tokens(&mut self, at: Range<usize>) {
        let text = &self.text[at.clone()];
        let mut start = at.start;
        let mut is_after_bearer = false;
        for word in text.split(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '-' | '.')) {
            if has_token_prefix(word) || is_after_bearer && !is_plain(word) {
                self.add(start..start + word.len(), "token");
            }
            is_after_bearer = word.eq_ignore_ascii_case("bearer");
            start += word.len();
            start += self.text[start..].chars().next().map_or(0, char::len_utf8);
        }
    }
}

/// The flag that the next argument belongs to. `--flag=value` has its value already.
pub fn flag_of(argument: &str) -> &str {
    match argument.strip_prefix('-') {
        Some(bare) if !argument.contains('=') => bare.trim_start_matches('-'),
        _ => "",
    }
}

fn trimmed(text: &str, at: Range<usize>) -> Range<usize> {
    let part = &text[at.clone()];
    let start = at.start + part.len() - part.trim_start().len();
    start..start + part.trim().len()
}

/// `name=value` or `name: value`
fn pair(text: &str, at: Range<usize>) -> Option<(&str, Range<usize>)> {
    let part = &text[at.clone()];
    let sign = part.find(['=', ':'])?;
    let name = part[..sign].trim_end();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' '));
    is_name.then(|| (name, trimmed(text, at.start + sign + 1..at.end)))
}

/// The words of a command line, without their quotes.
fn words(text: &str, at: Range<usize>) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut start = at.start;
    while start < at.end {
        let rest = &text[start..at.end];
        let Some(first) = rest.chars().next() else { break };
        if first.is_whitespace() {
            start += first.len_utf8();
        } else if let '"' | '\'' = first {
            let length = rest[1..].find(first).unwrap_or(rest.len() - 1);
            out.push(start + 1..start + 1 + length);
            start += length + 2;
        } else {
            let mut quote = None;
            let ends = |letter: char| match quote {
                Some(open) => {
                    if letter == open {
                        quote = None;
                    }
                    false
                }
                None => {
                    quote = matches!(letter, '"' | '\'').then_some(letter);
                    letter.is_whitespace()
                }
            };
            let length = rest.find(ends).unwrap_or(rest.len());
            out.push(start..start + length);
            start += length;
        }
    }
    out
}

/// How long the inside of a JSON string is.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    text.find(|letter: char| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends
    })
    .unwrap_or(text.len())
}

/// Switches and numbers, which say nothing to whoever reads them.
pub fn is_switch(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "none" | "oauth" | "0" | "1")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a value cannot be the secret that its name speaks of.
fn is_harmless(name: &str, value: &str) -> bool {
    let screamed = screaming(name);
    // `MAX_TOKENS: 4096`
    let is_amount = is_number(value) && (screamed.ends_with("TOKENS") || screamed.ends_with("KEYS") || screamed.starts_with("MAX"));
    is_switch(value) || is_amount || screamed.ends_with("PWD") && value.starts_with('/')
}

/// Whether a value of this name is nobody's business.
pub fn speaks_of_a_secret(name: &str) -> bool {
    let screamed = screaming(name).to_ascii_lowercase();
    let says_so = |word: &str| {
        let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        SECRET_WORDS_ALONE.contains(&word) || !OTHER_WORDS.contains(&word) && SECRET_WORDS.iter().any(|secret| word.ends_with(secret))
    };
    let last = screamed.rsplit('_').next().unwrap_or_default();
    // Whoever knows the URL of a webhook may use it.
    let ends_well = HARMLESS_ENDS.contains(&last) && !(last == "url" && screamed.contains("webhook"));
    !ends_well && screamed.split('_').any(says_so)
}

fn is_harmless_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_known = ["user-agent", "host", "origin", "referer", "cache-control", "connection", "date", "prefer"].contains(&name.as_str());
    is_known || name.starts_with("accept") || name.starts_with("content-") || name.ends_with("version")
}

/// A word of a language, a number, a date, a list of such: nothing that anybody would have to guess.
fn is_plain(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    !has(u8::is_ascii_uppercase) && (!has(u8::is_ascii_digit) || !has(u8::is_ascii_lowercase) || text.len() <= 6)
}

fn has_token_prefix(word: &str) -> bool {
    TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix) && (word.len() >= 16 || prefix.len() > 3 && word.len() >= prefix.len() + 6))
}

fn looks_like_a_token(value: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'=');
    if !value.bytes().all(is_word) {
        return false;
    }
    if has_token_prefix(value) || value.starts_with("eyJ") && value.matches('.').count() == 2 {
        return true;
    }
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    value.len() >= 32 && !value.contains('.') && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && entropy(value) > 3.5
}

/// Part of a URL that nobody would type: it changes between digits, small and capital letters all the time.
fn looks_random(segment: &str) -> bool {
    let class = |byte: u8| match byte {
        b'0'..=b'9' => Some(0),
        b'a'..=b'z' => Some(1),
        b'A'..=b'Z' => Some(2),
        _ => None,
    };
    let classes: Vec<i32> = segment.bytes().filter_map(class).collect();
    let changes = classes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    segment.len() >= 16 && !segment.contains('.') && classes.contains(&0) && changes >= 4
}

/// Bits a character.
fn entropy(value: &str) -> f64 {
    let mut counts = [0u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = value.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: Kind, name: &str, value: &str) -> Vec<String> {
        secrets_in(kind, name, value).into_iter().map(|secret| value[secret.at].to_owned()).collect()
    }

    #[test]
    fn secrets_are_told_by_their_names_and_by_their_looks() {
        for (name, value, secrets) in [
            ("GITHUB_TOKEN", "abc", "abc"),
            ("githubToken", "abc", "abc"),
            ("X-Api-Key", "abc", "abc"),
            ("PGPASSWORD", "abc", "abc"),
            ("DB_PASS", "abc", "abc"),
            ("TOKEN2", "abc", "abc"),
            ("AUTH_HEADER", "abc", "abc"),
            ("Authorization", "Bearer abc", "abc"),
            ("ANYTHING", "ghp_0123456789abcdefghij", "ghp_0123456789abcdefghij"),
            ("ANYTHING", "use ghp_0123456789abcdefghij here", "ghp_0123456789abcdefghij"),
            ("ID", "9f8e7d6c5b4a39281706f5e4d3c2b1a0zz", "9f8e7d6c5b4a39281706f5e4d3c2b1a0zz"),
            ("DATABASE_URL", "postgres://me:pw@db/x", "pw"),
            ("DATABASE_URL", "postgres://me:p/w@x@db/x", "p/w@x"),
            ("url", "https://h/mcp?a=1&api_key=xyz&secret=uvw#access_token=rst", "xyz uvw rst"),
            ("url", "https://me:pw@h/mcp?token=xyz", "pw xyz"),
            ("url", "https://h/?next=http://me:pw@h&token=xyz", "pw xyz"),
            ("url", "https://ghp_0123456789abcdef@github.com/x", "ghp_0123456789abcdef"),
            ("SENTRY_DSN", "https://Ab1@sentry.io/1", "Ab1"),
            ("url", "https://mcp.zapier.com/api/mcp/s/OGZiMDQx14MjktNDY3OC04YWM0LWRmZjE/mcp", "OGZiMDQx14MjktNDY3OC04YWM0LWRmZjE"),
            ("url", "https://hooks.slack.com/services/T0/B0/abcdef", "abcdef"),
            ("SLACK_WEBHOOK_URL", "https://chat.example/x", "https://chat.example/x"),
            ("CONNECTION", "Server=a;User=b;Password=c d;", "c d"),
            ("CONNECTION", "host=a password=c user=b", "c"),
            ("CONNECTION", "Endpoint=sb://a/;SharedAccessKey=ab12==", "ab12=="),
            ("OTLP_HEADERS", "api-key=abc,team=x", "abc"),
            ("HEADERS", r#"{"Authorization": "Bearer a\"b", "Notion-Version": "2022-06-28"}"#, r#"a\"b"#),
            ("CONFIG", r#"{"db": {"pin": 1234, "credentials": {"a": "x", "b": ["y"]}}, "port": 80}"#, "1234 x y"),
            ("JAVA_OPTS", "-Xmx1g -Dpassword=abc", "abc"),
            ("TOKEN_FILE", "/run/secrets/token", ""),
            ("AUTH_MODE", "oauth2", ""),
            ("USE_AUTH", "true", ""),
            ("LOG_LEVEL", "debug", ""),
            ("MAX_TOKENS", "4096", ""),
            ("TOKENIZER", "cl100k", ""),
            ("BYPASS", "localhost", ""),
            ("AUTHOR", "Ann", ""),
            ("PWD", "/home/me", ""),
            ("url", "https://user@h/mcp", ""),
            ("url", "https://h:8080/api/v2/modelcontextprotocol2025/azure-devops-server-v2-preview", ""),
            ("package", "@modelcontextprotocol/server-everything", ""),
            ("KEYBOARD_LAYOUT", "qwerty", ""),
        ] {
            assert_eq!(found(Kind::Other, name, value).join(" "), secrets, "{name}={value}");
        }
    }

    #[test]
    fn few_headers_are_there_for_anything_else_than_to_prove_who_is_calling() {
        for (name, value, secrets) in [
            ("X-Session", "Abc1", "Abc1"),
            ("x-goog-thing", "Abc1", "Abc1"),
            ("Cookie", "sid=abc", "sid=abc"),
            ("X-Team", "platform", ""),
            ("X-MCP-Readonly", "true", ""),
            ("Notion-Version", "2022-06-28", ""),
            ("User-Agent", "Mozilla/5.0", ""),
            ("Accept", "application/json;q=0.9", ""),
        ] {
            assert_eq!(found(Kind::Header, name, value).join(" "), secrets, "{name}: {value}");
        }
    }

    #[test]
    fn arguments_and_command_lines_are_read_as_names_and_values() {
        for (line, secrets) in [
            ("mcp-remote https://x/sse --header \"Authorization: Bearer abc\"", "abc"),
            ("curl -H 'X-Api-Key: abc' -u me:pw https://x", "abc pw"),
            ("docker run -i -e API_KEY=abc -e GITHUB_TOKEN -p 8080:80 -t img:1", "abc"),
            ("x -k abc --password def -pGh1jkl --api-key=mno", "abc def Gh1jkl mno"),
            ("TOKEN=abc exec node server.js", "abc"),
            ("x token:abc --headers={\"k\":\"Abc1\"}", "abc Abc1"),
            ("sh -c \"TOKEN=abc exec x --key def\"", "abc def"),
            ("npx -y @x/y --port 80 -port 8080 -p 80 --units metric", ""),
        ] {
            assert_eq!(found(Kind::Command, "cmd", line).join(" "), secrets, "{line}");
        }
    }

    #[test]
    fn what_is_nested_without_end_is_looked_at_for_a_while_only() {
        for text in ["a:".repeat(100_000), "\"".repeat(100_000), "a=b ".repeat(50_000), "{\"a\":[".repeat(50_000), "://".repeat(100_000)] {
            secrets_in(Kind::Argument, "", &text);
        }
    }
}
