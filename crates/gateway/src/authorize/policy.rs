//! Rules put together: who may use what.
//!
//! Any deny that holds refuses, every require must hold, then some allow must hold. A rule that cannot be evaluated
//! counts against the caller: it is a deny that holds, an allow or a require that does not. So a rule about `mcp.tool`
//! never lets a prompt or a resource through, and a deny about `mcp.tool` refuses them all, unless the rule first asks
//! `has(mcp.tool)`.
//!
//! A list is judged by the same rules as a use of each thing on it: `mcp.method` is the method of use in both. Only
//! `mcp.tool.arguments` are not there yet while listing: a rule whose answer depends on them lets the tool be listed.

use super::evaluate::{NoAnswer, holds};
use super::rule::{self, BadRule, Checked, Named, Reads};
use super::subject::{Asked, Circumstances, Who};
use crate::config::{Effect, Rule};
use crate::generation::{Generation, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who may do what.
pub struct Policy {
    /// No two policies of a process have the same.
    number: u64,
    written: Option<Vec<Rule>>,
    /// `None`: everybody may do everything.
    rules: Option<Arc<[Checked]>>,
    reads: Reads,
}

/// What the rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// How many rules could not be evaluated.
    pub errors: u32,
}

/// What rules say that look only at who asks: the same for everything on a list.
pub struct Standing {
    /// The rules that are judged already.
    known: Tally,
    /// The others, by number: the only ones that a list costs anything for. Of a thousand roles most are not the principal's.
    open: Vec<usize>,
}

/// Rules put together, as far as they are judged.
#[derive(Clone, Copy)]
struct Tally {
    denied: bool,
    required: bool,
    allowed: bool,
    errors: u32,
}

impl Tally {
    fn add(&mut self, effect: Effect, (holds, errors): (bool, u32)) {
        self.errors += errors;
        match effect {
            Effect::Deny => self.denied |= holds,
            Effect::Require => self.required &= holds,
            Effect::Allow => self.allowed |= holds,
        }
    }
}

impl Policy {
    /// Puts rules together, or says everything that is wrong with them. `None`: everybody may do everything; no rules
    /// at all: nobody may do anything.
    pub fn compile(rules: Option<&[Rule]>) -> Result<Policy, Vec<BadRule>> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let written = rules.map(<[Rule]>::to_vec);
        let rules = rules.map(rule::check_all).transpose()?;
        let mut reads = Reads::default();
        for rule in rules.iter().flat_map(|rules| rules.iter()) {
            reads.subject |= rule.reads.subject;
            reads.arguments |= rule.reads.arguments;
            reads.request |= rule.reads.request;
        }
        Ok(Policy { number: NUMBER.fetch_add(1, Relaxed), written, rules, reads })
    }

    /// Which policy this is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The rules as written.
    pub fn written(&self) -> Option<&[Rule]> {
        self.written.as_deref()
    }

    /// Whether there is nothing to judge.
    pub fn allows_all(&self) -> bool {
        self.rules.is_none()
    }

    /// Whether some rule looks at `request.*`, `client.*` or `source.*`, so that decisions cannot be kept per principal.
    pub fn reads_request(&self) -> bool {
        self.reads.request
    }

    /// Whether some rule looks at `mcp.tool.arguments`.
    pub fn reads_arguments(&self) -> bool {
        self.reads.arguments
    }

    /// Judges what does not depend on what is asked for.
    pub fn standing(&self, who: &Who, circumstances: Option<&Circumstances>) -> Standing {
        let asked = Asked { circumstances, ..Asked::new(None, who) };
        let mut standing = Standing { known: Tally { denied: false, required: true, allowed: false, errors: 0 }, open: Vec::new() };
        for (number, rule) in self.rules.iter().flat_map(|rules| rules.iter()).enumerate() {
            if !rule.reads.subject {
                standing.known.add(rule.effect, answer(rule, &asked));
            } else if rule.about_who.iter().any(|part| holds(part, &rule.patterns, &asked) == Ok(false)) {
                // Whatever the rest says, and even if it cannot be evaluated: all parts must hold.
                standing.known.add(rule.effect, (false, 0));
            } else {
                standing.open.push(number);
            }
        }
        standing
    }

    /// Judges one thing. `standing` is that of the same principal under this policy.
    pub fn judge(&self, asked: &Asked<'_>, standing: &Standing) -> Decision {
        let Some(rules) = &self.rules else { return Decision { allowed: true, errors: 0 } };
        let mut tally = standing.known;
        for rule in standing.open.iter().filter_map(|number| rules.get(*number)) {
            tally.add(rule.effect, answer(rule, asked));
        }
        let Tally { denied, required, allowed, errors } = tally;
        Decision { allowed: !denied && required && allowed, errors }
    }

    /// Names in rules that no tool and no target has: most often a slip of the pen.
    pub fn names_nobody_has(&self, generation: &Generation) -> Vec<String> {
        let mut warnings = Vec::new();
        for (number, rule) in self.rules.iter().flat_map(|rules| rules.iter()).enumerate() {
            for (named, name) in &rule.names {
                let mut tools = generation.listed(Kind::Tool).iter().chain(generation.remembered(Kind::Tool));
                let known = match named {
                    Named::Tool => tools.any(|entry| entry.unprefixed() == name),
                    Named::Target => generation.view(name).is_some(),
                };
                let warning = format!("authorization rule {} speaks of {} `{name}`, and there is none of that name", number + 1, named.word());
                if !known && !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        warnings
    }
}

/// Whether a rule holds, and how many errors that took.
fn answer(rule: &Checked, asked: &Asked<'_>) -> (bool, u32) {
    let against = rule.effect == Effect::Deny;
    match holds(&rule.expression, &rule.patterns, asked) {
        Ok(holds) => (holds, 0),
        // What depends on arguments that are yet to come is possible.
        Err(NoAnswer::AwaitsArguments) => (!against, 0),
        Err(NoAnswer::Failed | NoAnswer::NotBoolean) => (against, 1),
    }
}
