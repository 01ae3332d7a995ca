//! Entries that wait to be merged into the leaves of a branch.

use super::branch::BRANCH_LEAVES;
use super::newest::{Newest, hash};
use super::search::{LANES, NO_KEY, count_below, count_up_to};

/// Entries that may wait for one leaf.
pub(super) const LEAF_PENDING_ENTRIES: usize = 40;

/// Entries that wait, by the leaf to which they belong; the newest ones of all leaves in order of arrival.
///
/// A new entry is written behind the one before it and linked into a small hash table, so that few cache lines of a
/// branch are written to at a time. When 255 have come together, they are put in order, in one sweep over the leaves'
/// buckets. A lookup asks the table and compares with all keys of a bucket, without a branch to mispredict; a scan meets
/// them sorted.
///
/// Both counts stand in one cache line, which every entry needs first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Pending {
    newest: Newest,
    /// All that wait; an entry that arrived again among the newest is counted again.
    len: usize,
    /// As many as there are leaves, or fewer.
    buckets: Vec<Bucket>,
    lens: [u8; BRANCH_LEAVES],
    /// A bit for each key in a bucket: of nine in ten lookups that need not look there it tells so.
    filters: [[u64; FILTER_WORDS]; BRANCH_LEAVES],
}

const FILTER_WORDS: usize = 2;

/// The word and the bit of a hash in the filter of a leaf.
#[inline(always)]
fn filter_bit(hash: u64) -> (usize, u64) {
    let bit = (hash >> 52).to_le_bytes()[0];
    (usize::from(bit) / 64 % FILTER_WORDS, 1 << (bit % 64))
}

/// What waits for one leaf. Keys ascend; behind them they are [`NO_KEY`].
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Bucket {
    keys: [u64; LEAF_PENDING_ENTRIES],
    values: [u64; LEAF_PENDING_ENTRIES],
}

/// Keys and their values.
pub(super) type Columns<'p> = (&'p [u64], &'p [u64]);

impl Pending {
    pub(super) const fn new() -> Self {
        Self {
            len: 0,
            buckets: Vec::new(),
            lens: [0; BRANCH_LEAVES],
            filters: [[0; FILTER_WORDS]; BRANCH_LEAVES],
            newest: Newest::new(),
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the heap, beside its own.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Adds an entry, over older ones of the same key; says whether there is room for another. There must be room.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, value: u64) -> bool {
        self.len += 1;
        self.newest.push(key, value)
    }

    /// The value of a key that belongs to this leaf, if it waits.
    #[inline(always)]
    pub(super) fn get(&self, place: usize, key: u64) -> Option<u64> {
        let hash = hash(key);
        let (word, bit) = filter_bit(hash);
        let newest = self.newest.get(key, hash);
        if newest.is_none() && self.filters[place][word] & bit != 0 {
            return self.get_distributed(place, key);
        }
        newest
    }

    #[cold]
    fn get_distributed(&self, place: usize, key: u64) -> Option<u64> {
        self.buckets.get(place)?.get(key)
    }

    /// Distributes the newest to `leaves` leaves; `find` says to which one a key belongs. Says whether all found room;
    /// the others stay.
    #[inline(always)]
    pub(super) fn distribute(&mut self, leaves: usize, find: impl Fn(u64) -> usize) -> bool {
        let newest = &mut self.newest;
        if self.buckets.len() < leaves {
            self.buckets.reserve_exact(leaves - self.buckets.len());
            self.buckets.resize(leaves, Bucket::EMPTY);
        }
        let mut left = Vec::new();
        let entries = newest.entries();
        let by_leaf = newest.by_leaf(find);
        for (place, leaf) in by_leaf.iter() {
            let (key, value) = entries[place];
            let (bucket, len) = (&mut self.buckets[leaf], &mut self.lens[leaf]);
            let rank = count_below(&bucket.keys, key);
            if bucket.keys.get(rank) == Some(&key) {
                bucket.values[rank] = value;
                self.len -= 1;
            } else if usize::from(*len) < LEAF_PENDING_ENTRIES {
                bucket.insert(rank, key, value);
                let (word, bit) = filter_bit(hash(key));
                self.filters[leaf][word] |= bit;
                *len += 1;
            } else {
                left.push((key, value));
            }
        }
        newest.clear();
        for &(key, value) in &left {
            newest.push(key, value);
        }
        left.is_empty()
    }

    /// What waits for this leaf, ascending, but for the newest.
    #[inline(always)]
    pub(super) fn of_leaf(&self, place: usize) -> Columns<'_> {
        self.buckets
            .get(place)
            .map_or((&[], &[]), |bucket| bucket.entries(self.lens[place]))
    }

