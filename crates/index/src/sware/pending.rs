//! Entries that wait to be merged into the leaves of a branch.

use super::options::BRANCH_LEAVES;
use super::search::NO_KEY;
use super::stage::hash;
use crate::mem::prefetch::prefetch;

/// Entries that may wait for one leaf.
pub(super) const LEAF_PENDING_ENTRIES: usize = LEAF_BLOCKS * BLOCK_ENTRIES;

/// Entries of a block: with their values they fill a cache line.
const BLOCK_ENTRIES: usize = 4;
const LEAF_BLOCKS: usize = 16;

/// Blocks for which room is made at once.
const BLOCKS_GROWN: usize = 160;

/// Entries that wait, by the leaf to which they belong, in order of arrival.
///
/// Those of a leaf stand in blocks, which all leaves of the branch take from the same column of blocks, so that what
/// waits takes the room that it needs, however it is divided among the leaves. To add an entry, three cache lines are
/// written to: the two of the leaf, and a block. A lookup compares with the fingerprints in the first, and seldom needs
/// more; whoever reads the leaf sorts what waits for it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Pending {
    len: usize,
    /// How many may wait.
    room: usize,
    blocks: Vec<Block>,
    leaves: [Waiting; BRANCH_LEAVES],
}

/// What waits for one leaf.
///
/// Invariants: entry `n` stands in block `blocks[n / 4]` at `n % 4`, and its fingerprint at `n`; behind the last one
/// fingerprints are 0, which none is.
#[derive(Debug)]
#[repr(C, align(64))]
struct Waiting {
    fingerprints: [u8; LEAF_PENDING_ENTRIES],
    blocks: [u16; LEAF_BLOCKS],
    len: u8,
}

/// Behind the last entry of a leaf keys are [`NO_KEY`].
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Block {
    keys: [u64; BLOCK_ENTRIES],
    values: [u64; BLOCK_ENTRIES],
}

/// Room for all that may wait for a leaf.
pub(super) type LeafColumn = [u64; LEAF_PENDING_ENTRIES];

/// What is compared before keys are.
#[inline(always)]
fn fingerprint(key: u64) -> u8 {
    let [.., byte] = hash(key).to_le_bytes();
    byte.max(1)
}

/// The bytes of a word that may be equal to another one, by their highest bits; among them are all that are.
#[inline(always)]
fn equal_bytes(word: [u8; 8], byte: u8) -> u64 {
    const LOWEST: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = LOWEST << 7;
    let zero_if_equal = u64::from_le_bytes(word) ^ (u64::from(byte) * LOWEST);
    zero_if_equal.wrapping_sub(LOWEST) & !zero_if_equal & HIGHEST
}

