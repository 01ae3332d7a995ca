//! The index, and the operations on one key.

use std::ops::Bound;
use std::sync::PoisonError;

use crossbeam_epoch as epoch;

use super::layout::{Home, Layout, Part};
use super::maps::Maps;
use super::measure::{WINDOW, WriteWindow};
use super::options::{HeadIndexOptions, HeadKind, HeadWork};
use super::presence::{Barrier, Present, WriterSlot};
use super::role::{Role, UNITED_FROM};
use crate::map::key::Key;
use crate::map::memory_use::MemoryUse;
use crate::map::shared_map::shared_map;
use crate::sb_tree::writer_number;
use crate::sb_tree::{Appended, WRITERS};
use crate::search::columns::Words;
use crate::sync::primitive::{Backoff, Mutex, MutexGuard, Ordering, interleave};

/// The slot shared by all threads that have none of their own.
const SHARED_SLOT: usize = WRITERS - 1;
/// Writes of a thread between two attempts to move a chunk.
const HELP_EVERY: usize = if cfg!(any(test, miri, loom)) { 4 } else { 128 };

/// A concurrent ordered map from fixed-size keys to 8-byte values that adapts to its input. New
/// keys go to an [`SbTree`](crate::sb_tree::SbTree) while most keys arrive nearly in order, to a
/// [`BlinkHash`](crate::blink::hash::BlinkHash) when most are late, and to a
/// [`BlinkTree`](crate::blink::tree::BlinkTree) when the newest keys are removed again.
///
/// A change of destination moves nothing, loses nothing and blocks no thread: keys up to a limit
/// a little above the greatest so far stay where they are, keys above it go to the new *head*.
/// At most eight such parts exist; at or above four, inserts unite them bit by bit.
///
/// An insert costs what it costs in the head, plus updates of a few words that only its thread
/// writes; a lookup or a range costs what it costs in the maps that have the keys, plus a search
/// of eight limits.
///
/// ```
/// use bedload_memory::{HeadIndex, HeadKind};
///
/// let index = HeadIndex::<u64>::new();
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let index = &index;
///         scope.spawn(move || (0..1000).for_each(|n| index.insert(4 * n + thread, n)));
///     }
/// });
/// assert_eq!(index.head(), HeadKind::SbTree);
/// assert_eq!(index.get(2001), Some(500));
/// assert_eq!(index.range(10..20).count(), 10);
/// assert_eq!(index.remove(2001), Some(500));
/// assert_eq!(index.last(), Some((3999, 999)));
/// ```
pub struct HeadIndex<K: Key> {
    pub(super) layout: Layout<K::Words>,
    pub(super) maps: Maps<K>,
    pub(super) slots: Box<[WriterSlot<K::Words>]>,
    pub(super) barrier: Barrier,
    role: Mutex<Role<K::Words>>,
    /// Held while [`SHARED_SLOT`] is used.
    shared_slot: Mutex<()>,
    options: HeadIndexOptions,
}

/// Returns the number of the calling thread's slot; `None` if it uses the shared one.
#[inline]
pub(super) fn own_writer() -> Option<usize> {
    writer_number().filter(|&writer| writer < SHARED_SLOT)
}

