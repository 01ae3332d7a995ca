//! Times of several types as bounds of a range.

use std::ops::{Bound, RangeBounds};
use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeZone};

use crate::clock::nanos_of;
use crate::{Clock, Result, nanos_per_tick};

/// A time at which a range of a column's times can begin or end.
///
/// | type | time |
/// |---|---|
/// | `i64` | ticks of the column's unit since 1970 |
/// | `&str`, `String` | any of the forms that the crate lists |
/// | `SystemTime`, `chrono::DateTime` | an instant |
/// | `chrono::NaiveDateTime` | a reading of the clock in the column's zone |
/// | `chrono::NaiveDate` | the beginning of the day there |
///
/// Implement it for another library's type by its nanoseconds since 1970.
pub trait Time {
    /// Returns nanoseconds since 1970, in UTC if the clock's column has a zone.
    ///
    /// # Errors
    ///
    /// The time cannot be parsed, or clocks were changed so that it occurs twice or never.
    fn nanos(&self, clock: &Clock) -> Result<i128>;
}

impl Clock {
    /// Returns the ticks in a range of times. Bounds may lie between two ticks, and beyond all of
    /// them.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use arrow_schema::TimeUnit;
    /// use bedload_times::Clock;
    ///
    /// let clock = Clock::new(TimeUnit::Second, Some("America/New_York"))?;
    /// let day = (Bound::Included(1_360_299_600), Bound::Excluded(1_360_386_000));
    /// assert_eq!(clock.range("2013-02-08".."2013-02-09")?, day);
    /// # Ok::<(), bedload_times::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Time::nanos`].
    pub fn range<T: Time>(&self, times: impl RangeBounds<T>) -> Result<(Bound<i64>, Bound<i64>)> {
        let per_tick = i128::from(nanos_per_tick(self.unit()));
        let floor = |time: &T| Ok(time.nanos(self)?.div_euclid(per_tick));
        let ceiling = |time: &T| Ok(-(-time.nanos(self)?).div_euclid(per_tick));
        let from = match times.start_bound() {
            Bound::Included(time) => Some(ceiling(time)?),
            Bound::Excluded(time) => Some(floor(time)? + 1),
            Bound::Unbounded => None,
        };
        let to = match times.end_bound() {
            Bound::Included(time) => Some(floor(time)? + 1),
            Bound::Excluded(time) => Some(ceiling(time)?),
            Bound::Unbounded => None,
        };
        Ok((
            from.map_or(Bound::Unbounded, |from| match i64::try_from(from) {
                Ok(from) => Bound::Included(from),
                Err(_) if from < 0 => Bound::Unbounded,
                Err(_) => Bound::Excluded(i64::MAX),
            }),
            to.map_or(Bound::Unbounded, |to| match i64::try_from(to) {
                Ok(to) => Bound::Excluded(to),
                Err(_) if to < 0 => Bound::Excluded(i64::MIN),
                Err(_) => Bound::Unbounded,
            }),
        ))
    }
}

impl Time for i64 {
    fn nanos(&self, clock: &Clock) -> Result<i128> {
        Ok(i128::from(*self) * i128::from(nanos_per_tick(clock.unit())))
    }
}

impl Time for &str {
    fn nanos(&self, clock: &Clock) -> Result<i128> {
        Ok(clock.point(self, SystemTime::now())?.nanos)
    }
}

impl Time for String {
    fn nanos(&self, clock: &Clock) -> Result<i128> {
        self.as_str().nanos(clock)
    }
}

impl Time for SystemTime {
    fn nanos(&self, _clock: &Clock) -> Result<i128> {
        Ok(nanos_of(*self))
    }
}

impl<Zone: TimeZone> Time for DateTime<Zone> {
    fn nanos(&self, _clock: &Clock) -> Result<i128> {
        let whole = i128::from(self.timestamp()) * 1_000_000_000;
        Ok(whole + i128::from(self.timestamp_subsec_nanos()))
    }
}

impl Time for NaiveDateTime {
    fn nanos(&self, clock: &Clock) -> Result<i128> {
        let offset = match clock.zone() {
            Some(zone) => zone.offset_of(*self, &self.to_string())?,
            None => 0,
        };
        Ok(self.and_utc().nanos(clock)? - i128::from(offset) * 1_000_000_000)
    }
}

