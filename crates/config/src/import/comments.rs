//! Comments in the JSON of editors.

/// What a file with comments says without them; every other character keeps its place. Only JSON has such comments.
pub fn without_comments(text: &str) -> String {
    // Some editors put a byte order mark in front.
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '/']) {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    let mut in_string = false;
    while let Some((&byte, after)) = rest.split_first() {
        let taken = match (in_string, byte, after.first()) {
            (true, b'\\', Some(_)) => 2,
            (false, b'/', Some(b'/')) => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            (false, b'/', Some(b'*')) => rest.windows(2).skip(2).position(|pair| pair == b"*/").map_or(rest.len(), |at| at + 4),
            _ => 1,
        };
        let (piece, later) = rest.split_at(taken.min(rest.len()));
        if !in_string && byte == b'/' && taken > 1 {
            out.extend(piece.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        } else {
            in_string ^= byte == b'"' && taken == 1;
            out.extend_from_slice(piece);
        }
        rest = later;
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_everything_else_keeps_its_place() {
        let text = "// top\n{ \"a\": \"http://x/*y*/\", /* b\n */ \"c\\\"//\": 1, // end\n}";
        let plain = without_comments(text);
        assert_eq!(plain.len(), text.len());
        assert_eq!(plain, "      \n{ \"a\": \"http://x/*y*/\",     \n    \"c\\\"//\": 1,       \n}");
        assert_eq!(without_comments("a: b // c\n"), "a: b // c\n");
        assert_eq!(without_comments("{ /* x"), "{     ", "one that is never closed");
        assert_eq!(without_comments("\u{feff}// x\n{}"), "\u{feff}    \n{}", "behind a byte order mark");
    }
}
