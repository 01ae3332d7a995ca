//! Steps of maintenance that merge runs, a bounded piece at a time.

use std::ops::{Bound, Range};

use super::descend::wrong_level;
use super::due::Step;
use super::node::{CHILD_LEN, Child, LiveRun, Node, may_meet};
use super::runs::{MergeTarget, RunMerge, RunSlice, Runs};
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use crate::run::Run;
use bedload_pages::{Batch, PageId, PageStore, Reserved, Result};

/// A merge under way, and where its output goes. Nothing of it is visible until it is published.
pub(super) struct Job<'t, O: KeyOrder + 't, L: Runs<O> + 't, S: PageStore + 't> {
    tree: &'t BeTree<O, L, S>,
    aim: Aim,
    /// The rights to the nodes that it changes. Others may add runs to them meanwhile, behind those
    /// the job has seen, and a vacuum may clean these.
    _rights: Vec<S::Maintenance<'t>>,
    merge: L::Merge<'t, S>,
    /// The least vacuum cycle of the runs it reads, as they were when it began.
    cycle: u64,
    /// Parts of the output that are already finished.
    parts: Vec<Part>,
    /// How many more cuts the output gets, after equal numbers of entries.
    cuts_left: usize,
    /// Bytes that the parent has left for the children that cuts make.
    room: usize,
    entries_per_part: u64,
    /// Entries taken when the present part began.
    part_begun: u64,
    entries_per_page: u64,
}

/// The runs that a new leaf gets: one, unless that would have too many pages.
struct Part {
    runs: Vec<Run>,
    /// Where the next leaf begins.
    next: PointBuf,
}

enum Aim {
    Merge {
        node: PageId,
        inputs: Vec<LiveRun>,
    },
    PushDown {
        parent: PageId,
        child: PageId,
        /// Runs of the parent from the first that was not pushed down to the child.
        pushed: usize,
        slices: Vec<LiveRun>,
        /// The runs that a leaf had.
        own: Vec<LiveRun>,
        is_leaf: bool,
    },
}

/// The outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Published {
    /// Another thread changed the job's inputs: its work is lost.
    pub(super) is_lost: bool,
    /// Entries written, even if the job is lost.
    pub(super) entries: u64,
    pub(super) pages: u64,
}

impl<'t, O: KeyOrder, L: Runs<O>, S: PageStore> Job<'t, O, L, S> {
    /// Begins the job of a step; `None` if the step is out of date or another thread is at work on
    /// it.
    pub(super) fn begin(tree: &'t BeTree<O, L, S>, step: &Step) -> Result<Option<Self>> {
        match *step {
            Step::Merge { node, ref runs } => Self::begin_merge(tree, node, runs.clone()),
            Step::PushDown { parent, child, end } => Self::begin_push_down(tree, parent, child, end),
            _ => Ok(None),
        }
    }

    fn begin_merge(tree: &'t BeTree<O, L, S>, id: PageId, runs: Range<usize>) -> Result<Option<Self>> {
        let Some(right) = tree.store.try_maintain(id) else {
            return Ok(None);
        };
        let node = tree.node(id)?;
        let all = node.level == 0 && runs.start == 0;
        let may_be = [
            tree.runs_to_merge(&node, all),
            BeTree::<O, L, S>::mergeable(&node),
        ];
        if !may_be.contains(&Some(runs.clone())) {
            return Ok(None);
        }
        let inputs = node.runs[runs.clone()].to_vec();
        let slices: Vec<_> = inputs.iter().rev().map(|live| tree.whole(live)).collect();
        let merge = tree.merge(&slices, all)?;
        let cycle = cycle_of(&inputs);
        let entries_per_page = entries_per_page(&inputs);
        Ok(Some(Self {
            tree,
            aim: Aim::Merge { node: id, inputs },
            _rights: vec![right],
            merge,
            cycle,
            parts: Vec::new(),
            cuts_left: 0,
            room: 0,
            entries_per_part: u64::MAX,
            part_begun: 0,
            entries_per_page,
        }))
    }

