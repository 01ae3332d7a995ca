//! The stage: late entries on their way to the branches of a tree.

use std::collections::HashMap;

use crate::near_sorted::hash::hash;
use crate::near_sorted::options::LATE_ENTRIES;
use crate::near_sorted::run::SortedRun;
use crate::search::keys::NO_KEY;

const _: () = assert!(LATE_ENTRIES <= u16::MAX as usize, "a link to each entry");

/// Chain heads per entry of capacity.
const HEADS_EACH: usize = 4;

/// Number of key bits, below the prefix common to all keys, of the first sorting pass.
const DIGIT_BITS: u32 = 12;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Entries in order of arrival, with a chained hash table over them: adding one compares nothing
/// and takes no branch. They leave the stage together, sorted, so that those of one branch or leaf
/// are adjacent, and memory can be prefetched for many of them. A filter has one word of bits per
/// entry of capacity: most lookups are for keys that are not staged, and meet a zero bit.
///
/// Invariants: the bits of all entries are set in the filter; a head, or a link, is 0 or one more
/// than the position of an entry; each entry links to an earlier one of the same head, so that of
/// equal keys the newest is met first; a removed entry has the key [`NO_KEY`]; all other keys lie
/// between `least` and `greatest`.
#[derive(Debug)]
pub(crate) struct Stage {
    keys: Vec<u64>,
    values: Vec<u64>,
    links: Vec<u16>,
    /// A power of two of heads; empty until an entry is staged.
    heads: Vec<u16>,
    /// One bit per value of the hash above the shift; empty until an entry is staged.
    filter: Vec<u64>,
    filter_shift: u32,
    least: u64,
    greatest: u64,
    room: usize,
    /// Buffer for sorting.
    sorting: Vec<(u64, u64)>,
}

impl Stage {
    /// Creates a stage of this capacity, at most [`LATE_ENTRIES`].
    pub(crate) const fn new(room: usize) -> Self {
        Self {
            keys: Vec::new(),
            values: Vec::new(),
            links: Vec::new(),
            heads: Vec::new(),
            filter: Vec::new(),
            filter_shift: 0,
            least: NO_KEY,
            greatest: 0,
            room,
            sorting: Vec::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the capacity in entries.
    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// Changes the capacity, at most [`LATE_ENTRIES`], if it differs by a power of two. The stage
    /// must be empty.
    pub(crate) fn set_room(&mut self, room: usize) {
        if room.next_power_of_two() != self.room.next_power_of_two() {
            *self = Self::new(room.next_power_of_two().min(LATE_ENTRIES));
        }
    }

    /// Adds an entry, hiding older ones of the same key; returns whether there is room for another.
    /// There must be room.
    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64, value: u64) -> bool {
        if self.heads.is_empty() {
            self.allocate();
        }
        let (word, bit) = self.filter_of(key);
        self.filter[word] |= bit;
        let head = self.head_of(key);
        let head = &mut self.heads[head];
        self.keys.push(key);
        self.values.push(value);
        self.links.push(*head);
        *head = link_to(self.keys.len());
        self.least = self.least.min(key);
        self.greatest = self.greatest.max(key);
        self.keys.len() < self.room
    }

    #[cold]
    fn allocate(&mut self) {
        let words = self.room.next_power_of_two();
        self.keys.reserve_exact(self.room);
        self.values.reserve_exact(self.room);
        self.links.reserve_exact(self.room);
        self.heads = vec![0; HEADS_EACH * words];
        self.filter = vec![0; words];
        self.filter_shift = u64::BITS - (words * 64).ilog2();
    }

    #[inline(always)]
    fn head_of(&self, key: u64) -> usize {
        low_bits(hash(key) >> 28) & self.heads.len().wrapping_sub(1)
    }

    /// Returns the word and the bit of a key in the filter; its hash bits are mostly not those that
    /// choose the head.
    #[inline(always)]
    fn filter_of(&self, key: u64) -> (usize, u64) {
        let number = hash(key) >> self.filter_shift;
        (low_bits(number >> 6), 1 << (number & 63))
    }

    /// Returns the value of a key, which is not [`NO_KEY`].
    #[inline(always)]
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        if self.may_have(key) {
            self.get_staged(key)
        } else {
            None
        }
    }

    /// Returns whether a key, which is not [`NO_KEY`], may be staged.
    #[inline(always)]
    pub(crate) fn may_have(&self, key: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        let (word, bit) = self.filter_of(key);
        self.filter.get(word).is_some_and(|bits| bits & bit != 0)
    }

    #[cold]
    #[inline(never)]
    fn get_staged(&self, key: u64) -> Option<u64> {
        let link = *self.heads.get(self.head_of(key))?;
        self.find(link, key).map(|place| self.values[place])
    }

    /// Returns the newest entry of a key, starting at this link.
    fn find(&self, mut link: u16, key: u64) -> Option<usize> {
        while let Some(place) = usize::from(link).checked_sub(1) {
            if self.keys[place] == key {
                return Some(place);
            }
            link = self.links[place];
        }
        None
    }

