//! Casts Arrow columns to other types without loss.
//!
//! A cast fails where a value would change, and names the first row that has one. Types of which no
//! value has the other's meaning, such as text and numbers, are not cast.
//!
//! | from | to |
//! |---|---|
//! | integers, floats, decimals | each other, if each value is the same number |
//! | times of any unit | times of any unit, if no value is rounded or out of range |
//! | times without a zone | times of a zone, read on the clocks of a given zone |
//! | dates | times at which the days begin: midnights, unless the zone's clocks skip or repeat them |
//! | midnights without a zone | dates |
//! | times of day, durations | the same of any unit, if no value is rounded or out of range |
//! | text, bytes, dictionaries | the same values in another layout; bytes of one length, if they have it |
//! | nulls | any type |
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, TimestampMillisecondArray};
//! use arrow_schema::{DataType, TimeUnit};
//! use bedload_casts::{Error, cast};
//!
//! let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![Some(2000), None]));
//! let seconds = DataType::Timestamp(TimeUnit::Second, None);
//! assert_eq!(cast(&times, &seconds, None)?.data_type(), &seconds);
//!
//! let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![2000, 2500]));
//! assert!(matches!(cast(&times, &seconds, None), Err(Error::Value { row: 1, .. })));
//! # Ok::<(), Error>(())
//! ```

mod error;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, new_empty_array, new_null_array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp::not_distinct;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use bedload_times::Zone;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use error::{Error, Result};

/// Values that are not of the other type become null, so that the first one can be found.
const LENIENT: CastOptions<'_> = CastOptions {
    safe: true,
    format_options: FormatOptions::new(),
};

/// The column in another type. Times without a zone that become times of one are readings of
/// `clock`. Takes time and memory in proportion to the rows, none if the types are the same.
///
/// # Errors
///
/// A value would change: [`Error::Value`], [`Error::Reading`]; or values of the types have
/// different meanings: the other [errors](Error), which depend on the types alone, but for
/// [`Error::Arrow`].
pub fn cast(column: &ArrayRef, to: &DataType, clock: Option<&Zone>) -> Result<ArrayRef> {
    let from = column.data_type();
    match (from, to) {
        _ if from == to => Ok(Arc::clone(column)),
        (DataType::Null, _) => Ok(new_null_array(to, column.len())),
        (DataType::Dictionary(_, values), _) => {
            let plain = lenient(column, values)?;
            cast(&plain, to, clock)
        }
        // Arrow refuses a zone without a name.
        (DataType::Timestamp(unit, Some(zone)), _) if zone.is_empty() => {
            let ticks = lenient(column, &DataType::Int64)?;
            let times = lenient(&ticks, &DataType::Timestamp(*unit, None))?;
            cast(&times, to, clock)
        }
        (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(_))) => {
            let clock = clock.ok_or_else(|| Error::ZoneUnknown { to: to.clone() })?;
            let ticks = lenient(column, &DataType::Int64)?;
            exact(&in_utc(&ticks, *unit, |tick| clock.utc_ticks(tick, *unit))?, to)
        }
        (DataType::Timestamp(_, Some(zone)), DataType::Timestamp(_, None)) => Err(Error::ZoneLost {
            zone: zone.to_string(),
            to: to.clone(),
        }),
        (DataType::Date32, DataType::Timestamp(_, Some(_))) => {
            let clock = clock.ok_or_else(|| Error::ZoneUnknown { to: to.clone() })?;
            let days = lenient(&lenient(column, &DataType::Int32)?, &DataType::Int64)?;
            let begins = in_utc(&days, TimeUnit::Second, |day| clock.day_begin(day))?;
            exact(&begins, to)
        }
        // Days in milliseconds need not be whole ones, so they become times of the same unit.
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(..)) => {
            let unit = match from {
                DataType::Date64 => TimeUnit::Millisecond,
                _ => TimeUnit::Second,
            };
            let times = lenient(column, &DataType::Timestamp(unit, None))?;
            cast(&times, to, clock)
        }
        // Arrow has no such cast.
        (DataType::BinaryView, DataType::FixedSizeBinary(_)) => {
            let plain = lenient(column, &DataType::Binary)?;
            lenient(&plain, to)
        }
        _ if is_relabelled(from, to) => lenient(column, to),
        _ if is_comparable(from, to) => exact(column, to),
        _ => Err(Error::Types {
            from: from.clone(),
            to: to.clone(),
        }),
    }
}

