//! The way from the root to a leaf, and the runs along it.

use super::node::{LiveRun, Node, NodeView};
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use crate::run::{Run, RunEdge};
use bedload_pages::{Error, PageId, PageRead, Result};

/// Runs for which a list of them has room at first.
const RUNS_EXPECTED: usize = 8;

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
    /// The runs that have entries of it, as far as they are wanted, the newest first.
    pub(super) runs: Vec<LiveRun>,
    pub(super) leaf: PageId,
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
    /// readers with their own kind of runs, in an order whose prefixes are exact.
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
        let (interval, nodes) = self.path(match target {
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
            levels: nodes.len(),
        })
    }

    /// Couples latches from the root to a leaf and copies the run lists. No latch is held on
    /// return, and the runs may be retired any time.
    pub(super) fn interval(&self, target: IntervalTarget<'_>) -> Result<Interval> {
        self.interval_of(target, |_| true, |_, _| {})
    }

    /// [`interval`](Self::interval), and the nodes on the way, from the root to the leaf, and of
    /// how many runs each has said something.
    pub(super) fn path(&self, target: IntervalTarget<'_>) -> Result<(Interval, Vec<(PageId, usize)>)> {
        let mut nodes = Vec::new();
        let interval = self.interval_of(target, |_| true, |node, runs| nodes.push((node, runs)))?;
        Ok((interval, nodes))
    }

    /// [`interval`](Self::interval), with those runs alone whose first and last entry are wanted,
    /// as most runs of a node have nothing of a short range. Shows each node to `visit`, and of how
    /// many runs it has said something.
    pub(super) fn interval_of(
        &self,
        target: IntervalTarget<'_>,
        is_wanted: impl Fn((RunEdge, RunEdge)) -> bool,
        mut visit: impl FnMut(PageId, usize),
    ) -> Result<Interval> {
        let mut id = self.root;
        let mut guard = self.store.read(id)?;
        let mut interval = Interval {
            low: None,
            high: None,
            runs: Vec::with_capacity(RUNS_EXPECTED),
            leaf: id,
        };
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
            let child = match view.level {
                0 => None,
                _ => Some(view.child(slot)?),
            };
            let before = interval.runs.len();
            let pushed = child.map_or(0, |(child, _)| child.pushed);
            for index in (pushed..view.runs).rev() {
                if view.edges(index).is_none_or(&is_wanted) {
                    interval.runs.push(view.run(index)?);
                }
            }
            visit(id, interval.runs.len() - before);
            let Some((child, pivot)) = child else {
                interval.leaf = id;
                return Ok(interval);
            };
            if slot > 0 {
                interval.low = Some(pivot.to_buf());
            }
            if slot + 1 < view.children {
                interval.high = Some(view.child(slot + 1)?.1.to_buf());
            }
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
    if is_right { Ok(()) } else { Err(wrong_level(id)) }
}

pub(super) const fn wrong_level(page: PageId) -> Error {
    Error::Corrupt {
        page,
        reason: "its level is not the one its parent has it for",
    }
}

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// A node that is to be of a level, so that damaged pages do not lead in a circle.
    pub(super) fn node_of_level(&self, id: PageId, level: u8) -> Result<Node> {
        Node::decode_of_level(&self.store.read(id)?, id, level)
    }
}

impl Node {
    /// [`decode`](Self::decode) of a node that is to be of a level.
    pub(super) fn decode_of_level(page: &[u8], id: PageId, level: u8) -> Result<Self> {
        let node = Self::decode(page, id)?;
        if node.level == level {
            Ok(node)
        } else {
            Err(wrong_level(id))
        }
    }
}
