//! The levels above the leaves: a B-link tree's inner nodes (Lehman, Yao, "Efficient locking for
//! concurrent operations on B-trees", TODS 1981), with optimistic latches, and merges as by Sagiv
//! ("Concurrent operations on B*-trees with overtaking", 1986).
//!
//! # Rules
//!
//! 1. A node splits to the right: its new sibling is linked before its separator reaches the
//!    parent. A thread that finds the key beyond a node's high fence goes right.
//! 2. A split latches one node at a time: the child's latch is released before the parent's is
//!    taken.
//! 3. A merge moves the contents of a node into its left sibling, both children of one parent, and
//!    makes the right one obsolete. It holds the latches of the siblings and the parent, the second
//!    and third by trying. A thread that finds a node obsolete descends again from the root. One
//!    that has emptied a leaf waits, without a latch, for a separator that is on its way to the
//!    parent; the thread that inserts it waits for latches only.
//! 4. Nodes of a level are linked from the left-most to the right-most; the root is the left-most
//!    of its level, and the tree never loses a level.
//! 5. `rightmost` is the right-most leaf. Only the holder of that leaf's latch changes it, before
//!    the leaf retires. `leftmost` is the left-most leaf. It splits and merges to the right, so it
//!    changes only when it is replaced, under its latch and before it retires. Either may be
//!    outdated: a thread that begins there checks that the leaf covers its key.

#![expect(unsafe_code, reason = "frees the nodes of a tree that is going away")]

mod check;
mod descend;
mod grow;
mod memory;
mod merge;
mod replace;
mod sorted;

use std::sync::Mutex;

use crossbeam_epoch::Guard;

use super::inner::Inner;
use super::node::{Header, NodePtr};
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, Ordering};
use crate::sync::version_latch::{Version, Writer};

pub(crate) use replace::Chain;
pub(crate) use sorted::{Scanned, get_sorted, read_sorted, scan_sorted};

/// A node found by a descent. Its fences enclose the aim only if its version is still valid.
#[derive(Debug)]
pub(crate) struct FoundNode<'g, W: Words> {
    pub(crate) node: NodePtr<'g, W>,
    pub(crate) version: Version,
    /// The node's low fence; `None` for the left-most.
    pub(crate) low: Option<W>,
}

/// See the [module](self). Owns the nodes of all levels, the leaves included.
#[derive(Debug)]
pub(crate) struct Trunk<W: Words> {
    root: AtomicPtr<Header<W>>,
    rightmost: AtomicPtr<Header<W>>,
    leftmost: AtomicPtr<Header<W>>,
    /// Held while a level is added.
    growing: Mutex<()>,
}

impl<W: Words> Trunk<W> {
    /// Creates a tree of one leaf.
    pub(crate) fn new(leaf: NodePtr<'static, W>) -> Self {
        Self {
            root: AtomicPtr::new(leaf.as_raw()),
            rightmost: AtomicPtr::new(leaf.as_raw()),
            leftmost: AtomicPtr::new(leaf.as_raw()),
            growing: Mutex::new(()),
        }
    }

    fn root<'g>(&self, _guard: &'g Guard) -> Option<NodePtr<'g, W>> {
        NodePtr::from_raw(self.root.load(Ordering::Acquire))
    }

    /// Returns the right-most leaf.
    pub(crate) fn rightmost<'g>(&self, _guard: &'g Guard) -> Option<NodePtr<'g, W>> {
        NodePtr::from_raw(self.rightmost.load(Ordering::Acquire))
    }

    /// Returns the left-most leaf, if it covers the key and has a right sibling.
    #[inline]
    pub(crate) fn leftmost_for<'g>(&self, key: &W, guard: &'g Guard) -> Option<FoundNode<'g, W>> {
        let node = NodePtr::from_raw(self.leftmost.load(Ordering::Acquire))?;
        let version = node.latch.optimistic()?;
        let (high, _) = node.right(guard)?;
        (*key < high).then_some(FoundNode {
            node,
            version,
            low: None,
        })
    }

    /// Sets the left-most leaf; the writer is that of the leaf that was left-most (rule 5).
    fn set_leftmost(&self, leaf: NodePtr<'_, W>, _writer: Writer<'_>) {
        self.leftmost.store(leaf.as_raw(), Ordering::Release);
    }

    /// Sets the right-most leaf; the writer is that of the leaf that was right-most (rule 5).
    pub(crate) fn set_rightmost(&self, leaf: NodePtr<'_, W>, _writer: Writer<'_>) {
        self.rightmost.store(leaf.as_raw(), Ordering::Release);
    }
}

impl<W: Words> Drop for Trunk<W> {
    fn drop(&mut self) {
        // SAFETY: the tree has no other user, so no other thread frees nodes reachable from it.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let mut leftmost = self.root(guard);
        while let Some(first) = leftmost {
            leftmost = first
                .downcast::<Inner<W>>()
                .and_then(|inner| inner.child(0, guard))
                .map(|(_, child)| child);
            let mut next = Some(first);
            while let Some(node) = next {
                next = node.right(guard).map(|(_, right)| right);
                // SAFETY: each node of a level is visited once (rule 4), and its children were
                // recorded before.
                unsafe { node.free() };
            }
        }
    }
}
