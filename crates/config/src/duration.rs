//! Spans of time as people write them.

use std::time::Duration;

/// What a duration may look like, for messages.
pub const FORMS: &str = "write a number and one of ms, s, m, h, d, like `500ms`, `10s` or `5m`; a bare number is seconds";

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotADuration {
    /// It looks different.
    #[error("is not a duration")]
    Malformed,
    /// Zero never means "without limit".
    #[error("must be longer than zero")]
    Zero,
    /// More than can be counted.
    #[error("is too long")]
    TooLong,
}

/// Reads `100ms`, `5s`, `5m`, `1h`, `2d` or `30`, which is seconds.
pub fn parse(text: &str) -> Result<Duration, NotADuration> {
    let text = text.trim();
    let unit_at = text.find(|each: char| !each.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(NotADuration::Malformed),
    };
    if digits.is_empty() {
        return Err(NotADuration::Malformed);
    }
    let number: u64 = digits.parse().map_err(|_| NotADuration::TooLong)?;
    match number.checked_mul(milliseconds) {
        None => Err(NotADuration::TooLong),
        Some(0) => Err(NotADuration::Zero),
        Some(total) => Ok(Duration::from_millis(total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_is_a_duration_and_a_bare_number_is_seconds() {
        // L1
        let table = [("5s", 5_000), ("5m", 300_000), ("1h", 3_600_000), ("2d", 172_800_000), ("100ms", 100), ("30", 30_000), (" 7s ", 7_000)];
        for (text, milliseconds) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        // L2; N7: zero never means unlimited.
        let table = [
            ("", NotADuration::Malformed),
            ("abc", NotADuration::Malformed),
            ("-5s", NotADuration::Malformed),
            ("s", NotADuration::Malformed),
            ("1.5s", NotADuration::Malformed),
            ("5 s", NotADuration::Malformed),
            ("5S", NotADuration::Malformed),
            ("1h30m", NotADuration::Malformed),
            ("0", NotADuration::Zero),
            ("0ms", NotADuration::Zero),
            ("99999999999999999999", NotADuration::TooLong),
            ("9999999999999999d", NotADuration::TooLong),
        ];
        for (text, why) in table {
            assert_eq!(parse(text), Err(why), "{text}");
        }
    }
}
