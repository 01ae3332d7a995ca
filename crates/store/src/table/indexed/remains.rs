//! Salvage: the rows of a table, from those of its leaves that are whole.
//!
//! A leaf says to which table it belongs and where its rows lie, so it is of use whether the index
//! of its run and the nodes above are whole or not. A row may stand in two leaves, one of which was
//! pushed down: it is taken once.
//!
//! Without a superblock, leaves of a flush that did not end count as well. The log has their rows,
//! too, so rows of the log that the new tree has are left out ([`without_copied`]).
//!
//! Where leaves are lost, rows of older runs for which no leaf is left fill the gaps. Rows deleted
//! since the copy was written come back by that; without it all rows of the leaf would be gone.

use std::collections::HashSet;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use arrow_select::take::take_arrays;
use bedload_columns::{
    ColumnRunWriter, ColumnRuns, ColumnSet, LeafEntry, LeafHeader, Place, Places, RunIndex, RunLeaf,
    Stretches,
};
use bedload_pages::PageId;
use bedload_trees::I64Order;
use bedload_trees::be_tree::{BeTree, LeafTarget};

use super::body::{Body, LEAF_ENTRIES, kind_of, open, options};
use crate::error::{Error, Result};
use crate::pages::{COUNTER_MAX, FoundPage, Remains, Slot, Standing, WorkingPages};
use crate::rows::{Gap, SalvagedTable, SortedRows, TableEntry};

/// The table that a page of a run belongs to; `None` if it is none.
pub(crate) fn owner_of(id: PageId, page: &[u8]) -> Option<u32> {
    match LeafHeader::parse(page) {
        Some((header, _)) => Some(header.owner),
        None => RunIndex::parse(id, page).ok().map(|index| index.owner()),
    }
}

/// The remains of a table.
pub(crate) struct LeafRemains {
    pub(crate) entry: TableEntry,
    leaves: Vec<LeafPlace>,
    /// Leaves as the indexes of runs have them, whether they are whole or not.
    indexed: Vec<LeafEntry>,
    /// Whether the catalogue and all pages that rows were taken from are those of the last
    /// checkpoint.
    is_current: bool,
    /// Between which times leaves are missing.
    gaps: Vec<Gap>,
    /// Rows copied from leaves.
    copied: u64,
    /// Above the sequence number of each of them.
    pub(crate) end_sequence: u64,
}

/// A leaf that is whole.
#[derive(Debug, Clone, Copy)]
struct LeafPlace {
    header: LeafHeader,
    id: PageId,
    slot: Slot,
    /// Not one of the last checkpoint's.
    is_outdated: bool,
}

/// A leaf whose rows are being copied.
struct Open {
    columns: ColumnSet,
    /// About how many bytes a row has.
    row_bytes: usize,
    places: Places,
    rows: Range<usize>,
    place: LeafPlace,
    /// How many columns it has that the table did not have yet in the newest catalogue that was
    /// found.
    unknown_columns: usize,
    /// Rows that were taken of it.
    taken: u64,
}

impl Open {
    fn next(&self) -> Option<Place> {
        (!self.rows.is_empty()).then(|| self.places.get(self.rows.start))
    }
}

impl LeafRemains {
    pub(crate) fn new(entry: &TableEntry, is_current: bool) -> Self {
        Self {
            entry: entry.clone(),
            leaves: Vec::new(),
            indexed: Vec::new(),
            is_current,
            gaps: Vec::new(),
            copied: 0,
            end_sequence: 0,
        }
    }

    /// Takes note of a page of a run of this table.
    pub(crate) fn visit(&mut self, found: &FoundPage) {
        if found.checkpoint < self.entry.since {
            return;
        }
        let is_outdated = found.standing == Standing::Outdated;
        if let Some((header, _)) = LeafHeader::parse(&found.page) {
            self.leaves.push(LeafPlace {
                header,
                id: found.id,
                slot: found.slot,
                is_outdated,
            });
            self.is_current &= is_outdated || found.standing == Standing::Current;
        } else if let Ok(index) = RunIndex::parse(found.id, &found.page)
            && !is_outdated
        {
            self.indexed.extend_from_slice(index.leaves());
        }
    }

