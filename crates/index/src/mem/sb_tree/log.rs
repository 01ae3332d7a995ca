//! A per-thread data block: entries in the order in which one thread inserts them.
//!
//! ```text
//!              prepare(g)            open                  close
//!   closed g' ───────────▶ closed g ─────▶ open g, 0 … n ───────▶ closed g, n: final
//! ```
//!
//! # Rules
//!
//! 1. One thread appends, its owner. It stores an entry behind the last, and then counts it by exchanging the word that
//!    holds generation, state and count.
//! 2. Who holds the index's role prepares, opens and closes logs. It opens those of a generation when readers are led to that
//!    generation. Closing changes the word, so an append under way fails: what is counted then is final.
//! 3. A generation never returns, so an append that began in one generation fails in every other. What it has stored lies
//!    behind what is counted, where only the owner writes.
//! 4. Readers look at counted entries only, and see whether the generation still holds when they have looked. A release fence
//!    precedes the stores of an entry: who saw anything of it sees, behind an acquire fence, that its generation has come.

use std::ops::Range;

use super::super::columns::Words;
use super::super::prefetch::prefetch_to_write;
use super::super::primitive::{AtomicU32, AtomicU64, Ordering, fence, interleave};
use super::super::search::lower_bound;
use super::writer_number::place_of;

/// Entries of a log. Small under test, so that segments are sealed all the time.
pub(super) const LOG_CAP: usize = if cfg!(loom) {
    2
} else if cfg!(any(test, miri)) {
    32
} else {
    4096
};

const LEN_MASK: u64 = (1 << 16) - 1;
const CLOSED: u64 = 1 << 16;
const STAMPED: u64 = 1 << 17;
const SEQUENCED: u64 = 1 << 18;
const GENERATION_SHIFT: u32 = 19;
const _: () = assert!(LOG_CAP as u64 <= LEN_MASK && LOG_CAP.is_power_of_two());

/// Keys of an ordered stretch that are searched with vectors, once halving has come so far.
const SEARCHED_AT_ONCE: usize = 32;

/// Words of a cache line.
const LINE: usize = 8;

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Log<W: Words> {
    word: AtomicU64,
    /// Keys up to this one do not belong here. Changes while the log is closed.
    floor: W::Columns<1>,
    capacity: AtomicU32,
    /// Not 0 if keys do not ascend; equal ones may follow each other.
    is_disordered: AtomicU32,
    keys: W::Columns<LOG_CAP>,
    values: [AtomicU64; LOG_CAP],
    stamps: [AtomicU64; LOG_CAP],
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Append {
    /// It is the log's entry of this number.
    Done(usize),
    /// It does not belong here, or there is no room.
    Refused,
}

/// A log's word at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted(u64);

impl Counted {
    pub(super) fn len(self) -> usize {
        ((self.0 & LEN_MASK) as usize).min(LOG_CAP)
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    pub(super) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    pub(super) fn is_stamped(self) -> bool {
        self.0 & (STAMPED | SEQUENCED) != 0
    }

    /// Whether entries of this kind may be appended, as far as their kind goes.
    pub(super) fn takes(self, kind: Kind) -> bool {
        self.0 & kind.other() == 0
    }
}

/// Where an entry stands among those of the same key: the greatest counts. The stamp or sequence number, 0 where there is
/// none; the place of the writer's log; the place in it.
pub(super) type Order = (u64, usize, usize);

/// An entry of a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<W> {
    pub(super) key: W,
    pub(super) order: Order,
    pub(super) value: u64,
}

/// What tells the order in which several writers inserted one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Stamps.
    Stamped,
    /// Numbers that callers bring.
    Sequenced,
}

impl Kind {
    /// The state of logs that take the other kind alone.
    const fn other(self) -> u64 {
        match self {
            Self::Stamped => SEQUENCED,
            Self::Sequenced => STAMPED,
        }
    }
}

