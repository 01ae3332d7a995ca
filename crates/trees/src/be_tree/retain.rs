//! Replacing runs where they are, and taking out what is left empty.

use std::collections::HashSet;

use super::node::{Node, may_meet};
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::Point;
use crate::run::{Run, RunEdge};
use bedload_pages::{Batch, Error, PageId, PageStore, Result};

/// A decision about a run.
#[derive(Debug)]
pub enum RunEdit {
    /// It stays as it is.
    Keep,
    /// Another takes its place, whose entries are some of the run's; or none.
    Replace {
        /// The run that takes its place.
        with: Option<Run>,
        /// Pages that are then no longer needed.
        retired: Vec<PageId>,
    },
}

/// From one entry on and before another; without the first, from the beginning, and without the
/// second, up to the end.
pub type EdgeRange = (Option<RunEdge>, Option<RunEdge>);

impl<O: KeyOrder, L: Runs<O>, S: PageStore> BeTree<O, L, S> {
    /// Shows each run to `edit`, which may replace it, with its ranges that readers still read: a
    /// run keeps entries already pushed down, but only the pushed copy counts. Then removes leaves
    /// without entries. One batch for each node that changes. Requires exact prefixes, and that no
    /// other thread changes the tree meanwhile.
    ///
    /// # Errors
    ///
    /// `edit` or the store failed, or a page is damaged. Runs before that have been replaced.
    pub fn edit_runs(&self, edit: &mut dyn FnMut(&Run, &[EdgeRange]) -> Result<RunEdit>) -> Result<()> {
        let level = self.node(self.root)?.level;
        self.edit_node((self.root, level), &mut HashSet::new(), edit)
    }

    /// Edits a node of a level, and all below it. Damaged pages may have a node in several places,
    /// so those that were edited are in `seen`.
    fn edit_node(
        &self,
        (id, level): (PageId, u8),
        seen: &mut HashSet<PageId>,
        edit: &mut dyn FnMut(&Run, &[EdgeRange]) -> Result<RunEdit>,
    ) -> Result<()> {
        if !seen.insert(id) {
            return Err(Error::Corrupt {
                page: id,
                reason: "it is in the tree twice",
            });
        }
        let Some(_right) = self.store.try_maintain(id) else {
            return Err(Error::Busy { page: id });
        };
        let mut node = self.node_of_level(id, level)?;
        for child in &node.children {
            self.edit_node((child.page, level - 1), seen, edit)?;
        }
        let (mut retired, mut at) = (Vec::new(), 0);
        while at < node.runs.len() {
            let visible = node.visible(at);
            let live = &mut node.runs[at];
            match edit(&live.run, &visible)? {
                RunEdit::Keep => at += 1,
                RunEdit::Replace {
                    with: Some(run),
                    retired: mut pages,
                } => {
                    live.run = run;
                    retired.append(&mut pages);
                    at += 1;
                }
                RunEdit::Replace {
                    with: None,
                    retired: mut pages,
                } => {
                    node.remove_run(at);
                    retired.append(&mut pages);
                }
            }
        }
        self.prune(&mut node, &mut retired)?;
        if retired.is_empty() {
            return Ok(());
        }
        let batch = self.store.batch(&[id])?;
        batch.commit(|pages| node.encode(pages[0]));
        self.store.retire(&retired);
        Ok(())
    }

    /// Takes out children that have no entries and are to get none, but for the last: it is where
    /// new entries go. The interval of such a child falls to a neighbour.
    fn prune(&self, node: &mut Node, retired: &mut Vec<PageId>) -> Result<()> {
        let mut slot = 0;
        while slot + 1 < node.children.len() {
            let (low, high) = node.bounds(slot);
            let pending = &node.runs[node.children[slot].pushed..];
            let is_to_get_more = pending
                .iter()
                .any(|live| may_meet(&self.order, live.edges(), low, high));
            let mut pages = Vec::new();
            if is_to_get_more || !self.is_barren((node.children[slot].page, node.level - 1), &mut pages)? {
                slot += 1;
                continue;
            }
            node.children.remove(slot);
            retired.append(&mut pages);
        }
        Ok(())
    }

    /// Whether a node and all below it have no entries; its pages are added to `pages`.
    fn is_barren(&self, (id, level): (PageId, u8), pages: &mut Vec<PageId>) -> Result<bool> {
        let node = self.node_of_level(id, level)?;
        pages.push(id);
        if !node.runs.is_empty() {
            return Ok(false);
        }
        for child in &node.children {
            if !self.is_barren((child.page, level - 1), pages)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Node {
    /// The ranges of a run that have not been pushed down.
    fn visible(&self, run: usize) -> Vec<EdgeRange> {
        if self.level == 0 {
            return vec![(None, None)];
        }
        let edge = |point: Point<'_>| RunEdge {
            prefix: point.prefix,
            tie: point.tie,
        };
        let mut ranges: Vec<EdgeRange> = Vec::new();
        let mut is_next = false;
        for slot in 0..self.children.len() {
            let (low, high) = self.bounds(slot);
            let is_visible = self.children[slot].pushed <= run;
            match ranges.last_mut().filter(|_| is_next && is_visible) {
                Some(last) => last.1 = high.map(edge),
                None if is_visible => ranges.push((low.map(edge), high.map(edge))),
                None => {}
            }
            is_next = is_visible;
        }
        ranges
    }
}
