//! Checking a whole tree.

use std::collections::BTreeSet;
use std::fmt;

use super::node::{Branch, Node, level_of};
use super::shape::Shape;
use super::tree::BPlusTree;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use bedload_pages::{Error, PageId, PageRead, Result};

/// The report of [`BPlusTree::verify`].
///
/// ```
/// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
/// use bedload_pages::{HeapPages, PageStore};
/// use bedload_trees::{NoRow, U64Order};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(4096);
/// let tree = BPlusTree::create(&pages, U64Order, NoRow, BPlusTreeOptions::new())?;
/// let report = tree.verify()?;
/// assert!(report.is_sound());
/// assert_eq!((report.entries, report.height, report.pages.len()), (0, 1, 1));
/// // Pages that no tree of the store reaches are lost, and can be had back.
/// let lost = pages.sweep(&|page| report.pages.contains(&page))?;
/// assert!(lost.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Everything that is wrong.
    pub problems: Vec<BPlusTreeProblem>,
    /// Entries counted.
    pub entries: u64,
    /// Leaf pages.
    pub leaves: usize,
    /// Branch pages.
    pub branches: usize,
    /// Levels, leaves included.
    pub height: usize,
    /// Nodes that their parents do not know yet. Legal: they are reached by right links, and the
    /// next writer on the way makes them known.
    pub pending_splits: usize,
    /// Bytes of entries in leaves.
    pub leaf_bytes_used: u64,
    /// Bytes of leaves that entries could take.
    pub leaf_bytes: u64,
    /// Every page of the tree: what [`PageStore::sweep`](bedload_pages::PageStore::sweep) must be told to keep.
    pub pages: BTreeSet<PageId>,
}

/// Something wrong with a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BPlusTreeProblem {
    /// The page.
    pub page: PageId,
    /// The damage.
    pub reason: String,
}

impl fmt::Display for BPlusTreeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}: {}", self.page, self.reason)
    }
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, page: PageId, reason: impl Into<String>) {
        self.problems.push(BPlusTreeProblem {
            page,
            reason: reason.into(),
        });
    }
}

/// A node as its parent has it.
#[derive(Debug, Clone)]
struct Expected {
    id: PageId,
    low: Option<PointBuf>,
    high: Option<PointBuf>,
}

/// The header of a node.
struct Seen {
    right: Option<PageId>,
    high: Option<PointBuf>,
    children: Vec<Expected>,
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> BPlusTree<O, L, S> {
    /// Reads every page of the tree and checks it: the order of entries and pivots, fences against
    /// pivots, links against parents, levels, what columns and heap say of each other. Does not
    /// stop at the first problem: what can still be reached is checked.
    ///
    /// Call it only while there are no writers: changes under way may look like problems. O(pages).
    ///
    /// # Errors
    ///
    /// Something failed that concerns no page. Damage and failed reads of pages are in the report.
    pub fn verify(&self) -> Result<Report> {
        let mut report = Report::default();
        let top = match self
            .store
            .read(self.root)
            .and_then(|page| level_of(&page, self.root))
        {
            Ok(level) => level,
            Err(error) => {
                note(&mut report, self.root, error)?;
                return Ok(report);
            }
        };
        report.height = usize::from(top) + 1;
        let mut level_nodes = vec![Expected {
            id: self.root,
            low: None,
            high: None,
        }];
        for level in (0..=top).rev() {
            level_nodes = self.verify_level(&mut report, level, level_nodes)?;
        }
        Ok(report)
    }

    /// Walks one level from left to right, and returns the one below.
    fn verify_level(&self, report: &mut Report, level: u8, nodes: Vec<Expected>) -> Result<Vec<Expected>> {
        let mut below = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let mut next = Some(node.clone());
            while let Some(expected) = next.take() {
                if !report.pages.insert(expected.id) {
                    report.problem(expected.id, "it is reached twice");
                    break;
                }
                let seen = match self.verify_node(report, level, &expected) {
                    Ok(seen) => seen,
                    Err(error) => {
                        note(report, expected.id, error)?;
                        break;
                    }
                };
                below.extend(seen.children);
                let neighbour = nodes.get(index + 1).map(|node| node.id);
                match (seen.right, seen.high) {
                    (right, high) if high == node.high => {
                        if right != neighbour {
                            report.problem(expected.id, "its right neighbour is not its parent's next child");
                        }
                    }
                    // Nodes that the parent does not know yet lie between this one and the next
                    // that it knows.
                    (Some(right), Some(high)) => {
                        report.pending_splits += 1;
                        next = Some(Expected {
                            id: right,
                            low: Some(high),
                            high: node.high.clone(),
                        });
                    }
                    _ => report.problem(expected.id, "it lacks the high fence that its parent gives it"),
                }
            }
        }
        Ok(below)
    }

