//! Text of targets on its way into our log: escaped, cut, without secrets.

use crate::spec::{Secret, TargetSpec};
use crate::target::Host;
use std::sync::Arc;

/// Values shorter than this are too common in ordinary text to be blotted out.
const SHORTEST_SECRET: usize = 6;

/// How much of what a target says about a failure is told.
pub(crate) const LONGEST_REASON: usize = 500;

/// What must never be logged, whoever prints it.
pub(crate) struct Scrubber {
    /// What the config gives to the target, the longest first: one may be a part of another.
    secrets: Vec<Secret>,
    target: String,
    /// Knows what the registry gives to it.
    host: Arc<dyn Host>,
}

impl Scrubber {
    pub(crate) fn new(spec: &TargetSpec, host: Arc<dyn Host>) -> Scrubber {
        let given = spec.transport.given().map(Secret::expose).chain(spec.transport.secrets());
        let mut secrets: Vec<Secret> = given.filter(|secret| secret.len() >= SHORTEST_SECRET).map(Secret::new).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Scrubber { secrets, target: spec.name.clone(), host }
    }

    /// At most `limit` bytes of the text, control characters escaped, secrets blotted out.
    pub(crate) fn clean(&self, bytes: &[u8], limit: usize) -> String {
        match bytes.get(..limit.saturating_mul(4).saturating_add(self.longest())) {
            Some(beginning) => self.clean_beginning(beginning, limit),
            None => shown(&self.without_secrets(bytes), limit),
        }
    }

    /// The same for a text that was cut: a secret may have lost its end, and would not be found.
    pub(crate) fn clean_beginning(&self, bytes: &[u8], limit: usize) -> String {
        let text = self.without_secrets(bytes);
        let whole = text.floor_char_boundary(text.len().saturating_sub(self.longest()));
        // Below its own length, so that it ends as what is cut ends.
        shown(text.get(..whole).unwrap_or_default(), limit.min(whole.saturating_sub(1)))
    }

    /// How long a secret is at most, in the longest of its spellings.
    fn longest(&self) -> usize {
        self.secrets.first().map_or(0, |secret| secret.expose().len()).max(self.host.longest_hidden(&self.target))
    }

    fn without_secrets(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        // The registry's first: it knows more spellings, and one of the others may be a part of one.
        let mut text = self.host.hide(&self.target, &text).unwrap_or_else(|| text.into_owned());
        for secret in &self.secrets {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), "[redacted]");
            }
        }
        text
    }
}

/// At most `limit` bytes of a text, and nothing that a terminal obeys.
fn shown(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for character in text.chars() {
        let before = out.len();
        let hidden =
            character.is_control() || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if hidden {
            out.extend(character.escape_default())
        } else {
            out.push(character)
        }
        if out.len() > limit {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ChildLimits, EraChoice, Sessions, Transport};
    use bytes::Bytes;
    use std::time::Duration;

    fn spec(transport: Transport) -> TargetSpec {
        TargetSpec {
            name: "t".into(),
            transport,
            era: EraChoice::Auto,
            sessions: Sessions::Shared,
            timeout: Duration::from_secs(1),
            allow_server_requests: false,
            aliases: Vec::new(),
        }
    }

    const OF_THE_REGISTRY: &str = "github_pat_k-123";

    /// Knows one secret more.
    struct Registry;

    impl Host for Registry {
        fn changed(&self) {}

        fn resource_updated(&self, _: &str, _: Bytes) {}

        fn connected(&self, _: &str, _: bool) {}

        fn lost(&self, _: &str) {}

        fn protocol_error(&self, _: &str, _: &'static str) {}

        fn hide(&self, target: &str, text: &str) -> Option<String> {
            assert_eq!(target, "t");
            text.contains(OF_THE_REGISTRY).then(|| text.replace(OF_THE_REGISTRY, "***"))
        }

        fn longest_hidden(&self, _: &str) -> usize {
            OF_THE_REGISTRY.len()
        }
    }

    // D2, D4: a credential is told without its scheme, too
    #[test]
    fn a_credential_is_blotted_out_with_and_without_its_scheme() {
        let headers = vec![(http::header::AUTHORIZATION, Secret::new("Bearer TokSecret-0099"))];
        let transport = Transport::Http { url: http::Uri::from_static("http://x/mcp"), headers, tls: None };
        let scrubber = Scrubber::new(&spec(transport), Arc::new(Registry));
        assert_eq!(scrubber.clean(b"invalid token TokSecret-0099", 200), "invalid token [redacted]");
        assert_eq!(scrubber.clean(b"invalid: Bearer TokSecret-0099", 200), "invalid: [redacted]");
    }

    // D4: what was cut is told without the part in which a secret may have lost its end
    #[test]
    fn half_a_secret_is_not_told() {
        let headers = vec![(http::header::AUTHORIZATION, Secret::new("Bearer p4ss'word-x9"))];
        let transport = Transport::Http { url: http::Uri::from_static("http://x/mcp"), headers, tls: None };
        let scrubber = Scrubber::new(&spec(transport), Arc::new(Registry));
        for length in 0..80 {
            let text = format!("{} p4ss'word-x9", "x".repeat(2000 + length));
            let (part, _) = text.split_at(2010);
            assert!(!scrubber.clean_beginning(part.as_bytes(), 3000).contains("p4"), "{length}");
            let text = format!("{} {OF_THE_REGISTRY}", "x".repeat(2000 + length));
            let (part, _) = text.split_at(2015);
            assert!(!scrubber.clean_beginning(part.as_bytes(), 3000).contains("gi"), "{length}");
            let often = "p4ss'word-x9 ".repeat(1000 + length);
            assert!(!scrubber.clean(often.get(length..).unwrap().as_bytes(), 700).contains("p4ss"), "{length}");
        }
        let refusal = Bytes::from_static(br#"{"code":-5,"message":"bad p4ss'word-x9\n"}"#);
        assert_eq!(scrubber.clean(crate::handshake::describe(&refusal).as_bytes(), LONGEST_REASON), r"bad [redacted]\n (code -5)");
    }

    // K4, K5, D-group: what a child prints cannot forge log lines or leak what it was given
    #[test]
    fn foreign_text_is_escaped_cut_and_scrubbed() {
        let service = ("SERVICE".to_owned(), Secret::plain("github"));
        let env = vec![service, ("DSN".to_owned(), Secret::made_of("pg://s3cr3t-value@db", vec!["s3cr3t-value".into()]))];
        let transport = Transport::Stdio { cmd: "x".into(), args: Vec::new(), env, cwd: None, limits: ChildLimits::default() };
        let scrubber = Scrubber::new(&spec(transport), Arc::new(Registry));
        assert_eq!(scrubber.clean(b"to pg://s3cr3t-value@db", 200), "to [redacted]");
        assert_eq!(scrubber.clean(b"of the registry: github_pat_k-123", 200), "of the registry: ***");
        assert_eq!(scrubber.clean(b"a\x1b[31m\nb s3cr3t-value \xff", 200), "a\\u{1b}[31m\\nb [redacted] \u{fffd}");
        assert_eq!(scrubber.clean("x".repeat(500).as_bytes(), 10), format!("{}…", "x".repeat(10)));
        assert_eq!(scrubber.clean("a\u{202e}b".as_bytes(), 100), "a\\u{202e}b");
    }
}
