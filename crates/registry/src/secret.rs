//! A value from the environment or a file, which nobody may see.

use std::fmt;

/// A text that does not print. It goes into the request to its target, through [`Secret::expose`], and nowhere else.
///
/// ```
/// use transom_registry::secret::Secret;
/// let key = Secret::new("k-1234567890");
/// assert_eq!(format!("{key:?}"), "[redacted]");
/// assert_eq!(key.expose(), "k-1234567890");
/// ```
///
/// It cannot be shown or serialised by accident:
///
/// ```compile_fail
/// println!("{}", transom_registry::secret::Secret::new("k"));
/// ```
///
/// ```compile_fail
/// serde_json::to_string(&transom_registry::secret::Secret::new("k"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// What stands where a secret would.
pub const REDACTED: &str = "[redacted]";

impl Secret {
    /// Keeps a text secret.
    pub fn new(text: impl Into<Box<str>>) -> Secret {
        Secret(text.into())
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
