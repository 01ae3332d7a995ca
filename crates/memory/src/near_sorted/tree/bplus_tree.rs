//! The B+-tree in memory: lookups, inserting and removing one entry.

use super::branch::Branch;
use super::fence_index::FenceIndex;
use super::leaf::Leaf;
use super::scratch::Scratch;
use crate::near_sorted::options::TreeOptions;
use crate::near_sorted::pending::stage::Stage;
use crate::near_sorted::search::{
    Compiled, LookingUp, NO_KEY, Searching, Vectors, Wide, look_up, vectorised,
};

/// A B+-tree in memory from `u64` to `u64`, for one thread at a time.
///
/// Leaves of 256 entries hang below branches of 64 leaves, which a static index over their fences finds; there is no
/// virtual call and no pointer but to a branch and to a leaf. A lookup takes O(log n), in five groups of eight or 16 keys, or two
/// or three more where keys are spread unevenly, that are searched without a branch to mispredict, and of which only the last is
/// seldom in a cache. Memory is given back when the tree is dropped.
///
/// ```
/// use bedload_memory::near_sorted::BPlusTree;
///
/// let mut tree = BPlusTree::new();
/// for key in 0..1000 {
///     tree.insert(key * 7 % 1000, key);
/// }
/// assert_eq!(tree.get(7), Some(1));
/// assert_eq!(tree.remove(7), Some(1));
/// assert_eq!(tree.range(..10).map(|(key, _)| key).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 8, 9]);
/// ```
#[derive(Debug)]
pub struct BPlusTree {
    /// The fences of the branches: a branch holds keys from its fence on, below the next one's.
    pub(crate) index: FenceIndex,
    #[expect(
        clippy::vec_box,
        reason = "a branch is put between others, which need not move"
    )]
    pub(crate) branches: Vec<Box<Branch>>,
    /// Late entries, newer than those that wait in the branches.
    pub(crate) stage: Stage,
    /// The value of the greatest of all keys, which no node can hold.
    pub(crate) greatest: Option<u64>,
    /// Entries in leaves.
    pub(crate) entries: usize,
    pub(crate) options: TreeOptions,
    pub(crate) scratch: Scratch,
    pub(crate) wide: Option<Wide>,
}