    /// The same between two bounds, of which neither is [`NO_KEY`].
    #[inline(always)]
    pub(super) fn of_leaf_between(&self, place: usize, lower: u64, upper: u64) -> Columns<'_> {
        match self.buckets.get(place) {
            None => (&[], &[]),
            Some(bucket) => {
                let (from, to) = (count_below(&bucket.keys, lower), count_up_to(&bucket.keys, upper));
                (&bucket.keys[from..to], &bucket.values[from..to])
            }
        }
    }

    /// The newest, in order of arrival.
    pub(super) fn newest(&self) -> &[(u64, u64)] {
        self.newest.entries()
    }

    /// Forgets everything; returns the buckets.
    pub(super) fn take_buckets(&mut self) -> Buckets {
        (self.len, self.filters) = (0, [[0; FILTER_WORDS]; BRANCH_LEAVES]);
        self.newest.clear();
        Buckets {
            buckets: std::mem::take(&mut self.buckets),
            lens: std::mem::replace(&mut self.lens, [0; BRANCH_LEAVES]),
        }
    }

    /// What does not hold of the invariants.
    pub(super) fn check(&self) -> Result<(), String> {
        let newest = self.newest();
        let mut len = newest.len();
        for (place, bucket) in self.buckets.iter().enumerate() {
            let (keys, _) = self.of_leaf(place);
            len += keys.len();
            if !keys.is_sorted_by(|a, b| a < b) || bucket.keys[keys.len()..].iter().any(|&key| key != NO_KEY)
            {
                return Err(format!(
                    "what waits for leaf {place} does not ascend: {:?}",
                    bucket.keys
                ));
            }
        }
        if len != self.len {
            return Err(format!("{len} entries wait, but {} are counted", self.len));
        }
        match newest
            .iter()
            .find(|&&(key, _)| self.newest.get(key, hash(key)).is_none())
        {
            Some((key, _)) => Err(format!("the pending key {key} is not found")),
            None => Ok(()),
        }
    }
}

/// What waited for the leaves of a branch.
pub(super) struct Buckets {
    buckets: Vec<Bucket>,
    lens: [u8; BRANCH_LEAVES],
}

impl Buckets {
    /// What waited for this leaf, ascending.
    #[inline(always)]
    pub(super) fn of_leaf(&self, place: usize) -> Columns<'_> {
        self.buckets
            .get(place)
            .map_or((&[], &[]), |bucket| bucket.entries(self.lens[place]))
    }
}

impl Bucket {
    const EMPTY: Self = Self {
        keys: [NO_KEY; LEAF_PENDING_ENTRIES],
        values: [0; LEAF_PENDING_ENTRIES],
    };

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        let rank = count_below(&self.keys, key);
        (self.keys.get(rank) == Some(&key)).then(|| self.values[rank])
    }

    #[inline(always)]
    fn entries(&self, len: u8) -> Columns<'_> {
        (&self.keys[..usize::from(len)], &self.values[..usize::from(len)])
    }

    /// Puts an entry at its rank; those from there on move up, and the last one is lost.
    #[inline(always)]
    fn insert(&mut self, rank: usize, key: u64, value: u64) {
        move_up(&mut self.keys, rank);
        move_up(&mut self.values, rank);
        self.keys[rank] = key;
        self.values[rank] = value;
    }
}

/// Moves what stands from `rank` on up by one. Vectors are moved whole, from the last one down, so that no call and no
/// branch depends on how many there are.
#[inline(always)]
fn move_up(column: &mut [u64; LEAF_PENDING_ENTRIES], rank: usize) {
    for first in (0..LEAF_PENDING_ENTRIES / LANES)
        .map(|vector| vector * LANES)
        .rev()
    {
        let (before, after) = column.split_at_mut(first);
        let Some(here) = after.first_chunk_mut::<LANES>() else {
            return;
        };
        let mut below = [0; LANES];
        below[0] = before.last().copied().unwrap_or(0);
        below[1..].copy_from_slice(&here[..LANES - 1]);
        for (lane, (here, below)) in here.iter_mut().zip(below).enumerate() {
            *here = if first + lane > rank { below } else { *here };
        }
    }
}
