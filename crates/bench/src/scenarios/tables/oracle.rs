//! The expected rows of a store.

use bedload_testkit::Rng;

use super::arrival::Input;
use crate::subjects::tables::{Checksum, KeyedRow, RowId, TableStore, row_celsius, row_checksum};

/// The number of ranges and rows of each kind that are checked.
const CHECKS: usize = 20;

/// A range of more rows is checked once.
const LONG_ROWS: usize = 4_000_000;

/// Rows in order of time, and prefix sums of their checksums.
#[derive(Debug)]
pub(super) struct Oracle {
    ids: Vec<RowId>,
    /// The sum before each row; the last entry is the sum of all rows.
    sums: Vec<u64>,
}

/// Returns the sum of the checksums before each row, and of all.
fn sums(checksums: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sum = 0_u64;
    let after = checksums.map(|checksum| {
        sum = sum.wrapping_add(checksum);
        sum
    });
    std::iter::once(0).chain(after).collect()
}

impl Oracle {
    /// Creates the expected rows of an input.
    pub(super) fn new(input: &Input) -> Self {
        let times = input.times().into_iter();
        let ids = times.zip(0..).map(|(time, arrival)| RowId { time, arrival });
        Self::of_ids(ids.collect())
    }

    /// Creates the expected rows of a table with a key, each key once.
    pub(super) fn keyed(mut rows: Vec<KeyedRow>) -> Self {
        rows.sort_unstable_by_key(|row| row.id());
        let checksums = rows.iter().map(|row| row.checksum());
        Self {
            sums: sums(checksums),
            ids: rows.iter().map(|row| row.id()).collect(),
        }
    }

    fn of_ids(mut ids: Vec<RowId>) -> Self {
        ids.sort_unstable();
        let sums = sums(ids.iter().map(|&id| row_checksum(id)));
        Self { ids, sums }
    }

    /// Adds rows.
    pub(super) fn extend(&mut self, ids: impl Iterator<Item = RowId>) {
        let mut all = std::mem::take(&mut self.ids);
        all.extend(ids);
        *self = Self::of_ids(all);
    }

    /// Removes the rows of ranges, each from a time to before another; they ascend and do not
    /// overlap.
    pub(super) fn delete(&mut self, ranges: &[(i64, i64)]) {
        let mut ids = std::mem::take(&mut self.ids);
        let mut ranges = ranges.iter().peekable();
        ids.retain(|id| {
            while ranges.next_if(|(_, to)| *to <= id.time).is_some() {}
            ranges.peek().is_none_or(|(from, _)| id.time < *from)
        });
        *self = Self::of_ids(ids);
    }

