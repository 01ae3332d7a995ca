//! Where the memory of an index goes.

/// Bytes of an index, by what they hold.
///
/// ```
/// use bedload_memory::BlinkTree;
/// let tree = BlinkTree::<u64>::new();
/// (0..1000).for_each(|key| tree.insert(key, key));
/// assert_eq!(tree.memory_use().entries_occupied, 16 * 1000);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Latches, fences, links, fingerprints, the ordered views of hash leaves that were scanned,
    /// and what is set aside for the next leaf.
    pub metadata: usize,
    /// Separators of inner nodes and the pointers between them.
    pub structure_occupied: usize,
    /// Room for more of them.
    pub structure_unoccupied: usize,
    /// Keys and values.
    pub entries_occupied: usize,
    /// Room for more of them.
    pub entries_unoccupied: usize,
}

/// An index that can tell where its memory goes.
///
/// ```
/// use bedload_memory::{BlinkTree, Measured};
/// fn bytes(index: &impl Measured) -> usize {
///     index.memory_use().total()
/// }
/// assert!(bytes(&BlinkTree::<u64>::new()) > 0);
/// ```
pub trait Measured {
    /// Where the index's memory goes. While others write, some of it may be missed. Takes O(n).
    fn memory_use(&self) -> MemoryUse;
}

impl MemoryUse {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.metadata
            + self.structure_occupied
            + self.structure_unoccupied
            + self.entries_occupied
            + self.entries_unoccupied
    }

    /// Adds a leaf of `bytes` with room for `capacity` entries of `entry_bytes`, of which there are
    /// `len`.
    pub(crate) const fn add_leaf(&mut self, bytes: usize, entry_bytes: usize, len: usize, capacity: usize) {
        self.metadata += bytes - entry_bytes * capacity;
        self.entries_occupied += entry_bytes * len;
        self.entries_unoccupied += entry_bytes * (capacity - len);
    }

    /// Adds an inner node, likewise.
    pub(crate) const fn add_inner(&mut self, bytes: usize, child_bytes: usize, len: usize, capacity: usize) {
        self.metadata += bytes - child_bytes * capacity;
        self.structure_occupied += child_bytes * len;
        self.structure_unoccupied += child_bytes * (capacity - len);
    }
}
