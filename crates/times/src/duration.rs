//! Durations: a number and a unit.

use crate::{Error, Result};

/// Units of durations in nanoseconds, the largest first.
const UNITS: [(&str, i128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Units that are parsed but never written. A week is 168 hours, as a day is 24.
const ALIASES: [(&str, i128); 2] = [("w", 7 * 86_400_000_000_000), ("m", 60_000_000_000)];

/// Parses a positive integer and a unit into nanoseconds: `10s`, `90 min`, `7d`.
///
/// # Errors
///
/// [`Error::NotADuration`] for any other text.
pub fn parse_duration(text: &str) -> Result<i128> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = UNITS
        .iter()
        .chain(&ALIASES)
        .find(|(name, _)| *name == unit.trim());
    let number = number.parse::<i64>().ok().filter(|&number| number > 0);
    match (number, unit) {
        (Some(number), Some((_, nanoseconds))) => Ok(i128::from(number) * nanoseconds),
        _ => Err(Error::NotADuration {
            text: text.to_owned(),
        }),
    }
}

/// Formats a duration in the largest unit of which it is an integer multiple.
#[must_use]
pub fn format_duration(nanoseconds: i128) -> String {
    let fits = |&&(_, unit): &&(&str, i128)| nanoseconds % unit == 0;
    let (name, unit) = UNITS.iter().find(fits).copied().unwrap_or(("ns", 1));
    format!("{}{name}", nanoseconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, nanoseconds, written) in [
            ("1ns", 1, "1ns"),
            ("1500us", 1_500_000, "1500us"),
            ("90 min", 5_400_000_000_000, "90min"),
            ("5m", 300_000_000_000, "5min"),
            ("24h", 86_400_000_000_000, "1d"),
            ("2w", 1_209_600_000_000_000, "14d"),
        ] {
            assert_eq!(parse_duration(text), Ok(nanoseconds), "{text}");
            assert_eq!(format_duration(nanoseconds), written);
        }
        for text in [
            "",
            "1",
            "h",
            "0s",
            "-1h",
            "1.5h",
            "1 month",
            "1hour",
            "99999999999999999999s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
