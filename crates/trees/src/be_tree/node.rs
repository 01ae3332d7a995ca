//! Trunk nodes.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | magic `0xBED3` |
//! | 2 | 1 | level: 0 for a leaf, a parent's is its children's plus one |
//! | 3 | 1 | zero |
//! | 4 | 2 | runs |
//! | 6 | 2 | children, none in a leaf |
//! | 8 | 8 | generation of the page |
//! | 16 | 8 | zero |
//! | 24 | 88 each | runs, the oldest first |
//! | … | 32 each | children, in the order of their pivots |
//! | … | … | key bytes of the pivots, end to end, where prefixes are not exact |
//!
//! | of a run | bytes | | of a child | bytes | |
//! |---|---|---|---|---|---|
//! | 0 | 4 | root | 0 | 4 | page |
//! | 4 | 4 | first page | 4 | 2 | how many runs of the node, from the oldest, were pushed down to it |
//! | 8 | 8 | generation | 6 | 2 | bytes of the pivot's key |
//! | 16 | 1 | height | 8 | 8 | prefix of the pivot |
//! | 17 | 3 | zero | 16 | 8 | tie of the pivot |
//! | 20 | 4 | pages | 24 | 8 | about how many entries of the node pend for it |
//! | 24 | 8 | entries | | | |
//! | 32 | 8 | tombstones | | | |
//! | 40 | 8 | vacuum cycle that cleaned it last | | | |
//! | 48 | 16 | prefix and tie of its first entry | | | |
//! | 64 | 16 | prefix and tie of its last entry | | | |
//! | 80 | 4 | the page at the top of its filter, 0 for none | | | |
//! | 84 | 4 | pages of bits of its filter | | | |
//!
//! The pivot of the first child is not looked at: the parent says where the node begins.

use super::bytes::{Reader, put};
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use crate::run::{Filter, Run, RunEdge};
use bedload_pages::{Error, PageId, Result};

const MAGIC: u16 = 0xBED3;
pub(super) const HEADER_LEN: usize = 24;
pub(super) const RUN_LEN: usize = 88;
/// Where the edges of a run begin in it.
const EDGES_AT: usize = 48;
pub(super) const CHILD_LEN: usize = 32;

/// A run that a node names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LiveRun {
    pub(super) run: Run,
    /// Nothing that was dead when this vacuum cycle began is left in the run.
    pub(super) cycle: u64,
}

impl LiveRun {
    pub(super) fn edges(&self) -> (RunEdge, RunEdge) {
        (self.run.first, self.run.last)
    }

    fn decode(bytes: &mut Reader<'_>) -> Option<Self> {
        let root = PageId::new(bytes.u32()?)?;
        let first_page = PageId::new(bytes.u32()?)?;
        let generation = bytes.u64()?;
        let height = bytes.u8()?;
        bytes.take(3)?;
        let (pages, entries, tombstones, cycle) = (bytes.u32()?, bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let mut edge = || {
            Some(RunEdge {
                prefix: bytes.u64()?,
                tie: bytes.u64()?,
            })
        };
        let (first, last) = (edge()?, edge()?);
        let filter_root = PageId::new(bytes.u32()?);
        let filter_pages = bytes.u32()?;
        let filter = filter_root.map(|root| Filter {
            root,
            pages: filter_pages,
        });
        let run = Run {
            root,
            first_page,
            generation,
            height,
            pages,
            entries,
            tombstones,
            filter,
            first,
            last,
        };
        Some(Self { run, cycle })
    }

    fn encode(&self, out: &mut [u8]) {
        let run = &self.run;
        out.fill(0);
        put(out, 0, &run.root.get().to_le_bytes());
        put(out, 4, &run.first_page.get().to_le_bytes());
        put(out, 8, &run.generation.to_le_bytes());
        put(out, 16, &[run.height]);
        put(out, 20, &run.pages.to_le_bytes());
        let numbers = [
            run.entries,
            run.tombstones,
            self.cycle,
            run.first.prefix,
            run.first.tie,
            run.last.prefix,
            run.last.tie,
        ];
        for (index, number) in numbers.into_iter().enumerate() {
            put(out, 24 + 8 * index, &number.to_le_bytes());
        }
        if let Some(filter) = run.filter {
            put(out, 80, &filter.root.get().to_le_bytes());
            put(out, 84, &filter.pages.to_le_bytes());
        }
    }
}

/// Whether entries at the point might be in a run with these edges.
pub(super) fn may_hold(order: &impl KeyOrder, (first, last): (RunEdge, RunEdge), point: &Point<'_>) -> bool {
    if order.prefix_is_exact() {
        let edge = RunEdge {
            prefix: point.prefix,
            tie: point.tie,
        };
        (first..=last).contains(&edge)
    } else {
        (first.prefix..=last.prefix).contains(&point.prefix)
    }
}

/// Whether entries from `low` on and before `high` might be in a run with these edges.
pub(super) fn may_meet(
    order: &impl KeyOrder,
    (first, last): (RunEdge, RunEdge),
    low: Option<Point<'_>>,
    high: Option<Point<'_>>,
) -> bool {
    let is_exact = order.prefix_is_exact();
    let tie = |tie: u64| if is_exact { tie } else { 0 };
    let edge = |edge: RunEdge| (edge.prefix, tie(edge.tie));
    let point = |point: Point<'_>| (point.prefix, tie(point.tie));
    low.is_none_or(|low| edge(last) >= point(low))
        && high.is_none_or(|high| {
            if is_exact {
                edge(first) < point(high)
            } else {
                edge(first) <= point(high)
            }
        })
}

/// A child of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) page: PageId,
    /// How many runs of the node, from the oldest, were pushed down to it.
    pub(super) pushed: usize,
    /// About how many entries of the other runs are for it.
    pub(super) pending: u64,
    /// Where it begins.
    pub(super) pivot: PointBuf,
}

