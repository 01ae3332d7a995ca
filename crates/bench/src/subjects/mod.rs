//! What is measured: our indexes, those of the registry, and what they are held against.

mod buffered;
mod limits;
mod ours;
mod peers;

use std::cell::RefCell;

use bedload_memory::Key;
use concurrent_map::Minimum;

#[cfg(feature = "coherence")]
pub use ours::LOG_SIZES;
pub use ours::{FACTORS, TUNINGS};

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

/// What a subject can be asked.
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
    /// What it can be asked.
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

/// A subject's name, and how to make an empty one.
#[derive(Debug, Clone, Copy)]
pub struct Entrant<K = u64> {
    /// Its name in reports.
    pub name: &'static str,
    /// Whether it is somebody else's: a peer that panics is reported and left out.
    pub is_peer: bool,
    /// Makes an empty one.
    pub make: fn() -> Box<dyn Subject<K>>,
}

/// The subject that ratios refer to.
pub const BASELINE: &str = "blink-tree";

/// The ordered indexes.
pub const INDEXES: &[Entrant] = &[
    ours::blink_tree(),
    ours::blink_hash(),
    ours::blink_hash_converted(),
    ours::sb_tree(),
    ours::sb_tree_reserved(),
    ours::sb_tree_again(),
    ours::head(),
    ours::head_reserved(),
    ours::same_again(),
    peers::bplustree(),
    peers::scc_tree(),
    peers::skip_map(),
    peers::btree_map(),
    peers::concurrent_map(),
    peers::congee(),
];

/// The SB-tree, which can tell how it has converted and searched.
pub const SEGMENTED: &[Entrant] = &[ours::sb_tree(), ours::sb_tree_reserved()];

/// The ordered indexes, and what stores a stamped key and no more.
#[must_use]
pub fn indexes_and_ceiling() -> Vec<Entrant> {
    [INDEXES, &[limits::ceiling()]].concat()
}

/// The ordered indexes, and a hash table.
#[must_use]
pub fn indexes_and_hash_table() -> Vec<Entrant> {
    [INDEXES, &[limits::hash_table()]].concat()
}

/// The ordered indexes, and the straw men that the Blink-hash paper holds against itself (§5.6).
#[must_use]
pub fn indexes_and_buffers() -> Vec<Entrant> {
    [INDEXES, &[buffered::flush_on_late(), buffered::insert_late()]].concat()
}

/// The ordered indexes that can have addresses for keys.
pub const OF_ADDRESSES: &[Entrant<Address>] = &[
    ours::blink_tree(),
    ours::blink_hash(),
    ours::blink_hash_converted(),
    ours::sb_tree(),
    ours::head(),
    peers::bplustree(),
    peers::scc_tree(),
    peers::skip_map(),
    peers::btree_map(),
    peers::concurrent_map(),
];

fn count_and_sum(values: impl Iterator<Item = u64>) -> (usize, u64) {
    values.fold((0, 0), |(count, sum), value| (count + 1, sum.wrapping_add(value)))
}