impl<K: Key> HeadIndex<K> {
    /// Creates an empty index with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(HeadIndexOptions::new())
    }

    /// Creates an empty index.
    #[must_use]
    pub fn with_options(options: HeadIndexOptions) -> Self {
        let maps = Maps::new();
        maps.make(options.first);
        Self {
            layout: Layout::new(options.first),
            maps,
            slots: (0..WRITERS).map(|_| WriterSlot::new()).collect(),
            barrier: Barrier::new(),
            role: Mutex::new(Role::new()),
            shared_slot: Mutex::new(()),
            options,
        }
    }

    /// Reserves and touches memory for `entries` entries that arrive in order.
    pub fn reserve(&self, entries: usize) {
        self.maps.sb_tree.reserve(entries);
    }

    /// Inserts `key`, or replaces its value.
    #[inline]
    pub fn insert(&self, key: K, value: u64) {
        match own_writer() {
            Some(writer) => self.insert_as(writer, key, value),
            None => self.with_shared_slot(|slot| {
                let present = slot.enter(self.barrier);
                self.insert_elsewhere(None, slot, present, (key, value));
            }),
        }
    }

    /// Inserts as the given writer, a number that one thread at a time uses.
    #[inline]
    pub(super) fn insert_as(&self, writer: usize, key: K, value: u64) {
        let slot = &self.slots[writer];
        let words = key.to_words();
        let leases = || slot.leases(&words, self.layout.generation());
        match self.maps.sb_tree.append_as(writer, (words, value), leases) {
            Appended::ToLog(number) if number % HELP_EVERY == HELP_EVERY - 1 => {
                slot.note_appended(HELP_EVERY as u64);
                self.help(Some(writer), slot, &words);
            }
            Appended::ToLog(_) | Appended::ToLane => {}
            Appended::Nowhere => self.insert_refused(writer, slot, (key, value)),
        }
    }

    /// Inserts an entry that the writer's log and lane have refused.
    #[inline(never)]
    fn insert_refused(&self, writer: usize, slot: &WriterSlot<K::Words>, (key, value): (K, u64)) {
        let words = key.to_words();
        let present = slot.enter(self.barrier);
        if slot.leases(&words, self.layout.generation()) {
            self.maps.sb_tree.insert_refused(writer, words, value);
            drop(present);
            let taken = self.maps.sb_tree.taken_by_lane(writer);
            self.note(Some(writer), slot, &words, slot.note_lane(taken));
        } else {
            self.insert_elsewhere(Some(writer), slot, present, (key, value));
        }
    }

    #[cold]
    fn with_shared_slot<T>(&self, write: impl FnOnce(&WriterSlot<K::Words>) -> T) -> T {
        let _writing = self.shared_slot.lock().unwrap_or_else(PoisonError::into_inner);
        write(&self.slots[SHARED_SLOT])
    }

    /// Inserts a key that the slot's lease does not cover.
    fn insert_elsewhere<'s>(
        &self,
        writer: Option<usize>,
        slot: &'s WriterSlot<K::Words>,
        mut present: Present<'s, K::Words>,
        (key, value): (K, u64),
    ) {
        let words = key.to_words();
        let mut backoff = Backoff::default();
        loop {
            match self.layout.home(&words) {
                Home::Here(part, limit) => {
                    slot.take_lease(&part, limit);
                    interleave();
                    if self.maps.insert(part.kind, writer, key, value) {
                        break;
                    }
                }
                Home::Above => self.layout.raise(&words, slot.writes_since_raise()),
                Home::Frozen => {
                    drop(present);
                    self.give_way(writer, &mut backoff);
                    present = slot.enter(self.barrier);
                }
            }
        }
        drop(present);
        self.note(writer, slot, &words, 0);
    }

    /// Thaws the chunk that is in the way, or helps to finish its move.
    #[cold]
    fn give_way(&self, writer: Option<usize>, backoff: &mut Backoff) {
        if self.layout.thaw() {
            return;
        }
        if let Ok(mut role) = self.role.try_lock() {
            self.unite_some(&mut role, writer);
        }
        backoff.wait();
    }

    /// Counts an insert, and `before` inserts that went to a lane before it; all are late if it is.
    fn note(&self, writer: Option<usize>, slot: &WriterSlot<K::Words>, key: &K::Words, before: u64) {
        slot.note_late(key, before + 1);
        if slot.may_help() {
            self.help(writer, slot, key);
        }
    }

    /// Ends the window if it is time, and moves a chunk if there is one and the role is free.
    #[cold]
    fn help(&self, writer: Option<usize>, slot: &WriterSlot<K::Words>, key: &K::Words) {
        slot.note_help();
        let Ok(mut role) = self.role.try_lock() else {
            return;
        };
        if let Some(window) = slot.end_window(key) {
            let head = self.head();
            let number = writer.unwrap_or(SHARED_SLOT);
            if let Some(kind) = role.gauge.take(number, &window, head, &self.options)
                && self.options.adapts
            {
                self.switch(&mut role, kind);
            }
        }
        if self.layout.len_now() >= UNITED_FROM {
            self.unite_some(&mut role, writer);
        }
    }

    /// Takes the role, waiting for its holder.
    pub(super) fn role(&self) -> MutexGuard<'_, Role<K::Words>> {
        let mut backoff = Backoff::default();
        loop {
            match self.role.try_lock() {
                Ok(role) => return role,
                Err(_) => backoff.wait(),
            }
        }
    }

    /// Returns the value of `key`.
    #[must_use]
    #[inline]
    pub fn get(&self, key: K) -> Option<u64> {
        let words = key.to_words();
        loop {
            let part = self.layout.part_of(&words);
            let value = self.maps.get(part.kind, key);
            if let Some(value) = value.filter(|_| self.layout.stands(&part)) {
                return value;
            }
        }
    }

    /// Returns whether `key` is present.
    #[must_use]
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// Removes `key` and returns the value it had.
    pub fn remove(&self, key: K) -> Option<u64> {
        match own_writer() {
            Some(writer) => self.remove_as(writer, key),
            None => self.with_shared_slot(|slot| self.remove_in(None, slot, key)),
        }
    }

    /// Removes as the given writer, a number that one thread at a time uses.
    pub(super) fn remove_as(&self, writer: usize, key: K) -> Option<u64> {
        self.remove_in(Some(writer), &self.slots[writer], key)
    }

    fn remove_in(&self, writer: Option<usize>, slot: &WriterSlot<K::Words>, key: K) -> Option<u64> {
        let words = key.to_words();
        let mut backoff = Backoff::default();
        let removed = loop {
            let present = slot.enter(self.barrier);
            match self.layout.home(&words) {
                Home::Here(part, _) => {
                    interleave();
                    if let Some(removed) = self.maps.remove(part.kind, key) {
                        break removed;
                    }
                }
                // No key is above the limit (rule 2).
                Home::Above => break None,
                Home::Frozen => {
                    drop(present);
                    self.give_way(writer, &mut backoff);
                }
            }
        };
        slot.note_removal(&words);
        if slot.may_help() {
            self.help(writer, slot, &words);
        }
        removed
    }

    /// Returns the kind of the head.
    #[must_use]
    pub fn head(&self) -> HeadKind {
        self.head_part().kind
    }

    fn head_part(&self) -> Part<K::Words> {
        self.layout.part_of(&K::Words::MAX)
    }

    /// Returns the share of late keys in the last windows, 0 to 1. A key is late if it lies below a
    /// key that its thread had inserted a thousand writes before.
    #[must_use]
    pub fn late_share(&self) -> f32 {
        self.role().gauge.late()
    }

    /// Makes the head one of this kind, for callers that know their input. Keys above a limit, a
    /// little above the greatest key so far, go to it. `false` if the head is of another kind and
    /// all parts are in use; further inserts unite parts.
    pub fn switch_head(&self, kind: HeadKind) -> bool {
        let mut role = self.role();
        self.switch(&mut role, kind)
    }

    /// Converts all segments that the SB-tree has sealed, as
    /// [`SbTree::settle`](crate::sb_tree::SbTree::settle) does.
    pub fn settle(&self) {
        self.maps.sb_tree.settle();
    }

    /// Unites parts until at most three are left, or a writer is in the way. Inserts do this bit by
    /// bit; call it when no more inserts are to come.
    pub fn unite(&self) {
        let mut role = self.role();
        while self.unite_some(&mut role, own_writer()) {}
    }

    /// Returns counters of the work done besides inserts and lookups.
    #[must_use]
    pub fn work(&self) -> HeadWork {
        let role = self.role();
        let (raises, thawed) = self.layout.counts();
        HeadWork {
            switches: role.switches,
            raises,
            parts: self.layout.len_now(),
            chunks: role.chunks,
            moved: role.moved,
            thawed,
        }
    }

    /// Returns the memory use by purpose. No thread may be writing. Takes O(n).
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        let guard = &epoch::pin();
        let mut memory = MemoryUse::default();
        for map in HeadKind::ALL
            .iter()
            .filter_map(|&kind| self.maps.map(kind, guard))
        {
            map.add_memory_use(&mut memory);
        }
        memory.metadata += size_of_val(&*self.slots) + size_of::<Self>();
        memory
    }

    /// Checks the index's invariants. Takes O(n). No other operation may be under way.
    ///
    /// # Errors
    ///
    /// Returns the first violated invariant and its location.
    pub fn check_structure(&self) -> Result<(), String> {
        let guard = &epoch::pin();
        let parts = self.layout.parts();
        if !parts.limits.is_sorted() {
            return Err(format!("limits do not ascend: {:?}", parts.limits));
        }
        if parts.kinds.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("neighbours have one home: {:?}", parts.kinds));
        }
        for kind in HeadKind::ALL {
            let Some(map) = self.maps.map(kind, guard) else {
                if parts.kinds.contains(&kind) {
                    return Err(format!("{kind:?} is the home of a part and not there"));
                }
                continue;
            };
            map.check_structure()
                .map_err(|what| format!("{kind:?}: {what}"))?;
            for (key, _) in map.range((Bound::Unbounded, Bound::Unbounded)) {
                match self.layout.home(&key.to_words()) {
                    Home::Here(part, _) if part.kind != kind => {
                        return Err(format!("{key:?} is in {kind:?}, its home is {:?}", part.kind));
                    }
                    Home::Above => return Err(format!("{key:?} lies above the limit")),
                    Home::Here(..) | Home::Frozen => {}
                }
            }
        }
        Ok(())
    }
}

