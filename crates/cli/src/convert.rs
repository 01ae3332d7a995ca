//! `bedload convert`: a table copied into a new one of another layout, or with other columns.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{RecordBatch, new_null_array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{Field, FieldRef, Schema};
use bedload::{Error, Layout, Store, Table, TableSchema};
use bedload_casts::Error as CastError;
use bedload_times::nanos_per_tick;
use serde_json::json;

use crate::args::ConvertArgs;
use crate::exit::{Failure, Result};
use crate::figures::rows_text;
use crate::input::excerpt;
use crate::interrupt;
use crate::layout;
use crate::output::stdout::Stdout;
use crate::reserved::{self, UNFINISHED};
use crate::retyped::{self, Refused};
use crate::schema;
use crate::store;

/// Batches appended before the store is asked to put them into their places.
const FLUSH_BATCHES: usize = 256;

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    interrupt::catch()?;
    let store = store::open(&args.store)?;
    let table = store::table(&store, &args.table)?;
    reserved::refuse(&args.table)?;
    reserved::refuse(&args.new)?;
    if store.tables().contains(&args.new) {
        let name = args.new.clone();
        return Err(Error::TableExists { name }.into());
    }
    let changed = Changed::new(&table, args)?;
    let unit = store::time_type(&changed.schema).0;
    let wanted = layout::asked(&args.layout, unit)?;
    if wanted.is_none() && args.add.is_none() && args.remove.is_none() && args.types.is_none() {
        return Err(Failure::usage(
            "convert needs --layout, --interval, --type, --add or --remove",
        ));
    }
    let wanted = wanted.unwrap_or_else(|| table.layout());
    if wanted != Layout::Indexed && args.layout.interval.is_none() && unit != table.schema().time_unit() {
        return Err(Failure::usage(
            "--type gives the time of a sparse table another unit: give its --interval, too",
        ));
    }
    layout::check_snap(&args.layout, wanted)?;
    store::drop_if_there(&store, UNFINISHED)?;
    let copied = store
        .create_table_as(UNFINISHED, changed.schema.clone(), wanted)
        .map_err(Failure::from)
        .and_then(|new| {
            copy(
                &store,
                &table,
                (&new.snapping(layout::snap(&args.layout)), &changed),
            )
        })
        .and_then(|(rows, distinct)| {
            let new = store::table(&store, UNFINISHED)?;
            if let Some(keep) = kept_for(&store, &args.table)? {
                new.set_retention(Some(keep))?;
            }
            let kept = new.range(..)?.count()?;
            interrupt::check()?;
            store.rename_table(UNFINISHED, &args.new)?;
            Ok((rows, distinct, kept))
        });
    let (rows, distinct, kept) = match copied {
        Ok(copied) => copied,
        Err(failure) => return Err(failure.after_undo(store::drop_if_there(&store, UNFINISHED))),
    };
    interrupt::done();
    let counts = Counts { rows, distinct, kept };
    let closed = store.close().map_err(Failure::from);
    closed
        .and_then(|()| counts.report(args, &layout::text(wanted, unit)))
        .map_err(|failure| failure.with_note("the new table is complete and stays"))
}

/// Rows of a copied table.
struct Counts {
    rows: u64,
    /// Those that no later one replaced.
    distinct: u64,
    /// Those among them that are not too old.
    kept: u64,
}

impl Counts {
    fn report(&self, args: &ConvertArgs, layout: &str) -> Result<()> {
        let expired = self.distinct - self.kept;
        let mut out = Stdout::lock();
        if args.json {
            return out.json(&json!({ "rows": self.rows, "kept": self.kept, "expired": expired }));
        }
        out.line(&format!(
            "{} copied to table {}, which is {layout}",
            rows_text(self.kept),
            args.new,
        ))?;
        if self.distinct < self.rows {
            out.line(&format!(
                "{} skipped: a later one has the same time",
                rows_text(self.rows - self.distinct)
            ))?;
        }
        if expired > 0 {
            out.line(&format!(
                "{} skipped: too old for the retention of table {}",
                rows_text(expired),
                args.table
            ))?;
        }
        Ok(())
    }
}

/// For how long a table keeps its rows.
fn kept_for(store: &Store, table: &str) -> Result<Option<Duration>> {
    let info = store.info()?;
    let found = info.tables.iter().find(|info| info.name == table);
    Ok(found.and_then(|info| {
        let nanos_per_tick = nanos_per_tick(store::time_type(&info.schema).0).unsigned_abs();
        let nanos = u128::from(info.retention?) * u128::from(nanos_per_tick);
        Some(Duration::from_nanos_u128(nanos))
    }))
}

/// The columns of the new table.
struct Changed {
    schema: TableSchema,
    /// Which column of the table each of them is; none for one that is added.
    sources: Vec<Option<usize>>,
    /// Which column of the table is the time.
    time: usize,
}

