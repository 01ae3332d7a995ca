//! A sorted copy of a hash leaf's entries, for scans.
//!
//! The paper searches a hash leaf completely at each scan, which makes scans of the newest entries,
//! those of the right-most leaf, a hundred times slower than scans of old ones (§3.3). Here a leaf
//! keeps a sorted copy that only scans update: each entry is sorted once, by the first scan that
//! needs it, and an insert only marks its bucket if it is not marked yet.
//!
//! # Rules
//!
//! 1. A slot is *viewed* if and only if its entry, with its value, is in the view of the leaf that
//!    covers its key. While entries have yet to follow a split, that may be a leaf other than the
//!    slot's.
//! 2. A bucket with entries that are not viewed is marked. Marks, and which slots are viewed,
//!    change under the bucket's latch.
//! 3. The view is locked before latches are taken: a holder of its lock may wait for buckets, a
//!    holder of a latch only tries to lock it. A split holds the lock, so the fences are fixed
//!    while a reader has it.

use std::sync::TryLockError;

use crate::search::columns::Words;
use crate::sync::primitive::{AtomicU64, Backoff, Mutex, MutexGuard, Ordering};
use crate::sync::version_latch::Writer;

/// Entries in ascending order of their keys.
pub(super) type Entries<W> = Vec<(W, u64)>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct OrderedView<W: Words> {
    entries: Mutex<Entries<W>>,
    marks: Box<[Marks]>,
}

/// One bit for each of several buckets, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Marks([AtomicU64; Marks::WORDS]);

impl Marks {
    const WORDS: usize = 8;
    const BITS: usize = Self::WORDS * u64::BITS as usize;
}

impl<W: Words> OrderedView<W> {
    /// Creates an empty view, for a leaf of `buckets` buckets, none of them marked.
    pub(super) fn new(buckets: usize) -> Self {
        let marks = || Marks(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            entries: Mutex::new(Entries::new()),
            marks: (0..buckets.div_ceil(Marks::BITS)).map(|_| marks()).collect(),
        }
    }

    /// Locks the entries, as of the last update.
    pub(super) fn lock(&self) -> MutexGuard<'_, Entries<W>> {
        let mut backoff = Backoff::default();
        loop {
            // The lock is held for a microsecond or two, less than waking a sleeping thread takes.
            match self.entries.try_lock() {
                Ok(entries) => return entries,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => backoff.wait(),
            }
        }
    }

    /// The same; `None` if another thread has the lock.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Entries<W>>> {
        self.entries.try_lock().ok()
    }

    /// Marks a bucket that received an entry.
    #[inline]
    pub(super) fn mark(&self, bucket: usize, _writer: Writer<'_>) {
        let (word, bit) = self.mark_of(bucket);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Release);
        }
    }

    pub(super) fn unmark(&self, bucket: usize, _writer: Writer<'_>) {
        let (word, bit) = self.mark_of(bucket);
        word.fetch_and(!bit, Ordering::Release);
    }

    /// Returns the marks as words of 64 bits, one bit per bucket.
    pub(super) fn marks(&self) -> impl Iterator<Item = u64> {
        let words = self.marks.iter().flat_map(|marks| &marks.0);
        words.map(|word| word.load(Ordering::Acquire))
    }

    fn mark_of(&self, bucket: usize) -> (&AtomicU64, u64) {
        let words = &self.marks[bucket / Marks::BITS].0;
        let word = &words[bucket / u64::BITS as usize % Marks::WORDS];
        (word, 1 << (bucket % u64::BITS as usize))
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
