//! The buckets of the next leaf, made one at a time while the current one fills.
//!
//! A new leaf is 256 KiB of untouched memory. Making it at once would pause the insert that splits
//! a leaf for tens of microseconds. Each bucket settles once between two splits: the thread that
//! settles one also makes one, or leaves it to the next if another thread is at it.

use super::BlinkHashOptions;
use super::bucket::Bucket;
use super::hash_leaf::bucket_count;
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicU32, Mutex, Ordering};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SpareBuckets<W: Words> {
    count: usize,
    made: Mutex<Vec<Bucket<W>>>,
    /// Buckets left unmade because another thread had the lock.
    owed: AtomicU32,
}

impl<W: Words> SpareBuckets<W> {
    /// Creates an empty reserve.
    pub(super) fn new(options: &BlinkHashOptions) -> Self {
        Self {
            count: bucket_count::<W>(options),
            made: Mutex::new(Vec::new()),
            owed: AtomicU32::new(0),
        }
    }

    /// Makes one more bucket, unless there are enough, and those that other threads left unmade.
    pub(super) fn prepare_one(&self) {
        let Ok(mut made) = self.made.try_lock() else {
            self.owed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let due = 1 + self.owed.swap(0, Ordering::Relaxed) as usize;
        if made.capacity() == 0 {
            made.reserve_exact(self.count);
        }
        let len = (made.len() + due).min(self.count);
        made.resize_with(len, Bucket::new);
    }

    /// Returns the buckets for a leaf: those already made, and the rest.
    pub(super) fn take(&self) -> Box<[Bucket<W>]> {
        // The lock is held while a few buckets are made, at most.
        let mut buckets = match self.made.lock() {
            Ok(mut made) => std::mem::take(&mut *made),
            Err(poisoned) => std::mem::take(&mut *poisoned.into_inner()),
        };
        buckets.reserve_exact(self.count - buckets.len());
        buckets.resize_with(self.count, Bucket::new);
        buckets.into_boxed_slice()
    }

    /// Returns the bytes reserved.
    pub(super) fn bytes(&self) -> usize {
        let made = self.made.try_lock().map(|made| made.capacity());
        made.unwrap_or_default() * size_of::<Bucket<W>>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_one_could_not_make_the_next_makes() {
        let options = BlinkHashOptions::new().node_bytes(8 << 10);
        let spare = SpareBuckets::<[u64; 1]>::new(&options);
        let len = || spare.made.lock().expect("not poisoned").len();
        spare.prepare_one();
        let held = spare.made.lock();
        (0..3).for_each(|_| spare.prepare_one());
        drop(held);
        assert_eq!(len(), 1);
        spare.prepare_one();
        assert_eq!(len(), 5);
        (0..2 * spare.count).for_each(|_| spare.prepare_one());
        assert_eq!(len(), spare.count, "no more than a leaf has");
        assert_eq!(spare.take().len(), spare.count);
        assert_eq!(spare.take().len(), spare.count, "none was ready");
        spare.prepare_one();
        assert_eq!(len(), 1, "no debt is left from the leaf before");
    }
}
