//! The head of a table: its newest rows, in memory.
//!
//! Rows are kept as runs: the rows of one commit, sorted by time. A long batch is a run of its own
//! and is not touched again until it is flushed. The rows of short commits wait in the form that
//! the log has ([`FewRows`]), until there are enough commits for a run, or a reader comes. Small
//! runs are merged with those that arrived next to them, sixteen at a time ([`Parts`]), so that a
//! reader meets few runs whatever the size of commits, and each row is copied a few times at most.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use arrow_schema::ArrowError;
use parking_lot::{Mutex, RwLock};

use super::few_rows::FewRows;
use super::parts::{Parts, Run};
use super::{BlockRef, Deletion, Deletions, EncodedRows, Place, RowsInOrder, SortedRows, TableSchema};

/// Rows appended since some moment, and deletions made since. Rows and deletions are only ever
/// added, so reading up to a sequence number always finds the same.
#[derive(Debug, Default)]
pub(crate) struct Head {
    parts: Parts<FewRows>,
    changes: RwLock<Changes>,
    /// The deletions and replaced rows of the first commits, merged, and how many of each: up to
    /// the state that the last reader of visible rows has seen, and up to the state that the last
    /// reader of all rows has seen.
    merged: [Mutex<([usize; 2], Arc<Deletions>)>; 2],
}

#[derive(Debug, Default, Clone)]
struct Changes {
    /// In the order of their sequence numbers.
    deletions: Vec<Deletion>,
    /// Whether a deletion leaves times without the rows they had: not so if its commit replaces
    /// them.
    takes_back: bool,
    /// Replaced rows, by place, and the sequence number of the commit from which on they are gone,
    /// ascending.
    replaced: Vec<(u64, Arc<[Place]>)>,
    /// Blocks of a sparse table that commits have written, each with the sequence number it counts
    /// as, ascending.
    written: BTreeMap<i64, Vec<(u64, BlockRef)>>,
}

impl Changes {
    /// How many deletions, and sets of replaced rows, were made before a sequence number.
    fn made_before(&self, before: u64) -> [usize; 2] {
        [
            self.deletions.partition_point(|deletion| deletion.at < before),
            self.replaced.partition_point(|&(at, _)| at < before),
        ]
    }

    /// Adds those from some numbers up to others.
    fn add_to(&self, deletions: &mut Deletions, from: [usize; 2], to: [usize; 2]) {
        let ranges = &self.deletions[from[0]..to[0]];
        ranges.iter().for_each(|deletion| deletions.put(deletion));
        let replaced = &self.replaced[from[1]..to[1]];
        replaced.iter().for_each(|(_, rows)| deletions.put_rows(rows));
    }

    fn has_deletions(&self) -> bool {
        !self.deletions.is_empty() || !self.replaced.is_empty()
    }
}

impl Run for SortedRows {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn merge(runs: &[Arc<Self>]) -> Option<Self> {
        RowsInOrder::new(runs.to_vec()).into_run().ok()
    }
}

impl Head {
    /// Adds rows and returns the bytes of memory they take.
    pub(crate) fn append(&self, rows: SortedRows) -> usize {
        let bytes = rows.bytes();
        self.parts.push_run(rows);
        bytes
    }

    /// Adds the rows of a short commit, the first of which has the sequence number `first`; tells
    /// whether it may be time to [merge](Self::merge_small).
    pub(crate) fn append_few(&self, schema: &Arc<TableSchema>, rows: &EncodedRows, first: u64) -> bool {
        let new = || FewRows::new(schema.clone());
        self.parts.push_few(new, |few| few.push(rows, first))
    }

    /// Keeps the runs few, unless another thread does so already.
    pub(crate) fn merge_small(&self) {
        self.parts.merge_small();
    }

    /// The runs that have rows with a sequence number below `before`. They may have others, too.
    pub(crate) fn runs(&self, before: u64) -> Vec<Arc<SortedRows>> {
        let is_visible = |run: &&Arc<SortedRows>| run.sequences().start < before;
        self.parts.sorted().iter().filter(is_visible).cloned().collect()
    }

    /// Adds a deletion, which covers rows of this head and of everything older.
    /// Unless it `takes_back` rows, its commit has others of the same times.
    pub(crate) fn delete(&self, deletion: Deletion, takes_back: bool) {
        let mut changes = self.changes.write();
        changes.deletions.push(deletion);
        changes.takes_back |= takes_back;
    }

