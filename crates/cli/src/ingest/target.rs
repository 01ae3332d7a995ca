//! The table that rows go to, and how it becomes what it was before.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use bedload::{Error, Layout, Mark, Options, RetentionPause, Snap, Snapshot, Store, Table, TableSchema};

use bedload_times::nanos_per_tick;
use tempfile::TempDir;

use super::dry_run;
use crate::args::IngestArgs;
use crate::exit::{Failure, Result};
use crate::input::{Wanted, listed};
use crate::layout;
use crate::schema::{same_type, type_name};
use crate::store::{self, time_name};

/// The store and the table as they are before the run.
pub(super) struct Found {
    path: PathBuf,
    /// The store, unless there is none yet.
    store: Option<Store>,
    /// The table, unless there is none yet.
    table: Option<Table>,
}

/// The error of a new table whose time column was not named.
fn needs_time(schema: &Schema) -> Failure {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    Failure::usage(format!(
        "a new table needs --time, the column that holds each row's time; there are {}",
        listed(&names)
    ))
}

/// Opens a store that another process has created since it was looked for. The columns of the input
/// were read without regard to a table in it.
fn open_without(path: &Path, table: &str) -> Result<Store> {
    let store = store::open(path)?;
    if store.tables().iter().any(|name| name == table) {
        return Err(Failure::input(format!(
            "another process has created table {table} since this run began: run it again"
        )));
    }
    Ok(store)
}

/// The table that rows are appended to.
pub(super) struct Target {
    path: PathBuf,
    store: Store,
    table: Table,
    before: Before,
    /// Whether files may lack columns that take nulls.
    allows_missing: bool,
}

/// The state before the run, for [`Target::undo`].
enum Before {
    /// Nothing, or a directory with nothing in it that counts.
    Nothing { directory: bool },
    /// A store without this table.
    Store,
    /// The table, up to the mark. The pause keeps rows that taking back would not restore, and
    /// those that the measure of order looks for.
    Table(Mark, Option<RetentionPause>),
    /// The table, to which a live feed adds rows that stay.
    Kept,
    /// The table with a key, whose rows may be replaced and do not come back.
    Keyed(Mark),
    /// The sparse table, whose rows may be written over.
    Sparse(Snapshot, Option<RetentionPause>),
    /// A dry run changes nothing. If the table does not exist, an empty one in this directory takes
    /// its place.
    Untouched(Option<TempDir>),
}