    /// Removes all entries of a key, which is not [`NO_KEY`]; returns the value of the newest.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let mut link = *self.heads.get(self.head_of(key))?;
        let mut newest = None;
        while let Some(place) = self.find(link, key) {
            newest = newest.or(Some(self.values[place]));
            self.keys[place] = NO_KEY;
            link = self.links[place];
        }
        newest
    }

    /// Appends the entries between two bounds, neither of which is [`NO_KEY`], ascending.
    #[inline(always)]
    pub(crate) fn between(&self, lower: u64, upper: u64, run: &mut SortedRun) {
        if lower > self.greatest || upper < self.least || self.is_empty() {
            return;
        }
        let mut found = Vec::new();
        let chunks = self
            .keys
            .chunks(LOOKED_THROUGH)
            .zip(self.values.chunks(LOOKED_THROUGH));
        for (keys, values) in chunks {
            let within = |key: u64| key.wrapping_sub(lower) <= upper - lower;
            let count: u64 = keys.iter().map(|&key| u64::from(within(key))).sum();
            if count > 0 {
                let entries = keys.iter().copied().zip(values.iter().copied());
                found.extend(entries.filter(|entry| within(entry.0)));
            }
        }
        let mut sorted = Vec::new();
        sort_into(&mut sorted, found.iter().copied(), (lower, upper));
        run.extend_sorted(&sorted);
    }

    /// Moves the entries between two bounds, neither of which is [`NO_KEY`], to a run.
    pub(crate) fn take_between(&mut self, lower: u64, upper: u64, run: &mut SortedRun) {
        run.clear();
        self.between(lower, upper, run);
        if run.keys.is_empty() {
            return;
        }
        for key in &mut self.keys {
            if (lower..=upper).contains(key) {
                *key = NO_KEY;
            }
        }
    }

    /// Moves all entries to a run.
    pub(crate) fn take(&mut self, run: &mut SortedRun) {
        run.clear();
        let entries = self.keys.iter().copied().zip(self.values.iter().copied());
        sort_into(&mut self.sorting, entries, (self.least, self.greatest));
        let removed = self.sorting.partition_point(|entry| entry.0 < NO_KEY);
        run.extend_sorted(&self.sorting[..removed]);
        self.clear();
    }

    fn clear(&mut self) {
        self.heads.fill(0);
        self.filter.fill(0);
        self.keys.clear();
        self.values.clear();
        self.links.clear();
        (self.least, self.greatest) = (NO_KEY, 0);
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.keys.capacity() * (2 * size_of::<u64>() + size_of::<u16>());
        let heads = self.heads.capacity() * size_of::<u16>();
        let filter = self.filter.capacity() * size_of::<u64>();
        columns + heads + filter + self.sorting.capacity() * size_of::<(u64, u64)>()
    }

    /// Checks the invariants; all keys must lie between the bounds.
    pub(crate) fn check(&self, lower: u64, upper: u64) -> Result<(), String> {
        if self.keys.len() >= self.room && self.room > 0 {
            return Err(format!("{} entries are staged in a full stage", self.keys.len()));
        }
        if self.keys.len() != self.values.len() || self.keys.len() != self.links.len() {
            return Err("columns of the stage differ in length".into());
        }
        let staged = self.keys.iter().copied().zip(self.values.iter().copied());
        let newest: HashMap<u64, u64> = staged.filter(|entry| entry.0 != NO_KEY).collect();
        for (&key, &value) in &newest {
            if !(lower.max(self.least)..=upper.min(self.greatest)).contains(&key) {
                return Err(format!("{key} is staged, outside of {lower} to {upper}"));
            }
            if self.get(key) != Some(value) {
                return Err(format!("the staged key {key} is not found"));
            }
        }
        Ok(())
    }
}

/// Number of keys compared with bounds at once.
const LOOKED_THROUGH: usize = 32;

/// Sorts entries with keys from `least` to `greatest` into `sorted`, stably, with greater keys
/// after the others: first by the digit in which most of them differ, then by insertion, unless too
/// many share a digit.
fn sort_into(
    sorted: &mut Vec<(u64, u64)>,
    entries: impl ExactSizeIterator<Item = (u64, u64)> + Clone,
    (least, greatest): (u64, u64),
) {
    /// At most this many are sorted at once.
    const FEW: usize = 64;
    /// A digit shared by more entries is not sorted by insertion.
    const OF_ONE_DIGIT: usize = 16;

    sorted.clear();
    if entries.len() <= FEW {
        sorted.extend(entries);
        sorted.sort_by_key(|entry| entry.0);
        return;
    }
    let span = greatest.saturating_sub(least);
    let shift = (u64::BITS - span.leading_zeros()).saturating_sub(DIGIT_BITS);
    let digit =
        |key: u64| usize::try_from((key - least) >> shift).map_or(DIGITS - 1, |digit| digit.min(DIGITS - 1));
    let mut ends = [0_u16; DIGITS];
    for (key, _) in entries.clone() {
        ends[digit(key)] += 1;
    }
    let (mut end, mut most) = (0, 0);
    for count in &mut ends {
        most = most.max(*count);
        end += std::mem::replace(count, end);
    }
    sorted.resize(entries.len(), (0, 0));
    for entry in entries {
        let place = &mut ends[digit(entry.0)];
        sorted[usize::from(*place)] = entry;
        *place += 1;
    }
    if usize::from(most) > OF_ONE_DIGIT {
        let mut from = 0;
        for end in ends.map(usize::from) {
            if end - from > OF_ONE_DIGIT {
                sorted[from..end].sort_by_key(|entry| entry.0);
            }
            from = end;
        }
    }
    insertion_sort(sorted);
}

/// Sorts entries each of which is near its final position.
fn insertion_sort(entries: &mut [(u64, u64)]) {
    for unsorted in 1..entries.len() {
        let entry = entries[unsorted];
        let mut place = unsorted;
        while place > 0 && entries[place - 1].0 > entry.0 {
            entries[place] = entries[place - 1];
            place -= 1;
        }
        entries[place] = entry;
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the caller masks them")]
const fn low_bits(bits: u64) -> usize {
    bits as usize
}

/// Returns a link to the last of `len` entries.
#[inline(always)]
fn link_to(len: usize) -> u16 {
    let [low, high, ..] = len.to_le_bytes();
    u16::from_le_bytes([low, high])
}
