//! A per-thread data block: entries in the order in which one thread inserts them.
//!
//! ```text
//!              prepare(g)            open          begin_close                 end_close
//!   closed g' ───────────▶ closed g ─────▶ open g ───────────▶ being closed g ─────────▶ closed g, with n entries
//! ```
//!
//! # Rules
//!
//! 1. One thread appends, the owner. It stores an entry after the last, counts it in a word that
//!    only it writes, with the generation, and checks whether the log is still open: then the entry
//!    is appended. So no instruction waits for the cache lines that it stores to, which another
//!    core may have read.
//! 2. The holder of the index's role prepares, opens and closes logs, and writes all other fields.
//!    It opens those of a generation when readers are directed to that generation. To close a log
//!    it changes the state, passes a fence, and reads the owner's count; the owner passes a fence
//!    between its count and its read of the state
//!    ([`asymmetric_fence`](crate::sync::asymmetric_fence)): the count includes the entry, or the
//!    owner sees the close. If both, the owner waits for the count with which the log is closed. An
//!    owner that has acknowledged the close, or whose log is full, appends no more: then the
//!    expensive half of the fences is not needed.
//! 3. A generation never returns, and entries counted in one do not count in any other. An append
//!    that began in an earlier generation has stored its entry after the counted ones, where only
//!    the owner writes. The count with which a log was closed is kept until it is closed again with
//!    entries: an owner finds the answer whenever it looks.
//! 4. Readers read counted entries only, and then check whether the generation is still current.
//!    They load the owner's count before the state, with a fence between the two: if the log was
//!    open, the entries of that count are included when it is closed. While it is being closed they
//!    wait. A release fence precedes the stores of an entry: a thread that sees any of them sees,
//!    after an acquire fence, the new generation.
//! 5. When the first key of a generation is less than the one before, the owner chains all entries
//!    by hash ([`chains`](super::chains)), notes the generation, and counts the entry: a reader
//!    that has loaded a count with the entry sees both. From then on it chains each entry before it
//!    counts it. A generation is noted once, so what is noted for a later one is built by stores
//!    that rule 4 covers, and chains that an append of an earlier generation builds are not used.

use std::ops::Range;

use super::chains::Chains;
use super::writer_number::place_of;
use crate::search::columns::Words;
use crate::search::prefetch::{prefetch_some, prefetch_to_write};
use crate::search::words::lower_bound;
use crate::sync::asymmetric_fence;
use crate::sync::primitive::{AtomicU32, AtomicU64, Backoff, Ordering, fence, interleave};

/// Capacity of a log in entries. Small under test, so that segments are sealed often.
pub(crate) const LOG_CAP: usize = if cfg!(loom) {
    2
} else if cfg!(any(test, miri)) {
    32
} else {
    4096
};

const LEN_MASK: u64 = (1 << 16) - 1;
/// In the owner's count: the owner has acknowledged the close.
const CLOSED: u64 = 1 << 16;
const STAMPED: u64 = 1 << 17;
/// Closed; the final count is not set yet.
const BEING_CLOSED: u64 = 1 << 18;
const GENERATION_SHIFT: u32 = 19;
const GENERATION_MASK: u64 = u64::MAX << GENERATION_SHIFT;
/// How often the owner's count is polled before the expensive fence.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 64 };
const _: () = assert!(LOG_CAP as u64 <= LEN_MASK && LOG_CAP.is_power_of_two());

/// Keys of an ordered stretch at which bisection ends and a vector search begins.
const SEARCHED_AT_ONCE: usize = 32;

/// Words per cache line.
const LINE: usize = 8;

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Log<W: Words> {
    /// Generation and state.
    state: AtomicU64,
    /// Keys up to this one do not belong here. Changes only while the log is closed.
    floor: W::KeyColumns<1>,
    capacity: AtomicU32,
    /// The last generation that had entries when it was closed, and their number.
    closed_with: AtomicU64,
    count: Count,
    keys: W::KeyColumns<LOG_CAP>,
    values: [AtomicU64; LOG_CAP],
    stamps: [AtomicU64; LOG_CAP],
    /// Finds keys in the generation of [`Count::disordered_in`].
    chains: Chains<LOG_CAP>,
}

/// The owner's count, in a cache line that only the owner writes.
#[derive(Debug)]
#[repr(align(64))]
struct Count {
    /// The generation in which the owner appended last, and the number of entries.
    word: AtomicU64,
    /// The last generation in which keys did not ascend; equal ones may follow each other.
    disordered_in: AtomicU64,
}

