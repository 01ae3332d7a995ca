//! A data block: entries in ascending order, with separate columns of keys and values, and a table
//! of every sixteenth key. Up to sixteen *recent* entries follow in order of arrival, until an
//! operation needs them sorted.
//!
//! # Rules
//!
//! 1. Everything in a block is protected by its latch, except that `right` may be read at any time.
//! 2. A live block covers the keys above `below` up to and including `top`, the first block all up
//!    to `top`. A dead one covers nothing. These fences alone determine the block of a key, not the
//!    path that led there.
//! 3. `right` is the block that covers the next keys; `None` if no block has keys above `top`.
//! 4. Recent entries' keys are not among the sorted ones, and each is there once. An operation that
//!    finds no room for another, or has to read or change sorted entries, first sorts them in under
//!    the latch. So of sixteen late keys for one block fifteen change three cache lines, not every
//!    line after their position.
//! 5. The memory of a block remains a block for as long as the index lives. Dead blocks are reused
//!    under their latch, so a thread on an outdated path finds the version changed, or fences that
//!    do not cover the key.

use std::ops::Range;

use crate::map::key::Key;
use crate::map::output::Output;
use crate::search::columns::Words;
use crate::search::copy::{move_down, move_up};
use crate::search::prefetch::{prefetch, prefetch_some, prefetch_to_write};
use crate::search::words::VectorUnit;
use crate::sync::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::version_latch::{VersionLatch, Writer};

/// Capacity of a block in entries. Small under test, so that splits and merges are common.
pub(crate) const BLOCK_CAP: usize = if cfg!(loom) {
    4
} else if cfg!(any(test, miri)) {
    8
} else {
    256
};

/// Entries per key of the table.
const BUCKET: usize = if cfg!(any(test, miri, loom)) { 2 } else { 16 };
const BUCKETS: usize = BLOCK_CAP / BUCKET;
/// Maximum number of recent entries.
const RECENT: usize = if cfg!(loom) {
    2
} else if cfg!(any(test, miri)) {
    3
} else {
    16
};
const _: () = assert!(BUCKETS * BUCKET == BLOCK_CAP);

/// The state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    Dead,
    /// Covers all keys up to its top.
    First,
    Inner,
}

/// The relation of a key to a block's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covers {
    Yes,
    /// The key lies above.
    LiesRight,
    /// The key lies below, or the block is dead.
    Elsewhere,
}

/// Aligned to a cache line, so that the next field begins with one.
#[derive(Debug)]
#[repr(C, align(64))]
struct Table<W: Words>(W::KeyColumns<BUCKETS>);

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Block<W: Words> {
    pub(crate) latch: VersionLatch,
    right: AtomicPtr<Self>,
    len: AtomicU32,
    /// Number of sorted entries.
    in_order: AtomicU32,
    state: AtomicU32,
    below: W::KeyColumns<1>,
    top: W::KeyColumns<1>,
    /// The first key of each bucket.
    table: Table<W>,
    keys: W::KeyColumns<BLOCK_CAP>,
    values: [AtomicU64; BLOCK_CAP],
}

impl<W: Words> Block<W> {
    /// Creates a dead block.
    pub(crate) fn new() -> Self {
        Self {
            latch: VersionLatch::new(),
            right: AtomicPtr::default(),
            len: AtomicU32::new(0),
            in_order: AtomicU32::new(0),
            state: AtomicU32::new(BlockState::Dead as u32),
            below: W::new_columns(),
            top: W::new_columns(),
            table: Table(W::new_columns()),
            keys: W::new_columns(),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.len.load(Ordering::Relaxed) as usize).min(BLOCK_CAP)
    }

    /// Sets the number of entries, all of them sorted.
    fn set_len(&self, len: usize) {
        let len = u32::try_from(len).unwrap_or(0);
        self.len.store(len, Ordering::Relaxed);
        self.in_order.store(len, Ordering::Relaxed);
    }

    #[inline]
    fn in_order(&self) -> usize {
        (self.in_order.load(Ordering::Relaxed) as usize).min(BLOCK_CAP)
    }

