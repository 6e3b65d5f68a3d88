//! Text of targets on its way into our log: escaped, cut, without secrets.

use crate::spec::{Secret, TargetSpec, Transport};

/// Values shorter than this are too common in ordinary text to be blotted out.
const SHORTEST_SECRET: usize = 6;

/// What must never be logged, whoever prints it.
#[derive(Clone, Default)]
pub(crate) struct Scrubber(Vec<Secret>);

impl Scrubber {
    pub(crate) fn new(spec: &TargetSpec) -> Scrubber {
        let secrets: Vec<&Secret> = match &spec.transport {
            Transport::Stdio { env, .. } => env.iter().map(|(_, value)| value).collect(),
            Transport::Http { headers, .. } | Transport::Sse { headers, .. } => headers.iter().map(|(_, value)| value).collect(),
        };
        Scrubber(secrets.into_iter().filter(|secret| secret.expose().len() >= SHORTEST_SECRET).cloned().collect())
    }

    /// At most `limit` bytes of the text, control characters escaped, secrets blotted out.
    pub(crate) fn clean(&self, bytes: &[u8], limit: usize) -> String {
        let mut text = String::from_utf8_lossy(bytes.get(..limit.saturating_mul(4)).unwrap_or(bytes)).into_owned();
        for secret in &self.0 {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), "[redacted]");
            }
        }
        let mut out = String::with_capacity(text.len().min(limit));
        for character in text.chars() {
            let before = out.len();
            let hidden = character.is_control()
                || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
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
}

#[cfg(test)]
mod tests {
    use super::*;

    // K4, K5, D-group: what a child prints cannot forge log lines or leak what it was given
    #[test]
    fn foreign_text_is_escaped_cut_and_scrubbed() {
        let scrubber = Scrubber(vec![Secret::new("s3cr3t-value")]);
        assert_eq!(scrubber.clean(b"a\x1b[31m\nb s3cr3t-value \xff", 200), "a\\u{1b}[31m\\nb [redacted] \u{fffd}");
        assert_eq!(scrubber.clean("x".repeat(500).as_bytes(), 10), format!("{}…", "x".repeat(10)));
        assert_eq!(scrubber.clean("a\u{202e}b".as_bytes(), 100), "a\\u{202e}b");
    }
}
