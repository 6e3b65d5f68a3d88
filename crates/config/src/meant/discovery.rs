//! What `discovery` means: which tools lists show.

use super::{Meaning, is_tool_name_character};
use crate::file::{self, DiscoveryMode, Text};
use crate::problem::{Problem, did_you_mean};
use crate::shape::TextOr;
use crate::written::Written;
use transom_gateway::Discovery;

impl Meaning<'_> {
    /// Which tools lists show.
    pub(super) fn discovery(&self, written: &Written<TextOr<file::Discovery>>) -> Discovery {
        let mut discovery = Discovery::default();
        match written.get() {
            None => {}
            Some((TextOr::Text(text), place)) => {
                if let Some(resolved) = self.filled("discovery", &Written::new(text.clone(), place)) {
                    let words = DiscoveryMode::ALL.map(|(word, _)| word);
                    match DiscoveryMode::ALL.iter().find(|(word, _)| *word == resolved.text.trim()) {
                        Some((_, mode)) => discovery.mode = meant(*mode),
                        None => {
                            let choices = format!("it can be: {}, or a map with `mode`", words.join(", "));
                            let guess = did_you_mean(resolved.written, words).map_or(String::new(), |word| format!("did you mean `{word}`? "));
                            let problem = Problem::error(place, format!("`discovery` cannot be `{}`", resolved.written));
                            self.note(problem.label("not one of its values").help(format!("{guess}{choices}")));
                        }
                    }
                }
            }
            Some((TextOr::Map(map), place)) => {
                if map.mode.is_missing() {
                    self.note(Problem::error(place, "`discovery` has no `mode`").help("add `mode: search`, or `mode: auto` for long lists only"));
                }
                discovery.mode = map.mode.value.map_or(discovery.mode, meant);
                discovery.threshold = self.threshold(&map.threshold).unwrap_or(discovery.threshold);
                discovery.pinned = self.all(&map.pinned, |meaning, pattern| {
                    if !pattern.text.is_empty() && pattern.text.chars().all(|each| is_tool_name_character(each) || each == '*') {
                        return Some(pattern.text);
                    }
                    meaning.note(
                        Problem::error(pattern.place, format!("`{}` fits no tool", pattern.written))
                            .help("write the name of a tool, in which `*` stands for anything, like `get_*`"),
                    );
                    None
                });
            }
        }
        discovery
    }

    fn threshold(&self, written: &Written<Text>) -> Option<usize> {
        let resolved = self.text(written)?;
        let parsed = resolved.text.trim().parse().ok();
        if parsed.is_none() {
            let problem = Problem::error(resolved.place, format!("`threshold` cannot be `{}`", resolved.written));
            self.note(problem.help("write how many tools a list may have before it becomes short, like `100`"));
        }
        parsed
    }
}

fn meant(mode: DiscoveryMode) -> transom_gateway::DiscoveryMode {
    match mode {
        DiscoveryMode::List => transom_gateway::DiscoveryMode::List,
        DiscoveryMode::Search => transom_gateway::DiscoveryMode::Search,
        DiscoveryMode::Auto => transom_gateway::DiscoveryMode::Auto,
    }
}
