//! The search layer: from a key to a data block, through nodes of separators.
//!
//! # Rules
//!
//! 1. One writer at a time, which holds the lock of [`Growth`]. Readers take no lock and validate
//!    nothing (ROWEX; Leis, Scheibner, Kemper, Neumann, "The ART of Practical Synchronization",
//!    DaMoN 2016).
//! 2. A child of a node of level 0 is a block, of any other node a node of the level below, at
//!    every moment: a node in use has a child at every position, those beyond its count included,
//!    and a removed node is reused only at its level. Nodes and blocks last as long as the index.
//!    So a descent always ends at a block, whatever changes concurrently.
//! 3. While nothing changes, the block at which a descent for a key ends covers the key, or one of
//!    its right neighbours that the search layer does not know yet does. During a change it may be
//!    any block: the fences of blocks decide (rule 2 of [`block`](crate::sb_tree::blocks::block)),
//!    and a thread at the wrong one goes right or restarts.
//!
//! Separators are tops: child `i` leads to keys above separator `i - 1` up to and including
//! separator `i`. The last child's top is not stored, so appending at the right end fills nodes
//! from the left and changes no existing separator. Unused separators are the greatest key, so that
//! a search compares full groups and needs neither count nor level of a node: a few instructions
//! without a branch for each, as otherwise the processor, which has room for a few hundred, would
//! not reach the next lookup while it waits for the memory of this one.

#![expect(unsafe_code, reason = "children are nodes or blocks, as the level tells")]

use std::collections::HashMap;
use std::ptr::NonNull;

use super::node::Node;
use super::outline::{FANOUT, Lead};
use crate::sb_tree::blocks::block::{BLOCK_CAP, Block};
use crate::search::columns::Words;
use crate::search::words::VectorUnit;
use crate::sync::primitive::{AtomicPtr, Ordering, interleave};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct SearchLayer<W: Words> {
    /// The root, with its level in the bits that are zero because nodes are aligned.
    root: AtomicPtr<Node<W>>,
}

/// The end of a descent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Approach<'s, W: Words> {
    /// The block at which [`descend`](SearchLayer::descend) ends.
    pub(crate) block: &'s Block<W>,
    /// Its right neighbour, if known in the node where the descent ended, otherwise any block.
    pub(crate) right: &'s Block<W>,
    /// The approximate number of the block's entries below the key, if it is full and its keys are
    /// spread evenly.
    pub(crate) guess: usize,
}

/// State of the last of several descents, for ascending keys.
#[derive(Debug)]
pub(crate) struct Descent<'s, W: Words> {
    /// The node of level 0, and the greatest key known to lead to it.
    node: Option<&'s Node<W>>,
    node_top: W,
    top: W,
}

impl<W: Words> Default for Descent<'_, W> {
    fn default() -> Self {
        Self {
            node: None,
            node_top: W::MIN,
            top: W::MIN,
        }
    }
}

impl<W: Words> Descent<'_, W> {
    /// Returns the greatest key known to lead to the block at which the last descent ended.
    pub(crate) fn top(&self) -> W {
        self.top
    }
}

/// Returns about how many of a full block's keys make up this share.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a guess may be wrong")]
fn guess_of(share: f64) -> usize {
    const { assert!(BLOCK_CAP.is_power_of_two()) };
    /// Added to a number, this leaves its integer part in the low bits, without the range checks of
    /// a conversion.
    const WHOLE: f64 = (1_u64 << 52) as f64;
    let scaled = share * (BLOCK_CAP - 1) as f64 + WHOLE;
    scaled.to_bits() as usize % BLOCK_CAP
}

/// Returns the approximate share of a block's keys between `below` and `top` that lie below `key`.
/// May be NaN.
#[inline]
fn share<W: Words>(key: &W, below: &W, top: &W) -> f64 {
    let from_below = |key: &W| (key.first_word().wrapping_sub(below.first_word()) >> 1).cast_signed() as f64;
    from_below(key) / from_below(top)
}