    /// Copies the rows of the leaves into a new tree, in the order of time; returns the page that
    /// names it.
    ///
    /// # Errors
    ///
    /// The new store failed.
    pub(crate) fn copy(
        &mut self,
        pages: &Remains,
        working: &WorkingPages,
        problems: &mut Vec<Error>,
    ) -> Result<PageId> {
        let kind = kind_of(self.entry.id, &self.entry.schema);
        let tree = BeTree::create(working, I64Order, kind, options())?;
        self.gaps = self.find_gaps();
        let mut copied = Copied::new(working, kind)?;
        self.copy_leaves(pages, &mut copied, problems)?;
        tree.sealed(copied.finish()?).publish()?;
        Ok(tree.meta())
    }

    /// Copies the rows of all leaves, each row once; of outdated leaves those whose times lie in a
    /// gap.
    fn copy_leaves(
        &mut self,
        pages: &Remains,
        copied: &mut Copied<'_>,
        problems: &mut Vec<Error>,
    ) -> Result<()> {
        let mut leaves = std::mem::take(&mut self.leaves);
        // Without a gap, nothing in outdated leaves is missing.
        leaves.retain(|leaf| !(leaf.is_outdated && self.gaps.is_empty()));
        leaves.sort_unstable_by_key(|leaf| leaf.header.first);
        let mut gaps = GapsInOrder::of(&self.gaps);
        let mut waiting = leaves.into_iter().peekable();
        let mut open: Vec<Open> = Vec::new();
        loop {
            let next = open.iter().filter_map(Open::next).min();
            // A leaf is opened once its first row may come next.
            let is_due = |leaf: &LeafPlace| next.is_none_or(|next| leaf.header.first <= next);
            if let Some(leaf) = waiting.next_if(is_due) {
                match self.open(&leaf, pages) {
                    Ok(leaf) => {
                        if leaf.unknown_columns > 0 {
                            let reason =
                                "it has columns that no catalogue of its table names: they are missing";
                            problems.push(pages.damaged(leaf.place.id, leaf.place.slot, reason.into()));
                        }
                        open.push(leaf);
                    }
                    Err(error) => problems.push(error),
                }
                continue;
            }
            let Some(next) = next else {
                return Ok(());
            };
            let is_in_gap = gaps.contain(next.time);
            self.copy_row(next, is_in_gap, &mut open, copied)?;
            for done in open.extract_if(.., |leaf| leaf.rows.is_empty()) {
                let place = done.place;
                if place.is_outdated && done.taken > 0 {
                    self.is_current = false;
                    let reason = "an outdated copy of it was used: rows deleted since may be back, newer ones are missing";
                    problems.push(pages.damaged(place.id, place.slot, reason.into()));
                }
            }
        }
    }

    /// Copies the row of a place, from one of the leaves that have it, and passes it in all of
    /// them.
    fn copy_row(
        &mut self,
        next: Place,
        is_in_gap: bool,
        open: &mut [Open],
        copied: &mut Copied<'_>,
    ) -> Result<()> {
        let mut source: Option<(usize, usize)> = None;
        for (number, leaf) in open.iter_mut().enumerate() {
            if leaf.next() != Some(next) {
                continue;
            }
            let row = leaf.rows.start;
            leaf.rows.start += 1;
            if !leaf.place.is_outdated || (is_in_gap && source.is_none()) {
                source = Some((number, row));
            }
        }
        if let Some((number, row)) = source {
            open[number].taken += 1;
            self.copied += 1;
            self.end_sequence = self.end_sequence.max(next.sequence + 1);
            copied.push(&open[number], row)?;
        }
        Ok(())
    }

