//! Dates and times in the forms of ISO 8601.

use arrow_schema::TimeUnit;
use chrono::{NaiveDate, NaiveDateTime};

use crate::{nanos_per_tick, ticks_per_second};

/// A parsed date, or date with a time of day.
///
/// ```
/// use bedload_times::WrittenTime;
///
/// let time = WrittenTime::parse("2013-02-08T17:30:00.50+01:00").expect("a time");
/// assert_eq!((time.offset_seconds, time.fraction_digits), (Some(3600), 1));
/// assert_eq!(WrittenTime::parse("2013-02-30"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenTime {
    /// The date and time as written.
    pub local: NaiveDateTime,
    /// Seconds by which that clock is ahead of UTC, if given.
    pub offset_seconds: Option<i32>,
    /// Digits of the seconds' fraction, without trailing zeros.
    pub fraction_digits: usize,
}

impl WrittenTime {
    /// Parses `YYYY-MM-DD`, optionally followed by a `T` or a space and `HH:MM[:SS[.fraction]]`,
    /// optionally followed by `Z` or `±HH[:MM]`. Rejects a second of 60, and more than nine digits
    /// of a fraction.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = Digits(text.as_bytes());
        let year = rest.number(4)?;
        rest.byte(b'-')?;
        let month = rest.number(2)?;
        rest.byte(b'-')?;
        let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, rest.number(2)?)?;
        if rest.0.is_empty() {
            return Some(Self {
                local: date.and_hms_opt(0, 0, 0)?,
                offset_seconds: None,
                fraction_digits: 0,
            });
        }

        rest.byte(b'T')
            .or_else(|| rest.byte(b't'))
            .or_else(|| rest.byte(b' '))?;
        let hour = rest.number(2)?;
        rest.byte(b':')?;
        let minute = rest.number(2)?;
        let mut second = 0;
        let mut nanos = 0;
        let mut fraction_digits = 0;
        if rest.byte(b':').is_some() {
            second = rest.number(2)?;
            if rest.byte(b'.').is_some() {
                (nanos, fraction_digits) = rest.fraction()?;
            }
        }
        let local = date.and_hms_nano_opt(hour, minute, second, nanos)?;
        let offset_seconds = rest.offset()?;
        Some(Self {
            local,
            offset_seconds,
            fraction_digits,
        })
    }

    /// Returns ticks since 1970 of this reading in UTC, rounded down, and whether rounding lost a
    /// fraction of a tick. `None` if that is out of the range of the unit's 64 bits.
    #[must_use]
    pub fn ticks(&self, offset_seconds: i32, unit: TimeUnit) -> Option<(i64, bool)> {
        let local = self.local.and_utc();
        let seconds = local.timestamp() - i64::from(offset_seconds);
        let (per_second, nanos_per_tick) = (ticks_per_second(unit), nanos_per_tick(unit));
        let nanos = i64::from(local.timestamp_subsec_nanos());
        let (ticks, is_rounded) = (nanos / nanos_per_tick, nanos % nanos_per_tick != 0);
        let sum = seconds
            .checked_mul(per_second)
            .and_then(|seconds| seconds.checked_add(ticks));
        let sum = sum.or_else(|| {
            // Near the lower end the seconds alone are out of range.
            let seconds = i128::from(seconds) * i128::from(per_second);
            i64::try_from(seconds + i128::from(ticks)).ok()
        });
        Some((sum?, is_rounded))
    }

    /// As [`ticks`](Self::ticks), but rounded to the nearest tick, halves up.
    #[must_use]
    pub fn nearest_ticks(&self, offset_seconds: i32, unit: TimeUnit) -> Option<(i64, bool)> {
        let (ticks, is_rounded) = self.ticks(offset_seconds, unit)?;
        let nanos = i64::from(self.local.and_utc().timestamp_subsec_nanos());
        let is_up = is_rounded && 2 * (nanos % nanos_per_tick(unit)) >= nanos_per_tick(unit);
        Some((ticks.checked_add(i64::from(is_up))?, is_rounded))
    }

    /// Parses a year, `YYYY`, or a month, `YYYY-MM`, as its beginning.
    pub(crate) fn parse_month(text: &str) -> Option<Self> {
        let mut rest = Digits(text.as_bytes());
        let year = i32::try_from(rest.number(4)?).ok()?;
        let month = match rest.byte(b'-') {
            Some(()) => rest.number(2)?,
            None => 1,
        };
        let local = NaiveDate::from_ymd_opt(year, month, 1)?.and_hms_opt(0, 0, 0)?;
        rest.0.is_empty().then_some(Self {
            local,
            offset_seconds: None,
            fraction_digits: 0,
        })
    }

    /// Returns nanoseconds since 1970 of this reading in UTC.
    pub(crate) fn nanos(&self, offset_seconds: i32) -> i128 {
        let local = self.local.and_utc();
        let seconds = i128::from(local.timestamp()) - i128::from(offset_seconds);
        seconds * 1_000_000_000 + i128::from(local.timestamp_subsec_nanos())
    }
}