/// State of the search layer's writer, behind a lock.
#[derive(Debug)]
pub(crate) struct Growth<W: Words> {
    /// All nodes.
    nodes: Vec<NonNull<Node<W>>>,
    /// Unused nodes, by level.
    free: Vec<Vec<NonNull<Node<W>>>>,
}

// SAFETY: it owns the nodes, which are `Send` and `Sync`.
unsafe impl<W: Words> Send for Growth<W> {}

/// Two neighbouring blocks under one node.
#[derive(Debug)]
pub(crate) struct BlockPair<'s, W: Words> {
    pub(crate) left: &'s Block<W>,
    pub(crate) right: &'s Block<W>,
    node: &'s Node<W>,
    right_place: usize,
}

/// The path to a block: nodes from the root down, and the child's position in each.
type Path<'s, W> = Vec<(&'s Node<W>, usize)>;

impl<W: Words> SearchLayer<W> {
    /// Creates a search layer over one block.
    pub(crate) fn new(first: NonNull<Block<W>>) -> (Self, Growth<W>) {
        let mut growth = Growth {
            nodes: Vec::new(),
            free: Vec::new(),
        };
        let root = growth.take(0);
        // SAFETY: just allocated, and only shared from here on.
        let node = unsafe { root.as_ref() };
        node.begin(first.as_ptr().cast());
        let layer = Self {
            root: AtomicPtr::new(root.as_ptr()),
        };
        (layer, growth)
    }

    /// Returns the root and its level.
    #[inline]
    fn root(&self) -> (&Node<W>, usize) {
        let root = self.root.load(Ordering::Acquire);
        let level = root.addr() % align_of::<Node<W>>();
        // SAFETY: the root is a node, and nodes last as long as the index (rule 2).
        (unsafe { &*root.map_addr(|addr| addr - level) }, level)
    }

    fn set_root(&self, root: NonNull<Node<W>>, level: usize) {
        assert!(level < align_of::<Node<W>>());
        let root = root.as_ptr().map_addr(|addr| addr + level);
        self.root.store(root, Ordering::Release);
    }

    /// Returns the node of level 0 on the way to `key`.
    #[inline]
    fn descend_to_node(&self, key: &W, lanes: VectorUnit) -> &Node<W> {
        let (mut node, level) = self.root();
        for _ in 0..level {
            let child = node.child(node.place(key, lanes));
            interleave();
            // SAFETY: a child of a node above level 0 is a node (rule 2).
            node = unsafe { &*child.cast() };
        }
        node
    }

    /// Returns a block at or to the left of which `key` belongs, subject to rule 3.
    #[inline]
    pub(crate) fn descend(&self, key: &W) -> &Block<W> {
        let lanes = VectorUnit::of_this_processor();
        let node = self.descend_to_node(key, lanes);
        let child = node.child(node.place(key, lanes));
        interleave();
        // SAFETY: a child at level 0 is a block (rule 2).
        unsafe { &*child.cast() }
    }

    /// Returns the block at which [`descend`](Self::descend) ends, or for few keys another one,
    /// reading less memory.
    #[inline]
    pub(crate) fn aim(&self, key: &W) -> &Block<W> {
        let lanes = VectorUnit::of_this_processor();
        let node = self.descend_to_node(key, lanes);
        let child = match node.outline.lead(key, lanes) {
            Some(lead) => node.child_of(lead.run, lead.place),
            None => node.child(node.place(key, lanes)),
        };
        interleave();
        // SAFETY: a child at level 0 is a block, and so is what a run has (rule 2 and that of
        // `outline`).
        unsafe { &*child.cast() }
    }

