//! The `${…}` grammar: values from the environment inside a string.
//!
//! Pure: who the environment is, and what may be read from it, is the caller's business ([`Environment`]). One pass, left to
//! right; what a value contains is never expanded again, and no message here ever carries a value.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Where placeholders get their values.
pub trait Environment {
    /// The value of a variable, if it is set; set but empty is set.
    fn variable(&self, name: &str) -> Option<String>;

    /// The content of a file, or why there is none.
    fn file(&self, path: &Path) -> Result<String, String>;
}

/// A string with every placeholder replaced.
#[derive(Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The result.
    pub text: String,
    /// Whether a placeholder took part: the whole text then counts as a secret.
    pub secret: bool,
    /// Placeholders that were opened and never closed; they are in the text as they were written.
    pub unclosed: Vec<Range<usize>>,
    /// What was read for it: the name of the variable or file, and its value. Defaults are not read.
    pub read: Vec<(String, String)>,
}

impl fmt::Debug for Expanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.secret { "[redacted]" } else { &self.text };
        f.debug_struct("Expanded").field("text", &text).field("secret", &self.secret).field("unclosed", &self.unclosed).finish()
    }
}

/// A placeholder that cannot be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct BadPlaceholder {
    /// Where it stands in the string, in bytes.
    pub at: Range<usize>,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What can be wrong with a placeholder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// `${}` and its like.
    #[error("the placeholder names no variable")]
    Empty,
    /// Not a name that a variable can have.
    #[error("`{0}` is not the name of a variable")]
    BadName(String),
    /// Not set, and no default given.
    #[error("variable `{0}` is not set")]
    Unset(String),
    /// Not set, and `:?` says what to tell the user.
    #[error("variable `{name}` is not set: {message}")]
    Required {
        /// The variable.
        name: String,
        /// The text after `:?`.
        message: String,
    },
    /// A file that cannot be read.
    #[error("file `{path}` cannot be read: {reason}")]
    File {
        /// The path as written.
        path: String,
        /// Why not.
        reason: String,
    },
}

/// Replaces every placeholder in `text`, or names all that cannot be replaced.
pub fn expand(text: &str, environment: &dyn Environment) -> Result<Expanded, Vec<BadPlaceholder>> {
    let mut expanded = Expanded { text: String::with_capacity(text.len()), secret: false, unclosed: Vec::new(), read: Vec::new() };
    let mut faults = Vec::new();
    for part in parts(text) {
        match part {
            Part::Literal(literal) => expanded.text.push_str(literal),
            Part::Unclosed(at) => {
                expanded.text.push_str(text.get(at.clone()).unwrap_or_default());
                expanded.unclosed.push(at);
            }
            Part::Placeholder { at, body } => {
                expanded.secret = true;
                match value(body, environment, &mut expanded.read) {
                    Ok(value) => expanded.text.push_str(&value),
                    Err(fault) => faults.push(BadPlaceholder { at, fault }),
                }
            }
        }
    }
    if faults.is_empty() { Ok(expanded) } else { Err(faults) }
}

/// Whether the whole text is one placeholder, so that its value may become something else than text.
pub fn is_one_placeholder(text: &str) -> bool {
    let mut said = parts(text).into_iter().filter(|part| !matches!(part, Part::Literal("")));
    matches!((said.next(), said.next()), (Some(Part::Placeholder { .. }), None))
}

/// What one placeholder stands for.
fn value(body: Body<'_>, environment: &dyn Environment, read: &mut Vec<(String, String)>) -> Result<String, Fault> {
    let mut note = |name: &str, value: String| {
        read.push((name.to_owned(), value.clone()));
        value
    };
    let mut variable = |name: &str| Ok(variable(name, environment)?.map(|value| note(name, value)));
    let reference = match body {
        Body::Angles(name) => return variable(name)?.ok_or_else(|| Fault::Unset(name.into())),
        Body::Braces(reference) => reference,
    };
    if let Some(path) = reference.strip_prefix("file:") {
        return file(path, environment).map(|content| note(reference, content));
    }
    let reference = reference.strip_prefix("env.").or_else(|| reference.strip_prefix("env:")).unwrap_or(reference);
    let colon = reference.find(':').unwrap_or(reference.len());
    let (name, rest) = reference.split_at(colon);
    if let Some(default) = rest.strip_prefix(":-") {
        return Ok(variable(name)?.unwrap_or_else(|| default.into()));
    }
    if let Some(message) = rest.strip_prefix(":?") {
        let missing = || Fault::Required { name: name.into(), message: message.into() };
        return variable(name)?.ok_or_else(missing);
    }
    variable(reference)?.ok_or_else(|| Fault::Unset(reference.into()))
}

