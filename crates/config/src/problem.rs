//! What is wrong with a config: for people (the line, a caret, a hint) and for programs (file, line, column, message).

use crate::Source;
use crate::written::Place;
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};
use std::fmt;
use std::ops::Range;

/// A file can be wrong in a thousand places; nobody reads more than this.
const MOST_PROBLEMS: usize = 100;

/// Whether the config can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but probably does not mean what its author thinks.
    Warning,
}

/// One problem at one place.
#[derive(Clone, Debug)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What kind it is, for programs.
    pub code: &'static str,
    /// Where it is; [`Report::problems`] gives it as file, line and column.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// A few words beside the underlined text.
    pub label: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Problem {
    /// Something that makes the config unusable.
    pub fn error(place: Place, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Error, code: "config", place, message: message.into(), label: None, help: None }
    }

    /// Something to look at.
    pub fn warning(place: Place, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(place, message) }
    }

    /// Says what kind it is.
    pub fn code(mut self, code: &'static str) -> Problem {
        self.code = code;
        self
    }

    /// Adds words beside the underlined text.
    pub fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = Some(label.into());
        self
    }

    /// Adds what to do.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }
}

/// Collects problems while a config is read.
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
    left_out: usize,
}

impl Problems {
    /// Notes one.
    pub fn add(&mut self, problem: Problem) {
        if self.list.len() < MOST_PROBLEMS {
            self.list.push(problem);
        } else {
            self.left_out += 1;
        }
    }

    /// Whether one begins here.
    pub fn is_noted_at(&self, place: Place) -> bool {
        self.list.iter().any(|problem| (problem.place.source, problem.place.start) == (place.source, place.start))
    }

    /// Everything noted, in the order of the files.
    pub fn into_report(mut self, sources: &[Source]) -> Report {
        self.list.sort_by_key(|problem| (problem.place.source, problem.place.start));
        let sources = sources.iter().map(|source| (source.name.clone(), source.text.clone())).collect();
        Report { sources, problems: self.list, left_out: self.left_out }
    }
}

/// Everything that is wrong with a config, at once.
#[derive(Clone)]
pub struct Report {
    sources: Vec<(String, String)>,
    problems: Vec<Problem>,
    left_out: usize,
}

/// A problem as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<'a> {
    /// Whether the config can be used all the same.
    pub severity: Severity,
    /// What kind it is.
    pub code: &'static str,
    /// The file, as it was named.
    pub file: &'a str,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: &'a str,
    /// What to do.
    pub help: Option<&'a str>,
}

impl Report {
    /// Problems of these sources, in their order.
    pub fn new(sources: &[Source], problems: impl IntoIterator<Item = Problem>) -> Report {
        let mut collected = Problems::default();
        problems.into_iter().for_each(|problem| collected.add(problem));
        collected.into_report(sources)
    }

    /// This report and, after it, another one.
    pub fn and(mut self, other: Report) -> Report {
        let before = self.sources.len();
        self.sources.extend(other.sources);
        self.problems.extend(other.problems.into_iter().map(|mut problem| {
            problem.place.source += before;
            problem
        }));
        self.left_out += other.left_out;
        self
    }

    /// The problems as data.
    pub fn problems(&self) -> impl Iterator<Item = Located<'_>> {
        self.problems.iter().map(|problem| {
            let (file, text) = self.source(problem.place);
            let (line, column) = line_and_column(text, problem.place.start);
            Located { severity: problem.severity, code: problem.code, file, line, column, message: &problem.message, help: problem.help.as_deref() }
        })
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether any of it makes the config unusable.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The whole report for a person, ending with a line like `3 errors, 1 warning`; empty if there is nothing to say.
    pub fn render(&self, color: bool) -> String {
        if self.is_empty() {
            return String::new();
        }
        let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(120).without_syntax_highlighting();
        let mut page = String::new();
        for problem in &self.problems {
            let (name, text) = self.source(problem.place);
            let shown = Shown { problem, page: Page { name, text } };
            // Writing into a string does not fail; if the handler ever does, the message still gets through.
            if handler.render_report(&mut page, &shown).is_err() {
                page.push_str(&problem.message);
            }
            page.push('\n');
        }
        page.push_str(&self.closing_line());
        page
    }

