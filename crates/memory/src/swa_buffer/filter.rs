//! Blocked Bloom filters: the bits of a key stand in one cache line (Putze, Sanders, Singler,
//! 2007).

/// Bits a key sets.
const PROBES: u32 = 6;
const BLOCK_WORDS: usize = 8;

/// A Bloom filter with 10 bits for each key that it has room for: about 1 in 80 keys that are not
/// there seems to be.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    blocks: Vec<[u64; BLOCK_WORDS]>,
}

impl Filter {
    pub(super) fn new(keys: usize) -> Self {
        Self {
            blocks: vec![[0; BLOCK_WORDS]; (keys * 10).div_ceil(512).max(1)],
        }
    }

    /// A hash of a key, for all filters that it is put into.
    pub(super) fn hash(key: u64) -> u64 {
        let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    /// The bits of a key within its block: one hash, rotated.
    fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
        (0..PROBES).map(move |probe| {
            let rotated = hash.rotate_right(9 * probe);
            (
                usize::from(rotated.to_le_bytes()[0] & 7),
                1 << (rotated >> 3 & 63),
            )
        })
    }

    pub(super) fn insert(&mut self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in Self::bits(hash) {
            self.blocks[block][word] |= bit;
        }
    }

    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let block = &self.blocks[self.block(hash)];
        Self::bits(hash).all(|(word, bit)| block[word] & bit != 0)
    }

    pub(super) fn clear(&mut self) {
        self.blocks.fill([0; BLOCK_WORDS]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_and_few_others() {
        const KEYS: u64 = if cfg!(miri) { 200 } else { 10_000 };
        let keys = 0..KEYS;
        let mut filter = Filter::new(keys.clone().count());
        for key in keys.clone() {
            filter.insert(Filter::hash(key));
        }
        let may_contain = |key: &u64| filter.may_contain(Filter::hash(*key));
        assert!(keys.clone().all(|key| may_contain(&key)));
        let wrong = (KEYS..11 * KEYS).filter(may_contain).count();
        assert!(wrong < 3 * keys.count() / 10, "{wrong} of ten times {KEYS}");
        filter.clear();
        assert!(!filter.may_contain(Filter::hash(1)));
    }
}
