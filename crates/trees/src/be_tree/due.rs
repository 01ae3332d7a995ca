//! Decides which maintenance a node needs.

use std::ops::Range;

use super::node::Node;
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use bedload_pages::{PageId, PageRead, Result};

/// A leaf's small runs, appended one after another, are merged when there are so many.
const APPENDED_RUNS: usize = 16;

/// One step of maintenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Merge some of the newest runs of a node into one.
    Merge { node: PageId, runs: Range<usize> },
    /// Push a child's slices of the oldest runs down to it: those up to `end` that were not yet.
    PushDown {
        parent: PageId,
        child: PageId,
        end: usize,
    },
    /// Forget those of the oldest runs, up to `end`, of which every child has its slice.
    Trim { node: PageId, end: usize },
    /// Put a node between the root and its children.
    Grow,
    /// Split a node that has no runs.
    Split { parent: PageId, node: PageId },
}

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// The first of the newest runs that are being staged: small ones at the root of which no child
    /// has its slice yet.
    pub(super) fn staged_from(&self, node: &Node) -> usize {
        if node.level == 0 {
            return node.runs.len();
        }
        let pushed = node.children.iter().map(|child| child.pushed).max().unwrap_or(0);
        self.small_from(node, self.config.stage_entries / 2).max(pushed)
    }

    /// The first of the newest runs that all have less than so many entries.
    fn small_from(&self, node: &Node, entries: u64) -> usize {
        let small = node
            .runs
            .iter()
            .rev()
            .take_while(|live| live.run.entries < entries);
        node.runs.len() - small.count()
    }

    /// The runs of a node that are to be merged into one: at the root the newest small ones, of
    /// about the same size; in a leaf those that were appended, or, to tidy up, all.
    pub(super) fn runs_to_merge(&self, node: &Node, all: bool) -> Option<Range<usize>> {
        let len = node.runs.len();
        if node.level == 0 {
            let appended = self.small_from(node, self.config.leaf_entries / APPENDED_RUNS as u64);
            return if all && len > 1 {
                Some(0..len)
            } else {
                (len - appended >= APPENDED_RUNS).then_some(appended..len)
            };
        }
        let staged = self.staged_from(node);
        let mut limit = self.config.stage_entries / 2;
        let mut limits = Vec::new();
        while limit > 0 {
            limits.push(limit);
            limit /= self.config.stage_runs as u64;
        }
        // The smallest first, so that runs are merged with their like.
        limits
            .into_iter()
            .rev()
            .map(|limit| self.small_from(node, limit).max(staged)..len)
            .find(|runs| runs.len() >= self.config.stage_runs)
    }

    /// Returns what the node needs first, if anything. `parent` is none for the root. With `all`,
    /// nothing is to stay above the leaves, and a leaf is to have one run.
    pub(super) fn step(&self, id: PageId, parent: Option<PageId>, all: bool) -> Result<Option<Step>> {
        let node = self.node(id)?;
        if !(all && node.level > 0)
            && (parent.is_none() || node.level == 0)
            && let Some(runs) = self.runs_to_merge(&node, all)
        {
            return Ok(Some(Step::Merge { node: id, runs }));
        }
        if node.level == 0 {
            return Ok(None);
        }
        let has_many = self.has_many_children(&node);
        if has_many && parent.is_none() {
            return Ok(Some(Step::Grow));
        }
        // A node is drained before it splits, as a run belongs to one node for life.
        let drain = all || has_many;
        let end = if drain || parent.is_some() {
            node.runs.len()
        } else {
            self.staged_from(&node)
        };
        let mut trimmed = node.clone();
        if self.trim(&mut trimmed, end) > 0 {
            return Ok(Some(Step::Trim { node: id, end }));
        }
        if let (true, Some(parent), true) = (has_many, parent, node.runs.is_empty()) {
            return Ok(Some(Step::Split { parent, node: id }));
        }
        let Some(slot) = self.slot_to_push(&trimmed, end, drain) else {
            return Ok(None);
        };
        let child = trimmed.children[slot].page;
        // The child's maintenance comes first, so that it has room.
        if node.level > 1
            && let Some(step) = self.step(child, Some(id), false)?
        {
            return Ok(Some(step));
        }
        Ok(Some(Step::PushDown {
            parent: id,
            child,
            end,
        }))
    }

    /// The child to push down to: the fullest, if too much pends; if there are too many runs, the
    /// fullest of those that keep the oldest from being forgotten.
    fn slot_to_push(&self, node: &Node, end: usize, drain: bool) -> Option<usize> {
        let fullest = |may: &dyn Fn(usize) -> bool| {
            let slots = (0..node.children.len()).filter(|&slot| node.children[slot].pushed < end);
            slots
                .filter(|&slot| may(slot))
                .max_by_key(|&slot| node.children[slot].pending)
        };
        if drain {
            fullest(&|_| true)
        } else if end > self.config.runs {
            fullest(&|slot| node.children[slot].pushed == 0)
        } else if node.pending() > self.config.pending_entries {
            fullest(&|_| true)
        } else {
            None
        }
    }

    /// Notes where a child has nothing to get from the oldest runs, up to `end`, and takes out the
    /// runs of which every child has its slice; returns how many these were.
    pub(super) fn trim(&self, node: &mut Node, end: usize) -> usize {
        for slot in 0..node.children.len() {
            let mut pushed = node.children[slot].pushed;
            let (low, high) = node.bounds(slot);
            while pushed < end && !node.runs[pushed].may_meet(&self.order, low, high) {
                pushed += 1;
            }
            let len = node.runs.len();
            let child = &mut node.children[slot];
            child.pushed = pushed;
            if pushed == len {
                child.pending = 0;
            }
        }
        let done = node.children.iter().map(|child| child.pushed).min().unwrap_or(0);
        node.runs.drain(..done);
        for child in &mut node.children {
            child.pushed -= done;
        }
        done
    }
}
