//! The data layer below the segments: blocks from left to right, and the search layer above them.
//!
//! # Rules
//!
//! 1. Live blocks cover every key up to the top of the last one, each key once: a split or a merge
//!    changes what two neighbours cover under the latches of both, and an append raises the top of
//!    the last.
//! 2. A right neighbour is linked before the search layer knows it. A thread that appends one
//!    updates the search layer before it appends the next; one that splits one off, before it does
//!    anything else. A thread that meets an unknown one tries to. So at most as many blocks are
//!    unknown as threads are updating; and a thread that has passed [`WALK_MAX`] blocks restarts.
//! 3. No thread waits for a latch while it holds one. The search layer's lock comes before latches,
//!    and under it latches are only tried.

#![expect(
    unsafe_code,
    reason = "blocks are reached through pointers that last as long as the index"
)]

use std::ptr::NonNull;
use std::sync::PoisonError;

use crate::map::memory_use::MemoryUse;
use crate::sb_tree::blocks::block::{BLOCK_CAP, Block, BlockState, Covers};
use crate::sb_tree::blocks::pool::BlockPool;
use crate::sb_tree::search::layer::{Descent, Growth, SearchLayer};
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicU64, Backoff, Mutex, MutexGuard, Ordering, interleave};
use crate::sync::version_latch::{Latched, Version, Writer};

/// Maximum number of blocks passed on the way to one that the search layer does not know.
pub(crate) const WALK_MAX: u64 = if cfg!(any(test, miri, loom)) { 2 } else { 8 };

/// Attempts to merge a block that has entries while other threads are in the way.
const MERGE_ATTEMPTS: u32 = 8;

/// Blocks that are searched in parallel, to insert entries into them.
const AT_ONCE: usize = 8;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Blocks<W: Words> {
    pub(crate) search: SearchLayer<W>,
    growth: Mutex<Growth<W>>,
    pub(super) pool: Mutex<BlockPool<W>>,
    walks: AtomicU64,
    walked: AtomicU64,
}

/// Outcome of a change to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<T> {
    Made(T),
    /// No block covers the key.
    NoBlock,
    /// The caller's condition refused it.
    Refused,
}

/// Outcome of an attempt to merge a block with a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merging {
    Merged,
    /// Both have too many entries, or the block is an only child.
    Needless,
    /// Another thread holds a latch or the lock.
    InTheWay,
}

/// A block that covers a key, if its version is still valid.
pub(crate) type FoundBlock<'b, W> = (&'b Block<W>, Version);

impl<W: Words> Blocks<W> {
    /// Creates one block, which covers the least key.
    pub(crate) fn new() -> Self {
        let mut pool = BlockPool::new();
        let first = pool.take();
        let (search, growth) = SearchLayer::new(first);
        let blocks = Self {
            search,
            growth: Mutex::new(growth),
            pool: Mutex::new(pool),
            walks: AtomicU64::new(0),
            walked: AtomicU64::new(0),
        };
        blocks.at(first).begin(
            BlockState::First,
            (W::MIN, W::MIN),
            std::ptr::null_mut(),
            Writer::UNPUBLISHED,
        );
        blocks
    }

    pub(super) fn at(&self, block: NonNull<Block<W>>) -> &Block<W> {
        // SAFETY: blocks last as long as the index, and are only shared (rule 5 of `block`).
        unsafe { block.as_ref() }
    }