impl Found {
    /// Looks for the store and table, without changing anything; in a dry run another process may
    /// be writing to them.
    pub(super) fn look(path: &Path, table: &str, is_dry_run: bool) -> Result<Self> {
        let store = match Options::new().read_only(is_dry_run).open(path) {
            Ok(store) => store,
            // Nothing, or the remains of an interrupted creation. For anything else, creating
            // fails.
            Err(Error::NotAStore { .. }) => {
                return Ok(Self {
                    path: path.to_owned(),
                    store: None,
                    table: None,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let exists = store.tables().iter().any(|name| name == table);
        let table = if exists { Some(store.table(table)?) } else { None };
        Ok(Self {
            path: path.to_owned(),
            store: Some(store),
            table,
        })
    }

    /// Makes the request fit the table, if there is one, or complains about it.
    pub(super) fn check(&self, wanted: &mut Wanted, args: &IngestArgs) -> Result<()> {
        let Some(table) = &self.table else {
            return Ok(());
        };
        layout::check(&args.layout, table)?;
        let schema = table.schema();
        if let Layout::Sparse(grid) = table.layout() {
            let tick = i128::from(nanos_per_tick(schema.time_unit()));
            wanted.snapping = layout::snapping(&args.layout, Some(i128::from(grid.interval()) * tick));
        }
        if let Some(key) = &args.key
            && schema.clone().with_key(key)?.key_names() != schema.key_names()
        {
            let has = match schema.key_names() {
                Some(names) => format!("the key of table {} is {}", table.name(), names.join(",")),
                None => format!("table {} has no key", table.name()),
            };
            return Err(Failure::input(format!("--key {}: {has}", key.join(","))));
        }
        let time = time_name(schema);
        match &wanted.time {
            Some(asked) if asked != time => {
                let name = table.name();
                return Err(Failure::input(format!(
                    "--time {asked}: the time column of table {name} is {time}"
                )));
            }
            _ => wanted.time = Some(time.to_owned()),
        }
        wanted.table = Some(Arc::clone(schema.arrow()));
        Ok(())
    }

    /// The table that a dry run checks rows with: the one that exists, or one of the same kind in
    /// an empty store elsewhere.
    fn stand_in(self, schema: &SchemaRef, time: Option<&str>, args: &IngestArgs) -> Result<Target> {
        let (store, table, scratch) = match (self.store, self.table) {
            (Some(store), Some(table)) => (store, table, None),
            (found, _) => {
                if found.is_none() {
                    Store::check_creatable(&self.path)?;
                }
                let (store, directory) = dry_run::scratch()?;
                let table = create_table(&store, schema, time, args)?;
                (store, table, Some(directory))
            }
        };
        Ok(Target {
            path: self.path,
            store,
            table: table.snapping(layout::snap(&args.layout)),
            before: Before::Untouched(scratch),
            allows_missing: args.allow_missing,
        })
    }

    /// Creates what is not there yet: the store, the table with the columns of `schema`.
    pub(super) fn create(self, schema: &SchemaRef, time: Option<&str>, args: &IngestArgs) -> Result<Target> {
        if self.table.is_none() && time.is_none() {
            return Err(needs_time(schema));
        }
        if args.dry_run {
            return self.stand_in(schema, time, args);
        }
        let Self { path, store, table } = self;
        let table_name = &args.table;
        let snap = layout::snap(&args.layout);
        let (store, created_store) = match store {
            Some(store) => (store, None),
            None => {
                let directory = path.exists();
                match Options::new().create_new(true).open(&path) {
                    Ok(store) => (store, Some(Before::Nothing { directory })),
                    // While the input was awaited, another process has created it.
                    Err(Error::AlreadyExists { .. }) => (open_without(&path, table_name)?, None),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        match table {
            Some(table) => {
                // A live feed, and a run with a source id, keep their rows if they fail, so nothing
                // is taken back; but the order is measured by rows that must still be there.
                let may_miss_rows = (args.source_id.is_none() && !args.follow) || args.order;
                let pause = may_miss_rows.then(|| table.pause_retention());
                let before = match table.layout() {
                    _ if args.follow => Before::Kept,
                    Layout::Indexed if table.schema().key().is_some() => Before::Keyed(table.mark()),
                    Layout::Indexed => Before::Table(table.mark(), pause),
                    _ => Before::Sparse(store.snapshot(), pause),
                };
                Ok(Target {
                    path,
                    store,
                    table: table.snapping(snap),
                    before,
                    allows_missing: args.allow_missing,
                })
            }
            None => {
                let before = created_store.unwrap_or(Before::Store);
                match create_table(&store, schema, time, args) {
                    Ok(table) => Ok(Target {
                        path,
                        store,
                        table: table.snapping(snap),
                        before,
                        allows_missing: args.allow_missing,
                    }),
                    Err(failure) => Err(match before {
                        Before::Nothing { directory } => {
                            failure.after_undo(remove_store(store, &path, directory))
                        }
                        // Whether there is a table after a failure of the disk is not known.
                        Before::Store
                        | Before::Table(..)
                        | Before::Kept
                        | Before::Keyed(_)
                        | Before::Sparse(..)
                        | Before::Untouched(_) => {
                            failure.after_undo(store::drop_if_there(&store, table_name))
                        }
                    }),
                }
            }
        }
    }
}

/// Creates the table with the columns of `schema`.
fn create_table(store: &Store, schema: &SchemaRef, time: Option<&str>, args: &IngestArgs) -> Result<Table> {
    let time = time.ok_or_else(|| needs_time(schema))?;
    let schema = TableSchema::new(Arc::clone(schema), time)?;
    let schema = match &args.key {
        Some(key) => schema.with_key(key)?,
        None => schema,
    };
    let layout = layout::asked(&args.layout, schema.time_unit())?.unwrap_or_default();
    layout::check_snap(&args.layout, layout)?;
    Ok(store.create_table_as(&args.table, schema, layout)?)
}

impl Target {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether this run created the table, or would.
    pub(super) fn is_new(&self) -> bool {
        use Before::{Nothing, Store, Untouched};
        matches!(self.before, Nothing { .. } | Store | Untouched(Some(_)))
    }

    pub(super) fn is_dry_run(&self) -> bool {
        matches!(self.before, Before::Untouched(_))
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema().arrow())
    }

    /// For each column of the table, its place among those of a file; none if the file lacks a
    /// column that it need not have.
    pub(super) fn places(&self, file: &str, found: &Schema) -> Result<Vec<Option<usize>>> {
        let (table, schema) = (self.table.name(), self.table.schema().arrow());
        for field in found.fields() {
            let name = field.name();
            if schema.field_with_name(name).is_err() {
                return Err(Failure::input(format!(
                    "{file}: table {table} has no column {name}; leave it out with --columns, or add it to the \
                     table with add-columns"
                )));
            }
        }
        let key = self.table.schema().key().unwrap_or_default();
        let place = |(number, field): (usize, &FieldRef)| {
            let name = field.name();
            let Some((place, column)) = found.column_with_name(name) else {
                let lacks = format!("{file}: has no column {name}, which table {table} has");
                return match field.is_nullable() && !key.contains(&number) {
                    true if self.allows_missing => Ok(None),
                    true => Err(Failure::input(format!(
                        "{lacks}; with --allow-missing it is null in these rows"
                    ))),
                    false => Err(Failure::input(lacks)),
                };
            };
            if !same_type(column.data_type(), field.data_type()) {
                let (found, expected) = (type_name(column.data_type()), type_name(field.data_type()));
                return Err(Failure::input(format!(
                    "{file}: column {name} is of type {found}, but {expected} in table {table}"
                )));
            }
            Ok(Some(place))
        };
        schema.fields().iter().enumerate().map(place).collect()
    }

    /// A batch as the table wants it: its columns in its order.
    pub(super) fn fit(&self, batch: &RecordBatch, places: &[Option<usize>]) -> Result<RecordBatch> {
        let schema = self.table.schema().arrow();
        let column = |(place, field): (&Option<usize>, &FieldRef)| match place {
            Some(place) => Arc::clone(batch.column(*place)),
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        let columns = places.iter().zip(schema.fields()).map(column).collect();
        RecordBatch::try_new(self.schema(), columns).map_err(|error| Failure::input(error.to_string()))
    }

    pub(super) fn close(self) -> Result<()> {
        let Self { store, before, .. } = self;
        if let Before::Table(_, Some(pause)) | Before::Sparse(_, Some(pause)) = before {
            // Nothing is taken back any more.
            pause.end()?;
        }
        Ok(store.close()?)
    }

    /// Restores the store as it was before the run, because of `failure`; the run wrote in
    /// `stretches` of times.
    pub(super) fn undo(self, failure: Failure, stretches: &[RangeInclusive<i64>]) -> Failure {
        let Self {
            path,
            store,
            table,
            before,
            ..
        } = self;
        // Closing would flush, for which a full disk has no room. The undoing is durable without
        // it.
        let undone = match before {
            Before::Table(mark, _) if mark == table.mark() => Ok(()),
            Before::Kept | Before::Untouched(_) => Ok(()),
            Before::Keyed(mark) if mark == table.mark() => Ok(()),
            Before::Keyed(_) => {
                return failure.with_note(
                    "rows of earlier batches of this run stay, because they replaced others; a run that \
                     succeeds replaces them",
                );
            }
            Before::Table(mark, _pause) => table.retract_since(mark).map_err(Failure::from),
            Before::Sparse(snapshot, _pause) => {
                let table = table.snapping(Snap::Refuse);
                let mut stretches = stretches.iter().cloned();
                stretches.try_for_each(|times| Ok(table.put_back(&snapshot, times)?))
            }
            Before::Store => store.drop_table(table.name()).map_err(Failure::from),
            Before::Nothing { directory } => {
                drop(table);
                remove_store(store, &path, directory)
            }
        };
        failure.after_undo(undone)
    }
}

/// Removes a store that this run created, but not the directory that it may have found, nor what
/// others have put there.
fn remove_store(store: Store, path: &Path, directory: bool) -> Result<()> {
    store.remove()?;
    if directory {
        return Ok(());
    }
    fs::remove_dir(path).map_err(|error| Failure::io(path, &error))
}