    /// Returns whether all entries are sorted.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.in_order() == self.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == BLOCK_CAP
    }

    /// Returns whether the block is empty enough to attempt a merge; true only at some lengths.
    pub(crate) fn is_underfull(&self) -> bool {
        let len = self.len();
        len < BLOCK_CAP / 4 && len.is_multiple_of(BLOCK_CAP / 8)
    }

    #[inline]
    pub(crate) fn state(&self) -> BlockState {
        match self.state.load(Ordering::Relaxed) {
            state if state == BlockState::First as u32 => BlockState::First,
            state if state == BlockState::Inner as u32 => BlockState::Inner,
            _ => BlockState::Dead,
        }
    }

    #[inline]
    pub(crate) fn below(&self) -> W {
        W::load(&self.below, 0)
    }

    #[inline]
    pub(crate) fn top(&self) -> W {
        W::load(&self.top, 0)
    }

    pub(crate) fn set_top(&self, top: W, _writer: Writer<'_>) {
        top.store(&self.top, 0);
    }

    /// Initialises the block: empty, with these fences.
    pub(crate) fn begin(
        &self,
        state: BlockState,
        (below, top): (W, W),
        right: *mut Self,
        _writer: Writer<'_>,
    ) {
        self.set_len(0);
        self.state.store(state as u32, Ordering::Relaxed);
        below.store(&self.below, 0);
        top.store(&self.top, 0);
        self.right.store(right, Ordering::Release);
    }

    /// Makes the block dead.
    pub(crate) fn die(&self, _writer: Writer<'_>) {
        self.set_len(0);
        self.state.store(BlockState::Dead as u32, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn right(&self) -> *mut Self {
        self.right.load(Ordering::Acquire)
    }

    pub(crate) fn set_right(&self, right: *mut Self, _writer: Writer<'_>) {
        self.right.store(right, Ordering::Release);
    }

    #[inline]
    pub(crate) fn covers(&self, key: &W) -> Covers {
        let state = self.state();
        if state == BlockState::Dead || (state == BlockState::Inner && *key <= self.below()) {
            Covers::Elsewhere
        } else if *key > self.top() {
            Covers::LiesRight
        } else {
            Covers::Yes
        }
    }

    /// Returns the position of `key`, and whether it is present; if absent, its rank among the
    /// sorted entries.
    #[inline]
    pub(crate) fn find(&self, key: &W) -> (usize, bool) {
        let (place, is_there) = self.search(key);
        if is_there || self.is_settled() {
            return (place, is_there);
        }
        let mut recent = self.in_order()..self.len();
        recent
            .find(|&recent| self.key(recent) == *key)
            .map_or((place, false), |recent| (recent, true))
    }

    /// Returns how many sorted entries lie below `key`, and whether the next one has it.
    #[inline]
    pub(crate) fn search(&self, key: &W) -> (usize, bool) {
        let unit = VectorUnit::of_this_processor();
        let len = self.in_order();
        // A key below the first bucket's first key gets rank 0 in that bucket.
        let bucket = key
            .rank_above(&self.table.0, len.div_ceil(BUCKET), unit)
            .saturating_sub(1);
        let start = bucket * BUCKET;
        self.prefetch_values(start);
        let place = start + key.rank_in_group::<BLOCK_CAP, BUCKET>(&self.keys, bucket, unit);
        (place.min(len), place < len && self.key(place) == *key)
    }

    /// Prefetches the values of a bucket, in parallel with its keys.
    #[inline]
    fn prefetch_values(&self, start: usize) {
        prefetch_some(self.values.get(start));
        prefetch_some(self.values.get(start + BUCKET / 2));
    }

    /// Prefetches the first of the entries at these positions for a sequential read; the hardware
    /// prefetches the others.
    #[inline]
    pub(crate) fn prefetch_entries(&self, from: usize, count: usize) {
        const LINE: usize = 8;
        const MOST: usize = 128;
        let from = from & !(LINE - 1);
        // The same number of lines wherever it begins.
        for offset in (0..count.min(MOST)).step_by(LINE) {
            let place = (from + offset).min(BLOCK_CAP - 1);
            prefetch_some(W::only_column(&self.keys).map(|column| &column[place]));
            prefetch(&self.values[place]);
        }
    }

    /// Prefetches the position of an entry, if it is a sorted one.
    #[inline]
    pub(crate) fn prefetch_entry(&self, key: &W) {
        let end = self.in_order().div_ceil(BUCKET);
        let bucket = key.rank_above(&self.table.0, end, VectorUnit::of_this_processor());
        let start = bucket.saturating_sub(1) * BUCKET;
        if let Some(column) = W::only_column(&self.keys) {
            prefetch_some(column.get(start));
            prefetch_some(column.get(start + BUCKET / 2));
        }
        self.prefetch_values(start);
    }

    /// Prefetches the fences and the table, for a change.
    #[inline]
    pub(crate) fn prefetch_to_write(&self) {
        prefetch_to_write(self);
        prefetch(&self.table);
        prefetch_some(W::only_column(&self.table.0).and_then(|column| column.get(BUCKETS / 2)));
    }

    /// Prefetches these positions for writing, and if they are the first, the fields before them.
    pub(crate) fn prefetch_to_fill(&self, places: Range<usize>) {
        const LINE: usize = 8;
        if places.start == 0 {
            self.prefetch_to_write();
        }
        for place in (places.start..places.end.min(BLOCK_CAP)).step_by(LINE) {
            if let Some(column) = W::only_column(&self.keys) {
                prefetch_to_write(&column[place]);
            }
            prefetch_to_write(&self.values[place]);
        }
    }

    /// Prefetches the fences and the table.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.table);
        prefetch_some(W::only_column(&self.table.0).and_then(|column| column.get(BUCKETS / 2)));
    }

    pub(crate) fn key(&self, place: usize) -> W {
        W::load(&self.keys, place)
    }

    /// Returns the value at `place`; 0 only if the block is being changed.
    #[inline]
    pub(crate) fn value(&self, place: usize) -> u64 {
        self.values
            .get(place)
            .map_or(0, |value| value.load(Ordering::Relaxed))
    }

    pub(crate) fn set_value(&self, place: usize, value: u64, _writer: Writer<'_>) {
        self.values[place].store(value, Ordering::Relaxed);
    }

    /// Returns the entries at these positions.
    #[inline]
    pub(crate) fn entries(&self, places: Range<usize>) -> impl Iterator<Item = (W, u64)> {
        let places = places.start..places.end.min(BLOCK_CAP);
        places.map(|place| (self.key(place), self.values[place].load(Ordering::Relaxed)))
    }

    /// Copies `count` entries from position `from` on.
    #[inline]
    pub(crate) fn copy<K: Key<Words = W>>(&self, from: usize, count: usize, output: &mut Output<'_, K>) {
        output.copy(&self.keys, &self.values, from, count);
    }

    /// Returns how many entries have keys up to `end`, if all are sorted.
    #[inline]
    pub(crate) fn places_up_to(&self, end: &W) -> usize {
        if *end >= self.top() {
            return self.len();
        }
        let (place, is_there) = self.search(end);
        place + usize::from(is_there)
    }

    /// Returns the positions of entries with keys from `start` to `end`, if all are sorted.
    #[inline]
    pub(crate) fn places(&self, (start, end): (W, W)) -> Range<usize> {
        self.search(&start).0..self.places_up_to(&end)
    }

    #[inline]
    fn store(&self, place: usize, key: W, value: u64) {
        key.store(&self.keys, place);
        self.values[place].store(value, Ordering::Relaxed);
        if place.is_multiple_of(BUCKET) {
            key.store(&self.table.0, place / BUCKET);
        }
    }

    /// Appends entries above all present ones; there is room.
    pub(crate) fn append(&self, entries: impl Iterator<Item = (W, u64)>, writer: Writer<'_>) {
        self.settle(writer);
        let mut len = self.len();
        for (key, value) in entries {
            self.store(len, key, value);
            len += 1;
        }
        self.set_len(len);
    }

    /// Adds an absent key, whose rank among the sorted entries is `place`. The block is not full.
    pub(crate) fn add(&self, place: usize, key: W, value: u64, writer: Writer<'_>) {
        let (in_order, len) = (self.in_order(), self.len());
        if in_order == len && len - place < RECENT {
            return self.insert(place, key, value, writer);
        }
        key.store(&self.keys, len);
        self.values[len].store(value, Ordering::Relaxed);
        self.len
            .store(u32::try_from(len + 1).unwrap_or(0), Ordering::Relaxed);
        if len + 1 - in_order == RECENT {
            self.settle(writer);
        }
    }

    /// Sorts the recent entries in.
    pub(crate) fn settle(&self, _writer: Writer<'_>) {
        let (in_order, len) = (self.in_order(), self.len());
        if in_order >= len {
            return;
        }
        let mut recent = [(W::MIN, 0, 0); RECENT];
        let recent = &mut recent[..(len - in_order).min(RECENT)];
        for (recent, (key, value)) in recent.iter_mut().zip(self.entries(in_order..len)) {
            *recent = (key, value, self.search(&key).0);
        }
        recent.sort_unstable_by_key(|recent| recent.0);
        // Backwards: each stretch moves by the number of recent entries that precede it.
        let mut end = in_order;
        for (left, &(key, value, place)) in recent.iter().enumerate().rev() {
            for from in (place..end).rev() {
                self.key(from).store(&self.keys, from + left + 1);
                self.values[from + left + 1].store(self.value(from), Ordering::Relaxed);
            }
            key.store(&self.keys, place + left);
            self.values[place + left].store(value, Ordering::Relaxed);
            end = place;
        }
        self.tabulate(end, len);
        self.set_len(len);
    }

    /// Inserts an entry at `place`. The block is not full, and its entries are sorted.
    pub(crate) fn insert(&self, place: usize, key: W, value: u64, _writer: Writer<'_>) {
        let len = self.len();
        W::move_up(&self.keys, place, len);
        move_up(&self.values, place, len);
        self.store(place, key, value);
        self.tabulate(place + 1, len + 1);
        self.set_len(len + 1);
    }

    /// Removes the entry at `place`. The entries are sorted.
    pub(crate) fn remove(&self, place: usize, _writer: Writer<'_>) {
        let len = self.len();
        W::move_down(&self.keys, place, len);
        move_down(&self.values, place, len);
        self.tabulate(place, len - 1);
        self.set_len(len - 1);
    }

    /// Updates the table for the buckets that begin in this range.
    fn tabulate(&self, from: usize, end: usize) {
        for bucket in from.div_ceil(BUCKET)..end.div_ceil(BUCKET) {
            self.key(bucket * BUCKET).store(&self.table.0, bucket);
        }
    }

    /// Moves the entries from `middle` on, with their key range, to a block that was just
    /// initialised. All are sorted.
    pub(crate) fn split_off(&self, middle: usize, right: &Self, writer: Writer<'_>) {
        right.append(self.entries(middle..self.len()), writer);
        self.set_top(self.key(middle - 1), writer);
        self.set_len(middle);
    }

    /// Returns whether there is room for more than a few entries; as a hint it may be read without
    /// the latch.
    pub(crate) fn has_much_room(&self) -> bool {
        const ROOM: usize = if cfg!(any(test, miri, loom)) {
            2
        } else {
            BLOCK_CAP / 8
        };
        self.state() == BlockState::Inner && self.len() <= BLOCK_CAP - ROOM
    }

    /// Moves the last entries, with their key range, to the right neighbour, so that both have
    /// about as many. Both are latched.
    pub(crate) fn spread(&self, right: &Self, writer: Writer<'_>) {
        self.settle(writer);
        right.settle(writer);
        let (len, right_len) = (self.len(), right.len());
        let moved = len.saturating_sub(right_len) / 2;
        let middle = len - moved;
        for place in (0..right_len).rev() {
            right.store(place + moved, right.key(place), right.value(place));
        }
        for (place, (key, value)) in self.entries(middle..len).enumerate() {
            right.store(place, key, value);
        }
        right.set_len(right_len + moved);
        let top = self.key(middle - 1);
        top.store(&right.below, 0);
        self.set_top(top, writer);
        self.set_len(middle);
    }

    /// Returns whether this block and its right neighbour would together be at most three quarters
    /// full, or one is empty.
    pub(crate) fn can_absorb(&self, right: &Self) -> bool {
        let (left, right) = (self.len(), right.len());
        left == 0 || right == 0 || left + right <= BLOCK_CAP / 4 * 3
    }

    /// Moves the contents of the right neighbour, which dies, into this block. Both are latched.
    pub(crate) fn absorb(&self, right: &Self, writer: Writer<'_>) {
        right.settle(writer);
        self.append(right.entries(0..right.len()), writer);
        self.set_top(right.top(), writer);
        self.set_right(right.right(), writer);
        right.die(writer);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    /// In any order of arrival, each key is found at once, before and after earlier ones are sorted
    /// in.
    #[test]
    fn recent_entries_are_found_and_put_in_order() {
        for seed in 0..if cfg!(miri) { 3 } else { 200 } {
            let mut rng = Rng::new(seed);
            let block = Block::<[u64; 1]>::new();
            let writer = Writer::UNPUBLISHED;
            block.begin(BlockState::First, ([0], [u64::MAX]), std::ptr::null_mut(), writer);
            let mut keys: Vec<u64> = (0..BLOCK_CAP as u64).map(|key| 10 * key).collect();
            rng.shuffle(&mut keys);
            for (number, &key) in keys.iter().enumerate() {
                let (place, is_there) = block.find(&[key]);
                assert!(!is_there);
                block.add(place, [key], !key, writer);
                assert_eq!(block.len(), number + 1);
                for &known in &keys[..=number] {
                    let (place, is_there) = block.find(&[known]);
                    assert!(is_there && block.key(place) == [known] && block.value(place) == !known);
                }
                assert!(!block.find(&[key + 1]).1);
                if rng.percent(10.0) {
                    block.settle(writer);
                }
            }
            block.settle(writer);
            assert!(block.is_settled());
            let expected = (0..BLOCK_CAP as u64).map(|key| ([10 * key], !(10 * key)));
            assert!(block.entries(0..BLOCK_CAP).eq(expected));
            assert!(
                (0..BUCKETS)
                    .all(|bucket| W1::load(&block.table.0, bucket) == [10 * (bucket * BUCKET) as u64])
            );
        }
    }

    type W1 = [u64; 1];
}