/// A node, to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) level: u8,
    pub(super) generation: u64,
    /// The oldest first.
    pub(super) runs: Vec<LiveRun>,
    pub(super) children: Vec<Child>,
}

impl Node {
    pub(super) fn leaf(generation: u64, runs: Vec<LiveRun>) -> Self {
        Self {
            level: 0,
            generation,
            runs,
            children: Vec::new(),
        }
    }

    pub(super) fn decode(page: &[u8], id: PageId) -> Result<Self> {
        let view = NodeView::parse(page, id)?;
        let children = (0..view.children)
            .map(|slot| {
                view.child(slot).map(|(child, pivot)| Child {
                    page: child.page,
                    pushed: child.pushed,
                    pending: child.pending,
                    pivot: pivot.to_buf(),
                })
            })
            .collect::<Result<_>>()?;
        let runs: Vec<LiveRun> = (0..view.runs)
            .map(|index| view.run(index))
            .collect::<Result<_>>()?;
        // A run is found in its node by its name.
        let is_named_before = |at: usize| runs[..at].iter().any(|live| live.run.is(&runs[at].run));
        if (1..runs.len()).any(is_named_before) {
            return view.corrupt("it names a run twice");
        }
        Ok(Self {
            level: view.level,
            generation: view.generation,
            runs,
            children,
        })
    }

    /// Bytes that the children take.
    pub(super) fn children_len(&self) -> usize {
        self.children
            .iter()
            .map(|child| CHILD_LEN + child.pivot.key.len())
            .sum()
    }

    /// Bytes of the node's page that are in use.
    pub(super) fn len(&self) -> usize {
        HEADER_LEN + RUN_LEN * self.runs.len() + self.children_len()
    }

    /// Writes the node to a page in which it fits.
    pub(super) fn encode(&self, page: &mut [u8]) {
        page.fill(0);
        put(page, 0, &MAGIC.to_le_bytes());
        put(page, 2, &[self.level]);
        put(page, 4, &narrow(self.runs.len()).to_le_bytes());
        put(page, 6, &narrow(self.children.len()).to_le_bytes());
        put(page, 8, &self.generation.to_le_bytes());
        let children_at = HEADER_LEN + RUN_LEN * self.runs.len();
        for (run, out) in self.runs.iter().zip(page[HEADER_LEN..].chunks_mut(RUN_LEN)) {
            run.encode(out);
        }
        let mut key_at = children_at + CHILD_LEN * self.children.len();
        for (index, child) in self.children.iter().enumerate() {
            let at = children_at + CHILD_LEN * index;
            put(page, at, &child.page.get().to_le_bytes());
            put(page, at + 4, &narrow(child.pushed).to_le_bytes());
            put(page, at + 6, &narrow(child.pivot.key.len()).to_le_bytes());
            put(page, at + 8, &child.pivot.prefix.to_le_bytes());
            put(page, at + 16, &child.pivot.tie.to_le_bytes());
            put(page, at + 24, &child.pending.to_le_bytes());
            put(page, key_at, &child.pivot.key);
            key_at += child.pivot.key.len();
        }
    }

    /// Removes a run that has nothing for any child.
    pub(super) fn remove_run(&mut self, at: usize) -> Run {
        for child in &mut self.children {
            child.pushed -= usize::from(child.pushed > at);
        }
        self.runs.remove(at).run
    }

    /// How many runs, from the oldest, some child has its slices of.
    pub(super) fn pushed(&self) -> usize {
        self.children.iter().map(|child| child.pushed).max().unwrap_or(0)
    }

    /// The slot of a child.
    pub(super) fn slot_of(&self, page: PageId) -> Option<usize> {
        self.children.iter().position(|child| child.page == page)
    }

    /// Where a child begins and ends, as far as the node says.
    pub(super) fn bounds(&self, slot: usize) -> (Option<Point<'_>>, Option<Point<'_>>) {
        let pivot = |slot: usize| self.children.get(slot).map(|child| child.pivot.as_point());
        (if slot == 0 { None } else { pivot(slot) }, pivot(slot + 1))
    }

    pub(super) fn pending(&self) -> u64 {
        self.children
            .iter()
            .fold(0, |sum: u64, child| sum.saturating_add(child.pending))
    }

    pub(super) fn entries(&self) -> u64 {
        self.runs
            .iter()
            .fold(0, |sum: u64, live| sum.saturating_add(live.run.entries))
    }
}