    /// The deletions made before sequence number `before`.
    pub(crate) fn deletions(&self, before: u64) -> Vec<Deletion> {
        self.changes
            .read()
            .deletions
            .iter()
            .filter(|deletion| deletion.at < before)
            .cloned()
            .collect()
    }

    /// Removes rows of this head or of what is older, by their places, ascending.
    pub(crate) fn replace(&self, at: u64, rows: Arc<[Place]>) {
        self.changes.write().replaced.push((at, rows));
    }

    /// The deletions and the replaced rows of commits before sequence number `before`, merged;
    /// `None` if there are none.
    pub(crate) fn merged_deletions(&self, before: u64) -> Option<Arc<Deletions>> {
        let changes = self.changes.read();
        let counts = changes.made_before(before);
        if counts == [0, 0] {
            return None;
        }
        let mut merged = self.merged[usize::from(before == u64::MAX)].lock();
        let (known, deletions) = &mut *merged;
        if counts[0] < known[0] || counts[1] < known[1] {
            // An earlier state than that of the last reader.
            let mut earlier = Deletions::default();
            changes.add_to(&mut earlier, [0, 0], counts);
            return Some(Arc::new(earlier));
        }
        if counts != *known {
            changes.add_to(Arc::make_mut(deletions), *known, counts);
            *known = counts;
        }
        Some(deletions.clone())
    }

    /// Adds a block of a sparse table that is written.
    pub(crate) fn put_block(&self, block: i64, sequence: u64, written: BlockRef) {
        self.changes
            .write()
            .written
            .entry(block)
            .or_default()
            .push((sequence, written));
    }

    /// The newest of the writings of a block whose sequence number is below `before`.
    pub(crate) fn newest_block(&self, block: i64, before: u64) -> Option<(u64, BlockRef)> {
        let changes = self.changes.read();
        let written = changes.written.get(&block)?;
        written
            .iter()
            .rev()
            .find(|(sequence, _)| *sequence < before)
            .copied()
    }

    /// The first block in a range that was written before sequence number `before`; in reverse, the
    /// last.
    pub(crate) fn next_block(&self, range: RangeInclusive<i64>, before: u64, reverse: bool) -> Option<i64> {
        let changes = self.changes.read();
        let is_visible = |(_, written): &(&i64, &Vec<(u64, BlockRef)>)| written[0].0 < before;
        let mut blocks = changes
            .written
            .range(range)
            .filter(is_visible)
            .map(|(&block, _)| block);
        if reverse {
            blocks.next_back()
        } else {
            blocks.next()
        }
    }

    /// All writings of blocks before sequence number `before`.
    pub(crate) fn blocks(&self, before: u64) -> BTreeMap<i64, Vec<(u64, BlockRef)>> {
        let mut blocks = self.changes.read().written.clone();
        blocks.retain(|_, written| {
            written.retain(|(sequence, _)| *sequence < before);
            !written.is_empty()
        });
        blocks
    }

    /// Whether there is, or was, a row with a time in a range.
    pub(crate) fn has_rows(&self, times: RangeInclusive<i64>) -> bool {
        let bounds = (
            Bound::Included((*times.start(), 0)),
            Bound::Included((*times.end(), u64::MAX)),
        );
        self.parts
            .sorted()
            .iter()
            .any(|run| !run.between(bounds).is_empty())
    }

    /// The row of a time that arrived last, of those with a sequence number below `before`.
    /// `newest_left` returns the greatest sequence number, at most the given one, with which a row
    /// of that time may be left.
    pub(crate) fn last_at(
        &self,
        time: i64,
        before: u64,
        newest_left: impl Fn(u64) -> Option<u64>,
    ) -> Option<(Arc<SortedRows>, usize)> {
        let mut sequence = newest_left(before.checked_sub(1)?)?;
        let runs = self.parts.sorted();
        for run in runs.iter().rev() {
            while run.sequences().start <= sequence
                && let Some(row) = run.through((time, sequence)).next_back()
                && let (at, found) = run.place(row)
                && at == time
            {
                let left = newest_left(found)?;
                if left == found {
                    return Some((run.clone(), row));
                }
                sequence = left;
            }
        }
        None
    }

