//! The store as the commands meet it: opening it, its errors as exit codes, and the bounds of a range of times.

use std::ops::Bound;
use std::path::Path;

use arrow_schema::{DataType, TimeUnit};
use bedload::{Error, Store, Table, TableSchema};

use crate::args::RangeArgs;
use crate::exit::{Failure, Result, Status, plain};
use crate::times::parse_bound;

/// Opens a store that is there.
pub(crate) fn open(path: &Path) -> Result<Store> {
    Ok(Store::open(path)?)
}

/// A table of a store; if there is none of that name, the message says which there are.
pub(crate) fn table(store: &Store, name: &str) -> Result<Table> {
    store.table(name).map_err(|error| match error {
        Error::NoSuchTable { .. } => {
            let tables = store.tables();
            let there = if tables.is_empty() {
                "it has none".to_owned()
            } else {
                tables.join(", ")
            };
            Failure::input(format!("the store has no table {name}; there are: {there}"))
        }
        error => error.into(),
    })
}

/// Drops a table that may not have been created.
pub(crate) fn drop_if_there(store: &Store, name: &str) -> Result<()> {
    match store.drop_table(name) {
        Ok(()) | Err(Error::NoSuchTable { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Io { .. }
            | Error::NoSpace { .. }
            | Error::ReadOnly { .. }
            | Error::Replaced { .. }
            | Error::Inherited { .. } => Status::Io,
            Error::Corrupt { .. } | Error::Index(bedload_pages::Error::Corrupt { .. }) => Status::Damaged,
            Error::NotAStore { .. } | Error::Irregular { .. } => Status::NotAStore,
            Error::NewerFormat { .. } | Error::OlderFormat { .. } => Status::NewerStore,
            Error::Locked { .. } => Status::Busy,
            _ => Status::Input,
        };
        let message = match &error {
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

/// The ticks of a table's time column that `--from` and `--to` mean.
pub(crate) fn tick_range(schema: &TableSchema, range: &RangeArgs) -> Result<TickRange> {
    let (unit, zone) = time_type(schema);
    let ticks = |option: &str, text: &Option<String>| {
        text.as_deref()
            .map(|text| parse_bound(text, unit, zone))
            .transpose()
            .map_err(|message| Failure::input(format!("{option}: {message}")))
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
