//! Words that were meant: candidates by the pairs of letters they share, judged by edit distance.

use foldhash::fast::RandomState;
use std::collections::HashMap;

type Pair = (char, char);

/// Where a word begins and ends.
const EDGE: char = '\0';

/// Which words have which pairs of neighbouring letters.
#[derive(Default)]
pub struct Pairs(HashMap<Pair, Vec<u32>, RandomState>);

impl Pairs {
    /// Notes a word by its number. Words come in the order of their numbers.
    pub fn add(&mut self, number: u32, word: &str) {
        for pair in pairs(word) {
            let words = self.0.entry(pair).or_default();
            if words.last() != Some(&number) {
                words.push(number);
            }
        }
    }

    /// Numbers of words that share enough pairs with this one to be at most so many edits away; `count` has a place for each word and is left as it
    /// was found: zero.
    pub fn candidates(&self, word: &str, edits: usize, count: &mut [u8]) -> Vec<u32> {
        let mut own: Vec<Pair> = pairs(word).collect();
        own.sort_unstable();
        own.dedup();
        // One edit, two neighbours swapped, changes three pairs at most.
        let enough = u8::try_from(own.len().saturating_sub(3 * edits).max(1)).unwrap_or(u8::MAX);
        let mut touched = Vec::new();
        let mut found = Vec::new();
        for number in own.iter().filter_map(|pair| self.0.get(pair)).flatten() {
            let Some(count) = count.get_mut(*number as usize) else { continue };
            if *count == 0 {
                touched.push(*number);
            }
            *count = count.saturating_add(1);
            if *count == enough {
                found.push(*number);
            }
        }
        for number in touched {
            if let Some(count) = count.get_mut(number as usize) {
                *count = 0;
            }
        }
        found
    }
}

fn pairs(word: &str) -> impl Iterator<Item = Pair> {
    let mut before = EDGE;
    word.chars().chain([EDGE]).map(move |letter| (std::mem::replace(&mut before, letter), letter))
}

/// How many typos a word of so many letters may have.
pub fn tolerated(letters: usize) -> usize {
    match letters {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    }
}

/// How many edits are between two words, if at most so many: letters put in, left out, mistaken, or swapped with their neighbour.
pub fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > most {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
    for (i, letter) in one.iter().enumerate() {
        let mut row = Vec::with_capacity(other.len() + 1);
        row.push(i + 1);
        for (j, wanted) in other.iter().enumerate() {
            let mistaken = at(&last, j) + usize::from(letter != wanted);
            let mut edits = mistaken.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            if i > 0 && j > 0 && one.get(i - 1) == Some(wanted) && other.get(j - 1) == Some(letter) {
                edits = edits.min(at(&before, j - 1) + 1);
            }
            row.push(edits);
        }
        if row.iter().min().is_some_and(|least| *least > most) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|edits| *edits <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_letters_put_in_left_out_mistaken_and_swapped() {
        for (one, other, edits) in [
            ("issue", "issue", Some(0)),
            ("isue", "issue", Some(1)),
            ("serach", "search", Some(1)),
            ("calender", "calendar", Some(1)),
            ("repostory", "repository", Some(1)),
            ("kuberentes", "kubernetes", Some(1)),
            ("mesaeg", "message", Some(2)),
            ("file", "message", None),
            ("", "ab", Some(2)),
            ("straße", "strase", Some(1)),
        ] {
            assert_eq!(distance(one, other, 2), edits, "{one} {other}");
            assert_eq!(distance(other, one, 2), edits, "{other} {one}");
        }
    }

    #[test]
    fn whatever_is_near_enough_is_a_candidate() {
        let words = ["issue", "tissue", "message", "calendar", "repository", "list", "lint", "swap", "paws", "search"];
        let mut pairs = Pairs::default();
        for (number, word) in words.iter().enumerate() {
            pairs.add(u32::try_from(number).unwrap(), word);
        }
        let mut count = vec![0; words.len()];
        for typed in ["isue", "mesage", "calender", "repostiory", "lits", "sawp", "serach", "issue"] {
            let edits = tolerated(typed.chars().count());
            let found = pairs.candidates(typed, edits, &mut count);
            for (number, word) in words.iter().enumerate() {
                if distance(typed, word, edits).is_some() {
                    assert!(found.contains(&u32::try_from(number).unwrap()), "{typed} should find {word}");
                }
            }
            assert!(count.iter().all(|count| *count == 0));
        }
    }
}
