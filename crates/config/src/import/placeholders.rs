//! Placeholders in the values of other programs' files, and the variables that take their place.

use std::ops::Range;

/// What a placeholder of another program means here.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning<'t> {
    /// These characters.
    Text(&'static str),
    /// A variable, and what it is where it is not set.
    Variable { name: &'t str, default: Option<&'t str> },
    /// Something that a variable has to stand in for.
    Odd { written: String, variable: String },
}

/// Where the placeholders of editors, desktop clients and agentgateway are: `${NAME}`, `${env:NAME}`, `${input:id}`, `${workspaceFolder}`.
pub fn placeholders(text: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find("${").map(|found| at + found) {
        let Some(length) = closed(&text[start..]) else { break };
        out.push(start..start + length);
        at = start + length;
    }
    out
}

/// How long a placeholder is; one in another's default counts as part of it.
fn closed(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' if text[..at].ends_with('$') => open += 1,
            '}' => {
                open -= 1;
                if open == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// What a placeholder means, braces and all.
pub fn meaning(placeholder: &str) -> Meaning<'_> {
    let body = placeholder.strip_prefix("${").and_then(|inside| inside.strip_suffix('}')).unwrap_or(placeholder);
    let name = body.strip_prefix("env:").unwrap_or(body);
    let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(name.len());
    let (plain, more) = name.split_at(end);
    let is_variable = plain.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic());
    match (body, more) {
        ("userHome", _) => Meaning::Variable { name: "HOME", default: None },
        ("pathSeparator" | "/", _) => Meaning::Text("/"),
        (_, "") if is_variable && !is_of_editors(plain) => Meaning::Variable { name: plain, default: None },
        (_, more) if is_variable && more.starts_with(":-") => Meaning::Variable { name: plain, default: Some(&more[2..]) },
        // Other words of shells; what stands behind them may be anything.
        (_, more) if is_variable && [":=", ":?", ":+", "-", "=", "?", "+"].iter().any(|word| more.starts_with(word)) => {
            Meaning::Odd { written: format!("${{{plain}…}}"), variable: plain.to_owned() }
        }
        _ => {
            let body = body.split_once(":-").map_or(body, |(before, _)| before);
            let variable = match body.split_once(':') {
                Some(("input" | "env" | "command" | "config", id)) => screaming(id),
                _ if body.starts_with("workspaceFolder") => "WORKSPACE_FOLDER".to_owned(),
                _ => screaming(body),
            };
            Meaning::Odd { written: format!("${{{body}}}"), variable }
        }
    }
}

/// Names that editors fill in and no environment has.
fn is_of_editors(name: &str) -> bool {
    matches!(name, "workspaceFolder" | "workspaceFolderBasename" | "workspaceRoot" | "cwd" | "file" | "fileDirname")
}

/// What is no placeholder, so that it is none of ours either.
pub fn literal(text: &str) -> String {
    text.replace("${", "$${").replace("$<", "$$<")
}

/// A text as the name of a variable.
pub fn screaming(text: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            if letter.is_ascii_uppercase() && before.is_ascii_lowercase() {
                out.push('_');
            }
            out.push(letter.to_ascii_uppercase());
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        before = letter;
    }
    let out = out.trim_matches('_');
    match out.chars().next() {
        None => "VALUE".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{out}"),
        Some(_) => out.to_owned(),
    }
}

/// The variables that a config reads.
#[derive(Default)]
pub struct Variables {
    /// Each with the secret it stands for, if it does.
    known: Vec<(String, Option<String>)>,
}

impl Variables {
    /// Whether there is such a variable.
    pub fn has(&self, name: &str) -> bool {
        self.known.iter().any(|(known, _)| known == name)
    }

    /// A variable of this name.
    pub fn named(&mut self, name: &str) -> String {
        if !self.known.iter().any(|(known, _)| known == name) {
            self.known.push((name.to_owned(), None));
        }
        name.to_owned()
    }

    /// A variable for a secret: the same for the same secret, another for another.
    pub fn standing_for(&mut self, wanted: &str, secret: &str) -> String {
        if let Some((name, _)) = self.known.iter().find(|(_, known)| known.as_deref() == Some(secret)) {
            return name.clone();
        }
        let mut name = wanted.to_owned();
        let mut number = 2;
        while self.known.iter().any(|(known, _)| *known == name) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        self.known.push((name.clone(), Some(secret.to_owned())));
        name
    }

    /// All of them, in the order in which they were met; what every process has is not worth a word.
    pub fn names(&self) -> Vec<String> {
        self.known.iter().map(|(name, _)| name.clone()).filter(|name| !matches!(name.as_str(), "HOME" | "PATH")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_ends_where_its_own_brace_does() {
        for (text, found) in [("a ${B} ${C:-d}", vec!["${B}", "${C:-d}"]), ("${A:-${B:-c}}/d", vec!["${A:-${B:-c}}"]), ("$5 ${open", vec![])] {
            assert_eq!(placeholders(text).into_iter().map(|at| &text[at]).collect::<Vec<_>>(), found, "{text}");
        }
    }

    #[test]
    fn a_secret_has_one_variable_and_a_variable_one_secret() {
        let mut variables = Variables::default();
        assert_eq!(variables.standing_for("TOKEN", "a"), "TOKEN");
        assert_eq!(variables.standing_for("TOKEN", "b"), "TOKEN_2");
        assert_eq!(variables.standing_for("OTHER", "a"), "TOKEN");
        assert_eq!(variables.names(), ["TOKEN", "TOKEN_2"]);
    }

    #[test]
    fn names_become_variables() {
        for (name, variable) in [("github-token", "GITHUB_TOKEN"), ("apiKey", "API_KEY"), ("2fa", "_2FA"), ("日本", "VALUE"), ("API_KEY", "API_KEY")]
        {
            assert_eq!(screaming(name), variable);
        }
    }
}
