//! Calendar days and months, by which rows are divided into files.

use arrow_schema::TimeUnit;
use chrono::{DateTime, Datelike, Months, NaiveDate};

use crate::{Clock, Error, Result, Zone, ticks_per_second, unit_name};

/// A unit of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// From one midnight to the next.
    Day,
    /// From one first day to the next.
    Month,
}

impl Clock {
    /// Returns the day or month of a tick in the column's zone (UTC if it has none): its name,
    /// `2013-02-08` or `2013-02`, and the tick at which the next one begins, `None` if that is
    /// beyond the range of ticks.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if the tick is outside the calendar.
    ///
    /// ```
    /// use arrow_schema::TimeUnit;
    /// use bedload_times::{Clock, Period};
    ///
    /// let clock = Clock::new(TimeUnit::Second, Some("America/New_York"))?;
    /// // 2013-02-08 in New York began at 05:00 in UTC.
    /// let day = clock.period(1_360_344_600, Period::Day)?;
    /// assert_eq!(day, ("2013-02-08".to_owned(), Some(1_360_386_000)));
    /// # Ok::<(), bedload_times::Error>(())
    /// ```
    pub fn period(&self, tick: i64, period: Period) -> Result<(String, Option<i64>)> {
        let out_of_range = || Error::OutOfRange {
            text: tick.to_string(),
            unit: unit_name(self.unit()),
        };
        let seconds = tick.div_euclid(ticks_per_second(self.unit()));
        let shown = self.date(seconds).ok_or_else(out_of_range)?;
        // Clocks that return to the day before show this date too early.
        let is_early = self.midnight(shown).is_some_and(|begin| tick < begin);
        let date = shown.pred_opt().filter(|_| is_early).unwrap_or(shown);
        let (name, next) = match period {
            Period::Day => (date.format("%Y-%m-%d"), date.succ_opt()),
            Period::Month => (
                date.format("%Y-%m"),
                date.with_day(1)
                    .and_then(|first| first.checked_add_months(Months::new(1))),
            ),
        };
        let end = next.and_then(|next| self.midnight(next));
        Ok((name.to_string(), end))
    }

    /// Returns the date at an instant.
    fn date(&self, seconds: i64) -> Option<NaiveDate> {
        match self.zone() {
            Some(zone) => zone.date(seconds),
            None => Some(DateTime::from_timestamp(seconds, 0)?.date_naive()),
        }
    }

    /// Returns the tick at which a date begins.
    fn midnight(&self, date: NaiveDate) -> Option<i64> {
        self.first_second(date)?
            .checked_mul(ticks_per_second(self.unit()))
    }

    /// Returns nanoseconds since 1970 at the beginning of a date.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if it is outside the calendar.
    pub(crate) fn beginning_of(&self, date: NaiveDate) -> Result<i128> {
        let seconds = self.first_second(date).ok_or_else(|| Error::OutOfRange {
            text: date.to_string(),
            unit: unit_name(self.unit()),
        })?;
        Ok(i128::from(seconds) * 1_000_000_000)
    }

    /// Returns the seconds since 1970 at which a date begins.
    fn first_second(&self, date: NaiveDate) -> Option<i64> {
        match self.zone() {
            Some(zone) => zone.first_second(date),
            None => Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp()),
        }
    }
}

impl Zone {
    /// Returns the second since 1970 in UTC at which a day begins, given in days since 1970: the
    /// first from which on the zone's clocks do not show the day before.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if the day is outside the calendar.
    ///
    /// ```
    /// use bedload_times::Zone;
    ///
    /// // The clocks of Sao Paulo went from 2018-11-04T00:00 to 01:00.
    /// let zone = Zone::parse("America/Sao_Paulo")?;
    /// assert_eq!(zone.day_begin(17_839)?, 1_541_300_400);
    /// # Ok::<(), bedload_times::Error>(())
    /// ```
    pub fn day_begin(&self, day: i64) -> Result<i64> {
        let date = day
            .checked_mul(86_400)
            .and_then(|seconds| DateTime::from_timestamp(seconds, 0));
        let begin = date.and_then(|date| self.first_second(date.date_naive()));
        begin.ok_or_else(|| Error::OutOfRange {
            text: date.map_or_else(|| format!("day {day}"), |date| date.date_naive().to_string()),
            unit: unit_name(TimeUnit::Second),
        })
    }

    /// Returns the date that clocks show at an instant.
    fn date(&self, seconds: i64) -> Option<NaiveDate> {
        let ahead = self.offset_at(seconds)?;
        let local = DateTime::from_timestamp(seconds.checked_add(i64::from(ahead))?, 0)?;
        Some(local.date_naive())
    }

