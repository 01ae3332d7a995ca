//! The plain tree of packed leaves: lookups, insertion and removal of one entry.

use super::layered_tree::LayeredTree;
use crate::near_sorted::options::TreeOptions;
use crate::search::dispatch::{LookingUp, Searching, look_up, vectorised};
use crate::search::keys::{NO_KEY, Vectors};

/// A single-threaded B+-tree in memory from `u64` to `u64`.
///
/// Leaves of 256 entries hang below branches of 64 leaves, which a static index over their fences
/// finds. There are no virtual calls, and the only pointers are those to a branch and to a leaf. A
/// lookup takes O(log n): it searches five groups of eight or 16 keys, two or three more where keys
/// are spread unevenly, without branches to mispredict, and usually only the last group is not in a
/// cache. Memory is freed when the tree is dropped.
///
/// ```
/// use bedload_memory::near_sorted::PackedTree;
///
/// let mut tree = PackedTree::new();
/// for key in 0..1000 {
///     tree.insert(key * 7 % 1000, key);
/// }
/// assert_eq!(tree.get(7), Some(1));
/// assert_eq!(tree.remove(7), Some(1));
/// assert_eq!(tree.range(..10).map(|(key, _)| key).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 8, 9]);
/// ```
#[derive(Debug)]
pub struct PackedTree {
    pub(crate) packed: LayeredTree<()>,
}

impl PackedTree {
    /// Creates an empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(TreeOptions::new())
    }

    /// Creates an empty tree with these settings.
    #[must_use]
    pub fn with_options(options: TreeOptions) -> Self {
        Self {
            packed: LayeredTree::new(options),
        }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.entries + usize::from(self.packed.greatest.is_some())
    }

    /// Returns whether the tree has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key. Time O(log n).
    #[inline]
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.packed.greatest;
        }
        look_up(
            Get {
                tree: &self.packed,
                key,
            },
            self.packed.wide,
        )
    }

    /// Inserts a key, or replaces its value. Time O(log n).
    pub fn insert(&mut self, key: u64, value: u64) {
        if key == NO_KEY {
            self.packed.greatest = Some(value);
        } else {
            vectorised(Insert {
                tree: &mut self.packed,
                key,
                value,
            });
        }
    }

    /// Removes a key; returns its value. Time O(log n).
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        if key == NO_KEY {
            return self.packed.greatest.take();
        }
        let (at, place) = self.packed.find(key);
        let (stored, is_sparse) = self.packed.remove((at, place), key)?;
        if is_sparse && let Some(left) = self.packed.drop_or_pair(at, place) {
            self.packed.join_pair(at, left);
        }
        Some(stored)
    }

    /// Returns the bytes that the tree uses on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// Returns the fill of the leaves, from 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.packed.fill()
    }

    /// Returns how often an insert has divided a leaf; leaves that [`append`](Self::append) packs are
    /// not divided.
    #[cfg(feature = "figures")]
    #[must_use]
    pub fn leaf_splits(&self) -> u64 {
        self.packed.leaf_splits
    }

    /// Checks the complete structure. Time O(n).
    ///
    /// # Errors
    ///
    /// Returns the first violated invariant and its location.
    pub fn check_structure(&self) -> Result<(), String> {
        self.packed.check()
    }
}

struct Get<'t> {
    tree: &'t LayeredTree<()>,
    key: u64,
}

impl LookingUp for Get<'_> {
    #[inline(always)]
    fn run(self, vectors: impl Vectors) -> Option<u64> {
        let branch = &self.tree.branches[self.tree.index.find_with(self.key, vectors)];
        let place = branch.find_with(self.key, vectors)?;
        branch.leaves().get(place)?.get(self.key, vectors)
    }
}

struct Insert<'t> {
    tree: &'t mut LayeredTree<()>,
    key: u64,
    value: u64,
}

impl Searching for Insert<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        self.tree.insert(self.key, self.value);
    }
}

impl Default for PackedTree {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descending_keys_fill_leaves() {
        const KEYS: u64 = if cfg!(miri) { 3_000 } else { 100_000 };
        let mut tree = PackedTree::new();
        (0..KEYS).rev().for_each(|key| tree.insert(key, !key));
        assert!(tree.fill() > 0.9, "{}", tree.fill());
        assert_eq!(tree.check_structure(), Ok(()));
        assert!(tree.range(..).eq((0..KEYS).map(|key| (key, !key))));
    }
}
