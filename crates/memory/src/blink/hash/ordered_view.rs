//! A sorted copy of a hash leaf's entries, for scans.
//!
//! The paper searches a hash leaf completely at each scan, which makes scans of the newest entries,
//! those of the right-most leaf, a hundred times slower than scans of old ones (§3.3). Here a leaf
//! keeps a sorted copy that only scans update: each entry is sorted once, by the first scan that
//! needs it, and an insert only marks its bucket if it is not marked yet. Scans that wait for
//! another's update share the next one.
//!
//! # Rules
//!
//! 1. A slot is *viewed* if and only if its entry, with its value, is in the view of the leaf that
//!    covers its key. While entries have yet to follow a split, that may be a leaf other than the
//!    slot's.
//! 2. A bucket with entries that are not viewed is marked, or the holder of the view's lock has
//!    taken its mark and is about to take its entries. It takes no mark of a bucket that has yet to
//!    follow a split: the right half needs it. Marks are set, and which slots are viewed changes,
//!    under the bucket's latch: who latches a bucket after its entries were taken sees that its
//!    mark was.
//! 3. The view is locked before latches are taken: a holder of its lock may wait for buckets, a
//!    holder of a latch only tries to lock it. A split holds the lock, so the fences are fixed
//!    while a reader has it.
//! 4. An update is counted before it takes marks. So one with a greater number than the last that a
//!    scan saw began after the scan, and has all that the scan must find.

use std::sync::TryLockError;

use super::bucket::Bits;
use crate::search::columns::Words;
use crate::sync::primitive::{
    AtomicU64, Backoff, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard, fence,
};
use crate::sync::version_latch::Writer;

/// Entries in ascending order of their keys.
pub(super) type Entries<W> = Vec<(W, u64)>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct OrderedView<W: Words> {
    entries: RwLock<Entries<W>>,
    updates: Updates,
    marks: Box<[Marks]>,
}

/// Numbers of updates, which holders of the lock write. In a cache line of their own: those who
/// wait read it, and leave that of the lock to its holder.
#[derive(Debug)]
#[repr(align(64))]
struct Updates {
    begun: AtomicU64,
    ended: AtomicU64,
    /// The last one that had all entries.
    completed: AtomicU64,
}