    /// As [`aim`](Self::aim), with the right neighbour and a guess of the rank.
    #[inline]
    pub(crate) fn approach(&self, key: &W) -> Approach<'_, W> {
        let lanes = VectorUnit::of_this_processor();
        let node = self.descend_to_node(key, lanes);
        if let Some(Lead { run, place, share }) = node.outline.lead(key, lanes) {
            let right = (place + 1).min(FANOUT - 1);
            interleave();
            // SAFETY: children at level 0 are blocks, and so is what a run has (rule 2 and that of
            // `outline`).
            let [block, right] = [place, right].map(|place| unsafe { &*node.child_of(run, place).cast() });
            let guess = guess_of(share);
            return Approach { block, right, guess };
        }
        let place = node.place(key, lanes);
        let (below, top) = (node.separator(place.saturating_sub(1)), node.separator(place));
        let child = node.child(place);
        let right = node.child((place + 1).min(FANOUT - 1));
        interleave();
        // SAFETY: children at level 0 are blocks (rule 2).
        let [block, right] = [child, right].map(|child| unsafe { &*child.cast() });
        let guess = if place > 0 {
            guess_of(share(key, &below, &top))
        } else {
            0
        };
        Approach { block, right, guess }
    }

    /// Descends as [`descend`](Self::descend) does, starting from the last descent, whose key was
    /// not above this one.
    #[inline]
    pub(crate) fn descend_on<'s>(&'s self, key: &W, last: &mut Descent<'s, W>) -> &'s Block<W> {
        let lanes = VectorUnit::of_this_processor();
        let node = match last.node {
            Some(node) if *key <= last.node_top => node,
            _ => {
                let (mut node, level) = self.root();
                last.node_top = W::MAX;
                for _ in 0..level {
                    let place = node.place(key, lanes);
                    last.node_top = last.node_top.min(node.separator(place));
                    // SAFETY: a child of a node above level 0 is a node (rule 2).
                    node = unsafe { &*node.child(place).cast() };
                }
                last.node = Some(node);
                node
            }
        };
        let place = node.place(key, lanes);
        last.top = last.node_top.min(node.separator(place));
        interleave();
        // SAFETY: a child at level 0 is a block (rule 2).
        unsafe { &*node.child(place).cast() }
    }

    fn path(&self, key: &W) -> Path<'_, W> {
        let lanes = VectorUnit::of_this_processor();
        let (mut node, _) = self.root();
        let mut path = Vec::with_capacity(8);
        loop {
            let place = node.place(key, lanes);
            path.push((node, place));
            if node.level == 0 {
                return path;
            }
            // SAFETY: a child of another level is a node (rule 2).
            node = unsafe { &*node.child(place).cast() };
        }
    }

    /// Inserts `right` after the block at which a descent for `key` ends, whose top is `top`.
    pub(crate) fn insert_after(&self, key: &W, top: W, right: NonNull<Block<W>>, growth: &mut Growth<W>) {
        let mut path = self.path(key);
        let (mut top, mut child) = (top, right.as_ptr().cast::<()>());
        let mut split = Vec::new();
        while let Some((node, place)) = path.pop() {
            if (node.len.load(Ordering::Relaxed) as usize) < FANOUT {
                node.insert(place, top, child);
                break;
            }
            let new = growth.take(node.level);
            // SAFETY: a node of the index (rule 2).
            let right = unsafe { new.as_ref() };
            if place + 1 == FANOUT {
                right.begin(child);
            } else {
                let middle = FANOUT / 2;
                right.begin(node.child(middle));
                for from in middle..FANOUT {
                    node.copy(from, right, from - middle);
                }
                right.set_len(FANOUT - middle);
                right.draw();
                let fence = node.separator(middle - 1);
                if place >= middle {
                    right.insert(place - middle, top, child);
                    split.push((node, middle, None));
                } else {
                    split.push((node, middle, Some((place, top, child))));
                }
                top = fence;
            }
            child = new.as_ptr().cast();
            if path.is_empty() {
                let root = growth.take(node.level + 1);
                // SAFETY: a node of the index (rule 2).
                let new_root = unsafe { root.as_ref() };
                new_root.begin(std::ptr::from_ref(node).cast_mut().cast());
                new_root.insert(0, top, child);
                self.set_root(root, new_root.level as usize);
            }
        }
        // The left halves shrink last, when the levels above know the right ones.
        for (node, middle, left) in split.into_iter().rev() {
            interleave();
            node.truncate(middle);
            if let Some((place, top, child)) = left {
                node.insert(place, top, child);
            }
        }
    }

    /// Returns the block at which a descent for `key` ends and its right neighbour in the same
    /// node; or, if it is the last of its node or its left neighbour is empty, the left neighbour
    /// and itself.
    pub(crate) fn pair(&self, key: &W, _growth: &Growth<W>) -> Option<BlockPair<'_, W>> {
        let (node, place) = self.path(key).pop()?;
        let block = |place: usize| {
            // SAFETY: a child at level 0 is a block (rule 2).
            unsafe { &*node.child(place).cast::<Block<W>>() }
        };
        let left_is_empty = place > 0 && block(place - 1).len() == 0;
        let right_place = if place + 1 < node.len() && !left_is_empty {
            place + 1
        } else {
            place
        };
        Some(BlockPair {
            left: block(right_place.checked_sub(1)?),
            right: block(right_place),
            node,
            right_place,
        })
    }

    /// Returns the block at which a descent for `key` ends and its right neighbour, if both are in
    /// the same node.
    pub(crate) fn with_right_neighbour(
        &self,
        key: &W,
        _growth: &Growth<W>,
    ) -> Option<(&Block<W>, &Block<W>)> {
        let (node, place) = self.path(key).pop()?;
        let [left, right] = [place, place + 1].map(|place| {
            (place < node.len()).then(|| {
                // SAFETY: a child at level 0 is a block (rule 2).
                unsafe { &*node.child(place).cast::<Block<W>>() }
            })
        });
        left.zip(right)
    }

    /// Leads keys above `top` past the block at which a descent for `key` ends, which has a right
    /// neighbour in its node.
    pub(crate) fn lower_top(&self, key: &W, top: W, _growth: &Growth<W>) {
        if let Some((node, place)) = self.path(key).pop()
            && place + 1 < node.len()
        {
            node.outline.blank();
            node.set_separator(place, top);
            node.draw();
        }
    }

    /// Removes the right one of a [pair](Self::pair), found for `key` under the same lock, and
    /// merges nodes that have become empty enough.
    pub(crate) fn remove_right(&self, pair: &BlockPair<'_, W>, key: &W, growth: &mut Growth<W>) {
        pair.node.remove(pair.right_place);
        self.merge_nodes(key, growth);
    }

    /// Merges nodes on the path to `key` that are empty enough with a neighbour under the same
    /// parent.
    pub(crate) fn merge_nodes(&self, key: &W, growth: &mut Growth<W>) {
        while self.merge_a_node(key, growth) {}
    }

    /// Merges the lowest such node. An only child has no neighbour until its parent is merged.
    fn merge_a_node(&self, key: &W, growth: &mut Growth<W>) -> bool {
        let mut path = self.path(key);
        let mut below = path.pop();
        while let Some((node, _)) = below {
            below = path.pop();
            let Some((parent, place)) = below else {
                return false;
            };
            if node.len() > FANOUT / 4 {
                return false;
            }
            let mut pairs = [place + 1, place]
                .into_iter()
                .filter(|&right| 0 < right && right < parent.len());
            let child = |place: usize| {
                // SAFETY: a child above level 0 is a node (rule 2).
                unsafe { &*parent.child(place).cast::<Node<W>>() }
            };
            let Some(right_place) =
                pairs.find(|&right| child(right - 1).len() + child(right).len() <= FANOUT / 4 * 3)
            else {
                continue;
            };
            let (left, right) = (child(right_place - 1), child(right_place));
            let (left_len, right_len) = (left.len(), right.len());
            left.outline.blank();
            left.set_separator(left_len - 1, parent.separator(right_place - 1));
            for from in 0..right_len {
                right.copy(from, left, left_len + from);
            }
            left.set_len(left_len + right_len);
            left.draw();
            parent.remove(right_place);
            growth.free[right.level as usize].push(NonNull::from(right));
            return true;
        }
        false
    }

    /// Returns the blocks from left to right, as children of the nodes of level 0: for checks.
    pub(crate) fn blocks(&self) -> Vec<&Block<W>> {
        let mut blocks = Vec::new();
        let mut nodes = vec![self.root().0];
        while let Some(first) = nodes.first() {
            let level = first.level;
            let children: Vec<_> = nodes
                .iter()
                .flat_map(|node| (0..node.len()).map(|place| node.child(place)))
                .collect();
            if level == 0 {
                // SAFETY: children at level 0 are blocks (rule 2).
                blocks.extend(children.iter().map(|child| unsafe { &*child.cast::<Block<W>>() }));
                return blocks;
            }
            // SAFETY: children above level 0 are nodes (rule 2).
            nodes = children
                .iter()
                .map(|child| unsafe { &*child.cast::<Node<W>>() })
                .collect();
        }
        blocks
    }

    /// Checks that a node in use has a child of the right kind at every position, those beyond its
    /// count included (rule 2). No thread may be writing.
    pub(crate) fn check_places(&self, growth: &Growth<W>) -> Result<(), String> {
        // SAFETY: nodes of the index (rule 2).
        let level_of = |node: &NonNull<Node<W>>| unsafe { node.as_ref() }.level;
        let levels: HashMap<*mut (), u32> = growth
            .nodes
            .iter()
            .map(|node| (node.as_ptr().cast(), level_of(node)))
            .collect();
        let mut nodes = vec![self.root().0];
        while let Some(node) = nodes.pop() {
            let child = |place: usize| node.child(place).cast();
            node.outline
                .check(node.len(), |place| node.separator(place), child)?;
            for place in 0..FANOUT {
                let child = node.child(place);
                let is_right = !child.is_null() && levels.get(&child).copied() == node.level.checked_sub(1);
                if !is_right {
                    let len = node.len();
                    return Err(format!(
                        "place {place} of a node of level {} with {len} children has none",
                        node.level
                    ));
                }
                if node.level > 0 && place < node.len() {
                    // SAFETY: a child above level 0 is a node (rule 2), and this is one.
                    nodes.push(unsafe { &*child.cast::<Node<W>>() });
                }
            }
        }
        Ok(())
    }

    /// Sums up the nodes.
    pub(crate) fn add_memory_use(growth: &Growth<W>, memory: &mut crate::map::memory_use::MemoryUse) {
        let child_bytes = size_of::<W>() + size_of::<usize>();
        for node in &growth.nodes {
            // SAFETY: a node of the index (rule 2).
            let len = unsafe { node.as_ref() }.len();
            memory.add_inner(size_of::<Node<W>>(), child_bytes, len, FANOUT);
        }
    }
}

impl<W: Words> Growth<W> {
    fn take(&mut self, level: u32) -> NonNull<Node<W>> {
        if self.free.len() <= level as usize {
            self.free.resize_with(level as usize + 1, Vec::new);
        }
        if let Some(node) = self.free[level as usize].pop() {
            return node;
        }
        let node = NonNull::from(Box::leak(Box::new(Node::new(level))));
        self.nodes.push(node);
        node
    }
}

impl<W: Words> Drop for Growth<W> {
    fn drop(&mut self) {
        for node in &self.nodes {
            // SAFETY: each came from a box and is here once; the index has no other user.
            drop(unsafe { Box::from_raw(node.as_ptr()) });
        }
    }
}
