//! Reading many entries.

use std::ops::{Bound, RangeBounds};

use super::SbTree;
use super::data::scan::Scanned;
use super::segments::convert::Home;
use crate::map::key::Key;
use crate::map::output::Output;
use crate::map::range::{End, Leaves, inclusive, words_of};
use crate::search::columns::Words;
use crate::sync::primitive::Backoff;

/// Entries that an iterator takes from a segment at once.
const CHUNK: usize = 256;

/// Entries read from a segment.
struct ScanPiece<W> {
    entries: Vec<(W, u64)>,
    /// The key at which to continue; `None` at the end.
    next: Option<W>,
}

impl<K: Key> SbTree<K> {
    /// Copies the first entries whose keys lie in `bounds`, ascending, to the beginning of `keys`
    /// and `values`; returns how many. It stops at the end of the range or of the shorter slice: to
    /// continue, begin after the last key.
    ///
    /// Takes O(1) for each entry.
    pub fn scan(&self, bounds: impl RangeBounds<K>, keys: &mut [K], values: &mut [u64]) -> usize {
        let mut output = Output::new(keys, values);
        let Some((mut start, end)) = inclusive(words_of(bounds)) else {
            return 0;
        };
        let mut backoff = Backoff::default();
        let mut is_above_blocks = start > self.segments.edge.get();
        while output.room() > 0 && start <= end {
            let scanned = if is_above_blocks {
                Scanned::Beyond(start)
            } else {
                self.scan_blocks((start, end), &mut output)
            };
            match scanned {
                Scanned::Done => break,
                Scanned::From(next) => start = next,
                Scanned::Beyond(next) => {
                    start = next;
                    let piece = self.read_segment(End::Least, (start, end), output.room());
                    is_above_blocks = piece.is_some();
                    let Some(piece) = piece else {
                        backoff.wait();
                        continue;
                    };
                    output.extend(piece.entries.into_iter());
                    let Some(next) = piece.next else { break };
                    start = next;
                }
            }
        }
        output.filled()
    }

    /// Copies the entries of blocks and lanes.
    #[inline]
    fn scan_blocks(
        &self,
        (start, end): (K::Words, K::Words),
        output: &mut Output<'_, K>,
    ) -> Scanned<K::Words> {
        if !self.lanes.are_empty()
            && let Some(least) = self.lanes.least_within((start, end))
        {
            let Some(before) = least.predecessor().filter(|before| start <= *before) else {
                self.lanes.drain_within((start, start), &self.blocks);
                return Scanned::From(start);
            };
            let scanned = self.blocks.scan((start, before), output);
            return match scanned {
                Scanned::Done if output.room() > 0 => Scanned::From(least),
                scanned => scanned,
            };
        }
        self.blocks.scan((start, end), output)
    }

    /// Reads entries of the segment to which `start`, or `end` if the greatest are read, belongs.
    /// `None` if it belongs to blocks, or is just changing.
    fn read_segment(
        &self,
        from: End,
        (start, end): (K::Words, K::Words),
        limit: usize,
    ) -> Option<ScanPiece<K::Words>> {
        let aim = match from {
            End::Least => start,
            End::Greatest => end,
        };
        let (view, greatest) = match self.segments.home(&aim)? {
            Home::Blocks => return None,
            Home::Open(view) => (view, None),
            Home::Sealed(view, greatest) => (view, Some(greatest)),
        };
        // Keys converted meanwhile, or below the floor, are in blocks.
        let edge = self.segments.edge.get();
        let start = start.max(view.floor.max(edge).successor()?);
        if aim < start {
            return None;
        }
        // Greater keys are in the open segment, though they may be in the sealed one's logs too.
        let end = greatest.map_or(end, |greatest| end.min(greatest));
        let (entries, next) = match from {
            End::Least => {
                let mut entries = Vec::new();
                let next = match view.read_least((start, end), limit, &mut entries) {
                    Some(last) => last.successor(),
                    None => greatest.and_then(|greatest| greatest.successor()),
                };
                (entries, next)
            }
            End::Greatest => {
                let mut entries = Vec::new();
                let stopped = view.read_greatest((start, end), limit, &mut entries);
                let entries = entries.iter().map(|entry| (entry.key, entry.value));
                (entries.collect(), stopped.or(Some(start)))
            }
        };
        if !view.is_valid() || self.segments.edge.get() >= start {
            return None;
        }
        Some(ScanPiece { entries, next })
    }
}

impl<K: Key> Leaves<K::Words> for SbTree<K> {
    fn read(
        &self,
        from: End,
        _: bool,
        bounds: (Bound<K::Words>, Bound<K::Words>),
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        let range = inclusive(bounds)?;
        let mut backoff = Backoff::default();
        loop {
            self.lanes.drain_within(range, &self.blocks);
            if let Some(next) = self.blocks.read(from, range, entries) {
                return next;
            }
            if let Some(piece) = self.read_segment(from, range, CHUNK) {
                entries.extend(piece.entries);
                return piece.next;
            }
            backoff.wait();
        }
    }
}