    /// How many rows between two bounds have a sequence number below `before`.
    pub(crate) fn count(&self, bounds: (Bound<Place>, Bound<Place>), before: u64) -> u64 {
        let of_run = |run: &Arc<SortedRows>| {
            let rows = run.between(bounds);
            if run.sequences().end <= before {
                rows.len()
            } else {
                rows.filter(|&row| run.place(row).1 < before).count()
            }
        };
        self.runs(before).iter().map(of_run).sum::<usize>() as u64
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.parts.sorted().iter().map(|run| run.len()).sum()
    }

    /// Whether there are deletions that no flush has applied.
    pub(crate) fn has_deletions(&self) -> bool {
        self.changes.read().has_deletions()
    }

    /// Whether it takes rows of some times or sequence numbers back, and replaces them by none.
    pub(crate) fn takes_back(&self) -> bool {
        self.changes.read().takes_back
    }

    /// The latest time of a row.
    pub(crate) fn latest(&self) -> Option<i64> {
        let runs = self.parts.sorted();
        let last = |run: &Arc<SortedRows>| run.len().checked_sub(1).map(|row| run.place(row).0);
        runs.iter().filter_map(last).max()
    }

    /// How many rows are later than a time.
    pub(crate) fn later_than(&self, time: i64) -> usize {
        let of_run = |run: &Arc<SortedRows>| run.len() - run.through((time, u64::MAX)).end;
        self.parts.sorted().iter().map(of_run).sum()
    }

    /// How many rows speak against a flush: those up to the time `flushed`, the latest in pages, as
    /// they are late; and those later than a row of the newest quarter, as rows that are still to
    /// come may precede them, too.
    pub(crate) fn late_rows(&self, flushed: Option<i64>) -> usize {
        let runs = self.runs(u64::MAX);
        let quarter = runs.iter().map(|run| run.len()).sum::<usize>() / 4;
        let (mut split, mut newest) = (runs.len(), 0);
        while split > 0 && newest < quarter {
            split -= 1;
            newest += runs[split].len();
        }
        let (older, newest) = runs.split_at(split);
        let until = |run: &Arc<SortedRows>, time| run.through((time, u64::MAX)).len();
        let first = newest.iter().map(|run| run.place(0).0).min();
        let overtaken = first.map_or(0, |first| {
            older.iter().map(|run| run.len() - until(run, first)).sum()
        });
        let among = flushed.map_or(0, |time| runs.iter().map(|run| until(run, time)).sum());
        overtaken + among
    }

    /// A head without the rows that are later than a time, and these as one run. Nothing may be
    /// added meanwhile, and there are no deletions.
    ///
    /// # Errors
    ///
    /// The text of a column of the later rows is more than an array can hold.
    pub(crate) fn split_after(&self, time: i64) -> Result<(Self, SortedRows), ArrowError> {
        let runs = self.runs(u64::MAX);
        let (mut kept, mut newest) = (Vec::new(), Vec::new());
        for run in &runs {
            let split = run.through((time, u64::MAX)).end;
            if split == run.len() {
                kept.push(run.clone());
                continue;
            }
            kept.push(Arc::new(run.slice(0..split, true)));
            newest.push(Arc::new(run.slice(split..run.len(), false)));
        }
        let kept = Self {
            parts: Parts::of_runs(kept),
            ..Self::default()
        };
        Ok((kept, RowsInOrder::new(newest).into_run()?))
    }

    /// A head with the same rows and deletions, whose rows are null in the columns of `schema` that
    /// they lack. No rows may be added meanwhile.
    pub(crate) fn filled_up(&self, schema: &TableSchema) -> Self {
        let runs = self.runs(u64::MAX);
        let runs = runs.iter().map(|run| Arc::new(run.filled_up(schema)));
        Self {
            parts: Parts::of_runs(runs),
            changes: RwLock::new(self.changes.read().clone()),
            ..Self::default()
        }
    }

    /// A head with the same rows and deletions, and with other blocks of a sparse table that
    /// commits have written. Nothing may be added meanwhile.
    pub(crate) fn with_blocks(&self, written: BTreeMap<i64, Vec<(u64, BlockRef)>>) -> Self {
        let mut changes = self.changes.read().clone();
        changes.written = written;
        Self {
            parts: Parts::of_runs(self.runs(u64::MAX)),
            changes: RwLock::new(changes),
            ..Self::default()
        }
    }