    /// Reads a leaf once more, all of it.
    fn open(&self, place: &LeafPlace, pages: &Remains) -> Result<Open> {
        let damaged = |reason: &str| pages.damaged(place.id, place.slot, reason.into());
        // On a bad disk the second read of a page may fail; that is no failure of the new store.
        let page = pages.read(place.id, place.slot)?;
        let contradicts = |error: bedload_pages::Error| damaged(&error.to_string());
        let leaf = RunLeaf::open(place.id, page).map_err(contradicts)?;
        let all = 0..leaf.rows();
        let schema = self.entry.schema.arrow();
        let decode = |column: usize| leaf.decode(column, all.clone()).map_err(contradicts);
        let own = leaf.columns() - 1;
        let known = own.min(schema.fields().len());
        let columns: Vec<ArrayRef> = (0..known).map(decode).collect::<Result<_>>()?;
        let sequences = decode(own)?;
        let foreign = || damaged("it has not the columns of its table");
        let is_ours = columns.iter().zip(schema.fields()).all(|(column, field)| {
            column.data_type() == field.data_type() && (field.is_nullable() || column.null_count() == 0)
        });
        if !is_ours || *sequences.data_type() != DataType::UInt64 || sequences.null_count() > 0 {
            return Err(foreign());
        }
        let columns = self.entry.schema.fill_up(columns, leaf.rows());
        let mut columns = columns.map_err(|_| foreign())?;
        columns.push(sequences);
        let time = self.entry.schema.time_column();
        let places = Places::of_columns(&columns[time], &columns[columns.len() - 1]);
        let places = places
            .filter(Places::ascend)
            .ok_or_else(|| damaged("its rows are out of order"))?;
        if places
            .sequence_bounds()
            .is_some_and(|(_, greatest)| greatest >= COUNTER_MAX)
        {
            return Err(damaged("its sequence numbers go further than any store gets"));
        }
        let bytes: usize = columns.iter().map(|column| column.get_buffer_memory_size()).sum();
        Ok(Open {
            row_bytes: bytes.div_ceil(places.len().max(1)),
            columns: columns.into(),
            rows: 0..places.len(),
            places,
            place: *place,
            unknown_columns: own - known,
            taken: 0,
        })
    }

    /// Where leaves are missing: those that an index lists and that were not found.
    fn find_gaps(&self) -> Vec<Gap> {
        let whole = self.leaves.iter().filter(|leaf| !leaf.is_outdated);
        let whole: HashSet<PageId> = whole.map(|leaf| leaf.id).collect();
        let lost = self.indexed.iter().filter(|leaf| !whole.contains(&leaf.page));
        let mut gaps: Vec<Gap> = lost
            .map(|leaf| Gap {
                from: Some(leaf.first.time),
                to: Some(leaf.last.time),
            })
            .collect();
        gaps.sort_unstable_by_key(|gap| (gap.from, gap.to));
        gaps.dedup();
        gaps
    }

    /// Reports what was saved of the table, which has `rows` rows now.
    pub(crate) fn report(&self, rows: u64) -> SalvagedTable {
        let missing = self
            .is_current
            .then(|| self.entry.rows.saturating_sub(self.copied));
        SalvagedTable {
            name: self.entry.name.to_string(),
            schema: self.entry.schema.live().clone(),
            rows,
            missing,
            gaps: if missing == Some(0) {
                Vec::new()
            } else {
                self.gaps.clone()
            },
        }
    }
}

/// Answers whether a time lies in a gap, for times that ascend: no gap is looked at twice.
struct GapsInOrder {
    /// Apart from each other, in descending order, so that the next one is popped from the end.
    left: Vec<Gap>,
}

impl GapsInOrder {
    /// Merges gaps that overlap. They are sorted by their beginning.
    fn of(gaps: &[Gap]) -> Self {
        let mut disjoint: Vec<Gap> = Vec::new();
        for gap in gaps {
            match disjoint.last_mut() {
                Some(last) if gap.from <= last.to => last.to = last.to.max(gap.to),
                _ => disjoint.push(*gap),
            }
        }
        disjoint.reverse();
        Self { left: disjoint }
    }

    fn contain(&mut self, time: i64) -> bool {
        while self.left.pop_if(|gap| gap.to < Some(time)).is_some() {}
        self.left.last().is_some_and(|gap| gap.contains(time))
    }
}

