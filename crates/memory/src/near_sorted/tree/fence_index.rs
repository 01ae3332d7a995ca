//! Finds the branch of a key: slots over the range of all fences, and a static tree.

use super::fence_slots::FenceSlots;
use crate::search::keys::{Compiled, LANES, NO_KEY, Vectors};

/// Ascending fences, and above them levels of every eighth key of the level below, as in a
/// cache-sensitive search tree without pointers (Rao, Ross, SIGMOD 2000).
///
/// Fences usually are spread evenly enough for [slots](FenceSlots) to locate a key's fence within a
/// few positions: then one group, starting anywhere, is compared instead of one per level. While a
/// lookup waits for memory the processor holds as many instructions of the next lookups as it has
/// room for, so each instruction saved counts.
///
/// With 16 Ki entries per branch there are few fences (64 Ki for 10⁹ entries), so a fence is
/// appended in amortised constant time, and inserted elsewhere by moving those after it.
///
/// Invariants: levels are padded with [`NO_KEY`] to full groups, the fences to at least one group
/// more; the top level is one group; the first fence is 0, so that every key has a fence at or
/// below it.
#[derive(Debug)]
pub(crate) struct FenceIndex {
    fences: Vec<u64>,
    slots: FenceSlots,
    len: usize,
    /// The levels above the fences, the top level last.
    upper: Vec<Vec<[u64; LANES]>>,
}

impl FenceIndex {
    /// Creates an index of one fence, 0.
    pub(crate) fn new() -> Self {
        let mut first = [NO_KEY; 2 * LANES];
        first[0] = 0;
        let mut new = Self {
            fences: first.to_vec(),
            slots: FenceSlots::new(),
            len: 1,
            upper: Vec::new(),
        };
        new.sample_from(0);
        new
    }

