//! Deletions: rows declared gone by time, by order of arrival, or one by one.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow_buffer::BooleanBufferBuilder;
use bedload_columns::Places;

use super::Place;

/// Removes rows of a table whose time is in `times` and that arrived from sequence number
/// `from_sequence` on and before the deletion itself, which has the sequence number `at`.
///
/// A range delete starts at sequence 0; taking back what was appended since a mark spans all times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) times: RangeInclusive<i64>,
    pub(crate) from_sequence: u64,
    pub(crate) at: u64,
}

impl Deletion {
    /// Whether a row with this time and sequence number is gone.
    pub(crate) fn covers(&self, time: i64, sequence: u64) -> bool {
        self.times.contains(&time) && self.from_sequence <= sequence && sequence < self.at
    }
}

/// Many deletions as one: a single search tells which rows they remove together, however many they
/// are.
///
/// Where two range deletes share a time, the later one removes every row that the earlier one does.
/// So each time needs only the greatest sequence number of a deletion, and times with the same one
/// form one stretch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deletions {
    /// Stretches of times, by the first; no two overlap. The value is the last time, and the
    /// sequence number below which no row is left.
    times: BTreeMap<i64, (i64, u64)>,
    /// Ranges of sequence numbers of which no row is left, whatever its time: from the first up to
    /// the second. No two overlap.
    sequences: BTreeMap<u64, u64>,
    /// Single rows that are gone, in sets that ascend, each more than twice as long as the next of
    /// the same head. They are shared, as readers keep earlier states.
    rows: Vec<Arc<[Place]>>,
    /// Deletions limited in both times and sequence numbers: records may have them, no store writes
    /// them.
    others: Vec<Deletion>,
}

/// Places covered by the same deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    first: Place,
    last: Place,
    /// No row of a lesser sequence number is left.
    before: u64,
    /// Whether it is the place of a single row that is gone.
    is_row: bool,
}

impl Stretch {
    pub(crate) fn contains(&self, place: Place) -> bool {
        (self.first..=self.last).contains(&place)
    }
}

impl Deletions {
    /// No deletions.
    pub(crate) const NONE: Self = Self {
        times: BTreeMap::new(),
        sequences: BTreeMap::new(),
        rows: Vec::new(),
        others: Vec::new(),
    };

