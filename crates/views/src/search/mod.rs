//! Tools by what they are about: an index over names, titles, descriptions, argument names and targets.
//!
//! The ranking is BM25 over weighted fields, brought between 0 and 1: 1 would be a tool that is about nothing but every word of the query. A word finds
//! itself, words that begin like it, and, where nobody wrote it so, words it is a typo of.
//!
//! One index serves readers who see different parts of it. What somebody does not see counts in nothing: how rare a word is, whether it was ever
//! written so, and how many tools there are is found out among those that are seen. So a search of a part gives what a search of an index over only
//! that part gives, to the digit.
//!
//! In reading order: [`words`] (text to words) · [`fields`] (what of a tool is searched) · [`typos`] (words that were meant) · and here the index.

mod fields;
mod typos;
mod words;

pub use fields::Field;

use crate::Tool;
use foldhash::fast::RandomState;
use std::cmp::Ordering;
use std::collections::HashMap;
use typos::Pairs;

/// The most bytes of a query that are looked at.
const QUERY: usize = 512;
/// The most words of a query that are looked at.
const WORDS: usize = 16;
/// The most words of the index that one word of a query stands for.
const MEANINGS: usize = 48;
/// Shorter words stand for nothing but themselves.
const SHORTEST_BEGINNING: usize = 3;
/// How soon more of the same word counts no more: `k1` of BM25.
const SATURATION: f32 = 1.2;

/// The numbers of terms while an index is built.
type Numbers = HashMap<Box<str>, u32, RandomState>;

/// An index over tools. They are known by their place among those it was built of.
#[derive(Default)]
pub struct Index {
    names: Vec<Box<str>>,
    /// The names again, letters and digits only.
    squeezed: Vec<Box<str>>,
    /// By the number of a term: the term.
    terms: Vec<Box<str>>,
    /// By the number of a term: where it stands.
    postings: Vec<Vec<Posting>>,
    /// The numbers of the terms, in the order of the terms.
    sorted: Vec<u32>,
    pairs: Pairs,
}

/// That a term stands in a tool.
#[derive(Clone, Copy)]
struct Posting {
    tool: u32,
    /// How often, weighted by where.
    weight: f32,
    /// Where: a bit for each field.
    fields: u8,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// In words.
    pub text: &'q str,
    /// At most so many tools.
    pub limit: usize,
    /// None that scores less.
    pub threshold: f64,
}

/// A tool that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its place among those the index was built of.
    pub tool: usize,
    /// How well it fits: more than 0, less than 1.
    pub score: f64,
    /// Where words of the query were found.
    pub matched: Vec<Field>,
}

/// A term that a word of a query stands for.
struct Meaning {
    term: u32,
    /// How sure that is, from 0 to 1.
    quality: f32,
}

/// What one word of a query found in one tool.
#[derive(Clone, Copy, Default)]
struct Best {
    score: f32,
    fields: u8,
}

