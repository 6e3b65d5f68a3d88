//! Text of others inside the module: as a string that any reader gets back, or as a comment that stays one.

/// Characters of one comment; more is cut off.
const LONGEST_COMMENT: usize = 4_000;
/// Characters of a comment that stands on one line.
const ONE_LINE: usize = 120;

/// A string literal. What ends lines, hides, turns the direction of writing or ends a script in a page is written as an
/// escape.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' if matches!(rest.peek(), Some('/' | '!')) => escape(&mut out, letter),
            _ if is_unseen(letter) => escape(&mut out, letter),
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}

fn escape(out: &mut String, letter: char) {
    let mut units = [0; 2];
    for unit in letter.encode_utf16(&mut units) {
        out.push_str(&format!("\\u{unit:04x}"));
    }
}

/// What a reader does not see, or what makes other text look like something it is not.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn ends_line(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A doc comment on lines of its own, each after `indent`; nothing if there is nothing to say.
pub fn comment(out: &mut String, indent: &str, text: &str) {
    let mut lines = harmless(text);
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    match lines.as_slice() {
        [] => {}
        [only] if only.chars().count() <= ONE_LINE => {
            out.push_str(&format!("{indent}/** {only} */\n"));
        }
        lines => {
            out.push_str(&format!("{indent}/**\n"));
            for line in lines {
                out.push_str(indent);
                out.push_str(if line.is_empty() { " *" } else { " * " });
                out.push_str(line);
                out.push('\n');
            }
            out.push_str(&format!("{indent} */\n"));
        }
    }
}

/// The lines of a text, without anything that would end a comment, or speak from inside it to a compiler (`@ts-ignore`)
/// or to a page (`</script`).
fn harmless(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut before = ' ';
    for (at, letter) in text.trim().replace("\r\n", "\n").chars().enumerate() {
        let Some(line) = lines.last_mut() else { break };
        if at == LONGEST_COMMENT {
            line.push('…');
            break;
        }
        if ends_line(letter) {
            line.truncate(line.trim_end().len());
            lines.push(String::new());
            before = ' ';
            continue;
        }
        if is_unseen(letter) {
            // A tab is a space; the rest is gone.
            if letter == '\t' {
                line.push(' ');
                before = ' ';
            }
            continue;
        }
        let escaped = match letter {
            '/' => matches!(before, '*' | '<'),
            '!' => before == '<',
            // An address of mail stays one.
            '@' => !before.is_alphanumeric(),
            _ => false,
        };
        if escaped {
            line.push('\\');
        }
        line.push(letter);
        before = letter;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commented(text: &str) -> String {
        let mut out = String::new();
        comment(&mut out, "  ", text);
        out
    }

    // D10
    #[test]
    fn a_literal_is_one_token_on_one_line_whatever_is_in_it() {
        for (text, written) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("a\nb\r\t\0", r#""a\nb\r\t\u0000""#),
            ("\u{2028}\u{2029}\u{feff}", r#""\u2028\u2029\ufeff""#),
            ("</script><!--", r#""\u003c/script>\u003c!--""#),
            ("a < b", r#""a < b""#),
            ("\u{202e}\u{e0041}", r#""\u202e\udb40\udc41""#),
            ("`${x}` é 日本", r#""`${x}` é 日本""#),
        ] {
            assert_eq!(literal(text), written);
        }
    }

    // D10, G11
    #[test]
    fn a_comment_ends_where_we_end_it() {
        for text in ["*/ evil(); /*", "a\n*/ evil()", "**//", "*\u{200b}/ evil()", "*\0/ evil()", "* /", "*\r\n/", "/", "*"] {
            let written = commented(text);
            assert_eq!(written.matches("*/").count(), 1, "{text:?} became {written}");
            assert!(written.ends_with("*/\n"), "{written}");
        }
    }

    #[test]
    fn a_comment_says_nothing_to_the_compiler_or_a_page() {
        assert_eq!(commented("@ts-ignore"), "  /** \\@ts-ignore */\n");
        assert_eq!(commented("mail a@b.c (@you)"), "  /** mail a@b.c (\\@you) */\n");
        assert_eq!(commented("</script><!-- x"), "  /** <\\/script><\\!-- x */\n");
        assert_eq!(commented("a\u{202e}b\u{200b}c"), "  /** abc */\n");
    }

    // G11
    #[test]
    fn lines_stay_lines() {
        assert_eq!(commented("  one \r\n\n two\u{2028}three\n\n"), "  /**\n   * one\n   *\n   *  two\n   * three\n   */\n");
        assert_eq!(commented(" \n "), "");
        assert!(commented(&"x".repeat(10_000)).len() < 4_100);
    }
}
