//! Which branch a key belongs to: a static tree over the fences of all branches.

use super::search::{Compiled, LANES, NO_KEY, Vectors};

/// Ascending fences, and above them levels of every eighth key of the level below, as in a cache-sensitive search tree
/// without pointers (Rao, Ross, SIGMOD 2000).
///
/// With 16 Ki entries a branch there are few fences (64 Ki for 10⁹ entries), so a fence is added at the end in
/// amortised constant time, and elsewhere by moving those behind it.
///
/// Invariants: levels are padded with [`NO_KEY`] to whole groups; the top level is one group; the first fence is 0, so that
/// there is one up to every key.
#[derive(Debug)]
pub(super) struct FenceIndex {
    /// The fences first, the top level last.
    levels: Vec<Vec<[u64; LANES]>>,
    len: usize,
}

impl FenceIndex {
    /// One fence, 0: everything belongs to the first branch.
    pub(super) fn new() -> Self {
        let mut top = [NO_KEY; LANES];
        top[0] = 0;
        Self {
            levels: vec![vec![top]],
            len: 1,
        }
    }

    /// The greatest fence that is at most `key`. Time O(log₈ n).
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> usize {
        self.find_with(key, Compiled)
    }

    /// Each level is one line, and compared at once.
    #[inline(always)]
    pub(super) fn find_with(&self, key: u64, vectors: impl Vectors) -> usize {
        let mut place = 0;
        for level in self.levels.iter().rev() {
            place = place * LANES + vectors.last_up_to(&level[place], key);
        }
        place
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn fence(&self, place: usize) -> Option<u64> {
        (place < self.len).then(|| self.levels[0][place / LANES][place % LANES])
    }

    /// Puts a fence at its place. Time O(n − `place`).
    pub(super) fn insert(&mut self, place: usize, fence: u64) {
        let fences = &mut self.levels[0];
        if self.len == fences.len() * LANES {
            fences.push([NO_KEY; LANES]);
        }
        let flat = fences.as_flattened_mut();
        flat.copy_within(place..self.len, place + 1);
        flat[place] = fence;
        self.len += 1;
        self.sample_from(place);
    }

    /// Takes the fence at this place away, which is not the first. Time O(n − `place`).
    pub(super) fn remove(&mut self, place: usize) {
        let flat = self.levels[0].as_flattened_mut();
        flat.copy_within(place + 1..self.len, place);
        flat[self.len - 1] = NO_KEY;
        self.len -= 1;
        self.sample_from(place);
    }

    /// Makes the upper levels anew, as far as they depend on fences from `place` on.
    fn sample_from(&mut self, place: usize) {
        let mut from = place;
        let mut height = 0;
        loop {
            let (lower, upper) = self.levels.split_at_mut(height + 1);
            let lower = &lower[height];
            if lower.len() == 1 {
                return self.levels.truncate(height + 1);
            }
            from /= LANES;
            if upper.is_empty() {
                self.levels.push(Vec::new());
                from = 0;
                continue;
            }
            let upper = &mut upper[0];
            upper.resize(lower.len().div_ceil(LANES), [NO_KEY; LANES]);
            for (sample, group) in upper.as_flattened_mut().iter_mut().zip(lower).skip(from) {
                *sample = group[0];
            }
            height += 1;
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let fences = &self.levels[0].as_flattened()[..self.len];
        if fences[0] != 0 || !fences.is_sorted_by(|a, b| a < b) {
            return Err("fences of branches do not ascend from 0".into());
        }
        for (place, &fence) in fences.iter().enumerate() {
            if self.find(fence) != place {
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
        assert!(index.levels.len() >= 3);
    }
}
