//! Resource URIs of targets inside our own: `mcp://<target>/<percent-encoded uri>`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const SCHEME: &str = "mcp://";
/// Everything but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The URI under which clients see a target's resource.
pub fn exposed(target: &str, uri: &str) -> String {
    format!("{SCHEME}{}/{}", utf8_percent_encode(target, RESERVED), utf8_percent_encode(uri, RESERVED))
}

/// The same for a URI template: expressions in braces stay for the client to fill.
pub fn exposed_template(target: &str, template: &str) -> String {
    let mut out = format!("{SCHEME}{}/", utf8_percent_encode(target, RESERVED));
    let mut rest = template;
    while let Some((literal, tail)) = rest.split_once('{') {
        out.extend(utf8_percent_encode(literal, RESERVED));
        let (expression, after) = tail.split_once('}').unwrap_or((tail, ""));
        out.push('{');
        out.push_str(expression);
        out.push('}');
        rest = after;
    }
    out.extend(utf8_percent_encode(rest, RESERVED));
    out
}

/// Target and URI behind an exposed URI, if it is one.
pub fn resolve(exposed: &str) -> Option<(String, String)> {
    let (target, uri) = exposed.strip_prefix(SCHEME)?.split_once('/')?;
    let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
    Some((decode(target)?, decode(uri)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    // N26
    #[test]
    fn a_uri_goes_in_and_comes_out_again() {
        assert_eq!(exposed("server1", "file:///test.txt"), "mcp://server1/file%3A%2F%2F%2Ftest.txt");
        for uri in ["file:///test.txt", "x", "a%2Fb", "ü{}?#", ""] {
            assert_eq!(resolve(&exposed("my target/1", uri)), Some(("my target/1".into(), uri.into())));
        }
        assert_eq!(exposed_template("t", "file:///{path}/x{?q}"), "mcp://t/file%3A%2F%2F%2F{path}%2Fx{?q}");
        assert_eq!(resolve("file:///x"), None);
    }
}
