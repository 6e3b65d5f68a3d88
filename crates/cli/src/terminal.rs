//! Standard output is data, standard error everything else; and neither may be driven by what a server sent.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// Why data was lost, the first time.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes data. A reader that has seen enough (`transom list | head -1`) is no failure; anything else is one when the verb is done ([`lost`]).
pub fn data(text: &str) {
    let mut out = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end.as_bytes())).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // The first reason is the one to tell.
        let _ = LOST.set(error);
    }
}

/// Why not all data got out, if it did not.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// A word as a shell reads it back.
pub fn shell_quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Writes data that a server chose: as it is into a file or a pipe, without control characters onto a terminal.
pub fn foreign_data(text: &str) {
    if std::io::stdout().is_terminal() { data(&harmless(text)) } else { data(text) }
}

/// Says something to the person, not to the next program.
pub fn note(text: &str) {
    if !text.is_empty() {
        let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
    }
}

/// Whether reports on standard error may be coloured.
pub fn color() -> bool {
    wanted() && std::io::stderr().is_terminal()
}

/// Whether reports that are the answer of a verb may be coloured.
pub fn color_of_data() -> bool {
    wanted() && std::io::stdout().is_terminal()
}

fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The text with every control character but line breaks and tabs replaced: a description must not move the cursor.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let harmful = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if text.contains(harmful) { Cow::Owned(text.replace(harmful, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_read_it_otherwise() {
        for (word, expected) in [
            ("http://127.0.0.1:4711", "http://127.0.0.1:4711"),
            ("http://[::1]:1", "'http://[::1]:1'"),
            ("a b", "'a b'"),
            ("it's $(x)", r"'it'\''s $(x)'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quoted(word), expected);
        }
    }

    #[test]
    fn escape_sequences_of_a_server_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\r\u{9b}1m\tc\n"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}1m\tc\n");
        assert!(matches!(harmless("plain, even with é"), Cow::Borrowed(_)));
    }
}
