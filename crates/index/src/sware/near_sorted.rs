//! The tree for keys that arrive nearly in order.

use super::ahead::Ahead;
use super::bplus_tree::BPlusTree;
use super::join::Joined;
use super::leaf::Leaf;
use super::options::TreeOptions;
use super::search::{Columns, Compiled, LookingUp, NO_KEY, Searching, Vectors, look_up, vectorised};
use super::stage::Run;
use crate::sortedness::Estimator;

/// A key is out of order if it leads the last one by more than this many mean distances of neighbours.
const REACH_GAPS: u64 = 32;
/// After so many keys in a row of which none was in order, the end of the order is looked for anew.
const PATIENCE: usize = 64;

/// An ordered map in memory from `u64` to `u64`, for one thread at a time, that costs what the disorder of its input
/// costs.
///
/// The keys are divided into three ranges, one above the other, so that an operation has to do with one of them only:
///
/// * a [`BPlusTree`] of packed leaves, with late entries pending in its branches;
/// * the *tail*, a leaf to which keys in order are appended and into which those little late are merged;
/// * what is *ahead* of its time.
///
/// A key in order costs an append. Those ahead are appended when the tail comes to them. Those late, by however little,
/// are staged: a thousand of them at most, which are sorted and go to the tail or to their branch together. In the
/// branch, 16 Ki entries of the tree, up to 32 wait for each leaf, until one more comes or somebody [scans](Self::scan) the
/// leaf; then they are merged into it, or into it and those around it if it has no room. Where none wait nothing is looked
/// for. So what waits is bounded by an eighth of the leaves, whatever the order.
///
/// ```
/// use bedload_index::sware::NearSortedTree;
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
    pub(super) tree: BPlusTree,
    /// Entries from `tail_fence` to `tail_end`.
    pub(super) tail: Leaf,
    pub(super) tail_fence: u64,
    pub(super) tail_end: u64,
    /// A key above `tail_end` and up to this one is in order.
    in_order_to: u64,
    pub(super) ahead: Ahead,
    /// How far a key in order may lead the last one.
    reach: u64,
    /// Keys since the last one that was in order.
    misfits: usize,
    /// The last keys that were put ahead.
    put_ahead: Vec<u64>,
    /// Whether the tail has entries that were not appended.
    tail_is_mixed: bool,
    /// Branches below this one were behind all late keys, and merged.
    settled: usize,
    arrivals: Arrivals,
    order: Estimator,
}

/// Which way the entries of a [`NearSortedTree`] went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    /// Staged a little late, with a key in the range of the tail leaf.
    pub into_tail: u64,
    /// Put ahead, until the tail comes to them.
    pub ahead: u64,
    /// Staged late, with a key that belongs to the tree.
    pub pending: u64,
}