impl Index {
    /// Over these tools.
    pub fn build<'t>(tools: impl IntoIterator<Item = Tool<'t>>) -> Index {
        let mut index = Index::default();
        let mut numbers = Numbers::default();
        for tool in tools {
            index.add(&tool, &mut numbers);
        }
        let mut terms: Vec<(Box<str>, u32)> = numbers.into_iter().collect();
        terms.sort_unstable();
        index.sorted = terms.iter().map(|(_, number)| *number).collect();
        terms.sort_unstable_by_key(|(_, number)| *number);
        index.terms = terms.into_iter().map(|(term, _)| term).collect();
        for (number, term) in (0..).zip(&index.terms) {
            index.pairs.add(number, term);
        }
        index
    }

    /// How many tools it is over.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it is over none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn add(&mut self, tool: &Tool<'_>, numbers: &mut Numbers) {
        let Ok(number) = u32::try_from(self.names.len()) else { return };
        let squeezed = words::squeezed(tool.name);
        let postings = &mut self.postings;
        let mut number_of = |term: &str| match numbers.get(term) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(postings.len()).unwrap_or(u32::MAX);
                numbers.insert(term.into(), number);
                postings.push(Vec::new());
                number
            }
        };
        let mut found: Vec<(u32, Field)> = Vec::new();
        let mut lengths = [0usize; Field::ALL.len()];
        fields::texts(tool, |field, text| {
            words::runs(text, |run| {
                let Some(length) = lengths.get_mut(field as usize) else { return false };
                for part in run.parts.iter().take(field.most_words().saturating_sub(*length)) {
                    found.push((number_of(words::stem(part)), field));
                    *length += 1;
                }
                if let Some(joined) = run.joined {
                    found.push((number_of(words::stem(joined)), field));
                }
                *length < field.most_words()
            });
        });
        // People forget how the words of a name are joined.
        let whole = (number_of(words::stem(&squeezed)), Field::Name);
        if !found.contains(&whole) {
            found.push(whole);
        }
        found.sort_unstable();
        let norm = |field: Field| {
            let length = lengths.get(field as usize).copied().unwrap_or(0) as f32;
            1.0 - field.slope() + field.slope() * length / field.usual()
        };
        let norms = Field::ALL.map(norm);
        let mut rest = found.as_slice();
        while let Some((term, _)) = rest.first().copied() {
            let (same, others) = rest.split_at(rest.partition_point(|(other, _)| *other == term));
            rest = others;
            let mut posting = Posting { tool: number, weight: 0.0, fields: 0 };
            for (_, field) in same {
                posting.weight += field.weight() / norms.get(*field as usize).copied().unwrap_or(1.0);
                posting.fields |= 1 << (*field as u8);
            }
            if let Some(postings) = self.postings.get_mut(term as usize) {
                postings.push(posting);
            }
        }
        self.names.push(tool.name.into());
        self.squeezed.push(squeezed.into());
    }

    /// The tools that fit best, best first; of two that fit alike the one whose name comes first. `sees` says which tools there are for whoever asks,
    /// by their places.
    pub fn search(&self, query: &Query<'_>, sees: impl Fn(usize) -> bool) -> Vec<Hit> {
        let seen: Vec<bool> = (0..self.names.len()).map(sees).collect();
        let search = Search { index: self, seen: &seen, total: seen.iter().filter(|seen| **seen).count() };
        search.run(query)
    }
}

/// One search, by somebody who sees this much.
struct Search<'s> {
    index: &'s Index,
    seen: &'s [bool],
    total: usize,
}