impl Pending {
    pub(super) const fn new() -> Self {
        Self {
            len: 0,
            room: usize::MAX,
            blocks: Vec::new(),
            leaves: [const { Waiting::NONE }; BRANCH_LEAVES],
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether fewer wait than may; one that arrived again is counted again.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.len < self.room
    }

    /// Lets so many wait from now on.
    pub(super) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Bytes of the heap, beside its own.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    /// Adds an entry that belongs to this leaf, over older ones of the same key; says whether there was room.
    #[inline(always)]
    pub(super) fn push(&mut self, place: usize, key: u64, value: u64) -> bool {
        let leaf = &mut self.leaves[place];
        let len = usize::from(leaf.len);
        let (block, at) = (len / BLOCK_ENTRIES, len % BLOCK_ENTRIES);
        if block == LEAF_BLOCKS {
            return false;
        }
        if at == 0 {
            leaf.blocks[block] = block_number(self.blocks.len());
            if self.blocks.len() == self.blocks.capacity() {
                self.blocks.reserve_exact(BLOCKS_GROWN);
            }
            self.blocks.push(Block::EMPTY);
        }
        let block = &mut self.blocks[usize::from(leaf.blocks[block])];
        block.keys[at] = key;
        block.values[at] = value;
        leaf.fingerprints[len] = fingerprint(key);
        leaf.len += 1;
        self.len += 1;
        true
    }

    /// Asks for what is known of a leaf.
    #[inline(always)]
    pub(super) fn prefetch_leaf(&self, place: usize) {
        prefetch(&self.leaves[place].fingerprints);
        prefetch(&self.leaves[place].blocks);
    }

    /// Asks for the block that the next entry of a leaf goes to.
    #[inline(always)]
    pub(super) fn prefetch_block(&self, place: usize) {
        let leaf = &self.leaves[place];
        let number = leaf.blocks[usize::from(leaf.len) / BLOCK_ENTRIES % LEAF_BLOCKS];
        if let Some(block) = self.blocks.get(usize::from(number)) {
            prefetch(block);
        }
    }

    /// Asks for all blocks of a leaf.
    #[inline(always)]
    pub(super) fn prefetch_blocks(&self, place: usize) {
        self.of_leaf(place).for_each(prefetch);
    }

    /// The value of a key that belongs to this leaf, if it waits.
    #[inline(always)]
    pub(super) fn get(&self, place: usize, key: u64) -> Option<u64> {
        let leaf = &self.leaves[place];
        let fingerprint = fingerprint(key);
        let words = leaf.fingerprints.as_chunks::<8>().0.iter();
        let equal = words.fold(0, |equal, &word| equal | equal_bytes(word, fingerprint));
        if equal == 0 {
            return None;
        }
        self.find(leaf, fingerprint, key)
    }

    /// The newest entry of this key among those with its fingerprint.
    #[cold]
    fn find(&self, leaf: &Waiting, fingerprint: u8, key: u64) -> Option<u64> {
        for (number, &word) in leaf.fingerprints.as_chunks::<8>().0.iter().enumerate().rev() {
            let mut equal = equal_bytes(word, fingerprint);
            while let Some(bit) = equal.checked_ilog2() {
                let place = number * 8 + bit as usize / 8;
                let block = &self.blocks[usize::from(leaf.blocks[place / BLOCK_ENTRIES])];
                if block.keys[place % BLOCK_ENTRIES] == key {
                    return Some(block.values[place % BLOCK_ENTRIES]);
                }
                equal ^= 1 << bit;
            }
        }
        None
    }

    /// The blocks of a leaf.
    #[inline(always)]
    fn of_leaf(&self, place: usize) -> impl Iterator<Item = &Block> {
        let leaf = &self.leaves[place];
        let blocks = usize::from(leaf.len).div_ceil(BLOCK_ENTRIES);
        leaf.blocks[..blocks]
            .iter()
            .map(|&number| &self.blocks[usize::from(number)])
    }

    /// How many wait for a leaf.
    #[inline(always)]
    pub(super) fn waiting(&self, place: usize) -> usize {
        usize::from(self.leaves[place].len)
    }

    /// Copies what waits for a leaf, in order of arrival; returns how many that are.
    #[inline(always)]
    pub(super) fn copy(&self, place: usize, keys: &mut LeafColumn, values: &mut LeafColumn) -> usize {
        let columns = keys
            .as_chunks_mut::<BLOCK_ENTRIES>()
            .0
            .iter_mut()
            .zip(values.as_chunks_mut::<BLOCK_ENTRIES>().0);
        for (block, (keys, values)) in self.of_leaf(place).zip(columns) {
            *keys = block.keys;
            *values = block.values;
        }
        self.waiting(place)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        if self.len > 0 {
            *self = Self::new();
        }
    }

    /// What does not hold of the invariants; `belongs` says whether a key belongs to a leaf.
    pub(super) fn check(&self, belongs: impl Fn(u64, usize) -> bool) -> Result<(), String> {
        let mut len = 0;
        let mut is_taken = vec![false; self.blocks.len()];
        for (place, leaf) in self.leaves.iter().enumerate() {
            len += usize::from(leaf.len);
            for &number in &leaf.blocks[..usize::from(leaf.len).div_ceil(BLOCK_ENTRIES)] {
                if std::mem::replace(&mut is_taken[usize::from(number)], true) {
                    return Err(format!("block {number} belongs to leaf {place} and to another"));
                }
            }
            let (mut keys, mut values) = ([NO_KEY; LEAF_PENDING_ENTRIES], [0; LEAF_PENDING_ENTRIES]);
            let waiting = self.copy(place, &mut keys, &mut values);
            let is_used = |&fingerprint: &u8| fingerprint != 0;
            if leaf
                .fingerprints
                .iter()
                .position(|byte| !is_used(byte))
                .unwrap_or(LEAF_PENDING_ENTRIES)
                != waiting
                || leaf.fingerprints.iter().skip(waiting).any(is_used)
            {
                return Err(format!("fingerprints of leaf {place} differ from its entries"));
            }
            if keys[waiting..].iter().any(|&key| key != NO_KEY) {
                return Err(format!("keys wait for leaf {place} behind the last one"));
            }
            for (arrival, &key) in keys[..waiting].iter().enumerate() {
                let newest = keys[..waiting].iter().rposition(|&other| other == key);
                if self.get(place, key) != newest.map(|newest| values[newest]) {
                    return Err(format!(
                        "{key}, which waits for leaf {place} at {arrival}, is not found"
                    ));
                }
                if !belongs(key, place) {
                    return Err(format!("{key} waits for leaf {place}"));
                }
            }
        }
        if len > self.room {
            return Err(format!("{len} entries wait where {} may", self.room));
        }
        if len != self.len || is_taken.contains(&false) {
            return Err(format!("{len} entries wait, but {} are counted", self.len));
        }
        Ok(())
    }
}

impl Waiting {
    const NONE: Self = Self {
        fingerprints: [0; LEAF_PENDING_ENTRIES],
        blocks: [0; LEAF_BLOCKS],
        len: 0,
    };
}

impl Block {
    const EMPTY: Self = Self {
        keys: [NO_KEY; BLOCK_ENTRIES],
        values: [0; BLOCK_ENTRIES],
    };
}

/// There are at most as many blocks as entries that wait.
#[inline(always)]
fn block_number(number: usize) -> u16 {
    let [low, high, ..] = number.to_le_bytes();
    u16::from_le_bytes([low, high])
}
