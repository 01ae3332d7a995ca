//! The segmented block: a log for each writing thread, and their common state.
//!
//! # Rules
//!
//! 1. There are two segments. That of the present generation is *open*; the other is *sealed*, and
//!    holds the generation before, or is *converted*. It is prepared for the next generation only
//!    when it is converted.
//! 2. A segment's latch is held while it is prepared: generation, floor and counts of a segment are
//!    valid as long as its latch's version is. Appending does not touch the latch. Logs are opened
//!    once their generation is the present one, not earlier: a writer appends to its log without
//!    looking at anything else, and a reader that looks for its entries looks at the present
//!    generation.
//! 3. A generation's keys lie above its floor; those of a sealed one at or below the floor of the
//!    next. Keys of its logs above that were taken over by the next one.

#![expect(unsafe_code, reason = "logs are reached through atomic pointers")]

use std::ptr::NonNull;

use super::log::{Log, LogEntry, Mode};
use super::writer_number::{TAKEN_OVER, WRITERS, place_of};
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::version_latch::{Version, VersionLatch};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Segment<W: Words> {
    latch: VersionLatch,
    generation: AtomicU64,
    floor: W::KeyColumns<1>,
    /// Places below this one may have a log.
    places: AtomicU32,
    /// First that of [`TAKEN_OVER`], then the writers'.
    logs: [AtomicPtr<Log<W>>; WRITERS + 1],
}

impl<W: Words> Segment<W> {
    pub(crate) fn new() -> Self {
        Self {
            latch: VersionLatch::new(),
            generation: AtomicU64::new(0),
            floor: W::new_columns(),
            places: AtomicU32::new(0),
            logs: std::array::from_fn(|_| AtomicPtr::default()),
        }
    }

    /// Prepares the segment for a generation; `mode_of` tells who may write once it is opened. The
    /// role's holder calls it.
    pub(crate) fn prepare(
        &self,
        generation: u64,
        floor: W,
        capacity: usize,
        mode_of: impl Fn(usize) -> Mode,
        taken_over: &[LogEntry<W>],
    ) {
        let latched = self.latch.latch();
        self.generation.store(generation, Ordering::Relaxed);
        floor.store(&self.floor, 0);
        for (writer, log) in self.logs() {
            let entries = if writer == TAKEN_OVER { taken_over } else { &[] };
            log.prepare(generation, floor, capacity, mode_of(writer), entries);
        }
        drop(latched);
    }

    /// Opens the logs of the present generation (rule 2). The role's holder calls it.
    pub(crate) fn open(&self, mode_of: impl Fn(usize) -> Mode) {
        for (writer, log) in self.logs() {
            log.open(mode_of(writer));
        }
    }

    /// Gives a writer a log, prepared already, or one that is closed. The role's holder calls it,
    /// once for each writer.
    pub(crate) fn add_log(&self, writer: usize, log: Box<Log<W>>) {
        let place = place_of(writer);
        self.logs[place].store(Box::into_raw(log), Ordering::Release);
        let places = u32::try_from(place + 1).unwrap_or(0);
        if self.places.load(Ordering::Relaxed) < places {
            self.places.store(places, Ordering::Release);
        }
    }

    pub(crate) fn log(&self, writer: usize) -> Option<&Log<W>> {
        let log = NonNull::new(self.logs[place_of(writer)].load(Ordering::Acquire))?;
        // SAFETY: a log is given once and lives as long as the segment; it is only shared.
        Some(unsafe { log.as_ref() })
    }