/// A view that a scan has locked.
#[derive(Debug)]
pub(super) enum ToRead<'v, W: Words> {
    /// With every entry that was inserted before the lock was asked for.
    Current(RwLockReadGuard<'v, Entries<W>>),
    /// As of the last update.
    Behind(RwLockWriteGuard<'v, Entries<W>>),
}

/// One bit for each of several buckets, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Marks([AtomicU64; Marks::WORDS]);

impl Marks {
    const WORDS: usize = 8;
    const BITS: usize = Self::WORDS * u64::BITS as usize;
}

impl Updates {
    fn is_under_way(&self) -> bool {
        self.ended.load(Ordering::Relaxed) != self.begun.load(Ordering::Relaxed)
    }
}

impl<W: Words> OrderedView<W> {
    /// Creates an empty view, for a leaf of `buckets` buckets, none of them marked.
    pub(super) fn new(buckets: usize) -> Self {
        let marks = || Marks(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            entries: RwLock::new(Entries::new()),
            updates: Updates {
                begun: AtomicU64::new(0),
                ended: AtomicU64::new(0),
                completed: AtomicU64::new(0),
            },
            marks: (0..buckets.div_ceil(Marks::BITS)).map(|_| marks()).collect(),
        }
    }

    /// Locks the entries, as of the last update.
    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, Entries<W>> {
        let mut backoff = Backoff::default();
        loop {
            // The lock is held for a microsecond or two, less than waking a sleeping thread takes.
            match self.entries.try_write() {
                Ok(entries) => return entries,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => backoff.wait(),
            }
        }
    }

    /// The same; `None` if another thread has the lock.
    pub(super) fn try_lock(&self) -> Option<RwLockWriteGuard<'_, Entries<W>>> {
        self.entries.try_write().ok()
    }

    /// Locks the entries for a scan.
    pub(super) fn lock_to_read(&self) -> ToRead<'_, W> {
        if let Some(entries) = self.try_lock() {
            return ToRead::Behind(entries);
        }
        // With the fence in `update`: either this sees that an update has begun, or that update
        // sees the marks of every insert that this scan must find.
        fence(Ordering::SeqCst);
        let begun = self.updates.begun.load(Ordering::Relaxed);
        let mut backoff = Backoff::default();
        loop {
            if self.updates.completed.load(Ordering::Acquire) > begun {
                match self.entries.try_read() {
                    Ok(entries) => return ToRead::Current(entries),
                    Err(TryLockError::Poisoned(poisoned)) => return ToRead::Current(poisoned.into_inner()),
                    Err(TryLockError::WouldBlock) => {}
                }
            } else if !self.updates.is_under_way()
                && let Some(entries) = self.try_lock()
            {
                return ToRead::Behind(entries);
            }
            backoff.wait();
        }
    }

    /// Counts what `update`, called by the holder of the lock, adds to the entries. It returns
    /// whether it had all; so does this.
    pub(super) fn update(&self, update: impl FnOnce() -> bool) -> bool {
        let number = self.updates.begun.load(Ordering::Relaxed) + 1;
        self.updates.begun.store(number, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_complete = update();
        if is_complete {
            self.updates.completed.store(number, Ordering::Release);
        }
        self.updates.ended.store(number, Ordering::Relaxed);
        is_complete
    }

    /// Marks a bucket that received an entry.
    #[inline]
    pub(super) fn mark(&self, bucket: usize, _writer: Writer<'_>) {
        let (word, bit) = self.mark_of(bucket);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Release);
        }
    }

    /// Returns the marked buckets.
    pub(super) fn marked(&self) -> impl Iterator<Item = usize> {
        self.words().flat_map(|(first, word)| Marked {
            first,
            bits: Bits(word.load(Ordering::Acquire)),
        })
    }

    /// Takes the marks, a word at a time, and passes their buckets to `take`. If it returns
    /// `false`, puts the marks of this word back, and stops.
    pub(super) fn take_marks(&self, mut take: impl FnMut(Marked) -> bool) -> bool {
        self.words().all(|(first, word)| {
            if word.load(Ordering::Relaxed) == 0 {
                return true;
            }
            let bits = word.swap(0, Ordering::AcqRel);
            let is_taken = take(Marked {
                first,
                bits: Bits(bits),
            });
            if !is_taken {
                word.fetch_or(bits, Ordering::Release);
            }
            is_taken
        })
    }

    /// Returns the words of marks, each with its first bucket.
    fn words(&self) -> impl Iterator<Item = (usize, &AtomicU64)> {
        let words = self.marks.iter().flat_map(|marks| &marks.0);
        (0..).step_by(u64::BITS as usize).zip(words)
    }

    fn mark_of(&self, bucket: usize) -> (&AtomicU64, u64) {
        let words = &self.marks[bucket / Marks::BITS].0;
        let word = &words[bucket / u64::BITS as usize % Marks::WORDS];
        (word, 1 << (bucket % u64::BITS as usize))
    }
}

/// The marked buckets among 64 neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marked {
    first: usize,
    bits: Bits,
}

impl Iterator for Marked {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.bits.next().map(|bit| self.first + bit)
    }
}

/// Changes the value of a viewed entry, or removes it.
pub(super) fn change<W: Words>(entries: &mut Entries<W>, key: &W, value: Option<u64>) {
    if let Ok(place) = entries.binary_search_by_key(key, |entry| entry.0) {
        match value {
            Some(value) => entries[place].1 = value,
            None => drop(entries.remove(place)),
        }
    }
}