/// A count or a length within a page, which is shorter than 64 KiB.
fn narrow(value: usize) -> u16 {
    u16::try_from(value).expect("pages are shorter than 64 KiB")
}

/// A node as it lies on its page.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeView<'p> {
    id: PageId,
    pub(super) level: u8,
    pub(super) generation: u64,
    pub(super) runs: usize,
    pub(super) children: usize,
    runs_bytes: &'p [u8],
    children_bytes: &'p [u8],
    keys: &'p [u8],
}

/// A child as it lies on the page of its parent, but for its pivot.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChildView {
    pub(super) page: PageId,
    pub(super) pushed: usize,
    pub(super) pending: u64,
}

impl<'p> NodeView<'p> {
    pub(super) fn parse(page: &'p [u8], id: PageId) -> Result<Self> {
        let corrupt = |reason| Error::Corrupt { page: id, reason };
        let mut bytes = Reader::new(page);
        if bytes.u16() != Some(MAGIC) {
            return Err(corrupt("it is not a trunk node"));
        }
        let mut read = || {
            let [level, _] = bytes.take(2)? else { return None };
            let (runs, children) = (usize::from(bytes.u16()?), usize::from(bytes.u16()?));
            let generation = bytes.u64()?;
            bytes.take(8)?;
            let runs_bytes = bytes.take(runs * RUN_LEN)?;
            let children_bytes = bytes.take(children * CHILD_LEN)?;
            let lens = children_bytes.chunks_exact(CHILD_LEN).map(|child| {
                let mut bytes = Reader::new(&child[6..]);
                bytes.u16().map_or(0, usize::from)
            });
            Some(Self {
                id,
                level: *level,
                generation,
                runs,
                children,
                runs_bytes,
                children_bytes,
                keys: bytes.take(lens.sum())?,
            })
        };
        let view = read().ok_or_else(|| corrupt("its runs and children reach out of it"))?;
        if (view.level == 0) != (view.children == 0) {
            return Err(corrupt("leaves have no children, and other nodes have"));
        }
        Ok(view)
    }

    fn corrupt<T>(&self, reason: &'static str) -> Result<T> {
        Err(Error::Corrupt {
            page: self.id,
            reason,
        })
    }

    /// A run, the oldest being 0.
    pub(super) fn run(&self, index: usize) -> Result<LiveRun> {
        let mut bytes = Reader::new(&self.runs_bytes[index * RUN_LEN..]);
        match LiveRun::decode(&mut bytes) {
            Some(run) => Ok(run),
            None => self.corrupt("it names a run that it cannot have"),
        }
    }

    /// The first and the last entry of a run, without the rest of it.
    pub(super) fn edges(&self, index: usize) -> Option<(RunEdge, RunEdge)> {
        let mut bytes = Reader::new(self.runs_bytes.get(index * RUN_LEN + EDGES_AT..)?);
        let mut edge = || {
            Some(RunEdge {
                prefix: bytes.u64()?,
                tie: bytes.u64()?,
            })
        };
        Some((edge()?, edge()?))
    }

    /// A child and its pivot.
    pub(super) fn child(&self, slot: usize) -> Result<(ChildView, Point<'p>)> {
        let mut key_at = 0;
        for before in self.children_bytes.chunks_exact(CHILD_LEN).take(slot) {
            key_at += usize::from(u16::from_le_bytes([before[6], before[7]]));
        }
        self.child_with_key_at(slot, key_at)
            .map(|(child, pivot, _)| (child, pivot))
    }

    /// A child, its pivot, and where the key of the next one begins.
    fn child_with_key_at(&self, slot: usize, key_at: usize) -> Result<(ChildView, Point<'p>, usize)> {
        let mut bytes = Reader::new(&self.children_bytes[slot * CHILD_LEN..]);
        let mut read = || {
            let page = PageId::new(bytes.u32()?)?;
            let (pushed, key_len) = (usize::from(bytes.u16()?), usize::from(bytes.u16()?));
            let (prefix, tie, pending) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
            let key = self.keys.get(key_at..key_at + key_len)?;
            let child = ChildView {
                page,
                pushed,
                pending,
            };
            (pushed <= self.runs && page != self.id).then_some((
                child,
                Point { prefix, tie, key },
                key_at + key_len,
            ))
        };
        match read() {
            Some(child) => Ok(child),
            None => self.corrupt("it names a child that it cannot have"),
        }
    }

    /// The child for what lies at `point`, or, unless `is_at`, just before it; and where the next
    /// child begins.
    pub(super) fn slot_of(&self, order: &impl KeyOrder, point: &Point<'_>, is_at: bool) -> Result<usize> {
        let (mut slot, mut key_at) = (0, 0);
        for next in 0..self.children {
            let (_, pivot, behind) = self.child_with_key_at(next, key_at)?;
            key_at = behind;
            let relation = pivot.cmp(order, point);
            if next > 0 && !(relation.is_lt() || (is_at && relation.is_eq())) {
                break;
            }
            slot = next;
        }
        Ok(slot)
    }
}
