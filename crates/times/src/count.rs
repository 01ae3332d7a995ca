//! Numbers of units since 1970.

use arrow_schema::TimeUnit;

use crate::nanos_per_tick;

/// Parts of a unit that a number can tell apart.
const PARTS: i128 = 1_000_000_000;
/// Digits of their number.
const PART_DIGITS: usize = 9;

/// A parsed number of units since 1970, such as a Unix time with a fraction.
///
/// ```
/// use arrow_schema::TimeUnit::{Millisecond, Second};
/// use bedload_times::WrittenCount;
///
/// let count = WrittenCount::parse("1360344600.250").expect("a number");
/// assert_eq!(count.fraction_digits, 2);
/// assert_eq!(count.ticks(Second, Millisecond), Some((1_360_344_600_250, false)));
/// assert_eq!(count.ticks(Second, Second), Some((1_360_344_600, true)));
/// assert_eq!(WrittenCount::parse("1.36e9"), None);
/// assert_eq!(WrittenCount::whole(-1_500).ticks(Millisecond, Second), Some((-2, true)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenCount {
    /// Billionths of a unit, rounded down.
    parts: i128,
    is_rounded: bool,
    /// Digits after the point, without trailing zeros.
    pub fraction_digits: usize,
}

impl WrittenCount {
    /// Returns a number without a fraction.
    #[must_use]
    pub const fn whole(units: i64) -> Self {
        Self {
            parts: units as i128 * PARTS,
            is_rounded: false,
            fraction_digits: 0,
        }
    }