impl NearSortedTree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(TreeOptions::new())
    }

    /// An empty tree with these settings.
    #[must_use]
    pub fn with_options(options: TreeOptions) -> Self {
        let mut tree = BPlusTree::with_options(options);
        let tail = tree.scratch.spare.leaf();
        Self {
            tree,
            tail,
            tail_fence: 0,
            tail_end: 0,
            in_order_to: 0,
            ahead: Ahead::new(options),
            reach: 0,
            misfits: 0,
            put_ahead: Vec::new(),
            tail_is_mixed: true,
            settled: 0,
            arrivals: Arrivals::default(),
            order: Estimator::new(),
        }
    }

    /// Puts a value in place, whether or not the key was there. Time O(1) in order; amortised O(log n) otherwise.
    #[inline]
    pub fn insert(&mut self, key: u64, value: u64) {
        self.order.observe(key);
        if key > self.tail_end {
            if key <= self.in_order_to && self.tail.len() < self.tree.options.leaf_entries {
                self.tail.push(key, value);
                self.tail_end = key;
                self.in_order_to = self.limit_after(key);
                self.misfits = 0;
            } else {
                self.insert_above(key, value);
            }
        } else {
            self.misfits += 1;
            self.insert_late(key, value);
        }
    }

    /// The value of a key. Time O(log n).
    #[inline]
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        look_up(Get { tree: self, key }, self.tree.wide)
    }

    #[inline(always)]
    fn get_here(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        if key < self.tail_fence {
            return self.tree.get_below_greatest(key, vectors);
        }
        if key <= self.tail_end {
            return self.get_in_tail(key);
        }
        self.get_above(key)
    }

    #[inline(never)]
    fn get_in_tail(&self, key: u64) -> Option<u64> {
        let staged = self.tree.stage.get(key);
        staged.or_else(|| self.tail.get(key, Compiled))
    }

    #[cold]
    fn get_above(&self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.tree.greatest;
        }
        self.ahead.get(key)
    }

    /// Removes a key; returns its value. Time O(log n).
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        if key < self.tail_fence || key == NO_KEY {
            return self.tree.remove(key);
        }
        if key <= self.tail_end {
            let staged = self.tree.stage.remove(key);
            let stored = self.tail.find(key).ok().map(|rank| {
                self.tail_is_mixed = true;
                self.tail.remove(rank)
            });
            return staged.or(stored);
        }
        let removed = self.ahead.remove(key);
        self.in_order_to = self.limit_after(self.tail_end);
        removed
    }

    /// Merges what is pending, so that reads meet leaves alone. Time O(n) if anything is. There is no need to call it.
    pub fn drain(&mut self) {
        self.clear_stage();
        self.tree.merge_all();
        self.take_ahead(NO_KEY);
    }

    /// The order of the keys so far.
    #[must_use]
    pub fn order(&self) -> &Estimator {
        &self.order
    }

    /// Which way the entries went that were not appended.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// Bytes of the heap that the tree holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tree.bytes() + self.ahead.bytes()
    }

    /// What share of the leaves is filled, from 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.tree.fill()
    }

    /// Up to where a key is in order after this one.
    #[inline(always)]
    fn limit_after(&self, key: u64) -> u64 {
        key.saturating_add(self.reach).min(self.ahead.first() - 1)
    }

    /// Inserts a key up to the tail's end.
    #[inline]
    fn insert_late(&mut self, key: u64, value: u64) {
        if key < self.tail_fence {
            self.arrivals.pending += 1;
        } else {
            self.arrivals.into_tail += 1;
            self.tail_is_mixed = true;
        }
        let has_room = self.tree.stage.push(key, value);
        // The distance of neighbours is unknown until there is a leaf.
        let is_first = self.tree.entries == 0 && self.tree.stage.len() >= self.tree.options.leaf_entries;
        if !has_room || is_first {
            self.clear_stage();
        }
    }

    /// Brings what is staged into the tail, and to the branches in which it waits.
    #[cold]
    fn clear_stage(&mut self) {
        let mut run = std::mem::take(&mut self.tree.scratch.run);
        self.tree.stage.take(&mut run);
        let (keys, values) = run.columns();
        let in_tail = keys.partition_point(|&key| key < self.tail_fence);
        self.tree.insert_run((&keys[..in_tail], &values[..in_tail]));
        if in_tail < keys.len() {
            self.merge_into_tail((&keys[in_tail..], &values[in_tail..]));
        }
        self.tree.scratch.run = run;
    }

    /// Merges entries into the tail, which may fill several leaves. Those in the upper half that lead their neighbour by
    /// too much are put ahead, and what follows.
    fn merge_into_tail(&mut self, late: Columns<'_>) {
        let mut merged = Run::new();
        vectorised(Merge {
            joined: self.tree.scratch.joined(),
            tail: &self.tail,
            late,
            merged: &mut merged,
        });
        self.tail.truncate(0);
        let middle = merged.keys.len() / 2;
        for (number, (&key, &value)) in merged.keys.iter().zip(&merged.values).enumerate() {
            let is_outlier = number > middle && self.tree.entries > 0 && key - self.tail_end > self.reach;
            if is_outlier || self.ahead.first() < key {
                self.ahead.insert(key, value);
                continue;
            }
            self.tail_is_mixed = true;
            self.append(key, value);
        }
        self.in_order_to = self.limit_after(self.tail_end);
        self.misfits = 0;
    }

    /// Inserts a key above the tail's end that the tail has no room for, that is ahead, or that others ahead come
    /// before.
    #[cold]
    fn insert_above(&mut self, key: u64, value: u64) {
        if key == NO_KEY {
            self.tree.greatest = Some(value);
            return;
        }
        if self.tail.len() == self.tree.options.leaf_entries {
            self.close_tail();
        }
        let is_first = self.tree.entries == 0 && self.tail_is_mixed && self.ahead.is_empty();
        if is_first || key - self.tail_end <= self.reach {
            self.take_ahead(key);
            self.misfits = 0;
            return self.append(key, value);
        }
        self.arrivals.ahead += 1;
        self.ahead.insert(key, value);
        self.in_order_to = self.limit_after(self.tail_end);
        self.misfits += 1;
        if self.put_ahead.len() == 2 * PATIENCE {
            self.put_ahead.drain(..PATIENCE);
        }
        self.put_ahead.push(key);
        if self.misfits >= PATIENCE {
            self.move_tail_ahead();
        }
    }

    /// Appends what is ahead and below this key, and drops what is ahead of the same key.
    fn take_ahead(&mut self, key: u64) {
        while let Some((first, value)) = self.ahead.pop_up_to(key) {
            if first < key {
                self.append(first, value);
            }
        }
    }

    /// Nothing has been in order for a while: the tail goes to the middle of what was put ahead of late.
    #[cold]
    fn move_tail_ahead(&mut self) {
        self.misfits = 0;
        let recent = self.put_ahead.len().saturating_sub(PATIENCE);
        let mut recent: Vec<u64> = self
            .put_ahead
            .drain(..)
            .skip(recent)
            .filter(|&key| key > self.tail_end)
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

    /// Adds an entry above all of the tail, and below what is ahead.
    fn append(&mut self, key: u64, value: u64) {
        if self.tail.len() >= self.tree.options.leaf_entries {
            self.close_tail();
            if self.ahead.first() < key {
                self.ahead.insert(key, value);
                return;
            }
        }
        self.tail.push(key, value);
        self.tail_end = key;
        self.in_order_to = self.limit_after(key);
    }

    /// Gives the full tail to the tree, but for what leaves are not filled with.
    fn close_tail(&mut self) {
        if self.tail_is_mixed && !self.tree.stage.is_empty() {
            self.clear_stage();
            if self.tail.len() < self.tree.options.leaf_entries {
                return;
            }
        }
        let mean_gap = self.mean_gap();
        self.reach = mean_gap.saturating_mul(REACH_GAPS);
        if std::mem::take(&mut self.tail_is_mixed) {
            self.cut_outliers();
        }
        let fill = self.tree.options.filled_leaf().min(self.tail.len());
        let mut tail = self.tree.scratch.spare.leaf();
        tail.extend(&self.tail.keys()[fill..], &self.tail.values()[fill..]);
        let mut full = std::mem::replace(&mut self.tail, tail);
        full.truncate(fill);
        let next_fence = self.tail.keys().first().map_or(self.tail_end + 1, |&first| first);
        if full.len() > 0 {
            self.tree.push_leaf(self.tail_fence, full);
        }
        self.tail_fence = next_fence;
        self.settle_behind();
    }

    /// The mean distance of neighbours in the lower half of the tail, where there are no outliers.
    fn mean_gap(&self) -> u64 {
        let keys = self.tail.keys();
        let middle = keys.len() / 2;
        match (keys.first(), keys.get(middle)) {
            (Some(first), Some(end)) if middle > 0 => ((end - first) / middle as u64).max(1),
            _ => 1,
        }
    }

    /// Entries in the upper half of the tail that lead their neighbour by too much are put ahead, and what follows.
    fn cut_outliers(&mut self) {
        let keys = self.tail.keys();
        let middle = keys.len() / 2;
        let cut = (middle..keys.len().saturating_sub(1)).find(|&at| keys[at + 1] - keys[at] > self.reach);
        let Some(cut) = cut else { return };
        for (&key, &value) in keys.iter().zip(self.tail.values()).skip(cut + 1) {
            self.ahead.insert(key, value);
        }
        self.tail_end = keys[cut];
        self.tail.truncate(cut + 1);
        self.in_order_to = self.limit_after(self.tail_end);
    }

    /// Merges what pends where no late keys come any more: further behind the tail than any key was late in the last
    /// window.
    fn settle_behind(&mut self) {
        let branches = self.tree.branches.len();
        let entries = (self.tree.options.filled_leaf() * self.tree.options.branch_leaves) as u64;
        let reached = self.order.window().l / entries + 2;
        let end = branches.saturating_sub(usize::try_from(reached).unwrap_or(usize::MAX));
        if end > self.settled {
            self.tree.merge_branch(self.settled);
            self.settled += 1;
        } else {
            self.settled = end;
        }
    }

    /// Checks the whole structure. Time O(n).
    ///
    /// # Errors
    ///
    /// The invariant that does not hold, and where.
    pub fn check_structure(&self) -> Result<(), String> {
        self.tree.check_structure()?;
        self.tail.check()?;
        let tail = self.tail_fence..=self.tail_end;
        if self.tail.keys().iter().any(|key| !tail.contains(key)) {
            return Err(format!("the tail of {tail:?} holds {:?}", self.tail.keys()));
        }
        self.tree.stage.check(0, self.tail_end)?;
        self.ahead.check()?;
        if self.ahead.first() <= self.tail_end {
            return Err("a key ahead does not lie above the tail".into());
        }
        let last = self
            .tree
            .branches
            .last()
            .and_then(|branch| branch.leaves().last());
        if last
            .and_then(|leaf| leaf.keys().last())
            .is_some_and(|&last| last >= self.tail_fence)
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

struct Merge<'t> {
    joined: &'t mut Joined,
    tail: &'t Leaf,
    late: Columns<'t>,
    merged: &'t mut Run,
}

impl Searching for Merge<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let tail = 0..self.tail.len();
        self.joined
            .visit((self.tail, None), tail, self.late, &mut |keys, values| {
                self.merged.keys.extend_from_slice(keys);
                self.merged.values.extend_from_slice(values);
            });
    }
}

impl Default for NearSortedTree {
    fn default() -> Self {
        Self::new()
    }
}