    /// Returns the position of the greatest fence that is at most `key`. Time O(log₈ n), O(1) where
    /// fences are spread evenly.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> usize {
        self.find_with(key, Compiled)
    }

    #[inline(always)]
    pub(crate) fn find_with(&self, key: u64, vectors: impl Vectors) -> usize {
        self.find_in_slot(key, vectors)
            .unwrap_or_else(|| self.find_from_top(key, vectors))
    }

    /// Finds the fence among the first few of the key's slot; `None` if it may lie after them.
    #[inline(always)]
    fn find_in_slot(&self, key: u64, vectors: impl Vectors) -> Option<usize> {
        let first = self.slots.first_place(key)?;
        let fences = self.fences.get(first..first + LANES)?.first_chunk()?;
        let up_to = vectors.count_up_to(fences, key);
        // If all are at most the key, later fences may be too.
        (up_to < LANES).then(|| first + up_to - 1)
    }

    /// Descends the levels, comparing one group on each.
    #[inline(always)]
    fn find_from_top(&self, key: u64, vectors: impl Vectors) -> usize {
        let mut place = 0;
        for level in self.upper.iter().rev() {
            place = place * LANES + vectors.count_up_to(&level[place], key) - 1;
        }
        let (groups, _) = self.fences.as_chunks();
        place * LANES + vectors.count_up_to(&groups[place], key) - 1
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn fence(&self, place: usize) -> Option<u64> {
        self.fences().get(place).copied()
    }

    fn fences(&self) -> &[u64] {
        &self.fences[..self.len]
    }

    /// Inserts a fence at a position other than the first. Time O(n − `place`).
    pub(crate) fn insert(&mut self, place: usize, fence: u64) {
        self.fences.insert(place, fence);
        self.len += 1;
        self.pad();
        self.sample_from(place);
        self.slots.insert(place, &self.fences[..self.len]);
    }

    /// Removes the fence at a position other than the first. Time O(n − `place`).
    pub(crate) fn remove(&mut self, place: usize) {
        self.slots.remove(self.fences.remove(place));
        self.len -= 1;
        self.pad();
        self.sample_from(place);
    }

    /// Pads the fences to full groups, plus one for reads of a group that begins at the last of
    /// them.
    fn pad(&mut self) {
        let padded = self.len.next_multiple_of(LANES) + LANES;
        self.fences.resize(padded, NO_KEY);
    }

    /// Rebuilds the upper levels, as far as they depend on fences from `place` on.
    fn sample_from(&mut self, place: usize) {
        let mut from = place;
        let mut height = 0;
        loop {
            let (below, above) = self.upper.split_at_mut(height);
            let lower = below
                .last()
                .map_or_else(|| self.fences.as_chunks().0, Vec::as_slice);
            if lower.len() == 1 {
                return self.upper.truncate(height);
            }
            from /= LANES;
            let Some(level) = above.first_mut() else {
                self.upper.push(Vec::new());
                from = 0;
                continue;
            };
            level.resize(lower.len().div_ceil(LANES), [NO_KEY; LANES]);
            for (sample, group) in level.as_flattened_mut().iter_mut().zip(lower).skip(from) {
                *sample = group[0];
            }
            height += 1;
        }
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let groups: usize = self.upper.iter().map(Vec::capacity).sum();
        self.fences.capacity() * size_of::<u64>()
            + self.slots.bytes()
            + self.upper.capacity() * size_of::<Vec<[u64; LANES]>>()
            + groups * size_of::<[u64; LANES]>()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let fences = self.fences();
        if fences[0] != 0 || !fences.is_sorted_by(|a, b| a < b) {
            return Err("fences of branches do not ascend from 0".into());
        }
        self.slots.check(fences)?;
        for (place, &fence) in fences.iter().enumerate() {
            if self.find(fence) != place || self.find_from_top(fence, Compiled) != place {
                return Err(format!("fence {place} of a branch is not found"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    #[test]
    fn finds_the_greatest_fence_below() {
        let mut rng = Rng::new(1);
        let mut index = FenceIndex::new();
        let mut fences = vec![0];
        for round in 0..if cfg!(miri) { 600_u64 } else { 6_000 } {
            if round % 5 == 4 && fences.len() > 1 {
                let place = 1 + rng.index(fences.len() - 1);
                fences.remove(place);
                index.remove(place);
            } else {
                let fence = 1 + if round % 2 == 0 {
                    rng.below(1 << 20)
                } else {
                    (1 << 20) + round
                };
                if let Err(place) = fences.binary_search(&fence) {
                    fences.insert(place, fence);
                    index.insert(place, fence);
                }
            }
            let key = rng.below(1 << 21);
            assert_eq!(index.find(key), fences.partition_point(|&fence| fence <= key) - 1);
            if round % 100 == 0 {
                assert_eq!(index.len(), fences.len());
                index.check().unwrap();
            }
        }
        assert!(index.upper.len() >= 2);
    }

    /// An index of these fences, inserted in random order.
    fn index_of(mut fences: Vec<u64>, rng: &mut Rng) -> FenceIndex {
        let mut index = FenceIndex::new();
        let mut there = vec![0];
        while !fences.is_empty() {
            let fence = fences.swap_remove(rng.index(fences.len()));
            if let Err(place) = there.binary_search(&fence) {
                there.insert(place, fence);
                index.insert(place, fence);
                index.slots.check(&there).unwrap();
            }
        }
        index.check().unwrap();
        index
    }

    #[test]
    fn fences_may_lie_anywhere() {
        let mut rng = Rng::new(2);
        let among = |rng: &mut Rng, from: u64, below: u64| -> Vec<u64> {
            (0..50).map(|_| from + rng.below(below)).collect()
        };
        let last = NO_KEY - 1000;
        for [lower, upper] in [
            [1, last],
            [1, 1 << 40],
            [1 << 62, last],
            [last - 1000, last],
            [1, 2000],
        ] {
            for spread in [100, 1000] {
                let fences = [among(&mut rng, lower, spread), among(&mut rng, upper, spread)].concat();
                let mut index = index_of(fences, &mut rng);
                while index.len() > 1 {
                    let fences = index.fences().to_vec();
                    for &fence in &fences[1..] {
                        for key in [fence - 1, fence, fence + 1] {
                            let place = fences.partition_point(|&fence| fence <= key) - 1;
                            assert_eq!(index.find(key), place, "{key} in {fences:?}");
                        }
                    }
                    for _ in 0..10.min(index.len() - 1) {
                        index.remove(1 + rng.index(index.len() - 1));
                    }
                    assert_eq!(index.find(0), 0);
                    assert_eq!(index.find(NO_KEY - 1), index.len() - 1);
                }
            }
        }
    }

    #[test]
    fn what_is_spread_evenly_is_found_in_its_slot() {
        for base in [0, 1 << 40, 1 << 60] {
            let mut index = FenceIndex::new();
            for place in 1..300 {
                index.insert(place, base + place as u64 * 1000);
                let found = (1..=place)
                    .map(|place| base + place as u64 * 1000)
                    .filter(|&fence| index.find_in_slot(fence, Compiled).is_some());
                assert!(
                    found.count() + 1 >= place,
                    "all but one, when there are {place} above {base}"
                );
            }
        }
    }
}
