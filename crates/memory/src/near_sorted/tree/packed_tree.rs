//! The plain tree of packed leaves: lookups, inserting and removing one entry.

use super::layered_tree::LayeredTree;
use crate::near_sorted::options::TreeOptions;
use crate::search::dispatch::{LookingUp, Searching, look_up, vectorised};
use crate::search::keys::{NO_KEY, Vectors};

/// A B+-tree in memory from `u64` to `u64`, for one thread at a time.
///
/// Leaves of 256 entries hang below branches of 64 leaves, which a static index over their fences finds; there is no
/// virtual call and no pointer but to a branch and to a leaf. A lookup takes O(log n), in five groups of eight or 16 keys, or two
/// or three more where keys are spread unevenly, that are searched without a branch to mispredict, and of which only the last is
/// seldom in a cache. Memory is given back when the tree is dropped.
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
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(TreeOptions::new())
    }

    /// An empty tree with these settings.
    #[must_use]
    pub fn with_options(options: TreeOptions) -> Self {
        Self {
            packed: LayeredTree::new(options),
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.entries + usize::from(self.packed.greatest.is_some())
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

    /// Puts a value in place, whether or not the key was there. Time O(log n).
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

    /// Bytes of the heap that the tree holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// What share of the leaves is filled, from 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.packed.fill()
    }

    /// Checks the whole structure. Time O(n).
    ///
    /// # Errors
    ///
    /// The invariant that does not hold, and where.
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
