//! Times as people write them, and as columns keep them: whole ticks of a unit since 1970-01-01T00:00:00.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_array::timezone::Tz;
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, TimeUnit};
use chrono::{MappedLocalTime, NaiveDate, NaiveDateTime, TimeDelta, TimeZone};

/// Ticks of a unit in a second.
pub(crate) const fn ticks_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The short name of a unit.
pub(crate) const fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// The coarsest unit that keeps a fraction of so many digits.
pub(crate) const fn unit_for_digits(digits: usize) -> TimeUnit {
    match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// A date, or a date with a time of day, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenTime {
    /// The reading of calendar and clock.
    pub(crate) local: NaiveDateTime,
    /// Seconds by which that clock is ahead of UTC, if it was said.
    pub(crate) offset_seconds: Option<i32>,
    /// Digits behind the decimal point of the seconds, trailing zeros left out.
    pub(crate) fraction_digits: usize,
}

impl WrittenTime {
    /// Reads `YYYY-MM-DD`, or that with a `T` or a blank and `HH:MM[:SS[.fraction]]` behind it, and possibly `Z`
    /// or `±HH[:MM]` behind that. A second of 60 is refused, as are more than nine digits of a second.
    pub(crate) fn parse(text: &str) -> Option<Self> {
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

    /// Ticks since 1970 of this reading in UTC, and whether a part of a tick was left behind (rounding down).
    /// `None` if the unit's 64 bits do not reach that far.
    pub(crate) fn ticks(&self, offset_seconds: i32, unit: TimeUnit) -> Option<(i64, bool)> {
        let utc = self
            .local
            .checked_sub_signed(TimeDelta::seconds(i64::from(offset_seconds)))?
            .and_utc();
        let per_second = ticks_per_second(unit);
        let nanos_per_tick = 1_000_000_000 / per_second;
        let nanos = i64::from(utc.timestamp_subsec_nanos());
        // Summed in 128 bits: near the lower end the seconds alone lie beyond the range that the sum is in.
        let ticks = i128::from(utc.timestamp()) * i128::from(per_second) + i128::from(nanos / nanos_per_tick);
        Some((i64::try_from(ticks).ok()?, nanos % nanos_per_tick != 0))
    }
}

/// What is left of a text that is being read.
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

    /// Nanoseconds, and how many digits it takes to say them.
    fn fraction(&mut self) -> Option<(u32, usize)> {
        let len = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (mut nanos, mut digits) = (0, 0);
        for place in 0..len.max(9) {
            let digit = if place < len { self.number(1)? } else { 0 };
            if digit != 0 {
                digits = place + 1;
            }
            if place < 9 {
                nanos = nanos * 10 + digit;
            }
        }
        (len > 0 && digits <= 9).then_some((nanos, digits))
    }

    /// The offset from UTC, or `None` inside if the text ends here.
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

/// The first tick that is not before the time `text`, for a column of `unit` and `zone`.
///
/// `@N` is a number of ticks. `2013` and `2013-02` are the beginning of a year and of a month. A time without an
/// offset is a reading of the clock in the column's zone, or in UTC if the column has none.
pub(crate) fn parse_bound(text: &str, unit: TimeUnit, zone: Option<&str>) -> Result<i64, String> {
    if let Some(ticks) = text.strip_prefix('@') {
        return ticks.parse().map_err(|_| {
            format!(
                "`{text}` is not a time: after @ there must be a whole number of {}",
                unit_name(unit)
            )
        });
    }
    let written = WrittenTime::parse(text)
        .or_else(|| parse_month(text))
        .ok_or_else(|| match text.parse::<i128>() {
            Ok(_) => format!(
                "`{text}` is not a time: write @{text} for {} since 1970, or a year of four digits",
                unit_name(unit)
            ),
            Err(_) => format!(
                "`{text}` is not a time: write 2013, 2013-02, 2013-02-08, '2013-02-08 17:30:00', \
                 2013-02-08T17:30:00Z or @N ({} since 1970)",
                unit_name(unit)
            ),
        })?;
    let offset_seconds = match (written.offset_seconds, zone) {
        (Some(offset), _) => offset,
        (None, None) => 0,
        (None, Some(zone)) => offset_in_zone(written.local, zone).ok_or_else(|| {
            format!("`{text}` is skipped or repeated by the clocks of {zone}: add an offset")
        })?,
    };
    written
        .ticks(offset_seconds, unit)
        .and_then(|(ticks, part_left)| ticks.checked_add(i64::from(part_left)))
        .ok_or_else(|| {
            format!(
                "`{text}` is beyond the range of a 64-bit number of {}",
                unit_name(unit)
            )
        })
}

/// The beginning of a year, `YYYY`, or of a month, `YYYY-MM`.
fn parse_month(text: &str) -> Option<WrittenTime> {
    let mut rest = Digits(text.as_bytes());
    let year = i32::try_from(rest.number(4)?).ok()?;
    let month = match rest.byte(b'-') {
        Some(()) => rest.number(2)?,
        None => 1,
    };
    let local = NaiveDate::from_ymd_opt(year, month, 1)?.and_hms_opt(0, 0, 0)?;
    rest.0.is_empty().then_some(WrittenTime {
        local,
        offset_seconds: None,
        fraction_digits: 0,
    })
}

/// A number of ticks as a time of the calendar; as a number if the calendar does not reach that far.
pub(crate) fn format_ticks(ticks: i64, unit: TimeUnit, zone: Option<&str>) -> Result<String, String> {
    let data_type = DataType::Timestamp(unit, zone.map(Arc::from));
    let array = cast(&Int64Array::from(vec![ticks]), &data_type).map_err(|error| error.to_string())?;
    let text = array_value_to_string(&array, 0);
    Ok(text.unwrap_or_else(|_| format!("{ticks} {} since 1970", unit_name(unit))))
}

/// Seconds by which the clocks of `zone` are ahead of UTC when they read `local`.
fn offset_in_zone(local: NaiveDateTime, zone: &str) -> Option<i32> {
    let zone: Tz = zone.parse().ok()?;
    match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) => Some(chrono::Offset::fix(&offset).local_minus_utc()),
        _ => None,
    }
}