impl<W: Words> Log<W> {
    /// A closed log.
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            word: AtomicU64::new(CLOSED),
            floor: W::new_columns(),
            capacity: AtomicU32::new(0),
            is_disordered: AtomicU32::new(0),
            keys: W::new_columns(),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
            stamps: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// Empties a closed log for a generation of keys above `floor`, with these entries, which ascend; the role's holder calls it
    /// (rule 2). Nobody else writes to the log ever, unless there are none.
    pub(super) fn prepare(
        &self,
        generation: u64,
        floor: W,
        capacity: usize,
        mode: Mode,
        entries: &[Entry<W>],
    ) {
        floor.store(&self.floor, 0);
        for (place, entry) in entries.iter().enumerate() {
            entry.key.store(&self.keys, place);
            self.values[place].store(entry.value, Ordering::Relaxed);
            self.stamps[place].store(entry.order.0, Ordering::Relaxed);
        }
        let capacity = u32::try_from(capacity.min(LOG_CAP)).unwrap_or(0);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.is_disordered.store(0, Ordering::Relaxed);
        let state = match mode {
            Mode::OneOfMany(Kind::Stamped) | Mode::Filled(Kind::Stamped) => STAMPED,
            Mode::OneOfMany(Kind::Sequenced) | Mode::Filled(Kind::Sequenced) => SEQUENCED,
            Mode::Sole | Mode::Nobody => 0,
        };
        self.word.store(
            generation << GENERATION_SHIFT | CLOSED | state | entries.len() as u64,
            Ordering::Release,
        );
    }

    /// Opens a log that was prepared, if in this mode its owner may write to it (rule 2).
    pub(super) fn open(&self, mode: Mode) {
        if matches!(mode, Mode::Sole | Mode::OneOfMany(_)) {
            self.word.fetch_and(!CLOSED, Ordering::AcqRel);
        }
    }

    /// Closes the log (rule 2); tells what is in it.
    pub(super) fn close(&self) -> Counted {
        Counted(self.word.fetch_or(CLOSED, Ordering::AcqRel))
    }

    /// What is in the log.
    pub(super) fn counted(&self) -> Counted {
        Counted(self.word.load(Ordering::Acquire))
    }

    /// Appends an entry; only its owner does (rule 1), if `may` still says so after the log was found to be open. `stamp`
    /// is asked where there are other writers.
    #[inline]
    pub(super) fn append(
        &self,
        (key, value): (W, u64),
        kind: Kind,
        may: impl FnOnce() -> bool,
        stamp: impl FnOnce() -> u64,
    ) -> Append {
        let word = self.word.load(Ordering::Acquire);
        let len = (word & LEN_MASK) as usize;
        let is_full = len >= self.capacity.load(Ordering::Relaxed) as usize;
        let is_open = word & (CLOSED | kind.other()) == 0 && !is_full && len < LOG_CAP;
        if !is_open || key <= W::load(&self.floor, 0) || !may() {
            return Append::Refused;
        }
        fence(Ordering::Release);
        if len > 0 && key < W::load(&self.keys, len - 1) {
            self.is_disordered.store(1, Ordering::Relaxed);
        }
        key.store(&self.keys, len);
        self.values[len].store(value, Ordering::Relaxed);
        if word & (STAMPED | SEQUENCED) != 0 {
            if len.is_multiple_of(LINE) {
                self.prefetch_to_append(len);
            }
            self.stamps[len].store(stamp(), Ordering::Relaxed);
        }
        interleave();
        let counted = self
            .word
            .compare_exchange(word, word + 1, Ordering::Release, Ordering::Relaxed);
        match counted {
            Ok(_) => Append::Done(len),
            Err(_) => Append::Refused,
        }
    }

    /// Whether counted keys may not ascend.
    #[inline]
    pub(super) fn is_disordered(&self) -> bool {
        self.is_disordered.load(Ordering::Relaxed) != 0
    }