impl Changed {
    fn new(table: &Table, args: &ConvertArgs) -> Result<Self> {
        let old = table.schema();
        let columns = old.arrow();
        let key = old.key_names().unwrap_or_default();
        let removed = args.remove.as_deref().unwrap_or_default();
        for name in removed {
            columns.index_of(name).map_err(|_| {
                Failure::input(format!(
                    "--remove {name}: table {} has no such column",
                    args.table
                ))
            })?;
            if *name == store::time_name(old) || key.contains(&name.as_str()) {
                let message = format!("--remove {name}: the table is ordered by it, or it is of the key");
                return Err(Failure::input(message));
            }
        }
        let added = schema::given("--add", args.add.as_deref())?;
        if let Some(field) = added.iter().find(|field| columns.index_of(field.name()).is_ok()) {
            let message = format!("--add {}: table {} has this column", field.name(), args.table);
            return Err(Failure::input(message));
        }
        let kept = columns.fields().iter().enumerate();
        let kept = kept.filter(|(_, field)| !removed.contains(field.name()));
        let (mut sources, mut fields): (Vec<Option<usize>>, Vec<FieldRef>) =
            kept.map(|(column, field)| (Some(column), field.clone())).unzip();
        for given in schema::given("--type", args.types.as_deref())? {
            retype(&mut fields, &given, (&args.table, &key))?;
        }
        sources.extend(added.iter().map(|_| None));
        fields.extend(added.into_iter().map(Arc::new));
        let schema = TableSchema::new(Arc::new(Schema::new(fields)), store::time_name(old))?;
        let schema = if key.is_empty() {
            schema
        } else {
            schema.with_key(&key)?
        };
        Ok(Self {
            schema,
            sources,
            time: old.time_column(),
        })
    }

    /// Rows of the table as the new one has them.
    fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let fields = self.schema.arrow().fields().iter();
        let column = |(field, source): (&FieldRef, &Option<usize>)| match source {
            Some(column) => retyped::column(batch.column(*column), field)
                .map_err(|refused| self.refused(&refused, field, batch)),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        };
        let columns = fields.zip(&self.sources).map(column).collect::<Result<_>>()?;
        let rows = RecordBatch::try_new(self.schema.arrow().clone(), columns);
        rows.map_err(|error| Failure::input(error.to_string()))
    }

    /// Why a column of some rows does not become one of the new table.
    fn refused(&self, refused: &Refused, field: &Field, batch: &RecordBatch) -> Failure {
        let (name, to) = (field.name(), schema::type_name(field.data_type()));
        let time = |row: usize| {
            let formatter = ArrayFormatter::try_new(batch.column(self.time), &FormatOptions::new());
            let time = formatter.and_then(|formatter| formatter.value(row).try_to_string());
            time.unwrap_or_else(|_| "a time that cannot be shown".to_owned())
        };
        Failure::input(match refused {
            Refused::Text { row, text, is_number } => {
                let (text, time) = (excerpt(text), time(*row));
                match is_number {
                    true => format!("--type {name}: `{text}`, at {time}, would lose digits as {to}"),
                    false => format!("--type {name}: `{text}`, at {time}, is no {to}"),
                }
            }
            Refused::Cast(CastError::Value { row, value, .. }) => format!(
                "--type {name}: {value}, at {}, is no {to}: it would be rounded, or is out of range",
                time(*row)
            ),
            Refused::Cast(CastError::Reading { row, reason }) => {
                format!("--type {name}: at {}: {reason}", time(*row))
            }
            Refused::Cast(other) => format!("--type {name}: {other}"),
        })
    }
}

/// Gives a column another type.
///
/// # Errors
///
/// The table has no such column, values of its type are none of the other, or rows whose keys
/// differ might get the same.
fn retype(fields: &mut [FieldRef], given: &Field, (table, key): (&str, &[&str])) -> Result<()> {
    let name = given.name();
    let Some(field) = fields.iter_mut().find(|field| field.name() == name) else {
        let message = format!("--type {name}: table {table} has no such column, or it is removed");
        return Err(Failure::input(message));
    };
    let retyped = Field::clone(field).with_data_type(given.data_type().clone());
    retyped::check(field.data_type(), &retyped)?;
    if key.contains(&name.as_str()) && retyped::merges(field.data_type(), retyped.data_type()) {
        let (from, to) = (
            schema::type_name(field.data_type()),
            schema::type_name(given.data_type()),
        );
        return Err(Failure::input(format!(
            "--type {name}: the column is of the key, and values that differ as {from} may be one as {to}: rows \
             would replace others"
        )));
    }
    *field = Arc::new(retyped);
    Ok(())
}

/// Copies all rows; returns how many there were, and how many of these the new table has, which
/// keeps the last of those with one time.
fn copy(store: &Store, from: &Table, (to, changed): (&Table, &Changed)) -> Result<(u64, u64)> {
    let snapshot = store.snapshot();
    let mut rows = 0;
    for (number, batch) in snapshot.range(from.name(), ..)?.enumerate() {
        let batch: RecordBatch = batch?;
        let appended = to.append(&changed.rows(&batch)?);
        rows += appended.map_err(|error| layout::refusal(to, error))?.rows;
        interrupt::check()?;
        if number % FLUSH_BATCHES == FLUSH_BATCHES - 1 {
            store.flush()?;
        }
    }
    store.flush()?;
    Ok((rows, to.range(..)?.count()?))
}
