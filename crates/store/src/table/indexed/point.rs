//! Reading one row: a search in the runs of the heads, then in the runs of one leaf interval of the
//! tree.

use std::sync::Arc;

use bedload_columns::{ColumnSet, Place, RunRow, Value};
use bedload_pages::PageRead;
use bedload_trees::be_tree::{LeafInterval, LeafTarget};

use super::body::{kind_of, open};
use crate::error::{Error, Result};
use crate::pages::PageVersion;
use crate::rows::{Deletions, Head, TableEntry};

/// A row that was found.
#[derive(Debug, Clone)]
pub(crate) enum FoundRow {
    /// A row of these columns, which are those of a head.
    InHead(ColumnSet, usize),
    /// The values of the table's columns.
    InTree(Box<[Value]>),
}

/// The row of a time that arrived last, as of some pages and newer heads, the oldest first.
/// O(log(rows)) in each run that has rows around that time.
pub(crate) fn find(
    pages: &PageVersion,
    heads: &[Arc<Head>],
    table: &TableEntry,
    visible: u64,
    time: i64,
) -> Result<Option<FoundRow>> {
    let deletions: Vec<Arc<Deletions>> = heads
        .iter()
        .filter_map(|head| head.merged_deletions(visible))
        .collect();
    let newest_left = |sequence| newest_left(&deletions, time, sequence);
    // Every row of a head arrived after those of older heads and of the tree.
    for head in heads.iter().rev() {
        if let Some((run, row)) = head.last_at(time, visible, newest_left) {
            let columns: Vec<usize> = (0..table.schema.arrow().fields().len()).collect();
            let of_row = run.columns_of_few(row..row + 1, &columns);
            let found = of_row.map_or_else(|| (run.columns().clone(), row), |columns| (columns, 0));
            return Ok(Some(FoundRow::InHead(found.0, found.1)));
        }
    }
    find_in_tree(pages, table, time, (deletions.is_empty(), newest_left))
}

/// The greatest sequence number up to `sequence` with which a row of this time may be left.
fn newest_left(deletions: &[Arc<Deletions>], time: i64, mut sequence: u64) -> Option<u64> {
    loop {
        let of_all = deletions
            .iter()
            .try_fold(sequence, |left, set| set.newest_left(time, left))?;
        if of_all == sequence {
            return Some(sequence);
        }
        sequence = of_all;
    }
}

fn find_in_tree<S: PageRead>(
    pages: S,
    table: &TableEntry,
    time: i64,
    (is_whole, newest_left): (bool, impl Fn(u64) -> Option<u64>),
) -> Result<Option<FoundRow>> {
    let tree = open(pages, table)?;
    let kind = kind_of(table.id, &table.schema);
    let Some(mut sequence) = newest_left(u64::MAX) else {
        return Ok(None);
    };
    // Rows of one time lie in several intervals if a leaf was split among them.
    loop {
        let at = Place { time, sequence };
        let LeafInterval { low, runs, .. } = tree.leaf_interval(LeafTarget::At(at.edge()))?;
        // A run that is pending for the interval may have rows before it, where others are newer.
        let low = low.map(Place::of_edge).filter(|low| low.time == time);
        let is_below = |sequence: u64| low.is_some_and(|low| sequence < low.sequence);
        let mut found: Option<RunRow<_>> = None;
        for run in &runs {
            let mut end = at;
            while end >= Place::of_edge(run.first) && end.time <= Place::of_edge(run.last).time {
                let Some(row) = kind.last_of_time(tree.store(), run, end)? else {
                    break;
                };
                if found.is_none() && is_whole && low.is_none() {
                    found = Some(row);
                    break;
                }
                let sequence = row.sequence()?;
                if sequence > end.sequence {
                    return Err(Error::Index(bedload_pages::Error::Corrupt {
                        page: run.root,
                        reason: "the last row of a leaf is beyond what its directory says",
                    }));
                }
                if is_below(sequence) {
                    break;
                }
                match newest_left(sequence) {
                    Some(left) if left == sequence => {
                        let before = found.as_ref().map(RunRow::sequence).transpose()?;
                        if before.is_none_or(|before| before < sequence) {
                            found = Some(row);
                        }
                        break;
                    }
                    Some(left) => end.sequence = left,
                    None => break,
                }
            }
        }
        if let Some(RunRow { leaf, row }) = found {
            let columns = 0..table.schema.places().len();
            let values = columns.map(|column| {
                if column == kind.time() {
                    Ok(Value::Int(time))
                } else if !leaf.has(column) {
                    // It was added to the table after the leaf was written.
                    Ok(Value::Null)
                } else {
                    leaf.value_at(column, row)
                }
            });
            let values = values.collect::<bedload_pages::Result<_>>()?;
            return Ok(Some(FoundRow::InTree(values)));
        }
        match low.and_then(|low| newest_left(low.sequence.checked_sub(1)?)) {
            Some(below) => sequence = below,
            None => return Ok(None),
        }
    }
}
