//! Names and what they may look like.

/// A target's name made an identifier, as it stands in front of a tool's name: `github-api` becomes `github_api`,
/// `123server` becomes `_123server`.
pub fn identifier(name: &str) -> String {
    let mut text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) || text.is_empty() {
        text.insert(0, '_');
    }
    text
}

/// Whether every LLM provider takes this name for a tool: at most 64 of `[A-Za-z0-9_-]`.
pub fn is_portable(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Whether a target's name for a tool can be shown to anybody: 1 to 128 bytes, no control characters, and nothing that
/// is invisible or turns the text around it.
pub fn is_sound(name: &str) -> bool {
    let deceives = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    !name.is_empty() && name.len() <= 128 && name.trim() == name && !name.chars().any(deceives)
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-001-7
    #[test]
    fn target_names_become_identifiers() {
        for (name, expected) in
            [("github-api", "github_api"), ("123server", "_123server"), ("plain", "plain"), ("a.b c", "a_b_c"), ("日本", "__"), ("", "_")]
        {
            assert_eq!(identifier(name), expected);
        }
    }

    // M2
    #[test]
    fn names_that_deceive_are_not_sound() {
        for name in ["get_weather", "a.b-c", "server/tool", "日本"] {
            assert!(is_sound(name), "{name}");
        }
        for name in ["", "a\"} evil 1\n", "\u{202e}abc", "a\u{200b}", " a", "a\0", "\u{1b}[31m", &"x".repeat(129)] {
            assert!(!is_sound(name), "{name:?}");
        }
    }

    #[test]
    fn providers_take_short_plain_names() {
        assert!(is_portable("get_weather-2"));
        for name in ["", "a.b", "a b", "é", &"x".repeat(65)] {
            assert!(!is_portable(name), "{name}");
        }
    }
}
