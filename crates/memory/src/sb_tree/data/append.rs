//! Appends behind the last block, by the one thread whose role that is.

use std::sync::PoisonError;

use super::edge::Edge;
use super::layer::{Blocks, FoundBlock};
use crate::sb_tree::blocks::block::{BLOCK_CAP, Block, BlockState};
use crate::search::columns::Words;
use crate::sync::primitive::{Backoff, interleave};
use crate::sync::version_latch::Version;

impl<W: Words> Blocks<W> {
    /// Returns the last block, with its version.
    fn last(&self) -> FoundBlock<'_, W> {
        let mut backoff = Backoff::default();
        loop {
            let mut block = self.search.descend(&W::MAX);
            while let Some(right) = self.right_of(block) {
                block = right;
            }
            if let Some(version) = block.latch.optimistic_now()
                && block.state() != BlockState::Dead
                && block.right().is_null()
                && block.latch.validate(version)
            {
                return (block, version);
            }
            backoff.wait();
        }
    }

    /// Returns how many entries fit into the last block, or into a new one if it is full.
    pub(crate) fn room(&self) -> usize {
        loop {
            let (last, version) = self.last();
            let len = last.len();
            if last.latch.validate(version) {
                return if len == BLOCK_CAP {
                    BLOCK_CAP
                } else {
                    BLOCK_CAP - len
                };
            }
        }
    }

    /// Appends entries that ascend, above all keys that blocks cover; the role's holder calls it.
    /// The edge is raised before blocks cover them.
    pub(crate) fn append(&self, entries: &[(W, u64)], edge: &Edge<W>) {
        let Some(&(greatest, _)) = entries.last() else {
            return;
        };
        edge.raise(greatest);
        interleave();
        let mut rest = entries;
        while !rest.is_empty() {
            let (last, version) = self.last();
            let room = BLOCK_CAP - last.len();
            let taken = &rest[..rest.len().min(if room > 0 { room } else { BLOCK_CAP })];
            let top = taken[taken.len() - 1].0;
            if room > 0 {
                let Some(latched) = last.latch.try_latch(version) else {
                    continue;
                };
                last.append(taken.iter().copied(), latched.writer());
                last.set_top(top, latched.writer());
                self.prefetch_to_append(last, taken.len());
            } else if let Some(new) = self.append_block(last, version, taken, top) {
                self.prefetch_to_append(new, taken.len());
            } else {
                continue;
            }
            rest = &rest[taken.len()..];
        }
    }

    /// Appends a block with these entries, which must fit; `None` if the last block has changed
    /// since that version.
    fn append_block(
        &self,
        last: &Block<W>,
        version: Version,
        entries: &[(W, u64)],
        top: W,
    ) -> Option<&Block<W>> {
        let new = self.take_block();
        let block = self.at(new);
        let latched = block.latch.latch()?;
        let below = last.top();
        block.begin(
            BlockState::Inner,
            (below, top),
            std::ptr::null_mut(),
            latched.writer(),
        );
        block.append(entries.iter().copied(), latched.writer());
        interleave();
        // The new block stays latched till then: a thread on an outdated path must not change a
        // block that may be taken back.
        if let Some(last_latched) = last.latch.try_latch(version) {
            last.set_right(new.as_ptr(), last_latched.writer());
        } else {
            block.die(latched.writer());
            drop(latched);
            self.give_back(new);
            return None;
        }
        drop(latched);
        self.make_known(&below, true);
        Some(block)
    }

    /// Prefetches the memory of the `count` entries after this block's, ahead of appends.
    fn prefetch_to_append(&self, last: &Block<W>, count: usize) {
        let len = last.len();
        if len < BLOCK_CAP {
            last.prefetch_to_fill(len..len + count);
            return;
        }
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = pool.next() {
            self.at(next).prefetch_to_fill(0..count);
        }
    }
}
