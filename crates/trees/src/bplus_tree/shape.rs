//! How the nodes of one kind are laid out: which columns there are and where each begins.

use super::options::BPlusTreeOptions;
use crate::entry::{Entry, FixedRow, RowLayout};
use crate::key_order::KeyOrder;
use bedload_pages::{Error, PageId, Result};

/// Bytes of a node before its columns.
pub(super) const HEADER_LEN: usize = 48;

/// Bytes of an (offset, length) slot.
pub(super) const SLOT_LEN: usize = 4;

/// The rows of a branch: the child's page id.
pub(super) type ChildRow = FixedRow<4>;

/// The shapes of the leaves and of the branches of a tree.
///
/// # Errors
///
/// Not even four rows of this layout fit on a page.
pub(super) fn shapes<L: RowLayout>(
    payload_len: usize,
    order: &impl KeyOrder,
    layout: L,
    config: &BPlusTreeOptions,
) -> Result<(Shape<L>, Shape<ChildRow>)> {
    let leaf = Shape::new(layout, order, payload_len, config);
    let branch = Shape::new(FixedRow, order, payload_len, config);
    if leaf.entry_len > leaf.entry_len_max() {
        return Err(Error::EntryTooLarge {
            len_bytes: leaf.entry_len,
            limit_bytes: leaf.entry_len_max(),
        });
    }
    Ok((leaf, branch))
}

/// The layout of the nodes of one kind in one tree. A branch is a node whose rows are one fixed
/// column, the child.
#[derive(Debug, Clone)]
pub(super) struct Shape<L> {
    /// The root of the tree, which every node names; none until the tree has one.
    pub(super) tree: Option<PageId>,
    pub(super) layout: L,
    pub(super) payload_len: usize,
    /// Whether there is a tie column.
    pub(super) ties: bool,
    /// Whether key bytes are kept.
    pub(super) keys: bool,
    /// The length of every key kept, if the order prescribes one.
    pub(super) key_width: Option<usize>,
    /// The most entries a node takes, whatever their size.
    pub(super) max_entries: usize,
    /// Bytes an entry takes in all columns together.
    pub(super) entry_len: usize,
    /// Where the slots begin in a node of capacity 1, behind the header.
    slots_at: usize,
    /// Where the fixed columns begin in a node of capacity 1, behind the header.
    fixed_at: usize,
}

impl<L: RowLayout> Shape<L> {
    pub(super) fn new(
        layout: L,
        order: &impl KeyOrder,
        payload_len: usize,
        config: &BPlusTreeOptions,
    ) -> Self {
        let keys = !order.prefix_is_exact();
        let slots_at = 8 + if config.ties { 8 } else { 0 };
        let fixed_at = slots_at + SLOT_LEN * (usize::from(keys) + layout.variable_columns());
        let entry_len = fixed_at + layout.fixed_len();
        Self {
            tree: None,
            payload_len,
            ties: config.ties,
            keys,
            key_width: order.fixed_width().filter(|_| keys),
            max_entries: usize::from(config.max_entries).min((payload_len - HEADER_LEN) / entry_len),
            entry_len,
            slots_at,
            fixed_at,
            layout,
        }
    }

    /// The same for the tree whose root is page `root`.
    pub(super) fn of_tree(self, root: PageId) -> Self {
        Self {
            tree: Some(root),
            ..self
        }
    }

    /// Bytes behind the header.
    pub(super) fn usable(&self) -> usize {
        self.payload_len - HEADER_LEN
    }

    /// The most bytes an entry may take, columns and heap together, so that a split always succeeds
    /// (see [`cut`](super::split::cut)).
    pub(super) fn entry_len_max(&self) -> usize {
        self.usable() / 4
    }

    /// Columns of slots: the key's, if keys are kept, then one for each variable column.
    pub(super) fn slot_columns(&self) -> usize {
        (self.fixed_at - self.slots_at) / SLOT_LEN
    }

    /// Whether entries have bytes outside the columns.
    pub(super) fn has_heap(&self) -> bool {
        self.fixed_at > self.slots_at
    }

    pub(super) fn tie_column(capacity: usize) -> usize {
        HEADER_LEN + 8 * capacity
    }

    pub(super) fn slot_column(&self, column: usize, capacity: usize) -> usize {
        HEADER_LEN + (self.slots_at + SLOT_LEN * column) * capacity
    }

    pub(super) fn fixed_columns(&self, capacity: usize) -> usize {
        HEADER_LEN + self.fixed_at * capacity
    }

    pub(super) fn columns_end(&self, capacity: usize) -> usize {
        HEADER_LEN + self.entry_len * capacity
    }

    /// Whether `count` entries with `heap_len` bytes outside the columns fit in a node.
    pub(super) fn fits(&self, count: usize, heap_len: usize) -> bool {
        count <= self.max_entries && count * self.entry_len + heap_len <= self.usable()
    }

    /// Whether they fill a node to no more than `percent`.
    pub(super) fn fits_within(&self, count: usize, heap_len: usize, percent: u8) -> bool {
        let percent = usize::from(percent);
        count * 100 <= self.max_entries * percent
            && (count * self.entry_len + heap_len) * 100 <= self.usable() * percent
    }

    /// The capacity to give the columns of a node of `count` entries with `heap_len` bytes outside
    /// of them: what is left is shared between columns and heap in the proportion in which these
    /// entries use them.
    pub(super) fn capacity_for(&self, count: usize, heap_len: usize, fence_len: usize) -> usize {
        if !self.has_heap() {
            return self.max_entries;
        }
        let used = count * self.entry_len + heap_len + fence_len;
        let left = self.usable().saturating_sub(used);
        let mean = self.entry_len + heap_len.checked_div(count).unwrap_or(self.entry_len / 2);
        (count + left / mean).min(self.max_entries)
    }

    /// Fails if the row has not these columns.
    pub(super) fn check(&self, entry: &Entry<'_>) -> Result<()> {
        let reason = if entry.row.fixed.len() != self.layout.fixed_len() {
            "the fixed columns differ in length"
        } else if entry.row.variable.len() != self.layout.variable_columns() {
            "the number of variable columns differs"
        } else if !self.ties && entry.tie != 0 {
            "the tree keeps no ties, and the entry has one"
        } else {
            return Ok(());
        };
        Err(Error::Shape { reason })
    }
}
