//! A node of the search layer: separators and children. The rules are those of
//! [`search_layer`](super::layer).

use super::outline::{BlockRun, FANOUT, Outline};
use crate::search::columns::Words;
use crate::search::prefetch::prefetch_some;
use crate::search::words::VectorUnit;
use crate::sync::primitive::{AtomicPtr, AtomicU32, Ordering, interleave};

/// Separators per entry of a node's summary.
const GROUP: usize = if cfg!(any(test, miri, loom)) { 2 } else { 8 };
const GROUPS: usize = FANOUT / GROUP;

/// A node. Children are [`Block`](crate::sb_tree::blocks::block::Block)s at level 0, and nodes
/// above.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node<W: Words> {
    /// Never changes.
    pub(crate) level: u32,
    /// Number of children; never 0 once the node is in use. Only the writer reads it.
    pub(crate) len: AtomicU32,
    /// Blank above level 0.
    pub(crate) outline: Outline<W>,
    /// The last separator of each group.
    summary: Aligned<W::KeyColumns<GROUPS>>,
    separators: Aligned<W::KeyColumns<FANOUT>>,
    children: Aligned<[AtomicPtr<()>; FANOUT]>,
}

/// In cache lines of its own, one per group.
#[derive(Debug)]
#[repr(C, align(64))]
struct Aligned<T>(T);

impl<W: Words> Node<W> {
    pub(crate) fn new(level: u32) -> Self {
        Self {
            level,
            len: AtomicU32::new(0),
            outline: Outline::new(),
            summary: Aligned(W::new_columns()),
            separators: Aligned(W::new_columns()),
            children: Aligned(std::array::from_fn(|_| AtomicPtr::default())),
        }
    }

    /// Initialises the node with one child.
    pub(crate) fn begin(&self, child: *mut ()) {
        for place in &self.children.0 {
            place.store(child, Ordering::Release);
        }
        self.truncate(1);
    }

    /// Drops all but the first children.
    pub(crate) fn truncate(&self, len: usize) {
        self.outline.blank();
        for place in len - 1..FANOUT {
            self.set_separator(place, W::MAX);
        }
        self.set_len(len);
        self.draw();
    }

    /// Draws the outline, which was made blank before the node changed.
    pub(crate) fn draw(&self) {
        if self.level == 0 {
            let child = |place: usize| self.child(place).cast();
            self.outline
                .draw(self.len(), |place| self.separator(place), child);
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.len.load(Ordering::Relaxed) as usize).clamp(1, FANOUT)
    }