    /// All rows, to be flushed; the head is sealed.
    pub(crate) fn in_order(&self) -> RowsInOrder {
        RowsInOrder::new(self.runs(u64::MAX))
    }

    /// Whether there is nothing to be flushed.
    pub(crate) fn is_empty(&self) -> bool {
        let changes = self.changes.read();
        self.parts.is_empty() && !changes.has_deletions() && changes.written.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, TimestampSecondArray};
    use arrow_schema::{DataType, Field, Schema, TimeUnit};
    use bedload_testkit::Rng;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::rows::parts::{COMMITS_SORTED, FAN_IN};
    use crate::rows::{SortedBatch, are_few};

    fn schema() -> Arc<TableSchema> {
        let fields = vec![
            Field::new("number", DataType::Int64, false),
            Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        ];
        Arc::new(TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("storable"))
    }

    /// Columns of rows of these times, each of which holds its sequence number.
    fn columns(times: Vec<i64>, first: u64) -> [ArrayRef; 2] {
        let numbers = (first..).take(times.len()).map(u64::cast_signed);
        [
            Arc::new(Int64Array::from_iter_values(numbers)),
            Arc::new(TimestampSecondArray::from(times)),
        ]
    }

    fn rows(schema: &TableSchema, times: Vec<i64>, first: u64) -> SortedRows {
        SortedBatch::new(schema, columns(times, first).to_vec())
            .expect("no text")
            .numbered(first)
    }

    fn encoded(schema: &TableSchema, times: &[i64], first: u64) -> EncodedRows {
        EncodedRows::of_columns(schema, &columns(times.to_vec(), first))
    }

    #[test]
    fn packed_rows_are_split_as_others_are() {
        let schema = schema();
        let head = |packed: bool| {
            let head = Head::default();
            for (first, begin) in [(0, 0), (100, 250), (200, 50)] {
                let times: Vec<i64> = (begin..begin + 100).collect();
                let columns = columns(times, first).to_vec();
                let mut batch = SortedBatch::new(&schema, columns).expect("no text");
                if packed {
                    batch.pack(&schema).expect("rows that fit leaves");
                }
                head.append(batch.numbered(first));
            }
            head
        };
        // Before, between, within and after the rows of each run.
        for time in [-1, 0, 40, 60, 99, 120, 200, 249, 250, 300, 349, 400] {
            let [(kept, newest), (expected, others)] =
                [true, false].map(|packed| head(packed).split_after(time).expect("no text"));
            assert_eq!(newest.places().times(), others.places().times(), "after {time}");
            assert_eq!(newest.columns(), others.columns(), "after {time}");
            let [kept, expected] = [kept, expected].map(|head| head.in_order());
            assert_eq!(kept.len() + newest.len(), 300);
            assert!(newest.places().times().iter().all(|&at| at > time));
            assert!(kept.last().is_none_or(|(at, _)| at <= time));
            let all = 0..kept.len();
            let columns = [&kept, &expected].map(|rows| rows.columns(all.clone()).expect("no text"));
            assert_eq!(columns[0], columns[1], "up to {time}");
        }
    }

    #[test]
    fn commits_become_runs_when_there_are_enough_or_a_reader_comes() {
        let schema = schema();
        let head = Head::default();
        let append = |number: u64| head.append_few(&schema, &encoded(&schema, &[0], number), number);
        assert!(append(0), "runs before it may have to be merged");
        let sorted = COMMITS_SORTED as u64;
        assert!((1..sorted - 1).all(|number| !append(number)));
        head.merge_small();
        assert_eq!(head.parts.count_runs(), 0, "they wait");
        assert!(append(sorted - 1), "there are enough");
        head.merge_small();
        assert_eq!(head.parts.count_runs(), 1);
        append(sorted);
        assert_eq!(head.parts.count_runs(), 1);
        assert_eq!(head.runs(u64::MAX).len(), 2, "a reader finds all in runs");
        for number in sorted + 1..10 * sorted {
            if append(number) {
                head.merge_small();
            }
            assert_eq!(
                head.len() as u64,
                number + 1,
                "and so do readers after each commit"
            );
            check_runs(&head);
        }
    }

