//! A head's rows and deletions on their way into the tree.

use std::ops::AddAssign;

use bedload_columns::{ColumnRunWriter, ColumnRuns, LeafEntry, LeafFate, Place};
use bedload_pages::{PageRead, PageStore};
use bedload_trees::be_tree::{LeafTarget, Progress, RunEdit};

use super::body::{Body, IS_SMALL, LATE_ENTRIES, LEAF_ENTRIES, kind_of, open};
use super::ordered_batches::{chunks, for_each_batch};
use crate::error::Result;
use crate::rows::{
    ArrivalMeasure, Deletion, Deletions, Head, Place as RowPlace, RowsInOrder, Stretch, TableEntry,
};

/// Rows that are put in order at a time.
const BATCH_ROWS: usize = if IS_SMALL { 64 } else { 1 << 14 };

/// Bytes that they have at most: far less than the text that an array can hold.
const BATCH_BYTES_MAX: usize = 512 << 20;

/// Rows outlive the retention by at most one part in this many.
const EXPIRY_SHARE: u64 = 16;

/// Rows that maintenance may write for a hundred rows that are flushed, as long as no more rows are
/// pending than are due. The rest is left to later flushes: the more evenly long flushes are, the
/// faster writers may go on.
const MAINTENANCE_SHARE: u64 = 200;

/// How many more rows for each hundredth by which the pending rows exceed the due ones, so that
/// maintenance never falls behind.
const MAINTENANCE_SLOPE: u64 = 2;

/// The most rows for a hundred that are flushed.
const MAINTENANCE_SHARE_MAX: u64 = 600;

/// Where the rows of a flush went.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlushedRows {
    /// Those after all rows of the tree, which stay where they were written.
    pub(crate) right_edge: u64,
    /// Late ones, which are pushed down from the root.
    pub(crate) root: u64,
}

impl AddAssign for FlushedRows {
    fn add_assign(&mut self, other: Self) {
        self.right_edge += other.right_edge;
        self.root += other.root;
    }
}

/// Moves a sealed head into the tree of a table: first the deletions, for the rows of the tree,
/// then the head's own rows that they and the retention leave; then does maintenance. Updates the
/// entry of the table.
pub(crate) fn flush(
    pages: &impl PageStore,
    table: &mut TableEntry,
    order: &mut ArrivalMeasure,
    head: &Head,
    are_settled: &dyn Fn() -> bool,
) -> Result<FlushedRows> {
    let tree = open(pages, table)?;
    let kind = kind_of(table.id, &table.schema);
    let deletions = head.merged_deletions(u64::MAX).unwrap_or_default();
    if deletions.reach_below(table.end_sequence) {
        let removed = delete(&tree, kind, &deletions)?;
        table.rows = table.rows.saturating_sub(removed);
    }
    let runs = head.runs(u64::MAX);
    order.observe_flush(&runs);
    let rows = RowsInOrder::new(runs);
    let end_sequence = table.end_sequence.max(rows.end_sequence());
    let mut rows = rows.without(&deletions);
    // Rows that were deleted make no others too old.
    let expired = expired(&tree, table, (&rows, end_sequence), are_settled)?;
    if let Some((expired, is_due)) = expired {
        let mut deletions = Deletions::default();
        deletions.put(&expired);
        if is_due {
            let removed = delete(&tree, kind, &deletions)?;
            table.rows = table.rows.saturating_sub(removed);
        }
        rows = rows.without(&deletions);
    }
    let flushed = insert(&tree, kind, &rows)?;
    table.rows += rows.len() as u64;
    table.end_sequence = end_sequence;
    let _span = tracing::debug_span!("maintenance", table = &*table.name).entered();
    maintain(&tree, rows.len() as u64)?;
    Ok(flushed)
}