    fn closing_line(&self) -> String {
        let count = |severity, word| {
            let number = self.problems.iter().filter(|problem| problem.severity == severity).count();
            match number {
                0 => None,
                1 => Some(format!("1 {word}")),
                _ => Some(format!("{number} {word}s")),
            }
        };
        let counts = [count(Severity::Error, "error"), count(Severity::Warning, "warning")];
        let mut line = counts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if self.left_out > 0 {
            line.push_str(&format!(" and {} more", self.left_out));
        }
        line.push('\n');
        line
    }

    fn source(&self, place: Place) -> (&str, &str) {
        self.sources.get(place.source).map_or(("", ""), |(name, text)| (name, text))
    }
}

impl fmt::Display for Report {
    /// One line per problem, without the text of the file: fit for a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{}:{}: {}", problem.file, problem.line, problem.column, problem.message)?;
            if let Some(help) = problem.help {
                write!(f, " ({help})")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Report {
    /// Not derived: the text of a file may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Report {}

/// Line and column of an offset, counted from 1, columns in characters.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// A problem together with its file, as miette wants it.
#[derive(Debug)]
struct Shown<'a> {
    problem: &'a Problem,
    page: Page<'a>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)?;
        // A file without a line has none to show, and its name would stand above it.
        if self.page.text.is_empty() && !self.page.name.is_empty() { write!(f, " ({}:1:1)", self.page.name) } else { Ok(()) }
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.problem.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.page.text.is_empty()).then_some(&self.page as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let window = self.page.line(self.problem.place.start);
        let start = self.problem.place.start.clamp(window.start, window.end);
        // A text of several lines is underlined on its first.
        let length = self.problem.place.length.min(window.end - start);
        Some(Box::new(std::iter::once(LabeledSpan::new(self.problem.label.clone(), start, length))))
    }
}

/// How much of a very long line is shown on each side of a problem: JSON may be one line as a whole.
const SHOWN_AROUND: usize = 100;

/// A file of which exactly the line in question is shown.
#[derive(Debug)]
struct Page<'a> {
    name: &'a str,
    text: &'a str,
}

impl Page<'_> {
    /// The line around an offset without its end, cropped if it is very long.
    fn line(&self, offset: usize) -> Range<usize> {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let (before, after) = self.text.split_at(offset);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = offset + after.find(['\n', '\r']).unwrap_or(after.len());
        let start = start.max(self.text.floor_char_boundary(offset.saturating_sub(SHOWN_AROUND)));
        let end = end.min(self.text.ceil_char_boundary((offset + SHOWN_AROUND).min(self.text.len())));
        start..end.max(start)
    }
}

impl SourceCode for Page<'_> {
    /// miette asks without context for the position of a label, and with context for the text to show.
    fn read_span<'a>(&'a self, span: &SourceSpan, before: usize, _after: usize) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let shown = if before == 0 { span.offset()..span.offset() + span.len() } else { self.line(span.offset()) };
        let data = self.text.get(shown.clone()).ok_or(MietteError::OutOfBounds)?;
        let (line, column) = line_and_column(self.text, shown.start);
        let contents = MietteSpanContents::new_named(self.name.to_owned(), data.as_bytes(), shown.into(), line - 1, column - 1, 1);
        Ok(Box::new(contents))
    }
}

/// The candidate that a misspelt word most likely means.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.chars().filter(|each| !matches!(each, '_' | '-')).flat_map(char::to_lowercase).collect::<String>();
    let word = plain(word);
    let allowed = (word.chars().count() / 3).max(1);
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word, &plain(candidate));
    candidates
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(far, _)| *far <= allowed)
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| candidate)
}
