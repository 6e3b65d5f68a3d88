//! What a registry may read of the environment.

use crate::template::{Environment, Fault};
use std::cell::RefCell;
use std::path::Path;

/// The environment within the bounds of `registry.env.allow`.
pub(super) struct Bounded<'e> {
    environment: &'e dyn Environment,
    allow: Option<&'e [String]>,
    /// What was asked for and not allowed.
    pub(super) refused: RefCell<Vec<String>>,
}

const NOT_ALLOWED: &str = "no pattern of `registry.env.allow` admits it";

impl Environment for Bounded<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        if self.allow.is_some_and(|patterns| !patterns.iter().any(|pattern| matches(pattern, name))) {
            self.refused.borrow_mut().push(name.to_owned());
            return None;
        }
        self.environment.variable(name)
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        let text = path.to_str().ok_or("its path is not UTF-8")?;
        let plain = text.starts_with('/') && !text.split('/').any(|step| matches!(step, "." | ".."));
        let admitted =
            self.allow.unwrap_or_default().iter().filter_map(|pattern| pattern.strip_prefix("file:")).any(|pattern| matches(pattern, text));
        if !plain || !admitted {
            return Err(NOT_ALLOWED.to_owned());
        }
        self.environment.file(path)
    }
}

impl<'e> Bounded<'e> {
    pub(super) fn new(environment: &'e dyn Environment, allow: Option<&'e [String]>) -> Bounded<'e> {
        Bounded { environment, allow, refused: RefCell::default() }
    }

    /// Begins anew: what was asked for in one text says nothing about the next.
    pub(super) fn forget(&self) {
        self.refused.borrow_mut().clear();
    }

    /// What is wrong with a placeholder, what to write under it and what to do.
    pub(super) fn explained(&self, fault: &Fault) -> (String, &'static str, String) {
        let refused = |name: &str| self.refused.borrow().iter().any(|each| each == name);
        match fault {
            Fault::Unset(name) | Fault::Required { name, .. } if refused(name) => {
                let help = format!("add `{name}` to `registry.env.allow` if this registry may read it");
                (format!("variable `{name}` may not be read: {NOT_ALLOWED}"), "not allowed", help)
            }
            Fault::Unset(name) => (fault.to_string(), "not set", format!("set `{name}`, or write `${{{name}:-default}}`")),
            Fault::Required { name, .. } => (fault.to_string(), "not set", format!("set `{name}`")),
            Fault::File { path, reason } if reason == NOT_ALLOWED => {
                (fault.to_string(), "not allowed", format!("add `file:{path}` to `registry.env.allow` if this registry may read it"))
            }
            Fault::File { .. } => (fault.to_string(), "cannot be read", "check that the file is there and can be read".into()),
            Fault::Empty | Fault::BadName(_) => {
                (fault.to_string(), "not a variable", "write `${NAME}` with letters, digits and `_`, or `$${` for the characters themselves".into())
            }
        }
    }
}

/// Whether a pattern with `*` and `?` is the whole text. Neither of them stands for a `/`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Where the last star was and how much it took: the only point to come back to.
    let mut star: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(b'?') if byte != b'/' => (at, from) = (at + 1, from + 1),
            Some(&other) if other == byte && other != b'?' => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((place, taken)) if text.get(taken) != Some(&b'/') => {
                    star = Some((place, taken + 1));
                    (at, from) = (place + 1, taken + 1);
                }
                _ => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}