/// The unparsed rest of a text.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn byte(&mut self, expected: u8) -> Option<()> {
        let (&first, rest) = self.0.split_first()?;
        (first == expected).then(|| self.0 = rest)
    }

    fn number(&mut self, digits: usize) -> Option<u32> {
        let (head, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        head.iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit()
                .then(|| number * 10 + u32::from(byte - b'0'))
        })
    }

    /// Parses a fraction: its nanoseconds, and its digits without trailing zeros.
    fn fraction(&mut self) -> Option<(u32, usize)> {
        const NANOS_PER_UNIT: [u32; 10] = [
            1_000_000_000,
            100_000_000,
            10_000_000,
            1_000_000,
            100_000,
            10_000,
            1000,
            100,
            10,
            1,
        ];
        let len = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (written, rest) = self.0.split_at(len);
        self.0 = rest;
        let zeros = written.iter().rev().take_while(|&&byte| byte == b'0').count();
        let digits = &written[..len - zeros];
        let nanos_per_unit = NANOS_PER_UNIT.get(digits.len()).filter(|_| len > 0)?;
        let units = Digits(digits).number(digits.len())?;
        Some((units * nanos_per_unit, digits.len()))
    }

    /// Parses the offset from UTC; the inner `None` if the text ends here.
    fn offset(&mut self) -> Option<Option<i32>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let sign = if self.byte(b'Z').or_else(|| self.byte(b'z')).is_some() {
            return self.0.is_empty().then_some(Some(0));
        } else if self.byte(b'+').is_some() {
            1
        } else {
            self.byte(b'-')?;
            -1
        };
        let hours = self.number(2)?;
        let minutes = match self.0 {
            [] => 0,
            [b':', ..] => {
                self.byte(b':')?;
                self.number(2)?
            }
            _ => self.number(2)?,
        };
        let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
        (self.0.is_empty() && hours < 24 && minutes < 60).then_some(Some(sign * seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_time() {
        for text in [
            "",
            "yesterday",
            "2013-2-8",
            "2013-02-30",
            "2013-02-08T",
            "2013-02-08T24:00:00",
            "2013-02-08T17:30:60",
            "2013-02-08T17:30:00.",
            "2013-02-08T17:30:00.1234567891",
            "2013-02-08T17:30:00X",
            "2013-02-08T17:30:00+",
            "2013-02-08T17:30:00+25",
            "2013-02-08T17:30:00Zulu",
            "2013-02-08é17:30:00",
        ] {
            assert_eq!(WrittenTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn trailing_zeros_are_no_finer() {
        let digits = |text| WrittenTime::parse(text).unwrap().fraction_digits;
        assert_eq!(digits("1970-01-01T00:00:00.500"), 1);
        assert_eq!(digits("1970-01-01T00:00:00.000"), 0);
        assert_eq!(digits("1970-01-01T00:00:00.1234560000000"), 6);
    }
}