/// Outcome of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Append {
    /// Appended as the log's entry of this number.
    Done(usize),
    /// The key does not belong here, or there is no room.
    Refused,
}

/// A log's state and number of entries at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted(u64);

impl Counted {
    pub(crate) fn len(self) -> usize {
        ((self.0 & LEN_MASK) as usize).min(LOG_CAP)
    }

    pub(crate) fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    pub(crate) fn is_stamped(self) -> bool {
        self.0 & STAMPED != 0
    }
}

/// The order of an entry among those of the same key, of which each is the last of its log: the
/// greatest wins. The stamp, or 0; the position of the writer's log; the position in it.
pub(crate) type Order = (u64, usize, usize);

/// An entry of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEntry<W> {
    pub(crate) key: W,
    pub(crate) order: Order,
    pub(crate) value: u64,
}

impl<W: Words> Log<W> {
    /// Creates a closed log.
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            state: AtomicU64::new(CLOSED),
            floor: W::new_columns(),
            capacity: AtomicU32::new(0),
            closed_with: AtomicU64::new(0),
            count: Count {
                word: AtomicU64::new(0),
                disordered_in: AtomicU64::new(0),
            },
            keys: W::new_columns(),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
            stamps: std::array::from_fn(|_| AtomicU64::new(0)),
            chains: Chains::new(),
        })
    }

    /// Resets a closed log for a generation of keys above `floor`, with these entries, which
    /// ascend; the role's holder calls it (rule 2). A log prepared with entries is never written by
    /// another thread.
    pub(crate) fn prepare(
        &self,
        generation: u64,
        floor: W,
        capacity: usize,
        mode: Mode,
        entries: &[LogEntry<W>],
    ) {
        floor.store(&self.floor, 0);
        for (place, entry) in entries.iter().enumerate() {
            entry.key.store(&self.keys, place);
            self.values[place].store(entry.value, Ordering::Relaxed);
            self.stamps[place].store(entry.order.0, Ordering::Relaxed);
        }
        let capacity = u32::try_from(capacity.min(LOG_CAP)).unwrap_or(0);
        self.capacity.store(capacity, Ordering::Relaxed);
        let generation = generation << GENERATION_SHIFT;
        if !entries.is_empty() {
            let filled = generation | entries.len() as u64;
            self.closed_with.store(filled, Ordering::Release);
        }
        let state = match mode {
            Mode::OneOfMany | Mode::Filled => STAMPED,
            Mode::Sole | Mode::Nobody => 0,
        };
        self.state.store(generation | CLOSED | state, Ordering::Release);
    }

    /// Opens a prepared log, if this mode lets its owner write to it (rule 2).
    pub(crate) fn open(&self, mode: Mode) {
        if matches!(mode, Mode::Sole | Mode::OneOfMany) {
            let state = self.state.load(Ordering::Relaxed);
            self.state.store(state & !CLOSED, Ordering::Release);
        }
    }

    /// Begins to close the log (rule 2); returns whether it was open.
    pub(crate) fn begin_close(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let is_open = state & CLOSED == 0;
        if is_open {
            self.state.store(state | CLOSED | BEING_CLOSED, Ordering::Release);
        }
        is_open
    }

    /// Returns whether the closing thread can see that the owner appends no more. Polls for a
    /// moment: an owner that inserts, even late keys, sees the close at its next insert.
    pub(crate) fn is_left(&self) -> bool {
        let generation = self.state.load(Ordering::Relaxed) & GENERATION_MASK;
        for _ in 0..LOOKS {
            let count = self.count.word.load(Ordering::Acquire);
            let is_full = count & LEN_MASK >= u64::from(self.capacity.load(Ordering::Relaxed));
            if count & GENERATION_MASK == generation && (count & CLOSED != 0 || is_full) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Completes the close of a log that its owner has left, or after a fence since it began;
    /// returns the final state.
    pub(crate) fn end_close(&self) -> Counted {
        let state = self.state.load(Ordering::Relaxed);
        if state & BEING_CLOSED != 0 {
            let len = Self::len_in(self.count.word.load(Ordering::Acquire), state);
            if len > 0 {
                let closed_with = state & GENERATION_MASK | len as u64;
                self.closed_with.store(closed_with, Ordering::Release);
            }
            self.state.store(state & !BEING_CLOSED, Ordering::Release);
        }
        self.counted()
    }

    /// Closes the log, whichever thread appends to it.
    #[cfg(test)]
    pub(crate) fn close(&self) -> Counted {
        if self.begin_close() && !self.is_left() {
            asymmetric_fence::heavy();
        }
        self.end_close()
    }

    /// Returns how many entries a word counts in the generation of this state.
    #[inline]
    const fn len_in(word: u64, state: u64) -> usize {
        if (word ^ state) & GENERATION_MASK == 0 {
            (word & LEN_MASK) as usize
        } else {
            0
        }
    }

    /// Returns the state and number of entries.
    pub(crate) fn counted(&self) -> Counted {
        let mut backoff = Backoff::default();
        loop {
            let count = self.count.word.load(Ordering::Acquire);
            asymmetric_fence::light();
            let state = self.state.load(Ordering::Acquire);
            let word = match state & (CLOSED | BEING_CLOSED) {
                0 => count,
                CLOSED => self.closed_with.load(Ordering::Acquire),
                _ => {
                    backoff.wait();
                    continue;
                }
            };
            return Counted(state | Self::len_in(word, state) as u64);
        }
    }

    /// Appends an entry; only its owner calls it (rule 1). `stamp` is called if there are other
    /// writers.
    #[inline]
    pub(crate) fn append(&self, (key, value): (W, u64), stamp: impl FnOnce() -> u64) -> Append {
        let state = self.state.load(Ordering::Acquire);
        let len = Self::len_in(self.count.word.load(Ordering::Relaxed), state);
        let is_full = len >= self.capacity.load(Ordering::Relaxed) as usize;
        let is_open = state & CLOSED == 0 && !is_full && len < LOG_CAP;
        if !is_open || key <= W::load(&self.floor, 0) {
            if state & BEING_CLOSED != 0 {
                self.leave(state, len);
            }
            return Append::Refused;
        }
        fence(Ordering::Release);
        key.store(&self.keys, len);
        self.values[len].store(value, Ordering::Relaxed);
        if state & STAMPED != 0 {
            if len.is_multiple_of(LINE) {
                self.prefetch_to_append(len);
            }
            self.stamps[len].store(stamp(), Ordering::Relaxed);
        }
        if self.count.disordered_in.load(Ordering::Relaxed) == state >> GENERATION_SHIFT {
            self.chains.add(key.quick_hash(), len);
        } else if len > 0 && key < W::load(&self.keys, len - 1) {
            self.begin_chains(len + 1, state >> GENERATION_SHIFT);
        }
        interleave();
        let count = state & GENERATION_MASK | (len + 1) as u64;
        self.count.word.store(count, Ordering::Release);
        asymmetric_fence::light();
        if self.state.load(Ordering::Acquire) == state || self.is_closed_with(len, state) {
            Append::Done(len)
        } else {
            Append::Refused
        }
    }

    /// Chains the first `len` entries: their keys, which ascended up to the last, no longer do.
    /// Only the owner calls it (rule 5).
    #[cold]
    fn begin_chains(&self, len: usize, generation: u64) {
        self.chains.clear();
        for place in 0..len {
            self.chains.add(self.key(place).quick_hash(), place);
        }
        self.count.disordered_in.store(generation, Ordering::Release);
    }

    /// Acknowledges, with the final count, that the log is being closed.
    #[cold]
    fn leave(&self, state: u64, len: usize) {
        let count = state & GENERATION_MASK | CLOSED | len as u64;
        self.count.word.store(count, Ordering::Release);
    }

    /// Whether the owner's last entry, which it has counted as that of this number, is among those
    /// that the log was closed with after it was in this state.
    #[cold]
    fn is_closed_with(&self, number: usize, state: u64) -> bool {
        let mut backoff = Backoff::default();
        loop {
            let now = self.state.load(Ordering::Acquire);
            if (now ^ state) & GENERATION_MASK != 0 || now & BEING_CLOSED == 0 {
                break;
            }
            self.leave(state, number + 1);
            backoff.wait();
        }
        number < Self::len_in(self.closed_with.load(Ordering::Acquire), state)
    }

    /// Returns whether the counted keys may not ascend.
    #[inline]
    pub(crate) fn is_disordered(&self, counted: Counted) -> bool {
        self.count.disordered_in.load(Ordering::Acquire) == counted.generation()
    }

    #[inline]
    pub(crate) fn key(&self, index: usize) -> W {
        W::load(&self.keys, index)
    }

    #[inline]
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.values[index].load(Ordering::Relaxed)
    }

    /// Returns the order of an entry among those of its key, of all writers.
    #[inline]
    pub(crate) fn order(&self, index: usize, counted: Counted, writer: usize) -> Order {
        let stamp = if counted.is_stamped() {
            self.stamps[index].load(Ordering::Relaxed)
        } else {
            0
        };
        (stamp, place_of(writer), index)
    }

    /// Prefetches the entries at these positions, which another core may have written.
    pub(crate) fn prefetch(&self, places: Range<usize>) {
        for place in places.step_by(LINE) {
            prefetch_some(W::only_column(&self.keys).and_then(|column| column.get(place)));
            prefetch_some(self.values.get(place));
        }
    }

    /// Prefetches the lines of the next few entries for writing. Another core has read them when it
    /// converted their old contents, and counting waits until they are exclusive again.
    #[inline]
    fn prefetch_to_append(&self, len: usize) {
        const AHEAD: usize = 24;
        let place = (len + AHEAD).min(LOG_CAP - 1);
        if let Some(column) = W::only_column(&self.keys) {
            prefetch_to_write(&column[place]);
        }
        prefetch_to_write(&self.values[place]);
    }

    /// Returns an entry of this writer.
    #[inline]
    pub(crate) fn entry(&self, index: usize, counted: Counted, writer: usize) -> LogEntry<W> {
        LogEntry {
            key: self.key(index),
            order: self.order(index, counted, writer),
            value: self.value(index),
        }
    }

    /// Returns the position of the last counted entry of a key.
    pub(crate) fn find(&self, key: &W, counted: Counted) -> Option<usize> {
        let len = counted.len();
        if self.is_disordered(counted) {
            let is_sought = |place| self.key(place) == *key;
            return self.chains.find(key.quick_hash(), len, is_sought);
        }
        // Most absent keys that a log is asked for lie above all others.
        let last = len.checked_sub(1).filter(|&last| *key <= self.key(last))?;
        if self.key(last) == *key {
            return Some(last);
        }
        let last = self.upper_bound(key, len).checked_sub(1)?;
        (self.key(last) == *key).then_some(last)
    }

    /// Returns how many of the first `len` keys, which ascend, lie below `key`.
    pub(crate) fn lower_bound(&self, key: &W, len: usize) -> usize {
        match key.predecessor() {
            Some(before) => self.upper_bound(&before, len),
            None => 0,
        }
    }

    /// Returns how many of the first `len` keys, which ascend, are at most `key`. It probes the
    /// same positions for any `len`, so that lines read from another thread's log stay cached: only
    /// the last positions are new.
    pub(crate) fn upper_bound(&self, key: &W, len: usize) -> usize {
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

    /// Returns whether a key is too low for the log's generation.
    pub(crate) fn is_late(&self, key: &W) -> bool {
        *key <= W::load(&self.floor, 0)
    }

    /// Returns the greatest of the first `len` keys.
    pub(crate) fn greatest(&self, len: usize, is_disordered: bool) -> Option<W> {
        if is_disordered {
            return (0..len).map(|index| self.key(index)).max();
        }
        Some(self.key(len.checked_sub(1)?))
    }
}

/// The permitted writers of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Its owner, the only writer of the segment: position is order.
    Sole,
    /// Its owner, beside owners of other logs.
    OneOfMany,
    /// None; the log was filled with stamped entries.
    Filled,
    /// None.
    Nobody,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use bedload_testkit::Rng;

    use super::*;

    /// Uses the fences of the system, which models do not cover.
    #[test]
    fn what_is_appended_is_what_the_log_is_closed_with() {
        let (generations, entries) = if cfg!(miri) { (30, 30) } else { (20_000, 2_000) };
        asymmetric_fence::prepare();
        let log = Log::<[u64; 1]>::new();
        let is_over = AtomicBool::new(false);
        let mut closed_with = Vec::new();
        let appended = std::thread::scope(|scope| {
            let owner = scope.spawn(|| {
                let mut appended = Vec::new();
                let mut key = 0;
                while !is_over.load(Ordering::Relaxed) {
                    key += 1;
                    if log.append(([key], !key), || key) != Append::Refused {
                        appended.push(key);
                    }
                }
                appended
            });
            let mut rng = Rng::new(1);
            let mut generation = 0;
            // The owner may have to wait for a core.
            while generation < generations || closed_with.len() < entries {
                generation += 1;
                let mode = Mode::OneOfMany;
                log.prepare(generation, [0], LOG_CAP, mode, &[]);
                log.open(mode);
                (0..rng.below(100)).for_each(|_| std::hint::spin_loop());
                let seen = log.counted().len();
                let counted = log.close();
                assert!(seen <= counted.len(), "what was counted is no more");
                for place in 0..counted.len() {
                    let [key] = log.key(place);
                    assert_eq!(log.value(place), !key);
                    closed_with.push(key);
                }
            }
            is_over.store(true, Ordering::Relaxed);
            owner.join().expect("the owner ends")
        });
        assert_eq!(appended, closed_with);
    }
}
