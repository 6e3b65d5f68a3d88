//! What users write: reading a registry document.

/// A registry document to be read.
#[derive(Clone, Copy, Debug)]
pub struct Document<'d> {
    /// What to call it: a path, a URL.
    pub name: &'d str,
    /// Its text.
    pub text: &'d str,
}

/// What may be said for one tool or for all (`registry.defaults`). Nothing said: the next wider rule holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {}
