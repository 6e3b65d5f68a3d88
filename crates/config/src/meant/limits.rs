//! What `policies.rateLimit`, `concurrency` and `timeouts` mean: how much and how long.

use super::{Meaning, is_tool_name_character};
use crate::file::{self, Policies, Text};
use crate::problem::Problem;
use crate::written::{Place, Written};
use std::time::Duration;
use transom_gateway::config::{ConcurrencyLimit, Limits, Per, RateLimit, ToolTimeout};

const RATES: &str = "write a number of calls and one of s, m, h, d, like `10/s` or `100/m`";

impl Meaning<'_> {
    /// All limits.
    pub(super) fn limits(&self, policies: Option<&Policies>) -> Limits {
        let Some(policies) = policies else { return Limits::default() };
        Limits {
            rates: each(&policies.rate_limit, |limit, place| self.rate_limit(limit, place)),
            concurrency: each(&policies.concurrency, |limit, place| self.concurrency_limit(limit, place)),
            timeouts: each(&policies.timeouts, |timeout, place| self.tool_timeout(timeout, place)),
        }
    }

    fn rate_limit(&self, limit: &file::RateLimit, place: Place) -> Option<RateLimit> {
        let tool = self.tool_pattern(&limit.tool);
        let (per, written) = self.per(&limit.per_principal, &limit.total, place, RATES)?;
        let resolved = self.text(written)?;
        match rate(&resolved.text) {
            Ok((calls, period)) => Some(RateLimit { tool: tool?, per, calls, period }),
            Err(fault) => {
                self.note(Problem::error(resolved.place, format!("`{}` {fault}", resolved.written)).help(RATES));
                None
            }
        }
    }

    fn concurrency_limit(&self, limit: &file::Concurrency, place: Place) -> Option<ConcurrencyLimit> {
        let help = "write how many calls may run at once, like `5`";
        let tool = self.tool_pattern(&limit.tool);
        let (per, written) = self.per(&limit.per_principal, &limit.total, place, help)?;
        let resolved = self.text(written)?;
        match resolved.text.trim().parse() {
            Ok(calls) if calls > 0 => Some(ConcurrencyLimit { tool: tool?, per, calls }),
            _ => {
                self.note(Problem::error(resolved.place, format!("`{}` is not a number of calls", resolved.written)).help(help));
                None
            }
        }
    }

    fn tool_timeout(&self, written: &file::Timeout, place: Place) -> Option<ToolTimeout> {
        if written.timeout.is_missing() {
            self.note(Problem::error(place, "this has no `timeout`").help("add `timeout: 10s`, how long the calls it is about may take"));
        }
        let tool = self.tool_pattern(&written.tool);
        let principal =
            if written.principal.is_missing() { Some(None) } else { self.filled("principal", &written.principal).map(|text| Some(text.text)) };
        let timeout = self.duration("timeout", &written.timeout);
        Some(ToolTimeout { tool: tool?, principal: principal?, timeout: timeout? })
    }

    /// Whose calls are counted together, and where it says how many.
    fn per<'w>(&self, per_principal: &'w Written<Text>, total: &'w Written<Text>, place: Place, help: &str) -> Option<(Per, &'w Written<Text>)> {
        match (per_principal.is_missing(), total.is_missing()) {
            (true, true) => {
                let problem = Problem::error(place, "this limit has neither `perPrincipal` nor `total`");
                self.note(problem.label("how many calls?").help(format!("add one of them; {help}")));
                None
            }
            (false, false) => {
                let second = if per_principal.place.start > total.place.start { per_principal } else { total };
                let problem = Problem::error(second.place, "this limit has both `perPrincipal` and `total`");
                self.note(problem.label("the second one").help("make two limits of it; each of them counts"));
                None
            }
            (false, true) => Some((Per::Principal, per_principal)),
            (true, false) => Some((Per::All, total)),
        }
    }

    /// Which tools; nothing written means all of them.
    fn tool_pattern(&self, written: &Written<Text>) -> Option<Option<String>> {
        if written.is_missing() {
            return Some(None);
        }
        let pattern = self.filled("tool", written)?;
        if !pattern.text.chars().all(|each| is_tool_name_character(each) || each == '*') {
            self.note(
                Problem::error(pattern.place, format!("`{}` fits no tool", pattern.written))
                    .help("write the name of a tool, in which `*` stands for anything, like `get_*`"),
            );
            return None;
        }
        Some(Some(pattern.text))
    }
}

fn each<T, U>(written: &Written<Vec<Written<T>>>, meaning: impl Fn(&T, Place) -> Option<U>) -> Vec<U> {
    written.value.iter().flatten().filter_map(Written::get).filter_map(|(item, place)| meaning(item, place)).collect()
}

/// Reads `100/m`. The words of a fault fit behind the text in question.
fn rate(text: &str) -> Result<(u32, Duration), &'static str> {
    let (calls, unit) = text.trim().split_once('/').ok_or("is not a rate")?;
    let seconds = match unit.trim() {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("is not a rate"),
    };
    let calls = calls.trim();
    if calls.is_empty() || !calls.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("is not a rate");
    }
    match calls.parse() {
        Ok(0) => Err("allows no call at all; rules in `authorization` can forbid calls"),
        Ok(calls) => Ok((calls, Duration::from_secs(seconds))),
        Err(_) => Err("is more than can be counted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_calls_and_a_unit_of_time() {
        let table = [
            ("10/s", Ok((10, 1))),
            ("100/m", Ok((100, 60))),
            (" 5 / h ", Ok((5, 3_600))),
            ("1/d", Ok((1, 86_400))),
            ("4294967295/s", Ok((u32::MAX, 1))),
            ("", Err("is not a rate")),
            ("100", Err("is not a rate")),
            ("/s", Err("is not a rate")),
            ("-1/s", Err("is not a rate")),
            ("+1/s", Err("is not a rate")),
            ("1.5/s", Err("is not a rate")),
            ("1/ms", Err("is not a rate")),
            ("1/minute", Err("is not a rate")),
            ("0/s", Err("allows no call at all; rules in `authorization` can forbid calls")),
            ("4294967296/s", Err("is more than can be counted")),
        ];
        for (text, expected) in table {
            assert_eq!(rate(text), expected.map(|(calls, seconds)| (calls, Duration::from_secs(seconds))), "{text}");
        }
    }
}
