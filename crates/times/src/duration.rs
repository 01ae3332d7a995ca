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
    number_and_unit(text)
        .filter(|&nanoseconds| nanoseconds > 0)
        .ok_or_else(|| Error::NotADuration {
            text: text.to_owned(),
        })
}

/// Parses a duration that may be zero or negative into nanoseconds: an integer and a unit, as
/// [`parse_duration`] does, or the form of ISO 8601 without years and months, which differ in
/// length. A sign stands before either. `None` for any other text, and for fractions of a
/// nanosecond.
///
/// ```
/// use bedload_times::parse_signed_duration;
///
/// assert_eq!(parse_signed_duration("-90min"), Some(-5_400_000_000_000));
/// assert_eq!(parse_signed_duration("PT1.5S"), Some(1_500_000_000));
/// assert_eq!(parse_signed_duration("-P1DT2H"), Some(-93_600_000_000_000));
/// assert_eq!(parse_signed_duration("P1M"), None);
/// ```
#[must_use]
pub fn parse_signed_duration(text: &str) -> Option<i128> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, text),
    };
    let nanoseconds = match unsigned.strip_prefix('P') {
        Some(parts) => iso_parts(parts)?,
        None => number_and_unit(unsigned)?,
    };
    Some(sign * nanoseconds)
}

fn number_and_unit(text: &str) -> Option<i128> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, nanoseconds) = UNITS
        .iter()
        .chain(&ALIASES)
        .find(|(name, _)| *name == unit.trim())?;
    Some(i128::from(number.parse::<i64>().ok()?) * nanoseconds)
}

/// The parts of a duration in the form of ISO 8601, after its `P`.
fn iso_parts(text: &str) -> Option<i128> {
    let (days, hours) = match text.split_once('T') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None if text.is_empty() => return None,
        None => (text, ""),
    };
    let days = sum_of_parts(days, &[('W', 7 * 86_400), ('D', 86_400)])?;
    Some(days + sum_of_parts(hours, &[('H', 3600), ('M', 60), ('S', 1)])?)
}

/// The sum of numbers that are each followed by one of the designators, in their order.
fn sum_of_parts(mut text: &str, designators: &[(char, i128)]) -> Option<i128> {
    const SECOND: i128 = 1_000_000_000;
    let mut left = designators.iter();
    let mut sum = 0;
    while !text.is_empty() {
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, rest) = text.split_at(end);
        let mut rest = rest.chars();
        let designator = rest.next()?;
        let (_, seconds) = left.find(|(known, _)| *known == designator)?;
        let (whole, fraction) = match number.split_once('.') {
            Some(parts) if designator == 'S' => (parts.0, nanoseconds_of(parts.1)?),
            Some(_) => return None,
            None => (number, 0),
        };
        sum += i128::from(whole.parse::<u64>().ok()?) * seconds * SECOND + fraction;
        text = rest.as_str();
    }
    Some(sum)
}

/// Nanoseconds that the digits of a fraction of a second stand for.
fn nanoseconds_of(fraction: &str) -> Option<i128> {
    const DIGITS: usize = 9;
    let digits = fraction.trim_end_matches('0');
    if fraction.is_empty() || digits.len() > DIGITS {
        return None;
    }
    format!("{digits:0<DIGITS$}").parse().ok()
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

    #[test]
    fn durations_may_be_negative_or_in_the_form_of_iso_8601() {
        for (text, nanoseconds) in [
            ("0s", 0),
            ("-5s", -5_000_000_000),
            ("P0D", 0),
            ("PT5S", 5_000_000_000),
            ("-PT0.5S", -500_000_000),
            ("PT1.000000001S", 1_000_000_001),
            ("PT0.50000000000S", 500_000_000),
            ("P1W2DT3H4M5.25S", 788_645_250_000_000),
            ("-PT9223372036854775808S", i128::from(i64::MIN) * 1_000_000_000),
        ] {
            assert_eq!(parse_signed_duration(text), Some(nanoseconds), "{text}");
        }
        for text in [
            "",
            "5",
            "-",
            "--5s",
            "P",
            "PT",
            "P1DT",
            "P5",
            "P1Y",
            "P1M",
            "PT5s",
            "PT.5S",
            "PT5.S",
            "PT1.5H",
            "PT1.5.5S",
            "PT5S5S",
            "PT5S1H",
            "PT+5S",
            "P-5D",
            "PT0.0000000001S",
            "1.5s",
        ] {
            assert_eq!(parse_signed_duration(text), None, "{text}");
        }
    }
}
