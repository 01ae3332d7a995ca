//! Targets of descents.

use std::ops::Bound;

use crate::map::range::End;
use crate::search::columns::Words;

/// The target of a descent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim<W> {
    /// The node that covers the key.
    At(W),
    /// The node that covers the greatest keys below the key.
    Below(W),
    /// The right-most node.
    Last,
}

impl<W: Words> Aim<W> {
    /// Aims at the least keys above a lower bound.
    pub(crate) fn least(lower: Bound<W>) -> Self {
        match lower {
            Bound::Included(key) | Bound::Excluded(key) => Self::At(key),
            Bound::Unbounded => Self::At(W::MIN),
        }
    }

    /// Aims at the keys between two bounds that are nearest to an end.
    pub(crate) fn end(end: End, (lower, upper): (Bound<W>, Bound<W>)) -> Self {
        match (end, upper) {
            (End::Least, _) => Self::least(lower),
            (End::Greatest, Bound::Included(key)) => Self::At(key),
            (End::Greatest, Bound::Excluded(key)) => Self::Below(key),
            (End::Greatest, Bound::Unbounded) => Self::Last,
        }
    }

    /// Returns whether the target lies beyond a node with this high fence.
    pub(crate) fn is_beyond(&self, high: &W) -> bool {
        match self {
            Self::At(key) => key >= high,
            Self::Below(key) => key > high,
            Self::Last => true,
        }
    }
}
