//! Buffers that merges reuse.

use std::collections::VecDeque;

use crate::near_sorted::join::joining::Joining;
use crate::near_sorted::run::SortedRun;
use crate::near_sorted::tree::leaf::Leaf;

/// Packed leaves with their fences; the last one is being filled.
pub(crate) type Packed = VecDeque<(u64, Leaf)>;

/// Buffers to sort and to join.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) joining: Joining,
    pub(crate) run: SortedRun,
    pub(crate) routes: Vec<Route>,
    pub(crate) packed: Packed,
}

/// The leaf to which an entry of a run goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) entry: usize,
    pub(crate) at: usize,
    pub(crate) place: usize,
}

impl Scratch {
    pub(crate) const fn new() -> Self {
        Self {
            joining: Joining::new(),
            run: SortedRun::new(),
            routes: Vec::new(),
            packed: Packed::new(),
        }
    }

    /// Returns the bytes used on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.joining.bytes()
            + self.run.bytes()
            + self.routes.capacity() * size_of::<Route>()
            + self.packed.capacity() * size_of::<(u64, Leaf)>()
    }
}