    pub(crate) fn set_len(&self, len: usize) {
        self.len.store(u32::try_from(len).unwrap_or(0), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn child(&self, place: usize) -> *mut () {
        self.children.0[place].load(Ordering::Acquire)
    }

    /// Returns the child at `place`, read from memory only if it is not in the run.
    #[inline]
    pub(crate) fn child_of(&self, run: BlockRun<W>, place: usize) -> *mut () {
        match run.child(place) {
            Some(child) => child.cast(),
            None => self.child(place),
        }
    }

    #[inline]
    pub(crate) fn place(&self, key: &W, lanes: VectorUnit) -> usize {
        // Only a summary that is changing has no separator above the key.
        let group = key.rank_in_group::<GROUPS, GROUPS>(&self.summary.0, 0, lanes) % GROUPS;
        // Fetched in parallel with the separators.
        prefetch_some(self.children.0.get(group * GROUP));
        let place = key.rank_in_group::<FANOUT, GROUP>(&self.separators.0, group, lanes);
        (group * GROUP + place).min(FANOUT - 1)
    }

    pub(crate) fn separator(&self, place: usize) -> W {
        W::load(&self.separators.0, place)
    }

    pub(crate) fn set_separator(&self, place: usize, separator: W) {
        separator.store(&self.separators.0, place);
        if place % GROUP == GROUP - 1 {
            separator.store(&self.summary.0, place / GROUP);
        }
    }

    pub(crate) fn copy(&self, from: usize, target: &Self, to: usize) {
        target.children.0[to].store(self.child(from), Ordering::Release);
        target.set_separator(to, self.separator(from));
    }

    /// Inserts a child after the one at `place`, whose new top is `top`. There is room.
    pub(crate) fn insert(&self, place: usize, top: W, child: *mut ()) {
        let len = self.len();
        let is_last = place + 1 == len;
        if !is_last {
            self.outline.blank();
        }
        for from in (place + 1..len).rev() {
            self.copy(from, self, from + 1);
        }
        if !is_last {
            // The old top of the child at `place` becomes that of the new one.
            self.set_separator(place + 1, self.separator(place));
        }
        interleave();
        self.children.0[place + 1].store(child, Ordering::Release);
        self.set_separator(place, top);
        self.set_len(len + 1);
        if !is_last || !self.outline.append(place, &top, child.cast()) {
            self.draw();
        }
    }

    /// Removes the child at `place`, which is not the first; its left neighbour gets its range.
    pub(crate) fn remove(&self, place: usize) {
        let len = self.len();
        self.outline.blank();
        self.set_separator(place - 1, self.separator(place));
        for from in place + 1..len {
            self.copy(from, self, from - 1);
        }
        self.truncate(len - 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A reader between two stores may follow any of them.
    #[test]
    fn a_node_has_a_child_at_every_place_from_the_beginning() {
        let mut children: Vec<u64> = (0..FANOUT as u64).collect();
        let children: Vec<*mut ()> = children
            .iter_mut()
            .map(|child| std::ptr::from_mut(child).cast())
            .collect();
        let node = Node::<[u64; 1]>::new(0);
        node.begin(children[0]);
        assert!((0..FANOUT).all(|place| node.child(place) == children[0]));
        for (place, child) in children.iter().enumerate().skip(1) {
            node.insert(place - 1, [10 * place as u64], *child);
            assert!((0..FANOUT).all(|place| !node.child(place).is_null()));
        }
        assert_eq!(
            node.place(&[u64::MAX], VectorUnit::of_this_processor()),
            FANOUT - 1
        );
        while node.len() > 1 {
            node.remove(node.len() - 1);
            assert!((0..FANOUT).all(|place| !node.child(place).is_null()));
        }
        assert_eq!(node.place(&[u64::MAX], VectorUnit::of_this_processor()), 0);
        node.begin(children[1]);
        assert!((0..FANOUT).all(|place| node.child(place) == children[1]));
    }

    /// The outline agrees with the node while children come and go.
    #[test]
    fn a_node_of_blocks_is_outlined_at_every_moment() {
        let mut pool = crate::sb_tree::blocks::pool::BlockPool::<[u64; 1]>::new();
        let blocks: Vec<*mut ()> = (0..=FANOUT).map(|_| pool.take().as_ptr().cast()).collect();
        let node = Node::<[u64; 1]>::new(0);
        let lanes = VectorUnit::of_this_processor();
        let check = |leads: &[(u64, usize)]| {
            let child = |place: usize| node.child(place).cast();
            assert_eq!(
                node.outline
                    .check(node.len(), |place| node.separator(place), child),
                Ok(())
            );
            for &(key, block) in leads {
                let lead = node.outline.lead(&[key], lanes);
                let child = lead.map(|lead| node.child_of(lead.run, lead.place));
                assert_eq!(child, Some(blocks[block]), "key {key}");
            }
        };
        node.begin(blocks[0]);
        check(&[(7, 0)]);
        node.insert(0, [10], blocks[1]);
        check(&[(7, 0), (17, 1)]);
        node.insert(1, [20], blocks[2]);
        check(&[(7, 0), (17, 1), (27, 2)]);
        node.insert(0, [5], blocks[FANOUT]);
        check(&[(3, 0), (7, FANOUT), (17, 1), (27, 2)]);
        node.remove(1);
        check(&[(3, 0), (7, 0), (17, 1), (27, 2)]);
        node.truncate(2);
        check(&[(7, 0), (17, 1), (27, 1)]);
    }
}