    /// The logs and their owners.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (usize, &Log<W>)> {
        let places = self.places.load(Ordering::Acquire) as usize;
        let writers = (0..places.min(WRITERS + 1)).map(|place| place.checked_sub(1).unwrap_or(TAKEN_OVER));
        writers.filter_map(|writer| Some((writer, self.log(writer)?)))
    }

    /// The floor, if the segment holds this generation, and the version until which it does.
    pub(crate) fn floor_of(&self, generation: u64) -> Option<(W, Version)> {
        let version = self.latch.optimistic_now()?;
        let holds = self.generation.load(Ordering::Relaxed) == generation;
        let floor = W::load(&self.floor, 0);
        (holds && self.validates(version)).then_some((floor, version))
    }

    /// Whether the segment still holds the generation that it held at a version.
    pub(crate) fn validates(&self, version: Version) -> bool {
        self.latch.validate(version)
    }

    /// The places of a log's entries with keys above `floor`.
    fn places_above(log: &Log<W>, floor: W) -> impl Iterator<Item = usize> {
        let counted = log.counted();
        let len = counted.len();
        let first = if log.is_disordered(counted) {
            0
        } else {
            log.upper_bound(&floor, len)
        };
        (first..len).filter(move |&index| log.key(index) > floor)
    }

    /// How many entries have keys above `floor`, equal ones counted each time.
    pub(crate) fn count_above(&self, floor: &W) -> usize {
        self.logs()
            .map(|(_, log)| Self::places_above(log, *floor).count())
            .sum()
    }

    /// The greatest key of an entry that is not above `key`.
    pub(crate) fn greatest_up_to(&self, key: &W) -> Option<W> {
        let of_log = |log: &Log<W>| {
            let counted = log.counted();
            let len = counted.len();
            if log.is_disordered(counted) {
                let keys = (0..len).map(|index| log.key(index));
                return keys.filter(|found| found <= key).max();
            }
            let last = log.upper_bound(key, len).checked_sub(1)?;
            Some(log.key(last))
        };
        self.logs().filter_map(|(_, log)| of_log(log)).max()
    }

    /// The entries with keys above `floor`, ascending and once each.
    pub(crate) fn entries_above(&self, floor: &W) -> Vec<LogEntry<W>> {
        let mut entries = Vec::new();
        for (writer, log) in self.logs() {
            let counted = log.counted();
            let places = Self::places_above(log, *floor);
            entries.extend(places.map(|index| log.entry(index, counted, writer)));
        }
        keep_newest(&mut entries);
        entries
    }

    /// The floor and the generation, for the role's holder.
    pub(crate) fn held(&self) -> (u64, W) {
        (self.generation.load(Ordering::Relaxed), W::load(&self.floor, 0))
    }
}

/// Puts entries in the order of their keys, and keeps the newest of each: of one log the last, so
/// that no writer sees its own older value, and of these the greatest in their order.
pub(crate) fn keep_newest<W: Words>(entries: &mut Vec<LogEntry<W>>) {
    entries.sort_by_key(|&LogEntry { key, order, .. }| (key, order.1, order.2));
    keep_last(entries, |&LogEntry { key, order, .. }| (key, order.1));
    entries.sort_by_key(|entry| (entry.key, entry.order));
    keep_last(entries, |entry| entry.key);
}

/// Keeps the last of neighbours that agree.
fn keep_last<W: Words, T: PartialEq>(entries: &mut Vec<LogEntry<W>>, of: impl Fn(&LogEntry<W>) -> T) {
    entries.dedup_by(|entry, before| {
        let agree = of(entry) == of(before);
        if agree {
            *before = *entry;
        }
        agree
    });
}

impl<W: Words> Drop for Segment<W> {
    fn drop(&mut self) {
        for log in &self.logs {
            let log = log.load(Ordering::Relaxed);
            if !log.is_null() {
                // SAFETY: it came from a box (`add_log`), and nobody else has the segment.
                drop(unsafe { Box::from_raw(log) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sb_tree::segments::log::Append;
    use crate::sb_tree::segments::merge::{Closed, Merge};
    use crate::sb_tree::segments::view::View;

    /// As after a sleep in which the processor's counter began again.
    #[test]
    fn of_one_log_the_last_entry_counts_whatever_its_stamp() {
        const NEWEST: [([u64; 1], u64); 2] = [([10], 4), ([20], 3)];
        let segment = Segment::<[u64; 1]>::new();
        (0..3).for_each(|writer| segment.add_log(writer, Log::new()));
        segment.prepare(1, [0], 32, |_| Mode::OneOfMany, &[]);
        segment.open(|_| Mode::OneOfMany);
        let append = |writer, entry, stamp| {
            let log = segment.log(writer).expect("added");
            assert_ne!(log.append(entry, || stamp), Append::Refused);
        };
        append(0, ([10], 1), 900);
        append(0, ([20], 2), 901);
        append(0, ([10], 5), 300);
        append(0, ([20], 3), 301);
        append(1, ([10], 4), 600);
        append(2, ([20], 6), 200);

        let view = View::of(&segment, 1).expect("current");
        for (key, value) in NEWEST {
            assert_eq!(view.get(&key), Some(value));
        }
        let mut read = Vec::new();
        view.read_greatest(([0], [99]), 32, &mut read);
        assert!(read.iter().map(|entry| (entry.key, entry.value)).eq(NEWEST));
        let taken_over = segment.entries_above(&[0]);
        assert!(taken_over.iter().map(|entry| (entry.key, entry.value)).eq(NEWEST));
        let mut least = Vec::new();
        view.read_least(([0], [99]), 32, &mut least);
        assert_eq!(least, NEWEST);
        let closed = Closed::close_all(&segment, None);
        let mut merge = Merge::new(&segment, &closed, &[99]);
        while merge.sort_some(&segment) {}
        let mut merged = [([0], 0); 2];
        assert_eq!((merge.take(&segment, &mut merged), merged), (2, NEWEST));
    }
}