impl BPlusTree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(TreeOptions::new())
    }

    /// An empty tree with these settings.
    #[must_use]
    pub fn with_options(options: TreeOptions) -> Self {
        Self {
            index: FenceIndex::new(),
            branches: vec![Box::new(Branch::new())],
            stage: Stage::new(options.staged_entries),
            greatest: None,
            entries: 0,
            options,
            scratch: Scratch::new(),
            wide: Wide::detect(),
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries + usize::from(self.greatest.is_some())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key. Time O(log n).
    #[inline]
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.greatest;
        }
        look_up(Get { tree: self, key }, self.wide)
    }

    #[inline(always)]
    pub(crate) fn get_below_greatest(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        if self.stage.may_have(key) {
            return self.get_staged(key);
        }
        self.get_unstaged(key, vectors)
    }

    /// Looks a key up that seems to be staged.
    #[cold]
    #[inline(never)]
    fn get_staged(&self, key: u64) -> Option<u64> {
        let staged = self.stage.get(key);
        staged.or_else(|| self.get_unstaged(key, Compiled))
    }

    #[inline(always)]
    fn get_unstaged(&self, key: u64, vectors: impl Vectors) -> Option<u64> {
        self.branches[self.index.find_with(key, vectors)].get(key, vectors)
    }

    /// Puts a value in place, whether or not the key was there. Time O(log n).
    pub fn insert(&mut self, key: u64, value: u64) {
        if key == NO_KEY {
            self.greatest = Some(value);
        } else {
            vectorised(Insert {
                tree: self,
                key,
                value,
            });
        }
    }

    #[inline(always)]
    fn insert_below_greatest(&mut self, key: u64, value: u64) {
        let last = self.branches.len() - 1;
        let in_tail = self.options.tail_leaf
            && self.branches[last]
                .leaves()
                .len()
                .checked_sub(1)
                .and_then(|leaf| self.branches[last].fence(leaf))
                .is_some_and(|fence| fence <= key);
        let at = if in_tail { last } else { self.index.find(key) };
        let branch = &mut self.branches[at];
        let place = if in_tail {
            branch.leaves().len() - 1
        } else {
            branch.find(key)
        };
        if branch.leaves().is_empty() {
            branch.push(self.index.fence(at).unwrap_or(0), self.scratch.spare.leaf());
        }
        let leaf = branch.leaf_mut(place);
        let rank = match leaf.find(key) {
            Ok(rank) => return leaf.set_value(rank, value),
            Err(rank) => rank,
        };
        self.entries += 1;
        if leaf.len() < self.options.leaf_entries {
            return leaf.insert(rank, key, value);
        }
        let kept = (leaf.len() * self.options.split_percent / 100).max(1);
        let mut right = self.scratch.spare.leaf();
        right.extend(&leaf.keys()[kept..], &leaf.values()[kept..]);
        leaf.truncate(kept);
        if rank < kept {
            leaf.insert(rank, key, value);
        } else {
            right.insert(rank - kept, key, value);
        }
        if branch.leaves().len() == self.options.branch_leaves {
            self.split_branch(at);
        }
        let fence = right.keys()[0];
        let at = self.index.find(fence);
        let branch = &mut self.branches[at];
        let place = branch.find(fence) + 1;
        branch.insert(place, fence, right);
    }

    /// Makes room in a full branch.
    fn split_branch(&mut self, at: usize) {
        let branch = &mut self.branches[at];
        let kept = (branch.leaves().len() * self.options.split_percent / 100).max(1);
        let right = branch.split_off(kept);
        let fence = right.fence(0).unwrap_or(NO_KEY);
        self.branches.insert(at + 1, Box::new(right));
        self.index.insert(at + 1, fence);
    }

    /// Removes a key; returns its value. Time O(log n), and that of the merge if anything waits for its leaf.
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.greatest.take();
        }
        let staged = self.stage.remove(key);
        staged.or(self.remove_from_branch(key))
    }

    fn remove_from_branch(&mut self, key: u64) -> Option<u64> {
        let at = self.index.find(key);
        self.merge_place(at, self.branches[at].find(key));
        let at = self.index.find(key);
        let branch = &mut self.branches[at];
        let place = branch.find(key);
        let rank = branch.leaves().get(place)?.find(key).ok()?;
        let leaf = branch.leaf_mut(place);
        let stored = leaf.remove(rank);
        self.entries -= 1;
        if leaf.len() < self.options.leaf_entries / 4 {
            self.join_leaf(at, place);
        }
        Some(stored)
    }

    /// Joins a leaf that has become sparse to a neighbour, or drops it if it is empty.
    fn join_leaf(&mut self, at: usize, place: usize) {
        let branch = &mut self.branches[at];
        if branch.held(place) == 0 {
            let empty = branch.remove(place);
            self.scratch.spare.keep(empty);
            if branch.leaves().is_empty() {
                self.drop_branch(at);
            }
            return;
        }
        let fits = |left: usize| {
            left + 1 < branch.leaves().len()
                && branch.held(left) + branch.held(left + 1) <= self.options.leaf_entries * 3 / 4
        };
        let left = if fits(place) {
            place
        } else if place > 0 && fits(place - 1) {
            place - 1
        } else {
            return;
        };
        self.merge_place(at, left);
        self.merge_place(at, left + 1);
        let branch = &mut self.branches[at];
        let right = branch.remove(left + 1);
        branch.leaf_mut(left).extend(right.keys(), right.values());
        self.scratch.spare.keep(right);
    }

    /// Drops a branch without leaves, unless it is the only one; the one before it gets its range, or if there is none
    /// the one behind it.
    pub(crate) fn drop_branch(&mut self, at: usize) {
        if self.branches.len() == 1 {
            return;
        }
        self.branches.remove(at);
        self.index.remove(at.max(1));
        if at == 0 {
            self.branches[0].lower_first_fence();
        }
    }

    /// Adds a leaf behind all others; `fence` is at most its first key and lies above every other key.
    pub(crate) fn push_leaf(&mut self, fence: u64, leaf: Leaf) {
        self.entries += leaf.len();
        let last = self.branches.len() - 1;
        let branch = &mut self.branches[last];
        let leaves = branch.leaves().len();
        if leaves == 0 {
            let fence = self.index.fence(last).unwrap_or(0);
            branch.push(fence, leaf);
        } else if leaves < self.options.branch_leaves {
            branch.push(fence, leaf);
        } else {
            self.branches.push(Box::new(Branch::of([(fence, leaf)])));
            self.index.insert(last + 1, fence);
        }
    }

    /// Bytes of the heap that the tree holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let branches: usize = self.branches.iter().map(|branch| branch.bytes()).sum();
        branches + self.stage.bytes() + self.scratch.bytes()
    }

    /// What share of the leaves is filled, from 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let leaves: usize = self.branches.iter().map(|branch| branch.leaves().len()).sum();
        self.entries as f64 / (leaves * self.options.leaf_entries).max(1) as f64
    }

    /// Checks the whole structure. Time O(n).
    ///
    /// # Errors
    ///
    /// The invariant that does not hold, and where.
    pub fn check_structure(&self) -> Result<(), String> {
        self.index.check()?;
        self.stage.check(0, NO_KEY - 1)?;
        let mut entries = 0;
        for (at, branch) in self.branches.iter().enumerate() {
            let lower = self.index.fence(at).ok_or("a branch has no fence")?;
            let upper = self.index.fence(at + 1).map_or(NO_KEY - 1, |fence| fence - 1);
            branch.check(lower, upper)?;
            entries += branch.leaves().iter().map(|leaf| leaf.len()).sum::<usize>();
        }
        if self.index.fence(self.branches.len()).is_some() {
            return Err("there are more fences than branches".into());
        }
        if entries != self.entries {
            return Err(format!(
                "{entries} entries in leaves, but {} are counted",
                self.entries
            ));
        }
        Ok(())
    }
}

struct Get<'t> {
    tree: &'t BPlusTree,
    key: u64,
}

impl LookingUp for Get<'_> {
    #[inline(always)]
    fn run(self, vectors: impl Vectors) -> Option<u64> {
        self.tree.get_below_greatest(self.key, vectors)
    }
}

struct Insert<'t> {
    tree: &'t mut BPlusTree,
    key: u64,
    value: u64,
}

impl Searching for Insert<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.insert_below_greatest(self.key, self.value);
    }
}

impl Default for BPlusTree {
    fn default() -> Self {
        Self::new()
    }
}
