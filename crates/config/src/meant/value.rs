//! Single values: texts with their variables replaced, durations, paths, files.

use super::Meaning;
use super::secrecy::{EVERYBODY_KNOWS, is_secret, password_of};
use crate::duration;
use crate::file::Text;
use crate::problem::Problem;
use crate::size;
use crate::written::{Place, Written};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use transom_registry::template::{self, Fault};

/// A text after its variables were replaced. Messages use what was written.
pub(super) struct Resolved<'a> {
    pub(super) text: String,
    /// Whether a variable took part, so that the text itself must not be shown.
    pub(super) secret: bool,
    /// The values in it that are secrets by themselves.
    pub(super) values: Vec<String>,
    pub(super) written: &'a str,
    pub(super) place: Place,
}

impl Meaning<'_> {
    /// A text with its variables replaced.
    pub(super) fn text<'w>(&self, written: &'w Written<Text>) -> Option<Resolved<'w>> {
        let (Text(text), place) = written.get()?;
        match template::expand(text, &self.beside(place)) {
            Ok(expanded) => {
                for at in expanded.unclosed {
                    let problem = Problem::warning(self.inside(place, text, &at), "this placeholder is never closed and stays as it is");
                    self.note(problem.label("no closing bracket").help("close it, or write `$${` to mean the characters themselves"));
                }
                let told = |(name, _): &(String, String)| EVERYBODY_KNOWS.contains(&name.as_str());
                let secret = expanded.secret && (expanded.read.is_empty() || !expanded.read.iter().all(told));
                let parts = expanded.read.into_iter().filter(|(name, value)| is_secret(name, value)).map(|(_, value)| value);
                let values = parts.chain(password_of(&expanded.text).map(str::to_owned)).collect();
                Some(Resolved { text: expanded.text, secret, values, written: text, place })
            }
            Err(faults) => {
                for bad in faults {
                    let problem = Problem::error(self.inside(place, text, &bad.at), bad.fault.to_string());
                    self.note(match bad.fault {
                        Fault::Empty | Fault::BadName(_) => problem
                            .label("not a placeholder")
                            .help("write `${NAME}`, `${NAME:-default}` or `${file:/path}`; `$${` means the characters `${`"),
                        Fault::Unset(name) => {
                            problem.label("has no value").help(format!("set `{name}` in the environment, or give it a default: `${{{name}:-value}}`"))
                        }
                        Fault::Required { name, .. } => problem.label("has no value").help(format!("set `{name}` in the environment")),
                        Fault::File { .. } => problem.label("cannot be read"),
                    });
                }
                None
            }
        }
    }

    /// The place of a part of a text, if the file spells the text as it is; else the place of the whole.
    pub(super) fn inside(&self, place: Place, text: &str, part: &Range<usize>) -> Place {
        let source = self.sources.get(place.source).map_or("", |source| source.text.as_str());
        let spelled = source.get(place.start..place.start + place.length).unwrap_or_default();
        let quote = usize::from(spelled.starts_with(['"', '\'']));
        match spelled.get(quote..) {
            Some(rest) if rest.starts_with(text) => Place { start: place.start + quote + part.start, length: part.len(), ..place },
            _ => place,
        }
    }

    /// A text that may not be empty.
    pub(super) fn filled<'w>(&self, key: &str, written: &'w Written<Text>) -> Option<Resolved<'w>> {
        let resolved = self.text(written)?;
        if resolved.text.trim().is_empty() {
            self.note(Problem::error(resolved.place, format!("`{key}` is empty")));
            return None;
        }
        Some(resolved)
    }

    /// A list of texts, each with its meaning; what has none is left out.
    pub(super) fn all<T>(&self, written: &Written<Vec<Written<Text>>>, meaning: impl Fn(&Self, Resolved<'_>) -> Option<T>) -> Vec<T> {
        let items = written.value.iter().flatten();
        items.filter_map(|item| meaning(self, self.text(item)?)).collect()
    }

    /// A span of time, longer than zero.
    pub(super) fn duration(&self, key: &str, written: &Written<Text>) -> Option<Duration> {
        let resolved = self.text(written)?;
        match duration::parse(&resolved.text) {
            Ok(duration) => Some(duration),
            Err(fault) => {
                self.note(Problem::error(resolved.place, format!("`{key}: {}` {fault}", resolved.written)).help(duration::FORMS));
                None
            }
        }
    }

    /// An amount of memory, in bytes.
    pub(super) fn size(&self, key: &str, written: &Written<Text>) -> Option<u64> {
        let resolved = self.text(written)?;
        match size::parse(&resolved.text) {
            Ok(bytes) => Some(bytes),
            Err(fault) => {
                self.note(Problem::error(resolved.place, format!("`{key}: {}` {fault}", resolved.written)).help(size::FORMS));
                None
            }
        }
    }

    /// A path, absolute.
    pub(super) fn path(&self, key: &str, written: &Written<Text>) -> Option<PathBuf> {
        self.filled(key, written).map(|resolved| self.absolute(&resolved))
    }

    pub(super) fn absolute(&self, path: &Resolved<'_>) -> PathBuf {
        self.beside(path.place).path(&path.text)
    }

    /// A file that has to be there, of which the content matters.
    pub(super) fn pem(&self, key: &str, written: &Written<Text>, what: &str, begin: &str) -> Option<(PathBuf, String)> {
        let resolved = self.filled(key, written)?;
        let (path, place) = (self.absolute(&resolved), resolved.place);
        let shown = if resolved.secret { resolved.written.to_owned() } else { path.display().to_string() };
        match self.environment.file(&path) {
            Ok(content) if content.contains(begin) => Some((path, content)),
            Ok(_) => {
                self.note(
                    Problem::error(place, format!("`{shown}` has no {what} in PEM form"))
                        .help(format!("such a file has a line that begins with `{begin}`")),
                );
                None
            }
            Err(reason) => {
                self.note(
                    Problem::error(place, format!("`{shown}` cannot be read: {reason}"))
                        .help("a relative path starts at the config file's directory"),
                );
                None
            }
        }
    }
}
