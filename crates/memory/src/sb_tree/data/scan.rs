//! Scans from block to block.

use super::layer::{Blocks, FoundBlock};
use crate::map::key::Key;
use crate::map::output::Output;
use crate::map::range::End;
use crate::sb_tree::blocks::block::{BLOCK_CAP, BlockState, Covers};
use crate::sb_tree::search::layer::Approach;
use crate::search::columns::Words;
use crate::sync::primitive::interleave;

/// How far a scan has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scanned<W> {
    /// To the end of the output or of the range.
    Done,
    /// Up to this key; the next block has changed.
    From(W),
    /// Up to before this key, which no block covers.
    Beyond(W),
}

impl<W: Words> Blocks<W> {
    /// Reads the entries with keys from `start` to `end` that are nearest to one end; `None` if no
    /// block covers that end. Also returns the key at or after which, or below which, nothing was
    /// read.
    pub(crate) fn read(
        &self,
        from: End,
        (start, end): (W, W),
        entries: &mut Vec<(W, u64)>,
    ) -> Option<Option<W>> {
        loop {
            let found = self.find(match from {
                End::Least => &start,
                End::Greatest => &end,
            })?;
            let Some((block, version)) = Self::in_order(found) else {
                continue;
            };
            let before = entries.len();
            entries.extend(block.entries(block.places((start, end))));
            let next = match (from, block.state()) {
                (End::Least, _) => block.top().successor(),
                (End::Greatest, BlockState::First) => None,
                (End::Greatest, BlockState::Dead | BlockState::Inner) => block.below().successor(),
            };
            if block.latch.validate(version) {
                return Some(next);
            }
            entries.truncate(before);
        }
    }

    /// Copies entries with keys from `start` to `end`, from block to block.
    pub(crate) fn scan<K: Key<Words = W>>(
        &self,
        (start, end): (W, W),
        output: &mut Output<'_, K>,
    ) -> Scanned<W> {
        let Some(found) = self.find_for_scan(&start, output.room()) else {
            return Scanned::Beyond(start);
        };
        let Some((block, version)) = Self::in_order(found) else {
            return Scanned::From(start);
        };
        let (from, room) = (block.search(&start).0, output.room());
        if from + room > block.places_up_to(&end) {
            return self.scan_further((block, version), from, (start, end), output);
        }
        // The number of entries is predicted by a branch, so that nothing waits for it.
        let before = output.filled();
        block.copy(from, room, output);
        if block.latch.validate(version) {
            Scanned::Done
        } else {
            output.truncate(before);
            Scanned::From(start)
        }
    }

    /// Copies entries from position `from` of a block on, which is that of `start`.
    #[inline(never)]
    fn scan_further<K: Key<Words = W>>(
        &self,
        (mut block, mut version): FoundBlock<'_, W>,
        mut from: usize,
        (mut start, end): (W, W),
        output: &mut Output<'_, K>,
    ) -> Scanned<W> {
        loop {
            let before = output.filled();
            let count = block.places_up_to(&end).saturating_sub(from).min(output.room());
            let (top, right) = (block.top(), self.right_of(block));
            if count < output.room()
                && let Some(right) = right
            {
                right.prefetch();
                right.prefetch_entries(0, output.room() - count);
            }
            block.copy(from, count, output);
            if !block.latch.validate(version) {
                output.truncate(before);
                return Scanned::From(start);
            }
            if output.room() == 0 || end <= top {
                return Scanned::Done;
            }
            let Some(next) = top.successor() else {
                return Scanned::Done;
            };
            start = next;
            let Some(right) = right else {
                return Scanned::Beyond(start);
            };
            interleave();
            let Some(right_version) = right.latch.optimistic_now() else {
                return Scanned::From(start);
            };
            if right.covers(&start) != Covers::Yes || !right.is_settled() {
                return Scanned::From(start);
            }
            from = if right.below() == top {
                0
            } else {
                right.search(&start).0
            };
            (block, version) = (right, right_version);
        }
    }

    /// Returns the block after sorting its entries if necessary; `None` if its version is not
    /// valid.
    #[inline]
    fn in_order<'b>(found: FoundBlock<'b, W>) -> Option<FoundBlock<'b, W>> {
        if found.0.is_settled() {
            Some(found)
        } else {
            Self::settle(found)
        }
    }

    #[cold]
    fn settle<'b>((block, version): FoundBlock<'b, W>) -> Option<FoundBlock<'b, W>> {
        let latched = block.latch.try_latch(version)?;
        block.settle(latched.writer());
        Some((block, latched.release()))
    }

    /// As [`find`](Self::find), and prefetches `count` entries at their expected position.
    #[inline]
    fn find_for_scan(&self, start: &W, count: usize) -> Option<FoundBlock<'_, W>> {
        /// Tolerance around the expected position: two cache lines.
        const LEEWAY: usize = 16;
        let Approach { block, right, guess } = self.search.approach(start);
        block.prefetch();
        block.prefetch_entries(guess.saturating_sub(LEEWAY), count + 2 * LEEWAY);
        if let Some(beyond) = (guess + count + LEEWAY).checked_sub(BLOCK_CAP) {
            right.prefetch();
            right.prefetch_entries(0, beyond);
        }
        if let Some(version) = block.latch.optimistic_now()
            && block.covers(start) == Covers::Yes
        {
            return Some((block, version));
        }
        self.find_further(start)
    }
}