    /// Combines sets, each later than the one before.
    pub(crate) fn merge<'d>(sets: impl Iterator<Item = &'d Self>) -> Self {
        let mut merged = Self::default();
        for set in sets {
            if merged.is_empty() {
                merged = set.clone();
                continue;
            }
            for (&first, &(last, before)) in &set.times {
                merged.put_times(first, last, before);
            }
            for (&from, &to) in &set.sequences {
                merged.put_sequences(from, to);
            }
            // Unmerged: a reader does this for each scan while a flush is under way.
            merged.rows.extend(set.rows.iter().cloned());
            merged.others.extend(set.others.iter().cloned());
        }
        merged
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty() && self.rows.is_empty() && !self.has_more()
    }

    /// Whether rows may be gone whatever their time.
    fn has_more(&self) -> bool {
        !self.sequences.is_empty() || !self.others.is_empty()
    }

    /// Adds a deletion that is later than all others.
    pub(crate) fn put(&mut self, deletion: &Deletion) {
        let (first, last) = (*deletion.times.start(), *deletion.times.end());
        if deletion.from_sequence == 0 {
            if first <= last {
                self.put_times(first, last, deletion.at);
            }
        } else if deletion.from_sequence >= deletion.at {
            // Nothing came since, or the numbers of what did were given up.
        } else if (first, last) == (i64::MIN, i64::MAX) {
            self.put_sequences(deletion.from_sequence, deletion.at);
        } else {
            self.others.push(deletion.clone());
        }
    }

    /// Adds single rows, in the order of their places.
    pub(crate) fn put_rows(&mut self, rows: &Arc<[Place]>) {
        let mut rows = rows.clone();
        while let Some(last) = self.rows.pop_if(|last| last.len() <= 2 * rows.len()) {
            let mut both = [&last[..], &rows[..]].concat();
            // Two runs, which it finds and merges.
            both.sort();
            rows = both.into();
        }
        self.rows.push(rows);
    }

    fn put_times(&mut self, first: i64, last: i64, before: u64) {
        // Deletions that reach over the ends are cut off.
        if let Some((&start, &(end, older))) = self.times.range(..first).next_back()
            && end >= first
        {
            self.times.insert(start, (first - 1, older));
            if end > last {
                self.times.insert(last + 1, (end, older));
            }
        }
        while let Some((&start, &(end, older))) = self.times.range(first..=last).next_back() {
            self.times.remove(&start);
            if end > last {
                self.times.insert(last + 1, (end, older));
            }
        }
        self.times.insert(first, (last, before));
    }

    fn put_sequences(&mut self, mut from: u64, mut to: u64) {
        while let Some((&start, &end)) = self
            .sequences
            .range(..=to)
            .next_back()
            .filter(|(_, end)| **end >= from)
        {
            self.sequences.remove(&start);
            from = from.min(start);
            to = to.max(end);
        }
        self.sequences.insert(from, to);
    }

    /// The stretch that has a place.
    pub(crate) fn stretch(&self, place: Place) -> Stretch {
        #[cfg(test)]
        searches::count();
        let mut stretch = self.stretch_of_times(place.0);
        for rows in &self.rows {
            let next = rows.partition_point(|&row| row < place);
            match rows.get(next) {
                Some(&row) if row == place => {
                    return Stretch {
                        first: place,
                        last: place,
                        is_row: true,
                        ..stretch
                    };
                }
                Some(&after) => stretch.last = stretch.last.min(place_before(after)),
                None => {}
            }
            if let Some(before) = next.checked_sub(1).map(|last| rows[last]) {
                stretch.first = stretch.first.max(place_after(before));
            }
        }
        stretch
    }

    /// The stretch that has a time, whatever single rows are gone.
    fn stretch_of_times(&self, time: i64) -> Stretch {
        let of_times = |first: i64, last: i64, before: u64| Stretch {
            first: (first, 0),
            last: (last, u64::MAX),
            before,
            is_row: false,
        };
        let before = self.times.range(..=time).next_back();
        if let Some((&first, &(last, before))) = before.filter(|(_, (last, _))| time <= *last) {
            return of_times(first, last, before);
        }
        // It lies between two stretches: nothing is deleted there by time.
        let after = self.times.range(time..).next();
        of_times(
            before.map_or(i64::MIN, |(_, (last, _))| last + 1),
            after.map_or(i64::MAX, |(&first, _)| first - 1),
            0,
        )
    }

    /// Times around one of which no row with a sequence number in a range is left; none if a row of
    /// that time may be.
    pub(crate) fn gone_times(&self, time: i64, sequences: Range<u64>) -> Option<RangeInclusive<i64>> {
        if self.is_empty() || sequences.is_empty() {
            return None;
        }
        #[cfg(test)]
        searches::count();
        let range = self.sequences.range(..=sequences.start).next_back();
        if range.is_some_and(|(_, &to)| to >= sequences.end) {
            return Some(i64::MIN..=i64::MAX);
        }
        let stretch = self.stretch_of_times(time);
        (stretch.before >= sequences.end).then_some(stretch.first.0..=stretch.last.0)
    }

    /// Clears the bits of rows that are gone: the first bit is that of the first row. Sets of
    /// single rows are searched once, and then followed.
    pub(crate) fn sift(&self, places: &Places, rows: Range<usize>, left: &mut BooleanBufferBuilder) {
        let mut begin = rows.start;
        while begin < rows.end {
            #[cfg(test)]
            searches::count();
            let stretch = self.stretch_of_times(places.get(begin).time);
            let end = places.gallop(begin..rows.end, |place| place.time > stretch.last.0);
            if stretch.before > 0 || self.has_more() {
                for row in begin..end {
                    let place = places.get(row);
                    if self.covers_in(stretch, (place.time, place.sequence)) {
                        left.set_bit(row - rows.start, false);
                    }
                }
            }
            begin = end;
        }
        if rows.is_empty() {
            return;
        }
        let place = |row: usize| (places.get(row).time, places.get(row).sequence);
        for gone in &self.rows {
            #[cfg(test)]
            searches::count();
            let mut next = rows.start;
            let from = gone.partition_point(|&gone| gone < place(next));
            for &gone in &gone[from..] {
                next = places.gallop(next..rows.end, |place| (place.time, place.sequence) >= gone);
                if next == rows.end {
                    break;
                }
                if place(next) == gone {
                    left.set_bit(next - rows.start, false);
                }
            }
        }
    }

    /// Whether every row of a stretch is left.
    pub(crate) fn leaves_all(&self, stretch: Stretch) -> bool {
        stretch.before == 0 && !stretch.is_row && !self.has_more()
    }

    /// Whether a row is gone whose place lies in a stretch.
    pub(crate) fn covers_in(&self, stretch: Stretch, (time, sequence): Place) -> bool {
        stretch.is_row || sequence < stretch.before || (self.has_more() && self.covers_more(time, sequence))
    }

    fn has_row(&self, place: Place) -> bool {
        self.rows.iter().any(|rows| rows.binary_search(&place).is_ok())
    }

    fn covers_more(&self, time: i64, sequence: u64) -> bool {
        let range = self.sequences.range(..=sequence).next_back();
        range.is_some_and(|(_, &to)| sequence < to)
            || self.others.iter().any(|deletion| deletion.covers(time, sequence))
    }

    /// Whether a row with this time and sequence number is gone.
    pub(crate) fn covers(&self, time: i64, sequence: u64) -> bool {
        let place = (time, sequence);
        !self.is_empty() && self.covers_in(self.stretch(place), place)
    }

    /// The greatest sequence number up to `sequence` with which a row of this time is left, if
    /// there is such a row.
    pub(crate) fn newest_left(&self, time: i64, mut sequence: u64) -> Option<u64> {
        if self.is_empty() {
            return Some(sequence);
        }
        let stretch = self.stretch_of_times(time);
        while sequence >= stretch.before {
            if self.has_row((time, sequence)) {
                sequence = sequence.checked_sub(1)?;
                continue;
            }
            let range = self.sequences.range(..=sequence).next_back();
            let range = range.filter(|(_, to)| sequence < **to).map(|(&from, _)| from);
            let other = self
                .others
                .iter()
                .find(|deletion| deletion.covers(time, sequence));
            match range.or(other.map(|deletion| deletion.from_sequence)) {
                Some(from) => sequence = from.checked_sub(1)?,
                None => return Some(sequence),
            }
        }
        None
    }

    /// Whether all rows with times and sequence numbers in these ranges are gone; `false` where
    /// that is not obvious.
    pub(crate) fn cover_all(&self, times: RangeInclusive<i64>, sequences: RangeInclusive<u64>) -> bool {
        let stretch = self.stretch_of_times(*times.start());
        if stretch.contains((*times.end(), 0)) && stretch.before > *sequences.end() {
            return true;
        }
        let range = self.sequences.range(..=*sequences.start()).next_back();
        range.is_some_and(|(_, to)| to > sequences.end())
    }

    /// Whether a row with a time and sequence number in these ranges may be gone.
    pub(crate) fn may_cover(&self, times: RangeInclusive<i64>, sequences: RangeInclusive<u64>) -> bool {
        let mut stretches = self
            .times
            .range(..=*times.end())
            .rev()
            .take_while(|(_, (last, _))| last >= times.start());
        stretches.any(|(_, (_, before))| before > sequences.start())
            || (self.sequences.range(..=*sequences.end()).next_back())
                .is_some_and(|(_, to)| to > sequences.start())
            || self.rows.iter().any(|rows| {
                let first = rows.partition_point(|row| row.0 < *times.start());
                rows.get(first).is_some_and(|row| row.0 <= *times.end())
            })
            || !self.others.is_empty()
    }

    /// Whether a row with a sequence number below `end` may be gone.
    pub(crate) fn reach_below(&self, end: u64) -> bool {
        !self.times.is_empty()
            || self.sequences.keys().next().is_some_and(|&from| from < end)
            || self.rows.iter().any(|rows| rows.iter().any(|row| row.1 < end))
            || self.others.iter().any(|deletion| deletion.from_sequence < end)
    }
}

