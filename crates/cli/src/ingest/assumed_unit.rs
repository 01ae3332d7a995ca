//! Integers in the time column whose unit neither the user nor the file names: they count in the
//! unit of the table.
//!
//! A wrong unit is a factor of a thousand at least. A file that counts in a coarser unit than its
//! table then has its times in January 1970, one that counts in a finer unit has them after the
//! calendar's end. Such a file is refused if another unit puts all its first rows beside those of
//! the table. So rows that do lie in 1970, as those of a device whose clock is not set, are taken
//! unless another unit happens to put all of them there.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use bedload::Table;
use bedload_times::{nanos_per_tick, unit_name};

use crate::exit::{Failure, Result};
use crate::store::{edges, time_name};

const NANOS_A_DAY: i128 = 86_400 * 1_000_000_000;
const NANOS_A_YEAR: i128 = 365 * NANOS_A_DAY;

/// January 1970, in nanoseconds since 1970.
const JANUARY: Range<i128> = 0..31 * NANOS_A_DAY;

/// The year 10,000.
const CALENDAR_END: i128 = 253_402_300_800 * 1_000_000_000;

/// Times are beside a table's if they lie so near to one of its rows, or between them.
const BESIDE: i128 = 10 * NANOS_A_YEAR;

/// Fails if the first times of a file, ticks of the table's unit, make sense in another unit alone.
pub(super) fn check(file: &str, table: &Table, unit: TimeUnit, times: &ArrayRef) -> Result<()> {
    let ticks = cast(times, &DataType::Int64).map_err(|error| Failure::input(error.to_string()))?;
    let ticks = ticks.as_primitive::<Int64Type>().values();
    let (Some(&least), Some(&greatest)) = (ticks.iter().min(), ticks.iter().max()) else {
        return Ok(());
    };
    let Some((first, last)) = edges(table)? else {
        return Ok(());
    };
    let nanos = |tick: i64, unit| i128::from(tick) * i128::from(nanos_per_tick(unit));
    let (first, last) = (nanos(first, unit), nanos(last, unit));
    let found = nanos(least, unit)..=nanos(greatest, unit);
    let is_in_1970 = JANUARY.contains(found.start()) && JANUARY.contains(found.end());
    let lie = if is_in_1970 && first - BESIDE >= JANUARY.start {
        "in January 1970"
    } else if *found.start() >= CALENDAR_END && last < CALENDAR_END {
        "after the year 9999"
    } else {
        return Ok(());
    };
    let is_beside = |&other: &TimeUnit| {
        other != unit && first - BESIDE <= nanos(least, other) && nanos(greatest, other) <= last + BESIDE
    };
    let units = [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ];
    let Some(meant) = units.iter().find(|other| is_beside(other)) else {
        return Ok(());
    };
    let (column, name) = (time_name(table.schema()), table.name());
    let (unit, meant) = (unit_name(unit), unit_name(*meant));
    Err(Failure::input(format!(
        "{file}: in {unit}, the unit of table {name}, the integers in column {column} lie {lie}, in {meant} beside \
         its rows: say which they are with --time-unit {meant} or --time-unit {unit}"
    )))
}
