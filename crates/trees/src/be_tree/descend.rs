//! The way from the root to a leaf, and the runs along it.

use super::node::{LiveRun, NodeView};
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use crate::run::{Run, RunEdge};
use bedload_pages::{Error, PageId, PageRead, Result};

/// Where a reader wants to go.
#[derive(Debug, Clone, Copy)]
pub(super) enum IntervalTarget<'k> {
    /// The leftmost leaf.
    First,
    /// The rightmost leaf.
    Last,
    /// The leaf for entries at a point.
    At(Point<'k>),
    /// The leaf for entries just before a point.
    Before(Point<'k>),
}

/// The interval of a leaf, as the nodes on the path to it bound it.
#[derive(Debug)]
pub(super) struct Interval {
    /// The first point of the interval; none in the leftmost leaf.
    pub(super) low: Option<PointBuf>,
    /// The first point behind it; none in the rightmost leaf.
    pub(super) high: Option<PointBuf>,
    /// The runs that have entries of it, the newest first.
    pub(super) runs: Vec<LiveRun>,
    /// The nodes, from the root to the leaf, and of how many runs each has said something.
    pub(super) nodes: Vec<(PageId, usize)>,
}

/// Where to look in a tree whose order has exact prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafTarget {
    /// In the leftmost leaf.
    First,
    /// In the rightmost leaf.
    Last,
    /// In the leaf for an entry.
    At(RunEdge),
    /// In the leaf for what lies just below an entry.
    Before(RunEdge),
}

/// The interval of a leaf, and the runs whose entries it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafInterval {
    /// Where it begins; none in the leftmost leaf.
    pub low: Option<RunEdge>,
    /// Where the next one begins; none in the rightmost leaf.
    pub high: Option<RunEdge>,
    /// The runs that may have entries of it, and others beside them; the newest first.
    pub runs: Vec<Run>,
    /// How many nodes lie on the way to it, the root and the leaf among them.
    pub levels: usize,
}

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// The interval of a leaf and its runs, as they are at one moment: one page a level. For
    /// whoever reads runs of a kind of its own, in an order whose prefixes are exact.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn leaf_interval(&self, target: LeafTarget) -> Result<LeafInterval> {
        let point = |edge: RunEdge| Point {
            prefix: edge.prefix,
            tie: edge.tie,
            key: &[],
        };
        let interval = self.interval(match target {
            LeafTarget::First => IntervalTarget::First,
            LeafTarget::Last => IntervalTarget::Last,
            LeafTarget::At(edge) => IntervalTarget::At(point(edge)),
            LeafTarget::Before(edge) => IntervalTarget::Before(point(edge)),
        })?;
        let edge = |point: PointBuf| RunEdge {
            prefix: point.prefix,
            tie: point.tie,
        };
        Ok(LeafInterval {
            low: interval.low.map(edge),
            high: interval.high.map(edge),
            runs: interval.runs.iter().map(|live| live.run).collect(),
            levels: interval.nodes.len(),
        })
    }

    /// Couples latches from the root to a leaf and copies the run lists. No latch is held on
    /// return, and the runs may be retired any time.
    pub(super) fn interval(&self, target: IntervalTarget<'_>) -> Result<Interval> {
        let mut interval = Interval {
            low: None,
            high: None,
            runs: Vec::new(),
            nodes: Vec::new(),
        };
        let mut id = self.root;
        let mut guard = self.store.read(id)?;
        let mut expected = None;
        loop {
            let view = NodeView::parse(&guard, id)?;
            check_level(&view, id, expected)?;
            let slot = match target {
                IntervalTarget::First => 0,
                IntervalTarget::Last => view.children.saturating_sub(1),
                IntervalTarget::At(point) => view.slot_of(&self.order, &point, true)?,
                IntervalTarget::Before(point) => view.slot_of(&self.order, &point, false)?,
            };
            let before = interval.runs.len();
            interval.runs.reserve(view.runs);
            if view.level == 0 {
                for index in (0..view.runs).rev() {
                    interval.runs.push(view.run(index)?);
                }
                interval.nodes.push((id, interval.runs.len() - before));
                return Ok(interval);
            }
            let (child, pivot) = view.child(slot)?;
            if slot > 0 {
                interval.low = Some(pivot.to_buf());
            }
            if slot + 1 < view.children {
                interval.high = Some(view.child(slot + 1)?.1.to_buf());
            }
            for index in (child.pushed..view.runs).rev() {
                interval.runs.push(view.run(index)?);
            }
            interval.nodes.push((id, interval.runs.len() - before));
            expected = Some(view.level - 1);
            let next = self.store.read(child.page)?;
            guard = next;
            id = child.page;
        }
    }
}

/// Fails if a node is not at the level at which its parent has it.
pub(super) fn check_level(view: &NodeView<'_>, id: PageId, expected: Option<u8>) -> Result<()> {
    let is_right = match expected {
        Some(level) => view.level == level,
        None => view.level > 0,
    };
    if is_right {
        Ok(())
    } else {
        Err(Error::Corrupt {
            page: id,
            reason: "its level is not the one its parent has it for",
        })
    }
}
