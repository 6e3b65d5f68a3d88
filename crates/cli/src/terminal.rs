//! Standard output is data, standard error everything else; and neither may be driven by what a server sent.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

/// Writes data. A reader that has seen enough (`transom list | head -1`) is no failure.
pub fn data(text: &str) {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // There is nobody left to tell when standard output is gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end.as_bytes())).and_then(|()| out.flush());
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
    fn escape_sequences_of_a_server_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\r\u{9b}1m\tc\n"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}1m\tc\n");
        assert!(matches!(harmless("plain, even with é"), Cow::Borrowed(_)));
    }
}
