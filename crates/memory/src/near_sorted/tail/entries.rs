//! The tail: the newest entries, which slightly late keys still reach.

use super::lateness::Lateness;
use crate::near_sorted::options::{LATE_ENTRIES, TreeOptions};
use crate::near_sorted::pending::stage::Stage;
use crate::near_sorted::run::SortedRun;
use crate::search::keys::EntryColumns;

/// Entries that a reader joins at once.
const JOINED_AT_ONCE: usize = 1024;

/// A range merges late entries if the sorted ones are no more than this many times what it reads or
/// what is late.
const MERGED_TIMES: usize = 8;

/// Entries up to the end of the order, from which leaves are packed when no more late keys are
/// expected among them.
///
/// Keys in order are appended to the sorted part; late ones are staged in order of arrival, and
/// sorted and merged when there are many. So each entry is moved a few times, however many are
/// late, unless they are later than the tail is long. [Recent lateness](Lateness) determines its
/// length.
///
/// Invariants: all keys lie between `fence` and `end`; late entries hide sorted ones.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) fence: u64,
    pub(crate) end: u64,
    sorted: SortedRun,
    pub(crate) late: Stage,
    /// Number of sorted entries that triggers packing.
    limit: usize,
    /// Number of sorted entries left by the last packing.
    kept: usize,
    pub(crate) lateness: Lateness,
    /// Output of merges.
    merged: SortedRun,
    /// Total rewrites of entries since arrival.
    pub(crate) moved: u64,
}

impl Tail {
    pub(crate) fn new(options: &TreeOptions) -> Self {
        Self {
            fence: 0,
            end: 0,
            sorted: SortedRun::new(),
            late: Stage::new(options.staged_entries),
            limit: options.leaf_entries,
            kept: 0,
            lateness: Lateness::new(),
            merged: SortedRun::new(),
            moved: 0,
        }
    }

