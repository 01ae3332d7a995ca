//! The interfaces of subjects.

use std::cell::RefCell;
use std::path::Path;

use arrow_array::RecordBatch;
use bedload_memory::Key;
use concurrent_map::Minimum;

use super::row_batches::Rows;

/// The longest scan of any scenario.
pub const SCAN_MAX: usize = 100;

/// An e-mail address, padded with zeros.
pub type Address = [u8; 32];

/// A key type that every subject supports.
pub trait AnyKey: Key + Default + Minimum + std::hash::Hash {
    /// Passes the thread's reusable buffers for the entries of a scan: clearing new ones each time
    /// would be measured with the scan.
    fn with_room<R>(scan: impl FnOnce(&mut [Self], &mut [u64]) -> R) -> R;
}

macro_rules! any_keys {
    ($($key:ty: $zero:expr),*) => {$(
        impl AnyKey for $key {
            fn with_room<R>(scan: impl FnOnce(&mut [Self], &mut [u64]) -> R) -> R {
                thread_local! {
                    static ROOM: RefCell<([$key; SCAN_MAX], [u64; SCAN_MAX])> =
                        const { RefCell::new(([$zero; SCAN_MAX], [0; SCAN_MAX])) };
                }
                ROOM.with_borrow_mut(|(keys, values)| scan(keys, values))
            }
        }
    )*};
}

any_keys!(u64: 0, Address: [0; 32]);

/// The operations that a subject supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answers {
    /// None: it bounds the cost of an insert.
    Nothing,
    /// Lookups.
    Lookups,
    /// Lookups and scans.
    Scans,
}

/// Something under measurement, from keys to `u64`.
pub trait Subject<K = u64>: Sync {
    /// Returns the operations that it supports.
    fn answers(&self) -> Answers {
        Answers::Scans
    }

    /// Sets the value of a key.
    fn insert(&self, key: K, value: u64);

    /// Looks a key up.
    fn get(&self, key: K) -> Option<u64>;

    /// Reads up to `limit` entries, at most [`SCAN_MAX`], from the least key not below `from`;
    /// returns their number and the sum of their values, so that the reads are not optimised away.
    fn scan(&self, from: K, limit: usize) -> (usize, u64);

    /// Allocates memory for this many entries before timing, if the subject does so.
    fn reserve(&self, _entries: usize) {}

    /// Completes work deferred until after the inserts.
    fn settle(&self) {}

    /// Returns counts of conversions and searches, if it is an SB-tree.
    fn work(&self) -> Option<bedload_memory::SbTreeWork> {
        None
    }

    /// Returns its memory by use, if it can tell.
    fn memory_use(&self) -> Option<bedload_memory::MemoryUse> {
        None
    }
}

/// Creates an empty one.
pub type Make<K = u64> = fn() -> Box<dyn Subject<K>>;

pub(super) fn count_and_sum(values: impl Iterator<Item = u64>) -> (usize, u64) {
    values.fold((0, 0), |(count, sum), value| (count + 1, sum.wrapping_add(value)))
}

/// A single-threaded map from `u64` to `u64` under measurement; its lookups may sort.
pub trait SerialSubject {
    /// Sets the value of a key.
    fn insert(&mut self, key: u64, value: u64);

    /// Looks a key up.
    fn get(&mut self, key: u64) -> Option<u64>;

    /// Returns the number of entries between inclusive bounds, and the sum of their keys and
    /// values.
    fn sum(&self, lower: u64, upper: u64) -> (usize, u64);

    /// Like [`sum`](Self::sum), but may sort the entries read; `None` if the subject makes no such
    /// distinction.
    fn sum_sorting(&mut self, _lower: u64, _upper: u64) -> Option<(usize, u64)> {
        None
    }

    /// Moves all buffered entries to the tree.
    fn drain(&mut self) {}

    /// Returns the bytes of the heap, and the fill of leaves, where known.
    fn space(&self) -> Option<(usize, f64)> {
        None
    }

    /// Returns the percentage of entries that came from a buffer and were inserted from the root,
    /// if there is a buffer.
    fn top_inserts_percent(&self) -> Option<f64> {
        None
    }

    /// Returns how often an insert has divided a leaf, where known.
    fn leaf_splits(&self) -> Option<u64> {
        None
    }
}

/// Returns the value stored with a key.
pub(crate) const fn value_of(key: u64) -> u64 {
    !key
}

/// Adds an entry to a count and a sum.
pub(crate) fn add_entry((count, sum): (usize, u64), (key, value): (u64, u64)) -> (usize, u64) {
    (count + 1, sum.wrapping_add(key).wrapping_add(value))
}

/// Bytes of memory for pages in each store of rows.
pub const CACHE_BYTES: usize = 512 << 20;

/// A durable store of one table.
pub trait RowStore {
    /// Adds rows; they are durable on return.
    fn append(&mut self, rows: &Rows);

    /// Moves all rows to their final location.
    fn settle(&mut self);

    /// Returns whether a row replaces one with the same time; if not, both are kept.
    fn writes_over(&self) -> bool {
        true
    }

    /// Looks a row up and combines all its values into one number.
    fn get(&self, time: i64) -> Option<u64>;

    /// Reads the rows from one time to before another into Arrow arrays, and passes the batches to
    /// `show`.
    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch));
}

/// Creates an empty store in a directory.
pub type MakeRows = fn(&Path) -> Box<dyn RowStore>;

/// Returns bytes that sort like times.
pub(super) fn key_of_time(time: i64) -> [u8; 8] {
    (time.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// Returns the time at the start of such bytes.
pub(super) fn time_of_key(key: &[u8]) -> i64 {
    (u64::from_be_bytes(*key.first_chunk().expect("8 bytes")) ^ (1 << 63)).cast_signed()
}
