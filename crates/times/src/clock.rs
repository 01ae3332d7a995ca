//! Reads times for one column.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_schema::TimeUnit;

use crate::{Error, Result, WrittenTime, Zone, nanos_per_tick, parse_duration, unit_name};

/// Reads times for a column of a given unit and zone.
#[derive(Debug, Clone)]
pub struct Clock {
    unit: TimeUnit,
    zone: Option<Zone>,
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Nanoseconds since 1970, in UTC if the column has a zone.
    pub nanos: i128,
    /// Whether the text had an offset from UTC and so named an instant.
    pub has_offset: bool,
}

impl Clock {
    /// Creates a clock for a column of timestamps.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownZone`].
    pub fn new(unit: TimeUnit, zone: Option<&str>) -> Result<Self> {
        Ok(Self {
            unit,
            zone: zone.map(Zone::parse).transpose()?,
        })
    }

    /// Parses `text`, in any of the forms that the crate lists; durations are subtracted from
    /// `now`.
    ///
    /// # Errors
    ///
    /// [`Error::NotATime`], and [`Error::Skipped`] and [`Error::Repeated`] for a time of day where
    /// clocks change.
    pub fn point(&self, text: &str, now: SystemTime) -> Result<Point> {
        if let Some(ticks) = text.strip_prefix('@') {
            let ticks: i64 = ticks.parse().map_err(|_| Error::NotATime {
                text: text.to_owned(),
                remedy: format!("after @ there must be a whole number of {}", unit_name(self.unit)),
            })?;
            return Ok(Point {
                nanos: i128::from(ticks) * i128::from(nanos_per_tick(self.unit)),
                has_offset: false,
            });
        }
        if let Some(duration) = text.strip_prefix('-').map(parse_duration).and_then(Result::ok) {
            return Ok(Point {
                nanos: nanos_of(now) - duration,
                has_offset: false,
            });
        }
        let written = WrittenTime::parse(text)
            .or_else(|| WrittenTime::parse_month(text))
            .ok_or_else(|| self.not_a_time(text))?;
        let nanos = match (written.offset_seconds, &self.zone) {
            (Some(offset), _) => written.nanos(offset),
            (None, None) => written.nanos(0),
            // A date has no time of day that clocks could skip or repeat.
            (None, Some(_)) if text.len() <= "2013-02-08".len() => self.beginning_of(written.local.date())?,
            (None, Some(zone)) => written.nanos(zone.offset_of(written.local, text)?),
        };
        Ok(Point {
            nanos,
            has_offset: written.offset_seconds.is_some(),
        })
    }

    /// Returns the first tick at or after the time `text`.
    ///
    /// # Errors
    ///
    /// As for [`point`](Self::point), and [`Error::OutOfRange`].
    pub fn first_tick(&self, text: &str, now: SystemTime) -> Result<i64> {
        let nanos = self.point(text, now)?.nanos;
        let per_tick = i128::from(nanos_per_tick(self.unit));
        let ticks = nanos.div_euclid(per_tick) + i128::from(nanos.rem_euclid(per_tick) != 0);
        self.in_range(ticks, text)
    }

    /// Returns the tick at the time `text`. Durations are subtracted from the last tick at or
    /// before `now`, so that those of whole ticks name a tick.
    ///
    /// # Errors
    ///
    /// As for [`point`](Self::point), [`Error::BetweenTicks`] and [`Error::OutOfRange`].
    ///
    /// ```
    /// use arrow_schema::TimeUnit;
    /// use bedload_times::{Clock, Error};
    ///
    /// let clock = Clock::new(TimeUnit::Second, None)?;
    /// let now = std::time::SystemTime::now();
    /// assert_eq!(clock.tick("1970-01-01T00:01", now)?, 60);
    /// assert!(clock.tick("-1h", now).is_ok());
    /// assert!(matches!(clock.tick("1970-01-01T00:01:00.5", now), Err(Error::BetweenTicks { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn tick(&self, text: &str, now: SystemTime) -> Result<i64> {
        let per_tick = i128::from(nanos_per_tick(self.unit));
        let since_tick = u64::try_from(nanos_of(now).rem_euclid(per_tick)).unwrap_or(0);
        let now = now.checked_sub(Duration::from_nanos(since_tick)).unwrap_or(now);
        let nanos = self.point(text, now)?.nanos;
        if nanos.rem_euclid(per_tick) != 0 {
            return Err(Error::BetweenTicks {
                text: text.to_owned(),
                unit: unit_name(self.unit),
            });
        }
        self.in_range(nanos.div_euclid(per_tick), text)
    }

    fn in_range(&self, ticks: i128, text: &str) -> Result<i64> {
        i64::try_from(ticks).map_err(|_| Error::OutOfRange {
            text: text.to_owned(),
            unit: unit_name(self.unit),
        })
    }

    pub(crate) fn unit(&self) -> TimeUnit {
        self.unit
    }

    pub(crate) fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    fn not_a_time(&self, text: &str) -> Error {
        let unit = unit_name(self.unit);
        let remedy = match text.parse::<i128>() {
            Ok(..0) => format!(
                "write {text}s, {text}min, {text}h or {text}d for so long before now, or @{text} for {unit} since 1970"
            ),
            Ok(_) => format!("write @{text} for {unit} since 1970, or a year of four digits"),
            Err(_) => format!(
                "write 2013, 2013-02, 2013-02-08, '2013-02-08 17:30:00', 2013-02-08T17:30:00Z, -1h (an hour before now) \
                 or @N ({unit} since 1970)"
            ),
        };
        Error::NotATime {
            text: text.to_owned(),
            remedy,
        }
    }
}