    fn verify_node(&self, report: &mut Report, level: u8, expected: &Expected) -> Result<Seen> {
        let page = self.store.read(expected.id)?;
        if level == 0 {
            let node = Node::parse(&page, &self.leaf, expected.id, 0)?;
            report.leaves += 1;
            report.entries += node.count() as u64;
            report.leaf_bytes += self.leaf.usable() as u64;
            report.leaf_bytes_used += (node.count() * self.leaf.entry_len + node.heap_len()) as u64;
            self.verify_entries(report, &node, &self.leaf, expected, 0)?;
            Ok(Seen {
                right: node.right(),
                high: node.high().map(|high| high.to_buf()),
                children: Vec::new(),
            })
        } else {
            let node = Branch::parse(&page, &self.branch, expected.id, level)?;
            report.branches += 1;
            self.verify_entries(report, &node, &self.branch, expected, 1)?;
            let mut children = Vec::with_capacity(node.count());
            for slot in 0..node.count() {
                children.push(Expected {
                    id: node.child(slot)?,
                    low: if slot == 0 {
                        expected.low.clone()
                    } else {
                        Some(node.point(slot)?.to_buf())
                    },
                    high: if slot + 1 < node.count() {
                        Some(node.point(slot + 1)?.to_buf())
                    } else {
                        node.high().map(|high| high.to_buf())
                    },
                });
            }
            Ok(Seen {
                right: node.right(),
                high: node.high().map(|high| high.to_buf()),
                children,
            })
        }
    }

    /// Checks the entries of a node from `first` on.
    fn verify_entries<R: RowLayout>(
        &self,
        report: &mut Report,
        node: &Node<'_, R>,
        shape: &Shape<R>,
        expected: &Expected,
        first: usize,
    ) -> Result<()> {
        let id = node.id();
        node.check_slots(0..node.count())?;
        if node.heap_len_of(0..node.count()) != node.heap_len() {
            report.problem(id, "its slots do not add up to the bytes of the heap in use");
        }
        if node.count() > shape.max_entries {
            report.problem(id, "it has more entries than a node may have");
        }
        let mut previous = expected.low.as_ref().map(PointBuf::as_point);
        let mut is_strict = first > 0;
        for index in first..node.count() {
            let point = node.point(index)?;
            if shape.keys && self.order.prefix(point.key) != point.prefix {
                report.problem(id, format!("the prefix of entry {index} is not its key's"));
            }
            if let Some(previous) = previous {
                let order = previous.cmp(&self.order, &point);
                if order.is_gt() || (is_strict && order.is_eq()) {
                    report.problem(
                        id,
                        format!("entry {index} is out of order, or below the low bound"),
                    );
                }
            }
            (previous, is_strict) = (Some(point), true);
        }
        let Some(high) = node.high() else {
            return Ok(());
        };
        if previous.is_some_and(|last| last.cmp(&self.order, &high).is_ge()) {
            report.problem(
                id,
                "its last entry, or its low bound, does not lie below its high fence",
            );
        }
        if let Some(bound) = &expected.high
            && high.cmp(&self.order, &bound.as_point()).is_gt()
        {
            report.problem(id, "its high fence lies above its parent's next pivot");
        }
        Ok(())
    }
}

/// Notes a damaged page; passes on what else went wrong.
fn note(report: &mut Report, page: PageId, error: Error) -> Result<()> {
    match error {
        Error::Corrupt { page, reason } => report.problem(page, reason),
        Error::Store(source) => report.problem(page, source.to_string()),
        error => return Err(error),
    }
    Ok(())
}
