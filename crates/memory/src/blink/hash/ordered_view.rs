//! A hash leaf's entries in order, for those who scan it.
//!
//! The paper looks through a hash leaf whole each time it is scanned, which makes scans of the newest entries, those of
//! the right-most leaf, a hundred times slower than scans of old ones (§3.3). Here a leaf keeps a sorted copy that
//! only scans bring up to date: each entry is put in order once, by the first scan that needs it, and an insert does no
//! more than mark its bucket if the mark is not there.
//!
//! # Rules
//!
//! 1. A slot is *viewed* if and only if its entry, with its value, is in the view of the leaf that covers its key. While
//!    entries have yet to follow a split, that may be another leaf than the one the slot is in.
//! 2. A bucket with entries that are not viewed is marked. Marks, and which slots are viewed, change under the bucket's
//!    latch.
//! 3. The view is locked before latches: who holds its lock may wait for buckets, and who holds a latch only tries to
//!    lock it. A split holds the lock, so the fences stand as long as somebody reads.

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

/// A bit for each of several buckets, in a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Marks([AtomicU64; Marks::WORDS]);

impl Marks {
    const WORDS: usize = 8;
    const BITS: usize = Self::WORDS * u64::BITS as usize;
}

impl<W: Words> OrderedView<W> {
    /// A view of no entries, of a leaf of so many buckets, none of them marked.
    pub(super) fn new(buckets: usize) -> Self {
        let marks = || Marks(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            entries: Mutex::new(Entries::new()),
            marks: (0..buckets.div_ceil(Marks::BITS)).map(|_| marks()).collect(),
        }
    }

    /// The entries, as of when they were last brought up to date.
    pub(super) fn lock(&self) -> MutexGuard<'_, Entries<W>> {
        let mut backoff = Backoff::default();
        loop {
            // They are given back within a microsecond or two, sooner than a thread that sleeps is woken.
            match self.entries.try_lock() {
                Ok(entries) => return entries,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => backoff.wait(),
            }
        }
    }

    /// The same, unless somebody has them.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Entries<W>>> {
        self.entries.try_lock().ok()
    }

    /// Marks a bucket that was given an entry.
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

    /// The marked buckets, as a bit each: 64 of them in a word.
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

/// Gives a viewed entry another value, or removes it.
pub(super) fn change<W: Words>(entries: &mut Entries<W>, key: &W, value: Option<u64>) {
    if let Ok(place) = entries.binary_search_by_key(key, |entry| entry.0) {
        match value {
            Some(value) => entries[place].1 = value,
            None => drop(entries.remove(place)),
        }
    }
}
