//! What the shell is told when a verb does not succeed: a text on standard error and a number.

use std::fmt;

/// The exit codes; success is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A negative answer: an invalid file, a port that is taken.
    Negative = 1,
    /// Usage, or something nobody expected.
    Unexpected = 2,
    /// Not authorised.
    NotAuthorised = 3,
    /// Unreachable.
    Unreachable = 4,
    /// The tool said `isError`, or is unknown.
    Tool = 5,
}

/// Why a verb did not succeed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    text: String,
}

impl Failure {
    /// A failure in one sentence.
    pub fn new(exit: Exit, what: impl fmt::Display) -> Failure {
        Failure { exit, text: format!("error: {what}") }
    }

    /// A failure whose text is complete, like a report with places and underlines.
    pub fn rendered(exit: Exit, text: impl Into<String>) -> Failure {
        Failure { exit, text: text.into() }
    }

    /// A negative answer that was printed already.
    pub fn said(exit: Exit) -> Failure {
        Failure { exit, text: String::new() }
    }

    /// With the next step.
    pub fn hint(mut self, hint: impl fmt::Display) -> Failure {
        self.text = format!("{}\n\nhint: {hint}", self.text);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}
