//! The rows of a table that those of a batch replace.

use std::ops::RangeInclusive;

use crate::engine::Group;
use crate::rows::{DELETION_WEIGHT, Place};
use crate::store::Table;

/// Rows that give way: found in the order of their places, removed by a commit.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Times of which every row gives way.
    times: Vec<RangeInclusive<i64>>,
    /// The other rows, by their places, ascending.
    rows: Vec<Place>,
    pub(super) count: u64,
    /// Replaced rows with no other row between them.
    run: Vec<Place>,
    /// The time of the last row that was left.
    left: Option<i64>,
}

impl Gone {
    /// Adds the next row of a range of times, all of whose rows are added.
    pub(super) fn add(&mut self, place: Place, gives_way: bool) {
        if gives_way {
            self.run.push(place);
        } else {
            if !self.run.is_empty() {
                self.end_run(Some(place.0));
            }
            self.left = Some(place.0);
        }
    }

    /// Ends the range: its times have no other rows.
    pub(super) fn end_range(&mut self) {
        self.end_run(None);
        self.left = None;
    }

    /// Removes the rows of the run, before a row of the time `next` that is left.
    fn end_run(&mut self, next: Option<i64>) {
        let run = &self.run;
        let begin = run.partition_point(|row| self.left.is_some_and(|left| row.0 <= left));
        let end = run.partition_point(|row| next.is_none_or(|next| row.0 < next));
        let whole = begin..end.max(begin);
        if whole.len() < DELETION_WEIGHT {
            self.rows.extend_from_slice(run);
        } else {
            self.rows.extend_from_slice(&run[..whole.start]);
            self.rows.extend_from_slice(&run[whole.end..]);
            self.times.push(run[whole.start].0..=run[whole.end - 1].0);
        }
        self.count += run.len() as u64;
        self.run.clear();
    }

    /// Has a commit remove them.
    pub(super) fn remove_in(&self, group: &mut Group, table: &Table) {
        for times in &self.times {
            group.replace_times(&table.table, times.clone());
        }
        if !self.rows.is_empty() {
            group.replace(&table.table, self.rows[..].into());
        }
    }
}

#[cfg(test)]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    #[test]
    fn rows_give_way_by_times_or_alone_and_no_other_does() {
        let mut rng = Rng::new(3);
        let mut by_times = 0;
        for _ in 0..200 {
            let (mut time, mut gives_way) = (0, false);
            let rows: Vec<(Place, bool)> = (0..rng.below(1000))
                .map(|sequence| {
                    time += i64::from(rng.below(3) == 0);
                    if rng.below(60) == 0 {
                        gives_way = !gives_way;
                    }
                    ((time, sequence), gives_way)
                })
                .collect();
            let mut gone = Gone::default();
            let cut = rng.index(rows.len() + 1);
            // The times of two ranges differ.
            let cut = cut + rows[cut..].partition_point(|row| cut > 0 && row.0.0 == rows[cut - 1].0.0);
            for range in [&rows[..cut], &rows[cut..]] {
                range
                    .iter()
                    .for_each(|&(place, gives_way)| gone.add(place, gives_way));
                gone.end_range();
            }
            assert!(gone.rows.is_sorted());
            let mut count = 0;
            for &(place, gives_way) in &rows {
                let in_times = gone.times.iter().any(|times| times.contains(&place.0));
                let alone = gone.rows.binary_search(&place).is_ok();
                assert_eq!(in_times || alone, gives_way, "{place:?}");
                assert!(!(in_times && alone), "{place:?} is gone twice");
                by_times += u64::from(in_times);
                count += u64::from(gives_way);
            }
            assert_eq!(gone.count, count);
        }
        assert!(by_times > 1000, "{by_times}");
    }
}
