//! Amounts of memory as people write them.

/// What an amount may look like, for messages.
pub const FORMS: &str = "write a number and one of KiB, MiB, GiB, like `512MiB` or `2GiB`; a bare number is bytes";

/// Why a text is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASize {
    /// It looks different.
    #[error("is not an amount of memory")]
    Malformed,
    /// Zero never means "without limit".
    #[error("must be more than zero")]
    Zero,
    /// More than can be counted.
    #[error("is too much")]
    TooMuch,
}

/// Reads `512MiB`, `2GiB`, `64KiB`, `512Mi` as Kubernetes writes it, or `1048576`, which is bytes.
pub fn parse(text: &str) -> Result<u64, NotASize> {
    let text = text.trim();
    let unit_at = text.find(|each: char| !each.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let bytes: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "TiB" | "Ti" => 1 << 40,
        _ => return Err(NotASize::Malformed),
    };
    if digits.is_empty() {
        return Err(NotASize::Malformed);
    }
    let number: u64 = digits.parse().map_err(|_| NotASize::TooMuch)?;
    match number.checked_mul(bytes) {
        None => Err(NotASize::TooMuch),
        Some(0) => Err(NotASize::Zero),
        Some(total) => Ok(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_is_an_amount_and_anything_else_is_refused() {
        let table = [("512MiB", 512 << 20), ("2GiB", 2 << 30), ("64 KiB", 64 << 10), ("512Mi", 512 << 20), ("1048576", 1 << 20), ("1TiB", 1 << 40)];
        for (text, bytes) in table {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        let wrong = [
            ("", NotASize::Malformed),
            ("MiB", NotASize::Malformed),
            ("-1", NotASize::Malformed),
            ("1.5GiB", NotASize::Malformed),
            ("512MB", NotASize::Malformed),
            ("0", NotASize::Zero),
            ("0MiB", NotASize::Zero),
            ("99999999999TiB", NotASize::TooMuch),
        ];
        for (text, fault) in wrong {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }
}
