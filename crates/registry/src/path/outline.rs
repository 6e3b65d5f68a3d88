//! What a path is made of, read before the JSONPath library sees the text.
//!
//! The library reads filters by recursion and would overflow the stack on a text of parentheses, so length and nesting are
//! bounded here. The outline also says whether a path is a singular query, which is then walked without the library, and
//! what evaluating it may cost. The grammar in full is the library's business: what is read here may still be refused there.

use super::{BadPath, Rules};
use std::ops::Range;

const LENGTH: usize = 512;
const NESTING: usize = 16;
const DESCENDANTS: usize = 2;
/// The library reads a query in a filter twice (a comparison? a test?), so filters in filters double its work each time.
const FILTERS: usize = 4;
/// The library compiles a regular expression anew for every value it looks at.
const PATTERN: u64 = 500;

/// A query: `$` or `@` and its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    absolute: bool,
    pub segments: Vec<Segment>,
}

/// One step of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `..` instead of `.`
    pub descendant: bool,
    pub selectors: Vec<Selector>,
}

/// What a segment takes of each value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A member.
    Name(String),
    /// An element.
    Index(i64),
    /// `*` or a slice.
    Many,
    /// Members and elements that pass a test.
    Filter {
        /// The queries of the test.
        queries: Vec<Query>,
        /// How many regular expressions it has.
        patterns: u64,
    },
}

impl Query {
    /// An upper bound of the values that are looked at when the query runs on so many values, nested so deeply.
    pub fn work(&self, nodes: u64, depth: u64) -> u64 {
        let mut work = 1u64;
        // How often one value may be in the list, and whether the list has at most one value at all.
        let mut times = 1u64;
        let mut single = true;
        for segment in &self.segments {
            if let (false, true, [Selector::Name(_) | Selector::Index(_)]) = (segment.descendant, single, segment.selectors.as_slice()) {
                work = work.saturating_add(1);
                continue;
            }
            // The children of one value share out what is below them; values of several levels count it once per level.
            let levels = if single && !segment.descendant { 1 } else { depth.max(1) };
            if segment.descendant && !single {
                // `..` reaches a value once from each container around it that is in the list.
                times = times.saturating_mul(levels);
            }
            single = false;
            let visits = times.saturating_mul(nodes);
            let mut overlapping = 0u64;
            let mut names: Vec<&str> = Vec::new();
            for selector in &segment.selectors {
                work = work.saturating_add(visits);
                match selector {
                    // Different names never select the same member.
                    Selector::Name(name) if !names.contains(&name.as_str()) => names.push(name),
                    Selector::Name(_) | Selector::Index(_) | Selector::Many => overlapping += 1,
                    Selector::Filter { queries, patterns } => {
                        overlapping += 1;
                        work = work.saturating_add(visits.saturating_mul(patterns.saturating_mul(PATTERN)));
                        for query in queries {
                            let each = query.work(nodes, depth);
                            // A walk takes a step or two for each child, `@` reads what is below each, `$` all of it for each.
                            let runs = if query.absolute || query.is_singular() { visits } else { times.saturating_mul(levels) };
                            work = work.saturating_add(runs.saturating_mul(each));
                        }
                    }
                }
            }
            times = times.saturating_mul((overlapping + u64::from(!names.is_empty())).max(1));
        }
        work
    }

    /// Whether it selects at most one value, whatever the document.
    pub fn is_singular(&self) -> bool {
        let single = |segment: &Segment| !segment.descendant && matches!(segment.selectors.as_slice(), [Selector::Name(_) | Selector::Index(_)]);
        self.segments.iter().all(single)
    }
}

/// Reads the outline of a path, or says which limit or rule it breaks, and where.
pub fn read(text: &str, rules: &Rules) -> Result<Query, BadPath> {
    if text.len() > LENGTH {
        let start = (0..=LENGTH).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let message = format!("a path has at most {LENGTH} bytes, and this one has {}", text.len());
        return Err(BadPath { at: start..text.len(), message, help: Some("select a value higher up and give `properties` of its own".into()) });
    }
    let mut reader = Reader { text, at: 0, nesting: 0, descendants: 0, filters: 0, rules, repairs: true };
    if reader.peek() != Some('$') {
        return Err(no_root(text));
    }
    let query = reader.query()?;
    if reader.at < text.len() { Err(reader.leftover()) } else { Ok(query) }
}

/// Paths of other languages begin without `$`.
fn no_root(text: &str) -> BadPath {
    let trimmed = text.trim();
    let rooted = match trimmed.chars().next() {
        Some('$') => trimmed.to_owned(),
        Some('[' | '.') => format!("${trimmed}"),
        _ => format!("$.{trimmed}"),
    };
    BadPath { at: 0..text.len(), message: "a path begins with `$`".into(), help: suggestion(&rooted) }
}

