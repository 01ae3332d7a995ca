//! Decides which maintenance a node needs.

use std::ops::Range;

use super::node::{Child, Node, may_meet};
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use bedload_pages::{PageId, PageRead, Result};

/// A leaf's small runs, appended one after another, are merged when there are so many.
const APPENDED_RUNS: usize = 16;

/// A push is not worth it below this fraction of a child's share of a full node's pending entries.
const CRUMBS: u64 = 4;

/// One step of maintenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Merge the newest runs of a node into one.
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

/// A number below 100 that differs from page to page.
fn hundredth_of(page: PageId) -> u64 {
    // Multiplied by the golden ratio, numbers that follow each other are far apart.
    (u64::from(page.get()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 100
}

/// The child for which most pends among those that have not all runs before `end`, and may have
/// more; and `end`.
fn fullest(node: &Node, end: usize, may: impl Fn(&Child) -> bool) -> Option<(usize, usize)> {
    let slots = (0..node.children.len()).filter(|&slot| {
        let child = &node.children[slot];
        child.pushed < end && may(child)
    });
    let slot = slots.max_by_key(|&slot| node.children[slot].pending);
    slot.map(|slot| (slot, end))
}

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// The first of the newest runs that all have less than so many entries, and less than half of
    /// the pages that a run can have: merging longer ones would give about as many runs again.
    fn small_from(&self, node: &Node, entries: u64) -> usize {
        let pages = self.run_pages_max() / 2;
        let small = node
            .runs
            .iter()
            .rev()
            .take_while(|live| live.run.entries < entries && u64::from(live.run.pages) <= pages);
        node.runs.len() - small.count()
    }

    /// Whether a merge of all runs of a node would give fewer of them.
    fn would_be_fewer(&self, node: &Node) -> bool {
        let pages: u64 = node.runs.iter().map(|live| u64::from(live.run.pages)).sum();
        let fewer = node.runs.len().saturating_sub(1) as u64;
        fewer > 0 && pages <= fewer.saturating_mul(self.run_pages_max())
    }

    /// The runs of a node to be merged into one. Above the leaves: the newest runs not yet pushed
    /// to any child, once enough of them are of about the same size. In a leaf: the appended runs,
    /// or, to tidy up, all.
    pub(super) fn runs_to_merge(&self, node: &Node, all: bool) -> Option<Range<usize>> {
        let len = node.runs.len();
        if node.level == 0 {
            let appended = self.small_from(node, self.config.leaf_entries / APPENDED_RUNS as u64);
            return if all && self.would_be_fewer(node) {
                Some(0..len)
            } else {
                (len - appended >= APPENDED_RUNS).then_some(appended..len)
            };
        }
        let (pushed, ratio) = (node.pushed(), self.config.stage_runs);
        let mut limit = self.config.stage_entries / 2;
        let mut limits = Vec::new();
        while limit > 0 {
            limits.push(limit);
            limit /= ratio as u64;
        }
        // The smallest first, so that runs are merged with their like; with others if there are too
        // many of many sizes.
        let smaller_than = |limit: u64| self.small_from(node, limit).max(pushed);
        let mut sizes = limits.iter().rev();
        let of_a_size = sizes.clone().find_map(|&limit| {
            let (from, smaller) = (smaller_than(limit), smaller_than(limit / ratio as u64));
            (smaller - from >= ratio).then_some(from)
        });
        let from = of_a_size.or_else(|| {
            let is_many = len - smaller_than(self.config.stage_entries / 2) >= self.config.small_runs();
            let from = sizes.find_map(|&limit| {
                let from = smaller_than(limit);
                (len - from >= ratio).then_some(from)
            });
            from.filter(|_| is_many)
        });
        from.map(|from| from..len)
    }

    /// The runs of a node above the leaves of which no child has its slice yet, if they could be
    /// merged.
    pub(super) fn mergeable(node: &Node) -> Option<Range<usize>> {
        let runs = node.pushed()..node.runs.len();
        (node.level > 0 && runs.len() > 1).then_some(runs)
    }

    /// The merge that is due at the root.
    pub(super) fn step_to_merge_newest(&self) -> Result<Option<Step>> {
        let runs = self.runs_to_merge(&self.node(self.root)?, false);
        Ok(runs.map(|runs| Step::Merge {
            node: self.root,
            runs,
        }))
    }

    /// The step after which the root has as few runs as it can have without pushing down.
    pub(super) fn step_to_tidy(&self) -> Result<Option<Step>> {
        let runs = Self::mergeable(&self.node(self.root)?);
        Ok(runs.map(|runs| Step::Merge {
            node: self.root,
            runs,
        }))
    }

    /// Whether the root has something to merge, to push down or to split.
    pub(super) fn is_root_due(&self, root: &Node) -> bool {
        self.runs_to_merge(root, false).is_some()
            || self.to_push(root, self.root).is_some()
            || self.has_many_children(root)
    }

    /// How much may be pending in a node before it pushes down.
    fn due_from(&self, node: &Node, id: PageId) -> u64 {
        let children = node.children.len();
        if id == self.root {
            return self.config.due_from(children);
        }
        // A node keeps its page, and so its limit.
        self.config.due_from_with_jitter(children, hundredth_of(id))
    }

    /// How much is pending in the root, in hundredths of the amount at which it pushes down: for
    /// callers that spread maintenance out and do more of it as the backlog grows. Reads the root.
    ///
    /// # Errors
    ///
    /// The store failed, or the root is damaged.
    pub fn backlog(&self) -> Result<u64> {
        let root = self.node(self.root)?;
        Ok(root.pending().saturating_mul(100) / self.due_from(&root, self.root).max(1))
    }

    /// The child to push down to, and up to which run, from the oldest. Once one child has its
    /// slices of some runs, they are for the others next: until then none of these runs can be
    /// forgotten, nor merged with others.
    fn to_push(&self, node: &Node, id: PageId) -> Option<(usize, usize)> {
        let is_full = node.runs.len() > self.config.runs;
        let share = self.config.pending_entries / self.config.fan_out as u64;
        let is_worth_it = |child: &Child| is_full || child.pending >= share / CRUMBS;
        if let Some(found) = fullest(node, node.pushed(), is_worth_it) {
            return Some(found);
        }
        if !is_full && node.pending() <= self.due_from(node, id) {
            return None;
        }
        // Small runs of the root are merged first.
        let small = self.config.stage_entries / 2 / self.config.stage_runs as u64;
        let end = if id == self.root {
            self.small_from(node, small)
        } else {
            node.runs.len()
        };
        fullest(node, end, is_worth_it)
    }

    /// Returns what the node needs first, if anything. `parent` is none for the root. With `all`,
    /// nothing is to stay above the leaves, and a leaf is to have one run.
    pub(super) fn step(&self, id: PageId, parent: Option<PageId>, all: bool) -> Result<Option<Step>> {
        self.step_of(&self.node(id)?, id, parent, all)
    }

    fn step_of(&self, node: &Node, id: PageId, parent: Option<PageId>, all: bool) -> Result<Option<Step>> {
        if !(all && node.level > 0)
            && let Some(runs) = self.runs_to_merge(node, all)
        {
            return Ok(Some(Step::Merge { node: id, runs }));
        }
        if node.level == 0 {
            return Ok(None);
        }
        let has_many = self.has_many_children(node);
        if has_many && parent.is_none() {
            return Ok(Some(Step::Grow));
        }
        // A node is drained before it splits, as a run belongs to one node for life.
        let drain = all || has_many;
        let to_push = |node: &Node| {
            if drain {
                fullest(node, node.runs.len(), |_| true)
            } else {
                self.to_push(node, id)
            }
        };
        let end = to_push(node).map_or(0, |(_, end)| end);
        let mut trimmed = node.clone();
        if self.trim(&mut trimmed, end) > 0 {
            return Ok(Some(Step::Trim { node: id, end }));
        }
        if let (true, Some(parent), true) = (has_many, parent, node.runs.is_empty())
            && self.may_split(parent, node)?
        {
            return Ok(Some(Step::Split { parent, node: id }));
        }
        // Not to a child that gets nothing.
        let Some((slot, end)) = to_push(&trimmed) else {
            return Ok(None);
        };
        let child = node.children[slot].page;
        // The child's maintenance comes first, so that it has room.
        if node.level > 1 {
            let below = self.node_of_level(child, node.level - 1)?;
            if let Some(step) = self.step_of(&below, child, Some(id), false)? {
                return Ok(Some(step));
            }
        }
        Ok(Some(Step::PushDown {
            parent: id,
            child,
            end,
        }))
    }

    /// Whether the parent has room for the upper half of a node. While it has none, the node takes
    /// pushes as it is, so that the parent is drained, and splits, and has room again.
    fn may_split(&self, parent: PageId, node: &Node) -> Result<bool> {
        let Some(middle) = node.children.get(node.children.len() / 2) else {
            return Ok(false);
        };
        let parent = self.node(parent)?;
        Ok(self.room_for_children(&parent, middle.pivot.key.len()) > 0)
    }

    /// Notes where a child has nothing to get from the oldest runs, up to `end`, and takes out the
    /// runs of which every child has its slice; returns how many these were.
    pub(super) fn trim(&self, node: &mut Node, end: usize) -> usize {
        for slot in 0..node.children.len() {
            let mut pushed = node.children[slot].pushed;
            let (low, high) = node.bounds(slot);
            while pushed < end && !may_meet(&self.order, node.runs[pushed].edges(), low, high) {
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
