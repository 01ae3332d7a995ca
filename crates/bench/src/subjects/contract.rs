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

/// A key that every subject can have.
pub trait AnyKey: Key + Default + Minimum + std::hash::Hash {
    /// Lends the thread's room for the entries of a scan. Who scans again and again has it: to clear it each time would be
    /// measured with the scan.
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

/// The operations that a subject has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answers {
    /// Nothing: it bounds what an insert may cost.
    Nothing,
    /// Lookups.
    Lookups,
    /// Lookups and scans.
    Scans,
}

/// Something under measurement, from keys to `u64`.
pub trait Subject<K = u64>: Sync {
    /// The operations that it has.
    fn answers(&self) -> Answers {
        Answers::Scans
    }

    /// Puts a value in place.
    fn insert(&self, key: K, value: u64);

    /// Looks a key up.
    fn get(&self, key: K) -> Option<u64>;

    /// Reads up to `limit` entries, at most [`SCAN_MAX`], from the least key not below `from`; returns how many there
    /// were and the sum of their values, so that none of it is optimised away.
    fn scan(&self, from: K, limit: usize) -> (usize, u64);

    /// Sets memory aside for so many entries, if it is one that does: before any time is taken.
    fn reserve(&self, _entries: usize) {}

    /// Does what it has put off until after the inserts.
    fn settle(&self) {}

    /// How it has converted and searched, if it is an SB-tree.
    fn work(&self) -> Option<bedload_memory::SbTreeWork> {
        None
    }

    /// Where its memory goes, if it can tell.
    fn memory_use(&self) -> Option<bedload_memory::MemoryUse> {
        None
    }
}

/// Makes an empty one.
pub type Make<K = u64> = fn() -> Box<dyn Subject<K>>;

pub(super) fn count_and_sum(values: impl Iterator<Item = u64>) -> (usize, u64) {
    values.fold((0, 0), |(count, sum), value| (count + 1, sum.wrapping_add(value)))
}

/// A map from `u64` to `u64` under measurement, of one thread; its lookups may sort.
pub trait SerialSubject {
    /// Puts a value in place.
    fn insert(&mut self, key: u64, value: u64);

    /// Looks a key up.
    fn get(&mut self, key: u64) -> Option<u64>;

    /// How many entries lie between the bounds, which are inclusive, and the sum of their keys and values.
    fn sum(&self, lower: u64, upper: u64) -> (usize, u64);

    /// As [`sum`](Self::sum), but what it meets may be put in order; only of those for which that is another way.
    fn sum_sorting(&mut self, _lower: u64, _upper: u64) -> Option<(usize, u64)> {
        None
    }

    /// Moves all that is buffered to where it belongs.
    fn drain(&mut self) {}

    /// Bytes of the heap, and the share of leaves that is filled, where known.
    fn space(&self) -> Option<(usize, f64)> {
        None
    }

    /// The share of entries, in percent, that came from a buffer and were inserted from the root, if there is a buffer.
    fn top_inserts_percent(&self) -> Option<f64> {
        None
    }
}

/// The value that is stored with a key.
pub(crate) const fn value_of(key: u64) -> u64 {
    !key
}

/// Adds an entry to a count and a sum.
pub(crate) fn add_entry((count, sum): (usize, u64), (key, value): (u64, u64)) -> (usize, u64) {
    (count + 1, sum.wrapping_add(key).wrapping_add(value))
}

/// Bytes of memory that each store of rows has for pages.
pub const CACHE_BYTES: usize = 512 << 20;

/// A durable store of one table.
pub trait RowStore {
    /// Adds rows; they are durable on return.
    fn append(&mut self, rows: &Rows);

    /// Brings everything to where it stays.
    fn settle(&mut self);

    /// Whether a row takes the place of one that has its time; if not, both are kept.
    fn writes_over(&self) -> bool {
        true
    }

    /// Looks a row up and folds all its values into one number.
    fn get(&self, time: i64) -> Option<u64>;

    /// Reads the rows from one time on and before another into Arrow arrays, and shows the batches.
    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch));
}

/// Makes an empty store in a directory.
pub type MakeRows = fn(&Path) -> Box<dyn RowStore>;

/// Bytes that sort as times do.
pub(super) fn key_of_time(time: i64) -> [u8; 8] {
    (time.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// The time that such bytes begin with.
pub(super) fn time_of_key(key: &[u8]) -> i64 {
    (u64::from_be_bytes(*key.first_chunk().expect("8 bytes")) ^ (1 << 63)).cast_signed()
}