    fn begin_push_down(
        tree: &'t BeTree<O, L, S>,
        parent_id: PageId,
        child_id: PageId,
        end: usize,
    ) -> Result<Option<Self>> {
        let rights = (tree.store.try_maintain(parent_id)).zip(tree.store.try_maintain(child_id));
        let Some((parent_right, child_right)) = rights else {
            return Ok(None);
        };
        let (parent, child) = {
            let guard = tree.store.read(parent_id)?;
            let parent = Node::decode(&guard, parent_id)?;
            (parent, tree.node(child_id)?)
        };
        let Some(slot) = parent.slot_of(child_id) else {
            return Ok(None);
        };
        if child.level.checked_add(1) != Some(parent.level) {
            return Err(wrong_level(child_id));
        }
        let pushed = parent.children[slot].pushed;
        if pushed >= end || end > parent.runs.len() {
            return Ok(None);
        }
        let is_leaf = child.level == 0;
        if !is_leaf && !tree.has_room_for_run(&child) {
            return Ok(None);
        }
        let end = if is_leaf {
            end
        } else {
            tree.end_with_room(&parent, pushed..end, &child)
        };
        let slices = parent.runs[pushed..end].to_vec();
        let own = if is_leaf { child.runs.clone() } else { Vec::new() };
        let (low, high) = parent.bounds(slot);
        let bounds = [low, high].map(|point| point.map(|point| point.to_buf()));
        let (mut low_key, mut high_key) = (Vec::new(), Vec::new());
        let from = bounds[0].as_ref().map(|low| tree.position(low, &mut low_key));
        let to = bounds[1].as_ref().map(|high| tree.position(high, &mut high_key));
        let from_bound = from.map_or(Bound::Unbounded, Bound::Included);
        let to_bound = to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut expected = child.entries() * u64::from(is_leaf);
        let mut newest_first = Vec::new();
        for live in slices.iter().rev() {
            if !may_meet(&tree.order, live.edges(), low, high) {
                continue;
            }
            let run = tree.run(live.run);
            if is_leaf {
                let rank = |at| tree.layout.estimate_rank(&run, at);
                let begin = from.map_or(Ok(0), rank)?;
                let end = to.map_or(Ok(live.run.entries), rank)?;
                expected = expected.saturating_add(end.saturating_sub(begin));
            }
            newest_first.push(RunSlice {
                run,
                from: from_bound,
                to: to_bound,
            });
        }
        newest_first.extend(own.iter().rev().map(|live| tree.whole(live)));
        let room = tree.kept_for_more_children(&parent);
        let child_len = tree
            .child_len(&parent)
            .unwrap_or(CHILD_LEN + tree.pivot_len_max());
        let inputs: Vec<LiveRun> = slices.iter().chain(&own).copied().collect();
        let entries_per_page = entries_per_page(&inputs);
        // The run of a leaf should not have to be cut.
        let run_entries = tree.run_pages_max().saturating_mul(entries_per_page);
        let wanted = expected / tree.config.leaf_entries.min(run_entries).max(1);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let cuts = if is_leaf { wanted.min(room / child_len) } else { 0 };
        Ok(Some(Self {
            tree,
            merge: tree.merge(&newest_first, is_leaf)?,
            cycle: cycle_of(&inputs),
            entries_per_page,
            aim: Aim::PushDown {
                parent: parent_id,
                child: child_id,
                pushed,
                slices,
                own,
                is_leaf,
            },
            _rights: vec![parent_right, child_right],
            parts: Vec::new(),
            cuts_left: cuts,
            room,
            entries_per_part: expected.div_ceil(cuts as u64 + 1).max(1),
            part_begun: 0,
        }))
    }

