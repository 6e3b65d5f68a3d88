//! Identifiers of requests towards targets: ours, random, unguessable. The same one serves as progress token.

/// 128 random bits; on the wire a JSON string of 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ident(u128);

/// An identifier as JSON, quotes included.
pub(crate) type IdentJson = [u8; 34];

impl Ident {
    pub(crate) fn fresh() -> Ident {
        Ident(rand::random())
    }

    #[allow(clippy::indexing_slicing, reason = "four bits number sixteen digits")]
    pub(crate) fn json(self) -> IdentJson {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut out = [b'"'; 34];
        for (place, shift) in out.iter_mut().skip(1).take(32).zip((0..32).rev()) {
            *place = HEX[(self.0 >> (shift * 4)) as usize & 15];
        }
        out
    }

    /// The identifier behind JSON text, if it is written as ours are.
    pub(crate) fn read(raw: &[u8]) -> Option<Ident> {
        let digits = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if digits.len() != 32 {
            return None;
        }
        let value = digits.iter().try_fold(0u128, |value, byte| {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            Some(value << 4 | u128::from(digit))
        })?;
        Some(Ident(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_comes_back_as_it_went_and_nothing_else_does() {
        let ident = Ident(0x0123_4567_89ab_cdef_0fed_cba9_8765_4321);
        assert_eq!(&ident.json(), b"\"0123456789abcdef0fedcba987654321\"");
        assert_eq!(Ident::read(&ident.json()), Some(ident));
        for other in ["1", "\"1\"", "\"0123456789ABCDEF0fedcba987654321\"", "0123456789abcdef0fedcba987654321", ""] {
            assert_eq!(Ident::read(other.as_bytes()), None);
        }
    }
}
