//! Lanes: late keys wait in a lane per writer, whose entries go to blocks many at a time. Where
//! several writers are late in the same block, its cache lines change cores once per lane, not once
//! per key.
//!
//! ```text
//!             append                   close                       reopen
//!   open, g ─────────▶ open, g, 1 … n ───────▶ closed: to blocks ────────▶ open, g + 1, 0
//! ```
//!
//! # Rules
//!
//! 1. A lane has keys that belong to blocks, of classes that are its writer's own
//!    ([`classes`](super::classes)). So no key is in two lanes; of several entries of one key the
//!    last wins.
//! 2. Only its writer appends: it loads the lane's word, which holds generation, state and count,
//!    then checks that the class is its own, stores the entry, and counts it by a compare-exchange
//!    of the word. So a thread that takes the class away and then drains the lane knows that no
//!    append which saw the class as the writer's own is counted later.
//! 3. The thread that closes an open lane *drains* it: it puts the counted entries into blocks,
//!    clears the lane's bit in `waiting`, and opens the lane for the next generation, in this
//!    order. It waits for no role or segment meanwhile: a block covers the keys, or is about to.
//! 4. A lane's bit in `waiting` is set before its first entry is counted. Readers look at `waiting`
//!    first, then at lanes, then at blocks: an entry that has left the lane before is in a block.
//! 5. A change to a key in a block, other than by a drain, is made under the block's latch while no
//!    lane has the key; otherwise that lane is drained and the change retried. If the key enters a
//!    lane meanwhile, the change is ordered just before it, and the lane's entry reaches the block
//!    afterwards.
//! 6. A class goes from one writer to another, or to none, under a lock: it is taken from the one,
//!    whose lane is drained, and then given to the other. So an append that found the class to be
//!    its own is counted and in a block, or fails, before the other writer appends. A key is in no
//!    lane but that of the writer that owned its class when it was read; only while a class is
//!    between two writers it may be in any.

#![expect(unsafe_code, reason = "lanes are reached through atomic pointers")]

use std::ptr::NonNull;

use super::classes::{Classes, Credit, Whose};
use crate::sb_tree::data::edge::Edge;
use crate::sb_tree::data::layer::{Blocks, Change};
use crate::sb_tree::segments::sorting::in_order;
use crate::sb_tree::segments::writer_number::WRITERS;
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, AtomicU32, AtomicU64, Backoff, Mutex, Ordering, fence, interleave};

/// Capacity of a lane in entries.
pub(crate) const LANE_CAP: usize = if cfg!(loom) {
    2
} else if cfg!(any(test, miri)) {
    4
} else {
    32
};
/// Lookups that pass a lane before one of them drains it, so that an idle lane does not slow
/// lookups for ever.
const LOOKS: u32 = if cfg!(any(test, miri, loom)) { 2 } else { 64 };

const LEN_MASK: u64 = (1 << 8) - 1;
const CLOSED: u64 = 1 << 8;
const GENERATION: u64 = 1 << 9;
const _: () = assert!(LANE_CAP as u64 <= LEN_MASK && WRITERS <= u64::BITS as usize);

/// Aligned to a cache line, so that the next field begins with one.
#[derive(Debug)]
#[repr(C, align(64))]
struct LaneKeys<W: Words>(W::KeyColumns<LANE_CAP>);

