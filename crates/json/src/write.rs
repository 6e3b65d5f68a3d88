//! Writing JSON around text that is JSON already.

use crate::text::{Json, Key, Kind};

/// A JSON string.
pub fn string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut start = 0;
    let bytes = text.as_bytes();
    // Most texts have nothing to escape, which is seen many bytes at a time.
    let spelled_as_read = bytes.chunks(32).all(|chunk| !chunk.iter().fold(false, |any, byte| any | matches!(byte, 0..=0x1f | b'"' | b'\\')));
    let looked_at = if spelled_as_read { &[] } else { bytes };
    for (at, &byte) in looked_at.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..=0x1f => &[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), HEX.get(usize::from(byte & 15)).copied().unwrap_or(b'0')],
            _ => continue,
        };
        out.extend_from_slice(bytes.get(start..at).unwrap_or(&[]));
        out.extend_from_slice(escape);
        start = at + 1;
    }
    out.extend_from_slice(bytes.get(start..).unwrap_or(&[]));
    out.push(b'"');
}

/// A JSON string, on its own.
pub fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// What becomes of one member of an object.
pub enum Edit<'e> {
    /// It stays as it was written.
    Keep,
    /// It goes.
    Drop,
    /// It gets this value.
    Set(&'e [u8]),
}

/// An object with some members changed; members in `added` come last. Other members keep their bytes and their order.
pub fn edited<'e>(object: Json<'_>, mut edit: impl FnMut(Key<'_>, Json<'_>) -> Edit<'e>, added: &[(&str, &[u8])]) -> Vec<u8> {
    let members = (object.kind() == Kind::Object).then(|| object.members()).into_iter().flatten();
    object_of(members.map(|(key, value)| (key, value, edit(key, value))), added, object.raw().len() + 64)
}

/// An object of members that were read, each with what becomes of it; members in `added` come last. `room` is how long it may get, at a guess.
pub fn object_of<'m, 'e>(members: impl Iterator<Item = (Key<'m>, Json<'m>, Edit<'e>)>, added: &[(&str, &[u8])], room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room);
    out.push(b'{');
    let separate = |out: &mut Vec<u8>| {
        if out.len() > 1 {
            out.push(b',');
        }
    };
    for (key, value, edit) in members {
        let value = match edit {
            Edit::Keep => value.raw().as_bytes(),
            Edit::Drop => continue,
            Edit::Set(value) => value,
        };
        separate(&mut out);
        out.push(b'"');
        out.extend_from_slice(key.raw().as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value);
    }
    for (key, value) in added {
        separate(&mut out);
        string(&mut out, key);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_so_that_any_reader_gets_them_back() {
        let text = "a\"b\\c\nd\r\t\u{0}\u{1f}é\u{2028}";
        assert_eq!(read_back(&quoted(text)), text);
        assert!(quoted(text).contains("\\u0000") && quoted(text).contains("\\u001f"));
    }

    fn read_back(text: &str) -> String {
        crate::check(text.as_bytes(), &crate::Limits::REQUEST).unwrap().string().unwrap().into_owned()
    }

    #[test]
    fn an_edited_object_keeps_what_was_not_named() {
        let json = Json::trusted(r#"{"name":"x","arguments":{"n":1e400},"_meta":{},"z":[ 1 ]}"#);
        let edit = |key: Key<'_>, _: Json<'_>| match key.raw() {
            "name" => Edit::Set(b"\"y\""),
            "_meta" => Edit::Drop,
            _ => Edit::Keep,
        };
        let text = String::from_utf8(edited(json, edit, &[("new", b"true")])).unwrap();
        assert_eq!(text, r#"{"name":"y","arguments":{"n":1e400},"z":[ 1 ],"new":true}"#);
        assert_eq!(edited(Json::trusted("null"), |_, _| Edit::Keep, &[("a", b"1")]), b"{\"a\":1}");
    }
}
