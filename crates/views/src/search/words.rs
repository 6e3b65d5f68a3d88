//! Text taken apart into words, and words brought into the form in which they are compared.

/// Longer words are cut: nobody types them.
const LONGEST: usize = 32;

/// Words that say nothing about a tool.
const EMPTY: [&str; 40] = [
    "a", "about", "all", "an", "and", "any", "are", "at", "by", "can", "do", "for", "from", "how", "i", "if", "in", "into", "is", "it", "its", "me",
    "my", "need", "of", "on", "or", "please", "some", "that", "the", "this", "to", "tool", "use", "using", "want", "what", "which", "with",
];

/// Whether this word says nothing about a tool.
pub fn is_empty(word: &str) -> bool {
    EMPTY.binary_search(&word).is_ok()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Gap,
    Lower,
    Upper,
    Digit,
    /// A sign that is a word by itself: scripts without gaps between words.
    Sign,
}

impl Class {
    fn of(letter: char) -> Class {
        match letter {
            '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => Class::Sign,
            _ if letter.is_numeric() => Class::Digit,
            _ if letter.is_uppercase() => Class::Upper,
            _ if letter.is_alphabetic() => Class::Lower,
            _ => Class::Gap,
        }
    }
}

/// A stretch of letters and digits without a gap.
pub struct Run<'r> {
    /// Its parts, in small letters: split where the case changes and where digits begin and end.
    pub parts: &'r [String],
    /// All of it, in small letters, where there are several parts: `GitHub` is `git` and `hub`, but people write `github`.
    pub joined: Option<&'r str>,
}

/// Takes a text apart. `each` gets one stretch after the other and says whether to go on.
pub fn runs(text: &str, mut each: impl FnMut(Run<'_>) -> bool) {
    let mut parts: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before = Class::Gap;
    let mut letters = text.chars().peekable();
    loop {
        let letter = letters.next();
        let class = letter.map_or(Class::Gap, Class::of);
        let ends_run = class == Class::Gap || class == Class::Sign || before == Class::Sign;
        let ends_word = ends_run
            || match (before, class) {
                (Class::Lower, Class::Upper) | (Class::Digit, Class::Lower | Class::Upper) | (Class::Lower | Class::Upper, Class::Digit) => true,
                // The last capital of several begins a word: `HTTPServer`.
                (Class::Upper, Class::Upper) => letters.peek().is_some_and(|next| Class::of(*next) == Class::Lower),
                _ => false,
            };
        if ends_word && !word.is_empty() {
            parts.push(std::mem::take(&mut word));
        }
        if ends_run && !parts.is_empty() {
            let joined = (parts.len() > 1).then(|| cut(&parts.concat()).to_owned());
            if !each(Run { parts: &parts, joined: joined.as_deref() }) {
                return;
            }
            parts.clear();
        }
        let Some(letter) = letter else { return };
        if class != Class::Gap && word.len() < LONGEST {
            word.extend(letter.to_lowercase());
        }
        before = class;
    }
}

fn cut(word: &str) -> &str {
    word.get(..word.floor_char_boundary(LONGEST)).unwrap_or(word)
}

/// Letters and digits only, small: what is left of a name when nobody remembers how it is joined.
pub fn squeezed(text: &str) -> String {
    let letters = text.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase);
    letters.take(4 * LONGEST).collect()
}

/// A word without its ending, as far as a few rules of English go: `issues`, `repositories`, `creating`, `created` and `creation` become what `issue`,
/// `repository` and `create` become. What it becomes need not be a word.
pub fn stem(word: &str) -> &str {
    if !word.is_ascii() || word.len() < 4 {
        return word;
    }
    let word = singular(word);
    let word = ["ing", "ed", "ion"].iter().find_map(|ending| without(word, ending)).unwrap_or(word);
    // `creat` is what is left of `creating` too.
    word.strip_suffix('e').filter(|rest| rest.len() >= 3).unwrap_or(word)
}

fn singular(word: &str) -> &str {
    if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        return word;
    }
    if let Some(rest) = word.strip_suffix("es") {
        if ["s", "x", "z", "ch", "sh"].iter().any(|sibilant| rest.ends_with(sibilant)) {
            return rest;
        }
        // `repositories` and `repository` meet at `repositor`: see below.
        if let Some(rest) = rest.strip_suffix('i').filter(|rest| rest.len() >= 3) {
            return rest;
        }
    }
    if let Some(rest) = word.strip_suffix('y').filter(|rest| rest.len() >= 3 && !rest.ends_with(['a', 'e', 'i', 'o', 'u'])) {
        return rest;
    }
    word.strip_suffix('s').unwrap_or(word)
}

fn without<'w>(word: &'w str, ending: &str) -> Option<&'w str> {
    let rest = word.strip_suffix(ending)?;
    if rest.len() < 3 || !rest.contains(['a', 'e', 'i', 'o', 'u', 'y']) || (ending == "ion" && !rest.ends_with(['s', 't'])) {
        return None;
    }
    // `running`, but not `calling`.
    let bytes = rest.as_bytes();
    match bytes {
        [.., one, other] if one == other && !matches!(other, b'l' | b's' | b'z') => rest.get(..rest.len() - 1),
        _ => Some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        runs(text, |run| {
            words.extend(run.parts.iter().cloned());
            words.extend(run.joined.map(|joined| format!("={joined}")));
            true
        });
        words
    }

    #[test]
    fn words_end_at_gaps_at_changes_of_case_and_at_digits() {
        for (text, words) in [
            ("read_file", "read file"),
            ("get-user profile.name", "get user profile name"),
            ("createIssue", "create issue =createissue"),
            ("HTTPServer", "http server =httpserver"),
            ("GitHub issues", "git hub =github issues"),
            ("list_API_keys", "list api keys"),
            ("oauth2token", "oauth 2 token =oauth2token"),
            ("v2", "v 2 =v2"),
            ("Ünïcode-Straße", "ünïcode straße"),
            ("天気 tool", "天 気 tool"),
            ("  __ ", ""),
        ] {
            assert_eq!(split(text).join(" "), words, "{text}");
        }
    }

    #[test]
    fn a_word_is_never_longer_than_anybody_types() {
        for word in split(&"ab1".repeat(1_000)).iter().chain(&split(&"ü".repeat(1_000))) {
            assert!(word.len() <= LONGEST + 8, "{}", word.len());
        }
        assert!(squeezed(&"a".repeat(10_000)).len() <= 4 * LONGEST);
    }

    #[test]
    fn the_forms_of_a_word_have_one_stem() {
        for forms in [
            &["issue", "issues"][..],
            &["repository", "repositories"],
            &["create", "creates", "created", "creating", "creation"],
            &["delete", "deleted", "deleting", "deletion"],
            &["branch", "branches"],
            &["box", "boxes"],
            &["run", "running"],
            &["query", "queries"],
            &["city", "cities"],
            &["message", "messages"],
            &["call", "calls", "calling"],
        ] {
            let stems: Vec<&str> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{forms:?}: {stems:?}");
        }
        for (one, other) in [("status", "statu"), ("user", "use"), ("string", "str"), ("class", "clas")] {
            assert_ne!(stem(one), stem(other));
        }
    }

    #[test]
    fn empty_words_are_in_order() {
        assert!(EMPTY.is_sorted());
        assert!(is_empty("the") && !is_empty("file"));
    }
}
