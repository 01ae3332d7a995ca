//! Time zones, and the instants at which their clocks show a reading.

use arrow_array::timezone::Tz;
use arrow_schema::TimeUnit;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};

use crate::{Error, Result, nanos_per_tick, ticks_per_second, unit_name};

/// A time zone: an IANA name such as `Europe/Paris`, or an offset such as `+02:00`.
///
/// ```
/// use bedload_times::Zone;
///
/// assert!(Zone::parse("Europe/Paris").is_ok());
/// assert!(Zone::parse("Mars/Olympus").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct Zone {
    name: String,
    zone: Tz,
}

impl Zone {
    /// Parses the name of a zone. `Z`, which Arrow does not read as a zone, becomes `UTC`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownZone`] if there is no such zone.
    pub fn parse(name: &str) -> Result<Self> {
        let name = if name == "Z" { "UTC" } else { name }.to_owned();
        match name.parse() {
            Ok(zone) => Ok(Self { name, zone }),
            Err(_) => Err(Error::UnknownZone { name }),
        }
    }

    /// Returns the zone's name, as Arrow reads it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the zone's offset from UTC in seconds when its clocks show `local`; errors quote
    /// `written`.
    ///
    /// # Errors
    ///
    /// [`Error::Skipped`] and [`Error::Repeated`] if clocks were set forward over this reading, or
    /// back to it.
    pub fn offset_of(&self, local: NaiveDateTime, written: &str) -> Result<i32> {
        let (reading, zone) = (written.to_owned(), self.name.clone());
        match self.zone.offset_from_local_datetime(&local) {
            MappedLocalTime::Single(offset) => Ok(offset.fix().local_minus_utc()),
            MappedLocalTime::Ambiguous(..) => Err(Error::Repeated { reading, zone }),
            MappedLocalTime::None => Err(Error::Skipped { reading, zone }),
        }
    }

    /// Returns the zone's offset from UTC in seconds at an instant, in seconds since 1970; `None`
    /// beyond the calendar.
    ///
    /// ```
    /// use bedload_times::Zone;
    ///
    /// let zone = Zone::parse("Europe/Vienna")?;
    /// assert_eq!(zone.offset_at(0), Some(3600));
    /// assert_eq!(zone.offset_at(-2_840_140_800), Some(3921));
    /// # Ok::<(), bedload_times::Error>(())
    /// ```
    #[must_use]
    pub fn offset_at(&self, seconds: i64) -> Option<i32> {
        let instant = DateTime::from_timestamp(seconds, 0)?.naive_utc();
        Some(
            self.zone
                .offset_from_utc_datetime(&instant)
                .fix()
                .local_minus_utc(),
        )
    }

    /// Returns the zone's offsets from UTC in seconds when its clocks show `local` for the first
    /// and for the last time; if they skip it, the offset before the skip twice.
    pub(crate) fn offsets_of(&self, local: NaiveDateTime) -> Option<[i32; 2]> {
        let readings = self.zone.offset_from_local_datetime(&local);
        if let (Some(first), Some(last)) = (readings.earliest(), readings.latest()) {
            return Some([first, last].map(|offset| offset.fix().local_minus_utc()));
        }
        // Clocks do not change twice within two days, and no zone is a day from UTC.
        let before = self.offset_at(local.and_utc().timestamp() - 36 * 3600)?;
        Some([before; 2])
    }

    /// Converts a reading of the zone's clocks, in ticks since 1970, to ticks since 1970 in UTC.
    ///
    /// # Errors
    ///
    /// As for [`offset_of`](Self::offset_of), and [`Error::OutOfRange`] beyond the range of ticks
    /// or of the calendar.
    ///
    /// ```
    /// use arrow_schema::TimeUnit;
    /// use bedload_times::Zone;
    ///
    /// let zone = Zone::parse("+01:00")?;
    /// assert_eq!(zone.utc_ticks(3_600_000, TimeUnit::Millisecond)?, 0);
    /// # Ok::<(), bedload_times::Error>(())
    /// ```
    pub fn utc_ticks(&self, ticks: i64, unit: TimeUnit) -> Result<i64> {
        let per_second = ticks_per_second(unit);
        let out_of_range = || Error::OutOfRange {
            text: ticks.to_string(),
            unit: unit_name(unit),
        };
        let (seconds, rest) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
        let local = DateTime::from_timestamp(seconds, 0)
            .ok_or_else(out_of_range)?
            .naive_utc();
        let offset = match self.offset_of(local, "") {
            Ok(offset) => i64::from(offset),
            Err(error) => return Err(error.of_reading(local, rest * nanos_per_tick(unit))),
        };
        ticks.checked_sub(offset * per_second).ok_or_else(out_of_range)
    }
}

impl Error {
    /// Adds the formatted reading to the error, which is too costly to format for every reading.
    fn of_reading(self, local: NaiveDateTime, nanos: i64) -> Self {
        let fraction = format!("{nanos:09}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        let reading = format!("{}{point}{fraction}", local.format("%Y-%m-%dT%H:%M:%S"));
        match self {
            Self::Skipped { zone, .. } => Self::Skipped { reading, zone },
            Self::Repeated { zone, .. } => Self::Repeated { reading, zone },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use TimeUnit::{Millisecond, Nanosecond, Second};

    use super::*;

    /// 2020-11-01T00:00:00 as if it were UTC.
    const MIDNIGHT: i64 = 1_604_188_800;

    #[test]
    fn a_reading_becomes_its_instant_unless_it_occurs_twice_or_never() {
        let zone = Zone::parse("America/New_York").unwrap();
        assert_eq!(zone.utc_ticks(MIDNIGHT, Second), Ok(MIDNIGHT + 4 * 3600));
        let later = MIDNIGHT + 2 * 3600;
        assert_eq!(zone.utc_ticks(later, Second), Ok(later + 5 * 3600));
        let error = zone
            .utc_ticks((MIDNIGHT + 5400) * 1000 + 250, Millisecond)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "`2020-11-01T01:30:00.25` occurs twice in America/New_York, where clocks were set back: \
             add an offset, as in …+02:00 or …Z"
        );
        // 2020-03-08T02:30.
        let error = zone.utc_ticks(1_583_634_600, Second).unwrap_err();
        assert!(matches!(&error, Error::Skipped { reading, .. } if reading == "2020-03-08T02:30:00"));
    }

    #[test]
    fn the_ends_of_the_range_are_errors() {
        let zone = Zone::parse("+01:00").unwrap();
        assert!(matches!(
            zone.utc_ticks(i64::MIN, Nanosecond),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(
            zone.utc_ticks(i64::MAX, Second),
            Err(Error::OutOfRange { .. })
        ));
    }

    #[test]
    fn names_of_utc() {
        for name in ["UTC", "Etc/UTC", "Z", "+00:00"] {
            let zone = Zone::parse(name).unwrap();
            assert_eq!(zone.utc_ticks(7, Second), Ok(7), "{name}");
            assert!(zone.name().parse::<Tz>().is_ok(), "{name}");
        }
    }
}