/// The place just before another one, which is not the first of all.
fn place_before((time, sequence): Place) -> Place {
    match sequence.checked_sub(1) {
        Some(sequence) => (time, sequence),
        None => (time.saturating_sub(1), u64::MAX),
    }
}

/// The place just after another one, which is not the last of all.
fn place_after((time, sequence): Place) -> Place {
    match sequence.checked_add(1) {
        Some(sequence) => (time, sequence),
        None => (time.saturating_add(1), 0),
    }
}

/// How often a thread has searched deletions.
#[cfg(test)]
pub(crate) mod searches {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The searches of this thread since the last time.
    pub(crate) fn take() -> u64 {
        COUNT.replace(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bedload_testkit::{Rng, stride};

    use super::*;

    #[test]
    fn many_deletions_remove_what_each_of_them_does() {
        for seed in (0..300).step_by(stride()) {
            let mut rng = Rng::new(seed);
            let mut below = |bound: i64| i64::try_from(rng.below(bound.unsigned_abs())).expect("small");
            let mut all: Vec<Deletion> = Vec::new();
            let mut sets = [Deletions::default(), Deletions::default()];
            let mut all_rows = BTreeSet::new();
            for number in 0..40 {
                let from = below(60);
                let at = u64::try_from(10 * (number + 1)).expect("small");
                // Some are after everything that came before the deletion.
                let since = u64::try_from(below(10 * (number + 1) + 20) + 1).expect("small");
                let set = &mut sets[usize::from(number >= 25)];
                if number % 3 == 0 {
                    let rows: BTreeSet<Place> = (0..below(12))
                        .map(|_| (from + below(20), below(420).unsigned_abs()))
                        .collect();
                    set.put_rows(&rows.iter().copied().collect());
                    all_rows.extend(rows);
                }
                let deletion = match below(12) {
                    0 => (i64::MIN..=i64::MAX, since),
                    1 => (from..=from + below(9), since),
                    2 => (i64::MIN..=from - 30, 0),
                    3 => (from..=i64::MAX, 0),
                    _ => (from..=from + below(9), 0),
                };
                let deletion = Deletion {
                    times: deletion.0,
                    from_sequence: deletion.1,
                    at,
                };
                set.put(&deletion);
                all.push(deletion);
            }
            let merged = Deletions::merge(sets.iter());
            let times = (-40..80).chain([i64::MIN, i64::MAX]);
            let mut newest = None;
            for (time, sequence) in times.flat_map(|time| (0..420).map(move |sequence| (time, sequence))) {
                newest = newest.filter(|_| sequence > 0);
                let expected = all_rows.contains(&(time, sequence))
                    || all.iter().any(|deletion| deletion.covers(time, sequence));
                assert_eq!(
                    merged.covers(time, sequence),
                    expected,
                    "seed {seed}: {time}, {sequence}"
                );
                let stretch = merged.stretch((time, sequence));
                assert!(stretch.contains((time, sequence)));
                for end in [stretch.first, stretch.last] {
                    assert_eq!(merged.stretch(end), stretch, "seed {seed}: of its end {end:?}");
                }
                if !expected {
                    newest = Some(sequence);
                }
                let gone = merged.gone_times(time, sequence..sequence + 1);
                assert!(gone.is_none_or(|gone| expected && gone.contains(&time)));
                assert_eq!(merged.newest_left(time, sequence), newest, "seed {seed}");
                let none_is_left = merged.gone_times(time, 0..sequence + 1);
                assert!(none_is_left.is_none() || newest.is_none(), "seed {seed}");
            }
            let numbers = |time: i64| (0..420).filter(move |number| number % 7 == time.unsigned_abs() % 7);
            let rows = (-5..70).flat_map(|time| numbers(time).map(move |number| (time, number)));
            let (of_rows, numbers): (Vec<i64>, Vec<u64>) = rows.unzip();
            let places = Places::new(of_rows.into(), numbers.into()).expect("as many of each");
            let some = rng.index(100)..places.len() - rng.index(100);
            let mut left = BooleanBufferBuilder::new(some.len());
            left.append_n(some.len(), true);
            merged.sift(&places, some.clone(), &mut left);
            for row in some.clone() {
                let place = places.get(row);
                let is_gone = merged.covers(place.time, place.sequence);
                assert_eq!(left.get_bit(row - some.start), !is_gone, "seed {seed}: {place:?}");
            }
        }
    }

    /// A mark may be ahead of the rows, where the numbers of a failed append were given up.
    #[test]
    fn a_deletion_of_what_never_came_changes_no_other() {
        let since = |from_sequence, at| Deletion {
            times: i64::MIN..=i64::MAX,
            from_sequence,
            at,
        };
        let mut set = Deletions::default();
        set.put(&since(103, 5));
        assert!(set.is_empty());
        set.put(&since(50, 120));
        assert!((50..120).all(|number| set.covers(0, number)));
        assert!(!set.covers(0, 49) && !set.covers(0, 120));
    }
}