/// Rows of the log without those that the tree has from leaves. Only rows whose sequence numbers
/// are below its end are looked up.
pub(crate) fn without_copied(
    pages: &WorkingPages,
    table: &TableEntry,
    rows: SortedRows,
) -> Result<SortedRows> {
    if rows.sequences().start >= table.end_sequence {
        return Ok(rows);
    }
    let tree = open(pages, table)?;
    let kind = kind_of(table.id, &table.schema);
    let mut left: Vec<usize> = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let place = rows.places().get(row);
        if place.sequence >= table.end_sequence || !has_row(&tree, kind, place)? {
            left.push(row);
        }
    }
    if left.len() == rows.len() {
        return Ok(rows);
    }
    let failed = |reason: String| Error::schema(reason);
    let picks: UInt32Array = left.iter().map(|&row| u32::try_from(row).ok()).collect();
    let columns = take_arrays(rows.columns(), &picks, None).map_err(|error| failed(error.to_string()))?;
    let sequences = left.iter().map(|&row| rows.places().get(row).sequence).collect();
    SortedRows::held(&table.schema, columns, sequences)
        .ok_or_else(|| failed("rows of the log are out of order".into()))
}

/// Whether a tree has a row at a place.
fn has_row(tree: &Body<&WorkingPages>, kind: ColumnRuns, place: Place) -> Result<bool> {
    let edge = place.edge();
    for run in tree.leaf_interval(LeafTarget::At(edge))?.runs {
        if (run.first..=run.last).contains(&edge)
            && let Some(row) = kind.last_of_time(tree.store(), &run, place)?
            && row.sequence()? == place.sequence
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rows on their way into the runs of a new tree.
struct Copied<'w> {
    working: &'w WorkingPages,
    kind: ColumnRuns,
    writer: ColumnRunWriter<'w, WorkingPages>,
    rows: Stretches,
    /// About how many bytes they have.
    bytes: usize,
    runs: Vec<bedload_trees::run::Run>,
}

/// Rows that are gathered before they are copied.
const GATHERED_ROWS: usize = 1 << 13;

/// Bytes of them: the text of an array has 31 bits of room.
const GATHERED_BYTES: usize = if cfg!(test) { 64 << 10 } else { 16 << 20 };

impl<'w> Copied<'w> {
    fn new(working: &'w WorkingPages, kind: ColumnRuns) -> Result<Self> {
        Ok(Self {
            working,
            kind,
            writer: ColumnRunWriter::new(working, kind)?,
            rows: Stretches::new(),
            bytes: 0,
            runs: Vec::new(),
        })
    }

    fn push(&mut self, leaf: &Open, row: usize) -> Result<()> {
        self.rows.push(&leaf.columns, row..row + 1);
        self.bytes += leaf.row_bytes;
        if self.rows.rows() >= GATHERED_ROWS.min(LEAF_ENTRIES) || self.bytes >= GATHERED_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let columns = self
            .rows
            .build()
            .map_err(|error| Error::schema(error.to_string()))?;
        self.bytes = 0;
        self.writer.push(columns)?;
        if self.writer.rows() >= LEAF_ENTRIES as u64 {
            let next = ColumnRunWriter::new(self.working, self.kind)?;
            self.runs
                .extend(std::mem::replace(&mut self.writer, next).finish()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<bedload_trees::run::Run>> {
        self.write()?;
        self.runs.extend(self.writer.finish()?);
        Ok(self.runs)
    }
}

#[cfg(test)]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    #[test]
    fn gaps_in_order_have_the_times_that_any_of_them_has() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let mut gaps: Vec<Gap> = (0..rng.below(20))
                .map(|_| {
                    let from = rng.below(100).cast_signed();
                    let to = from + rng.below(10).cast_signed();
                    Gap {
                        from: Some(from),
                        to: Some(to),
                    }
                })
                .collect();
            gaps.sort_unstable_by_key(|gap| (gap.from, gap.to));
            let mut in_order = GapsInOrder::of(&gaps);
            let disjoint = in_order.left.windows(2);
            assert!(
                disjoint.into_iter().all(|two| two[1].to < two[0].from),
                "{gaps:?}"
            );
            for time in -1..120 {
                let is_in_any = gaps.iter().any(|gap| gap.contains(time));
                assert_eq!(in_order.contain(time), is_in_any, "{time} in {gaps:?}");
                let passed = in_order.left.iter().filter(|gap| gap.to < Some(time));
                assert_eq!(passed.count(), 0, "{time}: no gap is looked at again");
            }
        }
    }
}