    /// Goes on until about so many pages were read and written; whether there is more to do, and
    /// how many pages it were.
    pub(super) fn advance(&mut self, pages: u64) -> Result<(bool, u64)> {
        // As many are written as are read, about.
        let per_page = self.entries_per_page;
        let budget = (pages / 2).max(1).saturating_mul(per_page);
        let begun = self.merge.taken();
        let pages_since = |now: u64| 2 * (now - begun).div_ceil(per_page);
        loop {
            let left = budget - (self.merge.taken() - begun).min(budget);
            if left == 0 {
                return Ok((true, pages_since(self.merge.taken())));
            }
            let in_part = self.merge.taken() - self.part_begun;
            let most = if self.cuts_left > 0 {
                left.min(self.entries_per_part.saturating_sub(in_part).max(1))
            } else {
                left
            };
            if !self.merge.advance(most)? {
                return Ok((false, pages_since(self.merge.taken())));
            }
            if self.cuts_left > 0 && self.merge.taken() - self.part_begun >= self.entries_per_part {
                self.cut()?;
            }
        }
    }

    fn cut(&mut self) -> Result<()> {
        let mut key = Vec::new();
        if let Some(tie) = self.merge.next_position(&mut key) {
            let pivot = self.tree.point_buf(&key, tie);
            // A pivot that is longer than those so far may find no room: the part goes on.
            let child_len = CHILD_LEN + pivot.key.len();
            if child_len <= self.room {
                let runs = self.merge.cut()?;
                if !runs.is_empty() {
                    self.room -= child_len;
                    self.parts.push(Part { runs, next: pivot });
                }
            }
        }
        self.cuts_left -= 1;
        self.part_begun = self.merge.taken();
        Ok(())
    }

    /// Publishes the outcome of a job that has nothing more to do.
    pub(super) fn publish(self) -> Result<Published> {
        let entries = self.merge.taken();
        let tree = self.tree;
        let mut outputs: Vec<Run> = self.parts.iter().flat_map(|part| &part.runs).copied().collect();
        let last = self.merge.finish()?;
        outputs.extend(&last);
        let pages = outputs.iter().map(|run| u64::from(run.pages)).sum();
        let entries_written = outputs.iter().map(|run| run.entries).sum();
        let last = live_runs(&last, self.cycle);
        let retired = match self.aim {
            Aim::Merge { node, inputs } => tree.publish_merged(node, &inputs, last)?,
            Aim::PushDown {
                parent,
                child,
                pushed,
                slices,
                own,
                is_leaf,
            } => {
                let push = Push {
                    parent,
                    child,
                    pushed,
                    slices: &slices,
                    pushed_entries: entries.saturating_sub(entries_of(&own)),
                };
                if is_leaf {
                    tree.publish_in_leaf(&push, &own, &self.parts, self.cycle, last)?
                } else {
                    tree.publish_in_node(&push, last)?
                }
            }
        };
        let is_lost = retired.is_none();
        tree.retire(&retired.unwrap_or(outputs))?;
        Ok(Published {
            is_lost,
            entries: entries_written,
            pages,
        })
    }
}

/// A push-down about to be published.
struct Push<'j> {
    parent: PageId,
    child: PageId,
    pushed: usize,
    slices: &'j [LiveRun],
    pushed_entries: u64,
}

fn cycle_of(inputs: &[LiveRun]) -> u64 {
    inputs.iter().map(|live| live.cycle).min().unwrap_or(0)
}

fn entries_of(runs: &[LiveRun]) -> u64 {
    runs.iter()
        .fold(0, |sum: u64, live| sum.saturating_add(live.run.entries))
}

fn entries_per_page(inputs: &[LiveRun]) -> u64 {
    let entries = entries_of(inputs);
    let pages: u64 = inputs.iter().map(|live| u64::from(live.run.pages)).sum();
    (entries / pages.max(1)).max(1)
}

fn live_runs(runs: &[Run], cycle: u64) -> Vec<LiveRun> {
    runs.iter().map(|&run| LiveRun { run, cycle }).collect()
}

