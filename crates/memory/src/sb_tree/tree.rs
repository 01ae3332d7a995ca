//! The index, and the operations on one key.

use super::data::layer::Blocks;
use super::late::lanes::Lanes;
use super::segments::convert::{HELP_EVERY, Home, Next, Segments};
use super::segments::log::{Append, Log};
use super::segments::own_log::OwnLog;
use super::segments::stamps::{Stamps, UNSTAMPED};
use super::segments::writer_number::{WRITERS, writer_number};
use super::{SbTreeOptions, SbTreeWork};
use crate::map::key::Key;
use crate::map::memory_use::MemoryUse;
use crate::map::shared_map::shared_map;
use crate::sync::primitive::{Backoff, Mutex};

/// The writer number shared by all threads without a log of their own.
const SHARED_WRITER: usize = WRITERS - 1;

/// A concurrent ordered map from fixed-size keys to 8-byte values, for keys that arrive nearly in
/// order.
///
/// A key above all earlier ones is appended to a log of the calling thread, in O(1), without
/// touching memory that other threads write. Logs are merged into sorted blocks in small steps,
/// which the inserting threads share. A late key takes O(log n); up to 32 per thread wait in a
/// lane, where other threads find them, and go to blocks together. A lookup takes O(log n) and
/// writes no shared memory, except where late keys wait: there it counts, and eventually drains
/// them into blocks. A range takes O(log n) to begin with, and O(1) for each entry; it first drains
/// late keys in its range into blocks, and sorts them. Removing a key that is not in a block yet
/// first converts the logs.
///
/// Memory of removed entries is reused, and returns to the system with the index.
///
/// Up to 63 threads have logs and lanes of their own; the others share one of each behind a mutex,
/// so their inserts wait for each other. Threads are counted over all indexes of the process: a
/// thread gets the least free number at its first insert into any `SbTree` and keeps it until it
/// ends. So in a process with more threads that insert, the first 63 of them have their own logs
/// in every index. Lookups, ranges and removals need no number.
///
/// ```
/// use bedload_memory::SbTree;
///
/// let tree = SbTree::<u64>::new();
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let tree = &tree;
///         scope.spawn(move || (0..1000).for_each(|n| tree.insert(4 * n + thread, n)));
///     }
/// });
/// assert_eq!(tree.get(2001), Some(500));
/// assert_eq!(tree.range(10..20).count(), 10);
/// assert_eq!(tree.remove(2001), Some(500));
/// assert_eq!(tree.last(), Some((3999, 999)));
/// ```
pub struct SbTree<K: Key> {
    pub(crate) blocks: Blocks<K::Words>,
    pub(crate) segments: Segments<K::Words>,
    pub(crate) lanes: Lanes<K::Words>,
    pub(crate) stamps: Stamps,
    own_logs: Box<[OwnLog<K::Words>]>,
    /// Held while [`SHARED_WRITER`] writes.
    shared_writer: Mutex<()>,
}