#[derive(Debug)]
#[repr(C, align(128))]
struct Lane<W: Words> {
    word: AtomicU64,
    looks: AtomicU32,
    credit: Credit,
    /// A copy of the edge for the writer: keys up to this one belong to blocks.
    edge: W::KeyColumns<1>,
    keys: LaneKeys<W>,
    values: [AtomicU64; LANE_CAP],
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Lanes<W: Words> {
    /// A bit for each lane that may have entries.
    waiting: AtomicU64,
    lanes: Box<[AtomicPtr<Lane<W>>]>,
    classes: Classes,
    /// Held while a class changes its writer (rule 6).
    hand_over: Mutex<()>,
    drains: AtomicU64,
}

impl<W: Words> Lane<W> {
    fn new() -> Box<Self> {
        let edge = W::new_columns();
        W::MIN.store(&edge, 0);
        Box::new(Self {
            word: AtomicU64::new(0),
            looks: AtomicU32::new(0),
            credit: Credit::new(),
            edge,
            keys: LaneKeys(W::new_columns()),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    fn len(word: u64) -> usize {
        ((word & LEN_MASK) as usize).min(LANE_CAP)
    }

    fn key(&self, place: usize) -> W {
        W::load(&self.keys.0, place)
    }

    /// Stores an entry after those that the word counts, and counts it; `false` if the word has
    /// changed. The writer calls it, if there is room (rule 2).
    #[inline]
    fn add(&self, word: u64, key: W, value: u64) -> bool {
        let place = Self::len(word) % LANE_CAP;
        // A thread that sees any of the entry's stores sees, after an acquire fence, the new
        // generation.
        fence(Ordering::Release);
        key.store(&self.keys.0, place);
        self.values[place].store(value, Ordering::Relaxed);
        self.word
            .compare_exchange(word, word + 1, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns the result of `look` for the counted entries; repeats it if the lane was drained
    /// meanwhile.
    fn read<T>(&self, look: impl Fn(usize) -> T) -> T {
        let mut backoff = Backoff::default();
        loop {
            let word = self.word.load(Ordering::Acquire);
            let answer = look(Self::len(word));
            fence(Ordering::Acquire);
            let now = self.word.load(Ordering::Relaxed);
            if now / GENERATION == word / GENERATION {
                return answer;
            }
            backoff.wait();
        }
    }

    /// Returns the position of the last entry of a key.
    fn place_of(&self, key: &W, len: usize) -> Option<usize> {
        (0..len).rev().find(|&place| self.key(place) == *key)
    }
}

impl<W: Words> Lanes<W> {
    /// Creates empty lanes, for keys with this [padding](Classes::new).
    pub(crate) fn new(padding_bits: u32) -> Self {
        Self {
            waiting: AtomicU64::new(0),
            lanes: (0..WRITERS).map(|_| AtomicPtr::default()).collect(),
            classes: Classes::new(padding_bits),
            hand_over: Mutex::new(()),
            drains: AtomicU64::new(0),
        }
    }

    fn lane(&self, writer: usize) -> Option<&Lane<W>> {
        let lane = NonNull::new(self.lanes[writer].load(Ordering::Acquire))?;
        // SAFETY: a lane is set once and lives as long as the index; it is only shared.
        Some(unsafe { lane.as_ref() })
    }

    fn lane_of_own(&self, writer: usize) -> &Lane<W> {
        if let Some(lane) = self.lane(writer) {
            return lane;
        }
        let lane = Box::into_raw(Lane::new());
        self.lanes[writer].store(lane, Ordering::Release);
        // SAFETY: as in `lane`; only this thread is the writer, so no other thread has set it.
        unsafe { &*lane }
    }

    /// Returns the lanes that may have entries, with their writers' numbers. Later reads of blocks
    /// see the entries that have left other lanes.
    fn waiting(&self) -> impl Iterator<Item = (usize, &Lane<W>)> {
        let mut left = self.waiting.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let writer = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Some((
                writer,
                self.lane(writer.min(WRITERS - 1)).filter(|_| writer < WRITERS)?,
            ))
        })
    }

    /// Returns whether no lane has entries. Later reads of blocks see the entries that have left
    /// the lanes.
    #[inline]
    pub(crate) fn are_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Appends an entry to its writer's lane, on the fast path: the lane is open, neither empty nor
    /// full, the key belongs to blocks as far as the writer knows, and its class is the writer's.
    /// `false` otherwise.
    #[inline]
    pub(crate) fn append(&self, writer: usize, (key, value): (W, u64)) -> bool {
        let Some(lane) = self.lane(writer) else {
            return false;
        };
        let word = lane.word.load(Ordering::Acquire);
        let len = (word & LEN_MASK) as usize;
        let is_one_of_many = word & CLOSED == 0 && (1..LANE_CAP).contains(&len);
        if !is_one_of_many || key > W::load(&lane.edge, 0) || !self.classes.is_own(writer, &key) {
            return false;
        }
        interleave();
        lane.add(word, key, value)
    }

    /// Inserts a key that belongs to blocks, as the given writer; `false` if it does not belong to
    /// them.
    pub(crate) fn insert(
        &self,
        writer: usize,
        (key, value): (W, u64),
        edge: &Edge<W>,
        blocks: &Blocks<W>,
    ) -> bool {
        let lane = self.lane_of_own(writer);
        if key > W::load(&lane.edge, 0) {
            edge.get().store(&lane.edge, 0);
            if key > W::load(&lane.edge, 0) {
                return false;
            }
        }
        let mut backoff = Backoff::default();
        loop {
            let word = lane.word.load(Ordering::Acquire);
            if word & CLOSED != 0 {
                backoff.wait();
                continue;
            }
            let len = Lane::<W>::len(word);
            if len == LANE_CAP {
                lane.credit.note_full_lane();
                self.drain(writer, lane, blocks);
                continue;
            }
            let is_own = self.classes.is_own(writer, &key);
            if !is_own && self.take_over(writer, lane, &key, blocks) {
                continue;
            }
            if !is_own {
                return self
                    .change(&key, blocks, |may| blocks.insert(key, value, may))
                    .is_some();
            }
            interleave();
            if len == 0 {
                self.waiting.fetch_or(1 << writer, Ordering::AcqRel);
            }
            if lane.add(word, key, value) {
                return true;
            }
        }
    }

    /// Assigns the key's class to the writer, if its credit allows, otherwise to none, so that no
    /// lane has keys of it. Returns whether to read the owner again.
    #[cold]
    fn take_over(&self, writer: usize, lane: &Lane<W>, key: &W, blocks: &Blocks<W>) -> bool {
        let may = match self.classes.whose(key) {
            Whose::New => {
                self.classes.claim(writer, key);
                return true;
            }
            Whose::Nobodys if !lane.credit.may_take() => return false,
            Whose::Nobodys => true,
            Whose::Writers(_) | Whose::Changing => lane.credit.may_take(),
        };
        let mut backoff = Backoff::default();
        let _handing_over = loop {
            match self.hand_over.try_lock() {
                Ok(held) => break held,
                Err(_) => backoff.wait(),
            }
        };
        if let Whose::Writers(before) = self.classes.whose(key)
            && let Some(lane) = self.lane(before)
        {
            self.classes.take(key);
            interleave();
            self.drain(before, lane, blocks);
        }
        self.classes.give(key, may.then_some(writer));
        may
    }

    /// Returns the lane that a key may be in, with its writer's number; all with entries while its
    /// class is between two writers.
    #[inline]
    fn lanes_of(&self, key: &W) -> impl Iterator<Item = (usize, &Lane<W>)> {
        let (one, all) = match self.classes.whose(key) {
            Whose::New | Whose::Nobodys => (None, None),
            Whose::Writers(writer) => (self.lane(writer).map(|lane| (writer, lane)), None),
            Whose::Changing => (None, Some(self.waiting())),
        };
        one.into_iter().chain(all.into_iter().flatten())
    }

    /// Changes a key in a block, when no lane has it (rule 5); `None` if no block covers it.
    pub(crate) fn change<T>(
        &self,
        key: &W,
        blocks: &Blocks<W>,
        change: impl Fn(&dyn Fn() -> bool) -> Change<T>,
    ) -> Option<T> {
        let has = |lane: &Lane<W>| lane.read(|len| lane.place_of(key, len)).is_some();
        loop {
            for (writer, lane) in self.lanes_of(key) {
                if has(lane) {
                    self.drain(writer, lane, blocks);
                }
            }
            interleave();
            match change(&|| !self.lanes_of(key).any(|(_, lane)| has(lane))) {
                Change::Made(answer) => return Some(answer),
                Change::NoBlock => return None,
                Change::Refused => {}
            }
        }
    }

    /// Puts a lane's entries into blocks, or waits for the thread that does.
    fn drain(&self, writer: usize, lane: &Lane<W>, blocks: &Blocks<W>) {
        let word = lane.word.fetch_or(CLOSED, Ordering::AcqRel);
        if word & CLOSED != 0 {
            Self::wait_for_end(lane, word);
            return;
        }
        let len = Lane::<W>::len(word);
        let mut entries = [(W::MIN, 0); LANE_CAP];
        blocks.insert_all(in_order(&lane.keys.0, &lane.values, len, &mut entries));
        interleave();
        self.waiting.fetch_and(!(1 << writer), Ordering::AcqRel);
        lane.looks.store(0, Ordering::Relaxed);
        // An exchange, not a store: in models it is ordered after failed attempts to close the
        // lane, as on real processors.
        lane.word
            .swap((word / GENERATION + 1) * GENERATION, Ordering::AcqRel);
        self.drains.fetch_add(1, Ordering::Relaxed);
    }

    fn wait_for_end(lane: &Lane<W>, word: u64) {
        let mut backoff = Backoff::default();
        while lane.word.load(Ordering::Acquire) / GENERATION == word / GENERATION {
            backoff.wait();
        }
    }

    /// Puts the entries of all lanes into blocks.
    pub(crate) fn drain_all(&self, blocks: &Blocks<W>) {
        for (writer, lane) in self.all() {
            self.drain(writer, lane, blocks);
        }
    }

    fn all(&self) -> impl Iterator<Item = (usize, &Lane<W>)> {
        (0..WRITERS).filter_map(|writer| Some((writer, self.lane(writer)?)))
    }

    /// Puts the entries of lanes that have keys in this range into blocks.
    pub(crate) fn drain_within(&self, (start, end): (W, W), blocks: &Blocks<W>) {
        for (writer, lane) in self.waiting() {
            let is_within = |len: usize| (0..len).any(|place| (start..=end).contains(&lane.key(place)));
            if lane.read(is_within) {
                self.drain(writer, lane, blocks);
            }
        }
    }

    /// Returns the least key in a lane that lies in this range.
    pub(crate) fn least_within(&self, (start, end): (W, W)) -> Option<W> {
        let least = |(_, lane): (usize, &Lane<W>)| {
            let keys = |len: usize| {
                let keys = (0..len).map(|place| lane.key(place));
                keys.filter(|key| (start..=end).contains(key)).min()
            };
            lane.read(keys)
        };
        self.waiting().filter_map(least).min()
    }

    /// Returns the value of a key that is in a lane.
    #[cold]
    pub(crate) fn get(&self, key: &W, blocks: &Blocks<W>) -> Option<u64> {
        for (writer, lane) in self.lanes_of(key) {
            let value_of = |place: usize| lane.values[place].load(Ordering::Relaxed);
            let value = lane.read(|len| lane.place_of(key, len).map(value_of));
            if value.is_some() {
                return value;
            }
            let looks = lane.looks.load(Ordering::Relaxed);
            lane.looks.store(looks + 1, Ordering::Relaxed);
            if looks >= LOOKS {
                self.drain(writer, lane, blocks);
            }
        }
        None
    }

    /// Returns the number of entries in all lanes, duplicates included.
    pub(crate) fn entries(&self) -> usize {
        self.waiting().map(|(_, lane)| lane.read(|len| len)).sum()
    }

    /// Returns how often a lane was drained.
    pub(crate) fn drains(&self) -> u64 {
        self.drains.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the lanes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lanes) + self.all().count() * size_of::<Lane<W>>()
    }
}

impl<W: Words> Drop for Lanes<W> {
    fn drop(&mut self) {
        for lane in &self.lanes {
            let lane = lane.load(Ordering::Relaxed);
            if !lane.is_null() {
                // SAFETY: it came from a box (`lane_of_own`), and the index has no other user.
                drop(unsafe { Box::from_raw(lane) });
            }
        }
    }
}
