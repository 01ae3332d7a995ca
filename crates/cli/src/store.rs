//! The store as the commands meet it: opening it, its errors as exit codes, and the bounds of a
//! range of times.

use std::ops::Bound;
use std::path::Path;
use std::time::SystemTime;

use arrow_array::RecordBatch;
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use bedload::{Error, Options, Store, Table, TableSchema};
use bedload_times::{Clock, nanos_per_tick};

use crate::args::RangeArgs;
use crate::exit::{Failure, Result, Status, plain};
use crate::input::listed;
use crate::reserved;

/// Opens a store that is there.
pub(crate) fn open(path: &Path) -> Result<Store> {
    Ok(Store::open(path)?)
}

/// Opens a store that is there for reading alone: another process may be writing to it.
///
/// # Errors
///
/// There is no store, or it cannot be read.
pub fn open_to_read(path: &Path) -> Result<Store> {
    Ok(Options::new().read_only(true).open(path)?)
}

/// Opens a store to change it or, if it is a dry run, to look at it.
pub(crate) fn open_unless(is_dry_run: bool, path: &Path) -> Result<Store> {
    if is_dry_run {
        open_to_read(path)
    } else {
        open(path)
    }
}

/// A table of a store; if there is none of that name, the message says which there are.
pub(crate) fn table(store: &Store, name: &str) -> Result<Table> {
    store.table(name).map_err(|error| match error {
        Error::NoSuchTable { .. } => {
            let mut tables = store.tables();
            tables.retain(|table| !reserved::is_own(table));
            let there = match tables.is_empty() {
                true => ", nor any other".to_owned(),
                false => format!("; there are: {}", listed(&tables)),
            };
            Failure::input(format!("the store has no table {name}{there}"))
        }
        error => error.into(),
    })
}

/// Drops a table that may not have been created.
pub(crate) fn drop_if_there(store: &Store, name: &str) -> Result<()> {
    match store.drop_table(name) {
        Ok(()) | Err(Error::NoSuchTable { .. }) => Ok(()),
        // A full disk has no room for the drop, nor had it for the table.
        Err(Error::NoSpace { .. }) if !store.tables().iter().any(|table| table == name) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let status = match error {
            Error::Io { .. }
            | Error::NoSpace { .. }
            | Error::ReadOnly { .. }
            | Error::Replaced { .. }
            | Error::Inherited { .. } => Status::Io,
            Error::Corrupt { .. } | Error::Index(bedload_pages::Error::Corrupt { .. }) => Status::Damaged,
            Error::NotAStore { .. } | Error::Irregular { .. } => Status::NotAStore,
            Error::NewerFormat { .. } | Error::OlderFormat { .. } => Status::OtherFormat,
            Error::Locked { .. } => Status::Busy,
            _ => Status::Input,
        };
        let message = match error {
            Error::Io { path, action, source } => {
                format!("cannot {action} {}: {}", path.display(), plain(source))
            }
            error => error.to_string(),
        };
        Self::new(status, message)
    }
}

/// A range of ticks, `from` inclusive and `to` exclusive.
pub(crate) type TickRange = (Bound<i64>, Bound<i64>);

/// The ticks of a table's time column that `--from`, `--to` and `--last` mean.
pub(crate) fn tick_range(table: &Table, range: &RangeArgs) -> Result<TickRange> {
    let (unit, zone) = time_type(table.schema());
    if let Some(nanos) = range.last {
        return last(table, nanos, unit);
    }
    let clock = Clock::new(unit, zone).map_err(|error| Failure::input(error.to_string()))?;
    let now = SystemTime::now();
    let ticks = |option: &str, text: &Option<String>| {
        text.as_deref()
            .map(|text| clock.first_tick(text, now))
            .transpose()
            .map_err(|error| Failure::input(format!("{option}: {error}")))
    };
    let (from, to) = (ticks("--from", &range.from)?, ticks("--to", &range.to)?);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(Failure::input("--from lies after --to"));
    }
    Ok((
        from.map_or(Bound::Unbounded, Bound::Included),
        to.map_or(Bound::Unbounded, Bound::Excluded),
    ))
}

/// The ticks less than `nanos` before the newest row of a table, and that row's; of a table without
/// rows, any.
fn last(table: &Table, nanos: i128, unit: TimeUnit) -> Result<TickRange> {
    let Some((_, newest)) = edges(table)? else {
        return Ok((Bound::Unbounded, Bound::Unbounded));
    };
    let per_tick = i128::from(nanos_per_tick(unit));
    // A stretch that begins between two ticks has the later one in it, and so one shorter than a
    // tick the newest row; one that is longer than all ticks has all rows.
    let ticks = nanos / per_tick + i128::from(nanos % per_tick != 0);
    let from = (i128::from(newest) + 1 - ticks).max(i128::from(i64::MIN));
    let from = i64::try_from(from).unwrap_or(i64::MIN);
    Ok((Bound::Included(from), Bound::Unbounded))
}

/// The first time of a table in a range.
pub(crate) fn first_time(table: &Table, range: TickRange) -> Result<Option<i64>> {
    let time = [time_name(table.schema())];
    let first = table.range(range)?.columns(&time)?.limit(1).next();
    first.transpose()?.as_ref().map(tick_in).transpose()
}

/// The first and the last time of a table.
pub(crate) fn edges(table: &Table) -> Result<Option<(i64, i64)>> {
    let time = [time_name(table.schema())];
    let first = first_time(table, (Bound::Unbounded, Bound::Unbounded))?;
    let last = table.range(..)?.columns(&time)?.rev().limit(1).next();
    let last = last.transpose()?.as_ref().map(tick_in).transpose()?;
    Ok(first.zip(last))
}

/// The time in a batch of one row and one column.
fn tick_in(batch: &RecordBatch) -> Result<i64> {
    let ticks = cast(batch.column(0), &DataType::Int64).map_err(|error| Failure::input(error.to_string()))?;
    let ticks: &arrow_array::Int64Array = arrow_array::cast::AsArray::as_primitive(&ticks);
    Ok(ticks.value(0))
}

/// Unit and zone of a table's time column.
pub(crate) fn time_type(schema: &TableSchema) -> (TimeUnit, Option<&str>) {
    match schema.arrow().field(schema.time_column()).data_type() {
        DataType::Timestamp(unit, zone) => (*unit, zone.as_deref()),
        // A table's time column is never of another type.
        _ => (schema.time_unit(), None),
    }
}

/// The name of a table's time column.
pub(crate) fn time_name(schema: &TableSchema) -> &str {
    schema.arrow().field(schema.time_column()).name()
}