/// Units of durations, the largest first, in nanoseconds.
const DURATIONS: [(&str, i128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Nanoseconds of a positive whole number of some unit.
pub(crate) fn parse_duration(text: &str) -> Result<i128, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = DURATIONS.iter().find(|(name, _)| *name == unit.trim());
    let number = number.parse::<i64>().ok().filter(|&number| number > 0);
    match (number, unit) {
        (Some(number), Some((_, nanoseconds))) => Ok(i128::from(number) * nanoseconds),
        _ => Err("expected a positive number and a unit: ns, us, ms, s, min, h or d".to_owned()),
    }
}

/// A duration in the largest unit of which it is a whole number.
pub(crate) fn format_duration(nanoseconds: i128) -> String {
    let fits = |&&(_, unit): &&(&str, i128)| nanoseconds % unit == 0;
    let (name, unit) = DURATIONS.iter().find(fits).copied().unwrap_or(("ns", 1));
    format!("{}{name}", nanoseconds / unit)
}

/// Nanoseconds of a tick.
pub(crate) fn nanoseconds_of(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    use proptest::prelude::*;

    use super::*;

    fn bound(text: &str, unit: TimeUnit) -> i64 {
        parse_bound(text, unit, None).unwrap()
    }

    #[test]
    fn forms_of_one_time() {
        for text in [
            "2013-02-08T17:30:00Z",
            "2013-02-08t17:30:00.000z",
            "2013-02-08 17:30:00",
            "2013-02-08 17:30",
            "2013-02-08T18:30:00+01:00",
            "2013-02-08T12:30:00-0500",
            "2013-02-08T12:30:00-05",
            "@1360344600",
        ] {
            assert_eq!(bound(text, Second), 1_360_344_600, "{text}");
        }
        assert_eq!(bound("2013-02-08", Millisecond), 1_360_281_600_000);
    }

    #[test]
    fn a_number_is_a_year_and_ticks_have_a_sign_of_their_own() {
        assert_eq!(bound("2013", Second), 1_356_998_400);
        assert_eq!(bound("2013-02", Second), 1_359_676_800);
        assert_eq!(bound("@2013", Second), 2013);
        assert_eq!(bound("@-1", Nanosecond), -1);
        for text in [
            "0",
            "-5",
            "20130208",
            "1360344600",
            "201",
            "2013-",
            "2013-13",
            "2013-2",
            "@",
            "@1.5",
            "@2013-02",
        ] {
            let message = parse_bound(text, Second, None).unwrap_err();
            assert!(message.contains("is not a time"), "{text}: {message}");
        }
        let message = parse_bound("1360344600", Millisecond, None).unwrap_err();
        assert!(message.contains("@1360344600 for ms since 1970"), "{message}");
    }

    #[test]
    fn what_is_no_time() {
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
    fn bounds_finer_than_the_unit_round_up() {
        assert_eq!(bound("1970-01-01T00:00:01.0001", Second), 2);
        assert_eq!(bound("1969-12-31T23:59:58.5", Second), -1);
        assert_eq!(bound("1970-01-01T00:00:00.000000001", Nanosecond), 1);
    }

    #[test]
    fn trailing_zeros_are_no_finer() {
        let digits = |text| WrittenTime::parse(text).unwrap().fraction_digits;
        assert_eq!(digits("1970-01-01T00:00:00.500"), 1);
        assert_eq!(digits("1970-01-01T00:00:00.000"), 0);
        assert_eq!(digits("1970-01-01T00:00:00.1234560000000"), 6);
    }

    #[test]
    fn the_ends_of_nanoseconds() {
        assert_eq!(bound("2262-04-11T23:47:16.854775807", Nanosecond), i64::MAX);
        assert_eq!(bound("1677-09-21T00:12:43.145224192", Nanosecond), i64::MIN);
        assert!(parse_bound("2262-04-11T23:47:16.854775808", Nanosecond, None).is_err());
        assert!(parse_bound("1677-09-21T00:12:43.145224191", Nanosecond, None).is_err());
    }

    #[test]
    fn a_time_without_offset_is_read_in_the_columns_zone() {
        let zoned = |text, zone| parse_bound(text, Second, Some(zone));
        assert_eq!(
            zoned("2013-02-08 12:30:00", "America/New_York"),
            Ok(1_360_344_600)
        );
        assert_eq!(zoned("2013-02-08 17:30:00", "+00:00"), Ok(1_360_344_600));
        assert_eq!(
            zoned("2013-02-08T17:30:00Z", "America/New_York"),
            Ok(1_360_344_600)
        );
        assert!(
            zoned("2013-03-10 02:30:00", "America/New_York").is_err(),
            "that night skipped it"
        );
    }

    proptest! {
        #[test]
        fn written_ticks_are_read_back(seconds in -62_135_596_800_i64..253_402_300_800, micros in 0_u32..1_000_000) {
            let time = chrono::DateTime::from_timestamp(seconds, micros * 1000).unwrap();
            let text = time.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
            prop_assert_eq!(bound(&text, Microsecond), time.timestamp_micros());
        }
    }
}