    /// Parses digits, optionally after a `-` or a `+` and followed by a point and more digits. The
    /// whole units must be within 64 bits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return None,
            Some(halves) => halves,
            None => (text, ""),
        };
        if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let units = i128::from(whole.parse::<i64>().ok()?);
        let fraction = fraction.trim_end_matches('0');
        let kept = &fraction[..fraction.len().min(PART_DIGITS)];
        let missing = u32::try_from(PART_DIGITS - kept.len()).ok()?;
        let mut parts = kept.parse::<i128>().unwrap_or(0) * 10_i128.pow(missing);
        let is_rounded = kept.len() < fraction.len();
        if whole.starts_with('-') {
            parts = -parts - i128::from(is_rounded);
        }
        Some(Self {
            parts: units * PARTS + parts,
            is_rounded,
            fraction_digits: fraction.len(),
        })
    }

    /// Returns the ticks of `unit` that are this number of units `of` since 1970, rounded down, and
    /// whether rounding lost a fraction of a tick. `None` if that is out of the range of 64 bits.
    #[must_use]
    pub fn ticks(&self, of: TimeUnit, unit: TimeUnit) -> Option<(i64, bool)> {
        // At most 10^37: whole units of 64 bits, their billionths, and 10^9 nanoseconds each.
        let scaled = self.parts * i128::from(nanos_per_tick(of));
        let per_tick = PARTS * i128::from(nanos_per_tick(unit));
        let ticks = i64::try_from(scaled.div_euclid(per_tick)).ok()?;
        Some((ticks, self.is_rounded || scaled.rem_euclid(per_tick) != 0))
    }

    /// As [`ticks`](Self::ticks), but rounded to the nearest tick, halves up. Digits after the
    /// billionths of a unit do not count.
    #[must_use]
    pub fn nearest_ticks(&self, of: TimeUnit, unit: TimeUnit) -> Option<(i64, bool)> {
        let (_, is_rounded) = self.ticks(of, unit)?;
        let scaled = self.parts * i128::from(nanos_per_tick(of));
        let per_tick = PARTS * i128::from(nanos_per_tick(unit));
        let ticks = (scaled + per_tick / 2).div_euclid(per_tick);
        Some((i64::try_from(ticks).ok()?, is_rounded))
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

    use super::*;

    fn ticks(text: &str, of: TimeUnit, unit: TimeUnit) -> Option<(i64, bool)> {
        WrittenCount::parse(text).expect("a number").ticks(of, unit)
    }

    #[test]
    fn texts_that_are_no_count() {
        for text in [
            "",
            ".",
            "-",
            "-.5",
            ".5",
            "1.",
            "1.5.",
            "1.5.0",
            "1.-5",
            "1.+5",
            "1e9",
            "1.5e9",
            "0x1",
            "1_0",
            " 1",
            "1 ",
            "1,5",
            "inf",
            "NaN",
            "9223372036854775808",
            "1.５",
        ] {
            assert_eq!(WrittenCount::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_nearest_tick_is_the_later_one_of_two() {
        let nearest = |text: &str, of, unit| {
            WrittenCount::parse(text)
                .expect("a number")
                .nearest_ticks(of, unit)
        };
        for (text, expected) in [
            ("17", (17, false)),
            ("17.4999999999", (17, true)),
            ("17.5", (18, true)),
            ("-17.5", (-17, true)),
            ("-17.500000001", (-18, true)),
        ] {
            assert_eq!(nearest(text, Second, Second), Some(expected), "{text}");
        }
        assert_eq!(nearest("1500", Millisecond, Second), Some((2, true)));
        assert_eq!(nearest("9223372036854775807.5", Second, Second), None);
    }

    #[test]
    fn counts_are_exact_or_rounded_down() {
        assert_eq!(ticks("17", Second, Second), Some((17, false)));
        assert_eq!(ticks("+17", Second, Second), Some((17, false)));
        assert_eq!(ticks("17.25", Second, Millisecond), Some((17_250, false)));
        assert_eq!(ticks("-17.25", Second, Millisecond), Some((-17_250, false)));
        assert_eq!(ticks("-0.5", Second, Millisecond), Some((-500, false)));
        assert_eq!(ticks("-0.5", Second, Second), Some((-1, true)));
        assert_eq!(ticks("17.0", Nanosecond, Nanosecond), Some((17, false)));
        assert_eq!(ticks("17.5", Nanosecond, Nanosecond), Some((17, true)));
        assert_eq!(ticks("1500", Millisecond, Second), Some((1, true)));
        assert_eq!(ticks("-2000", Millisecond, Second), Some((-2, false)));
        assert_eq!(
            ticks("0.123456789", Second, Nanosecond),
            Some((123_456_789, false))
        );
        assert_eq!(
            ticks("0.1234567891", Second, Nanosecond),
            Some((123_456_789, true))
        );
        assert_eq!(ticks("-0.0000000001", Second, Nanosecond), Some((-1, true)));
        assert_eq!(ticks("0.12345678900", Microsecond, Nanosecond), Some((123, true)));
    }

    #[test]
    fn the_range_of_ticks() {
        let (least, greatest) = (i64::MIN.to_string(), i64::MAX.to_string());
        for (text, count) in [(&least, i64::MIN), (&greatest, i64::MAX)] {
            assert_eq!(ticks(text, Second, Second), Some((count, false)));
            assert_eq!(ticks(text, Second, Millisecond), None);
            assert_eq!(ticks(text, Second, Nanosecond), None);
        }
        let beyond = format!("{greatest}.999999999");
        assert_eq!(ticks(&beyond, Second, Second), Some((i64::MAX, true)));
        assert_eq!(
            ticks("9223372036.854775807", Second, Nanosecond),
            Some((i64::MAX, false))
        );
        assert_eq!(ticks("9223372036.854775808", Second, Nanosecond), None);
    }

    #[test]
    fn trailing_zeros_are_no_finer() {
        let digits = |text| WrittenCount::parse(text).expect("a number").fraction_digits;
        assert_eq!(digits("1.500"), 1);
        assert_eq!(digits("1.000"), 0);
        assert_eq!(digits("1"), 0);
        assert_eq!(digits("1.12345678901"), 11);
    }
}