    pub(crate) fn right_of<'b>(&'b self, block: &Block<W>) -> Option<&'b Block<W>> {
        NonNull::new(block.right()).map(|right| self.at(right))
    }

    pub(crate) fn growth(&self) -> MutexGuard<'_, Growth<W>> {
        let mut backoff = Backoff::default();
        loop {
            match self.growth.try_lock() {
                Ok(growth) => return growth,
                Err(_) => backoff.wait(),
            }
        }
    }

    pub(super) fn take_block(&self) -> NonNull<Block<W>> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.take()
    }

    pub(super) fn give_back(&self, block: NonNull<Block<W>>) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.give_back(block);
    }

    /// Reserves memory for `entries` entries that come in order.
    pub(crate) fn reserve(&self, entries: usize) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.reserve(entries.div_ceil(BLOCK_CAP) + 1);
    }

    /// Returns the block that covers `key`; `None` if `key` lies above all blocks.
    #[inline]
    pub(crate) fn find(&self, key: &W) -> Option<FoundBlock<'_, W>> {
        let block = self.search.aim(key);
        block.prefetch();
        if let Some(version) = block.latch.optimistic_now()
            && block.covers(key) == Covers::Yes
        {
            return Some((block, version));
        }
        self.find_further(key)
    }

    #[cold]
    pub(crate) fn find_further(&self, key: &W) -> Option<FoundBlock<'_, W>> {
        let mut backoff = Backoff::default();
        'again: loop {
            let mut block = self.search.descend(key);
            let mut steps = 0;
            while let Some(version) = block.latch.optimistic_now() {
                let covers = block.covers(key);
                let right = self.right_of(block);
                if !block.latch.validate(version) {
                    break;
                }
                match (covers, right) {
                    (Covers::Yes, _) => {
                        self.note_walk(steps, key);
                        return Some((block, version));
                    }
                    (Covers::LiesRight, Some(right)) if steps < WALK_MAX => {
                        interleave();
                        block = right;
                        steps += 1;
                    }
                    (Covers::LiesRight, Some(_)) => {
                        self.note_walk(steps, key);
                        backoff.wait();
                        continue 'again;
                    }
                    (Covers::LiesRight, None) => {
                        self.note_walk(steps, key);
                        return None;
                    }
                    (Covers::Elsewhere, _) => {
                        backoff.wait();
                        continue 'again;
                    }
                }
            }
            backoff.wait();
        }
    }

    fn note_walk(&self, steps: u64, key: &W) {
        if steps > 0 {
            self.walks.fetch_add(1, Ordering::Relaxed);
            self.walked.fetch_add(steps, Ordering::Relaxed);
            self.make_known(key, false);
        }
    }

    /// Returns the number of walks along the data layer because the search layer lagged, and the
    /// blocks passed on them.
    pub(crate) fn walks(&self) -> (u64, u64) {
        (
            self.walks.load(Ordering::Relaxed),
            self.walked.load(Ordering::Relaxed),
        )
    }

    /// Adds the unknown blocks after the one at which a descent for `key` ends to the search layer.
    /// Unless `waits`, it leaves that to the holder of the lock, or of a latch of one of them.
    pub(super) fn make_known(&self, key: &W, waits: bool) {
        let mut backoff = Backoff::default();
        loop {
            if let Ok(mut growth) = self.growth.try_lock()
                && self.tell(key, &mut growth)
            {
                return;
            }
            if !waits {
                return;
            }
            backoff.wait();
        }
    }

    /// The same, for the holder of the lock; `false` if another thread has latched one of them.
    fn tell(&self, key: &W, growth: &mut Growth<W>) -> bool {
        let mut key = *key;
        loop {
            let block = self.search.descend(&key);
            let Some(version) = block.latch.optimistic_now() else {
                return false;
            };
            let (top, right) = (block.top(), NonNull::new(block.right()));
            if block.state() == BlockState::Dead || !block.latch.validate(version) {
                return false;
            }
            let (Some(right), Some(next)) = (right, top.successor()) else {
                return true;
            };
            // Blocks are removed under this lock: the neighbour is alive.
            if !std::ptr::eq(self.search.descend(&next), block) {
                return true;
            }
            self.search.insert_after(&next, top, right, growth);
            key = next;
        }
    }

    /// Returns the value of a key; `None` if no block covers it.
    #[inline]
    pub(crate) fn get(&self, key: &W) -> Option<Option<u64>> {
        let block = self.search.aim(key);
        block.prefetch();
        if let Some(version) = block.latch.optimistic_now() {
            let (place, is_there) = block.find(key);
            let value = block.value(place);
            // An entry lies between the fences.
            if (is_there || block.covers(key) == Covers::Yes) && block.latch.validate(version) {
                return Some(is_there.then_some(value));
            }
        }
        self.get_further(key)
    }

    #[cold]
    fn get_further(&self, key: &W) -> Option<Option<u64>> {
        loop {
            let (block, version) = self.find_further(key)?;
            let (place, is_there) = block.find(key);
            let value = block.value(place);
            if block.latch.validate(version) {
                return Some(is_there.then_some(value));
            }
        }
    }

    /// Latches a block, if it covers `key` and is not latched.
    #[inline]
    fn latch_if<'b>(block: &'b Block<W>, key: &W) -> Option<(&'b Block<W>, Latched<'b>)> {
        let version = block.latch.optimistic_now()?;
        if block.covers(key) != Covers::Yes {
            return None;
        }
        Some((block, block.latch.try_latch(version)?))
    }

    /// Latches the block that covers `key`; `None` if `key` lies above all blocks.
    #[inline]
    fn latch(&self, key: &W) -> Option<(&Block<W>, Latched<'_>)> {
        let block = self.search.aim(key);
        block.prefetch_to_write();
        if let Some(found) = Self::latch_if(block, key) {
            return Some(found);
        }
        loop {
            let (block, version) = self.find_further(key)?;
            interleave();
            if let Some(latched) = block.latch.try_latch(version) {
                return Some((block, latched));
            }
        }
    }

    /// Inserts an entry, if `may` agrees while the block is latched.
    pub(crate) fn insert(&self, key: W, value: u64, may: impl Fn() -> bool) -> Change<()> {
        let mut may_spread = true;
        loop {
            let Some((block, latched)) = self.latch(&key) else {
                return Change::NoBlock;
            };
            if !may() {
                return Change::Refused;
            }
            let (place, is_there) = block.find(&key);
            if is_there {
                block.set_value(place, value, latched.writer());
            } else if !block.is_full() {
                block.add(place, key, value, latched.writer());
            } else if may_spread && self.right_of(block).is_some_and(Block::has_much_room) {
                drop(latched);
                self.spread(&key);
                may_spread = false;
                continue;
            } else {
                self.split(block, &latched, (key, value));
                drop(latched);
                interleave();
                self.make_known(&key, true);
            }
            return Change::Made(());
        }
    }

    /// Inserts entries, whose keys ascend. Blocks cover them, or are about to.
    pub(crate) fn insert_all(&self, entries: &[(W, u64)]) {
        let mut rest = entries;
        while !rest.is_empty() {
            // Fetches the memory of several descents in parallel.
            let mut last = Descent::default();
            let mut ways = [None; AT_ONCE];
            let mut found = 0;
            for way in &mut ways {
                let Some((key, _)) = rest.get(found) else {
                    break;
                };
                let block = self.search.descend_on(key, &mut last);
                block.prefetch_to_write();
                let top = last.top();
                let more = rest[found + 1..].iter().take_while(|(key, _)| *key <= top);
                let own = 1 + more.count();
                *way = Some((block, own));
                found += own;
            }
            let mut first = 0;
            for (block, own) in ways.into_iter().flatten() {
                block.prefetch_entry(&rest[first].0);
                first += own;
            }
            for (block, own) in ways.into_iter().flatten() {
                let (these, others) = rest.split_at(own);
                self.insert_from(block, these);
                rest = others;
            }
        }
    }

    /// Inserts entries, whose keys ascend, the first of which this block probably covers.
    fn insert_from(&self, block: &Block<W>, entries: &[(W, u64)]) {
        let mut rest = entries;
        let mut backoff = Backoff::default();
        let mut found = Self::latch_if(block, &entries[0].0);
        while let Some(&(key, value)) = rest.first() {
            let Some((block, latched)) = found.take().or_else(|| self.latch(&key)) else {
                backoff.wait();
                continue;
            };
            let top = block.top();
            let mut taken = 0;
            while let Some(&(key, value)) = rest.get(taken).filter(|(key, _)| *key <= top) {
                let (place, is_there) = block.find(&key);
                if is_there {
                    block.set_value(place, value, latched.writer());
                } else if !block.is_full() {
                    block.add(place, key, value, latched.writer());
                } else {
                    break;
                }
                taken += 1;
            }
            drop(latched);
            if taken == 0 {
                // The block is full: inserts one entry by itself.
                taken = usize::from(self.insert(key, value, || true) == Change::Made(()));
            }
            rest = &rest[taken..];
        }
    }

    /// Moves entries of the full block that covers `key` to its right neighbour, so that both have
    /// about as many, unless another thread is in the way. Moved entries are found through the left
    /// block's fences until the search layer is updated.
    fn spread(&self, key: &W) {
        let Ok(growth) = self.growth.try_lock() else {
            return;
        };
        let Some((left, right)) = self.search.with_right_neighbour(key, &growth) else {
            return;
        };
        let Some(left_latched) = left.latch.try_latch_now() else {
            return;
        };
        if !std::ptr::eq(left.right(), right) || left.covers(key) != Covers::Yes {
            return;
        }
        interleave();
        let Some(right_latched) = right.latch.try_latch_now() else {
            return;
        };
        if !left.is_full() || !right.has_much_room() {
            return;
        }
        left.spread(right, left_latched.writer());
        self.search.lower_top(key, left.top(), &growth);
        drop(right_latched);
    }

    /// Splits a full block to make room for an entry.
    fn split(&self, block: &Block<W>, latched: &Latched<'_>, (key, value): (W, u64)) {
        let writer = latched.writer();
        block.settle(writer);
        let place = block.search(&key).0;
        let middle = BLOCK_CAP / 2;
        let new = self.take_block();
        let right = self.at(new);
        // Outdated readers may look at it, but no thread latches a dead block.
        let right_latched = right.latch.latch();
        right.begin(
            BlockState::Inner,
            (block.key(middle - 1), block.top()),
            block.right(),
            writer,
        );
        block.split_off(middle, right, writer);
        if place >= middle && key > block.top() {
            right.insert(place - middle, key, value, writer);
        } else {
            block.insert(place, key, value, writer);
        }
        drop(right_latched);
        block.set_right(new.as_ptr(), writer);
    }

    /// Removes a key and returns its value, if `may` agrees while the block is latched.
    pub(crate) fn remove(&self, key: &W, may: impl Fn() -> bool) -> Change<Option<u64>> {
        loop {
            let Some((block, version)) = self.find(key) else {
                return Change::NoBlock;
            };
            let (_, is_there) = block.find(key);
            if !is_there {
                if block.latch.validate(version) {
                    return Change::Made(None);
                }
                continue;
            }
            interleave();
            let Some(latched) = block.latch.try_latch(version) else {
                continue;
            };
            if !may() {
                return Change::Refused;
            }
            block.settle(latched.writer());
            let (place, _) = block.search(key);
            let value = block.value(place);
            block.remove(place, latched.writer());
            let (is_underfull, is_empty) = (block.is_underfull(), block.len() == 0);
            drop(latched);
            if is_underfull {
                self.merge_around(key, is_empty);
            }
            return Change::Made(Some(value));
        }
    }

    /// Merges the block that covers `key` with neighbours as long as it or one of them is nearly
    /// empty. The caller holds no latch. Waits for other threads if the block `is_empty`: no later
    /// removal would try again.
    fn merge_around(&self, key: &W, is_empty: bool) {
        let mut backoff = Backoff::default();
        let mut attempts = 0;
        while is_empty || attempts < MERGE_ATTEMPTS {
            match self.try_merge(key) {
                Merging::Merged => {}
                Merging::InTheWay => {
                    attempts += 1;
                    backoff.wait();
                }
                Merging::Needless => return,
            }
        }
    }

    fn try_merge(&self, key: &W) -> Merging {
        let Ok(mut growth) = self.growth.try_lock() else {
            return Merging::InTheWay;
        };
        // Or the emptied block may be one that the search layer does not lead to.
        if !self.tell(key, &mut growth) {
            return Merging::InTheWay;
        }
        // An only child has no neighbour in its node.
        self.search.merge_nodes(key, &mut growth);
        let Some(pair) = self.search.pair(key, &growth) else {
            return Merging::Needless;
        };
        let (left, right) = (pair.left, pair.right);
        let Some(left_latched) = left.latch.try_latch_now() else {
            return Merging::InTheWay;
        };
        // The left one may have been split meanwhile.
        if !std::ptr::eq(left.right(), right) || left.state() == BlockState::Dead {
            return Merging::InTheWay;
        }
        interleave();
        let Some(right_latched) = right.latch.try_latch_now() else {
            return Merging::InTheWay;
        };
        if !left.can_absorb(right) {
            return Merging::Needless;
        }
        // Not derived from a reference: it keeps its neighbours in the same piece reachable.
        let dying = NonNull::new(left.right());
        left.absorb(right, left_latched.writer());
        self.search.remove_right(&pair, key, &mut growth);
        drop(right_latched);
        if let Some(dying) = dying {
            self.give_back(dying);
        }
        Merging::Merged
    }

    /// Adds the memory use.
    pub(crate) fn add_memory_use(&self, memory: &mut MemoryUse) {
        let growth = self.growth();
        SearchLayer::add_memory_use(&growth, memory);
        let entry_bytes = size_of::<W>() + size_of::<u64>();
        let mut blocks = 0;
        for block in self.search.blocks() {
            memory.add_leaf(size_of::<Block<W>>(), entry_bytes, block.len(), BLOCK_CAP);
            blocks += 1;
        }
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        memory.metadata += pool.bytes() - blocks * size_of::<Block<W>>();
    }
}