pub(super) fn runs_of(live: &[LiveRun]) -> Vec<Run> {
    live.iter().map(|live| live.run).collect()
}

/// Whether the runs from `at` on are these, and no vacuum has cleaned them since: what was read of
/// them before might bring back what is gone.
fn are_still(node: &Node, at: usize, runs: &[LiveRun]) -> bool {
    let now = node.runs.get(at..at + runs.len());
    now.is_some_and(|now| {
        let pairs = now.iter().zip(runs);
        pairs
            .into_iter()
            .all(|(now, then)| now.run.is(&then.run) && now.cycle == then.cycle)
    })
}

impl<O: KeyOrder, L: Runs<O>, S: PageStore> BeTree<O, L, S> {
    /// All of a run.
    fn whole(&self, live: &LiveRun) -> RunSlice<'static, '_, O, S> {
        RunSlice {
            run: self.run(live.run),
            from: Bound::Unbounded,
            to: Bound::Unbounded,
        }
    }

    fn merge<'t>(
        &'t self,
        newest_first: &[RunSlice<'_, 't, O, S>],
        is_last: bool,
    ) -> Result<L::Merge<'t, S>> {
        let target = MergeTarget {
            store: &self.store,
            order: &self.order,
            options: self.config.run,
            is_last,
        };
        self.layout.merge(newest_first, target)
    }

    /// The most key bytes that a pivot may have.
    fn pivot_len_max(&self) -> usize {
        if self.order.prefix_is_exact() {
            0
        } else {
            Self::key_len_max(self.store.payload_len(), &self.order, &self.config)
        }
    }

    /// The last of the parent's runs whose slices can be pushed down together to a child above the
    /// leaves, at least one: the child has room for the runs that they give.
    fn end_with_room(&self, parent: &Node, runs: Range<usize>, child: &Node) -> usize {
        let rooms = self.room_for_runs(child) as u64;
        let (mut end, mut pages) = (runs.start + 1, u64::from(parent.runs[runs.start].run.pages));
        while end < runs.end {
            pages = pages.saturating_add(parent.runs[end].run.pages.into());
            if pages / self.run_pages_max() + 1 > rooms {
                break;
            }
            end += 1;
        }
        end
    }

    /// Replaces the inputs of a merge with its output; returns the runs to retire, or none if the
    /// merge is lost.
    fn publish_merged(
        &self,
        id: PageId,
        inputs: &[LiveRun],
        merged: Vec<LiveRun>,
    ) -> Result<Option<Vec<Run>>> {
        let batch = self.store.batch(&[id])?;
        let mut node = Node::decode(batch.page(0), id)?;
        let first = &inputs[0].run;
        let Some(at) = node.runs.iter().position(|live| live.run.is(first)) else {
            return Ok(None);
        };
        if !are_still(&node, at, inputs) {
            return Ok(None);
        }
        node.runs.splice(at..at + inputs.len(), merged);
        if node.len() > self.store.payload_len() {
            return Ok(None);
        }
        batch.commit(|pages| node.encode(pages[0]));
        Ok(Some(runs_of(inputs)))
    }

    /// Notes in the parent that the slices were pushed down; the runs to retire, or none if what is
    /// known of the parent is out of date.
    fn note_pushed(&self, parent: &mut Node, push: &Push<'_>) -> Option<Vec<Run>> {
        let slot = parent.slot_of(push.child)?;
        if parent.children[slot].pushed != push.pushed || !are_still(parent, push.pushed, push.slices) {
            return None;
        }
        let before = parent.runs.clone();
        let child = &mut parent.children[slot];
        child.pushed += push.slices.len();
        child.pending = child.pending.saturating_sub(push.pushed_entries);
        let trimmed = self.trim(parent, parent.pushed());
        Some(runs_of(&before[..trimmed]))
    }

    /// Adds the output to a node above the leaves.
    fn publish_in_node(&self, push: &Push<'_>, runs: Vec<LiveRun>) -> Result<Option<Vec<Run>>> {
        let shares = runs.iter().map(|live| self.shares(push.child, &live.run));
        let shares: Vec<_> = shares.collect::<Result<_>>()?;
        let batch = self.store.batch(&[push.parent, push.child])?;
        let mut parent = Node::decode(batch.page(0), push.parent)?;
        let mut child = Node::decode(batch.page(1), push.child)?;
        let Some(retired) = self.note_pushed(&mut parent, push) else {
            return Ok(None);
        };
        if self.room_for_runs(&child) < runs.len().max(1) {
            return Ok(None);
        }
        child.runs.extend(runs);
        shares.iter().for_each(|shares| child.add_pending(shares));
        batch.commit(|pages| {
            parent.encode(pages[0]);
            child.encode(pages[1]);
        });
        Ok(Some(retired))
    }

    /// Gives a leaf what was merged from its own runs and the slices pushed down. If that was cut
    /// into several parts, new leaves to its left get all but the last, so that runs appended
    /// meanwhile stay in their leaf.
    fn publish_in_leaf(
        &self,
        push: &Push<'_>,
        own: &[LiveRun],
        parts: &[Part],
        cycle: u64,
        last: Vec<LiveRun>,
    ) -> Result<Option<Vec<Run>>> {
        // Nobody names the new leaves yet; so they need not be in the batch that does.
        let mut leaves = Vec::new();
        let published = self
            .write_leaves(parts, cycle, &mut leaves)
            .and_then(|()| self.name_leaves(push, own, parts, &leaves, last));
        if !matches!(published, Ok(Some(_))) {
            self.store.retire(&leaves);
        }
        published
    }

    fn write_leaves(&self, parts: &[Part], cycle: u64, leaves: &mut Vec<PageId>) -> Result<()> {
        for part in parts {
            let Reserved { id, generation } = self.store.reserve()?;
            let leaf = Node::leaf(generation, live_runs(&part.runs, cycle));
            match self.store.batch(&[id]) {
                Ok(batch) => batch.commit(|pages| leaf.encode(pages[0])),
                Err(error) => {
                    self.store.release(Reserved { id, generation });
                    return Err(error);
                }
            }
            leaves.push(id);
        }
        Ok(())
    }

    fn name_leaves(
        &self,
        push: &Push<'_>,
        own: &[LiveRun],
        parts: &[Part],
        leaves: &[PageId],
        last: Vec<LiveRun>,
    ) -> Result<Option<Vec<Run>>> {
        let batch = self.store.batch(&[push.parent, push.child])?;
        let mut parent = Node::decode(batch.page(0), push.parent)?;
        let mut leaf = Node::decode(batch.page(1), push.child)?;
        if !are_still(&leaf, 0, own) {
            return Ok(None);
        }
        // Inserting children does not move the one that the slices were pushed down to out of
        // reach.
        let slot = parent.slot_of(push.child);
        let Some(mut retired) = self.note_pushed(&mut parent, push) else {
            return Ok(None);
        };
        let Some(slot) = slot else { return Ok(None) };
        let (pushed, pending) = (parent.children[slot].pushed, parent.children[slot].pending);
        let share = pending / (parts.len() as u64 + 1);
        let mut low = parent.children[slot].pivot.clone();
        for (offset, (part, &page)) in parts.iter().zip(leaves).enumerate() {
            let child = Child {
                page,
                pushed,
                pending: share,
                pivot: std::mem::replace(&mut low, part.next.clone()),
            };
            parent.children.insert(slot + offset, child);
        }
        let child = &mut parent.children[slot + parts.len()];
        child.pivot = low;
        child.pending = pending - share * parts.len() as u64;
        leaf.runs.splice(..own.len(), last);
        if parent.len().max(leaf.len()) > self.store.payload_len() {
            return Ok(None);
        }
        batch.commit(|pages| {
            parent.encode(pages[0]);
            leaf.encode(pages[1]);
        });
        retired.extend(runs_of(own));
        Ok(Some(retired))
    }
}
