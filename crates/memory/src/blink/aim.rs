//! Where descents go.

use std::ops::Bound;

use crate::map::range::End;
use crate::search::columns::Words;

/// Where to descend to.
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
    /// Where the least keys above a lower bound are.
    pub(crate) fn least(lower: Bound<W>) -> Self {
        match lower {
            Bound::Included(key) | Bound::Excluded(key) => Self::At(key),
            Bound::Unbounded => Self::At(W::MIN),
        }
    }

    /// Where the keys between two bounds that are nearest to an end are.
    pub(crate) fn end(end: End, (lower, upper): (Bound<W>, Bound<W>)) -> Self {
        match (end, upper) {
            (End::Least, _) => Self::least(lower),
            (End::Greatest, Bound::Included(key)) => Self::At(key),
            (End::Greatest, Bound::Excluded(key)) => Self::Below(key),
            (End::Greatest, Bound::Unbounded) => Self::Last,
        }
    }

    /// Whether what is aimed at lies beyond a node with this high fence.
    pub(crate) fn is_beyond(&self, high: &W) -> bool {
        match self {
            Self::At(key) => key >= high,
            Self::Below(key) => key > high,
            Self::Last => true,
        }
    }
}