impl Search<'_> {
    fn run(&self, query: &Query<'_>) -> Vec<Hit> {
        let text = query.text.get(..query.text.floor_char_boundary(QUERY)).unwrap_or_default();
        let mut scores = vec![Best::default(); self.seen.len()];
        let mut found: Vec<u32> = Vec::new();
        let mut best = vec![Best::default(); self.seen.len()];
        let mut count = vec![0u8; self.index.postings.len()];
        let mut possible = 0.0f32;
        for word in self.words(text) {
            let meanings = self.meanings(&word, &mut count);
            let exact = meanings.first().filter(|meaning| meaning.quality >= 1.0).map(|meaning| meaning.term);
            let mut touched: Vec<u32> = Vec::new();
            for Meaning { term, quality } in meanings {
                for posting in self.postings(term) {
                    let Some(best) = best.get_mut(posting.tool as usize) else { continue };
                    if best.fields == 0 {
                        touched.push(posting.tool);
                    }
                    best.score = best.score.max(quality * posting.weight / (SATURATION + posting.weight));
                    best.fields |= posting.fields;
                }
            }
            let having = exact.map_or(touched.len(), |term| self.postings(term).count());
            let rarity = rarity(self.total, having);
            possible += rarity;
            for tool in touched {
                let (Some(best), Some(score)) = (best.get_mut(tool as usize), scores.get_mut(tool as usize)) else { continue };
                if score.fields == 0 {
                    found.push(tool);
                }
                score.score += rarity * best.score;
                score.fields |= best.fields;
                *best = Best::default();
            }
        }
        let squeezed = words::squeezed(text);
        let mut hits: Vec<Hit> = found
            .into_iter()
            .filter_map(|tool| {
                let tool = tool as usize;
                let Best { score, fields } = scores.get(tool).copied()?;
                let mut score = f64::from(score) / f64::from(possible);
                if self.index.squeezed.get(tool).is_some_and(|name| **name == *squeezed) {
                    // Whoever writes the whole name means it.
                    score += (1.0 - score) / 2.0;
                }
                let score = (score * 10_000.0).round() / 10_000.0;
                let matched = Field::ALL.into_iter().filter(|field| fields & (1 << (*field as u8)) != 0).collect();
                (score > 0.0 && score >= query.threshold).then_some(Hit { tool, score: score.min(0.9999), matched })
            })
            .collect();
        let name = |hit: &Hit| self.index.names.get(hit.tool);
        hits.sort_unstable_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal).then_with(|| name(a).cmp(&name(b))));
        hits.truncate(query.limit);
        hits
    }

    /// The words of a query, each once. What says nothing is left out, unless nothing else is said.
    fn words(&self, text: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        words::runs(text, |run| {
            let joined = run.joined.filter(|joined| self.number(words::stem(joined)).is_some());
            let words: Vec<&str> = joined.map_or_else(|| run.parts.iter().map(String::as_str).collect(), |joined| vec![joined]);
            for word in words {
                if !all.iter().any(|known| known == word) {
                    all.push(word.to_owned());
                }
            }
            all.len() < 4 * WORDS
        });
        let mut telling: Vec<String> = all.iter().filter(|word| !words::is_empty(word)).cloned().collect();
        if telling.is_empty() {
            telling = all;
        }
        telling.truncate(WORDS);
        telling
    }

    /// What a word stands for, itself first.
    fn meanings(&self, word: &str, count: &mut [u8]) -> Vec<Meaning> {
        let stem = words::stem(word);
        let mut meanings: Vec<Meaning> = Vec::new();
        let exact = self.number(stem);
        meanings.extend(exact.map(|term| Meaning { term, quality: 1.0 }));
        let letters = stem.chars().count();
        if letters >= SHORTEST_BEGINNING {
            for number in self.from(stem) {
                let Some(term) = self.term(number).filter(|term| term.starts_with(stem)) else { break };
                if Some(number) != exact && self.is_seen(number) {
                    let share = letters as f32 / term.chars().count().max(1) as f32;
                    meanings.push(Meaning { term: number, quality: 0.35 + 0.45 * share });
                }
            }
        }
        let edits = typos::tolerated(word.chars().count());
        if exact.is_none() && edits > 0 {
            for number in self.index.pairs.candidates(stem, edits, count) {
                let Some(term) = self.term(number).filter(|term| !term.starts_with(stem)) else { continue };
                // Nobody means a short word by a long one. A stem has lost a letter.
                let edits = edits.min(typos::tolerated(term.chars().count() + 1));
                if let Some(edits) = typos::distance(stem, term, edits)
                    && edits > 0
                    && self.is_seen(number)
                {
                    meanings.push(Meaning { term: number, quality: if edits == 1 { 0.75 } else { 0.5 } });
                }
            }
        }
        // Not by number: numbers depend on tools that are not seen.
        meanings.sort_unstable_by(|a, b| {
            let by_quality = b.quality.partial_cmp(&a.quality).unwrap_or(Ordering::Equal);
            by_quality.then_with(|| self.term(a.term).cmp(&self.term(b.term)))
        });
        meanings.truncate(MEANINGS);
        meanings
    }

    /// The number of a term that stands in some tool that is seen.
    fn number(&self, term: &str) -> Option<u32> {
        let number = self.from(term).next()?;
        (self.term(number) == Some(term) && self.is_seen(number)).then_some(number)
    }

    /// The numbers of this term and of those that come after it in order.
    fn from(&self, term: &str) -> impl Iterator<Item = u32> {
        let sorted = &self.index.sorted;
        let from = sorted.partition_point(|number| self.term(*number).is_some_and(|other| other < term));
        sorted.iter().skip(from).copied()
    }

    fn term(&self, number: u32) -> Option<&str> {
        self.index.terms.get(number as usize).map(|term| &**term)
    }

    fn is_seen(&self, term: u32) -> bool {
        self.postings(term).next().is_some()
    }

    /// Where a term stands, among the tools that are seen.
    fn postings(&self, term: u32) -> impl Iterator<Item = &Posting> {
        let all = self.index.postings.get(term as usize).map_or(&[][..], Vec::as_slice);
        all.iter().filter(|posting| self.seen.get(posting.tool as usize).copied().unwrap_or(false))
    }
}

/// How much a word tells that so many of so many tools have: the rarer, the more.
fn rarity(total: usize, having: usize) -> f32 {
    let (total, having) = (total as f32, having as f32);
    (1.0 + (total - having + 0.5) / (having + 0.5)).ln()
}

#[cfg(test)]
mod tests;
