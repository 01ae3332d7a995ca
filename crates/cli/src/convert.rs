//! `bedload convert`: a table copied into a new one of another layout.

use arrow_array::RecordBatch;
use bedload::{Store, Table};
use serde_json::json;

use crate::args::ConvertArgs;
use crate::exit::{Failure, Result};
use crate::figures::grouped;
use crate::layout;
use crate::output::stdout::Stdout;
use crate::store;

/// Batches appended before the store is asked to put them into their places.
const FLUSH_BATCHES: usize = 256;

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let store = store::open(&args.store)?;
    let table = store::table(&store, &args.table)?;
    let unit = store::time_type(table.schema()).0;
    let wanted = layout::asked(&args.layout, unit)?;
    let wanted = wanted.ok_or_else(|| Failure::usage("convert needs --layout, or --interval"))?;
    let new = store.create_table_as(&args.new, table.schema().clone(), wanted)?;
    let copied = copy(&store, &table, &new.snapping(layout::snap(&args.layout)));
    let (rows, kept) = match copied {
        Ok(copied) => copied,
        Err(failure) => {
            let undone = store.drop_table(&args.new);
            return Err(match undone {
                Ok(()) => failure,
                Err(error) => {
                    failure.with_note(&format!("and table {} could not be dropped: {error}", args.new))
                }
            });
        }
    };
    store.close()?;
    let mut out = Stdout::lock();
    if args.json {
        return out.line(&json!({ "rows": rows, "kept": kept }));
    }
    out.line(&format!(
        "{} rows copied to table {}, which is {}",
        grouped(kept),
        args.new,
        layout::text(wanted, unit)
    ))?;
    if kept < rows {
        out.line(&format!(
            "{} rows have the time of a later one and are left out",
            grouped(rows - kept)
        ))?;
    }
    Ok(())
}

/// Copies all rows; returns how many there were, and how many the new table has.
fn copy(store: &Store, from: &Table, to: &Table) -> Result<(u64, u64)> {
    let snapshot = store.snapshot();
    let mut rows = 0;
    for (number, batch) in snapshot.range(from.name(), ..)?.enumerate() {
        let batch: RecordBatch = batch?;
        rows += to.append(&batch)?.rows;
        if number % FLUSH_BATCHES == FLUSH_BATCHES - 1 {
            store.flush()?;
        }
    }
    store.flush()?;
    Ok((rows, to.range(..)?.count()?))
}
