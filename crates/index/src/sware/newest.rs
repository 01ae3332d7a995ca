//! The newest entries that wait in a branch.

use super::branch::BRANCH_LEAVES;

/// As many as a byte can name, with a value left for none.
const NEWEST_ENTRIES: usize = 255;

/// Most lookups are for what is not among the newest, and meet an empty head.
const HEADS: usize = 1024;

/// Entries in order of arrival, and a hash table with chains over them: to add one, nothing is compared and nothing is
/// decided.
///
/// Invariants: a head, or a link, is 0 or one more than the place of an entry; each is linked to an earlier one of the
/// same head, so that of equal keys the newest is met first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Newest {
    heads: [u8; HEADS],
    entries: [(u64, u64); NEWEST_ENTRIES],
    links: [u8; NEWEST_ENTRIES],
    len: usize,
}

/// The places of entries, and the leaves to which they belong, one leaf after the other.
pub(super) struct ByLeaf {
    order: [(u8, u8); NEWEST_ENTRIES],
    len: usize,
}

impl ByLeaf {
    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.order[..self.len]
            .iter()
            .map(|&(place, leaf)| (usize::from(place), usize::from(leaf)))
    }
}

impl Newest {
    pub(super) const fn new() -> Self {
        Self {
            len: 0,
            links: [0; NEWEST_ENTRIES],
            heads: [0; HEADS],
            entries: [(0, 0); NEWEST_ENTRIES],
        }
    }

    /// Adds an entry, over older ones of the same key; says whether there is room for another. There must be room.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, value: u64) -> bool {
        let place = self.len;
        let head = &mut self.heads[head_of(hash(key))];
        self.entries[place] = (key, value);
        self.links[place] = *head;
        self.len = place + 1;
        *head = self.len.to_le_bytes()[0];
        self.len < NEWEST_ENTRIES
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64, hash: u64) -> Option<u64> {
        let link = self.heads[head_of(hash)];
        if link == 0 { None } else { self.follow(link, key) }
    }

    #[cold]
    fn follow(&self, mut link: u8, key: u64) -> Option<u64> {
        while link != 0 {
            let place = usize::from(link) - 1;
            if self.entries[place].0 == key {
                return Some(self.entries[place].1);
            }
            link = self.links[place];
        }
        None
    }

    /// The entries, in order of arrival.
    #[inline(always)]
    pub(super) fn entries(&self) -> &[(u64, u64)] {
        &self.entries[..self.len]
    }

    /// The places of all entries, by the leaf to which `find` says that they belong, those of a leaf in order of
    /// arrival.
    #[inline(always)]
    pub(super) fn by_leaf(&self, find: impl Fn(u64) -> usize) -> ByLeaf {
        let mut leaves = [0_u8; NEWEST_ENTRIES];
        let mut ends = [0_usize; BRANCH_LEAVES];
        for (place, &(key, _)) in leaves.iter_mut().zip(self.entries()) {
            let leaf = find(key);
            ends[leaf] += 1;
            *place = leaf.to_le_bytes()[0];
        }
        let mut end = 0;
        for count in &mut ends {
            end += std::mem::replace(count, end);
        }
        let mut order = [(0, 0); NEWEST_ENTRIES];
        for (&leaf, arrival) in leaves[..self.len].iter().zip(0_u8..) {
            let next = &mut ends[usize::from(leaf)];
            order[*next] = (arrival, leaf);
            *next += 1;
        }
        ByLeaf { order, len: self.len }
    }

    pub(super) fn clear(&mut self) {
        if self.len > 0 {
            self.heads.fill(0);
        }
        self.len = 0;
    }
}

/// A hash of a key, of which the upper half is good.
#[inline(always)]
pub(super) fn hash(key: u64) -> u64 {
    (key ^ key >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
fn head_of(hash: u64) -> usize {
    let [low, high, ..] = (hash >> 40).to_le_bytes();
    usize::from(u16::from_le_bytes([low, high])) % HEADS
}
