//! Visits the pages of a tree, while others change it.

use std::collections::HashSet;

use super::descend::IntervalTarget;
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use bedload_pages::{PageId, PageRead, Result};

/// Called by [`BeTree::visit_pages`].
pub trait PageVisitor {
    /// The page of a node.
    fn node(&mut self, page: PageId);

    /// A page of a run, or the meta page.
    fn page(&mut self, page: PageId);

    /// No latch is held: the place to wait, or to give up.
    fn pause(&mut self) {}
}

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// Shows every page that belongs to the tree from the call to the return, nodes once. Pages
    /// that come or go meanwhile may be among them or not. Reads nodes of the tree and of its runs,
    /// and no leaves of runs.
    ///
    /// A page that is not shown, and whose writer finished all work before the call, is either lost
    /// or being retired by a thread that holds the right to maintain one of the nodes shown until
    /// that is done.
    ///
    /// Goes from left to right and visits each node when it first meets it. A run belongs to one
    /// node for life, except those of the root, which is visited first; a node that is split keeps
    /// its left part and is empty; a leaf that is cut keeps its right part. So nothing moves left
    /// of the visit, and a run that exists throughout is found in its node.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn visit_pages(&self, visitor: &mut impl PageVisitor) -> Result<()> {
        visitor.page(self.meta);
        let mut nodes = HashSet::new();
        let mut at: Option<PointBuf> = None;
        loop {
            let target = match &at {
                None => IntervalTarget::First,
                Some(point) => IntervalTarget::At(point.as_point()),
            };
            let (interval, path) = self.path(target)?;
            for (id, _) in path {
                if nodes.insert(id) {
                    visitor.node(id);
                    self.visit_runs(id, visitor)?;
                }
                visitor.pause();
            }
            // It lies above `at`, whatever the pages hold: that is how a child is chosen.
            if interval.high.is_none() {
                return Ok(());
            }
            at = interval.high;
        }
    }

    fn visit_runs(&self, id: PageId, visitor: &mut impl PageVisitor) -> Result<()> {
        for live in self.node(id)?.runs {
            match self.layout.pages(&self.run(live.run)) {
                Ok(pages) => pages.into_iter().for_each(|page| visitor.page(page)),
                // It may have been retired since, and its pages be gone.
                Err(error) => {
                    if self.node(id)?.runs.iter().any(|other| other.run.is(&live.run)) {
                        return Err(error);
                    }
                }
            }
            visitor.pause();
        }
        Ok(())
    }
}