impl Time for NaiveDate {
    fn nanos(&self, clock: &Clock) -> Result<i128> {
        clock.beginning_of(*self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use arrow_schema::TimeUnit::{self, Millisecond, Nanosecond, Second};
    use chrono::FixedOffset;

    use super::*;
    use crate::Error;

    fn clock(unit: TimeUnit) -> Clock {
        Clock::new(unit, Some("America/New_York")).unwrap()
    }

    /// 2013-02-08T12:30:00 in New York, as each type says it.
    #[test]
    fn types_of_one_time() {
        let expected = (Bound::Included(1_360_344_600), Bound::Unbounded);
        let clock = clock(Second);
        assert_eq!(clock.range(1_360_344_600..), Ok(expected));
        assert_eq!(clock.range("2013-02-08 12:30"..), Ok(expected));
        assert_eq!(clock.range("2013-02-08T17:30Z".to_owned()..), Ok(expected));
        assert_eq!(
            clock.range(UNIX_EPOCH + Duration::from_secs(1_360_344_600)..),
            Ok(expected)
        );
        let naive = NaiveDate::from_ymd_opt(2013, 2, 8)
            .unwrap()
            .and_hms_opt(12, 30, 0)
            .unwrap();
        assert_eq!(clock.range(naive..), Ok(expected));
        let tokyo = FixedOffset::east_opt(9 * 3600).unwrap();
        let instant = DateTime::from_timestamp(1_360_344_600, 0)
            .unwrap()
            .with_timezone(&tokyo);
        assert_eq!(clock.range(instant..), Ok(expected));
        let midnight = (Bound::Included(1_360_299_600), Bound::Unbounded);
        assert_eq!(clock.range(naive.date()..), Ok(midnight));
    }

    #[test]
    fn a_day_begins_where_midnight_is_skipped() {
        let clock = Clock::new(Second, Some("America/Sao_Paulo")).unwrap();
        let day = NaiveDate::from_ymd_opt(2018, 11, 4).unwrap();
        let expected = (Bound::Included(1_541_300_400), Bound::Unbounded);
        assert_eq!(clock.range(day..), Ok(expected));
        let all = (Bound::Unbounded, Bound::Unbounded);
        let nanos = Clock::new(Nanosecond, Some("America/Sao_Paulo")).unwrap();
        assert_eq!(nanos.range(NaiveDate::MIN..NaiveDate::MAX), Ok(all));
    }

    #[test]
    fn bounds_between_ticks() {
        let clock = Clock::new(Second, None).unwrap();
        let (half, whole) = ("1969-12-31T23:59:58.5", "1969-12-31T23:59:58");
        let range = |times: (Bound<&str>, Bound<&str>)| clock.range::<&str>(times).unwrap();
        let ticks = |from, to| (Bound::Included(from), Bound::Excluded(to));
        assert_eq!(
            range((Bound::Included(half), Bound::Included(half))),
            ticks(-1, -1)
        );
        assert_eq!(
            range((Bound::Excluded(half), Bound::Excluded(half))),
            ticks(-1, -1)
        );
        assert_eq!(
            range((Bound::Included(whole), Bound::Included(whole))),
            ticks(-2, -1)
        );
        assert_eq!(
            range((Bound::Excluded(whole), Bound::Excluded(whole))),
            ticks(-1, -2)
        );
        assert_eq!(clock.range::<i64>(..), Ok((Bound::Unbounded, Bound::Unbounded)));
    }

    #[test]
    fn bounds_beyond_the_ticks() {
        let clock = Clock::new(Nanosecond, None).unwrap();
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(clock.range("1000-01-01".."3000-01-01"), Ok(all));
        let none = (Bound::Excluded(i64::MAX), Bound::Unbounded);
        assert_eq!(clock.range("3000-01-01"..), Ok(none));
        assert_eq!(
            clock.range(.."1000-01-01"),
            Ok((Bound::Unbounded, Bound::Excluded(i64::MIN)))
        );
        assert_eq!(clock.range(..=i64::MAX), Ok(all));
    }

    #[test]
    fn readings_that_clocks_skip_or_repeat() {
        let clock = clock(Millisecond);
        let reading = |month, day, hour| {
            let day = NaiveDate::from_ymd_opt(2013, month, day).unwrap();
            clock.range(day.and_hms_opt(hour, 30, 0).unwrap()..)
        };
        assert!(matches!(reading(3, 10, 2), Err(Error::Skipped { .. })));
        assert!(matches!(reading(11, 3, 1), Err(Error::Repeated { .. })));
        assert!(matches!(clock.range("never"..), Err(Error::NotATime { .. })));
    }
}
