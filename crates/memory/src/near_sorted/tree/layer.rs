//! State that a layer on top of the tree keeps beside the leaves of a branch.

use std::fmt::Debug;
use std::ops::Range;

/// State kept for each leaf of a branch, which moves with the leaves. A plain tree keeps none.
pub(crate) trait Layer: Debug {
    /// Creates the layer of a branch without leaves.
    fn new() -> Self;

    /// A leaf is inserted at this position of a branch that had `leaves`.
    fn insert(&mut self, place: usize, leaves: usize);

    /// The leaf at this position, for which nothing is kept, is removed from a branch that had
    /// `leaves`.
    fn remove(&mut self, place: usize, leaves: usize);

    /// The leaves at these positions of a branch that had `leaves`, for which nothing is kept, are
    /// replaced by `added` others.
    fn replace(&mut self, places: Range<usize>, added: usize, leaves: usize);

    /// Returns how many entries are kept for a leaf.
    fn held(&self, place: usize) -> usize;

    /// Returns the bytes used on the heap.
    fn bytes(&self) -> usize;

    /// Checks the invariants in a branch of `leaves`; the keys kept for each leaf must lie within
    /// its range, as given by `range_of`.
    fn check(
        &self,
        leaves: usize,
        range_of: impl Fn(usize) -> std::ops::RangeInclusive<u64>,
    ) -> Result<(), String>;
}

impl Layer for () {
    fn new() -> Self {}

    #[inline(always)]
    fn insert(&mut self, _: usize, _: usize) {}

    #[inline(always)]
    fn remove(&mut self, _: usize, _: usize) {}

    #[inline(always)]
    fn replace(&mut self, _: Range<usize>, _: usize, _: usize) {}

    #[inline(always)]
    fn held(&self, _: usize) -> usize {
        0
    }

    fn bytes(&self) -> usize {
        0
    }

    fn check(&self, _: usize, _: impl Fn(usize) -> std::ops::RangeInclusive<u64>) -> Result<(), String> {
        Ok(())
    }
}
