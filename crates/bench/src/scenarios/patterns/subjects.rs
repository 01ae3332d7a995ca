//! The ordered maps that take part.

use std::collections::BTreeMap;

use bedload_memory::near_sorted::{NearSortedTree, PackedTree};
use bedload_memory::{BlinkHash, BlinkTree, SbTree, SharedMap};
use bplustree::BPlusTree;

use super::turns::{self, Input};
use crate::record::Figure;
use crate::runner::Entrant;
use crate::subjects::{SAME_AGAIN, SerialSubject, add_entry};

/// The subject that ratios refer to.
pub(super) const BASELINE: &str = "btree-map";

/// An entrant's turn in a round.
pub(super) type Turn = fn(&Input) -> Vec<Figure>;

const fn entrant(name: &'static str, is_peer: bool, make: Turn) -> Entrant<Turn> {
    Entrant { name, is_peer, make }
}

/// The maps; the baseline twice, to show the noise.
pub(super) fn entrants() -> Vec<Entrant<Turn>> {
    vec![
        entrant(BASELINE, false, |input| turns::take(BTreeMap::new, input)),
        entrant(SAME_AGAIN, false, |input| turns::take(BTreeMap::new, input)),
        entrant("near-sorted", false, |input| {
            turns::take(NearSortedTree::new, input)
        }),
        entrant("packed", false, |input| turns::take(PackedTree::new, input)),
        entrant("sb-tree", false, |input| {
            turns::take(|| Shared(SbTree::new()), input)
        }),
        entrant("blink-hash", false, |input| {
            turns::take(|| Shared(BlinkHash::new()), input)
        }),
        entrant("blink-tree", false, |input| {
            turns::take(|| Shared(BlinkTree::new()), input)
        }),
        entrant("bplustree", true, |input| turns::take(BPlusTree::new, input)),
    ]
}

/// A concurrent map used by one thread, read through its public iterator.
struct Shared<M>(M);

impl<M: SharedMap<u64>> SerialSubject for Shared<M> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.0.get(key)
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        use std::ops::Bound::Included;
        let entries = self.0.range((Included(lower), Included(upper)));
        entries.fold((0, 0), add_entry)
    }
}

impl SerialSubject for BPlusTree<u64, u64> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        Self::insert(self, key, value);
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.lookup(&key, |value| *value)
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let mut iterator = self.raw_iter();
        iterator.seek(&lower);
        let mut all = (0, 0);
        while let Some((&key, &value)) = iterator.next()
            && key <= upper
        {
            all = add_entry(all, (key, value));
        }
        all
    }
}
