//! What a layer on top of the tree keeps beside the leaves of a branch.

use std::fmt::Debug;
use std::ops::Range;

/// Something kept for each leaf of a branch, which follows the leaves when their places change. A plain tree keeps nothing.
pub(crate) trait Layer: Debug {
    /// For a branch without leaves.
    fn new() -> Self;

    /// A leaf comes to this place of a branch that had `leaves`.
    fn insert(&mut self, place: usize, leaves: usize);

    /// The leaf at this place leaves a branch that had `leaves`; nothing is kept for it.
    fn remove(&mut self, place: usize, leaves: usize);

    /// Some leaves at these places of a branch that had `leaves` give way to `added` others; nothing is kept for them.
    fn replace(&mut self, places: Range<usize>, added: usize, leaves: usize);

    /// How many entries are kept for a leaf.
    fn held(&self, place: usize) -> usize;

    /// Bytes of the heap.
    fn bytes(&self) -> usize;

    /// What does not hold of the invariants in a branch of `leaves`; the keys kept for each leaf must lie within its range,
    /// as `range_of` gives it.
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
