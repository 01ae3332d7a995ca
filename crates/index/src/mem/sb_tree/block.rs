//! A data block: entries in ascending order, keys and values apart, and a table of every sixteenth key.
//!
//! # Rules
//!
//! 1. Everything in a block is protected by its latch, except that `right` may be read at any time.
//! 2. A live block covers the keys above `below` up to and including `top`, the first block all up to `top`. A dead one
//!    covers nothing. Which block a key belongs to is told by these fences alone, not by the way that led there.
//! 3. `right` is the block that covers what comes next; none if nothing above `top` is in a block.
//! 4. The memory of a block is a block for as long as the index lives. What dies is used again under its latch, so
//!    whoever came on an outdated way finds the version changed, or fences that do not cover the key.

use std::ops::Range;

use super::super::columns::Words;
use super::super::copy::{move_down, move_up};
use super::super::key::Key;
use super::super::output::Output;
use super::super::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use super::super::search::Lanes;
use super::super::version_latch::{VersionLatch, Writer};

/// Entries of a block. Small under test, so that splits and merges are common.
pub(super) const BLOCK_CAP: usize = if cfg!(loom) {
    4
} else if cfg!(any(test, miri)) {
    8
} else {
    256
};

/// Entries between two keys of the table.
const BUCKET: usize = if cfg!(any(test, miri, loom)) { 2 } else { 16 };
const BUCKETS: usize = BLOCK_CAP / BUCKET;
const _: () = assert!(BUCKETS * BUCKET == BLOCK_CAP);

/// What a block is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Dead,
    /// Covers all keys up to its top.
    First,
    Inner,
}

/// How a key lies to what a block covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Covers {
    Yes,
    /// The key lies above.
    LiesRight,
    /// It lies below, or the block is dead.
    Elsewhere,
}

/// In cache lines of its own, so that what follows begins with one.
#[derive(Debug)]
#[repr(C, align(64))]
struct Table<W: Words>(W::Columns<BUCKETS>);

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Block<W: Words> {
    pub(super) latch: VersionLatch,
    right: AtomicPtr<Self>,
    len: AtomicU32,
    state: AtomicU32,
    below: W::Columns<1>,
    top: W::Columns<1>,
    /// The first key of each bucket.
    table: Table<W>,
    keys: W::Columns<BLOCK_CAP>,
    values: [AtomicU64; BLOCK_CAP],
}

impl<W: Words> Block<W> {
    /// A dead block.
    pub(super) fn new() -> Self {
        Self {
            latch: VersionLatch::new(),
            right: AtomicPtr::default(),
            len: AtomicU32::new(0),
            state: AtomicU32::new(State::Dead as u32),
            below: W::new_columns(),
            top: W::new_columns(),
            table: Table(W::new_columns()),
            keys: W::new_columns(),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.len.load(Ordering::Relaxed) as usize).min(BLOCK_CAP)
    }

    fn set_len(&self, len: usize) {
        self.len.store(u32::try_from(len).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == BLOCK_CAP
    }

    /// Whether so little is left that merging is worth a try: not at every removal.
    pub(super) fn is_underfull(&self) -> bool {
        let len = self.len();
        len < BLOCK_CAP / 4 && len.is_multiple_of(BLOCK_CAP / 8)
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            state if state == State::First as u32 => State::First,
            state if state == State::Inner as u32 => State::Inner,
            _ => State::Dead,
        }
    }

    #[inline]
    pub(super) fn below(&self) -> W {
        W::load(&self.below, 0)
    }

    #[inline]
    pub(super) fn top(&self) -> W {
        W::load(&self.top, 0)
    }

    pub(super) fn set_top(&self, top: W, _writer: Writer<'_>) {
        top.store(&self.top, 0);
    }

    /// Begins a life: empty, with these fences.
    pub(super) fn begin(&self, state: State, (below, top): (W, W), right: *mut Self, _writer: Writer<'_>) {
        self.set_len(0);
        self.state.store(state as u32, Ordering::Relaxed);
        below.store(&self.below, 0);
        top.store(&self.top, 0);
        self.right.store(right, Ordering::Release);
    }