    /// Returns a temperature that about one of so many rows has at most, and these rows.
    pub(super) fn cold(&self, one_of: usize) -> (f64, Checksum) {
        let celsius = |&id: &RowId| row_celsius(id);
        let mut all: Vec<f64> = self.ids.iter().map(celsius).collect();
        let at = all.len() / one_of;
        let (_, &mut bound, _) = all.select_nth_unstable_by(at, f64::total_cmp);
        let cold = self.ids.iter().filter(|id| celsius(id) <= bound);
        let sum = cold.fold(Checksum::default(), |sum, &id| Checksum {
            rows: sum.rows + 1,
            sum: sum.sum.wrapping_add(row_checksum(id)),
        });
        (bound, sum)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the time of the row with this rank; after the last rank, the time after the last
    /// row's.
    pub(super) fn time(&self, rank: usize) -> i64 {
        let behind = || self.ids.last().map_or(0, |id| id.time + 1);
        self.ids.get(rank).map_or_else(behind, |id| id.time)
    }

    /// Returns the number of rows before a time.
    fn rank(&self, time: i64) -> usize {
        self.ids.partition_point(|id| id.time < time)
    }

    fn expected(&self, from: i64, to: i64) -> Checksum {
        let (first, end) = (self.rank(from), self.rank(to));
        Checksum {
            rows: (end - first) as u64,
            sum: self.sums[end].wrapping_sub(self.sums[first]),
        }
    }

    /// Returns the number of rows from one time to before another.
    pub(super) fn rows_between(&self, from: i64, to: i64) -> u64 {
        self.expected(from, to).rows
    }

    /// Returns a range of this many rows, or a few more if rows share a time, and its number of
    /// rows.
    pub(super) fn range(&self, rows: usize, rng: &mut Rng) -> ((i64, i64), u64) {
        if rows >= self.len() {
            return ((i64::MIN, i64::MAX), self.len() as u64);
        }
        let first = rng.index(self.len() - rows + 1);
        let (from, to) = (self.time(first), self.time(first + rows));
        let to = to.max(from + 1);
        ((from, to), self.expected(from, to).rows)
    }

    /// Draws a row with a unique time.
    pub(super) fn row(&self, rng: &mut Rng) -> RowId {
        loop {
            let rank = rng.index(self.len());
            let id = self.ids[rank];
            let is_alone =
                self.time(rank + 1) != id.time && (rank == 0 || self.ids[rank - 1].time != id.time);
            // If nearly all rows share their time, one with a shared time is accepted at last.
            if is_alone || rng.percent(0.1) {
                return id;
            }
        }
    }

    /// Compares all answers of a store with the expected ones.
    ///
    /// # Panics
    ///
    /// If an answer differs.
    pub(super) fn check(&self, store: &dyn TableStore, name: &str) {
        let rng = &mut Rng::new(self.len() as u64);
        assert_eq!(store.count(None), self.len() as u64, "{name}: rows");
        let check = |from, to| {
            let (mut found, mut until) = (Checksum::default(), i64::MIN);
            store.range(from, to, &mut |batch| {
                found.add(batch);
                if from > i64::MIN {
                    for time in Checksum::times(batch) {
                        assert!(*time >= until, "{name}: {time} after {until}");
                        until = *time;
                    }
                }
            });
            let expected = self.expected(from, to);
            assert_eq!(found, expected, "{name}: rows from {from} to {to}");
            if from > i64::MIN {
                assert_eq!(store.count(Some((from, to))), expected.rows, "{name}: count");
            }
        };
        check(i64::MIN, i64::MAX);
        let third = self.len() / 3;
        let of_third = if third > LONG_ROWS { 1 } else { CHECKS };
        for (rows, checks) in [(1, CHECKS), (10, CHECKS), (1000, CHECKS), (third, of_third)] {
            for _ in 0..checks.min(self.len()) {
                let ((from, to), _) = self.range(rows.max(1), rng);
                check(from, to);
            }
        }
        for _ in 0..CHECKS {
            let id = self.row(rng);
            let found = store.point(id);
            assert!(found.is_some(), "{name}: the row at {}", id.time);
            let expected = self.expected(id.time, id.time + 1);
            assert!(
                expected.rows > 1 || found == Some(expected.sum),
                "{name}: the row at {}",
                id.time
            );
        }
        let rows = self.len().min(100);
        let mut newest = Checksum::default();
        store.newest(rows, &mut |batch| newest.add(batch));
        assert_eq!(newest.rows, rows as u64, "{name}: newest rows");
        let first = self.time(self.len() - rows);
        if self.rank(first) == self.len() - rows {
            assert_eq!(newest, self.expected(first, i64::MAX), "{name}: newest rows");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrival::{Arrival, Input};
    use super::super::case::Case;
    use super::Oracle;
    use crate::subjects::tables::{Readings, by_name};

    fn input(rows: usize) -> Input {
        Input {
            arrival: Arrival::SecondLate,
            rows,
            seed: 7,
        }
    }

    /// Checks a store of `rows` rows, whose last row may have a wrong number, against an oracle of
    /// a thousand rows.
    fn check(rows: usize, last_is_wrong: bool) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = Case::new(Arrival::InOrder).options();
        let store = (by_name("parquet").expect("it is listed").open)(dir.path(), &options);
        let times = input(rows).times();
        let (most, last) = times.split_at(rows - 1);
        store.append(&Readings::new(0, most));
        store.append(&Readings::new(most.len() + usize::from(last_is_wrong), last));
        store.flush();
        Oracle::new(&input(1000)).check(&*store, "parquet");
    }

    #[test]
    fn deleted_rows_are_those_of_the_ranges() {
        let mut oracle = Oracle::new(&input(1000));
        let ranges: Vec<(i64, i64)> = (0..10)
            .map(|range| (oracle.time(range * 100), oracle.time(range * 100 + 30)))
            .collect();
        let rows: u64 = ranges
            .iter()
            .map(|&(from, to)| oracle.expected(from, to).rows)
            .sum();
        oracle.delete(&ranges);
        assert_eq!(oracle.len() as u64, 1000 - rows);
        assert!(
            ranges
                .iter()
                .all(|&(from, to)| oracle.expected(from, to).rows == 0)
        );
        let (bound, cold) = oracle.cold(100);
        assert!(
            cold.rows >= 7 && cold.rows < 1000 - rows,
            "{cold:?} up to {bound}"
        );
    }

    #[test]
    fn all_rows_are_right() {
        check(1000, false);
    }

    #[test]
    #[should_panic(expected = "rows")]
    fn a_row_is_missing() {
        check(999, false);
    }

    #[test]
    #[should_panic(expected = "rows from")]
    fn a_row_has_other_values() {
        check(1000, true);
    }
}
