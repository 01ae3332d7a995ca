//! A reader's view of a segment: the entries of one generation, valid until the segment is prepared
//! for another.

use super::log::{LogEntry, Order};
use super::merge::Merge;
use super::segment::{Segment, keep_newest};
use crate::search::columns::Words;
use crate::sync::version_latch::Version;

/// A segment at one generation, to be validated.
#[derive(Debug)]
pub(crate) struct View<'s, W: Words> {
    segment: &'s Segment<W>,
    version: Version,
    pub(crate) floor: W,
}

impl<'s, W: Words> View<'s, W> {
    /// Returns a view of the segment, if it has this generation.
    pub(crate) fn of(segment: &'s Segment<W>, generation: u64) -> Option<Self> {
        let (floor, version) = segment.floor_of(generation)?;
        Some(Self {
            segment,
            version,
            floor,
        })
    }

    /// Returns whether the segment still has the generation, so that everything read of it is
    /// valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.segment.validates(self.version)
    }

    /// Returns the value of a key, if it is in this segment.
    pub(crate) fn get(&self, key: &W) -> Option<u64> {
        let mut newest: Option<(Order, u64)> = None;
        for (writer, log) in self.segment.logs() {
            let counted = log.counted();
            if let Some(index) = log.find(key, counted) {
                let order = log.order(index, counted, writer);
                if newest.is_none_or(|(known, _)| known < order) {
                    newest = Some((order, log.value(index)));
                }
            }
        }
        newest.map(|(_, value)| value)
    }

    /// Puts the least entries with keys from `start` to `end`, up to `limit`, into `entries`, which
    /// is empty: ascending, without duplicates. Returns the last key taken if more entries may
    /// follow.
    pub(crate) fn read_least(&self, range: (W, W), limit: usize, entries: &mut Vec<(W, u64)>) -> Option<W> {
        let mut merge = Merge::of_range(self.segment, range);
        entries.resize(limit.min(merge.entries()), (W::MIN, 0));
        let taken = merge.take(self.segment, entries);
        entries.truncate(taken);
        let last = entries.last().filter(|_| entries.len() >= limit);
        last.map(|&(key, _)| key)
    }

    /// Puts the greatest entries with keys from `start` to `end`, about `limit`, into `entries`,
    /// which is empty: ascending, without duplicates. Returns the least key taken if more entries
    /// precede it.
    pub(crate) fn read_greatest(
        &self,
        (start, end): (W, W),
        limit: usize,
        entries: &mut Vec<LogEntry<W>>,
    ) -> Option<W> {
        let mut stopped: Option<W> = None;
        for (writer, log) in self.segment.logs() {
            let counted = log.counted();
            let entry = |index| log.entry(index, counted, writer);
            let len = counted.len();
            if log.is_disordered(counted) {
                entries.extend(
                    (0..len)
                        .map(entry)
                        .filter(|entry| start <= entry.key && entry.key <= end),
                );
                continue;
            }
            let mut places = log.lower_bound(&start, len)..log.upper_bound(&end, len);
            if places.len() > limit {
                // Never cuts between entries of one key.
                let first = log.key(places.end - limit);
                let cut = log.lower_bound(&first, len);
                if cut > places.start {
                    places.start = cut;
                    stopped = stopped.max(Some(first));
                }
            }
            entries.extend(places.map(entry));
        }
        keep_newest(entries);
        // Entries before the greatest key at which a log stopped are incomplete.
        if let Some(first) = stopped {
            let incomplete = entries.partition_point(|entry| entry.key < first);
            entries.drain(..incomplete);
        }
        stopped
    }
}