    #[test]
    fn a_reader_finds_all_that_was_committed_before_it_came() {
        let schema = schema();
        let head = Head::default();
        let visible = AtomicU64::new(0);
        const COMMITS: u64 = 20_000;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut rng = Rng::new(7);
                    loop {
                        let before = visible.load(Ordering::Acquire);
                        let bounds = (Bound::Unbounded, Bound::Unbounded);
                        assert_eq!(head.count(bounds, before), before);
                        if before == COMMITS {
                            return;
                        }
                        if before > 0 {
                            let time = rng.below(before).cast_signed();
                            let found = head.last_at(time, before, Some);
                            assert!(found.is_some(), "the row of {time}, of {before}");
                        }
                    }
                });
            }
            for number in 0..COMMITS {
                let time = number.cast_signed();
                // Long batches come between.
                let is_to_merge = if number % 1000 == 999 {
                    head.append(rows(&schema, vec![time], number));
                    true
                } else {
                    head.append_few(&schema, &encoded(&schema, &[time], number), number)
                };
                visible.store(number + 1, Ordering::Release);
                if is_to_merge {
                    head.merge_small();
                }
            }
        });
        check_runs(&head);
    }

    #[test]
    fn a_head_has_every_row_once_however_runs_are_merged() {
        let schema = schema();
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let head = Head::default();
            let mut expected: Vec<Place> = Vec::new();
            let mut arrived = Vec::new();
            let (mut next, mut bytes) = (0, 0);
            let longest = [1, 3, 40, 700][(seed % 4) as usize];
            for _ in 0..rng.below(400) {
                let len = 1 + rng.below(longest);
                let times: Vec<i64> = (0..len)
                    .map(|row| (next + row + rng.below(1 + 20 * (seed % 3))).cast_signed())
                    .collect();
                expected.extend(times.iter().copied().zip(next..));
                arrived.extend_from_slice(&times);
                let encoded = encoded(&schema, &times, next);
                if are_few(&encoded) && rng.below(8) > 0 {
                    if head.append_few(&schema, &encoded, next) {
                        head.merge_small();
                    }
                } else {
                    bytes += head.append(rows(&schema, times, next));
                    head.merge_small();
                }
                // Numbers that rows of another table got.
                next += len + rng.below(2);
                if rng.below(10) == 0 {
                    check_runs(&head);
                }
            }
            expected.sort_unstable();
            let order = head.in_order();
            let found: Vec<Place> = order
                .iter()
                .map(|(run, row)| order.runs()[run].place(row))
                .collect();
            assert_eq!(found, expected, "seed {seed}");
            let columns = order.columns(0..order.len()).expect("no text");
            if let Some(numbers) = columns.first().filter(|_| order.len() > 0) {
                let numbers = numbers.as_primitive::<Int64Type>().values();
                assert!(
                    numbers
                        .iter()
                        .map(|n| n.cast_unsigned())
                        .eq(found.iter().map(|place| place.1))
                );
            }
            let runs = head.runs(u64::MAX);
            let arrivals: Vec<i64> = runs.iter().flat_map(|run| run.arrivals().to_vec()).collect();
            assert_eq!(arrivals, arrived, "seed {seed}");
            assert!(runs.iter().map(|run| run.bytes()).sum::<usize>() >= bytes);
            for _ in 0..20 {
                let before = rng.below(next + 2);
                let mut ends = [0, 1].map(|_| (rng.below(next + 1).cast_signed(), rng.below(next + 1)));
                ends.sort_unstable();
                let bounds = (Bound::Included(ends[0]), Bound::Excluded(ends[1]));
                let visible = expected.iter().filter(|place| place.1 < before);
                let within = visible.filter(|place| (ends[0]..ends[1]).contains(place)).count();
                assert_eq!(head.count(bounds, before), within as u64);
                let times = ends[0].0..=ends[1].0;
                let has_rows = expected.iter().any(|place| times.contains(&place.0));
                assert_eq!(head.has_rows(times), has_rows);
            }
        }
    }

    fn check_runs(head: &Head) {
        let runs = head.runs(u64::MAX);
        let follow = |pair: &[Arc<SortedRows>]| pair[0].sequences().end <= pair[1].sequences().start;
        assert!(
            runs.windows(2).all(follow),
            "runs stand in the order of their arrival"
        );
        let small = runs.iter().filter(|run| run.len() < 4096).count();
        let long = runs.len() - small;
        assert!(small < (long + 1) * 3 * FAN_IN, "{small} small runs");
    }
}