    /// Returns the sorted part.
    #[inline(always)]
    pub(crate) fn sorted(&self) -> EntryColumns<'_> {
        self.sorted.columns()
    }

    /// Returns the last `count` keys of the sorted part.
    pub(crate) fn last_keys(&self, count: usize) -> &[u64] {
        let keys = &self.sorted.keys;
        &keys[keys.len() - count..]
    }

    /// Returns whether there is room for another key in order.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.sorted.keys.len() < self.limit
    }

    /// Appends an entry above all others, if that neither exceeds the limit nor reallocates;
    /// returns whether it did.
    #[inline(always)]
    pub(crate) fn push_in_place(&mut self, key: u64, value: u64) -> bool {
        let has_room = self.has_room() && self.sorted.has_room();
        if has_room {
            self.push(key, value);
        }
        has_room
    }

    /// Appends an entry above all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64, value: u64) {
        self.sorted.push((key, value));
        self.end = key;
    }

    /// Returns the value of a key of the tail.
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        self.late.get(key).or_else(|| {
            let rank = self.sorted.keys.binary_search(&key).ok()?;
            Some(self.sorted.values[rank])
        })
    }

    /// Removes a key of the tail; returns its value. Time O(entries above it).
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let late = self.late.remove(key);
        let sorted = self.sorted.keys.binary_search(&key).ok().map(|rank| {
            self.sorted.keys.remove(rank);
            self.sorted.values.remove(rank)
        });
        late.or(sorted)
    }

    /// Whether a range should merge the late entries, which copies the whole tail. Otherwise it
    /// joins those that it meets, or a short range after each late key would copy the tail each
    /// time.
    pub(crate) fn is_merge_worth(&self, lower: u64, upper: u64) -> bool {
        let keys = &self.sorted.keys;
        let from = keys.partition_point(|&key| key < lower);
        let read = keys[from..].partition_point(|&key| key <= upper);
        keys.len() <= MERGED_TIMES * read.max(self.late.len())
    }

    /// Merges late entries into the sorted part; returns whether there were any.
    pub(crate) fn merge_late(&mut self, late: &mut SortedRun) -> bool {
        if self.late.is_empty() {
            return false;
        }
        self.moved += self.late.len() as u64;
        self.late.take(late);
        let len = self.sorted.keys.len() + late.keys.len();
        self.merged.keys.resize(len, 0);
        self.merged.values.resize(len, 0);
        let mut joining = TailMerge::new(self.sorted.columns(), late.columns());
        let len = joining.fill(&mut self.merged.keys, &mut self.merged.values);
        self.merged.truncate(len);
        std::mem::swap(&mut self.sorted, &mut self.merged);
        self.moved += len as u64;
        true
    }

    /// Returns how many of the first entries to pack, given that all are sorted and at most `most`
    /// may be kept, and how far below the end late keys are expected. Reserves room for the entries
    /// that arrive until the next packing.
    pub(crate) fn plan(&mut self, most: usize, options: &TreeOptions) -> (usize, u64) {
        let keys = &self.sorted.keys;
        let in_order = keys.len().saturating_sub(self.kept);
        let distance = self.lateness.reached(keys, in_order, most);
        let expected = keys.partition_point(|&key| key < self.end.saturating_sub(distance));
        let packed = expected.max(keys.len().saturating_sub(most));
        let room = (keys.len() - packed) / 2;
        let room = room.clamp(options.staged_entries, LATE_ENTRIES.max(options.staged_entries));
        self.late.set_room(room);
        (packed, distance)
    }

    /// Drops the first `packed` entries; the first remaining one is the new fence.
    pub(crate) fn forget_first(&mut self, packed: usize, options: &TreeOptions) {
        self.sorted.forget_first(packed);
        self.kept = self.sorted.keys.len();
        self.moved += (packed + self.kept) as u64;
        self.limit = self.kept + self.kept.max(4 * options.leaf_entries);
        if packed > 0 {
            self.fence = self.sorted.keys.first().map_or(self.end + 1, |&first| first);
        }
    }

    /// Removes the sorted entries from this position on, and passes them to `each`.
    pub(crate) fn cut(&mut self, from: usize, mut each: impl FnMut(u64, u64)) {
        for (&key, &value) in self.sorted.keys[from..].iter().zip(&self.sorted.values[from..]) {
            each(key, value);
        }
        self.sorted.truncate(from);
        self.end = self.sorted.keys.last().map_or(self.end, |&last| last);
    }

    /// Visits the entries between the bounds, which may extend beyond the tail.
    pub(crate) fn visit(&self, lower: u64, upper: u64, visit: &mut impl FnMut(&[u64], &[u64])) {
        if lower > self.end || upper < self.fence {
            return;
        }
        let (lower, upper) = (lower.max(self.fence), upper.min(self.end));
        let (keys, values) = self.sorted();
        let from = keys.partition_point(|&key| key < lower);
        let to = from + keys[from..].partition_point(|&key| key <= upper);
        let sorted = (&keys[from..to], &values[from..to]);
        let mut late = SortedRun::new();
        self.late.between(lower, upper, &mut late);
        if late.keys.is_empty() {
            if !sorted.0.is_empty() {
                visit(sorted.0, sorted.1);
            }
            return;
        }
        let mut joining = TailMerge::new(sorted, late.columns());
        let (mut keys, mut values) = ([0; JOINED_AT_ONCE], [0; JOINED_AT_ONCE]);
        loop {
            let len = joining.fill(&mut keys, &mut values);
            if len == 0 {
                return;
            }
            visit(&keys[..len], &values[..len]);
        }
    }

    /// Returns bounds of a part of the tail with about `entries` sorted entries, between these
    /// keys, from the lower end.
    pub(crate) fn part_up(&self, lower: u64, upper: u64, entries: usize) -> (u64, u64) {
        let keys = &self.sorted.keys;
        let from = keys.partition_point(|&key| key < lower);
        let end = keys.get(from + entries).map_or(self.end, |&next| next - 1);
        (lower, upper.min(end))
    }

    /// The same from the upper end.
    pub(crate) fn part_down(&self, lower: u64, upper: u64, entries: usize) -> (u64, u64) {
        let keys = &self.sorted.keys;
        let to = keys.partition_point(|&key| key <= upper);
        let start = to.checked_sub(entries).map_or(self.fence, |from| keys[from]);
        (lower.max(start), upper)
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.sorted.bytes() + self.merged.bytes() + self.late.bytes()
    }

    /// Checks the invariants.
    pub(crate) fn check(&self) -> Result<(), String> {
        let keys = &self.sorted.keys;
        if !keys.is_sorted_by(|a, b| a < b) || keys.len() != self.sorted.values.len() {
            return Err("keys of the tail do not ascend".into());
        }
        let bounds = self.fence..=self.end;
        if keys.iter().any(|key| !bounds.contains(key)) {
            return Err(format!("the tail of {bounds:?} holds {keys:?}"));
        }
        self.late.check(self.fence, self.end)
    }
}

/// A merge of two sorted runs.
struct TailMerge<'r> {
    older: EntryColumns<'r>,
    newer: EntryColumns<'r>,
}

impl<'r> TailMerge<'r> {
    /// Starts a merge; for equal keys the newer entry wins.
    const fn new(older: EntryColumns<'r>, newer: EntryColumns<'r>) -> Self {
        Self { older, newer }
    }

    /// Writes the next entries of both runs, as many as fit; returns how many. The main loop has no
    /// data-dependent branch, as the order of the two runs is unpredictable.
    fn fill(&mut self, keys: &mut [u64], values: &mut [u64]) -> usize {
        let room = keys.len().min(values.len());
        let (older, newer) = (self.older, self.newer);
        let (mut from_older, mut from_newer, mut len) = (0, 0, 0);
        while len < room && from_older < older.0.len() && from_newer < newer.0.len() {
            let (old, new) = (older.0[from_older], newer.0[from_newer]);
            let (old_value, new_value) = (older.1[from_older], newer.1[from_newer]);
            keys[len] = old.min(new);
            values[len] = if new <= old { new_value } else { old_value };
            from_older += usize::from(old <= new);
            from_newer += usize::from(new <= old);
            len += 1;
        }
        self.older = (&older.0[from_older..], &older.1[from_older..]);
        self.newer = (&newer.0[from_newer..], &newer.1[from_newer..]);
        // One run is exhausted, or the output is full.
        for rest in [&mut self.older, &mut self.newer] {
            let count = rest.0.len().min(room - len);
            keys[len..len + count].copy_from_slice(&rest.0[..count]);
            values[len..len + count].copy_from_slice(&rest.1[..count]);
            *rest = (&rest.0[count..], &rest.1[count..]);
            len += count;
        }
        len
    }
}
