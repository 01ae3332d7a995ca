//! Which columns the pages of a run have, and where each stands among its kind.

use crate::entry::RowLayout;
use crate::key_order::KeyOrder;

/// Which columns the pages of a run have.
#[derive(Debug, Clone)]
pub(super) struct Shape<L> {
    pub(super) layout: L,
    pub(super) payload_len: usize,
    pub(super) ties: bool,
    /// Whether key bytes are kept, as the prefix does not say all.
    pub(super) keys: bool,
    /// Widths of the fixed columns of more than eight bytes.
    pub(super) wide: Vec<usize>,
}

impl<L: RowLayout> Shape<L> {
    pub(super) fn new(layout: L, order: &impl KeyOrder, payload_len: usize, ties: bool) -> Self {
        let widths = layout.fixed_widths().iter().map(|&width| usize::from(width));
        Self {
            wide: widths.filter(|&width| width > 8).collect(),
            keys: !order.prefix_is_exact(),
            payload_len,
            ties,
            layout,
        }
    }

    pub(super) fn tombstones_at(&self) -> usize {
        1 + usize::from(self.ties)
    }

    /// Where the fixed columns of at most eight bytes begin among the columns of numbers.
    pub(super) fn narrow_at(&self) -> usize {
        self.tombstones_at() + 1
    }

    /// Where the ends of byte strings begin among the columns of numbers.
    pub(super) fn ends_at(&self) -> usize {
        self.narrow_at() + self.layout.fixed_widths().len() - self.wide.len()
    }

    pub(super) fn number_columns(&self) -> usize {
        self.ends_at() + self.string_columns()
    }

    pub(super) fn string_columns(&self) -> usize {
        usize::from(self.keys) + self.layout.variable_columns()
    }
}
