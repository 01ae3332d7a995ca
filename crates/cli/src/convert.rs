//! `bedload convert`: a table copied into a new one of another layout.

use std::time::Duration;

use arrow_array::RecordBatch;
use bedload::{Error, Store, Table};
use bedload_times::nanos_per_tick;
use serde_json::json;

use crate::args::ConvertArgs;
use crate::exit::{Failure, Result};
use crate::figures::rows_text;
use crate::interrupt;
use crate::layout;
use crate::output::stdout::Stdout;
use crate::store;

/// The name of the new table until it is whole. One process has a store open, so one convert at a
/// time uses it; what one that was killed has left is dropped by the next.
const UNFINISHED: &str = "(unfinished convert)";

/// Batches appended before the store is asked to put them into their places.
const FLUSH_BATCHES: usize = 256;

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    interrupt::catch()?;
    let store = store::open(&args.store)?;
    let table = store::table(&store, &args.table)?;
    if args.table == UNFINISHED {
        return Err(Failure::input(format!(
            "table {UNFINISHED} is what a convert left that was killed"
        )));
    }
    if store.tables().contains(&args.new) {
        let name = args.new.clone();
        return Err(Error::TableExists { name }.into());
    }
    let unit = store::time_type(table.schema()).0;
    let wanted = layout::asked(&args.layout, unit)?;
    let wanted = wanted.ok_or_else(|| Failure::usage("convert needs --layout, or --interval"))?;
    store::drop_if_there(&store, UNFINISHED)?;
    let copied = store
        .create_table_as(UNFINISHED, table.schema().clone(), wanted)
        .map_err(Failure::from)
        .and_then(|new| copy(&store, &table, &new.snapping(layout::snap(&args.layout))))
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
    store.close()?;
    let expired = distinct - kept;
    let mut out = Stdout::lock();
    if args.json {
        return out.json(&json!({ "rows": rows, "kept": kept, "expired": expired }));
    }
    out.line(&format!(
        "{} copied to table {}, which is {}",
        rows_text(kept),
        args.new,
        layout::text(wanted, unit)
    ))?;
    if distinct < rows {
        out.line(&format!(
            "{} skipped: a later one has the same time",
            rows_text(rows - distinct)
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

/// Copies all rows; returns how many there were, and how many of these the new table has, which
/// keeps the last of those with one time.
fn copy(store: &Store, from: &Table, to: &Table) -> Result<(u64, u64)> {
    let snapshot = store.snapshot();
    let mut rows = 0;
    for (number, batch) in snapshot.range(from.name(), ..)?.enumerate() {
        let batch: RecordBatch = batch?;
        rows += to.append(&batch)?.rows;
        interrupt::check()?;
        if number % FLUSH_BATCHES == FLUSH_BATCHES - 1 {
            store.flush()?;
        }
    }
    store.flush()?;
    Ok((rows, to.range(..)?.count()?))
}