impl<W: Words> WriterSlot<W> {
    /// Returns whether the lease is of this generation and covers the key.
    #[inline]
    fn leases(&self, key: &W, generation: u64) -> bool {
        self.lease_generation.load(Ordering::Relaxed) == generation
            && W::load(&self.lease, 0) <= *key
            && *key <= W::load(&self.lease, 1)
    }

    /// Caches the head's bounds for as long as its generation lasts (rule 4 of
    /// [`layout`](super::layout)).
    fn take_lease(&self, part: &Part<W>, limit: W) {
        if part.end.is_none() && part.kind == HeadKind::SbTree {
            part.start.store(&self.lease, 0);
            limit.store(&self.lease, 1);
            self.lease_generation.store(part.generation, Ordering::Relaxed);
        }
    }

    /// Returns this writer's writes since the last call.
    fn writes_since_raise(&self) -> u64 {
        let writes = self.writes();
        let before = self.raised_at.load(Ordering::Relaxed);
        self.raised_at.store(writes, Ordering::Relaxed);
        writes - before
    }

    /// Counts `inserts` as late if `key` is.
    fn note_late(&self, key: &W, inserts: u64) {
        if *key < W::load(&self.mark, 0) {
            let late = self.late.load(Ordering::Relaxed);
            self.late.store(late + inserts, Ordering::Relaxed);
        }
    }

