//! Texts and readings of clocks as nanoseconds, by the rules that the command has.

use std::time::SystemTime;

use arrow_schema::TimeUnit;
use bedload_times::{Clock, Error, Point, Zone, nanos_per_tick, parse_unit};
use pyo3::prelude::*;

use crate::error::schema as refuse;

fn refused(error: Error) -> PyErr {
    refuse(error.to_string())
}

fn unit_of(unit: &str) -> PyResult<TimeUnit> {
    parse_unit(unit).ok_or_else(|| {
        refuse(format!(
            "{unit:?} is no unit: use \"s\", \"ms\", \"us\" or \"ns\""
        ))
    })
}

/// The clock of a column, which refuses a text with a zone if the column has none.
fn clock_for(text: &str, unit: &str, zone: Option<&str>, now: SystemTime) -> PyResult<(Clock, Point)> {
    let clock = Clock::new(unit_of(unit)?, zone).map_err(refused)?;
    let point = clock.point(text, now).map_err(refused)?;
    if point.has_offset && zone.is_none() {
        return Err(refuse(format!(
            "{text:?} has a time zone and the table's times have none: remove it, or convert it"
        )));
    }
    Ok((clock, point))
}

/// Nanoseconds since 1970 of the time that a text names for a column of this unit and zone.
#[pyfunction]
pub(crate) fn time_nanos(text: &str, unit: &str, zone: Option<&str>) -> PyResult<i128> {
    let (_, point) = clock_for(text, unit, zone, SystemTime::now())?;
    Ok(point.nanos)
}

/// The tick at the time that a text names, if there is one. Durations are subtracted from the last
/// tick before now.
#[pyfunction]
pub(crate) fn time_tick(text: &str, unit: &str, zone: Option<&str>) -> PyResult<Option<i64>> {
    let now = SystemTime::now();
    let (clock, _) = clock_for(text, unit, zone, now)?;
    match clock.tick(text, now) {
        Ok(tick) => Ok(Some(tick)),
        Err(Error::BetweenTicks { .. } | Error::OutOfRange { .. }) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

/// Nanoseconds of a duration such as `10s`.
#[pyfunction]
pub(crate) fn duration_nanos(text: &str) -> PyResult<i128> {
    bedload_times::parse_duration(text).map_err(refused)
}

/// Nanoseconds since 1970 in UTC at which a day begins on a zone's clocks; days count from 1970.
#[pyfunction]
pub(crate) fn day_nanos(day: i64, zone: &str) -> PyResult<i128> {
    let second = Zone::parse(zone)
        .and_then(|zone| zone.day_begin(day))
        .map_err(refused)?;
    Ok(i128::from(second) * i128::from(nanos_per_tick(TimeUnit::Second)))
}

/// Nanoseconds since 1970 in UTC of a reading of a zone's clocks, which is nanoseconds since
/// their 1970.
#[pyfunction]
pub(crate) fn utc_nanos(nanos: i128, zone: &str) -> PyResult<i128> {
    let zone = Zone::parse(zone).map_err(refused)?;
    // Offsets are whole seconds, so fractions of a second are set aside.
    let per_second = i128::from(nanos_per_tick(TimeUnit::Second));
    let seconds = i64::try_from(nanos.div_euclid(per_second))
        .map_err(|_| refuse("the time is beyond the years for which zones have rules"))?;
    let utc = zone.utc_ticks(seconds, TimeUnit::Second).map_err(refused)?;
    Ok(i128::from(utc) * per_second + nanos.rem_euclid(per_second))
}