/// A repair is offered only if it is a path. The library is asked last: it panics on a text that ends within an escape.
fn suggestion(text: &str) -> Option<String> {
    (is_path(text) && serde_json_path::JsonPath::parse(text).is_ok()).then(|| format!("did you mean `{text}`?"))
}

/// Whether the text has the outline of a path.
fn is_path(text: &str) -> bool {
    let rules = Rules { full: true };
    let mut reader = Reader { text, at: 0, nesting: 0, descendants: 0, filters: 0, rules: &rules, repairs: false };
    text.len() <= LENGTH && reader.peek() == Some('$') && reader.query().is_ok() && reader.at == text.len()
}

struct Reader<'p> {
    text: &'p str,
    at: usize,
    nesting: usize,
    descendants: usize,
    filters: usize,
    rules: &'p Rules,
    /// Whether to look for what was meant. Not in a repair.
    repairs: bool,
}

impl<'p> Reader<'p> {
    /// `$` or `@` and the segments after it. Recursion (a query in a filter of a query) is bounded by the nesting.
    fn query(&mut self) -> Result<Query, BadPath> {
        let absolute = self.peek() == Some('$');
        self.at += 1;
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.space();
            let start = self.at;
            if self.rest().starts_with("..") {
                self.at += 2;
                self.descendants += 1;
                if self.descendants > DESCENDANTS && !self.rules.full {
                    return Err(self.banned(start..self.at, format!("a path has at most {DESCENDANTS} `..`")));
                }
                let selectors = if self.peek() == Some('[') { self.brackets()? } else { vec![self.shorthand(start)?] };
                segments.push(Segment { descendant: true, selectors });
            } else if self.peek() == Some('.') {
                self.at += 1;
                segments.push(Segment { descendant: false, selectors: vec![self.shorthand(start)?] });
            } else if self.peek() == Some('[') {
                segments.push(Segment { descendant: false, selectors: self.brackets()? });
            } else {
                // White space that no segment follows is not part of the query.
                self.at = before;
                return Ok(Query { absolute, segments });
            }
        }
    }

    /// What follows a dot.
    fn shorthand(&mut self, dot: usize) -> Result<Selector, BadPath> {
        if self.peek() == Some('*') {
            self.at += 1;
            return Ok(Selector::Many);
        }
        let rest = self.rest();
        let length = rest.find(|each: char| each.is_ascii() && !each.is_ascii_alphanumeric() && each != '_').unwrap_or(rest.len());
        let name = rest.get(..length).unwrap_or_default();
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(self.bad_name(dot));
        }
        self.at += length;
        Ok(Selector::Name(name.to_owned()))
    }

    fn brackets(&mut self) -> Result<Vec<Selector>, BadPath> {
        let open = self.at;
        self.nest()?;
        let mut selectors = Vec::new();
        loop {
            self.space();
            selectors.push(match self.peek() {
                Some('\'' | '"') => Selector::Name(self.quoted()?),
                Some('?') => self.filter()?,
                Some('*') => {
                    self.at += 1;
                    Selector::Many
                }
                _ => self.index_or_slice(),
            });
            self.space();
            match self.peek() {
                Some(',') => self.at += 1,
                Some(']') => {
                    self.at += 1;
                    self.nesting -= 1;
                    return Ok(selectors);
                }
                Some(other) => {
                    let at = self.at..self.at + other.len_utf8();
                    let help = "inside `[ ]` stand a quoted name, an index, a slice, `*` or a filter `?…`";
                    return Err(BadPath { at, message: format!("`{other}` is not expected inside the brackets"), help: Some(help.into()) });
                }
                None => return Err(self.unclosed(open, "[", "]")),
            }
        }
    }

    /// Digits, signs and colons; the library checks them.
    fn index_or_slice(&mut self) -> Selector {
        let rest = self.rest();
        let length = rest.find(|each: char| !matches!(each, '0'..='9' | '-' | ':' | ' ' | '\t' | '\n' | '\r')).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).and_then(|index| index.trim_end().parse().ok()).map_or(Selector::Many, Selector::Index)
    }

    /// A test: everything up to the bracket or comma that ends it. Queries in it are read, the rest is stepped over.
    fn filter(&mut self) -> Result<Selector, BadPath> {
        self.filters += 1;
        if self.filters > FILTERS {
            let message = format!("filters stand at most {FILTERS} deep in one another");
            return Err(BadPath { at: self.at..self.at + 1, message, help: None });
        }
        self.at += 1;
        let (mut queries, mut patterns) = (Vec::new(), 0);
        let mut open = Vec::new();
        while let Some(next) = self.peek() {
            match next {
                '\'' | '"' => {
                    self.quoted()?;
                }
                '@' => queries.push(self.query()?),
                '$' if self.rules.full => queries.push(self.query()?),
                '$' => return Err(self.banned(self.at..self.at + 1, "`$` inside a filter reads the whole document again for every value".into())),
                '(' => {
                    open.push(self.at);
                    self.nest()?;
                }
                ')' => {
                    if open.pop().is_none() {
                        let message = "this parenthesis was never opened".into();
                        return Err(BadPath { at: self.at..self.at + 1, message, help: None });
                    }
                    self.nesting -= 1;
                    self.at += 1;
                }
                ']' | ',' if open.is_empty() => break,
                'a'..='z' => patterns += self.word()?,
                _ => self.at += next.len_utf8(),
            }
        }
        match open.pop() {
            Some(open) => Err(self.unclosed(open, "(", ")")),
            None => {
                self.filters -= 1;
                Ok(Selector::Filter { queries, patterns })
            }
        }
    }

    /// A function or a literal such as `true`; gives 1 for a function that takes a regular expression.
    fn word(&mut self) -> Result<u64, BadPath> {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find(|each: char| !matches!(each, 'a'..='z' | '0'..='9' | '_')).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        self.at += length;
        if !matches!(word, "match" | "search") {
            return Ok(0);
        }
        if self.rules.full { Ok(1) } else { Err(self.banned(start..self.at, format!("`{word}` takes a regular expression"))) }
    }

    /// A quoted name or text, unescaped.
    fn quoted(&mut self) -> Result<String, BadPath> {
        let open = self.at;
        let quote = self.peek().unwrap_or('\'');
        let mut json = String::from("\"");
        self.at += 1;
        while let Some(next) = self.peek() {
            self.at += next.len_utf8();
            match next {
                _ if next == quote => {
                    json.push('"');
                    // Both languages have the same escapes, but for the quotes. What JSON does not know, the library refuses.
                    let text = transom_json::check(json.as_bytes(), &transom_json::Limits::REPLY).ok().and_then(transom_json::Json::string);
                    return Ok(text.map(|text| text.into_owned()).unwrap_or_default());
                }
                '\\' => {
                    let Some(escaped) = self.peek() else { break };
                    self.at += escaped.len_utf8();
                    if escaped != '\'' {
                        json.push('\\');
                    }
                    json.push(escaped);
                }
                '"' => json.push_str("\\\""),
                _ => json.push(next),
            }
        }
        Err(self.unclosed(open, &quote.to_string(), &quote.to_string()))
    }

    fn nest(&mut self) -> Result<(), BadPath> {
        self.nesting += 1;
        if self.nesting > NESTING {
            let message = format!("brackets and parentheses stand at most {NESTING} deep in one another");
            return Err(BadPath { at: self.at..self.at + 1, message, help: None });
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'p str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn banned(&self, at: Range<usize>, message: String) -> BadPath {
        BadPath { at, message, help: Some("`registry.jsonpath: full` in the config allows it".into()) }
    }

    fn unclosed(&self, open: usize, left: &str, right: &str) -> BadPath {
        BadPath { at: open..open + 1, message: format!("this `{left}` is never closed"), help: Some(format!("a `{right}` is missing")) }
    }

    /// A name after a dot that has to stand in quotes, or is not there at all.
    fn bad_name(&self, dot: usize) -> BadPath {
        let (end, help) = self.in_brackets(self.at);
        if end == self.at {
            return BadPath { at: dot..end, message: "a name or `*` is missing after the dot".into(), help: Some("for example `$.name`".into()) };
        }
        let name = self.text.get(self.at..end).unwrap_or_default();
        BadPath { at: self.at..end, message: format!("`{name}` cannot follow a dot without quotes"), help }
    }

    /// Text that is no segment: most often the rest of a name that needs quotes.
    fn leftover(&self) -> BadPath {
        let before = self.text.get(..self.at).unwrap_or_default();
        let name = before.rfind('.').map_or(self.at, |dot| dot + 1);
        let (end, help) = if before.get(name..).is_some_and(|name| !name.contains(']')) { self.in_brackets(name) } else { (self.text.len(), None) };
        let at = self.at..end.max(self.at);
        let rest = self.text.get(at.clone()).unwrap_or_default().trim();
        BadPath { at, message: format!("`{rest}` is not part of a path"), help }
    }

    /// Where the name that begins here ends, at the next dot or bracket, and a suggestion with that name in brackets.
    fn in_brackets(&self, start: usize) -> (usize, Option<String>) {
        let (before, rest) = self.text.split_at_checked(start).unwrap_or_default();
        let (name, after) = rest.split_at_checked(rest.find(['.', '[']).unwrap_or(rest.len())).unwrap_or_default();
        let end = start + name.len();
        let before = before.strip_suffix('.').filter(|shorter| !shorter.ends_with('.')).unwrap_or(before);
        let repaired = match name.trim_end() {
            "" => return (end, None),
            index if index.bytes().all(|byte| byte.is_ascii_digit()) => format!("{before}[{index}]{after}"),
            name => format!("{before}['{}']{after}", name.replace('\'', "\\'")),
        };
        (end, self.repairs.then(|| suggestion(&repaired)).flatten())
    }
}
