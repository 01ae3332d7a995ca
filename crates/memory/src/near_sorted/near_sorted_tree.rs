//! The tree for keys that arrive nearly in order.

use super::options::{TAIL_ENTRIES, TreeOptions};
use super::pending::tree::PendingTree;
use super::tail::ahead::Ahead;
use super::tail::entries::Tail;
use crate::search::dispatch::{LookingUp, look_up};
use crate::search::keys::{NO_KEY, Vectors};
use bedload_sortedness::Estimator;

/// A key is out of order if it leads the last one by more than this many mean gaps between
/// neighbours.
const REACH_GAPS: u64 = 32;
/// If K is at least this share of the keys, input is mixed: a key that leads the last one by no
/// more than late keys trail it counts as in order.
const MIXED_K: f64 = 0.25;
/// The tail keeps at most one in this many entries of the tree.
const TAIL_SHARE: usize = 32;
/// The tail's length is recomputed when this many times its late capacity arrived too late for it.
const RECONSIDERED: usize = 4;
/// Bytes that the estimator of the order uses on the heap.
const ORDER_BYTES: usize = 16 << 10;
/// The tail is moved after this many consecutive keys out of order.
const PATIENCE: usize = 64;

/// A single-threaded ordered map in memory from `u64` to `u64`, in which only keys that arrive out
/// of order cost more than an append.
///
/// The keys are divided into three ranges, one above the other, so that an operation concerns one
/// of them only:
///
/// * a tree of packed leaves, with late entries pending in its branches;
/// * the *tail*, to which keys in order are appended, and which is as long as late keys reach back,
///   up to 64 Ki entries;
/// * entries *ahead* of their time.
///
/// A key in order costs an append. Slightly late keys are gathered in the tail, a thousand or more,
/// then sorted and merged with it; leaves are packed from the part that late keys do not reach.
/// Keys ahead are appended when the tail reaches them. Keys too late for the tail are staged, at
/// most a thousand, sorted, and moved to their branches together. In a branch, 16 Ki entries of the
/// tree, up to 31 entries are pending per leaf, until one more comes or [scans](Self::scan) make
/// merging worthwhile; then they are merged into the leaf, or into the leaf and its neighbours if
/// it has no room. Leaves without pending entries cost no lookup of them. So pending entries are at
/// most an eighth of the leaves' entries, in any order of input.
///
/// ```
/// use bedload_memory::near_sorted::NearSortedTree;
///
/// let mut tree = NearSortedTree::new();
/// for key in [10, 20, 30, 25, 40, 5, 50] {
///     tree.insert(key, key * 2);
/// }
/// assert_eq!(tree.get(25), Some(50));
/// let keys: Vec<u64> = tree.range(..30).map(|(key, _)| key).collect();
/// assert_eq!(keys, [5, 10, 20, 25]);
/// ```
#[derive(Debug)]
pub struct NearSortedTree {
    pub(super) tree: PendingTree,
    pub(super) tail: Tail,
    pub(super) ahead: Ahead,
    /// How far a key in order may lead the last one; 0 until the mean gap between neighbours is
    /// known.
    reach: u64,
    /// Number of the tail's last keys that were in order and that `order` has not counted yet: it
    /// counts a run of them at lower cost.
    uncounted: usize,
    /// Keys since the last one that was in order or belonged to the tail, if none is uncounted.
    misfits: usize,
    /// The last keys that were put ahead.
    put_ahead: Vec<u64>,
    /// Late keys that went to the tree since leaves were last packed.
    too_late: usize,
    /// Branches below this one lie below all late keys, and are merged.
    settled: usize,
    arrivals: ArrivalCounts,
    order: Estimator,
}

/// Counts of the entries of a [`NearSortedTree`] by their way of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArrivalCounts {
    /// Slightly late, with a key in the range of the tail.
    pub into_tail: u64,
    /// Put ahead, until the tail reaches them.
    pub ahead: u64,
    /// Staged late, with a key in the range of the tree.
    pub pending: u64,
    /// Total rewrites of entries after arrival, in the tail and from there to leaves.
    pub moved: u64,
}

