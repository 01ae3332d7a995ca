//! The buckets of the next leaf, made one at a time while the present one fills.
//!
//! A new leaf is 256 KiB of memory that nobody has touched. Made in one go, it is a pause of tens of microseconds for
//! the insert that splits a leaf. But between two splits each bucket settles once: whoever settles one makes one.

use super::super::columns::Words;
use super::super::primitive::Mutex;
use super::BlinkHashOptions;
use super::bucket::Bucket;
use super::hash_leaf::bucket_count;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SpareBuckets<W: Words> {
    count: usize,
    made: Mutex<Vec<Bucket<W>>>,
}

impl<W: Words> SpareBuckets<W> {
    /// None are made yet.
    pub(super) fn new(options: &BlinkHashOptions) -> Self {
        Self {
            count: bucket_count::<W>(options),
            made: Mutex::new(Vec::new()),
        }
    }

    /// Makes one more, unless there are enough, or somebody else is at it.
    pub(super) fn prepare_one(&self) {
        if let Ok(mut made) = self.made.try_lock()
            && made.len() < self.count
        {
            if made.capacity() == 0 {
                made.reserve_exact(self.count);
            }
            made.push(Bucket::new());
        }
    }

    /// Buckets for a leaf: those that are made, and the rest.
    pub(super) fn take(&self) -> Box<[Bucket<W>]> {
        let made = self.made.try_lock().map(|mut made| std::mem::take(&mut *made));
        let mut buckets = made.unwrap_or_default();
        buckets.reserve_exact(self.count - buckets.len());
        buckets.resize_with(self.count, Bucket::new);
        buckets.into_boxed_slice()
    }

    /// Bytes that are set aside.
    pub(super) fn bytes(&self) -> usize {
        let made = self.made.try_lock().map(|made| made.capacity());
        made.unwrap_or_default() * size_of::<Bucket<W>>()
    }
}