    /// Ends a life.
    pub(super) fn die(&self, _writer: Writer<'_>) {
        self.set_len(0);
        self.state.store(State::Dead as u32, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn right(&self) -> *mut Self {
        self.right.load(Ordering::Acquire)
    }

    pub(super) fn set_right(&self, right: *mut Self, _writer: Writer<'_>) {
        self.right.store(right, Ordering::Release);
    }

    #[inline]
    pub(super) fn covers(&self, key: &W) -> Covers {
        let state = self.state();
        if state == State::Dead || (state == State::Inner && *key <= self.below()) {
            Covers::Elsewhere
        } else if *key > self.top() {
            Covers::LiesRight
        } else {
            Covers::Yes
        }
    }

    /// How many entries lie below `key`, and whether the next is its.
    #[inline]
    pub(super) fn search(&self, key: &W) -> (usize, bool) {
        let lanes = Lanes::of_this_processor();
        let len = self.len();
        // What lies below the first key of the first bucket is found below it in the bucket.
        let bucket = key
            .rank_above(&self.table.0, len.div_ceil(BUCKET), lanes)
            .saturating_sub(1);
        let start = bucket * BUCKET;
        self.prefetch_values(start);
        let place = start + key.rank_in_group::<BLOCK_CAP, BUCKET>(&self.keys, bucket, lanes);
        (place.min(len), place < len && self.key(place) == *key)
    }

    /// Asks for the values of a bucket, while its keys are on their way.
    #[inline]
    fn prefetch_values(&self, start: usize) {
        super::prefetch(self.values.get(start));
        super::prefetch(self.values.get(start + BUCKET / 2));
    }

    /// Asks for the entries at these places, which are about to be read one after another: the first of them, the
    /// processor foresees the others.
    #[inline]
    pub(super) fn prefetch_entries(&self, from: usize, count: usize) {
        const LINE: usize = 8;
        const MOST: usize = 128;
        let from = from & !(LINE - 1);
        // As many times wherever it begins.
        for offset in (0..count.min(MOST)).step_by(LINE) {
            let place = (from + offset).min(BLOCK_CAP - 1);
            super::prefetch(W::only_column(&self.keys).map(|column| &column[place]));
            super::prefetch(Some(&self.values[place]));
        }
    }

    /// Asks for the fences and the table, to change what is here.
    #[inline]
    pub(super) fn prefetch_to_write(&self) {
        super::super::prefetch::prefetch_to_write(self);
        super::prefetch(Some(&self.table));
        super::prefetch(W::only_column(&self.table.0).and_then(|column| column.get(BUCKETS / 2)));
    }

    /// Asks for the fences and the table.
    #[inline]
    pub(super) fn prefetch(&self) {
        super::prefetch(Some(self));
        super::prefetch(Some(&self.table));
        super::prefetch(W::only_column(&self.table.0).and_then(|column| column.get(BUCKETS / 2)));
    }

    pub(super) fn key(&self, place: usize) -> W {
        W::load(&self.keys, place)
    }

    /// The value at `place`; 0 only if the block is being changed.
    #[inline]
    pub(super) fn value(&self, place: usize) -> u64 {
        self.values
            .get(place)
            .map_or(0, |value| value.load(Ordering::Relaxed))
    }

    pub(super) fn set_value(&self, place: usize, value: u64, _writer: Writer<'_>) {
        self.values[place].store(value, Ordering::Relaxed);
    }

    /// The entries at these places.
    #[inline]
    pub(super) fn entries(&self, places: Range<usize>) -> impl Iterator<Item = (W, u64)> {
        let places = places.start..places.end.min(BLOCK_CAP);
        places.map(|place| (self.key(place), self.values[place].load(Ordering::Relaxed)))
    }

    /// Copies `count` entries from place `from` on.
    #[inline]
    pub(super) fn copy<K: Key<Words = W>>(&self, from: usize, count: usize, output: &mut Output<'_, K>) {
        output.copy(&self.keys, &self.values, from, count);
    }

    /// How many entries have keys up to `end`.
    #[inline]
    pub(super) fn places_up_to(&self, end: &W) -> usize {
        if *end >= self.top() {
            return self.len();
        }
        let (place, is_there) = self.search(end);
        place + usize::from(is_there)
    }

    /// The places of entries with keys from `start` to `end`.
    #[inline]
    pub(super) fn places(&self, (start, end): (W, W)) -> Range<usize> {
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

    /// Appends entries that lie above all that there are; there is room.
    pub(super) fn append(&self, entries: impl Iterator<Item = (W, u64)>, _writer: Writer<'_>) {
        let mut len = self.len();
        for (key, value) in entries {
            self.store(len, key, value);
            len += 1;
        }
        self.set_len(len);
    }

    /// Puts an entry at `place`. The block is not full.
    pub(super) fn insert(&self, place: usize, key: W, value: u64, _writer: Writer<'_>) {
        let len = self.len();
        W::move_up(&self.keys, place, len);
        move_up(&self.values, place, len);
        self.store(place, key, value);
        self.tabulate(place + 1, len + 1);
        self.set_len(len + 1);
    }

    pub(super) fn remove(&self, place: usize, _writer: Writer<'_>) {
        let len = self.len();
        W::move_down(&self.keys, place, len);
        move_down(&self.values, place, len);
        self.tabulate(place, len - 1);
        self.set_len(len - 1);
    }

    /// Puts the first keys of buckets that begin at these places into the table.
    fn tabulate(&self, from: usize, end: usize) {
        for bucket in from.div_ceil(BUCKET)..end.div_ceil(BUCKET) {
            self.key(bucket * BUCKET).store(&self.table.0, bucket);
        }
    }

    /// Moves the entries from `middle` on to a block that has just begun, together with what they cover.
    pub(super) fn split_off(&self, middle: usize, right: &Self, writer: Writer<'_>) {
        right.append(self.entries(middle..self.len()), writer);
        self.set_top(self.key(middle - 1), writer);
        self.set_len(middle);
    }

    /// Whether there is room for a quarter of a block: for a hint it may be asked without the latch.
    pub(super) fn has_much_room(&self) -> bool {
        self.state() == State::Inner && self.len() <= BLOCK_CAP / 4 * 3
    }

    /// Moves the last entries to the right neighbour, with what they cover, so that both have about as many. Both are
    /// latched.
    pub(super) fn spread(&self, right: &Self, writer: Writer<'_>) {
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

    /// Whether this block and its right neighbour would together be at most three quarters full, or one is empty.
    pub(super) fn can_absorb(&self, right: &Self) -> bool {
        let (left, right) = (self.len(), right.len());
        left == 0 || right == 0 || left + right <= BLOCK_CAP / 4 * 3
    }

    /// Takes over everything that the right neighbour covers, which dies. Both are latched.
    pub(super) fn absorb(&self, right: &Self, writer: Writer<'_>) {
        self.append(right.entries(0..right.len()), writer);
        self.set_top(right.top(), writer);
        self.set_right(right.right(), writer);
        right.die(writer);
    }
}