fn variable(name: &str, environment: &dyn Environment) -> Result<Option<String>, Fault> {
    if name.is_empty() {
        return Err(Fault::Empty);
    }
    let mut characters = name.chars();
    let starts_well = characters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic());
    if !starts_well || !characters.all(|each| each == '_' || each.is_ascii_alphanumeric()) {
        return Err(Fault::BadName(name.into()));
    }
    Ok(environment.variable(name))
}

/// A secret file usually ends with a newline that its author did not mean.
fn file(path: &str, environment: &dyn Environment) -> Result<String, Fault> {
    if path.is_empty() {
        return Err(Fault::Empty);
    }
    let mut content = environment.file(Path::new(path)).map_err(|reason| Fault::File { path: path.into(), reason })?;
    if content.ends_with('\n') {
        content.pop();
        if content.ends_with('\r') {
            content.pop();
        }
    }
    Ok(content)
}

enum Part<'a> {
    Literal(&'a str),
    Placeholder { at: Range<usize>, body: Body<'a> },
    Unclosed(Range<usize>),
}

enum Body<'a> {
    Braces(&'a str),
    Angles(&'a str),
}

/// Cuts a string at its placeholders. Linear: which bracket closes which is found once for the whole string.
fn parts(text: &str) -> Vec<Part<'_>> {
    let slice = |range: Range<usize>| text.get(range).unwrap_or_default();
    let closing = closing_braces(text);
    let last_angle = text.rfind('>').unwrap_or(0);
    let mut parts = Vec::new();
    let mut literal_from = 0;
    let mut search_from = 0;
    // Each turn handles the next `$`; everything else is literal.
    while let Some(dollar) = slice(search_from..text.len()).find('$').map(|found| search_from + found) {
        let rest = slice(dollar..text.len());
        let inside = dollar + 2;
        let close = if rest.starts_with("$${") || rest.starts_with("$$<") {
            parts.push(Part::Literal(slice(literal_from..dollar)));
            literal_from = dollar + 1;
            search_from = dollar + 3;
            continue;
        } else if rest.starts_with("${") {
            closing.get(&(dollar + 1)).copied()
        } else if rest.starts_with("$<") {
            if last_angle < dollar { None } else { rest.find('>').map(|found| dollar + found) }
        } else {
            search_from = dollar + 1;
            continue;
        };
        parts.push(Part::Literal(slice(literal_from..dollar)));
        let end = close.map_or(inside, |close| close + 1);
        parts.push(match close {
            None => Part::Unclosed(dollar..end),
            Some(close) if rest.starts_with("${") => Part::Placeholder { at: dollar..end, body: Body::Braces(slice(inside..close)) },
            Some(close) => Part::Placeholder { at: dollar..end, body: Body::Angles(slice(inside..close)) },
        });
        literal_from = end;
        search_from = end;
    }
    parts.push(Part::Literal(slice(literal_from..text.len())));
    parts
}

/// For each `{` that has a partner, where the partner is.
fn closing_braces(text: &str) -> HashMap<usize, usize> {
    let mut open = Vec::new();
    let mut pairs = HashMap::new();
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open.push(position),
            b'}' => {
                if let Some(partner) = open.pop() {
                    pairs.insert(partner, position);
                }
            }
            _ => {}
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake;

    impl Environment for Fake {
        fn variable(&self, name: &str) -> Option<String> {
            let value = match name {
                "A" => "va",
                "B" => "vb",
                "X1" => "${B}",
                "EMPTY" => "",
                "T" => "secret123",
                "URL" => "https://example.com",
                "QUOTES" => "\"}\n${A}",
                _ => return None,
            };
            Some(value.into())
        }

        fn file(&self, path: &Path) -> Result<String, String> {
            match path.to_str() {
                Some("/run/secrets/one") => Ok("s3cret\n".into()),
                Some("/run/secrets/two") => Ok("s3cret\n\n".into()),
                Some("/run/secrets/dos") => Ok("s3cret\r\n".into()),
                _ => Err("No such file".into()),
            }
        }
    }

    #[test]
    fn a_placeholder_becomes_its_value_and_everything_else_stays() {
        // cases.md 6.1, R-003-47, R-005-6, D8.
        let table = [
            ("${A}", "va"),                                             // E1
            ("pre-${A}-post", "pre-va-post"),                           // E2
            ("${A}${B}", "vavb"),                                       // E3
            ("Bearer ${T}", "Bearer secret123"),                        // E4
            ("${URL}/api", "https://example.com/api"),                  // E5
            ("${MISSING:-def}", "def"),                                 // E7
            ("${MISSING:-https://default.com}", "https://default.com"), // E8
            ("${M:-}", ""),                                             // E10
            ("${M:-a:b}", "a:b"),                                       // E11
            ("$A", "$A"),                                               // E13
            ("${B} ${X1}", "vb ${B}"),                                  // E19
            ("${A} and ${A}", "va and va"),                             // E20
            ("$.data.x", "$.data.x"),                                   // E26
            ("cost $5", "cost $5"),                                     // E24
            ("${EMPTY:-def}", ""),
            ("${EMPTY}", ""),
            ("${EMPTY:?needed}", ""),
            ("${env.A}${env:B}$<A>", "vavbva"),
            ("${env.MISSING:-x}", "x"),
            ("${MISSING:-{\"a\":{}}}", "{\"a\":{}}"),
            ("${MISSING:-${A}}", "${A}"),
            ("$${A}", "${A}"),
            ("$$<A>", "$<A>"),
            ("$${A}${A}", "${A}va"),
            ("$$", "$$"),
            ("$$A", "$$A"),
            ("$", "$"),
            ("", ""),
            ("{$}", "{$}"),
            ("ü${A}ü", "üvaü"),
            ("${QUOTES}", "\"}\n${A}"),
            ("${file:/run/secrets/one}", "s3cret"),
            ("${file:/run/secrets/two}", "s3cret\n"),
            ("${file:/run/secrets/dos}", "s3cret"),
        ];
        for (input, expected) in table {
            let expanded = expand(input, &Fake).unwrap_or_else(|faults| panic!("{input}: {faults:?}"));
            assert_eq!(expanded.text, expected, "{input}");
            assert!(expanded.unclosed.is_empty(), "{input}");
        }
    }

    #[test]
    fn a_placeholder_that_cannot_be_replaced_is_named_with_its_position() {
        let table = [
            ("${MISSING}", 0..10, Fault::Unset("MISSING".into())), // E6
            ("ab${}", 2..5, Fault::Empty),                         // E14
            ("${ A }", 0..6, Fault::BadName(" A ".into())),        // E17
            ("${A${B}}", 0..8, Fault::BadName("A${B}".into())),    // D8
            ("x$<>", 1..4, Fault::Empty),
            ("$<a b>", 0..6, Fault::BadName("a b".into())),
            ("$<MISSING>", 0..10, Fault::Unset("MISSING".into())),
            ("${1A}", 0..5, Fault::BadName("1A".into())),
            ("${A:=x}", 0..7, Fault::BadName("A:=x".into())),
            ("${:-x}", 0..6, Fault::Empty),
            ("${env.}", 0..7, Fault::Empty),
            ("${file:}", 0..8, Fault::Empty),
            ("${MISSING:?set it}", 0..18, Fault::Required { name: "MISSING".into(), message: "set it".into() }),
            ("${file:/nowhere}", 0..16, Fault::File { path: "/nowhere".into(), reason: "No such file".into() }),
        ];
        for (input, at, fault) in table {
            assert_eq!(expand(input, &Fake), Err(vec![BadPlaceholder { at, fault }]), "{input}");
        }
    }

    #[test]
    fn every_bad_placeholder_of_a_string_is_named() {
        let faults = expand("${M1} ${A} ${M2}", &Fake).unwrap_err();
        assert_eq!(faults.iter().map(|each| each.at.clone()).collect::<Vec<_>>(), [0..5, 11..16]);
    }

    #[test]
    fn an_unclosed_placeholder_is_literal_and_reported() {
        // E15
        for (input, expected, at) in [("${A", "${A", 0..2), ("x $<A", "x $<A", 2..4), ("${A ${B}", "${A vb", 0..2)] {
            let expanded = expand(input, &Fake).unwrap();
            assert_eq!((expanded.text.as_str(), expanded.unclosed), (expected, vec![at]), "{input}");
        }
    }

    #[test]
    fn a_text_with_any_placeholder_is_secret_and_does_not_print() {
        // D5, N6
        let secret = expand("Bearer ${T}", &Fake).unwrap();
        assert!(secret.secret);
        assert!(!format!("{secret:?}").contains("secret123"));
        assert!(expand("${MISSING:-public}", &Fake).unwrap().secret);
        assert!(!expand("$${T} $T ${T", &Fake).unwrap().secret);
    }

    #[test]
    fn a_long_text_of_openings_takes_linear_time() {
        // D8: the fuzzer's favourite.
        for opening in ["${", "$<"] {
            let expanded = expand(&opening.repeat(200_000), &Fake).unwrap();
            assert_eq!(expanded.unclosed.len(), 200_000);
        }
    }
}
