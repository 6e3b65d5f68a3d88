//! Resource URIs of targets inside our own: `mcp://<target>/<percent-encoded uri>`.
//!
//! A template is encoded but for its expressions, which clients expand; so what they wrote for a variable stands in the
//! expanded URI as it would without us, and only what is around it is decoded. See [`Template`].

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const SCHEME: &str = "mcp://";
/// Everything but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// A URI beyond this is held against no template.
const LONGEST_EXPANSION: usize = 8 << 10;

/// The URI under which clients see a target's resource.
pub fn exposed(target: &str, uri: &str) -> String {
    format!("{}{}", prefix(target), encoded(uri))
}

/// The same for a URI template: expressions in braces stay for the client to fill.
pub fn exposed_template(target: &str, template: &str) -> String {
    let mut out = prefix(target);
    let mut rest = template;
    while let Some((literal, expression, after)) = next_expression(rest) {
        out.push_str(&encoded(literal));
        out.push('{');
        out.push_str(expression);
        out.push('}');
        rest = after;
    }
    out.push_str(&encoded(rest));
    out
}

/// The target of an exposed URI, if it is one, and what stands for the target's own URI.
pub fn split(exposed: &str) -> Option<(String, &str)> {
    let (target, rest) = exposed.strip_prefix(SCHEME)?.split_once('/')?;
    Some((decoded(target)?, rest))
}

/// What was encoded as a whole.
pub fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

fn prefix(target: &str) -> String {
    format!("{SCHEME}{}/", encoded(target))
}

/// What stands before the first expression of a template, the expression, and the rest.
fn next_expression(template: &str) -> Option<(&str, &str, &str)> {
    let (literal, tail) = template.split_once('{')?;
    let (expression, after) = tail.split_once('}').unwrap_or((tail, ""));
    Some((literal, expression, after))
}

/// What stands around the expressions of a target's template, as the target wrote it and as clients see it.
#[derive(Clone, Debug)]
pub struct Template {
    source: Vec<String>,
    exposed: Vec<String>,
}

impl Template {
    /// A template taken apart.
    pub fn new(template: &str) -> Template {
        let (mut source, mut rest) = (Vec::new(), template);
        while let Some((literal, _, after)) = next_expression(rest) {
            source.push(literal.to_owned());
            rest = after;
        }
        source.push(rest.to_owned());
        let exposed = source.iter().map(|literal| encoded(literal)).collect();
        Template { source, exposed }
    }

    /// How much of a URI this template decides. Where several fit, the one that decides most is the likeliest.
    pub fn weight(&self) -> usize {
        self.source.iter().map(String::len).sum()
    }

    /// The target's URI behind the rest of an exposed one, if it is an expansion of this template.
    pub fn resolve(&self, rest: &str) -> Option<String> {
        translated(rest, &self.exposed, &self.source)
    }

    /// The URI under which clients see a URI of the target, if it is an expansion of this template.
    pub fn expose(&self, target: &str, uri: &str) -> Option<String> {
        translated(uri, &self.source, &self.exposed).map(|rest| format!("{}{rest}", prefix(target)))
    }
}

/// A text that has these literals in this order, with others in their place and what is between them as it is. Each
/// literal is looked for once, after the one before it, so the time is that of reading the text.
fn translated(text: &str, literals: &[String], others: &[String]) -> Option<String> {
    let ([first, middle @ .., last], [new_first, new_middle @ .., new_last]) = (literals, others) else { return None };
    if text.len() > LONGEST_EXPANSION {
        return None;
    }
    let mut between = text.strip_prefix(first.as_str())?.strip_suffix(last.as_str())?;
    let mut out = new_first.clone();
    for (literal, new) in middle.iter().zip(new_middle) {
        let (value, after) = between.split_once(literal.as_str())?;
        out.push_str(value);
        out.push_str(new);
        between = after;
    }
    out.push_str(between);
    out.push_str(new_last);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    // N26
    #[test]
    fn a_uri_goes_in_and_comes_out_again() {
        assert_eq!(exposed("server1", "file:///test.txt"), "mcp://server1/file%3A%2F%2F%2Ftest.txt");
        for uri in ["file:///test.txt", "x", "a%2Fb", "ü{}?#", ""] {
            let exposed = exposed("my target/1", uri);
            let (target, rest) = split(&exposed).unwrap();
            assert_eq!((target.as_str(), decoded(rest).as_deref()), ("my target/1", Some(uri)));
        }
        assert_eq!(exposed_template("t", "file:///{path}/x{?q}"), "mcp://t/file%3A%2F%2F%2F{path}%2Fx{?q}");
        assert_eq!(split("file:///x"), None);
    }

    // N26
    #[test]
    fn the_value_of_a_variable_is_left_as_it_was_written() {
        for (template, exposed, source) in [
            ("file:///{path}", "file%3A%2F%2F%2Fa%20b", Some("file:///a%20b")),
            ("file:///{path}", "file%3A%2F%2F%2F", Some("file:///")),
            ("file:///{path}", "http%3A%2F%2Fa", None),
            ("file:///{path}", "file:///a", None),
            ("db://{+p}{?q}", "db%3A%2F%2Fx/y?q=1%262", Some("db://x/y?q=1%262")),
            ("db://{t}/rows/{id}.json", "db%3A%2F%2Fa%20b%2Frows%2F50%25.json", Some("db://a%20b/rows/50%25.json")),
            ("db://{t}/rows/{id}.json", "db%3A%2F%2Fa%2Frows", None),
            ("a{x}a", "a", None),
            ("a{x}a", "aa", Some("aa")),
            ("{+uri}", "file:///%C3%BC", Some("file:///%C3%BC")),
            ("unclosed{", "unclosed%20", Some("unclosed%20")),
            ("nothing", "nothing", None),
        ] {
            let template = Template::new(template);
            assert_eq!(template.resolve(exposed).as_deref(), source, "{exposed}");
            if let Some(source) = source {
                assert_eq!(template.expose("t", source), Some(format!("mcp://t/{exposed}")));
            }
        }
    }

    #[test]
    fn a_hostile_template_takes_no_longer_than_reading() {
        let template = Template::new(&"{x}aab".repeat(10_000));
        let begin = "aa".repeat(LONGEST_EXPANSION / 2);
        assert_eq!(template.resolve(&begin), None);
        assert_eq!(Template::new("{x}").resolve(&"x".repeat(LONGEST_EXPANSION + 1)), None);
    }
}
