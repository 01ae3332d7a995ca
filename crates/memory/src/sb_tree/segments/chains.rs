//! Finds keys in a log whose keys do not ascend: entries whose hashes agree form a chain, from the
//! last to the first. A search compares few entries, unless keys are chosen so that hashes agree.
//!
//! # Rules
//!
//! 1. Only the log's owner writes. It chains an entry before the log counts it.
//! 2. A reader begins at the last entry of a chain and skips those that the log does not count. So
//!    the first entry of a key that it meets is the last one counted when it began, or later.
//! 3. The owner stores an entry's predecessor before it publishes the entry as the last of its
//!    chain. Nothing changes behind a published entry until the chains begin again, in another
//!    generation of the log.
//! 4. Each step leads to an earlier position, also while the chains begin again: a search ends, and
//!    then its reader finds that the log's generation is over.

use crate::sync::primitive::{AtomicU16, Ordering};

/// See the [module](self). `CAP` is the log's capacity, a power of two.
#[derive(Debug)]
pub(crate) struct Chains<const CAP: usize> {
    /// For each hash the number of entries up to the last of its chain; 0 if it has none.
    last: [AtomicU16; CAP],
    /// For each entry the same for its predecessor.
    before: [AtomicU16; CAP],
}

impl<const CAP: usize> Chains<CAP> {
    pub(crate) fn new() -> Self {
        const { assert!(CAP.is_power_of_two() && CAP < u16::MAX as usize) };
        Self {
            last: std::array::from_fn(|_| AtomicU16::new(0)),
            before: std::array::from_fn(|_| AtomicU16::new(0)),
        }
    }

    /// Forgets all entries.
    pub(crate) fn clear(&self) {
        for last in &self.last {
            last.store(0, Ordering::Relaxed);
        }
    }

    /// Chains the entry at this position, which follows all others. The upper bits of `hash` count.
    #[inline]
    pub(crate) fn add(&self, hash: u64, place: usize) {
        let last = &self.last[Self::chain_of(hash)];
        self.before[place].store(last.load(Ordering::Relaxed), Ordering::Relaxed);
        last.store(u16::try_from(place + 1).unwrap_or(0), Ordering::Release);
    }

    /// Returns the last position below `len` in the chain of this hash for which `is_sought`.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u64,
        len: usize,
        mut is_sought: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let mut number = usize::from(self.last[Self::chain_of(hash)].load(Ordering::Acquire));
        while let Some(place) = number.checked_sub(1).filter(|&place| place < CAP) {
            if place < len && is_sought(place) {
                return Some(place);
            }
            let before = usize::from(self.before[place].load(Ordering::Relaxed));
            number = if before < number { before } else { 0 };
        }
        None
    }

    fn chain_of(hash: u64) -> usize {
        usize::try_from(hash >> (u64::BITS - CAP.ilog2())).unwrap_or(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use bedload_testkit::Rng;

    use super::*;
    use crate::search::columns::Words;

    const CAP: usize = if cfg!(miri) { 64 } else { 4096 };

    /// Adds keys to new chains; returns those, and how many entries finding some keys compares.
    fn compared(keys: &[u64], sought: impl Iterator<Item = (u64, Option<usize>)>) -> usize {
        let chains = Chains::<CAP>::new();
        for (place, key) in keys.iter().enumerate() {
            chains.add([*key].quick_hash(), place);
        }
        let mut compared = 0;
        for (key, expected) in sought {
            let found = chains.find([key].quick_hash(), keys.len(), |place| {
                compared += 1;
                keys[place] == key
            });
            assert_eq!(found, expected, "key {key}");
        }
        compared
    }

    /// Whatever the order of a full log's keys, and how far apart they are.
    #[test]
    fn a_search_compares_few_entries() {
        let mut rng = Rng::new(5);
        for apart in [1, 2, 1 << 10, 1 << 20, 1 << 32, 1 << 48] {
            let mut keys: Vec<u64> = (1..=CAP as u64).map(|number| number * apart).collect();
            rng.shuffle(&mut keys);
            let present = keys.iter().copied().zip((0..).map(Some));
            let of_present = compared(&keys, present);
            assert!(of_present < 2 * CAP, "{of_present} of keys {apart} apart");
            let absent = (1..=CAP as u64).map(|number| ((CAP as u64 + number) * apart + number, None));
            let of_absent = compared(&keys, absent);
            assert!(of_absent < 3 * CAP / 2, "{of_absent} of keys {apart} apart");
        }
    }

    #[test]
    fn the_last_counted_entry_of_a_key_is_found() {
        let chains = Chains::<CAP>::new();
        (0..CAP).for_each(|place| chains.add(0, place));
        for len in 0..=CAP {
            assert_eq!(chains.find(0, len, |_| true), len.checked_sub(1));
        }
        assert_eq!(chains.find(u64::MAX, CAP, |_| true), None);
        chains.clear();
        assert_eq!(chains.find(0, CAP, |_| true), None);
    }
}
