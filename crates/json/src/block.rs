//! Sixteen bytes at a time: which of them need a closer look.

/// How many bytes are looked at at once.
pub(crate) const WIDTH: usize = 16;

/// One bit for each byte that ends a string: a quote, or a control character, which a string may not have.
#[inline]
pub(crate) fn ends(block: &[u8; WIDTH]) -> u32 {
    imp::ends(block)
}

/// One bit for each backslash.
#[inline]
pub(crate) fn backslashes(block: &[u8; WIDTH]) -> u32 {
    imp::backslashes(block)
}

/// One bit for each byte that makes an escape together with a backslash before it, and needs nothing after it.
#[inline]
pub(crate) fn escapable(block: &[u8; WIDTH]) -> u32 {
    imp::escapable(block)
}

/// One bit for each byte that is a quote, a brace or a bracket.
#[inline]
pub(crate) fn structure(block: &[u8; WIDTH]) -> u32 {
    imp::structure(block)
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod imp {
    use super::WIDTH;
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8};

    #[inline]
    pub(super) fn ends(block: &[u8; WIDTH]) -> u32 {
        // SAFETY: SSE2 is part of every x86-64 processor; that is all the function asks for.
        unsafe { ends_of(block) }
    }

    #[inline]
    pub(super) fn backslashes(block: &[u8; WIDTH]) -> u32 {
        // SAFETY: as above.
        unsafe { backslashes_of(block) }
    }

    #[inline]
    pub(super) fn escapable(block: &[u8; WIDTH]) -> u32 {
        // SAFETY: as above.
        unsafe { escapable_of(block) }
    }

    #[inline]
    pub(super) fn structure(block: &[u8; WIDTH]) -> u32 {
        // SAFETY: as above.
        unsafe { structure_of(block) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(block: &[u8; WIDTH]) -> __m128i {
        let word = u128::from_le_bytes(*block);
        _mm_set_epi64x((word >> 64) as i64, word as i64)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn equal(bytes: __m128i, to: u8) -> __m128i {
        _mm_cmpeq_epi8(bytes, _mm_set1_epi8(to as i8))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn ends_of(block: &[u8; WIDTH]) -> u32 {
        let bytes = load(block);
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(equal(bytes, b'"'), control)) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn backslashes_of(block: &[u8; WIDTH]) -> u32 {
        _mm_movemask_epi8(equal(load(block), b'\\')) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn escapable_of(block: &[u8; WIDTH]) -> u32 {
        let bytes = load(block);
        let any = |a: u8, b: u8| _mm_or_si128(equal(bytes, a), equal(bytes, b));
        let common = _mm_or_si128(any(b'"', b'n'), any(b'/', b't'));
        _mm_movemask_epi8(_mm_or_si128(common, _mm_or_si128(any(b'r', b'b'), any(b'f', b'\\')))) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn structure_of(block: &[u8; WIDTH]) -> u32 {
        let bytes = load(block);
        // `[` and `{`, and `]` and `}`, differ in this bit alone.
        let folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        _mm_movemask_epi8(_mm_or_si128(equal(bytes, b'"'), _mm_or_si128(equal(folded, b'{'), equal(folded, b'}')))) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use super::WIDTH;

    fn mask(block: &[u8; WIDTH], is: impl Fn(u8) -> bool) -> u32 {
        block.iter().rev().fold(0, |mask, byte| mask << 1 | u32::from(is(*byte)))
    }

    pub(super) fn ends(block: &[u8; WIDTH]) -> u32 {
        mask(block, |byte| matches!(byte, b'"' | 0..=0x1f))
    }

    pub(super) fn backslashes(block: &[u8; WIDTH]) -> u32 {
        mask(block, |byte| byte == b'\\')
    }

    pub(super) fn escapable(block: &[u8; WIDTH]) -> u32 {
        mask(block, |byte| matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'))
    }

    pub(super) fn structure(block: &[u8; WIDTH]) -> u32 {
        mask(block, |byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_the_same_in_every_place() {
        for byte in 0..=255u8 {
            for place in 0..WIDTH {
                let mut block = [b'x'; WIDTH];
                block[place] = byte;
                let bit = |is: bool| u32::from(is) << place;
                assert_eq!(ends(&block), bit(matches!(byte, b'"' | 0..=0x1f)), "{byte} at {place}");
                assert_eq!(backslashes(&block), bit(byte == b'\\'), "{byte} at {place}");
                assert_eq!(
                    escapable(&block) & (1 << place),
                    bit(matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')),
                    "{byte} at {place}"
                );
                assert_eq!(structure(&block), bit(matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')), "{byte} at {place}");
            }
        }
    }
}