/// Fails if no column of the type can be cast to the other, with the error of [`cast`].
///
/// # Errors
///
/// As for [`cast`] of a column without rows.
pub fn check(from: &DataType, to: &DataType, clock: Option<&Zone>) -> Result<()> {
    cast(&new_empty_array(from), to, clock).map(drop)
}

/// Whether the types hold the same bytes in different layouts, so that casting back is no check.
fn is_relabelled(from: &DataType, to: &DataType) -> bool {
    let is_bytes = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
        )
    };
    (from.is_string() && to.is_string()) || (is_bytes(from) && is_bytes(to))
}

/// Whether values of the types can have the same meaning, which casting back shows.
fn is_comparable(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};

    matches!(
        (from, to),
        (Date64, Date32)
            | (Timestamp(..), Timestamp(..))
            | (Timestamp(_, None), Date32)
            | (Time32(_) | Time64(_), Time32(_) | Time64(_))
            | (Duration(_), Duration(_))
    ) || (from.is_numeric() && to.is_numeric())
}

/// The column in another type, where no value may become null.
fn lenient(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let there = cast_with_options(column, to, &LENIENT).map_err(|error| failed(column, to, &error))?;
    if there.null_count() == column.logical_null_count() {
        return Ok(there);
    }
    let nulls = column.logical_nulls();
    let was_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    match (0..column.len()).find(|&row| there.is_null(row) && !was_null(row)) {
        Some(row) => Err(refused(column, row, to)),
        None => Ok(there),
    }
}

/// The column in another type, from which each value must come back as it was.
fn exact(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let there = cast_with_options(column, to, &LENIENT);
    let there = there.map_err(|error| failed(column, to, &error))?;
    let same = cast_with_options(&there, column.data_type(), &LENIENT)
        .and_then(|back| not_distinct(&back, column))
        .map_err(|error| failed(column, to, &error))?;
    match same.values().iter().position(|is_same| !is_same) {
        Some(row) => Err(refused(column, row, to)),
        None => Ok(there),
    }
}

fn failed(column: &ArrayRef, to: &DataType, error: &ArrowError) -> Error {
    Error::Arrow {
        from: column.data_type().clone(),
        to: to.clone(),
        reason: error.to_string(),
    }
}

/// The error of a row whose value is none of the other type.
fn refused(column: &ArrayRef, row: usize, to: &DataType) -> Error {
    let formatter = ArrayFormatter::try_new(column.as_ref(), &LENIENT.format_options);
    let value = formatter.and_then(|formatter| formatter.value(row).try_to_string());
    Error::Value {
        row,
        value: value.unwrap_or_else(|_| "its value".to_owned()),
        to: to.clone(),
    }
}

/// Readings of a clock, whole numbers, as times in UTC.
fn in_utc(
    readings: &ArrayRef,
    unit: TimeUnit,
    tick_of: impl Fn(i64) -> bedload_times::Result<i64>,
) -> Result<ArrayRef> {
    let tick = |(row, reading): (usize, Option<i64>)| {
        let utc = reading.map(&tick_of).transpose();
        utc.map_err(|reason| Error::Reading { row, reason })
    };
    let utc = readings
        .as_primitive::<Int64Type>()
        .iter()
        .enumerate()
        .map(tick)
        .collect::<Result<Int64Array>>()?;
    let utc: ArrayRef = Arc::new(utc);
    lenient(&utc, &DataType::Timestamp(unit, Some(Arc::from("UTC"))))
}
