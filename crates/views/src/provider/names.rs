//! Names that every provider takes, and the way back from them.

use super::Provider;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// What providers accept.
pub const LONGEST_NAME: usize = 64;

/// How much of its hash a changed name carries: more where less is not unique.
const DIGITS: [usize; 3] = [8, 16, 32];

/// The safe names of a list of tools. A name that is safe already stays as it is; any other becomes what is left of it and
/// part of its hash. So a safe name depends on the tool's name alone, except where two would be the same.
pub struct SafeNames<'n> {
    changed: HashMap<&'n str, String>,
}

impl<'n> SafeNames<'n> {
    /// For these tools of a provider's list.
    pub fn of(provider: Provider, names: impl IntoIterator<Item = &'n str>) -> SafeNames<'n> {
        let (mut taken, mut waiting) = (HashSet::new(), Vec::new());
        for name in names {
            if is_safe(provider, name) {
                taken.insert(name.to_owned());
            } else {
                waiting.push(name);
            }
        }
        waiting.sort_unstable();
        waiting.dedup();
        let mut changed = HashMap::with_capacity(waiting.len());
        for digits in DIGITS {
            let wished: Vec<(&str, String)> = waiting.drain(..).map(|name| (name, shortened(provider, name, digits))).collect();
            let mut wishes: HashMap<&str, usize> = HashMap::new();
            for (_, wish) in &wished {
                *wishes.entry(wish).or_default() += 1;
            }
            // Whoever meets another gives way, and not only the later one: nobody takes over a name that a model already knows.
            let (free, others): (Vec<_>, Vec<_>) =
                wished.iter().partition(|(_, wish)| wishes.get(wish.as_str()) == Some(&1) && !taken.contains(wish));
            waiting.extend(others.into_iter().map(|(name, _)| *name));
            for (name, wish) in free {
                taken.insert(wish.clone());
                changed.insert(*name, wish.clone());
            }
        }
        SafeNames { changed }
    }

    /// The safe form of a name.
    pub fn safe<'a>(&'a self, name: &'a str) -> &'a str {
        self.changed.get(name).map_or(name, String::as_str)
    }

    fn original(&self, safe: &str) -> Option<&'n str> {
        self.changed.iter().find(|(_, changed)| *changed == safe).map(|(name, _)| *name)
    }
}

/// The one of these names that a safe name, of whichever provider, stands for. A name that stands for itself is none.
pub fn original<'n>(names: impl Iterator<Item = &'n str> + Clone, safe: &str) -> Option<&'n str> {
    // Most of what is asked for was never made here, and then nothing needs to be worked out.
    let (_, hash) = safe.rsplit_once('_')?;
    if safe.len() > LONGEST_NAME || !DIGITS.contains(&hash.len()) || !hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    // Gemini's rule is the narrower one, the others share theirs.
    [Provider::OpenAi, Provider::Gemini].into_iter().find_map(|provider| SafeNames::of(provider, names.clone()).original(safe))
}

fn is_safe(provider: Provider, name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_safe_byte) && begins_well(provider, name)
}

fn is_safe_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Gemini's names begin with a letter or an underscore.
fn begins_well(provider: Provider, name: &str) -> bool {
    provider != Provider::Gemini || name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn shortened(provider: Provider, name: &str, digits: usize) -> String {
    let mut kept = String::with_capacity(LONGEST_NAME);
    for letter in name.chars() {
        let safe = u8::try_from(letter).is_ok_and(is_safe_byte);
        if safe {
            kept.push(letter);
        } else if !kept.ends_with('_') {
            kept.push('_');
        }
        if kept.len() > LONGEST_NAME {
            break;
        }
    }
    if !kept.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
        kept = "tool".to_owned();
    }
    if !begins_well(provider, &kept) {
        kept.insert(0, '_');
    }
    kept.truncate(LONGEST_NAME - digits - 1);
    let hash: String = Sha256::digest(name.as_bytes()).iter().take(digits / 2).map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{hash}", kept.trim_end_matches('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(names: &[&str]) -> Vec<String> {
        let safe = SafeNames::of(Provider::OpenAi, names.iter().copied());
        names.iter().map(|name| safe.safe(name).to_owned()).collect()
    }

    // F18
    #[test]
    fn a_name_that_is_safe_stays_and_any_other_is_shortened_with_a_hash() {
        let long = "very_".repeat(20);
        let names = ["get_weather", "2fa-enable", "files.read", "files/read", "日本", "", "-", &long];
        let safe = safe(&names);
        assert_eq!(safe[..2], ["get_weather", "2fa-enable"]);
        assert!(safe[2].starts_with("files_read_") && safe[3].starts_with("files_read_") && safe[2] != safe[3], "{safe:?}");
        assert!(safe[4].starts_with("tool_") && safe[5].starts_with("tool_"), "{safe:?}");
        assert!((LONGEST_NAME - 1..=LONGEST_NAME).contains(&safe[7].len()), "{safe:?}");
        for name in &safe {
            assert!(is_safe(Provider::OpenAi, name), "{name}");
        }
        let distinct: HashSet<&String> = safe.iter().collect();
        assert_eq!(distinct.len(), safe.len());
    }

    #[test]
    fn a_safe_name_depends_on_the_name_alone() {
        assert_eq!(safe(&["files.read"]), safe(&["files.read", "other", "files_read", "files read"])[..1]);
    }

    #[test]
    fn a_tool_that_is_called_like_a_safe_name_keeps_it() {
        let short = safe(&["files.read"]).remove(0);
        let names = ["files.read", short.as_str()];
        let safe = safe(&names);
        assert_eq!(safe[1], short);
        assert!(safe[0] != short && safe[0].starts_with("files_read_"), "{safe:?}");
        assert_eq!(original(names.into_iter(), &safe[0]), Some("files.read"));
        assert_eq!(original(names.into_iter(), &short), None, "it stands for itself");
    }

    #[test]
    fn every_safe_name_leads_back() {
        let names = ["files.read", "2fa_enable", "a b", "ok", "日本"];
        for provider in Provider::ALL {
            let safe = SafeNames::of(provider, names);
            for name in names {
                let given = safe.safe(name);
                assert!(is_safe(provider, given), "{given}");
                let back = if given == name { Some(name) } else { original(names.into_iter(), given) };
                assert_eq!(back, Some(name));
            }
        }
        assert!(SafeNames::of(Provider::Gemini, names).safe("2fa_enable").starts_with("_2fa_enable_"));
        for nobody in ["ok", "files_read", "files_read_00000000", "nothing_of_ours", ""] {
            assert_eq!(original(names.into_iter(), nobody), None, "{nobody}");
        }
    }
}