    /// Returns the seconds since 1970 at which a date begins, from which on clocks do not show the
    /// day before.
    fn first_second(&self, date: NaiveDate) -> Option<i64> {
        let local = date.and_hms_opt(0, 0, 0)?;
        let offsets = self.offsets_of(local)?;
        let [first, last] = offsets.map(|ahead| local.and_utc().timestamp() - i64::from(ahead));
        if self.date(last - 1).is_some_and(|before| before < date) {
            return Some(last);
        }
        if self.date(first - 1).is_none_or(|before| before < date) {
            return Some(first);
        }
        // Clocks skipped midnight, and some time before it.
        let (mut before, mut since) = (first - 86_400, first);
        while since - before > 1 {
            let middle = before.midpoint(since);
            if self.date(middle)? < date {
                before = middle;
            } else {
                since = middle;
            }
        }
        Some(since)
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit::{Millisecond, Nanosecond, Second};

    use super::*;

    fn period(tick: i64, unit: TimeUnit, zone: Option<&str>, period: Period) -> (String, Option<i64>) {
        Clock::new(unit, zone).unwrap().period(tick, period).unwrap()
    }

    #[test]
    fn days_and_months_end_where_the_next_begin() {
        let day = |tick, unit| period(tick, unit, None, Period::Day);
        assert_eq!(day(0, Second), ("1970-01-01".to_owned(), Some(86_400)));
        assert_eq!(day(-1, Millisecond), ("1969-12-31".to_owned(), Some(0)));
        assert_eq!(day(i64::MAX, Nanosecond), ("2262-04-11".to_owned(), None));
        let february = period(1_360_344_600, Second, None, Period::Month);
        assert_eq!(february, ("2013-02".to_owned(), Some(1_362_096_000)));
        let error = Clock::new(Second, None).unwrap().period(i64::MAX, Period::Day);
        assert!(matches!(error, Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn midnights_that_clocks_skip_or_show_twice() {
        // The clocks of Sao Paulo went from 2018-11-04T00:00 to 01:00, and from 2018-02-18T00:00
        // back to 23:00.
        let day = |tick| period(tick, Second, Some("America/Sao_Paulo"), Period::Day);
        let skipped = 1_541_300_400;
        assert_eq!(day(skipped - 1), ("2018-11-03".to_owned(), Some(skipped)));
        assert_eq!(day(skipped).0, "2018-11-04");
        // Those of Toronto went from 1919-03-30T23:30 to 1919-03-31T00:30.
        let both = |tick| period(tick, Second, Some("America/Toronto"), Period::Day);
        let skipped = -1_601_753_400;
        assert_eq!(both(skipped - 1), ("1919-03-30".to_owned(), Some(skipped)));
        assert_eq!(both(skipped).0, "1919-03-31");
        let repeated = 1_518_919_200;
        assert_eq!(
            day(repeated - 1),
            ("2018-02-17".to_owned(), Some(repeated + 3600))
        );
        assert_eq!(day(repeated), ("2018-02-17".to_owned(), Some(repeated + 3600)));
        assert_eq!(day(repeated + 3600).0, "2018-02-18");
        // The clocks of Havana went from 2020-11-01T01:00 back to 00:00, so that day and month
        // began at the first midnight; those of the Azores went back at the same hour.
        for (zone, first, day) in [
            ("America/Havana", 1_604_203_200, "2020-11-01"),
            ("Atlantic/Azores", 1_603_584_000, "2020-10-25"),
        ] {
            for tick in [first, first + 1800, first + 3600, first + 5400] {
                let shown = period(tick, Second, Some(zone), Period::Day);
                assert_eq!(shown, (day.to_owned(), Some(first + 25 * 3600)), "{zone} {tick}");
            }
            let before = period(first - 1, Second, Some(zone), Period::Day);
            assert_eq!(before.1, Some(first), "{zone}");
        }
        let october = period(1_604_201_400, Second, Some("America/Havana"), Period::Month);
        assert_eq!(october, ("2020-10".to_owned(), Some(1_604_203_200)));
        // The clocks of Newfoundland went from 2010-11-07T00:01 back to 2010-11-06T23:01: the
        // minute after the first midnight is within a day that had not ended.
        let first = 1_289_097_000;
        for tick in [first - 1, first, first + 59, first + 60, first + 3599] {
            let shown = period(tick, Second, Some("America/St_Johns"), Period::Day);
            assert_eq!(shown, ("2010-11-06".to_owned(), Some(first + 3600)), "{tick}");
        }
        let next = period(first + 3600, Second, Some("America/St_Johns"), Period::Day);
        assert_eq!(next.0, "2010-11-07");
        // Samoa skipped 2011-12-30.
        let skipped = 1_325_239_200;
        let day = |tick| period(tick, Second, Some("Pacific/Apia"), Period::Day);
        assert_eq!(day(skipped - 1), ("2011-12-29".to_owned(), Some(skipped)));
        assert_eq!(day(skipped).0, "2011-12-31");
    }
}