/// Returns nanoseconds since 1970.
pub(crate) fn nanos_of(time: SystemTime) -> i128 {
    let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(before) => -nanos(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, unit: TimeUnit, zone: Option<&str>) -> Result<i64> {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        Clock::new(unit, zone)?.first_tick(text, now)
    }

    #[test]
    fn a_tick_is_no_rounded_time() {
        let now = UNIX_EPOCH + Duration::from_millis(1_700_000_000_750);
        let tick = |text, unit| Clock::new(unit, None).unwrap().tick(text, now);
        assert_eq!(tick("1970-01-01T00:00:01.250", Millisecond), Ok(1250));
        assert_eq!(tick("-1h", Second), Ok(1_700_000_000 - 3600));
        assert_eq!(tick("-1ms", Nanosecond), Ok(1_700_000_000_749_000_000));
        for (text, unit) in [
            ("1970-01-01T00:00:00.5", Second),
            ("-1ms", Second),
            ("-1ns", Microsecond),
        ] {
            let between = tick(text, unit);
            assert!(
                matches!(between, Err(Error::BetweenTicks { .. })),
                "{text}: {between:?}"
            );
        }
    }

    fn bound(text: &str, unit: TimeUnit) -> i64 {
        read(text, unit, None).unwrap()
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
    fn durations_are_before_now() {
        assert_eq!(bound("-1h", Second), 1_700_000_000 - 3600);
        assert_eq!(bound("-2d", Millisecond), (1_700_000_000 - 2 * 86_400) * 1000);
        assert_eq!(
            bound("-1ns", Second),
            1_700_000_000,
            "a bound between two ticks rounds up"
        );
        assert_eq!(read("-1h", Second, Some("Asia/Tokyo")), Ok(1_700_000_000 - 3600));
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
            "-h",
        ] {
            let message = read(text, Second, None).unwrap_err().to_string();
            assert!(message.contains("is not a time"), "{text}: {message}");
        }
        let message = read("1360344600", Millisecond, None).unwrap_err().to_string();
        assert!(message.contains("@1360344600 for ms since 1970"), "{message}");
        let message = read("-5", Second, None).unwrap_err().to_string();
        assert!(message.contains("-5min"), "{message}");
    }

    #[test]
    fn bounds_finer_than_the_unit_round_up() {
        assert_eq!(bound("1970-01-01T00:00:01.0001", Second), 2);
        assert_eq!(bound("1969-12-31T23:59:58.5", Second), -1);
        assert_eq!(bound("1970-01-01T00:00:00.000000001", Nanosecond), 1);
    }

    #[test]
    fn the_ends_of_nanoseconds() {
        assert_eq!(bound("2262-04-11T23:47:16.854775807", Nanosecond), i64::MAX);
        assert_eq!(bound("1677-09-21T00:12:43.145224192", Nanosecond), i64::MIN);
        for text in ["2262-04-11T23:47:16.854775808", "1677-09-21T00:12:43.145224191"] {
            assert!(
                matches!(read(text, Nanosecond, None), Err(Error::OutOfRange { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn a_time_without_offset_is_read_in_the_columns_zone() {
        let zoned = |text, zone| read(text, Second, Some(zone));
        assert_eq!(
            zoned("2013-02-08 12:30:00", "America/New_York"),
            Ok(1_360_344_600)
        );
        assert_eq!(zoned("2013-02-08 17:30:00", "+00:00"), Ok(1_360_344_600));
        assert_eq!(
            zoned("2013-02-08T17:30:00Z", "America/New_York"),
            Ok(1_360_344_600)
        );
        assert!(matches!(
            zoned("2013-03-10 02:30:00", "America/New_York"),
            Err(Error::Skipped { .. })
        ));
        assert!(matches!(
            zoned("2013-11-03 01:30:00", "America/New_York"),
            Err(Error::Repeated { .. })
        ));
        assert_eq!(
            zoned("2013-11-03T01:30:00-05:00", "America/New_York"),
            Ok(1_383_460_200)
        );
        assert!(matches!(
            zoned("2013", "Mars/Olympus"),
            Err(Error::UnknownZone { .. })
        ));
    }

    #[test]
    fn a_date_begins_where_clocks_skip_or_repeat_midnight() {
        for (text, zone, begin) in [
            // Midnight was skipped.
            ("2018-11-04", "America/Sao_Paulo", 1_541_300_400),
            // Clocks returned to the day before, so the day began at its second midnight.
            ("2018-02-18", "America/Sao_Paulo", 1_518_922_800),
            // Clocks returned to midnight, so the day began at its first.
            ("2020-11-01", "America/Havana", 1_604_203_200),
            ("2020-11", "America/Havana", 1_604_203_200),
            // The day was skipped.
            ("2011-12-30", "Pacific/Apia", 1_325_239_200),
            ("2013", "America/New_York", 1_357_016_400),
        ] {
            assert_eq!(read(text, Second, Some(zone)), Ok(begin), "{text} {zone}");
        }
        for (text, zone) in [
            ("2018-11-04 00:00", "America/Sao_Paulo"),
            ("2020-11-01T00:00", "America/Havana"),
        ] {
            let reading = read(text, Second, Some(zone));
            assert!(
                matches!(reading, Err(Error::Skipped { .. } | Error::Repeated { .. })),
                "{text} {zone}: {reading:?}"
            );
        }
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