impl<K: Key> SbTree<K> {
    /// Creates an empty index with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(SbTreeOptions::new())
    }

    /// Creates an empty index.
    #[must_use]
    pub fn with_options(options: SbTreeOptions) -> Self {
        Self {
            blocks: Blocks::new(),
            segments: Segments::new(options.log_entries_max, K::PADDING_BITS),
            lanes: Lanes::new(K::PADDING_BITS),
            stamps: Stamps::new(options.processor_stamps),
            own_logs: (0..WRITERS).map(|_| OwnLog::new()).collect(),
            shared_writer: Mutex::new(()),
        }
    }

    /// Reserves and touches memory for `entries` entries that arrive in order, so that inserts do
    /// not wait for page faults.
    pub fn reserve(&self, entries: usize) {
        self.blocks.reserve(entries);
    }

    /// Inserts `key`, or replaces its value.
    #[inline]
    pub fn insert(&self, key: K, value: u64) {
        let key = key.to_words();
        match writer_number() {
            Some(writer) if writer < SHARED_WRITER => self.insert_as(writer, key, value),
            _ => self.insert_as_one_of_many(key, value),
        }
    }

    #[cold]
    fn insert_as_one_of_many(&self, key: K::Words, value: u64) {
        let _writing = self
            .shared_writer
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.insert_as(SHARED_WRITER, key, value);
    }

    /// Inserts as the given writer, a number that one thread at a time uses.
    #[inline]
    pub(crate) fn insert_as(&self, writer: usize, key: K::Words, value: u64) {
        if !self.append_as(writer, (key, value)) {
            self.insert_refused(writer, key, value);
        }
    }

    /// Appends an entry to the writer's log or lane; `false` if both refuse it.
    #[inline]
    fn append_as(&self, writer: usize, entry: (K::Words, u64)) -> bool {
        let Some(log) = self.own_logs[writer].get() else {
            return false;
        };
        match self.append(log, writer, entry) {
            Append::Done(number) => {
                if number % HELP_EVERY == HELP_EVERY - 1 {
                    self.segments.help(writer, number, &self.blocks);
                }
                true
            }
            Append::Refused => log.is_late(&entry.0) && self.lanes.append(writer, entry),
        }
    }

    #[inline]
    fn append(&self, log: &Log<K::Words>, writer: usize, (key, value): (K::Words, u64)) -> Append {
        log.append((key, value), || {
            if self.segments.owners.is_sole(writer, &key) {
                UNSTAMPED
            } else {
                self.stamps.next()
            }
        })
    }

    /// Inserts an entry that the writer's log has refused.
    #[cold]
    fn insert_refused(&self, writer: usize, key: K::Words, value: u64) {
        // A key that a block covers belongs there: that is faster to find than segment and edge.
        let is_late = self.own_logs[writer].get().is_some_and(|log| log.is_late(&key));
        if is_late && self.insert_late(writer, key, value) {
            return;
        }
        let mut backoff = Backoff::default();
        loop {
            match self.segments.home(&key) {
                None => backoff.wait(),
                Some(Home::Blocks) => {
                    if self.insert_late(writer, key, value) {
                        return;
                    }
                    backoff.wait();
                }
                Some(Home::Sealed(..)) => self.segments.convert_up_to(&key, &self.blocks),
                Some(Home::Open(_)) => {
                    let own = &self.own_logs[writer];
                    let next = Next { writer, key };
                    if let Some(log) = self.segments.make_room(next, &self.blocks) {
                        own.set(log);
                        if self.append(log, writer, (key, value)) != Append::Refused {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Inserts a key that belongs to blocks; `false` if it does not.
    #[inline]
    fn insert_late(&self, writer: usize, key: K::Words, value: u64) -> bool {
        self.lanes
            .insert(writer, (key, value), &self.segments.edge, &self.blocks)
    }

    /// Returns the value of `key`.
    #[must_use]
    #[inline]
    pub fn get(&self, key: K) -> Option<u64> {
        let key = key.to_words();
        // No block covers it, so the descent is spared.
        if self.segments.edge.is_below(&key) {
            return self.get_newest(&key);
        }
        if !self.lanes.are_empty()
            && let Some(value) = self.lanes.get(&key, &self.blocks)
        {
            return Some(value);
        }
        match self.blocks.get(&key) {
            Some(value) => value,
            None => self.get_newest(&key),
        }
    }

    /// Returns the value of a key that no block covered a moment ago.
    fn get_newest(&self, key: &K::Words) -> Option<u64> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(Home::Open(view) | Home::Sealed(view, _)) = self.segments.home(key) {
                let value = view.get(key);
                if view.is_valid() && self.segments.edge.get() < *key {
                    return value;
                }
            }
            if let Some(value) = self.blocks.get(key) {
                return value;
            }
            backoff.wait();
        }
    }

    /// Returns whether `key` is present.
    #[must_use]
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// Removes `key` and returns the value it had.
    pub fn remove(&self, key: K) -> Option<u64> {
        let words = key.to_words();
        loop {
            let removed = self
                .lanes
                .change(&words, &self.blocks, |may| self.blocks.remove(&words, may));
            if let Some(removed) = removed {
                return removed;
            }
            // Only blocks support removal. An absent key needs no conversion.
            self.get_newest(&words)?;
            self.segments.convert_up_to(&words, &self.blocks);
        }
    }

    /// Converts all sealed entries: then only those of the open segment are not in blocks, and the
    /// search layer knows all blocks. Inserts do this bit by bit; call it before measurements, or
    /// when no more inserts are to come.
    pub fn settle(&self) {
        let mut role = self.segments.role();
        self.segments.convert(&mut role, &self.blocks);
        self.lanes.drain_all(&self.blocks);
    }

    /// Counts the work of the index besides inserting and looking up.
    #[must_use]
    pub fn work(&self) -> SbTreeWork {
        let (seals, steps) = self.segments.counts();
        let (walks, walked) = self.blocks.walks();
        SbTreeWork {
            seals,
            steps,
            walks,
            walked,
            drains: self.lanes.drains(),
            pending: self.segments.pending() + self.lanes.entries(),
        }
    }

    /// Where the memory goes. While others write, some of it may be missed. Takes O(n).
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        let mut memory = MemoryUse::default();
        self.blocks.add_memory_use(&mut memory);
        let pending = self.segments.pending() * (size_of::<K::Words>() + size_of::<u64>());
        memory.entries_occupied += pending;
        memory.metadata +=
            self.lanes.bytes() + size_of_val(&*self.own_logs) + self.segments.log_bytes() - pending;
        memory
    }

    /// Checks the index's invariants. Takes O(n). No other operation may be under way.
    ///
    /// # Errors
    ///
    /// The invariant that does not hold, and where.
    pub fn check_structure(&self) -> Result<(), String> {
        let top = self.blocks.check()?;
        self.segments.check()?;
        let edge = self.segments.edge.get();
        if top == edge {
            Ok(())
        } else {
            Err(format!("blocks end at {top:?}, the edge is {edge:?}"))
        }
    }
}

shared_map!(SbTree);
