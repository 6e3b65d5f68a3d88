//! Names that a lenient peer reads as one.

use caseless::Caseless;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// A name as a lenient peer may read it: compatibility forms and case made equal (Unicode toNFKC_Casefold), nothing invisible.
pub(super) fn fold(name: &str) -> Cow<'_, str> {
    if name.is_ascii() && !name.bytes().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_control()) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.nfkc().filter(|c| !is_invisible(*c)).default_case_fold().nfkc().collect())
}

/// Characters that a reader does not see and some peers drop.
pub(super) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