    /// Takes the lane's total count of entries. Counts and returns those added since the last call,
    /// except one, whose writer was present.
    fn note_lane(&self, taken: u64) -> u64 {
        let before = self.laned.load(Ordering::Relaxed);
        self.laned.store(before.max(taken), Ordering::Relaxed);
        let more = taken.saturating_sub(before + 1);
        self.note_appended(more);
        more
    }

    fn note_removal(&self, key: &W) {
        if *key >= W::load(&self.mark, 0) {
            self.removed
                .store(self.removed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    fn note_appended(&self, entries: u64) {
        let appended = self.appended.load(Ordering::Relaxed);
        self.appended.store(appended + entries, Ordering::Relaxed);
    }

    /// Returns whether enough writes have passed since the thread last helped.
    #[inline]
    fn may_help(&self) -> bool {
        self.writes() - self.helped_at.load(Ordering::Relaxed) >= HELP_EVERY as u64
    }

    fn note_help(&self) {
        self.helped_at.store(self.writes(), Ordering::Relaxed);
    }

    /// Ends the window and begins another, if it is time.
    fn end_window(&self, key: &W) -> Option<WriteWindow> {
        let writes = self.writes();
        let window = WriteWindow {
            writes: writes - self.window_at.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            removed: self.removed.load(Ordering::Relaxed),
        };
        if window.writes < WINDOW {
            return None;
        }
        let mark = W::load(&self.next_mark, 0);
        mark.store(&self.mark, 0);
        mark.max(*key).store(&self.next_mark, 0);
        self.window_at.store(writes, Ordering::Relaxed);
        self.late.store(0, Ordering::Relaxed);
        self.removed.store(0, Ordering::Relaxed);
        Some(window)
    }
}

shared_map!(HeadIndex);
