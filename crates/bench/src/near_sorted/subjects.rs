//! The maps that are measured, one thread.

use std::collections::BTreeMap;

use bedload_memory::ExclusiveMap;
use bedload_memory::near_sorted::{BPlusTree, NearSortedTree, TreeOptions};
use bedload_memory::swa_buffer::{BufferOptions, SaTree};

/// A map from `u64` to `u64`, whose lookups may sort.
pub trait Mapping {
    /// Puts a value in place.
    fn insert(&mut self, key: u64, value: u64);

    /// Looks a key up.
    fn get(&mut self, key: u64) -> Option<u64>;
}

/// A map under measurement that says how it is made.
pub trait SerialSubject: Mapping {
    /// Its name in reports.
    const NAME: &'static str;

    /// An empty one, for about this many entries.
    fn new(entries: usize) -> Self;

    /// Moves all that is buffered to where it belongs.
    fn drain(&mut self) {}

    /// How many entries lie between the bounds, which are inclusive, and the sum of their keys and values: a scan gives
    /// both.
    fn sum(&self, lower: u64, upper: u64) -> (usize, u64);

    /// Whether a scan may put in order what it meets, so that the next one takes less time.
    const SORTS: bool = false;

    /// As [`sum`](Self::sum), but what it meets may be put in order.
    fn sum_sorting(&mut self, lower: u64, upper: u64) -> (usize, u64) {
        self.sum(lower, upper)
    }

    /// Bytes of the heap, and the share of leaves that is filled, where known.
    fn space(&self) -> Option<(usize, f64)> {
        None
    }
}

/// Adds an entry to a count and a sum.
pub(crate) fn add_entry((count, sum): (usize, u64), (key, value): (u64, u64)) -> (usize, u64) {
    (count + 1, sum.wrapping_add(key).wrapping_add(value))
}

fn add((count, sum): (usize, u64), keys: &[u64], values: &[u64]) -> (usize, u64) {
    let sums = keys
        .iter()
        .zip(values)
        .map(|(key, value)| key.wrapping_add(*value));
    (count + values.len(), sums.fold(sum, u64::wrapping_add))
}

impl Mapping for BPlusTree {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        ExclusiveMap::insert(self, key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        ExclusiveMap::get(self, key)
    }
}

impl Mapping for NearSortedTree {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        Self::get(self, key)
    }
}

/// Ours.
impl SerialSubject for NearSortedTree {
    const NAME: &'static str = "near-sorted";
    const SORTS: bool = true;

    fn sum_sorting(&mut self, lower: u64, upper: u64) -> (usize, u64) {
        let mut all = (0, 0);
        self.scan(lower..=upper, |keys, values| all = add(all, keys, values));
        all
    }

    fn new(_: usize) -> Self {
        Self::new()
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let mut all = (0, 0);
        self.visit(lower..=upper, |keys, values| all = add(all, keys, values));
        all
    }

    fn space(&self) -> Option<(usize, f64)> {
        Some((self.bytes(), self.fill()))
    }
}

/// Our B+-tree, each entry inserted from the root.
#[derive(Debug)]
pub struct Plain(BPlusTree);

/// The same once more: how far its ratio is from 1 is the noise of a run.
#[derive(Debug)]
pub struct PlainAgain(BPlusTree);

/// Our B+-tree with a pointer to the tail leaf, and splits at 80:20.
#[derive(Debug)]
pub struct FastPath(BPlusTree);

macro_rules! b_plus_trees {
    ($($tree:ident, $name:literal, $options:expr;)*) => {$(
        impl Mapping for $tree {
            #[inline]
            fn insert(&mut self, key: u64, value: u64) {
                self.0.insert(key, value);
            }

            #[inline]
            fn get(&mut self, key: u64) -> Option<u64> {
                self.0.get(key)
            }
        }

        impl SerialSubject for $tree {
            const NAME: &'static str = $name;

            fn new(_: usize) -> Self {
                Self(BPlusTree::with_options($options))
            }

            fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
                let mut all = (0, 0);
                self.0.visit(lower..=upper, |keys, values| all = add(all, keys, values));
                all
            }

            fn space(&self) -> Option<(usize, f64)> {
                Some((self.0.bytes(), self.0.fill()))
            }
        }
    )*};
}

b_plus_trees! {
    Plain, "plain", TreeOptions::new().tail_leaf(false);
    PlainAgain, "plain again", TreeOptions::new().tail_leaf(false);
    FastPath, "fast path", TreeOptions::new().split_percent(80);
}

impl Mapping for SaTree<BPlusTree> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        if self.wants_preparation() {
            self.prepare_reads();
        }
        Self::get(self, key)
    }
}

/// SWARE over our B+-tree, with the paper's settings: a buffer of 1 % of the data, splits at 80:20.
impl SerialSubject for SaTree<BPlusTree> {
    const NAME: &'static str = "sware";

    fn new(entries: usize) -> Self {
        let base = BPlusTree::with_options(TreeOptions::new().tail_leaf(false).split_percent(80));
        Self::new(base, BufferOptions::new(entries / 100))
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let (mut all, mut entries, mut from) = ((0, 0), Vec::new(), Some(lower));
        while let Some(lower) = from {
            entries.clear();
            from = self.read_up(lower, upper, &mut entries);
            all = entries
                .iter()
                .fold(all, |all, entry| add(all, &[entry.0], &[entry.1]));
        }
        all
    }

    fn space(&self) -> Option<(usize, f64)> {
        Some((self.base().bytes() + self.buffer_bytes(), self.base().fill()))
    }
}

impl Mapping for BTreeMap<u64, u64> {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        Self::get(self, &key).copied()
    }
}

impl SerialSubject for BTreeMap<u64, u64> {
    const NAME: &'static str = "btree-map";

    fn new(_: usize) -> Self {
        Self::new()
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        self.range(lower..=upper)
            .fold((0, 0), |all, (&key, &value)| add(all, &[key], &[value]))
    }
}
