//! Names of ours for names of others: only ever letters, digits and `_`, and no two alike where they would meet.

use std::collections::{HashMap, HashSet};

/// Characters of a name that is made from another.
const LONGEST: usize = 100;

/// `create_issue` as `createIssue`; `None` if nothing of it can stand in a name.
pub fn camel(raw: &str) -> Option<String> {
    joined(raw, false)
}

/// `create_issue` as `CreateIssue`; `None` if nothing of it can stand in a name.
pub fn pascal(raw: &str) -> Option<String> {
    joined(raw, true)
}

/// How good a claim a name has to what it becomes, the best first: it is that already, it is that in `snake_case`, or it merely comes to the same.
pub fn claim(raw: &str) -> u8 {
    let snake = raw.split('_').all(|word| !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit()));
    if camel(raw).as_deref() == Some(raw) {
        0
    } else if snake {
        1
    } else {
        2
    }
}

/// Words stand between anything that is no letter or digit. A word of capitals only is a word like any other; in the rest
/// inner capitals stay.
fn joined(raw: &str, capital: bool) -> Option<String> {
    let mut name = String::new();
    for word in raw.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = if word.bytes().any(|letter| letter.is_ascii_lowercase()) { word.to_owned() } else { word.to_ascii_lowercase() };
        let (capitals, small) = if name.is_empty() && !capital { (0, leading_capitals(&word)) } else { (1, 0) };
        name.extend(word.chars().enumerate().map(|(at, letter)| match at {
            at if at < small => letter.to_ascii_lowercase(),
            at if at < capitals => letter.to_ascii_uppercase(),
            _ => letter,
        }));
    }
    name.truncate(LONGEST);
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    (!name.is_empty()).then_some(name)
}

/// How many letters at the start of a word become small: of `HTTPServer` those of `HTTP`, of `CreateIssue` the first.
fn leading_capitals(word: &str) -> usize {
    let run = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let before_small = word.as_bytes().get(run).is_some_and(u8::is_ascii_lowercase);
    if run > 1 && before_small { run - 1 } else { run }
}

/// Whether a property can be written without quotes.
pub fn is_identifier(text: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'$');
    text.bytes().all(fits) && text.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Names that are taken.
#[derive(Default)]
pub struct Taken {
    names: HashSet<String>,
    /// The number that is tried next for a stem, so that a thousand equal names do not try a thousand numbers each.
    next: HashMap<String, usize>,
}

impl Taken {
    /// These are taken from the start.
    pub fn with(names: &[&str]) -> Taken {
        Taken { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Taken::default() }
    }

    /// The ending that makes a name free: none, else `_2`, `_3` and so on. With `and` further endings the name must be free with each of them.
    pub fn free(&mut self, stem: &str, and: &[&str]) -> String {
        self.first_free(stem, and, 1)
    }

    /// As [`Taken::free`], for a name that says nothing by itself: `_1`, `_2` and so on.
    pub fn numbered(&mut self, stem: &str) -> String {
        // Counted apart from those of the same stem that have a name of their own.
        let number = self.next.get(&format!("{stem}#")).copied().unwrap_or(1);
        self.next.insert(format!("{stem}#"), number + 1);
        let ending = format!("_{number}");
        if self.names.insert(format!("{stem}{ending}")) { ending } else { self.first_free(stem, &[""], number + 1) }
    }

    fn first_free(&mut self, stem: &str, and: &[&str], from: usize) -> String {
        let mut number = self.next.get(stem).copied().unwrap_or(1).max(from);
        loop {
            let ending = if number == 1 { String::new() } else { format!("_{number}") };
            number += 1;
            let names: Vec<String> = and.iter().map(|last| format!("{stem}{ending}{last}")).collect();
            if names.iter().all(|name| !self.names.contains(name)) {
                self.names.extend(names);
                self.next.insert(stem.to_owned(), number);
                return ending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // cases.md 6.6
    #[test]
    fn names_become_the_names_that_programs_have() {
        for (raw, in_camel, in_pascal) in [
            ("create_issue", "createIssue", "CreateIssue"),
            ("get-user-profile", "getUserProfile", "GetUserProfile"),
            ("createIssue", "createIssue", "CreateIssue"),
            ("CreateIssue", "createIssue", "CreateIssue"),
            ("listAPIKeys", "listAPIKeys", "ListAPIKeys"),
            ("HTTPServer", "httpServer", "HTTPServer"),
            ("list_API_keys", "listApiKeys", "ListApiKeys"),
            ("API", "api", "Api"),
            ("UPPER_CASE", "upperCase", "UpperCase"),
            ("123test", "_123test", "_123test"),
            ("123_test", "_123Test", "_123Test"),
            ("2fa_enable", "_2faEnable", "_2faEnable"),
            ("create__issue", "createIssue", "CreateIssue"),
            ("get---user", "getUser", "GetUser"),
            ("my__api--server", "myApiServer", "MyApiServer"),
            ("create@issue", "createIssue", "CreateIssue"),
            ("get$user!profile", "getUserProfile", "GetUserProfile"),
            ("my.api.server", "myApiServer", "MyApiServer"),
            ("get_user-profile", "getUserProfile", "GetUserProfile"),
            ("mixed_Case-name", "mixedCaseName", "MixedCaseName"),
            ("_private", "private", "Private"),
            ("__init__", "init", "Init"),
            ("__proto__", "proto", "Proto"),
            ("-lead", "lead", "Lead"),
            ("trailing_", "trailing", "Trailing"),
            ("get_2_items", "get2Items", "Get2Items"),
            ("a", "a", "A"),
            ("x", "x", "X"),
            ("delete", "delete", "Delete"),
            ("my-api-server", "myApiServer", "MyApiServer"),
        ] {
            assert_eq!((camel(raw).as_deref(), pascal(raw).as_deref()), (Some(in_camel), Some(in_pascal)), "{raw}");
        }
        for nothing in ["", "日本", "-_-", "éé"] {
            assert_eq!((camel(nothing), pascal(nothing)), (None, None), "{nothing}");
        }
    }

    // D10
    #[test]
    fn nothing_but_letters_digits_and_underscores_comes_out() {
        for raw in ["x(){};import(\"fs\")//", "a`${b}`", "a\u{2028}b", "ａbｃ", "a\\u0041", "*/x"] {
            let name = camel(raw).unwrap();
            assert!(is_identifier(&name) && !name.contains('$'), "{raw} became {name}");
        }
    }

    #[test]
    fn equal_names_get_numbers() {
        let mut taken = Taken::with(&["tools"]);
        let mut name = |stem: &str| format!("{stem}{}", taken.free(stem, &[""]));
        assert_eq!([name("getUser"), name("getUser"), name("getUser"), name("tools")], ["getUser", "getUser_2", "getUser_3", "tools_2"]);
        assert_eq!([taken.numbered("tool"), taken.numbered("tool"), taken.free("tool", &[""])], ["_1", "_2", ""]);
        assert_eq!([taken.free("AB", &["Params", "Result"]), taken.free("AB", &["Params", "Result"])], ["", "_2"]);
        assert_eq!(taken.free("ABParams", &[""]), "_2");
    }
}