/// The deletion of rows older than the table keeps, and whether the tree has rows so old that the
/// deletion is due there.
fn expired<S: PageStore>(
    tree: &Body<S>,
    table: &TableEntry,
    (rows, end_sequence): (&RowsInOrder, u64),
    are_settled: &dyn Fn() -> bool,
) -> Result<Option<(Deletion, bool)>> {
    if table.retention.is_none() {
        return Ok(None);
    }
    let of_tree = newest(tree)?;
    let of_rows = rows.last().map(|(time, _)| time);
    let Some(expired) = table.expired(of_tree.max(of_rows), end_sequence, are_settled) else {
        return Ok(None);
    };
    // Late by a sixteenth of the retention, so that not every flush rewrites the leaves where it
    // ends.
    let slack = table.retention.unwrap_or(0) / EXPIRY_SHARE;
    let due = expired.times.end().saturating_sub_unsigned(slack);
    let is_due = oldest(tree)?.is_some_and(|oldest| oldest <= due);
    Ok(Some((expired, is_due)))
}

/// Removes deleted rows from every run; returns how many they were.
fn delete<S: PageStore>(tree: &Body<S>, kind: ColumnRuns, deletions: &Deletions) -> Result<u64> {
    let mut removed = 0;
    let judge = |leaf: &LeafEntry| {
        let times = leaf.first.time..=leaf.last.time;
        if deletions.cover_all(times.clone(), leaf.min_sequence..=leaf.max_sequence) {
            LeafFate::Dropped
        } else if deletions.may_cover(times, leaf.min_sequence..=leaf.max_sequence) {
            LeafFate::Sifted
        } else {
            LeafFate::Kept
        }
    };
    tree.edit_runs(&mut |run, visible| {
        let (first, last) = (Place::of_edge(run.first), Place::of_edge(run.last));
        if !deletions.may_cover(first.time..=last.time, 0..=u64::MAX) {
            return Ok(RunEdit::Keep);
        }
        let mut known = None;
        let is_gone = |Place { time, sequence }: Place| {
            let place = (time, sequence);
            // Rows of one stretch stand together.
            let stretch = match known.filter(|known: &Stretch| known.contains(place)) {
                Some(stretch) => stretch,
                None => deletions.stretch(place),
            };
            known = Some(stretch);
            deletions.covers_in(stretch, place)
        };
        let retained = kind.retain(tree.store(), (run, visible), judge, is_gone)?;
        Ok(retained.map_or(RunEdit::Keep, |retained| {
            removed += retained.removed;
            RunEdit::Replace {
                with: retained.run,
                retired: retained.retired,
            }
        }))
    })?;
    Ok(removed)
}

/// Writes rows as runs, and publishes them. Late rows have runs of their own, so that they do not
/// keep the others from the right edge.
fn insert<S: PageStore>(tree: &Body<S>, kind: ColumnRuns, rows: &RowsInOrder) -> Result<FlushedRows> {
    let edge = right_edge(tree)?;
    let is_late = |(time, sequence): RowPlace| edge.is_some_and(|edge| Place { time, sequence } <= edge);
    let late = rows.partition_point(is_late);
    let batch_rows = (BATCH_BYTES_MAX / rows.row_bytes_max().max(1)).clamp(1, BATCH_ROWS);
    let mut runs = Vec::new();
    for (part, most) in [(0..late, LATE_ENTRIES), (late..rows.len(), LEAF_ENTRIES)] {
        for of_run in chunks(part, most) {
            let mut writer = ColumnRunWriter::new(tree.store(), kind)?;
            for_each_batch(rows, of_run, batch_rows, |columns| Ok(writer.push(columns)?))?;
            runs.extend(writer.finish()?);
        }
    }
    tree.sealed(runs).publish()?;
    Ok(FlushedRows {
        right_edge: (rows.len() - late) as u64,
        root: late as u64,
    })
}

/// The least time of a tree's rows, or one before it; `None` if it has no rows.
fn oldest<S: PageStore>(tree: &Body<S>) -> Result<Option<i64>> {
    let interval = tree.leaf_interval(LeafTarget::First)?;
    let first = interval.runs.iter().map(|run| run.first).min();
    Ok(first.map(|first| Place::of_edge(first).time))
}

/// The greatest time of a tree's rows; `None` if it has no rows. Reads one leaf more for each of
/// the last ones that has lost all its rows.
fn newest<S: PageRead>(tree: &Body<S>) -> Result<Option<i64>> {
    let mut interval = tree.leaf_interval(LeafTarget::Last)?;
    let mut newest = None;
    loop {
        // Late rows that are still at the root count for every leaf, wherever they are to go.
        newest = newest.max(interval.runs.iter().map(|run| run.last).max());
        match interval.low {
            Some(low) if newest.is_none_or(|newest| newest < low) => {
                interval = tree.leaf_interval(LeafTarget::Before(low))?;
            }
            _ => return Ok(newest.map(|newest| Place::of_edge(newest).time)),
        }
    }
}

