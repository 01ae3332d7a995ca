//! Removes rows that a later row of the same key should have replaced.
//!
//! Where a leaf is lost, or nothing tells which leaves the last checkpoint has, older leaves count
//! as well, and they have rows that were replaced since. A table with a key has one row for each
//! key: the latest of those that were found stays.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use bedload_columns::times;

use super::LOG_START;
use crate::engine::recovery::Recovery;
use crate::error::{Error, Result};
use crate::rows::{Deletions, Keys, Place, Projection, TableId};
use crate::table::{Layout, StoredTable};

/// The most rows that are read at once.
const BATCH_ROWS: usize = 8192;

/// Removes from each table with a key the rows that a later one with their key should have
/// replaced. All rows must be in pages.
///
/// # Errors
///
/// The new store failed.
pub(super) fn remove_doubled(recovery: &mut Recovery<'_>) -> Result<()> {
    let has_key =
        |table: &StoredTable| table.layout() == Layout::Indexed && table.entry.schema.key().is_some();
    let tables = recovery.catalogue.iter().filter(|table| has_key(table));
    for id in tables.map(|table| table.entry.id).collect::<Vec<_>>() {
        remove_doubled_of(recovery, id)?;
    }
    Ok(())
}

fn remove_doubled_of(recovery: &mut Recovery<'_>, id: TableId) -> Result<()> {
    let Some(table) = recovery.catalogue.get(id).cloned() else {
        return Ok(());
    };
    let schema = &table.entry.schema;
    let key = schema.key().unwrap_or_default();
    let columns = std::iter::once(schema.time_column()).chain(key.iter().copied());
    let projection = Projection::new(schema.clone(), columns.collect(), true);
    let Some(mut rows) = table.rows_of_pages(&recovery.working.published(), &projection)? else {
        return Ok(());
    };
    // The rows of the last time that was read: more of them may follow.
    let mut waiting: Vec<RecordBatch> = Vec::new();
    loop {
        let next = rows.next(BATCH_ROWS, &Deletions::NONE)?;
        if let Some(next) = &next {
            let ticks = ticks(next)?;
            let whole = match ticks.last() {
                Some(latest) => ticks.partition_point(|time| time < latest),
                None => continue,
            };
            let later = next.slice(whole, ticks.len() - whole);
            if whole == 0 && last_time(&waiting)? == ticks.last().copied() {
                waiting.push(later);
                continue;
            }
            waiting.push(next.slice(0, whole));
            replace_doubled(recovery, id, &projection, &waiting)?;
            waiting = vec![later];
        } else {
            replace_doubled(recovery, id, &projection, &waiting)?;
        }
        if next.is_none() || recovery.generation.bytes() >= recovery.head_bytes {
            recovery.checkpoint(LOG_START)?;
        }
        if next.is_none() {
            return Ok(());
        }
    }
}

/// The time of the last row of some batches.
fn last_time(batches: &[RecordBatch]) -> Result<Option<i64>> {
    let last = batches.iter().rfind(|batch| batch.num_rows() > 0);
    let ticks = last.map(ticks).transpose()?;
    Ok(ticks.and_then(|ticks| ticks.last().copied()))
}

/// Removes rows after which another one has their key, among all rows of some times.
fn replace_doubled(
    recovery: &mut Recovery<'_>,
    id: TableId,
    projection: &Projection,
    batches: &[RecordBatch],
) -> Result<()> {
    let read = concat_batches(projection.arrow(), batches).map_err(failed)?;
    let doubled = doubled(&read)?;
    if doubled.is_empty() {
        return Ok(());
    }
    let end = recovery
        .catalogue
        .get(id)
        .map_or(0, |table| table.entry.end_sequence);
    let at = recovery.next_sequence.max(end);
    recovery.next_sequence = at + 1;
    recovery.generation.replace(id, at, doubled.into());
    Ok(())
}

/// The places of rows after which another one has their key, ascending. The columns are the time,
/// the others of the key, and the sequence number.
fn doubled(read: &RecordBatch) -> Result<Vec<Place>> {
    let times = ticks(read)?;
    if times.is_sorted_by(|before, after| before < after) {
        return Ok(Vec::new());
    }
    let (sequences, key) = match read.columns() {
        [_, key @ .., sequences] => (sequences.as_primitive::<UInt64Type>().values(), key),
        _ => return Ok(Vec::new()),
    };
    let keys = Keys::of(times.clone(), key.to_vec()).map_err(failed)?;
    let places = times.into_iter().zip(sequences.iter().copied());
    let doubled = places.zip(keys.are_last()).filter(|(_, is_last)| !is_last);
    Ok(doubled.map(|(place, _)| place).collect())
}

fn ticks(read: &RecordBatch) -> Result<Vec<i64>> {
    let ticks = times(read.column(0)).map(|times| times.to_vec());
    ticks.ok_or_else(|| Error::schema("the time column has no times"))
}

fn failed(error: ArrowError) -> Error {
    Error::schema(error.to_string())
}