impl NearSortedTree {
    /// Creates an empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(TreeOptions::new())
    }

    /// Creates an empty tree with these settings.
    #[must_use]
    pub fn with_options(options: TreeOptions) -> Self {
        Self {
            tree: PendingTree::with_options(options),
            tail: Tail::new(&options),
            ahead: Ahead::new(options),
            reach: 0,
            uncounted: 0,
            misfits: 0,
            put_ahead: Vec::new(),
            too_late: 0,
            settled: 0,
            arrivals: ArrivalCounts::default(),
            order: Estimator::new(),
        }
    }

    /// Inserts a key, or replaces its value. Time O(1) in order; amortised O(log n) otherwise.
    #[inline]
    pub fn insert(&mut self, key: u64, value: u64) {
        // Few instructions, and calls last or not at all: while an earlier lookup waits for memory,
        // the processor runs only some hundred instructions ahead, and the next lookup should be
        // among them.
        if !self.is_in_order(key) || !self.tail.push_in_place(key, value) {
            return self.insert_otherwise(key, value);
        }
        self.uncounted += 1;
    }

    /// Returns whether a key lies above the tail's end, leads it by no more than the reach, and
    /// lies below the entries ahead.
    #[inline(always)]
    fn is_in_order(&self, key: u64) -> bool {
        key > self.tail.end && key - self.tail.end <= self.reach && key < self.ahead.first()
    }

    /// Inserts a key that cannot be appended.
    #[inline(never)]
    fn insert_otherwise(&mut self, key: u64, value: u64) {
        self.count_run();
        if key == NO_KEY {
            // Observed, it would be the greatest for good: every later key would be late.
            self.tree.packed.greatest = Some(value);
            return;
        }
        self.order.observe(key);
        if key > self.tail.end {
            self.insert_above(key, value);
        } else {
            self.insert_late(key, value);
        }
    }

    /// Counts the keys that were in order, before the tail's last keys change. Merging late keys
    /// does not change them: they arrived later and lie above.
    fn count_run(&mut self) {
        if self.uncounted > 0 {
            self.order.observe_run(self.tail.last_keys(self.uncounted));
            self.uncounted = 0;
            self.misfits = 0;
        }
    }

    /// Returns the value of a key. Time O(log n).
    #[inline]
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        look_up(Get { tree: self, key }, self.tree.packed.wide)
    }

    #[inline(always)]
    fn get_here(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        if key < self.tail.fence {
            return self.tree.get_below_greatest(key, vectors);
        }
        if key <= self.tail.end {
            return self.get_in_tail(key);
        }
        self.get_above(key)
    }

    #[inline(never)]
    fn get_in_tail(&self, key: u64) -> Option<u64> {
        self.tail.get(key)
    }

    #[cold]
    fn get_above(&self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.tree.packed.greatest;
        }
        self.ahead.get(key)
    }

    /// Removes a key; returns its value. Time O(log n), plus that of moving the entries above it in
    /// the tail.
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        if key < self.tail.fence || key == NO_KEY {
            return self.tree.remove(key);
        }
        if key <= self.tail.end {
            self.count_run();
            return self.tail.remove(key);
        }
        self.ahead.remove(key)
    }

    /// Merges all pending entries, so that reads meet only leaves, except for the entries of the
    /// last one. Time O(n) if any are pending. Calling it is never necessary.
    pub fn drain(&mut self) {
        self.count_run();
        self.pack(0);
        self.tree.merge_all();
        self.take_ahead(NO_KEY);
        self.pack(0);
    }

    /// Returns a copy, of some 16 KiB, of the estimator of the order so far, in which inserts of
    /// `u64::MAX` do not count. Time O(1).
    #[must_use]
    pub fn order(&self) -> Estimator {
        let mut order = self.order.clone();
        order.observe_run(self.tail.last_keys(self.uncounted));
        order
    }

    /// Returns how the entries that were not appended arrived.
    #[must_use]
    pub fn arrivals(&self) -> ArrivalCounts {
        ArrivalCounts {
            moved: self.tail.moved,
            ..self.arrivals
        }
    }

    /// Returns the bytes that the tree uses on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let put_ahead = self.put_ahead.capacity() * size_of::<u64>();
        self.tree.bytes() + self.tail.bytes() + self.ahead.bytes() + put_ahead + ORDER_BYTES
    }

    /// Returns the fill of the leaves, from 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.tree.packed.fill()
    }

    /// Inserts a key up to the tail's end.
    #[inline]
    fn insert_late(&mut self, key: u64, value: u64) {
        self.tail.lateness.note(self.tail.end - key);
        if key < self.tail.fence {
            return self.insert_too_late(key, value);
        }
        self.arrivals.into_tail += 1;
        let has_room = self.tail.late.push(key, value);
        if !has_room || self.reach == 0 && self.tail.late.len() >= self.tree.packed.options.leaf_entries {
            self.pack_tail();
        }
    }

    /// Inserts a key in the range of the tree.
    #[inline]
    fn insert_too_late(&mut self, key: u64, value: u64) {
        self.arrivals.pending += 1;
        self.misfits += 1;
        self.too_late += 1;
        self.tree.insert_late(key, value);
        // The tail may be too short.
        if self.too_late >= RECONSIDERED * self.tail.late.room() {
            self.pack_tail();
        }
    }

    /// Inserts a key above the tail's end that does not fit into the tail, is ahead, or lies above
    /// others that are ahead.
    #[cold]
    fn insert_above(&mut self, key: u64, value: u64) {
        if !self.tail.has_room() {
            self.pack_tail();
        }
        let is_unknown = self.reach == 0 && self.ahead.is_empty();
        if is_unknown || key - self.tail.end <= self.reach {
            self.take_ahead(key);
            self.misfits = 0;
            return self.append(key, value);
        }
        self.arrivals.ahead += 1;
        self.ahead.insert(key, value);
        self.misfits += 1;
        if self.put_ahead.len() == 2 * PATIENCE {
            self.put_ahead.drain(..PATIENCE);
        }
        self.put_ahead.push(key);
        if self.misfits >= PATIENCE {
            self.move_tail_ahead();
        }
    }

    /// Appends the entries ahead below this key, and drops one of the same key.
    fn take_ahead(&mut self, key: u64) {
        while let Some((first, value)) = self.ahead.pop_up_to(key) {
            if first < key {
                self.append(first, value);
            }
        }
    }

    /// Moves the tail to the middle of the keys recently put ahead, after none was in order for a
    /// while.
    #[cold]
    fn move_tail_ahead(&mut self) {
        self.misfits = 0;
        let recent = self.put_ahead.len().saturating_sub(PATIENCE);
        let mut recent: Vec<u64> = self
            .put_ahead
            .drain(..)
            .skip(recent)
            .filter(|&key| key > self.tail.end)
            .collect();
        if recent.is_empty() {
            return;
        }
        let middle = recent.len() / 2;
        let (_, &mut key, _) = recent.select_nth_unstable(middle);
        let value = self.ahead.get(key);
        self.take_ahead(key);
        if let Some(value) = value {
            self.append(key, value);
        }
    }

    /// Appends an entry above all of the tail and below the entries ahead.
    fn append(&mut self, key: u64, value: u64) {
        if !self.tail.has_room() {
            self.pack_tail();
            if self.ahead.first() < key {
                self.ahead.insert(key, value);
                return;
            }
        }
        self.tail.push(key, value);
    }

    /// Packs leaves from the part of the tail that late keys do not reach.
    #[cold]
    fn pack_tail(&mut self) {
        let most = self.tree.packed.entries / TAIL_SHARE;
        self.pack(most.clamp(self.tree.packed.options.staged_entries, TAIL_ENTRIES));
    }

    /// Merges the late entries of the tail, and packs all but at most `most` entries and those that
    /// do not fill a leaf.
    fn pack(&mut self, most: usize) {
        let options = self.tree.packed.options;
        let was_late = self.tail.merge_late(&mut self.tree.scratch.run);
        let keys = self.tail.sorted().0;
        let tells_gaps = keys.len() >= options.leaf_entries / 2;
        let gaps = mean_gap(keys).saturating_mul(REACH_GAPS);
        if tells_gaps && (was_late || self.reach == 0) {
            self.cut_outliers(gaps.max(self.reach));
        }
        let (settled, distance) = self.tail.plan(most, &options);
        if tells_gaps {
            let is_mixed = self.order.window().k_share() >= MIXED_K;
            self.reach = if is_mixed { gaps.max(distance) } else { gaps };
        }
        let fill = options.filled_leaf();
        let leaves = settled / fill;
        for number in 0..leaves {
            let (keys, values) = self.tail.sorted();
            let part = number * fill..(number + 1) * fill;
            let leaf = self
                .tree
                .packed
                .spare
                .leaf_of((&keys[part.clone()], &values[part]));
            let fence = if number == 0 {
                self.tail.fence
            } else {
                leaf.keys()[0]
            };
            self.tree.packed.push_leaf(fence, leaf);
            self.settle_behind();
        }
        self.tail.forget_first(leaves * fill, &options);
        self.too_late = 0;
    }

    /// Moves entries from the first in the upper half of the tail that leads its neighbour by more
    /// than the reach to the entries ahead.
    fn cut_outliers(&mut self, reach: u64) {
        let keys = self.tail.sorted().0;
        let middle = keys.len() / 2;
        let upper = &keys[middle..];
        let cut = upper.windows(2).position(|pair| pair[1] - pair[0] > reach);
        if let Some(cut) = cut {
            let ahead = &mut self.ahead;
            self.tail
                .cut(middle + cut + 1, |key, value| ahead.insert(key, value));
        }
    }

    /// Merges pending entries below the reach of late keys: further below the tail than any key was
    /// late in the last window.
    fn settle_behind(&mut self) {
        let branches = self.tree.packed.branches.len();
        let entries =
            (self.tree.packed.options.filled_leaf() * self.tree.packed.options.branch_leaves) as u64;
        let reached = self.order.window().l / entries + 2;
        let end = branches.saturating_sub(usize::try_from(reached).unwrap_or(usize::MAX));
        if end > self.settled {
            self.tree.merge_branch(self.settled);
            self.settled += 1;
        } else {
            self.settled = end;
        }
    }

    /// Checks the complete structure. Time O(n).
    ///
    /// # Errors
    ///
    /// Returns the first violated invariant and its location.
    pub fn check_structure(&self) -> Result<(), String> {
        self.tree.check()?;
        self.tail.check()?;
        if self.tail.fence > 0 {
            self.tree.stage.check(0, self.tail.fence - 1)?;
        }
        self.ahead.check()?;
        if self.ahead.first() <= self.tail.end {
            return Err("a key ahead does not lie above the tail".into());
        }
        let last = self
            .tree
            .packed
            .branches
            .last()
            .and_then(|branch| branch.leaves().last());
        if last
            .and_then(|leaf| leaf.keys().last())
            .is_some_and(|&last| last >= self.tail.fence)
        {
            return Err("the tree reaches into the tail".into());
        }
        Ok(())
    }
}

struct Get<'t> {
    tree: &'t NearSortedTree,
    key: u64,
}

impl LookingUp for Get<'_> {
    #[inline(always)]
    fn run(self, vectors: impl Vectors) -> Option<u64> {
        self.tree.get_here(self.key, vectors)
    }
}

/// Returns the mean gap between neighbours in the lower half of some keys, where there are no
/// outliers.
fn mean_gap(keys: &[u64]) -> u64 {
    let middle = keys.len() / 2;
    match (keys.first(), keys.get(middle)) {
        (Some(first), Some(end)) if middle > 0 => ((end - first) / middle as u64).max(1),
        _ => 1,
    }
}

impl Default for NearSortedTree {
    fn default() -> Self {
        Self::new()
    }
}