/// The greatest place of a tree, or where its last leaf begins, whichever is greater; `None` if it
/// has no rows.
fn right_edge<S: PageStore>(tree: &Body<S>) -> Result<Option<Place>> {
    let interval = tree.leaf_interval(LeafTarget::Last)?;
    let last = interval.runs.iter().map(|run| run.last).max();
    Ok(last.max(interval.low).map(Place::of_edge))
}

/// Does the maintenance that is due after a flush of `rows` rows; returns how many rows it wrote.
fn maintain<S: PageStore>(tree: &Body<S>, rows: u64) -> Result<u64> {
    let behind = MAINTENANCE_SLOPE * tree.backlog()?.saturating_sub(100);
    let share = (MAINTENANCE_SHARE + behind).min(MAINTENANCE_SHARE_MAX);
    let budget = share * rows / 100 + LEAF_ENTRIES as u64;
    let mut maintainer = tree.maintainer();
    while maintainer.done().entries_written < budget && maintainer.finish_one()? == Progress::Paused {}
    Ok(maintainer.done().entries_written)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, TimestampSecondArray, UInt64Array};
    use bedload_pages::{HeapPages, PageStore};
    use bedload_testkit::Rng;
    use bedload_trees::I64Order;
    use bedload_trees::be_tree::BeTree;

    use super::super::body::options;
    use super::{ColumnRunWriter, ColumnRuns, maintain};

    /// Rows of a flush: one and a half leaves, as a head of the default size has.
    const FLUSHED: u64 = 384;

    /// Loads a tree as high as one of a hundred million rows; returns how many rows the maintenance
    /// of each flush wrote.
    fn rewritten_rows(flushes: u64) -> Vec<u64> {
        let pages = HeapPages::new(8168);
        let kind = ColumnRuns::new(1, 1, 0).leaf_rows(64);
        let tree = BeTree::create(&pages, I64Order, kind, options()).expect("an empty tree");
        let mut rng = Rng::new(5);
        let mut flush = |number: u64| {
            let first = number * FLUSHED;
            let sequences = first..first + FLUSHED;
            let mut rows: Vec<(i64, u64)> = sequences
                .map(|row| (rng.below(1 << 40).cast_signed(), row))
                .collect();
            rows.sort_unstable();
            let (times, sequences): (Vec<i64>, Vec<u64>) = rows.into_iter().unzip();
            let mut writer = ColumnRunWriter::new(tree.store(), kind).expect("begins");
            let time: ArrayRef = Arc::new(TimestampSecondArray::from(times));
            writer
                .push(vec![time, Arc::new(UInt64Array::from(sequences))])
                .expect("writes");
            let run = writer.finish().expect("ends");
            tree.sealed(run).publish().expect("publishes");
            let written = maintain(&tree, FLUSHED).expect("maintains");
            pages.reclaim().expect("reclaims");
            written
        };
        let written = (0..flushes).map(&mut flush).collect();
        let report = tree.verify().expect("sound pages");
        assert!(report.is_sound() && report.height >= 3, "{report:?}");
        written
    }

    #[test]
    fn scrambled_rows_are_rewritten_fewer_than_three_times() {
        let of_row = rewritten_rows(400).iter().sum::<u64>() as f64 / (400 * FLUSHED) as f64;
        println!("{of_row:.2} times");
        assert!(of_row < 2.7, "{of_row:.2} times");
    }

    #[test]
    fn maintenance_of_scrambled_rows_keeps_an_even_pace() {
        let written = rewritten_rows(1000);
        let tenths = written.chunks(100).map(|tenth| tenth.iter().sum());
        // Once there are leaves that nodes push down to.
        let mut tenths: Vec<u64> = tenths.skip(4).collect();
        tenths.sort_unstable();
        let (median, most) = (tenths[tenths.len() / 2], tenths[tenths.len() - 1]);
        println!("{tenths:?}");
        assert!(most * 10 < median * 14, "{most} rows, but {median} at most times");
    }
}
