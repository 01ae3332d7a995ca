//! Floats as sensors write them: few digits, and a point between them.

use std::str::FromStr;

/// As many digits as a float's mantissa holds, whatever they are.
const DIGITS_MAX: usize = 15;

const POWERS_OF_TEN: [f64; DIGITS_MAX] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
];

/// Parses an integer, also one written as a float without a fraction, such as `7.0` or `1.5e3`.
/// Programs that hold missing integers as NaN write all integers of the column so.
pub(super) fn parse_integer<I: FromStr>(text: &str) -> Option<I> {
    text.parse().ok().or_else(|| whole_digits(text)?.parse().ok())
}

/// The digits of a float, which is shifted by its exponent and not rounded.
fn whole_digits(text: &str) -> Option<String> {
    /// More zeros than any integer has.
    const SHIFT_MAX: usize = 40;
    text.parse::<f64>().ok()?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: isize = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let point = whole.len().checked_add_signed(exponent)?;
    let mut digits = format!("{whole}{fraction}");
    if point > digits.len() + SHIFT_MAX {
        return None;
    }
    while digits.len() < point {
        digits.push('0');
    }
    let (whole, fraction) = digits.split_at_checked(point)?;
    let is_number = whole.ends_with(|digit: char| digit.is_ascii_digit());
    // An integer has no negative zero.
    let is_signed_zero = whole.starts_with('-') && whole.bytes().skip(1).all(|digit| digit == b'0');
    (is_number && !is_signed_zero && fraction.bytes().all(|digit| digit == b'0')).then(|| whole.to_owned())
}

/// Parses a float, as [`parse_bounded`] does.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    short_decimal(text.as_bytes()).or_else(|| parse_bounded(text))
}

/// Parses a float as its `FromStr` does, except that digits of a number beyond its range are no
/// infinity.
pub(super) fn parse_bounded<F: Copy + FromStr + Into<f64>>(text: &str) -> Option<F> {
    let float: F = text.parse().ok()?;
    let names_infinity = || !text.bytes().any(|byte| byte.is_ascii_digit());
    (!float.into().is_infinite() || names_infinity()).then_some(float)
}

/// Parses a number of few digits. Mantissa and power of ten are exact then, so their quotient is
/// rounded once, to the same float as any other correct parser's.
fn short_decimal(text: &[u8]) -> Option<f64> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    if unsigned.len() > DIGITS_MAX {
        return None;
    }
    let mut mantissa: u64 = 0;
    let mut point = unsigned.len();
    for (place, &byte) in unsigned.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa * 10 + u64::from(digit);
        } else if byte == b'.' && point == unsigned.len() {
            point = place;
        } else {
            return None;
        }
    }
    let fraction_digits = match unsigned.len() - point {
        0 => 0,
        // A point that nothing follows.
        1 => return None,
        with_point => with_point - 1,
    };
    if point == 0 {
        return None;
    }
    let value = mantissa as f64 / POWERS_OF_TEN[fraction_digits];
    Some(if unsigned.len() < text.len() {
        -value
    } else {
        value
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bits(float: Option<f64>) -> Option<u64> {
        float.map(f64::to_bits)
    }

    #[test]
    fn edges() {
        for text in [
            "0",
            "-0",
            "-0.0",
            "1.",
            ".5",
            ".",
            "-",
            "",
            "+1",
            "1.5.2",
            "1e3",
            "nan",
            "inf",
            "--1",
            "1-",
            " 1",
            "999999999999999",
            "9999999999999999",
            "0.00000000000001",
            "-12345678.901234",
            "1,5",
        ] {
            assert_eq!(bits(parse_float(text)), bits(text.parse().ok()), "{text}");
        }
        assert!(short_decimal(b"-4.08").is_some());
    }

    #[test]
    fn floats_without_a_fraction_are_integers() {
        for (text, integer) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("-7.", Some(-7)),
            ("-0.7e1", Some(-7)),
            ("1.5e3", Some(1500)),
            ("1e+2", Some(100)),
            ("1200e-2", Some(12)),
            ("9223372036854775807.0", Some(i64::MAX)),
            ("9223372036854775808.0", None),
            ("1e99", None),
            ("1e9223372036854775807", None),
            ("0.7e0", None),
            ("1.5", None),
            ("15e-1", None),
            (".0", None),
            ("-.0", None),
            ("-0.0", None),
            ("1.0.0", None),
            ("1.-0", None),
            ("e1", None),
            ("-e1", None),
            ("é.0", None),
            ("é0e-1", None),
            ("", None),
            ("NaN", None),
        ] {
            assert_eq!(parse_integer::<i64>(text), integer, "{text}");
        }
        assert_eq!(parse_integer::<u8>("255.0"), Some(255));
        assert_eq!(parse_integer::<u8>("256.0"), None);
    }

    #[test]
    fn digits_are_no_infinity() {
        for text in ["1e309", "-1e309", "1e999999999"] {
            assert_eq!(parse_float(text), None, "{text}");
        }
        assert_eq!(parse_float("1.7976931348623157e308"), Some(f64::MAX));
        assert_eq!(parse_float("-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_bounded::<f32>("1e39"), None);
        assert_eq!(parse_bounded::<f32>("3.4028235e38"), Some(f32::MAX));
        assert_eq!(parse_bounded::<f32>("Infinity"), Some(f32::INFINITY));
    }

    proptest! {
        #[test]
        fn as_the_standard_library_has_it(text in "[-+]?[0-9]{0,9}[.]?[0-9]{0,9}") {
            prop_assert_eq!(bits(parse_float(&text)), bits(text.parse().ok()));
        }
    }
}