    #[inline]
    pub(super) fn key(&self, index: usize) -> W {
        W::load(&self.keys, index)
    }

    #[inline]
    pub(super) fn value(&self, index: usize) -> u64 {
        self.values[index].load(Ordering::Relaxed)
    }

    /// Where an entry of this writer stands among those of its key, all writers' and its own.
    #[inline]
    pub(super) fn order(&self, index: usize, counted: Counted, writer: usize) -> Order {
        let stamp = if counted.is_stamped() {
            self.stamps[index].load(Ordering::Relaxed)
        } else {
            0
        };
        (stamp, place_of(writer), index)
    }

    /// Asks for the entries at these places, which another thread has written perhaps.
    pub(super) fn prefetch(&self, places: Range<usize>) {
        for place in places.step_by(LINE) {
            super::prefetch(W::only_column(&self.keys).and_then(|column| column.get(place)));
            super::prefetch(self.values.get(place));
        }
    }

    /// Asks for the lines that a few entries from now go to. Another thread has read them when it converted what they held
    /// before, and counting waits until they are the owner's again.
    #[inline]
    fn prefetch_to_append(&self, len: usize) {
        const AHEAD: usize = 24;
        let place = (len + AHEAD).min(LOG_CAP - 1);
        if let Some(column) = W::only_column(&self.keys) {
            prefetch_to_write(&column[place]);
        }
        prefetch_to_write(&self.values[place]);
    }

    /// An entry of this writer.
    #[inline]
    pub(super) fn entry(&self, index: usize, counted: Counted, writer: usize) -> Entry<W> {
        Entry {
            key: self.key(index),
            order: self.order(index, counted, writer),
            value: self.value(index),
        }
    }

    /// The last entry of a key among those counted.
    pub(super) fn find(&self, key: &W, counted: Counted) -> Option<usize> {
        let len = counted.len();
        if self.is_disordered() {
            return (0..len).rev().find(|&index| self.key(index) == *key);
        }
        let last = self.upper_bound(key, len).checked_sub(1)?;
        (self.key(last) == *key).then_some(last)
    }

    /// How many of the first `len` keys, which ascend, lie below `key`.
    pub(super) fn lower_bound(&self, key: &W, len: usize) -> usize {
        match key.predecessor() {
            Some(before) => self.upper_bound(&before, len),
            None => 0,
        }
    }

    /// How many of the first `len` keys, which ascend, are at most `key`. Whatever `len` is it looks at the same places, so that
    /// what a searcher has read of another thread's log stays with it: only the last places are new to it.
    pub(super) fn upper_bound(&self, key: &W, len: usize) -> usize {
        let (mut base, mut step) = (0, LOG_CAP);
        while step > SEARCHED_AT_ONCE {
            step /= 2;
            if base + step <= len && self.key(base + step - 1) <= *key {
                base += step;
            }
        }
        let len = step.min(len - base);
        if let (Some(column), Some(next)) = (W::only_column(&self.keys), key.first_word().checked_add(1)) {
            return base + lower_bound(&column[base..base + len], next);
        }
        base + (base..base + len)
            .filter(|&index| self.key(index) <= *key)
            .count()
    }

    /// Whether a key lies too low for the generation that the log holds.
    pub(super) fn is_late(&self, key: &W) -> bool {
        *key <= W::load(&self.floor, 0)
    }

    /// The greatest of the first `len` keys.
    pub(super) fn greatest(&self, len: usize) -> Option<W> {
        if self.is_disordered() {
            return (0..len).map(|index| self.key(index)).max();
        }
        Some(self.key(len.checked_sub(1)?))
    }
}

/// Who may write to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Its owner, who is the only writer of the segment: position is order.
    Sole,
    /// Its owner, as other logs' owners to theirs.
    OneOfMany(Kind),
    /// No one. What is in it is of this kind.
    Filled(Kind),
    /// No one.
    Nobody,
}
