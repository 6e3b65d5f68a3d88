//! Where a registry is, as people write it: a URI or a path.

use percent_encoding::percent_decode_str;

/// Where a registry is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A file; relative paths still are.
    File(String),
    /// A server; the text is a URL.
    Http,
}

/// Why a text says nothing of the kind. The words fit behind the text in question, which they do not repeat: it may hold a secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unclear {
    pub(super) why: &'static str,
    pub(super) help: &'static str,
}

const SCHEMES: &str = "the schemes are `file://`, `http://` and `https://`; a plain path will do too";

/// Reads `file:///etc/registry.json`, `file://./registry.json`, `file:registry.json`, `http://…`, `https://…` or a path.
pub(super) fn parse(text: &str) -> Result<Location, Unclear> {
    let Some((scheme, rest)) = scheme(text) else { return Ok(Location::File(text.to_owned())) };
    if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") {
        return if rest.starts_with("//") {
            Ok(Location::Http)
        } else {
            Err(Unclear { why: "is not a URL", help: "two slashes follow the scheme, like `https://registry.corp.example/tools`" })
        };
    }
    if !scheme.eq_ignore_ascii_case("file") {
        let is_port = rest.chars().next().is_some_and(|first| first.is_ascii_digit());
        let help = if is_port { "put `http://` or `https://` before a host and its port" } else { SCHEMES };
        return Err(Unclear { why: "has a scheme that registries are not read from", help });
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => match rest.split_once('/') {
            // The first part is where the name of a machine would be.
            Some(("" | "." | "..", _)) => rest,
            Some((host, _)) if host.eq_ignore_ascii_case("localhost") => rest.get(host.len()..).unwrap_or_default(),
            _ => {
                return Err(Unclear {
                    why: "names a machine, not a file of this one",
                    help: "write three slashes before an absolute path, and `file://./` before one beside the config",
                });
            }
        },
    };
    match percent_decode_str(path).decode_utf8() {
        Ok(path) if is_encoded(rest) && !path.is_empty() && !path.contains('\0') => Ok(Location::File(path.into_owned())),
        _ => Err(Unclear { why: "is not the URI of a file", help: "write `%25` for a `%` in its name; the name is UTF-8" }),
    }
}

/// The scheme of a URI and what follows its colon. One letter is no scheme: it is a drive, or a short name.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '+' | '-' | '.'));
    is_scheme.then_some((scheme, rest))
}

/// Whether every `%` begins two hexadecimal digits.
fn is_encoded(text: &str) -> bool {
    let is_byte = |digits: &str| digits.get(..2).is_some_and(|byte| byte.chars().all(|digit| digit.is_ascii_hexdigit()));
    text.split('%').skip(1).all(is_byte)
}

/// What logs and errors call a place: as written, without the query, which may hold a key.
pub(super) fn shown(written: &str) -> String {
    let mut depth = 0_usize;
    let query = written.char_indices().find(|(_, each)| {
        // `${NAME:?message}` has a question mark that begins no query.
        match each {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *each == '?'
    });
    written.get(..query.map_or(written.len(), |(at, _)| at)).unwrap_or(written).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_uri_or_a_path() {
        // L3
        let table = [
            ("file:///etc/transom/registry.json", "/etc/transom/registry.json"),
            ("file://localhost/etc/registry.json", "/etc/registry.json"),
            ("FILE:///etc/registry.json", "/etc/registry.json"),
            ("file:/etc/registry.json", "/etc/registry.json"),
            ("file://./registry.json", "./registry.json"),
            ("file://../registry.json", "../registry.json"),
            ("file:registry.json", "registry.json"),
            ("file:///with%20space/%C3%BC.json", "/with space/ü.json"),
            ("registry.json", "registry.json"),
            ("/etc/100%.json", "/etc/100%.json"),
            ("~/registry.json", "~/registry.json"),
            ("./a:b.json", "./a:b.json"),
        ];
        for (text, path) in table {
            assert_eq!(parse(text), Ok(Location::File(path.to_owned())), "{text}");
        }
        for text in ["http://registry.corp.example/api/v1/tools", "https://a", "HTTPS://a"] {
            assert_eq!(parse(text), Ok(Location::Http), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let table = [
            ("ftp://a/registry.json", "has a scheme"),
            ("s3://bucket/registry.json", "has a scheme"),
            ("localhost:8080/tools", "has a scheme"),
            ("http:/a", "is not a URL"),
            ("file://registry.json", "names a machine"),
            ("file://server/share/registry.json", "names a machine"),
            ("file:", "is not the URI of a file"),
            ("file:///a%2", "is not the URI of a file"),
            ("file:///a%zz", "is not the URI of a file"),
            ("file:///a%00b", "is not the URI of a file"),
            ("file:///%ff", "is not the URI of a file"),
        ];
        for (text, why) in table {
            assert!(parse(text).is_err_and(|unclear| unclear.why.starts_with(why)), "{text}");
        }
    }

    #[test]
    fn what_is_shown_has_no_query() {
        let table = [
            ("https://a/tools?key=1", "https://a/tools"),
            ("https://a/${TEAM:?which team}/tools?key=1", "https://a/${TEAM:?which team}/tools"),
            ("file://./registry.json", "file://./registry.json"),
        ];
        for (written, expected) in table {
            assert_eq!(shown(written), expected);
        }
    }
}
